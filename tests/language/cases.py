"""Reads the cases of this folder's Markdown files, and compares what was expected with what was reported.

A file is a list of cases. A case is a heading with the ids it shows and a title, one or more fenced programs, perhaps a
line of arguments, and one block of expectations (README.md describes the form for people who add one). The parser is
strict: a word it does not know, a line number that no program line has, a name of no program, a case without an
expectation are all `MalformedCase`, since a case that is read wrongly is a test that cannot fail.
"""

import json
import posixpath
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NoReturn

ITEM_IDS: Final = 486  # L001 … L486
DECISION_IDS: Final = 91  # O01 … O91


class MalformedCase(Exception):
    """A case that does not have the form; the message begins with file and line."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file of a case: its name relative to the case's folder, its bytes, and the Markdown line of its fence."""

    name: str
    content: bytes
    line: int


@dataclass(frozen=True, slots=True)
class Expected:
    """One expected diagnostic: one of `codes`, its primary span beginning in `file` between two lines, both meant."""

    codes: tuple[str, ...]
    file: str
    first: int
    last: int
    contains: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = f"{self.first}" if self.first == self.last else f"{self.first}-{self.last}"
        words = [f'"{text}"' for text in self.contains] + [f'not "{text}"' for text in self.lacks]
        return " ".join(["|".join(self.codes), f"{self.file}:{lines}", *words])


@dataclass(frozen=True, slots=True)
class Reported:
    """One diagnostic as the tool printed it, reduced to what an expectation can speak of."""

    code: str
    severity: str
    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.code} {self.file}:{self.line} {self.text!r}"


@dataclass(frozen=True, slots=True)
class Case:
    """One heading: what to run and what must come of it. `diagnostics` is None where they are not looked at."""

    source: str
    line: int
    ids: tuple[str, ...]
    title: str
    files: tuple[SourceFile, ...]
    args: tuple[str, ...]
    diagnostics: tuple[Expected, ...] | None
    elab: tuple[str, ...]
    elab_not: tuple[str, ...]
    summary: tuple[str, ...]
    ast: tuple[str, ...]
    ast_equal: tuple[str, ...]
    ast_differ: tuple[str, ...]
    exit_code: int | None

    @property
    def name(self) -> str:
        """The name of the pytest case: file, ids and title; no line, so that moving a case does not rename it."""
        return f"{Path(self.source).stem}: {' '.join(self.ids)} {self.title}"

    def expected_exit(self) -> int | None:
        """The exit code of `presk check`; None where the case does not run it."""
        if self.exit_code is not None:
            return self.exit_code
        if self.diagnostics is None:
            return None
        return 1 if any(code.startswith("E") for want in self.diagnostics for code in want.codes) else 0


# -- Reading ----------------------------------------------------------------------------------------------------------

_HEADING: Final = re.compile(r"## ((?:[LO]\d+ )+)(\S.*)")
_FENCE: Final = re.compile(r"```(\w+)(?: (.*))?")
_FILE_NAME: Final = re.compile(r"[\w.-]+(?:/[\w.-]+)*")
_DIAGNOSTIC: Final = re.compile(r"([EW]\d{4}(?:\|[EW]\d{4})*) (\S+):(\d+)(?:-(\d+))?(?= |$)")
_QUOTED: Final = re.compile(r' *(not )?"((?:[^"\\]|\\.)+)"')
_ESCAPE: Final = re.compile("⟨([^⟩]*)⟩")
_BYTES: Final = re.compile(r"[0-9A-F]{2}(?: [0-9A-F]{2})*")
_REPEAT: Final = re.compile(r'(?:"([^"]+)"|([0-9A-F]{2}(?: [0-9A-F]{2})*)) \* (\d+)')


def parse_file(path: Path) -> tuple[Case, ...]:
    """The cases of one Markdown file."""
    return parse(path.read_text(encoding="utf-8"), path.name)


def parse(text: str, source: str) -> tuple[Case, ...]:
    """The cases in `text`; `source` names it in errors. Raises `MalformedCase`."""
    lines = text.split("\n")
    starts = [at for at, line in enumerate(lines) if line.startswith("## ") and not _inside_fence(lines, at)]
    if not lines[0].startswith("# "):
        _fail(source, 1, "the first line is the theme's title, '# …'")
    if not starts:
        _fail(source, 1, "no case: a case begins with '## '")
    for at, line in enumerate(lines[1 : starts[0]], start=2):
        if line.startswith(("#", "```", "args")):
            _fail(source, at, "only prose may stand before the first case")
    cases = tuple(
        _parse_case(lines[start:end], source, start + 1)
        for start, end in zip(starts, [*starts[1:], len(lines)], strict=True)
    )
    seen: dict[str, int] = {}
    for case in cases:
        if case.title in seen:
            _fail(source, case.line, f"the title of line {seen[case.title]} again: {case.title!r}")
        seen[case.title] = case.line
    return cases


def _inside_fence(lines: Sequence[str], at: int) -> bool:
    return sum(line.startswith("```") for line in lines[:at]) % 2 == 1


def _fail(source: str, line: int, why: str) -> NoReturn:
    raise MalformedCase(f"{source}:{line}: {why}")


def _parse_case(lines: Sequence[str], source: str, at: int) -> Case:
    heading = _HEADING.fullmatch(lines[0])
    if heading is None:
        _fail(source, at, "a heading is '## ', ids such as L074 or O73, then a title")
    ids = _parse_ids(heading[1].split(), source, at)

    files: list[SourceFile] = []
    args: tuple[str, ...] | None = None
    expect: list[tuple[int, str]] | None = None
    position = 1
    while position < len(lines):
        line, here = lines[position], at + position
        if not line.startswith("```"):
            if line.startswith("args:"):
                if args is not None or expect is not None:
                    _fail(source, here, "one line of arguments, before the expectations")
                args = _parse_args(line, source, here)
            elif line.strip() and (files or expect is not None or args is not None):
                _fail(source, here, f"the line of intent stands before the programs; here it is lost: {line!r}")
            elif line.startswith("#"):
                _fail(source, here, "a case has one heading, of two signs")
            position += 1
            continue
        end = next((k for k in range(position + 1, len(lines)) if lines[k].startswith("```")), None)
        if end is None or lines[end] != "```":
            _fail(source, here, "the fence is not closed")
        body = lines[position + 1 : end]
        if line == "```expect":
            if expect is not None:
                _fail(source, here, "a second block of expectations")
            expect = [(at + position + 1 + k, text) for k, text in enumerate(body)]
        elif expect is not None:
            _fail(source, here, "a program behind the expectations")
        else:
            files.append(_parse_source(line, body, source, here))
        position = end + 1

    if not files:
        _fail(source, at, "a case without a program")
    names = [posixpath.normpath(file.name) for file in files]
    if len(set(names)) != len(names):
        _fail(source, at, "two programs of one name")
    if not expect:
        _fail(source, at, "a case without expectations")
    return _parse_expect(
        Case(source, at, ids, heading[2], tuple(files), args or (), None, (), (), (), (), (), (), None), expect
    )


def _parse_ids(ids: Sequence[str], source: str, at: int) -> tuple[str, ...]:
    for one in ids:
        number, most, width = int(one[1:]), ITEM_IDS if one[0] == "L" else DECISION_IDS, 3 if one[0] == "L" else 2
        if not 1 <= number <= most or one != f"{one[0]}{number:0{width}}":
            _fail(source, at, f"there is no {one}")
    if len(set(ids)) != len(ids):
        _fail(source, at, "an id twice")
    return tuple(ids)


def _parse_args(line: str, source: str, at: int) -> tuple[str, ...]:
    match = re.fullmatch(r"args: `([^`]+)`", line)
    if match is None:
        _fail(source, at, "arguments are written args: `--const D=12`")
    return tuple(_unescape(match[1], source, at).decode("utf-8").split())


def _parse_source(fence: str, body: Sequence[str], source: str, at: int) -> SourceFile:
    match = _FENCE.fullmatch(fence)
    if match is None or match[1] != "psk" or not match[2]:
        _fail(source, at, "a fence is ```psk NAME, ```psk NAME escaped or ```expect")
    words = match[2].split(" ")
    escaped = words[1:] == ["escaped"]
    if (len(words) != 1 and not escaped) or _FILE_NAME.fullmatch(words[0]) is None or ".." in words[0].split("/"):
        _fail(source, at, "a fence is ```psk NAME, ```psk NAME escaped or ```expect")
    text = "".join(f"{line}\n" for line in body)
    if escaped != (_ESCAPE.search(text) is not None):
        _fail(source, at, "`escaped` and ⟨…⟩ go together")
    return SourceFile(words[0], _unescape(text, source, at) if escaped else text.encode("utf-8"), at)


def _unescape(text: str, source: str, at: int) -> bytes:
    """The bytes of a text in which ⟨EF BB BF⟩ is those bytes, ⟨"(" * 501⟩ and ⟨79 CC 82 * 12⟩ are repetitions."""
    out, last = bytearray(), 0
    for match in _ESCAPE.finditer(text):
        out += text[last : match.start()].encode("utf-8")
        last = match.end()
        if _BYTES.fullmatch(match[1]):
            out += bytes.fromhex(match[1])
        elif repeat := _REPEAT.fullmatch(match[1]):
            once = repeat[1].encode("utf-8") if repeat[1] else bytes.fromhex(repeat[2])
            out += once * int(repeat[3])
        else:
            _fail(source, at, f'an escape is ⟨0D 0A⟩, ⟨"text" * 12⟩ or ⟨79 CC 82 * 12⟩, not {match[0]}')
    return bytes(out + text[last:].encode("utf-8"))


def _parse_expect(case: Case, lines: Sequence[tuple[int, str]]) -> Case:
    files = {file.name: file for file in case.files}
    ok = False
    exit_code: int | None = None
    diagnostics: list[Expected] = []
    texts: dict[str, list[str]] = {key: [] for key in ("elab", "elab-not", "summary", "ast", "ast-equal", "ast-differ")}
    for at, line in lines:
        keyword, _, rest = line.partition(" ")
        if line == "ok":
            if ok:
                _fail(case.source, at, "ok twice")
            ok = True
        elif re.match(r"[EW]\d", line):
            diagnostics.append(_parse_diagnostic(line, files, case.source, at))
        elif keyword == "exit" and re.fullmatch(r"\d+", rest) and exit_code is None:
            exit_code = int(rest)
        elif keyword in ("ast-equal", "ast-differ"):
            if rest not in files or rest == case.files[0].name:
                _fail(case.source, at, f"{keyword} names another program of the case, not {rest!r}")
            texts[keyword].append(rest)
        elif keyword in texts:
            contains, lacks = _parse_quoted(rest, case.source, at)
            if len(contains) != 1 or lacks:
                _fail(case.source, at, f'{keyword} takes one "text"')
            texts[keyword].append(contains[0])
        else:
            _fail(case.source, at, f"not an expectation: {line!r}")
    head = lines[0][0]
    if ok and diagnostics:
        _fail(case.source, head, "ok and a diagnostic")
    if (texts["elab"] or texts["elab-not"] or texts["summary"]) and not (ok or diagnostics):
        _fail(case.source, head, "say ok, or the diagnostics, beside elab and summary")
    if exit_code is not None and (ok or diagnostics or any(texts.values())):
        _fail(case.source, head, "exit stands alone: everything else decides the exit code by itself")
    if case.args and not (ok or diagnostics or exit_code is not None):
        _fail(case.source, head, "arguments that nothing reads")
    return replace(
        case,
        diagnostics=tuple(diagnostics) if ok or diagnostics else None,
        elab=tuple(texts["elab"]),
        elab_not=tuple(texts["elab-not"]),
        summary=tuple(texts["summary"]),
        ast=tuple(texts["ast"]),
        ast_equal=tuple(texts["ast-equal"]),
        ast_differ=tuple(texts["ast-differ"]),
        exit_code=exit_code,
    )


def _parse_diagnostic(line: str, files: Mapping[str, SourceFile], source: str, at: int) -> Expected:
    match = _DIAGNOSTIC.match(line)
    if match is None:
        _fail(source, at, f'a diagnostic is E2003 main.psk:7 "text" not "text", not {line!r}')
    file, first = match[2], int(match[3])
    last = int(match[4]) if match[4] else first
    if match[4] and last <= first:
        _fail(source, at, "a range of lines rises")
    if file not in files:
        _fail(source, at, f"no program is called {file!r}")
    if last > 1:  # an empty file may still have a diagnostic on its first line
        lines = files[file].content.split(b"\n")
        for number in (first, last):
            text = lines[number - 1].strip() if number <= len(lines) else b""
            if not text or text.startswith(b"--"):
                _fail(source, at, f"{file} has no program text on line {number}")
    if len({code[0] for code in match[1].split("|")}) != 1:
        _fail(source, at, "errors and warnings do not stand for one another")
    contains, lacks = _parse_quoted(line[match.end() :], source, at)
    return Expected(tuple(match[1].split("|")), file, first, last, contains, lacks)


def _parse_quoted(text: str, source: str, at: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    contains: list[str] = []
    lacks: list[str] = []
    position = 0
    while position < len(text):
        match = _QUOTED.match(text, position)
        if match is None:
            _fail(source, at, f'expected "text" or not "text", found {text[position:]!r}')
        (lacks if match[1] else contains).append(re.sub(r"\\(.)", r"\1", match[2]))
        position = match.end()
    return tuple(contains), tuple(lacks)


# -- Comparing --------------------------------------------------------------------------------------------------------


def occurs(wanted: str, text: str) -> bool:
    """Whether `text` has `wanted` in whole words (`T = 1` is not in `T = 1024`), in NFC, runs of blanks as one."""
    wanted, text = (" ".join(unicodedata.normalize("NFC", one).split()) for one in (wanted, text))
    before = r"(?<!\w)" if re.match(r"\w", wanted) else ""
    after = r"(?!\w)" if re.search(r"\w$", wanted) else ""
    return re.search(before + re.escape(wanted) + after, text) is not None


def read_reported(output: bytes) -> tuple[Reported, ...]:
    """The diagnostics of `presk check --message-format json`: one JSON object per line and nothing else."""
    found: list[Reported] = []
    for line in output.decode("utf-8").splitlines():
        value = json.loads(line)
        parts = [value["message"], *(label["text"] for label in value["labels"]), *value["notes"], value["mend"] or ""]
        found.append(
            Reported(
                value["code"],
                value["severity"],
                posixpath.normpath(value["file"]),
                value["span"]["start"]["line"],
                "\n".join(parts),
            )
        )
    return tuple(found)


def satisfies(reported: Reported, expected: Expected) -> bool:
    """Whether one diagnostic is the expected one."""
    return (
        reported.code in expected.codes
        and reported.severity == ("error" if reported.code[0] == "E" else "warning")
        and reported.file == posixpath.normpath(expected.file)
        and expected.first <= reported.line <= expected.last
        and all(occurs(text, reported.text) for text in expected.contains)
        and not any(occurs(text, reported.text) for text in expected.lacks)
    )


def compare(expected: Sequence[Expected], reported: Sequence[Reported]) -> str | None:
    """None if the two lists match one to one in some order, else what is missing and what is too much."""
    taken: dict[int, int] = {}  # index into reported -> index into expected

    def place(want: int, tried: set[int]) -> bool:
        for at, one in enumerate(reported):
            if at in tried or not satisfies(one, expected[want]):
                continue
            tried.add(at)
            if at not in taken or place(taken[at], tried):
                taken[at] = want
                return True
        return False

    missing = [str(expected[want]) for want in range(len(expected)) if not place(want, set())]
    surplus = [str(one) for at, one in enumerate(reported) if at not in taken]
    if not missing and not surplus:
        return None
    return "\n".join([*(f"missing: {one}" for one in missing), *(f"reported: {one}" for one in surplus)])


def without_spans(value: object) -> object:
    """A JSON syntax tree without its positions."""
    if isinstance(value, dict):
        return {key: without_spans(item) for key, item in value.items() if key not in ("span", "spans")}
    if isinstance(value, list):
        return [without_spans(item) for item in value]
    return value


def covered(cases: Iterable[Case]) -> frozenset[str]:
    """All ids that some case names."""
    return frozenset(one for case in cases for one in case.ids)
