"""Limits, and inputs that were made to break a parser: an error, at once, and never a traceback."""

import json

import msgspec
import pytest

from presk.syntax.api import Parsed, parse_file, tokenize
from presk.syntax.dump import ast_json, ast_text
from presk.syntax.fmt import Formatted, format_source
from presk.syntax.places import strip_places
from presk.syntax.printer import print_file
from presk.syntax.tokens import MAX_NESTING
from tests.syntax.support import codes

# Programs that nest `n` levels deep, each in a way of its own.
NESTED = {
    "parentheses": lambda n: "const A = " + "(" * n + "1" + ")" * n,
    "calls": lambda n: "const A = " + "f(" * n + "1" + ")" * n,
    "called calls": lambda n: "const A = f" + "()" * n,
    "indices": lambda n: "const A = x" + "[0]" * n,
    "fields": lambda n: "const A = x" + ".y" * n,
    "dimension arguments": lambda n: "const A = " + "M{" * n + "1" + "}" * n,
    "tuples": lambda n: "const A = " + "(1, " * n + "2" + ")" * n,
    "sums": lambda n: "const A = 1" + " + 1" * n,
    "powers": lambda n: "const A = 1" + "^1" * n,
    "negations": lambda n: "const A = " + "- " * n + "1",
    "lambdas": lambda n: "const A = " + "λ x. " * n + "1",
    "bindings": lambda n: "fn f(x) =\n" + "  let x = x\n" * n + "  x",
    "bindings in values": lambda n: "const A = " + "(let x = " * n + "1" + "\nx)" * n,
    "types": lambda n: "type T = " + "param " * n + "U",
    "tuple types": lambda n: "type T = " + "(U, " * n + "V" + ")" * n,
    "module expressions": lambda n: "model M = " + "stack{2}(" * (n - 1) + "N" + ")" * (n - 1),
    "ascriptions": lambda n: "const A = " + "(" * n + "1" + " : T)" * n,
}


@pytest.mark.parametrize("form", NESTED)
def test_nesting_to_the_limit(form: str) -> None:
    """O74: 500 levels parse, and printing, dumping and formatting what they give needs no recursion."""
    source = NESTED[form](MAX_NESTING).encode()
    parsed = parse_file(source)
    assert parsed.diagnostics == ()
    stripped = strip_places(parsed.file)
    text = print_file(stripped)
    assert ast_text(strip_places(parse_file(text.encode()).file)) == ast_text(stripped)
    assert ast_json(stripped).startswith("[{")
    formatted = format_source(source)
    assert isinstance(formatted, Formatted)
    assert tokenize(formatted.text.encode()).file == parsed.tokens


@pytest.mark.parametrize("form", NESTED)
@pytest.mark.parametrize("more", [1, 9_500, 200_000])
def test_nesting_beyond_the_limit(form: str, more: int) -> None:
    """O74, E0007: one error, however much deeper."""
    assert [code.split(" ")[0] for code in codes(NESTED[form](MAX_NESTING + more))] == ["E0007"]


def test_nesting_is_counted_within_a_chunk() -> None:
    """Declarations, members and the parts of a list do not nest in each other."""
    assert codes("const A = 1\n" * 2000) == []
    assert codes("module M {\n" + "param w : ℝ\n" * 2000 + "}\n") == []
    assert codes("const A = f(" + "x, " * 2000 + "x)\n") == []


@pytest.mark.parametrize(
    "source",
    [
        b"\0" * 3_000_000,
        b"\xff" * 3_000_000,
        b"\xef\xbb\xbf" * 1_000_000,
        b"a" * 3_000_000,
        b"1" * 1_000_000,
        b'"' + b"a" * 3_000_000,
        b"(" * 500_000,
        b"const A = " + b"(" * 500_000,
        b")" * 100_000,
        b"{" * 100_000 + b"}" * 100_000,
        b"module M {\n" * 2_000,
        b"}\n" * 50_000,
        b"fn f(x) =\n" + b"let x = x\n" * 50_000,
        b"training run {\n" + b"a = (\n" * 5_000,
        ("é→" * 200_000).encode(),
        b"a." * 100_000,
        b"..." * 100_000,
        b"-" * 100_001,
    ],
    ids=lambda source: repr(source[:12]),
)
def test_rubbish_of_any_size(source: bytes) -> None:
    """Few errors, each with a place in the file."""
    parsed = parse_file(source)
    for diagnostic in parsed.diagnostics[:50]:
        span = parsed.table.span(diagnostic.primary.place)
        assert 0 <= span.start.offset <= span.end.offset <= len(source)


def test_a_long_line_of_dashes_is_a_comment() -> None:
    assert codes(b"-" * 1_000_000) == []


def test_a_file_of_one_long_list() -> None:
    """A chunk of many tokens that does not nest is no problem."""
    parsed = parse_file(b"const A = f(" + b"x, " * 50_000 + b"x)")
    assert parsed.diagnostics == ()


def test_a_large_number_is_kept_whole() -> None:
    """L010: beyond what Python's `int` reads, 4,300 digits."""
    digits = "9" * 9_999
    (chunk,) = json.loads(ast_json(parse_file(f"const A = {digits}".encode()).file))
    assert chunk["node"]["value"]["text"] == digits


def test_results_encode() -> None:
    """A file's tokens, tree, errors and positions as bytes and back."""
    source = b"const A = 1 -- c\nmodule M { param w : \xe2\x84\x9d }\nfn f(x) = )\n"
    parsed = parse_file(source, "a.psk")
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(parsed), type=Parsed) == parsed
