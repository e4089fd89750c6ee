"""A layout: how a nest becomes loops. No layout moves a bit; see the realize chapter's table of decisions."""

from enum import StrEnum

import msgspec


class Form(StrEnum):
    """Where a contraction's running sums live: in registers, or in the output row from one k to the next."""

    TILED = "tiled"
    ROW_WISE = "row-wise"


class Split(msgspec.Struct, frozen=True, array_like=True):
    """The loop at `depth` (0 is the outermost) is divided among `workers`; among one, none is."""

    depth: int
    workers: int


class Layout(msgspec.Struct, frozen=True, omit_defaults=True):
    """Decisions; None is the target's default for the nest. `lanes` applies to every nest that has vectors."""

    form: Form | None = None
    tile: tuple[int, int] | None = None
    kblock: int | None = None
    order: str | None = None
    lanes: int | None = None
    split: Split | None = None
    pack: bool | None = None
    passes: int | None = None
    epilogue: bool | None = None


class Weights(msgspec.Struct, frozen=True, array_like=True):
    """What an operation on one element, and its memory, count for where it is asked whether a kernel is worth several threads."""

    moved: int = 1
    """A load or a store."""
    simple: int = 1
    fma: int = 2
    slow: int = 8
    """A division or a root."""
    streamed: int = 2
    """Four bytes of a buffer: each comes from far away once, or goes there."""


class Target(msgspec.Struct, frozen=True, array_like=True):
    """What lowering knows of a machine: a fixed level, by name, not the machine at hand.

    `bytes` is a vector register's width, `registers` how many there are; `fma` whether it multiplies and adds in one instruction
    (else the same bits are computed in several); `cache` is the second level's size in bytes. A kernel of more than `divided_from`
    operations, weighted, is divided among threads.
    """

    name: str
    bytes: int
    registers: int
    fma: bool
    cache: int = 1 << 20
    weights: Weights = Weights()
    divided_from: int = 4_000_000
