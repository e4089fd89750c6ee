"""The text form of kernel IR: word for word, back again, and the errors of its reader."""

import struct
from sys import setprofile
from types import FrameType
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from presk.kernels.build import Builder
from presk.kernels.ir import (
    Access,
    BinaryOp,
    Buffer,
    Carry,
    Compare,
    CompareOp,
    Const,
    Elem,
    Fma,
    For,
    Index,
    Kernel,
    Let,
    Load,
    Prefetch,
    Shuffle,
    Store,
    Type,
    UnaryOp,
)
from presk.kernels.parse import TextError, parse
from presk.kernels.text import constant_text, index_text, print_kernel, statement_text
from tests.kernels.strategies import kernels, patterns

WHOLE: Final = """\
kernel {
  b0 : in f32[4096]
  b1 : in i32[64] < 92
  b2 : out f32[4096] in_place b0
  b3 : out bf16[4096]
  b4 : scratch f64[16]

  %0 : f32x8 = const 0.1
  %1 : f32x8 = const nan(0x7fc00001)
  %2 : i1x8 = const true
  %3 : i64 = const -3
  for %4 < 64 parallel split {
    %5 : i32 = load b1[%4]
    %6 : i64 = convert %5
    %7 : f32x8 = load b0[64*%4] stride 2 count 5
    prefetch b0[4096 + 8*%4 - %6]
    %10, %11 = for %8 < 3 with %9 = %7, %12 = %6 {
      %13 : f32x8 = fma %9, %0, %7
      %14 : i64 = add %12, %3
      next %13, %14
    }
    %15 : i1x8 = uno %10, %1
    %16 : f32x8 = select %15, %0, %10
    %17 : f32x4 = shuffle %16, %7 [0 3 15 8]
    %18 : f32 = shuffle %16, %16 [0]
    %19 : i32x4 = bitcast %17
    %20 : f64x4 = convert %19
    %21 : f32x4 = splat %18
    %22 : f32x4 = copysign %17, %21
    %23 : f32x4 = neg %22
    store %23 to b2[64*%4] stride -1 count 3
    store %18 to b3[63 - %4]
    store %20 to b4[0]
  }
}
"""


def test_a_text_is_read_and_printed_the_same():
    kernel = parse(WHOLE)
    assert print_kernel(kernel) == WHOLE
    assert kernel.buffers == (
        Buffer(Elem.F32, 4096, Access.IN),
        Buffer(Elem.I32, 64, Access.IN, 92),
        Buffer(Elem.F32, 4096, Access.OUT, None, 0),
        Buffer(Elem.BF16, 4096, Access.OUT),
        Buffer(Elem.F64, 16, Access.SCRATCH),
    )
    constants, loop = kernel.body[:4], kernel.body[4]
    assert constants == (
        Let(0, Type(Elem.F32, 8), Const(0x3DCCCCCD)),
        Let(1, Type(Elem.F32, 8), Const(0x7FC00001)),
        Let(2, Type(Elem.BOOL, 8), Const(1)),
        Let(3, Type(Elem.I64), Const((1 << 64) - 3)),
    )
    assert isinstance(loop, For)
    assert (loop.var, loop.extent, loop.carried, loop.parallel, loop.split) == (4, 64, (), True, True)
    assert loop.body[2] == Let(7, Type(Elem.F32, 8), Load(0, Index(0, ((4, 64),)), 2, 5))
    assert loop.body[3] == Prefetch(0, Index(4096, ((4, 8), (6, -1))))
    inner = loop.body[4]
    assert isinstance(inner, For)
    assert inner.carried == (Carry(9, 7, 13, 10), Carry(12, 6, 14, 11))
    assert inner.body[0] == Let(13, Type(Elem.F32, 8), Fma(9, 0, 7))
    assert loop.body[5] == Let(15, Type(Elem.BOOL, 8), Compare(CompareOp.UNO, 10, 1))
    assert loop.body[7] == Let(17, Type(Elem.F32, 4), Shuffle(16, 7, (0, 3, 15, 8)))
    assert loop.body[14] == Store(2, Index(0, ((4, 64),)), 23, -1, 3)
    assert loop.body[15] == Store(3, Index(63, ((4, -1),)), 18)


def test_blanks_and_comments_do_not_matter():
    spread = "-- a kernel\n" + WHOLE.replace(" = ", "  =\t").replace("\n", "   -- so\n\n").replace("  ", "    ")
    assert parse(spread) == parse(WHOLE)


@given(kernels())
def test_a_random_kernel_is_read_back(kernel):
    text = print_kernel(kernel)
    assert parse(text) == kernel
    assert print_kernel(parse(text)) == text


@given(
    st.sampled_from((Elem.F64, Elem.F32, Elem.I64, Elem.I32, Elem.BOOL)).flatmap(
        lambda elem: st.tuples(st.just(elem), patterns(elem))
    )
)
def test_a_constant_is_read_back_by_its_pattern(constant):
    elem, bits = constant
    kernel = Kernel((), (Let(0, Type(elem, 4), Const(bits)),))
    assert parse(print_kernel(kernel)) == kernel


@pytest.mark.parametrize(
    "elem, bits, text",
    [
        (Elem.F64, 0x3FB999999999999A, "0.1"),
        (Elem.F32, 0x3DCCCCCD, "0.1"),
        (Elem.F32, 0x80000000, "-0.0"),
        (Elem.F32, 0x7F7FFFFF, "3.4028235e+38"),
        (Elem.F32, 0x00000001, "1e-45"),
        (Elem.F64, 0x0000000000000001, "5e-324"),
        (Elem.F64, 0xFFF0000000000000, "-inf"),
        (Elem.F32, 0xFFA00001, "nan(0xffa00001)"),
        (Elem.F64, 0x7FF8000000000000, "nan(0x7ff8000000000000)"),
        (Elem.I64, 1 << 63, "-9223372036854775808"),
        (Elem.I32, 0xFFFFFFFF, "-1"),
        (Elem.BOOL, 0, "false"),
        (Elem.BOOL, 2, "bits(0x2)"),
        (Elem.I32, 1 << 32, "bits(0x100000000)"),
        (Elem.BF16, 0x3F80, "bits(0x3f80)"),
    ],
)
def test_constants(elem, bits, text):
    assert constant_text(elem, bits) == text
    (let,) = parse(f"kernel {{\n%0 : {elem} = const {text}\n}}").body
    assert let == Let(0, Type(elem), Const(bits))


def test_hexadecimal_floats_are_read():
    body = parse("kernel {\n%0 : f32 = const -0x1.8p-3\n%1 : f64 = const 0x0.0000000000001p-1022\n}").body
    assert body[0] == Let(0, Type(Elem.F32), Const(struct.unpack("<I", struct.pack("<f", -0.1875))[0]))
    assert body[1] == Let(1, Type(Elem.F64), Const(1))


@pytest.mark.parametrize(
    "index, text",
    [
        (Index(0), "0"),
        (Index(-7), "-7"),
        (Index(0, ((3, -2),)), "-2*%3"),
        (Index(0, ((3, 1),)), "%3"),
        (Index(5, ((3, -1), (4, 64), (5, -12))), "5 - %3 + 64*%4 - 12*%5"),
        (Index(0, ((3, 0), (3, 2))), "0*%3 + 2*%3"),
    ],
)
def test_indices(index, text):
    assert index_text(index) == text
    kernel = Kernel((), (Prefetch(0, index),))
    assert parse(print_kernel(kernel)) == kernel


def test_kernels_that_no_check_would_pass_are_read_back():
    kernel = Kernel(
        (Buffer(Elem.BOOL, -3, Access.SCRATCH, -1, 9), Buffer(Elem.F32, 10**30, Access.IN)),
        (
            For(0, -2, (Store(7, Index(0, ((9, 0), (2, 1))), 5, 0, -1),), (Carry(1, 1, 1, 1),), True, True),
            Let(0, Type(Elem.U8, -4), Const(-5)),
            Let(0, Type(Elem.F32, 0), Shuffle(8, 9, ())),
            For(3, 0, ()),
        ),
    )
    assert parse(print_kernel(kernel)) == kernel


def test_every_operation_has_its_name():
    """Names of unary, binary and comparing operations do not clash, so a word says which it is."""
    words = [
        *UnaryOp,
        *BinaryOp,
        *CompareOp,
        "const",
        "fma",
        "select",
        "convert",
        "bitcast",
        "splat",
        "shuffle",
        "load",
    ]
    assert len(words) == len(set(words))


def test_a_loop_statement_is_its_head():
    loop = parse(WHOLE).body[4]
    assert isinstance(loop, For)
    assert statement_text(loop) == "for %4 < 64 parallel split"
    assert statement_text(loop.body[4]) == "%10, %11 = for %8 < 3 with %9 = %7, %12 = %6"


BROKEN: Final = (
    ("", 1, 1, "there is no kernel"),
    ("kernal {\n}", 1, 1, "`kernel` is expected"),
    ("kernel\n{", 1, 7, "`{` is expected"),
    ("kernel {\n", 2, 1, "the text ends inside a kernel"),
    ("kernel {\n}\nkernel {", 3, 1, "nothing follows a kernel"),
    ("kernel {\n  b1 : in f32[4]\n}", 2, 3, "b0 is expected"),
    ("kernel {\n  b0 : inn f32[4]\n}", 2, 8, "`in`, `out` or `scratch` is expected"),
    ("kernel {\n  b0 : in f16[4]\n}", 2, 11, "a type is expected"),
    ("kernel {\n  b0 : in f32[n]\n}", 2, 15, "a number is expected"),
    ("kernel {\n  b0 : in f32[4] in place b1\n}", 2, 18, "the line goes on"),
    ("kernel {\n  prefetch b0[0]\n  b0 : in f32[4]\n}", 3, 3, "buffers stand in front of all statements"),
    ("kernel {\n  jump\n}", 2, 3, "a statement is expected"),
    ("kernel {\n  %0 : f32 = conts 1.0\n}", 2, 14, "an operation is expected"),
    ("kernel {\n  %0 : f32 = const 1e39\n}", 2, 20, "too large for f32"),
    ("kernel {\n  %0 : f64 = const 1e999\n}", 2, 20, "too large for f64"),
    ("kernel {\n  %0 : f64 = const 0x1p1024\n}", 2, 20, "too large for f64"),
    ("kernel {\n  %0 : f32 = const nan(0x7f800000)\n}", 2, 20, "no NaN of f32"),
    ("kernel {\n  %0 : i32 = const nan(0x7fc00000)\n}", 2, 20, "no NaN of i32"),
    ("kernel {\n  %0 : i32 = const 2147483648\n}", 2, 20, "no i32"),
    ("kernel {\n  %0 : i1 = const 1\n}", 2, 19, "`false` or `true` is expected"),
    ("kernel {\n  %0 : bf16 = const 1\n}", 2, 21, "a constant of bf16 is `bits(…)`"),
    ("kernel {\n  %0 : f32 = fma %1, %2\n}", 2, 14, "`fma` has 3 operands"),
    ("kernel {\n  %0 : f32 = neg %1, %2\n}", 2, 14, "`neg` has 1 operand"),
    ("kernel {\n  %0 : f32 = add 1, %2\n}", 2, 18, "`%` is expected"),
    ("kernel {\n  %0 : f32 = load b0[%1 * 2]\n}", 2, 25, "`+` is expected"),
    ("kernel {\n  %0 : f32 = load b0[%1 + 2]\n}", 2, 25, "a number alone stands in front"),
    ("kernel {\n  %0 : f32 = load b0[x]\n}", 2, 22, "a number or a variable is expected"),
    ("kernel {\n  %0 : f32 = load b0[0] count 2 stride 2\n}", 2, 33, "the line goes on"),
    ("kernel {\n  store %0, b0[0]\n}", 2, 11, "`to` is expected"),
    ("kernel {\n  %1, %2 : f32 = neg %0\n}", 2, 10, "`=` is expected"),
    ("kernel {\n  %1 = add %0, %0\n}", 2, 8, "`for` is expected"),
    ("kernel {\n  for %0 < 4 split parallel {\n  }\n}", 2, 20, "`{` is expected"),
    ("kernel {\n  %1 = for %0 < 4 {\n  }\n}", 2, 19, "the loop carries 0, and gives 1"),
    ("kernel {\n  %1 = for %0 < 4 with %2 = %3 {\n  }\n}", 3, 1, "the loop carries 1, and `next` says 0"),
    ("kernel {\n  for %0 < 4 {\n    next %1\n  }\n}", 4, 1, "the loop carries 0, and `next` says 1"),
    ("kernel {\n  next %1\n}", 2, 1, "`next` is no part of a loop"),
    ("kernel {\n  for %0 < 4 {\n    next %1\n    next %1\n  }\n}", 4, 5, "`}` is expected behind `next`"),
    ("kernel {\n  for %0 < 4 { }\n}", 2, 16, "the line goes on"),
)


@pytest.mark.parametrize("text, line, column, message", BROKEN)
def test_what_is_no_kernel_is_refused_at_its_place(text, line, column, message):
    with pytest.raises(TextError) as error:
        parse(text)
    assert (error.value.line, error.value.column, error.value.message) == (line, column, message)
    assert str(error.value) == f"line {line}, column {column}: {message}"


@given(kernels(), st.data())
def test_a_damaged_text_is_refused_or_read(kernel, data):
    """Whatever becomes of the text, nothing but a TextError comes of it; what is read prints and reads back."""
    text = print_kernel(kernel)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(start + 8, len(text))))
    damaged = text[:start] + data.draw(st.text("%b[]{}0123456789-+*x :,=\ninfa", max_size=4)) + text[end:]
    read = _read(damaged)
    if isinstance(read, TextError):
        assert 1 <= read.line <= damaged.count("\n") + 1
        assert 1 <= read.column <= max(len(line) for line in damaged.split("\n")) + 1
    else:
        assert parse(print_kernel(read)) == read


def _read(text: str) -> Kernel | TextError:
    try:
        return parse(text)
    except TextError as error:
        return error


def _long(size: int) -> Kernel:
    b = Builder()
    x = b.buffer(Elem.F32, size)
    y = b.buffer(Elem.F32, size, Access.OUT)
    with b.loop(1) as _:
        for place in range(size):
            b.store(y, b.at(base=place), b.neg(b.load(x, b.at(base=place))))
    return b.kernel()


def _calls(kernel: Kernel) -> int:
    """How many functions, Python's own too, are called to print a kernel and read it."""
    calls = 0

    def count(frame: FrameType, event: str, arg: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    setprofile(count)
    try:
        parse(print_kernel(kernel))
    finally:
        setprofile(None)
    return calls


def test_printing_and_reading_take_linear_time():
    assert _calls(_long(800)) < 8.1 * _calls(_long(100))
