"""The application: the commands of `presk`, one Typer application for the command line, the daemon and the documentation.

`run` executes one command line. It reads nothing of the process it runs in: see `presk.cli.request`.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import typer

from presk.cache.engine import Engine
from presk.cache.files import default_folder
from presk.cache.maintain import open_store
from presk.cache.packages import Packages
from presk.cache.store import Store
from presk.cli import execute
from presk.cli.commands import (
    benching,
    caching,
    checking,
    data_files,
    dumping,
    explaining,
    formatting,
    generating,
    running,
    training,
)
from presk.cli.exits import Exit
from presk.cli.faults import FaultyFiles, faults_of
from presk.cli.request import Request, Terminal
from presk.cli.tool import add_tool_commands, empty_application
from presk.elab.files import FolderReader
from presk.kernels.identity import IDENTITIES


def application() -> typer.Typer:
    """The Typer application. Its context object is the `Request`."""
    app = empty_application(add_completion=True)
    app.command("check")(checking.check_command)
    app.command("dump")(dumping.dump_command)
    app.command("run")(running.run_command)
    app.command(training.NAME)(training.train_command)
    app.command("generate")(generating.generate_command)
    app.command("bench")(benching.bench_command)
    app.command("fmt")(formatting.fmt_command)
    app.command("explain")(explaining.explain_command)
    app.command("why")(caching.why_command)
    app.add_typer(data_files.data_application(), name="data")
    app.add_typer(caching.cache_application(), name="cache")
    add_tool_commands(app)
    return app


def command() -> execute.Command:
    """The application as one callable. It takes eight milliseconds to make and may be used again and again."""
    made: execute.Command = typer.main.get_command(application())
    return made


def store_engine(request: Request) -> Engine:
    """An engine over the store that the request's environment names; over memory alone where it names none."""

    def warn(text: str) -> None:
        request.complain(f"presk: warning: {text}")

    faults = faults_of(request.env)
    folder = default_folder(request.env, request.cwd) if faults else None
    if folder is not None:
        return Engine(Store(folder, on_warning=warn, files=FaultyFiles(faults)), packages=Packages(IDENTITIES))
    return Engine(open_store(request.env, request.cwd, warn), packages=Packages(IDENTITIES))


def run(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    stdout: BinaryIO,
    stderr: BinaryIO,
    terminal: Terminal | None = None,
    make_engine: Callable[[Request], Engine] = store_engine,
    make_reader: Callable[[Path], FolderReader] = FolderReader,
    made: execute.Command | None = None,
) -> int:
    """Executes a command line and gives its exit code: 0, 1, 2, 3, 4, 70 or 130 (see `docs/command-line.md`).

    `make_reader` gives the reader of a program by its main file. `made` is the application where the caller keeps it.
    """
    request = Request(cwd, env, stdout, stderr, make_engine, terminal or Terminal(), make_reader)
    try:
        faults_of(env)
    except ValueError as error:
        request.complain(f"error[E9003]: PRESK_FAULT: {error}")
        stderr.flush()
        return Exit.USAGE
    return execute.execute(made or command(), argv, request)
