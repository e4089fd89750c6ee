"""Hypothesis strategies for syntax trees: every class of `presk.syntax.tree`, with every field that a program can have.

Places are `NOWHERE`. What no program denotes is not drawn: tuples of one item, empty dimension arguments, a name that is no
name. `declarations`, `members` and `items` are what chunks hold.

Each strategy draws small trees choice by choice, which shrink well, and larger ones that a `Grower` makes from a number and
a size, which are drawn fast and hold every form in many surroundings.
"""

import random
import string
from collections.abc import Callable, Sequence
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


OPERATORS = ("|>", "|", "⊗", "∘", "==", "<=", ">=", "<", ">", "+", "-", "*", "/", "%", "·", "^")


class Grower:
    """Grows trees of about a given number of nodes from a source of random numbers; every form is as likely as any other."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def pick(self, values: Sequence[Any]) -> Any:
        return self.random.choice(values)

    def maybe(self, value: Callable[[], Any]) -> Any:
        return value() if self.random.random() < 0.5 else None

    def several(self, grow: Callable[[int], Any], size: int, *, least: int = 0, single: bool = True) -> tuple[Any, ...]:
        """Some trees that share a size."""
        counts = [n for n in range(least, 4) if single or n != 1]
        count = self.pick(counts)
        return tuple(grow(size // count) for _ in range(count))

    def name(self) -> str:
        return str(self.pick(_PLAIN if self.random.random() < 0.7 else CONTEXTUAL))

    def name_node(self, _: int = 0) -> t.Name:
        return t.Name(NOWHERE, self.name())

    def nat(self) -> str:
        return str(self.random.randrange(10 ** self.pick((1, 3, 30))))

    def decimal(self) -> str:
        return str(
            self.pick((f"{self.nat()}.{self.nat()}", f"{self.nat()}e-{self.nat()}", f"{self.nat()}.5E+{self.nat()}"))
        )

    def text(self) -> str:
        return "".join(self.pick('aθ -"\\\n\tℝ𝔸}{()') for _ in range(self.random.randrange(6)))

    def leaf(self) -> t.Expr:
        match self.random.randrange(8):
            case 0:
                return t.Nat(NOWHERE, self.nat())
            case 1:
                return t.Decimal(NOWHERE, self.decimal())
            case 2:
                return t.Quantity(NOWHERE, self.pick((self.nat, self.decimal))(), self.pick(sorted(UNITS)))
            case 3:
                return t.Text(NOWHERE, self.text())
            case 4:
                return t.TupleExpr(NOWHERE, ())
            case 5:
                path = t.Positional(NOWHERE, t.Text(NOWHERE, self.text()))
                return t.Call(NOWHERE, t.Name(NOWHERE, "stream"), (path,))
            case _:
                return self.name_node()

    def expression(self, size: int) -> t.Expr:
        if size <= 1:
            return self.leaf()
        half = size // 2
        match self.random.randrange(12):
            case 0:
                return t.Negate(NOWHERE, self.expression(size - 1))
            case 1 | 2:
                return t.Binary(NOWHERE, self.pick(OPERATORS), 0, self.expression(half), self.expression(half))
            case 3:
                return t.Call(NOWHERE, self.expression(half), self.several(self.argument, half))
            case 4:
                return t.Index(NOWHERE, self.expression(half), self.several(self.selector, half, least=1))
            case 5:
                base: t.Expr = self.name_node()
                for _ in range(self.random.randrange(3)):
                    base = t.Field(NOWHERE, base, self.name(), 0)
                return t.DimArgs(NOWHERE, base, self.several(self.expression, size - 1, least=1))
            case 6:
                return t.Field(NOWHERE, self.expression(size - 1), self.name(), 0)
            case 7:
                return t.Let(NOWHERE, self.pattern(size // 4), self.expression(half), self.expression(half))
            case 8:
                return t.Lambda(NOWHERE, self.pattern(size // 4), self.expression(size - 1))
            case 9:
                axes = self.several(lambda _: t.AxisName(NOWHERE, self.name()), 0)
                return t.Ein(NOWHERE, axes, self.expression(size - 1))
            case 10:
                return t.Ascribe(NOWHERE, self.expression(half), self.type(half))
            case _:
                return t.TupleExpr(NOWHERE, self.several(self.expression, size - 1, least=2))

    def argument(self, size: int) -> t.Argument:
        match self.random.randrange(4):
            case 0:
                return t.Positional(NOWHERE, self.expression(size))
            case 1:
                return t.Named(NOWHERE, self.name(), self.expression(size))
            case 2:
                return t.AxisArg(NOWHERE, self.name())
            case _:
                return t.NamedAxis(NOWHERE, self.name(), self.expression(size))

    def selector(self, size: int) -> t.Selector:
        value: t.Expr | t.Slice = self.expression(size)
        if self.random.random() < 0.5:
            value = t.Slice(NOWHERE, self.expression(size // 2), self.expression(size // 2))
        return t.Selector(NOWHERE, self.maybe(self.name), value)

    def pattern(self, size: int) -> t.Pattern:
        def binder(size: int) -> t.Binder:
            return t.Binder(NOWHERE, self.name(), self.maybe(lambda: self.type(size)))

        if self.random.random() < 0.5:
            return t.Pattern(NOWHERE, (binder(size),), False)
        return t.Pattern(NOWHERE, self.several(binder, size, single=False), True)

    def named_type(self, size: int) -> t.NamedType:
        path = tuple(self.name() for _ in range(self.random.randrange(1, 4)))
        return t.NamedType(NOWHERE, path, self.maybe(lambda: self.several(self.expression, size, least=1)))

    def axis(self, size: int) -> t.AxisItem:
        if self.random.random() < 0.2:
            return t.Ellipsis(NOWHERE)
        return t.Axis(NOWHERE, self.maybe(self.name), self.expression(size))

    def type(self, size: int) -> t.TypeExpr:
        inner = max(size - 1, 0)
        match self.random.randrange(8 if size > 1 else 5):
            case 0:
                return t.RealType(NOWHERE, self.several(self.axis, inner))
            case 1:
                return t.IndexType(NOWHERE, self.expression(inner // 2), self.several(self.axis, inner // 2))
            case 2:
                return t.MaskType(NOWHERE, self.several(self.axis, inner))
            case 3:
                return t.ParamsType(NOWHERE, self.named_type(inner))
            case 4 | 5:
                return self.named_type(inner)
            case 6:
                return t.ParamType(NOWHERE, self.type(inner))
            case _:
                return t.TupleType(NOWHERE, self.several(self.type, inner, single=False))

    def type_params(self) -> tuple[t.TypeParam, ...]:
        return self.several(lambda _: t.TypeParam(NOWHERE, self.name(), self.pick(("dim", "Shape"))), 0)

    def function(self, size: int) -> t.Fn:
        part = size // 4

        def parameter(size: int) -> t.Parameter:
            return t.Parameter(
                NOWHERE,
                self.name(),
                0,
                self.pick((True, False)),
                self.maybe(lambda: self.type(size)),
                self.maybe(lambda: self.expression(size)),
            )

        return t.Fn(
            NOWHERE,
            self.name(),
            0,
            self.type_params(),
            self.several(parameter, part),
            self.maybe(lambda: self.type(part)),
            self.several(self.name_node, 0),
            self.expression(size - 2 * part),
        )

    def member(self, size: int) -> t.Member:
        match self.random.randrange(3):
            case 0:
                init = self.maybe(lambda: self.expression(size // 2))
                return t.ParamMember(NOWHERE, self.several(self.name_node, 0, least=1), self.type(size // 2), init)
            case 1:
                return t.UseMember(NOWHERE, self.several(self.name_node, 0, least=1), self.expression(size))
            case _:
                return self.function(size)

    def item(self, size: int) -> t.ConfigItem:
        if self.random.random() < 0.2:
            return t.Checkpoint(NOWHERE, self.expression(size), self.name(), 0, self.text(), 0)
        name = self.name() if self.random.random() < 0.6 else self.pick(sorted(RESERVED))
        return t.Item(NOWHERE, name, 0, self.maybe(lambda: self.type(size // 2)), self.expression(size // 2))

    def declaration(self, size: int) -> t.Declaration:
        match self.random.randrange(11):
            case 0:
                return t.Import(NOWHERE, self.text(), 0, self.name(), 0)
            case 1:
                return t.Const(NOWHERE, self.name(), 0, self.maybe(lambda: self.type(size // 2)), self.expression(size))
            case 2:
                return t.StaticAssert(NOWHERE, self.expression(size))
            case 3:
                return t.DimDecl(NOWHERE, self.name(), 0, self.maybe(lambda: self.expression(size)))
            case 4:
                return t.TypeAlias(NOWHERE, self.name(), 0, self.type(size))
            case 5:
                return t.Effect(NOWHERE, self.name(), 0)
            case 6:
                return t.Model(NOWHERE, self.name(), 0, self.expression(size))
            case 7 | 8:
                members = self.several(lambda part: t.MemberChunk("", self.member(part)), size)
                return t.Module(NOWHERE, self.name(), 0, self.type_params(), members)
            case 9:
                items = self.several(lambda part: t.ItemChunk("", self.item(part)), size)
                kind, name = self.pick((("optimizer", self.name()), ("training", "run"), ("inference", "serve")))
                return t.Block(NOWHERE, kind, name, 0, items)
            case _:
                return self.function(size)


def _grown(method: Callable[[Grower, int], Any]) -> SearchStrategy[Any]:
    """What a method of a grower makes, for all numbers and sizes up to 60."""
    return st.builds(lambda seed, size: method(Grower(seed), size), st.integers(0, 2**32 - 1), st.integers(1, 60))


expressions: SearchStrategy[t.Expr] = st.deferred(lambda: st.one_of(_expressions, _grown(Grower.expression)))
types: SearchStrategy[t.TypeExpr] = st.deferred(lambda: st.one_of(_types, _grown(Grower.type)))

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
_leaves = st.one_of(
    name_nodes,
    _node(t.Nat, nats),
    _node(t.Decimal, decimals),
    _node(t.Quantity, st.one_of(nats, decimals), st.sampled_from(sorted(UNITS))),
    _node(t.Text, texts),
    _node(t.TupleExpr, st.just(())),
    _node(lambda at, text: t.Call(at, t.Name(at, "stream"), (t.Positional(at, t.Text(at, text)),)), texts),
)
_expressions: SearchStrategy[t.Expr] = st.one_of(
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
_types: SearchStrategy[t.TypeExpr] = st.one_of(
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
    _grown(Grower.member),
    functions,
    _node(t.ParamMember, _tuples(name_nodes, least=1), types, st.one_of(st.none(), expressions)),
    _node(t.UseMember, _tuples(name_nodes, least=1), expressions),
)
items: SearchStrategy[t.ConfigItem] = st.one_of(
    _grown(Grower.item),
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
declarations: SearchStrategy[t.Declaration] = st.one_of(_grown(Grower.declaration), plain_declarations, modules, blocks)
# Files whose chunks have empty keys: keys are given by position and are tested apart.
files: SearchStrategy[t.SourceFile] = st.lists(
    declarations.map(lambda declaration: t.DeclChunk("", declaration)), max_size=4
).map(lambda chunks: t.SourceFile(tuple(chunks)))
