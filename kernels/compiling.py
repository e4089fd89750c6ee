"""Compiles kernels in processes of their own, several at once; this process never loads LLVM.

`Compilers` keeps some processes (`presk.kernels.llvm.server`) and gives each one kernel at a time, so that when one ends without an
answer it is known which kernel LLVM died of. Processes are started when there is work for them, stay for the next one, and end by
themselves after a while or with this process.
"""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import IO, Final, Self

import msgspec

from presk.cache.digest import shown, value_digest
from presk.kernels.ir import Kernel
from presk.kernels.llvm.server import IDLE_SECONDS, Answer, Request, frame, read_answer
from presk.kernels.objects import Blob, Routines

_LAST_WORDS: Final = 2000
"""So many bytes of what a process printed before it ended are shown."""


class CompileError(Exception):
    """A kernel could not be compiled: a bug of this compiler or of LLVM. The message names the kernel by its digest."""


class Compilers:
    """Processes that compile, at most `processes` at once. Safe to use from several threads; a context manager.

    A process that had nothing to do for `idle` seconds ends.
    """

    def __init__(self, processes: int, idle: float = IDLE_SECONDS) -> None:
        if processes < 1:
            raise ValueError(f"{processes} processes cannot compile")
        self.processes: Final = processes
        self._seconds: Final = idle
        self._turns: Final = threading.BoundedSemaphore(processes)
        self._lock: Final = threading.Lock()
        self._idle: Final[list[_Process]] = []
        self._closed = False
        # For those that nobody closes: with the object, or when this process ends.
        self._end: Final = weakref.finalize(self, _end_all, self._idle)

    def kernel(self, kernel: Kernel, level: str) -> Blob:
        """A kernel for a level, by name; waits while all processes work. `CompileError` where it cannot be compiled."""
        answer = self._ask(Request(level, kernel))
        if answer.blob is None:
            raise CompileError(f"{kernel_name(kernel)} for {level}: {answer.error}")
        return answer.blob

    def routines(self) -> Routines:
        """The native routines. `CompileError` where they cannot be compiled."""
        answer = self._ask(Request("", None))
        if answer.routines is None:
            raise CompileError(f"the native routines: {answer.error}")
        return answer.routines

    def all(self, kernels: Sequence[Kernel], level: str) -> tuple[Blob, ...]:
        """Several kernels at once, in their order; kernels alike are compiled once. `CompileError` for the first that cannot be."""
        different = list(dict.fromkeys(kernels))
        with ThreadPoolExecutor(min(self.processes, max(len(different), 1))) as threads:
            blobs = dict(zip(different, threads.map(lambda one: self.kernel(one, level), different), strict=True))
        return tuple(blobs[kernel] for kernel in kernels)

    def close(self) -> None:
        """Ends the processes that do not work; those that do end when they have answered."""
        with self._lock:
            self._closed = True
            self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask(self, request: Request) -> Answer:
        data = frame(request)
        with self._turns:
            while True:
                with self._lock:
                    process = self._idle.pop() if self._idle else None
                rested = process is not None
                if process is None:
                    process = _Process(self._seconds)
                answered = False
                try:
                    answer = process.ask(data)
                    answered = answer is not None
                finally:
                    # A request that was given up half-way leaves an answer in the pipe that is nobody's.
                    if not answered:
                        process.kill()
                if answer is not None:
                    self._rest(process)
                    return answer
                # One that had been idle may have ended by itself just now; that is no fault of the kernel's.
                if not (rested and process.ended_well()):
                    return Answer(error=f"the compiling process ended: {process.last_words}")

    def _rest(self, process: "_Process") -> None:
        with self._lock:
            if not self._closed:
                self._idle.append(process)
                return
        process.end()


class _Process:
    """One compiling process."""

    def __init__(self, idle: float) -> None:
        self.last_words = ""
        """How the process ended and what it printed last, once it was killed."""
        self._errors: Final[IO[bytes]] = tempfile.TemporaryFile()
        self._process: Final = subprocess.Popen(
            [sys.executable, "-P", "-m", "presk.kernels.llvm.server", str(idle)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd="/",
            bufsize=0,
        )

    def ask(self, data: bytes) -> Answer | None:
        """The answer; None where the process ended."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(stdin.fileno(), rest) :]
        except BrokenPipeError:
            return None
        return read_answer(stdout.fileno())

    def end(self) -> None:
        """Lets a process that waits for work end."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        self._errors.close()

    def kill(self) -> None:
        """Ends a process whatever it does."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        try:
            # One whose answer broke off is ending by itself, and how it did is of interest.
            code = self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit {code}"
        self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, self._errors.tell() - _LAST_WORDS))
        said = self._errors.read().decode("utf-8", "replace").strip()
        self._errors.close()
        self.last_words = f"{how}: {said}" if said else how

    def ended_well(self) -> bool:
        """Whether the process left by itself, without an error."""
        return self._process.returncode == 0


def _end_all(processes: list[_Process]) -> None:
    """Ends processes that wait for work."""
    while processes:
        processes.pop().end()


def kernel_name(kernel: Kernel) -> str:
    """A kernel has no name; this is what messages call it."""
    return f"kernel {shown(value_digest(msgspec.msgpack.encode(kernel)))}"


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0))


def compile_all(kernels: Sequence[Kernel], level: str, processes: int | None = None) -> tuple[Blob, ...]:
    """Several kernels for a level, by name, in their order, in at most so many processes (None: one per processor)."""
    with Compilers(processors() if processes is None else processes) as compilers:
        return compilers.all(kernels, level)
