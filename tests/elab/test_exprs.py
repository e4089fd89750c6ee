"""Constant and dimension expressions."""

import pytest
from gmpy2 import mpq, mpz
from hypothesis import given
from hypothesis import strategies as st

from presk.diagnostics.report import Reporter
from presk.diagnostics.value import Place
from presk.elab.entities import AliasEntity, ConstEntity, DimEntity, Env, LateEntity, OtherEntity
from presk.elab.exprs import constant_value, decimal_value, dimension, may_be_natural
from presk.types.claim import Claim, Relation
from presk.types.dim import Dim, constant, symbol
from presk.types.type import Real
from tests.elab.support import MAIN, codes, env_with, expr, scope, words

LATE = LateEntity("Late", Place(1, 1, "const Late", MAIN))
BOUND = (Claim(Relation.LE, symbol("Z"), constant(0)),)
ENV = Env(
    MAIN,
    {
        "D": ConstEntity("D", constant(768)),
        "H": ConstEntity("H", constant(12)),
        "O": ConstEntity("O", constant(0)),
        "Bad": ConstEntity("Bad", None),
        "T": DimEntity("T"),
        "B": DimEntity("B"),
        "Z": DimEntity("Z", BOUND),
        "m.V": ConstEntity("V", constant(5)),
        "m.T": DimEntity("m.T"),
        "Acts": AliasEntity("Acts", Real()),
        "f": OtherEntity("f", "a function", Place(1, 1, "fn f", MAIN)),
        "Late": LATE,
    },
    {},
    {},
    frozenset({"m"}),
    frozenset({"gone", "lost"}),
)


def evaluated(text: str, **more: object) -> tuple[Dim | None, list[str]]:
    reporter = Reporter()
    options = {name: more.pop(name) for name in ("natural", "fractions", "wrong_kind") if name in more}
    found = dimension(expr(text), scope(ENV, **more), reporter, **options)  # type: ignore[arg-type]
    return found, codes(reporter.diagnostics())


@pytest.mark.parametrize(
    "text, form",
    [
        ("0", "0"),
        ("768 / 12", "64"),
        ("D / H", "64"),
        ("4*T", "4*T"),
        ("T*4 - 1", "4*T - 1"),
        ("T + B", "B + T"),
        ("T - 1 + 1", "T"),
        ("-T + 2*T", "T"),
        ("-(-(3))", "3"),
        ("(4*T) / 2", "2*T"),
        ("(6*T + 9) / 3", "2*T + 3"),
        ("1/2 * (4*T)", "2*T"),
        ("(4*T) / (-2) + 3*T", "T"),
        ("T / 1", "T"),
        ("T / (1/3)", "3*T"),
        ("7 / 2 * 2", "7"),
        ("T * 0", "0"),
        ("Z / 2", "Z/2"),
        ("m.V * m.T", "5*m.T"),
        ("2.5 * 4", "10"),
        ("3e2", "300"),
        ("99999999999999999999 * 99999999999999999999", "9999999999999999999800000000000000000001"),
        ("T - 5", "T - 5"),
    ],
)
def test_linear_forms(text: str, form: str) -> None:
    found, said = evaluated(text)
    assert said == []
    assert str(found) == form


@pytest.mark.parametrize(
    "text, code, said",
    [
        ("T * B", "E1007", "product"),
        ("T * T", "E1007", "product"),
        ("(T + 1) * (B + 2)", "E1007", "product"),
        ("12 / T", "E1007", "division"),
        ("T / T", "E1007", "division"),
        ("T / 0", "E1023", "zero"),
        ("D / O", "E1023", "zero"),
        ("T / 2", "E1008", "fails for T = 1"),
        ("1/2 * T", "E1008", "fails for T = 1"),
        ("(2*T + 6) / 3", "E1008", "fails for T = 1"),
        ("(6*T) / 4", "E1008", "fails for T = 1"),
        ("(T + B) / 2", "E1008", "fails for B = 0, T = 1"),
        ("(4*T + 1) / 2", "E1008", "fails for T = 0"),
        ("7 / 2", "E1020", "7/2"),
        ("3 - 4", "E1020", "-1"),
        ("T + 1/2", "E1020", "no natural number at any value"),
        ("-T - 1", "E1020", "no natural number at any value"),
        ("Q", "E1001", "Q"),
        ("m.W", "E1001", "W"),
        ("n.V", "E1001", "n"),
        ("m.k.V", "E1001", "import that file itself"),
        ("Late", "E1006", "before its declaration"),
        ("Acts", "E1014", "type alias"),
        ("f", "E1014", "function"),
        ("m", "E1014", "imported file"),
        ("T % 2", "E1014", "static assertion"),
        ("2^3", "E1014", "power"),
        ("T <= 2", "E1014", "<="),
        ("g(2)", "E1014", "not a dimension expression"),
        ('"a"', "E1014", "not a dimension expression"),
    ],
)
def test_refusals(text: str, code: str, said: str) -> None:
    reporter = Reporter()
    assert dimension(expr(text), scope(ENV), reporter) is None
    (one,) = reporter.diagnostics()
    assert one.code == code
    assert said in words(one)


@pytest.mark.parametrize("text", ["Bad + 1", "gone * 2", "lost.V", "gone / 0 * 0 + Bad"])
def test_what_was_refused_before_is_no_further_error(text: str) -> None:
    found, said = evaluated(text)
    assert found is None
    assert "E1001" not in said


def test_both_operands_report() -> None:
    assert evaluated("(T * T) + (B / 2) + Q")[1] == ["E1007", "E1008", "E1001"]


def test_the_codes_of_a_slice_bound() -> None:
    assert evaluated("Acts", wrong_kind="E1007")[1] == ["E1007"]


def test_a_type_parameter_hides_the_file() -> None:
    found, said = evaluated("D + T", params=frozenset({"D"}))
    assert (str(found), said) == ("D + T", [])


def test_a_dimension_behind_a_type_parameter_of_its_name_has_another_symbol() -> None:
    env = env_with(paths={"m.T": DimEntity("T")})
    reporter = Reporter()
    found = dimension(expr("m.T + T"), scope(env, params=frozenset({"T"})), reporter)
    assert str(found) == "T + dim T"


def test_undeclared_names() -> None:
    implicit: dict[str, tuple[int, int]] = {}
    assert str(evaluated("N + M + N", implicit=implicit)[0]) == "M + 2*N"
    assert list(implicit) == ["N", "M"]
    assert evaluated("N", known=frozenset({"N"})) == (symbol("N"), [])
    assert evaluated("N", module="M")[1] == ["E1013"]
    assert evaluated("N")[1] == ["E1001"]


def test_assertions_may_speak_of_fractions_and_negatives() -> None:
    assert str(evaluated("0.5 * T - 3", natural=False, fractions=True)[0]) == "T/2 - 3"
    assert evaluated("T / 3", natural=False, fractions=True)[1] == ["E1008"]


@pytest.mark.parametrize(
    "text, value",
    [("2.0", 2), ("3 - 5 + 4", 2), ("-(2 - 7) / 5", 1), ("1 / 3 + 1 / 6 + 1 / 2", 1), ("m.V", 5), ("0", 0)],
)
def test_constants(text: str, value: int) -> None:
    reporter = Reporter()
    assert constant_value("N", expr(text), scope(ENV), reporter) == constant(value)
    assert reporter.diagnostics() == ()


@pytest.mark.parametrize(
    "text, code, said",
    [
        ("768 / 7", "E1005", "768/7"),
        ("3 - 5", "E1005", "negative"),
        ("0.5 + 0.25", "E1005", "3/4"),
        ("2 * T", "E1014", "its value is not known"),
        ("f + 1", "E1014", "function"),
        ("Q", "E1001", "Q"),
        ("Late", "E1006", "Late"),
        ("1 / O", "E1023", "zero"),
        ("1e2000000", "E1005", "digits"),
        ("1e-2000000", "E1005", "digits"),
    ],
)
def test_wrong_constants(text: str, code: str, said: str) -> None:
    reporter = Reporter()
    assert constant_value("N", expr(text), scope(ENV), reporter) is None
    (one,) = reporter.diagnostics()
    assert one.code == code
    assert said in words(one)


def test_products_that_would_fill_the_memory_are_refused() -> None:
    huge = env_with(ConstEntity("A", constant(mpz(2) ** 3_000_000)))
    for text in ("A * A", "A / (1 / A)", "A * A * A"):
        reporter = Reporter()
        assert dimension(expr(text), scope(huge), reporter) is None
        assert codes(reporter.diagnostics()) == ["E1020"]


@pytest.mark.parametrize(
    "text, value",
    [
        ("0.1", mpq(1, 10)),
        ("3e-4", mpq(3, 10000)),
        ("1e2", mpq(100)),
        ("12", mpq(12)),
        ("2.50E+1", mpq(25)),
        ("0e99999999", mpq(0)),
        ("0e999999999999", mpq(0)),
        ("1e999999999999", None),
        ("1e1000001", None),
    ],
)
def test_literals_are_exact(text: str, value: mpq | None) -> None:
    assert decimal_value(text) == value


@given(st.integers(0, 10**30), st.integers(0, 40), st.integers(-30, 30))
def test_literals_against_fractions(digits: int, places: int, exponent: int) -> None:
    text = str(digits).rjust(places + 1, "0")
    written = f"{text[: len(text) - places]}.{text[len(text) - places :]}" if places else text
    assert decimal_value(f"{written}e{exponent}") == mpq(digits) * mpq(10) ** (exponent - places)


def test_a_long_sum_takes_no_recursion() -> None:
    # The tree of a chain is as deep as it is long; the parser bounds it, this walk does not need it to.
    deep = expr(" + ".join(["T"] * 400))
    reporter = Reporter()
    assert str(dimension(deep, scope(ENV), reporter)) == "400*T"


@given(st.integers(-4, 4), st.integers(-9, 9))
def test_what_may_be_natural(coefficient: int, base: int) -> None:
    form = Dim(mpq(base), (("T", mpq(coefficient)),)) if coefficient else constant(base)
    values = [base + coefficient * value for value in range(12)]
    assert may_be_natural(form) == any(value >= 0 for value in values)
