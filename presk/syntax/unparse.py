"""From a tree back to tokens: the inverse of parsing, with the fewest parentheses.

`unparse(node)` gives the tokens that parse to an equal tree (but for places). Trees may be nested to the limit of the language, so
nothing here recurses: nodes wait on a stack until their turn, between the tokens that surround them.
"""

from collections.abc import Iterable, Sequence
from types import MappingProxyType
from typing import Final, assert_never

from presk.syntax.parse import TYPE_NAMES
from presk.syntax.tokens import DECIMAL, NAME, NAT, NEWLINE, QUANTITY, RESERVED, STRING, Token
from presk.syntax.tree import (
    Argument,
    Ascribe,
    Axis,
    AxisArg,
    AxisItem,
    AxisName,
    Binary,
    Binder,
    Block,
    Call,
    Checkpoint,
    Const,
    Decimal,
    DimArgs,
    DimDecl,
    Effect,
    Ein,
    Ellipsis,
    Expr,
    Field,
    Fn,
    Import,
    Index,
    IndexType,
    Item,
    Lambda,
    Let,
    MaskType,
    Model,
    Module,
    Name,
    Named,
    NamedAxis,
    NamedType,
    Nat,
    Negate,
    Node,
    Parameter,
    ParamMember,
    ParamsType,
    ParamType,
    Pattern,
    Positional,
    Quantity,
    RealType,
    Selector,
    Slice,
    StaticAssert,
    Text,
    TupleExpr,
    TupleType,
    TypeAlias,
    TypeExpr,
    TypeParam,
    UseMember,
)

# Precedence levels, the chapter's numbers; 0 is an expression that extends as far as it can, 10 an atom.
LEVELS: Final = MappingProxyType(
    {"|>": 1, "|": 2, "⊗": 3, "∘": 3, "==": 4, "<=": 4, ">=": 4, "<": 4, ">": 4, "+": 5, "-": 5, "*": 6, "/": 6, "%": 6,
     "·": 6, "^": 8}
)  # fmt: skip
UNARY: Final = 7
POSTFIX: Final = 9
ATOM: Final = 10

# What is still to be written: a token, or a node with the level it must have to stand without parentheses.
_Part = Token | tuple[Node, int]


def symbol(text: str) -> Token:
    """The token of a reserved word or symbol."""
    return Token(text, text)


def _word(text: str) -> Token:
    """A field's name, which may be a reserved word."""
    return Token(text if text in RESERVED else NAME, text)


_COMMA: Final = symbol(",")
_BREAK: Final = Token(NEWLINE, "")


def level(expression: Node) -> int:
    """How tightly an expression binds."""
    match expression:
        case Let() | Lambda():
            return 0
        case Binary():
            return LEVELS[expression.operator]
        case Negate():
            return UNARY
        case Call():
            return ATOM if _is_stream(expression) else POSTFIX
        case Index() | DimArgs() | Field():
            return POSTFIX
        case _:
            return ATOM


def _is_stream(call: Call) -> bool:
    """Whether a call is written `stream "path"`."""
    return (
        isinstance(call.callee, Name)
        and call.callee.name == "stream"
        and len(call.arguments) == 1
        and isinstance(call.arguments[0], Positional)
        and isinstance(call.arguments[0].value, Text)
    )


def unparse(node: Node) -> list[Token]:
    """The tokens of an expression, a type, a declaration, a member or an item. Of a module or block, its header."""
    result: list[Token] = []
    waiting: list[_Part] = [(node, 0)]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Token):
            result.append(part)
            continue
        inner, wanted = part
        if level(inner) < wanted:
            waiting.extend((symbol(")"), (inner, 0), symbol("(")))
        else:
            waiting.extend(reversed(_parts(inner)))
    return result


def _listed(nodes: Iterable[Node], wanted: int = 0) -> list[_Part]:
    """Nodes with commas between them."""
    parts: list[_Part] = []
    for node in nodes:
        if parts:
            parts.append(_COMMA)
        parts.append((node, wanted))
    return parts


def _enclosed(opening: str, nodes: Sequence[Node], closing: str) -> list[_Part]:
    return [symbol(opening), *_listed(nodes), symbol(closing)]


def _parts(node: Node) -> list[_Part]:
    """The tokens and the nodes of which a node's text consists."""
    match node:
        case Name():
            return [Token(NAME, node.name)]
        case Nat():
            return [Token(NAT, node.text)]
        case Decimal():
            return [Token(DECIMAL, node.text)]
        case Quantity():
            return [Token(QUANTITY, node.number + node.unit)]
        case Text():
            return [Token(STRING, node.value)]
        case Negate():
            return [symbol("-"), (node.operand, UNARY)]
        case Binary():
            own = LEVELS[node.operator]
            if node.operator == "^":
                return [(node.left, POSTFIX), symbol("^"), (node.right, UNARY)]
            return [(node.left, own), symbol(node.operator), (node.right, own + 1)]
        case Call():
            if _is_stream(node):
                return [Token(NAME, "stream"), (node.arguments[0], 0)]
            return [(node.callee, POSTFIX), *_enclosed("(", node.arguments, ")")]
        case Index():
            return [(node.base, POSTFIX), *_enclosed("[", node.selectors, "]")]
        case DimArgs():
            return [(node.base, POSTFIX), *_enclosed("{", node.arguments, "}")]
        case Field():
            return [(node.base, POSTFIX), symbol("."), Token(NAME, node.name)]
        case Let():
            # A binding inside a binding's value would take its lines, if it were not for the parentheses.
            wanted = 1 if isinstance(node.value, Let) else 0
            return [symbol("let"), (node.pattern, 0), symbol("="), (node.value, wanted), _BREAK, (node.body, 0)]
        case Lambda():
            return [symbol("λ"), (node.pattern, 0), symbol("."), (node.body, 0)]
        case Ein():
            return [symbol("ein"), *_enclosed("[", node.axes, "]"), symbol("("), (node.body, 0), symbol(")")]
        case Ascribe():
            return [symbol("("), (node.value, 1), symbol(":"), (node.type, 0), symbol(")")]
        case TupleExpr() | TupleType():
            return _enclosed("(", node.items, ")")
        case Positional() | Named() | NamedAxis() | AxisArg():
            return _argument(node)
        case Selector():
            return [*_axis_name(node.axis), (node.value, 0)]
        case Slice():
            return [(node.lo, 1), symbol(".."), (node.hi, 1)]
        case AxisName():
            return [Token(NAME, node.name)]
        case Pattern() | Binder():
            return _pattern(node)
        case RealType() | IndexType() | MaskType() | NamedType() | ParamType() | ParamsType() | Axis() | Ellipsis():
            return _type(node)
        case _:
            return _declaration(node)


def _axis_name(name: str | None) -> list[_Part]:
    return [] if name is None else [Token(NAME, name), symbol(":")]


def _argument(node: Argument) -> list[_Part]:
    match node:
        case Positional():
            value = node.value
            if isinstance(value, Ascribe) and _needs_no_parentheses(value):
                return [(value.value, 1), symbol(":"), (value.type, 0)]
            return [(value, 0)]
        case Named():
            return [Token(NAME, node.name), symbol("="), (node.value, 0)]
        case NamedAxis():
            # A type word behind the colon would make it an ascription.
            first = _leftmost(node.length)
            wanted = ATOM + 1 if isinstance(first, Name) and first.name in TYPE_NAMES else 0
            return [Token(NAME, node.name), symbol(":"), (node.length, wanted)]
        case AxisArg():
            return [symbol("axis"), Token(NAME, node.name)]
        case _:
            assert_never(node)


def _needs_no_parentheses(node: Ascribe) -> bool:
    """Whether `value : type` is an ascription as an argument: not if a name could be that of an axis."""
    if not isinstance(node.value, Name):
        return True
    match node.type:
        case NamedType():
            return node.type.path[0] in TYPE_NAMES
        case TupleType():
            return False
        case _:
            return True


def _leftmost(expression: Expr) -> Expr:
    """The part of an expression that its text begins with."""
    while True:
        match expression:
            case Binary():
                expression = expression.left
            case Call():
                expression = expression.callee
            case Index() | DimArgs() | Field():
                expression = expression.base
            case _:
                return expression


def _pattern(node: Pattern | Binder) -> list[_Part]:
    match node:
        case Binder():
            return [Token(NAME, node.name), *_typed(node.type)]
        case Pattern():
            if node.tuple or node.binders[0].type is not None:
                return _enclosed("(", node.binders, ")")
            return [(node.binders[0], 0)]
        case _:
            assert_never(node)


def _typed(type_: TypeExpr | None) -> list[_Part]:
    return [] if type_ is None else [symbol(":"), (type_, 0)]


def _type(
    node: RealType | IndexType | MaskType | NamedType | ParamType | ParamsType | AxisItem,
) -> list[_Part]:
    match node:
        case RealType():
            return [symbol("ℝ"), *_enclosed("[", node.axes, "]")]
        case IndexType():
            bound: list[_Part] = [symbol("idx"), symbol("["), (node.bound, 0), symbol("]")]
            return bound + (_enclosed("[", node.axes, "]") if node.axes else [])
        case MaskType():
            return [Token(NAME, "bool"), *_enclosed("[", node.axes, "]")]
        case NamedType():
            path: list[_Part] = []
            for name in node.path:
                if path:
                    path.append(symbol("."))
                path.append(Token(NAME, name))
            return path + (_enclosed("{", node.arguments, "}") if node.arguments is not None else [])
        case ParamType():
            return [symbol("param"), (node.type, 0)]
        case ParamsType():
            return [symbol("params"), (node.module, 0)]
        case Axis():
            return [*_axis_name(node.name), (node.length, 0)]
        case Ellipsis():
            return [symbol("...")]
        case _:
            assert_never(node)


def _declaration(node: Node) -> list[_Part]:
    match node:
        case Import():
            return [symbol("import"), Token(STRING, node.path), symbol("as"), Token(NAME, node.alias)]
        case Const():
            return [symbol("const"), Token(NAME, node.name), *_typed(node.type), symbol("="), (node.value, 0)]
        case StaticAssert():
            return [symbol("static"), symbol("assert"), (node.condition, 0)]
        case DimDecl():
            bound: list[_Part] = [] if node.bound is None else [symbol("<="), (node.bound, LEVELS["+"])]
            return [symbol("dim"), Token(NAME, node.name), *bound]
        case TypeAlias():
            return [symbol("type"), Token(NAME, node.name), symbol("="), (node.type, 0)]
        case Effect():
            return [symbol("effect"), Token(NAME, node.name)]
        case Model():
            return [Token(NAME, "model"), Token(NAME, node.name), symbol("="), (node.value, 0)]
        case Module():
            return [
                symbol("module"), Token(NAME, node.name), *_type_params(node.type_params), symbol("{"), symbol("}")
            ]  # fmt: skip
        case Block():
            return [symbol(node.kind), Token(NAME, node.name), symbol("{"), symbol("}")]
        case Fn():
            return _function(node)
        case ParamMember():
            init: list[_Part] = [] if node.init is None else [symbol("init"), symbol("="), (node.init, 0)]
            return [symbol("param"), *_listed(node.names), symbol(":"), (node.type, 0), *init]
        case UseMember():
            return [symbol("use"), *_listed(node.names), symbol(":"), (node.module, 0)]
        case Item():
            return [_word(node.name), *_typed(node.type), symbol("="), (node.value, 0)]
        case Checkpoint():
            return [
                Token(NAME, "checkpoint"), Token(NAME, "every"), (node.count, 1), Token(NAME, node.unit),
                Token(NAME, "to"), Token(STRING, node.path),
            ]  # fmt: skip
        case Parameter():
            default: list[_Part] = [] if node.default is None else [symbol("="), (node.default, 0)]
            axis: list[_Part] = [symbol("axis")] if node.axis else []
            return [*axis, Token(NAME, node.name), *_typed(node.type), *default]
        case _:
            raise AssertionError(f"a form without a text: {type(node).__name__}")


def _function(node: Fn) -> list[_Part]:
    parts: list[_Part] = [symbol("fn"), Token(NAME, node.name), *_type_params(node.type_params)]
    parts += _enclosed("(", node.params, ")")
    if node.result is not None:
        parts += [symbol("->"), (node.result, 0)]
    if node.uses:
        parts += [symbol("uses"), *_listed(node.uses)]
    if node.body is not None:
        parts += [symbol("="), (node.body, 0)]
    return parts


def _type_params(params: Sequence[TypeParam]) -> list[_Part]:
    """`{In Out : dim, S : Shape}`: neighbours of one kind are a group."""
    if not params:
        return []
    parts: list[_Part] = [symbol("{")]
    for i, param in enumerate(params):
        if i and params[i - 1].kind != param.kind:
            parts.append(_COMMA)
        parts.append(Token(NAME, param.name))
        if i + 1 == len(params) or params[i + 1].kind != param.kind:
            parts += [symbol(":"), Token(param.kind, param.kind) if param.kind == "dim" else Token(NAME, param.kind)]
    return [*parts, symbol("}")]
