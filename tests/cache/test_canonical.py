"""The canonical encoding keeps different values apart, and equal ones together."""

import enum
import itertools
import math
import struct
from types import MappingProxyType

import numpy
import pytest
from gmpy2 import mpq, mpz
from hypothesis import given
from hypothesis import strategies as st

from presk.cache.canonical import canonical, decanonical

SIMILAR: tuple[object, ...] = (
    None,
    False,
    True,
    0,
    1,
    -1,
    1.0,
    0.0,
    -0.0,
    math.inf,
    math.nan,
    "",
    "1",
    "nan",
    b"",
    b"1",
    mpz(0),
    mpz(1),
    mpq(1),
    mpq(1, 2),
    2**63,
    2**64 - 1,
    2**64,
    -(2**63),
    -(2**63) - 1,
    mpz(2**64),
    (),
    (None,),
    (1,),
    (1, 1),
    ((1,),),
    ((), ()),
    (("a", 1),),
    {},
    {"a": 1},
    {"a": None},
    {"a": 1, "b": None},
    frozenset(),
    frozenset((1,)),
    frozenset((b"\x01",)),
    "é",
    "e\u0301",
)


def test_similar_values_differ():
    encodings = [canonical(value) for value in SIMILAR]
    for (a, x), (b, y) in itertools.combinations(zip(SIMILAR, encodings, strict=True), 2):
        assert x != y, (a, b)


def test_one_in_all_its_forms_and_its_absence():
    forms = (1, 1.0, True, "1", b"1", None, mpz(1), mpq(1))
    assert len({canonical((form,)) for form in forms} | {canonical(())}) == len(forms) + 1
    assert len({canonical({"n": form}) for form in forms} | {canonical({})}) == len(forms) + 1


def test_the_two_zeros_differ():
    assert canonical(0.0) != canonical(-0.0)


def test_all_nans_are_one():
    quiet, negative, payload = (
        struct.unpack("<d", struct.pack("<Q", bits))[0]
        for bits in (0x7FF8000000000000, 0xFFF8000000000000, 0x7FF8000000000123)
    )
    assert canonical(quiet) == canonical(negative) == canonical(payload)
    assert canonical((1, payload)) == canonical((1, quiet))
    assert math.isnan(decanonical(canonical(negative)))


def test_the_order_of_mappings_and_sets_does_not_count():
    assert canonical({"a": 1, "b": 2}) == canonical(MappingProxyType({"b": 2, "a": 1}))
    names = [f"name{i}" for i in range(50)]
    assert canonical(frozenset(names)) == canonical(frozenset(reversed(names)))


def test_the_encoding_is_the_same_in_every_process():
    """Bytes that were worked out by hand from the msgpack specification."""
    assert canonical((1, "a", b"a", None, True, 1.5)) == b"\x96\x01\xa1a\xc4\x01a\xc0\xc3\xcb\x3f\xf8" + bytes(6)
    assert canonical({"b": 1, "a": -1}) == b"\x82\xa1a\xff\xa1b\x01"
    assert canonical(2**64) == b"\xc7\x09\x03\x01" + bytes(8)


class Colour(enum.Enum):
    RED = 1


class Number(enum.IntEnum):
    ONE = 1


class Text(str):
    pass


@pytest.mark.parametrize(
    "value",
    [
        [1],
        {1},
        {1: "a"},
        {b"a": 1},
        object(),
        1j,
        Colour.RED,
        Number.ONE,
        Text("a"),
        numpy.float64(1.0),
        numpy.int64(1),
        numpy.zeros(1),
        bytearray(b"a"),
        range(2),
    ],
)
def test_other_types_are_refused(value):
    for nested in (value, (value,), {"a": value}, (1, (value,))):
        with pytest.raises(TypeError):
            canonical(nested)


def test_a_lone_surrogate_has_no_encoding():
    with pytest.raises(UnicodeEncodeError):
        canonical("\ud800")


numbers = st.integers() | st.integers().map(mpz) | st.fractions().map(lambda q: mpq(q.numerator, q.denominator))
scalars = st.none() | st.booleans() | numbers | st.floats(allow_nan=False) | st.text() | st.binary()
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4).map(tuple) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def same(a, b):
    """Equality that keeps types and the sign of zero apart."""
    if type(a) is not type(b):
        return False
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[name], b[name]) for name in a)
    if isinstance(a, float):
        return struct.pack("<d", a) == struct.pack("<d", b)
    return a == b


@given(values)
def test_decoding_gives_the_value_back(value):
    assert same(decanonical(canonical(value)), value)


@given(values, values)
def test_equal_encodings_mean_the_same_value(a, b):
    assert (canonical(a) == canonical(b)) == same(a, b)


@given(st.frozensets(st.integers() | st.text() | st.binary(), max_size=6))
def test_sets_come_back(value):
    assert decanonical(canonical(value)) == value


@given(values, st.data())
def test_damaged_bytes_are_an_error_or_another_value(value, data):
    encoded = bytearray(canonical(value))
    at = data.draw(st.integers(0, len(encoded) - 1))
    encoded[at] ^= data.draw(st.integers(1, 255))
    try:
        decoded = decanonical(bytes(encoded))
    except (ValueError, OverflowError):
        return
    assert not same(decoded, value) or canonical(decoded) != bytes(encoded)
