"""What a terminal is shown of a text, and how wide it is."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from presk.diagnostics.cells import Cells, printable


@pytest.mark.parametrize(
    "piece, shown, starts, ends",
    [
        ("", "", [], []),
        ("ab", "ab", [0, 1], [1, 2]),
        ("θ·ℝ", "θ·ℝ", [0, 1, 2], [1, 2, 3]),
        ("漢a", "漢a", [0, 2], [2, 3]),
        ("e\u0301a", "e\u0301a", [0, 0, 1], [1, 1, 2]),
        ("漢\u0301\u0302a", "漢\u0301\u0302a", [0, 0, 0, 2], [2, 2, 2, 3]),
        ("\u0301a", "\u25cc\u0301a", [0, 1], [1, 2]),
        ("\u0301\u0302", "\u25cc\u0301\u0302", [0, 0], [1, 1]),
        ("\x00\u0301", "\u2400\u25cc\u0301", [0, 1], [1, 2]),
        ("\t\u0301", "    \u25cc\u0301", [0, 4], [4, 5]),
        ("a\tb", "a   b", [0, 1, 4], [1, 4, 5]),
        ("abcd\tb", "abcd    b", [0, 1, 2, 3, 4, 8], [1, 2, 3, 4, 8, 9]),
        ("漢漢\tb", "漢漢    b", [0, 2, 4, 8], [2, 4, 8, 9]),
        ("\u1112\u1161\u11aba", "\u1112\u1161\u11aba", [0, 0, 0, 2], [2, 2, 2, 3]),
        ("\x1b\x7f", "\u241b\u2421", [0, 1], [1, 2]),
        ("\x9b", "<U+009B>", [0], [8]),
        ("a\u202eb", "a<U+202E>b", [0, 1, 9], [1, 9, 10]),
        ("\U000e0001", "<U+E0001>", [0], [9]),
        ("\udc80", "<U+DC80>", [0], [8]),
        ("\u00a0\u3000", "<U+00A0><U+3000>", [0, 8], [8, 16]),
    ],
)
def test_layout(piece: str, shown: str, starts: list[int], ends: list[int]) -> None:
    cells = Cells(piece)
    assert cells.text == shown
    assert list(cells.starts) == starts
    assert list(cells.ends) == ends
    assert cells.width == max(ends, default=0)


@pytest.mark.parametrize(
    "text, shown",
    [
        ("plain", "plain"),
        ("two\nlines\twith a tab", "two\nlines with a tab"),
        ("\x1b[31mred\r", "␛[31mred␍"),
        ("ŷ = θ · 漢", "ŷ = θ · 漢"),
        ("a\u200db", "a<U+200D>b"),
    ],
)
def test_printable(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text(st.characters(codec=None)))
def test_printable_says_nothing_new_when_said_again(text: str) -> None:
    once = printable(text)
    assert printable(once) == once
    assert all(unicodedata.category(character)[0] != "C" for character in once if character != "\n")
    assert not set(once) & set("\r\t\x0b\x0c\x85\u00a0\u2028\u2029\u3000")


@given(st.text(st.characters(codec=None, exclude_characters="\n")))
def test_characters_lie_side_by_side(piece: str) -> None:
    cells = Cells(piece)
    assert len(cells.starts) == len(cells.ends) == len(piece)
    at = 0
    for start, end in zip(cells.starts, cells.ends, strict=True):
        assert start < end
        assert start == at or end == at  # behind the character before, or in its cells
        at = end
    assert at == cells.width
