"""Environments as inputs of stages: entries by name, and the environment that they make.

The entries of a group are `file`, `name:D`, `name:m.V`, `module:FILE#Name`, `member:FILE#Name.apply`, `import:m` and
`broken:x`. So an explanation of a key can name what a declaration saw change.
"""

from collections.abc import Mapping
from typing import Final

from presk.elab.entities import Elaborated, Entity, Env, ModuleHeader, Signature
from presk.types.type import ModuleRef

FILE: Final = "file"
NAME: Final = "name:"
MODULE: Final = "module:"
MEMBER: Final = "member:"
IMPORT: Final = "import:"
BROKEN: Final = "broken:"


def module_entry(ref: ModuleRef) -> str:
    """The name of a module's entry."""
    return f"{MODULE}{ref.file}#{ref.name}"


def member_entry(ref: ModuleRef, function: str) -> str:
    """The name of a member function's entry."""
    return f"{MEMBER}{ref.file}#{ref.name}.{function}"


def env_of(entries: Mapping[str, Elaborated | str]) -> Env:
    """The environment that a group's entries make. An entity that was refused makes its name broken."""
    file = ""
    names: dict[str, Entity] = {}
    modules: dict[ModuleRef, ModuleHeader] = {}
    members: dict[tuple[ModuleRef, str], Signature] = {}
    imports: set[str] = set()
    broken: set[str] = set()
    for name, value in entries.items():
        if isinstance(value, str):
            if name == FILE:
                file = value
            elif name.startswith(IMPORT):
                imports.add(name.removeprefix(IMPORT))
            elif name.startswith(BROKEN):
                broken.add(name.removeprefix(BROKEN))
            continue
        entity = value.entity
        match entity:
            case None:
                broken.add(name.removeprefix(NAME))
            case _ if name.startswith(NAME):
                names[name.removeprefix(NAME)] = entity
            case ModuleHeader():
                modules[entity.ref] = entity
            case Signature(module=ModuleRef() as ref):
                members[ref, entity.name] = entity
    return Env(file, names, modules, members, frozenset(imports), frozenset(broken))
