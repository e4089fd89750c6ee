"""Checkpoints of tests: small trees, and the metadata of a run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from presk.train.checkpoint import Meta, write
from presk.train.stored import Stored

Tree = Mapping[str, Stored]

META: Final = Meta(
    program="5f" * 32,
    model="GPT{65, 32}",
    optimizer="adamw",
    realization='{"default":"f32"}',
    remat="store",
    step=500,
    epoch=2,
    batch=7,
    total=2000,
    seed="1337",
    shuffle="18446744073709551616",
    data="a0" * 32,
    tool="0.1.0",
    loss="1.8857",
    vocab='{"kind":"bytes"}',
    sequence="64",
    unfused="yes",
)

TREE: Final[Tree] = {
    "wte": ("F32", np.array([[1.5, -0.0, 3e38], [1e-45, 2, 3]], dtype=np.float32)),
    "blocks.attn.wq.w": ("F64", np.array([[[0.1, -2.5e-308]], [[5e-324, 4.0]]])),
    "blocks.γ": ("BF16", np.array([0x3F80, 0xFF7F, 1], dtype=np.uint16)),
    "gain": ("F64", np.array(0.1)),
}
"""Of every type, with a scalar, subnormal numbers and a negative zero."""


def moments(tree: Tree, factor: int = 1) -> Tree:
    """Other bits of the same types and shapes."""
    return {path: (dtype, np.asarray(array + array.dtype.type(factor))) for path, (dtype, array) in tree.items()}


def small(path: Path, meta: Meta = META, tree: Tree = TREE) -> Path:
    """Writes a checkpoint."""
    write(path, path.name, tree, moments(tree), moments(tree, 2), meta)
    return path


def bits(tree: Tree) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    """A tree as what two of them are compared by: NaN is itself, and 0 is not −0."""
    return {path: (dtype, array.shape, array.tobytes()) for path, (dtype, array) in tree.items()}


def floats(stored: Stored) -> np.ndarray[Any, Any]:
    """The numbers of a tensor as doubles."""
    dtype, array = stored
    if dtype == "BF16":
        return (array.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return array.astype(np.float64)
