"""Everything that is no real tensor: indices, masks, numbers, keys, tuples, trees; and parameters made when they are wanted."""

from tests.programs.choices import pick, weighted
from tests.programs.reals import Reals
from tests.programs.state import (
    ARGUMENT,
    ATOM,
    INPUT,
    LOCALS,
    PRODUCT,
    SUM,
    TREES,
    UNARY,
    WEIGHTS,
    E,
    Param,
    Scope,
    Var,
    spread,
    tight,
    with_axes,
    without,
)
from tests.programs.types import Ax, Hyper, Idx, Key, Mask, Real, T, Tree, Tup, fits, is_open


class Others(Reals):
    """The productions of the other types."""

    def value(self, scope: Scope, goal: T, fuel: int, data: bool = False) -> E:
        """See `Writer`."""
        match goal:
            case Real():
                return self.real(scope, goal, fuel, data)
            case Idx():
                return self.choices.within(lambda: self.index_tensor(scope, goal, fuel))
            case Mask():
                return self.choices.within(lambda: self.mask(scope, goal, fuel))
            case Hyper(kind):
                return self.choices.within(lambda: self.hyper(scope, kind, fuel))
            case Tup(items):
                known = [var for var in scope.vars if var.type == goal and (var.data or not data)]
                if known and not self.chance(3):
                    var = pick(self.choices, known[::-1])
                    return E(var.text, ATOM, var.type, var.mag, var.data)
                made = [self.value(scope, item, fuel, data) for item in items]
                made = [self.settle(scope, e, ARGUMENT) if isinstance(e.type, Real) else e for e in made]
                self.use("tuple")
                mag = max((e.mag for e in made), default=1.0)
                text = f"({', '.join(e.text for e in made)})"
                return E(text, ATOM, Tup(tuple(e.type for e in made)), mag, all(e.data for e in made))
            case Key() | Tree():
                return self.found(scope, goal, data) or self.parameter(scope, goal, data)

    def found(self, scope: Scope, goal: T, data: bool) -> E | None:
        """A name in scope for a value of the type."""
        known = [var for var in scope.vars if fits(var.type, goal) and (var.data or not data)]
        if not known or self.chance(6):
            return None
        var = known[-1 - self.choices.below(len(known))]
        return E(var.text, ATOM, var.type, var.mag, var.data)

    # --- parameters ---------------------------------------------------------------------------------------------------

    def new(self, scope: Scope, goal: Real, data: bool) -> E:
        """See `Reals`."""
        fn = scope.fn
        if fn.module is not None and not goal.open and not data and not fn.plain and not self.chance(3):
            return self.weight(scope, goal)
        return self.parameter(scope, goal, data)

    def weight(self, scope: Scope, goal: Real) -> E:
        """A learnable parameter of the module."""
        module = scope.fn.module
        assert module is not None
        own = set(module.dims)
        if any(set(axis.length.symbols()) - own for axis in goal.axes):
            if self.chance(2):
                return self.parameter(scope, goal, False)
            self.use("param with a dimension of the file")
        taken = {name for name, _ in module.fields} | {fn.name for fn in scope.file.members[module]} | scope.fn.names
        name = self.fresh(taken, WEIGHTS)
        module.fields.append((name, goal))
        kind = pick(self.choices, ("", "zeros", "ones", "normal(std = 0.5)", "xavier_uniform"))
        module.inits[name] = kind
        self.use("param", f"init {kind.partition('(')[0] or 'none'}")
        for axis in goal.axes:
            scope.fn.symbols.update(axis.length.symbols())
        # The other functions of the module must not give the name to something else.
        for fn in scope.file.members[module]:
            fn.names.add(name)
        scope.fn.names.add(name)
        scope.vars.insert(0, Var(name, goal, INPUT, False))
        return E(name, ATOM, goal, INPUT)

    def parameter(self, scope: Scope, goal: T, data: bool) -> E:
        """A new parameter of the function."""
        fn = scope.fn
        pool = TREES if isinstance(goal, Tree) else ("key", "k0", "rng") if isinstance(goal, Key) else LOCALS
        name = self.fresh(fn.names, pool)
        data = data or not isinstance(goal, Real | Tup | Tree)
        fn.params.append(Param(name, goal, data))
        if is_open(goal):
            self.use("open parameter")
        mag = 3.0 if isinstance(goal, Hyper) else ARGUMENT
        var = Var(name, goal, mag, data)
        # It is known in all blocks of the function, but what is nearer is found first.
        scope.vars.insert(0, var)
        return E(name, ATOM, goal, mag, data)

    def local(self, scope: Scope) -> str:
        """See `Reals`."""
        return self.fresh(scope.fn.names, LOCALS)

    # --- indices ------------------------------------------------------------------------------------------------------

    def index_tensor(self, scope: Scope, goal: Idx, fuel: int) -> E:
        """An index tensor."""
        scope.fn.symbols.update(goal.bound.symbols())
        for axis in goal.axes:
            scope.fn.symbols.update(axis.length.symbols())
        kinds = [(4, "leaf")]
        if fuel > 0 and self.fuel > 0:
            self.fuel -= 1
            if not goal.open and len(goal.axes) == 1 and goal.axes[0].length == goal.bound:
                kinds.append((6, "positions"))
            if not scope.fn.plain:
                kinds += [(2, "argmax"), (2, "index")]
                if any(axis.name for axis in goal.axes):
                    kinds.append((2, "slice"))
            if scope.fn.uses and not goal.open and scope.fn.module is None:
                kinds.append((1, "sample"))
        kind = weighted(self.choices, kinds)
        if kind == "positions":
            name = goal.axes[0].name or self.fresh_axis(scope)
            self.use("positions")
            length = self.length(scope.file, goal.bound)
            return E(f"positions({name}: {length})", ATOM, Idx(goal.bound, (Ax(goal.bound, name),)), 1.0, True)
        if kind in ("argmax", "sample"):
            last = Ax(goal.bound, None if self.chance(2) else self.fresh_axis(scope, [axis.name for axis in goal.axes]))
            scope.fn.require(goal.bound, 1)
            logits = self.real(scope, Real((*goal.axes, last), goal.open), fuel - 1, True)
            assert isinstance(logits.type, Real)
            self.use(kind)
            text = f"argmax({logits.text})"
            if kind == "sample":
                key = self.value(scope, Key(), 1, True)
                scope.fn.rand = True
                text = f"sample({key.text}, {logits.text})"
            return E(text, ATOM, Idx(goal.bound, logits.type.axes[:-1], goal.open), 1.0, True)
        if kind in ("index", "slice"):
            return self.selected(scope, goal, fuel - 1, kind == "slice")
        return self.found(scope, goal, True) or self.parameter(scope, goal, True)

    def selected(self, scope: Scope, goal: Idx | Mask, fuel: int, keep: bool) -> E:
        """A slice, or one element of an axis more, of indices or of a mask.

        Where some index of a mask's element is 0 it is true, so that every row allows something; its slices begin at 0.
        """
        taken = [axis.name for axis in goal.axes]
        what = "indices" if isinstance(goal, Idx) else "a mask"
        if keep:
            place = pick(self.choices, [at for at, axis in enumerate(goal.axes) if axis.name])
            axis = goal.axes[place]
            low = 0 if isinstance(goal, Mask) else self.choices.below(2)
            total = axis.length + low + self.choices.below(2)
            wide = with_axes(goal, spread(without(goal.axes, place), place, Ax(total, axis.name)))
            e = self.exact(scope, self.value(scope, wide, fuel, True), wide)
            assert isinstance(e.type, Idx | Mask)
            self.use(f"slice of {what}")
            high = self.length(scope.file, axis.length + low)
            rest = with_axes(goal, spread(without(e.type.axes, place), place, axis))
            return E(f"{tight(e, ATOM)}[{axis.name}: {low}..{high}]", ATOM, rest, 1.0, True)
        name = self.fresh_axis(scope, taken)
        place = self.choices.below(len(goal.axes) + 1)
        length = self.some_length(scope, 1)
        wide = with_axes(goal, spread(goal.axes, place, Ax(length, name)))
        e = self.exact(scope, self.value(scope, wide, fuel, True), wide)
        assert isinstance(e.type, Idx | Mask)
        self.use(f"index of {what}")
        rest = with_axes(goal, without(e.type.axes, place))
        at = "0" if isinstance(goal, Mask) else pick(self.choices, ("0", "-1"))
        return E(f"{tight(e, ATOM)}[{name}: {at}]", ATOM, rest, 1.0, True)

    def mask(self, scope: Scope, goal: Mask, fuel: int) -> E:
        """A mask."""
        for axis in goal.axes:
            scope.fn.symbols.update(axis.length.symbols())
        kinds = [(3, "leaf")]
        if fuel > 0 and self.fuel > 0:
            self.fuel -= 1
            if len(goal.axes) == 2 and goal.axes[0].length == goal.axes[1].length:
                first, second = goal.axes
                if first.name and second.name in (None, f"{first.name}2"):
                    kinds.append((8, "causal"))
            kinds.append((1, "index"))
            if any(axis.name for axis in goal.axes):
                kinds.append((1, "slice"))
        kind = weighted(self.choices, kinds)
        if kind == "causal":
            name, length = goal.axes[0].name, goal.axes[0].length
            self.use("causal_mask")
            type_ = Mask((Ax(length, name), Ax(length, f"{name}2")))
            return E(f"causal_mask({name}: {self.length(scope.file, length)})", ATOM, type_, 1.0, True)
        if kind in ("index", "slice"):
            return self.selected(scope, goal, fuel - 1, kind == "slice")
        return self.found(scope, goal, True) or self.parameter(scope, goal, True)

    # --- numbers ------------------------------------------------------------------------------------------------------

    def hyper(self, scope: Scope, kind: str, fuel: int) -> E:
        """A number; its bound is its value where it is known."""
        type_ = Hyper(kind)
        kinds = [(5, "literal"), (3, "leaf")]
        if fuel > 0:
            kinds.append((3, "arithmetic"))
        chosen = weighted(self.choices, kinds)
        if chosen == "literal" and kind in ("int", "bool") and fuel > 0:
            chosen = "arithmetic"
        if chosen == "arithmetic":
            return self.arithmetic(scope, kind, fuel)
        if chosen == "leaf" or kind in ("bool", "rat", "int"):
            return self.found(scope, type_, True) or self.parameter(scope, type_, True)
        if kind == "f64":
            return E(pick(self.choices, ("0.5", "1.5", "0.25", "2.0", "1e-1", "3e-1")), ATOM, type_, 2.0, True)
        consts = list(scope.file.consts.items())
        if consts and self.chance(3):
            name, value = pick(self.choices, consts)
            self.use("constant")
            return E(name, ATOM, type_, float(value), True)
        value = self.choices.below(4)
        return E(str(value), ATOM, type_, float(value), True)

    def arithmetic(self, scope: Scope, kind: str, fuel: int) -> E:
        """Arithmetic among numbers of one type."""
        self.use("hyperparameter arithmetic")
        type_ = Hyper(kind)
        if kind == "bool":
            left, right = (self.hyper(scope, "nat", fuel - 1) for _ in range(2))
            op = pick(self.choices, ("==", "<=", ">=", "<", ">"))
            self.use("comparison")
            return E(f"{tight(left, SUM)} {op} {tight(right, SUM)}", 4, type_, 1.0, True)
        if kind == "int":
            self.use("int")
            left = self.hyper(scope, "nat", fuel - 1)
            form = self.choices.below(3)
            if form == 0:
                right = self.hyper(scope, "nat", fuel - 1)
                return E(f"{left.text} - {tight(right, PRODUCT)}", SUM, type_, max(left.mag, right.mag), True)
            if form == 1:
                self.use("integer quotient")
                return E(f"{tight(left, PRODUCT)} / 2", PRODUCT, type_, left.mag, True)
            return E(f"-{tight(left, UNARY)}", UNARY, type_, left.mag, True)
        left, right = (self.hyper(scope, kind, fuel - 1) for _ in range(2))
        op = pick(self.choices, ("+", "*", "-", "/") if kind in ("f64", "rat") else ("+", "*"))
        if op == "/":
            return E(f"{tight(left, PRODUCT)} / 2", PRODUCT, type_, left.mag, True)
        mag = left.mag * right.mag if op == "*" else left.mag + right.mag
        prec = PRODUCT if op == "*" else SUM
        back = tight(right, prec + 1)
        front = left.text if left.prec >= prec else f"({left.text})"
        return E(f"{front} {op} {back}", prec, type_, mag, True)
