"""The store keeps its bound: what was used least recently goes, what is pinned stays."""

import os
import random
import subprocess
import sys

import pytest

from presk.cache.digest import value_digest
from presk.cache.layout import on_disk
from presk.cache.maintain import check_entries, clear, collect_garbage, statistics
from presk.cache.rows import ROW_OVERHEAD
from presk.cache.store import FORMAT

SIZE = 10_000
BLOB = on_disk(SIZE) + ROW_OVERHEAD + 41
"""What a blob of that size counts: the file, and a row with a mark, a key and a size."""


class Clock:
    """Time that passes by a second whenever somebody looks."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


@pytest.fixture
def clock():
    return Clock()


def large(number):
    return random.Random(number).randbytes(SIZE)


def put(store, data):
    digest = value_digest(data)
    store.put_value(digest, data)
    return digest


def used_on_disk(workshop):
    return sum(path.stat().st_size for path in (workshop.cache / FORMAT).rglob("*") if path.is_file())


def kept(store, digests):
    return [number for number, digest in enumerate(digests) if os.path.exists(store.blobs.path(digest))]


def test_what_counts_is_known_to_the_byte(workshop):
    store = workshop.store()
    put(store, large(0))
    put(store, b"small")
    store.rows.flush()
    assert store.rows.run(lambda index: index.totals(), None) == (2, BLOB + ROW_OVERHEAD + 33 + len(b"small"))


def test_the_least_recently_used_go_first(workshop, clock):
    store = workshop.store(clock=clock)
    digests = [put(store, large(i)) for i in range(6)]
    store.flush()
    for number in (1, 4, 0):
        assert store.value(digests[number]) == large(number)
    collected = collect_garbage(store, 3 * BLOB + 500)
    assert kept(store, digests) == [0, 1, 4]
    assert collected.entries >= 3
    assert store.health.counts()["evicted"] == collected.entries


def test_uses_by_another_process_count_too(workshop, clock):
    first = workshop.store(clock=clock, use_resolution=0.0)
    digests = [put(first, large(i)) for i in range(4)]
    first.flush()
    second = workshop.store(clock=clock, use_resolution=0.0)
    second.value(digests[0])
    second.flush()
    collect_garbage(first, BLOB + 500)
    assert kept(first, digests) == [0]


def test_uses_from_memory_count_too(workshop, clock):
    store = workshop.store(clock=clock)
    digests = [put(store, large(i)) for i in range(4)]
    store.flush()
    store.touch(value_digest(b"its key"), digests[1])
    collect_garbage(store, BLOB + 500)
    assert kept(store, digests) == [1]


def test_a_use_is_written_when_the_last_is_old(workshop):
    now = [1000.0]
    first = workshop.store(clock=lambda: now[0])
    digest = put(first, large(0))
    first.flush()
    for later, written in ((599.0, 1000.0), (601.0, 1601.0)):
        now[0] = 1000.0 + later
        store = workshop.store(clock=lambda: now[0])
        assert store.value(digest) == large(0)
        store.flush()
        assert store.rows.run(lambda index: index.fetch(b"v" + digest), None)[1] == written


def test_writing_keeps_the_bound(workshop):
    bound = 40 * BLOB
    store = workshop.store(max_bytes=bound)
    for i in range(120):
        put(store, large(i))
        store.flush()
        entries, size = store.rows.run(lambda index: index.totals(), None)
        assert size <= bound
    assert used_on_disk(workshop) <= bound + 100_000
    assert 30 <= entries <= 40
    assert store.value(value_digest(large(119))) == large(119)
    assert store.value(value_digest(large(0))) is None


def test_small_values_are_bounded_as_well(workshop):
    store = workshop.store(max_bytes=200_000)
    for i in range(4000):
        put(store, b"small %d" % i)
        if i % 100 == 99:
            store.flush()
    assert used_on_disk(workshop) <= 400_000
    assert store.value(value_digest(b"small 3999")) == b"small 3999"


def test_what_is_pinned_stays(workshop, clock):
    store = workshop.store(clock=clock)
    digests = [put(store, large(i)) for i in range(5)]
    for number in (0, 2, 2):
        store.pin(digests[number])
    collect_garbage(store, 0)
    assert kept(store, digests) == [0, 2]
    store.unpin([digests[0], digests[2]])
    collect_garbage(store, 0)
    assert kept(store, digests) == [2]
    store.unpin([digests[2]])
    collect_garbage(store, 0)
    assert kept(store, digests) == []


PINNER = """
import sys
from pathlib import Path
from presk.cache.digest import parse_digest
from presk.cache.store import Store

store = Store(Path(sys.argv[1]))
store.pin(parse_digest(sys.argv[2]))
store.session.publish()
print("pinned", flush=True)
sys.stdin.readline()
"""


def test_what_another_process_pins_stays_until_it_ends(workshop, clock):
    """Killed, not ended: its lock is gone, so its pins are."""
    store = workshop.store(clock=clock)
    digests = [put(store, large(i)) for i in range(3)]
    store.flush()
    with subprocess.Popen(
        [sys.executable, "-c", PINNER, str(workshop.cache), digests[1].hex()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"pinned\n"
        collect_garbage(store, 0)
        assert kept(store, digests) == [1]
        process.kill()
        process.wait()
    collect_garbage(store, 0)
    assert kept(store, digests) == []


def test_many_pins_are_shown_to_others_by_themselves(workshop):
    first, second = workshop.store(), workshop.store()
    digests = [put(first, large(i)) for i in range(3)]
    first.flush()
    first.pin(digests[2])
    for i in range(255):
        first.pin(value_digest(b"%d" % i))
    collect_garbage(second, 0)
    assert kept(second, digests) == [2]


def test_temporary_files_of_dead_processes_are_removed(workshop):
    store = workshop.store()
    put(store, large(0))
    tmp = workshop.cache / FORMAT / "tmp"
    (tmp / "0123456789abcdef-1").write_bytes(b"left over")
    mine = tmp / f"{store.session.token}-99"
    mine.write_bytes(b"in use")
    collect_garbage(store)
    assert list(tmp.iterdir()) == [mine]


def test_collecting_makes_index_and_files_agree(workshop):
    store = workshop.store()
    digests = [put(store, large(i)) for i in range(4)]
    store.flush()
    os.unlink(store.blobs.path(digests[0]))
    store.rows.run(lambda index: index.drop([b"v" + digests[1]]), None)
    collect_garbage(store)
    store.flush()
    values = {key[1:] for key in store.rows.keys(b"v")}
    assert values == {digests[1], digests[2], digests[3]}
    assert store.rows.run(lambda index: index.totals(), None)[0] == 3 + len(list(store.rows.keys(b"m")))


def test_clearing_removes_everything(workshop):
    store = workshop.store()
    digests = [put(store, large(0)), put(store, b"small")]
    store.flush()
    cleared = clear(store)
    assert cleared.entries == 3
    assert [store.value(digest) for digest in digests] == [None, None]
    assert kept(store, digests[:1]) == []
    assert [store.value(put(store, data)) for data in (large(0), b"small")] == [large(0), b"small"]


def test_checking_finds_and_removes_what_is_damaged(workshop):
    store = workshop.store()
    digests = [put(store, large(i)) for i in range(3)] + [put(store, b"small %d" % i) for i in range(3)]
    store.put_memo("memo", b"bytes")
    store.flush()
    path = store.blobs.path(digests[1])
    with open(path, "r+b") as file:
        file.write(b"damaged")
    os.unlink(store.blobs.path(digests[2]))
    store.rows.run(lambda index: index.write([(b"v" + digests[3], b"i" + bytes(32) + b"other", 5, 1.0)], []), None)
    checked = check_entries(store)
    assert checked.damaged == tuple(
        sorted(
            (
                f"value {digests[1].hex()}: damaged",
                f"value {digests[2].hex()}: missing",
                f"value {digests[3].hex()}: damaged",
            )
        )
    )
    assert checked.entries == 8
    assert check_entries(store).damaged == ()
    assert [store.value(digest) is not None for digest in digests] == [True, False, False, False, True, True]


def test_statistics_are_those_of_all_processes(workshop):
    first = workshop.store()
    digest = put(first, large(0))
    put(first, b"small")
    first.value(digest)
    first.close()
    second = workshop.store()
    second.value(digest)
    second.value(value_digest(b"absent"))
    numbers = statistics(second)
    assert (numbers.values, numbers.answers) == (2, 0)
    assert numbers.folder == str(workshop.cache)
    assert (numbers.counters["value hits"], numbers.counters["value misses"]) == (2, 1)
    assert numbers.counters == statistics(second).counters
    assert "value hits: 2 (values read and sound)\n" in numbers.text()
    assert f"folder: {workshop.cache}\n" in numbers.text()


def test_put_and_get_do_not_slow_down_with_the_number_of_entries(workshop):
    """Counted, not timed: how many rows of the database a look-up and a write go through."""
    store = workshop.store()
    steps: list[int] = []
    for _ in range(2):
        for _ in range(3000):
            put(store, random.Random(len(steps) * 3000 + _).randbytes(40))
        store.flush()
        counted = [0]

        def count(counted=counted):
            counted[0] += 1
            return 0

        connection = store.rows.run(lambda index: index._con, None)
        connection.set_progress_handler(count, 10)
        store.value(value_digest(b"absent"))
        put(store, b"one more %d" % len(steps))
        store.rows.flush()
        connection.set_progress_handler(None, 0)
        steps.append(counted[0])
    assert steps[1] <= steps[0] + 5


def test_uses_do_not_pile_up_in_memory(workshop, monkeypatch):
    monkeypatch.setattr("presk.cache.rows._USES_MAX", 50)
    first = workshop.store()
    digests = [put(first, b"small %d" % i) for i in range(120)]
    first.close()
    store = workshop.store()
    for digest in digests:
        store.value(digest)
        store.touch(value_digest(b"key"), digest)
    assert len(store.rows._uses) < 50
    store.flush()
    assert set(store.rows._due) <= set(store.rows._uses)
