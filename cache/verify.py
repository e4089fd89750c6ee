"""Recomputing a sample of the stored answers, to find stages that are not functions of their ingredients.

An answer is computed again from its stored inputs by an engine of its own, without the store, and its bytes are
compared. Where they differ both are put aside in the store's quarantine and the answer is removed. Only answers made
by the present code can be checked; the others are counted with the reason why they were not.
"""

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct

from presk.cache.canonical import decanonical
from presk.cache.codec import BYTES, TEXT, Codec
from presk.cache.digest import Digest, context, digest_in
from presk.cache.engine import Engine
from presk.cache.handles import Answer, Group, Handle, Leaf
from presk.cache.layout import QUARANTINE, RECORDS
from presk.cache.record import GROUP_CODEC, Ingredient, decode_entries
from presk.cache.stage import Stage
from presk.cache.store import Store

_SAMPLE: Final = context("sample")
_QUARANTINED_MAX: Final = 64


class Mismatch(Struct, frozen=True):
    """An answer that is computed otherwise now. ``files`` holds the stored and the computed bytes, where possible."""

    stage: str
    subject: str
    key: Digest
    stored: Digest
    computed: Digest
    files: tuple[str, ...]


class Verified(Struct, frozen=True):
    """How many answers were computed again, why others were not (reason → number), and which differ."""

    checked: int
    skipped: Mapping[str, int]
    mismatches: tuple[Mismatch, ...]


def verify(
    engine: Engine,
    stages: Iterable[Stage[Any]],
    codecs: Iterable[Codec[Any]] = (),
    sample: int | None = 20,
    seed: int = 0,
) -> Verified:
    """Computes a sample of the answers of ``stages`` again; all of them without a ``sample``.

    ``codecs`` decodes given inputs (those of the stages, of bytes and of text are known). Which answers are in the
    sample depends on ``seed``. An exception of a stage passes through.
    """
    store = engine.store
    if store is None:
        return Verified(0, {}, ())
    store.flush()
    known = {stage.name: stage for stage in stages}
    given: tuple[Codec[Any], ...] = (BYTES, TEXT, *(stage.codec for stage in known.values()), *codecs)
    decoders = {codec.name: codec for codec in given}
    skipped: Counter[str] = Counter()
    mismatches: list[Mismatch] = []
    checked = 0
    salt = seed.to_bytes(8, "big", signed=True)
    for row in sorted(store.rows.keys(RECORDS), key=lambda row: digest_in(_SAMPLE, salt + row)):
        if checked == sample:
            break
        try:
            mismatch = _verify_one(engine, store, Digest(row[1:]), known, decoders)
        except _SkipError as reason:
            skipped[str(reason)] += 1
            continue
        checked += 1
        if mismatch is not None:
            mismatches.append(mismatch)
    return Verified(checked, skipped, tuple(mismatches))


class _SkipError(Exception):
    """An answer cannot be computed again; the text says why."""


def _verify_one(
    engine: Engine, store: Store, key: Digest, stages: Mapping[str, Stage[Any]], codecs: Mapping[str, Codec[Any]]
) -> Mismatch | None:
    record = store.record(key)
    if record is None:
        raise _SkipError("the record is damaged")
    stage = stages.get(record.stage)
    if stage is None:
        raise _SkipError("the stage is not known")
    scratch = Engine(None, fingerprints=engine.fingerprints)
    code = scratch.fingerprints.of(stage.module, stage.packages).digest
    if record.codec != stage.codec.name or any(one.kind == "code" and one.digest != code for one in record.ingredients):
        raise _SkipError("it was made by other code")
    stored = store.value(record.value)
    if stored is None:
        raise _SkipError("the value is not kept")
    inputs = [_input(scratch, store, one, codecs) for one in record.ingredients if one.kind in ("input", "group")]
    options = {one.name: decanonical(one.data) for one in record.ingredients if one.kind == "option"}
    answer = scratch.get(stage, *inputs, subject=record.subject, **options)
    if isinstance(answer, Answer) and answer.transient:
        raise _SkipError("it is transient now")
    if answer.digest == record.value:
        return None
    computed = stage.codec.encode(answer.value)
    files = _quarantine(store, key, stored, computed)
    store.forget(key)
    store.discard(record.value)
    return Mismatch(record.stage, record.subject, key, record.value, answer.digest, files)


def _input(engine: Engine, store: Store, one: Ingredient, codecs: Mapping[str, Codec[Any]]) -> Handle[Any]:
    """An input as it was, from its stored bytes."""
    data = store.value(one.digest)
    if data is None:
        raise _SkipError("an input is not kept")
    if one.codec == GROUP_CODEC:
        entries = decode_entries(data)
        return Group(
            engine,
            one.name,
            {
                name: _input(engine, store, Ingredient(name, "input", codec, held), codecs)
                for name, codec, held in entries
            },
        )
    codec = codecs.get(one.codec)
    if codec is None:
        raise _SkipError(f"the encoding of an input ({one.codec}) is not known")
    return Leaf(engine, one.name, codec.decode(data), data, one.codec)


def _quarantine(store: Store, key: Digest, stored: bytes, computed: bytes) -> tuple[str, ...]:
    """Puts both values aside for whoever looks into it."""
    folder = os.path.join(store.root, QUARANTINE)
    paths = tuple(os.path.join(folder, f"{key.hex()}.{which}") for which in ("stored", "computed"))
    try:
        store.files.make_folder(folder)
        if len(store.files.listing(folder)) >= _QUARANTINED_MAX:
            return ()
        for path, data in zip(paths, (stored, computed), strict=True):
            if not os.path.lexists(path):
                store.files.create(path, data)
    except OSError:
        return ()
    return paths
