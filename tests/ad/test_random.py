"""Laws of differentiation on random programs."""

import numpy as np
from hypothesis import HealthCheck, given, settings

from presk.ad.pipeline import Remat
from presk.ad.vjp import differentiate
from presk.core.ir import Program
from tests.ad.evaluate import Evaluator, narrow
from tests.ad.programs import programs
from tests.ad.support import against_differences, all_ways, arguments, dims_of, named, same_bits, sound

random = settings(
    max_examples=settings().max_examples // 2,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@random
@given(programs())
def test_every_way_gives_the_bits_of_the_plain_gradient(program: Program) -> None:
    plain = differentiate(program).program
    sound(plain, {}, "differentiate")
    ways = {way: done.program for way, done in all_ways(program).items()}
    for way, made in ways.items():
        sound(made, {}, str(way))
    root = named(program, "root")
    dims = dims_of(root)
    args = arguments(root, {}, dims)
    with np.errstate(all="ignore"):
        same_bits({"plain": plain, **ways}, "root", args, {}, dims)
        held = {way: made for way, made in ways.items() if way[1]}
        same_bits({"plain": plain, **held}, "root", args, {}, dims, narrow)


@random
@given(programs())
def test_gradients_agree_with_differences(program: Program) -> None:
    dims = dims_of(named(program, "root"))
    with np.errstate(all="ignore"):
        value = Evaluator(program, {}).run("root.lambda0", arguments(named(program, "root.lambda0"), {}, dims), dims)
        if not np.isfinite(value) or abs(value) > 100:
            return
        made = all_ways(program)[Remat.STORE, False].program
        against_differences(program, made, "root.lambda0", {}, dims, tolerance=1e-4)
