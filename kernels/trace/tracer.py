"""Traces an entry: walks its calls and loops at known dimensions and records what is launched, on which memory.

A call is walked at each of its uses, since its operands lie elsewhere each time; the body of a loop is walked once, its tensors moving
with the iteration (`loops`). What only selects, renames or regroups launches nothing (`structure`). Nests are lowered as they are met;
nests that are equal share their kernels.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

import msgspec

from presk.core.fusion import Partition, partition
from presk.core.ir import (
    Apply,
    Binding,
    Call,
    Field,
    Fold,
    Function,
    Literal,
    MakeParams,
    MakeTuple,
    Prim,
    Program,
    Project,
)
from presk.core.ir import Closure as MakeClosure
from presk.kernels.ir import Elem
from presk.kernels.layout import Layout, Target
from presk.kernels.nest import Arith, Kind, Nest, Operand, Use, View
from presk.kernels.nests.axes import identity, laid, places
from presk.kernels.nests.contraction import Added, with_added
from presk.kernels.nests.table import group, rule
from presk.kernels.trace import hyper
from presk.kernels.trace.hyper import AnyExpr, Given
from presk.kernels.trace.loops import fold
from presk.kernels.trace.recorder import Misfit, Recorder, inner, key_operand, site_name
from presk.kernels.trace.rows import Part, Role, Trace
from presk.kernels.trace.scope import Headers, Scope, named, open_prefix
from presk.kernels.trace.structure import STRUCTURAL, Structural, expression, items, record
from presk.kernels.trace.values import (
    Closure,
    Hyper,
    Items,
    Layers,
    Record,
    Tensor,
    Value,
    is_real,
    renamed,
    size_of,
    slice_of,
    stacked,
    tensors,
)
from presk.prims.attrs import Align, Attr
from presk.prims.nests import NESTS, AnyPattern, Converted, Elementwise, Structure, Structured
from presk.types import type as types
from presk.types.type import Type

_RATED: Final = Structured(Structure.DROPOUT_MASK)
_RAISED: Final = Elementwise("powv")
_NUMBERS: Final[Mapping[AnyPattern, Elem]] = MappingProxyType({_RATED: Elem.F64, _RAISED: Elem.I64})
"""What reads its number in a type of its own, whatever it computes in: a rate that draws of 53 bits are compared with, an exponent."""


_ADDED: Final = Elementwise("add")
"""What a product may be launched with."""

EPILOGUE: Final = "epilogue"
Carried = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Question:
    """What is traced: an entry of a program after differentiation at its dimensions and leading axes.

    `arith` gives the machine types of a binding of a function, `layouts` the layouts of nests by name (`Linear.apply/%3`).
    Without `fused` every primitive launches by itself. `carried` are parameters that a call hands to the next: pairs of a
    parameter and the part of the result that it becomes."""

    program: Program
    entry: str
    dims: Mapping[str, int]
    prefix: tuple[int, ...]
    headers: Headers
    arith: Callable[[str, int], Arith]
    target: Target
    layouts: Mapping[str, Layout] = field(default_factory=dict)
    fused: bool = True
    carried: Carried = ()


def trace(question: Question) -> Trace:
    """The launches of an entry, and the memory they work on."""
    return _Tracer(question).run()


def launched(question: Question) -> tuple[tuple[str, Nest, int], ...]:
    """The nests that an entry launches: each name with each shape of it, and how often that is launched."""
    tracer = _Tracer(question)
    tracer.run()
    return tracer.launched()


@dataclass(frozen=True, slots=True)
class _Site:
    """A binding under trace."""

    function: Function
    binding: Binding
    scope: Scope
    values: dict[int, Value]
    arith: Arith

    @property
    def name(self) -> tuple[str, int]:
        return self.function.name, self.binding.var


@dataclass(frozen=True, slots=True)
class _Members:
    """A fusion group: its members' bindings in order, and the variables that they read from outside."""

    bindings: tuple[Binding, ...]
    outside: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Groups:
    """The groups of more than one member of a function, by root, and the lets that launch nothing by themselves."""

    by_root: Mapping[int, _Members]
    interior: frozenset[int]


class _Tracer:
    def __init__(self, question: Question) -> None:
        self._q = question
        self._recorder = Recorder(question.target, question.layouts)
        self._functions = {function.name: function for function in question.program.functions}
        self._groups: dict[str, _Groups] = {}

    def run(self) -> Trace:
        q = self._q
        function = self._functions[q.entry]
        scope = Scope(q.dims, q.prefix, q.headers)
        inputs: list[Part] = []
        args = [
            self._input(param.type, param.name, scope, q.arith(q.entry, place), inputs)
            for place, param in enumerate(function.params)
        ]
        results: list[Part] = []
        numbers: list[tuple[str, AnyExpr]] = []
        _parts(self._call(function, scope, args), "", results, numbers)
        pairs, results = self._handed_on(inputs, results)
        return self._recorder.trace(inputs, results, numbers, pairs)

    def launched(self) -> tuple[tuple[str, Nest, int], ...]:
        """What was launched under which name, and how often."""
        found: dict[tuple[str, Nest], int] = {}
        for name, nest, often in self._recorder.nests:
            found[name, nest] = found.get((name, nest), 0) + often
        return tuple((name, nest, often) for (name, nest), often in found.items())

    def _handed_on(
        self, inputs: Sequence[Part], results: Sequence[Part]
    ) -> tuple[tuple[tuple[int, int], ...], list[Part]]:
        """The buffers of what a call hands to the next, before and after it. A result that does not have memory of its own, or is of
        another type than the parameter that it becomes, is copied."""
        before = {part.path: part for part in inputs}
        found = list(results)
        pairs: list[tuple[int, int]] = []
        taken = {part.place.buffer for part in results if _carried(part.path, self._q.carried) is None}
        for number, part in enumerate(found):
            name = _carried(part.path, self._q.carried)
            if name is None:
                continue
            old = before[name]
            if part.operand != old.operand or part.place.buffer in taken or not self._recorder.whole(part):
                fresh = self._recorder.new(old.operand)
                self._recorder.move(Tensor(part.operand, part.place), fresh.ref, old.operand.elem)
                part = found[number] = Part(part.path, old.operand, fresh.ref)
            taken.add(part.place.buffer)
            pairs.append((old.place.buffer, part.place.buffer))
        return tuple(pairs), found

    def _input(self, type_: Type, path: str, scope: Scope, arith: Arith, found: list[Part]) -> Value:
        """Memory for a parameter of the entry."""

        def given(operand: Operand) -> Tensor:
            tensor = Tensor(operand, self._recorder.buffer(size_of(operand), Role.INPUT))
            found.append(Part(path, operand, tensor.ref))
            return tensor

        match type_:
            case types.Hyper():
                return Hyper(Given(path))
            case types.Tuple(parts):
                return Items(
                    tuple(self._input(part, f"{path}.{i}", scope, arith, found) for i, part in enumerate(parts))
                )
            case types.Params(instance):
                return Record(
                    {
                        one.name: self._input(inner(one), f"{path}.{one.name}", scope, arith, found)
                        for one in scope.fields(instance)
                    }
                )
            case _:
                return given(scope.operand(type_, arith))

    # --- functions ---

    def _call(self, function: Function, scope: Scope, args: Sequence[Value]) -> Value:
        # Names are those of this function's types, whatever the caller calls the axes.
        values = {place: named(arg, param.type) for place, (arg, param) in enumerate(zip(args, function.params))}
        groups = self._grouped(function)
        products = self._products(function)
        for binding in function.bindings:
            if binding.var not in groups.interior and binding.var not in products.values():
                arith = self._q.arith(function.name, binding.var)
                site = _Site(function, binding, scope, values, arith)
                self._recorder.trail.append(site.name)
                if (product := products.get(binding.var)) is not None:
                    value: Value = self._added(site, product)
                else:
                    value = self._binding(site, groups.by_root.get(binding.var))
                if isinstance(binding.op, Call | Apply | Fold):
                    value = named(value, binding.type)
                values[binding.var] = value
                self._recorder.trail.pop()
        return values[function.returns]

    def _grouped(self, function: Function) -> _Groups:
        if function.name not in self._groups:
            self._groups[function.name] = _groups(function) if self._q.fused else _Groups({}, frozenset())
        return self._groups[function.name]

    def _products(self, function: Function) -> Mapping[int, int]:
        """By the `add` that takes it along, the product that is not launched by itself."""
        if not self._q.layouts:
            return {}
        stated = [
            binding.var
            for binding in function.bindings
            if (layout := self._q.layouts.get(site_name((function.name, binding.var)))) is not None and layout.epilogue
        ]
        return {
            binding.var: arg
            for binding in function.bindings
            if isinstance(binding.op, Prim) and NESTS[binding.op.name] == _ADDED
            for arg in binding.op.args
            if arg in stated
        }

    def _added(self, site: _Site, product: int) -> Tensor:
        """A product and the `add` that reads it, in one launch under the product's layout."""
        function, scope = site.function, site.scope
        binding = next(one for one in function.bindings if one.var == product)
        assert isinstance(binding.op, Prim) and isinstance(site.binding.op, Prim)
        arith, name = self._q.arith(function.name, product), (function.name, product)
        given = [self._operand(site.values[var], arith.arithmetic) for var in binding.op.args]
        made = Use(
            tuple(one.operand for one in given),
            scope.operand(binding.type, arith),
            arith,
            dict(binding.op.attrs),
            scope.dims,
        )
        place = 1 - site.binding.op.args.index(product)
        other = self._operand(site.values[site.binding.op.args[place]], site.arith.arithmetic)
        aligns = [dict(site.binding.op.attrs).get(key) for key in ("left", "right")]
        result = scope.operand(site.binding.type, site.arith)
        if result.shape != made.result.shape or result.elem is not made.result.elem:
            what = "is larger than it" if result.shape != made.result.shape else "is stored in another type"
            raise Misfit(site_name(name), EPILOGUE, f"what the `add` makes of the product {what}", "leave it away")
        strides = _beside(other.operand, aligns[place], result)
        launch = with_added(binding.op.name, made, strides, Added(other.operand.elem, site.arith.arithmetic))
        if launch is None:
            raise Misfit(site_name(name), EPILOGUE, "the product is no contraction of two operands", "leave it away")
        inputs = [[*given, other][number] for number in launch.inputs]
        return self._recorder.launch(launch.nest, inputs, result, site.name, laid_out=name)

    def _enter(self, name: str, dims: Mapping[str, int], prefix: tuple[int, ...], args: Sequence[Value]) -> Value:
        function = self._functions[name]
        found = open_prefix(function, args)
        return self._call(function, Scope(dims, prefix if found is None else found, self._q.headers), args)

    def _binding(self, site: _Site, members: _Members | None) -> Value:
        values, scope = site.values, site.scope
        match site.binding.op:
            case Prim(name, args, attrs):
                if members is not None:
                    return self._group(site, members, [values[var] for var in members.outside], site.binding.type)
                return self._primitive(site, name, tuple(values[var] for var in args), dict(attrs))
            case Literal(text):
                return Hyper(hyper.known(text))
            case Field(base, name):
                return record(values[base]).fields[name]
            case Project(base, place):
                return items(values[base]).items[place]
            case MakeTuple(parts):
                return Items(tuple(values[var] for var in parts))
            case MakeParams(parts):
                type_ = site.binding.type
                assert isinstance(type_, types.Params)
                names = [one.name for one in scope.fields(type_.instance)]
                return Record({name: values[var] for name, var in zip(names, parts, strict=True)})
            case MakeClosure(function, dims, prefix, captured):
                taken = tuple(values[var] for var in captured)
                return Closure(function, scope.bound(dims), scope.leading(prefix), taken)
            case Call(function, dims, prefix, args):
                given = [values[var] for var in args]
                return self._enter(function, scope.bound(dims), scope.leading(prefix), given)
            case Apply(function=var, args=args):
                closure = values[var]
                if not isinstance(closure, Closure):
                    raise TypeError(f"{type(closure).__name__} is no function")
                given = [*closure.captured, *(values[one] for one in args)]
                return self._enter(closure.function, closure.dims, closure.prefix, given)
            case Fold() as op:
                return fold(self._recorder, scope, op, values, self._enter)
            case other:
                raise TypeError(f"{type(other).__name__} is left after differentiation")

    # --- primitives ---

    def _primitive(self, site: _Site, name: str, args: tuple[Value, ...], attrs: Mapping[str, Attr]) -> Value:
        type_ = site.binding.type
        if name in STRUCTURAL:
            return STRUCTURAL[name](Structural(self._recorder, site.scope, args, type_, attrs, site.arith))
        if isinstance(type_, types.Hyper):
            return Hyper(hyper.Apply(name, tuple(map(expression, args)), type_.kind))
        if isinstance(NESTS[name], Converted) and isinstance(args[0], Hyper):
            return self._recorder.scalar(args[0].expr, site.scope.operand(type_, site.arith))
        return self._mapped(site, name, args, attrs, type_)

    def _mapped(self, site: _Site, name: str, args: Sequence[Value], attrs: Mapping[str, Attr], type_: Type) -> Value:
        """A primitive on tensors; on trees and tuples for each leaf."""

        def part(key: str | int, of: Type) -> Value:
            return self._mapped(site, name, [_part(arg, key) for arg in args], attrs, of)

        match type_:
            case types.Hyper() | types.Function():
                # What is no tensor is carried from the first structure.
                return args[0]
            case types.Params(instance):
                return Record({one.name: part(one.name, inner(one)) for one in site.scope.fields(instance)})
            case types.Real() if len(args) == 1 and isinstance(args[0], Record | Items):
                # A sum over a tree: its leaves in order, each added to the sum before.
                # The sum so far is a sum: it is stored when it is whole.
                result = site.scope.operand(type_, site.arith)
                running = msgspec.structs.replace(result, elem=site.arith.accumulate)
                leaves = list(filter(is_real, tensors(args[0])))
                total: Tensor | None = None
                for leaf in leaves:
                    form = result if leaf is leaves[-1] else running
                    total = self._tensor(site, name, (leaf,) if total is None else (leaf, total), attrs, form)
                return self._recorder.constant(result, 0.0) if total is None else total
            case types.Tuple(parts) if any(isinstance(arg, Items) for arg in args):
                return Items(tuple(part(place, one) for place, one in enumerate(parts)))
            case types.Tuple(parts):
                # A tuple of keys, which one launch makes.
                count = len(parts)
                keys = self._tensor(site, name, args, attrs, stacked(key_operand(), count))
                return Items(tuple(slice_of(keys, place) for place in range(count)))
            case _:
                return self._tensor(site, name, args, attrs, site.scope.operand(type_, site.arith))

    def _tensor(
        self, site: _Site, name: str, args: Sequence[Value], attrs: Mapping[str, Attr], result: Operand
    ) -> Tensor:
        given = [self._operand(arg, _number_elem(name, site.arith)) for arg in args]
        if NESTS[name] == _RATED and isinstance(args[0], Hyper):
            self._recorder.rate(args[0].expr)
        use = Use(tuple(one.operand for one in given), result, site.arith, attrs, site.scope.dims)
        made = rule(name, use)
        if isinstance(made, View):
            return renamed(given[0], result)
        return self._recorder.launch(made.nest, [given[place] for place in made.inputs], result, site.name)

    def _operand(self, value: Value, elem: Elem) -> Tensor:
        """A tensor; a hyperparameter as a scalar of a type."""
        match value:
            case Tensor():
                return value
            case Hyper(expr):
                return self._recorder.scalar(expr, Operand(Kind.HYPER, elem, (), ()))
            case _:
                raise TypeError(f"{type(value).__name__} is no operand")

    def _group(self, site: _Site, members: _Members, args: Sequence[Value], type_: Type) -> Value:
        """A fusion group: one launch, or one for each leaf."""
        if isinstance(type_, types.Params):
            return Record(
                {
                    one.name: self._group(site, members, [_part(arg, one.name) for arg in args], inner(one))
                    for one in site.scope.fields(type_.instance)
                }
            )
        given = [self._operand(arg, site.arith.arithmetic) for arg in args]
        number = {var: place for place, var in enumerate(members.outside)}
        steps = []
        for binding in members.bindings:
            assert isinstance(binding.op, Prim)
            steps.append((binding.op.name, tuple(number[arg] for arg in binding.op.args), dict(binding.op.attrs)))
            number[binding.var] = len(number)
        result = site.scope.operand(type_, site.arith)
        made = group(tuple(one.operand for one in given), steps, result, site.arith, site.scope.dims)
        return self._recorder.launch(made.nest, [given[place] for place in made.inputs], result, site.name)


def _beside(operand: Operand, align: Attr | None, result: Operand) -> tuple[int, ...]:
    """The strides along a result's axes of what is added to it."""
    rank = len(result.shape)
    if isinstance(align, Align):
        return laid(operand.shape, places(operand.shape, align, rank), rank)
    return laid(operand.shape, identity(rank) if operand.shape else (), rank)


def _carried(path: str, carried: Carried) -> str | None:
    """The parameter that a part of the result becomes."""
    for param, result in carried:
        if path == result or path.startswith(f"{result}."):
            return param + path.removeprefix(result)
    return None


def _number_elem(name: str, arith: Arith) -> Elem:
    """The type in which a primitive reads a hyperparameter."""
    return _NUMBERS.get(NESTS[name], arith.arithmetic)


def _part(value: Value, key: str | int) -> Value:
    """A field of a tree, an item of a tuple; anything else serves every leaf."""
    match value:
        case Record(fields) if isinstance(key, str):
            return fields[key]
        case Items(parts) if isinstance(key, int):
            return parts[key]
        case _:
            return value


def _groups(function: Function) -> _Groups:
    parts: Partition = partition(function)
    bindings = {binding.var: binding for binding in function.bindings}
    found: dict[int, _Members] = {}
    for one in parts.groups:
        if len(one.members) == 1:
            continue
        inside = set(one.members)
        outside: dict[int, None] = {}
        for var in one.members:
            op = bindings[var].op
            assert isinstance(op, Prim)
            outside.update((arg, None) for arg in op.args if arg not in inside)
        found[one.root] = _Members(tuple(bindings[var] for var in one.members), tuple(outside))
    return _Groups(found, parts.interior())


def _parts(value: Value, path: str, found: list[Part], numbers: list[tuple[str, AnyExpr]]) -> None:
    """The tensors and the hyperparameters of a result, and the ways to them."""
    match value:
        case Tensor(operand, ref):
            found.append(Part(path, operand, ref))
        case Items(parts):
            for place, one in enumerate(parts):
                _parts(one, f"{path}.{place}", found, numbers)
        case Record(fields):
            for name, one in fields.items():
                _parts(one, f"{path}.{name}", found, numbers)
        case Hyper(expr):
            numbers.append((path, expr))
        case Layers() | Closure():
            raise TypeError(f"{type(value).__name__} is no result of an entry")
