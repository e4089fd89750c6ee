"""Scopes, facts, environments, joined diagnostics."""

from presk.diagnostics.report import Reporter
from presk.diagnostics.value import Place
from presk.elab.cycles import shown_cycle
from presk.elab.entities import (
    AliasEntity,
    ConstEntity,
    DimEntity,
    Elaborated,
    Entity,
    LateEntity,
    ModuleHeader,
    OtherEntity,
    Signature,
)
from presk.elab.environment import env_of, member_entry, module_entry
from presk.elab.scope import connected, declared_at, describe, merged, path_of
from presk.elab.suggestions import with_proposal
from presk.types.claim import Claim, Relation
from presk.types.dim import constant, symbol
from presk.types.type import ModuleRef, Real
from tests.elab.support import MAIN, codes, env_with, expr, scope

PLACE = Place(1, 1, "fn f", MAIN)


def bound(name: str, most: int) -> Claim:
    return Claim(Relation.LE, symbol(name), constant(most))


HEADER = ModuleHeader(ModuleRef("lib.psk", "M"), (), ("T",), (bound("T", 9),), (), ("apply",))
MODEL = ModuleHeader(ModuleRef(MAIN, "G"), (), (), (), (), (), model=None)
SIGNATURE = Signature("f", MAIN, "fn f", None, (), (), (), Real(), (), (), (0, 3))


def test_facts_are_those_that_are_connected() -> None:
    chain = Claim(Relation.LE, symbol("A"), symbol("B"))
    facts = (bound("C", 1), chain, bound("B", 3))
    assert connected(facts, ["A"]) == (chain, bound("B", 3))
    assert connected(facts, ["C"]) == (bound("C", 1),)
    assert connected(facts, []) == ()


def test_facts_of_a_scope() -> None:
    env = env_with(
        DimEntity("B", (bound("B", 4),)),
        AliasEntity("A", Real(), (bound("B", 4), bound("S", 5))),
        ConstEntity("D", constant(3)),
        HEADER,
    )
    assert scope(env).all_facts() == (bound("B", 4), bound("S", 5), bound("T", 9))
    # A type parameter of its name is not the file's dimension, whose symbol is then spelled otherwise.
    assert scope(env, params=frozenset({"B", "T"})).all_facts() == (bound("dim B", 4), bound("S", 5))
    own = env_with(DimEntity("T"), HEADER)
    assert scope(own).all_facts() == ()
    assert scope(env).facts(["S"]) == (bound("S", 5),)


def test_entities_in_words_and_places() -> None:
    late = LateEntity("N", Place(1, 1, "const N", MAIN))
    other = OtherEntity("g", "a function", Place(1, 1, "fn g", "lib.psk"))
    expected: dict[Entity, tuple[str, str, str]] = {
        ConstEntity("N", None): ("a constant", "const N", MAIN),
        late: ("a constant", "const N", MAIN),
        LateEntity("T", Place(1, 1, "dim T", MAIN), "dimension"): ("a dimension", "dim T", MAIN),
        other: ("a function", "fn g", "lib.psk"),
        DimEntity("T"): ("a dimension", "dim T", MAIN),
        AliasEntity("A", None): ("a type alias", "type A", MAIN),
        HEADER: ("a module", "module M", "lib.psk"),
        SIGNATURE: ("a function", "fn f", MAIN),
    }
    for entity, (what, chunk, file) in expected.items():
        assert describe(entity) == what
        ((place, text),) = declared_at(entity, "x", env_with())
        assert place == Place(1, 1, chunk, file)
        assert what in text
    # Where an import's constant is declared is not known here; its module's and its function's files are.
    assert declared_at(ConstEntity("V", None), "m.V", env_with()) == []
    assert declared_at(HEADER, "m.M", env_with()) != []


def test_paths() -> None:
    assert path_of(expr("a")) == ("a",)
    assert path_of(expr("a.b.c")) == ("a", "b", "c")
    assert path_of(expr("a(b).c")) is None
    assert path_of(expr("3")) is None


def test_diagnostics_that_say_the_same_are_one() -> None:
    reporter = Reporter()
    for at in range(8):
        reporter.report("E1001", (at, at), "unknown `x`", text="not declared")
    reporter.report("E1001", (9, 9), "unknown `y`")
    first, second = merged(reporter.diagnostics())
    assert (first.primary.place.first, second.primary.place.first) == (0, 9)
    assert [(label.place.first, label.text) for label in first.labels] == [(at, "here too") for at in range(1, 5)]


def test_cycles_in_words() -> None:
    assert shown_cycle(["A"]) == "`A` → `A`"
    assert shown_cycle(["A", "B"]) == "`A` → `B` → `A`"
    long = shown_cycle([f"N{i}" for i in range(100)])
    assert long.startswith("`N0` → `N1` → ")
    assert long.endswith(" → `N99` → `N0`")
    assert "(89 more)" in long


def test_an_environment_from_its_entries() -> None:
    member = Signature("apply", "lib.psk", "module M/fn apply", HEADER.ref, (), (), (), Real(), (), (), (0, 3))
    env = env_of(
        {
            "file": MAIN,
            "name:D": Elaborated(ConstEntity("D", constant(3))),
            "name:m.M": Elaborated(HEADER),
            "name:Bad": Elaborated(None),
            "broken:lost": "",
            "import:m": "",
            module_entry(HEADER.ref): Elaborated(HEADER),
            member_entry(HEADER.ref, "apply"): Elaborated(member),
        }
    )
    assert env.file == MAIN
    assert env.names == {"D": ConstEntity("D", constant(3)), "m.M": HEADER}
    assert env.modules == {HEADER.ref: HEADER}
    assert env.members == {(HEADER.ref, "apply"): member}
    assert env.imports == frozenset({"m"})
    assert env.broken == frozenset({"Bad", "lost"})


# --- proposals --------------------------------------------------------------------------------------------------------


def propose(
    unknown: str | None, candidates: list[str], *, code: str = "E1001", mend: str | None = None
) -> tuple[str | None, tuple[str, ...]]:
    reporter = Reporter()
    reporter.report(code, (0, 0), "unknown", mend=mend, unknown=unknown)
    (one,) = reporter.diagnostics()
    found = with_proposal(one, candidates)
    assert codes((found,)) == [code]
    return found.mend, found.notes


def test_proposals() -> None:
    assert propose("Liner", ["Linear", "Other"]) == ("did you mean `Linear`?", ())
    assert propose("m.Liner", ["m.Linear", "m.Other"]) == ("did you mean `m.Linear`?", ())
    assert propose("Liner", ["Linear"], mend="declare it") == ("did you mean `Linear`?", ())
    assert propose("Liner", ["Linear"], code="W0001", mend="declare it") == ("declare it", ("did you mean `Linear`?",))
    assert propose("Liner", ["Q"], mend="declare it") == ("declare it", ())
    assert propose(None, ["Linear"]) == (None, ())
    assert propose("Liner", ["Linear"], mend="did you mean `Line`?") == ("did you mean `Line`?", ())
