"""Laws of parsing, printing and formatting, over random trees of every form."""

import unicodedata

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from presk.syntax import tree as t
from presk.syntax.api import parse_file, tokenize
from presk.syntax.fmt import Formatted, format_source
from presk.syntax.parse import Outcome, parse_chunk
from presk.syntax.places import strip_places
from presk.syntax.printer import print_declaration, print_expr, print_file, print_type
from presk.syntax.tokens import Chunk, Token
from presk.syntax.unparse import unparse
from tests.syntax import strategies as programs
from tests.syntax.layouts import relaid


def without_keys(file: t.SourceFile) -> t.SourceFile:
    """A file whose chunks have no keys, and no places."""
    declarations = []
    for chunk in strip_places(file).declarations:
        node = chunk.declaration
        if isinstance(node, t.Module):
            node = msgspec.structs.replace(node, members=tuple(t.MemberChunk("", m.member) for m in node.members))
        if isinstance(node, t.Block):
            node = msgspec.structs.replace(node, items=tuple(t.ItemChunk("", i.item) for i in node.items))
        declarations.append(t.DeclChunk("", node))
    return t.SourceFile(tuple(declarations))


def parsed(kind: str, tokens: list[Token]) -> object:
    outcome = parse_chunk(Chunk("", kind, tuple(tokens)))
    assert outcome.diagnostics == ()
    assert outcome.node is not None
    return strip_places(outcome.node)


@given(programs.expressions)
def test_parsing_the_tokens_of_an_expression_gives_the_expression(expression: t.Expr) -> None:
    """L051–L067: parse ∘ unparse = identity."""
    assert parsed("expression", unparse(expression)) == expression


@given(programs.types)
def test_parsing_the_tokens_of_a_type_gives_the_type(type_: t.TypeExpr) -> None:
    assert parsed("type", unparse(type_)) == type_


@given(programs.members)
def test_parsing_the_tokens_of_a_member_gives_the_member(member: t.Member) -> None:
    assert parsed("member", unparse(member)) == member


@given(programs.items)
def test_parsing_the_tokens_of_an_item_gives_the_item(item: t.ConfigItem) -> None:
    assert parsed("item", unparse(item)) == item


@given(programs.files)
def test_parsing_a_printed_file_gives_the_file(file: t.SourceFile) -> None:
    """parse ∘ print = identity, through text, layout and lines of any length."""
    text = print_file(file)
    result = parse_file(text.encode())
    assert result.diagnostics == ()
    assert without_keys(result.file) == file


@given(programs.files)
def test_ascii_spelling_gives_the_same_tokens(file: t.SourceFile) -> None:
    """L008: both spellings mean the same, in every place."""
    unicode = tokenize(print_file(file).encode())
    ascii_ = tokenize(print_file(file, ascii_only=True).encode())
    assert unicode.file == ascii_.file


@given(programs.files)
def test_decomposed_spelling_gives_the_same_tokens(file: t.SourceFile) -> None:
    """L003: names are compared after normalization; strings are kept as they are."""
    # Strings would change with the file's normalization; programs without them do not.
    text = print_file(file)
    if '"' not in text:
        assert tokenize(unicodedata.normalize("NFD", text).encode()).file == tokenize(text.encode()).file


@given(programs.files)
def test_formatting_a_printed_file_changes_nothing(file: t.SourceFile) -> None:
    """A printed file is canonical, and formatting is idempotent on it."""
    text = print_file(file)
    formatted = format_source(text.encode())
    assert isinstance(formatted, Formatted)
    assert formatted.text == text


@given(programs.files)
def test_printing_is_in_lines_that_fit_where_they_can_break(file: t.SourceFile) -> None:
    """No line has blanks at its end, and no two blank lines follow each other."""
    text = print_file(file)
    assert "\n\n\n" not in text
    assert all(line == line.rstrip(" ") for line in text.split("\n"))


@given(programs.declarations)
def test_outcomes_survive_their_encoding(declaration: t.Declaration) -> None:
    """What a stage returns encodes, and decodes to an equal value."""
    text = print_declaration(declaration)
    result = parse_file(text.encode())
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(result), type=type(result)) == result
    for chunk in result.tokens.chunks():
        outcome = parse_chunk(chunk)
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(outcome), type=Outcome) == outcome


@given(programs.expressions)
def test_an_expression_prints_without_its_declaration(expression: t.Expr) -> None:
    """`print_expr` gives the text that stands in a program."""
    text = print_expr(expression)
    result = parse_file(f"const c = {text}\n".encode())
    assert result.diagnostics == ()
    (chunk,) = result.file.declarations
    assert isinstance(chunk.declaration, t.Const)
    assert strip_places(chunk.declaration.value) == expression


@given(programs.types)
def test_a_type_prints_on_one_line(type_: t.TypeExpr) -> None:
    """`print_type` gives the text that stands in a program."""
    text = print_type(type_)
    result = parse_file(f"type t = {text}\n".encode())
    assert result.diagnostics == ()
    (chunk,) = result.file.declarations
    assert isinstance(chunk.declaration, t.TypeAlias)
    assert strip_places(chunk.declaration.type) == type_


@given(st.data(), programs.files)
def test_layout_and_comments_are_not_in_the_tokens(data: st.DataObject, file: t.SourceFile) -> None:
    """L070, L017–L020, L001: blanks, comments, blank lines and free line breaks do not reach a chunk's tokens."""
    tokens = tokenize(print_file(file).encode()).file
    layout = relaid(data, tokens)
    assert tokenize(layout.text.encode()).file == tokens


@given(st.data(), programs.files)
def test_formatting_keeps_tokens_and_comments_and_is_idempotent(data: st.DataObject, file: t.SourceFile) -> None:
    """L069: whatever the layout, formatting changes no token, loses no comment and is done after one time."""
    tokens = tokenize(print_file(file).encode()).file
    layout = relaid(data, tokens)
    formatted = format_source(layout.text.encode())
    assert isinstance(formatted, Formatted)
    again = tokenize(formatted.text.encode())
    assert again.file == tokens
    assert [comment.text for comment in again.table.comments] == layout.comments
    assert format_source(formatted.text.encode()) == formatted


@given(st.data(), programs.files)
def test_ascii_formatting_is_idempotent_and_goes_back(data: st.DataObject, file: t.SourceFile) -> None:
    """L069: the ASCII form is stable, and formatting it gives the Unicode form."""
    layout = relaid(data, tokenize(print_file(file).encode()).file)
    ascii_ = format_source(layout.text.encode(), ascii_=True)
    assert isinstance(ascii_, Formatted)
    assert format_source(ascii_.text.encode(), ascii_=True) == ascii_
    assert '"' in ascii_.text or not set("·⊗∘") & set(ascii_.text)  # these are in no name and no comment
    assert format_source(ascii_.text.encode()) == format_source(layout.text.encode())
