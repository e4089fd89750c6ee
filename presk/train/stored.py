"""Files of floating-point tensors by name, read whole and checked: what checkpoints and files of parameters have in common.

A file is read, not mapped: what a run goes on from does not change under it, and a file that is cut off meanwhile ends no process.
"""

import errno
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from presk.data import container
from presk.data.leaves import DTYPES
from presk.elab.data import SAMPLE
from presk.exact.faults import Fault

UNREADABLE: Final = "E8006"
UNWRITABLE: Final = "E8008"

FLOATS: Final[Mapping[str, np.dtype[Any]]] = MappingProxyType(
    {"F64": np.dtype("<f8"), "F32": np.dtype("<f4"), "BF16": np.dtype("<u2"), "F16": np.dtype("<f2")}
)
"""The element types of parameters, by safetensors' names; of bf16 the bits."""

_READ: Final[Mapping[str, np.dtype[Any]]] = MappingProxyType({**DTYPES, **FLOATS})
"""Those of data files too, so that one is known and named."""

Stored = tuple[str, NDArray[Any]]
"""A tensor as a file has it: the name of its element type, and its elements, contiguous in C order."""


@dataclass(frozen=True, slots=True)
class Contents:
    """The tensors of a file by name, in the order of their names, and its metadata."""

    tensors: Mapping[str, Stored]
    metadata: Mapping[str, str]


def unreadable(shown: str, why: str, mend: str | None = None) -> Fault:
    """E8006."""
    return Fault(UNREADABLE, f"the checkpoint `{shown}` cannot be read: {why}", mend=mend)


def read_contents(path: Path, shown: str) -> Contents:
    """All of a file, `shown` in messages; E8006 for one that is missing, damaged, a data file, or has other elements than floats."""
    handle = opened(path, shown)
    try:
        header = header_of(handle, shown)
        begin = len(header.raw)
        data = _memory(header.size - begin, shown)
        _fill(handle, data, begin, shown)
    finally:
        os.close(handle)
    return Contents(
        {name: _stored(data, begin, header.entries[name]) for name in sorted(header.entries)}, header.metadata
    )


def opened(path: Path, shown: str) -> int:
    """A file that is open for reading; E8006 where there is none."""
    try:
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode):  # a pipe could wait for ever
            raise unreadable(shown, "it is a folder" if stat.S_ISDIR(mode) else "it is not an ordinary file")
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise unreadable(shown, why_not(error)) from None


def why_not(error: OSError | ValueError) -> str:
    """Why a file cannot be read, in words. A name with a NUL in it is a ValueError."""
    match error:
        case FileNotFoundError() | NotADirectoryError():
            return "there is no such file"
        case PermissionError():
            return "it may not be read"
        case OSError(errno=errno.ENAMETOOLONG):
            return "its name is too long"
        case OSError():
            return (error.strerror or "the system does not let it be read").lower()
        case _:
            return "its name is not a file name"


def header_of(handle: int, shown: str) -> container.Header:
    """The header of an open file; E8006 as for `read_contents`."""
    try:
        header = container.read_header(handle, _READ)
    except container.Malformed as error:
        raise unreadable(shown, str(error)) from None
    except OSError as error:
        raise unreadable(shown, why_not(error)) from None
    if SAMPLE in header.metadata:
        raise unreadable(shown, "it is a data file")
    for name, entry in header.entries.items():
        if entry.dtype not in FLOATS:
            raise unreadable(shown, f"the elements of `{name}` are of type {entry.dtype}")
    return header


def _memory(size: int, shown: str) -> NDArray[np.uint8]:
    try:
        return np.empty(size, dtype=np.uint8)
    except MemoryError:
        raise unreadable(shown, f"there is not enough memory for its {size} bytes") from None


def _fill(handle: int, data: NDArray[np.uint8], begin: int, shown: str) -> None:
    """Reads the bytes behind the header."""
    at = 0
    while at < len(data):
        try:
            count = os.preadv(handle, [data[at:].data], begin + at)
        except OSError as error:
            raise unreadable(shown, why_not(error)) from None
        if not count:  # it was longer when its header was read
            raise unreadable(shown, "it is cut off")
        at += count


def _stored(data: NDArray[np.uint8], begin: int, entry: container.Entry) -> Stored:
    dtype = FLOATS[entry.dtype]
    found: NDArray[Any] = np.ndarray(entry.shape, dtype, data.data, entry.start - begin)
    # Another's file may have it where machine code would not look for it.
    found = np.require(found, dtype.newbyteorder("="), ("C", "A"))
    found.flags.writeable = False
    return entry.dtype, found
