"""Liveness that keeps fusion groups.

Where a realization stores values more narrowly than it computes, a value that reaches memory is rounded and one inside a group
is not. So a value that was a root must stay one: if what made it a root would go (a dead reader, an identity, an item of the
result that no caller reads), that is held.

    %4 = sub x, y          pow's reader is gone and the mean with it: without %5, %4 would join %7's group
    %5 = pow 2 %4          held
    %7 = mul %4, …
"""

from dataclasses import dataclass

from presk.ad.liveness import Body, Items, Live
from presk.ad.templates import with_template
from presk.core.fusion import partition
from presk.core.ir import Binding, Function, MakeTuple, Operation, operands, renamed


def held(body: Body, wanted: Items) -> tuple[Live, Items]:
    """What the wanted items read and what is held for them, and the items of the result that stay."""
    before = partition(body.function).interior()
    held_ = _Held({}, {}, wanted)
    while True:
        live = body.live(held_.items, held_.lets, held_.identities)
        read = body.live(wanted, (), held_.identities)
        roots = partition(remaining(body.function, live)).roots()
        # Of each group the last value that was a root: with it held, those before it may be roots again.
        changed: dict[int, int] = {}
        for binding in body.function.bindings:
            root = roots.get(binding.var, binding.var)
            if root != binding.var and binding.var not in before and binding.var in read.lets:
                changed[root] = binding.var
        if not changed:
            return live, held_.items
        if not all(held_.hold(body, live, var) for var in changed.values()):
            # What made it a root was the size of a group, or an item of a loop's first accumulator: everything stays.
            everything = [binding.var for binding in body.function.bindings]
            returned = body.ops.get(body.function.returns)
            items = frozenset(range(len(returned.items))) if isinstance(returned, MakeTuple) else wanted
            return body.live(items, everything, everything), items


@dataclass(slots=True)
class _Held:
    """What is held: dead lets, identities that stay lets, items of the result."""

    lets: dict[int, None]
    identities: dict[int, None]
    items: Items

    def hold(self, body: Body, live: Live, var: int) -> bool:
        """Holds something that reads a value and would go, at the least cost; whether there is anything."""
        returned = body.ops.get(body.function.returns)
        if isinstance(returned, MakeTuple):
            for place, item in enumerate(returned.items):
                if place not in self.items and live.resolve(item) == var:
                    self.items |= {place}
                    return True
        readers = body.readers.get(var, ())
        for reader in readers:
            if reader in live.alias and _used(body, live, reader):
                self.identities[reader] = None
                return True
        dead = [reader for reader in readers if reader not in live.lets]
        if not dead:
            return False
        reader = min(dead, key=lambda one: (_cost(body, live, one), body.order[one]))
        self.lets[reader] = None
        if reader in live.alias:
            self.identities[reader] = None
        return True


def _used(body: Body, live: Live, identity: int) -> bool:
    """Whether something live reads an identity."""
    waiting = [identity]
    while waiting:
        for reader in body.readers.get(waiting.pop(), ()):
            if reader in live.lets:
                return True
            if reader in live.alias:
                waiting.append(reader)
    return False


def _cost(body: Body, live: Live, var: int) -> int:
    """How many lets would be computed for a dead one."""
    seen: set[int] = set()
    waiting = [var]
    while waiting:
        one = live.resolve(waiting.pop())
        if one in seen or one in live.lets or one not in body.ops:
            continue
        seen.add(one)
        waiting += operands(body.ops[one])
    return len(seen)


def remaining(function: Function, live: Live) -> Function:
    """The body that stays, with identities looked through and templates replaced; tuples keep their items."""
    bindings = tuple(
        Binding(binding.var, binding.name, binding.type, replaced(binding.var, binding.op, live))
        for binding in function.bindings
        if binding.var in live.lets
    )
    return Function(function.name, function.dims, function.params, function.result, bindings, function.returns)


def replaced(var: int, op: Operation, live: Live) -> Operation:
    """A live let's operation, with identities looked through, its template replaced and the items gone that nothing reads."""
    if isinstance(op, MakeTuple) and var in live.items:
        op = MakeTuple(tuple(item for place, item in enumerate(op.items) if place in live.items[var]))
    new = renamed(op, live.resolve)
    return with_template(new, live.templates[var]) if var in live.templates else new
