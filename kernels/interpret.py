"""The kernel interpreter: executes kernel IR one scalar at a time. What it computes is what a kernel means.

A value is a tuple of its lanes. A lane of `f64` or `f32` is a Python float (of `f32` one that binary32 has), of `i64` or `i32` a
Python integer, signed, of `i1` 0 or 1. How each operation rounds once:

- `f64`: Python's own arithmetic is binary64; `fma` is MPFR's at 53 bits and binary64's range, subnormals included.
- `f32`: `add sub mul div sqrt` are computed in binary64 and rounded to binary32. Rounding twice is innocuous there, since 53 bits
are
  more than 2·24 + 1 (S. Figueroa, "When is double rounding innocuous?", SIGNUM Newsletter 30(3), 1995); it stays so for subnormal
  results, which are exact sums, exact products, or quotients that cannot come near a tie of fewer bits without being one. `fma` is
  MPFR's at 24 bits and binary32's range.
- `bf16`: a store rounds the binary64 pattern by integer arithmetic, one step from either type.
- An `i64` becomes `f32` through an integer of 40 bits whose last one says whether anything lies below.

Arithmetic that gives NaN gives the quiet NaN without a payload; which NaN it is in another executor is not specified. What moves
values without computing (loads, stores, constants, `select`, `shuffle`, `splat`, `bitcast`, and `neg abs copysign`, which act on
the sign bit) keeps every NaN as it is. A `bf16` store keeps what fits of a NaN's payload, and the quiet bit if nothing does.

The kernel is one that `presk.kernels.check` accepts. What a check cannot see, a `Trap` reports, with the statement: a conversion to
an integer of what is none, a shift by too much, a read of an `out` or `scratch` element that was not written, a read of an `in`
element whose place was overwritten; and, for kernels that were not checked, an access out of bounds.
"""

import math
import operator
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, assert_never

import gmpy2
import numpy as np
from numpy.typing import NDArray

from presk.kernels.ir import (
    Access,
    AnyOp,
    AnyStmt,
    Binary,
    BinaryOp,
    Bitcast,
    Compare,
    CompareOp,
    Const,
    Convert,
    Elem,
    Fma,
    For,
    Index,
    Kernel,
    Let,
    Load,
    Prefetch,
    Select,
    Shuffle,
    Splat,
    Store,
    Type,
    Unary,
    UnaryOp,
)
from presk.kernels.text import statement_text

DTYPES: Final[Mapping[Elem, type[np.generic]]] = {
    Elem.F64: np.float64,
    Elem.F32: np.float32,
    Elem.BF16: np.uint16,
    Elem.I64: np.int64,
    Elem.I32: np.int32,
    Elem.U8: np.uint8,
}
"""What arrays hold the elements of buffers; `bf16` stands in them by its pattern."""

Scalar = float | int
Lanes = tuple[Any, ...]
"""A value: the scalars of its lanes."""

Array = NDArray[Any]


class Trap(Exception):
    """The kernel did what has no meaning; the message names the statement."""


class BadArguments(Exception):
    """Arrays that are not what the kernel's buffers say."""


# --- Patterns ---------------------------------------------------------------------------------------------------------------------

NAN: Final = math.nan
_F64_INFINITY: Final = 0x7FF << 52
_BINARY64: Final = struct.Struct("<d")
_BINARY32: Final = struct.Struct("<f")
_WORD64: Final = struct.Struct("<Q")
_WORD32: Final = struct.Struct("<I")


def pattern64(x: float) -> int:
    """The pattern of a binary64 number."""
    return int(_WORD64.unpack(_BINARY64.pack(x))[0])


def value64(bits: int) -> float:
    """The binary64 number with a pattern."""
    return float(_BINARY64.unpack(_WORD64.pack(bits))[0])


def pattern32(x: float) -> int:
    """The pattern of a binary32 number that a float holds. (A NaN's is taken apart by hand: hardware would make it quiet.)"""
    if x == x:
        return int(_WORD32.unpack(_BINARY32.pack(x))[0])
    bits = pattern64(x)
    return bits >> 63 << 31 | 0x7F800000 | bits >> 29 & 0x7FFFFF


def value32(bits: int) -> float:
    """The binary32 number with a pattern; a NaN keeps its payload, in front."""
    if bits & 0x7FFFFFFF > 0x7F800000:
        return value64(bits >> 31 << 63 | _F64_INFINITY | (bits & 0x7FFFFF) << 29)
    return float(_BINARY32.unpack(_WORD32.pack(bits))[0])


def bf16_of(x: float) -> int:
    """The pattern of the nearest bf16 number, ties to even, of a binary64 (so also of a binary32) number."""
    bits = pattern64(x)
    sign = bits >> 63 << 15
    magnitude = bits & ~(1 << 63)
    if magnitude > _F64_INFINITY:
        payload = magnitude >> 45 & 0x7F
        return sign | 0x7F80 | (payload or 0x40)
    exponent = (magnitude >> 52) - 1023 + 127
    fraction = magnitude & (1 << 52) - 1
    if exponent >= 0xFF:
        return sign | 0x7F80
    if exponent >= 1:
        # Exponent and fraction in one number: a carry out of the fraction is the next exponent, out of the last one infinity.
        kept, dropped = exponent << 52 | fraction, 45
    elif exponent >= -8:
        # Below 2⁻¹²⁶ the last bit stands for 2⁻¹³³, whatever the exponent.
        kept, dropped = 1 << 52 | fraction, 45 + 1 - exponent
    else:
        return sign  # less than half of the least number
    even = kept >> dropped & 1
    return sign | kept + (1 << dropped - 1) - 1 + even >> dropped


def value_bf16(bits: int) -> float:
    """The bf16 number with a pattern."""
    return value32(bits << 16)


def signed(bits: int, width: int) -> int:
    """The integer of so many bits that equals this one modulo 2^width."""
    half = 1 << width - 1
    return (bits + half & (1 << width) - 1) - half


# --- Floats -----------------------------------------------------------------------------------------------------------------------

_F64: Final = gmpy2.context(precision=53, emin=-1073, emax=1024, subnormalize=True)
_F32: Final = gmpy2.context(precision=24, emin=-148, emax=128, subnormalize=True)


def fma64(x: float, y: float, z: float) -> float:
    """x · y + z in binary64, rounded once."""
    result = float(_F64.fma(x, y, z))
    return result if result == result else NAN


def fma32(x: float, y: float, z: float) -> float:
    """x · y + z in binary32, rounded once."""
    result = float(_F32.fma(x, y, z))
    return result if result == result else NAN


def _add(x: float, y: float) -> float:
    result = x + y
    return result if result == result else NAN


def _subtract(x: float, y: float) -> float:
    result = x - y
    return result if result == result else NAN


def _multiply(x: float, y: float) -> float:
    result = x * y
    return result if result == result else NAN


def _divide(x: float, y: float) -> float:
    if y:
        result = x / y
        return result if result == result else NAN
    if not x or x != x:
        return NAN
    return math.copysign(math.inf, x) * math.copysign(1.0, y)


def _root(x: float) -> float:
    if x < 0 or x != x:
        return NAN
    return math.sqrt(x)


def _rint(x: float) -> float:
    if not math.isfinite(x):
        return x if x == x else NAN
    return math.copysign(float(round(x)), x)


def _floor(x: float) -> float:
    if not math.isfinite(x) or not x:
        return x if x == x else NAN
    return float(math.floor(x))


def to_f32(x: float) -> float:
    """The nearest binary32 number, ties to even."""
    if x != x:
        return NAN
    try:
        return float(_BINARY32.unpack(_BINARY32.pack(x))[0])
    except OverflowError:
        return math.copysign(math.inf, x)


def to_f64(x: float) -> float:
    """The binary32 number as binary64."""
    return x if x == x else NAN


def _rounded(function: Callable[..., float]) -> Callable[..., float]:
    """The binary32 operation of a binary64 operation."""

    def operation(*operands: float) -> float:
        return to_f32(function(*operands))

    return operation


def integer_to_f32(x: int) -> float:
    """The binary32 number nearest to an integer, ties to even."""
    size = abs(x)
    spare = size.bit_length() - 40
    if spare > 0:
        # Forty bits, the last of which says whether anything lies below: binary64 has them, and binary32 rounds them as it would all.
        size = (size >> spare | bool(size & (1 << spare) - 1)) << spare
    return math.copysign(to_f32(float(size)), x) if x else 0.0


def _unordered(x: float, y: float) -> bool:
    return x != x or y != y


_FLOAT_UNARY: Final[Mapping[UnaryOp, Callable[[float], float]]] = {
    UnaryOp.NEG: operator.neg,
    UnaryOp.ABS: abs,
    UnaryOp.SQRT: _root,
    UnaryOp.RINT: _rint,
    UnaryOp.FLOOR: _floor,
}

_FLOAT_BINARY: Final[Mapping[BinaryOp, Callable[[float, float], float]]] = {
    BinaryOp.ADD: _add,
    BinaryOp.SUB: _subtract,
    BinaryOp.MUL: _multiply,
    BinaryOp.DIV: _divide,
    BinaryOp.COPYSIGN: math.copysign,
}

_COMPARE: Final[Mapping[CompareOp, Callable[[Scalar, Scalar], bool]]] = {
    CompareOp.EQ: operator.eq,
    CompareOp.NE: operator.ne,
    CompareOp.LT: operator.lt,
    CompareOp.LE: operator.le,
    CompareOp.GT: operator.gt,
    CompareOp.GE: operator.ge,
    CompareOp.UNO: _unordered,
}

_ROUNDING: Final = frozenset({UnaryOp.SQRT, BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL, BinaryOp.DIV})

# --- Integers ---------------------------------------------------------------------------------------------------------------------

_WIDTH: Final = {Elem.I64: 64, Elem.I32: 32, Elem.BOOL: 1}

_INTEGER_BINARY: Final[Mapping[BinaryOp, Callable[[int, int], int]]] = {
    BinaryOp.ADD: operator.add,
    BinaryOp.SUB: operator.sub,
    BinaryOp.MUL: operator.mul,
    BinaryOp.AND: operator.and_,
    BinaryOp.OR: operator.or_,
    BinaryOp.XOR: operator.xor,
}


def _integer_operation(op: BinaryOp, width: int) -> Callable[[int, int], int]:
    """An operation on signed integers of so many bits."""
    mask = (1 << width) - 1
    if op in _INTEGER_BINARY:
        function = _INTEGER_BINARY[op]
        if width == 1:
            return function
        return lambda x, y: signed(function(x, y), width)

    def shift(x: int, y: int) -> int:
        if not 0 <= y < width:
            raise Trap(f"a shift by {y} of {width} bits")
        match op:
            case BinaryOp.SHL:
                return signed(x << y, width)
            case BinaryOp.LSHR:
                return signed((x & mask) >> y, width)
            case _:
                return x >> y

    return shift


def _to_integer(width: int) -> Callable[[float], int]:
    """A float that is an integer of so many bits, as one."""

    def convert(x: float) -> int:
        if not x.is_integer() or not -(1 << width - 1) <= x < 1 << width - 1:
            raise Trap(f"{x!r} is no integer of {width} bits")
        return int(x)

    return convert


# --- Operations by type -----------------------------------------------------------------------------------------------------------


def unary(op: UnaryOp, elem: Elem) -> Callable[[Any], Scalar]:
    """The operation on scalars of a type."""
    if op is UnaryOp.NOT:
        if elem is Elem.BOOL:
            return lambda x: 1 - x
        return operator.invert
    function = _FLOAT_UNARY[op]
    return _rounded(function) if elem is Elem.F32 and op in _ROUNDING else function


def binary(op: BinaryOp, elem: Elem) -> Callable[[Any, Any], Scalar]:
    """The operation on scalars of a type."""
    if elem in _WIDTH:
        return _integer_operation(op, _WIDTH[elem])
    function = _FLOAT_BINARY[op]
    return _rounded(function) if elem is Elem.F32 and op in _ROUNDING else function


def compare(op: CompareOp, elem: Elem) -> Callable[[Any, Any], bool]:
    """The comparison of scalars of a type."""
    if op is CompareOp.ULT:
        mask = (1 << _WIDTH[elem]) - 1
        return lambda x, y: (x & mask) < (y & mask)
    return _COMPARE[op]


def conversion(source: Elem, target: Elem) -> Callable[[Any], Scalar]:
    """The conversion of scalars from a type to another one."""
    if source in _WIDTH:
        if target is Elem.F64:
            return float
        if target is Elem.F32:
            return integer_to_f32
        return lambda x: signed(x, _WIDTH[target])
    if target in _WIDTH:
        return _to_integer(_WIDTH[target])
    return to_f32 if target is Elem.F32 else to_f64


def from_pattern(elem: Elem, bits: int) -> Scalar:
    """The scalar of a type with a pattern."""
    match elem:
        case Elem.F64:
            return value64(bits)
        case Elem.F32:
            return value32(bits)
        case Elem.BOOL:
            return bits
        case _:
            return signed(bits, _WIDTH[elem])


def _same_bits(source: Elem) -> Callable[[Any], Scalar]:
    """The scalar of the same size with the same pattern: a float's is an integer, an integer's a float."""
    match source:
        case Elem.F64:
            return lambda x: signed(pattern64(x), 64)
        case Elem.F32:
            return lambda x: signed(pattern32(x), 32)
        case Elem.I64:
            return lambda x: value64(x & (1 << 64) - 1)
        case _:
            return lambda x: value32(x & (1 << 32) - 1)


# --- Memory -----------------------------------------------------------------------------------------------------------------------


class _Memory:
    """A buffer of a kernel that runs.

    `view` gives and takes elements as Python numbers. `written` has a byte per element, 1 where the kernel wrote it, of a buffer
    with no content of its own; `overwritten` is that of the buffer that may lie in the same memory.
    """

    __slots__ = ("elem", "overwritten", "patterns", "view", "written")

    def __init__(self, elem: Elem, array: Array, readable: bool) -> None:
        self.elem = elem
        self.view: Any = array.data
        self.patterns: Any = array.view(np.uint32).data if elem is Elem.F32 else None
        self.written = None if readable else bytearray(len(array))
        self.overwritten: bytearray | None = None

    def __len__(self) -> int:
        return len(self.view)

    def read(self, place: int) -> Scalar:
        """An element, as a load gives it."""
        if self.written is not None and not self.written[place]:
            raise Trap(f"element {place} is read before it is written")
        if self.overwritten is not None and self.overwritten[place]:
            raise Trap(f"element {place} is read after its memory was written")
        value: Scalar = self.view[place]
        if self.elem is Elem.F32:
            return value if value == value else value32(self.patterns[place])
        return value_bf16(int(value)) if self.elem is Elem.BF16 else value

    def write(self, place: int, x: Any) -> None:
        """Stores a scalar."""
        if self.written is None:
            raise Trap("an input is written")
        self.written[place] = 1
        if self.elem is Elem.F32 and x != x:
            self.patterns[place] = pattern32(x)
        elif self.elem is Elem.BF16:
            self.view[place] = bf16_of(x)
        elif self.elem is Elem.U8:
            self.view[place] = x & 0xFF
        else:
            self.view[place] = x


def _memories(kernel: Kernel, arrays: Sequence[Array]) -> tuple[_Memory, ...]:
    if len(arrays) != len(kernel.buffers):
        raise BadArguments(f"{len(arrays)} arrays for {len(kernel.buffers)} buffers")
    for number, (buffer, array) in enumerate(zip(kernel.buffers, arrays, strict=True)):
        if array.dtype != DTYPES[buffer.elem] or array.shape != (buffer.size,) or not array.flags.c_contiguous:
            raise BadArguments(
                f"b{number} is {buffer.elem}[{buffer.size}]: a contiguous {np.dtype(DTYPES[buffer.elem])} array, "
                f"not {array.dtype} of shape {array.shape}"
            )
        if buffer.access is not Access.IN and not array.flags.writeable:
            raise BadArguments(f"b{number} is written, and its array is read-only")
    memories = tuple(
        _Memory(buffer.elem, array, buffer.access is Access.IN)
        for buffer, array in zip(kernel.buffers, arrays, strict=True)
    )
    for buffer, memory in zip(kernel.buffers, memories, strict=True):
        if buffer.in_place is not None:
            memories[buffer.in_place].overwritten = memory.written
    return memories


# --- Execution --------------------------------------------------------------------------------------------------------------------

_Env = dict[int, Lanes]
_Run = Callable[[_Env], None]


class _Executor:
    """A kernel as functions, one for each statement, on the values of variables."""

    def __init__(self, memories: Sequence[_Memory], worker: int, workers: int) -> None:
        self._memories = memories
        self._worker = worker
        self._workers = workers
        self._types: dict[int, Type] = {}

    def body(self, statements: Sequence[AnyStmt]) -> tuple[_Run, ...]:
        """The functions of statements in order."""
        return tuple(self._statement(statement) for statement in statements)

    def _statement(self, statement: AnyStmt) -> _Run:
        match statement:
            case Let():
                return self._let(statement)
            case For():
                return self._for(statement)
            case Store():
                return self._store(statement)
            case Prefetch():
                return lambda env: None
            case _:
                assert_never(statement)

    def _let(self, statement: Let) -> _Run:
        self._types[statement.var] = statement.type
        var, value = statement.var, self._value(statement, statement.type, statement.op)

        def run(env: _Env) -> None:
            try:
                env[var] = value(env)
            except Trap as trap:
                raise _named(trap, statement) from None

        return run

    def _value(self, statement: Let, type_: Type, op: AnyOp) -> Callable[[_Env], Lanes]:
        match op:
            case Const(bits):
                constant = (from_pattern(type_.elem, bits),) * type_.lanes
                return lambda env: constant
            case Unary(name, x):
                return _each(unary(name, type_.elem), x)
            case Binary(name, x, y):
                return _each(binary(name, type_.elem), x, y)
            case Fma(x, y, z):
                return _each(fma32 if type_.elem is Elem.F32 else fma64, x, y, z)
            case Compare(compared, x, y):
                return _each(compare(compared, self._types[x].elem), x, y)
            case Select(condition, x, y):
                return _each(lambda truth, left, right: left if truth else right, condition, x, y)
            case Convert(x):
                return _each(conversion(self._types[x].elem, type_.elem), x)
            case Bitcast(x):
                return _each(_same_bits(self._types[x].elem), x)
            case Splat(x):
                return lambda env: env[x] * type_.lanes
            case Shuffle(x, y, pattern):
                return lambda env: tuple(map((env[x] + env[y]).__getitem__, pattern))
            case Load():
                return self._load(op, type_)
            case _:
                assert_never(op)

    def _load(self, op: Load, type_: Type) -> Callable[[_Env], Lanes]:
        memory, size, stride = self._memories[op.buffer], len(self._memories[op.buffer]), op.stride
        count = type_.lanes if op.count is None else op.count
        others = (0.0 if type_.elem in (Elem.F64, Elem.F32) else 0,) * (type_.lanes - count)
        first = _place(op.index)

        def load(env: _Env) -> Lanes:
            place = first(env)
            lanes = []
            for lane in range(count):
                element = place + lane * stride
                if not 0 <= element < size:
                    raise Trap(f"element {element} of {size} is read")
                lanes.append(memory.read(element))
            return (*lanes, *others)

        return load

    def _store(self, statement: Store) -> _Run:
        memory, stride, x = self._memories[statement.buffer], statement.stride, statement.x
        size, first = len(memory), _place(statement.index)

        def run(env: _Env) -> None:
            place = first(env)
            try:
                for lane, value in enumerate(env[x][: statement.count]):
                    element = place + lane * stride
                    if not 0 <= element < size:
                        raise Trap(f"element {element} of {size} is written")
                    memory.write(element, value)
            except Trap as trap:
                raise _named(trap, statement) from None

        return run

    def _for(self, statement: For) -> _Run:
        self._types[statement.var] = Type(Elem.I64)
        for one in statement.carried:
            self._types[one.inside] = self._types[one.after] = self._types[one.init]
        var, carried, body = statement.var, statement.carried, self.body(statement.body)
        first, last = 0, statement.extent
        if statement.split:
            first = statement.extent * self._worker // self._workers
            last = statement.extent * (self._worker + 1) // self._workers

        def run(env: _Env) -> None:
            values = [env[one.init] for one in carried]
            for count in range(first, last):
                env[var] = (count,)
                for one, value in zip(carried, values, strict=True):
                    env[one.inside] = value
                for step in body:
                    step(env)
                values = [env[one.next] for one in carried]
            for one, value in zip(carried, values, strict=True):
                env[one.after] = value

        return run


def _named(trap: Trap, statement: AnyStmt) -> Trap:
    """The trap with its statement."""
    return Trap(f"{trap}: {statement_text(statement)}")


def _each(function: Callable[..., Scalar], *operands: int) -> Callable[[_Env], Lanes]:
    """The operation lane by lane."""
    return lambda env: tuple(map(function, *(env[x] for x in operands)))


def _place(index: Index) -> Callable[[_Env], int]:
    """The element at an index."""
    base, terms = index.base, index.terms
    return lambda env: base + sum(stride * env[var][0] for var, stride in terms)


def interpret(kernel: Kernel, arrays: Sequence[Array], worker: int = 0, workers: int = 1) -> None:
    """Runs a kernel on arrays, one for each buffer, of one axis and of the type in `DTYPES`; its outputs are changed in place.

    With several workers, this is what worker `worker` of them does. BadArguments where arrays do not fit; Trap where the kernel
    does what has no meaning.
    """
    if not 0 <= worker < workers:
        raise BadArguments(f"worker {worker} of {workers}")
    env: _Env = {}
    for step in _Executor(_memories(kernel, arrays), worker, workers).body(kernel.body):
        step(env)
