"""What commands that call an entry share: what is given to it on the command line."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final
from unicodedata import normalize

import typer

from presk.cli.commands import programs
from presk.cli.commands.core_programs import InCore
from presk.cli.exits import Exit
from presk.cli.request import Request

MAX_INPUT: Final = 1 << 32


def nothing_to_run(request: Request, given: InCore) -> typer.Exit:
    """What to raise where no entry is named."""
    names = ", ".join(f"`{name}`" for name in list(given.core.names.values())[:12])
    request.complain(f"error[E9003]: nothing to run: no entry is named\n  = help: name one with --entry: {names}")
    return typer.Exit(Exit.NOTHING)


def refuse_overwriting(request: Request, out: str, read: Iterable[str]) -> None:
    """E9003 where a result would be written over a file that the command reads."""
    target = request.path(out)
    for name in read:
        if _same(request.path(name), target):
            raise programs.usage(request, "E9003", f"`--out {out}` names a file that is read", "name another file")


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except (OSError, ValueError):  # it is not there yet, or its name is no file name: who writes it says so
        return False


def numbers_of(request: Request, option: str, given: list[str] | None) -> dict[str, int]:
    """`NAME=N` options by name; E9003 for what is no natural number."""
    return {name: _natural(request, option, name, value) for name, value in pairs_of(request, option, given).items()}


def given_inputs(request: Request, given: list[str] | None) -> dict[str, tuple[str, bytes]]:
    """`NAME=FILE` options: each file's name as spelled and its bytes; E9002 for one that cannot be read."""
    return {name: _given(request, path) for name, path in pairs_of(request, "--input", given).items()}


def pairs_of(request: Request, option: str, given: list[str] | None) -> dict[str, str]:
    """`NAME=VALUE` options by name; E9003 for another form or a name twice."""
    found: dict[str, str] = {}
    for text in given or []:
        name, equals, value = text.partition("=")
        name = normalize("NFC", name.strip())
        if not equals or not name:
            raise programs.usage(request, "E9003", f"`{option} {text}` is not of the form NAME=VALUE")
        if name in found:
            raise programs.usage(request, "E9003", f"`{option}` gives `{name}` twice")
        found[name] = value.strip()
    return found


def _natural(request: Request, option: str, name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise programs.usage(request, "E9003", f"`{option} {name}={text}`: `{text}` is not a natural number")
    return int(text)


def _given(request: Request, name: str) -> tuple[str, bytes]:
    """An input file: its name as spelled, and its bytes."""
    path: Path = request.path(name)
    try:
        if path.stat().st_size > MAX_INPUT:
            raise programs.usage(request, "E9002", f"`{name}` is larger than 4 GiB")
        return name, path.read_bytes()
    except (OSError, ValueError):
        raise programs.usage(request, "E9002", f"`{name}` cannot be read") from None
