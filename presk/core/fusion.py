"""Fusion groups: which lets of a function share a loop nest, so that all but one of them stay in registers.

A group is a set of lets of one function such that every member is an elementwise primitive, all have one type (names
included), and every member but the root is read by members alone. Only the root's value reaches memory. Under a realization
whose storage is narrower than its arithmetic that shows in the result, so the partition is part of what a program computes:
it depends on the body alone and is computed here, once, for passes and executors.

    %3 = dot x, w        not elementwise
    %4 = add %3, b   ┐
    %5 = mul %4, %4  ├─  %6 is the root; %5's expression repeats %4
    %6 = exp %5      ┘
    %7 = sum axis n %6

Method: one pass from the last let to the first. A let joins the group of its readers if they are all in one group, its type is
the group's and the root's expression, written out with repetitions, keeps at most 64 operations; else it is the root of a group
of its own. The name of a nest is `f/%k`: the root of a group, or a primitive that is no member of one.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

import msgspec

from presk.core.ir import Function, Prim, operands
from presk.prims.attrs import Length
from presk.types.type import Params, Real, Type

LIMIT: Final = 64
"""The most operations that a group's expression may have, inputs not counted."""


class Why(StrEnum):
    """Why a let is not in a group with its readers."""

    NOT_ELEMENTWISE = "no elementwise primitive"
    REPEATS = "it repeats its argument more than once"
    TYPE = "neither a tensor nor a tree"
    RETURNED = "it is returned"
    UNREAD = "nothing reads it"
    READ_OUTSIDE = "it is read by what is in no group"
    SEVERAL = "its readers are in different groups"
    OTHER_TYPE = "its readers' type is another"
    LIMIT = f"the expression would have more than {LIMIT} operations"


class Group(msgspec.Struct, frozen=True, array_like=True):
    """Lets that share a loop nest: members in their order, the root last; operations of the root's expression."""

    root: int
    members: tuple[int, ...]
    operations: int


class Apart(msgspec.Struct, frozen=True, array_like=True):
    """That a let joins no reader, why, and the reader that shows it, if one does."""

    var: int
    why: Why
    reader: int | None = None


class Partition(msgspec.Struct, frozen=True, array_like=True):
    """The groups of a function by root, in the order of the roots' lets, and for every let that is no interior member why.

    A group of one member is a nest like any other.
    """

    groups: tuple[Group, ...]
    apart: tuple[Apart, ...]

    def roots(self) -> Mapping[int, int]:
        """The root of each member's group, by member."""
        return {member: group.root for group in self.groups for member in group.members}

    def interior(self) -> frozenset[int]:
        """The lets whose values never reach memory."""
        return frozenset(member for group in self.groups for member in group.members if member != group.root)


_ONE: Final = (
    *(
        "neg",
        "gelu",
        "relu",
        "exp",
        "tanh",
        "sqrt",
        "abs",
        "log",
        "sigmoid",
        "sin",
        "cos",
        "gelu'",
        "heaviside",
        "sign",
    ),
    *("add", "sub", "mul", "div", "max", "min"),
)
ELEMENTWISE: Final[Mapping[str, int]] = MappingProxyType({**dict.fromkeys(_ONE, 1), "pow": 1})
"""The primitives that may be members, and the operations that one use of each emits (`pow 2` is one product)."""


def operations(op: Prim, type_: Type) -> int | Why:
    """The operations of one use of a primitive in a group's expression, or why it cannot be a member."""
    count = ELEMENTWISE.get(op.name)
    if count is None:
        return Why.NOT_ELEMENTWISE
    for _, attr in op.attrs:
        # A power n expands to n − 1 products of its argument.
        if isinstance(attr, Length) and (attr.dim.natural() or 0) > 2:
            return Why.REPEATS
    return count if isinstance(type_, Real | Params) else Why.TYPE


def partition(function: Function) -> Partition:
    """The partition of a function's body. Time linear in its size."""
    state = _State(function)
    for binding in reversed(function.bindings):
        state.place(binding.var)
    order = {binding.var: place for place, binding in enumerate(function.bindings)}
    groups = []
    for root in sorted(state.members, key=order.__getitem__):
        members = tuple(sorted(state.members[root], key=order.__getitem__))
        groups.append(Group(root, members, state.total[root]))
    return Partition(tuple(groups), tuple(sorted(state.apart, key=lambda item: order[item.var])))


def nests(function: Function, parts: Partition) -> tuple[str, ...]:
    """The names of a function's nests, in order: the roots of groups and the primitives that are members of none."""
    interior = parts.interior()
    return tuple(
        f"{function.name}/%{binding.var}"
        for binding in function.bindings
        if isinstance(binding.op, Prim) and binding.var not in interior
    )


class _State:
    """The pass: groups so far, by root, and for each member how often the root's expression repeats it."""

    def __init__(self, function: Function) -> None:
        self.returns = function.returns
        self.readers: dict[int, list[int]] = {}
        self.bindings = {binding.var: binding for binding in function.bindings}
        for binding in function.bindings:
            for var in operands(binding.op):
                self.readers.setdefault(var, []).append(binding.var)
        self.root: dict[int, int] = {}
        self.repeats: dict[int, int] = {}
        self.members: dict[int, list[int]] = {}
        self.total: dict[int, int] = {}
        self.apart: list[Apart] = []

    def place(self, var: int) -> None:
        """Puts a let, all of whose readers have their places, into a group."""
        binding = self.bindings[var]
        if not isinstance(binding.op, Prim):
            self.apart.append(Apart(var, Why.NOT_ELEMENTWISE))
            return
        size = operations(binding.op, binding.type)
        if isinstance(size, Why):
            self.apart.append(Apart(var, size))
            return
        why, reader = self.obstacle(var, binding.type)
        readers = self.readers.get(var, [])
        if why is None:
            # A reader stands in the list once for each time that it reads the let.
            repeats = sum(self.repeats[one] for one in readers)
            root = self.root[readers[0]]
            if self.total[root] + repeats * size <= LIMIT:
                self.root[var], self.repeats[var] = root, repeats
                self.members[root].append(var)
                self.total[root] += repeats * size
                return
            why, reader = Why.LIMIT, root
        self.apart.append(Apart(var, why, reader))
        self.root[var], self.repeats[var] = var, 1
        self.members[var], self.total[var] = [var], size

    def obstacle(self, var: int, type_: Type) -> tuple[Why | None, int | None]:
        """What keeps a let out of its readers' group, but for the group's size; and which reader."""
        if var == self.returns:
            return Why.RETURNED, None
        readers = self.readers.get(var)
        if not readers:
            return Why.UNREAD, None
        for one in readers:
            if one not in self.root:
                return Why.READ_OUTSIDE, one
        root = self.root[readers[0]]
        for one in readers[1:]:
            if self.root[one] != root:
                return Why.SEVERAL, one
        if type_ != self.bindings[root].type:
            return Why.OTHER_TYPE, root
        return None, None
