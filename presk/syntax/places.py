"""Trees without places: what two trees have in common when they are the same program."""

from typing import TypeVar

import msgspec

from presk.syntax.tree import NOWHERE, DeclChunk, ItemChunk, MemberChunk, Node, SourceFile

Tree = TypeVar("Tree", bound=Node | SourceFile | DeclChunk | MemberChunk | ItemChunk)


def strip_places(tree: Tree) -> Tree:
    """The tree with `at` everywhere `NOWHERE` and the numbers of single tokens 0. Nesting costs no recursion."""
    # Children before parents: a structure is done when all structures in its fields are.
    done: dict[int, object] = {}
    waiting: list[object] = [tree]
    while waiting:
        value = waiting[-1]
        if id(value) in done:
            waiting.pop()
            continue
        inner = [part for part in _parts(value) if id(part) not in done]
        if inner:
            waiting.extend(inner)
            continue
        done[id(value)] = _stripped(value, done)
        waiting.pop()
    result = done[id(tree)]
    assert isinstance(result, type(tree))
    return result


def _parts(value: object) -> list[object]:
    """The structures and tuples in a structure or tuple."""
    if isinstance(value, tuple):
        return [part for part in value if isinstance(part, msgspec.Struct | tuple)]
    assert isinstance(value, msgspec.Struct)
    fields = (getattr(value, name) for name in value.__struct_fields__ if name != "at")
    return [part for part in fields if isinstance(part, msgspec.Struct | tuple)]


def _stripped(value: object, done: dict[int, object]) -> object:
    if isinstance(value, tuple):
        return tuple(done.get(id(part), part) for part in value)
    assert isinstance(value, msgspec.Struct)
    changes: dict[str, object] = {}
    for name in value.__struct_fields__:
        part = getattr(value, name)
        if name == "at":
            changes[name] = NOWHERE
        elif name.endswith("_at"):
            changes[name] = 0
        elif id(part) in done:
            changes[name] = done[id(part)]
    return msgspec.structs.replace(value, **changes)
