"""`presk daemon …`: the daemon's life, and what it is doing."""

import os
import time
from collections import deque
from typing import Annotated, Final

import typer

from presk.cli.exits import Exit
from presk.cli.request import Request
from presk.daemon import connect, places, protocol
from presk.daemon.messages import State, decode_state

STOP_SECONDS: Final = 20.0
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object on standard output and nothing else there.")]


def daemon_application() -> typer.Typer:
    """The group of commands on the daemon."""
    app = typer.Typer(
        help="Start and stop the daemon, and see what it does.", no_args_is_help=True, rich_markup_mode=None
    )
    app.command("start")(start_command)
    app.command("stop")(stop_command)
    app.command("restart")(restart_command)
    app.command("status")(status_command)
    app.command("log")(log_command)
    app.command("top")(top_command)
    return app


def start_command(context: typer.Context) -> None:
    """Start the daemon if none runs. Any other command does so by itself."""
    request = context.ensure_object(Request)
    folder = folder_of(request)
    before = _state(folder)
    _start(request, folder)
    after = _state(folder)
    if after is None:
        raise _no_daemon(request, "it has gone again")
    same = before is not None and before.pid == after.pid
    request.print(f"the daemon runs already (pid {after.pid})" if same else f"the daemon runs (pid {after.pid})")


def stop_command(context: typer.Context) -> None:
    """Stop the daemon; what it works on is cancelled. Returns when it has left."""
    request = context.ensure_object(Request)
    request.print("the daemon has stopped" if _stop(request, folder_of(request)) else "no daemon runs")


def restart_command(context: typer.Context) -> None:
    """Stop the daemon if one runs, and start a new one."""
    request = context.ensure_object(Request)
    folder = folder_of(request)
    _stop(request, folder)
    _start(request, folder)
    state = _state(folder)
    if state is None:
        raise _no_daemon(request, "it has gone again")
    request.print(f"the daemon runs (pid {state.pid})")


def status_command(context: typer.Context, json: JsonOption = False) -> None:
    """Show the daemon's work, workers, memory, watches, and last errors; leaves with 1 if none runs."""
    request = context.ensure_object(Request)
    payload = _state_payload(folder_of(request))
    if payload is None:
        request.print('{"running": false}' if json else "no daemon runs")
        raise typer.Exit(Exit.FAILED)
    request.print(payload.decode("utf-8") if json else state_text(decode_state(payload)), end="\n" if json else "")


def log_command(
    context: typer.Context,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="How many lines of its end.")] = 50,
    job: Annotated[int | None, typer.Option("--job", help="Only what is about this request.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what is written next.")] = False,
) -> None:
    """Show the end of the daemon's log."""
    request = context.ensure_object(Request)
    path = os.path.join(folder_of(request), places.LOG)
    word = "" if job is None else f" job {job}"
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in deque((line for line in file if _about(line, word)), maxlen=lines):
                request.print(line, end="")
            while follow:
                request.stdout.flush()
                line = file.readline()
                if line:
                    if _about(line, word):
                        request.print(line, end="")
                    continue
                if os.fstat(file.fileno()).st_size < file.tell():
                    file.seek(0)  # it was begun again
                time.sleep(0.2)
    except FileNotFoundError:
        request.print("there is no log yet")


def top_command(
    context: typer.Context,
    seconds: Annotated[float, typer.Option("--seconds", min=0.1, help="How often it is shown anew.")] = 1.0,
    times: Annotated[int, typer.Option("--times", min=0, help="How often in all; 0: until it is interrupted.")] = 0,
) -> None:
    """Show the status again and again; once where output is no terminal."""
    request = context.ensure_object(Request)
    folder = folder_of(request)
    number = times or (0 if request.terminal.is_terminal else 1)
    shown = 0
    while True:
        state = _state(folder)
        if request.terminal.is_terminal:
            request.print("\x1b[H\x1b[2J", end="")
        request.print("no daemon runs" if state is None else state_text(state), end="\n" if state is None else "")
        request.stdout.flush()
        shown += 1
        if number and shown >= number:
            return
        time.sleep(seconds)


def folder_of(request: Request) -> str:
    """The runtime folder of a request; leaves with 2 where there is none."""
    try:
        return places.runtime_folder(request.env, str(request.cwd))
    except OSError as error:
        raise _no_daemon(request, str(error)) from error


def state_text(state: State) -> str:
    """A daemon's state for people."""
    counts = state.counts
    reused = counts.memory + counts.disk
    rate = f"{100 * reused / counts.asked:.1f} % of {counts.asked}" if counts.asked else "nothing asked yet"
    limit = "never" if state.idle_limit is None else f"after {shown_seconds(state.idle_limit)} without work"
    lines = [
        f"daemon {state.pid}, up {shown_seconds(state.seconds)}, {shown_bytes(state.memory)}, build {state.build[:12]}",
        f"folder: {state.folder}",
        f"leaves: {limit}; idle for {shown_seconds(state.idle_seconds)}",
        f"requests: {counts.requests} ({counts.shared} shared, {counts.cancelled} cancelled, {counts.crashed} crashed)",
        f"answers of stages reused: {rate} ({counts.memory} from memory, {counts.disk} from disk)",
        f"jobs: {len(state.jobs)}",
    ]
    for job in state.jobs:
        what = job.phase if job.running else "waits"
        where = f", worker {job.worker}" if job.worker is not None else ""
        lines.append(
            f"  {job.id}: {job.command} ({job.scheduling}, {shown_seconds(job.seconds)}{where}, clients: {job.clients}) {what}"
        )
    lines.append(f"workers: {len(state.workers)} ({counts.workers} started)")
    lines += [
        f"  {one.pid}: {one.state}, {one.done} requests, {shown_bytes(one.memory)}, up {shown_seconds(one.seconds)}"
        for one in state.workers
    ]
    watching = state.watching
    lines.append(f"watching: {watching.files} files in {len(watching.folders)} folders for {watching.watchers} clients")
    lines += [f"  {folder}" for folder in watching.folders]
    lines += [f"warning: {text}" for text in state.warnings]
    lines.append(f"last errors: {len(state.failures)}")
    lines += [f"  {time.strftime('%H:%M:%S', time.localtime(one.when))} {one.text}" for one in state.failures]
    return "\n".join(lines) + "\n"


def shown_seconds(seconds: float) -> str:
    """A time for people."""
    whole = int(seconds)
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    if whole >= 60:
        return f"{whole // 60} min {whole % 60} s"
    return f"{seconds:.1f} s"


def shown_bytes(size: int) -> str:
    """A number of bytes for people."""
    return f"{size / (1 << 20):.0f} MiB"


def _about(line: str, word: str) -> bool:
    return not word or f"{word} " in line or f"{word}:" in line


def _no_daemon(request: Request, why: str) -> typer.Exit:
    request.complain(f"error[E9005]: no daemon can be had: {why}")
    return typer.Exit(Exit.INTERNAL)


def _start(request: Request, folder: str) -> None:
    try:
        connect.obtain(folder, request.env).close()
    except OSError as error:
        raise _no_daemon(request, str(error)) from error


def _stop(request: Request, folder: str) -> bool:
    """Stops the daemon of a folder; false if none ran."""
    state, connection = _state(folder), _manage(folder)
    if state is None or connection is None:
        if connect.is_locked(folder) and not connect.wait_until_gone(folder, STOP_SECONDS):
            raise _no_daemon(request, "it holds its lock and does not stop")
        return False
    life = connect.LifeLock(state.temporary)
    try:
        connection.send(protocol.frame(protocol.STOP))
        while connection.receive() is not None:
            pass
        if not life.wait(STOP_SECONDS):
            raise _no_daemon(request, "it does not stop")
    finally:
        life.close()
        connection.close()
    return True


def _manage(folder: str) -> connect.Connection | None:
    try:
        return connect.attempt(folder, protocol.MANAGE)
    except OSError:
        return None


def _state_payload(folder: str) -> bytes | None:
    connection = _manage(folder)
    if connection is None:
        return None
    try:
        connection.send(protocol.frame(protocol.STATUS))
        found = connection.receive()
    except OSError:
        return None
    finally:
        connection.close()
    return found[1] if found is not None and found[0] == protocol.STATE else None


def _state(folder: str) -> State | None:
    payload = _state_payload(folder)
    return None if payload is None else decode_state(payload)
