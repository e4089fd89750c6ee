"""The name that was probably meant."""

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from presk.diagnostics.suggest import closest


@pytest.mark.parametrize(
    "name, candidates, expected",
    [
        ("softmx", ["softmax", "argmax", "max"], "softmax"),
        ("lenght", ["length", "light"], "length"),
        ("Linera", ["Linear", "Line"], "Linear"),
        ("causalmask", ["causal_mask", "casual_mask"], "causal_mask"),
        ("layernorm", ["LayerNorm", "layer_morn"], "LayerNorm"),
        ("heads_split", ["split_heads", "merge_heads"], "split_heads"),
        ("theta", ["θ", "beta"], "θ"),
        ("lambda_", ["λ1", "Λ"], "Λ"),
        ("µ", ["μ", "m"], "μ"),  # the sign for micro, and the Greek letter
        ("σ", ["ς", "o"], "ς"),
        ("y", ["x", "ŷ"], "ŷ"),
        ("x̂", ["x", "y"], "x"),
        ("X", ["x", "y"], "x"),
        ("wq", ["wk", "wv", "qw"], "qw"),
        ("wq", ["wv", "wk"], "wk"),
        ("x", ["y", "z", "xy"], None),
        ("HD", ["H", "D"], None),
        ("foo", ["bar", "baz"], None),
        ("D", ["H", "L", "V"], None),
        ("model", ["module", "mode"], "mode"),
        ("x", [], None),
        ("", ["a"], None),
        ("same", ["same"], None),
        ("same", ["same", "sane"], "sane"),
        ("_", ["__", "a"], None),
        ("a" * 5000, ["a" * 4999], None),
        ("ab", ["", "a" * 5000], None),
    ],
)
def test_examples(name: str, candidates: list[str], expected: str | None) -> None:
    assert closest(name, candidates) == expected
    assert closest(name, reversed(candidates)) == expected
    assert closest(name, [*candidates, *candidates]) == expected


def distance(one: str, other: str) -> int:
    """Restricted Damerau-Levenshtein distance by its recursive definition."""

    @cache
    def rest(i: int, j: int) -> int:
        if i == 0 or j == 0:
            return i + j
        best = min(rest(i - 1, j) + 1, rest(i, j - 1) + 1, rest(i - 1, j - 1) + (one[i - 1] != other[j - 1]))
        if i > 1 and j > 1 and one[i - 1] == other[j - 2] and one[i - 2] == other[j - 1]:
            best = min(best, rest(i - 2, j - 2) + 1)
        return best

    return rest(len(one), len(other))


names = st.text(st.sampled_from("abcd"), min_size=1, max_size=10)


@given(names, st.lists(names, max_size=12))
def test_the_nearest_is_found(name: str, candidates: list[str]) -> None:
    """Without case, underscores and accents the answer is the nearest name within the limit, the first of equals."""
    limit = min(max(len(name) // 3, 1), len(name) - 1)
    ranked = sorted((distance(name, other), other) for other in candidates if other != name)
    near = [other for how_far, other in ranked if how_far <= limit and how_far < len(other)]
    assert closest(name, candidates) == (near[0] if near else None)


@given(names, st.lists(names, max_size=5), st.randoms())
def test_spelling_that_is_alike_comes_first(name: str, candidates: list[str], random: object) -> None:
    alike = f"{name[0]}_{name[1:].upper()}"
    assert closest(name, [*candidates, alike]) == alike


def test_ten_thousand_names() -> None:
    names = [f"layer_{number}_weights" for number in range(10_000)]
    assert closest("layer_7777_wieghts", names) == "layer_7777_weights"
    assert closest("layer_77x7_weights", names) == "layer_7707_weights"
    assert closest("something_else_altogether", names) is None
