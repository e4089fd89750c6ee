"""Whole programs: what declarations see of each other, within a file and across files."""

import pytest

from presk.elab.entities import AliasEntity, ConstEntity, DimEntity, ModuleHeader
from presk.elab.program import LOOKED_AT
from presk.types.dim import constant
from presk.types.type import ModuleRef
from tests.elab.support import MAIN, codes, entity, program, reported, signature, words

LIB = """
const V = 5
dim T <= 9
type Acts = ℝ[seq: T, model: V]
module Pos {
  param w : ℝ[T, V]
  fn apply(x : Acts) -> Acts = x
}
fn twice(x : Acts) -> Acts = x
"""


def test_constants_see_those_above_and_imported_ones() -> None:
    found = program({MAIN: 'const A = 2 * m.V\nconst B = A * A\nimport "lib.psk" as m\n', "lib.psk": LIB})
    assert codes(found.diagnostics) == []
    assert entity(found, "B") == ConstEntity("B", constant(100))


@pytest.mark.parametrize(
    "text",
    [
        "const A = B\nconst B = 1\n",
        "const A = A\n",
        "type T = ℝ[B]\nconst B = 1\n",
        "module M { param w : ℝ[B] }\nconst B = 1\n",
        "fn f(x : ℝ[B]) -> ℝ = x\nconst B = 1\n",
        "dim T <= B\nconst B = 1\n",
        "dim T <= S\ndim S\n",
        "dim T <= T\n",
        "model G = stack{B}(M)\nmodule M { }\nconst B = 2\n",
    ],
)
def test_constants_and_bounds_may_not_be_used_above_their_declaration(text: str) -> None:
    found = program(text)
    assert reported(found) == [("E1006", MAIN, 1)]
    (one,) = found.diagnostics
    assert one.labels[0].text == "declared here"


def test_everything_else_may() -> None:
    found = program("""
static assert N == 3
training run { model = M
 objective = f
 optimizer = adamw
 epochs = N }
fn f(θ : params M, x : A) -> ℝ[] = g(x)
fn g(x : A) -> ℝ[] = x
module M { use o : O{B} }
type A = ℝ[batch: B]
module O{D : dim} { param w : ℝ[D] }
dim B
const N = 3
optimizer adamw { lr = 1 }
""")
    assert codes(found.diagnostics) == []
    assert found.training is not None
    assert found.training.epochs == 3


def test_overrides_reach_the_main_file_alone() -> None:
    files = {MAIN: 'import "lib.psk" as m\nconst V = 2\nconst W = V + m.V\ndim D\n', "lib.psk": LIB}
    found = program(files, overrides={"V": 100})
    assert entity(found, "W").value == constant(105)
    assert entity(found, "V", "lib.psk").value == constant(5)
    assert found.unknown_overrides == ()
    assert program(files, overrides={"T": 1, "D": 2, "V": 3}).unknown_overrides == ("T", "D")


def test_an_override_of_what_does_not_parse_is_not_unknown() -> None:
    assert program("const A = = 3\n", overrides={"A": 1}).unknown_overrides == ()


# --- imports ----------------------------------------------------------------------------------------------------------


def test_an_imports_dimension_keeps_its_symbol() -> None:
    found = program({MAIN: 'import "lib.psk" as m\nfn f(x : ℝ[m.T], y : m.Acts) -> ℝ = x\n', "lib.psk": LIB})
    assert codes(found.diagnostics) == []
    taken = signature(found, "f")
    assert taken.dims == ("T",)
    assert [str(fact) for fact in taken.facts] == ["T <= 9"]


def test_unless_the_importing_file_has_one_of_its_name() -> None:
    found = program(
        {MAIN: 'import "lib.psk" as m\ndim T\nfn f(x : ℝ[m.T], y : m.Acts, z : ℝ[T]) -> ℝ = x\n', "lib.psk": LIB}
    )
    taken = signature(found, "f")
    assert taken.dims == ("m.T", "T")
    assert str(taken.params[1].type) == "ℝ[seq: m.T, model: 5]"
    assert [str(fact) for fact in taken.facts] == ["m.T <= 9"]


def test_hidden_dimensions_are_those_of_the_scope_of_use() -> None:
    def hidden(top: str, params: str = "") -> str:
        text = f'import "lib.psk" as m\n{top}\nfn f{params}(θ : params m.Pos) -> ℝ = x\n'
        found = program({MAIN: text, "lib.psk": LIB})
        assert codes(found.diagnostics) == []
        ((name, value),) = signature(found, "f").params[0].type.instance.hidden  # type: ignore[union-attr]
        assert name == "T"
        return str(value)

    assert hidden("") == "T"
    assert hidden("dim T <= 3") == "T"
    assert hidden("const T = 4") == "4"
    assert hidden("const T = 4", "{T : dim}") == "T"


def test_a_module_of_an_import_brings_its_hidden_dimension() -> None:
    found = program({MAIN: 'import "lib.psk" as m\nmodule N { use p : m.Pos }\n', "lib.psk": LIB})
    header = entity(found, "N")
    assert isinstance(header, ModuleHeader)
    assert header.hidden == ("T",)
    assert [str(fact) for fact in header.facts] == ["T <= 9"]
    assert found.headers.keys() == {ModuleRef("lib.psk", "Pos"), ModuleRef(MAIN, "N")}


def test_imports_are_not_passed_on() -> None:
    found = program(
        {
            MAIN: 'import "a.psk" as a\nconst X = a.c.V\ntype Y = a.c.Acts\n',
            "a.psk": 'import "lib.psk" as c\n',
            "lib.psk": LIB,
        }
    )
    assert reported(found) == [("E1001", MAIN, 2), ("E1001", MAIN, 3)]


def test_what_is_wrong_in_an_import_is_shown_there_once() -> None:
    found = program(
        {
            MAIN: 'import "a.psk" as a\nimport "b.psk" as b\nconst X = a.Y + b.Y\nfn f(x : a.Z) -> ℝ = x\n',
            "a.psk": 'import "c.psk" as c\nconst Y = c.Y\ntype Z = ℝ[Q]\n',
            "b.psk": 'import "c.psk" as c\nconst Y = c.Y\n',
            "c.psk": "const Y = 1 / 0\n",
        }
    )
    assert reported(found) == [("E1001", "a.psk", 3), ("E1023", "c.psk", 1)]


def test_nothing_follows_from_a_missing_import_or_a_declaration_that_does_not_parse() -> None:
    found = program("""
import "gone.psk" as g
import "x.psk
const A = = 3
type T = = ℝ
fn f( = 3
module M { param w : = }
const B = A + g.V + s.W
fn h(x : T, y : g.T, θ : params M, η : params g.M) -> ℝ[B] = f(x) + g.f(y)
dim D <= A
static assert A == 3
model G = g.M ∘ M
""")
    assert sorted({code for code, _, _ in reported(found)}) == ["E0001", "E0003", "E0009", "E1002"]


def test_of_two_imports_under_one_alias_the_first_counts() -> None:
    found = program(
        {
            MAIN: 'import "a.psk" as m\nimport "b.psk" as m\nconst X = m.V\n',
            "a.psk": "const V = 1\n",
            "b.psk": "const V = 2\n",
        }
    )
    assert reported(found) == [("E1012", MAIN, 2)]
    assert entity(found, "X").value == constant(1)


# --- cycles -----------------------------------------------------------------------------------------------------------


def test_a_cycle_leaves_everything_else() -> None:
    found = program("""
module M {
  param w : ℝ[3]
  use n : N
  fn apply(x : ℝ) -> ℝ = x
}
module N {
  use m : M
  param v : ℝ[Q]
}
type A = (B, ℝ)
type B = A
fn f(a : A, θ : params M) -> ℝ = Z.apply(x)
""")
    assert reported(found) == [("E2016", MAIN, 8), ("E1013", MAIN, 9), ("E1018", MAIN, 12)]
    assert [one.name for one in entity(found, "M").fields] == ["w", "n"]
    assert entity(found, "N").broken == ("m", "v")
    assert entity(found, "B") == AliasEntity("B", None)


def test_recursion_is_reported_at_the_call_that_closes_it() -> None:
    found = program("""
fn f(x : ℝ) -> ℝ = g(x)
fn g(x : ℝ) -> ℝ = h(f(x))
fn h(x : ℝ) -> ℝ = h(h(x)) + k(x)
fn k(x : ℝ) -> ℝ = x
module M {
  fn a(x : ℝ) -> ℝ = b(x)
  fn b(x : ℝ) -> ℝ = a(x)
}
fn l(x : ℝ) -> ℝ = M.a(x) + l(x)
""")
    assert reported(found) == [("E2016", MAIN, line) for line in (3, 4, 8, 10)]
    first = next(one for one in found.diagnostics if one.primary.place.chunk == "fn g")
    assert "`f` → `g` → `f`" in first.message
    assert [(label.place.chunk, label.text) for label in first.labels] == [("fn f", "`f` calls `g`")]
    assert any("`M.a` → `M.b` → `M.a`" in one.message for one in found.diagnostics)


def test_long_chains_take_no_recursion() -> None:
    count = 1_050
    lines = [f"type A{i} = A{i + 1}" for i in range(count)] + [f"type A{count} = ℝ"]
    lines += [f"module M{i} {{ use n : M{i + 1} }}" for i in range(count)] + [f"module M{count} {{ param w : ℝ }}"]
    lines += [f"fn f{i}(x : A0) -> ℝ = f{i + 1}(x)" for i in range(count)] + [f"fn f{count}(x : ℝ) -> ℝ = f0(x)"]
    found = program("\n".join(lines) + "\n")
    assert reported(found) == [("E2016", MAIN, len(lines))]


# --- functions --------------------------------------------------------------------------------------------------------


def test_bodies_are_typed_in_order_of_declaration() -> None:
    found = program("""
fn a(x : ℝ) -> ℝ = x
module M {
  fn b(x : ℝ) -> ℝ = x
  fn c(x : ℝ) -> ℝ = x
}
fn d(x : ℝ) -> ℝ = x
fn d(x : ℝ) -> ℝ = x
""")
    assert [str(one.key) for one in found.functions] == ["a", "M.b", "M.c", "d"]
    assert reported(found) == [("E1012", MAIN, 8)]


def test_a_signature_is_completed_for_those_that_come_later() -> None:
    found = program("fn f(x) = x\nfn g(y : ℝ) -> ℝ = f(y)\n")
    assert signature(found, "f").complete


def test_functions_with_axis_parameters_are_typed_once_for_each_choice() -> None:
    found = program("""
fn f(axis a, x : ℝ[a: 3]) -> ℝ = gone(x)
fn g(axis b, x : ℝ[b: 3]) -> ℝ = f(axis b, x)
fn h(x : ℝ[seq: 3]) -> ℝ = f(axis seq, x) + f(axis model, x) + f(axis seq, x)
fn k(x : ℝ[seq: 3]) -> ℝ = g(axis head, x)
fn unused(axis c, x : ℝ[c: 3]) -> ℝ = missing(x)
""")
    choices = [(str(one.key), one.axes) for one in found.functions if one.axes]
    assert sorted(choices) == sorted(
        [
            ("f", ("axis a",)), ("g", ("axis b",)), ("unused", ("axis c",)),
            ("f", ("seq",)), ("f", ("model",)), ("g", ("head",)), ("f", ("b",)), ("unused", ("c",)),
        ]
    )  # fmt: skip
    # What is wrong is said once, for the first choice; one that nothing calls is judged with its parameters' own names.
    assert reported(found) == [("E2002", MAIN, 2), ("E2002", MAIN, 6)]
    (first,) = (one for one in found.diagnostics if one.primary.place.chunk == "fn f")
    assert "with axis a = " in words(first)


def test_what_a_builtin_reads_is_seen_where_it_is_called() -> None:
    text = "const H = 3\nfn f(x : ℝ) -> ℝ = split_heads(x)\nfn g(x : ℝ) -> ℝ = x\n"
    found = program(text, implied={"split_heads": ("H", "HD")})
    assert codes(found.diagnostics) == ["E2002"]


# --- effects, proposals -----------------------------------------------------------------------------------------------


def test_effects() -> None:
    assert reported(program("effect Rand\neffect Time\n")) == [("E4002", MAIN, 2)]


@pytest.mark.parametrize(
    "text, proposal",
    [
        ("const HEADS = 1\nconst A = HEDS\n", "HEADS"),
        ("module Linear { }\nmodel G = Liner\n", "Linear"),
        ("type Tokens = ℝ\ntype A = Token\n", "Tokens"),
        ('import "lib.psk" as m\nconst A = m.v\n', "m.V"),
        ('import "lib.psk" as model\nconst A = mdel.V\n', "model"),
        ("dim Batch\ntype A = ℝ[Bacth]\n", "Batch"),
        ("module M{Width : dim} {\n  param w : ℝ[Wdith]\n}\n", "Width"),
        ("fn f{Width : dim}(x : ℝ[Width, Widht]) -> ℝ = x\n", "Width"),
        ("fn helper(x : ℝ) -> ℝ = x\nfn f(x : ℝ) -> ℝ = helpr(x)\n", "helper"),
        ("fn f(x : ℝ) -> ℝ = softmx(x)\n", "softmax"),
    ],
)
def test_what_was_probably_meant(text: str, proposal: str) -> None:
    found = program({MAIN: text, "lib.psk": LIB}, builtins=("softmax",))
    (one,) = found.diagnostics
    assert f"did you mean `{proposal}`?" in words(one)


def test_no_proposal_where_nothing_is_near() -> None:
    (one,) = program("const A = 3\nconst B = Q\n").diagnostics
    assert "did you mean" not in words(one)


def test_proposals_are_bounded() -> None:
    """Each looks at every name of the file; the time must not grow with the product."""
    count = 400
    lines = [f"const Name{i} = {i}" for i in range(count)] + [f"type A{i} = ℝ[Naem{i}]" for i in range(count)]
    found = program("\n".join(lines) + "\n")
    proposed = [one for one in found.diagnostics if "did you mean" in words(one)]
    assert len(found.diagnostics) == count
    assert 0 < len(proposed) <= LOOKED_AT // count
    assert "`Name0`" in words(found.diagnostics[0])


def test_an_implicit_dimension_keeps_its_mend() -> None:
    (one,) = program("dim Batch\nfn f(x : ℝ[Bacth]) -> ℝ = x\n").diagnostics
    assert one.code == "W0001"
    assert one.mend is not None
    assert "declare it" in one.mend
    assert "did you mean `Batch`?" in one.notes


def test_an_empty_program() -> None:
    found = program("-- nothing\n")
    assert (found.diagnostics, found.functions, found.headers) == ((), (), {})
    assert not found.failed


def test_dimensions_of_a_file() -> None:
    found = program("dim S <= 10\ndim T <= 2*S + 1\n")
    of_t = entity(found, "T")
    assert isinstance(of_t, DimEntity)
    assert [str(fact) for fact in of_t.facts] == ["T <= 2*S + 1", "S <= 10"]
