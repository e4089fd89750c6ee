"""`presk cache …` and `presk why`: the store of stage results, and why a result was made or reused."""

from typing import Annotated

import typer

from presk.cache import maintain, verify
from presk.cache.store import Store
from presk.cli.commands import programs
from presk.cli.commands.options import ConstOption
from presk.cli.exits import Exit
from presk.cli.request import Request
from presk.diagnostics.suggest import closest
from presk.elab.parsing import PARSE_CHUNK
from presk.elab.program import Program
from presk.elab.tokenizing import TOKENS


def cache_application() -> typer.Typer:
    """The group of commands on the store."""
    app = typer.Typer(help="Look at and look after the store of results.", no_args_is_help=True, rich_markup_mode=None)
    app.command("stats")(stats_command)
    app.command("verify")(verify_command)
    app.command("gc")(gc_command)
    app.command("clear")(clear_command)
    return app


def _store(request: Request) -> Store:
    store = request.engine.store
    if store is None:
        raise programs.usage(
            request, "E9003", "no folder for the store is known", "set PRESK_CACHE to an absolute path, or HOME"
        )
    return store


def stats_command(context: typer.Context) -> None:
    """Show how many results are kept, their size, hits, misses and damage."""
    request = context.ensure_object(Request)
    request.print(maintain.statistics(_store(request)).text(), end="")


def verify_command(
    context: typer.Context,
    sample: Annotated[int, typer.Option("--sample", min=0, help="How many results to compute again.")] = 20,
    everything: Annotated[bool, typer.Option("--all", help="Compute all of them again.")] = False,
    seed: Annotated[int, typer.Option("--seed", help="Chooses the sample.")] = 0,
) -> None:
    """Check every entry against its digest, and compute a sample of the results again."""
    # All stages of the compiler, those that run programs included, which are heavy to load: needed to compute results again.
    from presk.stages import CODECS, STAGES

    request = context.ensure_object(Request)
    store = _store(request)
    entries = maintain.check_entries(store)
    request.print(f"{entries.entries} entries checked, {len(entries.damaged)} damaged and removed")
    for line in entries.damaged:
        request.print(f"  {line}")
    found = verify.verify(request.engine, STAGES, CODECS, None if everything else sample, seed)
    request.print(f"{found.checked} results computed again, {len(found.mismatches)} differ")
    for reason, number in sorted(found.skipped.items()):
        request.print(f"  {number} not computed: {reason}")
    for one in found.mismatches:
        request.print(f"  {one.stage} ({one.subject}): {', '.join(one.files) or 'not kept'}")
    if found.mismatches:
        raise typer.Exit(Exit.FAILED)


def gc_command(
    context: typer.Context,
    max_bytes: Annotated[int | None, typer.Option("--max-bytes", min=0, help="Keep at most this many bytes.")] = None,
) -> None:
    """Put the store in order and evict what was used least recently."""
    request = context.ensure_object(Request)
    done = maintain.collect_garbage(_store(request), max_bytes)
    request.print(f"{done.entries} entries evicted, {maintain.shown_bytes(done.bytes)}")


def clear_command(context: typer.Context) -> None:
    """Remove everything from the store."""
    request = context.ensure_object(Request)
    done = maintain.clear(_store(request))
    request.print(f"{done.entries} entries removed, {maintain.shown_bytes(done.bytes)}")


def why_command(
    context: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A program.")],
    declaration: Annotated[
        str | None,
        typer.Argument(metavar="DECLARATION", help="`mse`, `fn mse`, `Linear.apply`, `const D`; all without."),
    ] = None,
    const: ConstOption = None,
) -> None:
    """Say why each stage of a program's declarations was computed, or from where it was reused."""
    request = context.ensure_object(Request)
    overrides = programs.overrides_of(request, const or [])
    with request.engine.request() as log:
        _, program = programs.elaborated(request, file, overrides)
        subjects = _subjects(program, declaration)
        if not subjects:
            keys = [key for state in program.states.values() for key in state.loaded.parsed.keys()]
            near = closest(declaration or "", [short for key in keys for short in (key, _short(key))])
            raise programs.usage(
                request,
                "E9003",
                f"`{file}` has no declaration `{declaration}`",
                f"did you mean `{near}`?" if near is not None else None,
            )
        explanations = [
            explanation
            for subject in subjects
            for stage in dict.fromkeys((TOKENS.name, PARSE_CHUNK.name, *log.stages()))  # a parsed file asks no chunk
            if (explanation := request.engine.explain_last(stage, subject)) is not None
        ]
        for explanation in explanations:
            request.print(explanation.text())


def _subjects(program: Program, declaration: str | None) -> list[str]:
    """What stages call the parts of a program: a file by its name, a chunk by its key behind its file's name, a function of
    the core by its name."""
    subjects: list[str] = []
    for state in program.states.values():
        if declaration is None:
            subjects.append(state.name)
        for key in state.loaded.parsed.keys():
            if declaration is None or declaration in (key, _short(key)):
                subjects += (f"{state.name}: {key}", _short(key))
    return list(dict.fromkeys(subjects))


def _short(key: str) -> str:
    """`mse` for `fn mse`, `Linear.apply` for `module Linear/fn apply`."""
    return ".".join(part.partition(" ")[2] or part for part in key.split("/"))
