"""`presk fmt`: the canonical form of programs."""

import os
from typing import Annotated

import typer

from presk.cli.commands import programs
from presk.cli.exits import Exit
from presk.cli.request import Request
from presk.syntax.fmt import Formatted, format_source


def fmt_command(
    context: typer.Context,
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="Programs to format.")],
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; leave with 1 if a file would change.")
    ] = False,
    ascii_: Annotated[bool, typer.Option("--ascii", help="Use the ASCII spellings (`@` for `·`).")] = False,
    stdout: Annotated[bool, typer.Option("--stdout", help="Print the result instead of writing it.")] = False,
) -> None:
    """Bring programs into the canonical form; comments are kept."""
    request = context.ensure_object(Request)
    code = Exit.DONE
    readers = [programs.reader_of(request, file) for file in files]  # a wrong name is said before anything is written
    for file, reader in zip(files, readers, strict=True):
        source = reader.read(reader.main)
        if isinstance(source, str):
            raise programs.unreadable(request, file, source)
        formatted = format_source(source, file, ascii_=ascii_)
        if not isinstance(formatted, Formatted):
            request.complain(programs.diagnostics_text(request, formatted.diagnostics, formatted.sources), end="")
            request.complain(programs.last_lines(request, formatted.diagnostics), end="")
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
                try:
                    programs.replace_file(request.path(file), data)
                except OSError as error:
                    why = os.strerror(error.errno or 0).lower()
                    raise programs.usage(request, "E9002", f"`{file}` cannot be written: {why}") from error
                request.print(f"{file}: formatted")
    if code is not Exit.DONE:
        raise typer.Exit(code)
