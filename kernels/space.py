"""The points of a nest's space: every layout that a plan may state for it, at its shape and type and on a level.

The tiles are a fixed list and the target's own one; a plan may state others. Whether a product takes an `add` with it is no point.
"""

from collections.abc import Callable, Iterator
from itertools import permutations, product
from typing import Final

from presk.kernels.ir import SIZES
from presk.kernels.layout import Form, Layout, Split, Target
from presk.kernels.nest import Nest
from presk.kernels.nests.contraction import Contract, plan
from presk.kernels.nests.softmax import Softmax
from presk.kernels.wellformed import CHAPTER_COLUMNS, CHAPTER_ROWS, Illformed, check, lower_stated

KBLOCKS: Final = (32, 128)
DEPTHS: Final = (0, 1, 2)
UNDIVIDED: Final = Split(0, 1)


def points(nest: Nest, target: Target, workers: tuple[int, ...] = ()) -> Iterator[Layout]:
    """The points of a nest, undivided, and the divisions of its default among numbers of workers."""
    yield from (one for one in _undivided(nest, target) if _fits(check, nest, one, target))
    for depth, number in product(DEPTHS, workers):
        one = Layout(split=Split(depth, number))
        if _fits(lower_stated, nest, one, target):
            yield one


def _fits(checked: Callable[[Nest, Layout, Target], object], nest: Nest, layout: Layout, target: Target) -> bool:
    """Whether a layout is well-formed there."""
    try:
        checked(nest, layout, target)
    except Illformed:
        return False
    return True


def _undivided(nest: Nest, target: Target) -> Iterator[Layout]:
    match nest:
        case Contract():
            yield from _contraction(nest, target)
        case Softmax():
            yield Layout(passes=3, split=UNDIVIDED)
            yield Layout(passes=2, split=UNDIVIDED)
        case _:
            yield Layout(split=UNDIVIDED)


def _contraction(nest: Contract, target: Target) -> Iterator[Layout]:
    yield Layout(form=Form.ROW_WISE, split=UNDIVIDED)
    own = plan(nest, Layout(), target)
    tiles = [(1, 1), *product(CHAPTER_ROWS, CHAPTER_COLUMNS)]
    if (own.rows, own.columns) not in tiles and own.columns % 4 == 0:
        tiles.append((own.rows, own.columns))
    widest = max(1, target.bytes // SIZES[nest.accumulate])
    widths = [1 << power for power in range(widest.bit_length())]
    orders = [(0, order) for order in ("IJ", "JI")]
    orders += [(block, "".join(order)) for block in KBLOCKS for order in permutations("IJK")]
    for tile, lanes, (kblock, order), pack in product(tiles, widths, orders, (False, True)):
        if tile[1] % lanes == 0:
            yield Layout(
                form=Form.TILED, tile=tile, kblock=kblock, order=order, lanes=lanes, pack=pack, split=UNDIVIDED
            )
