"""Order and removal of repetitions."""

import random

from presk.diagnostics.order import ordered
from presk.diagnostics.value import Diagnostic, Label, Place
from tests.diagnostics.support import CharacterSources

SOURCES = CharacterSources({"a": "one\ntwo\n", "b": "three\n"})


def at(file: str, first: int, last: int, code: str = "E2003", message: str = "") -> Diagnostic:
    return Diagnostic(code, message, Label(Place(first, last, file=file)))


IN_ORDER = (
    at("a", 0, 1),
    at("a", 0, 3, "E1001"),
    at("a", 0, 3, "E2003", "a"),
    at("a", 0, 3, "E2003", "b"),
    at("a", 0, 3, "W0001"),
    at("a", 4, 5),
    at("b", 0, 1),
    at("gone", 0, -1),
)


def test_by_file_position_code_message() -> None:
    for seed in range(20):
        shuffled = list(IN_ORDER)
        random.Random(seed).shuffle(shuffled)
        assert ordered(shuffled, SOURCES) == IN_ORDER


def test_files_in_the_order_given_then_by_name() -> None:
    found = ordered(IN_ORDER, SOURCES, files=["gone", "b", "b", "a"])
    assert [one.primary.place.file for one in found] == ["gone", "b"] + ["a"] * 6
    found = ordered(IN_ORDER, SOURCES, files=["b"])
    assert [one.primary.place.file for one in found] == ["b"] + ["a"] * 6 + ["gone"]


def test_equal_ones_are_shown_once() -> None:
    assert ordered([*IN_ORDER, *IN_ORDER], SOURCES) == IN_ORDER
    # What differs in a note is another diagnostic; of these the one that came first stays first.
    noted = Diagnostic("E2003", "", Label(Place(0, 1, file="a")), notes=("seen from elsewhere",))
    assert ordered([noted, *IN_ORDER], SOURCES)[:2] == (noted, IN_ORDER[0])
    assert ordered([*IN_ORDER, noted], SOURCES)[:2] == (IN_ORDER[0], noted)
    assert ordered([], SOURCES) == ()
