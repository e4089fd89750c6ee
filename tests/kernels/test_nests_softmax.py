"""Softmax and cross-entropy against their formulas, in scalars of the type with correctly rounded functions.

In f32 the kernels' functions are correctly rounded, so the bits must agree; in f64 they are within a unit in the last place.
"""

import math
from collections.abc import Mapping

import numpy as np
import pytest

from presk.kernels.ir import Elem
from presk.kernels.layout import Layout, Split
from presk.kernels.nest import BF16, F32, F64, Arith, Kind
from presk.kernels.nests.softmax import EMPTY_ROW
from presk.kernels.nests.table import lower
from presk.prims.attrs import Align, Attr, AxisName
from tests.kernels.nestmath import TYPES, exps, function, row_sum
from tests.kernels.nestrun import (
    ARITHS,
    LANES,
    TARGET,
    decode,
    encode,
    everywhere,
    execute,
    launched,
    operand,
    run,
    same,
    use_of,
)

NAMES = ("a", "b", "c")


def numbers(shape, arith: Arith, seed: int = 1):
    x = np.random.default_rng(seed).normal(size=shape) * 3
    given = encode(x, arith.storage)
    return x, given, decode(given, arith.storage).reshape(shape).astype(TYPES[arith.arithmetic])


def agree(found, expected, arith: Arith) -> None:
    """To the bit where functions are correctly rounded."""
    if arith is F64:
        np.testing.assert_allclose(found, expected.reshape(-1), rtol=4e-15, atol=1e-300)
    else:
        same(found, encode(expected, arith.storage))


def softmax(x, allowed, axis: int):
    """Row by row; a sum along the last axis has sixteen parts, one along another axis is in order."""
    last = axis == x.ndim - 1
    rows = np.moveaxis(x, axis, -1)
    masks = np.moveaxis(allowed, axis, -1)
    result = np.zeros_like(rows)
    for at in np.ndindex(rows.shape[:-1]):
        row, mask = rows[at], masks[at]
        with np.errstate(invalid="ignore"):
            terms = np.where(mask, exps(np.where(mask, row, 0) - row[mask].max()), x.dtype.type(0))
        total = x.dtype.type(0)
        if last:
            total = row_sum(terms, x.dtype.type)
        else:
            for term in terms:
                total = total + term
        result[at] = terms / total
    return np.moveaxis(result, -1, axis)


def both(nest, inputs):
    """The output in every way, and in as many passes."""
    found = everywhere(nest, inputs)
    for lanes in (1, 4, 16):
        same(run(nest, inputs, lanes=lanes, passes=3), found)
    same(run(nest, inputs, passes=2, native=True, workers=2), found)
    same(run(nest, inputs, passes=3, native=True), found)
    return found


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("shape", [(2, 3, 19), (5, 1, 4), (1, 17, 1)])
@pytest.mark.parametrize("arith", ARITHS, ids=str)
def test_softmax(arith: Arith, shape, axis: int) -> None:
    x, given, seen = numbers(shape, arith)
    shape_ = operand(x, arith.storage, names=NAMES)
    launch = launched("softmax", use_of([shape_], shape_, arith, {"axis": AxisName(NAMES[axis])}))
    agree(both(launch.nest, [given]), softmax(seen, np.ones(shape, dtype=bool), axis), arith)


@pytest.mark.parametrize(
    ("axes", "axis"), [((-1,), 2), ((-2, -1), 2), ((-1, -2), 2), ((-2, -1), 1), ((-3, -1), 0), ((-3, -2, -1), 1)]
)
@pytest.mark.parametrize("arith", ARITHS, ids=str)
def test_masked(arith: Arith, axes, axis: int) -> None:
    shape = (3, 6, 7)
    x, given, seen = numbers(shape, arith)
    rng = np.random.default_rng(len(axes))
    mask = rng.random([shape[place] for place in axes]) < 0.6
    mask.reshape(-1)[0] = True
    order = sorted(range(len(axes)), key=lambda place: axes[place])
    allowed = mask.transpose(order).reshape([shape[place] if place in axes else 1 for place in (-3, -2, -1)])
    allowed = np.broadcast_to(allowed, shape)
    shape_ = operand(x, arith.storage, names=NAMES)
    attrs: Mapping[str, Attr] = {"axis": AxisName(NAMES[axis]), "mask": Align(False, axes)}
    launch = launched("softmax", use_of([shape_, operand(mask, kind=Kind.MASK)], shape_, arith, attrs))
    assert launch.inputs == (0, 1)
    bits = encode(mask, Elem.U8)
    empty = ~allowed.any(axis=axis).reshape(-1)
    for passes in (2, 3):
        for split in (None, Split(0, 2)):
            lowered = lower(launch.nest, Layout(passes=passes, split=split), TARGET)
            assert lowered.fault is not None
            assert lowered.fault.code == EMPTY_ROW and lowered.fault.rows == len(empty)
            for native in (False, True):
                fault = execute(lowered, [given, bits], native=native, workers=1 if split is None else 2)[1]
                assert fault is not None and fault.tolist() == empty.tolist()
    if empty.any():
        return
    found = both(launch.nest, [given, bits])
    agree(found, softmax(seen, allowed, axis), arith)
    # Whatever stands where the mask refuses, nothing changes.
    for value in (math.nan, 1e30, math.inf):
        other = encode(np.where(allowed, seen, value), arith.storage)
        same(run(launch.nest, [other, bits]), found)
        same(run(launch.nest, [other, bits], native=True, passes=3), found)


@pytest.mark.parametrize(("rows", "parts"), [(80, 40), (67, 67), (4, 4)])
@pytest.mark.parametrize("axis", [2, 1])
@pytest.mark.parametrize("arith", [F32, BF16], ids=str)
def test_divided_rows_share_the_memory_of_their_part(arith: Arith, axis: int, rows: int, parts: int) -> None:
    """A part of the divided loop has room for the exponentials of one row, or of a vector of columns, whatever its rows."""
    x, given, seen = numbers((rows, 3, 10), arith)
    shape = operand(x, arith.storage, names=NAMES)
    nest = launched("softmax", use_of([shape], shape, arith, {"axis": AxisName(NAMES[axis])})).nest
    found = run(nest, [given], lanes=1)
    agree(found, softmax(seen, np.ones(x.shape, dtype=bool), axis), arith)
    for depth in (0, 1):
        lowered = lower(nest, Layout(split=Split(depth, 3)), TARGET)
        if axis == 2 and arith is BF16:
            # The rows of both axes are one axis.
            assert lowered.scratch[0][1] == most(3 * rows) * 10
        elif axis == 1 and depth == 0:
            assert lowered.scratch[0][1] == parts * 3 * 16
        for native in (False, True):
            same(execute(lowered, [given], native=native, workers=3)[0], found)


def most(size: int) -> int:
    """The parts of a divided loop."""
    return max((one for one in range(8, 65) if size % one == 0), default=size)


def test_an_emptied_row_is_marked_and_no_other() -> None:
    x = np.full((4, 9), -math.inf)
    x[1] = 0.0
    mask = np.ones((4, 9), dtype=bool)
    mask[2] = False
    shape = operand(x, names=("n", "k"))
    attrs: Mapping[str, Attr] = {"axis": AxisName("k"), "mask": Align(False, (-2, -1))}
    nest = launched("softmax", use_of([shape, operand(mask, kind=Kind.MASK)], shape, F64, attrs)).nest
    for lanes in LANES:
        found, fault = execute(lower(nest, Layout(lanes=lanes), TARGET), [x.reshape(-1), encode(mask, Elem.U8)])
        assert fault is not None and fault.tolist() == [0, 0, 1, 0]
        # A row of −∞ alone has no softmax, and says so.
        assert np.isnan(found[:9]).all() and (found[9:18] == found[9]).all()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("size", [1, 4, 7, 17])
def test_special_values_in_every_place(size: int, value: float) -> None:
    for place in range(size):
        x = np.zeros((2, size))
        x[1, place] = value
        shape = operand(x, names=("n", "k"))
        nest = launched("softmax", use_of([shape], shape, F64, {"axis": AxisName("k")})).nest
        for lanes in (1, 8):
            found = run(nest, [x.reshape(-1)], lanes=lanes).reshape(2, size)
            assert (found[0] == 1 / size).all()
            if value == -math.inf and size > 1:
                assert found[1, place] == 0 and (np.delete(found[1], place) == 1 / (size - 1)).all()
            else:
                assert np.isnan(found[1]).all()


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0), (1, 1)])
@pytest.mark.parametrize("axis", [0, 1])
def test_small_sizes(shape, axis: int) -> None:
    x = np.zeros(shape)
    shape_ = operand(x, names=("a", "b"))
    attrs: Mapping[str, Attr] = {"axis": AxisName(NAMES[axis]), "mask": Align(False, (-2, -1))}
    nest = launched("softmax", use_of([shape_, operand(x, kind=Kind.MASK)], shape_, F64, attrs)).nest
    found = everywhere(nest, [x.reshape(-1), np.ones(x.size, dtype=np.uint8)])
    assert (found == 1).all() and found.shape == (x.size,)
    lowered = lower(nest, Layout(), TARGET)
    assert lowered.fault is None or lowered.fault.rows == 1


@pytest.mark.parametrize("size", [1, 3, 16, 17, 40])
@pytest.mark.parametrize("arith", ARITHS, ids=str)
def test_cross_entropy(arith: Arith, size: int) -> None:
    x, given, seen = numbers((2, 3, size), arith)
    kind = seen.dtype.type
    y = np.random.default_rng(size).integers(0, size, size=(2, 3)).astype(np.int32)
    ct = np.random.default_rng(7).normal(size=(2, 3))
    cts = encode(ct, arith.storage)
    out = operand(ct, arith.storage)
    targets = operand(y, kind=Kind.INDEX, bound=size)
    logits = operand(x, arith.storage)
    loss, gradient = np.zeros(6, dtype=kind), np.zeros((6, size), dtype=kind)
    for row, (values, target, factor) in enumerate(
        zip(seen.reshape(6, size), y.reshape(-1), decode(cts, arith.storage))
    ):
        top = values.max()
        terms = exps(values - top)
        total = row_sum(terms, kind)
        loss[row] = function("log", total) + (top - values[target])
        hot = np.zeros(size, dtype=kind)
        hot[target] = 1
        gradient[row] = (terms / total - hot) * kind(factor)
    forward = launched("cross_entropy", use_of([logits, targets], out, arith))
    assert forward.inputs == (0, 1)
    agree(everywhere(forward.nest, [given, y.reshape(-1)], lanes=(4, 16)), loss, arith)
    backward = launched("cross_entropy_vjp", use_of([logits, targets, out], logits, arith))
    assert backward.inputs == (0, 1, 2)
    found = everywhere(backward.nest, [given, y.reshape(-1), cts], lanes=(4, 16))
    if arith is F64:
        np.testing.assert_allclose(found, gradient.reshape(-1), rtol=1e-14, atol=1e-16)
    else:
        same(found, encode(gradient, arith.storage))


@pytest.mark.parametrize("rows", [160, 67])
def test_divided_gradients_share_the_memory_of_their_part(rows: int) -> None:
    x, given, _ = numbers((rows, 9), BF16)
    y = (np.arange(rows) % 9).astype(np.int32)
    ct = np.linspace(-1, 1, rows)
    logits, out = operand(x, Elem.BF16), operand(ct, Elem.BF16)
    use = use_of([logits, operand(y, kind=Kind.INDEX, bound=9), out], logits, BF16)
    nest = launched("cross_entropy_vjp", use).nest
    inputs = [given, y, encode(ct, Elem.BF16)]
    lowered = lower(nest, Layout(split=Split(0, 3)), TARGET)
    assert lowered.scratch == ((Elem.F32, most(rows) * 9),)
    for native in (False, True):
        same(execute(lowered, inputs, native=native, workers=3)[0], run(nest, inputs, lanes=1))


def test_cross_entropy_of_large_logits_does_not_overflow() -> None:
    x = np.array([[1e30, 1e30, -1e30], [700.0, 800.0, 900.0]])
    y = np.array([0, 1], dtype=np.int32)
    use = use_of([operand(x), operand(y, kind=Kind.INDEX, bound=3)], operand(np.zeros(2)))
    found = everywhere(launched("cross_entropy", use).nest, [x.reshape(-1), y])
    np.testing.assert_allclose(found, [math.log(2), 100.0], rtol=1e-15)


def test_a_row_alone_has_the_bits_it_has_in_a_batch() -> None:
    for arith in (F32, BF16):
        x, given, _ = numbers((33, 20), arith)
        names = ("n", "k")
        batch = operand(x, arith.storage, names=names)
        whole = launched("softmax", use_of([batch], batch, arith, {"axis": AxisName("k")}))
        found = run(whole.nest, [given], native=True)
        for rows in (1, 3):
            some = operand(x[:rows], arith.storage, names=names)
            nest = launched("softmax", use_of([some], some, arith, {"axis": AxisName("k")})).nest
            for first in (0, 13, 33 - rows):
                mine = slice(20 * first, 20 * (first + rows))
                same(run(nest, [given[mine]], native=True), found[mine])


def test_a_longer_row_that_the_mask_ends_has_the_bits_of_the_shorter_one() -> None:
    x, given, _ = numbers((1, 40), F32)
    shape = operand(x, Elem.F32, names=("n", "k"))
    mask = np.arange(40) < 23
    attrs: Mapping[str, Attr] = {"axis": AxisName("k"), "mask": Align(False, (-1,))}
    long = launched("softmax", use_of([shape, operand(mask, kind=Kind.MASK)], shape, F32, attrs)).nest
    short_ = operand(x[:, :23], Elem.F32, names=("n", "k"))
    short = launched("softmax", use_of([short_], short_, F32, {"axis": AxisName("k")})).nest
    same(run(long, [given, encode(mask, Elem.U8)])[:23], run(short, [given[:23]]))
