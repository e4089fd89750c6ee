"""What the generator knows while it writes a program: files, functions, what is in scope, how things are spelled.

A function is written from its result backwards. Where its body needs a value that it has not, it gets a parameter for it, or a
module gets a learnable one; so every goal can be reached, and nothing is ever refused or begun again.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tests.programs.choices import Choices, chance, pick, weighted
from tests.programs.lengths import Len, symbol
from tests.programs.types import (
    Ax,
    Axes,
    Composed,
    Hyper,
    Idx,
    Inst,
    Key,
    Mask,
    Module,
    Named,
    Real,
    Stacked,
    T,
    Tree,
    Tup,
    merge,
)

ATOM, POWER, UNARY, PRODUCT, SUM, COMPARE, LOOSE = 9, 8, 7, 6, 5, 4, 0

INPUT: Final = 2.0
"""No element of a parameter of an entry or of a module is larger."""
ARGUMENT: Final = 4.0
"""No element of an argument of a function is larger."""
LIMIT: Final = 32.0
"""No element of any value is larger, so that rounding and differences stay small."""
MOST: Final = 3
"""The largest value of a dimension."""


@dataclass(frozen=True, slots=True)
class E:
    """An expression: its text, how tightly it binds, its exact type, a bound of its elements, and whether it depends on data
    alone (on nothing that is differentiated)."""

    text: str
    prec: int
    type: T
    mag: float = 1.0
    data: bool = False


@dataclass(frozen=True, slots=True)
class Var:
    """A name in scope, or a path that begins with one."""

    text: str
    type: T
    mag: float
    data: bool


@dataclass(frozen=True, slots=True)
class Fun:
    """A lambda in scope: what it takes and gives, and what a call of it needs of lengths."""

    text: str
    takes: T
    gives: Real
    mag: float
    needs: tuple[tuple[Len, int], ...]


@dataclass(slots=True)
class Param:
    """A parameter. `kind` is value, axis or module; a module-typed one is `net : Inst`, whose tree is the next one."""

    name: str
    type: T
    data: bool = False
    default: str | None = None
    kind: str = "value"
    net: str | None = None


@dataclass(eq=False, slots=True)
class Fn:
    """A function under construction, or finished."""

    name: str
    file: "File"
    module: Module | None = None
    type_params: list[str] = field(default_factory=list)
    params: list[Param] = field(default_factory=list)
    result: T = field(default_factory=Real)
    mag: float = ARGUMENT
    data: bool = False
    rand: bool = False
    uses: bool = True
    needs: list[tuple[Len, int]] = field(default_factory=list)
    symbols: set[str] = field(default_factory=set)
    axis_names: dict[str, str] = field(default_factory=dict)
    lambdas: bool = True
    plain: bool = False
    carried: bool = False
    names: set[str] = field(default_factory=set)
    tails: set[str] = field(default_factory=set)
    banned: set[str] = field(default_factory=set)

    def require(self, length: Len, least: int) -> None:
        """Notes that nothing is defined where a length is less."""
        if length.const < least:
            self.needs.append((length, least))


@dataclass(slots=True)
class Body:
    """The text of a declaration, and whether it may stand anywhere in its file."""

    text: str
    movable: bool = True


@dataclass(eq=False, slots=True)
class File:
    """A file under construction."""

    path: str
    spelling: str
    consts: dict[str, int] = field(default_factory=dict)
    dims: dict[str, int | None] = field(default_factory=dict)
    imports: list[tuple[str, str, "File"]] = field(default_factory=list)
    aliases: dict[str, T] = field(default_factory=dict)
    body: list[Body] = field(default_factory=list)
    functions: list[Fn] = field(default_factory=list)
    members: dict[Module, list[Fn]] = field(default_factory=dict)
    texts: dict[Module, list[str]] = field(default_factory=dict)
    modules: list[tuple[Module, Fn]] = field(default_factory=list)
    models: list[Module] = field(default_factory=list)
    names: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Scope:
    """What an expression sees. `lines` are the `let`s of the block that it ends."""

    fn: Fn
    vars: list[Var] = field(default_factory=list)
    funs: list[Fun] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    depth: int = 0

    @property
    def file(self) -> File:
        """The file."""
        return self.fn.file

    def inner(self) -> "Scope":
        """The scope of a block inside."""
        return Scope(self.fn, list(self.vars), list(self.funs), [], self.depth + 1)

    def bind(self, var: Var) -> None:
        """Makes a name known; what had it before is not seen any more."""
        self.vars = [one for one in self.vars if root(one.text) != root(var.text)]
        self.funs = [one for one in self.funs if one.text != var.text]
        self.vars.append(var)


def root(path: str) -> str:
    """The name that a path begins with."""
    return path.partition(".")[0]


LOCALS: Final = (
    "x",
    "y",
    "z",
    "u",
    "v",
    "h",
    "γ",
    "ŷ",
    "x̂",
    "σ2",
    "q_",
    "acc",
    "μ",
    "t",
    "p",
    "c",
    "ω",
    "r",
    "s",
    "a",
    "b",
)
WEIGHTS: Final = ("w", "b", "γ", "β", "v", "bias", "scale", "tok", "pos", "u")
TREES: Final = ("θ", "φ", "ψ", "p1", "net_p")
AXES: Final = ("n", "m", "k", "batch", "seq", "model", "row", "col", "feat", "τ", "ch", "hid", "pix", "emb")
PLAIN_AXES: Final = ("va", "vb", "vc", "vd", "ve")
SYMBOLS: Final = ("N", "M", "B", "T")
GENERIC: Final = ("P", "Q", "R", "S")
FUNCTIONS: Final = ("helper", "part", "mix", "score", "blend", "énergie", "step", "norm_of", "inner_part", "twist")
MODULES: Final = ("Linear", "Block", "Layer", "Cell", "Gate", "Tower", "Head", "Net", "Étage", "Probe")
# A hat on an x has no composed form; the others are written in either form of the same name.
DECOMPOSED: Final = {"ŷ": "y\u0302", "énergie": "e\u0301nergie", "Étage": "E\u0301tage"}


class Writer(ABC):
    """What all parts of the generator share."""

    def __init__(self, choices: Choices, fuel: int) -> None:
        self.choices: Final = choices
        self.fuel = fuel
        self.features: Counter[str] = Counter()
        self.files: list[File] = []

    # --- the parts ----------------------------------------------------------------------------------------------------

    @abstractmethod
    def real(self, scope: Scope, goal: Real, fuel: int, data: bool = False) -> E:
        """A real tensor whose type unifies with the goal."""

    @abstractmethod
    def value(self, scope: Scope, goal: T, fuel: int, data: bool = False) -> E:
        """A value of any type."""

    @abstractmethod
    def new(self, scope: Scope, goal: Real, data: bool) -> E:
        """A parameter of the goal's type, of the function or of its module."""

    @abstractmethod
    def local(self, scope: Scope) -> str:
        """A new name for a value."""

    @abstractmethod
    def calls(self, scope: Scope, goal: Real, data: bool) -> list[tuple[int, str]]:
        """Productions that call something, with weights."""

    # --- decisions ----------------------------------------------------------------------------------------------------

    def chance(self, one_in: int) -> bool:
        """True once in so many times."""
        return chance(self.choices, one_in)

    def use(self, *features: str) -> None:
        """Notes what the program uses."""
        self.features.update(features)

    # --- spelling -----------------------------------------------------------------------------------------------------

    def sign(self, file: File, unicode: str, ascii_: str) -> str:
        """One of the two spellings of a symbol."""
        if file.spelling == "unicode":
            return unicode
        if file.spelling == "ascii" or self.chance(2):
            self.use("ascii")
            return ascii_
        return unicode

    def name(self, file: File, name: str) -> str:
        """A name, now and then in its decomposed form."""
        if name in DECOMPOSED and file.spelling == "mixed" and self.chance(2):
            self.use("nfd")
            return DECOMPOSED[name]
        return name

    def length(self, file: File, length: Len) -> str:
        """A length as text that may stand in a sum."""
        terms = [f"{count}*{name}" if count > 1 else name for name, count in length.terms]
        if not terms:
            names = [name for name, value in file.consts.items() if value == length.const]
            if names and self.chance(2):
                self.use("constant")
                return pick(self.choices, names)
            return str(length.const)
        if length.const:
            terms.append(str(length.const))
        if len(terms) > 1:
            self.use("compound length")
            if self.chance(8):
                terms.reverse()
        text = " + ".join(terms)
        if self.chance(24):
            self.use("odd length")
            return pick(self.choices, (f"(2*({text})) / 2", f"{text} + 1 - 1", f"1*({text})"))
        return text

    def axis(self, file: File, axis: Ax) -> str:
        """An axis of a type."""
        length = self.length(file, axis.length)
        return f"{axis.name}: {length}" if axis.name else length

    def axes(self, file: File, axes: Axes, open_: bool = False) -> str:
        """The axes of a type."""
        return ", ".join([*(["..."] if open_ else []), *(self.axis(file, axis) for axis in axes)])

    def type(self, file: File, type_: T) -> str:
        """A type."""
        for name, meant in file.aliases.items():
            if meant == type_ and self.chance(2):
                self.use("alias")
                return name
        match type_:
            case Real(axes, open_):
                reals = self.sign(file, "ℝ", "Real")
                inner = self.axes(file, axes, open_)
                return f"{reals}[{inner}]" if inner or self.chance(2) else reals
            case Idx(bound, axes, open_):
                inner = self.axes(file, axes, open_)
                text = f"idx[{self.length(file, bound)}]"
                return f"{text}[{inner}]" if inner or self.chance(4) else text
            case Mask(axes):
                return f"bool[{self.axes(file, axes)}]"
            case Hyper(kind):
                return kind
            case Key():
                return "key"
            case Tup(items):
                return f"({', '.join(self.type(file, item) for item in items)})"
            case Tree(inst):
                assert isinstance(inst, Named)
                return f"params {self.module_path(file, inst.module)}{self.arguments(file, inst.args)}"

    def arguments(self, file: File, args: Sequence[Len]) -> str:
        """Dimension arguments in braces, if there are any."""
        return f"{{{', '.join(self.length(file, arg) for arg in args)}}}" if args else ""

    def module_path(self, file: File, module: Module) -> str:
        """A module's name as a file reaches it."""
        own = module in file.members or module in file.models
        return self.path(file, module.name, own)

    def path(self, file: File, name: str, own: bool) -> str:
        """A name of this file, or of the imported one."""
        if own:
            return self.name(file, name)
        return f"{file.imports[0][0]}.{self.name(file, name)}"

    def inst(self, file: File, inst: Inst, tight: bool = False) -> str:
        """A module expression."""
        match inst:
            case Named(module, args):
                return self.module_path(file, module) + self.arguments(file, args)
            case Stacked(count, inner):
                return f"stack{{{self.length(file, count)}}}({self.inst(file, inner)})"
            case Composed(outer, inner):
                left = self.inst(file, outer)
                text = f"{left} {self.sign(file, '∘', '<<')} {self.inst(file, inner, tight=True)}"
                return f"({text})" if tight else text

    # --- names --------------------------------------------------------------------------------------------------------

    def fresh(self, taken: set[str], pool: Sequence[str]) -> str:
        """A name that is not taken, and is from now on."""
        for name in pool:
            if name not in taken:
                taken.add(name)
                return name
        stem, count = pool[0], 2
        while f"{stem}{count}" in taken:
            count += 1
        taken.add(f"{stem}{count}")
        return f"{stem}{count}"

    def fresh_axis(self, scope: Scope, taken: Sequence[str | None] = ()) -> str:
        """An axis name that is not among those taken, nor among those that `...` may stand for."""
        fn = scope.fn
        pool = [name for name in (PLAIN_AXES if fn.plain else AXES) if name not in taken and name not in fn.banned]
        return pick(self.choices, pool[:5])

    # --- lengths ------------------------------------------------------------------------------------------------------

    def symbols(self, scope: Scope) -> list[str]:
        """The dimensions that may be mentioned."""
        own = list(scope.fn.type_params)
        if scope.fn.module is not None:
            own += scope.fn.module.dims
        # A generic function mentions nothing but what its calls give it.
        return own if own or scope.fn.plain else list(scope.file.dims)

    def some_length(self, scope: Scope, least: int = 0) -> Len:
        """A length for an axis of its own; `least` for every value of its symbols."""
        names = self.symbols(scope)
        kinds = [(4, "const"), *([(6, "symbol"), (1, "plus"), (1, "twice")] if names else [])]
        kind = weighted(self.choices, kinds)
        if kind == "const":
            return Len(max(least, pick(self.choices, (2, 1, 3) if not self.chance(30) else (0,))))
        name = symbol(pick(self.choices, names))
        scope.fn.symbols.update(name.symbols())
        found = name if kind == "symbol" else name + 1 if kind == "plus" else name.times(2)
        return found if found.const >= least else found + (least - found.const)

    def some_bound(self, scope: Scope) -> Len:
        """A bound of indices: 0 at some values of its symbols, perhaps, but not at all of them."""
        found = self.some_length(scope, 0 if self.symbols(scope) and self.chance(3) else 1)
        return Len(1) if found == Len() else found

    def some_axes(self, scope: Scope, most: int, named: bool = False, least: int = 0) -> Axes:
        """Axes of a tensor."""
        if not scope.fn.plain and not self.chance(3):
            near = self.near(scope, most, named, least)
            if near is not None:
                return near
        if most >= 2 and not scope.fn.plain and self.chance(8):
            return self.twins(scope, most, least)
        heads = scope.file.consts.get("H")
        if heads is not None and most >= 2 and not scope.fn.plain and "seq" not in scope.fn.banned and self.chance(6):
            width = heads * scope.file.consts["HD"]
            return (Ax(self.some_length(scope, least), "seq"), Ax(Len(width), "model"))
        count = pick(self.choices, (1, 2, 0, 1, 2, 3)[: 3 if most < 3 else 6])
        axes: list[Ax] = []
        for _ in range(min(count, most)):
            name = None
            if named or not self.chance(4):
                name = self.fresh_axis(scope, [axis.name for axis in axes])
            axes.append(Ax(self.some_length(scope, least), name))
        return tuple(axes)

    def near(self, scope: Scope, most: int, named: bool, least: int) -> Axes | None:
        """The axes of a tensor in scope."""
        known = [
            var.type.axes
            for var in scope.vars
            if isinstance(var.type, Real)
            and not var.type.open
            and len(var.type.axes) <= most
            and (not named or all(axis.name for axis in var.type.axes))
            and all(axis.length.const >= least for axis in var.type.axes)
        ]
        return known[-1 - self.choices.below(len(known))] if known else None

    def twins(self, scope: Scope, most: int, least: int) -> Axes:
        """An axis and its copy, as scores of attention have them, with another axis in front now and then."""
        name = self.fresh_axis(scope)
        length = self.some_length(scope, least)
        axes = (Ax(length, name), Ax(length, f"{name}2"))
        if most >= 3 and self.chance(3):
            return (Ax(self.some_length(scope, least), self.fresh_axis(scope, [name])), *axes)
        return axes

    # --- expressions --------------------------------------------------------------------------------------------------

    def number(self) -> str:
        """A positive decimal or natural, at most 2."""
        return pick(self.choices, ("0.5", "2", "1", "0.25", "1.5", "3e-1", "0.125", "0.1"))

    def scalar(self, scope: Scope, text: str) -> str:
        """A number as a real."""
        if self.chance(3):
            return f"real({text})"
        return f"({text} : {self.sign(scope.file, 'ℝ', 'Real')})"

    def ascribe(self, scope: Scope, e: E, type_: T) -> E:
        """The expression with its type said."""
        self.use("ascription")
        return E(f"({e.text} : {self.type(scope.file, type_)})", ATOM, e.type, e.mag, e.data)

    def exact(self, scope: Scope, e: E, goal: Real | Idx | Mask) -> E:
        """The expression with every name that the goal has."""
        assert isinstance(e.type, Real | Idx | Mask)
        have = e.type
        if all(mine.name or not wanted.name for mine, wanted in zip(have.axes, goal.axes)):
            return e
        merged = merge(have.axes, goal.axes)
        assert merged is not None
        said = with_axes(goal, merged)
        done = self.ascribe(scope, e, said)
        return E(done.text, done.prec, said, e.mag, e.data)

    def settle(self, scope: Scope, e: E, limit: float = LIMIT) -> E:
        """The expression, brought within bounds if it may be large."""
        if e.mag <= limit:
            return e
        kind = self.choices.below(4)
        if kind == 3:
            self.use("clamp")
            low, high = self.scalar(scope, "-1"), self.scalar(scope, "1.5")
            return E(f"clamp({e.text}, {low}, {high})", ATOM, e.type, 1.5, e.data)
        return E(f"{('tanh', 'sin', 'sigmoid')[kind]}({e.text})", ATOM, e.type, 1.0, e.data)


def tight(e: E, prec: int) -> str:
    """The text of an operand, in parentheses if it binds less tightly. Two minus signs in a row would be a comment."""
    return e.text if e.prec >= prec and not e.text.startswith("-") else f"({e.text})"


def with_axes(type_: Real | Idx | Mask, axes: Axes) -> Real | Idx | Mask:
    """The type with other axes."""
    match type_:
        case Real(_, open_):
            return Real(axes, open_)
        case Idx(bound, _, open_):
            return Idx(bound, axes, open_)
        case Mask():
            return Mask(axes)


def without(axes: Axes, place: int) -> Axes:
    """The axes but for one."""
    return axes[:place] + axes[place + 1 :]


def spread(axes: Axes, place: int, axis: Ax) -> Axes:
    """The axes with one more."""
    return (*axes[:place], axis, *axes[place:])


def size(axes: Axes, values: Mapping[str, int] | None = None) -> int:
    """How many elements there are, at most."""
    total = 1
    for axis in axes:
        total *= axis.length.at(values if values is not None else dict.fromkeys(axis.length.symbols(), MOST))
    return total
