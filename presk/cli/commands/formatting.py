"""`presk fmt`: the canonical form of programs."""

import os
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from presk.cli.commands import programs
from presk.cli.exits import Exit
from presk.cli.request import Request
from presk.diagnostics.render_text import TextOptions, render_text, summary
from presk.syntax.fmt import Formatted, format_source


def fmt_command(
    context: typer.Context,
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Programs to format.")],
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; leave with 1 if a file would change.")
    ] = False,
    ascii_: Annotated[bool, typer.Option("--ascii", help="Use the ASCII spellings (`@` for `·`).")] = False,
    stdout: Annotated[bool, typer.Option("--stdout", help="Print the result instead of writing it.")] = False,
) -> None:
    """Bring programs into the canonical form; comments are kept."""
    request = context.ensure_object(Request)
    code = Exit.DONE
    for file in files:
        reader = programs.reader_of(request, file)
        source = reader.read(reader.main)
        if isinstance(source, str):
            raise programs.unreadable(request, file, source)
        formatted = format_source(source, file, ascii_=ascii_)
        if not isinstance(formatted, Formatted):
            request.complain(render_text(formatted.diagnostics, formatted.sources, TextOptions(request.color)), end="")
            request.complain(summary(formatted.diagnostics, color=request.color))
            code = Exit.FAILED
            continue
        data = formatted.text.encode()
        if stdout:
            request.print(formatted.text, end="")
        elif data != source:
            if check:
                request.print(f"{file}: not in the canonical form")
                code = Exit.FAILED
            else:
                _replace(request.path(file), data)
                request.print(f"{file}: formatted")
    if code is not Exit.DONE:
        raise typer.Exit(code)


def _replace(path: Path, data: bytes) -> None:
    """Writes a file by a temporary name and a rename, its mode kept: a crash leaves the old text or the new one."""
    real = Path(os.path.realpath(path))
    handle, temporary = tempfile.mkstemp(dir=real.parent, prefix=f".{real.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(temporary, real.stat().st_mode & 0o7777)
        os.replace(temporary, real)
    except BaseException:
        os.unlink(temporary)
        raise
