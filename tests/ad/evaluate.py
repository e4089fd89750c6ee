"""A small evaluator of core programs in float64, independent of the package's own: plain numpy, for tests alone.

A real tensor is an array, an index tensor or a mask an array of integers or truth values, a number an int or a Fraction, a key an
int, a tuple a tuple, a tree a dict by field, a stack of keys a list. What a draw gives is made up here: it depends on the key.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import erf, pi, prod, sqrt
from typing import Any

import numpy as np

from presk.core.fusion import partition
from presk.core.ir import (
    Apply,
    Call,
    Closure,
    Field,
    Fold,
    Function,
    Literal,
    MakeParams,
    MakeTuple,
    Prim,
    Program,
    Project,
)
from presk.types import trees
from presk.types.dim import Dim
from presk.types.type import Hyper, HyperKind, Index, Key, Mask, Params, Real, Shape, Stack, Tuple, Type

Value = Any


@dataclass(frozen=True)
class Scope:
    """The dimensions and the prefix of a function that runs."""

    dims: Mapping[str, int]
    prefix: tuple[int, ...]

    def length(self, dim: Dim) -> int:
        value = dim.evaluate(self.dims)
        assert value.denominator == 1
        return int(value)

    def shape(self, shape: Shape) -> tuple[int, ...]:
        front = self.prefix if shape.prefix is not None else ()
        return front + tuple(self.length(axis.length) for axis in shape.axes)


@dataclass(frozen=True)
class Made:
    """A function value."""

    function: str
    dims: Mapping[str, int]
    prefix: tuple[int, ...]
    captured: tuple[Value, ...]


def leafwise(function: Callable[..., Value], first: Value, *others: Value) -> Value:
    """A function of arrays on structures: trees and tuples item by item; keys, indices and numbers are the first's."""
    if isinstance(first, dict):
        return {
            name: leafwise(function, item, *(one[name] if isinstance(one, dict) else one for one in others))
            for name, item in first.items()
        }
    if isinstance(first, tuple):
        return tuple(leafwise(function, *items) for items in zip(first, *others))
    if isinstance(first, np.ndarray) and first.dtype == np.float64:
        return np.asarray(function(first, *others))
    return first


def zeros_like(value: Value) -> Value:
    """Zeros of a value's shape."""
    if isinstance(value, dict):
        return {name: zeros_like(item) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(map(zeros_like, value))
    return np.zeros_like(value) if isinstance(value, np.ndarray) else 0


def slice_of(stack: Value, i: int) -> Value:
    """Slice i of a stack."""
    if isinstance(stack, dict):
        return {name: slice_of(item, i) for name, item in stack.items()}
    if isinstance(stack, tuple):
        return tuple(slice_of(item, i) for item in stack)
    return np.asarray(stack[i]) if isinstance(stack, np.ndarray) else stack[i]


def with_slice(stack: Value, value: Value, i: int) -> Value:
    """A stack whose slice i is a value."""
    if isinstance(stack, dict):
        return {name: with_slice(item, value[name], i) for name, item in stack.items()}
    if isinstance(stack, tuple):
        return tuple(with_slice(item, one, i) for item, one in zip(stack, value))
    new = stack.copy()
    new[i] = value
    return new


def lay(value: np.ndarray, align: Any, axes: int, prefix: int) -> Value:
    """An operand with the result's axes, of length one where it has none; `axes` and `prefix` count the result's."""
    front = prefix if align.prefix else 0
    places = [axes + place for place in align.axes]
    order = sorted(range(len(places)), key=places.__getitem__)
    moved = value.transpose((*range(front), *(front + at for at in order)))
    shape = [1] * (prefix + axes)
    shape[:front] = moved.shape[:front]
    for place, length in zip(sorted(places), moved.shape[front:]):
        shape[prefix + place] = length
    return moved.reshape(shape)


def summed(ct: np.ndarray, align: Any, axes: int, prefix: int) -> Value:
    """The adjoint of `lay`."""
    places = [prefix + axes + place for place in align.axes]
    kept = {*places, *(range(prefix) if align.prefix else ())}
    total = ct.sum(axis=tuple(place for place in range(ct.ndim) if place not in kept))
    front = prefix if align.prefix else 0
    left = sorted(places)
    return total.transpose((*range(front), *(front + left.index(place) for place in places)))


def _gelu(x: np.ndarray) -> Value:
    return x * _phi(x)


def _phi(x: np.ndarray) -> Value:
    return np.vectorize(lambda one: (1 + erf(one / sqrt(2))) / 2, otypes=[float])(x)


def _gelu_prime(x: np.ndarray) -> Value:
    return _phi(x) + x * np.exp(-x * x / 2) / sqrt(2 * pi)


UNARY: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "neg": np.negative,
    "gelu": _gelu,
    "gelu'": _gelu_prime,
    "relu": lambda x: np.where(x > 0, x, 0.0),
    "heaviside": lambda x: np.where(x > 0, 1.0, 0.0),
    "sign": np.sign,
    "abs": np.abs,
    "exp": np.exp,
    "tanh": np.tanh,
    "sqrt": np.sqrt,
    "log": np.log,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "sin": np.sin,
    "cos": np.cos,
}
BINARY: Mapping[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "max": lambda x, y: np.where(x > y, x, y),
    "min": lambda x, y: np.where(x < y, x, y),
}
HYPER: Mapping[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "pow": lambda x, y: x**y,
    "eq": lambda x, y: x == y,
    "le": lambda x, y: x <= y,
    "ge": lambda x, y: x >= y,
    "lt": lambda x, y: x < y,
    "gt": lambda x, y: x > y,
}


def narrow(x: np.ndarray) -> Value:
    """To eight bits, as bf16 stores a number (with no end of exponents)."""
    fraction, exponent = np.frexp(x)
    return np.ldexp(np.round(fraction * 256) / 256, exponent)


class Evaluator:
    """Runs functions of a program. `calls` counts how often each was called.

    With `storage` every value that reaches memory goes through it: what a fusion group holds inside does not.
    """

    def __init__(
        self,
        program: Program,
        headers: Mapping[Any, Any],
        storage: Callable[[np.ndarray], np.ndarray] | None = None,
    ) -> None:
        self.functions = {function.name: function for function in program.functions}
        self.headers = headers
        self.storage = storage
        self.inside: dict[str, frozenset[int]] = {}
        self.calls: dict[str, int] = {}

    def run(self, name: str, args: Sequence[Value], dims: Mapping[str, int], prefix: tuple[int, ...] = ()) -> Value:
        """The value of a function."""
        self.calls[name] = self.calls.get(name, 0) + 1
        function = self.functions[name]
        assert len(args) == len(function.params), name
        scope = Scope(dims, prefix)
        body = _Body(self, function, scope)
        for place, (param, value) in enumerate(zip(function.params, args)):
            body.bind(place, param.type, value)
        if self.storage is not None and name not in self.inside:
            self.inside[name] = partition(function).interior()
        for binding in function.bindings:
            value = body.value_of(binding.type, binding.op)
            if self.storage is not None and isinstance(binding.op, Prim) and binding.var not in self.inside[name]:
                if isinstance(binding.type, Real):
                    value = np.asarray(value)
                value = leafwise(self.storage, value)
            body.bind(binding.var, binding.type, value)
        return body.values[function.returns]

    def zeros(self, type_: Type, scope: Scope, fill: float = 0.0) -> Value:
        """The zeros (or another constant) of a type."""
        match type_:
            case Real(shape):
                return np.full(scope.shape(shape), fill)
            case Index(_, shape):
                return np.zeros(scope.shape(shape), dtype=int)
            case Mask(shape):
                return np.zeros(scope.shape(shape), dtype=bool)
            case Tuple(items):
                return tuple(self.zeros(item, scope, fill) for item in items)
            case Params(instance):
                made = {}
                for field in trees.fields(instance, self.headers):
                    inner = Params(field.instance) if isinstance(field, trees.UseField) else field.type
                    made[field.name] = self.zeros(inner, scope, fill)
                return made
            case Stack(count, Key()):
                return [0] * scope.length(count)
            case Stack(count, Stack(inner, item)):
                return [self.zeros(Stack(inner, item), scope)] * scope.length(count)
            case Stack(count, Real(shape)):
                return np.zeros((scope.length(count), *scope.shape(shape)))
            case _:
                return 0

    def check(self, value: Value, type_: Type, scope: Scope, where: str) -> None:
        """That a value is one of a type: what is wrong otherwise."""
        match type_:
            case Real(shape):
                assert value.dtype == np.float64 and value.shape == scope.shape(shape), (where, str(type_), value.shape)
            case Index(_, shape) | Mask(shape):
                assert value.shape == scope.shape(shape), (where, str(type_), value.shape)
            case Tuple(items):
                assert isinstance(value, tuple) and len(value) == len(items), (where, str(type_), value)
                for one, item in zip(value, items):
                    self.check(one, item, scope, where)
            case Params(instance):
                found = trees.fields(instance, self.headers)
                assert list(value) == [field.name for field in found], (where, str(type_))
                for field in found:
                    inner = Params(field.instance) if isinstance(field, trees.UseField) else field.type
                    self.check(value[field.name], inner, scope, f"{where}.{field.name}")
            case Stack(count, item):
                assert len(value) == scope.length(count), (where, str(type_))
                for one in value:
                    self.check(one, item, scope, where)
            case Hyper() | Key():
                assert not isinstance(value, np.ndarray), (where, str(type_))
            case _:
                assert isinstance(value, Made), (where, str(type_))

    def stack(self, values: Sequence[Value], type_: Type, scope: Scope) -> Value:
        """The stack of values of a type."""
        match type_:
            case Tuple(items):
                return tuple(
                    self.stack([value[place] for value in values], item, scope) for place, item in enumerate(items)
                )
            case Params():
                zero = self.zeros(type_, scope)
                return self._stack_trees(values, zero)
            case Key() | Stack():
                return list(values)
            case _:
                zero = self.zeros(type_, scope)
                return np.stack(values) if values else np.zeros((0, *zero.shape), dtype=zero.dtype)

    def _stack_trees(self, values: Sequence[Value], zero: Value) -> Value:
        if isinstance(zero, dict):
            return {name: self._stack_trees([value[name] for value in values], item) for name, item in zero.items()}
        return np.stack(values) if values else np.zeros((0, *zero.shape))


class _Body:
    """One call of a function."""

    def __init__(self, evaluator: Evaluator, function: Function, scope: Scope) -> None:
        self.evaluator = evaluator
        self.function = function
        self.scope = scope
        self.values: dict[int, Value] = {}
        self.types: dict[int, Type] = {}

    def bind(self, var: int, type_: Type, value: Value) -> None:
        assert var not in self.values, (self.function.name, var)
        if isinstance(type_, Real | Index | Mask):
            value = np.asarray(value)
        self.evaluator.check(value, type_, self.scope, f"{self.function.name}/%{var}")
        self.values[var], self.types[var] = value, type_

    def inner(self, dims: Any, prefix: Shape | None) -> tuple[dict[str, int], tuple[int, ...]]:
        known = set(self.scope.dims)
        values = {name: self.scope.length(value) for name, value in dims if set(value.symbols()) <= known}
        return values, self.scope.shape(prefix) if prefix is not None else ()

    def value_of(self, type_: Type, op: Any) -> Value:
        values = self.values
        match op:
            case Prim(name, args, attrs):
                return self.prim(type_, name, args, dict(attrs))
            case Literal(text):
                return int(text) if text.isdigit() else Fraction(text)
            case Field(base, name):
                return values[base][name]
            case MakeParams(fields):
                assert isinstance(type_, Params)
                names = [field.name for field in trees.fields(type_.instance, self.evaluator.headers)]
                return dict(zip(names, (values[var] for var in fields), strict=True))
            case MakeTuple(items):
                return tuple(values[var] for var in items)
            case Project(base, place):
                return values[base][place]
            case Call(function, dims, prefix, args):
                return self.evaluator.run(function, [values[var] for var in args], *self.inner(dims, prefix))
            case Closure(function, dims, prefix, captured):
                return Made(function, *self.inner(dims, prefix), tuple(values[var] for var in captured))
            case Apply(function, args):
                made = values[function]
                return self.evaluator.run(
                    made.function, [*made.captured, *(values[var] for var in args)], made.dims, made.prefix
                )
            case Fold():
                return self.fold(op)
        raise AssertionError(op)

    def fold(self, op: Fold) -> Value:
        acc, before = self.values[op.acc], []
        count = self.scope.length(op.count)
        dims, prefix = self.inner(op.dims, op.prefix)
        extras = [self.values[var] for var in op.extras]
        for i in reversed(range(count)) if op.reverse else range(count):
            before.append(acc)
            slices = [slice_of(self.values[var], i) for var in op.stacked]
            args = [*slices, acc, *extras, *([i] if op.indexed else [])]
            acc = self.evaluator.run(op.function, args, dims, prefix)
        if not op.scan:
            return acc
        return acc, self.evaluator.stack(before, self.types[op.acc], self.scope)

    # --- primitives -----------------------------------------------------------------------------------------------------

    def place(self, var: int, name: str) -> int:
        """The place of a named axis of an operand, from the last."""
        shape = self.types[var].shape  # type: ignore[union-attr]
        return next(at - len(shape.axes) for at, axis in enumerate(shape.axes) if axis.name == name)

    def laid(self, var: int, align: Any, type_: Type) -> Value:
        assert isinstance(type_, Real | Mask)
        front = len(self.scope.prefix) if type_.shape.prefix is not None else 0
        return lay(self.values[var], align, len(type_.shape.axes), front)

    def prim(self, type_: Type, name: str, args: tuple[int, ...], attrs: Mapping[str, Any]) -> Value:
        given = [self.values[var] for var in args]
        if name in UNARY:
            return leafwise(UNARY[name], *given)
        if name in BINARY:
            return self.binary(type_, BINARY[name], args, attrs)
        if name.startswith("hyper_"):
            return self.hyper(name.removeprefix("hyper_"), type_, given)
        return getattr(self, f"prim_{name}")(type_, args, attrs, *given)

    def binary(self, type_: Type, function: Callable[[Any, Any], Any], args: Any, attrs: Mapping[str, Any]) -> Value:
        if not attrs:
            x, y = (self.values[var] for var in args)
            if isinstance(x, np.ndarray):
                return leafwise(lambda one: function(x, one), y)
            return leafwise(function, x, y)
        left, right = self.laid(args[0], attrs["left"], type_), self.laid(args[1], attrs["right"], type_)
        value = function(left, right)
        assert isinstance(type_, Real)
        return np.broadcast_to(value, self.scope.shape(type_.shape)).copy()

    def hyper(self, name: str, type_: Type, given: list[Any]) -> Value:
        if name == "neg":
            return -given[0]
        if name == "div":
            whole = isinstance(type_, Hyper) and type_.kind in (HyperKind.NAT, HyperKind.INT)
            return given[0] // given[1] if whole else Fraction(given[0]) / Fraction(given[1])
        return HYPER[name](*given)

    def prim_pow(self, type_: Type, args: Any, attrs: Any, x: np.ndarray) -> Value:
        n = attrs["n"].dim.natural()
        return leafwise(lambda one: one**n, x)

    def prim_powv(self, type_: Type, args: Any, attrs: Any, x: np.ndarray, n: int) -> Value:
        assert n >= 0
        return x**n

    def prim_dot(self, type_: Type, args: Any, attrs: Any, x: np.ndarray, w: np.ndarray) -> Value:
        return np.tensordot(x, w, axes=(-1, 0))

    def prim_dot_vjp_l(self, type_: Type, args: Any, attrs: Any, ct: np.ndarray, w: np.ndarray) -> Value:
        kept = w.ndim - 1
        return np.tensordot(ct, w, axes=(list(range(ct.ndim - kept, ct.ndim)), list(range(1, w.ndim))))

    def prim_dot_vjp_r(self, type_: Type, args: Any, attrs: Any, x: np.ndarray, ct: np.ndarray) -> Value:
        front = list(range(x.ndim - 1))
        return np.tensordot(x, ct, axes=(front, front))

    def prim_ein(self, type_: Type, args: Any, attrs: Any, *given: np.ndarray) -> Value:
        letters: dict[str, str] = {}

        def word(names: Sequence[str]) -> str:
            return "".join(letters.setdefault(name, chr(ord("a") + len(letters))) for name in names)

        inputs = ",".join(word(attrs[f"in{place}"].names) for place in range(len(given)))
        return np.einsum(f"{inputs}->{word(attrs['out'].names)}", *given)

    def prim_sum(self, type_: Type, args: Any, attrs: Any, x: np.ndarray) -> Value:
        name = attrs["axis"].name
        return np.asarray(x.sum() if name is None else x.sum(axis=self.place(args[0], name)))

    def prim_mean(self, type_: Type, args: Any, attrs: Any, x: np.ndarray) -> Value:
        name = attrs["axis"].name
        return np.asarray(x.mean() if name is None else x.mean(axis=self.place(args[0], name)))

    def prim_broadcast_like(self, type_: Type, args: Any, attrs: Any, ct: np.ndarray, x: np.ndarray) -> Value:
        name = attrs["axis"].name
        wide = ct if name is None else np.expand_dims(ct, x.ndim + self.place(args[1], name))
        return np.broadcast_to(wide, x.shape).copy()

    def prim_mean_vjp(self, type_: Type, args: Any, attrs: Any, ct: np.ndarray, x: np.ndarray) -> Value:
        name = attrs["axis"].name
        count = x.size if name is None else x.shape[self.place(args[1], name)]
        return self.prim_broadcast_like(type_, args, attrs, ct / count, x)

    def prim_sum_to(self, type_: Type, args: Any, attrs: Any, ct: np.ndarray, x: np.ndarray) -> Value:
        shape = self.types[args[0]].shape  # type: ignore[union-attr]
        front = len(self.scope.prefix) if shape.prefix is not None else 0
        return summed(ct, attrs["align"], len(shape.axes), front)

    def prim_sum_squares(self, type_: Type, args: Any, attrs: Any, tree: Value) -> Value:
        if isinstance(tree, dict):
            return np.asarray(sum(self.prim_sum_squares(type_, args, attrs, item) for item in tree.values()))
        return np.asarray((tree * tree).sum())

    def prim_softmax(self, type_: Type, args: Any, attrs: Any, x: np.ndarray, mask: Any = None) -> Value:
        axis = self.place(args[0], attrs["axis"].name)
        if mask is None:
            allowed = np.ones(x.shape, dtype=bool)
        else:
            front = len(self.scope.prefix) if isinstance(type_, Real) and type_.shape.prefix is not None else 0
            allowed = np.broadcast_to(lay(mask, attrs["mask"], x.ndim - front, front), x.shape)
        low = np.where(allowed, x, -np.inf)
        top = np.exp(low - low.max(axis=axis, keepdims=True))
        return top / top.sum(axis=axis, keepdims=True)

    def prim_cross_entropy(self, type_: Type, args: Any, attrs: Any, logits: np.ndarray, y: np.ndarray) -> Value:
        top = logits.max(axis=-1, keepdims=True)
        log_sum = np.log(np.exp(logits - top).sum(axis=-1)) + top[..., 0]
        return log_sum - np.take_along_axis(logits, y[..., None], axis=-1)[..., 0]

    def prim_cross_entropy_vjp(self, type_: Type, args: Any, attrs: Any, logits: Any, y: Any, ct: Any) -> Value:
        top = np.exp(logits - logits.max(axis=-1, keepdims=True))
        return (top / top.sum(axis=-1, keepdims=True) - np.eye(logits.shape[-1])[y]) * ct[..., None]

    def prim_embed(self, type_: Type, args: Any, attrs: Any, w: np.ndarray, t: np.ndarray) -> Value:
        return w[t]

    def prim_embed_vjp(self, type_: Type, args: Any, attrs: Any, t: np.ndarray, ct: np.ndarray, w: np.ndarray) -> Value:
        found = np.zeros_like(w)
        np.add.at(found, t, ct)
        return found

    def prim_one_hot(self, type_: Type, args: Any, attrs: Any, t: np.ndarray) -> Value:
        bound = self.types[args[0]].bound  # type: ignore[union-attr]
        return np.eye(self.scope.length(bound))[t]

    def prim_argmax(self, type_: Type, args: Any, attrs: Any, x: np.ndarray) -> Value:
        return x.argmax(axis=-1)

    def prim_reshape(self, type_: Type, args: Any, attrs: Any, x: np.ndarray, *_: Any) -> Value:
        assert isinstance(type_, Real)
        return x.reshape(self.scope.shape(type_.shape))

    prim_merge = prim_split = prim_reshape_like = prim_reshape

    def prim_split_heads(self, type_: Type, args: Any, attrs: Any, x: np.ndarray) -> Value:
        heads, hd = attrs["heads"].dim.natural(), attrs["hd"].dim.natural()
        return x.reshape(*x.shape[:-1], heads, hd).swapaxes(-3, -2)

    def prim_merge_heads(self, type_: Type, args: Any, attrs: Any, x: np.ndarray) -> Value:
        moved = x.swapaxes(-3, -2)
        return moved.reshape(*moved.shape[:-2], prod(moved.shape[-2:]))

    def prim_concat(self, type_: Type, args: Any, attrs: Any, x: np.ndarray, y: np.ndarray) -> Value:
        return np.concatenate([x, y], axis=self.place(args[0], attrs["axis"].name))

    def selection(self, x: np.ndarray, attrs: Mapping[str, Any]) -> tuple[Any, ...]:
        chosen: list[Any] = [slice(None)] * x.ndim
        for select in attrs.values():
            low = self.scope.length(select.lo)
            chosen[select.position] = low if select.hi is None else slice(low, self.scope.length(select.hi))
        return tuple(chosen)

    def prim_index(self, type_: Type, args: Any, attrs: Any, x: np.ndarray) -> Value:
        return np.asarray(x[self.selection(x, attrs)])

    prim_slice = prim_index

    def prim_scatter_index(self, type_: Type, args: Any, attrs: Any, ct: np.ndarray, x: np.ndarray) -> Value:
        found = np.zeros_like(x)
        found[self.selection(x, attrs)] = ct
        return found

    prim_slice_vjp = prim_scatter_index

    def prim_positions(self, type_: Type, args: Any, attrs: Any) -> Value:
        return np.arange(self.scope.length(attrs["axis"].dim))

    def prim_causal_mask(self, type_: Type, args: Any, attrs: Any) -> Value:
        length = self.scope.length(attrs["axis"].dim)
        return np.tril(np.ones((length, length), dtype=bool))

    def prim_zeros(self, type_: Type, args: Any, attrs: Any) -> Value:
        return self.evaluator.zeros(type_, self.scope)

    def prim_ones(self, type_: Type, args: Any, attrs: Any) -> Value:
        return self.evaluator.zeros(type_, self.scope, 1.0)

    def prim_pi(self, type_: Type, args: Any, attrs: Any) -> Value:
        return np.asarray(pi)

    def prim_normal(self, type_: Type, args: Any, attrs: Any, key: int) -> Value:
        assert isinstance(type_, Real)
        return np.random.default_rng(key).normal(size=self.scope.shape(type_.shape)) * float(attrs["std"].text)

    def prim_xavier_uniform(self, type_: Type, args: Any, attrs: Any, key: int) -> Value:
        assert isinstance(type_, Real)
        return np.random.default_rng(key).uniform(-1, 1, size=self.scope.shape(type_.shape))

    def prim_dropout_mask(self, type_: Type, args: Any, attrs: Any, rate: Any, key: int, x: np.ndarray) -> Value:
        kept = np.random.default_rng(key).random(x.shape) >= float(rate)
        return np.where(kept, 1 / (1 - float(rate)), 0.0)

    def prim_split_key(self, type_: Type, args: Any, attrs: Any, key: int) -> Value:
        assert isinstance(type_, Tuple)
        return tuple((key * 6364136223846793005 + place + 1) % 2**61 for place in range(len(type_.items)))

    def prim_real(self, type_: Type, args: Any, attrs: Any, x: Any) -> Value:
        return x.astype(float) if isinstance(x, np.ndarray) else np.asarray(float(x))

    def prim_retag(self, type_: Type, args: Any, attrs: Any, x: Any) -> Value:
        return x

    def prim_zeros_like(self, type_: Type, args: Any, attrs: Any, x: Any) -> Value:
        return zeros_like(x)

    def prim_set_field(self, type_: Type, args: Any, attrs: Any, tree: dict[str, Any], value: Any) -> Value:
        assert attrs["name"].text in tree
        return {**tree, attrs["name"].text: value}

    def prim_set_elem(self, type_: Type, args: Any, attrs: Any, items: tuple[Any, ...], value: Any) -> Value:
        place = attrs["place"].value
        return (*items[:place], value, *items[place + 1 :])

    def prim_set_slice(self, type_: Type, args: Any, attrs: Any, stack: Any, value: Any, i: int) -> Value:
        return with_slice(stack, value, i)

    def prim_slice_params(self, type_: Type, args: Any, attrs: Any, tree: Any) -> Value:
        return slice_of(tree, attrs["i"].value)

    def prim_scatter_params(self, type_: Type, args: Any, attrs: Any, ct: Any, tree: Any) -> Value:
        return with_slice(zeros_like(tree), ct, attrs["i"].value)

    def prim_stack_params(self, type_: Type, args: Any, attrs: Any, *given: Any) -> Value:
        zero = self.evaluator.zeros(type_, self.scope)
        for i, tree in enumerate(given):
            zero = with_slice(zero, tree, i)
        return zero


def sample(evaluator: Evaluator, type_: Type, scope: Scope, rng: np.random.Generator) -> Value:
    """A value of a type, drawn."""
    match type_:
        case Real(shape):
            return np.asarray(rng.normal(size=scope.shape(shape)))
        case Index(bound, shape):
            return np.asarray(rng.integers(0, scope.length(bound), size=scope.shape(shape)))
        case Mask(shape):
            return rng.random(scope.shape(shape)) < 0.5
        case Tuple(items):
            return tuple(sample(evaluator, item, scope, rng) for item in items)
        case Params(instance):
            made = {}
            for field in trees.fields(instance, evaluator.headers):
                inner = Params(field.instance) if isinstance(field, trees.UseField) else field.type
                made[field.name] = sample(evaluator, inner, scope, rng)
            return made
        case Key():
            return int(rng.integers(1, 2**40))
        case Hyper(HyperKind.NAT):
            return 3
        case Hyper():
            return Fraction(int(rng.integers(1, 100)), 64)
    raise AssertionError(type_)


def dot(x: Value, y: Value) -> float:
    """The inner product of two values of one type, over their reals."""
    if isinstance(x, dict):
        return sum(dot(item, y[name]) for name, item in x.items())
    if isinstance(x, tuple):
        return sum(map(dot, x, y))
    if isinstance(x, np.ndarray) and x.dtype == np.float64:
        return float((x * y).sum())
    return 0.0


def moved(x: Value, direction: Value, by: float) -> Value:
    """`x + by · direction`."""
    return leafwise(lambda one, other: one + by * other, x, direction)
