"""Runs the scripts of edits of this folder, and shows that their reader is strict."""

from pathlib import Path
from typing import Final

import pytest

from tests.incremental.desk import Desk, of_front_end
from tests.incremental.scripts import Check, Edit, Malformed, Override, Remove, Script, Write, read_scripts

FOLDER: Final = Path(__file__).parent
SCRIPTS: Final = tuple(
    script for path in sorted(FOLDER.glob("*.md")) if path.name != "README.md" for script in read_scripts(path)
)


@pytest.mark.parametrize("script", SCRIPTS, ids=[script.name for script in SCRIPTS])
def test_script(script: Script, tmp_path: Path) -> None:
    desk = Desk(tmp_path / "cache")
    for step in script.steps:
        match step:
            case Write(file, text):
                desk.files[file] = text.encode()
            case Edit(file, hunks):
                text = desk.files[file].decode()
                for old, new in hunks:
                    assert text.count(old) == 1, f"{script.source}: {old!r} stands {text.count(old)} times in {file}"
                    text = text.replace(old, new)
                desk.files[file] = text.encode()
            case Remove(file):
                del desk.files[file]
            case Override(values):
                desk.overrides = dict(values)
            case Check(computed, said, line, all_stages):
                seen = desk.check()
                where = f"{script.source}:{line}"
                assert seen.said == said, where
                if computed is not None:
                    found = seen.computed if all_stages else of_front_end(seen.computed)
                    assert dict(found) == dict(computed), where
                    assert desk.check().computed == {}, f"{where}: the same again computes something"


GOOD: Final = """\
# Theme

## A title

```psk main.psk
fn f
```
```first
```
```check
tokens, check: main.psk
E1234 a.psk:1:2
```
"""


def read(tmp_path: Path, text: str) -> tuple[Script, ...]:
    path = tmp_path / "some.md"
    path.write_text(text, "utf-8")
    return read_scripts(path)


def test_the_reader_reads_what_stands_there(tmp_path: Path) -> None:
    (script,) = read(tmp_path, GOOD)
    main = frozenset({"main.psk"})
    assert script.name == "some: A title"
    assert script.steps == (
        Write("main.psk", "fn f\n"),
        Check(None, (), 8),
        Check({"tokens": main, "check": main}, (("E1234", "a.psk", 1, 2),), 10),
    )
    edits = GOOD.replace(
        "```first", "```edit main.psk\n- a\n+ b\n+\n- c\n```\n```const\nN=3\n```\n```remove a\n```\n```first"
    )
    assert read(tmp_path, edits)[0].steps[1:4] == (
        Edit("main.psk", (("a\n", "b\n\n"), ("c\n", ""))),
        Override({"N": 3}),
        Remove("a"),
    )


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("## A title\n", "", "before the first heading"),
        ("```first\n```\n", "", "is not a `first` and one `check`"),
        ("```check\ntokens, check: main.psk\nE1234 a.psk:1:2\n```\n", "", "is not a `first` and one `check`"),
        ("```psk main.psk", "```psk", "names no file"),
        ("```first", "```first main.psk", "names a file"),
        ("```check", "```check some", "names a file"),
        ("```first", "```second", "no part of a script begins with"),
        ("E1234 a.psk:1:2\n```\n", "E1234 a.psk:1:2\n", "is not closed"),
        ("E1234 a.psk:1:2", "E1234 a.psk:1", "says nothing that is understood"),
        ("tokens, check", "tokens, tokens", "stands twice"),
        ("```first\n", "```first\ntokens: main.psk\n", "says nothing that is understood here"),
        ("```first", "```edit main.psk\n* a\n```\n```first", "begins with neither"),
        ("1:2\n```\n", "1:2\n```\n```const\n```\n", "does not end with a check"),
    ],
)
def test_the_reader_is_strict(tmp_path: Path, old: str, new: str, why: str) -> None:
    assert GOOD.count(old) == 1
    with pytest.raises(Malformed, match=why):
        read(tmp_path, GOOD.replace(old, new))
