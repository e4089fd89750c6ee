"""`presk run` through the daemon: exact runs of the corpus, interrupted, killed, asked twice; and workers that end in odd ways."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from presk.daemon import connect, protocol
from presk.daemon.jobs import may_share
from presk.daemon.log import Log
from presk.daemon.messages import JobState
from presk.daemon.phase import Phase, shared_file
from presk.daemon.pool import Pool, Worker, WorkerDied
from tests.daemon.support import GOOD, PATIENCE, Home, finish, same, wait

MODEL: Final = str(Path(__file__).resolve().parents[2] / "corpus" / "nlp" / "minigpt.psk")
SMALL: Final = ("--dim", "B=1", "--dim", "T=2", "--const", "V=5", "--const", "D=4", "--const", "H=2", "--const", "L=1")
LONG: Final = ("run", MODEL, "--entry", "loss", "--dim", "B=1", "--dim", "T=2")
"""The model in its own size, which takes minutes."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A home whose daemon the tests of this module share."""
    home = Home(tmp_path_factory.mktemp("runs"))
    home.write("bad.psk", "fn f(x : ℝ[3]) -> ℝ[3] = y\n")
    yield home
    home.close()


def running(home: Home) -> JobState:
    """Waits until a run has come to the evaluation."""
    return wait(
        lambda: (
            next((job for job in home.living().jobs if job.worker and job.phase.startswith("run of ")), None)
            if home.state() is not None
            else None
        )
    )


@pytest.mark.parametrize("entry", ["loss", "loss_grad"])
def test_an_exact_run_is_the_same_with_the_daemon(runs: Home, entry: str) -> None:
    line = ("run", MODEL, "--entry", entry, *SMALL, "--bits", "64", "--seed", "3")
    there = runs.presk(*line)
    assert there.code == 0, there.complaint
    assert there.text.startswith(entry)
    same(there, runs.alone(*line))
    same(runs.presk(*line), there)


def test_item_20_ctrl_c_ends_an_exact_run(runs: Home) -> None:
    client = runs.start(*LONG, session=True)
    job = running(runs)
    before = runs.living()
    os.kill(client.pid, signal.SIGINT)
    began = time.monotonic()
    done = finish(client)
    assert (done.code, done.out, done.err) == (130, b"", b"")
    assert time.monotonic() - began < 15
    wait(lambda: not Path("/proc", str(job.worker)).exists())
    assert runs.living().pid == before.pid
    assert runs.presk("check", "bad.psk").code == 1


def test_item_22_kill_9_of_the_worker_of_a_run(runs: Home) -> None:
    """Two wait for it; both are told what it was computing, and the daemon goes on."""
    clients = [runs.start(*LONG)]
    job = running(runs)
    clients.append(runs.start(*LONG))
    wait(lambda: any(one.clients == 2 for one in runs.living().jobs))
    before = runs.living()
    assert job.worker is not None
    os.kill(job.worker, signal.SIGKILL)
    for client in clients:
        done = finish(client)
        assert done.code == 70
        assert done.complaint == (
            "error[E9004]: the process that worked on this ended: SIGKILL: killed, as the system does when memory runs out\n"
            "  = note: it was working on run of loss\n"
            "  = help: `presk daemon log` says more; the daemon and other requests go on\n"
        )
    after = runs.living()
    assert (after.pid, after.jobs, after.counts.crashed) == (before.pid, (), before.counts.crashed + 1)
    assert runs.presk("check", "bad.psk").code == 1


def test_identical_runs_in_flight_are_computed_once(runs: Home) -> None:
    sizes = ("--dim", "B=2", "--dim", "T=6", "--const", "V=20", "--const", "D=8", "--const", "H=2", "--const", "L=2")
    line = ("run", MODEL, "--entry", "loss_grad", *sizes, "--seed", "4")
    assert runs.presk("check", MODEL).code == 0  # a daemon runs, whichever test is the first
    before = runs.living().counts
    clients = [runs.start(*line)]
    running(runs)
    # The run waits until all have asked, however long they take to start.
    workers = [worker.pid for worker in runs.living().workers]
    for worker in workers:
        os.kill(worker, signal.SIGSTOP)
    try:
        clients += [runs.start(*line) for _ in range(3)]
        wait(lambda: any(job.clients == 4 for job in runs.living().jobs))
    finally:
        for worker in workers:
            os.kill(worker, signal.SIGCONT)
    first, *others = map(finish, clients)
    assert first.code == 0
    for one in others:
        same(one, first)
    after = runs.living().counts
    assert (after.requests - before.requests, after.shared - before.shared) == (4, 3)


def test_a_run_that_writes_or_reads_other_files_is_not_shared() -> None:
    assert may_share(("run", "x.psk", "--entry", "f"), {})
    assert not may_share(("run", "x.psk", "--out", "y.json"), {})
    assert not may_share(("run", "x.psk", "--out=y.json"), {})
    assert not may_share(("run", "x.psk", "--input", "x=x.npy"), {})
    assert not may_share(("run", "x.psk", "--realize", "@types.json"), {})
    assert not may_share(("dump", "x.psk", "--realize=@types.json"), {})
    for plan in ("@p.json", '{"realization": "@types.json"}'):
        assert not may_share(("run", "x.psk", "--plan", plan), {}) and not may_share(
            ("run", "x.psk", f"--plan={plan}"), {}
        )
    assert may_share(("run", "x.psk", "--plan", '{"realization": "f32"}'), {})
    assert not may_share(("run", "x.psk"), {"PRESK_FAULT": "kill@job"})


# --- workers that end in odd ways -------------------------------------------------------------------------------------

LEAVES_A_CHILD: Final = """
import os, sys, time
from presk.daemon import protocol
channel = int(sys.argv[1])
os.write(channel, protocol.frame(protocol.READY))
os.read(channel, 1 << 16)
os.write(channel, protocol.frame(protocol.OUT, (1).to_bytes(8, "little") + b"said"))
if os.fork() == 0:
    os.setsid()
    open(sys.argv[2], "w").write(str(os.getpid()))
    time.sleep(600)
while not os.path.exists(sys.argv[2]):
    time.sleep(0.01)
os._exit(3)
"""


TALKS_NONSENSE: Final = r"import os, sys, time; os.write(int(sys.argv[1]), b'\xff' * 9); time.sleep(600)"


def test_item_22_a_worker_that_leaves_a_process_behind_is_seen_to_end(tmp_path: Path) -> None:
    """Its socket stays open, as a process in a session of its own has it: the end must be seen by itself, and nothing that
    was said before it is lost."""
    mark = tmp_path / "pid"

    async def scenario() -> tuple[bytes, str]:
        log = Log(str(tmp_path))
        pool = Pool(str(tmp_path), {}, log)
        ours, theirs = socket.socketpair()
        descriptor = shared_file(str(tmp_path))
        process = subprocess.Popen(
            [sys.executable, "-c", LEAVES_A_CHILD, str(theirs.fileno()), str(mark)],
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
        )
        theirs.close()
        ours.setblocking(False)
        worker = Worker(process, ours, Phase(descriptor), str(tmp_path / "stack"))
        os.close(descriptor)
        pool.workers.add(worker)
        async with asyncio.timeout(PATIENCE):
            await worker.boot()
            await worker.send(protocol.RUN, 1, b"")
            said = await worker.receive(1)
        waiting = asyncio.create_task(worker.receive(1))
        how = ""
        try:
            async with asyncio.timeout(PATIENCE):
                while not waiting.done():
                    pool.trim()  # as the daemon does, every second
                    await asyncio.sleep(0.05)
            await waiting
        except WorkerDied as error:
            how = str(error)
        await pool.close()
        log.close()
        return said[1], how

    try:
        assert asyncio.run(scenario()) == (b"said", "it left with 3")
    finally:
        os.kill(int(mark.read_text()), signal.SIGKILL)


def test_item_22_a_worker_that_talks_nonsense_has_ended(tmp_path: Path) -> None:
    """A frame that is too long, as one is when memory is overwritten, is not waited for."""

    async def scenario() -> str:
        log = Log(str(tmp_path))
        pool = Pool(str(tmp_path), {}, log)
        ours, theirs = socket.socketpair()
        descriptor = shared_file(str(tmp_path))
        process = subprocess.Popen(
            [sys.executable, "-c", TALKS_NONSENSE, str(theirs.fileno())],
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
        )
        theirs.close()
        ours.setblocking(False)
        worker = Worker(process, ours, Phase(descriptor), str(tmp_path / "stack"))
        os.close(descriptor)
        pool.workers.add(worker)
        try:
            async with asyncio.timeout(PATIENCE):
                await worker.boot()
        except WorkerDied as error:
            return str(error)
        finally:
            await pool.close()
            log.close()
        return "it goes on"

    assert asyncio.run(scenario()).startswith("SIGKILL")


def test_item_21_a_daemon_that_leaves_waits_until_its_answers_are_taken(home: Home) -> None:
    """The job has ended and its answer lies with the daemon: more than the socket holds, less than what makes it wait."""
    home.write("good.psk", GOOD)
    home.write("large.psk", f"-- {'large ' * 42_000}\nconst D = 8\n")
    line = ("fmt", "--stdout", "large.psk")
    right = home.alone(*line)
    home.presk("check", "good.psk")
    connection = connect.attempt(home.run_folder, protocol.REQUEST)
    assert connection is not None
    payload = protocol.request(line, str(home.work), False, 120, protocol.chosen(home.env), 0o77)
    connection.send(protocol.frame(protocol.RUN, payload))
    wait(lambda: (state := home.living()).counts.requests == 2 and not state.jobs)
    pid = home.living().pid
    another = connect.connect(home.run_folder)
    assert another is not None
    another.send(protocol.frame(protocol.HELLO, protocol.MAGIC + (99).to_bytes(2, "little") + b"\1"))
    assert another.receive() is not None
    another.close()
    assert connect.wait_until_gone(home.run_folder, PATIENCE)
    time.sleep(1.5)
    assert pid in home.processes()
    taken = b""
    code = None
    while (found := connection.receive()) is not None:
        kind, data = found
        taken += data if kind == protocol.OUT else b""
        code = data[0] if kind == protocol.EXIT else code
    connection.close()
    assert (code, taken) == (right.code, right.out)
    wait(lambda: pid not in home.processes())


def test_a_full_queue_of_connections_is_waited_for(tmp_path: Path) -> None:
    """A socket of this kind says at once that too many wait, and does not wait by itself."""
    folder = str(tmp_path)
    os.chmod(folder, 0o700)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        listening.listen(0)
        taken: list[socket.socket] = []

        def take_one() -> None:
            time.sleep(0.3)
            taken.append(listening.accept()[0])

        with ThreadPoolExecutor() as threads:
            connections = [connect.connect(folder)]
            later = threads.submit(take_one)
            connections.append(connect.connect(folder))
            later.result()
    for one in connections:
        assert one is not None
        one.close()
    for channel in taken:
        channel.close()
