"""Dimensions: normal form, arithmetic, substitution, printing."""

from fractions import Fraction
from functools import reduce

import pytest
from gmpy2 import mpq
from hypothesis import given
from hypothesis import strategies as st

from presk.types.dim import ONE, ZERO, Dim, NonLinear, constant, symbol

NAMES = ("D", "H", "T", "?1")
rationals = st.fractions(min_value=-9, max_value=9, max_denominator=6)
# A form as a plain mapping, which is what the operations are compared with; the key None is the constant.
plain = st.dictionaries(st.sampled_from((None, *NAMES)), rationals, max_size=4)
points = st.fixed_dictionaries({name: st.integers(0, 50) for name in NAMES})


def build(form):
    """The form by the public operations, in the mapping's order."""
    parts = (constant(mpq(value)) if name is None else symbol(name).scaled(mpq(value)) for name, value in form.items())
    return reduce(Dim.__add__, parts, ZERO)


def value(form, point):
    return sum((factor * (1 if name is None else point[name]) for name, factor in form.items()), Fraction(0))


def evaluated(dim, point):
    number = dim.evaluate(point)
    return Fraction(int(number.numerator), int(number.denominator))


def test_normal_form():
    form = symbol("T") + symbol("D").scaled(mpq(4)) + constant(3)
    assert form == Dim(mpq(3), (("D", mpq(4)), ("T", mpq(1))))
    assert form.symbols() == ("D", "T")
    assert form - symbol("T") == symbol("D") * constant(4) + constant(3)


def test_terms_that_cancel_vanish():
    form = symbol("T") + symbol("D")
    assert form - symbol("D") == symbol("T")
    assert form - form == ZERO
    assert (form - form).is_constant()


@given(plain, plain, points)
def test_sum_and_difference_by_value(left, right, point):
    assert evaluated(build(left) + build(right), point) == value(left, point) + value(right, point)
    assert evaluated(build(left) - build(right), point) == value(left, point) - value(right, point)
    assert evaluated(-build(left), point) == -value(left, point)


@given(plain, rationals, points)
def test_product_and_quotient_by_value(form, factor, point):
    assert evaluated(build(form) * constant(mpq(factor)), point) == value(form, point) * factor
    assert build(form) * constant(mpq(factor)) == constant(mpq(factor)) * build(form)
    if factor != 0:
        assert evaluated(build(form).divided(constant(mpq(factor))), point) == value(form, point) / factor


@given(plain, st.randoms(use_true_random=False))
def test_equal_forms_are_equal_values(form, random):
    items = list(form.items())
    random.shuffle(items)
    shuffled = build(dict(items))
    assert shuffled == build(form)
    assert hash(shuffled) == hash(build(form))
    assert all(coefficient != 0 for _, coefficient in shuffled.terms)
    assert list(shuffled.symbols()) == sorted(set(shuffled.symbols()))


@given(plain, st.dictionaries(st.sampled_from(NAMES), plain, max_size=3), points)
def test_substitution_is_simultaneous(form, values, point):
    replaced = build(form).substitute({name: build(inner) for name, inner in values.items()})
    inside = {name: value(values[name], point) if name in values else Fraction(point[name]) for name in NAMES}
    assert evaluated(replaced, point) == value(form, inside)


def test_substitution_swaps():
    form = symbol("D") + symbol("T").scaled(mpq(2))
    assert form.substitute({"D": symbol("T"), "T": symbol("D")}) == symbol("T") + symbol("D").scaled(mpq(2))
    assert symbol("D").substitute({"D": symbol("T"), "T": symbol("H")}) == symbol("T")


def test_substitution_of_nothing_is_the_same_value():
    form = symbol("D") + ONE
    assert form.substitute({"T": ONE}) is form


def test_nonlinear_operations_are_refused():
    with pytest.raises(NonLinear):
        symbol("D") * symbol("D")
    with pytest.raises(NonLinear):
        symbol("D").divided(symbol("D"))
    with pytest.raises(NonLinear):
        constant(0).divided(symbol("D"))
    with pytest.raises(ZeroDivisionError):
        symbol("D").divided(ZERO)


def test_product_with_zero_is_zero():
    assert symbol("D") * ZERO == ZERO
    assert ZERO * symbol("D") == ZERO


@pytest.mark.parametrize(
    ("form", "natural"),
    [
        (constant(0), 0),
        (constant(768), 768),
        (constant(-1), None),
        (constant(mpq(7, 2)), None),
        (symbol("D"), None),
    ],
)
def test_natural(form, natural):
    assert form.natural() == natural


def test_sizes_have_no_limit():
    assert (constant(10**5000) * constant(10**5000)).natural() == 10**10000
    assert str(constant(10**5000) * symbol("D")) == f"1{'0' * 5000}*D"


def test_evaluate_needs_every_symbol():
    with pytest.raises(KeyError):
        (symbol("D") + symbol("T")).evaluate({"D": 1})


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (ZERO, "0"),
        (constant(mpq(-7, 2)), "-7/2"),
        (symbol("D"), "D"),
        (symbol("D").scaled(mpq(4)), "4*D"),
        (symbol("D").scaled(mpq(1, 12)), "D/12"),
        (symbol("D").scaled(mpq(3, 2)) + ONE, "3*D/2 + 1"),
        (symbol("m") + symbol("n"), "m + n"),
        (symbol("D").scaled(mpq(2)) - ONE, "2*D - 1"),
        (symbol("T") - symbol("D"), "-D + T"),
        (ONE - symbol("D").scaled(mpq(2)), "-2*D + 1"),
    ],
)
def test_text(form, text):
    assert str(form) == text
