"""The stages of differentiation: a derivative for each function, and the program after differentiation.

A function's `.vjp` depends on the function and on the signatures of those it calls, so an edit derives again what it changed. What
is pruned and what is kept between forward and backward passes depends on all that the entries reach, and is one stage.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from presk.ad.pipeline import AfterAd, Remat, after_ad
from presk.ad.refusal import Refusal
from presk.ad.signature import Signature, Signatures, signature, signatures
from presk.ad.sweep import Derived, vjp_of
from presk.ad.vjp import Derive, gradients
from presk.cache.codec import Codec, struct_codec
from presk.cache.stage import Queries, Result, Stage
from presk.core.ir import Call, Closure, Fold, Function, Grad, Origin, Program
from presk.core.lower import Lowered
from presk.core.unroll import unroll_program
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


class Needs(msgspec.Struct, frozen=True, array_like=True):
    """What a function's derivative asks for: the callees whose `.vjp` it calls, and why there is none, if there is none."""

    needs: tuple[str, ...]
    refusals: tuple[Refusal, ...]


def _signatures(part: Lowered) -> Callees:
    return Callees(tuple(signature(function) for function in part.functions))


def _derivable(queries: Queries, part: Result[Lowered], callees: Result[Mapping[str, Callees]], *, name: str) -> Needs:
    functions = {function.name: function for function in part.value.functions}
    known = signatures(functions.values()) | {
        one.name: one for called in callees.value.values() for one in called.signatures
    }
    derived = _deriving(queries)(functions[name], known)
    return Needs(derived.needs, derived.refusals)


SIGNATURES: Final = Stage("signatures", __name__, (), _signatures, CALLEES, PACKAGES)
DERIVABLE: Final = Stage("derivable", __name__, ("name",), _derivable, struct_codec(Needs), PACKAGES, composite=True)
"""Whether a function of a lowered declaration has a derivative, and which others that needs."""


def refused_gradients(
    queries: Queries, parts: Mapping[str, Result[Lowered]], calls: Mapping[str, tuple[str, ...]]
) -> tuple[tuple[Refusal, tuple[str, int] | None], ...]:
    """What differentiation would refuse, each with the `grad` that asks for it where that stands elsewhere.

    As `differentiate`, without making the derivatives one program: a function at a time, so that an edit looks again at what it
    changed. `parts` are lowered declarations by name, `calls` the names of those that each calls.
    """
    home = {function.name: name for name, part in parts.items() for function in part.value.functions}
    asked: dict[str, tuple[str, int]] = {}
    refused: list[tuple[Refusal, tuple[str, int] | None]] = []
    for part in parts.values():
        for function in part.value.functions:
            if any(isinstance(binding.op, Grad) for binding in function.bindings):
                found = gradients(function)
                refused += ((one, None) for one in found.refusals)
                for name, var in found.asked:
                    asked.setdefault(name, (function.name, var))
    done: set[str] = set()
    pending = list(reversed(asked))
    while pending:
        name = pending.pop()
        if name in done:
            continue
        done.add(name)
        part = parts[home[name]]
        callees = queries.group(
            "callees",
            {one: queries.get(SIGNATURES, parts[one], subject=one) for one in calls[home[name]] if one in parts},
        )
        needs = queries.get(DERIVABLE, part, callees, subject=name, name=name).value
        refused += ((one, asked[name]) for one in needs.refusals)
        for needed in reversed(needs.needs):
            asked.setdefault(needed, asked[name])
            pending.append(needed)
    return tuple(refused)


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
