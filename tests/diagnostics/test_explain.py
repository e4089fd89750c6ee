"""The pages of the codes, on the terminal and under `docs/errors`."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from presk.diagnostics.codes import CODES
from presk.diagnostics.docs import main, write_pages
from presk.diagnostics.explain import INDEX, explain, nearest_code, pages

PAGES: Final = Path(__file__).parents[2] / "docs" / "errors"


@pytest.mark.golden
def test_the_pages_are_those_of_the_table(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--golden-update"):
        write_pages(PAGES)
        return
    found = {path.name: path.read_bytes().decode() for path in PAGES.iterdir()}
    assert sorted(found) == sorted(pages()), "`make golden-update` writes the pages"
    for name, text in pages().items():
        assert found[name] == text, f"docs/errors/{name} differs from the table: `make golden-update` writes the pages"


def test_the_index_links_to_every_page() -> None:
    index = pages()[INDEX]
    for row in CODES.values():
        assert f"| [{row.code}]({row.code}.md) | {row.title} |\n" in index
    assert set(pages()) == {INDEX, *(f"{code}.md" for code in CODES)}


@pytest.mark.parametrize("code", ["E0006", "E0011", "E1002", "E9001", "E9003", "W0003"])
def test_whole_text(code: str, golden: Callable[[str, str], None]) -> None:
    """A cut line, bytes, several files, no example, arguments, a page of several paragraphs."""
    text = explain(code)
    assert text is not None
    golden(f"diagnostics/explain_{code}.txt", text)


@pytest.mark.parametrize("code", CODES)
def test_a_page_fits_the_terminal(code: str) -> None:
    text = explain(code)
    assert text is not None
    assert text.startswith(f"{code}: {CODES[code].title}\n")
    assert text.endswith("\n")
    assert not text.endswith("\n\n")
    assert max(map(len, text.split("\n"))) <= 124


def test_codes_are_found_in_any_case() -> None:
    assert explain(" e2003 ") == explain("E2003")
    assert explain("E2999") is None
    assert explain("") is None
    assert nearest_code("E203") == "E2003"
    assert nearest_code("hello") is None


def test_writing_pages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "errors"
    assert write_pages(folder) == tuple(sorted(pages()))
    assert {path.name: path.read_bytes().decode() for path in folder.iterdir()} == pages()
    assert write_pages(folder) == ()

    (folder / "E2003.md").write_text("old")
    (folder / "E0999.md").write_text("gone")
    (folder / "other.txt").write_text("kept")
    assert main([str(folder)]) == 0
    assert capsys.readouterr().out == f"{folder / 'E0999.md'}\n{folder / 'E2003.md'}\n"
    assert not (folder / "E0999.md").exists()
    assert (folder / "other.txt").read_text() == "kept"
    assert write_pages(folder) == ()

    assert main(["one", "two"]) == 2
