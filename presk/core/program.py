"""A typed program in the core: every function that the entries reach, each lowered by a stage of its own."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from presk.cache.stage import Queries, Result
from presk.core.initializers import has_initializer
from presk.core.ir import Function, Origin, Program
from presk.core.lower import Lowered, Mode
from presk.core.optimizer import FUNCTIONS, RATE, STEP, Optimizer
from presk.core.stage import (
    HEADER,
    LOWER,
    LOWER_INIT,
    LOWER_OPTIMIZER,
    NAMES,
    OPTIMIZER,
    CalleeName,
    InitName,
    Names,
)
from presk.elab.entities import ModuleHeader
from presk.elab.program import Function as TypedEntry
from presk.elab.program import Program as TypedProgram
from presk.types.trees import UseField
from presk.types.type import Composed, Instance, ModuleRef, Named, Stacked
from presk.typing.typed import FunctionRef, TypedFunction


@dataclass(frozen=True, slots=True)
class CoreProgram:
    """A program in the core.

    `parts` are the results of the stages, by core name of their first function, in the order of the program; `names` the core
    names of the program's functions. `optimizer` are the core names of the optimizer's functions, if a training run has one: of
    `init`, `lr` and `step`. `objectives` are functions of which differentiation makes the value and the gradient in one, since
    a training step among the parts asks for it."""

    parts: Mapping[str, Result[Lowered]]
    names: Mapping[FunctionRef, str]
    headers: Mapping[ModuleRef, ModuleHeader]
    optimizer: tuple[str, str, str] | None = None
    objectives: tuple[str, ...] = ()

    @property
    def program(self) -> Program:
        """All functions."""
        return Program(tuple(function for part in self.parts.values() for function in part.value.functions))

    def functions(self) -> dict[str, Function]:
        """All functions by name."""
        return {function.name: function for part in self.parts.values() for function in part.value.functions}

    def origins(self) -> dict[tuple[str, int], Origin]:
        """Where bindings come from, by function and variable."""
        return {(site.function, site.var): site.origin for part in self.parts.values() for site in part.value.origins}


def lower_program(
    queries: Queries, typed: TypedProgram, mode: Mode, entries: Iterable[str] | None = None
) -> CoreProgram:
    """The program in the core; with `entries` (core names), what they reach only. The program must have no errors."""
    return _Lowering(queries, typed, mode).run(None if entries is None else frozenset(entries))


def function_ref(entry: TypedEntry) -> FunctionRef:
    """The reference of a typed function."""
    key = entry.key
    module = None if key.module is None else ModuleRef(key.file, key.module)
    return FunctionRef(key.file, module, key.name, entry.axes)


class _Lowering:
    def __init__(self, queries: Queries, typed: TypedProgram, mode: Mode) -> None:
        self._queries = queries
        self._typed = typed
        self._mode = mode
        self._entries = {function_ref(entry): entry for entry in _concrete(typed)}
        self._names = _names(typed.main, self._entries)
        self._init_names = _init_names(typed.main, typed.headers)
        self._optimizer = _optimizer(typed, {*self._names.values(), *self._init_names.values()})

    def run(self, wanted: frozenset[str] | None) -> CoreProgram:
        reached = self._reached(wanted)
        parts: dict[str, Result[Lowered]] = {}
        for ref, header in self._typed.headers.items():
            if (
                header.model is None
                and has_initializer(header, self._typed.headers)
                and (wanted is None or self._init_names[ref] in reached)
            ):
                parts[self._init_names[ref]] = self._init(header)
        for ref_, entry in self._entries.items():
            if wanted is None or self._names[ref_] in reached:
                parts[self._names[ref_]] = self._function(ref_, entry)
        optimizer = self._optimizer
        if optimizer is not None:
            for name, function in zip(optimizer.names, FUNCTIONS, strict=True):
                if wanted is None or name in reached:
                    given = self._queries.leaf("optimizer", optimizer, OPTIMIZER)
                    parts[name] = self._queries.get(LOWER_OPTIMIZER, given, subject=name, function=function)
        names = None if optimizer is None else optimizer.names
        return CoreProgram(parts, self._names, self._typed.headers, names)

    def _reached(self, wanted: frozenset[str] | None) -> set[str]:
        if wanted is None:
            return set()
        by_name = {name: ref for ref, name in self._names.items()}
        by_init = {name: ref for ref, name in self._init_names.items()}
        reached: set[str] = set()
        waiting = list(wanted)
        while waiting:
            name = waiting.pop()
            if name in reached:
                continue
            reached.add(name)
            if name in by_name:
                function: TypedFunction = self._entries[by_name[name]].typed.value
                waiting += [self._names[call.function] for call in function.calls]
                waiting += [self._init_names[init.header.ref] for init in self._inits(function.inits)]
            elif name in by_init:
                used = self._inits_of(self._typed.headers[by_init[name]])
                waiting += [self._init_names[init.header.ref] for init in used]
            elif self._optimizer is not None and name == self._optimizer.names[FUNCTIONS.index(STEP)]:
                waiting.append(self._optimizer.names[FUNCTIONS.index(RATE)])
        return reached

    def _used(self, header: ModuleHeader) -> list[ModuleRef]:
        instances = [field.instance for field in header.fields if isinstance(field, UseField)]
        return modules_of((*instances, header.model) if header.model is not None else instances)

    def _function(self, ref: FunctionRef, entry: TypedEntry) -> Result[Lowered]:
        function: TypedFunction = entry.typed.value
        callees = tuple(
            CalleeName(called, self._names[called], self._entries[called].typed.value.defaults)
            for called in dict.fromkeys(call.function for call in function.calls)
        )
        names = self._queries.leaf("names", Names(self._names[ref], callees, self._inits(function.inits)), NAMES)
        return self._queries.get(LOWER, entry.typed, names, subject=self._names[ref], mode=self._mode.value)

    def _init(self, header: ModuleHeader) -> Result[Lowered]:
        name = self._init_names[header.ref]
        names = self._queries.leaf("names", Names(name, (), self._inits_of(header)), NAMES)
        given = self._queries.leaf("header", header, HEADER)
        return self._queries.get(LOWER_INIT, given, names, subject=name)

    def _inits_of(self, header: ModuleHeader) -> tuple[InitName, ...]:
        return self._inits([field.instance for field in header.fields if isinstance(field, UseField)])

    def _inits(self, instances: Iterable[Instance]) -> tuple[InitName, ...]:
        """The initializers that instances name; `model`s, and modules that are initialized in place, are looked through."""
        found: dict[ModuleRef, InitName] = {}
        waiting = modules_of(instances)
        while waiting:
            ref = waiting.pop()
            if ref in found:
                continue
            header = self._typed.headers[ref]
            shared = header.model is None and has_initializer(header, self._typed.headers)
            found[ref] = InitName(self._init_names[ref], header, shared)
            if not shared:
                waiting += self._used(header)
        return tuple(found[ref] for ref in sorted(found))


def _concrete(typed: TypedProgram) -> list[TypedEntry]:
    """The functions that can be lowered: those with axis parameters once for each choice of names that a call makes."""
    generic: dict[Any, tuple[str, ...]] = {}
    found: list[TypedEntry] = []
    for entry in typed.functions:
        if entry.axes:
            # The first entry of a function with axis parameters is its generic form.
            if entry.key not in generic:
                generic[entry.key] = entry.axes
                continue
            if entry.axes == generic[entry.key]:
                continue
        found.append(entry)
    return found


def modules_of(instances: Iterable[Instance]) -> list[ModuleRef]:
    """The modules that instances name, each as often as they do."""
    found: list[ModuleRef] = []
    waiting = list(instances)
    while waiting:
        match waiting.pop():
            case Named(module):
                found.append(module)
            case Stacked(_, inner):
                waiting.append(inner)
            case Composed(outer, inner):
                waiting += (inner, outer)
    return found


def _names(main: str, entries: Mapping[FunctionRef, TypedEntry]) -> dict[FunctionRef, str]:
    """Core names: `mse`, `Linear.apply`, `spread:model` for an axis parameter that is `model`.

    A name that two files declare is the main file's, or else the first file's; the other one's has its file's stem in front.
    """
    taken: dict[str, FunctionRef] = {}
    names: dict[FunctionRef, str] = {}
    for ref in sorted(entries, key=lambda one: one.file != main):
        plain = f"{ref.module.name}.{ref.name}" if ref.module is not None else ref.name
        names[ref] = _free("".join([plain, *(f":{axis}" for axis in ref.axes)]), ref.file, taken)
        taken[names[ref]] = ref
    return names


def _init_names(main: str, headers: Mapping[ModuleRef, ModuleHeader]) -> dict[ModuleRef, str]:
    taken: dict[str, ModuleRef] = {}
    names: dict[ModuleRef, str] = {}
    for ref in sorted(headers, key=lambda one: one.file != main):
        names[ref] = _free(f"{ref.name}.init", ref.file, taken)
        taken[names[ref]] = ref
    return names


def _optimizer(typed: TypedProgram, taken: Collection[str]) -> Optimizer | None:
    """The optimizer of the training run, over its model."""
    training = typed.training
    if training is None:
        return None
    record = next(one for one in typed.optimizers if one.name == training.optimizer)
    init, rate, step = (_free(f"{record.name}.{function}", typed.main, taken) for function in FUNCTIONS)
    return Optimizer(record, training.model, (init, rate, step), typed.main, f"optimizer {record.name}")


def _free(name: str, file: str, taken: Collection[str]) -> str:
    if name not in taken:
        return name
    stem = PurePosixPath(file).stem
    candidate, count = f"{stem}.{name}", 1
    while candidate in taken:
        count += 1
        candidate = f"{stem}{count}.{name}"
    return candidate
