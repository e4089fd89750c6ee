"""Verifying recomputes what is stored and finds stages that are no functions."""

from pathlib import Path

import pytest

from presk.cache.codec import TEXT
from presk.cache.engine import Engine
from presk.cache.maintain import clear
from presk.cache.stage import Stage
from presk.cache.verify import verify
from tests.cache.support import CHECK, DECLARATION, HURRY_TWICE, SHEET, SHOUT, SPLIT, STAGES, VALUE_OF, check

SETTINGS = {"drift": 0}


def _drifting(text: str) -> str:
    return f"{text} {SETTINGS['drift']}"


DRIFTING = Stage("drifting", "fake.other", (), _drifting, TEXT)


@pytest.fixture
def filled(workshop):
    store = workshop.store()
    engine = workshop.engine(store)
    check(engine, SHEET)
    check(engine, SHEET, scale=2)
    engine.get(SHOUT, engine.leaf("text", "a", TEXT), mark="!")
    engine.get(HURRY_TWICE, engine.leaf("text", "quick", TEXT))
    return engine


def test_functions_are_verified(filled):
    verified = verify(filled, STAGES, (DECLARATION,), sample=None)
    assert verified.mismatches == ()
    # One split, five values at two scales, two checks, a shout, and the two of the composite stage.
    assert verified.checked == 1 + 10 + 2 + 1 + 2
    assert verified.skipped == {}


def test_a_sample_is_as_large_as_asked_and_depends_on_the_seed(filled):
    assert verify(filled, STAGES, (DECLARATION,), sample=5).checked == 5
    assert verify(filled, STAGES, (DECLARATION,), sample=0).checked == 0


def test_a_drifting_stage_is_quarantined_and_reported(workshop):
    """Item 15 of the requirements on the daemon."""
    store = workshop.store()
    engine = workshop.engine(store)
    SETTINGS["drift"] = 1
    answer = engine.get(DRIFTING, engine.leaf("text", "a", TEXT), subject="fn a")
    assert verify(engine, (DRIFTING,)).mismatches == ()
    SETTINGS["drift"] = 2
    (mismatch,) = verify(engine, (DRIFTING,)).mismatches
    assert (mismatch.stage, mismatch.subject, mismatch.key) == ("drifting", "fn a", answer.key)
    assert [Path(path).read_bytes() for path in mismatch.files] == [b"a 1", b"a 2"]
    assert store.record(answer.key) is None
    assert store.value(answer.digest) is None
    again = workshop.engine(store)
    assert again.get(DRIFTING, again.leaf("text", "a", TEXT)).value == "a 2"
    clear(store)
    assert not Path(mismatch.files[0]).exists()


def test_why_answers_are_not_verified(workshop, filled):
    assert verify(filled, (SHOUT,), sample=None).skipped == {"the stage is not known": 15}
    without = verify(filled, (VALUE_OF, SPLIT), sample=None).skipped
    assert without["the encoding of an input (struct tests.cache.support.Declaration) is not known"] == 10
    store = filled.store
    for digest in [record.value for key in store.rows.keys(b"k") if (record := store.record(key[1:])).stage == "split"]:
        store.discard(digest)
    assert verify(filled, (SPLIT,), sample=None).skipped["the value is not kept"] == 1
    for key in list(store.rows.keys(b"v")):
        store.rows.drop(key)
    assert verify(filled, STAGES, (DECLARATION,), sample=None).checked == 0


def test_answers_of_other_code_are_not_verified(workshop, filled):
    path = workshop.project["fake"] / "tree.py"
    path.write_text("edited = 1\n")
    verified = verify(Engine(filled.store, project=workshop.project), STAGES, (DECLARATION,), sample=None)
    assert verified.skipped == {"it was made by other code": 13}
    assert verified.checked == 3


def test_an_input_that_is_gone_is_told(workshop):
    store = workshop.store()
    engine = workshop.engine(store)
    text = engine.leaf("text", "a", TEXT)
    engine.get(SHOUT, text)
    store.discard(text.digest)
    assert verify(engine, (SHOUT,)).skipped == {"an input is not kept": 1}


def test_without_a_store_there_is_nothing_to_verify(workshop):
    assert verify(workshop.engine(), (CHECK,)).checked == 0
