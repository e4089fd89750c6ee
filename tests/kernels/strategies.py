"""Random kernels and random data for them, to compare executors bit for bit.

`kernels()` gives kernels that `presk.kernels.check` accepts and that never do what has no meaning, whatever the data:

- Extents are drawn first and buffers grow with the indices that are used, so every access is in bounds.
- A store gets a piece of a buffer of its own: a mixed radix number of the open loops' variables, in a random order of digits, with
  gaps and negative digits. So different iterations write different elements. Some pieces are dense in the order of the loops: those
  may be read again when loops that wrote them are closed.
- An update reads and writes a piece in a loop that does not count in its index.
- An integer that is shifted by lies below the width; a float that becomes an integer is rounded, and 0 where it is none or too large.
- Which NaN arithmetic gives is not specified. So a float that may be such a NaN (`loose`) is not looked at as bits and gives no sign.
  `agree` compares outputs with all NaN alike.

`arguments(kernel)` gives arrays for a kernel: of floats that are NaN (quiet, signalling, with payloads), infinities, zeros,
subnormals, powers of two and their neighbours, ties between bf16 and between binary32 numbers, and random patterns.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from presk.kernels.build import Builder, Value
from presk.kernels.interpret import DTYPES
from presk.kernels.ir import (
    FLOATS,
    INTEGERS,
    LOADED,
    Access,
    BinaryOp,
    Buffer,
    CompareOp,
    Elem,
    Index,
    Kernel,
    Splat,
    Type,
    UnaryOp,
)

Array = NDArray[Any]

WIDTH: Final = {Elem.F64: 64, Elem.F32: 32, Elem.I64: 64, Elem.I32: 32, Elem.BOOL: 1}
NUMBERS: Final = (Elem.F32, Elem.F64, Elem.I32, Elem.I64)
TWIN: Final = {Elem.F64: Elem.I64, Elem.F32: Elem.I32, Elem.I64: Elem.F64, Elem.I32: Elem.F32}
STORED: Final = {
    Elem.F64: (Elem.F64, Elem.BF16),
    Elem.F32: (Elem.F32, Elem.BF16),
    Elem.I64: (Elem.I64,),
    Elem.I32: (Elem.I32, Elem.U8),
}
SOURCES: Final = {
    Elem.F64: (Elem.F64,),
    Elem.F32: (Elem.F32, Elem.BF16),
    Elem.I64: (Elem.I64,),
    Elem.I32: (Elem.I32, Elem.U8),
}
LANES: Final = (1, 2, 3, 4, 5, 7, 8, 13, 16)
ITERATIONS: Final = 48
"""At most so many iterations of nested loops."""

# --- Patterns ----------------------------------------------------------------------------------------------------------------------

F32_SPECIAL: Final = (
    # NaN
    0x7FC00000, 0xFFC00000, 0x7F800001, 0xFF800001, 0x7FA00000, 0x7FFFFFFF, 0x7FC10000, 0xFF808000,
    # infinities, zeros, the ends of the subnormal, normal and all numbers, about 1
    0x7F800000, 0xFF800000, 0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007FFFFF, 0x807FFFFF,
    0x00800000, 0x80800000, 0x00800001, 0x7F7FFFFF, 0xFF7FFFFF, 0x3F800000, 0xBF800000, 0x3F800001, 0x3F7FFFFF,
    # about ties between bf16 numbers
    0x3F808000, 0x3F818000, 0x3F807FFF, 0x3F808001, 0x3F817FFF, 0x3F818001, 0xBF808000,
    0x00008000, 0x00018000, 0x00007FFF, 0x00008001, 0x007F8000, 0x7F7F7FFF, 0x7F7F8000, 0x7F7F0000, 0xFF7F8000,
    # ties of rint
    0x3F000000, 0x3FC00000, 0x40200000, 0xBF000000, 0xBFC00000, 0x4AFFFFFF, 0x4B000001, 0x4F000000, 0xCF000000,
    0x5F000000, 0xDF000000, 0x5EFFFFFF, 0x1A800000, 0x1A7FFFFF, 0x5F800000, 0x20000000, 0x9F800001,
)  # fmt: skip

F64_SPECIAL: Final = (
    # NaN
    0x7FF8000000000000, 0xFFF8000000000000, 0x7FF0000000000001, 0xFFF0000000000001, 0x7FFFFFFFFFFFFFFF,
    0x7FF0000020000000, 0x7FF8200000000000, 0x7FF4000000000000,
    # infinities, zeros, the ends of the subnormal, normal and all numbers, about 1
    0x7FF0000000000000, 0xFFF0000000000000, 0x0000000000000000, 0x8000000000000000, 0x0000000000000001,
    0x8000000000000001, 0x000FFFFFFFFFFFFF, 0x0010000000000000, 0x8010000000000000, 0x0010000000000001,
    0x7FEFFFFFFFFFFFFF, 0xFFEFFFFFFFFFFFFF, 0x3FF0000000000000, 0xBFF0000000000000, 0x3FF0000000000001,
    0x3FEFFFFFFFFFFFFF,
    # about ties between binary32 numbers
    0x3FF0000010000000, 0x3FF0000030000000, 0x3FF000000FFFFFFF, 0x3FF0000010000001,
    0x47EFFFFFE0000000, 0x47EFFFFFEFFFFFFF, 0x47EFFFFFF0000000, 0x47EFFFFFF0000001, 0x3690000000000000,
    0x3690000000000001,
    0x36A0000000000000, 0x36A8000000000000, 0x380FFFFFF0000000, 0x380FFFFFE0000000, 0x380FFFFFD0000000,
    # about ties between bf16 numbers
    0x3FF0100000000000, 0x3FF0300000000000, 0x3FF0100000000001, 0x3FF00FFFFFFFFFFF, 0x3FF02FFFFFFFFFFF,
    0x3FF0100010000000, 0x3FF00FFFF0000000, 0x3FF0100000000100, 0x47EFEFFFFFFFFFFF, 0x47EFF00000000000,
    0x3780000000000001,
    0x3780000000000000, 0x3798000000000000, 0x380FE00000000000, 0x380FF00000000000, 0x380FF00000000001,
    # ties of rint, ends of integers, products that underflow
    0x3FE0000000000000, 0x3FF8000000000000, 0x4004000000000000, 0xBFE0000000000000, 0x432FFFFFFFFFFFFF,
    0x4330000000000001,
    0x43E0000000000000, 0xC3E0000000000000, 0x41E0000000000000, 0x1E50000000000001, 0x5FE0000000000001,
    0x2000000000000003,
)  # fmt: skip

INTEGER_SPECIAL: Final = (
    0,
    1,
    -1,
    2,
    7,
    -8,
    31,
    63,
    255,
    256,
    (1 << 24) + 1,
    (1 << 53) + 1,
    (1 << 31) - 1,
    -(1 << 31),
    (1 << 63) - 1,
)
INTEGER_SPECIAL_WIDE: Final = (
    -(1 << 63),
    (1 << 62) + (1 << 38),
    (1 << 54) + (1 << 30) + 1,
    -(1 << 54) - (1 << 30),
    0x7FFFFFBFFFFFFFFF,
)

SPECIAL: Final = {
    Elem.F64: F64_SPECIAL,
    Elem.F32: F32_SPECIAL,
    Elem.I64: tuple(one & (1 << 64) - 1 for one in (*INTEGER_SPECIAL, *INTEGER_SPECIAL_WIDE)),
    Elem.I32: tuple(one & (1 << 32) - 1 for one in INTEGER_SPECIAL),
    Elem.BOOL: (0, 1),
}


@st.composite
def patterns(draw: st.DrawFn, elem: Elem) -> int:
    """The pattern of a value: often a special one."""
    if draw(st.booleans()):
        return draw(st.sampled_from(SPECIAL[elem]))
    return draw(st.integers(0, (1 << WIDTH[elem]) - 1))


# --- Data --------------------------------------------------------------------------------------------------------------------------


def _floats(random: np.random.Generator, elem: Elem, size: int, tame: float) -> Array:
    """Patterns of floats, `tame` of which are sixteenths of small integers."""
    unsigned = {Elem.F64: np.uint64, Elem.F32: np.uint32, Elem.BF16: np.uint16}[elem]
    width = np.dtype(unsigned).itemsize * 8
    wild = (
        random.integers(0, 1 << width, size, dtype=unsigned, endpoint=False) if width < 64 else random.bytes(size * 8)
    )
    found = np.frombuffer(wild, np.uint64).copy() if isinstance(wild, bytes) else wild
    if elem is Elem.BF16:
        special = np.array([one >> 16 for one in F32_SPECIAL], unsigned)
    else:
        special = np.array(SPECIAL[elem], unsigned)
    choice = random.random(size)
    found = np.where(choice < 0.5, special[random.integers(0, len(special), size)], found)
    easy = random.integers(-64, 64, size) / 16
    if elem is Elem.BF16:
        calm = (easy.astype(np.float32).view(np.uint32) >> 16).astype(unsigned)
    else:
        calm = easy.astype(DTYPES[elem]).view(unsigned)
    found = np.where(random.random(size) < tame, calm, found)
    return found if elem is Elem.BF16 else found.view(DTYPES[elem])


def _integers(random: np.random.Generator, elem: Elem, size: int, bound: int | None) -> Array:
    """Integers below the bound, if there is one."""
    if bound is not None:
        return random.integers(0, bound, size).astype(DTYPES[elem])
    if elem is Elem.U8:
        return random.integers(0, 256, size).astype(np.uint8)
    info = np.iinfo(np.dtype(DTYPES[elem]))
    wild = random.integers(info.min, info.max, size, dtype=DTYPES[elem], endpoint=True)
    special = np.array([one for one in INTEGER_SPECIAL if info.min <= one <= info.max], DTYPES[elem])
    return np.where(random.random(size) < 0.5, special[random.integers(0, len(special), size)], wild)


def filled(kernel: Kernel, seed: int, tame: float = 0.5) -> list[Array]:
    """Arrays for the buffers of a kernel, outputs too, which hold what a kernel must not let through."""
    random = np.random.Generator(np.random.PCG64(seed))
    return [
        _floats(random, buffer.elem, buffer.size, tame)
        if buffer.elem in (Elem.F64, Elem.F32, Elem.BF16)
        else _integers(random, buffer.elem, buffer.size, buffer.bound)
        for buffer in kernel.buffers
    ]


@st.composite
def arguments(draw: st.DrawFn, kernel: Kernel) -> list[Array]:
    """Arrays for the buffers of a kernel."""
    return filled(kernel, draw(st.integers(0, 2**32 - 1)), draw(st.sampled_from((1.0, 0.8, 0.3, 0.0))))


def aliased(kernel: Kernel, arrays: Sequence[Array]) -> list[Array]:
    """Copies of the arrays in which outputs share the memory of the inputs that they may stand in."""
    found = [one.copy() for one in arrays]
    for number, buffer in enumerate(kernel.buffers):
        if buffer.in_place is not None:
            found[number] = found[buffer.in_place]
    return found


def is_nan(elem: Elem, array: Array) -> NDArray[np.bool_]:
    """Where the elements of a buffer's array are NaN."""
    if elem is Elem.BF16:
        return np.asarray((array & 0x7FFF) > 0x7F80)
    if elem in FLOATS:
        return np.asarray(np.isnan(array))
    return np.zeros(array.shape, bool)


def agree(buffer: Buffer, left: Array, right: Array) -> bool:
    """Whether two arrays of a buffer have the same bits, all NaN alike. (What a scratch buffer holds afterwards does not matter.)"""
    if buffer.access is Access.SCRATCH:
        return True
    nan = is_nan(buffer.elem, left)
    unsigned = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[left.dtype.itemsize]
    same = left.view(unsigned) == right.view(unsigned)
    return bool(np.all((nan & is_nan(buffer.elem, right)) | (same & ~nan)))


def differences(kernel: Kernel, left: Sequence[Array], right: Sequence[Array]) -> list[str]:
    """The buffers of two runs that do not agree, with the first place where they differ: empty if all do."""
    found = []
    for number, buffer in enumerate(kernel.buffers):
        for place in range(buffer.size):
            one, other = left[number][place : place + 1], right[number][place : place + 1]
            if not agree(buffer, one, other):
                found.append(f"b{number}[{place}]: {one.tobytes()[::-1].hex()} and {other.tobytes()[::-1].hex()}")
                break
    return found


# --- Kernels -----------------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Open:
    """An open loop. `own` says that its iterations may run in any order, so that each has elements of its own."""

    var: Value
    extent: int
    own: bool


@dataclass(slots=True)
class _Piece:
    """A piece of a buffer that is written: by which loops, at which stride of each, how many elements for a choice of all of them."""

    buffer: int
    base: int
    path: list[tuple[_Open, int]]
    lanes: int
    stride: int
    count: int | None
    dense: bool


@dataclass(slots=True)
class _Known:
    """A value in scope. `loose` floats may be a NaN whose pattern is not specified."""

    value: Value
    loose: bool
    used: bool = False


@dataclass(slots=True)
class _Scope:
    """What a body may use."""

    loops: list[_Open]
    known: list[_Known]
    pieces: list[_Piece]
    scalars: list[tuple[Value, int]] = field(default_factory=list)
    """`i64` values of a bounded buffer, and their bound."""

    def inner(self, loop: _Open) -> "_Scope":
        """The scope of the loop's body."""
        return _Scope([*self.loops, loop], list(self.known), list(self.pieces), list(self.scalars))


class _Maker:
    """Draws one kernel."""

    def __init__(self, draw: st.DrawFn, lanes: Sequence[int], split: bool) -> None:
        self.draw = draw
        self.lanes = lanes
        self.split = split
        self.inside = False
        """Whether a split loop is open."""
        self.b = Builder()
        self.elems: list[Elem] = []
        self.sizes: list[int] = []
        self.inputs: dict[Elem, list[int]] = {}
        self.outputs: dict[Elem, list[int]] = {}

    # --- choices ---

    def chance(self, percent: int) -> bool:
        return self.draw(st.integers(0, 99)) < percent

    def one_of(self, *choices: Any) -> Any:
        return self.draw(st.sampled_from(choices))

    def number(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    # --- buffers ---

    def buffer(self, elem: Elem, access: Access, *, bound: int | None = None, in_place: int | None = None) -> int:
        self.elems.append(elem)
        self.sizes.append(0)
        return self.b.buffer(elem, 0, access, bound=bound, in_place=in_place)

    def input(self, elem: Elem) -> int:
        numbers = self.inputs.setdefault(elem, [])
        if not numbers or (len(numbers) < 2 and self.chance(20)):
            numbers.append(self.buffer(elem, Access.IN))
        return int(self.one_of(*numbers))

    def output(self, elem: Elem) -> int:
        numbers = self.outputs.setdefault(elem, [])
        if not numbers or (len(numbers) < 3 and self.chance(30)):
            numbers.append(self.buffer(elem, self.one_of(*(Access.OUT,) * 5, Access.SCRATCH)))
        return int(self.one_of(*numbers))

    def kernel(self) -> Kernel:
        built = self.b.kernel()
        buffers = (
            Buffer(one.elem, size, one.access, one.bound, one.in_place)
            for one, size in zip(built.buffers, self.sizes, strict=True)
        )
        return Kernel(tuple(buffers), built.body)

    # --- reading ---

    def vector(self, lanes: int) -> tuple[int, int | None]:
        """The stride and the count of an access."""
        if lanes == 1:
            return 1, None
        stride = 1 if self.chance(60) else int(self.one_of(2, 3, -1, -2, 5))
        return stride, self.number(1, lanes - 1) if self.chance(25) else None

    def read_index(self, scope: _Scope, buffer: int, lanes: int, stride: int, count: int | None) -> Index:
        """Any index into an input; the buffer grows so that it is in bounds."""
        ranges = [(loop.var, loop.extent - 1) for loop in scope.loops]
        ranges += [(value, bound - 1) for value, bound in scope.scalars[-2:]]
        terms = []
        low = high = 0
        for var, most in ranges:
            factor = int(self.one_of(0, 0, 1, 1, 2, 3, 4, 8, -1, -2))
            terms.append((var, factor))
            low += min(0, factor * most)
            high += max(0, factor * most)
        reach = ((lanes if count is None else count) - 1) * stride
        low, high = low + min(0, reach), high + max(0, reach)
        base = self.number(0, 2) - low
        self.sizes[buffer] = max(self.sizes[buffer], base + high + 1)
        return self.b.at(*terms, base=base)

    def load(self, scope: _Scope, type_: Type) -> _Known:
        buffer = self.input(self.one_of(*SOURCES[type_.elem]))
        stride, count = self.vector(type_.lanes)
        if type_.lanes > 1 and self.chance(8):
            stride = 0
        index = self.read_index(scope, buffer, type_.lanes, stride, count)
        return _Known(self.b.load(buffer, index, type_.lanes, stride=stride, count=count), False)

    def reload(self, scope: _Scope) -> _Known | None:
        """A value from a piece that is written: at the same place, or anywhere in what closed loops filled."""
        if not scope.pieces:
            return None
        piece = self.one_of(*scope.pieces)
        path = [(loop, factor) for loop, factor in piece.path if any(loop is one for one in scope.loops)]
        terms = [(loop.var, factor) for loop, factor in path]
        elem = LOADED[self.elems[piece.buffer]]
        if len(path) == len(piece.path):
            index = self.b.at(*terms, base=piece.base)
            if self.chance(50):
                found = self.b.load(piece.buffer, index, piece.lanes, stride=piece.stride, count=piece.count)
            else:
                found = self.b.load(piece.buffer, index)
            return _Known(found, elem in FLOATS)
        if not piece.dense or any(loop.extent == 0 for loop, _ in piece.path):
            return None
        # Dense, in the order of the loops: what the closed loops wrote lies together.
        size = piece.lanes * math.prod(loop.extent for loop, _ in piece.path[len(path) :])
        lanes = min(size, int(self.one_of(*self.lanes)))
        base = piece.base + self.number(0, size - lanes)
        return _Known(self.b.load(piece.buffer, self.b.at(*terms, base=base), lanes), elem in FLOATS)

    # --- values ---

    def need(self, scope: _Scope, type_: Type, *, firm: bool = False) -> _Known:
        """A value of a type: one in scope, or a new one. `firm`: not loose."""
        fitting = [one for one in scope.known if one.value.type == type_ and not (firm and one.loose)]
        if fitting and self.chance(75):
            found: _Known = self.one_of(*fitting[-6:])
        else:
            found = self.keep(scope, self.make(scope, type_))
        found.used = True
        return found

    def make(self, scope: _Scope, type_: Type) -> _Known:
        """A new value of a type, not loose."""
        if type_.elem is Elem.BOOL:
            return self.comparison(scope, type_.lanes)
        if type_.lanes > 1 and self.chance(20):
            narrow = self.need(scope, Type(type_.elem), firm=True)
            return _Known(self.b.splat(narrow.value, type_.lanes), False)
        if self.chance(25):
            return _Known(self.b.bits(type_.elem, self.draw(patterns(type_.elem)), type_.lanes), False)
        return self.load(scope, type_)

    def keep(self, scope: _Scope, known: _Known) -> _Known:
        scope.known.append(known)
        return known

    def type(self, scope: _Scope, lanes: int) -> Type:
        return Type(self.one_of(Elem.F32, *NUMBERS), lanes)

    def comparison(self, scope: _Scope, lanes: int) -> _Known:
        type_ = self.type(scope, lanes)
        common = (CompareOp.EQ, CompareOp.NE, CompareOp.LT, CompareOp.LE, CompareOp.GT, CompareOp.GE)
        op = self.one_of(*common, CompareOp.UNO if type_.elem in FLOATS else CompareOp.ULT)
        x = self.need(scope, type_)
        y = x if self.chance(10) else self.need(scope, type_)
        return _Known(self.b.compare(op, x.value, y.value), False)

    def operation(self, scope: _Scope, lanes: int) -> _Known:
        """A new value by a random operation."""
        b = self.b
        kind = self.number(0, 11)
        if kind <= 3:
            return self.arithmetic(scope, Type(self.one_of(Elem.F32, Elem.F64), lanes))
        if kind <= 5:
            return self.whole(scope, Type(self.one_of(Elem.I32, Elem.I64), lanes))
        if kind == 6:
            return self.comparison(scope, lanes)
        if kind == 7:
            type_ = self.type(scope, lanes)
            truth = self.need(scope, Type(Elem.BOOL, lanes))
            x, y = self.need(scope, type_), self.need(scope, type_)
            return _Known(b.select(truth.value, x.value, y.value), x.loose or y.loose)
        if kind == 8:
            return self.truth(scope, lanes)
        if kind == 9:
            return self.conversion(scope, lanes)
        if kind == 10:
            x = self.need(scope, Type(self.one_of(*TWIN), lanes), firm=True)
            return _Known(b.bitcast(x.value, TWIN[x.value.elem]), False)
        return self.shuffle(scope, lanes)

    def arithmetic(self, scope: _Scope, type_: Type) -> _Known:
        b = self.b
        kind = self.number(0, 14)
        x = self.need(scope, type_)
        if kind <= 2:
            op = (BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL)[kind]
            return _Known(b.binary(op, x.value, self.need(scope, type_).value), True)
        if kind <= 4:
            return _Known(b.div(x.value, self.need(scope, type_).value), True)
        if kind <= 7:
            y, z = self.need(scope, type_), self.need(scope, type_)
            return _Known(b.fma(x.value, y.value, z.value), True)
        if kind == 8:
            sign = self.need(scope, type_, firm=True)
            return _Known(b.binary(BinaryOp.COPYSIGN, x.value, sign.value), x.loose)
        if kind <= 10:
            return _Known(b.unary(self.one_of(UnaryOp.NEG, UnaryOp.ABS), x.value), x.loose)
        if kind <= 13:
            return _Known(b.unary(self.one_of(UnaryOp.SQRT, UnaryOp.RINT, UnaryOp.FLOOR), x.value), True)
        return self.settled(x)

    def settled(self, x: _Known) -> _Known:
        """The value with every NaN replaced by one."""
        nan = {Elem.F32: 0x7FC00000, Elem.F64: 0x7FF8000000000000}[x.value.elem]
        truth = self.b.compare(CompareOp.UNO, x.value, x.value)
        return _Known(self.b.select(truth, self.b.bits(x.value.elem, nan, x.value.lanes), x.value), False)

    def whole(self, scope: _Scope, type_: Type) -> _Known:
        b = self.b
        x = self.need(scope, type_)
        op = self.one_of(*(op for op in BinaryOp if op not in (BinaryOp.DIV, BinaryOp.COPYSIGN)), None)
        if op is None:
            return _Known(b.unary(UnaryOp.NOT, x.value), False)
        if op in (BinaryOp.SHL, BinaryOp.LSHR, BinaryOp.ASHR):
            width = WIDTH[type_.elem]
            if self.chance(50):
                by = b.const(type_.elem, self.number(0, width - 1), type_.lanes)
            else:
                mask = b.const(type_.elem, width - 1, type_.lanes)
                by = b.binary(BinaryOp.AND, self.need(scope, type_).value, mask)
            return _Known(b.binary(op, x.value, by), False)
        return _Known(b.binary(op, x.value, self.need(scope, type_).value), False)

    def truth(self, scope: _Scope, lanes: int) -> _Known:
        type_ = Type(Elem.BOOL, lanes)
        x = self.need(scope, type_)
        if self.chance(20):
            return _Known(self.b.unary(UnaryOp.NOT, x.value), False)
        op = self.one_of(BinaryOp.AND, BinaryOp.OR, BinaryOp.XOR)
        return _Known(self.b.binary(op, x.value, self.need(scope, type_).value), False)

    def conversion(self, scope: _Scope, lanes: int) -> _Known:
        b = self.b
        source = self.one_of(*NUMBERS, Elem.BOOL)
        targets = (Elem.I32, Elem.I64) if source is Elem.BOOL else tuple(one for one in NUMBERS if one is not source)
        target = self.one_of(*targets)
        x = self.need(scope, Type(source, lanes))
        if source in FLOATS and target in INTEGERS:
            # 2³⁰ is in range of both; a NaN is not less.
            whole = b.unary(self.one_of(UnaryOp.RINT, UnaryOp.FLOOR), x.value)
            small = b.compare(CompareOp.LT, b.abs(whole), b.const(source, 2.0**30, lanes))
            return _Known(b.convert(b.select(small, whole, b.const(source, 0.0, lanes)), target), False)
        return _Known(b.convert(x.value, target), source in FLOATS)

    def shuffle(self, scope: _Scope, lanes: int) -> _Known:
        type_ = Type(self.one_of(*NUMBERS, Elem.BOOL), lanes)
        if lanes == 1 and self.chance(30):
            x = self.need(scope, type_)
            return _Known(self.b.let(type_, Splat(x.value.var)), x.loose)
        x, y = self.need(scope, type_), self.need(scope, type_)
        size = lanes if self.chance(60) else int(self.one_of(*self.lanes))
        pattern = [self.number(0, 2 * lanes - 1) for _ in range(size)]
        return _Known(self.b.shuffle(x.value, y.value, pattern), x.loose or y.loose)

    # --- writing ---

    def stored(self, x: _Known) -> _Known:
        """A value of a type that a buffer has."""
        if x.value.elem is not Elem.BOOL:
            return x
        return _Known(self.b.convert(x.value, Elem.I32), False)

    def piece(self, scope: _Scope, buffer: int, lanes: int, stride: int, count: int | None) -> _Piece:
        """A new piece of a buffer for a store in the open loops."""
        dense = stride == 1 and count is None and self.chance(60)
        loops = list(reversed(scope.loops))
        if not dense:
            loops = self.draw(st.permutations(loops))
        span = (lanes - 1) * abs(stride) + 1
        low = min(0, (lanes - 1) * stride)
        factors: dict[int, int] = {}
        for loop in loops:
            factor = span if dense else (span + self.number(0, 2)) * int(self.one_of(1, 1, 1, -1))
            factors[loop.var.var] = factor
            reach = factor * max(loop.extent - 1, 0)
            low += min(0, reach)
            span += abs(reach)
        base = self.sizes[buffer] + self.number(0, 2) - low
        self.sizes[buffer] = base + low + span
        return _Piece(
            buffer, base, [(loop, factors[loop.var.var]) for loop in scope.loops], lanes, stride, count, dense
        )

    def store(self, scope: _Scope) -> None:
        """Stores a value, one of the last."""
        if not scope.known:
            self.keep(scope, self.operation(scope, int(self.one_of(*self.lanes))))
        self.store_value(scope, self.one_of(*scope.known[-4:]))

    def store_value(self, scope: _Scope, known: _Known) -> None:
        """Stores a value in a new piece of a buffer."""
        known.used = True
        x = self.stored(known)
        buffer = self.output(self.one_of(*STORED[x.value.elem]))
        stride, count = self.vector(x.value.lanes)
        piece = self.piece(scope, buffer, x.value.lanes, stride, count)
        index = self.b.at(*((loop.var, factor) for loop, factor in piece.path), base=piece.base)
        self.b.store(buffer, index, x.value, stride=stride, count=count)
        scope.pieces.append(piece)

    def update(self, scope: _Scope) -> None:
        """Adds to what stands in a piece, in a loop whose iterations come in order."""
        mine = [one for one in scope.pieces if self.outside(scope, one)]
        if not mine:
            return
        piece = self.one_of(*mine)
        index = self.b.at(*((loop.var, factor) for loop, factor in piece.path), base=piece.base)
        old = self.b.load(piece.buffer, index, piece.lanes, stride=piece.stride, count=piece.count)
        loose = old.elem in FLOATS
        scope.known.append(_Known(old, loose))
        other = self.need(scope, old.type)
        new = self.b.fma(old, other.value, old) if loose and self.chance(40) else self.b.add(old, other.value)
        self.b.store(piece.buffer, index, new, stride=piece.stride, count=piece.count)

    def outside(self, scope: _Scope, piece: _Piece) -> bool:
        """Whether the piece's loops are open, and the further open ones in order."""
        own = [loop for loop, _ in piece.path]
        return scope.loops[: len(own)] == own and not any(loop.own for loop in scope.loops[len(own) :])

    def in_place(self, scope: _Scope) -> None:
        """Reads an input and writes an output in its place."""
        elem = self.one_of(Elem.F32, Elem.F64, Elem.BF16, Elem.I32)
        lanes = int(self.one_of(*self.lanes))
        stride, count = self.vector(lanes)
        source = self.buffer(elem, Access.IN)
        target = self.buffer(elem, Access.OUT, in_place=source)
        piece = self.piece(scope, target, lanes, stride, count)
        self.sizes[source] = self.sizes[target]
        index = self.b.at(*((loop.var, factor) for loop, factor in piece.path), base=piece.base)
        x = self.b.load(source, index, lanes, stride=stride, count=count)
        self.keep(scope, _Known(x, False))
        result = self.b.mul(x, x) if self.chance(50) else self.b.add(x, self.need(scope, x.type).value)
        self.b.store(target, index, result, stride=stride, count=count)

    # --- statements ---

    def gather(self, scope: _Scope) -> None:
        """An integer below a bound, for indices."""
        elem = self.one_of(Elem.I32, Elem.I64, Elem.U8)
        bound = self.number(1, 5)
        buffer = self.buffer(elem, Access.IN, bound=bound)
        index = self.read_index(scope, buffer, 1, 1, None)
        value = self.b.convert(self.b.load(buffer, index), Elem.I64)
        scope.scalars.append((value, bound))
        self.keep(scope, _Known(value, False))

    def reaching(self, scope: _Scope) -> int:
        return math.prod(max(loop.extent, 1) for loop in scope.loops)

    def loop(self, scope: _Scope, depth: int, *, split: bool = False) -> None:
        """A loop with a body, perhaps with accumulators."""
        most = max(1, ITERATIONS // self.reaching(scope))
        extent = min(most, int(self.one_of(1, 2, 3, 2, 3, 4, 5, 7, 2, 3, 1, 0)))
        own = split or self.chance(35)
        carried: list[_Known] = []
        if not own and self.chance(60):
            lanes = int(self.one_of(*self.lanes))
            for _ in range(self.number(1, 3)):
                elem = self.one_of(*NUMBERS, Elem.BOOL)
                carried.append(self.need(scope, Type(elem, lanes if self.chance(80) else 1)))
        parallel = own and not (split and self.chance(30))
        loop = self.b.loop(extent, [one.value for one in carried], parallel=parallel, split=split)
        before, self.inside = self.inside, self.inside or split
        with loop as var:
            opened = _Open(var, extent, own)
            inner = scope.inner(opened)
            inner.known += [_Known(var, False), *(_Known(value, value.elem in FLOATS) for value in loop.inside)]
            self.body(inner, depth + 1)
            following = []
            for one in carried:
                if self.chance(70):
                    self.keep(inner, self.again(inner, one.value.type))
                following.append(self.need(inner, one.value.type).value)
            loop.next = following
        self.inside = before
        scope.known += [_Known(value, value.elem in FLOATS) for value in loop.after]
        if not split:
            scope.pieces += inner.pieces[len(scope.pieces) :]

    def again(self, scope: _Scope, type_: Type) -> _Known:
        """A value of a type by arithmetic on values in scope."""
        if type_.elem in FLOATS:
            return self.arithmetic(scope, type_)
        if type_.elem is Elem.BOOL:
            return self.truth(scope, type_.lanes)
        return self.whole(scope, type_)

    def body(self, scope: _Scope, depth: int) -> None:
        """Statements."""
        storing = self.inside or not self.split
        lanes = int(self.one_of(*self.lanes))
        before = len(scope.known) if depth > 1 else 0
        for _ in range(self.number(1, 5 if depth else 4)):
            kind = self.number(0, 19)
            if kind <= 9:
                self.keep(scope, self.operation(scope, lanes if self.chance(80) else int(self.one_of(*self.lanes))))
            elif kind <= 12 and storing:
                self.store(scope)
            elif kind == 13 and storing:
                self.update(scope)
            elif kind == 14:
                again = self.reload(scope) if storing else None
                if again is not None:
                    self.keep(scope, again)
            elif kind == 15:
                self.gather(scope)
            elif kind == 16 and storing:
                self.in_place(scope)
            elif kind == 17 and self.inputs:
                elem = self.one_of(*self.inputs)
                terms = [(loop.var, self.number(-3, 9)) for loop in scope.loops]
                self.b.prefetch(self.inputs[elem][0], self.b.at(*terms, base=self.number(-5, 99)))
            elif depth < 3:
                self.loop(scope, depth, split=self.split and not self.inside and self.chance(60))
        if storing:
            # What nothing uses would be computed for nothing: executors need not agree on it.
            unused = [one for one in scope.known[before:] if not one.used]
            for one in unused[-4:] or scope.known[-1:]:
                self.store_value(scope, one)


@st.composite
def kernels(draw: st.DrawFn, lanes: Sequence[int] = LANES, split: bool | None = None) -> Kernel:
    """A kernel with vectors of such lanes (a shuffle's may be any of them); with or without split loops."""
    maker = _Maker(draw, lanes, draw(st.sampled_from((False, False, True))) if split is None else split)
    scope = _Scope([], [], [])
    for _ in range(draw(st.integers(1, 3))):
        maker.body(scope, 0)
        maker.loop(scope, 0, split=maker.split)
    return maker.kernel()
