"""Proposals for names that were not found: "did you mean …?".

A stage that reports an unknown name does not see the other names of the file (they are no part of its key), so the proposal is
added by whoever sees them all.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from presk.diagnostics.suggest import closest
from presk.diagnostics.value import Diagnostic, Severity

QUESTION: Final = "did you mean"


def with_proposal(diagnostic: Diagnostic, candidates: Iterable[str]) -> Diagnostic:
    """The diagnostic with the most similar of the candidates for its unknown name, if it has one and there is one.

    `candidates` are the names that could stand in place of the unknown one: paths (`m.V`) for a path. The mend of an error
    gives way to the proposal, that of a warning stays.
    """
    name = diagnostic.unknown
    if name is None or any(QUESTION in words for words in (diagnostic.mend or "", *diagnostic.notes)):
        return diagnostic
    front, dot, last = name.rpartition(".")
    near = closest(last, (one.removeprefix(f"{front}.") for one in candidates) if dot else candidates)
    if near is None:
        return diagnostic
    question = f"{QUESTION} `{front}{dot}{near}`?"
    if diagnostic.mend is None or diagnostic.severity is Severity.ERROR:
        return msgspec.structs.replace(diagnostic, mend=question)
    return msgspec.structs.replace(diagnostic, notes=(*diagnostic.notes, question))
