"""`presk train`: runs the `training run` block of a program."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from presk.ad.pipeline import Remat
from presk.cli.commands import programs
from presk.cli.commands.options import (
    ConstOption,
    FusionOption,
    LevelOption,
    PlanOption,
    RealizeOption,
    RematOption,
    SeedOption,
    ThreadsOption,
)
from presk.cli.exits import Exit
from presk.cli.request import Request

if TYPE_CHECKING:  # training brings numpy and more, which take a quarter of a second: not before there is a run
    from presk.cli.commands.training_run import Asked

NAME = "train"


def train_command(
    context: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A program with a `training run` block.")],
    steps: Annotated[
        int | None, typer.Option("--steps", metavar="N", min=1, help="End with step N; the schedule stays as it is.")
    ] = None,
    seed: SeedOption = 0,
    const: ConstOption = None,
    realize: RealizeOption = None,
    plan: PlanOption = None,
    threads: ThreadsOption = None,
    level: LevelOption = None,
    fusion: FusionOption = True,
    remat: RematOption = Remat.STORE,
    resume: Annotated[
        str | None,
        typer.Option("--resume", metavar="DIR", help="Go on from the newest checkpoint of a folder, or from a file."),
    ] = None,
    params: Annotated[
        str | None, typer.Option("--params", metavar="FILE", help="Begin with the parameters of a checkpoint.")
    ] = None,
    checkpoints: Annotated[
        str | None,
        typer.Option("--checkpoints", metavar="DIR", help="Where checkpoints go; else where the block says."),
    ] = None,
    every: Annotated[
        int | None, typer.Option("--checkpoint-every", metavar="N", min=1, help="How often; else what the block says.")
    ] = None,
    keep: Annotated[int, typer.Option("--keep", metavar="K", min=1, help="How many of the newest stay.")] = 3,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Delete checkpoints and log of an earlier run.")
    ] = False,
    eval_data: Annotated[
        str | None, typer.Option("--eval-data", metavar="FILE", help="Measure the loss on this data file as well.")
    ] = None,
    eval_every: Annotated[
        int | None,
        typer.Option("--eval-every", metavar="N", min=1, help="How often; else with each checkpoint, and at the end."),
    ] = None,
    eval_batches: Annotated[
        int | None, typer.Option("--eval-batches", metavar="N", min=1, help="On how many batches; else on all.")
    ] = None,
    log: Annotated[
        str | None, typer.Option("--log", metavar="FILE", help="Write what every step gave, as JSON lines.")
    ] = None,
    plot: Annotated[
        str | None, typer.Option("--plot", metavar="FILE", help="Draw the loss at the end, as .png or .svg.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be run, its memory and its learning rates, and stop.")
    ] = False,
) -> None:
    """Train: gradient and optimizer in machine types, one native call a step, in the block's order of the data."""
    request = context.ensure_object(Request)
    overrides = programs.overrides_of(request, const or [])
    from presk.cli.commands import training_run  # as above

    if seed >= training_run.SEEDS:
        raise programs.usage(request, "E9003", "`--seed` is not below 2²⁵⁶")
    asked: Asked = training_run.Asked(
        file=file,
        steps=steps,
        seed=seed,
        realize=realize,
        plan=plan,
        threads=threads,
        level=level,
        fusion=fusion,
        remat=remat,
        resume=resume,
        params=params,
        checkpoints=checkpoints,
        every=every,
        keep=keep,
        overwrite=overwrite,
        eval_data=eval_data,
        eval_every=eval_every,
        eval_batches=eval_batches,
        log=log,
        plot=plot,
    )
    _fitting(request, asked)
    with request.engine.request() as ran:
        diagnostics = training_run.train(request, ran, overrides, asked, dry=dry_run)
    if diagnostics:
        raise typer.Exit(Exit.RUN_FAILED)


def _fitting(request: Request, asked: "Asked") -> None:
    """E9003 for options that do not go together."""
    pairs: Sequence[tuple[str, object, str, object]] = (
        ("--resume", asked.resume, "--params", asked.params),
        ("--resume", asked.resume, "--overwrite", asked.overwrite),
    )
    for one, first, other, second in pairs:
        if first and second:
            raise programs.usage(request, "E9003", f"`{one}` and `{other}` say two things", "leave one of them away")
    needs = (("--eval-every", asked.eval_every), ("--eval-batches", asked.eval_batches))
    for name, value in needs:
        if value is not None and asked.eval_data is None:
            raise programs.usage(request, "E9003", f"`{name}` says nothing without `--eval-data`")
    if asked.plot is not None and os.path.splitext(asked.plot)[1].lower() not in (".png", ".svg"):
        raise programs.usage(request, "E9003", f"`--plot {asked.plot}` ends in neither .png nor .svg")
