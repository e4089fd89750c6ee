"""Diagnostics as JSON, one object per line, for programs that read them.

    {"code": "E2003", "severity": "error", "message": "…", "file": "a.psk",
     "span": {"start": {"line": 3, "column": 7, "offset": 41}, "end": {"line": 3, "column": 12, "offset": 46}},
     "labels": [{"file": "a.psk", "span": {…}, "text": "…", "primary": true}, …], "notes": ["…"], "mend": null}

`file` and `span` are those of the primary label, which is also the first of `labels`. Lines and columns count from 1, columns
in characters (code points); `offset` counts bytes of the file from 0; `end` is exclusive. `span` is null where a place is in
no text (a file that is missing). Texts are as the compiler says them, escaped as JSON asks, and so are the control characters and
line separators that JSON would admit, since terminals obey some and some readers of lines split at others. Half a surrogate
pair, which a file name that is no UTF-8 may hold, becomes U+FFFD.
"""

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from presk.diagnostics.sources import Position, Sources
from presk.diagnostics.value import Diagnostic, Label

_ESCAPED: Final = re.compile("[\x7f-\x9f\u2028\u2029]")

_Json = dict[str, object]


def render_json(diagnostics: Iterable[Diagnostic], sources: Sources) -> str:
    """A line for every diagnostic, in the order given."""
    return "".join(f"{_line(_object(one, sources))}\n" for one in diagnostics)


def _line(value: _Json) -> str:
    text = msgspec.json.encode(value).decode()
    # Such a character can only stand in a string, where its escape means the same.
    return _ESCAPED.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def _object(diagnostic: Diagnostic, sources: Sources) -> _Json:
    primary = _label(diagnostic.primary, sources, primary=True)
    return {
        "code": diagnostic.code,
        "severity": diagnostic.severity.value,
        "message": _text(diagnostic.message),
        "file": primary["file"],
        "span": primary["span"],
        "labels": [primary, *(_label(label, sources, primary=False) for label in diagnostic.labels)],
        "notes": [_text(note) for note in diagnostic.notes],
        "mend": None if diagnostic.mend is None else _text(diagnostic.mend),
    }


def _label(label: Label, sources: Sources, *, primary: bool) -> _Json:
    span = sources.resolve(label.place)
    return {
        "file": _text(sources.name(label.place.file)),
        "span": None if span is None else {"start": _position(span.start), "end": _position(span.end)},
        "text": _text(label.text),
        "primary": primary,
    }


def _position(position: Position) -> _Json:
    return {"line": position.line, "column": position.column, "offset": position.offset}


def _text(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
