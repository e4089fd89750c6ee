"""The lines of one file that a diagnostic shows, with their marks and labels.

    3 |   let y = f(x, z)
      |           - -  ^ this is a key
      |           | |
      |           | this is a tensor
      |           `f` wants two tensors

Marks lie on the row below the line. The rightmost label stands behind its mark; the others hang from their marks, each on a
row of its own from right to left, sharing a row where they fit. A place of several lines is drawn at the left: a line leads
from its first character into a column of bars and out to its last character,

    4 |   fn f(
      |  _____^
    5 | |   x : ℝ[D],
    6 | | )
      | |_^ declared here

or a bar begins with `/` beside the line if its first character is the line's first. Places that overlap get columns of their
own. Lines that nothing points at are left out: one such line between two others is shown, more are `...`. A line wider than
the terminal is cut around its marks, a `…` for what is missing, without looking at the rest of it, so that a line of
megabytes costs nothing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from presk.diagnostics.canvas import Grid, Ink, Run
from presk.diagnostics.cells import Cells, is_combining
from presk.diagnostics.sources import Lines, Span

CUT: Final = "…"
_ALL_LINES: Final = 6  # places of up to so many lines are shown whole, of longer ones the first and the last lines
_FIRST_LINES: Final = 3
_LAST_LINES: Final = 2
_CLOSE: Final = 8  # stretches of a cut line that are so close are joined
_FEWEST: Final = 8  # a cut line shows about so many characters, however wide they are
_MARKS_PER_BASE: Final = 16  # so far a cut is moved in order not to part combining marks from their base


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in lines (from 1) and characters (from 0; the end exclusive), its label and how it is drawn."""

    first_line: int
    first: int
    last_line: int
    last: int
    text: str
    sign: str
    ink: Ink

    @property
    def lines(self) -> int:
        """How many lines it touches."""
        return self.last_line - self.first_line + 1


def mark(span: Span, lines: Lines, *, text: str, sign: str, ink: Ink) -> Mark:
    """The mark of a span, brought into the text where it lies outside; an end at the beginning of a line is moved back to
    the end of the line before."""
    count = len(lines)
    first_line = min(max(span.start.line, 1), count)
    first = min(max(span.start.column - 1, 0), len(lines.line(first_line)))
    last_line = min(max(span.end.line, 1), count)
    last = min(max(span.end.column - 1, 0), len(lines.line(last_line)))
    last_line, last = max((last_line, last), (first_line, first))
    while last_line > first_line and last == 0:
        last_line -= 1
        last = len(lines.line(last_line))
    return Mark(first_line, first, last_line, last, text, sign, ink)


# --- lines that are too long -------------------------------------------------------------------------------------------


class CutLine:
    """A line as shown: whole, or pieces of it, and where its characters lie."""

    def __init__(self, line: str, spans: Sequence[tuple[int, int]], width: int) -> None:
        self._pieces: list[tuple[int, int, int, Cells]] = []  # first character, end, first cell, layout
        self.runs: list[Run] = []
        pieces = _pieces(line, spans, width)
        cell = 0
        for first, end, cells in pieces:
            if first > 0:
                self.runs.append((CUT, Ink.FRAME))
                cell += 1
            self._pieces.append((first, end, cell, cells))
            self.runs.append((cells.text, Ink.PLAIN))
            cell += cells.width
        self._cut_right = pieces[-1][1] < len(line)
        if self._cut_right:
            self.runs.append((CUT, Ink.FRAME))
        self.width = cell

    def start(self, index: int) -> int:
        """The cell at which a character begins; that of the `…` for a character that is not shown."""
        for first, end, cell, cells in self._pieces:
            if index < first:
                return cell - 1
            if index < end:
                return cell + cells.starts[index - first]
        return self.width

    def end(self, index: int) -> int:
        """The cell behind the character before `index`."""
        for first, end, cell, cells in self._pieces:
            if index <= first:
                return cell
            if index <= end:
                return cell + cells.ends[index - first - 1]
        return self.width + (1 if self._cut_right else 0)


def _pieces(line: str, spans: Sequence[tuple[int, int]], width: int) -> list[tuple[int, int, Cells]]:
    """The stretches of a line to show, laid out: all of it if it fits, else what is around the spans."""
    if len(line) <= 2 * width:
        cells = Cells(line)
        if cells.width <= width:
            return [(0, len(line), cells)]
    # Wide characters and codes take several cells each: shown are fewer characters, until they fit or are few.
    size = width
    while True:
        pieces = [(first, end, Cells(line[first:end])) for first, end in _around(line, spans, size)]
        if size <= _FEWEST or sum(cells.width + 1 for _, _, cells in pieces) < width:
            return pieces
        size = size * 3 // 4


def _around(line: str, spans: Sequence[tuple[int, int]], size: int) -> list[tuple[int, int]]:
    """Stretches of about `size` characters in all that hold the ends of every span."""
    kept: list[tuple[int, int]] = []
    for first, end in spans:
        if end - first <= size // 2:
            kept.append((first, end))
        else:
            kept += [(first, first + size // 4), (end - size // 4, end)]
    kept = _joined(kept, 0) or [(0, 0)]
    spare = size - sum(end - first for first, end in kept)
    pad = max(spare // (2 * len(kept)), size // 16, 1)
    padded: list[tuple[int, int]] = []
    for first, end in kept:
        # What a stretch at the rim of the line cannot use on one side goes to the other.
        left = min(pad, first)
        right = min(2 * pad - left, len(line) - end)
        left = min(2 * pad - right, first)
        padded.append((first - left, end + right))
    return [_whole_clusters(line, piece) for piece in _joined(padded, _CLOSE)]


def _joined(stretches: Iterable[tuple[int, int]], gap: int) -> list[tuple[int, int]]:
    """The stretches in order, those joined that overlap or are at most `gap` apart."""
    out: list[tuple[int, int]] = []
    for first, end in sorted(stretches):
        if out and first <= out[-1][1] + gap:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((first, end))
    return out


def _whole_clusters(line: str, piece: tuple[int, int]) -> tuple[int, int]:
    first, end = piece
    for _ in range(_MARKS_PER_BASE):
        if first > 0 and first < len(line) and is_combining(line[first]):
            first -= 1
    for _ in range(_MARKS_PER_BASE):
        if end < len(line) and is_combining(line[end]):
            end += 1
    return first, end


# --- drawing -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Bar:
    """A mark of several lines and its column at the left."""

    mark: Mark
    column: int
    slash: bool


@dataclass(frozen=True, slots=True)
class _Point:
    """What one line shows of a mark: a stretch of cells; `bar` if it is the first or last character of a longer mark."""

    first: int
    end: int
    text: str
    sign: str
    ink: Ink
    bar: _Bar | None = None
    opens: bool = False


def snippet(lines: Lines, marks: Sequence[Mark], *, number_width: int, width: int) -> list[list[Run]]:
    """The rows that show the marks, line numbers right-aligned in `number_width` cells. There is at least one mark."""
    bars = _bars(lines, [each for each in marks if each.lines > 1])
    indent = 2 * (1 + max((bar.column for bar in bars), default=-1))
    rows: list[list[Run]] = []
    shown = _shown_lines(marks)
    before = shown[0]
    for number in shown:
        if number > before + 1:
            rows.append(_skipped(bars, before, number, number_width, indent))
        before = number
        rows += _line(lines, number, marks, bars, number_width, indent, width)
    return rows


def _shown_lines(marks: Sequence[Mark]) -> list[int]:
    wanted: set[int] = set()
    for each in marks:
        if each.lines <= _ALL_LINES:
            wanted.update(range(each.first_line, each.last_line + 1))
        else:
            wanted.update(range(each.first_line, each.first_line + _FIRST_LINES))
            wanted.update(range(each.last_line - _LAST_LINES + 1, each.last_line + 1))
    order = sorted(wanted)
    for one, other in pairwise(order):
        if other - one == 2:
            wanted.add(one + 1)
    return sorted(wanted)


def _bars(lines: Lines, marks: Sequence[Mark]) -> list[_Bar]:
    """Columns for marks of several lines: the first that is free on all their lines."""
    bars: list[_Bar] = []
    for each in sorted(marks, key=lambda one: (one.first_line, -one.last_line, one.first)):
        taken = {bar.column for bar in bars if bar.mark.last_line >= each.first_line}
        column = next(number for number in range(len(bars) + 1) if number not in taken)
        slash = not lines.line(each.first_line)[: each.first].strip(" \t")
        bars.append(_Bar(each, column, slash and each.first < len(lines.line(each.first_line))))
    return bars


def _frame(label: str, number_width: int) -> list[Run]:
    return [(f"{label:>{number_width}} | ", Ink.FRAME)]


def _gutter(active: Iterable[tuple[int, str, Ink]], indent: int) -> list[Run]:
    """The columns at the left: bars (column, sign, ink) and blanks."""
    if not indent:
        return []
    grid = Grid()
    for column, sign, ink in active:
        grid.put(0, 2 * column, sign, ink)
    runs = grid.runs(0) if len(grid) else []
    return [*runs, (" " * (indent - sum(len(text) for text, _ in runs)), Ink.PLAIN)]


def _skipped(bars: Sequence[_Bar], before: int, after: int, number_width: int, indent: int) -> list[Run]:
    inside = [
        (bar.column, "|", bar.mark.ink) for bar in bars if bar.mark.first_line <= before and bar.mark.last_line >= after
    ]
    return [("...".ljust(number_width + 3), Ink.FRAME), *_gutter(inside, indent)]


def _line(
    lines: Lines,
    number: int,
    marks: Sequence[Mark],
    bars: Sequence[_Bar],
    number_width: int,
    indent: int,
    width: int,
) -> list[list[Run]]:
    """A source line and the rows below it."""
    text = lines.line(number)
    singles = [each for each in marks if each.lines == 1 and each.first_line == number]
    opening = [bar for bar in bars if bar.mark.first_line == number and not bar.slash]
    closing = [bar for bar in bars if bar.mark.last_line == number]
    spans = [(each.first, each.last) for each in singles]
    spans += [(bar.mark.first, min(bar.mark.first + 1, len(text))) for bar in opening]
    spans += [(max(bar.mark.last - 1, 0), bar.mark.last) for bar in closing]
    cut = CutLine(text, spans, max(width - number_width - 3 - indent, _FEWEST))

    def cells(first: int, end: int) -> tuple[int, int]:
        begin = cut.start(first)
        return begin, max(cut.end(end), begin + 1) if end > first else begin + 1

    points = [_Point(*cells(each.first, each.last), each.text, each.sign, each.ink) for each in singles]
    for bar in opening:
        first, end = cells(bar.mark.first, min(bar.mark.first + 1, len(text)))
        points.append(_Point(first, end, "", bar.mark.sign, bar.mark.ink, bar, opens=True))
    for bar in closing:
        first, end = cells(max(bar.mark.last - 1, 0), bar.mark.last)
        points.append(_Point(first, end, bar.mark.text, bar.mark.sign, bar.mark.ink, bar))

    passing = [(bar.column, "|", bar.mark.ink) for bar in bars if bar.mark.first_line < number <= bar.mark.last_line]
    slashes = [(bar.column, "/", bar.mark.ink) for bar in bars if bar.slash and bar.mark.first_line == number]
    rows = [[*_frame(str(number), number_width), *_gutter([*passing, *slashes], indent), *cut.runs]]
    if points:
        grid = _drawn(points, bars, number, indent)
        rows += [[*_frame("", number_width), *grid.runs(row)] for row in range(len(grid))]
    return rows


def _drawn(points: Sequence[_Point], bars: Sequence[_Bar], number: int, indent: int) -> Grid:
    """The rows below line `number`: its marks, what hangs from them, the bars beside them. Cells count from the left of
    the gutter, which is `indent` wide."""
    placed = _rows(points)
    height = max(placed.values(), default=0) + 1
    grid = Grid()
    for index, point in enumerate(points):
        if point.bar is not None:
            for cell in range(2 * point.bar.column + 1, indent + point.first):
                grid.put(placed[index], cell, "_", point.ink)
    for bar in bars:
        # The bar of a mark that opens here begins below the row that leads into it, that of one that closes ends there.
        first_row, end_row = 0, height
        for index, point in enumerate(points):
            if point.bar is bar and point.opens:
                first_row = placed[index] + 1
            elif point.bar is bar:
                end_row = placed[index] + 1
        if bar.mark.first_line <= number <= bar.mark.last_line:
            for row in range(first_row, end_row):
                grid.put(row, 2 * bar.column, "|", bar.mark.ink)
    for index, point in enumerate(points):
        for row in range(1, placed.get(index, 0) + 1):
            grid.put(row, indent + point.first, "|", point.ink)
    # A shorter mark lies above a longer one, of equal ones the primary.
    for point in sorted(points, key=lambda one: (one.first - one.end, one.sign == "^")):
        for cell in range(point.first, point.end):
            grid.put(0, indent + cell, point.sign, point.ink)
    for index, point in enumerate(points):
        if point.text:
            row = placed[index]
            if row == 0:
                grid.write(0, indent + point.end + 1, point.text, point.ink)
            else:
                grid.write(row, indent + point.first + (2 if point.bar is not None else 0), point.text, point.ink)
    return grid


def _rows(points: Sequence[_Point]) -> dict[int, int]:
    """The row of each point's label or leading line, by the point's index; points with neither have none."""
    rightmost = max(point.end for point in points)
    leftmost = min(point.first for point in points)
    order = sorted(range(len(points)), key=lambda index: (-points[index].first, points[index].end))
    placed: dict[int, int] = {}
    text_on_mark_row = False
    line_on_mark_row = False
    for index in order:
        point = points[index]
        at_right = point.end == rightmost and not text_on_mark_row
        at_left = point.first == leftmost and not line_on_mark_row
        alone = sum(other.first == point.first for other in points) == 1
        if point.bar is None:
            if point.text and at_right:
                placed[index] = 0
                text_on_mark_row = True
        elif at_left and alone and (not point.text or at_right):
            placed[index] = 0
            line_on_mark_row = True
            text_on_mark_row = text_on_mark_row or bool(point.text)
    free = 1
    shared: tuple[int, int] | None = None  # a row of labels and the cell where its leftmost one begins
    for index in order:
        point = points[index]
        if index in placed:
            continue
        if point.bar is not None:
            placed[index] = free
            free += 1
            shared = None
        elif point.text:
            if shared is not None and point.first + Cells(point.text).width + 2 <= shared[1]:
                row = shared[0]
            else:
                row = max(free, 2)
                free = row + 1
            placed[index] = row
            shared = (row, point.first)
    return placed
