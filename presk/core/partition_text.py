"""The fusion partition of a program as text: what `presk dump --stage realize` prints.

fn Linear.apply
  %5  add      nest
not fused
  %3  dot      no elementwise primitive
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from presk.core.fusion import Partition, nests, partition
from presk.core.ir import Function, MakeParams, MakeTuple, Prim, Program, Project

_WORDS: Final[Mapping[type, str]] = MappingProxyType({MakeTuple: "tuple", MakeParams: "params", Project: "item"})
"""What operations are called whose class has another name."""


def partition_text(program: Program, layouts: Mapping[str, str] = MappingProxyType({})) -> str:
    """Every function's nests: groups with their members, and what is not fused and why; with what a plan states of each."""
    return "\n".join(_function(function, layouts) for function in program.functions if _primitives(function))


def _primitives(function: Function) -> bool:
    return any(isinstance(binding.op, Prim) for binding in function.bindings)


def _function(function: Function, layouts: Mapping[str, str]) -> str:
    parts = partition(function)
    lines = [f"fn {function.name}"]
    lines += _groups(function, parts)
    lines += _apart(function, parts)
    stated = [(name, layouts[name]) for name in nests(function, parts) if name in layouts]
    lines += ["  layout:", *(f"    {name} {text}" for name, text in stated)] if stated else []
    return "\n".join(lines) + "\n"


def _label(function: Function, var: int) -> str:
    """`%5`, with the source's name beside it where there is one."""
    name = next((binding.name for binding in function.bindings if binding.var == var), None)
    return f"%{var} ({name})" if name is not None else f"%{var}"


def _word(function: Function, var: int) -> str:
    op = next(binding.op for binding in function.bindings if binding.var == var)
    return op.name if isinstance(op, Prim) else _WORDS.get(type(op), type(op).__name__.lower())


def _groups(function: Function, parts: Partition) -> list[str]:
    types = {binding.var: binding.type for binding in function.bindings}
    lines = []
    for group in parts.groups:
        chain = " → ".join(f"{_label(function, var)} {_word(function, var)}" for var in group.members)
        size = "1 operation" if group.operations == 1 else f"{group.operations} operations"
        lines.append(f"  group {function.name}/%{group.root} : {types[group.root]}, {size}: {chain}")
    return lines


def _apart(function: Function, parts: Partition) -> list[str]:
    primitives = {binding.var for binding in function.bindings if isinstance(binding.op, Prim)}
    rows = []
    for one in parts.apart:
        if one.var not in primitives:
            continue
        reader = f" ({_label(function, one.reader)} {_word(function, one.reader)})" if one.reader is not None else ""
        rows.append(f"    {_label(function, one.var)} {_word(function, one.var)}: {one.why.value}{reader}")
    return ["  not fused into a reader:", *rows] if rows else []
