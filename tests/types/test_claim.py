"""Claims and verdicts print as the language writes them."""

import pytest
from gmpy2 import mpq

from presk.types.claim import Claim, Refuted, Relation
from presk.types.dim import ONE, constant, symbol

T, D = symbol("T"), symbol("D")


@pytest.mark.parametrize(
    ("claim", "text"),
    [
        (Claim(Relation.EQ, D.scaled(mpq(4)), D), "4*D == D"),
        (Claim(Relation.LE, T, constant(1024)), "T <= 1024"),
        (Claim(Relation.LT, T, T + ONE), "T < T + 1"),
        (Claim(Relation.GE, T, ONE), "T >= 1"),
        (Claim(Relation.GT, T + D, ONE), "D + T > 1"),
        (Claim(Relation.DIVIDES, D, constant(2)), "D % 2 == 0"),
        (Claim(Relation.DIVIDES, D + ONE, constant(2)), "(D + 1) % 2 == 0"),
        (Claim(Relation.DIVIDES, constant(768), constant(12)), "768 % 12 == 0"),
    ],
)
def test_claim_text(claim, text):
    assert str(claim) == text


def test_counterexample_text():
    assert str(Refuted((("D", 1), ("T", 0)))) == "D = 1, T = 0"


def test_equal_claims_are_equal_values():
    assert Claim(Relation.LE, T + D, ONE) == Claim(Relation.LE, D + T, ONE)
    assert Claim(Relation.LE, T, ONE) != Claim(Relation.LT, T, ONE)
