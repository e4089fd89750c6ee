"""Every gradient of the corpus: against differences, sound after every pass, and the same bits every way."""

import numpy as np
import pytest

from presk.ad.vjp import differentiate
from presk.core.lower import Mode
from tests.ad.evaluate import narrow
from tests.ad.support import CORPUS, against_differences, all_ways, arguments, corpus, dims_of, named, same_bits, sound

SMALL = {
    "nlp/05_gpt.psk": {"V": 7, "D": 4, "H": 2, "L": 2, "C": 8},
    "nlp/minigpt.psk": {"V": 7, "D": 4, "H": 2, "L": 2},
}
# Its constants are those of an imported file, which nothing overrides: too large to evaluate.
LARGE = {"nlp/train_minigpt.psk"}
FILES = sorted({str(path.relative_to(CORPUS)) for path in CORPUS.rglob("*.psk")} - LARGE)


@pytest.mark.parametrize("mode", list(Mode), ids=lambda mode: mode.value)
@pytest.mark.parametrize("file", FILES)
def test_the_gradients_of_a_program(file, mode):
    given = corpus(file, mode, **SMALL.get(file, {}))
    plain = differentiate(given.program)
    if plain.diagnostics:
        assert {one.code for one in plain.diagnostics} <= {"E6001", "E6002"}
        return
    ways = {way: one.program for way, one in all_ways(given.program).items()}
    held = {way: one for way, one in ways.items() if way[1]}
    for way, program in (("differentiate", plain.program), *ways.items()):
        sound(program, given.headers, str(way))
    for name in [one.removesuffix(".grad") for one in plain.outside]:
        dims = dims_of(named(given.program, name))
        against_differences(given.program, plain.program, name, given.headers, dims)
        args = arguments(named(given.program, name), given.headers, dims)
        with np.errstate(all="ignore"):
            same_bits({"plain": plain.program, **ways}, f"{name}.grad", args, given.headers, dims)
            same_bits({"plain": plain.program, **held}, f"{name}.grad", args, given.headers, dims, narrow)


def test_there_are_gradients_to_take():
    assert sum(len(differentiate(corpus(file).program).outside) for file in FILES) > 60
