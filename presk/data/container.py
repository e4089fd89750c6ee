"""The safetensors container: a header that says where each array lies, read strictly, and written.

Eight bytes with the header's length, little-endian; the header, a JSON object from names to element type, shape and the two
ends of the array's bytes, with texts under `__metadata__`; then the bytes, nothing between the arrays and nothing behind them.
The format's own library takes the last of two arrays of one name; here a name that occurs twice is refused.

A file is written under a temporary name in its folder, flushed to the disk and renamed: a crash leaves the old file or the new
one. While it is written it is locked, so what a killed process left behind is known from what another one is writing.
"""

import errno
import fcntl
import json
import os
import re
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from presk.data.leaves import DTYPES
from presk.elab.data import LENGTH_BYTES, header_size

METADATA: Final = "__metadata__"
ALIGNMENT: Final = 8
"""The bytes of the arrays begin at a multiple of this many bytes."""

_MODE: Final = 0o644
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


def read_header(handle: int, dtypes: Mapping[str, np.dtype[Any]] = DTYPES) -> Header:
    """The header of an open file, checked against the file's length. Malformed for anything that is not as it should be.

    `dtypes` are the element types that the file may have, by safetensors' names.
    """
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
        entries[name], end = _entry(name, value, begin, dtypes)
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


def _entry(
    name: str, value: Mapping[str, str | list[int]], begin: int, dtypes: Mapping[str, np.dtype[Any]]
) -> tuple[Entry, int]:
    """An array, and the end of its bytes in the file."""
    dtype, shape, ends = value.get("dtype"), value.get("shape"), value.get("data_offsets")
    if value.keys() != _FIELDS or not isinstance(dtype, str) or isinstance(shape, str) or isinstance(ends, str):
        raise Malformed(f"`{name}` does not have a `dtype`, a `shape` and `data_offsets`, and nothing else")
    if shape is None or ends is None or len(ends) != 2 or len(shape) > _MAX_RANK or min([*shape, *ends], default=0) < 0:
        raise Malformed(f"the shape or the place of `{name}` is none")
    if dtype not in dtypes:
        raise Malformed(f"the elements of `{name}` are of type {dtype}")
    if prod(max(1, one) for one in shape) > _MAX_SIZE:  # an array without elements is an array all the same
        raise Malformed(f"`{name}` has the shape {shape}")
    wanted = prod(shape) * dtypes[dtype].itemsize
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


def write_file(path: Path, arrays: Sequence[tuple[str, str, NDArray[Any]]], metadata: Mapping[str, str]) -> None:
    """Writes arrays (name, element type, elements in C order, little-endian) to a file that is whole when it is there.

    OSError where the file cannot be written: what stood under its name is as it was, and nothing is left beside it.
    """
    # The widest elements first, so that every array begins at a multiple of its elements' size.
    ordered = sorted(arrays, key=lambda one: (-one[2].itemsize, one[0]))
    real = Path(os.path.realpath(path))
    mode = real.stat().st_mode & 0o7777 if real.exists() else _MODE
    handle, temporary = _locked(real)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(header_of(ordered, metadata))
            for _, _, array in ordered:
                file.write(array.data)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
            os.replace(temporary, real)  # while it is locked: nobody takes it for abandoned
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    _flush_folder(real.parent)


def _locked(real: Path) -> tuple[int, str]:
    """A temporary file beside `real`, open and locked, and its name."""
    while True:
        handle, temporary = tempfile.mkstemp(dir=real.parent, prefix=f".{real.name}.")
        # A file system without locks: then nothing is taken for abandoned either.
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        if os.fstat(handle).st_nlink:
            return handle, temporary
        os.close(handle)  # it was swept away before it was locked


def _flush_folder(folder: Path) -> None:
    """Has the names of a folder on the disk, where the system flushes folders and lets us open this one."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except PermissionError:
        return
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(handle)


def sweep(folder: Path, names: re.Pattern[str]) -> None:
    """Deletes what writers that were killed left in a folder of files with such names. What cannot be deleted stays."""
    with suppress(OSError):
        for temporary in os.listdir(folder):
            if temporary.startswith(".") and names.fullmatch(temporary[1:].rpartition(".")[0]):
                _sweep(folder / temporary)


def _sweep(temporary: Path) -> None:
    with suppress(OSError):
        handle = os.open(temporary, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # OSError while somebody writes it
            temporary.unlink()
        finally:
            os.close(handle)
