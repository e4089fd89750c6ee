"""The console script `presk`: hands its command line to the daemon and passes on the answer.

On that way nothing is imported but the protocol and `_socket`, of which `socket` is made (six milliseconds more). A
daemon is started where there is none. Where none can be had, or on demand (`--no-daemon`, `PRESK_NO_DAEMON`), the
application runs in this process, with the same bytes and the same exit code.
"""

import os
import sys

from presk.daemon import connect, places, protocol

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

LOCAL = ("daemon", "watch")
"""The commands that run in this process: they are about the daemon. `presk.cli.tool` holds them."""
NEEDS_THE_SHELL = ("--install-completion", "--show-completion")
"""Options that ask which shell started this process, unless a shell is named after them."""

DONE, USAGE, INTERNAL, CANCELLED = 0, 2, 70, 130
COLUMNS = 120
CANCEL_SECONDS = 10.0
"""How long the daemon may take to end what was cancelled; it needs two seconds at most."""


class _Closed(Exception):
    """Nobody reads this process's output any more."""


def main() -> "NoReturn":
    """Runs the command line of this process and leaves with its exit code."""
    _hold_streams()
    arguments = sys.argv[1:]
    try:
        code = _run(arguments)
    except KeyboardInterrupt:
        code = CANCELLED
    # What was written has been written, and tidying up the interpreter takes five milliseconds.
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os._exit(code)


def _hold_streams() -> None:
    """Opens the standard streams that are closed (`presk … >&-`): else the next file would get their number, and the output."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def _run(arguments: "list[str]") -> int:
    try:
        directory = os.getcwd()
    except OSError:
        _complain("error[E9002]: the current directory does not exist any more")
        return USAGE
    first = arguments[0] if arguments else ""
    if first in LOCAL:
        return _locally(arguments, directory, tool=True)
    if first == "--no-daemon":
        os.environ["PRESK_NO_DAEMON"] = "1"
        return _locally(arguments[1:], directory)
    if first in NEEDS_THE_SHELL:
        if arguments[1:]:
            # Typer then takes the shell's name as the option's value. (Where it looks itself it knows few shells: not `sh`.)
            os.environ["_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION"] = "1"
        return _locally(arguments, directory)
    if os.environ.get("PRESK_NO_DAEMON"):
        return _locally(arguments, directory)
    try:
        code = _ask(arguments, directory)
    except connect.NoDaemon as error:
        _complain(f"presk: warning: no daemon can be had: {error}; working without it")
        return _locally(arguments, directory)
    return code


def _ask(arguments: "list[str]", directory: str) -> int:
    """Has the daemon answer; `NoDaemon` where none can be had."""
    environment = os.environ
    try:
        folder = places.runtime_folder(environment, directory)
    except OSError as error:
        raise connect.NoDaemon(str(error)) from error
    mask = os.umask(0o077)
    os.umask(mask)
    terminal = os.isatty(1)
    request = protocol.frame(
        protocol.RUN,
        protocol.request(
            arguments, directory, terminal, _columns() if terminal else COLUMNS, protocol.chosen(environment), mask
        ),
    )
    connection = _first(folder, request)
    # A daemon may leave, or be killed, before it has said anything: then another one is asked.
    for _ in range(3):
        if connection is None:
            connection = connect.obtain(folder, environment)
            if not connection.deliver(request):
                connection.close()
                connection = None
                continue
        code = _relay(connection)
        if code is not None:
            return code
        connection.close()
        connection = None
    raise connect.NoDaemon("it ends again and again")


def _first(folder: str, request: bytes) -> "connect.Connection | None":
    """A connection to a daemon that is there, with the request sent right behind the first frame."""
    try:
        connection = connect.connect(folder)
    except OSError as error:
        raise error if isinstance(error, connect.NoDaemon) else connect.NoDaemon(str(error)) from error
    if connection is None:
        return None
    if not connection.deliver(protocol.hello(protocol.REQUEST, places.identity()) + request):
        connection.close()
        return None
    return connection if connect.welcomed(connection) else None


def _relay(connection: "connect.Connection") -> "int | None":
    """Passes on the answer and gives its exit code; nothing where the daemon has gone without a word of it."""
    said = False
    cancelled = False
    shown = False
    while True:
        try:
            found = connection.receive()
            if found is None or found[0] == protocol.LEAVE:
                break
            kind, payload = found
            if kind == protocol.PROGRESS:
                if os.isatty(2):
                    shown = True
                    _write(2, b"\r\x1b[K" + payload)
                continue
            if shown:
                shown = False
                _write(2, b"\r\x1b[K")
            if kind == protocol.EXIT:
                return payload[0]
            said = True
            _write(1 if kind == protocol.OUT else 2, payload)
        except KeyboardInterrupt:
            if cancelled:
                raise
            # The answer to this is the last frame; a second Ctrl-C does not wait for it.
            cancelled = True
            connection.channel.settimeout(CANCEL_SECONDS)
            try:
                connection.deliver(protocol.frame(protocol.CANCEL))
            except connect.NoDaemon:
                break
        except TimeoutError:
            break
        except _Closed:
            return DONE
    if cancelled:
        return CANCELLED
    if not said:
        return None
    _complain("error[E9005]: the daemon ended before the answer was complete")
    return INTERNAL


def _write(number: int, data: bytes) -> None:
    """Writes all bytes to a descriptor; `_Closed` where nobody reads them."""
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(number, left) :]
        except BlockingIOError:
            # Somebody who shares the descriptor made it so; only then this module is needed.
            import select

            select.select([], [number], [])
        except BrokenPipeError as error:
            raise _Closed from error


def _columns() -> int:
    try:
        # A terminal that was given no size says 0.
        return os.get_terminal_size(1).columns or COLUMNS
    except OSError:
        return COLUMNS


def _complain(text: str) -> None:
    try:
        _write(2, text.encode("utf-8", "backslashreplace") + b"\n")
    except _Closed:
        return


def _locally(arguments: "list[str]", directory: str, *, tool: bool = False) -> int:
    """Runs the application in this process."""
    from pathlib import Path  # the application needs it; what only passes frames on does not

    # Typer and the compiler take a third of a second to import.
    from presk.cli.output import Output
    from presk.cli.request import Terminal  # the same

    if tool:
        from presk.cli.tool import run  # Typer, and nothing of the compiler
    else:
        from presk.cli.app import run  # the compiler

    closed = False

    def sink(number: int, data: bytes) -> None:
        nonlocal closed
        try:
            _write(number, data)
        except _Closed as error:
            closed = True
            raise BrokenPipeError from error

    output = Output(sink)
    terminal = os.isatty(1)
    code = run(
        arguments,
        cwd=Path(directory),
        env=os.environ,
        stdout=output.stdout,
        stderr=output.stderr,
        terminal=Terminal(terminal, _columns() if terminal else COLUMNS),
    )
    return DONE if closed else code
