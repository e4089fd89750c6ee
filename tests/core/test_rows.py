"""The table of core primitives: every column for every row.

`USES` holds a well-typed use of each primitive, written in the text form. A row without one would fail here, and so would a row of
another part's table (derivatives) that this table has not.
"""

import ast
from pathlib import Path
from types import MappingProxyType
from typing import Final

import pytest
from msgspec.structs import replace

import presk.core
from presk.ad.rules.table import DERIVATIVES
from presk.core.ir import Prim, Program
from presk.core.parse import parse
from presk.core.text import print_program
from presk.core.verify import verify_function
from presk.elab.entities import ModuleHeader
from presk.prims.attrs import Attrs
from presk.prims.core_rows import CORE, CoreRow
from presk.prims.regularity import Class
from presk.prims.table import BUILTINS
from presk.types.dim import symbol
from presk.types.trees import Init, ParamField
from presk.types.type import Axis, Hyper, HyperKind, Index, ModuleRef, Real, Shape, Type

REFERENCE: Final = ModuleRef("m.psk", "M")
HEADERS: Final = MappingProxyType(
    {
        REFERENCE: ModuleHeader(
            REFERENCE,
            ("D",),
            (),
            (),
            (ParamField("w", Real(Shape((Axis(symbol("D"), "a"),))), Init("zeros")),),
            (),
        )
    }
)

VECTOR: Final = "x : ℝ[batch: B, model: D]"
TWO: Final = f"{VECTOR}, y : ℝ[model: D]"
TREE: Final = "θ : params M{D}"
STACK: Final = "s : params stack{3}(M{D}), θ : params M{D}, i : nat"
NUMBERS: Final = "n : nat, k : int, t : f64"

USES: Final = MappingProxyType(
    {
        **{
            name: (VECTOR, "ℝ[batch: B, model: D]", f"{name} x")
            for name in (
                *("neg", "gelu", "relu", "exp", "tanh", "sqrt", "abs", "log", "sigmoid", "sin", "cos"),
                *("gelu'", "heaviside", "sign", "zeros_like"),
            )
        },
        **{name: (TWO, "ℝ[batch: B, model: D]", f"{name} x, y") for name in ("add", "sub", "mul", "div", "max", "min")},
        "pow": (VECTOR, "ℝ[batch: B, model: D]", "pow 3 x"),
        "powv": (f"{VECTOR}, n : nat", "ℝ[batch: B, model: D]", "powv x, n"),
        "real": ("t : idx[D][seq: T]", "ℝ[seq: T]", "real t"),
        "sum_squares": (TREE, "ℝ[]", "sum_squares θ"),
        "sum": (VECTOR, "ℝ[]", "sum x"),
        "mean": (VECTOR, "ℝ[batch: B]", "mean axis model x"),
        "broadcast_like": (f"ct : ℝ[], {VECTOR}", "ℝ[batch: B, model: D]", "broadcast_like ct, x"),
        "mean_vjp": (f"ct : ℝ[batch: B], {VECTOR}", "ℝ[batch: B, model: D]", "mean_vjp axis model ct, x"),
        "sum_to": (TWO, "ℝ[model: D]", "sum_to x, y"),
        "softmax": (f"{VECTOR}, m : bool[model: D]", "ℝ[batch: B, model: D]", "softmax axis model x, m"),
        "cross_entropy": ("x : ℝ[seq: T, D], y : idx[D][seq: T]", "ℝ[seq: T]", "cross_entropy x, y"),
        "cross_entropy_vjp": (
            "x : ℝ[seq: T, D], y : idx[D][seq: T], ct : ℝ[seq: T]",
            "ℝ[seq: T, D]",
            "cross_entropy_vjp x, y, ct",
        ),
        "dot": ("x : ℝ[..., D], w : ℝ[D, T]", "ℝ[..., T]", "dot x, w"),
        "dot_vjp_l": ("ct : ℝ[..., T], w : ℝ[D, T]", "ℝ[..., model: D]", "dot_vjp_l ct, w"),
        "dot_vjp_r": ("x : ℝ[..., D], ct : ℝ[..., T]", "ℝ[D, out: T]", "dot_vjp_r x, ct"),
        "ein": (
            "q : ℝ[seq: T, hd: D], k : ℝ[seq: T, hd: D]",
            "ℝ[seq: T, seq2: T]",
            "ein[seq, seq2] q[seq, hd], k[seq2, hd]",
        ),
        "embed": ("w : ℝ[D, emb: 4], t : idx[D][seq: T]", "ℝ[seq: T, emb: 4]", "embed w, t"),
        "embed_vjp": (
            "t : idx[D][seq: T], ct : ℝ[seq: T, emb: 4], w : ℝ[D, emb: 4]",
            "ℝ[D, emb: 4]",
            "embed_vjp t, ct, w",
        ),
        "one_hot": ("t : idx[D][seq: T]", "ℝ[seq: T, D]", "one_hot t"),
        "argmax": (VECTOR, "idx[D][batch: B]", "argmax x"),
        "sample": (f"key : key, {VECTOR}", "idx[D][batch: B]", "sample key, x"),
        "positions": ("", "idx[T][seq: T]", "positions seq: T"),
        "causal_mask": ("", "bool[seq: T, seq2: T]", "causal_mask seq: T"),
        "merge": ("x : ℝ[a: 2, b: D]", "ℝ[2*D]", "merge a b x"),
        "split": ("x : ℝ[a: 2*D]", "ℝ[b: 2, c: D]", "split a b: 2, c: D x"),
        "reshape_like": ("ct : ℝ[2*D], x : ℝ[a: 2, b: D]", "ℝ[a: 2, b: D]", "reshape_like ct, x"),
        "split_heads": ("x : ℝ[seq: T, model: 12]", "ℝ[heads: 3, seq: T, hd: 4]", "split_heads 3x4 x"),
        "merge_heads": ("x : ℝ[heads: 3, seq: T, hd: 4]", "ℝ[seq: T, 12]", "merge_heads 3x4 x"),
        "concat": ("x : ℝ[seq: T], y : ℝ[seq: 2]", "ℝ[seq: T + 2]", "concat seq x, y"),
        "slice": ("x : bool[seq: T + 1, 4]", "bool[seq: T, 2]", "slice seq: 0..T, @-1: 1..3 x"),
        "index": ("x : idx[D][seq: T, 4]", "idx[D][4]", "index seq: -1 x"),
        "slice_vjp": (
            "ct : ℝ[seq: T], x : ℝ[seq: T + 1]",
            "ℝ[seq: T + 1]",
            "slice_vjp seq: 1..T + 1 ct, x",
        ),
        "scatter_index": ("ct : ℝ[], x : ℝ[seq: T]", "ℝ[seq: T]", "scatter_index seq: 0 ct, x"),
        "retag": ("x : ℝ[D]", "ℝ[model: D]", "retag x"),
        "zeros": ("", "(params M{D}, key)", "zeros"),
        "ones": ("", "ℝ[D]", "ones"),
        "stack_zero": ("", "stack{3}(key)", "stack_zero"),
        "pi": ("", "ℝ[]", "pi"),
        "normal": ("key : key", "ℝ[D]", "normal std=0.02 key"),
        "xavier_uniform": ("key : key", "ℝ[D]", "xavier_uniform key"),
        "dropout_mask": (f"rate : f64, key : key, {VECTOR}", "ℝ[batch: B, model: D]", "dropout_mask rate, key, x"),
        "split_key": ("key : key", "(key, key, key)", "split_key 3 key"),
        "set_field": (f"{TREE}, v : ℝ[a: D]", "params M{D}", "set_field w θ, v"),
        "set_elem": ("p : (ℝ[], key), v : key", "(ℝ[], key)", "set_elem 1 p, v"),
        "slice_params": (STACK, "params M{D}", "slice_params 2 s"),
        "scatter_params": (STACK, "params stack{3}(M{D})", "scatter_params 0 θ, s"),
        "stack_params": (TREE, "params stack{2}(M{D})", "stack_params 2 θ, θ"),
        "set_slice": (STACK, "params stack{3}(M{D})", "set_slice s, θ, i"),
        "get_slice": (STACK, "params M{D}", "get_slice s, i"),
        "hyper_add": (NUMBERS, "int", "hyper_add n, k"),
        "hyper_mul": (NUMBERS, "nat", "hyper_mul n, n"),
        "hyper_sub": (NUMBERS, "int", "hyper_sub n, n"),
        "hyper_div": (NUMBERS, "f64", "hyper_div t, n"),
        "hyper_neg": (NUMBERS, "int", "hyper_neg n"),
        "hyper_pow": (NUMBERS, "f64", "hyper_pow t, n"),
        **{f"hyper_{name}": (NUMBERS, "bool", f"hyper_{name} n, k") for name in ("eq", "le", "ge", "lt", "gt")},
    }
)

ROWS: Final = pytest.mark.parametrize("row", CORE.values(), ids=lambda row: row.name)


def use(row: CoreRow) -> Program:
    """The use of a row, as a function."""
    params, result, op = USES[row.name]
    table = 'module M in "m.psk"\n'
    return parse(f"{table}fn f{{B D T}}({params}) -> {result} {{\n  value : {result} = {op}\n  return value\n}}\n")


def findings(program: Program) -> list[str]:
    """What the verifier says of the one function."""
    return [one.text for one in verify_function(program.functions[0], {}, HEADERS, after="a test")]


def changed(program: Program, args: tuple[int, ...] | None = None, attrs: Attrs | None = None) -> Program:
    """The program with other operands or attributes."""
    (function,) = program.functions
    (binding,) = function.bindings
    assert isinstance(binding.op, Prim)
    op = Prim(
        binding.op.name, args if args is not None else binding.op.args, attrs if attrs is not None else binding.op.attrs
    )
    return Program((replace(function, bindings=(replace(binding, op=op),)),))


def test_there_is_a_use_of_every_row() -> None:
    assert sorted(USES) == sorted(CORE)


def test_other_tables_have_the_same_names() -> None:
    assert sorted(DERIVATIVES) == sorted(CORE)


@ROWS
def test_typing(row: CoreRow) -> None:
    """The use is typed; one operand more or less than the row takes is not, nor is a use on a function value."""
    program = use(row)
    assert findings(program) == []
    (binding,) = program.functions[0].bindings
    assert isinstance(binding.op, Prim)
    args = binding.op.args
    assert row.fewest <= len(args) <= row.most
    if len(args) == row.most:
        assert findings(changed(program, args=(*args, 0))) != []
    if args and len(args) == row.fewest:
        assert findings(changed(program, args=args[1:])) != []


@ROWS
def test_spelling(row: CoreRow) -> None:
    """The use is written as it was read, in the short form; with its attributes taken away it is still written, and read."""
    program = use(row)
    op = USES[row.name][2]
    assert f" = {op}\n" in print_program(program)
    bare = changed(program, attrs=())
    assert parse(print_program(bare)) == bare


DISC: Final = MappingProxyType(
    {
        "argmax": (Class.DISC,),
        "sample": (Class.DISC, Class.DISC),
        "one_hot": (Class.DISC,),
        "real": (Class.DISC,),
        "embed": (Class.SMOOTH, Class.DISC),
        "embed_vjp": (Class.DISC, Class.SMOOTH, Class.SMOOTH),
        "cross_entropy": (Class.SMOOTH, Class.DISC),
        "cross_entropy_vjp": (Class.SMOOTH, Class.DISC, Class.SMOOTH),
        "softmax": (Class.SMOOTH, Class.DISC),
        "dropout_mask": (Class.DISC, Class.DISC, Class.SMOOTH),
        "heaviside": (Class.DISC,),
        "sign": (Class.DISC,),
        **dict.fromkeys(("normal", "xavier_uniform", "split_key"), (Class.DISC,)),
        **dict.fromkeys((f"hyper_{name}" for name in ("eq", "le", "ge", "lt", "gt")), (Class.DISC, Class.DISC)),
        **dict.fromkeys(("relu", "abs"), (Class.CONTINUOUS,)),
        **dict.fromkeys(("max", "min"), (Class.CONTINUOUS, Class.CONTINUOUS)),
    }
)
"""The classes that the language states, with those of draws and comparisons; everything else is C∞."""


@ROWS
def test_regularity(row: CoreRow) -> None:
    (function,) = use(row).functions
    op = function.bindings[0].op
    assert isinstance(op, Prim)
    types: tuple[Type, ...] = tuple(function.params[arg].type for arg in op.args)
    assert row.regularity(types) == DISC.get(row.name, (Class.SMOOTH,) * len(types))


def test_a_number_is_injected_smoothly() -> None:
    assert CORE["real"].regularity((Hyper(HyperKind.NAT),)) == (Class.SMOOTH,)
    assert CORE["real"].regularity((Index(symbol("N")),)) == (Class.DISC,)


def test_what_draws() -> None:
    assert {name for name, row in CORE.items() if row.draws} == {
        *("sample", "dropout_mask", "split_key", "normal", "xavier_uniform")
    }
    assert {name for name, row in BUILTINS.items() if row.draws} == {"sample", "dropout", "split_key"}


@ROWS
def test_a_substitute_is_proposed_where_a_program_can_jump(row: CoreRow) -> None:
    """E3001 may name any primitive that a program can write and that is Disc in an operand; adjoints and numbers stand in none."""
    (function,) = use(row).functions
    op = function.bindings[0].op
    assert isinstance(op, Prim)
    types = tuple(function.params[arg].type for arg in op.args)
    written = row.written if row.written is not None else row.name
    jumps = Class.DISC in row.regularity(types) and (written in BUILTINS or row.draws)
    assert (row.substitute is not None) is jumps


PASSES: Final = ("core", "ad")


def compared(source: str) -> set[str]:
    """The strings that a module compares something with, or matches."""
    found: list[ast.expr] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare):
            for side in (node.left, *node.comparators):
                found += side.elts if isinstance(side, ast.Tuple | ast.List | ast.Set) else [side]
        elif isinstance(node, ast.MatchValue):
            found.append(node.value)
    return {one.value for one in found if isinstance(one, ast.Constant) and isinstance(one.value, str)}


def test_no_pass_compares_the_name_of_a_primitive() -> None:
    """L268: what a pass has to know of a primitive, it asks of a column."""
    assert compared("a == 'x' or b in ('y', z)\nmatch c:\n  case 'w': pass\n") == {"x", "y", "w"}
    root = Path(presk.core.__file__).parents[1]
    modules = [path for folder in PASSES for path in (root / folder).rglob("*.py")]
    assert len(modules) > 40
    for path in modules:
        assert compared(path.read_text("utf-8")) & (set(CORE) | set(BUILTINS)) == set(), path


def test_classes_are_ordered_and_shown() -> None:
    assert [str(one) for one in sorted(Class)] == ["C∞", "C⁰⁺", "Disc"]
