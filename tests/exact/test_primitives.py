"""Each primitive of the core against the mathematics it denotes, on small exact numbers (no rounding) or with one rounding."""

from fractions import Fraction as F
from typing import Any

import numpy as np
import pytest
from gmpy2 import mpfr, mpq

from presk.exact import draws
from presk.exact.faults import Fault
from presk.exact.interpreter import Stopped
from presk.exact.primitives.table import EXACT
from presk.exact.values import Index, Items, Key, Mask, Number, Real, Record, Truth, uniform
from presk.prims.attrs import Align, AxisName, AxisNames, Length, Place, Select, Word
from presk.prims.core_rows import CORE
from presk.types.dim import constant, symbol
from presk.types.trees import Init, ParamField
from presk.types.type import Hyper, HyperKind, ModuleRef, Named, Params, Stacked, Tuple
from presk.types.type import Key as KeyType
from presk.types.type import Stack as StackType
from tests.exact.support import (
    Body,
    dim,
    evaluate,
    fractions,
    grid,
    idx,
    mask,
    primitive,
    real,
    rounded,
    shape,
    tensor,
    whole,
)

KEY = Key(draws.master_key(11))
NAT, INT, RAT, F64 = (Hyper(kind) for kind in (HyperKind.NAT, HyperKind.INT, HyperKind.RAT, HyperKind.F64))


def test_every_primitive_of_the_core_has_its_value():
    assert set(EXACT) == set(CORE)


def one(name, result, operands, /, **attrs):
    return fractions(primitive(name, result, operands, **attrs))


# --- element by element -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, value", [("add", F(3)), ("sub", F(-1)), ("mul", F(2)), ("div", F(1, 2)), ("max", F(2)), ("min", F(1))]
)
def test_binary_scalars(name, value):
    operands = [(real(), tensor(1)), (real(), tensor(2))]
    assert one(name, real(), operands, left=whole(0), right=whole(0)) == value


def test_alignment_comes_from_the_attributes():
    """A square matrix and a vector: only the attribute says along which axis the vector lies."""
    x, v = grid(2, 2), tensor([10, 20])
    types = [(real(2, 2), x), (real(2), v)]
    last = one("add", real(2, 2), types, left=whole(2), right=Align(False, (-1,)))
    first = one("add", real(2, 2), types, left=whole(2), right=Align(False, (-2,)))
    assert last == [[11, 22], [13, 24]]
    assert first == [[11, 12], [23, 24]]


def test_alignment_by_name_may_permute_and_insert():
    x = grid(2, 3, 4)
    y = grid(4, 2)
    found = one(
        "sub",
        real(("a", 2), ("b", 3), ("c", 4)),
        [(real(("a", 2), ("b", 3), ("c", 4)), x), (real(("c", 4), ("a", 2)), y)],
        left=whole(3),
        right=Align(False, (-1, -3)),
    )
    xs, ys = np.array(fractions(x)), np.array(fractions(y))
    assert found == (xs - ys.T[:, np.newaxis, :]).tolist()


def test_the_smaller_operand_may_stand_first():
    found = one(
        "sub",
        real(2, 2),
        [(real(2), tensor([1, 2])), (real(2, 2), grid(2, 2))],
        left=Align(False, (-1,)),
        right=whole(2),
    )
    assert found == [[0, 0], [-2, -2]]


def with_prefix(name, left, right, result, left_value, right_value, left_align, right_align):
    """A primitive in a function whose open prefix is read off its arguments."""
    body = Body("f", ("x", left), ("y", right))
    body.prim(result, name, 0, 1, left=left_align, right=right_align)
    return fractions(evaluate(body.done(), left_value, right_value))


@pytest.mark.parametrize("lengths", [(), (2,), (2, 3), (1, 0)])
def test_an_operand_that_is_the_prefix(lengths):
    """x − μ of `ℝ[..., 4]` and `ℝ[...]`, whatever the leading axes."""
    x, mean = grid(*lengths, 4), grid(*lengths)
    found = with_prefix(
        "sub", real(4, prefix=True), real(prefix=True), real(4, prefix=True), x, mean, whole(1, True), Align(True, ())
    )
    xs, means = np.array(fractions(x)).reshape(*lengths, 4), np.array(fractions(mean)).reshape(lengths)
    assert found == (xs - means[..., np.newaxis]).tolist()


@pytest.mark.parametrize("lengths", [(), (2,), (4, 4)])
def test_an_operand_without_the_prefix(lengths):
    x, gain = grid(*lengths, 4), tensor([1, 2, 3, 4])
    found = with_prefix(
        "mul", real(4, prefix=True), real(4), real(4, prefix=True), x, gain, whole(1, True), Align(False, (-1,))
    )
    assert found == (np.array(fractions(x)) * np.array([1, 2, 3, 4])).tolist()


TREE_MODULE = ModuleRef("m.psk", "M")


class Header:
    """A module with fields w and b."""

    dims = ("N",)
    model = None
    fields = (
        ParamField("w", real("N", "N"), Init("xavier_uniform")),
        ParamField("b", real("N"), Init("ones")),
    )


HEADERS = {TREE_MODULE: Header()}
TREE = Params(Named(TREE_MODULE, (dim(2),)))


def tree(w, b):
    return Record({"w": tensor(w), "b": tensor(b)})


def in_tree(name, result, operands, /, **attrs):
    body = Body("f", *((f"x{at}", type_) for at, (type_, _) in enumerate(operands)))
    body.prim(result, name, *range(len(operands)), **attrs)
    return evaluate(body.done(), *(value for _, value in operands), headers=HEADERS)


def tree_fractions(value):
    return {name: fractions(leaf) for name, leaf in value.fields.items()}


def test_trees_are_added_leaf_by_leaf():
    one_tree, other = tree([[1, 2], [3, 4]], [5, 6]), tree([[10, 20], [30, 40]], [50, 60])
    total = in_tree("add", TREE, [(TREE, one_tree), (TREE, other)])
    assert tree_fractions(total) == {"w": [[11, 22], [33, 44]], "b": [55, 66]}
    product = in_tree("mul", TREE, [(real(), tensor(3)), (TREE, one_tree)])
    assert tree_fractions(product) == {"w": [[3, 6], [9, 12]], "b": [15, 18]}
    quotient = in_tree("div", TREE, [(TREE, one_tree), (real(), tensor(2))])
    assert tree_fractions(quotient) == {"w": [[F(1, 2), 1], [F(3, 2), 2]], "b": [F(5, 2), 3]}
    square = in_tree("pow", TREE, [(TREE, one_tree)], n=Length(constant(2)))
    assert tree_fractions(square) == {"w": [[1, 4], [9, 16]], "b": [25, 36]}
    assert tree_fractions(in_tree("neg", TREE, [(TREE, one_tree)]))["b"] == [-5, -6]
    assert fractions(in_tree("sum_squares", real(), [(TREE, one_tree)])) == 91


def test_tuples_carry_what_is_no_real():
    type_ = Tuple((real(2), KeyType(), idx(3, 2)))
    value = Items((tensor([1, 2]), KEY, Index(np.array([0, 2]), 3)))
    total = primitive("add", type_, [(type_, value), (type_, value)])
    assert fractions(total.items[0]) == [2, 4]
    assert total.items[1] == KEY
    assert total.items[2] is value.items[2]


@pytest.mark.parametrize(
    "name, xs, ys",
    [
        ("relu", [-1, 0, 2], [0, 0, 2]),
        ("heaviside", [-1, 0, 2], [0, 0, 1]),
        ("sign", [-3, 0, 2], [-1, 0, 1]),
        ("abs", [-3, 0, 2], [3, 0, 2]),
        ("neg", [-3, 0, 2], [3, 0, -2]),
        ("sqrt", [0, 9, 16], [0, 3, 4]),
    ],
)
def test_kinks_have_one_rule(name, xs, ys):
    assert one(name, real(3), [(real(3), tensor(xs))]) == ys


def test_a_tie_is_the_second_operand():
    """max and min of equal numbers, told apart by their precision."""
    x, y = Real(tensor([1]).data), tensor([1], bits=40)
    for name in ("max", "min"):
        found = primitive(name, real(1), [(real(1), x), (real(1), y)], left=whole(1), right=whole(1))
        assert found.data[0] is y.data[0]


def test_powers():
    assert one("pow", real(3), [(real(3), tensor([0, -2, 3]))], n=Length(constant(0))) == [1, 1, 1]
    assert one("pow", real(3), [(real(3), tensor([0, -2, 3]))], n=Length(constant(3))) == [0, -8, 27]
    for n, ys in ((0, [1, 1]), (1, [0, F(3, 2)]), (5, [0, F(243, 32)])):
        assert one("powv", real(2), [(real(2), tensor([0, 1.5])), (NAT, Number(mpq(n)))]) == ys


def test_real_of_numbers_and_indices():
    assert one("real", real(), [(RAT, Number(mpq(1, 3)))]) == rounded(F(1, 3), 128)
    assert one("real", real(), [(INT, Number(mpq(-7)))]) == -7
    assert one("real", real(2), [(idx(9, 2), Index(np.array([0, 8]), 9))]) == [0, 8]


def test_retag_and_pi():
    x = tensor([1, 2])
    assert primitive("retag", real(("a", 2)), [(real(2), x)]) is x
    pi = primitive("pi", real(), [])
    assert str(pi.data.item()).startswith("3.14159265358979323846264338327950288")


# --- reductions ---------------------------------------------------------------------------------------------------------

CUBE = real(("a", 2), ("b", 3), ("c", 4))


@pytest.mark.parametrize("axis, place", [("a", 0), ("b", 1), ("c", 2)])
def test_sum_and_mean_along_an_axis(axis, place):
    x = grid(2, 3, 4)
    rest = real(*[one for one in (("a", 2), ("b", 3), ("c", 4)) if one[0] != axis])
    xs = np.array(fractions(x))
    assert one("sum", rest, [(CUBE, x)], axis=AxisName(axis)) == xs.sum(axis=place).tolist()
    means = xs.sum(axis=place) / F((2, 3, 4)[place])
    assert one("mean", rest, [(CUBE, x)], axis=AxisName(axis)) == [[rounded(v, 128) for v in row] for row in means]


def test_sum_and_mean_of_everything():
    assert one("sum", real(), [(CUBE, grid(2, 3, 4))], axis=AxisName(None)) == 300
    assert one("mean", real(), [(CUBE, grid(2, 3, 4))], axis=AxisName(None)) == F(25, 2)
    assert one("sum", real(), [(real(), tensor(5))], axis=AxisName(None)) == 5
    assert one("sum", real(), [(real(0, 3), tensor(np.zeros((0, 3))))], axis=AxisName(None)) == 0


def test_adjoints_of_reductions():
    t = grid(2, 3)
    named = real(("a", 2), ("b", 3))
    ct = tensor([1, 2])
    assert one("broadcast_like", named, [(real(("a", 2)), ct), (named, t)], axis=AxisName("b")) == [
        [1, 1, 1],
        [2, 2, 2],
    ]
    assert (
        one("mean_vjp", named, [(real(("b", 3)), tensor([2, 4, 6])), (named, t)], axis=AxisName("a")) == [[1, 2, 3]] * 2
    )
    assert one("broadcast_like", named, [(real(), tensor(7)), (named, t)], axis=AxisName(None)) == [[7] * 3] * 2
    assert one("mean_vjp", named, [(real(), tensor(3)), (named, t)], axis=AxisName(None)) == [[F(1, 2)] * 3] * 2


@pytest.mark.parametrize(
    "type_, align, expected",
    [
        (real(4), Align(False, (-1,)), lambda x: x.sum(axis=(0, 1))),
        (real(2), Align(False, (-3,)), lambda x: x.sum(axis=(1, 2))),
        (real(4, 2), Align(False, (-1, -3)), lambda x: x.sum(axis=1).T),
        (real(), Align(False, ()), lambda x: x.sum()),
        (real(3, 2, 4), Align(False, (-2, -3, -1)), lambda x: x.transpose(1, 0, 2)),
    ],
)
def test_sum_to_undoes_a_broadcast(type_, align, expected):
    ct = grid(2, 3, 4)
    t = tensor(np.zeros([int(axis.length.constant) for axis in type_.shape.axes]))
    found = one("sum_to", type_, [(real(2, 3, 4), ct), (type_, t)], align=align)
    assert found == np.asarray(expected(np.array(fractions(ct)))).tolist()


def test_sum_to_over_a_prefix():
    body = Body("f", ("ct", real(4, prefix=True)), ("t", real(4)))
    body.prim(real(4), "sum_to", 0, 1, align=Align(False, (-1,)))
    assert fractions(evaluate(body.done(), grid(2, 3, 4), tensor([0] * 4))) == [66, 72, 78, 84]
    kept = Body("f", ("ct", real(4, prefix=True)), ("t", real(prefix=True)))
    kept.prim(real(prefix=True), "sum_to", 0, 1, align=Align(True, ()))
    assert fractions(evaluate(kept.done(), grid(2, 3, 4), grid(2, 3))) == [[10, 26, 42], [58, 74, 90]]


def test_softmax_along_any_axis():
    x = grid(2, 3)
    named = real(("a", 2), ("b", 3))
    across = primitive("softmax", named, [(named, x)], axis=AxisName("a"))
    flipped = primitive(
        "softmax", real(("b", 3), ("a", 2)), [(real(("b", 3), ("a", 2)), Real(x.data.T))], axis=AxisName("a")
    )
    assert across.data.T.tolist() == flipped.data.tolist()
    assert all(abs(sum(column) - 1) < 1e-30 for column in across.data.T.tolist())


def test_softmax_with_a_mask_that_broadcasts():
    scores = real(("h", 2), ("s", 2), ("s2", 3))
    where = Mask(np.array([[True, False, False], [True, False, True]]))
    found = primitive(
        "softmax",
        scores,
        [(scores, tensor(np.zeros((2, 2, 3)))), (mask(("s", 2), ("s2", 3)), where)],
        axis=AxisName("s2"),
        mask=Align(False, (-2, -1)),
    )
    assert fractions(found) == [[[1, 0, 0], [F(1, 2), 0, F(1, 2)]]] * 2


def test_softmax_with_a_transposed_mask():
    scores = real(("s2", 3), ("s", 2))
    where = Mask(np.array([[True, False, False], [True, False, True]]))
    found = primitive(
        "softmax",
        scores,
        [(scores, tensor(np.zeros((3, 2)))), (mask(("s", 2), ("s2", 3)), where)],
        axis=AxisName("s2"),
        mask=Align(False, (-1, -2)),
    )
    assert np.array(fractions(found)).T.tolist() == [[1, 0, 0], [F(1, 2), 0, F(1, 2)]]


def test_a_row_that_its_mask_empties_is_named():
    scores = real(("h", 2), ("s2", 3), ("s", 2))
    where = Mask(np.array([[True, True], [False, True], [True, True]]) & np.array([[True, False]] * 3))
    with pytest.raises(Stopped) as caught:
        primitive(
            "softmax",
            scores,
            [(scores, grid(2, 3, 2)), (mask(("s2", 3), ("s", 2)), where)],
            axis=AxisName("s2"),
            mask=Align(False, (-2, -1)),
        )
    fault = caught.value.fault
    assert (fault.code, fault.index, fault.axes) == ("E7004", (0, 1), ("h", "s"))


def test_cross_entropy_and_its_adjoint():
    logits, y = tensor(np.zeros((2, 3, 4))), Index(np.array([[0, 1, 3], [2, 2, 0]]), 4)
    type_, targets = real(("b", 2), ("s", 3), ("v", 4)), idx(4, ("b", 2), ("s", 3))
    entropy = primitive("cross_entropy", real(("b", 2), ("s", 3)), [(type_, logits), (targets, y)])
    assert entropy.data.shape == (2, 3)
    assert all(str(value).startswith("1.386294361119890618834464242916353136") for value in entropy.data.ravel())
    back = one("cross_entropy_vjp", type_, [(type_, logits), (targets, y), (real(("b", 2), ("s", 3)), grid(2, 3))])
    assert back[0][1] == [F(1, 2), F(-3, 2), F(1, 2), F(1, 2)]
    assert back[1][2] == [F(-9, 2), F(3, 2), F(3, 2), F(3, 2)]


def test_argmax_and_sample():
    x = tensor([[1, 3, 3], [2, 2, 0]])
    found = primitive("argmax", idx(3, 2), [(real(2, 3), x)])
    assert (found.data.tolist(), found.bound) == ([1, 0], 3)
    certain = tensor([[0, 100000, 0], [100000, 0, 0]])
    drawn = primitive("sample", idx(3, 2), [(KeyType(), KEY), (real(2, 3), certain)])
    assert (drawn.data.tolist(), drawn.bound) == ([1, 0], 3)


def test_sample_uses_the_draw_of_its_position():
    count, even = 40, tensor(np.zeros((2, 20, 8)))
    found = primitive("sample", idx(8, 2, 20), [(KeyType(), KEY), (real(2, 20, 8), even)])
    assert found.data.ravel().tolist() == [int(u * 8) for u in draws.units(KEY.data, count).tolist()]


# --- tables by index ----------------------------------------------------------------------------------------------------


def test_embed_one_hot_and_their_adjoint():
    w, t = grid(4, 2), Index(np.array([[3, 0, 3], [1, 3, 0]]), 4)
    table, indices = real(("v", 4), ("e", 2)), idx(4, 2, 3)
    rows = one("embed", real(2, 3, ("e", 2)), [(table, w), (indices, t)])
    assert rows == np.array(fractions(w))[t.data].tolist()
    hot = primitive("one_hot", real(2, 3, 4), [(indices, t)])
    product = fractions(primitive("dot", real(2, 3, ("e", 2)), [(real(2, 3, 4), hot), (table, w)]))
    assert product == rows
    back = one("embed_vjp", table, [(indices, t), (real(2, 3, 2), grid(2, 3, 2)), (table, w)])
    assert back == [[3 + 11, 4 + 12], [7, 8], [0, 0], [1 + 5 + 9, 2 + 6 + 10]]


def test_one_index_and_none():
    w = grid(4, 2)
    assert one("embed", real(2), [(real(4, 2), w), (idx(4), Index(np.array(2), 4))]) == [5, 6]
    assert one("one_hot", real(4), [(idx(4), Index(np.array(2), 4))]) == [0, 0, 1, 0]
    none = Index(np.zeros((0,), np.int64), 4)
    assert fractions(primitive("embed", real(0, 2), [(real(4, 2), w), (idx(4, 0), none)])) == []
    zero = primitive(
        "embed_vjp", real(4, 2), [(idx(4, 0), none), (real(0, 2), tensor(np.zeros((0, 2)))), (real(4, 2), w)]
    )
    assert fractions(zero) == [[0, 0]] * 4
    assert primitive("one_hot", real(0, 4), [(idx(4, 0), none)]).data.shape == (0, 4)


def test_repeated_rows_are_summed_exactly():
    """1 + 2⁻¹⁰⁰ − 1 at 64 bits: added one by one the small term would be lost."""
    w, t = tensor([[0]]), Index(np.array([0, 0, 0]), 1)
    ct = tensor([[1], [mpfr(mpq(1, 2**100), 64)], [-1]])
    found = primitive("embed_vjp", real(1, 1), [(idx(1, 3), t), (real(3, 1), ct), (real(1, 1), w)], bits=64)
    assert fractions(found) == [[F(1, 2**100)]]


def test_positions_and_causal_mask():
    body = Body("f", dims=("T",))
    body.prim(idx("T", ("seq", "T")), "positions", axis=Length(symbol("T"), "seq"))
    for length in (0, 1, 3):
        found = evaluate(body.done(), dims={"T": length})
        assert (found.data.tolist(), found.bound) == (list(range(length)), length)
    body = Body("f", dims=("T",))
    body.prim(mask(("seq", "T"), ("seq2", "T")), "causal_mask", axis=Length(symbol("T"), "seq"))
    found = evaluate(body.done(), dims={"T": 3})
    assert found.data.tolist() == [[True, False, False], [True, True, False], [True, True, True]]


# --- contractions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "x_shape, w_shape", [((3,), (3,)), ((2, 3), (3, 4)), ((2, 5, 3), (3, 2, 2)), ((0, 3), (3, 2)), ((2, 0), (0, 3))]
)
def test_dot_and_its_adjoints(x_shape, w_shape):
    x, w = grid(*x_shape), grid(*w_shape)
    out_shape = x_shape[:-1] + w_shape[1:]
    xs, ws = np.arange(1, 1 + x.data.size).reshape(x_shape), np.arange(1, 1 + w.data.size).reshape(w_shape)
    out = real(*out_shape)
    assert one("dot", out, [(real(*x_shape), x), (real(*w_shape), w)]) == np.tensordot(xs, ws, 1).tolist()
    ct = grid(*out_shape)
    cts = np.arange(1, 1 + ct.data.size).reshape(out_shape)
    inner, outer = len(w_shape) - 1, len(x_shape) - 1
    left = np.tensordot(cts, ws, (list(range(cts.ndim - inner, cts.ndim)), list(range(1, ws.ndim))))
    right = np.tensordot(xs, cts, (list(range(outer)), list(range(outer))))
    found = primitive("dot_vjp_l", real(*x_shape), [(out, ct), (real(*w_shape), w)])
    assert found.data.shape == x_shape
    assert fractions(found) == left.tolist()
    found = primitive("dot_vjp_r", real(*w_shape), [(real(*x_shape), x), (out, ct)])
    assert found.data.shape == w_shape
    assert fractions(found) == right.tolist()


@pytest.mark.parametrize(
    "pattern",
    [
        "ab,bc->ac",
        "ab,ab->ab",
        "ab,ab->a",
        "ab,ab->",
        "abc,bd->dca",
        "bhqk,bhsk->bhqs",
        "bhqs,bhsk->bqhk",
        "a,b->ba",
        "a,b->",
        "ab,c->ca",
        "ab->ba",
        "ab->b",
        "abc->",
        "ab,bc,cd->ad",
        "ab,ab,ab->b",
        "a,ab,b->",
        "ab,cd,ef->ace",
        "ab,a,b,ba->a",
    ],
)
def test_ein(pattern):
    lengths = {name: at + 2 for at, name in enumerate(sorted(set(pattern) - set(",->")))}
    inputs, out = pattern.split("->")
    operands, arrays = [], []
    attrs: Any = {"out": AxisNames(tuple(out))}
    for at, names in enumerate(inputs.split(",")):
        size = tuple(lengths[name] for name in names)
        array = (np.arange(int(np.prod(size))).reshape(size) * 7 + at) % 5 - 2
        arrays.append(array)
        operands.append((real(*((name, lengths[name]) for name in names)), tensor(array.tolist())))
        attrs[f"in{at}"] = AxisNames(tuple(names))
    found = primitive("ein", real(*((name, lengths[name]) for name in out)), operands, **attrs)
    assert fractions(found) == np.einsum(pattern, *arrays).tolist()


@pytest.mark.parametrize("pattern", ["a,b->", "ab,bc,cd->ad", "ab,ab,ab->b", "abc->a"])
def test_ein_rounds_once(pattern):
    """Thirds at 30 bits: any rounding of a partial result would show."""
    lengths = dict.fromkeys(pattern, 3)
    inputs, out = pattern.split("->")
    operands, exact = [], []
    attrs: Any = {"out": AxisNames(tuple(out))}
    for at, names in enumerate(inputs.split(",")):
        size = (3,) * len(names)
        values = [F(2 * k + at + 1, 3 * k + 7) for k in range(3 ** len(names))]
        value = tensor(np.array(values, dtype=object).reshape(size).tolist(), bits=64)
        operands.append((real(*((name, lengths[name]) for name in names)), value))
        exact.append(np.array(fractions(value), dtype=object))
        attrs[f"in{at}"] = AxisNames(tuple(names))
    found = primitive("ein", real(*((name, 3) for name in out)), operands, bits=30, **attrs)
    wanted = np.einsum(pattern, *exact)
    flat = np.asarray(wanted, dtype=object).ravel().tolist()
    assert np.asarray(fractions(found), dtype=object).ravel().tolist() == [rounded(v, 30) for v in flat]


# --- moving -------------------------------------------------------------------------------------------------------------


def test_merge_split_and_their_adjoint():
    x = grid(2, 3, 4)
    named = real(("a", 2), ("b", 3), ("c", 4))
    joined = one("merge", real(("a", 2), 12), [(named, x)], first=AxisName("b"), second=AxisName("c"))
    assert joined == np.array(fractions(x)).reshape(2, 12).tolist()
    halves = one(
        "split",
        real(("a", 2), ("b", 3), ("p", 2), ("q", 2)),
        [(named, x)],
        axis=AxisName("c"),
        outer=Length(constant(2), "p"),
        inner=Length(constant(2), "q"),
    )
    assert halves == np.array(fractions(x)).reshape(2, 3, 2, 2).tolist()
    back = one("reshape_like", named, [(real(("a", 2), 12), grid(2, 12)), (named, x)])
    assert back == fractions(x)


def test_heads():
    x = grid(2, 3, 4)
    sizes: Any = {"heads": Length(constant(2), "heads"), "hd": Length(constant(2), "hd")}
    headed = real(2, ("heads", 2), ("seq", 3), ("hd", 2))
    apart = primitive("split_heads", headed, [(real(2, ("seq", 3), ("model", 4)), x)], **sizes)
    xs = np.array(fractions(x))
    assert fractions(apart) == xs.reshape(2, 3, 2, 2).transpose(0, 2, 1, 3).tolist()
    assert one("merge_heads", real(2, ("seq", 3), ("model", 4)), [(headed, apart)], **sizes) == fractions(x)


def test_concat():
    one_half, other = grid(2, 3), grid(2, 1)
    found = one(
        "concat", real(2, ("a", 4)), [(real(2, ("a", 3)), one_half), (real(2, ("a", 1)), other)], axis=AxisName("a")
    )
    assert found == [[1, 2, 3, 1], [4, 5, 6, 2]]


def selects(*items) -> Any:
    return {
        f"s{at}": Select(axis, place, dim(low), None if high is None else dim(high))
        for at, (axis, place, low, high) in enumerate(items)
    }


def test_slices_and_indices():
    x = grid(4, 5)
    matrix = real(("a", 4), ("b", 5))
    xs = np.array(fractions(x))
    cases = [
        ("slice", real(("a", 2), ("b", 5)), selects(("a", -2, 1, 3)), xs[1:3]),
        ("slice", real(("a", 4), ("b", 0)), selects(("b", -1, 5, 5)), xs[:, 5:5]),
        ("slice", real(("a", 1), ("b", 2)), selects(("b", -1, 0, 2), ("a", -2, 3, 4)), xs[3:4, 0:2]),
        ("index", real(("b", 5)), selects(("a", -2, 2, None)), xs[2]),
        ("index", real(("a", 4)), selects(("b", -1, -1, None)), xs[:, -1]),
        ("index", real(), selects(("a", -2, 3, None), ("b", -1, -5, None)), xs[3, 0]),
    ]
    for name, result, attrs, expected in cases:
        assert one(name, result, [(matrix, x)], **attrs) == np.asarray(expected).tolist()


def test_adjoints_of_selections_place_into_zeros():
    x = grid(3, 3)
    matrix = real(("a", 3), ("b", 3))
    ct = grid(2, 3)
    found = one("slice_vjp", matrix, [(real(("a", 2), ("b", 3)), ct), (matrix, x)], **selects(("a", -2, 1, 3)))
    assert found == [[0, 0, 0], [1, 2, 3], [4, 5, 6]]
    found = one("scatter_index", matrix, [(real(("b", 3)), grid(3)), (matrix, x)], **selects(("a", -2, -1, None)))
    assert found == [[0, 0, 0], [0, 0, 0], [1, 2, 3]]
    found = one(
        "scatter_index", matrix, [(real(), tensor(9)), (matrix, x)], **selects(("a", -2, 0, None), ("b", -1, 1, None))
    )
    assert found == [[0, 9, 0], [0, 0, 0], [0, 0, 0]]


def test_indices_and_masks_are_selected_too():
    t = Index(np.array([[0, 1], [2, 3]]), 4)
    found = primitive("index", idx(4, 2), [(idx(4, ("a", 2), 2), t)], **selects(("a", -2, 1, None)))
    assert (found.data.tolist(), found.bound) == ([2, 3], 4)
    m = Mask(np.array([[True, False], [False, True]]))
    part = primitive("slice", mask(1, 2), [(mask(("a", 2), 2), m)], **selects(("a", -2, 1, 2)))
    assert part.data.tolist() == [[False, True]]


def test_selection_behind_a_prefix():
    body = Body("f", ("x", real(("s", 3), 2, prefix=True)))
    body.prim(real(2, prefix=True), "index", 0, **selects(("s", -2, -1, None)))
    assert fractions(evaluate(body.done(), grid(3, 2))) == [5, 6]
    assert fractions(evaluate(body.done(), grid(2, 3, 2))) == [[5, 6], [11, 12]]


# --- draws --------------------------------------------------------------------------------------------------------------


def test_draws_are_those_of_the_key():
    found = primitive("normal", real(2, 3), [(KeyType(), KEY)], std=Word("0.02"))
    assert [float(x) for x in found.data.ravel()] == draws.scaled_normals(KEY.data, 6, mpq("0.02")).tolist()
    for lengths, fans in (((4, 3, 2), (4, 2)), ((5,), (5, 5)), ((), (1, 1))):
        uniform_draws = primitive("xavier_uniform", real(*lengths), [(KeyType(), KEY)])
        expected = draws.xavier_uniform(KEY.data, int(np.prod(lengths)), *fans).tolist()
        assert [float(x) for x in uniform_draws.data.ravel()] == expected


def test_draws_are_binary64_numbers_at_any_precision():
    for bits in (2, 24, 300):
        found = primitive("normal", real(4), [(KeyType(), KEY)], bits=bits, std=Word("1"))
        assert [F(float(x)) for x in found.data] == fractions(found)


def test_dropout_mask():
    x = tensor(np.zeros((3, 4)))
    found = primitive("dropout_mask", real(3, 4), [(F64, Number(mpq(1, 3))), (KeyType(), KEY), (real(3, 4), x)])
    dropped = [u < 1 / 3 for u in draws.units(KEY.data, 12).tolist()]
    assert np.array(fractions(found)).ravel().tolist() == [0 if one else F(3, 2) for one in dropped]
    again = primitive("dropout_mask", real(3, 4), [(F64, Number(mpq(1, 3))), (KeyType(), KEY), (real(3, 4), x)])
    assert fractions(again) == fractions(found)
    none = primitive("dropout_mask", real(3, 4), [(F64, Number(mpq(0))), (KeyType(), KEY), (real(3, 4), x)])
    assert fractions(none) == [[1] * 4] * 3


@pytest.mark.parametrize("rate", [mpq(1), mpq(-1, 10), mpq(3)])
def test_a_rate_outside_its_range(rate):
    with pytest.raises(Stopped) as caught:
        primitive("dropout_mask", real(1), [(F64, Number(rate)), (KeyType(), KEY), (real(1), tensor([1]))])
    assert caught.value.fault.code == "E7009"


def test_split_key():
    found = primitive("split_key", Tuple((KeyType(),) * 3), [(KeyType(), KEY)], n=Length(constant(3)))
    assert found.items == tuple(map(Key, draws.split_key(KEY.data, 3)))


# --- trees and stacks ---------------------------------------------------------------------------------------------------


def test_what_the_type_decides():
    zero = in_tree("zeros", TREE, [])
    assert tree_fractions(zero) == {"w": [[0, 0], [0, 0]], "b": [0, 0]}
    assert all(uniform(leaf.data) for leaf in zero.fields.values())
    assert tree_fractions(in_tree("ones", TREE, [])) == {"w": [[1, 1], [1, 1]], "b": [1, 1]}
    stacked = Params(Stacked(constant(3), Named(TREE_MODULE, (dim(2),))))
    assert in_tree("stack_zero", stacked, []).fields["w"].data.shape == (3, 2, 2)
    keys = in_tree("stack_zero", Tuple((StackType(constant(2), KeyType()), idx(5, 3), mask(2), NAT)), [])
    assert keys.items[0].items == (Key(bytes(32)),) * 2
    assert keys.items[1].data.tolist() == [0, 0, 0]
    assert keys.items[2].data.tolist() == [False, False]
    assert keys.items[3] == Number(mpq(0))


def test_zeros_like_and_replacing_parts():
    whole_tree = tree([[1, 2], [3, 4]], [5, 6])
    assert tree_fractions(in_tree("zeros_like", TREE, [(TREE, whole_tree)])) == {"w": [[0, 0], [0, 0]], "b": [0, 0]}
    other = in_tree("set_field", TREE, [(TREE, whole_tree), (real(2), tensor([7, 8]))], name=Word("b"))
    assert tree_fractions(other) == {"w": [[1, 2], [3, 4]], "b": [7, 8]}
    assert other.fields["w"] is whole_tree.fields["w"]
    pair = Tuple((real(), real()))
    found = primitive("set_elem", pair, [(pair, Items((tensor(1), tensor(2)))), (real(), tensor(9))], place=Place(0))
    assert [fractions(item) for item in found.items] == [9, 2]
    key = primitive("zeros_like", KeyType(), [(KeyType(), KEY)])
    assert key == Key(bytes(32))


def test_stacked_trees():
    one_tree, other = tree([[1, 2], [3, 4]], [5, 6]), tree([[10, 20], [30, 40]], [50, 60])
    stacked = Params(Stacked(constant(2), Named(TREE_MODULE, (dim(2),))))
    stack = in_tree("stack_params", stacked, [(TREE, one_tree), (TREE, other)], n=Length(constant(2)))
    assert tree_fractions(stack)["b"] == [[5, 6], [50, 60]]
    assert tree_fractions(in_tree("slice_params", TREE, [(stacked, stack)], i=Place(1))) == tree_fractions(other)
    placed = in_tree("scatter_params", stacked, [(TREE, other), (stacked, stack)], i=Place(0))
    assert tree_fractions(placed)["b"] == [[50, 60], [0, 0]]
    exchanged = in_tree("set_slice", stacked, [(stacked, stack), (TREE, other), (NAT, Number(mpq(0)))])
    assert tree_fractions(exchanged)["b"] == [[50, 60], [50, 60]]
    assert tree_fractions(in_tree("get_slice", TREE, [(stacked, stack), (NAT, Number(mpq(0)))])) == tree_fractions(
        one_tree
    )


def test_a_stack_of_no_tree_has_the_types_form():
    stacked = Params(Stacked(constant(0), Named(TREE_MODULE, (dim(2),))))
    stack = in_tree("stack_params", stacked, [], n=Length(constant(0)))
    assert {name: leaf.data.shape for name, leaf in stack.fields.items()} == {"w": (0, 2, 2), "b": (0, 2)}


# --- hyperparameters ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, kind, left, right, expected",
    [
        ("add", NAT, 7, 2, F(9)),
        ("sub", INT, 2, 7, F(-5)),
        ("mul", NAT, 7, 2, F(14)),
        ("div", INT, 7, 2, F(3)),
        ("div", INT, -7, 2, F(-4)),
        ("div", RAT, -7, 2, F(-7, 2)),
        ("div", F64, F(1, 10), F(3), F(1, 30)),
        ("pow", NAT, 3, 5, F(243)),
        ("pow", RAT, F(-1, 2), 3, F(-1, 8)),
        ("pow", NAT, 0, 0, F(1)),
    ],
)
def test_hyperparameters_are_exact(name, kind, left, right, expected):
    found = primitive(f"hyper_{name}", kind, [(kind, Number(mpq(left))), (kind, Number(mpq(right)))])
    assert found == Number(mpq(expected))


def test_tenths_are_exact():
    assert primitive("hyper_neg", F64, [(F64, Number(mpq("0.1")))]) == Number(mpq(-1, 10))


@pytest.mark.parametrize("name, results", [("eq", "010"), ("le", "110"), ("ge", "011"), ("lt", "100"), ("gt", "001")])
def test_comparisons(name, results):
    for left, expected in zip((1, 2, 3), results):
        found = primitive(f"hyper_{name}", Hyper(HyperKind.BOOL), [(NAT, Number(mpq(left))), (NAT, Number(mpq(2)))])
        assert found == Truth(expected == "1")


def test_faults_of_hyperparameters():
    for name, left, right, code in (("div", 1, 0, "E7001"), ("pow", 10, 10**9, "E7006")):
        with pytest.raises(Stopped) as caught:
            primitive(f"hyper_{name}", NAT, [(NAT, Number(mpq(left))), (NAT, Number(mpq(right)))])
        assert caught.value.fault.code == code
    assert isinstance(caught.value.fault, Fault)


def test_shapes_are_those_of_the_type():
    """Types at run time: a symbol without a value fails where it is used, and only there."""
    body = Body("f", ("x", real("N")), dims=("N", "M"))
    body.prim(real("N"), "neg", 0)
    assert fractions(evaluate(body.done(), tensor([1, 2]), dims={"N": 2})) == [-1, -2]
    body.prim(real("M"), "zeros")
    with pytest.raises(Stopped) as caught:
        evaluate(body.done(), tensor([1, 2]), dims={"N": 2})
    assert caught.value.fault.code == "E7008"
    assert "`M`" in caught.value.fault.message
    assert shape("N").axes[0].length == symbol("N")
