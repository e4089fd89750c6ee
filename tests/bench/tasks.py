"""What is compared with a peer: tasks by name, and their sizes; both sides read them here."""

from typing import Final

PRODUCTS: Final = {
    "1024×1024×1024": (1024, 1024, 1024),
    "4096×384×1536": (4096, 384, 1536),
    "4096×384×384": (4096, 384, 384),
    "64×64×256": (64, 64, 256),
    "64×64×92": (64, 64, 92),
}
"""Rows, summed places, columns."""

_QUERIES: Final = (16, 6, 256, 64)
_WEIGHTS: Final = (16, 6, 256, 256)
EINS: Final = {
    "scores": ("bhqd,bhkd->bhqk", _QUERIES, _QUERIES),
    "values": ("bhqk,bhkd->bhqd", _WEIGHTS, _QUERIES),
    "keys'": ("bhqk,bhqd->bhkd", _WEIGHTS, _QUERIES),
}
"""Attention at B = 16, H = 6, T = 256, HD = 64: specs and shapes."""

ROWS: Final = (4096, 256)
NORMED: Final = (2736, 384)

GPTS: Final = {
    "tiny": ({"V": 64, "D": 32, "H": 2, "L": 2, "C": 16}, {"B": 2, "T": 16}),
    "small": ({"V": 92, "D": 64, "H": 2, "L": 2, "C": 32}, {"B": 2, "T": 32}),
    "course": ({"V": 92, "D": 384, "H": 6, "L": 6, "C": 256}, {"B": 4, "T": 256}),
}
"""The course GPT at three sizes: constants and dimensions."""

TASKS: Final = (
    *(f"product {name}" for name in PRODUCTS),
    *(f"left {name}" for name in PRODUCTS if name != "64×64×92"),
    *(f"right {name}" for name in PRODUCTS if name != "64×64×92"),
    *(f"ein {name}" for name in EINS),
    *("softmax", "layernorm", "gelu"),
    *(f"{what} {name}" for name in GPTS for what in ("forward", "loss", "gradient")),
)
"""`left` and `right` are the derivatives of a product by its operands."""


def operations(task: str) -> int | None:
    """The additions and multiplications of a contraction."""
    kind, _, name = task.partition(" ")
    if kind in ("product", "left", "right"):
        m, k, n = PRODUCTS[name]
        return 2 * m * k * n
    if kind == "ein":
        return 2 * 16 * 6 * 256 * 256 * 64
    return None
