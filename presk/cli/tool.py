"""The part of the application that is about the daemon: small, so that `presk daemon status` loads no compiler.

`presk.cli.app` holds the same commands, for help and completion; the client runs them here, in its own process.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, BinaryIO, Final, NoReturn

import typer

from presk.cli import execute
from presk.cli.commands import daemons, watching
from presk.cli.request import Request, Terminal

COMMANDS: Final = ("daemon", "watch")
"""The commands that the client runs in its own process, whether there is a daemon or not."""


def empty_application(*, add_completion: bool) -> typer.Typer:
    """An application without commands, with the options that stand before one."""
    app = typer.Typer(
        name="presk",
        help="The Presk compiler: checks, runs and explains programs for neural networks.",
        no_args_is_help=True,
        add_completion=add_completion,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"terminal_width": 100, "max_content_width": 100},
    )
    app.callback()(_options)
    return app


def add_tool_commands(app: typer.Typer) -> None:
    """Adds the commands on the daemon."""
    app.add_typer(daemons.daemon_application(), name="daemon")
    app.command("watch")(watching.watch_command)


def run(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    stdout: BinaryIO,
    stderr: BinaryIO,
    terminal: Terminal | None = None,
) -> int:
    """As `presk.cli.app.run`, for the commands on the daemon."""
    app = empty_application(add_completion=False)
    add_tool_commands(app)
    request = Request(cwd, env, stdout, stderr, _no_engine, terminal or Terminal())
    return execute.execute(typer.main.get_command(app), argv, request)


def _options(
    no_daemon: Annotated[
        bool, typer.Option("--no-daemon", help="Work in this process, as PRESK_NO_DAEMON=1 does.")
    ] = False,
) -> None:
    """The Presk compiler: checks, runs and explains programs for neural networks."""
    # The client has looked at the option before anything was loaded; here it is for the help.


def _no_engine(request: Request) -> NoReturn:
    raise TypeError("a command on the daemon asked for an engine")
