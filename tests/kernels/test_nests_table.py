"""The nest column: every primitive of the core has a pattern, and every pattern that computes something has a rule."""

import pytest

from presk.ad.launches import FREE
from presk.core.fusion import ELEMENTWISE
from presk.kernels.layout import Layout
from presk.kernels.nest import Nest
from presk.kernels.nests.table import RULES, STRUCTURES, lower
from presk.prims.core_rows import CORE
from presk.prims.nests import NESTS, Elementwise, Filled, Hyper, Regrouped, Same, Structure, Structured
from tests.kernels.nestrun import TARGET


@pytest.mark.parametrize("name", CORE)
def test_every_primitive_has_a_pattern(name: str) -> None:
    pattern = NESTS[name]
    computes = not isinstance(pattern, Filled | Regrouped | Hyper)
    assert (name in RULES) == computes
    # Keys are split by a kernel that reports do not count.
    launches = not isinstance(pattern, Filled | Regrouped | Hyper | Same) and name != "split_key"
    assert launches == (name not in FREE and not name.startswith("hyper_"))


def test_nothing_else_has_one() -> None:
    assert set(NESTS) == set(CORE)
    assert set(RULES) <= set(CORE)


def test_every_structure_has_a_rule_and_a_primitive() -> None:
    assert set(STRUCTURES) == set(Structure)
    named = {pattern.structure for pattern in NESTS.values() if isinstance(pattern, Structured)}
    assert named == set(Structure)


def test_what_joins_groups_is_elementwise() -> None:
    elementwise = {name for name, pattern in NESTS.items() if isinstance(pattern, Elementwise)}
    assert elementwise == {*ELEMENTWISE, "powv"}


def test_what_is_no_nest_is_not_lowered() -> None:
    class Other(Nest, frozen=True):
        """None of the kinds."""

    with pytest.raises(TypeError, match="Other"):
        lower(Other(), Layout(), TARGET)
