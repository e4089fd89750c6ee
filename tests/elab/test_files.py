"""Loading: each file once, by its identity; cycles and missing files."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from presk.elab.files import FolderReader, GivenFiles, Loaded, load
from tests.elab.support import MAIN, Session, codes, words


def loaded(files: Mapping[str, str]) -> Loaded:
    found = load(Session().engine, GivenFiles({name: text.encode() for name, text in files.items()}), MAIN)
    assert isinstance(found, Loaded)
    return found


def test_imported_files_come_before_those_that_import_them() -> None:
    found = loaded(
        {
            MAIN: 'import "b.psk" as b\nimport "sub/a.psk" as a\n',
            "b.psk": 'import "./sub/../c.psk" as c\n',
            "sub/a.psk": 'import "../c.psk" as c\n',
            "c.psk": "const V = 1\n",
        }
    )
    assert list(found.files) == ["c.psk", "b.psk", "sub/a.psk", MAIN]
    assert found.diagnostics == ()
    assert [edge.target for edge in found.files[MAIN].imports] == ["b.psk", "sub/a.psk"]


def test_a_missing_import_is_reported_where_it_stands() -> None:
    found = loaded({MAIN: 'const A = 1\nimport "gone.psk" as g\n'})
    (one,) = found.diagnostics
    assert (one.code, one.primary.place.chunk, one.primary.place.file) == ("E1002", "import g", MAIN)
    assert one.primary.place.first == 1
    assert "gone.psk" in words(one)
    assert found.files[MAIN].imports[0].target is None


def test_a_cycle_is_reported_at_the_import_that_closes_it() -> None:
    found = loaded(
        {MAIN: 'import "b.psk" as b\n', "b.psk": 'import "c.psk" as c\n', "c.psk": 'import "b.psk" as b\nconst V = 1\n'}
    )
    (one,) = found.diagnostics
    assert (one.code, one.primary.place.file, one.primary.place.chunk) == ("E1003", "c.psk", "import b")
    assert "`b.psk` → `c.psk` → `b.psk`" in one.message
    assert [(label.place.file, label.place.chunk) for label in one.labels] == [("b.psk", "import c")]


def test_a_long_chain_of_imports_takes_no_recursion() -> None:
    count = 1_100
    files = {f"f{i}.psk": f'import "f{i + 1}.psk" as n\n' for i in range(count)}
    found = loaded({MAIN: 'import "f0.psk" as n\n', **files, f"f{count}.psk": "const V = 1\n"})
    assert found.diagnostics == ()
    assert len(found.files) == count + 2


def test_syntax_errors_have_their_files_name() -> None:
    found = loaded({MAIN: 'import "b.psk" as b\n', "b.psk": "const = 3\n"})
    assert [(one.code, one.primary.place.file) for one in found.diagnostics] == [("E0001", "b.psk")]


def test_a_main_file_that_is_not_there() -> None:
    assert load(Session().engine, GivenFiles({}), MAIN) == "there is no such file"


# --- the disk ---------------------------------------------------------------------------------------------------------


def test_identities_are_relative_to_the_real_folder_of_the_main_file(tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "lib").mkdir()
    (tmp_path / "app" / "main.psk").write_bytes(b"")
    (tmp_path / "lib" / "a.psk").write_bytes(b"const V = 1\n")
    (tmp_path / "link.psk").symlink_to("app/main.psk")
    (tmp_path / "app" / "alias.psk").symlink_to("../lib/a.psk")
    reader = FolderReader(tmp_path / "link.psk")
    assert reader.main == MAIN
    for written in ("../lib/a.psk", "./../app/../lib/a.psk", "alias.psk", str(tmp_path / "lib" / "a.psk")):
        assert reader.resolve(MAIN, written) == "../lib/a.psk"
    assert reader.resolve("../lib/a.psk", "b.psk") == "../lib/b.psk"
    assert reader.read("../lib/a.psk") == b"const V = 1\n"


def test_what_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / MAIN).write_bytes(b"")
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "pipe")
    reader = FolderReader(tmp_path / MAIN)
    for written, why in [
        ("gone.psk", "there is no such file"),
        ("main.psk/a.psk", "there is no such file"),
        ("folder", "it is a folder"),
        ("pipe", "it cannot be read"),
        ("loop", "it cannot be read"),
        ("a\0b", "its name is not a file name"),
        ("\ud800", "its name is not a file name"),
        ("x" * 5000, "it cannot be read"),
    ]:
        assert reader.read(reader.resolve(MAIN, written)) == why, written


def test_a_file_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / MAIN
    path.write_bytes(b"const A = 1\n")
    reader = FolderReader(path)
    assert reader.read("later.psk") == "there is no such file"
    first = reader.read(MAIN)
    path.write_bytes(b"const A = 2\n")
    (tmp_path / "later.psk").write_bytes(b"")
    assert reader.read(MAIN) == first
    assert reader.read("later.psk") == "there is no such file"
    assert FolderReader(path).read(MAIN) == b"const A = 2\n"


def test_the_head_of_a_data_file(tmp_path: Path) -> None:
    (tmp_path / MAIN).write_bytes(b"")
    header = b'{"__metadata__": {}}'
    (tmp_path / "d.psk.d").write_bytes(len(header).to_bytes(8, "little") + header + bytes(1_000_000))
    (tmp_path / "short.psk.d").write_bytes(b"abc")
    (tmp_path / "folder.psk.d").mkdir()
    reader = FolderReader(tmp_path / MAIN)
    assert reader.head("d.psk.d") == len(header).to_bytes(8, "little") + header
    assert reader.head("short.psk.d") == b"abc"
    assert reader.head("gone.psk.d") is None
    assert reader.head("folder.psk.d") == "it is a folder"


def test_the_program_is_the_same_wherever_its_folder_lies(tmp_path: Path) -> None:
    session = Session()
    for name in ("one", "two"):
        folder = tmp_path / name
        (folder / "lib").mkdir(parents=True)
        (folder / MAIN).write_bytes(b'import "lib/a.psk" as a\nconst B = a.V\n')
        (folder / "lib" / "a.psk").write_bytes(b"const V = 1\n")
        reader = FolderReader(folder / MAIN)
        with session.engine.request() as log:
            found = load(session.engine, reader, reader.main)
        assert isinstance(found, Loaded)
        assert codes(found.diagnostics) == []
        assert log.total().computed == (0 if name == "two" else log.total().asked)


@pytest.mark.parametrize(
    "importer, written, identity", [("a/b.psk", "../c.psk", "c.psk"), (MAIN, "./x/../y.psk", "y.psk")]
)
def test_identities_of_given_files(importer: str, written: str, identity: str) -> None:
    assert GivenFiles({}).resolve(importer, written) == identity
