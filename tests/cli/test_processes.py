"""The console script in processes of its own: streams that are closed, a directory that is gone, what `--stats` prints."""

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.console import COMMAND, GOOD, Console, process

# --- streams ----------------------------------------------------------------------------------------------------------


def test_the_same_bytes_as_in_this_process(console: Console) -> None:
    for command in (
        ("check", "bad.psk"),
        ("check", "good.psk", "warned.psk"),
        ("check", "missing.psk"),
        ("explain", "E1"),
    ):
        here = console.presk(*command)
        there = process(console, *command)
        assert (there.stdout.decode(), there.stderr.decode(), there.returncode) == (here.out, here.err, here.code)


def test_output_that_nobody_reads(console: Console) -> None:
    """`presk check … | head -1`: the reader is gone before the first byte."""
    console.write("many.psk", "".join(f"fn f{i}(x : ℝ[8]) -> ℝ[8] = y{i}\n" for i in range(300)))
    for command in (["check", "many.psk"], ["dump", "many.psk"], ["explain", "E2003"], ["check", "--help"]):
        read, write = os.pipe()
        os.close(read)
        env = console.env | {"PATH": os.environ.get("PATH", "")}
        done = subprocess.run(
            [*COMMAND, *command], cwd=console.folder, env=env, stdout=write, stderr=subprocess.PIPE, check=False
        )
        os.close(write)
        assert b"Traceback" not in done.stderr, done.stderr.decode()
        assert b"BrokenPipe" not in done.stderr, done.stderr.decode()
        assert done.returncode in (0, 1, -signal.SIGPIPE), command


def test_a_reader_that_leaves_in_the_middle(console: Console) -> None:
    console.write("many.psk", "".join(f"fn f{i}(x : ℝ[8]) -> ℝ[8] = y{i}\n" for i in range(1_000)))
    env = console.env | {"PATH": os.environ.get("PATH", "")}
    with subprocess.Popen(
        [*COMMAND, "check", "many.psk"], cwd=console.folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert running.stdout.read(20).startswith(b"error[E2002]")
        running.stdout.close()
        assert b"Traceback" not in running.stderr.read()


def test_closed_streams(console: Console) -> None:
    """`presk check … >&-`."""
    env = console.env | {"PATH": os.environ.get("PATH", "")}
    for closing in (">&-", "2>&-", "<&-", ">&- 2>&- <&-"):
        done = subprocess.run(
            ["sh", "-c", f'"$@" {closing}', "sh", *COMMAND, "check", "bad.psk"],
            cwd=console.folder,
            env=env,
            capture_output=True,
            check=False,
        )
        assert b"Traceback" not in done.stderr, (closing, done.stderr.decode())
        assert done.returncode in (0, 1), closing


def test_a_directory_that_is_gone(console: Console, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    env = console.env | {"PATH": os.environ.get("PATH", "")}
    script = f'cd "{gone}" && rmdir "{gone}" && "$@"'
    done = subprocess.run(
        ["sh", "-c", script, "sh", *COMMAND, "check", str(console.folder / "good.psk")],
        env=env,
        capture_output=True,
        check=False,
    )
    assert (done.stdout, done.stderr.decode(), done.returncode) == (
        b"",
        "error[E9002]: the current directory does not exist any more\n",
        2,
    )


def test_names_that_are_not_unicode(console: Console) -> None:
    name = os.fsencode(console.folder) + b"/caf\xe9.psk"
    with open(name, "w", encoding="utf-8") as file:
        file.write(GOOD + "fn h(x : ℝ) -> ℝ = y\n")
    done = process(console, "check", name)
    assert done.returncode == 1
    assert b"caf<U+DCE9>.psk:14:20" in done.stdout
    done = process(console, "check", name + b".gone")
    assert (done.returncode, b"caf\xe9.psk.gone` cannot be read" in done.stderr) == (2, True)


# --- figures ----------------------------------------------------------------------------------------------------------

ROW = re.compile(r"(?P<stage>[a-z ]+?) +(?P<numbers>(?:\d+ +){5})(?P<times>\d+\.\d ms +\d+\.\d ms)")


def figures(text: str) -> dict[str, tuple[int, ...]]:
    """The table of `--stats`: asked, computed, memory, disk, unchanged by stage."""
    head, *rows = text.splitlines()
    assert head.split() == ["stage", "asked", "computed", "memory", "disk", "unchanged", "computing", "overhead"]
    table = {}
    for row in rows:
        match = ROW.fullmatch(row)
        assert match is not None, row
        table[match["stage"]] = tuple(map(int, match["numbers"].split()))
    return table


def test_stats(console: Console) -> None:
    ran = console.presk("check", "--stats", "good.psk", "good.psk")
    assert (ran.out, ran.code) == ("", 0)
    table = figures(ran.err.replace("⟨time⟩", "0.0 ms"))
    assert table["tokens"] == (2, 1, 1, 0, 0)
    assert table["typing"] == (2, 2, 0, 0, 0)
    assert table["check"] == (2, 1, 1, 0, 0)
    assert list(table)[-1] == "total"
    total = table.pop("total")
    assert total == tuple(map(sum, zip(*table.values(), strict=True)))
    for asked, computed, memory, disk, unchanged in table.values():
        assert asked == computed + memory + disk
        assert unchanged <= computed
    again = figures(console.presk("check", "--stats", "good.psk").err.replace("⟨time⟩", "0.0 ms"))
    assert again == dict.fromkeys(("tokens", "parse file", "references", "check"), (1, 0, 0, 1, 0)) | {
        "total": (4, 0, 0, 4, 0)
    }


def test_stats_of_json_stay_on_standard_error(console: Console) -> None:
    ran = console.presk("check", "--stats", "--message-format", "json", "bad.psk")
    assert all(line.startswith('{"code"') for line in ran.out.splitlines())
    assert "typing" in figures(ran.err.replace("⟨time⟩", "0.0 ms"))


@pytest.mark.parametrize("variable", ["PRESK_CACHE", "PRESK_HOME", "XDG_CACHE_HOME", "HOME"])
def test_where_the_store_is(console: Console, tmp_path: Path, variable: str) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    others = dict.fromkeys(("PRESK_CACHE", "PRESK_HOME", "XDG_CACHE_HOME", "HOME"), "")
    assert console.presk("check", "good.psk", env={**others, variable: str(folder)}).code == 0
    assert any(path.name == "cache.db" for path in folder.rglob("*"))


def test_a_store_that_cannot_be_used_costs_a_warning(console: Console, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    ran = console.presk("check", "bad.psk", env={"PRESK_CACHE": str(tmp_path / "file" / "cache")})
    assert ran.code == 1
    assert ran.out.startswith("error[E2003]")
    assert ran.err.count("presk: warning: ") == 1
    assert len(ran.err.splitlines()) == 1
