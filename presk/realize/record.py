"""A realization: the machine types in which each nest of a program stores, computes and adds up.

    {"name": "mixed", "default": "f32", "functions": {"Linear.apply": "bf16"}, "sites": {"loss/%7": "f64"}}

The most specific statement wins: the site's, the function's, the default. A type is the name of a uniform one or
`{"storage": …, "arithmetic": …, "accumulate": …}`; bf16 is stored and computed with in f32. What is stated for `f` holds for `f.fwd`,
whose bindings are f's, unless that is named itself.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

import msgspec

from presk.diagnostics.suggest import closest

FORWARD: Final = ".fwd"
VJP: Final = ".vjp"
GENERATED: Final = frozenset({VJP, ".grad", FORWARD, ".bwd", ".fold_fwd", ".fold_bwd", ".value_vjp"})
"""The ends of the names of functions that differentiation generates."""


class Machine(StrEnum):
    """A machine type."""

    F64 = "f64"
    F32 = "f32"
    BF16 = "bf16"


class MachineType(msgspec.Struct, frozen=True, array_like=True):
    """What a site's value is stored in, what its operations compute in, what its sums add up in."""

    storage: Machine
    arithmetic: Machine
    accumulate: Machine

    @property
    def rounds_when_stored(self) -> bool:
        """Whether storing rounds, so that it shows which values reach memory."""
        return self.storage is not self.arithmetic


UNIFORM: Final[Mapping[str, MachineType]] = MappingProxyType(
    {
        "f64": MachineType(Machine.F64, Machine.F64, Machine.F64),
        "f32": MachineType(Machine.F32, Machine.F32, Machine.F32),
        "bf16": MachineType(Machine.BF16, Machine.F32, Machine.F32),
    }
)
"""The types by name."""

_BITS: Final = {Machine.BF16: 8, Machine.F32: 24, Machine.F64: 53}


class Realization(msgspec.Struct, frozen=True, array_like=True):
    """A realization; `functions` and `sites` in the order of their names."""

    name: str
    default: MachineType
    functions: tuple[tuple[str, MachineType], ...] = ()
    sites: tuple[tuple[str, MachineType], ...] = ()


class Malformed(Exception):
    """A record that says nothing (E7002), with a mend where there is one."""

    def __init__(self, message: str, mend: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.mend = mend


def uniform(name: str) -> Realization:
    """The realization that types everything alike; KeyError for a name that is none."""
    return Realization(name, UNIFORM[name])


def parse(text: str, called: str) -> Realization:
    """The realization of a JSON text; `called` is its name where it states none. `Malformed` (E7002)."""
    return parse_record(read_json(text, "realization"), called)


def spelled(realization: Realization) -> str:
    """The record as JSON, in one form: equal realizations have equal texts, and `parse` reads it back."""

    def type_(one: MachineType) -> str | dict[str, str]:
        name = next((name for name, known in UNIFORM.items() if known == one), None)
        return name or {"storage": one.storage, "arithmetic": one.arithmetic, "accumulate": one.accumulate}

    record: dict[str, Any] = {"name": realization.name, "default": type_(realization.default)}
    if realization.functions:
        record["functions"] = {name: type_(one) for name, one in realization.functions}
    if realization.sites:
        record["sites"] = {name: type_(one) for name, one in realization.sites}
    return json.dumps(record, ensure_ascii=False)


def read_json(text: str, what: str) -> Any:
    """A JSON text; `Malformed` for what is none, and for a key that stands twice."""
    try:
        return json.loads(text, object_pairs_hook=_once)
    except json.JSONDecodeError as error:
        raise Malformed(f"the {what} is no JSON: {error.msg} in line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise Malformed(f"the {what} is no JSON of a record: it is nested too deeply") from None


def parse_record(record: object, called: str) -> Realization:
    """The realization of a record or a name, as JSON has them; see `parse`."""
    if isinstance(record, str):
        if record in UNIFORM:
            return uniform(record)
        raise Malformed(
            f"`{record}` is no realization", meant(record, UNIFORM) or "the uniform ones are f64, f32, bf16"
        )
    if not isinstance(record, dict):
        raise Malformed("a realization is a JSON object", '{"name": "…", "default": "f32"}')
    known_keys(record, ("name", "default", "functions", "sites"), "a realization")
    if "default" not in record:
        raise Malformed("the realization has no `default`", 'add `"default": "f32"`')
    name = record.get("name", called)
    if not isinstance(name, str):
        raise Malformed("the `name` of a realization is a text")
    return Realization(
        name,
        _type(record["default"], "the default"),
        _types(record.get("functions", {}), "functions"),
        _types(record.get("sites", {}), "sites"),
    )


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise Malformed(f"`{key}` is stated twice")
        found[key] = value
    return found


def known_keys(record: Mapping[str, object], keys: Collection[str], what: str) -> None:
    """`Malformed` for a key that is none of those that `what` has."""
    for key in record:
        if key not in keys:
            raise Malformed(
                f"{what} has no `{key}`", meant(key, keys) or f"it has {', '.join(f'`{one}`' for one in keys)}"
            )


def meant(name: str, names: Collection[str]) -> str | None:
    """A mend for a name that is none: the one that is like it, if one is."""
    near = closest(name, names)
    return None if near is None else f"did you mean `{near}`?"


def _types(record: object, key: str) -> tuple[tuple[str, MachineType], ...]:
    if not isinstance(record, dict):
        raise Malformed(f"`{key}` is an object of types by name")
    return tuple((name, _type(record[name], f"`{name}`")) for name in sorted(record))


def _type(record: object, whose: str) -> MachineType:
    if isinstance(record, str):
        if record not in UNIFORM:
            raise Malformed(
                f"the type of {whose} is `{record}`", meant(record, UNIFORM) or "the types are f64, f32, bf16"
            )
        return UNIFORM[record]
    if not isinstance(record, dict):
        raise Malformed(f"the type of {whose} is neither a name nor an object")
    keys = ("storage", "arithmetic", "accumulate")
    known_keys(record, keys, f"the type of {whose}")
    machines: list[Machine] = []
    for key in keys:
        value = record.get(key)
        if value is None:
            if key == "accumulate" and len(machines) == 2:
                machines.append(machines[1])
                continue
            raise Malformed(f"the type of {whose} has no `{key}`")
        if not isinstance(value, str) or value not in UNIFORM:
            raise Malformed(f"the `{key}` of {whose} is {json.dumps(value)}", "the types are f64, f32, bf16")
        machines.append(Machine(value))
    made = MachineType(*machines)
    if made.arithmetic is Machine.BF16:
        raise Malformed(f"{whose} computes in bf16", "bf16 is for storage: it computes in f32")
    if made.accumulate is Machine.BF16 or _BITS[made.accumulate] < _BITS[made.arithmetic]:
        raise Malformed(
            f"{whose} accumulates in {made.accumulate}, which is narrower than its arithmetic, {made.arithmetic}",
            f'state `"accumulate": "{made.arithmetic}"` or a wider type',
        )
    if _BITS[made.storage] > _BITS[made.arithmetic]:
        raise Malformed(f"{whose} computes in {made.arithmetic} and is stored in {made.storage}, which is wider")
    return made


@dataclass(frozen=True, slots=True)
class Resolver:
    """Which type a binding has."""

    default: MachineType
    functions: Mapping[str, MachineType]
    sites: Mapping[str, MachineType]

    def __call__(self, function: str, var: int) -> MachineType:
        """The type of a binding of a function: the most specific that is stated."""
        names = (function, function.removesuffix(FORWARD)) if function.endswith(FORWARD) else (function,)
        for name in names:
            if (found := self.sites.get(f"{name}/%{var}")) is not None:
                return found
        for name in names:
            if (found := self.functions.get(name)) is not None:
                return found
        return self.default


def resolver(realization: Realization) -> Resolver:
    """A realization as a function of bindings."""
    return Resolver(realization.default, dict(realization.functions), dict(realization.sites))


def groups_visible(realization: Realization) -> bool:
    """Whether it can show in a result which values a fusion group holds: where storing rounds, or a site is typed apart."""
    stated = (realization.default, *(type_ for _, type_ in realization.functions))
    return bool(realization.sites) or any(type_.rounds_when_stored for type_ in stated)


def unknown_name(
    realization: Realization, functions: Collection[str], nests: Collection[str]
) -> tuple[str, str | None] | None:
    """The first name that the program lacks, and one that is like it. What is stated for a nest of f holds for f.fwd's."""
    for name, _ in realization.functions:
        if name not in functions and f"{name}{FORWARD}" not in functions and not _generated(name, functions):
            return name, closest(name, functions)
    for name, _ in realization.sites:
        function, _, place = name.partition("/")
        if name not in nests and f"{function}{FORWARD}/{place}" not in nests:
            return name, closest(name, nests)
    return None


def _generated(name: str, functions: Collection[str]) -> bool:
    """Whether differentiation may generate a function from one that is there, whether this entry asks for it or not."""
    base, dot, suffix = name.rpartition(".")
    return f"{dot}{suffix}" in GENERATED and base in functions


def stored_vjps(realization: Realization, functions: Collection[str]) -> list[str]:
    """The `.vjp`s that are typed by name though their `.fwd` and `.bwd`, which are there instead, are not."""
    stated = {name for name, _ in realization.functions}
    return [
        name
        for name, _ in realization.functions
        if name.endswith(VJP)
        and f"{name.removesuffix(VJP)}.bwd" in functions
        and not {f"{name.removesuffix(VJP)}.bwd", f"{name.removesuffix(VJP)}{FORWARD}"} & stated
    ]
