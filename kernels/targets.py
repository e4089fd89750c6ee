"""The machine levels that kernels are compiled for: fixed names, so that keys and objects are the same on every machine.

A level states everything that code generation may use: a processor name and a list of features, never "this machine". A kernel
compiled for a level gives the same bits as for any other one; a level decides speed alone.
Which one the machine at hand runs says `presk.kernels.host`.
"""

from types import MappingProxyType
from typing import Final

import msgspec

from presk.kernels.layout import Target

TRIPLE: Final = "x86_64-unknown-linux-gnu"


class Level(msgspec.Struct, frozen=True, array_like=True):
    """A level: what lowering knows of it, and what LLVM is told.

    `rounding` says that there is an instruction that rounds a float to an integer. `flags` are the names under which Linux lists
    what the level needs.
    """

    target: Target
    triple: str
    cpu: str
    features: tuple[str, ...]
    rounding: bool
    flags: tuple[str, ...]

    @property
    def name(self) -> str:
        """The level's name."""
        return self.target.name

    @property
    def feature_list(self) -> str:
        """The features as LLVM reads them."""
        return ",".join(f"+{feature}" for feature in self.features)


_BASE: Final = ("64bit", "cmov", "cx8", "fxsr", "mmx", "sse", "sse2")
_AVX2: Final = (
    *("avx", "avx2", "bmi", "bmi2", "crc32", "cx16", "f16c", "fma", "lzcnt", "movbe", "popcnt"),
    *("sahf", "sse3", "sse4.1", "sse4.2", "ssse3", "xsave"),
)
_AVX512: Final = ("avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl")
_BASE_FLAGS: Final = ("lm", "cmov", "cx8", "fxsr", "mmx", "sse", "sse2")
_AVX2_FLAGS: Final = (
    *("avx", "avx2", "bmi1", "bmi2", "cx16", "f16c", "fma", "abm", "movbe", "popcnt"),
    *("lahf_lm", "pni", "sse4_1", "sse4_2", "ssse3", "xsave"),
)

X86_64: Final = Level(Target("x86-64", 16, 16, False), TRIPLE, "x86-64", _BASE, False, _BASE_FLAGS)
X86_64_V3: Final = Level(
    Target("x86-64-v3", 32, 16, True), TRIPLE, "x86-64-v3", (*_BASE, *_AVX2), True, (*_BASE_FLAGS, *_AVX2_FLAGS)
)
X86_64_V4: Final = Level(
    Target("x86-64-v4", 64, 32, True),
    TRIPLE,
    "x86-64-v4",
    (*_BASE, *_AVX2, *_AVX512),
    True,
    (*_BASE_FLAGS, *_AVX2_FLAGS, *_AVX512),
)

LEVELS: Final = MappingProxyType({level.name: level for level in (X86_64, X86_64_V3, X86_64_V4)})
"""By name, the lowest first."""
