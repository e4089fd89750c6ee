"""The direction of imports: the checker on made-up modules, and the tree itself."""

from pathlib import Path
from typing import Final

import pytest

from tests.tools.imports import PARTS, Part, Project, check_module, part_of, reach, violations

TABLE: Final = (
    Part("presk"),
    Part("presk.cache"),
    Part("presk.syntax"),
    Part("presk.elab", ("presk.syntax",)),
    Part("presk.typing", ("presk.elab",)),
    Part("presk.cli", ("presk.typing",)),
    Part("presk.cli.client", (), deferred=("presk.cli",)),
)
MODULES: Final = frozenset(
    {"presk", "presk.cache", "presk.syntax", "presk.syntax.lexer", "presk.elab", "presk.typing", "presk.cli.app"}
)
PROJECT: Final = Project(MODULES, frozenset({"msgspec"}), TABLE)


def found(module: str, source: str) -> list[str]:
    path = module.replace(".", "/") + ".py"
    return [str(violation) for violation in check_module(path, module, source, PROJECT)]


def test_the_tree_keeps_the_direction() -> None:
    assert "\n".join(str(violation) for violation in violations()) == ""


def test_rows_name_only_rows_above() -> None:
    """So the graph of parts has no cycle. The client's deferred imports run at its edge, after everything is loaded."""
    for index, part in enumerate(PARTS):
        assert set(part.imports) <= {above.name for above in PARTS[:index]}, part.name
        assert set(part.deferred) <= {row.name for row in PARTS}, part.name
    assert len({part.name for part in PARTS}) == len(PARTS)


def test_the_bottom_imports_nothing_and_the_client_only_the_protocol() -> None:
    reached = reach(PARTS)
    for name in ("presk.cache", "presk.diagnostics", "presk.types", "presk.daemon.protocol"):
        assert reached[name] == {"presk", name}
    light = {"presk.daemon.protocol", "presk.daemon.places", "presk.daemon.connect"}
    assert reached["presk.cli.client"] == {"presk", "presk.cli.client", *light}


def test_reach_is_transitive() -> None:
    assert reach(TABLE)["presk.typing"] == {"presk", "presk.typing", "presk.elab", "presk.syntax"}


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("presk.cli", "presk.cli"),
        ("presk.cli.app", "presk.cli"),
        ("presk.cli.client", "presk.cli.client"),
        ("presk.climb", None),
        ("presk", "presk"),
        ("presk.new", None),
    ],
)
def test_a_part_is_the_longest_row(module: str, name: str | None) -> None:
    part = part_of(module, TABLE)
    assert (part.name if part else None) == name


@pytest.mark.parametrize(
    "source",
    [
        "import json\nimport msgspec\nfrom msgspec import Struct",
        "from presk.syntax import lexer",
        "import presk.syntax.lexer as lexer",
        "from presk import syntax",
        "from presk.elab import anything",
        "from . import sibling",
        "def late():\n    # loading this takes 150 ms\n    import msgspec",
        "def late():\n    import msgspec  # loading this takes 150 ms",
    ],
)
def test_what_typing_may_import(source: str) -> None:
    assert found("presk.typing.body", source) == []


@pytest.mark.parametrize(
    ("module", "source", "line", "message"),
    [
        ("presk.syntax.tree", "\nfrom presk.elab import x", 2, "presk.syntax must not import presk.elab"),
        ("presk.syntax.tree", "from presk import elab", 1, "presk.syntax must not import presk.elab"),
        ("presk.syntax.tree", "import presk.typing.body", 1, "presk.syntax must not import presk.typing"),
        ("presk.syntax.tree", "if TYPE_CHECKING:\n    from presk.elab import x", 2, "must not import presk.elab"),
        ("presk.cache.store", "from presk.syntax import x", 1, "presk.cache must not import presk.syntax"),
        ("presk.typing.body", "from cache import store", 1, "`cache` is imported as `presk.cache`"),
        ("presk.typing.body", "import kernels", 1, "`kernels` is imported as `presk.kernels`"),
        ("presk.typing.body", "import torch", 1, "`torch` is not among the dependencies"),
        ("presk.typing.body", "import presk.novel", 1, "presk.novel is in no part"),
        ("presk.novel.thing", "", 1, "presk.novel.thing is in no part"),
        ("presk.typing.body", "def f():\n\n    import msgspec", 3, "needs a comment that says why"),
        ("presk.typing.body", "def f():\n    from msgspec import field, json", 2, "needs a comment that says why"),
        ("presk.typing.body", "def f():\n    import msgspec  # noqa: PLC0415", 2, "needs a comment that says why"),
        ("presk.typing.body", "x = 1\nx = = 2", 2, "invalid syntax"),
        ("presk.cli.client", "from presk.cli.app import run", 1, "presk.cli.client must not import presk.cli "),
    ],
)
def test_what_is_refused(module: str, source: str, line: int, message: str) -> None:
    (violation,) = found(module, source)
    assert violation.startswith(f"{module.replace('.', '/')}.py:{line}: ")
    assert message in violation


def test_relative_imports_are_followed() -> None:
    assert found("presk.syntax.deep.tree", "from ...elab import x") != []
    assert found("presk.syntax.deep.tree", "from ..lexer import x") == []
    package = list(check_module("presk/syntax/__init__.py", "presk.syntax", "from ..elab import x", PROJECT))
    assert [violation.line for violation in package] == [1]


def test_a_heavy_part_may_be_imported_at_the_edge_only() -> None:
    assert found("presk.cli.client", "def main():\n    # heavy\n    from presk.cli.app import run") == []
    assert found("presk.cli.client", "def main():\n    # heavy\n    from presk.typing import x") != []


def test_the_command_reports_and_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From files to violations: a tree with the project's `package-dir` table and one wrong import."""
    (tmp_path / "pyproject.toml").write_text(
        '[project]\ndependencies = ["msgspec>=1"]\noptional-dependencies = {more = ["python-flint"]}\n'
        '[tool.setuptools.package-dir]\n"presk" = "presk"\n"presk.cache" = "cache"\n'
    )
    for name, source in {"presk/__init__.py": "", "cache/store.py": "import flint\nimport presk.syntax.tree"}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(source)
    assert [str(violation) for violation in violations(tmp_path)] == [
        "cache/store.py:2: presk.cache must not import presk.syntax (presk.syntax.tree)"
    ]
