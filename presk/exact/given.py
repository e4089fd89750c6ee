"""What is given from outside: `.npy`, `.safetensors` and JSON files, and words of the command line, read exactly.

A file is read first without regard to a type (`raw_of_file`, `raw_of_word`), so that the lengths of its tensors can determine
dimensions; then against the type, with every index, length and number checked at its place. Nothing is clamped, or guessed, or
rounded to a float. JSON is what `--json` prints: tensors are objects with `data` (and `shape`, `axes`, `type`) or nested lists,
reals are decimals, in strings or not, tuples are lists, trees objects, keys 64 hexadecimal digits.
"""

import io
import json
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from tokenize import TokenError
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import safetensors
from gmpy2 import mpq
from numpy.lib import format

from presk.exact import draws
from presk.exact.arithmetic import Making
from presk.exact.faults import COMMAND, DATA, Fault
from presk.exact.interpreter import literal
from presk.exact.scope import Scope
from presk.exact.values import Array, Index, Items, Key, Mask, Number, Objects, Real, Record, Truth, Value, gathered
from presk.types import type as types
from presk.types.trees import ParamField, UseField, leaf_count
from presk.types.type import HyperKind, Shape, Type

EXACT_INTEGERS: Final = 1 << 53
TREE: Final = "tree"
_TENSOR_KEYS: Final = frozenset({"type", "axes", "shape", "data", "bounds"})
_HEX: Final = re.compile(r"[0-9a-fA-F]{64}")
_DECIMAL: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_RATIONAL: Final = re.compile(r"[+-]?\d+/\d+")
_WHOLE: Final = re.compile(r"[+-]?\d+")


@dataclass(frozen=True, slots=True)
class Given:
    """A file by its name, as the user spells it, and its bytes.

    Of a checkpoint the bytes are those of a safetensors file with the parameters alone, each by its path behind `TREE` and a dot.
    """

    name: str
    data: bytes
    checkpoint: bool = False


class Numeral(str):
    """A number of a JSON file, as it is written there."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of a file: machine numbers, or numerals, strings and booleans of JSON behind references."""

    array: Array


Raw = Tensor | list["Raw"] | dict[str, "Raw"] | Numeral | str | bool
"""A file's content before a type is known. A list is a tuple's, or a tensor's that is written as nested lists."""


# --- files --------------------------------------------------------------------------------------------------------------


def raw_of_word(text: str) -> Raw:
    """A value of the command line."""
    return text == "true" if text in ("true", "false") else text


def raw_of_file(given: Given) -> Raw:
    """A file's content; DATA for one that is damaged, COMMAND for a form that is not read."""
    if given.checkpoint:
        tensors = _safetensors(given)
        return tensors.get(TREE, {})
    suffix = given.name.rpartition(".")[2].lower()
    match suffix:
        case "npy":
            return Tensor(_npy(given))
        case "safetensors":
            return _safetensors(given)
        case "json":
            return _json(given)
        case _:
            raise Fault(
                COMMAND, f"`{given.name}` ends in none of `.npy`, `.safetensors`, `.json`, the forms that are read"
            )


def _damaged(given: Given, why: str) -> Fault:
    return Fault(DATA, f"`{given.name}` cannot be read: {why}")


def _npy(given: Given) -> Array:
    """The array of an .npy file of version 1 or 2; version 3 is for structured types.

    Not by `np.load`, which takes archives too, and the memory for as many elements as a damaged header claims.
    """
    stream = io.BytesIO(given.data)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a header is of Python 2
            header = _HEADERS.get(format.read_magic(stream))
            if header is None:
                raise _damaged(given, "it is of a version that is not read")
            shape, fortran, dtype = header(stream)
    except (ValueError, EOFError, SyntaxError, TokenError) as error:
        raise _damaged(given, str(error).splitlines()[0] if str(error) else "its header is damaged") from None
    content = given.data[stream.tell() :]
    # Before the elements are looked at: an object's would be unpickled, and a length may be absurd.
    if dtype.kind not in _KINDS or dtype.itemsize > _LARGEST or any(length < 0 for length in shape):
        raise _damaged(given, f"its elements are of type {dtype}")
    if len(content) != prod(shape) * dtype.itemsize:
        raise _damaged(
            given, f"its shape {list(shape)} asks for {prod(shape) * dtype.itemsize} bytes, not {len(content)}"
        )
    return _plain(given, np.frombuffer(content, dtype=dtype).reshape(shape, order="F" if fortran else "C"))


_HEADERS: Final = MappingProxyType({(1, 0): format.read_array_header_1_0, (2, 0): format.read_array_header_2_0})
_KINDS: Final = "biuf"
_LARGEST: Final = 8  # bytes of an element


def _plain(given: Given, array: Array) -> Array:
    """The array in the machine's byte order; refused unless its elements are booleans, integers or floats of at most 64 bits."""
    if array.dtype.kind not in _KINDS or array.dtype.itemsize > _LARGEST:
        raise _damaged(given, f"its elements are of type {array.dtype}")
    return array.astype(array.dtype.newbyteorder("="), copy=False)


_SAFETENSORS: Final[Mapping[str, str]] = {
    "BOOL": "?",
    "U8": "u1",
    "I8": "i1",
    "U16": "<u2",
    "I16": "<i2",
    "U32": "<u4",
    "I32": "<i4",
    "U64": "<u8",
    "I64": "<i8",
    "F16": "<f2",
    "F32": "<f4",
    "F64": "<f8",
    "BF16": "<u2",
}


def _safetensors(given: Given) -> dict[str, Raw]:
    """Tensors by name; names with dots are paths in a tree."""
    _refuse_repeated_names(given)
    try:
        entries: list[tuple[str, dict[str, Any]]] = safetensors.deserialize(given.data)  # type: ignore[no-untyped-call]  # has no types
    except safetensors.SafetensorError as error:
        raise _damaged(given, str(error).removeprefix("Error while deserializing: ")) from None
    tree: dict[str, Raw] = {}
    for name, entry in sorted(entries, key=lambda one: one[0]):
        code = _SAFETENSORS.get(entry["dtype"])
        if code is None:
            raise _damaged(given, f"the elements of `{name}` are of type {entry['dtype']}")
        array: Array = np.frombuffer(bytes(entry["data"]), dtype=code)
        if entry["dtype"] == "BF16":
            array = (array.astype(np.uint32) << np.uint32(16)).view(np.float32)
        _put(given, tree, name, Tensor(_plain(given, array.reshape(entry["shape"]))))
    return tree


def _refuse_repeated_names(given: Given) -> None:
    """The library takes the last of two tensors of one name."""
    size = int.from_bytes(given.data[:8], "little")
    try:
        json.loads(given.data[8 : 8 + size], object_pairs_hook=lambda pairs: _pairs(given, pairs))
    except (ValueError, RecursionError):
        pass  # a damaged header is the library's to refuse


def _put(given: Given, tree: dict[str, Raw], path: str, value: Raw) -> None:
    *outer, last = path.split(".")
    for name in outer:
        below = tree.setdefault(name, {})
        if not isinstance(below, dict):
            raise _damaged(given, f"`{name}` of `{path}` is a tensor itself")
        tree = below
    if last in tree:
        raise _damaged(given, f"`{path}` is a tensor and a tree")
    tree[last] = value


def _pairs(given: Given, pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise _damaged(given, f"the name `{next(name for name in names if names.count(name) > 1)}` stands twice")
    return found


def _json(given: Given) -> Raw:
    def constant(name: str) -> Any:
        raise _damaged(given, f"{name} is no real number")

    try:
        content = json.loads(
            given.data.decode("utf-8-sig"),
            parse_int=Numeral,
            parse_float=Numeral,
            parse_constant=constant,
            object_pairs_hook=lambda pairs: _pairs(given, pairs),
        )
    except RecursionError:
        raise _damaged(given, "it is nested too deeply") from None
    except ValueError as error:
        raise _damaged(given, str(error)) from None
    if isinstance(content, dict) and content.keys() == {"entry", "result"}:
        content = content["result"]
    return _raw(given, content)


def _raw(given: Given, content: Any) -> Raw:
    match content:
        case {"data": data, "shape": list() as shape} if set(content) <= _TENSOR_KEYS:
            lengths = tuple(_length(given, one) for one in shape)
            elements = _regular(data, lengths)
            if elements is None:
                raise _damaged(given, f"`data` does not have the shape {list(lengths)}")
            return Tensor(gathered(elements, lengths))
        case dict():
            return {name: _raw(given, value) for name, value in content.items()}
        case list():
            return [_raw(given, value) for value in content]
        case None:
            raise _damaged(given, "null is no value")
        case bool() | str():
            return content
        case _:
            raise _damaged(given, f"{content!r} is no value")


def _length(given: Given, numeral: Any) -> int:
    if not isinstance(numeral, Numeral) or not numeral.isdecimal():
        raise _damaged(given, f"{numeral} in a `shape` is no length")
    return int(numeral)


# --- tensors ------------------------------------------------------------------------------------------------------------


def as_tensor(raw: Raw, path: str) -> Array:
    """What is given for a tensor as an array; DATA for what is none (nested lists must be regular).

    A file with one name in it gives that tensor.
    """
    if isinstance(raw, Tensor):
        return raw.array
    if isinstance(raw, dict):
        if len(raw) == 1:
            return as_tensor(next(iter(raw.values())), path)
        if "data" in raw and raw.keys() <= _TENSOR_KEYS:
            return as_tensor(raw["data"], path)
        raise Fault(DATA, f"`{path}` is one tensor, and {len(raw)} names are given for it")
    lengths: list[int] = []
    inner: Raw = raw
    while isinstance(inner, list):
        lengths.append(len(inner))
        inner = inner[0] if inner else ""
    elements = _regular(raw, lengths)
    if elements is None:
        raise Fault(DATA, f"what is given for `{path}` is no regular array of numbers")
    return gathered(elements, tuple(lengths))


def _regular(nested: Any, lengths: Sequence[int]) -> list[Any] | None:
    """The elements of nested lists; None unless these are their lengths."""
    level = [nested]
    for length in lengths:
        if any(not isinstance(item, list) or len(item) != length for item in level):
            return None
        level = [one for item in level for one in item]
    return level if all(isinstance(item, bool | str) for item in level) else None


def infer_lengths(shape: Shape, lengths: tuple[int, ...], dims: dict[str, int], path: str) -> tuple[int, ...] | None:
    """Gives open dimensions the values that a tensor's lengths determine; the lengths of the leading axes, if there are any.

    DATA for a tensor of another rank or with another length than a known one.
    """
    leading = len(lengths) - len(shape.axes)
    if leading < 0 or (leading > 0 and shape.prefix is None):
        raise Fault(
            DATA, f"what is given for `{path}` has {len(lengths)} axes, and its type `ℝ[{shape}]` {len(shape.axes)}"
        )
    for axis, length in zip(shape.axes, lengths[leading:]):
        match axis.length.terms:
            case ((symbol, factor),) if symbol not in dims:
                value = (length - axis.length.constant) / factor
                if value < 0 or value.denominator != 1:
                    raise Fault(DATA, f"no `{symbol}` makes `{axis}` of `{path}` as long as what is given, {length}")
                dims[symbol] = int(value)
            case terms if all(symbol in dims for symbol, _ in terms):
                known = axis.length.evaluate(dims)
                if known != length:
                    raise Fault(DATA, f"axis `{axis}` of `{path}` is {known} long, and what is given {length}")
            case _:
                pass
    return lengths[:leading] if shape.prefix is not None else None


def _checked(array: Array, lengths: tuple[int, ...], path: str) -> Array:
    if array.shape != lengths:
        raise Fault(DATA, f"`{path}` has the shape {list(lengths)}, and what is given {list(array.shape)}")
    return array


def _first(wrong: Array) -> tuple[int, ...]:
    return tuple(int(at) for at in np.argwhere(wrong)[0])


def _text(path: str, index: tuple[int, ...]) -> str:
    return f"{path}[{', '.join(map(str, index))}]" if index else path


def _reals(m: Making, array: Array, path: str) -> Objects:
    if array.dtype == object:
        numbers = [
            m.number(_rational(element, _text(path, _place(at, array.shape))))
            for at, element in enumerate(array.ravel().tolist())
        ]
        return gathered(numbers, array.shape)
    if array.dtype.kind == "b":
        raise Fault(DATA, f"`{path}` is a real tensor, and truth values are given for it")
    if array.dtype.kind == "f":
        doubles = array.astype(np.float64)
        if not np.isfinite(doubles).all():
            index = _first(~np.isfinite(doubles))
            raise Fault(DATA, f"{doubles[index]} at `{_text(path, index)}` is no real number")
        return m.from_doubles(doubles)
    if int(array.max(initial=0)) <= EXACT_INTEGERS and int(array.min(initial=0)) >= -EXACT_INTEGERS:
        return m.from_doubles(array.astype(np.float64))
    return gathered([m.number(mpq(value)) for value in array.ravel().tolist()], array.shape)


def _place(at: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(one) for one in np.unravel_index(at, shape)) if shape else ()


def _rational(element: Any, where: str) -> mpq:
    """A number as text, exactly."""
    text = element.strip() if isinstance(element, str) else ""
    if not (_DECIMAL.fullmatch(text) or (_RATIONAL.fullmatch(text) and mpq_denominator(text))):
        raise Fault(DATA, f"`{element}` given for `{where}` is no number")
    number = literal(text.lstrip("+"))
    if not isinstance(number, Number):
        raise Fault(DATA, f"`{element}` given for `{where}` is no number")
    return number.value


def mpq_denominator(text: str) -> bool:
    """The denominator of a fraction is not 0."""
    return int(text.partition("/")[2]) != 0


def _indices(array: Array, limit: int, path: str) -> Index:
    if array.dtype == object:
        elements = array.ravel().tolist()
        for at, element in enumerate(elements):
            if not isinstance(element, str) or not _WHOLE.fullmatch(element.strip()):
                raise Fault(DATA, f"`{element}` at `{_text(path, _place(at, array.shape))}` is no index")
        numbers: Array = np.array([int(element) for element in elements], dtype=object).reshape(array.shape)
    elif array.dtype.kind in "iu":
        numbers = array
    else:
        raise Fault(DATA, f"`{path}` is an index tensor, and what is given has elements of type {array.dtype}")
    wrong = np.array((numbers < 0) | (numbers >= limit), dtype=np.bool_)
    if wrong.any():
        index = _first(wrong)
        raise Fault(DATA, f"the index {numbers[index]} at `{_text(path, index)}` is not one of 0 … {limit - 1}")
    return Index(numbers.astype(np.int64 if limit <= 1 << 63 else object), limit)


def _mask(array: Array, path: str) -> Mask:
    if array.dtype == object and all(isinstance(element, bool) for element in array.ravel().tolist()):
        return Mask(array.astype(np.bool_))
    if array.dtype.kind != "b":
        raise Fault(DATA, f"`{path}` is a mask, and what is given are no truth values")
    return Mask(array)


# --- values -------------------------------------------------------------------------------------------------------------


def value_of(m: Making, scope: Scope, raw: Raw, type_: Type, path: str) -> Value:
    """What is given as a value of a type; DATA for what is none."""
    match type_:
        case types.Real(shape):
            return Real(_reals(m, _checked(as_tensor(raw, path), scope.shape(shape), path), path))
        case types.Index(limit, shape):
            return _indices(_checked(as_tensor(raw, path), scope.shape(shape), path), scope.length(limit), path)
        case types.Mask(shape):
            return _mask(_checked(as_tensor(raw, path), scope.shape(shape), path), path)
        case types.Hyper(kind):
            return _hyper(raw, kind, path)
        case types.Key():
            return _key(raw, path)
        case types.Tuple(items):
            parts = item_parts(raw, len(items), path)
            return Items(
                tuple(
                    value_of(m, scope, part, item, f"{path}.{at}") for at, (part, item) in enumerate(zip(parts, items))
                )
            )
        case types.Params(instance):
            fields = scope.fields(instance)
            found = field_parts(raw, fields, scope, path)
            return Record(
                {
                    field.name: value_of(
                        m,
                        scope,
                        found[field.name],
                        field.type if isinstance(field, ParamField) else types.Params(field.instance),
                        f"{path}.{field.name}",
                    )
                    for field in fields
                }
            )
        case _:
            raise Fault(COMMAND, f"`{path} : {type_}` cannot be given")


def item_parts(raw: Raw, count: int, path: str) -> Sequence[Raw]:
    """The parts of what is given for a tuple."""
    if isinstance(raw, dict) and set(raw) == {str(at) for at in range(count)}:
        return [raw[str(at)] for at in range(count)]
    if not isinstance(raw, list) or len(raw) != count:
        raise Fault(DATA, f"`{path}` is a tuple of {count}, and what is given is none")
    return raw


def field_parts(raw: Raw, fields: Sequence[ParamField | UseField], scope: Scope, path: str) -> Mapping[str, Raw]:
    """The parts of what is given for a tree: for each field one, and no others. A field without tensors may be left out, since
    names of tensors cannot mention it."""
    if not isinstance(raw, dict):
        raise Fault(DATA, f"`{path}` is a parameter tree, and what is given is none")
    names = [field.name for field in fields]
    empty = [field for field in fields if isinstance(field, UseField) and field.name not in raw]
    raw = raw | {field.name: {} for field in empty if not leaf_count(field.instance, scope.headers)}
    missing = [name for name in names if name not in raw]
    extra = [name for name in raw if name not in names]
    if missing or extra:
        what = f"lacks `{missing[0]}`" if missing else f"has `{extra[0]}`"
        raise Fault(DATA, f"what is given for the tree `{path}` {what}", notes=(f"its fields are {', '.join(names)}",))
    return raw


def _hyper(raw: Raw, kind: HyperKind, path: str) -> Number | Truth:
    if isinstance(raw, Tensor) and raw.array.size == 1:
        raw = raw.array.item() if raw.array.dtype.kind == "b" else Numeral(_exact(raw.array.item()))
    if kind is HyperKind.BOOL:
        if not isinstance(raw, bool):
            raise Fault(DATA, f"`{path}` is `true` or `false`")
        return Truth(raw)
    if not isinstance(raw, str):
        raise Fault(DATA, f"`{path} : {kind}` is a number")
    value = _rational(raw, path)
    if kind in (HyperKind.NAT, HyperKind.INT) and value.denominator != 1:
        raise Fault(DATA, f"{value}, given for `{path} : {kind}`, is no whole number")
    if kind is HyperKind.NAT and value < 0:
        raise Fault(DATA, f"{value}, given for `{path} : nat`, is negative")
    return Number(value)


def _exact(value: float | int | str) -> str:
    """A machine number as a fraction."""
    return value if isinstance(value, str) else str(mpq(value))


def _key(raw: Raw, path: str) -> Key:
    text = raw.strip() if isinstance(raw, str) else ""
    if _HEX.fullmatch(text):
        return Key(bytes.fromhex(text))
    if text.isdecimal() and text.isascii() and len(text) <= 80 and int(text) < draws.SEEDS:
        return Key(draws.master_key(int(text)))
    raise Fault(DATA, f"`{path} : key` is a seed (a natural number below 2²⁵⁶) or 64 hexadecimal digits")
