"""Codecs: values come back as they were, and bytes that are none are an error."""

import math
import struct
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from gmpy2 import mpq, mpz
from hypothesis import given
from hypothesis import strategies as st

from presk.cache.codec import BYTES, TEXT, Codec, struct_codec


class Literal(msgspec.Struct, frozen=True, tag=True, array_like=True):
    value: mpq
    index: mpz
    weight: float = 0.0


class Sum(msgspec.Struct, frozen=True, tag=True, array_like=True):
    parts: tuple["Literal | Sum", ...]
    scale: mpq | None = None


class Names(msgspec.Struct, frozen=True, array_like=True):
    known: frozenset[str]
    table: Mapping[str, int]


EXPRESSION = struct_codec(Literal | Sum, "expression")
NAMES = struct_codec(Names)

rationals = st.fractions().map(lambda q: mpq(q.numerator, q.denominator))
literals = st.builds(Literal, rationals, st.integers().map(mpz), st.floats(allow_nan=False))
expressions = st.recursive(
    literals,
    lambda inner: st.builds(Sum, st.lists(inner, max_size=4).map(tuple), st.none() | rationals),
    max_leaves=10,
)


@given(expressions)
def test_struct_values_come_back(value):
    data = EXPRESSION.encode(value)
    back = EXPRESSION.decode(data)
    assert back == value
    assert EXPRESSION.encode(back) == data


def test_numbers_keep_their_type_and_have_any_size():
    value = Literal(mpq(2**4000 + 1, 3**2000), mpz(-(2**5000)))
    back = EXPRESSION.decode(EXPRESSION.encode(value))
    assert back == value
    assert (type(back.value), type(back.index)) == (type(mpq()), type(mpz()))


def test_zeros_and_nans_keep_their_bits():
    payload = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000123))[0]
    for number in (0.0, -0.0, payload):
        back = EXPRESSION.decode(EXPRESSION.encode(Literal(mpq(0), mpz(0), number)))
        assert struct.pack("<d", back.weight) == struct.pack("<d", number)
    assert math.isnan(payload)


def test_sets_and_mappings_encode_in_one_order():
    words = [f"word{i}" for i in range(40)]
    a = Names(frozenset(words), dict.fromkeys(words, 1))
    b = Names(frozenset(reversed(words)), dict.fromkeys(reversed(words), 1))
    assert NAMES.encode(a) == NAMES.encode(b)
    assert NAMES.decode(NAMES.encode(a)) == a


def test_what_is_absent_has_an_encoding():
    optional = struct_codec(bytes | None, "file")
    assert optional.decode(optional.encode(None)) is None
    assert optional.encode(None) != optional.encode(b"")


def test_a_number_of_another_type_is_refused_when_it_comes_back():
    """A field is not checked when a Struct is made; `roundtrip` engines find it."""
    with pytest.raises(ValueError):
        EXPRESSION.decode(EXPRESSION.encode(Literal(mpq(1), 1)))


@pytest.mark.parametrize("codec", [EXPRESSION, NAMES, TEXT])
@pytest.mark.parametrize("data", [b"\xff", b"\xc1", b"\x93\xa3Lit", b"\xd4\x09\x00", b"\xd4\x02\x00"])
def test_bytes_that_are_no_value_are_a_value_error(codec, data):
    with pytest.raises(ValueError):
        codec.decode(data)


def test_bytes_and_text_take_their_own_type_only():
    assert BYTES.decode(BYTES.encode(b"a\xff")) == b"a\xff"
    assert TEXT.decode(TEXT.encode("θ")) == "θ"
    wrong: tuple[tuple[Codec[Any], object], ...] = ((BYTES, "a"), (BYTES, bytearray(b"a")), (TEXT, b"a"))
    for codec, value in wrong:
        with pytest.raises(TypeError):
            codec.encode(value)


def test_names_of_codecs_tell_types_apart():
    names = {EXPRESSION.name, NAMES.name, BYTES.name, TEXT.name, struct_codec(Literal).name, struct_codec(Sum).name}
    assert len(names) == 6
    assert struct_codec(Literal).name == struct_codec(Literal).name
    assert "test_codec.Literal" in struct_codec(Literal).name


@pytest.mark.parametrize("kind", [Literal | Sum, tuple[Literal, ...], bytes | None])
def test_a_type_without_a_name_needs_one(kind):
    with pytest.raises(TypeError, match="needs a name"):
        struct_codec(kind)


def test_a_value_that_has_no_encoding_is_a_type_error():
    with pytest.raises(TypeError):
        EXPRESSION.encode(Literal(mpq(1), object()))
