"""What the configuration blocks resolve to: the records that commands read and `presk check --summary` prints.

Numbers that mean reals are kept as their literals' text, so nothing is rounded; naturals fit in 63 bits. Forms that nothing
reads yet (`parallel`, `precision`, `target`, `batching`, `cache`) are kept as canonical text.
"""

import msgspec

from presk.types.claim import Claim
from presk.types.type import Index, Instance, Type


class Schedule(msgspec.Struct, frozen=True, array_like=True):
    """The learning rate over the steps: `constant()`, `linear(warmup = w)`, `cosine(warmup = w)`."""

    kind: str
    warmup: int = 0

    def __str__(self) -> str:
        return "constant()" if self.kind == "constant" else f"{self.kind}(warmup = {self.warmup})"


class OptimizerRecord(msgspec.Struct, frozen=True, array_like=True, tag=True, tag_field="form"):
    """An optimizer block with its defaults filled in; `grad_clip` None means no clipping."""

    name: str
    lr: str
    betas: tuple[str, str] = ("0.9", "0.999")
    eps: str = "1e-8"
    weight_decay: str = "0"
    grad_clip: str | None = None
    schedule: Schedule = Schedule("constant")


class Data(msgspec.Struct, frozen=True, array_like=True):
    """`stream path |> shuffle(seed = seed) |> batch(B = batch) |> take(n = take)`; `path` as written."""

    path: str
    seed: int
    batch: int
    take: int | None = None

    def __str__(self) -> str:
        quoted = self.path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
        text = f'stream "{quoted}" |> shuffle(seed = {self.seed}) |> batch(B = {self.batch})'
        return text if self.take is None else f"{text} |> take(n = {self.take})"


class Checkpoints(msgspec.Struct, frozen=True, array_like=True):
    """`checkpoint every steps steps to folder`."""

    steps: int
    folder: str


class DataInfo(msgspec.Struct, frozen=True, array_like=True):
    """What a data file's head says: its sample type, how many samples, and length and stride of windows if it has some."""

    sample: Type
    count: int
    window: tuple[int, int] | None = None


class TrainingRecord(msgspec.Struct, frozen=True, array_like=True, tag=True, tag_field="form"):
    """The `training run` block against its objective.

    `batch` and `sample` are the objective's types with the known dimensions put in; `dims` are these dimensions, by name: of
    the batch from `batch(B = n)`, all others from the data file if it is there (`data_info`). `key` says that the objective
    takes a key for each step between θ and the batch. `facts` are the bounds that the dimensions still have to obey.
    """

    model: Instance
    objective: str
    key: bool
    batch: Type
    sample: Type
    dims: tuple[tuple[str, int], ...]
    optimizer: str
    data: Data | None = None
    data_info: DataInfo | None = None
    epochs: int = 1
    checkpoint: Checkpoints | None = None
    parallel: str | None = None
    precision: str | None = None
    facts: tuple[Claim, ...] = ()

    @property
    def batches(self) -> int | None:
        """The batches of an epoch: full ones only, at most `take`; None where the data is not known."""
        if self.data is None or self.data_info is None:
            return None
        full = self.data_info.count // self.data.batch
        return full if self.data.take is None else min(full, self.data.take)


class Generation(msgspec.Struct, frozen=True, array_like=True):
    """The file's generation function: its context and its result, and whether it takes a key (and as which parameter)."""

    function: str
    context: Index
    result: Index
    key: str | None = None


class ServeRecord(msgspec.Struct, frozen=True, array_like=True, tag=True, tag_field="form"):
    """The `inference serve` block; `generation` is None where no function of the file fits (W0003)."""

    model: Instance
    generation: Generation | None
    weights: str | None = None
    precision: str | None = None
    target: str | None = None
    batching: str | None = None
    cache: str | None = None


Record = OptimizerRecord | TrainingRecord | ServeRecord
