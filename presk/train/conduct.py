"""Conducts a training run: opens what it reads, begins it or takes it up again, keeps its checkpoints.

A run that is taken up again must go on as it began: program, machine types, seed, batches and data are those of the checkpoint (E8007,
E8009). Threads, layouts and `--remat` decide no bit, so they may differ; fusion decides one only where storing rounds (bf16).
"""

import fcntl
import os
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from presk.ad.step import THETA
from presk.cache.engine import Engine
from presk.cache.log import RequestLog
from presk.data.reading import DataFile
from presk.data.stream import Stream
from presk.data.vocabulary import Vocabulary
from presk.exact import draws
from presk.exact.faults import COMMAND, Fault
from presk.exact.synthesize import initialized
from presk.kernels.entry import NativeEntry
from presk.kernels.native.driver import Driver as Threads
from presk.kernels.stage import ROUTINES
from presk.native.drawing import NativeNormals
from presk.native.run import blobs_of
from presk.native.values import Doubles, flattened
from presk.realize.record import groups_visible, spelled
from presk.train import checkpoint
from presk.train.checkpoint import Checkpoint, Meta
from presk.train.evaluate import Evaluator
from presk.train.generate import window_of
from presk.train.loop import Course, Listener, Schedule, run, save_state
from presk.train.machine import ELEMS, STORED, Machine, Values
from presk.train.numbers import numbers_of
from presk.train.parameters import check_fits, read_parameters
from presk.train.session import Session

MISFIT: Final = "E8007"
OTHER_DATA: Final = "E8009"
KEPT: Final = 3
"""How many checkpoints of a run are kept, where nothing else is said."""


@dataclass(frozen=True, slots=True)
class Named:
    """A file or folder, and its name as the user spells it."""

    path: Path
    shown: str


@dataclass(frozen=True, slots=True)
class Evaluating:
    """Data to evaluate on, how often (None: at the end alone), and how many batches of it (None: all)."""

    data: Named
    every: int | None
    batches: int | None


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked of a run beside its program. `folder` is where checkpoints go, `every` how often; `last` the step to end with.

    `resume` is a checkpoint to go on from, `parameters` a file to take the parameters from in place of drawing them.
    """

    data: Named
    folder: Named | None
    every: int | None
    keep: int
    last: int
    resume: Named | None
    parameters: Named | None
    evaluating: Evaluating | None
    overwrite: bool


class Training:
    """A run that is ready to begin: everything it reads is open and was looked at."""

    def __init__(self, engine: Engine, log: RequestLog, session: Session, wanted: Wanted, stack: ExitStack) -> None:
        """`Fault` for what does not fit: E8001 to E8009. What is opened is closed with `stack`."""
        self.session: Final = session
        self._wanted: Final = wanted
        self._stack: Final = stack
        training, asked = session.training, session.asked
        assert training.data is not None
        self.data: Final = stack.enter_context(DataFile(wanted.data.path, wanted.data.shown))
        self.data.check()
        self.stream: Final = Stream(
            self.data, seed=training.data.seed, batch=training.data.batch, take=training.data.take, indices=np.int32
        )
        if self.stream.per_epoch != session.per_epoch:
            raise Fault("E8005", f"`{wanted.data.shown}` was changed since the program was checked")
        found = None if wanted.resume is None else self._resumed(wanted.resume)
        given = None if wanted.parameters is None else self._given(wanted.parameters)
        fresh = wanted.folder if found is None else None
        if fresh is not None:
            self._earlier(fresh)
        threads = stack.enter_context(Threads(engine.get(ROUTINES).value, asked.threads))
        driver = session.driver.value
        entry = NativeEntry(driver, blobs_of(engine, log, driver, asked.level, "training.step"), threads)
        batch = session.function.params[2 + training.key].type
        self.machine: Final = Machine(driver, entry, session.function, batch, session.total)
        self.first = 1
        self._saved = 0
        self._saving = False
        if found is not None:
            self.first = found.meta.step + 1
            self.machine.restore(found.parameters, found.state("m"), found.state("v"))
        else:
            self.machine.set_parameters(self._drawn(engine) if given is None else given)
        self._evaluator: Final = (
            None if wanted.evaluating is None else self._evaluation(engine, log, threads, wanted.evaluating, stack)
        )

    # --- what a run begins with ---

    @property
    def expected(self) -> Mapping[str, tuple[tuple[int, ...], str]]:
        """Shapes and element types of the parameters."""
        return {
            part.path.removeprefix(f"{THETA}."): (part.operand.shape, STORED[part.operand.elem])
            for part in self.session.driver.value.inputs
            if part.path.startswith(f"{THETA}.")
        }

    def _drawn(self, engine: Engine) -> Mapping[str, NDArray[Any]]:
        """Parameters of the seed: those that an entry has that takes them first."""
        session = self.session
        key = draws.child(draws.master_key(session.asked.seed), 0)
        elem = next(iter(ELEMS[dtype] for _, dtype in self.expected.values()), ELEMS["F64"])
        making = Doubles(elem, NativeNormals(engine, session.asked.level))
        tree = initialized(making, session.scope, session.training.model, key)
        tensors, _ = flattened((THETA,), (tree,))
        return {path.removeprefix(f"{THETA}."): values for path, values in tensors.items()}

    def _given(self, file: Named) -> Mapping[str, NDArray[Any]]:
        """Parameters of a file, whatever their element type."""
        path = checkpoint.resolve(file.path, file.shown)
        shown = checkpoint.shown_as(file.path, file.shown, path)
        found = read_parameters(path, shown)
        return numbers_of(found, self.expected, shown)

    def _resumed(self, file: Named) -> Checkpoint:
        """A checkpoint of this very run; E8006, E8007, E8009."""
        path = checkpoint.resolve(file.path, file.shown)
        shown = checkpoint.shown_as(file.path, file.shown, path)
        found = checkpoint.read(path, shown)
        meta, own = found.meta, self.meta(found.meta.step, _NOTHING)
        # Shapes first: of a program of other sizes they say more than its digest.
        expected, stored = self.expected, found.parameters
        kinds = {
            name: (expected[name][0], stored[name][0]) if name in stored else one for name, one in expected.items()
        }
        check_fits(stored, kinds, shown)
        for name, what in _SAME.items():
            ours, theirs = getattr(own, name), getattr(meta, name)
            if ours != theirs:
                raise _differs(shown, what, theirs, ours)
        if meta.data != own.data:
            raise Fault(
                OTHER_DATA,
                f"the run of `{shown}` was on other data than `{self._wanted.data.shown}` has now",
                mend="give the file as it was; to go on with other data from the parameters alone: --params",
            )
        at = self.stream.position(meta.step)
        if (meta.epoch, meta.batch) != (at.epoch, at.batch):
            raise _differs(shown, "place in the data", f"{meta.epoch}:{meta.batch}", f"{at.epoch}:{at.batch}")
        for tree in (found.parameters, found.state("m"), found.state("v")):
            check_fits(tree, expected, shown)
        return found

    def _earlier(self, folder: Named) -> list[Path]:
        """The checkpoints of an earlier run in a folder; refused unless they are to be overwritten."""
        try:
            steps = checkpoint.checkpoints_in(folder.path) if folder.path.exists() else {}
        except OSError as error:
            raise _unusable(folder, error) from None
        last = folder.path / checkpoint.LAST
        there = [*steps.values(), *([last] if last.exists() else [])]
        if there and not self._wanted.overwrite:
            raise Fault(
                COMMAND,
                f"`{folder.shown}` has checkpoints of an earlier run",
                mend=f"go on with it: --resume {folder.shown}; or begin anew and delete them: --overwrite",
            )
        return there

    def _evaluation(
        self, engine: Engine, log: RequestLog, threads: Threads, asked: Evaluating, stack: ExitStack
    ) -> Evaluator:
        training = self.session.training
        assert training.data is not None
        data = stack.enter_context(DataFile(asked.data.path, asked.data.shown))
        data.check()
        if _vocabulary(data.contents.vocabulary) != _vocabulary(self.data.contents.vocabulary):
            raise Fault(
                OTHER_DATA,
                f"the vocabulary of `{asked.data.shown}` is not that of `{self._wanted.data.shown}`",
                mend=f"pack it with --vocab {self._wanted.data.shown}",
            )
        if data.contents.sample != self.data.contents.sample:
            raise Fault(
                OTHER_DATA,
                f"the samples of `{asked.data.shown}` are `{data.contents.sample}`, those of the training "
                f"`{self.data.contents.sample}`",
                mend="pack it with the same --window",
            )
        stream = Stream(data, seed=None, batch=training.data.batch, indices=np.int32)
        if stream.per_epoch == 0:
            raise Fault(
                OTHER_DATA,
                f"`{asked.data.shown}` has {data.count} samples, fewer than a batch of {training.data.batch}",
            )
        batches = stream.per_epoch if asked.batches is None else asked.batches
        return Evaluator(engine, log, self.session, threads, stream, batches)

    # --- the run ---

    def meta(self, step: int, values: Values) -> Meta:
        """Of which run a checkpoint is that is written after a step."""
        session, training = self.session, self.session.training
        assert training.data is not None
        at = self.stream.position(step)
        sequence = window_of(self.data.contents.sample)
        return Meta(
            program=session.digest,
            model=str(training.model),
            optimizer=training.optimizer,
            realization=spelled(session.asked.realization),
            remat=session.asked.remat.value,
            step=step,
            epoch=at.epoch,
            batch=at.batch,
            total=session.total,
            seed=str(session.asked.seed),
            shuffle=str(training.data.seed),
            data=self.data.digest,
            tool=version("presk"),
            loss=repr(values.loss),
            vocab=_vocabulary(self.data.contents.vocabulary),
            sequence=None if sequence is None else str(sequence),
            unfused="yes" if groups_visible(session.asked.realization) and not session.asked.fused else None,
        )

    def describe(self, program: str) -> dict[str, object]:
        """What the log of the run says of it first."""
        meta = self.meta(self.first - 1, _NOTHING)
        return {
            "file": program,
            "program": meta.program,
            "model": meta.model,
            "optimizer": meta.optimizer,
            "realization": meta.realization,
            "seed": meta.seed,
            "shuffle": meta.shuffle,
            "data": meta.data,
            "total": meta.total,
            "tool": meta.tool,
        }

    def run(self, listeners: tuple[Listener, ...]) -> None:
        """Runs the steps that are left; errors as for `presk.train.loop.run`, and E8008."""
        wanted, training = self._wanted, self.session.training
        evaluator = self._evaluator
        if wanted.folder is not None:
            # Not before everything else is known to be sound.
            self._begin(wanted.folder)
        schedule = Schedule(
            self.first,
            wanted.last,
            wanted.every,
            None if wanted.evaluating is None else wanted.evaluating.every,
        )
        course = Course(None if wanted.folder is None else self._save, evaluator)
        seed = self.session.asked.seed if training.key else None
        try:
            run(self.machine, self.stream, schedule, seed, course, listeners)
        except KeyboardInterrupt:
            # Whoever interrupts a run wants to go on with it some time.
            self._keep(course, listeners)
            raise
        except (Fault, OSError):
            # Nobody reads what is printed, the disk takes no more of the log, the data was changed: what is done is done.
            if not self._saving:
                with suppress(Fault):
                    self._keep(course, ())
            raise

    def _keep(self, course: Course, listeners: tuple[Listener, ...]) -> None:
        """Saves the state of a run that ends early, if it is not saved already."""
        if self.machine.at is not None and self.machine.at[0] != self._saved:
            save_state(self.machine, course, listeners)

    def _begin(self, folder: Named) -> None:
        """Makes the folder of the checkpoints, holds it as long as the run lasts, and takes an earlier run's away."""
        try:
            folder.path.mkdir(parents=True, exist_ok=True)
            self._hold(folder)
            if self.first == 1:  # looked at again: another run may have ended meanwhile
                for one in self._earlier(folder):
                    one.unlink(missing_ok=True)
        except OSError as error:
            raise _unusable(folder, error) from None
        if not os.access(folder.path, os.W_OK | os.X_OK):
            raise Fault("E8008", f"`{folder.shown}` cannot be used: it may not be written to")

    def _hold(self, folder: Named) -> None:
        """E9003 where another run writes into the folder: the two would delete each other's checkpoints."""
        handle = os.open(folder.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._stack.callback(os.close, handle)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Fault(
                COMMAND,
                f"`{folder.shown}` is being written by another run",
                mend="wait for its end, or name another folder: --checkpoints DIR",
            ) from None
        except OSError:
            pass  # a file system without locks

    def _save(self, machine: Machine, step: int, values: Values) -> str:
        folder = self._wanted.folder
        assert folder is not None
        names = [checkpoint.name_of(step)]
        if step == self.session.total:
            names.append(checkpoint.LAST)
        parameters, (first, second) = machine.parameters(), machine.moments()
        self._saving = True
        for name in names:
            shown = os.path.join(folder.shown, name)
            checkpoint.write(folder.path / name, shown, parameters, first, second, self.meta(step, values))
        self._saving = False
        self._saved = step
        checkpoint.prune(folder.path, self._wanted.keep, upto=step)
        return os.path.join(folder.shown, names[-1])


_NOTHING: Final = Values(0.0, 0.0, 0.0)

_SAME: Final[Mapping[str, str]] = {
    "model": "model",
    "program": "program",
    "realization": "machine types",
    "seed": "seed",
    "shuffle": "seed of the order of samples",
    "unfused": "fusion, which shows where storing rounds",
    "total": "number of steps",
}
"""What of a checkpoint a run that goes on from it must have, in the order in which it is looked at."""


def _unusable(folder: Named, error: OSError) -> Fault:
    return Fault("E8008", f"`{folder.shown}` cannot be used: {(error.strerror or 'it is no folder').lower()}")


def _differs(shown: str, what: str, theirs: object, ours: object) -> Fault:
    notes = () if what == "program" else (f"the checkpoint's: {theirs}", f"this run's: {ours}")
    return Fault(
        MISFIT,
        f"`{shown}` is of another run, which differs in its {what}",
        notes=notes,
        mend="to begin a new run from its parameters alone: --params",
    )


def _vocabulary(vocabulary: Vocabulary | None) -> str | None:
    return None if vocabulary is None else vocabulary.spelled()
