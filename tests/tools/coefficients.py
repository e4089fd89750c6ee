"""Computes kernels/math/coefficients.py: run alone it rewrites the file, with `--check` it compares.

Method: a weighted least-squares fit at Chebyshev points, in 180 bits, which comes within a small factor of the minimax
polynomial. Coefficients are then rounded one after the other from the lowest, each time fitting the rest anew to what
the rounded ones leave, so that later ones make up for the rounding of earlier ones. The error that is stated beside
each polynomial is the largest weighted error of the rounded polynomial on 2,000 equidistant points, as a power of two.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import mpmath as mp  # type: ignore[import-untyped]

TARGET: Final = Path(__file__).resolve().parents[2] / "kernels" / "math" / "coefficients.py"
BITS: Final = 180
POINTS: Final = 2000
WORDS: Final = 20
CENTRE: Final = 6
Function = Callable[[Any], Any]

HEAD: Final = '''"""Polynomials and constants of the elementary functions, as exact binary64 numbers.

Written by tests/tools/coefficients.py (`--check` compares), which states the method. Beside each polynomial stand what it
approximates, where, and the largest error relative to the function that is computed from it, rounding of coefficients included
and rounding of the evaluation not.
"""

from typing import Final
'''


@dataclass(frozen=True, slots=True)
class Fit:
    """A polynomial: what it approximates as text, the function, the weight of its error, the interval, the degree, and how many
    of the lowest coefficients are pairs."""

    name: str
    text: str
    function: Function
    weight: Function
    low: Any
    high: Any
    degree: int
    pairs: int = 0


def solve(function: Function, weight: Function, low: Any, high: Any, powers: Sequence[int]) -> list[Any]:
    """The least-squares coefficients of some powers."""
    count = 2 * len(powers) + 12
    matrix, right = mp.matrix(count, len(powers)), mp.matrix(count, 1)
    for row in range(count):
        x = (low + high) / 2 + (high - low) / 2 * mp.cos(mp.pi * (2 * row + 1) / (2 * count))
        w = weight(x)
        for column, power in enumerate(powers):
            matrix[row, column] = w * x**power
        right[row] = w * function(x)
    return list(mp.qr_solve(matrix, right)[0])


def rounded(fit: Fit) -> list[tuple[float, ...]]:
    """The coefficients, those of the pairs as (high, low)."""
    fixed: list[tuple[float, ...]] = []

    memo: dict[Any, Any] = {}

    def known(x: Any) -> Any:
        if x not in memo:
            memo[x] = fit.function(x)
        return memo[x] - polynomial(fixed, x)

    for power in range(fit.degree + 1):
        best = solve(known, fit.weight, fit.low, fit.high, range(power, fit.degree + 1))[0]
        high = float(best)
        fixed.append((high, float(best - mp.mpf(high))) if power < fit.pairs else (high,))
    return fixed


def quotient(function: Function, high: Any, degrees: tuple[int, int]) -> tuple[list[float], list[float], float]:
    """A quotient of polynomials on [0, high], rounded, the denominator beginning with 1; and log₂ of its relative error.

    The equation P(x) − f(x)·Q(x) = 0 is solved by least squares at points that crowd where t(x) is a Chebyshev point, again and again
    with the weight 1/(f·Q) of the last Q (Sanathanan and Koerner).
    """
    top, bottom = degrees
    count = 4 * (top + bottom)
    least, most = mp.mpf(-1), place(high)
    points = []
    for row in range(count):
        points.append(at((least + most) / 2 + (most - least) / 2 * mp.cos(mp.pi * (2 * row + 1) / (2 * count))))
    values = [function(x) for x in points]
    weights = [1 / value for value in values]
    numerator: list[Any] = []
    denominator: list[Any] = []
    for _ in range(6):
        matrix, right = mp.matrix(count, top + 1 + bottom), mp.matrix(count, 1)
        for row, (x, value, weight) in enumerate(zip(points, values, weights, strict=True)):
            for power in range(top + 1):
                matrix[row, power] = weight * x**power
            for power in range(1, bottom + 1):
                matrix[row, top + power] = -weight * value * x**power
            right[row] = weight * value
        found = list(mp.qr_solve(matrix, right)[0])
        numerator, denominator = found[: top + 1], [mp.mpf(1), *found[top + 1 :]]
        weights = [1 / (value * mp.polyval(denominator[::-1], x)) for x, value in zip(points, values, strict=True)]
    above, below = [float(x) for x in numerator], [float(x) for x in denominator]
    largest = mp.mpf(0)
    for step in range(POINTS + 1):
        x = high * mp.mpf(step) / POINTS
        ratio = polynomial([(c,) for c in above], x) / polynomial([(c,) for c in below], x)
        largest = max(largest, abs(ratio / function(x) - 1))
    return above, below, float(mp.log(largest, 2))


def polynomial(coefficients: Sequence[tuple[float, ...]], x: Any) -> Any:
    """Its value."""
    value = mp.mpf(0)
    for parts in reversed(coefficients):
        value = value * x + sum(map(mp.mpf, parts))
    return value


def error(fit: Fit, coefficients: Sequence[tuple[float, ...]]) -> float:
    """log₂ of the largest weighted error."""
    largest = mp.mpf(0)
    for place in range(POINTS + 1):
        x = fit.low + (fit.high - fit.low) * place / POINTS
        largest = max(largest, abs((polynomial(coefficients, x) - fit.function(x)) * fit.weight(x)))
    return float(mp.log(largest, 2))


# --- The functions -----------------------------------------------------------------------------------------------------------------


def series(function: Function, taylor: Callable[[int], Any], x: Any) -> Any:
    """The function, but near 0, where its formula cancels, its Taylor series."""
    if abs(x) > mp.mpf(2) ** -12:
        return function(x)
    return sum(taylor(n) * x**n for n in range(16))


def exp_rest(r: Any) -> Any:
    """(e^r − 1 − r) / r²."""
    return series(lambda x: (mp.exp(x) - 1 - x) / x**2, lambda n: 1 / mp.factorial(n + 2), r)


def log_rest(t: Any) -> Any:
    """(2·atanh(s)/s − 2) / t at t = s²."""
    return series(lambda x: (2 * mp.atanh(mp.sqrt(x)) / mp.sqrt(x) - 2) / x, lambda n: mp.mpf(2) / (2 * n + 3), t)


def sin_rest(z: Any) -> Any:
    """(sin r − r) / r³ at z = r²."""
    return series(
        lambda x: (mp.sin(mp.sqrt(x)) / mp.sqrt(x) - 1) / x, lambda n: (-1) ** (n + 1) / mp.factorial(2 * n + 3), z
    )


def cos_rest(z: Any) -> Any:
    """(cos r − 1 + r²/2) / r⁴ at z = r²."""
    return series(lambda x: (mp.cos(mp.sqrt(x)) - 1 + x / 2) / x**2, lambda n: (-1) ** n / mp.factorial(2 * n + 4), z)


def erf_ratio(z: Any) -> Any:
    """erf(x) / x at z = x²."""
    two = 2 / mp.sqrt(mp.pi)
    return series(
        lambda x: mp.erf(mp.sqrt(x)) / mp.sqrt(x), lambda n: two * (-1) ** n / (mp.factorial(n) * (2 * n + 1)), z
    )


def tail(a: Any) -> Any:
    """Φ(−a)·e^(a²/2)."""
    return mp.erfc(a / mp.sqrt(2)) * mp.exp(a * a / 2) / 2


def at(t: Any) -> Any:
    """a of t = (a − C)/(a + C)."""
    return CENTRE * (1 + t) / (1 - t)


def place(a: Any) -> Any:
    """t of a."""
    return (mp.mpf(a) - CENTRE) / (mp.mpf(a) + CENTRE)


def tail_scaled(t: Any) -> Any:
    """Φ(−a)·e^(a²/2)·(a + C)."""
    return tail(at(t)) * (at(t) + CENTRE)


def density() -> Any:
    """φ(0)."""
    return 1 / mp.sqrt(2 * mp.pi)


def turning() -> Any:
    """The a > 0 where the derivative of gelu at −a is 0."""
    return mp.findroot(lambda a: tail(a) - a * density(), mp.mpf("0.7517915"))


def slope_of(root: Any) -> Function:
    """(Φ(−a)·e^(a²/2) − a·φ(0)) / (root − a)."""

    def of(a: Any) -> Any:
        return (tail(a) - a * density()) / (root - a)

    def function(a: Any) -> Any:
        if abs(a - root) > mp.mpf(2) ** -30:
            return of(a)
        # Near the root the quotient cancels: interpolate it from four points around.
        step = mp.mpf(2) ** -20
        points = [root + step * j for j in (-2, -1, 1, 2)]
        return sum(of(p) * mp.fprod((a - o) / (p - o) for o in points if o is not p) for p in points)

    return function


def fits() -> list[Fit]:
    """All polynomials."""
    half = mp.log(2) / 2 * mp.mpf("1.0001")
    ratio = ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2 * mp.mpf("1.0001")
    quarter, eighth = (mp.pi / 2 * mp.mpf("1.00001")) ** 2, (mp.pi / 4 * mp.mpf("1.00001")) ** 2
    of = slope_of(turning())
    least = mp.mpf(-1)

    def slope(t: Any) -> Any:
        return of(at(t))

    def sine(z: Any) -> Any:
        return z / (mp.sin(mp.sqrt(z)) / mp.sqrt(z)) if z else z

    exp_text = "(e^r − 1 − r)/r², |r| ≤ 0.34661"
    log_text = "(2·atanh(s)/s − 2)/t, t = s² ≤ 0.02945"
    tail_text = f"Φ(−a)·e^(a²/2)·(a + {CENTRE}), t = (a − {CENTRE})/(a + {CENTRE}), 0 ≤ a ≤ "
    slope_text = f"(Φ(−a) − a·φ(a))·e^(a²/2)/(a₀ − a), t = (a − {CENTRE})/(a + {CENTRE}), 0 ≤ a ≤ "
    found = []
    for name, degree in (("EXP_32", 9), ("EXP_64", 11)):
        found.append(Fit(name, exp_text, exp_rest, lambda r: r**2 / mp.exp(r), -half, half, degree))
    for name, degree in (("LOG_32", 6), ("LOG_64", 7)):
        found.append(Fit(name, log_text, log_rest, lambda t: t / 2, mp.mpf(0), ratio, degree))
    found += [
        Fit("SIN_32", "(sin r − r)/r³, z = r² ≤ (π/2)²", sin_rest, sine, mp.mpf(0), quarter, 8),
        Fit("SIN_64", "(sin r − r)/r³, z = r² ≤ (π/4)²", sin_rest, sine, mp.mpf(0), eighth, 6),
        Fit("COS_64", "(cos r − 1 + r²/2)/r⁴, z = r² ≤ (π/4)²", cos_rest, lambda z: z**2, mp.mpf(0), eighth, 6),
        Fit("ERF_32", "erf(x)/x, z = x² ≤ 0.5", erf_ratio, lambda z: 1 / erf_ratio(z), mp.mpf(0), mp.mpf("0.5"), 9),
        Fit("ERF_64", "erf(x)/x, z = x² ≤ 0.5", erf_ratio, lambda z: 1 / erf_ratio(z), mp.mpf(0), mp.mpf("0.5"), 11, 1),
        Fit("TAIL_64", tail_text + "40", tail_scaled, lambda t: 1 / tail_scaled(t), least, place(40), 26, 27),
        Fit("SLOPE_64", slope_text + "40", slope, lambda t: 1 / slope(t), least, place(40), 26, 27),
    ]
    return found


# --- The text ----------------------------------------------------------------------------------------------------------------------


def number(x: float) -> str:
    """A number in hexadecimal."""
    return f'float.fromhex("{x.hex()}")'


def expansion(x: Any, count: int) -> list[float]:
    """x as an unevaluated sum of doubles, each the rest rounded."""
    parts = []
    for _ in range(count):
        parts.append(float(x))
        x -= mp.mpf(parts[-1])
    return parts


def split(x: Any, bits: int) -> list[float]:
    """x in (½, 1) as a sum of its first bits and the rest, rounded."""
    high = mp.floor(mp.ldexp(x, bits)) / mp.mpf(2) ** bits
    return [float(high), float(x - high)]


def words(x: Any, lead: int, count: int) -> list[int]:
    """Words of 64 bits of x < 1, after `lead` bits that are 0."""
    with mp.workprec(64 * count + 64):
        whole = int(mp.floor(x() * mp.mpf(2) ** (64 * count - lead)))
    return [whole >> (64 * (count - 1 - index)) & (1 << 64) - 1 for index in range(count)]


def listing(name: str, items: Sequence[str], text: str) -> str:
    """A tuple, one item a line."""
    return f"{name}: Final = (\n" + "".join(f"    {item},\n" for item in items) + f')\n"""{text}."""\n'


def main(arguments: Sequence[str]) -> int:
    """Writes or compares; 1 if the file differs."""
    mp.mp.prec = BITS
    blocks = [HEAD]
    constants = (
        ("LN2", mp.log(2), 2, "ln 2 as a sum"),
        (
            "LN2_SPLIT",
            mp.log(2),
            0,
            "ln 2 as a sum, the first of 42 bits, so that its product with an integer of 11 bits is exact",
        ),
        ("PI", +mp.pi, 3, "π as a sum"),
        ("HALF_PI", mp.pi / 2, 3, "π/2 as a sum"),
        ("ROOT_2", mp.sqrt(2), 2, "√2 as a sum"),
        ("TURN", turning(), 2, "a₀ as a sum: the derivative of gelu is 0 at −a₀"),
    )
    for name, value, count, text in constants:
        parts = expansion(value, count) if count else split(value, 42)
        blocks.append(listing(name, [number(part) for part in parts], text))
    blocks.append(f'CENTRE: Final = {CENTRE}.0\n"""C of t = (a − C)/(a + C)."""\n')
    for name, value in (("INVERSE_LN2", 1 / mp.log(2)), ("INVERSE_PI", 1 / mp.pi), ("TWO_OVER_PI", 2 / mp.pi)):
        blocks.append(f'{name}: Final = {number(float(value))}\n"""Rounded to nearest."""\n')
    for name, digits, lead, count, text in (
        ("INVERSE_PI_BITS", lambda: 1 / mp.pi, 1, 4, "Bits of 1/π in words of 64, the first of weight 1"),
        ("TWO_OVER_PI_BITS", lambda: 2 / mp.pi, 34, WORDS, "Bits of 2/π in words of 64, the first of weight 2³³"),
    ):
        blocks.append(listing(name, [f"0x{word:016X}" for word in words(digits, lead, count)], text))
    for fit in fits():
        coefficients = rounded(fit)
        bound = error(fit, coefficients)
        print(f"{fit.name}: degree {fit.degree}, error 2^{bound:.1f}", flush=True)
        items = [
            f"({number(parts[0])}, {number(parts[1])})" if fit.pairs > 1 else number(parts[0]) for parts in coefficients
        ]
        blocks.append(listing(fit.name, items, f"{fit.text}; error 2^{bound:.1f}"))
        if fit.pairs == 1:
            blocks.append(
                f'{fit.name}_LOW: Final = {number(coefficients[0][1])}\n"""To be added to the first of {fit.name}."""\n'
            )
    # The first decreases like 1/a, the second has a limit.
    for name, function, degrees, text in (
        ("TAIL_32", tail, (9, 10), "Φ(−a)·e^(a²/2)"),
        ("SLOPE_32", slope_of(turning()), (9, 9), "(Φ(−a) − a·φ(a))·e^(a²/2)/(a₀ − a)"),
    ):
        above, below, bound = quotient(function, 15, degrees)
        print(f"{name}: degrees {degrees}, error 2^{bound:.1f}", flush=True)
        text += f", 0 ≤ a ≤ 15, is {name} / {name}_BELOW; error 2^{bound:.1f}"
        blocks.append(listing(name, [number(x) for x in above], text))
        blocks.append(listing(f"{name}_BELOW", [number(x) for x in below], f"See {name}"))
    text = "\n".join(blocks)
    if "--check" in arguments:
        return 0 if TARGET.read_text("utf-8") == text else 1
    TARGET.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
