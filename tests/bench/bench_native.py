"""What native code costs around the kernels: emission, compilation, loading, launching, forking; and the written-out fma.

Times in this process are of the processor where nothing waits, else by the clock; the best of a few runs counts.
"""

import ctypes
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from presk.kernels.build import Builder, Value
from presk.kernels.compiling import Compilers, processors
from presk.kernels.host import host_level
from presk.kernels.ir import Access, Elem, Kernel
from presk.kernels.llvm.blobs import compile_kernel, compile_routines
from presk.kernels.llvm.compile import compile_text
from presk.kernels.llvm.emit import ENTRY, emit
from presk.kernels.native.driver import Driver
from presk.kernels.native.load import Code
from presk.kernels.native.table import Bound, Launch, Loop, Operand, Table
from presk.kernels.objects import Blob, flatten
from presk.kernels.targets import LEVELS, Level

BLOBS: Final = 300
LAUNCHES: Final = 900


def best(call: Callable[[], object], runs: int = 7, clock: Callable[[], float] = time.perf_counter) -> float:
    """The least of some times, in seconds."""
    least = float("inf")
    for _ in range(runs):
        started = clock()
        call()
        least = min(least, clock() - started)
    return least


def tile(rows: int, lanes: int, vectors: int, depth: int) -> Kernel:
    """The heart of a contraction: rows × vectors running sums over `depth`, unrolled by four."""
    b = Builder()
    width = lanes * vectors
    left, right = b.buffer(Elem.F32, rows * depth), b.buffer(Elem.F32, depth * width)
    result = b.buffer(Elem.F32, rows * width, Access.OUT)
    zero = b.const(Elem.F32, 0.0, lanes)
    loop = b.loop(depth // 4, [zero] * (rows * vectors))
    with loop as k:
        sums = list(loop.inside)
        for step in range(4):
            columns = [
                b.load(right, b.at((k, 4 * width), base=step * width + v * lanes), lanes) for v in range(vectors)
            ]
            for row in range(rows):
                factor = b.load(left, b.at((k, 4), base=row * depth + step), lanes, stride=0)
                for v, column in enumerate(columns):
                    place = row * vectors + v
                    sums[place] = b.fma(factor, column, sums[place])
        loop.next = sums
    for place, total in enumerate(loop.after):
        b.store(result, b.at(base=place * lanes), total)
    return b.kernel()


def mapped(size: int, lanes: int, function: Callable[[Builder, Value], Value], elem: Elem = Elem.F32) -> Kernel:
    """An elementwise kernel."""
    b = Builder()
    x, y = b.buffer(elem, size), b.buffer(elem, size, Access.OUT)
    with b.loop(size // lanes, parallel=True, split=True) as i:
        b.store(y, b.at((i, lanes)), function(b, b.load(x, b.at((i, lanes)), lanes)))
    return b.kernel()


def horner(terms: int) -> Callable[[Builder, Value], Value]:
    """A polynomial."""

    def function(b: Builder, x: Value) -> Value:
        result = x
        for term in range(terms):
            result = b.fma(result, x, b.const(x.elem, 1.0 / (1 << term), x.lanes))
        return result

    return function


def compiling(level: Level) -> list[Blob]:
    """Prints what emission and compilation cost; gives many blobs."""
    lanes = level.target.bytes // 4
    print(f"{'':<34}{'lines':>8}{'emit ms':>10}{'µs a line':>10}{'LLVM ms':>10}{'flatten ms':>11}{'bytes':>8}")
    kernels = {
        "a copy": mapped(4096, lanes, lambda b, x: x),
        "a polynomial of degree 16": mapped(4096, lanes, horner(16)),
        "a tile of 6 rows, 2 vectors": tile(6, lanes, 2, 256),
    }
    for name, kernel in kernels.items():
        text = emit(kernel, level)
        lines = text.count("\n")
        emitted = best(lambda: emit(kernel, level), clock=time.thread_time)  # noqa: B023 (called at once)
        compiled = best(lambda: compile_text(text, level), clock=time.thread_time)  # noqa: B023
        data = compile_text(text, level)
        flat = best(lambda: flatten(data, level.name, ENTRY), clock=time.thread_time)  # noqa: B023
        size = len(flatten(data, level.name, ENTRY).code)
        figures = f"{lines:>8}{emitted * 1e3:>10.2f}{emitted / lines * 1e6:>10.1f}{compiled * 1e3:>10.1f}"
        print(f"{name:<34}{figures}{flat * 1e3:>11.2f}{size:>8}")
    many = [mapped(lanes * (64 + number), lanes, horner(1 + number % 16)) for number in range(60)]
    with Compilers(processors()) as compilers:
        started = time.perf_counter()
        compilers.routines()
        first = time.perf_counter() - started
        started = time.perf_counter()
        blobs = list(compilers.all(many, level.name))
        spent = time.perf_counter() - started
    print(
        f"{len(many)} kernels in {processors()} processes: {spent * 1e3:.0f} ms, {spent / len(many) * 1e3:.1f} each; "
        f"the first answer of a new process after {first * 1e3:.0f} ms"
    )
    return blobs


def loading(blobs: Sequence[Blob]) -> None:
    """Prints what loading costs, here and in a new process."""
    many = [blobs[number % len(blobs)] for number in range(BLOBS)]
    data = msgspec.msgpack.encode(many)
    here = best(lambda: Code(many))
    program = (
        "import sys, time; started = time.perf_counter()\n"
        "import msgspec\n"
        "from presk.kernels.native.load import Code\n"
        "from presk.kernels.objects import Blob\n"
        "imported = time.perf_counter()\n"
        "blobs = msgspec.msgpack.decode(open(sys.argv[1], 'rb').read(), type=list[Blob])\n"
        "code = Code(blobs)\n"
        "print(imported - started, time.perf_counter() - imported)"
    )
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "blobs"
        file.write_bytes(data)
        command = [sys.executable, "-P", "-c", program, str(file)]
        found = [subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() for _ in range(5)]
    imported, loaded = (min(float(row[column]) for row in found) * 1e3 for column in range(2))
    print(
        f"{BLOBS} blobs, {sum(len(one.code) for one in many) >> 10} kB, loaded in {here * 1e3:.1f} ms; "
        f"in a new process: imports {imported:.0f} ms, reading and loading {loaded:.1f} ms"
    )


def launching() -> None:
    """Prints what launches, runs and forks cost."""
    level = host_level()
    b = Builder()
    b.buffer(Elem.F64, 1)
    code = Code([compile_kernel(b.kernel(), level), compile_kernel(mapped(64, 4, lambda b, x: x), level)])
    memory = np.zeros(128, np.float32)
    regions = [memory.ctypes.data, memory.ctypes.data + 256]
    row = Launch(0, (Operand(0), Operand(1)))
    routines = compile_routines()
    with Driver(routines) as driver:
        rows, nothing = Table((row,) * LAUNCHES), Bound(Table(()), (), ())
        bound = Bound(rows, code.addresses, regions)
        empty = best(lambda: driver.run(nothing), 2000)
        spent = best(lambda: driver.run(bound), 500) - empty
        loop = Bound(Table((Loop(LAUNCHES, (Launch(0, (Operand(0, 0, (8,)), Operand(1))),)),)), code.addresses, regions)
        looped = best(lambda: driver.run(loop), 500) - empty
        made = best(lambda: Bound(rows, code.addresses, regions))
        again = best(lambda: bound.bind(regions), 50)
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(code.addresses[0])
    python = best(lambda: [function(0, 0, 1) for _ in range(1000)]) / 1000
    print(
        f"a launch {spent / LAUNCHES * 1e9:.2f} ns in a table, {looped / LAUNCHES * 1e9:.2f} ns in a loop with a step, "
        f"{python * 1e9:.0f} ns from Python; a run of nothing {empty * 1e6:.2f} µs"
    )
    print(f"a table of {LAUNCHES} rows: made in {made * 1e3:.2f} ms, bound to other memory in {again * 1e6:.0f} µs")
    count = len(os.sched_getaffinity(0))
    if count > 1:
        with Driver(routines, 2) as driver:
            forks = Bound(Table((Loop(1000, (Launch(1, (Operand(0), Operand(1)), 2),)),)), code.addresses, regions)
            one = Bound(Table((Launch(1, (Operand(0), Operand(1)), 2),)), code.addresses, regions)
            spinning = best(lambda: driver.run(forks), 30) / 1000
            waking = []
            for _ in range(20):
                time.sleep(0.02)
                waking.append(best(lambda: driver.run(one), 1))
        print(
            f"a fork to two threads {spinning * 1e6:.2f} µs; after 20 ms of nothing {sorted(waking)[10] * 1e6:.0f} µs"
        )


def written_out() -> None:
    """Prints what a multiply-add costs on each level that runs here."""
    host = host_level().name
    for elem in (Elem.F32, Elem.F64):
        for level in list(LEVELS.values())[: list(LEVELS).index(host) + 1]:
            lanes = level.target.bytes // (4 if elem is Elem.F32 else 8)
            size, terms = 4096, 32
            kernel = mapped(size, lanes, horner(terms), elem)
            code = Code([compile_kernel(kernel, level)])
            arrays = [np.full(size, 0.5, np.float32 if elem is Elem.F32 else np.float64) for _ in range(2)]
            pointers = (ctypes.c_void_p * 2)(*(array.ctypes.data for array in arrays))
            function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(code.addresses[0])
            spent = best(lambda: function(ctypes.addressof(pointers), 0, 1), 20)  # noqa: B023 (called at once)
            print(f"fma {elem} on {level.name:<10}{spent / (size * terms) * 1e9:>8.3f} ns an element")


def main() -> None:
    blobs = compiling(host_level())
    loading(blobs)
    launching()
    written_out()


if __name__ == "__main__":
    main()
