"""Generates text with a trained model: the program's generation function, a token a call.

Call n, from 1, has the key that is child n of child 1 of the seed's master key, as a step of a training has, and the last
tokens so far as its context. The function's sizes are those of the context, so each length has kernels of its own. The context
therefore grows in strides: its length is the largest of 1, 2, 3, 4, 6, 8, 12, 16, 24, … (2ⁿ and 3·2ⁿ) that the tokens so far
fill and that the window allows, and the window itself once they fill that."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from presk.cache.engine import Engine
from presk.cache.log import RequestLog
from presk.core.facts import declared_facts
from presk.core.lower import Mode
from presk.core.program import function_ref, lower_program
from presk.elab.config import generation_of
from presk.elab.program import Program
from presk.elab.records import Generation
from presk.exact import draws, given
from presk.exact.closing import closed
from presk.exact.defined import check_entry
from presk.exact.faults import COMMAND, Fault
from presk.exact.interpreter import Stopped
from presk.exact.scope import Scope
from presk.exact.values import Number, Truth
from presk.kernels.entry import NativeEntry
from presk.kernels.ir import Elem
from presk.kernels.native.driver import Driver as Threads
from presk.kernels.trace.values import count_of
from presk.native.run import Asked, blobs_of, differentiated, driver_at, look, write_scalars
from presk.native.scalars import check_rates
from presk.native.values import Doubles
from presk.run import entry_defaults
from presk.train.loop import run_key
from presk.train.machine import STORED
from presk.train.numbers import numbers_of
from presk.train.stored import Stored
from presk.types.dim import Dim
from presk.types.type import Hyper, Index, Instance, Params, Tuple, Type

UNBOUNDED: Final = 256
"""The longest context where neither the program nor the training says one."""

FARTHEST: Final = 1 << 24
"""Lengths are tried up to this."""


def generation(typed: Program) -> Generation | None:
    """The generation function of a program: that of its `inference serve` block, or else the first that fits its training's model."""
    if typed.serve is not None:
        return typed.serve.generation
    if typed.training is None:
        return None
    model: Instance = typed.training.model
    for entry in typed.functions:
        ref = function_ref(entry)
        if ref.file == typed.main and ref.module is None:
            found = generation_of(entry.typed.value.signature, model)
            if isinstance(found, Generation):
                return found
    return None


def trained_window(typed: Program) -> int | None:
    """The length of the sequences of a program's training data; None where that is not known."""
    return None if typed.training is None else window_of(typed.training.sample)


def window_of(sample: Type) -> int | None:
    """The length of the sequences of samples of a type: that of the first axis `seq` of indices."""
    match sample:
        case Tuple(items):
            return next((length for length in map(window_of, items) if length is not None), None)
        case Index(_, shape):
            return next((axis.length.natural() for axis in shape.axes if axis.name == "seq"), None)
        case _:
            return None


class Generator:
    """Generates with parameters that are given. What a length of context needs is compiled when it is first met."""

    def __init__(
        self,
        engine: Engine,
        log: RequestLog,
        typed: Program,
        found: Generation,
        asked: Asked,
        parameters: Mapping[str, Stored],
        shown: str,
        words: Mapping[str, str],
        threads: Threads,
    ) -> None:
        """`shown` names the file of the parameters; `words` are numbers for other parameters of the function, in place of their
        defaults.

        E9003 for a word that is no parameter, E8002 for one that is no number. Parameters of another program are refused (E8007) by
        `prepare`, or with the first token.
        """
        self._engine: Final = engine
        self._log: Final = log
        self._asked: Final = replace(asked, carried=())
        self._parameters: Final = parameters
        self._shown: Final = shown
        self._threads: Final = threads
        self._found: Final = found
        names = lower_program(engine, typed, Mode.INFERENCE, ())
        self._name: Final = next(
            names.names[ref]
            for ref in map(function_ref, typed.functions)
            if ref.file == typed.main and ref.module is None and ref.name == found.function
        )
        self._core: Final = lower_program(engine, typed, Mode.INFERENCE, (self._name,))
        self._facts: Final = declared_facts(typed, self._core)
        self._after: Final = differentiated(engine, self._core, self._name, self._asked)
        self._program: Final = closed(self._after.value.program)
        self._function: Final = next(one for one in self._program.functions if one.name == self._name)
        self._theta: Final = next(one.name for one in self._function.params if isinstance(one.type, Params))
        self._context: Final = next(
            one.name for one in self._function.params if one.name != self._theta and one.type == found.context
        )
        self._hypers: Final = self._numbers(dict(entry_defaults(typed, self._core, self._name)), words)
        self._entries: dict[int, NativeEntry] = {}

    def _numbers(self, defaults: Mapping[str, str], words: Mapping[str, str]) -> dict[str, Number | Truth]:
        """The numbers that the function takes: given, or their defaults."""
        kinds = {param.name: param.type for param in self._function.params if isinstance(param.type, Hyper)}
        for name in words:
            if name not in kinds:
                has = ", ".join(f"`{kind}`" for kind in kinds) or "none"
                raise Fault(COMMAND, f"`{self._name}` has no number `{name}`", mend=f"it has {has}")
        found: dict[str, Number | Truth] = {}
        for name, kind in kinds.items():
            raw = given.raw_of_word(words.get(name, defaults[name]))
            value = given.value_of(Doubles(Elem.F64), Scope({}, (), {}), raw, kind, name)
            assert isinstance(value, Number | Truth)
            found[name] = value
        return found

    @property
    def bound(self) -> int:
        """The vocabulary's size, as the program has it."""
        return int(self._found.context.bound.evaluate({}))

    def longest(self) -> int | None:
        """The longest context that the program allows; None where it bounds none."""
        low, high = 1, 2
        while high <= FARTHEST and self._allowed(high):
            low, high = high, high * 2
        if high > FARTHEST:
            return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._allowed(middle) else (low, middle)
        return low

    def _allowed(self, length: int) -> bool:
        try:
            check_entry(self._program, self._name, self._dims(length), (), self._core.headers, self._facts)
        except Stopped:
            return False
        return True

    def _dims(self, length: int) -> dict[str, int]:
        """The function's dimensions for one sequence of a length. E9003 where that length does not decide them."""
        dims: dict[str, int] = {}
        for axis, value in zip(self._found.context.shape.axes, (1, length), strict=True):
            _decide(axis.length, value, dims)
        for name in self._function.dims:
            if name not in dims:
                raise Fault(COMMAND, f"the context of `{self._name}` does not decide its dimension `{name}`")
        return dims

    def _entry(self, length: int) -> NativeEntry:
        """The function for contexts of a length."""
        if length not in self._entries:
            dims = self._dims(length)
            check_entry(self._program, self._name, dims, (), self._core.headers, self._facts)
            scope = Scope(dims, (), self._core.headers)
            driver = driver_at(self._engine, self._core, self._name, self._asked, self._after, scope).value
            entry = NativeEntry(
                driver, blobs_of(self._engine, self._log, driver, self._asked.level, self._name), self._threads
            )
            parts = {part.path: part for part in driver.inputs}
            prefix = f"{self._theta}."
            expected = {
                path.removeprefix(prefix): (part.operand.shape, STORED[part.operand.elem])
                for path, part in parts.items()
                if path.startswith(prefix)
            }
            for name, values in numbers_of(self._parameters, expected, self._shown).items():
                entry.arena.put(parts[prefix + name], values)
            check_rates(driver.rates, self._hypers)
            write_scalars(entry.arena, driver.scalars, self._hypers)
            self._entries[length] = entry
        return self._entries[length]

    def prepare(self, length: int, window: int) -> None:
        """Compiles what the first token behind so many others needs. E8007 for parameters of another program."""
        self._entry(_fitting(strides(window), length))

    def tokens(self, prompt: Sequence[int], window: int, seed: int) -> Iterator[int]:
        """Tokens behind a prompt, without end. `Stopped` for a window that the program refuses."""
        lengths = strides(window)
        text, key = list(prompt), run_key(seed)
        number = 0
        while True:
            number += 1
            length = _fitting(lengths, len(text))
            entry = self._entry(length)
            arena, driver = entry.arena, entry.driver
            for part in driver.inputs:
                view = arena.view(part.place, part.operand.elem, count_of(part.operand))
                if part.path == self._context:
                    view[:] = text[-length:]
                elif part.path == self._found.key:
                    view[:] = np.frombuffer(draws.child(key, number), "<i4")
            entry.run()
            look(arena, driver)
            token = int(arena.get(driver.results[0]).ravel()[0])
            text = [*text[-window:], token]
            yield token


def strides(window: int) -> list[int]:
    """The lengths of contexts up to a window, ascending."""
    found = {1, window}
    power = 1
    while power <= window:
        found.update(length for length in (power, 3 * power) if length <= window)
        power *= 2
    return sorted(found)


def _fitting(lengths: Sequence[int], count: int) -> int:
    """The longest of ascending lengths that so many tokens fill."""
    return lengths[bisect_right(lengths, count) - 1]


def _decide(length: Dim, value: int, dims: dict[str, int]) -> None:
    """Has a length decide its dimension, if it is one that is not decided yet."""
    (*names,) = length.symbols()
    if len(names) == 1 and names[0] not in dims:
        (name,) = names
        zero, one = length.evaluate({name: 0}), length.evaluate({name: 1})
        found = (value - zero) / (one - zero)
        if found.denominator == 1 and found >= 0:
            dims[name] = int(found)
