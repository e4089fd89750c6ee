"""Writes the two generated modules of this package: `python -m presk.syntax.generate [grammar] [xid]`.

`grammar_tables.py` holds the LALR(1) tables of `presk.lark`, as lark computes them: lark is needed here and in the test
that compares the module with the grammar, not at run time. `xid_table.py` holds the identifier characters of the pinned
Unicode version; it can only be written by a Python whose `unicodedata` is that version (3.11), and the test checks it.
"""

import sys
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from lark import Lark
from lark.lexer import Lexer
from lark.parsers.lalr_analysis import Shift

UNICODE: Final = "14.0.0"
HERE: Final = Path(__file__).parent
STARTS: Final = ("declaration", "member", "item", "header", "line", "expression", "type")


class NoLexer(Lexer):
    """Lark wants a lexer class; ours works before the parser, so this one is never run."""

    def __init__(self, conf: object) -> None:
        del conf

    def lex(self, lexer_state: object, parser_state: object) -> Iterable[object]:  # type: ignore[override]
        raise AssertionError("the tables are made without lexing")


def _kind(name: str, patterns: dict[str, str]) -> str:
    """The token kind of a terminal: `NAME` -> `name`, an anonymous terminal -> its text, `$END` -> `end`."""
    if name == "$END":
        return "end"
    return patterns.get(name, name.lower())


def grammar_tables(grammar: str) -> str:
    """The text of `grammar_tables.py` for a grammar. Conflicts raise lark's GrammarError.

    Every production of the grammar either has an alias (`-> action`), or is a unit production, or drops to one symbol.
    States and rules are numbered in the order of lark's analysis, which is a function of the grammar's text.
    """
    lark = Lark(
        grammar,
        parser="lalr",
        lexer=NoLexer,
        start=list(STARTS),
        maybe_placeholders=False,
        keep_all_tokens=True,
        strict=True,
    )
    patterns = {t.name: t.pattern.value for t in lark.terminals if t.pattern is not None}
    table = lark.parser.parser._parse_table  # lark has no public way to its tables
    numbers: dict[object, int] = {}
    order: list[int] = []
    # Renumber in breadth-first order from the start states: lark's own numbers may depend on set order.
    for start in STARTS:
        state = table.start_states[start]
        if state not in numbers:
            numbers[state] = len(order)
            order.append(state)
    position = 0
    while position < len(order):
        row = table.states[order[position]]
        for symbol in sorted(row):
            action, target = row[symbol]
            if action is Shift and target not in numbers:
                numbers[target] = len(order)
                order.append(target)
        position += 1
    rules: dict[object, int] = {}
    rule_rows: list[tuple[str, int, str]] = []

    def rule_number(rule: object) -> int:
        if rule not in rules:
            rules[rule] = len(rules)
            action = rule.alias or ""  # type: ignore[attr-defined]
            origin = str(rule.origin.name)  # type: ignore[attr-defined]
            size = len(rule.expansion)  # type: ignore[attr-defined]
            if not action and size != 1:
                raise ValueError(f"a production of {origin} needs an alias")
            rule_rows.append((origin, size, action))
        return rules[rule]

    action_rows: list[dict[str, int]] = []
    goto_rows: list[dict[str, int]] = []
    for state in order:
        row = table.states[state]
        actions: list[tuple[str, int]] = []
        gotos: list[tuple[str, int]] = []
        for symbol in sorted(row):
            action, target = row[symbol]
            if symbol == "$END" or symbol.isupper() or symbol.startswith("__ANON"):
                kind = _kind(symbol, patterns)
                # A shift is the next state, a reduction is ~rule.
                actions.append((kind, numbers[target] if action is Shift else ~rule_number(target)))
            elif not symbol.startswith("$"):
                gotos.append((symbol, numbers[target]))
        action_rows.append(dict(sorted(actions)))
        goto_rows.append(dict(sorted(gotos)))
    unit_lines, unit_rows = _unit_steps(action_rows, goto_rows, rule_rows)
    starts = ", ".join(f'"{s}": ({numbers[table.start_states[s]]}, {numbers[table.end_states[s]]})' for s in STARTS)
    return "\n".join(
        [
            '"""LALR(1) tables of presk.lark. Written by `python -m presk.syntax.generate grammar`; do not edit.',
            "",
            "START: start symbol -> (first state, accepting state). RULES: (left side, length, action). ACTIONS: per state, token",
            "kind -> next state, or ~rule for a reduction. GOTOS: per state, left side -> next state. UNITS: per state, left side",
            "-> number in UNIT_STEPS of a table: token kind -> the left side that productions of one symbol lead to.",
            '"""',
            "",
            "from typing import Final",
            "",
            f"START: Final[dict[str, tuple[int, int]]] = {{{starts}}}",
            "RULES: Final[tuple[tuple[str, int, str], ...]] = (",
            *(f'    ("{origin}", {size}, "{action}"),' for origin, size, action in rule_rows),
            ")",
            "ACTIONS: Final[tuple[dict[str, int], ...]] = (",
            *(f"    {_dict(row)}," for row in action_rows),
            ")",
            "GOTOS: Final[tuple[dict[str, int], ...]] = (",
            *(f"    {_dict(row)}," for row in goto_rows),
            ")",
            "UNIT_STEPS: Final[tuple[dict[str, str], ...]] = (",
            *unit_lines,
            ")",
            "UNITS: Final[tuple[dict[str, int], ...]] = (",
            *(f"    {_dict(row)}," for row in unit_rows),
            ")",
            "",
        ]
    )


def _unit_steps(
    actions: Sequence[dict[str, int]], gotos: Sequence[dict[str, int]], rules: Sequence[tuple[str, int, str]]
) -> tuple[list[str], list[dict[str, int]]]:
    """Where productions of one symbol without an action lead, so that the parser need not walk through the precedence levels.

    In state p, behind a left side A and before a token of kind k, such productions make other left sides of A, one after
    another; the last of them depends on p, A and k alone. The tables of many states are equal and are written once.
    """
    numbers: dict[tuple[tuple[str, str], ...], int] = {}
    rows: list[dict[str, int]] = []
    for goto in gotos:
        row: dict[str, int] = {}
        for left, state in goto.items():
            steps: dict[str, str] = {}
            for kind in actions[state]:
                last, at = left, state
                while (action := actions[at].get(kind, 0)) < 0 and rules[~action][1:] == (1, ""):
                    last = rules[~action][0]
                    at = goto[last]
                if last != left:
                    steps[kind] = last
            if steps:
                row[left] = numbers.setdefault(tuple(steps.items()), len(numbers))
        rows.append(row)
    lines = ["    {" + ", ".join(f"{_quoted(k)}: {_quoted(v)}" for k, v in steps) + "}," for steps in numbers]
    return lines, rows


def _dict(row: dict[str, int]) -> str:
    return "{" + ", ".join(f"{_quoted(k)}: {v}" for k, v in row.items()) + "}"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def bounds(belongs: Callable[[str], bool]) -> list[int]:
    """The code points at which membership changes, ascending: [first in, first out, …]."""
    result: list[int] = []
    inside = False
    for code in range(sys.maxunicode + 2):
        now = code <= sys.maxunicode and belongs(chr(code))
        if now != inside:
            result.append(code)
            inside = now
    return result


def xid_table() -> str:
    """The text of `xid_table.py`. Needs a Python with exactly the pinned Unicode version."""
    if unicodedata.unidata_version != UNICODE:
        raise SystemExit(f"this Python knows Unicode {unicodedata.unidata_version}; the table is of {UNICODE}")
    start = bounds(lambda c: c != "_" and c.isidentifier())
    more = bounds(lambda c: ("a" + c).isidentifier())
    lines = [
        f'"""XID_Start and XID_Continue of Unicode {UNICODE}. Written by `python -m presk.syntax.generate xid`; do not edit.',
        "",
        "Each is a sorted tuple of the code points at which membership changes.",
        '"""',
        "",
        "from typing import Final",
        "",
        f'UNICODE: Final = "{UNICODE}"',
    ]
    for name, values in (("XID_START", start), ("XID_CONTINUE", more)):
        lines.append(
            "XID_START: Final[tuple[int, ...]] = (" if name == "XID_START" else f"{name}: Final[tuple[int, ...]] = ("
        )
        lines.extend(_wrapped(values))
        lines.append(")")
    return "\n".join(lines) + "\n"


def _wrapped(values: Sequence[int]) -> list[str]:
    lines: list[str] = []
    line = "   "
    for value in values:
        word = f" {value},"
        if len(line) + len(word) > 118:
            lines.append(line)
            line = "   "
        line += word
    return [*lines, line]


def main(arguments: Sequence[str]) -> None:
    """Writes the modules that are named, by default both."""
    for what in arguments or ("grammar", "xid"):
        if what == "grammar":
            text = grammar_tables((HERE / "presk.lark").read_text(encoding="utf-8"))
            (HERE / "grammar_tables.py").write_text(text, encoding="utf-8")
        elif what == "xid":
            (HERE / "xid_table.py").write_text(xid_table(), encoding="utf-8")
        else:
            raise SystemExit(f"unknown module {what!r}: grammar or xid")


if __name__ == "__main__":
    main(sys.argv[1:])
