"""What `presk dump --stage tokens` and `--stage ast` print: text for people, JSON for programs.

Both walk with a stack, since a tree may be nested deeper than Python's own recursion goes.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from presk.diagnostics.sources import Position
from presk.syntax.printer import spell
from presk.syntax.tokens import NEWLINE, Chunk, Tokens, TokenTable
from presk.syntax.tree import Block, DeclChunk, ItemChunk, MemberChunk, Module, Node, SourceFile

_STEP: Final = "  "


def tokens_text(tokens: Tokens) -> str:
    """One line per token: where it is, its kind and its canonical spelling (once where they are the same)."""
    lines: list[str] = []
    for chunk in tokens.file.chunks():
        lines.append(f"{chunk.key} ({chunk.kind})")
        for position, token in zip(_positions(tokens.table, chunk), chunk.tokens, strict=True):
            place = f"{position.line}:{position.column}"
            text = "" if token.kind == NEWLINE else spell(token)
            what = token.kind if text in (token.kind, "") else f"{token.kind} {text}"
            lines.append(f"{_STEP}{place:<8}{what}")
    return "".join(line + "\n" for line in lines)


def tokens_json(tokens: Tokens) -> str:
    """A list of chunks: `{"key", "kind", "tokens": [{"kind", "text", "span"}]}`; spans as in diagnostics."""
    chunks: list[dict[str, object]] = []
    for chunk in tokens.file.chunks():
        places = tokens.table.places(chunk.key)
        assert places is not None
        listed: list[dict[str, object]] = [
            {
                "kind": token.kind,
                "text": token.text,
                "span": {
                    "start": _position(tokens.table.position(start)),
                    "end": _position(tokens.table.position(end)),
                },
            }
            for token, start, end in zip(chunk.tokens, places.starts, places.ends, strict=True)
        ]
        chunks.append({"key": chunk.key, "kind": chunk.kind, "tokens": listed})
    return msgspec.json.encode(chunks).decode()


def _positions(table: TokenTable, chunk: Chunk) -> Iterator[Position]:
    places = table.places(chunk.key)
    assert places is not None
    return (table.position(start) for start in places.starts)


def _position(position: Position) -> dict[str, int]:
    return {"line": position.line, "column": position.column, "offset": position.offset}


_Chunk = DeclChunk | MemberChunk | ItemChunk


def _content(chunk: _Chunk) -> Node:
    match chunk:
        case DeclChunk():
            return chunk.declaration
        case MemberChunk():
            return chunk.member
        case ItemChunk():
            return chunk.item


def ast_text(file: SourceFile) -> str:
    """The tree, one node per line, indented: its form and its own words, then its parts by the field they stand in."""
    lines: list[str] = []
    waiting: list[tuple[int, str, Node]] = []
    for declaration in file.declarations:
        chunks: list[tuple[int, _Chunk]] = [(0, declaration)]
        if isinstance(declaration.declaration, Module):
            chunks += [(1, member) for member in declaration.declaration.members]
        elif isinstance(declaration.declaration, Block):
            chunks += [(1, item) for item in declaration.declaration.items]
        for depth, chunk in chunks:
            lines.append(_STEP * depth + chunk.key)
            waiting.append((depth + 1, "", _content(chunk)))
            while waiting:
                indent, label, node = waiting.pop()
                words, parts = _fields(node)
                lines.append(_STEP * indent + " ".join([label + type(node).__name__, *words]))
                waiting.extend((indent + 1, f"{name}: ", part) for name, part in reversed(parts))
    return "".join(line + "\n" for line in lines)


def _fields(node: Node) -> tuple[list[str], list[tuple[str, Node]]]:
    """A node's own words, and the nodes in it, by field. Places are left out, and so are chunks, which are listed apart."""
    words: list[str] = []
    parts: list[tuple[str, Node]] = []
    for name in node.__struct_fields__:
        value = getattr(node, name)
        if name == "at" or name.endswith("_at") or value is None or value is False:
            continue
        if isinstance(value, Node):
            parts.append((name, value))
        elif value is True:
            words.append(name)
        elif isinstance(value, str):
            words.append(msgspec.json.encode(value).decode() if name in _QUOTED else value)
        else:
            for part in value:
                if isinstance(part, Node):
                    parts.append((name, part))
                elif isinstance(part, str):
                    words.append(part)
    return words, parts


# Fields that hold a string of the program and not a word of it.
_QUOTED: Final = frozenset(("value", "path"))


def ast_json(file: SourceFile) -> str:
    """The tree: a list of `{"key", "node"}`; a node is `{"form", "span", "spans", …}` with its fields.

    `span` is the first and the last token of the node, counted in its chunk; `spans` are the single tokens that the node
    knows the place of, by field. Without these two the text depends on no layout.
    """
    pieces: list[str] = []
    waiting: list[object] = [file.declarations]
    while waiting:
        match waiting.pop():
            case _Raw() as raw:
                pieces.append(raw.text)
            case DeclChunk() | MemberChunk() | ItemChunk() as chunk:
                key = msgspec.json.encode(chunk.key).decode()
                waiting += [_Raw("}"), _content(chunk), _Raw(f'{{"key":{key},"node":')]
            case Node() as node:
                waiting.append(_Raw("}"))
                for name in reversed(node.__struct_fields__):
                    if name != "at" and not name.endswith("_at"):
                        waiting += [getattr(node, name), _Raw(f',"{name}":')]
                waiting.append(_Raw(_head(node)))
            case tuple() as values:
                waiting.append(_Raw("]"))
                for i in range(len(values) - 1, -1, -1):
                    waiting.append(values[i])
                    if i:
                        waiting.append(_Raw(","))
                waiting.append(_Raw("["))
            case value:
                pieces.append(msgspec.json.encode(value).decode())
    return "".join(pieces)


def _head(node: Node) -> str:
    """The form and the places of a node, as the beginning of its JSON object."""
    single = {name.removesuffix("_at"): getattr(node, name) for name in node.__struct_fields__ if name.endswith("_at")}
    spans = f',"spans":{msgspec.json.encode(single).decode()}' if single else ""
    return f'{{"form":"{type(node).__name__}","span":[{node.at[0]},{node.at[1]}]{spans}'


class _Raw:
    """JSON text that is ready, among the values that wait to become it."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text
