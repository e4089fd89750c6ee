"""Inputs that nobody means seriously: an answer with an error's code, and never a traceback."""

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from presk.elab.files import FolderReader
from tests.cli.console import GOOD, Console

MEGABYTES: Final = 5_000_000

# What a program is made of, and the codes that are reported.
PROGRAMS: Final[dict[str, tuple[Callable[[], bytes], tuple[str, ...]]]] = {
    "nothing": (lambda: b"", ()),
    "a blank": (lambda: b" ", ()),
    "five megabytes of comments": (lambda: b"-- and so on, and so on, and so on\n" * (MEGABYTES // 35), ()),
    "a comment of five megabytes": (lambda: b"-- " + b"a" * MEGABYTES, ()),
    "five megabytes of NULs": (lambda: b"\0" * MEGABYTES, ("E0002",)),
    "five megabytes of one name": (lambda: b"const " + b"a" * MEGABYTES + b" = 1\n", ("E0006",)),
    "a name without an end": (lambda: b"a" * MEGABYTES, ("E0006",)),
    "a number of a million digits": (lambda: b"const A = " + b"9" * 1_000_000 + b"\n", ("E0006",)),
    "a name with a hundred thousand accents": (
        lambda: ("fn f(x : ℝ) -> ℝ = x" + "\u0301" * 100_000 + "\n").encode(),
        ("E0006",),
    ),
    "a hundred thousand quotation marks": (lambda: b'"' * 100_000, ("E0001",)),
    "invalid UTF-8": (lambda: b"const A = 1\n\xff\xfe\nconst B = A\n", ("E0011",)),
    "UTF-16": (lambda: "const A = 1\n".encode("utf-16"), ("E0011",)),
    "a character that is cut off": (lambda: "const A = 1 -- ℝ".encode()[:-1], ("E0011",)),
    "noise": (lambda: random.Random(1).randbytes(100_000), ("E0011",)),
    "ten thousand parentheses": (lambda: b"const A = " + b"(" * 10_000 + b"1" + b")" * 10_000 + b"\n", ("E0007",)),
    "ten thousand parentheses that are open": (lambda: b"const A = " + b"(" * 10_000 + b"\n", ("E0007",)),
    "ten thousand that are closed": (lambda: b"const A = 1" + b")" * 10_000 + b"\n", ("E0009",)),
    "types inside each other": (lambda: f"fn f(x : {'ℝ[' * 10_000}3{']' * 10_000}) -> ℝ = x\n".encode(), ("E0007",)),
    "tuples inside each other": (lambda: f"type A = {'(' * 600}ℝ{', ℝ)' * 600}\n".encode(), ("E0007",)),
    "a sum of three thousand": (lambda: f"fn f(x : ℝ) -> ℝ = {' + '.join(['x'] * 3_000)}\n".encode(), ("E0007",)),
    "lambdas inside each other": (lambda: f"fn f(x : ℝ) -> ℝ = {'λ a. ' * 3_000}x\n".encode(), ("E0007",)),
    "modules behind each other": (
        lambda: f"module M {{\n  fn apply(x : ℝ) -> ℝ = x\n}}\nmodel N = {' ∘ '.join(['M'] * 3_000)}\n".encode(),
        ("E0007",),
    ),
    "ten thousand lets": (
        lambda: "".join(
            (
                "fn f(x : ℝ) -> ℝ =\n",
                "  let y0 = x\n",
                *(f"  let y{i} = y{i - 1} + x\n" for i in range(1, 10_000)),
                "  y9999\n",
            )
        ).encode(),
        ("E0007",),
    ),
    "nested as deeply as is allowed": (lambda: f"const A = {'(' * 490}1{')' * 490}\n".encode(), ()),
    "a thousand broken declarations": (lambda: b"const = 1\n" * 1_000, ("E0001",)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_that_is_none(console: Console, name: str) -> None:
    content, expected = PROGRAMS[name]
    console.write("odd.psk", content())
    ran = console.presk("check", "odd.psk", "--message-format", "json")
    codes = {line.partition('"code":"')[2][:5] for line in ran.out.splitlines()}
    assert codes == set(expected)
    assert ran.code == (1 if expected else 0)
    assert ran.err == ""
    text = console.presk("check", "odd.psk")
    assert text.code == ran.code
    assert ("error[" in text.out) == bool(expected)
    assert all(len(line) < 1_000 for line in text.out.splitlines())


@pytest.mark.parametrize("name", PROGRAMS)
def test_other_commands_on_it(console: Console, name: str) -> None:
    content, expected = PROGRAMS[name]
    if len(content()) > 1_000_000 and not expected:
        content = lambda: b"-- short\n"  # noqa: E731  # what they print of a comment is the comment
    console.write("odd.psk", content())
    for command in (
        ("dump", "--stage", "ast"),
        ("dump", "--stage", "elab"),
        ("fmt", "--stdout"),
        ("check", "--summary"),
    ):
        ran = console.presk(command[0], "odd.psk", *command[1:])
        assert ran.code == (1 if expected else 0), command
        assert ("error[E9" in ran.err, "Traceback" in ran.err) == (False, False), command
    assert console.presk("dump", "odd.psk", "--stage", "tokens").code == 0


def test_a_file_that_vanishes_between_two_looks(console: Console, tmp_path: Path) -> None:
    class Vanishing(FolderReader):
        def read(self, file: str) -> bytes | str:
            os.unlink(self.path(file))
            return super().read(file)

    for command in (("check",), ("fmt",), ("dump", "--stage", "tokens"), ("why",)):
        console.write("brief.psk", GOOD)
        ran = console.presk(command[0], "brief.psk", *command[1:], make_reader=Vanishing)
        assert (ran.out, ran.code) == ("", 2)
        assert ran.err == "error[E9002]: `brief.psk` cannot be read: there is no such file\n"


def test_an_import_that_vanishes(console: Console) -> None:
    class Vanishing(FolderReader):
        def resolve(self, importer: str, written: str) -> str:
            found = super().resolve(importer, written)
            os.unlink(self.path(found))
            return found

    ran = console.presk("check", "importing.psk", make_reader=Vanishing)
    assert ran.code == 1
    assert "error[E1002]: the file `lib/sizes.psk` cannot be imported: there is no such file" in ran.out


def test_imports_of_what_is_no_file(console: Console) -> None:
    os.mkfifo(console.folder / "pipe.psk")
    for path, why in (("pipe.psk", "it cannot be read"), ("lib", "it is a folder"), ("/dev/zero", "it cannot be read")):
        console.write("main.psk", f'import "{path}" as m\n')
        ran = console.presk("check", "main.psk")
        assert (ran.code, f"cannot be imported: {why}" in ran.out) == (1, True), ran.out


def test_a_file_that_may_not_be_read(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    ran = console.presk("check", "good.psk")
    assert (ran.err, ran.code) == ("error[E9002]: `good.psk` cannot be read: it may not be read\n", 2)


def test_a_file_that_may_not_be_written(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    untidy = "const  D=4\n"
    path = console.write("untidy.psk", untidy)

    def refuse(source: str, target: str) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "replace", refuse)
    ran = console.presk("fmt", "untidy.psk")
    assert (ran.err, ran.code) == ("error[E9002]: `untidy.psk` cannot be written: read-only file system\n", 2)
    assert path.read_text("utf-8") == untidy
    assert sorted(entry.name for entry in console.folder.glob(".*")) == []
