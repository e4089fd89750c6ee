"""Diagnostics as a terminal shows them.

    error[E2003]: `·` contracts `model: D` with `heads: H`
      --> nlp/minigpt.psk:14:12
       |
    14 |   let h = x · w
       |           - ^ - `w : ℝ[heads: H, D]`
       |           |
       |           `x : ℝ[batch: B, model: D]`
       |
      ::: nlp/linear.psk:3:9
       |
     3 |   param w : ℝ[heads: H, D]
       |         - declared here
       |
       = note: two axes of different names never unify
       = help: rename one of them

The primary label's file comes first, the others after `:::` in the order of their labels. Everything that comes from source
text or from a message is made harmless first (:mod:`presk.diagnostics.cells`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from presk.diagnostics.canvas import Ink, Run, paint
from presk.diagnostics.cells import printable
from presk.diagnostics.snippet import CUT, mark, snippet
from presk.diagnostics.sources import Lines, Sources, Span, line_index
from presk.diagnostics.value import Diagnostic, Label, Severity

_LONGEST_MESSAGE: Final = 2000
_LISTED_CODES: Final = 8
_Index = Callable[[str], Lines | None]
_SEVERITY_INK: Final = {Severity.ERROR: Ink.ERROR, Severity.WARNING: Ink.WARNING}


class TextOptions(msgspec.Struct, frozen=True):
    """How to print: with colours or without, and how wide source lines may be."""

    color: bool = False
    width: int = 140


def wants_color(env: Mapping[str, str], *, terminal: bool) -> bool:
    """Colours go to a terminal that can show them, unless `NO_COLOR` is set to anything but the empty text."""
    return terminal and not env.get("NO_COLOR") and env.get("TERM") != "dumb"


def render_text(diagnostics: Iterable[Diagnostic], sources: Sources, options: TextOptions) -> str:
    """All diagnostics, each followed by an empty line, in the order given. Nothing gives the empty text."""
    index = line_index(sources)
    out: list[str] = []
    for diagnostic in diagnostics:
        located = [(label, sources.resolve(label.place)) for label in (diagnostic.primary, *diagnostic.labels)]
        groups = _groups(located, index)
        number_width = len(str(_last_line(groups, index)))
        rows = [_header(diagnostic)]
        for position, group in enumerate(groups):
            if position > 0 and groups[position - 1].marks:
                rows.append(_empty(number_width))
            rows += _file(diagnostic, group, index(group.file), sources, number_width, options.width, position == 0)
        remarks = _remarks(diagnostic, number_width)
        if remarks and groups[-1].marks:
            rows.append(_empty(number_width))
        rows += remarks
        out += [paint(row, color=options.color) for row in rows]
        out.append("")
    return "".join(f"{line}\n" for line in out)


def summary(diagnostics: Iterable[Diagnostic], *, color: bool = False) -> str:
    """`2 errors, 1 warning` and where to read more, in lines; empty if there is nothing to count."""
    found = list(diagnostics)
    counts = [(severity, sum(one.severity is severity for one in found)) for severity in Severity]
    runs: list[Run] = []
    for severity, count in counts:
        if count:
            if runs:
                runs.append((", ", Ink.PLAIN))
            runs.append((f"{count} {severity.value}{'s' if count > 1 else ''}", _SEVERITY_INK[severity]))
    if not runs:
        return ""
    codes = sorted({one.code for one in found}, key=lambda code: (code.startswith("W"), code))
    if len(codes) == 1:
        hint = f"`presk explain {codes[0]}` says more"
    else:
        listed = ", ".join(codes[:_LISTED_CODES]) + (f", {CUT}" if len(codes) > _LISTED_CODES else "")
        hint = f"`presk explain CODE` says more about {listed}"
    return f"{paint(runs, color=color)}\n{printable(hint)}\n"


class _Group:
    """The labels that lie in one file; `marks` are those whose place is known."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.marks: list[tuple[bool, Label, Span]] = []
        self.bare: list[Label] = []


def _groups(located: Sequence[tuple[Label, Span | None]], index: _Index) -> list[_Group]:
    groups: dict[str, _Group] = {}
    for position, (label, span) in enumerate(located):
        group = groups.setdefault(label.place.file, _Group(label.place.file))
        if span is None or index(label.place.file) is None:
            group.bare.append(label)
        else:
            group.marks.append((position == 0, label, span))
    return list(groups.values())


def _last_line(groups: Sequence[_Group], index: _Index) -> int:
    last = 1
    for group in groups:
        lines = index(group.file)
        if lines is not None:
            last = max([last, *(min(span.end.line, len(lines)) for _, _, span in group.marks)])
    return last


def _short(text: str) -> str:
    """A message of a length that somebody reads."""
    if len(text) > _LONGEST_MESSAGE:
        text = f"{text[: _LONGEST_MESSAGE // 2]}{CUT}{text[-_LONGEST_MESSAGE // 2 :]}"
    return printable(text)


def _one_line(text: str) -> str:
    return " ".join(_short(text).split("\n"))


def _header(diagnostic: Diagnostic) -> list[Run]:
    severity = diagnostic.severity
    return [
        (f"{severity.value}[{printable(diagnostic.code)}]", _SEVERITY_INK[severity]),
        (f": {_one_line(diagnostic.message)}", Ink.STRONG),
    ]


def _file(
    diagnostic: Diagnostic,
    group: _Group,
    lines: Lines | None,
    sources: Sources,
    number_width: int,
    width: int,
    main: bool,
) -> list[list[Run]]:
    """Where a file's labels are, and its lines."""
    arrow: Run = (f"{'':>{number_width}}{'-->' if main else ':::'} ", Ink.FRAME)
    name = _one_line(sources.name(group.file))
    rows: list[list[Run]] = []
    for label in group.bare:
        place = [name] if name else []
        text = [_one_line(label.text)] if label.text else []
        if place or text:
            rows.append([arrow, (": ".join([*place, *text]), Ink.PLAIN)])
    if lines is None or not group.marks:
        return rows
    ink = _SEVERITY_INK[diagnostic.severity]
    marks = [
        mark(span, lines, text=_one_line(label.text), sign="^" if primary else "-", ink=ink if primary else Ink.SECOND)
        for primary, label, span in group.marks
    ]
    first = marks[0]
    rows.append([arrow, (f"{name}:{first.first_line}:{first.first + 1}", Ink.PLAIN)])
    rows.append(_empty(number_width))
    rows += snippet(lines, marks, number_width=number_width, width=width)
    return rows


def _empty(number_width: int) -> list[Run]:
    return [(f"{'':>{number_width}} |", Ink.FRAME)]


def _remarks(diagnostic: Diagnostic, number_width: int) -> list[list[Run]]:
    """Notes and mend, further lines of one below its first word."""
    remarks = [("note", Ink.NOTE, note) for note in diagnostic.notes]
    if diagnostic.mend is not None:
        remarks.append(("help", Ink.HELP, diagnostic.mend))
    rows: list[list[Run]] = []
    for kind, ink, text in remarks:
        first, *rest = _short(text).split("\n")
        rows.append([(f"{'':>{number_width}} = ", Ink.FRAME), (kind, ink), (f": {first}", Ink.PLAIN)])
        rows += [[(" " * (number_width + 3 + len(kind) + 2) + line, Ink.PLAIN)] for line in rest]
    return rows
