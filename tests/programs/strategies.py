"""Random well-typed programs as a Hypothesis strategy, and by seed; and how much of the language they use."""

import sys
from collections import Counter
from typing import Any, Final

from hypothesis import strategies as st

from tests.programs.choices import Choices, Drawn, Seeded
from tests.programs.entries import Generated, Programs
from tests.programs.faults import Faulty, IllTyped

FUEL: Final = 60


def generated(choices: Choices, fuel: int = FUEL) -> Generated:
    """The program of a sequence of choices; `fuel` bounds the number of its operations, roughly."""
    return Programs(choices, fuel).program()


def from_seed(seed: int, fuel: int = FUEL) -> Generated:
    """The program of a seed."""
    return generated(Seeded(seed), fuel)


@st.composite
def programs(draw: Any, fuel: int = FUEL) -> Generated:
    """Programs without errors."""
    return generated(Drawn(draw), fuel)


def ill_typed_from_seed(seed: int, fuel: int = FUEL) -> IllTyped:
    """The program with one error of a seed."""
    return Faulty(Seeded(seed), fuel).ill_typed()


@st.composite
def ill_typed(draw: Any, fuel: int = FUEL) -> IllTyped:
    """Programs with one error, and its code."""
    return Faulty(Drawn(draw), fuel).ill_typed()


def coverage(count: int) -> Counter[str]:
    """In how many of the first programs, by seed, each feature occurs."""
    found: Counter[str] = Counter()
    for seed in range(count):
        found.update(from_seed(seed).features)
    return found


if __name__ == "__main__":
    total = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    for feature, number in coverage(total).most_common():
        print(f"{100 * number / total:5.1f} %  {feature}")
