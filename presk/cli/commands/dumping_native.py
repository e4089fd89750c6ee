"""The part of `presk dump` that shows what native execution makes of an entry."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import typer

from presk.ad.pipeline import Remat
from presk.cli.commands import programs
from presk.cli.commands.core_programs import InCore
from presk.cli.commands.running_native import Inputs, Options, asked_of
from presk.cli.exits import Exit
from presk.cli.request import Request
from presk.exact.closing import closed
from presk.exact.faults import Fault
from presk.exact.interpreter import Stopped
from presk.kernels.trace.memory import Driver
from presk.native.run import Executor, driver_at, faulted, settle
from presk.native.show import asm_text, driver_text, kernels_text, llvm_text

_TEXTS: Final[Mapping[str, Callable[[Driver, str], str]]] = MappingProxyType(
    {
        "kernel": lambda driver, _: kernels_text(driver),
        "llvm": llvm_text,
        "asm": asm_text,
        "driver": lambda driver, _: driver_text(driver),
    }
)


def native_text(
    request: Request,
    given: InCore,
    entry: str,
    stage: str,
    dims: Mapping[str, int],
    realize: str | None,
    plan: str | None,
    level: str | None,
    *,
    fusion: bool,
    remat: Remat,
    unroll: bool,
) -> str:
    """A stage of an entry at its dimensions; what is undefined there leaves with 4, what is given wrongly with 2."""
    options = Options(Executor.KERNEL, realize, 1, level, False, fusion, 256, plan)
    asked, after = asked_of(request, given, entry, options, Inputs(dims, {}, {}, 0, remat, unroll))
    programs.complain_of(request, after.value.diagnostics, given.checked.sources)
    try:
        settled = settle(given.typed, given.core, entry, asked, closed(after.value.program))
    except Stopped as error:
        stopped = error
    except Fault as fault:
        stopped = Stopped(fault, ())
    else:
        driver = driver_at(request.engine, given.core, entry, asked, after, settled.scope)
        return _TEXTS[stage](driver.value, asked.level)
    found = faulted(given.typed, given.core, entry, after.value, stopped)
    request.complain(programs.diagnostics_text(request, found, given.checked.sources), end="")
    raise typer.Exit(Exit.USAGE if all(one.code.startswith("E9") for one in found) else Exit.RUN_FAILED)
