"""The verifier of kernel IR. What passes here an executor need not look at again.

1. Variables: each is defined once, and before its uses, in a body around them; a loop's accumulators are seen inside it or behind
it. 2. Types: every operation has operands of the types that `presk.kernels.ir` says, and gives the type that its `Let` states.
3. Bounds: every access stays in its buffer, for every iteration and every value of a bounded element (`OutOfBounds`); what is
stored
   into a buffer with a bound lies below it. Where nothing is read for a lane, nothing is asked of it.
4. Writes go to `out` and `scratch` buffers alone.
5. What is read of such a buffer was written before (`Unwritten`): by a store in front of it, whose index differs at most by loops
that
   are closed and that left no gap. An element that an earlier iteration of an open loop alone has written is not seen: a kernel
   keeps it in an accumulator, or writes it before the loop.
6. Iterations of a `parallel` loop write different elements, and read none that another one writes (`Overlap`), while everything
   outside the loop stands still; they carry nothing. What lies in one memory `in_place` counts as one buffer here.
7. Workers: of split loops none is inside another one. A kernel with such a loop writes nothing outside of them. Between workers
there
   is no order at all, so no two iterations of split loops, at whatever turns of loops around them, touch an element that one of
   them writes (`Overlap`), unless they are the same iteration of loops with the same extent: those fall to one worker.
8. An `out` buffer `in_place` of an `in` buffer has the size of that one, and no other `out` buffer has its place; no element is
read
   after its place was written (`InPlace`).

Rules 3 and 5 to 8 ask for a proof; `presk.kernels.accesses`, `presk.kernels.coverage` and `presk.kernels.separate` say which ones
are found. A kernel whose proof is not found is refused.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

from presk.kernels.accesses import Accesses, CheckError, OutOfBounds, Reach, Unwritten, accesses
from presk.kernels.ir import (
    FLOATS,
    INTEGERS,
    LOADED,
    SIZES,
    Access,
    AnyOp,
    AnyStmt,
    Binary,
    BinaryOp,
    Bitcast,
    Buffer,
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
from presk.kernels.separate import Digit, never_zero
from presk.kernels.text import WIDTHS, buffer_text, statement_text, type_text

__all__ = ["CheckError", "IllFormed", "InPlace", "OutOfBounds", "Overlap", "Unwritten", "check"]


class IllFormed(CheckError):
    """A variable, a type, a number or a buffer that cannot be what it is."""


class Overlap(CheckError):
    """Iterations that may run in any order are not seen to touch different elements."""


class InPlace(CheckError):
    """An element is not seen to be read for the last time before its place is written."""


def check(kernel: Kernel) -> None:
    """Nothing, or a CheckError: IllFormed, OutOfBounds, Unwritten, Overlap, InPlace."""
    _buffers(kernel.buffers)
    _Typing(kernel).body(kernel.body, ())
    found = accesses(kernel)
    memory = _Memory(kernel, found)
    memory.parallel_loops(kernel.body)
    memory.workers(kernel.body)
    memory.in_place()


# --- Buffers ----------------------------------------------------------------------------------------------------------------------


def _buffers(buffers: Sequence[Buffer]) -> None:
    places: set[int] = set()
    for number, one in enumerate(buffers):

        def fail(message: str, number: int = number, one: Buffer = one) -> IllFormed:
            return IllFormed(f"{message}: {buffer_text(number, one)}")

        if one.elem not in SIZES:
            raise fail("no type of a buffer")
        if one.size < 0:
            raise fail("a size below 0")
        if one.bound is not None and (LOADED[one.elem] not in INTEGERS or one.bound < 0):
            raise fail("no bound of such elements")
        if one.in_place is None:
            continue
        if one.access is not Access.OUT or not 0 <= one.in_place < len(buffers):
            raise fail("no place to stand in")
        other = buffers[one.in_place]
        if other.access is not Access.IN or (SIZES[other.elem], other.size) != (SIZES[one.elem], one.size):
            raise fail("the place is no input of the same size")
        if one.in_place in places:
            raise fail("the place is taken")
        places.add(one.in_place)


# --- Variables and types ----------------------------------------------------------------------------------------------------------

_INDEX = Type(Elem.I64)


class _Typing:
    """Rules 1, 2 and 4, and the numbers that stand in statements."""

    def __init__(self, kernel: Kernel) -> None:
        self.buffers = kernel.buffers
        self.types: dict[int, Type] = {}
        self.visible: set[int] = set()

    def body(self, statements: Sequence[AnyStmt], mine: Iterable[tuple[int, Type]], loop: For | None = None) -> None:
        """A body, in which some variables are defined from the start."""
        defined = [var for var, type_ in mine if self.define(var, type_, loop)]
        for statement in statements:
            match statement:
                case Let(var, type_, op):
                    self.let(statement, type_, op)
                    self.define(var, type_, statement)
                    defined.append(var)
                case For():
                    defined += self.loop(statement)
                case Store():
                    self.store(statement)
                case Prefetch(buffer, index):
                    self.place(statement, buffer, index)
        if loop is not None:
            for one in loop.carried:
                self.same(loop, self.types[one.inside], self.type(loop, one.next))
        self.visible.difference_update(defined)

    def define(self, var: int, type_: Type, statement: AnyStmt | None) -> bool:
        """A definition; always true."""
        if var in self.types:
            raise _wrong(f"%{var} is defined twice", statement)
        if type_.elem not in WIDTHS or type_.lanes < 1:
            raise _wrong(f"{type_text(type_)} is no type of a value", statement)
        self.types[var] = type_
        self.visible.add(var)
        return True

    def type(self, statement: AnyStmt, var: int) -> Type:
        """The type of an operand."""
        if var not in self.visible:
            where = "here" if var in self.types else "before its use"
            raise _wrong(f"%{var} is not defined {where}", statement)
        return self.types[var]

    def same(self, statement: AnyStmt, expected: Type, *others: Type) -> None:
        """Refuses another type."""
        for other in others:
            if other != expected:
                raise _wrong(f"{type_text(expected)} is expected, not {type_text(other)}", statement)

    # --- statements ---

    def loop(self, loop: For) -> list[int]:
        """A loop; the variables it defines behind it."""
        if loop.extent < 0:
            raise _wrong("an extent below 0", loop)
        if loop.carried and (loop.parallel or loop.split):
            raise _wrong("iterations in any order carry nothing", loop)
        carried = [(one, self.type(loop, one.init)) for one in loop.carried]
        self.body(loop.body, [(loop.var, _INDEX), *((one.inside, type_) for one, type_ in carried)], loop)
        return [one.after for one, type_ in carried if self.define(one.after, type_, loop)]

    def store(self, store: Store) -> None:
        """A store."""
        type_ = self.type(store, store.x)
        buffer = self.place(store, store.buffer, store.index)
        if buffer.access is Access.IN:
            raise _wrong("an input is written", store)
        fitting = FLOATS if buffer.elem is Elem.BF16 else {LOADED[buffer.elem]}
        if type_.elem not in fitting:
            raise _wrong(f"{type_text(type_)} is no type for {buffer.elem} elements", store)
        if store.stride == 0:
            raise _wrong("a stride of 0", store)
        self.count(store, store.count, type_.lanes)

    def place(self, statement: AnyStmt, number: int, index: Index) -> Buffer:
        """An index into a buffer."""
        if not 0 <= number < len(self.buffers):
            raise _wrong(f"there is no b{number}", statement)
        variables = [var for var, _ in index.terms]
        for var in variables:
            self.same(statement, _INDEX, self.type(statement, var))
        if variables != sorted(set(variables)) or any(stride == 0 for _, stride in index.terms):
            raise _wrong("the index is not in its only form", statement)
        return self.buffers[number]

    def count(self, statement: AnyStmt, count: int | None, lanes: int) -> None:
        """The number of lanes of an access."""
        if count is not None and not 0 <= count <= lanes:
            raise _wrong(f"a count of {lanes} lanes that is none", statement)

    # --- operations ---

    def let(self, let: Let, type_: Type, op: AnyOp) -> None:
        """A definition whose operation gives its type."""
        elem, lanes = type_.elem, type_.lanes

        def of(*operands: int) -> list[Type]:
            return [self.type(let, operand) for operand in operands]

        match op:
            case Const(bits):
                if elem not in WIDTHS or not 0 <= bits < 1 << WIDTHS[elem]:
                    raise _wrong("no pattern of the type", let)
            case Unary(name, x):
                self.same(let, type_, *of(x))
                if elem not in ({*INTEGERS, Elem.BOOL} if name is UnaryOp.NOT else FLOATS):
                    raise _wrong(f"{name} of {elem}", let)
            case Binary(name, x, y):
                self.same(let, type_, *of(x, y))
                if name not in _BINARY[elem]:
                    raise _wrong(f"{name} of {elem}", let)
            case Fma(x, y, z):
                self.same(let, type_, *of(x, y, z))
                if elem not in FLOATS:
                    raise _wrong(f"fma of {elem}", let)
            case Compare(compared, x, y):
                left, right = of(x, y)
                self.same(let, left, right)
                self.same(let, Type(Elem.BOOL, left.lanes), type_)
                if compared not in _COMPARE[left.elem]:
                    raise _wrong(f"{compared} of {left.elem}", let)
            case Select(condition, x, y):
                self.same(let, Type(Elem.BOOL, lanes), *of(condition))
                self.same(let, type_, *of(x, y))
            case Convert(x):
                (source,) = of(x)
                self.same(let, type_, Type(elem, source.lanes))
                if elem not in _CONVERT[source.elem]:
                    raise _wrong(f"{source.elem} is not converted to {elem}", let)
            case Bitcast(x):
                (source,) = of(x)
                self.same(let, type_, Type(elem, source.lanes))
                if elem not in _BITCAST.get(source.elem, ()):
                    raise _wrong(f"{source.elem} has not the size of {elem}, or is of its kind", let)
            case Splat(x):
                self.same(let, Type(elem), *of(x))
            case Shuffle(x, y, pattern):
                left, right = of(x, y)
                self.same(let, left, right)
                self.same(let, Type(left.elem, len(pattern)), type_)
                if not all(0 <= lane < 2 * left.lanes for lane in pattern):
                    raise _wrong(f"there are {2 * left.lanes} lanes", let)
            case Load(buffer, index, _, count):
                self.same(let, Type(LOADED[self.place(let, buffer, index).elem], lanes), type_)
                self.count(let, count, lanes)


_FLOAT_OPS = frozenset({BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL, BinaryOp.DIV, BinaryOp.COPYSIGN})
_TRUTH_OPS = frozenset({BinaryOp.AND, BinaryOp.OR, BinaryOp.XOR})
_INTEGER_OPS = frozenset(BinaryOp) - {BinaryOp.DIV, BinaryOp.COPYSIGN}
_BINARY = {
    Elem.F64: _FLOAT_OPS,
    Elem.F32: _FLOAT_OPS,
    Elem.I64: _INTEGER_OPS,
    Elem.I32: _INTEGER_OPS,
    Elem.BOOL: _TRUTH_OPS,
    Elem.BF16: frozenset[BinaryOp](),
    Elem.U8: frozenset[BinaryOp](),
}
_COMPARE = {
    Elem.F64: frozenset(CompareOp) - {CompareOp.ULT},
    Elem.F32: frozenset(CompareOp) - {CompareOp.ULT},
    Elem.I64: frozenset(CompareOp) - {CompareOp.UNO},
    Elem.I32: frozenset(CompareOp) - {CompareOp.UNO},
    Elem.BOOL: frozenset[CompareOp](),
}
_CONVERT = {
    Elem.F64: frozenset({Elem.F32, Elem.I64, Elem.I32}),
    Elem.F32: frozenset({Elem.F64, Elem.I64, Elem.I32}),
    Elem.I64: frozenset({Elem.F64, Elem.F32, Elem.I32}),
    Elem.I32: frozenset({Elem.F64, Elem.F32, Elem.I64}),
    Elem.BOOL: frozenset({Elem.I64, Elem.I32}),
}
_BITCAST = {
    Elem.F64: frozenset({Elem.I64}),
    Elem.I64: frozenset({Elem.F64}),
    Elem.F32: frozenset({Elem.I32}),
    Elem.I32: frozenset({Elem.F32}),
}


def _wrong(message: str, statement: AnyStmt | None) -> IllFormed:
    return IllFormed(message if statement is None else f"{message}: {statement_text(statement)}")


# --- Memory -----------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Footprint:
    """Accesses of one kind in one body whose elements lie together: the least and the greatest, but for the atoms."""

    memory: int
    stores: bool
    terms: tuple[tuple[int, int], ...]
    low: int
    high: int
    teeth: tuple[int, int]
    """The stride and the number of lanes that do not lie side by side, of the interval: `(0, 1)` if all do."""
    path: tuple[For, ...]
    parts: tuple[Reach, ...]
    """In the order of the text."""

    @property
    def name(self) -> str:
        return statement_text(self.parts[0].statement)


class _Memory:
    """Rules 6 to 8. A memory is a buffer and whatever may stand in its place: the number of the `in` buffer, or its own."""

    def __init__(self, kernel: Kernel, found: Accesses) -> None:
        self.kernel = kernel
        self.ranges = found.ranges
        self.homes = found.homes
        self.memories = [number if one.in_place is None else one.in_place for number, one in enumerate(kernel.buffers)]
        written = {self.memories[one.buffer] for one in found.reaches if one.stores}
        self.footprints = self.gathered([one for one in found.reaches if self.memories[one.buffer] in written])

    def gathered(self, reaches: Sequence[Reach]) -> list[_Footprint]:
        """Accesses side by side as one."""
        groups: dict[tuple[tuple[int, int], object], list[Reach]] = {}
        for one in reaches:
            teeth = (0, 1) if abs(one.stride) == 1 or one.count == 1 else (one.stride, one.count)
            path = tuple(loop.var for loop in one.path)
            groups.setdefault((teeth, (one.buffer, one.stores, one.terms, path)), []).append(one)
        found = []
        for (teeth, _), group in groups.items():
            runs: list[tuple[int, int, list[Reach]]] = []
            for one in sorted(group, key=lambda one: one.window):
                low, high = one.window if teeth == (0, 1) else (one.base, one.base)
                if runs and ((teeth == (0, 1) and low <= runs[-1][1] + 1) or (low, high) == runs[-1][:2]):
                    runs[-1] = runs[-1][0], max(high, runs[-1][1]), [*runs[-1][2], one]
                else:
                    runs.append((low, high, [one]))
            for low, high, run in runs:
                parts = tuple(sorted(run, key=lambda one: one.place))
                first = parts[0]
                memory = self.memories[first.buffer]
                found.append(_Footprint(memory, first.stores, first.terms, low, high, teeth, first.path, parts))
        return found

    def apart(self, x: _Footprint, y: _Footprint, fixed: Sequence[For], turns: Sequence[Digit]) -> bool:
        """Whether two accesses never touch one element.

        What is defined within the `fixed` loops alone is the same for both; `turns` are digits of the difference that replace
        those of the loops' variables that stand in them (the caller leaves them out of the terms).
        """
        mine, others = dict(x.terms), dict(y.terms)
        digits = list(turns)
        for atom in mine.keys() | others.keys():
            low, high = self.ranges[atom]
            if self.homes[atom] == tuple(fixed[: len(self.homes[atom])]):
                digits.append((mine.get(atom, 0) - others.get(atom, 0), low, high))
            else:
                digits += [(mine.get(atom, 0), low, high), (-others.get(atom, 0), low, high)]
        digits += [(x.teeth[0], 0, x.teeth[1] - 1), (-y.teeth[0], 0, y.teeth[1] - 1)]
        return never_zero(digits, x.low - y.high, x.high - y.low)

    def differing(
        self, x: _Footprint, y: _Footprint, loops: tuple[For, For], fixed: Sequence[For], *, later: bool = False
    ) -> bool:
        """Whether x in one iteration and y in another one, of loops of one extent, never touch one element; with `later`, whether
        x in an iteration after y's does not."""
        extent = loops[0].extent
        if extent < 2:
            return True
        one, other = dict(x.terms).get(loops[0].var, 0), dict(y.terms).get(loops[1].var, 0)
        x, y = _without(x, loops[0].var), _without(y, loops[1].var)
        if one != other:
            return self.apart(x, y, fixed, [(one, 0, extent - 1), (-other, 0, extent - 1)])
        return self.apart(x, y, fixed, [(one, 1, extent - 1)]) and (
            later or self.apart(x, y, fixed, [(one, 1 - extent, -1)])
        )

    # --- rules ---

    def parallel_loops(self, body: Sequence[AnyStmt], path: tuple[For, ...] = ()) -> None:
        """Rule 6."""
        for loop in body:
            if not isinstance(loop, For) or loop.extent == 0:
                continue
            if loop.parallel:
                inside = [one for one in self.footprints if any(outer is loop for outer in one.path)]
                for x, y in _pairs(inside):
                    if not self.differing(x, y, (loop, loop), path):
                        raise Overlap(
                            f"iterations of {statement_text(loop)} may touch one element: {x.name}, and {y.name}"
                        )
            self.parallel_loops(loop.body, (*path, loop))

    def workers(self, body: Sequence[AnyStmt]) -> None:
        """Rule 7."""
        if not _splits(body, None):
            return
        around = [next((loop for loop in one.path if loop.split), None) for one in self.footprints]
        splits = dict(zip(map(id, self.footprints), around, strict=True))
        for one, split in zip(self.footprints, around, strict=True):
            if split is None and one.stores:
                raise Overlap(f"every worker writes outside of split loops: {one.name}")
        for x, y in _pairs(self.footprints):
            mine, other = splits[id(x)], splits[id(y)]
            if mine is None or other is None or mine.extent != other.extent:
                good = self.apart(x, y, (), ())
            else:
                good = self.differing(x, y, (mine, other), ())
            if not good:
                raise Overlap(f"two workers may touch one element: {x.name}, and {y.name}")

    def in_place(self) -> None:
        """Rule 8, but for the buffers' sizes. Accesses side by side are looked at one by one where the order in the text matters."""
        places = {one.in_place for one in self.kernel.buffers if one.in_place is not None}
        for read in self.footprints:
            if read.parts[0].buffer not in places:
                continue
            for write in self.footprints:
                if write.memory != read.memory or not write.stores:
                    continue
                if not self.before(read, write) and not all(
                    self.before(one, other)
                    for part in read.parts
                    for one in self.gathered([part])
                    for another in write.parts
                    for other in self.gathered([another])
                ):
                    raise InPlace(f"an element may be read after its place is written: {read.name}, and {write.name}")

    def before(self, read: _Footprint, write: _Footprint) -> bool:
        """Whether no element is read after it is written."""
        common = _common(read.path, write.path)
        if not all(
            self.differing(read, write, (loop, loop), common[:depth], later=True) for depth, loop in enumerate(common)
        ):
            return False
        return read.parts[-1].place < write.parts[0].place or self.apart(read, write, common, ())


def _without(x: _Footprint, var: int) -> _Footprint:
    """The footprint for one value of a variable, the same everywhere."""
    terms = tuple(term for term in x.terms if term[0] != var)
    return _Footprint(x.memory, x.stores, terms, x.low, x.high, x.teeth, x.path, x.parts)


def _pairs(footprints: Sequence[_Footprint]) -> Iterable[tuple[_Footprint, _Footprint]]:
    """Pairs in one memory one of which stores, each with itself too; what is at the same elements is taken once."""
    memories: dict[int, dict[object, _Footprint]] = {}
    for one in sorted(footprints, key=lambda one: not one.stores):
        where = one.terms, one.low, one.high, one.teeth, tuple(loop.var for loop in one.path if loop.split)
        memories.setdefault(one.memory, {}).setdefault(where, one)
    for places in memories.values():
        for x, y in combinations_with_replacement(places.values(), 2):
            if x.stores or y.stores:
                yield x, y


def _common(one: tuple[For, ...], other: tuple[For, ...]) -> tuple[For, ...]:
    """The loops around both."""
    depth = 0
    while depth < min(len(one), len(other)) and one[depth].var == other[depth].var:
        depth += 1
    return one[:depth]


def _splits(body: Sequence[AnyStmt], outer: For | None) -> bool:
    """Whether there is a split loop; IllFormed for one inside another one."""
    found = False
    for loop in body:
        if isinstance(loop, For):
            if loop.split and outer is not None:
                raise _wrong(f"a split loop is inside {statement_text(outer)}", loop)
            found |= _splits(loop.body, loop if loop.split else outer) or loop.split
    return found
