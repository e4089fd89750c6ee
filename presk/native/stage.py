"""The stage of a driver: an entry at its dimensions, in machine types, as launches over an arena."""

from typing import Final

import msgspec

from presk.ad.pipeline import AfterAd
from presk.cache.codec import Codec, struct_codec
from presk.cache.stage import Stage
from presk.elab.codecs import PACKAGES
from presk.elab.entities import ModuleHeader
from presk.exact.closing import closed
from presk.kernels.ir import Elem
from presk.kernels.layout import Layout
from presk.kernels.nest import Arith
from presk.kernels.targets import LEVELS
from presk.kernels.trace.coalesce import coalesce
from presk.kernels.trace.memory import Driver, plan
from presk.kernels.trace.rotate import rotate
from presk.kernels.trace.tracer import Question, trace
from presk.realize.record import MachineType, Realization, resolver

NATIVE_PACKAGES: Final = (*PACKAGES, "numpy")


class At(msgspec.Struct, frozen=True, array_like=True):
    """What decides a driver beside the program: see `presk.kernels.trace.tracer.Question`. `level` is a machine level's name."""

    entry: str
    headers: tuple[ModuleHeader, ...]
    dims: tuple[tuple[str, int], ...]
    prefix: tuple[int, ...]
    realization: Realization
    layouts: tuple[tuple[str, Layout], ...]
    level: str
    fused: bool
    carried: tuple[tuple[str, str], ...] = ()


AT: Final[Codec[At]] = struct_codec(At)


def arith(type_: MachineType) -> Arith:
    """A machine type as nests know it."""
    return Arith(Elem(type_.storage), Elem(type_.arithmetic), Elem(type_.accumulate))


def _driver(after: AfterAd, at: At) -> Driver:
    types = resolver(at.realization)
    known: dict[MachineType, Arith] = {}

    def of(function: str, var: int) -> Arith:
        type_ = types(function, var)
        if type_ not in known:
            known[type_] = arith(type_)
        return known[type_]

    question = Question(
        closed(after.program),
        at.entry,
        dict(at.dims),
        at.prefix,
        {header.ref: header for header in at.headers},
        of,
        LEVELS[at.level].target,
        dict(at.layouts),
        at.fused,
        at.carried,
    )
    return plan(rotate(coalesce(trace(question))))


DRIVER: Final = Stage("driver", __name__, (), _driver, struct_codec(Driver), NATIVE_PACKAGES)
