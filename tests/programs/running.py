"""Generated programs through the compiler: checked, lowered, differentiated, run."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any, Final

import gmpy2

from presk.ad.pipeline import AfterAd, Remat, after_ad
from presk.ad.vjp import differentiate
from presk.cache.engine import Engine
from presk.cache.fingerprint import Fingerprints
from presk.check import Checked, check_program
from presk.core.ir import Program
from presk.core.lower import Mode
from presk.core.program import CoreProgram, lower_program
from presk.elab.files import GivenFiles
from presk.elab.program import Program as TypedProgram
from presk.exact.run import Job, Result, run_entry
from tests.programs.entries import MAIN
from tests.programs.values import Value, given, plain, reals, shifted

BITS: Final = 512
STEP: Final = Fraction(1, 2**120)
TOLERANCE: Final = gmpy2.mpfr(2) ** -100


@cache
def fingerprints() -> Fingerprints:
    """Of the compiler; its sources are read once."""
    return Fingerprints()


def engine() -> Engine:
    """An engine that knows nothing yet."""
    return Engine(None, fingerprints=fingerprints())


def encoded(files: Mapping[str, str]) -> dict[str, bytes]:
    """The files as bytes."""
    return {name: text.encode() for name, text in files.items()}


def checked(files: Mapping[str, str], within: Engine | None = None) -> tuple[Checked, TypedProgram]:
    """A program, checked."""
    found = check_program(within or engine(), GivenFiles(encoded(files)), MAIN, MAIN)
    assert not isinstance(found, str), found
    return found


@dataclass(frozen=True, slots=True)
class Core:
    """A program in the core; `after` with its gradients, `plain` with gradients that no pass has pruned."""

    typed: TypedProgram
    lowered: CoreProgram

    @property
    def program(self) -> Program:
        """The program, before differentiation."""
        return self.lowered.program

    def after(self, remat: Remat = Remat.STORE, hold: bool = False, program: Program | None = None) -> Program:
        """After differentiation."""
        done: AfterAd = after_ad(program or self.program, remat, hold_groups=hold)
        assert not done.diagnostics, done.diagnostics
        return done.program

    def plain(self) -> Program:
        """After differentiation, without the passes behind it."""
        done = differentiate(self.program)
        assert not done.diagnostics, done.diagnostics
        return done.program

    def run(
        self, program: Program, entry: str, dims: Mapping[str, int], inputs: Mapping[str, Value], **options: Any
    ) -> Result:
        """An entry's result on the exact reference; a diagnostic is a failure."""
        outcome = run_entry(Job(program, entry, self.lowered.headers, dims=dims, inputs=given(inputs), **options))
        assert outcome.result is not None, outcome.diagnostics
        return outcome.result


def core(files: Mapping[str, str], mode: Mode = Mode.INFERENCE) -> Core:
    """The core of a program without errors."""
    own = engine()
    found, typed = checked(files, own)
    assert not found.failed, [one.code for one in found.diagnostics]
    return Core(typed, lower_program(own, typed, mode))


def difference(
    made: Core, program: Program, entry: str, dims: Mapping[str, int], inputs: Mapping[str, Value], name: str, path: Any
) -> Any:
    """The central difference of an entry in one real of a parameter."""
    sides = []
    for by in (STEP, -STEP):
        moved = {**inputs, name: shifted(inputs[name], path, by)}
        sides.append(plain(made.run(program, entry, dims, moved, bits=BITS).value)[()])
    with gmpy2.context(precision=BITS):
        return (sides[0] - sides[1]) * gmpy2.mpfr(2) ** 119


def disagreements(
    made: Core,
    program: Program,
    entry: str,
    dims: Mapping[str, int],
    inputs: Mapping[str, Value],
    name: str,
    gradient: Value,
    most: int | None = None,
) -> list[str]:
    """The reals of a parameter in which a gradient is not the central difference of `entry`, within 2⁻¹⁰⁰ of its size; `most`
    looks at so many of them."""
    found = []
    pairs = list(zip(reals(inputs[name]), reals(gradient), strict=True))
    if most is not None and len(pairs) > most:
        pairs = pairs[:: -(-len(pairs) // most)]
    for (path, _), (same, value) in pairs:
        assert path == same
        expected = difference(made, program, entry, dims, inputs, name, path)
        if not abs(value - expected) <= TOLERANCE * max(1, abs(expected)):
            found.append(f"{name} {path}: {float(value)} and not {float(expected)}, off by {float(value - expected)}")
    return found
