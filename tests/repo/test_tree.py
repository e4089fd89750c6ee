"""What must not be anywhere in the repository: paths of one machine, addresses of registries, work left undone.

A `skipif` may leave out what a system does not have; a test that is always left out is none. The patterns are written
with a class of one letter (`[T]ODO`), so that they do not find themselves.
"""

import re
from typing import Final

import pytest

from tests.repo.tree import ROOT, files

EVERYWHERE: Final = {
    "a path of one machine": r"(?<![\w.~/-])/(?:[w]ork|[r]oot|[h]ome|[U]sers|[f]arm)/[A-Za-z.]",
    "a folder beside the repository": r"\.\./[s]hared\b",
    "the address of a package registry": r"[p]ypi\.org|[p]ythonhosted\.|[n]pmjs\.|/[s]imple/[a-z]",
    "a merge that was not finished": r"^(?:[<]{7}|[>]{7}) ",
    "work left undone": r"\b(?:[T]ODO|[F]IXME|[X]XX)\b",
}
CODE: Final = {
    "a stub": r"\b[N]otImplementedError\b",
    "a module that runs what it reads": r"^\s*(?:import|from) +(?:[p]ickle|[m]arshal|[s]helve|[d]ill)\b",
    "a check that is left out": r"pytest\.(?:[s]kip|[x]fail|[i]mportorskip)\b|mark\.(?:[s]kip|[x]fail)\b",
}
SOURCES: Final = [path.relative_to(ROOT).as_posix() for path in files()]


def lines(pattern: str, suffixes: tuple[str, ...] = ("",)) -> list[str]:
    """`path:line: text` for each line of the repository that the pattern finds, in files with one of the suffixes."""
    expression = re.compile(pattern)
    return [
        f"{name}:{number}: {line.strip()}"
        for name in SOURCES
        if name.endswith(suffixes)
        for number, line in enumerate((ROOT / name).read_bytes().decode("utf-8", "replace").splitlines(), start=1)
        if expression.search(line)
    ]


@pytest.mark.parametrize("what", EVERYWHERE)
def test_nowhere(what: str) -> None:
    assert "\n".join(lines(EVERYWHERE[what])) == ""


@pytest.mark.parametrize("what", CODE)
def test_not_in_code(what: str) -> None:
    assert "\n".join(lines(CODE[what], (".py", ".sh"))) == ""


@pytest.mark.parametrize(
    ("what", "sample"),
    [
        ("a path of one machine", 'open("/ho' + 'me/me/x")'),
        ("a folder beside the repository", "see ../sha" + "red/design.md"),
        ("the address of a package registry", "https://py" + "pi.org/project"),
        ("a merge that was not finished", "<<<<" + "<<< HEAD"),
        ("work left undone", "# TO" + "DO later"),
        ("a stub", "raise NotImpl" + "ementedError"),
        ("a module that runs what it reads", "import pic" + "kle"),
        ("a check that is left out", "@pytest.mark.sk" + "ip"),
    ],
)
def test_the_patterns_find_what_they_are_for(what: str, sample: str) -> None:
    assert re.search((EVERYWHERE | CODE)[what], sample)


def test_files_are_text_with_plain_line_ends() -> None:
    wrong = []
    for name in SOURCES:
        content = (ROOT / name).read_bytes()
        content.decode("utf-8")
        if b"\r" in content or (content and not content.endswith(b"\n")):
            wrong.append(name)
    assert wrong == [], "text is UTF-8, has no carriage return, and its last line ends with a line feed"


def test_the_top_of_the_repository_is_the_fixed_one() -> None:
    """A new folder at the top is a decision: most things belong into one that is there."""
    fixed = {".ci", "cache", "corpus", "daemon", "docs", "experiments", "kernels", "presk", "requirements", "tests"}
    assert {name.split("/")[0] for name in SOURCES if "/" in name} <= fixed
