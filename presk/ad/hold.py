"""Liveness that keeps fusion groups.

Where a realization stores values more narrowly than it computes, a value that reaches memory is rounded and one inside a group
is not. So a value that was a root must stay one: if what made it a root would go (a dead reader, an identity, an item of the
result that no caller reads), that is held.

    %4 = sub x, y          pow's reader is gone and the mean with it: without %5, %4 would join %7's group
    %5 = pow 2 %4          held
    %7 = mul %4, …
"""

from presk.ad.liveness import Body, Items, Live
from presk.ad.rules.table import SHAPE_ONLY
from presk.core.fusion import partition
from presk.core.ir import Binding, Function, MakeTuple, Operation, Prim, operands, renamed


def held(body: Body, wanted: Items) -> tuple[Live, Items]:
    """What the wanted items read and what is held for them, and the items of the result that stay."""
    before = partition(body.function).interior()
    seeds: dict[int, None] = {}
    kept: dict[int, None] = {}
    items = wanted
    while True:
        live = body.live(items, seeds, kept)
        read = body.live(wanted, (), kept)
        after = partition(remaining(body.function, live)).interior()
        changed = [var for var in sorted(after - before, key=body.order.__getitem__) if var in read.lets]
        if not changed:
            return live, items
        var = changed[0]
        more = _unread_item(body, items, var)
        if more is not None:
            items |= {more}
            continue
        identity = next((one for one, of in live.alias.items() if of == var and one in body.readers.get(var, ())), None)
        if identity is not None and _used(body, live, identity):
            kept[identity] = None
            continue
        dead = [one for one in body.readers.get(var, ()) if one not in live.lets]
        if dead:
            reader = min(dead, key=lambda one: (_cost(body, live, one), body.order[one]))
            seeds[reader] = None
            if reader in live.alias:
                kept[reader] = None
            continue
        # What made it a root was the size of a group: everything stays.
        everything = [binding.var for binding in body.function.bindings]
        return body.live(_all(body), everything, everything), _all(body)


def _all(body: Body) -> Items:
    returned = body.ops.get(body.function.returns)
    return frozenset(range(len(returned.items))) if isinstance(returned, MakeTuple) else frozenset()


def _unread_item(body: Body, items: Items, var: int) -> int | None:
    """An item of the result that is the value and would go."""
    returned = body.ops.get(body.function.returns)
    if not isinstance(returned, MakeTuple):
        return None
    return next((place for place, item in enumerate(returned.items) if item == var and place not in items), None)


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
    if var in live.templates and isinstance(new, Prim):
        place = SHAPE_ONLY[new.name]
        args = (*new.args[:place], live.templates[var], *new.args[place + 1 :])
        return Prim(new.name, args, new.attrs)
    return new
