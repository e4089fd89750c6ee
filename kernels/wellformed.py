"""Whether a layout fits a nest, at its shape and types and on a level: what a plan states is applied as stated, or refused.

Conditions, by decision (the realize chapter's numbers where it has them):

    tile       the level's registers hold its sums; the tiles of at most 4 × 16 are taken on every level (they spill a little)
    lanes      4: a width that the level has for the accumulation type; they divide the tile's columns; where operand 1 is
               contiguous along the summed axis, they need its panel
    epilogue   what is added runs along the columns as its innermost axis, or not at all, where the tile has lanes
    form       7: the row-wise form keeps running sums in the result, which must be of the accumulation type
    order      7: a loop over blocks of K around one over tiles does so too
    passes     7: two passes keep exponentials in the result
    split      8: the loop at that depth is parallel and has two iterations or more

A tile and a k-block need not divide their axes, and every contraction may be packed: remainders are computed under masks, with the
same bits. The depth of a split counts the loops over the result that the kernel has: axes that lie in memory as one are one, and those
of length 1 are none.
"""

from typing import Final

import msgspec

from presk.kernels.ir import SIZES
from presk.kernels.layout import Form, Layout, Split, Target
from presk.kernels.nest import Lowered, Nest
from presk.kernels.nests.contraction import Contract, free_registers, is_transposed, plan
from presk.kernels.nests.divide import turns
from presk.kernels.nests.softmax import Softmax
from presk.kernels.nests.table import lower

CHAPTER_ROWS: Final = (1, 2, 4)
CHAPTER_COLUMNS: Final = (4, 8, 16)
"""The tiles that every level takes."""


class Illformed(Exception):
    """A decision that a nest cannot have (E7002); whoever launches it says which nest it is."""

    def __init__(self, decision: str, condition: str, mend: str | None = None) -> None:
        super().__init__(condition)
        self.decision = decision
        self.condition = condition
        self.mend = mend


def lower_stated(nest: Nest, layout: Layout, target: Target) -> Lowered:
    """The kernels of a nest under a layout that somebody stated; `Illformed` where it does not fit."""
    check(nest, layout, target)
    lowered = lower(nest, layout, target)
    if layout.split is not None and layout.split.workers != 1:
        _split(nest, layout, layout.split, target, lowered)
    return lowered


def check(nest: Nest, layout: Layout, target: Target) -> None:
    """`Illformed` for a decision that does not fit, but for the division among workers: that takes the kernels to see."""
    match nest:
        case Contract():
            _contraction(nest, layout, target)
        case _:
            for name in ("form", "tile", "kblock", "order", "lanes", "pack", "epilogue"):
                if getattr(layout, name) is not None:
                    raise Illformed(name, "at this shape the nest is no contraction")
            if layout.passes is not None:
                _passes(nest, layout.passes)


def _passes(nest: Nest, passes: int) -> None:
    if not isinstance(nest, Softmax):
        raise Illformed("passes", "the nest is no softmax")
    if passes == 2 and not nest.elem is nest.arithmetic is nest.accumulate:
        raise Illformed(
            "passes",
            f"two passes keep exponentials in the result, which is stored in {nest.elem} and computed in {nest.arithmetic}",
            "state 3, or leave it open",
        )


def _contraction(nest: Contract, layout: Layout, target: Target) -> None:
    if layout.passes is not None:
        raise Illformed("passes", "a contraction has none")
    if layout.epilogue and nest.added is None:
        raise Illformed("epilogue", "nothing is added to the product", "leave it away")
    apart = f"the result, which is stored in {nest.elem} and added up in {nest.accumulate}"
    stored = nest.elem is nest.accumulate
    if layout.form is Form.ROW_WISE and not stored:
        raise Illformed("form", f"the row-wise form keeps running sums in {apart}", 'state "tiled", or leave it open')
    if layout.order is not None and "K" in layout.order and not layout.order.endswith("K") and not stored:
        raise Illformed(
            "order", f"a loop over blocks of K around one over tiles keeps running sums in {apart}", "state IJK or JIK"
        )
    widest = max(1, target.bytes // SIZES[nest.accumulate])
    if layout.lanes is not None:
        _lanes(nest, layout, layout.lanes, widest, target)
    if layout.tile is not None:
        _tile(nest, layout, layout.tile, target)
    made = plan(nest, layout, target)
    if nest.added is not None and made.lanes > 1 and not made.row_wise and nest.columns.added not in (0, 1):
        raise Illformed(
            "epilogue",
            f"what is added does not run along the columns as its innermost axis, and the tile has {made.lanes} lanes",
            "state one lane, or leave the epilogue away",
        )


def _lanes(nest: Contract, layout: Layout, lanes: int, widest: int, target: Target) -> None:
    least = 4 if SIZES[nest.accumulate] == 4 else 2
    widths = [1, *(width for width in (2, 4, 8, 16) if least <= width <= widest)]
    if lanes not in widths:
        raise Illformed(
            "lanes",
            f"{target.name} has no {lanes} lanes of {nest.accumulate}",
            f"it has {', '.join(map(str, widths))}",
        )
    if lanes > 1 and is_transposed(nest) and not plan(nest, layout, target).pack:
        raise Illformed(
            "lanes",
            "the columns of operand 1 are not contiguous, and without its panel no vector can be read of them",
            'state `"pack": true`, or one lane',
        )


def _tile(nest: Contract, layout: Layout, tile: tuple[int, int], target: Target) -> None:
    made = plan(nest, layout, target)
    if made.columns != tile[1] or made.rows != tile[0]:
        raise Illformed("tile", f"its {tile[1]} columns are not a multiple of {made.lanes} lanes")
    if tile == (1, 1) or (tile[0] in CHAPTER_ROWS and tile[1] in CHAPTER_COLUMNS):
        return
    widest = max(1, target.bytes // SIZES[nest.accumulate])
    needed = (made.rows * made.vectors + made.vectors) * -(-made.lanes // widest)
    if needed > free_registers(target):
        raise Illformed(
            "tile",
            f"with {made.lanes} lanes its sums and a row of operand 1 need {needed} registers, and {target.name} has "
            f"{free_registers(target)} for them",
            "state a smaller one, or more lanes",
        )


def _split(nest: Nest, layout: Layout, split: Split, target: Target, lowered: Lowered) -> None:
    iterations = max((turns(step.kernel) for step in lowered.steps if not step.prepares), default=0)
    if split.depth > 0:
        above = msgspec.structs.replace(layout, split=Split(split.depth - 1, split.workers))
        if lower(nest, above, target).steps == lowered.steps:
            raise Illformed(
                "split",
                f"the kernel has no loop at depth {split.depth} that could be divided",
                f"state a depth below {split.depth}",
            )
    if iterations < 2:
        has = "is not there" if iterations == 0 else "has one iteration"
        raise Illformed("split", f"the loop at depth {split.depth} {has}: there is nothing to divide", 'state "none"')
