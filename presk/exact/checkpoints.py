"""The parameters of a checkpoint against the tree that they are given for: names first, then shapes, in the tree's order.

Lengths of the checkpoint's tensors determine dimensions as those of any input do. What differs is E8007, with the first path at which
it does, and not E8002: the values may be as they should be, the program is another.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from presk.exact import given
from presk.exact.faults import DATA, MISFIT, Fault
from presk.exact.given import Raw, Tensor
from presk.exact.scope import Scope
from presk.types.trees import Leaf, leaves
from presk.types.type import Params

_SHOWN: Final = 8  # names that a note shows


@dataclass(frozen=True, slots=True)
class Tree:
    """A parameter of an entry whose tree is a checkpoint's: its name and type, what the file has, and the file's name."""

    path: str
    type: Params
    raw: Raw
    file: str


def infer(tree: Tree, scope: Scope, dims: dict[str, int]) -> None:
    """Lets the tensors of a checkpoint determine open dimensions; MISFIT for other names, ranks or lengths than the tree's."""
    declared = leaves(tree.type.instance, scope.headers)
    names = [leaf.path for leaf in declared]
    found = _tensors(tree.raw)
    missing = next((name for name in names if name not in found), None)
    if missing is not None:
        raise _misfit(tree, f"it has no `{missing}`", f"it has {_listed(list(found))}")
    known = set(names)
    extra = next((name for name in found if name not in known), None)
    if extra is not None:
        raise _misfit(tree, f"the tree has no `{extra}`", f"it has {_listed(names)}")
    for leaf in declared:
        lengths = found[leaf.path].array.shape
        try:
            given.infer_lengths(leaf.type.shape, lengths, dims, leaf.path)
        except Fault as fault:
            if fault.code != DATA:
                raise
            raise _shape(tree, leaf, lengths, dims) from None


def check(tree: Tree, scope: Scope) -> None:
    """MISFIT for a tensor of another shape than the tree's, all of whose dimensions are known."""
    found = _tensors(tree.raw)
    for leaf in leaves(tree.type.instance, scope.headers):
        lengths = found[leaf.path].array.shape
        if lengths != scope.shape(leaf.type.shape):
            raise _shape(tree, leaf, lengths, scope.dims)


def _tensors(raw: Raw) -> dict[str, Tensor]:
    """The tensors of a tree by path, in the order of the file."""
    if not isinstance(raw, dict):
        raise TypeError("a checkpoint has tensors by name")
    found: dict[str, Tensor] = {}
    pending = list(reversed(raw.items()))
    while pending:
        path, inner = pending.pop()
        if isinstance(inner, dict):
            pending += [(f"{path}.{name}", one) for name, one in reversed(inner.items())]
        elif isinstance(inner, Tensor):
            found[path] = inner
        else:
            raise TypeError("a checkpoint has tensors by name")
    return found


def _shape(tree: Tree, leaf: Leaf, lengths: tuple[int, ...], dims: Mapping[str, int]) -> Fault:
    expected = [
        str(axis.length.evaluate(dims) if set(axis.length.symbols()) <= dims.keys() else axis.length)
        for axis in leaf.type.shape.axes
    ]
    return _misfit(
        tree,
        f"its `{leaf.path}` has the shape {list(lengths)}, and that of the tree is [{', '.join(expected)}]",
        f"`{leaf.path} : {leaf.type}`",
    )


def _misfit(tree: Tree, why: str, note: str) -> Fault:
    return Fault(MISFIT, f"the checkpoint `{tree.file}` does not fit `{tree.path} : {tree.type}`: {why}", notes=(note,))


def _listed(names: list[str]) -> str:
    """Some of many names."""
    shown = [f"`{name}`" for name in names[:_SHOWN]]
    return ", ".join(shown if len(names) <= _SHOWN else [*shown, "…"]) or "none"
