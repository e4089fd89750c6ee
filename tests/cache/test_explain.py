"""Explanations: the first ingredient that differs is named, with what it was and what it is."""

import pytest

from presk.cache.codec import TEXT
from presk.cache.digest import value_digest
from presk.cache.engine import Engine
from presk.cache.explain import Difference
from presk.cache.packages import Packages
from presk.cache.stage import Stage
from tests.cache.support import HURRY, LONGEST, SHEET, SHOUT, check


@pytest.fixture(params=["memory", "store"])
def engine(workshop, request):
    return workshop.engine(workshop.store() if request.param == "store" else None)


def why(engine, stage, subject=""):
    explanation = engine.explain_last(stage, subject)
    assert explanation is not None
    return explanation


def shout(engine, text, subject="it", **options):
    return engine.get(SHOUT, engine.leaf("text", text, TEXT), subject=subject, **options)


def test_what_was_never_asked_has_no_explanation(engine):
    assert engine.explain_last("shout", "it") is None
    assert engine.explain(value_digest(b"no key")) is None


def test_the_first_time(engine):
    answer = shout(engine, "a")
    explanation = why(engine, "shout", "it")
    assert (explanation.outcome, explanation.reason, explanation.key) == ("computed", "first", answer.key)
    assert explanation.text() == "shout (it) was computed for the first time"


def test_another_subject_is_not_an_earlier_answer(engine):
    shout(engine, "a", "it")
    shout(engine, "b", "that")
    assert why(engine, "shout", "that").reason == "first"


def test_reuse(engine):
    shout(engine, "a")
    shout(engine, "a")
    explanation = why(engine, "shout", "it")
    assert explanation.outcome == "memory"
    assert explanation.text() == "shout (it) was reused from memory; it had been computed for the first time"


def test_an_input_that_differs_is_shown_where_it_differs(engine):
    common = "a long beginning that both texts have in common, "
    shout(engine, common + "then one " + "x" * 100)
    shout(engine, common + "then two " + "x" * 100)
    explanation = why(engine, "shout", "it")
    assert explanation.reason == "changed"
    (difference,) = explanation.differences
    assert difference.ingredient == "the input text"
    assert difference.old == "…ommon, then one " + "x" * 32 + "…"
    assert difference.new == "…ommon, then two " + "x" * 32 + "…"
    assert explanation.text().startswith("shout (it) was computed because the input text differs: …ommon, then one ")


def test_an_option_that_differs(engine):
    shout(engine, "a", times=1)
    shout(engine, "a", times=2)
    assert why(engine, "shout", "it").text() == "shout (it) was computed because the option times differs: 1 → 2"
    shout(engine, "a", times=2, mark="!")
    assert why(engine, "shout", "it").text() == "shout (it) was computed because the option mark differs: None → '!'"


def test_inputs_come_before_options(engine):
    shout(engine, "a", times=1)
    shout(engine, "b", times=2)
    assert [one.ingredient for one in why(engine, "shout", "it").differences] == ["the input text", "the option times"]


def test_the_nearest_earlier_answer_is_compared(engine):
    shout(engine, "a", times=1, mark="?")
    shout(engine, "b", times=2, mark="!")
    shout(engine, "a", times=1, mark="!")
    assert why(engine, "shout", "it").differences == (Difference("the option mark", "'?'", "'!'"),)


def test_only_the_last_few_are_compared(engine):
    shout(engine, "a", times=1, mark="?")
    for number in range(4):
        shout(engine, f"b{number}", times=2, mark="!")
    shout(engine, "a", times=1, mark="!")
    assert len(why(engine, "shout", "it").differences) == 2


def test_inputs_that_come_and_go(engine):
    a, b = (engine.leaf("text", text, TEXT) for text in ("a", "b"))
    engine.get(LONGEST, a)
    engine.get(LONGEST, a, b)
    text = "longest was computed because the input texts[1] differs: absent → 'b', with the same value as before"
    assert why(engine, "longest").text() == text
    engine.get(LONGEST)
    (first, *_) = why(engine, "longest").differences
    assert (first.ingredient, first.old, first.new) == ("the input texts[0]", "'a'", "absent")


def test_the_entry_of_a_group_is_named_and_followed_to_its_cause(engine):
    check(engine, SHEET)
    check(engine, SHEET.replace("half = 1/2", "half = 1/3"))
    explanation = why(engine, "value", "sum")
    assert [one.ingredient for one in explanation.differences] == ["the input names[half]"]
    assert explanation.because is not None
    assert (explanation.because.stage, explanation.because.subject) == ("value", "half")
    assert [one.ingredient for one in explanation.because.differences] == ["the input declaration"]
    first, second = explanation.text().splitlines()
    assert first.startswith("value (sum) was computed because the input names[half] differs: ")
    assert second.startswith("  since value (half) was computed because the input declaration differs: ")


def test_causes_are_followed_through_several_stages(engine):
    check(engine, SHEET)
    check(engine, SHEET.replace("one = 1", "one = 8"))
    chain = []
    explanation = why(engine, "value", "twice")
    while explanation is not None:
        chain.append(explanation.subject)
        explanation = explanation.because
    assert chain == ["twice", "sum", "one"]


def test_entries_of_groups_that_come_go_and_nest(engine):
    a, b, c = (engine.leaf("text", text, TEXT) for text in "abc")

    def ask(**names):
        engine.get(GROUPED, engine.group("names", names))
        return [(one.ingredient, one.old, one.new) for one in why(engine, "grouped").differences]

    ask(a=a, b=b)
    assert ask(a=a, b=b, c=c) == [("the input names[c]", "absent", "'c'")]
    assert ask(b=b, c=c) == [("the input names[a]", "'a'", "absent")]
    inner = engine.group("inner", {"x": a, "y": b})
    ask(n=inner)
    assert ask(n=engine.group("inner", {"x": a, "y": c})) == [("the input names[n][y]", "'b'", "'c'")]


GROUPED = Stage("grouped", "fake.other", (), lambda names: str(sorted(names)), TEXT)


def test_an_equal_value_is_told(engine):
    check(engine, SHEET)
    check(engine, SHEET.replace("half = 1/2", "half = 2/4"))
    explanation = why(engine, "value", "half")
    assert explanation.unchanged
    assert explanation.text().endswith(", with the same value as before")


def test_a_transient_answer_is_not_remembered(engine):
    engine.get(HURRY, engine.leaf("text", "slow", TEXT), subject="it")
    assert engine.explain_last("hurry", "it") is None


def test_the_code_is_told_by_module(workshop):
    store = workshop.store()
    check(workshop.engine(store), SHEET)
    store.flush()
    for file, label in (
        ("tree.py", "the code, module fake.tree,"),
        ("words.txt", "the code, file fake.split:words.txt,"),
    ):
        path = workshop.project["fake"] / file
        path.write_text(path.read_text() + "# edited\n")
        engine = Engine(store, project=workshop.project)
        check(engine, SHEET)
        explanation = why(engine, "split", "sheet")
        assert [one.ingredient for one in explanation.differences] == [label]
        assert explanation.unchanged


def test_the_code_is_told_by_package(workshop):
    stage = Stage("packaged", "fake.other", (), lambda text: text, TEXT, packages=("lark",))
    store = workshop.store()
    for version in ("1.0", "1.1"):
        engine = Engine(store, project=workshop.project, packages=Packages({"lark": lambda: version}))  # noqa: B023
        engine.get(stage, engine.leaf("text", "a", TEXT))
    text = why(engine, "packaged").text()
    assert (
        text
        == "packaged was computed because the code, package lark, differs: 1.0 → 1.1, with the same value as before"
    )


def test_another_process_explains_what_lies_on_the_disk(workshop):
    first = workshop.store()
    engine = workshop.engine(first)
    shout(engine, "a")
    shout(engine, "b")
    first.close()
    engine = workshop.engine(workshop.store())
    explanation = why(engine, "shout", "it")
    assert (explanation.outcome, explanation.reason) == (None, "changed")
    assert explanation.text() == "shout (it) is kept; it was computed because the input text differs: 'a' → 'b'"
    shout(engine, "b")
    assert (
        why(engine, "shout", "it")
        .text()
        .startswith("shout (it) was reused from the disk; it had been computed because")
    )


def test_an_evicted_answer_is_told(workshop):
    first = workshop.store()
    answer = shout(workshop.engine(first), "a")
    first.forget(answer.key)
    first.close()
    engine = workshop.engine(workshop.store())
    shout(engine, "a")
    text = why(engine, "shout", "it").text()
    assert text == "shout (it) was computed again because the earlier answer was evicted or damaged"


def test_a_lost_value_is_told(workshop):
    first = workshop.store()
    answer = shout(workshop.engine(first), "a")
    first.flush()
    first.discard(answer.digest)
    first.close()
    engine = workshop.engine(workshop.store())
    assert shout(engine, "a").value == "A"
    assert why(engine, "shout", "it").reason == "lost"


def test_an_earlier_answer_of_which_nothing_is_known(workshop):
    first = workshop.store()
    answer = shout(workshop.engine(first), "a")
    first.forget(answer.key)
    first.close()
    engine = workshop.engine(workshop.store())
    shout(engine, "b")
    explanation = why(engine, "shout", "it")
    assert explanation.reason == "forgotten"
    assert explanation.text() == (
        "shout (it) was computed anew; what the earlier answer was made from is not known any more"
    )


def test_what_is_no_longer_kept_is_shown_by_its_digest(workshop):
    store = workshop.store()
    engine = workshop.engine(store)
    shout(engine, "a")
    store.discard(value_digest(b"a"))
    shout(engine, "b")
    (difference,) = why(engine, "shout", "it").differences
    assert difference.old == value_digest(b"a").hex()[:12]
