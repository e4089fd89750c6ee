"""The primitives of the core, one row each: how many operands, how the text form writes it, its typing, its regularity.

The other columns of a primitive (derivative, exact value, nest, export) are tables of the parts that own them, with the names of
this one; a test walks each of them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from presk.prims import core_rules as rules
from presk.prims import elementwise, movement, random, reductions, tables
from presk.prims.core_rules import CoreRule, declared_names, from_surface, with_attributes
from presk.prims.regularity import Class, Regularity, each, every, injection
from presk.prims.spelling import (
    PLAIN,
    AxisPiece,
    DimPiece,
    LengthPiece,
    NamePiece,
    NamesPiece,
    PlacePiece,
    SelectsPiece,
    SizesPiece,
    Spelling,
    WordPiece,
)

MANY: Final = 1 << 30
"""More operands than any use has."""


_SMOOTH: Final = every(Class.SMOOTH)


@dataclass(frozen=True, slots=True)
class CoreRow:
    """One primitive.

    `fewest` and `most` count its operands. `draws` says that its value is drawn from a key. `substitute` is what to do where its
    discontinuity forbids a gradient (E3001), `written` what a program calls it, if that is another name.
    """

    name: str
    fewest: int
    most: int
    typing: CoreRule
    spelling: Spelling = PLAIN
    regularity: Regularity = _SMOOTH
    draws: bool = False
    substitute: str | None = None
    written: str | None = None


def _rows(names: Iterable[str], count: int, typing: CoreRule, spelling: Spelling = PLAIN) -> tuple[CoreRow, ...]:
    """Rows that differ in their names only."""
    return tuple(CoreRow(name, count, count, typing, spelling) for name in names)


_JOINED: Final = Spelling(implied=("left", "right"))
_ALONG: Final = Spelling((AxisPiece("axis"),))
_KINK: Final = every(Class.CONTINUOUS)
_JUMP: Final = every(Class.DISC)
_HEADS: Final = MappingProxyType({"H": "heads", "HD": "hd"})
_SIZES: Final = Spelling((SizesPiece(("heads", "heads"), ("hd", "hd")),))
_TENSOR: Final = from_surface(reductions.reduction, ("x",))
_ENTROPY: Final = from_surface(reductions.cross_entropy, ("logits", "y"))
_EMBED: Final = from_surface(tables.embed, ("w", "t"))

_SURROGATE: Final = "use `softmax` for a smooth surrogate, or an explicit straight-through relaxation"
_KEYS: Final = "a key has no derivative: differentiate in what is drawn"


def _table(rows: Iterable[CoreRow]) -> Mapping[str, CoreRow]:
    found: dict[str, CoreRow] = {}
    for row in rows:
        assert row.name not in found, row.name
        found[row.name] = row
    return MappingProxyType(found)


CORE: Final = _table(
    (
        # Elementwise.
        *_rows(("neg", "gelu", "exp", "tanh", "sqrt", "log", "sigmoid", "sin", "cos", "gelu'"), 1, rules.unary),
        CoreRow("relu", 1, 1, rules.unary, regularity=_KINK),
        CoreRow("abs", 1, 1, rules.unary, regularity=_KINK),
        CoreRow("heaviside", 1, 1, rules.unary, regularity=_JUMP),
        CoreRow("sign", 1, 1, rules.unary, regularity=_JUMP),
        *_rows(("add", "sub", "mul", "div"), 2, rules.binary, _JOINED),
        CoreRow("max", 2, 2, rules.binary, _JOINED, _KINK),
        CoreRow("min", 2, 2, rules.binary, _JOINED, _KINK),
        CoreRow("pow", 1, 1, rules.power, Spelling((DimPiece("n"),))),
        *_rows(("powv",), 2, rules.power_by_value),
        CoreRow("real", 1, 1, from_surface(elementwise.real, ("x",)), regularity=injection, substitute=_SURROGATE),
        CoreRow("sum_squares", 1, 1, rules.sum_squares),
        # Reductions and contractions.
        *_rows(("sum", "mean"), 1, _TENSOR, _ALONG),
        *_rows(("broadcast_like", "mean_vjp"), 2, rules.unreduced, _ALONG),
        CoreRow("sum_to", 2, 2, rules.sum_to, Spelling(implied=("align",))),
        CoreRow(
            "softmax",
            1,
            2,
            with_attributes(from_surface(reductions.softmax, ("x", "where")), axes=1),
            Spelling((AxisPiece("axis"),), ("mask",)),
            each(Class.SMOOTH, Class.DISC),
            substitute="a mask has no derivative: add to the scores what is to be learned",
        ),
        CoreRow(
            "cross_entropy",
            2,
            2,
            _ENTROPY,
            regularity=each(Class.SMOOTH, Class.DISC),
            substitute="targets have no derivative: differentiate in the logits",
        ),
        CoreRow(
            "cross_entropy_vjp",
            3,
            3,
            rules.cross_entropy_vjp(_ENTROPY),
            regularity=each(Class.SMOOTH, Class.DISC, Class.SMOOTH),
        ),
        CoreRow("dot", 2, 2, from_surface(movement.dot, ("x", "w"))),
        CoreRow("dot_vjp_l", 2, 2, rules.dot_vjp_l),
        CoreRow("dot_vjp_r", 2, 2, rules.dot_vjp_r),
        CoreRow("ein", 1, MANY, rules.ein, Spelling((NamesPiece("out", "in"),))),
        # Tables by index, choices.
        CoreRow(
            "embed",
            2,
            2,
            _EMBED,
            regularity=each(Class.SMOOTH, Class.DISC),
            substitute="indices have no derivative: differentiate in the table, or contract it with the `softmax` of scores",
        ),
        CoreRow(
            "embed_vjp",
            3,
            3,
            rules.embed_vjp(_EMBED),
            regularity=each(Class.DISC, Class.SMOOTH, Class.SMOOTH),
        ),
        CoreRow("one_hot", 1, 1, from_surface(tables.one_hot, ("t",)), regularity=_JUMP, substitute=_SURROGATE),
        CoreRow("argmax", 1, 1, from_surface(reductions.argmax, ("x",)), regularity=_JUMP, substitute=_SURROGATE),
        CoreRow(
            "sample",
            2,
            2,
            from_surface(reductions.sample, ("key", "logits")),
            regularity=_JUMP,
            draws=True,
            substitute=_SURROGATE,
        ),
        CoreRow(
            "positions",
            0,
            0,
            with_attributes(from_surface(tables.positions, ()), lengths=1),
            Spelling((LengthPiece("axis"),)),
        ),
        CoreRow(
            "causal_mask",
            0,
            0,
            with_attributes(from_surface(tables.causal_mask, ()), lengths=1),
            Spelling((LengthPiece("axis"),)),
        ),
        # Moving.
        CoreRow(
            "merge",
            1,
            1,
            with_attributes(from_surface(movement.merge, ("x",)), axes=2),
            Spelling((NamePiece("first"), NamePiece("second"))),
        ),
        CoreRow(
            "split",
            1,
            1,
            with_attributes(from_surface(movement.split, ("x",)), axes=1, lengths=2),
            Spelling((NamePiece("axis"), LengthPiece("outer"), LengthPiece("inner", comma=True))),
        ),
        CoreRow("reshape_like", 2, 2, rules.reshape_like),
        CoreRow("split_heads", 1, 1, declared_names(from_surface(movement.split_heads, ("x",), _HEADS)), _SIZES),
        CoreRow("merge_heads", 1, 1, declared_names(from_surface(movement.merge_heads, ("x",), _HEADS)), _SIZES),
        CoreRow(
            "concat",
            2,
            2,
            with_attributes(from_surface(movement.concat, ("x", "y")), axes=1),
            Spelling((NamePiece("axis"),)),
        ),
        CoreRow("slice", 1, 1, rules.selection(ranges=True), Spelling((SelectsPiece(True),))),
        CoreRow("index", 1, 1, rules.selection(ranges=False), Spelling((SelectsPiece(False),))),
        CoreRow("slice_vjp", 2, 2, rules.selection_vjp(ranges=True), Spelling((SelectsPiece(True, operand=1),))),
        CoreRow("scatter_index", 2, 2, rules.selection_vjp(ranges=False), Spelling((SelectsPiece(False, operand=1),))),
        CoreRow("retag", 1, 1, rules.retag),
        # What the type decides, and draws.
        *_rows(("zeros", "ones", "stack_zero"), 0, rules.made_by_type),
        CoreRow("pi", 0, 0, rules.pi),
        CoreRow(
            "normal", 1, 1, rules.normal, Spelling((WordPiece("std", labelled=True),)), _JUMP, True, substitute=_KEYS
        ),
        CoreRow("xavier_uniform", 1, 1, rules.xavier_uniform, regularity=_JUMP, draws=True, substitute=_KEYS),
        CoreRow(
            "dropout_mask",
            3,
            3,
            from_surface(random.dropout, ("rate", "key", "x")),
            regularity=each(Class.DISC, Class.DISC, Class.SMOOTH),
            draws=True,
            substitute="differentiate in the tensor, not in the rate or the key",
            written="dropout",
        ),
        CoreRow(
            "split_key",
            1,
            1,
            rules.split_key,
            Spelling((DimPiece("n"),)),
            _JUMP,
            draws=True,
            substitute=_KEYS,
        ),
        # Trees, tuples, stacks.
        CoreRow("zeros_like", 1, 1, rules.zeros_like),
        CoreRow("set_field", 2, 2, rules.set_field, Spelling((WordPiece("name"),))),
        CoreRow("set_elem", 2, 2, rules.set_elem, Spelling((PlacePiece("place"),))),
        CoreRow("slice_params", 1, 1, rules.slice_params, Spelling((PlacePiece("i"),))),
        CoreRow("scatter_params", 2, 2, rules.scatter_params, Spelling((PlacePiece("i"),))),
        CoreRow("stack_params", 0, MANY, rules.stack_params, Spelling((DimPiece("n"),))),
        CoreRow("set_slice", 3, 3, rules.set_slice),
        CoreRow("get_slice", 2, 2, rules.get_slice),
        # Hyperparameters.
        *_rows(("hyper_add", "hyper_mul"), 2, rules.hyper(closed=True)),
        *_rows(("hyper_sub", "hyper_div"), 2, rules.hyper(closed=False)),
        *_rows(("hyper_neg",), 1, rules.hyper(closed=False)),
        *_rows(("hyper_pow",), 2, rules.hyper_pow),
        *(
            CoreRow(f"hyper_{name}", 2, 2, rules.hyper_compare, regularity=_JUMP)
            for name in ("eq", "le", "ge", "lt", "gt")
        ),
    )
)
"""The rows by name."""
