"""Edits that a script does not show well: line endings, data files, a folder that moves, other processes."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from tests.incremental.desk import Desk, of_front_end
from tests.incremental.scripts import MAIN

PROGRAM: Final = """\
const D = 8

module Net {
  param w : ℝ[D, D]

  fn apply(x : ℝ[..., D]) -> ℝ[..., D] =
    let y = x · w
    y + missing
}

fn f(x : ℝ[D]) -> ℝ[D] = x
"""
TRAINED: Final = """\
dim B
dim T
module Net {
  param e : ℝ[char: 64, next: 64]
  fn apply(x : idx[64][batch: B, seq: T]) -> ℝ[batch: B, seq: T, next: 64] = embed(e, x)
}
fn loss(θ : params Net, x : idx[64][batch: B, seq: T]) -> ℝ[] = mean(Net.apply(θ, x))
optimizer adamw { lr = 1e-3 }
training run {
  model = Net
  objective = loss
  optimizer = adamw
  data = stream "some.psk.d" |> shuffle(seed = 1) |> batch(B = 4)
}
"""


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path / "cache")


def data_head(sample: str, count: int, length: int = 0) -> bytes:
    """The beginning of a data file whose header is at least so long."""
    header = json.dumps({"__metadata__": {"presk.sample": sample, "presk.count": str(count)}}).ljust(length).encode()
    return len(header).to_bytes(8, "little") + header


def test_line_endings_blanks_and_a_byte_order_mark(desk: Desk) -> None:
    desk.files[MAIN] = PROGRAM.encode()
    assert desk.check().said == (("E2002", MAIN, 8, 9),)
    for text, column in (
        (PROGRAM.replace("\n", "\r\n"), 9),
        ("\ufeff" + PROGRAM, 9),
        (PROGRAM.replace("    y + missing", "\t\ty  +   missing \t"), 10),
        (PROGRAM.rstrip("\n"), 9),
    ):
        desk.files[MAIN] = text.encode()
        seen = desk.check()
        assert seen.computed == {"tokens": {MAIN}, "places": {MAIN}}
        assert seen.said == (("E2002", MAIN, 8, column),)


def test_offsets_of_a_members_error_follow_edits_above_it_in_the_module(desk: Desk) -> None:
    desk.files[MAIN] = PROGRAM.encode()
    desk.check()
    desk.files[MAIN] = PROGRAM.replace("  param w", "  -- weights, 重み\n\n  param w").encode()
    seen = desk.check()
    assert seen.computed == {"tokens": {MAIN}, "places": {MAIN}}
    assert seen.said == (("E2002", MAIN, 10, 9),)
    desk.files[MAIN] = PROGRAM.replace("  param w : ℝ[D, D]\n", "  param w : ℝ[D, D]\n  param v : ℝ[D]\n").encode()
    seen = desk.check()
    assert seen.said == (("E2002", MAIN, 9, 9),)
    assert seen.computed["parse"] == {"module Net/param v"}


def test_a_data_file_appears_changes_and_goes(desk: Desk) -> None:
    desk.files[MAIN] = TRAINED.encode()
    assert desk.check().said == (("W0002", MAIN, 13, 10),)
    desk.files["some.psk.d"] = data_head("idx[64][seq: 16]", 1000)
    seen = desk.check()
    assert seen.said == ()
    assert of_front_end(seen.computed) == {"data": {"training run"}, "training": {"training run"}, "check": {MAIN}}
    assert "1000" in seen.text
    # The rest of the header plays no part, and neither do the samples.
    desk.files["some.psk.d"] = data_head("idx[64][seq: 16]", 1000, 200)
    seen = desk.check()
    assert seen.computed == {"data": {"training run"}, "check": {MAIN}}
    desk.files["some.psk.d"] = data_head("idx[64][seq: 16]", 1001)
    assert desk.check().computed == {"data": {"training run"}, "training": {"training run"}, "check": {MAIN}}
    desk.files["some.psk.d"] = b"no data"
    assert [code for code, *_ in desk.check().said] == ["E8001"]
    del desk.files["some.psk.d"]
    seen = desk.check()
    assert seen.said == (("W0002", MAIN, 13, 10),)
    assert seen.computed == {}


# --- other processes --------------------------------------------------------------------------------------------------

COMMAND: Final = (sys.executable, "-c", "from presk.cli.client import main; main()", "--no-daemon")


def stats(folder: Path, *arguments: str, env: Mapping[str, str]) -> tuple[str, dict[str, dict[str, str]]]:
    """What a process prints, and its table of stages: `stats["typing"]["computed"]`."""
    done = subprocess.run(
        [*COMMAND, "check", "--stats", *arguments], cwd=folder, env=env, capture_output=True, check=False
    )
    assert done.returncode in (0, 1), done.stderr.decode()
    head, *rows = done.stderr.decode().splitlines()
    names = head.split("  ")
    columns = [name.strip() for name in names if name.strip()]
    table = {}
    for row in rows:
        cells = [cell.strip() for cell in row.split("  ") if cell.strip()]
        table[cells[0]] = dict(zip(columns[1:], cells[1:], strict=True))
    return done.stdout.decode(), table


def test_another_process_computes_nothing_wherever_it_runs(tmp_path: Path) -> None:
    for folder in ("here", "there"):
        (tmp_path / folder / "sub").mkdir(parents=True)
        (tmp_path / folder / MAIN).write_text(PROGRAM, "utf-8")
    env = {"PRESK_CACHE": str(tmp_path / "cache"), "PATH": os.environ.get("PATH", "")}
    said, first = stats(tmp_path / "here", MAIN, env=env)
    assert "missing" in said
    assert int(first["typing"]["computed"]) == 2
    # Nothing of where and how a process runs is an ingredient: folder, directory, environment, locale, the spelling.
    others = env | {f"UNRELATED_{number}": str(number) for number in range(50)} | {"HOME": "/nowhere", "LANG": "tr_TR"}
    for folder_of, name in ((tmp_path / "there", MAIN), (tmp_path / "there" / "sub", f"../{MAIN}")):
        again, second = stats(folder_of, name, env=others)
        assert again == said.replace(MAIN, name)
        assert second["total"]["computed"] == "0"
        assert int(second["total"]["disk"]) == int(second["total"]["asked"]) > 0


def test_another_process_after_an_edit_types_one_function(tmp_path: Path) -> None:
    (tmp_path / MAIN).write_text(PROGRAM, "utf-8")
    env = {"PRESK_CACHE": str(tmp_path / "cache"), "PATH": os.environ.get("PATH", "")}
    stats(tmp_path, MAIN, env=env)
    (tmp_path / MAIN).write_text("-- on top\n" + PROGRAM.replace("ℝ[D] = x\n", "ℝ[D] = x + x\n"), "utf-8")
    _, table = stats(tmp_path, MAIN, env=env)
    computed = {stage: int(row["computed"]) for stage, row in table.items() if row["computed"] != "0"}
    assert computed.pop("total") == sum(computed.values())
    assert computed == {
        "tokens": 1,
        "places": 1,
        "parse": 1,
        "parse file": 1,
        "references": 1,
        "typing": 1,
        "check": 1,
    }
