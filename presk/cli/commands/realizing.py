"""Realizations on the command line."""

from typing import Final

import typer

from presk.ad.pipeline import Remat
from presk.cli.commands import programs
from presk.cli.commands.core_programs import InCore
from presk.cli.exits import Exit
from presk.cli.request import Request
from presk.core.fusion import nests, partition
from presk.core.ir import Program
from presk.realize.record import Malformed, Realization, parse, stored_vjps, uniform, unknown_name

DEFAULT: Final = "f64"
"""The realization where none is named."""


def realization_of(request: Request, text: str | None) -> Realization:
    """`--realize`: the name of a uniform realization, a record, or `@FILE`. E7002 leaves with 4."""
    if text is None:
        return uniform(DEFAULT)
    called = "realization"
    if text.startswith("@"):
        path = request.path(text[1:])
        called = path.stem
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError, ValueError):
            raise programs.usage(request, "E9002", f"`{path.name}` cannot be read") from None
    elif not text.lstrip().startswith(("{", '"')):
        text = f'"{text}"'
    try:
        return parse(text, called)
    except Malformed as error:
        raise refused(request, error.message, error.mend) from None


def refused(request: Request, message: str, mend: str | None) -> typer.Exit:
    """What to raise for a realization that does not fit (E7002): the run fails, with 4."""
    programs.usage(request, "E7002", message, mend)
    return typer.Exit(Exit.RUN_FAILED)


def check_names(request: Request, given: InCore, program: Program, realization: Realization, remat: Remat) -> None:
    """E7002 for a name that the program after differentiation lacks; W0004 for a `.vjp` that types nothing."""
    functions = {*given.core.names.values(), *(function.name for function in program.functions)}
    inside: dict[str, str] = {}
    own: set[str] = set()
    for function in program.functions:
        parts = partition(function)
        own.update(nests(function, parts))
        inside.update(
            (f"{function.name}/%{var}", f"{function.name}/%{root}")
            for var, root in parts.roots().items()
            if var != root
        )
    missing = unknown_name(realization, functions, own)
    if missing is not None:
        name, near = missing
        if name in inside:
            mend = (
                f"it is computed in the nest `{inside[name]}`; with this record `presk dump --stage realize` names them"
            )
            raise refused(request, f"`{name}` is no nest by itself", mend)
        what = "nest" if "/" in name else "function"
        raise refused(
            request, f"the program has no {what} `{name}`", None if near is None else f"did you mean `{near}`?"
        )
    if remat is Remat.STORE:
        for name in stored_vjps(realization, functions):
            base = name.removesuffix(".vjp")
            request.complain(
                f"warning[W0004]: the realization types `{name}`, of which nothing is left when its forward pass is stored\n"
                f"  = help: type `{base}.fwd` and `{base}.bwd`, or run with `--remat recompute`"
            )
