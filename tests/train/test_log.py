"""Logs: what is written reads back, a run that is resumed goes on with its own, nothing foreign is overwritten."""

import json
import math
import os
import resource
import signal
import stat
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from presk.exact.faults import Fault
from presk.train.log import Log, Run, Saved, read_log
from presk.train.report import Evaluation, Step

META: Final = {"program": "9f2c", "seed": "18446744073709551615", "total": 400}

Event = Step | Evaluation | Saved

FIRST: Final = Step(1, 0, 4.6051, 1e-4, 1.25, 0.5, 1024)
SECOND: Final = Step(2, 0, math.nan, 0.1, math.inf, 0.25, 0)


def put(log: Log, events: Sequence[Event]) -> None:
    for event in events:
        match event:
            case Step():
                log.step(event)
            case Evaluation():
                log.evaluation(event)
            case Saved():
                log.checkpoint(event.step, event.path)


def made(path: Path, events: Sequence[Event] = ()) -> None:
    with Log.create(path, "run.jsonl", META) as log:
        put(log, events)


def refused(code: str, what: str) -> Any:
    """A fault of a code that says this."""
    return pytest.raises(Fault, match=what, check=lambda fault: isinstance(fault, Fault) and fault.code == code)


def same(left: object, right: object) -> bool:
    """Equality to which NaN is equal to itself; numbers are the same to the last bit."""
    return repr(left) == repr(right)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.jsonl"


def test_the_lines(path: Path) -> None:
    with Log.create(path, "run.jsonl", META) as log:
        log.step(FIRST)
        log.step(SECOND)
        log.evaluation(Evaluation(2, 4.5, 20, 1.5))
        log.evaluation(Evaluation(2, -math.inf, 20, 1.5))
        log.checkpoint(2, "runs/θ\udcff.safetensors")
        log.end({"step": 2, "why": "done"})
    assert path.read_text("utf-8").splitlines() == [
        '{"kind":"run","log":1,"program":"9f2c","seed":"18446744073709551615","total":400}',
        '{"kind":"step","step":1,"epoch":0,"loss":4.6051,"rate":0.0001,"norm":1.25,"seconds":0.5,"tokens":1024,'
        '"tokens_per_second":2048.0}',
        '{"kind":"step","step":2,"epoch":0,"loss":null,"rate":0.1,"norm":null,"seconds":0.25,"tokens":0,'
        '"tokens_per_second":null,"text":{"loss":"nan","norm":"inf"}}',
        '{"kind":"evaluation","step":2,"loss":4.5,"batches":20,"seconds":1.5}',
        '{"kind":"evaluation","step":2,"loss":null,"batches":20,"seconds":1.5,"text":{"loss":"-inf"}}',
        '{"kind":"checkpoint","step":2,"path":"runs/θ\\\\xff.safetensors"}',
        '{"kind":"end","step":2,"why":"done"}',
    ]
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    found = read_log(path, "run.jsonl")
    assert found.metadata == META
    assert same(found.steps, (FIRST, SECOND))
    assert found.evaluations == (Evaluation(2, 4.5, 20, 1.5), Evaluation(2, -math.inf, 20, 1.5))
    assert found.checkpoints == (Saved(2, "runs/θ\\xff.safetensors"),)
    assert found.end == {"step": 2, "why": "done"}


@contextmanager
def room(size: int) -> Iterator[None]:
    """No file grows beyond `size` bytes."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


NUMBERS: Final = st.floats()
TIMES: Final = st.floats(0, allow_nan=False, allow_infinity=False)
COUNTS: Final = st.integers(0, 2**53)


def events(step: st.SearchStrategy[int]) -> st.SearchStrategy[Event]:
    texts = st.text(st.characters(codec="utf-8"), max_size=20)
    return st.one_of(
        st.builds(Step, step, COUNTS, NUMBERS, NUMBERS, NUMBERS, TIMES, COUNTS),
        st.builds(Evaluation, step, NUMBERS, COUNTS, TIMES),
        st.builds(Saved, step, texts),
    )


@contextmanager
def a_path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder, "run.jsonl")


def of(found: Run) -> tuple[object, ...]:
    return found.steps, found.evaluations, found.checkpoints


def sorted_out(told: Sequence[Event]) -> tuple[object, ...]:
    return tuple(tuple(one for one in told if isinstance(one, kind)) for kind in (Step, Evaluation, Saved))


@given(st.lists(events(st.integers(1, 2**53)), max_size=8))
def test_what_is_written_reads_back_to_the_bit(told: list[Event]) -> None:
    with a_path() as path:
        made(path, told)
        assert same(of(read_log(path, "run.jsonl")), sorted_out(told))
        # Others read it too: no word that JSON does not have.
        for line in path.read_text("utf-8").split("\n")[:-1]:
            json.loads(line, parse_constant=pytest.fail)


@given(st.data())
def test_a_log_that_is_torn_anywhere_goes_on(data: st.DataObject) -> None:
    told = [
        one for number in range(1, 5) for one in data.draw(st.lists(events(st.just(number)), min_size=1, max_size=2))
    ]
    with a_path() as path:
        made(path, told)
        whole = path.read_bytes()
        first = whole.index(b"\n") + 1
        cut = data.draw(st.integers(first, len(whole)))
        behind = data.draw(st.integers(0, 4))
        path.write_bytes(whole[:cut])
        # A line without its line end is as good as whole if all of it is there.
        complete = (
            (whole[:cut] + b"\n").count(b"\n", first)
            if whole[cut : cut + 1] == b"\n"
            else whole.count(b"\n", first, cut)
        )
        assert same(of(read_log(path, "run.jsonl")), sorted_out(told[:complete]))
        after = [Step(number, 0, 0.5, 0.1, 1.0, 1.0, 1) for number in range(behind + 1, 7)]
        with Log.resume(path, "run.jsonl", behind, META, ("program", "seed")) as log:
            put(log, after)
        kept = [one for one in told[:complete] if one.step <= behind]
        found = read_log(path, "run.jsonl")
        assert found.metadata == META
        assert same(of(found), sorted_out([*kept, *after]))
        assert os.listdir(path.parent) == ["run.jsonl"]


def test_a_resumed_run_drops_what_came_after_its_checkpoint_and_the_end(path: Path) -> None:
    with Log.create(path, "run.jsonl", META) as log:
        for number in (1, 2, 3):
            log.step(Step(number, 0, 1.0 / number, 0.1, 1.0, 1.0, 1))
            log.evaluation(Evaluation(number, 2.0, 1, 1.0))
            log.checkpoint(number, f"step-{number}")
        log.end({"step": 3})
    with Log.resume(path, "run.jsonl", 2, {"seed": "other"}) as log:
        log.step(Step(3, 0, 0.3, 0.1, 1.0, 1.0, 1))
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert [(line["kind"], line.get("step")) for line in lines] == [
        ("run", None),
        *((kind, number) for number in (1, 2) for kind in ("step", "evaluation", "checkpoint")),
        ("resume", 2),
        ("step", 3),
    ]
    assert lines[0]["seed"] == META["seed"]
    assert read_log(path, "run.jsonl").end is None


def test_where_there_is_no_log_to_resume_one_is_begun(path: Path) -> None:
    for _ in range(2):
        with Log.resume(path, "run.jsonl", 7, META, ("program",)) as log:
            log.step(Step(8, 1, 0.3, 0.1, 1.0, 1.0, 1))
        assert [json.loads(line)["kind"] for line in path.read_text("utf-8").splitlines()] == ["run", "resume", "step"]
        path.write_bytes(b"")


def test_the_log_of_another_run_is_not_gone_on_with(path: Path) -> None:
    made(path, [FIRST])
    before = path.read_bytes()
    with refused("E9003", 'its seed is `"18446744073709551615"`, here it is `"5"`'):
        Log.resume(path, "run.jsonl", 1, {**META, "seed": "5"}, ("program", "seed"))
    with refused("E9003", "its data is not given, here it is"):
        Log.resume(path, "run.jsonl", 1, {**META, "data": "77"}, ("data",))
    assert path.read_bytes() == before


def test_an_older_log_is_replaced_by_a_new_run(path: Path) -> None:
    made(path, [FIRST, SECOND])
    path.chmod(0o600)
    made(path)
    assert read_log(path, "run.jsonl") == Run(META, ())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_an_empty_file_is_taken_and_a_link_is_followed(path: Path) -> None:
    path.touch()
    link = path.with_name("link")
    link.symlink_to(path)
    made(link, [FIRST])
    assert link.is_symlink()
    assert read_log(path, "run.jsonl").steps == (FIRST,)


FOREIGN: Final = (
    b"to be or not to be\n",
    b"\xff\xfe\x00",
    b"{}\n",
    b'{"kind":"run"}\n',
    b'{"kind":"run","log":2}\n',
    b'{"kind":"step","step":1}\n',
    b'{"kind":"run","log":1}',
    b"[1, 2]\n",
    b"[" * 100_000 + b"\n",
    b"\n",
)


@pytest.mark.parametrize("content", FOREIGN, ids=range(len(FOREIGN)))
def test_a_foreign_file_is_refused_and_stays(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    for attempt in (
        lambda: Log.create(path, "run.jsonl", META),
        lambda: Log.resume(path, "run.jsonl", 1, META),
        lambda: read_log(path, "run.jsonl"),
    ):
        with refused("E9002", "^`run.jsonl` is not the log of a run$"):
            attempt()
    assert path.read_bytes() == content
    assert os.listdir(path.parent) == ["run.jsonl"]


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b'{"kind":"step","step":1}',
        b'{"kind":"other","step":1}',
        b'{"kind":"evaluation","step":"1","loss":1.0,"batches":1,"seconds":1.0}',
        b'{"kind":"evaluation","step":1,"loss":null,"batches":1,"seconds":1.0,"text":{"loss":"x"}}',
        b"\x00\x00",
    ],
)
def test_a_damaged_line_is_named_and_nothing_is_dropped_silently(path: Path, line: bytes) -> None:
    made(path, [FIRST])
    damaged = path.read_bytes() + line + b"\n" + b'{"kind":"resume","step":1}\n'
    path.write_bytes(damaged)
    for attempt in (lambda: Log.resume(path, "run.jsonl", 1, META), lambda: read_log(path, "run.jsonl")):
        with refused("E9002", "^`run.jsonl` is damaged: line 3 is no line of a log$"):
            attempt()
    assert path.read_bytes() == damaged


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, why in (
        ("", "it is a folder"),
        ("pipe", "it is a pipe or a device"),
        ("missing/run.jsonl", "no such file or directory"),
        ("nul\0", "its name is not a file name"),
    ):
        with refused("E9002", f"`run.jsonl` cannot be (written|read): {why}"):
            Log.create(tmp_path / name, "run.jsonl", META)
    with refused("E9002", "cannot be read: no such file or directory"):
        read_log(tmp_path / "run.jsonl", "run.jsonl")
    with refused("E9002", "cannot be read: is a directory"):
        read_log(tmp_path, "run.jsonl")


def test_two_runs_do_not_share_a_log(path: Path) -> None:
    with Log.create(path, "run.jsonl", META) as log:
        for attempt in (
            lambda: Log.create(path, "run.jsonl", META),
            lambda: Log.resume(path, "run.jsonl", 1, META),
        ):
            with refused("E9002", "is being written by another run"):
                attempt()
        log.step(FIRST)
        # Reading is free at any time, and finds every line.
        assert read_log(path, "run.jsonl").steps == (FIRST,)
    made(path)


def test_a_disk_that_takes_no_more_leaves_whole_lines(path: Path) -> None:
    with Log.create(path, "run.jsonl", META) as log:
        log.step(FIRST)
        before = path.read_bytes()
        # Room for a part of the next line.
        with room(len(before) + 10), refused("E8008", "^the log `run.jsonl` cannot be written: file too large$"):
            log.step(SECOND)
        assert path.read_bytes() == before
        # Room was made.
        log.step(SECOND)
    assert same(read_log(path, "run.jsonl").steps, (FIRST, SECOND))


def test_a_log_that_cannot_be_written_anew_stays_as_it_was(path: Path) -> None:
    made(path, [FIRST, SECOND])
    before = path.read_bytes()
    for attempt in (lambda: Log.create(path, "run.jsonl", META), lambda: Log.resume(path, "run.jsonl", 1, META)):
        with room(20), refused("E9002", "^`run.jsonl` cannot be written: file too large$"):
            attempt()
        assert path.read_bytes() == before
        assert os.listdir(path.parent) == ["run.jsonl"]


def test_a_run_that_is_killed_has_logged_all_it_did(path: Path) -> None:
    program = textwrap.dedent(f"""
        import os, signal
        from pathlib import Path
        from presk.train.log import Log
        from presk.train.report import Step
        log = Log.create(Path({str(path)!r}), "run.jsonl", {{}})
        for number in range(1, 101):
            log.step(Step(number, 0, 1.5, 0.1, 1.0, 0.001, 64))
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    ended = subprocess.run([sys.executable, "-c", program], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert [step.step for step in read_log(path, "run.jsonl").steps] == list(range(1, 101))
