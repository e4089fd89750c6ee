"""The strategies draw what they promise: every form, every operator, valid names."""

from hypothesis import HealthCheck, given, settings

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


THOROUGH = settings(max_examples=400, suppress_health_check=list(HealthCheck))


def test_every_form_is_drawn() -> None:
    seen: set[str] = set()

    @THOROUGH
    @given(programs.declarations)
    def look(declaration: t.Declaration) -> None:
        seen.update(type(node).__name__ for node in walk(declaration))

    look()
    assert seen == forms()


def test_every_operator_is_drawn() -> None:
    seen: set[str] = set()

    @THOROUGH
    @given(programs.expressions)
    def look(expression: t.Expr) -> None:
        seen.update(node.operator for node in walk(expression) if isinstance(node, t.Binary))

    look()
    assert seen == set(programs.OPERATORS)


@given(programs.names)
def test_names_are_names(name: str) -> None:
    assert is_name(name)
