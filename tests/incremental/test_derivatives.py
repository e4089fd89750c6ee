"""What an edit lowers and differentiates again when a gradient is asked for, counted; and that the result is that of a cold engine."""

from dataclasses import dataclass
from typing import Final

import pytest

from presk.ad.pipeline import AfterAd, Remat
from presk.ad.stage import differentiated
from presk.cache.engine import Engine
from presk.check import check_program
from presk.core.lower import Mode
from presk.core.program import lower_program
from presk.elab.files import GivenFiles
from tests.incremental.desk import computed, fingerprints
from tests.incremental.scripts import MAIN

PROGRAM: Final = """\
const L = 2
dim B

module Linear {
  param w : ℝ[4, 4]
  fn apply(x : ℝ[batch: B, 4]) -> ℝ[batch: B, 4] = tanh(x · w)
}

module Tower {
  use layers : stack{L}(Linear)
  fn apply(x : ℝ[batch: B, 4]) -> ℝ[batch: B, 4] = layers.apply(x)
}

fn loss(θ : params Tower, x : ℝ[batch: B, 4]) -> ℝ[] = mean(Tower.apply(θ, x)^2)
fn slope(θ : params Tower, x : ℝ[batch: B, 4]) -> params Tower = grad(λ θ. loss(θ, x))(θ)
fn apart(x : ℝ[batch: B, 4]) -> ℝ[batch: B, 4] = grad(λ y. sum(y^2))(x)
"""
STAGES: Final = ("lower", "lower init", "vjp", "after ad")


@dataclass
class Asking:
    """An engine that is asked for the gradients of a program, as far as an entry reaches."""

    engine: Engine
    entry: str | None = None

    def ask(self, text: str, remat: Remat = Remat.STORE) -> tuple[dict[str, set[str]], AfterAd]:
        """The subjects that the stages of the core compute, and the program after differentiation."""
        with self.engine.request() as log:
            found = check_program(self.engine, GivenFiles({MAIN: text.encode()}), MAIN, MAIN)
            assert not isinstance(found, str) and not found[0].failed
            entries = None if self.entry is None else [self.entry]
            core = lower_program(self.engine, found[1], Mode.INFERENCE, entries)
            after = differentiated(self.engine, core.parts, remat, hold=False)
        counts = {stage: set(subjects) for stage, subjects in computed(log).items() if stage in STAGES}
        return counts, after


@pytest.fixture
def asking() -> Asking:
    return Asking(Engine(None, fingerprints=fingerprints()))


def cold(text: str, remat: Remat = Remat.STORE, entry: str | None = None) -> AfterAd:
    """What an engine without a past gives."""
    return Asking(Engine(None, fingerprints=fingerprints()), entry).ask(text, remat)[1]


def test_an_edited_function_is_differentiated_again_and_no_other(asking: Asking) -> None:
    first, _ = asking.ask(PROGRAM)
    # `Tower.apply` brings the body of its backward loop with it; a lambda belongs to its function.
    assert first["lower"] == {"Linear.apply", "Tower.apply", "loss", "slope", "apart"}
    assert first["vjp"] == {"Linear.apply", "Tower.apply", "loss", "slope.lambda0", "apart.lambda0"}
    assert asking.ask(PROGRAM)[0] == {}
    edited = PROGRAM.replace("tanh(x · w)", "sin(x · w)")
    again, after = asking.ask(edited)
    (joined,) = again.pop("after ad")
    assert joined
    assert again == {"lower": {"Linear.apply"}, "vjp": {"Linear.apply"}}
    assert after == cold(edited)


def test_another_policy_differentiates_nothing_again(asking: Asking) -> None:
    asking.ask(PROGRAM)
    again, after = asking.ask(PROGRAM, Remat.RECOMPUTE)
    assert set(again) == {"after ad"}
    assert after == cold(PROGRAM, Remat.RECOMPUTE)


def test_what_an_entry_does_not_reach_is_not_looked_at(asking: Asking) -> None:
    asking.entry = "slope"
    _, before = asking.ask(PROGRAM)
    edited = PROGRAM.replace("sum(y^2)", "sum(y^3)")
    again, after = asking.ask(edited)
    # What `check` refuses, it looks for in every function; the program of the entry is as it was.
    assert "after ad" not in again and again["lower"] == {"apart"}
    assert after == before == cold(edited, entry="slope")


def test_names_and_comments_of_the_text_are_no_part_of_it(asking: Asking) -> None:
    asking.ask(PROGRAM)
    assert asking.ask(PROGRAM.replace("fn loss", "-- The error.\nfn loss"))[0] == {}
    # A lambda's parameter has a name in the core, which shows in a dump.
    again, _ = asking.ask(PROGRAM.replace("λ y. sum(y^2)", "λ z. sum(z^2)"))
    assert again["lower"] == {"apart"} and again["vjp"] == {"apart.lambda0"}
