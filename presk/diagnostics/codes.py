"""The table of codes: every code that a diagnostic may carry, in one place.

Numbers are never reused, and a number keeps its meaning. The families: E0xxx syntax, E1xxx elaboration and dimensions, E2xxx
typing and configuration, E4xxx effects, E8xxx data, E9xxx the tool itself, W warnings. A code is listed once something reports
it, with a program that shows it.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from presk.diagnostics.code import Code
from presk.diagnostics.codes_core import GRADIENTS, LOWERING, REGULARITY, UNDECLARED
from presk.diagnostics.codes_data import FILES
from presk.diagnostics.codes_elab import ELABORATION
from presk.diagnostics.codes_run import INPUTS, RUN
from presk.diagnostics.codes_syntax import SYNTAX
from presk.diagnostics.codes_tool import DATA, EFFECTS, TOOL, WARNINGS
from presk.diagnostics.codes_typing import TYPING

FAMILIES: Final[tuple[tuple[str, tuple[Code, ...]], ...]] = (
    ("Syntax", SYNTAX),
    ("Names, constants, dimensions, modules", ELABORATION),
    ("Types and configuration", TYPING),
    ("Regularity", REGULARITY),
    ("Effects", (*UNDECLARED, *EFFECTS)),
    ("Lowering", LOWERING),
    ("Gradients", GRADIENTS),
    ("Running", RUN),
    ("Data and inputs", (*DATA, *INPUTS, *FILES)),
    ("The tool itself", TOOL),
    ("Warnings", WARNINGS),
)


def _table(rows: Iterable[Code]) -> Mapping[str, Code]:
    table: dict[str, Code] = {}
    for row in rows:
        if row.code in table:
            raise ValueError(f"the code {row.code} is listed twice")
        table[row.code] = row
    return MappingProxyType(table)


CODES: Final[Mapping[str, Code]] = _table(row for _, family in FAMILIES for row in family)
