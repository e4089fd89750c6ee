"""Every entry of the corpus in balls: what is computed with rounding lies in them, and in the printed bounds the exact value."""

import dataclasses
from typing import Any, Final

import flint
import pytest
from gmpy2 import mpq

from presk import run as running
from presk.exact.balls import Balls, enclose
from presk.exact.run import Job, Outcome, evaluate, run_entry
from presk.exact.values import Items, Real, Record, Value
from tests.cli.console import Console
from tests.cli.test_corpus import ENTRIES, name_of
from tests.cli.test_corpus import run as run_command

FEW: Final = 80
MANY: Final = 400


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Console:
    """A console whose store serves all programs."""
    return Console(tmp_path_factory.mktemp("bounds"))


@pytest.mark.parametrize("number", range(len(ENTRIES)), ids=name_of)
def test_an_entry(shared: Console, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    job = asked(shared, monkeypatch, number)
    few = run_entry(dataclasses.replace(job, bits=FEW, bounds=True)).result
    assert few is not None
    around, exact = (evaluate(dataclasses.replace(job, bits=bits), Balls(bits)) for bits in (FEW, MANY))
    with flint.ctx.workprec(2 * MANY):
        for (rounded, bound), ball, truth in zip(
            reals(few.value, few.bounds), balls(around), balls(exact), strict=True
        ):
            # A rounded value is a rounding away from one that the ball holds.
            assert (ball - enclose(rounded)).abs_lower() <= enclose(abs(rounded)) * flint.arb((1, 1 - FEW))
            assert (truth - enclose(rounded)).abs_lower() <= enclose(bound)
            assert truth.rad() <= flint.arb((1, -MANY // 2)) * (1 + abs(truth.mid()))
            assert mpq(bound) <= mpq(1, 2 ** (FEW // 2)) * (1 + abs(mpq(rounded)))


def asked(console: Console, monkeypatch: pytest.MonkeyPatch, number: int) -> Job:
    """What the command makes of an entry's setting."""
    jobs: list[Job] = []

    def noted(job: Job) -> Outcome:
        jobs.append(job)
        return Outcome(None)

    monkeypatch.setattr(running, "run_entry", noted)
    file, entry = ENTRIES[number]
    ran = run_command(console, file, entry, number)
    assert ran.code == 0, ran.err
    (job,) = jobs
    return job


def reals(value: Value, bounds: Any = None) -> list[tuple[Any, Any]]:
    """All reals of a value, each with its bound if there are bounds."""
    match value:
        case Real(data):
            numbers = data.ravel().tolist()
            return list(zip(numbers, [None] * len(numbers) if bounds is None else bounds.ravel().tolist(), strict=True))
        case Items(items):
            parts = [None] * len(items) if bounds is None else bounds
            return [one for item, part in zip(items, parts, strict=True) for one in reals(item, part)]
        case Record(fields):
            return [
                one for name, item in fields.items() for one in reals(item, None if bounds is None else bounds[name])
            ]
        case _:
            return []


def balls(value: Value) -> list[Any]:
    """All balls of a value."""
    return [ball for ball, _ in reals(value)]
