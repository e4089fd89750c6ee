"""Runs tables of launches, on one thread or several: one native call per run.

A `Driver` owns the state that the native routines (`presk.kernels.llvm.routines`) share, and the helper threads. Helpers are
started with it and end with it; they run native code alone and know nothing of Python, so a run gives up the interpreter's lock
for its whole time. Threads do not survive a fork of the process: a driver refuses to run in another process than the one it was
made in.

How many threads there are decides no bit: a kernel divides its own iterations.
"""

import ctypes
import os
import threading
import weakref
from types import TracebackType
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from presk.kernels.native.load import Code
from presk.kernels.native.table import WORKERS, Bound
from presk.kernels.native.words import (
    FUTEX,
    FUTEX_WAKE,
    JOB,
    LINE_BYTES,
    LINES,
    NUMBER,
    SPIN,
    STATE,
    STOP,
    SYSCALL,
    THREADS,
)
from presk.kernels.objects import Routines

SPIN_LIMIT: Final = 4000
"""How often a thread looks before it sleeps, some 40 to 100 µs; not at all where there are more threads than processors."""


class DriverError(Exception):
    """A table could not be run."""


class Driver:
    """Runs tables on `threads` threads, the caller's among them. A context manager that ends the helpers."""

    def __init__(self, routines: Routines, threads: int = 1) -> None:
        """ValueError for a number of threads that is not from 1 to 1024; OSError where a thread cannot be started."""
        if not 1 <= threads <= WORKERS:
            raise ValueError(f"a driver with {threads} threads")
        self._code: Final = Code((routines.run, routines.work))
        run, work = self._code.addresses
        libc = ctypes.CDLL(None, use_errno=True)
        self._state: Final = _State(threads, ctypes.cast(libc.syscall, ctypes.c_void_p).value or 0)
        self._run: Final = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)(run)
        self._lock: Final = threading.Lock()
        self._process: Final = os.getpid()
        self.threads: Final = threads
        helpers: list[int] = []
        # Registered before the first thread starts: what was started ends, whatever happens to the next one. The helpers run
        # in the code's memory and wait in the state's, so both live until they ended.
        self._end: Final = weakref.finalize(self, _end, self._state, self._code, helpers, self._process)
        for number in range(1, threads):
            helper = ctypes.c_ulong()
            error = libc.pthread_create(
                ctypes.byref(helper), None, ctypes.c_void_p(work), ctypes.c_void_p(self._state.line(number))
            )
            if error:
                self._end()
                raise OSError(error, f"a thread cannot be started: {os.strerror(error)}")
            helpers.append(helper.value)

    def run(self, table: Bound) -> None:
        """Runs a table once; other threads that ask wait. The memory that the table names, and its code, must be there."""
        if os.getpid() != self._process:
            raise DriverError("a driver is used in a process that forked from its own; its threads are not here")
        with self._lock:
            if not self._end.alive:
                raise DriverError("a driver is used after it was closed")
            status = self._run(table.address, self._state.address)
        if status:
            raise DriverError("the floating-point control word cannot be set on this machine")

    def close(self) -> None:
        """Ends the helpers; waits for a run that is going on."""
        with self._lock:
            self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _State:
    """The memory that the routines share; every helper's line has cache lines of its own."""

    def __init__(self, threads: int, syscall: int) -> None:
        size = LINES + LINE_BYTES * (threads - 1)
        memory: NDArray[np.uint8] = np.zeros(size + LINE_BYTES, np.uint8)
        skip = -memory.ctypes.data % LINE_BYTES
        self._words: Final = memory[skip : skip + size].view(np.int64)
        self.address: Final = self._words.ctypes.data
        self.threads: Final = threads
        self._words[SYSCALL // 8] = syscall
        crowded = threads > len(os.sched_getaffinity(0))
        self._words[SPIN // 8] = 0 if crowded else SPIN_LIMIT
        self._words[THREADS // 8] = threads
        for number in range(1, threads):
            at = (self.line(number) - self.address) // 8
            self._words[at + STATE // 8] = self.address
            self._words[at + NUMBER // 8] = number

    def line(self, number: int) -> int:
        """The address of a helper's line; the first helper is number 1."""
        return self.address + LINES + LINE_BYTES * (number - 1)

    def stop(self) -> None:
        """Tells all helpers to end."""
        self._words[STOP // 8] = 1
        libc = ctypes.CDLL(None)
        for number in range(1, self.threads):
            job = ctypes.c_uint32.from_address(self.line(number) + JOB)
            job.value += 1
            libc.syscall(
                *(ctypes.c_long(FUTEX), ctypes.c_void_p(ctypes.addressof(job)), ctypes.c_long(FUTEX_WAKE)),
                *(ctypes.c_long(1), None),
            )


def _end(state: _State, code: Code, helpers: list[int], process: int) -> None:
    """Ends and joins the helpers. In a process that forked there are none; `code` is only kept until here."""
    if os.getpid() != process:
        return
    state.stop()
    libc = ctypes.CDLL(None)
    for helper in helpers:
        libc.pthread_join(ctypes.c_ulong(helper), None)
