"""The nest column, realized: the rule of every primitive, and the lowering of every kind of nest.

Primitives whose pattern says that nothing is computed have no rule here (`presk.prims.nests`): who traces a program gives them memory.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from presk.kernels.layout import Layout, Target
from presk.kernels.nest import Kind, Launch, Lowered, Nest, Use, View
from presk.kernels.nests import choice, contraction, copy, draws, entropy, lookup, map, reduce, softmax
from presk.kernels.nests.divide import divided_by_size
from presk.kernels.nests.map import group
from presk.prims.nests import (
    NESTS,
    AnyPattern,
    Converted,
    Elementwise,
    Filled,
    Hyper,
    Reduced,
    Regrouped,
    Same,
    Spread,
    Structure,
    Structured,
)

__all__ = ["RULES", "group", "lower", "rule"]

Rule = Callable[[Use], Launch | View]

STRUCTURES: Final[Mapping[Structure, Rule]] = MappingProxyType(
    {
        Structure.DOT: contraction.dot,
        Structure.DOT_VJP_L: contraction.dot_vjp_l,
        Structure.DOT_VJP_R: contraction.dot_vjp_r,
        Structure.EIN: contraction.ein,
        Structure.SOFTMAX: softmax.rule,
        Structure.CROSS_ENTROPY: entropy.rule,
        Structure.CROSS_ENTROPY_VJP: entropy.vjp_rule,
        Structure.EMBED: lookup.embed_rule,
        Structure.EMBED_VJP: lookup.embed_vjp_rule,
        Structure.ONE_HOT: lookup.one_hot_rule,
        Structure.ARGMAX: choice.argmax_rule,
        Structure.SAMPLE: choice.sample_rule,
        Structure.POSITIONS: lookup.positions_rule,
        Structure.CAUSAL_MASK: lookup.causal_mask_rule,
        Structure.SPLIT_HEADS: copy.split_heads,
        Structure.MERGE_HEADS: copy.merge_heads,
        Structure.CONCAT: copy.concat,
        Structure.SELECT: copy.select,
        Structure.PLACE: copy.place,
        Structure.NORMAL: draws.normal_rule,
        Structure.XAVIER_UNIFORM: draws.xavier_uniform_rule,
        Structure.DROPOUT_MASK: draws.dropout_mask_rule,
        Structure.SPLIT_KEY: draws.split_key_rule,
    }
)
"""The rules of nests of a form of their own."""


def _elementwise(scalar: str) -> Rule:
    def rule(use: Use) -> Launch | View:
        # What is no real tensor in a structure is carried from the first operand.
        return map.elementwise(scalar, use) if use.result.kind is Kind.REAL else View()

    return rule


def _realized(pattern: AnyPattern) -> Rule | None:
    """The rule of a pattern; None for what launches nothing."""
    match pattern:
        case Elementwise(scalar):
            return _elementwise(scalar)
        case Converted():
            return map.copied
        case Spread(shared):
            return lambda use: map.spread(use, share=shared)
        case Reduced():
            return lambda use: reduce.reduction(pattern, use)
        case Structured(structure):
            return STRUCTURES[structure]
        case Same():
            return lambda use: View()
        case Filled() | Regrouped() | Hyper():
            return None


def _rules() -> Mapping[str, Rule]:
    found = {name: _realized(pattern) for name, pattern in NESTS.items()}
    return MappingProxyType({name: one for name, one in found.items() if one is not None})


RULES: Final = _rules()
"""By primitive. Those that are missing fill with a constant, regroup structures, or compute with hyperparameters."""


def rule(name: str, use: Use) -> Launch | View:
    """What a use of a primitive launches."""
    return RULES[name](use)


def lower(nest: Nest, layout: Layout, target: Target) -> Lowered:
    """The kernels of a nest under a layout; a large one is divided among threads where the layout does not say whether it is."""
    return divided_by_size(lambda decided: _lower(nest, decided, target), layout, target)


def _lower(nest: Nest, layout: Layout, target: Target) -> Lowered:
    """The kernels of a nest; divided where the layout says so."""
    match nest:
        case map.Map():
            return map.lower(nest, layout, target)
        case reduce.Reduce():
            return reduce.lower(nest, layout, target)
        case contraction.Contract():
            return contraction.lower(nest, layout, target)
        case contraction.Product():
            return contraction.lower_product(nest, layout, target)
        case softmax.Softmax():
            return softmax.lower(nest, layout, target)
        case entropy.CrossEntropy():
            return entropy.lower(nest, layout, target)
        case entropy.CrossEntropyVjp():
            return entropy.lower_vjp(nest, layout, target)
        case copy.Copy():
            return copy.lower(nest, layout, target)
        case lookup.Embed():
            return lookup.lower_embed(nest, layout, target)
        case lookup.EmbedVjp():
            return lookup.lower_embed_vjp(nest, layout, target)
        case lookup.OneHot():
            return lookup.lower_one_hot(nest, layout, target)
        case lookup.Positions():
            return lookup.lower_positions(nest, layout, target)
        case lookup.CausalMask():
            return lookup.lower_causal_mask(nest, layout, target)
        case choice.ArgMax():
            return choice.lower_argmax(nest, layout, target)
        case choice.Sample():
            return choice.lower_sample(nest, layout, target)
        case draws.Draws():
            return draws.lower(nest, layout, target)
        case draws.SplitKey():
            return draws.lower_split_key(nest, layout, target)
        case _:
            raise TypeError(f"{type(nest).__name__} is no nest that is lowered here")
