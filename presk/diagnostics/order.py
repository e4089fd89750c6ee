"""The order in which diagnostics are shown, and the removal of repetitions."""

from collections.abc import Iterable, Sequence

from presk.diagnostics.sources import Sources
from presk.diagnostics.value import Diagnostic


def ordered(
    diagnostics: Iterable[Diagnostic], sources: Sources, *, files: Sequence[str] = ()
) -> tuple[Diagnostic, ...]:
    """The diagnostics by file, position, code and message, equal ones once.

    `files` gives the order of files, as places name them (the command line's files, say); all others follow by their
    name. A diagnostic whose place is in no text comes before those of its file's text.
    """
    rank = {file: number for number, file in reversed(list(enumerate(files)))}

    def key(diagnostic: Diagnostic) -> tuple[int, str, int, int, str, str]:
        file = diagnostic.primary.place.file
        span = sources.resolve(diagnostic.primary.place)
        start, end = (-1, -1) if span is None else (span.start.offset, span.end.offset)
        return (rank.get(file, len(rank)), sources.name(file), start, end, diagnostic.code, diagnostic.message)

    return tuple(sorted(dict.fromkeys(diagnostics), key=key))
