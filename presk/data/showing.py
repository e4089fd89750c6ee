"""What a data file holds, for people and as JSON."""

import json
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from presk.data.leaves import Leaf
from presk.data.reading import DataFile
from presk.data.vocabulary import Vocabulary
from presk.types.type import Index, Real, Tuple, Type

_WIDE: Final = 100  # columns
_LONG: Final = 512  # a tensor of more elements is shortened


def info_text(data: DataFile) -> str:
    """A data file's facts, a line for each."""
    contents = data.contents
    lines = [f"sample: {contents.sample}", f"count: {contents.count}"]
    if contents.windows is not None:
        length, stride = contents.windows.length, contents.windows.stride
        lines.append(f"windows: {length} tokens every {stride}, of {data.tokens}")
    if contents.vocabulary is not None:
        lines.append(f"vocabulary: {contents.vocabulary.description()}")
    for name, entry in sorted(data.header.entries.items()):
        lines.append(f"array: {name} {entry.dtype} {list(entry.shape)}")
    lines += [f"bytes: {data.header.size}", f"digest: {data.digest}"]
    return "\n".join(lines)


def info_json(data: DataFile) -> str:
    """The same as one JSON object."""
    contents = data.contents
    windows, vocabulary = contents.windows, contents.vocabulary
    return _dumped(
        {
            "sample": str(contents.sample),
            "count": contents.count,
            "window": None
            if windows is None
            else {"length": windows.length, "stride": windows.stride, "tokens": data.tokens},
            "vocabulary": None
            if vocabulary is None
            else {
                "kind": "bytes" if vocabulary.tokens is None else "texts",
                "size": vocabulary.size,
                "tokens": vocabulary.tokens,
            },
            "arrays": {
                name: {"dtype": entry.dtype, "shape": list(entry.shape)}
                for name, entry in sorted(data.header.entries.items())
            },
            "bytes": data.header.size,
            "digest": data.digest,
        }
    )


def sample_text(data: DataFile, number: int) -> str:
    """One sample: each leaf with its type and its elements, and its text where it has one."""
    lines = [f"sample {number} of {data.count}"]
    for leaf, array in _leaves(data, number):
        shown = np.array2string(array, max_line_width=_WIDE - 2, threshold=_LONG)
        lines.append(f"{leaf.name} : {leaf.type}")
        lines += [f"  {line}" for line in shown.splitlines()]
        text = _text_of(leaf, array, data.contents.vocabulary)
        if text is not None:
            lines.append(f"  {_quoted(text)}")
    return "\n".join(lines)


def sample_json(data: DataFile, number: int) -> str:
    """One sample as a JSON object: its number, its value as `presk run` prints one and takes one, the text of each leaf."""
    found = _leaves(data, number)
    texts = [_text_of(leaf, array, data.contents.vocabulary) for leaf, array in found]
    value = _value(data.contents.sample, iter(found))
    return _dumped({"sample": number, "value": value, "text": texts})


def _leaves(data: DataFile, number: int) -> list[tuple[Leaf, NDArray[Any]]]:
    return [(leaf, array[0]) for leaf, array in zip(data.leaves, data.samples([number]), strict=True)]


def _value(type_: Type, found: Iterator[tuple[Leaf, NDArray[Any]]]) -> Any:
    if isinstance(type_, Tuple):
        return [_value(item, found) for item in type_.items]
    leaf, array = next(found)
    # Decimals are texts, as in every result: a JSON reader may keep fewer digits than they have.
    elements = _decimals(array.tolist()) if isinstance(leaf.type, Real) else array.tolist()
    return {
        "type": str(leaf.type),
        "axes": [axis.name for axis in leaf.type.shape.axes],
        "shape": list(array.shape),
        "data": elements,
    }


def _decimals(elements: Any) -> Any:
    return list(map(_decimals, elements)) if isinstance(elements, list) else repr(elements)


def _text_of(leaf: Leaf, array: NDArray[Any], vocabulary: Vocabulary | None) -> str | None:
    """The text of a leaf that is one axis of tokens of the vocabulary."""
    if vocabulary is None or not isinstance(leaf.type, Index) or leaf.bound != vocabulary.size or array.ndim != 1:
        return None
    return vocabulary.decode(array)


def _quoted(text: str) -> str:
    """A text on one line, without characters that a terminal would obey."""
    escaped = (one if one.isprintable() and one not in '"\\' else json.dumps(one)[1:-1] for one in text)
    return f'"{"".join(escaped)}"'


def _dumped(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False)
