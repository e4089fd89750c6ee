"""What happens to requests: cancelled, crashed, shared, slow, and the daemon that goes on (items 20-23 and 27)."""

import asyncio
import json
import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from presk.daemon import connect, floats, protocol
from presk.daemon.jobs import Flight, Job, Scheduler, Scheduling, Shared, class_of, command_of, may_share
from tests.daemon.support import BAD, COMMAND, GOOD, PATIENCE, Home, finish, same, wait


def test_item_20_ctrl_c_ends_the_job_and_leaves_the_daemon(shared: Home) -> None:
    before = shared.idle()
    running = shared.start("check", "good.psk", env={"PRESK_FAULT": "hang@job"}, session=True)
    worker = next(job.worker for job in shared.busy().jobs)
    time.sleep(0.3)  # the client has to be past its start
    os.kill(running.pid, signal.SIGINT)
    began = time.monotonic()
    done = finish(running)
    assert (done.code, done.out, done.err) == (130, b"", b"")
    # Deaf to the flag and to SIGTERM, so two deadlines of a second had to pass, and not many more.
    assert time.monotonic() - began < 15
    wait(lambda: not Path("/proc", str(worker)).exists())
    assert shared.living().pid == before.pid
    assert shared.living().counts.cancelled == before.counts.cancelled + 1
    assert shared.presk("check", "bad.psk").code == 1


def test_item_20_a_job_that_listens_ends_at_the_flag(shared: Home) -> None:
    """The application turns the interrupt into 130 by itself."""
    before = shared.idle()
    running = shared.start("check", *["good.psk", "bad.psk"] * 20_000, session=True)
    shared.busy()
    time.sleep(0.3)
    os.kill(running.pid, signal.SIGINT)
    began = time.monotonic()
    assert finish(running).code == 130
    assert time.monotonic() - began < 10
    assert shared.living().pid == before.pid


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_item_20_a_client_that_is_gone_is_a_cancellation(shared: Home, number: signal.Signals) -> None:
    shared.idle()
    running = shared.start("check", "good.psk", env={"PRESK_FAULT": "hang@job"})
    worker = next(job.worker for job in shared.busy().jobs)
    os.kill(running.pid, number)
    finish(running)
    wait(lambda: not shared.living().jobs)
    wait(lambda: not Path("/proc", str(worker)).exists())


def long_line(shared: Home) -> tuple[str, ...]:
    """A command line whose answer has some ten megabytes."""
    name = "large.psk"
    if not (shared.work / name).exists():
        shared.write(name, f"-- {'large ' * 200_000}\nconst D = 8\n")
    return ("fmt", "--stdout", *[name] * 10)


def test_item_21_ten_megabytes_through_a_slow_pipe_arrive_whole(shared: Home) -> None:
    line = long_line(shared)
    right = shared.alone(*line)
    assert len(right.out) > 10_000_000
    process = shared.start(*line)
    assert process.stdout is not None
    taken = bytearray()
    while data := os.read(process.stdout.fileno(), 1 << 16):
        taken += data
        if len(taken) < 2_000_000:
            time.sleep(0.01)
    done = finish(process)
    assert done.code == right.code == 0
    assert bytes(taken) == right.out
    # Nothing piled up in the daemon meanwhile, or stayed there.
    assert shared.living().memory < 120 << 20


def test_item_21_status_is_told_while_a_client_takes_nothing(shared: Home) -> None:
    process = shared.start(*long_line(shared))
    shared.busy()
    time.sleep(0.3)
    began = time.monotonic()
    assert shared.living().jobs
    assert time.monotonic() - began < 1.0
    process.kill()
    finish(process)
    wait(lambda: not shared.living().jobs)


@pytest.mark.parametrize("more", [(), ("--no-daemon",)])
def test_item_21_a_closed_pipe_ends_quietly(shared: Home, more: tuple[str, ...]) -> None:
    process = shared.start(*more, *long_line(shared))
    assert process.stdout is not None
    assert process.stderr is not None
    os.read(process.stdout.fileno(), 100)
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(PATIENCE) == 0
    process.stderr.close()
    wait(lambda: not shared.living().jobs)


@pytest.mark.parametrize(
    ("fault", "how"),
    [
        ("segv@job", "SIGSEGV: a bad access to memory"),
        ("kill@job", "SIGKILL: killed, as the system does when memory runs out"),
        ("exit@job", "it left with 1"),
        ("raise@job", "it left with 1"),
    ],
)
def test_item_22_a_crash_of_a_worker_is_an_error_of_that_job(shared: Home, fault: str, how: str) -> None:
    before = shared.living()
    done = shared.presk("check", "good.psk", env={"PRESK_FAULT": fault})
    assert done.code == 70
    assert done.out == b""
    assert done.complaint == (
        f"error[E9004]: the process that worked on this ended: {how}\n"
        "  = note: it was working on check good.psk\n"
        "  = help: `presk daemon log` says more; the daemon and other requests go on\n"
    )
    after = shared.living()
    assert after.pid == before.pid
    assert after.counts.crashed == before.counts.crashed + 1
    assert how in after.failures[-1].text
    if fault.startswith("segv"):
        assert "Fatal Python error: Segmentation fault" in shared.log()
    same(shared.presk("check", "bad.psk"), shared.alone("check", "bad.psk"))


def test_item_22_a_crash_names_the_stage(home: Home) -> None:
    """The fault strikes while the store is written, at the end of the first request that computes something."""
    home.write("good.psk", GOOD)
    done = home.presk("check", "good.psk", env={"PRESK_FAULT": "kill@put"})
    assert done.code == 70
    assert "  = note: it was working on " in done.complaint
    same(home.presk("check", "good.psk"), home.alone("check", "good.psk"))


def test_item_22_an_answer_that_comes_late_is_nobodys(shared: Home) -> None:
    """The worker has answered when it is killed; the next request has its own answer."""
    done = shared.presk("check", "bad.psk", env={"PRESK_FAULT": "kill@answer"})
    assert done.code == 70
    assert done.text == shared.presk("check", "bad.psk").text
    same(shared.presk("check", "warned.psk"), shared.alone("check", "warned.psk"))


def test_a_daemon_that_dies_within_an_answer_is_an_error(shared: Home, home: Home) -> None:
    """Part of the answer has been printed, so that it cannot be begun again."""
    line = long_line(shared)
    home.write("large.psk", (shared.work / "large.psk").read_bytes())
    home.presk("daemon", "start")
    process = home.start(*line)
    assert process.stdout is not None
    os.read(process.stdout.fileno(), 100)
    os.kill(home.living().pid, signal.SIGKILL)
    done = finish(process)
    assert done.code == 70
    assert done.complaint == "error[E9005]: the daemon ended before the answer was complete\n"


def test_a_daemon_that_is_killed_before_it_answers_is_replaced(home: Home) -> None:
    """It dies with each request that it has; the client tries three of them and then works by itself."""
    home.write("bad.psk", BAD)
    done = home.presk("check", "bad.psk", env={"PRESK_FAULT": "kill@accept"})
    right = home.alone("check", "bad.psk")
    assert (done.code, done.out) == (right.code, right.out)
    assert done.complaint == "presk: warning: no daemon can be had: it ends again and again; working without it\n"


def test_item_23_status_answers_within_200_ms_while_workers_work(shared: Home) -> None:
    clients = [
        shared.start("check", *["good.psk", "bad.psk"] * 300, "--const", f"D={number}") for number in range(1, 5)
    ]
    wait(lambda: len(shared.living().jobs) == 4)
    times = []
    for _ in range(30):
        connection = shared.connection()
        assert connection is not None
        began = time.perf_counter()
        connection.send(protocol.frame(protocol.STATUS))
        assert connection.receive() is not None
        times.append(time.perf_counter() - began)
        connection.close()
    # The median: a single answer also waits for the processor, which the workers keep busy.
    assert sorted(times)[len(times) // 2] < 0.2
    for client in clients:
        finish(client)


def test_item_27_the_floating_point_mode_is_checked() -> None:
    """By arithmetic: flushing subnormals in a process of its own shows."""
    assert floats.mode() == floats.NORMAL
    program = (
        "import ctypes, ctypes.util\n"
        "from presk.daemon import floats\n"
        "libm = ctypes.CDLL(ctypes.util.find_library('m') or 'libm.so.6')\n"
        "print(floats.mode() == floats.NORMAL, libm.fesetround(0x800), floats.mode() == floats.NORMAL)\n"
    )
    done = subprocess.run([COMMAND[0], "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "0", "False"]


def test_identical_requests_in_flight_are_computed_once(shared: Home) -> None:
    line = ("check", *["good.psk", "warned.psk"] * 400, "bad.psk")
    right = shared.alone(*line)
    before = shared.living().counts
    clients = [shared.start(*line) for _ in range(8)]
    for client in clients:
        same(finish(client), right)
    after = shared.living().counts
    assert after.requests - before.requests == 8
    assert after.shared - before.shared >= 1


def test_an_answer_is_shared_only_if_the_files_still_say_the_same(home: Home) -> None:
    """The second client asks after the edit, while the first one's answer, of before it, is being computed."""
    home.write("bad.psk", BAD)
    many = [home.write(f"{number}.psk", GOOD).name for number in range(400)]
    line = ("check", "bad.psk", *many)
    home.presk("daemon", "start")
    first = home.start(*line)
    wait(lambda: any(job.phase.startswith(("typing", "parse", "tokens")) for job in home.living().jobs))
    home.write("bad.psk", GOOD)
    second = home.start(*line)
    one, two = finish(first), finish(second)
    assert two.code == 0
    assert one.code in (0, 1)


def test_the_one_that_leads_may_leave(shared: Home) -> None:
    """Its job goes on as long as somebody waits for it."""
    line = ("check", *["bad.psk", "good.psk"] * 600)
    leader = shared.start(*line)
    shared.busy()
    follower = shared.start(*line)
    wait(lambda: any(job.clients == 2 for job in shared.living().jobs) or follower.poll() is not None)
    leader.kill()
    finish(leader)
    same(finish(follower), shared.alone(*line))


def test_forty_clients_at_once(shared: Home) -> None:
    right = shared.alone("check", "bad.psk")
    answers: list[tuple[int, bytes]] = []

    def ask() -> None:
        done = shared.presk("check", "bad.psk")
        answers.append((done.code, done.out))

    threads = [threading.Thread(target=ask) for _ in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [(right.code, right.out)] * 40


def test_status_as_text_and_as_json(shared: Home) -> None:
    text = shared.presk("daemon", "status").text
    assert text.startswith(f"daemon {shared.living().pid}, up ")
    for word in ("requests: ", "answers of stages reused: ", "workers: ", "watching: 0 files", "last errors: "):
        assert word in text
    state = json.loads(shared.presk("daemon", "status", "--json").out)
    assert state["pid"] == shared.living().pid
    assert state["counts"]["requests"] > 0
    assert shared.presk("daemon", "top").text.startswith("daemon ")
    log = shared.presk("daemon", "log", "-n", "1000").text
    job = next(line for line in log.splitlines() if "begins on worker" in line).split(" job ")[1].split()[0]
    assert all(f" job {job} " in line for line in shared.presk("daemon", "log", "--job", job).text.splitlines())


def test_restart_gives_another_daemon(home: Home) -> None:
    home.presk("daemon", "start")
    first = home.living().pid
    assert home.presk("daemon", "restart").text == f"the daemon runs (pid {home.living().pid})\n"
    assert home.living().pid != first


def test_stopping_cancels_what_is_worked_on(home: Home) -> None:
    home.write("good.psk", GOOD)
    running = home.start("check", "good.psk", env={"PRESK_FAULT": "hang@job"})
    home.busy()
    assert home.presk("daemon", "stop").text == "the daemon has stopped\n"
    assert home.processes() == []
    assert finish(running).code == 130


def test_garbage_on_the_socket_ends_the_connection_alone(shared: Home) -> None:
    pid = shared.living().pid
    for data in (b"GET / HTTP/1.1\r\n\r\n", protocol.frame(protocol.RUN, b"x"), protocol.frame(protocol.HELLO, b"x")):
        connection = connect.connect(shared.run_folder)
        assert connection is not None
        connection.send(data)
        assert connection.receive() is None
        connection.close()
    connection = shared.connection()
    assert connection is not None
    connection.send(protocol.frame(protocol.RUN, b"\xff\xff\xff\xff"))
    assert connection.receive() is None
    connection.close()
    assert shared.living().pid == pid


# --- the parts alone --------------------------------------------------------------------------------------------------


def job(number: int, scheduling: Scheduling) -> Job:
    payload = protocol.request(("check", "x.psk"), "/", False, 120, {}, 0o22)
    return Job(number, payload, protocol.Request(payload), scheduling, [])


def test_a_measurement_is_alone_and_nobody_overtakes_it() -> None:
    async def scenario() -> list[int]:
        scheduler = Scheduler(2)
        order: list[int] = []
        jobs = [
            job(0, Scheduling.COMPILE),
            job(1, Scheduling.RUN),
            job(2, Scheduling.MEASURE),
            job(3, Scheduling.COMPILE),
            job(4, Scheduling.COMPILE),
        ]

        async def enter(one: Job) -> None:
            await scheduler.enter(one)
            order.append(one.id)

        tasks = [asyncio.create_task(enter(one)) for one in jobs]
        await asyncio.sleep(0.01)
        assert order == [0, 1]
        assert scheduler.waiting_for(jobs[2]) == "waiting until nothing else runs (2 requests)"
        scheduler.leave(jobs[0])
        await asyncio.sleep(0.01)
        assert order == [0, 1]
        scheduler.leave(jobs[1])
        await asyncio.sleep(0.01)
        assert order == [0, 1, 2]
        assert scheduler.waiting_for(jobs[3]) == "waiting: `check x.psk` is being measured and must be alone"
        scheduler.leave(jobs[2])
        await asyncio.gather(*tasks)
        return order

    assert asyncio.run(scenario()) == [0, 1, 2, 3, 4]


def test_a_check_does_not_wait_for_runs() -> None:
    async def scenario() -> None:
        scheduler = Scheduler(1)
        await scheduler.enter(job(0, Scheduling.RUN))
        waiting = asyncio.create_task(scheduler.enter(job(1, Scheduling.RUN)))
        async with asyncio.timeout(1):
            await scheduler.enter(job(2, Scheduling.COMPILE))
        assert not waiting.done()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        # Who gave up does not take a turn.
        async with asyncio.timeout(1):
            third = asyncio.create_task(scheduler.enter(job(3, Scheduling.COMPILE)))
            await asyncio.sleep(0.01)
            assert not third.done()
            third.cancel()

    asyncio.run(scenario())


def test_classes_of_command_lines() -> None:
    assert class_of(("check", "x")) is Scheduling.COMPILE
    assert class_of(("--no-daemon", "train", "x")) is Scheduling.RUN
    assert class_of(("bench",)) is Scheduling.MEASURE
    assert class_of(()) is Scheduling.COMPILE
    assert command_of(("--help",)) == ""
    assert may_share(("check", "x"), {})
    assert not may_share(("fmt", "x"), {})
    assert not may_share(("check", "x"), {"PRESK_FAULT": "kill@job"})


def test_an_answer_that_is_too_long_is_not_kept() -> None:
    async def scenario() -> tuple[Shared | None, Shared]:
        long, short = Flight(job(1, Scheduling.COMPILE)), Flight(job(2, Scheduling.COMPILE))
        for _ in range(9):
            long.add(bytes(1 << 20))
        short.add(b"frame")
        return long.landed.result(), short.answer(1)

    long, short = asyncio.run(scenario())
    assert long is None
    assert (list(short.frames), short.code) == ([b"frame"], 1)
