"""The decision procedure on chosen claims: each verdict here was worked out by hand."""

import subprocess
import sys

import pytest
from gmpy2 import mpq

from presk.types.claim import Claim, Proved, Refuted, Relation, Undecided
from presk.types.decide import Decider, decide, explain
from presk.types.dim import ONE, ZERO, constant, symbol

A, B, D, H, L, N, T = map(symbol, "ABDHLNT")


def times(factor, form):
    return form.scaled(mpq(factor))


def eq(left, right):
    return Claim(Relation.EQ, left, right)


def le(left, right):
    return Claim(Relation.LE, left, right)


def lt(left, right):
    return Claim(Relation.LT, left, right)


def ge(left, right):
    return Claim(Relation.GE, left, right)


def gt(left, right):
    return Claim(Relation.GT, left, right)


def divides(number, form):
    return Claim(Relation.DIVIDES, form, constant(number))


def at(**values):
    return Refuted(tuple(values.items()))


HOLDS = Proved()
BOUND = le(T, constant(1024))
HALF = mpq(1, 2)


@pytest.mark.parametrize(
    ("claim", "facts", "verdict"),
    [
        # Without facts.
        (eq(D, D), (), HOLDS),
        (eq(D, times(4, D)), (), at(D=1)),
        (eq(T + ONE, times(2, T)), (), at(T=0)),
        (eq(T, ONE), (), at(T=0)),
        (eq(times(2, T), T + ONE), (ge(T, ONE),), at(T=2)),
        (eq(D + T, T + D), (), HOLDS),
        (eq(D + T, T), (), at(D=1, T=0)),
        (eq(D, T), (), at(D=0, T=1)),
        (eq(D, H), (eq(D, H),), HOLDS),
        (le(T, T + ONE), (), HOLDS),
        (lt(T, T + ONE), (), HOLDS),
        (le(T + ONE, T), (), at(T=0)),
        (le(T, times(2, T)), (), HOLDS),
        (lt(T, times(2, T)), (), at(T=0)),
        (le(times(2, T), T), (), at(T=1)),
        (ge(T, ZERO), (), HOLDS),
        (gt(T, ZERO), (), at(T=0)),
        (ge(D + T, D), (), HOLDS),
        (le(D, T), (), at(D=1, T=0)),
        (ge(D, T), (), at(D=0, T=1)),
        (le(ZERO, T - ONE), (), at(T=0)),
        # Facts from bounds.
        (le(T, constant(1024)), (BOUND,), HOLDS),
        (le(T, constant(1025)), (BOUND,), HOLDS),
        (le(T, constant(1023)), (BOUND,), at(T=1024)),
        (lt(T, constant(1025)), (BOUND,), HOLDS),
        (lt(T, constant(1024)), (BOUND,), at(T=1024)),
        (eq(T, ZERO), (le(T, ZERO),), HOLDS),
        (eq(T, D), (le(T, ZERO), le(D, ZERO)), HOLDS),
        (le(D + T, constant(5)), (le(D, constant(2)), le(T, constant(3))), HOLDS),
        (le(D + T, constant(4)), (le(D, constant(2)), le(T, constant(3))), at(D=2, T=3)),
        (le(T, D), (le(T, H), le(H, D)), HOLDS),
        # H is projected out: some H lies between.
        (le(times(2, T), D), (le(T, H), le(H, D)), at(D=1, T=1)),
        (lt(D, T), (lt(D, H), lt(H, T)), HOLDS),
        (lt(D + ONE, T), (lt(D, H), lt(H, T)), HOLDS),
        (lt(D + constant(2), T), (lt(D, H), lt(H, T)), at(D=0, T=2)),
        # Facts that do not touch the claim do not show in it.
        (eq(D, ZERO), (ge(T, constant(7)),), at(D=1)),
        (eq(D, T), (ge(H, constant(7)), ge(T, constant(3))), at(D=0, T=3)),
        # A symbol that cancels is shown with the value that the facts leave it.
        (eq(D + T, T), (ge(T, constant(7)),), at(D=1, T=7)),
        # Divisibility.
        (divides(1, D), (), HOLDS),
        (divides(2, D), (), at(D=1)),
        (divides(2, times(4, D)), (), HOLDS),
        (divides(2, times(2, D) + ONE), (), at(D=0)),
        (divides(3, D), (divides(12, D),), HOLDS),
        (divides(12, D), (divides(4, D), divides(3, D)), HOLDS),
        (divides(12, D), (divides(4, D), divides(6, D)), HOLDS),
        (divides(24, D), (divides(4, D), divides(6, D)), at(D=12)),
        (divides(2, D + T), (divides(2, D + ONE), divides(2, T + ONE)), HOLDS),
        (divides(2, D), (eq(D, times(2, H)),), HOLDS),
        (divides(3, D + T), (eq(D, T + ONE),), at(D=1, T=0)),
        (divides(2, D), (divides(2, D + ONE), le(D, ZERO)), HOLDS),  # no such D
        # Rational forms compare by value.
        (eq(times(HALF, D), times(HALF, D)), (), HOLDS),
        (le(times(HALF, T), T), (), HOLDS),
        (lt(times(HALF, T), T), (), at(T=0)),
        (le(times(mpq(3, 2), T), T), (), at(T=1)),
        (eq(times(mpq(1, 3), D) + constant(HALF), ZERO), (), at(D=0)),
        (eq(times(mpq(1, 12), D), H), (eq(D, times(12, H)),), HOLDS),
        (le(T, constant(mpq(7, 2))), (le(T, constant(3)),), HOLDS),
        (le(T, constant(3)), (le(T, constant(mpq(7, 2))),), HOLDS),
        (lt(T, constant(mpq(7, 2))), (), at(T=4)),
        # `k divides e` says that e / k is an integer: a fraction is not divisible.
        (divides(1, times(HALF, D)), (), at(D=1)),
        (divides(1, times(HALF, D)), (divides(2, D),), HOLDS),
        (divides(2, times(HALF, D)), (divides(2, D),), at(D=2)),
        (divides(2, D + constant(HALF)), (), at(D=0)),
        (divides(1, times(HALF, D) + times(HALF, T)), (divides(2, D + T),), HOLDS),
        # Constants.
        (eq(constant(2), constant(2)), (), HOLDS),
        (eq(constant(2), constant(3)), (), at()),
        (le(constant(3), constant(2)), (), at()),
        (lt(constant(2), constant(2)), (), at()),
        (divides(12, constant(768)), (), HOLDS),
        (divides(7, constant(768)), (), at()),
        (eq(constant(2), constant(3)), (ge(T, constant(9)),), at()),
        # Size 0.
        (divides(5, ZERO), (), HOLDS),
        (divides(5, T), (le(T, ZERO),), HOLDS),
        (eq(times(4, D), D), (eq(D, ZERO),), HOLDS),
        (ge(D, ONE), (), at(D=0)),
        (le(L, N), (eq(N, ZERO),), at(L=1, N=0)),
        # Contradictory facts imply everything, also far from the claim.
        (eq(T, T + ONE), (lt(T, ZERO),), HOLDS),
        (eq(D, D + ONE), (lt(T, ZERO),), HOLDS),
        (eq(constant(2), constant(3)), (lt(T, D), lt(D, T)), HOLDS),
        (eq(D, D + ONE), (divides(2, T), divides(2, T + ONE)), HOLDS),
        (eq(D, ZERO), (eq(ONE, ZERO),), HOLDS),
        (eq(D, ZERO), (eq(times(2, T), times(2, H) + ONE),), HOLDS),
        (eq(D, ZERO), (ge(T, constant(3)), le(T, constant(3))), at(D=1)),
    ],
    ids=str,
)
def test_verdict(claim, facts, verdict):
    assert decide(claim, facts) == verdict


BIG = 10**40 + 7
HUGE = 10**10_000 + 1


@pytest.mark.parametrize("big", [BIG, HUGE], ids=["41 digits", "10,001 digits"])
def test_numbers_have_no_limit(big):
    bound = (le(T, constant(big)),)
    assert decide(le(T, constant(big)), bound) == HOLDS
    assert decide(le(T, constant(big - 1)), bound) == at(T=big)
    assert decide(le(times(2, T), constant(2 * big)), bound) == HOLDS
    assert decide(eq(times(big, D), times(big + 1, D)), ()) == at(D=1)
    assert decide(eq(times(big, D), constant(big) * D), ()) == HOLDS
    # big·(T + 1) < (big + 1)·T just when T > big.
    assert decide(ge(times(big, T + ONE), times(big + 1, T)), ()) == at(T=big + 1)
    assert decide(divides(big, T), (divides(big * 3, T),)) == HOLDS
    assert decide(divides(big * 3, T), (divides(big, T),)) == at(T=big)
    assert decide(eq(times(mpq(1, big), T), ONE), (gt(T, constant(big)),)) == at(T=big + 1)


def test_explain():
    assert explain(decide(eq(D, D), ()), eq(D, D)) == "holds"
    claim = eq(T + ONE, times(2, T))
    assert explain(decide(claim, (ge(T, constant(2)),)), claim) == "fails for T = 2"
    claim = le(D, T)
    assert explain(decide(claim, ()), claim) == "fails for D = 1, T = 0"
    assert explain(Undecided("the budget of 5 steps ran out"), claim) == (
        "cannot be decided: the budget of 5 steps ran out"
    )


@pytest.mark.parametrize(
    ("claim", "text"),
    [
        (eq(constant(7), constant(8)), "fails: 7 is not 8"),
        (le(constant(8), constant(7)), "fails: 8 is more than 7"),
        (lt(constant(8), constant(8)), "fails: 8 is not less than 8"),
        (ge(constant(7), constant(8)), "fails: 7 is less than 8"),
        (gt(constant(mpq(7, 2)), constant(8)), "fails: 7/2 is not more than 8"),
        (divides(7, constant(768)), "fails: 768 % 7 is 5"),
        (divides(7, constant(-768)), "fails: -768 % 7 is 2"),
        (divides(2, constant(mpq(7, 2))), "fails: 7/2 % 2 is 3/2"),
    ],
    ids=str,
)
def test_explain_constants(claim, text):
    assert explain(decide(claim, ()), claim) == text


def test_explain_prints_any_number():
    claim = le(T, constant(10**5000 - 1))
    text = explain(decide(claim, (le(T, constant(10**5000)),)), claim)
    assert text == f"fails for T = 1{'0' * 5000}"


@pytest.mark.parametrize("modulus", [ZERO, constant(-2), D, D - D])
def test_divisor_must_be_a_positive_constant(modulus):
    wrong = Claim(Relation.DIVIDES, T, modulus)
    with pytest.raises(ValueError, match="positive constant"):
        decide(wrong, ())
    with pytest.raises(ValueError, match="positive constant"):
        decide(eq(T, D), (wrong,))


# --- what a decider remembers and counts


def counts(decider):
    return decider.calls, decider.recalled, decider.solved


def test_plain_claims_do_not_reach_isl():
    decider = Decider()
    for claim, facts in [
        (eq(D, D), ()),
        (le(T, T + ONE), ()),
        (eq(D, times(4, D)), ()),
        (eq(T, D), ()),
        (eq(constant(2), constant(3)), ()),
        (le(T, constant(1024)), (BOUND,)),
        (le(T, constant(2000)), (BOUND,)),
        (divides(2, times(4, D)), (BOUND,)),
        (divides(2, D), (BOUND,)),
        (le(ZERO, T - ONE), (ge(T, ONE),)),
        (eq(D, H), (eq(H, D),)),
    ]:
        decider.decide(claim, facts)
    assert counts(decider) == (11, 0, 0)


def test_plain_claims_do_not_import_islpy():
    program = (
        "import sys; from presk.types.decide import Decider, Claim, Relation; from presk.types.dim import symbol, ONE\n"
        "T = symbol('T'); d = Decider(); d.decide(Claim(Relation.LE, T, T + ONE), ()); print('islpy' in sys.modules)\n"
        "d.decide(Claim(Relation.LE, T + T, ONE), ()); print('islpy' in sys.modules)\n"
        "d.decide(Claim(Relation.LE, T, ONE), ()); print('islpy' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False", "True"]
    assert done.stderr == ""


def test_same_question_is_asked_once():
    decider = Decider()
    facts = (le(T, constant(10)), divides(2, T))
    assert decider.decide(le(T, constant(9)), facts) == at(T=10)
    assert decider.decide(le(T, constant(9)), facts) == at(T=10)
    assert counts(decider) == (2, 1, 1)
    # Facts in another order, facts said otherwise, another name: still the same question.
    assert decider.decide(le(T, constant(9)), facts[::-1]) == at(T=10)
    assert decider.decide(lt(T, constant(10)), (*facts, ge(constant(10), T), ge(T, ZERO))) == at(T=10)
    assert decider.decide(lt(H, constant(10)), (divides(2, H), le(H, constant(10)))) == at(H=10)
    assert counts(decider) == (5, 4, 1)


def test_memory_is_bounded_and_forgets_the_least_recently_used():
    decider = Decider(remembered=2)

    def ask(number):
        assert decider.decide(le(T, constant(number)), ()) == at(T=number + 1)
        return decider.solved

    assert [ask(5), ask(6), ask(5), ask(7), ask(5), ask(6)] == [1, 2, 2, 3, 3, 4]
    nothing = Decider(remembered=0)
    for _ in range(3):
        nothing.decide(le(T, constant(5)), ())
    assert counts(nothing) == (3, 0, 3)


def test_facts_that_change_in_place_are_read_again():
    decider = Decider()
    facts = [le(T, constant(3))]
    assert decider.decide(le(T, constant(3)), facts) == HOLDS
    facts[0] = le(T, constant(4))
    assert decider.decide(le(T, constant(3)), facts) == at(T=4)


# --- the budget


WEIGHTS = (12137, 24269, 36405, 36407, 48545, 60683)
# The largest number that is no sum of multiples of these weights: the instance "cuww5" of the literature on knapsacks,
# made to be hard for solvers that cut or branch.
FROBENIUS = 58925134
UNKNOWNS = tuple(symbol(f"x{index}") for index in range(len(WEIGHTS)))
NEVER = eq(UNKNOWNS[0], UNKNOWNS[0] + ONE)


def knapsack(total):
    """The fact that `total` is the sum of the weights times the unknowns."""
    return (eq(sum(map(times, WEIGHTS, UNKNOWNS), start=ZERO), constant(total)),)


def reachable(weights, total):
    """The numbers up to `total` that are sums of multiples of the weights, as the bits of an integer."""
    reached, mask = 1, (1 << (total + 1)) - 1
    for weight in weights:
        shift = weight
        while shift <= total:
            reached |= (reached << shift) & mask
            shift *= 2
    return reached


def test_hard_knapsacks_are_decided():
    assert decide(NEVER, knapsack(FROBENIUS)) == HOLDS
    assert decide(NEVER, knapsack(FROBENIUS + 1)) == at(x0=0)


def test_hard_least_point():
    """The least solution of a knapsack, found again by counting up each unknown until the rest can be reached."""
    rest, least = FROBENIUS + 1, []
    for index, weight in enumerate(WEIGHTS[:-1]):
        reached = reachable(WEIGHTS[index + 1 :], rest)
        number = next(number for number in range(rest // weight + 1) if reached >> (rest - number * weight) & 1)
        least.append(number)
        rest -= number * weight
    least.append(rest // WEIGHTS[-1])
    claim = gt(ZERO, sum(UNKNOWNS, start=ZERO))
    verdict = Refuted(tuple((f"x{index}", number) for index, number in enumerate(least)))
    assert decide(claim, knapsack(FROBENIUS + 1)) == verdict


def test_budget_makes_undecided():
    claim, facts = NEVER, knapsack(FROBENIUS)
    assert Decider(budget=100).decide(claim, facts) == Undecided("the budget of 100 steps ran out")
    # Facts far from the claim count as well.
    assert Decider(budget=100).decide(eq(T, ZERO), facts) == Undecided("the budget of 100 steps ran out")
    assert Decider().decide(eq(T, ZERO), facts) == HOLDS


def test_every_budget_gives_the_verdict_or_undecided():
    """Wherever the budget runs out, the decision ends in Undecided; the same decider then decides other claims."""
    claim, facts = le(times(3, D), times(2, T)), (le(T, D + constant(9)), divides(5, T + D), ge(D, constant(4)))
    right = decide(claim, facts)
    assert isinstance(right, Refuted)
    verdicts = []
    for budget in range(1, 2000):
        decider = Decider(budget=budget, remembered=0)
        first = decider.decide(claim, facts)
        verdicts.append(first)
        assert first in (right, Undecided(f"the budget of {budget} steps ran out"))
        assert decider.decide(claim, facts) == first
    assert verdicts[-1] == right
    assert isinstance(verdicts[0], Undecided)
    # More budget never takes a verdict back.
    assert [verdict == right for verdict in verdicts] == sorted(verdict == right for verdict in verdicts)


def test_what_was_decided_before_does_not_matter():
    """The budget at which a claim is decided is the same for a fresh decider and for one with a past."""
    claim, facts = NEVER, knapsack(FROBENIUS)

    def least_budget(past):
        low, high = 1, 4000
        while high - low > 1:
            middle = (low + high) // 2
            decider = Decider(budget=middle)
            for number in range(past):
                decider.decide(le(T + D, times(number, H) + ONE), (le(T, constant(number)), divides(2, D)))
            if decider.decide(claim, facts) == HOLDS:
                high = middle
            else:
                low = middle
        return high

    assert least_budget(0) == least_budget(40)


# --- resources


def test_nothing_is_printed(capfd):
    decide(NEVER, knapsack(FROBENIUS))
    Decider(budget=3).decide(le(T + D, constant(5)), (divides(2, T),))
    assert capfd.readouterr() == ("", "")


LEAK = """
import random, resource
from presk.types.claim import Claim, Relation
from presk.types.decide import Decider
from presk.types.dim import constant, symbol

D, H, T = symbol("D"), symbol("H"), symbol("T")
decider = Decider(remembered=100)
numbers = random.Random(7)

def run(count):
    for _ in range(count):
        bound, step = numbers.randint(1, 10**6), numbers.randint(2, 50)
        facts = (Claim(Relation.LE, T, constant(bound)), Claim(Relation.DIVIDES, T + D, constant(step)))
        decider.decide(Claim(Relation.LE, T + T, D + constant(bound)), (*facts, Claim(Relation.LE, D, H)))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

before = run(2000)
print(run(10_000) / before, decider.solved)
"""


def test_ten_thousand_decisions_leak_nothing():
    """The process's greatest size does not grow by 2 % (it would by 8 % if each decision lost 230 bytes)."""
    done = subprocess.run([sys.executable, "-c", LEAK], capture_output=True, text=True, check=True)
    growth, solved = map(float, done.stdout.split())
    assert solved > 11_000
    assert growth < 1.02
