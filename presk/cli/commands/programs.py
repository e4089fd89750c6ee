"""What commands on programs share: reading a file of the command line, overrides, printing diagnostics."""

import errno
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from unicodedata import normalize

import typer

from presk.check import Checked, check, check_program
from presk.cli.exits import Exit
from presk.cli.request import Request
from presk.diagnostics.render_json import render_json
from presk.diagnostics.render_text import TextOptions, render_text, summary
from presk.diagnostics.sources import Sources
from presk.diagnostics.suggest import closest
from presk.diagnostics.value import Diagnostic
from presk.elab.files import FolderReader
from presk.elab.program import Program
from presk.syntax.tree import Const
from presk.types.dim import Dim, constant

MAX_DIGITS = 10_000


def usage(request: Request, code: str, message: str, mend: str | None = None) -> typer.Exit:
    """Complains about the command line and gives the exit to raise."""
    request.complain(f"error[{code}]: {message}")
    if mend is not None:
        request.complain(f"  = help: {mend}")
    return typer.Exit(Exit.USAGE)


def overrides_of(request: Request, given: Sequence[str]) -> dict[str, Dim]:
    """`--const NAME=N` as values; E9003 for anything that is not a name and a natural number."""
    values: dict[str, Dim] = {}
    for text in given:
        name, equals, number = text.partition("=")
        if not equals or not name.strip():
            raise usage(request, "E9003", f"`--const {text}` is not of the form NAME=N")
        digits = number.strip()
        if not (digits.isascii() and digits.isdigit()) or len(digits) > MAX_DIGITS:
            raise usage(request, "E9003", f"`--const {text}`: `{number}` is not a natural number")
        values[normalize("NFC", name.strip())] = constant(int(digits) if len(digits) < 4000 else _large(digits))
    return values


def _large(digits: str) -> int:
    """A number of more digits than `int` reads at once."""
    value = 0
    for start in range(0, len(digits), 4000):
        part = digits[start : start + 4000]
        value = value * 10 ** len(part) + int(part)
    return value


def reader_of(request: Request, given: str) -> FolderReader:
    """The reader for a program of the command line; E9002 if there is no such file."""
    path = request.path(given)
    problem = _problem(path)
    if problem is not None:
        mend = None
        if problem == "there is no such file":
            mend = _near(path, given)
        raise usage(request, "E9002", f"`{given}` cannot be read: {problem}", mend)
    return request.reader(path)


def _problem(path: Path) -> str | None:
    try:
        if not path.exists():
            return "there is no such file"
        if path.is_dir():
            return "it is a folder"
        return None if os.access(path, os.R_OK) else "it may not be read"
    except (OSError, ValueError) as error:
        return (
            "its name is too long"
            if getattr(error, "errno", None) == errno.ENAMETOOLONG
            else "its name is not a file name"
        )


def _near(path: Path, given: str) -> str | None:
    try:
        names = [entry.name for entry in os.scandir(path.parent)]
    except OSError:
        return None
    near = closest(path.name, names)
    return None if near is None else f"did you mean `{os.path.join(os.path.dirname(given), near)}`?"


def checked(request: Request, given: str, overrides: dict[str, Dim]) -> Checked:
    """Checks a program of the command line; E9002 and E9003 leave with 2."""
    reader = reader_of(request, given)
    found = check(request.engine, reader, reader.main, given, overrides)
    if isinstance(found, str):
        raise unreadable(request, given, found)
    _known_overrides(request, given, found, overrides)
    return found


def elaborated(request: Request, given: str, overrides: dict[str, Dim]) -> tuple[Checked, Program]:
    """As `checked`, with what the program means."""
    reader = reader_of(request, given)
    both = check_program(request.engine, reader, reader.main, given, overrides)
    if isinstance(both, str):
        raise unreadable(request, given, both)
    _known_overrides(request, given, both[0], overrides)
    return both


def unreadable(request: Request, given: str, why: str) -> typer.Exit:
    """E9002 for a file of the command line."""
    return usage(request, "E9002", f"`{given}` cannot be read: {why}")


def _known_overrides(request: Request, given: str, found: Checked, overrides: dict[str, Dim]) -> None:
    """E9003 for the first override of a name that the main file does not declare as a constant."""
    name = next((name for name in overrides if name in found.unknown_overrides), None)
    if name is None:
        return
    parsed = found.loaded.syntax[found.loaded.main].value
    near = closest(
        name, [one.declaration.name for one in parsed.file.declarations if isinstance(one.declaration, Const)]
    )
    raise usage(
        request,
        "E9003",
        f"`{given}` declares no constant `{name}`",
        f"did you mean `{near}`?" if near is not None else "`--const` replaces constants of the main file",
    )


def as_text(request: Request, found: Checked) -> str:
    """The diagnostics for people; empty if there are none."""
    return diagnostics_text(request, found.diagnostics, found.sources)


def diagnostics_text(request: Request, diagnostics: Sequence[Diagnostic], sources: Sources) -> str:
    """Diagnostics for people, as wide as the terminal; empty if there are none."""
    if not diagnostics:
        return ""
    width = max(60, request.terminal.columns) if request.terminal.is_terminal else 140
    return render_text(diagnostics, sources, TextOptions(request.color, width))


def as_json(found: Checked) -> str:
    """The diagnostics as JSON lines."""
    return render_json(found.diagnostics, found.sources)


def last_line(request: Request, found: Sequence[Checked]) -> str:
    """The line that sums up: how many errors and warnings, or that all is well."""
    every = [one for result in found for one in result.diagnostics]
    return summary(every, color=request.color)


def complain_of(request: Request, found: Checked) -> None:
    """Sends a program's diagnostics to standard error; errors leave with 1."""
    text = as_text(request, found)
    if text:
        request.complain(text, end="")
        request.complain(last_line(request, [found]), end="")
    if found.failed:
        raise typer.Exit(Exit.FAILED)


def replace_file(path: Path, data: bytes) -> None:
    """Writes a file by a temporary name and a rename, an old file's mode kept: a crash leaves the old text or the new one."""
    real = Path(os.path.realpath(path))
    handle, temporary = tempfile.mkstemp(dir=real.parent, prefix=f".{real.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(temporary, real.stat().st_mode & 0o7777 if real.exists() else 0o644)
        os.replace(temporary, real)
    except BaseException:
        os.unlink(temporary)
        raise
