"""The loss on other data than that of the training: the objective's inference reading, with the parameters of a step."""

import math
import time
from dataclasses import replace

import numpy as np

from presk.cache.engine import Engine
from presk.cache.log import RequestLog
from presk.core.facts import declared_facts
from presk.core.lower import Mode
from presk.core.program import lower_program
from presk.data.stream import Position, Stream
from presk.exact.closing import closed
from presk.exact.defined import check_entry
from presk.exact.interpreter import literal
from presk.exact.scope import Scope
from presk.exact.values import Number, Truth
from presk.kernels.entry import NativeEntry
from presk.kernels.native.driver import Driver as Threads
from presk.kernels.numbers import from_elements
from presk.native.run import blobs_of, differentiated, driver_at, look, write_scalars
from presk.run import entry_defaults
from presk.train.machine import ELEMS, Machine, batch_places, put_batch
from presk.train.report import Evaluation
from presk.train.session import Session
from presk.train.step import objective_name


class Evaluator:
    """Measures parameters on the first `batches` batches of a stream."""

    def __init__(
        self, engine: Engine, log: RequestLog, session: Session, threads: Threads, stream: Stream, batches: int
    ) -> None:
        typed, training, asked = session.typed, session.training, session.asked
        names = lower_program(engine, typed, Mode.INFERENCE, ())
        self._name = objective_name(typed, training, names)
        core = lower_program(engine, typed, Mode.INFERENCE, (self._name,))
        asked = replace(asked, carried=())
        after = differentiated(engine, core, self._name, asked)
        program = closed(after.value.program)
        function = next(one for one in program.functions if one.name == self._name)
        dims = {name: value for name, value in training.dims if name in function.dims}
        dims |= {name: value for name, value in session.bound if name in function.dims}
        check_entry(program, self._name, dims, (), core.headers, declared_facts(typed, core))
        driver = driver_at(engine, core, self._name, asked, after, Scope(dims, (), core.headers)).value
        self._entry = NativeEntry(driver, blobs_of(engine, log, driver, asked.level, self._name), threads)
        self._theta = function.params[0].name
        place = 1 + training.key
        batch = function.params[place]
        self._places = batch_places(batch.type, batch.name)
        self._inputs = {part.path: part for part in driver.inputs}
        defaults = dict(entry_defaults(typed, core, self._name))
        hypers: dict[str, Number | Truth] = {}
        for param in function.params[place + 1 :]:
            found = literal(defaults[param.name])
            hypers[param.name] = found
        write_scalars(self._entry.arena, driver.scalars, hypers)
        self._stream = stream
        self._batches = min(batches, stream.per_epoch)

    def __call__(self, machine: Machine, step: int) -> Evaluation:
        """The mean loss over the batches."""
        began = time.perf_counter()
        arena, driver = self._entry.arena, self._entry.driver
        for path, (dtype, array) in machine.parameters().items():
            arena.put(self._inputs[f"{self._theta}.{path}"], from_elements(array, ELEMS[dtype]))
        losses: list[float] = []
        for number in range(self._batches):
            put_batch(arena, self._inputs, self._places, self._stream.batch(Position(0, number)).leaves)
            self._entry.run()
            look(arena, driver)
            losses.append(float(np.asarray(arena.get(driver.results[0]))))
        return Evaluation(step, math.fsum(losses) / len(losses), len(losses), time.perf_counter() - began)
