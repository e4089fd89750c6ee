import gmpy2
import pytest
from gmpy2 import mpfr, mpq
from hypothesis import given
from hypothesis import strategies as st

from presk.exact.decimals import above, digits_of, exactly, shortly
from tests.exact.support import fraction

numbers = st.builds(
    lambda mantissa, exponent, precision: mpfr(mpq(mantissa) * mpq(2) ** exponent, precision),
    st.integers(-(2**260), 2**260) | st.integers(-20, 20),
    st.integers(-400, 100),
    st.sampled_from([2, 3, 24, 53, 100, 256]),
)


@given(numbers, st.sampled_from([2, 53, 128, 256]))
def test_decimals_read_back(number, bits):
    text = exactly(number, bits)
    assert gmpy2.mpfr(text, max(bits, number.precision)) == number
    assert mpq(text) == 0 or (number != 0 and fraction(number) != 0)


@pytest.mark.parametrize(
    "text", ["0.1", "1", "-2.5", "100", "0.00012", "1.5e-30", "1e20", "123456789012", "-3e-200", "0.333", "9.99e40"]
)
def test_short_decimals_come_back_as_they_were_written(text):
    assert exactly(mpfr(text, 256), 256) == text
    assert exactly(mpfr(text, 53), 53) == text


def test_doubles_are_shown_as_what_they_are():
    assert exactly(mpfr(0.1, 53), 256) == "0.1000000000000000055511151231257827021181583404541015625"
    assert exactly(mpfr("-0"), 256) == "0"
    assert exactly(mpfr(1) / 3, 53) == "0.33333333333333331"


@given(numbers.filter(lambda number: number > 0))
def test_bounds_are_never_below(number):
    text = above(number)
    assert mpq(text) >= mpq(number)
    assert mpq(text) <= mpq(number) * mpq(102, 100)


def test_bounds_of_nothing():
    assert above(mpfr(0)) == "0"
    assert above(gmpy2.inf()) == "inf"


def test_short_ones():
    assert shortly(mpfr(1) / 3, 5) == "0.33333"
    assert shortly(mpfr(0), 5) == "0"
    assert shortly(mpfr(-1234567), 3) == "-1230000"
    assert shortly(mpfr("1e-9"), 4) == "1e-9"


@pytest.mark.parametrize("bits", [2, 10, 53, 64, 113, 128, 256, 1000])
def test_digits_suffice(bits):
    """10^(digits − 1) > 2^bits: then no two numbers of so many bits share a decimal (Goldberg, Matula)."""
    assert 10 ** (digits_of(bits) - 1) > 2**bits
