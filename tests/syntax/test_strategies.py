"""The strategies draw what they promise: every form, every operator, valid names."""

from typing import get_args

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from presk.syntax import tree as t
from presk.syntax.lexer import is_name
from presk.syntax.tree import Node
from tests.syntax import strategies as programs


def forms() -> set[str]:
    """The node classes of `presk.syntax.tree`."""
    return {
        name
        for name, value in vars(t).items()
        if isinstance(value, type) and issubclass(value, Node) and value is not Node
    }


def walk(root: object) -> list[Node]:
    found: list[Node] = []
    waiting = [root]
    while waiting:
        value = waiting.pop()
        if isinstance(value, tuple):
            waiting.extend(value)
        elif isinstance(value, Node):
            found.append(value)
            waiting.extend(getattr(value, field) for field in value.__struct_fields__)
        elif isinstance(value, t.MemberChunk):
            waiting.append(value.member)
        elif isinstance(value, t.ItemChunk):
            waiting.append(value.item)
    return found


def test_every_form_and_operator_is_grown() -> None:
    """300 declarations of moderate size hold every node class and every operator."""
    nodes = [node for seed in range(300) for node in walk(programs.Grower(seed).declaration(30))]
    assert {type(node).__name__ for node in nodes} == forms()
    assert {node.operator for node in nodes if isinstance(node, t.Binary)} == set(programs.OPERATORS)


def test_every_expression_and_type_is_drawn() -> None:
    seen: set[str] = set()

    @settings(suppress_health_check=list(HealthCheck))
    @given(st.one_of(programs.expressions, programs.types))
    def look(tree: Node) -> None:
        seen.update(type(node).__name__ for node in walk(tree))

    look()
    assert seen >= {form.__name__ for form in (*get_args(t.Expr), *get_args(t.TypeExpr))}


@given(programs.names)
def test_names_are_names(name: str) -> None:
    assert is_name(name)
