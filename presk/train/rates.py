"""The learning rates of a run, as the optimizer's `lr` has them exactly."""

import json

from presk.ad.pipeline import Remat
from presk.cache.engine import Engine
from presk.core import optimizer
from presk.core.lower import Mode
from presk.core.program import lower_program
from presk.elab.program import Program
from presk.elab.records import OptimizerRecord
from presk.run import run

BITS = 64


def rate(engine: Engine, typed: Program, step: int, total: int) -> float:
    """The learning rate of a step, from 1."""
    names = lower_program(engine, typed, Mode.INFERENCE, ()).optimizer
    assert names is not None
    name = names[optimizer.FUNCTIONS.index(optimizer.RATE)]
    core = lower_program(engine, typed, Mode.INFERENCE, (name,))
    answer = run(
        engine,
        typed,
        core,
        name,
        remat=Remat.STORE,
        unroll=False,
        dims={},
        words={"t": str(step), "total": str(total)},
        inputs={},
        seed=0,
        bits=BITS,
        bounds=False,
    )
    return float(json.loads(answer.json)["result"]["data"])


def landmarks(record: OptimizerRecord, total: int) -> dict[str, int]:
    """The steps whose rates say what a schedule does: the first, the one where it has warmed up, the middle, the last."""
    found = {"first": 1}
    if record.schedule.warmup > 0:
        found["warm"] = record.schedule.warmup
    return {**found, "middle": max(1, total // 2), "last": total}


def rates_text(engine: Engine, typed: Program, record: OptimizerRecord, total: int) -> str:
    """`1.00e-05 in step 1, …` for the landmarks of a schedule."""
    shown = [
        f"{rate(engine, typed, at, total):.3g} in step {at}" for at in dict.fromkeys(landmarks(record, total).values())
    ]
    return ", ".join(shown)
