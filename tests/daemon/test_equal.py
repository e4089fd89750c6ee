"""The daemon says what a process of its own says, with the cache as it is and with none, whatever happened before.

A machine of states edits, renames, reverts, damages the cache, kills workers and daemons, and lets another installation come
by; after each of these any command has the same bytes and the same exit code in three ways: from the daemon, from a process
that begins, over the same cache, and from a process with an empty cache.
"""

import os
import random
import shutil
import signal
import tempfile
from io import BytesIO
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from presk.cli.app import run
from tests.daemon.support import Done, Home, copy_of_the_compiler

NAMES: Final = ("main.psk", "lib.psk", "sub/deep.psk")
BODIES: Final = (
    "fn f(x : ℝ[3]) -> ℝ[3] = x + x\n",
    "fn f(x : ℝ[3]) -> ℝ[3] = x + y\n",
    "fn f(x : ℝ[N]) -> ℝ[N] = x\n",
    "const D = 4\nfn f(x : ℝ[D]) -> ℝ[D] = x\n",
    "fn f(x : ℝ[3] -> ℝ[3] = x\n",
    "-- a comment\nfn f(x : ℝ[3]) -> ℝ[3] = x + x\n",
    "",
)
HEADS: Final = ("", 'import "lib.psk" as lib\n', 'import "sub/deep.psk" as deep\n', 'import "gone.psk" as gone\n')
LINES: Final = (
    ("check", "main.psk"),
    ("check", "main.psk", "lib.psk", "--message-format", "json"),
    ("check", "main.psk", "--const", "D=5"),
    ("check", "main.psk", "--summary"),
    ("dump", "main.psk"),
    ("dump", "main.psk", "--stage", "ast"),
    ("fmt", "--check", "main.psk"),
    ("run", "main.psk", "--entry", "f", "--bits", "64"),
    ("run", "main.psk"),
)


class Histories(RuleBasedStateMachine):
    """See the module's text."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="presk-"))
        self.home = Home(self.root)
        self.kept: dict[str, bytes] = {}

    @initialize(body=st.sampled_from(BODIES))
    def begin(self, body: str) -> None:
        self.home.write("main.psk", body)

    @rule(name=st.sampled_from(NAMES), head=st.sampled_from(HEADS), body=st.sampled_from(BODIES))
    def edit(self, name: str, head: str, body: str) -> None:
        self.home.write(name, head + body)

    @rule(name=st.sampled_from(NAMES), body=st.sampled_from(BODIES))
    def save_by_rename(self, name: str, body: str) -> None:
        self.home.write(f"{name}.new", body)
        os.replace(self.home.work / f"{name}.new", self.home.work / name)

    @rule(name=st.sampled_from(NAMES))
    def remember(self, name: str) -> None:
        path = self.home.work / name
        if path.is_file():
            self.kept[name] = path.read_bytes()

    @rule(name=st.sampled_from(NAMES))
    def revert(self, name: str) -> None:
        if name in self.kept:
            self.home.write(name, self.kept[name])

    @rule(name=st.sampled_from(NAMES), other=st.sampled_from(NAMES))
    def rename(self, name: str, other: str) -> None:
        if (self.home.work / name).is_file():
            (self.home.work / other).parent.mkdir(exist_ok=True)
            os.replace(self.home.work / name, self.home.work / other)

    @rule(name=st.sampled_from(NAMES))
    def remove(self, name: str) -> None:
        (self.home.work / name).unlink(missing_ok=True)

    @rule(seed=st.integers(0, 2**32), how=st.sampled_from(("cut", "flip", "empty", "remove", "everything")))
    def damage_the_cache(self, seed: int, how: str) -> None:
        cache = self.home.presk_home / "cache"
        files = sorted(path for path in cache.rglob("*") if path.is_file())
        if how == "everything":
            shutil.rmtree(cache, ignore_errors=True)
        elif files:
            path = random.Random(seed).choice(files)
            data = bytearray(path.read_bytes())
            if how == "remove":
                path.unlink()
            elif how == "empty":
                path.write_bytes(b"")
            elif how == "cut":
                path.write_bytes(data[: len(data) // 2])
            elif data:
                data[random.Random(seed).randrange(len(data))] ^= 1
                path.write_bytes(data)

    @rule(fault=st.sampled_from(("kill@job", "kill@put", "kill@publish", "kill@answer", "enospc@put:2", "eio@get")))
    def ask_with_a_fault(self, fault: str) -> None:
        done = self.home.presk("check", "main.psk", env={"PRESK_FAULT": fault})
        assert done.code in (0, 1, 2, 70)

    @rule()
    def kill_the_daemon(self) -> None:
        state = self.home.state()
        if state is not None:
            os.kill(state.pid, signal.SIGKILL)

    @rule()
    def kill_a_worker(self) -> None:
        state = self.home.state()
        if state is not None and state.workers:
            os.kill(state.workers[0].pid, signal.SIGKILL)

    @rule()
    def upgrade(self) -> None:
        """A client of another installation comes by: the daemon leaves."""
        self.home.presk("check", "main.psk", env={"PYTHONPATH": self._other_installation()})

    @rule(line=st.sampled_from(LINES))
    def ask(self, line: tuple[str, ...]) -> None:
        there = self.home.presk(*line)
        here = self._process(line, self.home.presk_home / "cache")
        empty = Path(tempfile.mkdtemp(dir=self.root))
        new = self._process(line, empty)
        shutil.rmtree(empty)
        for one in (there, here):
            assert (one.code, one.out) == (new.code, new.out)
            # What the cache has to complain of is its own affair; nothing else may differ.
            assert without_warnings(one.err) == new.err

    @invariant()
    def nothing_is_left_of_a_dead_daemon(self) -> None:
        state = self.home.state()
        if state is not None:
            assert len(state.jobs) == 0

    def teardown(self) -> None:
        try:
            self.home.close()
        finally:
            shutil.rmtree(self.root, ignore_errors=True)

    def _process(self, line: tuple[str, ...], cache: Path) -> Done:
        """As a process that begins: an engine of its own, over a cache."""
        out, err = BytesIO(), BytesIO()
        env = {"HOME": self.home.env["HOME"], "PRESK_CACHE": str(cache)}
        code = run(line, cwd=self.home.work, env=env, stdout=out, stderr=err)
        return Done(code, out.getvalue(), err.getvalue())

    def _other_installation(self) -> str:
        """The same compiler at another place, through a link: another installation for the daemon."""
        other = self.root / "other"
        if not other.exists():
            copy_of_the_compiler(other)
        return str(other)


def without_warnings(err: bytes) -> bytes:
    return b"".join(line for line in err.splitlines(keepends=True) if not line.startswith(b"presk: warning: the cache"))


@pytest.mark.hypothesis  # a machine that is run by hand has no mark, and `make fuzz` takes what has one
def test_the_daemon_says_what_a_process_says() -> None:
    """A few short histories; `make fuzz` tries many long ones."""
    long = settings().max_examples > 1000
    run_state_machine_as_test(
        Histories,
        settings=settings(
            max_examples=40 if long else 3,
            stateful_step_count=40 if long else 12,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
