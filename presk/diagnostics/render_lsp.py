"""Diagnostics as an editor takes them: the objects of the Language Server Protocol, by document.

Positions count lines and UTF-16 code units from 0. The protocol ends a line at LF, CR LF and also at a CR alone, which in
Presk is an ordinary character, so positions are found anew from the text. Notes and mend follow the message, since editors
show nothing else; labels but the primary one are related information. A diagnostic whose file has no text is put at the
beginning of that document.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import Final

from presk.diagnostics.sources import Lines, Position, Sources, Span, line_index
from presk.diagnostics.value import Diagnostic, Label, Severity

Json = dict[str, object]

SOURCE: Final = "presk"
_SEVERITY: Final = {Severity.ERROR: 1, Severity.WARNING: 2}
_LINE_END: Final = re.compile("\r\n|\n|\r")


def render_lsp(
    diagnostics: Iterable[Diagnostic],
    sources: Sources,
    *,
    uri: Callable[[str], str],
    page: Callable[[str], str],
) -> dict[str, list[Json]]:
    """The diagnostics of each document, by URI, in the order given.

    `uri` gives the URI of a file, as places name it; `page` the URI of a code's page, for `codeDescription`.
    """
    lines = line_index(sources)
    units: dict[str, _Utf16 | None] = {}

    def span_range(file: str, span: Span | None) -> Json:
        if file not in units:
            index = lines(file)
            units[file] = None if index is None else _Utf16(index)
        known = units[file]
        if span is None or known is None:
            return {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 0}}
        return {"start": known.position(span.start), "end": known.position(span.end)}

    def location(label: Label) -> Json:
        file = label.place.file
        return {"uri": uri(file), "range": span_range(file, sources.resolve(label.place))}

    out: dict[str, list[Json]] = {}
    for one in diagnostics:
        primary = one.primary
        item: Json = {
            "range": span_range(primary.place.file, sources.resolve(primary.place)),
            "severity": _SEVERITY[one.severity],
            "code": one.code,
            "codeDescription": {"href": page(one.code)},
            "source": SOURCE,
            "message": _message(one),
            "relatedInformation": [{"location": location(label), "message": label.text} for label in one.labels],
        }
        out.setdefault(uri(primary.place.file), []).append(item)
    return out


def _message(diagnostic: Diagnostic) -> str:
    parts = [diagnostic.message]
    if diagnostic.primary.text:
        parts.append(diagnostic.primary.text)
    parts += [f"note: {note}" for note in diagnostic.notes]
    if diagnostic.mend is not None:
        parts.append(f"help: {diagnostic.mend}")
    return "\n".join(parts)


class _Utf16:
    """The positions of a text as the protocol counts them."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._starts = [0, *(found.end() for found in _LINE_END.finditer(lines.text))]

    def position(self, position: Position) -> Json:
        """Line and UTF-16 column, from 0, of a position of the text (or its rim)."""
        index = self._lines.index(position)
        line = bisect_right(self._starts, index) - 1
        before = self._lines.text[self._starts[line] : index]
        return {"line": line, "character": len(before) + sum(character > "\uffff" for character in before)}
