"""What a call hands to the next: memory of its own before and after a call, the same bits as when the caller copies."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from presk.ad.pipeline import Remat, after_ad
from presk.ad.step import CARRIED, STEP
from presk.exact.closing import closed
from presk.kernels.arena import Arena
from presk.kernels.entry import InterpretedEntry, NativeEntry
from presk.kernels.native.driver import Driver as Threads
from presk.kernels.stage import KERNEL, OBJECT, ROUTINES
from presk.kernels.targets import X86_64_V3
from presk.kernels.trace.memory import AFTER, BEFORE, Driver, launches
from presk.kernels.trace.tracer import Question, trace
from tests.ad.support import lowered, stepped
from tests.native.support import ARITHS, driver_of, engine, filled, given_to, results, same, traced
from tests.native.test_launches import DIMS, SIZES

SWAPPED = """\
fn f(a : ℝ[n: 5], b : ℝ[n: 5]) -> (ℝ[n: 5], ℝ[n: 5]) = (b, a)
"""
SHARED = """\
fn f(a : ℝ[n: 5], b : ℝ[n: 5]) -> (ℝ[n: 5], ℝ[n: 5]) =
  let c = exp(a)
  (c, c)
"""
KEPT = """\
fn f(a : ℝ[n: 5], b : ℝ[n: 5]) -> (ℝ[n: 5], ℝ[n: 5]) =
  let c = a + b
  (c, c * c)
"""
PLAIN = """\
fn f(a : ℝ[n: 5], b : ℝ[n: 5]) -> (ℝ[n: 5], ℝ[n: 5]) =
  (a * (b + a), b - a * b)
"""
PAIRS = (("a", ".0"), ("b", ".1"))


def run_of(driver: Driver, interpreted: bool) -> Any:
    """An entry, and its threads if it has some."""
    if interpreted:
        return InterpretedEntry(driver), None
    e = engine()
    blobs = [e.get(OBJECT, e.leaf("kernel", one, KERNEL), level=X86_64_V3.name).value for one in driver.kernels]
    pool = Threads(e.get(ROUTINES).value, 1)
    return NativeEntry(driver, blobs, pool), pool


def copied(arena: Arena, driver: Driver, pairs: Mapping[str, str]) -> None:
    """Hands on by hand."""
    found = results(arena, driver)
    for part in driver.inputs:
        for param, result in pairs.items():
            if part.path == param or part.path.startswith(f"{param}."):
                arena.put(part, found[result + part.path.removeprefix(param)])


@pytest.mark.parametrize("interpreted", [True, False])
@pytest.mark.parametrize("text", [SWAPPED, SHARED, KEPT, PLAIN])
def test_what_is_handed_on_is_what_a_caller_would_copy(text: str, interpreted: bool) -> None:
    given = lowered(text)
    program = closed(given.program)
    (function,) = (one for one in program.functions if one.name == "f")
    args = given_to(function, given.headers, {}, "f32")
    plain = driver_of(traced(program, given.headers, "f", {}, "f32"))
    handed = driver_of(traced(program, given.headers, "f", {}, "f32", carried=PAIRS))
    assert plain.state == 0 and handed.state == 2 * 64
    assert {part.place.buffer for part in handed.inputs} == {BEFORE}
    assert {part.place.buffer for part in handed.results} == {AFTER}
    one, first = run_of(plain, interpreted)
    other, second = run_of(handed, interpreted)
    filled(one.arena, plain, function, args)
    filled(other.arena, handed, function, args)
    for _ in range(4):
        one.run()
        other.run()
        assert same(results(one.arena, plain), results(other.arena, handed))
        copied(one.arena, plain, dict(PAIRS))
        other.hand_on()
    for pool in (first, second):
        if pool is not None:
            pool.close()


def test_what_was_before_a_call_is_whole_after_it() -> None:
    given = lowered(PLAIN)
    program = closed(given.program)
    (function,) = (one for one in program.functions if one.name == "f")
    driver = driver_of(traced(program, given.headers, "f", {}, "f32", carried=PAIRS))
    entry, pool = run_of(driver, interpreted=False)
    filled(entry.arena, driver, function, given_to(function, given.headers, {}, "f32"))
    before = [entry.arena.get(part).copy() for part in driver.inputs]
    entry.run()
    entry.run()
    assert all(np.array_equal(old, entry.arena.get(part)) for old, part in zip(before, driver.inputs, strict=True))
    pool.close()


def test_another_type_is_rounded_when_it_is_handed_on() -> None:
    given = lowered(PLAIN)
    program = closed(given.program)
    (function,) = (one for one in program.functions if one.name == "f")

    def arith(name: str, var: int) -> Any:
        return ARITHS["f32" if var < len(function.params) else "f64"]

    made = trace(Question(program, "f", {}, (), given.headers, arith, X86_64_V3.target, {}, True, PAIRS))
    driver = driver_of(made)
    assert {part.operand.elem.value for part in driver.results} == {"f32"}
    assert sum(row.move for row in driver.rows) == 2  # type: ignore[union-attr]


@pytest.mark.parametrize("remat", list(Remat))
def test_the_launches_of_a_training_step(remat: Remat) -> None:
    """The chapter counts 1515 without and 884 with fusion for its own program, whose gradient recomputes."""
    core = stepped("nlp/05_gpt.psk", **SIZES)
    done = after_ad(core.program, remat, hold_groups=False, objectives=core.objectives)
    program = closed(done.program)
    found = []
    for fused in (False, True):
        made = traced(program, core.headers, STEP, DIMS, "f32", fused=fused, carried=CARRIED)
        found.append(launches(driver_of(made).rows))
    print(f"training step, {remat.value}: {found[0]} → {found[1]} (the chapter: 1515 → 884)")
    assert found[0] <= 1515 and found[1] <= 884 and found[1] <= 0.6 * found[0]
