"""The parts that need no daemon: the wire, faults, the build, the log, shared memory, output, what the client imports."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from presk.cache.files import Files
from presk.cli.faults import Faults, FaultyFiles
from presk.cli.output import ERR, GATHERED, OUT, Output
from presk.daemon import protocol
from presk.daemon.__main__ import limits_of
from presk.daemon.build import Build
from presk.daemon.log import Log
from presk.daemon.phase import SIZE, Phase, shared_file
from presk.daemon.server import Limits

TEXT: Final = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
RAW: Final = st.binary(max_size=20).map(os.fsdecode)


@given(
    st.lists(TEXT | RAW, max_size=5),
    TEXT | RAW,
    st.booleans(),
    st.integers(0, 9999),
    st.dictionaries(TEXT, RAW, max_size=4),
)
def test_a_request_arrives_as_it_was_sent(
    arguments: list[str], directory: str, terminal: bool, number: int, environment: dict[str, str]
) -> None:
    payload = protocol.request(arguments, directory, terminal, number, environment, number % 512, report=terminal)
    request = protocol.Request(payload)
    assert (request.arguments, request.directory, request.environment) == (arguments, directory, environment)
    assert (request.terminal, request.report) == (terminal, terminal)
    assert (request.columns, request.mask) == (number, number % 512)


@given(st.binary(max_size=60))
def test_bytes_that_are_no_request_are_refused(data: bytes) -> None:
    try:
        request = protocol.Request(data)
    except protocol.Malformed:
        return
    again = protocol.request(
        request.arguments,
        request.directory,
        request.terminal,
        request.columns,
        request.environment,
        request.mask,
        report=request.report,
    )
    assert protocol.Request(again).arguments == request.arguments


@given(st.lists(st.tuples(st.integers(1, 255), st.binary(max_size=300)), max_size=8), st.integers(1, 50))
def test_frames_arrive_however_they_are_cut(frames: list[tuple[int, bytes]], size: int) -> None:
    data = b"".join(protocol.frame(kind, payload) for kind, payload in frames)
    pieces = iter([data[at : at + size] for at in range(0, len(data), size)])
    buffer = bytearray()
    found = []
    while (one := protocol.read_frame(lambda _: next(pieces, b""), buffer)) is not None:
        found.append(one)
    assert found == frames
    assert not buffer


def test_the_chosen_environment() -> None:
    given_ = {"HOME": "h", "PRESK_CACHE": "c", "PATH": "p", "NO_COLOR": "", "COMP_WORDS": "w", "SECRET_TOKEN": "s"}
    assert protocol.chosen(given_) == {"HOME": "h", "PRESK_CACHE": "c", "NO_COLOR": "", "COMP_WORDS": "w"}


def test_faults_strike_where_and_when_they_are_asked_to(tmp_path: Path) -> None:
    faults = Faults("enospc@put:2, eio@get")
    files = FaultyFiles(faults)
    files.create(str(tmp_path / "one"), b"x")
    for name in ("two", "three"):
        with pytest.raises(OSError, match="No space left"):
            files.create(str(tmp_path / name), b"x")
    with pytest.raises(OSError, match="Input/output"):
        files.read(str(tmp_path / "one"))
    assert isinstance(files, Files)
    assert not Faults("")
    for wrong in ("put", "enospc@", "enospc@nowhere", "boom@put", "enospc@put:0", "enospc@put:x"):
        with pytest.raises(ValueError, match="ACTION@PLACE"):
            Faults(wrong)


def test_the_build_is_what_the_disk_holds(tmp_path: Path) -> None:
    root = tmp_path / "pack"
    (root / "inner").mkdir(parents=True)
    for name in ("__init__.py", "inner/__init__.py", "inner/words.lark"):
        (root / name).write_text("one")
    long_ago = time.time_ns() - 10**10
    for path in (*root.rglob("*"), root):
        os.utime(path, ns=(long_ago, long_ago))
    site = tmp_path / "site"
    (site / "lark-1.0.dist-info").mkdir(parents=True)

    def build() -> Build:
        return Build({"pack": root}, (str(site),))

    first = build()
    assert first.changed() is None
    assert first.digest == build().digest
    words = root / "inner" / "words.lark"
    words.write_text("two")
    assert first.changed() == f"{words} was changed"
    words.write_text("one")
    assert first.changed() is None
    # Same size, same time of modification: the time of change tells.
    words.write_text("owt")
    os.utime(words, ns=(long_ago, long_ago))
    assert first.changed() == f"{words} was changed"
    words.write_text("one")
    (root / "inner" / "new.py").write_text("")
    assert first.changed() == f"{root / 'inner' / 'new.py'} is new"
    (root / "inner" / "new.py").unlink()
    (root / "inner" / ".words.lark.swp").write_text("an editor's")
    (root / "__pycache__").mkdir()
    assert first.changed() is None
    (site / "lark-1.0.dist-info").rename(site / "lark-1.1.dist-info")
    assert first.changed() == "installed packages were changed"
    assert build().changed() is None
    assert build().digest != first.digest
    words.unlink()
    assert build().is_there()
    assert first.changed() == f"{words} is gone"


def test_the_log_is_bounded(tmp_path: Path) -> None:
    log = Log(str(tmp_path), max_bytes=2000)
    for number in range(200):
        log.write(f"line {number}\nand more")
    log.close()
    new, old = (tmp_path / "daemon.log").read_text(), (tmp_path / "daemon.log.1").read_text()
    assert len(new) < 2100
    assert len(old) < 2100
    lines = (old + new).splitlines()
    assert lines[-1].endswith("line 199 and more")
    assert all(" line " in line for line in lines)


def test_what_a_worker_does_is_seen_from_outside(tmp_path: Path) -> None:
    descriptor = shared_file(str(tmp_path))
    inside, outside = Phase(descriptor), Phase(descriptor)
    os.close(descriptor)
    assert outside.read() == ""
    inside.computing("typing", "fn mse")
    assert outside.read() == "typing of fn mse"
    inside.say("ℝ" * SIZE)
    assert outside.read().startswith("ℝℝ")
    inside.say("")
    assert outside.read() == ""
    for phase in (inside, outside):
        phase.close()
    assert os.listdir(tmp_path) == []


def test_output_keeps_the_order_of_both_streams() -> None:
    taken: list[tuple[int, bytes]] = []
    output = Output(lambda number, data: taken.append((number, data)))
    output.stdout.write(b"a")
    output.stdout.write(b"b")
    output.stderr.write(b"c")
    output.stdout.write(b"d")
    output.stdout.flush()
    assert taken == [(OUT, b"ab"), (ERR, b"c"), (OUT, b"d")]
    output.stdout.write(bytes(GATHERED))
    assert taken[-1] == (OUT, bytes(GATHERED))


def test_limits_come_from_the_environment() -> None:
    usual = Limits()
    assert limits_of({}).idle == usual.idle
    assert limits_of({"PRESK_DAEMON_IDLE": "0"}).idle is None
    assert limits_of({"PRESK_DAEMON_IDLE": "1.5", "PRESK_DAEMON_MEMORY": "9"}) == Limits(1.5, 9, limits_of({}).cores)
    assert limits_of({"PRESK_DAEMON_IDLE": "soon"}).idle == usual.idle


def test_the_client_imports_sockets_and_the_protocol() -> None:
    """And nothing else: what it adds to a Python that does nothing is counted, module by module."""
    program = (
        "import sys; before = set(sys.modules); import presk.cli.client; print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    ours = {
        "presk",
        "presk.cli",
        "presk.cli.client",
        "presk.daemon",
        "presk.daemon.connect",
        "presk.daemon.places",
        "presk.daemon.protocol",
    }
    assert set(done.stdout.split()) - ours <= {"_socket", "fcntl"}


def test_commands_on_the_daemon_load_no_compiler() -> None:
    program = (
        "import sys, presk.cli.tool; "
        "print(*sorted(name for name in sys.modules if name.startswith(('presk.elab', 'presk.syntax', 'presk.cache.engine'))))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_the_server_loads_no_compiler() -> None:
    """It is small, and lives on whatever it serves."""
    program = (
        "import sys, presk.daemon.__main__; "
        "heavy = ('presk.elab', 'presk.typing', 'llvmlite', 'typer', 'watchdog'); "
        "print(*sorted(name for name in sys.modules if name.startswith(heavy)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
