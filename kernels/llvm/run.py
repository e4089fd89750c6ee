"""One kernel on arrays, compiled in this process: for tests and for looking at a kernel. Programs run through
`presk.kernels.native`."""

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from presk.kernels.ir import Elem, Kernel
from presk.kernels.llvm.blobs import compile_kernel
from presk.kernels.native.load import Code
from presk.kernels.objects import Blob
from presk.kernels.targets import Level

__all__ = ["DTYPES", "compile_kernel", "run_blob", "run_kernel"]

DTYPES: Final[Mapping[Elem, np.dtype[Any]]] = {
    Elem.F64: np.dtype(np.float64),
    Elem.F32: np.dtype(np.float32),
    Elem.BF16: np.dtype(np.uint16),
    Elem.I64: np.dtype(np.int64),
    Elem.I32: np.dtype(np.int32),
    Elem.U8: np.dtype(np.uint8),
}
"""What holds the elements of a buffer: numpy has no bf16, so its 16 bits are a natural number."""


def run_kernel(kernel: Kernel, arrays: Sequence[NDArray[Any]], level: Level, workers: int = 1) -> None:
    """Runs a kernel on one array per buffer, which it changes; with several workers, one after the other.

    An array is contiguous, has the buffer's size and `DTYPES[elem]`, and may stand at any address that suits its elements
    (ValueError)."""
    run_blob(compile_kernel(kernel, level), kernel, arrays, workers)


def run_blob(blob: Blob, kernel: Kernel, arrays: Sequence[NDArray[Any]], workers: int = 1) -> None:
    """The same for a kernel that was compiled before."""
    if len(arrays) != len(kernel.buffers):
        raise ValueError(f"the kernel has {len(kernel.buffers)} buffers, not {len(arrays)}")
    for number, (buffer, array) in enumerate(zip(kernel.buffers, arrays, strict=True)):
        if array.dtype != DTYPES[buffer.elem] or array.size != buffer.size or not array.flags.c_contiguous:
            raise ValueError(f"buffer {number} is {buffer.size} × {buffer.elem}, not {array.size} × {array.dtype}")
    code = Code((blob,))
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(code.addresses[0])
    pointers = (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
    for worker in range(workers):
        function(ctypes.addressof(pointers), worker, workers)
