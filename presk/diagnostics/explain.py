"""The page of a code, for the terminal (`presk explain CODE`) and as Markdown (`docs/errors/`)."""

from collections.abc import Iterable, Mapping
from textwrap import fill
from types import MappingProxyType
from typing import Final

from presk.diagnostics.code import Code, Example
from presk.diagnostics.codes import CODES, FAMILIES
from presk.diagnostics.suggest import closest

INDEX: Final = "README.md"

_TEXT_WIDTH: Final = 88
_PAGE_WIDTH: Final = 120
_LONGEST_LINE: Final = 110
_MOST_LINES: Final = 40


def explain(code: str) -> str | None:
    """The text of a code's page; None for a code that is not in the table. Case does not matter."""
    row = CODES.get(code.strip().upper())
    return None if row is None else _page(row, _TextForm())


def nearest_code(code: str) -> str | None:
    """The code that was probably meant by one that is not in the table."""
    return closest(code.strip().upper(), CODES)


def pages() -> Mapping[str, str]:
    """The Markdown pages by file name: one for each code, and the index."""
    form = _MarkdownForm()
    return MappingProxyType({INDEX: _index(), **{f"{row.code}.md": _page(row, form) for row in CODES.values()}})


class _TextForm:
    """Plain text for a terminal: headings are lines by themselves, programs are indented."""

    def title(self, text: str) -> str:
        return f"{text}\n{'=' * len(text)}"

    def heading(self, text: str) -> str:
        return f"{text}\n{'-' * len(text)}"

    def paragraph(self, text: str) -> str:
        return fill(text, _TEXT_WIDTH, break_long_words=False, break_on_hyphens=False)

    def code(self, text: str) -> str:
        return "\n".join(f"    {line}".rstrip() for line in text.split("\n"))


class _MarkdownForm:
    """Markdown as it is shown by a repository's browser."""

    def title(self, text: str) -> str:
        return f"# {text}"

    def heading(self, text: str) -> str:
        return f"## {text}"

    def paragraph(self, text: str) -> str:
        return fill(text, _PAGE_WIDTH, break_long_words=False, break_on_hyphens=False)

    def code(self, text: str) -> str:
        return f"```\n{text}\n```"


_Form = _TextForm | _MarkdownForm


def _page(row: Code, form: _Form) -> str:
    parts = [form.title(f"{row.code}: {row.title}"), *_paragraphs(row.explanation, form)]
    if row.example is not None:
        parts += [form.heading("Example"), *_example(row.example, form)]
        parts.append(form.paragraph(f"`{_command(row.example)}` reports {row.code}."))
    parts += [form.heading("How to mend it"), *_paragraphs(row.mend, form)]
    if row.mended is not None:
        parts += _example(row.mended, form)
        if row.example is not None and row.example.files == row.mended.files:
            parts.append(form.paragraph(f"`{_command(row.mended)}` reports nothing."))
    return "\n\n".join(parts) + "\n"


def _paragraphs(text: str, form: _Form) -> Iterable[str]:
    return map(form.paragraph, text.split("\n\n"))


def _command(example: Example) -> str:
    return " ".join(("presk", example.command, *example.args))


def _example(example: Example, form: _Form) -> list[str]:
    """The files, each under its name if there are several."""
    parts: list[str] = []
    for name, content in example.files.items():
        if len(example.files) > 1:
            parts.append(form.paragraph(f"`{name}`:"))
        parts.append(form.code(_shown(content)))
    return parts


def _shown(content: str | bytes) -> str:
    """A file as a page shows it: bytes that are no UTF-8 as `\\xe9`, long lines and long files cut."""
    text = content.decode("utf-8", "backslashreplace") if isinstance(content, bytes) else content
    lines = [_cut(line) for line in text.removesuffix("\n").split("\n")]
    if len(lines) > _MOST_LINES:
        half = _MOST_LINES // 4
        lines = [*lines[:half], f"… ({len(lines) - 2 * half} more lines)", *lines[-half:]]
    return "\n".join(lines)


def _cut(line: str) -> str:
    if len(line) <= _LONGEST_LINE:
        return line
    half = _LONGEST_LINE // 3
    return f"{line[:half]}… ({len(line) - 2 * half} more characters) …{line[-half:]}"


def _index() -> str:
    parts = [
        "# Errors and warnings",
        "Every diagnostic has a code, and every code has a page: what it means, a program that produces it, and how to mend "
        "it.\n`presk explain CODE` prints the same. The pages are made from the table in `presk/diagnostics/codes.py` by\n"
        "`python -m presk.diagnostics.docs`.",
    ]
    for name, family in FAMILIES:
        parts.append(f"## {name}")
        parts.append(
            "\n".join(
                ["| code | |", "|---|---|", *(f"| [{row.code}]({row.code}.md) | {row.title} |" for row in family)]
            )
        )
    return "\n\n".join(parts) + "\n"
