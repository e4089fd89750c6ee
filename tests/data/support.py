"""Data files of tests: small ones that are right, and the bytes of ones that are not."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from presk.types.type import Type
from tests.elab.support import type_of

PAIRS: Final = "(idx[65][seq: 4], idx[65][seq: 4])"


def sample_of(text: str) -> Type:
    """A sample type from its text."""
    return type_of(text)


def container(header: Any, data: bytes, claimed: int | None = None) -> bytes:
    """A container with this header (JSON, or its bytes) and these bytes behind it."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if claimed is None else claimed).to_bytes(8, "little") + text + data


def entry(dtype: str, shape: Sequence[int], start: int, end: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [start, end]}


def stream_file(
    path: Path,
    tokens: bytes,
    *,
    sample: str = PAIRS,
    count: int | None = None,
    window: str = "5 1",
    more: Mapping[str, str] | None = None,
) -> Path:
    """Writes a data file of windows byte by byte: nothing of what is tested helps."""
    length, stride = map(int, window.split())
    found = (len(tokens) - length) // stride + 1 if count is None else count
    metadata = {"presk.sample": sample, "presk.count": str(found), "presk.window": window, **(more or {})}
    path.write_bytes(
        container({"__metadata__": metadata, "base.0": entry("U8", [len(tokens)], 0, len(tokens))}, tokens)
    )
    return path
