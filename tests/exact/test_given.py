"""Files and words from outside are read exactly, or refused with what is wrong and where."""

import io
import json
import struct
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from gmpy2 import mpfr, mpq
from hypothesis import given as examples
from hypothesis import settings
from hypothesis import strategies as st

from presk.exact import draws, given
from presk.exact.faults import Fault
from presk.exact.given import Given, raw_of_file, raw_of_word, value_of
from presk.exact.reals import Reals
from presk.exact.scope import Scope
from presk.exact.values import Items, Key, Number, Real, Truth
from presk.types.dim import constant
from presk.types.type import Function, Hyper, HyperKind, Named, Params, Tuple
from presk.types.type import Key as KeyType
from tests.exact.support import fractions, idx, mask, real
from tests.exact.test_primitives import HEADERS, TREE_MODULE

M = Reals(128)
SCOPE = Scope({"N": 2}, (), HEADERS)
TREE = Params(Named(TREE_MODULE, (constant(2),)))
HYPERS = {kind.value: Hyper(kind) for kind in HyperKind}


def npy(array) -> Given:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return Given("x.npy", buffer.getvalue())


def text(content) -> Given:
    return Given("x.json", (content if isinstance(content, str) else json.dumps(content)).encode())


def tensors(**arrays) -> Given:
    return Given("x.safetensors", safetensors.numpy.save(arrays))


def read(file, type_, m=M) -> Any:
    with m.active():
        return value_of(m, SCOPE, raw_of_file(file), type_, "x")


def refused(file, type_, *words):
    with pytest.raises(Fault) as caught:
        read(file, type_)
    for word in words:
        assert word in caught.value.message, caught.value.message
    return caught.value


# --- reals --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", ">f8", ">f4", "i1", "i8", "u8", "u2", ">i4"])
def test_arrays_of_numbers_are_exact(dtype):
    array = np.array([[0, 1], [3, 100]]).astype(dtype)
    assert fractions(read(npy(array), real(2, 2))) == [[0, 1], [3, 100]]


def test_floats_keep_every_bit():
    array = np.array([0.1, -5e-324, 1.7976931348623157e308, 0.0])
    for bits in (2, 64, 300):
        found = read(npy(array), real(4), Reals(bits))
        assert fractions(found) == [mpq(x) for x in array.tolist()]
    single = np.array([0.1, 1e-45], dtype=np.float32)
    assert fractions(read(npy(single), real(2))) == [mpq(float(x)) for x in single]


def test_large_integers():
    array = np.array([2**63 - 1, -(2**63), 2**53 + 1])
    assert fractions(read(npy(array), real(3))) == array.tolist()
    assert fractions(read(npy(np.array([2**64 - 1], dtype=np.uint64)), real(1))) == [2**64 - 1]


def test_a_scalar_has_no_axes():
    assert fractions(read(npy(np.array(2.5)), real())) == mpq(5, 2)
    assert fractions(read(text("2.5"), real())) == mpq(5, 2)


def test_decimals_are_rounded_once_to_the_precision_of_the_run():
    digits = "0.1234567890123456789012345678901234567890123456789"
    for content in (
        f"[{digits}]",
        f'["{digits}"]',
        f'{{"data": [{digits}]}}',
        f'{{"shape": [1], "data": ["{digits}"]}}',
    ):
        found = read(text(content), real(1))
        assert found.data[0] == mpfr(digits, 128)
    assert fractions(read(text('["1/4", "-2e2", 7, "+3"]'), real(4))) == [mpq(1, 4), -200, 7, 3]


def test_what_is_no_real_number():
    assert "x[1]" in refused(npy(np.array([1.0, np.nan])), real(2), "nan").message
    refused(npy(np.array([np.inf])), real(1), "inf")
    refused(text("[NaN]"), real(1), "NaN")
    refused(text("[1, Infinity]"), real(2), "Infinity")
    refused(text('["one"]'), real(1), "one")
    refused(text('["1/0"]'), real(1), "1/0")
    refused(text('[""]'), real(1))
    refused(text("[true]"), real(1))
    refused(npy(np.array([True])), real(1), "truth")
    refused(text('["1e999999999"]'), real(1))


def test_shapes_must_agree():
    for file in (npy(np.zeros((3, 2))), text([[0, 0]] * 3)):
        refused(file, real(2, 3), "[2, 3]", "[3, 2]")
    refused(text([[1, 2], [3]]), real(2, 2), "regular")
    refused(text([[1, 2], 3]), real(2, 2), "regular")
    refused(text({"shape": [2], "data": [1, 2, 3]}), real(2), "shape")
    refused(text({"shape": [2, 1], "data": [1, 2]}), real(2, 1), "shape")
    refused(text({"shape": [-1], "data": []}), real(0))
    assert read(text([[], []]), real(2, 0)).data.shape == (2, 0)
    assert read(text({"shape": [0, 3], "data": []}), real(0, 3)).data.shape == (0, 3)


# --- indices, masks -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "file", [npy(np.array([[0, 4], [2, 1]])), npy(np.array([[0, 4], [2, 1]], dtype="u1")), text([[0, 4], [2, 1]])]
)
def test_indices(file):
    found = read(file, idx(5, 2, 2))
    assert (found.data.tolist(), found.data.dtype, found.bound) == ([[0, 4], [2, 1]], np.int64, 5)


@pytest.mark.parametrize("wrong", [5, -1, 200])
def test_an_index_outside_its_bound_is_named_with_its_place(wrong):
    for file in (npy(np.array([[0, 4], [wrong, 1]])), text([[0, 4], [wrong, 1]])):
        refused(file, idx(5, 2, 2), str(wrong), "x[1, 0]", "0 … 4")


def test_what_is_no_index():
    refused(npy(np.array([1.0])), idx(5, 1), "float64")
    refused(npy(np.array([True])), idx(5, 1), "bool")
    refused(text([1.5]), idx(5, 1), "1.5")
    refused(text([True]), idx(5, 1))


def test_bounds_beyond_64_bits():
    found = read(text([10**30 - 1]), idx(constant(10**30), 1))
    assert found.data.tolist() == [10**30 - 1]
    refused(text([10**30]), idx(constant(10**30), 1))
    assert read(text([2**63 - 1]), idx(constant(2**63), 1)).data.tolist() == [2**63 - 1]


def test_masks():
    for file in (npy(np.array([True, False])), text([True, False])):
        found = read(file, mask(2))
        assert found.data.tolist() == [True, False]
    for file in (npy(np.array([1, 0])), text([1, 0]), text(["true", "false"])):
        refused(file, mask(2), "truth values")


# --- numbers, keys, structures ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind, word, value",
    [
        ("nat", "7", mpq(7)),
        ("int", "-7", mpq(-7)),
        ("rat", "1/3", mpq(1, 3)),
        ("f64", "0.1", mpq(1, 10)),
        ("f64", "3e-4", mpq(3, 10000)),
        ("nat", "1e3", mpq(1000)),
    ],
)
def test_numbers(kind, word, value):
    for raw in (raw_of_word(word), raw_of_file(text(f'"{word}"'))):
        assert value_of(M, SCOPE, raw, HYPERS[kind], "n") == Number(value)


def test_numbers_of_arrays():
    assert read(npy(np.array(0.1)), HYPERS["f64"]) == Number(mpq(0.1))
    assert read(npy(np.array([3])), HYPERS["nat"]) == Number(mpq(3))
    assert read(npy(np.array(True)), HYPERS["bool"]) == Truth(True)


@pytest.mark.parametrize(
    "kind, word",
    [("nat", "-1"), ("nat", "1.5"), ("int", "0.5"), ("nat", "x"), ("rat", "true"), ("bool", "1"), ("bool", "yes")],
)
def test_numbers_of_another_kind(kind, word):
    with pytest.raises(Fault) as caught:
        value_of(M, SCOPE, raw_of_word(word), HYPERS[kind], "n")
    assert caught.value.code == "E8002"


def test_truth():
    assert value_of(M, SCOPE, raw_of_word("true"), HYPERS["bool"], "n") == Truth(True)
    assert value_of(M, SCOPE, raw_of_file(text(False)), HYPERS["bool"], "n") == Truth(False)


def test_keys():
    for word, key in (
        ("7", draws.master_key(7)),
        ("ab" * 32, bytes.fromhex("ab" * 32)),
        ("0" * 63 + "1", bytes(31) + b"\1"),
    ):
        assert value_of(M, SCOPE, raw_of_word(word), KeyType(), "k") == Key(key)
    for word in ("-1", "abc", "1.5", "true", str(2**256)):
        with pytest.raises(Fault):
            value_of(M, SCOPE, raw_of_word(word), KeyType(), "k")


def test_tuples_and_trees():
    type_ = Tuple((real(2), TREE, Tuple(())))
    content = [[1, 2], {"w": [[1, 2], [3, 4]], "b": {"data": ["5", "6"]}}, []]
    found = read(text(content), type_)
    assert fractions(found.items[0]) == [1, 2]
    assert list(found.items[1].fields) == ["w", "b"]
    assert fractions(found.items[1].fields["b"]) == [5, 6]
    refused(text(content[:2]), type_, "tuple of 3")
    refused(text({"a": 1}), type_, "tuple of 3")
    refused(text([[1, 2], [3], []]), type_, "parameter tree")
    assert "w, b" in refused(text([[1, 2], {"w": 0}, []]), type_, "lacks `b`").notes[0]
    refused(text([[1, 2], {"w": [[1, 2], [3, 4]], "b": [5, 6], "c": 0}, []]), type_, "has `c`")


def test_a_result_is_an_input():
    content = {"entry": "f", "result": [["1", "2"], {"w": [[1, 2], [3, 4]], "b": [5, 6]}, []]}
    assert isinstance(read(text(content), Tuple((real(2), TREE, Tuple(())))), Items)


def test_safetensors_hold_one_tensor_or_a_tree():
    assert fractions(read(tensors(anything=np.array([1.5, 2])), real(2))) == [mpq(3, 2), 2]
    found = read(tensors(w=np.eye(2, dtype=np.float32), b=np.array([5, 6], dtype=np.int64)), TREE)
    assert fractions(found.fields["w"]) == [[1, 0], [0, 1]]
    refused(tensors(a=np.zeros(2), b=np.zeros(2)), real(2), "2 names")
    deep: Any = raw_of_file(tensors(**{"l.a.w": np.zeros(1), "l.b": np.ones(1)}))
    assert isinstance(deep, dict)
    assert set(deep["l"]) == {"a", "b"}
    pair = read(tensors(**{"0": np.zeros(1), "1": np.ones(1)}), Tuple((real(1), real(1))))
    assert [fractions(item) for item in pair.items] == [[0], [1]]


def test_bfloat16():
    bits = np.array([0x3F80, 0xC040, 0x0001, 0x8000], dtype="<u2")
    header = json.dumps({"x": {"dtype": "BF16", "shape": [4], "data_offsets": [0, 8]}}).encode()
    file = Given("x.safetensors", struct.pack("<Q", len(header)) + header + bits.tobytes())
    assert fractions(read(file, real(4))) == [1, -3, mpq(1, 2**133), 0]


def test_functions_cannot_be_given():
    with pytest.raises(Fault) as caught:
        value_of(M, SCOPE, raw_of_word("1"), Function((), real()), "f")
    assert caught.value.code == "E9003"


# --- damaged files ------------------------------------------------------------------------------------------------------


def test_forms_that_are_not_read():
    with pytest.raises(Fault) as caught:
        raw_of_file(Given("x.csv", b"1,2"))
    assert (caught.value.code, "`x.csv`" in caught.value.message) == ("E9003", True)


def safe(header, data=b"") -> Given:
    encoded = header if isinstance(header, bytes) else json.dumps(header).encode()
    return Given("x.safetensors", struct.pack("<Q", len(encoded)) + encoded + data)


@pytest.mark.parametrize(
    "file",
    [
        Given("x.npy", b""),
        Given("x.npy", b"\x93NUMPY"),
        Given("x.npy", npy(np.zeros(4)).data[:-1]),
        Given("x.npy", npy(np.zeros(4)).data.replace(b"(4,)", b"(5,)")),
        npy(np.array([1 + 2j])),
        npy(np.array(["a"])),
        npy(np.zeros(2, dtype=[("a", "f8")])),
        Given("x.npy", b"PK\x03\x04 no archive"),
        Given("x.json", b""),
        Given("x.json", b"[1,"),
        Given("x.json", b"[1] 2"),
        Given("x.json", b"\xff\xfe"),
        Given("x.json", b"null"),
        Given("x.json", b"[null]"),
        Given("x.json", b'{"a": 1, "a": 2}'),
        Given("x.json", b"[" * 100_000),
        Given("x.json", b"[01]"),
        Given("x.safetensors", b""),
        Given("x.safetensors", b"\xff" * 8),
        Given("x.safetensors", struct.pack("<Q", 10) + b"{}"),
        safe(b"no json"),
        safe({"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}, b"1234"),
        safe({"x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, b"12345678"),
        safe({"x": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}}, b"12345678"),
        safe({"x": {"dtype": "F32", "shape": [3], "data_offsets": [0, 4]}}, b"1234"),
        safe(
            {
                "x": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]},
                "y": {"dtype": "U8", "shape": [4], "data_offsets": [2, 6]},
            },
            b"123456",
        ),
        safe(
            b'{"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}',
            b"1",
        ),
        safe({"x": {"dtype": "F8_E4M3", "shape": [1], "data_offsets": [0, 1]}}, b"1"),
        tensors(**{"a": np.zeros(1), "a.b": np.zeros(1)}),
    ],
    ids=range(29),
)
def test_damaged_files_are_data_faults(file):
    fault = refused(file, real(1))
    assert (fault.code, f"`{file.name}`" in fault.message) == ("E8002", True)


@settings(max_examples=300)
@examples(st.data())
def test_no_damage_escapes(data):
    """A file of any form with bytes changed, taken away or added is read or refused, never anything else."""
    file = data.draw(
        st.sampled_from(
            [npy(np.arange(6.0).reshape(2, 3)), text([[1, 2, 3], [4, 5, "6"]]), tensors(x=np.arange(6.0).reshape(2, 3))]
        )
    )
    content = bytearray(file.data)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(content)))
        change = data.draw(st.sampled_from(["set", "drop", "add"]))
        if change == "set" and place < len(content):
            content[place] = data.draw(st.integers(0, 255))
        elif change == "drop":
            del content[place : place + data.draw(st.integers(1, 20))]
        else:
            content[place:place] = data.draw(st.binary(max_size=5))
    damaged = Given(file.name, bytes(content))
    try:
        found: object = read(damaged, real(2, 3))
    except Fault as fault:
        found = fault
    assert isinstance(found, Real) or (isinstance(found, Fault) and found.code == "E8002")


# --- dimensions ---------------------------------------------------------------------------------------------------------


def lengths(type_, *given_lengths, **dims):
    found = dict(dims)
    prefix = given.infer_lengths(type_.shape, given_lengths, found, "x")
    return found, prefix


def test_lengths_determine_dimensions():
    assert lengths(real(("b", "B"), "T"), 3, 5) == ({"B": 3, "T": 5}, None)
    assert lengths(real("B", "B"), 3, 3) == ({"B": 3}, None)
    twice = real(real("N").shape.axes[0].length.scaled(mpq(2)) + constant(1))
    assert lengths(twice, 7) == ({"N": 3}, None)
    assert lengths(real(4, prefix=True), 2, 3, 4) == ({}, (2, 3))
    assert lengths(real(4, prefix=True), 4) == ({}, ())


@pytest.mark.parametrize(
    "type_, given_lengths, dims",
    [
        (real("B", "B"), (3, 4), {}),
        (real("B"), (3,), {"B": 2}),
        (real(4), (5,), {}),
        (real(4), (1, 4), {}),
        (real(4, 4), (4,), {}),
        (real(2, 4, prefix=True), (4,), {}),
        (real(real("N").shape.axes[0].length.scaled(mpq(2))), (7,), {}),
        (real(real("N").shape.axes[0].length - constant(-3)), (2,), {}),
    ],
)
def test_lengths_that_do_not_fit(type_, given_lengths, dims):
    with pytest.raises(Fault) as caught:
        lengths(type_, *given_lengths, **dims)
    assert caught.value.code == "E8002"
