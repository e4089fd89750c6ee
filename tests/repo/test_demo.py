"""`make demo`: its steps at a tiny size, and the parts that it is made of."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.numpy import load_file

from tests.tools import demo


def test_its_steps_at_a_tiny_size(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    command = [sys.executable, str(demo.ROOT / "tests" / "tools" / "demo.py"), "--tiny", "--folder", str(folder)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    said = done.stdout
    # It learns, what it has learned is kept, and it writes.
    loss = re.search(r"done  26 steps .* loss (\d\.\d{4}) to (\d\.\d{4})", said)
    assert loss is not None and float(loss[2]) < float(loss[1])
    assert {path.name for path in (folder / "ckpt").iterdir()} == {
        "step-000010.safetensors",
        "step-000020.safetensors",
        "step-000026.safetensors",
        "final.safetensors",
    }
    assert "<svg" in (folder / "loss.svg").read_text("utf-8")
    assert re.search(rf"^  {re.escape(demo.PROMPT)}.", said, re.MULTILINE)
    # The exact loss is printed twice, the same; in 32 bits it begins with the same digits.
    exact, again, machine = re.findall(r"^  loss : ℝ\[\] = (\S+)$", said, re.MULTILINE)
    assert exact == again and len(exact) > 70 and machine[:6] == exact[:6]
    assert "gap of loss: at most" in said
    # Parameters and two moments of each.
    stored = load_file(folder / "ckpt" / "final.safetensors")
    assert f"{len(stored)} tensors" in said and "the same in every bit" in said
    assert len(stored) == 3 * 21
    # Two kernels depend on which function stands there, its own and its derivative's.
    assert re.search(r"^  2 of \d{2,3} objects were compiled", said, re.MULTILINE)
    assert re.search(r"^== Done in \d+ s\.", said, re.MULTILINE)


def test_the_course_gpt_in_a_copy() -> None:
    old = demo.COURSE.read_text("utf-8")
    new = demo.adapted(old, demo.FULL, 94)
    assert "const V  : nat = 94 " in new and "batch(B = 12) |> take(n = 2600)\n" in new
    changed = demo.differences(old, new)
    assert len(changed) == 24 and all(line[0] in "-+" for line in changed)
    # Functions differ in the rate of dropout alone.
    functions = [line for line in changed if "dropout" in line]
    assert [line[1:].replace("0.05", "0.2") for line in functions if line[0] == "+"] == [
        line[1:] for line in functions if line[0] == "-"
    ]
    with pytest.raises(AssertionError, match="const V"):
        demo.adapted(new, demo.FULL, 94)


def test_the_schedule_is_whole_and_its_tail_is_replayed() -> None:
    for size in (demo.FULL, demo.TINY):
        assert (size.steps - size.tail) % size.every == 0
        assert size.warmup < size.steps and size.exact <= size.context


def test_a_chart() -> None:
    # Two steps a column, 0.2 lower each, on rows that are 0.6 apart; the evaluation is at 3.0, in the last column.
    losses = [(step, 4.0 - step / 10) for step in range(1, 21)]
    assert demo.chart(losses, [(20, 3.0)], columns=10, rows=4) == [
        "  3.85 |**",
        "       |  ***    o",
        "       |     ***",
        "  2.05 |        **",
        "       +----------",
        "  step 1       20",
    ]


def test_a_python_without_the_text_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    with pytest.raises(SystemExit, match=r"has no module `pydoc_data\.topics`") as found:
        demo.manual()
    assert "make demo PYTHON=" in str(found.value)


def test_the_text_is_printable_and_of_lines() -> None:
    text = demo.manual()
    assert len(text) > 300_000
    assert set(text) <= {"\n", *map(chr, range(32, 127))}
    assert demo.PROMPT in text
