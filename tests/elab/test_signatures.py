"""Signatures of functions."""

import msgspec
import pytest

from presk.diagnostics.value import Diagnostic
from presk.elab.entities import AliasEntity, ConstEntity, DimEntity, Env, ModuleHeader, Signature
from presk.elab.signatures import elaborate_signature, header_place
from presk.syntax import tree
from presk.types.claim import Claim, Relation
from presk.types.decide import Decider
from presk.types.dim import constant, symbol
from presk.types.type import Axis, ModuleRef, ModuleType, Params, Real, Shape
from tests.elab.support import MAIN, codes, declaration, env_with, words


def bound(name: str, most: int) -> Claim:
    return Claim(Relation.LE, symbol(name), constant(most))


LINEAR = ModuleHeader(ModuleRef(MAIN, "Linear"), ("In", "Out"), (), (), (), ("apply",))
POS = ModuleHeader(ModuleRef("m.psk", "Pos"), (), ("P",), (bound("P", 9),), (), ("apply",))
ENV = env_with(
    ConstEntity("D", constant(8)),
    DimEntity("B"),
    DimEntity("T", (bound("T", 1024),)),
    AliasEntity("Acts", Real(Shape((Axis(symbol("B"), "batch"), Axis(symbol("T"), "seq")))), (bound("T", 1024),)),
    LINEAR,
    paths={"m.Pos": POS},
)


def elaborated(
    text: str, header: ModuleHeader | None = None, env: Env = ENV
) -> tuple[Signature, tuple[Diagnostic, ...]]:
    fn = declaration(text)
    assert isinstance(fn, tree.Fn)
    return elaborate_signature(fn, f"fn {fn.name}", header, env, Decider())


def test_a_signature() -> None:
    found, said = elaborated(
        "fn f{K : dim}(θ : params Linear{D, K}, x : Acts, n : nat = 3, axis a, y) -> (ℝ, ℝ[K]) uses Rand = x"
    )
    assert said == ()
    assert (found.name, found.file, found.chunk, found.module) == ("f", MAIN, "fn f", None)
    assert (found.dims, found.own, found.axes) == (("K", "B", "T"), 1, ("a",))
    assert [(one.name, str(one.type), one.axis) for one in found.params] == [
        ("θ", "params Linear{8, K}", False),
        ("x", "ℝ[batch: B, seq: T]", False),
        ("n", "nat", False),
        ("a", "None", True),
        ("y", "None", False),
    ]
    assert found.params[2].default == tree.Nat((26, 26), "3")
    assert str(found.result) == "(ℝ[], ℝ[K])"
    assert found.uses == ("Rand",)
    assert found.facts == (bound("T", 1024),)
    assert (found.complete, found.refused) == (False, False)


def test_what_a_type_leaves_out_makes_it_incomplete() -> None:
    assert elaborated("fn f(x : ℝ) -> ℝ = x")[0].complete
    assert not elaborated("fn f(x : ℝ) = x")[0].complete
    assert not elaborated("fn f(x) -> ℝ = x")[0].complete
    assert elaborated("fn f(axis a, x : ℝ[a: D]) -> ℝ = x")[0].complete


def test_a_module_typed_parameter_is_known_to_its_right() -> None:
    found, said = elaborated("fn f(net : Linear{D, 4*D}, θ : params net) -> params net = θ")
    assert said == ()
    net, θ = found.params
    assert isinstance(net.type, ModuleType)
    assert θ.type == found.result == Params(net.type.instance)


def test_implicit_dimensions() -> None:
    found, said = elaborated("fn f(t : idx[V][N, M], θ : params Linear{N, D}) -> ℝ[M + N] = t")
    assert found.dims == ("V", "N", "M")
    assert [(one.code, one.unknown) for one in said] == [("W0001", "V"), ("W0001", "N"), ("W0001", "M")]
    assert "dim V" in words(said[0])
    assert "{V : dim}" in words(said[0])
    assert not found.refused


def test_an_implicit_dimension_of_a_parameters_name_says_so() -> None:
    _, (one,) = elaborated("fn f(n : nat, x : ℝ[n]) -> ℝ = x")
    assert one.code == "W0001"
    assert "the parameter `n` is another thing" in words(one)


def test_a_member_has_the_dimensions_of_its_module() -> None:
    header = ModuleHeader(ModuleRef(MAIN, "M"), ("In", "Out"), ("T",), (bound("T", 1024),), (), ("apply",))
    found, said = elaborated("fn apply{K : dim}(x : ℝ[..., In, K]) -> ℝ[..., Out, B] = x", header)
    assert said == ()
    assert (found.module, found.qualified) == (ModuleRef(MAIN, "M"), "M.apply")
    # The module's, its own, what the parameters of the module mention, what its types mention.
    assert (found.dims, found.own) == (("In", "Out", "K", "T", "B"), 3)
    assert found.facts == (bound("T", 1024),)


def test_a_member_may_not_have_implicit_dimensions() -> None:
    header = ModuleHeader(ModuleRef(MAIN, "M"), (), (), (), (), ("apply",))
    found, said = elaborated("fn apply(x : ℝ[N, 3], y : ℝ[N]) -> ℝ[N] = x", header)
    (one,) = said
    assert one.code == "E1013"
    assert [label.text for label in one.labels] == ["here too", "here too"]
    assert found.refused


def test_hidden_dimensions_bring_their_bounds_unless_the_file_has_its_own() -> None:
    found, said = elaborated("fn f(θ : params m.Pos) -> ℝ = θ")
    assert said == ()
    assert (found.dims, found.facts) == (("P",), (bound("P", 9),))
    own = env_with(DimEntity("P", (bound("P", 4),)), paths={"m.Pos": POS})
    assert elaborated("fn f(θ : params m.Pos) -> ℝ = θ", env=own)[0].facts == (bound("P", 4),)
    typed, _ = elaborated("fn f{P : dim}(θ : params m.Pos) -> ℝ = θ")
    assert (typed.dims, typed.facts) == (("P",), ())
    fixed = env_with(ConstEntity("P", constant(3)), paths={"m.Pos": POS})
    assert elaborated("fn f(θ : params m.Pos) -> ℝ = θ", env=fixed)[0].dims == ()


def test_a_type_parameter_hides_the_files_dimension_and_its_bound() -> None:
    found, said = elaborated("fn f{T : dim}(x : Acts, y : ℝ[T]) -> ℝ = x")
    assert said == ()
    assert found.dims == ("T", "B", "dim T")
    assert found.facts == (bound("dim T", 1024),)


@pytest.mark.parametrize(
    "text, code, said",
    [
        ("fn f(x : ℝ, x : ℝ) -> ℝ = x", "E1012", "parameter `x`"),
        ("fn f{K K : dim}(x : ℝ[K]) -> ℝ = x", "E1012", "type parameter `K`"),
        ("fn f{S : Shape}(x : ℝ) -> ℝ = x", "E1019", "`Shape`"),
        ("fn f(θ : params net, net : Linear{1, 2}) -> ℝ = θ", "E1015", "declared later"),
        ("fn f(net : nat, θ : params net) -> ℝ = θ", "E1015", "not a module"),
        ("fn f(θ : params net) -> ℝ = θ", "E1001", "unknown module `net`"),
        ("fn f(x : ℝ) -> Linear{1, 2} = x", "E1014", "params Linear"),
        ("fn f(x : ℝ) -> ℝ uses Time = x", "E4002", "`Time`"),
        ("fn f(axis a : ℝ) -> ℝ = a", "E1014", "axis parameter"),
        ("fn f(axis a = 3) -> ℝ = a", "E1014", "axis parameter"),
        ("fn f(axis a, x : ℝ[a]) -> ℝ = x", "E1014", "write `a: N`"),
    ],
)
def test_refusals(text: str, code: str, said: str) -> None:
    found, diagnostics = elaborated(text)
    assert codes(diagnostics) == [code]
    assert said in words(diagnostics[0])
    assert found.refused


def test_a_function_may_not_repeat_its_modules_type_parameter() -> None:
    header = ModuleHeader(ModuleRef(MAIN, "M"), ("K",), (), (), (), ("f",))
    found, said = elaborated("fn f{K : dim}(x : ℝ[K]) -> ℝ = x", header)
    assert codes(said) == ["E1012"]
    assert found.dims == ("K",)


def test_a_signature_does_not_depend_on_its_body() -> None:
    fn = declaration("fn f(x : ℝ[D]) -> ℝ uses Rand =\n  let y = x\n  y + y")
    assert header_place(fn) == (0, 13)
    header = msgspec.structs.replace(fn, body=None, at=header_place(fn))
    assert elaborate_signature(header, "fn f", None, ENV, Decider()) == elaborated("fn f(x : ℝ[D]) -> ℝ uses Rand = x")
