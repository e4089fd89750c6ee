"""Reading data files: opened once, mapped into memory, every element checked where samples leave the file.

A file that is no data file is refused whole, when it is opened (E8001). A file that is written again under its name goes on being
read as it was; one that is changed in place is refused at the next read (E8005).
"""

import mmap
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
from blake3 import blake3
from numpy.typing import DTypeLike, NDArray

from presk.data import checking, container, vocabulary
from presk.data.codes import CHANGED, FORMAT
from presk.data.container import Header
from presk.data.leaves import DTYPES, MAX_BOUND, Leaf, Windows, index_type, leaves_of
from presk.data.vocabulary import Vocabulary, vocabulary_of
from presk.data.writing import VOCAB
from presk.elab.data import DataFile as Start
from presk.elab.records import DataInfo
from presk.elab.stages import DATA, DataHead
from presk.exact.faults import Fault
from presk.types.type import Index, Mask, Real, Type

_BLOCK: Final = 1 << 24
"""Bytes that are digested in one go."""

Leaves = tuple[NDArray[Any], ...]
"""For each leaf the samples asked for: the sample first, then the leaf's axes."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What a data file's header says: sample type, number of samples, windows and vocabulary if there are such."""

    sample: Type
    count: int
    windows: Windows | None
    vocabulary: Vocabulary | None
    leaves: tuple[Leaf, ...]


class DataFile:
    """An open data file.

    `shown` is its name in messages. It is closed by `close`, or used with `with`; arrays that it gave stay good.
    """

    def __init__(self, path: Path, shown: str) -> None:
        """E8001 for a file that cannot be read or is no data file; FileNotFoundError where there is none."""
        self.shown: Final = shown
        self._handle = _opened(path, shown)
        try:
            self._stamp = self._now()
            self.header: Final = _header(self._handle, shown)
            self.contents: Final = _contents(self.header, shown)
            self._map = _mapped(self._handle, shown)
        except BaseException:
            os.close(self._handle)
            raise
        self._arrays: Mapping[str, NDArray[Any]] = {
            name: np.ndarray(entry.shape, DTYPES[entry.dtype], self._map, entry.start)
            for name, entry in self.header.entries.items()
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of the file."""
        # The memory goes with the last array that shows it: what is raised for an element may still hold one.
        self._arrays = {}
        handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)

    @property
    def count(self) -> int:
        """How many samples it has."""
        return self.contents.count

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """The tensors of a sample."""
        return self.contents.leaves

    @property
    def tokens(self) -> int | None:
        """How many tokens the stream has that the samples are windows of; None where they are not."""
        return len(self._arrays[self.leaves[0].array]) if self.contents.windows is not None else None

    @cached_property
    def digest(self) -> str:
        """The BLAKE3 digest of the whole file, as 64 hexadecimal digits."""
        hasher = blake3(max_threads=1)
        with memoryview(self._map) as view:
            for start in range(0, len(view), _BLOCK):
                hasher.update(view[start : start + _BLOCK])
        self._unchanged()
        return hasher.hexdigest()

    def check(self) -> None:
        """Looks at every element of the file; E8003 for the first that is not what its type allows."""
        self._unchanged()
        for leaf in self.leaves if self.contents.windows is None else self.leaves[:1]:
            checking.check_elements(leaf, self._arrays[leaf.array], f" of `{self.shown}`")

    def samples(self, numbers: Sequence[int] | NDArray[np.int64], indices: DTypeLike = np.int64) -> Leaves:
        """The samples of these numbers, each below `count`: a contiguous array for each leaf, checked.

        Indices are of the type `indices` (int64 or int32), truth values bool, reals as they are stored. E8003 for an element that is
        not what its type allows, with the sample; E8005 if the file has been changed in place since it was opened.
        """
        dtype = index_type(indices)
        self._unchanged()
        rows = np.asarray(numbers, dtype=np.int64)
        if rows.size and not (0 <= int(rows.min()) and int(rows.max()) < self.count):
            raise IndexError(f"the samples of `{self.shown}` are 0 … {self.count - 1}")
        if self.contents.windows is not None:
            return self._windows(self.contents.windows, rows, dtype)
        return tuple(self._taken(leaf, rows, dtype) for leaf in self.leaves)

    def _windows(self, windows: Windows, rows: NDArray[np.int64], dtype: np.dtype[Any]) -> Leaves:
        leaf = self.leaves[0]
        starts = rows * windows.stride
        found = self._arrays[leaf.array][starts[:, None] + np.arange(windows.length)]
        if not checking.fine(leaf, found):
            row, at = checking.first_wrong(leaf, found)
            raise self._refused(leaf, found[row, at], (int(starts[row]) + at,), int(rows[row]))
        _fits(leaf, dtype)
        span = leaf.lengths[0]
        return tuple(found[:, at : at + span].astype(dtype, order="C") for at in range(len(self.leaves)))

    def _taken(self, leaf: Leaf, rows: NDArray[np.int64], dtype: np.dtype[Any]) -> NDArray[Any]:
        found = self._arrays[leaf.array][rows]
        if not checking.fine(leaf, found):
            row, *rest = checking.first_wrong(leaf, found)
            raise self._refused(leaf, found[(row, *rest)], (int(rows[row]), *rest), int(rows[row]))
        match leaf.type:
            case Index():
                _fits(leaf, dtype)
                return found.astype(dtype, order="C")
            case Mask():
                return found.astype(np.bool_)
            case Real():
                return found.astype(found.dtype.newbyteorder("="), copy=False)

    def _refused(self, leaf: Leaf, value: Any, place: tuple[int, ...], sample: int) -> Fault:
        return checking.refused(leaf, value, place, f" (sample {sample} of `{self.shown}`)")

    def _unchanged(self) -> None:
        if self._now() != self._stamp:
            raise Fault(
                CHANGED,
                f"`{self.shown}` was changed while it was being read",
                mend="write a changed data file under another name, or by renaming: `presk data pack` does the latter",
            )

    def _now(self) -> tuple[int, int]:
        now = os.fstat(self._handle)
        return now.st_size, now.st_mtime_ns


def _fits(leaf: Leaf, dtype: np.dtype[Any]) -> None:
    if leaf.bound - 1 > np.iinfo(dtype).max:
        raise TypeError(f"indices below {leaf.bound} do not fit into {dtype}")


def _opened(path: Path, shown: str) -> int:
    try:
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode):  # a pipe could wait for ever
            raise _no_data_file(shown, "it is a folder" if stat.S_ISDIR(mode) else "it is not an ordinary file")
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        why = "it may not be read" if isinstance(error, PermissionError) else "the system does not let it be read"
        raise _no_data_file(shown, why) from None


def _header(handle: int, shown: str) -> Header:
    try:
        return container.read_header(handle)
    except container.Malformed as error:
        raise _no_data_file(shown, str(error)) from None
    except OSError as error:
        raise _no_data_file(shown, (error.strerror or "the system does not let it be read").lower()) from None


def _mapped(handle: int, shown: str) -> mmap.mmap:
    try:
        return mmap.mmap(handle, 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError):  # ValueError for a file that has become empty
        raise _no_data_file(shown, "the system does not map it into memory") from None


def _contents(header: Header, shown: str) -> Contents:
    """What the header means; E8001 where the arrays are not those of the sample type."""
    head = DATA.run(Start(header.raw))
    if not isinstance(head, DataHead):
        raise TypeError("the head of a data file is read without a wait")
    if head.info is None:
        raise _no_data_file(shown, head.problem or "its header is damaged")
    info: DataInfo = head.info
    leaves = leaves_of(info.sample)
    windows = None if info.window is None else Windows(*info.window)
    problem = _wrong_arrays(header, info, leaves, windows)
    if problem is not None:
        raise _no_data_file(shown, problem)
    vocab = _vocabulary(header, shown)
    if vocab is not None and windows is not None and vocab.size != leaves[0].bound:
        raise _no_data_file(shown, f"its vocabulary has {vocab.size} tokens, its indices are below {leaves[0].bound}")
    return Contents(info.sample, info.count, windows, vocab, leaves)


def _wrong_arrays(header: Header, info: DataInfo, leaves: tuple[Leaf, ...], windows: Windows | None) -> str | None:
    if not leaves:
        return "its samples hold no tensor"
    held = leaves if windows is None else leaves[:1]
    names = [leaf.array for leaf in held]
    for name in (*names, *header.entries):
        if name not in header.entries:
            return f"it has no array `{name}`"
        if name not in names:
            return f"the array `{name}` belongs to no part of its sample type"
    if windows is not None:
        refusal = windows.refusal(leaves)
        if refusal is not None:
            return refusal
    for leaf in held:
        if leaf.bound > MAX_BOUND:
            return f"its indices below {leaf.bound} do not fit into 63 bits"
        entry = header.entries[leaf.array]
        if entry.dtype not in leaf.stored:
            return f"`{leaf.array}` is stored as {entry.dtype}; `{leaf.type}` is stored as {' or '.join(leaf.stored)}"
        if windows is None and entry.shape != (info.count, *leaf.lengths):
            return f"`{leaf.array}` has the shape {list(entry.shape)}, not {[info.count, *leaf.lengths]}"
        if windows is not None and (len(entry.shape) != 1 or windows.count(entry.shape[0]) != info.count):
            return f"`{leaf.array}` of shape {list(entry.shape)} does not have {info.count} windows"
    return None


def _vocabulary(header: Header, shown: str) -> Vocabulary | None:
    spelled = header.metadata.get(VOCAB)
    if spelled is None:
        return None
    try:
        return vocabulary_of(spelled)
    except vocabulary.Malformed as error:
        raise _no_data_file(shown, f"its vocabulary is damaged: {error}") from None


def _no_data_file(shown: str, why: str) -> Fault:
    return Fault(FORMAT, f"the data file `{shown}` cannot be read: {why}")
