"""The decision procedure for claims about dimensions: do the facts imply the claim, for all naturals?

A claim between linear forms with rational coefficients is multiplied out into one row of integers (`rows`). It fails at
the naturals where the facts hold and its row does not (`problem`): if there are none it holds, and otherwise the
lexicographically least of them is the counterexample. Emptiness and least points of sets of integer points are isl's
business (`points`), which makes the procedure complete: size 0, divisibility and numbers of thousands of digits are no
special cases.

Most claims never reach isl. Equal forms, a difference of constant sign (`T <= T + 1`), a claim that one fact gives by
itself, and a claim that fails at the first or second point in lexicographic order are decided by looking at the rows.

`Decider` is what a caller keeps for many decisions (it remembers them); `decide` is the same without a memory. Both are
pure: the verdict is a function of the claim, the facts and the budget, whatever was decided before.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from gmpy2 import mpz

from presk.types.claim import Claim, Proved, Refuted, Relation, Undecided, Verdict
from presk.types.problem import BudgetExceeded, Problem, counterexamples, problem_of
from presk.types.rows import Row, gives, holds, row_of

if TYPE_CHECKING:
    from presk.types.points import Points

BUDGET: Final = 40_000
"""Steps of isl (allocations, which it counts itself) that one decision may take: about a hundred times what the hardest
claims of real programs need, and a few seconds. Deterministic, unlike a time limit."""

REMEMBERED: Final = 4096
"""Problems that a `Decider` remembers unless told otherwise."""

_PROVED: Final = Proved()
_REFLEXIVE: Final = (Relation.EQ, Relation.LE, Relation.GE)


class _Component(NamedTuple):
    """Facts that hang together by shared symbols; `symbols` sorted."""

    symbols: tuple[str, ...]
    rows: tuple[Row, ...]


class _Facts(NamedTuple):
    """Facts made ready: their components, the component of each symbol, and whether one fact is false everywhere."""

    components: tuple[_Component, ...]
    of_symbol: dict[str, int]
    impossible: bool


_Point = tuple[int, ...]


class Decider:
    """Decides claims and remembers the verdicts, at most `remembered` of them (the least recently used one goes first).

    `budget` (at least 1) bounds the steps of each decision; `Undecided` says that it ran out, and nothing else leads to
    it. Counted are `calls`, the decisions asked for, `recalled`, the problems found in memory, and `solved`, those that
    isl solved; all other decisions took a look at the rows. Not for use by two threads at once.
    """

    __slots__ = ("_budget", "_facts", "_memory", "_points", "_remembered", "calls", "recalled", "solved")

    def __init__(self, *, remembered: int = REMEMBERED, budget: int = BUDGET) -> None:
        self._remembered = remembered
        if budget < 1:
            raise ValueError("a budget of no step")
        self._budget = budget
        self._memory: dict[Problem, _Point | Proved | Undecided] = {}
        self._facts: tuple[tuple[Claim, ...], _Facts] | None = None
        self._points: Points | None = None
        self.calls = 0
        self.recalled = 0
        self.solved = 0

    def decide(self, claim: Claim, facts: Sequence[Claim]) -> Verdict:
        """Whether the facts imply the claim for all naturals of all symbols, 0 included.

        `Refuted` carries the lexicographically least counterexample over the symbols that the claim mentions, in order
        of name; other symbols of the facts take whatever values let the facts hold. Facts that contradict each other
        imply every claim. ValueError for a divisibility whose right side is not a positive constant.
        """
        self.calls += 1
        if claim.relation in _REFLEXIVE and claim.left == claim.right:
            return _PROVED
        goal = row_of(claim)
        if goal is True:
            return _PROVED
        ready = self._ready(facts)
        if ready.impossible:
            return _PROVED
        shown = _symbols(claim)
        near = {ready.of_symbol[symbol]: None for symbol in shown if symbol in ready.of_symbol}
        rows = [row for index in near for row in ready.components[index].rows]
        if goal is not False and any(gives(row, goal) for row in rows):
            return _PROVED

        # The claim fails somewhere, unless the facts are contradictory; if all that is far from it can hold, the
        # counterexample depends on the near facts alone.
        for index, component in enumerate(ready.components):
            if index not in near:
                match self._possible(component):
                    case False:
                        return _PROVED
                    case Undecided() as verdict:
                        return verdict
        early = _early(goal, shown, rows)
        if early is not None:
            return Refuted(early)
        extra = sorted({symbol for index in near for symbol in ready.components[index].symbols}.difference(shown))
        found = self._solve(problem_of(goal, shown, extra, rows))
        if isinstance(found, tuple):
            return Refuted(tuple(zip(shown, found, strict=True)))
        return found

    def _ready(self, facts: Sequence[Claim]) -> _Facts:
        """The facts made ready. A body asks many questions under the same facts: the last tuple is kept, recognized
        by its identity (a tuple cannot change; another sequence could, and is made ready anew)."""
        if self._facts is not None and self._facts[0] is facts:
            return self._facts[1]
        ready = _prepare(facts)
        if isinstance(facts, tuple):
            self._facts = (facts, ready)
        return ready

    def _possible(self, component: _Component) -> bool | Undecided:
        """Whether facts can hold together at all."""
        if all(holds(row, row.constant) for row in component.rows):
            return True
        found = self._solve(problem_of(False, (), component.symbols, component.rows))
        return found if isinstance(found, Undecided) else isinstance(found, tuple)

    def _solve(self, problem: Problem) -> _Point | Proved | Undecided:
        """The least counterexample, or why there is none; from memory if possible."""
        found = self._memory.pop(problem, None)
        if found is None:
            found = self._ask(problem)
            if len(self._memory) >= self._remembered > 0:
                del self._memory[next(iter(self._memory))]
        else:
            self.recalled += 1
        if self._remembered > 0:
            self._memory[problem] = found
        return found

    def _ask(self, problem: Problem) -> _Point | Proved | Undecided:
        # islpy is imported with the first problem that needs it: that takes about 50 ms, and most programs need none.
        from presk.types.points import Points

        self.solved += 1
        systems = counterexamples(problem)
        if self._points is None:
            self._points = Points()
        # isl's count depends a little on what a context did before, since it keeps freed blocks (5 % were seen). So the
        # kept context gets half of the budget, and what is too hard for that is asked again in a new one, with all of
        # it: which problems stay undecided depends on the problem only. (A new context for each problem would cost no
        # time, but islpy never frees one: 4 kB each.)
        for points, budget in ((self._points, max(1, self._budget // 2)), (None, self._budget)):
            try:
                found = (points or Points()).least(systems, problem.shown, budget)
            except BudgetExceeded:
                continue
            return _PROVED if found is None else found
        return Undecided(f"the budget of {self._budget} steps ran out")


def decide(claim: Claim, facts: Sequence[Claim]) -> Verdict:
    """`Decider().decide(claim, facts)`: one decision, nothing remembered."""
    return Decider(remembered=0).decide(claim, facts)


def explain(verdict: Verdict, claim: Claim) -> str:
    """What to say of a claim behind its text: `holds`, `fails for D = 1, T = 0`, `cannot be decided: …`.

    A claim between constants fails with its numbers: `fails: 768 % 7 is 5`.
    """
    match verdict:
        case Proved():
            return "holds"
        case Undecided(why):
            return f"cannot be decided: {why}"
        case Refuted(()):
            return f"fails: {_contrast(claim)}"
        case Refuted(at):
            # Through gmpy2, since Python refuses to print integers of more than 4,300 digits.
            return f"fails for {', '.join(f'{symbol} = {mpz(value)}' for symbol, value in at)}"


def _contrast(claim: Claim) -> str:
    """What is the case instead of a claim that fails at every value, where the sides are constants."""
    match claim.relation:
        case Relation.EQ:
            word = "is not"
        case Relation.LE:
            word = "is more than"
        case Relation.LT:
            word = "is not less than"
        case Relation.GE:
            word = "is less than"
        case Relation.GT:
            word = "is not more than"
        case Relation.DIVIDES:
            value, modulus = claim.left.constant, claim.right.constant
            return f"{value} % {modulus} is {value - modulus * (value // modulus)}"
    return f"{claim.left} {word} {claim.right}"


def _early(goal: Row | bool, shown: tuple[str, ...], rows: list[Row]) -> tuple[tuple[str, int], ...] | None:
    """The least counterexample, if it is the first or second point (all 0; all 0 but the last symbol 1) and that can be
    seen with all other symbols 0."""
    if not _denies(goal, None):
        # The first point is none, so the second comes next.
        if shown and _denies(goal, shown[-1]) and all(holds(row, _at(row, shown[-1])) for row in rows):
            return (*((symbol, 0) for symbol in shown[:-1]), (shown[-1], 1))
    elif all(holds(row, row.constant) for row in rows):
        return tuple((symbol, 0) for symbol in shown)
    return None


def _denies(goal: Row | bool, one: str | None) -> bool:
    """Whether the goal fails where `one` is 1 and all else is 0."""
    return not (goal if isinstance(goal, bool) else holds(goal, _at(goal, one)))


def _at(row: Row, one: str | None) -> int:
    return row.constant + sum(value for symbol, value in row.terms if symbol == one)


def _symbols(claim: Claim) -> tuple[str, ...]:
    """The symbols that the claim mentions, sorted; also those that cancel."""
    left, right = claim.left.symbols(), claim.right.symbols()
    if not right or left == right:
        return left
    return tuple(sorted({*left, *right})) if left else right


def _prepare(facts: Iterable[Claim]) -> _Facts:
    """Rows, grouped by the symbols they share (union-find with path halving)."""
    parent: dict[str, str] = {}

    def root(symbol: str) -> str:
        while parent[symbol] != symbol:
            parent[symbol] = symbol = parent[parent[symbol]]
        return symbol

    rows: dict[Row, None] = {}
    for fact in facts:
        row = row_of(fact)
        if row is False:
            return _Facts((), {}, True)
        if row is not True:
            rows[row] = None
            for symbol, _ in row.terms:
                parent.setdefault(symbol, symbol)
                parent[root(symbol)] = root(row.terms[0][0])
    grouped: dict[str, list[Row]] = {}
    for row in rows:
        grouped.setdefault(root(row.terms[0][0]), []).append(row)
    number = {name: index for index, name in enumerate(grouped)}
    of_symbol = {symbol: number[root(symbol)] for symbol in sorted(parent)}
    symbols: list[list[str]] = [[] for _ in grouped]
    for symbol, index in of_symbol.items():
        symbols[index].append(symbol)
    components = (_Component(tuple(symbols[index]), tuple(group)) for index, group in enumerate(grouped.values()))
    return _Facts(tuple(components), of_symbol, False)
