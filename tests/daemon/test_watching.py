"""Watching: what is told, when, and what the command `watch` makes of it (items 28-31)."""

import asyncio
import os
import re
import signal
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from watchdog.events import FileClosedNoWriteEvent, FileOpenedEvent

from presk.cache.digest import value_digest
from presk.cli.commands.watching import redone
from presk.cli.faults import Faults
from presk.daemon.log import Log
from presk.daemon.messages import Observed, StageReport
from presk.daemon.stamps import stamp_of
from presk.daemon.watching import EVENTS, Subscription, Watcher, folders_of, locks_of
from tests.daemon.support import BAD, GOOD, PATIENCE, Home, finish, wait

Scenario = Callable[[Watcher, Subscription], Awaitable[None]]


def watched(folder: Path, scenario: Scenario, *files: Observed, faults: str = "") -> Watcher:
    """Runs a scenario with a subscription to files."""

    async def run() -> Watcher:
        log = Log(str(folder))
        watcher = Watcher(log)
        try:
            with watcher.subscribe(files, Faults(faults)) as subscription:
                async with asyncio.timeout(PATIENCE):
                    await scenario(watcher, subscription)
        finally:
            await watcher.close()
            log.close()
        return watcher

    return asyncio.run(run())


async def silent(subscription: Subscription, seconds: float = 0.4) -> bool:
    """Whether nothing is told for a while."""
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(seconds):
            await subscription.changed()
    return True


def fresh(path: Path) -> Observed:
    return Observed(str(path), fresh=True)


def found(path: Path) -> Observed:
    return Observed(str(path), value_digest(path.read_bytes()).hex())


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder for programs, apart from the log's."""
    folder = tmp_path / "place"
    folder.mkdir()
    (folder / "a.psk").write_text("one")
    return folder


def test_item_28_events_are_hints(place: Path, tmp_path: Path) -> None:
    """A file that is written with the bytes that it has is no change; nor is one beside it."""
    file = place / "a.psk"

    async def scenario(watcher: Watcher, subscription: Subscription) -> None:
        file.write_text("one")
        os.utime(file)
        (place / "other").write_text("x")
        await silent(subscription)
        assert watcher.events > 0
        file.write_text("two")
        assert await subscription.changed() == [str(file)]
        await silent(subscription)

    watched(tmp_path, scenario, fresh(file))


@pytest.mark.parametrize("faults", ["overflow@watch", "limit@watch"])
def test_item_28_a_change_without_an_event_is_found(place: Path, tmp_path: Path, faults: str) -> None:
    """Where events are lost a look without a hint finds it, and where folders cannot be watched they are scanned."""
    file = place / "a.psk"

    async def scenario(watcher: Watcher, subscription: Subscription) -> None:
        asyncio.get_running_loop().call_later(0.1, file.write_text, "two")
        assert await subscription.changed() == [str(file)]
        assert watcher.rescans > 0
        assert bool(watcher.scanning) == (faults == "limit@watch")

    watched(tmp_path, scenario, fresh(file), faults=faults)


def test_item_28_a_change_between_reading_and_watching_is_told(place: Path, tmp_path: Path) -> None:
    file = place / "a.psk"
    before = found(file)
    file.write_text("two")

    async def scenario(watcher: Watcher, subscription: Subscription) -> None:
        assert await subscription.changed() == [str(file)]

    watched(tmp_path, scenario, before)


def test_item_28_two_writes_within_one_tick_are_told_apart(place: Path, tmp_path: Path) -> None:
    """Same size and same times, as a fast editor on a coarse clock leaves them."""
    file = place / "a.psk"
    now = time.time_ns()

    async def scenario(watcher: Watcher, subscription: Subscription) -> None:
        for text in ("two", "owt", "wot"):
            file.write_text(text)
            os.utime(file, ns=(now, now))
            assert await subscription.changed() == [str(file)]

    watched(tmp_path, scenario, fresh(file))


def test_item_29_folders_are_watched_and_reading_is_no_event(place: Path, tmp_path: Path) -> None:
    assert FileOpenedEvent not in EVENTS
    assert FileClosedNoWriteEvent not in EVENTS
    file = place / "a.psk"

    async def scenario(watcher: Watcher, subscription: Subscription) -> None:
        assert watcher.state().folders == (str(place),)
        for _ in range(200):
            file.read_bytes()
        await silent(subscription, 0.3)
        assert watcher.events == 0

    watched(tmp_path, scenario, fresh(file))


def test_item_29_the_cache_is_not_watched(shared: Home) -> None:
    process = shared.start("watch", "good.psk")
    folders = wait(lambda: shared.living().watching.folders)
    assert folders == (str(shared.work),)
    process.kill()
    finish(process)
    wait(lambda: not shared.living().watching.folders)


def test_item_30_editors_save_by_rename(place: Path, tmp_path: Path) -> None:
    file = place / "a.psk"

    async def scenario(watcher: Watcher, subscription: Subscription) -> None:
        for text in ("two", "three"):
            (place / ".a.swp").write_text(text)
            os.replace(place / ".a.swp", file)
            assert await subscription.changed() == [str(file)]

    watched(tmp_path, scenario, fresh(file))


def test_item_30_a_file_that_is_away_for_a_moment_is_not_told(place: Path, tmp_path: Path) -> None:
    """Saving in two steps: the old one is moved away, the new one written."""
    file = place / "a.psk"

    async def scenario(watcher: Watcher, subscription: Subscription) -> None:
        os.replace(file, place / "a.psk~")
        asyncio.get_running_loop().call_later(0.08, file.write_text, "two")
        assert await subscription.changed() == [str(file)]
        assert file.read_text() == "two"
        file.unlink()
        assert await subscription.changed() == [str(file)]
        file.write_text("back")
        assert await subscription.changed() == [str(file)]

    watched(tmp_path, scenario, fresh(file))


def test_item_30_a_switch_of_branches_is_one_change(place: Path, tmp_path: Path) -> None:
    """While git holds the lock of its index no change is told, however slow it is."""
    (place / ".git").mkdir()
    (place / "b.psk").write_text("one")
    files = [place / "a.psk", place / "b.psk"]
    lock = place / ".git" / "index.lock"
    told = threading.Event()

    def switch() -> None:
        lock.touch()
        files[0].write_text("two")
        time.sleep(0.4)
        assert not told.is_set()
        files[1].write_text("two")
        lock.unlink()

    async def scenario(watcher: Watcher, subscription: Subscription) -> None:
        git = asyncio.create_task(asyncio.to_thread(switch))
        assert await subscription.changed() == [str(file) for file in files]
        told.set()
        await git

    watched(tmp_path, scenario, *map(fresh, files))


def test_item_30_a_worktree_has_its_lock_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "tree" / "sub").mkdir(parents=True)
    (tmp_path / "tree" / ".git").write_text(f"gitdir: {tmp_path}/main/.git/worktrees/tree\n")
    assert list(locks_of([str(tmp_path / "tree" / "sub" / "a.psk")])) == [
        f"{tmp_path}/main/.git/worktrees/tree/index.lock"
    ]


def test_item_30_new_folders_are_scanned(place: Path, tmp_path: Path) -> None:
    """The nearest folder that is there is watched until the file's own is."""
    file = place / "new" / "deep" / "c.psk"

    async def scenario(watcher: Watcher, subscription: Subscription) -> None:
        assert watcher.state().folders == (str(place),)
        file.parent.mkdir(parents=True)
        file.write_text("new")
        assert await subscription.changed() == [str(file)]
        assert watcher.state().folders == (str(file.parent),)

    watched(tmp_path, scenario, Observed(str(file)))


def test_item_30_a_folder_that_is_replaced_is_watched_anew(place: Path, tmp_path: Path) -> None:
    file = place / "a.psk"

    async def scenario(watcher: Watcher, subscription: Subscription) -> None:
        os.rename(place, tmp_path / "away")
        place.mkdir()
        file.write_text("two")
        assert await subscription.changed() == [str(file)]
        file.write_text("three")
        assert await subscription.changed() == [str(file)]

    watched(tmp_path, scenario, fresh(file))


def test_item_30_links_are_resolved_and_loops_are_cut(place: Path, tmp_path: Path) -> None:
    (tmp_path / "v1").mkdir()
    (tmp_path / "v2").mkdir()
    for number in (1, 2):
        (tmp_path / f"v{number}" / "a.psk").write_text(str(number))
    link = place / "current"
    link.symlink_to(tmp_path / "v1")
    spelled = link / "a.psk"
    assert str(place) in folders_of([str(spelled)])
    (place / "loop").symlink_to(place / "loop")
    folders_of([str(place / "loop" / "x.psk")])

    async def scenario(watcher: Watcher, subscription: Subscription) -> None:
        (place / "next").symlink_to(tmp_path / "v2")
        os.replace(place / "next", link)
        assert await subscription.changed() == [str(spelled)]

    watched(tmp_path, scenario, Observed(str(spelled), stamp=stamp_of(str(spelled))))


def test_item_31_the_limit_of_watches_is_told(home: Home) -> None:
    home.write("good.psk", GOOD)
    process = home.start("watch", "good.psk", "--runs", "2", env={"PRESK_FAULT": "limit@watch"})
    wait(lambda: (state := home.state()) and state.watching.scanning)
    assert "warning: folders are scanned: " in home.presk("daemon", "status").text
    wait(lambda: "exit 0" in home.log())
    home.write("good.psk", BAD)
    assert finish(process).code == 1


class Watching:
    """`presk watch` and the lines that it prints."""

    def __init__(self, home: Home, *argv: str) -> None:
        self.process = home.start("watch", *argv, session=True)
        self.lines: list[str] = []
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.decode())

    def runs(self) -> list[str]:
        """The lines that say how a run ended."""
        return [line for line in self.lines if re.match(r"\[\d\d:\d\d:\d\d\] ", line)]

    def until(self, number: int) -> str:
        """Waits for so many runs; how the last of them ended."""
        wait(lambda: len(self.runs()) >= number)
        return self.runs()[number - 1][11:]

    def end(self) -> int:
        """Interrupts it."""
        os.kill(self.process.pid, signal.SIGINT)
        code = self.process.wait(PATIENCE)
        self._thread.join()
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
        return code


def test_watch_says_what_was_redone_and_what_was_reused(shared: Home) -> None:
    shared.write("lib.psk", GOOD)
    shared.write("w.psk", 'import "lib.psk" as lib\n\nfn f(x : ℝ[3]) -> ℝ[3] = x\n')
    watch = Watching(shared, "w.psk")
    try:
        assert watch.until(1).startswith("w.psk passed; ")
        shared.write("lib.psk", f"-- a comment\n{GOOD}")
        second = watch.until(2)
        assert second.startswith("lib.psk changed: w.psk passed; ")
        assert re.search(r"; 1 of \d+ redone \(tokens: lib.psk\), the edit stopped at tokens; \d+ ms$", second.strip())
        shared.write("lib.psk", BAD)
        assert watch.until(3).startswith("lib.psk changed: w.psk failed; ")
        assert any(line.startswith("error[E2002]") for line in watch.lines)
        shared.write("lib.psk", GOOD)
        assert "nothing redone" in watch.until(4)
        # The imported file goes away, and comes back.
        (shared.work / "lib.psk").unlink()
        assert watch.until(5).startswith("lib.psk changed: w.psk failed; ")
        shared.write("lib.psk", GOOD)
        assert watch.until(6).startswith("lib.psk changed: w.psk passed; ")
    finally:
        code = watch.end()
    assert code == 130


def test_watch_runs_a_command_when_the_check_is_passed(shared: Home) -> None:
    shared.write("c.psk", BAD)
    watch = Watching(shared, "c.psk", "--", "explain", "E0001")
    try:
        assert watch.until(1).startswith("c.psk failed; ")
        assert not any(line.startswith("E0001: ") for line in watch.lines)
        shared.write("c.psk", GOOD)
        watch.until(2)
        wait(lambda: any(line.startswith("E0001: ") for line in watch.lines))
    finally:
        watch.end()


def test_watch_cancels_the_run_of_an_older_change(shared: Home) -> None:
    """The command never ends by itself: only a newer change ends it."""
    before = shared.idle().counts.cancelled
    shared.write("long.psk", GOOD)
    watch = Watching(shared, "long.psk", "--", "check", *["good.psk", "bad.psk"] * 20_000)
    try:
        watch.until(1)
        wait(lambda: any("good.psk" in job.command for job in shared.living().jobs))
        shared.write("long.psk", GOOD.replace("8", "9"))
        watch.until(2)
        wait(lambda: shared.living().counts.cancelled > before)
    finally:
        watch.end()
    wait(lambda: not shared.living().jobs)


def test_watch_goes_on_with_another_daemon(home: Home) -> None:
    home.write("good.psk", GOOD)
    watch = Watching(home, "good.psk")
    try:
        watch.until(1)
        os.kill(home.living().pid, signal.SIGKILL)
        watch.until(2)
        home.write("good.psk", BAD)
        assert "failed" in watch.until(3)
    finally:
        watch.end()


def test_what_a_run_redid_in_words() -> None:
    stages = (StageReport("tokens", 2, 1, 1, subjects=("a.psk",)), StageReport("typing", 5, 4, 1, 0, 0, tuple("abcd")))
    assert redone(stages) == "5 of 7 redone (tokens: a.psk; typing: a, b, c and 1 more)"
    assert redone((StageReport("tokens", 2, 1, 1, 0, 1, ("a.psk",)),)) == (
        "1 of 2 redone (tokens: a.psk), the edit stopped at tokens"
    )
    assert redone((StageReport("tokens", 2, 0, 2),)) == "nothing redone, 2 reused"
