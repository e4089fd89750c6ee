"""Whole programs: a file with an entry whose value is a real number, the gradient of it, and what both are made of."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

from tests.programs.calls import Calls, bare_symbols
from tests.programs.choices import pick
from tests.programs.lengths import Len
from tests.programs.state import ATOM, MOST, SUM, SYMBOLS, Body, E, File, Fn, Param, Scope
from tests.programs.types import Ax, Idx, Real, T, Tree, Tup

VALUE: Final = "objective"
GRADIENT: Final = "slope"
MAIN: Final = "main.psk"
LIBRARY: Final = "lib.psk"


@dataclass(frozen=True, slots=True)
class Entry:
    """A function to run: the names and types of its parameters; `default` says which may be left out."""

    name: str
    params: tuple[tuple[str, T], ...]


@dataclass(frozen=True, slots=True, repr=False)
class Generated:
    """A program without errors.

    `files` by name, the main one first; `value` an entry that gives ℝ[], `gradient` one with the same parameters that gives its
    gradient in those at the places `inputs`. At the `settings` of the dimensions both are defined; at those `undefined` some
    operation is not, by the types alone. `parts` are the declarations of the main file and whether each may stand anywhere.
    """

    files: Mapping[str, str]
    parts: tuple[tuple[str, bool], ...]
    value: Entry
    gradient: Entry
    inputs: tuple[int, ...]
    dims: tuple[str, ...]
    settings: tuple[Mapping[str, int], ...]
    undefined: tuple[Mapping[str, int], ...]
    features: frozenset[str]

    def __repr__(self) -> str:
        texts = "\n".join(f"-- {name} --\n{text}" for name, text in self.files.items())
        return f"{texts}\n-- gradient in {self.inputs}; dimensions {self.settings[:1]} --"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Shows a failing program as its text."""
        printer.text(repr(self))

    def setting(self, seed: int) -> dict[str, int]:
        """Values of the dimensions at which the program is defined."""
        return dict(random.Random(seed).choice(self.settings))


class Programs(Calls):
    """Whole programs."""

    def program(self) -> Generated:
        """A program."""
        spelling = pick(self.choices, ("unicode", "unicode", "mixed", "ascii"))
        library = self.library() if self.chance(4) else None
        main = File(MAIN, spelling)
        self.files.append(main)
        if library is not None:
            self.use("import")
            main.imports.append(("lib", LIBRARY, library))
            main.names.add("lib")
        self.heading(main)
        fn = Fn(VALUE, main)
        main.names.add(VALUE)
        scope = Scope(fn)
        for _ in range(1 + self.choices.below(4)):
            self.statement(scope, 3)
        e = self.woven(scope, self.real(scope, Real(), 4))
        e = self.differentiable(scope, e)
        self.complete(fn, scope, False)
        for param in fn.params:
            param.default = None
        fn.mag = e.mag
        self.declare(fn, scope, e, False)
        inputs = self.gradient(main, fn)
        return self.finished(main, library, fn, inputs)

    def heading(self, file: File) -> None:
        """Constants, dimensions, aliases."""
        file.consts["K"] = pick(self.choices, (2, 3, 1))
        if self.chance(3):
            file.consts |= {"H": 2, "HD": pick(self.choices, (1, 2))}
        for name in SYMBOLS[: 1 + self.choices.below(3)]:
            file.dims[name] = 4 if self.chance(4) else None
        file.names |= {*file.consts, *file.dims}
        if self.chance(3):
            axes = self.some_axes(Scope(Fn("", file)), 2, named=True)
            file.aliases["Acts"] = Real(axes)
            file.names.add("Acts")
        lines = []
        for name, value in file.consts.items():
            kind = " : nat" if not self.chance(3) else ""
            shown = f"{value}"
            if name == "HD" and self.chance(2):
                shown = f"{value}*H / 2"
            elif self.chance(6):
                shown = f"{2 * value} / 2"
            lines.append(Body(f"const {name}{kind} = {shown}", movable=False))
        for name, bound in file.dims.items():
            if bound is not None:
                self.use("bounded dimension")
            lines.append(Body(f"dim {name}" + (f" <= {bound}" if bound is not None else "")))
        for name, type_ in file.aliases.items():
            known, file.aliases = file.aliases, {}
            lines.append(Body(f"type {name} = {self.type(file, type_)}"))
            file.aliases = known
        if self.chance(6):
            self.use("static assert")
            first = next(iter(file.dims))
            lines.append(Body(f"static assert {first} + K >= K"))
        file.body = [*lines, *file.body]

    def library(self) -> File:
        """A file that the main one imports: it has functions and modules of its own."""
        file = File(LIBRARY, pick(self.choices, ("unicode", "mixed", "ascii")))
        self.files.append(file)
        self.heading(file)
        for _ in range(1 + self.choices.below(2)):
            scope = Scope(Fn("", file))
            goal = Real(self.some_axes(scope, 2))
            if self.chance(2):
                self.new_module(scope, goal, 2)
            else:
                self.new_function(scope, goal, 2, False)
        return file

    def differentiable(self, scope: Scope, e: E) -> E:
        """Makes sure that there is something to differentiate in."""
        fn = scope.fn
        if any(_real(param.type) and not param.data for param in fn.params):
            return e
        x = self.parameter(scope, Real((Ax(self.some_length(scope), "n"),)), False)
        front = e.text if e.prec >= SUM else f"({e.text})"
        return E(f"{front} + sum(sin({x.text}))", SUM, Real(), e.mag + 6)

    def gradient(self, file: File, fn: Fn) -> tuple[int, ...]:
        """Declares the gradient; the places of the parameters in which it is taken."""
        able = [
            place
            for place, param in enumerate(fn.params)
            if _real(param.type) and not param.data and param.kind == "value"
        ]
        wanted = able
        if len(able) > 1 and self.chance(3):
            wanted = [pick(self.choices, able)]
        elif len(able) > 1:
            first = self.choices.below(len(able))
            wanted = [place for at, place in enumerate(able) if at == first or not self.chance(2)]
        names = {place: fn.params[place].name for place in wanted}
        if self.chance(3):
            names = {place: self.fresh(fn.names, ("v1", "v2", "v3", "v4")) for place in wanted}
        given = []
        for place, param in enumerate(fn.params):
            given.append(names.get(place, param.name))
        call = f"{VALUE}({', '.join(given)})"
        lam = self.sign(file, "λ ", "\\")
        several = len(wanted) > 1
        pattern = ", ".join(names[place] for place in wanted)
        at = ", ".join(fn.params[place].name for place in wanted)
        function = f"{lam}{f'({pattern})' if several else pattern}. {call}"
        point = f"({at})" if several else at
        lines: list[str] = []
        form = self.choices.below(4)
        if form == 3:
            self.use("grad of a named lambda")
            lines.append(f"let whole = {function}")
            text = f"grad(whole)({point})"
        elif form == 2:
            self.use("grad with a name")
            lines.append(f"let go = grad({function})")
            text = f"go({point})"
        else:
            text = f"grad({function})({point})"
        self.use("grad of a tuple" if several else "grad")
        types = [fn.params[place].type for place in wanted]
        if any(isinstance(type_, Tree) for type_ in types):
            self.use("grad of a tree")
        own = Fn(GRADIENT, file, rand=fn.rand)
        own.params = [Param(param.name, param.type, param.data, None, param.kind, param.net) for param in fn.params]
        shown = [
            f"params {fn.params[place].net}" if fn.params[place].net else self.type(file, type_)
            for place, type_ in zip(wanted, types)
        ]
        scope = Scope(own, lines=lines)
        result = f"({', '.join(shown)})" if several else shown[0]
        text_all = self.function(own, scope, E(text, ATOM, Real()), inferred=True)
        if not self.chance(6):
            head, mark, body = text_all.partition(" uses Rand =" if own.rand else " =")
            assert mark
            text_all = f"{head} -> {result}{mark}{body}"
        file.body.append(Body(text_all))
        return tuple(wanted)

    def finished(self, main: File, library: File | None, fn: Fn, inputs: tuple[int, ...]) -> Generated:
        """The record of the program."""
        files = {MAIN: _text(main)}
        if library is not None:
            files[LIBRARY] = _text(library)
        params = tuple((param.name, param.type) for param in fn.params if param.kind == "value")
        skipped = [place for place, param in enumerate(fn.params) if param.kind != "value"]
        places = tuple(place - sum(one < place for one in skipped) for place in inputs)
        dims = tuple(sorted(set().union(*(bare_symbols(param.type) for param in fn.params), fn.symbols)))
        needs = list(fn.needs)
        for _, type_ in params:
            needs += [(bound, 1) for bound in _bounds(type_)]
        defined: list[dict[str, int]] = []
        undefined: list[dict[str, int]] = []
        for values in product(range(MOST, -1, -1), repeat=len(dims)):
            setting = dict(zip(dims, values))
            good = all(length.at(setting) >= least for length, least in needs)
            (defined if good else undefined).append(setting)
        return Generated(
            files,
            tuple((body.text, body.movable) for body in main.body),
            Entry(VALUE, params),
            Entry(GRADIENT, params),
            places,
            dims,
            tuple(defined),
            tuple(undefined),
            frozenset(self.features),
        )


def _text(file: File) -> str:
    """A file's text."""
    heads = [f'import "{path}" as {alias}' for alias, path, _ in file.imports]
    return "\n\n".join([*heads, *(body.text for body in file.body)]) + "\n"


def _real(type_: T) -> bool:
    """Whether there are reals in a type."""
    match type_:
        case Real() | Tree():
            return True
        case Tup(items):
            return any(map(_real, items))
        case _:
            return False


def _bounds(type_: T) -> list[Len]:
    """The bounds of the indices in a type."""
    match type_:
        case Idx(bound):
            return [bound]
        case Tup(items):
            return [bound for item in items for bound in _bounds(item)]
        case _:
            return []
