"""Parameters out of a file, for a run that is not resumed: of a checkpoint, or of a safetensors file that somebody else wrote.

The latter has the paths of the tree as names, and nothing else: `torch.save`d models are exported so by `safetensors.torch.save_file`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from presk.data.container import header_of
from presk.exact.faults import MISFIT, Fault
from presk.exact.given import TREE
from presk.train.checkpoint import KIND, PREFIX, checkpoint_of
from presk.train.stored import FLOATS, Stored, read_contents, unreadable


def read_parameters(path: Path, shown: str) -> Mapping[str, Stored]:
    """The parameters of a file by their paths; elements are F64, F32, F16, or BF16 as bits.

    Of a checkpoint the state of the optimizer is left out. E8006 for anything that is neither a checkpoint nor a file of tensors.
    """
    found = read_contents(path, shown)
    if KIND in found.metadata or any(name.startswith(PREFIX) for name in found.metadata):
        return checkpoint_of(found, shown).parameters
    for name in found.tensors:
        outer = name.rpartition(".")[0]
        while outer:
            if outer in found.tensors:
                raise unreadable(shown, f"`{outer}` is a tensor, and so is its part `{name}`")
            outer = outer.rpartition(".")[0]
    return found.tensors


def as_file(parameters: Mapping[str, Stored]) -> bytes:
    """Parameters as the bytes of a safetensors file that `presk.exact.given` reads, the same for the same parameters."""
    ordered = sorted(parameters.items(), key=lambda one: (-one[1][1].itemsize, one[0]))
    arrays = [(f"{TREE}.{name}", dtype, array.astype(FLOATS[dtype], copy=False)) for name, (dtype, array) in ordered]
    return b"".join((header_of(arrays, {}), *(array.tobytes() for _, _, array in arrays)))


def check_fits(
    parameters: Mapping[str, Stored], expected: Mapping[str, tuple[tuple[int, ...], str]], shown: str
) -> None:
    """E8007 unless the parameters are those of a tree: by path the lengths, and the element type by safetensors' name.

    The message says the first difference in the order of the tree. The moments of an optimizer are checked in the same way.
    """
    for path, (shape, dtype) in expected.items():
        if path not in parameters:
            raise misfit(shown, f"it has no `{path}`", f"its tensors are {_listed(parameters)}")
        found, array = parameters[path]
        if array.shape != shape:
            raise misfit(shown, f"its `{path}` has the shape {list(array.shape)}, the program's {list(shape)}")
        if found != dtype:
            raise misfit(shown, f"its `{path}` is stored as {found}, and the run computes with {dtype}")
    extra = next((path for path in parameters if path not in expected), None)
    if extra is not None:
        raise misfit(shown, f"the program has no `{extra}`", f"its parameters are {_listed(expected)}")


def misfit(shown: str, why: str, note: str | None = None) -> Fault:
    """E8007."""
    return Fault(
        MISFIT,
        f"the checkpoint `{shown}` does not fit: {why}",
        notes=() if note is None else (note,),
        mend="use the program that wrote it, with the same constants (--const NAME=N)",
    )


def _listed(names: Mapping[str, object]) -> str:
    """Some of many names."""
    shown = [f"`{name}`" for name in list(names)[:8]]
    return ", ".join(shown if len(names) <= len(shown) else [*shown, "…"]) or "none"


@dataclass(frozen=True, slots=True)
class ParameterFile:
    """Parameters, and what their file says of the training's data: the vocabulary as it is spelled, the length of a sequence."""

    parameters: Mapping[str, Stored]
    vocab: str | None = None
    sequence: int | None = None


def read_file(path: Path, shown: str) -> ParameterFile:
    """As `read_parameters`, with what a checkpoint says beside them."""
    found = read_contents(path, shown)
    if KIND not in found.metadata:
        return ParameterFile(read_parameters(path, shown))
    held = checkpoint_of(found, shown)
    sequence = held.meta.sequence
    return ParameterFile(held.parameters, held.meta.vocab, None if sequence is None else int(sequence))
