"""`presk explain`: the page of an error code."""

from typing import Annotated

import typer

from presk.cli.commands import programs
from presk.cli.request import Request
from presk.diagnostics.explain import explain, nearest_code


def explain_command(
    context: typer.Context,
    code: Annotated[str, typer.Argument(metavar="CODE", help="A code, such as E2003.")],
) -> None:
    """Explain an error code: what it means, a program that produces it, and the mend."""
    request = context.ensure_object(Request)
    page = explain(code)
    if page is None:
        near = nearest_code(code)
        raise programs.usage(
            request,
            "E9003",
            f"there is no code `{code}`",
            f"did you mean `{near}`?" if near is not None else "the codes are listed in docs/errors/README.md",
        )
    request.print(page.rstrip("\n"))
