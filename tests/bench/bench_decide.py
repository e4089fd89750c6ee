"""What a decision about dimensions costs: typical claims of programs, by the way in which they are decided."""

import subprocess
import sys
import time
from collections.abc import Callable
from typing import Final

from gmpy2 import mpq

from presk.types.claim import Claim, Relation
from presk.types.decide import Decider
from presk.types.dim import ONE, ZERO, Dim, constant, symbol

D, H, T = symbol("D"), symbol("H"), symbol("T")
BOUNDS: Final = (Claim(Relation.LE, T, constant(1024)), Claim(Relation.LE, D, constant(4096)))
WEIGHTS: Final = (12137, 24269, 36405, 36407, 48545, 60683)


def times(factor: int, form: Dim) -> Dim:
    return form.scaled(mpq(factor))


def knapsack(total: int) -> Claim:
    """`total` is the sum of weights times unknowns: hard for solvers that cut."""
    parts = (times(weight, symbol(f"x{index}")) for index, weight in enumerate(WEIGHTS))
    return Claim(Relation.EQ, sum(parts, start=ZERO), constant(total))


BIG: Final = constant(10**1000)
CLAIMS: Final = (
    ("equal forms", Claim(Relation.EQ, times(4, D), times(2, D + D)), ()),
    ("equal forms, two bounds", Claim(Relation.EQ, D + T, T + D), BOUNDS),
    ("constants", Claim(Relation.DIVIDES, constant(768), constant(12)), BOUNDS),
    ("difference of one sign", Claim(Relation.LE, T, T + ONE), BOUNDS),
    ("a slice within a bound", Claim(Relation.LE, T, constant(2048)), BOUNDS),
    ("D == 4*D fails for D = 1", Claim(Relation.EQ, D, times(4, D)), BOUNDS),
    ("T <= 1023 fails for T = 1024", Claim(Relation.LE, T, constant(1023)), BOUNDS),
    ("D + T <= 5120 by two bounds", Claim(Relation.LE, D + T, constant(5120)), BOUNDS),
    ("2*T <= 3*D + H fails", Claim(Relation.LE, times(2, T), times(3, D) + H), (*BOUNDS, Claim(Relation.LE, H, D))),
    (
        "12 divides by 4 and 6",
        Claim(Relation.DIVIDES, D, constant(12)),
        (Claim(Relation.DIVIDES, D, constant(4)), Claim(Relation.DIVIDES, D, constant(6))),
    ),
    ("numbers of 1,000 digits", Claim(Relation.LE, T + T, BIG), (Claim(Relation.LE, T, BIG),)),
    ("knapsack of 6 (no solution)", Claim(Relation.GE, ZERO, symbol("x0") + ONE), (knapsack(58925134),)),
)


def microseconds(call: Callable[[], object]) -> float:
    """The least mean of five runs, each of 20 ms or one call."""
    best = float("inf")
    for _ in range(5):
        calls, started = 0, time.perf_counter()
        while (spent := time.perf_counter() - started) < 0.02 or calls == 0:
            call()
            calls += 1
        best = min(best, spent / calls)
    return best * 1e6


def import_time(module: str) -> float:
    """Seconds to import a module in a new process where gmpy2 and msgspec are there already: the least of five."""
    program = (
        "import time, gmpy2, msgspec, enum, typing; started = time.perf_counter()\n"
        f"import {module}; print(time.perf_counter() - started)"
    )
    return min(
        float(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout)
        for _ in range(5)
    )


def main() -> None:
    print(f"import of presk.types.decide {import_time('presk.types.decide') * 1e3:.1f} ms", end="; ")
    print(f"of islpy, at the first problem that needs it, {import_time('islpy') * 1e3:.1f} ms")
    print(f"{'µs per decision':<32}{'decided':>10}{'again':>10}   by")
    for name, claim, facts in CLAIMS:
        fresh, keeping = Decider(remembered=0), Decider()
        first = microseconds(lambda: fresh.decide(claim, facts))  # noqa: B023 (called at once)
        again = microseconds(lambda: keeping.decide(claim, facts))  # noqa: B023
        print(f"{name:<32}{first:>10.1f}{again:>10.1f}   {'isl' if fresh.solved else 'the rows'}")
