"""The result of a run, for people and as JSON.

JSON is `{"entry", "result"}`; a tensor is `{"type", "axes", "shape", "data"}`, with nested lists of decimals that read back as the
same numbers (strings, since they have more digits than a JSON reader keeps), of integers, of booleans; a tuple is a list, a tree an
object. With proved bounds a tensor has `bounds` besides, one for each element. What is printed can be given as an input again.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from presk.exact.decimals import above, exactly, shortly
from presk.exact.scope import Scope
from presk.exact.values import Array, Index, Items, Key, Mask, Number, Real, Record, Truth, Value
from presk.types import type as types
from presk.types.dim import constant
from presk.types.trees import ParamField
from presk.types.type import Axis, HyperKind, Shape, Type

Bounds = Any
"""A structure like the result's, with arrays of bounds (MPFR numbers, rounded up) in the place of tensors; None for no bounds."""

_EDGE: Final = 3  # elements shown at either end of a long axis
_LONG: Final = 8  # an axis longer than this is shortened
_WIDE: Final = 100  # columns
_DIGITS: Final = 10  # of an element of a tensor


def closed(type_: Type, value: Value, scope: Scope) -> Type:
    """A type with the lengths that a tensor has: what is printed of it."""
    match type_, value:
        case types.Real(shape), Real(data):
            return types.Real(_shape(shape, data))
        case types.Index(_, shape), Index(data, bound):
            return types.Index(constant(bound), _shape(shape, data))
        case types.Mask(shape), Mask(data):
            return types.Mask(_shape(shape, data))
        case _:
            return type_


def _shape(shape: Shape, data: Array) -> Shape:
    names = [None] * (data.ndim - len(shape.axes)) + [axis.name for axis in shape.axes]
    return Shape(tuple(Axis(constant(length), name) for length, name in zip(data.shape, names)))


def field_types(type_: types.Params, scope: Scope) -> dict[str, Type]:
    """The types of a tree's fields."""
    return {
        field.name: field.type if isinstance(field, ParamField) else types.Params(field.instance)
        for field in scope.fields(type_.instance)
    }


# --- JSON -----------------------------------------------------------------------------------------------------------------


def to_json(entry: str, value: Value, type_: Type, scope: Scope, bits: int, bounds: Bounds = None) -> str:
    """One JSON object, without a line break at the end."""
    return json.dumps({"entry": entry, "result": _json(value, type_, scope, bits, bounds)}, ensure_ascii=False)


def _json(value: Value, type_: Type, scope: Scope, bits: int, bounds: Bounds) -> Any:
    match value, type_:
        case Items(items), types.Tuple(item_types):
            return [
                _json(item, inner, scope, bits, None if bounds is None else bounds[at])
                for at, (item, inner) in enumerate(zip(items, item_types, strict=True))
            ]
        case Record(fields), types.Params():
            inner_types = field_types(type_, scope)
            return {
                name: _json(item, inner_types[name], scope, bits, None if bounds is None else bounds[name])
                for name, item in fields.items()
            }
        case ((Real() | Index() | Mask()), _):
            shape = types_shape(closed(type_, value, scope))
            found = {
                "type": str(closed(type_, value, scope)),
                "axes": [axis.name for axis in shape.axes],
                "shape": list(value.data.shape),
                "data": _nested(_elements(value, bits), value.data.shape),
            }
            if bounds is not None and isinstance(value, Real):
                found["bounds"] = _nested([above(bound) for bound in bounds.ravel().tolist()], bounds.shape)
            return found
        case _:
            return _scalar(value, type_)


def types_shape(type_: Type) -> Shape:
    """The shape of a tensor's type."""
    if not isinstance(type_, types.Real | types.Index | types.Mask):
        raise TypeError(f"{type_} is no tensor")
    return type_.shape


def _elements(value: Real | Index | Mask, bits: int) -> list[Any]:
    flat = value.data.ravel().tolist()
    return [exactly(number, bits) for number in flat] if isinstance(value, Real) else flat


def _nested(elements: list[Any], shape: tuple[int, ...]) -> Any:
    if not shape:
        return elements[0]
    for length in reversed(shape[1:]):
        if length == 0:
            return _empty(shape)
        elements = [elements[at : at + length] for at in range(0, len(elements), length)]
    return elements


def _empty(shape: tuple[int, ...]) -> Any:
    return [_empty(shape[1:]) for _ in range(shape[0])] if shape[1:] else []


def _scalar(value: Value, type_: Type) -> Any:
    match value:
        case Number(number):
            if type_ in (types.Hyper(HyperKind.NAT), types.Hyper(HyperKind.INT)):
                return int(number)
            return fraction(value)
        case Truth(truth):
            return truth
        case Key(data):
            return data.hex()
        case _:
            raise TypeError(f"{type(value).__name__} is not printed")


def fraction(number: Number) -> str:
    """A rational number: a decimal if it has one, else a fraction."""
    value = number.value
    rest, places = value.denominator, 0
    for prime in (2, 5):
        count = 0
        while rest % prime == 0:
            rest //= prime
            count += 1
        places = max(places, count)
    if rest != 1 or places > 400:
        return str(value)
    digits = str(abs(int(value * 10**places))).rjust(places + 1, "0")
    text = f"{digits[:-places]}.{digits[-places:]}" if places else digits
    return f"-{text}" if value < 0 else text


# --- text -----------------------------------------------------------------------------------------------------------------


def to_text(
    entry: str, value: Value, type_: Type, scope: Scope, bits: int, bounds: Bounds = None, *, full: bool = False
) -> str:
    """Lines for people, the last one ended: a line for each tensor of a tuple or tree, then its elements.

    Long axes are shortened to their ends and elements to ten digits; `full` prints everything, in decimals that read back.
    """
    lines: list[str] = []
    for path, leaf, leaf_type, leaf_bounds in _leaves(entry, value, type_, scope, bounds):
        lines += _leaf_lines(path, leaf, leaf_type, scope, bits, leaf_bounds, full)
    if not lines:
        lines.append(f"{entry} : {type_} = {'{}' if isinstance(value, Record) else '()'}")
    return "\n".join(lines) + "\n"


def _leaves(
    path: str, value: Value, type_: Type, scope: Scope, bounds: Bounds
) -> Iterator[tuple[str, Value, Type, Bounds]]:
    match value, type_:
        case Items(items), types.Tuple(item_types):
            for at, (item, inner) in enumerate(zip(items, item_types, strict=True)):
                yield from _leaves(f"{path}.{at}", item, inner, scope, None if bounds is None else bounds[at])
        case Record(fields), types.Params():
            inner_types = field_types(type_, scope)
            for name, item in fields.items():
                below = None if bounds is None else bounds[name]
                yield from _leaves(f"{path}.{name}", item, inner_types[name], scope, below)
        case _:
            yield path, value, type_, bounds


def _leaf_lines(path: str, value: Value, type_: Type, scope: Scope, bits: int, bounds: Bounds, full: bool) -> list[str]:
    if not isinstance(value, Real | Index | Mask):
        found = _scalar(value, type_)
        return [f"{path} : {type_} = {str(found).lower() if isinstance(found, bool) else found}"]
    head = f"{path} : {closed(type_, value, scope)}"
    lines = [f"{head} ="] if value.data.ndim else []
    if value.data.ndim == 0:
        number = value.data.item()
        text = exactly(number, bits) if isinstance(value, Real) else _word(number)
        lines.append(f"{head} = {text}")
    else:
        lines += _block(value, bits, full)
    if bounds is not None and isinstance(value, Real) and bounds.size:
        lines.append(
            f"  within {above(max(bounds.ravel().tolist()))} of the exact value{'s' if value.data.ndim else ''}, proved"
        )
    return lines


def _word(element: Any) -> str:
    return str(element).lower() if isinstance(element, bool | np.bool_) else str(element)


def _block(value: Real | Index | Mask, bits: int, full: bool) -> list[str]:
    """Nested brackets, one row of the last axis a line, columns aligned."""
    data = value.data
    kept = [range(length) if full or length <= _LONG else _ends(length) for length in data.shape]

    def text(element: Any) -> str:
        if not isinstance(value, Real):
            return _word(element)
        return exactly(element, bits) if full else shortly(element, _DIGITS)

    rows: list[list[str]] = []

    def walk(part: Array, axis: int) -> None:
        if axis == data.ndim - 1:
            rows.append(["…" if at is None else text(part[at]) for at in kept[axis]])
            return
        for at in kept[axis]:
            if at is not None:
                walk(part[at], axis + 1)

    walk(data, 0)
    width = max((len(cell) for row in rows for cell in row), default=0)
    filled = iter(rows)
    lines: list[str] = []

    def lay(axis: int, indent: int, opening: str, closing: str) -> None:
        if axis == data.ndim - 1:
            cells = [cell if cell == "…" else cell.rjust(width) for cell in next(filled)]
            lines.extend(_wrapped(opening + "[", cells, "]" + closing, indent))
            return
        places = list(kept[axis])
        if not places:
            lines.append(f"{' ' * indent}{opening}[]{closing}")
        for number, at in enumerate(places):
            if at is None:
                lines.append(f"{' ' * (indent + len(opening) + 1)}…")
                continue
            first, last = number == 0, number == len(places) - 1
            lay(
                axis + 1,
                indent if first else indent + len(opening) + 1,
                opening + "[" if first else "",
                "]" + closing if last else ",",
            )

    lay(0, 2, "", "")
    return lines


def _ends(length: int) -> Sequence[int | None]:
    return [*range(_EDGE), None, *range(length - _EDGE, length)]


def _wrapped(opening: str, cells: list[str], closing: str, indent: int) -> list[str]:
    """One row, broken into lines where it is wider than the page."""
    lines = []
    start = " " * indent + opening
    line = start
    for at, cell in enumerate(cells):
        piece = cell + ("," if at + 1 < len(cells) else closing)
        if len(line) + len(piece) > _WIDE and line.strip() != opening and line != start:
            lines.append(line.rstrip())
            line = " " * len(start)
        line += piece + (" " if at + 1 < len(cells) else "")
    if not cells:
        line += closing
    lines.append(line)
    return lines
