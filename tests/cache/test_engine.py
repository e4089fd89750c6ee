"""The engine: what is computed, what is reused, and what never is."""

import threading
from typing import Any

import pytest
from gmpy2 import mpq

from presk.cache.codec import BYTES, TEXT, struct_codec
from presk.cache.engine import Engine
from presk.cache.fingerprint import Fingerprints
from presk.cache.maintain import collect_garbage
from presk.cache.packages import Packages
from presk.cache.stage import NotDeterministic, NotFaithful, Stage, StageCycle, Transient
from tests.cache.faults import FaultyFiles
from tests.cache.support import (
    CHECK,
    DECLARATION,
    FAIL,
    HURRY,
    HURRY_TWICE,
    LONGEST,
    NAMES,
    SHEET,
    SHOUT,
    SPLIT,
    VALUE_OF,
    VALUES_OF_SHEET,
    Declaration,
    Value,
    check,
)


def counts(log):
    """Stage → computed, from memory, from the disk."""
    return {name: (log.counts(name).computed, log.counts(name).memory, log.counts(name).disk) for name in log.stages()}


def test_everything_is_computed_once(workshop):
    engine = workshop.engine()
    values, log = check(engine, SHEET)
    assert values == VALUES_OF_SHEET
    assert log.computed("value") == NAMES
    assert counts(log) == {"check": (1, 0, 0), "split": (1, 0, 0), "value": (5, 0, 0)}
    values, log = check(engine, SHEET)
    assert values == VALUES_OF_SHEET
    assert counts(log) == {"check": (0, 1, 0)}


def test_another_process_reuses_what_is_on_the_disk(workshop):
    first = workshop.store()
    check(workshop.engine(first), SHEET)
    first.close()
    engine = workshop.engine(workshop.store())
    values, log = check(engine, SHEET)
    assert values == VALUES_OF_SHEET
    assert counts(log) == {"check": (0, 0, 1)}
    _, log = check(engine, SHEET)
    assert counts(log) == {"check": (0, 1, 0)}


@pytest.mark.parametrize("disk", [False, True])
def test_an_edit_redoes_what_it_reaches_and_no_more(workshop, disk):
    """Versions of a sheet, and the names whose value is computed at each step."""
    store = workshop.store() if disk else None
    engine = workshop.engine(store)
    for sheet, computed in (
        (SHEET, NAMES),
        ("# a comment on top\n" + SHEET, set()),
        (SHEET.replace("half + 3", "half + 4"), {"sum", "twice"}),
        (SHEET.replace("half + 3", "3 + half"), {"sum"}),
        (SHEET.replace("lone = 7", "lone = 8"), {"lone"}),
        (SHEET.replace("lone = 7\n", ""), set()),
        (SHEET.replace("one = 1\n", "one = 1\nfresh = 2\n"), {"fresh"}),
        (SHEET.replace("one = 1\n", "one = 9\n"), {"one", "sum", "twice"}),
        (SHEET.replace("one = 1\n", "one = 2\n"), {"one", "sum"}),  # twice of 11/2 was known
        (SHEET, set()),
    ):
        values, log = check(engine, sheet)
        assert values == check(workshop.engine(), sheet)[0]
        assert log.computed("value") == computed
        if store is not None:
            store.close()
            store = workshop.store()
            engine = workshop.engine(store)


def test_an_equal_result_stops_the_wave(workshop):
    engine = workshop.engine()
    check(engine, SHEET)
    _, log = check(engine, SHEET.replace("half = 1/2", "half = 2/4"))
    assert log.computed("value") == {"half"}
    assert log.counts("value").unchanged == 1
    assert log.counts("check").unchanged == 1


def test_errors_of_the_user_are_kept(workshop):
    engine = workshop.engine()
    values, _ = check(engine, "a = b\nc = a\n")
    assert values == (Value("a", None, "unknown name b"), Value("c", None, "a has no value"))
    again, log = check(engine, "a = b\nc = a\n")
    assert again == values
    assert counts(log) == {"check": (0, 1, 0)}


def test_options_count_and_absent_ones_are_a_value(workshop):
    engine = workshop.engine()
    text = engine.leaf("text", "a", TEXT)
    with engine.request() as log:
        plain = engine.get(SHOUT, text, subject="a")
        assert engine.get(SHOUT, text, subject="a", times=None).digest == plain.digest
        assert engine.get(SHOUT, text, subject="a", mark=None, times=None).value == "A"
        assert engine.get(SHOUT, text, subject="a", times=2).value == "AA"
        assert engine.get(SHOUT, text, subject="a", mark="!").value == "A!"
        assert engine.get(SHOUT, text, subject="a", times=1).value == "A"
        assert engine.get(SHOUT, text, subject="a", times=True).value == "A"
    assert counts(log) == {"shout": (5, 2, 0)}


def test_equal_options_are_equal_however_they_are_given(workshop):
    engine = workshop.engine()
    text = engine.leaf("text", "a", TEXT)
    with engine.request() as log:
        engine.get(SHOUT, text, times=2, mark="!")
        engine.get(SHOUT, text, mark="!", times=2)
        engine.get(SHOUT, engine.leaf("another name", "a", TEXT), times=2, mark="!", subject="other")
    assert counts(log) == {"shout": (1, 2, 0)}


def test_wrong_calls_are_type_errors(workshop):
    engine = workshop.engine()
    text = engine.leaf("text", "a", TEXT)
    for call in (
        lambda: engine.get(SHOUT, text, size=1),
        lambda: engine.get(SHOUT, text, times=[1]),
        lambda: engine.get(SHOUT),
        lambda: engine.get(SHOUT, text, text),
        lambda: engine.get(SHOUT, "a"),
        lambda: engine.get(SHOUT, workshop.engine().leaf("text", "a", TEXT)),
        lambda: engine.group("g", {"a": "a"}),
        lambda: engine.leaf("text", b"a", TEXT),
    ):
        with pytest.raises(TypeError):
            call()


def test_the_encoding_of_an_input_counts(workshop):
    """The text "a", the bytes "a", and a structure with the same encoding are three inputs."""
    engine = workshop.engine()
    nothing = struct_codec(None, "nothing")
    absent = struct_codec(int | None, "number or nothing")
    with engine.request() as log:
        for given in (
            engine.leaf("x", "a", TEXT),
            engine.bytes("x", b"a"),
            engine.leaf("x", None, nothing),
            engine.leaf("x", None, absent),
        ):
            engine.get(LENGTH, given)
    assert counts(log) == {"length": (4, 0, 0)}


def _length(x: object) -> str:
    return str(x)


LENGTH = Stage("length", "fake.other", (), _length, TEXT)


def test_any_number_of_inputs(workshop):
    engine = workshop.engine()
    a, b = (engine.leaf("text", text, TEXT) for text in ("a", "bb"))
    with engine.request() as log:
        assert engine.get(LONGEST).value == ""
        assert engine.get(LONGEST, a).value == "a"
        assert engine.get(LONGEST, a, b).value == "bb"
        assert engine.get(LONGEST, b, a).value == "bb"
        assert engine.get(LONGEST, a, b).value == "bb"
    assert counts(log) == {"longest": (4, 1, 0)}


def test_groups_are_keyed_by_names_and_digests(workshop):
    engine = workshop.engine()
    declaration = engine.leaf("d", Declaration("sum", ("a", "b")), DECLARATION)
    one, two = (
        engine.get(VALUE_OF, engine.leaf("d", Declaration(n, (n,)), DECLARATION), engine.group("names", {}))
        for n in "12"
    )

    def ask(**names):
        with engine.request() as log:
            value = engine.get(VALUE_OF, declaration, engine.group("names", names), subject="sum").value
        return value.number, log.counts("value").computed

    assert ask(a=one, b=two) == (3, 1)
    assert ask(b=two, a=one) == (3, 0)
    assert ask(a=two, b=one) == (3, 1)
    assert ask(a=two, b=two) == (4, 1)
    assert ask(a=one, b=two, c=one) == (3, 1)
    assert ask(a=one) == (None, 1)


def test_a_group_is_a_mapping_in_the_order_of_its_names(workshop):
    engine = workshop.engine()
    texts = {name: engine.leaf(name, name.upper(), TEXT) for name in ("b", "a", "c")}
    group = engine.group("g", texts)
    assert dict(group.value) == {"a": "A", "b": "B", "c": "C"}
    assert list(group.value) == ["a", "b", "c"]
    assert len(group.value) == 3
    assert "b" in group.value
    assert "d" not in group.value
    nested = engine.group("outer", {"inner": group})
    assert nested.value["inner"]["c"] == "C"
    assert nested.digest != group.digest
    assert engine.group("other name", texts).digest == group.digest


def test_an_exception_passes_and_nothing_is_kept(workshop):
    store = workshop.store()
    engine = workshop.engine(store)
    text = engine.leaf("text", "a", TEXT)
    for _ in range(2):
        with engine.request() as log, pytest.raises(RuntimeError, match="a bug in the stage: a"):
            engine.get(FAIL, text)
        assert log.stages() == ()
    store.flush()
    assert list(store.rows.keys(b"k")) == []


def test_transient_answers_are_used_and_not_kept(workshop):
    store = workshop.store()
    engine = workshop.engine(store)
    slow, quick = engine.leaf("text", "slow", TEXT), engine.leaf("text", "quick", TEXT)
    with engine.request() as log:
        assert [engine.get(HURRY, slow).value for _ in range(2)] == ["out of time"] * 2
        assert [engine.get(HURRY, quick).value for _ in range(2)] == ["quick"] * 2
    assert counts(log) == {"hurry": (3, 1, 0)}
    assert len(list(store.rows.keys(b"k"))) == 1


def test_an_answer_made_with_a_transient_one_is_not_kept(workshop):
    store = workshop.store()
    engine = workshop.engine(store)
    slow, quick = engine.leaf("text", "slow", TEXT), engine.leaf("text", "quick", TEXT)
    for _ in range(2):
        with engine.request() as log:
            assert engine.get(HURRY_TWICE, slow).value == "out of time" * 2
            assert engine.get(HURRY_TWICE, quick).value == "quickquick"
    assert counts(log) == {"hurry twice": (1, 1, 0), "hurry": (1, 0, 0)}
    assert len(list(store.rows.keys(b"k"))) == 2


def test_what_depends_on_a_transient_value_by_its_digest_is_kept(workshop):
    """It is a function of that value, whatever became of it."""
    engine = workshop.engine()
    slow = engine.leaf("text", "slow", TEXT)
    with engine.request() as log:
        for _ in range(2):
            assert engine.get(SHOUT, engine.get(HURRY, slow)).value == "OUT OF TIME"
    assert counts(log) == {"hurry": (2, 0, 0), "shout": (1, 1, 0)}


class Counted:
    """A codec that counts decoding."""

    name = "counted"
    weight = 1

    def __init__(self):
        self.decoded = 0

    def encode(self, value):
        return TEXT.encode(value)

    def decode(self, data):
        self.decoded += 1
        return TEXT.decode(data)


COUNTED = Counted()
LAZY = Stage("lazy", "fake.other", (), lambda text: text + "!", COUNTED)


def test_an_answer_from_the_disk_is_decoded_when_it_is_read(workshop):
    first = workshop.store()
    engine = workshop.engine(first)
    engine.get(SHOUT, engine.get(LAZY, engine.leaf("text", "a", TEXT))).value  # noqa: B018
    first.close()
    files = FaultyFiles()
    engine = workshop.engine(workshop.store(files=files))
    COUNTED.decoded = 0
    lazy = engine.get(LAZY, engine.leaf("text", "a", TEXT))
    assert engine.get(SHOUT, lazy).value == "A!"
    assert COUNTED.decoded == 0
    assert [lazy.value, lazy.value, engine.get(LAZY, engine.leaf("text", "a", TEXT)).value] == ["a!"] * 3
    assert COUNTED.decoded == 1


def lose_values(store):
    store.flush()
    for key in list(store.rows.keys(b"v")):
        store.rows.drop(key)
    for digest, _, _ in store.blobs.scan():
        store.blobs.remove(digest)


def test_a_lost_value_is_computed_again(workshop):
    first = workshop.store()
    check(workshop.engine(first), SHEET)
    lose_values(first)
    first.close()
    engine = workshop.engine(workshop.store())
    values, log = check(engine, SHEET)
    assert values == VALUES_OF_SHEET
    assert log.computed("value") == NAMES
    values, log = check(engine, SHEET)
    assert (values, counts(log)) == (VALUES_OF_SHEET, {"check": (0, 1, 0)})


def test_a_lost_value_is_computed_again_where_the_disk_cannot_be_written(workshop):
    first = workshop.store()
    engine = workshop.engine(first)
    engine.get(SHOUT, engine.leaf("text", "a" * 5000, TEXT))
    lose_values(first)
    first.close()
    files = FaultyFiles(index_open=lambda: OSError("read-only"), remove=lambda: OSError("read-only"))
    engine = workshop.engine(workshop.store(files=files))
    assert engine.get(SHOUT, engine.leaf("text", "a" * 5000, TEXT)).value == "A" * 5000


STATE = {"calls": 0}


def _counter(text: str) -> str:
    STATE["calls"] += 1
    return f"{text} {STATE['calls']}"


COUNTER = Stage("counter", "fake.other", (), _counter, TEXT)


def test_a_stage_that_is_no_function_is_found_when_its_value_is_lost(workshop):
    first = workshop.store()
    engine = workshop.engine(first)
    engine.get(COUNTER, engine.leaf("text", "a", TEXT))
    lose_values(first)
    first.close()
    engine = workshop.engine(workshop.store())
    answer = engine.get(COUNTER, engine.leaf("text", "a", TEXT))
    with pytest.raises(NotDeterministic, match="counter"):
        answer.value  # noqa: B018


UNFAITHFUL = Stage(
    "unfaithful", "fake.other", (), lambda text: {"b": text, "a": text}, struct_codec(dict[str, int], "d")
)
WRONG = Stage("wrong", "fake.other", (), lambda text: Value("a", 1), struct_codec(Value, "value"))


def test_roundtrip_engines_hand_out_decoded_values(workshop):
    text = "a"
    engine = workshop.engine(roundtrip=True)
    values, _ = check(engine, SHEET)
    assert values == VALUES_OF_SHEET
    with pytest.raises(ValueError):
        engine.get(UNFAITHFUL, engine.leaf("text", text, TEXT))
    with pytest.raises(ValueError):
        engine.get(WRONG, engine.leaf("text", text, TEXT))
    plain = workshop.engine()
    assert plain.get(UNFAITHFUL, plain.leaf("text", text, TEXT)).value == {"b": text, "a": text}


class Forgetful:
    """A codec that loses the case of letters."""

    name = "forgetful"
    weight = 1

    def encode(self, value):
        return value.encode()

    def decode(self, data):
        return data.decode().lower()


def test_a_codec_that_loses_something_is_found(workshop):
    stage = Stage("loses", "fake.other", (), lambda text: text.upper(), Forgetful())
    engine = workshop.engine(roundtrip=True)
    with pytest.raises(NotFaithful, match="loses"):
        engine.get(stage, engine.leaf("text", "a", TEXT))


def test_engines_share_nothing(workshop):
    """Two in one process, with other sources: neither sees the other's answers, stages or logs."""
    engines = [workshop.engine() for _ in range(2)]
    for engine in engines:
        with engines[0].request() as other:
            _, log = check(engine, SHEET)
        assert counts(log) == {"check": (1, 0, 0), "split": (1, 0, 0), "value": (5, 0, 0)}
        assert engine is engines[0] or counts(other) == {}


def test_engines_with_other_code_share_a_store_without_meeting(workshop):
    store = workshop.store()
    old = workshop.engine(store)
    check(old, SHEET)
    path = workshop.project["fake"] / "value.py"
    path.write_text(path.read_text() + "# edited\n")
    new = Engine(store, project=workshop.project)
    _, log = check(new, SHEET)
    assert counts(log) == {"check": (1, 0, 0), "split": (0, 0, 1), "value": (5, 0, 0)}
    _, log = check(old, SHEET)
    assert counts(log) == {"check": (0, 1, 0)}
    _, log = check(Engine(store, project=workshop.project), SHEET)
    assert counts(log) == {"check": (0, 0, 1)}


@pytest.mark.parametrize(
    ("file", "recomputed"),
    [
        ("tree.py", {"check", "split", "value"}),
        ("split.py", {"check", "split"}),
        ("words.txt", {"check", "split"}),
        ("value.py", {"check", "value"}),
        ("check.py", {"check"}),
        ("other.py", set()),
    ],
)
def test_editing_a_module_redoes_the_stages_that_reach_it(workshop, file, recomputed):
    """Item 4 of the requirements on the daemon: the tool's own code is in the key, by content."""
    first = workshop.store()
    check(workshop.engine(first), SHEET)
    first.close()
    path = workshop.project["fake"] / file
    path.write_text(path.read_text() + "# edited\n")
    _, log = check(Engine(workshop.store(), project=workshop.project), SHEET)
    assert {name for name in log.stages() if log.counts(name).computed} == recomputed


def test_another_version_of_a_declared_package_redoes_the_stage(workshop):
    stage = Stage("packaged", "fake.other", (), lambda text: text, TEXT, packages=("lark",))
    store = workshop.store()
    computed = []
    for version in ("1.0", "1.1", "1.0"):
        engine = Engine(store, project=workshop.project, packages=Packages({"lark": lambda: version}))  # noqa: B023
        with engine.request() as log:
            engine.get(stage, engine.leaf("text", "a", TEXT))
        computed.append(log.counts("packaged").computed)
    assert computed == [1, 1, 0]


def test_two_stages_of_one_name_are_refused(workshop):
    engine = workshop.engine()
    text = engine.leaf("text", "a", TEXT)
    engine.get(SHOUT, text)
    same = Stage("shout", "fake.other", ("times", "mark"), SHOUT.run, TEXT)
    assert engine.get(same, text).value == "A"
    for other in (
        Stage("shout", "fake.other", (), lambda text: text, TEXT),
        Stage("shout", "fake.tree", ("times", "mark"), SHOUT.run, TEXT),
        Stage[Any]("shout", "fake.other", ("times", "mark"), SHOUT.run, BYTES),
    ):
        with pytest.raises(TypeError, match="two stages"):
            engine.get(other, text)


def _unreached(queries, text):
    return queries.get(SHOUT, text).value


def _unpackaged(queries, text):
    return queries.get(PACKAGED, text).value


PACKAGED = Stage("packaged", "fake.other", (), lambda text: text, TEXT, packages=("lark",))


@pytest.mark.parametrize(
    "stage",
    [
        Stage("unreached", "fake.check", (), _unreached, TEXT, composite=True),
        Stage("unpackaged", "fake.other", (), _unpackaged, TEXT, composite=True),
    ],
)
def test_a_composite_stage_whose_key_does_not_cover_what_it_asks_is_refused(workshop, stage):
    engine = workshop.engine()
    with pytest.raises(TypeError, match="asks"):
        engine.get(stage, engine.leaf("text", "a", TEXT))


def _around(queries, text):
    return queries.get(AROUND, text).value


AROUND = Stage("around", "fake.other", (), _around, TEXT, composite=True)


def test_a_stage_that_asks_for_itself_is_an_error(workshop):
    engine = workshop.engine()
    with pytest.raises(StageCycle):
        engine.get(AROUND, engine.leaf("text", "a", TEXT))
    assert engine.get(SHOUT, engine.leaf("text", "a", TEXT)).value == "A"


# Memory is bounded.


def test_memory_is_bounded_by_the_number_of_answers(workshop):
    engine = workshop.engine(memory_entries=3)
    texts = [engine.leaf("text", f"text {i}", TEXT) for i in range(4)]
    for text in texts:
        engine.get(SHOUT, text)
    engine.get(SHOUT, texts[1])
    engine.get(SHOUT, texts[0])
    with engine.request() as log:
        for number in (0, 3, 1, 2):
            assert engine.get(SHOUT, texts[number], subject=str(number)).value == f"TEXT {number}"
    assert log.computed("shout") == {"2"}


def test_memory_is_bounded_by_bytes(workshop):
    engine = workshop.engine(memory_bytes=50_000)
    texts = [engine.leaf("text", f"{i}" * 20_000, TEXT) for i in range(4)]
    for text in texts:
        engine.get(SHOUT, text)
    assert engine._memory.bytes <= 50_000
    with engine.request() as log:
        for number in (3, 2, 0):
            engine.get(SHOUT, texts[number], subject=str(number))
    assert log.computed("shout") == {"0"}


def test_an_answer_too_large_for_memory_is_given(workshop):
    store = workshop.store()
    engine = workshop.engine(store, memory_bytes=1000)
    text = engine.leaf("text", "a" * 20_000, TEXT)
    for expected in ((1, 0, 0), (0, 0, 1)):
        with engine.request() as log:
            assert engine.get(SHOUT, text).value == "A" * 20_000
        assert counts(log) == {"shout": expected}


def test_what_a_request_uses_stays_on_the_disk(workshop):
    first = workshop.store()
    engine = workshop.engine(first)
    engine.get(SHOUT, engine.leaf("text", "a" * 20_000, TEXT))
    first.close()
    store = workshop.store()
    engine = workshop.engine(store)
    with engine.request() as log:
        answer = engine.get(SHOUT, engine.leaf("text", "a" * 20_000, TEXT))
        made = engine.get(SHOUT, engine.leaf("text", "b" * 20_000, TEXT))
        collect_garbage(store, 0)
        assert answer.value == "A" * 20_000
        assert store.value(made.digest) == b"B" * 20_000
    assert counts(log) == {"shout": (1, 0, 1)}
    collect_garbage(store, 0)
    assert store.value(made.digest) is None


# Several threads.

GATE = threading.Event()
ENTERED = threading.Semaphore(0)


def _slow(text: str) -> str | Transient[str]:
    ENTERED.release()
    assert GATE.wait(30)
    if text == "bad":
        raise RuntimeError("a bug in the stage")
    return Transient(text) if text == "passing" else text.upper()


SLOW = Stage("slow", "fake.other", (), _slow, TEXT)


def ask_in_threads(engine, text, number):
    """Threads that ask for one answer; how they fared once all but the first wait and the stage goes on."""
    outcomes = []

    def work():
        try:
            outcomes.append(engine.get(SLOW, engine.leaf("text", text, TEXT)).value)
        except RuntimeError as error:
            outcomes.append(str(error))

    GATE.clear()
    threads = [threading.Thread(target=work) for _ in range(number)]
    for thread in threads:
        thread.start()
    assert ENTERED.acquire(timeout=30)
    while engine._flights.waiting() < number - 1:
        assert not GATE.wait(0.001)
    GATE.set()
    for thread in threads:
        thread.join(30)
    return outcomes


@pytest.mark.parametrize(("text", "outcome"), [("a", "A"), ("passing", "passing")])
def test_an_answer_under_way_is_computed_once(workshop, text, outcome):
    engine = workshop.engine()
    assert ask_in_threads(engine, text, 5) == [outcome] * 5
    assert not ENTERED.acquire(blocking=False)


def test_whoever_waited_for_a_failed_computation_tries_by_itself(workshop):
    engine = workshop.engine()
    assert ask_in_threads(engine, "bad", 3) == ["a bug in the stage"] * 3
    assert all(ENTERED.acquire(blocking=False) for _ in range(2))


BARRIER = threading.Barrier(2)


def _ping(queries, text):
    BARRIER.wait(30)
    return queries.get(PONG, text).value


def _pong(queries, text):
    BARRIER.wait(30)
    return queries.get(PING, text).value


PING = Stage("ping", "fake.other", (), _ping, TEXT, composite=True)
PONG = Stage("pong", "fake.other", (), _pong, TEXT, composite=True)


def test_stages_that_wait_for_each_other_in_two_threads_are_a_cycle(workshop):
    engine = workshop.engine()
    caught: list[StageCycle | None] = []

    def work(stage):
        try:
            engine.get(stage, engine.leaf("text", "a", TEXT))
        except StageCycle as error:
            caught.append(error)
        except threading.BrokenBarrierError:
            caught.append(None)

    threads = [threading.Thread(target=work, args=(stage,)) for stage in (PING, PONG)]
    for thread in threads:
        thread.start()
    # The thread that waited tries by itself when the other has failed, and is alone then.
    while not caught:
        threads[0].join(0.01)
    BARRIER.abort()
    for thread in threads:
        thread.join(30)
    BARRIER.reset()
    assert len(caught) == 2
    assert any(isinstance(error, StageCycle) for error in caught)


def test_many_threads_ask_an_engine(workshop):
    store = workshop.store(buffer_rows=20)
    engine = workshop.engine(store)
    wrong = []

    def work(number):
        for version in range(30):
            sheet = SHEET.replace("lone = 7", f"lone = {(version * number) % 7}")
            values, _ = check(engine, sheet)
            if values[3] != Value("lone", mpq((version * number) % 7)):
                wrong.append(values)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_log_can_be_shared_by_threads(workshop):
    engine = workshop.engine()

    def work():
        with engine.request(log):
            engine.get(SPLIT, engine.bytes("source", b""), subject="thread")

    with engine.request() as log:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        engine.get(SPLIT, engine.bytes("source", b""), subject="main")
    assert counts(log) == {"split": (1, 1, 0)}


def test_events_go_to_the_innermost_request_of_the_thread(workshop):
    engine = workshop.engine()
    with engine.request() as outer:
        engine.get(SPLIT, engine.bytes("source", b"a"))
        with engine.request() as inner:
            engine.get(SPLIT, engine.bytes("source", b"b"))
        engine.get(SPLIT, engine.bytes("source", b"c"))
    engine.get(SPLIT, engine.bytes("source", b"d"))
    assert (counts(outer), counts(inner)) == ({"split": (2, 0, 0)}, {"split": (1, 0, 0)})


def test_sources_are_found_without_being_told(workshop):
    """Of the project itself: a stage that lives in this package."""
    engine = Engine(fingerprints=Fingerprints())
    stage = Stage("real", "presk.cache.stage", (), lambda text: text, TEXT)
    assert engine.get(stage, engine.leaf("text", "a", TEXT)).value == "a"


def test_check_is_one_answer(workshop):
    """The composite stage's own answer holds the values: nothing else is read when it is reused."""
    first = workshop.store()
    check(workshop.engine(first), SHEET)
    first.close()
    store = workshop.store()
    check(workshop.engine(store), SHEET)
    assert (store.health.counts()["record hits"], store.health.counts()["value hits"]) == (2, 1)
    assert CHECK.composite
