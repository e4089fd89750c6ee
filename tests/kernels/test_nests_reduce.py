"""Reductions against the order that rule 3 of the arithmetic states, written down plainly, in scalars of the type."""

import math

import numpy as np
import pytest

from presk.kernels.ir import Elem
from presk.kernels.layout import Layout, Split
from presk.kernels.nest import BF16, F32, F64, Arith, Kind, Operand
from presk.kernels.nests.reduce import Reduce
from presk.kernels.nests.table import lower
from presk.prims.attrs import Align, AxisName
from tests.kernels.nestmath import TYPES, reduced, row_sum
from tests.kernels.nestrun import ARITHS, TARGET, decode, encode, everywhere, launched, operand, run, same, use_of


def numbers(shape, arith: Arith, seed: int = 1):
    """Numbers of many sizes, as a buffer and as the site's arithmetic sees them."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape) * 10.0 ** rng.integers(-3, 4, size=shape)
    given = encode(x, arith.storage)
    seen = decode(given, arith.storage).reshape(shape).astype(TYPES[arith.arithmetic])
    return x, given, seen


@pytest.mark.parametrize("axis", ["a", "b", "c", None])
@pytest.mark.parametrize("shape", [(3, 4, 21), (2, 19, 5), (17, 1, 16), (1, 3, 1)])
@pytest.mark.parametrize("arith", ARITHS, ids=str)
def test_sum_and_mean(arith: Arith, shape, axis) -> None:
    x, given, seen = numbers(shape, arith)
    names = ("a", "b", "c")
    axes = (0, 1, 2) if axis is None else (names.index(axis),)
    expected = reduced(seen, axes)
    result = operand(expected, arith.storage)
    use = use_of([operand(x, arith.storage, names=names)], result, arith, {"axis": AxisName(axis)})
    same(everywhere(launched("sum", use).nest, [given]), encode(expected, arith.storage))
    count = math.prod(shape[axis] for axis in axes)
    mean = expected / expected.dtype.type(count)
    same(everywhere(launched("mean", use).nest, [given], native=False), encode(mean, arith.storage))


@pytest.mark.parametrize(
    "places", [(), (-1,), (-2,), (-3,), (-1, -2), (-2, -1), (-3, -1), (-1, -3), (-2, -3), (-1, -3, -2)]
)
def test_sum_to(places) -> None:
    shape = (3, 5, 9)
    for arith in (F64, BF16):
        x, given, seen = numbers(shape, arith)
        kept = [place + 3 for place in places]
        plain = reduced(seen, [axis for axis in range(3) if axis not in kept])
        order = [sorted(kept).index(axis) for axis in kept]
        expected = plain.transpose(order)
        if len(places) == 3:
            expected = seen.transpose(kept)
        t = operand(expected, arith.storage)
        launch = launched("sum_to", use_of([operand(x, arith.storage), t], t, arith, {"align": Align(False, places)}))
        assert launch.inputs == (0,)
        same(everywhere(launch.nest, [given]), encode(expected, arith.storage))


@pytest.mark.parametrize(
    ("kept", "align"), [((0, 1, 2), Align(True, (-2,))), ((3,), Align(False, (-1,))), ((2,), Align(False, (-2,)))]
)
def test_the_prefix_is_summed_or_kept(kept, align: Align) -> None:
    x, given, seen = numbers((2, 3, 4, 6), F64)
    expected = reduced(seen, [axis for axis in range(4) if axis not in kept])
    t = operand(expected)
    launch = launched("sum_to", use_of([operand(x), t], t, F64, {"align": align}))
    same(everywhere(launch.nest, [given]), expected.reshape(-1))


@pytest.mark.parametrize("size", [4095, 4096, 4097, 8192, 9001])
def test_long_rows_go_in_blocks(size: int) -> None:
    for arith in (F32, F64):
        x, given, seen = numbers((size,), arith, seed=size)
        use = use_of([operand(x, arith.storage)], operand(0.0, arith.storage), arith, {"axis": AxisName(None)})
        nest = launched("sum", use).nest
        expected = encode(row_sum(seen, seen.dtype.type), arith.storage)
        same(run(nest, [given]), expected)
        for lanes in (1, 4, 8, 16):
            same(run(nest, [given], lanes=lanes, native=True), expected)


@pytest.mark.parametrize("size", [4097, 8192, 10000])
def test_everything_is_summed_by_several_workers(size: int) -> None:
    """Block by block, and then the blocks."""
    x, given, seen = numbers((size,), F32, seed=size)
    scalar = Operand(Kind.REAL, Elem.F32, (), ())
    squares = launched("sum_squares", use_of([operand(x, Elem.F32), scalar], scalar, F32)).nest
    mean = launched("mean", use_of([operand(x, Elem.F32)], scalar, F32, {"axis": AxisName(None)})).nest
    before = np.array([0.7], dtype=np.float32)
    expected = encode(before + row_sum(seen * seen, np.float32), Elem.F32)
    average = encode(row_sum(seen, np.float32) / np.float32(size), Elem.F32)
    for workers in (2, 3):
        assert len(lower(mean, Layout(split=Split(0, workers)), TARGET).steps) == 2
        for native in (False, True):
            same(run(mean, [given], workers=workers, native=native), average)
            same(run(squares, [given, before], workers=workers, native=native), expected)


@pytest.mark.parametrize("size", [1, 5, 16, 17, 40, 70])
def test_a_tail_of_zeros_changes_nothing(size: int) -> None:
    _, given, _ = numbers((size,), F32)
    long = np.concatenate([given, np.zeros(30, dtype=np.float32)])
    found = []
    for values in (given, long):
        use = use_of([operand(values, Elem.F32)], operand(0.0, Elem.F32), F32, {"axis": AxisName(None)})
        found.append(run(launched("sum", use).nest, [values]))
    same(found[0], found[1])


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -0.0, 5e-324])
@pytest.mark.parametrize("last", [True, False])
def test_special_values_in_every_place(last: bool, value: float) -> None:
    """Along a row and across columns, in whole vectors and in what is left of them."""
    for place in range(21):
        x = np.full((21, 2) if not last else (2, 21), -0.0 if value == -0.0 else 1.0)
        index = (1, place) if last else (place, 1)
        x[index] = value
        names = ("k", "n") if not last else ("n", "k")
        nest = launched(
            "sum", use_of([operand(x, names=names)], operand(np.zeros(2)), F64, {"axis": AxisName("k")})
        ).nest
        expected = reduced(x, (1,) if last else (0,))
        for lanes in (1, 4, 8):
            same(run(nest, [x.reshape(-1)], lanes=lanes), expected)
        y = np.full((2, 21), 1.0)
        y[0, place] = value
        nest = launched("sum", use_of([operand(y, names=("k", "n"))], operand(y[0]), F64, {"axis": AxisName("k")})).nest
        for lanes in (1, 4, 8):
            same(run(nest, [y.reshape(-1)], lanes=lanes), reduced(y, (0,)))


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 3), (0, 0)])
def test_nothing_to_sum(shape) -> None:
    names = ("a", "b", "c")[: len(shape)]
    for axis, name in enumerate(names):
        x = np.zeros(shape)
        expected = np.zeros([size for place, size in enumerate(shape) if place != axis])
        use = use_of([operand(x, names=names)], operand(expected), F64, {"axis": AxisName(name)})
        same(everywhere(launched("sum", use).nest, [x.reshape(-1)]), expected.reshape(-1))
    use = use_of([operand(np.zeros(shape), names=names)], operand(0.0), F64, {"axis": AxisName(None)})
    same(everywhere(launched("sum", use).nest, [np.zeros(0)]), np.zeros(1))


def test_the_squared_norm_of_a_tree() -> None:
    x, given, seen = numbers((5, 7), F32)
    y, more, also = numbers((30,), F32, seed=4)
    scalar = Operand(Kind.REAL, Elem.F32, (), ())
    first = launched("sum_squares", use_of([operand(x, Elem.F32)], scalar, F32))
    second = launched("sum_squares", use_of([operand(y, Elem.F32), scalar], scalar, F32))
    assert second.inputs == (0, 1)
    one = everywhere(first.nest, [given])
    two = everywhere(second.nest, [more, one])
    expected = row_sum((seen * seen).reshape(-1), np.float32)
    same(one, encode(expected, Elem.F32))
    same(two, encode(expected + row_sum(also * also, np.float32), Elem.F32))


def test_which_axes_are_innermost_is_read_off_the_type() -> None:
    """An axis of length 1 that is kept stands between those that are reduced."""
    x, given, seen = numbers((40, 1, 33), F32)
    use = use_of(
        [operand(x, Elem.F32), operand(x[0, :, 0], Elem.F32)],
        operand(x[0, :, 0], Elem.F32),
        F32,
        {"align": Align(False, (-2,))},
    )
    nest = launched("sum_to", use).nest
    assert isinstance(nest, Reduce) and nest.shape == (40, 1, 33)
    same(everywhere(nest, [given]), reduced(seen, (0, 2)))
    assert run(nest, [given]).tobytes() != encode(row_sum(seen.reshape(-1), np.float32), Elem.F32).tobytes()


def test_a_row_alone_has_the_bits_it_has_in_a_batch() -> None:
    x, given, _ = numbers((33, 50), F32)
    names = ("n", "k")
    whole = launched(
        "mean", use_of([operand(x, Elem.F32, names=names)], operand(x[:, 0], Elem.F32), F32, {"axis": AxisName("k")})
    )
    found = run(whole.nest, [given], native=True)
    for rows in (1, 2, 7):
        use = use_of(
            [operand(x[:rows], Elem.F32, names=names)], operand(x[:rows, 0], Elem.F32), F32, {"axis": AxisName("k")}
        )
        nest = launched("mean", use).nest
        for first in (0, 11, 33 - rows):
            some = given[50 * first : 50 * (first + rows)]
            same(run(nest, [some], native=True), found[first : first + rows])


def test_sums_are_in_the_accumulation_type() -> None:
    arith = Arith(Elem.F32, Elem.F32, Elem.F64)
    x = np.array([1.0, 1e-12, -1.0], dtype=np.float32)
    use = use_of([operand(x, Elem.F32)], operand(0.0, Elem.F32), arith, {"axis": AxisName(None)})
    found = everywhere(launched("sum", use).nest, [x])
    same(found, encode(row_sum(x.astype(np.float64), np.float64), Elem.F32))
    assert found[0] != 0
