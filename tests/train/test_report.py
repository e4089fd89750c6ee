"""What a run says: lines where nobody watches, a line in place on a terminal, within its width and not too often."""

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wcwidth import wcswidth

from presk.train.report import Evaluation, Reporter, Start, Step, bar, duration, loss_text, norm_text, spacing


def step(number: int, seconds: float = 0.2, tokens: int = 1024, **others: Any) -> Step:
    """A step whose loss falls by 0.01."""
    values: dict[str, Any] = {"epoch": 0, "loss": 5 - number / 100, "rate": 1e-3, "norm": 0.512}
    return Step(step=number, seconds=seconds, tokens=tokens, **{**values, **others})


def plain(total: int, first: int = 1) -> tuple[list[str], Reporter]:
    """What is written where there is no terminal, and the reporter, started."""
    written: list[str] = []
    reporter = Reporter(written.append)
    reporter.start(Start("gpt.psk", total, first))
    return written, reporter


class Screen:
    """A terminal: what it shows, how far any line went, how often a line was rewritten."""

    def __init__(self) -> None:
        self.lines = [""]
        self.widest = 0
        self.rewritten = 0
        self._at = 0

    def write(self, text: str) -> None:
        for letter in text:
            if letter == "\n":
                self.lines[-1] = self.lines[-1].rstrip()
                self.lines.append("")
                self._at = 0
            elif letter == "\r":
                self._at = 0
            else:
                line = self.lines[-1]
                self.lines[-1] = line[: self._at] + letter + line[self._at + 1 :]
                self._at += 1
                self.widest = max(self.widest, wcswidth(self.lines[-1]))
        self.rewritten += not text.endswith("\n")


def watched(columns: int, now: Callable[[], float] = lambda: 0.0) -> tuple[Screen, Reporter]:
    screen = Screen()
    return screen, Reporter(screen.write, terminal=True, columns=columns, now=now)


def test_lines_where_nobody_watches() -> None:
    written: list[str] = []
    reporter = Reporter(written.append)
    reporter.start(Start("gpt.psk", 100, tokens=1024, launches=884, threads=2, facts=("25,600 parameters",)))
    reporter.step(step(1, seconds=3.0))
    for number in range(2, 11):
        reporter.step(step(number))
    reporter.evaluation(Evaluation(10, 4.875, 20, 0.0))
    reporter.checkpoint(10, "runs/step-000010.safetensors")
    for number in range(11, 101):
        reporter.step(step(number))
    reporter.end()
    lines = "".join(written).splitlines()
    assert lines[:6] == [
        "train gpt.psk  100 steps  1,024 tokens/step  884 launches/step  2 threads  25,600 parameters",
        # The first step loads: what is left cannot be told from it.
        "step   1/100  loss 4.9900  lr 1.00e-03  norm 0.512",
        # The mean of steps 2 to 5; 95 steps of a fifth of a second are left.
        "step   5/100  loss 4.9500  mean of 4: 4.9650  lr 1.00e-03  norm 0.512  5,120 tokens/s  remaining 19 s",
        "step  10/100  loss 4.9000  mean of 5: 4.9200  lr 1.00e-03  norm 0.512  5,120 tokens/s  remaining 18 s",
        "evaluation  step  10/100  loss 4.8750  20 batches  0.00 s",
        "checkpoint  step  10/100  runs/step-000010.safetensors",
    ]
    # Every fifth step from here on, and nothing is left after the last. 3 s and 99 fifths of a second are 22.8 s.
    assert len(lines) == 6 + 18 + 1
    assert lines[-2:] == [
        "step 100/100  loss 4.0000  mean of 5: 4.0200  lr 1.00e-03  norm 0.512  5,120 tokens/s",
        "done  100 steps  23 s  loss 4.9900 to 4.0000  5,120 tokens/s in all",
    ]


def test_a_resumed_run_says_where_it_begins() -> None:
    written, reporter = plain(total=400, first=121)
    for number in range(121, 131):
        reporter.step(step(number, tokens=0, seconds=2.0))
    reporter.end("interrupted")
    assert "".join(written).splitlines() == [
        "train gpt.psk  steps 121 to 400",
        "step 121/400  loss 3.7900  lr 1.00e-03  norm 0.512",
        # 270 steps of two seconds; a batch without indices has no tokens.
        "step 130/400  loss 3.7000  mean of 9: 3.7400  lr 1.00e-03  norm 0.512  0.50 steps/s  remaining 9 min 0 s",
        "stopped: interrupted  10 steps  20 s  loss 3.7900 to 3.7000  0.50 steps/s in all",
    ]


def test_a_run_without_steps_or_with_one() -> None:
    written, reporter = plain(total=0)
    reporter.end()
    assert "".join(written).splitlines() == ["train gpt.psk  0 steps", "no step to do"]
    written, reporter = plain(total=1)
    reporter.step(step(1))
    reporter.end()
    assert "".join(written).splitlines() == [
        "train gpt.psk  1 step",
        "step 1/1  loss 4.9900  lr 1.00e-03  norm 0.512",
        "done  1 step  0.20 s  loss 4.9900",
    ]


@pytest.mark.parametrize("total", [20, 40, 41, 100, 399, 400, 401, 2000, 2001, 10_000, 123_457])
def test_a_run_has_twenty_to_fifty_lines_its_first_and_its_last_among_them(total: int) -> None:
    written, reporter = plain(total)
    for number in range(1, total + 1):
        reporter.step(step(number))
    lines = [line for line in "".join(written).splitlines() if line.startswith("step")]
    assert 20 <= len(lines) <= 50
    numbers = [int(line.removeprefix("step").split("/")[0]) for line in lines]
    assert numbers[0] == 1 and numbers[-1] == total
    assert numbers == sorted(set(numbers))


def test_spacings_are_round() -> None:
    assert [spacing(steps) for steps in (0, 1, 40, 41, 80, 81, 200, 201, 400, 401, 2000, 4001)] == [
        *(1, 1, 1, 2, 2, 5, 5, 10, 10, 20, 50, 200),
    ]


def test_the_loss_is_the_steps_own_and_a_mean_is_called_one() -> None:
    written, reporter = plain(total=200)
    losses = [4.0, 1.0, 2.0, 3.0, 8.0]
    for number, loss in enumerate(losses, 1):
        reporter.step(step(number, loss=loss))
    assert "  loss 8.0000  mean of 4: 3.5000  " in written[-1]


def test_a_loss_that_is_no_number_is_said_to_be_none() -> None:
    written, reporter = plain(total=3)
    reporter.step(step(1))
    reporter.step(step(2, loss=math.nan, norm=math.inf))
    assert "  loss nan  lr 1.00e-03  norm inf  " in written[-1]


def test_one_slow_step_does_not_move_what_remains() -> None:
    written, reporter = plain(total=200)
    reporter.step(step(1, seconds=100.0))
    for number in range(2, 101):
        reporter.step(step(number, seconds=60.0 if number == 95 else 0.5))
    assert written[-1].endswith("2,048 tokens/s  remaining 50 s\n")


def test_what_remains_follows_a_change_of_pace() -> None:
    written, reporter = plain(total=200)
    for number in range(1, 101):
        reporter.step(step(number, seconds=0.1 if number < 60 else 1.0))
    assert written[-1].endswith("1,024 tokens/s  remaining 1 min 40 s\n")


def test_evaluations_are_part_of_what_remains() -> None:
    written, reporter = plain(total=200)
    for number in range(1, 101):
        reporter.step(step(number, seconds=0.5))
        if number % 50 == 0:
            reporter.evaluation(Evaluation(number, 4.0, 1, 25.0))
    reporter.step(step(101, seconds=0.5))
    for number in range(102, 106):
        reporter.step(step(number, seconds=0.5))
    # 95 steps are left, of half a second, with half a second of evaluation to each.
    assert written[-1].endswith("remaining 1 min 35 s\n")


def test_a_terminal_shows_one_line_in_place_and_keeps_the_others() -> None:
    clock = iter(range(1000))
    screen, reporter = watched(100, lambda: float(next(clock)))
    reporter.start(Start("gpt.psk", 400))
    for number in range(1, 4):
        reporter.step(step(number))
    assert screen.lines == [
        "train gpt.psk  400 steps",
        "step   1/400  loss 4.9900  lr 1.00e-03  norm 0.512",
        # 397 steps are left; three of 400 are not yet one of eight.
        "[>       ]    3/400  loss 4.9700  lr 1.00e-03  norm 0.512  5,120 tokens/s  1 min 19 s left",
    ]
    reporter.evaluation(Evaluation(3, 4.875, 20, 1.5))
    assert screen.lines[2:] == ["evaluation  step   3/400  loss 4.8750  20 batches  1.5 s", ""]
    for number in range(4, 12):
        reporter.step(step(number))
    assert len(screen.lines) == 5
    assert screen.lines[3] == "step  10/400  loss 4.9000  mean of 9: 4.9400  lr 1.00e-03  norm 0.512  5,120 tokens/s"
    assert screen.lines[4].startswith("[>       ]   11/400  loss 4.8900  ")
    reporter.close()
    assert screen.lines[5:] == [""]
    reporter.close()  # there is nothing to leave
    assert screen.lines[5:] == [""]
    reporter.end("out of memory")
    assert screen.lines[5].startswith("stopped: out of memory  11 steps  ")


def test_the_line_in_place_is_rewritten_ten_times_a_second_at_most() -> None:
    now = [0.0]
    screen, reporter = watched(100, lambda: now[0])
    reporter.start(Start("gpt.psk", 1_000_000))
    for number in range(1, 1001):
        now[0] += 0.01
        reporter.step(step(number, seconds=0.01))
    assert 90 <= screen.rewritten <= 100


def test_elsewhere_the_clock_is_not_asked_and_nothing_is_rewritten() -> None:
    def now() -> float:
        raise AssertionError("asked for the time")

    written: list[str] = []
    reporter = Reporter(written.append, now=now)
    reporter.start(Start("gpt.psk", 400))
    for number in range(1, 401):
        reporter.step(step(number))
    reporter.close()
    assert all(text.endswith("\n") and "\r" not in text and "\x1b" not in text for text in written)


@given(
    st.integers(40, 200),
    st.integers(1, 10**7),
    st.floats(1e-4, 1e4),
    st.floats(1e-6, 1e6),
    st.floats(1e-8, 1e8),
    st.sampled_from(("gpt.psk", "模型/训练.psk", "modèle θ.psk")),
)
def test_no_line_is_wider_than_the_terminal(
    columns: int, total: int, seconds: float, loss: float, norm: float, name: str
) -> None:
    now = iter(range(10_000))
    screen, reporter = watched(columns, lambda: float(next(now)))
    reporter.start(Start(name, total, 1, 65536, 12345, 64, ("123,456,789 parameters", "resumed at step 5")))
    for number in range(1, min(total, 30) + 1):
        reporter.step(step(number, seconds=seconds, loss=loss, norm=norm))
        if number % 7 == 0:
            reporter.evaluation(Evaluation(number, loss, 1000, seconds))
    reporter.step(step(total, seconds=seconds, loss=loss, norm=norm))
    reporter.end()
    assert screen.widest < columns
    # The figures that matter most are on every line.
    shown = [line for line in screen.lines if line.startswith("step")]
    assert shown and all(f"/{total}  loss {loss_text(loss)}" in line for line in shown)


def test_what_is_left_out_first_on_a_narrow_terminal() -> None:
    shown = {}
    for columns in (40, 60, 80, 120):
        screen, reporter = watched(columns)
        reporter.start(Start("gpt.psk", 200))
        for number in range(1, 5):
            reporter.step(step(number))
        reporter.step(step(5))
        shown[columns] = screen.lines[-2]
    assert shown == {
        40: "step   5/200  loss 4.9500  lr 1.00e-03",
        60: "step   5/200  loss 4.9500  mean of 4: 4.9650  lr 1.00e-03",
        80: "step   5/200  loss 4.9500  mean of 4: 4.9650  lr 1.00e-03  norm 0.512",
        120: "step   5/200  loss 4.9500  mean of 4: 4.9650  lr 1.00e-03  norm 0.512  5,120 tokens/s  remaining 39 s",
    }


def test_a_path_cannot_move_the_cursor_and_is_never_shortened() -> None:
    screen, reporter = watched(40)
    reporter.start(Start("\x1b[2Jgpt.psk", 10))
    path = f"{'long/' * 20}step\r\n.safetensors"
    reporter.checkpoint(1, path)
    assert screen.lines == [
        "train ␛[2Jgpt.psk  10 steps",
        f"checkpoint  step  1/10  {'long/' * 20}step␍␊.safetensors",
        "",
    ]


def test_bars_are_full_at_the_end_only() -> None:
    assert [bar(done, 4, 10) for done in range(5)] == [
        "[>       ]",
        "[==>     ]",
        "[====>   ]",
        "[======> ]",
        "[========]",
    ]
    assert bar(999_999, 1_000_000, 10) == "[=======>]"
    assert bar(0, 0, 10) == "[>       ]"


def test_durations() -> None:
    shown = {0: "0.00 s", 0.42: "0.42 s", 0.999: "1.0 s", 4.24: "4.2 s", 9.96: "10 s", 59.4: "59 s", 59.6: "1 min 0 s"}
    shown |= {80: "1 min 20 s", 3599.7: "1 h 0 min", 7500: "2 h 5 min", 86399: "1 d 0 h", 273600: "3 d 4 h"}
    assert {seconds: duration(seconds) for seconds in shown} == shown


def test_figures() -> None:
    assert [loss_text(x) for x in (2.43119, 0.0, 0.00123456, 1234.5, 3e7, -0.5, math.nan, math.inf)] == [
        *("2.4312", "0.0000", "1.235e-03", "1234.5000", "3.000e+07", "-0.5000", "nan", "inf"),
    ]
    assert [norm_text(x) for x in (0.5123, 0.00123, 12.34, 512.4, 999.9, 1200, 1e-5, 0, math.nan)] == [
        *("0.512", "0.00123", "12.3", "512", "1.00e+03", "1.20e+03", "1.00e-05", "0", "nan"),
    ]
