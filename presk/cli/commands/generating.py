"""`presk generate`: text of a trained model."""

from typing import Annotated

import typer

from presk.cli.commands import entries, programs
from presk.cli.commands.options import ArgOption, ConstOption, LevelOption, RealizeOption, SeedOption, ThreadsOption
from presk.cli.exits import Exit
from presk.cli.request import Request


def generate_command(
    context: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A program with a generation function.")],
    params: Annotated[
        str, typer.Option("--params", metavar="CKPT", help="A checkpoint, or a folder of which the newest is taken.")
    ],
    prompt: Annotated[
        str, typer.Option("--prompt", metavar="TEXT", help="What the text begins with.", show_default="a line end")
    ] = "\n",
    length: Annotated[int, typer.Option("--length", metavar="N", min=0, help="How many tokens to generate.")] = 400,
    window: Annotated[
        int | None,
        typer.Option("--window", metavar="T", min=1, help="The longest context; else that of the training's samples."),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option("--data", metavar="FILE", help="The data file whose vocabulary the text is written in."),
    ] = None,
    arg: ArgOption = None,
    seed: SeedOption = 0,
    const: ConstOption = None,
    realize: RealizeOption = None,
    threads: ThreadsOption = None,
    level: LevelOption = None,
) -> None:
    """Generate text: the prompt, and tokens that the program's generation function draws, as they come."""
    request = context.ensure_object(Request)
    overrides = programs.overrides_of(request, const or [])
    words = entries.pairs_of(request, "--arg", arg)
    # It brings numpy and more, which take a quarter of a second: not before there is something to run.
    from presk.cli.commands import generating_run

    asked = generating_run.Asked(file, params, prompt, length, window, data, words, seed, realize, threads, level)
    with request.engine.request() as ran:
        failed = generating_run.generate(request, ran, overrides, asked)
    if failed:
        raise typer.Exit(Exit.RUN_FAILED)
