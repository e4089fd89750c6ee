"""A training run before it begins: its program, its dimensions, its driver, how many steps it has."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import msgspec
from blake3 import blake3

from presk.ad.pipeline import AfterAd
from presk.ad.step import CARRIED, STEP
from presk.cache.codec import struct_codec
from presk.cache.engine import Engine
from presk.cache.stage import Result
from presk.core.facts import declared_facts
from presk.core.ir import Function, Program
from presk.core.lower import Mode
from presk.core.program import CoreProgram
from presk.elab.exprs import decimal_value
from presk.elab.program import Program as Typed
from presk.elab.records import OptimizerRecord, TrainingRecord
from presk.exact.closing import closed
from presk.exact.defined import check_entry
from presk.exact.faults import UNBOUND, Fault
from presk.exact.scope import Scope
from presk.kernels.ir import Elem
from presk.kernels.numbers import rounded
from presk.kernels.trace.memory import Driver
from presk.native.run import Asked, differentiated, driver_at
from presk.realize.record import resolver
from presk.train.step import bound_dims, with_step


@dataclass(frozen=True, slots=True)
class Session:
    """A training run at its dimensions.

    `digest` names the program of the step at its dimensions: two runs of one digest, seed, realization and data have the same bits.
    """

    typed: Typed
    core: CoreProgram
    training: TrainingRecord
    optimizer: OptimizerRecord
    asked: Asked
    after: Result[AfterAd]
    program: Program
    function: Function
    scope: Scope
    driver: Result[Driver]
    digest: str
    per_epoch: int
    bound: tuple[tuple[str, int], ...]
    """The dimensions of the objective that the model decides."""

    @property
    def total(self) -> int:
        """The steps of the whole run."""
        return self.training.epochs * self.per_epoch


UNFIT: Final = "E7002"

Fits = Callable[[CoreProgram, Program], None]
"""Is shown the program before and after differentiation, and raises where what is asked does not fit it."""


def session(engine: Engine, typed: Typed, asked: Asked, fits: Fits) -> Session | AfterAd:
    """Prepares the run of a program's `training run` block, whose data file was there when the program was checked.

    What differentiation refuses comes back as its result. `Fault` for a block without steps, `Stopped` for what is undefined at the
    dimensions (E7003), `Fault` for a dimension without a value (E7008).
    """
    training = typed.training
    assert training is not None
    optimizer = next(one for one in typed.optimizers if one.name == training.optimizer)
    core = with_step(engine, typed, Mode.TRAINING)
    asked = replace(asked, carried=CARRIED)
    after = differentiated(engine, core, STEP, asked)
    if after.value.diagnostics:
        return after.value
    fits(core, after.value.program)
    program = closed(after.value.program)
    function = next(one for one in program.functions if one.name == STEP)
    dims = _dims(function, dict(training.dims))
    check_entry(program, STEP, dims, (), core.headers, declared_facts(typed, core))
    scope = Scope(dims, (), core.headers)
    per_epoch = training.batches or 0
    driver = driver_at(engine, core, STEP, asked, after, scope)
    digest = program_digest(core.program, dims, typed.main)
    bound = bound_dims(core, training, core.objectives[0])
    return Session(
        typed, core, training, optimizer, asked, after, program, function, scope, driver, digest, per_epoch, bound
    )


def frozen_moment(session_: Session) -> Fault | None:
    """E7002 for a machine type in which a β of the optimizer is 1: a moment would never move, and its correction divide by 0."""
    name = f"{session_.optimizer.name}.step"
    type_ = resolver(session_.asked.realization)(name, 0)
    for number, text in enumerate(session_.optimizer.betas, 1):
        value = decimal_value(text)
        if value is not None and value < 1 and rounded(value, Elem(type_.storage)) == 1:
            return Fault(
                UNFIT,
                f"`{name}` is typed {type_.storage}, in which its β{'₁₂'[number - 1]} = {text} is 1: no step would move a parameter",
                mend=f'type it wider: "functions": {{"training.step": "f32", "{name}": "f32", "{session_.optimizer.name}.lr": "f32"}}',
            )
    return None


def _dims(function: Function, known: Mapping[str, int]) -> dict[str, int]:
    """The values of the step's dimensions; E7008 for one that neither batches nor the data decide."""
    for name in function.dims:
        if name not in known:
            raise Fault(
                UNBOUND,
                f"neither `batch(…)` nor the data decides the dimension `{name}` of a step",
                mend="make it a constant, or an axis of the batch",
            )
    return {name: known[name] for name in function.dims}


class _Identity(msgspec.Struct, frozen=True, array_like=True):
    """What a program of a step is, for the eyes of a checkpoint."""

    program: Program
    dims: tuple[tuple[str, int], ...]


def program_digest(program: Program, dims: Mapping[str, int], main: str) -> str:
    """The digest of a step's program before differentiation, at its dimensions: 64 hexadecimal digits. Layout, comments, names
    of files and what the step does not reach are not in it.
    """
    encoded = _CODEC.encode(_Identity(program, tuple(sorted(dims.items()))))
    # Modules are named with their file; what the main one is called does not count.
    name, nothing = (msgspec.msgpack.encode(text) for text in (main, ""))
    return blake3(encoded.replace(name, nothing)).hexdigest()


_CODEC: Final = struct_codec(_Identity)
