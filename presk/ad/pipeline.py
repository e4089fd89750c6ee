"""From the core to the core after differentiation: the passes in their order.

    differentiate   no `grad` is left; `.vjp` functions, whole
    prune           what nothing reads goes
    store           each `.vjp` in two, `.fwd` and `.bwd`; left out where gradients recompute
    prune           values of forward passes that no one reads go

Pruning comes before splitting, since a residual is kept for what is read; and after it, since a split shows what else is not.
"""

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum

import msgspec

from presk.ad.provenance import Purpose
from presk.ad.prune import prune
from presk.ad.refusal import Origins
from presk.ad.residuals import store
from presk.ad.sweep import vjp_of
from presk.ad.vjp import Derive, Differentiated, differentiate
from presk.core.ir import Program
from presk.diagnostics.value import Diagnostic

Passed = Callable[[str, Program], None]
"""Is told what each pass made, by the pass's name."""


def _silent(passed: str, made: Program) -> None:
    del passed, made


class Remat(StrEnum):
    """Whether a gradient keeps its forward pass or computes it again."""

    STORE = "store"
    RECOMPUTE = "recompute"


class AfterAd(msgspec.Struct, frozen=True, array_like=True):
    """A program after differentiation, what the bindings of its generated functions are for, and E6001 and E6002 (the program
    is then the one that was given)."""

    program: Program
    purposes: tuple[Purpose, ...]
    diagnostics: tuple[Diagnostic, ...]


def after_ad(
    program: Program,
    remat: Remat,
    *,
    hold_groups: bool,
    origins: Origins | None = None,
    objectives: Iterable[str] = (),
    derive: Derive = vjp_of,
    passed: Passed = _silent,
) -> AfterAd:
    """The program after differentiation.

    `hold_groups` keeps every fusion group of what a gradient's result reads: needed where a realization can see them, bf16 or a
    site typed apart from the rest of its function. `objectives` are functions that give ℝ[] whose `.value_vjp` training calls.
    `passed` is called behind every pass.
    """
    return finished(differentiate(program, origins, objectives, derive), remat, hold_groups=hold_groups, passed=passed)


def finished(done: Differentiated, remat: Remat, *, hold_groups: bool, passed: Passed = _silent) -> AfterAd:
    """The passes behind differentiation."""
    if done.diagnostics:
        return AfterAd(done.program, (), done.diagnostics)
    passed("differentiation", done.program)
    purposes: Sequence[Purpose] = done.purposes
    program = _pruned(done.program, purposes, done.outside, hold_groups)
    passed("pruning", program)
    if remat is Remat.STORE:
        stored = store(program, done.derived, purposes, hold=hold_groups)
        purposes = stored.purposes
        passed("splitting", stored.program)
        program = _pruned(stored.program, purposes, done.outside, hold_groups)
        passed("pruning of what was split", program)
    there = {(function.name, binding.var) for function in program.functions for binding in function.bindings}
    left = tuple(purpose for purpose in purposes if (purpose.function, purpose.var) in there)
    return AfterAd(program, left, ())


def _pruned(program: Program, purposes: Sequence[Purpose], outside: Iterable[str], hold: bool) -> Program:
    return prune(program, {purpose.function for purpose in purposes}, frozenset(outside), hold=hold)
