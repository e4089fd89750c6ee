"""The terminal form, case by case: each golden file is the whole output for one situation."""

from collections.abc import Callable
from typing import Final

import pytest

from presk.diagnostics.render_text import TextOptions, render_text, summary, wants_color
from presk.diagnostics.value import Diagnostic, Label, Place
from tests.diagnostics.support import CharacterSources, label

LINEAR: Final = """\
module Linear{In Out : dim} {
  param w : ℝ[In, Out]  init = xavier_uniform
  param b : ℝ[Out]      init = zeros

  fn apply(x : ℝ[..., In]) -> ℝ[..., Out] =
    x · w + b
}
"""
MODEL: Final = """\
import "linear.psk" as ff
dim B
const D = 768

-- two layers
module MLP {
  use l1, l2 : ff.Linear{D, 4*D}
  fn apply(x : ℝ[batch: B, model: D]) -> ℝ[batch: B, model: D] =
    l2.apply(gelu(l1.apply(x)))
}

fn loss(
  net : MLP,
  θ   : params net,
  x   : ℝ[batch: B, model: D],
  y   : ℝ[batch: B, model: D]
) -> ℝ[] =
  let ŷ = net.apply(θ, x)
  mean((ŷ - y)^2)
"""
FILES: Final = {"nlp/mlp.psk": MODEL, "nlp/linear.psk": LINEAR}


def at(part: str, text: str = "", *, file: str = "nlp/mlp.psk", nth: int = 1, until: str = "") -> Label:
    return label(FILES, file, part, text, nth=nth, until=until)


def one(primary: Label, *labels: Label, code: str = "E2003", message: str = "the message") -> Diagnostic:
    return Diagnostic(code, message, primary, labels)


def text(*diagnostics: Diagnostic, color: bool = False, width: int = 140) -> str:
    return render_text(diagnostics, CharacterSources(FILES), TextOptions(color=color, width=width))


CASES: Final[dict[str, tuple[Diagnostic, ...]]] = {
    "one_label": (one(at("4*D", "`4*D` is 3072")),),
    "no_label_text": (one(at("4*D")),),
    "labels_of_one_line": (
        # Disjoint, nested with one end, nested with one beginning, and one of the same place.
        one(at("gelu(l1", "is not defined here"), at("x)))", "an argument"), at("l2.apply", "a call")),
        one(at("l1.apply(x)", "inner"), at("gelu(l1.apply(x)", "outer"), at("l2.apply(gelu(l1.apply(x)))", "the body")),
        one(at("l2", "the member", nth=2), at("l2.apply", "the function"), at("l2.apply(gelu", "up to here")),
        one(at("4*D", "first"), at("4*D", "second")),
    ),
    "labels_that_share_a_row": (one(at("use", "a"), at("l1", "b"), at("l2", "a longer text"), at("ff", "c", nth=2)),),
    "labels_of_several_lines": (
        one(at("gelu", "used here"), at("const D = 768", "declared here")),
        one(at("use l1", "near"), at("fn apply", "next line"), at("import", "far")),
        one(at("const D", "one line between is shown"), at("-- two", "")),
    ),
    "place_of_several_lines": (
        one(at("module MLP", "the module", until="\n}")),
        one(at("fn loss", "a long place is shown in part", until="^2)")),
        one(at("apply(x : ", "begins inside of its line", until="gelu")),
        one(at("MLP,", "with labels inside", until="x)"), at("params net", "here"), at("x   :", "there")),
    ),
    "places_that_overlap": (
        one(at("fn loss", "outer", until="ℝ[] ="), at("net : MLP", "inner", until="params net")),
        one(at("net : MLP", "one", until="x   :"), at("θ   :", "other", until="y   :")),
        one(at("(\n", "both begin on a line", until=") ->"), at("fn loss(\n", "and end on one", until=") -> ℝ[]")),
        one(at("net : MLP", "first", until="θ"), at("params net", "begins where one ends", until="x   ")),
    ),
    "other_files": (
        one(
            at("l2.apply(gelu(l1.apply(x)))", "this is `ℝ[batch: B, 3072]`"),
            at("ℝ[..., In]", "the parameter", file="nlp/linear.psk"),
            at("D, 4*D", "Out is 3072"),
            at("ℝ[Out]", "its other parameter", file="nlp/linear.psk"),
        ),
    ),
    "notes_and_mend": (
        Diagnostic(
            "E1004",
            "static assertion fails",
            at("D", "D is 768", nth=1),
            notes=("a first note", "expected `ℝ[batch: B]`\n   found `ℝ[batch: B, model: D]`"),
            mend="state the bound:\ndim T <= 1024",
        ),
        Diagnostic("W0001", "only a mend", at("B"), mend="declare it"),
    ),
    "empty_places": (
        one(Label(Place(0, 0, file="nlp/mlp.psk"), "at the beginning")),
        one(Label(Place(MODEL.index("\n"), MODEL.index("\n"), file="nlp/mlp.psk"), "at the end of a line")),
        one(Label(Place(len(MODEL), len(MODEL), file="nlp/mlp.psk"), "at the end of the file")),
        one(Label(Place(MODEL.index("dim"), MODEL.index("const"), file="nlp/mlp.psk"), "with its line end")),
    ),
    "no_text": (
        Diagnostic("E9002", "no such file: `gone.psk`", Label(Place(0, -1, file="gone.psk")), mend="correct the path"),
        Diagnostic("E9001", "internal error", Label(Place(0, -1)), notes=("please report it",)),
        one(at("import", "imported here"), Label(Place(0, -1, file="gone.psk"), "not found"), code="E1002"),
    ),
    "a_discontinuous_gradient": (
        Diagnostic(
            "E2018",
            "cannot differentiate through `argmax`: the function is discontinuous (Disc) in `l`",
            at("gelu", "`argmax` makes the result discontinuous in `l`"),
            (at("net.apply(θ, x)", "`grad` here, with respect to `l`"),),
            mend="use `softmax` for a smooth surrogate, or an explicit straight-through relaxation",
        ),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_whole_output(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"diagnostics/{name}.txt", text(*CASES[name]))


def test_colors(golden: Callable[[str, str], None]) -> None:
    shown = text(
        *CASES["labels_of_one_line"][:1],
        *CASES["place_of_several_lines"][:1],
        *CASES["other_files"],
        *CASES["notes_and_mend"],
        color=True,
    )
    golden("diagnostics/colors.txt", shown + summary(CASES["notes_and_mend"], color=True))


def test_colors_add_nothing_but_sequences() -> None:
    everything = [diagnostic for case in CASES.values() for diagnostic in case]
    colored = text(*everything, color=True)
    for sequence in ("0", "1", "1;31", "1;33", "1;34", "1;36"):
        assert f"\x1b[{sequence}m" in colored
        colored = colored.replace(f"\x1b[{sequence}m", "")
    assert colored == text(*everything)


STRANGE: Final = {
    "tabs": "\tlet\tx = y\t-- z\n",
    "wide": "-- 漢字 x 한국어 y ｆｕｌｌ z\n",
    "combining": "x̂ + y\u0301\u0302z + \u0301 lone, e\u0301nd\n",
    "hangul": "\u1112\u1161\u11ab x\n",
    "joined": "a\u200db + 👩\u200d🔬 + ❤\ufe0f + 👍🏽 + 🇩🇪 x\n",
    "unseen": "a\u00a0b\u2028c\u202edcba\u202c\u3164\ue000 x\n",
    "control": "a\x00b\x1b[31mred\x1b[0m\x07\x7f\x85\x9b31m\r x\n",
    "crlf": "a + b\r\nc + x\r\n",
}


@pytest.mark.parametrize("name", STRANGE)
def test_strange_characters(name: str, golden: Callable[[str, str], None]) -> None:
    """The last x, y, z and b of each text are marked."""
    source = STRANGE[name]
    marks = [source.rindex(letter) for letter in "xyzb" if letter in source]
    first, *others = (Label(Place(index, index + 1, file=name), f"`{source[index]}`") for index in marks)
    shown = render_text(
        [Diagnostic("E0002", f"in the message: {source.strip()}", first, tuple(others))],
        CharacterSources(STRANGE),
        TextOptions(),
    )
    golden(f"diagnostics/strange_{name}.txt", shown)


def test_a_file_name_cannot_reach_the_terminal() -> None:
    name = "a\x1b]0;title\x07\nb\udc80.psk"
    shown = render_text(
        [Diagnostic("E9002", f"no file {name}", Label(Place(0, -1, file=name)))], CharacterSources({}), TextOptions()
    )
    assert shown == ("error[E9002]: no file a␛]0;title␇ b<U+DC80>.psk\n --> a␛]0;title␇ b<U+DC80>.psk\n\n")


LONG: Final = {
    "a.psk": "fn f = " + "aaa + " * 60 + "bbb + " + "ccc + " * 60 + "ddd * " + "e" * 400 + " end\n",
    "wide.psk": "漢" * 300 + "x" + "漢" * 300 + "\n",
    "codes.psk": "\u200d" * 300 + "x" + "\u200d" * 300 + "\n",
    "marks.psk": "a" + "\u0301" * 500 + "x\n",
}


def long(file: str, part: str, said: str = "this", until: str = "") -> Label:
    return label(LONG, file, part, said, until=until)


def test_long_lines(golden: Callable[[str, str], None]) -> None:
    shown = render_text(
        [
            one(long("a.psk", "fn", "at the beginning")),
            one(long("a.psk", "bbb", "in the middle")),
            one(long("a.psk", "end", "at the end")),
            one(long("a.psk", "bbb"), long("a.psk", "ddd", "that")),
            one(long("a.psk", "e" * 400, "a long place"), long("a.psk", "bbb"), long("a.psk", "fn", "far away")),
            one(long("wide.psk", "x")),
            one(long("codes.psk", "x")),
            one(long("marks.psk", "x")),
        ],
        CharacterSources(LONG),
        TextOptions(width=80),
    )
    golden("diagnostics/long_lines.txt", shown)


def test_megabytes_on_one_line() -> None:
    """A line is not laid out as a whole: the output is short, and the text is read once."""
    source = "\x00" * 2_000_000 + "(" * 2_000_000 + "漢" * 1_000_000
    sources = CharacterSources({"a": source})
    marks = [
        Label(Place(0, len(source), file="a"), "all"),
        Label(Place(2_000_000, 2_000_001, file="a"), "one"),
        Label(Place(len(source), len(source), file="a"), "end"),
    ]
    diagnostics = [Diagnostic("E0002", source, mark) for mark in marks]
    shown = render_text(diagnostics, sources, TextOptions(width=100))
    assert sources.read == ["a"]
    assert max(map(len, shown.split("\n"))) < 2_200  # the message, cut
    assert len(shown) < 9_000
    assert [line.split()[-1] for line in shown.split("\n") if "^" in line] == ["all", "one", "end"]


def test_several_diagnostics_are_separated_by_empty_lines() -> None:
    once = text(CASES["one_label"][0])
    assert text(CASES["one_label"][0], CASES["one_label"][0]) == once + once
    assert once.endswith("\n\n")
    assert not once.endswith("\n\n\n")
    assert text() == ""


@pytest.mark.parametrize(
    "codes, expected",
    [
        ((), ""),
        (("E2003",), "1 error\n`presk explain E2003` says more\n"),
        (("E2003", "E2003"), "2 errors\n`presk explain E2003` says more\n"),
        (("W0001",), "1 warning\n`presk explain W0001` says more\n"),
        (
            ("W0001", "E2003", "W0002", "E1001"),
            "2 errors, 2 warnings\n`presk explain CODE` says more about E1001, E2003, W0001, W0002\n",
        ),
        (
            tuple(f"E10{number:02}" for number in range(1, 11)),
            "10 errors\n`presk explain CODE` says more about "
            "E1001, E1002, E1003, E1004, E1005, E1006, E1007, E1008, …\n",
        ),
    ],
)
def test_summary(codes: tuple[str, ...], expected: str) -> None:
    assert summary(one(at("B"), code=code) for code in codes) == expected


@pytest.mark.parametrize(
    "env, terminal, expected",
    [
        ({}, True, True),
        ({}, False, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": "0"}, True, False),
        ({"NO_COLOR": ""}, True, True),
        ({"TERM": "dumb"}, True, False),
        ({"TERM": "xterm"}, True, True),
    ],
)
def test_when_to_use_colors(env: dict[str, str], terminal: bool, expected: bool) -> None:
    assert wants_color(env, terminal=terminal) is expected
