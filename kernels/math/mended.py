"""Arguments of f32 where the f64 value rounds to the wrong neighbour, with the right values, found by `make exhaustive`.

There the value is so near to a midpoint of two numbers of f32 that one more bit than f64 has, or two, are needed to see on which side.
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
        "sigmoid": ((0xBA928601, 0x3EFFDB5F),),
        "sin": (
            (0x46199998, 0xBEB1FA5D),
            (0xC6199998, 0x3EB1FA5D),
        ),
        "cos": (
            (0x6115CB11, 0x3F78142F),
            (0xE115CB11, 0x3F78142F),
            (0x7908CD73, 0x3F798BB5),
            (0xF908CD73, 0x3F798BB5),
        ),
        "gelu": (
            (0x37B0A46F, 0x3730A531),
            (0xB7B0A46F, 0xB730A3AD),
        ),
        "gelu'": (
            (0x33206C99, 0x3F000001),
            (0xB2A06C99, 0x3EFFFFFF),
            (0xB8D0DF65, 0x3EFFF595),
        ),
    }
)
"""By primitive: patterns of the argument and of the value."""
