"""Contractions against what rule 2 of the arithmetic states, written down in MPFR numbers: from +0, one fma after the other."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Final

import gmpy2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from presk.kernels.ir import Elem, For, Kernel, Store
from presk.kernels.layout import Layout, Split
from presk.kernels.llvm.blobs import compile_kernel
from presk.kernels.nest import BF16, F32, F64, Arith, Kind, Launch, Operand
from presk.kernels.nests import contraction
from presk.kernels.nests.contraction import Contract, Product, plan
from presk.kernels.nests.table import lower
from presk.kernels.targets import LEVELS, X86_64, X86_64_V3, X86_64_V4
from presk.prims.attrs import AxisNames
from tests.kernels.nestrun import TARGET, Array, decode, encode, execute, launched, same, use_of

WIDE: Final = Arith(Elem.F32, Elem.F32, Elem.F64)
"""Stored in f32, added up in f64."""

HALF_WIDE: Final = Arith(Elem.BF16, Elem.F32, Elem.F64)
TYPES: Final = {"f64": F64, "f32": F32, "bf16": BF16, "f32 in f64": WIDE, "bf16 in f64": HALF_WIDE}
CONTEXTS: Final = {
    Elem.F32: gmpy2.context(precision=24, emin=-148, emax=128, subnormalize=True),
    Elem.F64: gmpy2.context(precision=53, emin=-1073, emax=1024, subnormalize=True),
}
LAYOUTS: Final = (
    Layout(),
    *(Layout(lanes=lanes) for lanes in (1, 2, 4, 8, 16)),
    Layout(tile=(1, 1), lanes=1),
    Layout(tile=(2, 4), lanes=4),
    Layout(tile=(4, 8), lanes=2, pack=True),
    Layout(tile=(3, 16), lanes=4, pack=False),
    Layout(tile=(14, 4), lanes=4, order="JI"),
    Layout(pack=True),
    Layout(pack=False),
    Layout(pack=True, lanes=1),
    Layout(pack=True, lanes=16),
    Layout(kblock=2),
    Layout(kblock=3, order="KJI", pack=True, lanes=4),
    Layout(kblock=5, order="JKI", tile=(2, 4), lanes=4),
    Layout(order="JI"),
    Layout(order="JI", pack=True, lanes=2),
    Layout(split=Split(0, 3)),
    Layout(split=Split(1, 2), lanes=4, tile=(2, 4)),
    Layout(split=Split(2, 2), pack=True, lanes=2),
    Layout(split=Split(0, 2), kblock=3, order="JI", pack=True),
)
"""Every decision, alone and with others."""

EINS: Final = (
    "bhqd,bhkd->bhqk",
    "bhqk,bhkd->bhqd",
    "bhqk,bhqd->bhkd",
    "bqhd,bkhd->bhqk",
    "ij,jk->ki",
    "ij,kj->ik",
    "ji,jk->ik",
    "ij,j->i",
    "j,ij->i",
    "i,i->",
    "i,j->ji",
    "ab,ab->ab",
    "ab,ab->ba",
    "abc,abd->cd",
    "abc,cba->",
    "abc,bad->dc",
    "ac,abd->bcd",
    "abc,cb->a",
    "abc,ab->bc",
)
"""Of two operands that both carry every summed axis: contractions."""

PRODUCTS: Final = ("ij->i", "ij->", "ij->ji", "ij,jk,kl->il", "ij,ij,ij->j", "abc,cd->a", "i,j,k,l->ljki", "abd,bc->a")
"""All others."""

LENGTHS: Final = {"b": 2, "h": 3, "q": 5, "k": 7, "d": 4, "i": 5, "j": 6, "l": 3, "a": 3, "c": 9}


# --- what is expected -------------------------------------------------------------------------------------------------------------


def sites(names: Sequence[str], lengths: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Places along axes, in row-major order."""
    for place in product(*(range(lengths[name]) for name in names)):
        yield dict(zip(names, place, strict=True))


def expected(spec: str, arrays: Sequence[Array], elem: Elem) -> Array:
    """The sums of products that a spec names, each in increasing order of the summed axes, as doubles (which hold them)."""
    inputs, out = spec.split("->")
    names = inputs.split(",")
    lengths = {name: size for one, array in zip(names, arrays) for name, size in zip(one, array.shape)}
    summed = list(dict.fromkeys(name for one in names for name in one if name not in out))
    with gmpy2.context(CONTEXTS[elem]), np.errstate(all="ignore"):
        tables = [np.frompyfunc(lambda x: gmpy2.mpfr(float(x)), 1, 1)(array) for array in arrays]
        found = np.empty([lengths[name] for name in out])
        for at in sites(out, lengths):
            total = gmpy2.mpfr(0)
            for along in sites(summed, lengths):
                place = at | along
                *factors, last = (np.asarray(table)[tuple(place[n] for n in one)] for one, table in zip(names, tables))
                if factors:
                    value = factors[0]
                    for factor in factors[1:]:
                        value = value * factor
                    total = gmpy2.fma(value, last, total)
                else:
                    total = last + total
            found[tuple(at[name] for name in out)] = float(total)
    return found


# --- how it is run ----------------------------------------------------------------------------------------------------------------


def real(shape: Sequence[int], arith: Arith) -> Operand:
    return Operand(Kind.REAL, arith.storage, tuple(shape), (None,) * len(shape))


def ein(spec: str, shapes: Sequence[Sequence[int]], arith: Arith) -> Launch:
    """What an `ein` launches."""
    inputs, out = spec.split("->")
    names = inputs.split(",")
    lengths = {name: size for one, shape in zip(names, shapes) for name, size in zip(one, shape)}
    attrs = {f"in{place}": AxisNames(tuple(one)) for place, one in enumerate(names)} | {"out": AxisNames(tuple(out))}
    operands = [real(shape, arith) for shape in shapes]
    return launched("ein", use_of(operands, real([lengths[name] for name in out], arith), arith, attrs))


def numbers(shape: Sequence[int], arith: Arith, seed: int) -> tuple[Array, Array]:
    """Numbers of many sizes: as a buffer, and as tensors of what it holds."""
    rng = np.random.default_rng((seed, *shape))
    x = rng.normal(size=tuple(shape)) * 10.0 ** rng.integers(-2, 3, size=tuple(shape))
    buffer = encode(x, arith.storage)
    return buffer, decode(buffer, arith.storage).reshape(shape)


def stored(values: Array, arith: Arith) -> Array:
    """Sums as the result's buffer: rounded once."""
    return encode(values.astype(np.float64), arith.storage)


def under(launch: Launch, inputs: Sequence[Array], layout: Layout, *, native: bool, level: Any = X86_64_V3) -> Array:
    """The output under a layout; every kernel is checked."""
    lowered = lower(launch.nest, layout, level.target)
    workers = 1 if layout.split is None else layout.split.workers
    given_ = [inputs[place] for place in launch.inputs]
    return execute(lowered, given_, native=native, workers=workers, level=level)[0]


SHAPES: Final = [
    ((5, 7), (7, 9)),
    ((2, 3, 6), (6, 5)),
    ((7,), (7, 4)),
    ((3, 7), (7,)),
    ((6,), (6,)),
    ((3, 5), (5, 2, 4)),
]


def dots(left: Sequence[int], right: Sequence[int]) -> list[tuple[str, str, tuple[Sequence[int], ...], Sequence[int]]]:
    """A `dot` and its derivatives: the primitive, what it sums, its operands' shapes and its result's."""
    rows = "abcd"[: len(left) - 1]
    columns = "wxyz"[: len(right) - 1]
    out = (*left[:-1], *right[1:])
    return [
        ("dot", f"{rows}k,k{columns}->{rows}{columns}", (left, right), out),
        ("dot_vjp_l", f"{rows}{columns},k{columns}->{rows}k", (out, right), left),
        ("dot_vjp_r", f"{rows}k,{rows}{columns}->k{columns}", (left, out), right),
    ]


def cases() -> Iterator[Any]:
    for left, right in SHAPES:
        for name, spec, shapes, result in dots(left, right):
            yield pytest.param(name, spec, shapes, result, id=f"{name} {spec}")


@pytest.mark.parametrize(("name", "spec", "shapes", "result"), list(cases()))
def test_a_dot_and_its_derivatives(name: str, spec: str, shapes, result) -> None:
    for arith in TYPES.values():
        given_ = [numbers(shape, arith, place) for place, shape in enumerate(shapes)]
        launch = launched(name, use_of([real(shape, arith) for shape in shapes], real(result, arith), arith))
        assert isinstance(launch.nest, Contract)
        wanted = stored(expected(spec, [seen for _, seen in given_], arith.accumulate), arith)
        inputs = [buffer for buffer, _ in given_]
        for layout in LAYOUTS if arith is F32 else LAYOUTS[::4]:
            same(under(launch, inputs, layout, native=False), wanted)
        same(under(launch, inputs, Layout(), native=True), wanted)


@pytest.mark.parametrize("spec", EINS + PRODUCTS)
def test_an_ein(spec: str) -> None:
    names = spec.split("->")[0].split(",")
    shapes = [[LENGTHS[name] for name in one] for one in names]
    for arith in (F32, F64, BF16, WIDE):
        given_ = [numbers(shape, arith, place) for place, shape in enumerate(shapes)]
        launch = ein(spec, shapes, arith)
        assert isinstance(launch.nest, Product if spec in PRODUCTS else Contract)
        wanted = stored(expected(spec, [seen for _, seen in given_], arith.accumulate), arith)
        inputs = [buffer for buffer, _ in given_]
        for layout in LAYOUTS[::2] if arith is F32 else LAYOUTS[::5]:
            same(under(launch, inputs, layout, native=False), wanted)
        same(under(launch, inputs, Layout(), native=True), wanted)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_every_layout_natively(layout: Layout) -> None:
    """Panels, remainders of rows and of columns, and blocks, in one product of each kind."""
    for arith, left, right in ((F32, (13, 11), (11, 21)), (BF16, (3, 9), (9, 17))):
        for name, spec, shapes, result in dots(left, right):
            given_ = [numbers(shape, arith, place) for place, shape in enumerate(shapes)]
            launch = launched(name, use_of([real(shape, arith) for shape in shapes], real(result, arith), arith))
            wanted = stored(expected(spec, [seen for _, seen in given_], arith.accumulate), arith)
            same(under(launch, [buffer for buffer, _ in given_], layout, native=True), wanted)


@pytest.mark.parametrize("spec", ["ik,kj->ij", "bik,bjk->bij", "ki,kj->ij"])
def test_every_level_of_machine(spec: str) -> None:
    """On the interpreter all; natively the lower ones, of which the lowest writes the fma out."""
    lengths = {"b": 2, "i": 9, "j": 19, "k": 12}
    shapes = [[lengths[name] for name in one] for one in spec.split("->")[0].split(",")]
    for arith in (F32, F64):
        given_ = [numbers(shape, arith, place) for place, shape in enumerate(shapes)]
        launch = ein(spec, shapes, arith)
        wanted = stored(expected(spec, [seen for _, seen in given_], arith.accumulate), arith)
        inputs = [buffer for buffer, _ in given_]
        for level in LEVELS.values():
            same(under(launch, inputs, Layout(), native=False, level=level), wanted)
        for level in (X86_64, X86_64_V3):
            same(under(launch, inputs, Layout(), native=True, level=level), wanted)
        for step in lower(launch.nest, Layout(), X86_64_V4.target).steps:
            assert compile_kernel(step.kernel, X86_64_V4).code


@pytest.mark.parametrize(
    "sizes", [(0, 3, 4), (3, 0, 4), (3, 4, 0), (0, 0, 0), (1, 1, 1), (1, 5, 1), (1, 1, 33)], ids=str
)
def test_sizes_0_and_1(sizes) -> None:
    """Of rows, the summed axis and columns. Nothing summed is +0."""
    m, k, n = sizes
    for name, spec, shapes, result in dots((m, k), (k, n)):
        given_ = [numbers(shape, F32, place) for place, shape in enumerate(shapes)]
        launch = launched(name, use_of([real(shape, F32) for shape in shapes], real(result, F32), F32))
        wanted = stored(expected(spec, [seen for _, seen in given_], Elem.F32), F32)
        inputs = [buffer for buffer, _ in given_]
        for layout in LAYOUTS[::2]:
            same(under(launch, inputs, layout, native=False), wanted)
        same(under(launch, inputs, Layout(pack=True), native=True), wanted)
    for spec in ("bik,bjk->bij", "ij,jk,kl->il"):
        lengths = {"b": 2, "i": m, "j": n, "k": k, "l": 2}
        forms = [[lengths[name] for name in one] for one in spec.split("->")[0].split(",")]
        given_ = [numbers(shape, F64, place) for place, shape in enumerate(forms)]
        wanted = expected(spec, [seen for _, seen in given_], Elem.F64).reshape(-1)
        same(under(ein(spec, forms, F64), [buffer for buffer, _ in given_], Layout(), native=True), wanted)


SPECIAL: Final = (math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, 1e-45, 3e38, 1.5e308)


@pytest.mark.parametrize("arith", [F64, F32, BF16], ids=["f64", "f32", "bf16"])
def test_special_values_in_every_place(arith: Arith) -> None:
    """Of both operands: in whole vectors, in remainders, in panels. What stands beside them is not changed."""
    m, k, n = 3, 4, 11
    launch = launched("dot", use_of([real((m, k), arith), real((k, n), arith)], real((m, n), arith), arith))
    code = [(layout, lower(launch.nest, layout, TARGET)) for layout in (Layout(), Layout(pack=True, lanes=4))]
    rng = np.random.default_rng(7)
    for value in SPECIAL:
        for place in range(k * n):
            x = rng.choice([1.0, -1.0, 0.5, -0.0, 2.0], size=(m, k))
            w = rng.choice([1.0, -2.0, 0.0, -0.0, 3.0], size=(k, n))
            w.reshape(-1)[place] = value
            x.reshape(-1)[place % (m * k)] = value if place % 3 == 0 else x.reshape(-1)[place % (m * k)]
            left, right = encode(x, arith.storage), encode(w, arith.storage)
            seen = [decode(left, arith.storage).reshape(x.shape), decode(right, arith.storage).reshape(w.shape)]
            wanted = stored(expected("ik,kj->ij", seen, arith.accumulate), arith)
            for _, lowered in code:
                same(execute(lowered, [left, right], native=True)[0], wanted)


@pytest.mark.parametrize(("k", "n"), [(37, 19), (130, 127)])
def test_a_row_of_a_batch_is_the_row_alone(k: int, n: int) -> None:
    """Whatever tile it falls into, and whether the columns are in panels, as those of the larger product are from some batch on."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(33, k)).astype(np.float32)
    w = rng.normal(size=(k, n)).astype(np.float32).reshape(-1)

    def of(rows: Array) -> Array:
        shape = (len(rows), k)
        launch = launched("dot", use_of([real(shape, F32), real((k, n), F32)], real((len(rows), n), F32), F32))
        return under(launch, [rows.reshape(-1), w], Layout(), native=True).reshape(len(rows), n)

    alone = [of(x[row : row + 1])[0] for row in range(33)]
    for batch in range(1, 34):
        found = of(x[:batch])
        for row in range(batch):
            same(found[row], alone[row])


@pytest.mark.parametrize("arith", [F32, F64], ids=["f32", "f64"])
def test_long_sums_go_in_blocks_through_memory(arith: Arith) -> None:
    """Where the default has blocks of the summed axis, none and others give the same bits, and each is one of the plain sums."""
    k, m, n = 2500, 9, 37
    left, right = ((k, m), (k, n))
    (x, seen_x), (ct, seen_ct) = numbers(left, arith, 1), numbers(right, arith, 2)
    launch = launched("dot_vjp_r", use_of([real(left, arith), real(right, arith)], real((m, n), arith), arith))
    assert isinstance(launch.nest, Contract)
    found = under(launch, [x, ct], Layout(), native=True)
    for layout in (Layout(kblock=0), Layout(kblock=700), Layout(kblock=512, order="JI", pack=True), Layout(lanes=1)):
        same(under(launch, [x, ct], layout, native=True), found)
    for row, column in ((0, 0), (8, 36), (4, 17)):
        wanted = expected("k,k->", [seen_x[:, row], seen_ct[:, column]], arith.accumulate)
        same(found.reshape(m, n)[row, column : column + 1], stored(wanted, arith))


def test_panels_of_the_left_operand(monkeypatch: pytest.MonkeyPatch) -> None:
    """A derivative by the right operand has them from some size on; with other limits every contraction, under every layout."""
    shapes, result = ((300, 70), (300, 200)), (70, 200)
    launch = launched("dot_vjp_r", use_of([real(shape, F32) for shape in shapes], real(result, F32), F32))
    assert isinstance(launch.nest, Contract)
    assert plan(launch.nest, Layout(), TARGET).pack_left
    assert not plan(launch.nest, Layout(pack=False), TARGET).pack_left
    given_ = [numbers(shape, F32, place)[0] for place, shape in enumerate(shapes)]
    same(under(launch, given_, Layout(), native=True), under(launch, given_, Layout(pack=False), native=True))
    for name in ("PACKED_FROM", "PACKED_TILES", "LINE"):
        monkeypatch.setattr(contraction, name, 0)
    for spec in ("ik,kj->ij", "ki,kj->ij", "bik,bjk->bij", "abki,kjab->abij"):
        lengths = {"a": 2, "b": 3, "i": 7, "j": 9, "k": 10}
        forms = [[lengths[name] for name in one] for one in spec.split("->")[0].split(",")]
        for arith in (F32, BF16):
            given_two = [numbers(form, arith, place) for place, form in enumerate(forms)]
            made = ein(spec, forms, arith)
            assert isinstance(made.nest, Contract) and plan(made.nest, Layout(), TARGET).pack_left
            wanted = stored(expected(spec, [seen for _, seen in given_two], arith.accumulate), arith)
            inputs = [buffer for buffer, _ in given_two]
            for layout in LAYOUTS[::2] if arith is F32 else LAYOUTS[:1]:
                same(under(made, inputs, layout, native=False), wanted)
            same(under(made, inputs, Layout(), native=True), wanted)


def test_memory_may_begin_anywhere() -> None:
    given_ = [numbers(shape, F32, place) for place, shape in enumerate([(7, 9), (9, 21)])]
    launch = launched("dot", use_of([real((7, 9), F32), real((9, 21), F32)], real((7, 21), F32), F32))
    wanted = stored(expected("ik,kj->ij", [seen for _, seen in given_], Elem.F32), F32)
    for pack in (True, False):
        lowered = lower(launch.nest, Layout(pack=pack), TARGET)
        for shift in (1, 3, 7):
            same(execute(lowered, [buffer for buffer, _ in given_], native=True, shift=shift)[0], wanted)


# --- random products --------------------------------------------------------------------------------------------------------------


@st.composite
def products(draw: st.DrawFn) -> tuple[str, list[list[int]]]:
    """A spec of two operands whose result and summed axes stand in any order, and its shapes."""
    left = draw(st.permutations("abcde"))[: draw(st.integers(0, 4))]
    right = draw(st.permutations("abcde"))[: draw(st.integers(0, 4))]
    either = sorted({*left, *right})
    out = draw(st.permutations(either))[: draw(st.integers(0, len(either)))] if either else []
    lengths = {name: draw(st.integers(0, 5)) for name in either}
    spec = f"{''.join(left)},{''.join(right)}->{''.join(out)}"
    return spec, [[lengths[name] for name in one] for one in (left, right)]


def layouts() -> st.SearchStrategy[Layout]:
    return st.builds(
        Layout,
        tile=st.none() | st.tuples(st.integers(1, 14), st.sampled_from((1, 4, 8, 12, 16, 32))),
        kblock=st.none() | st.integers(0, 6),
        order=st.sampled_from((None, "IJ", "JI", "KJI")),
        lanes=st.none() | st.sampled_from((1, 2, 4, 8, 16)),
        split=st.none() | st.builds(Split, st.integers(0, 2), st.integers(2, 3)),
        pack=st.none() | st.booleans(),
    )


@settings(max_examples=120, deadline=None)
@given(products(), layouts(), st.sampled_from(sorted(TYPES)))
def test_any_ein_of_two_operands(made: tuple[str, list[list[int]]], layout: Layout, type_: str) -> None:
    spec, shapes = made
    arith = TYPES[type_]
    given_ = [numbers(shape, arith, place) for place, shape in enumerate(shapes)]
    wanted = stored(expected(spec, [seen for _, seen in given_], arith.accumulate), arith)
    same(under(ein(spec, shapes, arith), [buffer for buffer, _ in given_], layout, native=False), wanted)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 40),
    st.integers(0, 20),
    st.integers(0, 70),
    layouts(),
    st.sampled_from(("dot", "dot_vjp_l", "dot_vjp_r")),
)
def test_any_dot_natively(m: int, k: int, n: int, layout: Layout, name: str) -> None:
    """Against sums of numbers that are so few and so whole that no order of them rounds."""
    rng = np.random.default_rng((m, k, n))
    _, spec, shapes, result = next(one for one in dots((m, k), (k, n)) if one[0] == name)
    given_ = [rng.integers(-64, 65, size=shape).astype(np.float64) for shape in shapes]
    launch = launched(name, use_of([real(shape, F32) for shape in shapes], real(result, F32), F32))
    wanted = np.einsum(spec, *given_).reshape(-1).astype(np.float32)
    wanted += np.float32(0)
    same(under(launch, [one.reshape(-1).astype(np.float32) for one in given_], layout, native=True), wanted)


# --- what is marked ---------------------------------------------------------------------------------------------------------------


def loops(kernel: Kernel) -> Iterator[For]:
    """Every loop of a kernel."""
    todo = list(kernel.body)
    while todo:
        one = todo.pop()
        if isinstance(one, For):
            yield one
            todo += one.body


@pytest.mark.parametrize("spec", ["ik,kj->ij", "bik,bjk->bij"])
def test_loops_over_the_result_are_parallel_and_sums_carry(spec: str) -> None:
    lengths = {"b": 3, "i": 40, "j": 70, "k": 30}
    shapes = [[lengths[name] for name in one] for one in spec.split("->")[0].split(",")]
    for layout in (Layout(), Layout(pack=True), Layout(split=Split(0, 2))):
        for step in lower(ein(spec, shapes, F32).nest, layout, TARGET).steps:
            for loop in loops(step.kernel):
                stores = any(isinstance(one, Store) for one in loop.body) or any(
                    isinstance(one, For) and not one.carried for one in loop.body
                )
                assert loop.parallel == stores and bool(loop.carried) != stores


@pytest.mark.parametrize("level", list(LEVELS.values()), ids=lambda level: level.name)
@pytest.mark.parametrize("arith", [F32, F64], ids=["f32", "f64"])
def test_a_default_tile_stays_below_the_registers(level: Any, arith: Arith) -> None:
    """Sums, the vectors of a column and one element of the left operand."""
    for m, k, n in product((1, 2, 5, 64, 1000), (8, 4096), (1, 7, 64, 92, 1536)):
        launch = launched("dot", use_of([real((m, k), arith), real((k, n), arith)], real((m, n), arith), arith))
        assert isinstance(launch.nest, Contract)
        made = plan(launch.nest, Layout(), level.target)
        assert made.rows * made.vectors + made.vectors + 1 <= level.target.registers
