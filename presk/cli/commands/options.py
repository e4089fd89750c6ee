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
