"""Generated programs through the compiler: checked, lowered, differentiated, run."""

import random
from collections.abc import Callable, Mapping, Sequence
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
from presk.exact.given import Given
from presk.exact.run import Job, Result, run_entry
from tests.programs.entries import MAIN
from tests.programs.values import Path, Value, added, given, part, plain, reals, replaced

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
        return self.given(program, entry, dims, given(inputs), **options)

    def given(
        self, program: Program, entry: str, dims: Mapping[str, int], inputs: Mapping[str, Given], **options: Any
    ) -> Result:
        """As `run`, with inputs that are files."""
        outcome = run_entry(Job(program, entry, self.lowered.headers, dims=dims, inputs=inputs, **options))
        assert outcome.result is not None, outcome.diagnostics
        return outcome.result


def core(files: Mapping[str, str], mode: Mode = Mode.INFERENCE) -> Core:
    """The core of a program without errors."""
    own = engine()
    found, typed = checked(files, own)
    assert not found.failed, [one.code for one in found.diagnostics]
    return Core(typed, lower_program(own, typed, mode))


@dataclass(frozen=True, slots=True)
class Point:
    """An entry that gives a real number (or whose reals are added) at some dimensions and inputs."""

    made: Core
    program: Program
    entry: str
    dims: Mapping[str, int]
    inputs: Mapping[str, Value]

    def difference(self, moved: Callable[[Fraction], Mapping[str, Value]]) -> Any:
        """The central difference along a way: `moved` gives the inputs so far along it."""
        with gmpy2.context(precision=BITS):
            sides = []
            for by in (STEP, -STEP):
                result = self.made.run(self.program, self.entry, self.dims, moved(by), bits=BITS)
                sides.append(gmpy2.fsum([number for _, number in reals(plain(result.value))]))
            return (sides[0] - sides[1]) / gmpy2.mpq(2 * STEP)

    def disagreements(self, below: Path, gradient: Value, paths: Sequence[Path] | None = None) -> list[str]:
        """The reals of an input's part in which a gradient is not the central difference, within 2⁻¹⁰⁰ of its size: all of them,
        or those at some paths."""
        found = []
        values = dict(reals(gradient))
        assert list(values) == [path for path, _ in reals(part(self.inputs, below))], "the gradient has another form"
        for path in list(values) if paths is None else paths:
            whole = (*below, *path)
            real = part(self.inputs, whole)

            def moved(by: Fraction, whole: Path = whole, real: Any = real) -> Mapping[str, Value]:
                found: Mapping[str, Value] = replaced(self.inputs, whole, real + by)
                return found

            expected = self.difference(moved)
            if not close(values[path], expected):
                found.append(f"{whole}: {float(values[path])} and not {float(expected)}")
        return found

    def along(self, gradients: Mapping[Path, Value], seed: int) -> list[str]:
        """Where gradients in some parts of the inputs, along a random direction that moves every real of them, are not the central
        difference. A wrong component is missed only by a direction that is at right angles to its error."""
        draw = random.Random(seed)
        ways = {
            below: [Fraction(draw.randrange(-255, 256, 2), 256) for _ in reals(part(self.inputs, below))]
            for below in gradients
        }

        def moved(by: Fraction) -> Mapping[str, Value]:
            inputs = dict(self.inputs)
            for below, way in ways.items():
                inputs = replaced(inputs, below, added(part(inputs, below), [by * step for step in way]))
            return inputs

        expected = self.difference(moved)
        with gmpy2.context(precision=BITS):
            terms = [
                number * gmpy2.mpq(step)
                for below, gradient in gradients.items()
                for (_, number), step in zip(reals(gradient), ways[below], strict=True)
            ]
            slope, size = gmpy2.fsum(terms), max((1, *map(abs, terms)))
        return [] if close(slope, expected, size) else [f"along {seed}: {float(slope)} and not {float(expected)}"]


def close(found: Any, expected: Any, size: Any = 1) -> bool:
    """Whether a derivative is a difference, within 2⁻¹⁰⁰ of its size."""
    with gmpy2.context(precision=BITS):
        return bool(abs(found - expected) <= TOLERANCE * max(1, size, abs(expected)))
