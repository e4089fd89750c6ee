"""What a tree mentions: the names that its meaning may depend on.

An environment holds what a declaration mentions and nothing else, so this decides what an edit reaches. Names that are
bound inside (parameters, `let`s) are mentioned too: an entity of the file that they hide does no harm in the
environment. A field name may be a module's member (`net.apply`), a bare name a sibling function's.
"""

from collections.abc import Callable, Mapping
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final

import msgspec

from presk.syntax import tree


class Mentions(msgspec.Struct, frozen=True, array_like=True):
    """Names mentioned, each list sorted: `names` bare (`D`, also the `m` of `m.V`), `paths` as `m.V`, `fields` (`apply`)."""

    names: tuple[str, ...]
    paths: tuple[str, ...]
    fields: tuple[str, ...]


# Names that a node declares, or that are no names of declarations.
_DECLARING: Final = frozenset((("ParamMember", "names"), ("UseMember", "names"), ("Fn", "uses"), ("NamedType", "path")))


def _child_fields(kind: type) -> tuple[str, ...]:
    """The attributes of a class of nodes that may hold nodes, read off its declaration."""
    leaves = (str, int, bool, tree.At, str | None)
    return tuple(
        field.name
        for field in msgspec.structs.fields(kind)
        if field.type not in leaves and (kind.__name__, field.name) not in _DECLARING
    )


def _leaves(node: type[tree.Node]) -> list[type[tree.Node]]:
    found = [node]
    for child in node.__subclasses__():
        found.extend(_leaves(child))
    return found


_KINDS: Final[tuple[type, ...]] = (*_leaves(tree.Node)[1:], tree.MemberChunk, tree.ItemChunk)
_CHILDREN: Final[Mapping[type, Callable[[Any], Any] | None]] = MappingProxyType(
    {kind: attrgetter(*fields) if (fields := _child_fields(kind)) else None for kind in _KINDS}
)
"""What gives a node's children: a child, or a tuple of several (which is walked like any tuple of nodes)."""


def mentions(root: object, implied: Mapping[str, tuple[str, ...]] = MappingProxyType({})) -> Mentions:
    """What a tree mentions. `implied` are names that a name brings along (a builtin that reads the file's constants)."""
    names: set[str] = set()
    paths: set[str] = set()
    fields: set[str] = set()
    waiting: list[Any] = [root]
    while waiting:
        node = waiting.pop()
        kind = type(node)
        if kind is tuple:
            waiting += node
            continue
        if kind is tree.Name:
            names.add(node.name)
            continue
        if node is None:
            continue
        if kind is tree.NamedType:
            names.add(node.path[0])
            if len(node.path) > 1:
                paths.add(".".join(node.path[:2]))
                fields.update(node.path[1:])
        elif kind is tree.Field:
            fields.add(node.name)
            if type(node.base) is tree.Name:
                paths.add(f"{node.base.name}.{node.name}")
        children = _CHILDREN[kind]
        if children is not None:
            waiting.append(children(node))
    for name in tuple(names):
        names.update(implied.get(name, ()))
    return Mentions(tuple(sorted(names)), tuple(sorted(paths)), tuple(sorted(fields)))
