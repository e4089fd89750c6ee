"""What of a generated function is read: its lets, and the items of the tuples that its callees give.

    fn f.vjp(x, w, ct) {
      %3 = dot x, w
      %4 = exp %3
      %5 = sum_to ct, %4        its type is ct's: it is ct, and %4 was read for its shape only
      %6 = call g.vjp(%4, %5)   of which item 1 alone is read: `wanted` of g gets 1
      …

Liveness goes from the last let to the first. Three reads are not reads: one by an identity (`sum_to`, `broadcast_like` between
equal types) is one of what it gives; an item of a generated tuple reads that item only; an operand that a primitive reads for its
shape only may be any value of that type, and is another one that is computed anyway, if there is one.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from presk.ad.kinds import names_every_axis
from presk.ad.rules.table import IDENTITIES
from presk.ad.templates import template, values_read
from presk.core.fusion import Why, operations
from presk.core.ir import Call, Field, Fold, Function, MakeTuple, Operation, Prim, Project, operands
from presk.types.type import Type

Items = frozenset[int]


@dataclass(frozen=True, slots=True)
class Neighbours:
    """What liveness in a body needs to know of the functions that it calls.

    `trims` says of a function whether items of its result may go; `around` gives, for the body of a loop and the items of
    the loop's value that are read, those that each iteration must hand to the next.
    """

    trims: Callable[[str], bool]
    around: Callable[[str, Items], Items]


@dataclass(slots=True)
class Live:
    """What is read. `alias` maps an identity to what it gives, `templates` a primitive to what it reads for its shape,
    `items` a generated tuple's variable to the items of it that are read (a variable that is not there: all)."""

    lets: set[int] = field(default_factory=set)
    alias: dict[int, int] = field(default_factory=dict)
    templates: dict[int, int] = field(default_factory=dict)
    items: dict[int, set[int]] = field(default_factory=dict)
    whole: set[int] = field(default_factory=set)

    def resolve(self, var: int) -> int:
        """What a variable is, identities looked through."""
        while var in self.alias:
            var = self.alias[var]
        return var


class Body:
    """A function as liveness looks at it, with `acc` the accumulator's parameter if it is the body of a loop."""

    def __init__(self, function: Function, neighbours: Neighbours, acc: int | None) -> None:
        self.function = function
        self.neighbours = neighbours
        self.acc = acc
        self.ops: dict[int, Operation] = {binding.var: binding.op for binding in function.bindings}
        self.types: dict[int, Type] = {place: param.type for place, param in enumerate(function.params)}
        self.types.update((binding.var, binding.type) for binding in function.bindings)
        self.order = {place: place - len(function.params) for place in range(len(function.params))}
        self.order.update((binding.var, place) for place, binding in enumerate(function.bindings))
        self.readers: dict[int, list[int]] = {}
        for binding in function.bindings:
            for var in dict.fromkeys(operands(binding.op)):
                self.readers.setdefault(var, []).append(binding.var)

    def fusible(self, var: int) -> bool:
        """Whether a let may be a member of a group."""
        op = self.ops.get(var)
        return isinstance(op, Prim) and not isinstance(operations(op, self.types[var]), Why)

    def first_of(self, var: int) -> int | None:
        """The variable of which an identity gives the value, None for any other let."""
        op = self.ops.get(var)
        if isinstance(op, Prim) and op.name in IDENTITIES and self.types[op.args[0]] == self.types[var]:
            return op.args[0]
        return None

    def live(self, wanted: Items, seeds: Iterable[int] = (), kept: Iterable[int] = ()) -> Live:
        """What the wanted items of the result read, and the lets `seeds`; the identities `kept` stay lets."""
        stay = set(kept)
        pinned = set(seeds)
        substitutes: dict[int, int] = {}
        while True:
            live = self._pass(wanted, pinned, stay)
            missing = self._missing(live, substitutes)
            if not missing:
                break
            pinned |= missing
        for reader in live.lets:
            shape = template(self.ops[reader])
            if shape is not None:
                of = live.resolve(shape)
                live.templates[reader] = of if self._present(of, live) else substitutes[reader]
        return live

    def _present(self, var: int, live: Live) -> bool:
        return var < len(self.function.params) or var in live.lets

    def _pass(self, wanted: Items, pinned: Iterable[int], stay: set[int]) -> Live:
        """Liveness without templates, but for those that are pinned."""
        live = Live()
        for binding in self.function.bindings:
            first = self.first_of(binding.var)
            if first is not None and binding.var not in stay:
                live.alias[binding.var] = first
        for var in pinned:
            self._read(live, var)
        returned = self.ops.get(self.function.returns)
        if isinstance(returned, MakeTuple) and wanted != frozenset(range(len(returned.items))):
            live.lets.add(self.function.returns)
            live.items[self.function.returns] = set(wanted)
        else:
            self._read(live, self.function.returns)
        for binding in reversed(self.function.bindings):
            if binding.var in live.lets:
                self._reads(live, binding.var, binding.op)
        for var in live.whole:
            live.items.pop(var, None)
        return live

    def _read(self, live: Live, var: int) -> None:
        """Reads a value whole."""
        var = live.resolve(var)
        if var in self.ops:
            live.lets.add(var)
        live.whole.add(var)

    def _reads(self, live: Live, var: int, op: Operation) -> None:
        """What a live let reads."""
        match op:
            case Project(base, place):
                base = live.resolve(base)
                if self._trimmed(base):
                    live.items.setdefault(base, set()).add(place)
                    if base in self.ops:
                        live.lets.add(base)
                else:
                    self._read(live, base)
            case MakeTuple(items):
                places = range(len(items)) if var in live.whole else sorted(live.items.get(var, ()))
                for place in places:
                    self._read(live, items[place])
            case Fold(function=function, stacked=stacked, acc=acc, extras=extras):
                for one in (*stacked, *extras):
                    self._read(live, one)
                first = self.ops.get(acc)
                if self._trimmed(var) and var not in live.whole and isinstance(first, MakeTuple):
                    around = self.neighbours.around(function, frozenset(live.items.get(var, ())))
                    live.items[var] = set(around)
                    live.lets.add(acc)
                    live.items.setdefault(acc, set()).update(around)
                else:
                    self._read(live, acc)
            case _:
                for one in values_read(op):
                    self._read(live, one)

    def _trimmed(self, var: int) -> bool:
        """Whether items of a variable's tuple may go."""
        if var == self.acc:
            return True
        match self.ops.get(var):
            case Call(function=function):
                return self.neighbours.trims(function)
            case Fold(function=function, acc=acc, scan=False):
                return self.neighbours.trims(function) and self.readers[acc] == [var]
            case _:
                return False

    def _missing(self, live: Live, substitutes: dict[int, int]) -> set[int]:
        """Templates that must be computed, since no other value of their type is; fills in what replaces the others."""
        missing: set[int] = set()
        by_type: dict[Type, list[int]] | None = None
        for reader in sorted(live.lets, key=self.order.__getitem__):
            shape = template(self.ops[reader])
            if shape is None or reader in substitutes:
                continue
            shape = live.resolve(shape)
            if self._present(shape, live) or shape in missing:
                continue
            if by_type is None:
                by_type = self._by_type(live)
            found = None
            if not self._free(shape, live) and names_every_axis(self.types[shape]):
                before = self.order[reader]
                found = next((one for one in by_type.get(self.types[shape], ()) if self.order[one] < before), None)
            if found is None:
                missing.add(shape)
            else:
                substitutes[reader] = found
        return missing

    def _free(self, var: int, live: Live) -> bool:
        """Whether a value costs nothing: a field or an item of what is there."""
        op = self.ops.get(var)
        if not isinstance(op, Field | Project):
            return False
        base = live.resolve(op.base)
        return not self._trimmed(base) and (self._present(base, live) or self._free(base, live))

    def _by_type(self, live: Live) -> dict[Type, list[int]]:
        """The parameters, and the live values that reach memory, by type, the last first."""
        found: dict[Type, list[int]] = {}
        for var in sorted((*range(len(self.function.params)), *live.lets), key=self.order.__getitem__, reverse=True):
            if var != self.acc and self._stored(var, live):
                found.setdefault(self.types[var], []).append(var)
        return found

    def _stored(self, var: int, live: Live) -> bool:
        """Whether a live value is surely no interior member of a group: something outside every group reads it."""
        if not self.fusible(var):
            return True
        return any(
            reader in live.lets and not self.fusible(reader) and var in values_read(self.ops[reader])
            for reader in self.readers.get(var, ())
        )


def wanted_of(live: Live, count: int, var: int) -> Items:
    """The items of a tuple that are read."""
    found: Mapping[int, set[int]] = live.items
    return frozenset(found[var]) if var in found else frozenset(range(count))
