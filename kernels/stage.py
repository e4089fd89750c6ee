"""Stages of native code: a kernel as a blob, and the native routines.

A blob's key holds the kernel (its buffers, loops, types and layout: all of its text), the level's name, the source of all that
makes code of it (the features and the processor of a level, the passes, the relocation and code model, the routines' words), and
the digest of the LLVM library (`presk.kernels.identity`). Where the kernel comes from is not in it: kernels alike share one blob.

The work is done by processes of their own, one per processor; asking from several threads uses several of them.
"""

import functools
from typing import Final

from presk.cache.codec import struct_codec
from presk.cache.stage import Stage
from presk.kernels.compiling import Compilers, processors
from presk.kernels.ir import Kernel
from presk.kernels.objects import Blob, Routines

PACKAGES: Final = ("blake3", "llvmlite")

KERNEL: Final = struct_codec(Kernel)


@functools.cache
def compilers() -> Compilers:
    """The compiling processes of this process. They hold no result: whoever asks gets what a new one would give."""
    return Compilers(processors())


def _object(kernel: Kernel, *, level: str) -> Blob:
    return compilers().kernel(kernel, level)


def _routines() -> Routines:
    return compilers().routines()


OBJECT: Final = Stage("object", __name__, ("level",), _object, struct_codec(Blob), PACKAGES)
"""A kernel for a level, by name."""

ROUTINES: Final = Stage("routines", __name__, (), _routines, struct_codec(Routines), PACKAGES)
"""What runs tables of launches; the same for all machines."""
