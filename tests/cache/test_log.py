"""The log of a request: counts, subjects, times, and the table that is printed."""

import re

from presk.cache.log import RequestLog
from tests.cache.support import NAMES, SHEET, check


def test_the_table(workshop):
    log = RequestLog()
    log.made("parse", "a", unchanged=False, computing=0.5, overhead=0.001)
    log.made("parse", "b", unchanged=True, computing=0.25, overhead=0.0)
    log.reused("typing", "memory", 0.0001)
    log.reused("typing", "disk", 0.002)
    assert log.table() == (
        "stage   asked  computed  memory  disk  unchanged  computing  overhead\n"
        "parse       2         2       0     0          1   750.0 ms    1.0 ms\n"
        "typing      2         0       1     1          0     0.0 ms    2.1 ms\n"
        "total       4         2       1     1          1   750.0 ms    3.1 ms\n"
    )


def test_an_empty_table():
    assert [line.split()[0] for line in RequestLog().table().splitlines()] == ["stage", "total"]


def test_subjects_and_counts(workshop):
    _, log = check(workshop.engine(), SHEET)
    assert log.computed("value") == NAMES
    assert log.computed("split") == {"sheet"}
    assert log.computed("no such stage") == frozenset()
    assert log.counts("no such stage").asked == 0
    assert log.stages() == ("split", "value", "check")
    assert log.total().asked == 7


def test_the_time_of_a_stage_is_without_that_of_the_stages_it_asks(workshop):
    engine = workshop.engine()
    _, log = check(engine, SHEET)
    parts = [log.counts(name) for name in log.stages()]
    assert all(part.computing >= 0.0 and part.overhead >= 0.0 for part in parts)
    total = log.total()
    assert abs(total.computing - sum(part.computing for part in parts)) < 1e-9
    assert re.search(r"^total +7 +7 +0 +0 +0 ", log.table(), re.MULTILINE)
