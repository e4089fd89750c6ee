"""The curve of a run as a file: the loss of each step, its moving mean, evaluations, and below them the learning rate."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from presk.exact.faults import COMMAND, Fault
from presk.train.files import UNWRITABLE, reason, refuse_irregular, replace
from presk.train.log import Run

FORMS: Final = (".png", ".svg")


def form_of(shown: str) -> str:
    """The form of a picture by its file's name, `.png` or `.svg`; E9003 for another."""
    form = Path(shown).suffix.lower()
    if form not in FORMS:
        raise Fault(COMMAND, f"`{shown}` is no picture that can be drawn", mend=f"give a name in {' or '.join(FORMS)}")
    return form


def draw(runs: Sequence[tuple[str, Run]], title: str, form: str) -> bytes:
    """The picture of one or more runs, each with its name, as the bytes of a `.png` or `.svg`."""
    # matplotlib takes four tenths of a second to import: for who asks for a picture.
    from presk.train import picture

    return picture.draw(runs, title, form)


def plot(path: Path, shown: str, runs: Sequence[tuple[str, Run]], title: str) -> None:
    """Writes the picture of one or more runs, atomically; the file's name says in which form.

    E9003 for a form that there is none of, E9002 where the file cannot be written.
    """
    form = form_of(shown)
    refuse_irregular(path, shown)
    picture = draw(runs, title, form)
    try:
        replace(path, picture).close()
    except (OSError, ValueError) as error:
        raise Fault(UNWRITABLE, f"`{shown}` cannot be written: {reason(error)}") from error
