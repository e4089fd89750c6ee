"""The imports of a module as the scan reads them."""

import pytest

from presk.cache.imports import scan_imports


@pytest.mark.parametrize(
    ("source", "statements"),
    [
        ("import a.b", {(0, "a.b", ())}),
        ("import a, b.c as d", {(0, "a", ()), (0, "b.c", ())}),
        ("from a.b import c, d as e", {(0, "a.b", ("c", "d"))}),
        ("from . import x", {(1, "", ("x",))}),
        ("from ..up.here import x", {(2, "up.here", ("x",))}),
        ("from a import *", {(0, "a", ("*",))}),
        ("def f():\n    import a", {(0, "a", ())}),
        (
            "class C:\n    try:\n        import a\n    except ImportError:\n        import b",
            {(0, "a", ()), (0, "b", ())},
        ),
        (
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import a",
            {(0, "typing", ("TYPE_CHECKING",)), (0, "a", ())},
        ),
        ("import importlib\nm = importlib.import_module('a.b')", {(0, "importlib", ()), (0, "a.b", ())}),
        ("m = __import__('a')", {(0, "a", ())}),
        ("# import a\n'import b'", set()),
    ],
)
def test_statements(source, statements):
    imports = scan_imports(source.encode())
    assert set(imports.statements) == statements
    assert imports.problem == ""


@pytest.mark.parametrize(
    "source",
    [
        "import importlib\nimportlib.import_module(name)",
        "import_module('.relative', __name__)",
        "__import__('a' + 'b')",
        "def f(:",
        "x = '\0'",
        "FINGERPRINT_FILES = ['a.lark']",
        "FINGERPRINT_FILES = ('a.lark', 1)",
        "FINGERPRINT_FILES: object = names",
    ],
)
def test_what_cannot_be_followed_is_a_problem(source):
    assert scan_imports(source.encode()).problem != ""


@pytest.mark.parametrize(
    ("source", "files"),
    [
        ("FINGERPRINT_FILES = ('a.lark',)", ("a.lark",)),
        ("from typing import Final\nFINGERPRINT_FILES: Final = ('a.lark', 'b/c.json')", ("a.lark", "b/c.json")),
        ("FINGERPRINT_FILES: tuple", ()),
        ("def f():\n    FINGERPRINT_FILES = ('a',)", ()),
        ("", ()),
    ],
)
def test_declared_files(source, files):
    assert scan_imports(source.encode()).files == files
