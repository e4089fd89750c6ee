"""What commands on programs share: reading a file of the command line, overrides, printing diagnostics."""

import errno
import os
import stat
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final
from unicodedata import normalize

import typer

from presk.check import Checked, check, check_program
from presk.cli.commands.verifying import verify_lowered, verifying
from presk.cli.exits import Exit
from presk.cli.request import Request
from presk.diagnostics.render_json import render_json
from presk.diagnostics.render_text import TextOptions, render_text, summary
from presk.diagnostics.sources import Sources
from presk.diagnostics.suggest import closest
from presk.diagnostics.value import Diagnostic, Severity
from presk.elab.files import FolderReader
from presk.elab.program import Program
from presk.syntax.tree import Const
from presk.types.dim import Dim, constant

MAX_DIGITS: Final = 10_000
_SHOWN: Final = 60
_NOT_THERE: Final = "there is no such file"


def option_name(context: typer.Context, name: str) -> str:
    """An option of a command as it was written; one that switches something off has its own name."""
    off = "no-" if name == "fusion" and not context.params[name] else ""
    return f"--{off}{name.replace('_', '-')}"


def usage(request: Request, code: str, message: str, mend: str | None = None) -> typer.Exit:
    """Complains about the command line and gives the exit to raise."""
    request.complain(f"error[{code}]: {_visible(message)}")
    if mend is not None:
        request.complain(f"  = help: {_visible(mend)}")
    return typer.Exit(Exit.USAGE)


def _visible(text: str) -> str:
    """A text with names that somebody typed, without characters that a terminal would obey."""
    return "".join(
        character if character.isprintable() or "\udc80" <= character <= "\udcff" else f"\\u{{{ord(character):x}}}"
        for character in text
    )


def overrides_of(request: Request, given: Sequence[str]) -> dict[str, Dim]:
    """`--const NAME=N` as values; E9003 for anything that is not a name and a natural number."""
    values: dict[str, Dim] = {}
    for text in given:
        name, _, number = text.partition("=")
        digits = number.strip()
        shown = f"`--const {text if len(text) <= _SHOWN else text[:_SHOWN] + '…'}`"
        if not name.strip() or not digits:
            raise usage(request, "E9003", f"{shown} is not of the form NAME=N")
        if not (digits.isascii() and digits.isdigit()):
            raise usage(request, "E9003", f"{shown}: the value is not a natural number")
        if len(digits) > MAX_DIGITS:
            raise usage(request, "E9003", f"{shown}: the number has more than {MAX_DIGITS:,} digits")
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
    problem = _problem(path) if given else "its name is empty"
    if problem is not None:
        raise usage(
            request,
            "E9002",
            f"`{given}` cannot be read: {problem}",
            _near(path, given) if problem == _NOT_THERE else None,
        )
    return request.reader(path)


def _problem(path: Path) -> str | None:
    """Why a file cannot be read, as far as can be seen without opening it."""
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return _NOT_THERE
    except PermissionError:
        return "it may not be read"
    except ValueError:
        return "its name is not a file name"
    except OSError as error:
        return _TROUBLE.get(error.errno or 0, "it cannot be read")
    if stat.S_ISDIR(mode):
        return "it is a folder"
    if not stat.S_ISREG(mode):
        return "it is not an ordinary file"
    return None if os.access(path, os.R_OK) else "it may not be read"


_TROUBLE: Final[Mapping[int, str]] = MappingProxyType(
    {errno.ENAMETOOLONG: "its name is too long", errno.ELOOP: "its links lead in a circle"}
)


def _near(path: Path, given: str) -> str | None:
    """A program of the folder with a similar name, to be proposed."""
    try:
        stems = [name.removesuffix(_PROGRAM) for name in os.listdir(path.parent) if name.endswith(_PROGRAM)]
    except OSError:
        return None
    stem = path.name.removesuffix(_PROGRAM)
    near = stem if path.name == stem and stem in stems else closest(stem, [other for other in stems if other != stem])
    return None if near is None else f"did you mean `{os.path.join(os.path.dirname(given), near)}{_PROGRAM}`?"


_PROGRAM: Final = ".psk"


def checked(request: Request, given: str, overrides: dict[str, Dim], reader: FolderReader | None = None) -> Checked:
    """Checks a program of the command line, whose reader may be there already; E9002 and E9003 leave with 2."""
    reader = reader or reader_of(request, given)
    found = check(request.engine, reader, reader.main, given, overrides)
    if isinstance(found, str):
        raise unreadable(request, given, found)
    _known_overrides(request, given, found, overrides)
    return found


def elaborated(
    request: Request, given: str, overrides: dict[str, Dim], reader: FolderReader | None = None
) -> tuple[Checked, Program]:
    """As `checked`, with what the program means."""
    reader = reader or reader_of(request, given)
    look = verify_lowered if verifying(request) else None
    both = check_program(request.engine, reader, reader.main, given, overrides, look)
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


def diagnostics_text(request: Request, diagnostics: Sequence[Diagnostic], sources: Sources) -> str:
    """Diagnostics for people, as wide as the terminal; empty if there are none."""
    if not diagnostics:
        return ""
    width = max(60, request.terminal.columns) if request.terminal.is_terminal else 140
    return render_text(diagnostics, sources, TextOptions(request.color, width))


def as_json(found: Checked) -> str:
    """The diagnostics as JSON lines."""
    return render_json(found.diagnostics, found.sources)


def last_lines(request: Request, diagnostics: Sequence[Diagnostic]) -> str:
    """The lines that sum up: how many errors and warnings, and where to read more; empty if there are none."""
    return summary(diagnostics, color=request.color)


def complain_of(request: Request, diagnostics: Sequence[Diagnostic], sources: Sources) -> None:
    """Sends the diagnostics of a program with errors to standard error and leaves with 1. Warnings alone are `check`'s to show."""
    if any(one.severity is Severity.ERROR for one in diagnostics):
        request.complain(diagnostics_text(request, diagnostics, sources), end="")
        request.complain(last_lines(request, diagnostics), end="")
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
