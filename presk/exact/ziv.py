"""Correctly rounded values of functions that MPFR does not have, by Ziv's method.

A value is evaluated with some forty more bits than are wanted and a proved bound on its error. If all numbers within that bound
round to one, that is the result; else the precision is doubled. It ends because the values are transcendental or the few exact
ones are found: two-sided rounding decides also where the value is a number of the precision asked for, and never has to decide a
tie, since none of these functions takes a value half-way between two numbers. (gelu, sigmoid: the values of erf and exp at
algebraic arguments other than 0 are transcendental. softmax, cross-entropy: by the theorem of Lindemann and Weierstrass a row's
softmax is algebraic only if its entries are equal, and then it is 1/n.) Only a value that comes within 2⁻¹³¹⁰⁷² of a tie is given up.

Errors are counted in units of the last bit: an approximation v carries `err`, meaning |v − value| ≤ 2^(EXP(v) − err), where
EXP(v) is MPFR's exponent, 2^(EXP−1) ≤ |v| < 2^EXP. A rounded operation adds at most 2^-q of its value in relative terms.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Final

import gmpy2

from presk.exact.codec import ZERO, Context, Scalar, working
from presk.exact.faults import RANGE, Fault

_GUARD: Final = 40  # bits evaluated beyond those that are asked for, after the bits that are lost
_MOST: Final = 1 << 17
_NEAREST: Final = 0
_TOWARDS_ZERO: Final = 1
_ONE: Final = gmpy2.mpfr(1)
_HALF: Final = gmpy2.mpfr(0.5)
_MINUS_HALF: Final = gmpy2.mpfr(-0.5)
_TWO: Final = gmpy2.mpfr(2)
_BELOW_ALL: Final = -(1 << 31)
_UNDERFLOW: Final = 31  # exp(−2³¹) is below MPFR's range: no larger exponent of an argument loses bits


def settled(value: Scalar, err: int, bits: int) -> Scalar | None:
    """The value rounded at `bits`, if everything within the error rounds to it; else None. 0 stands for itself."""
    if value == 0:
        return ZERO
    rounded = working(bits).plus
    if gmpy2.can_round(value, err, _NEAREST, _TOWARDS_ZERO, bits + 1):
        return rounded(value)
    wide = working(max(value.precision, err) + 4)
    radius = gmpy2.set_exp(_ONE, gmpy2.get_exp(value) - err + 1)
    low, high = rounded(wide.sub(value, radius)), rounded(wide.add(value, radius))
    return low if low == high else None


def settle(
    approximate: Callable[[Sequence[Scalar], int], tuple[list[Scalar], list[int]]],
    arguments: Sequence[Scalar],
    bits: int,
) -> list[Scalar]:
    """The values of a function of one real. `approximate(arguments, q)` evaluates with q bits or a little less.

    RANGE for a value whose rounding 2¹⁷ bits leave open.
    """
    results: list[Scalar] = [ZERO] * len(arguments)
    places = list(range(len(arguments)))
    q = bits + _GUARD
    while places:
        values, errors = approximate([arguments[place] for place in places], q)
        clear = list(map(gmpy2.can_round, values, errors, repeat(_NEAREST), repeat(_TOWARDS_ZERO), repeat(bits + 1)))
        rounded = list(map(working(bits).plus, values))
        left = []
        for number, (place, decided) in enumerate(zip(places, clear)):
            if not decided:
                value = settled(values[number], errors[number], bits)
                if value is None:
                    left.append(place)
                    continue
                rounded[number] = value
            results[place] = rounded[number]
        places = left
        q = _more(q, bool(places), bits)
    return results


def _more(q: int, needed: bool, bits: int) -> int:
    if needed and 2 * q > max(_MOST, 4 * bits):
        raise Fault(RANGE, f"{q} bits do not decide how the value rounds at {bits}")
    return 2 * q


# --- functions of one real --------------------------------------------------------------------------------------------


def _exponents(xs: Sequence[Scalar]) -> list[int]:
    return [gmpy2.get_exp(x) if x else 0 for x in xs]


def sigmoid(xs: Sequence[Scalar], q: int) -> tuple[list[Scalar], list[int]]:
    """1 / (1 + e⁻ˣ): of t = e^−|x|, 1 / (1 + t) or t / (1 + t), so that the left tail keeps its bits."""
    c = working(q)
    ts = list(map(c.exp, [x if x < 0 else c.minus(x) for x in xs]))
    values = [c.div(t if x < 0 else _ONE, c.add(t, _ONE)) for x, t in zip(xs, ts)]
    # −x is rounded if x is longer than q, which moves the exponential by |x|·2⁻q of itself.
    return values, [q - 4 - max(0, min(e, _UNDERFLOW)) for e in _exponents(xs)]


def gelu(xs: Sequence[Scalar], q: int) -> tuple[list[Scalar], list[int]]:
    """x·Φ(x) = x·erfc(−x/√2)/2.

    The argument's relative error δ grows in erfc by a factor of at most 2a² + 1 for a = −x/√2 > 0, that is x² + 1 ≤ 2^(2·EXP + 1).
    """
    exponents = [max(0, min(e, _UNDERFLOW + 2)) for e in _exponents(xs)]
    p = q + 2 * max(exponents, default=0)
    c = working(p)
    half_root = c.sqrt(_HALF)
    tails = map(c.erfc, map(c.mul, map(c.minus, xs), repeat(half_root)))
    values = list(map(c.mul, map(c.mul, xs, tails), repeat(_HALF)))
    # δ of three roundings (−x, the root, the product), then erfc's and the last product's.
    return values, [p - 6 - 2 * e for e in exponents]


def gelu_derivative(xs: Sequence[Scalar], q: int) -> tuple[list[Scalar], list[int]]:
    """Φ(x) + x·φ(x), where the two cancel in part for x < 0, near −0.75 altogether."""
    exponents = [max(0, min(e, _UNDERFLOW + 2)) for e in _exponents(xs)]
    p = q + 2 * max(exponents, default=0)
    c = working(p)
    half_root = c.sqrt(_HALF)
    density = c.div(_ONE, c.sqrt(c.mul(c.const_pi(), _TWO)))
    tails = list(map(c.mul, map(c.erfc, map(c.mul, map(c.minus, xs), repeat(half_root))), repeat(_HALF)))
    bells = map(c.exp, map(c.mul, map(c.mul, xs, xs), repeat(_MINUS_HALF)))
    slopes = list(map(c.mul, map(c.mul, xs, bells), repeat(density)))
    values = list(map(c.add, tails, slopes))
    # Both have about the error of gelu's terms, relative to themselves: x² is rounded before exp. The sum has the larger one's.
    lost = [
        max(one, other) - size + 1
        for one, other, size in zip(_sizes(tails), _sizes(slopes), _sizes(values), strict=True)
    ]
    return values, [p - 6 - 2 * e - max(0, bits) for e, bits in zip(exponents, lost)]


def _sizes(xs: Sequence[Scalar]) -> list[int]:
    """MPFR's exponents; of 0 one below all."""
    return [gmpy2.get_exp(x) if x else _BELOW_ALL for x in xs]


# --- rows -------------------------------------------------------------------------------------------------------------


Rows = list[list[Scalar]]
Evaluated = tuple[list[Scalar], int]


def settle_rows(evaluate: Callable[[int, int], Evaluated], count: int, bits: int) -> Rows:
    """The values of `count` rows. `evaluate(row, q)` gives those of one row, all with one error."""
    results: Rows = [[]] * count
    for row in range(count):
        q = bits + _GUARD
        while True:
            values, err = evaluate(row, q)
            clear = map(gmpy2.can_round, values, repeat(err), repeat(_NEAREST), repeat(_TOWARDS_ZERO), repeat(bits + 1))
            rounded = list(map(working(bits).plus, values))
            open_ = [place for place, decided in enumerate(clear) if not decided]
            found = [settled(values[place], err, bits) for place in open_]
            if not any(value is None for value in found):
                break
            q = _more(q, True, bits)
        for place, value in zip(open_, found):
            rounded[place] = value
        results[row] = rounded
    return results


def _exponentials(row: Sequence[Scalar], q: int) -> tuple[list[Scalar], Scalar, int, Context]:
    """e^(x − max) of each element, the maximum, the bits that their relative error takes from q, and the context of q bits.

    x − max is rounded, which moves the exponential by |x − max|·2⁻q of itself.
    """
    c = working(q)
    top = max(row)
    gaps = list(map(c.sub, row, repeat(top)))
    farthest = min(gaps)
    size = max(0, min(gmpy2.get_exp(farthest), _UNDERFLOW)) if farthest != 0 else 0
    return list(map(c.exp, gaps)), top, size + 1, c


def softmax(row: Sequence[Scalar], q: int) -> Evaluated:
    """e^(x − max) / Σ e^(x − max), of a row that is not empty."""
    terms, _, lost, c = _exponentials(row, q)
    total = c.fsum(terms)
    return list(map(c.div, terms, repeat(total))), q - lost - 4


def cross_entropy(row: Sequence[Scalar], target: int, q: int) -> Evaluated:
    """(max − x_target) + log(1 + Σ' e^(x − max)), the sum without the maximum: no term is negative, so nothing cancels."""
    terms, top, lost, c = _exponentials(row, q)
    place = next(at for at, x in enumerate(row) if x == top)
    del terms[place]
    return [c.add(c.sub(top, row[target]), c.log1p(c.fsum(terms)))], q - lost - 5


def cross_entropy_vjp(row: Sequence[Scalar], target: int, ct: Scalar, q: int) -> Evaluated:
    """softmax · ct, and at the target minus the sum of all the others, where 1 − softmax would cancel.

    The entries of `row` are not all equal: then the value is rational, and may be a tie.
    """
    terms, _, lost, c = _exponentials(row, q)
    total = c.fsum(terms)
    terms[target] = c.minus(c.fsum([*terms[:target], *terms[target + 1 :]]))
    return list(map(c.mul, map(c.div, terms, repeat(total)), repeat(ct))), q - lost - 6


def exceeds(row: Sequence[Scalar], draw: int, unit_bits: int) -> int:
    """The least i with Σ_{j ≤ i} softmax(row)[j] > draw · 2^−unit_bits, decided exactly. Below 2^unit_bits some i always does."""
    counts = Counter(row)
    q = 128
    while True:
        terms, _, lost, c = _exponentials(row, q)
        limit = c.div_2exp(c.mul(c.fsum(terms), draw), unit_bits)
        slack = c.div_2exp(c.fsum(terms), q - lost - 4 - len(row).bit_length())
        so_far: Scalar = ZERO
        seen: Counter[Scalar] = Counter()
        undecided = False
        for place, (x, term) in enumerate(zip(row, terms)):
            so_far = c.add(so_far, term)
            seen[x] += 1
            gap = c.sub(so_far, limit)
            if gap > slack:
                return place
            # Equality holds iff the exponentials' coefficients vanish, since those of distinct numbers are independent.
            if gap >= c.minus(slack) and any(seen[y] << unit_bits != draw * counts[y] for y in counts):
                undecided = True
                break
        if not undecided:
            return len(row) - 1
        q = _more(q, True, 2)
