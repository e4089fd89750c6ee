"""Fingerprints: an edit is seen by exactly the stages that reach it."""

import sys
from pathlib import Path

import pytest

from presk.cache.canonical import decanonical
from presk.cache.fingerprint import Fingerprints
from presk.cache.packages import Packages
from presk.cache.project import Modules, discover_project
from presk.cache.stage import FingerprintError
from tests.cache.support import write_project

MODULES = ("tree", "split", "value", "check", "other")


def digests(project, packages=()):
    fingerprints = Fingerprints(project)
    return {name: fingerprints.of(f"fake.{name}", packages).digest for name in MODULES}


def test_equal_sources_have_equal_fingerprints_wherever_they_lie(tmp_path):
    assert digests(write_project(tmp_path / "a")) == digests(write_project(tmp_path / "b"))


@pytest.mark.parametrize(
    ("file", "reached_by"),
    [
        ("tree.py", {"tree", "split", "value", "check"}),
        ("split.py", {"split", "check"}),
        ("value.py", {"value", "check"}),
        ("check.py", {"check"}),
        ("other.py", {"other"}),
        ("words.txt", {"split", "check"}),
        ("__init__.py", set(MODULES)),
    ],
)
def test_an_edit_is_seen_by_what_reaches_it(tmp_path, file, reached_by):
    project = write_project(tmp_path)
    before = digests(project)
    path = project["fake"] / file
    path.write_text(path.read_text() + "# edited\n")
    after = digests(project)
    assert {name for name in MODULES if before[name] != after[name]} == reached_by


def test_a_module_that_appears_is_seen(tmp_path):
    """`from fake.tree import DECLARATION` and `import fake.late` find a module where there was none."""
    project = write_project(tmp_path)
    other = project["fake"] / "other.py"
    other.write_text("try:\n    import fake.late\nexcept ImportError:\n    pass\n")
    before = digests(project)
    (project["fake"] / "late.py").write_text("")
    after = digests(project)
    assert {name for name in MODULES if before[name] != after[name]} == {"other"}


def test_a_cycle_of_imports_is_followed(tmp_path):
    project = write_project(tmp_path)
    (project["fake"] / "tree.py").write_text("from fake import check\n")
    reach = Fingerprints(project).of("fake.tree", ()).reach
    assert reach == {"fake", "fake.tree", "fake.check", "fake.split", "fake.value"}


def test_declared_packages_count(tmp_path):
    project = write_project(tmp_path)

    def of(version, packages):
        return Fingerprints(project, Packages({"lark": lambda: version})).of("fake.value", packages).digest

    assert of("1", ("lark",)) != of("2", ("lark",))
    assert of("1", ()) == of("2", ())
    assert of("1", ()) != of("1", ("lark",))


@pytest.mark.parametrize("package", ["gmpy2", "msgspec"])
def test_what_encodes_values_counts_always(tmp_path, package):
    project = write_project(tmp_path)
    made = [Fingerprints(project, Packages({package: lambda: v})).of("fake.tree", ()).digest for v in ("1", "2")]  # noqa: B023
    assert made[0] != made[1]


def test_parts_name_everything(tmp_path):
    fingerprint = Fingerprints(write_project(tmp_path)).of("fake.split", ("lark",))
    assert [label for label, _ in decanonical(fingerprint.parts)] == [
        "file fake.split:words.txt",
        "module fake",
        "module fake.split",
        "module fake.tree",
        "package gmpy2",
        "package lark",
        "package msgspec",
        "python",
    ]
    assert dict(decanonical(fingerprint.parts))["python"] == f"{sys.implementation.name} {sys.version}"


def test_packages_that_are_imported_are_told(tmp_path):
    fingerprints = Fingerprints(write_project(tmp_path))
    assert fingerprints.of("fake.check", ()).outside == {"lark"}
    assert fingerprints.of("fake.other", ()).outside == frozenset()


def test_relative_imports_resolve_in_packages_and_modules(tmp_path):
    root = tmp_path / "p"
    (root / "inner").mkdir(parents=True)
    for name, text in {
        "__init__.py": "",
        "a.py": "from . import b\n",
        "b.py": "",
        "inner/__init__.py": "from . import c\n",
        "inner/c.py": "from .. import a\nfrom ..b import x\n",
    }.items():
        (root / name).write_text(text)
    fingerprints = Fingerprints({"p": root})
    assert fingerprints.of("p.a", ()).reach == {"p", "p.a", "p.b"}
    assert fingerprints.of("p.inner", ()).reach == {"p", "p.inner", "p.inner.c", "p.a", "p.b"}


def test_a_folder_without_init_is_followed(tmp_path):
    (tmp_path / "p" / "inner").mkdir(parents=True)
    (tmp_path / "p" / "__init__.py").write_text("")
    (tmp_path / "p" / "inner" / "a.py").write_text("import p.inner.b")
    (tmp_path / "p" / "inner" / "b.py").write_text("")
    fingerprints = Fingerprints({"p": tmp_path / "p"})
    assert fingerprints.of("p.inner.a", ()).reach == {"p", "p.inner", "p.inner.a", "p.inner.b"}


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import importlib\nimportlib.import_module(__name__ + '.x')", "cannot be followed"),
        ("def f(:", "does not parse"),
        ("FINGERPRINT_FILES = ('missing.lark',)", "needs .*missing.lark"),
    ],
)
def test_code_that_cannot_be_determined_is_refused(tmp_path, source, message):
    project = write_project(tmp_path)
    (project["fake"] / "tree.py").write_text(source)
    with pytest.raises(FingerprintError, match=message):
        Fingerprints(project).of("fake.check", ())
    assert Fingerprints(project).of("fake.other", ()).reach == {"fake", "fake.other"}


def test_a_module_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(FingerprintError, match=r"fake\.nowhere"):
        Fingerprints(write_project(tmp_path)).of("fake.nowhere", ())


def test_sources_are_those_of_the_start(tmp_path):
    """What is edited while a process runs is not what it runs; `changed` tells it."""
    project = write_project(tmp_path)
    fingerprints = Fingerprints(project)
    expected = digests(project)["check"]
    assert fingerprints.changed() == ()
    path = project["fake"] / "check.py"
    path.write_text("import fake.split\n")
    assert fingerprints.of("fake.check", ()).digest == expected
    assert fingerprints.changed() == (str(path),)
    path.unlink()
    assert fingerprints.changed() == (str(path),)


def test_imports_are_remembered_by_the_content_of_the_source(tmp_path):
    project = write_project(tmp_path)
    first = Fingerprints(project)
    first.of("fake.check", ())
    remembered = first.remembered()
    assert remembered is not None
    assert first.remembered() is None
    second = Fingerprints(project)
    second.remember(remembered)
    assert second.of("fake.check", ()).digest == first.of("fake.check", ()).digest
    assert second.remembered() is None
    (project["fake"] / "check.py").write_text("import fake.other\n")
    third = Fingerprints(project)
    third.remember(remembered)
    assert third.of("fake.check", ()).reach == {"fake", "fake.check", "fake.other"}
    assert third.remembered() is not None


def test_damaged_memories_are_a_value_error(tmp_path):
    with pytest.raises(ValueError):
        Fingerprints(write_project(tmp_path)).remember(b"\xc1damaged")


def test_the_project_of_this_repository_is_found():
    project = discover_project()
    modules = Modules(project)
    assert {"presk", "presk.cache"} <= project.keys()
    assert "presk.cache.engine" in modules
    assert modules.path("presk.cache.engine") == str(Path(project["presk.cache"]) / "engine.py")


def test_a_module_with_stages_does_not_reach_the_engine():
    """Declaring a stage takes the definition of a stage and codecs; an edit of the store must not throw answers away."""
    reach = Fingerprints().of("presk.cache.stage", ()).reach
    assert reach == {
        "presk",
        "presk.cache",
        "presk.cache.canonical",
        "presk.cache.codec",
        "presk.cache.digest",
        "presk.cache.stage",
    }
