import gmpy2
import numpy as np
import pytest
from gmpy2 import mpfr, mpq
from hypothesis import given
from hypothesis import strategies as st

from presk.exact import codec
from tests.exact.support import fraction

numbers = st.builds(
    lambda mantissa, exponent, precision: mpfr(mpq(mantissa) * mpq(2) ** exponent, precision),
    st.integers(-(2**200), 2**200),
    st.integers(-500, 500),
    st.integers(2, 330),
)


@given(st.lists(numbers, max_size=30))
def test_numbers_come_back(xs):
    bits = codec.unpack(xs)
    assert codec.pack(bits.sign, bits.exponent, bits.limbs, 64 * len(bits.limbs)) == xs
    for at, x in enumerate(xs):
        mantissa = sum(int(limb) << (64 * place) for place, limb in enumerate(bits.limbs[:, at]))
        scale = mpq(2) ** (int(bits.exponent[at]) - 64 * len(bits.limbs))
        assert mpq(int(bits.sign[at]) * mantissa) * scale == mpq(x)


def test_zeros_are_one_object_without_a_sign():
    bits = codec.unpack([mpfr("-0"), mpfr(0), mpfr(1)])
    found = codec.pack(bits.sign, bits.exponent, bits.limbs, 64)
    assert found[0] is codec.ZERO
    assert found[1] is codec.ZERO
    assert found[2] == 1


def test_no_numbers():
    assert codec.unpack([]).limbs.shape == (1, 0)
    assert codec.pack(np.zeros(0, np.int8), np.zeros(0, np.int64), np.zeros((1, 0), np.uint64), 64) == []


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, width=64), max_size=20))
def test_doubles_are_exact(xs):
    found = codec.from_doubles(np.array(xs, dtype=np.float64))
    assert [fraction(one) for one in found] == [fraction(mpfr(x)) for x in xs]
    assert all(one.precision == 53 for one in found if one != 0)


def test_doubles_at_the_edges():
    xs = [5e-324, -5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 0.0, -0.0]
    assert [float(one) for one in codec.from_doubles(np.array(xs))] == [abs(x) if x == 0 else x for x in xs]


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=40))
def test_bit_lengths(values):
    array = np.array(values, dtype=np.uint64)
    assert codec.bit_lengths(array).tolist() == [value.bit_length() for value in values]


def limbs_of(values, width):
    return np.array(
        [[(value >> (64 * place)) & (2**64 - 1) for value in values] for place in range(width)], dtype=np.uint64
    )


wide = st.lists(
    st.integers(0, 2**192 - 1) | st.sampled_from([0, 1, 2**64, 2**191, 2**128 - 1]), min_size=1, max_size=20
)


@given(wide)
def test_lengths_and_trailing_zeros(values):
    limbs = limbs_of(values, 3)
    assert codec.total_lengths(limbs).tolist() == [value.bit_length() for value in values]
    expected = [(value & -value).bit_length() - 1 if value else 0 for value in values]
    assert codec.trailing_zeros(limbs).tolist() == expected


@given(wide, st.data())
def test_shifts(values, data):
    shifts = data.draw(st.lists(st.integers(-300, 400), min_size=len(values), max_size=len(values)))
    moved = codec.shifted(limbs_of(values, 3), np.array(shifts), 5)
    expected = [(value << by if by >= 0 else value >> -by) % 2**320 for value, by in zip(values, shifts)]
    assert moved.tolist() == limbs_of(expected, 5).tolist()


def test_exponents_outside_the_range():
    one = np.array([[1 << 63]], dtype=np.uint64)
    sign = np.array([1], dtype=np.int8)
    with pytest.raises(OverflowError):
        codec.pack(sign, np.array([1 << 30]), one, 64)
    assert codec.pack(sign, np.array([-(1 << 30)]), one, 64) == [0]
    largest = codec.pack(sign, np.array([(1 << 30) - 1]), one, 64)[0]
    assert gmpy2.get_exp(largest) == (1 << 30) - 1


def test_a_changed_layout_is_refused(monkeypatch):
    monkeypatch.setattr(codec, "to_binary", lambda number: gmpy2.to_binary(number)[::-1])
    with pytest.raises(RuntimeError):
        codec._check_layout()
