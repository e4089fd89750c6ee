"""The machine levels that kernels are compiled for: fixed names, so that keys and objects are the same on every machine.

A level states everything that code generation may use: a processor name and a list of features, never "this machine". A kernel
compiled for a level gives the same bits as for any other one; a level decides speed alone. The machine at hand runs the highest
level all of whose features it has; it is asked through `/proc/cpuinfo`, where the kernel lists what it enabled, so that a process
that only runs kernels needs no LLVM to know.
"""

import platform
import sys
from collections.abc import Iterable
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec

from presk.kernels.layout import Target

TRIPLE: Final = "x86_64-unknown-linux-gnu"
CPUINFO: Final = Path("/proc/cpuinfo")


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


class UnsupportedMachine(Exception):
    """Native execution is not possible on this machine."""

    code: Final = "E9006"


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


def level_for(flags: Iterable[str]) -> Level:
    """The highest level of a processor with these flags (as Linux names them); `UnsupportedMachine` where it has not even the
    lowest."""
    have = frozenset(flags)
    best = None
    for level in LEVELS.values():
        if have.issuperset(level.flags):
            best = level
    if best is None:
        lacking = ", ".join(flag for flag in X86_64.flags if flag not in have)
        raise UnsupportedMachine(f"the processor lacks {lacking}, which native kernels need")
    return best


def host_level() -> Level:
    """The level of this machine; `UnsupportedMachine` where native kernels cannot run."""
    machine = platform.machine()
    if sys.platform != "linux" or machine not in ("x86_64", "AMD64"):
        raise UnsupportedMachine(
            f"native kernels run on Linux on x86-64, and this is {sys.platform} on {machine or 'an unknown processor'}"
        )
    with CPUINFO.open(encoding="ascii", errors="replace") as lines:
        for line in lines:
            name, _, value = line.partition(":")
            if name.strip() == "flags":
                return level_for(value.split())
    raise UnsupportedMachine(f"{CPUINFO} does not say what the processor can do")
