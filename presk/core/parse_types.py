"""Reading types, and the table of the modules that they mention."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from presk.core.scan import INTEGER, Scanner
from presk.types.dim import Dim, symbol
from presk.types.type import (
    PREFIX,
    Axis,
    Composed,
    Hyper,
    HyperKind,
    Index,
    Instance,
    Key,
    Mask,
    ModuleRef,
    ModuleType,
    Named,
    Params,
    Real,
    Shape,
    Stack,
    Stacked,
    Tuple,
    Type,
)
from presk.types.type import Function as FunctionType

_KINDS: Final[Mapping[str, HyperKind]] = {kind.value: kind for kind in HyperKind}


@dataclass(slots=True)
class Modules:
    """The table of modules: what a name stands for, and the dimensions the module takes from its file."""

    refs: dict[str, ModuleRef] = field(default_factory=dict)
    hidden: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def read(self, line: Scanner) -> None:
        """A line of the table."""
        name = line.name()
        ref = line.name() if line.take("=") else name
        line.need("in")
        self.refs[name] = ModuleRef(line.string(), ref)
        self.hidden[name] = ()
        if line.keyword("over"):
            found = [line.symbol()]
            while line.take(","):
                found.append(line.symbol())
            self.hidden[name] = tuple(found)


class Types:
    """Reading types."""

    def __init__(self, line: Scanner, modules: Modules) -> None:
        self.line = line
        self.modules = modules

    def type(self) -> Type:
        """A type."""
        line = self.line
        if line.take("("):
            items = tuple(line.list(self.type, ")"))
            return FunctionType(items, self.type()) if line.take("->") else Tuple(items)
        if line.take("ℝ["):
            return Real(self.shape("]"))
        if line.take("idx["):
            bound = line.dim()
            line.need("]")
            return Index(bound, self.shape("]") if line.touches("[") and line.take("[") else Shape())
        if line.take("bool["):
            return Mask(self.shape("]"))
        if line.take("stack{"):
            count = line.dim()
            line.need("}")
            line.need("(")
            item = self.type()
            line.need(")")
            return Stack(count, item)
        name = line.name()
        if name == "params":
            return Params(self.instance())
        if name == "module":
            return ModuleType(self.instance())
        if name == "key":
            return Key()
        if name not in _KINDS:
            line.fail(f"a type is expected behind `{name}`")
        return Hyper(_KINDS[name])

    def shape(self, end: str) -> Shape:
        """Axes up to `end`."""
        prefix = None
        line = self.line
        if line.take("..."):
            prefix = PREFIX
            if line.take(end):
                return Shape((), prefix)
            line.need(",")
        return Shape(tuple(line.list(self.axis, end)), prefix)

    def axis(self) -> Axis:
        """An axis."""
        line = self.line
        start = line.at
        if line.match(INTEGER) is None and not line.sees("-"):
            name = line.name()
            if line.take(":"):
                return Axis(line.dim(), name)
        line.at = start
        return Axis(line.dim())

    def instance(self) -> Instance:
        """A module instance."""
        found = self.part()
        while self.line.take("∘"):
            found = Composed(found, self.part())
        return found

    def part(self) -> Instance:
        """A part of a composition."""
        line = self.line
        if line.take("("):
            inner = self.instance()
            line.need(")")
            return inner
        if line.take("stack{"):
            length = line.dim()
            line.need("}")
            line.need("(")
            inner = self.instance()
            line.need(")")
            return Stacked(length, inner)
        name = line.name()
        if name not in self.modules.refs:
            line.fail(f"the module `{name}` is not in the table")
        arguments: list[Dim] = []
        hidden: tuple[tuple[str, Dim], ...] = tuple((one, symbol(one)) for one in self.modules.hidden[name])
        if line.touches("{") and line.take("{"):
            while not line.sees("}") and not line.sees(";"):
                if arguments:
                    line.need(",")
                arguments.append(line.dim())
            if line.take(";"):
                hidden = tuple(line.list(self.value, "}"))
            else:
                line.need("}")
        return Named(self.modules.refs[name], tuple(arguments), hidden)

    def value(self) -> tuple[str, Dim]:
        """`D = 4*N`."""
        name = self.line.symbol()
        self.line.need("=")
        return name, self.line.dim()
