"""The layout rule, and the cutting of files into chunks."""

import pytest

from presk.syntax.api import tokenize
from presk.syntax.layout import CONTINUING
from presk.syntax.tokens import Chunk
from tests.syntax.support import codes, errors, grouped, keys, parsed, texts

OPERATORS = "|> | ⊗ >< ∘ << · @ * / % + == <= >= < >".split()


def chunk(text: str, key: str) -> Chunk:
    return {chunk.key: chunk for chunk in tokenize(text.encode()).file.chunks()}[key]


@pytest.mark.parametrize("operator", OPERATORS)
def test_a_line_that_begins_with_an_operator_continues(operator: str) -> None:
    """L017, L018"""
    assert texts(f"const A = x\n  {operator} y") == texts(f"const A = x {operator} y")


def test_the_list_of_continuing_operators() -> None:
    """L018: exactly these, in canonical spelling."""
    assert {texts(operator)[0] for operator in OPERATORS} == CONTINUING


@pytest.mark.parametrize("operator", ["-", "^"])
def test_minus_and_power_never_continue(operator: str) -> None:
    """L019"""
    assert "⏎" in texts(f"const A = x\n  {operator} y")
    assert codes(f"fn f(x, y) =\n  x\n  {operator} y") == ["E0001 3"]


@pytest.mark.parametrize("text", ["[0]", "(y)", "{D}", ".w", "..y", "= y", ", y", "-> y"])
def test_nothing_else_continues(text: str) -> None:
    """L017: brackets, dots, `=` and the rest begin no continuing line."""
    assert codes(f"const A = x\n  {text}\n") == ["E0001 2"]


def test_blank_lines_and_comments_before_a_continuing_line() -> None:
    """O68"""
    assert texts("const A = x -- one\n\n  -- two\n\n  + y") == texts("const A = x + y")


def test_line_breaks_in_brackets_are_nothing() -> None:
    """L020, O34: also in the braces of dimension arguments and type parameters."""
    flat = "fn f{A B : dim, C : dim}(x : ℝ[a: A], y : M{A, B}) -> ℝ[] = g{A}(x[0], y)"
    words = flat.replace("{", "{ ").replace("(", "( ").replace("[", "[ ").split(" ")
    assert texts(flat) == texts(flat.replace("{", "{\n").replace("(", "(\n").replace("[", "[\n").replace(", ", "\n,\n"))
    assert len(words) > 20


def test_a_minus_in_brackets_may_begin_a_line() -> None:
    """L020"""
    assert grouped("(a\n- b\n^ c)") == "(a - (b ^ c))"


def test_a_let_makes_lines_count_until_the_bracket_closes() -> None:
    """O33"""
    text = "const A = f(\n  x,\n  λ a.\n    let b = a\n    b\n)(\n  y\n)"
    assert texts(text) == "const A = f ( x , λ a . let b = a ⏎ b ) ( y )".split()
    # A bracket within the bracket is a bracket of its own; behind it lines count again.
    text = "const A = (let b = g(\n1\n)\nb + (\n2))"
    assert texts(text) == "const A = ( let b = g ( 1 ) ⏎ b + ( 2 ) )".split()
    assert codes("const A = (let b = 1\n  b\n  - b)") == ["E0001 3"]


def test_a_comma_or_a_closing_bracket_needs_no_line_of_its_own() -> None:
    """O33: a line break beside them separates nothing."""
    assert texts("const A = f(let b = 1\n  b\n  ,\n  c\n)") == "const A = f ( let b = 1 ⏎ b , c )".split()


def test_parts_of_a_signature_on_lines_of_their_own() -> None:
    """L035, L037, O68: `->`, `uses` and the body may begin a line, `=` may not."""
    flat = texts("fn f(x) -> ℝ[] uses Rand = x")
    assert texts("fn f(x)\n  -> ℝ[]\n  uses Rand =\n  x") == flat
    assert texts("fn f(x) -- c\n\n  -> ℝ[] -- d\n  uses Rand = -- e\n  -- f\n\n  x") == flat
    assert codes("fn f(x)\n  = x") == ["E0001 1"]


def test_only_the_body_of_a_function_begins_behind_its_equals_sign() -> None:
    """O68"""
    assert codes("const A =\n  1") == ["E0001 1"]
    assert codes("fn f(x) =\n  let y =\n    x\n  y") == ["E0001 2"]
    assert codes("fn f(x) =\n  let y\n    = x\n  y") == ["E0001 2"]


def test_blocks_may_stand_on_one_line() -> None:
    """O74"""
    assert keys("module M { param w : ℝ[4] }") == ["module M", "module M/param w"]
    assert keys("module M {}\nmodule N{A : dim} { use m : M } optimizer") == ["module M", "module N", "module N/use m"]
    assert keys("optimizer adamw { lr = 1 }") == ["optimizer adamw", "optimizer adamw/lr"]


def test_flat_files_are_legal() -> None:
    """Indentation means nothing while the braces are in order."""
    text = "module M {\nparam w : ℝ[4]\nfn f(x) =\nlet y = x\ny\n}\nfn g(x) = x\n"
    assert keys(text) == ["module M", "module M/param w", "module M/fn f", "fn g"]
    assert codes(text) == []
    text = "  module M {\nfn f(x) = x\n    fn g(x) = x\n}\n"
    assert keys(text) == ["module M", "module M/fn f", "module M/fn g"]


def test_keys() -> None:
    """Kind and name; assertions by number; the second of a key with `#2`; a name that is missing is `?`."""
    text = (
        'import "a.psk" as a\nconst A = 1\nstatic assert A == 1\ndim B\ntype T = ℝ[B]\neffect Rand\nmodel G = M\n'
        "static assert A == 1\nfn f(x) = x\nfn f(y) = y\nconst = 3\nmodule M {\nparam a, b : ℝ[1]\nfn f(x) = x\n"
        "use u, v : N\nfn f(x) = x\n}\noptimizer adamw {\nlr = 1\nlr = 2\n}\ntraining run {\noptimizer = adamw\n"
        'checkpoint every 1 steps to "a"\n}\ninference serve {\nmodel = M\n}\n'
    )
    assert keys(text) == [
        "import a",
        "const A",
        "static assert 1",
        "dim B",
        "type T",
        "effect Rand",
        "model G",
        "static assert 2",
        "fn f",
        "fn f#2",
        "const ?",
        "module M",
        "module M/param a",
        "module M/fn f",
        "module M/use u",
        "module M/fn f#2",
        "optimizer adamw",
        "optimizer adamw/lr",
        "optimizer adamw/lr#2",
        "training run",
        "training run/optimizer",
        "training run/checkpoint",
        "inference serve",
        "inference serve/model",
    ]


def test_contextual_words_begin_nothing_by_themselves() -> None:
    """L006: a line of a body may begin with `model`, and a field may be called by a reserved word."""
    text = "fn f(x) =\n  let model = x\n  model\n  * model\nfn g(run) = run\n"
    assert keys(text) == ["fn f", "fn g"]
    assert codes(text) == []
    text = "training run {\n  model = M\n  type = a\n  fn = b\n  let : c\n  checkpoint = d\n}\n"
    assert [key.split("/")[-1] for key in keys(text)][1:] == ["model", "type", "fn", "let", "checkpoint"]
    assert codes(text) == []


# --- an edit reaches one chunk ----------------------------------------------------------------------------------------

FILE = """\
const A = 1
module M{D : dim} {
  param w : ℝ[D]
  fn f(x) =
    let y = x
    y
}
training run {
  model = M
}
"""


@pytest.mark.parametrize(
    "edited",
    [
        "-- a comment on top\n" + FILE,
        FILE.replace("\n", "\n\n"),
        FILE.replace("\n", "  -- c\n"),
        FILE.replace("  ", "      "),
        FILE.replace("\n", "\r\n"),
        FILE.replace("fn f(x) =\n", "fn f(\n x\n) = "),
        FILE.replace("ℝ", "Real"),
    ],
)
def test_layout_is_not_in_the_chunks(edited: str) -> None:
    """L070: comments, blanks, line ends and spellings leave every chunk as it is."""
    assert tokenize(edited.encode()).file == tokenize(FILE.encode()).file


def test_a_neighbour_is_not_in_the_chunk() -> None:
    """L070"""
    before = {c.key: c for c in tokenize(FILE.encode()).file.chunks()}
    edited = FILE.replace("let y = x", "let y = x + 1").replace("const A = 1", "const A = 2\nconst B = 3")
    after = {c.key: c for c in tokenize(edited.encode()).file.chunks()}
    assert {key for key in after if after[key] != before.get(key)} == {"const A", "const B", "module M/fn f"}


# --- broken neighbours ------------------------------------------------------------------------------------------------

BROKEN = """\
fn a(x) = x
{broken}
fn b(x) = x
module M {{
  param w : ℝ[4]
  fn c(x) = x
}}
const D = 1
"""


@pytest.mark.parametrize(
    "broken",
    [
        "fn z(x = x",
        "fn z(x : ℝ[3 = x",
        "fn z(x) = f(g(x)",
        "const z = (1",
        "type z = M{4",
        "fn z(x) = x)",
        "fn z(x) = x]]}",
        'import "z',
        "static assert",
        "const z = 4D",
        "use z : M",
        "fn",
        "fn z(x) =",
        "fn z(x) =\n  let y = x",
        "fn z(x) =\n  let y = (x\n  y",
        "module Z{D : dim {\n  param v : ℝ[D]\n}",
        "module Z {\n  param v : ℝ[\n  fn y(x) = x\n}",
        "module Z {\n  use v : M{4\n}",
        "module Z {\n  fn y(x) = (x\n}",
        "module Z {\n  fn y(x) = x",
        "module Z {",
        "module Z",
        "optimizer z {\n  lr = (1\n  eps = 2\n}",
        "optimizer z {\n  lr = 1",
        "module Z\n  param v : ℝ\n  fn y(x) = x\n}",
        "inference serve\n  model = M\n  cache = c\n}",
        "module Z {\n  fn y(x : M}, z) = x\n  param v : ℝ\n}",
        "module Z({D : dim} {\n  param v : ℝ[D]\n}",
        "training run {\n  data = f(a = 1,\n  b = 2\n  c = 3\n}",
    ],
)
def test_a_broken_declaration_does_not_hide_its_neighbours(broken: str) -> None:
    """L068"""
    text = BROKEN.format(broken=broken)
    tokens = tokenize(text.encode())
    good = {c.key: c for c in tokenize(BROKEN.format(broken="").encode()).file.chunks()}
    found = {c.key: c for c in tokens.file.chunks()}
    assert {key: found.get(key) for key in good} == good
    first, last = 2, 1 + len(broken.split("\n"))
    lines = [int(line) for _, line in (error.split(" ") for error in codes(text))]
    assert lines
    assert all(first <= line <= last for line in lines), errors(text)


@pytest.mark.parametrize("stray", ["}", "((((", ")))", "???", "foo bar baz", "- x", "[0]", ".w", '"text"'])
def test_a_line_that_begins_nothing_belongs_to_the_declaration_before(stray: str) -> None:
    """It may have been meant to continue it, so that one is not believed either; all others are untouched."""
    good = {c.key: c for c in tokenize(BROKEN.format(broken="").encode()).file.chunks()}
    text = BROKEN.format(broken=stray)
    found = {c.key: c for c in tokenize(text.encode()).file.chunks()}
    assert found.keys() == good.keys()
    assert {key for key in good if found[key] != good[key]} == {"fn a"}
    assert {line.split(" ")[1] for line in codes(text)} == {"2"}


def test_a_missing_brace_is_one_error() -> None:
    """E0009 at the brace, the module is read as far as its indentation goes, and the rest is as it would be."""
    text = "module M {\n  param w : ℝ[4]\n\nfn f(x) = x\nmodule N {\n  fn g(x) = x\n}\n"
    assert codes(text) == ["E0009 1"]
    assert keys(text) == ["module M", "module M/param w", "fn f", "module N", "module N/fn g"]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            "module M\n  param w : ℝ\n  fn f(x) = x\n}\nconst A = 1\n",
            "E0001 1:9 expected `{`, found the end of the line",
        ),
        ("optimizer o\n  lr = 1\n}\n", "E0001 1:12 expected `{`, found the end of the line"),
        ("module M {\n  fn f(x : T}, y) =\n    let z = x\n    z\n  fn g(x) = x\n}\n", "E0009 2:13 `}` closes nothing"),
        ("fn f(x : (A[0)], B)) = x\n", "E0009 1:14 `)` closes nothing"),
        ("fn f(x : (A[0], B)]) = x\n", "E0009 1:19 `]` closes nothing"),
        ("const A = f(g(x)\nconst B = 1\n", "E0009 1:12 the `(` is not closed"),
        ("const A = f(x]\nconst B = 1\n", "E0009 1:14 `]` does not close the `(`"),
    ],
)
def test_one_wrong_bracket_is_one_error(text: str, error: str) -> None:
    """E0009, E0001: a bracket too many, too few, or of the wrong kind."""
    assert errors(text) == [error]


def test_what_can_stand_in_brackets_begins_no_declaration() -> None:
    """A line in brackets that begins with `param` or `dim` is part of a type or of type parameters."""
    parsed("fn f(\n  a :\n  param T,\n  b : (\n    param T,\n    param U\n  )\n) = a\n")
    parsed("fn f{A :\n  dim,\n  B\n  :\n  dim\n}(x) = x\n")
    parsed("fn f(\n  model : T,\n  run : T\n) = model\n")


def test_three_independent_errors_are_three() -> None:
    """L068: in three declarations, in three members, in three lines of one body."""
    assert codes("const A = * 1\nconst B = 2\nfn f(x) = (x\ntype T = ℝ[,]\n") == ["E0001 1", "E0009 3", "E0001 4"]
    assert codes("module M {\n  param w ℝ[4]\n  use l\n  fn f(x) = )\n  fn g(x) = x\n}\n") == [
        "E0001 2",
        "E0001 3",
        "E0009 4",
    ]
    assert codes("fn f(x) =\n  let a = *x\n  let b = x\n  let c = x +\n  let d = 4D\n  a b\n") == [
        "E0001 2",
        "E0008 4",
        "E0005 5",
        "E0001 6",
    ]


def test_of_a_file_without_any_structure_few_errors_are_told() -> None:
    """A text that is no program gives some errors and not one for each of its lines."""
    assert 0 < len(codes("these are no declarations\n" * 2000)) <= 20
    assert 0 < len(codes(")\n" * 2000)) <= 20
    assert 0 < len(codes("$ % $\n" * 2000)) <= 20
