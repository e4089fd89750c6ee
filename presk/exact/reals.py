"""Arithmetic of arbitrary-precision reals: every primitive is the exact value of its operands' values, rounded once to nearest even.

MPFR computes the elementary functions so; `ziv` the others; sums are MPFR's correctly rounded sums and contractions exact products
of integers (`contract`). A result has `bits` bits; what is injected exactly (a draw, an input in binary floating point, an integer
of 64 bits) keeps the bits it has. Exponents reach from −2³⁰ to 2³⁰: what is smaller in size is 0, what is larger an error of the run.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from itertools import repeat
from types import MappingProxyType
from typing import Any, Final

import gmpy2
import numpy as np
from gmpy2 import mpq
from numpy.typing import NDArray

from presk.exact import codec, contract, ziv
from presk.exact.codec import ZERO, Scalar
from presk.exact.draws import UNIT_BITS, normals
from presk.exact.faults import DIVISION, DOMAIN, EMPTY_ROW, RANGE, Fault
from presk.exact.values import Array, Objects, filled, gathered, uniform

Many = Callable[[list[Scalar]], list[Scalar]]

_ONE: Final = gmpy2.mpfr(1)
_HALF: Final = gmpy2.mpfr(0.5)
_INJECTED: Final = 64  # bits that an exactly injected number has at most
_TURNS: Final = 1 << 20  # sin and cos reduce arguments below 2^_TURNS
_CHUNK: Final = 1 << 16  # squares that are held at once
_DOUBLES: Final = 1 << 53

_COMPOSED: Final = MappingProxyType(
    {
        "sigmoid": (ziv.sigmoid, _HALF),
        "gelu": (ziv.gelu, ZERO),
        "gelu'": (ziv.gelu_derivative, _HALF),
    }
)
"""Functions that Ziv's method computes, with their value at 0."""


class Reals:
    """The arithmetic at a precision of `bits` ≥ 2 bits."""

    def __init__(self, bits: int) -> None:
        self.bits = bits
        self._context = codec.working(bits)
        self._keeps = bits >= _INJECTED  # no number has more bits than a result: x + 0 and x · 1 are x itself
        self._functions: dict[str, Many] = {
            "neg": self._each(self._context.minus),
            "exp": self._each(self._context.exp),
            "tanh": self._each(self._context.tanh),
            "sqrt": self._each(self._context.sqrt),
            "log": self._each(self._context.log),
            "sin": self._turning(self._context.sin),
            "cos": self._turning(self._context.cos),
            "abs": lambda xs: self._rounded([-x if x < 0 else x for x in xs]),
            "relu": lambda xs: self._rounded([x if x > 0 else ZERO for x in xs]),
            "heaviside": lambda xs: [_ONE if x > 0 else ZERO for x in xs],
            "sign": lambda xs: [_ONE if x > 0 else (-_ONE if x < 0 else ZERO) for x in xs],
        }

    def normals(self, key: bytes, n: int) -> NDArray[np.float64]:
        """Normal draws."""
        return normals(key, n)

    def active(self) -> AbstractContextManager[object]:
        """Sets gmpy2's context, by which `+` and its kin round."""
        context: AbstractContextManager[object] = gmpy2.context(self._context)
        return context

    # --- numbers --------------------------------------------------------------------------------------------------------

    def zeros(self, shape: tuple[int, ...]) -> Objects:
        """Zeros."""
        return filled(shape, ZERO)

    def ones(self, shape: tuple[int, ...]) -> Objects:
        """Ones."""
        return filled(shape, _ONE)

    def number(self, value: mpq) -> Scalar:
        """The rational rounded."""
        return gmpy2.mpfr(value, self.bits)

    def pi(self) -> Scalar:
        """π rounded."""
        return self._context.const_pi()

    def from_doubles(self, values: NDArray[np.float64]) -> Objects:
        """The doubles, at 53 bits."""
        return gathered(codec.from_doubles(values.ravel()), values.shape)

    def from_integers(self, values: Array) -> Objects:
        """The integers rounded."""
        flat = values.ravel()
        if values.dtype != object and int(np.abs(flat).max(initial=0)) <= _DOUBLES:
            return gathered(self._rounded(codec.from_doubles(flat.astype(np.float64))), values.shape)
        return gathered([gmpy2.mpfr(value, self.bits) for value in flat.tolist()], values.shape)

    def _rounded(self, xs: list[Scalar]) -> list[Scalar]:
        return xs if self._keeps else list(map(self._context.plus, xs))

    # --- element by element ---------------------------------------------------------------------------------------------

    def add(self, x: Objects, y: Objects) -> Objects:
        """x + y; a shared zero leaves the other operand as it is."""
        if self._keeps and _all_zero(y):
            return _broadcast(x, y)
        if self._keeps and _all_zero(x):
            return _broadcast(y, x)
        return _binary(np.add, x, y)

    def sub(self, x: Objects, y: Objects) -> Objects:
        """x − y."""
        if self._keeps and _all_zero(y):
            return _broadcast(x, y)
        return _binary(np.subtract, x, y)

    def mul(self, x: Objects, y: Objects) -> Objects:
        """x · y; a shared zero or one does not touch the other operand's elements."""
        if _all_zero(x) or _all_zero(y):
            return self.zeros(np.broadcast_shapes(x.shape, y.shape))
        if self._keeps and _all_one(y):
            return _broadcast(x, y)
        if self._keeps and _all_one(x):
            return _broadcast(y, x)
        return _binary(np.multiply, x, y)

    def div(self, x: Objects, y: Objects) -> Objects:
        """x / y."""
        try:
            return _binary(np.true_divide, x, y)
        except (ZeroDivisionError, gmpy2.InvalidOperationError):
            shape = np.broadcast_shapes(x.shape, y.shape)
            index = first_place(np.broadcast_to(y, shape), lambda value: value == 0)
            raise Fault(DIVISION, "division by zero", index=index) from None

    def divided(self, x: Objects, n: int) -> Objects:
        """x / n."""
        divisor = whole(n)
        return self._map(lambda xs: list(map(self._context.div, xs, repeat(divisor))), x)

    def maximum(self, x: Objects, y: Objects) -> Objects:
        """The larger, y at a tie."""
        return self._select(lambda a, b: max(b, a), x, y)

    def minimum(self, x: Objects, y: Objects) -> Objects:
        """The smaller, y at a tie."""
        return self._select(lambda a, b: min(b, a), x, y)

    def _select(self, choose: Callable[[Scalar, Scalar], Scalar], x: Objects, y: Objects) -> Objects:
        shape = np.broadcast_shapes(x.shape, y.shape)
        pairs = (np.broadcast_to(x, shape).ravel().tolist(), np.broadcast_to(y, shape).ravel().tolist())
        return gathered(self._rounded(list(map(choose, *pairs))), shape)

    def apply(self, name: str, x: Objects) -> Objects:
        """A function of one real."""
        if name in _COMPOSED:
            return self._map(lambda xs: self._composed(name, xs), x)
        try:
            return self._map(self._functions[name], x)
        except (ZeroDivisionError, gmpy2.InvalidOperationError):
            # Only the square root and the logarithm are undefined somewhere; log 0 is MPFR's division by zero.
            outside = (lambda value: value <= 0) if name == "log" else (lambda value: value < 0)
            index = first_place(x, outside)
            raise Fault(DOMAIN, f"`{name}` of {describe(x[index])}", index=index) from None

    def _composed(self, name: str, xs: list[Scalar]) -> list[Scalar]:
        """The values at 0 are exact, and no approximation of them would ever settle."""
        approximate, at_zero = _COMPOSED[name]
        places = [place for place, x in enumerate(xs) if x != 0]
        values = ziv.settle(approximate, [xs[place] for place in places], self.bits)
        if len(places) == len(xs):
            return values
        results = [at_zero] * len(xs)
        for place, value in zip(places, values):
            results[place] = value
        return results

    def power(self, x: Objects, n: int) -> Objects:
        """xⁿ."""
        if n == 0:
            return self.ones(x.shape)
        if n == 1:
            return self._map(self._rounded, x)
        if n == 2:
            return self._map(lambda xs: list(map(self._context.square, xs)), x)
        return self._map(lambda xs: list(map(self._context.pow, xs, repeat(n))), x)

    def _map(self, many: Many, x: Objects) -> Objects:
        if uniform(x):
            return filled(x.shape, many([x.flat[0]])[0])
        return gathered(many(x.ravel().tolist()), x.shape)

    def _each(self, function: Callable[[Scalar], Scalar]) -> Many:
        return lambda xs: list(map(function, xs))

    def _turning(self, function: Callable[[Scalar], Scalar]) -> Many:
        def many(xs: list[Scalar]) -> list[Scalar]:
            if any(gmpy2.get_exp(x) > _TURNS for x in xs if x != 0):
                raise Fault(RANGE, f"an argument of 2^{_TURNS} or more has too many turns to reduce")
            return list(map(function, xs))

        return many

    # --- sums and products ----------------------------------------------------------------------------------------------

    def sums(self, rows: Objects) -> Objects:
        """Exact sums, rounded."""
        return gathered(self.total(rows.tolist()), (len(rows),))

    def total(self, groups: Sequence[Sequence[Scalar]]) -> list[Scalar]:
        """Exact sums, rounded."""
        return list(map(self._context.fsum, groups))

    def means(self, rows: Objects) -> Objects:
        """Exact sums, divided and rounded: the sum itself is not."""
        count = whole(rows.shape[1])
        return gathered([self._context.div(contract.exact_sum(row), count) for row in rows.tolist()], (len(rows),))

    def squares(self, parts: Sequence[Objects]) -> Scalar:
        """The exact sum of exact squares, rounded."""
        sums = []
        for part in parts:
            flat = part.ravel()
            for start in range(0, len(flat), _CHUNK):
                chunk = flat[start : start + _CHUNK].tolist()
                sums.append(contract.dot(chunk, chunk, None))
        return self.total([sums])[0]

    def product(self, left: Objects, right: Objects, *, last: bool) -> Objects:
        """Products of matrices, exact; rounded if `last`."""
        return contract.product(left, right, self.bits if last else None)

    # --- rows -----------------------------------------------------------------------------------------------------------

    def softmax(self, rows: Objects, allowed: NDArray[np.bool_] | None) -> Objects:
        """Softmax; what is not allowed is never read."""
        taken = taken_rows(rows, allowed)
        values = ziv.settle_rows(lambda at, q: ziv.softmax(taken[at], q), len(taken), self.bits)
        if allowed is None:
            return gathered([value for row in values for value in row], rows.shape)
        result = np.full(rows.shape, ZERO, dtype=object)
        result[allowed] = gathered([value for row in values for value in row], (int(allowed.sum()),))
        return result

    def cross_entropy(self, rows: Objects, targets: Array) -> Objects:
        """−log softmax at the target."""
        lists, places = rows.tolist(), targets.tolist()
        values = ziv.settle_rows(lambda at, q: ziv.cross_entropy(lists[at], places[at], q), len(lists), self.bits)
        return gathered([value for row in values for value in row], (len(lists),))

    def cross_entropy_vjp(self, rows: Objects, targets: Array, cts: Objects) -> Objects:
        """(softmax − one-hot) · ct."""
        lists, places, factors = rows.tolist(), targets.tolist(), cts.tolist()
        equal = [row.count(row[0]) == len(row) for row in lists]
        others = [at for at, same in enumerate(equal) if not same]
        settled = ziv.settle_rows(
            lambda at, q: ziv.cross_entropy_vjp(lists[others[at]], places[others[at]], factors[others[at]], q),
            len(others),
            self.bits,
        )
        values = dict(zip(others, settled))
        for at, same in enumerate(equal):
            if same:
                values[at] = self._even_row(len(lists[at]), places[at], factors[at])
        return gathered([value for at in range(len(lists)) for value in values[at]], rows.shape)

    def _even_row(self, count: int, target: int, ct: Scalar) -> list[Scalar]:
        """ct/n, and ct/n − ct at the target: the softmax of equal elements is 1/n."""
        n = whole(count)
        row = [self._context.div(ct, n)] * count
        wide = codec.working(ct.precision + count.bit_length() + 2)
        row[target] = self._context.div(wide.mul(ct, whole(count - 1)), -n)
        return row

    def argmax(self, rows: Objects) -> NDArray[np.int64]:
        """The least place of the maximum."""
        return np.array([row.index(max(row)) for row in rows.tolist()], dtype=np.int64)

    def sample(self, rows: Objects, draws: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The least place whose cumulative probability exceeds the draw, decided exactly."""
        pairs = zip(rows.tolist(), draws.tolist())
        return np.array([ziv.exceeds(row, draw, UNIT_BITS) for row, draw in pairs], dtype=np.int64)


def whole(n: int) -> Scalar:
    """An integer, exactly."""
    return gmpy2.mpfr(n, max(2, n.bit_length()))


def taken_rows(rows: Objects, allowed: NDArray[np.bool_] | None) -> list[list[Any]]:
    """The allowed elements of each row; EMPTY_ROW for a row that has elements, all refused."""
    if allowed is None:
        return [] if rows.shape[1] == 0 else list(rows.tolist())
    if rows.shape[1] == 0:
        return []
    empty = ~allowed.any(axis=1)
    if empty.any():
        raise Fault(EMPTY_ROW, "the mask refuses every element of a row", index=(int(np.argmax(empty)),))
    return [row[keep].tolist() for row, keep in zip(rows, allowed)]


def first_place(x: Objects, wrong: Callable[[Any], bool]) -> tuple[int, ...]:
    """The place of the first element of which `wrong` is true."""
    flat = next(at for at, value in enumerate(x.ravel().tolist()) if wrong(value))
    return tuple(int(at) for at in np.unravel_index(flat, x.shape)) if x.shape else ()


def describe(value: Any) -> str:
    """A number in a message."""
    return f"{value:.6g}" if isinstance(value, float) else str(gmpy2.mpfr(value, 24))


def _all_zero(x: Objects) -> bool:
    return (x.size == 1 or uniform(x)) and x.flat[0] is ZERO


def _all_one(x: Objects) -> bool:
    return (x.size == 1 or uniform(x)) and x.flat[0] is _ONE


def _broadcast(x: Objects, y: Objects) -> Objects:
    shape = np.broadcast_shapes(x.shape, y.shape)
    return x if x.shape == shape else np.broadcast_to(x, shape)


def _binary(operation: np.ufunc, x: Objects, y: Objects) -> Objects:
    shape = np.broadcast_shapes(x.shape, y.shape)
    if (uniform(x) or x.size == 1) and (uniform(y) or y.size == 1) and 0 not in shape:
        one: Objects = np.empty((1,), dtype=object)
        operation(x.reshape(-1)[:1], y.reshape(-1)[:1], out=one)
        return filled(shape, one[0])
    result: Objects = np.empty(shape, dtype=object)
    operation(x, y, out=result)
    return result
