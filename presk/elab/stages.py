"""The stages of elaboration: each a pure function of a declaration's tree and its environment."""

from collections.abc import Mapping
from typing import Final

import msgspec

from presk.cache.codec import struct_codec
from presk.cache.stage import Stage
from presk.diagnostics.value import Diagnostic
from presk.elab.assertions import decide_assertion
from presk.elab.codecs import ELABORATED, PACKAGES
from presk.elab.config import Sources, resolve_optimizer, resolve_serve, resolve_training
from presk.elab.constants import elaborate_alias, elaborate_constant, elaborate_dimension
from presk.elab.data import DataFile, read_head, sample_type
from presk.elab.entities import Elaborated, ModuleHeader
from presk.elab.environment import env_of
from presk.elab.modules import Outline, elaborate_header, elaborate_model
from presk.elab.records import DataInfo, Record
from presk.elab.signatures import elaborate_signature
from presk.syntax import tree
from presk.syntax.layout import cut
from presk.syntax.lexer import lex
from presk.syntax.parse import parse_chunk
from presk.types.decide import Decider
from presk.types.dim import Dim

Entries = Mapping[str, Elaborated | str]


class Resolved(msgspec.Struct, frozen=True, array_like=True):
    """A configuration block's record, None where something that it needs was refused, and what was said."""

    record: Record | None
    diagnostics: tuple[Diagnostic, ...]


class DataHead(msgspec.Struct, frozen=True, array_like=True):
    """What is known of a data file: its head, or why it cannot be read; neither where there is no such file."""

    info: DataInfo | None = None
    problem: str | None = None


SOURCES: Final = struct_codec(Sources)
_DATA_HEAD: Final = struct_codec(DataHead)
_RESOLVED: Final = struct_codec(Resolved)
_DIAGNOSTICS: Final = struct_codec(tuple[Diagnostic, ...], "diagnostics")


def _constant(const: tree.Const, env: Entries, override: Dim | None) -> Elaborated:
    return Elaborated(*elaborate_constant(const, env_of(env), Decider(), override))


def _dimension(decl: tree.DimDecl, env: Entries) -> Elaborated:
    return Elaborated(*elaborate_dimension(decl, env_of(env), Decider()))


def _alias(alias: tree.TypeAlias, env: Entries) -> Elaborated:
    return Elaborated(*elaborate_alias(alias, env_of(env), Decider()))


def _header(outline: Outline, env: Entries) -> Elaborated:
    return Elaborated(*elaborate_header(outline, env_of(env), Decider()))


def _model(model: tree.Model, env: Entries) -> Elaborated:
    return Elaborated(*elaborate_model(model, env_of(env), Decider()))


def _signature(function: tree.Fn, env: Entries, module: Elaborated, *, chunk: str) -> Elaborated:
    header = module.entity if isinstance(module.entity, ModuleHeader) else None
    return Elaborated(*elaborate_signature(function, chunk, header, env_of(env), Decider()))


def _assertion(assertion: tree.StaticAssert, env: Entries) -> tuple[Diagnostic, ...]:
    return decide_assertion(assertion, env_of(env), Decider())


def _data(file: DataFile) -> DataHead:
    if file.head is None:
        return DataHead(problem=file.problem)
    found = read_head(file.head)
    if isinstance(found, str):
        return DataHead(problem=found)
    type_ = _parsed_type(found.sample)
    sample = None if type_ is None else sample_type(type_, Decider())
    if sample is None:
        return DataHead(problem="its sample type is not one of tensors with literal lengths")
    return DataHead(DataInfo(sample, found.count, found.window))


def _parsed_type(text: str) -> tree.TypeExpr | None:
    """A type from its text; None if the text is not one type."""
    units = cut(lex(f"type sample = {text}".encode())).file.units
    if len(units) != 1 or units[0].parts:
        return None
    node = parse_chunk(units[0].chunk).node
    return node.type if isinstance(node, tree.TypeAlias) else None


def _optimizer(block: tree.Block, env: Entries, *, whole: bool) -> Resolved:
    return Resolved(*resolve_optimizer(block, env_of(env), Decider(), whole))


def _training(block: tree.Block, env: Entries, sources: Sources, data: DataHead, *, whole: bool) -> Resolved:
    found = data.info if data.problem is None else data.problem
    return Resolved(*resolve_training(block, env_of(env), sources, found, Decider(), whole))


def _serve(block: tree.Block, env: Entries, sources: Sources, *, whole: bool) -> Resolved:
    return Resolved(*resolve_serve(block, env_of(env), sources, Decider(), whole))


CONSTANT: Final = Stage("constant", __name__, (), _constant, ELABORATED, PACKAGES)
DIMENSION: Final = Stage("dimension", __name__, (), _dimension, ELABORATED, PACKAGES)
ALIAS: Final = Stage("alias", __name__, (), _alias, ELABORATED, PACKAGES)
HEADER: Final = Stage("module", __name__, (), _header, ELABORATED, PACKAGES)
MODEL: Final = Stage("model", __name__, (), _model, ELABORATED, PACKAGES)
SIGNATURE: Final = Stage("signature", __name__, ("chunk",), _signature, ELABORATED, PACKAGES)
ASSERTION: Final = Stage("assertion", __name__, (), _assertion, _DIAGNOSTICS, PACKAGES)
DATA: Final = Stage("data", __name__, (), _data, _DATA_HEAD, PACKAGES)
OPTIMIZER: Final = Stage("optimizer", __name__, ("whole",), _optimizer, _RESOLVED, PACKAGES)
TRAINING: Final = Stage("training", __name__, ("whole",), _training, _RESOLVED, PACKAGES)
SERVE: Final = Stage("inference", __name__, ("whole",), _serve, _RESOLVED, PACKAGES)
