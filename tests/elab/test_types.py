"""Type expressions."""

import pytest

from presk.diagnostics.report import Reporter
from presk.diagnostics.value import Place
from presk.elab.entities import AliasEntity, ConstEntity, DimEntity, Env, ModuleHeader, OtherEntity
from presk.elab.types import MAX_DEPTH, MAX_PARTS, elaborate_type
from presk.types.claim import Claim, Relation
from presk.types.dim import constant, symbol
from presk.types.type import Axis, ModuleRef, ModuleType, Named, Params, Real, Shape, Tuple
from tests.elab.support import MAIN, env_with, scope, type_expr, type_of, words

LINEAR = ModuleHeader(ModuleRef("m.psk", "Linear"), ("In", "Out"), (), (), (), ("apply",))
HIDING = ModuleHeader(
    ModuleRef("m.psk", "Pos"), (), ("T",), (Claim(Relation.LE, symbol("T"), constant(9)),), (), ("apply",)
)
ACTS = AliasEntity("Acts", Real(Shape((Axis(symbol("B"), "batch"), Axis(symbol("T"), "seq")))))
ENV = env_with(
    ConstEntity("D", constant(768)),
    DimEntity("B"),
    DimEntity("T"),
    ACTS,
    LINEAR,
    AliasEntity("Open", Real(Shape((Axis(constant(3)),), "..."))),
    AliasEntity("Bad", None),
    AliasEntity("Net", ModuleType(Named(LINEAR.ref, (constant(2), constant(3))))),
    OtherEntity("f", "a function", Place(1, 1, "fn f", MAIN)),
    paths={"m.Pos": HIDING},
)


@pytest.mark.parametrize(
    "text, shown",
    [
        ("ℝ", "ℝ[]"),
        ("ℝ[]", "ℝ[]"),
        ("ℝ[batch: B, D, 4*T]", "ℝ[batch: B, 768, 4*T]"),
        ("ℝ[..., model: D]", "ℝ[..., model: 768]"),
        ("idx[D]", "idx[768]"),
        ("idx[T + 1][seq: T]", "idx[T + 1][seq: T]"),
        ("bool[seq: T, seq2: T]", "bool[seq: T, seq2: T]"),
        ("bool", "bool"),
        ("nat", "nat"),
        ("key", "key"),
        ("(ℝ, (nat, key))", "(ℝ[], (nat, key))"),
        ("()", "()"),
        ("param ℝ[D]", "ℝ[768]"),
        ("Acts", "ℝ[batch: B, seq: T]"),
        ("(Acts, Acts)", "(ℝ[batch: B, seq: T], ℝ[batch: B, seq: T])"),
        ("Linear{D, 4*D}", "Linear{768, 3072}"),
        ("params Linear{B, T}", "params Linear{B, T}"),
        ("params Net", "params Linear{2, 3}"),
        ("params m.Pos", "params Pos"),
        ("ℝ[0]", "ℝ[0]"),
    ],
)
def test_types(text: str, shown: str) -> None:
    assert str(type_of(text, ENV)) == shown


@pytest.mark.parametrize(
    "text, code, said",
    [
        ("ℝ[3, ...]", "E1010", "front"),
        ("idx[3][3, ..., 4]", "E1010", "front"),
        ("ℝ[a: 2, b: 3, a: 2]", "E1021", "`a`"),
        ("ℝ[3 / 2]", "E1020", "3/2"),
        ("idx[-1][3]", "E1020", "-1"),
        ("Tokens", "E1001", "unknown type `Tokens`"),
        ("m.Linear", "E1001", "no import is called `m`"),
        ("D", "E1014", "a constant"),
        ("f", "E1014", "a function"),
        ("Acts{3}", "E1009", "takes no arguments"),
        ("nat{3}", "E1009", "without arguments"),
        ("Linear", "E1009", "takes 2 dimension arguments, 0 are given"),
        ("Linear{3}", "E1009", "`Linear{In, Out}`"),
        ("Linear{1, 2, 3}", "E1009", "3 are given"),
        ("m.Pos{1}", "E1009", "takes no dimension arguments, 1 is given"),
        ("params Acts", "E1014", "not a module"),
        ("params D", "E1014", "a constant"),
        ("params Gone", "E1001", "unknown module `Gone`"),
        ("(ℝ, Linear{1, 2})", "E1014", "params Linear"),
        ("(ℝ, Net)", "E1014", "params Net"),
    ],
)
def test_refusals(text: str, code: str, said: str) -> None:
    reporter = Reporter()
    assert elaborate_type(type_expr(text), scope(ENV), reporter, module_typed=True) is None
    (one,) = reporter.diagnostics()
    assert one.code == code
    assert said in words(one)


def test_every_axis_and_part_reports() -> None:
    reporter = Reporter()
    assert elaborate_type(type_expr("(ℝ[Q, 3, P], idx[R][S], Gone)"), scope(ENV), reporter) is None
    assert [one.unknown for one in reporter.diagnostics()] == ["Q", "P", "R", "S", "Gone"]


def test_a_refused_alias_is_no_further_error() -> None:
    reporter = Reporter()
    assert elaborate_type(type_expr("(Bad, ℝ)"), scope(ENV), reporter) is None
    assert reporter.diagnostics() == ()


def test_a_module_is_a_parameters_type_only() -> None:
    reporter = Reporter()
    assert elaborate_type(type_expr("Linear{1, 2}"), scope(ENV), reporter) is None
    assert [one.code for one in reporter.diagnostics()] == ["E1014"]


@pytest.mark.parametrize("text", ["ℝ[..., 3]", "Open", "(ℝ, Open)"])
def test_where_no_prefix_may_stand(text: str) -> None:
    reporter = Reporter()
    assert elaborate_type(type_expr(text), scope(ENV), reporter, prefix=False) is None
    assert [one.code for one in reporter.diagnostics()] == ["E1010"]


def test_params_of_a_parameter_to_the_left() -> None:
    instance = Named(LINEAR.ref, (constant(1), constant(2)))
    inside = scope(ENV, instances={"net": instance}, parameters={"net": (0, 0), "x": (1, 1), "y": (30, 30)})
    reporter = Reporter()
    assert elaborate_type(type_expr("params net"), inside, reporter) == Params(instance)
    for text, said in [("params x", "not a module"), ("params y", "declared later"), ("params net{3}", "arguments")]:
        reporter = Reporter()
        assert elaborate_type(type_expr(text), inside, reporter) is None
        (one,) = reporter.diagnostics()
        assert one.code == ("E1009" if "{" in text else "E1015")
        assert said in words(one)


def test_hidden_dimensions_are_what_their_name_means_in_the_scope() -> None:
    def hidden(env: Env, params: frozenset[str] = frozenset()) -> str:
        found = elaborate_type(type_expr("params m.Pos"), scope(env, params=params), Reporter())
        assert isinstance(found, Params)
        assert isinstance(found.instance, Named)
        ((name, value),) = found.instance.hidden
        assert name == "T"
        return str(value)

    plain = {"m.Pos": HIDING}
    assert hidden(env_with(paths=plain)) == "T"
    assert hidden(env_with(DimEntity("T"), paths=plain)) == "T"
    assert hidden(env_with(ConstEntity("T", constant(7)), paths=plain)) == "7"
    assert hidden(env_with(ConstEntity("T", constant(7)), paths=plain), frozenset({"T"})) == "T"


def test_an_alias_does_not_capture_a_type_parameter() -> None:
    found = elaborate_type(type_expr("(Acts, ℝ[T])"), scope(ENV, params=frozenset({"T"})), Reporter())
    assert str(found) == "(ℝ[batch: B, seq: dim T], ℝ[T])"


def test_a_declared_type_comes_before_the_languages() -> None:
    env = env_with(AliasEntity("key", Real()))
    assert type_of("key", env) == Real()
    assert str(type_of("key", env_with(ConstEntity("key", constant(3))))) == "key"


def test_types_that_aliases_blow_up_are_refused() -> None:
    wide = AliasEntity("Wide", Tuple((Real(),) * (MAX_PARTS // 2)))
    deep: Tuple = Tuple((Real(),))
    for _ in range(MAX_DEPTH):
        deep = Tuple((deep,))
    env = env_with(wide, AliasEntity("Deep", deep))
    for text in ("(Wide, Wide, Wide)", "(Deep, nat)"):
        reporter = Reporter()
        assert elaborate_type(type_expr(text), scope(env), reporter) is None
        assert [one.code for one in reporter.diagnostics()] == ["E0007"]
    assert isinstance(type_of("(Wide, nat)", env), Tuple)
