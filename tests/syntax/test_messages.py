"""What is said of syntax errors: codes, places, words, mends. The whole of it, as a terminal shows it, is a golden file."""

from pathlib import Path

import pytest

from presk.diagnostics.render_text import TextOptions, render_text
from presk.diagnostics.value import Diagnostic
from presk.syntax.api import FileSource, parse_file
from tests.conftest import Golden
from tests.syntax.support import codes, errors

PROGRAMS = Path(__file__).parent / "broken.psk"


def test_messages_as_they_are_shown(golden: Golden) -> None:
    """Every program of `broken.psk`, with what is said of it."""
    shown = []
    for program in PROGRAMS.read_text(encoding="utf-8").split("----\n"):
        parsed = parse_file(program.encode(), "broken.psk")
        assert parsed.diagnostics
        source = FileSource("broken.psk", program.encode(), parsed.table)
        shown.append(render_text(parsed.diagnostics, source, TextOptions(False)))
    golden("syntax/broken.txt", "----\n".join(shown))


def only(text: str) -> Diagnostic:
    (diagnostic,) = parse_file(text.encode()).diagnostics
    return diagnostic


def test_expected_and_found_in_words() -> None:
    """E0001: no names of grammar symbols, and the Unicode spelling of what was written in ASCII (L009)."""
    assert errors("const A = @ 1") == ["E0001 1:11 expected an expression, found `·`"]
    assert errors("const A 1") == ["E0001 1:9 expected `:` or `=`, found the number `1`"]
    assert errors("const A = f(1") == ["E0009 1:12 the `(` is not closed"]
    assert errors("type A = 3") == ["E0001 1:10 expected a type, found the number `3`"]
    assert errors("dim A 3") == ["E0001 1:7 expected the end of the declaration or `<=`, found the number `3`"]
    assert errors("const A = 1 2") == [
        "E0001 1:13 expected an operator or the end of the declaration, found the number `2`"
    ]


@pytest.mark.parametrize("operator", "|> | ⊗ ∘ == <= >= < > + - * / % · ^".split())
def test_an_operator_at_the_end_of_a_line(operator: str) -> None:
    """E0008, O68: at the operator; it is to begin the next line, if it can."""
    text = f"fn f(x) =\n  x {operator}\n  y\n"
    assert codes(text) == ["E0008 2"]
    mend = only(text).mend
    assert mend is not None
    assert (f"begin the next line with `{operator}`" == mend) == (operator not in ("-", "^"))


@pytest.mark.parametrize("word", "module param use fn const axis init ein let ℝ λ".split())
def test_reserved_words_as_names(word: str) -> None:
    """E0010, L005"""
    assert codes(f"const {word} = 1\n") == ["E0010 1"]
    assert codes(f"fn f({word} : ℝ) = 1\n") == (["E0001 1"] if word == "axis" else ["E0010 1"])
    assert f"`{word}`" in only(f"dim {word}\n").message


def test_two_items_on_one_line() -> None:
    """E0012, L016: declarations, members, items, lines of a body."""
    assert codes("const A = 1 const B = 2\n") == ["E0012 1"]
    assert codes("const A = 1 model M = N\n") == ["E0012 1"]
    assert codes("module M { param a : ℝ param b : ℝ }") == ["E0012 1"]
    assert codes("optimizer o { lr = 1 eps = 2 }") == ["E0012 1"]
    assert codes("training run { optimizer = a model = b }") == ["E0012 1"]
    assert codes("fn f(x) = let y = x let z = y\n  z") == ["E0012 1"]
    assert codes("module M {} fn f(x) = x\n") == ["E0012 1"]
    assert only("const A = 1 const B = 2\n").mend == "begin a new line with `const`"


def test_bindings_without_a_body() -> None:
    """E0013, L021"""
    assert codes("fn f(x) =\n  let y = x\n") == ["E0013 2"]
    assert codes("fn f(x) =\n  let y = x in y\n") == ["E0013 2"]
    assert codes("const a = (let y = x)\n") == ["E0013 1"]
    assert codes("const a = f(let y = x, 1)\n") == ["E0013 1"]
    assert codes("fn f(x) = λ a. let y = a\n  let z = y\n") == ["E0013 2"]


def test_lambdas_without_a_pattern() -> None:
    """E0014, O31: `\\. e`, and `λθ. e`, which is one name."""
    assert codes("const a = \\. e\n") == ["E0014 1"]
    assert codes("const a = grad(λθ. e)\n") == ["E0014 1"]
    assert only("const a = grad(λθ. e)\n").mend == "put a blank behind `λ`: `λ θ. …`"


def test_brackets() -> None:
    """E0009: the opening one with what closes too early, the innermost where several are open."""
    assert errors("const a = f(x]") == ["E0009 1:14 `]` does not close the `(`"]
    assert only("const a = f(x]").mend == "write `)`"
    assert errors("const a = f([x)") == ["E0009 1:13 the `[` is not closed"]
    assert errors("const a = f(g(x") == ["E0009 1:14 the `(` is not closed"]
    labels = only("const a = f([x)").labels
    assert [label.place.first for label in labels] == [7]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("const a := 1", "a value is given with `=`"),
        ("const a = 2 ** 3", "a power is written `x^2`"),
        ("// text", "a comment begins with `--`"),
        ("# text", "a comment begins with `--`"),
        ("const a = 'x'", "a string is written in double quotes"),
        ("const a = .5", "a decimal begins with a digit"),
        ("fn f(x) { x }", "stands behind `=`, without braces"),
        ("const a = f x", "a function is called with parentheses"),
        ("const a = λ x -> x", "a lambda is written `λ x. e`"),
        ("fn f(x) =\n  return x", "there is no `return`"),
        ("fn f(x) =\n  let y : T = x\n  y", "an ascription of its value"),
        ("param w : ℝ", "`param` stands in a module"),
    ],
)
def test_habits_of_other_languages(text: str, hint: str) -> None:
    diagnostic = parse_file(text.encode()).diagnostics[0]
    assert any(hint in note for note in diagnostic.notes), diagnostic


@pytest.mark.parametrize(("character", "instead"), [("−", "-"), ("≤", "<="), ("→", "->"), ("…", "..."), ("×", "*")])
def test_characters_of_other_notations(character: str, instead: str) -> None:
    assert only(f"const a = x {character} y").mend == f"write `{instead}`"


def test_units() -> None:
    """E0005, O32: the product that was probably meant."""
    assert only("const a = 4D").mend == "for a product write `4*D`"
    assert only("const a = 2θ").mend == "for a product write `2*θ`"


def test_places_of_errors_survive_characters_left_out() -> None:
    """A bad character before an error does not shift it."""
    assert errors("fn f(x) =\n  let y = $ x\n  a b\n") == [
        "E0002 2:11 no token begins with `$`",
        "E0001 3:5 expected an operator or the end of the declaration, found the name `b`",
    ]


def test_a_line_with_an_error_gives_one() -> None:
    """What follows from an error is not said."""
    assert codes("fn f(x) =\n  let y = 4D $ ) *\n  y\n") == ["E0005 2", "E0002 2", "E0009 2"]
    assert codes("const a = x != y\n") == ["E0002 1"]
