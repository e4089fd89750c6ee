"""The parser of the cases and their comparison, and what the suite as a whole must cover. Needs no compiler."""

import json
import re
from pathlib import Path
from typing import Final

import pytest

from .cases import (
    Case,
    Expected,
    MalformedCase,
    Reported,
    compare,
    covered,
    occurs,
    parse,
    parse_file,
    read_reported,
    without_spans,
)

FOLDER: Final = Path(__file__).parent
THEMES: Final = tuple(path for path in sorted(FOLDER.glob("*.md")) if path.name != "README.md")
ELSEWHERE: Final = ("L069", "L070")  # the formatter and the stages that an edit reaches have suites of their own
_ABOUT_THE_LANGUAGE: Final = (
    *(1, 2, *range(7, 15), *range(17, 37), 47, 48, 49),
    *(65, *range(67, 72), *range(73, 81), *range(82, 88), 89, 90, 91),
)
DECISIONS: Final = tuple(f"O{number:02}" for number in _ABOUT_THE_LANGUAGE)

WHOLE: Final = """\
# Theme

Prose about the theme.

## L074 O73 an import cycle names its files

What is meant.

```psk main.psk
import "b.psk" as b
## no heading inside a fence
```

```psk sub/b.psk escaped
⟨EF BB BF⟩const A = ⟨"(" * 3⟩1⟨79 CC 82 * 2⟩⟨0D⟩
```

args: `--const ⟨79 CC 82⟩=12 --const H=3`

```expect
E1003|E1002 sub/b.psk:1 "main.psk" "say \\"b\\"" not "other"
W0001 main.psk:1-2
elab "w : ℝ[3]"
elab-not "w : ℝ[4]"
summary "-- training --"
ast "0.1"
```

## L001 a second one
```psk main.psk
const A = 1
```
```psk other.psk
const A = 2
```
```expect
ok
ast-equal other.psk
ast-differ other.psk
```

## L002 a third one
```psk main.psk
```
args: `gone.psk`
```expect
exit 2
```
"""


def test_a_whole_file_is_read() -> None:
    first, second, third = parse(WHOLE, "theme.md")
    assert (first.line, first.ids, first.title) == (5, ("L074", "O73"), "an import cycle names its files")
    assert first.name == "theme: L074 O73 an import cycle names its files"
    assert [file.name for file in first.files] == ["main.psk", "sub/b.psk"]
    assert first.files[0].content == b'import "b.psk" as b\n## no heading inside a fence\n'
    assert first.files[1].content == b"\xef\xbb\xbfconst A = (((1y\xcc\x82y\xcc\x82\r\n"
    assert first.args == ("--const", "y\u0302=12", "--const", "H=3")
    assert first.diagnostics == (
        Expected(("E1003", "E1002"), "sub/b.psk", 1, 1, ("main.psk", 'say "b"'), ("other",)),
        Expected(("W0001",), "main.psk", 1, 2),
    )
    assert (first.elab, first.elab_not) == (("w : ℝ[3]",), ("w : ℝ[4]",))
    assert (first.summary, first.ast, first.expected_exit()) == (("-- training --",), ("0.1",), 1)
    assert (second.diagnostics, second.ast_equal, second.ast_differ) == ((), ("other.psk",), ("other.psk",))
    assert second.expected_exit() == 0
    assert (third.diagnostics, third.exit_code, third.expected_exit()) == (None, 2, 2)
    assert third.files[0].content == b""


def test_warnings_leave_with_zero() -> None:
    (case,) = parse("# T\n## L090 x\n```psk main.psk\nfn f\n```\n```expect\nW0001 main.psk:1\n```\n", "t.md")
    assert case.expected_exit() == 0


PROGRAM: Final = "```psk main.psk\nconst A = 1\n\n-- a comment\n```\n"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("## L001 x\n" + PROGRAM + "```expect\nok\n```\n", "first line"),
        ("# T\n", "no case"),
        ("# T\n# U\n## L001 x\n" + PROGRAM + "```expect\nok\n```\n", "only prose"),
        ("# T\n## a title without ids\n" + PROGRAM + "```expect\nok\n```\n", "a heading is"),
        ("# T\n## L001\n" + PROGRAM + "```expect\nok\n```\n", "a heading is"),
        ("# T\n## L001 L001 x\n" + PROGRAM + "```expect\nok\n```\n", "id twice"),
        ("# T\n## L000 x\n" + PROGRAM + "```expect\nok\n```\n", "there is no L000"),
        ("# T\n## L487 x\n" + PROGRAM + "```expect\nok\n```\n", "there is no L487"),
        ("# T\n## O92 x\n" + PROGRAM + "```expect\nok\n```\n", "there is no O92"),
        ("# T\n## L1 x\n" + PROGRAM + "```expect\nok\n```\n", "there is no L1"),
        ("# T\n" + ("## L001 x\n" + PROGRAM + "```expect\nok\n```\n") * 2, "again"),
        ("# T\n## L001 x\n```expect\nok\n```\n", "without a program"),
        ("# T\n## L001 x\n" + PROGRAM, "without expectations"),
        ("# T\n## L001 x\n" + PROGRAM + "```expect\n```\n", "without expectations"),
        ("# T\n## L001 x\n" + PROGRAM + "```expect\nok\n```\n```expect\nok\n```\n", "second block"),
        ("# T\n## L001 x\n```expect\nok\n```\n" + PROGRAM, "behind the expectations"),
        ("# T\n## L001 x\n" + PROGRAM + PROGRAM + "```expect\nok\n```\n", "two programs of one name"),
        ("# T\n## L001 x\n" + PROGRAM + "lost words\n```expect\nok\n```\n", "lost"),
        ("# T\n## L001 x\n" + PROGRAM + "```expect\nok\n```\nlost words\n", "lost"),
        ("# T\n## L001 x\n### Sub\n" + PROGRAM + "```expect\nok\n```\n", "one heading"),
        ("# T\n## L001 x\n```psk main.psk\nconst A = 1\n", "not closed"),
        ("# T\n## L001 x\n```psk\nconst A = 1\n```\n```expect\nok\n```\n", "a fence is"),
        ("# T\n## L001 x\n```python main.psk\nconst A = 1\n```\n```expect\nok\n```\n", "a fence is"),
        ("# T\n## L001 x\n```psk ../main.psk\nconst A = 1\n```\n```expect\nok\n```\n", "a fence is"),
        ("# T\n## L001 x\n```psk /main.psk\nconst A = 1\n```\n```expect\nok\n```\n", "a fence is"),
        ("# T\n## L001 x\n```psk main.psk twice\nconst A = 1\n```\n```expect\nok\n```\n", "a fence is"),
        ("# T\n## L001 x\n```psk main.psk escaped\nconst A = 1\n```\n```expect\nok\n```\n", "go together"),
        ("# T\n## L001 x\n```psk main.psk\nconst A = ⟨31⟩\n```\n```expect\nok\n```\n", "go together"),
        ("# T\n## L001 x\n```psk main.psk escaped\nconst A = ⟨3⟩\n```\n```expect\nok\n```\n", "an escape is"),
        ("# T\n## L001 x\n" + PROGRAM + "args: --const A=1\n```expect\nok\n```\n", "arguments are written"),
        ("# T\n## L001 x\n" + PROGRAM + "args: `a`\nargs: `b`\n```expect\nok\n```\n", "one line of arguments"),
        ("# T\n## L001 x\n" + PROGRAM + "```expect\nok\n```\nargs: `a`\n", "one line of arguments"),
        ("# T\n## L001 x\n" + PROGRAM + "```expect\nfine\n```\n", "not an expectation"),
        ("# T\n## L001 x\n" + PROGRAM + "```expect\nok \n```\n", "not an expectation"),
        ("# T\n## L001 x\n" + PROGRAM + "```expect\nok\nok\n```\n", "ok twice"),
        ("# T\n## L001 x\n" + PROGRAM + "```expect\nok\n\n```\n", "not an expectation"),
        ("# T\n## L001 x\n" + PROGRAM + "```expect\nok\nE1005 main.psk:1\n```\n", "ok and a diagnostic"),
        ("# T\n## L001 x\n" + PROGRAM + "```expect\nE105 main.psk:1\n```\n", "a diagnostic is"),
        ("# T\n## L001 x\n" + PROGRAM + "```expect\nE1005 main.psk\n```\n", "a diagnostic is"),
        ("# T\n## L001 x\n" + PROGRAM + "```expect\nE1005 other.psk:1\n```\n", "no program is called"),
        ("# T\n## L001 x\n" + PROGRAM + "```expect\nE1005 main.psk:2\n```\n", "no program text on line 2"),
        ("# T\n## L001 x\n" + PROGRAM + "```expect\nE1005 main.psk:3\n```\n", "no program text on line 3"),
        ("# T\n## L001 x\n" + PROGRAM + "```expect\nE1005 main.psk:9\n```\n", "no program text on line 9"),
        ("# T\n## L001 x\n" + PROGRAM + "```expect\nE1005 main.psk:1-1\n```\n", "rises"),
        ("# T\n## L001 x\n" + PROGRAM + "```expect\nE1005|W0001 main.psk:1\n```\n", "stand for one another"),
        ("# T\n## L001 x\n" + PROGRAM + "```expect\nE1005 main.psk:1 text\n```\n", "expected"),
        ("# T\n## L001 x\n" + PROGRAM + '```expect\nE1005 main.psk:1 ""\n```\n', "expected"),
        ("# T\n## L001 x\n" + PROGRAM + '```expect\nE1005 main.psk:1 "a\n```\n', "expected"),
        ("# T\n## L001 x\n" + PROGRAM + '```expect\nelab "a"\n```\n', "say ok"),
        ("# T\n## L001 x\n" + PROGRAM + '```expect\nok\nelab "a" "b"\n```\n', "takes one"),
        ("# T\n## L001 x\n" + PROGRAM + '```expect\nok\nelab not "a"\n```\n', "takes one"),
        ("# T\n## L001 x\n" + PROGRAM + "```expect\nast-equal other.psk\n```\n", "names another program"),
        ("# T\n## L001 x\n" + PROGRAM + "```expect\nast-equal main.psk\n```\n", "names another program"),
        ("# T\n## L001 x\n" + PROGRAM + "```expect\nexit 2\nok\n```\n", "exit stands alone"),
        ("# T\n## L001 x\n" + PROGRAM + "```expect\nexit two\n```\n", "not an expectation"),
        ("# T\n## L001 x\n" + PROGRAM + 'args: `a`\n```expect\nast "a"\n```\n', "nothing reads"),
    ],
)
def test_malformed_cases_are_refused(text: str, why: str) -> None:
    with pytest.raises(MalformedCase, match=re.escape(why)) as caught:
        parse(text, "t.md")
    assert re.match(r"t\.md:\d+: ", str(caught.value))


@pytest.mark.parametrize(
    ("wanted", "text", "found"),
    [
        ("T = 1", "fails for T = 1", True),
        ("T = 1", "fails for T = 1024", False),
        ("T = 1", "fails for NT = 1", False),
        ("T = 1", "fails for S = 0, T = 1.", True),
        ("ℝ[3]", "expected ℝ[3], found ℝ[4]", True),
        ("4*D", "write `4*D`", True),
        ("a  b", "a\n    b", True),
        ("y\u0302", "the name ŷ", True),
        ("seq", "seq2", False),
        ("-- training --", "x\n-- training --\ny", True),
    ],
)
def test_texts_are_found_as_whole_words(wanted: str, text: str, found: bool) -> None:
    assert occurs(wanted, text) is found


def _reported(code: str, line: int, text: str = "", file: str = "main.psk", severity: str = "error") -> Reported:
    return Reported(code, severity, file, line, text)


def test_comparison_is_exact_and_free_of_order() -> None:
    expected = (Expected(("E2003",), "main.psk", 2, 2, ("D = 1",)), Expected(("E1005",), "main.psk", 1, 1))
    fitting = [_reported("E1005", 1), _reported("E2003", 2, "fails for D = 1")]
    assert compare(expected, fitting) is None
    assert compare(expected, fitting[::-1]) is None
    assert compare((), ()) is None
    assert compare(expected, fitting[:1]) == 'missing: E2003 main.psk:2 "D = 1"'
    assert compare((), fitting[:1]) == "reported: E1005 main.psk:1 ''"
    assert compare(expected[1:], [fitting[0], fitting[0]]) == "reported: E1005 main.psk:1 ''"


@pytest.mark.parametrize(
    "wrong",
    [
        _reported("E2004", 2, "a b"),
        _reported("E2003", 1, "a b"),
        _reported("E2003", 5, "a b"),
        _reported("E2003", 2, "b"),
        _reported("E2003", 2, "a b c"),
        _reported("E2003", 2, "a b", file="lib.psk"),
        _reported("E2003", 2, "a b", severity="warning"),
    ],
)
def test_comparison_looks_at_everything(wrong: Reported) -> None:
    expected = Expected(("E2003", "E2001"), "main.psk", 2, 4, ("a",), ("c",))
    assert compare((expected,), (wrong,)) is not None
    for right in (_reported("E2003", 2, "a b"), _reported("E2001", 4, "x\na")):
        assert compare((expected,), (right,)) is None


def test_comparison_finds_the_assignment_that_exists() -> None:
    loose = Expected(("E2003",), "main.psk", 1, 9)
    tight = Expected(("E2003",), "main.psk", 1, 1)
    reported = (_reported("E2003", 1), _reported("E2003", 2))
    assert compare((loose, tight), reported) is None
    assert compare((tight, loose), reported[::-1]) is None
    assert compare((tight, tight), reported) is not None


def test_diagnostics_are_read_from_json_lines() -> None:
    place = {"line": 3, "column": 5, "offset": 20}
    value = {
        "code": "E2003",
        "severity": "error",
        "message": "shapes differ",
        "file": "sub/../main.psk",
        "span": {"start": place, "end": place},
        "labels": [{"file": "main.psk", "span": {"start": place, "end": place}, "text": "here", "primary": True}],
        "notes": ["fails for D = 1"],
        "mend": None,
    }
    output = f"{json.dumps(value)}\n{json.dumps({**value, 'mend': 'write 4*D'})}\n".encode()
    first, second = read_reported(output)
    assert first == Reported("E2003", "error", "main.psk", 3, "shapes differ\nhere\nfails for D = 1\n")
    assert second.text.endswith("write 4*D")
    assert read_reported(b"") == ()
    with pytest.raises(json.JSONDecodeError):
        read_reported(b"not json\n")


def test_trees_are_compared_without_places() -> None:
    tree = {"kind": "add", "span": [1, 2], "args": [{"kind": "name", "name": "x", "spans": {"start": 1}}]}
    assert without_spans(tree) == {"kind": "add", "args": [{"kind": "name", "name": "x"}]}


@pytest.fixture(scope="module")
def cases() -> tuple[Case, ...]:
    return tuple(case for path in THEMES for case in parse_file(path))


def test_every_item_of_the_language_has_a_case(cases: tuple[Case, ...]) -> None:
    items = {f"L{number:03}" for number in range(1, 208)} - set(ELSEWHERE)
    assert sorted(items - covered(cases)) == []


def test_every_decision_on_the_language_has_a_case(cases: tuple[Case, ...]) -> None:
    assert sorted(set(DECISIONS) - covered(cases)) == []


def test_acceptances_and_refusals_keep_a_balance(cases: tuple[Case, ...]) -> None:
    refusals = sum(bool(case.diagnostics) for case in cases)
    acceptances = sum(case.diagnostics == () for case in cases)
    assert len(cases) >= 350
    assert refusals >= acceptances >= len(cases) // 5
