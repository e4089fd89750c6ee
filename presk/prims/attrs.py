"""Attributes of primitives: what a use of a primitive carries beside its operands.

The typed program and the core share them. Axes are designated by name where they have one, and by position counted from the
last axis (-1) otherwise, so that an open prefix does not disturb the count.
"""

import msgspec

from presk.types.dim import Dim


class Align(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """How an operand lies in a broadcast result.

    `axes[i]` is the place of the operand's i-th explicit axis among the result's explicit axes, counted from the last (-1);
    `prefix` says that the operand carries the result's open prefix. A scalar has neither.
    """

    prefix: bool
    axes: tuple[int, ...]


class AxisName(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """One axis by name; None is "over everything" where a primitive allows it."""

    name: str | None


class AxisNames(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Axis names of one operand, or of the output, of an `ein`."""

    names: tuple[str, ...]


class Length(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A dimension, optionally of a named axis that the primitive makes."""

    dim: Dim
    name: str | None = None


class Select(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A selector: of axis `position` (from the last, -1) with name `axis`. `hi` is None for one that drops the axis at
    `lo` (a negative constant counts from the axis's end); otherwise the slice from `lo` to `hi`."""

    axis: str | None
    position: int
    lo: Dim
    hi: Dim | None


class Word(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A name or a decimal's text: the field of `set_field`, the standard deviation of `normal`."""

    text: str


class Place(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A number: the item of `set_elem`, the slice of `slice_params`."""

    value: int


Attr = Align | AxisName | AxisNames | Length | Select | Word | Place
Attrs = tuple[tuple[str, Attr], ...]
