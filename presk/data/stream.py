"""The stream of batches: `stream "path" |> shuffle(seed = s) |> batch(B = n) |> take(n = k)`.

The order of an epoch is a function of the seed, the epoch's number and the number of samples, and of nothing else: samples are
sorted by words of a key stream (docs/decisions/0020-the-order-of-samples.md). Batch i of an epoch is samples i·n … i·n + n − 1 in
that order. What is left at the end and makes no whole batch is dropped; `take` keeps the first k batches of each epoch. So a place in
a training is two numbers, an epoch and a batch in it, and a stream goes on from any place as if it had come there.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np
from numpy.typing import DTypeLike, NDArray

from presk.data.leaves import index_type
from presk.data.reading import DataFile, Leaves
from presk.exact import draws

ORDER_NONCE: Final = b"presk/order\0"
EPOCHS: Final = draws.BLOCKS
"""Epochs are below this."""

_WORD_BYTES: Final = 8
_PER_BLOCK: Final = 8  # words

Words = Callable[[int], NDArray[np.uint64]]
"""Attempt number to one word for each sample."""


class Position(msgspec.Struct, frozen=True, array_like=True, order=True):
    """A place in a training: the epoch, and the batch in it; both from 0."""

    epoch: int = 0
    batch: int = 0


@dataclass(frozen=True, slots=True)
class Batch:
    """Where a batch stands, the numbers of its samples, and for each leaf of the sample an array, the batch's axis first."""

    position: Position
    samples: NDArray[np.int64]
    leaves: Leaves


class Stream:
    """The batches of a data file. It keeps the order of one epoch, eight bytes for each sample."""

    def __init__(
        self, data: DataFile, *, seed: int | None, batch: int, take: int | None = None, indices: DTypeLike = np.int64
    ) -> None:
        """`seed` None leaves the samples in the file's order. `indices` is int64 or int32.

        ValueError for a batch of no sample, or a seed that is none.
        """
        if batch < 1 or (take is not None and take < 0):
            raise ValueError("a batch has a sample at least, and an epoch no fewer than no batch")
        if seed is not None and not 0 <= seed < draws.SEEDS:
            raise ValueError("a seed is a natural number below 2²⁵⁶")
        self.data: Final = data
        self.seed: Final = seed
        self.size: Final = batch
        self._indices: Final = index_type(indices)
        whole = data.count // batch
        self.per_epoch: Final = whole if take is None else min(take, whole)
        self._order: tuple[int, NDArray[np.int64]] | None = None

    def position(self, step: int) -> Position:
        """Where the batch of a step stands; steps are counted from 0. ZeroDivisionError where an epoch has no batch."""
        return Position(*divmod(step, self.per_epoch))

    def batch(self, position: Position) -> Batch:
        """The batch at a place. IndexError for a place that is none; E8003 and E8005 as reading has it."""
        if not (0 <= position.epoch < EPOCHS and 0 <= position.batch < self.per_epoch):
            raise IndexError(f"an epoch has {self.per_epoch} batches; {position} is none")
        start = position.batch * self.size
        samples = self._order_of(position.epoch)[start : start + self.size]
        return Batch(position, samples, self.data.samples(samples, self._indices))

    def batches(self, start: Position = Position(), epochs: int | None = None) -> Iterator[Batch]:  # noqa: B008 (frozen)
        """The batches from a place on, up to the end of the last of `epochs` epochs, or without end. None if an epoch has none."""
        if self.per_epoch == 0:
            return
        at = start
        while epochs is None or at.epoch < epochs:
            yield self.batch(at)
            at = Position(at.epoch, at.batch + 1) if at.batch + 1 < self.per_epoch else Position(at.epoch + 1, 0)

    def _order_of(self, epoch: int) -> NDArray[np.int64]:
        if self.seed is None:
            epoch = 0
        if self._order is None or self._order[0] != epoch:
            self._order = None  # two orders are never kept at a time
            count = self.data.count
            found = np.arange(count, dtype=np.int64) if self.seed is None else order(self.seed, epoch, count)
            self._order = (epoch, found)
        return self._order[1]


def order(seed: int, epoch: int, count: int) -> NDArray[np.int64]:
    """The samples 0 … count − 1 in the order of an epoch.

    The key is child `epoch` of the seed's master key, word i bytes 8i … 8i + 7 of its stream with the nonce `presk/order\\0`,
    little-endian. Sample i has word i, and samples are sorted by their words. If two words are equal, the next `count` words of the
    stream are taken instead. Where words are uniform and independent, every order is equally likely.
    """
    key = draws.child(draws.master_key(seed), epoch)
    return sorted_by(lambda attempt: _words(key, attempt * count, count))


def sorted_by(words: Words) -> NDArray[np.int64]:
    """The places of words in ascending order, of the first attempt whose words are distinct."""
    attempt = 0
    while True:
        found = words(attempt)
        places = np.argsort(found).astype(np.int64, copy=False)
        ranked = found[places]
        if not bool((ranked[1:] == ranked[:-1]).any()):
            return places
        attempt += 1


def _words(key: bytes, first: int, count: int) -> NDArray[np.uint64]:
    """Words `first` … `first + count − 1` of a key's stream. ValueError behind its end."""
    block, skipped = divmod(first, _PER_BLOCK)
    data = draws.stream(key, ORDER_NONCE, block, -(-(skipped + count) // _PER_BLOCK))
    return np.frombuffer(data, dtype="<u8", count=count, offset=skipped * _WORD_BYTES).astype(np.uint64, copy=False)
