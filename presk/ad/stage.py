"""The stages of differentiation: a derivative for each function, and the program after differentiation.

A function's `.vjp` depends on the function and on the signatures of those it calls, so an edit derives again what it changed. What
is pruned and what is kept between forward and backward passes depends on all that the entries reach, and is one stage.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from presk.ad.pipeline import AfterAd, Remat, after_ad
from presk.ad.signature import Signature, Signatures
from presk.ad.sweep import Derived, vjp_of
from presk.ad.vjp import Derive, differentiate
from presk.cache.codec import Codec, struct_codec
from presk.cache.stage import Queries, Result, Stage
from presk.core.ir import Call, Closure, Fold, Function, Origin, Program
from presk.core.lower import Lowered
from presk.core.unroll import unroll_program
from presk.diagnostics.value import Diagnostic
from presk.elab.codecs import PACKAGES


class Callees(msgspec.Struct, frozen=True, array_like=True):
    """The signatures of the functions that one function calls."""

    signatures: tuple[Signature, ...]


FUNCTION: Final[Codec[Function]] = struct_codec(Function, "core function")
CALLEES: Final[Codec[Callees]] = struct_codec(Callees, "callees' signatures")
DERIVED: Final[Codec[Derived]] = struct_codec(Derived)
AFTER: Final[Codec[AfterAd]] = struct_codec(AfterAd)


def _vjp(function: Function, callees: Callees) -> Derived:
    return vjp_of(function, {one.name: one for one in callees.signatures})


VJP: Final = Stage("vjp", __name__, (), _vjp, DERIVED, PACKAGES)


def _deriving(queries: Queries) -> Derive:
    """Derives one function by its stage."""

    def derive(function: Function, signatures: Signatures) -> Derived:
        called = dict.fromkeys(
            binding.op.function for binding in function.bindings if isinstance(binding.op, Call | Fold | Closure)
        )
        callees = Callees(tuple(signatures[name] for name in called))
        given = queries.leaf("function", function, FUNCTION)
        return queries.get(VJP, given, queries.leaf("callees", callees, CALLEES), subject=function.name).value

    return derive


def _joined(
    parts: Result[Mapping[str, Lowered]], order: tuple[str, ...]
) -> tuple[Program, dict[tuple[str, int], Origin]]:
    """The program that lowered declarations make, in the given order, and where its bindings come from."""
    lowered = [parts.value[name] for name in order]
    origins = {(site.function, site.var): site.origin for part in lowered for site in part.origins}
    return Program(tuple(function for part in lowered for function in part.functions)), origins


def _gradients(
    queries: Queries, parts: Result[Mapping[str, Lowered]], *, order: tuple[str, ...]
) -> tuple[Diagnostic, ...]:
    program, origins = _joined(parts, order)
    return differentiate(program, origins, (), _deriving(queries)).diagnostics


GRADIENTS: Final = Stage(
    "gradients",
    __name__,
    ("order",),
    _gradients,
    struct_codec(tuple[Diagnostic, ...], "gradients"),
    PACKAGES,
    composite=True,
)
"""Whether every gradient of a program can be taken: E6001, E6002."""


def _after_ad(
    queries: Queries,
    parts: Result[Mapping[str, Lowered]],
    *,
    order: tuple[str, ...],
    remat: str,
    hold: bool,
    unroll: bool,
    objectives: tuple[str, ...],
) -> AfterAd:
    program, origins = _joined(parts, order)
    if unroll:
        program = unroll_program(program)

    derive = _deriving(queries)
    return after_ad(program, Remat(remat), hold_groups=hold, origins=origins, objectives=objectives, derive=derive)


AFTER_AD: Final = Stage(
    "after ad", __name__, ("order", "remat", "hold", "unroll", "objectives"), _after_ad, AFTER, PACKAGES, composite=True
)


def differentiated(
    queries: Queries,
    parts: Mapping[str, Result[Lowered]],
    remat: Remat,
    *,
    hold: bool,
    unroll: bool = False,
    objectives: tuple[str, ...] = (),
) -> AfterAd:
    """The program after differentiation; `parts` are its lowered declarations by name, in the order of the program."""
    return queries.get(
        AFTER_AD,
        queries.group("parts", parts),
        subject=", ".join(sorted(parts)[:3]),
        order=tuple(parts),
        remat=remat.value,
        hold=hold,
        unroll=unroll,
        objectives=objectives,
    ).value
