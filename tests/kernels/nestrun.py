"""Runs nests on arrays, by the kernel interpreter and natively; and writes uses of primitives down."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from presk.kernels.check import check
from presk.kernels.interpret import DTYPES, bf16_of, interpret, value_bf16
from presk.kernels.ir import SIZES, Elem, Kernel
from presk.kernels.layout import Layout, Split
from presk.kernels.llvm.blobs import compile_kernel
from presk.kernels.llvm.run import run_blob
from presk.kernels.nest import BF16, F32, F64, Arith, Kind, Launch, Lowered, Nest, Operand, Place, Use
from presk.kernels.nests.table import lower, rule
from presk.kernels.objects import Blob
from presk.kernels.targets import X86_64_V3, Level
from presk.prims.attrs import Attr

Array = NDArray[Any]

HOST: Final = X86_64_V3
TARGET: Final = X86_64_V3.target
LANES: Final = (1, 2, 4, 8, 16)
ARITHS: Final = (F64, F32, BF16)
KINDS: Final = {Kind.INDEX: Elem.I32, Kind.MASK: Elem.U8, Kind.KEY: Elem.I32}


def encode(values: Any, elem: Elem) -> Array:
    """Numbers as a flat buffer, rounded to the type."""
    flat = np.asarray(values).reshape(-1)
    if elem is Elem.BF16:
        return np.array([bf16_of(float(x)) for x in flat], dtype=np.uint16)
    if elem is Elem.F32:
        with np.errstate(over="ignore"):
            return flat.astype(np.float32)
    return flat.astype(DTYPES[elem])


def decode(buffer: Array, elem: Elem) -> Array:
    """A buffer as numbers that numpy has."""
    if elem is Elem.BF16:
        return np.array([value_bf16(int(x)) for x in buffer], dtype=np.float32)
    return buffer


def operand(
    values: Any,
    elem: Elem = Elem.F64,
    kind: Kind = Kind.REAL,
    names: Sequence[str | None] | None = None,
    bound: int | None = None,
) -> Operand:
    """The operand that an array is."""
    shape = np.asarray(values).shape
    if kind is Kind.KEY:
        shape = shape[:-1]
    return Operand(kind, KINDS.get(kind, elem), shape, tuple(names or (None,) * len(shape)), bound)


def use_of(
    operands: Sequence[Operand],
    result: Operand,
    arith: Arith = F64,
    attrs: Mapping[str, Attr] | None = None,
    dims: Mapping[str, int] | None = None,
) -> Use:
    """A use."""
    return Use(tuple(operands), result, arith, attrs or {}, dims or {})


def launched(name: str, use: Use) -> Launch:
    """What a use launches."""
    made = rule(name, use)
    assert isinstance(made, Launch)
    return made


def garbage(size: int, elem: Elem, shift: int = 0) -> Array:
    """Memory that nothing defined: NaN, or −1; `shift` elements behind where numpy puts an array."""
    whole = np.frombuffer(bytearray(b"\xff" * ((size + shift) * SIZES[elem])), dtype=DTYPES[elem])
    return whole[shift:]


def execute(
    lowered: Lowered,
    inputs: Sequence[Array],
    *,
    native: bool = False,
    workers: int = 1,
    level: Level = HOST,
    shift: int = 0,
) -> tuple[Array, Array | None]:
    """The output of a lowered nest, and its fault rows. Inputs are not changed."""
    given = [np.concatenate([array[:1].repeat(shift), array])[shift if array.size else 0 :] for array in inputs]
    scratch = [garbage(size, elem, shift) for elem, size in lowered.scratch]
    outputs: dict[Place, Array] = {}
    for step in lowered.steps:
        _checked(step.kernel)
        arrays = []
        for slot, buffer in zip(step.slots, step.kernel.buffers, strict=True):
            match slot.place:
                case Place.INPUT:
                    arrays.append(given[slot.number])
                case Place.SCRATCH:
                    arrays.append(scratch[slot.number])
                case Place.OUTPUT | Place.FAULT:
                    fresh = garbage(buffer.size, buffer.elem, shift)
                    arrays.append(outputs.setdefault(slot.place, fresh))
        if native:
            run_blob(_compiled(step.kernel, level), step.kernel, arrays, workers)
        else:
            for worker in range(workers):
                interpret(step.kernel, arrays, worker, workers)
    for before, after in zip(inputs, given, strict=True):
        assert before.tobytes() == after.tobytes()
    return outputs[Place.OUTPUT], outputs.get(Place.FAULT)


@cache
def _checked(kernel: Kernel) -> None:
    check(kernel)


@cache
def _compiled(kernel: Kernel, level: Level) -> Blob:
    return compile_kernel(kernel, level)


def run(
    nest: Nest,
    inputs: Sequence[Array],
    *,
    lanes: int | None = None,
    native: bool = False,
    workers: int = 1,
    depth: int = 0,
    passes: int | None = None,
) -> Array:
    """The output of a nest."""
    split = Split(depth, workers) if workers > 1 else None
    lowered = lower(nest, Layout(lanes=lanes, split=split, passes=passes), TARGET)
    return execute(lowered, inputs, native=native, workers=workers)[0]


def everywhere(nest: Nest, inputs: Sequence[Array], *, native: bool = True, lanes: Sequence[int] = LANES[1:]) -> Array:
    """The output of a nest, which every number of lanes, worker and executor gives to the bit (NaNs for NaNs)."""
    first = run(nest, inputs, lanes=1)
    for width in (*lanes, None):
        same(run(nest, inputs, lanes=width), first)
    same(run(nest, inputs, workers=3), first)
    same(run(nest, inputs, workers=2, depth=1, lanes=4), first)
    if native:
        same(run(nest, inputs, native=True), first)
        same(run(nest, inputs, native=True, workers=3, lanes=4), first)
    return first


def same(one: Array, other: Array) -> None:
    """Asserts that buffers have the same bits, up to which NaN a NaN is."""
    assert one.dtype == other.dtype and one.shape == other.shape
    assert np.array_equal(_plain(one), _plain(other))


def _plain(buffer: Array) -> Array:
    """Bits, with one NaN."""
    if buffer.dtype == np.float64 or buffer.dtype == np.float32:
        bits = buffer.view(np.uint64 if buffer.dtype == np.float64 else np.uint32)
        return np.where(np.isnan(buffer), bits.dtype.type(1), bits)
    if buffer.dtype == np.uint16:
        return np.where((buffer & 0x7FFF) > 0x7F80, np.uint16(1), buffer)
    return buffer
