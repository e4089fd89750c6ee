"""The part of `presk run` that loads the exact reference."""

from collections.abc import Mapping
from dataclasses import dataclass

from presk.ad.pipeline import Remat
from presk.cli.commands.core_programs import InCore
from presk.cli.request import Request
from presk.exact.given import Given
from presk.run import Answer, run


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line asks beside the program: dimensions, words, files by parameter, and numbers."""

    dims: Mapping[str, int]
    words: Mapping[str, str]
    inputs: Mapping[str, Given]
    seed: int
    bits: int
    bounds: bool
    remat: Remat
    unroll: bool


def answer(request: Request, given: InCore, entry: str, asked: Asked) -> Answer:
    """Evaluates an entry of a program in the core."""
    return run(
        request.engine,
        given.typed,
        given.core,
        entry,
        remat=asked.remat,
        unroll=asked.unroll,
        dims=asked.dims,
        words=asked.words,
        inputs=asked.inputs,
        seed=asked.seed,
        bits=asked.bits,
        bounds=asked.bounds,
    )
