"""Runs the elementary functions of f32 over all 2³² arguments and compares each value with MPFR's rounding.

    python -m tests.tools.exhaustive [FUNCTION …]

For each argument a kernel computes the value by the f32 sequence and, as a reference, by that of f64, which is another
one and is wrong by one unit in the last place at most (tests/kernels/test_math.py samples that; here four units are
allowed). If everything within that bound of the reference rounds to the f32 value, bits and sign included, the argument
is settled; the others, and all values that are no numbers where a number might be, go to MPFR. For |x| < 2⁻⁶⁰ and, of
the functions that saturate, for |x| ≥ 128 the reference is the first term of the series or the limit, which is as good
there and takes less time.

Prints for each function how many were left to MPFR, the arguments at which the value is wrong with the right one, and
the time; the exit status is 1 if there are any. All together take about five minutes of one core.
"""

import ctypes
import math
import struct
import sys
import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from presk.kernels.build import Builder, Value
from presk.kernels.host import host_level
from presk.kernels.ir import Access, BinaryOp, CompareOp, Elem, Kernel
from presk.kernels.llvm.blobs import compile_kernel
from presk.kernels.llvm.run import DTYPES, run_blob
from presk.kernels.math import ELEMENTARY, apply
from presk.kernels.native.load import Code
from tests.tools.elementary import rounded

BLOCK: Final = 1 << 16
LANES: Final = 8
BOUND: Final = 2.0**-50
TINY: Final = 2.0**-60
FAR: Final = 128.0
LIMITS: Final[Mapping[str, tuple[float, float | None]]] = MappingProxyType(
    {
        "exp": (0.0, math.inf),
        "tanh": (-1.0, 1.0),
        "sigmoid": (0.0, 1.0),
        "erf": (-1.0, 1.0),
        "gelu": (-0.0, None),
        "gelu'": (-0.0, 1.0),
    }
)
"""The values of what saturates left and right of all that matters; None for the argument itself."""

SHOWN: Final = 40


def _bound(b: Builder, y: Value, factor: float) -> Value:
    """The bits of factor · y rounded to f32."""
    moved = b.mul(y, b.const(Elem.F64, factor, y.lanes))
    return b.bitcast(b.convert(moved, Elem.F32), Elem.I32)


def _first_term(b: Builder, name: str, x: Value) -> Value:
    """f(x) for |x| < 2⁻⁶⁰, to 2⁻⁶⁰ of itself; of gelu, where half of x may be a tie and the value lies above it, a number above it."""

    def constant(value: float) -> Value:
        return b.const(Elem.F64, value, x.lanes)

    if name in ("tanh", "sin"):
        return x
    if name == "erf":
        return b.mul(x, constant(2 / math.sqrt(math.pi)))
    if name == "gelu":
        above = b.add(b.mul(x, constant(0.5)), constant(2.0**-175))
        return b.binary(BinaryOp.COPYSIGN, above, x)
    return constant(0.5 if name in ("sigmoid", "gelu'") else 1.0)


def _limit(b: Builder, name: str, x: Value) -> Value:
    """f(x) of a function that saturates for |x| ≥ 128, rounded to f32; NaN of NaN."""

    def constant(value: float) -> Value:
        return b.const(Elem.F64, value, x.lanes)

    left, right = LIMITS[name]
    above = x if right is None else constant(right)
    return b.select(b.compare(CompareOp.LT, x, constant(0.0)), constant(left), above)


def scan_kernel(name: str, part: str) -> Kernel:
    """Marks the undecided among `BLOCK` arguments: buffers the first argument's bits, the lanes' numbers, marks."""
    b = Builder()
    start, iota = b.buffer(Elem.I32, 1), b.buffer(Elem.I32, LANES)
    marks = b.buffer(Elem.I32, BLOCK, Access.OUT)
    first = b.add(b.splat(b.load(start, b.at()), LANES), b.load(iota, b.at(), LANES))
    with b.loop(BLOCK // LANES, parallel=True) as i:
        offset = b.convert(b.mul(i, b.const(Elem.I64, LANES)), Elem.I32)
        x = b.bitcast(b.add(first, b.splat(offset, LANES)), Elem.F32)
        y = apply(b, name, [x])
        wide = b.convert(x, Elem.F64)
        if part == "tiny":
            reference = _first_term(b, name, wide)
        elif part == "far":
            reference = _limit(b, name, wide)
        else:
            reference = apply(b, name, [wide])
        bits = b.bitcast(y, Elem.I32)
        low, high = (_bound(b, reference, 1 + sign * BOUND) for sign in (-1, 1))
        wrong = b.binary(BinaryOp.OR, b.compare(CompareOp.NE, low, bits), b.compare(CompareOp.NE, high, bits))
        # Outside of the domain every value but NaN is wrong.
        outside = b.compare(CompareOp.UNO, x, x)
        if name == "log":
            negative = b.compare(CompareOp.LT, x, b.const(Elem.F32, 0.0, LANES))
            outside = b.binary(BinaryOp.OR, outside, negative)
        number = b.compare(CompareOp.EQ, y, y)
        b.store(marks, b.at((i, LANES)), b.convert(b.select(outside, number, wrong), Elem.I32))
    return b.kernel()


def value_kernel(name: str, elem: Elem, size: int, lanes: int) -> Kernel:
    """The function on an array."""
    b = Builder()
    source, target = b.buffer(elem, size), b.buffer(elem, size, Access.OUT)
    with b.loop(size // lanes, parallel=True) as i:
        b.store(target, b.at((i, lanes)), apply(b, name, [b.load(source, b.at((i, lanes)), lanes)]))
    return b.kernel()


def values(name: str, elem: Elem, xs: NDArray[Any], lanes: int = LANES) -> NDArray[Any]:
    """The function's native values."""
    size = max(-(-xs.size // lanes), 1) * lanes
    padded: NDArray[Any] = np.ones(size).astype(DTYPES[elem])
    padded[: xs.size] = xs
    result: NDArray[Any] = np.empty_like(padded)
    kernel = value_kernel(name, elem, size, lanes)
    run_blob(compile_kernel(kernel, host_level()), kernel, [padded, result])
    return result[: xs.size]


def part_of(name: str, block: int) -> str:
    """Which reference serves the block of arguments that begins with a pattern. A block has one sign and one exponent."""
    magnitude = block & 0x7FFFFFFF
    if magnitude < pattern(TINY) and name != "log":
        return "tiny"
    return "far" if magnitude >= pattern(FAR) and name in LIMITS else "middle"


def undecided(name: str) -> NDArray[np.float32]:
    """The arguments that the enclosure leaves open."""
    codes = {part: Code((compile_kernel(scan_kernel(name, part), host_level()),)) for part in parts(name)}
    prototype = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    calls = {part: prototype(code.addresses[0]) for part, code in codes.items()}
    start, iota = np.zeros(1, np.int32), np.arange(LANES, dtype=np.int32)
    marks = np.zeros(BLOCK, np.int32)
    pointers = (ctypes.c_void_p * 3)(start.ctypes.data, iota.ctypes.data, marks.ctypes.data)
    found = []
    for block in range(0, 1 << 32, BLOCK):
        start.view(np.uint32)[0] = block
        calls[part_of(name, block)](ctypes.addressof(pointers), 0, 1)
        if marks.any():
            found.append(np.flatnonzero(marks).astype(np.uint32) + np.uint32(block))
    return np.concatenate(found or [np.zeros(0, np.uint32)]).view(np.float32)


def parts(name: str) -> set[str]:
    """The references that a function needs."""
    return {part_of(name, exponent << 23) for exponent in range(512)}


def pattern(x: float) -> int:
    """The bits of a number of f32."""
    return int(struct.unpack("<I", struct.pack("<f", x))[0])


def failures(name: str, xs: NDArray[np.float32]) -> list[tuple[float, float, float]]:
    """Of some arguments those at which the value is wrong: argument, value, what is right."""
    wrong = []
    for x, y in zip(xs.tolist(), values(name, Elem.F32, xs).tolist(), strict=True):
        right = rounded(name, x, Elem.F32)
        if pattern(right) != pattern(y) and not (math.isnan(right) and math.isnan(y)):
            wrong.append((x, y, right))
    return wrong


def main(names: Sequence[str]) -> int:
    """Runs the named functions, or all."""
    unknown = [name for name in names if name not in ELEMENTARY]
    if unknown:
        print(f"no such function: {', '.join(unknown)}; there are: {', '.join(ELEMENTARY)}", file=sys.stderr)
        return 2
    total = 0
    for name in names or ELEMENTARY:
        began = time.perf_counter()
        left = undecided(name)
        scanned = time.perf_counter()
        wrong = failures(name, left)
        total += len(wrong)
        print(
            f"{name}: 2^32 arguments in {scanned - began:.0f} s, {len(left)} left to MPFR in "
            f"{time.perf_counter() - scanned:.0f} s, {len(wrong)} wrong",
            flush=True,
        )
        for x, y, right in wrong[:SHOWN]:
            print(
                f"    {x.hex()}: {y.hex()}, not {right.hex()}  (0x{pattern(x):08X}, 0x{pattern(right):08X})", flush=True
            )
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
