"""What a Python module imports, read off its source without running it.

The scan sees every import statement wherever it stands (inside functions, under ``TYPE_CHECKING``, in ``try``), calls
of ``import_module`` and ``__import__`` with a literal name, and the data files that the module declares:

    FINGERPRINT_FILES: Final = ("presk.lark",)

with paths relative to the module's folder. A computed name in ``import_module`` cannot be followed; the scan says so
and the fingerprint of a stage that reaches such a module is refused (``FingerprintError``).
"""

import ast
from typing import Final

from msgspec import Struct

FILES_NAME: Final = "FINGERPRINT_FILES"
_DYNAMIC: Final = ("import_module", "__import__")


class Imports(Struct, frozen=True, array_like=True):
    """The imports of one module as written: ``level`` dots and a dotted name, with the names taken from it.

    ``problem`` says what could not be followed, with its line; it is empty where everything could.
    """

    statements: tuple[tuple[int, str, tuple[str, ...]], ...]
    files: tuple[str, ...]
    problem: str


def scan_imports(source: bytes) -> Imports:
    """The imports and declared data files of a module's source. A source that does not parse has a problem."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        return Imports((), (), f"it does not parse: {error}")
    statements: set[tuple[int, str, tuple[str, ...]]] = set()
    problem = ""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                statements.update((0, alias.name, ()) for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                statements.add((level, module or "", tuple(sorted(alias.name for alias in names))))
            case ast.Call(func=ast.Name(id=called) | ast.Attribute(attr=called)) if called in _DYNAMIC:
                match node.args:
                    case [ast.Constant(value=str(name))] if not name.startswith("."):
                        statements.add((0, name, ()))
                    case _:
                        problem = f"line {node.lineno}: a computed import cannot be followed"
            case _:
                pass
    try:
        files = _declared_files(tree)
    except ValueError as error:
        return Imports((), (), str(error))
    return Imports(tuple(sorted(statements)), files, problem)


def _declared_files(tree: ast.Module) -> tuple[str, ...]:
    """The literal value of ``FINGERPRINT_FILES``; ``ValueError`` where it is no literal tuple of texts."""
    files: tuple[str, ...] = ()
    for node in tree.body:
        match node:
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value) if name == FILES_NAME:
                files += _texts(value)
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name == FILES_NAME:
                files += _texts(value)
            case _:
                pass
    return files


def _texts(value: ast.expr) -> tuple[str, ...]:
    match value:
        case ast.Tuple(elts=items):
            texts = tuple(
                item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)
            )
            if len(texts) == len(items):
                return texts
        case _:
            pass
    raise ValueError(f"line {value.lineno}: {FILES_NAME} must be a literal tuple of texts")
