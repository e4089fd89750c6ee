"""What the exact reference costs: the course GPT at 256 bits, its parts, and a plain evaluation, one scalar after the other.

Times are of the processor: this process's, the best of a few runs. The plain evaluation rounds every multiplication and addition by
itself, which is less exact, and shows what computing whole tensors saves.
"""

import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import gmpy2
import numpy as np
from gmpy2 import mpq

from presk.ad.pipeline import Remat, after_ad
from presk.cache.engine import Engine
from presk.check import check_program
from presk.core.ir import Program
from presk.core.lower import Mode
from presk.core.program import lower_program
from presk.elab.files import FolderReader
from presk.exact import contract, synthesize
from presk.exact.balls import Balls
from presk.exact.interpreter import Interpreter
from presk.exact.reals import Reals
from presk.exact.scope import Headers, Scope
from presk.exact.values import Items, Objects, Real, Record, Value, gathered
from presk.types.dim import constant

GPT: Final = Path(__file__).resolve().parents[2] / "corpus" / "nlp" / "05_gpt.psk"
BITS: Final = 256
LARGE: Final = ({"D": 64, "H": 2, "L": 2}, {"B": 2, "T": 32})
SMALL: Final = ({"D": 64, "H": 2, "L": 1}, {"B": 1, "T": 16})
ENTRIES: Final = ("loss", "loss_grad")
RUNS: Final = 3
PRODUCTS: Final = ((64, 64, 256), (128, 128, 128), (256, 384, 384))
SPREAD: Final = mpq(1, 2**160)
"""How far apart the two evaluations may be, relative to the largest element: plain rounding loses a few dozen of 256 bits at most."""


class Plain(Reals):
    """Arithmetic as a loop over scalars has it: each operation of MPFR rounds."""

    def product(self, left: Objects, right: Objects, *, last: bool) -> Objects:
        """Products of matrices, a multiplication and an addition at a time."""
        del last
        count, rows, _ = left.shape
        columns = right.shape[2]
        found = [
            self._dot(left[t, i].tolist(), right[t, :, j].tolist())
            for t in range(count)
            for i in range(rows)
            for j in range(columns)
        ]
        return gathered(found, (count, rows, columns))

    def _dot(self, xs: list[Any], ys: list[Any]) -> Any:
        total = gmpy2.mpfr(0)
        for x, y in zip(xs, ys):
            total += x * y
        return total

    def apply(self, name: str, x: Objects) -> Objects:
        """gelu and its derivative of their parts."""
        if name not in ("gelu", "gelu'"):
            return super().apply(name, x)
        root = gmpy2.sqrt(gmpy2.mpfr(0.5))
        density = gmpy2.sqrt(1 / (2 * gmpy2.const_pi()))
        values = []
        for one in x.ravel().tolist():
            tail = (1 + gmpy2.erf(one * root)) / 2
            values.append(one * tail if name == "gelu" else tail + one * density * gmpy2.exp(-one * one / 2))
        return gathered(values, x.shape)

    def softmax(self, rows: Objects, allowed: Any) -> Objects:
        """Softmax of its parts."""
        result = self.zeros(rows.shape).copy()
        for at, row in enumerate(rows):
            taken = range(len(row)) if allowed is None else np.flatnonzero(allowed[at]).tolist()
            top = max(row[j] for j in taken)
            terms = [gmpy2.exp(row[j] - top) for j in taken]
            total = sum(terms, gmpy2.mpfr(0))
            for j, term in zip(taken, terms):
                result[at, j] = term / total
        return result

    def cross_entropy(self, rows: Objects, targets: Any) -> Objects:
        """−log softmax of its parts."""
        values = []
        for row, target in zip(rows.tolist(), targets.tolist()):
            top = max(row)
            values.append(top - row[target] + gmpy2.log(sum((gmpy2.exp(x - top) for x in row), gmpy2.mpfr(0))))
        return gathered(values, (len(values),))

    def cross_entropy_vjp(self, rows: Objects, targets: Any, cts: Objects) -> Objects:
        """(softmax − one-hot) · ct of its parts."""
        soft = self.softmax(rows, None)
        for at, target in enumerate(targets.tolist()):
            soft[at, target] -= 1
            soft[at] *= cts[at]
        return soft


def program(constants: dict[str, int]) -> tuple[Program, Headers]:
    """The GPT after differentiation, without dropout."""
    engine, reader = Engine(None), FolderReader(GPT)
    values = {name: constant(value) for name, value in constants.items()}
    with engine.request():
        found = check_program(engine, reader, reader.main, GPT.name, values)
        if isinstance(found, str) or found[0].failed:
            raise ValueError(f"{GPT.name} has errors")
        core = lower_program(engine, found[1], Mode.INFERENCE)
    return after_ad(core.program, Remat.STORE, hold_groups=False).program, core.headers


def evaluation(
    given: tuple[Program, Headers], entry: str, dims: dict[str, int], arithmetic: Callable[[int], Reals | Balls]
) -> Callable[[], Value]:
    """The evaluation of an entry with what the seed 0 draws, which is drawn now."""
    made, headers = given
    function = next(function for function in made.functions if function.name == entry)
    m = arithmetic(BITS)
    scope = Scope(dims, (), headers)
    with m.active():
        args = synthesize.arguments(m, scope, function, synthesize.sources({}, {}, {}, 0))
    return lambda: Interpreter(made, m, headers).run(entry, list(args), scope.dims, ())


def best(action: Callable[[], Value]) -> tuple[float, Value]:
    """The least processor time of some runs in seconds, and a result."""
    times = []
    for _ in range(RUNS):
        started = time.process_time()
        found = action()
        times.append(time.process_time() - started)
    return min(times), found


def numbers(value: Value) -> list[Any]:
    """All reals of a value."""
    match value:
        case Real(data):
            return list(data.ravel().tolist())
        case Items(items):
            return [one for item in items for one in numbers(item)]
        case Record(fields):
            return [one for item in fields.values() for one in numbers(item)]
        case _:
            return []


def apart(value: Value, other: Value) -> Any:
    """How far two values are apart, relative to the largest element."""
    ones, others = numbers(value), numbers(other)
    largest = max(abs(mpq(one)) for one in ones)
    return max(abs(mpq(one) - mpq(two)) for one, two in zip(ones, others, strict=True)) / largest


def gpt() -> None:
    """The whole model."""
    constants, dims = LARGE
    given = program(constants)
    sizes = " ".join(f"{name}={value}" for name, value in (constants | dims).items())
    print(f"{GPT.name} at {BITS} bits, seconds\n{sizes:<34}{'exact':>12}{'in balls':>12}")
    for entry in ENTRIES:
        seconds, _ = best(evaluation(given, entry, dims, Reals))
        balls, _ = best(evaluation(given, entry, dims, Balls))
        print(f"  {entry:<32}{seconds:>12.2f}{balls:>12.2f}")
    constants, dims = SMALL
    given = program(constants)
    sizes = " ".join(f"{name}={value}" for name, value in (constants | dims).items())
    print(f"{sizes:<34}{'exact':>12}{'plain':>12}{'ratio':>12}")
    for entry in ENTRIES:
        exact, value = best(evaluation(given, entry, dims, Reals))
        plain, other = best(evaluation(given, entry, dims, Plain))
        if apart(value, other) > SPREAD:
            raise ValueError(f"{entry}: the two evaluations differ")
        print(f"  {entry:<32}{exact:>12.3f}{plain:>12.3f}{plain / exact:>12.1f}")


def matrix(rng: random.Random, *shape: int) -> Objects:
    """Random numbers between −1 and 1."""
    state = gmpy2.random_state(rng.getrandbits(60))
    with gmpy2.context(precision=BITS):
        return gathered([2 * gmpy2.mpfr_random(state) - 1 for _ in range(int(np.prod(shape)))], shape)


def products() -> None:
    """Contractions, whole and as a loop over scalars (whose time is proportional to the size)."""
    rng, plain = random.Random(0), Plain(BITS)
    with plain.active():
        started = time.process_time()
        plain.product(matrix(rng, 1, 16, 64), matrix(rng, 1, 64, 16), last=True)
        loop = (time.process_time() - started) / (16 * 64 * 16) * 1e9
    print(f"\n{'contractions at 256 bits':<34}{'ms':>12}{'ns each':>12}{'loop, ns':>12}")
    for rows, inner, columns in PRODUCTS:
        left, right = matrix(rng, 1, rows, inner), matrix(rng, 1, inner, columns)
        times = []
        for _ in range(RUNS):
            started = time.process_time()
            contract.product(left, right, BITS)
            times.append(time.process_time() - started)
        each = min(times) / (rows * inner * columns) * 1e9
        print(f"  {f'{rows} × {inner} · {inner} × {columns}':<32}{min(times) * 1e3:>12.1f}{each:>12.1f}{loop:>12.0f}")


def functions() -> None:
    """Functions of whole tensors, against MPFR's calls alone."""
    rng = random.Random(1)
    xs = matrix(rng, 10_000)
    reals, context = Reals(BITS), gmpy2.context(precision=BITS)
    print(f"\n{'functions at 256 bits, µs each':<34}{'exact':>12}{'MPFR alone':>12}")
    for name, alone in (("exp", context.exp), ("tanh", context.tanh), ("gelu", context.erfc), ("sigmoid", context.exp)):
        values = xs.tolist()
        with reals.active():
            ours = min(_clocked(lambda: reals.apply(name, xs)) for _ in range(RUNS))  # noqa: B023  # called at once
        theirs = min(_clocked(lambda: list(map(alone, values))) for _ in range(RUNS))  # noqa: B023
        print(f"  {name:<32}{ours / xs.size * 1e6:>12.2f}{theirs / xs.size * 1e6:>12.2f}")


def _clocked(action: Callable[[], object]) -> float:
    started = time.process_time()
    action()
    return time.process_time() - started


def main() -> None:
    sys.setrecursionlimit(20_000)
    gpt()
    products()
    functions()
