"""Running one command line of a Typer application: exit codes, help, and what the user sees of an internal error."""

import contextlib
import io
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from presk.cli.exits import Exit
from presk.cli.request import Request

RECURSION_LIMIT: Final = 20_000
"""Passes recurse over trees whose depth the parser bounds; CPython's default of 1,000 frames is less than that needs."""

Command = Callable[..., object]
"""What Typer makes of an application (`typer.main.get_command`)."""


def execute(command: Command, argv: Sequence[str], request: Request) -> int:
    """Executes a command line and gives its exit code: 0, 1, 2, 3, 4, 70 or 130 (see `docs/command-line.md`)."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, RECURSION_LIMIT))
    try:
        return _execute(command, list(argv), request)
    except KeyboardInterrupt:
        return Exit.CANCELLED
    except BrokenPipeError:
        return Exit.DONE
    except Exception as error:  # noqa: BLE001  # the last resort: whatever it is, the user sees E9001 and not a traceback
        _internal(request, error)
        return Exit.INTERNAL
    finally:
        with contextlib.suppress(BrokenPipeError):
            request.finish()
            request.stdout.flush()
            request.stderr.flush()
        sys.setrecursionlimit(limit)


def _execute(command: Command, argv: list[str], request: Request) -> int:
    """Help and errors of the command line are text that Typer prints; it is caught here and sent where it belongs."""
    out, err = io.StringIO(), io.StringIO()
    code: int = Exit.DONE
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            command(argv, prog_name="presk", obj=request)
        except SystemExit as left:
            code = left.code if isinstance(left.code, int) else Exit.DONE
    if out.getvalue():
        request.print(out.getvalue(), end="")
    if err.getvalue():
        request.complain(err.getvalue(), end="")
    return code


def _internal(request: Request, error: Exception) -> None:
    """An internal error (E9001): one line, and the details in a file, so that it can be reported."""
    request.complain(f"error[E9001]: internal error: {type(error).__name__}: {error}")
    details = "".join(traceback.format_exception(error))
    folder = request.env.get("PRESK_HOME") or request.env.get("XDG_STATE_HOME") or request.env.get("HOME")
    if folder:
        path = os.path.join(folder, ".presk-crash.txt" if folder == request.env.get("HOME") else "presk-crash.txt")
        try:
            Path(path).write_text(details, encoding="utf-8")
        except OSError:
            path = ""
        if path:
            request.complain(f"  = note: details are in {path}")
    request.complain("  = help: this is a fault of Presk, not of the program; please report it with the program")
