"""The text form: the specification's excerpts word for word, the forms that they do not show, and all of the corpus."""

from pathlib import Path
from typing import Final

import pytest

from presk.ad.vjp import differentiate
from presk.core.ir import Binding, Function, Param, Prim, Program
from presk.core.lower import Mode
from presk.core.parse import parse
from presk.core.scan import TextError
from presk.core.text import commented, print_program
from presk.prims.attrs import Align, AxisName, Select, Word
from presk.types.dim import ONE, ZERO, symbol
from presk.types.type import SCALAR, Axis, Hyper, HyperKind, ModuleRef, Named, Params, Real, Shape
from tests.core.support import FILES, corpus, from_source

MLP: Final = "basics/mlp.psk"

EXCERPTS: Final = (
    """\
fn Linear.apply{In Out}(θ : params Linear{In, Out}, x : ℝ[..., In]) -> ℝ[..., Out] {
  w : ℝ[In, Out] = θ.w
  %3 : ℝ[..., Out] = dot x, w
  b : ℝ[Out] = θ.b
  %5 : ℝ[..., Out] = add %3, b
  return %5
}
""",
    """\
fn mse{D B}(θ : params MLP{D, 4*D}, x : ℝ[batch: B, model: D], y : ℝ[batch: B, model: D]) -> ℝ[] {
  ŷ : ℝ[batch: B, D] = call MLP.apply{D = D, hidden = 4*D}(θ, x)
""",
    """\
  %3 : (params MLP{D, 4*D}) -> ℝ[] = closure mse_grad.lambda0[x, y]
  %4 : (params MLP{D, 4*D}) -> params MLP{D, 4*D} = grad %3
  %5 : params MLP{D, 4*D} = apply %4(θ)
  return %5
}
""",
)
"""What the specification prints of mlp.psk, whole lines."""

FORWARD: Final = """\
module Linear in "mlp.psk"
module MLP in "mlp.psk"
fn Linear.apply{In Out}(θ : params Linear{In, Out}, x : ℝ[..., In]) -> ℝ[..., Out] {
  w : ℝ[In, Out] = θ.w
  %3 : ℝ[..., Out] = dot x, w
  return %3
}
fn Linear.apply.vjp{In Out}(θ : params Linear{In, Out}, x : ℝ[..., In], ct : ℝ[..., Out])
    -> (params Linear{In, Out}, ℝ[..., In]) {
  w : ℝ[In, Out] = θ.w
  b : ℝ[Out] = θ.b                        -- %5
  %8 : ℝ[Out] = sum_to ct, b              -- adjoint of %5 (add)
  %9 : params Linear{In, Out} = zeros_like θ
  %10 : params Linear{In, Out} = set_field b %9, %8
  %11 : ℝ[..., In] = dot_vjp_l ct, w
  %12 : ℝ[In, Out] = dot_vjp_r x, ct
  %13 : params Linear{In, Out} = zeros_like θ
  %14 : params Linear{In, Out} = set_field w %13, %12
  %15 : params Linear{In, Out} = add %10, %14
  %16 : (params Linear{In, Out}, ℝ[..., In]) = (%15, %11)
  return %16
}
fn MLP.apply.fwd{D hidden}(θ : params MLP{D, hidden}, x : ℝ[..., D])
    -> (ℝ[..., D], (ℝ[..., hidden], ℝ[..., hidden])) {
  l1 : params Linear{D, hidden} = θ.l1
  %3 : ℝ[..., hidden] = call Linear.apply{In = D, Out = hidden}(l1, x)
  %4 : ℝ[..., hidden] = gelu %3
  l2 : params Linear{hidden, D} = θ.l2
  %6 : ℝ[..., D] = call Linear.apply{In = hidden, Out = D}(l2, %4)
  %7 : (ℝ[..., hidden], ℝ[..., hidden]) = (%3, %4)
  %8 : (ℝ[..., D], (ℝ[..., hidden], ℝ[..., hidden])) = (%6, %7)
  return %8
}
"""
"""What it prints of generated functions, with the number of a binding behind a gap, and one reason."""


@pytest.mark.parametrize("excerpt", EXCERPTS, ids=["Linear.apply", "mse", "mse_grad"])
def test_the_excerpts_stand_in_the_core_of_the_perceptron(excerpt: str) -> None:
    assert excerpt in print_program(corpus(MLP).program)


def test_the_head_of_the_gradient_is_broken_where_it_is_too_long() -> None:
    """The specification shortens its parameters' types with `…`; written out they do not fit one line."""
    head = (
        "fn mse_grad{D B}(θ : params MLP{D, 4*D}, x : ℝ[batch: B, model: D], y : ℝ[batch: B, model: D])\n"
        "    -> params MLP{D, 4*D} {\n"
    )
    assert head in print_program(corpus(MLP).program)


def test_the_excerpts_of_derivatives_are_read_and_printed_again() -> None:
    program = parse(FORWARD)
    vjp = program.functions[1]
    assert [binding.var for binding in vjp.bindings] == [3, 5, 8, 9, 10, 11, 12, 13, 14, 15, 16]
    assert [binding.name for binding in vjp.bindings[:3]] == ["w", "b", None]
    assert vjp.bindings[4].op == Prim("set_field", (9, 8), (("name", Word("b")),))
    assert print_program(program, {("Linear.apply.vjp", 8): "adjoint of %5 (add)"}) == FORWARD


@pytest.mark.parametrize("file", FILES)
def test_the_corpus_is_read_back(file: str) -> None:
    for mode in Mode:
        program = corpus(file, mode).program
        text = print_program(program)
        assert parse(text) == program
        assert print_program(parse(text)) == text
        assert parse(print_program(program, numbers=True)) == program
    found = differentiate(corpus(file, Mode.TRAINING).program)
    reasons = {(one.function, one.var): one.text for one in found.purposes}
    assert parse(print_program(found.program, reasons)) == found.program


FORMS: Final = """
const D : nat = 8
const H : nat = 2
const HD : nat = D / H
const L : nat = 3

dim B
dim T <= 16

type Acts = ℝ[batch: B, seq: T, model: D]

module Block {
  param w : ℝ[D, D]  init = normal(std = 0.02)
  fn apply(x : Acts, mask : bool[seq: T, seq2: T]) -> Acts =
    let q = split_heads(x · w)
    let a = softmax(axis seq2, ein[batch, heads, seq, seq2](q * q), where = mask)
    x + merge_heads(ein[batch, heads, seq, hd](a * q))
}

module Tower {
  use blocks : stack{L}(Block)
  fn apply(x : Acts) -> Acts = blocks.apply(x, causal_mask(seq: T))
}

fn last(x : Acts) -> ℝ[batch: B, model: D] = x[seq: -1]
fn pairs(x : ℝ[seq: T, pair: 2], c : ℝ[4, 3]) -> ℝ[seq: T, pair: 2] =
  let z = c[1..3]
  concat(axis pair, -x[pair: 1..2], x[pair: 0..1])
fn center(x : Acts) -> Acts = x - mean(axis model, x)
fn mixed(x : ℝ[a: 4, b: 6]) -> ℝ[24] = merge(axis a, axis b, x)
fn parted(x : ℝ[a: 4, b: 6]) -> ℝ[a: 4, c: 2, d: 3] = split(axis b, c: 2, d: 3, x)
fn bounded(x : ℝ[n: B]) -> ℝ[n: B] = clamp(x, (0 : ℝ), (1 : ℝ))
fn spot() -> idx[B][seq: B] = positions(seq: B)
fn halves(key : key, x : Acts) -> Acts uses Rand =
  let (k, _) = split_key(key)
  dropout(0.1, k, x^2)
"""
"""A program of every attribute that has a form of its own."""


def test_attributes_have_the_forms_of_the_specification(tmp_path: Path) -> None:
    program = from_source(tmp_path, {"forms.psk": FORMS}, Mode.TRAINING).program
    text = print_program(program)
    for line in (
        "= index seq: -1 x",
        "= slice pair: 0..1 x",
        "= concat pair %4, %5",
        "  z : ℝ[2, 3] = slice @-2: 1..3 c\n",
        "= mean axis model x",
        "= softmax axis seq2 %6, mask",
        "= ein[batch, heads, seq, seq2] q[batch, heads, seq, hd], q[batch, heads, seq2, hd]",
        "= split_heads 2x4 %4",
        "= merge_heads 2x4 %8",
        "= normal std=0.02 %2",
        "= split_key 3 %2",
        "= stack_params 3 %5, %7, %9",
        "= fold 3 Block.apply(stacked blocks; acc x; %2)",
        "= causal_mask seq: T",
        "= positions seq: B",
        "= merge a b x",
        "= split b c: 2, d: 3 x",
        "= max x, %2",
        "= dropout_mask %5, k, %6",
        "= pow 2 x",
    ):
        assert line in text
    assert parse(text) == program


def test_a_name_that_is_bound_again_prints_with_its_number() -> None:
    function = _function(("x",), ("x", "x", None, "y"))
    assert print_program(function) == (
        "fn f(x : ℝ[]) -> ℝ[] {\n"
        "  x%1 : ℝ[] = neg x\n"
        "  x%2 : ℝ[] = neg x%1\n"
        "  %3 : ℝ[] = neg x%2\n"
        "  y : ℝ[] = neg %3\n"
        "  return y\n"
        "}\n"
    )


def test_numbers_stand_beside_names_on_demand() -> None:
    text = print_program(_function(("x",), ("a", None)), {("f", 1): "the first"}, numbers=True)
    assert f"{'  a : ℝ[] = neg x':42}-- %1: the first\n  %2 : ℝ[] = neg a\n" in text


def _function(params: tuple[str, ...], bindings: tuple[str | None, ...]) -> Program:
    real = Real(SCALAR)
    first = len(params)
    made = tuple(
        Binding(first + place, name, real, Prim("neg", (first + place - 1,))) for place, name in enumerate(bindings)
    )
    function = Function("f", (), tuple(Param(name, real) for name in params), real, made, first + len(bindings) - 1)
    return Program((function,))


def test_what_the_types_do_not_imply_is_written_in_full() -> None:
    """Alignments and places other than those the typing finds, and attributes that no row has."""
    vector, matrix = Real(Shape((Axis(symbol("N")),))), Real(Shape((Axis(symbol("N"), "a"), Axis(symbol("N"), "b"))))
    params = (Param("v", vector), Param("m", matrix))
    whole = Align(False, (-2, -1))
    ops = (
        Prim("add", (1, 0), (("left", whole), ("right", Align(False, (-1,))))),
        Prim("add", (1, 0), (("left", whole), ("right", Align(False, (-2,))))),
        Prim("slice", (1,), (("s0", Select("b", -1, ZERO, ONE)),)),
        Prim("slice", (1,), (("s0", Select("b", -2, ZERO, ONE)),)),
        Prim("neg", (1,), (("axis", AxisName(None)),)),
        Prim("unheard", (0, 1)),
    )
    bindings = tuple(Binding(place + 2, None, matrix, op) for place, op in enumerate(ops))
    program = Program((Function("f", ("N",), params, matrix, bindings, 2),))
    text = print_program(program)
    assert [line.partition(" = ")[2] for line in text.splitlines()[1:7]] == [
        "add m, v",
        "add{left = lies(-2, -1), right = lies(-2)} m, v",
        "slice b: 0..1 m",
        "slice b@-2: 0..1 m",
        "neg{`axis` = axis} m",
        "unheard{} v, m",
    ]
    assert parse(text) == program


def test_modules_of_one_name_and_dimensions_of_the_file() -> None:
    one, other = ModuleRef("a.psk", "M"), ModuleRef("b.psk", "M")
    hidden = (("T", symbol("T")),)
    params = (
        Param("p", Params(Named(one, (), hidden))),
        Param("q", Params(Named(other, (symbol("D"),)))),
        Param("r", Params(Named(one, (), (("T", symbol("D")),)))),
        Param("n", Hyper(HyperKind.NAT)),
    )
    program = Program((Function("f", ("T", "D"), params, Hyper(HyperKind.NAT), (), 3),))
    text = print_program(program)
    assert text == (
        'module M in "a.psk" over T\n'
        'module M_2 = M in "b.psk"\n'
        "fn f{T D}(p : params M, q : params M_2{D}, r : params M{; T = D}, n : nat) -> nat {\n"
        "  return n\n"
        "}\n"
    )
    assert parse(text) == program


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("x", 1, "`fn` is expected"),
        ("fn f(x : nat) -> nat {\n  return x", 1, "the function does not end"),
        ("fn f(x : nat) -> nat {\n}", 2, "`return` is expected before"),
        ("fn f(x : nat) -> nat {\n  return y\n}", 2, "the variable `y` is not defined"),
        ("fn f(x : nat) -> nat {\n  y : nat = hyper_add x, x z\n  return y\n}", 2, "`,` is expected"),
        ("fn f(x : nat) -> nat {\n  y : number = x.0\n  return y\n}", 2, "a type is expected behind `number`"),
        ("fn f(x : nat) -> nat {\n  y : nat = hyper_ad x\n  return y\n}", 2, "there is no primitive `hyper_ad`"),
        ("fn f(x : params M) -> nat {\n  return x\n}", 1, "the module `M` is not in the table"),
        ("fn f(x : nat) -> nat {\n  y : nat = call g(x)\n  return y\n}", 2, "the function `g` is not in the program"),
        ("fn f(x : nat) -> nat {\n  y : nat = add x, x\n  return y\n}", 2, "do not follow from its operands' types"),
        ("fn f(x : ℝ[n: 2]) -> nat {\n  y : nat = index m: 0 x\n  return y\n}", 2, "`m` is no axis of the operand"),
        ("fn f(x : ℝ[n: 2 -> nat {", 1, "`,` is expected"),
        ("fn f(x : nat)", 1, "the header of a function ends with `{`"),
        ("module M", 1, "`in` is expected"),
    ],
)
def test_what_is_no_program(text: str, line: int, message: str) -> None:
    with pytest.raises(TextError) as error:
        parse(text)
    assert error.value.line == line
    assert message in error.value.message


def test_comments_begin_in_one_column() -> None:
    assert commented([("a", "one"), ("b", ""), ("c" * 50, "two")]) == [
        "a" + " " * 51 + "-- one",
        "b",
        "c" * 50 + "  -- two",
    ]
    assert commented([("a", "one"), ("c" * 200, "two")])[1] == "c" * 200 + "  -- two"
    assert commented([("a", "one"), ("c" * 200, "two")])[0].index("--") == 84
