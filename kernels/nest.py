"""A nest: one primitive or fusion group of the core at shapes and machine types, before a layout makes loops of it.

A *rule* turns a use of a primitive at shapes into the nest that computes it (`presk.kernels.nests`); `lower` turns a nest and a layout
into kernels. Tensors are contiguous and row-major; a rule sees shapes with the axes of the open prefix written out in front.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import msgspec

from presk.kernels.ir import Elem, Kernel
from presk.prims.attrs import Attr


class Arith(msgspec.Struct, frozen=True, array_like=True):
    """The machine types of a site: what its value is stored in, what its operations compute in, what its sums add up in."""

    storage: Elem
    arithmetic: Elem
    accumulate: Elem


F64: Final = Arith(Elem.F64, Elem.F64, Elem.F64)
F32: Final = Arith(Elem.F32, Elem.F32, Elem.F32)
BF16: Final = Arith(Elem.BF16, Elem.F32, Elem.F32)


class Kind(StrEnum):
    """What a tensor holds, and as what elements: reals in the storage type of the site that made them, indices as `i32`, masks as `u8`
    (0 or 1), a key as eight `i32` words along a last axis that the shape does not count, a hyperparameter as one float of the reading
    site's arithmetic type, rounded once from its exact value."""

    REAL = "real"
    INDEX = "index"
    MASK = "mask"
    KEY = "key"
    HYPER = "hyper"


class Operand(msgspec.Struct, frozen=True, array_like=True):
    """A tensor at a shape. `names` are its axes' names, None for an axis without; `bound` is an index's bound."""

    kind: Kind
    elem: Elem
    shape: tuple[int, ...]
    names: tuple[str | None, ...]
    bound: int | None = None


@dataclass(frozen=True, slots=True)
class Use:
    """A use of a primitive at shapes: operands, result, the types it computes in, attributes, and the values of dimensions."""

    operands: tuple[Operand, ...]
    result: Operand
    arith: Arith
    attrs: Mapping[str, Attr]
    dims: Mapping[str, int]


class Nest(msgspec.Struct, frozen=True, array_like=True, tag=True, tag_field="nest"):
    """What one launch computes. Nests alike are equal, whatever program they come from."""


class Launch(msgspec.Struct, frozen=True, array_like=True):
    """A nest and the operands of the use that it reads, by number, in the order of its inputs."""

    nest: Nest
    inputs: tuple[int, ...]


class View(msgspec.Struct, frozen=True, array_like=True):
    """No launch: the result is operand 0's memory under another shape."""


class Fault(msgspec.Struct, frozen=True, array_like=True):
    """An error that a kernel may find while it runs: its last output holds one `u8` per row, 1 where the error is."""

    code: str
    message: str
    rows: int


class Place(StrEnum):
    """Where a buffer of a kernel stands in memory."""

    INPUT = "input"
    OUTPUT = "output"
    FAULT = "fault"
    SCRATCH = "scratch"


class Slot(msgspec.Struct, frozen=True, array_like=True):
    """The memory of a buffer: an input of the nest by number, the nest's output (0), its fault rows (0), a scratch area by number."""

    place: Place
    number: int = 0


class Step(msgspec.Struct, frozen=True, array_like=True):
    """A kernel and the memory of its buffers, in their order.

    One that `prepares` copies an operand for the step behind it, and is a part of that one's launch in reports.
    """

    kernel: Kernel
    slots: tuple[Slot, ...]
    prepares: bool = False


class Lowered(msgspec.Struct, frozen=True, array_like=True):
    """The kernels of a nest under a layout, in order, the elements and sizes of the scratch areas they share, and their fault."""

    steps: tuple[Step, ...]
    scratch: tuple[tuple[Elem, int], ...] = ()
    fault: Fault | None = None
