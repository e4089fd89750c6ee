"""The log of a run: JSON lines, one object a line, for programs that read what people are told.

    {"kind":"run","log":1,"program":"9f2c…","seed":"1","total":400}
    {"kind":"step","step":1,"epoch":0,"loss":4.6051,"rate":0.0001,"norm":1.25,"seconds":0.5,"tokens":1024,"tokens_per_second":2048.0}
    {"kind":"evaluation","step":200,"loss":2.1,"batches":20,"seconds":1.5}
    {"kind":"checkpoint","step":200,"path":"runs/step-000200.safetensors"}
    {"kind":"resume","step":200}
    {"kind":"end","step":400,"loss":1.7}

Numbers are the shortest decimals that read back. JSON has none that is not finite: such a loss or norm is null, and `text` says
what it was (`"text":{"loss":"nan"}`).

A line is written as soon as it is there, by one call of the system, so a process that is killed has lost nothing that it had said;
what a crash of the machine may leave is a torn last line. The file comes into being with its first line (a temporary name and a
rename), which is how a log is told from a foreign file: that is refused, never overwritten. A run that is resumed keeps what was
logged up to its checkpoint, drops the rest, and goes on behind it.
"""

import contextlib
import fcntl
import io
import math
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Final, Literal, Self, cast

import msgspec

from presk.exact.faults import COMMAND, Fault
from presk.train.files import UNWRITABLE, reason, refuse_irregular, replace, write
from presk.train.report import Evaluation, Step

FORM: Final = 1
"""The form of the lines, as the first one states it."""

_HEADER: Final = 1 << 20
"""Bytes of a first line."""

LOST: Final = "E8008"
"""A disk that takes no more while the run is under way."""


class Saved(msgspec.Struct, frozen=True):
    """A checkpoint that was written after step `step`."""

    step: int
    path: str


class Run(msgspec.Struct, frozen=True):
    """A log as it was read. `metadata` is what the run's caller gave; `end` is None where the run has not ended."""

    metadata: Mapping[str, Any]
    steps: tuple[Step, ...]
    evaluations: tuple[Evaluation, ...] = ()
    checkpoints: tuple[Saved, ...] = ()
    end: Mapping[str, Any] | None = None


_Special = Literal["nan", "inf", "-inf"]


class _Line(msgspec.Struct, frozen=True, tag_field="kind"):
    """What is common to the lines that have a step; the subclasses are the lines."""

    step: int


class _StepLine(_Line, frozen=True, tag="step", omit_defaults=True):
    epoch: int
    loss: float | None
    rate: float | None
    norm: float | None
    seconds: float | None
    tokens: int
    tokens_per_second: float | None
    text: dict[str, _Special] = msgspec.field(default_factory=dict)


class _EvaluationLine(_Line, frozen=True, tag="evaluation", omit_defaults=True):
    loss: float | None
    batches: int
    seconds: float | None
    text: dict[str, _Special] = msgspec.field(default_factory=dict)


class _CheckpointLine(_Line, frozen=True, tag="checkpoint"):
    path: str


class _ResumeLine(_Line, frozen=True, tag="resume"):
    pass


_Known = _StepLine | _EvaluationLine | _CheckpointLine | _ResumeLine
_DECODER: Final = msgspec.json.Decoder(_Known)


class Log:
    """A log that is being written. Made by `create` or `resume`; to be closed.

    Writing raises E8008 where the disk takes no more: what was written before stays, in whole lines, and the checkpoints do.
    """

    def __init__(self, file: io.FileIO, shown: str) -> None:
        """Takes the file over, which is at its end."""
        self._file: Final = file
        self._shown: Final = shown
        self._encoder: Final = msgspec.json.Encoder()

    @classmethod
    def create(cls, path: Path, shown: str, metadata: Mapping[str, object]) -> Self:
        """Begins a log, in place of an older one.

        E9002 for a file that is no log, that another run is writing, or that cannot be written.
        """
        with _old(path, shown) as old:
            if old is not None:
                _header_of(old, shown)
            return cls._begun(path, shown, _object("run", {"log": FORM, **metadata}))

    @classmethod
    def resume(
        cls, path: Path, shown: str, step: int, metadata: Mapping[str, object], same: tuple[str, ...] = ()
    ) -> Self:
        """Goes on with a log behind step `step`: later lines, a torn one and the line of an end are dropped, atomically.

        Where there is none one is begun. `same` names the entries of `metadata` in which the log must agree: E9003 if it does
        not, so that no file ever holds two runs. E9002 as in `create`, and for a line that is damaged.
        """
        own = _object("run", {"log": FORM, **metadata})
        with _old(path, shown) as old:
            kept = [own]
            if old is not None:
                raw, header = _header_of(old, shown)
                _agree(header, msgspec.json.decode(own), same, shown)
                kept = [raw]
                kept += [raw for raw, line in _lines(old, shown) if isinstance(line, _Line) and line.step <= step]
            kept.append(msgspec.json.encode(_ResumeLine(step)) + b"\n")
            return cls._begun(path, shown, b"".join(kept))

    @classmethod
    def _begun(cls, path: Path, shown: str, data: bytes) -> Self:
        """Replaces the file and holds it: another run that would write it is refused as long as this one has it open."""
        try:
            file = replace(path, data)
        except (OSError, ValueError) as error:
            raise Fault(UNWRITABLE, f"`{shown}` cannot be written: {reason(error)}") from error
        try:
            _hold(file, shown)
        except Fault:
            file.close()
            raise
        return cls(file, shown)

    def step(self, step: Step) -> None:
        """Logs a step."""
        text: dict[str, _Special] = {}
        speed = round(step.tokens / step.seconds, 1) if step.tokens and step.seconds > 0 else None
        self._append(
            _StepLine(
                step.step,
                step.epoch,
                _finite("loss", step.loss, text),
                _finite("rate", step.rate, text),
                _finite("norm", step.norm, text),
                _finite("seconds", step.seconds, text),
                step.tokens,
                speed,
                text,
            )
        )

    def evaluation(self, evaluation: Evaluation) -> None:
        """Logs an evaluation."""
        text: dict[str, _Special] = {}
        loss = _finite("loss", evaluation.loss, text)
        seconds = _finite("seconds", evaluation.seconds, text)
        self._append(_EvaluationLine(evaluation.step, loss, evaluation.batches, seconds, text))

    def checkpoint(self, step: int, path: str) -> None:
        """Logs a checkpoint, and has the disk keep the log so far: what a resumed run will find is not less than what it needs."""
        self._append(_CheckpointLine(step, _clean(path)))
        self._guard(lambda: os.fsync(self._file.fileno()))

    def end(self, metadata: Mapping[str, object]) -> None:
        """Logs the end of the run, with what the caller says of it."""
        self._write(_object("end", metadata))
        self._guard(lambda: os.fsync(self._file.fileno()))

    def close(self) -> None:
        """Closes the file. Nothing is lost without it."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _append(self, line: _Known) -> None:
        self._write(self._encoder.encode(line) + b"\n")

    def _write(self, data: bytes) -> None:
        def whole() -> None:
            at = self._file.seek(0, os.SEEK_END)
            try:
                write(self._file, data)
            except OSError:
                # A full disk may have taken a part of the line.
                with contextlib.suppress(OSError):
                    self._file.truncate(at)
                raise

        self._guard(whole)

    def _guard(self, act: Callable[[], None]) -> None:
        try:
            act()
        except OSError as error:
            raise Fault(
                LOST,
                f"the log `{self._shown}` cannot be written: {reason(error)}",
                notes=("the checkpoints that were written are whole",),
                mend="make room, or name another file, and go on with --resume",
            ) from error


def read_log(path: Path, shown: str) -> Run:
    """Reads a log, that of a run under way too: a torn last line is left out. E9002 for a file that is none or cannot be read."""
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(path.open("rb"))
            _, header = _header_of(file, shown)
            lines = [line for _, line in _lines(file, shown)]
        except (OSError, ValueError) as error:
            raise Fault(UNWRITABLE, f"`{shown}` cannot be read: {reason(error)}") from error
    last = lines[-1] if lines else None
    return Run(
        {name: value for name, value in header.items() if name != "log"},
        tuple(_step_of(line) for line in lines if isinstance(line, _StepLine)),
        tuple(_evaluation_of(line) for line in lines if isinstance(line, _EvaluationLine)),
        tuple(Saved(line.step, line.path) for line in lines if isinstance(line, _CheckpointLine)),
        None if isinstance(last, _Line) else last,
    )


def _step_of(line: _StepLine) -> Step:
    loss, rate, norm, seconds = (
        _number(name, value, line.text)
        for name, value in (("loss", line.loss), ("rate", line.rate), ("norm", line.norm), ("seconds", line.seconds))
    )
    return Step(line.step, line.epoch, loss, rate, norm, seconds, line.tokens)


def _evaluation_of(line: _EvaluationLine) -> Evaluation:
    loss, seconds = _number("loss", line.loss, line.text), _number("seconds", line.seconds, line.text)
    return Evaluation(line.step, loss, line.batches, seconds)


@contextlib.contextmanager
def _old(path: Path, shown: str) -> Iterator[BinaryIO | None]:
    """The file that is there, which no other run may be writing; None if there is none, or an empty one."""
    refuse_irregular(path, shown)
    try:
        file = path.open("rb")
    except FileNotFoundError:
        yield None
        return
    except (OSError, ValueError) as error:
        raise Fault(UNWRITABLE, f"`{shown}` cannot be read: {reason(error)}") from error
    with file:
        _hold(file, shown)
        yield file if os.fstat(file.fileno()).st_size else None


def _hold(file: BinaryIO | io.FileIO, shown: str) -> None:
    """Takes a file for this run, as long as it is open."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Fault(UNWRITABLE, f"`{shown}` is being written by another run", mend="name another file") from None
    except OSError:
        pass  # a file system without locks


def _header_of(file: BinaryIO, shown: str) -> tuple[bytes, dict[str, Any]]:
    """The first line of a log, which is read, and what it says; E9002 for any other file."""
    first = file.readline(_HEADER)
    header = _decoded(first) if first.endswith(b"\n") else None
    if not isinstance(header, dict) or header.pop("kind", None) != "run" or header.get("log") != FORM:
        raise Fault(
            UNWRITABLE,
            f"`{shown}` is not the log of a run",
            notes=("a file that is no log is never overwritten",),
            mend="name another file",
        )
    return first, header


def _lines(file: BinaryIO, shown: str) -> Iterator[tuple[bytes, _Known | dict[str, Any]]]:
    """The lines that follow, as they are stored and as they are meant, that of an end as a dictionary; without a torn last one."""
    for number, raw in enumerate(file, 2):
        whole = raw.endswith(b"\n")
        line = _line(raw)
        if line is not None:
            yield (raw if whole else raw + b"\n"), line
        elif whole:
            raise Fault(UNWRITABLE, f"`{shown}` is damaged: line {number} is no line of a log")


def _line(raw: bytes) -> _Known | dict[str, Any] | None:
    try:
        return _DECODER.decode(raw)
    except msgspec.ValidationError:
        line = _decoded(raw)
        return line if isinstance(line, dict) and line.pop("kind", None) == "end" else None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _decoded(raw: bytes) -> object:
    """What a line says; None if it is no JSON."""
    try:
        return cast("object", msgspec.json.decode(raw))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _agree(header: Mapping[str, Any], wanted: Mapping[str, Any], same: tuple[str, ...], shown: str) -> None:
    """E9003 for the log of another run."""
    for name in same:
        if header.get(name) != wanted.get(name):
            raise Fault(
                COMMAND,
                f"`{shown}` is the log of another run: its {name} is {_spelled(header, name)}, here it is "
                f"{_spelled(wanted, name)}",
                mend="name another file",
            )


def _spelled(entries: Mapping[str, Any], name: str) -> str:
    return f"`{msgspec.json.encode(entries[name]).decode()}`" if name in entries else "not given"


def _object(kind: str, entries: Mapping[str, object]) -> bytes:
    """A line of a kind, which comes first, with entries of the caller's."""
    cleaned = {name: _clean(value) if isinstance(value, str) else value for name, value in entries.items()}
    return msgspec.json.encode({"kind": kind, **cleaned} | {"kind": kind}) + b"\n"


def _clean(text: str) -> str:
    """A text that is UTF-8: a path may have bytes that are not."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _finite(name: str, value: float, text: dict[str, _Special]) -> float | None:
    """A number as it is stored; one that is not finite goes to `text`."""
    if math.isfinite(value):
        return value
    text[name] = "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return None


def _number(name: str, value: float | None, text: Mapping[str, _Special]) -> float:
    """The inverse."""
    return float(text.get(name, "nan")) if value is None else value
