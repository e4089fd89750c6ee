"""Pictures of runs: what is drawn is all that was logged, in a form that programs read, the same bytes each time."""

import math
import os
import re
import struct
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from presk.exact.faults import Fault
from presk.train.log import Log, Run, read_log
from presk.train.picture import DOTS, INCHES, moving_mean, window_of
from presk.train.plot import draw, form_of, plot
from presk.train.report import Evaluation, Step

SVG: Final = "{http://www.w3.org/2000/svg}"


def run(steps: int, evaluations: int = 0, lift: float = 0.0) -> Run:
    """A run whose losses are 1, 1/2, 1/3, …, more or less."""
    made = tuple(Step(n, 0, 1 / n + 0.01 * (n % 3) + lift, 1e-3 / n, 1.0, 0.1, 64) for n in range(1, steps + 1))
    return Run({}, made, tuple(Evaluation(n * 10, 1 / n + lift, 5, 0.5) for n in range(1, evaluations + 1)))


def refused(code: str, what: str) -> Any:
    return pytest.raises(Fault, match=what, check=lambda fault: isinstance(fault, Fault) and fault.code == code)


def tree(picture: bytes) -> ET.Element:
    return ET.fromstring(picture.decode("utf-8"))


def curve(root: ET.Element, name: str) -> list[list[tuple[float, float]]]:
    """The pieces of a curve, each its points in the picture."""
    group = next((one for one in root.iter(f"{SVG}g") if one.get("id") == name), None)
    if group is None:
        return []
    path = group.find(f"{SVG}path")
    if path is None:
        return []
    pieces: list[list[tuple[float, float]]] = []
    for kind, x, y in re.findall(r"([ML]) (\S+) (\S+)", path.get("d", "")):
        if kind == "M":
            pieces.append([])
        pieces[-1].append((float(x), float(y)))
    return pieces


def comments(picture: bytes) -> list[str]:
    """The texts of an SVG: letters are drawn as curves, and each text stands beside them as a comment."""
    return re.findall(r"<!-- (.*?) -->", picture.decode("utf-8"), re.DOTALL)


def size_of(png: bytes) -> tuple[int, int]:
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    assert png[12:16] == b"IHDR"
    width, height = struct.unpack(">II", png[16:24])
    return width, height


def test_a_curve_has_a_point_for_each_step() -> None:
    picture = draw([("a", run(1000, evaluations=7))], "gpt.psk", ".svg")
    root = tree(picture)
    for name, points in (("loss-0", 1000), ("mean-0", 1000), ("rate-0", 1000), ("evaluation-0", 7)):
        (piece,) = curve(root, name)
        assert len(piece) == points
        across = [x for x, _ in piece]
        assert across == sorted(set(across))
    # Losses and rates fall, which in a picture is down: to larger numbers.
    (loss,), (rate,) = curve(root, "loss-0"), curve(root, "rate-0")
    assert loss[0][1] < loss[9][1] < loss[-1][1] < rate[0][1] < rate[-1][1]
    texts = comments(picture)
    for text in (
        "gpt.psk",
        "loss",
        "step",
        "learning rate",
        "loss of a step",
        "mean of 20 steps",
        "loss on evaluation data",
    ):
        assert text in texts


def test_the_points_are_where_the_numbers_say() -> None:
    found = run(50, evaluations=5)
    root = tree(draw([("a", found)], "", ".svg"))
    (loss,), (evaluation,) = curve(root, "loss-0"), curve(root, "evaluation-0")
    # One scale, from two points, holds for all others and for the other curve.
    losses = [step.loss for step in found.steps]
    slope = (loss[1][1] - loss[0][1]) / (losses[1] - losses[0])
    across = loss[1][0] - loss[0][0]
    for step, (x, y) in zip(found.steps, loss, strict=True):
        assert y == pytest.approx(loss[0][1] + slope * (step.loss - losses[0]), abs=1e-3)
        assert x == pytest.approx(loss[0][0] + across * (step.step - 1), abs=1e-3)
    for one, (x, y) in zip(found.evaluations, evaluation, strict=True):
        assert y == pytest.approx(loss[0][1] + slope * (one.loss - losses[0]), abs=1e-3)
        assert x == pytest.approx(loss[0][0] + across * (one.step - 1), abs=1e-3)


def test_several_runs_in_one_picture() -> None:
    picture = draw([("seed 1", run(100, 2)), ("_2", run(60, 3, lift=0.5)), ("seed 3", run(30))], "seeds", ".svg")
    root = tree(picture)
    shown = {
        name: sum(map(len, curve(root, name))) for name in ("loss-0", "loss-1", "loss-2", "mean-0", "mean-1", "mean-2")
    }
    # 30 steps have no mean but themselves.
    assert shown == {"loss-0": 100, "loss-1": 60, "loss-2": 30, "mean-0": 100, "mean-1": 0, "mean-2": 0}
    texts = comments(picture)
    for text in (
        "seed 1: mean of 2 steps",
        " _2: loss of a step",
        "seed 3: loss of a step",
        " _2: loss on evaluation data",
    ):
        assert text in texts
    styles = [
        re.findall(r"stroke: (#\w+)", ET.tostring(one).decode())[0]
        for one in root.iter()
        if re.match("rate-", one.get("id", ""))
    ]
    assert len(set(styles)) == 3


@pytest.mark.parametrize("form", [".svg", ".png"])
def test_the_same_bytes_for_the_same_run(form: str) -> None:
    runs = [("a", run(300, 3)), ("b", run(200, 2, lift=0.1))]
    picture = draw(runs, "gpt.psk", form)
    assert draw(runs, "gpt.psk", form) == picture
    assert draw(runs, "other", form) != picture


def test_the_same_bytes_in_another_process_whatever_the_users_settings_are(tmp_path: Path) -> None:
    (tmp_path / "matplotlibrc").write_text("lines.linewidth: 9\naxes.facecolor: red\nsvg.fonttype: none\n", "utf-8")
    program = (
        "import sys\n"
        "from tests.train.test_plot import draw, run\n"
        "sys.stdout.buffer.write(draw([('a', run(60, 2))], 'gpt.psk', '.svg'))\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2]), "PYTHONHASHSEED": "7", "SOURCE_DATE_EPOCH": "1"}
    ended = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=env, capture_output=True, check=True)
    assert ended.stdout == draw([("a", run(60, 2))], "gpt.psk", ".svg")


def test_a_png_has_its_size_and_something_on_it() -> None:
    picture = draw([("a", run(300, 3))], "gpt.psk", ".png")
    assert size_of(picture) == (round(INCHES[0] * DOTS), round(INCHES[1] * DOTS))
    assert size_of(draw([("a", Run({}, ()))], "gpt.psk", ".png")) == size_of(picture)
    assert len(picture) > 1.5 * len(draw([("a", Run({}, ()))], "gpt.psk", ".png"))


def test_a_long_run_is_drawn() -> None:
    found = run(150_000)
    noisy = Run({}, tuple(Step(s.step, 0, math.sin(s.step * s.step), s.rate, 1.0, 0.1, 1) for s in found.steps))
    assert size_of(draw([("a", noisy)], "", ".png"))


def test_a_loss_that_is_no_number_is_a_gap() -> None:
    steps = [Step(n, 0, 1.0 / n, 1e-3, 1.0, 0.1, 64) for n in range(1, 10)]
    steps[4] = Step(5, 0, math.inf, 1e-3, math.nan, 0.1, 64)
    steps[8] = Step(9, 0, math.nan, 1e-3, math.nan, 0.1, 64)
    pieces = curve(tree(draw([("a", Run({}, tuple(steps)))], "", ".svg")), "loss-0")
    assert [len(piece) for piece in pieces] == [4, 3]
    nothing = Run({}, (steps[8],))
    assert curve(tree(draw([("a", nothing)], "", ".svg")), "loss-0") in ([], [[]])


def test_titles_are_text() -> None:
    title = r"a $x_1$ \frac & <b> -- θ 漢 _ %"
    picture = draw([("$x$", run(10)), ("b", run(5))], title, ".svg")
    texts = comments(picture)
    # The font has no Chinese letters, and an XML comment no two dashes.
    assert any(text.startswith(r"a $x_1$ \frac ") and "θ \ufffd _ %" in text for text in texts)
    assert "$x$: loss of a step" in texts
    tree(picture)


def test_moving_means() -> None:
    losses = np.array([4.0, 2.0, 6.0, 0.0, 1.0])
    assert moving_mean(losses, 1).tolist() == [4, 2, 6, 0, 1]
    assert moving_mean(losses, 2).tolist() == [4, 3, 4, 3, 0.5]
    assert moving_mean(losses, 3).tolist() == [4, 3, 4, 8 / 3, 7 / 3]
    assert moving_mean(losses, 9).tolist() == [4, 3, 4, 3, 2.6]
    assert moving_mean(np.array([1.0, math.nan, 3.0, 5.0]), 2).tolist()[-1] == 4
    assert moving_mean(np.array([]), 3).tolist() == []
    assert [window_of(steps) for steps in (0, 99, 100, 2000, 10**6)] == [1, 1, 2, 40, 200]


def test_a_picture_of_a_log_is_written(tmp_path: Path) -> None:
    with Log.create(tmp_path / "run.jsonl", "run.jsonl", {}) as log:
        for step in run(120).steps:
            log.step(step)
    found = read_log(tmp_path / "run.jsonl", "run.jsonl")
    target = tmp_path / "curve.SVG"
    target.write_text("an older picture", "utf-8")
    plot(target, "curve.SVG", [("a", found)], "gpt.psk")
    assert target.read_bytes() == draw([("a", run(120))], "gpt.psk", ".svg")
    plot(tmp_path / "curve.png", "curve.png", [("a", found)], "gpt.psk")
    assert size_of((tmp_path / "curve.png").read_bytes())
    assert sorted(os.listdir(tmp_path)) == ["curve.SVG", "curve.png", "run.jsonl"]


@pytest.mark.parametrize("name", ["curve", "curve.pdf", ".svg", "svg", "curve.svg.gz", ""])
def test_forms_that_there_are_not(tmp_path: Path, name: str) -> None:
    with refused("E9003", "is no picture that can be drawn") as caught:
        form_of(name)
    assert caught.value.mend == "give a name in .png or .svg"
    with refused("E9003", "is no picture that can be drawn"):
        plot(tmp_path / name, name, [("a", run(3))], "")
    assert os.listdir(tmp_path) == []


def test_where_no_picture_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "folder.svg").mkdir()
    os.mkfifo(tmp_path / "pipe.png")
    for name, why in (
        ("folder.svg", "it is a folder"),
        ("pipe.png", "it is a pipe or a device"),
        ("missing/curve.svg", "no such file or directory"),
        ("nul\0.svg", "its name is not a file name"),
    ):
        with refused("E9002", f"cannot be written: {why}$"):
            plot(tmp_path / name, name, [("a", run(3))], "")
    assert sorted(os.listdir(tmp_path)) == ["folder.svg", "pipe.png"]
