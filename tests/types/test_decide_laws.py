"""Laws of the decision procedure on random claims: against brute force, against z3, and against itself."""

from fractions import Fraction
from functools import reduce
from itertools import product
from math import lcm

import z3  # type: ignore[import-untyped]
from gmpy2 import mpq
from hypothesis import given, settings
from hypothesis import strategies as st

from presk.types.claim import Claim, Proved, Refuted, Relation
from presk.types.decide import Decider, decide
from presk.types.dim import Dim, constant, symbol

NAMES = ("A", "B", "C")
ORDERS = (Relation.LE, Relation.LT, Relation.GE, Relation.GT)
many = settings(max_examples=2 * settings().max_examples)


def form(plain):
    """A form from a mapping of names (None: the constant) to fractions."""
    parts = (constant(mpq(v)) if name is None else symbol(name).scaled(mpq(v)) for name, v in plain.items())
    return reduce(Dim.__add__, parts, constant(0))


def fraction(number):
    return Fraction(int(number.numerator), int(number.denominator))


def value(dim, point):
    """The form's value in Python's own arithmetic."""
    return fraction(dim.constant) + sum(fraction(factor) * point[name] for name, factor in dim.terms)


def holds(claim, point):
    left, right = value(claim.left, point), value(claim.right, point)
    match claim.relation:
        case Relation.EQ:
            return left == right
        case Relation.LE:
            return left <= right
        case Relation.LT:
            return left < right
        case Relation.GE:
            return left >= right
        case Relation.GT:
            return left > right
        case Relation.DIVIDES:
            return (left / right).denominator == 1


def mentioned(claim):
    return sorted({*claim.left.symbols(), *claim.right.symbols()})


numbers = st.one_of(st.integers(-4, 4), st.fractions(-4, 4, max_denominator=3))
forms = st.dictionaries(st.sampled_from((None, *NAMES)), numbers, max_size=3).map(form)
divisors = st.one_of(st.integers(1, 6), st.fractions(Fraction(1, 3), 4, max_denominator=3))
claims = st.one_of(
    st.builds(Claim, st.sampled_from((Relation.EQ, *ORDERS)), forms, forms),
    st.builds(Claim, st.just(Relation.DIVIDES), forms, divisors.map(lambda number: constant(mpq(number)))),
)
facts = st.lists(claims, max_size=3).map(tuple)


@many
@given(claims, facts, st.tuples(*[st.integers(0, 4) for _ in NAMES]))
def test_brute_force(claim, given_facts, bounds):
    """Where the facts bound every symbol, trying all values is a decision procedure too."""
    bound_facts = tuple(
        Claim(Relation.LE, symbol(name), constant(bound)) for name, bound in zip(NAMES, bounds, strict=True)
    )
    points = (dict(zip(NAMES, values, strict=True)) for values in product(*(range(bound + 1) for bound in bounds)))
    failures = [
        tuple((name, point[name]) for name in mentioned(claim))
        for point in points
        if all(holds(fact, point) for fact in given_facts) and not holds(claim, point)
    ]
    expected = Refuted(min(failures)) if failures else Proved()
    assert decide(claim, (*given_facts, *bound_facts)) == expected


SHARED = {name: z3.Int(name) for name in NAMES}


def z3_form(dim, scale):
    """An integer multiple of a form; `scale` must clear the denominators."""
    total = z3.IntVal(int(dim.constant * scale))
    return total + sum((int(factor * scale) * SHARED[name] for name, factor in dim.terms), start=z3.IntVal(0))


def z3_claim(claim):
    scale = lcm(*(int(number.denominator) for dim in (claim.left, claim.right) for number in numbers_of(dim)))
    left, right = z3_form(claim.left, scale), z3_form(claim.right, scale)
    match claim.relation:
        case Relation.EQ:
            return left == right
        case Relation.LE:
            return left <= right
        case Relation.LT:
            return left < right
        case Relation.GE:
            return left >= right
        case Relation.GT:
            return left > right
        case Relation.DIVIDES:
            return left % int(claim.right.constant * scale) == 0


def numbers_of(dim):
    return (dim.constant, *(factor for _, factor in dim.terms))


def z3_decides(*conditions):
    """Whether there are naturals with these conditions."""
    solver = z3.Solver()
    solver.add(*(variable >= 0 for variable in SHARED.values()), *conditions)
    answer = solver.check()
    assert answer in (z3.sat, z3.unsat), solver.reason_unknown()
    return answer == z3.sat


@many
@given(claims, facts)
def test_z3(claim, given_facts):
    """Without bounds: the verdict is z3's, and z3 finds no counterexample before the one given."""
    failure = [*map(z3_claim, given_facts), z3.Not(z3_claim(claim))]
    verdict = decide(claim, given_facts)
    if isinstance(verdict, Proved):
        assert not z3_decides(*failure)
        return
    assert isinstance(verdict, Refuted)
    assert [name for name, _ in verdict.at] == mentioned(claim)
    here = [SHARED[name] == number for name, number in verdict.at]
    assert z3_decides(*failure, *here)
    for index, (name, number) in enumerate(verdict.at):
        assert number >= 0
        assert not z3_decides(*failure, *here[:index], SHARED[name] < number)


@given(claims, facts, st.randoms(use_true_random=False), st.integers(0, 2))
def test_order_and_repetition_of_facts_do_not_matter(claim, given_facts, random, repeated):
    shuffled = [*given_facts, *given_facts[:repeated]]
    random.shuffle(shuffled)
    assert decide(claim, shuffled) == decide(claim, given_facts)


def renamed(claim, names):
    values = {old: symbol(new) for old, new in names.items()}
    return Claim(claim.relation, claim.left.substitute(values), claim.right.substitute(values))


@given(claims, facts)
def test_renaming_in_order_renames_the_counterexample(claim, given_facts):
    names = {"A": "D", "B": "T", "C": "x"}
    verdict = decide(claim, given_facts)
    other = decide(renamed(claim, names), tuple(renamed(fact, names) for fact in given_facts))
    if isinstance(verdict, Refuted):
        assert other == Refuted(tuple((names[name], number) for name, number in verdict.at))
    else:
        assert other == verdict


@given(claims, facts, st.permutations(NAMES))
def test_any_renaming_keeps_the_verdict(claim, given_facts, targets):
    names = dict(zip(NAMES, targets, strict=True))
    verdict = decide(claim, given_facts)
    other = decide(renamed(claim, names), tuple(renamed(fact, names) for fact in given_facts))
    assert type(other) is type(verdict)


@given(forms, forms, facts)
def test_relations_agree(left, right, given_facts):
    def verdict(relation, first, second):
        return decide(Claim(relation, first, second), given_facts)

    assert verdict(Relation.LE, left, right) == verdict(Relation.GE, right, left)
    assert verdict(Relation.LT, left, right) == verdict(Relation.GT, right, left)
    assert verdict(Relation.EQ, left, right) == verdict(Relation.EQ, right, left)
    both = [verdict(Relation.LE, left, right), verdict(Relation.GE, left, right)]
    assert (verdict(Relation.EQ, left, right) == Proved()) == (both == [Proved(), Proved()])
    # The least point where they differ is the least of those where one is less.
    points = [one.at for one in both if isinstance(one, Refuted)]
    if points:
        assert verdict(Relation.EQ, left, right) == Refuted(min(points))


@given(claims, facts, st.fractions(Fraction(1, 5), 7, max_denominator=5))
def test_both_sides_may_be_scaled(claim, given_facts, factor):
    scaled = Claim(claim.relation, claim.left.scaled(mpq(factor)), claim.right.scaled(mpq(factor)))
    assert decide(scaled, given_facts) == decide(claim, given_facts)


@given(claims, facts, claims)
def test_a_fact_more_proves_no_less(claim, given_facts, fact):
    before, after = decide(claim, given_facts), decide(claim, (*given_facts, fact))
    if isinstance(before, Refuted) and isinstance(after, Refuted):
        assert after.at >= before.at
    else:
        assert after == Proved()


@given(facts)
def test_facts_imply_themselves(given_facts):
    assert all(decide(fact, given_facts) == Proved() for fact in given_facts)


@given(st.lists(st.tuples(claims, facts), max_size=4), st.integers(0, 3))
def test_memory_changes_nothing(questions, remembered):
    decider = Decider(remembered=remembered)
    for claim, given_facts in (*questions, *questions):
        assert decider.decide(claim, given_facts) == decide(claim, given_facts)


@settings(max_examples=settings().max_examples // 2)
@given(claims, facts, st.integers(10**39, 10**40), st.sampled_from(NAMES))
def test_large_sizes(claim, given_facts, large, name):
    """A claim about A is one about A - large where A ≥ large: the counterexample moves along."""
    offset = {name: symbol(name) - constant(large)}
    moved_facts = tuple(
        Claim(fact.relation, fact.left.substitute(offset), fact.right.substitute(offset)) for fact in given_facts
    )
    moved = Claim(claim.relation, claim.left.substitute(offset), claim.right.substitute(offset))
    at_least = Claim(Relation.GE, symbol(name), constant(large))
    verdict = decide(claim, given_facts)
    if isinstance(verdict, Refuted):
        verdict = Refuted(tuple((key, number + large * (key == name)) for key, number in verdict.at))
    assert decide(moved, (*moved_facts, at_least)) == verdict
