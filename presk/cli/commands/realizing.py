"""Realizations on the command line."""

from typing import Final

import typer

from presk.cli.commands import programs
from presk.cli.exits import Exit
from presk.cli.request import Request
from presk.realize.record import Malformed, Realization, parse, uniform

DEFAULT: Final = "f64"
"""The realization where none is named."""


def realization_of(request: Request, text: str | None) -> Realization:
    """`--realize`: the name of a uniform realization, a record, or `@FILE`. E7002 leaves with 4."""
    if text is None:
        return uniform(DEFAULT)
    called = "realization"
    if text.startswith("@"):
        path = request.path(text[1:])
        called = path.stem
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError, ValueError):
            raise programs.usage(request, "E9002", f"`{path.name}` cannot be read") from None
    elif not text.lstrip().startswith(("{", '"')):
        text = f'"{text}"'
    try:
        return parse(text, called)
    except Malformed as error:
        raise refused(request, error.message, error.mend) from None


def refused(request: Request, message: str, mend: str | None) -> typer.Exit:
    """What to raise for a realization that does not fit (E7002): the run fails, with 4."""
    programs.usage(request, "E7002", message, mend)
    return typer.Exit(Exit.RUN_FAILED)
