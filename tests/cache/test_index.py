"""The index is hardened: bytes only, nothing found in a database is obeyed, private, without memory maps."""

import os
import sqlite3
import stat
from pathlib import Path

import diskcache
import pytest

from presk.cache.index import DATABASE, BytesDisk, Index, Reader, Refused, failure
from tests.cache import faults

KEY = b"k" + bytes(32)


@pytest.fixture
def index(tmp_path):
    made = Index(str(tmp_path), 1.0)
    yield made
    made.close()


def plain(tmp_path):
    return sqlite3.connect(tmp_path / DATABASE, isolation_level=None)


def put(index, key, value, used=1.0):
    index.write([(key, value, len(value), used)], [])


def test_rows_come_back(index):
    put(index, KEY, b"value")
    assert index.fetch(KEY) == (b"value", 1.0)
    assert index.fetch(KEY + b"x") is None
    put(index, KEY, b"other", used=2.0)
    assert index.fetch(KEY) == (b"other", 2.0)
    assert index.totals() == (1, len(b"other"))


@pytest.mark.parametrize("key", ["text", 1, 1.0, None, ("a",), bytearray(b"a")])
def test_keys_are_bytes(index, key):
    with pytest.raises(Refused):
        index.set(key, b"")
    with pytest.raises(Refused):
        index.get(key)


@pytest.mark.parametrize("value", ["text", 1, 1.0, None, ("a",), bytearray(b"a")])
def test_values_are_bytes(index, value):
    """diskcache itself would take the first three as they are and pickle the rest."""
    with pytest.raises(Refused):
        index.set(KEY, value)


class Exploding:
    """Pickled, it would make a file when it is read."""

    path = ""

    def __reduce__(self):
        return (open, (self.path, "w"))


@pytest.mark.parametrize("where", ["value", "key"])
def test_a_planted_pickle_is_not_run(tmp_path, where):
    Exploding.path = str(tmp_path / "ran")
    with diskcache.Cache(str(tmp_path), eviction_policy="none") as planted:
        planted.set(KEY if where == "value" else Exploding(), Exploding() if where == "value" else b"x")
    index = Index(str(tmp_path), 1.0)
    with pytest.raises(Refused):
        index.fetch(KEY) if where == "value" else list(index.iterkeys())
    with pytest.raises(Refused):
        index.get(KEY) if where == "value" else list(index)
    index.close()
    assert not (tmp_path / "ran").exists()


def test_a_planted_file_name_is_neither_read_nor_removed(tmp_path, index):
    precious = tmp_path / "precious"
    precious.write_bytes(b"mine")
    put(index, KEY, b"value")
    with plain(tmp_path) as planted:
        planted.execute("UPDATE Cache SET mode = 2, filename = '../" + tmp_path.name + "/precious'")
    with pytest.raises(Refused):
        index.fetch(KEY)
    index.delete(KEY)
    index.clear()
    assert precious.read_bytes() == b"mine"


@pytest.mark.parametrize(
    "column", ["value = 'text'", "value = 3", "value = NULL", "mode = 4", "mode = 3", "mode = NULL"]
)
def test_rows_of_another_kind_are_refused(tmp_path, index, column):
    put(index, KEY, b"value")
    with plain(tmp_path) as planted:
        planted.execute(f"UPDATE Cache SET {column}")
    with pytest.raises(Refused):
        index.fetch(KEY)


def test_planted_settings_are_not_applied(tmp_path):
    Index(str(tmp_path), 1.0).close()
    with plain(tmp_path) as planted:
        for name, value in (
            ("fetch", 1),
            ("disk_class", "x"),
            ("eviction_policy", "none"),
            ("cull_limit", 10),
            ("size_limit", 1),
            ("sqlite_mmap_size", 2**26),
            ("sqlite_journal_mode", "wal"),
            ("sqlite_synchronous; DROP TABLE Cache; --", 1),
        ):
            planted.execute("INSERT OR REPLACE INTO Settings VALUES (?, ?)", (name, value))
    index = Index(str(tmp_path), 1.0)
    put(index, KEY, b"value")
    assert index.fetch(KEY) == (b"value", 1.0)
    assert (index.eviction_policy, index.cull_limit) == ("least-recently-used", 0)
    assert index.size_limit > 2**60
    pragma = {name: index._con.execute(f"PRAGMA {name}").fetchone()[0] for name in ("mmap_size", "journal_mode")}
    assert pragma == {"mmap_size": 0, "journal_mode": "truncate"}
    index.close()


def test_nothing_is_mapped_into_memory(tmp_path, index):
    put(index, KEY, b"value")
    maps = Path("/proc/self/maps")
    if maps.exists():
        assert str(tmp_path) not in maps.read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache.db", "cache.db-journal"]


def test_the_files_are_private(tmp_path):
    old = os.umask(0)
    try:
        index = Index(str(tmp_path), 1.0)
        put(index, KEY, b"value")
    finally:
        os.umask(old)
    for path in tmp_path.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    index.close()


def test_reading_writes_nothing(tmp_path, index):
    put(index, KEY, b"value")
    before = (tmp_path / DATABASE).read_bytes()
    assert index.fetch(KEY) == (b"value", 1.0)
    assert index.fetch(KEY + b"missing") is None
    assert (tmp_path / DATABASE).read_bytes() == before


def test_the_least_recently_used_rows_go_first(index):
    for i in range(10):
        put(index, b"k%d" % i, bytes(100), used=float(i))
    index.write([], [(20.0, b"k0"), (21.0, b"k3")])
    seen, removed = index.evict((-1.0, 0), 100, frozenset((b"k2",)), 350)
    assert [old[2] for old in removed] == [b"k1", b"k4", b"k5", b"k6"]
    assert [old[2] for old in seen] == [b"k1", b"k2", b"k4", b"k5", b"k6"]
    assert index.totals() == (6, 600)


def test_totals_are_mended(tmp_path, index):
    put(index, KEY, bytes(100))
    with plain(tmp_path) as planted:
        planted.execute("UPDATE Settings SET value = -7 WHERE key IN ('size', 'count')")
        planted.execute("UPDATE Cache SET access_time = 'never'")
    index.recount()
    assert index.totals() == (1, 100)
    assert index.fetch(KEY) == (bytes(100), 0.0)


def test_a_folder_whose_name_would_be_expanded_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("ELSEWHERE", "elsewhere")
    folder = tmp_path / "$ELSEWHERE"
    folder.mkdir()
    with pytest.raises(OSError, match="holds a variable"):
        Index(str(folder), 1.0)


def test_a_locked_database_is_waited_for_as_long_as_said(tmp_path, index):
    with plain(tmp_path) as other:
        other.execute("BEGIN EXCLUSIVE")
        quick = index
        quick._busy_seconds = 0.0
        quick.close()
        with pytest.raises(sqlite3.OperationalError) as caught:
            quick.fetch(KEY)
        assert failure(caught.value) == "busy"
        with pytest.raises(sqlite3.OperationalError) as caught:
            Index(str(tmp_path), 0.05)
        assert failure(caught.value) == "busy"
        other.execute("ROLLBACK")
    assert quick.fetch(KEY) is None


def test_a_reader_reads(tmp_path, index):
    put(index, KEY, b"value")
    reader = Reader(str(tmp_path), 1.0)
    assert reader.fetch(KEY) == (b"value", 1.0)
    with pytest.raises(sqlite3.OperationalError) as caught:
        reader._connection.execute("DELETE FROM Cache")
    assert failure(caught.value) == "unwritable"
    reader.close()


def test_a_reader_of_nothing_is_an_error(tmp_path):
    with pytest.raises(sqlite3.Error):
        Reader(str(tmp_path), 1.0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"not a database at all" * 100, b"SQLite format 3\0" + bytes(4080)])
def test_a_foreign_file_is_damage(tmp_path, content):
    (tmp_path / DATABASE).write_bytes(content)
    with pytest.raises((sqlite3.Error, ValueError, TypeError)) as caught:
        Index(str(tmp_path), 1.0)
    assert failure(caught.value) == "damaged"


def test_a_database_of_another_kind_is_damage(tmp_path):
    with plain(tmp_path) as other:
        other.execute("CREATE TABLE Cache(a)")
        other.execute("CREATE TABLE Settings(key, b)")
    with pytest.raises((sqlite3.Error, ValueError, TypeError)) as caught:
        Index(str(tmp_path), 1.0)
    assert failure(caught.value) == "damaged"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (faults.INDEX_LOCKED(), "busy"),
        (faults.INDEX_FULL(), "unwritable"),
        (faults.INDEX_READ_ONLY(), "unwritable"),
        (faults.INDEX_CLOSED(), "unwritable"),
        (faults.INDEX_BROKEN(), "unwritable"),
        (faults.full(), "unwritable"),
        (faults.INDEX_DAMAGED(), "damaged"),
        (faults.INDEX_FOREIGN(), "damaged"),
        (sqlite3.OperationalError("no such column: key"), "damaged"),
        (ValueError("not enough values to unpack"), "damaged"),
    ],
)
def test_kinds_of_failure(error, kind):
    assert failure(error) == kind


def test_the_disk_has_no_files():
    disk = BytesDisk("/nowhere", unknown=1)
    with pytest.raises(Refused):
        disk.filename()
    with pytest.raises(Refused):
        disk.store(b"x", True)
    disk.remove("anything")
