"""The other files that a file speaks of, as a stage: what has to be read before the program can be elaborated."""

from typing import Final

import msgspec

from presk.cache.codec import struct_codec
from presk.cache.stage import Stage
from presk.elab.parsing import ParsedFile
from presk.syntax import tree


class ImportMention(msgspec.Struct, frozen=True, array_like=True):
    """An import as it is written, with the key of its chunk."""

    key: str
    node: tree.Import


class References(msgspec.Struct, frozen=True, array_like=True):
    """The imports of a file, in order, and the paths of the data that its training blocks name."""

    imports: tuple[ImportMention, ...]
    data: tuple[str, ...]


def data_path(block: tree.Block) -> str | None:
    """The path that a training block's `data` begins with, whatever else may be wrong with it."""
    for chunk in block.items:
        if isinstance(chunk.item, tree.Item) and chunk.item.name == "data":
            first = chunk.item.value
            while isinstance(first, tree.Binary) and first.operator == "|>":
                first = first.left
            match first:
                case tree.Call(
                    callee=tree.Name(name="stream"), arguments=(tree.Positional(value=tree.Text(value=path)),)
                ):
                    return path
    return None


def _references(parsed: ParsedFile) -> References:
    imports: list[ImportMention] = []
    data: list[str] = []
    for chunk in parsed.file.declarations:
        match chunk.declaration:
            case tree.Import() as node:
                imports.append(ImportMention(chunk.key, node))
            case tree.Block(kind="training") as block:
                path = data_path(block)
                if path is not None:
                    data.append(path)
            case _:
                pass
    return References(tuple(imports), tuple(data))


REFERENCES: Final = Stage("references", __name__, (), _references, struct_codec(References))
