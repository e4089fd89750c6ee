"""Reads scripts of edits: files, what is done to them, and what a check has to compute and to say each time.

The form, in Markdown (README.md shows one): a script is a heading `## …` with fenced parts in order.

    ```psk FILE       the file's text (from here on)
    ```edit FILE      lines `- old` are replaced by the lines `+ new` that follow; the old lines stand once in the file
    ```remove FILE    the file is gone
    ```const          the values given to constants, `NAME=N`, one a line (none: no values)
    ```first          a check; what it computes is not listed
    ```check          a check; what it computes is listed: `STAGE, STAGE: SUBJECT, SUBJECT`, and nothing else is computed;
                      stages that come after typing are not looked at
    ```check all      the same with all stages

The lines of `first` and `check` of the form `E2002 main.psk:3:7` are all that is said, with line and column. Subjects of the
main file stand without its name. A reader that is lenient makes tests that cannot fail, so this one is strict: what does not
have the form is `Malformed`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

MAIN: Final = "main.psk"

_SAID: Final = re.compile(r"([EW]\d{4}) (\S+):(\d+):(\d+)")
_FENCE: Final = re.compile(r"```(psk|edit|remove|const|first|check all|check)(?: (\S+))?")


class Malformed(Exception):
    """A script that does not have the form; the message begins with file and line."""


@dataclass(frozen=True, slots=True)
class Write:
    """A file gets a text."""

    file: str
    text: str


@dataclass(frozen=True, slots=True)
class Edit:
    """Texts of a file, each found once, are replaced."""

    file: str
    hunks: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Remove:
    """A file is removed."""

    file: str


@dataclass(frozen=True, slots=True)
class Override:
    """Constants of the main file get values; those of before are forgotten."""

    values: Mapping[str, int]


Computed = Mapping[str, frozenset[str]]
"""Subjects by stage."""


@dataclass(frozen=True, slots=True)
class Check:
    """A check: what it computes (None: whatever it does), what it says as (code, file, line, column).

    `all_stages` says that the stages after typing are listed too.
    """

    computed: Computed | None
    said: tuple[tuple[str, str, int, int], ...]
    line: int
    all_stages: bool = False


Step = Write | Edit | Remove | Override | Check


@dataclass(frozen=True, slots=True)
class Script:
    """A script by its title; `source` is the Markdown file."""

    source: str
    title: str
    steps: tuple[Step, ...]

    @property
    def name(self) -> str:
        """The name of its test."""
        return f"{self.source.removesuffix('.md')}: {self.title}"


def read_scripts(path: Path) -> tuple[Script, ...]:
    """The scripts of a Markdown file."""
    return tuple(_Reader(path.name, path.read_text("utf-8")).scripts())


class _Reader:
    """A walk over the lines of one file."""

    def __init__(self, source: str, text: str) -> None:
        self._source = source
        self._lines = text.split("\n")
        self._at = 0

    def scripts(self) -> Iterator[Script]:
        title: str | None = None
        steps: list[Step] = []
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.startswith("## "):
                if title is not None:
                    yield self._script(title, steps)
                title, steps = line.removeprefix("## "), []
            elif line.startswith("```"):
                if title is None:
                    self._fail("a part stands before the first heading")
                steps.append(self._step(line))
            self._at += 1
        if title is None:
            self._fail("there is no script")
        yield self._script(title, steps)

    def _script(self, title: str, steps: list[Step]) -> Script:
        checks = [step for step in steps if isinstance(step, Check)]
        if len(checks) < 2 or checks[0].computed is not None:
            self._fail(f"`{title}` is not a `first` and one `check` at least")
        if not isinstance(steps[-1], Check):
            self._fail(f"`{title}` does not end with a check")
        return Script(self._source, title, tuple(steps))

    def _step(self, fence: str) -> Step:
        match = _FENCE.fullmatch(fence)
        if match is None:
            self._fail(f"no part of a script begins with `{fence}`")
        kind, file = match.groups()
        start = self._at + 1
        while True:
            self._at += 1
            if self._at == len(self._lines):
                self._fail("the part is not closed")
            if self._lines[self._at] == "```":
                break
        lines = self._lines[start : self._at]
        if (file is not None) != (kind in ("psk", "edit", "remove")):
            self._fail(f"`{fence}` names {'a' if file else 'no'} file")
        match kind:
            case "psk":
                return Write(file, "".join(line + "\n" for line in lines))
            case "edit":
                return Edit(file, tuple(self._hunks(lines)))
            case "remove":
                return Remove(file)
            case "const":
                return Override({name: int(value) for name, _, value in (line.partition("=") for line in lines)})
            case _:
                return self._check(kind, lines, start)

    def _hunks(self, lines: list[str]) -> Iterator[tuple[str, str]]:
        old: list[str] = []
        new: list[str] = []
        for line in [*lines, "- "]:
            if line.startswith("- ") or line == "-":
                if new:
                    yield "".join(old), "".join(new)
                    old, new = [], []
                old.append(line[2:] + "\n")
            elif line.startswith("+ ") or line == "+":
                new.append(line[2:] + "\n")
            else:
                self._fail(f"`{line}` begins with neither `-` nor `+`")
        if len(old) != 1:
            yield "".join(old[:-1]), ""

    def _check(self, kind: str, lines: list[str], start: int) -> Check:
        first = kind == "first"
        computed: dict[str, frozenset[str]] = {}
        said: list[tuple[str, str, int, int]] = []
        for line in lines:
            match = _SAID.fullmatch(line)
            if match is not None:
                said.append((match[1], match[2], int(match[3]), int(match[4])))
                continue
            stages, colon, subjects = line.partition(": ")
            if not colon or first:
                self._fail(f"`{line}` says nothing that is understood here")
            for stage in stages.split(", "):
                if stage in computed:
                    self._fail(f"the stage `{stage}` stands twice")
                computed[stage] = frozenset(subjects.split(", "))
        return Check(None if first else computed, tuple(said), start, kind == "check all")

    def _fail(self, why: str) -> NoReturn:
        raise Malformed(f"{self._source}:{self._at + 1}: {why}")
