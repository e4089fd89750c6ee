"""Plans, at length: what the tests do of a few entries and of one point of many.

* Every entry of the corpus, in f64, f32 and bf16 and for every machine level, under the plan that states its defaults: its launches
  and kernels are shown the same, byte for byte.
* Every point of the spaces of four nests, in three types, natively and on the interpreter: the bits of the default.
* Points of every derivative nest of three gradients, the same way: one of `--every`, 1 for all.
* A gradient that the tests leave out, under plans for all of its products at once.

    python -m tests.tools.plan_check [--every N]
"""

import argparse
import sys
import time
from itertools import count

from presk.kernels.layout import Layout
from presk.kernels.nest import Launch
from presk.kernels.nests.contraction import Contract, Walk
from presk.kernels.space import points
from presk.kernels.targets import LEVELS
from tests.kernels.nestrun import TARGET, same
from tests.kernels.test_contraction import numbers
from tests.kernels.test_layouts import NESTS, check_points, computed
from tests.native.planned import contractions, differs, nests_of
from tests.native.support import ARITHS
from tests.native.test_corpus import FILES, PREFIX, TYPES, defined, differentiated, entries, lengths, loaded
from tests.native.test_epilogues import test_every_product_of_a_gradient_that_may_take_one as with_epilogues
from tests.native.test_plans import GRADIENTS, LONGER
from tests.native.test_plans import test_a_gradient_with_all_contractions_laid_out as laid_out


def plans_of_defaults() -> int:
    """How many entries differ under the plan of their defaults."""
    wrong = done = 0
    for file in FILES:
        for type_ in TYPES:
            program, headers = differentiated(file, type_), loaded(file).headers
            for function in entries(file, type_):
                dims = lengths(function)
                if not defined(file, type_, function, dims, PREFIX):
                    continue
                for level in LEVELS.values():
                    done += 1
                    if differs(program, headers, function.name, dims, type_, prefix=PREFIX, level=level):
                        wrong += 1
                        print(f"{file}: {function.name} in {type_} for {level.name} differs")
    print(f"plans of defaults: {done} entries, {wrong} differ", flush=True)
    return wrong


def four_nests() -> None:
    """All points of four nests."""
    for name in NESTS:
        for type_, arith in ARITHS.items():
            print(f"{name} in {type_}: {check_points(name, arith)} points have the default's bits", flush=True)


def derivatives(every: int) -> None:
    """Points of the derivative nests of gradients, each shape once."""
    number = count()
    for type_, arith in ARITHS.items():
        done = 0
        seen: set[Contract] = set()
        for file, entry in (*GRADIENTS, *LONGER):
            (function,) = (one for one in entries(file, type_) if one.name == entry)
            program = differentiated(file, type_)
            nests = nests_of(program, loaded(file).headers, entry, lengths(function), type_)
            names = contractions(program, nests)
            own = [name for name in names if name.partition("/")[0].endswith((".bwd", ".vjp", ".fold_bwd"))]
            seen.update(nest for name in own for nest in nests[name] if isinstance(nest, Contract))
        for nest in sorted(seen, key=str):
            inputs = [
                numbers((size,), arith, place)[0] for place, size in enumerate((_elements(nest, 0), _elements(nest, 1)))
            ]
            launch = Launch(nest, (0, 1))
            wanted = computed(launch, inputs, Layout(), native=True)
            for layout in points(nest, TARGET, (2,)):
                if next(number) % every == 0:
                    done += 1
                    for native in (True, False):
                        same(computed(launch, inputs, layout, native=native), wanted)
        print(f"derivatives in {type_}: {done} points of {len(seen)} nests have the default's bits", flush=True)


def _elements(nest: Contract, operand: int) -> int:
    """How many elements an operand has."""

    def stride(walk: Walk) -> int:
        return walk.right if operand else walk.left

    walks = [walk for walk in (*nest.outer, nest.rows, nest.columns, *nest.summed) if stride(walk)]
    return 0 if any(walk.size == 0 for walk in walks) else 1 + sum((walk.size - 1) * stride(walk) for walk in walks)


def main() -> int:
    """Runs all; 1 if a plan changes a dump. A point with other bits ends it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--every", type=int, default=7, metavar="N", help="one of N points of derivative nests")
    asked = parser.parse_args()
    start = time.monotonic()
    wrong = plans_of_defaults()
    four_nests()
    derivatives(max(1, asked.every))
    for file, entry in LONGER:
        laid_out(file, entry)
        with_epilogues(file, entry)
        print(f"{file}: {entry} has the default's bits with all products laid out, and with all epilogues", flush=True)
    print(f"{time.monotonic() - start:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
