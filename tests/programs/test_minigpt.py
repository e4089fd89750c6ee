"""MiniGPT with a head of zeros: every token has the same probability, so the loss is ln V to the precision that is asked for."""

from typing import Any

import gmpy2
import numpy as np
import pytest

from tests.programs.running import Core
from tests.programs.test_corpus_gradients import drawn, lowered
from tests.programs.values import Inputs, plain

DIMS = {"B": 2, "T": 3}


@pytest.mark.parametrize(("tokens", "bits"), [(64, 64), (64, 256), (64, 1000), (5, 256)])
def test_the_loss_of_a_zero_head_is_the_logarithm_of_the_vocabulary(tokens: int, bits: int) -> None:
    made, after = lowered("nlp/minigpt.psk", (("D", 4), ("H", 2), ("L", 2), ("V", tokens)))
    inputs = parameters(made)
    inputs["θ"]["head"][...] = 0
    loss = plain(made.run(after, "loss", DIMS, inputs, bits=bits).value)[()]
    with gmpy2.context(precision=2 * bits):
        # Rounded are log Σ exp (to a few units of its last place, below 8) and the mean over six tokens.
        assert abs(loss - gmpy2.log(tokens)) <= 8 * gmpy2.mpfr(2) ** (2 - bits)


def test_the_loss_of_another_head_is_not() -> None:
    made, after = lowered("nlp/minigpt.psk", (("D", 4), ("H", 2), ("L", 2), ("V", 64)))
    loss = plain(made.run(after, "loss", DIMS, parameters(made), bits=64).value)[()]
    assert abs(float(loss) - float(np.log(64))) > 0.01


def parameters(made: Core) -> dict[str, Any]:
    """Drawn parameters and tokens."""
    function = made.lowered.functions()["loss"]
    draw = Inputs(1, DIMS)
    return {param.name: drawn(draw, param.type, made, DIMS, param.name, {}) for param in function.params}
