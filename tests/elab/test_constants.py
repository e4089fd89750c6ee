"""Constants, dimensions, aliases, assertions."""

import pytest

from presk.diagnostics.value import Place
from presk.elab.assertions import decide_assertion
from presk.elab.constants import elaborate_alias, elaborate_constant, elaborate_dimension
from presk.elab.entities import AliasEntity, ConstEntity, DimEntity, LateEntity, ModuleHeader
from presk.types.claim import Claim, Relation, Undecided, Verdict
from presk.types.decide import Decider
from presk.types.dim import constant, symbol
from presk.types.type import ModuleRef, ModuleType
from tests.elab.support import MAIN, codes, declaration, env_with, words


def bound(name: str, most: int) -> Claim:
    return Claim(Relation.LE, symbol(name), constant(most))


ENV = env_with(
    ConstEntity("D", constant(768)),
    ConstEntity("H", constant(7)),
    ConstEntity("Bad", None),
    ConstEntity("O", constant(0)),
    DimEntity("T", (bound("T", 1024),)),
    DimEntity("S"),
    DimEntity("K"),
    paths={"Late": LateEntity("Late", Place(1, 1, "dim Late", MAIN), "dimension")},
)


def test_a_constant() -> None:
    assert elaborate_constant(declaration("const A : nat = 2 * D"), ENV, Decider()) == (
        ConstEntity("A", constant(1536)),
        (),
    )


def test_an_override_is_the_value_and_the_expression_is_not_looked_at() -> None:
    node = declaration("const A = Gone / 0")
    assert elaborate_constant(node, ENV, Decider(), constant(3)) == (ConstEntity("A", constant(3)), ())
    found, said = elaborate_constant(node, ENV, Decider())
    assert found == ConstEntity("A", None)
    assert codes(said) == ["E1001"]


@pytest.mark.parametrize(
    "type_, shown", [("f64", "f64"), ("int", "int"), ("ℝ", "real tensor"), ("(nat, nat)", "this type")]
)
def test_a_constant_is_a_nat(type_: str, shown: str) -> None:
    found, said = elaborate_constant(declaration(f"const A : {type_} = 0.5"), ENV, Decider())
    (one,) = said
    assert one.code == "E1022"
    assert shown in words(one)
    assert found.value is None


def test_dimensions_and_their_facts() -> None:
    assert elaborate_dimension(declaration("dim B"), ENV, Decider()) == (DimEntity("B"), ())
    found, said = elaborate_dimension(declaration("dim B <= 2*T + S - D"), ENV, Decider())
    assert said == ()
    own, of_t = found.facts
    assert str(own) == "B <= S + 2*T - 768"
    assert of_t == bound("T", 1024)


@pytest.mark.parametrize(
    "text, code", [("Late", "E1006"), ("T*S", "E1007"), ("3 - 5", "E1020"), ("Q", "E1001"), ("T / 2", "E1008")]
)
def test_wrong_bounds(text: str, code: str) -> None:
    found, said = elaborate_dimension(declaration(f"dim B <= {text}"), ENV, Decider())
    assert codes(said) == [code]
    assert found == DimEntity("B")


def test_an_alias_has_the_facts_of_what_it_mentions() -> None:
    found, said = elaborate_alias(declaration("type A = (ℝ[T, K], idx[D][S])"), ENV, Decider())
    assert said == ()
    assert found.facts == (bound("T", 1024),)
    assert elaborate_alias(declaration("type A = ℝ[K]"), ENV, Decider())[0].facts == ()


def test_an_alias_of_a_module_has_the_facts_of_its_hidden_dimensions() -> None:
    header = ModuleHeader(ModuleRef("m.psk", "Pos"), (), ("P",), (bound("P", 9),), (), ())
    found, _ = elaborate_alias(declaration("type A = m.Pos"), env_with(paths={"m.Pos": header}), Decider())
    assert isinstance(found.type, ModuleType)
    assert found.facts == (bound("P", 9),)


def test_a_refused_alias() -> None:
    found, said = elaborate_alias(declaration("type A = (ℝ[N], Gone)"), ENV, Decider())
    assert found == AliasEntity("A", None)
    assert codes(said) == ["E1001", "E1001"]


# --- assertions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "T <= 1024",
        "1025 > T",
        "D % 12 == 0",
        "(6*S + 9) % 3 == 0",
        "D == 767 + 1",
        "S < S + 1",
        "0.5 * T <= 512",
        "D / 5 < 154",
        "1 / 3 + 1 / 3 + 1 / 3 == 1",
        "Bad == 3",
    ],
)
def test_assertions_that_hold(text: str) -> None:
    assert decide_assertion(declaration(f"static assert {text}"), ENV, Decider()) == ()


@pytest.mark.parametrize(
    "text, code, said",
    [
        ("T <= 1023", "E1004", "fails for T = 1024"),
        ("S == S + 1", "E1004", "fails for S = 0"),
        ("K + S <= 1", "E1004", "fails for K = 0, S = 2"),
        ("S % 3 == 0", "E1004", "fails for S = 1"),
        ("D % H == 0", "E1004", "768 % 7 is 5"),
        ("D == 2 * H", "E1004", "this is 14"),
        ("S % K == 0", "E1007", "divisor is K"),
        ("S * K >= 0", "E1007", "product"),
        ("S % 0 == 0", "E1023", "remainder by 0"),
        ("D % O == 0", "E1023", "remainder by 0"),
        ("S % (1 / 2) == 0", "E1016", "1/2"),
        ("S % (0 - 3) == 0", "E1016", "-3"),
        ("S % 2 == 1", "E1016", "compared with 0"),
        ("S % 2 <= 0", "E1016", "compared with 0"),
        ("0 <= S <= 3", "E1016", "chained"),
        ("S", "E1016", "not an assertion"),
        ("S + 1", "E1016", "not an assertion"),
        ("3 == S % 3", "E1014", "`a % k == 0`"),
        ("Q == 3", "E1001", "Q"),
        ("S / 3 <= S", "E1008", "S = 1"),
    ],
)
def test_assertions_that_do_not(text: str, code: str, said: str) -> None:
    (one,) = decide_assertion(declaration(f"static assert {text}"), ENV, Decider())
    assert one.code == code
    assert said in words(one)


def test_what_cannot_be_decided_is_an_error() -> None:
    class GivesUp(Decider):
        """A procedure whose budget always runs out."""

        def decide(self, claim: Claim, facts: object) -> Verdict:
            return Undecided("the budget ran out")

    (one,) = decide_assertion(declaration("static assert T <= 3"), ENV, GivesUp())
    assert one.code == "E1017"
    assert "the budget ran out" in words(one)
