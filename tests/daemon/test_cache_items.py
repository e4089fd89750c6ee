"""The requirements on the cache, as they show from outside: through the command and the daemon (items 1-14).

What the store and the engine promise by themselves is tested in `tests/cache`; JIT code and LLVM's libraries have their tests with the
kernels.
"""

import os
import re
import shutil
import sqlite3
from pathlib import Path

from tests.daemon.support import BAD, GOOD, Home, same

COMPUTED = re.compile(r"^total +(\d+) +(\d+) ", re.MULTILINE)


def computed(home: Home, *argv: str, env: dict[str, str] | None = None, cwd: Path | None = None) -> int:
    """How many stages a check computes."""
    done = home.presk("check", "--stats", *argv, env=env, cwd=cwd)
    assert done.code in (0, 1), done.complaint
    found = COMPUTED.search(done.complaint)
    assert found is not None, done.complaint
    return int(found.group(2))


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


def test_item_14_an_edit_within_a_tick_is_seen(shared: Home) -> None:
    """The same size and times as before, as on a file system with a coarse clock."""
    path = shared.write("racy.psk", "const A = 1\nstatic assert A == 1\n")
    status = path.stat()
    assert shared.presk("check", "racy.psk").code == 0
    path.write_text("const A = 2\nstatic assert A == 1\n")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert shared.presk("check", "racy.psk").code == 1
