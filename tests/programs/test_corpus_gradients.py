"""Every gradient that `corpus/expect.toml` lists, against central differences at 512 bits, to 2⁻¹⁰⁰.

A gradient of few components is compared in each of them; a larger one along two random directions, which every component is part of,
and in one component of every leaf (`make fuzz`: in each). The large ones are those of the language models, which stand here a second
time at tiny sizes.
"""

import tomllib
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from pathlib import Path as FilePath
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import settings

from presk.check import check_program
from presk.core.ir import Function
from presk.core.lower import Mode
from presk.core.program import lower_program
from presk.elab.files import FolderReader
from presk.types import trees
from presk.types import type as core_types
from presk.types.dim import constant
from tests.programs import types
from tests.programs.lengths import Len
from tests.programs.running import BITS, Core, Point, engine
from tests.programs.values import Inputs, Path, Value, plain, reals

CORPUS: Final = FilePath(__file__).resolve().parents[2] / "corpus"
FEW: Final = 100
TINY: Final = {
    "nlp/minigpt.psk": {"const": {"V": 3, "D": 2, "H": 2, "L": 1}, "dim": {"B": 1, "T": 2}},
    "nlp/05_gpt.psk": {"const": {"V": 3, "D": 2, "H": 2, "L": 1, "C": 2}, "dim": {"B": 1, "T": 2}},
}
"""Sizes at which the gradients of the language models have few components."""
NUMBERS: Final[Mapping[str, Value]] = {"nat": 2, "int": 1, "rat": Fraction(1, 2), "f64": Fraction(1, 2), "bool": True}


def listed() -> list[tuple[str, Mapping[str, Any]]]:
    """The entries that are gradients, with their files; those of the language models at tiny sizes as well."""
    table = tomllib.loads((CORPUS / "expect.toml").read_text("utf-8"), parse_float=Decimal)
    found = [
        (program["file"], entry)
        for program in table["program"]
        for entry in program.get("entry", ())
        if "gradient" in entry
    ]
    firsts = {file: entry for file, entry in reversed(found) if file in TINY}
    return [*found, *((file, {**firsts[file], **sizes}) for file, sizes in TINY.items())]


ENTRIES: Final = listed()


@lru_cache(maxsize=4)
def lowered(file: str, const: tuple[tuple[str, int], ...]) -> tuple[Core, Any]:
    """A program of the corpus with values for its constants, and what it is after differentiation."""
    own, reader = engine(), FolderReader(CORPUS / file)
    found = check_program(own, reader, reader.main, file, {name: constant(value) for name, value in const})
    assert not isinstance(found, str) and not found[0].failed
    made = Core(found[1], lower_program(own, found[1], Mode.INFERENCE))
    return made, made.after()


def drawn(inputs: Inputs, type_: core_types.Type, made: Core, dims: Mapping[str, int], below: str, entry: Any) -> Value:
    """A value of a type: what the entry gives for it or for parts of it, and else a drawn one."""
    if below in entry.get("arg", {}):
        return _number(entry["arg"][below])
    if below in entry.get("input", {}):
        return _array(type_, entry["input"][below], dims)
    match type_:
        case core_types.Real(shape):
            return inputs.value(types.Real(_axes(shape, dims)))
        case core_types.Index(bound, shape):
            return inputs.value(types.Idx(Len(int(bound.evaluate(dims))), _axes(shape, dims)))
        case core_types.Mask(shape):
            return inputs.value(types.Mask(_axes(shape, dims)))
        case core_types.Key():
            return inputs.value(types.Key())
        case core_types.Hyper(kind):
            return NUMBERS[kind.value]
        case core_types.Tuple(items):
            return tuple(drawn(inputs, item, made, dims, f"{below}.{at}", entry) for at, item in enumerate(items))
        case core_types.Params(instance):
            return {
                field.name: drawn(
                    inputs,
                    field.type if isinstance(field, trees.ParamField) else core_types.Params(field.instance),
                    made,
                    dims,
                    f"{below}.{field.name}",
                    entry,
                )
                for field in trees.fields(instance, made.lowered.headers)
            }
        case other:
            raise TypeError(str(other))


def _axes(shape: core_types.Shape, dims: Mapping[str, int]) -> types.Axes:
    return tuple(types.Ax(Len(int(axis.length.evaluate(dims)))) for axis in shape.axes)


def _number(value: Any) -> Value:
    return Fraction(value) if isinstance(value, Decimal) else value


def _array(type_: core_types.Type, value: Any, dims: Mapping[str, int]) -> Value:
    """Nested lists as a tensor."""
    match type_:
        case core_types.Real(shape):
            flat = np.array(value, dtype=object)
            found = np.empty(tuple(axis.length.const for axis in _axes(shape, dims)), dtype=object)
            found[...] = np.vectorize(Fraction, otypes=[object])(flat) if flat.size else flat.reshape(found.shape)
            return found
        case core_types.Index():
            return np.array(value, dtype=np.int64)
        case core_types.Mask():
            return np.array(value, dtype=np.bool_)
        case _:
            return _number(value)


def _function(made: Core, name: str) -> Function:
    return made.lowered.functions()[name]


def _name(number: int) -> str:
    file, entry = ENTRIES[number]
    return f"{file.removesuffix('.psk')}-{entry['name']}-{number}"


@pytest.mark.hypothesis
@pytest.mark.parametrize("number", range(len(ENTRIES)), ids=_name)
def test_a_gradient_of_the_corpus(number: int) -> None:
    file, entry = ENTRIES[number]
    made, after = lowered(file, tuple(sorted(entry.get("const", {}).items())))
    gradient, function = _function(made, entry["name"]), _function(made, entry["gradient"]["of"])
    dims = {name: entry.get("dim", {})[name] for name in gradient.dims if name in entry.get("dim", {})}
    draw = Inputs(number, dims)
    inputs = {param.name: drawn(draw, param.type, made, dims, param.name, entry) for param in gradient.params}
    value = plain(made.run(after, gradient.name, dims, inputs, bits=BITS).value)
    paths = [_path(text) for text in entry["gradient"]["in"]]
    parts = dict(zip(paths, value if len(paths) > 1 else (value,), strict=True))
    own = {param.name: inputs[param.name] for param in function.params}
    point = Point(made, after, function.name, {name: dims[name] for name in function.dims if name in dims}, own)
    count = sum(len(list(reals(part))) for part in parts.values())
    assert count > 0
    found = []
    every = count <= FEW or settings.get_current_profile_name() == "fuzz"
    for below, part in parts.items():
        found += point.disagreements(below, part, None if every else samples(part))
    if not every:
        found += [text for seed in range(2) for text in point.along(parts, seed)]
    assert found == []


def _path(text: str) -> Path:
    return tuple(int(step) if step.isdigit() else step for step in text.split("."))


def samples(value: Value) -> list[Path]:
    """The path of one real of every tensor, in its middle."""
    found: dict[Path, list[Path]] = {}
    for path, _ in reals(value):
        found.setdefault(path[:-1], []).append(path)
    return [leaf[len(leaf) // 2] for leaf in found.values()]


def test_the_gradients_are_those_of_every_theme() -> None:
    assert len(ENTRIES) >= 70
    assert len({file for file, _ in ENTRIES}) >= 35
