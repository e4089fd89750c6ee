"""Names of generated functions: those of the function they are made from, with a suffix.

No name of a program ends in one of them, since its parts are identifiers and these are added to a declaration's whole name; a
lambda's is its declaration's followed by `.lambdaN`.
"""

import re
from typing import Final

_LAMBDA: Final = re.compile(r"\.lambda[0-9]+\Z")


def vjp(function: str) -> str:
    """The function that gives the adjoints of a function's parameters."""
    return f"{function}.vjp"


def grad(function: str) -> str:
    """The gradient in the last parameter."""
    return f"{function}.grad"


def fwd(function: str) -> str:
    """The forward pass that keeps its residuals."""
    return f"{function}.fwd"


def bwd(function: str) -> str:
    """The sweep on residuals."""
    return f"{function}.bwd"


def value_vjp(function: str) -> str:
    """The value and the adjoints, of one forward pass."""
    return f"{function}.value_vjp"


def fold_bwd(function: str, number: int) -> str:
    """The body of the backward loop of a function's fold, by the fold's place among those that are differentiated."""
    return f"{function}.fold_bwd{number or ''}"


def fold_fwd(backward: str) -> str:
    """The body of the forward loop that keeps residuals, by that of the backward loop."""
    front, _, number = backward.rpartition(".fold_bwd")
    return f"{front}.fold_fwd{number}"


def is_lambda(function: str) -> bool:
    """Whether lowering made the function of a lambda."""
    return _LAMBDA.search(function) is not None
