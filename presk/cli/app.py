"""The application: the commands of `presk`, one Typer application for the command line, the daemon and the documentation.

`run` executes one command line. It reads nothing of the process it runs in: see `presk.cli.request`.
"""

import contextlib
import io
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Final

import typer

from presk.cache.engine import Engine
from presk.cache.maintain import open_store
from presk.cli.commands import caching, checking, dumping, explaining, formatting
from presk.cli.exits import Exit
from presk.cli.request import Request, Terminal

RECURSION_LIMIT: Final = 20_000
"""Passes recurse over trees whose depth the parser bounds; CPython's default of 1,000 frames is less than that needs."""


def application() -> typer.Typer:
    """The Typer application. Its context object is the `Request`."""
    app = typer.Typer(
        name="presk",
        help="The Presk compiler: checks, runs and explains programs for neural networks.",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"terminal_width": 100, "max_content_width": 100},
    )
    app.command("check")(checking.check_command)
    app.command("dump")(dumping.dump_command)
    app.command("fmt")(formatting.fmt_command)
    app.command("explain")(explaining.explain_command)
    app.command("why")(caching.why_command)
    app.add_typer(caching.cache_application(), name="cache")
    return app


def store_engine(request: Request) -> Engine:
    """An engine over the store that the request's environment names; over memory alone where it names none."""

    def warn(text: str) -> None:
        request.complain(f"presk: warning: {text}")

    store = open_store(request.env, request.cwd, warn)
    return Engine(store)


def run(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    stdout: BinaryIO,
    stderr: BinaryIO,
    terminal: Terminal | None = None,
    make_engine: Callable[[Request], Engine] = store_engine,
) -> int:
    """Executes a command line and gives its exit code: 0, 1, 2, 3, 4, 70 or 130 (see `docs/command-line.md`)."""
    request = Request(cwd, env, stdout, stderr, make_engine, terminal or Terminal())
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, RECURSION_LIMIT))
    try:
        return _run(list(argv), request)
    except KeyboardInterrupt:
        return Exit.CANCELLED
    except BrokenPipeError:
        return Exit.DONE
    except Exception as error:  # noqa: BLE001  # the last resort: whatever it is, the user sees E9001 and not a traceback
        _internal(request, error)
        return Exit.INTERNAL
    finally:
        with contextlib.suppress(BrokenPipeError):
            request.finish(close=make_engine is store_engine)
            stdout.flush()
            stderr.flush()
        sys.setrecursionlimit(limit)


def _run(argv: list[str], request: Request) -> int:
    """Help and errors of the command line are text that Typer prints; it is caught here and sent where it belongs."""
    out, err = io.StringIO(), io.StringIO()
    code: int = Exit.DONE
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            application()(argv, prog_name="presk", obj=request)
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
