"""Laws of the renderers on random texts and places, the widths computed here in another way than in the package."""

import json
import re
import unicodedata
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from presk.diagnostics.render_json import render_json
from presk.diagnostics.render_lsp import render_lsp
from presk.diagnostics.render_text import TextOptions, render_text
from presk.diagnostics.sources import Position, Span
from presk.diagnostics.value import Diagnostic, Label, Place
from tests.diagnostics.support import CharacterSources

# Letters of one and two cells, marks, blanks, line ends, control and format characters, emoji, half a Hangul syllable.
ALPHABET: Final = (
    "ab(+θℝ漢ｆé\u0301\u0302\u20d7 \t\n\r\x00\x1b\x7f\x85\u00a0\u200b\u200d"
    "\u2028\u202e\ufe0f\ufeff😀👍🏽\u1112\u1161\u11ab"
)
texts = st.lists(
    st.one_of(
        st.sampled_from(ALPHABET),
        st.sampled_from(["\r\n", "abc ", "x = y", "漢字"]),
        st.characters(exclude_categories=["Cs"]),
    ),
    max_size=40,
).map("".join)
words = st.text(st.sampled_from(ALPHABET), max_size=8)


@st.composite
def labels(draw: st.DrawFn, files: dict[str, str]) -> Label:
    """A label somewhere in the files, in most cases inside of the text."""
    file = draw(st.sampled_from([*files, "missing"]))
    length = len(files.get(file, ""))
    first = draw(st.integers(0, length))
    last = draw(st.integers(first, length))
    return Label(Place(first, last, file=file), draw(words))


@st.composite
def cases(draw: st.DrawFn) -> tuple[dict[str, str], list[Diagnostic]]:
    files = {"a": draw(texts), "b": draw(texts)}
    diagnostics = draw(
        st.lists(
            st.builds(
                Diagnostic,
                st.sampled_from(["E2003", "W0001"]),
                words,
                labels(files),
                st.lists(labels(files), max_size=4).map(tuple),
                st.lists(words, max_size=2).map(tuple),
                st.none() | words,
            ),
            min_size=1,
            max_size=3,
        )
    )
    return files, diagnostics


@given(cases(), st.integers(1, 200), st.booleans())
def test_the_terminal_gets_nothing_to_obey(
    case: tuple[dict[str, str], list[Diagnostic]], width: int, color: bool
) -> None:
    files, diagnostics = case
    shown = render_text(diagnostics, CharacterSources(files), TextOptions(color=color, width=width))
    if color:
        shown = re.sub("\x1b\\[[0-9;]+m", "", shown)
    assert {unicodedata.category(character) for character in shown if character != "\n"} <= (
        {"Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No"}
        | {"Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs"}
    )
    assert not re.search("[^\\S \n]", shown)  # no blank but the space
    assert shown.count("error[E2003]:") + shown.count("warning[W0001]:") == len(diagnostics)
    assert all(line == line.rstrip(" ") for line in shown.split("\n"))


@given(cases(), st.integers(1, 200))
def test_every_label_is_shown(case: tuple[dict[str, str], list[Diagnostic]], width: int) -> None:
    files, diagnostics = case
    for number, diagnostic in enumerate(diagnostics):
        named = [
            Label(label.place, f"label{number}{index}")
            for index, label in enumerate((diagnostic.primary, *diagnostic.labels))
        ]
        changed = Diagnostic(diagnostic.code, "", named[0], tuple(named[1:]))
        shown = render_text([changed], CharacterSources(files), TextOptions(width=width))
        assert [shown.count(label.text) for label in named] == [1] * len(named)


# --- widths -----------------------------------------------------------------------------------------------------------

CELLS: Final = {
    **dict.fromkeys("ab(+θℝ ", 1),
    **dict.fromkeys("漢ｆ😀", 2),
    **dict.fromkeys("\u0301\u0302\u20d7", 0),
    **dict.fromkeys("\x00\x1b", 1),  # shown as pictures
    **dict.fromkeys("\u200d\u00a0\u202e\x85\ufe0f", 8),  # shown as <U+XXXX>
    "\U0001f3fd": 9,
}


def test_the_table_of_cells_agrees_with_the_unicode_database() -> None:
    for character, cells in CELLS.items():
        if cells == 2:
            assert unicodedata.east_asian_width(character) in "WF"
        elif cells == 0:
            assert unicodedata.category(character) == "Mn"


def begins(line: str) -> list[int]:
    """The cell at which each character's cluster begins, and behind the last one the line's width."""
    out: list[int] = []
    cell = 0
    standing: int | None = None  # the cell of a character that a mark can stand on
    for character in line:
        if character == "\t":
            out.append(cell)
            cell += 4 - cell % 4
            standing = None
        elif CELLS[character] == 0:
            if standing is None:
                standing = cell
                cell += 1  # on a dotted circle
            out.append(standing)
        else:
            out.append(cell)
            standing = cell if character in "ab(+θℝ 漢ｆ😀" else None
            cell += CELLS[character]
    return [*out, cell]


@st.composite
def marked_lines(draw: st.DrawFn) -> tuple[str, list[tuple[int, int]]]:
    line = draw(st.text(st.sampled_from([*CELLS, "\t"]), max_size=20))
    spans = st.integers(0, len(line)).flatmap(lambda first: st.tuples(st.just(first), st.integers(first, len(line))))
    return line, draw(st.lists(spans, min_size=1, max_size=3))


@given(marked_lines())
def test_marks_are_below_what_they_mark(case: tuple[str, list[tuple[int, int]]]) -> None:
    line, spans = case
    labels = [Label(Place(first, last, file="a")) for first, last in spans]
    shown = render_text(
        [Diagnostic("E2003", "", labels[0], tuple(labels[1:]))],
        CharacterSources({"a": f"{line}\n"}),
        TextOptions(width=1000),
    ).split("\n")
    row = shown[4]
    assert row.startswith("  | ")
    cells = begins(line)
    expected: set[int] = set()
    for first, last in spans:
        start = cells[first]
        # The end of a place is the end of its last character's cluster: where the next one begins that stands elsewhere.
        end = next((cell for cell in cells[last:] if cell > cells[last - 1]), cells[-1]) if last > first else start + 1
        expected |= set(range(start, max(end, start + 1)))
    assert {cell for cell, sign in enumerate(row[4:]) if sign != " "} == expected
    assert set(row[4:]) <= set("^- ")


@given(
    st.text(st.sampled_from([*CELLS, "\t"]), min_size=150, max_size=300),
    st.integers(0, 299),
    st.integers(60, 120),
)
def test_a_cut_line_fits_and_shows_its_mark(line: str, at: int, width: int) -> None:
    at %= len(line)
    line = f"{line[:at]}b{line[at:]}".replace("b", "a").replace("\t", " ")
    line = f"{line[:at]}b{line[at + 1 :]}"
    shown = render_text(
        [Diagnostic("E2003", "", Label(Place(at, at + 1, file="a")))],
        CharacterSources({"a": line}),
        TextOptions(width=width),
    ).split("\n")
    source, below = shown[3], shown[4]
    # In the line as it is shown every character has its own width; a mark stands on what is before it.
    cells = [
        0 if unicodedata.category(sign) == "Mn" else 2 if unicodedata.east_asian_width(sign) in "WF" else 1
        for sign in source
    ]
    assert sum(cells) <= width
    assert source.count("b") == 1
    assert below.index("^") == sum(cells[: source.index("b")])
    assert below.count("^") == 1


# --- JSON and the editor's form -----------------------------------------------------------------------------------------


@given(cases(), st.booleans())
def test_json_says_where_the_bytes_are(case: tuple[dict[str, str], list[Diagnostic]], bom: bool) -> None:
    files, diagnostics = case
    stored = {name: (b"\xef\xbb\xbf" if bom else b"") + text.encode() for name, text in files.items()}
    shown = render_json(diagnostics, CharacterSources(files, bom=frozenset(files) if bom else frozenset()))
    lines = shown.splitlines()
    assert len(lines) == len(diagnostics)
    for line, diagnostic in zip(lines, diagnostics, strict=True):
        value = json.loads(line)
        assert list(value) == ["code", "severity", "message", "file", "span", "labels", "notes", "mend"]
        assert (value["code"], value["message"]) == (diagnostic.code, diagnostic.message)
        assert (value["notes"], value["mend"]) == (list(diagnostic.notes), diagnostic.mend)
        assert (value["file"], value["span"]) == (value["labels"][0]["file"], value["labels"][0]["span"])
        assert [label["primary"] for label in value["labels"]] == [True] + [False] * len(diagnostic.labels)
        for label, wanted in zip(value["labels"], (diagnostic.primary, *diagnostic.labels), strict=True):
            place = wanted.place
            assert (label["file"], label["text"]) == (place.file, wanted.text)
            if place.file not in files:
                assert label["span"] is None
                continue
            start, end = label["span"]["start"], label["span"]["end"]
            text = files[place.file]
            assert stored[place.file][start["offset"] : end["offset"]].decode() == text[place.first : place.last]
            for position, index in ((start, place.first), (end, place.last)):
                rows = text[:index].split("\n")
                assert (position["line"], position["column"]) == (len(rows), len(rows[-1]) + 1)


@given(cases())
def test_an_editor_finds_the_place(case: tuple[dict[str, str], list[Diagnostic]]) -> None:
    files, diagnostics = case
    documents = render_lsp(
        diagnostics, CharacterSources(files), uri=lambda file: f"file:{file}", page=lambda code: code
    )
    assert sum(map(len, documents.values())) == len(diagnostics)

    def offset(text: str, position: dict[str, int]) -> int:
        """The UTF-16 units before a position of the protocol, the line ends counted."""
        lines = re.split("(\r\n|\r|\n)", text)
        before = "".join(lines[: 2 * position["line"]])
        assert position["character"] <= len(lines[2 * position["line"]].encode("utf-16-le")) // 2
        return len(before.encode("utf-16-le")) // 2 + position["character"]

    for uri in documents:
        given_ones = [one for one in diagnostics if f"file:{one.primary.place.file}" == uri]
        for item, diagnostic in zip(documents[uri], given_ones, strict=True):
            json.dumps(item)
            related = item["relatedInformation"]
            assert isinstance(related, list)
            found = [{"uri": uri, "range": item["range"]}, *(one["location"] for one in related)]
            for location, label in zip(found, (diagnostic.primary, *diagnostic.labels), strict=True):
                place = label.place
                assert location["uri"] == f"file:{place.file}"
                text = files.get(place.file, "")
                units = text.encode("utf-16-le")
                if place.file not in files:
                    assert location["range"]["start"] == location["range"]["end"] == {"line": 0, "character": 0}
                    continue
                start, end = (offset(text, location["range"][side]) for side in ("start", "end"))
                wanted = text[place.first : place.last]
                found_text = units[2 * start : 2 * end].decode("utf-16-le")
                # Between CR and LF there is no position: it is taken to the end of the line.
                assert found_text.strip("\r") == wanted.strip("\r")


# --- places outside of the text -----------------------------------------------------------------------------------------

positions = st.builds(Position, st.integers(-2, 9), st.integers(-2, 60), st.integers(-2, 99))


class AnySources:
    """One text, and spans that need not lie in it: what a token table of an older version of a file would say."""

    def __init__(self, text: str, spans: list[Span]) -> None:
        self._text = text
        self._spans = spans

    def name(self, file: str) -> str:
        return file

    def text(self, file: str) -> str | None:
        return self._text

    def resolve(self, place: Place) -> Span | None:
        return self._spans[place.first]


@given(texts, st.lists(st.builds(Span, positions, positions), min_size=1, max_size=4))
def test_a_place_outside_of_the_text_is_brought_into_it(text: str, spans: list[Span]) -> None:
    labels = [Label(Place(index, index, file="a"), f"label{index}") for index in range(len(spans))]
    sources = AnySources(text, spans)
    diagnostics = [Diagnostic("E2003", "", labels[0], tuple(labels[1:]))]
    shown = render_text(diagnostics, sources, TextOptions())
    assert [shown.count(label.text) for label in labels] == [1] * len(labels)
    location = re.search("(?m)^ +--> a:(\\d+):(\\d+)$", shown)
    assert location is not None
    lines = text.split("\n")
    assert 1 <= int(location[1]) <= len(lines)
    assert 1 <= int(location[2]) <= len(lines[int(location[1]) - 1]) + 1
    json.loads(render_json(diagnostics, sources))
    documents = render_lsp(diagnostics, sources, uri=str, page=str)
    for end in documents["a"][0]["range"].values():  # type: ignore[attr-defined]
        assert 0 <= end["line"] <= len(re.findall("\r\n|\r|\n", text))
        assert 0 <= end["character"] <= 2 * len(text)
