"""Hand-made core programs, and exact references that know nothing of the package."""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import gmpy2
import mpmath  # type: ignore[import-untyped]  # has no types
import numpy as np
from gmpy2 import mpfr, mpq

from presk.core.ir import Binding, Function, Operation, Param, Prim, Program
from presk.exact.interpreter import Interpreter
from presk.exact.reals import Reals
from presk.exact.values import Real, Value, gathered
from presk.prims.attrs import Align, Attr
from presk.types.dim import Dim, constant, symbol
from presk.types.type import Axis, Index, Mask, Shape, Type
from presk.types.type import Real as RealType

DIGITS = 2000  # bits of mpmath's references


def dim(length: int | str | Dim) -> Dim:
    """A length: a number, a symbol, a form."""
    if isinstance(length, Dim):
        return length
    return constant(length) if isinstance(length, int) else symbol(length)


def shape(*axes: Any, prefix: bool = False) -> Shape:
    """A shape from lengths and (name, length) pairs."""
    found = tuple(Axis(dim(axis[1]), axis[0]) if isinstance(axis, tuple) else Axis(dim(axis)) for axis in axes)
    return Shape(found, "..." if prefix else None)


def real(*axes: Any, prefix: bool = False) -> RealType:
    """A real tensor's type."""
    return RealType(shape(*axes, prefix=prefix))


def idx(bound: int | str | Dim, *axes: Any, prefix: bool = False) -> Index:
    """An index tensor's type."""
    return Index(dim(bound), shape(*axes, prefix=prefix))


def mask(*axes: Any, prefix: bool = False) -> Mask:
    """A mask's type."""
    return Mask(shape(*axes, prefix=prefix))


def whole(rank: int, prefix: bool = False) -> Align:
    """An operand that is as large as the result."""
    return Align(prefix, tuple(range(-rank, 0)))


class Body:
    """A function under construction: parameters, then bindings."""

    def __init__(self, name: str, *params: tuple[str, Type], dims: Iterable[str] = ()) -> None:
        self.name = name
        self.params = tuple(Param(*param) for param in params)
        self.dims = tuple(dims)
        self.bindings: list[Binding] = []

    def bind(self, type_: Type, op: Operation, name: str | None = None) -> int:
        """Adds a binding; its variable."""
        var = len(self.params) + len(self.bindings)
        self.bindings.append(Binding(var, name, type_, op))
        return var

    def prim(self, type_: Type, name: str, /, *args: int, **attrs: Attr) -> int:
        """Adds a primitive."""
        return self.bind(type_, Prim(name, args, tuple(attrs.items())))

    def done(self, returns: int | None = None) -> Function:
        """The function; it returns its last binding unless told otherwise."""
        var = len(self.params) + len(self.bindings) - 1 if returns is None else returns
        types = [param.type for param in self.params] + [binding.type for binding in self.bindings]
        return Function(self.name, self.dims, self.params, types[var], tuple(self.bindings), var)


def evaluate(
    functions: Function | Sequence[Function],
    *args: Value,
    dims: dict[str, int] | None = None,
    bits: int = 128,
    headers: Any = None,
    m: Any = None,
) -> Any:
    """The value of the first function."""
    many = (functions,) if isinstance(functions, Function) else tuple(functions)
    interpreter = Interpreter(Program(many), Reals(bits) if m is None else m, headers or {})
    return interpreter.run(many[0].name, list(args), dims or {})


def primitive(
    name: str,
    result: Type,
    operands: Sequence[tuple[Type, Value]],
    /,
    *,
    bits: int = 128,
    m: Any = None,
    dims: Any = None,
    **attrs: Attr,
) -> Any:
    """The value of one primitive."""
    body = Body("f", *((f"x{at}", type_) for at, (type_, _) in enumerate(operands)), dims=dims or ())
    body.prim(result, name, *range(len(operands)), **attrs)
    return evaluate(body.done(), *(value for _, value in operands), bits=bits, m=m, dims=dims)


def tensor(values: Any, bits: int = 64) -> Real:
    """A real tensor from nested lists of numbers, or an array (exact fractions are rounded at `bits`)."""
    array = np.array(values, dtype=object)
    return Real(gathered([number(value, bits) for value in array.ravel().tolist()], array.shape))


def grid(*lengths: int) -> Real:
    """Different small integers."""
    return tensor(np.arange(1, 1 + int(np.prod(lengths))).reshape(lengths))


def number(value: Any, bits: int = 64) -> Any:
    """One number."""
    if isinstance(value, Fraction):
        return mpfr(mpq(value.numerator, value.denominator), bits)
    return value if isinstance(value, mpfr) else mpfr(value, bits)


def fractions(value: Value) -> Any:
    """A tensor's elements as nested lists of fractions."""
    assert isinstance(value, Real), value
    return np.array([fraction(one) for one in value.data.ravel()], dtype=object).reshape(value.data.shape).tolist()


def fraction(one: Any) -> Fraction:
    """An MPFR number as a fraction."""
    return Fraction(*map(int, one.as_integer_ratio()))


def rounded(value: Fraction, bits: int) -> Fraction:
    """A fraction rounded to nearest even at so many bits, by integer arithmetic."""
    if value == 0:
        return value
    size = abs(value)
    power = size.numerator.bit_length() - size.denominator.bit_length() - bits
    while size >= Fraction(2) ** (power + bits):
        power += 1
    while size < Fraction(2) ** (power + bits - 1):
        power -= 1
    scaled = size / Fraction(2) ** power
    whole_part, rest = divmod(scaled.numerator, scaled.denominator)
    twice = 2 * rest
    if twice > scaled.denominator or (twice == scaled.denominator and whole_part % 2):
        whole_part += 1
    result = whole_part * Fraction(2) ** power
    return result if value > 0 else -result


def precise(one: Any) -> Any:
    """A number in mpmath, exactly."""
    value = fraction(one) if isinstance(one, mpfr) else Fraction(one)
    with mpmath.workprec(DIGITS):
        return mpmath.mpf(value.numerator) / value.denominator


def from_mpmath(value: Any, bits: int) -> Any:
    """An mpmath number rounded to nearest even, as an MPFR number."""
    with mpmath.workprec(DIGITS):
        sign, mantissa, exponent, _ = mpmath.mpf(value)._mpf_
    exact = Fraction((-1) ** sign * int(mantissa)) * Fraction(2) ** exponent
    found = rounded(exact, bits)
    return mpfr(mpq(found.numerator, found.denominator), max(2, bits))


def context(bits: int) -> Any:
    """A gmpy2 context."""
    return gmpy2.context(precision=bits)
