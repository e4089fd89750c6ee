"""Entries of the corpus under plans: the one that states every default, and others for all contractions."""

from collections.abc import Mapping
from typing import Any

from presk.core.ir import Program
from presk.kernels.defaults import common, default_of
from presk.kernels.layout import Layout
from presk.kernels.nest import Nest
from presk.kernels.targets import X86_64_V3, Level
from presk.kernels.trace.memory import Driver
from presk.kernels.trace.tracer import Question, launched
from presk.native.layouts import decisions, layout
from presk.native.show import driver_text, kernels_text
from presk.realize.plan import Kind, kinds
from tests.native.support import ARITHS, driver_of, traced


def nests_of(
    program: Program,
    headers: Mapping[Any, Any],
    entry: str,
    dims: Mapping[str, int],
    type_: str,
    *,
    prefix: tuple[int, ...] = (),
    level: Level = X86_64_V3,
) -> dict[str, list[Nest]]:
    """The nests that an entry launches, at each of their shapes."""
    arith = ARITHS[type_]
    question = Question(program, entry, dims, prefix, headers, lambda *_: arith, level.target)
    found: dict[str, list[Nest]] = {}
    for name, nest, often in launched(question):
        assert often >= 0
        found.setdefault(name, []).append(nest)
    return found


def defaults(nests: Mapping[str, list[Nest]], level: Level = X86_64_V3) -> dict[str, Layout]:
    """The defaults that all shapes of a nest have in common, as a plan states them."""
    found = {name: common([default_of(one, level.target) for one in shapes]) for name, shapes in nests.items()}
    return {name: layout(decisions(one)) for name, one in found.items()}


def text_of(driver: Driver) -> str:
    """All that is shown of a driver."""
    return driver_text(driver) + kernels_text(driver)


def differs(
    program: Program,
    headers: Mapping[Any, Any],
    entry: str,
    dims: Mapping[str, int],
    type_: str,
    *,
    prefix: tuple[int, ...] = (),
    level: Level = X86_64_V3,
) -> bool:
    """Whether an entry's launches or kernels show that its defaults are stated."""
    stated = defaults(nests_of(program, headers, entry, dims, type_, prefix=prefix, level=level), level)
    plain, planned = (
        text_of(driver_of(traced(program, headers, entry, dims, type_, prefix=prefix, level=level, layouts=layouts)))
        for layouts in ({}, stated)
    )
    return plain != planned


def contractions(program: Program, nests: Mapping[str, list[Nest]]) -> list[str]:
    """The contractions among nests."""
    found = kinds(program)
    return [name for name in nests if found[name] is Kind.CONTRACTION]
