"""The daemon's life: one of it, of the right build, private, gone when it should be (items 16-19 and 24-26)."""

import fcntl
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import time
from pathlib import Path

import pytest

from presk.daemon import connect, places, protocol
from presk.daemon.__main__ import Place, Temporary
from tests.daemon.support import (
    BAD,
    COMMAND,
    GOOD,
    PATIENCE,
    Home,
    copy_of_the_compiler,
    finish,
    processes_about,
    same,
    wait,
)


def test_item_16_sixty_four_clients_at_once_start_one_daemon(home: Home) -> None:
    for number in range(64):
        home.write(f"{number}.psk", GOOD.replace("D = 8", f"D = {number + 1}") if number % 2 else BAD)
    expected = {0: home.alone("check", "1.psk"), 1: home.alone("check", "0.psk")}
    clients = [home.start("check", f"{number}.psk") for number in range(64)]
    for number, client in enumerate(clients):
        done = finish(client)
        right = expected[0] if number % 2 else expected[1]
        assert done.code == right.code
        assert done.text.replace(f"{number}.psk", "0.psk") == right.text
        assert done.err == b""
    assert home.log().count("listens in") == 1
    assert home.living().counts.requests == 64


def test_item_16_liveness_is_a_held_lock(home: Home) -> None:
    home.write("good.psk", GOOD)
    assert home.presk("daemon", "start").code == 0
    first = home.living().pid
    assert connect.is_locked(home.run_folder)
    # A number in a file proves nothing: nobody reads it.
    Path(home.run_folder, places.INFO).write_text(json.dumps({"pid": 1}))
    assert home.presk("daemon", "start").text == f"the daemon runs already (pid {first})\n"
    assert home.presk("daemon", "stop").text == "the daemon has stopped\n"
    assert not connect.is_locked(home.run_folder)
    assert home.processes() == []
    assert home.presk("daemon", "stop").text == "no daemon runs\n"
    status = home.presk("daemon", "status")
    assert (status.code, status.text) == (1, "no daemon runs\n")


def test_item_16_only_what_is_still_its_own_is_removed(tmp_path: Path) -> None:
    folder = str(tmp_path / "run")
    places.make_folder(folder)
    place = Place(folder)
    listening = place.listen()
    place.tell("build")
    path = Path(folder, places.SOCKET)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    os.unlink(path)
    path.write_text("somebody else's")
    place.release()
    assert path.read_text() == "somebody else's"
    assert not Path(folder, places.INFO).exists()
    place.release()
    listening.close()


def test_item_16_a_daemon_is_not_started_beside_one_that_holds_the_lock(home: Home) -> None:
    """One that has its place and does not answer: nobody starts a second, and the request is answered all the same."""
    home.write("bad.psk", BAD)
    places.make_folder(home.run_folder)
    with open(Path(home.run_folder, places.LOCK), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = home.presk("check", "bad.psk")
    assert done.complaint.splitlines() == [
        "presk: warning: no daemon can be had: another daemon holds its lock and does not answer; working without it"
    ]
    right = home.alone("check", "bad.psk")
    assert (done.code, done.out) == (right.code, right.out)


def test_after_kill_9_of_the_daemon_the_next_request_is_answered(home: Home) -> None:
    home.write("bad.psk", BAD)
    right = home.presk("check", "bad.psk")
    first = home.living()
    os.kill(first.pid, signal.SIGKILL)
    wait(lambda: not connect.is_locked(home.run_folder))
    assert Path(home.run_folder, places.SOCKET).exists()
    same(home.presk("check", "bad.psk"), right)
    second = home.living()
    assert second.pid != first.pid
    # The folder of the dead one has been swept, by its lock.
    folders = os.listdir(Path(home.run_folder, places.TEMPORARY))
    assert [name.split("-")[0] for name in folders] == [str(second.pid)]


def test_item_17_another_version_of_the_protocol_is_told_and_the_daemon_leaves(home: Home) -> None:
    home.presk("daemon", "start")
    first = home.living()
    connection = connect.connect(home.run_folder)
    assert connection is not None
    strange = (
        protocol.MAGIC + (protocol.VERSION + 1).to_bytes(2, "little") + bytes((protocol.REQUEST,)) + b"whatever follows"
    )
    connection.send(protocol.frame(protocol.HELLO, strange))
    answer = connection.receive()
    assert answer is not None
    assert answer[0] == protocol.LEAVE
    connection.close()
    assert connect.wait_until_gone(home.run_folder, PATIENCE)
    home.write("good.psk", GOOD)
    assert home.presk("check", "good.psk").code == 0
    assert home.living().pid != first.pid


def test_item_17_the_first_frame_has_a_form_that_never_changes() -> None:
    """Written out by hand: a change of these bytes would leave clients and daemons that cannot tell each other apart."""
    assert protocol.hello(protocol.REQUEST, b"me") == b"\x0b\0\0\0\x01presk\0\x01\0\x01me"
    assert protocol.read_hello(b"presk\0\x07\0\x02you") == (7, 2, b"you")
    for damaged in (b"", b"presk\0\x01\0", b"press\0\x01\0\x01me"):
        with pytest.raises(protocol.Malformed):
            protocol.read_hello(damaged)


def test_item_17_an_edited_compiler_answers_the_next_request(tmp_path: Path) -> None:
    sources = copy_of_the_compiler(tmp_path / "install")
    home = Home(tmp_path, PYTHONPATH=str(tmp_path / "install"))
    try:
        home.write("bad.psk", BAD)
        before = home.presk("check", "bad.psk")
        assert before.code == 1
        first = home.living().pid
        same(home.presk("check", "bad.psk"), before)
        assert home.living().pid == first
        summary = sources / "diagnostics" / "render_text.py"
        text = summary.read_text("utf-8")
        assert "says more" in text
        summary.write_text(text.replace("says more", "says MORE"), "utf-8")
        after = home.presk("check", "bad.psk")
        assert after.text == before.text.replace("says more", "says MORE")
        assert home.living().pid != first
        # Touched, and the same: nothing is started again.
        second = home.living().pid
        os.utime(summary)
        same(home.presk("check", "bad.psk"), after)
        assert home.living().pid == second
    finally:
        home.close()


def test_item_17_a_daemon_that_leaves_ends_what_it_has_begun(tmp_path: Path) -> None:
    sources = copy_of_the_compiler(tmp_path / "install")
    home = Home(tmp_path, PYTHONPATH=str(tmp_path / "install"))
    try:
        home.write("bad.psk", BAD)
        assert home.presk("check", "bad.psk").code == 1
        old = home.living().pid
        running = home.start("check", "bad.psk", env={"PRESK_FAULT": "hang@job"}, session=True)
        home.busy()
        (sources / "new_module.py").write_text("")
        assert home.presk("check", "bad.psk").code == 1
        assert home.living().pid != old
        assert old in home.processes()
        os.kill(running.pid, signal.SIGINT)
        assert finish(running).code == 130
        wait(lambda: old not in home.processes())
    finally:
        home.close()


def test_item_18_the_request_is_the_clients_and_not_the_daemons(home: Home, tmp_path: Path) -> None:
    """The daemon begins with one directory, environment and mask; other clients have others."""
    home.write("bad.psk", BAD)
    assert home.presk("check", "bad.psk", env={"NO_COLOR": "1"}).code == 1
    other = tmp_path / "other"
    (other / "sub").mkdir(parents=True)
    (other / "bad.psk").write_text(WARNED_AND_BAD, "utf-8")
    same(home.presk("check", "../bad.psk", cwd=other / "sub"), home.alone("check", "../bad.psk", cwd=other / "sub"))
    assert home.presk("check", "bad.psk", cwd=other / "sub").code == 2
    elsewhere = str(tmp_path / "elsewhere")
    stats = home.presk("cache", "stats", env={"PRESK_CACHE": elsewhere})
    assert stats.text.startswith(f"folder: {elsewhere}\n")
    # Two clients with other options, and still the daemon that there was.
    home.presk("check", "bad.psk", "--const", "D=16")
    assert home.log().count("listens in") == 1


WARNED_AND_BAD = "fn f(x : ℝ[N]) -> ℝ[N] = y\n"


def test_item_19_who_reads_the_output_does_not_wait_for_the_daemon(home: Home) -> None:
    home.write("bad.psk", BAD)
    began = time.monotonic()
    # The pipe of the first command's output is inherited by nothing that lives on; nor is the descriptor 7 of the shell.
    done = subprocess.run(
        [
            "sh",
            "-c",
            'exec 7>&1; out=$("$@"); echo "$? ${#out}"; "$@" | cat >/dev/null',
            "sh",
            *COMMAND,
            "check",
            "bad.psk",
        ],
        cwd=home.work,
        env=home.env,
        stdout=subprocess.PIPE,
        timeout=PATIENCE,
        check=True,
    )
    assert done.stdout.startswith(b"1 ")
    assert time.monotonic() - began < PATIENCE
    pid = home.living().pid
    assert os.readlink(f"/proc/{pid}/cwd") == "/"
    assert os.getsid(pid) != os.getsid(0)
    log = str(Path(home.run_folder, places.LOG))
    assert [os.readlink(f"/proc/{pid}/fd/{number}") for number in range(3)] == ["/dev/null", log, log]
    assert not any(os.readlink(f"/proc/{pid}/fd/{name}").startswith("pipe:") for name in os.listdir(f"/proc/{pid}/fd"))


def test_item_24_workers_die_with_the_daemon(home: Home) -> None:
    """Even one that is deaf to everything but SIGKILL."""
    home.write("good.psk", GOOD)
    running = home.start("check", "good.psk", env={"PRESK_FAULT": "hang@job"})
    state = home.busy()
    workers = [one.pid for one in state.workers]
    assert workers
    for pid in workers:
        assert os.getsid(pid) == pid, "a worker has a session, and so a process group, of its own"
    os.kill(running.pid, signal.SIGSTOP)  # it would ask another daemon
    os.kill(state.pid, signal.SIGKILL)
    wait(lambda: not processes_about(f"/{state.pid}-"))
    running.kill()
    finish(running)


def test_item_25_a_daemon_without_work_leaves(tmp_path: Path) -> None:
    home = Home(tmp_path, PRESK_DAEMON_IDLE="0.5")
    home.write("good.psk", GOOD)
    assert home.presk("check", "good.psk").code == 0
    wait(lambda: not home.processes())
    assert "idle for" in home.log()
    assert sorted(os.listdir(home.run_folder)) == [places.LOG, places.LOCK, places.START_LOCK, places.TEMPORARY]
    assert os.listdir(Path(home.run_folder, places.TEMPORARY)) == []
    assert home.presk("check", "good.psk").code == 0
    home.close()


def test_item_25_a_daemon_whose_folder_has_vanished_leaves(home: Home) -> None:
    home.presk("daemon", "start")
    pid = home.living().pid
    shutil.rmtree(home.presk_home)
    wait(lambda: pid not in home.processes())


def test_item_25_a_worker_that_holds_too_much_memory_is_replaced(tmp_path: Path) -> None:
    home = Home(tmp_path, PRESK_DAEMON_MEMORY="1000000")
    try:
        home.write("good.psk", GOOD)
        for _ in range(2):
            assert home.presk("check", "good.psk").code == 0
        assert home.log().count("and is replaced") == 2
        assert home.living().counts.workers >= 2
    finally:
        home.close()


def test_item_25_temporary_files_are_swept_by_their_locks(tmp_path: Path) -> None:
    folder = str(tmp_path)
    os.chmod(folder, 0o700)
    living = Temporary(folder)
    dead = Path(folder, places.TEMPORARY, "12-dead")
    dead.mkdir()
    (dead / places.LOCK).write_text("")
    (dead / "stack-1").write_text("left")
    Path(folder, places.TEMPORARY, "half-made").mkdir()
    other = Temporary(folder)
    assert set(os.listdir(Path(folder, places.TEMPORARY))) == {Path(living.path).name, Path(other.path).name}
    living.remove()
    other.remove()


def test_item_26_everything_is_private(home: Home) -> None:
    home.write("good.psk", GOOD)
    old = os.umask(0)
    try:
        assert home.presk("check", "good.psk").code == 0
    finally:
        os.umask(old)
    assert stat.S_IMODE(os.stat(home.run_folder).st_mode) == 0o700
    for folder, _, names in os.walk(home.run_folder):
        for name in names:
            mode = os.lstat(Path(folder, name)).st_mode
            assert mode & 0o077 == 0, name


def test_item_26_a_folder_that_is_not_ours_is_not_used(home: Home, tmp_path: Path) -> None:
    home.write("good.psk", GOOD)
    (tmp_path / "target").mkdir(mode=0o700)
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "target")
    done = home.presk("check", "good.psk", env={"PRESK_RUNTIME_DIR": str(link)})
    assert done.code == 0
    assert done.complaint.count("\n") == 1
    assert "is not a folder; working without it" in done.complaint
    assert os.listdir(tmp_path / "target") == []
    # One that the user made with the usual mask is closed.
    usual = tmp_path / "usual"
    usual.mkdir()
    usual.chmod(0o755)
    env = {"PRESK_RUNTIME_DIR": str(usual)}
    assert home.presk("check", "good.psk", env=env).err == b""
    assert stat.S_IMODE(usual.stat().st_mode) == 0o700
    assert home.presk("daemon", "stop", env=env).code == 0


def test_item_26_the_other_end_is_of_the_same_user(tmp_path: Path) -> None:
    one, other = socket.socketpair()
    assert connect.peer(one) == os.geteuid()
    one.close()
    other.close()


def test_item_26_a_long_path_of_the_socket(home: Home, tmp_path: Path) -> None:
    """The address of a socket has 108 bytes."""
    home.write("bad.psk", BAD)
    folder = tmp_path / ("long" * 20) / ("longer" * 20)
    env = {"PRESK_RUNTIME_DIR": str(folder)}
    done = home.presk("check", "bad.psk", env=env)
    same(done, home.alone("check", "bad.psk"))
    assert stat.S_ISSOCK((folder / places.SOCKET).stat().st_mode)
    assert home.presk("daemon", "stop", env=env).text == "the daemon has stopped\n"


def test_the_folder_is_where_the_environment_says() -> None:
    here = "/here"
    for env, folder in (
        ({"PRESK_RUNTIME_DIR": "/a", "PRESK_HOME": "/b"}, "/a"),
        ({"PRESK_RUNTIME_DIR": "a/../c"}, "/here/c"),
        ({"PRESK_RUNTIME_DIR": "", "PRESK_HOME": "/b", "XDG_RUNTIME_DIR": "/d"}, "/b/run"),
        ({"XDG_RUNTIME_DIR": "/d", "HOME": "/h"}, "/d/presk"),
        ({"XDG_RUNTIME_DIR": "relative", "XDG_STATE_HOME": "/s"}, "/s/presk/run"),
        ({"HOME": "/h"}, "/h/.local/state/presk/run"),
    ):
        assert places.runtime_folder(env, here) == folder
    for env in ({}, {"HOME": ""}, {"HOME": "relative"}):
        with pytest.raises(places.NoFolder):
            places.runtime_folder(env, here)


def test_without_a_folder_the_command_works_in_its_own_process(home: Home) -> None:
    home.write("bad.psk", BAD)
    nothing = {"HOME": "", "PRESK_HOME": "", "PRESK_CACHE": str(home.presk_home / "cache")}
    done = home.presk("check", "bad.psk", env=nothing)
    assert done.complaint == (
        "presk: warning: no daemon can be had: no folder for it is known: set PRESK_RUNTIME_DIR or HOME; working without it\n"
    )
    right = home.alone("check", "bad.psk", env=nothing)
    assert (done.code, done.out) == (right.code, right.out)


def test_a_daemon_that_dies_at_its_start_costs_one_warning(home: Home) -> None:
    home.write("good.psk", GOOD)
    done = home.presk("check", "good.psk", env={"PRESK_FAULT": "kill@start"})
    assert done.code == 0
    assert done.complaint.count("\n") == 1
    assert "it ended while it started" in done.complaint


def test_no_daemon_means_none(home: Home) -> None:
    home.write("good.psk", GOOD)
    assert home.presk("check", "good.psk", env={"PRESK_NO_DAEMON": "1"}).err == b""
    assert home.alone("check", "good.psk").err == b""
    assert not os.path.exists(home.run_folder)
    assert home.presk("watch", "good.psk", env={"PRESK_NO_DAEMON": "1"}).code == 2
    assert home.alone("watch", "good.psk").complaint == (
        "error[E9003]: `presk watch` needs the daemon, and PRESK_NO_DAEMON is set\n"
    )
