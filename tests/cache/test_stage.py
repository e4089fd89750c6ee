"""What a stage may be made of; everything else is a TypeError when the stage is made."""

import functools

import pytest

from presk.cache.codec import TEXT
from presk.cache.stage import Stage, signature


def _plain(a, b, *, n):
    return a + b * n


def _last(a, n):
    return a * n


def _many(first, *others, n=None):
    return first


def _queried(queries, a, *, n):
    return a


def _open(a, **options):
    return a


def stage(run, options=("n",), **more):
    return Stage("s", "fake.other", options, run, TEXT, **more)


@pytest.mark.parametrize(
    ("run", "more", "count", "names"),
    [
        (_plain, {}, 2, ("a", "b")),
        (_plain, {}, 3, None),
        (_last, {}, 1, ("a",)),
        (_many, {}, 1, ("first",)),
        (_many, {}, 3, ("first", "others[0]", "others[1]")),
        (_many, {}, 0, None),
        (_queried, {"composite": True}, 1, ("a",)),
    ],
)
def test_the_inputs_are_the_parameters_that_are_no_options(run, more, count, names):
    assert signature(stage(run, **more)).names(count) == names


def _captured():
    hidden = "h"
    return lambda a, *, n: a + hidden


@pytest.mark.parametrize(
    ("run", "options", "message"),
    [
        (functools.partial(_plain, b="b"), ("n",), "plain function"),
        (len, (), "plain function"),
        (_captured(), ("n",), "captures hidden"),
        (_open, (), "takes any keyword"),
        (_plain, (), "not a declared option"),
        (_plain, ("n", "m"), "no parameter for the option m"),
        (_plain, ("n", "n"), "declared twice"),
        (_plain, ("n", "a"), "stands before an input"),
        (lambda a, n, *others: a, ("n",), r"stands before \*others"),
        (lambda a, *, subject: a, ("subject",), "cannot be named subject"),
    ],
)
def test_what_hides_an_ingredient_is_refused(run, options, message):
    with pytest.raises(TypeError, match=message):
        stage(run, options)


def test_a_composite_stage_takes_queries_first():
    with pytest.raises(TypeError, match="Queries object first"):
        stage(lambda: "", (), composite=True)
