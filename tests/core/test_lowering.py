"""Lowering: what each construct of the language becomes in the core."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from presk.cache.codec import struct_codec
from presk.core.ir import Call, Fold, Function, Prim, Program
from presk.core.lower import Mode
from presk.core.text import print_function, print_program
from presk.core.typetext import TypePrinter
from presk.core.unroll import unroll_program
from presk.prims.attrs import AxisNames
from presk.types.type import ModuleType
from tests.core.support import FILES, Lowered, corpus, from_source

SOURCE: Final = """
const L : nat = 3
const H : nat = 12
const HD : nat = 64
dim B
dim S
dim T

module Linear{In Out : dim} {
  param w : ℝ[In, Out]  init = xavier_uniform
  param b : ℝ[Out]      init = zeros
  fn apply(x : ℝ[..., In]) -> ℝ[..., Out] = x · w + b
}
module Pair{D : dim} {
  use l1 : Linear{D, D}
  use l2 : Linear{D, D}
  param s : ℝ[D]  init = normal(std = 0.02)
  param o : ℝ[D]  init = ones
  param z : ℝ[D]
  fn apply(x : ℝ[..., D]) -> ℝ[..., D] = l2.apply(l1.apply(x)) * s
}
module Shifted{D : dim} {
  use inner : Linear{D, D}
  fn apply(x : ℝ[..., D], shift : ℝ[D]) -> ℝ[..., D] = inner.apply(x) + shift
}
module Tower{D N : dim} {
  use blocks : stack{N}(Shifted{D})
  fn apply(x : ℝ[batch: B, D], shift : ℝ[D]) -> ℝ[batch: B, D] = blocks.apply(x, shift)
}
module High {
  use blocks : stack{L}(Shifted{8})
  fn apply(x : ℝ[batch: B, 8], shift : ℝ[8]) -> ℝ[batch: B, 8] = blocks.apply(x, shift)
}

fn outer(net : Pair{8}, θ : params net, x : ℝ[batch: B, 8]) -> ℝ[batch: B, 8] = net.apply(θ, x)
fn twice(θ : params Pair{8}, φ : params Pair{5}, x : ℝ[batch: B, 8], y : ℝ[batch: B, 5])
    -> (ℝ[batch: B, 8], ℝ[batch: B, 5]) =
  (Pair.apply(θ, x), Pair.apply(φ, y))
fn tall(θ : params Tower{8, L}, x : ℝ[batch: B, 8], shift : ℝ[8]) -> ℝ[batch: B, 8] = Tower.apply(θ, x, shift)
fn middle(x : ℝ[seq: T + S, 4]) -> ℝ[seq: T, 4] = x[seq: S..S + T]
fn cut(x : ℝ[seq: T + S, 4]) -> ℝ[seq: T, 4] = middle(x)
fn between(x : ℝ[4]) -> ℝ[4] = clamp(x, (0 : ℝ), (1 : ℝ))
fn scores(q : ℝ[seq: T, hd: S], k : ℝ[seq: T, hd: S]) -> ℝ[seq: T, seq2: T] = ein[seq, seq2](q * k)
fn heads(x : ℝ[seq: T, model: 768]) -> ℝ[heads: 12, seq: T, hd: 64] = split_heads(x)
fn scaled(s : f64, x : ℝ[4]) -> ℝ[4] = (s : ℝ) * x
fn along(x : ℝ[seq: T, model: 4]) -> ℝ[seq: T] = mean(axis model, softmax(axis seq, x))
fn drop(rate : f64, k : key, x : ℝ[4]) -> ℝ[4] uses Rand = dropout(rate, k, x)
fn slope(θ : params Pair{8}, x : ℝ[batch: B, 8], y : ℝ[batch: B, 8]) -> params Pair{8} =
  grad(λ φ. mean((Pair.apply(φ, x) - y)^2))(θ)
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Lowered:
    return from_source(tmp_path_factory.mktemp("lowering"), {"main.psk": SOURCE})


def text(functions: Mapping[str, Function], name: str) -> str:
    """A function as the text form prints it."""
    return print_function(functions[name], functions, TypePrinter())


def operations(functions: Mapping[str, Function], name: str) -> list[str]:
    """What its bindings are, without names and types."""
    lines = text(functions, name).splitlines()
    return [line.partition(" = ")[2] for line in lines if line.startswith("  ") and " = " in line and " : " in line]


# --- functions and dimensions -------------------------------------------------------------------------------------------


def test_functions_stay_generic_and_calls_say_for_which_dimensions(program: Lowered) -> None:
    """One function serves every instance of its module: no shape is expanded."""
    pairs = [name for name in program.functions if name.startswith("Pair.")]
    assert pairs == ["Pair.init", "Pair.apply"]
    assert text(program.functions, "Pair.apply").startswith("fn Pair.apply{D}(θ : params Pair{D}, x : ℝ[..., D]) -> ")
    assert operations(program.functions, "twice") == [
        "call Pair.apply{D = 8}(θ, x)",
        "call Pair.apply{D = 5}(φ, y)",
        "(%4, %5)",
    ]
    assert operations(program.functions, "Pair.apply")[1] == "call Linear.apply{In = D, Out = D}(l1, x)"


def test_every_call_of_the_corpus_gives_every_dimension_of_its_callee() -> None:
    for file in FILES:
        functions = corpus(file).functions
        for function in functions.values():
            for binding in function.bindings:
                if isinstance(binding.op, Call | Fold):
                    assert tuple(name for name, _ in binding.op.dims) == functions[binding.op.function].dims


# --- modules ------------------------------------------------------------------------------------------------------------


def test_the_tree_is_a_parameter_and_its_fields_are_read(program: Lowered) -> None:
    """A parameter is `θ.s`, a sub-module `θ.l1`, which its function takes as θ."""
    assert operations(program.functions, "Pair.apply") == [
        "θ.l1",
        "call Linear.apply{In = D, Out = D}(l1, x)",
        "θ.l2",
        "call Linear.apply{In = D, Out = D}(l2, %3)",
        "θ.s",
        "mul %5, s",
    ]


def test_a_tree_that_is_given_is_passed_as_it_is(program: Lowered) -> None:
    assert text(program.functions, "outer").startswith("fn outer{B}(θ : params Pair{8}, x : ℝ[batch: B, 8]) -> ")
    assert operations(program.functions, "outer") == ["call Pair.apply{D = 8}(θ, x)"]


def test_modules_leave_no_trace() -> None:
    for file in FILES:
        for function in corpus(file).functions.values():
            types = [param.type for param in function.params] + [one.type for one in function.bindings]
            assert not any(isinstance(one, ModuleType) for one in (*types, function.result)), function.name


def test_an_initializer_per_module(program: Lowered) -> None:
    """One `split_key` with a child for each field, in the order of declaration, whether it draws or not."""
    assert text(program.functions, "Pair.init") == (
        "fn Pair.init{D}(key : key) -> params Pair{D} {\n"
        "  %1 : (key, key, key, key, key) = split_key 5 key\n"
        "  %2 : key = %1.0\n"
        "  %3 : params Linear{D, D} = call Linear.init{In = D, Out = D}(%2)\n"
        "  %4 : key = %1.1\n"
        "  %5 : params Linear{D, D} = call Linear.init{In = D, Out = D}(%4)\n"
        "  %6 : key = %1.2\n"
        "  s : ℝ[D] = normal std=0.02 %6\n"
        "  %8 : key = %1.3\n"
        "  o : ℝ[D] = ones\n"
        "  %10 : key = %1.4\n"
        "  z : ℝ[D] = zeros\n"
        "  %12 : params Pair{D} = params(%3, %5, s, o, z)\n"
        "  return %12\n"
        "}\n"
    )
    assert "xavier_uniform %2" in operations(program.functions, "Linear.init")


# --- stacks -------------------------------------------------------------------------------------------------------------


def test_a_stack_is_a_fold_of_any_length(program: Lowered) -> None:
    """The tree is stacked, the first argument the accumulator, the others are the same in every iteration."""
    assert operations(program.functions, "Tower.apply") == [
        "θ.blocks",
        "fold N Shifted.apply(stacked blocks; acc x; shift)",
    ]
    assert operations(program.functions, "High.apply")[1] == "fold 3 Shifted.apply{D = 8}(stacked blocks; acc x; shift)"


def test_the_size_of_a_program_does_not_depend_on_the_length(tmp_path: Path) -> None:
    """But for what a stack starts from: `stack_params` takes as many trees."""
    texts = []
    for length in (2, 12):
        folder = tmp_path / str(length)
        folder.mkdir()
        made = from_source(folder, {"main.psk": SOURCE.replace("const L : nat = 3", f"const L : nat = {length}")})
        kept = [one for one in made.program.functions if one.name != "High.init"]
        assert len(kept) == len(made.program.functions) - 1
        texts.append(print_program(Program(tuple(kept))).splitlines())
    assert len(texts[0]) == len(texts[1]) > 50


def test_unrolling_gives_a_call_for_each_slice(program: Lowered) -> None:
    unrolled = {function.name: function for function in unroll_program(program.program).functions}
    slices = [f"slice_params {i} blocks" for i in range(3)]
    found = operations(unrolled, "High.apply")
    assert [one for one in found if one.startswith("slice_params")] == slices
    calls = [one for one in found if one.startswith("call")]
    assert [one.partition("(")[0] for one in calls] == ["call Shifted.apply{D = 8}"] * 3
    assert all(one.endswith(", shift)") for one in calls)
    # A length that is not known stays a loop.
    assert operations(unrolled, "Tower.apply") == operations(program.functions, "Tower.apply")


STACKED: Final = """
const L : nat = 2
module Block { param w : ℝ[4]  init = normal(std = 1.0)
  fn apply(x : ℝ[4]) -> ℝ[4] = x * w }
module Tower { use blocks : stack{L}(Block)
  fn apply(x : ℝ[4]) -> ℝ[4] = blocks.apply(x) }
"""


@pytest.mark.parametrize(
    ("length", "expected"),
    [
        (
            2,
            [
                "split_key 1 key",
                "%1.0",
                "split_key 2 %2",
                "%3.0",
                "call Block.init(%4)",
                "%3.1",
                "call Block.init(%6)",
                "stack_params 2 %5, %7",
                "params(%8)",
            ],
        ),
        # Nothing is stacked: what there is of it is in the type.
        (0, ["split_key 1 key", "%1.0", "stack_params 0", "params(%3)"]),
    ],
)
def test_initializers_of_stacks(tmp_path: Path, length: int, expected: list[str]) -> None:
    source = STACKED.replace("const L : nat = 2", f"const L : nat = {length}")
    made = from_source(tmp_path, {"main.psk": source})
    found = operations(made.functions, "Tower.init")
    if length == 0:  # an empty stack may or may not split a key for no child
        found = [one for one in found if not one.startswith("split_key 0")]
        found = [one if not one.startswith("params(") else "params(%3)" for one in found]
    assert found == expected


# --- expressions --------------------------------------------------------------------------------------------------------


def test_a_lambda_is_a_function_whose_captured_variables_come_first(program: Lowered) -> None:
    lifted = program.functions["slope.lambda0"]
    assert [param.name for param in lifted.params] == ["x", "y", "φ"]
    assert operations(program.functions, "slope") == ["closure slope.lambda0[x, y]", "grad %3", "apply %4(θ)"]


def test_reductions_name_their_axes(program: Lowered) -> None:
    assert operations(program.functions, "along") == ["softmax axis seq x", "mean axis model %1"]


def test_bounds_of_slices_stay_dimensions(program: Lowered) -> None:
    assert operations(program.functions, "middle") == ["slice seq: S..S + T x"]
    assert operations(program.functions, "cut") == ["call middle{S = S, T = T}(x)"]


def test_clamp_is_a_minimum_of_a_maximum(program: Lowered) -> None:
    assert operations(program.functions, "between")[-2:] == ["max x, %2", "min %5, %4"]


def test_ein_has_the_names_after_renaming(program: Lowered) -> None:
    (binding,) = program.functions["scores"].bindings
    assert isinstance(binding.op, Prim)
    attrs = dict(binding.op.attrs)
    assert {name: attrs[name] for name in ("in0", "in1", "out")} == {
        "in0": AxisNames(("seq", "hd")),
        "in1": AxisNames(("seq2", "hd")),
        "out": AxisNames(("seq", "seq2")),
    }


def test_heads_carry_their_constants(program: Lowered) -> None:
    assert operations(program.functions, "heads") == ["split_heads 12x64 x"]


def test_a_number_is_injected(program: Lowered) -> None:
    assert "  %2 : ℝ[] = real s\n" in text(program.functions, "scaled")
    assert operations(program.functions, "scaled") == ["real s", "mul %2, x"]


def test_dropout_in_both_readings(program: Lowered, tmp_path: Path) -> None:
    """At inference it is its operand: no mask, no product. In training it is the product with the mask."""
    drawn = from_source(tmp_path, {"main.psk": SOURCE}, Mode.TRAINING)
    assert operations(drawn.functions, "drop") == ["dropout_mask rate, k, x", "mul x, %3"]
    assert operations(program.functions, "drop") == []
    assert program.functions["drop"].returns == 2
    for file in FILES:
        names = {
            binding.op.name
            for function in corpus(file).functions.values()
            for binding in function.bindings
            if isinstance(binding.op, Prim)
        }
        assert "dropout_mask" not in names


# --- values -------------------------------------------------------------------------------------------------------------


def encoded(made: Program) -> bytes:
    """A program as bytes."""
    found: Any = struct_codec(Program).encode(made)
    assert isinstance(found, bytes)
    return found


def test_one_program_is_one_value(program: Lowered, tmp_path: Path) -> None:
    """Made twice, behind other programs, it is the same value with the same encoding: no name is counted by the process."""
    from_source(tmp_path, {"main.psk": STACKED})
    again = from_source(tmp_path, {"main.psk": SOURCE})
    assert again.program == program.program
    assert encoded(again.program) == encoded(program.program)


def test_places_are_no_part_of_it(program: Lowered, tmp_path: Path) -> None:
    """Comments, blanks and another layout change no value of the core."""
    moved = SOURCE.replace("\nfn ", "\n\n-- Another comment.\nfn ").replace("x · w + b", "x  ·  w   -- so\n    + b")
    again = from_source(tmp_path, {"main.psk": moved})
    assert again.program == program.program
    assert encoded(again.program) == encoded(program.program)
