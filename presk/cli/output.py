"""Standard output and standard error of a request as one ordered stream.

Text is gathered up to a bound, and what was gathered for one of them is passed on before anything is taken for the
other: whoever joins them again (`2>&1`, a terminal) sees the order in which they were written, whether the request is
worked on in this process or in another.
"""

import io
from collections.abc import Callable
from typing import BinaryIO, Final, cast

OUT: Final = 1
ERR: Final = 2
"""The numbers of the streams are those of the descriptors."""

GATHERED: Final = 1 << 16
"""Bytes."""


class Output:
    """Two streams for writing, and one sink that takes the number of a stream and bytes for it."""

    def __init__(self, sink: Callable[[int, bytes], None]) -> None:
        self._sink = sink
        self._number = OUT
        self._gathered = bytearray()
        self.stdout: Final = cast("BinaryIO", _Stream(self, OUT))
        self.stderr: Final = cast("BinaryIO", _Stream(self, ERR))

    def write(self, number: int, data: bytes) -> None:
        """Takes bytes for a stream."""
        if number != self._number:
            self.flush()
            self._number = number
        self._gathered += data
        if len(self._gathered) >= GATHERED:
            self.flush()

    def flush(self) -> None:
        """Passes on what was gathered. It is gone even if the sink fails, so that it is not written twice."""
        if self._gathered:
            data, self._gathered = bytes(self._gathered), bytearray()
            self._sink(self._number, data)


class _Stream(io.RawIOBase):
    def __init__(self, output: Output, number: int) -> None:
        self._output = output
        self._number = number

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        given = bytes(cast("bytes", data))
        self._output.write(self._number, given)
        return len(given)

    def flush(self) -> None:
        self._output.flush()
