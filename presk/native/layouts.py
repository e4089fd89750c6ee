"""Layouts of a plan, as kernels know them."""

from collections.abc import Mapping

from presk.kernels.layout import Form, Layout, Split
from presk.realize.plan import Decisions, Plan
from presk.realize.plan import Split as Divided


def layouts(plan: Plan) -> Mapping[str, Layout]:
    """The layouts that a plan states, by nest; those that state nothing are left away."""
    return {name: layout(decisions) for name, decisions in plan.layout if decisions.stated()}


def layout(made: Decisions) -> Layout:
    """Decisions as a layout."""
    return Layout(
        form=None if made.form is None else Form(made.form),
        tile=made.tile,
        kblock=made.kblock,
        order=made.order,
        lanes=made.lanes,
        # Among one worker nothing is divided.
        split=None if made.split is None else Split(made.split.depth, max(1, made.split.workers)),
        pack=made.pack,
        passes=made.passes,
        # That none is wanted is what a layout without one says.
        epilogue=made.epilogue or None,
    )


def decisions(made: Layout) -> Decisions:
    """A layout as a plan states it. (Among one worker is among none.)"""
    split = made.split
    return Decisions(
        form=None if made.form is None else made.form.value,
        tile=made.tile,
        kblock=made.kblock,
        order=made.order,
        lanes=made.lanes,
        split=None if split is None else Divided(split.depth, split.workers) if split.workers > 1 else Divided(0, 0),
        pack=made.pack,
        passes=made.passes,
        epilogue=made.epilogue,
    )
