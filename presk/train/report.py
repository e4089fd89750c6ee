"""What a training run says to people while it works.

On a terminal one line is rewritten in place, at most ten times a second, with a bar and the figures of the last step. Lines that
stay are written for the first and the last step, for a round number of steps in between (twenty to fifty lines in a run), for
evaluations and for checkpoints; where nobody watches there are only these:

    step 100/400  loss 2.4312  mean of 10: 2.4498  lr 1.00e-03  norm 0.512  12,345 tokens/s  remaining 1 min 20 s

`loss` is always the loss of that very step; `mean of 10` is the mean over the ten steps since the line before. Speed and
remaining time are of the middle one of the last steps, so that one slow step does not move them; the first step counts in neither,
since it loads data and kernels. Time is taken from the steps that are reported: the clock only spaces what is rewritten.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from statistics import median
from typing import Final

import msgspec

from presk.diagnostics.cells import Cells, shown


class Step(msgspec.Struct, frozen=True):
    """One step of the optimizer, as the loop knows it when the step is done."""

    step: int  # from 1
    epoch: int  # from 0
    loss: float
    rate: float  # the learning rate of this step
    norm: float  # the 2-norm of the gradient, before clipping
    seconds: float  # wall time of this step, whole
    tokens: int  # index elements of the first leaf of the batch: B·T; 0 where the batch has no indices


class Evaluation(msgspec.Struct, frozen=True):
    """The mean loss over `batches` batches of the evaluation data, with the parameters after step `step`."""

    step: int
    loss: float
    batches: int
    seconds: float


class Start(msgspec.Struct, frozen=True):
    """What is known before the first step."""

    what: str  # the program, as the user spells it
    total: int  # the number of the last step
    first: int = 1  # the number of the first step; more than 1 where a run is resumed
    tokens: int = 0  # of a step; 0 where the batch has no indices
    launches: int = 0  # of kernels, in a step; 0 if not known
    threads: int = 0  # 0 if not known
    facts: tuple[str, ...] = ()  # others, said as they are


INTERVAL: Final = 0.1
"""Seconds between two writings of the line that is rewritten."""

WINDOW: Final = 32
"""Steps over which speed and remaining time are estimated."""

_LINES: Final = 40
_BARS: Final = (30, 20, 10)
_NARROWEST: Final = 20


class Reporter:
    """Tells people about a run, through `write`, which takes text and sees that it arrives.

    `columns` is the width of the terminal; elsewhere lines are as long as they are. `now` gives seconds.
    """

    def __init__(
        self,
        write: Callable[[str], object],
        *,
        terminal: bool = False,
        columns: int = 120,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._write: Final = write
        self._terminal: Final = terminal
        # A line that fills the last column wraps on some terminals.
        self._room: Final = max(_NARROWEST, columns) - 1 if terminal else None
        self._now: Final = now
        self._drawn = -math.inf  # when the line in place was written
        self._live = 0  # its length; 0 if there is none
        self._total = 0
        self._from = 1
        self._every = 1
        self._first: Step | None = None
        self._last: Step | None = None
        self._recent: deque[Step] = deque(maxlen=WINDOW)
        self._sum = 0.0  # of losses since the last line that stays
        self._count = 0
        self._steps = 0
        self._tokens = 0  # without the first step
        self._seconds = 0.0  # without the first step
        self._evaluating = 0.0  # seconds
        self._evaluated = 0  # steps done at the last evaluation

    def start(self, start: Start) -> None:
        """Says what is about to be done."""
        self._total, self._from = start.total, start.first
        self._every = spacing(start.total - start.first + 1)
        steps = f"steps {start.first:,} to {start.total:,}" if start.first > 1 else amount(start.total, "step")
        fields = [f"train {_printable(start.what)}", steps]
        if start.tokens:
            fields.append(f"{start.tokens:,} tokens/step")
        if start.launches:
            fields.append(f"{start.launches:,} launches/step")
        if start.threads:
            fields.append(amount(start.threads, "thread"))
        self._stay(_folded([*fields, *map(_printable, start.facts)], self._room))

    def step(self, step: Step) -> None:
        """Takes a step that is done; says so if it is time to."""
        if self._first is None:
            self._first = step
        else:
            self._recent.append(step)
            self._tokens += step.tokens
            self._seconds += step.seconds
        self._last = step
        self._steps += 1
        self._sum += step.loss
        self._count += 1
        if self._due(step.step):
            self._stay(_fitted(self._fields(step), self._room))
            self._sum, self._count = 0.0, 0
        elif self._terminal:
            now = self._now()
            if now - self._drawn >= INTERVAL:
                self._drawn = now
                self._rewrite(self._bar(step))

    def evaluation(self, evaluation: Evaluation) -> None:
        """Says how an evaluation came out."""
        self._evaluating += evaluation.seconds
        self._evaluated = self._steps
        fields = [f"evaluation  step {self._place(evaluation.step)}", f"loss {loss_text(evaluation.loss)}"]
        fields += [amount(evaluation.batches, "batch", "batches"), duration(evaluation.seconds)]
        self._stay(_folded(fields, self._room))

    def checkpoint(self, step: int, path: str) -> None:
        """Says that a checkpoint is written. Its path is never shortened, so the line may be wider than the terminal."""
        self._stay([f"checkpoint  step {self._place(step)}  {_printable(path)}"])

    def end(self, stopped: str | None = None) -> None:
        """Sums the run up; `stopped` says why it ended before its last step."""
        first, last = self._first, self._last
        if first is None or last is None:
            self._stay(_folded(["no step to do" if stopped is None else f"stopped: {_printable(stopped)}"], self._room))
            return
        done = amount(self._steps, "step")
        fields = [f"done  {done}" if stopped is None else f"stopped: {_printable(stopped)}  {done}"]
        fields.append(duration(first.seconds + self._seconds + self._evaluating))
        if first is not last:
            fields.append(f"loss {loss_text(first.loss)} to {loss_text(last.loss)}")
            if self._seconds > 0:
                fields.append(f"{_speed(self._tokens, self._steps - 1, self._seconds)} in all")
        else:
            fields.append(f"loss {loss_text(first.loss)}")
        self._stay(_folded(fields, self._room))

    def close(self) -> None:
        """Leaves the line in place as it is and goes below it, for whatever is printed next."""
        if self._live:
            self._live = 0
            self._write("\n")

    def _due(self, step: int) -> bool:
        """Whether a step has a line that stays."""
        if step == self._from or step == self._total or step % self._every == 0:
            return True
        return self._from == 1 and step < self._every and _is_power_of_ten(step)

    def _place(self, step: int) -> str:
        return f"{step:{len(str(self._total))}d}/{self._total}"

    def _estimate(self) -> float | None:
        """Seconds of a step, of late."""
        return median(step.seconds for step in self._recent) if self._recent else None

    def _pace(self) -> tuple[str | None, str | None]:
        """Speed and remaining time; None where there is nothing to say yet, or no more."""
        seconds, last = self._estimate(), self._last
        if last is None or seconds is None or seconds <= 0:
            return None, None
        tokens = sum(step.tokens for step in self._recent)
        speed = _speed(tokens, len(self._recent), seconds * len(self._recent))
        left = self._total - last.step
        if left <= 0:
            return speed, None
        more = self._evaluating / self._evaluated if self._evaluated else 0.0
        return speed, duration(left * (seconds + more))

    def _fields(self, step: Step) -> list[tuple[str, int]]:
        """The figures of a line that stays, each with a number: the higher, the sooner it is left out where there is no room.

        Speed and remaining time are the first to go: the line in place shows them.
        """
        speed, left = self._pace()
        fields = [(f"step {self._place(step.step)}", 0), (f"loss {loss_text(step.loss)}", 0)]
        if self._count > 1:
            fields.append((f"mean of {self._count}: {loss_text(self._sum / self._count)}", 2))
        fields += [(f"lr {step.rate:.2e}", 1), (f"norm {norm_text(step.norm)}", 3)]
        if speed is not None:
            fields.append((speed, 4))
        if left is not None:
            fields.append((f"remaining {left}", 5))
        return fields

    def _bar(self, step: Step) -> str:
        """The line in place: a bar where there is room for one, then figures."""
        room = self._room or 0
        speed, left = self._pace()
        fields = [(self._place(step.step), 0), (f"loss {loss_text(step.loss)}", 0), (f"lr {step.rate:.2e}", 3)]
        fields.append((f"norm {norm_text(step.norm)}", 4))
        if speed is not None:
            fields.append((speed, 2))
        if left is not None:
            fields.append((f"{left} left", 1))
        # A bar says more than what can be read off the next line that stays: norm and rate make room for it.
        for dropped in (5, 4, 3):
            text = "  ".join(field for field, rank in fields if rank < dropped)
            for size in _BARS:
                if size + 2 + len(text) <= room:
                    return f"{bar(step.step, self._total, size)}  {text}"
        line = _fitted(fields, room)[0]
        return f"{bar(step.step, self._total, _BARS[-1])}  {line}" if _BARS[-1] + 2 + len(line) <= room else line

    def _rewrite(self, line: str) -> None:
        self._write(f"\r{line.ljust(self._live)}")
        self._live = len(line)  # its figures are ASCII

    def _stay(self, lines: Sequence[str]) -> None:
        text = "\n".join(lines)
        if self._live:
            first, *rest = lines
            text = "\n".join([f"\r{first}{' ' * (self._live - _width(first))}", *rest])
            self._live = 0
        self._write(f"{text}\n")


def spacing(steps: int) -> int:
    """How far apart the lines of a run are: 1, 2 or 5 times a power of ten, the smallest with at most forty lines."""
    every, factors = 1, (1, 2, 5)
    while True:
        for factor in factors:
            if factor * every * _LINES >= steps:
                return factor * every
        every *= 10


def bar(done: int, total: int, size: int) -> str:
    """A bar of `size` columns, its frame among them: `[====>     ]`. It is full when everything is done, and only then."""
    inner = size - 2
    filled = inner * min(done, total) // max(total, 1)
    if filled >= inner:
        return f"[{'=' * inner}]"
    return f"[{('=' * filled + '>').ljust(inner)}]"


def duration(seconds: float) -> str:
    """Time for people: `0.42 s`, `4.2 s`, `12 s`, `1 min 20 s`, `2 h 5 min`, `3 d 4 h`."""
    if not math.isfinite(seconds):
        return f"{seconds} s"
    if seconds < 9.95:
        return f"{seconds:.2f} s" if seconds < 0.995 else f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    minutes = round(seconds / 60)
    if minutes < 24 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    hours = round(seconds / 3600)
    return f"{hours // 24:,} d {hours % 24} h"


def loss_text(loss: float) -> str:
    """A loss: four decimals, or an exponent where those would hide it; `nan` and `inf` as they are."""
    if loss == 0 or 0.01 <= abs(loss) < 1e6 or not math.isfinite(loss):
        return f"{loss:.4f}"
    return f"{loss:.3e}"


def norm_text(norm: float) -> str:
    """A norm with three digits: `0.512`, `12.3`, `1.20e+03`."""
    if norm == 0 or not math.isfinite(norm):
        return f"{norm:g}"
    if 1e-3 <= norm < 999.5:
        return f"{norm:.{2 - math.floor(math.log10(norm))}f}"
    return f"{norm:.2e}"


def amount(count: int, one: str, many: str | None = None) -> str:
    """`1 step`, `2 steps`, `1,024 batches`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def _speed(tokens: int, steps: int, seconds: float) -> str:
    """Tokens in a second; steps where a batch has none."""
    count, unit = (tokens, "tokens/s") if tokens else (steps, "steps/s")
    figure = count / seconds
    return f"{figure:,.0f} {unit}" if figure >= 100 else f"{figure:.2f} {unit}"


def _is_power_of_ten(number: int) -> bool:
    return number > 0 and str(number) == f"1{'0' * (len(str(number)) - 1)}"


def _printable(text: str) -> str:
    return "".join(map(shown, text))


def _width(text: str) -> int:
    """Columns of a terminal."""
    return len(text) if text.isascii() else Cells(text).width


def _fitted(fields: Sequence[tuple[str, int]], room: int | None) -> list[str]:
    """One line of the fields; those with the highest numbers are left out until it fits, those with 0 never."""
    kept = list(fields)
    while True:
        line = "  ".join(text for text, _ in kept)
        worst = max(rank for _, rank in kept)
        if room is None or len(line) <= room or worst == 0:
            return [line]
        kept = [(text, rank) for text, rank in kept if rank != worst]


def _folded(fields: Sequence[str], room: int | None) -> list[str]:
    """Lines of the fields, all of them, broken between two where there is no room."""
    lines = [fields[0]]
    for field in fields[1:]:
        if room is None or _width(lines[-1]) + 2 + _width(field) <= room:
            lines[-1] += f"  {field}"
        else:
            lines.append(f"  {field}")
    return lines
