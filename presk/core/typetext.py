"""Types in the text form of the core, and the table of the modules they mention."""

from presk.core.spelling import dim_text, name_text, quoted, symbol_text
from presk.types.dim import symbol
from presk.types.type import (
    Axis,
    Composed,
    Hyper,
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
    TypeVar,
)
from presk.types.type import Function as FunctionType


class ModuleTable:
    """The modules that a program mentions, each under a name of its own, with the names of the dimensions it takes from its
    file."""

    def __init__(self) -> None:
        self.names: dict[ModuleRef, str] = {}
        self.hidden: dict[ModuleRef, tuple[str, ...]] = {}

    def meet(self, instance: Named) -> None:
        """Adds a module."""
        ref = instance.module
        if ref in self.names:
            return
        name, count = ref.name, 1
        while name in self.names.values():
            count += 1
            name = f"{ref.name}_{count}"
        self.names[ref] = name
        self.hidden[ref] = tuple(one for one, _ in instance.hidden)

    def lines(self) -> list[str]:
        """The table at the top of a text."""
        found = []
        for ref, name in self.names.items():
            renamed = f" = {name_text(ref.name)}" if ref.name != name else ""
            hidden = f" over {', '.join(map(symbol_text, self.hidden[ref]))}" if self.hidden[ref] else ""
            file = quoted(ref.file)
            found.append(f"module {name_text(name)}{renamed} in {file}{hidden}")
        return found


class TypePrinter:
    """Types as text, with the modules they mention."""

    def __init__(self) -> None:
        self.modules = ModuleTable()

    def shape(self, shape: Shape) -> str:
        """The inside of the brackets."""
        front = ["..."] if shape.prefix is not None else []
        return ", ".join([*front, *map(self.axis, shape.axes)])

    def axis(self, axis: Axis) -> str:
        """An axis."""
        return dim_text(axis.length) if axis.name is None else f"{name_text(axis.name)}: {dim_text(axis.length)}"

    def instance(self, instance: Instance) -> str:
        """A module instance."""
        match instance:
            case Named(ref, arguments, hidden):
                self.modules.meet(instance)
                inner = ", ".join(map(dim_text, arguments))
                usual = tuple((name, symbol(name)) for name in self.modules.hidden[ref])
                if hidden != usual:
                    inner += f"; {', '.join(f'{symbol_text(name)} = {dim_text(value)}' for name, value in hidden)}"
                name = name_text(self.modules.names[ref])
                return f"{name}{{{inner}}}" if inner else name
            case Stacked(length, inner_one):
                return f"stack{{{dim_text(length)}}}({self.instance(inner_one)})"
            case Composed(outer, inner_one):
                front = self.instance(outer)
                back = self.instance(inner_one)
                return f"{front} ∘ ({back})" if isinstance(inner_one, Composed) else f"{front} ∘ {back}"

    def type(self, type_: Type) -> str:
        """A type."""
        match type_:
            case Real(shape):
                return f"ℝ[{self.shape(shape)}]"
            case Index(bound, shape):
                inner = f"[{self.shape(shape)}]" if shape != Shape() else ""
                return f"idx[{dim_text(bound)}]{inner}"
            case Mask(shape):
                return f"bool[{self.shape(shape)}]"
            case Hyper(kind):
                return kind.value
            case Key():
                return "key"
            case Tuple(items):
                return f"({', '.join(map(self.type, items))})"
            case Params(instance):
                return f"params {self.instance(instance)}"
            case ModuleType(instance):
                return f"module {self.instance(instance)}"
            case FunctionType(params, result):
                return f"({', '.join(map(self.type, params))}) -> {self.type(result)}"
            case Stack(count, item):
                return f"stack{{{dim_text(count)}}}({self.type(item)})"
            case TypeVar():
                raise ValueError("an unknown type in a core program")
