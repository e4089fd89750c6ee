"""Regularity: how smooth a function's value is in each of its parameters, and which gradients that forbids (E3001).

The class of a function in a parameter is the worst class of a primitive on a path from the parameter to the value. A body is read
once, from the first binding to the last: what is known of a variable is, for every parameter that reaches it, the worst class on
the way and the primitive that made it so. Tuples are followed item by item, since an accumulator may hold activations beside a key.

- A call is read off the callee's summary; the functions that lowering made of a declaration (lambdas, layers) have none, and their
  bodies are read where they are applied, so that a function value that is captured is known.
- A fold is read until its accumulator does not change any more. Classes only grow, so that happens soon.
- The gradient of a C∞ function is C∞; that of a C⁰⁺ function jumps at the kinks.

Summaries have no places. `Gradient`s name the bindings that a diagnostic will label.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from presk.core.ir import (
    Apply,
    Call,
    Closure,
    Field,
    Fold,
    Function,
    Grad,
    Literal,
    MakeParams,
    MakeTuple,
    Operation,
    Origin,
    Prim,
    Project,
)
from presk.diagnostics.value import Diagnostic, Label, Place
from presk.prims.core_rows import CORE
from presk.prims.regularity import Class
from presk.syntax.tree import NOWHERE
from presk.types.type import Tuple, Type

Path = tuple[int, ...]
Source = tuple[int, Path]
"""A parameter by its place, and the item of it, if it is a tuple of tuples."""


class Site(msgspec.Struct, frozen=True, array_like=True):
    """A use of a primitive."""

    function: str
    var: int
    primitive: str


class Reach(msgspec.Struct, frozen=True, array_like=True):
    """How a source reaches a value: the worst class on the way, and the primitive that is responsible (none for C∞).

    `unsupported` says that the class comes from what differentiation does not do, a gradient inside or a function value of unknown
    origin; that has codes of its own (E6001, E6002).
    """

    worst: Class
    site: Site | None = None
    unsupported: bool = False


class Leaf(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A value that is no tuple: the sources that reach it, in order."""

    reaches: tuple[tuple[Source, Reach], ...] = ()


class Items(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A tuple."""

    items: tuple["Flow", ...]


class Made(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A function value: the function, and what is captured."""

    function: str
    captured: tuple["Flow", ...]


class Slope(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The gradient of a function value."""

    function: "Flow"


Flow = Leaf | Items | Made | Slope


class Gradient(msgspec.Struct, frozen=True, array_like=True):
    """A `grad` that is refused: its binding, the parameter it is taken in, and how that reaches the value."""

    function: str
    var: int
    parameter: str
    reach: Reach


class Summary(msgspec.Struct, frozen=True, array_like=True):
    """What callers need to know of a function, and the gradients in it that are refused."""

    function: str
    parameters: tuple[str, ...]
    value: Leaf | Items
    refused: tuple[Gradient, ...]

    def reach(self, parameter: int) -> Reach:
        """How a parameter, by place, reaches the value: the worst of its items and of the value's."""
        found = Reach(Class.SMOOTH)
        for (place, _), reach in flat(self.value).reaches:
            if place == parameter and reach.worst > found.worst:
                found = reach
        return found

    def classes(self) -> tuple[Class, ...]:
        """The class in each parameter."""
        return tuple(self.reach(place).worst for place in range(len(self.parameters)))


Summaries = Mapping[str, Summary]

_NOTHING: Final = Leaf()


def joined(*leaves: Leaf) -> Leaf:
    """What reaches one of the leaves; of two equal classes the first one's site is kept."""
    found: dict[Source, Reach] = {}
    for leaf in leaves:
        for source, reach in leaf.reaches:
            known = found.get(source)
            if known is None or reach.worst > known.worst:
                found[source] = reach
    return Leaf(tuple(sorted(found.items(), key=lambda item: item[0])))


def flat(flow: Flow) -> Leaf:
    """A value as one leaf."""
    match flow:
        case Leaf():
            return flow
        case Items(items) | Made(_, items):
            return joined(*map(flat, items))
        case Slope(function):
            return flat(function)


def worsened(leaf: Leaf, by: Reach) -> Leaf:
    """The leaf behind an operation of a class."""
    if by.worst is Class.SMOOTH:
        return leaf
    return Leaf(tuple((source, by if by.worst > reach.worst else reach) for source, reach in leaf.reaches))


def merged(one: Flow, other: Flow) -> Flow:
    """What holds of a value that is one or the other."""
    if one == other:
        return one
    if isinstance(one, Items) and isinstance(other, Items) and len(one.items) == len(other.items):
        return Items(tuple(map(merged, one.items, other.items)))
    return joined(flat(one), flat(other))


def shaped(leaf: Leaf, type_: Type) -> Flow:
    """A value of a type of whose items nothing else is known."""
    return Items(tuple(shaped(leaf, item) for item in type_.items)) if isinstance(type_, Tuple) else leaf


def parameter(place: int, type_: Type, path: Path = ()) -> Flow:
    """A parameter: each of its items is a source."""
    if isinstance(type_, Tuple):
        return Items(tuple(parameter(place, item, (*path, at)) for at, item in enumerate(type_.items)))
    return Leaf((((place, path), Reach(Class.SMOOTH)),))


def summarize(functions: Sequence[Function], callees: Summaries) -> Summary:
    """The summary of a declaration: its core functions, itself first, and the summaries of those that they call.

    KeyError for a callee without a summary. Time linear in the size of the functions but for lambdas, which are read for each
    different way in which they are applied.
    """
    return _Reading(functions, callees).run()


class _Reading:
    """The reading of one declaration."""

    def __init__(self, functions: Sequence[Function], callees: Summaries) -> None:
        self.own = functions[0]
        self.functions = {function.name: function for function in functions}
        self.types = {function.name: _types(function) for function in functions}
        self.callees = callees
        self.known: dict[tuple[str, tuple[Flow, ...]], Flow] = {}
        self.refused: dict[tuple[str, int], Gradient] = {}

    def run(self) -> Summary:
        for function in self.functions.values():
            # Every body is read once by itself: a gradient may stand in a lambda that nothing applies.
            self.body(function.name, tuple(parameter(at, param.type) for at, param in enumerate(function.params)))
        own = self.own
        value = self.body(own.name, tuple(parameter(at, param.type) for at, param in enumerate(own.params)))
        names = tuple(param.name for param in own.params)
        return Summary(own.name, names, _plain(value), tuple(self.refused.values()))

    def body(self, name: str, args: tuple[Flow, ...]) -> Flow:
        """The value of a function of the declaration on arguments."""
        key = (name, args)
        if key not in self.known:
            function = self.functions[name]
            flows: dict[int, Flow] = dict(enumerate(args))
            for binding in function.bindings:
                flows[binding.var] = self.operation(function, binding.var, binding.op, binding.type, flows)
            self.known[key] = flows[function.returns]
        return self.known[key]

    def operation(self, function: Function, var: int, op: Operation, type_: Type, flows: Mapping[int, Flow]) -> Flow:
        """The value of a binding."""
        match op:
            case Prim():
                return shaped(self.primitive(function, var, op, flows), type_)
            case Literal():
                return _NOTHING
            case Field(base, _):
                return shaped(flat(flows[base]), type_)
            case MakeParams(items):
                return joined(*(flat(flows[item]) for item in items))
            case MakeTuple(items):
                return Items(tuple(flows[item] for item in items))
            case Project(base, place):
                whole = flows[base]
                return whole.items[place] if isinstance(whole, Items) else whole
            case Call(name, _, _, args):
                return self.call(name, tuple(flows[arg] for arg in args))
            case Fold():
                return self.fold(op, flows)
            case Closure(name, _, _, captured):
                return Made(name, tuple(flows[item] for item in captured))
            case Grad(value):
                self.gradient(function, var, flows[value])
                return Slope(flows[value])
            case Apply(value, args):
                unknown = Reach(Class.DISC, Site(function.name, var, "apply"), True)
                return shaped_as(self.apply(flows[value], tuple(flows[arg] for arg in args), unknown), type_)

    def primitive(self, function: Function, var: int, op: Prim, flows: Mapping[int, Flow]) -> Leaf:
        """A primitive: each operand's sources, behind the class that the row says for it."""
        types = self.types[function.name]
        classes = CORE[op.name].regularity(tuple(types[arg] for arg in op.args))
        site = Site(function.name, var, op.name)
        return joined(*(worsened(flat(flows[arg]), Reach(at, site)) for arg, at in zip(op.args, classes)))

    def call(self, name: str, args: tuple[Flow, ...]) -> Flow:
        """A function on arguments: of the declaration, or another one by its summary."""
        if name in self.functions:
            return self.body(name, args)
        return _applied(self.callees[name].value, args)

    def fold(self, op: Fold, flows: Mapping[int, Flow]) -> Flow:
        """A loop, from the initial accumulator on, until nothing new reaches it."""
        stacked = tuple(flows[var] for var in op.stacked)
        extras = tuple(flows[var] for var in op.extras)
        index = (_NOTHING,) if op.indexed else ()
        acc = flows[op.acc]
        while True:
            following = merged(acc, self.call(op.function, (*stacked, acc, *extras, *index)))
            if following == acc:
                return Items((acc, acc)) if op.scan else acc
            acc = following

    def apply(self, value: Flow, args: tuple[Flow, ...], unknown: Reach) -> Flow:
        """A function value on arguments."""
        match value:
            case Made(name, captured):
                return self.call(name, (*captured, *args))
            case Slope(function):
                return _differentiated(flat(self.apply(function, args, unknown)))
            case _:
                return worsened(joined(flat(value), *map(flat, args)), unknown)

    def gradient(self, function: Function, var: int, value: Flow) -> None:
        """Records a gradient that is refused: its argument reaches the value through a jump."""
        if not isinstance(value, Made):
            return
        called = self.functions.get(value.function)
        count = len(value.captured)
        if called is not None:
            flow = parameter(-1, called.params[count].type)
            result = flat(self.body(called.name, (*value.captured, flow)))
        else:
            result = _argument(self.callees[value.function].value, count)
        for (place, path), reach in result.reaches:
            if place == -1 and reach.worst is Class.DISC and not reach.unsupported:
                name = _argument_name(called, count, path) or self.callees[value.function].parameters[count]
                self.refused.setdefault((function.name, var), Gradient(function.name, var, name, reach))
                return


def _types(function: Function) -> dict[int, Type]:
    params = {place: param.type for place, param in enumerate(function.params)}
    return params | {binding.var: binding.type for binding in function.bindings}


def shaped_as(flow: Flow, type_: Type) -> Flow:
    """A value as one of a type: what is known as a whole holds of every item."""
    return shaped(flow, type_) if isinstance(flow, Leaf) else flow


def _plain(flow: Flow) -> Leaf | Items:
    """A value without function values."""
    match flow:
        case Items(items):
            return Items(tuple(map(_plain, items)))
        case _:
            return flat(flow)


def _differentiated(leaf: Leaf) -> Leaf:
    """The gradient of what reaches a value: where there are kinks, it jumps."""
    return Leaf(
        tuple(
            (source, Reach(Class.DISC, reach.site, True) if reach.worst is Class.CONTINUOUS else reach)
            for source, reach in leaf.reaches
        )
    )


def _applied(value: Flow, args: tuple[Flow, ...]) -> Flow:
    """A summary's value with arguments in the place of parameters."""
    if isinstance(value, Items):
        return Items(tuple(_applied(item, args) for item in value.items))
    return joined(
        *(worsened(_at(args[place], path), reach) for (place, path), reach in flat(value).reaches),
    )


def _at(flow: Flow, path: Path) -> Leaf:
    """An item of an argument."""
    for place in path:
        if not isinstance(flow, Items):
            break
        flow = flow.items[place]
    return flat(flow)


def _argument(value: Flow, place: int) -> Leaf:
    """What a summary says of one parameter, as the source −1."""
    return Leaf(
        tuple(((-1, path), reach) for (at, path), reach in flat(value).reaches if at == place),
    )


def _argument_name(function: Function | None, place: int, path: Path) -> str | None:
    """What a function calls a parameter, or the item of it that a pattern takes apart; None without the function."""
    if function is None:
        return None
    for binding in function.bindings if path else ():
        if binding.op == Project(place, path[0]) and binding.name is not None:
            return binding.name
    return function.params[place].name


def gradient_diagnostics(
    refused: Iterable[Gradient], origins: Mapping[tuple[str, int], Origin]
) -> tuple[Diagnostic, ...]:
    """E3001 for each gradient, at the `grad`, with the primitive's place as a label."""
    return tuple(_diagnostic(one, origins) for one in refused)


def _diagnostic(gradient: Gradient, origins: Mapping[tuple[str, int], Origin]) -> Diagnostic:
    site = gradient.reach.site
    assert site is not None  # a class that is not C∞ has its primitive
    row = CORE[site.primitive]
    name = row.written if row.written is not None else row.name
    word = str(Class.DISC)
    return Diagnostic(
        "E3001",
        f"cannot differentiate through `{name}`: the function is discontinuous ({word}) in `{gradient.parameter}`",
        Label(
            _place((gradient.function, gradient.var), origins), f"`grad` here, with respect to `{gradient.parameter}`"
        ),
        (
            Label(
                _place((site.function, site.var), origins),
                f"`{name}` makes the result discontinuous in `{gradient.parameter}`",
            ),
        ),
        ("a gradient is taken of functions that have one almost everywhere (C⁰⁺ or better)",),
        row.substitute,
    )


def _place(binding: tuple[str, int], origins: Mapping[tuple[str, int], Origin]) -> Place:
    origin = origins.get(binding)
    return Place(*NOWHERE) if origin is None else Place(*origin.at, origin.chunk, origin.file)
