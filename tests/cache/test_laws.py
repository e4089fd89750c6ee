"""Whatever becomes of memory and disk between two questions, the answers are those of a cold engine."""

import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from presk.cache.maintain import check_entries, collect_garbage
from tests.cache.support import Workshop, check

NAMES = ("a", "b", "c", "d")
terms = st.sampled_from((*NAMES, "1", "2", "1/3", "x"))
lines = st.tuples(st.sampled_from(NAMES), st.lists(terms, min_size=1, max_size=3))
sheets = st.lists(lines, max_size=6).map(
    lambda sheet: "".join(f"{name} = {' + '.join(right)}\n" for name, right in sheet)
)
# Each example opens several databases, so there are half as many as usual.
EXAMPLES = settings().max_examples // 2
# The size of values that lie in files is set so low that both kinds of storage are used.
INLINE_MAX = 24

# What is done between two questions.
damages = st.one_of(
    st.tuples(st.just("flip"), st.integers(0, 10**6), st.integers(0, 10**6), st.integers(1, 255)),
    st.tuples(st.just("cut"), st.integers(0, 10**6), st.integers(0, 10**6), st.just(0)),
    st.tuples(st.just("delete"), st.integers(0, 10**6), st.just(0), st.just(0)),
    st.tuples(st.just("empty"), st.integers(0, 10**6), st.just(0), st.just(0)),
    st.tuples(st.just("swap"), st.integers(0, 10**6), st.integers(0, 10**6), st.just(0)),
)
steps = st.one_of(
    sheets.map(lambda sheet: ("ask", sheet)),
    st.just(("restart", None)),
    st.just(("collect", None)),
    st.just(("check", None)),
    st.just(("remove", None)),
    damages.map(lambda damage: ("damage", damage)),
)


def files(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


def do_damage(folder, damage):
    kind, which, where, what = damage
    there = files(folder)
    if not there:
        return
    path = there[which % len(there)]
    data = bytearray(path.read_bytes())
    if kind == "delete":
        path.unlink()
    elif kind == "swap":
        other = there[where % len(there)]
        path.write_bytes(other.read_bytes())
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "cut":
        path.write_bytes(data[: where % (len(data) + 1)])
    elif data:
        data[where % len(data)] ^= what
        path.write_bytes(data)


@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.lists(steps, max_size=12), sheets)
def test_answers_are_those_of_a_cold_engine(plan, last):
    folder = Path(tempfile.mkdtemp(prefix="presk-laws-"))
    workshop = Workshop(folder)
    try:
        store = workshop.store(inline_max=INLINE_MAX, retry_seconds=0.0)
        engine = workshop.engine(store, memory_entries=8)
        for kind, argument in [*plan, ("ask", last), ("ask", last)]:
            if kind == "ask":
                expected = check(workshop.engine(), argument)[0]
                assert check(workshop.engine(roundtrip=True), argument)[0] == expected
                assert check(engine, argument)[0] == expected
            elif kind == "restart":
                store.close()
                store = workshop.store(inline_max=INLINE_MAX, retry_seconds=0.0)
                engine = workshop.engine(store, memory_entries=8)
            elif kind == "collect":
                collect_garbage(store, 5000)
            elif kind == "check":
                check_entries(store)
            elif kind == "remove":
                shutil.rmtree(workshop.cache, ignore_errors=True)
            else:
                do_damage(workshop.cache, argument)
    finally:
        workshop.close()
        shutil.rmtree(folder)


@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow])
@given(sheets, st.lists(damages, min_size=1, max_size=8))
def test_a_warm_store_of_which_anything_was_damaged(sheet, hurts):
    """All damage at once to a folder that nobody has open, and a fresh process after it."""
    folder = Path(tempfile.mkdtemp(prefix="presk-laws-"))
    workshop = Workshop(folder)
    try:
        store = workshop.store(inline_max=INLINE_MAX)
        expected = check(workshop.engine(store), sheet)[0]
        store.close()
        for hurt in hurts:
            do_damage(workshop.cache, hurt)
        for _ in range(2):
            store = workshop.store(inline_max=INLINE_MAX)
            engine = workshop.engine(store)
            assert check(engine, sheet)[0] == expected
            store.close()
    finally:
        workshop.close()
        shutil.rmtree(folder)
