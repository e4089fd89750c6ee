"""Products whose kernels add what an `add` adds to them: the bits of two launches, in one."""

from typing import Any, Final

import msgspec
import numpy as np
import pytest

from presk.core.ir import Prim, Program
from presk.kernels.ir import Elem
from presk.kernels.layout import Form, Layout, Split
from presk.kernels.nest import F32, F64, Arith
from presk.kernels.nests.contraction import Added, with_added
from presk.kernels.targets import X86_64_V3
from presk.kernels.text import print_kernel
from presk.kernels.trace.memory import Driver, launches
from presk.kernels.trace.recorder import Misfit
from presk.kernels.trace.tracer import Question, trace
from presk.kernels.wellformed import Illformed, lower_stated
from presk.realize.plan import Decisions, Kind, Plan, kinds, unfit
from presk.realize.record import uniform
from tests.ad.support import lowered
from tests.kernels.nestrun import execute, use_of
from tests.kernels.test_contraction import real
from tests.native.support import after, driver_of, given_to, interpreted, native, same, traced
from tests.native.test_corpus import differentiated, entries, lengths, loaded
from tests.native.test_plans import GRADIENTS

PROGRAM: Final = """\
dim B
dim T

fn after_product(x : ℝ[batch: B, seq: T, k: 36], w : ℝ[k: 36, n: 19], b : ℝ[n: 19]) -> ℝ[batch: B, seq: T, n: 19] =
  x · w + b

fn before_product(x : ℝ[batch: B, seq: T, k: 36], w : ℝ[k: 36, n: 19], b : ℝ[n: 19]) -> ℝ[batch: B, seq: T, n: 19] =
  b + x · w

fn mask(q : ℝ[batch: B, heads: 2, seq: T, hd: 36], k : ℝ[batch: B, heads: 2, seq2: T, hd: 36], m : ℝ[seq: T, seq2: T])
    -> ℝ[batch: B, heads: 2, seq: T, seq2: T] =
  ein[batch, heads, seq, seq2](q * k) + m

fn residual(a : ℝ[batch: B, seq: T, seq2: 36], v : ℝ[batch: B, seq2: 36, hd: 11], x : ℝ[batch: B, seq: T, hd: 11])
    -> ℝ[batch: B, seq: T, hd: 11] =
  x + ein[batch, seq, hd](a * v)

fn rows(a : ℝ[batch: B, seq: T, seq2: 36], v : ℝ[batch: B, seq2: 36, hd: 11], x : ℝ[batch: B, seq: T])
    -> ℝ[batch: B, seq: T, hd: 11] =
  ein[batch, seq, hd](a * v) + x

fn scalar(x : ℝ[batch: B, k: 36], w : ℝ[k: 36, n: 19], s : ℝ[]) -> ℝ[batch: B, n: 19] =
  x · w + s
"""
SUMS: Final = ("after_product", "before_product", "mask", "residual", "rows", "scalar")
LAYOUTS: Final = (
    Layout(),
    Layout(tile=(1, 1), lanes=1),
    Layout(tile=(2, 8), lanes=4, pack=True),
    Layout(tile=(4, 4), lanes=4, pack=True, order="JI", split=Split(0, 2)),
    Layout(tile=(2, 8), lanes=8, pack=True, kblock=32, order="JIK"),
)
BLOCKED: Final = (
    *(
        Layout(tile=(2, 4), lanes=4, pack=True, kblock=block, order=order)
        for block in (12, 32)
        for order in ("KIJ", "IKJ", "JKI", "KJI")
    ),
    Layout(form=Form.ROW_WISE),
)
"""Those that keep sums in the result, which is of their type."""


DIMS: Final = {"B": 2, "T": 5}


def product_of(program: Program, entry: str) -> str:
    """The contraction of an entry."""
    (name,) = (
        name for name, kind in kinds(program).items() if name.startswith(f"{entry}/") and kind is Kind.CONTRACTION
    )
    return name


def with_epilogue(layout: Layout) -> Layout:
    return msgspec.structs.replace(layout, epilogue=True)


def planned(*names: str) -> Plan:
    return Plan(uniform("f32"), None, tuple((name, Decisions(epilogue=True)) for name in names))


@pytest.mark.parametrize("type_", ["f64", "f32", "bf16"])
@pytest.mark.parametrize("entry", SUMS)
def test_one_launch_has_the_bits_of_two(entry: str, type_: str) -> None:
    core = lowered(PROGRAM)
    program = after(core, type_)
    function = next(one for one in program.functions if one.name == entry)
    dims = {name: DIMS[name] for name in function.dims}
    name = product_of(program, entry)
    assert unfit(planned(name), program) is None
    apart = driver_of(traced(program, core.headers, entry, dims, type_))
    args = given_to(function, core.headers, dims, type_)
    wanted = native(apart, function, args)
    for number, layout in enumerate(LAYOUTS if type_ == "bf16" else LAYOUTS + BLOCKED):
        if type_ == "f64" and layout.lanes == 8:
            layout = msgspec.structs.replace(layout, lanes=2)
        made = driver_of(traced(program, core.headers, entry, dims, type_, layouts={name: with_epilogue(layout)}))
        assert launches(made.rows) == launches(apart.rows) - 1
        assert same(native(made, function, args, threads=2), wanted), layout
        if number % 3 == 0:
            assert same(interpreted(made, function, args), wanted), layout


@pytest.mark.parametrize("storage", [Elem.F32, Elem.BF16])
@pytest.mark.parametrize("entry", SUMS)
def test_sums_of_a_wider_type_are_stored_before_something_is_added(entry: str, storage: Elem) -> None:
    core = lowered(PROGRAM)
    program = after(core, "bf16" if storage is Elem.BF16 else "f32")
    function = next(one for one in program.functions if one.name == entry)
    dims = {name: DIMS[name] for name in function.dims}
    wide = Arith(storage, Elem.F32, Elem.F64)

    def driver(layouts: dict[str, Layout]) -> Driver:
        question = Question(program, entry, dims, (), core.headers, lambda *_: wide, X86_64_V3.target, layouts)
        return driver_of(trace(question))

    apart = driver({})
    args = given_to(function, core.headers, dims, storage.value)
    wanted = native(apart, function, args)
    for layout in (
        Layout(epilogue=True),
        Layout(tile=(2, 4), lanes=4, pack=True, kblock=32, order="IJK", epilogue=True),
    ):
        made = driver({product_of(program, entry): layout})
        assert launches(made.rows) == launches(apart.rows) - 1
        assert same(native(made, function, args), wanted) and same(interpreted(made, function, args), wanted)


def test_in_wide_types_the_sum_waits_in_its_register() -> None:
    """Each element is stored once; in bf16 the product is, too, and read."""
    core = lowered(PROGRAM)

    def stores(type_: str) -> int:
        program = after(core, type_)
        name = product_of(program, "after_product")
        layout = Layout(tile=(1, 1), lanes=1, pack=False, epilogue=True, split=Split(0, 1))
        (kernel,) = driver_of(
            traced(program, core.headers, "after_product", DIMS, type_, layouts={name: layout})
        ).kernels
        return print_kernel(kernel).count("store")

    assert (stores("f32"), stores("bf16")) == (1, 2)


REFUSED: Final = """\
fn product(x : ℝ[batch: 2, k: 3], w : ℝ[k: 3, n: 4]) -> ℝ[batch: 2, n: 4] = x · w

fn twice(x : ℝ[batch: 2, k: 3], w : ℝ[k: 3, n: 4]) -> ℝ[batch: 2, n: 4] =
  let y = x · w
  y + y

fn times(x : ℝ[batch: 2, k: 3], w : ℝ[k: 3, n: 4]) -> ℝ[batch: 2, n: 4] = (x · w) * 2

fn grouped(x : ℝ[batch: 2, k: 3], w : ℝ[k: 3, n: 4], b : ℝ[n: 4]) -> ℝ[batch: 2, n: 4] = exp(x · w + b)

fn wider(x : ℝ[batch: 2, k: 3], w : ℝ[k: 3, n: 4], b : ℝ[more: 5, batch: 2, n: 4]) -> ℝ[more: 5, batch: 2, n: 4] =
  x · w + b

fn both(x : ℝ[batch: 2, k: 3], w : ℝ[k: 3, n: 4]) -> ℝ[batch: 2, n: 4] = x · w + (x * 2) · w

fn fine(x : ℝ[batch: 2, k: 3], w : ℝ[k: 3, n: 4], b : ℝ[n: 4]) -> ℝ[batch: 2, n: 4] = x · w + b
"""


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ("product", "what its function returns"),
        ("twice", "read more than once"),
        ("times", "is no `add`"),
        ("grouped", "in a group with others"),
        ("both", "the other product"),
    ],
)
def test_what_takes_no_epilogue(entry: str, why: str) -> None:
    program = after(lowered(REFUSED), "f32")
    names = [name for name, kind in kinds(program).items() if name.startswith(f"{entry}/") and kind is Kind.CONTRACTION]
    found = unfit(planned(*sorted(names)), program)
    assert found is not None and why in found.message, found


def test_what_does_not_fit_at_a_launch() -> None:
    core = lowered(REFUSED)
    program = after(core, "f32")

    def tried(entry: str, arith: Any, layout: Layout) -> None:
        layouts = {product_of(program, entry): layout}
        trace(Question(program, entry, {}, (), core.headers, arith, X86_64_V3.target, layouts))

    def uniformly(*_: Any) -> Arith:
        return F32

    with pytest.raises(Misfit) as raised:
        tried("wider", uniformly, Layout(epilogue=True))
    assert "larger" in raised.value.condition
    tried("fine", uniformly, Layout(epilogue=True))

    def apart(_: str, var: int) -> Arith:
        return F64 if var == 4 else F32

    with pytest.raises(Misfit) as raised:
        tried("fine", apart, Layout(epilogue=True))
    assert raised.value.decision == "epilogue" and "another type" in raised.value.condition


def test_lanes_need_what_is_added_along_the_columns() -> None:
    """What lies across, as no type has it: one lane reads it, several do not."""
    shapes = ((5, 9), (9, 11))
    use = use_of([real(shape, F32) for shape in shapes], real((5, 11), F32), F32)
    launch = with_added("dot", use, (1, 5), Added(Elem.F32, Elem.F32))
    assert launch is not None and launch.inputs == (0, 1, 2)
    with pytest.raises(Illformed) as raised:
        lower_stated(launch.nest, Layout(lanes=4, epilogue=True), X86_64_V3.target)
    assert raised.value.decision == "epilogue" and "has 4 lanes" in raised.value.condition
    arrays = [np.arange(one * other, dtype=np.float32) for one, other in (*shapes, (11, 5))]
    x, w, more = (array.reshape(shape) for array, shape in zip(arrays, (*shapes, (11, 5)), strict=True))
    for layout in (Layout(lanes=1, epilogue=True), Layout(form=Form.ROW_WISE, epilogue=True)):
        found, _ = execute(lower_stated(launch.nest, layout, X86_64_V3.target), arrays, native=True)
        assert np.array_equal(found.reshape(5, 11), x @ w + more.T)


@pytest.mark.parametrize(("file", "entry"), GRADIENTS)
def test_every_product_of_a_gradient_that_may_take_one(file: str, entry: str) -> None:
    """Alone or all at once: the default's gradient."""
    for type_ in ("f32", "bf16"):
        (function,) = (one for one in entries(file, type_) if one.name == entry)
        program, headers, dims = differentiated(file, type_), loaded(file).headers, lengths(function)
        names = [
            name
            for name, kind in kinds(program).items()
            if kind is Kind.CONTRACTION and unfit(planned(name), program) is None
        ]
        plain = driver_of(traced(program, headers, entry, dims, type_))
        args = given_to(function, headers, dims, type_)
        wanted = native(plain, function, args)
        for layout in (LAYOUTS[0], LAYOUTS[2]):
            layouts: dict[str, Layout] = {}
            for name in names:
                # Which of them takes it depends on the shapes, and on the others.
                if unfit(planned(*layouts, name), program) is None:
                    try:
                        traced(program, headers, entry, dims, type_, layouts={name: with_epilogue(layout)})
                    except Misfit:
                        continue
                    layouts[name] = with_epilogue(layout)
            made = driver_of(traced(program, headers, entry, dims, type_, layouts=layouts))
            assert "Linear.apply/%3" in layouts and launches(made.rows) < launches(plain.rows)
            assert same(native(made, function, args), wanted)


DERIVATIVES: Final = """\
dim B
fn f(x : ℝ[batch: B, seq: 3, k: 9], y : ℝ[batch: B, seq: 3, k: 9], w : ℝ[k: 9, n: 11], u : ℝ[k: 9, n: 11]) -> ℝ[] =
  sum((x · w + y · w + x · u)^2)

fn by_left(x : ℝ[batch: B, seq: 3, k: 9], y : ℝ[batch: B, seq: 3, k: 9], w : ℝ[k: 9, n: 11], u : ℝ[k: 9, n: 11])
    -> ℝ[batch: B, seq: 3, k: 9] =
  grad(λ x. f(x, y, w, u))(x)

fn by_right(x : ℝ[batch: B, seq: 3, k: 9], y : ℝ[batch: B, seq: 3, k: 9], w : ℝ[k: 9, n: 11], u : ℝ[k: 9, n: 11])
    -> ℝ[k: 9, n: 11] =
  grad(λ w. f(x, y, w, u))(w)
"""


@pytest.mark.parametrize("type_", ["f64", "f32", "bf16"])
@pytest.mark.parametrize(("entry", "primitive"), [("by_left", "dot_vjp_l"), ("by_right", "dot_vjp_r")])
def test_derivatives_of_products_take_one(entry: str, primitive: str, type_: str) -> None:
    """An operand that two products read: the derivatives by it are added up."""
    core = lowered(DERIVATIVES)
    program = after(core, type_)
    (function,) = (one for one in program.functions if one.name == entry)
    own = [
        f"{one.name}/%{binding.var}"
        for one in program.functions
        for binding in one.bindings
        if isinstance(binding.op, Prim) and binding.op.name == primitive
    ]
    names = [name for name in own if unfit(planned(name), program) is None]
    dims = {"B": 5}
    apart = driver_of(traced(program, core.headers, entry, dims, type_))
    args = given_to(function, core.headers, dims, type_)
    wanted = native(apart, function, args)
    taken = 0
    for name in names:
        for layout in LAYOUTS[:3] if type_ == "bf16" else LAYOUTS[:3] + BLOCKED[:3]:
            layouts = {name: with_epilogue(layout)}
            made = driver_of(traced(program, core.headers, entry, dims, type_, layouts=layouts))
            taken += launches(made.rows) == launches(apart.rows) - 1
            assert same(native(made, function, args), wanted), (name, layout)
            assert same(interpreted(made, function, args), wanted), (name, layout)
    assert taken
