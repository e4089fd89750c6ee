"""`presk bench`: measures an entry natively."""

from typing import Annotated

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
    UnrollOption,
)
from presk.cli.exits import Exit
from presk.cli.request import Request
from presk.core.lower import Mode


def bench_command(
    context: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A program.")],
    entry: EntryOption = None,
    dim: DimOption = None,
    const: ConstOption = None,
    input_: InputOption = None,
    params: ParamsOption = None,
    arg: ArgOption = None,
    seed: SeedOption = 0,
    realize: RealizeOption = None,
    plan: PlanOption = None,
    threads: Annotated[int, typer.Option("--threads", min=1, max=1024, help="Threads of native code.")] = 1,
    level: LevelOption = None,
    runs: Annotated[int, typer.Option("--runs", min=1, metavar="N", help="How many calls are measured.")] = 31,
    per_nest: Annotated[
        bool, typer.Option("--per-nest", help="What each nest takes, its operations and bytes a second.")
    ] = False,
    fusion: FusionOption = True,
    mode: ModeOption = Mode.INFERENCE,
    remat: RematOption = Remat.STORE,
    unroll_stack: UnrollOption = False,
    json: JsonOption = False,
) -> None:
    """Measure a function natively: compiling, the first call, calls."""
    request = context.ensure_object(Request)
    overrides = programs.overrides_of(request, const or [])
    dims = entries.numbers_of(request, "--dim", dim)
    words = entries.pairs_of(request, "--arg", arg)
    inputs = entries.given_inputs(request, input_)
    # It brings numpy and FLINT, which take a quarter of a second: not before something is measured.
    from presk.cli.commands import parameters, running_native
    from presk.native import bench as benching  # with it
    from presk.native.run import Executor  # with it

    with request.engine.request() as log:
        given = core_programs.in_core(request, file, overrides, mode, entry)
        if entry is None:
            raise entries.nothing_to_run(request, given)
        files = parameters.given_files(request, given, entry, inputs, words, params)
        options = running_native.Options(Executor.NATIVE, realize, threads, level, False, fusion, 256, plan)
        given_to = running_native.Inputs(dims, words, files, seed, remat, unroll_stack)
        outcome = running_native.measure_entry(request, log, given, entry, options, given_to, runs, per_nest=per_nest)
    if outcome.bench is None:
        request.complain(programs.diagnostics_text(request, outcome.diagnostics, given.checked.sources), end="")
        usage = all(one.code.startswith("E9") for one in outcome.diagnostics)
        raise typer.Exit(Exit.USAGE if usage else Exit.RUN_FAILED)
    shown = benching.to_json(outcome.bench) + "\n" if json else benching.to_text(outcome.bench)
    request.print(shown, end="")
