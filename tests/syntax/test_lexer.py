"""From bytes to tokens."""

import pytest

from presk.syntax.lexer import MAX_DIGITS, MAX_NAME, UNITS, is_name, lex, split_quantity
from presk.syntax.tokens import RESERVED
from tests.syntax.support import codes, errors, kinds, texts


def lexed(source: str | bytes) -> list[tuple[str, str]]:
    tokens = lex(source if isinstance(source, bytes) else source.encode()).tokens
    return [(token.kind, token.text) for token in tokens]


def test_a_comment_ends_with_its_line() -> None:
    """L001: nothing of a comment reaches the tokens, whatever stands in it."""
    assert lexed('x -- y ( "\n-- z\n--\nw--v') == [("name", "x"), ("name", "w")]


def test_a_file_of_comments_is_empty() -> None:
    """L001"""
    assert lexed("") == []
    assert lexed("\n  \n-- only this\n\t\n") == []
    assert codes("-- nothing\n\n   -- more") == []


@pytest.mark.parametrize("text", ["{- no -}", "/* no */"])
def test_there_is_no_block_comment(text: str) -> None:
    """L001"""
    (error,) = errors(f"const A = 1\n{text}\n")
    assert error.startswith("E0001 2:")  # the slash continues the line before, the star is unexpected


@pytest.mark.parametrize("name", ["_a", "θ", "γ", "μ", "σ2", "ŷ", "x̂", "_", "a_b", "变量", "é", "λθ", "ℝx", "_1"])
def test_identifiers(name: str) -> None:
    """L002: letters and `_`, then also digits and combining marks, are one token."""
    assert lexed(name) == [("name", name)]
    assert is_name(name)


@pytest.mark.parametrize("text", ["", "1a", "̂x", "a·b", "a b", "fn", "ℝ", "Real", "a-b", "y\u0302", "a" * 256, "€"])
def test_what_is_no_name(text: str) -> None:
    """L002, L005: also a spelling that is not normalized, since names are stored in NFC."""
    assert not is_name(text)


def test_names_are_normalized() -> None:
    """L003: both spellings of ŷ, and of the Ångström sign, are one name."""
    assert lexed("y\u0302") == lexed("\u0177") == [("name", "\u0177")]
    assert lexed("\u212b") == lexed("A\u030a") == [("name", "\u00c5")]


def test_the_middle_dot_is_never_part_of_a_name() -> None:
    """L004, O31: nor is U+0387, which normalizes to it and is read as the operator."""
    assert texts("a·b") == ["a", "·", "b"]
    assert texts("a\u0387b") == ["a", "·", "b"]
    assert texts("1·2") == ["1", "·", "2"]


@pytest.mark.parametrize("word", sorted(RESERVED))
def test_reserved_words(word: str) -> None:
    """L005: each is a kind of its own, and a longer name that begins with it is a name."""
    assert lexed(word) == [(word, word)]
    assert lexed(f"{word}1") == [("name", f"{word}1")]
    assert lexed(f"_{word}") == [("name", f"_{word}")]


def test_there_are_no_further_reserved_words() -> None:
    """L005, L006, L047, L067: words that mean something in places are names."""
    for word in "model run serve stream checkpoint every steps to bool nat int rat f64 key Shape in auto int8".split():
        assert lexed(word) == [("name", word)]


@pytest.mark.parametrize(("ascii_", "unicode"), [("Real", "ℝ"), ("\\", "λ"), ("@", "·"), ("><", "⊗"), ("<<", "∘")])
def test_ascii_synonyms_are_the_same_token(ascii_: str, unicode: str) -> None:
    """L008, O65: the canonical spelling is the Unicode one. The synonym of λ is the backslash alone."""
    assert lexed(ascii_) == lexed(unicode) == [(unicode, unicode)]
    assert lexed(f"x {ascii_} y") == lexed(f"x {unicode} y")


def test_a_backslash_needs_no_blank() -> None:
    """O65"""
    assert texts("\\lambda. e") == ["λ", "lambda", ".", "e"]
    assert texts("\\x.\\y. x") == ["λ", "x", ".", "λ", "y", ".", "x"]


def test_naturals_keep_their_text() -> None:
    """L010: any size, also zeros in front."""
    digits = "1234567890" * 4
    assert lexed(f"0 768 007 {digits}") == [("nat", "0"), ("nat", "768"), ("nat", "007"), ("nat", digits)]


def test_decimals_keep_their_text() -> None:
    """L011, O32: nothing is rounded; an exponent makes a decimal."""
    long = "0." + "1234567890" * 4
    for text in ("0.02", "3e-4", "1e-5", "1e5", "2.50E+07", long):
        assert lexed(text) == [("decimal", text)]


@pytest.mark.parametrize("unit", sorted(UNITS))
def test_quantities(unit: str) -> None:
    """L012, O32: every unit of the closed list, directly behind a natural or a decimal."""
    assert lexed(f"5{unit}") == [("quantity", f"5{unit}")]
    assert lexed(f"2.5e3{unit}") == [("quantity", f"2.5e3{unit}")]
    assert split_quantity(f"2.5e3{unit}") == ("2.5e3", unit)


def test_the_list_of_units() -> None:
    """O32: four times; eight sizes, alone and over s, sm and core."""
    assert len(UNITS) == 4 + 8 * 4
    assert {"ms", "MiB", "GB/s", "KiB/sm", "TB/core"} <= UNITS


@pytest.mark.parametrize(
    "text", ["4D", "5xs", "1e", "0x10", "1_000", "3Ms", "3kb", "3GB/h", "5ms/s", "7s/sm", "3GiB/ss", "2θ", "3GB/"]
)
def test_other_units_are_errors(text: str) -> None:
    """L012, O32"""
    found = lexed(text)
    if text == "3GB/":
        assert found == [("quantity", "3GB"), ("/", "/")]
    else:
        assert [kind for kind, _ in found] == ["bad unit"]


def test_a_number_and_a_unit_with_a_blank_are_two_tokens() -> None:
    """L012"""
    assert lexed("5 ms") == [("nat", "5"), ("name", "ms")]


def test_strings() -> None:
    """L013: escapes are resolved; two spellings of one string are one token."""
    assert lexed(r'"a\"b\\c\nd\te"') == [("string", 'a"b\\c\nd\te')]
    assert lexed('"a\tb"') == lexed(r'"a\tb"')
    assert lexed('""') == [("string", "")]
    assert lexed(r'"\\" x "\\"') == [("string", "\\"), ("name", "x"), ("string", "\\")]
    assert lexed('"-- no comment" -- a comment') == [("string", "-- no comment")]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('"abc', "bad string"),
        ('"', "bad string"),
        ('"abc\\"', "bad string"),
        (r'"a\qb"', "bad escape"),
        (r'"\u0041"', "bad escape"),
        ('"a\x00b"', "bad control"),
        ('"a\x7fb"', "bad control"),
    ],
)
def test_bad_strings(text: str, kind: str) -> None:
    """L013, O74"""
    assert [found for found, _ in lexed(text)] == [kind]


def test_a_string_ends_on_its_line() -> None:
    """O74"""
    assert [kind for kind, _ in lexed('"abc\ndef"')] == ["bad string", "name", "bad string"]
    assert [kind for kind, _ in lexed('"abc\r\nx')] == ["bad string", "name"]


def test_a_minus_is_an_operator() -> None:
    """L014"""
    assert texts("-1 2-3 x--1") == ["-", "1", "2", "-", "3", "x"]


def test_dots() -> None:
    """L015: `1.` is no literal; the longest of `.`, `..`, `...` wins."""
    assert texts("0..1") == ["0", "..", "1"]
    assert texts("0.5..x.y") == ["0.5", "..", "x", ".", "y"]
    assert texts("[...,x]") == ["[", "...", ",", "x", "]"]
    assert texts("....") == ["...", "."]
    assert texts("1.e5") == ["1", ".", "e5"]


def test_the_longest_symbol_wins() -> None:
    assert texts("<= >= == -> |> | < > = <<= ><") == ["<=", ">=", "==", "->", "|>", "|", "<", ">", "=", "∘", "=", "⊗"]
    assert texts("=>") == ["=", ">"]
    assert texts("a<-b") == ["a", "<", "-", "b"]


def test_a_byte_order_mark_is_skipped() -> None:
    """O74"""
    found = lex(b"\xef\xbb\xbfconst A = 1\n")
    assert [token.text for token in found.tokens] == ["const", "A", "=", "1"]
    assert found.mark == 3
    assert found.starts[0] == 0


def test_line_ends() -> None:
    """O74: LF and CR LF; a carriage return by itself is no blank."""
    assert lexed("a\r\nb") == lexed("a\nb")
    assert lex(b"a\r\nb\nc").breaks == [0, 1, 2]
    assert [kind for kind, _ in lexed("a\rb")] == ["name", "bad character", "name"]


@pytest.mark.parametrize("blank", ["\x0b", "\x0c", "\xa0", "\u2028", "\u3000", "\u200b", "\ufeff"])
def test_other_blanks_are_errors(blank: str) -> None:
    """O74: also between a sign and a number, where no name helps to tell them apart."""
    assert [kind for kind, _ in lexed(f"a{blank}b")] == ["name", "bad character", "name"]
    assert [kind for kind, _ in lexed(f"={blank}1")] == ["=", "bad character", "nat"]


@pytest.mark.parametrize("character", list("!#$&';?`~€×−≤→“"))
def test_characters_that_begin_no_token(character: str) -> None:
    """E0002"""
    assert ("bad character", character) in lexed(f"a {character} b")
    (error,) = errors(f"const A = 1 {character}\n")
    assert error.startswith("E0002 1:13")


def test_a_lambda_without_its_blank() -> None:
    """O31: `λθ` is a name by the longest match; before a dot and a blank it is taken for a lambda without its blank."""
    assert lexed("λθ. e")[0] == ("bad lambda", "λθ")
    assert lexed("λθ.\ne")[0] == ("bad lambda", "λθ")
    assert lexed("λθ.e")[0] == ("name", "λθ")
    assert lexed("λθ .  e")[0] == ("name", "λθ")
    assert lexed("λθ. -- the field of a name\ne")[0] == ("name", "λθ")
    assert lexed("λθ")[0] == ("name", "λθ")
    assert lexed("λ λθ. e")[1] == ("name", "λθ")
    assert lexed("λ λ λθ. e")[2] == ("name", "λθ")


def test_the_length_of_names() -> None:
    """O74: 255 characters, counted after normalization."""
    assert lexed("a" * MAX_NAME) == [("name", "a" * MAX_NAME)]
    assert [kind for kind, _ in lexed("a" * (MAX_NAME + 1))] == ["bad name"]
    assert lexed("y\u0302" * MAX_NAME) == [("name", "\u0177" * MAX_NAME)]
    assert [kind for kind, _ in lexed("y\u0302" * (MAX_NAME + 1))] == ["bad name"]
    # Four characters that become one, the most that normalization joins.
    assert lexed("α\u0313\u0300\u0345" * MAX_NAME) == [("name", "\u1f82" * MAX_NAME)]


def test_the_length_of_numbers() -> None:
    """O74: 10,000 digits, wherever they stand."""
    assert lexed("7" * MAX_DIGITS) == [("nat", "7" * MAX_DIGITS)]
    assert [kind for kind, _ in lexed("7" * (MAX_DIGITS + 1))] == ["bad number"]
    assert lexed("0." + "7" * (MAX_DIGITS - 1))[0][0] == "decimal"
    assert lexed("0." + "7" * MAX_DIGITS)[0][0] == "bad number"
    assert lexed("7" * (MAX_DIGITS + 1) + "ms")[0][0] == "bad number"


def test_a_file_that_is_not_utf_8() -> None:
    """E0011: one error, at the first byte that cannot stand where it stands."""
    assert errors(b"const A = 1\nconst B = \xff\xfe\n") == [
        "E0011 2:11 the file is not UTF-8: the byte 0xff cannot stand here"
    ]
    assert codes(b"-- \xe9t\xe9\n") == ["E0011 1"]  # Latin-1, in a comment
    assert codes(b"\xef\xbb\xbfconst A = \xed\xa0\x80") == ["E0011 1"]  # a surrogate
    assert codes(b"const A = \xc0\x80") == ["E0011 1"]  # an overlong form


def test_runs_of_rubbish_are_few_tokens() -> None:
    """A file of NULs, an endless name, an endless number, an endless run of signs: one token each."""
    million = 1_000_000
    assert len(lexed("\0" * million)) == 1
    assert len(lexed("\r" * million)) == 1
    assert [kind for kind, _ in lexed("a" * million)] == ["bad name"]
    assert [kind for kind, _ in lexed("é" * million)] == ["bad name"]
    assert [kind for kind, _ in lexed("a" + "\u0301\u0327" * million)] == ["bad name"]
    assert [kind for kind, _ in lexed("1" * million)] == ["bad number"]
    assert len(lexed("→" * million)) == 1
    assert len(lexed("x→" * million)) < 2000


def test_kinds_of_chunks_hold_the_tokens() -> None:
    """`kinds` of the tests sees what the lexer made, chunk by chunk."""
    assert kinds("const A = 1") == lexed("const A = 1")
