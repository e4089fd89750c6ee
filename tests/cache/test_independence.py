"""Answers depend on nothing around the process, and importing the package costs little."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cache.support import Workshop

ROOT = Path(__file__).parents[2]

ASK = """
import json, sys
from pathlib import Path
from presk.cache.engine import Engine
from presk.cache.store import Store
from tests.cache.support import SHEET, check

store = Store(Path(sys.argv[1]))
values, log = check(Engine(store, project={"fake": Path(sys.argv[2])}), SHEET)
store.close()
print(json.dumps([[str(value) for value in values], log.total().computed, log.total().disk, store.health.warnings()]))
"""


def ask(workshop, environment, directory):
    process = subprocess.run(
        [sys.executable, "-c", ASK, str(workshop.cache), str(workshop.project["fake"])],
        env={"PYTHONPATH": str(ROOT), **environment},
        cwd=directory,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(process.stdout)


def test_needless_misses_do_not_happen(workshop, tmp_path):
    """Fifty other variables, another home, directory, locale, seed of hashes, and folder of the checkout."""
    values, computed, disk, warnings = ask(workshop, {"HOME": "/", "PYTHONHASHSEED": "1"}, "/")
    assert (computed, disk, warnings) == (7, 0, [])
    other = Workshop(tmp_path / "another checkout")
    other.cache = workshop.cache
    environment = {f"VARIABLE_{i}": str(i) for i in range(50)}
    environment |= {
        "HOME": str(tmp_path),
        "LC_ALL": "C.UTF-8",
        "TZ": "Asia/Tokyo",
        "PYTHONHASHSEED": "2",
        "LANG": "tr_TR",
    }
    assert ask(other, environment, tmp_path) == [values, 0, 1, []]


def imported(module):
    code = f"import sys; import {module}; print(*sys.modules)"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


def test_importing_the_package_imports_nothing():
    assert {name for name in imported("presk.cache") if name.startswith(("presk", "msgspec", "blake3"))} == {
        "presk",
        "presk.cache",
    }


@pytest.mark.parametrize(
    "module", ["presk.cache.stage", "presk.cache.engine", "presk.cache.maintain", "presk.cache.verify"]
)
def test_heavy_packages_wait_for_the_disk(module):
    assert imported(module).isdisjoint({"diskcache", "sqlite3", "gmpy2", "importlib.metadata", "numpy", "lark"})


def test_no_module_asks_the_process_for_its_surroundings():
    """What depends on the caller (folder, directory, variables) is handed in."""
    asking = re.compile(
        r"os\.environ|getenv|getcwd|\.cwd\(|expanduser|\.home\(|\.absolute\(|gethostname|getpid|getlocale"
    )
    sources = sorted((ROOT / "cache").glob("*.py"))
    assert len(sources) > 20
    assert [path.name for path in sources if asking.search(path.read_text())] == []
