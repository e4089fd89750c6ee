"""Runs the scripts of edits of this folder, and shows that their reader is strict."""

from pathlib import Path
from typing import Final

import pytest

from tests.incremental.desk import Desk
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
            case Check(computed, said, line):
                seen = desk.check()
                where = f"{script.source}:{line}"
                assert seen.said == said, where
                if computed is not None:
                    assert dict(seen.computed) == dict(computed), where
                    assert desk.check().computed == {}, f"{where}: the same again computes something"
