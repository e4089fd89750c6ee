"""Layouts of nests: every decision changes the kernel and no bit; what does not fit a nest is refused; defaults can be stated.

`make plan-check` runs every point of the spaces; here each of them is one of several.
"""

import re
from collections.abc import Sequence
from functools import cache
from itertools import permutations
from typing import Any, Final

import numpy as np
import pytest

from presk.kernels.defaults import common, default_of
from presk.kernels.ir import Elem, For
from presk.kernels.layout import Form, Layout, Split, Target
from presk.kernels.nest import BF16, F32, F64, Arith, Kind, Launch, Lowered
from presk.kernels.nests.table import lower
from presk.kernels.space import points
from presk.kernels.targets import LEVELS, X86_64, X86_64_V3, X86_64_V4
from presk.kernels.text import print_kernel
from presk.kernels.wellformed import Illformed, lower_stated
from presk.prims.attrs import Align, Attr, AxisName
from tests.kernels.nestrun import TARGET, Array, encode, execute, launched, operand, same, use_of
from tests.kernels.test_contraction import dots, ein, loops, numbers, real

SMALL: Final = 89
"""Of so many points one is computed here."""

TYPES: Final = {"f64": F64, "f32": F32, "bf16": BF16}
WIDE: Final = Arith(Elem.F32, Elem.F32, Elem.F64)


# --- nests -------------------------------------------------------------------------------------------------------------------------


def scores(arith: Arith) -> tuple[Launch, list[Array]]:
    """Attention's scores: rows of two operands against each other."""
    shapes = ((2, 1, 5, 36), (2, 1, 19, 36))
    return ein("bhqd,bhkd->bhqk", shapes, arith), [numbers(one, arith, n)[0] for n, one in enumerate(shapes)]


def values(arith: Arith) -> tuple[Launch, list[Array]]:
    """Attention's values: a product whose columns are contiguous, with an axis outside."""
    shapes = ((2, 5, 36), (2, 36, 19))
    return ein("hqk,hkd->hqd", shapes, arith), [numbers(one, arith, n)[0] for n, one in enumerate(shapes)]


def derivative(arith: Arith) -> tuple[Launch, list[Array]]:
    """The derivative of a `dot` by its right operand, whose rows lie apart."""
    _, _, shapes, result = dots((140, 5), (5, 19))[2]
    launch = launched("dot_vjp_r", use_of([real(one, arith) for one in shapes], real(result, arith), arith))
    return launch, [numbers(one, arith, n)[0] for n, one in enumerate(shapes)]


def softmax(arith: Arith) -> tuple[Launch, list[Array]]:
    """A masked softmax along the last axis."""
    x = np.random.default_rng(3).normal(size=(2, 5, 21)) * 4
    mask = np.random.default_rng(4).integers(0, 2, size=(5, 21))
    mask[:, 7] = 1
    shape = operand(x, arith.storage, names=("a", "b", "c"))
    attrs: dict[str, Attr] = {"axis": AxisName("c"), "mask": Align(False, (-2, -1))}
    launch = launched("softmax", use_of([shape, operand(mask, kind=Kind.MASK)], shape, arith, attrs))
    return launch, [encode(x, arith.storage), encode(mask, Elem.U8)]


NESTS: Final = {"scores": scores, "values": values, "derivative": derivative, "softmax": softmax}


def workers_of(layout: Layout) -> int:
    return 1 if layout.split is None else layout.split.workers


def computed(launch: Launch, inputs: Sequence[Array], layout: Layout, *, native: bool) -> Array:
    """The output under a layout that is checked, as are its kernels."""
    given = [inputs[place] for place in launch.inputs]
    lowered = lower_stated(launch.nest, layout, TARGET)
    return execute(lowered, given, native=native, workers=workers_of(layout))[0]


def check_points(name: str, arith: Arith, first: int = 0, every: int = 1) -> int:
    """Computes points of a nest's space natively and on the interpreter: the bits of the default. Says how many."""
    launch, inputs = NESTS[name](arith)
    wanted = computed(launch, inputs, Layout(), native=True)
    same(computed(launch, inputs, Layout(), native=False), wanted)
    found = list(points(launch.nest, TARGET, (2, 3)))[first::every]
    for layout in found:
        for native in (True, False):
            same(computed(launch, inputs, layout, native=native), wanted)
    return len(found)


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("name", NESTS)
def test_points_of_four_nests_have_the_bits_of_the_default(name: str, type_: str) -> None:
    every = 1 if name == "softmax" else SMALL
    assert check_points(name, TYPES[type_], list(TYPES).index(type_), every) >= 2


def test_a_space_has_every_decision() -> None:
    launch = ein("hik,hkj->hij", ((2, 20, 36), (2, 36, 40)), F32)
    found = list(points(launch.nest, TARGET, (2, 4)))
    assert {one.form for one in found} == {Form.TILED, Form.ROW_WISE, None}
    assert {one.order for one in found if one.kblock} == {"".join(one) for one in permutations("IJK")}
    assert {one.kblock for one in found} == {0, 32, 128, None}
    assert {one.lanes for one in found} == {1, 4, 8, None}
    assert {one.pack for one in found} == {True, False, None}
    assert {(1, 1), (1, 4), (4, 16), (2, 8)} <= {one.tile for one in found}
    assert {one.split for one in found} == {Split(0, 1), *(Split(d, n) for d in (0, 1, 2) for n in (2, 4))}
    # What is kept in bf16 is rounded on the way.
    half = list(points(values(BF16)[0].nest, TARGET))
    assert {one.order for one in half} == {"IJ", "JI", "IJK", "JIK"} and {one.form for one in half} == {Form.TILED}
    assert [one.passes for one in points(softmax(BF16)[0].nest, TARGET)] == [3]
    assert [one.passes for one in points(softmax(F64)[0].nest, TARGET)] == [3, 2]


# --- every decision ----------------------------------------------------------------------------------------------------------------

BASE: Final = Layout(tile=(2, 8), lanes=4, kblock=0, order="IJ", pack=False, split=Split(0, 1))


@cache
def text(make: Any, arith: Arith, layout: Layout) -> str:
    """The kernels of a nest."""
    return "\n".join(print_kernel(step.kernel) for step in lower_stated(make(arith)[0].nest, layout, TARGET).steps)


def changed(**decisions: Any) -> Layout:
    return Layout(**{name: decisions.get(name, getattr(BASE, name)) for name in Layout.__struct_fields__})


CHANGES: Final = (
    changed(tile=(1, 8)),
    changed(tile=(2, 4)),
    changed(tile=(1, 1), lanes=1),
    changed(lanes=1),
    changed(lanes=8),
    changed(order="JI"),
    *(changed(kblock=32, order="".join(one)) for one in permutations("IJK")),
    changed(kblock=16, order="IJK"),
    changed(pack=True),
    changed(split=Split(0, 2)),
    changed(split=Split(1, 2)),
    changed(split=Split(2, 2)),
    Layout(form=Form.ROW_WISE),
)


@pytest.mark.parametrize("layout", CHANGES, ids=str)
def test_every_decision_changes_the_kernel_and_no_bit(layout: Layout) -> None:
    launch, inputs = values(F32)
    others = [text(values, F32, one) for one in (BASE, *CHANGES) if one is not layout]
    assert text(values, F32, layout) not in others
    wanted = computed(launch, inputs, Layout(), native=True)
    for native in (True, False):
        same(computed(launch, inputs, layout, native=native), wanted)


def test_the_passes_of_a_softmax_change_its_kernel() -> None:
    two, three = (text(softmax, F32, Layout(passes=passes)) for passes in (2, 3))
    assert two != three
    # The exponentials are computed once, or twice: each begins with the difference to the row's maximum.
    assert three.count(" = sub ") > two.count(" = sub ")


def depth_of(launch: Launch, layout: Layout) -> list[str]:
    """The loops of the contraction itself, outermost first: parallel ones (p), sums (s), blocks that go through memory (k)."""
    kernel = lower_stated(launch.nest, layout, TARGET).steps[-1].kernel
    found: list[str] = []
    body = kernel.body
    while nested := [one for one in body if isinstance(one, For)]:
        # The remainders of an axis stand behind; blocks that go on behind the first one.
        inner = next((one for one in nested if not one.parallel and not one.carried), nested[0])
        found.append("p" if inner.parallel else "s" if inner.carried else "k")
        body = inner.body
    return found


def test_the_order_is_that_of_the_loops() -> None:
    """Of a product with several tiles either way, and several blocks of summed places."""
    shapes = ((8, 100), (100, 40))
    launch = ein("ik,kj->ij", shapes, F32)

    def order(word: str, kblock: int) -> str:
        return "".join(depth_of(launch, Layout(tile=(2, 8), lanes=8, kblock=kblock, order=word, pack=False)))

    assert order("IJ", 0) == order("JI", 0) == "pps"
    assert order("IJK", 32) == order("JIK", 32) == "ppss"
    assert order("KIJ", 32) == order("KJI", 32) == "kpps"
    assert order("IKJ", 32) == order("JKI", 32) == "pkps"
    assert "".join(depth_of(launch, Layout(form=Form.ROW_WISE))) == "pkp"


def test_a_pack_is_a_launch_of_its_own_before() -> None:
    for make in (scores, values):
        launch, _ = make(F32)
        packed = lower_stated(launch.nest, Layout(pack=True), TARGET)
        assert [step.prepares for step in packed.steps] == [True, False]
        assert [step.prepares for step in lower_stated(launch.nest, Layout(pack=False, lanes=1), TARGET).steps] == [
            False
        ]


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_what_is_stated_of_few_columns_is_done(columns: int) -> None:
    """A tile that is wider than the result, a panel of a single column."""
    for spec, shapes in (("ik,kj->ij", ((5, 40), (40, columns))), ("ik,jk->ij", ((5, 40), (columns, 40)))):
        launch = ein(spec, shapes, F32)
        inputs = [numbers(one, F32, n)[0] for n, one in enumerate(shapes)]
        wanted = computed(launch, inputs, Layout(), native=True)
        for layout in (
            Layout(pack=True),
            Layout(tile=(2, 16), lanes=4, pack=True),
            Layout(tile=(1, 1)),
            Layout(form=Form.ROW_WISE),
        ):
            for native in (True, False):
                same(computed(launch, inputs, layout, native=native), wanted)
        assert len(lower_stated(launch.nest, Layout(pack=True), TARGET).steps) == 2


# --- what is refused ---------------------------------------------------------------------------------------------------------------


def product_of(m: int, k: int, n: int, arith: Arith = F32) -> Launch:
    return ein("ik,kj->ij", ((m, k), (k, n)), arith)


def transposed(arith: Arith = F32) -> Launch:
    return ein("ik,jk->ij", ((9, 40), (24, 40)), arith)


REFUSED: Final = (
    (transposed(), Layout(lanes=4, pack=False), X86_64_V3, "lanes", "not contiguous"),
    (product_of(9, 40, 24), Layout(lanes=2), X86_64_V3, "lanes", "no 2 lanes of f32"),
    (product_of(9, 40, 24), Layout(lanes=16), X86_64_V3, "lanes", "no 16 lanes of f32"),
    (product_of(9, 40, 24, F64), Layout(lanes=8), X86_64_V3, "lanes", "no 8 lanes of f64"),
    (product_of(9, 40, 24, F64), Layout(lanes=4), X86_64, "lanes", "x86-64 has no 4 lanes of f64"),
    (product_of(9, 40, 24), Layout(tile=(14, 16), lanes=4), X86_64_V3, "tile", "registers"),
    (product_of(9, 40, 24), Layout(tile=(14, 64)), X86_64_V4, "tile", "registers"),
    (product_of(9, 40, 24, BF16), Layout(form=Form.ROW_WISE), X86_64_V3, "form", "stored in bf16"),
    (product_of(9, 40, 24, WIDE), Layout(form=Form.ROW_WISE), X86_64_V3, "form", "added up in f64"),
    *(
        (product_of(9, 40, 24, BF16), Layout(kblock=32, order=order), X86_64_V3, "order", "stored in bf16")
        for order in ("KIJ", "IKJ", "KJI", "JKI")
    ),
    (product_of(9, 40, 24), Layout(passes=3), X86_64_V3, "passes", "a contraction has none"),
    (product_of(9, 40, 24), Layout(epilogue=True), X86_64_V3, "epilogue", "nothing is added to the product"),
    (product_of(9, 40, 24), Layout(split=Split(2, 2)), X86_64_V3, "split", "no loop at depth 2"),
    (product_of(1, 40, 24), Layout(split=Split(0, 2)), X86_64_V3, "split", "one iteration|nothing to divide"),
    (product_of(0, 40, 24), Layout(split=Split(0, 2)), X86_64_V3, "split", "is not there"),
    (softmax(BF16)[0], Layout(passes=2), X86_64_V3, "passes", "stored in bf16"),
    (softmax(F32)[0], Layout(tile=(1, 4)), X86_64_V3, "tile", "no contraction"),
)


@pytest.mark.parametrize(("launch", "layout", "level", "decision", "condition"), REFUSED, ids=str)
def test_what_does_not_fit_is_refused(
    launch: Launch, layout: Layout, level: Any, decision: str, condition: str
) -> None:
    with pytest.raises(Illformed) as raised:
        lower_stated(launch.nest, layout, level.target)
    assert raised.value.decision == decision and re.search(condition, raised.value.condition), raised.value.condition


@pytest.mark.parametrize("level", [X86_64, X86_64_V3, X86_64_V4], ids=lambda level: level.name)
def test_what_was_written_for_narrow_registers_is_taken_everywhere(level: Any) -> None:
    for tile in ((1, 1), *((m, n) for m in (1, 2, 4) for n in (4, 8, 16))):
        for lanes in (1, 4) if tile[1] > 1 else (1,):
            for kblock, order in ((0, "JI"), (32, "JIK"), (128, "KJI")):
                layout = Layout(tile=tile, lanes=lanes, kblock=kblock, order=order, pack=True)
                assert lower_stated(transposed().nest, layout, level.target).steps


def test_larger_tiles_are_taken_where_registers_hold_them() -> None:
    nest = product_of(40, 40, 200).nest
    assert lower_stated(nest, Layout(tile=(6, 64)), X86_64_V4.target).steps
    assert lower_stated(nest, Layout(tile=(14, 8)), X86_64_V3.target).steps
    with pytest.raises(Illformed):
        lower_stated(nest, Layout(tile=(6, 64)), X86_64_V3.target)


def test_a_division_is_the_loop_that_is_stated() -> None:
    launch = ein("hik,hkj->hij", ((2, 8, 36), (2, 36, 40)), F32)
    for depth, iterations in ((0, 2), (1, 4), (2, 5)):
        lowered = lower_stated(launch.nest, Layout(tile=(2, 8), lanes=8, split=Split(depth, 2)), TARGET)
        assert [loop.extent for loop in loops(lowered.steps[-1].kernel) if loop.split] == [iterations]
    assert not any(
        loop.split
        for step in lower_stated(launch.nest, Layout(split=Split(0, 1)), TARGET).steps
        for loop in loops(step.kernel)
    )


# --- defaults ----------------------------------------------------------------------------------------------------------------------


def stated(launch: Launch, layout: Layout, target: Target) -> Lowered:
    return lower_stated(launch.nest, layout, target)


@pytest.mark.parametrize("level", list(LEVELS.values()), ids=lambda level: level.name)
@pytest.mark.parametrize("type_", TYPES)
def test_a_default_that_is_stated_changes_no_byte(type_: str, level: Any) -> None:
    arith = TYPES[type_]
    sizes = ((1, 5, 1), (3, 7, 2), (9, 40, 24), (700, 64, 92), (40, 2500, 64), (33, 300, 1536), (0, 3, 4))
    made = [make(arith)[0] for make in NESTS.values()]
    for m, k, n in sizes:
        for name, _, shapes, result in dots((m, k), (k, n)):
            made.append(launched(name, use_of([real(one, arith) for one in shapes], real(result, arith), arith)))
    for launch in made:
        layout = default_of(launch.nest, level.target)
        assert layout != Layout()
        assert stated(launch, layout, level.target) == lower(launch.nest, Layout(), level.target)


def test_the_default_of_long_sums_can_be_stated() -> None:
    launch = launched("dot_vjp_r", use_of([real((2500, 9), F32), real((2500, 40), F32)], real((9, 40), F32), F32))
    found = default_of(launch.nest, TARGET)
    assert (found.kblock, found.order) == (512, "KIJ")


def test_what_layouts_have_in_common() -> None:
    one = Layout(tile=(4, 8), lanes=8, kblock=0, order="IJ", pack=False)
    assert common([one, one]) == one
    assert common([one, Layout(tile=(4, 8), lanes=4, kblock=0, order="IJ", pack=False)]) == Layout(
        kblock=0, order="IJ", pack=False
    )
    assert common([one, Layout(tile=(4, 8), lanes=8, kblock=32, order="IJK")]) == Layout(tile=(4, 8), lanes=8)
