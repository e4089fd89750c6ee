"""The index of a text's lines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from presk.diagnostics.sources import Lines, Position, line_index
from tests.diagnostics.support import CharacterSources


@pytest.mark.parametrize(
    "text, lines",
    [
        ("", [""]),
        ("a", ["a"]),
        ("a\n", ["a", ""]),
        ("a\nb", ["a", "b"]),
        ("a\r\nb\r\n", ["a", "b", ""]),
        ("a\rb\r\r\n\n", ["a\rb\r", "", ""]),
        ("\r\n", ["", ""]),
        ("a\r", ["a\r"]),
        ("a\u2028b\x0bc\x85", ["a\u2028b\x0bc\x85"]),
    ],
)
def test_lines(text: str, lines: list[str]) -> None:
    index = Lines(text)
    assert len(index) == len(lines)
    assert [index.line(number) for number in range(1, len(lines) + 1)] == lines
    assert index.line(0) == index.line(len(lines) + 1) == index.line(-1) == ""


@given(st.text(st.sampled_from("ab\r\n")))
def test_index_and_position_are_inverse(text: str) -> None:
    index = Lines(text)
    for at in range(len(text) + 1):
        line, column = index.position(at)
        between = text[max(at - 1, 0) : at + 1] == "\r\n"  # inside of a line end, which is no position of its own
        assert index.index(Position(line, column, 0)) == (at - 1 if between else at)


def test_positions_outside_are_brought_to_the_rim() -> None:
    index = Lines("ab\r\ncd")
    assert index.index(Position(0, 5, 0)) == 0
    assert index.index(Position(1, 0, 0)) == 0
    assert index.index(Position(1, 99, 0)) == 2
    assert index.index(Position(2, 99, 0)) == 6
    assert index.index(Position(3, 1, 0)) == 6


def test_a_file_is_read_once() -> None:
    sources = CharacterSources({"a": "x\ny"})
    lines = line_index(sources)
    first = lines("a")
    assert first is not None
    assert first is lines("a")
    assert lines("gone") is lines("gone") is None
    assert sources.read == ["a", "gone"]
