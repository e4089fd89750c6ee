"""Expressions of real tensors, from the type that is wanted.

Each production gives an expression whose type unifies with the goal, or None where it finds that it cannot; then a parameter
stands in its place. The exact type is carried along, since names and unnamed axes decide what may be done with a value.
"""

from collections.abc import Sequence
from math import exp, log, sqrt
from typing import Final

from tests.programs.choices import pick, weighted
from tests.programs.lengths import Len
from tests.programs.state import (
    ATOM,
    POWER,
    PRODUCT,
    SUM,
    UNARY,
    E,
    Scope,
    Var,
    Writer,
    size,
    spread,
    tight,
    without,
)
from tests.programs.types import Ax, Axes, Hyper, Idx, Key, Mask, Real, distinct, fits, merge

_BOUNDED: Final = ("tanh", "sin", "cos", "sigmoid")
_KEEPING: Final = ("relu", "gelu", "abs")


def relabel(operands: Sequence[Sequence[str]], output: Sequence[str]) -> list[list[str]]:
    """The names that an `ein` gives its operands' axes, by the rule of the language; a name with two candidates is kept.

    Where exactly two operands carry a name and one copy `name<digits>` of it is unmatched (in the result and in no operand, or
    in one operand and not in the result), the later operand's name becomes the copy, unless it has the copy itself.
    """
    found = [list(names) for names in operands]
    every = [name for names in operands for name in names]
    for name in dict.fromkeys(every):
        carriers = [place for place, names in enumerate(operands) if name in names]
        if len(carriers) != 2:
            continue
        copies = [
            copy
            for copy in dict.fromkeys((*output, *every))
            if copy.startswith(name) and copy[len(name) :].isdigit() and copy not in operands[carriers[1]]
        ]
        candidates = [
            copy
            for copy in copies
            if (copy in output and copy not in every)
            or (copy not in output and sum(copy in names for names in operands) == 1)
        ]
        if len(candidates) == 1:
            later = found[carriers[1]]
            found[carriers[1]] = [candidates[0] if label == name else label for label in later]
        elif candidates:
            return [[] for _ in operands]
    return found


class Reals(Writer):
    """The productions of real tensors."""

    def real(self, scope: Scope, goal: Real, fuel: int, data: bool = False) -> E:
        """See `Writer`."""
        return self.choices.within(lambda: self._real(scope, goal, fuel, data))

    def _real(self, scope: Scope, goal: Real, fuel: int, data: bool) -> E:
        assert distinct(goal.axes), goal
        for axis in goal.axes:
            scope.fn.symbols.update(axis.length.symbols())
            if goal.open and axis.name:
                scope.fn.tails.add(axis.name)
            if axis.length == Len():
                self.use("length 0")
        if fuel <= 0 or self.fuel <= 0:
            return self.at_hand(scope, goal, data)
        self.fuel -= 1
        needs, lines, seen, funs = len(scope.fn.needs), len(scope.lines), list(scope.vars), list(scope.funs)
        made: E | None = getattr(self, weighted(self.choices, self.productions(scope, goal, data)))(
            scope, goal, fuel - 1, data
        )
        if made is None:
            # Nothing of what was begun is in the program; parameters may stay.
            del scope.fn.needs[needs:], scope.lines[lines:]
            scope.vars, scope.funs = seen, funs
            return self.at_hand(scope, goal, data)
        return self.settle(scope, made)

    def productions(self, scope: Scope, goal: Real, data: bool) -> list[tuple[int, str]]:
        """What can make the goal, the simplest first, with weights."""
        axes, rank = goal.axes, len(goal.axes)
        named = all(axis.name for axis in axes)
        small = size(axes) <= 36 and rank <= 3
        plain = scope.fn.plain
        found = [(3, "leaf"), (5, "unary"), (8, "binary"), (3, "power"), (2, "extremum"), (1, "clamp"), (1, "said")]
        if not goal.open and not axes:
            found += [(2, "literal"), (8, "total")]
        if small:
            found.append((4, "reduced"))
        if any(axis.name for axis in axes):
            found += [(2, "softmax"), (3, "centered")]
        if plain:
            return found
        found.append((3, "from_var"))
        if small:
            found += [(4, "dot"), (2, "index"), (1, "cross_entropy")]
        if any(axis.name for axis in axes):
            found += [(2, "slice"), (1, "concat")]
            if rank >= 1 and not goal.open:
                found.append((3 if rank < 2 else 5, "masked"))
        if rank:
            found += [(1, "merge"), (2, "embed"), (1, "real_of_index")]
            found.append((1, "one_hot"))
            if not goal.open:
                found.append((1, "positional"))
        if rank >= 2:
            found += [(4, "split"), (6, "heads")]
        if not goal.open and named and small:
            found.append((5, "ein"))
        found += [(2, "dropout"), (2, "block"), *self.calls(scope, goal, data)]
        return found

    # --- leaves -------------------------------------------------------------------------------------------------------

    def leaf(self, scope: Scope, goal: Real, fuel: int, data: bool) -> E:
        """A name in scope, or else a new parameter."""
        return self.at_hand(scope, goal, data)

    def at_hand(self, scope: Scope, goal: Real, data: bool) -> E:
        """A name in scope, or else a new parameter."""
        known = [
            var for var in scope.vars if isinstance(var.type, Real) and fits(var.type, goal) and (var.data or not data)
        ]
        if known and not self.chance(4):
            var = known[-1 - self.choices.below(len(known))]
            return E(var.text, ATOM, var.type, var.mag, var.data)
        return self.new(scope, goal, data)

    def literal(self, scope: Scope, goal: Real, fuel: int, data: bool) -> E:
        """A number as a real."""
        hyper = self.value(scope, Hyper(pick(self.choices, ("f64", "nat", "int", "rat"))), min(fuel, 1), data)
        self.use("injection")
        return E(self.scalar(scope, hyper.text), ATOM, Real(), hyper.mag, True)

    def from_var(self, scope: Scope, goal: Real, fuel: int, data: bool) -> E | None:
        """A tensor in scope with more axes than are wanted: those too many are summed, averaged or selected."""
        known = []
        for var in scope.vars:
            if not isinstance(var.type, Real) or var.type.open != goal.open or (data and not var.data):
                continue
            kept = _subsequence(var.type.axes, goal.axes)
            if kept is not None and len(kept) < len(var.type.axes):
                rest = [axis for at, axis in enumerate(var.type.axes) if at not in kept]
                if all(axis.name for axis in rest):
                    known.append((var, [axis.name or "" for axis in rest]))
        if not known:
            return None
        var, names = known[-1 - self.choices.below(len(known))]
        e = E(var.text, ATOM, var.type, var.mag, var.data)
        for name in names:
            e = self.drop(scope, e, name)
        return e

    def drop(self, scope: Scope, e: E, name: str) -> E:
        """The expression without one named axis."""
        assert isinstance(e.type, Real)
        place = next(at for at, axis in enumerate(e.type.axes) if axis.name == name)
        length = e.type.axes[place].length
        rest = Real(without(e.type.axes, place), e.type.open)
        kind = self.choices.below(3) if length != Len() else 0
        if kind == 2:
            self.use("index")
            scope.fn.require(length, 1)
            at = pick(self.choices, ("0", "-1"))
            return E(f"{tight(e, ATOM)}[{name}: {at}]", ATOM, rest, e.mag, e.data)
        if kind == 1:
            self.use("mean axis")
            scope.fn.require(length, 1)
            return E(f"mean(axis {name}, {e.text})", ATOM, rest, e.mag, e.data)
        self.use("sum axis")
        return E(f"sum(axis {name}, {e.text})", ATOM, rest, e.mag * max(1, size((Ax(length),))), e.data)

    # --- element by element -------------------------------------------------------------------------------------------

    def unary(self, scope: Scope, goal: Real, fuel: int, data: bool) -> E:
        """A function of each element."""
        kind = weighted(
            self.choices,
            [(4, "bounded"), (2, "neg"), (4, "keeping"), (2, "exp"), (2, "sqrt"), (2, "log")],
        )
        if kind in ("sqrt", "log"):
            e, low = self.positive(scope, goal, fuel, data)
            self.use(kind)
            mag = sqrt(e.mag) if kind == "sqrt" else max(abs(log(low)), abs(log(e.mag)))
            return E(f"{kind}({e.text})", ATOM, e.type, mag, e.data)
        e = self.real(scope, goal, fuel, data)
        match kind:
            case "neg":
                self.use("neg")
                return E(f"-{tight(e, UNARY)}", UNARY, e.type, e.mag, e.data)
            case "exp":
                self.use("exp")
                e = self.settle(scope, e, 3.0)
                return E(f"exp({e.text})", ATOM, e.type, exp(e.mag), e.data)
            case "keeping":
                name = pick(self.choices, _KEEPING)
                self.use(name)
                return E(f"{name}({e.text})", ATOM, e.type, e.mag, e.data)
            case _:
                name = pick(self.choices, _BOUNDED)
                self.use(name)
                return E(f"{name}({e.text})", ATOM, e.type, 1.0, e.data)

    def positive(self, scope: Scope, goal: Real, fuel: int, data: bool) -> tuple[E, float]:
        """An expression whose elements are at least the number given with it, which is above 0."""
        kind = self.choices.below(6)
        e = self.real(scope, goal, fuel, data)
        match kind:
            case 0:
                e = self.settle(scope, e, 5.0)
                return E(f"{tight(e, ATOM)}^2 + 0.5", SUM, e.type, e.mag**2 + 0.5, e.data), 0.5
            case 1:
                self.use("exp")
                e = self.settle(scope, e, 1.0)
                return E(f"exp({e.text})", ATOM, e.type, exp(e.mag), e.data), exp(-e.mag)
            case 2:
                self.use("sigmoid")
                return E(f"sigmoid({e.text}) + 0.25", SUM, e.type, 1.25, e.data), 0.25
            case 3:
                self.use("abs")
                return E(f"abs({e.text}) + 1", SUM, e.type, e.mag + 1, e.data), 1.0
            case 4:
                self.use("extremum")
                return E(f"max({e.text}, {self.scalar(scope, '0.5')})", ATOM, e.type, max(e.mag, 0.5), e.data), 0.5
            case _:
                self.use("relu")
                return E(f"2 + relu({e.text})", SUM, e.type, e.mag + 2, e.data), 2.0

    def binary(self, scope: Scope, goal: Real, fuel: int, data: bool) -> E | None:
        """Arithmetic; one operand has the goal's shape and the other is broadcast."""
        op = weighted(self.choices, [(4, "+"), (4, "*"), (3, "-"), (2, "/")])
        pair = self.operands(scope, goal, fuel, data, positive=op == "/")
        if pair is None:
            return None
        left, right, axes, low = pair
        self.use(op)
        prec = SUM if op in "+-" else PRODUCT
        mag = {"+": left.mag + right.mag, "-": left.mag + right.mag, "*": left.mag * right.mag, "/": left.mag / low}[op]
        # The right operand of `-` and `/` must not be taken apart.
        text = f"{_front(left, prec)} {op} {_back(right, prec)}"
        return E(text, prec, Real(axes, goal.open), mag, left.data and right.data)

    def operands(
        self, scope: Scope, goal: Real, fuel: int, data: bool, positive: bool = False, numbers: bool = True
    ) -> tuple[E, E, Axes, float] | None:
        """Two operands that are broadcast to the goal's shape, the axes of the result, and the least element of the second."""
        axes = goal.axes
        kinds = [(4, "same"), *([(4, "number")] if numbers else []), (3, "scalar")]
        if axes:
            kinds += [(3, "suffix"), (2, "unnamed")]
        if len(axes) >= 2 and all(axis.name for axis in axes):
            kinds.append((5, "by name"))
        if goal.open and axes:
            kinds.append((8, "prefix"))
        kind = weighted(self.choices, kinds)
        first = not self.chance(3)
        low = 1.0

        def one(wanted: Real, at: bool) -> E:
            """An operand; the second one is positive if it must be."""
            nonlocal low
            if positive and at != first:
                e, low = self.positive(scope, wanted, fuel, data)
                return e
            return self.real(scope, wanted, fuel, data)

        full = one(goal, True)
        assert isinstance(full.type, Real)
        large = full.type.axes
        small: E | None = None
        joined: Axes | None = large
        match kind:
            case "number":
                hyper = self.value(scope, Hyper(pick(self.choices, ("f64", "nat", "rat"))), min(fuel, 1), data)
                if positive and first:
                    hyper = E(self.number(), ATOM, Hyper("f64"), 2.0, True)
                    low = 0.1
                small = hyper
                self.use("number beside a tensor")
            case "scalar":
                small = one(Real(), False)
                self.use("scalar broadcast")
            case "same" | "unnamed":
                wanted = merge(axes, large)
                if wanted is None:
                    return None
                if kind == "unnamed":
                    self.use("names lent")
                    wanted = tuple(Ax(axis.length, None if self.chance(2) else axis.name) for axis in wanted)
                small = one(Real(wanted, goal.open), False)
                assert isinstance(small.type, Real)
                joined = merge(large, small.type.axes)
            case "suffix":
                start = self.choices.below(len(axes)) if not goal.open else 0
                wanted = merge(axes, large)
                if wanted is None:
                    return None
                small = one(Real(wanted[start:]), False)
                assert isinstance(small.type, Real)
                tail = merge(large[start:], small.type.axes)
                joined = None if tail is None else large[:start] + tail
                self.use("broadcast from the last axis")
            case "by name":
                full = self.exact(scope, full, goal)
                assert isinstance(full.type, Real)
                large = joined = full.type.axes
                order = list(large)
                for at in range(len(order)):
                    other = at + self.choices.below(len(order) - at)
                    order[at], order[other] = order[other], order[at]
                chosen = tuple(order[: 1 + self.choices.below(len(order) - 1)])
                small = self.exact(scope, one(Real(chosen), False), Real(chosen))
                self.use("broadcast by name")
            case _:
                small = one(Real((), True), False)
                self.use("broadcast along the prefix")
        if joined is None or not distinct(joined) or small is None:
            return None
        left, right = (full, small) if first else (small, full)
        return left, right, joined, low

    def power(self, scope: Scope, goal: Real, fuel: int, data: bool) -> E:
        """A natural power."""
        e = self.settle(scope, self.real(scope, goal, fuel, data), 3.0)
        kind = self.choices.below(8)
        if kind < 6:
            n = (2, 3, 2, 1, 0, 2)[kind]
            consts = [name for name, value in scope.file.consts.items() if value == n]
            text = pick(self.choices, consts) if consts and self.chance(2) else str(n)
            self.use("pow")
        else:
            hyper = self.value(scope, Hyper("nat"), 1, data)
            if hyper.mag > 3:
                return e
            n, text = int(hyper.mag), tight(hyper, ATOM)
            self.use("pow by a value")
        return E(f"{tight(e, ATOM)}^{text}", POWER, e.type, max(1.0, e.mag) ** n, e.data)

    def extremum(self, scope: Scope, goal: Real, fuel: int, data: bool) -> E | None:
        """`max` or `min`."""
        pair = self.operands(scope, goal, fuel, data, numbers=False)
        if pair is None:
            return None
        left, right, axes, _ = pair
        self.use("extremum")
        mag = max(left.mag, right.mag)
        name = pick(self.choices, ("max", "min"))
        return E(f"{name}({left.text}, {right.text})", ATOM, Real(axes, goal.open), mag, left.data and right.data)

    def clamp(self, scope: Scope, goal: Real, fuel: int, data: bool) -> E:
        """`clamp` between numbers or between a scalar and a number."""
        e = self.real(scope, goal, fuel, data)
        self.use("clamp")
        low = self.scalar(scope, "-0.75")
        if self.chance(3):
            high = self.real(scope, Real(), fuel, data)
            return E(f"clamp({e.text}, {low}, {high.text})", ATOM, e.type, max(0.75, high.mag), e.data and high.data)
        return E(f"clamp({e.text}, {low}, {self.scalar(scope, '1.25')})", ATOM, e.type, 1.25, e.data)

    def said(self, scope: Scope, goal: Real, fuel: int, data: bool) -> E | None:
        """An expression with its type said, which may name axes of it."""
        e = self.real(scope, goal, fuel, data)
        assert isinstance(e.type, Real)
        if scope.fn.plain and any(axis.name in scope.fn.axis_names for axis in goal.axes):
            return e
        axes = merge(e.type.axes, goal.axes)
        if axes is None:
            return None
        done = self.ascribe(scope, e, Real(axes, goal.open))
        return E(done.text, ATOM, Real(axes, goal.open), e.mag, e.data)

    # --- along axes ---------------------------------------------------------------------------------------------------

    def total(self, scope: Scope, goal: Real, fuel: int, data: bool) -> E:
        """The sum or the mean of all elements."""
        least = 1 if self.chance(2) else 0
        e = self.real(scope, Real(self.some_axes(scope, 3)), fuel, data)
        assert isinstance(e.type, Real)
        if least and all(axis.length != Len() for axis in e.type.axes):
            self.use("mean")
            for axis in e.type.axes:
                scope.fn.require(axis.length, 1)
            return E(f"mean({e.text})", ATOM, Real(), e.mag, e.data)
        self.use("sum")
        return E(f"sum({e.text})", ATOM, Real(), e.mag * max(1, size(e.type.axes)), e.data)

    def reduced(self, scope: Scope, goal: Real, fuel: int, data: bool) -> E:
        """A tensor of one more axis, which is summed or averaged."""
        axis = Ax(self.some_length(scope), self.fresh_axis(scope, [one.name for one in goal.axes]))
        wide = Real(spread(goal.axes, self.choices.below(len(goal.axes) + 1), axis), goal.open)
        e = self.exact(scope, self.real(scope, wide, fuel, data), wide)
        name = pick(self.choices, ("sum", "mean")) if axis.length != Len() else "sum"
        self.use(f"{name} axis")
        if name == "mean":
            scope.fn.require(axis.length, 1)
        mag = e.mag * (max(1, size((axis,))) if name == "sum" else 1)
        assert isinstance(e.type, Real) and axis.name
        place = [one.name for one in e.type.axes].index(axis.name)
        rest = Real(without(e.type.axes, place), goal.open)
        return E(f"{name}(axis {axis.name}, {e.text})", ATOM, rest, mag, e.data)

    def softmax(self, scope: Scope, goal: Real, fuel: int, data: bool) -> E:
        """`softmax` along an axis."""
        e = self.real(scope, goal, fuel, data)
        e = self.exact(scope, e, goal)
        name = pick(self.choices, [axis.name for axis in goal.axes if axis.name])
        self.use("softmax")
        return E(f"softmax(axis {name}, {e.text})", ATOM, e.type, 1.0, e.data)

    def masked(self, scope: Scope, goal: Real, fuel: int, data: bool) -> E | None:
        """`softmax` where a mask allows; the mask may have fewer axes, the one of the softmax among them."""
        e = self.exact(scope, self.real(scope, goal, fuel, data), goal)
        assert isinstance(e.type, Real)
        axes = e.type.axes
        place = pick(self.choices, [at for at, axis in enumerate(axes) if axis.name])
        chosen = [axis for at, axis in enumerate(axes) if at == place or (axis.name and self.chance(2))]
        if len(chosen) < len(axes) and not all(axis.name for axis in axes):
            # By name, all of the mask's axes are named, and some pair of names must differ where the ends are laid on one another.
            tail = axes[len(axes) - len(chosen) :]
            if not any(a.name and b.name and a.name != b.name for a, b in zip(chosen, tail)) and tail != tuple(chosen):
                return None
        m = self.exact_mask(scope, Mask(tuple(chosen)), fuel)
        self.use("masked softmax")
        name = axes[place].name
        return E(f"softmax(axis {name}, {e.text}, where = {m.text})", ATOM, e.type, 1.0, e.data)

    def exact_mask(self, scope: Scope, goal: Mask, fuel: int) -> E:
        """A mask with all names of the goal."""
        return self.exact(scope, self.value(scope, goal, fuel, False), goal)

    def centered(self, scope: Scope, goal: Real, fuel: int, data: bool) -> E:
        """`x - mean(axis a, x)`, which is broadcast back along the prefix or by name."""
        place = pick(self.choices, [at for at, axis in enumerate(goal.axes) if axis.name])
        if any(not axis.name for axis in goal.axes) and place != 0 and not goal.open:
            place = next(at for at, axis in enumerate(goal.axes) if axis.name)
        name = goal.axes[place].name
        simple = goal.open or place == 0 or all(axis.name for axis in goal.axes)
        e = self.exact(scope, self.real(scope, goal, fuel, data), goal)
        if not simple or (goal.open and any(not axis.name for axis in goal.axes)) or goal.axes[place].length == Len():
            return e
        if e.prec < ATOM or "(" in e.text or "[" in e.text:
            local = self.local(scope)
            scope.lines.append(f"let {local} = {e.text}")
            scope.bind(Var(local, e.type, e.mag, e.data))
            e = E(local, ATOM, e.type, e.mag, e.data)
        scope.fn.require(goal.axes[place].length, 1)
        self.use("centered")
        if goal.open and len(goal.axes) == 1:
            self.use("broadcast along the prefix")
        return E(f"{e.text} - mean(axis {name}, {e.text})", SUM, e.type, 2 * e.mag, e.data)

    # --- contractions -------------------------------------------------------------------------------------------------

    def dot(self, scope: Scope, goal: Real, fuel: int, data: bool) -> E | None:
        """`x · w`."""
        axes = goal.axes
        # Most often a matrix stands on the right.
        cut = max(0, len(axes) - (1, 1, 0, 2)[self.choices.below(4)])
        name = None if self.chance(2) else self.fresh_axis(scope, [axis.name for axis in axes])
        inner = Ax(self.some_length(scope), name)
        left = self.real(scope, Real((*axes[:cut], inner), goal.open), fuel, data)
        assert isinstance(left.type, Real)
        meets = Ax(inner.length, left.type.axes[-1].name)
        if self.chance(3) or not distinct((meets, *axes[cut:])):
            meets = Ax(inner.length)
        right = self.real(scope, Real((meets, *axes[cut:])), fuel, data)
        assert isinstance(right.type, Real)
        rest = (*left.type.axes[:-1], *right.type.axes[1:])
        merged = merge(rest, axes)
        if merged is None or merge(left.type.axes[-1:], right.type.axes[:1]) is None or not distinct(rest):
            return None
        self.use("dot")
        mag = left.mag * right.mag * max(1, size((inner,)))
        type_ = Real(rest, goal.open)
        if self.chance(6):
            self.use("matmul")
            return E(f"matmul({left.text}, {right.text})", ATOM, type_, mag, left.data and right.data)
        dot = self.sign(scope.file, "·", "@")
        text = f"{_front(left, PRODUCT)} {dot} {_back(right, PRODUCT)}"
        return E(text, PRODUCT, type_, mag, left.data and right.data)

    def ein(self, scope: Scope, goal: Real, fuel: int, data: bool) -> E | None:
        """A sum over named axes: of one to three factors, with a second copy of an axis now and then."""
        axes = goal.axes
        output = [axis.name or "" for axis in axes]
        lengths = {axis.name or "": axis.length for axis in axes}
        twins = [(a, b) for a in output for b in output if b != a and b.startswith(a) and b[len(a) :].isdigit()]
        if twins and lengths[twins[0][0]] == lengths[twins[0][1]] and not self.chance(3):
            return self.gram(scope, goal, twins[0], fuel, data)
        if axes and not output[0][-1].isdigit() and not self.chance(4) and f"{output[0]}2" not in output:
            if self.chance(2):
                return self.mixed(scope, goal, fuel, data)
        count = (1, 2, 2, 3)[self.choices.below(4)]
        labels: list[list[str]] = [[] for _ in range(count)]
        for name in output:
            self.place(labels, name)
        for _ in range(self.choices.below(3)):
            name = self.fresh_axis(scope, list(lengths))
            lengths[name] = self.some_length(scope)
            self.place(labels, name)
        return self.product(scope, goal, output, labels, labels, lengths, fuel, data)

    def place(self, labels: list[list[str]], name: str) -> None:
        """Gives an axis to one factor or to several, somewhere among its axes."""
        first = self.choices.below(len(labels))
        for at, names in enumerate(labels):
            if at == first or (len(names) < 3 and self.chance(3)):
                names.insert(self.choices.below(len(names) + 1), name)

    def gram(self, scope: Scope, goal: Real, twin: tuple[str, str], fuel: int, data: bool) -> E | None:
        """Both factors have the axis; the result asks for it twice."""
        name, copy = twin
        output = [axis.name or "" for axis in goal.axes]
        lengths = {axis.name or "": axis.length for axis in goal.axes}
        rest = [one for one in output if one not in twin]
        labels = [[*rest, name], [*rest, copy]]
        if not self.chance(3):
            inner = self.fresh_axis(scope, list(lengths))
            lengths[inner] = self.some_length(scope)
            labels = [[*names, inner] for names in labels]
        written = [labels[0], [name if one == copy else one for one in labels[1]]]
        self.use("ein: a copy in the result")
        return self.product(scope, goal, output, labels, written, lengths, fuel, data)

    def mixed(self, scope: Scope, goal: Real, fuel: int, data: bool) -> E | None:
        """One factor has the axis and its copy, over which the other's axis of that name is summed."""
        output = [axis.name or "" for axis in goal.axes]
        lengths = {axis.name or "": axis.length for axis in goal.axes}
        name = output[0]
        copy = f"{name}2"
        # The axis that is summed has the length of its name in the result, since the second factor has it under that name.
        lengths[copy] = lengths[name]
        labels = [[name, copy], [copy, *output[1:]]]
        written = [[name, copy], [name, *output[1:]]]
        self.use("ein: a copy in a factor")
        return self.product(scope, goal, output, labels, written, lengths, fuel, data)

    def product(
        self,
        scope: Scope,
        goal: Real,
        output: list[str],
        labels: list[list[str]],
        written: list[list[str]],
        lengths: dict[str, Len],
        fuel: int,
        data: bool,
    ) -> E | None:
        """The `ein` whose factors' axes are written so and mean what `labels` says."""
        if relabel(written, output) != labels or any(len(names) > 4 for names in labels):
            return None
        factors = []
        mag, all_data = 1.0, True
        for names, meant in zip(written, labels):
            wanted = Real(tuple(Ax(lengths[label], name) for name, label in zip(names, meant)))
            e = self.exact(scope, self.real(scope, wanted, fuel, data), wanted)
            # A product or a sum would be taken apart into factors, or refused.
            factors.append(e.text if e.prec == ATOM else self.ascribe(scope, e, wanted).text)
            mag *= e.mag
            all_data = all_data and e.data
        summed = [
            Ax(lengths[name]) for name in dict.fromkeys(name for one in labels for name in one) if name not in output
        ]
        self.use("ein", f"ein of {len(factors)}")
        text = f"ein[{', '.join(output)}]({' * '.join(factors)})"
        axes = tuple(Ax(lengths[name], name) for name in output)
        return E(text, ATOM, Real(axes), mag * max(1, size(tuple(summed))), all_data)

    # --- selecting and joining ----------------------------------------------------------------------------------------

    def index(self, scope: Scope, goal: Real, fuel: int, data: bool) -> E:
        """One element of an axis more."""
        base = self.some_length(scope)
        kind = self.choices.below(4)
        length, at, least = base, "0", 1
        if base == Len():
            kind = max(kind, 2)
        if kind == 1:
            at = "-1"
        elif kind == 2:
            length, at, least = base + 1, self.length(scope.file, base), 0
            if not base.is_const():
                self.use("index at a dimension")
        elif kind == 3:
            length, at, least = base + 2, "-2", 0
        scope.fn.require(length, least)
        scope.fn.symbols.update(length.symbols())
        self.use("index")
        taken = [axis.name for axis in goal.axes]
        if not goal.open and self.chance(3):
            # By position: the first axis.
            self.use("index by position")
            e = self.real(scope, Real((Ax(length, self.fresh_axis(scope, taken)), *goal.axes)), fuel, data)
            assert isinstance(e.type, Real)
            return E(f"{tight(e, ATOM)}[{at}]", ATOM, Real(e.type.axes[1:]), e.mag, e.data)
        name = self.fresh_axis(scope, taken)
        place = self.choices.below(len(goal.axes) + 1)
        wide = Real(spread(goal.axes, place, Ax(length, name)), goal.open)
        e = self.exact(scope, self.real(scope, wide, fuel, data), wide)
        assert isinstance(e.type, Real)
        rest = Real(without(e.type.axes, place), goal.open)
        return E(f"{tight(e, ATOM)}[{name}: {at}]", ATOM, rest, e.mag, e.data)

    def cut(self, scope: Scope, length: Len) -> tuple[Len, str]:
        """A longer axis and the slice of it that has a length."""
        kind = self.choices.below(5)
        low = Len()
        total = length
        if kind == 1:
            low, total = Len(1), length + 1
        elif kind == 2:
            total = length + 1
        elif kind == 3:
            other = self.some_length(scope)
            low, total = other, length + other
        elif kind == 4:
            low, total = Len(1), length + 3
        if not (low.is_const() and length.is_const()):
            self.use("symbolic bounds")
        high = low + length
        scope.fn.symbols.update(total.symbols())
        return total, f"{self.length(scope.file, low)}..{self.length(scope.file, high)}"

    def slice(self, scope: Scope, goal: Real, fuel: int, data: bool) -> E:
        """A part of a longer axis; with a selector now and then."""
        place = pick(self.choices, [at for at, axis in enumerate(goal.axes) if axis.name])
        axis = goal.axes[place]
        total, bounds = self.cut(scope, axis.length)
        axes = spread(without(goal.axes, place), place, Ax(total, axis.name))
        selectors = [f"{axis.name}: {bounds}"]
        dropped = None
        if self.chance(4):
            self.use("slice and selector")
            dropped = Ax(Len(2), self.fresh_axis(scope, [one.name for one in axes]))
            axes = spread(axes, self.choices.below(len(axes) + 1), dropped)
            selectors.insert(self.choices.below(2), f"{dropped.name}: {pick(self.choices, ('1', '0', '-1'))}")
        wide = Real(axes, goal.open)
        e = self.exact(scope, self.real(scope, wide, fuel, data), wide)
        assert isinstance(e.type, Real)
        rest = tuple(
            Ax(axis.length, one.name) if one.name == axis.name else one
            for one in e.type.axes
            if dropped is None or one.name != dropped.name
        )
        self.use("slice")
        return E(f"{tight(e, ATOM)}[{', '.join(selectors)}]", ATOM, Real(rest, goal.open), e.mag, e.data)

    def positional(self, scope: Scope, goal: Real, fuel: int, data: bool) -> E:
        """Selectors by position: a slice of the first axis and, behind it, one element or a slice of the second."""
        total, bounds = self.cut(scope, goal.axes[0].length)
        axes = (Ax(total, goal.axes[0].name), *goal.axes[1:])
        selectors = [bounds]
        self.use("slice by position")
        if self.chance(2):
            axes = spread(axes, 1, Ax(Len(2), None))
            selectors.append(pick(self.choices, ("1", "-2")))
        e = self.real(scope, Real(axes), fuel, data)
        assert isinstance(e.type, Real)
        have = e.type.axes if len(selectors) == 1 else without(e.type.axes, 1)
        rest = (Ax(goal.axes[0].length, have[0].name), *have[1:])
        return E(f"{tight(e, ATOM)}[{', '.join(selectors)}]", ATOM, Real(rest), e.mag, e.data)

    def concat(self, scope: Scope, goal: Real, fuel: int, data: bool) -> E | None:
        """Two tensors joined along an axis."""
        place = pick(self.choices, [at for at, axis in enumerate(goal.axes) if axis.name])
        axis = goal.axes[place]
        parts = _parts(axis.length)
        if not parts:
            return None
        first, second = pick(self.choices, parts)
        shapes = [
            Real(spread(without(goal.axes, place), place, Ax(length, axis.name)), goal.open)
            for length in (first, second)
        ]
        x = self.exact(scope, self.real(scope, shapes[0], fuel, data), Real(_only(shapes[0].axes, place), goal.open))
        assert isinstance(x.type, Real)
        wanted = merge(x.type.axes, shapes[0].axes)
        if wanted is None:
            return None
        there = Real(spread(without(wanted, place), place, Ax(second, axis.name)), goal.open)
        y = self.exact(scope, self.real(scope, there, fuel, data), Real(_only(there.axes, place), goal.open))
        assert isinstance(y.type, Real)
        rest = merge(without(x.type.axes, place), without(y.type.axes, place))
        if rest is None or not distinct(spread(rest, place, axis)):
            return None
        self.use("concat")
        type_ = Real(spread(rest, place, axis), goal.open)
        text = f"concat(axis {axis.name}, {x.text}, {y.text})"
        return E(text, ATOM, type_, max(x.mag, y.mag), x.data and y.data)

    def merge(self, scope: Scope, goal: Real, fuel: int, data: bool) -> E | None:
        """Two axes read as one."""
        place = self.choices.below(len(goal.axes))
        pairs = _factors(goal.axes[place].length)
        if not pairs:
            return None
        one, two = pick(self.choices, pairs)
        rest = [axis.name for at, axis in enumerate(goal.axes) if at != place]
        first = self.fresh_axis(scope, rest)
        second = self.fresh_axis(scope, [*rest, first])
        axes = (*goal.axes[:place], Ax(one, first), Ax(two, second), *goal.axes[place + 1 :])
        if len(axes) > 4:
            return None
        wide = Real(axes, goal.open)
        e = self.exact(scope, self.real(scope, wide, fuel, data), wide)
        assert isinstance(e.type, Real)
        have = e.type.axes
        rest_axes = (*have[:place], Ax(goal.axes[place].length), *have[place + 2 :])
        self.use("merge")
        return E(f"merge(axis {first}, axis {second}, {e.text})", ATOM, Real(rest_axes, goal.open), e.mag, e.data)

    def split(self, scope: Scope, goal: Real, fuel: int, data: bool) -> E | None:
        """One axis read as two."""
        places = [
            at
            for at, (one, two) in enumerate(zip(goal.axes, goal.axes[1:]))
            if one.name and two.name and (one.length.is_const() or two.length.is_const())
        ]
        if not places:
            return None
        place = pick(self.choices, places)
        one, two = goal.axes[place : place + 2]
        total = two.length.times(one.length.const) if one.length.is_const() else one.length.times(two.length.const)
        others = [axis.name for at, axis in enumerate(goal.axes) if at not in (place, place + 1)]
        # A half may have the old name.
        name = two.name if self.chance(3) else self.fresh_axis(scope, [*others, one.name, two.name])
        narrow = Real((*goal.axes[:place], Ax(total, name), *goal.axes[place + 2 :]), goal.open)
        e = self.exact(scope, self.real(scope, narrow, fuel, data), narrow)
        assert isinstance(e.type, Real)
        have = e.type.axes
        self.use("split")
        halves = f"{self.axis(scope.file, one)}, {self.axis(scope.file, two)}"
        rest = Real((*have[:place], one, two, *have[place + 1 :]), goal.open)
        return E(f"split(axis {name}, {halves}, {e.text})", ATOM, rest, e.mag, e.data)

    def heads(self, scope: Scope, goal: Real, fuel: int, data: bool) -> E | None:
        """`merge_heads(split_heads(…))`, with something in between."""
        consts = scope.file.consts
        if "H" not in consts or len(goal.axes) > 3:
            return None
        heads, hd = consts["H"], consts["HD"]
        seq, model = goal.axes[-2:]
        front = goal.axes[:-2]
        if model.length != Len(heads * hd) or seq.name not in (None, "seq") or model.name not in (None, "model"):
            return None
        if any(axis.name in ("seq", "model", "heads", "hd") for axis in front) or len(front) > 1:
            return None
        self.use("heads")
        there = Real((*front, Ax(Len(heads), "heads"), Ax(seq.length, "seq"), Ax(Len(hd), "hd")), goal.open)
        back = Real((*front, Ax(seq.length, "seq"), Ax(model.length, "model")), goal.open)
        inner = self.real(scope, back, fuel, data)
        assert isinstance(inner.type, Real)
        split = E(
            f"split_heads({inner.text})", ATOM, Real((*inner.type.axes[:-2], *there.axes[-3:]), goal.open), inner.mag
        )
        if self.chance(2):
            other = self.real(scope, there, fuel, data)
            assert isinstance(other.type, Real)
            axes = merge(split.type.axes, other.type.axes)  # type: ignore[union-attr]
            if axes is None:
                return None
            joined = E(f"{tight(other, PRODUCT)} * {split.text}", PRODUCT, Real(axes, goal.open), inner.mag * other.mag)
            split = self.settle(scope, joined)
        assert isinstance(split.type, Real)
        result = Real((*split.type.axes[:-3], *back.axes[-2:]), goal.open)
        return E(f"merge_heads({split.text})", ATOM, result, split.mag, False)

    # --- indices ------------------------------------------------------------------------------------------------------

    def embed(self, scope: Scope, goal: Real, fuel: int, data: bool) -> E | None:
        """Rows of a table."""
        axes = goal.axes
        bound = self.some_bound(scope)
        scope.fn.require(bound, 1)
        t = self.value(scope, Idx(bound, axes[:-1], goal.open), fuel, data)
        assert isinstance(t.type, Idx)
        w = self.real(scope, Real((Ax(bound, self.fresh_axis(scope, [axes[-1].name])), axes[-1])), fuel, data)
        assert isinstance(w.type, Real)
        found = (*t.type.axes, w.type.axes[1])
        if not distinct(found) or merge(found, axes) is None:
            return None
        self.use("embed")
        return E(f"embed({w.text}, {t.text})", ATOM, Real(found, goal.open), w.mag, w.data)

    def one_hot(self, scope: Scope, goal: Real, fuel: int, data: bool) -> E | None:
        """Indicator vectors."""
        if goal.axes[-1].length == Len():
            return None
        t = self.value(scope, Idx(goal.axes[-1].length, goal.axes[:-1], goal.open), fuel, data)
        assert isinstance(t.type, Idx)
        self.use("one_hot")
        found = Real((*t.type.axes, Ax(goal.axes[-1].length)), goal.open)
        return E(f"one_hot({t.text})", ATOM, found, 1.0, True)

    def real_of_index(self, scope: Scope, goal: Real, fuel: int, data: bool) -> E:
        """Indices as reals."""
        bound = self.some_length(scope, 1)
        if len(goal.axes) == 1 and goal.axes[0].length != Len() and not goal.open and self.chance(2):
            bound = goal.axes[0].length
        scope.fn.symbols.update(bound.symbols())
        t = self.value(scope, Idx(bound, goal.axes, goal.open), fuel, data)
        assert isinstance(t.type, Idx)
        self.use("real of an index")
        return E(f"real({t.text})", ATOM, Real(t.type.axes, goal.open), max(1.0, size((Ax(bound),))), True)

    def cross_entropy(self, scope: Scope, goal: Real, fuel: int, data: bool) -> E | None:
        """`cross_entropy`."""
        bound = self.some_bound(scope)
        scope.fn.require(bound, 1)
        name = None if self.chance(3) else self.fresh_axis(scope, [axis.name for axis in goal.axes])
        logits = self.real(scope, Real((*goal.axes, Ax(bound, name)), goal.open), fuel, data)
        assert isinstance(logits.type, Real)
        rest = merge(logits.type.axes[:-1], goal.axes)
        if rest is None:
            return None
        y = self.value(scope, Idx(bound, rest, goal.open), fuel, data)
        assert isinstance(y.type, Idx)
        axes = merge(logits.type.axes[:-1], y.type.axes)
        if axes is None:
            return None
        self.use("cross_entropy")
        mag = 2 * logits.mag + log(max(2, size((Ax(bound),))))
        return E(f"cross_entropy({logits.text}, {y.text})", ATOM, Real(axes, goal.open), mag, logits.data)

    # --- the rest -----------------------------------------------------------------------------------------------------

    def dropout(self, scope: Scope, goal: Real, fuel: int, data: bool) -> E | None:
        """`dropout`, the identity outside a training run."""
        if not scope.fn.uses:
            return None
        x = self.real(scope, goal, fuel, data)
        key = self.value(scope, Key(), 1, data)
        scope.fn.rand = True
        self.use("dropout")
        rate = pick(self.choices, ("0.5", "0.25", "0"))
        return E(f"dropout({rate}, {key.text}, {x.text})", ATOM, x.type, x.mag, x.data)

    def block(self, scope: Scope, goal: Real, fuel: int, data: bool) -> E:
        """A `let` in parentheses."""
        inner = scope.inner()
        local = self.local(inner)
        one = self.real(inner, Real(self.some_axes(scope, 2), False), fuel, data)
        inner.lines.append(f"let {local} = {one.text}")
        inner.bind(Var(local, one.type, one.mag, one.data))
        e = self.real(inner, goal, fuel, data)
        self.use("let in parentheses")
        pad = "\n" + "  " * (scope.depth + 2)
        return E(f"({pad.join([*inner.lines, e.text])})", ATOM, e.type, e.mag, e.data)


def _front(e: E, prec: int) -> str:
    """The left operand of a left-associative operator."""
    return e.text if e.prec >= prec else f"({e.text})"


def _back(e: E, prec: int) -> str:
    """Its right operand."""
    return tight(e, prec + 1)


def _only(axes: Axes, place: int) -> Axes:
    """The axes without names but for one."""
    return tuple(Ax(axis.length, axis.name if at == place else None) for at, axis in enumerate(axes))


def _parts(length: Len) -> list[tuple[Len, Len]]:
    """Two lengths with that sum."""
    found = []
    if length.is_const():
        found = [(Len(part), Len(length.const - part)) for part in range(length.const + 1)]
    else:
        one = Len(0, ((length.terms[0][0], 1),))
        rest = length.minus(one)
        assert rest is not None
        found = [(one, rest), (rest, one)]
        if length.const:
            fixed = length.minus(Len(1))
            assert fixed is not None
            found += [(Len(1), fixed), (fixed, Len(1))]
    return found


def _factors(length: Len) -> list[tuple[Len, Len]]:
    """Two lengths with that product, one of them constant."""
    found = [(Len(1), length), (length, Len(1))]
    for divisor in (2, 3, 4):
        part = length.over(divisor)
        if part is not None:
            found += [(Len(divisor), part), (part, Len(divisor))]
    return found


def _subsequence(axes: Axes, wanted: Axes) -> list[int] | None:
    """Places of axes that are the wanted ones, in order; None if there are none."""
    found: list[int] = []
    for axis in wanted:
        start = found[-1] + 1 if found else 0
        place = next((at for at in range(start, len(axes)) if merge((axes[at],), (axis,)) is not None), None)
        if place is None:
            return None
        found.append(place)
    chosen = tuple(axes[at] for at in found)
    return found if merge(chosen, wanted) is not None else None
