"""Collecting diagnostics while one chunk is worked on."""

from collections.abc import Iterable

from presk.diagnostics.value import Diagnostic, Label, Place

At = tuple[int, int]


class Reporter:
    """A list of diagnostics of one chunk; places are token ranges of that chunk unless a label says otherwise."""

    def __init__(self) -> None:
        self._diagnostics: list[Diagnostic] = []

    def report(
        self,
        code: str,
        at: At,
        message: str,
        *,
        text: str = "",
        labels: Iterable[tuple[At | Place, str]] = (),
        notes: Iterable[str] = (),
        mend: str | None = None,
        unknown: str | None = None,
        wanted: str = "",
    ) -> None:
        """Adds a diagnostic. `text` stands at the primary place; `unknown` is a name that was not found, for which the
        caller that knows the file's names may propose another of the `wanted` kind."""
        self._diagnostics.append(
            Diagnostic(
                code,
                message,
                Label(Place(*at), text),
                tuple(Label(where if isinstance(where, Place) else Place(*where), words) for where, words in labels),
                tuple(notes),
                mend,
                unknown,
                wanted,
            )
        )

    @property
    def failed(self) -> bool:
        """An error (not a mere warning) was reported."""
        return any(not diagnostic.code.startswith("W") for diagnostic in self._diagnostics)

    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """What was reported, in order."""
        return tuple(self._diagnostics)
