import json
from typing import Any

import numpy as np
from gmpy2 import mpq

from presk.exact import given, output
from presk.exact.given import Given
from presk.exact.output import to_json, to_text
from presk.exact.reals import Reals
from presk.exact.scope import Scope
from presk.exact.values import Index, Items, Key, Mask, Number, Real, Record, Truth
from presk.types.dim import constant
from presk.types.type import Hyper, HyperKind, Named, Params, Tuple
from presk.types.type import Key as KeyType
from tests.exact.support import fractions, grid, idx, mask, real, tensor
from tests.exact.test_primitives import HEADERS, TREE_MODULE

SCOPE = Scope({"B": 2, "N": 2}, (), HEADERS)
TREE = Params(Named(TREE_MODULE, (constant(2),)))


def loaded(value, type_, bits=64, **options):
    return json.loads(to_json("f", value, type_, SCOPE, bits, **options))


# --- JSON -----------------------------------------------------------------------------------------------------------------


def test_tensors():
    assert loaded(tensor([[1, 2.5], [0, -3]]), real(("batch", "B"), 2)) == {
        "entry": "f",
        "result": {
            "type": "ℝ[batch: 2, 2]",
            "axes": ["batch", None],
            "shape": [2, 2],
            "data": [["1", "2.5"], ["0", "-3"]],
        },
    }
    assert loaded(tensor(7), real())["result"] == {"type": "ℝ[]", "axes": [], "shape": [], "data": "7"}
    index = Index(np.array([[0, 3]]), 5)
    assert loaded(index, idx(5, ("b", 1), 2))["result"] == {
        "type": "idx[5][b: 1, 2]",
        "axes": ["b", None],
        "shape": [1, 2],
        "data": [[0, 3]],
    }
    truth = Mask(np.array([True, False]))
    assert loaded(truth, mask(("s", 2)))["result"]["data"] == [True, False]


def test_empty_tensors_keep_their_shape():
    for lengths, data in (((0,), []), ((2, 0), [[], []]), ((0, 2), []), ((1, 2, 0), [[[], []]])):
        found = loaded(grid(*lengths), real(*lengths))["result"]
        assert (found["shape"], found["data"]) == (list(lengths), data)


def test_a_prefix_is_shown_by_the_lengths_it_has():
    assert loaded(grid(3, 2), real(("model", 2), prefix=True))["result"]["axes"] == [None, "model"]


def test_everything_else():
    type_ = Tuple(
        (
            TREE,
            Tuple(()),
            Hyper(HyperKind.NAT),
            Hyper(HyperKind.F64),
            Hyper(HyperKind.RAT),
            Hyper(HyperKind.BOOL),
            KeyType(),
        )
    )
    value = Items(
        (
            Record({"w": grid(2, 2), "b": tensor([5, 6])}),
            Items(()),
            Number(mpq(7)),
            Number(mpq(-1, 40)),
            Number(mpq(1, 3)),
            Truth(True),
            Key(bytes(range(32))),
        )
    )
    tree, nothing, *rest = loaded(value, type_)["result"]
    assert list(tree) == ["w", "b"]
    assert tree["b"]["data"] == ["5", "6"]
    assert nothing == []
    assert rest == [7, "-0.025", "1/3", True, bytes(range(32)).hex()]


def test_bounds_stand_beside_the_data():
    bounds = tensor([mpq(1, 2**70), 0]).data
    found = loaded(tensor([1, 2]), real(2), bounds=bounds)["result"]
    assert found["bounds"] == ["8.48e-22", "0"]


def test_what_is_printed_is_read_back():
    """At its own precision, every value of a result is an input with the same bits."""
    m = Reals(200)
    with m.active():
        x = m.apply("exp", m.div(grid(2, 3).data, tensor(7).data))
    type_ = Tuple(
        (
            real(2, 3),
            idx(9, 2),
            mask(2),
            TREE,
            KeyType(),
            Hyper(HyperKind.INT),
            Hyper(HyperKind.F64),
            Hyper(HyperKind.BOOL),
        )
    )
    tree = Record({"w": Real(x[:, :2]), "b": tensor([0, -1])})
    value = Items(
        (
            Real(x),
            Index(np.array([8, 0]), 9),
            Mask(np.array([True, False])),
            tree,
            Key(bytes(32)),
            Number(mpq(-4)),
            Number(mpq(1, 3)),
            Truth(False),
        )
    )
    raw = given.raw_of_file(Given("r.json", to_json("f", value, type_, SCOPE, 200).encode()))
    with m.active():
        back: Any = given.value_of(m, SCOPE, raw, type_, "r")
    assert back.items[0].data.tolist() == x.tolist()
    assert (back.items[1].data.tolist(), back.items[1].bound) == ([8, 0], 9)
    assert back.items[2].data.tolist() == [True, False]
    assert {name: fractions(leaf) for name, leaf in back.items[3].fields.items()} == {
        name: fractions(leaf) for name, leaf in tree.fields.items()
    }
    assert back.items[4:] == value.items[4:]


# --- text -----------------------------------------------------------------------------------------------------------------


def text(value, type_, **options):
    return to_text("f", value, type_, SCOPE, 64, **options)


def test_scalars_in_full():
    assert text(tensor(0.25), real()) == "f : ℝ[] = 0.25\n"
    assert text(tensor(mpq(1, 3)), real()) == "f : ℝ[] = 0.333333333333333333342\n"
    assert text(Number(mpq(1, 3)), Hyper(HyperKind.RAT)) == "f : rat = 1/3\n"
    assert text(Truth(True), Hyper(HyperKind.BOOL)) == "f : bool = true\n"
    assert text(Index(np.array(3), 5), idx(5)) == "f : idx[5] = 3\n"
    assert text(Key(bytes(32)), KeyType()) == f"f : key = {'00' * 32}\n"


def test_rows_are_aligned():
    assert text(tensor([[1, -20], [0.5, 3]]), real(("a", 2), 2)) == (
        "f : ℝ[a: 2, 2] =\n  [[  1, -20],\n   [0.5,   3]]\n"
    )
    assert text(Mask(np.array([[True, False]])), mask(1, 2)) == "f : bool[1, 2] =\n  [[ true, false]]\n"
    assert text(grid(1, 2, 2), real(1, 2, 2)) == "f : ℝ[1, 2, 2] =\n  [[[1, 2],\n    [3, 4]]]\n"
    assert text(grid(2, 1, 2), real(2, 1, 2)) == "f : ℝ[2, 1, 2] =\n  [[[1, 2]],\n   [[3, 4]]]\n"


def test_long_axes_are_shortened_to_their_ends():
    assert text(Index(np.arange(20), 20), idx(20, 20)) == "f : idx[20][20] =\n  [ 0,  1,  2, …, 17, 18, 19]\n"
    lines = text(grid(9, 2), real(9, 2)).splitlines()
    assert lines == [
        "f : ℝ[9, 2] =",
        "  [[ 1,  2],",
        "   [ 3,  4],",
        "   [ 5,  6],",
        "   …",
        "   [13, 14],",
        "   [15, 16],",
        "   [17, 18]]",
    ]
    assert "…" not in text(grid(9, 2), real(9, 2), full=True)
    assert "…" not in text(grid(8), real(8))


def test_elements_have_ten_digits_unless_all_are_asked_for():
    third = tensor([mpq(1, 3)])
    assert text(third, real(1)) == "f : ℝ[1] =\n  [0.3333333333]\n"
    assert text(third, real(1), full=True) == "f : ℝ[1] =\n  [0.333333333333333333342]\n"


def test_wide_rows_are_broken():
    lines = text(tensor([[mpq(k, 7) for k in range(1, 9)]] * 2), real(2, 8)).splitlines()
    assert all(len(line) <= 100 for line in lines)
    assert len(lines) == 5
    assert lines[2].startswith("    ")


def test_empty_tensors_and_structures():
    assert text(grid(0), real(0)) == "f : ℝ[0] =\n  []\n"
    assert text(grid(2, 0), real(2, 0)) == "f : ℝ[2, 0] =\n  [[],\n   []]\n"
    assert text(grid(0, 2), real(0, 2)) == "f : ℝ[0, 2] =\n  []\n"
    assert text(Items(()), Tuple(())) == "f : () = ()\n"
    assert text(Record({}), TREE) == "f : params M{2} = {}\n"


def test_parts_have_a_line_each():
    type_ = Tuple((TREE, real()))
    value = Items((Record({"w": grid(2, 2), "b": tensor([5, 6])}), tensor(1)))
    assert text(value, type_) == (
        "f.0.w : ℝ[2, 2] =\n  [[1, 2],\n   [3, 4]]\nf.0.b : ℝ[2] =\n  [5, 6]\nf.1 : ℝ[] = 1\n"
    )


def test_bounds_are_told():
    bounds = tensor([mpq(1, 2**70), mpq(1, 2**80)]).data
    assert (
        text(tensor([1, 2]), real(2), bounds=bounds).splitlines()[-1] == "  within 8.48e-22 of the exact values, proved"
    )
    one = tensor(mpq(1, 2**70)).data
    assert text(tensor(1), real(), bounds=one).splitlines()[-1] == "  within 8.48e-22 of the exact value, proved"


def test_fractions():
    for value, expected in (
        (mpq(0), "0"),
        (mpq(-5), "-5"),
        (mpq(1, 8), "0.125"),
        (mpq(-1, 20), "-0.05"),
        (mpq(123, 100), "1.23"),
        (mpq(2, 7), "2/7"),
        (mpq(1, 10**12), "0.000000000001"),
    ):
        assert output.fraction(Number(value)) == expected
