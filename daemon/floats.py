"""The floating-point mode of this process, by what arithmetic gives.

A library that was compiled for speed may, when it is loaded, make the processor flush subnormal numbers to zero for the
whole thread; another may leave the direction of rounding changed. Python's own arithmetic shows both: it is the processor's.
"""

import sys

Mode = tuple[bool, bool, bool, bool]


def mode() -> Mode:
    """Whether subnormal results and operands are kept, and whether sums round to nearest for both signs."""
    # Computed from variables: constants would be folded when the module is compiled.
    least = float(sys.float_info.min)
    half, one, tick = float("0.5"), float("1"), float(sys.float_info.epsilon)
    subnormal = least * half
    nearest = one + tick * half == one and one + tick * float("0.75") == one + tick
    mirrored = -one - tick * half == -one and -one - tick * float("0.75") == -one - tick
    return subnormal != 0.0, subnormal + subnormal == least, nearest, mirrored


NORMAL: Mode = (True, True, True, True)
"""What IEEE 754 says unless told otherwise."""
