"""Nests of any shape, drawn at random; and the same bits for every level of machine."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from presk.kernels.ir import Elem
from presk.kernels.layout import Layout, Split
from presk.kernels.llvm.blobs import compile_kernel
from presk.kernels.nest import BF16, F32, F64, Kind, Launch, Operand
from presk.kernels.nests.map import Steps
from presk.kernels.nests.table import group, lower
from presk.kernels.targets import LEVELS
from presk.prims.attrs import Align, AxisName, Word
from tests.kernels.nestmath import reduced
from tests.kernels.nestrun import LANES, TARGET, Array, execute, launched, operand, run, same, use_of


@st.composite
def lies(draw):
    """A shape, and axes of it in any order."""
    shape = tuple(draw(st.lists(st.integers(0, 5), min_size=0, max_size=4)))
    places = draw(st.permutations(range(-len(shape), 0)))
    return shape, tuple(places[: draw(st.integers(0, len(shape)))])


def layouts():
    return st.builds(
        Layout, lanes=st.sampled_from(LANES), split=st.none() | st.builds(Split, st.integers(0, 3), st.integers(2, 3))
    )


def at(array: Array, places) -> Array:
    """An operand that lies so, with axes of length 1 where it has none."""
    order = sorted(range(len(places)), key=lambda one: places[one])
    return array.transpose(order)


@settings(max_examples=120, deadline=None)
@given(lies(), layouts(), st.booleans())
def test_any_operand_in_any_result(lie, layout: Layout, first: bool) -> None:
    shape, places = lie
    x = np.arange(float(np.prod(shape, dtype=int))).reshape(shape) + 0.5
    y = np.arange(float(np.prod([shape[place] for place in places], dtype=int))) * 1000.0
    y = y.reshape([shape[place] for place in places])
    spread = at(y, places).reshape([size if place - len(shape) in places else 1 for place, size in enumerate(shape)])
    whole, part = Align(False, tuple(range(-len(shape), 0))), Align(False, places)
    attrs = {"left": part, "right": whole} if first else {"left": whole, "right": part}
    operands = [operand(y), operand(x)] if first else [operand(x), operand(y)]
    launch = launched("sub", use_of(operands, operand(x), F64, attrs))
    given_ = [y, x] if first else [x, y]
    inputs = [given_[place].reshape(-1) for place in launch.inputs]
    lowered = lower(launch.nest, layout, TARGET)
    workers = 1 if layout.split is None else layout.split.workers
    found = execute(lowered, inputs, workers=workers)[0]
    same(found, (spread - x if first else x - spread).reshape(-1))


@settings(max_examples=120, deadline=None)
@given(lies(), layouts())
def test_any_axes_are_summed(lie, layout: Layout) -> None:
    shape, places = lie
    x = np.random.default_rng(sum(shape)).normal(size=shape)
    kept = [place + len(shape) for place in places]
    expected = reduced(x, [axis for axis in range(len(shape)) if axis not in kept])
    expected = expected.transpose([sorted(kept).index(axis) for axis in kept])
    if len(places) == len(shape):
        expected = x.transpose(kept)
    t = operand(expected)
    launch = launched("sum_to", use_of([operand(x), t], t, F64, {"align": Align(False, places)}))
    workers = 1 if layout.split is None else layout.split.workers
    found = execute(lower(launch.nest, layout, TARGET), [x.reshape(-1)], workers=workers)[0]
    same(found, expected.reshape(-1))


def nests() -> list[tuple[str, Launch, list[Array]]]:
    """A few nests, and what they read."""
    rng = np.random.default_rng(11)
    x = rng.normal(size=(6, 21)).astype(np.float32)
    shape = operand(x, Elem.F32, names=("n", "k"))
    whole = Align(False, (-2, -1))
    steps: Steps = (("gelu", (0,), {}), ("mul", (1, 1), {"left": whole, "right": whole}), ("tanh", (2,), {}))
    half = Operand(Kind.REAL, Elem.BF16, (6, 21), ("n", "k"))
    key = Operand(Kind.KEY, Elem.I32, (), ())
    words = rng.integers(-(1 << 31), 1 << 31, size=8).astype(np.int32)
    bits = rng.integers(0, 1 << 16, size=126).astype(np.uint16)
    axis = {"axis": AxisName("k")}
    return [
        ("group", group([shape], steps, shape, F32, {}), [x.reshape(-1)]),
        ("bf16", group([half], steps, half, BF16, {}), [bits]),
        ("sum", launched("sum", use_of([shape], operand(x[:, 0], Elem.F32), F32, axis)), [x.reshape(-1)]),
        ("softmax", launched("softmax", use_of([shape], shape, F32, axis)), [x.reshape(-1)]),
        ("normal", launched("normal", use_of([key], operand(np.zeros(50)), F64, {"std": Word("0.5")})), [words]),
    ]


@pytest.mark.parametrize(("launch", "inputs"), [pytest.param(*rest, id=name) for name, *rest in nests()])
def test_every_level_of_machine_gives_the_same_bits(launch: Launch, inputs: list[Array]) -> None:
    expected = run(launch.nest, inputs, lanes=1)
    for level in LEVELS.values():
        lowered = lower(launch.nest, Layout(), level.target)
        # On the interpreter; natively, where this machine can.
        same(execute(lowered, inputs)[0], expected)
        for step in lowered.steps:
            assert compile_kernel(step.kernel, level).code
    # Wherever the memory begins.
    for shift in (1, 3):
        same(execute(lower(launch.nest, Layout(), TARGET), inputs, native=True, shift=shift)[0], expected)
    lowest = LEVELS["x86-64"]
    same(execute(lower(launch.nest, Layout(), lowest.target), inputs, native=True, level=lowest)[0], expected)
