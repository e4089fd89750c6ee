"""The store: answers by key and values by digest, on the disk, in a bounded folder, never failing.

Two tables:

* key → record: the digest of the value, and the named ingredients of the key (``presk.cache.record``);
* digest → bytes: inside the index up to a few kilobytes, else as a file named by the digest (``presk.cache.blobs``).

Everything that is read is checked: values against their digest, records against a checksum that binds them to their
key. What is damaged, cut short, empty, foreign or gone is a counted miss. Any file of the folder may be deleted at
any time, several processes may use one folder, and a full or read-only disk costs a warning. The folder is private to
its user.

The index is bounded together with the blobs, in bytes. Which entries were used least recently is exact within a
process; uses by other processes are seen with a resolution of ten minutes, so that answering from the disk writes
nothing.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from presk.cache.blobs import Blobs
from presk.cache.canonical import canonical, decanonical
from presk.cache.collect import adopted, keep_bound
from presk.cache.digest import Digest, value_digest
from presk.cache.files import Files
from presk.cache.health import Health
from presk.cache.layout import (
    BLOB_MARK,
    COUNTS,
    HEAD_SIZE,
    INLINE_MARK,
    RECORDS,
    VALUES,
    blob_value,
    inline_value,
    memo_row,
    on_disk,
    producer_of,
    subject_row,
)
from presk.cache.record import (
    Earlier,
    Head,
    Record,
    decode_earlier,
    decode_head,
    decode_record,
    encode_earlier,
    opened,
    sealed,
)
from presk.cache.session import Session

if TYPE_CHECKING:
    from presk.cache.rows import Rows

T = TypeVar("T")

FORMAT: Final = "v1"
"""The folder inside the store's folder; raised when the layout of the files changes."""

DEFAULT_MAX_BYTES: Final = 5 << 30
INLINE_MAX: Final = 4096
"""Values up to this size are rows of the index; a file of its own costs a block and an inode."""


class Store:
    """A store in a folder; see the module's text. Nothing is opened before the first use. Threads may share it.

    ``max_bytes`` bounds index and blobs together; ``on_warning`` is told each kind of trouble once; ``files`` and
    ``clock`` (seconds) are what tests replace. ``busy_seconds`` is how long another process's write is waited for,
    ``retry_seconds`` how long the store goes without an index that failed, ``use_resolution`` how old the time of use
    of an entry may grow before a use is written.
    """

    def __init__(
        self,
        folder: Path,
        *,
        max_bytes: int = DEFAULT_MAX_BYTES,
        inline_max: int = INLINE_MAX,
        on_warning: Callable[[str], None] | None = None,
        files: Files | None = None,
        clock: Callable[[], float] = time.time,
        buffer_rows: int = 4096,
        busy_seconds: float = 2.0,
        retry_seconds: float = 5.0,
        use_resolution: float = 600.0,
    ) -> None:
        if not folder.is_absolute():
            raise ValueError(f"the folder of a store is an absolute path, not {folder}")
        self.folder: Final = folder
        self.max_bytes: Final = max_bytes
        self.health: Final = Health(on_warning)
        self.root: Final = str(self.folder / FORMAT)
        self.files: Final = Files() if files is None else files
        self._inline_max: Final = inline_max
        self._clock: Final = clock
        self._buffer_rows: Final = buffer_rows
        self._busy_seconds: Final = busy_seconds
        self._retry_seconds: Final = retry_seconds
        self._use_resolution: Final = use_resolution
        self._making: Final = threading.Lock()
        self._rows: Rows | None = None
        self._counted: Mapping[str, int] = {}
        self.session: Final = Session(self.root, self.files)
        self.blobs: Final = Blobs(self.root, self.files, self._temporary)

    @property
    def rows(self) -> "Rows":
        """The index, made when the disk is first used."""
        rows = self._rows
        if rows is None:
            with self._making:
                rows = self._rows = self._rows or self._make_rows()
        return rows

    def _make_rows(self) -> "Rows":
        # diskcache and sqlite take 25 ms to import, so that is done when the disk is first used.
        from presk.cache.rows import Rows

        return Rows(
            self.root,
            self.files,
            self.health,
            clock=self._clock,
            adopt=self._adopted,
            buffer_rows=self._buffer_rows,
            busy_seconds=self._busy_seconds,
            retry_seconds=self._retry_seconds,
            use_resolution=self._use_resolution,
        )

    def answer(self, key: Digest) -> Head | None:
        """What a key's answer is: the beginning of its record."""
        return self._checked(RECORDS + key, key, decode_head)

    def record(self, key: Digest) -> Record | None:
        """How a key's answer was made."""
        return self._checked(RECORDS + key, key, decode_record)

    def earlier(self, stage: str, subject: str) -> tuple[Earlier, ...]:
        """The latest answers of a stage about a subject, the newest first."""
        row = subject_row(stage, subject)
        return self._checked(row, row, decode_earlier) or ()

    def _checked(self, row: bytes, name: bytes, decode: Callable[[bytes, bytes], T]) -> T | None:
        """The decoded content of a row that is sealed under ``name``; a damaged one is removed."""
        data = self.rows.get(row)
        if data is not None:
            try:
                content = decode(name, data)
            except ValueError:
                self._damaged(row)
            else:
                self.health.count("record hits")
                return content
        self.health.count("record misses")
        return None

    def put_record(self, key: Digest, data: bytes) -> None:
        """Keeps an encoded record."""
        self.rows.put(RECORDS + key, data)

    def put_earlier(self, stage: str, subject: str, earlier: tuple[Earlier, ...]) -> None:
        """Keeps the latest answers of a stage about a subject."""
        row = subject_row(stage, subject)
        self.rows.put(row, encode_earlier(row, earlier))

    def value(self, digest: Digest) -> bytes | None:
        """The bytes of a value, checked against the digest."""
        row = VALUES + digest
        found = self.rows.get(row)
        if found is not None and found[:1] == INLINE_MARK:
            data = found[HEAD_SIZE:]
            if value_digest(data) == digest:
                self.health.count("value hits")
                return data
            self._damaged(row)
        elif found is None or found[:1] == BLOB_MARK:
            # A blob without a row is found as well: the index may have been lost.
            blob = self.blobs.read(digest)
            if isinstance(blob, bytes):
                self.health.count("value hits")
                return blob
            if found is not None or blob != "missing":
                self.health.count(blob)
                self.discard(digest)
        else:
            self._damaged(row)
        self.health.count("value misses")
        return None

    def put_value(self, digest: Digest, data: bytes, producer: Digest | None = None) -> None:
        """Keeps a value under its digest; ``producer`` is the key of the answer that it is."""
        if len(data) <= self._inline_max:
            self.rows.put(VALUES + digest, inline_value(data, producer))
            return
        if not self.rows.writable:
            self.health.count("unwritten")
            return
        try:
            written = self.blobs.write(digest, data)
        except OSError as error:
            self.health.count("unwritten")
            self.health.warn("blob", f"the cache {self.root} cannot be written ({error}); going on without it")
            return
        self.health.count("written", written)
        self.rows.put(VALUES + digest, blob_value(len(data), producer), on_disk(len(data)))

    def producer(self, digest: Digest) -> Digest | None:
        """The key of the latest answer that gave this value."""
        found = self.rows.get(VALUES + digest)
        return None if found is None else producer_of(found)

    def memo(self, name: str) -> bytes | None:
        """Bytes kept under a name, such as what was learned of the sources."""
        row = memo_row(name)
        return self._checked(row, row, opened)

    def put_memo(self, name: str, data: bytes) -> None:
        """Keeps bytes under a name."""
        row = memo_row(name)
        self.rows.put(row, sealed(row, data))

    def touch(self, key: Digest, digest: Digest) -> None:
        """Notes that an answer was used, by whoever has it in memory."""
        self.rows.touch(RECORDS + key)
        self.rows.touch(VALUES + digest)

    def forget(self, key: Digest) -> None:
        """Removes a record."""
        self.rows.drop(RECORDS + key)

    def discard(self, digest: Digest) -> None:
        """Removes a value."""
        self.rows.drop(VALUES + digest)
        self.blobs.remove(digest)

    def pin(self, digest: Digest) -> None:
        """Keeps a value from eviction by any process until it is unpinned as often."""
        with self.rows.lock:
            self.session.pin(digest)

    def unpin(self, digests: Iterable[Digest]) -> None:
        """Undoes one ``pin`` of each."""
        with self.rows.lock:
            self.session.unpin(digests)

    def flush(self) -> None:
        """Writes what was gathered, and evicts what is beyond the bound. To be called when a request has ended."""
        if self.rows.flush():
            self.rows.run(lambda index: index.update(memo_row(COUNTS), self._add_counts, self._clock()), None)
            keep_bound(self.rows, self.blobs, self.session, self.health, self.max_bytes)

    def shared_counts(self) -> dict[str, int]:
        """The counters of all processes that used the folder, this one's included."""
        self.rows.run(lambda index: index.update(memo_row(COUNTS), self._add_counts, self._clock()), None)
        return self._shared_counts(self.rows.get(memo_row(COUNTS)))

    def close(self) -> None:
        """Writes what was gathered and lets go of the folder. Later uses are misses."""
        with self._making:
            used = self._rows is not None
        if used:
            self.flush()
            self.shared_counts()
            with self.rows.lock:
                self.rows.close()
                self.session.close()

    def _temporary(self, lost: bool) -> str:
        with self.rows.lock:
            return self.session.temporary(lost)

    def _damaged(self, row: bytes) -> None:
        self.health.count("damaged")
        self.rows.drop(row)

    def _adopted(self) -> Iterator[tuple[bytes, bytes, int, float]]:
        return (adopted(digest, size, changed) for digest, size, changed in self.blobs.scan())

    def _add_counts(self, data: bytes | None) -> bytes:
        """Adds what was counted since the last time to the counters that all processes share."""
        counts = Counter(self._shared_counts(data))
        now = self.health.counts()
        counts.update({name: now[name] - self._counted.get(name, 0) for name in now})
        self._counted = now
        return sealed(memo_row(COUNTS), canonical(dict(counts)))

    def _shared_counts(self, data: bytes | None) -> dict[str, int]:
        if data is None:
            return {}
        try:
            return msgspec.convert(decanonical(opened(memo_row(COUNTS), data)), dict[str, int])
        except ValueError:
            return {}
