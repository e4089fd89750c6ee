"""LLVM IR text of kernels: every operation on every level, memory, loops, bf16, rounding, and what the text must not hold."""

import ctypes
import mmap
import re
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from presk.kernels.build import Builder, Value
from presk.kernels.interpret import bf16_of, interpret
from presk.kernels.ir import (
    SIZES,
    Access,
    BinaryOp,
    Buffer,
    Carry,
    CompareOp,
    Elem,
    For,
    Index,
    Kernel,
    Let,
    Load,
    Type,
    UnaryOp,
)
from presk.kernels.llvm.blobs import compile_kernel
from presk.kernels.llvm.compile import assembly
from presk.kernels.llvm.emit import WRITTEN, emit
from presk.kernels.llvm.run import DTYPES, run_blob, run_kernel
from presk.kernels.math import apply
from presk.kernels.targets import LEVELS, X86_64, X86_64_V3, X86_64_V4
from tests.kernels.llvm.support import RUNNABLE, Array, at_offset, bits, computed, mapped, same
from tests.kernels.strategies import F32_SPECIAL, F64_SPECIAL

F32S = np.array(F32_SPECIAL, np.uint32).view(np.float32)
F64S = np.array(F64_SPECIAL, np.uint64).view(np.float64)
SPECIAL: dict[Elem, Array] = {Elem.F32: F32S, Elem.F64: F64S}
LANES = (1, 3, 8, 16)
MEMORY = tuple(SIZES)


def every_operation() -> Iterator[tuple[str, Callable[..., Value], tuple[Elem, ...], Elem]]:
    """Kernels with each operation of the IR on each type that has it, by name."""
    for elem in (Elem.F32, Elem.F64):
        for unary in (op for op in UnaryOp if op is not UnaryOp.NOT):
            yield f"{unary} {elem}", (lambda b, x, op=unary: b.unary(op, x)), (elem,), elem
        for binary in (BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL, BinaryOp.DIV, BinaryOp.COPYSIGN):
            yield f"{binary} {elem}", (lambda b, x, y, op=binary: b.binary(op, x, y)), (elem, elem), elem
        yield f"fma {elem}", (lambda b, x, y, z: b.fma(x, y, z)), (elem, elem, elem), elem
        for compare in (op for op in CompareOp if op is not CompareOp.ULT):
            yield (
                f"{compare} {elem}",
                (lambda b, x, y, op=compare: b.convert(b.compare(op, x, y), Elem.I32)),
                (elem, elem),
                Elem.I32,
            )
        yield f"{elem} to bf16", (lambda b, x: x), (elem,), Elem.BF16
        twin = Elem.I32 if elem is Elem.F32 else Elem.I64
        yield f"bits of {elem}", (lambda b, x, to=twin: b.bitcast(x, to)), (elem,), twin
        yield f"bits to {elem}", (lambda b, x, to=elem: b.bitcast(x, to)), (twin,), elem
        yield f"splat {elem}", (lambda b, x: b.splat(b.shuffle(x, x, (0,)), x.lanes)), (elem,), elem
    for elem in (Elem.I32, Elem.I64):
        yield f"not {elem}", (lambda b, x: b.unary(UnaryOp.NOT, x)), (elem,), elem
        for binary in (BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL, BinaryOp.AND, BinaryOp.OR, BinaryOp.XOR):
            yield f"{binary} {elem}", (lambda b, x, y, op=binary: b.binary(op, x, y)), (elem, elem), elem
        for binary in (BinaryOp.SHL, BinaryOp.LSHR, BinaryOp.ASHR):

            def shift(b, x, y, op=binary, elem=elem):
                most = b.const(elem, 31, x.lanes)
                return b.binary(op, x, b.binary(BinaryOp.AND, y, most))

            yield f"{binary} {elem}", shift, (elem, elem), elem
        for whole_compare in (op for op in CompareOp if op is not CompareOp.UNO):

            def chosen(b, x, y, op=whole_compare):
                return b.select(b.unary(UnaryOp.NOT, b.compare(op, x, y)), x, y)

            yield f"{whole_compare} {elem}", chosen, (elem, elem), elem
        for source in (Elem.F32, Elem.F64):

            def whole(b, x, elem=elem):
                # In range of both integers; NaN is not less.
                small = b.compare(CompareOp.LT, b.abs(x), b.const(x.elem, 2.0**30, x.lanes))
                return b.convert(b.unary(UnaryOp.RINT, b.select(small, x, b.const(x.elem, 0.0, x.lanes))), elem)

            yield f"{source} to {elem}", whole, (source,), elem
            yield f"{elem} to {source}", (lambda b, x, to=source: b.convert(x, to)), (elem,), source
    yield "f32 to f64", (lambda b, x: b.convert(x, Elem.F64)), (Elem.F32,), Elem.F64
    yield "f64 to f32", (lambda b, x: b.convert(x, Elem.F32)), (Elem.F64,), Elem.F32
    yield "i32 to i64", (lambda b, x: b.convert(x, Elem.I64)), (Elem.I32,), Elem.I64
    yield "i64 to i32", (lambda b, x: b.convert(x, Elem.I32)), (Elem.I64,), Elem.I32
    yield "i32 to u8", (lambda b, x: x), (Elem.I32,), Elem.U8
    yield "u8", (lambda b, x: x), (Elem.U8,), Elem.I32
    yield "bf16", (lambda b, x: x), (Elem.BF16,), Elem.F32
    for logic in (BinaryOp.AND, BinaryOp.OR, BinaryOp.XOR):

        def truths(b, x, y, op=logic):
            zero = b.const(Elem.I32, 0, x.lanes)
            return b.convert(b.binary(op, b.compare(CompareOp.LT, x, zero), b.compare(CompareOp.NE, y, zero)), Elem.I64)

        yield f"{logic} i1", truths, (Elem.I32, Elem.I32), Elem.I64
    yield "reverse", (lambda b, x: b.shuffle(x, x, tuple(reversed(range(x.lanes))))), (Elem.F64,), Elem.F64


OPERATIONS = {name: (function, sources, to) for name, function, sources, to in every_operation()}


def filled(rng, elem, size):
    """Every special number of the type and random patterns."""
    if elem in SPECIAL:
        special = SPECIAL[elem]
        return np.concatenate([special, rng.choice(special, size - len(special))])
    if elem is Elem.BF16:
        return rng.integers(0, 1 << 16, size).astype(np.uint16)
    low, high = {Elem.I32: (-(1 << 31), 1 << 31), Elem.I64: (-(1 << 63), (1 << 63) - 1), Elem.U8: (0, 256)}[elem]
    array = rng.integers(low, high, size).astype(DTYPES[elem])
    array[:8] = (0, 1, 127, 128, 255, 2, 3, 4) if elem is Elem.U8 else (0, 1, -1, 127, -128, 255, low, high - 1)
    return array


@pytest.mark.parametrize("lanes", LANES)
def test_every_operation_gives_the_interpreters_bits(lanes):
    """On special operands in all pairs of places, with a vector that is cut at the end."""
    rng = np.random.default_rng(lanes)
    size = 131
    for name, (function, sources, to) in OPERATIONS.items():
        kernel = mapped(function, sources, to, size, lanes)
        inputs = [filled(rng, elem, size) for elem in sources]
        expected = np.zeros(size, DTYPES[to])
        interpret(kernel, [*inputs, expected])
        for level in LEVELS.values():
            blob = compile_kernel(kernel, level)
            if level in RUNNABLE:
                output = np.zeros(size, DTYPES[to])
                run_blob(blob, kernel, [*inputs, output])
                assert same(output, expected), (name, level.name)


# --- constants -----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lanes", (1, 4))
@pytest.mark.parametrize("elem", (Elem.F32, Elem.F64, Elem.I32, Elem.I64))
def test_constants_keep_their_patterns(elem, lanes):
    """Those of signalling NaN too."""
    width = 8 * SIZES[elem]
    patterns = [*(F32_SPECIAL if width == 32 else F64_SPECIAL), 0, 1, 1 << (width - 1), (1 << width) - 1]
    b = Builder()
    output = b.buffer(elem, lanes * len(patterns), Access.OUT)
    for number, pattern in enumerate(patterns):
        b.store(output, b.at(base=lanes * number), b.bits(elem, pattern, lanes))
    array = np.zeros(lanes * len(patterns), DTYPES[elem])
    for level in RUNNABLE:
        run_kernel(b.kernel(), [array], level)
        assert bits(array).tolist() == [pattern for pattern in patterns for _ in range(lanes)]


def test_truth_constants():
    b = Builder()
    output = b.buffer(Elem.I32, 5, Access.OUT)
    b.store(output, b.at(), b.convert(b.const(Elem.BOOL, 1, 4), Elem.I32))
    b.store(output, b.at(base=4), b.convert(b.const(Elem.BOOL, 0), Elem.I32))
    array = np.full(5, 9, np.int32)
    run_kernel(b.kernel(), [array], X86_64)
    assert array.tolist() == [1, 1, 1, 1, 0]


# --- memory --------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", RUNNABLE, ids=lambda level: level.name)
@pytest.mark.parametrize("elem", MEMORY)
def test_every_lane_count_stride_and_count(elem, level):
    """Loads and stores touch the elements that they name and no other, at any alignment."""
    rng = np.random.default_rng(3)
    source = filled(rng, elem, 100)
    for lanes in (1, 3, 8, 16):
        for stride in (1, 2, -1, -3, 0) if lanes > 1 else (1,):
            for count in sorted({0, 1, lanes // 2, lanes - 1, lanes}):
                b = Builder()
                x, y = b.buffer(elem, 100), b.buffer(elem, 100, Access.OUT)
                near, far = 50, 50
                value = b.load(x, b.at(base=near), lanes, stride=stride, count=count)
                b.store(y, b.at(base=far), value, stride=stride or 1, count=count)
                whole = b.buffer(elem, lanes, Access.OUT)
                b.store(whole, b.at(), value)
                inside, outside = at_offset(source, 1), at_offset(np.zeros(100, source.dtype), 3)
                rest = at_offset(np.ones(lanes, source.dtype), 1)
                run_kernel(b.kernel(), [inside, outside, rest], level)
                taken = [near + i * stride for i in range(count)]
                expected = np.zeros(100, source.dtype)
                # In order, as a loop would: where lanes meet, the last one stays.
                for i, place in enumerate(taken):
                    expected[far + i * (stride or 1)] = source[place]
                assert np.array_equal(bits(outside), bits(expected)), (lanes, stride, count)
                assert np.array_equal(bits(rest)[:count], bits(source[taken])) and not bits(rest)[count:].any()


def test_masked_accesses_do_not_touch_a_forbidden_page():
    """The lanes beyond the count may lie where there is no memory."""
    pages = mmap.mmap(-1, 2 * mmap.PAGESIZE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    libc = ctypes.CDLL(None)
    assert libc.mprotect(ctypes.c_void_p(start + mmap.PAGESIZE), ctypes.c_size_t(mmap.PAGESIZE), 0) == 0
    for elem in MEMORY:
        size = SIZES[elem]
        array = np.frombuffer(pages, DTYPES[elem], 3, mmap.PAGESIZE - 3 * size)
        b = Builder()
        x, y = b.buffer(elem, 3), b.buffer(elem, 3, Access.OUT)
        b.store(y, b.at(), b.load(x, b.at(), 8, count=3), count=3)
        for level in RUNNABLE:
            run_kernel(b.kernel(), [array, array], level)
    assert libc.mprotect(ctypes.c_void_p(start + mmap.PAGESIZE), ctypes.c_size_t(mmap.PAGESIZE), 3) == 0


def test_indices_are_affine_forms_of_loops_and_values():
    """Outer variables, inner ones, a value that was loaded, constants, loops of one iteration."""
    b = Builder()
    places = b.buffer(Elem.I64, 3, bound=3)
    source, output = b.buffer(Elem.F64, 200), b.buffer(Elem.F64, 24, Access.OUT)
    with b.loop(3) as i:
        chosen = b.load(places, b.at((i, 1)))
        with b.loop(1) as one:
            with b.loop(4) as j:
                far = b.load(source, b.at((i, 7), (chosen, 20), (j, -3), (one, 99), base=40))
                b.store(output, b.at((j, 1), (i, 8)), far)
            near = b.load(source, b.at((chosen, 20), base=5), 4)
            b.store(output, b.at((i, 8), (one, 50), base=4), near)
    given, numbers = np.array([2, 0, 1]), np.arange(200.0)
    for level in RUNNABLE:
        array = np.zeros(24)
        run_kernel(b.kernel(), [given, numbers, array], level)
        expected = [
            value
            for i, chosen in enumerate(given)
            for value in (
                *(40 + 7 * i + 20 * chosen - 3 * j for j in range(4)),
                *(5 + 20 * chosen + j for j in range(4)),
            )
        ]
        assert array.tolist() == expected


# --- loops ---------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("extent", (0, 1, 2, 5))
def test_accumulators(extent):
    """Two that change places in every iteration, one of them stored inside, and both behind the loop."""
    b = Builder()
    output = b.buffer(Elem.I64, extent + 2, Access.OUT)
    zero, one = b.const(Elem.I64, 0), b.const(Elem.I64, 1)
    loop = b.loop(extent, [zero, one])
    with loop as i:
        first, second = loop.inside
        b.store(output, b.at((i, 1)), first)
        loop.next = [second, b.add(first, second)]
    b.store(output, b.at(base=extent), loop.after[0])
    b.store(output, b.at(base=extent + 1), loop.after[1])
    array = np.full(extent + 2, -1)
    run_kernel(b.kernel(), [array], X86_64)
    assert array.tolist() == [0, 1, 1, 2, 3, 5, 8][:extent] + [0, 1, 1, 2, 3, 5, 8][extent : extent + 2]


def test_loops_of_no_and_one_iteration_leave_no_branch():
    def text(extent):
        b = Builder()
        output = b.buffer(Elem.F64, 8, Access.OUT)
        with b.loop(extent) as i, b.loop(1) as j:
            b.store(output, b.at((i, 1), (j, 1)), b.const(Elem.F64, 1.0))
        return emit(b.kernel(), X86_64)

    assert [text(extent).count(" br ") for extent in (0, 1, 2)] == [0, 0, 2]


@pytest.mark.parametrize("workers", (1, 2, 3, 7, 20))
@pytest.mark.parametrize("extent", (0, 1, 2, 7, 64))
def test_workers_share_a_loop(extent, workers):
    """Each iteration is done once, those of a worker are neighbours, and no worker has two more than another."""
    b = Builder()
    output = b.buffer(Elem.I64, max(extent, 1), Access.OUT)
    with b.loop(extent, parallel=True, split=True) as i:
        b.store(output, b.at((i, 1)), b.add(i, b.const(Elem.I64, 1)))
    array = np.zeros(max(extent, 1), np.int64)
    run_kernel(b.kernel(), [array], X86_64, workers)
    assert array[:extent].tolist() == list(range(1, extent + 1))


def test_a_split_loop_that_carries_is_refused():
    carried = For(1, 3, (), (Carry(2, 0, 2, 3),), split=True)
    with pytest.raises(ValueError, match="carries nothing"):
        emit(Kernel((), (carried,)), X86_64)


def test_a_load_of_another_type_is_refused():
    load = Let(0, Type(Elem.F64), Load(0, Index(0)))
    with pytest.raises(ValueError, match="gives f32"):
        emit(Kernel((Buffer(Elem.BF16, 1, Access.IN),), (load,)), X86_64)


# --- rounding to integers and bf16 ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", RUNNABLE, ids=lambda level: level.name)
@pytest.mark.parametrize("elem", (Elem.F32, Elem.F64))
def test_rint_and_floor(elem, level):
    """Ties, numbers about the largest that has a fraction, signed zeros: as numpy rounds, and the sign is the operand's."""
    dtype = DTYPES[elem].type
    large = 2.0 ** (23 if elem is Elem.F32 else 52)
    steps = np.concatenate(
        [np.arange(-9, 9.25, 0.25), large + np.arange(-8, 9), 2 * large + np.arange(-8, 9, 2)]
    ).astype(dtype)
    values = np.concatenate([steps, -steps, np.nextafter(steps, dtype(np.inf)), np.nextafter(steps, -dtype(np.inf))])
    values = np.concatenate([values, values / dtype(2), SPECIAL[elem]])
    values = np.concatenate([values, np.zeros(-len(values) % 4, dtype)])
    with np.errstate(invalid="ignore"):
        wanted = (UnaryOp.RINT, np.rint(values)), (UnaryOp.FLOOR, np.floor(values))
    for op, expected in wanted:
        result = computed(lambda b, x, op=op: b.unary(op, x), [values], [elem], elem, 4, level)
        assert same(result, expected)
        assert not (np.signbit(result) & ~np.signbit(values) & ~np.isnan(values)).any()


@pytest.mark.parametrize("level", RUNNABLE, ids=lambda level: level.name)
@pytest.mark.parametrize("lanes", (1, 8))
def test_all_bf16_round_trip(lanes, level):
    """All 65,536 patterns, signalling NaN among them, through f32; and through f64 all but NaN, which arithmetic may change."""
    patterns = np.arange(1 << 16).astype(np.uint16)
    assert np.array_equal(computed(lambda b, x: x, [patterns], [Elem.BF16], Elem.BF16, lanes, level), patterns)
    through = computed(lambda b, x: b.convert(x, Elem.F64), [patterns], [Elem.BF16], Elem.BF16, lanes, level)
    number = (patterns & 0x7FFF) <= 0x7F80
    assert np.array_equal(through[number], patterns[number])
    assert ((through[~number] & 0x7FFF) > 0x7F80).all()


@pytest.mark.parametrize("level", RUNNABLE, ids=lambda level: level.name)
@pytest.mark.parametrize("elem", (Elem.F32, Elem.F64))
def test_bf16_is_rounded_once(elem, level):
    """About every midpoint between neighbours: at it, the next number of the format on both sides, and numbers that only the format
    itself tells from it; against rounding of the exact value by hand."""
    dtype = DTYPES[elem].type
    half = ((np.arange(0, 1 << 15, 7, dtype=np.uint32) << 16) | 0x8000).view(np.float32)
    half = half[np.isfinite(half)].astype(dtype)
    with np.errstate(over="ignore", under="ignore"):
        around = [half, np.nextafter(half, dtype(np.inf)), np.nextafter(half, dtype(0))]
        around += [half * dtype(1 + 2.0**-22), half * dtype(1 - 2.0**-20)]
        if elem is Elem.F64:
            around += [half * (1 + 2.0**-30), half * (1 - 2.0**-30), half * 2.0**-20, np.full(len(half), 5e-324)]
        values = np.concatenate([*around, *(-one for one in around)])
    values = np.concatenate([values, SPECIAL[elem]])
    values = np.concatenate([values, np.zeros(-len(values) % 8, dtype)])
    expected = [bf16_of(float(value)) for value in values]
    result = computed(lambda b, x: x, [values], [elem], Elem.BF16, 8, level)
    number = ~np.isnan(values)
    assert result[number].tolist() == np.array(expected, np.uint16)[number].tolist()
    assert ((result[~number] & 0x7FFF) > 0x7F80).all()


# --- the text ------------------------------------------------------------------------------------------------------------------------


def product(level, elem=Elem.F32, lanes=16):
    return mapped(lambda b, x, y, z: b.fma(x, b.sqrt(y), b.div(z, x)), (elem,) * 3, elem, 8 * lanes, lanes)


@pytest.mark.parametrize("level", LEVELS.values(), ids=lambda level: level.name)
def test_nothing_lets_llvm_change_a_bit(level):
    """No flag of fast arithmetic, no contraction, and no call but of what becomes instructions."""
    for function, sources, to in OPERATIONS.values():
        text = emit(mapped(function, sources, to, 40, 8), level)
        assert not re.search(r"\b(fast|nnan|ninf|nsz|arcp|contract|afn|reassoc|fmuladd)\b", text)
        called = set(re.findall(r"@(llvm\.[a-z0-9.]+?)(?:\.[vpfi][0-9a-z.]*)?\(", text))
        assert called <= {
            *("llvm.fabs", "llvm.sqrt", "llvm.copysign", "llvm.masked.load", "llvm.masked.store"),
            *("llvm.fma", "llvm.roundeven", "llvm.floor"),
            *("llvm.ctlz", "llvm.umax", "llvm.umin", "llvm.smax", "llvm.smin"),
        }
        if not level.target.fma:
            assert "llvm.fma" not in called
        if not level.rounding:
            assert not called & {"llvm.roundeven", "llvm.floor"}


def test_levels_use_their_registers_and_instructions():
    texts = {level.name: assembly(emit(product(level), level), level) for level in LEVELS.values()}
    assert "zmm" in texts[X86_64_V4.name] and "vfmadd" in texts[X86_64_V4.name]
    assert "ymm" in texts[X86_64_V3.name] and "zmm" not in texts[X86_64_V3.name] and "vfmadd" in texts[X86_64_V3.name]
    assert "ymm" not in texts[X86_64.name] and "fmadd" not in texts[X86_64.name]


def curved() -> Kernel:
    """A function of a vector of two registers: four chains of operations on f64, side by side."""
    return mapped(lambda b, x: apply(b, "tanh", [x]), (Elem.F32,), Elem.F32, 64, 16)


def summed() -> Kernel:
    """A sum of products."""
    b = Builder()
    x, y = b.buffer(Elem.F32, 64), b.buffer(Elem.F32, 8, Access.OUT)
    loop = b.loop(8, [b.const(Elem.F32, 0.0, 8)])
    with loop as k:
        value = b.load(x, b.at((k, 8)), 8)
        loop.next = [b.fma(value, value, loop.inside[0])]
    b.store(y, b.at(), loop.after[0])
    return b.kernel()


def test_instructions_keep_their_order_but_for_sums_of_products():
    """The chains stay side by side: a coefficient is fetched once, and used for all of them."""
    text = emit(curved(), X86_64_V3)
    assert WRITTEN in text and WRITTEN not in emit(summed(), X86_64_V3)
    used = [part.count("vfmadd213pd") for part in assembly(text, X86_64_V3).split("vbroadcastsd")]
    # Even and odd powers of the polynomial: four steps and four, with a coefficient for each.
    assert sum(count == 4 for count in used) >= 8
    assert assembly(text, X86_64_V3) != assembly(text.replace(WRITTEN, ""), X86_64_V3)


def test_an_object_does_not_depend_on_what_was_compiled_before():
    alone = [compile_kernel(kernel, X86_64_V3) for kernel in (curved(), summed())]
    assert [compile_kernel(kernel, X86_64_V3) for kernel in (summed(), curved())] == alone[::-1]


def test_masked_edges_are_masked_instructions():
    """Not one access per lane, where the level has better."""
    text = assembly(emit(mapped(lambda b, x: x, (Elem.F32,), Elem.F32, 13, 8), X86_64_V3), X86_64_V3)
    assert text.count("vmaskmovps") == 2


def test_addresses_are_computed_in_front_of_the_loops_that_do_not_change_them():
    b = Builder()
    x, y = b.buffer(Elem.F32, 1 << 16), b.buffer(Elem.F32, 1 << 16, Access.OUT)
    with b.loop(16) as i, b.loop(16) as j, b.loop(16) as k:
        for u in range(4):
            b.store(y, b.at((i, 4096), (j, 256), (k, 8), base=u), b.load(x, b.at((i, 4096), (j, 256), (k, 8), base=u)))
    text = emit(b.kernel(), X86_64)
    innermost = text[text.rindex("phi") :]
    # Two pointers move with k, and three further displacements hang on each.
    assert innermost.count("mul") == 1 and innermost.count("getelementptr") == 2 + 2 * 3


def test_text_grows_with_the_kernel():
    """A few lines per statement, and no line that grows."""

    def lines(count):
        b = Builder()
        x, y = b.buffer(Elem.F32, 8 * count), b.buffer(Elem.F32, 8 * count, Access.OUT)
        for i in range(count):
            b.store(y, b.at(base=8 * i), b.add(b.load(x, b.at(base=8 * i), 8), b.const(Elem.F32, 1.0, 8)))
        return emit(b.kernel(), X86_64_V3).splitlines()

    small, large = lines(100), lines(200)
    assert len(large) - len(small) == 5 * 100
    assert max(map(len, large)) < 200


def test_objects_are_reproducible():
    kernel = product(X86_64_V3)
    assert compile_kernel(kernel, X86_64_V3) == compile_kernel(kernel, X86_64_V3)
