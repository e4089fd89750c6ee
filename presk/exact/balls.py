"""Arithmetic of balls: every number is a midpoint and a radius (Arb), and the exact value lies within.

Where balls that overlap leave open what a primitive does, the result is a ball around everything it may do (max, relu, the steps of
the derivatives), and where that is no number (an index), an error of the run. A domain's edge inside a ball is read as the part of
the ball within the domain: the bound holds for a program that is defined.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Any, Final

import flint
import numpy as np
from gmpy2 import mpq
from numpy.typing import NDArray

from presk.exact.codec import Scalar
from presk.exact.draws import UNIT_BITS, normals
from presk.exact.faults import DIVISION, DOMAIN, UNDECIDED, Fault
from presk.exact.reals import first_place, taken_rows
from presk.exact.values import Array, Objects, filled, gathered, uniform

Ball = Any
"""A `flint.arb`; python-flint ships no types."""

_ZERO: Final[Ball] = flint.arb(0)
_ONE: Final[Ball] = flint.arb(1)
_HALF: Final[Ball] = flint.arb(0.5)
_STEP: Final[Ball] = flint.arb(0.5, 0.5)
"""[0, 1]."""

_SIGN: Final[Ball] = flint.arb(0, 1)
"""[−1, 1]."""


def enclose(number: Scalar) -> Ball:
    """An MPFR number as a ball of radius 0."""
    if number == 0:
        return _ZERO
    mantissa, exponent = number.as_mantissa_exp()
    return flint.arb((int(mantissa), int(exponent)))


def _undecided(what: str, index: tuple[int, ...]) -> Fault:
    return Fault(
        UNDECIDED,
        f"the bounds on the values do not decide {what}",
        index=index,
        mend="ask for more bits with `--bits`",
    )


def _relu(x: Ball) -> Ball:
    if x > 0:
        return x
    return _ZERO if x <= 0 else x.max(_ZERO)


def _heaviside(x: Ball) -> Ball:
    if x > 0:
        return _ONE
    return _ZERO if x <= 0 else _STEP


def _sign(x: Ball) -> Ball:
    if x > 0:
        return _ONE
    if x < 0:
        return -_ONE
    return _ZERO if x.is_zero() else _SIGN


def _sigmoid(x: Ball) -> Ball:
    if x < 0:
        t = x.exp()
        return t / (1 + t)
    return 1 / (1 + (-x).exp())


def _phi(x: Ball) -> Ball:
    """Φ(x), with the left tail's bits."""
    root = _HALF.sqrt()
    return (-x * root).erfc() / 2 if x < 0 else (1 + (x * root).erf()) / 2


def _gelu(x: Ball) -> Ball:
    return x * _phi(x)


def _gelu_derivative(x: Ball) -> Ball:
    return _phi(x) + x * (-(x * x) / 2).exp() / (2 * flint.arb.pi()).sqrt()


def _square_root(x: Ball) -> Ball:
    return x.sqrt() if x >= 0 else x.nonnegative_part().sqrt()


_FUNCTIONS: Final[Mapping[str, Callable[[Ball], Ball]]] = MappingProxyType(
    {
        "neg": lambda x: -x,
        "exp": lambda x: x.exp(),
        "tanh": lambda x: x.tanh(),
        "log": lambda x: x.log(),
        "sin": lambda x: x.sin(),
        "cos": lambda x: x.cos(),
        "sqrt": _square_root,
        "abs": abs,
        "relu": _relu,
        "heaviside": _heaviside,
        "sign": _sign,
        "sigmoid": _sigmoid,
        "gelu": _gelu,
        "gelu'": _gelu_derivative,
    }
)


class Balls:
    """The arithmetic at a working precision of `bits`."""

    def __init__(self, bits: int) -> None:
        self.bits = bits

    def normals(self, key: bytes, n: int) -> NDArray[np.float64]:
        """Normal draws."""
        return normals(key, n)

    def active(self) -> AbstractContextManager[object]:
        """Sets Arb's working precision."""
        context: AbstractContextManager[object] = flint.ctx.workprec(self.bits)
        return context

    # --- numbers --------------------------------------------------------------------------------------------------------

    def zeros(self, shape: tuple[int, ...]) -> Objects:
        """Zeros."""
        return filled(shape, _ZERO)

    def ones(self, shape: tuple[int, ...]) -> Objects:
        """Ones."""
        return filled(shape, _ONE)

    def number(self, value: mpq) -> Ball:
        """A ball around the rational."""
        return flint.arb(flint.fmpq(int(value.numerator), int(value.denominator)))

    def pi(self) -> Ball:
        """A ball around π."""
        return flint.arb.pi()

    def from_doubles(self, values: NDArray[np.float64]) -> Objects:
        """The doubles, exactly."""
        return gathered([flint.arb(value) for value in values.ravel().tolist()], values.shape)

    def from_integers(self, values: Array) -> Objects:
        """The integers, exactly."""
        return gathered([flint.arb(value) for value in values.ravel().tolist()], values.shape)

    # --- element by element ---------------------------------------------------------------------------------------------

    def add(self, x: Objects, y: Objects) -> Objects:
        """x + y."""
        return _binary(np.add, x, y)

    def sub(self, x: Objects, y: Objects) -> Objects:
        """x − y."""
        return _binary(np.subtract, x, y)

    def mul(self, x: Objects, y: Objects) -> Objects:
        """x · y."""
        return _binary(np.multiply, x, y)

    def div(self, x: Objects, y: Objects) -> Objects:
        """x / y."""
        _refuse(y, np.broadcast_shapes(x.shape, y.shape), lambda value: value.contains(0), _divisor)
        return _binary(np.true_divide, x, y)

    def divided(self, x: Objects, n: int) -> Objects:
        """x / n."""
        return _map(lambda value: value / n, x)

    def maximum(self, x: Objects, y: Objects) -> Objects:
        """The larger."""
        return _select(lambda a, b: a if a > b else b if a <= b else a.max(b), x, y)

    def minimum(self, x: Objects, y: Objects) -> Objects:
        """The smaller."""
        return _select(lambda a, b: a if a < b else b if a >= b else a.min(b), x, y)

    def apply(self, name: str, x: Objects) -> Objects:
        """A function of one real."""
        if name == "log":
            _refuse(x, x.shape, lambda value: not value > 0, _logarithm)
        elif name == "sqrt":
            _refuse(x, x.shape, lambda value: value < 0, _root)
        return _map(_FUNCTIONS[name], x)

    def power(self, x: Objects, n: int) -> Objects:
        """xⁿ."""
        return self.ones(x.shape) if n == 0 else _map(lambda value: value**n, x)

    # --- sums and products ----------------------------------------------------------------------------------------------

    def sums(self, rows: Objects) -> Objects:
        """Sums of rows."""
        return gathered(self.total(rows.tolist()), (len(rows),))

    def total(self, groups: Sequence[Sequence[Ball]]) -> list[Ball]:
        """Sums."""
        return list(map(_sum, groups))

    def means(self, rows: Objects) -> Objects:
        """Means of rows."""
        return gathered([value / rows.shape[1] for value in self.total(rows.tolist())], (len(rows),))

    def squares(self, parts: Sequence[Objects]) -> Ball:
        """The sum of all squares."""
        return _sum(value**2 for part in parts for value in part.ravel().tolist())

    def product(self, left: Objects, right: Objects, *, last: bool) -> Objects:
        """Products of matrices."""
        count, rows, inner = left.shape
        columns = right.shape[2]
        result: Objects = np.full((count, rows, columns), _ZERO, dtype=object)
        if result.size and inner:
            for at in range(count):
                one = flint.arb_mat(rows, inner, left[at].ravel().tolist())
                other = flint.arb_mat(inner, columns, right[at].ravel().tolist())
                result[at] = gathered((one * other).entries(), (rows, columns))
        return result

    # --- rows -----------------------------------------------------------------------------------------------------------

    def softmax(self, rows: Objects, allowed: NDArray[np.bool_] | None) -> Objects:
        """Softmax; what is not allowed is never read."""
        values = []
        for row in taken_rows(rows, allowed):
            terms = _exponentials(row)[0]
            total = _sum(terms)
            values += [term / total for term in terms]
        if allowed is None:
            return gathered(values, rows.shape)
        result: Objects = np.full(rows.shape, _ZERO, dtype=object)
        result[allowed] = gathered(values, (len(values),))
        return result

    def cross_entropy(self, rows: Objects, targets: Array) -> Objects:
        """−log softmax at the target."""
        values = []
        for row, target in zip(rows.tolist(), targets.tolist()):
            terms, shift = _exponentials(row)
            values.append((shift - row[target]) + _sum(terms).log())
        return gathered(values, (len(rows),))

    def cross_entropy_vjp(self, rows: Objects, targets: Array, cts: Objects) -> Objects:
        """(softmax − one-hot) · ct."""
        values = []
        for row, target, ct in zip(rows.tolist(), targets.tolist(), cts.tolist()):
            terms = _exponentials(row)[0]
            total = _sum(terms)
            terms[target] = -_sum(term for at, term in enumerate(terms) if at != target)
            values += [term / total * ct for term in terms]
        return gathered(values, rows.shape)

    def argmax(self, rows: Objects) -> NDArray[np.int64]:
        """The least place of the maximum, where the balls decide it."""
        found = []
        for number, row in enumerate(rows.tolist()):
            best = max(range(len(row)), key=lambda at: row[at].mid())
            before = all(x < row[best] for x in row[:best])
            if not (before and all(x <= row[best] for x in row[best + 1 :])):
                raise _undecided("which element is the largest", (number,))
            found.append(best)
        return np.array(found, dtype=np.int64)

    def sample(self, rows: Objects, draws: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The least place whose cumulative probability exceeds the draw, where the balls decide it."""
        found = []
        for number, (row, draw) in enumerate(zip(rows.tolist(), draws.tolist())):
            terms = _exponentials(row)[0]
            limit = _sum(terms) * flint.arb((draw, -UNIT_BITS))
            so_far = _ZERO
            for place, term in enumerate(terms):
                so_far = so_far + term
                if so_far > limit:
                    found.append(place)
                    break
                if not so_far <= limit:
                    raise _undecided("which index is drawn", (number,))
        return np.array(found, dtype=np.int64)


def _sum(terms: Iterable[Ball]) -> Ball:
    return sum(terms, _ZERO)


def _exponentials(row: Sequence[Ball]) -> tuple[list[Ball], Ball]:
    """e^(x − m) of each element, and m, a number near the largest."""
    shift = max(x.mid() for x in row)
    return [(x - shift).exp() for x in row], shift


def _divisor(value: Ball, index: tuple[int, ...]) -> Fault:
    if value.is_zero():
        return Fault(DIVISION, "division by zero", index=index)
    return _undecided("whether a divisor is zero", index)


def _logarithm(value: Ball, index: tuple[int, ...]) -> Fault:
    if value <= 0:
        return Fault(DOMAIN, f"`log` of {value.str(6, radius=False)}", index=index)
    return _undecided("whether the operand of `log` is positive", index)


def _root(value: Ball, index: tuple[int, ...]) -> Fault:
    return Fault(DOMAIN, f"`sqrt` of {value.str(6, radius=False)}", index=index)


def _refuse(
    x: Objects, shape: tuple[int, ...], wrong: Callable[[Ball], bool], fault: Callable[[Ball, tuple[int, ...]], Fault]
) -> None:
    if 0 not in shape and any(map(wrong, x.ravel().tolist())):
        index = first_place(np.broadcast_to(x, shape), wrong)
        raise fault(np.broadcast_to(x, shape)[index], index)


def _map(function: Callable[[Ball], Ball], x: Objects) -> Objects:
    if uniform(x):
        return filled(x.shape, function(x.flat[0]))
    return gathered(list(map(function, x.ravel().tolist())), x.shape)


def _select(choose: Callable[[Ball, Ball], Ball], x: Objects, y: Objects) -> Objects:
    shape = np.broadcast_shapes(x.shape, y.shape)
    pairs = (np.broadcast_to(x, shape).ravel().tolist(), np.broadcast_to(y, shape).ravel().tolist())
    return gathered(list(map(choose, *pairs)), shape)


def _binary(operation: np.ufunc, x: Objects, y: Objects) -> Objects:
    shape = np.broadcast_shapes(x.shape, y.shape)
    if (uniform(x) or x.size == 1) and (uniform(y) or y.size == 1) and 0 not in shape:
        one: Objects = np.empty((1,), dtype=object)
        operation(x.reshape(-1)[:1], y.reshape(-1)[:1], out=one)
        return filled(shape, one[0])
    result: Objects = np.empty(shape, dtype=object)
    operation(x, y, out=result)
    return result
