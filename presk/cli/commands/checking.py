"""`presk check`: everything static."""

from enum import StrEnum
from typing import Annotated, Final

import typer

from presk.cli.commands import programs
from presk.cli.commands.options import ConstOption
from presk.cli.commands.verifying import verify_every_way, verifying
from presk.cli.exits import Exit
from presk.cli.request import Request
from presk.elab import dump
from presk.elab.program import Program


class MessageFormat(StrEnum):
    """How diagnostics are printed."""

    TEXT = "text"
    JSON = "json"


def check_command(
    context: typer.Context,
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="Programs to check.")],
    const: ConstOption = None,
    summary: Annotated[
        bool, typer.Option("--summary", help="Print what each program declares, with its training record.")
    ] = False,
    message_format: Annotated[
        MessageFormat, typer.Option("--message-format", help="Diagnostics as text, or as one JSON object per line.")
    ] = MessageFormat.TEXT,
    stats: Annotated[
        bool, typer.Option("--stats", help="Print to standard error which stages ran and which were reused.")
    ] = False,
) -> None:
    """Check programs: syntax, names, dimensions, shapes, modules, configuration."""
    request = context.ensure_object(Request)
    overrides = programs.overrides_of(request, const or [])
    found = []
    readers = [programs.reader_of(request, file) for file in files]  # a wrong name is said before anything is done
    with request.engine.request() as log:
        for file, reader in zip(files, readers, strict=True):
            if summary or verifying(request):
                one, program = programs.elaborated(request, file, overrides, reader)
            else:
                one, program = programs.checked(request, file, overrides, reader), None
            found.append(one)
            if program is not None and not one.failed and verifying(request):
                verify_every_way(request, program)
            if message_format is MessageFormat.JSON:
                request.print(programs.as_json(one), end="")
                continue
            request.print(programs.diagnostics_text(request, one.diagnostics, one.sources), end="")
            if summary and program is not None:
                request.print(_summary(program, file), end="")
    if message_format is MessageFormat.TEXT:
        every = [diagnostic for one in found for diagnostic in one.diagnostics]
        request.print(programs.last_lines(request, every), end="")
    if stats:
        request.complain(log.table(), end="")
    if any(one.failed for one in found):
        raise typer.Exit(Exit.FAILED)


def _summary(program: Program, shown: str) -> str:
    """What a program declares, a line, and its resolved configuration blocks."""
    counts: dict[str, int] = {}
    for chunk in program.states[program.main].loaded.parsed.file.declarations:
        word = type(chunk.declaration).__name__
        counts[word] = counts.get(word, 0) + 1
    parts = [
        f"{number} {one if number == 1 else many}" for word, one, many in _WORDS if (number := counts.get(word, 0))
    ]
    text = f"{shown}: {', '.join(parts) or 'nothing declared'}\n"
    blocks = dump.summary(program)
    return f"{text}\n{blocks}\n" if blocks else text


_WORDS: Final = (
    ("Import", "import", "imports"),
    ("Const", "constant", "constants"),
    ("DimDecl", "dimension", "dimensions"),
    ("TypeAlias", "type", "types"),
    ("Module", "module", "modules"),
    ("Model", "model", "models"),
    ("Fn", "function", "functions"),
    ("StaticAssert", "assertion", "assertions"),
    ("Block", "block", "blocks"),
)
