"""Kernel IR: one loop nest over buffers, with explicit loops, vectors and accumulators; every extent is a number.

A kernel is a list of statements. A `Let` names a value, which is a scalar or a vector of `lanes` scalars; a `For` counts a variable
from 0 to its extent and may carry values from one iteration to the next (accumulators); a `Store` writes. Variables are numbered,
each is defined once, before its uses; loop variables are of type `i64`. Elements of a buffer are addressed by an affine form of loop
variables and scalar `i64` values. There is no condition but `Select`, so what a kernel reads and writes follows from its text.

Every operation is IEEE 754 round-to-nearest-even in its own type, subnormals kept; `fma` rounds once; nothing is contracted or
reassociated by any executor. Lanes are independent, so a vector operation is the scalar one, lane by lane.

`bf16` and `u8` are types of buffers only. A `Load` widens: bf16 gives f32, exactly; u8 gives i32. A `Store` into bf16 takes f32 or f64
and rounds once, to nearest even (NaN stays NaN); into u8 it takes i32 and keeps the low byte.
"""

import struct
from enum import StrEnum
from typing import Final

import msgspec


class Elem(StrEnum):
    """The type of a scalar, of a lane or of an element of a buffer."""

    F64 = "f64"
    F32 = "f32"
    BF16 = "bf16"
    I64 = "i64"
    I32 = "i32"
    U8 = "u8"
    BOOL = "i1"


SIZES: Final = {Elem.F64: 8, Elem.F32: 4, Elem.BF16: 2, Elem.I64: 8, Elem.I32: 4, Elem.U8: 1}
"""Bytes of an element of a buffer."""

LOADED: Final = {
    Elem.F64: Elem.F64,
    Elem.F32: Elem.F32,
    Elem.BF16: Elem.F32,
    Elem.I64: Elem.I64,
    Elem.I32: Elem.I32,
    Elem.U8: Elem.I32,
}
"""The type that a load from a buffer gives."""

FLOATS: Final = frozenset({Elem.F64, Elem.F32})
INTEGERS: Final = frozenset({Elem.I64, Elem.I32})


class Type(msgspec.Struct, frozen=True, array_like=True):
    """The type of a value: `lanes` is 1 for a scalar."""

    elem: Elem
    lanes: int = 1


class Access(StrEnum):
    """What a kernel does with a buffer. A `scratch` buffer has no defined content before and is of no use afterwards."""

    IN = "in"
    OUT = "out"
    SCRATCH = "scratch"


class Buffer(msgspec.Struct, frozen=True, array_like=True):
    """A buffer of `size` elements. Elements of an integer buffer lie in `[0, bound)` where a bound is stated.

    An `out` buffer may be read where the kernel has written it. The memory of an `out` buffer may be that of an `in` buffer only if
    `in_place` names it: then every element is read, for the last time, before it is written, at the same index.
    """

    elem: Elem
    size: int
    access: Access
    bound: int | None = None
    in_place: int | None = None


class Index(msgspec.Struct, frozen=True, array_like=True):
    """`base + Σ stride · variable`, in elements. Strides are not 0, and no variable occurs twice."""

    base: int
    terms: tuple[tuple[int, int], ...] = ()
    """Pairs of a variable and its stride, by variable."""


# --- Operations --------------------------------------------------------------------------------------------------------------------


class Op(msgspec.Struct, frozen=True, array_like=True, tag=True, tag_field="kind"):
    """What a value is."""


class Const(Op, frozen=True):
    """A constant, the same in every lane. `bits` is the pattern of the type as a natural number (so that NaN equals itself)."""

    bits: int


class UnaryOp(StrEnum):
    """`rint` rounds to an integer, ties to even; `not` is bitwise."""

    NEG = "neg"
    ABS = "abs"
    SQRT = "sqrt"
    RINT = "rint"
    FLOOR = "floor"
    NOT = "not"


class Unary(Op, frozen=True):
    """Of a float; `not` of an integer or a truth value."""

    op: UnaryOp
    x: int


class BinaryOp(StrEnum):
    """On two values of one type. Floats have `add sub mul div copysign` (the first's size with the second's sign); integers
    `add sub mul` (modulo 2ⁿ), `and or xor`, and shifts by less than n; truth values `and or xor`."""

    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    DIV = "div"
    COPYSIGN = "copysign"
    AND = "and"
    OR = "or"
    XOR = "xor"
    SHL = "shl"
    LSHR = "lshr"
    ASHR = "ashr"


class Binary(Op, frozen=True):
    """An operation on two values of one type."""

    op: BinaryOp
    x: int
    y: int


class Fma(Op, frozen=True):
    """`x · y + z`, rounded once."""

    x: int
    y: int
    z: int


class CompareOp(StrEnum):
    """Comparisons of floats are false where an operand is NaN, but for `ne` and `uno` ("one of them is NaN"). Those of integers are
    signed, but for `ult`."""

    EQ = "eq"
    NE = "ne"
    LT = "lt"
    LE = "le"
    GT = "gt"
    GE = "ge"
    UNO = "uno"
    ULT = "ult"


class Compare(Op, frozen=True):
    """A comparison; its value is of type `i1`."""

    op: CompareOp
    x: int
    y: int


class Select(Op, frozen=True):
    """`x` in the lanes where `condition` is true, else `y`."""

    condition: int
    x: int
    y: int


class Convert(Op, frozen=True):
    """To the type of the `Let`: between floats and from an integer to a float (rounding once), between integers (sign extension or
    the low bits), from a truth value to an integer (0 or 1), from a float to an integer (it must be an integer, and in range)."""

    x: int


class Bitcast(Op, frozen=True):
    """The same bits as a type of the same size."""

    x: int


class Splat(Op, frozen=True):
    """A scalar in every lane."""

    x: int


class Shuffle(Op, frozen=True):
    """Lanes of two vectors of one type: lane i of the value is lane `pattern[i]` of `x` followed by `y`. The value is a scalar where
    the pattern has one lane."""

    x: int
    y: int
    pattern: tuple[int, ...]


class Load(Op, frozen=True):
    """Lane i is the element at `index + i · stride`, for the first `count` lanes; the others are 0 and nothing is read for them."""

    buffer: int
    index: Index
    stride: int = 1
    count: int | None = None
    """None for all lanes."""


# --- Statements --------------------------------------------------------------------------------------------------------------------


class Stmt(msgspec.Struct, frozen=True, array_like=True, tag=True, tag_field="kind"):
    """A statement."""


class Let(Stmt, frozen=True):
    """`%var : type = op`."""

    var: int
    type: Type
    op: "AnyOp"


class Carry(msgspec.Struct, frozen=True, array_like=True):
    """An accumulator: `inside` is its value in an iteration, at first `init`; `next` is its value for the next one, a variable of the
    loop's body or one from before the loop; `after` is its value behind the loop. All have one type."""

    inside: int
    init: int
    next: int
    after: int


class For(Stmt, frozen=True):
    """`var` from 0 to `extent` − 1, in order; `extent` may be 0.

    `parallel` says that iterations write different elements, read none that another writes, and carry nothing, so that any order and
    any division among threads gives the same. `split` says that the iterations are divided among workers: worker w of n takes those
    from `extent · w // n` to `extent · (w + 1) // n`. Outside of split loops a kernel that has one stores nothing.
    """

    var: int
    extent: int
    body: tuple["AnyStmt", ...]
    carried: tuple[Carry, ...] = ()
    parallel: bool = False
    split: bool = False


class Store(Stmt, frozen=True):
    """Writes lane i of a value at `index + i · stride`, for the first `count` lanes (None: all); a `stride` is not 0."""

    buffer: int
    index: Index
    x: int
    stride: int = 1
    count: int | None = None


class Prefetch(Stmt, frozen=True):
    """A hint that the elements at an index will be read soon. It may lie beyond the buffer's end, and means nothing."""

    buffer: int
    index: Index


AnyOp = Const | Unary | Binary | Fma | Compare | Select | Convert | Bitcast | Splat | Shuffle | Load
AnyStmt = Let | For | Store | Prefetch


class Kernel(msgspec.Struct, frozen=True, array_like=True):
    """A kernel: its buffers, numbered in order, and its statements. It has no name: kernels alike are equal."""

    buffers: tuple[Buffer, ...]
    body: tuple[AnyStmt, ...]


# --- Constants ---------------------------------------------------------------------------------------------------------------------

_FORMATS: Final = {Elem.F64: ("<d", "<Q"), Elem.F32: ("<f", "<I")}
_BITS: Final = {Elem.I64: 64, Elem.I32: 32, Elem.BOOL: 1}


def bits_of(elem: Elem, value: float | int) -> int:
    """The pattern of a constant. (A float that is none of the type is rounded; OverflowError beyond f32.)"""
    if elem in _FORMATS:
        floating, whole = _FORMATS[elem]
        return int(struct.unpack(whole, struct.pack(floating, value))[0])
    return int(value) & ((1 << _BITS[elem]) - 1)


def value_of(elem: Elem, bits: int) -> float | int:
    """The constant with a pattern: a float, a signed integer, or 0 or 1."""
    if elem in _FORMATS:
        floating, whole = _FORMATS[elem]
        return float(struct.unpack(floating, struct.pack(whole, bits))[0])
    if elem is Elem.BOOL:
        return bits
    width = _BITS[elem]
    return bits - (1 << width) if bits >> (width - 1) else bits
