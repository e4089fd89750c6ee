"""The syntax by its steps: lexing, cutting into chunks, parsing, formatting, in lines per second of the processor.

Beside it the same tables driven by lark itself, with our tokens and a tree builder that does nothing.
"""

import gc
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from lark import Lark, Token

from presk.syntax.api import parse_file
from presk.syntax.fmt import format_source
from presk.syntax.generate import HERE, NoLexer
from presk.syntax.layout import cut
from presk.syntax.lexer import lex
from presk.syntax.parse import parse_chunk, retag
from tests.bench.programs import generated


def seconds(call: Callable[[], object], runs: int = 5) -> tuple[float, float]:
    """Median and spread (largest less smallest) of some runs, in seconds of the processor."""
    times = []
    for _ in range(runs):
        gc.collect()
        started = time.process_time()
        call()
        times.append(time.process_time() - started)
    return statistics.median(times), max(times) - min(times)


class _Passing:
    """Callbacks that keep the first value of a production."""

    def __init__(self, callbacks: Any) -> None:
        self.rules = {rule: (lambda values: values[0] if values else None) for rule in callbacks}

    def __getitem__(self, rule: object) -> Any:
        return self.rules[rule]

    def __contains__(self, rule: object) -> bool:
        return rule in self.rules


def lark_alone(source: bytes) -> Callable[[], None]:
    """lark's own loop over the chunks of a file, without building anything."""
    grammar = (HERE / "presk.lark").read_text(encoding="utf-8")
    starts = ["declaration", "member", "item", "header"]
    lark = Lark(grammar, parser="lalr", lexer=NoLexer, start=starts, keep_all_tokens=True)
    terminals = {t.pattern.value: t.name for t in lark.terminals if t.pattern is not None}
    chunks = [
        (chunk.kind, [Token(terminals.get(kind, kind.upper()), kind) for kind in retag(chunk.kind, chunk.tokens)])
        for chunk in cut(lex(source)).file.chunks()
    ]
    parser = lark.parser.parser.parser
    parser.callbacks = _Passing(parser.callbacks)

    def run() -> None:
        for kind, tokens in chunks:
            state = parser.parse(None, kind, start_interactive=True).parser_state
            for token in tokens:
                state.feed_token(token)
            state.feed_token(Token("$END", ""), True)

    return run


def import_time(module: str) -> float:
    """Processor seconds to import a module in a new process that has msgspec: the least of five."""
    program = f"import time, msgspec; t = time.process_time(); import {module}; print(time.process_time() - t)"
    return min(
        float(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout)
        for _ in range(5)
    )


def main() -> None:
    print(
        f"import of presk.syntax.api {import_time('presk.syntax.api') * 1e3:.0f} ms, of lark {import_time('lark') * 1e3:.0f} ms"
    )
    print(
        f"{'lines per second':<14}"
        + "".join(f"{name:>12}" for name in ("lines", "lex", "cut", "parse", "all", "fmt", "lark"))
    )
    for lines in (1000, 5000, 20000):
        source = generated(lines).encode()
        count = source.count(b"\n")
        lexed = lex(source)
        chunks = list(cut(lexed).file.chunks())
        measured = [
            seconds(lambda: lex(source)),  # noqa: B023 (called at once)
            seconds(lambda: cut(lexed)),  # noqa: B023
            seconds(lambda: [parse_chunk(chunk) for chunk in chunks]),  # noqa: B023
            seconds(lambda: parse_file(source)),  # noqa: B023
            seconds(lambda: format_source(source), runs=3),  # noqa: B023
            seconds(lark_alone(source), runs=3),
        ]
        print(f"{'median':<14}{count:>12}" + "".join(f"{count / median:>12,.0f}" for median, _ in measured))
        print(f"{'spread':<14}{'':>12}" + "".join(f"{spread / median:>12.0%}" for median, spread in measured))
