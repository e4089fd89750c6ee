"""The JSON form: one whole golden file, and what the laws do not say."""

from collections.abc import Callable

from presk.diagnostics.render_json import render_json
from presk.diagnostics.value import Diagnostic, Label, Place
from tests.diagnostics.support import CharacterSources, label

FILES = {"a.psk": "dim T\r\nfn f(θ : ℝ[T]) -> ℝ[4] = θ\n", "b.psk": "-- 漢字\nconst D = 4\n"}


def test_whole_output(golden: Callable[[str, str], None]) -> None:
    diagnostics = [
        Diagnostic(
            "E2003",
            "expected `ℝ[4]`, found `ℝ[T]`",
            label(FILES, "a.psk", "θ", "this is `ℝ[T]`", nth=2),
            (label(FILES, "a.psk", "ℝ[4]", "declared here"), label(FILES, "b.psk", "D", "the constant")),
            ("they differ for T = 0", 'a "quoted" note\nof two lines'),
            "declare `ℝ[T]`",
        ),
        Diagnostic("W0001", "implicit dimension", label(FILES, "a.psk", "fn", until="4]")),
        Diagnostic("E9002", "no such file", Label(Place(0, -1, file="gone.psk"))),
        Diagnostic("E9001", "internal error", Label(Place(0, -1))),
    ]
    golden("diagnostics/form.jsonl", render_json(diagnostics, CharacterSources(FILES, bom=frozenset({"b.psk"}))))


def test_nothing_is_nothing() -> None:
    assert render_json([], CharacterSources(FILES)) == ""


def test_a_line_has_no_character_that_a_terminal_obeys_or_a_reader_splits_at() -> None:
    message = "a\x1b[31m\x07\x7f\x85\x9b\u2028\u2029\r\n\x0b\x0cz"
    shown = render_json([Diagnostic("E0002", message, Label(Place(0, -1)))], CharacterSources({}))
    assert len(shown.splitlines()) == 1
    assert shown.removesuffix("\n").isprintable()
    assert '"message":"a\\u001b[31m\\u0007\\u007f\\u0085\\u009b\\u2028\\u2029\\r\\n\\u000b\\fz"' in shown


def test_half_a_surrogate_pair() -> None:
    shown = render_json(
        [Diagnostic("E9002", "no \udc80", Label(Place(0, -1, file="\udc80.psk")))], CharacterSources({})
    )
    assert '"message":"no \ufffd","file":"\ufffd.psk"' in shown
    shown.encode()
