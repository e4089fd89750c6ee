"""The nest column of the table of primitives: what computes each of them, in the core's terms.

A nest is a loop nest over the axes of shapes. What is elementwise is stated by a scalar function, a reduction by its combiner, a
movement by where its elements come from; a nest of a form of its own is named. `presk.kernels.nests` makes loops of all of them.

    Elementwise   out[i] = f(x[i], y[i], …), operands lying in the result as the attributes `left` and `right` say
    Converted     out[i] = x[i] as a real
    Spread        out[i] = ct[i without the reduced axis], divided by the axis's length where the cotangent is shared
    Reduced       out[i] = Σ x[i, k] or Σ x[i, k]² over the reduced axes k; a mean divides by their length
    Structured    named by what it computes; see its member
    Same          the operand's memory under another shape or other names
    Filled        a constant throughout
    Regrouped     trees, tuples and stacks taken apart and put together: memory is addressed, not computed
    Hyper         a function of hyperparameters, which is known before anything is launched
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

import msgspec


class Pattern(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """What computes a primitive."""


class Elementwise(Pattern, frozen=True):
    """A scalar function of the elements of all operands."""

    scalar: str


class Converted(Pattern, frozen=True):
    """The operand's elements as reals."""


class Spread(Pattern, frozen=True):
    """The first operand along an axis of the second one, which is read for its shape only."""

    shared: bool


class Over(StrEnum):
    """Which axes a reduction sums over."""

    AXIS = "axis"
    """The axis of that attribute, or all."""

    REST = "rest"
    """Those that the second operand does not have, which lies in the first as the attribute `align` says."""

    ALL = "all"


class Reduced(Pattern, frozen=True):
    """A sum over axes."""

    over: Over
    mean: bool = False
    squares: bool = False


class Structure(StrEnum):
    """Nests of forms of their own."""

    DOT = "dot"
    DOT_VJP_L = "dot_vjp_l"
    DOT_VJP_R = "dot_vjp_r"
    EIN = "ein"
    SOFTMAX = "softmax"
    CROSS_ENTROPY = "cross_entropy"
    CROSS_ENTROPY_VJP = "cross_entropy_vjp"
    EMBED = "embed"
    EMBED_VJP = "embed_vjp"
    ONE_HOT = "one_hot"
    ARGMAX = "argmax"
    SAMPLE = "sample"
    POSITIONS = "positions"
    CAUSAL_MASK = "causal_mask"
    SPLIT_HEADS = "split_heads"
    MERGE_HEADS = "merge_heads"
    CONCAT = "concat"
    SELECT = "select"
    """A box of a tensor: slices and indices."""
    PLACE = "place"
    """A tensor in a box of zeros."""
    NORMAL = "normal"
    XAVIER_UNIFORM = "xavier_uniform"
    DROPOUT_MASK = "dropout_mask"
    SPLIT_KEY = "split_key"


class Structured(Pattern, frozen=True):
    """A nest of a form of its own."""

    structure: Structure


class Same(Pattern, frozen=True):
    """No nest: the operand's memory."""


class Filled(Pattern, frozen=True):
    """No nest: memory that holds a constant, by name: `zero`, `one`, `pi`."""

    value: str


class Regrouped(Pattern, frozen=True):
    """No nest: structure."""


class Hyper(Pattern, frozen=True):
    """No nest: hyperparameters."""


AnyPattern = Elementwise | Converted | Spread | Reduced | Structured | Same | Filled | Regrouped | Hyper

_SCALARS: Final = (
    *("neg", "gelu", "exp", "tanh", "sqrt", "log", "sigmoid", "sin", "cos", "gelu'"),
    *("relu", "abs", "heaviside", "sign", "add", "sub", "mul", "div", "max", "min", "pow", "powv"),
)

NESTS: Final[Mapping[str, AnyPattern]] = MappingProxyType(
    {
        **{name: Elementwise(name) for name in _SCALARS},
        "real": Converted(),
        "sum": Reduced(Over.AXIS),
        "mean": Reduced(Over.AXIS, mean=True),
        "sum_to": Reduced(Over.REST),
        "sum_squares": Reduced(Over.ALL, squares=True),
        "broadcast_like": Spread(shared=False),
        "mean_vjp": Spread(shared=True),
        "softmax": Structured(Structure.SOFTMAX),
        "cross_entropy": Structured(Structure.CROSS_ENTROPY),
        "cross_entropy_vjp": Structured(Structure.CROSS_ENTROPY_VJP),
        "dot": Structured(Structure.DOT),
        "dot_vjp_l": Structured(Structure.DOT_VJP_L),
        "dot_vjp_r": Structured(Structure.DOT_VJP_R),
        "ein": Structured(Structure.EIN),
        "embed": Structured(Structure.EMBED),
        "embed_vjp": Structured(Structure.EMBED_VJP),
        "one_hot": Structured(Structure.ONE_HOT),
        "argmax": Structured(Structure.ARGMAX),
        "sample": Structured(Structure.SAMPLE),
        "positions": Structured(Structure.POSITIONS),
        "causal_mask": Structured(Structure.CAUSAL_MASK),
        "merge": Same(),
        "split": Same(),
        "reshape_like": Same(),
        "retag": Same(),
        "split_heads": Structured(Structure.SPLIT_HEADS),
        "merge_heads": Structured(Structure.MERGE_HEADS),
        "concat": Structured(Structure.CONCAT),
        "slice": Structured(Structure.SELECT),
        "index": Structured(Structure.SELECT),
        "slice_vjp": Structured(Structure.PLACE),
        "scatter_index": Structured(Structure.PLACE),
        "normal": Structured(Structure.NORMAL),
        "xavier_uniform": Structured(Structure.XAVIER_UNIFORM),
        "dropout_mask": Structured(Structure.DROPOUT_MASK),
        "split_key": Structured(Structure.SPLIT_KEY),
        "zeros": Filled("zero"),
        "zeros_like": Filled("zero"),
        "stack_zero": Filled("zero"),
        "ones": Filled("one"),
        "pi": Filled("pi"),
        **dict.fromkeys(
            ("set_field", "set_elem", "slice_params", "scatter_params", "stack_params", "set_slice", "get_slice"),
            Regrouped(),
        ),
        **{
            f"hyper_{name}": Hyper()
            for name in ("add", "sub", "mul", "div", "neg", "pow", "eq", "le", "ge", "lt", "gt")
        },
    }
)
"""The pattern of every primitive by name."""
