"""Gradients of generated programs against central differences at 512 bits, with a step of 2⁻¹²⁰, to 2⁻¹⁰⁰."""

from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.programs.entries import Generated
from tests.programs.running import BITS, Point, core
from tests.programs.strategies import examples, programs
from tests.programs.values import Inputs, plain, reals

MOST: Final = 8
"""A program with more reals to differentiate in is looked at along two random directions, which every one of them is part of."""


@settings(examples(30))
@given(programs(), st.integers(0, 1 << 20))
def test_gradients_agree_with_differences(program: Generated, seed: int) -> None:
    made = core(program.files)
    after = made.after()
    dims = program.setting(seed)
    inputs = Inputs(seed, dims).entry(program.value)
    value = plain(made.run(after, program.gradient.name, dims, inputs, bits=BITS).value)
    gradients = {
        (program.value.params[place][0],): part
        for place, part in zip(program.inputs, value if len(program.inputs) > 1 else (value,), strict=True)
    }
    point = Point(made, after, program.value.name, dims, inputs)
    if sum(len(list(reals(part))) for part in gradients.values()) <= MOST:
        found = [text for below, part in gradients.items() for text in point.disagreements(below, part)]
    else:
        found = [text for turn in range(2) for text in point.along(gradients, seed + turn)]
    assert found == []
