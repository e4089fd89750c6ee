"""Positions: from places to lines, columns and bytes."""

from hypothesis import given
from hypothesis import strategies as st

from presk.diagnostics.sources import Position, Span
from presk.diagnostics.value import Place
from presk.syntax.api import FileSource, parse_file, tokenize
from presk.syntax.tokens import TokenTable


def span(source: bytes, chunk: str, first: int, last: int) -> Span:
    return tokenize(source).table.span(Place(first, last, chunk))


def test_lines_and_columns_count_from_one_offsets_from_zero() -> None:
    """O72"""
    assert span(b"const A = 1\n  const B = 22\n", "const B", 3, 3) == Span(Position(2, 13, 24), Position(2, 15, 26))


def test_columns_count_characters_and_offsets_bytes() -> None:
    """O72: `ℝ` has three bytes, `θ` two, `𝔸` four; a combining mark is a character of its own."""
    source = "const θ = ℝ(𝔸, x̂, b)".encode()
    assert span(source, "const θ", 1, 1) == Span(Position(1, 7, 6), Position(1, 8, 8))
    assert span(source, "const θ", 5, 5) == Span(Position(1, 13, 15), Position(1, 14, 19))
    assert span(source, "const θ", 7, 7) == Span(Position(1, 16, 21), Position(1, 18, 24))
    assert span(source, "const θ", 9, 9).start == Position(1, 20, 26)


def test_a_byte_order_mark_counts_as_bytes_only() -> None:
    """O72, O74"""
    assert span(b"\xef\xbb\xbfconst A = 1", "const A", 0, 0) == Span(Position(1, 1, 3), Position(1, 6, 8))


def test_carriage_returns_count_as_bytes_only() -> None:
    assert span(b"const A = 1\r\nconst B = 2\r\n", "const B", 0, 0) == Span(Position(2, 1, 13), Position(2, 6, 18))


def test_places_of_several_tokens() -> None:
    source = b"fn f(x) =\n  let y = (x\n    + 1)\n  y\n"
    assert span(source, "fn f", 6, 13) == Span(Position(2, 3, 12), Position(3, 9, 31))


def test_empty_places_lie_behind_the_token_before() -> None:
    """What is missing is missing there, not at the next token, which may be lines away."""
    source = b"const A = \n\n\nconst B = 2"
    assert span(source, "const A", 3, 2) == Span(Position(1, 10, 9), Position(1, 10, 9))
    assert span(source, "const B", 0, -1) == Span(Position(4, 1, 13), Position(4, 1, 13))
    assert span(source, "const B", 4, 3).start == Position(4, 12, 24)


def test_places_of_headers_and_members() -> None:
    """The closing brace is the last token of the header."""
    source = b"module M {\n  param w : T\n}\n"
    assert span(source, "module M", 0, 3) == Span(Position(1, 1, 0), Position(3, 2, 26))
    assert span(source, "module M", 3, 3) == Span(Position(3, 1, 25), Position(3, 2, 26))
    assert span(source, "module M/param w", 1, 1) == Span(Position(2, 9, 19), Position(2, 10, 20))


def test_a_chunk_that_the_file_does_not_have() -> None:
    """A place of an older version of the file is no reason to fail."""
    assert span(b"const A = 1", "const B", 3, 4) == Span(Position(1, 1, 0), Position(1, 1, 0))
    assert span(b"const A = 1", "const A", 90, 99).start == Position(1, 12, 11)


def test_comments_and_their_places() -> None:
    table = tokenize("-- é\nconst A = 1 --x  \r\n  --\n".encode()).table
    assert [(c.text, table.position(c.start)) for c in table.comments] == [
        ("-- é", Position(1, 1, 0)),
        ("--x", Position(2, 13, 18)),
        ("--", Position(3, 3, 27)),
    ]


def test_the_error_of_a_file_that_is_not_utf_8() -> None:
    """The place is that of the byte."""
    parsed = parse_file("θ = 1\nab".encode() + b"\xff" + b"c", "f.psk")
    (diagnostic,) = parsed.diagnostics
    assert parsed.table.span(diagnostic.primary.place).start == Position(2, 3, 9)
    source = FileSource("f.psk", "θ = 1\nab".encode() + b"\xffc", parsed.table)
    assert source.text("f.psk") == "θ = 1\nab\ufffdc"
    assert source.resolve(diagnostic.primary.place) is not None
    assert source.resolve(Place(0, 0, "file", "other.psk")) is None
    assert source.name("") == "f.psk"


def offsets(table: TokenTable) -> list[tuple[int, int]]:
    return [pair for chunk in table.chunks for pair in zip(chunk.starts, chunk.ends, strict=True)]


@given(st.text(st.sampled_from('aθℝ𝔸x̂ ()[]{},:=+-·"\n\r\t1.2fn let const module use param training run')))
def test_positions_agree_with_the_text(text: str) -> None:
    """Whatever the text: line, column and offset of each token are those of its first character."""
    table = tokenize(text.encode()).table
    for start, end in offsets(table):
        assert 0 <= start <= end <= len(text)
        position = table.position(start)
        before = text[:start]
        assert position.offset == len(before.encode())
        assert position.line == before.count("\n") + 1
        assert position.column == start - (before.rfind("\n") + 1) + 1


PIECES = [*'aθ1 ()[]{},:=+-·."\n\\λ$', *"fn let const module use param training run ein idx axis -- in".split()]


@given(st.lists(st.sampled_from(PIECES)).map("".join))
def test_no_text_is_too_strange(text: str) -> None:
    """Every text gives tokens, a tree, and errors with places; every token of the text is in exactly one chunk."""
    parsed = parse_file(text.encode())
    starts = [
        start
        for chunk in parsed.table.chunks
        for start, end in zip(chunk.starts, chunk.ends, strict=True)
        if start < end
    ]
    assert len(starts) == len(set(starts))
    for diagnostic in parsed.diagnostics:
        for label in (diagnostic.primary, *diagnostic.labels):
            place = parsed.table.span(label.place)
            assert place.start.offset <= place.end.offset <= len(text.encode())
