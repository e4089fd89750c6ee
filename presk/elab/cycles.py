"""Cycles in words."""

from collections.abc import Sequence
from typing import Final

MAX_SHOWN: Final = 12
MAX_LABELS: Final = 4


def shown_cycle(ring: Sequence[str]) -> str:
    """A cycle in words: "`A` → `B` → `A`"; the middle of a long one is left out."""
    names = [f"`{name}`" for name in (*ring, ring[0])]
    if len(names) > MAX_SHOWN:
        half = MAX_SHOWN // 2
        names = [*names[:half], f"({len(names) - 2 * half} more)", *names[-half:]]
    return " → ".join(names)
