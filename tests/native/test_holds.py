"""What holds of native results: bits that depend on neither fusion nor storing, neither the batch nor the length; masks that hide."""

from functools import cache

import numpy as np
import pytest

from presk.ad.pipeline import Remat
from presk.core.ir import Function, Program
from presk.core.lower import Mode
from presk.core.program import CoreProgram
from presk.exact.values import Index, Mask, Real, Value
from tests.ad.support import corpus, lowered
from tests.native.support import Tensors, after, driver_of, given_to, native, same, traced

SIZES = {"V": 11, "D": 8, "H": 2, "L": 2, "C": 8}
TYPES = ("f32", "bf16", "f64")


@cache
def gpt(type_: str, remat: Remat = Remat.STORE) -> tuple[CoreProgram, Program]:
    """The course GPT, small."""
    given = corpus("nlp/05_gpt.psk", Mode.INFERENCE, **SIZES)
    return given, after(given, type_, remat)


def function_of(program: Program, name: str) -> Function:
    """A function by name."""
    return next(one for one in program.functions if one.name == name)


def run(
    type_: str, entry: str, args: list[Value], dims: dict[str, int], remat: Remat = Remat.STORE, *, fused: bool = True
) -> Tensors:
    """An entry of the GPT."""
    given, program = gpt(type_, remat)
    driver = driver_of(traced(program, given.headers, entry, dims, type_, fused=fused))
    return native(driver, function_of(program, entry), args)


def arguments(type_: str, entry: str, **dims: int) -> list[Value]:
    """Arguments of an entry of the GPT."""
    given, program = gpt(type_)
    return given_to(function_of(program, entry), given.headers, dims, type_)


@pytest.mark.parametrize("type_", TYPES)
def test_neither_storing_nor_fusion_changes_a_bit(type_: str) -> None:
    dims = {"B": 2, "T": 5}
    args = arguments(type_, "loss_grad", **dims)
    stored = run(type_, "loss_grad", args, dims)
    assert same(stored, run(type_, "loss_grad", args, dims, Remat.RECOMPUTE))
    if type_ == "bf16":
        return  # what a group holds is not rounded there, as the record says
    assert same(stored, run(type_, "loss_grad", args, dims, fused=False))


def parts(args: list[Value], rows: slice, columns: slice) -> list[Value]:
    """Some rows and columns of the one argument that has them."""
    return [
        Index(np.ascontiguousarray(arg.data[rows, columns]), arg.bound) if isinstance(arg, Index) else arg
        for arg in args
    ]


@pytest.mark.parametrize("type_", ["f32", "bf16"])
def test_a_row_of_a_batch_is_the_row_alone(type_: str) -> None:
    batch = 33 if type_ == "f32" else 3
    args = arguments(type_, "GPT.apply", B=batch, T=5)
    (whole,) = run(type_, "GPT.apply", args, {"B": batch, "T": 5}).values()
    for row in {0, 1, batch - 1}:
        (alone,) = run(type_, "GPT.apply", parts(args, slice(row, row + 1), slice(None)), {"B": 1, "T": 5}).values()
        assert np.array_equal(whole[row], alone[0])
    (two,) = run(type_, "GPT.apply", parts(args, slice(1, 3), slice(None)), {"B": 2, "T": 5}).values()
    assert np.array_equal(whole[1:3], two)


@pytest.mark.parametrize("type_", ["f32", "f64"])
def test_a_beginning_of_a_sequence_is_that_of_the_longer_one(type_: str) -> None:
    args = arguments(type_, "GPT.apply", B=2, T=8)
    (whole,) = run(type_, "GPT.apply", args, {"B": 2, "T": 8}).values()
    for length in (1, 4, 7):
        (short,) = run(type_, "GPT.apply", parts(args, slice(None), slice(length)), {"B": 2, "T": length}).values()
        assert np.array_equal(whole[:, :length], short)


MASKED = """
dim N
dim M
fn f(x : ℝ[n: N, m: M], keep : bool[n: N, m: M]) -> ℝ[n: N, m: M] = softmax(axis m, x, where = keep)
fn g(keep : bool[n: N, m: M], y : ℝ[n: N, m: M], x : ℝ[n: N, m: M]) -> ℝ[n: N, m: M] =
  grad(λ x. sum(y * softmax(axis m, x, where = keep)))(x)
"""


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("fill", [np.nan, np.inf, -np.inf, 3e38])
def test_what_a_mask_refuses_does_not_matter(type_: str, fill: float) -> None:
    given = lowered(MASKED)
    program = after(given, type_)
    rng = np.random.default_rng(7)
    for length in (1, 5, 16, 37):
        dims = {"N": 4, "M": length}
        keep = rng.random((4, length)) < 0.5
        keep[:, rng.integers(length)] = True
        x, y = (rng.integers(-40, 40, (4, length)) / 16.0 for _ in range(2))
        for entry in ("f", "g"):
            found = []
            for hidden in (0.0, fill):
                values: dict[str, Value] = {
                    "x": Real(np.where(keep, x, hidden).astype(object)),
                    "keep": Mask(keep),
                    "y": Real(y.astype(object)),
                }
                function = function_of(program, entry)
                driver = driver_of(traced(program, given.headers, entry, dims, type_))
                found.append(native(driver, function, [values[param.name] for param in function.params]))
            assert same(*found)
            (array,) = found[0].values()
            assert np.isfinite(array).all() and (array[~keep] == 0).all()
