"""The drawing of a curve, by matplotlib (decision 0024). This module is heavy: it is imported by who draws, see `presk.train.plot`.

There is a figure and a canvas for each picture, and no state of `pyplot`, no window, no settings of the user's. One input gives one
picture to the byte, with the same release of matplotlib: names inside an SVG come from a fixed salt, and no date is written.
"""

import io
import logging
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any, Final

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from presk.train.log import Run

# Where it lists the system's fonts for the first time, it says so; whoever asked for a picture need not know.
logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)

INCHES: Final = (8.0, 5.6)
DOTS: Final = 120
"""Dots per inch of a PNG."""

# Okabe and Ito's colours, which people tell apart who see red and green as one; the first two serve a single run.
_COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKS: Final = ("o", "s", "^", "D", "v", "P", "X")
_DASHES: Final = ("-", "--", "-.", ":")
_SETTINGS: Final = MappingProxyType(
    {
        "agg.path.chunksize": 20000,  # long curves in pieces: Agg has a limit
        "axes.grid": True,
        "axes.spines.right": False,
        "axes.spines.top": False,
        "font.family": ["DejaVu Sans"],  # it comes with matplotlib
        "font.size": 10.0,
        "grid.alpha": 0.3,
        "grid.linewidth": 0.6,
        "legend.edgecolor": "none",
        "legend.fancybox": False,
        "svg.fonttype": "path",  # letters look the same where that font is missing
        "svg.hashsalt": "presk",
    }
)


def window_of(steps: int) -> int:
    """Steps of the moving mean: about a fiftieth of the run."""
    return max(1, min(200, steps // 50))


def moving_mean(losses: NDArray[np.float64], window: int) -> NDArray[np.float64]:
    """For each step the mean of the `window` losses up to it, or of all where there are fewer. NaN in, NaN out for that window."""
    result = np.empty_like(losses)
    head = min(window, len(losses))
    # One by one where the window is not full, as windows where it is: sums over all would lose digits, and spread a NaN.
    for end in range(1, head):
        result[end - 1] = losses[:end].mean()
    if head:
        result[head - 1 :] = np.lib.stride_tricks.sliding_window_view(losses, head).mean(axis=-1)
    return result


def draw(runs: Sequence[tuple[str, Run]], title: str, form: str) -> bytes:
    """The picture of one or more runs, each with its name; `form` is `.png` or `.svg`. A loss that is no number is a gap."""
    # A line of an SVG keeps all its points; dots are simplified to what can be seen.
    settings: dict[Any, Any] = {**matplotlib.rcParamsDefault, **_SETTINGS, "path.simplify": form == ".png"}
    for name in ("backend", "backend_fallback"):  # the process's, which no picture needs
        settings.pop(name, None)
    out = io.BytesIO()
    with matplotlib.rc_context(settings):
        letters = get_font(findfont(FontProperties(family="DejaVu Sans"))).get_charmap()

        def text(given: str) -> str:
            # A letter that the font lacks is the sign for one: matplotlib would draw a box, and complain.
            return "".join(letter if ord(letter) in letters else "\ufffd" for letter in given)

        figure = Figure(figsize=INCHES, dpi=DOTS, layout="constrained")
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(4, 1))
        for place, (name, run) in enumerate(runs):
            # A label that begins with `_` would not be in the legend.
            prefix = f"{text(name)}: ".replace("_", " _", int(name.startswith("_")))
            _losses(upper, place, "" if len(runs) == 1 else prefix, run)
            lower.plot(
                [step.step for step in run.steps],
                [step.rate for step in run.steps],
                color=_COLOURS[place % len(_COLOURS)],
                linestyle=_DASHES[place % len(_DASHES)],
                linewidth=1.2,
                gid=f"rate-{place}",
            )
        upper.set_title(text(title), parse_math=False)
        upper.set_ylabel("loss")
        lower.set_ylabel("learning rate", fontsize="small")
        lower.set_xlabel("step")
        lower.set_ylim(bottom=0)
        lower.ticklabel_format(axis="y", scilimits=(-2, 4))
        lower.xaxis.set_major_locator(MaxNLocator(integer=True))
        if any(run.steps or run.evaluations for _, run in runs):
            # Losses fall, so this corner is free; the best place would be searched for, in all points.
            legend = upper.legend(loc="upper right", fontsize="medium" if len(runs) <= 3 else "x-small")
            for entry in legend.get_texts():
                entry.set_parse_math(False)
        figure.align_ylabels()
        # The canvas is made here: without one the figure would look for the user's.
        canvas = (FigureCanvasAgg if form == ".png" else FigureCanvasSVG)(figure)
        unsaid = ("Software",) if form == ".png" else ("Date", "Creator")
        canvas.print_figure(out, format=form[1:], metadata=dict.fromkeys(unsaid))
    return out.getvalue()


def _losses(axes: Axes, place: int, prefix: str, run: Run) -> None:
    """The curves of one run's losses. `place` gives colour and marks; a single run has the second colour for its evaluations."""
    colour = _COLOURS[place % len(_COLOURS)]
    steps = np.array([step.step for step in run.steps], dtype=np.int64)
    losses = np.array([step.loss for step in run.steps], dtype=np.float64)
    losses[~np.isfinite(losses)] = np.nan
    window = window_of(len(losses))
    if len(losses):
        axes.plot(
            steps,
            losses,
            color=colour,
            linewidth=0.8,
            alpha=0.35 if window > 1 else 1.0,
            # One point makes no line.
            marker="." if len(losses) == 1 else "",
            # Among several runs the mean stands for both.
            label="_loss" if prefix and window > 1 else f"{prefix}loss of a step",
            gid=f"loss-{place}",
        )
    if window > 1:
        axes.plot(
            steps,
            moving_mean(losses, window),
            color=colour,
            linestyle=_DASHES[place % len(_DASHES)],
            linewidth=2.0,
            label=f"{prefix}mean of {window} steps",
            gid=f"mean-{place}",
        )
    if run.evaluations:
        axes.plot(
            [one.step for one in run.evaluations],
            [one.loss for one in run.evaluations],
            color=colour if prefix else _COLOURS[1],
            marker=_MARKS[place % len(_MARKS)],
            markersize=5,
            markeredgecolor="white",
            linestyle=":",
            linewidth=1.2,
            label=f"{prefix}loss on evaluation data",
            gid=f"evaluation-{place}",
        )
