"""The pages of the repository: links lead somewhere, commands exist, decisions are numbered and complete."""

import re
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.repo.tree import ROOT, files

PAGES: Final = [path for path in files() if path.suffix == ".md"]
DECISIONS: Final = sorted((ROOT / "docs" / "decisions").glob("*.md"))


def prose(text: str) -> str:
    """A page without its code: neither fenced blocks nor code spans hold links."""
    text = re.sub(r"^(`{3,}|~{3,})[^\n]*\n.*?^\1`*~*[ ]*$", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", text, flags=re.DOTALL)


def links(text: str) -> list[str]:
    """The targets of a page's links that stay in the repository."""
    found = re.findall(r"\]\(\s*<?([^)>\s]+)>?[^)]*\)", text) + re.findall(r"^\[[^]]+\]:\s*(\S+)", text, re.MULTILINE)
    return [target for target in found if not re.match(r"[a-z][a-z0-9+.-]*:", target)]


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings: lower case, blanks to hyphens, other signs dropped; repeated ones counted."""
    result: set[str] = set()
    for heading in re.findall(
        r"^#{1,6} +(.*?) *#*$", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE
    ):
        words = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        anchor, count = words, 0
        while anchor in result:
            count += 1
            anchor = f"{words}-{count}"
        result.add(anchor)
    return result


def broken(page: Path) -> list[str]:
    """The links of a page that lead nowhere."""
    result = []
    for target in links(prose(page.read_text("utf-8"))):
        name, _, anchor = target.partition("#")
        goal = (page.parent / name).resolve() if name else page
        exists = goal.exists() and goal.is_relative_to(ROOT)
        if not exists or (anchor and goal.suffix == ".md" and anchor not in anchors(goal.read_text("utf-8"))):
            result.append(target)
    return result


@pytest.mark.parametrize("page", PAGES, ids=[page.relative_to(ROOT).as_posix() for page in PAGES])
def test_links_lead_somewhere(page: Path) -> None:
    assert broken(page) == []


def test_broken_links_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.repo.test_docs.ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text(
        "# A `title`, here\n[good](#a-title-here) [bad](#none) [gone](gone.md) [out](../out.md)\n"
        "`[code](x.md)` [web](https://example.org)\n```\n[fenced](y.md)\n```\n[named]\n\n[named]: z.md\n"
    )
    (tmp_path.parent / "out.md").write_text("outside the repository\n")
    assert broken(page) == ["#none", "gone.md", "../out.md", "z.md"]


def test_decisions_are_numbered_without_gaps() -> None:
    numbers = [int(path.name[:4]) for path in DECISIONS]
    assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.parametrize("page", DECISIONS, ids=[page.stem for page in DECISIONS])
def test_a_decision_has_its_four_parts(page: Path) -> None:
    text = page.read_text("utf-8")
    assert re.match(rf"# {page.name[:4]}: \S", text)
    parts = ["Question", "Choice", "Alternatives", "Consequences"]
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == parts


def test_the_change_log_has_its_unreleased_part_on_top() -> None:
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert headings[0] == "Unreleased"


def targets() -> dict[str, str]:
    """The targets of the Makefile with their descriptions, as `make help` shows them."""
    done = subprocess.run(
        ["make", "--no-print-directory", "help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    rows = [line.strip().removeprefix("make ").split(None, 1) for line in done.stdout.splitlines()]
    return {row[0]: row[1] for row in rows}


def test_help_lists_every_target() -> None:
    phony = re.findall(r"^\.PHONY: (\S+)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert list(targets()) == phony
    assert set(phony) >= {"help", "test", "demo", "lint", "types", "bench", "golden-update", "lock"}


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_commands_that_a_page_names_exist(page: str) -> None:
    named = set(
        re.findall(
            r"\bmake ([a-z][a-z-]*)\b(?=[^`\n]*`)|^make ([a-z][a-z-]*)", (ROOT / page).read_text("utf-8"), re.MULTILINE
        )
    )
    names = {one or other for one, other in named}
    assert {"test"} <= names <= set(targets())
