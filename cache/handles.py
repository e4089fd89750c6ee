"""Handles: the inputs and answers that an engine gives out (``presk.cache.stage.Result``).

A handle knows its digest without its value. Leaves are values that were given; groups are handles by name; answers
belong to a stage, and read their value when somebody asks for it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, Generic, TypeVar

from presk.cache.digest import Digest, value_digest
from presk.cache.memory import UNLOADED
from presk.cache.record import GROUP_CODEC, Entries, Kind, encode_entries

T = TypeVar("T")


class Handle(ABC, Generic[T]):
    """What all handles have: the engine that made it, the value's digest, and the name of its encoding."""

    __slots__ = ("codec_name", "digest", "engine")

    kind: Kind = "input"

    def __init__(self, engine: object, digest: Digest, codec_name: str) -> None:
        self.engine: Final = engine
        self.digest: Final = digest
        self.codec_name: Final = codec_name

    @property
    @abstractmethod
    def value(self) -> T:
        """The value."""


class Leaf(Handle[T]):
    """A value that was given, with its encoding."""

    __slots__ = ("_value", "data", "name", "stored")

    def __init__(self, engine: object, name: str, value: T, data: bytes, codec_name: str) -> None:
        super().__init__(engine, value_digest(data), codec_name)
        self.name: Final = name
        self.data: Final = data
        self.stored = False
        self._value = value

    @property
    def value(self) -> T:
        return self._value


class Group(Handle[Mapping[str, T]]):
    """Handles by name; the digest is over the sorted names and the digests."""

    __slots__ = ("data", "entries", "name", "stored")

    kind: Kind = "group"

    def __init__(self, engine: object, name: str, entries: Mapping[str, Handle[T]]) -> None:
        named = sorted(entries.items())
        listed: Entries = tuple([(entry, held.codec_name, held.digest) for entry, held in named])
        data = encode_entries(listed)
        super().__init__(engine, value_digest(data), GROUP_CODEC)
        self.name: Final = name
        self.data: Final = data
        self.entries: Final = MappingProxyType(dict(named))
        self.stored = False

    @property
    def value(self) -> "Values[T]":
        return Values(self.entries)


class Values(Mapping[str, T]):
    """The values of a group by name, in the order of the names; each is read when it is looked up."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Mapping[str, Handle[T]]) -> None:
        self._entries = entries

    def __getitem__(self, name: str) -> T:
        return self._entries[name].value

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries


class Answer(Handle[T]):
    """The answer of a stage under a key; ``read`` gives the value where it was not read yet.

    A transient answer is of this moment and is kept nowhere.
    """

    __slots__ = ("_read", "_value", "key", "transient")

    def __init__(
        self,
        engine: object,
        key: Digest,
        digest: Digest,
        codec_name: str,
        value: object,
        read: Callable[[], object] | None,
        transient: bool = False,
    ) -> None:
        super().__init__(engine, digest, codec_name)
        self.key: Final = key
        self._value = value
        self._read = read
        self.transient: Final = transient

    @property
    def value(self) -> T:
        value = self._value
        if value is UNLOADED and self._read is not None:
            # Two threads may both read; the values are equal.
            value = self._value = self._read()
        return value  # type: ignore[return-value]
