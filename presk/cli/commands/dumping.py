"""`presk dump`: a stage's text, or what a program denotes as equations."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, Final

import typer

from presk.ad.pipeline import AfterAd, Remat
from presk.cli.commands import core_programs, entries, programs, realizing
from presk.cli.commands.options import (
    ConstOption,
    DimOption,
    EntryOption,
    FusionOption,
    LevelOption,
    ModeOption,
    PlanOption,
    RealizeOption,
    RematOption,
    UnrollOption,
)
from presk.cli.request import Request
from presk.core.equations.core import core_equations
from presk.core.equations.forms import FunctionEquations
from presk.core.equations.latex import latex_text
from presk.core.equations.typed import program_equations
from presk.core.equations.unicode import unicode_text
from presk.core.lower import Mode
from presk.core.partition_text import partition_text
from presk.core.text import Notes, print_program
from presk.core.unroll import unroll_program
from presk.diagnostics.value import located
from presk.elab.dump import dump_json, dump_program
from presk.elab.parsing import PARSE_FILE
from presk.elab.tokenizing import PLACES, TOKENS
from presk.realize.plan import decisions_text, plan_text
from presk.realize.record import groups_visible
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
    KERNEL = "kernel"
    LLVM = "llvm"
    ASM = "asm"
    DRIVER = "driver"


class DumpFormat(StrEnum):
    """How it is shown."""

    TEXT = "text"
    JSON = "json"
    UNICODE = "unicode"
    """As equations, in plain characters."""
    LATEX = "latex"
    """As equations, for LaTeX."""


_EQUATIONS: Final = (DumpFormat.UNICODE, DumpFormat.LATEX)

_OF_TREES: Final = (DumpFormat.TEXT, DumpFormat.JSON)
_FORMATS: Final[Mapping[DumpStage, tuple[DumpFormat, ...]]] = MappingProxyType(
    {
        DumpStage.TOKENS: _OF_TREES,
        DumpStage.AST: _OF_TREES,
        DumpStage.ELAB: (*_OF_TREES, *_EQUATIONS),
        DumpStage.CORE_AFTER_AD: (DumpFormat.TEXT, *_EQUATIONS),
    }
)
"""What a stage is shown as; those that are not here as text only."""

_NATIVE: Final = (DumpStage.KERNEL, DumpStage.LLVM, DumpStage.ASM, DumpStage.DRIVER)
"""What native execution makes of an entry at its dimensions."""

_MACHINE: Final = ("dim", "level", "fusion")
_GRADIENTS: Final = ("remat", "realize", "plan", *_MACHINE)
_CORE: Final = ("entry", "mode", "unroll_stack", *_GRADIENTS)
_WITHOUT: Final[Mapping[DumpStage, tuple[str, ...]]] = MappingProxyType(
    {
        DumpStage.TOKENS: _CORE,
        DumpStage.AST: _CORE,
        DumpStage.ELAB: _CORE,
        DumpStage.CORE: _GRADIENTS,
        DumpStage.CORE_AFTER_AD: _MACHINE,
        DumpStage.REALIZE: _MACHINE,
        DumpStage.SCHED: _MACHINE,
    }
)
"""The options that change nothing of what a stage shows."""


def dump_command(
    context: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A program.")],
    stage: Annotated[DumpStage, typer.Option("--stage", help="The stage to show.")] = DumpStage.ELAB,
    entry: EntryOption = None,
    const: ConstOption = None,
    mode: ModeOption = Mode.INFERENCE,
    remat: RematOption = Remat.STORE,
    unroll_stack: UnrollOption = False,
    realize: RealizeOption = None,
    plan: PlanOption = None,
    dim: DimOption = None,
    level: LevelOption = None,
    fusion: FusionOption = True,
    format_: Annotated[
        DumpFormat, typer.Option("--format", help="As text, as JSON, or as the equations that the program denotes.")
    ] = DumpFormat.TEXT,
    standalone: Annotated[bool, typer.Option("--standalone", help="With `--format latex`: a whole document.")] = False,
) -> None:
    """Show what a stage makes of a program; its errors go to standard error."""
    request = context.ensure_object(Request)
    _fitting(context, request, stage, format_, standalone)
    overrides = programs.overrides_of(request, const or [])
    with request.engine.request():
        if stage in (DumpStage.TOKENS, DumpStage.AST):
            _syntax(request, file, stage, format_)
            return
        if stage is DumpStage.ELAB:
            found, program = programs.elaborated(request, file, overrides)
            if format_ in _EQUATIONS:
                programs.complain_of(request, found.diagnostics, found.sources)
                request.print(_equations(program_equations(program), format_, standalone), end="")
                return
            request.print(dump_program(program) if format_ is DumpFormat.TEXT else dump_json(program), end="")
            programs.complain_of(request, found.diagnostics, found.sources)
            return
        core = core_programs.in_core(request, file, overrides, mode, entry)
        if stage in _NATIVE:
            if entry is None:
                raise entries.nothing_to_run(request, core)
            # They bring numpy and FLINT, which take a quarter of a second: not before they are needed.
            from presk.cli.commands import dumping_native

            dims = entries.numbers_of(request, "--dim", dim)
            text = dumping_native.native_text(
                request,
                core,
                entry,
                stage.value,
                dims,
                realize,
                plan,
                level,
                fusion=fusion,
                remat=remat,
                unroll=unroll_stack,
            )
            request.print(text, end="")
            return
        planned = realizing.plan_of(request, realize, plan)
        hold = groups_visible(planned.realization)
        if stage is DumpStage.CORE:
            shown = core.program
            request.print(print_program(unroll_program(shown) if unroll_stack else shown), end="")
            return
        after = core_programs.after_ad(request, core, remat, hold=hold, unroll=unroll_stack)
        realizing.check_plan(request, core, after.program, planned, remat)
        if stage is not DumpStage.CORE_AFTER_AD:
            front = "" if plan is None else plan_text(planned) + "\n"
            layouts = {name: decisions_text(decisions) for name, decisions in planned.layout}
            request.print(front + partition_text(after.program, layouts), end="")
        elif format_ in _EQUATIONS:
            request.print(_equations(core_equations(after.program, _reasons(after)), format_, standalone), end="")
        else:
            request.print(print_program(after.program, _reasons(after)), end="")


def _fitting(context: typer.Context, request: Request, stage: DumpStage, format_: DumpFormat, standalone: bool) -> None:
    """E9003 for options that do not go together."""
    formats = _FORMATS.get(stage, (DumpFormat.TEXT,))
    if format_ not in formats:
        *others, last = [f"`{one.value}`" for one in formats]
        shown = f"as {', '.join(others)} or {last}" if others else "as text only"
        raise programs.usage(request, "E9003", f"`--stage {stage.value}` is shown {shown}")
    if standalone and format_ is not DumpFormat.LATEX:
        raise programs.usage(request, "E9003", "`--standalone` makes a document of `--format latex`")
    for name in _WITHOUT.get(stage, ()):
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            option = programs.option_name(context, name)
            raise programs.usage(request, "E9003", f"`{option}` changes nothing of `--stage {stage.value}`")


def _reasons(after: AfterAd) -> Notes:
    """What each generated binding is for, by function and variable."""
    return {(one.function, one.var): one.text for one in after.purposes}


def _equations(functions: tuple[FunctionEquations, ...], format_: DumpFormat, standalone: bool) -> str:
    return latex_text(functions, standalone=standalone) if format_ is DumpFormat.LATEX else unicode_text(functions)


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
