"""`presk run`: evaluates an entry on the exact reference."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final, Protocol
from unicodedata import normalize

import typer

from presk.ad.pipeline import Remat
from presk.cli.commands import core_programs, programs
from presk.cli.commands.options import ConstOption, EntryOption, ModeOption, RematOption, UnrollOption
from presk.cli.exits import Exit
from presk.cli.request import Request
from presk.core.lower import Mode
from presk.diagnostics.value import Diagnostic

MAX_INPUT: Final = 1 << 32


class Shown(Protocol):
    """An answer in the forms in which it is shown."""

    @property
    def text(self) -> str: ...
    @property
    def full_text(self) -> str: ...
    @property
    def json(self) -> str: ...
    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]: ...


class Backend(StrEnum):
    """What evaluates."""

    EXACT = "exact"


def run_command(
    context: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A program.")],
    entry: EntryOption = None,
    dim: Annotated[
        list[str] | None, typer.Option("--dim", metavar="N=K", help="The value of a dimension of the entry.")
    ] = None,
    const: ConstOption = None,
    input_: Annotated[
        list[str] | None,
        typer.Option("--input", metavar="NAME=FILE", help="A parameter from a .npy, .safetensors or JSON file."),
    ] = None,
    arg: Annotated[
        list[str] | None,
        typer.Option(
            "--arg", metavar="NAME=VALUE", help="A number, true or false, or a key (a seed or 64 hex digits)."
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="What is not given is synthesized from this.")] = 0,
    bits: Annotated[int, typer.Option("--bits", metavar="P", help="The precision of every operation.")] = 256,
    bounds: Annotated[
        bool, typer.Option("--bounds", help="Print a proved bound on each number's distance to the exact value.")
    ] = False,
    backend: Annotated[Backend, typer.Option("--backend", help="What evaluates.")] = Backend.EXACT,
    mode: ModeOption = Mode.INFERENCE,
    remat: RematOption = Remat.STORE,
    unroll_stack: UnrollOption = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Print every number of large tensors.")] = False,
    out: Annotated[
        str | None, typer.Option("--out", metavar="FILE", help="Write the result, as JSON, to a file.")
    ] = None,
    stats: Annotated[bool, typer.Option("--stats", help="Print to standard error which stages ran.")] = False,
) -> None:
    """Evaluate a function exactly: over the reals, every operation correctly rounded at --bits."""
    del backend  # there is one
    request = context.ensure_object(Request)
    overrides = programs.overrides_of(request, const or [])
    dims = {name: _natural(request, "--dim", name, value) for name, value in _pairs(request, "--dim", dim).items()}
    words = _pairs(request, "--arg", arg)
    inputs = {name: _given(request, path) for name, path in _pairs(request, "--input", input_).items()}
    # The exact reference brings numpy and FLINT, which take a quarter of a second: not before something is run.
    from presk.cli.commands import running_exact

    asked = running_exact.Asked(dims, words, inputs, seed, bits, bounds, remat, unroll_stack)
    with request.engine.request() as log:
        given = core_programs.in_core(request, file, overrides, mode, entry)
        if entry is None:
            names = ", ".join(f"`{name}`" for name in list(given.core.names.values())[:12])
            request.complain(
                f"error[E9003]: nothing to run: no entry is named\n  = help: name one with --entry: {names}"
            )
            raise typer.Exit(Exit.NOTHING)
        answer = running_exact.answer(request, given, entry, asked)
        _show(request, given, answer, json=json, full=full, out=out)
    if stats:
        request.complain(log.table(), end="")
    if answer.diagnostics:
        usage = all(one.code.startswith("E9") for one in answer.diagnostics)
        raise typer.Exit(Exit.USAGE if usage else Exit.RUN_FAILED)


def _show(
    request: Request, given: core_programs.InCore, answer: Shown, *, json: bool, full: bool, out: str | None
) -> None:
    if answer.diagnostics:
        request.complain(programs.diagnostics_text(request, answer.diagnostics, given.checked.sources), end="")
        return
    if out is not None:
        _write(request, out, answer.json)
    if json:
        request.print(answer.json.rstrip("\n"))
    elif out is None:
        request.print((answer.full_text if full else answer.text).rstrip("\n"))


def _write(request: Request, out: str, text: str) -> None:
    path = request.path(out)
    try:
        programs.replace_file(path, text.encode())
    except OSError as error:
        raise programs.usage(request, "E9002", f"`{out}` cannot be written: {error.strerror}") from None


def _pairs(request: Request, option: str, given: list[str] | None) -> dict[str, str]:
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
