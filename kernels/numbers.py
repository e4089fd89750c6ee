"""Numbers of machine types as the host sees them: rounding into an element type, and back.

Everything that enters an arena is rounded once, to nearest even; what leaves it is exact in binary64.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import gmpy2
import numpy as np
from gmpy2 import mpq
from numpy.typing import NDArray

from presk.kernels.ir import Elem

DTYPES: Final[Mapping[Elem, np.dtype[Any]]] = MappingProxyType(
    {
        Elem.F64: np.dtype(np.float64),
        Elem.F32: np.dtype(np.float32),
        Elem.BF16: np.dtype(np.uint16),
        Elem.I64: np.dtype(np.int64),
        Elem.I32: np.dtype(np.int32),
        Elem.U8: np.dtype(np.uint8),
    }
)
"""What holds elements: numpy has no bf16, so its 16 bits are a natural number."""

_FORMATS: Final = MappingProxyType({Elem.F64: (53, -1073, 1024), Elem.F32: (24, -148, 128), Elem.BF16: (8, -132, 128)})


def rounded(value: mpq | None, elem: Elem) -> float:
    """A rational number rounded once to a float type; π for None."""
    precision, emin, emax = _FORMATS[elem]
    with gmpy2.context(precision=precision, emin=emin, emax=emax, subnormalize=True):
        return float(gmpy2.const_pi() if value is None else gmpy2.mpfr(value))


def to_elements(values: NDArray[Any], elem: Elem) -> NDArray[Any]:
    """Numbers as elements of a type, each rounded once."""
    if elem is not Elem.BF16:
        return values.astype(DTYPES[elem])
    return _bf16(values.astype(np.float64))


def from_elements(elements: NDArray[Any], elem: Elem) -> NDArray[Any]:
    """Elements as numbers: binary64 for floats, exactly; integers as they are."""
    if elem is Elem.BF16:
        wide = (elements.astype(np.uint32) << np.uint32(16)).view(np.float32)
        return wide.astype(np.float64)
    return elements.astype(np.float64) if elem is Elem.F32 else elements


def _bf16(values: NDArray[np.float64]) -> NDArray[np.uint16]:
    """binary64 to bf16 in one rounding: first to odd in binary32, whose 24 bits are more than 8 + 2, then to nearest even."""
    with np.errstate(over="ignore"):
        near = values.astype(np.float32)
    back = near.astype(np.float64)
    bits = near.view(np.uint32)
    finite = np.isfinite(values)
    # Toward zero, and the last bit set where anything was lost.
    away = finite & (np.abs(back) > np.abs(values))
    bits = np.where(away, bits - np.uint32(1), bits)
    inexact = finite & (back != values)
    bits = np.where(inexact, bits | np.uint32(1), bits)
    lsb = (bits >> np.uint32(16)) & np.uint32(1)
    result = (bits + np.uint32(0x7FFF) + lsb) >> np.uint32(16)
    quiet = (near.view(np.uint32) >> np.uint32(16)) | np.uint32(0x40)
    return np.where(np.isnan(values), quiet, result).astype(np.uint16)
