"""The derivative column of the table of primitives: for every name its rule, or why it has none."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from presk.ad.rules import contractions, elementwise, movement, reductions
from presk.ad.rules.use import NoDerivative, Rule, nothing

_SECOND: Final = NoDerivative("it is part of a derivative, and derivatives are not differentiated again")
_NUMBER: Final = NoDerivative("it computes with hyperparameters, which have no adjoint")

_ADJOINTS: Final = (
    *(
        "gelu'",
        "heaviside",
        "sign",
        "dot_vjp_l",
        "dot_vjp_r",
        "broadcast_like",
        "mean_vjp",
        "sum_to",
        "cross_entropy_vjp",
    ),
    *(
        "embed_vjp",
        "reshape_like",
        "slice_vjp",
        "scatter_index",
        "set_field",
        "set_elem",
        "scatter_params",
        "set_slice",
    ),
    *("stack_zero", "get_slice"),
)
_HYPER: Final = ("add", "sub", "mul", "div", "neg", "pow", "eq", "le", "ge", "lt", "gt")
_WITHOUT_REALS: Final = (
    *("one_hot", "argmax", "sample", "positions", "causal_mask", "zeros", "ones", "pi", "normal", "xavier_uniform"),
    *("dropout_mask", "split_key", "real", "zeros_like"),
)

DERIVATIVES: Final[Mapping[str, Rule | NoDerivative]] = MappingProxyType(
    {
        "neg": elementwise.neg,
        "gelu": elementwise.by_argument("gelu'"),
        "relu": elementwise.by_argument("heaviside"),
        "abs": elementwise.by_argument("sign"),
        "sin": elementwise.by_argument("cos"),
        "cos": elementwise.cos,
        "exp": elementwise.exp,
        "tanh": elementwise.tanh,
        "sigmoid": elementwise.sigmoid,
        "sqrt": elementwise.sqrt,
        "log": elementwise.log,
        "pow": elementwise.power,
        "powv": elementwise.power_by_value,
        "add": elementwise.add,
        "sub": elementwise.sub,
        "mul": elementwise.mul,
        "div": elementwise.div,
        "max": elementwise.extremum(larger=True),
        "min": elementwise.extremum(larger=False),
        "sum": reductions.total,
        "mean": reductions.mean,
        "softmax": reductions.softmax,
        "cross_entropy": reductions.cross_entropy,
        "sum_squares": reductions.sum_squares,
        "dot": contractions.dot,
        "ein": contractions.ein,
        "embed": movement.embed,
        "merge": movement.shaped("reshape_like", attrs=False),
        "split": movement.shaped("reshape_like", attrs=False),
        "split_heads": movement.back("merge_heads"),
        "merge_heads": movement.back("split_heads"),
        "concat": movement.concat,
        "slice": movement.shaped("slice_vjp", attrs=True),
        "index": movement.shaped("scatter_index", attrs=True),
        "retag": movement.retag,
        "slice_params": movement.slice_params,
        "stack_params": movement.stack_params,
        **dict.fromkeys(_WITHOUT_REALS, nothing),
        **dict.fromkeys(_ADJOINTS, _SECOND),
        **{f"hyper_{name}": _NUMBER for name in _HYPER},
    }
)

SHAPE_ONLY: Final[Mapping[str, int]] = MappingProxyType(
    {
        "sum_to": 1,
        "broadcast_like": 1,
        "mean_vjp": 1,
        "reshape_like": 1,
        "slice_vjp": 1,
        "scatter_index": 1,
        "scatter_params": 1,
        "embed_vjp": 2,
        "dropout_mask": 2,
        "zeros_like": 0,
    }
)
"""The operand that a primitive reads for its shape only, by place."""

IDENTITIES: Final = frozenset({"sum_to", "broadcast_like"})
"""The primitives that give their first operand itself where its type is the result's."""
