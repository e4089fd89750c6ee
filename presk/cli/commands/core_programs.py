"""What commands on programs in the core share: lowering, choosing an entry, differentiation."""

from dataclasses import dataclass

from presk.ad.pipeline import AfterAd, Remat
from presk.ad.stage import differentiated
from presk.ad.step import STEP
from presk.check import Checked
from presk.cli.commands import programs
from presk.cli.commands.verifying import verify_after_ad, verify_lowered, verifying
from presk.cli.request import Request
from presk.core.ir import Program
from presk.core.lower import Mode
from presk.core.program import CoreProgram, lower_program
from presk.diagnostics.suggest import closest
from presk.elab.program import Program as TypedProgram
from presk.types.dim import Dim


@dataclass(frozen=True, slots=True)
class InCore:
    """A checked program in the core, with what it was checked with; `entry` is the core name that was asked for."""

    checked: Checked
    typed: TypedProgram
    core: CoreProgram
    entry: str | None

    @property
    def program(self) -> Program:
        """All functions."""
        return self.core.program


def in_core(request: Request, given: str, overrides: dict[str, Dim], mode: Mode, entry: str | None) -> InCore:
    """A program in the core, as far as the entry reaches; a program with errors leaves with 1, an unknown entry with 2."""
    found, program = programs.elaborated(request, given, overrides)
    programs.complain_of(request, found.diagnostics, found.sources)
    if entry == STEP and program.training is not None:
        # It brings the exact reference, and so numpy and FLINT: not before a step is asked for.
        from presk.train.step import with_step

        core = with_step(request.engine, program, mode)
    else:
        core = lower_program(request.engine, program, mode, None if entry is None else [entry])
    if entry is not None and entry not in core.parts:
        names = list(lower_program(request.engine, program, mode).parts)
        near = closest(entry, names)
        raise programs.usage(
            request,
            "E9003",
            f"`{given}` has no function `{entry}`",
            f"did you mean `{near}`?" if near is not None else f"its functions: {', '.join(names[:12])}",
        )
    if verifying(request):
        verify_lowered(program, core)
    return InCore(found, program, core, entry)


def after_ad(request: Request, given: InCore, remat: Remat, *, hold: bool, unroll: bool = False) -> AfterAd:
    """The program after differentiation; what differentiation does not do leaves with 1."""
    if verifying(request):
        verify_after_ad(given.typed, given.core, remat, hold=hold, unroll=unroll)
    after = differentiated(
        request.engine, given.core.parts, remat, hold=hold, unroll=unroll, objectives=given.core.objectives
    )
    programs.complain_of(request, after.diagnostics, given.checked.sources)
    return after
