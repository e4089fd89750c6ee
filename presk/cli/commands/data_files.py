"""`presk data …`: data files (`.psk.d`): making them of texts, and looking at them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Final

import typer

from presk.cli.commands import entries, programs
from presk.cli.commands.options import JsonOption
from presk.cli.exits import Exit
from presk.cli.request import Request

if TYPE_CHECKING:  # numpy takes a quarter of a second: not before there is a file to look at
    from presk.data.reading import DataFile
    from presk.data.vocabulary import Vocabulary

SUFFIX: Final = ".psk.d"
MAX_TOKENS: Final = (1 << 53) - 1

FileArgument = Annotated[str, typer.Argument(metavar="FILE", help="A data file.")]


def data_application() -> typer.Typer:
    """The group of commands on data files."""
    app = typer.Typer(help="Make data files of texts, and look at them.", no_args_is_help=True, rich_markup_mode=None)
    app.command("pack")(pack_command)
    app.command("info")(info_command)
    app.command("show")(show_command)
    return app


def pack_command(
    context: typer.Context,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="A text.")],
    window: Annotated[
        int, typer.Option("--window", metavar="T", min=1, max=MAX_TOKENS, help="How many tokens a sample has.")
    ],
    out: Annotated[str, typer.Option("--out", metavar="FILE", help="The data file to write.")],
    stride: Annotated[
        int,
        typer.Option("--stride", metavar="S", min=1, max=MAX_TOKENS, help="From one sample to the next, in tokens."),
    ] = 1,
    vocab: Annotated[
        str,
        typer.Option(
            "--vocab",
            metavar="chars|bytes|FILE",
            help="What a token is: a character of the text, a byte, or a text of a JSON list or of another data file.",
        ),
    ] = "chars",
    pairs: Annotated[
        bool,
        typer.Option(
            "--pairs/--no-pairs", help="Whether a sample is T tokens and the token that follows each of them."
        ),
    ] = True,
    json: JsonOption = False,
) -> None:
    """Make a data file of a text: its tokens once, and samples that are windows of them."""
    request = context.ensure_object(Request)
    content = _content(request, text)
    entries.refuse_overwriting(request, out, [text])
    # They bring numpy, as above.
    from presk.data.packing import Cut, pack

    with _faults(request):
        vocabulary = _vocabulary(request, vocab)
        try:
            pack(content, f"`{text}`", vocabulary, Cut(window, stride, pairs), request.path(out))
        except (OSError, ValueError) as error:  # ValueError: a NUL in the name
            why = (error.strerror if isinstance(error, OSError) else None) or "its name is not a file name"
            raise programs.usage(request, "E9002", f"`{out}` cannot be written: {why.lower()}") from None
    _print_info(request, out, json=json)


def info_command(context: typer.Context, file: FileArgument, json: JsonOption = False) -> None:
    """Check a data file whole, and say what it holds."""
    _print_info(context.ensure_object(Request), file, json=json)


def show_command(
    context: typer.Context,
    file: FileArgument,
    sample: Annotated[int, typer.Option("--sample", metavar="N", help="Which sample, from 0.")] = 0,
    json: JsonOption = False,
) -> None:
    """Show one sample of a data file, and its text where the file has a vocabulary."""
    request = context.ensure_object(Request)
    with _open(request, file) as data:
        # It brings numpy, as above.
        from presk.data.showing import sample_json, sample_text

        if not 0 <= sample < data.count:
            last = f"it has the samples 0 … {data.count - 1}" if data.count else "it has no sample"
            raise programs.usage(request, "E9003", f"`{file}` has no sample {sample}", last)
        request.print(sample_json(data, sample) if json else sample_text(data, sample))


def _print_info(request: Request, file: str, *, json: bool) -> None:
    with _open(request, file) as data:
        # It brings numpy, as above.
        from presk.data.showing import info_json, info_text

        data.check()
        request.print(info_json(data) if json else info_text(data))


@contextmanager
def _open(request: Request, file: str) -> "Iterator[DataFile]":
    """A data file of the command line. E9002 leaves with 2, what is wrong with the file with 4."""
    programs.reader_of(request, file)
    # It brings numpy, as above.
    from presk.data.reading import DataFile

    with _faults(request):
        try:
            found = DataFile(request.path(file), file)
        except FileNotFoundError:
            raise programs.unreadable(request, file, "there is no such file") from None
        with found:
            yield found


@contextmanager
def _faults(request: Request) -> Iterator[None]:
    """Errors of data are printed, and the command leaves with 4."""
    # It brings numpy, as above.
    from presk.exact.faults import Fault

    try:
        yield
    except Fault as fault:
        programs.usage(request, fault.code, fault.message, fault.mend)
        raise typer.Exit(Exit.RUN_FAILED) from None


def _content(request: Request, file: str) -> bytes:
    """The bytes of a file of the command line; E9002 leaves with 2."""
    programs.reader_of(request, file)
    try:
        return request.path(file).read_bytes()
    except OSError as error:
        raise programs.unreadable(request, file, (error.strerror or "it cannot be read").lower()) from None


def _vocabulary(request: Request, vocab: str) -> "Vocabulary | None":
    """`--vocab`; None for the characters of the text."""
    from presk.data.codes import TEXT  # they bring numpy, as above
    from presk.data.packing import listed_vocabulary  # with it
    from presk.data.vocabulary import BYTES, Vocabulary  # with it
    from presk.exact.faults import Fault  # with it

    if vocab in ("chars", BYTES):
        return None if vocab == "chars" else Vocabulary()
    if not vocab.endswith(SUFFIX):
        return listed_vocabulary(_content(request, vocab), f"`{vocab}`")
    with _open(request, vocab) as data:
        found = data.contents.vocabulary
    if found is None:
        raise Fault(TEXT, f"the data file `{vocab}` has no vocabulary")
    return found
