"""The program of a training step: the functions that it reaches, and the step itself (`presk.ad.step`)."""

from dataclasses import replace
from typing import Final

from presk.ad.step import STEP, Objective, Training, lowered_step
from presk.cache.stage import Queries
from presk.core import optimizer
from presk.core.lower import Mode
from presk.core.program import CoreProgram, function_ref, lower_program
from presk.elab.config import match_instance
from presk.elab.program import Program
from presk.elab.records import TrainingRecord
from presk.run import entry_defaults
from presk.types.dim import Dim, constant
from presk.types.type import Params

WITHOUT: Final = "the program has no `training run` block"


def objective_name(typed: Program, training: TrainingRecord, core: CoreProgram) -> str:
    """The core name of a training run's objective, a function of the main file."""
    for entry in typed.functions:
        ref = function_ref(entry)
        if ref.file == typed.main and ref.module is None and ref.name == training.objective and not ref.axes:
            return core.names[ref]
    raise KeyError(training.objective)


def with_step(queries: Queries, typed: Program, mode: Mode) -> CoreProgram:
    """The core that a training step reaches, with the step as its last part. ValueError for a program without a training run."""
    training = typed.training
    if training is None:
        raise ValueError(WITHOUT)
    names = lower_program(queries, typed, mode, ())
    assert names.optimizer is not None
    objective = objective_name(typed, training, names)
    step = names.optimizer[optimizer.FUNCTIONS.index(optimizer.STEP)]
    core = lower_program(queries, typed, mode, (objective, step))
    lowered = core.functions()[objective]
    defaults = dict(entry_defaults(typed, core, objective))
    behind = lowered.params[2 + training.key :]
    given = Training(
        Objective(
            objective,
            lowered.dims,
            lowered.params,
            tuple((name, constant(value)) for name, value in bound_dims(core, training, objective)),
            tuple(defaults[param.name] for param in behind),
        ),
        training.model,
        names.optimizer[optimizer.FUNCTIONS.index(optimizer.RATE)],
        step,
        typed.main,
        "training run",
    )
    parts = {**core.parts, STEP: lowered_step(queries, given)}
    return replace(core, parts=parts, objectives=(objective,))


def bound_dims(core: CoreProgram, training: TrainingRecord, objective: str) -> tuple[tuple[str, int], ...]:
    """The dimensions of an objective that the model decides: D of `θ : params MLP{D}` where the model is `MLP{16}`."""
    lowered = core.functions()[objective]
    theta = lowered.params[0].type
    assert isinstance(theta, Params)
    bound: dict[str, Dim] = {}
    match_instance(theta.instance, training.model, bound, lowered.dims)
    found = {name: dim.natural() for name, dim in bound.items()}
    return tuple(sorted((name, value) for name, value in found.items() if value is not None))
