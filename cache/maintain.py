"""What the command line does with a store: statistics, size, repair, emptying.

These functions take the store, or the caller's environment, and nothing from the process. Recomputing a sample of the
answers is in ``presk.cache.verify``, explanations are the engine's.
"""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from presk.cache.collect import Collected, evict, tidy
from presk.cache.digest import Digest, value_digest
from presk.cache.files import default_folder
from presk.cache.health import COUNTERS
from presk.cache.layout import BLOB_MARK, HEAD_SIZE, INLINE_MARK, MEMOS, QUARANTINE, RECORDS, SUBJECTS, VALUES
from presk.cache.record import decode_earlier, decode_record, opened
from presk.cache.store import Store


class Statistics(Struct, frozen=True):
    """A store in numbers. ``bytes`` is what counts towards ``max_bytes``; counters are those of all processes."""

    folder: str
    entries: int
    answers: int
    values: int
    bytes: int
    max_bytes: int
    counters: Mapping[str, int]
    warnings: tuple[str, ...]

    def text(self) -> str:
        """The statistics for people, a line each."""
        lines = [
            f"folder: {self.folder}",
            f"size: {shown_bytes(self.bytes)} of {shown_bytes(self.max_bytes)}",
            f"entries: {self.entries} ({self.answers} answers, {self.values} values)",
        ]
        lines += [f"{name}: {self.counters[name]} ({meaning})" for name, meaning in COUNTERS.items()]
        lines += [f"warning: {text}" for text in self.warnings]
        return "\n".join(lines) + "\n"


class Checked(Struct, frozen=True):
    """What checking every entry found: how many there are, and the damaged ones, which were removed."""

    entries: int
    damaged: tuple[str, ...]


def open_store(
    environment: Mapping[str, str], directory: Path | None = None, on_warning: Callable[[str], None] | None = None
) -> Store | None:
    """The store of whoever asks; nothing where the environment names no place for it (see ``default_folder``)."""
    folder = default_folder(environment, directory)
    return None if folder is None else Store(folder, on_warning=on_warning)


def statistics(store: Store) -> Statistics:
    """The store in numbers."""
    counters = store.shared_counts()
    entries, size = store.rows.run(lambda index: index.totals(), (0, 0))
    answers = store.rows.run(lambda index: index.count_of(RECORDS), 0)
    values = store.rows.run(lambda index: index.count_of(VALUES), 0)
    return Statistics(
        str(store.folder), entries, answers, values, size, store.max_bytes, counters, store.health.warnings()
    )


def collect_garbage(store: Store, max_bytes: int | None = None) -> Collected:
    """Puts the store in order and evicts what was used least recently until it takes at most ``max_bytes``."""
    tidy(store.rows, store.blobs)
    limit = store.max_bytes if max_bytes is None else max_bytes
    return evict(store.rows, store.blobs, store.session, store.health, limit)


def clear(store: Store) -> Collected:
    """Removes every entry. What a running job uses is removed as well, and computed again if it is asked for."""
    store.rows.discard()
    entries, size = store.rows.run(lambda index: index.totals(), (0, 0))
    store.rows.run(lambda index: index.erase(), None)
    for digest, _, _ in store.blobs.scan():
        store.blobs.remove(digest)
    with suppress(OSError):
        for entry in store.files.listing(os.path.join(store.root, QUARANTINE)):
            store.files.remove(entry.path)
    return Collected(entries, size)


def check_entries(store: Store) -> Checked:
    """Checks the bytes of every entry against its digest or checksum, and removes those that are damaged."""
    store.rows.flush(all_uses=True)
    entries = 0
    damaged: list[str] = []
    for key in (key for prefix in _KINDS for key in store.rows.keys(prefix)):
        entries += 1
        flaw = _flaw(store, key)
        if flaw is not None:
            damaged.append(f"{_KINDS[key[:1]]} {key[1:].hex()}: {flaw}")
            store.health.count("damaged")
            if key[:1] == VALUES:
                store.discard(Digest(key[1:]))
            else:
                store.rows.drop(key)
    return Checked(entries, tuple(damaged))


def shown_bytes(size: int) -> str:
    """A number of bytes for people, in binary units."""
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= scale:
            return f"{size / scale:.1f} {unit}"
    return f"{size} B"


_KINDS: Final = MappingProxyType({RECORDS: "answer", VALUES: "value", SUBJECTS: "subject", MEMOS: "memo"})


def _flaw(store: Store, key: bytes) -> str | None:
    """What is wrong with an entry. Reading it here is no use of it."""
    try:
        found = store.rows.run(lambda index: index.fetch(key), None)
        data = b"" if found is None else found[0]
        if key[:1] == RECORDS:
            decode_record(key[1:], data)
        elif key[:1] == SUBJECTS:
            decode_earlier(key, data)
        elif key[:1] == MEMOS:
            opened(key, data)
        elif data[:1] == BLOB_MARK:
            blob = store.blobs.read(Digest(key[1:]))
            return blob if isinstance(blob, str) else None
        elif data[:1] != INLINE_MARK or value_digest(data[HEAD_SIZE:]) != key[1:]:
            return "damaged"
    except ValueError:
        return "damaged"
    return None
