"""Arguments of f32 where the f64 value rounds to the wrong neighbour, with the right values, found by `make exhaustive`.

At these five the logarithm comes within about 2⁻⁵³ of a midpoint of two numbers of f32, which no evaluation in f64 can tell apart.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

MENDED: Final[Mapping[str, tuple[tuple[int, int], ...]]] = MappingProxyType(
    {
        "log": (
            (0x3C413D3A, 0xC08E158F),
            (0x41178FEB, 0x400FE5E7),
            (0x4C5D65A5, 0x418F034B),
            (0x65D890D3, 0x4254D1F9),
            (0x6F31A8EC, 0x42845A89),
        ),
    }
)
"""By primitive: patterns of the argument and of the value."""
