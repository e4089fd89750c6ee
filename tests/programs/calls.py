"""Functions, modules, stacks and lambdas: made where a call of them is wanted, or found again.

A function's result generalizes the type that the call must give: lengths become dimensions of the function, leading axes its
`...`, an axis name an axis parameter. What the call gives is that type with the values put in.
"""

import re
from dataclasses import dataclass, field
from typing import Final
from unicodedata import normalize

from tests.programs.choices import pick, weighted
from tests.programs.lengths import Len, symbol
from tests.programs.others import Others
from tests.programs.state import (
    ARGUMENT,
    ATOM,
    FUNCTIONS,
    GENERIC,
    LOCALS,
    MODULES,
    SUM,
    TREES,
    Body,
    E,
    File,
    Fn,
    Fun,
    Param,
    Scope,
    Var,
    tight,
)
from tests.programs.types import (
    Ax,
    Axes,
    Composed,
    Hyper,
    Idx,
    Inst,
    Key,
    Mask,
    Module,
    Named,
    Real,
    Stacked,
    T,
    Tree,
    Tup,
    inst_lengths,
    is_open,
    lengths_of,
    match_axes,
    merge,
    put_in,
    tree_fields,
)


@dataclass(slots=True)
class At:
    """What a call puts into a signature: values of dimensions, the axes for `...`, names for axis parameters."""

    values: dict[str, Len] = field(default_factory=dict)
    prefix: Axes = ()
    open: bool = False
    names: dict[str, str] = field(default_factory=dict)

    def type(self, type_: T) -> T:
        """A type of the signature as the caller sees it."""
        return put_in(type_, self.values, self.prefix, self.open, self.names)


class Calls(Others):
    """The productions that call something, and the making of what they call."""

    def calls(self, scope: Scope, goal: Real, data: bool) -> list[tuple[int, str]]:
        """See `Writer`."""
        found = [(1, "applied")]
        if scope.funs and not data:
            found.append((6, "lambda_again"))
        if scope.depth < 3 and len(scope.file.functions) < 6:
            found.append((4, "call"))
        if not data and len(goal.axes) <= 3:
            found += [(5, "module"), (3, "stack")]
            if scope.fn.module is not None:
                found.append((2, "sibling"))
            found.append((2, "composed"))
        if not data:
            found.append((3, "leaf_of_tree"))
            if scope.fn.module is not None:
                found += [(2, "module"), (3, "stack")]
        return found

    # --- generalizing a goal ------------------------------------------------------------------------------------------

    def generalized(self, scope: Scope, goal: Real, file: File, params: list[str], generic: bool) -> tuple[Real, At]:
        """A type of a signature, and what must be put in for it to become the goal; `params` are its new dimensions."""
        at = At(open=goal.open)
        axes = goal.axes
        cut = 0
        if goal.open or (axes and self.chance(3) and axes[0].name):
            while cut < len(axes) and axes[cut].name and cut < (0 if goal.open and not self.chance(3) else 2):
                cut += 1
        wide = goal.open or cut > 0
        at.prefix = axes[:cut]
        known: dict[Len, Len] = {}
        tail = []
        for axis in axes[cut:]:
            tail.append(Ax(self.general_length(scope, axis.length, file, params, at, known, generic), axis.name))
        return Real(tuple(tail), wide), at

    def general_length(
        self, scope: Scope, length: Len, file: File, params: list[str], at: At, known: dict[Len, Len], generic: bool
    ) -> Len:
        """A length of a signature for a length of a call."""
        if length.is_const() and (not params or self.chance(2)):
            return length
        if not generic and file is scope.file and set(length.symbols()) <= set(file.dims):
            for name in length.symbols():
                at.values.setdefault(name, symbol(name))
            return length
        if length in known:
            return known[length]
        name = next((one for one in GENERIC if one not in at.values), f"P{len(at.values)}")
        params.append(name)
        at.values[name] = length
        known[length] = symbol(name)
        return known[length]

    def banned(self, scope: Scope, at: At) -> set[str]:
        """The names that a new function's `...` may stand for."""
        return {axis.name for axis in at.prefix if axis.name} | (scope.fn.banned if at.open else set())

    # --- functions ----------------------------------------------------------------------------------------------------

    def call(self, scope: Scope, goal: Real, fuel: int, data: bool) -> E | None:
        """A call of a function of the file, of the imported one, or of a new one."""
        found = self.known_function(scope, goal, data)
        if found is None:
            found = self.new_function(scope, goal, fuel, data)
        fn, at = found
        return self.calling(scope, fn, at, goal, fuel, data)

    def known_function(self, scope: Scope, goal: Real, data: bool) -> tuple[Fn, At] | None:
        """A function that can give the goal."""
        candidates = []
        files = [scope.file, *(file for _, _, file in scope.file.imports)]
        for file in files:
            for fn in file.functions:
                if fn.name == scope.fn.name or (data and any(isinstance(p.type, Tree) for p in fn.params)):
                    continue
                if (fn.rand and not scope.fn.uses) or (fn.carried and not data):
                    continue
                at = self.matched(scope, fn, goal)
                if at is not None:
                    candidates.append((fn, at))
        if not candidates or self.chance(3):
            return None
        self.use("function used again")
        return pick(self.choices, candidates)

    def matched(self, scope: Scope, fn: Fn, goal: Real) -> At | None:
        """What a function's signature needs put in to give the goal."""
        result = fn.result
        if not isinstance(result, Real) or (goal.open and not result.open) or fn.axis_names:
            return None
        cut = len(goal.axes) - len(result.axes)
        if cut < 0 or (cut and not result.open) or not all(axis.name for axis in goal.axes[:cut]):
            return None
        known: dict[str, Len] = {}
        if not match_axes(result.axes, goal.axes[cut:], known):
            return None
        at = At(known, goal.axes[:cut], goal.open)
        given = put_in(result, known, at.prefix, at.open)
        if not isinstance(given, Real) or merge(given.axes, goal.axes) is None:
            return None
        for param in fn.params:
            for length in lengths_of(param.type):
                for name in length.symbols():
                    if name not in known:
                        known[name] = self.some_length(scope)
            given = put_in(param.type, known, at.prefix, at.open)
            if isinstance(given, Real | Idx) and merge(given.axes, given.axes) is None:
                return None
        front = {axis.name for axis in at.prefix} | (scope.fn.banned if goal.open else set())
        if fn.tails & front:
            return None
        for param in fn.params:
            if isinstance(param.type, Tree):
                own = set().union(*(hidden(module) for module in modules_of(param.type.inst)), set())
                if own and (
                    fn.file is not scope.file or any(known.get(name, symbol(name)) != symbol(name) for name in own)
                ):
                    return None
                known.update({name: symbol(name) for name in own})
        for name, bound in fn.file.dims.items():
            if bound is None or name not in known:
                continue
            value = known[name]
            same = fn.file is scope.file and value == symbol(name)
            if not same and not (value.is_const() and value.const <= bound):
                return None
        return at

    def new_function(self, scope: Scope, goal: Real, fuel: int, data: bool) -> tuple[Fn, At]:
        """A new function of the file that can give the goal."""
        file = scope.file
        kind = weighted(self.choices, [(4, "plain"), (4, "generic"), (2, "axis"), (2, "inferred")])
        if kind == "axis" and not any(axis.name for axis in goal.axes):
            kind = "generic"
        foreign = set().union(*(set(axis.length.symbols()) for axis in goal.axes)) - set(file.dims)
        params: list[str] = []
        result, at = self.generalized(scope, goal, file, params, kind in ("generic", "axis") or bool(foreign))
        fn = Fn(
            self.fresh(file.names, FUNCTIONS), file, type_params=params, result=result, uses=not data and scope.fn.uses
        )
        fn.banned = self.banned(scope, at)
        fn.data = data
        fn.carried = data
        if kind == "axis":
            place = next((at_ for at_, axis in enumerate(result.axes) if axis.name), None)
            if place is not None:
                own = "axis_a"
                actual = result.axes[place].name
                assert actual is not None
                fn.plain = True
                fn.axis_names[own] = actual
                at.names[own] = actual
                axes = (*result.axes[:place], Ax(result.axes[place].length, own), *result.axes[place + 1 :])
                result = fn.result = Real(axes, result.open)
                fn.params.append(Param(own, Key(), kind="axis"))
                fn.names.add(own)
                self.use("axis parameter")
        self.write(fn, min(fuel, 2), inferred=kind == "inferred" and not fn.plain)
        at.values = {**{name: symbol(name) for name in file.dims}, **at.values}
        return fn, at

    def write(self, fn: Fn, fuel: int, inferred: bool = False, first: tuple[str, T] | None = None) -> E:
        """Writes the function's body and declares it; its result is known."""
        scope = Scope(fn)
        if first is not None:
            name, type_ = first
            fn.names.add(name)
            fn.params.insert(0, Param(name, type_))
            scope.vars.append(Var(name, type_, ARGUMENT, False))
        if fn.module is not None:
            for name, held in fn.module.fields:
                fn.names.add(name)
                if isinstance(held, Real):
                    scope.vars.append(Var(name, held, 2.0, False))
        e = self.body(scope, fn.result, fuel)
        inferred = inferred and not fn.data
        self.complete(fn, scope, inferred)
        fn.mag = e.mag
        if inferred:
            fn.result = e.type
            self.use("inferred result")
        self.declare(fn, scope, e, inferred)
        return e

    def body(self, scope: Scope, goal: T, fuel: int) -> E:
        """Some `let`s and the result, whose elements are within bounds."""
        for _ in range(self.choices.below(3) if fuel > 0 else 0):
            self.statement(scope, fuel - 1)
        e = self.value(scope, goal, fuel, scope.fn.data)
        if isinstance(e.type, Real):
            e = self.settle(scope, self.woven(scope, e), ARGUMENT)
        return e

    def woven(self, scope: Scope, e: E) -> E:
        """The result with what has a name and is not read yet, most of the time."""
        for fun in scope.funs:
            if not _mentions([*scope.lines, e.text], fun.text, 1) and not self.chance(6):
                arg = self.settle(scope, self.value(scope, fun.takes, 1), ARGUMENT)
                self.use("lambda called")
                scope.fn.needs += fun.needs
                e = self.with_total(scope, e, E(f"{fun.text}({arg.text})", ATOM, fun.gives, fun.mag))
        params = {param.name for param in scope.fn.params}
        fields = set() if scope.fn.module is None else {name for name, _ in scope.fn.module.fields}
        for var in scope.vars:
            if not isinstance(var.type, Real) or "." in var.text or (scope.fn.data and not var.data):
                continue
            if var.text in params and any(line.startswith(f"let {var.text} =") for line in scope.lines):
                pass
            elif var.text in params or var.text in fields:
                continue
            if _mentions([*scope.lines, e.text], var.text, 2) or self.chance(6):
                continue
            e = self.with_total(scope, e, E(var.text, ATOM, var.type, var.mag, var.data))
        return e

    def with_total(self, scope: Scope, e: E, more: E) -> E:
        """An expression and the sum or the mean of another one's elements, which is a scalar."""
        assert isinstance(more.type, Real)
        axes = more.type.axes
        name = "sum"
        if not more.type.open and self.chance(3) and all(axis.length != Len() for axis in axes):
            name = "mean"
            for axis in axes:
                scope.fn.require(axis.length, 1)
        total = f"{name}({more.text})"
        if more.mag > 1 or name == "sum":
            total = f"{pick(self.choices, ('tanh', 'sin', 'sigmoid'))}({total})"
        self.use(name)
        front = e.text if e.prec >= SUM else f"({e.text})"
        return E(f"{front} + {total}", SUM, e.type, e.mag + 1, e.data and more.data)

    def statement(self, scope: Scope, fuel: int) -> None:
        """A `let`."""
        data = scope.fn.data
        kinds = [(8, "real"), (2, "again"), (1, "pair")]
        if scope.fn.lambdas and not data and not scope.fn.plain and not scope.depth:
            kinds.append((3, "lambda"))
        if scope.fn.uses and not scope.fn.plain and not data:
            kinds.append((1, "keys"))
        if not scope.fn.plain:
            kinds.append((1, "indices"))
        if not data and not scope.fn.plain:
            kinds.append((2, "fold"))
            if fuel > 0 and not scope.depth and len(scope.file.functions) < 6:
                kinds.append((2, "several"))
            if scope.fn.uses and scope.fn.module is None and not scope.depth and scope.file.modules:
                kinds.append((1, "init"))
        kind = weighted(self.choices, kinds)
        match kind:
            case "several":
                self.several(scope, fuel)
            case "init":
                self.initialized(scope)
            case "again":
                known = [
                    var
                    for var in scope.vars
                    if isinstance(var.type, Real) and "." not in var.text and (var.data or not data)
                ]
                known = [
                    var for var in known if scope.fn.module is None or var.text not in dict(scope.fn.module.fields)
                ]
                if not known:
                    return
                var = pick(self.choices, known)
                assert isinstance(var.type, Real)
                e = self.real(scope, var.type, fuel, data)
                self.use("name bound again")
                self.let(scope, var.text, e)
            case "pair":
                types = [Real(self.some_axes(scope, 2), False) for _ in range(2 + self.choices.below(2))]
                parts = [self.real(scope, type_, fuel, data) for type_ in types]
                names = [self.local(scope) for _ in parts]
                self.use("tuple pattern")
                scope.lines.append(f"let ({', '.join(names)}) = ({', '.join(e.text for e in parts)})")
                for name, e in zip(names, parts):
                    scope.bind(Var(name, e.type, e.mag, e.data))
            case "lambda":
                self.bind_lambda(scope, fuel)
            case "keys":
                key = self.value(scope, Key(), 1)
                names = [self.fresh(scope.fn.names, ("k1", "k2", "ka")) for _ in range(2)]
                scope.fn.rand = True
                self.use("split_key")
                scope.lines.append(f"let ({names[0]}, {names[1]}) = split_key({key.text})")
                for name in names:
                    scope.bind(Var(name, Key(), 1.0, True))
            case "indices":
                bound = self.some_length(scope, 1)
                e = self.value(scope, Idx(bound, self.some_axes(scope, 2, named=True)), fuel)
                self.let(scope, self.local(scope), e)
            case "fold":
                self.carried(scope, fuel)
            case _:
                e = self.real(scope, Real(self.some_axes(scope, 3), False), fuel, data)
                self.let(scope, self.local(scope), e)

    def several(self, scope: Scope, fuel: int) -> None:
        """A function that gives a tuple, which is taken apart; a part of it may be a tuple as well."""
        file = scope.file
        parts: list[T] = [Real(self.some_axes(scope, 2)), Real(self.some_axes(scope, 2))]
        foreign = set().union(*(set(length.symbols()) for part in parts for length in lengths_of(part)), set()) - set(
            file.dims
        )
        if foreign:
            return
        kind = self.choices.below(6)
        if kind == 1:
            parts.append(Hyper(pick(self.choices, ("bool", "int", "nat"))))
        elif kind == 2:
            parts.append(Tup((Real(), Hyper("f64"))))
        elif kind == 3:
            parts.append(Idx(self.some_length(scope, 1), self.some_axes(scope, 1, named=True)))
        elif kind == 4:
            parts.append(Mask(self.some_axes(scope, 1, named=True)))
        if set().union(*(set(length.symbols()) for part in parts for length in lengths_of(part)), set()) - set(
            file.dims
        ):
            return
        fn = Fn(self.fresh(file.names, FUNCTIONS), file, result=Tup(tuple(parts)), uses=scope.fn.uses)
        inferred = self.chance(4)
        self.write(fn, min(fuel, 2), inferred=inferred)
        assert isinstance(fn.result, Tup)
        at = At({name: symbol(name) for name in file.dims})
        args, _ = self.args(scope, fn, at, min(fuel, 1), False)
        self.called(scope, fn, at)
        self.use("call", "function of a tuple")
        names = [self.local(scope) for _ in parts]
        scope.lines.append(f"let ({', '.join(names)}) = {self.path(file, fn.name, True)}({', '.join(args)})")
        for name, type_ in zip(names, fn.result.items):
            if isinstance(type_, Tup):
                inner = [self.local(scope) for _ in type_.items]
                self.use("tuple in a tuple")
                scope.lines.append(f"let ({', '.join(inner)}) = {name}")
                for one, item in zip(inner, type_.items):
                    scope.bind(Var(one, item, ARGUMENT, not isinstance(item, Real)))
            else:
                scope.bind(Var(name, type_, ARGUMENT, not isinstance(type_, Real)))

    def initialized(self, scope: Scope) -> None:
        """`let θ = M.init(key)`."""
        module, _ = pick(self.choices, scope.file.modules)
        inst = Named(module, tuple(Len(2) if name == "Depth" else self.some_length(scope) for name in module.dims))
        # Nothing in the call says what a dimension of the file would be in the tree.
        if hidden(module):
            return
        key = self.value(scope, Key(), 1)
        scope.fn.rand = True
        self.use("init", "draws")
        name = self.fresh(scope.fn.names, TREES)
        args = self.arguments(scope.file, inst.args)
        scope.lines.append(f"let {name} = {self.module_path(scope.file, module)}{args}.init({key.text})")
        scope.bind(Var(name, Tree(inst), 4.0, True))
        self.fields_of(scope, name, inst)

    def let(self, scope: Scope, name: str, e: E) -> None:
        """Binds a name."""
        scope.lines.append(f"let {self.name(scope.file, name)} = {e.text}")
        scope.bind(Var(name, e.type, e.mag, e.data))

    def complete(self, fn: Fn, scope: Scope, inferred: bool) -> None:
        """Gives the function parameters from which a call can tell all of its dimensions."""
        known: set[str] = set(fn.module.dims) if fn.module is not None else set()
        for param in fn.params:
            known |= bare_symbols(param.type)
        for length in lengths_of(fn.result):
            fn.symbols.update(length.symbols())
        for param in fn.params:
            for length in lengths_of(param.type):
                fn.symbols.update(length.symbols())
        missing = sorted((fn.symbols | set(fn.type_params)) - known)
        if missing:
            axes = tuple(Ax(symbol(name), None) for name in missing)
            fn.params.append(Param(self.fresh(fn.names, LOCALS), Real(axes), data=fn.data))
        if is_open(fn.result) and not any(is_open(param.type) for param in fn.params):
            fn.params.append(Param(self.fresh(fn.names, LOCALS), Real((), True), data=fn.data))
        for param in fn.params:
            if isinstance(param.type, Hyper) and param.kind == "value" and not inferred and self.chance(2):
                param.default = {"nat": "2", "f64": "0.75", "int": "-1", "bool": "1 < 2"}.get(param.type.kind)
                if param.default is not None:
                    self.use("default")

    # --- declarations -------------------------------------------------------------------------------------------------

    def declare(self, fn: Fn, scope: Scope, e: E, inferred: bool) -> None:
        """Adds the function to its file or to its module."""
        text = self.function(fn, scope, e, inferred)
        if fn.module is None:
            fn.file.body.append(Body(text, movable=not inferred))
            fn.file.functions.append(fn)
        else:
            fn.file.members[fn.module].append(fn)
            fn.file.texts[fn.module].append(text)

    def function(self, fn: Fn, scope: Scope, e: E, inferred: bool = False) -> str:
        """The declaration's text."""
        file = fn.file
        generic = ""
        if fn.type_params:
            self.use("dimension parameter")
            if len(fn.type_params) > 1 and self.chance(3):
                generic = f"{{{', '.join(f'{name} : dim' for name in fn.type_params)}}}"
            else:
                generic = f"{{{' '.join(fn.type_params)} : dim}}"
        params = []
        for param in fn.params:
            if param.kind == "axis":
                params.append(f"axis {param.name}")
                continue
            if param.kind == "module":
                assert isinstance(param.type, Tree)
                params.append(f"{param.name} : {self.inst(file, param.type.inst)}")
                continue
            type_ = f"params {param.net}" if param.net else self.type(file, param.type)
            default = f" = {param.default}" if param.default else ""
            params.append(f"{self.name(file, param.name)} : {type_}{default}")
        joint = ", "
        if len(params) > 3 and self.chance(3):
            joint = ",\n    "
            self.use("signature of several lines")
        result = "" if inferred else f" -> {self.type(file, fn.result)}"
        uses = " uses Rand" if fn.rand else ""
        head = f"fn {self.name(file, fn.name)}{generic}({joint.join(params)}){result}{uses} ="
        lines = [*scope.lines, e.text]
        if len(lines) == 1 and "\n" not in e.text and self.chance(3):
            return f"{head} {e.text}"
        if self.chance(6):
            self.use("comment")
            lines.insert(self.choices.below(len(lines)), "-- a comment")
        return head + "".join(f"\n  {line}" for line in lines)

    # --- calling ------------------------------------------------------------------------------------------------------

    def calling(
        self, scope: Scope, fn: Fn, at: At, goal: Real, fuel: int, data: bool, path: str | None = None, skip: int = 0
    ) -> E | None:
        """The call's text; `skip` parameters are the caller's affair."""
        result = at.type(fn.result)
        if isinstance(result, Real) and merge(result.axes, goal.axes) is None:
            return None
        args, all_data = self.args(scope, fn, at, fuel, data, skip)
        self.called(scope, fn, at)
        own = path or self.path(scope.file, fn.name, any(fn is one for one in scope.file.functions))
        if fn.file is not scope.file:
            self.use("function of another file")
        self.use("call")
        return E(f"{own}({', '.join(args)})", ATOM, result, fn.mag, all_data and data)

    def called(self, scope: Scope, fn: Fn, at: At) -> None:
        """What the caller takes over from the callee."""
        for length, least in fn.needs:
            scope.fn.require(length.put_in(at.values), least)
        scope.fn.rand = scope.fn.rand or fn.rand
        if at.open:
            scope.fn.tails |= fn.tails
        for length in at.values.values():
            scope.fn.symbols.update(length.symbols())

    def args(
        self, scope: Scope, fn: Fn, at: At, fuel: int, data: bool, skip: int = 0, first: list[str] | None = None
    ) -> tuple[list[str], bool]:
        """Arguments for a function's parameters: by position, the last ones by name now and then."""
        texts = list(first or [])
        named = False
        all_data = True
        waiting: list[str] = []
        for place, param in enumerate(fn.params[skip:]):
            rest = len(fn.params) - skip - place
            if param.kind == "axis":
                texts.append(f"axis {at.names[param.name]}")
                continue
            if param.kind == "module":
                net = at.type(param.type)
                assert isinstance(net, Tree)
                texts.append(self.inst(scope.file, net.inst))
                self.use("module argument")
                continue
            if param.default is not None and self.chance(2):
                self.use("argument left out")
                named = True
                continue
            wanted = at.type(param.type)
            e = self.argument(scope, param, wanted, fuel, data)
            all_data = all_data and e.data
            if named or (rest <= 2 and self.chance(5)):
                named = True
                self.use("named argument")
                waiting.insert(self.choices.below(len(waiting) + 1), f"{self.name(scope.file, param.name)} = {e.text}")
            else:
                texts.append(e.text)
        return texts + waiting, all_data

    def argument(self, scope: Scope, param: Param, wanted: T, fuel: int, data: bool) -> E:
        """One argument. Behind `...` all names are said, so that two of them agree."""
        e = self.value(scope, wanted, min(fuel, 2), data or param.data)
        if isinstance(wanted, Real):
            e = self.settle(scope, e, ARGUMENT)
        if is_open(param.type) and isinstance(wanted, Real | Idx):
            e = self.exact(scope, e, wanted)
        return e

    # --- modules ------------------------------------------------------------------------------------------------------

    def module(self, scope: Scope, goal: Real, fuel: int, data: bool) -> E | None:
        """A member function of a module, found or new."""
        return self.applied_module(scope, goal, fuel)

    def stack(self, scope: Scope, goal: Real, fuel: int, data: bool) -> E | None:
        """A stacked module; outside a module, one that wraps the stack."""
        if scope.fn.module is None:
            return self.applied_module(scope, goal, fuel, stacked=True)
        return self.through_stack(scope, goal, fuel)

    def composed(self, scope: Scope, goal: Real, fuel: int, data: bool) -> E | None:
        """`A ∘ B`."""
        if scope.fn.module is not None:
            return self.through_composition(scope, goal, fuel)
        if self.chance(2):
            return self.declared_model(scope, goal, fuel)
        return self.applied_module(scope, goal, fuel, compose=True)

    def applied_module(
        self, scope: Scope, goal: Real, fuel: int, stacked: bool = False, compose: bool = False
    ) -> E | None:
        """`M.apply(θ, …)`, `net.apply(θ, …)`, or `l1.apply(…)` in a module."""
        found = None
        if not (stacked or compose):
            found = self.known_module(scope, goal)
        if found is None:
            if len(scope.file.modules) > 6:
                return None
            found = self.new_module(scope, goal, fuel, stacked, compose)
        module, fn, at = found
        inst = Named(module, tuple(at.values[name] for name in module.dims))
        if scope.fn.module is not None:
            name = self.used(scope, inst)
            return self.calling(scope, fn, at, goal, fuel, False, f"{name}.{fn.name}")
        return self.with_tree(scope, inst, fn, at, goal, fuel)

    def known_module(self, scope: Scope, goal: Real) -> tuple[Module, Fn, At] | None:
        """A module whose function can give the goal."""
        candidates = []
        files = [scope.file, *(file for _, _, file in scope.file.imports)]
        for file in files:
            for module, fn in file.modules:
                if module is scope.fn.module or module.model is not None or (fn.rand and not scope.fn.uses):
                    continue
                own = hidden(module)
                at = None if own and file is not scope.file else self.matched(scope, fn, goal)
                if at is None or any(at.values.get(name, symbol(name)) != symbol(name) for name in own):
                    continue
                for name in module.dims:
                    if name not in at.values:
                        at.values[name] = Len(2) if name == "Depth" else self.some_length(scope)
                at.values |= {name: symbol(name) for name in own}
                candidates.append((module, fn, at))
        if not candidates or self.chance(3):
            return None
        self.use("module used again")
        return pick(self.choices, candidates)

    def new_module(
        self,
        scope: Scope,
        goal: Real,
        fuel: int,
        stacked: bool = False,
        compose: bool = False,
        first: T | None = None,
    ) -> tuple[Module, Fn, At]:
        """A new module whose `apply` can give the goal; with `first`, of an argument of that type."""
        file = scope.file
        known = set(file.dims)
        symbols = set().union(*(set(axis.length.symbols()) for axis in goal.axes))
        if first is not None:
            symbols |= set().union(*(set(length.symbols()) for length in lengths_of(first)), set())
        generic = bool(symbols - known) or not self.chance(3)
        params: list[str] = []
        module = Module(self.fresh(file.names, MODULES))
        if first is None:
            result, at = self.generalized(scope, goal, file, params, generic)
        else:
            result, at = goal, At(open=goal.open)
            if generic and symbols:
                at.values = {}
                renamed: dict[str, Len] = {}
                for name, own in zip(sorted(symbols), GENERIC):
                    renamed[name] = symbol(own)
                    at.values[own] = symbol(name)
                    params.append(own)
                moved = put_in(goal, renamed, (), goal.open)
                assert isinstance(moved, Real)
                result = Real(moved.axes, goal.open)
                first = put_in(first, renamed, (), goal.open)
        module.dims = params
        file.members[module] = []
        file.texts[module] = []
        fn = Fn("apply", file, module, result=result, uses=scope.fn.uses)
        fn.banned = self.banned(scope, at)
        if stacked or compose:
            inner = Scope(fn)
            deep = 1 + self.choices.below(3) if stacked and self.chance(3) else None
            if stacked:
                made = self.through_stack(inner, result, fuel, deep)
            else:
                made = self.through_composition(inner, result, fuel)
            if "Depth" in module.dims:
                at.values["Depth"] = Len(deep or 0)
            e = made if made is not None else self.real(inner, result, fuel)
            e = self.settle(inner, e, ARGUMENT)
            self.complete(fn, inner, False)
            fn.mag = e.mag
            self.declare(fn, inner, e, False)
        elif first is not None:
            self.write(fn, min(fuel, 2), first=("x", first))
        else:
            self.write(fn, min(fuel, 2))
        self.finish_module(file, module)
        file.modules.append((module, fn))
        at.values = {**{name: symbol(name) for name in file.dims}, **at.values}
        return module, fn, at

    def finish_module(self, file: File, module: Module) -> None:
        """Adds the module's text to its file."""
        generic = ""
        if module.dims:
            self.use("generic module")
            generic = f"{{{' '.join(module.dims)} : dim}}"
        lines = []
        for name, held in module.fields:
            if isinstance(held, Real):
                kind = module.inits.get(name, "")
                said = "param " if self.chance(8) else ""
                lines.append(f"param {name} : {said}{self.type(file, held)}" + (f"  init = {kind}" if kind else ""))
            else:
                lines.append(f"use {name} : {self.inst(file, held)}")
        for text in file.texts[module]:
            lines.append(text.replace("\n", "\n  "))
        self.use("module")
        inside = "".join(f"\n  {line}" for line in lines)
        file.body.append(Body(f"module {self.name(file, module.name)}{generic} {{{inside}\n}}"))

    def used(self, scope: Scope, inst: Inst) -> str:
        """A sub-module of the own module."""
        module = scope.fn.module
        assert module is not None
        own = [name for name, held in module.fields if held == inst]
        if own and self.chance(2):
            self.use("sub-module used again")
            return pick(self.choices, own)
        taken = {name for name, _ in module.fields} | {fn.name for fn in scope.file.members[module]} | scope.fn.names
        name = self.fresh(taken, ("l1", "l2", "sub", "blocks", "inner_"))
        module.fields.append((name, inst))
        scope.fn.names.add(name)
        for fn in scope.file.members[module]:
            fn.names.add(name)
        self.use("sub-module")
        return name

    def with_tree(self, scope: Scope, inst: Named, fn: Fn, at: At, goal: Real, fuel: int) -> E | None:
        """A member function outside modules, with its tree as the first argument."""
        wanted = Tree(inst)
        owner = self.module_path(scope.file, inst.module)
        known = [var for var in scope.vars if var.type == wanted]
        nets = {param.name: param for param in scope.fn.params if param.kind == "module"}
        if known and not self.chance(4):
            var = pick(self.choices, known[::-1])
            tree = var.text
        elif not nets and not scope.fn.plain and not scope.depth and self.chance(4):
            self.use("module parameter")
            net = self.fresh(scope.fn.names, ("net", "model_"))
            tree = self.fresh(scope.fn.names, ("θ", "φ", "ψ"))
            scope.fn.params.append(Param(net, wanted, kind="module"))
            scope.fn.params.append(Param(tree, wanted, net=net))
            scope.vars.insert(0, Var(tree, wanted, 2.0, False))
            owner = net
        else:
            tree = self.parameter(scope, wanted, False).text
        self.fields_of(scope, tree, inst)
        args, _ = self.args(scope, fn, at, fuel, False, first=[tree])
        self.called(scope, fn, at)
        self.use("member call")
        result = at.type(fn.result)
        if isinstance(result, Real) and merge(result.axes, goal.axes) is None:
            return None
        return E(f"{owner}.{fn.name}({', '.join(args)})", ATOM, result, fn.mag)

    def fields_of(self, scope: Scope, tree: str, inst: Inst) -> None:
        """Makes the leaves and parts of a tree known."""
        if any(var.text.startswith(f"{tree}.") for var in scope.vars):
            return
        waiting = [(tree, inst, 0)]
        found = []
        while waiting:
            path, one, depth = waiting.pop()
            for name, held in tree_fields(one):
                if isinstance(held, Tree):
                    if depth < 2:
                        waiting.append((f"{path}.{name}", held.inst, depth + 1))
                    if isinstance(held.inst, Named):
                        found.append(Var(f"{path}.{name}", held, 2.0, False))
                elif isinstance(held, Real) and len(held.axes) <= 4:
                    found.append(Var(f"{path}.{name}", held, 2.0, False))
        scope.vars = [*found, *scope.vars]

    def leaf_of_tree(self, scope: Scope, goal: Real, fuel: int, data: bool) -> E | None:
        """A leaf of a tree, by its path."""
        known = [
            var
            for var in scope.vars
            if "." in var.text and isinstance(var.type, Real) and not goal.open and merge(var.type.axes, goal.axes)
        ]
        known = [var for var in known if isinstance(var.type, Real) and merge(var.type.axes, goal.axes) is not None]
        if not known:
            return self.from_var(scope, goal, fuel, data)
        var = pick(self.choices, known)
        self.use("leaf by its path")
        return E(var.text, ATOM, var.type, var.mag)

    def sibling(self, scope: Scope, goal: Real, fuel: int, data: bool) -> E | None:
        """Another function of the same module."""
        module = scope.fn.module
        assert module is not None
        if len(scope.file.members[module]) > 1 or scope.fn.name != "apply" or scope.depth:
            return None
        taken = {name for name, _ in module.fields} | {"apply"} | scope.fn.names
        name = self.fresh(taken, ("aux", "gate", "side"))
        scope.fn.names.add(name)
        fn = Fn(name, scope.file, module, result=goal, uses=scope.fn.uses)
        fn.banned = scope.fn.banned
        fn.names |= {name}
        self.write(fn, min(fuel, 1))
        self.use("sibling function")
        at = At({one: symbol(one) for one in (*module.dims, *scope.file.dims)}, (), goal.open)
        return self.calling(scope, fn, at, goal, fuel, False, name)

    # --- stacks and compositions --------------------------------------------------------------------------------------

    def depth(self, scope: Scope) -> Len:
        """How many layers."""
        return Len(pick(self.choices, (2, 1, 3, 2, 0)))

    def through_stack(self, scope: Scope, goal: Real, fuel: int, deep: int | None = None) -> E | None:
        """`blocks.apply(x, …)` over `stack{L}(M)`; what is handed on has the goal's type. With `deep`, L is a dimension of the
        own module, whose value that will be."""
        if any(not axis.name for axis in goal.axes) and goal.open:
            return None
        if len(scope.file.modules) > 6:
            return None
        module, fn, at = self.new_module(scope, goal, min(fuel, 2), first=goal)
        inst: Inst = Named(module, tuple(at.values[name] for name in module.dims))
        count = self.depth(scope)
        layers = count.const
        if deep is not None and scope.fn.module is not None:
            layers = deep
            scope.fn.module.dims.append("Depth")
            count = symbol("Depth")
            self.use("depth of a module")
        inst = Stacked(count, inst)
        if self.chance(4):
            self.use("stack of stacks")
            inst = Stacked(Len(2), inst)
        self.use("stack", "stack of none" if layers == 0 else f"stack of {layers}")
        if goal.open:
            self.use("open stack")
        name = self.used(scope, inst)
        start = self.settle(scope, self.real(scope, goal, min(fuel, 1)), ARGUMENT)
        start = self.exact(scope, start, goal) if goal.open or self.chance(2) else start
        args, _ = self.args(scope, fn, at, min(fuel, 1), False, skip=1, first=[start.text])
        if len(fn.params) > 1:
            self.use("stack with extra arguments")
        if layers:
            self.called(scope, fn, at)
        scope.fn.rand = scope.fn.rand or fn.rand
        for length in at.values.values():
            scope.fn.symbols.update(length.symbols())
        return E(f"{name}.apply({', '.join(args)})", ATOM, at.type(fn.result), ARGUMENT)

    def carried(self, scope: Scope, fuel: int) -> None:
        """A `let` that takes apart what a stack has handed on: a tensor and a key, or two tensors."""
        if len(scope.file.modules) > 6:
            return
        goal = Real(self.some_axes(scope, 2, named=True))
        other: T = Key() if scope.fn.uses and not self.chance(3) else Real(self.some_axes(scope, 1, named=True))
        acc = Tup((goal, other))
        file = scope.file
        outside = scope.fn.module is None
        symbols = set().union(*(set(length.symbols()) for length in lengths_of(acc)), set())
        module = Module(self.fresh(file.names, MODULES))
        renamed: dict[str, Len] = {}
        at = At()
        if symbols - set(file.dims) or self.chance(2):
            for name, own in zip(sorted(symbols), GENERIC):
                renamed[name] = symbol(own)
                at.values[own] = symbol(name)
                module.dims.append(own)
        file.members[module], file.texts[module] = [], []
        type_ = put_in(acc, renamed)
        assert isinstance(type_, Tup)
        fn = Fn("apply", file, module, result=type_, uses=True)
        fn.names.add("state")
        fn.params.append(Param("state", type_))
        inner = Scope(fn)
        one, two = type_.items
        names = [self.local(inner), "kk" if isinstance(two, Key) else self.local(inner)]
        inner.lines.append(f"let ({names[0]}, {names[1]}) = state")
        inner.bind(Var(names[0], one, ARGUMENT, False))
        assert isinstance(one, Real)
        second = names[1]
        if isinstance(two, Key):
            self.use("key in the accumulator")
            fn.rand = True
            inner.lines.append("let (kd, kn) = split_key(kk)")
            inner.bind(Var("kd", Key(), 1.0, True))
            second = "kn"
            fn.names |= {"kk", "kd", "kn"}
        else:
            self.use("tuple in the accumulator")
            inner.bind(Var(second, two, ARGUMENT, False))
        e = self.settle(inner, self.real(inner, one, min(fuel, 2)), ARGUMENT)
        if isinstance(two, Key) and self.chance(2):
            self.use("dropout")
            e = E(f"dropout(0.25, kd, {e.text})", ATOM, e.type, e.mag)
        if isinstance(two, Real):
            other_e = self.settle(inner, self.real(inner, two, min(fuel, 1)), ARGUMENT)
            second = other_e.text
        whole = E(f"({e.text}, {second})", ATOM, type_, ARGUMENT)
        self.complete(fn, inner, False)
        self.declare(fn, inner, whole, False)
        self.finish_module(file, module)
        file.modules.append((module, fn))
        at.values = {**{name: symbol(name) for name in file.dims}, **at.values}
        layers = self.depth(scope)
        inst = Named(module, tuple(at.values[name] for name in module.dims))
        start = self.value(scope, acc, min(fuel, 1))
        if outside:
            tree = self.parameter(scope, Tree(inst), False).text
            args, _ = self.args(scope, fn, at, min(fuel, 1), False, skip=1, first=[tree, start.text])
            self.called(scope, fn, at)
            call = f"{self.module_path(file, module)}.apply({', '.join(args)})"
        else:
            self.use("fold of a tuple", "stack", "stack of none" if not layers.const else f"stack of {layers.const}")
            name = self.used(scope, Stacked(layers, inst))
            args, _ = self.args(scope, fn, at, min(fuel, 1), False, skip=1, first=[start.text])
            if layers.const:
                self.called(scope, fn, at)
            scope.fn.rand = scope.fn.rand or fn.rand
            for length in at.values.values():
                scope.fn.symbols.update(length.symbols())
            call = f"{name}.apply({', '.join(args)})"
        local = self.local(scope)
        rest = self.local(scope) if isinstance(other, Real) else self.fresh(scope.fn.names, ("k9",))
        scope.lines.append(f"let ({local}, {rest}) = {call}")
        given = at.type(type_)
        assert isinstance(given, Tup)
        scope.bind(Var(local, given.items[0], ARGUMENT, False))
        scope.bind(Var(rest, given.items[1], ARGUMENT, isinstance(other, Key)))

    def through_composition(self, scope: Scope, goal: Real, fuel: int) -> E | None:
        """`parts.apply(x, …)` over `A ∘ B`, in a module."""
        made = self.composition(scope, goal, fuel)
        if made is None:
            return None
        inst, parts = made
        return self.apply_parts(scope, self.used(scope, inst), parts, [], fuel)

    def composition(self, scope: Scope, goal: Real, fuel: int) -> tuple[Composed, tuple[Fn, At, Fn, At]] | None:
        """`A ∘ B`, and how either is called."""
        if goal.open or len(scope.file.modules) > 5:
            return None
        between = Real(self.some_axes(scope, 2, named=True))
        start = Real(self.some_axes(scope, 2, named=True))
        last, outer, after = self.new_module(scope, goal, min(fuel, 2), first=between)
        first, inner, before = self.new_module(scope, between, min(fuel, 1), first=start)
        params = (*inner.params[1:], *outer.params[1:])
        # An argument that both declare would go to both.
        if len({param.name for param in params}) < len(params) or any(param.kind != "value" for param in params):
            return None
        inst = Composed(
            Named(last, tuple(after.values[name] for name in last.dims)),
            Named(first, tuple(before.values[name] for name in first.dims)),
        )
        return inst, (outer, after, inner, before)

    def apply_parts(self, scope: Scope, path: str, parts: tuple[Fn, At, Fn, At], front: list[str], fuel: int) -> E:
        """The call of a composition."""
        outer, after, inner, before = parts
        self.use("composition")
        first = self.argument(scope, inner.params[0], before.type(inner.params[0].type), min(fuel, 1), False)
        args, _ = self.args(scope, inner, before, min(fuel, 1), False, skip=1, first=[*front, first.text])
        more = []
        for param in outer.params[1:]:
            if param.default is None:
                e = self.argument(scope, param, after.type(param.type), min(fuel, 1), False)
                more.append(f"{param.name} = {e.text}")
        self.called(scope, outer, after)
        self.called(scope, inner, before)
        return E(f"{path}.apply({', '.join([*args, *more])})", ATOM, after.type(outer.result), outer.mag)

    def declared_model(self, scope: Scope, goal: Real, fuel: int) -> E | None:
        """`model Net = A ∘ B`, and a call of its `apply`."""
        made = self.composition(scope, goal, fuel)
        if made is None:
            return None
        inst, parts = made
        if any(not length.is_const() for length in inst_lengths(inst)):
            return None
        file = scope.file
        model = Module(self.fresh(file.names, ("Model", "Whole", "Chain")), model=inst)
        file.models.append(model)
        file.body.append(Body(f"model {model.name} = {self.inst(file, inst)}"))
        self.use("model")
        tree = self.parameter(scope, Tree(Named(model)), False)
        self.fields_of(scope, tree.text, Named(model))
        scope.fn.symbols |= set().union(*(hidden(one) for one in modules_of(inst)), set())
        return self.apply_parts(scope, model.name, parts, [tree.text], fuel)

    # --- lambdas ------------------------------------------------------------------------------------------------------

    def bind_lambda(self, scope: Scope, fuel: int) -> None:
        """`let f = λ a. …`, to be called later."""
        takes = Real(self.some_axes(scope, 2))
        gives = Real(self.some_axes(scope, 2))
        inner = scope.inner()
        inner.funs = []
        name = self.local(scope)
        self.bind_argument(inner, name, takes)
        before = len(scope.fn.needs)
        e = self.settle(inner, self.real(inner, gives, fuel), ARGUMENT)
        assert isinstance(e.type, Real)
        # A lambda that nothing calls needs nothing.
        needs = tuple(scope.fn.needs[before:])
        del scope.fn.needs[before:]
        own = self.fresh(scope.fn.names, ("f", "g", "ƒ"))
        lam = self.sign(scope.file, "λ ", "\\")
        typed = f"({name} : {self.type(scope.file, takes)})"
        pad = "\n" + "  " * (scope.depth + 2)
        body = pad.join([*inner.lines, e.text])
        if inner.lines:
            scope.lines.append(f"let {own} = ({lam}{typed}.{pad}{body})")
        else:
            scope.lines.append(f"let {own} = {lam}{typed}. {body}")
        self.use("lambda")
        scope.funs.append(Fun(own, takes, e.type, ARGUMENT, needs))

    def bind_argument(self, scope: Scope, name: str, type_: T) -> None:
        """Makes a lambda's argument known."""
        scope.fn.names.add(name)
        scope.bind(Var(name, type_, ARGUMENT, False))

    def lambda_again(self, scope: Scope, goal: Real, fuel: int, data: bool) -> E | None:
        """A call of a lambda that has a name, made to the goal's shape."""
        fits_ = [fun for fun in scope.funs if merge(fun.gives.axes, goal.axes) is not None and not goal.open]
        fun = pick(self.choices, fits_ or scope.funs)
        arg = self.settle(scope, self.value(scope, fun.takes, fuel), ARGUMENT)
        if isinstance(fun.takes, Real):
            arg = self.exact(scope, arg, fun.takes)
        e = E(f"{fun.text}({arg.text})", ATOM, fun.gives, fun.mag)
        self.use("lambda called")
        scope.fn.needs += fun.needs
        if fits_:
            return e
        scalar = E(f"sum({e.text})", ATOM, Real(), fun.mag * 36)
        scalar = self.settle(scope, scalar, 4.0)
        x = self.real(scope, goal, fuel)
        return E(f"{tight(x, 6)} * {scalar.text}", 6, x.type, x.mag * 4)

    def applied(self, scope: Scope, goal: Real, fuel: int, data: bool) -> E | None:
        """`(λ a. …)(x)`, or with a pair."""
        if data or not scope.fn.lambdas:
            return None
        pair = self.chance(2)
        types = [Real(self.some_axes(scope, 2)) for _ in range(2 if pair else 1)]
        given = [self.settle(scope, self.real(scope, type_, fuel), ARGUMENT) for type_ in types]
        inner = scope.inner()
        inner.funs = []
        names = [self.local(scope) for _ in given]
        for name, e in zip(names, given):
            self.bind_argument(inner, name, e.type)
        body = self.real(inner, goal, fuel)
        lam = self.sign(scope.file, "λ ", "\\")
        pattern = f"({', '.join(names)})" if pair else names[0]
        argument = f"({', '.join(e.text for e in given)})" if pair else given[0].text
        pad = "\n" + "  " * (scope.depth + 2)
        lines = pad.join([*inner.lines, body.text])
        start = pad if inner.lines else " "
        self.use("lambda applied" if not pair else "lambda of a pair")
        return E(f"({lam}{pattern}.{start}{lines})({argument})", ATOM, body.type, body.mag)


def bare_symbols(type_: T) -> set[str]:
    """The dimensions that a call can tell from an argument of a type."""
    match type_:
        case Real(axes) | Mask(axes) | Idx(_, axes):
            return {name for axis in axes if (name := axis.length.bare())}
        case Tup(items):
            return set().union(*map(bare_symbols, items), set())
        case Tree(inst):
            return {name for length in inst_lengths(inst) if (name := length.bare())}
        case _:
            return set()


_WORD: Final = re.compile(r"[\w\u0302\u0301]+")


def _mentions(texts: list[str], name: str, least: int) -> bool:
    """Whether a name stands so often in texts. (A `let` mentions the name that it binds.)"""
    return sum(normalize("NFC", word) == name for text in texts for word in _WORD.findall(text)) >= least


def hidden(module: Module) -> set[str]:
    """The dimensions of the file that a module's parameters mention, at any depth."""
    found: set[str] = set()
    if module.model is not None:
        return set().union(*(hidden(one) for one in modules_of(module.model)), set())
    for _, held in module.fields:
        for length in held_lengths(held):
            found.update(length.symbols())
        if not isinstance(held, Real):
            for inner in modules_of(held):
                found |= hidden(inner)
    return found - set(module.dims)


def modules_of(inst: Inst) -> list[Module]:
    """The modules that an instance names."""
    match inst:
        case Named(module):
            return [module]
        case Stacked(_, inner):
            return modules_of(inner)
        case Composed(outer, inner):
            return [*modules_of(outer), *modules_of(inner)]


def held_lengths(held: Real | Inst) -> list[Len]:
    """The lengths of a module's field."""
    return list(lengths_of(held)) if isinstance(held, Real) else list(inst_lengths(held))
