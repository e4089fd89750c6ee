"""Texts as tokens and back."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from presk.data.vocabulary import Malformed, Vocabulary, characters_of, vocabulary_of
from presk.exact.faults import Fault

WORDS = Vocabulary(("a", "b", "ab", "abc", "é", "\n"))


def test_characters_are_in_the_order_of_their_code_points():
    found = characters_of("zebra, Äpfel 😀\n")
    assert found.tokens == tuple(sorted(set("zebra, Äpfel 😀\n"), key=ord))
    assert found.tokens[:2] == ("\n", " ")
    assert found.encode("bra", "it").tolist() == [found.tokens.index(one) for one in "bra"]


@given(st.text(min_size=1))
def test_characters_there_and_back(text):
    vocabulary = characters_of(text)
    tokens = vocabulary.encode(text, "it")
    assert tokens.max() < vocabulary.size
    assert vocabulary.decode(tokens) == text
    assert vocabulary_of(vocabulary.spelled()) == vocabulary


@given(st.text())
def test_bytes_there_and_back(text):
    vocabulary = Vocabulary()
    tokens = vocabulary.encode(text, "it")
    assert bytes(tokens.tolist()) == text.encode()
    assert vocabulary.decode(tokens) == text
    assert vocabulary_of(vocabulary.spelled()) == vocabulary
    assert vocabulary.size == 256


@pytest.mark.parametrize(
    "text, tokens",
    [("", []), ("ab", [2]), ("abc", [3]), ("abcab\nba", [3, 2, 5, 1, 0]), ("aab", [0, 2]), ("éab", [4, 2])],
)
def test_the_longest_token_is_taken(text, tokens):
    assert WORDS.encode(text, "it").tolist() == tokens
    assert WORDS.decode(tokens) == text


@given(st.lists(st.sampled_from(WORDS.tokens or ())).map("".join))
def test_texts_there_and_back(text):
    assert WORDS.decode(WORDS.encode(text, "it")) == text


@pytest.mark.parametrize("vocabulary", [WORDS, Vocabulary(tuple("abé\n"))])
@pytest.mark.parametrize(
    "text, where",
    [
        ("x", "line 1, column 1 of it: `x` (U+0078)"),
        ("ab\na\tb", "line 2, column 2 of it: U+0009"),
        ("é\n\né\n😀", "line 4, column 1 of it: `😀` (U+1F600)"),
        ("abb" * 1000 + "\x9b", "line 1, column 3001 of it: U+009B"),
        ("a\udc80", "line 1, column 2 of it: U+DC80"),
    ],
)
def test_a_character_without_a_token(vocabulary, text, where):
    with pytest.raises(Fault) as caught:
        vocabulary.encode(text, "it")
    assert caught.value.code == "E8004"
    assert caught.value.message == f"no token of the vocabulary stands at {where}"


@pytest.mark.parametrize(
    "spelled, why",
    [
        ("", "no JSON list"),
        ("chars", "no JSON list"),
        ("{}", "no JSON list"),
        ('["a", 1]', "no JSON list"),
        (b'["\xff"]', "no JSON list"),
        ('["\\ud800"]', "no JSON list"),
        ("[" * 100_000, "no JSON list"),
        ("[]", "no token"),
        ('["a", ""]', "the empty text"),
        ('["b", "a", "c", "a"]', "the token `a` twice"),
    ],
)
def test_what_is_no_vocabulary(spelled, why):
    with pytest.raises(Malformed, match=why):
        vocabulary_of(spelled)


def test_descriptions():
    assert [one.description() for one in (Vocabulary(), Vocabulary(("a", "b")), WORDS)] == [
        "256 bytes",
        "2 characters",
        "6 texts",
    ]
    assert json.loads(WORDS.spelled()) == ["a", "b", "ab", "abc", "é", "\n"]


@given(st.text(), st.integers(1, 5))
def test_characters_of_bytes_come_whole(text, step):
    decoder = Vocabulary().decoder()
    data = text.encode()
    parts = [decoder.feed(data[at : at + step]) for at in range(0, len(data), step)]
    assert "".join(parts) + decoder.close() == text
    assert "\ufffd" in text or not any("\ufffd" in part for part in parts)


def test_bytes_that_are_no_characters():
    decoder = Vocabulary().decoder()
    assert [decoder.feed([one]) for one in (0xC3, 0x41, 0xE2, 0x82)] == ["", "\ufffdA", "", ""]
    assert decoder.close() == "\ufffd"
    assert Vocabulary().decode([0xC3, 0x41]) == "\ufffdA"


def test_texts_come_as_they_are():
    decoder = WORDS.decoder()
    assert [decoder.feed([one]) for one in (3, 4)] == ["abc", "é"]
    assert decoder.close() == ""
    assert WORDS.decode(np.array([3, 4], dtype=np.int64)) == "abcé"
