"""Data files (`.psk.d`): reading the head of one, and matching its samples with an objective's.

A data file is a safetensors file: eight bytes with the length of the header (little-endian), then the header, a JSON object
whose `__metadata__` holds `presk.sample` (the sample type as Presk text), `presk.count` (how many samples) and, where samples
are windows of a stream of tokens, `presk.window` (length and stride, `129 1`). Only this head is read here.
"""

import re
from typing import Final

import msgspec

from presk.diagnostics.report import Reporter
from presk.elab.entities import Env
from presk.elab.scope import Scope
from presk.elab.types import elaborate_type
from presk.syntax import tree
from presk.types.decide import Decider
from presk.types.dim import Dim
from presk.types.type import Axis, Index, Mask, Real, Shape, Tuple, Type, type_dims

LENGTH_BYTES: Final = 8
MAX_HEADER: Final = 100_000_000
"""The longest header that the safetensors format allows, in bytes."""

SAMPLE: Final = "presk.sample"
COUNT: Final = "presk.count"
WINDOW: Final = "presk.window"
NO_ENV: Final = Env("", {}, {}, {})


class DataFile(msgspec.Struct, frozen=True, array_like=True):
    """A data file as an input: its first bytes, or why it cannot be read; neither where there is no such file."""

    head: bytes | None = None
    problem: str | None = None


def data_file(found: bytes | str | None) -> DataFile:
    """What a reader gives, as an input."""
    return DataFile(problem=found) if isinstance(found, str) else DataFile(found)


class Head(msgspec.Struct, frozen=True, array_like=True):
    """A data file's head before its sample type is parsed."""

    sample: str
    count: int
    window: tuple[int, int] | None


class _Header(msgspec.Struct):
    """The part of the JSON header that is read."""

    metadata: dict[str, str] = msgspec.field(default_factory=dict, name="__metadata__")


def header_size(start: bytes) -> int | None:
    """The length of the header, read off the first eight bytes; None if no safetensors file begins so."""
    if len(start) < LENGTH_BYTES:
        return None
    size = int.from_bytes(start[:LENGTH_BYTES], "little")
    return size if 0 < size <= MAX_HEADER else None


def read_head(head: bytes) -> Head | str:
    """The head of a data file given the file's first bytes (header included), or what is wrong with them."""
    size = header_size(head)
    if size is None:
        return "it does not begin as a safetensors file does"
    if len(head) < LENGTH_BYTES + size:
        return "its header is cut off"
    try:
        metadata = msgspec.json.decode(head[LENGTH_BYTES : LENGTH_BYTES + size], type=_Header).metadata
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # the last for endless brackets
        return "its header is not valid JSON with text metadata"
    sample, count, window = metadata.get(SAMPLE), metadata.get(COUNT), metadata.get(WINDOW)
    if sample is None or count is None:
        return f"its metadata lacks `{SAMPLE if sample is None else COUNT}`"
    if not re.fullmatch("[0-9]{1,18}", count):
        return f"its `{COUNT}` is not a natural number"
    if window is None:
        return Head(sample, int(count), None)
    parts = re.fullmatch("([1-9][0-9]{0,17}) ([1-9][0-9]{0,17})", window)
    if parts is None:
        return f"its `{WINDOW}` is not a length and a stride"
    return Head(sample, int(count), (int(parts[1]), int(parts[2])))


def sample_type(type_: tree.TypeExpr, decider: Decider) -> Type | None:
    """The type of a file's samples: closed tensors with literal lengths, or a tuple of such; None for anything else."""
    found = elaborate_type(type_, Scope(NO_ENV, decider, "data"), Reporter(), prefix=False)
    if found is None or any(not dim.is_constant() for dim in type_dims(found)):
        return None
    return found if _tensors(found) else None


def _tensors(type_: Type) -> bool:
    match type_:
        case Real() | Index() | Mask():
            return True
        case Tuple(items):
            return all(map(_tensors, items))
        case _:
            return False


class Mismatch(msgspec.Struct, frozen=True, array_like=True):
    """Where two sample types differ, in words."""

    words: str


def match_samples(wanted: Type, found: Type) -> dict[str, Dim] | Mismatch:
    """The values of the symbols of `wanted`, an objective's sample type, that make it the type `found` of a file.

    Lengths must agree, a symbolic one gets the file's; a literal index bound must be at least the file's, a symbolic
    one gets it.
    """
    values: dict[str, Dim] = {}
    bounds: list[tuple[Dim, Dim, str]] = []
    problem = _match(wanted, found, values, bounds, "")
    if problem is not None:
        return problem
    for bound, given, where in bounds:
        value = bound.substitute(values)
        if value.is_constant():
            if value.constant < given.constant:
                return Mismatch(f"the index bound{where} is {value}, the file's {given}")
        elif not _solve(value, given, values):
            return Mismatch(f"the index bound {bound}{where} is {given} in the file")
    return values


def _match(
    wanted: Type, found: Type, values: dict[str, Dim], bounds: list[tuple[Dim, Dim, str]], where: str
) -> Mismatch | None:
    match wanted, found:
        case Tuple(items), Tuple(others):
            if len(items) != len(others):
                return Mismatch(f"a sample{where} has {len(items)} parts, the file's {len(others)}")
            for number, (item, other) in enumerate(zip(items, others, strict=True)):
                problem = _match(item, other, values, bounds, f"{where} of part {number}")
                if problem is not None:
                    return problem
            return None
        case Real(shape), Real(other_shape):
            return _match_shapes(shape, other_shape, values, where)
        case Mask(shape), Mask(other_shape):
            return _match_shapes(shape, other_shape, values, where)
        case Index(bound, shape), Index(other_bound, other_shape):
            bounds.append((bound, other_bound, where))
            return _match_shapes(shape, other_shape, values, where)
        case _:
            return Mismatch(f"the type{where} is {wanted}, the file's {found}")


def _match_shapes(wanted: Shape, found: Shape, values: dict[str, Dim], where: str) -> Mismatch | None:
    if len(wanted.axes) != len(found.axes):
        return Mismatch(f"the shape{where} has {len(wanted.axes)} axes, the file's {len(found.axes)}")
    for number, (axis, other) in enumerate(zip(wanted.axes, found.axes, strict=True)):
        name = _axis_name(axis, other, number)
        if axis.name is not None and other.name is not None and axis.name != other.name:
            return Mismatch(f"axis {number}{where} is `{axis.name}`, in the file `{other.name}`")
        length = axis.length.substitute(values)
        if length != other.length and not _solve(length, other.length, values):
            return Mismatch(f"the length of {name}{where} is {length}, in the file {other.length}")
    return None


def _axis_name(axis: Axis, other: Axis, number: int) -> str:
    name = axis.name or other.name
    return f"axis `{name}`" if name is not None else f"axis {number}"


def _solve(form: Dim, value: Dim, values: dict[str, Dim]) -> bool:
    """Binds the one symbol of a form so that the form is the constant `value`; whether that can be."""
    solution = solve(form, value)
    if solution is None:
        return False
    name, found = solution
    values[name] = found
    return True


def solve(form: Dim, value: Dim) -> tuple[str, Dim] | None:
    """The symbol of a form with one symbol and the natural number for it that makes the form equal to a constant."""
    if len(form.terms) != 1 or not value.is_constant():
        return None
    ((name, factor),) = form.terms
    found = Dim((value.constant - form.constant) / factor)
    return (name, found) if found.natural() is not None else None
