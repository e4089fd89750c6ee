"""Parameters of a file as the numbers that a run begins with: what no machine type of the run has is refused."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from presk.kernels.numbers import from_elements, to_elements
from presk.train.machine import ELEMS
from presk.train.parameters import check_fits, misfit
from presk.train.stored import Stored, unreadable


def numbers_of(
    parameters: Mapping[str, Stored], expected: Mapping[str, tuple[tuple[int, ...], str]], shown: str
) -> dict[str, NDArray[Any]]:
    """Parameters that fit a tree but for their element types, as numbers of binary64.

    E8007 as for `check_fits`, and for a number that the type of the run has no place for; E8006 for one that is not finite.
    """
    kinds = {name: (one[0], parameters[name][0] if name in parameters else one[1]) for name, one in expected.items()}
    check_fits(parameters, kinds, shown)
    found: dict[str, NDArray[Any]] = {}
    for name, (dtype, array) in parameters.items():
        values = _numbers(dtype, array)
        at = _strange((dtype, array))
        if at is not None:
            raise unreadable(shown, f"the element {list(at)} of its `{name}` is {values[at]}")
        wanted = expected[name][1]
        with np.errstate(over="ignore"):
            at = _strange((wanted, to_elements(values, ELEMS[wanted])))
        if at is not None:
            raise misfit(shown, f"the element {list(at)} of its `{name}` is {values[at]}, too large for {wanted}")
        found[name] = values
    return found


def _strange(tensor: Stored) -> tuple[int, ...] | None:
    """The place of the first element that is an infinity or a NaN."""
    wrong = ~np.isfinite(_numbers(*tensor))
    return tuple(map(int, np.unravel_index(int(wrong.argmax()), wrong.shape))) if wrong.any() else None


def _numbers(dtype: str, array: NDArray[Any]) -> NDArray[Any]:
    return from_elements(array, ELEMS[dtype]) if dtype in ELEMS else array.astype(np.float64)
