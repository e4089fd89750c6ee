"""`presk watch`: a program is checked after each change, and a command is run again.

The daemon says what has changed and settled; this process asks it for each run, as any client does, and prints. A change that
comes while something runs cancels it. What was read is watched as it was read: a change between the two is told at once.
"""

import os
import select
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final

import typer

from presk.cli.exits import Exit
from presk.cli.request import Request
from presk.daemon import connect, places, protocol
from presk.daemon.messages import Observed, Report, StageReport, Watching, decode_changed, decode_report, encode

SHOWN: Final = 3
"""How many names of a kind a line shows."""


def watch_command(
    context: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A program.")],
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- COMMAND ...]", help="A command of presk to run after each change."),
    ] = None,
    runs: Annotated[int, typer.Option("--runs", min=0, help="Leave after so many runs; 0: never.")] = 0,
) -> None:
    """Check a program after each change, and run a command again if the check is passed."""
    request = context.ensure_object(Request)
    if request.env.get("PRESK_NO_DAEMON"):
        request.complain("error[E9003]: `presk watch` needs the daemon, and PRESK_NO_DAEMON is set")
        raise typer.Exit(Exit.USAGE)
    try:
        folder = places.runtime_folder(request.env, str(request.cwd))
        code = _Watch(request, folder, file, command or []).run(runs)
    except connect.NoDaemon as error:
        request.complain(f"error[E9005]: no daemon can be had: {error}")
        raise typer.Exit(Exit.INTERNAL) from error
    raise typer.Exit(code)


@dataclass(slots=True)
class _Run:
    """One command that was run. `code` is None where it was cancelled for a newer change."""

    code: int | None = None
    frames: list[tuple[int, bytes]] = field(default_factory=list)
    report: Report | None = None


class _Lost(Exception):
    """The daemon has gone; another one is asked."""


class _Watch:
    def __init__(self, request: Request, folder: str, file: str, command: Sequence[str]) -> None:
        self._request: Final = request
        self._folder: Final = folder
        self._file: Final = file
        self._command: Final = command
        self._files: tuple[Observed, ...] = (Observed(os.path.normpath(request.path(file)), fresh=True),)
        self._watching: connect.Connection | None = None
        self._changed: list[str] = []

    def run(self, runs: int) -> int:
        """Goes on until it is interrupted, or so many runs were finished; the last exit code."""
        code, done = 0, 0
        while True:
            try:
                if self._watching is None:
                    self._watching = connect.obtain(self._folder, self._request.env)
                    # Watched before they are read, and taken as they are until a run says what it found.
                    self._watch([Observed(one.path, fresh=True) for one in self._files])
                finished = self._once()
                if finished is not None:
                    code, done = finished, done + 1
                    if runs and done >= runs:
                        return code
                    self._wait()
            except (_Lost, OSError) as error:
                if isinstance(error, connect.NoDaemon | BrokenPipeError):
                    raise
                if self._watching is not None:
                    self._watching.close()
                    self._watching = None

    def _watch(self, files: Sequence[Observed]) -> None:
        """Says what is to be watched from now on."""
        assert self._watching is not None
        wanted = Watching(tuple(files), self._request.env.get("PRESK_FAULT", ""))
        try:
            self._watching.send(protocol.frame(protocol.WATCH, encode(wanted)))
        except OSError as error:
            raise _Lost from error

    def _once(self) -> int | None:
        """Checks, and runs the command; nothing where a newer change came."""
        began = time.monotonic()
        changed, self._changed = self._changed, []
        check = self._ask(["check", self._file], live=False)
        if check.code is None:
            return None
        if check.report is not None and check.report.files:
            self._files = check.report.files
            self._watch(self._files)
        for kind, data in check.frames:
            (self._request.stdout if kind == protocol.OUT else self._request.stderr).write(data)
        self._say(changed, check, time.monotonic() - began)
        if check.code or not self._command:
            return check.code
        return self._ask(self._command, live=True).code

    def _say(self, changed: Sequence[str], check: _Run, seconds: float) -> None:
        names = _some([os.path.basename(path) for path in changed], "files")
        verdict = {0: "passed", 1: "failed"}.get(check.code or 0, f"left with {check.code}")
        line = f"[{time.strftime('%H:%M:%S')}] {f'{names} changed: ' if names else ''}{self._file} {verdict}"
        if check.report is not None and check.report.stages:
            line += f"; {redone(check.report.stages)}"
        self._request.print(f"{line}; {seconds * 1e3:.0f} ms")
        self._request.stdout.flush()

    def _wait(self) -> None:
        """Waits for a change."""
        assert self._watching is not None
        while not self._changed:
            self._hear()

    def _hear(self) -> None:
        """Takes what the daemon says of changes; waits for it if it has said nothing."""
        assert self._watching is not None
        found = self._watching.receive()
        if found is None or found[0] != protocol.CHANGED:
            raise _Lost
        self._changed = sorted({*self._changed, *decode_changed(found[1])})

    def _ask(self, arguments: Sequence[str], *, live: bool) -> _Run:
        """Has the daemon work on a command line. Its output is gathered, or passed on as it comes if it is `live`."""
        request, run = self._request, _Run()
        assert self._watching is not None
        connection = connect.obtain(self._folder, request.env)
        mask = os.umask(0o077)
        os.umask(mask)
        terminal = request.terminal
        payload = protocol.request(
            arguments,
            str(request.cwd),
            terminal.is_terminal,
            terminal.columns,
            protocol.chosen(request.env),
            mask,
            report=True,
        )
        try:
            connection.send(protocol.frame(protocol.RUN, payload))
            while True:
                self._listen(connection)
                found = connection.receive()
                if found is None or found[0] == protocol.LEAVE:
                    raise _Lost
                kind, data = found
                if kind == protocol.EXIT:
                    run.code = None if self._changed else data[0]
                    return run
                if kind == protocol.REPORT:
                    run.report = decode_report(data)
                elif kind in (protocol.OUT, protocol.ERR) and live:
                    stream = request.stdout if kind == protocol.OUT else request.stderr
                    stream.write(data)
                    stream.flush()
                elif kind in (protocol.OUT, protocol.ERR):
                    run.frames.append((kind, data))
        finally:
            connection.close()

    def _listen(self, connection: connect.Connection) -> None:
        """Waits until a run says something; a change that is told before cancels it."""
        assert self._watching is not None
        told = False
        while not connection.pending():
            channels = [connection.channel] if told else [connection.channel, self._watching.channel]
            if not told and self._watching.pending():
                ready = [self._watching.channel]
            else:
                ready = select.select(channels, [], [])[0]
            if self._watching.channel in ready:
                self._hear()
                told = True
                connection.send(protocol.frame(protocol.CANCEL))
            if connection.channel in ready:
                return


def redone(stages: Sequence[StageReport]) -> str:
    """What a run computed and what it reused, in the order of the pipeline."""
    asked = sum(one.asked for one in stages)
    computed = sum(one.computed for one in stages)
    if not computed:
        return f"nothing redone, {asked} reused"
    made = [one for one in stages if one.computed]
    parts = "; ".join(f"{one.stage}: {_some(one.subjects, 'more', one.computed)}" for one in made)
    text = f"{computed} of {asked} redone ({parts})"
    # What was asked behind it was all there, or would have been: it gave what it gave before.
    if stages[-1] is not made[-1] or made[-1].computed == made[-1].unchanged:
        text += f", the edit stopped at {made[-1].stage}"
    return text


def _some(names: Sequence[str], what: str, number: int | None = None) -> str:
    total = len(names) if number is None else number
    shown = ", ".join(names[:SHOWN])
    return shown if total <= SHOWN else f"{shown} and {total - SHOWN} {what}"
