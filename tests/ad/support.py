"""Programs for the tests of differentiation, and what is asked of every one of them."""

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np

from presk.ad.pipeline import AfterAd, Remat, after_ad
from presk.cache.engine import Engine
from presk.check import check_program
from presk.core.ir import Function, Program
from presk.core.lower import Mode
from presk.core.program import CoreProgram, lower_program
from presk.core.text import print_function
from presk.core.typetext import TypePrinter
from presk.core.verify import verify
from presk.elab.files import FolderReader
from presk.elab.program import Program as TypedProgram
from presk.train.step import with_step
from presk.types.dim import constant
from tests.ad.evaluate import Evaluator, Scope, dot, moved, sample

CORPUS: Final = Path(__file__).resolve().parents[2] / "corpus"

PREFIX: Final = (2,)
"""The leading axes that `...` of a function stands for, where a test runs it by itself."""


@cache
def _engine() -> Engine:
    """One for all: what is the same in two tests is done once."""
    return Engine(None)


def lowered(text: str, mode: Mode = Mode.INFERENCE) -> CoreProgram:
    """A program that is written in a test, in the core; its gradients may be such as cannot be taken."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "main.psk"
        path.write_text(text, encoding="utf-8")
        return _lowered(path, {}, mode)


@cache
def corpus(file: str, mode: Mode = Mode.INFERENCE, **constants: int) -> CoreProgram:
    """A program of the corpus in the core, with other constants."""
    return _lowered(CORPUS / file, constants, mode)


def stepped(file: str, **constants: int) -> CoreProgram:
    """What the training step of a program of the corpus reaches, with other constants."""
    return with_step(_engine(), _typed(CORPUS / file, constants), Mode.TRAINING)


def _lowered(path: Path, constants: Mapping[str, int], mode: Mode) -> CoreProgram:
    return lower_program(_engine(), _typed(path, constants), mode)


def _typed(path: Path, constants: Mapping[str, int]) -> TypedProgram:
    reader = FolderReader(path)
    values = {name: constant(value) for name, value in constants.items()}
    found = check_program(_engine(), reader, reader.main, path.name, values)
    assert not isinstance(found, str), found
    checked, typed = found
    wrong = [one for one in checked.diagnostics if one.code[0] != "W" and one.code not in ("E6001", "E6002")]
    assert not wrong, wrong
    return typed


def named(program: Program, name: str) -> Function:
    """A function of a program."""
    return next(function for function in program.functions if function.name == name)


def text_of(program: Program, name: str) -> str:
    """A function as the text form prints it."""
    functions = {function.name: function for function in program.functions}
    return print_function(functions[name], functions, TypePrinter())


def body_of(program: Program, name: str) -> list[str]:
    """The lines of a function's body as the text form prints them, without the last brace."""
    lines = text_of(program, name).splitlines()
    first = next(place for place, line in enumerate(lines) if line.endswith("{"))
    return [line.removeprefix("  ") for line in lines[first + 1 : -1]]


def all_ways(program: Program) -> dict[tuple[Remat, bool], AfterAd]:
    """A program after differentiation, both policies, groups held or not."""
    found = {}
    for remat in Remat:
        for hold in (False, True):
            found[remat, hold] = after_ad(program, remat, hold_groups=hold)
            assert not found[remat, hold].diagnostics
    return found


def sound(program: Program, headers: Mapping[Any, Any], after: str) -> None:
    """The verifier finds nothing."""
    found = verify(program, headers, after=after, differentiated=True)
    assert not found, "\n".join(map(str, found[:5]))


def equal(x: Any, y: Any) -> bool:
    """Whether two values have the same bits; NaN is NaN."""
    if isinstance(x, dict):
        return list(x) == list(y) and all(equal(item, y[name]) for name, item in x.items())
    if isinstance(x, tuple | list):
        return len(x) == len(y) and all(map(equal, x, y))
    return np.array_equal(np.asarray(x), np.asarray(y), equal_nan=isinstance(x, np.ndarray) and x.dtype == np.float64)


def arguments(function: Function, headers: Mapping[Any, Any], dims: Mapping[str, int], seed: int = 1) -> list[Any]:
    """Arguments of a function, drawn."""
    evaluator, scope = Evaluator(Program(()), headers), Scope(dims, PREFIX)
    rng = np.random.default_rng(seed)
    return [sample(evaluator, param.type, scope, rng) for param in function.params]


def dims_of(function: Function, given: Mapping[str, int] | None = None) -> dict[str, int]:
    """Small lengths for a function's dimensions, all different."""
    return {name: 3 + place for place, name in enumerate(function.dims)} | dict(given or {})


def against_differences(
    program: Program,
    differentiated: Program,
    name: str,
    headers: Mapping[Any, Any],
    dims: Mapping[str, int],
    *,
    tolerance: float = 1e-6,
    seed: int = 1,
) -> None:
    """The gradient of a function that gives ℝ[] in its last argument against central differences, in two directions."""
    function = named(program, name)
    args = arguments(function, headers, dims, seed)
    before, after = Evaluator(program, headers), Evaluator(differentiated, headers)
    found = after.run(f"{name}.grad", args, dims, PREFIX)
    rng = np.random.default_rng(seed + 1)
    step = 1e-5
    for _ in range(2):
        direction = sample(after, function.params[-1].type, Scope(dims, PREFIX), rng)
        sides = [
            float(before.run(name, [*args[:-1], moved(args[-1], direction, by)], dims, PREFIX)) for by in (step, -step)
        ]
        expected, given = (sides[0] - sides[1]) / (2 * step), dot(found, direction)
        assert abs(expected - given) <= tolerance * max(1.0, abs(expected)), (name, expected, given)


def same_bits(
    programs: Mapping[Any, Program],
    name: str,
    args: list[Any],
    headers: Mapping[Any, Any],
    dims: Mapping[str, int],
    storage: Callable[[np.ndarray], np.ndarray] | None = None,
) -> None:
    """One function of several programs gives one value."""
    values = {
        way: Evaluator(program, headers, storage).run(name, args, dims, PREFIX) for way, program in programs.items()
    }
    first = next(iter(values))
    for way, value in values.items():
        assert equal(values[first], value), f"{name}: {first} and {way} differ"
