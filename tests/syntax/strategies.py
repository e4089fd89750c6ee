"""Hypothesis strategies for syntax trees: every class of `presk.syntax.tree`, with every field that a program can have.

Places are `NOWHERE`. What no program denotes is not drawn: tuples of one item, empty dimension arguments, a name that is no
name. `declarations`, `members` and `items` are what chunks hold; `files` have the keys a parsed file would have.
"""

import string
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from presk.syntax import tree as t
from presk.syntax.lexer import UNITS, is_name
from presk.syntax.tokens import RESERVED
from presk.syntax.tree import NOWHERE

# Words that mean something in places, and are names everywhere else.
CONTEXTUAL = "model run serve stream checkpoint every steps to bool nat int rat f64 key Shape in return zeros auto int8 sm_90".split()
_PLAIN = "x y z w b In Out D θ γ μ σ2 ŷ x̂ _ _a λ1 Δx 变量 a1b2 Q k2 é".split()

names: SearchStrategy[str] = st.one_of(
    st.sampled_from(_PLAIN),
    st.sampled_from(CONTEXTUAL),
    st.text(string.ascii_letters + "_", min_size=1, max_size=4).filter(is_name),
)

_digits = st.text(string.digits, min_size=1, max_size=4)
nats = st.one_of(_digits, st.just("0"), st.just("1" * 40))
decimals = st.one_of(
    st.builds("{}.{}".format, _digits, _digits),
    st.builds("{}e{}{}".format, _digits, st.sampled_from(("", "-", "+")), _digits),
    st.builds("{}.{}E{}".format, _digits, _digits, _digits),
)
texts = st.text(st.one_of(st.characters(exclude_categories=("Cs", "Cc")), st.sampled_from('\n\t"\\')), max_size=8)


def _node(form: Callable[..., Any], *fields: SearchStrategy[Any]) -> SearchStrategy[Any]:
    return st.builds(lambda *values: form(NOWHERE, *values), *fields)


def _tuples(
    elements: SearchStrategy[Any], *, least: int = 0, most: int = 3, single: bool = True
) -> SearchStrategy[tuple[Any, ...]]:
    """Tuples of elements; without `single`, none of exactly one."""
    drawn = st.lists(elements, min_size=least, max_size=most).map(tuple)
    return drawn if single else drawn.filter(lambda items: len(items) != 1)


expressions: SearchStrategy[t.Expr] = st.deferred(lambda: _expressions)
types: SearchStrategy[t.TypeExpr] = st.deferred(lambda: _types)

name_nodes = _node(t.Name, names)
paths = st.recursive(name_nodes, lambda base: _node(t.Field, base, names, st.just(0)), max_leaves=2)
binders = _node(t.Binder, names, st.one_of(st.none(), types))
patterns = st.one_of(
    _node(t.Pattern, binders.map(lambda b: (b,)), st.just(False)),
    _node(t.Pattern, _tuples(binders, single=False), st.just(True)),
)
arguments = st.one_of(
    _node(t.Positional, expressions),
    _node(t.Named, names, expressions),
    _node(t.AxisArg, names),
    _node(t.NamedAxis, names, expressions),
)
selectors = _node(
    t.Selector, st.one_of(st.none(), names), st.one_of(expressions, _node(t.Slice, expressions, expressions))
)
OPERATORS = ("|>", "|", "⊗", "∘", "==", "<=", ">=", "<", ">", "+", "-", "*", "/", "%", "·", "^")

_leaves = st.one_of(
    name_nodes,
    _node(t.Nat, nats),
    _node(t.Decimal, decimals),
    _node(t.Quantity, st.one_of(nats, decimals), st.sampled_from(sorted(UNITS))),
    _node(t.Text, texts),
    _node(t.TupleExpr, st.just(())),
    _node(lambda at, text: t.Call(at, t.Name(at, "stream"), (t.Positional(at, t.Text(at, text)),)), texts),
)
_expressions = st.one_of(
    _leaves,
    _node(t.Negate, expressions),
    _node(t.Binary, st.sampled_from(OPERATORS), st.just(0), expressions, expressions),
    _node(t.Call, expressions, _tuples(arguments)),
    _node(t.Index, expressions, _tuples(selectors, least=1)),
    _node(t.DimArgs, paths, _tuples(expressions, least=1)),
    _node(t.Field, expressions, names, st.just(0)),
    _node(t.Let, patterns, expressions, expressions),
    _node(t.Lambda, patterns, expressions),
    _node(t.Ein, _tuples(_node(t.AxisName, names)), expressions),
    _node(t.Ascribe, expressions, types),
    _node(t.TupleExpr, _tuples(expressions, least=2)),
)

axes = _tuples(st.one_of(_node(t.Axis, st.one_of(st.none(), names), expressions), _node(t.Ellipsis)))
named_types = _node(
    t.NamedType,
    st.lists(names, min_size=1, max_size=3).map(tuple),
    st.one_of(st.none(), _tuples(expressions, least=1)),
)
_types = st.one_of(
    named_types,
    _node(t.RealType, axes),
    _node(t.IndexType, expressions, axes),
    _node(t.MaskType, axes),
    _node(t.ParamType, types),
    _node(t.ParamsType, named_types),
    _node(t.TupleType, _tuples(types, single=False)),
)

type_params = _tuples(_node(t.TypeParam, names, st.sampled_from(("dim", "Shape"))))
parameters = _node(
    t.Parameter, names, st.just(0), st.booleans(), st.one_of(st.none(), types), st.one_of(st.none(), expressions)
)
functions = _node(
    t.Fn,
    names,
    st.just(0),
    type_params,
    _tuples(parameters),
    st.one_of(st.none(), types),
    _tuples(name_nodes, most=2),
    expressions,
)
members: SearchStrategy[t.Member] = st.one_of(
    functions,
    _node(t.ParamMember, _tuples(name_nodes, least=1), types, st.one_of(st.none(), expressions)),
    _node(t.UseMember, _tuples(name_nodes, least=1), expressions),
)
items: SearchStrategy[t.ConfigItem] = st.one_of(
    _node(
        t.Item,
        st.one_of(names, st.sampled_from(sorted(RESERVED))),
        st.just(0),
        st.one_of(st.none(), types),
        expressions,
    ),
    _node(t.Checkpoint, expressions, names, st.just(0), texts, st.just(0)),
)
modules = _node(
    t.Module, names, st.just(0), type_params, _tuples(members.map(lambda member: t.MemberChunk("", member)))
)
_chunked_items = _tuples(items.map(lambda item: t.ItemChunk("", item)))
blocks = st.one_of(
    _node(t.Block, st.just("optimizer"), names, st.just(0), _chunked_items),
    _node(t.Block, st.just("training"), st.just("run"), st.just(0), _chunked_items),
    _node(t.Block, st.just("inference"), st.just("serve"), st.just(0), _chunked_items),
)
plain_declarations: SearchStrategy[t.Declaration] = st.one_of(
    _node(t.Import, texts, st.just(0), names, st.just(0)),
    _node(t.Const, names, st.just(0), st.one_of(st.none(), types), expressions),
    _node(t.StaticAssert, expressions),
    _node(t.DimDecl, names, st.just(0), st.one_of(st.none(), expressions)),
    _node(t.TypeAlias, names, st.just(0), types),
    _node(t.Effect, names, st.just(0)),
    _node(t.Model, names, st.just(0), expressions),
    functions,
)
declarations: SearchStrategy[t.Declaration] = st.one_of(plain_declarations, modules, blocks)
# Files whose chunks have empty keys: keys are given by position and are tested apart.
files: SearchStrategy[t.SourceFile] = st.lists(
    declarations.map(lambda declaration: t.DeclChunk("", declaration)), max_size=4
).map(lambda chunks: t.SourceFile(tuple(chunks)))
