"""The tutorial: every command of `docs/tutorial.md`, in order, in a folder of its own; what is printed is what the page shows.

Of its fenced blocks, `presk NAME` is a file that the reader writes, `diff NAME` a change of one, and `console` are commands with
their output. Times, rates, sizes that depend on the machine and digests may differ, by the rules in `MASKED` and no others.
`--golden-update` writes what is printed now into the page; lines that differ in what is masked alone stay as they are.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.repo.tree import ROOT

PAGE: Final = ROOT / "docs" / "tutorial.md"
FENCE: Final = re.compile(r"^```(presk|diff|console)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
STATE: Final = ("cd ", "export ", "mkdir ")
"""Commands whose effect on the shell lasts."""

MASKED: Final = (
    (r"\b[\d,]+(\.\d+)? tokens/s", "⟨rate⟩"),
    (r"\b(\d+ (d|h|min) )*\d+(\.\d+)? (s|ms)\b", "⟨time⟩"),
    (r"\barena \d+\.\d MB", "arena ⟨size⟩"),
    (r"\b[\d,]+ bytes of work, [\d,]+ of state", "⟨size⟩"),
    (r"\b[\d,]+ bytes of work", "⟨size⟩"),
    (r"^bytes: \d+", "bytes: ⟨size⟩"),
    # Machines whose registers are wider share one kernel more, or less.
    (r"\bof \d+ kernels", "of ⟨count⟩ kernels"),
    (r"^object +\d+", "object ⟨count⟩"),
    (r"\b[0-9a-f]{64}\b", "⟨digest⟩"),
)


@dataclass(frozen=True, slots=True)
class Command:
    """A command as the page has it, without the `$`, and the lines that it prints."""

    text: str
    output: tuple[str, ...]


def commands_of(block: str) -> list[Command]:
    """The commands of a `console` block; a backslash at the end of a line goes on with the next one."""
    found: list[tuple[list[str], list[str]]] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append(([line[2:]], []))
        else:
            assert found, f"output before the first command: {line}"
            text, output = found[-1]
            (text if text[-1].endswith("\\") and not output else output).append(line)
    return [Command("\n".join(text), tuple(output)) for text, output in found]


def patched(text: str, diff: str) -> str:
    """A text after a change. What the lines with a blank or a minus say must stand in it, once."""
    for hunk in re.split(r"^@@.*\n", diff, flags=re.MULTILINE):
        lines = hunk.splitlines()
        if not lines:
            continue
        old = "".join(f"\n{line[1:]}" for line in lines if not line.startswith("+")) + "\n"
        new = "".join(f"\n{line[1:]}" for line in lines if not line.startswith("-")) + "\n"
        text = f"\n{text}"
        assert text.count(old) == 1, f"not there once:{old}"
        text = text.replace(old, new)[1:]
    return text


def masked(line: str) -> str:
    """A line without what may differ."""
    for pattern, mark in MASKED:
        line = re.sub(pattern, mark, line)
    return line.rstrip()


class Shell:
    """A copy of what the tutorial needs of the repository, and commands in it, through a daemon of its own."""

    def __init__(self, tree: Path, runtime: str) -> None:
        self.tree: Final = tree
        tree.mkdir()
        shutil.copy(ROOT / "LICENSE", tree / "LICENSE")
        (tree / ".venv").symlink_to(sys.prefix)
        self._state: list[str] = []
        self._env: Final = {
            **os.environ,
            "PRESK_CACHE": str(tree.parent / "cache"),
            "PRESK_RUNTIME_DIR": runtime,
            "NO_COLOR": "1",
            "LC_ALL": "C.UTF-8",
        }

    def run(self, command: str) -> tuple[str, ...]:
        """What a command prints, on both streams."""
        if command.startswith(STATE):
            self._state.append(command)
        script = "\n".join(self._state if command.startswith(STATE) else [*self._state, command])
        done = subprocess.run(
            ["sh", "-c", script],
            cwd=self.tree,
            env=self._env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        return tuple(line.rstrip() for line in done.stdout.decode().splitlines())


def replayed(page: str, shell: Shell) -> str:
    """The page with the output of its commands as they are now; lines that differ in nothing that counts stay."""
    folder = shell.tree / "build" / "tutorial"

    def block(found: re.Match[str]) -> str:
        kind, name, content = found[1], found[2], found[3]
        if kind == "presk":
            (folder / name).write_text(content, "utf-8")
            return found[0]
        if kind == "diff":
            (folder / name).write_text(patched((folder / name).read_text("utf-8"), content), "utf-8")
            return found[0]
        lines = []
        for command in commands_of(content):
            lines += [f"$ {command.text}"]
            now = shell.run(command.text)
            if list(map(masked, now)) == list(map(masked, command.output)):
                now = command.output
            lines += now
        return "```console\n" + "".join(f"{line}\n" for line in lines) + "```"

    return FENCE.sub(block, page)


@pytest.mark.golden
def test_every_command_of_the_tutorial(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    page = PAGE.read_text("utf-8")
    # A socket's path must be short, which those of tests are not.
    with tempfile.TemporaryDirectory(prefix="presk-") as runtime:
        shell = Shell(tmp_path / "tree", runtime)
        try:
            now = replayed(page, shell)
        finally:
            shell.run("presk daemon stop")
    if request.config.getoption("--golden-update"):
        if now != page:
            PAGE.write_text(now, "utf-8")
        return
    assert list(map(masked, page.splitlines())) == list(map(masked, now.splitlines()))


def test_it_has_twelve_steps_and_commands_in_each() -> None:
    steps = re.split(r"^## ", PAGE.read_text("utf-8"), flags=re.MULTILINE)[1:]
    assert [step.split(".")[0] for step in steps if step[0].isdigit()] == [str(number) for number in range(1, 13)]
    for step in steps[:12]:
        assert any(commands_of(found[3]) for found in FENCE.finditer(step) if found[1] == "console"), step


def test_commands_and_changes_are_read() -> None:
    assert commands_of("$ a\n$ b \\\n  c\n  d\n\ne\n$ f\n") == [
        Command("a", ()),
        Command("b \\\n  c", ("  d", "", "e")),
        Command("f", ()),
    ]
    assert patched("a\nb\nc\nd\n", " a\n-b\n+B\n@@\n+x\n d\n") == "a\nB\nc\nx\nd\n"
    for twice_or_never in ("b\nc\nb\n", "ab\n"):
        with pytest.raises(AssertionError, match="not there once"):
            patched(twice_or_never, "-b\n")


def test_what_is_masked_and_what_is_not() -> None:
    line = "step 20/40  loss 2.5406  lr 4.86e-02  norm 0.0576  2,403,903 tokens/s  remaining 1 min 4 s"
    assert masked(line) == "step 20/40  loss 2.5406  lr 4.86e-02  norm 0.0576  ⟨rate⟩  remaining ⟨time⟩"
    assert masked("done  40 steps  0.09 s  loss 3.4340 to 2.2815") == "done  40 steps  ⟨time⟩  loss 3.4340 to 2.2815"


def test_what_differs_is_found_and_written(tmp_path: Path) -> None:
    page = (
        "```console\n$ mkdir -p build/tutorial && cd build/tutorial\n```\n"
        "```presk a.psk\none\ntwo\n```\n```diff a.psk\n one\n-two\n+three\n```\n"
        "```console\n$ cat a.psk\none\ntwo\n$ echo 3.5 s, 7 tokens/s; echo no file >&2\n4.5 s, 9 tokens/s\nno file\n```\n"
    )
    now = replayed(page, Shell(tmp_path / "tree", str(tmp_path)))
    assert now == page.replace("$ cat a.psk\none\ntwo\n", "$ cat a.psk\none\nthree\n")
