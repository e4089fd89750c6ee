"""Draws in kernels: the vectors of RFC 8439, and to the bit what `presk.exact` draws."""

import math

import gmpy2
import numpy as np
import pytest
from gmpy2 import mpq
from hypothesis import given, settings
from hypothesis import strategies as st

from presk.exact import binary64, draws
from presk.kernels.build import Builder
from presk.kernels.check import check
from presk.kernels.interpret import interpret
from presk.kernels.ir import Access, Elem, Kernel
from presk.kernels.llvm.blobs import compile_kernel
from presk.kernels.llvm.run import run_blob
from presk.kernels.nest import F32, F64, Kind, Operand
from presk.kernels.nests import chacha
from presk.kernels.nests.doubled import Doubled
from presk.prims.attrs import Length, Word
from presk.types.dim import constant
from tests.kernels.nestrun import ARITHS, HOST, LANES, encode, everywhere, launched, operand, run, same, use_of

KEY = Operand(Kind.KEY, Elem.I32, (), ())
SEED = draws.master_key(20260731)
SIZES = (0, 1, 3, 4, 5, 8, 31, 33, 40, 70)


def words(key: bytes) -> np.ndarray:
    return np.frombuffer(key, dtype="<i4").astype(np.int32)


# --- the key stream ----------------------------------------------------------------------------------------------------------------


def blocks(lanes: int, counter: int, nonce: bytes) -> Kernel:
    """The words of `lanes` blocks from a counter on, word by word."""
    b = Builder()
    key = b.buffer(Elem.I32, 8)
    out = b.buffer(Elem.I32, 16 * lanes, Access.OUT)
    numbers = b.const(Elem.I32, counter, lanes)
    for lane in range(1, lanes):
        # Lane by lane, without the counting that nests use.
        one = b.const(Elem.I32, counter + lane, lanes)
        numbers = b.shuffle(numbers, one, [*range(lane), *range(lanes + lane, 2 * lanes)])
    for place, word in enumerate(chacha.block(b, key, numbers, nonce)):
        b.store(out, b.at(base=place * lanes), word)
    return b.kernel()


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("lanes", LANES)
def test_the_block_of_rfc_8439(lanes: int, native: bool) -> None:
    """Section 2.3.2: the test vector of the ChaCha20 block function, here as the lane of counter 1."""
    key = bytes(range(32))
    nonce = bytes.fromhex("000000090000004a00000000")
    expected = bytes.fromhex(
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
        "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e"
    )
    kernel = blocks(lanes, 1, nonce)
    check(kernel)
    out = np.zeros(16 * lanes, dtype=np.int32)
    arrays = [words(key), out]
    if native:
        run_blob(compile_kernel(kernel, HOST), kernel, arrays)
    else:
        interpret(kernel, arrays)
    assert out.reshape(16, lanes)[:, 0].tobytes() == expected


@pytest.mark.parametrize("count", [0, 1, 2, 7, 8, 9, 20])
def test_split_key(count: int) -> None:
    result = Operand(Kind.KEY, Elem.I32, (count,), (None,))
    launch = launched("split_key", use_of([KEY], result, F64, {"n": Length(constant(count))}))
    assert everywhere(launch.nest, [words(SEED)]).tobytes() == b"".join(draws.split_key(SEED, count))


# --- normal draws ------------------------------------------------------------------------------------------------------------------


def applied(name: str, x: np.ndarray, native: bool) -> np.ndarray:
    """A function at every element of an array whose length four divides."""
    b = Builder()
    source = b.buffer(Elem.F64, len(x))
    out = b.buffer(Elem.F64, len(x), Access.OUT)
    tools = Doubled(b, 4)
    with b.loop(len(x) // 4, parallel=True) as i:
        value = b.load(source, b.at((i, 4)), 4)
        b.store(out, b.at((i, 4)), tools.log(value) if name == "log" else tools.cos(value))
    kernel = b.kernel()
    result = np.zeros(len(x))
    if native:
        run_blob(compile_kernel(kernel, HOST), kernel, [x, result])
    else:
        interpret(kernel, [x, result])
    return result


def complements(numbers: list[int]) -> np.ndarray:
    """1 − k · 2⁻⁵³, as many of them as four divides."""
    padded = numbers + [0] * (-len(numbers) % 4)
    return np.array([float(gmpy2.mpfr(1 - mpq(k, 1 << 53), 53)) for k in padded])


def test_logarithms_are_correctly_rounded_near_one() -> None:
    """−t − t²/2 − t³/3: where t² / 2 ends half-way between two doubles, the third term decides."""
    small = list(range(1 << 12))
    ties = [b << (b.bit_length() + e) for b in range(1, 200, 2) for e in (-1, 0, 1)]
    powers = [(1 << j) + d for j in range(12, 53) for d in (-3, -1, 0, 1, 2)]
    x = complements(small + ties + powers)
    assert np.array_equal(applied("log", x, native=True), binary64.log(x))
    some = complements([0, 1, 2, 3, 8, 12, 40, (1 << 52) + 1])
    assert np.array_equal(applied("log", some, native=False), binary64.log(some))


def test_logarithms_are_correctly_rounded_elsewhere() -> None:
    edges = [2.0**-53, 3 * 2.0**-53, 0.5, math.sqrt(0.5), 0.25, 0.75]
    edges += [1 - 2.0**-12 + d * 2.0**-53 for d in range(-8, 8)]
    edges += [float(np.nextafter(one, 0)) for one in edges]
    x = np.array([one for one in edges if one <= 1] + [1.0] * (-len(edges) % 4))
    assert np.array_equal(applied("log", x, native=True), binary64.log(x))
    rng = np.random.default_rng(1)
    x = rng.integers(1, 1 << 53, size=40000).astype(np.float64) * 2.0**-53
    x = np.concatenate([x, x[:4000] * 2.0 ** -rng.integers(0, 20, size=4000)])
    x = np.maximum(x, 2.0**-53)
    assert np.array_equal(applied("log", x, native=True), binary64.log(x))


def test_cosines_are_correctly_rounded() -> None:
    turn = 2.0 * math.pi
    quarters = [turn * (q / 8) for q in range(9)]
    edges = [one for q in quarters for one in (q, float(np.nextafter(q, 0)), float(np.nextafter(q, 10)))]
    edges += [turn * (k * 2.0**-53) for k in (0, 1, 2, 3, (1 << 53) - 1)]
    edges += [turn * ((q << 51) + d) * 2.0**-53 for q in (1, 3) for d in (-2, -1, 0, 1, 2)]
    x = np.array([one for one in edges if one <= turn])
    x = np.concatenate([x, np.zeros(-len(x) % 4)])
    assert np.array_equal(applied("cos", x, native=True), binary64.cos(x))
    assert np.array_equal(applied("cos", x[:12], native=False), binary64.cos(x[:12]))
    x = turn * np.random.default_rng(2).random(40000)
    assert np.array_equal(applied("cos", x, native=True), binary64.cos(x))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, (1 << 53) - 1), st.integers(0, (1 << 53) - 1))
def test_functions_in_the_interpreter(u: int, v: int) -> None:
    x = complements([u] * 4)
    assert np.array_equal(applied("log", x, native=False), binary64.log(x))
    y = (2.0 * math.pi) * (np.full(4, float(v)) * 2.0**-53)
    assert np.array_equal(applied("cos", y, native=False), binary64.cos(y))


@pytest.mark.parametrize("size", SIZES)
def test_normal(size: int) -> None:
    expected = draws.scaled_normals(SEED, size, mpq("0.02"))
    for arith in ARITHS:
        result = operand(expected, arith.storage)
        launch = launched("normal", use_of([KEY], result, arith, {"std": Word("0.02")}))
        same(run(launch.nest, [words(SEED)], native=True), encode(expected, arith.storage))
        if arith is F64 and size < 9:
            same(everywhere(launch.nest, [words(SEED)], lanes=(4,)), expected)


def test_many_normals() -> None:
    """Their first are what fewer of them are."""
    expected = draws.scaled_normals(SEED, 20001, mpq(1))
    launch = launched("normal", use_of([KEY], operand(expected), F64, {"std": Word("1")}))
    same(run(launch.nest, [words(SEED)], native=True), expected)
    same(run(launch.nest, [words(SEED)], native=True, workers=3, lanes=8), expected)


# --- other draws -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (0, 3), (5,), (3, 7), (2, 1, 9)])
def test_xavier_uniform(shape) -> None:
    fans = (shape[0], shape[-1]) if shape else (1, 1)
    expected = draws.xavier_uniform(SEED, math.prod(shape), *fans).reshape(shape)
    for arith in ARITHS:
        launch = launched("xavier_uniform", use_of([KEY], operand(expected, arith.storage), arith))
        same(everywhere(launch.nest, [words(SEED)], lanes=(4,)), encode(expected, arith.storage))


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5, 0.999, 2.0**-53])
def test_dropout_masks(rate: float) -> None:
    size = 150
    below = draws.below(SEED, size, mpq(rate))
    for arith in ARITHS:
        result = operand(np.zeros(size), arith.storage)
        scalar = Operand(Kind.HYPER, Elem.F64, (), ())
        launch = launched("dropout_mask", use_of([scalar, KEY, result], result, arith))
        assert launch.inputs == (1, 0)
        expected = encode(np.where(below, 0.0, 1 / (1 - rate)), arith.storage)
        same(run(launch.nest, [words(SEED), np.array([rate])], native=True), expected)
        same(run(launch.nest, [words(SEED), np.array([rate])], lanes=4), expected)


@pytest.mark.parametrize(("rows", "size"), [(0, 5), (1, 1), (3, 4), (8, 7), (11, 17)])
def test_sample(rows: int, size: int) -> None:
    for arith in (F64, F32):
        logits = np.random.default_rng(rows).normal(size=(rows, size)) * 2
        given_ = encode(logits, arith.storage)
        seen = given_.astype(np.float64).reshape(rows, size)
        result = Operand(Kind.INDEX, Elem.I32, (rows,), (None,), size)
        launch = launched("sample", use_of([KEY, operand(logits, arith.storage)], result, arith))
        found = everywhere(launch.nest, [words(SEED), given_], lanes=(4,))
        expected = []
        for row, draw in zip(seen, draws.draws(SEED, rows).tolist()):
            weights = [mpq(gmpy2.mpfr(gmpy2.context(precision=200).exp(gmpy2.mpfr(float(x))))) for x in row]
            total, limit = mpq(0), mpq(draw, 1 << 53) * sum(weights)
            for place, weight in enumerate(weights):
                total += weight
                if total > limit:
                    expected.append(place)
                    break
        assert found.tolist() == expected


def test_a_sample_is_a_place_whatever_the_logits() -> None:
    logits = np.array([[math.nan] * 3, [-math.inf] * 3, [math.inf, 0.0, 0.0], [0.0, -math.inf, -math.inf]])
    result = Operand(Kind.INDEX, Elem.I32, (4,), (None,), 3)
    launch = launched("sample", use_of([KEY, operand(logits)], result))
    found = everywhere(launch.nest, [words(SEED), logits.reshape(-1)])
    assert ((0 <= found) & (found < 3)).all() and found[3] == 0
