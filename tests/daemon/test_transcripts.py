"""Every command says the same and leaves with the same code, whether the daemon works or this process does."""

import re
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.daemon.support import COMMAND, GOOD, Home, same

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
    ("explain", "E2002"),
    ("explain", "E9999"),
    ("cache",),
    ("--help",),
    ("check", "--help"),
    ("daemon", "--help"),
    ("watch", "--help"),
    ("nonsense",),
    (),
)


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
    home.write("good.psk", GOOD)
    assert home.presk("check", "good.psk").code == 0
    stats = home.presk("cache", "stats")
    assert f"folder: {home.presk_home / 'cache'}" in stats.text
    verified = home.presk("cache", "verify", "--all")
    assert verified.code == 0
    assert ", 0 differ" in verified.text
    assert home.presk("cache", "clear").code == 0
    assert home.presk("check", "good.psk").code == 0


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
    asked = {"_PRESK_COMPLETE": "complete_bash", "COMP_WORDS": "presk da", "COMP_CWORD": "1"}
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
