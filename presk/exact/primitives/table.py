"""The exact-value column of the table of primitives: for every name of the core its rule."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from presk.exact.primitives import contractions, elementwise, movement, random, reductions, trees
from presk.exact.primitives.hyper import HYPER
from presk.exact.primitives.use import Rule

_UNARY: Final = (
    *("neg", "exp", "tanh", "sqrt", "log", "sin", "cos", "abs", "relu", "sigmoid", "gelu"),
    *("gelu'", "heaviside", "sign"),
)

EXACT: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        **{name: elementwise.unary(name) for name in _UNARY},
        **elementwise.BINARY,
        "pow": elementwise.power,
        "powv": elementwise.power_by_value,
        "real": elementwise.real,
        "pi": elementwise.pi,
        "retag": elementwise.retag,
        "sum_squares": elementwise.sum_squares,
        "sum": reductions.total,
        "mean": reductions.mean,
        "broadcast_like": reductions.broadcast_like,
        "mean_vjp": reductions.mean_vjp,
        "sum_to": reductions.sum_to,
        "softmax": reductions.softmax,
        "cross_entropy": reductions.cross_entropy,
        "cross_entropy_vjp": reductions.cross_entropy_vjp,
        "argmax": reductions.argmax,
        "sample": reductions.sample,
        "embed": reductions.embed,
        "embed_vjp": reductions.embed_vjp,
        "one_hot": reductions.one_hot,
        "dot": contractions.dot,
        "dot_vjp_l": contractions.dot_vjp_l,
        "dot_vjp_r": contractions.dot_vjp_r,
        "ein": contractions.ein,
        "merge": movement.merge,
        "split": movement.split,
        "reshape_like": movement.reshape_like,
        "split_heads": movement.split_heads,
        "merge_heads": movement.merge_heads,
        "concat": movement.concat,
        "slice": movement.select,
        "index": movement.select,
        "slice_vjp": movement.deselect,
        "scatter_index": movement.deselect,
        "positions": movement.positions,
        "causal_mask": movement.causal_mask,
        "normal": random.normal,
        "xavier_uniform": random.xavier_uniform,
        "dropout_mask": random.dropout_mask,
        "split_key": random.split_key,
        "zeros": trees.zeros,
        "ones": trees.ones,
        "stack_zero": trees.zeros,
        "zeros_like": trees.zeros_like,
        "set_field": trees.set_field,
        "set_elem": trees.set_elem,
        "slice_params": trees.slice_params,
        "scatter_params": trees.scatter_params,
        "stack_params": trees.stack_params,
        "set_slice": trees.set_slice,
        "get_slice": trees.get_slice,
        **HYPER,
    }
)
