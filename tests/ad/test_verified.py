"""The verifier behind every pass: it is silent of what the passes make, and names one that breaks a program."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from presk.ad import pipeline, verified
from presk.ad.pipeline import Remat
from presk.ad.prune import prune
from presk.ad.verified import verify_passes
from presk.core import stage
from presk.core.facts import declared_facts, facts_of
from presk.core.ir import Function, Program, operands
from presk.core.lower import Lowered, Mode, lower_function
from presk.core.verify import Broken
from presk.types.claim import Claim, Relation
from presk.types.dim import constant, symbol
from tests.ad.support import corpus, lowered
from tests.cli.console import Console
from tests.core.support import corpus as typed_corpus

SOURCE: Final = """
module Linear{In Out : dim} {
  param w : ℝ[In, Out]  init = normal(std = 0.5)
  fn apply(x : ℝ[..., In]) -> ℝ[..., Out] = tanh(x · w)
}

module Tower {
  use layers : stack{2}(Linear{3, 3})
  fn apply(x : ℝ[b: 2, f: 3]) -> ℝ[b: 2, f: 3] = layers.apply(x)
}

fn loss(θ : params Tower, x : ℝ[b: 2, f: 3]) -> ℝ[] = mean(Tower.apply(θ, x)^2)
fn slope(θ : params Tower, x : ℝ[b: 2, f: 3]) -> params Tower = grad(λ θ. loss(θ, x))(θ)
"""


def without_a_binding(functions: tuple[Function, ...]) -> tuple[Function, ...]:
    """The functions, the last of which that reads its own first binding has lost it."""
    changed = list(functions)
    for place, function in reversed(list(enumerate(functions))):
        others = function.bindings[1:]
        if any(function.bindings[0].var in operands(other.op) for other in others):
            changed[place] = msgspec.structs.replace(function, bindings=others)
            return tuple(changed)
    raise AssertionError("nothing to break")


def faulty(work: Callable[..., Any], time: int = 1) -> Callable[..., Any]:
    """A pass that breaks what it makes when it is done for the given time."""
    done: list[None] = []

    def wrong(*args: Any, **options: Any) -> Any:
        made = work(*args, **options)
        done.append(None)
        if len(done) < time:
            return made
        if isinstance(made, Program | Lowered):
            return msgspec.structs.replace(made, functions=without_a_binding(made.functions))
        program = Program(without_a_binding(made.program.functions))
        if isinstance(made, msgspec.Struct):
            return msgspec.structs.replace(made, program=program)
        return type(made)(program, made.purposes)

    return wrong


FAULTS: Final = (
    (verified, "unroll_program", 1, "unrolling"),
    (pipeline, "differentiate", 1, "differentiation"),
    (pipeline, "prune", 1, "pruning"),
    (pipeline, "store", 1, "splitting"),
    (pipeline, "prune", 2, "pruning of what was split"),
)


@pytest.mark.parametrize("module, name, time, words", FAULTS)
def test_the_pass_that_breaks_a_program_is_named(
    monkeypatch: pytest.MonkeyPatch, module: Any, name: str, time: int, words: str
) -> None:
    given = lowered(SOURCE)
    verify_passes(given.program, given.headers, {}, Remat.STORE, hold_groups=False, unroll=True)
    monkeypatch.setattr(module, name, faulty(getattr(module, name), time))
    with pytest.raises(Broken) as caught:
        verify_passes(given.program, given.headers, {}, Remat.STORE, hold_groups=False, unroll=True)
    assert {finding.after for finding in caught.value.findings} == {words}
    assert "not defined before" in str(caught.value)


def test_what_was_given_is_looked_at_first() -> None:
    given = lowered(SOURCE)
    wrong = Program(without_a_binding(given.program.functions))
    with pytest.raises(Broken) as caught:
        verify_passes(wrong, given.headers, {}, Remat.STORE, hold_groups=False)
    assert {finding.after for finding in caught.value.findings} == {"lowering"}


@pytest.mark.parametrize("hold", [False, True])
@pytest.mark.parametrize("remat", Remat)
@pytest.mark.parametrize("file", ["nlp/05_gpt.psk", "basics/mlp.psk", "tutorial/12_compose.psk"])
def test_the_passes_break_nothing(file: str, remat: Remat, hold: bool) -> None:
    """The other programs of the corpus are gone through by the tests of each pass."""
    given = corpus(file, Mode.TRAINING)
    verify_passes(given.program, given.headers, {}, remat, hold_groups=hold, unroll=True)


def test_generated_functions_rely_on_the_bounds_of_their_declarations() -> None:
    bound = Claim(Relation.LE, symbol("T"), constant(8))
    names = ("f", "f.lambda0.vjp", "M.f.grad", "g", "f.apply")
    program = Program(tuple(Function(name, (), (), None, (), 0) for name in names))  # type: ignore[arg-type]  # names only
    assert facts_of(program, {"f": [bound]}) == dict.fromkeys(("f", "f.lambda0.vjp", "f.apply"), (bound,))


def test_declared_bounds_are_found_by_name() -> None:
    given = typed_corpus("nlp/05_gpt.psk")
    found = declared_facts(given.typed, given.core)
    assert "loss" in found
    assert all(name in given.core.parts for name in found)


# --- commands -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def console(tmp_path: Path) -> Console:
    """A folder with the program, and an empty store."""
    made = Console(tmp_path)
    made.write("main.psk", SOURCE)
    return made


COMMANDS: Final = (
    ("check", "main.psk"),
    ("dump", "main.psk", "--stage", "core-after-ad"),
    ("run", "main.psk", "--entry", "slope", "--bits", "24"),
)


@pytest.mark.parametrize("argv", COMMANDS)
def test_commands_verify_if_they_are_told(
    console: Console, monkeypatch: pytest.MonkeyPatch, argv: tuple[str, ...]
) -> None:
    calm = console.presk(*argv)
    assert calm.code == 0
    assert console.presk(*argv, env={"PRESK_VERIFY": "1"}) == calm
    monkeypatch.setattr(pipeline, "prune", faulty(prune))
    # What is stored is not made again, so without the verifier nothing is seen of the fault.
    for off in ("", "0"):
        assert console.presk(*argv, env={"PRESK_VERIFY": off}) == calm
    ran = console.presk(*argv, env={"PRESK_VERIFY": "1"})
    assert (ran.code, ran.out) == (70, "")
    assert ran.err.startswith("error[E9001]: internal error: Broken: after pruning: ")


@pytest.mark.parametrize("argv", [*COMMANDS, ("dump", "main.psk", "--stage", "core")])
def test_commands_verify_what_lowering_makes(
    console: Console, monkeypatch: pytest.MonkeyPatch, argv: tuple[str, ...]
) -> None:
    monkeypatch.setattr(stage, "lower_function", faulty(lower_function, 2))
    ran = console.presk(*argv, env={"PRESK_VERIFY": "1"})
    assert ran.code == 70
    assert ran.err.startswith("error[E9001]: internal error: Broken: after lowering: ")
