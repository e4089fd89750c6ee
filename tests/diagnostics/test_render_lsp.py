"""The editor's form: one whole golden file, and columns counted by hand."""

import json
from collections.abc import Callable

import pytest

from presk.diagnostics.render_lsp import render_lsp
from presk.diagnostics.value import Diagnostic, Label, Place
from tests.diagnostics.support import CharacterSources, label

FILES = {"a.psk": "dim T\r\nfn f(θ : ℝ[T]) -> ℝ[4] = θ\n", "b.psk": "-- 😀\nconst D = 4\n"}


def test_whole_output(golden: Callable[[str, str], None]) -> None:
    diagnostics = [
        Diagnostic(
            "E2003",
            "expected `ℝ[4]`, found `ℝ[T]`",
            label(FILES, "a.psk", "θ", "this is `ℝ[T]`", nth=2),
            (label(FILES, "a.psk", "ℝ[4]", "declared here"), label(FILES, "b.psk", "D", "the constant")),
            ("they differ for T = 0",),
            "declare `ℝ[T]`",
        ),
        Diagnostic("E1005", "not a natural number", label(FILES, "b.psk", "4")),
        Diagnostic("W0001", "implicit dimension", label(FILES, "a.psk", "T", nth=2)),
        Diagnostic("E9002", "no such file", Label(Place(0, -1, file="gone.psk"))),
    ]
    documents = render_lsp(
        diagnostics,
        CharacterSources(FILES),
        uri=lambda file: f"file:///project/{file}",
        page=lambda code: f"https://example.org/errors/{code}",
    )
    golden("diagnostics/editor.json", json.dumps(documents, ensure_ascii=False, indent=2) + "\n")


@pytest.mark.parametrize(
    "text, index, line, character",
    [
        ("a😀b", 1, 0, 1),
        ("a😀b", 2, 0, 3),
        ("a😀b", 3, 0, 4),
        ("漢b", 1, 0, 1),
        ("x̂b", 2, 0, 2),
        ("\tb", 1, 0, 1),
        ("a\rb", 1, 0, 1),
        ("a\rb", 2, 1, 0),
        ("a\r\nb", 3, 1, 0),
        ("a\r\rb\nc", 5, 3, 0),
        ("a\n", 2, 1, 0),
        ("", 0, 0, 0),
    ],
)
def test_positions(text: str, index: int, line: int, character: int) -> None:
    documents = render_lsp(
        [Diagnostic("E0001", "", Label(Place(index, index, file="a")))],
        CharacterSources({"a": text}),
        uri=str,
        page=str,
    )
    position = {"line": line, "character": character}
    assert documents["a"][0]["range"] == {"start": position, "end": position}
