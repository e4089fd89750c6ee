"""Takes copies out of a trace: a value is computed where it is wanted, and a stack of which one slice is replaced stays where it is.

A copy of a whole buffer goes in two cases. *Forward*: what is copied was made in this body, nothing touches the target between its
making and the copy, and nobody writes the target afterwards while the source is still read: then it is made in the target. *Backward*:
the target is memory of its own, and the source is not read again but to be overwritten by the target: then the target is the source.
What makes a value may read the target if it can work in place.

    t = …            s[i] = …              c = copy s      v → s[i]
    copy t → s[i]                          copy v → c[i]
                                           copy c → s
"""

from collections.abc import Sequence

from presk.kernels.ir import Kernel
from presk.kernels.trace.access import Range, moved, ranges
from presk.kernels.trace.rows import Buffer, Launch, Loop, Part, Role, Row, Trace
from presk.kernels.trace.values import Ref


def coalesce(trace: Trace) -> Trace:
    """The trace with fewer copies."""
    return _Coalescing(trace).run()


class _Coalescing:
    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._kernels: Sequence[Kernel] = trace.kernels
        self._buffers: Sequence[Buffer] = trace.buffers
        self._results = list(trace.results)
        self._carried = {after for _, after in trace.carried}

    def run(self) -> Trace:
        rows = self._body(self._trace.rows, {})
        return Trace(
            rows,
            self._trace.kernels,
            self._trace.buffers,
            self._trace.inputs,
            tuple(self._results),
            self._trace.numbers,
            self._trace.scalars,
            self._trace.checks,
            self._trace.rates,
            self._trace.carried,
        )

    def _body(self, rows: Sequence[Row], outside: dict[int, bool]) -> tuple[Row, ...]:
        """A body without the copies that can go. `outside` holds the buffers that are touched outside of it."""
        touched = [list(ranges(row, self._kernels)) for row in rows]
        done: list[Row] = []
        for place, row in enumerate(rows):
            if isinstance(row, Loop):
                around = dict(outside)
                for other, found in enumerate(touched):
                    if other != place:
                        around.update((one.buffer, True) for one in found)
                row = Loop(row.loop, row.count, self._body(row.rows, around))
            done.append(row)
        return tuple(_Body(self, done, outside).run())

    def whole(self, ref: Ref, size: int) -> bool:
        """Whether a place is all of a buffer that rows alone use."""
        buffer = self._buffers[ref.buffer]
        return buffer.role is Role.WORK and ref.offset == 0 and not ref.steps and buffer.size == size

    def is_result(self, buffer: int) -> bool:
        """Whether a result lies in a buffer."""
        return any(part.place.buffer == buffer for part in self._results)

    def is_carried(self, buffer: int) -> bool:
        """Whether a buffer is what a call hands to the next, which has a place of its own."""
        return buffer in self._carried

    def rename(self, buffer: int, to: Ref) -> None:
        """Results that lay in a buffer lie elsewhere."""
        self._results = [
            Part(part.path, part.operand, to.moved(part.place.offset)) if part.place.buffer == buffer else part
            for part in self._results
        ]

    def ranges(self, row: Row) -> list[Range]:
        """What a row touches."""
        return list(ranges(row, self._kernels))

    def copies(self, row: Row) -> bool:
        """Whether a row copies as it is."""
        if not isinstance(row, Launch) or not row.move:
            return False
        source, target = self._kernels[row.kernel].buffers
        return source.elem is target.elem

    def in_place(self, row: Launch, place: int) -> int | None:
        """The operand whose memory an output of a launch may take."""
        return self._kernels[row.kernel].buffers[place].in_place

    def role(self, buffer: int) -> Role:
        """What a buffer is for."""
        return self._buffers[buffer].role


class _Body:
    def __init__(self, all_: _Coalescing, rows: list[Row], outside: dict[int, bool]) -> None:
        self._all = all_
        self._rows: list[Row | None] = list(rows)
        self._touched = [all_.ranges(row) for row in rows]
        self._outside = outside
        self._users: dict[int, set[int]] = {}
        for place, found in enumerate(self._touched):
            for one in found:
                self._users.setdefault(one.buffer, set()).add(place)

    def run(self) -> list[Row]:
        for place, row in enumerate(self._rows):
            if row is not None and self._all.copies(row):
                assert isinstance(row, Launch)
                if not self._forward(place, row):
                    self._backward(place, row)
        return [row for row in self._rows if row is not None]

    def _forward(self, at: int, row: Launch) -> bool:
        source, target = self._touched[at]
        ref, to = row.places
        buffer = ref.buffer
        if not self._all.whole(ref, source.high - source.low) or buffer in self._outside or buffer == to.buffer:
            return False
        if self._all.role(to.buffer) is not Role.WORK or self._all.is_result(buffer):
            return False
        users = self._users[buffer]
        first, last = min(users), max(users)
        for place in self._users[to.buffer]:
            for one in self._touched[place]:
                if not one.meets(target) or place == at or (place == first and self._in_place(first, buffer, to)):
                    continue
                if first <= place <= at or (at < place <= last and one.writes):
                    return False
        if first == at:
            return False  # nothing makes it
        for place in users:
            if place > at and any(one.buffer == buffer and one.writes for one in self._touched[place]):
                return False  # it gets another value, and the target keeps this one
        self._replace(buffer, to)
        self._drop(at)
        return True

    def _in_place(self, at: int, buffer: int, to: Ref) -> bool:
        """Whether a launch that makes a buffer may as well make it in the place of an operand that lies at `to`."""
        row = self._rows[at]
        if not isinstance(row, Launch):
            return False
        made = [place for place, ref in enumerate(row.places) if ref.buffer == buffer]
        read = [place for place, ref in enumerate(row.places) if ref.buffer == to.buffer]
        if len(made) != 1 or len(read) != 1 or row.places[read[0]] != to:
            return False
        return self._all.in_place(row, made[0]) == read[0]

    def _backward(self, at: int, row: Launch) -> bool:
        source, target = self._touched[at]
        ref, to = row.places
        buffer = to.buffer
        if not self._all.whole(to, target.high - target.low) or buffer in self._outside or buffer == ref.buffer:
            return False
        if self._all.role(ref.buffer) is not Role.WORK or min(self._users[buffer]) != at:
            return False
        if self._all.is_carried(buffer):
            return False
        back: list[int] = []
        for place in self._users[ref.buffer]:
            if place == at or not any(one.meets(source) for one in self._touched[place]):
                continue
            if place < at:
                continue
            other = self._rows[place]
            if not (isinstance(other, Launch) and self._all.copies(other) and other.places == (to, ref)):
                return False
            back.append(place)
        if not back and ref.buffer in self._outside:
            return False  # it is read again, outside or in the next iteration
        if back and max(self._users[buffer]) > max(back):
            return False
        if self._all.is_result(ref.buffer) and not back:
            return False
        self._replace(buffer, ref)
        for place in (at, *back):
            self._drop(place)
        return True

    def _replace(self, buffer: int, to: Ref) -> None:
        for place in self._users.pop(buffer):
            row = self._rows[place]
            assert row is not None
            changed = moved(row, buffer, to)
            self._rows[place] = changed
            self._touched[place] = self._all.ranges(changed)
            self._users.setdefault(to.buffer, set()).add(place)
        self._all.rename(buffer, to)

    def _drop(self, place: int) -> None:
        for one in self._touched[place]:
            self._users.get(one.buffer, set()).discard(place)
        self._rows[place] = None
        self._touched[place] = []
