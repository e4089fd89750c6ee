"""Programs as equations: the specification's examples character for character, every form, and LaTeX that can be read."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from presk.ad.pipeline import Remat, after_ad
from presk.core.equations.core import core_equations
from presk.core.equations.forms import (
    Abstraction,
    Applied,
    At,
    Denoted,
    Each,
    Equal,
    Formula,
    Group,
    Infix,
    Iterate,
    Minus,
    Operation,
    Raised,
    Root,
    Sum,
    Word,
)
from presk.core.equations.latex import PREAMBLE, latex_text, prose, textual
from presk.core.equations.latex import formula as latex
from presk.core.equations.typed import program_equations
from presk.core.equations.unicode import formula, unicode_text
from tests.core.support import FILES, corpus, typed_source

ATTENTION: Final = """\
scores, of q : Q,  k : Q
    ⟦scores⟧(q, k)[batch, heads, seq, seq2] = (∑_{hd} q[batch, heads, seq, hd] k[batch, heads, seq2, hd]) / √HD

attend, of q : Q,  k : Q,  v : Q
    s = ⟦scores⟧(q, k)
    a = softmax axis seq2 s, (causal_mask seq: T)
    ⟦attend⟧(q, k, v)[batch, heads, seq, hd] = ∑_{seq2} a[batch, heads, seq, seq2] v[batch, heads, seq2, hd]
"""

BACKWARD: Final = """\
Linear.apply.bwd, of θ : params Linear{In, Out},  x : ℝ[…, In],  ct : ℝ[…, Out]
    b = θ.b                               -- primal b, kept
    %8 = sum_to ct, b                     -- adjoint of %5 (add)
    %9 = zeros_like θ                     -- adjoint of b (field)
    %10 = set_field b %9, %8              -- adjoint of b (field)
    %12 = dot_vjp_r x, ct                 -- adjoint of %3 (dot)
"""


def test_the_attention_of_the_specification() -> None:
    assert unicode_text(program_equations(corpus("tutorial/03_attention.psk").typed)) == ATTENTION


def test_the_reverse_sweep_of_the_specification() -> None:
    found = after_ad(corpus("tutorial/04_grad.psk").program, Remat.STORE, hold_groups=False)
    reasons = {(one.function, one.var): one.text for one in found.purposes}
    text = unicode_text(core_equations(found.program, reasons))
    assert f"\n\n{BACKWARD}" in text
    assert "    ⟦Linear.apply⟧(θ, x) = %5\n" in text


@pytest.mark.parametrize(
    ("file", "name"), [("nlp/05_gpt.psk", "course_gpt"), ("constructs/stack.psk", "stacks"), ("basics/mlp.psk", "mlp")]
)
def test_whole_programs(file: str, name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"equations/{name}.txt", unicode_text(program_equations(corpus(file).typed)))


def test_a_whole_document(golden: Callable[[str, str], None]) -> None:
    text = latex_text(program_equations(corpus("tutorial/03_attention.psk").typed), standalone=True)
    golden("equations/attention.tex", text)


def equations(folder: Path, source: str, name: str) -> list[str]:
    """The equations of one function of a program."""
    found = program_equations(typed_source(folder, {"main.psk": source}))
    text = unicode_text(one for one in found if one.name == name)
    return [line.strip() for line in text.splitlines()]


HEAD: Final = """
const K : nat = 3
dim B
dim N
module Line{D : dim} { param w : ℝ[D, D]
  param b : ℝ[D]
  fn apply(x : ℝ[..., D]) -> ℝ[..., D] = x · w + b
  fn half(x : ℝ[..., D]) -> ℝ[..., D] = apply(x) / 2 }
module Deep{D L : dim} { use line : Line{D}
  use rows : stack{L}(stack{2}(Line{D}))
  fn apply(x : ℝ[..., D]) -> ℝ[..., D] = line.apply(rows.apply(line.half(x))) + line.b }
"""


FORMS: Final = (
    ("x : ℝ[N]", "ℝ[N]", "\n  let x = x + 1\n  let x = x^2\n  x", ["x' = x + 1", "x'' = x'²", "⟦f⟧(x) = x''"]),
    ("x : ℝ[N], n : nat", "ℝ[N]", "-x^n - (-x)", ["⟦f⟧(x, n) = -x^n - (-x)"]),
    ("x : ℝ[N], y : ℝ[N]", "ℝ[N]", "x * y / (x + y) * 2", ["⟦f⟧(x, y) = x ⊙ y / (x + y) · 2"]),
    ("x : ℝ", "ℝ", "sqrt(x + K) - (x - 1)", ["⟦f⟧(x) = √(x + K) - (x - 1)"]),
    ("x : ℝ[n: N]", "ℝ", "sum(tanh(x)) + mean(axis n, x)", ["⟦f⟧(x) = (sum (tanh x)) + (mean axis n x)"]),
    ("x : ℝ[a: 2, b: 6]", "ℝ[a: 2, c: 2, d: 3]", "split(axis b, c: 2, d: K, x)", ["⟦f⟧(x) = split b c: 2, d: 3 x"]),
    ("x : ℝ[4, n: N]", "ℝ", "x[1][n: -1]", ["⟦f⟧(x) = x[1][n: -1]"]),
    ("x : ℝ[a: 4, 5]", "ℝ[2]", "x[a: 0][1..3]", ["⟦f⟧(x) = x[a: 0][1..3]"]),
    ("a : ℝ[i: N], b : ℝ[j: N]", "ℝ[i: N, j: N]", "ein[i, j](a * b)", ["⟦f⟧(a, b)[i, j] = a[i] b[j]"]),
    ("a : ℝ[i: N]", "ℝ", "ein[](a * a)", ["⟦f⟧(a) = ∑_{i} a[i] a[i]"]),
    (
        "a : ℝ[i: N, j: N], b : ℝ[j: N]",
        "ℝ[i: N]",
        "tanh(ein[i](a * b)) + sum(axis j, a) * 2 - sum(b)",
        ["⟦f⟧(a, b)[i] = (tanh (∑_{j} a[i, j] b[j])) + (sum axis j a)[i] · 2 - (sum b)"],
    ),
    (
        "a : ℝ[i: N, j: N], b : ℝ[j: N]",
        "ℝ",
        "sum(ein[i](a * (b + 1)))",
        ["⟦f⟧(a, b) = sum [i ↦ ∑_{j} a[i, j] (b[j] + 1)]"],
    ),
    (
        "a : ℝ[i: N, j: N], b : ℝ[j: N]",
        "ℝ[i: N]",
        "ein[i](a * ein[j](a * b))",
        ["⟦f⟧(a, b)[i] = ∑_{j} a[i, j] (∑_{i'} a[i', j] b[j])"],
    ),
    ("θ : params Line{4}, x : ℝ[4]", "ℝ[4]", "Line.apply(θ, x) + θ.b", ["⟦f⟧(θ, x) = ⟦Line.apply⟧(θ, x) + θ.b"]),
    ("net : Line{4}, θ : params net, x : ℝ[4]", "ℝ[4]", "net.half(θ, x)", ["⟦f⟧(net, θ, x) = ⟦Line.half⟧(θ, x)"]),
    (
        "x : ℝ[n: N]",
        "ℝ[n: N]",
        "grad(λ v.\n    let s = sum(v^2)\n    s * s)(x)",
        ["⟦f⟧(x) = (grad (λ v. s · s where s = sum (v²)))(x)"],
    ),
    ("x : ℝ", "ℝ", "\n  let g = λ (a, b). a - b\n  g((x, x))", ["g = λ (a, b). a - b", "⟦f⟧(x) = g((x, x))"]),
    (
        "x : ℝ, n : nat",
        "(ℝ, bool)",
        "(real(n) + x, n <= 2 * n + 1)",
        ["⟦f⟧(x, n) = ((real n) + x, n <= 2 · n + 1)"],
    ),
    (
        "k : key, x : ℝ",
        "ℝ",
        "\n  let (a, _) = split_key(k)\n  dropout(0.5, a, x)",
        ["(a, _) = split_key k", "⟦f⟧(k, x) = dropout 0.5, a, x"],
    ),
    ("k : key", "params Line{4}", "Line{4}.init(k)", ["⟦f⟧(k) = ⟦Line{4}.init⟧(k)"]),
)
"""Functions by their parameters, result and body, and the lines below their heads."""


def test_forms(tmp_path: Path) -> None:
    source = "".join(
        f"fn f{place}({params}) -> {result} uses Rand = {body}\n"
        for place, (params, result, body, _) in enumerate(FORMS)
    )
    found = {one.name: one for one in program_equations(typed_source(tmp_path, {"main.psk": HEAD + source}))}
    for place, (_, _, body, expected) in enumerate(FORMS):
        name = f"f{place}"
        lines = [line.strip() for line in unicode_text((found[name],)).splitlines()]
        assert lines[0].startswith(f"{name}, of ")
        assert lines[1:] == [line.replace("⟦f⟧", f"⟦{name}⟧") for line in expected], body


def test_members_and_stacks(tmp_path: Path) -> None:
    assert equations(tmp_path, HEAD, "Line.half") == [
        "Line.half, of x : ℝ[…, D]",
        "⟦Line.half⟧(x) = ⟦Line.apply⟧(x) / 2",
    ]
    assert equations(tmp_path, HEAD, "Deep.apply") == [
        "Deep.apply, of x : ℝ[…, D]",
        "y₀ = ⟦line.half⟧(x), y_(ℓ+1) = z₂ where z₀ = y_ℓ, z_(m+1) = ⟦Line.apply⟧(θ.rows[ℓ][m], z_m) for 0 ≤ m < 2,"
        " for 0 ≤ ℓ < L",
        "⟦Deep.apply⟧(x) = ⟦line.apply⟧(y_L) + line.b",
    ]


def test_a_let_is_primed_where_it_takes_a_parameters_name(tmp_path: Path) -> None:
    source = "module M { param w : ℝ[4]\n  fn f(x : ℝ[4]) -> ℝ[4] =\n    let w = w * x\n    w }\n"
    assert equations(tmp_path, source, "M.f")[1:] == ["w' = w ⊙ x", "⟦M.f⟧(x) = w'"]


X, Y = Word("x"), Word("y")


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (Infix("-", X, Infix("-", X, Y)), "x - (x - y)"),
        (Infix("/", Infix("+", X, Y), Infix("·", X, Y)), "(x + y) / (x · y)"),
        (Raised(Minus(X), Word("2")), "(-x)²"),
        (Raised(X, Word("12")), "x¹²"),
        (Raised(X, Infix("+", X, Y)), "x^(x + y)"),
        (Root(Infix("+", X, Y)), "√(x + y)"),
        (Infix("+", Sum(("i",), (At(X, ("i",)),)), Y), "(∑_{i} x[i]) + y"),
        (Sum(("i",), (Infix("+", X, Y), Sum(("j",), (X,)))), "∑_{i} (x + y) (∑_{j} x)"),
        (Applied(Denoted("f"), (Operation("max", "", (X, Y)), X)), "⟦f⟧((max x, y), x)"),
        (Applied(Denoted("f"), (Operation("max", "", (X, Y)),)), "⟦f⟧(max x, y)"),
        (Applied(Denoted("f"), (Operation("exp", "", (X,)), X)), "⟦f⟧(exp x, x)"),
        (Group((Abstraction((X,), False, X), Y)), "((λ x. x), y)"),
        (At(Each(("i",), At(X, ("i",))), ("j",)), "[i ↦ x[i]][j]"),
        (Iterate(Word("y"), "L"), "y_L"),
        (Iterate(Word("y"), "2*L"), "y_(2*L)"),
        (Word("x", 2), "x''"),
    ],
)
def test_parentheses_stand_where_they_are_needed(form: Formula, text: str) -> None:
    assert formula(form) == text


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (Word("θ.blocks"), r"\theta.\pskname{blocks}"),
        (Word("x̂", 1), r"\hat{x}'"),
        (Word("σ2"), r"\sigma_{2}"),
        (Word("a_b"), r"\pskname{a\_b}"),
        (Word("x%7"), r"{x}_{\%7}"),
        (Word("%7"), r"\%7"),
        (Word("1e-5"), r"1 \times 10^{-5}"),
        (Word("0.25"), "0.25"),
        (Word("éa"), r"\pskname{\acute{e}a}"),
        (Word("Δt"), r"\pskname{\Delta{}t}"),
        (Word("名"), r"\text{名}"),
        (Word("Å"), r"\mathring{A}"),
        (Word("ç"), r"\text{ç}"),
        (Word("_"), r"\_"),
        (Raised(Word("1e-5"), X), r"{\left(1 \times 10^{-5}\right)}^{x}"),
        (Infix("/", X, Infix("+", X, Y)), r"\frac{x}{x + y}"),
        (Raised(Infix("/", X, Y), Word("2")), r"{\left(\frac{x}{y}\right)}^{2}"),
        (Root(Infix("+", X, Y)), r"\sqrt{x + y}"),
        (Operation("split_heads", "6x64", (X,)), r"\pskop{split\_heads}\ 6 \times 64\ x"),
        (Infix("⊙", X, Infix("<=", X, Y)), r"x \odot \left(x \le y\right)"),
    ],
)
def test_latex_of_formulas(form: Formula, text: str) -> None:
    assert latex(form) == text


def test_latex_of_words() -> None:
    assert textual("params M{D} -> ℝ[…, a: 4*D]") == (
        r"\pskword{params}\ M\{D\}\ \to \ \mathbb{R}[\ldots ,\ a:\ 4\cdot D]"
    )
    assert prose("adjoint of θ_1 (50% of {x})") == r"adjoint of $\theta{}$\_1 (50\% of \{x\})"
    assert prose("primal x̂, é") == r"primal $\hat{x}$, $\acute{e}$"


def test_letters_that_no_font_of_tex_has_are_declared(tmp_path: Path) -> None:
    """A document is read by pdfTeX whatever a program's names are: these show by their numbers; `ç` and `ß` are there."""
    typed = typed_source(tmp_path, {"main.psk": "fn f(имя : ℝ, ça : ℝ, ß : ℝ) -> ℝ = имя + ça + ß\n"})
    document = latex_text(program_equations(typed), standalone=True)
    declared = re.search(r"\\ifdefined\\DeclareUnicodeCharacter\n(.*?)\\fi\n\\begin{document}\n", document, re.DOTALL)
    assert declared is not None
    assert declared.group(1).splitlines() == [
        rf"\DeclareUnicodeCharacter{{{code}}}{{\pskletter{{{code}}}}}" for code in ("0438", "043C", "044F")
    ]
    assert document.endswith(latex_text(program_equations(typed)) + "\\end{document}\n")
    plain = typed_source(tmp_path, {"main.psk": "fn f(x̂ : ℝ, θ : ℝ) -> ℝ = x̂ + θ\n"})
    assert "Declare" not in latex_text(program_equations(plain), standalone=True)


COMMANDS: Final = frozenset(
    "begin end den pskname pskword pskop pskreason frac sqrt sum left right text mathbb mapsto lambda cdot odot le ge quad to"
    " ldots circ times hat acute mathring tilde theta mu sigma gamma beta alpha rho nu omega varphi Delta Omega ell".split()
)


def structure(text: str) -> None:
    """Braces, environments, dollars and sized brackets are closed; commands are known; each line has one `&`."""
    for command in set(re.findall(r"\\([a-zA-Z]+)", text)):
        assert command in COMMANDS, command
    bare = re.sub(r"\\[^a-zA-Z]", "", text)
    depth = 0
    for character in bare:
        depth += {"{": 1, "}": -1}.get(character, 0)
        assert depth >= 0
    assert depth == 0
    assert bare.count("$") % 2 == 0
    assert text.count(r"\left") == text.count(r"\right")
    assert re.findall(r"\\begin\{(.*?)\}", text) == [
        name for one in re.findall(r"\\end\{(.*?)\}", text)[::2] for name in ("pskfunction", one)
    ]
    for line in text.splitlines():
        assert line.count(" &= ") == line.startswith("  "), line
    assert not set(re.sub(r"\\text\{.*?\}", "", text)) - set(map(chr, range(128)))
    assert not re.search(r"_\{[^{}]*\}_|\^\{[^{}]*\}\^|''*\^", text)


@pytest.mark.parametrize("file", FILES)
def test_latex_of_the_corpus(file: str) -> None:
    structure(latex_text(program_equations(corpus(file).typed)))
    found = after_ad(corpus(file).program, Remat.STORE, hold_groups=False)
    reasons = {(one.function, one.var): one.text for one in found.purposes}
    structure(latex_text(core_equations(found.program, reasons)))


def test_every_command_of_a_document_is_defined() -> None:
    """What the fragment uses beyond LaTeX and the AMS packages, the preamble defines."""
    defined = set(re.findall(r"\\newcommand\{\\([a-z]+)\}", PREAMBLE))
    assert {name for name in COMMANDS if name.startswith("psk") or name == "den"} | {"pskletter"} == defined
    assert r"\newenvironment{pskfunction}[2]" in PREAMBLE


def test_reasons_stand_in_one_column() -> None:
    found = core_equations(corpus("basics/mlp.psk").program, {("mse", 4): "one", ("mse", 6): "two"})
    mse = next(one for one in found if one.name == "mse")
    assert [one.reason for one in mse.equations if isinstance(one, Equal)] == ["", "one", "", "two", ""]
    lines = unicode_text((mse,)).splitlines()
    assert [line.find("--") for line in lines if "--" in line] == [42, 42]
