"""The order of samples, and the batches of a stream."""

import struct
from itertools import islice, permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from presk.data.reading import DataFile
from presk.data.stream import EPOCHS, ORDER_NONCE, Position, Stream, order, sorted_by
from tests.data.support import stream_file
from tests.exact.test_draws import chacha_block

# --- the order ----------------------------------------------------------------------------------------------------------


def order_in_words(seed: int, epoch: int, count: int) -> list[int]:
    """The definition, on the block function of RFC 8439 written out from its text."""
    key = chacha_block(seed.to_bytes(32, "little"), epoch, b"presk/split\0")[:32]
    blocks = -(-count // 8)
    data = b"".join(chacha_block(key, block, b"presk/order\0") for block in range(blocks))
    words = struct.unpack(f"<{8 * blocks}Q", data)[:count]
    assert len(set(words)) == count
    return sorted(range(count), key=lambda sample: words[sample])


VECTORS = [
    (0, 0, [1, 3, 6, 8, 2, 5, 7, 0, 9, 4]),
    (0, 1, [4, 7, 5, 6, 1, 0, 2, 8, 9, 3]),
    (1, 0, [3, 6, 1, 0, 7, 2, 4, 9, 8, 5]),
    (1337, 2, [6, 14, 11, 1, 7, 16, 5, 0, 17, 19, 3, 12, 13, 2, 15, 9, 18, 4, 10, 8]),
    (2**63 - 1, 7, [6, 11, 4, 1, 5, 15, 9, 7, 13, 12, 8, 2, 3, 0, 10, 14]),
]
"""Published: they never change."""


@pytest.mark.parametrize("seed, epoch, expected", VECTORS)
def test_published_orders(seed, epoch, expected):
    assert order(seed, epoch, len(expected)).tolist() == expected
    assert order_in_words(seed, epoch, len(expected)) == expected


def test_the_nonce_is_twelve_bytes():
    assert ORDER_NONCE == b"presk/order\x00"
    assert len(ORDER_NONCE) == 12


@given(st.integers(0, 2**256 - 1), st.integers(0, EPOCHS - 1), st.integers(0, 40))
def test_an_order_is_the_definition(seed, epoch, count):
    assert order(seed, epoch, count).tolist() == order_in_words(seed, epoch, count)


@given(st.integers(0, 2**63 - 1), st.integers(0, 1000), st.integers(0, 3000))
def test_every_sample_comes_once(seed, epoch, count):
    found = order(seed, epoch, count)
    assert found.dtype == np.int64
    assert np.array_equal(np.sort(found), np.arange(count))


@given(st.integers(0, 2**63 - 1), st.integers(0, 1000))
def test_epochs_and_seeds_differ(seed, epoch):
    one = order(seed, epoch, 200).tolist()
    assert one == order(seed, epoch, 200).tolist()
    assert one != order(seed, epoch + 1, 200).tolist()
    assert one != order(seed + 1, epoch, 200).tolist()


def test_large_orders_are_permutations():
    found = order(3, 5, 300_001)
    assert np.array_equal(np.sort(found), np.arange(300_001))
    assert int(np.count_nonzero(found == np.arange(300_001))) < 20  # of a random one one is expected


def test_equal_words_are_taken_anew():
    taken = []

    def words(attempt):
        taken.append(attempt)
        return np.array([[7, 3, 7, 1], [5, 5, 0, 2], [2**64 - 1, 0, 2**63, 1]][attempt], dtype=np.uint64)

    assert sorted_by(words).tolist() == [1, 3, 2, 0]
    assert taken == [0, 1, 2]


def test_every_order_is_equally_likely_where_words_are():
    def sorted_as(words: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sorted_by(lambda _: np.array(words, dtype=np.uint64)).tolist())

    assert len({sorted_as(words) for words in permutations(range(5))}) == 120


def test_the_orders_of_epochs_are_spread():
    """χ² of 24 orders over 4,800 epochs: above 49.7 in one seed of a thousand."""
    counts: dict[tuple[int, ...], int] = {}
    for epoch in range(4800):
        one = tuple(order(11, epoch, 4).tolist())
        counts[one] = counts.get(one, 0) + 1
    assert len(counts) == 24
    assert sum((count - 200) ** 2 / 200 for count in counts.values()) < 49.7


# --- batches ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """37 windows of 5 tokens, token i being i."""
    path = stream_file(tmp_path_factory.mktemp("stream") / "a.psk.d", bytes(range(41)))
    with DataFile(path, "a.psk.d") as found:
        yield found


def sequence(stream: Stream, start: Position, epochs: int) -> list[tuple[tuple[int, int], list[int], list[Any]]]:
    return [
        ((one.position.epoch, one.position.batch), one.samples.tolist(), [leaf.tolist() for leaf in one.leaves])
        for one in stream.batches(start, epochs)
    ]


def test_batches_are_slices_of_the_order(data):
    stream = Stream(data, seed=1, batch=4)
    assert stream.per_epoch == 9  # of 37 samples one is left over
    whole = sequence(stream, Position(), 2)
    assert [position for position, _, _ in whole] == [(epoch, batch) for epoch in range(2) for batch in range(9)]
    for (epoch, batch), samples, (x, y) in whole:
        assert samples == order(1, epoch, 37).tolist()[4 * batch : 4 * batch + 4]
        assert x == [list(range(one, one + 4)) for one in samples]
        assert y == [list(range(one + 1, one + 5)) for one in samples]


def test_take_counts_batches_of_an_epoch(data):
    whole = sequence(Stream(data, seed=1, batch=4), Position(), 3)
    taken = sequence(Stream(data, seed=1, batch=4, take=2), Position(), 3)
    assert taken == [one for one in whole if one[0][1] < 2]
    assert Stream(data, seed=1, batch=4, take=100).per_epoch == 9


@given(
    seed=st.one_of(st.none(), st.integers(0, 2**63 - 1)),
    batch=st.integers(1, 37),
    take=st.one_of(st.none(), st.integers(1, 12)),
    step=st.integers(0, 60),
)
def test_a_stream_goes_on_from_any_place(data, seed, batch, take, step):
    first, second = (Stream(data, seed=seed, batch=batch, take=take) for _ in range(2))
    start = first.position(step)
    epochs = start.epoch + 2
    whole = sequence(first, Position(), epochs)
    assert sequence(second, start, epochs) == whole[step:]
    again = second.batch(first.position(0))  # back to another epoch
    assert ((0, 0), again.samples.tolist(), [leaf.tolist() for leaf in again.leaves]) == whole[0]


@given(seed=st.integers(0, 2**63 - 1), batch=st.integers(1, 37), epoch=st.integers(0, 5))
def test_an_epoch_has_every_sample_at_most_once(data, seed, batch, epoch):
    stream = Stream(data, seed=seed, batch=batch)
    samples = [int(one) for found in stream.batches(Position(epoch), epoch + 1) for one in found.samples]
    assert len(samples) == 37 // batch * batch
    assert len(set(samples)) == len(samples)


def test_without_a_seed_the_order_is_the_file_s(data):
    stream = Stream(data, seed=None, batch=5)
    for epoch in (0, 3):
        assert [int(one) for found in stream.batches(Position(epoch), epoch + 1) for one in found.samples] == [
            *range(35)
        ]


def test_a_stream_without_end_goes_on(data):
    stream = Stream(data, seed=2, batch=18)
    assert [one.position for one in islice(stream.batches(Position(4, 1)), 3)] == [
        Position(4, 1),
        Position(5, 0),
        Position(5, 1),
    ]


def test_types_of_indices(data):
    for dtype in (np.int32, np.int64):
        found = Stream(data, seed=1, batch=3, indices=dtype).batch(Position())
        assert [leaf.dtype for leaf in found.leaves] == [dtype, dtype]
        assert all(leaf.flags.c_contiguous and leaf.shape == (3, 4) for leaf in found.leaves)
    with pytest.raises(TypeError):
        Stream(data, seed=1, batch=3, indices=np.uint8)


def test_no_batch_at_all(data):
    for stream in (Stream(data, seed=1, batch=38), Stream(data, seed=1, batch=1, take=0)):
        assert stream.per_epoch == 0
        assert list(stream.batches()) == []
        with pytest.raises(IndexError):
            stream.batch(Position())


@pytest.mark.parametrize("wrong", [{"batch": 0}, {"take": -1}, {"seed": -1}, {"seed": 2**256}])
def test_what_makes_no_stream(data, wrong):
    with pytest.raises(ValueError):
        Stream(data, **{"seed": 1, "batch": 2, **wrong})


@pytest.mark.parametrize("place", [Position(0, 9), Position(-1, 0), Position(0, -1), Position(EPOCHS, 0)])
def test_places_that_are_none(data, place):
    with pytest.raises(IndexError):
        Stream(data, seed=1, batch=4).batch(place)


def test_the_order_depends_on_nothing_else(tmp_path: Path):
    """Other tokens, another name, another window: the same samples in the same order."""
    one = stream_file(tmp_path / "one.psk.d", bytes(30))
    other = stream_file(tmp_path / "other.psk.d", bytes(60), sample="idx[65][3]", window="3 2", count=29)
    with DataFile(one, "one") as first, DataFile(other, "other") as second:
        assert (first.count, second.count) == (26, 29)
        assert order(5, 1, first.count).tolist() == [
            int(one) for found in Stream(first, seed=5, batch=1).batches(Position(1), 2) for one in found.samples
        ]
        assert order(5, 1, second.count).tolist() == [
            int(one) for found in Stream(second, seed=5, batch=1).batches(Position(1), 2) for one in found.samples
        ]
