"""Data files: what is one, what is none, and what comes out of one."""

import json
import os
import resource
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from presk.data.leaves import Windows, leaves_of, narrowest
from presk.data.reading import DataFile
from presk.data.vocabulary import Vocabulary
from presk.data.writing import write_samples, write_windows
from presk.exact.faults import Fault
from tests.data.support import PAIRS, container, entry, sample_of, stream_file

# --- what is none -------------------------------------------------------------------------------------------------------

META = {"presk.sample": "(idx[9][2], ℝ[], bool[3])", "presk.count": "2"}
ARRAYS = {
    "base.1": entry("F64", [2], 0, 16),
    "base.0": entry("U8", [2, 2], 16, 20),
    "base.2": entry("BOOL", [2, 3], 20, 26),
}
DATA = struct.pack("<2d", 1.5, -2.0) + bytes([1, 2, 3, 8]) + bytes([1, 0, 1, 0, 0, 1])


def header(metadata: Any = META, **changed: Any) -> dict[str, Any]:
    """A right header, but for what is changed; None takes an array away."""
    arrays = {**ARRAYS, **{name.replace("_", "."): value for name, value in changed.items()}}
    return {"__metadata__": metadata, **{name: value for name, value in arrays.items() if value is not None}}


def test_the_file_that_the_wrong_ones_are_made_of_is_right(tmp_path):
    path = tmp_path / "a.psk.d"
    path.write_bytes(container(header(), DATA))
    with DataFile(path, "a") as data:
        data.check()
        assert [one.tolist() for one in data.samples([1, 0])] == [
            [[3, 8], [1, 2]],
            [-2.0, 1.5],
            [[False, False, True], [True, False, True]],
        ]


WRONG = {
    "empty": (b"", "does not begin"),
    "short": (b"\x10\0\0", "does not begin"),
    "text": (b"To be, or not to be: that is the question", "does not begin"),
    "npy": (b"\x93NUMPY\x01\0v\0" + bytes(200), "does not begin"),
    "no header": (bytes(100), "does not begin"),
    "a header of 100 MB that is not there": (container(b"{}", b"", 99_999_999), "header is cut off"),
    "a header beyond the format": (container(b"{}", b"", 2**63), "does not begin"),
    "no JSON": (container(b"{,}", b""), "no JSON object"),
    "no UTF-8": (container(b'{"\xff": 1}', b""), "no JSON object"),
    "a list": (container([], b""), "no JSON object"),
    "deep": (container(b"[" * 100_000, b""), "no JSON object"),
    "deep inside": (container(b'{"a":{"b":' + b"[" * 100_000, b""), "no JSON object"),
    "metadata that are no texts": (container(header({"presk.count": [2]}), DATA), "metadata are not texts"),
    "no metadata": (container(ARRAYS, DATA), "lacks `presk.sample`"),
    "no count": (container(header({"presk.sample": "ℝ[]"}), DATA), "lacks `presk.count`"),
    "a name twice": (
        container(
            json.dumps(header()).encode()[:-1] + b', "base.1": ' + json.dumps(ARRAYS["base.1"]).encode() + b"}", DATA
        ),
        "`base.1` twice",
    ),
    "a field twice": (
        container(b'{"a": {"dtype": "U8", "dtype": "U8", "shape": [0], "data_offsets": [0, 0]}}', b""),
        "twice",
    ),
    "overlapping": (container(header(base_0=entry("U8", [2, 2], 15, 19)), DATA), "overlap"),
    "a hole": (
        container(header(base_2=entry("BOOL", [2, 3], 21, 27)), DATA + b"\0"),
        "a hole of 1 byte before `base.2`",
    ),
    "a hole at the start": (container(header(base_1=None), DATA), "a hole of 16 bytes before `base.0`"),
    "a tail": (container(header(), DATA + b"\0"), "for 1 byte behind"),
    "cut off": (container(header(), DATA[:-1]), "it is cut off: of "),
    "another length": (container(header(base_2=entry("BOOL", [2, 3], 20, 25)), DATA), "takes 6 bytes, not 5"),
    "a negative place": (container(header(base_1=entry("F64", [2], -16, 0)), DATA), "the shape or the place"),
    "a negative length": (container(header(base_1=entry("F64", [-2], 0, -16)), DATA), "the shape or the place"),
    "one end": (
        container(header(base_1={"dtype": "F64", "shape": [2], "data_offsets": [0]}), DATA),
        "the shape or the place",
    ),
    "a field more": (container(header(base_1={**ARRAYS["base.1"], "strides": [8]}), DATA), "and nothing else"),
    "no shape": (container(header(base_1={"dtype": "F64", "data_offsets": [0, 16]}), DATA), "and nothing else"),
    "a huge shape": (container(header(base_1=entry("F64", [0, 2**70], 0, 0)), DATA), "has the shape"),
    "a huge rank": (container(header(base_1=entry("F64", [1] * 70, 0, 8)), DATA), "the shape or the place"),
    "a strange type": (container(header(base_1=entry("F8_E4M3", [16], 0, 16)), DATA), "of type F8_E4M3"),
    "the wrong type": (container(header(base_1=entry("U64", [2], 0, 16)), DATA), "`base.1` is stored as U64; `ℝ[]`"),
    "a wider type": (
        container(header({**META, "presk.sample": "(idx[300][2], ℝ[], bool[3])"}), DATA),
        "is stored as U8; `idx[300][2]` is stored as U16",
    ),
    "an array too few": (
        container(header({**META, "presk.sample": "(idx[9][2], ℝ[], bool[3], ℝ[])"}), DATA),
        "no array `base.3`",
    ),
    "an array too many": (
        container(header({**META, "presk.sample": "(idx[9][2], ℝ[])"}), DATA),
        "`base.2` belongs to no part",
    ),
    "another shape": (container(header({**META, "presk.sample": "(idx[9][2], ℝ[], bool[4])"}), DATA), "not [2, 4]"),
    "another count": (container(header({**META, "presk.count": "3"}), DATA), "not [3, 2]"),
    "symbols": (container(header({**META, "presk.sample": "(idx[V][2], ℝ[], bool[3])"}), DATA), "literal lengths"),
    "no tensor": (container({"__metadata__": {"presk.sample": "()", "presk.count": "2"}}, b""), "no tensor"),
    "an index too wide": (
        container(
            {"__metadata__": {"presk.sample": f"idx[{2**64}]", "presk.count": "0"}, "base.0": entry("U64", [0], 0, 0)},
            b"",
        ),
        "63 bits",
    ),
    "windows of reals": (container(header({**META, "presk.window": "4 1"}), DATA), "belongs to no part"),
}


@pytest.mark.parametrize("content, why", WRONG.values(), ids=WRONG.keys())
def test_what_is_no_data_file(tmp_path, content, why):
    path = tmp_path / "a.psk.d"
    path.write_bytes(content)
    with pytest.raises(Fault) as caught:
        DataFile(path, "a.psk.d")
    assert caught.value.code == "E8001"
    assert caught.value.message.startswith("the data file `a.psk.d` cannot be read: ")
    assert why in caught.value.message


@pytest.mark.parametrize(
    "change, why",
    [
        ({"count": 5}, "does not have 5 windows"),
        ({"window": "6 1", "count": 5}, "is not `idx[65][seq: 5]`"),
        ({"sample": "(idx[65][seq: 4], idx[66][seq: 4])"}, "is not `idx[65][seq: 4]`"),
        ({"sample": "(idx[65][seq: 4], ℝ[seq: 4])"}, "is not `idx[65][seq: 4]`"),
        ({"sample": "(idx[65][seq: 2, 2], idx[65][seq: 4])"}, "is not `idx[65][seq: 4]`"),
        ({"sample": "idx[65][seq: 4]"}, "is not `idx[65][seq: 5]`"),
        ({"sample": "(idx[300][4], idx[300][4])"}, "is stored as U16"),
        ({"more": {"presk.vocab": "bytes"}}, "its vocabulary has 256 tokens, its indices are below 65"),
        ({"more": {"presk.vocab": "chars"}}, "its vocabulary is damaged: it is no JSON list"),
        ({"more": {"presk.vocab": '["a", "a"]'}}, "has the token `a` twice"),
    ],
)
def test_windows_that_are_none(tmp_path, change, why):
    path = stream_file(tmp_path / "a.psk.d", bytes(10), **change)
    with pytest.raises(Fault, match="cannot be read") as caught:
        DataFile(path, "a.psk.d")
    assert why in caught.value.message


@given(st.data())
def test_damage_is_refused_or_harmless(tmp_path_factory, data):
    """A file with bytes changed, cut off or put in ends in an error of data, or is read like any other."""
    content = bytearray(container(header(), DATA))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(content) - 1))
        match data.draw(st.sampled_from(("change", "cut", "insert", "delete"))):
            case "change":
                content[at] = data.draw(st.integers(0, 255))
            case "cut":
                del content[max(at, 1) :]
            case "insert":
                content[at:at] = data.draw(st.binary(min_size=1, max_size=4))
            case _:
                del content[at : at + 3]
                content += b"" if content else b"\0"
    path = tmp_path_factory.mktemp("damaged") / "a.psk.d"
    path.write_bytes(content)
    code = None
    try:
        with DataFile(path, "a") as found:
            found.check()
            for number in range(found.count):
                found.samples([number])
    except Fault as fault:
        code = fault.code
    assert code in (None, "E8001", "E8003")


def test_a_header_that_is_claimed_takes_no_memory(tmp_path):
    path = tmp_path / "a.psk.d"
    path.write_bytes(container(b"{}", b"", 99_999_999))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(Fault):
        DataFile(path, "a")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # KiB


def test_what_is_no_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        DataFile(tmp_path / "gone.psk.d", "gone")
    os.mkfifo(tmp_path / "pipe")
    for name, why in (("", "it is a folder"), ("pipe", "it is not an ordinary file")):
        with pytest.raises(Fault, match=why):
            DataFile(tmp_path / name, name)


def test_nothing_stays_open(tmp_path):
    path = stream_file(tmp_path / "a.psk.d", bytes(10))
    wrong = tmp_path / "wrong.psk.d"
    wrong.write_bytes(container(header({}), DATA))

    def handles():
        return len(os.listdir("/proc/self/fd"))

    before = handles()
    for _ in range(3):
        with DataFile(path, "a") as data:
            data.samples([0])
        data.close()
        with pytest.raises(Fault):
            DataFile(wrong, "wrong")
    assert handles() <= before + 1  # the last file's memory, until it is collected


# --- the boundary -------------------------------------------------------------------------------------------------------


def refusal(call, *arguments):
    with pytest.raises(Fault) as caught:
        call(*arguments)
    return caught.value.code, caught.value.message


def test_an_index_that_is_not_below_its_bound(tmp_path):
    path = stream_file(tmp_path / "a.psk.d", bytes([0, 64, 1, 2, 3, 4, 5, 65, 6, 7]))
    with DataFile(path, "a.psk.d") as data:
        assert data.samples([0, 1])[0].tolist() == [[0, 64, 1, 2], [64, 1, 2, 3]]
        assert refusal(data.samples, [0, 4]) == (
            "E8003",
            "the index 65 at `base.0[7]` (sample 4 of `a.psk.d`) is not one of 0 … 64",
        )
        # It is in the window already where only the last leaf shows it.
        assert (
            refusal(data.samples, [3])[1] == "the index 65 at `base.0[7]` (sample 3 of `a.psk.d`) is not one of 0 … 64"
        )
        assert refusal(data.check) == ("E8003", "the index 65 at `base.0[7]` of `a.psk.d` is not one of 0 … 64")


def test_elements_of_every_kind(tmp_path):
    path = tmp_path / "a.psk.d"
    wrong = {
        "index": (bytes([1, 2, 9, 8]), DATA[:16], DATA[20:], "the index 9 at `base.0[1, 0]`"),
        "number": (DATA[16:20], struct.pack("<2d", 1.0, float("nan")), DATA[20:], "the number nan at `base.1[1]`"),
        "infinity": (DATA[16:20], struct.pack("<2d", 1.0, float("-inf")), DATA[20:], "the number -inf at `base.1[1]`"),
        "truth": (DATA[16:20], DATA[:16], bytes([1, 0, 1, 0, 2, 1]), "the truth value 2 at `base.2[1, 1]`"),
    }
    for indices, reals, truths, said in wrong.values():
        path.write_bytes(container(header(), reals + indices + truths))
        with DataFile(path, "a") as data:
            assert data.samples([0])[0].shape == (1, 2)
            code, message = refusal(data.samples, [0, 1])
            assert code == "E8003"
            assert message.startswith(f"{said} (sample 1 of `a`) is ")
            assert refusal(data.check)[1].startswith(f"{said} of `a` is ")


def test_no_index_is_below_zero(tmp_path):
    path = stream_file(tmp_path / "a.psk.d", bytes(5), sample="(idx[0][4], idx[0][4])")
    with DataFile(path, "a") as data:
        assert "no index is below 0" in refusal(data.check)[1]


@pytest.mark.parametrize("numbers", [[6], [-1], [0, 2**40]])
def test_samples_that_there_are_not(tmp_path, numbers):
    with DataFile(stream_file(tmp_path / "a.psk.d", bytes(10)), "a") as data, pytest.raises(IndexError):
        data.samples(numbers)


def test_no_samples_are_an_answer(tmp_path):
    with DataFile(stream_file(tmp_path / "a.psk.d", bytes(10)), "a") as data:
        assert [one.shape for one in data.samples([])] == [(0, 4), (0, 4)]
    with DataFile(stream_file(tmp_path / "b.psk.d", bytes(4), count=0), "b") as data:
        assert data.count == 0
        data.check()


def test_a_file_that_is_changed_while_it_is_read(tmp_path):
    path = stream_file(tmp_path / "a.psk.d", bytes(10))
    with DataFile(path, "a.psk.d") as data:
        data.samples([0])
        with open(path, "r+b") as file:
            file.seek(-1, os.SEEK_END)
            file.write(b"\1")
            os.utime(path, ns=(1, 1))  # whatever the clock's grain
        assert refusal(data.samples, [0]) == ("E8005", "`a.psk.d` was changed while it was being read")
        assert refusal(data.check)[0] == "E8005"
    with DataFile(path, "a.psk.d") as data:
        os.truncate(path, 100)
        assert refusal(data.samples, [0])[0] == "E8005"
        assert refusal(lambda: data.digest)[0] == "E8005"


def test_a_file_that_is_replaced_is_read_as_it_was(tmp_path):
    path = stream_file(tmp_path / "a.psk.d", bytes(10))
    with DataFile(path, "a.psk.d") as data:
        write_windows(path, np.ones(20, dtype=np.uint8), 65, Windows(5, 1), 2)
        assert data.samples([0])[0].tolist() == [[0, 0, 0, 0]]
        data.check()
    with DataFile(path, "a.psk.d") as data:
        assert data.samples([0])[0].tolist() == [[1, 1, 1, 1]]


# --- windows ------------------------------------------------------------------------------------------------------------


@given(
    length=st.integers(1, 6),
    stride=st.integers(1, 8),
    parts=st.integers(1, 3),
    more=st.integers(0, 20),
    bound=st.sampled_from((3, 256, 257, 70_000)),
)
def test_windows_are_slices(tmp_path_factory, length, stride, parts, more, bound):
    """Samples of n leaves over windows of `length + n − 1` tokens, against slices of the stream."""
    path = tmp_path_factory.mktemp("windows") / "a.psk.d"
    windows = Windows(length + parts - 1, stride)
    tokens = [(7 * at * at + at) % bound for at in range(windows.length + more)]
    sample = write_windows(path, np.array(tokens), bound, windows, parts)
    part = f"idx[{bound}][seq: {length}]"
    assert str(sample) == (part if parts == 1 else f"({', '.join([part] * parts)})")
    starts = [at for at in range(0, len(tokens), stride) if at + windows.length <= len(tokens)]
    with DataFile(path, "a") as data:
        assert data.count == len(starts)
        assert data.tokens == len(tokens)
        found = data.samples(range(data.count))
        assert len(found) == parts
        for offset, leaf in enumerate(found):
            assert leaf.tolist() == [tokens[at + offset : at + offset + length] for at in starts]


def test_overlapping_windows_are_stored_once(tmp_path):
    path = tmp_path / "a.psk.d"
    write_windows(path, np.zeros(100_000, dtype=np.uint8), 65, Windows(65, 1), 2)
    assert path.stat().st_size < 100_000 + 300


# --- written and read ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bound, stored",
    [
        (0, "U8"),
        (1, "U8"),
        (256, "U8"),
        (257, "U16"),
        (65_536, "U16"),
        (65_537, "U32"),
        (2**32, "U32"),
        (2**32 + 1, "U64"),
    ],
)
def test_the_narrowest_type(bound, stored):
    assert narrowest(bound) == stored
    assert narrowest(2**63) == "U64"
    with pytest.raises(Fault):
        narrowest(2**63 + 1)


def test_leaves_have_the_names_of_their_places():
    found = leaves_of(sample_of("(ℝ[3], (bool[2], idx[4]))"))
    assert [(leaf.array, leaf.lengths, leaf.bound) for leaf in found] == [
        ("base.0", (3,), 0),
        ("base.1.0", (2,), 0),
        ("base.1.1", (), 4),
    ]
    assert [leaf.array for leaf in leaves_of(sample_of("idx[5][2, 3]"))] == ["base.0"]


NESTED = "(idx[300][2], (ℝ[3], bool[]), ℝ[])"


def nested_arrays(count: int) -> list[np.ndarray[Any, Any]]:
    some = np.random.Generator(np.random.PCG64(count))
    return [
        some.integers(0, 300, (count, 2)),
        some.normal(size=(count, 3)),
        some.integers(0, 2, count).astype(bool),
        some.normal(size=count).astype(np.float32),
    ]


@pytest.mark.parametrize("count", [0, 1, 7])
def test_what_is_written_is_read(tmp_path, count):
    path = tmp_path / "a.psk.d"
    arrays = nested_arrays(count)
    write_samples(path, sample_of(NESTED), arrays)
    with DataFile(path, "a") as data:
        data.check()
        assert (str(data.contents.sample), data.count, data.tokens) == (NESTED, count, None)
        found = data.samples(np.arange(count)[::-1])
        assert [one.dtype for one in found] == [np.int64, np.float64, np.bool_, np.float32]
        for one, array in zip(found, arrays, strict=True):
            assert np.array_equal(one, array[::-1])
        assert data.digest == blake3(path.read_bytes()).hexdigest()


def test_equal_contents_are_equal_files(tmp_path):
    for name in ("a", "b"):
        write_samples(tmp_path / name, sample_of(NESTED), nested_arrays(5), Vocabulary())
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_the_official_library_reads_what_is_written(tmp_path):
    path = tmp_path / "a.psk.d"
    arrays = nested_arrays(6)
    write_samples(path, sample_of(NESTED), arrays)
    found = safetensors.numpy.load_file(path)
    assert {name: one.dtype for name, one in found.items()} == {
        "base.0": np.uint16,
        "base.1.0": np.float64,
        "base.1.1": np.bool_,
        "base.2": np.float32,
    }
    for name, array in zip(("base.0", "base.1.0", "base.1.1", "base.2"), arrays, strict=True):
        assert np.array_equal(found[name], array)
    with safetensors.safe_open(path, "numpy") as opened:
        assert opened.metadata() == {"presk.sample": NESTED, "presk.count": "6"}


def test_what_the_official_library_writes_is_read(tmp_path):
    path = tmp_path / "a.psk.d"
    arrays = nested_arrays(6)
    names = ("base.0", "base.1.0", "base.1.1", "base.2")
    stored = dict(zip(names, [arrays[0].astype(np.uint16), *arrays[1:]], strict=True))
    safetensors.numpy.save_file(stored, path, {"presk.sample": NESTED, "presk.count": "6"})
    with DataFile(path, "a") as data:
        data.check()
        for one, array in zip(data.samples(range(6)), arrays, strict=True):
            assert np.array_equal(one, array)
    tokens = np.arange(20, dtype=np.uint8)
    metadata = {
        "presk.sample": PAIRS,
        "presk.count": "8",
        "presk.window": "5 2",
        "presk.vocab": json.dumps([*map(str, range(65))]),
    }
    safetensors.numpy.save_file({"base.0": tokens}, path, metadata)
    with DataFile(path, "a") as data:
        assert [one.tolist() for one in data.samples([7])] == [[[14, 15, 16, 17]], [[15, 16, 17, 18]]]
        assert data.contents.vocabulary is not None
        assert data.contents.vocabulary.decode([6, 4]) == "64"


def test_what_is_not_written(tmp_path):
    path = tmp_path / "a.psk.d"
    sample = sample_of("(idx[9][2], bool[])")
    right = [np.array([[1, 8]]), np.array([True])]
    with pytest.raises(Fault, match=r"the index 9 at `base.0\[0, 1\]` is not one of 0 … 8") as caught:
        write_samples(path, sample, [np.array([[1, 9]]), right[1]])
    assert caught.value.code == "E8003"
    with pytest.raises(Fault, match=r"the index -1 at `base.0\[0, 0\]`"):
        write_samples(path, sample, [np.array([[-1, 9]]), right[1]])
    for wrong in (
        [right[0]],
        [*right, right[1]],
        [np.array([[1, 2, 3]]), right[1]],
        [right[0], np.array([True, False])],
    ):
        with pytest.raises(ValueError):
            write_samples(path, sample, wrong)
    for wrong in ([right[0] * 0.5, right[1]], [right[0], right[1] * 0.5]):
        with pytest.raises(TypeError):
            write_samples(path, sample, wrong)
    for parts in (0, 6):
        with pytest.raises(ValueError):
            write_windows(path, np.zeros(9, dtype=np.uint8), 4, Windows(5, 1), parts)
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_whole_or_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = stream_file(tmp_path / "a.psk.d", bytes(10))
    path.chmod(0o640)
    old = path.read_bytes()

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            write_windows(path, np.ones(20, dtype=np.uint8), 65, Windows(5, 1), 2)
    assert [one.name for one in tmp_path.iterdir()] == ["a.psk.d"]
    assert path.read_bytes() == old
    write_windows(path, np.ones(20, dtype=np.uint8), 65, Windows(5, 1), 2)
    assert path.read_bytes() != old
    assert path.stat().st_mode & 0o777 == 0o640
