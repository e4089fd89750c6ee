"""The strategies draw what they promise: every form, every operator, valid names."""

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings

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


SEARCH = settings(
    max_examples=5000,
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
    derandomize=True,
    database=None,
)


@pytest.mark.parametrize("form", sorted(forms()))
def test_every_form_is_drawn(form: str) -> None:
    """A declaration with the form in it is found."""
    find(programs.declarations, lambda tree: any(type(node).__name__ == form for node in walk(tree)), settings=SEARCH)


@pytest.mark.parametrize("operator", programs.OPERATORS)
def test_every_operator_is_drawn(operator: str) -> None:
    """An expression with the operator in it is found, below the top."""

    def has_it(tree: t.Expr) -> bool:
        return any(isinstance(node, t.Binary) and node.operator == operator for node in walk(tree)[1:])

    find(programs.expressions, has_it, settings=SEARCH)


@given(programs.names)
def test_names_are_names(name: str) -> None:
    assert is_name(name)
