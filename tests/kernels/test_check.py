"""The verifier: every rule has kernels that break it, and next to them kernels that keep it."""

from collections.abc import Iterator
from itertools import product
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from presk.kernels.check import CheckError, IllFormed, InPlace, OutOfBounds, Overlap, Unwritten, check
from presk.kernels.coverage import Body
from presk.kernels.interpret import DTYPES, Trap, interpret
from presk.kernels.ir import Access, Binary, BinaryOp, Buffer, Const, Elem, For, Index, Kernel, Let, Store, Type
from presk.kernels.parse import parse
from presk.kernels.separate import never_zero
from tests.kernels.strategies import arguments, differences, kernels

BUFFERS: Final = """\
b0 : in f32[64]
b1 : in f64[64]
b2 : in bf16[64]
b3 : in i64[64]
b4 : in i32[64] < 10
b5 : in u8[64]
b6 : out f32[64]
b7 : out f64[64]
b8 : out bf16[64]
b9 : out i32[64] < 10
b10 : scratch f32[64]
%90 : f32 = const 1.0
%91 : f64 = const 1.0
%92 : i64 = const 1
%93 : i32 = const 1
%94 : i1 = const true
%95 : f32x8 = const 1.0
%96 : f64x8 = const 1.0
%97 : i1x8 = const true
%98 : i32x8 = const 1
"""


def kernel(body: str, buffers: str = BUFFERS) -> Kernel:
    """A kernel with buffers and constants of all types, and some statements."""
    return parse(f"kernel {{\n{buffers}{body}\n}}")


def refused(error: type[CheckError], body: str, buffers: str = BUFFERS) -> str:
    """The message of the error."""
    with pytest.raises(CheckError) as found:
        check(kernel(body, buffers))
    assert type(found.value) is error, found.value
    return str(found.value)


# --- All rules -----------------------------------------------------------------------------------------------------------------------


@given(kernels())
def test_random_kernels_pass(kernel):
    check(kernel)


def test_nothing_is_a_kernel():
    check(Kernel((), ()))


# --- Buffers -------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "buffers, message",
    [
        ("b0 : in i1[4]", "no type of a buffer"),
        ("b0 : in f32[-1]", "a size below 0"),
        ("b0 : in f32[4] < 3", "no bound of such elements"),
        ("b0 : in i32[4] < -1", "no bound of such elements"),
        ("b0 : in f32[4]\nb1 : out f32[4] in_place b2", "no place to stand in"),
        ("b0 : in f32[4]\nb1 : scratch f32[4] in_place b0", "no place to stand in"),
        ("b0 : in f32[4]\nb1 : out f32[4] in_place b1", "the place is no input of the same size"),
        ("b0 : in f32[4]\nb1 : out f32[5] in_place b0", "the place is no input of the same size"),
        ("b0 : in f32[4]\nb1 : out f64[4] in_place b0", "the place is no input of the same size"),
        ("b0 : in f32[4]\nb1 : out f32[4] in_place b0\nb2 : out f32[4] in_place b0", "the place is taken"),
    ],
)
def test_buffers(buffers, message):
    assert refused(IllFormed, "", buffers) == f"{message}: {buffers.splitlines()[-1]}"


def test_an_output_of_another_type_of_the_same_size_may_stand_in_place():
    check(kernel("", "b0 : in f32[4]\nb1 : out i32[4] in_place b0"))


# --- Variables -----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body, message",
    [
        ("%0 : f32 = neg %1", "%1 is not defined before its use: %0 : f32 = neg %1"),
        ("%0 : f32 = neg %0", "%0 is not defined before its use: %0 : f32 = neg %0"),
        ("%90 : f32 = const 2.0", "%90 is defined twice: %90 : f32 = const 2.0"),
        ("for %90 < 4 {\n}", "%90 is defined twice: for %90 < 4"),
        ("for %0 < 4 {\n}\nfor %0 < 4 {\n}", "%0 is defined twice: for %0 < 4"),
        ("for %0 < 4 {\n}\n%1 : i64 = add %0, %92", "%0 is not defined here: %1 : i64 = add %0, %92"),
        ("for %0 < 4 {\n%1 : f32 = neg %90\n}\n%2 : f32 = neg %1", "%1 is not defined here: %2 : f32 = neg %1"),
        (
            "for %0 < 4 {\n%1 : f32 = neg %90\n}\nfor %2 < 4 {\n%3 : f32 = neg %1\n}",
            "%1 is not defined here: %3 : f32 = neg %1",
        ),
        (
            "%4 = for %0 < 4 with %1 = %90 {\n%2 : f32 = neg %4\nnext %2\n}",
            "%4 is not defined before its use: %2 : f32 = neg %4",
        ),
        ("%4 = for %0 < 4 with %1 = %90 {\nnext %1\n}\n%5 : f32 = neg %1", "%1 is not defined here: %5 : f32 = neg %1"),
        (
            "%4 = for %0 < 4 with %1 = %2 {\n%2 : f32 = neg %90\nnext %2\n}",
            "%2 is not defined before its use: %4 = for %0 < 4 with %1 = %2",
        ),
        (
            "%4 = for %0 < 4 with %1 = %90 {\nfor %2 < 2 {\n%3 : f32 = neg %1\n}\nnext %3\n}",
            "%3 is not defined here: %4 = for %0 < 4 with %1 = %90",
        ),
        ("%1 = for %0 < 4 with %1 = %90 {\nnext %1\n}", "%1 is defined twice: %1 = for %0 < 4 with %1 = %90"),
        ("store %0 to b6[0]", "%0 is not defined before its use: store %0 to b6[0]"),
        ("prefetch b0[%0]", "%0 is not defined before its use: prefetch b0[%0]"),
        ("%1 : f32 = load b0[%0]", "%0 is not defined before its use: %1 : f32 = load b0[%0]"),
    ],
)  # fmt: skip
def test_variables(body, message):
    assert refused(IllFormed, body) == message


def test_what_is_next_may_be_anything_in_sight():
    check(kernel("%5, %6, %7 = for %0 < 4 with %1 = %90, %2 = %92, %3 = %90 {\n%4 : f32 = neg %1\nnext %4, %0, %90\n}"))


# --- Types ---------------------------------------------------------------------------------------------------------------------------

GOOD: Final = (
    "%0 : f32x8 = fma %95, %95, %95",
    "%0 : f32 = sqrt %90",
    "%0 : i32 = not %93",
    "%0 : i1x8 = not %97",
    "%0 : f64x8 = copysign %96, %96",
    "%0 : i64 = ashr %92, %92",
    "%0 : i1 = xor %94, %94",
    "%0 : i1x8 = uno %95, %95",
    "%0 : i1x8 = ult %98, %98",
    "%0 : f32x8 = select %97, %95, %95",
    "%0 : i1x8 = select %97, %97, %97",
    "%0 : f64x8 = convert %95",
    "%0 : i32 = convert %94",
    "%0 : f32 = convert %92",
    "%0 : i64x8 = convert %98",
    "%0 : i64x8 = convert %96",
    "%0 : i32x8 = bitcast %95",
    "%0 : f64 = bitcast %92",
    "%0 : f32x3 = splat %90",
    "%0 : f32 = splat %90",
    "%0 : f32x3 = shuffle %95, %95 [0 15 7]",
    "%0 : f32 = shuffle %95, %95 [3]",
    "%0 : f32x2 = shuffle %90, %90 [0 1]",
    "%0 : f32x4 = load b0[0]",
    "%0 : f32x4 = load b2[0]",
    "%0 : i32x4 = load b5[0]",
    "%0 : f32x4 = load b0[0] stride 0 count 3",
    "%0 : f32x4 = load b0[0] count 0",
    "store %90 to b8[0]",
    "store %96 to b8[0]",
    "store %98 to b9[0] stride -1 count 1",
    "prefetch b0[-5 + 1000*%92]",
)
BAD: Final = (
    ("%0 : f32x8 = fma %95, %95, %90", "f32x8 is expected, not f32"),
    ("%0 : f32x8 = fma %96, %96, %96", "f32x8 is expected, not f64x8"),
    ("%0 : i32 = fma %93, %93, %93", "fma of i32"),
    ("%0 : i32 = sqrt %93", "sqrt of i32"),
    ("%0 : i1 = neg %94", "neg of i1"),
    ("%0 : f32 = not %90", "not of f32"),
    ("%0 : f32 = neg %95", "f32 is expected, not f32x8"),
    ("%0 : i32 = div %93, %93", "div of i32"),
    ("%0 : i64 = copysign %92, %92", "copysign of i64"),
    ("%0 : f32 = and %90, %90", "and of f32"),
    ("%0 : f32 = shl %90, %90", "shl of f32"),
    ("%0 : i1 = add %94, %94", "add of i1"),
    ("%0 : i64 = add %92, %93", "i64 is expected, not i32"),
    ("%0 : i32 = eq %93, %93", "i1 is expected, not i32"),
    ("%0 : i1 = eq %95, %95", "i1x8 is expected, not i1"),
    ("%0 : i1 = eq %93, %92", "i32 is expected, not i64"),
    ("%0 : i1 = eq %94, %94", "eq of i1"),
    ("%0 : i1 = ult %90, %90", "ult of f32"),
    ("%0 : i1 = uno %93, %93", "uno of i32"),
    ("%0 : f32x8 = select %94, %95, %95", "i1x8 is expected, not i1"),
    ("%0 : f32x8 = select %97, %95, %96", "f32x8 is expected, not f64x8"),
    ("%0 : f32 = select %93, %90, %90", "i1 is expected, not i32"),
    ("%0 : f64 = convert %95", "f64 is expected, not f64x8"),
    ("%0 : f32 = convert %90", "f32 is not converted to f32"),
    ("%0 : f32 = convert %94", "i1 is not converted to f32"),
    ("%0 : i1 = convert %93", "i32 is not converted to i1"),
    ("%0 : bf16 = convert %90", "f32 is not converted to bf16"),
    ("%0 : i64 = bitcast %90", "f32 has not the size of i64, or is of its kind"),
    ("%0 : f32 = bitcast %90", "f32 has not the size of f32, or is of its kind"),
    ("%0 : i32x8 = bitcast %90", "i32x8 is expected, not i32"),
    ("%0 : f32x8 = splat %95", "f32 is expected, not f32x8"),
    ("%0 : f32x8 = splat %91", "f32 is expected, not f64"),
    ("%0 : f32x2 = shuffle %95, %95 [0 1 2]", "f32x3 is expected, not f32x2"),
    ("%0 : f64x2 = shuffle %95, %95 [0 1]", "f32x2 is expected, not f64x2"),
    ("%0 : f32x2 = shuffle %95, %96 [0 1]", "f32x8 is expected, not f64x8"),
    ("%0 : f32x2 = shuffle %95, %95 [0 16]", "there are 16 lanes"),
    ("%0 : f32x2 = shuffle %95, %95 [0 -1]", "there are 16 lanes"),
    ("%0 : f32x0 = shuffle %95, %95 []", "f32x0 is no type of a value"),
    ("%0 : bf16 = load b2[0]", "f32 is expected, not bf16"),
    ("%0 : u8 = load b5[0]", "i32 is expected, not u8"),
    ("%0 : f64 = load b0[0]", "f32 is expected, not f64"),
    ("%0 : f32x4 = load b0[0] count 5", "a count of 4 lanes that is none"),
    ("%0 : f32x4 = load b0[0] count -1", "a count of 4 lanes that is none"),
    ("%0 : f32 = load b11[0]", "there is no b11"),
    ("%0 : f32 = load b0[%93]", "i64 is expected, not i32"),
    ("%0 : f32 = load b0[0*%92]", "the index is not in its only form"),
    ("%0 : f32 = load b0[%92 + %92]", "the index is not in its only form"),
    ("%0 : i1 = const bits(0x2)", "no pattern of the type"),
    ("%0 : f32 = const bits(-0x1)", "no pattern of the type"),
    ("%0 : u8 = const bits(0x1)", "no pattern of the type"),
    ("%0 : f32x0 = const 1.0", "f32x0 is no type of a value"),
    ("store %91 to b6[0]", "f64 is no type for f32 elements"),
    ("store %93 to b8[0]", "i32 is no type for bf16 elements"),
    ("store %94 to b9[0]", "i1 is no type for i32 elements"),
    ("store %92 to b9[0]", "i64 is no type for i32 elements"),
    ("store %95 to b6[0] stride 0", "a stride of 0"),
    ("store %95 to b6[0] count 9", "a count of 8 lanes that is none"),
    ("store %90 to b0[0]", "an input is written"),
    ("prefetch b12[0]", "there is no b12"),
)


@pytest.mark.parametrize("body", GOOD)
def test_good_operations(body):
    check(kernel(body))


@pytest.mark.parametrize("body, message", BAD)
def test_bad_operations(body, message):
    assert refused(IllFormed, body) == f"{message}: {body}"


def test_loops_of_wrong_shape():
    assert refused(IllFormed, "for %0 < -1 {\n}") == "an extent below 0: for %0 < -1"
    for flag in ("parallel", "split"):
        body = f"%2 = for %0 < 4 {flag} with %1 = %90 {{\nnext %1\n}}"
        assert refused(IllFormed, body) == (
            f"iterations in any order carry nothing: %2 = for %0 < 4 {flag} with %1 = %90"
        )
    body = "%2 = for %0 < 4 with %1 = %90 {\nnext %91\n}"
    assert refused(IllFormed, body) == "f32 is expected, not f64: %2 = for %0 < 4 with %1 = %90"


# --- Bounds --------------------------------------------------------------------------------------------------------------------------

INSIDE: Final = (
    "for %0 < 8 {\n%1 : f32x8 = load b0[8*%0]\n}",
    "for %0 < 8 {\n%1 : f32x8 = load b0[63 - 8*%0] stride -1\n}",
    "for %0 < 4 {\n%1 : f32x8 = load b0[4 + 8*%0] stride 5\n}",
    "for %0 < 8 {\n%1 : f32x16 = load b0[8*%0] count 8\n}",
    "for %0 < 8 {\n%1 : f32x16 = load b0[7 + 8*%0] stride 0\n}",
    "%1 : f32x16 = load b0[100] count 0",
    "for %0 < 0 {\n%1 : f32 = load b0[100]\n}",
    # what is read from a bounded buffer
    "%1 : i32 = load b4[0]\n%2 : i64 = convert %1\n%3 : f32x7 = load b0[3 + 6*%2]",
    "%1 : i32 = load b5[0]\n%4 : i32 = const 2\n%5 : i32 = lshr %1, %4\n%2 : i64 = convert %5\n%3 : f32 = load b0[%2]",
    "%1 : i64 = load b3[0]\n%4 : i64 = const 63\n%5 : i64 = and %4, %1\n%3 : f32 = load b0[63 - %5]",
    # sums and multiples of loops' variables
    ("%9 : i64 = const 8\nfor %0 < 8 {\n%1 : i64 = mul %0, %9\nfor %2 < 8 {\n%3 : i64 = add %1, %2\n"
     "%4 : f32 = load b0[%3]\n}\n}"),
    "%9 : i64 = const 3\nfor %0 < 8 {\n%1 : i64 = shl %0, %9\n%2 : i64 = sub %1, %0\n%4 : f32x8 = load b0[%0 + %2]\n}",
    "for %0 < 80 {\n%1 : i64 = sub %0, %0\n%2 : f32x64 = load b0[%1]\n}",
    # a minimum, and a maximum
    "%9 : i64 = const 63\nfor %0 < 80 {\n%1 : i1 = lt %0, %9\n%2 : i64 = select %1, %0, %9\n%3 : f32 = load b0[%2]\n}",
    "%9 : i64 = const 63\nfor %0 < 80 {\n%1 : i1 = gt %0, %9\n%2 : i64 = select %1, %9, %0\n%3 : f32 = load b0[%2]\n}",
    "%9 : i64 = const 0\n%5 : i64 = const 16\nfor %0 < 80 {\n%4 : i64 = sub %0, %5\n"
    "%1 : i1 = ge %4, %9\n%2 : i64 = select %1, %4, %9\n"
    "%3 : f32 = load b0[%2]\n}",
    # a vector's lane
    "%1 : i32x4 = load b4[0]\n%2 : i32 = shuffle %1, %1 [2]\n%3 : i64 = convert %2\n%4 : f32 = load b0[7*%3]",
    # an accumulator that is one of some indices
    "%9 : i64 = const 0\n%5 = for %0 < 64 with %1 = %9 {\n%2 : f32 = load b0[%0]\n%3 : i1 = lt %2, %90\n%4 : i64 = select %3, %0, %1\n"
    "next %4\n}\n%6 : f32 = load b0[%5]",
    # what is stored lies below the bound
    "%1 : i32 = load b4[0]\nstore %1 to b9[0]",
    "%1 : i32x8 = convert %97\nstore %1 to b9[0]",
    "for %0 < 10 {\n%1 : i32 = convert %0\nstore %1 to b9[%0]\n}",
)  # fmt: skip

OUTSIDE: Final = (
    (
        "for %0 < 8 {\n%1 : f32x8 = load b0[1 + 8*%0]\n}",
        "elements 1 to 64 of b0, which has 64: %1 : f32x8 = load b0[1 + 8*%0]",
    ),
    ("for %0 < 9 {\n%1 : f32x8 = load b0[8*%0]\n}", "elements 0 to 71 of b0, which has 64: %1 : f32x8 = load b0[8*%0]"),
    ("%1 : f32 = load b0[-1]", "elements -1 to -1 of b0, which has 64: %1 : f32 = load b0[-1]"),
    (
        "for %0 < 2 {\n%1 : f32x8 = load b0[6 + %0] stride -1\n}",
        "elements -1 to 7 of b0, which has 64: %1 : f32x8 = load b0[6 + %0] stride -1",
    ),
    ("%1 : f32x8 = load b0[29] stride 5", "elements 29 to 64 of b0, which has 64: %1 : f32x8 = load b0[29] stride 5"),
    ("%1 : f32x16 = load b0[56] count 9", "elements 56 to 64 of b0, which has 64: %1 : f32x16 = load b0[56] count 9"),
    ("store %95 to b6[57]", "elements 57 to 64 of b6, which has 64: store %95 to b6[57]"),
    (
        "%1 : i32 = load b4[0]\n%2 : i64 = convert %1\n%3 : f32 = load b0[8*%2]",
        "elements 0 to 72 of b0, which has 64: %3 : f32 = load b0[8*%2]",
    ),
    (
        "%1 : i32 = load b5[0]\n%2 : i64 = convert %1\n%3 : f32 = load b0[%2]",
        "elements 0 to 255 of b0, which has 64: %3 : f32 = load b0[%2]",
    ),
    (
        "%1 : i64 = load b3[0]\n%3 : f32 = load b0[%1]",
        f"elements {-(1 << 63)} to {(1 << 63) - 1} of b0, which has 64: %3 : f32 = load b0[%1]",
    ),
    ("%9 : i64 = const 62\nfor %0 < 8 {\n%1 : i1 = lt %0, %9\n%2 : i64 = select %1, %9, %0\n%3 : f32 = load b0[2 + %2]\n}",
     "elements 64 to 64 of b0, which has 64: %3 : f32 = load b0[2 + %2]"),
    ("%1 : i32 = const 10\nstore %1 to b9[0]", "10 to 10 where b9 holds 0 to 9: store %1 to b9[0]"),
    ("%1 : i32 = const -1\nstore %1 to b9[0]", "-1 to -1 where b9 holds 0 to 9: store %1 to b9[0]"),
    (
        "for %0 < 11 {\n%1 : i32 = convert %0\nstore %1 to b9[%0]\n}",
        "0 to 10 where b9 holds 0 to 9: store %1 to b9[%0]",
    ),
)  # fmt: skip


@pytest.mark.parametrize("body", INSIDE)
def test_accesses_within_bounds(body):
    check(kernel(body))


@pytest.mark.parametrize("body, message", OUTSIDE)
def test_accesses_that_may_leave_a_buffer(body, message):
    assert refused(OutOfBounds, body) == message


def test_an_accumulator_that_grows_is_not_bounded():
    body = (
        "%9 : i64 = const 0\n%5 = for %0 < 4 with %1 = %9 {\n%2 : i64 = add %1, %92\nnext %2\n}\n%6 : f32 = load b0[%5]"
    )
    assert refused(OutOfBounds, body).startswith(f"elements {-(1 << 63)} to")


def test_sums_that_wrap_around_are_not_forms():
    """A product beyond 2⁶³ is another number: what it is not, an index made of it is not proved to be."""
    large = 1 << 62
    body = (
        f"%1 : i64 = const {large}\nfor %0 < 4 {{\n%2 : i64 = mul %0, %1\n%3 : i64 = mul %2, %1\n"
        f"%4 : f32 = load b0[%3]\n}}"
    )
    refused(OutOfBounds, body)


# --- Reading what was written --------------------------------------------------------------------------------------------------------

WRITTEN: Final = (
    "store %90 to b6[3]\n%0 : f32 = load b6[3]",
    "store %95 to b6[8]\n%0 : f32x4 = load b6[10]",
    "store %95 to b6[8]\nstore %95 to b6[16]\n%0 : f32x4 = load b6[14]",
    "store %95 to b6[0] stride 3\n%0 : f32x8 = load b6[0] stride 3",
    "store %95 to b6[0] stride 3\n%0 : f32x3 = load b6[6] stride 6",
    "store %95 to b6[21] stride -3\n%0 : f32x8 = load b6[0] stride 3",
    "for %0 < 8 {\nstore %95 to b6[8*%0]\n%1 : f32x8 = load b6[8*%0]\n}",
    "for %0 < 8 {\nstore %95 to b6[8*%0]\nfor %1 < 8 {\n%2 : f32 = load b6[8*%0 + %1]\n}\n}",
    "for %0 < 8 {\nstore %95 to b6[8*%0]\n}\nfor %1 < 64 {\n%2 : f32 = load b6[63 - %1]\n}",
    # column by column, then a row at a time
    "for %0 < 8 {\nfor %1 < 8 {\nstore %90 to b6[%0 + 8*%1]\n}\n}\nfor %2 < 8 {\n%3 : f32x8 = load b6[8*%2]\n}",
    # whole vectors and a remainder in every row
    ("for %0 < 4 {\nfor %1 < 1 {\nstore %95 to b6[13*%0 + 8*%1]\n}\nstore %95 to b6[8 + 13*%0] count 5\n"
     "}\n%2 : f32x52 = load b6[0]"),
    # zeros first, then sums
    ("for %0 < 8 {\nstore %95 to b6[8*%0]\nfor %1 < 3 {\n%2 : f32x8 = load b6[8*%0]\n"
     "%3 : f32x8 = add %2, %95\nstore %3 to b6[8*%0]\n}\n}"),
    ("for %0 < 8 {\nstore %95 to b6[8*%0]\n}\nfor %4 < 9 {\n%1 : i32 = load b4[%4]\n"
     "%2 : i64 = convert %1\n%3 : f32 = load b6[6*%2]\nstore %3 to b6[6*%2]\n}"),
    "for %0 < 0 {\n%1 : f32 = load b6[0]\n}",
    # what lies apart is read as it was written
    "for %0 < 3 {\nstore %95 to b6[20*%0]\n}\nfor %1 < 3 {\n%2 : f32x8 = load b6[20*%1]\n}",
    "for %0 < 3 {\nstore %95 to b6[20*%0]\n}\nfor %1 < 2 {\n%2 : f32x4 = load b6[44 - 20*%1]\n}",
)  # fmt: skip

UNWRITTEN: Final = (
    "%0 : f32 = load b6[3]",
    "%0 : f32 = load b6[3]\nstore %90 to b6[3]",
    "store %90 to b6[3]\n%0 : f32 = load b6[4]",
    "store %90 to b6[3]\n%0 : f32 = load b10[3]",
    "store %95 to b6[8] count 7\n%0 : f32x8 = load b6[8]",
    "store %95 to b6[0] stride 3\n%0 : f32x3 = load b6[0]",
    "for %0 < 0 {\nstore %90 to b6[3]\n}\n%1 : f32 = load b6[3]",
    "for %0 < 8 {\nstore %90 to b6[8*%0]\n}\n%1 : f32 = load b6[57]",
    "for %0 < 7 {\nstore %95 to b6[8*%0]\n}\nfor %1 < 64 {\n%2 : f32 = load b6[%1]\n}",
    "for %0 < 8 {\n%1 : f32x8 = load b6[8*%0]\nstore %95 to b6[8*%0]\n}",
    "for %0 < 8 {\nstore %95 to b6[8*%0]\n%1 : f32x8 = load b6[56 - 8*%0]\n}",
    # what lies apart is read further, or elsewhere, than it was written
    "for %0 < 2 {\nstore %95 to b6[20*%0]\n}\nfor %1 < 3 {\n%2 : f32x8 = load b6[20*%1]\n}",
    "for %0 < 3 {\nstore %95 to b6[20*%0]\n}\nfor %1 < 3 {\n%2 : f32x8 = load b6[1 + 20*%1]\n}",
    "for %0 < 2 {\nstore %95 to b6[20*%0]\n}\nfor %1 < 2 {\n%2 : f32x8 = load b6[20 + 20*%1]\n}",
    # what data says where to write is not known to be everything
    "for %4 < 9 {\n%1 : i32 = load b4[%4]\n%2 : i64 = convert %1\nstore %90 to b6[%2]\n}\n%3 : f32 = load b6[0]",
    # an earlier iteration alone
    "store %90 to b6[0]\nfor %0 < 8 {\n%1 : f32 = load b6[%0]\nstore %1 to b6[1 + %0]\n}",
)


@pytest.mark.parametrize("body", WRITTEN)
def test_reading_what_was_written(body):
    check(kernel(body))


@pytest.mark.parametrize("body", UNWRITTEN)
def test_reading_what_was_perhaps_not_written(body):
    assert "was surely written before: %" in refused(Unwritten, body)


# --- Any order -----------------------------------------------------------------------------------------------------------------------

APART: Final = (
    "for %0 < 8 parallel {\nstore %95 to b6[8*%0]\n}",
    "for %0 < 8 parallel {\nstore %95 to b6[63 - 8*%0] stride -1\n}",
    "for %0 < 8 parallel {\nstore %95 to b6[%0] stride 8\n}",
    "for %0 < 8 parallel {\nfor %1 < 8 {\nstore %90 to b6[%0 + 8*%1]\n}\n}",
    "for %0 < 8 {\nfor %1 < 8 parallel {\nstore %90 to b6[%0 + 8*%1]\n}\n}",
    "for %0 < 3 parallel {\nfor %1 < 3 parallel {\nfor %2 < 3 {\nstore %90 to b6[9*%0 + 3*%1 + %2]\n}\n}\n}",
    # a tile of two rows, in both orders
    ("for %0 < 4 parallel {\nfor %1 < 2 parallel {\nstore %95 to b6[16*%0 + 8*%1] count 4\n"
     "store %95 to b6[4 + 16*%0 + 8*%1] count 4\n}\n}"),
    ("for %1 < 2 parallel {\nfor %0 < 2 parallel {\nstore %95 to b6[32*%0 + 8*%1]\n"
     "store %95 to b6[16 + 32*%0 + 8*%1]\n}\n}"),
    # strides that do not divide each other
    "for %2 < 2 {\nfor %0 < 3 {\nfor %1 < 3 parallel {\nstore %90 to b6[10*%0 + 3*%1 + 31*%2]\n}\n}\n}",
    # interleaved
    "for %0 < 16 parallel {\nstore %90 to b6[2*%0]\nstore %90 to b6[1 + 2*%0]\n}",
    # its own elements again
    "for %0 < 8 parallel {\nstore %95 to b6[8*%0]\n%1 : f32x8 = load b6[8*%0]\nstore %1 to b6[8*%0]\n}",
    # written before, read by all
    "store %90 to b6[0]\nfor %0 < 8 parallel {\n%1 : f32 = load b6[0]\nstore %1 to b6[8 + %0]\n}",
    # one column of whatever row: the data is outside the parallel loop
    ("for %0 < 9 {\n%1 : i32 = load b4[%0]\n%2 : i64 = convert %1\nfor %3 < 6 parallel {\n"
     "store %90 to b6[6*%2 + %3]\n}\n}"),
    ("for %3 < 6 parallel {\nfor %0 < 9 {\n%1 : i32 = load b4[%0]\n%2 : i64 = convert %1\n"
     "store %90 to b6[6*%2 + %3]\n}\n}"),
    "for %0 < 1 parallel {\nstore %90 to b6[0]\n}",
    "for %0 < 0 parallel {\nstore %90 to b6[0]\n}",
    "for %0 < 8 {\nstore %90 to b6[0]\n}",
    "for %0 < 8 parallel split {\nstore %95 to b6[8*%0]\n}",
    "for %1 < 4 {\nfor %0 < 8 split {\nstore %95 to b6[8*%0]\n}\n}",
    ("for %0 < 8 split {\nstore %95 to b6[8*%0]\n}\nfor %1 < 8 split {\n%2 : f32x8 = load b6[8*%1]\n"
     "store %2 to b10[8*%1]\n}"),
    "for %0 < 4 split {\nstore %95 to b6[8*%0]\n}\nfor %1 < 3 split {\nstore %95 to b6[32 + 8*%1]\n}",
    "%5 = for %1 < 4 with %2 = %90 {\n%3 : f32 = add %2, %2\nnext %3\n}\nfor %0 < 8 split {\nstore %5 to b6[%0]\n}",
)  # fmt: skip

TOGETHER: Final = (
    "for %0 < 8 parallel {\nstore %90 to b6[0]\n}",
    "for %0 < 8 parallel {\nstore %95 to b6[7*%0]\n}",
    "for %0 < 9 parallel {\nstore %95 to b6[%0] stride 8 count 7\n}",
    "for %0 < 8 parallel {\nfor %1 < 7 {\nstore %90 to b6[%0 + 7*%1]\n}\n}",
    "for %0 < 3 parallel {\nstore %95 to b6[16*%0]\nstore %95 to b6[12 + 16*%0]\n}",
    "for %0 < 8 parallel {\nstore %90 to b6[%0]\nstore %90 to b6[7 - %0]\n}",
    "for %0 < 8 parallel {\nstore %90 to b6[%0]\nstore %90 to b6[2*%0]\n}",
    "for %0 < 8 {\nfor %1 < 8 parallel {\nstore %90 to b6[8*%0]\n}\n}",
    "store %90 to b6[0]\nfor %0 < 8 parallel {\nstore %90 to b6[1 + %0]\n%1 : f32 = load b6[0]\nstore %1 to b6[%0]\n}",
    "store %95 to b6[0]\nfor %0 < 7 parallel {\n%1 : f32 = load b6[1 + %0]\nstore %1 to b6[%0]\n}",
    "store %95 to b6[0]\nfor %0 < 8 parallel {\n%1 : f32 = load b6[0]\nstore %1 to b6[%0]\n}",
    "for %0 < 9 parallel {\n%1 : i32 = load b4[%0]\n%2 : i64 = convert %1\nstore %90 to b6[%2]\n}",
    "for %0 < 8 parallel {\nstore %90 to b10[0]\n%1 : f32 = load b10[0]\nstore %1 to b6[%0]\n}",
)  # fmt: skip

TWO_WORKERS: Final = (
    "for %0 < 8 split {\nstore %90 to b6[0]\n}",
    "for %1 < 2 {\nfor %0 < 8 split {\nstore %90 to b6[%0 + 4*%1]\n}\n}",
    ("for %0 < 8 split {\nstore %95 to b6[8*%0]\n}\nfor %1 < 4 split {\n%2 : f32x8 = load b6[8*%1]\n"
     "store %2 to b10[8*%1]\n}"),
    ("for %0 < 8 split {\nstore %95 to b6[8*%0]\n}\nfor %1 < 8 split {\n%2 : f32x8 = load b6[56 - 8*%1]\n"
     "store %2 to b10[8*%1]\n}"),
    "for %0 < 8 split {\nstore %95 to b6[8*%0]\n}\n%1 : f32 = load b6[0]",
)  # fmt: skip


@pytest.mark.parametrize("body", APART)
def test_iterations_that_touch_different_elements(body):
    check(kernel(body))


@pytest.mark.parametrize("body", TOGETHER)
def test_iterations_that_may_touch_one_element(body):
    assert refused(Overlap, body).startswith("iterations of for %")


@pytest.mark.parametrize("body", TWO_WORKERS)
def test_workers_that_may_touch_one_element(body):
    assert refused(Overlap, body).startswith("two workers may touch one element: ")


def test_nothing_is_stored_outside_of_split_loops():
    body = "store %90 to b6[63]\nfor %0 < 8 split {\nstore %90 to b6[%0]\n}"
    assert refused(Overlap, body) == "every worker writes outside of split loops: store %90 to b6[63]"
    assert refused(Overlap, "for %1 < 2 {\nstore %90 to b6[%1]\n}\nfor %0 < 8 split {\n}") == (
        "every worker writes outside of split loops: store %90 to b6[%1]"
    )


def test_split_loops_are_not_nested():
    body = "for %0 < 8 split {\nfor %1 < 2 {\nfor %2 < 2 split {\n}\n}\n}"
    assert refused(IllFormed, body) == "a split loop is inside for %0 < 8 split: for %2 < 2 split"


def test_what_may_lie_in_one_memory_is_one_buffer():
    body = "for %0 < 7 parallel {\n%1 : f32 = load b0[1 + %0]\nstore %1 to b1[%0]\n}"
    check(kernel(body, "b0 : in f32[8]\nb1 : out f32[8]\n"))
    refused(Overlap, body, "b0 : in f32[8]\nb1 : out f32[8] in_place b0\n")
    refused(Overlap, body.replace("parallel", "split"), "b0 : in f32[8]\nb1 : out f32[8] in_place b0\n")


# --- In place ------------------------------------------------------------------------------------------------------------------------

PLACE: Final = "b0 : in f32[64]\nb1 : out f32[64] in_place b0\n"

KEPT: Final = (
    "for %0 < 8 parallel {\n%1 : f32x8 = load b0[8*%0]\nstore %1 to b1[8*%0]\n}",
    # rows read twice before they are written
    ("for %0 < 8 parallel {\nfor %1 < 8 {\n%2 : f32 = load b0[8*%0 + %1]\n}\nfor %3 < 8 {\n"
     "%4 : f32 = load b0[8*%0 + %3]\nstore %4 to b1[8*%0 + %3]\n}\n}"),
    # vectors and a remainder
    "for %0 < 7 {\n%1 : f32x8 = load b0[8*%0]\nstore %1 to b1[8*%0]\n}\n%2 : f32x8 = load b0[56]\nstore %2 to b1[56]",
    ("for %0 < 4 {\n%1 : f32x8 = load b0[16*%0]\nstore %1 to b1[16*%0]\n%2 : f32x8 = load b0[8 + 16*%0]\n"
     "store %2 to b1[8 + 16*%0]\n}"),
    # towards the place that is written next, in this order
    "for %0 < 63 {\n%1 : f32 = load b0[1 + %0]\nstore %1 to b1[%0]\n}",
    "for %0 < 64 {\n%1 : f32 = load b0[%0]\n}\nfor %2 < 64 {\n%3 : f32 = load b0[%2]\nstore %3 to b1[%2]\n}",
    ("for %0 < 8 {\n%1 : f32x8 = load b0[8*%0]\nstore %1 to b1[8*%0]\n%2 : f32x8 = load b1[8*%0]\n"
     "store %2 to b1[8*%0]\n}"),
)  # fmt: skip

LOST: Final = (
    "%0 : f32 = load b0[0]\nstore %0 to b1[0]\n%1 : f32 = load b0[0]",
    "for %0 < 8 {\n%1 : f32 = load b0[0]\nstore %1 to b1[%0]\n}",
    "for %0 < 63 {\n%1 : f32 = load b0[%0]\nstore %1 to b1[1 + %0]\n}",
    "for %0 < 64 {\n%1 : f32 = load b0[%0]\nstore %1 to b1[63 - %0]\n}",
    "for %0 < 8 {\n%1 : f32x8 = load b0[8*%0]\nstore %1 to b1[8*%0]\n%2 : f32 = load b0[8*%0]\n}",
    "for %0 < 8 {\nfor %1 < 2 {\n%2 : f32x8 = load b0[8*%0]\nstore %2 to b1[8*%0]\n}\n}",
    "for %0 < 7 {\n%1 : f32x8 = load b0[8*%0]\nstore %1 to b1[8*%0]\n}\n%2 : f32x8 = load b0[55]\nstore %2 to b1[55]",
)


@pytest.mark.parametrize("body", KEPT)
def test_reading_for_the_last_time_before_writing(body):
    check(kernel(body, PLACE))


@pytest.mark.parametrize("body", LOST)
def test_reading_what_may_be_overwritten(body):
    assert refused(InPlace, body, PLACE).startswith("an element may be read after its place is written: ")


# --- Against the interpreter ---------------------------------------------------------------------------------------------------------


def _runs(kernel: Kernel) -> bool:
    """Whether the interpreter finds nothing wrong, on zeros."""
    arrays = [np.zeros(max(one.size, 0), DTYPES[one.elem]) for one in kernel.buffers]
    try:
        interpret(kernel, arrays)
    except Trap:
        return False
    return True


@pytest.mark.parametrize(
    "body", [body for body, message in OUTSIDE if message.startswith("elements") and "load b3" not in body]
)
def test_the_interpreter_finds_an_access_out_of_bounds_too(body):
    """Zeros do not lead data out of bounds; everything else that is refused above does leave its buffer."""
    assert not _runs(kernel(body)) or "load b4" in body or "load b5" in body


@pytest.mark.parametrize("body", [body for body in LOST if "< 2 {" not in body])
def test_the_interpreter_finds_what_is_overwritten_too(body):
    assert not _runs(kernel(body, PLACE))


@given(st.data())
def test_a_kernel_with_one_number_changed_is_refused_or_runs(data):
    """Whatever passes never traps: neither out of bounds, nor reading what was not written or is overwritten."""
    made = data.draw(kernels(split=False))
    changed = data.draw(_changes(made))
    arrays = data.draw(arguments(changed))
    try:
        check(changed)
    except CheckError:
        return
    interpret(changed, arrays)


@given(st.data())
def test_parallel_loops_give_the_same_from_their_ends(data):
    """Of changed kernels too, as far as they pass."""
    made = data.draw(kernels())
    kernel = data.draw(_changes(made)) if data.draw(st.booleans()) else made
    try:
        check(kernel)
    except CheckError:
        assert kernel is not made
        return
    turned = Kernel(kernel.buffers, _turned(kernel.body, iter(range(10**6, 10**7))))
    check(turned)
    arrays = data.draw(arguments(kernel))
    once, backwards = ([one.copy() for one in arrays] for _ in range(2))
    interpret(kernel, once)
    interpret(turned, backwards)
    assert not differences(kernel, once, backwards)


def _turned(body: tuple[Any, ...], fresh: Iterator[int]) -> tuple[Any, ...]:
    """A body in which every parallel loop counts another variable, from which its own is counted down."""
    found: list[Any] = []
    for one in body:
        if not isinstance(one, For):
            found.append(one)
            continue
        inner, var = _turned(one.body, fresh), one.var
        if one.parallel or one.split:
            var, last = next(fresh), next(fresh)
            type_ = Type(Elem.I64)
            down = Let(one.var, type_, Binary(BinaryOp.SUB, last, var))
            inner = (Let(last, type_, Const(max(one.extent - 1, 0))), down, *inner)
        found.append(For(var, one.extent, inner, one.carried, one.parallel, one.split))
    return tuple(found)


def test_a_wrong_parallel_loop_would_be_seen_from_its_end():
    """The two runs above differ where iterations do write one element."""
    wrong = kernel("for %0 < 4 parallel {\n%1 : i32 = convert %0\nstore %1 to b9[0]\n}")
    turned = Kernel(wrong.buffers, _turned(wrong.body, iter(range(10**6, 10**7))))
    once, backwards = ([np.zeros(one.size, DTYPES[one.elem]) for one in wrong.buffers] for _ in range(2))
    interpret(wrong, once)
    interpret(turned, backwards)
    assert [once[9][0], backwards[9][0]] == [3, 0]
    assert differences(wrong, once, backwards)


@st.composite
def _changes(draw: st.DrawFn, made: Kernel) -> Kernel:
    """The kernel with one buffer's size, one extent, base, stride or order changed."""
    if draw(st.booleans()) and made.buffers:
        place = draw(st.integers(0, len(made.buffers) - 1))
        one = made.buffers[place]
        smaller = Buffer(one.elem, max(0, one.size - draw(st.integers(1, 3))), one.access, one.bound, one.in_place)
        return Kernel((*made.buffers[:place], smaller, *made.buffers[place + 1 :]), made.body)
    return Kernel(made.buffers, _changed(draw, made.body))


def _changed(draw: st.DrawFn, body: tuple[Any, ...]) -> tuple[Any, ...]:
    """A body with one statement changed."""
    choices = [place for place, one in enumerate(body) if isinstance(one, (For, Store))]
    if not choices:
        return body
    place = draw(st.sampled_from(choices))
    one = body[place]
    more = draw(st.integers(1, 3))
    if isinstance(one, For):
        if draw(st.booleans()):
            new: Any = For(one.var, one.extent, _changed(draw, one.body), one.carried, one.parallel, one.split)
        else:
            new = For(one.var, one.extent + more, one.body, one.carried, one.parallel, one.split)
    else:
        new = Store(one.buffer, Index(one.index.base + more, one.index.terms), one.x, one.stride, one.count)
    return (*body[:place], new, *body[place + 1 :])


# --- Digits, and what is covered -----------------------------------------------------------------------------------------------------

DIGITS: Final = st.tuples(st.integers(-12, 12), st.integers(-3, 3), st.integers(0, 4)).map(
    lambda one: (one[0], one[1], one[1] + one[2])
)


@given(st.lists(DIGITS, max_size=4), st.integers(-12, 12), st.integers(0, 6))
def test_a_sum_that_is_never_zero_is_not_zero(digits, low, width):
    values = {
        sum(stride * x for (stride, _, _), x in zip(digits, choice, strict=True))
        for choice in product(*(range(least, most + 1) for _, least, most in digits))
    }
    zero = any(low <= -value <= low + width for value in values)
    if never_zero(digits, low, low + width):
        assert not zero


@given(st.permutations((1, 3, 12, 60)), st.lists(st.integers(1, 5), min_size=4, max_size=4))
def test_mixed_radix_numbers_are_different(strides, extents):
    """Digits below the next stride: two numbers whose first digit differs are different, whichever digit is first."""
    most = {1: 3, 3: 4, 12: 5, 60: 5}
    digits = [
        (stride, 1 - min(n, most[stride]), min(n, most[stride]) - 1) for stride, n in zip(strides, extents, strict=True)
    ]
    first = digits[0]
    assert never_zero([(first[0], 1, max(first[2], 1)), *digits[1:]], 0, 0)


@given(st.data())
def test_what_is_covered_was_written(data):
    """Stores in a nest of loops, of which the inner ones are closed, against the set of elements that they write."""
    extents = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    depth = len(extents)
    bodies = [Body() for _ in range(depth + 1)]
    written: set[int] = set()
    for _ in range(data.draw(st.integers(1, 3))):
        factors = [data.draw(st.integers(-6, 6)) for _ in extents]
        low = data.draw(st.integers(0, 5))
        high = low + data.draw(st.integers(0, 5))
        terms = tuple((var, factor) for var, factor in enumerate(factors) if factor)
        bodies[depth].add(0, terms, (), low, high)
        for choice in product(*map(range, extents)):
            start = sum(factor * x for factor, x in zip(factors, choice, strict=True))
            written |= set(range(low + start, high + start + 1))
    for var in reversed(range(depth)):
        bodies[var + 1].repeat(bodies[var], var, extents[var], lambda atom, var=var: atom > var)  # type: ignore[misc]
    first = data.draw(st.integers(-20, 20))
    last = first + data.draw(st.integers(0, 5))
    moving = data.draw(st.lists(st.tuples(st.integers(-6, 6), st.integers(0, 2), st.integers(0, 3)), max_size=2))
    moved = {9 + place: step for place, (step, _, _) in enumerate(moving) if step}
    ranges = {9 + place: (least, least + more) for place, (_, least, more) in enumerate(moving)}
    if bodies[0].covers(0, moved, first, last, ranges):
        for choice in product(*(range(least, least + more + 1) for _, least, more in moving)):
            shift = sum(step * x for (step, _, _), x in zip(moving, choice, strict=True))
            assert set(range(first + shift, last + shift + 1)) <= written


def test_a_kernel_of_many_stores_is_checked_in_time():
    """A tile of 14 rows of 64 elements, unrolled, in three parallel loops."""
    body: list[Any] = [Let(0, Type(Elem.F32, 8), Const(0))]
    stores = tuple(
        Store(0, Index(row * 512 + 8 * part, ((1, 14 * 512), (2, 64))), 0) for row in range(14) for part in range(8)
    )
    body.append(For(1, 4, (For(2, 8, stores, (), True),), (), True, True))
    check(Kernel((Buffer(Elem.F32, 4 * 14 * 512, Access.OUT),), tuple(body)))
