"""The diagnostic as a value: a code, a message, places with a few words each, notes and a mend.

Places are relative, so that a cached diagnostic outlives an edit above it: a place names a chunk of a file (a
declaration or a member of one) and a range of tokens counted from the chunk's first token. Whoever renders a diagnostic
has the file's token table and turns a place into lines and columns. `file` and `chunk` may be empty, which means "the
file (the chunk) that is being worked on"; the caller that knows fills them in with :func:`located`.
"""

from enum import StrEnum

import msgspec


class Severity(StrEnum):
    """How bad it is. Errors make a command leave with 1; warnings do not."""

    ERROR = "error"
    WARNING = "warning"


class Place(msgspec.Struct, frozen=True, array_like=True):
    """Tokens `first` to `last` (inclusive) of a chunk; `first > last` is the empty place before token `first`."""

    first: int
    last: int
    chunk: str = ""
    file: str = ""


class Label(msgspec.Struct, frozen=True, array_like=True):
    """A place and what is to be said about it."""

    place: Place
    text: str = ""


class Diagnostic(msgspec.Struct, frozen=True, array_like=True):
    """One thing to tell the user. `code` is a key of `codes.CODES`; the severity is the code's."""

    code: str
    message: str
    primary: Label
    labels: tuple[Label, ...] = ()
    notes: tuple[str, ...] = ()
    mend: str | None = None
    unknown: str | None = None
    """The name that was not found, where one was: the caller that knows the file's names may add a proposal."""
    wanted: str = ""
    """What kind of name it was taken for: `value`, `dimension`, `constant`, `type`, `module`, `import`; empty for any."""

    @property
    def severity(self) -> Severity:
        """Codes beginning with W are warnings, all others errors."""
        return Severity.WARNING if self.code.startswith("W") else Severity.ERROR


def located(diagnostic: Diagnostic, *, file: str, chunk: str) -> Diagnostic:
    """The diagnostic with empty file and chunk names of its places filled in."""

    def fill(label: Label) -> Label:
        place = label.place
        if place.file and place.chunk:
            return label
        return Label(
            Place(place.first, place.last, place.chunk or chunk, place.file or file),
            label.text,
        )

    return msgspec.structs.replace(
        diagnostic, primary=fill(diagnostic.primary), labels=tuple(fill(label) for label in diagnostic.labels)
    )
