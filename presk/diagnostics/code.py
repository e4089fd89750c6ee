"""What the table of codes says about one code."""

from collections.abc import Mapping
from textwrap import dedent
from types import MappingProxyType
from typing import Final

import msgspec

MAIN: Final = "main.psk"


class Example(msgspec.Struct, frozen=True):
    """A program and the arguments behind `presk check` (or another `command`) that make it an example; file names are relative,
    with `/`.

    A file is text or, where its bytes matter, bytes.
    """

    files: Mapping[str, str | bytes]
    args: tuple[str, ...] = (MAIN,)
    command: str = "check"


class Code(msgspec.Struct, frozen=True):
    """A row of the table: everything but the words of one message.

    `explanation` is paragraphs, separated by empty lines, in the Markdown that a terminal can show as it is (code spans
    only). `example` reports the code, among others at most; `mended` is a version of it that reports nothing, where there
    is one to show. A code without an example says in its explanation why it has none.
    """

    code: str
    title: str
    explanation: str
    mend: str
    example: Example | None
    mended: Example | None = None


def program(
    text: str,
    files: Mapping[str, str | bytes] | None = None,
    *,
    args: tuple[str, ...] = (MAIN,),
    command: str = "check",
) -> Example:
    """An example whose main file is `text`, its indentation and first line break taken away; `files` are the others."""
    return Example(MappingProxyType({MAIN: source(text), **(files or {})}), args, command)


def source(text: str) -> str:
    """A file's text from an indented literal."""
    return dedent(text).removeprefix("\n")


def paragraphs(text: str) -> str:
    """An explanation or a mend from an indented literal: each paragraph in one line."""
    parts = dedent(text).strip().split("\n\n")
    return "\n\n".join(" ".join(part.split()) for part in parts)
