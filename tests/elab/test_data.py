"""The head of a data file, and the match of its samples with an objective's."""

import json

import pytest

from presk.elab.data import MAX_HEADER, Head, Mismatch, header_size, match_samples, read_head, sample_type, solve
from presk.elab.entities import DimEntity
from presk.types.decide import Decider
from presk.types.dim import constant, symbol
from presk.types.type import Type
from tests.elab.support import env_with, type_expr, type_of

SYMBOLIC = env_with(DimEntity("T"), DimEntity("V"), DimEntity("S"))


def head(metadata: object, **more: object) -> bytes:
    text = json.dumps({"__metadata__": metadata, **more}).encode()
    return len(text).to_bytes(8, "little") + text


GOOD = {"presk.sample": "idx[65][seq: 8]", "presk.count": "12"}


def test_a_head() -> None:
    tensor = {"base.0": {"dtype": "U8", "shape": [12, 8], "data_offsets": [0, 96]}}
    assert read_head(head(GOOD, **tensor)) == Head("idx[65][seq: 8]", 12, None)
    assert read_head(head({**GOOD, "presk.window": "9 1"})) == Head("idx[65][seq: 8]", 12, (9, 1))
    assert read_head(head({**GOOD, "presk.vocab": "abc"}) + bytes(96)) == Head("idx[65][seq: 8]", 12, None)


@pytest.mark.parametrize(
    "data, why",
    [
        (b"", "does not begin"),
        (b"abc", "does not begin"),
        (bytes(8), "does not begin"),
        (b"\xff" * 16, "does not begin"),
        ((MAX_HEADER + 1).to_bytes(8, "little"), "does not begin"),
        ((50).to_bytes(8, "little") + b"{}", "cut off"),
        ((2).to_bytes(8, "little") + b"{}", "lacks `presk.sample`"),
        ((4).to_bytes(8, "little") + b"null", "not valid JSON"),
        ((3).to_bytes(8, "little") + b"{\xff}", "not valid JSON"),
        (head({"presk.sample": 3}), "not valid JSON"),
        (head({"presk.sample": "ℝ[3]"}), "lacks `presk.count`"),
        (head({**GOOD, "presk.count": "-3"}), "presk.count"),
        (head({**GOOD, "presk.count": "1" * 30}), "presk.count"),
        (head({**GOOD, "presk.window": "0 1"}), "presk.window"),
        (head({**GOOD, "presk.window": "9"}), "presk.window"),
        ((200_000).to_bytes(8, "little") + b"[" * 200_000, "not valid JSON"),
        ((200_005).to_bytes(8, "little") + b'{"a":' + b"[" * 200_000, "not valid JSON"),
    ],
)
def test_what_is_no_data_file(data: bytes, why: str) -> None:
    found = read_head(data)
    assert isinstance(found, str)
    assert why in found


def test_the_length_of_a_header() -> None:
    assert header_size((17).to_bytes(8, "little")) == 17
    assert header_size(bytes(7)) is None


@pytest.mark.parametrize("text", ["idx[65][seq: 8]", "(ℝ[3], (bool[2], idx[4]))", "ℝ[]", "()"])
def test_sample_types(text: str) -> None:
    assert str(sample_type(type_expr(text), Decider())) == text


@pytest.mark.parametrize("text", ["ℝ[T]", "ℝ[..., 3]", "nat", "(ℝ, key)", "Acts", "params M"])
def test_what_is_no_sample_type(text: str) -> None:
    assert sample_type(type_expr(text), Decider()) is None


def pair(wanted: str, found: str) -> tuple[Type, Type]:
    return type_of(wanted, SYMBOLIC), type_of(found)


@pytest.mark.parametrize(
    "wanted, found, values",
    [
        ("idx[65][seq: T]", "idx[65][seq: 128]", {"T": 128}),
        ("idx[65][seq: T]", "idx[60][128]", {"T": 128}),
        ("idx[V][seq: 8]", "idx[60][seq: 8]", {"V": 60}),
        ("(idx[V][T + 1], ℝ[T])", "(idx[9][5], ℝ[4])", {"T": 4, "V": 9}),
        ("(idx[T][3], ℝ[T])", "(idx[4][3], ℝ[5])", {"T": 5}),
        ("(ℝ[], bool[2*S])", "(ℝ[], bool[6])", {"S": 3}),
        ("ℝ[3]", "ℝ[x: 3]", {}),
    ],
)
def test_samples_that_match(wanted: str, found: str, values: dict[str, int]) -> None:
    matched = match_samples(*pair(wanted, found))
    assert matched == {name: constant(value) for name, value in values.items()}


@pytest.mark.parametrize(
    "wanted, found, said",
    [
        ("ℝ[3]", "idx[3][3]", "ℝ[3]"),
        ("ℝ[3]", "ℝ[4]", "axis 0"),
        ("ℝ[a: 3, b: 4]", "ℝ[a: 3, c: 4]", "`b`"),
        ("ℝ[a: 3, b: 4]", "ℝ[a: 3, b: 5]", "axis `b`"),
        ("ℝ[3]", "ℝ[3, 3]", "1 axes, the file's 2"),
        ("(ℝ, ℝ)", "(ℝ, ℝ, ℝ)", "2 parts, the file's 3"),
        ("(ℝ, ℝ[2])", "(ℝ, ℝ[3])", "of part 1"),
        ("ℝ[T, T]", "ℝ[2, 3]", "is 2, in the file 3"),
        ("ℝ[2*T]", "ℝ[3]", "2*T"),
        ("ℝ[T + 5]", "ℝ[3]", "T + 5"),
        ("idx[60][2]", "idx[65][2]", "bound is 60, the file's 65"),
        ("(idx[T], ℝ[T])", "(idx[6], ℝ[5])", "bound of part 0 is 5, the file's 6"),
        ("idx[S + T]", "idx[6]", "S + T"),
    ],
)
def test_samples_that_do_not(wanted: str, found: str, said: str) -> None:
    matched = match_samples(*pair(wanted, found))
    assert isinstance(matched, Mismatch)
    assert said in matched.words


def test_solving_one_symbol() -> None:
    assert solve(symbol("T").scaled(constant(2).constant) + constant(1), constant(7)) == ("T", constant(3))
    assert solve(symbol("T"), symbol("S")) is None
    assert solve(symbol("T") + symbol("S"), constant(3)) is None
    assert solve(constant(3), constant(3)) is None
    assert solve(symbol("T") + constant(4), constant(3)) is None
