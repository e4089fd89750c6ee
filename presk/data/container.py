"""The safetensors container: a header that says where each array lies, read strictly, and written.

Eight bytes with the header's length, little-endian; the header, a JSON object from names to element type, shape and the two
ends of the array's bytes, with texts under `__metadata__`; then the bytes, nothing between the arrays and nothing behind them.
The format's own library takes the last of two arrays of one name; here a name that occurs twice is refused.
"""

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from presk.data.leaves import DTYPES
from presk.elab.data import LENGTH_BYTES, header_size

METADATA: Final = "__metadata__"
ALIGNMENT: Final = 8
"""The bytes of the arrays begin at a multiple of this many bytes."""

_MAX_RANK: Final = 64
_MAX_SIZE: Final = 1 << 59
_FIELDS: Final = {"dtype", "shape", "data_offsets"}


class Malformed(ValueError):
    """Bytes that are no such container; the message says why."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An array: its element type by safetensors' name, its shape, and where its bytes begin in the file."""

    dtype: str
    shape: tuple[int, ...]
    start: int


@dataclass(frozen=True, slots=True)
class Header:
    """The arrays by name, the metadata, the length of the whole file, and the header's bytes with their length in front."""

    entries: Mapping[str, Entry]
    metadata: Mapping[str, str]
    size: int
    raw: bytes


def read_header(handle: int) -> Header:
    """The header of an open file, checked against the file's length. Malformed for anything that is not as it should be."""
    length = os.fstat(handle).st_size
    start = os.pread(handle, LENGTH_BYTES, 0)
    size = header_size(start)
    if size is None:
        raise Malformed("it does not begin as a safetensors file does")
    begin = LENGTH_BYTES + size
    if begin > length:  # before memory is taken for a header of the length that is claimed
        raise Malformed("its header is cut off")
    raw = os.pread(handle, size, LENGTH_BYTES)
    if len(raw) < size:
        raise Malformed("its header is cut off")
    fields = _fields(raw)
    metadata = fields.pop(METADATA, {})
    if not all(isinstance(value, str) for value in metadata.values()):
        raise Malformed("its metadata are not texts")
    spans: list[tuple[int, int, str]] = []
    entries: dict[str, Entry] = {}
    for name, value in fields.items():
        entries[name], end = _entry(name, value, begin)
        spans.append((entries[name].start, end, name))
    _contiguous(spans, begin, length)
    texts = {name: value for name, value in metadata.items() if isinstance(value, str)}
    return Header(entries, texts, length, start + raw)


def _fields(raw: bytes) -> dict[str, dict[str, str | list[int]]]:
    """The header as JSON. Its type allows no deeper nesting, so nothing here recurses as deep as the file likes."""
    try:
        found = msgspec.json.decode(raw, type=dict[str, dict[str, str | list[int]]])
        json.loads(raw, object_pairs_hook=_distinct)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise Malformed("its header is no JSON object of arrays with text metadata") from None
    return found


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = dict(pairs)
    if len(names) != len(pairs):
        name = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise Malformed(f"its header has `{name}` twice")
    return names


def _entry(name: str, value: Mapping[str, str | list[int]], begin: int) -> tuple[Entry, int]:
    """An array, and the end of its bytes in the file."""
    dtype, shape, ends = value.get("dtype"), value.get("shape"), value.get("data_offsets")
    if value.keys() != _FIELDS or not isinstance(dtype, str) or isinstance(shape, str) or isinstance(ends, str):
        raise Malformed(f"`{name}` does not have a `dtype`, a `shape` and `data_offsets`, and nothing else")
    if shape is None or ends is None or len(ends) != 2 or len(shape) > _MAX_RANK or min([*shape, *ends], default=0) < 0:
        raise Malformed(f"the shape or the place of `{name}` is none")
    if dtype not in DTYPES:
        raise Malformed(f"the elements of `{name}` are of type {dtype}")
    if prod(max(1, one) for one in shape) > _MAX_SIZE:  # an array without elements is an array all the same
        raise Malformed(f"`{name}` has the shape {shape}")
    wanted = prod(shape) * DTYPES[dtype].itemsize
    if ends[1] - ends[0] != wanted:
        raise Malformed(f"`{name}` of shape {shape} takes {wanted} bytes, not {ends[1] - ends[0]}")
    return Entry(dtype, tuple(shape), begin + ends[0]), begin + ends[1]


def _contiguous(spans: list[tuple[int, int, str]], begin: int, length: int) -> None:
    """The arrays lie one behind the other, from the header's end to the file's."""
    at = begin
    for start, end, name in sorted(spans):
        if start < at:
            raise Malformed(f"the bytes of `{name}` overlap those before them")
        if start > at:
            raise Malformed(f"there is a hole of {_counted(start - at)} before `{name}`")
        at = end
    if at > length:
        raise Malformed(f"it is cut off: of {_counted(at)} it has {length}")
    if at < length:
        raise Malformed(f"it goes on for {_counted(length - at)} behind its arrays")


def _counted(size: int) -> str:
    return "1 byte" if size == 1 else f"{size} bytes"


def header_of(arrays: Sequence[tuple[str, str, NDArray[Any]]], metadata: Mapping[str, str]) -> bytes:
    """The beginning of a file with these arrays (name, element type, elements) in their order, up to their bytes."""
    ends = np.cumsum([0, *(array.nbytes for _, _, array in arrays)]).tolist()
    fields: dict[str, Any] = {METADATA: dict(metadata)}
    for (name, dtype, array), (start, end) in zip(arrays, pairwise(ends), strict=True):
        fields[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [start, end]}
    text = json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % ALIGNMENT)
    return len(text).to_bytes(LENGTH_BYTES, "little") + text
