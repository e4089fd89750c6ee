"""The scalar functions: against MPFR over all exponents and at hard cases, in both executors, at any number of lanes."""

import math
import struct
from collections.abc import Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from typing import Any, Final

import mpmath as mp  # type: ignore[import-untyped]
import numpy as np
import pytest
from numpy.typing import NDArray

import presk.kernels.math as math_functions
from presk.core.fusion import ELEMENTWISE
from presk.kernels.build import Builder
from presk.kernels.check import check
from presk.kernels.host import host_level
from presk.kernels.interpret import interpret
from presk.kernels.ir import Access, Elem, Kernel
from presk.kernels.llvm.blobs import compile_kernel
from presk.kernels.llvm.run import DTYPES, run_kernel
from presk.kernels.math import ELEMENTARY, SCALARS, apply, coefficients
from presk.kernels.math.mended import MENDED
from presk.kernels.targets import LEVELS, X86_64
from tests.tools import elementary, exhaustive
from tests.tools.coefficients import BITS, Fit, fits, polynomial, slope_of, tail, turning

FLOATS: Final = (Elem.F32, Elem.F64)
SPECIAL: Final = (0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0)

SPAN: Final = {
    "exp": (-746.0, 710.0),
    "tanh": (-20.0, 20.0),
    "sigmoid": (-746.0, 40.0),
    "log": (0.5, 2.0),
    "sin": (-100.0, 100.0),
    "cos": (-100.0, 100.0),
    "erf": (-6.0, 6.0),
    "gelu": (-39.0, 9.0),
    "gelu'": (-39.0, 9.0),
}
"""Where the function is neither its first term nor its limit."""

HARD: Final = {
    # glibc 2.36 is 102,825 units off; the binary64 number nearest to a multiple of π/2; and others that are near one.
    "sin": ("0x1.4c96c11134d36p+578", "0x1.6ac5b262ca1ffp+849", "0x1.921fb54442d18p+1", "0x1.fffffffffffffp+1023"),
    "cos": ("0x1.4c96c11134d36p+578", "0x1.6ac5b262ca1ffp+849", "0x1.921fb54442d18p+0", "0x1.fffffffffffffp+1023"),
    # Evaluations with 113 or 128 bits round these wrongly.
    "log": ("0x1.b7f71a488641ap+340", "0x1.be87838f1a47cp+774", "0x1.613955dc802f8p-35", "0x1.0000000000001p+0"),
    "tanh": ("0x1.e0000000000e1p-22", "0x1.0000000000001p-1022"),
    # The last before overflow and the first behind it, the least normal value, the least of all and the first zero.
    "exp": (
        *("0x1.62e42fefa39efp+9", "0x1.62e42fefa39f0p+9", "-0x1.6232bdd7abcd2p+9", "-0x1.74385446d71c3p+9"),
        *("-0x1.74910d52d3051p+9", "-0x1.74910d52d3052p+9"),
    ),
    "sigmoid": ("-0x1.6232bdd7abcd2p+9", "-0x1.74385446d71c3p+9", "-0x1.74910d52d3051p+9"),
    # Next to the zero of the derivative.
    "gelu'": ("-0x1.80ead197f00b4p-1", "-0x1.80ead197f00b5p-1", "-0x1.80ead197f00b3p-1", "-0x1.80ead2p-1"),
    "gelu": ("-0x1.2d0329868fa25p+5", "-0x1.33p+5"),
    "erf": ("0x1.6666666666666p-1", "0x1.6666666666667p-1"),
}


def value_kernel(name: str, elem: Elem, size: int, lanes: int) -> Kernel:
    """The function on an array."""
    return exhaustive.value_kernel(name, elem, size, lanes)


def pattern(x: float, elem: Elem) -> int:
    """The bits of a number of a type."""
    form, whole = ("<f", "<I") if elem is Elem.F32 else ("<d", "<Q")
    return int(struct.unpack(whole, struct.pack(form, x))[0])


@cache
def samples(name: str, elem: Elem) -> NDArray[Any]:
    """Every exponent of the type with both signs, the span, the special and the hard ones."""
    random = np.random.default_rng(7)
    low, high, step = (-149, 128, 1) if elem is Elem.F32 else (-1074, 1024, 5)
    exponents = np.arange(low, high, step)
    scaled = np.ldexp(random.uniform(1, 2, exponents.size), exponents)
    # MPFR's erfc takes 10 ms in the tail.
    span = random.uniform(*SPAN[name], 80 if name.startswith("gelu") else 500)
    hard = [float.fromhex(x) for x in HARD.get(name, ())] if elem is Elem.F64 else []
    inner = random.uniform(-4, 4, 300)
    # The largest binary64 numbers would round to infinities of binary32, which are there anyway.
    every = np.concatenate([scaled, -scaled, span, inner, -np.array(hard), np.array(hard), SPECIAL])
    if elem is Elem.F32:
        every = np.clip(every, -3.4e38, 3.4e38, where=np.isfinite(every), out=every)
    if name == "log":
        every = np.where(np.arange(every.size) % 16 == 0, every, np.abs(every))
    return every.astype(DTYPES[elem])


@cache
def native(name: str, elem: Elem) -> NDArray[Any]:
    """The values at the samples."""
    return exhaustive.values(name, elem, samples(name, elem))


# --- Against MPFR ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ELEMENTARY)
def test_f32_is_correctly_rounded(name):
    wrong = exhaustive.failures(name, samples(name, Elem.F32))
    assert [(x.hex(), y, right) for x, y, right in wrong] == []


@pytest.mark.parametrize("name", ELEMENTARY)
def test_f64_is_within_one_unit_in_the_last_place(name):
    far = {}
    for x, y in zip(samples(name, Elem.F64).tolist(), native(name, Elem.F64).tolist(), strict=True):
        right = elementary.rounded(name, x, Elem.F64)
        if math.isnan(right) or math.isinf(right):
            if not (math.isnan(right) and math.isnan(y)) and right != y:
                far[x.hex()] = (y, right)
        elif x == 0 or math.isinf(x):
            if pattern(y, Elem.F64) != pattern(right, Elem.F64):
                far[x.hex()] = (y, right)
        elif not elementary.ulps(name, x, y) <= 1:
            far[x.hex()] = (y, right)
    assert far == {}


@pytest.mark.parametrize("name, x", [("sigmoid", -89.0), ("sigmoid", -103.0), ("exp", -89.5), ("exp", -103.75)])
def test_tails_below_the_normal_numbers_are_kept(name, x):
    """Against decimal arithmetic: e^x in units of the least number of f32, which e^x/(1 + e^x) differs from by much less."""
    with localcontext() as context:
        context.prec = 80
        units = (Decimal(x).exp() * 2**149).to_integral_value()
    expected = math.ldexp(int(units), -149)
    assert expected > 0
    assert exhaustive.values(name, Elem.F32, np.array([x], np.float32)).tolist() == [expected]


@pytest.mark.parametrize("units, value", [(1, 1), (-1, -0.0), (3, 2), (-3, -1), (2, 1), (-2, -1), (5, 3)])
def test_gelu_of_the_least_numbers(units, value):
    """x/2 + 0.4·x²: a little above half of x, which is a tie where x is an odd number of units."""
    (result,) = exhaustive.values("gelu", Elem.F32, np.array([units * 2.0**-149], np.float32)).tolist()
    assert _shown(result) == _shown(value * 2.0**-149)
    assert _shown(elementary.rounded("gelu", units * 2.0**-149, Elem.F32)) == _shown(result)


@pytest.mark.parametrize("elem", FLOATS)
@pytest.mark.parametrize(
    "name, values",
    [
        # At +0, −0, ∞, −∞, 1, and one half for good measure where that is exact.
        ("exp", (1.0, 1.0, math.inf, 0.0)),
        ("tanh", (0.0, -0.0, 1.0, -1.0)),
        ("sigmoid", (0.5, 0.5, 1.0, 0.0)),
        ("log", (-math.inf, -math.inf, math.inf, math.nan)),
        ("sin", (0.0, -0.0, math.nan, math.nan)),
        ("cos", (1.0, 1.0, math.nan, math.nan)),
        ("erf", (0.0, -0.0, 1.0, -1.0)),
        ("gelu", (0.0, -0.0, math.inf, -0.0)),
        ("gelu'", (0.5, 0.5, 1.0, -0.0)),
        ("sqrt", (0.0, -0.0, math.inf, math.nan)),
        ("neg", (-0.0, 0.0, -math.inf, math.inf)),
        ("abs", (0.0, 0.0, math.inf, math.inf)),
        ("relu", (0.0, 0.0, math.inf, 0.0)),
        ("sign", (0.0, 0.0, 1.0, -1.0)),
        ("heaviside", (0.0, 0.0, 1.0, 0.0)),
    ],
)
def test_zeros_infinities_and_nan(name, values, elem):
    arguments = np.array([0.0, -0.0, math.inf, -math.inf, math.nan, -math.nan], DTYPES[elem])
    # NaN with a payload in the low bits only, which an integer operation might take for a number.
    arguments = np.concatenate([arguments, _odd_nan(elem)])
    results = exhaustive.values(name, elem, arguments, 4).tolist()
    assert list(map(_shown, results[:4])) == list(map(_shown, values))
    assert all(map(math.isnan, results[4:]))


def _odd_nan(elem: Elem) -> NDArray[Any]:
    if elem is Elem.F32:
        return np.array([0x7FC00001, 0xFFFFFFFF], np.uint32).view(np.float32)
    return np.array([0x7FF8000000000001, 0xFFFFFFFFFFFFFFFF, 0x7FF80000000007FF], np.uint64).view(np.float64)


def _shown(x: float) -> str:
    return repr(x)


# --- Executors and lanes -----------------------------------------------------------------------------------------------------------


def same(one: NDArray[Any], other: NDArray[Any]) -> bool:
    """Equal bits, NaN for NaN."""
    nan = np.isnan(one)
    kind = np.uint32 if one.dtype == np.float32 else np.uint64
    return bool((nan == np.isnan(other)).all() and (one.view(kind) == other.view(kind))[~nan].all())


@pytest.mark.parametrize("elem", FLOATS)
@pytest.mark.parametrize("name", ELEMENTARY)
def test_the_number_of_lanes_changes_no_bit(name, elem):
    arguments = samples(name, elem)[-336:]
    results = [exhaustive.values(name, elem, arguments, lanes) for lanes in (1, 2, 16)]
    assert all(same(native(name, elem)[-336:], one) for one in results)


@pytest.mark.parametrize("elem", FLOATS)
@pytest.mark.parametrize("name", ELEMENTARY)
def test_the_interpreter_and_the_lowest_level_give_the_bits_of_the_highest(name, elem):
    arguments = np.concatenate([samples(name, elem)[::40], samples(name, elem)[-15:]])
    arguments = arguments[: arguments.size // 2 * 2]
    kernel = value_kernel(name, elem, arguments.size, 2)
    check(kernel)
    results = []
    for level in (host_level(), X86_64):
        results.append(np.zeros_like(arguments))
        run_kernel(kernel, [arguments, results[-1]], level)
    proof = np.zeros_like(arguments)
    interpret(kernel, [arguments, proof])
    assert same(proof, results[0])
    assert same(proof, results[1])


@pytest.mark.parametrize("elem", FLOATS)
def test_the_functions_need_nothing_outside_at_any_level(elem):
    """No call of a mathematical library: an object that refers to anything is refused."""
    for name in ELEMENTARY:
        for level in LEVELS.values():
            assert compile_kernel(value_kernel(name, elem, 64, level.target.bytes // 4), level).code


# --- What is one operation or a few ------------------------------------------------------------------------------------------------


def binary(name: str, elem: Elem, xs: Sequence[float], ys: Sequence[float]) -> list[float]:
    """A function of two numbers of a type."""
    size = len(xs)
    b = Builder()
    left, right = b.buffer(elem, size), b.buffer(elem, size)
    target = b.buffer(elem, size, Access.OUT)
    with b.loop(size) as i:
        b.store(target, b.at((i, 1)), apply(b, name, [b.load(left, b.at((i, 1))), b.load(right, b.at((i, 1)))]))
    kernel = b.kernel()
    check(kernel)
    arrays: list[NDArray[Any]] = [np.array(xs, DTYPES[elem]), np.array(ys, DTYPES[elem]), np.zeros(size, DTYPES[elem])]
    run_kernel(kernel, arrays, host_level())
    proof = [*arrays[:2], np.zeros(size, DTYPES[elem])]
    interpret(kernel, proof)
    assert same(proof[2], arrays[2])
    return [float(x) for x in arrays[2].tolist()]


@pytest.mark.parametrize("elem", FLOATS)
def test_maximum_and_minimum_give_the_second_at_a_tie_and_any_nan(elem):
    xs = [1.0, 2.0, 0.0, -0.0, math.nan, 1.0, math.inf, -math.inf]
    ys = [2.0, 1.0, -0.0, 0.0, 1.0, math.nan, 1.0, 1.0]
    assert list(map(_shown, binary("max", elem, xs, ys))) == ["2.0", "2.0", "-0.0", "0.0", "nan", "nan", "inf", "1.0"]
    assert list(map(_shown, binary("min", elem, xs, ys))) == ["1.0", "1.0", "-0.0", "0.0", "nan", "nan", "1.0", "-inf"]


@pytest.mark.parametrize("name, operation", [("add", np.add), ("sub", np.subtract), ("mul", np.multiply)])
@pytest.mark.parametrize("elem", FLOATS)
def test_arithmetic_is_that_of_the_type(name, operation, elem):
    xs, ys = [0.1, 1e30, 3.0, 1e-40], [0.2, 1.0, 7.0, -1e-41]
    kind = DTYPES[elem]
    assert binary(name, elem, xs, ys) == operation(np.array(xs, kind), np.array(ys, kind)).tolist()


def power(elem: Elem, xs: Sequence[float], n: int) -> list[float]:
    """`pow n` of numbers of a type."""
    b = Builder()
    source, target = b.buffer(elem, len(xs)), b.buffer(elem, len(xs), Access.OUT)
    with b.loop(len(xs)) as i:
        b.store(target, b.at((i, 1)), apply(b, "pow", [b.load(source, b.at((i, 1)))], n))
    arrays: list[NDArray[Any]] = [np.array(xs, DTYPES[elem]), np.zeros(len(xs), DTYPES[elem])]
    run_kernel(b.kernel(), arrays, host_level())
    return [float(x) for x in arrays[1].tolist()]


@pytest.mark.parametrize("elem", FLOATS)
def test_a_power_is_products_from_the_left(elem):
    kind = DTYPES[elem]
    xs = [0.1, -1.7, 3.0]
    x = np.array(xs, kind)
    assert power(elem, xs, 1) == x.tolist()
    assert power(elem, xs, 2) == (x * x).tolist()
    assert power(elem, xs, 5) == ((((x * x) * x) * x) * x).tolist()
    assert power(elem, [0.0, math.inf, 2.0], 0) == [1.0, 1.0, 1.0]
    assert math.isnan(power(elem, [math.nan], 0)[0])
    with pytest.raises(ValueError):
        apply(Builder(), "pow", [Builder().const(elem, 1.0)])


@pytest.mark.parametrize("elem", FLOATS)
@pytest.mark.parametrize("n", [0, 1, 2, 3, 10, 1000, 123_457, (1 << 63) - 1])
def test_a_power_by_a_value_squares_and_multiplies(elem, n):
    xs = [0.999, -1.0, 1.0, 0.0, -0.5, math.inf]
    b = Builder()
    source, exponent = b.buffer(elem, len(xs)), b.buffer(Elem.I64, 1)
    target = b.buffer(elem, len(xs), Access.OUT)
    count = b.load(exponent, b.at())
    b.store(target, b.at(), apply(b, "powv", [b.load(source, b.at(), len(xs)), count]))
    kernel = b.kernel()
    check(kernel)
    x = np.array(xs, DTYPES[elem])
    results: list[NDArray[Any]] = [np.zeros_like(x), np.zeros_like(x)]
    interpret(kernel, [x, np.array([n]), results[0]])
    run_kernel(kernel, [x, np.array([n]), results[1]], host_level())
    assert same(*results)
    got = results[1].tolist()
    sign = -1.0 if n % 2 else 1.0
    assert got[1:4] == [sign, 1.0, 0.0 if n else 1.0]
    assert got[5] == (math.inf if n else 1.0)
    if n <= 1000:
        exact = Fraction(float(x[0])) ** n
        bound = Fraction(1, 2**24) if elem is Elem.F32 else Fraction(2 * n, 2**53)
        assert abs(Fraction(got[0]) - exact) <= exact * bound
        # A power of two is exact, down to the least number.
        assert got[4] == float(DTYPES[elem].type(math.ldexp(sign, -n)))


# --- The tables --------------------------------------------------------------------------------------------------------------------


def test_every_elementwise_primitive_has_a_function():
    assert set(ELEMENTWISE) | {"powv", "erf"} == set(SCALARS)


@pytest.mark.parametrize("name", MENDED)
def test_what_is_mended_is_right_and_was_wrong(name, monkeypatch):
    arguments = np.array([argument for argument, _ in MENDED[name]], np.uint32).view(np.float32)
    assert exhaustive.failures(name, arguments) == []
    right = [pattern(elementary.rounded(name, x, Elem.F32), Elem.F32) for x in arguments.tolist()]
    assert right == [value for _, value in MENDED[name]]
    monkeypatch.setattr(math_functions, "MENDED", {})
    assert [x for x, _, _ in exhaustive.failures(name, arguments)] == arguments.tolist()


@pytest.mark.parametrize("fit", fits(), ids=lambda fit: fit.name)
def test_the_polynomials_approximate_what_they_are_said_to(fit: Fit):
    """At other points than those of the fit, with the weight that makes an error relative to the function."""
    stored = getattr(coefficients, fit.name)
    pairs = [one if isinstance(one, tuple) else (one,) for one in stored]
    if fit.pairs == 1:
        pairs[0] = (*pairs[0], getattr(coefficients, f"{fit.name}_LOW"))
    with mp.workprec(BITS):
        points = [fit.low + (fit.high - fit.low) * mp.mpf(place) / 97 for place in range(1, 98)]
        error = max(abs((polynomial(pairs, x) - fit.function(x)) * fit.weight(x)) for x in points)
        assert error < mp.mpf(2) ** (-60 if fit.name.endswith("64") else -55)


@pytest.mark.parametrize("name, function", [("TAIL_32", tail), ("SLOPE_32", None)])
def test_the_quotients_approximate_what_they_are_said_to(name, function):
    above, below = getattr(coefficients, name), getattr(coefficients, f"{name}_BELOW")
    assert min(*above, *below) > 0
    with mp.workprec(BITS):
        exact = function or slope_of(turning())
        for place in range(98):
            a = mp.mpf(15) * place / 97
            value = polynomial([(c,) for c in above], a) / polynomial([(c,) for c in below], a)
            assert abs(value / exact(a) - 1) < mp.mpf(2) ** -54


@pytest.mark.parametrize("name", ["exp", "gelu", "sin", "log"])
@pytest.mark.parametrize("start", [0x3F000000, 0x00000000, 0xC1500000])
def test_the_exhaustive_scan_marks_what_is_wrong_and_little_else(name, start):
    """The kernel that scans, over one block: few are left open, and all of them are right."""
    part = exhaustive.part_of(name, start)
    arrays: list[NDArray[Any]] = [
        np.array([start], np.uint32).view(np.int32),
        np.arange(exhaustive.LANES, dtype=np.int32),
        np.zeros(exhaustive.BLOCK, np.int32),
    ]
    run_kernel(exhaustive.scan_kernel(name, part), arrays, host_level())
    marked = np.flatnonzero(arrays[2]).astype(np.uint32) + np.uint32(start)
    assert marked.size <= 2
    assert exhaustive.failures(name, marked.view(np.float32)) == []
