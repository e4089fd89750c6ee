"""The index of the store: rows of bytes by key, in diskcache's database, hardened.

diskcache gives the schema, the triggers that keep the totals, and the policy object through which rows become values.
What it does by default is changed in these points:

* **no pickle**: ``BytesDisk`` takes and gives bytes, for keys as well; a row of any other mode is refused, so reading
  a planted index runs no code (diskcache issue 357). It writes and removes no files, so a planted file name deletes
  nothing;
* **settings are ours**: those found in the database are not applied; there they can name any attribute or pragma;
* **no memory maps**: no ``mmap_size``, and a rollback journal in place of the write-ahead log with its mapped index,
  since a file that is cut short while it is mapped kills the process. Readers then wait for the few milliseconds of a
  commit;
* **least recently used**, in bytes, evicted by ``presk.cache.collect`` and not inside each write;
* **reads write nothing**: diskcache's own policy makes every read a transaction (0.3 ms); here uses are gathered and
  written together;
* **four megabytes of pages** are kept by a connection, and not 32;
* **no waiting for a minute**: a locked database is waited for as long as the store says.

The database is not synced: after a power cut it may be damaged, which is noticed and makes it new.
"""

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Final, Literal

import diskcache
from diskcache.core import DBNAME, DEFAULT_SETTINGS, ENOVAL, METADATA, MODE_RAW, UNKNOWN

from presk.cache.files import FILE_MODE

DATABASE: Final[str] = DBNAME
COMPANIONS: Final = ("", "-journal", "-wal", "-shm")
"""The suffixes of the files that make up a database."""

_NEVER: Final = 2**62
PAGE_CACHE_KIB: Final = 4096
"""What a connection keeps of the database. diskcache says 8,192 pages: 32 MiB in each process, which a worker fills in 2,500
edits, and the system keeps the file's pages anyway."""

_SETTINGS: Final = MappingProxyType(
    {
        **DEFAULT_SETTINGS,
        "eviction_policy": "least-recently-used",
        "size_limit": _NEVER,  # the bound is the store's
        "cull_limit": 0,
        "disk_min_file_size": _NEVER,
        "disk_pickle_protocol": 0,
        "sqlite_cache_size": -PAGE_CACHE_KIB,  # below zero it is in KiB
        "sqlite_journal_mode": "truncate",
        "sqlite_mmap_size": 0,
        "sqlite_synchronous": 0,
    }
)
_PRAGMAS: Final = (
    "PRAGMA trusted_schema = OFF",
    "PRAGMA cell_size_check = ON",
    "PRAGMA mmap_size = 0",
    f"PRAGMA cache_size = -{PAGE_CACHE_KIB}",
    "PRAGMA auto_vacuum = FULL",
    "PRAGMA synchronous = OFF",
)

_FETCH: Final = "SELECT mode, filename, value, access_time FROM Cache WHERE key = ? AND raw = 1"
_UPSERT: Final = (
    "INSERT INTO Cache(key, raw, store_time, access_time, size, mode, value) VALUES (?, 1, ?, ?, ?, ?, ?)"
    " ON CONFLICT(key, raw) DO UPDATE SET store_time = excluded.store_time, access_time = excluded.access_time,"
    " size = excluded.size, mode = excluded.mode, filename = NULL, value = excluded.value"
)
_TOUCH: Final = "UPDATE Cache SET access_time = ? WHERE key = ? AND raw = 1"
_DROP: Final = "DELETE FROM Cache WHERE key = ? AND raw = 1"
_OLDEST: Final = (
    "SELECT access_time, rowid, key, size, substr(value, 1, 1) FROM Cache WHERE (access_time, rowid) > (?, ?)"
    " ORDER BY access_time, rowid LIMIT ?"
)

Row = tuple[bytes, bytes, int, float]
"""Key, value, size in bytes as it counts towards the bound, time of the last use."""

Old = tuple[float, int, bytes, int, bytes]
"""Time of the last use, row number, key, size, first byte of the value."""


class Refused(ValueError):
    """A row that is not plain bytes under a key of plain bytes."""


class BytesDisk(diskcache.Disk):  # type: ignore[misc]  # diskcache has no types
    """Keys and values are bytes in the database; everything else is refused."""

    def __init__(self, directory: str, min_file_size: int = 0, pickle_protocol: int = 0, **_: object) -> None:
        super().__init__(directory, min_file_size=min_file_size, pickle_protocol=pickle_protocol)

    def put(self, key: object) -> tuple[memoryview, bool]:
        if type(key) is not bytes:
            raise Refused("a key of the index is bytes")
        return sqlite3.Binary(key), True

    def get(self, key: object, raw: object) -> bytes:
        if type(key) is not bytes or raw != 1:
            raise Refused("a key in the index is not bytes")
        return key

    def store(self, value: object, read: object, key: object = UNKNOWN) -> tuple[int, int, None, memoryview]:
        if type(value) is not bytes or read:
            raise Refused("a value of the index is bytes")
        return len(value), MODE_RAW, None, sqlite3.Binary(value)

    def fetch(self, mode: object, filename: object, value: object, read: object) -> bytes:
        if mode != MODE_RAW or filename is not None or read or type(value) is not bytes:
            raise Refused("a value in the index is not bytes")
        return value

    def filename(self, key: object = UNKNOWN, value: object = UNKNOWN) -> tuple[str, str]:
        raise Refused("the index has no files")

    def remove(self, file_path: object) -> None:
        """Nothing: the index has no files of its own."""


class Index(diskcache.Cache):  # type: ignore[misc]  # diskcache has no types
    """The writable index in a folder.

    Opening and every use may raise ``sqlite3.Error``, ``OSError`` or, for a damaged database, ``ValueError`` and
    ``TypeError``; ``presk.cache.rows`` is the one place that calls and handles them. One connection serves all
    threads; the caller holds a lock.
    """

    def __init__(self, folder: str, busy_seconds: float) -> None:
        if os.path.expandvars(folder) != folder:
            # diskcache would look there, by the process's environment.
            raise OSError(f"the name of the folder holds a variable: {folder}")
        self._path = os.path.join(folder, DATABASE)
        self._busy_seconds = busy_seconds
        self._connection: sqlite3.Connection | None = None
        self._opening = True
        try:
            # One transaction for the twenty statements of diskcache's set-up.
            with self._writing():
                super().__init__(folder, disk=BytesDisk, **_SETTINGS)
            # By name: to open and close the file here would drop the locks that this process holds on it (fcntl(2)).
            os.chmod(self._path, FILE_MODE)
            status = os.stat(self._path)
        except BaseException:
            self._opening = False
            self.close()
            raise
        self._opening = False
        self.identity = status.st_dev, status.st_ino

    @property
    def _con(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = _connect(self._path, self._busy_seconds)
            for pragma in _PRAGMAS:
                self._connection.execute(pragma)
            self._connection.execute("PRAGMA journal_mode = TRUNCATE").fetchone()
        return self._connection

    @property
    def _sql_retry(self) -> Any:
        return self._sql

    def reset(self, key: str, value: Any = ENOVAL, update: bool = True) -> Any:
        """Sets one of the known settings; a name that only the database knows is ignored."""
        if key not in _SETTINGS and key not in METADATA:
            return None
        if key.startswith("sqlite_"):
            return _SETTINGS[key]
        return super().reset(key, value, update)

    def close(self) -> None:
        if self._connection is not None and not self._opening:
            self._connection.close()
            self._connection = None

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        connection = self._con
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def is_current(self) -> bool:
        """Whether the database in the folder is still the one that is open."""
        try:
            status = os.stat(self._path)
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == self.identity

    def fetch(self, key: bytes) -> tuple[bytes, float] | None:
        """The value of a row and the time of its last use; ``Refused`` for a row that is not bytes."""
        return _fetch(self._con, self.disk, key)

    def write(self, rows: Iterable[Row], uses: Iterable[tuple[float, bytes]]) -> None:
        """Writes rows and times of use in one transaction."""
        with self._writing() as connection:
            connection.executemany(
                _UPSERT, ((key, used, used, size, MODE_RAW, value) for key, value, size, used in rows)
            )
            connection.executemany(_TOUCH, uses)

    def drop(self, keys: Iterable[bytes]) -> None:
        """Removes rows."""
        with self._writing() as connection:
            connection.executemany(_DROP, ((key,) for key in keys))

    def evict(
        self, after: tuple[float, int], limit: int, kept: frozenset[bytes], excess: int
    ) -> tuple[list[Old], list[Old]]:
        """Removes the least recently used rows after a position until ``excess`` bytes are freed.

        Looks at ``limit`` rows at most. Returns the rows that it looked at and those that it removed.
        """
        with self._writing() as connection:
            seen: list[Old] = []
            removed: list[Old] = []
            for old in connection.execute(_OLDEST, (*after, limit)).fetchall():
                if excess <= 0:
                    break
                _, _, key, size, mark = old
                if type(key) is not bytes or type(size) is not int or type(mark) is not bytes:
                    raise Refused("a row of the index is damaged")
                seen.append(old)
                if key not in kept:
                    removed.append(old)
                    excess -= size
            connection.executemany("DELETE FROM Cache WHERE rowid = ?", ((old[1],) for old in removed))
        return seen, removed

    def totals(self) -> tuple[int, int]:
        """Rows and bytes, as the triggers keep them."""
        found = dict(self._sql("SELECT key, value FROM Settings WHERE key IN ('count', 'size')").fetchall())
        count, size = found.get("count"), found.get("size")
        if type(count) is not int or type(size) is not int:
            raise Refused("the totals of the index are damaged")
        return count, size

    def recount(self) -> None:
        """Sets the totals to what the rows say, and gives a time of use to rows that lost it."""
        with self._writing() as connection:
            connection.execute("UPDATE Cache SET access_time = 0.0 WHERE typeof(access_time) != 'real'")
            connection.execute("UPDATE Cache SET size = length(value) WHERE typeof(size) != 'integer' OR size < 0")
            connection.execute(
                "UPDATE Settings SET value = (SELECT COALESCE(SUM(size), 0) FROM Cache) WHERE key = 'size'"
            )
            connection.execute("UPDATE Settings SET value = (SELECT COUNT(*) FROM Cache) WHERE key = 'count'")

    def marked(self, prefix: bytes, mark: bytes) -> list[bytes]:
        """The keys with a prefix of one byte whose value starts with a mark."""
        select = "SELECT key FROM Cache WHERE key >= ? AND key < ? AND substr(value, 1, 1) = ?"
        return [key for (key,) in self._sql(select, (prefix, _next(prefix), mark)).fetchall()]

    def update(self, key: bytes, change: Callable[[bytes | None], bytes], now: float) -> None:
        """Replaces a row by a function of what it was, in one transaction; what is refused counts as absent."""
        with self._writing() as connection:
            try:
                found = _fetch(connection, self.disk, key)
            except Refused:
                found = None
            value = change(None if found is None else found[0])
            connection.execute(_UPSERT, (key, now, now, len(value), MODE_RAW, value))

    def keys(self, prefix: bytes, after: bytes, limit: int) -> list[bytes]:
        """The keys with a prefix of one byte that follow ``after``, in order."""
        select = "SELECT key FROM Cache WHERE key > ? AND key < ? AND raw = 1 ORDER BY key LIMIT ?"
        return [key for (key,) in self._sql(select, (max(after, prefix), _next(prefix), limit)).fetchall()]

    def count_of(self, prefix: bytes) -> int:
        """How many rows have a prefix of one byte."""
        select = "SELECT COUNT(*) FROM Cache WHERE key >= ? AND key < ?"
        return int(self._sql(select, (prefix, _next(prefix))).fetchone()[0])

    def erase(self) -> None:
        """Removes all rows."""
        with self._writing() as connection:
            connection.execute("DELETE FROM Cache")


class Reader:
    """The index of a folder that cannot be written: rows can be read, nothing else."""

    def __init__(self, folder: str, busy_seconds: float) -> None:
        self._disk = BytesDisk(folder)
        path = os.path.join(folder, DATABASE)
        self._connection = _connect(f"file:{_quoted(path)}?mode=ro", busy_seconds, uri=True)
        self._connection.execute("PRAGMA trusted_schema = OFF")
        self._connection.execute("SELECT COUNT(*) FROM Settings").fetchone()

    def fetch(self, key: bytes) -> tuple[bytes, float] | None:
        """As ``Index.fetch``."""
        return _fetch(self._connection, self._disk, key)

    def close(self) -> None:
        """Closes the database."""
        self._connection.close()


def failure(error: Exception) -> Literal["busy", "unwritable", "damaged"]:
    """What an error of the index means: come again later, cannot be written, or has to be made new."""
    code = getattr(error, "sqlite_errorcode", None)
    if isinstance(error, sqlite3.Error) and code is not None:
        primary = code & 0xFF
        if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return "busy"
        if primary in _UNWRITABLE:
            return "unwritable"
        return "damaged"
    return "unwritable" if isinstance(error, OSError) else "damaged"


_UNWRITABLE: Final = frozenset(
    (
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_NOMEM,
    )
)


def _connect(path: str, busy_seconds: float, uri: bool = False) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=busy_seconds, isolation_level=None, check_same_thread=False, uri=uri)


def _fetch(connection: sqlite3.Connection, disk: BytesDisk, key: bytes) -> tuple[bytes, float] | None:
    row = connection.execute(_FETCH, (key,)).fetchone()
    if row is None:
        return None
    mode, filename, value, used = row
    return disk.fetch(mode, filename, value, False), used if type(used) is float else 0.0


def _next(prefix: bytes) -> bytes:
    """The least key after all keys with a prefix of one byte."""
    return bytes([prefix[0] + 1])


def _quoted(path: str) -> str:
    return path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
