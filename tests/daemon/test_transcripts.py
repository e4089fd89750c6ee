"""Every command says the same and leaves with the same code, whether the daemon works or this process does."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Final

import pytest

from presk.cli.app import command
from tests.daemon.support import BAD, COMMAND, GOOD, Home, masked, same
from tests.train.models import MODEL, TEXT

LINES: Final = (
    ("check", "good.psk"),
    ("check", "bad.psk"),
    ("check", "warned.psk", "importing.psk"),
    ("check", "--summary", "good.psk"),
    ("check", "--message-format", "json", "bad.psk"),
    ("check", "good.psk", "--const", "D=16"),
    ("check", "good.psk", "--const", "E=16"),
    ("check", "god.psk"),
    ("check", "."),
    ("check",),
    ("check", "good.psk", "--wrong"),
    ("dump", "good.psk"),
    ("dump", "good.psk", "--stage", "tokens"),
    ("dump", "bad.psk", "--stage", "ast", "--format", "json"),
    ("dump", "bad.psk"),
    ("fmt", "--stdout", "good.psk", "bad.psk"),
    ("fmt", "--check", "warned.psk"),
    ("run", "good.psk"),
    ("run", "good.psk", "--entry", "twice"),
    ("run", "good.psk", "--entry", "twice", "--dim", "B=2", "--const", "D=3", "--bits", "64"),
    ("run", "good.psk", "--entry", "fourfold", "--dim", "B=1", "--seed", "7", "--json"),
    ("run", "good.psk", "--entry", "thrice", "--dim", "B=1"),
    ("run", "bad.psk", "--entry", "twice", "--dim", "B=1"),
    ("bench", "good.psk"),
    ("bench", "good.psk", "--entry", "twice", "--runs", "0"),
    ("bench", "bad.psk", "--entry", "twice", "--dim", "B=1"),
    ("explain", "E2002"),
    ("explain", "E9999"),
    ("cache",),
    ("--help",),
    ("nonsense",),
    (),
)

APART: Final = MappingProxyType(
    {
        # How an answer was had differs by its nature.
        ("why",): "test_why_differs_only_in_how_an_answer_was_had",
        # They change the store.
        ("cache", "stats"): "test_caches_are_looked_after_by_the_daemon_too",
        ("cache", "verify"): "test_caches_are_looked_after_by_the_daemon_too",
        ("cache", "gc"): "test_caches_are_looked_after_by_the_daemon_too",
        ("cache", "clear"): "test_caches_are_looked_after_by_the_daemon_too",
        # They write files and read them.
        ("data", "pack"): "test_data_files_are_made_and_read_the_same",
        ("data", "info"): "test_data_files_are_made_and_read_the_same",
        ("data", "show"): "test_data_files_are_made_and_read_the_same",
        ("train",): "test_trainings_are_the_same",
        ("generate",): "test_trainings_are_the_same",
        # They are about the daemon, and never in it.
        ("daemon", "start"): "test_the_life_of_a_daemon_as_it_is_told",
        ("daemon", "stop"): "test_the_life_of_a_daemon_as_it_is_told",
        ("daemon", "restart"): "test_the_life_of_a_daemon_as_it_is_told",
        ("daemon", "status"): "test_the_life_of_a_daemon_as_it_is_told",
        ("daemon", "log"): "test_the_life_of_a_daemon_as_it_is_told",
        ("daemon", "top"): "test_the_life_of_a_daemon_as_it_is_told",
        ("watch",): "test_watching_as_it_is_told",
    }
)
"""The commands whose transcripts are in tests of their own."""


def commands_of(group: object, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of all commands below one."""
    inner = getattr(group, "commands", None)
    if inner is None:
        yield path
    else:
        for name, command in inner.items():
            yield from commands_of(command, (*path, name))


COMMANDS: Final = tuple(commands_of(command()))


def test_every_command_has_a_transcript() -> None:
    """A command that is new is compared, or has a test of its own that this module names."""
    compared = {line[:1] for line in LINES if line}
    assert set(COMMANDS) - compared == APART.keys()
    assert len(COMMANDS) > 15
    for name in APART.values():
        assert name in globals()


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_the_help_of_each_command(shared: Home, path: tuple[str, ...]) -> None:
    there = shared.presk(*path, "--help")
    assert (there.code, there.err) == (0, b"")
    assert there.text.startswith(f"Usage: presk {' '.join(path)} ")
    same(there, shared.alone(*path, "--help"))


@pytest.mark.parametrize("line", LINES, ids=" ".join)
def test_a_command_line_has_one_answer(shared: Home, line: tuple[str, ...]) -> None:
    here, there = shared.alone(*line), shared.presk(*line)
    same(there, here)


def test_what_is_printed_is_what_is_meant(shared: Home) -> None:
    """The answers above are right ones: each code and stream once, by hand."""
    assert shared.presk("check", "good.psk").code == 0
    bad = shared.presk("check", "bad.psk")
    assert bad.code == 1
    assert bad.text.startswith("error[E2002]")
    assert bad.err == b""
    missing = shared.presk("check", "god.psk")
    assert missing.code == 2
    assert (
        missing.complaint
        == "error[E9002]: `god.psk` cannot be read: there is no such file\n  = help: did you mean `good.psk`?\n"
    )


def test_files_that_are_written_are_the_same(shared: Home) -> None:
    text = GOOD.replace(" =\n  x + x", "=x+x")
    assert text != GOOD
    for name in ("one.psk", "two.psk"):
        shared.write(name, text).chmod(0o640)
    one, two = shared.presk("fmt", "one.psk"), shared.alone("fmt", "two.psk")
    assert (one.code, two.code, one.text) == (0, 0, "one.psk: formatted\n")
    assert (shared.work / "one.psk").read_bytes() == (shared.work / "two.psk").read_bytes() == GOOD.encode()
    assert (shared.work / "one.psk").stat().st_mode == (shared.work / "two.psk").stat().st_mode


def test_data_files_are_made_and_read_the_same(shared: Home) -> None:
    """The same commands in the same order, in two folders."""
    lines = (
        "data pack text.txt --window 8 --out text.psk.d",
        "data pack text.txt --window 8 --out text.psk.d --stride 3 --vocab bytes --json",
        "data pack text.txt --window 80 --out text.psk.d",
        "data pack text.txt --window 8 --out .",
        "data info text.psk.d",
        "data info text.txt",
        "data info gone.psk.d",
        "data show text.psk.d --sample 2",
        "data show text.psk.d --sample 2 --json",
        "data show text.psk.d --sample 200",
        "data show text.txt",
        "data",
    )
    told = []
    for ask, name in ((shared.presk, "there"), (shared.alone, "here")):
        folder = shared.write(f"{name}/text.txt", "to be, or not to be: that is the question\n").parent
        told.append([(one.code, one.out, one.err) for one in (ask(*line.split(), cwd=folder) for line in lines)])
    assert told[0] == told[1]
    assert [code for code, _, _ in told[0]] == [0, 0, 4, 2, 0, 4, 2, 0, 0, 2, 4, 2]
    assert (shared.work / "here/text.psk.d").read_bytes() == (shared.work / "there/text.psk.d").read_bytes()
    assert b'\n  " or not "\n' in told[0][7][1]  # every third byte begins one: sample 2 with byte 6


def test_trainings_are_the_same(shared: Home) -> None:
    """Steps, checkpoints and texts, in two folders; only times differ."""
    pack = ("data", "pack", "text.txt", "--window", "8", "--out", "chars.psk.d")
    lines = (
        ("train", "net.psk", "--dry-run"),
        ("train", "net.psk", "--steps", "5", "--threads", "1"),
        ("train", "net.psk"),
        ("train", "net.psk", "--resume", "gone"),
        ("generate", "net.psk", "--params", "ckpt", "--prompt", "the ", "--length", "12"),
        ("generate", "net.psk", "--params", "gone"),
        ("generate",),
        ("train",),
    )
    told = []
    for ask, name in ((shared.presk, "trained there"), (shared.alone, "trained here")):
        folder = shared.write(f"{name}/net.psk", MODEL).parent
        shared.write(f"{name}/text.txt", TEXT)
        assert shared.alone(*pack, cwd=folder).code == 0
        told.append(
            [(one.code, TIMES.sub("…", one.text), one.err) for one in (ask(*line, cwd=folder) for line in lines)]
        )
    assert told[0] == told[1]
    assert [code for code, _, _ in told[0]] == [0, 0, 2, 2, 0, 2, 2, 2]
    last = "ckpt/step-000005.safetensors"
    here, there = (shared.work / name / last for name in ("trained here", "trained there"))
    assert here.read_bytes() == there.read_bytes()


TIMES: Final = re.compile(r"\d+(\.\d+)? (s|min)\b|[\d,.]+ tokens/s|  remaining .*")


def test_why_differs_only_in_how_an_answer_was_had(home: Home) -> None:
    """A process that begins finds on the disk what the daemon has in memory, or has not asked at all."""
    home.write("good.psk", GOOD)
    assert home.presk("check", "good.psk").code == 0
    here, there = home.alone("why", "good.psk", "twice"), home.presk("why", "good.psk", "twice")
    assert here.code == there.code == 0
    how = r"was reused from (memory|the disk); it had been computed|is kept; it was computed|was computed"
    assert "typing (good.psk: fn twice) HOW for the first time" in re.sub(how, "HOW", here.text)
    assert re.sub(how, "HOW", here.text) == re.sub(how, "HOW", there.text)


def test_caches_are_looked_after_by_the_daemon_too(home: Home) -> None:
    """The same commands in the same order, over two folders."""
    home.write("good.psk", GOOD)
    told = []
    for ask, name in ((home.presk, "there"), (home.alone, "here")):
        folder = str(home.root / name)
        lines = (
            ("check", "good.psk"),
            ("cache", "verify", "--all"),
            ("cache", "verify", "--sample", "3", "--seed", "1"),
            ("cache", "stats"),
            ("cache", "gc"),
            ("cache", "gc", "--max-bytes", "0"),
            ("cache", "clear"),
            ("cache", "gc", "--max-bytes", "x"),
            ("check", "good.psk"),
        )
        done = [ask(*line, env={"PRESK_CACHE": folder}) for line in lines]
        # Processes that begin ask the disk for what the daemon has in memory, and write what they read of the compiler.
        counted = re.compile(rb"(?<=^)([a-z ]+): (?!FOLDER).*$|, [\d.]+ KiB", re.MULTILINE)
        told.append([(one.code, counted.sub(rb"\1", masked(one.out, folder)), masked(one.err, folder)) for one in done])
    assert told[0] == told[1]
    assert [code for code, _, _ in told[0]] == [0, 0, 0, 0, 0, 0, 0, 2, 0]
    assert b", 0 differ" in told[0][1][1]
    assert told[0][3][1].startswith(b"folder: FOLDER\nsize\nentries\n")
    assert re.fullmatch(rb"[1-9]\d* entries evicted\n", told[0][5][1])


def test_the_life_of_a_daemon_as_it_is_told(home: Home) -> None:
    """The commands on the daemon, with one and with none; they are run by the client, so `--no-daemon` is another word for
    nothing."""

    def ask(*line: str) -> tuple[int, str, str]:
        done = home.presk("daemon", *line)
        return done.code, re.sub(r"pid \d+", "pid N", done.text), done.complaint

    none = (1, "no daemon runs\n", "")
    assert ask("status") == none
    assert ask("status", "--json") == (1, '{"running": false}\n', "")
    assert ask("top") == (0, "no daemon runs\n", "")
    assert ask("log") == (0, "there is no log yet\n", "")
    assert ask("stop") == (0, "no daemon runs\n", "")
    assert ask("start") == (0, "the daemon runs (pid N)\n", "")
    assert ask("start") == (0, "the daemon runs already (pid N)\n", "")
    code, status, complaint = ask("status")
    assert (code, complaint) == (0, "")
    for line in (
        r"daemon \d+, up \d+\.\d s, \d+ MiB, build [0-9a-f]{12}",
        r"folder: .*/run",
        r"leaves: after 2 min 0 s without work; idle for \d+\.\d s",
        r"requests: 0 \(0 shared, 0 cancelled, 0 crashed\)",
        r"answers of stages reused: nothing asked yet \(0 from memory, 0 from disk\)",
        r"jobs: 0",
        r"workers: 1 \(1 started\)",
        r"watching: 0 files in 0 folders for 0 clients",
        r"last errors: 0",
    ):
        assert re.search(f"^{line}$", status, re.MULTILINE), line
    assert ask("top", "--times", "2", "--seconds", "0.1")[1].count("daemon ") == 2
    code, log, complaint = ask("log", "-n", "1000")
    assert (code, complaint) == (0, "")
    assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d daemon \d+ of build [0-9a-f]{12} listens in ", log)
    assert ask("log", "-n", "0") == (0, "", "")
    assert ask("restart") == (0, "the daemon runs (pid N)\n", "")
    assert ask("stop") == (0, "the daemon has stopped\n", "")
    assert ask("status") == none
    assert ask("nonsense")[0] == 2


def test_watching_as_it_is_told(home: Home) -> None:
    home.write("bad.psk", BAD)
    right = home.alone("check", "bad.psk")
    done = home.presk("watch", "bad.psk", "--runs", "1")
    assert (done.code, done.err) == (1, b"")
    last = re.compile(r"\[\d\d:\d\d:\d\d\] bad\.psk failed; nothing redone, \d+ reused; \d+ ms\n")
    assert done.text.startswith(right.text)
    assert last.fullmatch(done.text.removeprefix(right.text))
    missing = home.presk("watch", "gone.psk", "--runs", "1")
    assert missing.code == 2
    assert missing.complaint == home.alone("check", "gone.psk").complaint
    assert home.alone("watch", "bad.psk").code == 2


def test_both_streams_keep_their_order_when_they_are_joined(shared: Home) -> None:
    """`dump` writes the program to one stream and its errors to the other."""

    def joined(*argv: str) -> bytes:
        return subprocess.run(
            [*COMMAND, *argv, "dump", "bad.psk"],
            cwd=shared.work,
            env=shared.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        ).stdout

    said = joined()
    assert said == joined("--no-daemon")
    assert said.index(b"fn twice") < said.index(b"error[E2002]")


def test_completion_is_answered_by_the_daemon(shared: Home) -> None:
    asked = {"_PRESK_COMPLETE": "complete_bash", "COMP_WORDS": "presk dae", "COMP_CWORD": "1"}
    there = shared.presk(env=asked)
    assert there.text.split() == ["daemon"]
    same(there, shared.presk(env={**asked, "PRESK_NO_DAEMON": "1"}))
    for shell, has in ("bash", "complete -o default"), ("zsh", "#compdef presk"), ("fish", "complete --command presk"):
        script = shared.presk("--show-completion", shell)
        assert script.code == 0 and has in script.text and "_PRESK_COMPLETE" in script.text, script
    assert shared.presk("--show-completion", "tcsh").code == 2


def test_a_directory_that_is_gone_is_an_error_in_both(shared: Home, tmp_path: Path) -> None:
    program = "import os, sys; os.rmdir(os.getcwd()); os.execv(sys.argv[1], sys.argv[1:])"
    answers = []
    for number, more in enumerate(((), ("--no-daemon",))):
        folder = tmp_path / str(number)
        folder.mkdir()
        done = subprocess.run(
            [COMMAND[0], "-P", "-c", program, *COMMAND, *more, "check", "x.psk"],
            cwd=folder,
            env=shared.env,
            capture_output=True,
            check=False,
        )
        answers.append((done.returncode, done.stdout, done.stderr))
    assert answers[0] == answers[1]
    assert answers[0][0] == 2
