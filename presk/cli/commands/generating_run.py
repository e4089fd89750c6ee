"""The part of `presk generate` that runs: from a checked program to the last character."""

from collections.abc import Mapping
from dataclasses import dataclass

import typer

from presk.ad.pipeline import Remat
from presk.cache.log import RequestLog
from presk.cli.commands import programs
from presk.cli.commands.parameters import existing
from presk.cli.commands.realizing import realization_of
from presk.cli.commands.running_native import level_of, threads_of
from presk.cli.commands.training_run import DEFAULT, failed
from presk.cli.exits import Exit
from presk.cli.request import Request
from presk.data.reading import DataFile
from presk.data.vocabulary import Malformed, Vocabulary, vocabulary_of
from presk.elab.config import GENERATION_FORM
from presk.elab.program import Program
from presk.elab.records import Generation
from presk.exact.faults import COMMAND, Fault
from presk.exact.interpreter import Stopped
from presk.kernels.native.driver import Driver as Threads
from presk.kernels.stage import ROUTINES
from presk.native.run import Asked as Native
from presk.native.run import Executor
from presk.realize.record import uniform
from presk.train import checkpoint
from presk.train.generate import UNBOUNDED, Generator, generation, trained_window
from presk.train.parameters import read_file
from presk.types.dim import Dim

OTHER: str = "E8009"
LINE_END: str = "\n"
"""The prompt where none is given."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line says, as it was written; see `presk.cli.commands.generating.generate_command`."""

    file: str
    params: str
    prompt: str
    length: int
    window: int | None
    data: str | None
    words: Mapping[str, str]
    seed: int
    realize: str | None
    threads: int | None
    level: str | None


def generate(request: Request, ran: RequestLog, overrides: dict[str, Dim], asked: Asked) -> bool:
    """Generates; whether it ended in an error, which is then said."""
    found, typed = programs.elaborated(request, asked.file, overrides)
    programs.complain_of(request, found.diagnostics, found.sources)
    function = generation(typed)
    if function is None:
        request.complain(
            f"error[E9003]: `{asked.file}` has no function that generates\n  = help: {GENERATION_FORM}; its model is that of "
            "the `inference serve` or the `training run` block"
        )
        raise typer.Exit(Exit.NOTHING)
    native = Native(
        dims={},
        words={},
        inputs={},
        seed=asked.seed,
        remat=Remat.STORE,
        unroll=False,
        realization=uniform(DEFAULT) if asked.realize is None else realization_of(request, asked.realize),
        executor=Executor.NATIVE,
        level=level_of(request, asked.level, runs=True),
        threads=threads_of(request, asked.threads),
    )
    try:
        _generate(request, ran, typed, function, native, asked)
    except Stopped as stopped:
        return failed(request, stopped.fault)
    except Fault as fault:
        return failed(request, fault)
    return False


def _generate(
    request: Request, ran: RequestLog, typed: Program, function: Generation, native: Native, asked: Asked
) -> None:
    path = existing(request, asked.params)
    shown = checkpoint.shown_as(request.path(asked.params), asked.params, path)
    file = read_file(path, shown)
    vocabulary = _vocabulary(request, asked, file.vocab, shown)
    with Threads(request.engine.get(ROUTINES).value, native.threads) as threads:
        generator = Generator(
            request.engine, ran, typed, function, native, file.parameters, shown, asked.words, threads
        )
        if vocabulary.size > generator.bound:
            raise Fault(
                OTHER,
                f"the vocabulary has {vocabulary.size} tokens, and `{function.function}` takes {generator.bound}",
                mend="give the constants that the training had: --const V=…",
            )
        longest = generator.longest()
        window = asked.window
        if window is None:
            window = file.sequence or trained_window(typed) or longest or UNBOUNDED
            window = window if longest is None else min(window, longest)
        if longest is not None and window > longest:
            raise programs.usage(
                request, "E9003", f"`--window {window}`: `{function.function}` takes contexts of at most {longest}"
            )
        prompt = _prompt(vocabulary, asked.prompt)
        if not prompt:
            raise Fault(COMMAND, "the prompt is empty, and a context has a token at least", mend='--prompt "…"')
        generator.prepare(len(prompt), window)
        decoder = vocabulary.decoder()
        _write(request, asked.prompt)
        tokens = generator.tokens(prompt, window, asked.seed)
        for _ in range(asked.length):
            token = next(tokens)
            # A model may have room for more tokens than its data has.
            _write(request, decoder.feed([token]) if token < vocabulary.size else "\N{REPLACEMENT CHARACTER}")
        _write(request, decoder.close() + "\n")


def _prompt(vocabulary: Vocabulary, text: str) -> list[int]:
    """The tokens of a prompt; E8004 where it cannot be written in the vocabulary."""
    try:
        return [int(token) for token in vocabulary.encode(text, "the prompt")]
    except Fault as fault:
        if text != LINE_END:
            raise
        # Perhaps nobody has given it.
        why = "the vocabulary has no line end, with which a text begins where no prompt is given"
        raise Fault(fault.code, why, mend='--prompt "…"') from None


def _write(request: Request, text: str) -> None:
    request.print(text, end="")
    request.stdout.flush()


def _vocabulary(request: Request, asked: Asked, stored: str | None, shown: str) -> Vocabulary:
    """The vocabulary of the checkpoint, or of a data file; E8009 where they differ."""
    own = None
    if asked.data is not None:
        with DataFile(request.path(asked.data), asked.data) as data:
            own = data.contents.vocabulary
        if own is None:
            raise Fault(OTHER, f"`{asked.data}` has no vocabulary", mend="name the data file of the training")
    if stored is None:
        if own is None:
            raise Fault(OTHER, f"`{shown}` has no vocabulary", mend="name the data file of the training: --data FILE")
        return own
    if own is not None and own.spelled() != stored:
        raise Fault(OTHER, f"the vocabulary of `{asked.data}` is not the one that `{shown}` was trained with")
    try:
        return vocabulary_of(stored)
    except Malformed as error:
        raise Fault("E8006", f"the checkpoint `{shown}` cannot be read: its vocabulary is damaged: {error}") from None
