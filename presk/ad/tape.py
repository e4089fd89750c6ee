"""A function under construction: bindings with their numbers, types and purposes.

Numbers come from two places: a binding that stands for one of another function is `put` under a given number, a new one is
`emit`ted under the next free number. So numbers need not rise along a body; each is defined once and before its use.
"""

from collections.abc import Sequence

from presk.ad.kinds import same, whole
from presk.ad.provenance import Purpose
from presk.core.ir import Binding, Function, Literal, MakeTuple, Operation, Param, Prim, Project
from presk.prims.attrs import Align, Attrs
from presk.types.type import SCALAR, Hyper, HyperKind, Real, Tuple, Type


class Tape:
    """A body that grows. `doing` sets what the bindings that follow are for."""

    def __init__(self, name: str, dims: tuple[str, ...], params: Sequence[Param], first: int, primal: str) -> None:
        self.name = name
        self.dims = dims
        self.params = tuple(params)
        self.primal = primal
        self.types: dict[int, Type] = {place: param.type for place, param in enumerate(self.params)}
        self.bindings: list[Binding] = []
        self.purposes: list[Purpose] = []
        self.next = first
        self._text = ""
        self._source: int | None = None

    def doing(self, text: str, source: int | None = None) -> None:
        """Sets the purpose of the bindings that follow, and the primal binding they are made from."""
        self._text, self._source = text, source

    def put(self, var: int, name: str | None, type_: Type, op: Operation) -> int:
        """A binding under a given number."""
        assert var not in self.types, (self.name, var)
        self.types[var] = type_
        self.bindings.append(Binding(var, name, type_, op))
        self.purposes.append(Purpose(self.name, var, self._text, self.primal, self._source))
        return var

    def emit(self, type_: Type, op: Operation, name: str | None = None) -> int:
        """A binding under the next free number."""
        var = self.next
        self.next += 1
        return self.put(var, name, type_, op)

    def finish(self, returns: int, result: Type | None = None) -> Function:
        """The function."""
        type_ = self.types[returns] if result is None else result
        return Function(self.name, self.dims, self.params, type_, tuple(self.bindings), returns)

    # --- what rules are written in --------------------------------------------------------------------------------------

    def prim(self, type_: Type, name: str, *args: int, attrs: Attrs = ()) -> int:
        """A primitive."""
        return self.emit(type_, Prim(name, args, attrs))

    def like(self, name: str, x: int) -> int:
        """A primitive of one operand, of its type."""
        return self.prim(self.types[x], name, x)

    def joined(self, name: str, x: int, y: int, align: Align | None = None) -> int:
        """`name x, y` of x's type, y aligned in x; without an alignment both have one type, or x is a tree and y a scalar."""
        type_ = self.types[x]
        if align is None:
            return self.prim(type_, name, x, y, attrs=same(type_))
        assert isinstance(type_, Real)
        return self.prim(type_, name, x, y, attrs=(("left", whole(type_.shape)), ("right", align)))

    def literal(self, value: int) -> int:
        """A natural number."""
        return self.emit(Hyper(HyperKind.NAT), Literal(str(value)))

    def number(self, value: int) -> int:
        """A natural number as a real."""
        return self.prim(Real(SCALAR), "real", self.literal(value))

    def scaled(self, value: int, x: int) -> int:
        """`value · x`, for a real tensor x."""
        return self.joined("mul", x, self.number(value), Align(False, ()))

    def sum_to(self, ct: int, operand: int, align: Align) -> int:
        """The adjoint of a broadcast of `operand`."""
        return self.prim(self.types[operand], "sum_to", ct, operand, attrs=(("align", align),))

    def item(self, base: int, place: int) -> int:
        """An item of a tuple."""
        type_ = self.types[base]
        assert isinstance(type_, Tuple)
        return self.emit(type_.items[place], Project(base, place))

    def tuple(self, items: Sequence[int]) -> int:
        """A tuple."""
        return self.emit(Tuple(tuple(self.types[item] for item in items)), MakeTuple(tuple(items)))

    def coerced(self, value: int, type_: Type) -> int:
        """The value under a type that differs in axis names alone."""
        return value if self.types[value] == type_ else self.prim(type_, "retag", value)
