"""`presk dump`: a stage's text."""

from enum import StrEnum
from typing import Annotated

import typer

from presk.cli.commands import programs
from presk.cli.commands.checking import ConstOption
from presk.cli.exits import Exit
from presk.cli.request import Request
from presk.elab.dump import dump_json, dump_program
from presk.elab.parsing import PARSE_FILE
from presk.elab.tokenizing import PLACES, TOKENS
from presk.syntax.dump import ast_json, ast_text, tokens_json, tokens_text
from presk.syntax.tokens import Tokens


class DumpStage(StrEnum):
    """What can be shown."""

    TOKENS = "tokens"
    AST = "ast"
    ELAB = "elab"


class DumpFormat(StrEnum):
    """How it is shown."""

    TEXT = "text"
    JSON = "json"


def dump_command(
    context: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A program.")],
    stage: Annotated[DumpStage, typer.Option("--stage", help="The stage to show.")] = DumpStage.ELAB,
    const: ConstOption = None,
    format_: Annotated[DumpFormat, typer.Option("--format", help="As text or as JSON.")] = DumpFormat.TEXT,
) -> None:
    """Show what a stage makes of a program; its errors go to standard error."""
    request = context.ensure_object(Request)
    overrides = programs.overrides_of(request, const or [])
    with request.engine.request():
        if stage is DumpStage.ELAB:
            found, program = programs.elaborated(request, file, overrides)
            request.print(dump_program(program) if format_ is DumpFormat.TEXT else dump_json(program), end="")
            text = programs.as_text(request, found)
            if text:
                request.complain(text, end="")
                request.complain(programs.last_line(request, [found]))
            if found.failed:
                raise typer.Exit(Exit.FAILED)
            return
        reader = programs.reader_of(request, file)
        source = reader.read(reader.main)
        if isinstance(source, str):
            raise programs.unreadable(request, file, source)
        engine = request.engine
        given = engine.bytes("source", source)
        tokens = engine.get(TOKENS, given, subject=reader.main)
        if stage is DumpStage.TOKENS:
            shown = Tokens(tokens.value, engine.get(PLACES, given, subject=reader.main).value)
            request.print(tokens_text(shown) if format_ is DumpFormat.TEXT else tokens_json(shown), end="")
            return
        parsed = engine.get(PARSE_FILE, tokens, subject=reader.main).value
        request.print(ast_text(parsed.file) if format_ is DumpFormat.TEXT else ast_json(parsed.file), end="")
        if parsed.diagnostics:
            found = programs.checked(request, file, overrides)
            syntax = [one for one in found.diagnostics if one.code.startswith("E0")]
            request.complain(programs.diagnostics_text(request, syntax, found.sources), end="")
            raise typer.Exit(Exit.FAILED)
