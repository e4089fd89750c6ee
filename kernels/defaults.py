"""The default layout of a nest, stated: what a plan would have to say to ask for what it gets anyway.

Not all of it can be said. A tile that no plan may state (of one or two columns, or of more than 64) is left open with its lanes; a
division among threads, whose workers are those of the run, is too, and so is what a decision would say of operand 0 besides.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from presk.kernels.layout import Form, Layout, Split, Target
from presk.kernels.nest import Nest
from presk.kernels.nests.contraction import Contract, plan
from presk.kernels.nests.divide import turns
from presk.kernels.nests.softmax import Softmax
from presk.kernels.nests.table import lower
from presk.kernels.wellformed import Illformed, check

TWO_PASSES: Final = 2


def default_of(nest: Nest, target: Target) -> Layout:
    """The default of every decision of a nest that a layout can state."""
    plain = lower(nest, Layout(), target)
    undivided = all(turns(step.kernel) == 0 for step in plain.steps)
    split = Split(0, 1) if undivided else None
    match nest:
        case Contract():
            return _contraction(nest, target, split)
        case Softmax():
            made = Layout(split=split, passes=TWO_PASSES)
            return made if _fits(nest, made, target) else msgspec.structs.replace(made, passes=None)
        case _:
            return Layout(split=split)


def _contraction(nest: Contract, target: Target, split: Split | None) -> Layout:
    made = plan(nest, Layout(), target)
    packs = None if made.pack_left and not made.pack else made.pack
    found = Layout(
        form=Form.TILED,
        tile=(made.rows, made.columns),
        kblock=made.kblock,
        order=made.order,
        lanes=made.lanes,
        split=split,
        pack=packs,
    )
    whole = made.columns % 4 == 0 and made.columns <= 64
    if (whole or (made.rows, made.columns) == (1, 1)) and _fits(nest, found, target):
        return found
    return msgspec.structs.replace(found, tile=None, lanes=None)


def _fits(nest: Nest, layout: Layout, target: Target) -> bool:
    try:
        check(nest, layout, target)
    except Illformed:
        return False
    return True


def common(layouts: Iterable[Layout]) -> Layout:
    """What several layouts have in common; decisions that hold together are kept or dropped together."""
    first, *others = layouts
    kept = {
        name: value
        for name in Layout.__struct_fields__
        if (value := getattr(first, name)) is not None and all(getattr(one, name) == value for one in others)
    }
    for pair in (("tile", "lanes"), ("kblock", "order")):
        if any(name not in kept for name in pair):
            for name in pair:
                kept.pop(name, None)
    return Layout(**kept)
