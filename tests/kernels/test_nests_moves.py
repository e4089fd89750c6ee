"""Tables by index and copies, against numpy's indexing."""

import math

import numpy as np
import pytest

from presk.kernels.ir import Elem
from presk.kernels.nest import BF16, F32, F64, Arith, Kind, Operand, View
from presk.kernels.nests.copy import Copy, moved
from presk.kernels.nests.table import rule
from presk.prims.attrs import AxisName, Length, Select
from presk.types.dim import constant, symbol
from tests.kernels.nestrun import ARITHS, decode, encode, everywhere, launched, operand, run, same, use_of


def numbers(shape, arith: Arith, seed: int = 1):
    x = np.random.default_rng(seed).normal(size=shape)
    given = encode(x, arith.storage)
    return x, given, decode(given, arith.storage).reshape(shape)


def at(axis: int, lo, hi=None) -> Select:
    lo, hi = (constant(one) if isinstance(one, int) else one for one in (lo, hi))
    return Select("x", axis, lo, hi)


# --- tables ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [1, 3, 8, 21])
@pytest.mark.parametrize("arith", ARITHS, ids=str)
def test_embed(arith: Arith, width: int) -> None:
    w, given, seen = numbers((7, width), arith)
    t = np.array([[6, 0, 0], [3, 6, 5]], dtype=np.int32)
    result = operand(seen[t], arith.storage)
    launch = launched("embed", use_of([operand(w, arith.storage), operand(t, kind=Kind.INDEX, bound=7)], result, arith))
    assert launch.inputs == (0, 1)
    same(everywhere(launch.nest, [given, t.reshape(-1)]), encode(seen[t], arith.storage))


@pytest.mark.parametrize("width", [1, 3, 8, 70])
@pytest.mark.parametrize("arith", ARITHS, ids=str)
def test_embed_vjp_adds_in_order_of_the_uses(arith: Arith, width: int) -> None:
    t = np.array([2, 0, 2, 2, 4, 0, 2], dtype=np.int32)
    ct, given, seen = numbers((7, width), arith)
    kind = np.float64 if arith is F64 else np.float32
    table = np.zeros((5, width), dtype=kind)
    for row, use in zip(t, seen.astype(kind)):
        table[row] = table[row] + use
    w = operand(table, arith.storage)
    operands = [operand(t, kind=Kind.INDEX, bound=5), operand(ct, arith.storage), w]
    launch = launched("embed_vjp", use_of(operands, w, arith))
    assert launch.inputs == (0, 1)
    same(everywhere(launch.nest, [t, given]), encode(table, arith.storage))


@pytest.mark.parametrize(("uses", "width", "bound"), [(0, 4, 3), (3, 0, 3), (0, 0, 0), (1, 1, 1)])
def test_small_tables(uses: int, width: int, bound: int) -> None:
    t = np.zeros(uses, dtype=np.int32)
    w = np.arange(float(bound * width)).reshape(bound, width)
    index = operand(t, kind=Kind.INDEX, bound=bound)
    launch = launched("embed", use_of([operand(w), index], operand(w[t] if bound else np.zeros((0, width)))))
    same(everywhere(launch.nest, [w.reshape(-1), t]), w[t].reshape(-1) if bound else np.zeros(0))
    ct = np.ones((uses, width))
    launch = launched("embed_vjp", use_of([index, operand(ct), operand(w)], operand(w)))
    expected = np.zeros((bound, width))
    expected[:1] = uses
    same(everywhere(launch.nest, [t, ct.reshape(-1)]), expected.reshape(-1))


@pytest.mark.parametrize("bound", [1, 2, 5, 8, 19])
def test_one_hot(bound: int) -> None:
    t = np.random.default_rng(bound).integers(0, bound, size=(2, 3)).astype(np.int32)
    for arith in ARITHS:
        expected = np.eye(bound)[t]
        result = operand(expected, arith.storage)
        launch = launched("one_hot", use_of([operand(t, kind=Kind.INDEX, bound=bound)], result, arith))
        same(everywhere(launch.nest, [t.reshape(-1)]), encode(expected, arith.storage))


@pytest.mark.parametrize("size", [0, 1, 2, 7, 8, 19])
def test_positions_and_causal_masks(size: int) -> None:
    attrs, dims = {"axis": Length(symbol("T"), "n")}, {"T": size}
    place = Operand(Kind.INDEX, Elem.I32, (size,), ("n",), size)
    launch = launched("positions", use_of([], place, F32, attrs, dims))
    same(everywhere(launch.nest, []), np.arange(size, dtype=np.int32))
    mask = Operand(Kind.MASK, Elem.U8, (size, size), ("n", "n2"))
    launch = launched("causal_mask", use_of([], mask, F32, attrs, dims))
    same(everywhere(launch.nest, []), np.tri(size, dtype=np.uint8).reshape(-1))


# --- copies ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lead", "seq", "heads", "hd"), [((), 3, 2, 5), ((2, 2), 4, 3, 8), ((1,), 1, 1, 1), ((2,), 0, 2, 3)]
)
def test_heads(lead, seq: int, heads: int, hd: int) -> None:
    attrs = {"heads": Length(constant(heads)), "hd": Length(symbol("HD"))}
    for arith in ARITHS:
        x, given, seen = numbers((*lead, seq, heads * hd), arith)
        apart = np.swapaxes(seen.reshape(*lead, seq, heads, hd), -3, -2)
        result = operand(apart, arith.storage)
        launch = launched("split_heads", use_of([operand(x, arith.storage)], result, arith, attrs, {"HD": hd}))
        found = everywhere(launch.nest, [given])
        same(found, encode(apart, arith.storage))
        back = launched("merge_heads", use_of([result], operand(x, arith.storage), arith, attrs, {"HD": hd}))
        same(everywhere(back.nest, [found]), given)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("second", [0, 1, 6])
def test_concat(axis: int, second: int) -> None:
    names = ("a", "b", "c")
    shape = [2, 3, 5]
    x, given, seen = numbers(shape, F32)
    shape[axis] = second
    y, more, also = numbers(shape, F32, seed=2)
    expected = np.concatenate([seen, also], axis=axis)
    operands = [operand(x, Elem.F32, names=names), operand(y, Elem.F32, names=names)]
    attrs = {"axis": AxisName(names[axis])}
    launch = launched("concat", use_of(operands, operand(expected, Elem.F32, names=names), F32, attrs))
    same(everywhere(launch.nest, [given, more]), expected.reshape(-1))


SELECTIONS = [
    ({"s0": at(-1, 2, 6)}, np.s_[:, :, 2:6]),
    ({"s0": at(-2, 1, 2), "s1": at(-1, 0, 3)}, np.s_[:, 1:2, 0:3]),
    ({"s0": at(-3, 1, symbol("N"))}, np.s_[1:4]),
    ({"s0": at(-3, 2, 2)}, np.s_[2:2]),
    ({"s0": at(-1, 0, 7)}, np.s_[:]),
    ({"s0": at(-1, 3)}, np.s_[:, :, 3]),
    ({"s0": at(-1, -1)}, np.s_[:, :, -1]),
    ({"s0": at(-2, -3), "s1": at(-3, symbol("N") - constant(1))}, np.s_[3, -3]),
    ({"s0": at(-3, 0), "s1": at(-2, 1), "s2": at(-1, 2)}, np.s_[0, 1, 2]),
]


@pytest.mark.parametrize(("attrs", "index"), SELECTIONS)
@pytest.mark.parametrize("arith", [F32, BF16], ids=str)
def test_selections_and_their_adjoints(arith: Arith, attrs, index) -> None:
    ranges = all(one.hi is not None for one in attrs.values())
    x, given, seen = numbers((4, 3, 7), arith)
    part = seen[index]
    name = "slice" if ranges else "index"
    launch = launched(name, use_of([operand(x, arith.storage)], operand(part, arith.storage), arith, attrs, {"N": 4}))
    same(everywhere(launch.nest, [given]), encode(part, arith.storage))
    back = np.zeros_like(seen)
    back[index] = part
    operands = [operand(part, arith.storage), operand(x, arith.storage)]
    name = "slice_vjp" if ranges else "scatter_index"
    launch = launched(name, use_of(operands, operands[1], arith, attrs, {"N": 4}))
    assert launch.inputs == (0,)
    same(everywhere(launch.nest, [encode(part, arith.storage)]), encode(back, arith.storage))


def test_indices_and_masks_are_selected_too() -> None:
    attrs = {"s0": at(-1, 1, 4)}
    t = np.array([[4, 1, 0, 2, 3]], dtype=np.int32)
    index = operand(t, kind=Kind.INDEX, bound=5)
    launch = launched("slice", use_of([index], operand(t[:, 1:4], kind=Kind.INDEX, bound=5), F32, attrs))
    same(everywhere(launch.nest, [t.reshape(-1)]), t[0, 1:4])
    mask = np.array([[1, 0, 1, 1, 0]], dtype=np.uint8)
    launch = launched(
        "slice", use_of([operand(mask, kind=Kind.MASK)], operand(mask[:, 1:4], kind=Kind.MASK), F32, attrs)
    )
    same(everywhere(launch.nest, [mask.reshape(-1)]), mask[0, 1:4])


def test_every_bit_pattern_of_bf16_is_copied() -> None:
    """But for signalling NaNs, which an executor may quiet."""
    patterns = np.arange(1 << 16, dtype=np.uint16)
    nest = moved(Operand(Kind.REAL, Elem.BF16, (1 << 16,), (None,)), Elem.BF16)
    found = run(nest, [patterns], native=True)
    number = (patterns & 0x7FFF) <= 0x7F80
    assert np.array_equal(found[number], patterns[number])
    assert ((found[~number] & 0x7FFF) > 0x7F80).all()


@pytest.mark.parametrize("size", [0, 1, 7, 33])
def test_a_tensor_in_another_type(size: int) -> None:
    x = np.random.default_rng(size).normal(size=size)
    wide = Operand(Kind.REAL, Elem.F64, (size,), (None,))
    same(everywhere(moved(wide, Elem.BF16), [x]), encode(x, Elem.BF16))
    same(everywhere(moved(wide, Elem.F32), [x]), x.astype(np.float32))
    narrow = Operand(Kind.REAL, Elem.BF16, (size,), (None,))
    same(
        everywhere(moved(narrow, Elem.F64), [encode(x, Elem.BF16)]),
        decode(encode(x, Elem.BF16), Elem.BF16).astype(np.float64),
    )


def test_pieces_have_as_few_axes_as_can_be() -> None:
    x = np.zeros((4, 3, 7))
    attrs = {"s0": at(-3, 1, 3)}
    launch = launched("slice", use_of([operand(x)], operand(x[1:3]), F64, attrs))
    assert isinstance(launch.nest, Copy)
    (piece,) = launch.nest.pieces
    assert piece.shape == (42,) and piece.at == 21


@pytest.mark.parametrize("name", ["merge", "split", "reshape_like", "retag"])
def test_what_only_renames_is_a_view(name: str) -> None:
    x = operand(np.zeros((2, 3)))
    assert rule(name, use_of([x, x], x)) == View()


# --- choices -----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 5, 8, 17, 30])
@pytest.mark.parametrize("arith", ARITHS, ids=str)
def test_argmax(arith: Arith, size: int) -> None:
    x = np.random.default_rng(size).integers(0, 4, size=(12, size)).astype(float)
    x[3] = -math.inf
    x[4, size // 2] = math.nan
    x[5, -1] = x[5, size // 3] = math.nan
    x[6] = np.where(np.arange(size) % 2 == 0, -0.0, 0.0)
    x[7, size // 2] = math.inf
    given = encode(x, arith.storage)
    result = Operand(Kind.INDEX, Elem.I32, (12,), (None,), size)
    launch = launched("argmax", use_of([operand(x, arith.storage)], result, arith))
    # numpy takes the first NaN, and the least place of the largest.
    same(everywhere(launch.nest, [given]), np.argmax(x, axis=1).astype(np.int32))


def test_argmax_of_nothing() -> None:
    for shape in ((0, 3), (2, 0)):
        result = Operand(Kind.INDEX, Elem.I32, shape[:1], (None,), shape[1])
        launch = launched("argmax", use_of([operand(np.zeros(shape))], result))
        same(everywhere(launch.nest, [np.zeros(0)]), np.zeros(shape[0], dtype=np.int32))
