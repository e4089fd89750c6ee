"""Realizations and plans on the command line."""

from pathlib import Path
from typing import Final

import typer

from presk.ad.pipeline import Remat
from presk.cli.commands import programs
from presk.cli.commands.core_programs import InCore
from presk.cli.exits import Exit
from presk.cli.request import Request
from presk.core.fusion import nests, partition
from presk.core.ir import Program
from presk.realize.plan import Plan, parse_plan, unfit, unfit_workers
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
        called, text = path.stem, _read(request, path)
    elif not text.lstrip().startswith(("{", '"')):
        text = f'"{text}"'
    try:
        return parse(text, called)
    except Malformed as error:
        raise refused(request, error.message, error.mend) from None


def _read(request: Request, path: Path) -> str:
    try:
        if not path.is_file():  # a device would be read without end
            raise programs.usage(request, "E9002", f"`{path.name}` cannot be read: there is no such file")
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError, ValueError):
        raise programs.usage(request, "E9002", f"`{path.name}` cannot be read") from None


def plan_of(request: Request, realize: str | None, plan: str | None) -> Plan:
    """`--plan`, a JSON record or `@FILE`, or `--realize`, which is the plan that states a realization alone. E7002 leaves with 4; both
    options together with 2."""
    if plan is None:
        return Plan(realization_of(request, realize))
    if realize is not None:
        raise programs.usage(
            request, "E9003", "`--realize` and `--plan` both name a realization", "state it in the plan alone"
        )
    called, text, folder = "realization", plan, request.path(".")
    if plan.startswith("@"):
        path = request.path(plan[1:])
        called, text, folder = path.stem, _read(request, path), path.parent
    elif not plan.lstrip().startswith("{"):
        raise refused(request, f"`{plan}` is no plan", "a plan is a JSON object, or @FILE with one")

    def read(name: str) -> tuple[str, str]:
        return (folder / name).stem, _read(request, folder / name)

    try:
        return parse_plan(text, called, read)
    except Malformed as error:
        raise refused(request, error.message, error.mend) from None


def refused(request: Request, message: str, mend: str | None) -> typer.Exit:
    """What to raise for a realization that does not fit (E7002): the run fails, with 4."""
    programs.usage(request, "E7002", message, mend)
    return typer.Exit(Exit.RUN_FAILED)


def check_plan(request: Request, given: InCore, program: Program, plan: Plan, remat: Remat) -> None:
    """E7002 for a plan that does not fit the program after differentiation; as `check_names` for its realization."""
    check_names(request, given, program, plan.realization, remat)
    found = unfit(plan, program)
    if found is not None:
        raise refused(request, found.message, found.mend)


def check_workers(request: Request, plan: Plan, threads: int) -> None:
    """E7002 for a split among workers that a native run on so many threads does not have."""
    found = unfit_workers(plan, threads)
    if found is not None:
        raise refused(request, found.message, found.mend)


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
