"""Digests: BLAKE3 as published, in contexts."""

import pytest

from presk.cache.digest import DIGEST_SIZE, context, digest_in, parse_digest, shown, value_digest

# The official test vectors of BLAKE3 (test_vectors.json): derive_key of the inputs 0, 1, 2, ... 250, 0, 1, ...
VECTOR_CONTEXT = "BLAKE3 2019-12-27 16:29:52 test vectors context"
VECTORS = {
    0: "2cc39783c223154fea8dfb7c1b1660f2ac2dcbd1c1de8277b0b0dd39b7e50d7d",
    1: "b3e2e340a117a499c6cf2398a19ee0d29cca2bb7404c73063382693bf66cb06c",
    1024: "7356cd7720d5b66b6d0697eb3177d9f8d73a4a5c5e968896eb6a689684302706",
}


@pytest.mark.parametrize("length", VECTORS)
def test_published_vectors(length):
    data = bytes(i % 251 for i in range(length))
    assert digest_in(VECTOR_CONTEXT, data).hex() == VECTORS[length]


def test_contexts_keep_equal_bytes_apart():
    digests = {digest_in(context(name), b"same") for name in ("key a", "key b", "row")} | {value_digest(b"same")}
    assert len(digests) == 4
    assert all(len(digest) == DIGEST_SIZE for digest in digests)


def test_hexadecimal_form():
    digest = value_digest(b"")
    assert parse_digest(digest.hex()) == digest
    assert digest.hex().startswith(shown(digest))


@pytest.mark.parametrize("text", ["", "00", "g" * 64, "00" * 33, " " + "00" * 32, "0 0" * 22])
def test_other_texts_are_no_digests(text):
    with pytest.raises(ValueError):
        parse_digest(text)
