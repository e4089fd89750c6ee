"""The generator's types. They know nothing of the compiler's own."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from tests.programs.lengths import Len, solve


@dataclass(frozen=True, slots=True)
class Ax:
    """An axis: its length and its name."""

    length: Len
    name: str | None = None


Axes = tuple[Ax, ...]


@dataclass(frozen=True, slots=True)
class Real:
    """A real tensor; an open one has the leading axes of the function that it stands in."""

    axes: Axes = ()
    open: bool = False


@dataclass(frozen=True, slots=True)
class Idx:
    """A tensor of indices below a bound."""

    bound: Len
    axes: Axes = ()
    open: bool = False


@dataclass(frozen=True, slots=True)
class Mask:
    """A tensor of truth values."""

    axes: Axes = ()


@dataclass(frozen=True, slots=True)
class Hyper:
    """A number that is no real: `nat`, `int`, `rat`, `f64`, `bool`."""

    kind: str


@dataclass(frozen=True, slots=True)
class Key:
    """A random key."""


@dataclass(frozen=True, slots=True)
class Tup:
    """A tuple."""

    items: "tuple[T, ...]"


@dataclass(eq=False, slots=True)
class Module:
    """A module: its parameters by name, in order, and its functions."""

    name: str
    dims: list[str] = field(default_factory=list)
    fields: "list[tuple[str, Real | Inst]]" = field(default_factory=list)
    inits: dict[str, str] = field(default_factory=dict)
    model: "Inst | None" = None


@dataclass(frozen=True, slots=True)
class Named:
    """A module with its arguments."""

    module: Module
    args: tuple[Len, ...] = ()


@dataclass(frozen=True, slots=True)
class Stacked:
    """`stack{length}(inner)`."""

    length: Len
    inner: "Inst"


@dataclass(frozen=True, slots=True)
class Composed:
    """`outer ∘ inner`."""

    outer: "Inst"
    inner: "Inst"


Inst = Named | Stacked | Composed


@dataclass(frozen=True, slots=True)
class Tree:
    """The parameters of a module's instance."""

    inst: Inst


T = Real | Idx | Mask | Hyper | Key | Tup | Tree


def merge(one: Axes, other: Axes) -> Axes | None:
    """The axes of two types that unify, with the names of both; None if they do not, or if a name would stand twice."""
    if len(one) != len(other):
        return None
    merged = []
    for a, b in zip(one, other):
        if a.length != b.length or (a.name and b.name and a.name != b.name):
            return None
        merged.append(a if a.name else b)
    return tuple(merged) if distinct(merged) else None


def distinct(axes: "tuple[Ax, ...] | list[Ax]") -> bool:
    """Whether no name stands twice."""
    names = [axis.name for axis in axes if axis.name]
    return len(set(names)) == len(names)


def fits(have: T, want: T) -> bool:
    """Whether a value of one type can stand where the other is asked for."""
    match have, want:
        case Real(axes, open_), Real(other, wide):
            return open_ == wide and merge(axes, other) is not None
        case Idx(bound, axes, open_), Idx(limit, other, wide):
            return open_ == wide and bound == limit and merge(axes, other) is not None
        case Mask(axes), Mask(other):
            return merge(axes, other) is not None
        case Tup(items), Tup(others):
            return len(items) == len(others) and all(map(fits, items, others))
        case _:
            return have == want


def map_type(type_: T, axes: Callable[[Axes], Axes], length: Callable[[Len], Len], open_: bool | None = None) -> T:
    """The type with its axes and its lengths mapped; `open_` says whether an open one stays so."""
    match type_:
        case Real(old, wide):
            return Real(axes(old), wide if open_ is None else wide and open_)
        case Idx(bound, old, wide):
            return Idx(length(bound), axes(old), wide if open_ is None else wide and open_)
        case Mask(old):
            return Mask(axes(old))
        case Tup(items):
            return Tup(tuple(map_type(item, axes, length, open_) for item in items))
        case Tree(inst):
            return Tree(map_inst(inst, length))
        case _:
            return type_


def map_inst(inst: Inst, length: Callable[[Len], Len]) -> Inst:
    """The instance with its lengths mapped."""
    match inst:
        case Named(module, args):
            return Named(module, tuple(map(length, args)))
        case Stacked(count, inner):
            return Stacked(length(count), map_inst(inner, length))
        case Composed(outer, inner):
            return Composed(map_inst(outer, length), map_inst(inner, length))


def put_in(
    type_: T,
    values: Mapping[str, Len],
    prefix: Axes = (),
    open_: bool = False,
    names: "Mapping[str, str] | None" = None,
) -> T:
    """The type at a call: symbols and axis names replaced, and `...` by axes, which may begin with the caller's own `...`."""

    def axes(old: Axes) -> Axes:
        return tuple(Ax(axis.length.put_in(values), (names or {}).get(axis.name or "", axis.name)) for axis in old)

    match type_:
        case Real(old, True):
            return Real(prefix + axes(old), open_)
        case Idx(bound, old, True):
            return Idx(bound.put_in(values), prefix + axes(old), open_)
        case Tup(items):
            return Tup(tuple(put_in(item, values, prefix, open_, names) for item in items))
        case _:
            return map_type(type_, axes, lambda length: length.put_in(values))


def lengths_of(type_: T) -> Iterator[Len]:
    """Every length that a type mentions."""
    match type_:
        case Real(axes) | Mask(axes):
            yield from (axis.length for axis in axes)
        case Idx(bound, axes):
            yield bound
            yield from (axis.length for axis in axes)
        case Tup(items):
            for item in items:
                yield from lengths_of(item)
        case Tree(inst):
            yield from inst_lengths(inst)


def inst_lengths(inst: Inst) -> Iterator[Len]:
    """Every length that an instance mentions."""
    match inst:
        case Named(_, args):
            yield from args
        case Stacked(count, inner):
            yield count
            yield from inst_lengths(inner)
        case Composed(outer, inner):
            yield from inst_lengths(outer)
            yield from inst_lengths(inner)


def is_open(type_: T) -> bool:
    """Whether `...` stands in a type."""
    match type_:
        case Real(_, wide) | Idx(_, _, wide):
            return wide
        case Tup(items):
            return any(map(is_open, items))
        case _:
            return False


def tree_fields(inst: Inst, lengths: tuple[Len, ...] = ()) -> "list[tuple[str, T]]":
    """The fields of an instance's tree and their types."""
    match inst:
        case Stacked(count, inner):
            return tree_fields(inner, (*lengths, count))
        case Composed(outer, inner):
            return [("outer", Tree(_stacked(outer, lengths))), ("inner", Tree(_stacked(inner, lengths)))]
        case Named(module, args):
            if module.model is not None:
                return tree_fields(module.model, lengths)
            values = dict(zip(module.dims, args))
            found: list[tuple[str, T]] = []
            for name, held in module.fields:
                if isinstance(held, Real):
                    type_ = put_in(held, values)
                    assert isinstance(type_, Real)
                    found.append((name, Real((*(Ax(count) for count in lengths), *type_.axes))))
                else:
                    inner = map_inst(held, lambda length: length.put_in(values))
                    found.append((name, Tree(_stacked(inner, lengths))))
            return found


def _stacked(inst: Inst, lengths: tuple[Len, ...]) -> Inst:
    for count in reversed(lengths):
        inst = Stacked(count, inst)
    return inst


def match_axes(pattern: Axes, axes: Axes, known: dict[str, Len]) -> bool:
    """Whether axes are those of a pattern at some values of its symbols, which are then known; names must agree."""
    if len(pattern) != len(axes):
        return False
    for one, other in zip(pattern, axes):
        if one.name and other.name and one.name != other.name:
            return False
    order = sorted(range(len(axes)), key=lambda at: pattern[at].length.bare() is None)
    return all(solve(pattern[at].length, axes[at].length, known) for at in order)
