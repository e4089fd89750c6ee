"""What a trace gives: launches and loops over them, and the buffers that they work on."""

from enum import StrEnum

import msgspec

from presk.kernels.ir import Elem, Kernel
from presk.kernels.nest import Operand
from presk.kernels.trace.hyper import AnyExpr, Scalar
from presk.kernels.trace.values import Ref


class Role(StrEnum):
    """What a buffer is for. The host writes `input`, `constant` and `scalar` buffers, and reads `fault` buffers after a run."""

    INPUT = "input"
    CONSTANT = "constant"
    SCALAR = "scalar"
    FAULT = "fault"
    WORK = "work"


class Buffer(msgspec.Struct, frozen=True, array_like=True):
    """Memory of a size in bytes. A constant buffer is `fill` (a number of type `elem`) throughout."""

    size: int
    role: Role
    elem: Elem | None = None
    fill: float = 0.0


class Launch(msgspec.Struct, frozen=True, array_like=True, tag=True, tag_field="row"):
    """A kernel on places, one for each of its buffers; `site` names the nest, if it is one.

    A `move` copies bytes from its first place to its second. Neither that is a launch in reports nor what is `quiet`: what prepares an
    operand for the launch behind it, and what makes keys. `workers` are those that its layout states: of a kernel that divides a loop
    as many take a share; 0 for all that there are.
    """

    kernel: int
    places: tuple[Ref, ...]
    site: str
    move: bool = False
    quiet: bool = False
    workers: int = 0


class Loop(msgspec.Struct, frozen=True, array_like=True, tag=True, tag_field="row"):
    """Rows, `count` times."""

    loop: int
    count: int
    rows: tuple["Row", ...]


Row = Launch | Loop


class Check(msgspec.Struct, frozen=True, array_like=True):
    """An error that a launch may have found: `size` flags in a buffer, `rows` for each time that it was launched; the bindings that
    led to it, the outermost first."""

    buffer: int
    rows: int
    size: int
    code: str
    message: str
    trail: tuple[tuple[str, int], ...]


class Part(msgspec.Struct, frozen=True, array_like=True):
    """A tensor among the parameters or in the result, and the way to it (`θ.l1.w`, `batch.0`)."""

    path: str
    operand: Operand
    place: Ref


class Trace(msgspec.Struct, frozen=True, array_like=True):
    """An entry at dimensions and types as rows over buffers; the kernels they name; what the host gives and reads."""

    rows: tuple[Row, ...]
    kernels: tuple[Kernel, ...]
    buffers: tuple[Buffer, ...]
    inputs: tuple[Part, ...]
    results: tuple[Part, ...]
    numbers: tuple[tuple[str, AnyExpr], ...]
    """The hyperparameters in the result, by path."""
    scalars: tuple[tuple[Scalar, Ref], ...]
    checks: tuple[Check, ...]
    rates: tuple[tuple[AnyExpr, tuple[tuple[str, int], ...]], ...] = ()
    """Rates of `dropout`, which lie in [0, 1), and the bindings that led to each."""
    carried: tuple[tuple[int, int], ...] = ()
    """Buffers of what a call hands to the next: a parameter's, and that of the part of the result that it becomes."""
