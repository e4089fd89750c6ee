"""Blobs to executable memory: a copy and a change of protection. There is no LLVM here, and no linker.

Memory is writable or executable, never both: blobs are copied into a fresh mapping, which is then made executable and read-only.
"""

import ctypes
import mmap
from collections.abc import Sequence
from typing import Final

from presk.kernels.host import UnsupportedMachine, host_level
from presk.kernels.objects import ALIGNMENT, Blob, ObjectError, check
from presk.kernels.targets import LEVELS

Address = int
"""An address in this process."""


class Code:
    """Loaded blobs; `addresses` are those of their functions, in the order of the blobs.

    The memory lives as long as this object: whoever calls an address keeps it. Loading one blob twice gives two copies.
    """

    def __init__(self, blobs: Sequence[Blob]) -> None:
        """`ObjectError` for a damaged blob, `UnsupportedMachine` for one that this machine cannot run, OSError without memory."""
        order = list(LEVELS)
        host = order.index(host_level().name)
        offsets = []
        size = 0
        for blob in blobs:
            check(blob)
            if blob.level not in LEVELS:
                raise ObjectError(f"a blob of native code is for the level {blob.level}, which does not exist")
            if order.index(blob.level) > host:
                raise UnsupportedMachine(
                    f"native code for {blob.level} cannot run on this machine, which is {order[host]}"
                )
            offsets.append(size)
            size += -(-len(blob.code) // ALIGNMENT) * ALIGNMENT
        size = max(size, 1)
        self._memory: Final = mmap.mmap(
            -1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ | mmap.PROT_WRITE
        )
        # The view keeps the mapping from being closed, and is what knows its address.
        self._view: Final = ctypes.c_char.from_buffer(self._memory)
        start = ctypes.addressof(self._view)
        for offset, blob in zip(offsets, blobs, strict=True):
            self._memory[offset : offset + len(blob.code)] = blob.code
        self.size: Final = size
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mprotect(ctypes.c_void_p(start), ctypes.c_size_t(size), ctypes.c_int(mmap.PROT_READ | mmap.PROT_EXEC)):
            raise OSError(ctypes.get_errno(), "memory for native code cannot be made executable")
        self.addresses: Final[tuple[Address, ...]] = tuple(
            start + offset + blob.entry for offset, blob in zip(offsets, blobs, strict=True)
        )
