"""A process that compiles: it reads requests from its standard input and writes answers to its standard output, one at a time.

LLVM lives here, so that a process that runs programs neither loads it nor ends when LLVM does. A message is its length, as eight
bytes, and a msgpack value. The process ends when its input does, and of its own when it had nothing to do for a while.
"""

import os
import resource
import select
import sys
from typing import Final

import msgspec

from presk.kernels.ir import Kernel
from presk.kernels.llvm.blobs import compile_kernel, compile_routines
from presk.kernels.llvm.compile import LlvmError
from presk.kernels.objects import Blob, ObjectError, Routines
from presk.kernels.targets import LEVELS

IDLE_SECONDS: Final = 120.0
"""After how long without a request a process ends."""

LENGTH: Final = 8


class Request(msgspec.Struct, frozen=True, array_like=True):
    """A kernel and a level, or the native routines where there is no kernel."""

    level: str
    kernel: Kernel | None


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """What was asked for, or what is wrong."""

    blob: Blob | None = None
    routines: Routines | None = None
    error: str = ""


_REQUEST: Final = msgspec.msgpack.Decoder(Request)
_ANSWER: Final = msgspec.msgpack.Decoder(Answer)
_ENCODER: Final = msgspec.msgpack.Encoder()


def frame(value: Request | Answer) -> bytes:
    """A message."""
    data = _ENCODER.encode(value)
    return len(data).to_bytes(LENGTH, "little") + data


def read_answer(descriptor: int) -> Answer | None:
    """The next answer; None where the process ended before it was complete."""
    data = _read(descriptor)
    return None if data is None else _ANSWER.decode(data)


def _read(descriptor: int) -> bytes | None:
    """The next message, without its length; None at the end."""
    head = _exactly(descriptor, LENGTH)
    return None if head is None else _exactly(descriptor, int.from_bytes(head, "little"))


def _exactly(descriptor: int, size: int) -> bytes | None:
    data = bytearray()
    while len(data) < size:
        more = os.read(descriptor, size - len(data))
        if not more:
            return None
        data += more
    return bytes(data)


def answer(request: Request) -> Answer:
    """The answer to one request."""
    try:
        if request.kernel is None:
            return Answer(routines=compile_routines())
        return Answer(blob=compile_kernel(request.kernel, LEVELS[request.level]))
    except (LlvmError, ObjectError, ValueError, KeyError) as error:
        return Answer(error=f"{type(error).__name__}: {error}")


def main(idle: float) -> None:
    """Answers until the input ends, or nothing came for `idle` seconds."""
    # LLVM aborts when it meets what it takes to be impossible; what is left of it is its message, not an image of its memory.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    source = sys.stdin.fileno()
    # What a library prints to standard output must not come between the answers.
    target = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    while select.select([source], [], [], idle)[0]:
        data = _read(source)
        if data is None:
            return
        rest = memoryview(frame(answer(_REQUEST.decode(data))))
        while rest:
            rest = rest[os.write(target, rest) :]


if __name__ == "__main__":
    main(float(sys.argv[1]))
