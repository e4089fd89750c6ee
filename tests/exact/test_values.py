import numpy as np
import pytest
from gmpy2 import mpfr, mpq

from presk.exact import values
from presk.exact.values import Index, Items, Key, Mask, Number, Real, Record, Stack, Truth
from tests.exact.support import fractions, tensor

TREE = Record({"w": tensor([[1, 2], [3, 4]]), "l": Record({"b": tensor([5])})})
EVERYTHING = Items(
    (
        TREE,
        Index(np.array([1, 0]), 4),
        Mask(np.array([True, False])),
        Number(mpq(1, 3)),
        Truth(True),
        Key(bytes(range(32))),
    )
)


def zeros(shape):
    return values.filled(shape, mpfr(0))


def test_one_element_seen_many_times():
    many = values.filled((3, 4), mpfr(7))
    assert values.uniform(many)
    assert many.base is not None
    assert many.nbytes == 3 * 4 * 8  # what numpy would take for it; its buffer is one reference
    assert many.base.size == 1
    assert values.filled((), mpfr(7)).item() == 7
    assert values.filled((0, 2), mpfr(7)).shape == (0, 2)
    assert not values.uniform(np.zeros(1))
    assert not values.uniform(np.zeros(0))
    assert not values.uniform(np.zeros(3))


def test_leaves_in_order():
    assert [leaf.shape for leaf in values.leaves(EVERYTHING)] == [(2, 2), (1,)]
    doubled = values.map_leaves(EVERYTHING, lambda data: data + data)
    assert isinstance(doubled, Items)
    assert [leaf.tolist() for leaf in values.leaves(doubled)] == [[[2, 4], [6, 8]], [10]]
    assert doubled.items[1:] == EVERYTHING.items[1:]


def test_joining_structures():
    total = values.join_leaves(EVERYTHING, EVERYTHING, np.add)
    assert [leaf.tolist() for leaf in values.leaves(total)] == [[[2, 4], [6, 8]], [10]]
    assert isinstance(total, Items)
    assert total.items[5] is EVERYTHING.items[5]


@pytest.mark.parametrize("scalar_first", [True, False])
def test_a_scalar_meets_every_leaf(scalar_first):
    scalar = tensor(10)
    pair = (scalar, EVERYTHING) if scalar_first else (EVERYTHING, scalar)
    found = values.join_leaves(pair[0], pair[1], np.subtract)
    sign = 1 if scalar_first else -1
    assert [leaf.tolist() for leaf in values.leaves(found)] == [
        [[9 * sign, 8 * sign], [7 * sign, 6 * sign]],
        [5 * sign],
    ]
    assert isinstance(found, Items)
    assert found.items[5] is EVERYTHING.items[5]


def test_zeros_of_everything():
    zero = values.zero_of(EVERYTHING, zeros)
    assert isinstance(zero, Items)
    tree, index, mask, number, truth, key = zero.items
    assert [leaf.tolist() for leaf in values.leaves(tree)] == [[[0, 0], [0, 0]], [0]]
    assert isinstance(index, Index)
    assert (index.data.tolist(), index.bound) == ([0, 0], 4)
    assert isinstance(mask, Mask)
    assert mask.data.tolist() == [False, False]
    assert (number, truth) == (Number(mpq(1, 3)), Truth(True))
    assert key == Key(bytes(32))


def test_stacks_and_slices():
    other = values.map_leaves(EVERYTHING, lambda data: data + data)
    assert isinstance(other, Items)
    other = Items((*other.items[:5], Key(bytes(32))))
    stack = values.stack_of([EVERYTHING, other], EVERYTHING)
    assert [leaf.shape for leaf in values.leaves(stack)] == [(2, 2, 2), (2, 1)]
    assert isinstance(stack, Items)
    assert isinstance(stack.items[5], Stack)
    for place, one in enumerate((EVERYTHING, other)):
        found = values.slice_of(stack, place)
        assert isinstance(found, Items)
        assert [leaf.tolist() for leaf in values.leaves(found)] == [leaf.tolist() for leaf in values.leaves(one)]
        assert found.items[3:] == one.items[3:]
    exchanged = values.with_slice(stack, other, 0)
    assert [leaf[0].tolist() for leaf in values.leaves(exchanged)] == [leaf.tolist() for leaf in values.leaves(other)]
    assert [leaf[0].tolist() for leaf in values.leaves(stack)] == [leaf.tolist() for leaf in values.leaves(EVERYTHING)]
    with pytest.raises(IndexError):
        values.slice_of(stack, 2)


def test_a_stack_of_none_has_the_form():
    stack = values.stack_of([], EVERYTHING)
    assert [leaf.shape for leaf in values.leaves(stack)] == [(0, 2, 2), (0, 1)]
    assert isinstance(stack, Items)
    assert stack.items[5] == Stack(()) or isinstance(stack.items[5], Stack)
    index, mask = stack.items[1:3]
    assert isinstance(index, Index)
    assert isinstance(mask, Mask)
    assert (index.data.shape, mask.data.shape) == ((0, 2), (0, 2))


def test_slices_of_scalars_stay_tensors():
    stack = values.stack_of([tensor(1), tensor(2)], tensor(1))
    assert fractions(values.slice_of(stack, 1)) == 2
    assert fractions(values.with_slice(stack, tensor(9), 1)) == [1, 9]
    one = values.stack_of([tensor(1)], tensor(1))
    assert fractions(values.with_slice(one, tensor(4), 0)) == [4]


def test_zeros_in_stacks_take_no_memory():
    zero = zeros((5, 5))
    stack = values.stack_of([Real(zero), Real(zero)], Real(zero))
    assert isinstance(stack, Real)
    assert values.uniform(stack.data)
    same = values.with_slice(stack, Real(zero), 1)
    assert isinstance(same, Real)
    assert same.data is stack.data


def test_slices_share_elements():
    stack = values.stack_of([tensor([1, 2]), tensor([3, 4])], tensor([1, 2]))
    part = values.slice_of(stack, 1)
    assert isinstance(stack, Real)
    assert isinstance(part, Real)
    assert np.shares_memory(part.data, stack.data)
