"""Where the generator's decisions come from: from Hypothesis, which shrinks them, or from a seed.

The smallest choice is always the simplest one, so that a smaller sequence of choices makes a simpler program.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, TypeVar

from hypothesis import strategies as st

T = TypeVar("T")


class Choices(Protocol):
    """A supply of decisions."""

    def below(self, n: int) -> int:
        """A number from 0 to n − 1."""

    def within(self, make: Callable[[], T]) -> T:
        """What `make` gives; its decisions belong together, and may be replaced together."""


class Seeded:
    """Decisions of a pseudo-random generator: the same ones for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random: Final = random.Random(seed)

    def below(self, n: int) -> int:
        """See `Choices`."""
        return self._random.randrange(n) if n > 1 else 0

    def within(self, make: Callable[[], T]) -> T:
        """See `Choices`."""
        return make()


_BELOW: Final = tuple(st.integers(0, max(n - 1, 0)) for n in range(200))


_NOTHING: Final = st.just(None)


@st.composite
def _part(draw: Any, make: Callable[[], Any]) -> Any:
    # What is drawn inside belongs together, so that one part can take another's place in shrinking.
    draw(_NOTHING)
    return make()


class Drawn:
    """Decisions of Hypothesis."""

    def __init__(self, draw: Any) -> None:
        self._draw: Final = draw

    def below(self, n: int) -> int:
        """See `Choices`."""
        return int(self._draw(_BELOW[n])) if n > 1 else 0

    def within(self, make: Callable[[], T]) -> T:
        """See `Choices`."""
        result: T = self._draw(_part(make))
        return result


def pick(choices: Choices, items: Sequence[T]) -> T:
    """One of the items, the first being the simplest."""
    return items[choices.below(len(items))]


def chance(choices: Choices, one_in: int) -> bool:
    """True once in so many times; False is the simpler answer."""
    return choices.below(one_in) == one_in - 1


def weighted(choices: Choices, items: Sequence[tuple[int, T]]) -> T:
    """One of the items, each as often as its weight says, the first being the simplest."""
    left = choices.below(sum(weight for weight, _ in items))
    for weight, item in items:
        if left < weight:
            return item
        left -= weight
    raise AssertionError("no item")
