"""Short ways to lex, cut and parse in tests, and to write down what came out."""

from presk.syntax import tree as t
from presk.syntax.api import Parsed, parse_file, tokenize
from presk.syntax.places import strip_places
from presk.syntax.printer import print_expr, print_type


def kinds(text: str) -> list[tuple[str, str]]:
    """The tokens of a text, chunk by chunk, as (kind, text); kind alone where the two are equal."""
    return [(token.kind, token.text) for chunk in tokenize(text.encode()).file.chunks() for token in chunk.tokens]


def texts(text: str) -> list[str]:
    """The canonical texts of a text's tokens; a line break that counts is `⏎`."""
    return ["⏎" if kind == "newline" else word for kind, word in kinds(text)]


def parsed(text: str) -> Parsed:
    """A file that must parse."""
    result = parse_file(text.encode())
    assert result.diagnostics == (), result.diagnostics
    return result


def declarations(text: str) -> list[t.Declaration]:
    return [strip_places(chunk.declaration) for chunk in parsed(text).file.declarations]


def declaration(text: str) -> t.Declaration:
    (only,) = declarations(text)
    return only


def expression(text: str) -> t.Expr:
    """The tree of an expression, without places."""
    node = declaration(f"const c = {text}\n")
    assert isinstance(node, t.Const)
    return node.value


def type_of(text: str) -> t.TypeExpr:
    node = declaration(f"type t = {text}\n")
    assert isinstance(node, t.TypeAlias)
    return node.type


def grouped(text: str) -> str:
    """An expression with parentheses around every operation: how it was grouped. Other forms are printed."""
    return _grouped(expression(text))


def _grouped(node: t.Expr) -> str:
    match node:
        case t.Binary():
            return f"({_grouped(node.left)} {node.operator} {_grouped(node.right)})"
        case t.Negate():
            return f"(-{_grouped(node.operand)})"
        case _:
            return print_expr(node)


def errors(text: str | bytes) -> list[str]:
    """The errors of a file as `CODE line:column message`."""
    result = parse_file(text if isinstance(text, bytes) else text.encode())
    found = []
    for diagnostic in result.diagnostics:
        start = result.table.span(diagnostic.primary.place).start
        found.append(f"{diagnostic.code} {start.line}:{start.column} {diagnostic.message}")
    return found


def codes(text: str | bytes) -> list[str]:
    """The errors of a file as `CODE line`."""
    return [f"{code} {place.split(':')[0]}" for code, place, *_ in (error.split(" ") for error in errors(text))]


def keys(text: str) -> list[str]:
    """The keys of a file's chunks."""
    return [chunk.key for chunk in tokenize(text.encode()).file.chunks()]


def type_text(text: str) -> str:
    return print_type(type_of(text))
