"""One request of the command line: what was asked, from where, and where the answer goes.

Commands read nothing of the process: directory, environment and terminal are the request's, so that a daemon answers for its
clients and not for itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO


@dataclass(frozen=True, slots=True)
class Terminal:
    """Facts about where output goes."""

    is_terminal: bool = False
    columns: int = 100


@dataclass(frozen=True, slots=True)
class Request:
    """Directory, environment, terminal and the two output streams."""

    cwd: Path
    env: Mapping[str, str]
    stdout: BinaryIO
    stderr: BinaryIO
    terminal: Terminal = Terminal()

    def print(self, text: str, end: str = "\n") -> None:
        """Writes text to standard output."""
        self.stdout.write((text + end).encode("utf-8", "surrogateescape"))

    def complain(self, text: str, end: str = "\n") -> None:
        """Writes text to standard error."""
        self.stderr.write((text + end).encode("utf-8", "surrogateescape"))

    @property
    def color(self) -> bool:
        """Whether output is coloured: on a terminal, unless NO_COLOR is set to something."""
        return self.terminal.is_terminal and not self.env.get("NO_COLOR") and self.env.get("TERM") != "dumb"
