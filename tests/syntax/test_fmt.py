"""The formatter's rules, one by one. That it keeps tokens and comments whatever the layout is a law (test_laws)."""

import pytest

from presk.syntax.api import tokenize
from presk.syntax.fmt import Formatted, Unformatted, format_source
from tests.conftest import Golden


def fmt(text: str, *, ascii_: bool = False) -> str:
    result = format_source(text.encode(), ascii_=ascii_)
    assert isinstance(result, Formatted)
    assert format_source(result.text.encode(), ascii_=ascii_) == result
    return result.text


PROGRAM = """\
-- head


const   D:nat=768   -- hyper
module Linear{In Out:dim}{
-- first
  param w:Real[In,Out]  init=xavier_uniform


  param b:ℝ[Out] init = zeros  -- bias
  fn apply(x:ℝ[...,In])->ℝ[...,Out]=x@w+b
  -- tail
} -- end
module E { }
module F { -- c
}
fn mse{D : dim}(net : MLP{D, 4*D}, θ : params net, x : ℝ[batch: B, model: D], y : ℝ[batch: B, model: D]) -> ℝ[] =

  let ŷ = net.apply(θ, x)
  -- about
  let z = ein[batch, heads, seq, seq2](q * k) + ein[batch, heads, seq, seq2](q * k) * ein[batch, heads](q * k) - foo(a,b,c)

  let g = f(a, -- one
     b, -- two

     -- own
     c) -- three
  let h = grad(\\θ. let y = f(θ) -- yy
                let z = y
                z)(θ)
  let q = p[pair:0..1]+w[seq:1..T + 1]*logits[seq:-1] - - x^2 -- c1
     + b -- c2
     -- c3
     * c
  mean((ŷ-y)^2,positions(seq : T),axis model, sqrt(HD:ℝ),where=m,(x,y),(),\\ (a,b). a)
fn g(x) -- c
  -- d
  -> ℝ[]
  uses Rand = -- e
  -- f
  x

training run {
  optimizer : adamw
  data = stream "data/tokens.psk.d" |> shuffle(seed = 1234) |> batch(B = 32) |> take(n = 100000) |> more(x = 3)
  lr : f64=3e-4
  parallel = a >< b << c
  checkpoint every 1000 steps to "ckpt/"
}

-- end of file
"""


def test_a_whole_program(golden: Golden) -> None:
    """L069: the canonical form."""
    golden("syntax/formatted.psk", fmt(PROGRAM))


def test_a_whole_program_in_ascii(golden: Golden) -> None:
    """L069, L008: only symbols change their spelling, names do not."""
    golden("syntax/formatted_ascii.psk", fmt(PROGRAM, ascii_=True))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("const A=1+2*x", "const A = 1 + 2*x\n"),
        ("const A = 2*x*y", "const A = 2*x * y\n"),
        ("const A = x*2", "const A = x * 2\n"),
        ("const A = a/2*x", "const A = a / 2 * x\n"),
        ("const A = x^2*y", "const A = x^2 * y\n"),
        ("const A = x ^ - y", "const A = x^-y\n"),
        ("const A = - - x - - y", "const A = - -x - -y\n"),
        ("const A = f( - x , - 1 )", "const A = f(-x, -1)\n"),
        ("const A = ( a , b ) . c", "const A = (a, b).c\n"),
        ("const A = t [ i ] { D } ( x ) . w", None),
        ("const A = t [ i ] ( x ) . w", "const A = t[i](x).w\n"),
        ("const A = f(axis  a,n=1,s:T,x:ℝ)", "const A = f(axis a, n = 1, s: T, x : ℝ)\n"),
        ("const A = (x:ℝ[a:B,...])", "const A = (x : ℝ[a: B, ...])\n"),
        ("const A = λ(a,b).λ x.a", "const A = λ (a, b). λ x. a\n"),
        ("const A = w[s:1 .. T+1]", "const A = w[s: 1..T + 1]\n"),
        ("type T = ( idx [ N ] [ a : B ] , bool [ ] , params m . M { D } )", "type T = (idx[N][a: B], bool[], params m.M{D})\n"),
        ("dim T<=1024", "dim T <= 1024\n"),
        ("static   assert D%H==0", "static assert D % H == 0\n"),
        ('import"a.psk"as a', 'import "a.psk" as a\n'),
        ('const A = "a\tb\\n\\"\\\\"', 'const A = "a\\tb\\n\\"\\\\"\n'),
        ("model M=stack{12}(B)<<E{V,D}", "model M = stack{12}(B) ∘ E{V, D}\n"),
        ("module M{A B:dim,C:dim}{use a,b:N{A}}", "module M{A B : dim, C : dim} {\n  use a, b : N{A}\n}\n"),
        ("fn f{D:dim}(axis a,x:T=1,y=2)->(A,B)uses R,S=x", "fn f{D : dim}(axis a, x : T = 1, y = 2) -> (A, B) uses R, S =\n  x\n"),
        ("optimizer o{lr:f64=1}", "optimizer o {\n  lr : f64 = 1\n}\n"),
        ("optimizer o{lr:f(x)}", "optimizer o {\n  lr : f(x)\n}\n"),
        ("training run{}", "training run {}\n"),
        ("", ""),
        ("\n\n", ""),
        ("-- c   \n\n\n\n-- d", "-- c\n\n-- d\n"),
    ],
)  # fmt: skip
def test_spacing(text: str, expected: str | None) -> None:
    """Blanks between tokens, line by line."""
    if expected is None:
        assert isinstance(format_source(text.encode()), Unformatted)
    else:
        assert fmt(text) == expected


def test_blank_lines() -> None:
    """One stays of several; none at the beginning of a block, a body or the file, nor at their ends."""
    text = "\n\nconst A = 1\n\n\n\nconst B = 2\nmodule M {\n\n\n  param w : ℝ\n\n\n  param v : ℝ\n\n\n}\n\n\n"
    assert fmt(text) == "const A = 1\n\nconst B = 2\nmodule M {\n  param w : ℝ\n\n  param v : ℝ\n}\n"
    assert fmt("fn f(x) =\n\n\n  let y = x\n\n\n  y\n") == "fn f(x) =\n  let y = x\n\n  y\n"


def test_long_lines_break_before_the_loosest_operator() -> None:
    """All operators of that level or none; `-` outside brackets cannot begin a line."""
    name = "a_name_of_quite_some_length"
    line = " + ".join([f"{name} * {name}"] * 3)
    assert fmt(f"const A = {line}") == f"const A = {name} * {name}\n  + {name} * {name}\n  + {name} * {name}\n"
    text = fmt(f"const A = f({line.replace('+', '-')})")
    assert text == f"const A = f(\n  {name} * {name}\n    - {name} * {name}\n    - {name} * {name}\n)\n"
    text = fmt(f"const A = {line.replace('+', '-')}")
    assert text == f"const A = {name}\n  * {name} - {name}\n  * {name} - {name}\n  * {name}\n"


def test_long_brackets_have_a_line_for_each_part() -> None:
    name = "a_name_of_quite_some_length"
    text = fmt(f"const A = f({name}, g({name}, {name}), n = {name})")
    assert text == f"const A = f(\n  {name},\n  g({name}, {name}),\n  n = {name}\n)\n"


def test_a_line_of_exactly_the_width_stays() -> None:
    fitting = "const A = f(" + "x" * 86 + ", y)"
    assert len(fitting) == 102
    assert fmt(fitting).count("\n") == 4
    fitting = fitting.replace("xxx", "x", 1)
    assert fmt(fitting) == fitting + "\n"


def test_line_ends_and_byte_order_marks() -> None:
    """Line feeds only, and no mark."""
    result = format_source("\ufeffconst A = 1 -- c\r\n\r\n\r\nconst B = 2\r\n".encode())
    assert result == Formatted("const A = 1  -- c\n\nconst B = 2\n")


def test_comments_stay_where_they_were() -> None:
    """Behind a token, or on lines of their own before one, also in the middle of a signature."""
    text = "fn f(  -- 1\n  -- 2\n  x,  -- 3\n  -- 4\n  y  -- 5\n  -- 6\n)  -- 7\n  -- 8\n  -> ℝ[] =  -- 9\n  -- 10\n  x  -- 11\n"
    assert fmt(text) == text
    text = "module M {  -- 1\n  -- 2\n}  -- 3\n-- 4\n"
    assert fmt(text) == text
    text = "-- 1\n\nmodule M {\n  -- 2\n\n  -- 3\n  param w : ℝ  -- 4\n\n  -- 5\n}\n\n-- 6\n"
    assert fmt(text) == text


def test_a_file_with_errors_is_not_formatted() -> None:
    """All its errors come back, with what a renderer needs."""
    result = format_source(b"const A = )\nconst B = 4D\n", "name.psk")
    assert isinstance(result, Unformatted)
    assert [d.code for d in result.diagnostics] == ["E0009", "E0005"]
    assert {d.primary.place.file for d in result.diagnostics} == {"name.psk"}
    assert result.sources.text("name.psk") == "const A = )\nconst B = 4D\n"
    assert result.sources.text("other.psk") is None
    span = result.sources.resolve(result.diagnostics[1].primary.place)
    assert span is not None
    assert (span.start.line, span.start.column, span.start.offset) == (2, 11, 22)


def test_names_are_written_normalized() -> None:
    """L003: and nothing else changes them."""
    assert fmt("const y\u0302 = 1") == "const \u0177 = 1\n"
    assert tokenize(fmt("const y\u0302 = 1").encode()).file == tokenize("const y\u0302 = 1".encode()).file
