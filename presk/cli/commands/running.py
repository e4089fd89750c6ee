"""`presk run`: evaluates an entry, exactly or in machine types."""

from enum import StrEnum
from typing import Annotated, Final, Protocol

import typer

from presk.ad.pipeline import Remat
from presk.cli.commands import core_programs, entries, programs
from presk.cli.commands.options import (
    ArgOption,
    ConstOption,
    DimOption,
    EntryOption,
    FusionOption,
    InputOption,
    JsonOption,
    LevelOption,
    ModeOption,
    ParamsOption,
    PlanOption,
    RealizeOption,
    RematOption,
    SeedOption,
    ThreadsOption,
    UnrollOption,
)
from presk.cli.commands.verifying import verify_after_ad, verifying
from presk.cli.exits import Exit
from presk.cli.request import Request
from presk.core.lower import Mode
from presk.diagnostics.value import Diagnostic


class Shown(Protocol):
    """An answer in the forms in which it is shown."""

    @property
    def text(self) -> str: ...
    @property
    def full_text(self) -> str: ...
    @property
    def json(self) -> str: ...
    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]: ...


class Backend(StrEnum):
    """What evaluates."""

    EXACT = "exact"
    NATIVE = "native"
    KERNEL = "kernel"
    """The kernel interpreter."""


def run_command(
    context: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A program.")],
    entry: EntryOption = None,
    dim: DimOption = None,
    const: ConstOption = None,
    input_: InputOption = None,
    params: ParamsOption = None,
    arg: ArgOption = None,
    seed: SeedOption = 0,
    bits: Annotated[int, typer.Option("--bits", metavar="P", help="The precision of every operation.")] = 256,
    bounds: Annotated[
        bool, typer.Option("--bounds", help="Print a proved bound on each number's distance to the exact value.")
    ] = False,
    backend: Annotated[Backend, typer.Option("--backend", help="What evaluates.")] = Backend.EXACT,
    realize: RealizeOption = None,
    plan: PlanOption = None,
    threads: ThreadsOption = None,
    level: LevelOption = None,
    gap: Annotated[
        bool, typer.Option("--gap", help="Print how far each tensor is from its exact value for the same arguments.")
    ] = False,
    fusion: FusionOption = True,
    mode: ModeOption = Mode.INFERENCE,
    remat: RematOption = Remat.STORE,
    unroll_stack: UnrollOption = False,
    json: JsonOption = False,
    full: Annotated[bool, typer.Option("--full", help="Print every number of large tensors.")] = False,
    out: Annotated[
        str | None, typer.Option("--out", metavar="FILE", help="Write the result, as JSON, to a file.")
    ] = None,
    stats: Annotated[bool, typer.Option("--stats", help="Print to standard error which stages ran.")] = False,
) -> None:
    """Evaluate a function: exactly, every operation correctly rounded at --bits, or in machine types on a backend."""
    request = context.ensure_object(Request)
    _fitting(context, request, backend, gap=gap)
    overrides = programs.overrides_of(request, const or [])
    dims = entries.numbers_of(request, "--dim", dim)
    words = entries.pairs_of(request, "--arg", arg)
    inputs = entries.given_inputs(request, input_)
    # They bring numpy and FLINT, which take a quarter of a second: not before something is run.
    from presk.cli.commands import parameters, running_exact, running_native
    from presk.native.run import Executor  # with them

    with request.engine.request() as log:
        given = core_programs.in_core(request, file, overrides, mode, entry)
        if entry is None:
            raise entries.nothing_to_run(request, given)
        if verifying(request):
            verify_after_ad(given.typed, given.core, remat, hold=False, unroll=unroll_stack)
        files = parameters.given_files(request, given, entry, inputs, words, params)
        answer: Shown
        launched: str | None = None
        if backend is Backend.EXACT:
            asked = running_exact.Asked(dims, words, files, seed, bits, bounds, remat, unroll_stack)
            answer = running_exact.answer(request, given, entry, asked)
        else:
            options = running_native.Options(Executor(backend.value), realize, threads, level, gap, fusion, bits, plan)
            given_to = running_native.Inputs(dims, words, files, seed, remat, unroll_stack)
            ran = running_native.answer(request, log, given, entry, options, given_to)
            answer, launched = ran, ran.stats
        if out is not None:
            entries.refuse_overwriting(request, out, [file, *(one.name for one in files.values())])
        _show(request, given, answer, json=json, full=full, out=out)
    if stats:
        request.complain(log.table(), end="")
        if launched is not None:
            request.complain(launched)
    if answer.diagnostics:
        usage = all(one.code.startswith("E9") for one in answer.diagnostics)
        raise typer.Exit(Exit.USAGE if usage else Exit.RUN_FAILED)


_MACHINE: Final = ("realize", "plan", "threads", "level", "gap", "fusion")
_EXACT: Final = ("bounds",)


def _fitting(context: typer.Context, request: Request, backend: Backend, *, gap: bool) -> None:
    """E9003 for options that the backend does not know."""
    exact = backend is Backend.EXACT
    for name in _MACHINE if exact else (*_EXACT, *(() if gap else ("bits",))):
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            mend = "name a backend: `--backend native`" if exact else "leave `--backend` away"
            option = programs.option_name(context, name)
            raise programs.usage(request, "E9003", f"`{option}` says nothing to `--backend {backend.value}`", mend)


def _show(
    request: Request, given: core_programs.InCore, answer: Shown, *, json: bool, full: bool, out: str | None
) -> None:
    if answer.diagnostics:
        request.complain(programs.diagnostics_text(request, answer.diagnostics, given.checked.sources), end="")
        return
    if out is not None:
        _write(request, out, answer.json)
    if json:
        request.print(answer.json.rstrip("\n"))
    elif out is None:
        request.print((answer.full_text if full else answer.text).rstrip("\n"))


def _write(request: Request, out: str, text: str) -> None:
    path = request.path(out)
    try:
        programs.replace_file(path, text.encode())
    except OSError as error:
        raise programs.usage(request, "E9002", f"`{out}` cannot be written: {error.strerror}") from None
