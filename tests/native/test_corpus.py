"""Every entry of the corpus, natively: on the interpreter the same bits, and in f64 close to the exact value."""

import numpy as np
import pytest

from presk.ad.pipeline import Remat
from presk.core.lower import Mode
from presk.exact.defined import check_entry
from presk.exact.faults import Fault
from presk.exact.interpreter import Stopped
from presk.types import type as types
from tests.ad.support import CORPUS, corpus, dims_of
from tests.native.support import EmptiedRow, after, driver_of, exactly, given_to, interpreted, native, same, traced

SMALL = {
    "nlp/05_gpt.psk": {"V": 7, "D": 4, "H": 2, "L": 2, "C": 8},
    "nlp/minigpt.psk": {"V": 7, "D": 4, "H": 2, "L": 2},
}
# Its constants are those of an imported file, which nothing overrides: too large for the interpreters.
LARGE = {"nlp/train_minigpt.psk"}
FILES = sorted({str(path.relative_to(CORPUS)) for path in CORPUS.rglob("*.psk")} - LARGE)


def runnable(type_):
    match type_:
        case types.Function():
            return False
        case types.Tuple(items):
            return all(map(runnable, items))
        case types.Stack(_, item):
            return runnable(item)
        case _:
            return True


def entries(program):
    """The functions that can be called from outside."""
    for function in program.functions:
        if all(runnable(param.type) for param in function.params) and runnable(function.result):
            yield function


@pytest.mark.parametrize("file", FILES)
def test_native_code_gives_the_interpreters_bits_and_nearly_the_exact_value(file):
    given = corpus(file, Mode.INFERENCE, **SMALL.get(file, {}))
    own = {function.name for function in given.program.functions}
    for type_ in ("f64", "f32", "bf16"):
        program = after(given, type_, Remat.STORE)
        for function in entries(program):
            if function.name not in own:
                continue  # what differentiation generated is called by what stands in the program
            dims = dims_of(function)
            prefix = (2,)
            try:
                check_entry(program, function.name, dims, prefix, given.headers, {})
            except (Fault, Stopped):
                continue  # undefined at these dimensions: refused before anything runs
            args = given_to(function, given.headers, dims, type_, prefix)
            driver = driver_of(traced(program, given.headers, function.name, dims, type_, prefix=prefix))
            try:
                found = native(driver, function, args)
            except EmptiedRow:
                with pytest.raises(Stopped, match="the mask refuses"):
                    exactly(program, given.headers, function.name, args, dims, prefix)
                continue
            assert same(found, interpreted(driver, function, args)), (function.name, type_)
            if type_ == "f64":
                close(function.name, found, exactly(program, given.headers, function.name, args, dims, prefix))


def close(name, found, exact):
    assert found.keys() == exact.keys()
    for path, array in found.items():
        if array.dtype.kind == "f":
            size = np.abs(exact[path]).max(initial=0.0)
            assert np.abs(array - exact[path]).max(initial=0.0) <= 1e-11 * max(size, 1.0), (name, path)
        else:
            assert np.array_equal(array, exact[path]), (name, path)
