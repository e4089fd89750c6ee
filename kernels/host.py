"""The level of the machine at hand: the highest one all of whose features it has.

It is asked through `/proc/cpuinfo`, where the kernel lists what it enabled, so that a process that only runs kernels needs no LLVM to
know. No stage reads this: a level is given to them by name.
"""

import platform
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from presk.kernels.targets import LEVELS, X86_64, Level

CPUINFO: Final = Path("/proc/cpuinfo")


class UnsupportedMachine(Exception):
    """Native execution is not possible on this machine."""

    code: Final = "E9006"


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
