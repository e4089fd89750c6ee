"""The elementary functions on a million elements, in Gelem/s of one core's own time: our kernels in f32 and f64, numpy
and, where it is installed, PyTorch in f32. A function's candidates run in turn, again and again, so that what else the
machine does falls on all alike; the median and half of the distance between the quartiles are given.
"""

import ctypes
import statistics
import time
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from presk.kernels.host import host_level
from presk.kernels.ir import Elem
from presk.kernels.llvm.blobs import compile_kernel
from presk.kernels.llvm.run import DTYPES
from presk.kernels.math import ELEMENTARY
from presk.kernels.native.load import Code
from tests.tools.exhaustive import value_kernel

SIZE: Final = 1 << 20
ROUNDS: Final = 15

Call = Callable[[], object]


def numpy_sigmoid(x: NDArray[Any], out: NDArray[Any]) -> None:
    """The usual formula, in place."""
    np.negative(x, out=out)
    np.exp(out, out=out)
    np.add(out, 1, out=out)
    np.reciprocal(out, out=out)


NUMPY: Final[Mapping[str, Callable[..., object]]] = MappingProxyType(
    {
        "exp": np.exp,
        "tanh": np.tanh,
        "log": np.log,
        "sin": np.sin,
        "cos": np.cos,
        "sigmoid": numpy_sigmoid,
    }
)


def torch_calls(x: NDArray[np.float32]) -> dict[str, Call]:
    """PyTorch's functions on one thread, or none where it is not installed."""
    try:
        import torch  # type: ignore[import-not-found,unused-ignore] # a peer that may not be there
    except ImportError:
        return {}
    torch.set_num_threads(1)
    source = torch.from_numpy(x)
    target = torch.empty_like(source)
    calls: dict[str, Call] = {
        name: partial(getattr(torch, name), source, out=target)
        for name in ("exp", "tanh", "log", "sin", "cos", "sigmoid", "erf")
    }
    calls["gelu"] = partial(torch.nn.functional.gelu, source)
    return calls


def ours(name: str, elem: Elem, x: NDArray[Any], y: NDArray[Any]) -> tuple[Call, object]:
    """Our kernel at the machine's width, and what has to live as long as it."""
    level = host_level()
    lanes = level.target.bytes // 4
    code = Code((compile_kernel(value_kernel(name, elem, x.size, lanes), level),))
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(code.addresses[0])
    pointers = (ctypes.c_void_p * 2)(x.ctypes.data, y.ctypes.data)
    return partial(function, ctypes.addressof(pointers), 0, 1), (code, pointers)


def rates(calls: Mapping[str, Call]) -> dict[str, tuple[float, float]]:
    """Gelem/s, median and half of the distance between the quartiles, of candidates in turn."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            started = time.thread_time()
            call()
            times[name].append(SIZE / (time.thread_time() - started) / 1e9)
    result = {}
    for name, values in times.items():
        low, middle, high = statistics.quantiles(values, n=4)
        result[name] = (middle, (high - low) / 2)
    return result


def main() -> None:
    """Prints the table."""
    x = np.random.default_rng(0).uniform(-4, 4, SIZE)
    print(f"{'':8}{'f32':>15}{'f64':>15}{'numpy f32':>15}{'PyTorch f32':>15}   Gelem/s")
    for name in ELEMENTARY:
        arguments = np.abs(x) + 0.01 if name == "log" else x
        calls: dict[str, Call] = {}
        kept = []
        for elem in (Elem.F32, Elem.F64):
            source = arguments.astype(DTYPES[elem])
            target = np.empty_like(source)
            calls[elem], life = ours(name, elem, source, target)
            kept.append((source, target, life))
        narrow, scratch, _ = kept[0]
        if name in NUMPY:
            calls["numpy"] = partial(NUMPY[name], narrow, out=np.empty_like(scratch))
        peer = torch_calls(narrow)
        if name in peer:
            calls["PyTorch"] = peer[name]
        found = rates(calls)
        cells = [found.get(column) for column in (Elem.F32, Elem.F64, "numpy", "PyTorch")]
        texts = ["–" if cell is None else f"{cell[0]:.2f} ± {cell[1]:.2f}" for cell in cells]
        print(f"{name:8}" + "".join(f"{text:>15}" for text in texts), flush=True)


if __name__ == "__main__":
    main()
