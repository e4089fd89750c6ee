"""Checkpoints: what is written is read again to the bit, here and by the format's own library; what is damaged is refused; a disk that
is full, or a process that is killed, harms nothing that was there before."""

import errno
import fcntl
import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pytest
import safetensors
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st

from presk.exact.faults import Fault
from presk.train.checkpoint import (
    LAST,
    Checkpoint,
    Meta,
    checkpoints_in,
    name_of,
    prune,
    read,
    resolve,
    shown_as,
    write,
)
from presk.train.parameters import check_fits, read_parameters
from presk.train.stored import FLOATS, Stored
from tests.data.support import container, entry, stream_file
from tests.train.checkpoints import META, TREE, Tree, bits, moments, small

STEP: Final = "step-000500.safetensors"


def refused(path: Path, shown: str = "ck") -> str:
    """Why a file is no checkpoint."""
    with pytest.raises(Fault) as caught:
        read(path, shown)
    assert caught.value.code == "E8006"
    begin = f"the checkpoint `{shown}` cannot be read: "
    assert caught.value.message.startswith(begin)
    return caught.value.message.removeprefix(begin)


# --- round trips ----------------------------------------------------------------------------------------------------------


def test_what_is_written_is_read_to_the_bit(tmp_path: Path) -> None:
    found = read(small(tmp_path / STEP), STEP)
    assert found.meta == META
    assert bits(found.parameters) == bits(TREE)
    assert bits(found.state("m")) == bits(moments(TREE))
    assert bits(found.state("v")) == bits(moments(TREE, 2))
    assert sorted(found.tensors) == sorted([*TREE, *(f"adamw.{one}.{path}" for one in "mv" for path in TREE)])
    for _, array in found.tensors.values():
        assert array.flags.c_contiguous and array.flags.aligned and not array.flags.writeable


def test_without_a_vocabulary_there_is_none(tmp_path: Path) -> None:
    meta = msgspec.structs.replace(META, vocab=None, sequence=None, unfused=None)
    path = small(tmp_path / STEP, meta)
    assert read(path, STEP).meta == meta
    with safetensors.safe_open(path, framework="np") as opened:
        assert not {"presk.vocab", "presk.sequence", "presk.unfused"} & set(opened.metadata())


NAMES: Final = st.sampled_from(["w", "b", "m", "v", "adamw", "adamw_", "__metadata__", "γ", "θ1", "blocks", "h"])
SHAPES: Final = st.lists(st.integers(0, 3), max_size=3).map(tuple)


@st.composite
def tensors(draw: st.DrawFn) -> Stored:
    dtype = draw(st.sampled_from(["F64", "F32", "BF16"]))
    shape = draw(SHAPES)
    size = int(np.prod(shape, dtype=int)) * FLOATS[dtype].itemsize
    # Any bits: NaN with every payload among them.
    return dtype, np.frombuffer(draw(st.binary(min_size=size, max_size=size)), FLOATS[dtype]).reshape(shape)


def flat(tree: Mapping[str, Any], outer: str = "") -> dict[str, Stored]:
    found: dict[str, Stored] = {}
    for name, inner in tree.items():
        found |= {outer + name: inner} if isinstance(inner, tuple) else flat(inner, f"{outer}{name}.")
    return found


def trees() -> st.SearchStrategy[dict[str, Stored]]:
    inner = st.recursive(tensors(), lambda inside: st.dictionaries(NAMES, inside, max_size=3), max_leaves=6)
    return st.dictionaries(NAMES, inner, max_size=4).map(flat)


def filled(salt: bytes, like: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """An array like another one, of other bits."""
    found: np.ndarray[Any, Any] = np.resize(np.frombuffer(salt, "u1"), like.nbytes).view(like.dtype)
    return found.reshape(like.shape)


@given(trees(), st.binary(min_size=1, max_size=8))
def test_every_tree_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, tree: Tree, salt: bytes
) -> None:
    """Also one with fields that are called as the optimizer, its moments, or the format's metadata."""
    path = tmp_path_factory.mktemp("tree") / STEP
    m = {name: (dtype, filled(salt, array)) for name, (dtype, array) in tree.items()}
    write(path, STEP, tree, m, tree, META)
    found = read(path, STEP)
    assert bits(found.parameters) == bits(tree)
    assert bits(found.state("m")) == bits(m) and bits(found.state("v")) == bits(tree)
    assert bits(read_parameters(path, STEP)) == bits(tree)
    with safetensors.safe_open(path, framework="np") as opened:
        assert len(opened.keys()) == 3 * len(tree)


def test_a_parameter_named_as_the_optimizer_stays_apart_from_its_state(tmp_path: Path) -> None:
    """`adamw.m.w` is a parameter of this tree, and the first moment of its parameter `w`."""
    tree: Tree = {
        "w": ("F64", np.array([1.0])),
        "adamw.m.w": ("F64", np.array([2.0])),
        "__metadata__": ("F64", np.array([3.0])),
    }
    path = small(tmp_path / STEP, tree=tree)
    loaded = safetensors.numpy.load_file(path)
    assert {name: array.tolist() for name, array in loaded.items()} == {
        "w": [1.0],
        "adamw#.m.w": [2.0],
        "__metadata__#": [3.0],
        "adamw.m.w": [2.0],
        "adamw.m.adamw.m.w": [3.0],
        "adamw.m.__metadata__": [4.0],
        "adamw.v.w": [3.0],
        "adamw.v.adamw.m.w": [4.0],
        "adamw.v.__metadata__": [5.0],
    }
    assert bits(read(path, STEP).parameters) == bits(tree)


def test_the_official_library_reads_names_numbers_and_metadata(tmp_path: Path) -> None:
    path = small(tmp_path / STEP)
    with safetensors.safe_open(path, framework="np") as opened:
        metadata = opened.metadata()
        found = {name: opened.get_tensor(name) for name in opened.keys() if "γ" not in name}
    for name, array in found.items():
        own = read(path, STEP).tensors[name][1]
        assert array.dtype == own.dtype and array.tobytes() == own.tobytes() and array.shape == own.shape
    raw = dict(safetensors.deserialize(path.read_bytes()))
    assert raw["blocks.γ"]["dtype"] == "BF16" and bytes(raw["blocks.γ"]["data"]) == TREE["blocks.γ"][1].tobytes()
    assert metadata["presk.kind"] == "checkpoint"
    assert {name: metadata[f"presk.{name}"] for name in META.__struct_fields__} == {
        name: str(value) for name, value in msgspec.structs.asdict(META).items()
    }


def test_what_the_official_library_writes_again_is_read(tmp_path: Path) -> None:
    """It lays the tensors in another order, and metadata of others may be with ours."""
    tree = {path: stored for path, stored in TREE.items() if stored[0] != "BF16"}
    path = small(tmp_path / STEP, tree=tree)
    with safetensors.safe_open(path, framework="np") as opened:
        metadata = {**opened.metadata(), "format": "pt"}
    other = tmp_path / "other.safetensors"
    arrays = dict(reversed(safetensors.numpy.load_file(path).items()))
    safetensors.numpy.save_file(arrays, other, metadata=metadata)
    assert other.read_bytes() != path.read_bytes()
    found = read(other, "other")
    assert found.meta == META and bits(found.parameters) == bits(tree)
    # With another number it is no longer the checkpoint that was written.
    arrays["gain"] = np.asarray(arrays["gain"] + 1)
    safetensors.numpy.save_file(arrays, other, metadata=metadata)
    assert refused(other) == "it is damaged: its contents are not those of its digest"


# --- parameters of others -------------------------------------------------------------------------------------------------


def test_a_plain_file_gives_parameters_and_is_no_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "export.safetensors"
    arrays = {"w": np.array([[1.5, 2]]), "b": np.array(3, np.float32), "h": np.array([0.5], np.float16)}
    safetensors.numpy.save_file(arrays, path, metadata={"format": "pt"})
    found = read_parameters(path, "export")
    assert {name: (dtype, array.dtype.name, array.tolist()) for name, (dtype, array) in found.items()} == {
        "w": ("F64", "float64", [[1.5, 2]]),
        "b": ("F32", "float32", 3),
        "h": ("F16", "float16", [0.5]),
    }
    assert refused(path) == "it is a safetensors file, but no checkpoint"


def test_an_array_that_begins_anywhere_is_aligned_when_it_is_read(tmp_path: Path) -> None:
    header = {"a": entry("BF16", [1], 0, 2), "b": entry("F64", [1], 2, 10)}
    path = tmp_path / "odd.safetensors"
    path.write_bytes(container(header, b"\x80\x3f" + np.float64(2.5).tobytes()))
    found = read_parameters(path, "odd")
    assert found["b"][1].flags.aligned and found["b"][1].tolist() == [2.5]
    assert found["a"][0] == "BF16" and found["a"][1].tolist() == [0x3F80]


@pytest.mark.parametrize(
    ("header", "data", "why"),
    [
        ({"a": entry("I32", [1], 0, 4)}, b"1234", "the elements of `a` are of type I32"),
        ({"a": entry("U8", [1], 0, 1)}, b"1", "the elements of `a` are of type U8"),
        ({"a": entry("F32", [1], 0, 4), "a.b": entry("F32", [], 4, 8)}, b"12345678", "`a` is a tensor, and so is its part `a.b`"),
        ({"__metadata__": {"presk.kind": "vocabulary"}}, b"", "its `presk.kind` is `vocabulary`"),
        ({"__metadata__": {"presk.step": "3"}}, b"", "it is a safetensors file, but no checkpoint"),
        ({"a": entry("F32", [1], 1, 5)}, b"12345", "there is a hole of 1 byte before `a`"),
    ],
)  # fmt: skip
def test_files_that_are_no_parameters(tmp_path: Path, header: Any, data: bytes, why: str) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(container(header, data))
    with pytest.raises(Fault) as caught:
        read_parameters(path, "x")
    assert (caught.value.code, caught.value.message) == ("E8006", f"the checkpoint `x` cannot be read: {why}")


# --- what is none ---------------------------------------------------------------------------------------------------------


def tiny(path: Path) -> bytes:
    return small(path, tree={"w": ("F32", np.array([1.5, 2], np.float32))}).read_bytes()


def test_a_file_that_is_cut_off_anywhere_is_refused(tmp_path: Path) -> None:
    path = tmp_path / STEP
    whole = tiny(path)
    for size in reversed(range(len(whole))):
        os.truncate(path, size)
        assert refused(path), size
    path.write_bytes(whole + b"\0")
    assert refused(path) == "it goes on for 1 byte behind its arrays"


def test_every_flipped_bit_is_found(tmp_path: Path) -> None:
    """Of the length, the header and the numbers."""
    path = tmp_path / STEP
    whole = tiny(path)
    with open(path, "r+b", buffering=0) as file:
        for place, byte in enumerate(whole):
            for bit in range(8):
                os.pwrite(file.fileno(), bytes([byte ^ 1 << bit]), place)
                assert refused(path), (place, bit)
            os.pwrite(file.fileno(), bytes([byte]), place)
    assert read(path, STEP).meta == META


def parts(path: Path) -> tuple[dict[str, Any], bytes]:
    """Header and data of a small checkpoint."""
    whole = tiny(path)
    size = int.from_bytes(whole[:8], "little")
    return json.loads(whole[8 : 8 + size]), whole[8 + size :]


def changed(path: Path, metadata: Mapping[str, str | None] | None = None, **arrays: Any) -> str:
    """Why the small checkpoint is refused with these entries; None takes one away. `_` in names of arrays is a dot."""
    header, data = parts(path)
    for name, value in (metadata or {}).items():
        header["__metadata__"].pop(f"presk.{name}", None)
        if value is not None:
            header["__metadata__"][f"presk.{name}"] = value
    for name, value in arrays.items():
        header.pop(name.replace("_", "."), None)
        if value is not None:
            header[name.replace("_", ".")] = value
    path.write_bytes(container(header, data))
    return refused(path)


@pytest.mark.parametrize(
    "name", ["kind", "digest", *(one for one in META.__struct_fields__ if one not in ("vocab", "sequence", "unfused"))]
)
def test_an_entry_that_every_checkpoint_has(tmp_path: Path, name: str) -> None:
    why = changed(tmp_path / STEP, {name: None})
    assert why == (
        "it is a safetensors file, but no checkpoint" if name == "kind" else f"its metadata lack `presk.{name}`"
    )


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("step", "", "a natural number"),
        ("sequence", "long", "a natural number"),
        ("step", "-1", "a natural number"),
        ("step", "five", "a natural number"),
        ("epoch", "1.0", "a natural number"),
        ("batch", "٣", "a natural number"),
        ("total", "1" * 19, "a natural number"),
        ("seed", "0x10", "a seed"),
        ("shuffle", "1" * 79, "a seed"),
        ("optimizer", "", "a name"),
        ("optimizer", "a.b", "a name"),
        ("loss", "nan", "a number"),
        ("loss", "1e999", "a number"),
        ("loss", " 1", "a number"),
    ],
)
def test_an_entry_that_is_no_number(tmp_path: Path, name: str, value: str, what: str) -> None:
    assert changed(tmp_path / STEP, {name: value}) == f"its `presk.{name}` is not {what}"


def test_entries_that_were_changed(tmp_path: Path) -> None:
    damaged = "it is damaged: its contents are not those of its digest"
    assert changed(tmp_path / STEP, {"step": "501"}) == damaged
    assert changed(tmp_path / STEP, {"vocab": None}) == damaged
    assert changed(tmp_path / STEP, {"extra": "1"}) == damaged
    assert changed(tmp_path / STEP, {"kind": "model"}) == "its `presk.kind` is `model`"


def test_tensors_that_do_not_belong_together(tmp_path: Path) -> None:
    """The file has `adamw.m.w`, `adamw.v.w` and `w`, two floats each, in this order."""
    path = tmp_path / STEP
    assert changed(path, w=None, adamw_m_q=entry("F32", [2], 16, 24)) == "`adamw.m.q` belongs to no parameter"
    assert changed(path, adamw_v_w=None, adamw_q=entry("F32", [2], 8, 16)) == "`adamw.q` belongs to no parameter"
    assert changed(path, adamw_v_w=None, b=entry("F32", [2], 8, 16)) == "it lacks `adamw.m.b`"
    assert changed(path, adamw_m_w=entry("F32", [1, 2], 0, 8)) == "`adamw.m.w` has the shape [1, 2], and `w` [2]"
    assert changed(path, w=entry("F16", [4], 16, 24)) == "`adamw.m.w` has the shape [2], and `w` [4]"
    wide = {f"adamw_{one}_w": entry("F32", [2, 1], start, start + 8) for one, start in (("m", 0), ("v", 8))}
    assert changed(path, w=entry("F16", [2, 2], 16, 24), **wide) == "`adamw.m.w` has the shape [2, 1], and `w` [2, 2]"


def test_halves_are_no_elements_of_a_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / STEP
    assert changed(path, adamw_m_w=entry("F16", [4], 0, 8)) == "the elements of `adamw.m.w` are of type F16"


def test_headers_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / STEP
    assert changed(path, w=entry("F32", [2], 12, 20)) == "the bytes of `w` overlap those before them"
    assert changed(path, adamw_v_w=None) == "there is a hole of 8 bytes before `w`"
    assert changed(path, w=entry("F32", [3], 16, 24)) == "`w` of shape [3] takes 12 bytes, not 8"
    assert changed(path, w=entry("U8", [8], 16, 24)) == "the elements of `w` are of type U8"
    assert changed(path, w=entry("F8_E4M3", [8], 16, 24)) == "the elements of `w` are of type F8_E4M3"
    assert changed(path, w=entry("F32", [2**62], 16, 24)).startswith("`w` has the shape")
    header, data = parts(path)
    twice = json.dumps(header).encode()[:-1] + b', "w": ' + json.dumps(header["w"]).encode() + b"}"
    path.write_bytes(container(twice, data))
    assert refused(path) == "its header has `w` twice"
    path.write_bytes(container(b"{}", b"", 99_999_999))
    assert refused(path) == "its header is cut off"
    path.write_bytes(container(b"{}", b"", 2**62))
    assert refused(path) == "it does not begin as a safetensors file does"


def test_files_of_other_kinds(tmp_path: Path) -> None:
    assert refused(tmp_path / "missing") == "there is no such file"
    assert refused(tmp_path) == "it is a folder"
    assert refused(tmp_path / "a\0b") == "its name is not a file name"
    assert refused(tmp_path / ("n" * 300)) == "its name is too long"
    (tmp_path / "text").write_text("To be, or not to be")
    assert refused(tmp_path / "text") == "it does not begin as a safetensors file does"
    assert refused(tmp_path / "text" / "x") == "there is no such file"
    (tmp_path / "empty").touch()
    assert refused(tmp_path / "empty") == "it does not begin as a safetensors file does"
    assert refused(stream_file(tmp_path / "text.psk.d", b"abcdefgh")) == "it is a data file"
    os.mkfifo(tmp_path / "pipe")
    assert refused(tmp_path / "pipe") == "it is not an ordinary file"


# --- writing --------------------------------------------------------------------------------------------------------------


def test_what_could_not_be_read_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / STEP
    for field, value in (("step", -1), ("loss", "nan"), ("seed", "x"), ("optimizer", "a.b")):
        with pytest.raises(ValueError, match=f"presk.{field}"):
            small(path, msgspec.structs.replace(META, **{field: value}))
    with pytest.raises(ValueError, match=r"adamw\.m\.q"):
        write(path, STEP, TREE, {"q": TREE["gain"]}, moments(TREE), META)
    with pytest.raises(ValueError, match=r"lacks `adamw\.v\."):
        write(path, STEP, TREE, moments(TREE), {}, META)
    for stored in (("F16", np.zeros(1, np.float16)), ("F32", np.zeros(1)), ("F8", np.zeros(1))):
        with pytest.raises(ValueError, match="`w`"):
            write(path, STEP, {"w": stored}, {"w": stored}, {"w": stored}, META)
    assert list(tmp_path.iterdir()) == []


def test_the_folder_is_made_and_the_file_may_be_read_by_others(tmp_path: Path) -> None:
    path = small(tmp_path / "runs" / "a" / STEP)
    assert path.stat().st_mode & 0o777 == 0o644
    assert [one.name for one in path.parent.iterdir()] == [STEP]


def test_elements_in_any_order_of_memory(tmp_path: Path) -> None:
    array = np.arange(12.0).reshape(3, 4)
    tree: Tree = {"w": ("F64", array.T), "b": ("F64", array[::2, 1:3])}
    path = tmp_path / STEP
    write(path, STEP, tree, tree, tree, META)
    found = read(path, STEP).parameters
    assert found["w"][1].tolist() == array.T.tolist() and found["b"][1].tolist() == [[1, 2], [9, 10]]


def test_the_file_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And then the name is: what a machine that is switched off has is one of the two files."""
    path = small(tmp_path / STEP)
    events: list[str] = []
    flush, rename = os.fsync, os.replace

    def fsync(handle: int) -> None:
        kind = "folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else f"{os.fstat(handle).st_size} bytes"
        events.append(f"flush {kind}")
        flush(handle)

    def replace(source: str, target: Path) -> None:
        events.append(f"rename to {target.name}")
        assert Path(source).parent == target.parent
        rename(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    small(path)
    assert events == [f"flush {path.stat().st_size} bytes", f"rename to {STEP}", "flush folder"]


def test_a_file_for_which_there_is_no_memory(tmp_path: Path) -> None:
    """Of 64 gibibytes, all of them a hole that takes no disk."""
    path = tmp_path / "huge.safetensors"
    path.write_bytes(container({"a": entry("F64", [2**33], 0, 2**36)}, b""))
    limited = "resource.setrlimit(resource.RLIMIT_AS, (2**34, 2**34))\nfrom presk.train.checkpoint import read\n"
    os.truncate(path, path.stat().st_size + 2**36)
    ran = in_a_process(
        f"{limited}try:\n    read(path, 'huge')\nexcept Fault as fault:\n    print(fault.code, fault.message)", path
    )
    assert ran.stdout == (
        f"E8006 the checkpoint `huge` cannot be read: there is not enough memory for its {2**36} bytes\n"
    ), ran.stderr


FULL: Final = [
    ("fsync", errno.ENOSPC, "the disk is full"),
    ("fsync", errno.EDQUOT, "the disk space that is allowed is used up"),
    ("fsync", errno.EIO, "input/output error"),
    ("fchmod", errno.EROFS, "the disk may not be written to"),
    ("replace", errno.ENOSPC, "the disk is full"),
    ("replace", errno.EACCES, "its folder may not be written to"),
]


@pytest.mark.parametrize(("function", "number", "words"), FULL)
def test_a_full_disk_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str, number: int, words: str
) -> None:
    before = small(tmp_path / name_of(400))
    last = small(tmp_path / LAST)
    kept = {path: path.read_bytes() for path in (before, last)}

    def fails(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, function, fails)
    for name in (STEP, LAST):
        with pytest.raises(Fault) as caught:
            small(tmp_path / name, tree=moments(TREE))
        assert caught.value.code == "E8008"
        assert caught.value.message == f"the checkpoint `{name}` cannot be written: {words}"
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == kept


def test_folders_that_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / LAST).mkdir()
    for path, words in (
        (tmp_path / "file" / STEP, "what should be its folder is none"),
        (tmp_path / "file" / "runs" / STEP, "what should be its folder is none"),
        (tmp_path / LAST, "there is a folder of its name"),
        (tmp_path / ("n" * 250), "its name is too long"),
        (tmp_path / "a\0b", "its name is not a file name"),
    ):
        with pytest.raises(Fault) as caught:
            small(path)
        assert caught.value.code == "E8008" and caught.value.message.endswith(f"cannot be written: {words}")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["file", LAST]


PRELUDE: Final = """
import os, resource, signal, sys
from pathlib import Path
from presk.exact.faults import Fault
from tests.train.checkpoints import META, TREE, small
path = Path(sys.argv[1])
"""


def in_a_process(text: str, path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PRELUDE + text, str(path)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_file_that_grows_too_large(tmp_path: Path) -> None:
    """The system itself ends the writing, in the middle of the file."""
    before = small(tmp_path / name_of(400))
    limited = "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
    ran = in_a_process(
        f"{limited}try:\n    small(path)\nexcept Fault as fault:\n    print(fault.code, fault.message)", tmp_path / STEP
    )
    assert ran.stdout == f"E8008 the checkpoint `{STEP}` cannot be written: the system allows no file of this size\n", (
        ran.stderr
    )
    assert list(tmp_path.iterdir()) == [before]
    assert bits(read(before, "before").parameters) == bits(TREE)


def test_a_process_that_is_killed_while_it_writes(tmp_path: Path) -> None:
    """What it leaves is no checkpoint, and the next one to write sweeps it away."""
    before = small(tmp_path / name_of(400))
    killed = "os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\nsmall(path)"
    assert in_a_process(killed, tmp_path / STEP).returncode == -signal.SIGKILL
    left = [one for one in tmp_path.iterdir() if one != before]
    assert len(left) == 1 and left[0].name.startswith(f".{STEP}.")
    assert resolve(tmp_path) == before
    after = small(tmp_path / STEP)
    assert sorted(tmp_path.iterdir()) == sorted([before, after])
    assert bits(read(before, "before").parameters) == bits(TREE)


def test_what_another_process_is_writing_and_foreign_files_stay(tmp_path: Path) -> None:
    for name in (
        f".{STEP}.abcd1234",
        f".{LAST}.x",
        ".notes.safetensors.x",
        f".{STEP}",
        "step-1.safetensors",
        ".hidden",
    ):
        (tmp_path / name).write_text(name)
    with open(tmp_path / f".{STEP}.busy", "w") as busy:
        fcntl.flock(busy, fcntl.LOCK_EX)
        small(tmp_path / name_of(1))
        assert sorted(one.name for one in tmp_path.iterdir()) == sorted(
            [f".{STEP}.busy", ".notes.safetensors.x", f".{STEP}", "step-1.safetensors", ".hidden", name_of(1)]
        )
    small(tmp_path / name_of(1))
    assert not (tmp_path / f".{STEP}.busy").exists()


def test_two_processes_that_write_one_name(tmp_path: Path) -> None:
    """The file is always one of the two, whole, and neither takes what the other is writing for abandoned."""
    path = tmp_path / LAST
    arguments = [sys.executable, "-c", f"{PRELUDE}for _ in range(100):\n    small(path)", str(path)]
    seen = set()
    with subprocess.Popen(arguments, cwd=Path(__file__).parents[2]) as other:
        while other.poll() is None:
            small(path, tree=moments(TREE))
            seen.add(read(path, LAST).parameters["gain"][1].item())
    assert other.returncode == 0
    assert seen <= {0.1, 1.1} and 1.1 in seen
    assert [one.name for one in tmp_path.iterdir()] == [LAST]


# --- folders --------------------------------------------------------------------------------------------------------------


def test_names_are_in_the_order_of_steps() -> None:
    assert name_of(500) == STEP and name_of(0) == "step-000000.safetensors"
    assert name_of(1234567) == "step-1234567.safetensors"


def at(folder: Path, step: int, name: str | None = None) -> Path:
    """A checkpoint after so many steps."""
    return small(folder / (name or name_of(step)), msgspec.structs.replace(META, step=step))


def test_resolve_takes_the_most_steps(tmp_path: Path) -> None:
    steps = [at(tmp_path, step) for step in (999_999, 1_000_000, 20)]
    (tmp_path / "step-2000000.safetensors").mkdir()
    (tmp_path / "step-000030.safetensors.bak").touch()
    (tmp_path / "other.safetensors").touch()
    assert list(checkpoints_in(tmp_path)) == [20, 999_999, 1_000_000]
    assert resolve(tmp_path) == steps[1]
    # The end of a shorter run, which was then gone on with.
    last = at(tmp_path, 400, LAST)
    assert resolve(tmp_path) == steps[1]
    at(tmp_path, 1_000_000, LAST)
    assert resolve(tmp_path) == last
    assert resolve(last) == last
    assert resolve(tmp_path / "step-000020") == steps[2]
    assert shown_as(tmp_path, "runs/a", last) == f"runs/a/{LAST}"
    assert shown_as(tmp_path / "step-000020", "step-000020", steps[2]) == name_of(20)
    assert shown_as(last, "x", last) == "x"


def test_the_end_of_a_run_alone(tmp_path: Path) -> None:
    assert resolve(at(tmp_path, 7, LAST).parent) == tmp_path / LAST


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("empty", "the folder has no checkpoint, `step-000001.safetensors` or the like"),
        ("missing", "there is no such file"),
        ("a\0b", "there is no such file"),
    ],
)
def test_resolve_refuses(tmp_path: Path, name: str, why: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(Fault) as caught:
        resolve(tmp_path / name, "ck")
    assert (caught.value.code, caught.value.message) == ("E8006", f"the checkpoint `ck` cannot be read: {why}")


def test_a_damaged_end_of_a_run_is_named(tmp_path: Path) -> None:
    at(tmp_path, 10)
    (tmp_path / LAST).write_bytes(b"x" * 100)
    with pytest.raises(Fault, match=f"`runs/{LAST}` cannot be read: it does not begin"):
        resolve(tmp_path, "runs")


def test_prune_keeps_the_newest_and_what_is_not_its_own(tmp_path: Path) -> None:
    for step in (5, 10, 999_999, 1_000_000):
        (tmp_path / name_of(step)).touch()
    foreign = [
        LAST,
        "step-5.safetensors",
        "step-000007.safetensors.bak",
        "xstep-000001.safetensors",
        "step-00000a.safetensors",
    ]
    for name in foreign:
        (tmp_path / name).touch()
    (tmp_path / "step-000001.safetensors").mkdir()
    foreign.append("step-000001.safetensors")

    def kept() -> list[int]:
        names = {one.name for one in tmp_path.iterdir()}
        assert names >= set(foreign)
        return [step for step in (5, 10, 999_999, 1_000_000) if name_of(step) in names]

    prune(tmp_path, 4)
    assert kept() == [5, 10, 999_999, 1_000_000]
    prune(tmp_path, 1, upto=10)
    assert kept() == [10, 999_999, 1_000_000]
    prune(tmp_path, 2)
    assert kept() == [999_999, 1_000_000]
    prune(tmp_path, 1)
    assert kept() == [1_000_000]
    with pytest.raises(ValueError, match="0 checkpoints"):
        prune(tmp_path, 0)
    prune(tmp_path / "missing", 1)


def test_prune_ends_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for step in (1, 2):
        (tmp_path / name_of(step)).touch()

    def fails(*_: object) -> None:
        raise PermissionError(errno.EACCES, "no")

    monkeypatch.setattr(Path, "unlink", fails)
    prune(tmp_path, 1)
    assert list(checkpoints_in(tmp_path)) == [1, 2]


# --- does it fit ----------------------------------------------------------------------------------------------------------

EXPECTED: Final = {path: (array.shape, dtype) for path, (dtype, array) in TREE.items()}


def test_parameters_that_fit(tmp_path: Path) -> None:
    found = read(small(tmp_path / STEP), STEP)
    check_fits(found.parameters, EXPECTED, STEP)
    check_fits(found.state("m"), EXPECTED, STEP)
    check_fits({}, {}, STEP)


@pytest.mark.parametrize(
    ("expected", "why"),
    [
        ({**EXPECTED, "wpe": ((2,), "F32")}, "it has no `wpe`"),
        ({"gain": EXPECTED["gain"]}, "the program has no `blocks.attn.wq.w`"),
        ({**EXPECTED, "wte": ((2, 4), "F32")}, "its `wte` has the shape [2, 3], the program's [2, 4]"),
        ({**EXPECTED, "gain": ((1,), "F64")}, "its `gain` has the shape [], the program's [1]"),
        ({**EXPECTED, "wte": ((2, 3), "F64")}, "its `wte` is stored as F32, and the run computes with F64"),
        ({"a": ((), "F64"), **EXPECTED, "wte": ((9,), "F64")}, "it has no `a`"),
    ],
)
def test_the_first_difference_is_told(tmp_path: Path, expected: Any, why: str) -> None:
    found = read(small(tmp_path / STEP), STEP)
    with pytest.raises(Fault) as caught:
        check_fits(found.parameters, expected, STEP)
    assert (caught.value.code, caught.value.message) == ("E8007", f"the checkpoint `{STEP}` does not fit: {why}")


def test_a_checkpoint_is_a_value() -> None:
    one = Checkpoint(META, {})
    assert one == Checkpoint(META, {}) and one.parameters == {} and isinstance(one.meta, Meta)
