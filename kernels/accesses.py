"""Which elements the accesses of a kernel reach: indices as affine forms of independent variables, each with its range.

Every integer value has a range, by interval arithmetic; a scalar is an affine form besides, of *atoms*: loop variables, and scalars
that are no sum or multiple of others. An atom has its range: of a loop's variable the iterations, of an element of a buffer with a
bound `[0, bound)`. Accumulators that are integers have the range that one or two rounds through the loop's body do not widen, else
that of their type. An index, written out in atoms, has exact ends, since atoms vary independently of each other.

A loop that runs no iteration says nothing: nothing in it is looked at.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from presk.kernels.coverage import Body, Terms
from presk.kernels.ir import (
    INTEGERS,
    Access,
    AnyOp,
    AnyStmt,
    Binary,
    BinaryOp,
    Compare,
    CompareOp,
    Const,
    Convert,
    Elem,
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
    value_of,
)
from presk.kernels.text import statement_text

Interval = tuple[int, int]

FULL: Final = {
    Elem.I64: (-(1 << 63), (1 << 63) - 1),
    Elem.I32: (-(1 << 31), (1 << 31) - 1),
    Elem.U8: (0, 255),
    Elem.BOOL: (0, 1),
}
"""The ranges of types."""


class CheckError(Exception):
    """A kernel breaks a rule, or is not seen to keep it; the message names the statement."""


class OutOfBounds(CheckError):
    """An access that is not seen to stay within its buffer, or a store of what is not seen to stay below a bound."""


class Unwritten(CheckError):
    """A read of an `out` or `scratch` buffer that is not seen to read what was written."""


@dataclass(frozen=True, slots=True)
class Form:
    """An integer value: its range in all lanes, and of a scalar `base + Σ factor · atom`."""

    low: int
    high: int
    base: int = 0
    terms: Terms | None = None


@dataclass(frozen=True, slots=True)
class Reach:
    """The elements of an access: `base + Σ factor · atom + stride · lane`, for `count` > 0 lanes."""

    statement: Let | Store
    buffer: int
    stores: bool
    base: int
    terms: Terms
    stride: int
    count: int
    path: tuple[For, ...]
    """The loops around it, the outermost first."""
    place: int
    """Accesses are numbered in the order of the text."""

    @property
    def window(self) -> Interval:
        """The least and the greatest element, but for the atoms."""
        reach = self.stride * (self.count - 1)
        return self.base + min(0, reach), self.base + max(0, reach)


@dataclass(slots=True)
class Accesses:
    """The accesses of a kernel, and of each atom its range and the loops inside which it is one value."""

    reaches: list[Reach] = field(default_factory=list)
    ranges: dict[int, Interval] = field(default_factory=dict)
    homes: dict[int, tuple[For, ...]] = field(default_factory=dict)


def accesses(kernel: Kernel) -> Accesses:
    """The accesses of a kernel whose types are right. OutOfBounds, Unwritten."""
    walk = _Walk(kernel)
    walk.statements(kernel.body, (), Body())
    return walk.found


def interval(base: int, terms: Terms, ranges: Mapping[int, Interval]) -> Interval:
    """The ends of an affine form."""
    low = high = base
    for atom, factor in terms:
        ends = factor * ranges[atom][0], factor * ranges[atom][1]
        low, high = low + min(ends), high + max(ends)
    return low, high


class _Walk:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.found = Accesses()
        self.forms: dict[int, Form] = {}
        self.types: dict[int, Type] = {}
        self.ops: dict[int, AnyOp] = {}
        self.bodies: list[Body] = []
        self.trial = 0
        """How many loops are being tried: nothing is recorded then."""

    # --- statements ---

    def statements(self, body: Sequence[AnyStmt], path: tuple[For, ...], written: Body) -> None:
        """A body in order."""
        self.bodies.append(written)
        for statement in body:
            match statement:
                case Let(var, type_, op):
                    self.types[var] = type_
                    self.ops[var] = op
                    if isinstance(op, Load) and not self.trial:
                        self.load(statement, op, path)
                    if type_.elem in FULL:
                        self.define(var, type_, self.value(type_, op), path)
                case Store():
                    if not self.trial:
                        self.store(statement, path)
                case For():
                    self.loop(statement, path)
                case Prefetch():
                    pass
        self.bodies.pop()

    def define(self, var: int, type_: Type, form: Form, path: tuple[For, ...]) -> None:
        """A value; a scalar that is no form of others is an atom."""
        if form.terms is None and type_.lanes == 1:
            form = Form(form.low, form.high, 0, ((var, 1),))
            self.found.ranges[var] = form.low, form.high
            self.found.homes[var] = path
        elif form.terms is not None:
            form = Form(*interval(form.base, form.terms, self.found.ranges), form.base, form.terms)
        self.forms[var] = form

    def loop(self, loop: For, path: tuple[For, ...]) -> None:
        """A loop."""
        whole = [one for one in loop.carried if self.types[one.init].elem in FULL]
        for one in loop.carried:
            self.types[one.inside] = self.types[one.after] = self.types[one.init]
        before = {one.inside: self.forms[one.init] for one in whole}
        if loop.extent <= 0:
            for one in whole:
                self.define(one.after, self.types[one.after], before[one.inside], path)
            return
        inside = (*path, loop)
        self.found.ranges[loop.var] = 0, loop.extent - 1
        self.found.homes[loop.var] = inside
        self.types[loop.var] = Type(Elem.I64)
        self.forms[loop.var] = Form(0, loop.extent - 1, 0, ((loop.var, 1),))
        ranges = {one.inside: (before[one.inside].low, before[one.inside].high) for one in whole}
        following = self.round(loop, inside, ranges)
        for _ in range(2 if whole else 0):
            if all(_within(following[var], ranges[var]) for var in ranges):
                break
            ranges = {var: _union(ranges[var], following[var]) for var in ranges}
            following = self.round(loop, inside, ranges)
        if not all(_within(following[var], ranges[var]) for var in ranges):
            ranges = {var: FULL[self.types[var].elem] for var in ranges}
        written = Body()
        self.set(ranges, inside)
        self.statements(loop.body, inside, written)
        for one in whole:
            low, high = ranges[one.inside]
            self.define(one.after, self.types[one.after], Form(low, high), path)
        if not self.trial:
            homes, depth = self.found.homes, len(path)
            written.repeat(self.bodies[-1], loop.var, loop.extent, lambda atom: len(homes[atom]) > depth)

    def set(self, ranges: Mapping[int, Interval], path: tuple[For, ...]) -> None:
        """Accumulators of an iteration."""
        for var, (low, high) in ranges.items():
            self.define(var, self.types[var], Form(low, high), path)

    def round(self, loop: For, path: tuple[For, ...], ranges: Mapping[int, Interval]) -> dict[int, Interval]:
        """The ranges of integer accumulators after an iteration that starts with such ones."""
        if not ranges:
            return {}
        self.trial += 1
        self.set(ranges, path)
        self.statements(loop.body, path, Body())
        self.trial -= 1
        return {
            one.inside: (self.forms[one.next].low, self.forms[one.next].high)
            for one in loop.carried
            if one.inside in ranges
        }

    # --- accesses ---

    def affine(self, index: Index) -> tuple[int, Terms]:
        """An index in atoms."""
        base = index.base
        factors: dict[int, int] = {}
        for var, stride in index.terms:
            form = self.forms[var]
            base += stride * form.base
            for atom, factor in form.terms or ():
                factors[atom] = factors.get(atom, 0) + stride * factor
        return base, _terms(factors)

    def reach(
        self, statement: Let | Store, access: Load | Store, lanes: int, path: tuple[For, ...], *, stores: bool
    ) -> Reach | None:
        """An access, recorded and within its buffer; None for one of no lanes."""
        count = lanes if access.count is None else access.count
        if count == 0:
            return None
        base, terms = self.affine(access.index)
        place = len(self.found.reaches)
        stride = 1 if count == 1 else access.stride
        found = Reach(statement, access.buffer, stores, base, terms, stride, count, path, place)
        least, most = interval(0, terms, self.found.ranges)
        low, high = found.window[0] + least, found.window[1] + most
        size = self.kernel.buffers[access.buffer].size
        if low < 0 or high >= size:
            raise OutOfBounds(
                f"elements {low} to {high} of b{access.buffer}, which has {size}: {statement_text(statement)}"
            )
        self.found.reaches.append(found)
        return found

    def load(self, statement: Let, load: Load, path: tuple[For, ...]) -> None:
        """Records a load."""
        found = self.reach(statement, load, statement.type.lanes, path, stores=False)
        if found is None or self.kernel.buffers[load.buffer].access is Access.IN:
            return
        first, last = found.window
        pieces = [(first, last)] if abs(found.stride) == 1 else [(one, one) for one in _lanes(found)]
        for low, high in pieces:
            if not any(
                body.covers(load.buffer, dict(found.terms), low, high, self.found.ranges) for body in self.bodies
            ):
                raise Unwritten(
                    f"not all that is read of b{load.buffer} was surely written before: {statement_text(statement)}"
                )

    def store(self, statement: Store, path: tuple[For, ...]) -> None:
        """Records a store."""
        type_ = self.types[statement.x]
        found = self.reach(statement, statement, type_.lanes, path, stores=True)
        if found is None:
            return
        bound = self.kernel.buffers[statement.buffer].bound
        if bound is not None:
            low, high = self.forms[statement.x].low, self.forms[statement.x].high
            if low < 0 or high >= bound:
                raise OutOfBounds(
                    f"{low} to {high} where b{statement.buffer} holds 0 to {bound - 1}: {statement_text(statement)}"
                )
        low, high = found.window
        if abs(found.stride) == 1:
            self.bodies[-1].add(found.buffer, found.terms, (), low, high)
        else:
            self.bodies[-1].add(found.buffer, found.terms, ((abs(found.stride), found.count),), low, low)

    # --- values ---

    def value(self, type_: Type, op: AnyOp) -> Form:
        """The form of an integer or truth value."""
        full = FULL[type_.elem]
        forms = self.forms
        match op:
            case Const(bits):
                number = int(value_of(type_.elem, bits))
                return Form(number, number, number, ())
            case Convert(x) if x in forms:
                form = forms[x]
                return form if _within((form.low, form.high), full) else Form(*full)
            case Select(condition, x, y):
                return Form(*self.chosen(condition, x, y))
            case Splat(x):
                return forms[x]
            case Shuffle(x, y):
                return Form(*_union((forms[x].low, forms[x].high), (forms[y].low, forms[y].high)))
            case Load(buffer, _, _, count):
                bound = self.kernel.buffers[buffer].bound
                low, high = FULL[self.kernel.buffers[buffer].elem]
                if bound is not None:
                    low, high = 0, min(high, bound - 1)
                whole = count is None or count >= type_.lanes
                # The lanes that are not read are 0. (Of a bound of 0 nothing is ever read.)
                return Form(low, max(low, high)) if whole else Form(min(low, 0), max(high, 0))
            case Unary(_, x) if type_.elem in INTEGERS:
                return Form(-1 - forms[x].high, -1 - forms[x].low)
            case Binary(name, x, y) if type_.elem in INTEGERS:
                return _fitting(_binary(name, forms[x], forms[y]), full)
            case _:
                return Form(*full)

    def chosen(self, condition: int, x: int, y: int) -> Interval:
        """The range of a selection; of a minimum and a maximum the narrower one."""
        one, other = (self.forms[x].low, self.forms[x].high), (self.forms[y].low, self.forms[y].high)
        test = self.ops.get(condition)
        if isinstance(test, Compare) and {test.x, test.y} == {x, y}:
            less = test.op in (CompareOp.LT, CompareOp.LE)
            if less or test.op in (CompareOp.GT, CompareOp.GE):
                pick = min if less == (test.x == x) else max
                return pick(one[0], other[0]), pick(one[1], other[1])
        return _union(one, other)


def _lanes(reach: Reach) -> range:
    """The elements of the lanes, but for the atoms."""
    last = reach.base + reach.stride * reach.count
    return range(reach.base, last, reach.stride) if reach.stride else range(reach.base, reach.base + 1)


def _terms(factors: Mapping[int, int]) -> Terms:
    return tuple(sorted((atom, factor) for atom, factor in factors.items() if factor))


def _within(inner: Interval, outer: Interval) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def _union(one: Interval, other: Interval) -> Interval:
    return min(one[0], other[0]), max(one[1], other[1])


def _fitting(form: Form, full: Interval) -> Form:
    """The form, if it does not leave its type: then nothing wraps around."""
    return form if _within((form.low, form.high), full) else Form(*full)


def _binary(op: BinaryOp, x: Form, y: Form) -> Form:
    """Integers beyond any type's range; a form that is wider than every type where nothing is known."""
    match op:
        case BinaryOp.ADD:
            return _sum(x, y, 1)
        case BinaryOp.SUB:
            return _sum(x, y, -1)
        case BinaryOp.MUL if x.low == x.high:
            return _multiple(y, x.low)
        case BinaryOp.MUL if y.low == y.high:
            return _multiple(x, y.low)
        case BinaryOp.MUL:
            products = [one * other for one in (x.low, x.high) for other in (y.low, y.high)]
            return Form(min(products), max(products))
        case BinaryOp.SHL if y.low == y.high and 0 <= y.low < 64:
            return _multiple(x, 1 << y.low)
        case BinaryOp.ASHR if y.low == y.high and 0 <= y.low < 64:
            return Form(x.low >> y.low, x.high >> y.low)
        case BinaryOp.LSHR if y.low == y.high and 0 <= y.low < 64 and x.low >= 0:
            return Form(x.low >> y.low, x.high >> y.low)
        case BinaryOp.AND if x.low >= 0 or y.low >= 0:
            return Form(0, min(one.high for one in (x, y) if one.low >= 0))
        case BinaryOp.OR | BinaryOp.XOR if x.low >= 0 and y.low >= 0:
            return Form(0, (1 << max(x.high, y.high).bit_length()) - 1)
        case _:
            return Form(-(1 << 64), 1 << 64)


def _sum(x: Form, y: Form, sign: int) -> Form:
    low, high = (x.low + y.low, x.high + y.high) if sign > 0 else (x.low - y.high, x.high - y.low)
    if x.terms is None or y.terms is None:
        return Form(low, high)
    factors = dict(x.terms)
    for atom, factor in y.terms:
        factors[atom] = factors.get(atom, 0) + sign * factor
    return Form(low, high, x.base + sign * y.base, _terms(factors))


def _multiple(x: Form, by: int) -> Form:
    ends = x.low * by, x.high * by
    terms = None if x.terms is None else _terms({atom: factor * by for atom, factor in x.terms})
    return Form(min(ends), max(ends), x.base * by, terms)
