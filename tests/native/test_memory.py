"""Copies that go, and the plan of the memory: on random traces, each read gives what it gave before."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from presk.kernels.ir import SIZES, Access, Elem, Kernel
from presk.kernels.ir import Buffer as KernelBuffer
from presk.kernels.nest import Kind, Operand
from presk.kernels.trace.coalesce import coalesce
from presk.kernels.trace.memory import ALIGNMENT, Driver, plan
from presk.kernels.trace.rotate import rotate
from presk.kernels.trace.rows import Buffer, Launch, Loop, Part, Role, Row, Trace
from presk.kernels.trace.values import Ref
from tests.native.flow import check_same, check_written, flow
from tests.programs.strategies import examples

WIDTH = SIZES[Elem.F32]


@dataclass(slots=True)
class Making:
    """A trace in the making. Its places are pieces of buffers, `length` elements long; a buffer has a few of them side by side."""

    draw: st.DrawFn
    kernels: dict[Kernel, int] = field(default_factory=dict)
    buffers: list[Buffer] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    loops: int = 0

    def buffer(self, length: int, pieces: int, role: Role = Role.WORK) -> int:
        self.buffers.append(Buffer(length * pieces * WIDTH, role))
        self.lengths.append(length)
        return len(self.buffers) - 1

    def pieces(self, buffer: int) -> int:
        size = self.lengths[buffer] * WIDTH
        return self.buffers[buffer].size // size if size else 1

    def place(self, buffer: int, around: dict[int, int]) -> Ref:
        """A piece of a buffer, one that moves with a loop perhaps."""
        size, pieces = self.lengths[buffer] * WIDTH, self.pieces(buffer)
        for loop, count in around.items():
            if count <= pieces and pieces > 1 and self.draw(st.booleans()):
                down = self.draw(st.booleans())
                first = self.draw(st.integers(0, pieces - count)) + (count - 1 if down else 0)
                return Ref(buffer).along(loop, -size if down else size, first * size)
        return Ref(buffer, self.draw(st.integers(0, pieces - 1)) * size)

    def launch(self, sources: list[Ref], target: Ref, *, move: bool, scratch: int, in_place: int | None) -> Launch:
        length = self.lengths[target.buffer]
        places = [*sources, target]
        buffers = [KernelBuffer(Elem.F32, self.lengths[one.buffer], Access.IN) for one in sources]
        buffers.append(KernelBuffer(Elem.F32, length, Access.OUT, None, in_place))
        if scratch:
            places.append(Ref(self.buffer(scratch, 1)))
            buffers.append(KernelBuffer(Elem.F32, scratch, Access.SCRATCH))
        kernel = Kernel(tuple(buffers), ())
        return Launch(self.kernels.setdefault(kernel, len(self.kernels)), tuple(places), "f/%1", move=move)

    def whole(self, source: int) -> Launch:
        """Copies a whole stack to memory of its own."""
        length, pieces = self.lengths[source], self.pieces(source)
        fresh = self.buffer(length * pieces, 1)
        self.lengths[fresh] = length
        kernel = Kernel(
            tuple(KernelBuffer(Elem.F32, length * pieces, access) for access in (Access.IN, Access.OUT)), ()
        )
        number = self.kernels.setdefault(kernel, len(self.kernels))
        return Launch(number, (Ref(source), Ref(fresh)), "", move=True)


def body(making: Making, known: list[int], around: dict[int, int], fuel: int) -> tuple[Row, ...]:
    """Rows that read what was written in all of its pieces before: `known` buffers."""
    draw, known = making.draw, list(known)
    rows: list[Row] = []
    for _ in range(draw(st.integers(1, fuel))):
        match draw(st.sampled_from(("launch", "launch", "copy", "copy", "slice", "fetch", "loop"))):
            case "fetch" if around:
                # The end of a stack takes the piece that a loop has come to from there.
                loop, count = next(reversed(around.items()))
                stacks = [it for it in known if making.pieces(it) > count and making.buffers[it].role is Role.WORK]
                if stacks:
                    one = draw(st.sampled_from(stacks))
                    size = making.lengths[one] * WIDTH
                    fetched, end = Ref(one).along(loop, -size, (count - 1) * size), Ref(one, count * size)
                    rows.append(making.launch([fetched], end, move=True, scratch=0, in_place=None))
            case "loop" if len(around) < 2:
                loop, count = making.loops, draw(st.integers(1, 3))
                making.loops += 1
                rows.append(Loop(loop, count, body(making, known, {**around, loop: count}, max(1, fuel // 2))))
            case "slice" | "fetch" | "loop":
                # One piece of a stack is replaced: by a launch or by a copy.
                one = draw(st.sampled_from(known))
                if making.buffers[one].role is Role.WORK:
                    source = draw(st.sampled_from([it for it in known if making.lengths[it] == making.lengths[one]]))
                    piece, target = making.place(source, around), making.place(one, around)
                    if source != one:
                        move = draw(st.booleans())
                        rows.append(making.launch([piece], target, move=move, scratch=0, in_place=None))
            case "copy":
                one = draw(st.sampled_from(known))
                length = making.lengths[one]
                if draw(st.booleans()):
                    fresh = making.buffer(length, 1)
                    rows.append(
                        making.launch([making.place(one, around)], Ref(fresh), move=True, scratch=0, in_place=None)
                    )
                else:
                    rows.append(making.whole(one))
                    fresh = len(making.buffers) - 1
                known.append(fresh)
            case _:
                chosen = draw(st.lists(st.sampled_from(known), min_size=1, max_size=3))
                sources = [making.place(one, around) for one in chosen]
                length = making.lengths[chosen[0]]
                fresh = making.buffer(length, 1)
                in_place = draw(st.sampled_from((None, 0)))
                scratch = draw(st.sampled_from((0, 0, 5)))
                rows.append(making.launch(sources, Ref(fresh), move=False, scratch=scratch, in_place=in_place))
                known.append(fresh)
    return tuple(rows)


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """Any trace: launches and copies of pieces of buffers, in loops too."""
    making = Making(draw)
    inputs, known = [], []
    for number in range(draw(st.integers(1, 3))):
        length, pieces = draw(st.sampled_from((0, 1, 3, 16, 40))), draw(st.integers(1, 3))
        one = making.buffer(length, pieces, Role.INPUT)
        known.append(one)
        inputs.append(Part(f"x{number}", Operand(Kind.REAL, Elem.F32, (length * pieces,), (None,)), Ref(one)))
    rows = body(making, known, {}, 8)
    written = list(dict.fromkeys(one for one in written_in(rows, making.buffers) if one not in known))
    results = tuple(
        Part(
            f".{place}",
            Operand(Kind.REAL, Elem.F32, (making.buffers[one].size // WIDTH,), (None,)),
            Ref(one),
        )
        for place, one in enumerate(draw(st.lists(st.sampled_from([*known, *written]), max_size=3)))
    )
    return Trace(rows, tuple(making.kernels), tuple(making.buffers), tuple(inputs), results, (), (), ())


def written_in(rows: tuple[Row, ...], buffers: list[Buffer]) -> Iterator[int]:
    """The buffers that rows write as a whole and that no loop hides."""
    for row in rows:
        if isinstance(row, Launch):
            yield from (ref.buffer for ref in row.places if buffers[ref.buffer].role is Role.WORK and not ref.offset)


# --- by hand ------------------------------------------------------------------------------------------------------------

SIZE = 4
Word = str | tuple["Word", ...] | int


@dataclass(slots=True)
class Writing:
    """A trace that is written down: `"b = a x"` launches, `"b ! a x"` in the place of the first, `"b <- a"` copies; `(3, …)` is a loop
    of three. `x` is the input; `s` is a stack of three, and `s0`, `si`, `sj`, `sd` its pieces: a fixed one, that of the iteration, the
    one behind it, and the one that is met from the middle down; `t` is a stack of three as well."""

    buffers: list[Buffer] = field(default_factory=list)
    names: dict[str, int] = field(default_factory=dict)
    kernels: dict[Kernel, int] = field(default_factory=dict)
    loops: int = 0

    def place(self, word: str) -> tuple[Ref, int]:
        name, piece = word[0], word[1:]
        if name not in self.names:
            self.names[name] = len(self.buffers)
            pieces = 3 if name in "st" else 1
            self.buffers.append(Buffer(SIZE * WIDTH * pieces, Role.INPUT if name == "x" else Role.WORK))
        ref = Ref(self.names[name])
        whole = self.buffers[ref.buffer].size // WIDTH
        match piece:
            case "":
                return ref, whole
            case "i" | "j":
                return ref.along(self.loops - 1, SIZE * WIDTH, SIZE * WIDTH * (piece == "j")), SIZE
            case "d":
                return ref.along(self.loops - 1, -SIZE * WIDTH, SIZE * WIDTH), SIZE
            case _:
                return ref.moved(int(piece) * SIZE * WIDTH), SIZE

    def rows(self, words: tuple[Word, ...]) -> tuple[Row, ...]:
        found: list[Row] = []
        for one in words:
            if isinstance(one, tuple):
                count, *inside = one
                assert isinstance(count, int)
                self.loops += 1
                found.append(Loop(self.loops - 1, count, self.rows(tuple(inside))))
                continue
            assert isinstance(one, str)
            target, how, *sources = one.split()
            places = [self.place(word) for word in (*sources, target)]
            buffers = [
                KernelBuffer(Elem.F32, size, Access.IN if number < len(sources) else Access.OUT)
                for number, (_, size) in enumerate(places)
            ]
            if how == "!":
                buffers[-1] = KernelBuffer(Elem.F32, places[-1][1], Access.OUT, None, 0)
            kernel = Kernel(tuple(buffers), ())
            number = self.kernels.setdefault(kernel, len(self.kernels))
            found.append(Launch(number, tuple(ref for ref, _ in places), "f/%1", move=how == "<-"))
        return tuple(found)

    def trace(self, words: tuple[Word, ...], results: str) -> Trace:
        self.place("x")
        rows = self.rows(words)
        parts = []
        for number, word in enumerate(("x", *results.split())):
            ref, size = self.place(word)
            parts.append(Part(f".{number}", Operand(Kind.REAL, Elem.F32, (size,), (None,)), ref))
        return Trace(rows, tuple(self.kernels), tuple(self.buffers), (parts[0],), tuple(parts[1:]), (), (), ())


# What copies are left, and of how many buffers that are no stacks the arena has memory; None where it is all the same.
CASES: dict[str, tuple[tuple[Word, ...], str, int, int | None]] = {
    "made where it is wanted": (("s = x", (3, "a = x", "si <- a")), "s", 0, None),
    "a stack of which a piece is replaced": (("s = x", (3, "t <- s", "t1 = x", "s <- t")), "s", 0, None),
    "made in the place of what it is made of": (("a = x", (3, "b ! a", "a <- b")), "a", 0, None),
    "made of what it is copied over": (("a = x", (3, "b = a", "a <- b")), "a", 1, None),
    "made of that twice": (("a = x", (3, "b ! a a", "a <- b")), "a", 1, None),
    "made of the piece before": (("s = x", (2, "b ! si", "sj <- b")), "s", 0, None),
    "made in place, and read": (("a = x", (3, "b ! a", "c = a", "a <- b")), "a c", 1, None),
    "renamed": (("a = x", "b <- a", "c = b"), "c", 0, None),
    "the target is read meanwhile": (("b = x", "a = x", "c = b", "b <- a"), "b c", 1, None),
    "one piece of the target is read meanwhile": (("s = x", (3, "a = x", "b = s1", "si <- a")), "s b", 1, None),
    "the target is written and the source read": (("a = x", "b <- a", "b = x", "c = a b"), "c b", 1, None),
    "the source is read in the next iteration": (("s = x", (2, "t <- s", "c = t", "t0 = x")), "c", 1, None),
    "the target has a value before": (("a = x", "b = x", "c = a b", "b <- a", "d = b"), "c d", 1, None),
    "the target is read after the source is written": (
        ("s = x", "t <- s", "t0 = x", "s <- t", "s1 = x", "c = t"),
        "c s",
        2,
        None,
    ),
    "the target is written after the source has its value": (
        ("s = x", "t <- s", "t0 = x", "s <- t", "t1 = x", "c = t"),
        "c s",
        2,
        None,
    ),
    "the source is read before": (("s = x", "c = s", "t <- s", "t0 = x", "s <- t"), "c s", 0, None),
    "the source is written again": (("a = x", "b <- a", "a = x", "c = b a"), "c", 1, None),
    "the source is a result": (("s = x", "t <- s", "t0 = x", "c = t"), "s c", 1, None),
    "the source is touched outside": (("a = x", "s = x", (3, "b = a", "a = x", "si <- a")), "s b", 1, None),
    "in place": (("a = x", "b ! a", "c ! b"), "c", 0, 1),
    "not in the place of a parameter": (("a ! x", "b = a x"), "b", 0, 2),
    "not of what is read later": (("a = x", "b ! a", "c = a b"), "c", 0, 3),
    "not of what is read twice": (("a = x", "b ! a a"), "b", 0, 2),
    "not of what the next iteration reads": (("a = x", (2, "b ! a"), "c = b"), "c", 0, 2),
    "in a loop": ((2, "a = x", "b ! a", "c = b"), "c", 0, 2),
    "through a loop": (("a = x", "b = x", (2, "c = b", "d = c"), "e = a d"), "e", 0, 4),
}


# What copies are left where loops walk along stacks.
ROTATED: dict[str, tuple[tuple[Word, ...], str, int]] = {
    "fetched for the next iteration": (("s = x", (2, "b = s2", "s2 <- sd")), "b", 0),
    "fetched and read": (("s = x", (2, "s2 <- sd", "b = s2")), "b", 0),
    "read before and after": (("s = x", (2, "b = s2", "s2 <- sd", "c = s2 b")), "c", 0),
    "read with what is fetched": (("s = x", (2, "b = s2 sd", "s2 <- sd")), "b", 0),
    "read in a loop of its own": (("s = x", (2, "s2 <- sd", (2, "b = s2"))), "b", 0),
    "read later": (("s = x", (2, "b = s2", "s2 <- sd"), "c = s2"), "b c", 1),
    "a result": (("s = x", (2, "b = s2", "s2 <- sd")), "s b", 1),
    "a piece is written": (("s = x", (2, "b = s2", "s1 = x", "s2 <- sd")), "b", 1),
    "the place is written": (("s = x", (2, "s2 = x", "b = s2", "s2 <- sd")), "b", 1),
    "the whole is read": (("s = x", (2, "b = s", "s2 <- sd")), "b", 1),
    "in a loop in a loop": (("s = x", (2, (2, "b = s2", "s2 <- sd"))), "b", 1),
    "put where nobody reads it": (("s = x", "a <- x", "b = s1"), "b", 0),
    "put at the other end": (("s = x", "s0 <- x", (2, "b = s2", "s2 <- sd")), "b", 0),
    "put where the loop reads it": (("s = x", "s0 <- x", (2, "s2 <- sd", "b = s2")), "b", 1),
}


@pytest.mark.parametrize("name", ROTATED)
def test_what_is_fetched_is_read_where_it_lies(name: str) -> None:
    words, results, left = ROTATED[name]
    trace = Writing().trace(words, results)
    before, fewer = flow(trace), rotate(trace)
    check_written(before)
    check_same(before, flow(fewer))
    check_same(before, flow(plan(fewer)))
    assert copies(fewer.rows) == left


def copies(rows: tuple[Row, ...]) -> int:
    """How many copies rows have."""
    return sum(copies(row.rows) if isinstance(row, Loop) else row.move for row in rows)


@pytest.mark.parametrize("name", CASES)
def test_what_may_go_goes_and_nothing_else(name: str) -> None:
    words, results, left, memories = CASES[name]
    if isinstance(words[0], int):
        words = (words,)
    trace = Writing().trace(words, results)
    before, fewer = flow(trace), coalesce(trace)
    check_written(before)
    check_same(before, flow(fewer))
    made = plan(fewer)
    check_same(before, flow(made))
    assert copies(fewer.rows) == copies(made.rows) == left
    if memories is not None:
        assert made.size == (memories + 1) * ALIGNMENT


def test_a_plan_has_the_kernels_that_are_launched() -> None:
    trace = Writing().trace(("s = x", "t <- s", "c = t x"), "c")
    made = plan(coalesce(trace))
    assert len(trace.kernels) == 3 and made.kernels == (trace.kernels[0], trace.kernels[2])
    assert [row.kernel for row in made.rows if isinstance(row, Launch)] == [0, 1]


def test_memory_of_what_is_over_is_used_again() -> None:
    rows = tuple(f"{b} = {a}" for a, b in zip("xabcdefg", "abcdefgh"))
    made = plan(Writing().trace(rows, "h"))
    assert isinstance(made, Driver)
    assert made.size == made.peak == 3 * ALIGNMENT


@examples(150)
@given(traces())
def test_what_launches_read_stays_the_same(trace: Trace) -> None:
    before = flow(trace)
    check_same(before, flow(plan(trace)))
    fewer = coalesce(trace)
    check_same(before, flow(fewer))
    check_same(before, flow(plan(fewer)))
    check_same(before, flow(rotate(trace)))
    least = rotate(fewer)
    check_same(before, flow(least))
    check_same(before, flow(plan(least)))
