"""The console script `presk`: runs the application in this process with the process's streams."""

import os
import sys
from pathlib import Path


def main() -> None:
    """Runs the command line of this process and leaves with its exit code."""
    # The application imports Typer and the compiler, which takes a tenth of a second: not before it is needed.
    from presk.cli.app import Terminal, run

    columns = 120
    if sys.stdout.isatty():
        try:
            columns = os.get_terminal_size(sys.stdout.fileno()).columns
        except OSError:
            columns = 120
    code = run(
        sys.argv[1:],
        cwd=Path(os.getcwd()),
        env=os.environ,
        stdout=sys.stdout.buffer,
        stderr=sys.stderr.buffer,
        terminal=Terminal(sys.stdout.isatty(), columns),
    )
    sys.exit(code)
