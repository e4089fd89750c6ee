"""Copies of memory: every type, counts around a vector, and large ones in parts."""

import numpy as np
import pytest

from presk.kernels.check import check
from presk.kernels.copying import copy_kernel
from presk.kernels.interpret import interpret
from presk.kernels.ir import Elem
from presk.kernels.llvm.run import DTYPES, run_kernel
from presk.kernels.nests.divide import turns
from tests.kernels.nestrun import HOST, TARGET, Array, decode, encode, garbage, same


def given(elem: Elem, count: int) -> Array:
    """Numbers of both signs that each type has room for."""
    return encode(
        (np.arange(count) * 0.37 - 3) if elem in (Elem.F64, Elem.F32, Elem.BF16) else np.arange(count) % 200, elem
    )


@pytest.mark.parametrize("elem", [Elem.F64, Elem.F32, Elem.BF16, Elem.I64, Elem.I32, Elem.U8])
@pytest.mark.parametrize("count", [0, 1, 3, 8, 13, 64])
def test_a_copy_is_what_was_copied(elem: Elem, count: int) -> None:
    kernel = copy_kernel(elem, elem, count, TARGET)
    check(kernel)
    x = given(elem, count)
    for native in (False, True):
        y = garbage(count, elem)
        if native:
            run_kernel(kernel, [x, y], HOST)
        else:
            interpret(kernel, [x, y])
        assert np.array_equal(x, y)


@pytest.mark.parametrize(
    "source, target", [(Elem.F64, Elem.F32), (Elem.F32, Elem.F64), (Elem.F32, Elem.BF16), (Elem.BF16, Elem.F64)]
)
def test_between_floats_each_element_is_rounded_once(source: Elem, target: Elem) -> None:
    x = given(source, 21)
    kernel = copy_kernel(source, target, 21, TARGET)
    check(kernel)
    y, z = garbage(21, target), garbage(21, target)
    run_kernel(kernel, [x, y], HOST)
    interpret(kernel, [x, z])
    same(y, z)
    same(y, encode(decode(x, source), target))


def test_a_large_copy_is_divided() -> None:
    count = 1_000_003
    kernel = copy_kernel(Elem.F32, Elem.F32, count, TARGET)
    check(kernel)
    assert turns(kernel) == count // 8
    assert turns(copy_kernel(Elem.F32, Elem.F32, 1000, TARGET)) == 0
    x, y = given(Elem.F32, count), np.zeros(count, DTYPES[Elem.F32])
    run_kernel(kernel, [x, y], HOST, workers=3)
    assert np.array_equal(x, y)


def test_an_integer_is_no_float() -> None:
    with pytest.raises(TypeError):
        copy_kernel(Elem.I32, Elem.F32, 4, TARGET)
