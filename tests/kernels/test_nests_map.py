"""Maps: elementwise primitives and fusion groups, against numpy in the same type."""

import math
from itertools import permutations

import numpy as np
import pytest
from msgspec.structs import replace

from presk.core.fusion import ELEMENTWISE
from presk.kernels.interpret import interpret
from presk.kernels.ir import Elem
from presk.kernels.layout import Layout
from presk.kernels.nest import BF16, F32, F64, Arith, Kind, Launch, Operand, View
from presk.kernels.nests.map import Map, Steps, may_overwrite
from presk.kernels.nests.table import group, lower, rule
from presk.prims.attrs import Align, AxisName, Length
from presk.types.dim import constant
from tests.kernels.nestrun import (
    ARITHS,
    TARGET,
    decode,
    encode,
    everywhere,
    launched,
    operand,
    run,
    same,
    use_of,
)

SPECIAL = (math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, 1e-40, 1.5, -2.0, 1e300)


def whole(rank: int) -> Align:
    return Align(False, tuple(range(-rank, 0)))


def two(name, x, y, left, right, shape, arith=F64):
    out = Operand(Kind.REAL, arith.storage, shape, (None,) * len(shape))
    operands = [operand(x, arith.storage), operand(y, arith.storage)]
    return launched(name, use_of(operands, out, arith, {"left": left, "right": right}))


def inputs(launch: Launch, *given):
    return [given[place] for place in launch.inputs]


@pytest.mark.parametrize("arith", ARITHS, ids=str)
@pytest.mark.parametrize("axes", [(), (-1,), (-2,), (-3,), (-3, -1), (-1, -2), (-2, -3), (-1, -3, -2), (-1, -2, -3)])
def test_an_operand_lies_in_the_result_in_any_way(arith: Arith, axes) -> None:
    shape = (3, 4, 7)
    rng = np.random.default_rng(len(axes))
    x = rng.normal(size=shape)
    y = rng.normal(size=[shape[axis] for axis in axes])
    launch = two("sub", x, y, whole(3), Align(False, axes), shape, arith)
    ex, ey = encode(x, arith.storage), encode(y, arith.storage)
    found = everywhere(launch.nest, inputs(launch, ex, ey))
    # numpy's own broadcasting: y's axes are put in the result's order, with axes of length 1 between.
    order = sorted(range(len(axes)), key=lambda place: axes[place])
    spread = decode(ey, arith.storage).reshape(y.shape).transpose(order)
    spread = spread.reshape([shape[axis] if axis in axes else 1 for axis in (-3, -2, -1)])
    expected = decode(ex, arith.storage).reshape(shape) - spread
    same(found, encode(expected, arith.storage))


def test_both_operands_may_be_smaller_than_their_result_along_the_prefix() -> None:
    x, y = np.arange(30.0).reshape(2, 3, 5), np.arange(10.0).reshape(2, 5)
    launch = two("add", x, y, Align(True, (-2, -1)), Align(True, (-1,)), (2, 3, 5))
    found = everywhere(launch.nest, inputs(launch, encode(x, Elem.F64), encode(y, Elem.F64)))
    same(found, (x + y[:, None, :]).reshape(-1))


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 19])
def test_special_values_in_every_lane_and_remainder(size: int) -> None:
    def larger(x, y):
        return x if math.isnan(x) or x > y else y

    def smaller(x, y):
        return x if math.isnan(x) or x < y else y

    for shift in range(len(SPECIAL)):
        x = np.array([SPECIAL[(k + shift) % len(SPECIAL)] for k in range(size)])
        y = np.array([SPECIAL[(3 * k + shift // 2) % len(SPECIAL)] for k in range(size)])
        with np.errstate(all="ignore"):
            expected = {
                "add": x + y,
                "mul": x * y,
                "div": x / y,
                "max": np.array([larger(a, b) for a, b in zip(x, y)]),
                "min": np.array([smaller(a, b) for a, b in zip(x, y)]),
            }
        for name, value in expected.items():
            launch = two(name, x, y, whole(1), whole(1), (size,))
            for lanes in (1, 4, 8):
                same(run(launch.nest, [x, y], lanes=lanes), value)
            same(run(launch.nest, [x, y], lanes=4, native=True), value)


@pytest.mark.parametrize(
    "name", [name for name in ELEMENTWISE if name not in ("add", "sub", "mul", "div", "max", "min")]
)
@pytest.mark.parametrize("arith", ARITHS, ids=str)
def test_every_function_gives_the_same_bits_in_any_lane(name: str, arith: Arith) -> None:
    x = encode([0.75, -0.3, 2.0, -0.0, 0.0, math.inf, -math.inf, math.nan, 11.5, 1e-30, 3.0], arith.storage)
    attrs = {"n": Length(constant(3))} if name == "pow" else {}
    shape = operand(x, arith.storage)
    launch = launched(name, use_of([shape], shape, arith, attrs))
    found = everywhere(launch.nest, [x])
    single = operand(x[:1], arith.storage)
    one = launched(name, use_of([single], single, arith, attrs))
    for place in range(len(x)):
        same(run(one.nest, [x[place : place + 1]]), found[place : place + 1])


@pytest.mark.parametrize("n", [0, 1, 2, 3, 5, 8])
def test_powers(n: int) -> None:
    x = np.array([1.5, -0.1, 3.0, 0.0, math.inf, 1.0, 7.25])
    shape = operand(x)
    fixed = launched("pow", use_of([shape], shape, F64, {"n": Length(constant(n))}))
    found = everywhere(fixed.nest, [x])
    np.testing.assert_allclose(found, x**n, rtol=2e-16 * max(n, 1))
    if n < 4:
        same(found, math.prod([x] * n, start=np.ones(7)))
    scalar = Operand(Kind.HYPER, Elem.F64, (), ())
    given = launched("powv", use_of([shape, scalar], shape))
    powers = everywhere(given.nest, [x, np.array([float(n)])])
    np.testing.assert_allclose(powers, x**n, rtol=2e-16 * max(n, 1))
    if n < 4:
        same(powers, found)


@pytest.mark.parametrize("arith", ARITHS, ids=lambda arith: arith.storage.value)
@pytest.mark.parametrize("n", [2**24 + 1, 40_000_001, 2**31 - 1])
def test_an_exponent_keeps_its_parity_in_every_type(arith: Arith, n: int) -> None:
    x = np.array([-1.0, 1.0, -0.0])
    base, exponent = operand(x, arith.storage), Operand(Kind.HYPER, Elem.F64, (), ())
    given = launched("powv", use_of([base, exponent], base, arith))
    powers = everywhere(given.nest, [encode(x, arith.storage), np.array([float(n)])])
    found = decode(powers, arith.storage)
    assert found.tolist() == [-1.0, 1.0, -0.0]
    assert np.signbit(found).tolist() == [True, False, True]


def test_a_group_rounds_once() -> None:
    rng = np.random.default_rng(3)
    x, y, s = rng.normal(size=(4, 9)), rng.normal(size=9), rng.normal(size=())
    steps = (
        ("mul", (0, 1), {"left": whole(2), "right": Align(False, (-1,))}),
        ("add", (3, 2), {"left": whole(2), "right": Align(False, ())}),
        ("mul", (4, 3), {"left": whole(2), "right": whole(2)}),
    )
    for arith in ARITHS:
        given = [encode(value, arith.storage) for value in (x, y, s)]
        operands = [operand(value, arith.storage) for value in (x, y, s)]
        launch = group(operands, steps, operand(x, arith.storage), arith, {})
        assert launch.inputs == (0, 1, 2)
        found = everywhere(launch.nest, given)
        a, b, c = (decode(one, arith.storage) for one in given)
        a = a.reshape(4, 9)
        product = a * b
        same(found, encode((product + c) * product, arith.storage))


def test_a_member_that_is_read_across_is_computed_in_both_orders() -> None:
    x = np.arange(12.0).reshape(3, 4)[:, :3].copy()
    across = Align(False, (-1, -2))
    steps: Steps = (("neg", (0,), {}), ("sub", (1, 1), {"left": whole(2), "right": across}))
    launch = group([operand(x)], steps, operand(x), F64, {})
    found = everywhere(launch.nest, [x.reshape(-1)] * len(launch.inputs))
    same(found, (x.T - x).reshape(-1))
    assert isinstance(launch.nest, Map) and may_overwrite(launch.nest, launch.inputs) == ()


@pytest.mark.parametrize("axis", ["a", "b", "c", None])
@pytest.mark.parametrize("arith", ARITHS, ids=str)
def test_a_cotangent_is_spread(axis, arith: Arith) -> None:
    shape, names = (3, 2, 5), ("a", "b", "c")
    t = Operand(Kind.REAL, arith.storage, shape, names)
    reduced = tuple(size for size, name in zip(shape, names) if axis is not None and name != axis)
    ct = np.random.default_rng(5).normal(size=reduced)
    given = encode(ct, arith.storage)
    values = decode(given, arith.storage).reshape(reduced)
    values = values if axis is None else np.expand_dims(values, names.index(axis))
    use = use_of([operand(ct, arith.storage), t], t, arith, {"axis": AxisName(axis)})
    plain = launched("broadcast_like", use)
    assert plain.inputs == (0,)
    same(everywhere(plain.nest, [given]), encode(np.broadcast_to(values, shape), arith.storage))
    n = 30 if axis is None else shape[names.index(axis)]
    shared = launched("mean_vjp", use)
    same(everywhere(shared.nest, [given]), encode(np.broadcast_to(values / values.dtype.type(n), shape), arith.storage))


def test_what_is_injected_into_the_reals() -> None:
    index = np.array([0, 7, 3, 2**24 + 1], dtype=np.int32)
    use = use_of([operand(index, kind=Kind.INDEX, bound=2**25)], Operand(Kind.REAL, Elem.F32, (4,), (None,)), F32)
    same(everywhere(launched("real", use).nest, [index]), index.astype(np.float32))
    scalar = Operand(Kind.REAL, Elem.BF16, (), ())
    use = use_of([Operand(Kind.HYPER, Elem.F32, (), ())], scalar, BF16)
    same(everywhere(launched("real", use).nest, [encode(0.1, Elem.F32)]), encode(np.float32(0.1), Elem.BF16))


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 0, 2), (1, 1), (0, 5), (5, 1)])
def test_small_sizes(shape) -> None:
    x = np.arange(math.prod(shape), dtype=float).reshape(shape)
    launch = two("add", x, x, whole(len(shape)), whole(len(shape)), shape)
    same(everywhere(launch.nest, inputs(launch, x.reshape(-1), x.reshape(-1))), (x + x).reshape(-1))


def test_types_of_sites_meet() -> None:
    """Operands of other types than the site's are converted as they are read."""
    x, y = np.array([1.0, 1e-9, 3.0]), np.array([2.5, 1.0, -1.0])
    operands = [operand(x, Elem.F64), operand(y, Elem.BF16)]
    for arith, kind in ((F32, np.float32), (F64, np.float64)):
        result = operand(x, arith.storage)
        launch = launched("mul", use_of(operands, result, arith, {"left": whole(1), "right": whole(1)}))
        found = everywhere(launch.nest, [x, encode(y, Elem.BF16)])
        same(found, x.astype(kind) * y.astype(kind))


def test_the_axes_are_as_few_as_can_be() -> None:
    x = np.zeros((2, 3, 1, 5))
    launch = two("add", x, x, whole(4), whole(4), x.shape)
    assert isinstance(launch.nest, Map) and launch.nest.shape == (30,)
    launch = two("add", x, np.zeros(5), whole(4), whole(1), x.shape)
    assert isinstance(launch.nest, Map) and launch.nest.shape == (6, 5)


def test_the_output_may_take_an_inputs_memory() -> None:
    x, y = np.arange(13.0), np.arange(13.0) * 0.5
    launch = two("sub", x, y, whole(1), whole(1), (13,))
    assert isinstance(launch.nest, Map)
    assert may_overwrite(launch.nest, launch.inputs) == (0, 1)
    nest = replace(launch.nest, in_place=1)
    for lanes in (1, 4, 8):
        (step,) = lower(nest, Layout(lanes=lanes), TARGET).steps
        memory = y.copy()
        interpret(step.kernel, [x, memory, memory])
        same(memory, x - y)


def test_every_order_of_three_axes() -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    for order in permutations(range(3)):
        y = x.transpose(order).copy()
        axes = tuple(place - 3 for place in order)
        launch = two("sub", x, y, whole(3), Align(False, axes), x.shape)
        same(everywhere(launch.nest, inputs(launch, x.reshape(-1), y.reshape(-1)), native=False), np.zeros(24))


def test_what_is_no_real_tensor_is_carried() -> None:
    key = Operand(Kind.KEY, Elem.I32, (), ())
    assert rule("add", use_of([key, key], key)) == View()


def test_a_row_alone_has_the_bits_it_has_in_a_batch() -> None:
    rng = np.random.default_rng(9)
    x, y = rng.normal(size=(33, 11)), rng.normal(size=11)
    for arith in ARITHS:
        ex, ey = encode(x, arith.storage), encode(y, arith.storage)
        steps: Steps = (("mul", (0, 1), {"left": whole(2), "right": whole(1)}), ("exp", (2,), {}))
        batch = group(
            [operand(x, arith.storage), operand(y, arith.storage)], steps, operand(x, arith.storage), arith, {}
        )
        alone = group(
            [operand(x[:1], arith.storage), operand(y, arith.storage)], steps, operand(x[:1], arith.storage), arith, {}
        )
        found = run(batch.nest, [ex, ey], native=True)
        for row in (0, 17, 32):
            mine = slice(11 * row, 11 * row + 11)
            same(run(alone.nest, [ex[mine], ey], native=True), found[mine])
