"""Parameter trees: the fields and the leaves of a module instance, with its arguments put in at every depth.

A module's header gives its fields in terms of its type parameters (`dims`) and of file-level dimensions; an instance
gives a value to each (the latter through `hidden`). `stack{L}(M)` has the fields of `M` with an axis of length L, which
may be 0, in front of every leaf, at every depth: a stack of 2 stacks of 3 puts `[2, 3, …]`. `A ∘ B` has the fields
`outer` and `inner`. A module that is another instance under a name (`model`) has that instance's fields.

Headers are what elaboration makes of modules; this module sees of them what the protocols below name. It walks without
recursion, since a chain of modules may be as long as a file.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from presk.types.dim import Dim
from presk.types.type import Axis, Composed, Instance, ModuleRef, Named, Real, Shape, Stacked, map_instance

OUTER: Final = "outer"
INNER: Final = "inner"

T = TypeVar("T")


class Init(msgspec.Struct, frozen=True, array_like=True):
    """An initializer: `kind` is zeros, ones, normal or xavier_uniform; `std` the decimal's text for normal."""

    kind: str
    std: str | None = None


class ParamField(msgspec.Struct, frozen=True, array_like=True, tag=True, tag_field="form"):
    """A learnable tensor among the fields of a module or of an instance; its shape has no open prefix."""

    name: str
    type: Real
    init: Init


class UseField(msgspec.Struct, frozen=True, array_like=True, tag=True, tag_field="form"):
    """A sub-module among the fields of a module or of an instance."""

    name: str
    instance: Instance


class HeaderLike(Protocol):
    """A module's header; with `model`, everything is that instance's, and `fields` is not looked at."""

    @property
    def dims(self) -> tuple[str, ...]: ...
    @property
    def fields(self) -> Sequence[ParamField | UseField]: ...
    @property
    def model(self) -> Instance | None: ...


class Leaf(msgspec.Struct, frozen=True, array_like=True):
    """A tensor of a tree: the names that lead to it, joined by dots (`blocks.attn.wq.w`), its type, its initializer."""

    path: str
    type: Real
    init: Init


class _Chain(NamedTuple, Generic[T]):
    """A list that shares all but its last item with other lists; None is the empty one."""

    before: "_Chain[T] | None"
    last: T


def fields(instance: Instance, headers: Mapping[ModuleRef, HeaderLike]) -> tuple[ParamField | UseField, ...]:
    """The fields of an instance, in order of declaration.

    KeyError for a module without a header, ValueError for an instance with more or fewer arguments than its module has
    type parameters.
    """
    lengths: list[Dim] = []
    while True:
        match instance:
            case Stacked(length, inner):
                lengths.append(length)
                instance = inner
            case Composed(outer, inner):
                return (UseField(OUTER, _stacked(lengths, outer)), UseField(INNER, _stacked(lengths, inner)))
            case Named():
                header, values = _applied(instance, headers)
                if header.model is None:
                    return tuple(_field(field, values, lengths) for field in header.fields)
                instance = _put_in(header.model, values)


def leaves(instance: Instance, headers: Mapping[ModuleRef, HeaderLike]) -> tuple[Leaf, ...]:
    """The leaves of an instance's tree, in order of declaration; errors as for `fields`, at any depth.

    No module may contain itself. The time is linear in the size of the tree and of the result. That size may be
    exponential in the length of the program (each module using the one before it twice): see `leaf_count`.
    """
    found: list[Leaf] = []
    # What is still to be visited, the next one last.
    pending: list[tuple[_Chain[str] | None, _Chain[Dim] | None, Instance | ParamField]] = [(None, None, instance)]
    while pending:
        path, lengths, node = pending.pop()
        match node:
            case ParamField():
                found.append(Leaf(".".join(_items(path)), _in_front(_items(lengths), node.type), node.init))
            case Stacked(length, inner):
                pending.append((path, _Chain(lengths, length), inner))
            case Composed(outer, inner):
                pending.append((_Chain(path, INNER), lengths, inner))
                pending.append((_Chain(path, OUTER), lengths, outer))
            case Named():
                header, values = _applied(node, headers)
                if header.model is not None:
                    pending.append((path, lengths, _put_in(header.model, values)))
                    continue
                for declared in reversed(header.fields):
                    field = _field(declared, values, ())
                    inside = field.instance if isinstance(field, UseField) else field
                    pending.append((_Chain(path, field.name), lengths, inside))
    return tuple(found)


def leaf_count(instance: Instance, headers: Mapping[ModuleRef, HeaderLike]) -> int:
    """`len(leaves(instance, headers))` without walking the tree: linear in the size of the headers.

    KeyError for a module without a header. No module may contain itself.
    """
    counts: dict[ModuleRef, int] = {}
    pending = list(_modules(instance))
    while pending:
        header = headers[pending[-1]]
        declared = () if header.model is not None else header.fields
        uses = [field.instance for field in declared if isinstance(field, UseField)]
        params = len(declared) - len(uses)
        parts = [part for use in uses for part in _modules(use)] if header.model is None else [*_modules(header.model)]
        unknown = [part for part in parts if part not in counts]
        if unknown:
            pending.extend(unknown)
        else:
            counts[pending.pop()] = params + sum(counts[part] for part in parts)
    return sum(counts[part] for part in _modules(instance))


def _applied(instance: Named, headers: Mapping[ModuleRef, HeaderLike]) -> tuple[HeaderLike, Mapping[str, Dim]]:
    """An instance's header, and the values of the dimensions that it mentions."""
    header = headers[instance.module]
    return header, {**dict(instance.hidden), **dict(zip(header.dims, instance.arguments, strict=True))}


def _field(field: ParamField | UseField, values: Mapping[str, Dim], lengths: Sequence[Dim]) -> ParamField | UseField:
    """A header's field with dimensions put in, behind stacks of the given lengths, the outermost first."""
    if isinstance(field, UseField):
        return UseField(field.name, _stacked(lengths, _put_in(field.instance, values)))
    axes = tuple(Axis(axis.length.substitute(values), axis.name) for axis in field.type.shape.axes)
    return ParamField(field.name, _in_front(lengths, Real(Shape(axes, field.type.shape.prefix))), field.init)


def _put_in(instance: Instance, values: Mapping[str, Dim]) -> Instance:
    return map_instance(instance, lambda dim: dim.substitute(values))


def _in_front(lengths: Sequence[Dim], type_: Real) -> Real:
    if not lengths:
        return type_
    return Real(Shape((*(Axis(length) for length in lengths), *type_.shape.axes), type_.shape.prefix))


def _stacked(lengths: Sequence[Dim], instance: Instance) -> Instance:
    for length in reversed(lengths):
        instance = Stacked(length, instance)
    return instance


def _modules(instance: Instance) -> Iterator[ModuleRef]:
    """The modules that an instance names, each as often as it does."""
    pending: list[Instance] = [instance]
    while pending:
        match pending.pop():
            case Named(module):
                yield module
            case Stacked(_, inner):
                pending.append(inner)
            case Composed(outer, inner):
                pending += (inner, outer)


def _items(chain: _Chain[T] | None) -> list[T]:
    """The items from the first to the last."""
    items: list[T] = []
    while chain is not None:
        items.append(chain.last)
        chain = chain.before
    items.reverse()
    return items
