"""One request of the command line: what was asked, from where, and where the answer goes.

Commands read nothing of the process: directory, environment and terminal are the request's, so that a daemon answers for its
clients and not for itself.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:  # commands on the daemon need no engine, and nothing of what it imports
    from presk.cache.engine import Engine
    from presk.elab.files import FolderReader


@dataclass(frozen=True, slots=True)
class Terminal:
    """Facts about where output goes."""

    is_terminal: bool = False
    columns: int = 120


@dataclass(frozen=True, slots=True)
class Request:
    """Directory, environment, terminal, the two output streams, and how to get the engine (made at its first use).

    `make_reader` gives the reader of a program by its main file.
    """

    cwd: Path
    env: Mapping[str, str]
    stdout: BinaryIO
    stderr: BinaryIO
    make_engine: "Callable[[Request], Engine]"
    terminal: Terminal = Terminal()
    make_reader: "Callable[[Path], FolderReader] | None" = None
    _engines: "list[Engine]" = field(default_factory=list)

    @property
    def engine(self) -> "Engine":
        """The engine that answers this request."""
        if not self._engines:
            self._engines.append(self.make_engine(self))
        return self._engines[0]

    def reader(self, main: Path) -> "FolderReader":
        """The reader of the program whose main file this is."""
        if self.make_reader is None:
            raise TypeError("a request without programs was asked for one")
        return self.make_reader(main)

    def finish(self) -> None:
        """Writes out what the engine still holds back."""
        for engine in self._engines:
            engine.flush()

    def print(self, text: str, end: str = "\n") -> None:
        """Writes text to standard output."""
        self.stdout.write((text + end).encode("utf-8", "surrogateescape"))

    def complain(self, text: str, end: str = "\n") -> None:
        """Writes text to standard error."""
        self.stderr.write((text + end).encode("utf-8", "surrogateescape"))

    def path(self, given: str) -> Path:
        """A path of the command line, as the client's directory sees it."""
        return Path(os.path.join(self.cwd, given))

    @property
    def color(self) -> bool:
        """Whether output is coloured: on a terminal that can show it, unless NO_COLOR is set to something."""
        return self.terminal.is_terminal and not self.env.get("NO_COLOR") and self.env.get("TERM") != "dumb"
