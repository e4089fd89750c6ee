"""Which declarations of a file contain which: the order of elaboration, and cycles (E1018, E2016).

Aliases, modules and models may be used above their declaration, so they are elaborated in the order of a depth-first walk,
each behind those it uses. A use that leads back closes a cycle: it is reported, and taken for a broken name where it stands, so
that everything else is elaborated all the same.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from presk.diagnostics.value import Diagnostic, Label, Place
from presk.elab.cycles import MAX_LABELS, shown_cycle
from presk.elab.names import Declared
from presk.elab.scope import path_of
from presk.syntax import tree


@dataclass(frozen=True, slots=True)
class Use:
    """A mention of a type or a module: its path and its place in a chunk."""

    path: tuple[str, ...]
    at: tree.At
    chunk: str


@dataclass(frozen=True, slots=True)
class Order:
    """The names in the order of elaboration; `closing` are the pairs (user, used) whose use closes a cycle."""

    names: tuple[str, ...]
    closing: frozenset[tuple[str, str]]
    diagnostics: tuple[Diagnostic, ...]


def uses_of(declared: Declared) -> tuple[Use, ...]:
    """The types and modules that the meaning of an alias, a module or a model rests on, in order of mention."""
    match declared.node:
        case tree.TypeAlias(type=type_):
            return tuple(_in_type(type_, declared.key))
        case tree.Model(value=value):
            return tuple(_in_module(value, declared.key))
        case tree.Module(members=members):
            found: list[Use] = []
            for chunk in members:
                match chunk.member:
                    case tree.ParamMember(type=type_):
                        found.extend(_in_type(type_, chunk.key))
                    case tree.UseMember(module=module):
                        found.extend(_in_module(module, chunk.key))
                    case tree.Fn():
                        pass
            return tuple(found)
        case _:
            return ()


def _in_type(type_: tree.TypeExpr, chunk: str) -> Iterator[Use]:
    match type_:
        case tree.NamedType(at=at, path=path):
            yield Use(path, at, chunk)
        case tree.ParamType(type=inner):
            yield from _in_type(inner, chunk)
        case tree.ParamsType(module=module):
            yield Use(module.path, module.at, chunk)
        case tree.TupleType(items=items):
            for item in items:
                yield from _in_type(item, chunk)
        case _:
            pass


def _in_module(expr: tree.Expr, chunk: str) -> Iterator[Use]:
    pending = [expr]
    while pending:
        node = pending.pop()
        match node:
            case tree.Binary(left=left, right=right):
                pending += (right, left)
            case tree.Call(callee=callee, arguments=arguments):
                pending.extend(one.value for one in reversed(arguments) if isinstance(one, tree.Positional))
                pending.append(callee)
            case tree.DimArgs(base=base):
                pending.append(base)
            case _:
                path = path_of(node)
                if path is not None:
                    yield Use(path, node.at, chunk)


def ordered(file: str, declared: Mapping[str, Declared]) -> Order:
    """The order of the aliases, modules and models of a file, and its cycles."""
    nodes = {
        name: one for name, one in declared.items() if isinstance(one.node, tree.TypeAlias | tree.Module | tree.Model)
    }
    done: dict[str, bool] = {}  # False while a name is on the way
    names: list[str] = []
    closing: set[tuple[str, str]] = set()
    diagnostics: list[Diagnostic] = []
    for root in nodes:
        if root in done:
            continue
        done[root] = False
        way: list[tuple[str, Iterator[Use]]] = [(root, iter(uses_of(nodes[root])))]
        taken: list[Use] = []  # the use that led to each but the first on the way
        while way:
            name, uses = way[-1]
            use = next(uses, None)
            if use is None:
                way.pop()
                if taken:
                    taken.pop()
                done[name] = True
                names.append(name)
                continue
            target = use.path[0]
            if len(use.path) > 1 or target not in nodes or done.get(target):
                continue
            if target in done:
                if (name, target) not in closing:
                    closing.add((name, target))
                    start = next(i for i, (one, _) in enumerate(way) if one == target)
                    ring = [one for one, _ in way[start:]]
                    diagnostics.append(_cycle(file, nodes, ring, taken[start:], use))
                continue
            done[target] = False
            taken.append(use)
            way.append((target, iter(uses_of(nodes[target]))))
    return Order(tuple(names), frozenset(closing), tuple(diagnostics))


def _cycle(file: str, nodes: Mapping[str, Declared], ring: list[str], steps: list[Use], closing: Use) -> Diagnostic:
    """E1018 for a cycle of aliases, E2016 for one through a module."""
    shown = shown_cycle(ring)
    aliases = all(isinstance(nodes[name].node, tree.TypeAlias) for name in ring)
    if aliases:
        said = (
            f"the type alias `{ring[0]}` is defined by itself"
            if len(ring) == 1
            else f"type aliases form a cycle: {shown}"
        )
    else:
        said = f"the module `{ring[0]}` contains itself" if len(ring) == 1 else f"modules contain each other: {shown}"
    labels = tuple(
        Label(Place(*use.at, use.chunk, file), f"`{name}` uses `{use.path[0]}`")
        for name, use in zip(ring, steps[:MAX_LABELS], strict=False)
    )
    return Diagnostic(
        "E1018" if aliases else "E2016",
        said,
        Label(Place(*closing.at, closing.chunk, file), f"`{ring[-1]}` uses `{ring[0]}`, which closes the cycle"),
        labels,
        ("such a type has no end",) if aliases else ("a module that contains itself has no parameter tree",),
        None if aliases else "to apply a module many times, use `stack{N}(M)`",
    )
