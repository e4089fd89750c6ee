"""The stages of lowering: one for each function, for each module's initializer, for each function of an optimizer."""

from typing import Final

import msgspec

from presk.cache.codec import Codec, struct_codec
from presk.cache.stage import Stage
from presk.core.lower import Callees, Lowered, Mode, lower_function, lower_init
from presk.core.optimizer import Optimizer, lower_optimizer
from presk.elab.codecs import PACKAGES
from presk.elab.entities import ModuleHeader
from presk.types.type import ModuleRef
from presk.typing.typed import FunctionRef, Typed, TypedFunction


class CalleeName(msgspec.Struct, frozen=True, array_like=True):
    """What a function needs to know of one that it calls: its name in the core, and the defaults of its parameters."""

    function: FunctionRef
    name: str
    defaults: tuple[Typed | None, ...]


class InitName(msgspec.Struct, frozen=True, array_like=True):
    """The name of a module's initializer, with the module's header; `shared` says that it has one for all its instances."""

    name: str
    header: ModuleHeader
    shared: bool


class Names(msgspec.Struct, frozen=True, array_like=True):
    """Everything that the lowering of one declaration needs beside it: its own name, its callees, the initializers."""

    own: str
    callees: tuple[CalleeName, ...]
    inits: tuple[InitName, ...]


NAMES: Final[Codec[Names]] = struct_codec(Names)
HEADER: Final[Codec[ModuleHeader]] = struct_codec(ModuleHeader, "lowered header")
OPTIMIZER: Final[Codec[Optimizer]] = struct_codec(Optimizer)
LOWERED: Final[Codec[Lowered]] = struct_codec(Lowered)


def _callees(function: FunctionRef | None, names: Names) -> Callees:
    known = {callee.function: callee for callee in names.callees}
    inits = {init.header.ref: init for init in names.inits}

    def name(ref: FunctionRef) -> str:
        return names.own if ref == function else known[ref].name

    def init_name(ref: ModuleRef) -> str:
        return inits[ref].name if ref in inits else names.own

    headers = {ref: init.header for ref, init in inits.items()}
    return Callees(name, init_name, lambda ref: known[ref].defaults, headers, lambda ref: inits[ref].shared)


def _lower(function: TypedFunction, names: Names, *, mode: str) -> Lowered:
    own = FunctionRef(function.signature.file, function.signature.module, function.signature.name, function.axes)
    return lower_function(function, _callees(own, names), Mode(mode))


def _lower_init(header: ModuleHeader, names: Names) -> Lowered:
    return lower_init(header, _callees(None, names))


def _lower_optimizer(optimizer: Optimizer, *, function: str) -> Lowered:
    return lower_optimizer(optimizer, function)


LOWER: Final = Stage("lower", __name__, ("mode",), _lower, LOWERED, PACKAGES)
LOWER_INIT: Final = Stage("lower init", __name__, (), _lower_init, LOWERED, PACKAGES)
LOWER_OPTIMIZER: Final = Stage("lower optimizer", __name__, ("function",), _lower_optimizer, LOWERED, PACKAGES)
