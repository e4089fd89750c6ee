"""What a worker holds after many edits is what it held after some: every part is bounded by a number, and the numbers are small."""

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path
from types import MappingProxyType
from typing import Final

import pytest

from presk.cache.fingerprint import Fingerprints
from presk.cache.index import PAGE_CACHE_KIB
from presk.cli import app
from presk.daemon import engines
from presk.daemon.engines import Engines
from presk.daemon.tracking import Tracker
from tests.daemon.support import GOOD

ENTRIES: Final = 120
"""Answers that the engine of these tests keeps: some five edits fill it."""


def sizes(root: object) -> dict[str, int]:
    """The number of things in every container that is reached from an object through the project's own objects, by its path."""
    found: dict[str, int] = {}
    seen: set[int] = set()
    pending: list[tuple[str, object]] = [("", root)]
    while pending:
        path, value = pending.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, dict | OrderedDict | MappingProxyType | list | set | tuple | frozenset):
            found[path] = len(value)
            inner = value.values() if isinstance(value, Mapping) else value
            # Answers are told by their number; what is inside of one is bounded by the program.
            pending += [(f"{path}[]", one) for one in inner if not path.endswith("_memory._entries")]
        elif type(value).__module__.startswith("presk.cache") or type(value).__module__ == engines.__name__:
            pending += [(f"{path}.{name}", one) for name, one in attributes(value)]
    return found


def attributes(value: object) -> Iterator[tuple[str, object]]:
    yield from getattr(value, "__dict__", {}).items()
    for kind in type(value).__mro__:
        for name in getattr(kind, "__slots__", ()):
            if hasattr(value, name):
                yield name, getattr(value, name)


def test_item_25_a_worker_holds_no_more_after_more_edits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Edits of one function, as the worker answers them, with an engine that is full after a few."""
    monkeypatch.setattr(engines, "MEMORY_ENTRIES", ENTRIES)
    held = Engines(Fingerprints(), lambda stage, subject: None)
    command = app.command()
    env = {"PRESK_CACHE": str(tmp_path / "cache")}
    file = tmp_path / "edited.psk"

    def edits(first: int, last: int) -> dict[str, int]:
        most: dict[str, int] = {}
        for number in range(first, last):
            file.write_text(f"{GOOD}fn edited(x : ℝ[3]) -> ℝ[3] = x + {number}.0\n", "utf-8")
            code = app.run(
                ["check", file.name],
                cwd=tmp_path,
                env=env,
                stdout=BytesIO(),
                stderr=BytesIO(),
                make_engine=held.engine,
                make_reader=Tracker().reader,
                made=command,
            )
            assert code == 0
            held.finish()
            for path, size in sizes(held).items():
                most[path] = max(most.get(path, 0), size)
        return most

    before = edits(0, 30)
    after = edits(30, 90)
    assert [size for path, size in before.items() if path.endswith("_memory._entries")] == [ENTRIES]
    assert any(path.endswith("_earlier._values") for path in before), "the history is looked at"
    assert any(path.endswith("_uses") for path in before), "the store is looked at"
    assert {path: size for path, size in after.items() if size > before.get(path, 0)} == {}
    held.close()


def test_item_25_the_pages_of_the_index_are_bounded(tmp_path: Path) -> None:
    """SQLite keeps pages of the file until its bound is reached: by default of diskcache 32 MiB, which look like a leak."""
    held = Engines(Fingerprints(), lambda stage, subject: None)
    (tmp_path / "good.psk").write_text(GOOD, "utf-8")
    app.run(
        ["check", "good.psk"],
        cwd=tmp_path,
        env={"PRESK_CACHE": str(tmp_path / "cache")},
        stdout=BytesIO(),
        stderr=BytesIO(),
        make_engine=held.engine,
        make_reader=Tracker().reader,
    )
    held.finish()
    (store,) = held.stores()
    kept = store.rows.run(lambda index: index._sql("PRAGMA cache_size").fetchone()[0], 0)
    assert kept == -PAGE_CACHE_KIB
    assert PAGE_CACHE_KIB <= 8192
    held.close()
