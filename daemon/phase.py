"""What a worker is doing, in memory that it shares with the daemon: it can be read after the worker was killed."""

import mmap
import os
import tempfile
from typing import Final

SIZE: Final = 512


class Phase:
    """A line of text in shared memory, by the descriptor of an unnamed file of `SIZE` bytes."""

    def __init__(self, descriptor: int) -> None:
        self._memory: Final = mmap.mmap(descriptor, SIZE)

    def say(self, text: str) -> None:
        """Replaces the text; what is too long is cut."""
        data = text.encode("utf-8", "replace")[: SIZE - 2]
        # The length is zero in between, so that no reader sees the end of another text.
        self._memory[0:2] = b"\0\0"
        self._memory[2 : 2 + len(data)] = data
        self._memory[0:2] = len(data).to_bytes(2, "little")

    def computing(self, stage: str, subject: str) -> None:
        """Says which stage is computed of what."""
        self.say(f"{stage} of {subject}" if subject else stage)

    def read(self) -> str:
        """The text; empty where nothing is done, and after `close`."""
        if self._memory.closed:
            return ""
        length = int.from_bytes(self._memory[0:2], "little")
        return self._memory[2 : 2 + length].decode("utf-8", "replace")

    def close(self) -> None:
        """Lets go of the memory."""
        self._memory.close()


def shared_file(folder: str) -> int:
    """The descriptor of an unnamed file for a `Phase`, to be closed by the caller."""
    with tempfile.TemporaryFile(dir=folder) as file:
        file.truncate(SIZE)
        return os.dup(file.fileno())
