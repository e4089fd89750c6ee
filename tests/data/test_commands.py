"""`presk data …`, as transcripts and as JSON."""

import json
import os
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from presk.data.writing import write_samples
from tests.cli.console import Console
from tests.conftest import Golden
from tests.data.support import container, sample_of, stream_file

TEXT: Final = 'the "cat"\nsat on\tthe mat\n'


@pytest.fixture
def console(tmp_path: Path) -> Console:
    made = Console(tmp_path)
    made.write("cat.txt", TEXT)
    made.write("dog.txt", "the dog sat on the cat\n")
    made.write("words.json", json.dumps(["the ", "at", "\n", "\t", *'"catsonm ']))
    return made


def test_packing_and_looking(console: Console, golden: Golden) -> None:
    console.presk("data", "pack", "cat.txt", "--window", "8", "--out", "cat.psk.d")
    console.presk("data", "info", "cat.psk.d")
    console.presk("data", "show", "cat.psk.d")
    console.presk("data", "show", "cat.psk.d", "--sample", "3")
    console.presk("data", "show", "cat.psk.d", "--sample", "15", "--json")
    console.presk("data", "info", "cat.psk.d", "--json")
    console.presk(
        "data", "pack", "cat.txt", "--window", "6", "--stride", "6", "--no-pairs", "--out", "apart.psk.d", "--json"
    )
    console.presk("data", "pack", "cat.txt", "--window", "4", "--vocab", "bytes", "--out", "bytes.psk.d")
    console.presk("data", "show", "bytes.psk.d", "--sample", "7")
    console.presk("data", "pack", "cat.txt", "--window", "4", "--vocab", "words.json", "--out", "words.psk.d")
    console.presk("data", "show", "words.psk.d", "--sample", "7")
    console.presk("data", "pack", "cat.txt", "--window", "3", "--vocab", "words.psk.d", "--out", "again.psk.d")
    golden("cli/data.txt", console.transcript)


def test_data_files_that_are_refused(console: Console, golden: Golden) -> None:
    stream_file(console.folder / "wrong.psk.d", bytes([1, 2, 3, 4, 5, 6, 70, 8, 9, 10]))
    stream_file(console.folder / "mute.psk.d", bytes(10))
    stream_file(console.folder / "none.psk.d", bytes(3), count=0)
    console.write("foreign.psk.d", TEXT)
    console.write("cut.psk.d", (console.folder / "wrong.psk.d").read_bytes()[:-1])
    console.write("tail.psk.d", (console.folder / "wrong.psk.d").read_bytes() + b"\0")
    console.write("ansi.psk.d", container({"\x1b[31m": {}}, b""))
    for name in ("foreign", "cut", "tail", "ansi", "wrong"):
        assert console.presk("data", "info", f"{name}.psk.d").code == 4
    assert console.presk("data", "info", "mute.psk.d", "--json").code == 0
    assert console.presk("data", "show", "wrong.psk.d", "--sample", "1").code == 0
    assert console.presk("data", "show", "wrong.psk.d", "--sample", "2").code == 4
    for more in ("6", "-1", "x"):
        assert console.presk("data", "show", "wrong.psk.d", "--sample", more).code == 2
    assert console.presk("data", "show", "none.psk.d").code == 2
    for name in ("gone.psk.d", "", "."):
        assert console.presk("data", "info", name).code == 2
    golden("cli/data_refused.txt", console.transcript.replace("\x1b", "␛"))


def test_texts_that_are_refused(console: Console, golden: Golden) -> None:
    console.write("latin.txt", "caf\u00e9".encode("latin-1"))
    console.write("empty.txt", "")
    console.write("twice.json", '["a", "a"]')
    stream_file(console.folder / "mute.psk.d", bytes(10))
    console.write("kept.psk.d", "kept")
    for text, *more in (
        ("latin.txt",),
        ("empty.txt",),
        ("cat.txt", "--window", "30"),
        ("dog.txt", "--vocab", "words.json"),
        ("cat.txt", "--vocab", "twice.json"),
        ("cat.txt", "--vocab", "cat.txt"),
        ("cat.txt", "--vocab", "mute.psk.d"),
        ("cat.txt", "--vocab", "kept.psk.d"),
    ):
        ran = console.presk(
            "data", "pack", text, "--out", "kept.psk.d", *(() if "--window" in more else ("--window", "2")), *more
        )
        assert ran.code == 4
    assert (console.folder / "kept.psk.d").read_text() == "kept"
    for line in (
        ("gone.txt", "--window", "2", "--out", "a.psk.d"),
        ("cat.txt", "--window", "2", "--out", "no/where.psk.d"),
        ("cat.txt", "--window", "2", "--out", "."),
        ("cat.txt", "--window", "2", "--out", "a\0b"),
        ("cat.txt", "--window", "2", "--out", "a.psk.d", "--vocab", "gone.json"),
        ("cat.txt", "--window", "0", "--out", "a.psk.d"),
        ("cat.txt", "--window", "2", "--stride", "0", "--out", "a.psk.d"),
        ("cat.txt", "--window", str(10**30), "--out", "a.psk.d"),
        ("cat.txt", "--out", "a.psk.d"),
        ("cat.txt", "--window", "2"),
    ):
        assert console.presk("data", "pack", *line).code == 2
    assert not (console.folder / "a.psk.d").exists()
    golden("cli/data_texts_refused.txt", console.transcript.replace("\0", "␀"))


def test_the_help(console: Console, golden: Golden) -> None:
    console.presk("data")
    for command in ("pack", "info", "show"):
        console.presk("data", command, "--help")
    golden("cli/data_help.txt", console.transcript)


def test_json_is_one_object(console: Console) -> None:
    packed = console.presk("data", "pack", "cat.txt", "--window", "8", "--out", "cat.psk.d", "--json")
    assert packed.err == ""
    assert packed.out == console.presk("data", "info", "cat.psk.d", "--json").out
    info = json.loads(packed.out)
    assert info["sample"] == "(idx[13][seq: 8], idx[13][seq: 8])"
    assert info["window"] == {"length": 9, "stride": 1, "tokens": len(TEXT)}
    assert info["count"] == len(TEXT) - 8
    assert info["vocabulary"] == {"kind": "texts", "size": 13, "tokens": sorted(set(TEXT))}
    for number in (0, info["count"] - 1):
        shown = json.loads(console.presk("data", "show", "cat.psk.d", "--sample", str(number), "--json").out)
        assert shown["sample"] == number
        assert shown["text"] == [TEXT[number : number + 8], TEXT[number + 1 : number + 9]]
        assert [one["data"] for one in shown["value"]] == [
            [sorted(set(TEXT)).index(one) for one in text] for text in shown["text"]
        ]


def test_a_sample_is_an_input(console: Console) -> None:
    """What `show` prints as a value is what `presk run` takes."""
    console.presk("data", "pack", "cat.txt", "--window", "3", "--out", "cat.psk.d")
    value = json.loads(console.presk("data", "show", "cat.psk.d", "--json").out)["value"]
    console.write("x.json", json.dumps(value))
    console.write("f.psk", "fn f(w : (idx[13][seq: 3], idx[13][seq: 3])) -> ℝ[seq: 3] =\n  let (x, y) = w\n  real(y)\n")
    ran = console.presk("run", "f.psk", "--entry", "f", "--input", "w=x.json", "--json")
    assert [int(one) for one in json.loads(ran.out)["result"]["data"]] == value[1]["data"]


def test_a_packed_file_is_what_check_opens(console: Console) -> None:
    """The head that the configuration of a training reads is that of the file."""
    console.presk("data", "pack", "cat.txt", "--window", "8", "--out", "cat.psk.d")
    console.write(
        "train.psk",
        """\
const V = 13
dim B
dim T
module Table {
  param w : ℝ[V, V]
  fn apply(t : idx[V][batch: B, seq: T]) -> ℝ[batch: B, seq: T, V] = embed(w, t)
}
fn loss(θ : params Table, batch : (idx[V][batch: B, seq: T], idx[V][batch: B, seq: T])) -> ℝ[] =
  let (x, y) = batch
  mean(cross_entropy(Table.apply(θ, x), y))
optimizer adamw { lr = 0.001 }
training run {
  model = Table
  objective = loss
  optimizer = adamw
  data = stream "cat.psk.d" |> shuffle(seed = 1) |> batch(B = 4) |> take(n = 3)
}
""",
    )
    ran = console.presk("check", "--summary", "train.psk")
    assert ran.code == 0
    assert "dimensions  B = 4, T = 8" in ran.out
    assert "steps       3 (3 of each epoch)" in ran.out


def test_a_folder_that_may_not_be_written(console: Console) -> None:
    if os.geteuid() == 0:
        folder = "/proc"  # not even for root
    else:
        folder = "locked"
        (console.folder / folder).mkdir(mode=0o500)
    ran = console.presk("data", "pack", "cat.txt", "--window", "2", "--out", f"{folder}/a.psk.d")
    assert ran.code == 2
    assert ran.err.startswith(f"error[E9002]: `{folder}/a.psk.d` cannot be written: ")


def test_samples_that_are_no_windows(console: Console) -> None:
    """A file of images, say: reals, a label, a truth value; written by the library, shown, and taken as an input."""
    sample = sample_of("(ℝ[row: 2, 2], (idx[300], bool[2]))")
    arrays = [
        np.array([[[0.1, 2.0], [-3.5, 1e-30]]] * 2),
        np.array([7, 299]),
        np.array([[True, False], [False, False]]),
    ]
    write_samples(console.folder / "a.psk.d", sample, arrays)
    assert console.presk("data", "info", "a.psk.d").out.splitlines()[:5] == [
        "sample: (ℝ[row: 2, 2], (idx[300], bool[2]))",
        "count: 2",
        "array: base.0 F64 [2, 2, 2]",
        "array: base.1.0 U16 [2]",
        "array: base.1.1 BOOL [2, 2]",
    ]
    assert console.presk("data", "show", "a.psk.d", "--sample", "1").out.splitlines() == [
        "sample 1 of 2",
        "0 : ℝ[row: 2, 2]",
        "  [[ 1.0e-01  2.0e+00]",
        "   [-3.5e+00  1.0e-30]]",
        "1.0 : idx[300]",
        "  299",
        "1.1 : bool[2]",
        "  [False False]",
    ]
    shown = json.loads(console.presk("data", "show", "a.psk.d", "--json").out)
    assert shown["text"] == [None, None, None]
    image, (label, truth) = shown["value"]
    assert image == {
        "type": "ℝ[row: 2, 2]",
        "axes": ["row", None],
        "shape": [2, 2],
        "data": [["0.1", "2.0"], ["-3.5", "1e-30"]],
    }
    assert label == {"type": "idx[300]", "axes": [], "shape": [], "data": 7}
    assert truth["data"] == [True, False]
    console.write("x.json", json.dumps(shown["value"]))
    console.write(
        "f.psk", "fn f(x : (ℝ[2, 2], (idx[300], bool[2]))) -> ℝ[2, 2] =\n  let (image, label) = x\n  image + image\n"
    )
    ran = console.presk("run", "f.psk", "--entry", "f", "--input", "x=x.json", "--json")
    assert json.loads(ran.out)["result"]["data"][1][0] == "-7"
