"""The store keeps what it is given, notices what was damaged, and never fails."""

import os
import random
import sqlite3
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from presk.cache.digest import Digest, value_digest
from presk.cache.files import default_folder
from presk.cache.maintain import collect_garbage
from presk.cache.record import Earlier, Ingredient, Record, decode_record, encode_record
from presk.cache.store import FORMAT, INLINE_MAX, Store
from tests.cache import faults
from tests.cache.faults import FaultyFiles

SMALL = b"a small value"
LARGE = random.Random(1).randbytes(INLINE_MAX + 1)
KEY = value_digest(b"some key")
RECORD = Record(
    value_digest(SMALL), len(SMALL), "stage", "fn mse", "text", (Ingredient("n", "option", "", KEY, b"\x01"),), (), 0.5
)


def put(store, data):
    digest = value_digest(data)
    store.put_value(digest, data)
    return digest


def root(workshop):
    return workshop.cache / FORMAT


def blob(workshop, digest):
    name = digest.hex()
    return root(workshop) / "blobs" / name[:2] / name[2:]


@pytest.mark.parametrize("data", [b"", b"x", SMALL, bytes(INLINE_MAX), LARGE, bytes(1 << 20)], ids=len)
def test_values_come_back_from_every_process(workshop, data):
    first = workshop.store()
    digest = put(first, data)
    assert first.value(digest) == data
    first.close()
    second = workshop.store()
    assert second.value(digest) == data
    assert blob(workshop, digest).exists() == (len(data) > INLINE_MAX)


def test_records_come_back(workshop):
    first = workshop.store()
    first.put_record(KEY, encode_record(KEY, RECORD))
    first.put_earlier("stage", "fn mse", (Earlier(KEY, RECORD.value),))
    first.put_memo("name", b"bytes")
    first.close()
    second = workshop.store()
    assert second.record(KEY) == RECORD
    head = second.answer(KEY)
    assert head is not None
    assert (head.value, head.size) == (RECORD.value, RECORD.size)
    assert second.earlier("stage", "fn mse") == (Earlier(KEY, RECORD.value),)
    assert second.earlier("stage", "fn other") == ()
    assert second.memo("name") == b"bytes"
    assert second.memo("other") is None


def test_a_record_belongs_to_its_key():
    data = encode_record(KEY, RECORD)
    assert decode_record(KEY, data) == RECORD
    with pytest.raises(ValueError):
        decode_record(value_digest(b"another key"), data)


def test_a_value_knows_who_made_it(workshop):
    store = workshop.store()
    for data in (SMALL, LARGE):
        digest = value_digest(data)
        store.put_value(digest, data, KEY)
        assert store.producer(digest) == KEY
    assert store.producer(put(store, b"given")) is None
    assert store.producer(KEY) is None


def test_nothing_is_opened_before_the_first_use(workshop):
    store = workshop.store()
    store.close()
    assert not workshop.cache.exists()


def test_the_folder_is_absolute():
    with pytest.raises(ValueError):
        Store(Path("relative"))


def test_what_was_not_flushed_is_a_miss_later(workshop):
    first = workshop.store()
    digest = put(first, SMALL)
    assert first.value(digest) == SMALL
    second = workshop.store()
    assert second.value(digest) is None
    first.flush()
    assert second.value(digest) == SMALL


def test_many_writes_are_few_transactions(workshop):
    files = FaultyFiles()
    store = workshop.store(files=files, buffer_rows=1000)
    for i in range(2500):
        put(store, b"value %d" % i)
    assert files.count["index write"] <= 2 + 2
    assert store.value(value_digest(b"value 0")) == b"value 0"


def test_reads_of_many_cost_no_write(workshop):
    first = workshop.store()
    digests = [put(first, b"value %d" % i) for i in range(100)]
    first.close()
    files = FaultyFiles()
    second = workshop.store(files=files)
    assert all(second.value(digest) is not None for digest in digests)
    second.flush()
    assert "index write" not in files.count


# What lies in the folder is damaged while nobody has it open.


def damaged_store(workshop, data, damage):
    """A new process's store after a blob was damaged."""
    store = workshop.store()
    digest = put(store, data)
    store.close()
    damage(blob(workshop, digest))
    return workshop.store(), digest


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def become_folder(path):
    path.unlink()
    path.mkdir()


def become_pipe(path):
    path.unlink()
    os.mkfifo(path)


def become_link(path):
    elsewhere = path.with_name("elsewhere")
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


@pytest.mark.parametrize(
    ("damage", "counter"),
    [
        (flip, "damaged"),
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), "damaged"),
        (lambda path: path.write_bytes(path.read_bytes() + b"x"), "damaged"),
        (lambda path: path.write_bytes(b"a foreign value"), "damaged"),
        (lambda path: path.write_bytes(b""), "empty"),
        (lambda path: path.unlink(), "missing"),
        (become_folder, "unreadable"),
        (become_pipe, "unreadable"),
        (become_link, "unreadable"),
    ],
)
def test_a_damaged_blob_is_a_counted_miss_and_can_be_written_again(workshop, damage, counter):
    store, digest = damaged_store(workshop, LARGE, damage)
    assert store.value(digest) is None
    assert store.health.counts()[counter] == 1
    assert store.health.counts()["value misses"] == 1
    assert put(store, LARGE) == digest
    if damage is not become_folder:
        assert store.value(digest) == LARGE
        assert store.health.warnings() == ()


def edit(workshop, statement, *arguments):
    connection = sqlite3.connect(root(workshop) / "cache.db")
    with connection:
        assert connection.execute(statement, arguments).rowcount > 0
    connection.close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE Cache SET value = substr(value, 1, length(value) - 1)",
        "UPDATE Cache SET value = CAST(value || x'00' AS BLOB)",
        "UPDATE Cache SET value = x''",
        "UPDATE Cache SET value = x'69'",
        "UPDATE Cache SET value = 'text'",
        "UPDATE Cache SET value = NULL",
        "UPDATE Cache SET value = zeroblob(length(value))",
        "UPDATE Cache SET mode = 4",
    ],
)
def test_a_damaged_row_is_a_counted_miss(workshop, statement):
    store = workshop.store()
    digest = put(store, SMALL)
    store.put_record(KEY, encode_record(KEY, RECORD))
    store.put_memo("name", b"bytes")
    store.close()
    edit(workshop, statement)
    store = workshop.store()
    assert store.value(digest) is None
    assert store.record(KEY) is None
    assert store.memo("name") is None
    assert store.health.counts()["damaged"] == 3
    put(store, SMALL)
    store.flush()
    assert store.value(digest) == SMALL


def test_a_row_under_a_foreign_key_is_a_counted_miss(workshop):
    store = workshop.store()
    store.put_record(KEY, encode_record(KEY, RECORD))
    store.close()
    other = value_digest(b"another key")
    edit(workshop, "UPDATE Cache SET key = ? WHERE key = ?", b"k" + other, b"k" + KEY)
    store = workshop.store()
    assert store.record(other) is None
    assert store.health.counts()["damaged"] == 1


def cut(path):
    os.truncate(path, path.stat().st_size // 2)


def scribble(path):
    data = bytearray(path.read_bytes())
    for at in range(0, len(data), 97):
        data[at] ^= 0x55
    path.write_bytes(data)


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.unlink(),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"SQLite format 3\0 and then something else" * 50),
        lambda path: path.write_bytes(bytes(1 << 16)),
        cut,
        scribble,
        become_folder,
    ],
)
@pytest.mark.parametrize("open_then", [False, True])
def test_a_damaged_index_is_made_new(workshop, damage, open_then):
    """Also while it is open: then by another store object, as by another process."""
    store = workshop.store()
    large, small = put(store, LARGE), [put(store, b"value %d" % i) for i in range(300)]
    store.flush()
    if not open_then:
        store.close()
        store = workshop.store()
    damage(root(workshop) / "cache.db")
    for digest, data in ((large, LARGE), *((digest, b"value %d" % i) for i, digest in enumerate(small))):
        assert store.value(digest) in (None, data)
    for i in range(300):
        put(store, b"value %d" % i)
    store.flush()
    if damage is become_folder:
        return
    assert len(store.health.warnings()) <= 1
    # A process that has the database open may write into the damage without noticing; the next one does.
    for again in (workshop.store(), workshop.store()):
        found = [again.value(digest) for digest in small]
        if open_then and None in found:
            for i in range(300):
                put(again, b"value %d" % i)
            again.flush()
    assert found == [b"value %d" % i for i in range(300)]
    assert again.value(large) == LARGE


def test_a_new_index_enters_the_blobs_that_lie_there(workshop):
    store = workshop.store()
    digest = put(store, LARGE)
    store.close()
    (root(workshop) / "cache.db").write_bytes(b"damaged" * 1000)
    store = workshop.store()
    assert store.value(digest) == LARGE
    assert store.rows.run(lambda index: index.totals(), None)[0] == 1
    assert store.health.counts()["rebuilt"] == 1


def test_stray_files_are_passed_over(workshop):
    store = workshop.store()
    digest = put(store, LARGE)
    store.flush()
    folder = root(workshop)
    for name in ("stray", "blobs/stray", "blobs/ab", "blobs/ff/short", "tmp/stray", "live/stray", "live/" + "0" * 16):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        if not path.exists():
            path.write_bytes(b"stray")
    (folder / "blobs" / digest.hex()[:2] / ("zz" * 31)).write_bytes(b"not hexadecimal")
    collect_garbage(store)
    assert store.value(digest) == LARGE
    for i in range(300):
        data = LARGE + b"%d" % i
        assert store.value(put(store, data)) in (None, data)
    store.flush()


@pytest.mark.parametrize("name", ["blobs", "tmp", "live", "cache.db-journal", "index.lock"])
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_stands_in_the_way_fails_nothing(workshop, name, kind):
    folder = root(workshop)
    folder.mkdir(parents=True, mode=0o700)
    (folder / name).mkdir() if kind == "folder" else (folder / name).write_bytes(b"stray")
    store = workshop.store(retry_seconds=0.0)
    for data in (SMALL, LARGE):
        assert store.value(put(store, data)) in (None, data)
    store.flush()
    collect_garbage(store)
    store.close()


def test_everything_may_be_deleted_at_any_time(workshop):
    store = workshop.store()
    digests = [put(store, LARGE + b"%d" % i) for i in range(20)] + [put(store, b"%d" % i) for i in range(20)]
    store.flush()
    for path in sorted(root(workshop).rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    root(workshop).rmdir()
    for digest in digests:
        store.value(digest)
    digests = [put(store, LARGE + b"%d" % i) for i in range(20)] + [put(store, b"%d" % i) for i in range(20)]
    store.flush()
    again = workshop.store()
    assert [again.value(digest) for digest in digests[20:]] == [b"%d" % i for i in range(20)]
    put(store, LARGE)
    store.flush()
    assert workshop.store().value(value_digest(LARGE)) == LARGE


# The disk and the system fail.


@pytest.mark.parametrize("error", [faults.full, faults.read_only, faults.forbidden, faults.broken])
@pytest.mark.parametrize("operation", ["create", "replace", "make_folder"])
def test_a_blob_that_cannot_be_written_costs_one_warning(workshop, operation, error):
    warnings: list[str] = []
    files = FaultyFiles(**{operation: error})
    store = workshop.store(files=files, on_warning=warnings.append)
    for i in range(3):
        digest = put(store, LARGE + b"%d" % i)
        assert store.value(digest) is None
    digest = put(store, SMALL)
    store.flush()
    assert store.value(digest) == SMALL
    assert len(warnings) == 1
    assert store.health.counts()["unwritten"] == 3
    tmp = root(workshop) / "tmp"
    assert not tmp.exists() or list(tmp.iterdir()) == []
    files.failing.clear()
    assert store.value(put(store, LARGE)) == LARGE


@pytest.mark.parametrize("error", [faults.broken, faults.forbidden])
def test_a_blob_that_cannot_be_read_is_a_counted_miss(workshop, error):
    files = FaultyFiles()
    store = workshop.store(files=files)
    digest = put(store, LARGE)
    files.failing["read"] = error
    assert store.value(digest) is None
    assert store.health.counts()["unreadable"] == 1


@pytest.mark.parametrize(
    "error",
    [
        faults.INDEX_FULL,
        faults.INDEX_READ_ONLY,
        faults.INDEX_CLOSED,
        faults.INDEX_BROKEN,
        faults.full,
        faults.read_only,
    ],
)
def test_an_index_that_cannot_be_written_is_still_read(workshop, error):
    first = workshop.store()
    small, large = put(first, SMALL), put(first, LARGE)
    first.close()
    warnings: list[str] = []
    files = FaultyFiles(index_open=error, index_write=error)
    store = workshop.store(files=files, on_warning=warnings.append, retry_seconds=100.0)
    assert store.value(small) == SMALL
    assert store.value(large) == LARGE
    other = put(store, b"another")
    assert store.value(other) == b"another"
    store.flush()
    assert store.value(other) is None
    assert store.value(small) == SMALL
    assert store.health.counts()["unwritten"] == 1
    assert len(warnings) == 1


def test_an_index_that_becomes_writable_is_written_again(workshop):
    files = FaultyFiles(index_open=faults.INDEX_FULL)
    store = workshop.store(files=files, retry_seconds=0.0)
    digest = put(store, SMALL)
    store.flush()
    assert store.value(digest) is None
    files.failing.clear()
    put(store, SMALL)
    store.flush()
    assert workshop.store().value(digest) == SMALL


def test_a_write_that_fails_half_way_keeps_what_was_there(workshop):
    files = FaultyFiles()
    store = workshop.store(files=files, retry_seconds=0.0)
    kept = put(store, SMALL)
    store.flush()
    files.failing["index write"] = faults.INDEX_FULL
    lost = put(store, b"another")
    store.flush()
    files.failing.clear()
    assert store.value(kept) == SMALL
    assert store.value(lost) is None
    assert store.health.counts()["rebuilt"] == 0


def test_a_locked_index_is_given_up_for_a_while(workshop):
    first = workshop.store()
    digest = put(first, SMALL)
    first.close()
    other = sqlite3.connect(root(workshop) / "cache.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    warnings: list[str] = []
    store = workshop.store(busy_seconds=0.01, retry_seconds=0.0, on_warning=warnings.append)
    assert store.value(digest) is None
    assert store.value(put(store, b"another")) == b"another"
    store.flush()
    assert store.health.counts()["busy"] >= 2
    assert len(warnings) == 1
    other.execute("ROLLBACK")
    other.close()
    assert store.value(digest) == SMALL


def test_a_locked_index_is_not_asked_again_at_once(workshop):
    files = FaultyFiles(index_open=faults.INDEX_LOCKED)
    store = workshop.store(files=files, retry_seconds=100.0)
    for i in range(50):
        assert store.value(value_digest(b"%d" % i)) is None
    assert files.count["index open"] == 1


def test_an_index_that_is_damaged_again_and_again_is_given_up(workshop):
    files = FaultyFiles(index_read=faults.INDEX_DAMAGED)
    warnings: list[str] = []
    store = workshop.store(files=files, on_warning=warnings.append)
    for i in range(10):
        assert store.value(value_digest(b"%d" % i)) is None
    assert store.health.counts()["rebuilt"] == 3
    assert files.count["index read"] == 4
    assert len(warnings) == 2


def test_a_folder_of_another_user_is_not_used(workshop, monkeypatch):
    first = workshop.store()
    digest = put(first, LARGE)
    first.close()
    monkeypatch.setattr(os, "geteuid", lambda: root(workshop).stat().st_uid + 1)
    store = workshop.store()
    assert store.value(put(store, SMALL)) == SMALL
    store.flush()
    assert store.value(value_digest(SMALL)) is None
    assert store.value(digest) == LARGE, "a blob is what its digest says, whoever stored it"
    assert "another user" in store.health.warnings()[0]


def test_a_link_in_place_of_the_folder_is_not_used(workshop, tmp_path):
    target = tmp_path / "target"
    target.mkdir()
    workshop.cache.mkdir()
    root(workshop).symlink_to(target)
    store = workshop.store()
    put(store, SMALL)
    put(store, LARGE)
    store.flush()
    assert list(target.iterdir()) == []
    assert len(store.health.warnings()) == 1


def test_folders_and_files_are_private(workshop):
    old = os.umask(0)
    try:
        store = workshop.store()
        put(store, LARGE)
        put(store, SMALL)
        store.pin(value_digest(LARGE))
        store.session.publish()
        store.flush()
    finally:
        os.umask(old)
    for path in (root(workshop), *root(workshop).rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_a_folder_that_others_can_read_becomes_private(workshop):
    root(workshop).mkdir(parents=True)
    root(workshop).chmod(0o755)
    put(workshop.store(), LARGE)
    assert stat.S_IMODE(root(workshop).stat().st_mode) == 0o700


# Several users of one folder.


def test_threads_share_a_store(workshop):
    store = workshop.store(buffer_rows=50)
    wrong = []

    def work(number):
        for i in range(200):
            data = (LARGE if i % 10 == 0 else b"") + b"%d %d" % (number % 2, i)
            if store.value(put(store, data)) != data:
                wrong.append(data)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    store.close()
    assert workshop.store().value(value_digest(b"1 199")) == b"1 199"


WRITER = """
import sys
from pathlib import Path
from presk.cache.digest import value_digest
from presk.cache.store import Store

store = Store(Path(sys.argv[1]), buffer_rows=40, busy_seconds=60.0)
print("ready", flush=True)
sys.stdin.readline()
for i in range(400):
    data = b"%d " % i * (2000 if i % 20 == 0 else 1)
    store.put_value(value_digest(data), data)
    assert store.value(value_digest(data)) == data
store.close()
counts = store.health.counts()
print(counts["unwritten"], counts["rebuilt"], counts["damaged"], flush=True)
"""


def test_two_processes_write_at_once(workshop):
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(workshop.cache)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    assert [process.communicate(timeout=120)[0] for process in processes] == ["0 0 0\n"] * 2
    assert [process.returncode for process in processes] == [0, 0]
    store = workshop.store()
    for i in range(400):
        data = b"%d " % i * (2000 if i % 20 == 0 else 1)
        assert store.value(value_digest(data)) == data


def test_a_process_that_dies_loses_only_what_it_had_not_written(workshop):
    code = WRITER.replace("store.close()", "import os; os._exit(9)")
    process = subprocess.run(
        [sys.executable, "-c", code, str(workshop.cache)], input="go\n", capture_output=True, text=True, check=False
    )
    assert process.returncode == 9
    store = workshop.store()
    found = [store.value(value_digest(b"%d " % i)) for i in range(1, 380) if i % 20]
    assert all(data in (None, b"%d " % i) for i, data in zip((i for i in range(1, 380) if i % 20), found, strict=True))
    assert sum(data is not None for data in found) >= 300
    assert list((root(workshop) / "live").iterdir()) != []
    collect_garbage(store)
    assert [path.name for path in (root(workshop) / "live").iterdir()] in ([], [store.session.token])
    assert list((root(workshop) / "tmp").iterdir()) == []


# Where the store lies.


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"PRESK_CACHE": "/c", "PRESK_HOME": "/p", "XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/c"),
        ({"PRESK_HOME": "/p", "XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/p/cache"),
        ({"XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/x/presk"),
        ({"HOME": "/h"}, "/h/.cache/presk"),
        ({"PRESK_CACHE": "", "PRESK_HOME": "", "XDG_CACHE_HOME": "", "HOME": "/h"}, "/h/.cache/presk"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/h"}, "/h/.cache/presk"),
        ({"PRESK_CACHE": "relative"}, "/d/relative"),
        ({"PRESK_HOME": "relative"}, "/d/relative/cache"),
        ({"HOME": ""}, None),
        ({"HOME": "relative"}, None),
        ({}, None),
    ],
)
def test_the_default_folder_is_that_of_the_environment_given(environment, folder):
    assert default_folder(environment, Path("/d")) == (None if folder is None else Path(folder))


def test_a_relative_folder_needs_a_directory():
    with pytest.raises(ValueError, match="PRESK_CACHE"):
        default_folder({"PRESK_CACHE": "relative"})


def test_digests_are_plain_bytes():
    assert isinstance(Digest(KEY), bytes)
