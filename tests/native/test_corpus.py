"""Every entry of the corpus, natively: in f64 close to the exact value, and others in other types; on the interpreter the same bits.
`make fuzz` runs them in all types and at other lengths."""

from functools import cache
from typing import Final

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from presk.core.ir import Function, Program
from presk.core.lower import Mode
from presk.core.program import CoreProgram
from presk.exact.defined import check_entry
from presk.exact.faults import Fault
from presk.exact.interpreter import Stopped
from presk.types import type as types
from presk.types.type import Type
from tests.ad.support import CORPUS, corpus
from tests.native.support import (
    EmptiedRow,
    Tensors,
    after,
    driver_of,
    exactly,
    given_to,
    interpreted,
    native,
    same,
    traced,
)
from tests.programs.strategies import examples

SMALL: Final = {
    "nlp/05_gpt.psk": {"V": 5, "D": 4, "H": 2, "L": 2, "C": 4},
    "nlp/minigpt.psk": {"V": 5, "D": 4, "H": 2, "L": 2},
}
# Its constants are those of an imported file, which nothing overrides: too large for the interpreters.
LARGE: Final = {"nlp/train_minigpt.psk"}
FILES: Final = sorted({str(path.relative_to(CORPUS)) for path in CORPUS.rglob("*.psk")} - LARGE)
TYPES: Final = ("f32", "bf16", "f64")
PREFIX: Final = (2,)


def runnable(type_: Type) -> bool:
    """Whether a parameter or a result can be given, or shown."""
    match type_:
        case types.Function():
            return False
        case types.Tuple(items):
            return all(map(runnable, items))
        case types.Stack(_, item):
            return runnable(item)
        case _:
            return True


def loaded(file: str) -> CoreProgram:
    """A program of the corpus, at small constants."""
    return corpus(file, Mode.INFERENCE, **SMALL.get(file, {}))


@cache
def differentiated(file: str, type_: str) -> Program:
    """It after differentiation."""
    return after(loaded(file), type_)


@cache
def entries(file: str, type_: str) -> tuple[Function, ...]:
    """The functions of a program that can be called from outside. What differentiation generated, they call."""
    own = {function.name for function in loaded(file).program.functions}
    return tuple(
        function
        for function in differentiated(file, type_).functions
        if function.name in own and all(runnable(param.type) for param in function.params) and runnable(function.result)
    )


def lengths(function: Function) -> dict[str, int]:
    """Lengths by name, so that what two functions call at them is one kernel."""
    return {name: 2 + sum(map(ord, name)) % 3 for name in function.dims}


def defined(file: str, type_: str, function: Function, dims: dict[str, int], prefix: tuple[int, ...]) -> bool:
    """Whether an entry is defined at dimensions; else it is refused before anything runs."""
    headers = loaded(file).headers
    try:
        check_entry(differentiated(file, type_), function.name, dims, prefix, headers, {})
    except (Fault, Stopped):
        return False
    return True


def checked(
    file: str, type_: str, function: Function, dims: dict[str, int], prefix: tuple[int, ...], *, interpreting: bool
) -> None:
    """Runs an entry natively; compares it with the interpreter, and with the exact value."""
    headers, program = loaded(file).headers, differentiated(file, type_)
    args = given_to(function, headers, dims, type_, prefix)
    driver = driver_of(traced(program, headers, function.name, dims, type_, prefix=prefix))
    try:
        found = native(driver, function, args)
    except EmptiedRow:
        with pytest.raises(Stopped, match="the mask refuses"):
            exactly(program, headers, function.name, args, dims, prefix)
        return
    if interpreting:
        assert same(found, interpreted(driver, function, args)), (function.name, type_)
    if type_ == "f64":
        close(function.name, found, exactly(program, headers, function.name, args, dims, prefix))


def close(name: str, found: Tensors, exact: Tensors) -> None:
    """Whether every number is close to the exact one."""
    assert found.keys() == exact.keys()
    for path, array in found.items():
        if array.dtype.kind == "f":
            size = np.abs(exact[path]).max(initial=0.0)
            assert np.abs(array - exact[path]).max(initial=0.0) <= 1e-11 * max(size, 1.0), (name, path)
        else:
            assert np.array_equal(array, exact[path]), (name, path)


@pytest.mark.parametrize("file", FILES)
def test_native_code_gives_nearly_the_exact_value_and_the_interpreters_bits(file: str) -> None:
    for number, function in enumerate(entries(file, "f64")):
        dims = lengths(function)
        if not defined(file, "f64", function, dims, PREFIX):
            continue
        # Every second one in another type, too. Interpreted is one in four, of the language models' one in eight.
        place = number % 8 if file in SMALL else number % 4
        checked(file, "f64", function, dims, PREFIX, interpreting=place == 0)
        own = {1: "f32", 3: "bf16"}.get(number % 4)
        if own is not None:
            (other,) = (one for one in entries(file, own) if one.name == function.name)
            checked(file, own, other, dims, PREFIX, interpreting=place < 4)


@examples(10)
@given(st.data(), st.sampled_from(FILES), st.sampled_from(TYPES))
def test_at_any_lengths(data: st.DataObject, file: str, type_: str) -> None:
    found = entries(file, type_)
    assume(found)
    function = data.draw(st.sampled_from(found))
    dims = {name: data.draw(st.integers(0, 5), label=name) for name in function.dims}
    prefix = data.draw(st.sampled_from(((), (0,), (1,), (2, 3))))
    assume(defined(file, type_, function, dims, prefix))
    checked(file, type_, function, dims, prefix, interpreting=True)
