"""What `presk run` and `presk bench` give to an entry: the files of `--input`, and with `--params` the tree of a checkpoint."""

import os
from collections.abc import Mapping
from pathlib import Path

import typer

from presk.cli.commands import programs
from presk.cli.commands.core_programs import InCore
from presk.cli.exits import Exit
from presk.cli.request import Request
from presk.exact.faults import Fault
from presk.exact.given import Given
from presk.train.checkpoint import SUFFIX, resolve, shown_as
from presk.train.parameters import as_file, read_parameters
from presk.types.type import Params


def given_files(
    request: Request,
    given: InCore,
    entry: str,
    inputs: Mapping[str, tuple[str, bytes]],
    words: Mapping[str, str],
    params: str | None,
) -> Mapping[str, Given]:
    """The files of an entry by parameter; `params` is a checkpoint, or a folder with some, for the entry's first tree.

    E9003 where the entry has no tree or it is given in another way too, E8006 for what is no checkpoint.
    """
    files = {name: Given(*file) for name, file in inputs.items()}
    if params is None:
        return files
    tree = _tree(request, given, entry)
    twice = next((name for name in (*inputs, *words) if name == tree or name.startswith(f"{tree}.")), None)
    if twice is not None:
        option = "--input" if twice in inputs else "--arg"
        message = f"`--params {params}` gives the tree `{tree}`, and `{option}` gives `{twice}`"
        raise programs.usage(request, "E9003", message, "leave one of the two away")
    return {**files, tree: _read(request, params)}


def _tree(request: Request, given: InCore, entry: str) -> str:
    """The first parameter of an entry that is a tree of parameters."""
    for param in given.core.functions()[entry].params:
        if isinstance(param.type, Params):
            return param.name
    raise programs.usage(
        request,
        "E9003",
        f"`--params` says nothing to `{entry}`, which has no parameter of a type `params …`",
        "leave `--params` away, or name another entry",
    )


def _read(request: Request, params: str) -> Given:
    path = request.path(params)
    try:
        found = existing(request, params)
        shown = shown_as(path, params, found)
        return Given(shown, as_file(read_parameters(found, shown)), checkpoint=True)
    except Fault as fault:
        programs.usage(request, fault.code, fault.message, fault.mend)
        raise typer.Exit(Exit.RUN_FAILED) from None


def existing(request: Request, name: str) -> Path:
    """The checkpoint that a name of the command line means; a file that is not there leaves with 2, `Fault` for what is none
    (E8006).
    """
    path = request.path(name)
    try:
        return resolve(path, name)
    except Fault as fault:
        if os.path.exists(path) or os.path.exists(f"{path}{SUFFIX}"):
            raise
        raise programs.usage(request, fault.code, fault.message, fault.mend) from None
