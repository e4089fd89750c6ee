"""What the parser does when it has read a production: one function per alias of `presk.lark`.

An action gets the chunk's tokens, the place of the production, and one value per symbol: for a token its number, for
anything else what its action returned. Lists are Python lists until a node takes them as a tuple.
"""

from collections.abc import Callable
from types import MappingProxyType
from typing import Any, Final

from presk.diagnostics.value import Diagnostic, Label, Place
from presk.syntax import tree
from presk.syntax.lexer import split_quantity
from presk.syntax.tokens import Token
from presk.syntax.tree import At

Tokens = tuple[Token, ...]
Values = list[Any]
Action = Callable[[Tokens, At, Values], Any]


class Refused(Exception):
    """A production that the grammar admits and the language does not; caught by the parser, never seen outside."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


def _refuse(at: At, message: str, mend: str | None = None) -> Refused:
    return Refused(Diagnostic("E0001", message, Label(Place(*at)), mend=mend))


# --- lists and parts --------------------------------------------------------------------------------------------------


def none(tokens: Tokens, at: At, v: Values) -> list[Any]:
    return []


def nothing(tokens: Tokens, at: At, v: Values) -> None:
    return None


def one(tokens: Tokens, at: At, v: Values) -> list[Any]:
    return [v[0]]


def more(tokens: Tokens, at: At, v: Values) -> Any:
    v[0].append(v[2])
    return v[0]


def concat(tokens: Tokens, at: At, v: Values) -> Any:
    return v[0] + v[2]


def second(tokens: Tokens, at: At, v: Values) -> Any:
    return v[1]


def _name_at(tokens: Tokens, i: int) -> tree.Name:
    return tree.Name((i, i), tokens[i].text)


def one_name(tokens: Tokens, at: At, v: Values) -> list[tree.Name]:
    return [_name_at(tokens, v[0])]


def more_names(tokens: Tokens, at: At, v: Values) -> Any:
    v[0].append(_name_at(tokens, v[1]))
    return v[0]


def names(tokens: Tokens, at: At, v: Values) -> Any:
    v[0].append(_name_at(tokens, v[2]))
    return v[0]


# --- declarations -----------------------------------------------------------------------------------------------------


def import_(tokens: Tokens, at: At, v: Values) -> tree.Import:
    return tree.Import(at, tokens[v[1]].text, v[1], tokens[v[3]].text, v[3])


def const(tokens: Tokens, at: At, v: Values) -> tree.Const:
    return tree.Const(at, tokens[v[1]].text, v[1], None, v[3])


def const_typed(tokens: Tokens, at: At, v: Values) -> tree.Const:
    return tree.Const(at, tokens[v[1]].text, v[1], v[3], v[5])


def static_assert(tokens: Tokens, at: At, v: Values) -> tree.StaticAssert:
    return tree.StaticAssert(at, v[2])


def dim(tokens: Tokens, at: At, v: Values) -> tree.DimDecl:
    return tree.DimDecl(at, tokens[v[1]].text, v[1], None)


def dim_bounded(tokens: Tokens, at: At, v: Values) -> tree.DimDecl:
    return tree.DimDecl(at, tokens[v[1]].text, v[1], v[3])


def type_alias(tokens: Tokens, at: At, v: Values) -> tree.TypeAlias:
    return tree.TypeAlias(at, tokens[v[1]].text, v[1], v[3])


def effect(tokens: Tokens, at: At, v: Values) -> tree.Effect:
    return tree.Effect(at, tokens[v[1]].text, v[1])


def model(tokens: Tokens, at: At, v: Values) -> tree.Model:
    return tree.Model(at, tokens[v[1]].text, v[1], v[3])


def module(tokens: Tokens, at: At, v: Values) -> tree.Module:
    return tree.Module(at, tokens[v[1]].text, v[1], (), ())


def module_generic(tokens: Tokens, at: At, v: Values) -> tree.Module:
    return tree.Module(at, tokens[v[1]].text, v[1], tuple(v[3]), ())


def block(tokens: Tokens, at: At, v: Values) -> tree.Block:
    kind, name = tokens[v[0]].text, tokens[v[1]].text
    wanted = {"training": "run", "inference": "serve"}.get(kind, name)
    if name != wanted:
        raise _refuse(
            (v[1], v[1]), f"expected `{wanted}` behind `{kind}`, found `{name}`", f"`{kind} {wanted} {{ … }}`"
        )
    return tree.Block(at, kind, name, v[1], ())


def param(tokens: Tokens, at: At, v: Values) -> tree.ParamMember:
    return tree.ParamMember(at, tuple(v[1]), v[3], None)


def param_init(tokens: Tokens, at: At, v: Values) -> tree.ParamMember:
    return tree.ParamMember(at, tuple(v[1]), v[3], v[6])


def use(tokens: Tokens, at: At, v: Values) -> tree.UseMember:
    return tree.UseMember(at, tuple(v[1]), v[3])


def item(tokens: Tokens, at: At, v: Values) -> tree.Item:
    return tree.Item(at, tokens[v[0]].text, v[0], None, v[2])


def item_typed(tokens: Tokens, at: At, v: Values) -> tree.Item:
    return tree.Item(at, tokens[v[0]].text, v[0], v[2], v[4])


def checkpoint(tokens: Tokens, at: At, v: Values) -> tree.Checkpoint:
    return tree.Checkpoint(at, v[2], tokens[v[3]].text, v[3], tokens[v[5]].text, v[5])


def fn(tokens: Tokens, at: At, v: Values) -> tree.Fn:
    return tree.Fn(at, tokens[v[1]].text, v[1], tuple(v[2]), tuple(v[4]), v[6], tuple(v[7]), v[9])


def type_group(tokens: Tokens, at: At, v: Values) -> list[tree.TypeParam]:
    kind = tokens[v[2]].text
    if kind not in ("dim", "Shape"):
        raise _refuse((v[2], v[2]), f"expected the kind `dim` or `Shape` of a type parameter, found `{kind}`")
    return [tree.TypeParam(name.at, name.name, kind) for name in v[0]]


def parameter(tokens: Tokens, at: At, v: Values) -> tree.Parameter:
    return tree.Parameter(at, tokens[v[0]].text, v[0], False, v[1], v[2])


def parameter_axis(tokens: Tokens, at: At, v: Values) -> tree.Parameter:
    return tree.Parameter(at, tokens[v[1]].text, v[1], True, v[2], v[3])


def let_line(tokens: Tokens, at: At, v: Values) -> None:
    return None


# --- types ------------------------------------------------------------------------------------------------------------


def real_scalar(tokens: Tokens, at: At, v: Values) -> tree.RealType:
    return tree.RealType(at, ())


def real(tokens: Tokens, at: At, v: Values) -> tree.RealType:
    return tree.RealType(at, tuple(v[2]))


def index(tokens: Tokens, at: At, v: Values) -> tree.IndexType:
    return tree.IndexType(at, v[2], ())


def index_axes(tokens: Tokens, at: At, v: Values) -> tree.IndexType:
    return tree.IndexType(at, v[2], tuple(v[5]))


def mask(tokens: Tokens, at: At, v: Values) -> tree.MaskType:
    if v[0] != ["bool"]:
        written = ".".join(v[0])
        raise _refuse(at, f"only `ℝ`, `idx` and `bool` take a list of axes, `{written}` does not", f"`{written}`")
    return tree.MaskType(at, tuple(v[2]))


def path(tokens: Tokens, at: At, v: Values) -> list[str]:
    return [tokens[v[0]].text]


def path_more(tokens: Tokens, at: At, v: Values) -> Any:
    v[0].append(tokens[v[2]].text)
    return v[0]


def named_type(tokens: Tokens, at: At, v: Values) -> tree.NamedType:
    return tree.NamedType(at, tuple(v[0]), None)


def named_type_dims(tokens: Tokens, at: At, v: Values) -> tree.NamedType:
    return tree.NamedType(at, tuple(v[0]), tuple(v[2]))


def param_type(tokens: Tokens, at: At, v: Values) -> tree.ParamType:
    return tree.ParamType(at, v[1])


def params_type(tokens: Tokens, at: At, v: Values) -> tree.ParamsType:
    return tree.ParamsType(at, tree.NamedType((at[0] + 1, at[1]), tuple(v[1]), None))


def params_type_dims(tokens: Tokens, at: At, v: Values) -> tree.ParamsType:
    return tree.ParamsType(at, tree.NamedType((at[0] + 1, at[1]), tuple(v[1]), tuple(v[3])))


def tuple_type_empty(tokens: Tokens, at: At, v: Values) -> tree.TupleType:
    return tree.TupleType(at, ())


def tuple_type(tokens: Tokens, at: At, v: Values) -> tree.TupleType:
    return tree.TupleType(at, (v[1], *v[3]))


def axis(tokens: Tokens, at: At, v: Values) -> tree.Axis:
    return tree.Axis(at, None, v[0])


def axis_named(tokens: Tokens, at: At, v: Values) -> tree.Axis:
    return tree.Axis(at, tokens[v[0]].text, v[2])


def ellipsis(tokens: Tokens, at: At, v: Values) -> tree.Ellipsis:
    return tree.Ellipsis(at)


# --- expressions ------------------------------------------------------------------------------------------------------


def let(tokens: Tokens, at: At, v: Values) -> tree.Let:
    return tree.Let(at, v[1], v[3], v[5])


def lambda_(tokens: Tokens, at: At, v: Values) -> tree.Lambda:
    return tree.Lambda(at, v[1], v[3])


def binary(tokens: Tokens, at: At, v: Values) -> tree.Binary:
    return tree.Binary(at, tokens[v[1]].text, v[1], v[0], v[2])


def negate(tokens: Tokens, at: At, v: Values) -> tree.Negate:
    return tree.Negate(at, v[1])


def call(tokens: Tokens, at: At, v: Values) -> tree.Call:
    return tree.Call(at, v[0], tuple(v[2]))


def index_of(tokens: Tokens, at: At, v: Values) -> tree.Index:
    return tree.Index(at, v[0], tuple(v[2]))


def dim_args(tokens: Tokens, at: At, v: Values) -> tree.DimArgs:
    base = v[0]
    while type(base) is tree.Field:
        base = base.base
    if type(base) is not tree.Name:
        raise _refuse(v[0].at, "dimension arguments in braces stand behind a name only")
    return tree.DimArgs(at, v[0], tuple(v[2]))


def field(tokens: Tokens, at: At, v: Values) -> tree.Field:
    return tree.Field(at, v[0], tokens[v[2]].text, v[2])


def name(tokens: Tokens, at: At, v: Values) -> tree.Name:
    return tree.Name(at, tokens[v[0]].text)


def nat(tokens: Tokens, at: At, v: Values) -> tree.Nat:
    return tree.Nat(at, tokens[v[0]].text)


def decimal(tokens: Tokens, at: At, v: Values) -> tree.Decimal:
    return tree.Decimal(at, tokens[v[0]].text)


def quantity(tokens: Tokens, at: At, v: Values) -> tree.Quantity:
    return tree.Quantity(at, *split_quantity(tokens[v[0]].text))


def string(tokens: Tokens, at: At, v: Values) -> tree.Text:
    return tree.Text(at, tokens[v[0]].text)


def stream(tokens: Tokens, at: At, v: Values) -> tree.Call:
    path_at = (v[1], v[1])
    argument = tree.Positional(path_at, tree.Text(path_at, tokens[v[1]].text))
    return tree.Call(at, _name_at(tokens, v[0]), (argument,))


def ein(tokens: Tokens, at: At, v: Values) -> tree.Ein:
    return tree.Ein(at, tuple(v[2]), v[5])


def unit(tokens: Tokens, at: At, v: Values) -> tree.TupleExpr:
    return tree.TupleExpr(at, ())


def ascribe(tokens: Tokens, at: At, v: Values) -> tree.Ascribe:
    return tree.Ascribe(at, v[1], v[3])


def tuple_(tokens: Tokens, at: At, v: Values) -> tree.TupleExpr:
    return tree.TupleExpr(at, (v[1], *v[3]))


def positional(tokens: Tokens, at: At, v: Values) -> tree.Positional:
    return tree.Positional(at, v[0])


def positional_ascribed(tokens: Tokens, at: At, v: Values) -> tree.Positional:
    return tree.Positional(at, tree.Ascribe(at, v[0], v[2]))


def named(tokens: Tokens, at: At, v: Values) -> tree.Named:
    return tree.Named(at, tokens[v[0]].text, v[2])


def named_axis(tokens: Tokens, at: At, v: Values) -> tree.NamedAxis:
    return tree.NamedAxis(at, tokens[v[0]].text, v[2])


def axis_argument(tokens: Tokens, at: At, v: Values) -> tree.AxisArg:
    return tree.AxisArg(at, tokens[v[1]].text)


def selector(tokens: Tokens, at: At, v: Values) -> tree.Selector:
    return tree.Selector(at, None, v[0])


def selector_named(tokens: Tokens, at: At, v: Values) -> tree.Selector:
    return tree.Selector(at, tokens[v[0]].text, v[2])


def slice_(tokens: Tokens, at: At, v: Values) -> tree.Slice:
    return tree.Slice(at, v[0], v[2])


def axis_name(tokens: Tokens, at: At, v: Values) -> tree.AxisName:
    return tree.AxisName(at, tokens[v[0]].text)


def pattern_name(tokens: Tokens, at: At, v: Values) -> tree.Pattern:
    return tree.Pattern(at, (tree.Binder(at, tokens[v[0]].text),), False)


def pattern_empty(tokens: Tokens, at: At, v: Values) -> tree.Pattern:
    return tree.Pattern(at, (), True)


def pattern_one(tokens: Tokens, at: At, v: Values) -> tree.Pattern:
    return tree.Pattern(at, (v[1],), False)


def pattern_tuple(tokens: Tokens, at: At, v: Values) -> tree.Pattern:
    return tree.Pattern(at, (v[1], *v[3]), True)


def binder(tokens: Tokens, at: At, v: Values) -> tree.Binder:
    return tree.Binder(at, tokens[v[0]].text)


def binder_typed(tokens: Tokens, at: At, v: Values) -> tree.Binder:
    return tree.Binder(at, tokens[v[0]].text, v[2])


# Actions that put a node around the nodes they are given: what nesting is counted by.
_NESTING: Final = (
    let, lambda_, binary, negate, call, index_of, dim_args, field, ein, ascribe, tuple_, positional_ascribed,
    param_type, tuple_type, real, index, index_axes, mask, named_type_dims, params_type_dims,
)  # fmt: skip
_PLAIN: Final = (
    none, nothing, one, more, concat, second, one_name, more_names, names, import_, const, const_typed, static_assert,
    dim, dim_bounded, type_alias, effect, model, module, module_generic, block, param, param_init, use, item, item_typed,
    checkpoint, fn, type_group, parameter, parameter_axis, let_line, real_scalar, path, path_more, named_type,
    params_type, tuple_type_empty, axis, axis_named, ellipsis, name, nat, decimal, quantity, string, stream, unit,
    positional, named, named_axis, axis_argument, selector, selector_named, slice_, axis_name, pattern_name,
    pattern_empty, pattern_one, pattern_tuple, binder, binder_typed,
)  # fmt: skip


def _table() -> dict[str, tuple[Action, int]]:
    """Alias in the grammar -> function, and the levels of nesting it adds."""
    table: dict[str, tuple[Action, int]] = {f.__name__: (f, 1) for f in _NESTING}
    table.update({f.__name__: (f, 0) for f in _PLAIN})
    table["slice"] = table.pop("slice_")
    return table


ACTIONS: Final = MappingProxyType(_table())
