"""The kernel interpreter: every operation against exact rationals, MPFR or numpy at hard cases, memory, workers, traps."""

import math
import operator
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from presk.kernels.build import Builder
from presk.kernels.interpret import (
    DTYPES,
    BadArguments,
    Trap,
    bf16_of,
    fma32,
    fma64,
    integer_to_f32,
    interpret,
    pattern32,
    pattern64,
    value32,
    value64,
    value_bf16,
)
from presk.kernels.ir import (
    Access,
    BinaryOp,
    CompareOp,
    Elem,
    Kernel,
    UnaryOp,
)
from presk.kernels.parse import parse
from tests.kernels.strategies import (
    F32_SPECIAL,
    F64_SPECIAL,
    aliased,
    arguments,
    differences,
    filled,
    kernels,
    patterns,
)

# --- Rounding, from its definition -------------------------------------------------------------------------------------------------

FORMATS: Final = {Elem.F64: (53, -1074, 1024), Elem.F32: (24, -149, 128), Elem.BF16: (8, -133, 128)}
"""Bits of the significand, exponent of the least number, exponent beyond the largest one."""

BOTH: Final = (Elem.F64, Elem.F32)


def rounded(exact: Fraction, elem: Elem) -> Fraction | float:
    """The nearest number of a format, ties to even; an infinity beyond. The sign of a zero is not said."""
    precision, least, beyond = FORMATS[elem]
    if not exact:
        return Fraction(0)
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** exponent > size:
        exponent -= 1
    assert Fraction(2) ** exponent <= size < Fraction(2) ** (exponent + 1)
    unit = Fraction(2) ** max(exponent - precision + 1, least)
    nearest = round(size / unit) * unit  # `round` of a fraction: ties to even
    if nearest >= Fraction(2) ** beyond:
        return math.inf if exact > 0 else -math.inf
    return nearest if exact > 0 else -nearest


def is_rounded(result: float, exact: Fraction, elem: Elem, zero: float = 0.0) -> bool:
    """Whether a result is the rounded value; a zero has the sign of the exact value, or of `zero` where that is 0 itself."""
    expected = rounded(exact, elem)
    if expected == 0:
        return result == 0 and math.copysign(1, result) == (
            math.copysign(1, zero) if not exact else 1 if exact > 0 else -1
        )
    return result == expected


def finite(elem: Elem) -> st.SearchStrategy[float]:
    """Finite numbers of a format, hard ones often."""
    read = value64 if elem is Elem.F64 else value32
    return patterns(elem).map(read).filter(math.isfinite)


# --- Running one operation ---------------------------------------------------------------------------------------------------------

UNSIGNED: Final = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def of_bits(elem: Elem, bits: Sequence[int]) -> Any:
    """An array for a buffer with such patterns."""
    dtype = np.dtype(DTYPES[elem])
    return np.array(bits, UNSIGNED[dtype.itemsize]).view(dtype)


def bits(array: Any) -> list[int]:
    """The patterns of an array."""
    found: list[int] = array.view(UNSIGNED[array.dtype.itemsize]).tolist()
    return found


def run(elems: Sequence[Elem], result: Elem, make: Callable[..., Any], *operands: Any) -> Any:
    """What an operation gives, lane by lane, on arrays of such buffers' elements."""
    lanes = len(operands[0])
    b = Builder()
    buffers = [b.buffer(elem, lanes) for elem in elems]
    out = b.buffer(result, lanes, Access.OUT)
    b.store(out, b.at(), make(b, *(b.load(buffer, b.at(), lanes) for buffer in buffers)))
    found = np.zeros(lanes, DTYPES[result])
    interpret(b.kernel(), [*operands, found])
    return found


def unary(elem: Elem, op: UnaryOp, operands: Sequence[int]) -> list[int]:
    return bits(run([elem], elem, lambda b, x: b.unary(op, x), of_bits(elem, operands)))


def binary(elem: Elem, op: BinaryOp, xs: Sequence[int], ys: Sequence[int]) -> list[int]:
    return bits(run([elem] * 2, elem, lambda b, x, y: b.binary(op, x, y), of_bits(elem, xs), of_bits(elem, ys)))


SPECIALS: Final = {Elem.F64: F64_SPECIAL, Elem.F32: F32_SPECIAL}
VALUE: Final = {Elem.F64: value64, Elem.F32: value32}
PATTERN: Final = {Elem.F64: pattern64, Elem.F32: pattern32}
DTYPE: Final = {Elem.F64: np.float64, Elem.F32: np.float32}
EXACT: Final = {
    BinaryOp.ADD: operator.add,
    BinaryOp.SUB: operator.sub,
    BinaryOp.MUL: operator.mul,
    BinaryOp.DIV: operator.truediv,
}


def same_floats(elem: Elem, left: Sequence[int], right: Sequence[int]) -> bool:
    """Whether patterns are the same, all NaN alike."""
    return all(
        one == other or (math.isnan(VALUE[elem](one)) and math.isnan(VALUE[elem](other)))
        for one, other in zip(left, right, strict=True)
    )


# --- Basic operations --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("elem", BOTH)
@pytest.mark.parametrize("op", EXACT)
def test_arithmetic_on_all_pairs_of_special_values_is_the_machines(elem, op):
    """numpy computes binary64 and binary32 with the machine's own instructions; NaN, infinities and zeros are among the pairs."""
    special = SPECIALS[elem]
    xs = [x for x in special for _ in special]
    ys = list(special) * len(special)
    function = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}[op]
    with np.errstate(all="ignore"):
        expected = bits(function(of_bits(elem, xs), of_bits(elem, ys)))
    assert same_floats(elem, binary(elem, op, xs, ys), expected)


@pytest.mark.parametrize("elem", BOTH)
@pytest.mark.parametrize("op", EXACT)
@given(st.data())
def test_arithmetic_is_the_exact_value_rounded_once(elem, op, data):
    x, y = data.draw(finite(elem)), data.draw(finite(elem).filter(bool) if op is BinaryOp.DIV else finite(elem))
    (found,) = binary(elem, op, [PATTERN[elem](x)], [PATTERN[elem](y)])
    exact = EXACT[op](Fraction(x), Fraction(y))
    if op in (BinaryOp.ADD, BinaryOp.SUB):
        zero = -0.0 if str(x) == "-0.0" and str(y) == ("-0.0" if op is BinaryOp.ADD else "0.0") else 0.0
    else:
        zero = math.copysign(1, x) * math.copysign(1, y)
    assert is_rounded(VALUE[elem](found), exact, elem, zero)


def test_binary32_quotients_round_once_among_subnormals():
    """A quotient whose binary64 rounding is a tie of subnormal binary32 numbers would be wrong: all quotients near such a tie."""
    ties = [Fraction(2 * n + 1, 2) * Fraction(2) ** -149 for n in (0, 1, 2, 5, 100, 4095, 4194303)]
    for tie in ties:
        for divisor in (3, 5, 0x800001, 0xFFFFFF, 0xAAAAAB):
            y = Fraction(divisor) * 1024
            nearest = rounded(tie * y, Elem.F32)
            assert isinstance(nearest, Fraction)
            for step in (-1, 0, 1):
                x = value32(pattern32(float(nearest)) + step)
                (found,) = binary(Elem.F32, BinaryOp.DIV, [pattern32(x)], [pattern32(float(y))])
                assert is_rounded(value32(found), Fraction(x) / y, Elem.F32)


@pytest.mark.parametrize("elem", BOTH)
@given(st.data())
def test_square_roots_are_rounded_once(elem, data):
    """r is the rounded root of x if and only if x lies between the squares of the ties beside r."""
    x = data.draw(finite(elem).filter(lambda x: x > 0))
    (found,) = unary(elem, UnaryOp.SQRT, [PATTERN[elem](x)])
    root, below, above = (VALUE[elem](found + step) for step in (0, -1, 1))
    low, high = (Fraction(below) + Fraction(root)) / 2, (Fraction(above) + Fraction(root)) / 2
    assert low**2 <= x <= high**2


@pytest.mark.parametrize("elem", BOTH)
def test_roots_and_roundings_of_special_values_are_the_machines(elem):
    array = of_bits(elem, SPECIALS[elem])
    with np.errstate(all="ignore"):
        for op, function in ((UnaryOp.SQRT, np.sqrt), (UnaryOp.RINT, np.rint), (UnaryOp.FLOOR, np.floor)):
            assert same_floats(elem, unary(elem, op, SPECIALS[elem]), bits(function(array))), op


@pytest.mark.parametrize("x, even", [(0.5, 0.0), (1.5, 2.0), (2.5, 2.0), (-0.5, -0.0), (-1.5, -2.0), (-0.25, -0.0)])
def test_ties_become_even_integers_and_keep_their_sign(x, even):
    for elem in (Elem.F64, Elem.F32):
        assert unary(elem, UnaryOp.RINT, [PATTERN[elem](x)]) == [PATTERN[elem](even)]


@pytest.mark.parametrize("elem", BOTH)
def test_signs_are_bits_of_nan_too(elem):
    special = SPECIALS[elem]
    top = 1 << (63 if elem is Elem.F64 else 31)
    assert unary(elem, UnaryOp.NEG, special) == [x ^ top for x in special]
    assert unary(elem, UnaryOp.ABS, special) == [x & ~top for x in special]
    turned = list(reversed(special))
    assert binary(elem, BinaryOp.COPYSIGN, special, turned) == [
        x & ~top | y & top for x, y in zip(special, turned, strict=True)
    ]


# --- fma ---------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("elem, fma", [(Elem.F64, fma64), (Elem.F32, fma32)])
@given(st.data())
def test_fma_rounds_once(elem, fma, data):
    x, y, z = (data.draw(finite(elem)) for _ in range(3))
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    negative = math.copysign(1, x) * math.copysign(1, y) < 0
    zero = -0.0 if negative and str(z) == "-0.0" and not Fraction(x) * Fraction(y) else 0.0
    assert is_rounded(fma(x, y, z), exact, elem, zero)


@pytest.mark.parametrize("elem, fma", [(Elem.F64, fma64), (Elem.F32, fma32)])
@given(st.data())
def test_fma_rounds_once_where_the_addend_cancels_or_breaks_a_tie(elem, fma, data):
    """z is minus the product, rounded, or a product's tie moved by next to nothing: where rounding twice goes wrong."""
    x, y = data.draw(finite(elem)), data.draw(finite(elem))
    product = rounded(Fraction(x) * Fraction(y), elem)
    least = {Elem.F64: 2.0**-1074, Elem.F32: 2.0**-149}[elem]
    z = data.draw(st.sampled_from((-float(product), least, -least, float(product))).filter(math.isfinite))
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if exact:
        assert is_rounded(fma(x, y, z), exact, elem)


def test_fma_double_rounding_cases():
    """x·y + z is almost a tie: binary64, between the two, sees the tie itself."""
    x, y = 2.0**6 * (1 + 2.0**-20), 1 - 2.0**-20  # the product is 2⁶ − 2⁻³⁴, a last place of 2³⁰ is 2⁷
    assert x * y + 2.0**30 == 2.0**30 + 2**6
    even, odd = 2.0**30, 2.0**30 + 2**7
    assert fma32(x, y, even) == even
    assert fma32(x, y, odd) == odd
    assert float(np.float32(x * y + odd)) == 2.0**30 + 2**8
    x, y = 2.0**6 * (1 + 2.0**-20), 1 + 2.0**-20  # 2⁶ + 2⁻¹³ + 2⁻³⁴: above the tie in binary64 too
    assert fma32(x, y, even) == odd
    x, y = 1 + 2.0**-12, 1 - 2.0**-12  # 1 − 2⁻²⁴ exactly, a number of binary32 that the sum keeps half of
    assert fma32(x, y, -1.0) == -(2.0**-24)
    assert fma32(2.0**-30, 2.0**-30, 2.0**24) == 2.0**24
    top = 1 + 2.0**-23
    assert fma32(top, 2.0**-24, 1.0) == top  # 1 + 2⁻²⁴ + 2⁻⁴⁷ lies above the tie
    x, y = 1 + 2.0**-30, 1 - 2.0**-30  # 1 − 2⁻⁶⁰, half of a last place of 2⁵³ and a little less
    assert fma64(x, y, 2.0**53) == 2.0**53
    assert fma64(x, y, 2.0**53 + 2) == 2.0**53 + 2
    assert x * y + (2.0**53 + 2) == 2.0**53 + 4


def test_fma_rounds_subnormals_once():
    least = 2.0**-149
    assert fma32(2.0**-75, 2.0**-75, 0.0) == 0.0  # half of the least number: a tie, towards even
    assert fma32(2.0**-75, 2.0**-75, least) == 2 * least
    assert fma32(2.0**-75, 2.0**-75 * (1 + 2.0**-23), 0.0) == least
    # A tie between subnormal numbers but for 2⁻²⁰⁰ times something, which 24 bits before the last rounding would drop.
    assert fma32(2.0**-75 * (1 + 2.0**-23), 2.0**-75 * (1 - 2.0**-23), 0.0) == 0.0
    assert fma64(2.0**-537, 2.0**-538, 0.0) == 0.0
    assert fma64(2.0**-537, 2.0**-538, 2.0**-1074) == 2.0**-1073
    assert fma64(2.0**-537 * (1 + 2.0**-52), 2.0**-538, 0.0) == 2.0**-1074
    assert fma64(2.0**-537 * (1 + 2.0**-52), 2.0**-538 * (1 - 2.0**-52), 0.0) == 0.0


def test_fma_of_infinities_zeros_and_nan():
    inf, nan = math.inf, math.nan
    for fma in (fma32, fma64):
        for operands in ((inf, 0.0, 1.0), (0.0, inf, nan), (inf, 1.0, -inf), (nan, 1.0, 1.0), (1.0, 1.0, nan)):
            assert math.isnan(fma(*operands))
        assert fma(inf, -2.0, 1.0) == -inf
        assert fma(3.0, 4.0, -inf) == -inf
        assert str(fma(-1.0, 0.0, -0.0)) == "-0.0"
        assert str(fma(1.0, 0.0, -0.0)) == "0.0"
        assert str(fma(1.0, 1.0, -1.0)) == "0.0"
    assert fma64(2.0**1023, 2.0, -(2.0**1023)) == 2.0**1023
    assert fma64(2.0**1023, 2.0, 0.0) == inf
    assert fma64(2.0**-1074, 0.5, 0.0) == 0.0
    assert fma64(2.0**-1074, 0.5, 2.0**-1074) == 2.0**-1073
    assert fma32(2.0**127, 2.0, -(2.0**127)) == 2.0**127
    assert fma32(2.0**-149, 0.5, 2.0**-149) == 2.0**-148


# --- bf16 --------------------------------------------------------------------------------------------------------------------------


def test_all_bf16_values_come_back():
    patterns_ = list(range(1 << 16))
    array = np.array(patterns_, np.uint16)
    assert [bf16_of(value_bf16(one)) for one in patterns_] == patterns_
    for lanes in (1, 16):
        b = Builder()
        x = b.buffer(Elem.BF16, 1 << 16)
        y = b.buffer(Elem.BF16, 1 << 16, Access.OUT)
        with b.loop((1 << 16) // lanes, parallel=True) as i:
            b.store(y, b.at((i, lanes)), b.load(x, b.at((i, lanes)), lanes))
        found = np.zeros(1 << 16, np.uint16)
        interpret(b.kernel(), [array, found])
        assert np.array_equal(found, array)


def test_a_bf16_load_is_the_upper_half_of_a_binary32_number():
    every = np.arange(0, 1 << 16, 7, dtype=np.uint16)
    found = run([Elem.BF16], Elem.F32, lambda b, x: x, every)
    assert bits(found) == [one << 16 for one in every.tolist()]


@pytest.mark.parametrize("elem", BOTH)
def test_bf16_stores_round_to_nearest_even_in_one_step(elem):
    values = [VALUE[elem](one) for one in SPECIALS[elem]]
    found = bits(run([elem], Elem.BF16, lambda b, x: x, of_bits(elem, SPECIALS[elem])))
    for x, one in zip(values, found, strict=True):
        result = value_bf16(one)
        if math.isfinite(x):
            assert is_rounded(result, Fraction(x), Elem.BF16, x), (x, result)
        else:
            assert math.isnan(result) if math.isnan(x) else result == x


@given(patterns(Elem.F64).map(value64).filter(math.isfinite))
@example(2.0**-134)
@example(math.nextafter(2.0**-134, 1))
@example(3 * 2.0**-134)
@example(math.nextafter(3 * 2.0**-134, 0))
@example(math.nextafter(2.0**-126, 0))
@example(5e-324)
def test_bf16_of_binary64(x):
    assert is_rounded(value_bf16(bf16_of(x)), Fraction(x), Elem.BF16, x)


@given(st.integers(0, 0x7F7E), st.sampled_from((0, 1, -1)), st.booleans())
def test_bf16_ties_and_what_lies_next_to_them(below, step, negative):
    """A neighbour in binary64 of the tie is on its own side, which binary32 between the two would not see."""
    tie = (value_bf16(below) + value_bf16(below + 1)) / 2
    x = value64(pattern64(tie) + step)
    expected = {1: below + 1, -1: below, 0: below + (below & 1)}[step]
    assert bf16_of(-x if negative else x) == expected | negative << 15


def test_the_largest_bf16_number_and_what_lies_beyond():
    tie = 2.0**128 - 2.0**119
    assert bf16_of(math.nextafter(tie, 0)) == 0x7F7F
    assert bf16_of(tie) == 0x7F80
    assert bf16_of(-tie) == 0xFF80
    assert bf16_of(1e300) == 0x7F80


def test_nan_stays_nan_in_bf16():
    assert bf16_of(value32(0x7F800001)) == 0x7FC0  # a payload in the low bits only
    assert bf16_of(value32(0xFF800001)) == 0xFFC0
    assert bf16_of(value32(0x7FA10000)) == 0x7FA1
    assert bf16_of(value64(0x7FF0000000000001)) == 0x7FC0
    assert bf16_of(value64(0xFFF8200000000000)) == 0xFFC1


# --- Moving values -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("elem", BOTH)
def test_patterns_go_through_untouched(elem):
    """NaN payloads, signalling ones too, survive loads, stores, constants, selects, shuffles and bitcasts."""
    special = SPECIALS[elem]
    twin = {Elem.F64: Elem.I64, Elem.F32: Elem.I32}[elem]
    array = of_bits(elem, special)
    assert bits(run([elem], elem, lambda b, x: x, array)) == list(special)
    assert bits(run([elem], twin, lambda b, x: b.bitcast(x, twin), array)) == list(special)
    assert bits(run([twin], elem, lambda b, x: b.bitcast(x, elem), array.view(DTYPES[twin]))) == list(special)
    turned = list(reversed(range(len(special))))
    assert bits(run([elem], elem, lambda b, x: b.shuffle(x, x, turned), array)) == list(reversed(special))
    for one in special:
        found = run([elem], elem, lambda b, x, one=one: b.bits(elem, one, x.lanes), of_bits(elem, [0, 0]))
        assert bits(found) == [one, one]


def test_a_shuffle_takes_lanes_of_both():
    x, y = np.array([1, 2, 3, 4], np.int32), np.array([5, 6, 7, 8], np.int32)
    found = run([Elem.I32] * 2, Elem.I32, lambda b, x, y: b.shuffle(x, y, [7, 0, 3, 4]), x, y)
    assert found.tolist() == [8, 1, 4, 5]


def test_a_selection_takes_lanes():
    def make(b, x, y):
        return b.select(b.compare(CompareOp.LT, x, y), x, y)

    x, y = np.array([1.0, 5.0, math.nan, 2.0]), np.array([2.0, 3.0, 1.0, math.nan])
    assert bits(run([Elem.F64] * 2, Elem.F64, make, x, y)) == bits(np.array([1.0, 3.0, 1.0, math.nan]))


def test_a_splat_is_in_every_lane():
    def make(b, x):
        return b.splat(b.shuffle(x, x, [2]), 3)

    assert run([Elem.I64], Elem.I64, make, np.array([4, 5, 6])).tolist() == [6, 6, 6]


# --- Comparisons and integers ------------------------------------------------------------------------------------------------------

COMPARED: Final = {
    CompareOp.EQ: operator.eq,
    CompareOp.NE: operator.ne,
    CompareOp.LT: operator.lt,
    CompareOp.LE: operator.le,
    CompareOp.GT: operator.gt,
    CompareOp.GE: operator.ge,
}


def compared(elem: Elem, op: CompareOp, xs: Any, ys: Any) -> list[int]:
    def make(b, x, y):
        return b.convert(b.compare(op, x, y), Elem.I32)

    found: list[int] = run([elem, elem], Elem.I32, make, xs, ys).tolist()
    return found


WHOLE: Final = (Elem.I64, Elem.I32)


def pairs(elem: Elem) -> tuple[Any, Any]:
    """All pairs of hard values."""
    if elem in BOTH:
        some = of_bits(elem, SPECIALS[elem])
    else:
        info = np.iinfo(np.dtype(DTYPES[elem]))
        some = np.array([0, 1, -1, 5, info.min, info.max], DTYPES[elem])
    return np.repeat(some, len(some)), np.tile(some, len(some))


@pytest.mark.parametrize("elem", (*BOTH, *WHOLE))
@pytest.mark.parametrize("op", COMPARED)
def test_comparisons(elem, op):
    xs, ys = pairs(elem)
    assert compared(elem, op, xs, ys) == COMPARED[op](xs, ys).astype(int).tolist()


@pytest.mark.parametrize("elem", BOTH)
def test_unordered_means_that_one_is_nan(elem):
    xs, ys = pairs(elem)
    assert compared(elem, CompareOp.UNO, xs, ys) == (np.isnan(xs) | np.isnan(ys)).astype(int).tolist()


@pytest.mark.parametrize("elem", WHOLE)
def test_a_comparison_without_signs(elem):
    xs, ys = pairs(elem)
    unsigned = UNSIGNED[xs.dtype.itemsize]
    expected = xs.view(unsigned) < ys.view(unsigned)
    assert compared(elem, CompareOp.ULT, xs, ys) == expected.astype(int).tolist()


NUMPY_INTEGERS: Final = {
    BinaryOp.ADD: np.add,
    BinaryOp.SUB: np.subtract,
    BinaryOp.MUL: np.multiply,
    BinaryOp.AND: np.bitwise_and,
    BinaryOp.OR: np.bitwise_or,
    BinaryOp.XOR: np.bitwise_xor,
}


@pytest.mark.parametrize("elem", (Elem.I64, Elem.I32))
@pytest.mark.parametrize("op", NUMPY_INTEGERS)
def test_integers_wrap_around(elem, op):
    random = np.random.default_rng(5)
    info = np.iinfo(np.dtype(DTYPES[elem]))
    some = np.array([0, 1, -1, 3, info.min, info.max, *random.integers(info.min, info.max, 20)], DTYPES[elem])
    xs, ys = np.repeat(some, len(some)), np.tile(some, len(some))
    assert binary(elem, op, bits(xs), bits(ys)) == bits(NUMPY_INTEGERS[op](xs, ys))


@pytest.mark.parametrize("elem, width", ((Elem.I64, 64), (Elem.I32, 32)))
def test_shifts(elem, width):
    mask = (1 << width) - 1
    for x in (0, 1, mask, 1 << width - 1, 0x55AA1234, 1 << width - 1 | 0xFF):
        by = list(range(width))
        xs = [x] * width
        sign = x >> width - 1
        assert binary(elem, BinaryOp.SHL, xs, by) == [x << n & mask for n in by]
        assert binary(elem, BinaryOp.LSHR, xs, by) == [x >> n for n in by]
        assert binary(elem, BinaryOp.ASHR, xs, by) == [x >> n | (mask << width - n & mask if sign else 0) for n in by]
        assert unary(elem, UnaryOp.NOT, xs) == [x ^ mask] * width


def test_truth_values():
    def make(b, x, y):
        one, other = (b.compare(CompareOp.NE, z, b.const(Elem.I32, 0, z.lanes)) for z in (x, y))
        parts = [b.binary(op, one, other) for op in (BinaryOp.AND, BinaryOp.OR, BinaryOp.XOR)]
        parts.append(b.unary(UnaryOp.NOT, one))
        total = b.const(Elem.I32, 0, x.lanes)
        for place, part in enumerate(parts):
            power = b.const(Elem.I32, 1 << place, x.lanes)
            total = b.add(total, b.mul(b.convert(part, Elem.I32), power))
        return total

    x, y = np.array([0, 0, 1, 1], np.int32), np.array([0, 1, 0, 1], np.int32)
    assert run([Elem.I32] * 2, Elem.I32, make, x, y).tolist() == [0b1000, 0b1110, 0b0110, 0b0011]


# --- Conversions -------------------------------------------------------------------------------------------------------------------


def converted(source: Elem, target: Elem, array: Any) -> Any:
    return run([source], target, lambda b, x: b.convert(x, target), array)


@given(finite(Elem.F64))
def test_binary64_becomes_binary32_rounded_once(x):
    (found,) = converted(Elem.F64, Elem.F32, np.array([x]))
    assert is_rounded(float(found), Fraction(x), Elem.F32, x)


def test_binary32_becomes_binary64_exactly():
    found = converted(Elem.F32, Elem.F64, of_bits(Elem.F32, F32_SPECIAL))
    for pattern, x in zip(F32_SPECIAL, found.tolist(), strict=True):
        assert str(x) == str(value32(pattern))
    assert math.isnan(float(converted(Elem.F64, Elem.F32, np.array([math.nan]))[0]))


@given(st.integers(-(1 << 63), (1 << 63) - 1))
@example((1 << 24) + 1)
@example((1 << 54) + (1 << 30) + 1)  # binary64 between the two would make a tie of it
@example(-(1 << 54) - (1 << 30) - 1)
@example((1 << 62) + (1 << 38))
@example((1 << 63) - 1)
@example(-(1 << 63))
@example(0)
def test_integers_become_floats_rounded_once(x):
    assert is_rounded(integer_to_f32(x), Fraction(x), Elem.F32)
    array = np.array([x], np.int64)
    assert is_rounded(float(converted(Elem.I64, Elem.F32, array)[0]), Fraction(x), Elem.F32)
    assert is_rounded(float(converted(Elem.I64, Elem.F64, array)[0]), Fraction(x), Elem.F64)
    small = array.astype(np.int32)
    assert is_rounded(float(converted(Elem.I32, Elem.F32, small)[0]), Fraction(int(small[0])), Elem.F32)
    assert float(converted(Elem.I32, Elem.F64, small)[0]) == int(small[0])


def test_integers_become_wider_and_narrower():
    x = np.array([0, -1, 1 << 31, (1 << 32) + 5, -(1 << 63), (1 << 63) - 1], np.int64)
    assert converted(Elem.I64, Elem.I32, x).tolist() == [0, -1, -(1 << 31), 5, 0, -1]
    y = np.array([0, -1, -(1 << 31), (1 << 31) - 1], np.int32)
    assert converted(Elem.I32, Elem.I64, y).tolist() == y.tolist()


@pytest.mark.parametrize("source", (Elem.F64, Elem.F32))
@pytest.mark.parametrize("target, width", ((Elem.I64, 64), (Elem.I32, 32)))
def test_floats_that_are_integers_become_integers(source, target, width):
    top = 2.0 ** (width - 1)
    below = {Elem.F64: np.nextafter(top, 0), Elem.F32: np.nextafter(np.float32(top), np.float32(0))}[source]
    array = np.array([-0.0, 1.0, -7.0, -top], DTYPES[source])
    assert converted(source, target, array).tolist() == [0, 1, -7, -(1 << width - 1)]
    if float(below).is_integer():
        assert converted(source, target, np.array([below], DTYPES[source])).tolist() == [int(below)]
    for bad in (0.5, top, -top * 1.5, math.inf, math.nan):
        with pytest.raises(Trap, match=r"is no integer of .* bits: %1 : .* = convert %0"):
            converted(source, target, np.array([bad], DTYPES[source]))


def test_bytes_are_read_without_a_sign_and_written_by_their_low_bits():
    x = np.array([0, 1, 127, 128, 255], np.uint8)
    assert run([Elem.U8], Elem.I32, lambda b, x: x, x).tolist() == x.tolist()
    y = np.array([0, 255, 256, -1, 511], np.int32)
    assert run([Elem.I32], Elem.U8, lambda b, x: x, y).tolist() == [0, 255, 0, 255, 255]


# --- Loops and memory --------------------------------------------------------------------------------------------------------------


def interpreted(text: str, *arrays: Any) -> None:
    interpret(parse(text), list(arrays))


def test_accumulators_go_round():
    """Both accumulators change at once: the next values are taken before either is set."""
    out = np.zeros(2, np.int64)
    interpreted(
        """\
kernel {
  b0 : out i64[2]
  %0 : i64 = const 0
  %1 : i64 = const 1
  %6, %7 = for %2 < 10 with %3 = %0, %4 = %1 {
    %5 : i64 = add %3, %4
    next %4, %5
  }
  store %6 to b0[0]
  store %7 to b0[1]
}
""",
        out,
    )
    assert out.tolist() == [55, 89]


def test_no_iteration_leaves_what_was_before():
    out = np.full(3, 9, np.int64)
    interpreted(
        """\
kernel {
  b0 : out i64[3]
  %0 : i64 = const 4
  %4 = for %1 < 0 with %2 = %0 {
    %3 : i64 = add %2, %1
    store %3 to b0[1]
    next %3
  }
  store %4 to b0[0]
}
""",
        out,
    )
    assert out.tolist() == [4, 9, 9]


def test_strides_and_counts():
    x = np.arange(32, dtype=np.float64)
    out = np.full(32, -1.0)
    interpreted(
        """\
kernel {
  b0 : in f64[32]
  b1 : out f64[32]
  for %0 < 2 {
    %1 : f64x4 = load b0[1 + 8*%0] stride 2 count 3
    store %1 to b1[16*%0]
    %2 : f64x4 = load b0[31 - 2*%0] stride -3
    store %2 to b1[4 + 16*%0] stride 3 count 2
    %3 : f64x3 = load b0[7] stride 0
    store %3 to b1[15 + 16*%0] stride -1
  }
}
""",
        x,
        out,
    )
    half = [1, 3, 5, 0, 31, -1, -1, 28, -1, -1, -1, -1, -1, 7, 7, 7]
    other = [9, 11, 13, 0, 29, -1, -1, 26, -1, -1, -1, -1, -1, 7, 7, 7]
    assert out.tolist() == [*half, *other]


def test_indices_from_data():
    table = np.arange(12, dtype=np.float32)
    rows = np.array([3, 0, 2], np.int32)
    out = np.zeros(9, np.float32)
    interpreted(
        """\
kernel {
  b0 : in f32[12]
  b1 : in i32[3] < 4
  b2 : out f32[9]
  for %0 < 3 parallel {
    %1 : i32 = load b1[%0]
    %2 : i64 = convert %1
    %3 : f32x3 = load b0[3*%2]
    prefetch b0[1000000 + %0]
    store %3 to b2[3*%0]
  }
}
""",
        table,
        rows,
        out,
    )
    assert out.tolist() == [9, 10, 11, 0, 1, 2, 6, 7, 8]


def test_what_has_no_meaning_traps_and_names_the_statement():
    def trap(text: str, *arrays: Any) -> str:
        with pytest.raises(Trap) as error:
            interpreted(f"kernel {{\n{text}\n}}", *arrays)
        return str(error.value)

    x = np.zeros(4)
    out = np.zeros(4)
    buffers = "b0 : in f64[4]\nb1 : out f64[4]\n"
    assert trap(f"{buffers}%0 : f64x2 = load b0[3]", x, out) == "element 4 of 4 is read: %0 : f64x2 = load b0[3]"
    assert trap(f"{buffers}%0 : f64 = load b0[-1]", x, out) == "element -1 of 4 is read: %0 : f64 = load b0[-1]"
    assert (
        trap(f"{buffers}%0 : f64x2 = const 1.0\nstore %0 to b1[0] stride 4", x, out)
        == "element 4 of 4 is written: store %0 to b1[0] stride 4"
    )
    assert (
        trap(f"{buffers}%0 : f64 = load b1[2]", x, out)
        == "element 2 is read before it is written: %0 : f64 = load b1[2]"
    )
    assert trap(f"{buffers}%0 : f64 = const 1.0\nstore %0 to b0[0]", x, out) == (
        "an input is written: store %0 to b0[0]"
    )
    assert trap("%0 : i32 = const 5\n%1 : i32 = const 32\n%2 : i32 = shl %0, %1") == (
        "a shift by 32 of 32 bits: %2 : i32 = shl %0, %1"
    )
    assert trap("%0 : i64 = const -1\n%1 : i64 = ashr %0, %0") == "a shift by -1 of 64 bits: %1 : i64 = ashr %0, %0"
    late = "b0 : in f64[4]\nb1 : out f64[4] in_place b0\n"
    assert trap(f"{late}%0 : f64x2 = load b0[0]\nstore %0 to b1[0]\n%1 : f64 = load b0[1]", x, x) == (
        "element 1 is read after its memory was written: %1 : f64 = load b0[1]"
    )


def test_an_access_out_of_bounds_writes_nothing_beyond():
    memory = np.zeros(8)
    with pytest.raises(Trap):
        interpreted("kernel {\nb0 : out f64[4]\n%0 : f64x8 = const 1.0\nstore %0 to b0[0]\n}", memory[:4])
    assert memory.tolist() == [1, 1, 1, 1, 0, 0, 0, 0]


@pytest.mark.parametrize(
    "arrays",
    [
        [],
        [np.zeros(4, np.float32)],
        [np.zeros(5)],
        [np.zeros((4, 1))],
        [np.zeros(8)[::2]],
    ],
)
def test_arrays_that_do_not_fit(arrays):
    with pytest.raises(BadArguments):
        interpreted("kernel {\nb0 : in f64[4]\n}", *arrays)


def test_outputs_that_cannot_be_written():
    array = np.zeros(4)
    array.flags.writeable = False
    interpreted("kernel {\nb0 : in f64[4]\n}", array)
    with pytest.raises(BadArguments):
        interpreted("kernel {\nb0 : out f64[4]\n}", array)


def test_there_is_such_a_worker():
    for worker, workers in ((1, 1), (-1, 2), (0, 0)):
        with pytest.raises(BadArguments):
            interpret(Kernel((), ()), [], worker, workers)


SPLIT: Final = """\
kernel {
  b0 : out i64[10]
  %0 : i64 = const 7
  for %1 < 10 parallel split {
    %2 : i64 = add %0, %1
    store %2 to b0[%1]
  }
}
"""


@pytest.mark.parametrize("workers", (1, 2, 3, 7, 13))
def test_workers_take_consecutive_shares(workers):
    whole = np.full(10, -1, np.int64)
    for worker in range(workers):
        share = np.full(10, -1, np.int64)
        interpret(parse(SPLIT), [share], worker, workers)
        mine = range(10 * worker // workers, 10 * (worker + 1) // workers)
        assert share.tolist() == [7 + place if place in mine else -1 for place in range(10)]
        interpret(parse(SPLIT), [whole], worker, workers)
    assert whole.tolist() == list(range(7, 17))


# --- Random kernels ----------------------------------------------------------------------------------------------------------------


@given(st.data())
def test_random_kernels_run_and_give_the_same_again(data):
    kernel = data.draw(kernels())
    arrays = data.draw(arguments(kernel))
    once, twice = ([one.copy() for one in arrays] for _ in range(2))
    interpret(kernel, once)
    interpret(kernel, twice)
    assert not differences(kernel, once, twice)


@given(st.data())
def test_workers_in_any_order_give_what_one_gives(data):
    kernel = data.draw(kernels(split=True))
    arrays = data.draw(arguments(kernel))
    workers = data.draw(st.sampled_from((2, 3, 7)))
    alone, many = ([one.copy() for one in arrays] for _ in range(2))
    interpret(kernel, alone)
    for worker in data.draw(st.permutations(range(workers))):
        interpret(kernel, many, worker, workers)
    assert not differences(kernel, alone, many)


@given(st.data())
def test_an_output_in_the_place_of_an_input_is_the_same(data):
    kernel = data.draw(kernels())
    arrays = data.draw(arguments(kernel))
    apart, together = [one.copy() for one in arrays], aliased(kernel, arrays)
    for number, buffer in enumerate(kernel.buffers):
        if buffer.in_place is not None:
            apart[number] = apart[buffer.in_place].copy()
    interpret(kernel, apart)
    interpret(kernel, together)
    shown = [number for number, buffer in enumerate(kernel.buffers) if buffer.access is Access.OUT]
    assert not [number for number in shown if bits(apart[number]) != bits(together[number])]


@pytest.mark.parametrize("lanes", (2, 3, 4, 8, 16))
def test_a_vector_is_its_lanes(lanes):
    """The same sequence of operations with vectors and with scalars."""

    def kernel(wide: int) -> Kernel:
        b = Builder()
        x, y = b.buffer(Elem.F32, 48), b.buffer(Elem.F64, 48)
        out, other = b.buffer(Elem.F32, 48, Access.OUT), b.buffer(Elem.BF16, 48, Access.OUT)
        with b.loop(48 // wide, parallel=True) as i:
            u, v = b.load(x, b.at((i, wide)), wide), b.load(y, b.at((i, wide)), wide)
            w = b.convert(b.fma(v, b.convert(u, Elem.F64), b.sqrt(v)), Elem.F32)
            b.store(out, b.at((i, wide)), b.select(b.compare(CompareOp.LT, w, u), b.div(w, u), b.mul(w, w)))
            b.store(other, b.at((i, wide)), v)
        return b.kernel()

    assert 48 % lanes == 0
    arrays = filled(kernel(1), 3, 0.2)
    narrow, wide = [one.copy() for one in arrays], [one.copy() for one in arrays]
    interpret(kernel(1), narrow)
    interpret(kernel(lanes), wide)
    assert not differences(kernel(1), narrow, wide)
