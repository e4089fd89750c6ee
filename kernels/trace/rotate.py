"""Takes copies out of loops that walk along a stack: what is copied out of the stack for the next iteration is read where it lies.

A backward loop works on what the forward loop kept: the last of it lies at the end of a stack, and each iteration fetches, for the one
behind it, what lies before.

    loop i                                loop i
      … reads s[n] …               ⟶        … reads s[n − i] …
      copy s[n − 1 − i] → s[n]

In iteration i, s[n] is s[n − i] as it was before the loop. So where nothing in the loop writes the stack but that copy, and
nobody reads the place behind the loop, its readers may walk along the stack, and the copy goes. What had been put at the other end of
the stack, for the copy of the last iteration, is then read by nobody, and goes too.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from presk.kernels.ir import SIZES, Access, Kernel
from presk.kernels.trace.access import Range, ranges
from presk.kernels.trace.rows import Launch, Loop, Row, Trace
from presk.kernels.trace.values import Ref, size_of


def rotate(trace: Trace) -> Trace:
    """The trace with fewer copies in its outermost loops, and without copies outside of loops that nobody reads."""
    later: dict[int, list[Range]] = {}
    for part in trace.results:
        ref = part.place
        later.setdefault(ref.buffer, []).append(
            Range(ref.buffer, ref.offset, ref.offset + size_of(part.operand), (), False)
        )
    rows: list[Row] = []
    for row in reversed(trace.rows):
        if isinstance(row, Loop):
            row = _Rotating(row, trace.kernels, later).run()
        elif row.move and not _read(next(one for one in ranges(row, trace.kernels) if one.writes), later):
            continue
        rows.append(row)
        for one in ranges(row, trace.kernels):
            later.setdefault(one.buffer, []).append(one)
    return msgspec.structs.replace(trace, rows=tuple(reversed(rows)))


def _read(written: Range, later: Mapping[int, Sequence[Range]]) -> bool:
    """Whether what is written is read later."""
    return any(not one.writes and _meets(one, written) for one in later.get(written.buffer, ()))


class _Rotating:
    """One loop; `later` is what is touched behind it."""

    def __init__(self, loop: Loop, kernels: Sequence[Kernel], later: Mapping[int, Sequence[Range]]) -> None:
        self._loop = loop
        self._kernels = kernels
        self._later = later

    def run(self) -> Loop:
        """The loop without the copies that can go."""
        body = list(self._loop.rows)
        place = 0
        while place < len(body):
            row = body[place]
            step = self._fetches(row)
            if step is not None and isinstance(row, Launch) and self._only_reader(body, place, row, step):
                target = self._range(row, 1)
                body = [
                    self._walking(one, target, step, behind=number > place)
                    for number, one in enumerate(body)
                    if number != place
                ]
                continue
            place += 1
        return Loop(self._loop.loop, self._loop.count, tuple(body))

    def _fetches(self, row: Row) -> int | None:
        """The bytes by which a copy's source moves, if its target is where the source would be an iteration before the first."""
        if not isinstance(row, Launch) or not row.move:
            return None
        source, target = row.places
        read, written = self._kernels[row.kernel].buffers
        if read.elem is not written.elem or source.buffer != target.buffer or target.steps:
            return None
        ((loop, step),) = source.steps if len(source.steps) == 1 else ((-1, 0),)
        return step if loop == self._loop.loop and step and target.offset == source.offset - step else None

    def _range(self, row: Launch, place: int) -> Range:
        ref, buffer = row.places[place], self._kernels[row.kernel].buffers[place]
        size = buffer.size * SIZES[buffer.elem]
        return Range(ref.buffer, ref.offset, ref.offset + size, ref.steps, buffer.access is not Access.IN)

    def _only_reader(self, body: Sequence[Row], at: int, copy: Launch, step: int) -> bool:
        """Whether all that meets the target in the loop reads it alone, nothing writes the stack, and nobody touches it later."""
        target = self._range(copy, 1)
        if abs(step) < target.high - target.low or any(
            _meets(one, target) for one in self._later.get(target.buffer, ())
        ):
            return False
        # All that the target's readers would walk over.
        way = step * self._loop.count
        stack = target._replace(low=target.low + min(way, 0), high=target.high + max(way, 0))
        for place, row in enumerate(body):
            if place == at:
                continue
            for one in self._every(row):
                if one.writes and _meets(self._over(one), stack):
                    return False
                if _meets(self._over(one), target) and not self._within(one, target):
                    return False
        return True

    def _every(self, row: Row) -> Iterable[Range]:
        """What a row touches in one iteration of the loop."""
        return ranges(row, self._kernels)

    def _over(self, one: Range) -> Range:
        """What a range is over all iterations."""
        way = sum(step for loop, step in one.steps if loop == self._loop.loop) * max(self._loop.count - 1, 0)
        return Range(one.buffer, one.low + min(way, 0), one.high + max(way, 0), (), one.writes)

    def _within(self, one: Range, target: Range) -> bool:
        """Whether a range stays in the target in every iteration."""
        return not one.steps and target.low <= one.low and one.high <= target.high

    def _walking(self, row: Row, target: Range, step: int, *, behind: bool) -> Row:
        """A row whose places in the target walk along the stack; behind the copy they are those of the next iteration."""
        if isinstance(row, Loop):
            inner = tuple(self._walking(one, target, step, behind=behind) for one in row.rows)
            return Loop(row.loop, row.count, inner)
        places = tuple(
            (ref.moved(step) if behind else ref).along(self._loop.loop, step) if _inside(ref, target) else ref
            for ref in row.places
        )
        return msgspec.structs.replace(row, places=places)


def _inside(ref: Ref, target: Range) -> bool:
    """Whether a place begins in the target. (That what begins there stays there has been seen.)"""
    return ref.buffer == target.buffer and target.low <= ref.offset < target.high


def _meets(one: Range, other: Range) -> bool:
    """Whether two ranges that do not move, or may move anyhow, have a byte in common."""
    if one.buffer != other.buffer or one.low == one.high or other.low == other.high:
        return False
    return bool(one.steps) or (one.low < other.high and other.low < one.high)
