"""Checkpoints: the parameters of a training, the state of its optimizer, and where it stands, as one safetensors file.

A tensor's name is its path in the tree of parameters (`blocks.attn.wq.w`), that of a moment of the optimizer has the optimizer's name
and the moment's in front (`adamw.m.blocks.attn.wq.w`). So a parameter whose path begins with the optimizer's name would be taken for
state, and one that is called `__metadata__` for no tensor at all: in the file the first name of such a path has a `#` behind it
(`adamw#.gain`), which no name of a program has.

What the run has to know to go on is in the metadata, a text for each field of `Meta`, with `presk.digest`: BLAKE3 of all that,
the tensors in the order of their names. It depends on what the file says and not on how it lies there, so another library may write
the same tensors again; a flipped bit is found.

A checkpoint is written under another name, flushed and renamed. Whatever happens meanwhile, the ones before it are whole.
"""

import errno
import json
import math
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import msgspec
import numpy as np
from blake3 import blake3

from presk.data import container
from presk.exact.faults import Fault
from presk.train.stored import (
    FLOATS,
    UNWRITABLE,
    Contents,
    Stored,
    header_of,
    opened,
    read_contents,
    unreadable,
    why_not,
)

KIND: Final = "presk.kind"
CHECKPOINT: Final = "checkpoint"
DIGEST: Final = "presk.digest"
PREFIX: Final = "presk."
MOMENTS: Final = ("m", "v")
SUFFIX: Final = ".safetensors"
LAST: Final = f"final{SUFFIX}"
"""The checkpoint at the end of a run."""

_STEP: Final = re.compile(rf"step-([0-9]{{6,18}}){re.escape(SUFFIX)}")
_ANY: Final = re.compile(rf"(step-[0-9]{{6,18}}|final){re.escape(SUFFIX)}")
_COUNT: Final = re.compile("[0-9]{1,18}")
_SEED: Final = re.compile("[0-9]{1,78}")
_OPTIMIZER: Final = re.compile("[^.#]+")
_DECIMAL: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?")


class Meta(msgspec.Struct, frozen=True):
    """Of which run a checkpoint is, and where it stands; every field is a text `presk.<name>` in the file's metadata.

    `program` is the digest of the training step's program and `data` that of the data file, in hexadecimal digits; `model` the
    model's instance as text, `optimizer` the name of the optimizer; `realization` the JSON of the machine types. `step` counts
    the steps that are done, of `total`; `epoch` and `batch` are the place of the batch that comes next. Both seeds are
    decimals; `loss` is the shortest decimal that reads back. `vocab` is the data file's vocabulary as it spells it, `sequence`
    the length of its sequences; None where it has none. `unfused` is `yes` where elementwise chains are stored link by link and
    that shows."""

    program: str
    model: str
    optimizer: str
    realization: str
    remat: str
    step: int
    epoch: int
    batch: int
    total: int
    seed: str
    shuffle: str
    data: str
    tool: str
    loss: str
    vocab: str | None = None
    sequence: str | None = None
    unfused: str | None = None


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that was read: `tensors` are those of the file, by their names there."""

    meta: Meta
    tensors: Mapping[str, Stored]

    @cached_property
    def parameters(self) -> Mapping[str, Stored]:
        """The parameters by their paths in the tree."""
        outer = f"{self.meta.optimizer}."
        return MappingProxyType(
            {
                _path(name, self.meta.optimizer): stored
                for name, stored in self.tensors.items()
                if not name.startswith(outer)
            }
        )

    def state(self, moment: str) -> Mapping[str, Stored]:
        """A moment of the optimizer, `m` or `v`, by the paths of the parameters that it belongs to."""
        outer = f"{self.meta.optimizer}.{moment}."
        return MappingProxyType(
            {name.removeprefix(outer): stored for name, stored in self.tensors.items() if name.startswith(outer)}
        )


# --- names ----------------------------------------------------------------------------------------------------------------


def _name(path: str, optimizer: str) -> str:
    """The name of a parameter in a file."""
    first, dot, rest = path.partition(".")
    return f"{first}#{dot}{rest}" if first.rstrip("#") in (optimizer, container.METADATA) else path


def _path(name: str, optimizer: str) -> str:
    """The parameter of a name."""
    first, dot, rest = name.partition(".")
    taken = first.endswith("#") and first.rstrip("#") in (optimizer, container.METADATA)
    return f"{first[:-1]}{dot}{rest}" if taken else name


# --- writing --------------------------------------------------------------------------------------------------------------


def write(
    path: Path,
    shown: str,
    parameters: Mapping[str, Stored],
    m: Mapping[str, Stored],
    v: Mapping[str, Stored],
    meta: Meta,
) -> None:
    """Writes a checkpoint, and its folder if there is none; `shown` is its name in messages.

    E8008 where it cannot be written: then what stood there before is as it was, and nothing is left beside it. ValueError for moments
    that are not those of the parameters, or for what `read` would refuse.
    """
    tensors = {_name(name, meta.optimizer): _elements(name, stored) for name, stored in parameters.items()}
    for moment, state in zip(MOMENTS, (m, v), strict=True):
        tensors |= {f"{meta.optimizer}.{moment}.{name}": _elements(name, stored) for name, stored in state.items()}
    metadata = {KIND: CHECKPOINT, **_texts(meta)}
    wrong = _wrong(tensors, metadata)
    if wrong is not None:
        raise ValueError(f"no checkpoint: {wrong}")
    metadata[DIGEST] = _digest(tensors, metadata)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        container.sweep(path.parent, _ANY)
        container.write_file(path, [(name, *stored) for name, stored in tensors.items()], metadata)
    except (OSError, ValueError) as error:  # ValueError for a NUL in the name
        raise Fault(
            UNWRITABLE,
            f"the checkpoint `{shown}` cannot be written: {_unwritten(error)}",
            notes=("the checkpoints before it are whole",),
        ) from None


def _elements(name: str, stored: Stored) -> Stored:
    """A tensor as it lies in the file. Not by `ascontiguousarray`, which makes a scalar a vector."""
    dtype, array = stored
    kind = FLOATS.get(dtype)
    if kind is None or dtype == "F16" or array.dtype != kind:
        raise ValueError(f"`{name}` is of {array.dtype}, and to be stored as {dtype}")
    return dtype, np.asarray(array, dtype=kind, order="C")


def _unwritten(error: OSError | ValueError) -> str:
    match error:
        case OSError(errno=errno.ENOSPC):
            return "the disk is full"
        case OSError(errno=errno.EDQUOT):
            return "the disk space that is allowed is used up"
        case OSError(errno=errno.EFBIG):
            return "the system allows no file of this size"
        case OSError(errno=errno.EROFS):
            return "the disk may not be written to"
        case PermissionError():
            return "its folder may not be written to"
        case FileExistsError() | NotADirectoryError():
            return "what should be its folder is none"
        case IsADirectoryError():
            return "there is a folder of its name"
        case _:
            return why_not(error)


# --- reading --------------------------------------------------------------------------------------------------------------


def read(path: Path, shown: str) -> Checkpoint:
    """Reads a checkpoint whole and checks it; `shown` is its name in messages. E8006 for anything that is none."""
    return checkpoint_of(read_contents(path, shown), shown)


def checkpoint_of(found: Contents, shown: str) -> Checkpoint:
    """The contents of a file as a checkpoint; E8006 where they are none."""
    wrong = _wrong(found.tensors, found.metadata)
    if wrong is None and DIGEST not in found.metadata:
        wrong = f"its metadata lack `{DIGEST}`"
    if wrong is None and found.metadata[DIGEST] != _digest(found.tensors, found.metadata):
        wrong = "it is damaged: its contents are not those of its digest"
    if wrong is not None:
        raise unreadable(shown, wrong)
    return Checkpoint(_meta(found.metadata), found.tensors)


def _texts(meta: Meta) -> dict[str, str]:
    """The fields as metadata."""
    values = {name: getattr(meta, name) for name in meta.__struct_fields__}
    return {PREFIX + name: str(value) for name, value in values.items() if value is not None}


def _meta(metadata: Mapping[str, str]) -> Meta:
    """Metadata that are right, as fields."""
    found: dict[str, Any] = {
        name: metadata[PREFIX + name] for name in Meta.__struct_fields__ if PREFIX + name in metadata
    }
    return Meta(**{**found, **{name: int(found[name]) for name in _COUNTS}})


_COUNTS: Final = ("step", "epoch", "batch", "total")
_OPTIONAL: Final = ("vocab", "sequence", "unfused")


def _wrong(tensors: Mapping[str, Stored], metadata: Mapping[str, str]) -> str | None:
    """Why these are no checkpoint, as far as it can be seen without looking at elements; None if they are one."""
    return _wrong_metadata(metadata) or _wrong_tensors(tensors, metadata[f"{PREFIX}optimizer"])


def _wrong_metadata(metadata: Mapping[str, str]) -> str | None:
    if metadata.get(KIND) != CHECKPOINT:
        return (
            f"its `{KIND}` is `{metadata[KIND]}`" if KIND in metadata else "it is a safetensors file, but no checkpoint"
        )
    for name in Meta.__struct_fields__:
        if name not in _OPTIONAL and PREFIX + name not in metadata:
            return f"its metadata lack `{PREFIX}{name}`"
    sequence = metadata.get(f"{PREFIX}sequence")
    if sequence is not None and not _COUNT.fullmatch(sequence):
        return f"its `{PREFIX}sequence` is not a natural number"
    for names, form, what in (
        (_COUNTS, _COUNT, "a natural number"),
        (("seed", "shuffle"), _SEED, "a seed"),
        (("optimizer",), _OPTIMIZER, "a name"),
        (("loss",), _DECIMAL, "a number"),
    ):
        for name in names:
            if not form.fullmatch(metadata[PREFIX + name]):
                return f"its `{PREFIX}{name}` is not {what}"
    return None if math.isfinite(float(metadata[f"{PREFIX}loss"])) else f"its `{PREFIX}loss` is not a number"


def _wrong_tensors(tensors: Mapping[str, Stored], optimizer: str) -> str | None:
    outer = f"{optimizer}."
    state = {moment: f"{outer}{moment}." for moment in MOMENTS}
    shapes = {name: array.shape for name, (_, array) in tensors.items()}
    parameters = {_path(name, optimizer): name for name in tensors if not name.startswith(outer)}
    for name, (dtype, _) in tensors.items():
        if dtype == "F16":
            return f"the elements of `{name}` are of type {dtype}"
        if not name.startswith(outer):
            continue
        path = next((name.removeprefix(start) for start in state.values() if name.startswith(start)), None)
        if path not in parameters:
            return f"`{name}` belongs to no parameter"
        if shapes[name] != shapes[parameters[path]]:
            return f"`{name}` has the shape {list(shapes[name])}, and `{path}` {list(shapes[parameters[path]])}"
    for path in parameters:
        for start in state.values():
            if start + path not in tensors:
                return f"it lacks `{start}{path}`"
    return None


def _digest(tensors: Mapping[str, Stored], metadata: Mapping[str, str]) -> str:
    """Of what a file says, however it lies there; metadata of others are theirs."""
    names = sorted(tensors)
    own = sorted((name, text) for name, text in metadata.items() if name.startswith(PREFIX) and name != DIGEST)
    table = [(name, tensors[name][0], tensors[name][1].shape) for name in names]
    hasher = blake3(json.dumps([own, table]).encode(), max_threads=1)
    for name in names:
        dtype, array = tensors[name]
        hasher.update(array.astype(FLOATS[dtype], copy=False).reshape(-1).view(np.uint8).data)
    return hasher.hexdigest()


# --- folders --------------------------------------------------------------------------------------------------------------


def name_of(step: int) -> str:
    """The name of the checkpoint after so many steps."""
    return f"step-{step:06d}{SUFFIX}"


def resolve(path: Path, shown: str | None = None) -> Path:
    """The checkpoint that a name means: the file, the same with `.safetensors`, or of a folder the one with the most steps.

    E8006 where there is none. `shown` is the name in messages, else the path.
    """
    shown = str(path) if shown is None else shown
    try:
        if path.is_dir():
            return _newest(path, shown)
        if path.exists():
            return path
        ended = path.with_name(path.name + SUFFIX)
        if ended.is_file():
            return ended
        raise unreadable(shown, "there is no such file")
    except (OSError, ValueError) as error:
        raise unreadable(shown, why_not(error)) from None


def shown_as(path: Path, shown: str, found: Path) -> str:
    """The name in messages of what `resolve` found for a name that is shown so."""
    if found == path:
        return shown
    return os.path.join(shown, found.name) if found.parent == path else shown + SUFFIX


def checkpoints_in(folder: Path) -> Mapping[int, Path]:
    """The checkpoints of a folder that are named by their steps, by step, the oldest first."""
    found = {int(match[1]): folder / name for name in os.listdir(folder) if (match := _STEP.fullmatch(name))}
    return {step: found[step] for step in sorted(found) if found[step].is_file()}


def prune(folder: Path, keep: int, upto: int | None = None) -> None:
    """Deletes the checkpoints `step-….safetensors` of a folder but for the `keep` with the most steps, and nothing else.

    With `upto` those of more steps are another run's, which stay and do not count. What cannot be deleted stays too.
    """
    if keep < 1:
        raise ValueError(f"{keep} checkpoints are to be kept")
    try:
        steps = checkpoints_in(folder)
    except OSError:
        return
    _delete([one for step, one in steps.items() if upto is None or step <= upto][:-keep])


def _delete(files: Iterable[Path]) -> None:
    for one in files:
        try:
            one.unlink()
        except OSError:  # a run does not end because an old file stays
            continue


def _newest(folder: Path, shown: str) -> Path:
    steps = checkpoints_in(folder)
    last = folder / LAST
    if last.is_file() and (not steps or _steps_of(last, os.path.join(shown, LAST)) >= max(steps)):
        return last
    if not steps:
        raise unreadable(shown, f"the folder has no checkpoint, `{name_of(1)}` or the like")
    return steps[max(steps)]


def _steps_of(path: Path, shown: str) -> int:
    """After how many steps a checkpoint was written, from its header alone."""
    handle = opened(path, shown)
    try:
        metadata = header_of(handle, shown).metadata
    finally:
        os.close(handle)
    wrong = _wrong_metadata(metadata)
    if wrong is not None:
        raise unreadable(shown, wrong)
    return _meta(metadata).step
