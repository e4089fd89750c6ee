"""Laws of elaboration, over programs that were edited at random: it never breaks, and what it says does not depend on what was
elaborated before."""

import re
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from presk.elab.dump import dump_json, dump_program, summary
from presk.elab.program import Program
from tests.elab.support import MAIN, Session
from tests.elab.test_dump import FILES
from tests.elab.test_stages import LIB, PROGRAM

PROGRAMS: Final = (FILES, {MAIN: PROGRAM, "lib.psk": LIB})
_PIECE: Final = re.compile(r"\w+|[^\w\s]|\n")
_PIECES: Final = tuple(
    sorted({piece for files in PROGRAMS for text in files.values() for piece in _PIECE.findall(text)})
)

Edit = tuple[int, int, str]


@st.composite
def edited(draw: st.DrawFn) -> dict[str, str]:
    """A program of two files with a few pieces of its text removed, replaced, added or moved."""
    files = dict(draw(st.sampled_from(PROGRAMS)))
    for _ in range(draw(st.integers(1, 4))):
        name = draw(st.sampled_from(sorted(files)))
        pieces = re.split(r"(\w+|[^\w\s]|\n)", files[name])
        at = draw(st.integers(0, len(pieces) - 1))
        other = draw(st.sampled_from((*_PIECES, "", "\n", "N", "0", "m")))
        match draw(st.sampled_from(("remove", "replace", "add", "repeat", "move"))):
            case "remove":
                del pieces[at]
            case "replace":
                pieces[at] = other
            case "add":
                pieces.insert(at, f" {other} ")
            case "repeat":
                pieces.insert(at, f" {pieces[draw(st.integers(0, len(pieces) - 1))]} ")
            case _:
                pieces.insert(draw(st.integers(0, len(pieces) - 1)), f" {pieces.pop(at)} ")
        files[name] = "".join(pieces)
    return files


def everything(found: Program) -> tuple[object, ...]:
    """All that can be seen of a program."""
    return found.diagnostics, dump_program(found), dump_json(found), summary(found), found.unknown_overrides


WARM: Final = Session()
"""One session for all examples: each is elaborated behind all that came before."""


@settings(max_examples=120)
@given(edited(), st.sampled_from(({}, {"D": 12}, {"H": 4, "N": 2})))
def test_what_is_said_does_not_depend_on_what_was_asked_before(
    files: dict[str, str], overrides: dict[str, int]
) -> None:
    warm = everything(WARM.program(files, overrides=overrides))
    assert everything(Session().program(files, overrides=overrides)) == warm
    assert everything(WARM.program(files, overrides=overrides)) == warm
    assert WARM.computed() == {}


@settings(max_examples=60)
@given(edited())
def test_every_place_is_in_a_file(files: dict[str, str]) -> None:
    found = WARM.program(files)
    for one in found.diagnostics:
        for label in (one.primary, *one.labels):
            place = label.place
            loaded = found.states[place.file].loaded
            assert place.chunk in set(loaded.parsed.keys())
            span = loaded.table.span(place)
            assert span.start.offset <= span.end.offset <= len(files[place.file].encode())
