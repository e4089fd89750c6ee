"""Module expressions, headers, initializers, models."""

from typing import Any

import pytest

from presk.diagnostics.report import Reporter
from presk.elab.entities import AliasEntity, ConstEntity, DimEntity, ModuleHeader
from presk.elab.modules import elaborate_header, elaborate_model, elaborate_module, initializer, outline
from presk.syntax import tree
from presk.types.claim import Claim, Relation
from presk.types.decide import Decider
from presk.types.dim import constant, symbol
from presk.types.trees import Init, ParamField, UseField
from presk.types.type import Axis, ModuleRef, ModuleType, Named, Real, Shape
from tests.elab.support import MAIN, codes, declaration, env_with, expr, scope, words

FACT = Claim(Relation.LE, symbol("T"), constant(9))
LINEAR = ModuleHeader(ModuleRef(MAIN, "Linear"), ("In", "Out"), (), (), (), ("apply",))
POS = ModuleHeader(ModuleRef(MAIN, "Pos"), (), ("T",), (FACT,), (), ("apply", "other"))
BARE = ModuleHeader(ModuleRef(MAIN, "Bare"), (), (), (), (), ("run",))
ENV = env_with(
    ConstEntity("D", constant(8)),
    DimEntity("B"),
    DimEntity("T", (FACT,)),
    LINEAR,
    POS,
    BARE,
    AliasEntity("Net", ModuleType(Named(LINEAR.ref, (constant(2), constant(3))))),
    AliasEntity("Acts", Real()),
    paths={"m.Linear": LINEAR},
)


@pytest.mark.parametrize(
    "text, shown",
    [
        ("Pos", "Pos"),
        ("Linear{D, 4*D}", "Linear{8, 32}"),
        ("m.Linear{B, T + 1}", "Linear{B, T + 1}"),
        ("stack{D}(Pos)", "stack{8}(Pos)"),
        ("stack{0}(Pos)", "stack{0}(Pos)"),
        ("stack{B}(stack{3}(Linear{1, 1}))", "stack{B}(stack{3}(Linear{1, 1}))"),
        ("Linear{1, 2} ∘ Pos", "Linear{1, 2} ∘ Pos"),
        ("Pos ∘ Pos ∘ Pos", "Pos ∘ Pos ∘ Pos"),
        ("Pos ∘ (Pos ∘ Pos)", "Pos ∘ (Pos ∘ Pos)"),
        ("stack{2}(Pos ∘ Linear{1, 2}) ∘ Pos", "stack{2}(Pos ∘ Linear{1, 2}) ∘ Pos"),
        ("Net", "Linear{2, 3}"),
    ],
)
def test_module_expressions(text: str, shown: str) -> None:
    reporter = Reporter()
    assert str(elaborate_module(expr(text), scope(ENV), reporter)) == shown
    assert reporter.diagnostics() == ()


def test_compositions_associate_to_the_left() -> None:
    left = elaborate_module(expr("Pos ∘ Linear{1, 2} ∘ Net"), scope(ENV), Reporter())
    grouped = elaborate_module(expr("(Pos ∘ Linear{1, 2}) ∘ Net"), scope(ENV), Reporter())
    assert left is not None
    assert left == grouped


def test_a_module_named_stack_is_a_module() -> None:
    own = ModuleHeader(ModuleRef(MAIN, "stack"), ("L",), (), (), (), ())
    assert str(elaborate_module(expr("stack{3}"), scope(env_with(own)), Reporter())) == "stack{3}"


@pytest.mark.parametrize(
    "text, code, said",
    [
        ("Linear", "E1009", "takes 2"),
        ("Linear{1}", "E1009", "1 is given"),
        ("Pos{1}", "E1009", "no dimension arguments"),
        ("Pos(Pos)", "E1009", "takes no module arguments"),
        ("stack(Pos)", "E1009", "stack{L}(M)"),
        ("stack{1, 2}(Pos)", "E1009", "stack{L}(M)"),
        ("stack{1}", "E1009", "stack{L}(M)"),
        ("stack", "E1009", "stack{L}(M)"),
        ("stack{1}(Pos, Pos)", "E1009", "stack{L}(M)"),
        ("stack{1}(m = Pos)", "E1009", "stack{L}(M)"),
        ("Gone", "E1001", "unknown module"),
        ("Gone{3}", "E1001", "unknown module"),
        ("n.Linear{1, 2}", "E1001", "no import is called `n`"),
        ("D", "E1014", "a constant"),
        ("Acts", "E1014", "not a module"),
        ("3", "E1014", "not a module expression"),
        ("Pos + Pos", "E1014", "`+`"),
        ("Pos |> Pos", "E1014", "`|>`"),
        ("Pos ⊗ Pos", "E1014", "`⊗`"),
        ("f(x)(y)", "E1014", "not a module expression"),
        ("Bare ∘ Pos", "E1014", "`Bare` has no `apply`"),
        ("Pos ∘ stack{2}(Bare)", "E1014", "`stack{2}(Bare)` has no `apply`"),
        ("stack{B*T}(Pos)", "E1007", "product"),
        ("Net{3}", "E1009", "takes no arguments"),
    ],
)
def test_what_is_no_module(text: str, code: str, said: str) -> None:
    reporter = Reporter()
    assert elaborate_module(expr(text), scope(ENV), reporter) is None
    (one,) = reporter.diagnostics()
    assert one.code == code
    assert said in words(one)


def header(text: str) -> tuple[ModuleHeader, list[tuple[str, str]]]:
    """The header of a module, and the code and chunk of everything that was said."""
    found, said = elaborate_header(outline(declaration(text)), ENV, Decider())
    return found, [(one.code, one.primary.place.chunk) for one in said]


def test_a_header() -> None:
    found, said = header("""
module M{A B : dim} {
  param w, v : ℝ[A, n: 4*B]  init = normal(std = 0.02)
  param b : param ℝ[]
  use l1, l2 : Linear{A, B}
  fn apply(x : ℝ) -> ℝ = x
  param g : ℝ[D, T] init = ones
  fn other(x : ℝ) -> ℝ = x
}
""")
    assert said == []
    assert found.ref == ModuleRef(MAIN, "M")
    assert found.dims == ("A", "B")
    assert found.functions == ("apply", "other")
    assert [(one.name, str(getattr(one, "type", getattr(one, "instance", None)))) for one in found.fields] == [
        ("w", "ℝ[A, n: 4*B]"),
        ("v", "ℝ[A, n: 4*B]"),
        ("b", "ℝ[]"),
        ("l1", "Linear{A, B}"),
        ("l2", "Linear{A, B}"),
        ("g", "ℝ[8, T]"),
    ]
    inits = [one.init for one in found.fields if isinstance(one, ParamField)]
    assert inits == [Init("normal", "0.02"), Init("normal", "0.02"), Init("zeros"), Init("ones")]
    assert (found.hidden, found.facts) == (("T",), (FACT,))


def test_hidden_dimensions_come_from_parameters_and_uses() -> None:
    found, _ = header("module M { use a : Linear{B, 2}\n use p : stack{3}(Pos)\n param w : ℝ[B] }")
    assert found.hidden == ("B", "T")
    inner = found.fields[1]
    assert isinstance(inner, UseField)
    assert str(inner.instance) == "stack{3}(Pos)"


def test_a_type_parameter_is_the_value_of_a_hidden_dimension_of_its_name() -> None:
    found, _ = header("module M{T : dim} { use p : Pos }")
    assert found.hidden == ()
    (use,) = found.fields
    assert isinstance(use, UseField)
    assert use.instance == Named(POS.ref, (), (("T", symbol("T")),))


def test_a_files_dimension_behind_a_type_parameter_of_its_name() -> None:
    env = env_with(DimEntity("T", (FACT,)), AliasEntity("Row", Real(Shape((Axis(symbol("T"), "seq"),))), (FACT,)), POS)
    found, _ = elaborate_header(
        outline(declaration("module M{T : dim} { param w : Row\n param v : ℝ[T] }")), env, Decider()
    )
    assert (found.dims, found.hidden) == (("T",), ("dim T",))
    assert [str(claim) for claim in found.facts] == ["dim T <= 9"]
    assert str(found.fields[0].type) == "ℝ[seq: dim T]"  # type: ignore[union-attr]
    # Where the module is used, it is the file's dimension again, with its bound.
    outside = env_with(found)
    used = elaborate_module(expr("M{4}"), scope(outside), Reporter())
    assert used == Named(found.ref, (constant(4),), (("dim T", symbol("T")),))
    assert scope(outside).all_facts() == (FACT,)


def test_what_is_refused_is_broken_and_the_rest_stays() -> None:
    found, said = header("""
module M{A A : dim, S : Shape} {
  param w : idx[3][A]
  param ok : ℝ[A]
  param bad, worse : ℝ[Q]
  use l : Linear{1}
  param ok : ℝ
  param p : ℝ[..., 3]
  fn ok(x : ℝ) -> ℝ = x
  param n : Net
}
""")
    assert said == [
        ("E1012", ""),
        ("E1019", ""),
        ("E1011", "module M/param w"),
        ("E1013", "module M/param bad"),
        ("E1009", "module M/use l"),
        ("E1012", "module M/param ok#2"),
        ("E1010", "module M/param p"),
        ("E1011", "module M/param n"),
        ("E1012", "module M/fn ok"),
    ]
    assert [one.name for one in found.fields] == ["ok"]
    assert found.broken == ("w", "bad", "worse", "l", "p", "n")
    assert found.functions == ()


def test_members_that_did_not_parse_are_broken() -> None:
    found, _ = elaborate_header(outline(declaration("module M { }"), ("w", "apply")), ENV, Decider())
    assert found.broken == ("w", "apply")


def test_an_outline_does_not_hold_bodies() -> None:
    one = outline(declaration("module M { param w : ℝ\n fn f(x : ℝ) -> ℝ = x + w }"))
    other = outline(declaration("module M { param w : ℝ\n fn f(y : ℝ[3], z : nat) = gelu(y) }"))
    assert one == other


@pytest.mark.parametrize(
    "text, init",
    [
        ("zeros", Init("zeros")),
        ("ones", Init("ones")),
        ("xavier_uniform", Init("xavier_uniform")),
        ("normal(std = 0.02)", Init("normal", "0.02")),
        ("normal(std = 2e-3)", Init("normal", "2e-3")),
    ],
)
def test_initializers(text: str, init: Init) -> None:
    reporter = Reporter()
    assert initializer(expr(text), reporter) == init
    assert reporter.diagnostics() == ()


@pytest.mark.parametrize(
    "text, said",
    [
        ("kaiming", "`kaiming` is not an initializer"),
        ("orthogonal(3)", "`orthogonal`"),
        ("zeros()", "without parentheses"),
        ("normal", "normal(std = 0.02)"),
        ("normal()", "normal(std = 0.02)"),
        ("normal(0.02)", "normal(std = 0.02)"),
        ("normal(std = 1)", "normal(std = 0.02)"),
        ("normal(std = S)", "normal(std = 0.02)"),
        ("normal(std = -0.5)", "normal(std = 0.02)"),
        ("normal(mean = 0.5, std = 0.02)", "normal(std = 0.02)"),
        ("0.02", "xavier_uniform"),
        ("zeros + ones", "xavier_uniform"),
    ],
)
def test_other_initializers_are_refused(text: str, said: str) -> None:
    reporter = Reporter()
    initializer(expr(text), reporter)
    (one,) = reporter.diagnostics()
    assert one.code == "E2013"
    assert said in words(one)


def model(text: str) -> tuple[Any, tuple[str, ...]]:
    node = declaration(text)
    assert isinstance(node, tree.Model)
    found, said = elaborate_model(node, ENV, Decider())
    return found, tuple(codes(said))


def test_a_model_is_a_module_of_its_name() -> None:
    found, said = model("model GPT = stack{12}(Pos) ∘ Linear{B, D}")
    assert said == ()
    assert found.ref == ModuleRef(MAIN, "GPT")
    assert str(found.model) == "stack{12}(Pos) ∘ Linear{B, 8}"
    assert (found.dims, found.fields, found.functions) == ((), (), ("apply",))
    assert (found.hidden, found.facts) == (("T", "B"), (FACT,))
    assert model("model P = stack{2}(Pos)")[0].functions == ("apply", "other")


def test_a_model_that_is_none() -> None:
    assert model("model GPT = Linear") == (None, ("E1009",))
    assert model("model GPT = Acts") == (None, ("E1014",))
