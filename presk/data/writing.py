"""Writing data files.

A file is there whole or not at all (see `presk.data.container`). Every index is checked before anything is written.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from presk.data.checking import check_elements
from presk.data.container import write_file
from presk.data.leaves import DTYPES, Leaf, Windows, leaves_of, window_type
from presk.data.vocabulary import Vocabulary
from presk.elab.data import COUNT, SAMPLE, WINDOW
from presk.types.type import Tuple, Type

VOCAB: Final = "presk.vocab"


def write_samples(
    path: Path, sample: Type, arrays: Sequence[NDArray[Any]], vocabulary: Vocabulary | None = None
) -> None:
    """Writes samples: for each leaf of the sample type an array with the sample as first axis.

    ValueError for arrays of other shapes, E8003 for an index that is not below its bound, OSError where the file cannot be written.
    """
    leaves = leaves_of(sample)
    count = len(arrays[0]) if arrays else 0
    stored = []
    for leaf, array in zip(leaves, arrays, strict=True):
        if array.shape != (count, *leaf.lengths):
            raise ValueError(f"`{leaf.array}` has the shape {[count, *leaf.lengths]}, not {list(array.shape)}")
        stored.append((leaf.array, *_stored(leaf, array)))
    write_file(path, stored, _metadata(sample, count, None, vocabulary))


def write_windows(
    path: Path, tokens: NDArray[Any], bound: int, windows: Windows, parts: int, vocabulary: Vocabulary | None = None
) -> Type:
    """Writes a stream of tokens whose windows are the samples, each seen as `parts` leaves (see `Windows`).

    Gives the sample type. Errors as above; ValueError where a window has fewer tokens than parts.
    """
    span = windows.length - parts + 1
    if parts < 1 or span < 1:
        raise ValueError(f"a window of {windows.length} tokens has no {parts} parts")
    part = window_type(bound, span)
    sample = part if parts == 1 else Tuple((part,) * parts)
    leaf = leaves_of(part)[0]
    write_file(
        path,
        [(leaf.array, *_stored(leaf, tokens))],
        _metadata(sample, windows.count(len(tokens)), windows, vocabulary),
    )
    return sample


def _stored(leaf: Leaf, array: NDArray[Any]) -> tuple[str, NDArray[Any]]:
    """The element type and the elements of a leaf as they are stored, checked."""
    dtype = "F32" if leaf.stored[0] == "F64" and array.dtype == np.float32 else leaf.stored[0]
    check_elements(leaf, array)
    return dtype, np.ascontiguousarray(array, dtype=DTYPES[dtype])


def _metadata(sample: Type, count: int, windows: Windows | None, vocabulary: Vocabulary | None) -> dict[str, str]:
    found = {SAMPLE: str(sample), COUNT: str(count)}
    if windows is not None:
        found[WINDOW] = f"{windows.length} {windows.stride}"
    if vocabulary is not None:
        found[VOCAB] = vocabulary.spelled()
    return found
