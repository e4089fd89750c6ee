"""Large kernels are divided among threads, and no number of threads changes a bit."""

from functools import cache

import msgspec
import numpy as np
import pytest

from presk.ad.pipeline import Remat
from presk.core.ir import Function, Program
from presk.core.lower import Mode
from presk.core.program import CoreProgram
from presk.kernels.check import check
from presk.kernels.entry import table_of
from presk.kernels.ir import Elem
from presk.kernels.layout import Layout, Split
from presk.kernels.native import table
from presk.kernels.nest import F32, Kind, Launch, Operand, Use
from presk.kernels.nests.divide import turns, weight
from presk.kernels.nests.table import lower, rule
from presk.kernels.targets import X86_64_V3, Level
from presk.kernels.trace.memory import Driver
from presk.prims.attrs import AxisName
from tests.ad.support import corpus
from tests.native.support import after, driver_of, given_to, native, same, traced

SIZES = {"V": 23, "D": 16, "H": 2, "L": 2, "C": 16}
DIMS = {"B": 3, "T": 11}
NOTHING = msgspec.structs.replace(X86_64_V3, target=msgspec.structs.replace(X86_64_V3.target, divided_from=10**12))


def divided(least: int) -> Level:
    """A level that divides kernels from so many weighted operations on."""
    return msgspec.structs.replace(X86_64_V3, target=msgspec.structs.replace(X86_64_V3.target, divided_from=least))


@cache
def gpt(type_: str) -> tuple[CoreProgram, Program, Function]:
    """The course GPT, and the function of its gradient."""
    given = corpus("nlp/05_gpt.psk", Mode.TRAINING, **SIZES)
    program = after(given, type_, Remat.STORE)
    return given, program, next(one for one in program.functions if one.name == "loss_grad")


def driver(type_: str, level: Level) -> Driver:
    given, program, function = gpt(type_)
    return driver_of(traced(program, given.headers, function.name, DIMS, type_, level=level))


def launched(rows) -> list[table.Launch]:
    """The launches of a table."""
    found: list[table.Launch] = []
    for row in rows:
        found += launched(row.body) if isinstance(row, table.Loop) else [row]
    return found


@pytest.mark.parametrize("type_", ["f32", "f64", "bf16"])
def test_any_number_of_threads_gives_the_same_bits(type_: str) -> None:
    """The gradient of a training step, with all kernels divided that can be, and with those above some size."""
    given, _, function = gpt(type_)
    args = given_to(function, given.headers, DIMS, type_)
    alone = native(driver(type_, NOTHING), function, args)
    assert any(np.abs(array).max(initial=0.0) > 0 for array in alone.values() if array.dtype.kind == "f")
    for least in (0, 20_000):
        made = driver(type_, divided(least))
        several = [kernel for kernel in made.kernels if turns(kernel) > 1]
        assert len(several) > (30 if least == 0 else 5)
        for threads in (1, 2, 3, 7):
            assert same(native(made, function, args, threads=threads), alone), (least, threads)


def test_kernels_that_are_divided_are_sound() -> None:
    for type_ in ("f32", "bf16"):
        for kernel in driver(type_, divided(0)).kernels:
            check(kernel)


def test_only_kernels_with_a_divided_loop_run_on_several_workers() -> None:
    made = driver("f32", divided(20_000))
    found = launched(table_of(made, 5).rows)
    assert {(launch.workers, turns(made.kernels[launch.kernel]) > 1) for launch in found} == {(5, True), (1, False)}
    assert {launch.workers for launch in launched(table_of(made).rows)} == {1}


def product(m: int, k: int, n: int, layout: Layout | None = None, level: Level = X86_64_V3) -> list[int]:
    """How often the divided loop of each kernel of a `dot` turns."""
    x, w, y = (Operand(Kind.REAL, Elem.F32, shape, (None, None)) for shape in ((m, k), (k, n), (m, n)))
    launch = rule("dot", Use((x, w), y, F32, {}, {}))
    assert isinstance(launch, Launch)
    lowered = lower(launch.nest, layout or Layout(), level.target)
    return [turns(step.kernel) for step in lowered.steps]


def test_size_decides() -> None:
    """Above four million weighted operations: a product of 128 rows has 2 · 128³ of them in its sums alone."""
    assert product(64, 64, 64) == [0]
    assert all(count > 1 for count in product(128, 128, 128))
    assert all(count > 1 for count in product(1024, 512, 512))
    assert product(128, 128, 128, Layout(split=Split(0, 1)))[-1] == 0
    assert all(count > 1 for count in product(48, 48, 48, Layout(split=Split(0, 4))))


def test_memory_counts_beside_operations() -> None:
    """A mean has one addition for each element, which comes from far away if there are many of them."""

    def mean(rows: int) -> int:
        x = Operand(Kind.REAL, Elem.F32, (rows, 384), ("n", "k"))
        made = rule("mean", Use((x,), Operand(Kind.REAL, Elem.F32, (rows,), ("n",)), F32, {"axis": AxisName("k")}, {}))
        assert isinstance(made, Launch)
        (step,) = lower(made.nest, Layout(), X86_64_V3.target).steps
        return turns(step.kernel)

    # A row: 384 loads and additions, 15 to join sixteen parts, a division that counts 8, a store; twice its elements and its result.
    assert 2 * 384 + 15 + 8 + 1 + 2 * 385 == 1562
    assert mean(4_000_000 // 1562 + 1) == 2561
    assert mean(4_000_000 // 1562) == 0


def test_another_loop_is_divided_where_the_outermost_has_one_turn() -> None:
    """A single row: its columns."""
    assert product(1, 4096, 4096)[-1] >= 8
    assert product(4096, 4096, 1)[-1] >= 8


def test_weights() -> None:
    """Counted by hand: 6 · 7 places of 5 products each, and the elements of operands and result once."""
    x, w, y = (Operand(Kind.REAL, Elem.F32, shape, (None, None)) for shape in ((6, 5), (5, 7), (6, 7)))
    launch = rule("dot", Use((x, w), y, F32, {}, {}))
    assert isinstance(launch, Launch)
    (step,) = lower(launch.nest, Layout(tile=(1, 1), lanes=1, pack=False), X86_64_V3.target).steps
    target = X86_64_V3.target
    assert weight(step.kernel, target.weights) == 6 * 7 * (5 * (2 + 1 + 1) + 1) + 2 * (6 * 5 + 5 * 7 + 6 * 7)
