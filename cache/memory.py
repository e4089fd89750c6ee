"""The answers that an engine has in memory: bounded by number and by bytes, least recently used first out."""

from collections import OrderedDict
from typing import Final, Generic, TypeVar

from presk.cache.digest import Digest
from presk.cache.log import Outcome

K = TypeVar("K")
V = TypeVar("V")


class Unloaded:
    """Stands for a value that is on the disk and that nobody has read yet."""


UNLOADED: Final = Unloaded()


class Entry:
    """One answer: its value's digest and size, the encoded record, and the value unless it was not read yet.

    ``weight`` is about what the value takes in memory, in bytes. ``used`` is when the disk was last told of a use, in
    seconds of a monotonic clock. ``outcome`` says how the answer was had the last time.
    """

    __slots__ = ("digest", "outcome", "record", "size", "used", "value", "weight")

    def __init__(self, digest: Digest, size: int, record: bytes, value: object, weight: int, used: float) -> None:
        self.digest = digest
        self.size = size
        self.record = record
        self.value = value
        self.weight = weight
        self.used = used
        self.outcome: Outcome = "computed"


class Memory:
    """Entries by key. The caller holds a lock."""

    def __init__(self, max_entries: int, max_bytes: int) -> None:
        self._max_entries: Final = max_entries
        self._max_bytes: Final = max_bytes
        self._entries: OrderedDict[Digest, Entry] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def bytes(self) -> int:
        """About what the entries take."""
        return self._bytes

    def get(self, key: Digest) -> Entry | None:
        """An entry, which becomes the most recently used."""
        entry = self._entries.get(key)
        if entry is not None:
            self._entries.move_to_end(key)
        return entry

    def peek(self, key: Digest) -> Entry | None:
        """An entry; its place stays."""
        return self._entries.get(key)

    def put(self, key: Digest, entry: Entry) -> None:
        """Keeps an entry in place of what was there."""
        self.drop(key)
        self._entries[key] = entry
        self._add(entry.weight + len(entry.record))

    def load(self, key: Digest, value: object, weight: int) -> None:
        """Gives an entry its value, if it is still there and has none."""
        entry = self._entries.get(key)
        if entry is not None and entry.value is UNLOADED:
            entry.value = value
            entry.weight = weight
            self._add(weight)

    def drop(self, key: Digest) -> None:
        """Removes an entry if it is there."""
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._bytes -= entry.weight + len(entry.record)

    def _add(self, weight: int) -> None:
        self._bytes += weight
        while self._entries and (len(self._entries) > self._max_entries or self._bytes > self._max_bytes):
            _, entry = self._entries.popitem(last=False)
            self._bytes -= entry.weight + len(entry.record)


class Recent(Generic[K, V]):
    """The most recently set values of a mapping, a bounded number of them."""

    def __init__(self, max_entries: int) -> None:
        self._max_entries: Final = max_entries
        self._values: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        """The value that was set."""
        return self._values.get(key)

    def set(self, key: K, value: V) -> None:
        """Sets a value."""
        self._values[key] = value
        self._values.move_to_end(key)
        if len(self._values) > self._max_entries:
            self._values.popitem(last=False)
