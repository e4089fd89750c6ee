"""The step of a training run in native code: one call a step.

Parameters and moments lie in two regions of the arena: a step reads one and writes the other, and `commit` exchanges them. So
nothing is copied, and a step whose loss or gradient is no number leaves what was before it untouched.
"""

import math
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from gmpy2 import mpq
from numpy.typing import NDArray

from presk.ad.step import BATCH, KEY, STATE, STEPS, THETA, TOTAL, VALUES
from presk.core.ir import Function
from presk.exact.values import Number
from presk.kernels.arena import Arena
from presk.kernels.entry import InterpretedEntry, NativeEntry
from presk.kernels.ir import SIZES, Elem
from presk.kernels.numbers import from_elements, to_elements
from presk.kernels.trace.hyper import AnyExpr, Apply, Given
from presk.kernels.trace.memory import AFTER, Driver
from presk.kernels.trace.rows import Part
from presk.kernels.trace.values import Ref, count_of
from presk.native.run import look, write_scalars
from presk.native.scalars import check_rates
from presk.types import type as types
from presk.types.type import Type

STORED: Final[Mapping[Elem, str]] = {Elem.F64: "F64", Elem.F32: "F32", Elem.BF16: "BF16"}
"""The names of element types in checkpoints."""

ELEMS: Final[Mapping[str, Elem]] = {name: elem for elem, name in STORED.items()}

Stored = tuple[str, NDArray[Any]]
"""A tensor as it lies in memory, with the name of its element type."""

MOMENTS: Final = ("m", "v")


@dataclass(frozen=True, slots=True)
class Values:
    """The numbers of one step."""

    loss: float
    norm: float
    rate: float

    @property
    def finite(self) -> bool:
        """Whether loss and norm are numbers."""
        return math.isfinite(self.loss) and math.isfinite(self.norm)


class Machine:
    """Runs steps. Everything is in the machine types of its driver."""

    def __init__(
        self, driver: Driver, entry: NativeEntry | InterpretedEntry, function: Function, batch: Type, total: int
    ) -> None:
        """`function` is the step after differentiation, `batch` the batch's type, `total` the steps of the run."""
        self.function: Final = function
        self.at: tuple[int, Values] | None = None
        """The step whose state this is, and its numbers; None before the first."""
        self.entry: Final = entry
        self.driver: Final = driver
        self._inputs = {part.path: part for part in driver.inputs}
        self._results = {part.path: part for part in driver.results}
        self._total = Number(mpq(total))
        self._places = batch_places(batch, BATCH)
        self._leaves = [
            (path.removeprefix(f"{THETA}."), Ref(AFTER, part.place.offset), part.operand.elem, count_of(part.operand))
            for path, part in self._inputs.items()
            if path.startswith(f"{THETA}.")
        ]
        self._whole = _joined(self._leaves)
        self._scalars = [one for one in driver.scalars if _each_step(one[0].expr)]
        given = {STEPS: Number(mpq(1)), TOTAL: self._total}
        write_scalars(entry.arena, driver.scalars, given)
        check_rates(driver.rates, given)

    # --- state ---

    def parameters(self) -> dict[str, Stored]:
        """The parameters by their paths in the tree, as views of memory that the next step changes."""
        return self._tree(f"{THETA}.")

    def moments(self) -> tuple[dict[str, Stored], dict[str, Stored]]:
        """The first and the second moments, as the parameters."""
        first, second = (self._tree(f"{STATE}.{place}.") for place in range(len(MOMENTS)))
        return first, second

    def _tree(self, prefix: str) -> dict[str, Stored]:
        return {
            path.removeprefix(prefix): (STORED[part.operand.elem], self._view(part).reshape(part.operand.shape))
            for path, part in self._inputs.items()
            if path.startswith(prefix)
        }

    def _view(self, part: Part) -> NDArray[Any]:
        return self.entry.arena.view(part.place, part.operand.elem, count_of(part.operand))

    def set_parameters(self, values: Mapping[str, NDArray[Any]]) -> None:
        """Numbers for the parameters by their paths in the tree, each rounded once; the moments become 0. KeyError for one that
        lacks.
        """
        for path, part in self._inputs.items():
            if path.startswith(f"{THETA}."):
                self.entry.arena.put(part, values[path.removeprefix(f"{THETA}.")])
            elif path.startswith(f"{STATE}."):
                self._view(part)[:] = 0

    def restore(
        self, parameters: Mapping[str, Stored], first: Mapping[str, Stored], second: Mapping[str, Stored]
    ) -> None:
        """What `parameters` and `moments` gave, in the same types."""
        for prefix, tree in ((THETA, parameters), (f"{STATE}.0", first), (f"{STATE}.1", second)):
            for path, (_, array) in tree.items():
                self._view(self._inputs[f"{prefix}.{path}"])[:] = array.ravel()

    # --- steps ---

    def step(self, number: int, leaves: Sequence[NDArray[Any]], key: bytes | None) -> Values:
        """One step, from 1, on a batch (a leaf's first axis is the batch's). `Stopped` for an error that a launch found."""
        arena = self.entry.arena
        put_batch(arena, self._inputs, self._places, leaves)
        if key is not None:
            self._view(self._inputs[KEY])[:] = np.frombuffer(key, "<i4")
        given = {STEPS: Number(mpq(number)), TOTAL: self._total}
        write_scalars(arena, self._scalars, given)
        self.entry.run()
        look(arena, self.driver)
        return Values(*(self._number(f".{place}") for place in range(len(VALUES))))

    def strange(self) -> str | None:
        """The first parameter that the last step, which is not committed, made something that is no number."""
        view = self.entry.arena.view
        if all(_sound(view(ref, elem, count)) for ref, elem, count in self._whole):
            return None
        return next((path for path, ref, elem, count in self._leaves if not _sound(view(ref, elem, count))), None)

    def commit(self, number: int, values: Values) -> None:
        """Makes what a step made the state. An interrupt comes before it or after it, so `at` and the state agree."""
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
        try:
            self.entry.hand_on()
            self.at = (number, values)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT,))

    def _number(self, path: str) -> float:
        part = self._results[path]
        return float(from_elements(self._view(part), part.operand.elem)[0])


def _joined(leaves: Sequence[tuple[str, Ref, Elem, int]]) -> list[tuple[Ref, Elem, int]]:
    """Leaves that lie one behind the other, as one piece where they are of one type: what is between them is zero."""
    if len({elem for _, _, elem, _ in leaves}) != 1:
        return [(ref, elem, count) for _, ref, elem, count in leaves]
    elem = leaves[0][2]
    first = min(ref.offset for _, ref, _, _ in leaves)
    last = max(ref.offset + count * SIZES[elem] for _, ref, _, count in leaves)
    return [(Ref(AFTER, first), elem, (last - first) // SIZES[elem])]


def _sound(elements: NDArray[Any]) -> bool:
    """Whether all elements are numbers."""
    if elements.dtype == np.uint16:  # bf16 by its bits
        return not bool(((elements & np.uint16(0x7F80)) == np.uint16(0x7F80)).any())
    # A sum takes a tenth of the time of a look at each; one that is no number may still have overflowed.
    with np.errstate(all="ignore"):
        return bool(np.isfinite(np.add.reduce(elements))) or bool(np.isfinite(elements).all())


def _each_step(expr: AnyExpr) -> bool:
    """Whether an expression depends on the number of the step."""
    match expr:
        case Given(path):
            return path == STEPS
        case Apply(args=args):
            return any(map(_each_step, args))
        case _:
            return False


Places = Sequence[tuple[str, int]]
"""The leaves of a batch in order: the path of each, and which of its axes is the batch's."""


def put_batch(arena: Arena, inputs: Mapping[str, Part], places: Places, leaves: Sequence[NDArray[Any]]) -> None:
    """Writes a batch, whose leaves have the batch's axis first."""
    for (path, axis), leaf in zip(places, leaves, strict=True):
        part = inputs[path]
        moved = leaf if axis == 0 else np.moveaxis(leaf, 0, axis)
        elem = part.operand.elem
        arena.view(part.place, elem, count_of(part.operand))[:] = to_elements(moved.ravel(), elem)


def batch_places(type_: Type, path: str) -> Places:
    """The leaves of a batch of a type."""
    match type_:
        case types.Tuple(items):
            return [place for at, item in enumerate(items) for place in batch_places(item, f"{path}.{at}")]
        case types.Real(shape) | types.Mask(shape) | types.Index(_, shape):
            return [(path, next(at for at, axis in enumerate(shape.axes) if axis.name == "batch"))]
        case _:
            raise TypeError(f"{type_} is no batch")
