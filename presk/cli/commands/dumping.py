"""`presk dump`: a stage's text."""

from enum import StrEnum
from typing import Annotated

import typer

from presk.ad.pipeline import Remat
from presk.cli.commands import core_programs, programs
from presk.cli.commands.options import ConstOption, EntryOption, ModeOption, RematOption, UnrollOption
from presk.cli.request import Request
from presk.core.lower import Mode
from presk.core.partition_text import partition_text
from presk.core.text import print_program
from presk.core.unroll import unroll_program
from presk.diagnostics.value import located
from presk.elab.dump import dump_json, dump_program
from presk.elab.parsing import PARSE_FILE
from presk.elab.tokenizing import PLACES, TOKENS
from presk.syntax.api import FileSource
from presk.syntax.dump import ast_json, ast_text, tokens_json, tokens_text
from presk.syntax.tokens import Tokens


class DumpStage(StrEnum):
    """What can be shown."""

    TOKENS = "tokens"
    AST = "ast"
    ELAB = "elab"
    CORE = "core"
    CORE_AFTER_AD = "core-after-ad"
    REALIZE = "realize"
    SCHED = "sched"
    """An old name of `realize`."""


class DumpFormat(StrEnum):
    """How it is shown."""

    TEXT = "text"
    JSON = "json"


_JSON = (DumpStage.TOKENS, DumpStage.AST, DumpStage.ELAB)


class RealizeName(StrEnum):
    """The uniform realizations, as far as they decide what a dump shows."""

    F64 = "f64"
    F32 = "f32"
    BF16 = "bf16"


def dump_command(
    context: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A program.")],
    stage: Annotated[DumpStage, typer.Option("--stage", help="The stage to show.")] = DumpStage.ELAB,
    entry: EntryOption = None,
    const: ConstOption = None,
    mode: ModeOption = Mode.INFERENCE,
    remat: RematOption = Remat.STORE,
    unroll_stack: UnrollOption = False,
    realize: Annotated[
        RealizeName,
        typer.Option("--realize", help="Under bf16 the gradient keeps every fusion group of what it reads."),
    ] = RealizeName.F32,
    format_: Annotated[DumpFormat, typer.Option("--format", help="As text or as JSON.")] = DumpFormat.TEXT,
) -> None:
    """Show what a stage makes of a program; its errors go to standard error."""
    request = context.ensure_object(Request)
    if format_ is DumpFormat.JSON and stage not in _JSON:
        raise programs.usage(request, "E9003", f"`--stage {stage.value}` is shown as text only")
    overrides = programs.overrides_of(request, const or [])
    with request.engine.request():
        if stage in (DumpStage.TOKENS, DumpStage.AST):
            _syntax(request, file, stage, format_)
            return
        if stage is DumpStage.ELAB:
            found, program = programs.elaborated(request, file, overrides)
            request.print(dump_program(program) if format_ is DumpFormat.TEXT else dump_json(program), end="")
            programs.complain_of(request, found.diagnostics, found.sources)
            return
        core = core_programs.in_core(request, file, overrides, mode, entry)
        hold = realize is RealizeName.BF16
        if stage is DumpStage.CORE:
            shown = core.program
            request.print(print_program(unroll_program(shown) if unroll_stack else shown), end="")
            return
        after = core_programs.after_ad(request, core, remat, hold=hold, unroll=unroll_stack)
        if stage is DumpStage.CORE_AFTER_AD:
            request.print(
                print_program(after.program, {(one.function, one.var): one.text for one in after.purposes}), end=""
            )
        else:
            request.print(partition_text(after.program), end="")


def _syntax(request: Request, file: str, stage: DumpStage, format_: DumpFormat) -> None:
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
        table = engine.get(PLACES, given, subject=reader.main).value
        named = [located(one, file=file, chunk="") for one in parsed.diagnostics]
        programs.complain_of(request, named, FileSource(file, source, table))
