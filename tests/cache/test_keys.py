"""Every ingredient of a key counts, and the check that says so would notice one that does not."""

import dataclasses

import pytest
from msgspec.structs import replace

from presk.cache.codec import TEXT
from presk.cache.digest import Digest
from presk.cache.engine import Engine
from presk.cache.fingerprint import Fingerprints
from presk.cache.keys import Prepared
from presk.cache.stage import Stage
from tests.cache.keys import StandIn, assert_every_ingredient_counts, undeclared_packages
from tests.cache.support import CHECK, DECLARATION, LONGEST, SHOUT, SPLIT, VALUE_OF, Declaration


def cases(workshop):
    """The stages of the invented project, as they are asked."""
    engine = workshop.engine()
    text, other, third = (engine.leaf("text", word, TEXT) for word in ("a", "b", "c"))
    source = engine.bytes("source", b"one = 1\n")
    declaration = engine.leaf("d", Declaration("one", ("1",)), DECLARATION)
    names = engine.group("names", {"a": text, "b": other, "c": engine.group("inner", {"d": text})})
    return {
        "split": (SPLIT, (source,), {}),
        "value": (VALUE_OF, (declaration, names), {"scale": 2}),
        "check": (CHECK, (source,), {"scale": None}),
        "shout": (SHOUT, (text,), {"mark": "!"}),
        "longest": (LONGEST, (text, other, third), {}),
    }


@pytest.mark.parametrize("name", ["split", "value", "check", "shout", "longest"])
def test_every_ingredient_counts(workshop, name):
    stage, inputs, options = cases(workshop)[name]
    tried = assert_every_ingredient_counts(stage, inputs, options, project=workshop.project)
    assert tried >= 8


def without_stage(prepared, names, inputs, options):
    other = Prepared(dataclasses.replace(prepared.stage, name="same"), prepared.fingerprint)
    return other.key(names, inputs, options)


def without_code(prepared, names, inputs, options):
    return Prepared(prepared.stage, replace(prepared.fingerprint, digest=Digest(bytes(32)))).key(names, inputs, options)


def without_last_input(prepared, names, inputs, options):
    return prepared.key(names[:-1], inputs[:-1], options)


def without_encodings(prepared, names, inputs, options):
    return prepared.key(names, tuple(StandIn(None, held.digest, "") for held in inputs), options)


def without_order(prepared, names, inputs, options):
    return prepared.key(names, tuple(sorted(inputs, key=lambda held: held.digest)), options)


def without_options(prepared, names, inputs, options):
    return prepared.key(names, inputs, {})


def without_types_of_options(prepared, names, inputs, options):
    return prepared.key(names, inputs, {name: str(value or "") for name, value in options.items()})


@pytest.mark.parametrize(
    ("make_key", "name", "what"),
    [
        (without_stage, "split", "the stage's name"),
        (without_code, "split", "the file"),
        (without_last_input, "split", "input 0: its digest"),
        (without_last_input, "value", "input 1: its digest"),
        (without_encodings, "split", "input 0: its encoding"),
        (without_order, "longest", "inputs 0 and 1 exchanged"),
        (without_options, "value", "option scale: None"),
        (without_types_of_options, "shout", "option times: False"),
    ],
)
def test_an_ingredient_that_does_not_count_is_noticed(workshop, make_key, name, what):
    stage, inputs, options = cases(workshop)[name]
    with pytest.raises(AssertionError, match=what):
        assert_every_ingredient_counts(stage, inputs, options, project=workshop.project, make_key=make_key)


def test_a_stage_of_the_project_itself_can_be_checked():
    """The sources of the installed package, found as an engine finds them."""
    stage = Stage("real", "presk.cache.engine", (), lambda text: text, TEXT)
    engine = Engine(fingerprints=Fingerprints({}))
    assert assert_every_ingredient_counts(stage, (engine.leaf("text", "a", TEXT),)) > 20


def test_packages_that_no_key_holds_are_told(workshop):
    assert undeclared_packages(VALUE_OF, workshop.project) == {"lark"}
    assert undeclared_packages(dataclasses.replace(VALUE_OF, packages=("lark",)), workshop.project) == set()
