"""The passes from lowering to the core after differentiation, with the verifier behind each of them.

It is for finding faults of the compiler: in tests, and in commands under `PRESK_VERIFY`. Since the verifier has seen the program
before every pass, what it finds behind one is that pass's doing.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from presk.ad.pipeline import Remat, after_ad
from presk.ad.step import STEP
from presk.core.facts import facts_of
from presk.core.ir import Program
from presk.core.unroll import unroll_program
from presk.core.verify import Headers, verified
from presk.types.claim import Claim

LOWERING: Final = "lowering"
UNROLLING: Final = "unrolling"


def verify_passes(
    program: Program,
    headers: Headers,
    declared: Mapping[str, Iterable[Claim]],
    remat: Remat,
    *,
    hold_groups: bool,
    unroll: bool = False,
    objectives: Iterable[str] = (),
) -> None:
    """Runs the passes on a lowered program, for the verifier's sake alone; Broken names the first pass that breaks it.

    `declared` are the bounds of dimensions that declared functions rely on. What cannot be differentiated ends it without a finding.
    """

    def check(passed: str, made: Program, *, differentiated: bool = True) -> None:
        if not differentiated:
            made = Program(tuple(function for function in made.functions if function.name != STEP))
        verified(made, headers, after=passed, facts=facts_of(made, declared), differentiated=differentiated)

    check(LOWERING, program, differentiated=False)
    if unroll:
        program = unroll_program(program)
        check(UNROLLING, program, differentiated=False)
    after_ad(program, remat, hold_groups=hold_groups, objectives=objectives, passed=check)
