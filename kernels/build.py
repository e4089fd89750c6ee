"""Builds kernel IR: values with their types, loops as `with` statements, constants stated once in front.

    b = Builder()
    x, y = b.buffer(Elem.F32, n), b.buffer(Elem.F32, n, Access.OUT)
    with b.loop(n // 8, parallel=True) as i:
        v = b.load(x, b.at((i, 8)), lanes=8)
        b.store(y, b.at((i, 8)), b.mul(v, v))
    kernel = b.kernel()

A builder is used by one caller and thrown away; what it gives is frozen.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType

from presk.kernels import ir
from presk.kernels.ir import (
    LOADED,
    Access,
    AnyOp,
    AnyStmt,
    Binary,
    BinaryOp,
    Bitcast,
    Buffer,
    Carry,
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


@dataclass(frozen=True, slots=True)
class Value:
    """A variable of the kernel and its type."""

    var: int
    type: Type

    @property
    def elem(self) -> Elem:
        """The type of a lane."""
        return self.type.elem

    @property
    def lanes(self) -> int:
        """How many lanes."""
        return self.type.lanes


class Loop:
    """A loop under construction: a context that gives the loop's variable; see `Builder.loop`."""

    def __init__(
        self, builder: "Builder", extent: int, carried: Sequence[Value], *, parallel: bool, split: bool
    ) -> None:
        self._builder = builder
        self._extent = extent
        self._parallel = parallel
        self._split = split
        self._init = tuple(carried)
        self.inside: tuple[Value, ...] = tuple(builder.fresh(one.type) for one in carried)
        """The accumulators in an iteration."""
        self.next: Sequence[Value] = ()
        """To be set in the body: the accumulators of the next iteration."""
        self.after: tuple[Value, ...] = tuple(builder.fresh(one.type) for one in carried)
        """The accumulators behind the loop."""
        self.var = builder.fresh(Type(Elem.I64))

    def __enter__(self) -> Value:
        self._builder.open()
        return self.var

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        body = self._builder.close()
        if error is not None:
            return
        carried = tuple(
            Carry(inside.var, init.var, then.var, after.var)
            for inside, init, then, after in zip(self.inside, self._init, self.next, self.after, strict=True)
        )
        self._builder.append(For(self.var.var, self._extent, body, carried, self._parallel, self._split))


class Builder:
    """A kernel under construction. Operands' types are not checked here: `presk.kernels.check` checks whole kernels."""

    def __init__(self) -> None:
        self._buffers: list[Buffer] = []
        self._constants: dict[tuple[Type, int], Value] = {}
        self._front: list[AnyStmt] = []
        self._open: list[list[AnyStmt]] = [[]]
        self._next = 0

    # --- structure ---

    def fresh(self, type_: Type) -> Value:
        """A new variable."""
        self._next += 1
        return Value(self._next - 1, type_)

    def append(self, statement: AnyStmt) -> None:
        """Adds a statement to the innermost open body."""
        self._open[-1].append(statement)

    def open(self) -> None:
        """Begins a body."""
        self._open.append([])

    def close(self) -> tuple[AnyStmt, ...]:
        """Ends the innermost body and gives it."""
        return tuple(self._open.pop())

    def buffer(
        self,
        elem: Elem,
        size: int,
        access: Access = Access.IN,
        *,
        bound: int | None = None,
        in_place: int | None = None,
    ) -> int:
        """A further buffer; its number."""
        self._buffers.append(Buffer(elem, size, access, bound, in_place))
        return len(self._buffers) - 1

    def loop(self, extent: int, carried: Sequence[Value] = (), *, parallel: bool = False, split: bool = False) -> Loop:
        """A loop. With accumulators:

        loop = b.loop(n, [zero])
        with loop as k:
            loop.next = [b.fma(x, y, loop.inside[0])]
        total = loop.after[0]
        """
        return Loop(self, extent, carried, parallel=parallel, split=split)

    def kernel(self) -> Kernel:
        """What was built."""
        (body,) = self._open
        return Kernel(tuple(self._buffers), (*self._front, *body))

    # --- values ---

    def let(self, type_: Type, op: AnyOp) -> Value:
        """Any operation."""
        value = self.fresh(type_)
        self.append(Let(value.var, type_, op))
        return value

    def bits(self, elem: Elem, pattern: int, lanes: int = 1) -> Value:
        """A constant by its pattern."""
        key = Type(elem, lanes), pattern
        if key not in self._constants:
            value = self.fresh(key[0])
            self._front.append(Let(value.var, key[0], Const(pattern)))
            self._constants[key] = value
        return self._constants[key]

    def const(self, elem: Elem, value: float | int, lanes: int = 1) -> Value:
        """A constant. A float must be one of the type exactly (ValueError)."""
        pattern = ir.bits_of(elem, value)
        if elem is Elem.F32 and ir.value_of(elem, pattern) != value and value == value:
            raise ValueError(f"{value!r} is no binary32 number")
        return self.bits(elem, pattern, lanes)

    def at(self, *terms: tuple[Value, int], base: int = 0) -> Index:
        """The index `base + Σ stride · variable`."""
        strides: dict[int, int] = {}
        for variable, stride in terms:
            strides[variable.var] = strides.get(variable.var, 0) + stride
        return Index(base, tuple(sorted((var, stride) for var, stride in strides.items() if stride)))

    def load(self, buffer: int, index: Index, lanes: int = 1, *, stride: int = 1, count: int | None = None) -> Value:
        """`lanes` elements from an index on, `stride` apart (0: one element in every lane), the first `count` of them."""
        whole = count is None or count == lanes
        elem = LOADED[self._buffers[buffer].elem]
        return self.let(Type(elem, lanes), Load(buffer, index, 1 if lanes == 1 else stride, None if whole else count))

    def store(self, buffer: int, index: Index, x: Value, *, stride: int = 1, count: int | None = None) -> None:
        """Writes the first `count` lanes, `stride` apart."""
        whole = count is None or count == x.lanes
        self.append(Store(buffer, index, x.var, 1 if x.lanes == 1 else stride, None if whole else count))

    def prefetch(self, buffer: int, index: Index) -> None:
        """A hint."""
        self.append(Prefetch(buffer, index))

    def unary(self, op: UnaryOp, x: Value) -> Value:
        """`neg abs sqrt rint floor not`."""
        return self.let(x.type, Unary(op, x.var))

    def binary(self, op: BinaryOp, x: Value, y: Value) -> Value:
        """An operation on two values of one type."""
        return self.let(x.type, Binary(op, x.var, y.var))

    def neg(self, x: Value) -> Value:
        """−x."""
        return self.unary(UnaryOp.NEG, x)

    def abs(self, x: Value) -> Value:
        """|x|."""
        return self.unary(UnaryOp.ABS, x)

    def sqrt(self, x: Value) -> Value:
        """√x."""
        return self.unary(UnaryOp.SQRT, x)

    def add(self, x: Value, y: Value) -> Value:
        """x + y."""
        return self.binary(BinaryOp.ADD, x, y)

    def sub(self, x: Value, y: Value) -> Value:
        """x − y."""
        return self.binary(BinaryOp.SUB, x, y)

    def mul(self, x: Value, y: Value) -> Value:
        """x · y."""
        return self.binary(BinaryOp.MUL, x, y)

    def div(self, x: Value, y: Value) -> Value:
        """x / y, of floats."""
        return self.binary(BinaryOp.DIV, x, y)

    def fma(self, x: Value, y: Value, z: Value) -> Value:
        """x · y + z, rounded once."""
        return self.let(x.type, Fma(x.var, y.var, z.var))

    def compare(self, op: CompareOp, x: Value, y: Value) -> Value:
        """A comparison."""
        return self.let(Type(Elem.BOOL, x.lanes), Compare(op, x.var, y.var))

    def select(self, condition: Value, x: Value, y: Value) -> Value:
        """x where the condition holds, else y."""
        return self.let(x.type, Select(condition.var, x.var, y.var))

    def convert(self, x: Value, elem: Elem) -> Value:
        """To another type; x itself where it is of it."""
        return x if x.elem is elem else self.let(Type(elem, x.lanes), Convert(x.var))

    def bitcast(self, x: Value, elem: Elem) -> Value:
        """The same bits."""
        return self.let(Type(elem, x.lanes), Bitcast(x.var))

    def splat(self, x: Value, lanes: int) -> Value:
        """A scalar in every lane; x itself where one is asked for."""
        return x if lanes == 1 else self.let(Type(x.elem, lanes), Splat(x.var))

    def shuffle(self, x: Value, y: Value, pattern: Sequence[int]) -> Value:
        """Lanes of x followed by y."""
        return self.let(Type(x.elem, len(pattern)), Shuffle(x.var, y.var, tuple(pattern)))

    def half(self, x: Value, which: int) -> Value:
        """The lower (0) or upper (1) half of a vector's lanes."""
        size = x.lanes // 2
        return self.shuffle(x, x, range(which * size, which * size + size))
