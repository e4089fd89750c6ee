"""What a kernel has surely written, while one walks through it.

A region is a set of elements of a buffer for fixed values of open loops' variables: intervals of one length that stand at regular
distances (teeth of combs). A store adds one. When a loop is closed, the regions of its body are repeated at the loop's stride:
where that leaves no gap, the interval grows, else a comb is added, which goes when a later loop fills its gaps.
"""

from collections.abc import Callable, Mapping, Sequence

Terms = tuple[tuple[int, int], ...]
"""Variables and their factors, by variable."""

Combs = tuple[tuple[int, int], ...]
"""Distances and numbers of teeth, the least distance first."""

Interval = tuple[int, int]
"""The first and the last element."""


class Body:
    """The regions that the statements of a body wrote, so far."""

    def __init__(self) -> None:
        self._regions: dict[int, dict[tuple[Terms, Combs], list[Interval]]] = {}

    def add(self, buffer: int, terms: Terms, combs: Combs, low: int, high: int) -> None:
        """A region."""
        combs, high = _absorbed(combs, low, high)
        regions = self._regions.setdefault(buffer, {})
        others = regions.get((terms, combs), [])
        apart = []
        first, last = low, high
        for one in others:
            if one[0] <= last + 1 and first <= one[1] + 1:
                first, last = min(first, one[0]), max(last, one[1])
            else:
                apart.append(one)
        if combs and (first, last) != (low, high):
            # What grew together may have become long enough for a comb.
            regions[terms, combs] = apart
            self.add(buffer, terms, combs, first, last)
            return
        regions[terms, combs] = [*apart, (first, last)]

    def repeat(self, outer: "Body", var: int, extent: int, local: Callable[[int], bool]) -> None:
        """Adds to `outer` what `extent` > 0 iterations of a loop with this body write. `local` variables have many values in it."""
        for buffer, regions in self._regions.items():
            for (terms, combs), intervals in regions.items():
                factors = dict(terms)
                factor = factors.pop(var, 0)
                if any(local(other) for other in factors):
                    continue
                reach = factor * (extent - 1)
                rest = tuple(factors.items())
                for low, high in intervals:
                    more = combs if reach == 0 else tuple(sorted((*combs, (abs(factor), extent))))
                    shift = min(0, reach)
                    outer.add(buffer, rest, more, low + shift, high + shift)

    def covers(
        self, buffer: int, terms: Mapping[int, int], low: int, high: int, ranges: Mapping[int, Interval]
    ) -> bool:
        """Whether elements `low` to `high`, moved by the terms, are all written, wherever the terms' variables stand."""
        for (fixed, combs), intervals in self._regions.get(buffer, {}).items():
            if any(terms.get(var, 0) != factor for var, factor in fixed):
                continue
            held = {var for var, _ in fixed}
            free = [(factor, ranges[var]) for var, factor in terms.items() if var not in held]
            first = low + sum(min(factor * least, factor * most) for factor, (least, most) in free)
            last = high + sum(max(factor * least, factor * most) for factor, (least, most) in free)
            if any(_inside(first, last, combs, *one) for one in intervals):
                return True
            if combs and any(_along(low, high, free, combs, *one) for one in intervals):
                return True
        return False


def _absorbed(combs: Combs, low: int, high: int) -> tuple[Combs, int]:
    """The combs that leave gaps, and the end of the interval that the others make it."""
    left: list[tuple[int, int]] = []
    for distance, count in combs:
        if not left and distance <= high - low + 1:
            high += distance * (count - 1)
        else:
            left.append((distance, count))
    return tuple(left), high


def _inside(first: int, last: int, combs: Combs, low: int, high: int) -> bool:
    """Whether an interval lies in one of the teeth."""
    for distance, count in reversed(combs):
        tooth = min(max((first - low) // distance, 0), count - 1)
        first, last = first - tooth * distance, last - tooth * distance
    return low <= first and last <= high


def _along(first: int, last: int, free: Sequence[tuple[int, Interval]], combs: Combs, low: int, high: int) -> bool:
    """Whether an interval lies in teeth wherever free variables stand, which step from tooth to tooth of the comb whose distance is
    their factor (one for each comb; the others move within a tooth)."""
    steps: dict[int, int] = {}
    for factor, (least, most) in free:
        ends = factor * least, factor * most
        distance = abs(factor)
        if distance not in steps and any(distance == one for one, _ in combs):
            steps[distance] = most - least
            first, last = first + min(ends), last + min(ends)
        else:
            first, last = first + min(ends), last + max(ends)
    for distance, count in reversed(combs):
        tooth = min(max((first - low) // distance, 0), count - 1)
        if tooth + steps.pop(distance, 0) >= count:
            return False
        first, last = first - tooth * distance, last - tooth * distance
    return low <= first and last <= high
