"""The requirements on the cache, as they show from outside: through the command and the daemon (items 1-15 and 35).

What the store and the engine promise by themselves is tested in `tests/cache`. The table in `docs/daemon.md` names the tests of each
item.
"""

import os
import re
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tests.daemon.support import BAD, GOOD, Home, same

COMPUTED = re.compile(r"^total +(\d+) +(\d+) ", re.MULTILINE)


def computed(home: Home, *argv: str, env: dict[str, str] | None = None, cwd: Path | None = None) -> int:
    """How many stages a check computes."""
    done = home.presk("check", "--stats", *argv, env=env, cwd=cwd)
    assert done.code in (0, 1), done.complaint
    found = COMPUTED.search(done.complaint)
    assert found is not None, done.complaint
    return int(found.group(2))


def audited(home: Home, hook: str, *argv: str) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own, whose audit events a function `hook(event, arguments)` sees; what the process prints
    to standard error at its end is what `hook` gathered in `seen`."""
    program = (
        f"import os, sys\nseen = []\n{hook}\n"
        "from io import BytesIO\nfrom pathlib import Path\nfrom presk.cli.app import run\nsys.addaudithook(hook)\n"
        "code = run(sys.argv[1:], cwd=Path.cwd(), env=dict(os.environ), stdout=BytesIO(), stderr=BytesIO())\n"
        "print(code, *seen)\n"
    )
    return subprocess.run(
        [sys.executable, "-P", "-c", program, *argv],
        cwd=home.work,
        env=home.env,
        capture_output=True,
        text=True,
        check=True,
    )


def test_item_01_each_file_is_opened_once(home: Home) -> None:
    """The program, and a library that three files import: what is hashed is what is compiled."""
    imports = 'import "lib.psk" as lib\n'
    home.write("lib.psk", GOOD)
    home.write("one.psk", imports + "fn f(x : ℝ[lib.D]) -> ℝ[lib.D] = x\n")
    home.write("two.psk", imports + "fn g(x : ℝ[lib.D]) -> ℝ[lib.D] = x\n")
    home.write("main.psk", imports + 'import "one.psk" as one\nimport "two.psk" as two\nfn h(x : ℝ[3]) -> ℝ[3] = x\n')
    hook = (
        "def hook(event, arguments):\n"
        "    if event == 'open' and str(arguments[0]).endswith('.psk'): seen.append(os.path.basename(arguments[0]))"
    )
    for _ in range(2):  # from nothing, and from the disk
        said = audited(home, hook, "check", "main.psk").stdout.split()
        assert said[0] == "0"
        assert sorted(said[1:]) == ["lib.psk", "main.psk", "one.psk", "two.psk"]


@pytest.mark.parametrize("damage", ["empty", "cut", "flip", "foreign"])
def test_item_02_a_damaged_entry_is_a_counted_miss(home: Home, damage: str) -> None:
    """Every blob of the store at once; the daemon has nothing of it in memory."""
    home.write("fifty.psk", "".join(f"fn f{number}(x : ℝ[3]) -> ℝ[3] = x + {number}.5\n" for number in range(50)) + BAD)
    right = home.alone("check", "fifty.psk")
    blobs = [path for path in (home.presk_home / "cache").glob("*/blobs/*/*") if path.is_file()]
    assert len(blobs) > 2
    whole = [path.read_bytes() for path in blobs]
    assert all(whole), "no valid entry is empty"
    for at, path in enumerate(blobs):
        data = whole[at]
        path.unlink()
        path.write_bytes(
            {
                "empty": b"",
                "cut": data[: len(data) // 2],
                "flip": data[:100] + bytes((data[100] ^ 1,)) + data[101:],
                "foreign": whole[at - 1],
            }[damage]
        )
    # A comment redoes what belongs to the whole file, for which the other entries are read.
    home.write("fifty.psk", f"-- a comment\n{(home.work / 'fifty.psk').read_text('utf-8')}")
    done = home.presk("check", "fifty.psk")
    assert done.code == right.code == 1
    assert done.text == home.alone("check", "fifty.psk", env={"PRESK_CACHE": str(home.root / "new")}).text
    entries = home.presk("cache", "verify", "--sample", "0").text
    stats = home.presk("cache", "stats").text
    counted = sum(int(number) for number in re.findall(r"^(?:damaged|empty): (\d+)", stats, re.MULTILINE))
    assert counted >= 1, entries + stats


def test_item_03_nothing_is_used_before_its_digest_was_checked(home: Home) -> None:
    """There is no object code yet. What there is, a planted value that decodes, is refused for its digest, not for its form."""
    home.write("good.psk", GOOD)
    assert home.presk("check", "good.psk").code == 0
    home.stop()
    database = next((home.presk_home / "cache").rglob("cache.db"))
    with sqlite3.connect(database) as index:
        rows = index.execute("SELECT rowid, value FROM Cache").fetchall()
        values = [(rowid, value) for rowid, value in rows if len(value) > 200]
        for (rowid, _), (_, other) in zip(values, values[1:] + values[:1], strict=True):
            index.execute("UPDATE Cache SET value = ? WHERE rowid = ?", (other, rowid))
    index.close()
    assert len(values) > 2
    for ask in (home.presk, home.alone):
        done = ask("check", "good.psk")
        assert (done.code, done.out) == (0, b"")
    assert re.search(r"^damaged: [1-9]", home.presk("cache", "stats").text, re.MULTILINE)


def test_item_05_what_was_looked_for_and_absent_is_an_input(shared: Home) -> None:
    shared.write("user.psk", 'import "later.psk" as later\n\nfn f(x : ℝ[3]) -> ℝ[3] = x\n')
    assert "E1002" in shared.presk("check", "user.psk").text
    shared.write("later.psk", GOOD)
    assert shared.presk("check", "user.psk").code == 0
    (shared.work / "later.psk").unlink()
    assert "E1002" in shared.presk("check", "user.psk").text


def test_item_06_options_are_in_the_key(shared: Home) -> None:
    shared.write("options.psk", "const D = 8\nstatic assert D == 8\n")
    for value, code in (("8", 0), ("9", 1), ("8", 0)):
        assert shared.presk("check", "options.psk", "--const", f"D={value}").code == code
    assert shared.presk("check", "options.psk").code == 0


def test_item_07_only_deterministic_outcomes_are_cached(shared: Home) -> None:
    """A file that may not be read is an error now, and none when it may."""
    path = shared.write("locked.psk", GOOD)
    user = shared.write("locking.psk", 'import "locked.psk" as l\n')
    path.rename(shared.work / "away.psk")
    path.mkdir()
    assert "it is a folder" in shared.presk("check", user.name).text
    path.rmdir()
    (shared.work / "away.psk").rename(path)
    assert shared.presk("check", user.name).code == 0


def test_item_08_a_failing_file_goes_on_failing(shared: Home) -> None:
    first = shared.presk("check", "bad.psk")
    assert first.code == 1
    for _ in range(3):
        same(shared.presk("check", "bad.psk"), first)
    assert computed(shared, "bad.psk") == 0


def test_item_09_a_planted_index_runs_no_code(home: Home) -> None:
    """Rows in pickle's format, in every place where one could be read."""
    home.write("good.psk", GOOD)
    assert home.presk("check", "good.psk").code == 0
    home.stop()
    mark = home.root / "mark"
    evil = b"cos\nsystem\n(S'touch " + os.fsencode(mark) + b"'\ntR."
    database = next((home.presk_home / "cache").rglob("cache.db"))
    with sqlite3.connect(database) as index:
        index.execute("UPDATE Cache SET mode = 4, value = ?", (evil,))
    index.close()
    assert home.presk("check", "good.psk").code == 0
    assert home.alone("check", "good.psk").code == 0
    assert not mark.exists()


def test_item_10_the_cache_never_fails_a_job(home: Home) -> None:
    home.write("bad.psk", BAD)
    right = home.alone("check", "bad.psk", env={"PRESK_CACHE": str(home.root / "apart")})
    asks = (
        ("enospc@put", home.alone),
        *((fault, home.presk) for fault in ("enospc@put", "eio@get", "erofs@folder", "eacces@list")),
    )
    for fault, ask in asks:
        done = ask("check", "bad.psk", env={"PRESK_FAULT": fault, "PRESK_CACHE": str(home.root / fault)})
        assert (done.code, done.out) == (right.code, right.out)
        assert all(line.startswith("presk: warning: the cache") for line in done.complaint.splitlines())
        assert len(done.complaint.splitlines()) <= 2
    # Deleting any file at any time is safe, the whole folder too.
    assert home.presk("check", "bad.psk").code == 1
    files = [path for path in (home.presk_home / "cache").rglob("*") if path.is_file()]
    for path in files[:6]:
        path.unlink(missing_ok=True)
        same(home.presk("check", "bad.psk"), right)
    shutil.rmtree(home.presk_home / "cache")
    same(home.presk("check", "bad.psk"), right)


def test_item_11_the_store_is_bounded_in_bytes(home: Home) -> None:
    """What was used least recently goes first, and what is asked next is computed again."""
    for name in ("old.psk", "new.psk"):
        home.write(name, "".join(f"fn {name[:3]}{number}(x : ℝ[3]) -> ℝ[3] = x\n" for number in range(40)))
        assert home.presk("check", name).code == 0
    home.stop()
    folder = home.presk_home / "cache"
    assert re.match(r"\d+ entries evicted", home.presk("cache", "gc", "--max-bytes", "250000").text)
    size = re.search(r"^size: ([\d.]+) KiB of ", home.presk("cache", "stats").text, re.MULTILINE)
    assert size is not None
    assert float(size.group(1)) * 1024 <= 250_000
    blobs = sum(path.stat().st_size for path in folder.glob("*/blobs/*/*"))
    assert blobs <= 250_000
    home.stop()
    assert computed(home, "new.psk") < computed(home, "old.psk")


def test_item_12_nothing_of_the_surroundings_is_an_ingredient(shared: Home, tmp_path: Path) -> None:
    assert computed(shared, "good.psk") == 0
    env = {f"PRESK_UNRELATED_{number}": str(number) for number in range(50)} | {"HOME": "/nowhere", "LANG": "tr_TR"}
    assert computed(shared, "good.psk", env=env) == 0
    (tmp_path / "elsewhere" / "sub").mkdir(parents=True)
    shutil.copy(shared.work / "good.psk", tmp_path / "elsewhere")
    assert computed(shared, "../good.psk", cwd=tmp_path / "elsewhere" / "sub") == 0


def test_item_12_a_comment_on_top_of_fifty_functions(shared: Home) -> None:
    text = (
        "".join(f"fn f{number}(x : ℝ[3]) -> ℝ[3] = x + x\n" for number in range(50)) + "fn bad(x : ℝ[3]) -> ℝ[3] = y\n"
    )
    shared.write("fifty.psk", text)
    before = shared.presk("check", "fifty.psk")
    assert "fifty.psk:51:" in before.text
    shared.write("fifty.psk", f"-- a comment\n{text}")
    # Its tokens and its table of places; nothing of any function.
    assert computed(shared, "fifty.psk") == 2
    after = shared.presk("check", "fifty.psk")
    assert "fifty.psk:52:" in after.text


def test_item_13_why_names_what_differs(shared: Home) -> None:
    shared.write("reason.psk", GOOD)
    shared.presk("check", "reason.psk")
    shared.write("reason.psk", GOOD.replace("x + x", "x + x + x"))
    shared.presk("check", "reason.psk")
    said = shared.presk("why", "reason.psk", "twice").text
    assert "fn twice" in said
    assert "differs" in said or "changed" in said


def test_item_13_why_speaks_of_the_file_that_is_meant(home: Home) -> None:
    """Two files declare a function of the same name."""
    for name in ("a.psk", "b.psk"):
        home.write(name, f"fn same(x : ℝ[3]) -> ℝ[3] = x + {ord(name[0])}.0\n")
        home.presk("check", name)
    home.write("b.psk", "fn same(x : ℝ[3]) -> ℝ[3] = x + 7.0\n")
    home.presk("check", "b.psk")
    for ask in (home.presk, home.alone):
        first = ask("why", "a.psk", "same").text.splitlines()[0]
        assert first.startswith("parse (a.psk: fn same) ")
        assert "first time" in first
        first = ask("why", "b.psk", "same").text.splitlines()[0]
        assert first.startswith("parse (b.psk: fn same) ")
        assert "because the input chunk differs" in first


def test_item_14_an_edit_within_a_tick_is_seen(shared: Home) -> None:
    """The same size and times as before, as on a file system with a coarse clock."""
    path = shared.write("racy.psk", "const A = 1\nstatic assert A == 1\n")
    status = path.stat()
    assert shared.presk("check", "racy.psk").code == 0
    path.write_text("const A = 2\nstatic assert A == 1\n")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert shared.presk("check", "racy.psk").code == 1


def test_item_15_results_are_computed_again_and_compared(home: Home) -> None:
    home.write("good.psk", GOOD)
    assert home.presk("check", "good.psk").code == 0
    done = home.presk("cache", "verify", "--all")
    assert done.code == 0
    assert re.search(
        r"^[1-9]\d* entries checked, 0 damaged and removed\n[1-9]\d* results computed again, 0 differ$",
        done.text,
        re.MULTILINE,
    )


def test_item_35_nothing_goes_over_the_network(home: Home) -> None:
    """There is no remote store: no name is looked up and no socket is made, whatever the cache holds or lacks."""
    home.write("good.psk", GOOD)
    hook = "def hook(event, arguments):\n    if event.startswith('socket.'): seen.append(event)"
    for line in (("check", "good.psk"), ("check", "good.psk"), ("cache", "verify"), ("cache", "clear")):
        assert audited(home, hook, *line).stdout.split() == ["0"]
