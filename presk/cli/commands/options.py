"""Options that several commands share."""

from typing import Annotated

import typer

from presk.ad.pipeline import Remat
from presk.core.lower import Mode

ConstOption = Annotated[
    list[str] | None, typer.Option("--const", metavar="NAME=N", help="Replace a constant of the main file.")
]
EntryOption = Annotated[
    str | None, typer.Option("--entry", metavar="E", help="A function, such as `loss` or `Linear.apply`.")
]
ModeOption = Annotated[
    Mode, typer.Option("--mode", help="`inference` takes every dropout at its expectation, `training` draws it.")
]
RematOption = Annotated[
    Remat, typer.Option("--remat", help="Whether a gradient stores its forward pass or recomputes it.")
]
UnrollOption = Annotated[bool, typer.Option("--unroll-stack", help="Calls in place of each loop over a stack.")]
DimOption = Annotated[
    list[str] | None, typer.Option("--dim", metavar="N=K", help="The value of a dimension of the entry.")
]
InputOption = Annotated[
    list[str] | None,
    typer.Option("--input", metavar="NAME=FILE", help="A parameter from a .npy, .safetensors or JSON file."),
]
ParamsOption = Annotated[
    str | None,
    typer.Option("--params", metavar="CKPT", help="The tree of parameters, from a checkpoint or a folder with some."),
]
ArgOption = Annotated[
    list[str] | None,
    typer.Option("--arg", metavar="NAME=VALUE", help="A number, true or false, or a key (a seed or 64 hex digits)."),
]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="What is not given is synthesized from this.")]
RealizeOption = Annotated[
    str | None,
    typer.Option("--realize", metavar="R", help="Machine types: f64, f32, bf16, a JSON record, or @FILE with one."),
]
PlanOption = Annotated[
    str | None,
    typer.Option("--plan", metavar="P", help="Machine types and layouts of nests: a JSON record, or @FILE with one."),
]
ThreadsOption = Annotated[int | None, typer.Option("--threads", min=1, max=1024, help="Threads of native code.")]
LevelOption = Annotated[
    str | None, typer.Option("--level", metavar="L", help="The machine level to compile for, such as x86-64-v3.")
]
FusionOption = Annotated[bool, typer.Option("--fusion/--no-fusion", help="Whether elementwise chains share a kernel.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
