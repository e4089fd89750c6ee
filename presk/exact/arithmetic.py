"""What an arithmetic must provide for programs to be evaluated in it: arbitrary-precision reals, or balls.

Arrays are arrays of references to numbers. An operation may give an array that shares elements, or storage, with its operands.
Operands of the binary operations broadcast as numpy broadcasts. Rows are the last axis of a two-dimensional array.
Every method raises `Fault` where its value is undefined; the fault's index is a place in the result's array (or the row).
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np
from gmpy2 import mpq
from numpy.typing import NDArray

from presk.exact.values import Array, Objects

Scalar = Any


class Making(Protocol):
    """What values are made of numbers with: all that reading and drawing them needs."""

    def zeros(self, shape: tuple[int, ...]) -> Objects:
        """Zeros, without memory."""

    def ones(self, shape: tuple[int, ...]) -> Objects:
        """Ones, without memory."""

    def number(self, value: mpq) -> Scalar:
        """A rational number."""

    def from_doubles(self, values: NDArray[np.float64]) -> Objects:
        """Doubles; the same shape."""

    def normals(self, key: bytes, n: int) -> NDArray[np.float64]:
        """n draws of the standard normal distribution: those of `presk.exact.draws.normals`, however they are made."""


class Arithmetic(Making, Protocol):
    """An arithmetic over the reals."""

    def active(self) -> AbstractContextManager[object]:
        """Within it, and only within it, the methods may be called: it sets the working precision of this thread."""

    def pi(self) -> Scalar:
        """π."""

    def from_integers(self, values: Array) -> Objects:
        """Integers; the same shape."""

    def add(self, x: Objects, y: Objects) -> Objects:
        """x + y."""

    def sub(self, x: Objects, y: Objects) -> Objects:
        """x − y."""

    def mul(self, x: Objects, y: Objects) -> Objects:
        """x · y."""

    def div(self, x: Objects, y: Objects) -> Objects:
        """x / y; E7001 where y is 0."""

    def maximum(self, x: Objects, y: Objects) -> Objects:
        """x if x > y, else y."""

    def minimum(self, x: Objects, y: Objects) -> Objects:
        """x if x < y, else y."""

    def apply(self, name: str, x: Objects) -> Objects:
        """A function of one real, by the name of its primitive; E7005 outside its domain."""

    def power(self, x: Objects, n: int) -> Objects:
        """xⁿ for a natural n; x⁰ is 1."""

    def divided(self, x: Objects, n: int) -> Objects:
        """x / n for a natural n that is not 0."""

    def sums(self, rows: Objects) -> Objects:
        """The sum of each row."""

    def total(self, groups: Sequence[Sequence[Scalar]]) -> list[Scalar]:
        """The sum of each group of numbers."""

    def means(self, rows: Objects) -> Objects:
        """The mean of each row, none of which is empty."""

    def squares(self, parts: Sequence[Objects]) -> Scalar:
        """The sum of the squares of all elements of all arrays."""

    def product(self, left: Objects, right: Objects, *, last: bool) -> Objects:
        """`[T, M, K]` times `[T, K, N]`. Where the arithmetic rounds, it does so only at the last product of several."""

    def softmax(self, rows: Objects, allowed: NDArray[np.bool_] | None) -> Objects:
        """The softmax of each row over the allowed places, 0 elsewhere; E7004 for a row of some length that allows none."""

    def cross_entropy(self, rows: Objects, targets: Array) -> Objects:
        """−log softmax(row)[target] of each row."""

    def cross_entropy_vjp(self, rows: Objects, targets: Array, cts: Objects) -> Objects:
        """(softmax(row) − one-hot of the target) · ct, for each row."""

    def argmax(self, rows: Objects) -> NDArray[np.int64]:
        """The least place of the largest element of each row."""

    def sample(self, rows: Objects, draws: NDArray[np.uint64]) -> NDArray[np.int64]:
        """For each row the least place whose cumulative probability under softmax exceeds draw · 2⁻⁵³."""
