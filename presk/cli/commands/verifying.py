"""The verifier behind every pass, for commands on programs: with `PRESK_VERIFY` in the environment.

The passes are then done once more, and what they give is kept nowhere. A pass that breaks a program is an internal error that names
it.
"""

from presk.ad.pipeline import Remat
from presk.ad.step import STEP
from presk.ad.verified import LOWERING, verify_passes
from presk.cli.request import Request
from presk.core.facts import declared_facts
from presk.core.ir import Program as Program_
from presk.core.lower import Mode
from presk.core.program import CoreProgram, lower_program
from presk.core.verify import verified
from presk.elab.program import Program


def verifying(request: Request) -> bool:
    """Whether the verifier is to run."""
    return request.env.get("PRESK_VERIFY", "0") not in ("", "0")


def verify_lowered(typed: Program, core: CoreProgram) -> None:
    """Runs it behind lowering; `Broken` if it finds something. A training step is sound behind differentiation only."""
    program = Program_(tuple(function for function in core.program.functions if function.name != STEP))
    verified(program, core.headers, after=LOWERING, facts=declared_facts(typed, core))


def verify_after_ad(typed: Program, core: CoreProgram, remat: Remat, *, hold: bool, unroll: bool) -> None:
    """Runs it behind lowering and every pass up to the core after differentiation."""
    facts = declared_facts(typed, core)
    verify_passes(core.program, core.headers, facts, remat, hold_groups=hold, unroll=unroll, objectives=core.objectives)


def verify_every_way(request: Request, typed: Program) -> None:
    """The same for a program without errors, in both readings and differentiated in every way."""
    for mode in Mode:
        core = lower_program(request.engine, typed, mode)
        for remat in Remat:
            for hold in (False, True):
                verify_after_ad(typed, core, remat, hold=hold, unroll=False)
