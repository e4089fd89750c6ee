"""Keeping a store within its bound, and putting it in order.

Eviction removes the entries used least recently, records and values alike, until the rest is a tenth below the bound;
what a living process pins stays. A row goes before its file: a process that dies between the two leaves a blob
without a row, which ``tidy`` enters again. Another process that has just found the file may lose it; its next read is
a counted miss.
"""

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from presk.cache.blobs import Blobs
from presk.cache.digest import Digest
from presk.cache.health import Health
from presk.cache.layout import BLOB_MARK, VALUES, blob_value, on_disk
from presk.cache.session import Session

if TYPE_CHECKING:
    from presk.cache.index import Old
    from presk.cache.rows import Rows

_SLICE: Final = 256
"""Entries per transaction: others wait for a few milliseconds at most."""

_KEPT_TENTHS: Final = 9
_START: Final = (-1.0, 0)


class Collected(Struct, frozen=True):
    """What was removed: entries, and bytes as they count towards the bound."""

    entries: int
    bytes: int


def keep_bound(rows: "Rows", blobs: Blobs, session: Session, health: Health, max_bytes: int) -> None:
    """Evicts where the store has outgrown its bound."""
    totals = rows.run(lambda index: index.totals(), None)
    if totals is not None and totals[1] > max_bytes:
        evict(rows, blobs, session, health, max_bytes * _KEPT_TENTHS // 10)


def evict(rows: "Rows", blobs: Blobs, session: Session, health: Health, target: int) -> Collected:
    """Removes the entries used least recently until the rest takes ``target`` bytes, but none that is pinned."""
    rows.flush(all_uses=True)
    with rows.lock:
        pinned = session.sweep()
    kept = frozenset(VALUES + digest for digest in pinned)
    totals = rows.run(lambda index: index.totals(), None)
    excess = 0 if totals is None else totals[1] - target
    entries = freed = 0
    after = _START
    while excess > 0:
        seen, removed = _evict_slice(rows, after, kept, excess)
        if not seen:
            break
        after = seen[-1][0], seen[-1][1]
        for _, _, key, size, mark in removed:
            if mark == BLOB_MARK:
                blobs.remove(Digest(key[1:]))
            excess -= size
            freed += size
        entries += len(removed)
    health.count("evicted", entries)
    return Collected(entries, freed)


def tidy(rows: "Rows", blobs: Blobs) -> None:
    """Makes index and files agree: enters blobs without a row, removes rows without their blob, recounts."""
    rows.flush(all_uses=True)
    there = {digest: (size, changed) for digest, size, changed in blobs.scan()}
    none: list[bytes] = []
    entered = {Digest(key[1:]) for key in rows.run(lambda index: index.marked(VALUES, BLOB_MARK), none)}
    lost = [VALUES + digest for digest in entered if digest not in there]
    found = [adopted(digest, *there[digest]) for digest in there if digest not in entered]
    rows.run(lambda index: index.drop(lost), None)
    rows.run(lambda index: index.write(found, ()), None)
    rows.run(lambda index: index.recount(), None)


def adopted(digest: Digest, size: int, used: float) -> tuple[bytes, bytes, int, float]:
    """The row of a blob that was found in the folder; who made it is not known."""
    value = blob_value(size, None)
    return VALUES + digest, value, on_disk(size) + len(value), used


def _evict_slice(
    rows: "Rows", after: tuple[float, int], kept: frozenset[bytes], excess: int
) -> "tuple[list[Old], list[Old]]":
    nothing: tuple[list[Old], list[Old]] = [], []
    return rows.run(lambda index: index.evict(after, _SLICE, kept, excess), nothing)
