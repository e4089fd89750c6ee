"""A realization plan: a realization, and how nests are laid out.

    {
      "realization": "f32",
      "profile": "out/profile.json",
      "layout": {"attend/%2": {"tile": [4, 16], "kblock": 32, "order": "JIK", "lanes": 4, "pack": true}, "attend/%3": {"passes": 2}}
    }

The layout stands beside the realization and not in it: no layout moves a bit, so a checkpoint, a gap or a served model names the
realization alone. A decision that is not stated takes its default, and a nest that is not named every default.

| decision | nests | values |
|---|---|---|
| `form` | contraction | `"tiled"`, `"row-wise"` |
| `tile` | tiled contraction | `[1, 1]`, or `[rows, columns]` with 1 to 14 rows and 4, 8, … 64 columns |
| `kblock` | tiled contraction | `"none"`, 32, 128, 512 |
| `order` | tiled contraction | `"IJ"`, `"JI"`; with a k-block a permutation of `"IJK"` |
| `lanes` | tiled contraction | 1, 2, 4, 8, 16; what of these is a matter of type and machine is checked where the nest is launched |
| `split` | every nest | `"none"`, `{"depth": 0 to 2, "workers": n}` |
| `pack` | tiled contraction | `true`, `false` |
| `passes` | softmax | 2, 3 |
| `epilogue` | contraction | `true`, `false`: whether the one `add` that reads the product is computed with it |

What can be seen here is refused here: what a plan states must be one of these, fit together, and fit the nest's kind. What depends on
shapes, types and the machine is checked at every launch (`presk.kernels.wellformed`).
"""

import json
from collections.abc import Callable, Collection, Mapping
from enum import StrEnum
from itertools import permutations
from types import MappingProxyType
from typing import Any, Final

import msgspec

from presk.core.fusion import partition
from presk.core.ir import Binding, Function, Prim, Program, operands
from presk.prims.attrs import AxisNames
from presk.prims.nests import NESTS, Converted, Elementwise, Filled, Hyper, Regrouped, Same, Structure, Structured
from presk.realize.record import Malformed, Realization, known_keys, meant, parse_record, read_json
from presk.types.type import Hyper as HyperType
from presk.types.type import Real, Type

FORMS: Final = ("tiled", "row-wise")
MOST_ROWS: Final = 14
MOST_COLUMNS: Final = 64
KBLOCKS: Final = (32, 128, 512)
ORDERS: Final = ("IJ", "JI")
BLOCKED_ORDERS: Final = tuple("".join(one) for one in permutations("IJK"))
LANES: Final = (1, 2, 4, 8, 16)
DEEPEST: Final = 2
MOST_WORKERS: Final = 1024
PASSES: Final = (2, 3)
_ADDED: Final = Elementwise("add")


class Split(msgspec.Struct, frozen=True, array_like=True):
    """The loop at `depth` is divided among `workers`; among 0, none is."""

    depth: int
    workers: int


class Decisions(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a plan states of a nest; None is what it leaves open, a `kblock` of 0 none."""

    form: str | None = None
    tile: tuple[int, int] | None = None
    kblock: int | None = None
    order: str | None = None
    lanes: int | None = None
    split: Split | None = None
    pack: bool | None = None
    passes: int | None = None
    epilogue: bool | None = None

    def stated(self) -> tuple[str, ...]:
        """The names of what is stated."""
        return tuple(name for name in self.__struct_fields__ if getattr(self, name) is not None)


class Plan(msgspec.Struct, frozen=True, array_like=True):
    """A plan; `layout` in the order of the nests' names."""

    realization: Realization
    profile: str | None = None
    layout: tuple[tuple[str, Decisions], ...] = ()


class Kind(StrEnum):
    """What a nest is, as far as its decisions go."""

    CONTRACTION = "contraction"
    SOFTMAX = "softmax"
    OTHER = "other"
    NOTHING = "nothing"
    """It launches nothing."""


DECISIONS: Final[Mapping[Kind, tuple[str, ...]]] = MappingProxyType(
    {
        Kind.CONTRACTION: ("form", "tile", "kblock", "order", "lanes", "split", "pack", "epilogue"),
        Kind.SOFTMAX: ("split", "passes"),
        Kind.OTHER: ("split",),
        Kind.NOTHING: (),
    }
)
"""The decisions of a kind of nest."""

_TILED: Final = ("tile", "kblock", "order", "lanes", "pack")

Read = Callable[[str], tuple[str, str]]
"""Reads the file that `@FILE` names in a plan: what a realization of it is called where it states no name, and its text."""


# --- reading -----------------------------------------------------------------------------------------------------------------------


def parse_plan(text: str, called: str, read: Read) -> Plan:
    """The plan of a JSON text; `called` names a realization record that has no name. `Malformed` (E7002)."""
    record = read_json(text, "plan")
    if not isinstance(record, dict):
        raise Malformed("a plan is a JSON object", '{"realization": "f32", "layout": {}}')
    known_keys(record, ("realization", "profile", "layout"), "a plan")
    if "realization" not in record:
        raise Malformed("the plan has no `realization`", 'add `"realization": "f32"`')
    profile = record.get("profile")
    if profile is not None and not isinstance(profile, str):
        raise Malformed("the `profile` of a plan is a text")
    layout = record.get("layout", {})
    if not isinstance(layout, dict):
        raise Malformed("the `layout` of a plan is an object of decisions by nest", '{"loss/%2": {"lanes": 1}}')
    return Plan(
        _realization(record["realization"], called, read),
        profile,
        tuple((name, _decisions(name, layout[name])) for name in sorted(layout)),
    )


def _realization(record: object, called: str, read: Read) -> Realization:
    if isinstance(record, str) and record.startswith("@"):
        called, text = read(record[1:])
        record = read_json(text, "realization")
    return parse_record(record, called)


def _decisions(nest: str, record: object) -> Decisions:
    if not isinstance(record, dict):
        raise Malformed(f"the layout of `{nest}` is no object of decisions", 'it is one like {"lanes": 1}')
    known_keys(record, Decisions.__struct_fields__, f"the layout of `{nest}`")
    found = {key: _READERS[key](f"`{key}` of `{nest}`", value) for key, value in record.items()}
    made = Decisions(**found)
    _together(nest, made)
    return made


def _wrong(what: str, value: object, mend: str) -> Malformed:
    shown = json.dumps(value, ensure_ascii=False)
    return Malformed(f"{what} is {shown if len(shown) <= 60 else shown[:60] + '…'}", mend)


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _word(words: Collection[str]) -> Callable[[str, object], Any]:
    shown = ", ".join(f'"{word}"' for word in words)

    def read(what: str, value: object) -> str:
        if not isinstance(value, str) or value not in words:
            raise _wrong(what, value, f"it is one of {shown}")
        return value

    return read


def _number(numbers: Collection[int], none: bool = False) -> Callable[[str, object], Any]:
    shown = ", ".join([*(['"none"'] if none else []), *map(str, numbers)])

    def read(what: str, value: object) -> int:
        if none and value == "none":
            return 0
        if not isinstance(value, int) or isinstance(value, bool) or value not in numbers:
            raise _wrong(what, value, f"it is one of {shown}")
        return value

    return read


def _truth(what: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise _wrong(what, value, "it is true or false")
    return value


def _tile(what: str, value: object) -> tuple[int, int]:
    mend = f"it is [1, 1], or [rows, columns] with rows from 1 to {MOST_ROWS} and columns 4, 8, … {MOST_COLUMNS}"
    if not isinstance(value, list) or len(value) != 2 or not all(map(_whole, value)):
        raise _wrong(what, value, mend)
    rows, columns = value
    if (rows, columns) != (1, 1) and not (1 <= rows <= MOST_ROWS and 4 <= columns <= MOST_COLUMNS and columns % 4 == 0):
        raise _wrong(what, value, mend)
    return rows, columns


def _split(what: str, value: object) -> Split:
    if value == "none":
        return Split(0, 0)
    mend = (
        f'it is "none", or {{"depth": d, "workers": n}} with d at most {DEEPEST} and n the threads of the run, or half'
    )
    if not isinstance(value, dict):
        raise _wrong(what, value, mend)
    known_keys(value, ("depth", "workers"), what)
    for key, low, high in (("depth", 0, DEEPEST), ("workers", 1, MOST_WORKERS)):
        if key not in value:
            raise Malformed(f"{what} has no `{key}`", mend)
        if not _whole(value[key]) or not low <= value[key] <= high:
            raise _wrong(f"the `{key}` of {what}", value[key], f"it is a number from {low} to {high}")
    return Split(value["depth"], value["workers"])


_READERS: Final[Mapping[str, Callable[[str, object], Any]]] = MappingProxyType(
    {
        "form": _word(FORMS),
        "tile": _tile,
        "kblock": _number(KBLOCKS, none=True),
        "order": _word((*ORDERS, *BLOCKED_ORDERS)),
        "lanes": _number(LANES),
        "split": _split,
        "pack": _truth,
        "passes": _number(PASSES),
        "epilogue": _truth,
    }
)


def _together(nest: str, made: Decisions) -> None:
    """Refuses decisions of one nest that exclude each other."""
    if made.form == "row-wise":
        for name in _TILED:
            if getattr(made, name) is not None:
                raise Malformed(
                    f"`{nest}` is row-wise and has `{name}`: a row-wise contraction has no tile, k-block, order, lanes or pack",
                    f'leave `{name}` away, or `"form": "row-wise"`',
                )
    if made.order is not None and len(made.order) != (3 if made.kblock else 2):
        if made.kblock:
            raise Malformed(
                f"`order` of `{nest}` is {json.dumps(made.order)}, which does not say where the blocks of K go",
                f"with a k-block it is one of {', '.join(BLOCKED_ORDERS)}",
            )
        raise Malformed(
            f"`order` of `{nest}` is {json.dumps(made.order)}, and it has no `kblock`",
            "without one it is IJ or JI",
        )
    if made.tile is not None and made.lanes is not None and made.tile[1] % made.lanes:
        raise Malformed(
            f"the {made.lanes} `lanes` of `{nest}` do not divide the {made.tile[1]} columns of its `tile`",
            "state lanes that do, or leave one of the two away",
        )


# --- what a program has ------------------------------------------------------------------------------------------------------------


def kinds(program: Program) -> Mapping[str, Kind]:
    """The kind of every nest of a program, by name."""
    found: dict[str, Kind] = {}
    for function in program.functions:
        interior = partition(function).interior()
        types = _types(function)
        for binding in function.bindings:
            if isinstance(binding.op, Prim) and binding.var not in interior:
                found[f"{function.name}/%{binding.var}"] = kind(binding, types)
    return found


def _types(function: Function) -> Mapping[int, Type]:
    return {
        **{place: param.type for place, param in enumerate(function.params)},
        **{binding.var: binding.type for binding in function.bindings},
    }


def kind(binding: Binding, types: Mapping[int, Type]) -> Kind:
    """The kind of a primitive of its own, or of a group's root; `types` are those of what it reads."""
    assert isinstance(binding.op, Prim)
    match NESTS[binding.op.name]:
        case Same() | Filled() | Regrouped() | Hyper():
            return Kind.NOTHING
        case Converted() if isinstance(types[binding.op.args[0]], HyperType):
            # The host makes a scalar of a hyperparameter.
            return Kind.NOTHING
        case Structured(Structure.SOFTMAX):
            return Kind.SOFTMAX
        case Structured(Structure.DOT):
            return Kind.CONTRACTION if _rank(types[binding.op.args[1]]) == 2 else Kind.OTHER
        case Structured(Structure.DOT_VJP_L):
            # Of a product whose left operand has rank one, the derivative has it too.
            plain = _rank(types[binding.op.args[1]]) == 2 and _is_more(binding.type)
            return Kind.CONTRACTION if plain else Kind.OTHER
        case Structured(Structure.DOT_VJP_R):
            plain = _rank(binding.type) == 2 and _is_more(types[binding.op.args[0]])
            return Kind.CONTRACTION if plain else Kind.OTHER
        case Structured(Structure.EIN):
            return Kind.CONTRACTION if _is_pattern(binding.op) else Kind.OTHER
        case _:
            return Kind.OTHER


def _rank(type_: Type) -> int | None:
    """The rank of a tensor; None where an open prefix has some of its axes."""
    return len(type_.shape.axes) if isinstance(type_, Real) and type_.shape.prefix is None else None


def _is_more(type_: Type) -> bool:
    """Whether a tensor has rank two, or more, as its type says."""
    return isinstance(type_, Real) and len(type_.shape.axes) + (type_.shape.prefix is not None) >= 2


def _is_pattern(op: Prim) -> bool:
    """Whether an `ein` is a contraction nest: its output is outer axes, then one that an operand alone carries, then one that the
    other alone carries, and it sums over one axis of both."""
    named = dict(op.attrs)
    names = [named.get(key) for key in ("in0", "in1", "out")]
    if len(op.args) != 2 or not all(isinstance(one, AxisNames) for one in names):
        return False
    left, right, out = (one.names for one in names if isinstance(one, AxisNames))
    summed = {*left, *right} - set(out)
    if len(summed) != 1 or not summed <= set(left) & set(right) or len(out) < 2:
        return False
    row, column = ((name in left, name in right) for name in out[-2:])
    return {row, column} == {(True, False), (False, True)}


def unfit(plan: Plan, program: Program) -> Malformed | None:
    """What a plan says of nests that the program does not have, or have not; None if nothing."""
    found = kinds(program)
    inside = {
        f"{function.name}/%{var}": f"{function.name}/%{root}"
        for function in program.functions
        for var, root in partition(function).roots().items()
        if var != root
    }
    stated = [name for name, decisions in plan.layout if decisions.epilogue]
    for name, decisions in plan.layout:
        if name in inside:
            return Malformed(f"`{name}` is no nest by itself", f"it is computed in the nest `{inside[name]}`")
        if name not in found:
            return Malformed(
                f"the program has no nest `{name}`",
                meant(name, found) or "`presk dump --stage realize` prints the nests of a program by name",
            )
        kind_ = found[name]
        if kind_ is Kind.NOTHING:
            return Malformed(f"`{name}` launches nothing: there is nothing to lay out")
        allowed = DECISIONS[kind_]
        for one in decisions.stated():
            if one not in allowed:
                what = f"a {kind_}" if kind_ is not Kind.OTHER else "neither a contraction nor a softmax"
                *front, last = [f"`{other}`" for other in allowed]
                has = f"{', '.join(front)} and {last}" if front else f"{last} only"
                return Malformed(f"`{name}` is {what} and has no `{one}`", f"it has {has}")
        if decisions.epilogue and (why := _no_epilogue(program, name, stated)) is not None:
            return Malformed(f"`epilogue` of `{name}` is true, and {why}", "leave it away")
    return None


def _no_epilogue(program: Program, name: str, stated: Collection[str]) -> str | None:
    """Why a product's kernel does not add what an `add` adds to it; None if it may, as far as its function shows. `stated` are the
    nests of which an epilogue is asked."""
    named, _, number = name.rpartition("/%")
    function = next(one for one in program.functions if one.name == named)
    var = int(number)
    if function.returns == var:
        return "the product is what its function returns"
    readers = [one for one in function.bindings for read in operands(one.op) if read == var]
    if len(readers) != 1:
        return "nothing reads the product" if not readers else "the product is read more than once"
    (reader,) = readers
    if not isinstance(reader.op, Prim) or NESTS[reader.op.name] != _ADDED or not isinstance(reader.type, Real):
        return "what reads the product is no `add` of tensors"
    if len(next(one for one in partition(function).groups if reader.var in one.members).members) > 1:
        return f"the `add` that reads it, %{reader.var}, is computed in a group with others"
    if any(f"{named}/%{read}" in stated for read in reader.op.args if read != var):
        return f"so it is of the other product that %{reader.var} reads"
    return None


def unfit_workers(plan: Plan, threads: int) -> Malformed | None:
    """A split whose workers are neither the threads of the run nor half of them (at least one)."""
    half = max(1, threads // 2)
    for name, decisions in plan.layout:
        split = decisions.split
        if split is not None and split.workers not in (0, threads, half):
            either = f"{threads}" if half == threads else f"{threads} or {half}"
            return Malformed(
                f"`split` of `{name}` is among {split.workers}, and the threads of the run are {threads}",
                f"state {either}, or run with `--threads {split.workers}`",
            )
    return None


# --- showing -----------------------------------------------------------------------------------------------------------------------


def plan_text(plan: Plan) -> str:
    """What a plan names beside the layouts, as `presk dump --stage realize` prints it."""
    profile = "" if plan.profile is None else f"profile {plan.profile}\n"
    return f"realization {plan.realization.name}\n{profile}"


def decisions_text(decisions: Decisions) -> str:
    """Decisions as a plan states them, on one line."""
    return json.dumps({name: _shown(name, getattr(decisions, name)) for name in decisions.stated()})


def _shown(name: str, value: object) -> object:
    if isinstance(value, Split):
        return {"depth": value.depth, "workers": value.workers} if value.workers else "none"
    if name == "kblock" and value == 0:
        return "none"
    return list(value) if isinstance(value, tuple) else value
