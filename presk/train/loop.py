"""The loop of a training run: batches in, steps, checkpoints and evaluations at their places.

What a step computes is a function of the state, its batch, its number and its key: the loop adds nothing. The key of a step is
child t of child 1 of the run's master key, t the step's number, so a run that goes on from a checkpoint draws what the run
never stopped would have drawn. (Child 0 makes the parameters, as for an entry that takes them first.)"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from presk.ad.step import squares
from presk.data.stream import Stream
from presk.exact import draws
from presk.exact.faults import Fault
from presk.exact.interpreter import Stopped
from presk.kernels.entry import NativeEntry
from presk.train.blame import blame
from presk.train.machine import Machine, Values
from presk.train.report import Evaluation, Step

NOT_FINITE: Final = "E7010"


class Listener(Protocol):
    """Is told of what happens."""

    def step(self, step: Step) -> None: ...
    def evaluation(self, evaluation: Evaluation) -> None: ...
    def checkpoint(self, step: int, path: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Schedule:
    """Where a run begins, where it ends, and when it is interrupted: every so many steps, and at the end."""

    first: int
    last: int
    checkpoint_every: int | None = None
    evaluate_every: int | None = None


@dataclass(frozen=True, slots=True)
class Course:
    """What a run does with its state: `save` writes a checkpoint of a step and gives its name, `evaluate` measures the parameters."""

    save: Callable[[Machine, int, Values], str] | None
    evaluate: Callable[[Machine, int], Evaluation] | None


def run_key(seed: int) -> bytes:
    """The key of which those of the steps are children."""
    return draws.child(draws.master_key(seed), 1)


def run(
    machine: Machine,
    stream: Stream,
    schedule: Schedule,
    seed: int | None,
    course: Course,
    listeners: tuple[Listener, ...],
) -> None:
    """Runs the steps `first` to `last`; `seed` None for an objective that takes no key.

    `Stopped` for what a step finds (E7004, E7010) and `Fault` for what the data has (E8003, E8005): the state is then that of the step
    before.
    """
    leaf = stream.data.leaves[0]
    key = None if seed is None else run_key(seed)
    for number in range(schedule.first, schedule.last + 1):
        began = time.perf_counter()
        position = stream.position(number - 1)
        batch = stream.batch(position)
        values = machine.step(number, batch.leaves, None if key is None else draws.child(key, number))
        strange = machine.strange() if values.finite else None
        if not values.finite or strange is not None:
            raise left_the_numbers(machine, number, values, strange)
        machine.commit(number, values)
        tokens = int(batch.leaves[0].size) if leaf.bound else 0
        done = Step(
            step=number,
            epoch=position.epoch,
            loss=values.loss,
            rate=values.rate,
            norm=values.norm,
            seconds=time.perf_counter() - began,
            tokens=tokens,
        )
        for listener in listeners:
            listener.step(done)
        ends = number == schedule.last
        if ends or _due(number, schedule.checkpoint_every):
            save_state(machine, course, listeners)
        if course.evaluate is not None and (ends or _due(number, schedule.evaluate_every)):
            found = course.evaluate(machine, number)
            for listener in listeners:
                listener.evaluation(found)


def save_state(machine: Machine, course: Course, listeners: tuple[Listener, ...]) -> None:
    """Writes a checkpoint of the state, if there has been a step and checkpoints are kept."""
    if course.save is None or machine.at is None:
        return
    number, values = machine.at
    name = course.save(machine, number, values)
    for listener in listeners:
        listener.checkpoint(number, name)


def _due(number: int, every: int | None) -> bool:
    return every is not None and number % every == 0


def left_the_numbers(machine: Machine, number: int, values: Values, strange: str | None) -> Stopped:
    """What ends a run whose step `number` gave a loss, a norm or a parameter that is none, with the first nest that did."""
    if strange is not None:
        said = f"step {number} makes the parameter `{strange}` something that is no number"
    elif math.isfinite(values.loss):
        said = f"the norm of the gradient of step {number} is {values.norm}"
    else:
        said = f"the loss of step {number} is {values.loss}"
    assert isinstance(machine.entry, NativeEntry)
    found = blame(machine.entry, squares(machine.function))
    site = found.site
    notes: tuple[str, ...] = () if site is None else (f"the first value that is not finite is that of `{site}`",)
    if found.parameter is not None:
        notes = (*notes, f"the first parameter whose gradient is not finite is `{found.parameter}`")
    fault = Fault(NOT_FINITE, said, notes=notes)
    if site is None:
        return Stopped(fault, ())
    function, _, var = site.rpartition("/%")
    return Stopped(fault, ((function, int(var)),))
