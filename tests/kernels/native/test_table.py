"""Tables: loops within loops, operands that move with them, other addresses, and what is refused."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from presk.kernels.native.driver import Driver
from presk.kernels.native.table import DEPTH, WORKERS, AnyRow, Bound, Launch, Loop, Operand, Table
from tests.kernels.native.support import adding, loaded, routines, scaling

WIDTH = 3
CELLS = 40


@pytest.fixture(scope="module")
def code():
    return loaded([adding(WIDTH), scaling(WIDTH)])


@pytest.fixture(scope="module")
def driver():
    with Driver(routines()) as one:
        yield one


def simulate(rows, regions, indices=()):
    """What a table does, in Python, on arrays of i64."""
    for row in rows:
        if isinstance(row, Loop):
            for i in range(row.count):
                simulate(row.body, regions, (*indices, i))
            continue
        places = []
        for operand in row.operands:
            offset = operand.offset + sum(i * step for i, step in zip(indices, operand.steps))
            assert offset % 8 == 0
            places.append(regions[operand.region][offset // 8 : offset // 8 + WIDTH])
        x, y = places
        for i in range(WIDTH):  # one by one, since x and y may overlap
            y[i] = y[i] + x[i] if row.kernel == 0 else 3 * y[i] + x[i]


@st.composite
def tables(draw):
    """Tables of both kernels with operands in three regions, in loops up to four deep."""

    def operand(counts):
        # Steps of either sign; the offset keeps all places inside of the region.
        room = CELLS - WIDTH
        steps = []
        low = high = 0
        for count in counts:
            most = (room - (high - low)) // max(count - 1, 1)
            step = draw(st.integers(-most, most)) if draw(st.booleans()) else 0
            low, high = low + min(0, step * max(count - 1, 0)), high + max(0, step * max(count - 1, 0))
            steps.append(8 * step)
        offset = draw(st.integers(-low, room - high))
        while steps and not steps[-1]:
            steps.pop()
        return Operand(draw(st.integers(0, 2)), 8 * offset, tuple(steps))

    def rows(counts):
        found: list[AnyRow] = []
        for _ in range(draw(st.integers(0, 3))):
            if len(counts) < 4 and draw(st.integers(0, 2)) == 0:
                count = draw(st.integers(0, 4))
                found.append(Loop(count, rows((*counts, count))))
            else:
                found.append(
                    Launch(draw(st.integers(0, 1)), (operand(counts), operand(counts)), draw(st.integers(1, 3)))
                )
        return tuple(found)

    return Table(rows(()))


@given(tables(), st.integers(0, 99), st.booleans())
def test_tables_do_what_they_say(code, driver, table, seed, timed):
    """Twice, since operands move back; then at other addresses. A table survives its encoding."""
    rng = np.random.default_rng(seed)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(table), type=Table) == table
    given_regions = [rng.integers(-5, 5, CELLS) for _ in range(3)]
    expected, regions = ([one.copy() for one in given_regions] for _ in range(2))
    bound = Bound(table, code.addresses, [one.ctypes.data for one in regions], timed=timed)
    with np.errstate(over="ignore"):
        for _ in range(2):
            simulate(table.rows, expected)
            driver.run(bound)
            assert all(np.array_equal(one, other) for one, other in zip(regions, expected))
        other, expected = ([one.copy() for one in given_regions] for _ in range(2))
        bound.bind([one.ctypes.data for one in other])
        simulate(table.rows, expected)
        driver.run(bound)
        assert all(np.array_equal(one, same) for one, same in zip(other, expected))


def test_ticks_are_counted_by_launch(code, driver):
    x, y = np.ones(WIDTH, np.int64), np.zeros(WIDTH, np.int64)
    launch = Launch(0, (Operand(0), Operand(1)))
    bound = Bound(
        Table((launch, Loop(100, (launch,)), Loop(0, (launch,)))),
        code.addresses,
        [x.ctypes.data, y.ctypes.data],
        timed=True,
    )
    driver.run(bound)
    once, often, never = bound.ticks
    assert bound.launches == 3 and 0 < once < often and never == 0 and y.tolist() == [101] * WIDTH
    bound.ticks[:] = 0
    driver.run(bound)
    assert 0 < bound.ticks[1] < 2 * often + 10**7


def test_launches_are_counted_as_often_as_they_run():
    launch = Launch(0, ())
    table = Table((launch, Loop(3, (launch, Loop(4, (launch, launch)), Loop(0, (launch,)))), launch))
    assert table.launched() == 2 + 3 * (1 + 8)


def test_loops_as_deep_as_are_allowed(code, driver):
    x, y = np.ones(WIDTH, np.int64), np.zeros(WIDTH, np.int64)
    regions = [x.ctypes.data, y.ctypes.data]

    def nested(depth):
        rows: tuple[AnyRow, ...] = (Launch(0, (Operand(0), Operand(1))),)
        for level in range(depth):
            rows = (Loop(2 if level < 3 else 1, rows),)
        return Table(rows)

    driver.run(Bound(nested(DEPTH), code.addresses, regions))
    assert y.tolist() == [8] * WIDTH
    with pytest.raises(ValueError, match=f"at depth {DEPTH}"):
        Bound(nested(DEPTH + 1), code.addresses, regions)


@pytest.mark.parametrize(
    "row, error",
    (
        (Launch(2, ()), IndexError),
        (Launch(-1, ()), IndexError),
        (Launch(0, (Operand(2),)), IndexError),
        (Launch(0, (Operand(-1),)), IndexError),
        (Launch(0, (Operand(0),), 0), ValueError),
        (Launch(0, (Operand(0),), WORKERS + 1), ValueError),
        (Launch(0, (Operand(0, 0, (8,)),)), ValueError),
        (Loop(3, (Launch(0, (Operand(0, 0, (8, 8)),)),)), ValueError),
        (Loop(-1, ()), ValueError),
    ),
)
def test_what_cannot_be_run_is_refused(row, error):
    with pytest.raises(error):
        Bound(Table((row,)), (1, 2), (0, 0))
