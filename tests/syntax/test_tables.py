"""The generated tables are those of the grammar."""

from presk.syntax import grammar_tables
from presk.syntax.build import ACTIONS
from presk.syntax.generate import HERE, STARTS
from presk.syntax.generate import grammar_tables as generated


def test_the_tables_are_the_grammars() -> None:
    """`python -m presk.syntax.generate grammar` was run after the last change of `presk.lark`."""
    written = (HERE / "grammar_tables.py").read_text(encoding="utf-8")
    assert written == generated((HERE / "presk.lark").read_text(encoding="utf-8"))


def test_every_action_has_a_function_and_is_used() -> None:
    used = {action for _, _, action in grammar_tables.RULES if action}
    assert used == set(ACTIONS)


def test_steps_over_unit_productions_are_those_of_the_tables() -> None:
    """What `UNITS` says at once is what the tables say one production after another."""
    checked = 0
    for state, row in enumerate(grammar_tables.UNITS):
        for left, number in row.items():
            for kind, last in grammar_tables.UNIT_STEPS[number].items():
                at, reached = left, grammar_tables.GOTOS[state][left]
                while at != last:
                    action = grammar_tables.ACTIONS[reached][kind]
                    assert action < 0
                    at, size, name = grammar_tables.RULES[~action]
                    assert (size, name) == (1, "")
                    reached = grammar_tables.GOTOS[state][at]
                    checked += 1
    assert checked > 1000


def test_every_start_symbol_has_its_states() -> None:
    assert set(grammar_tables.START) == set(STARTS)
