"""Static assertions: claims about dimensions that must hold at every value, decided last, adding no fact."""

from typing import Final

from presk.diagnostics.report import Reporter
from presk.diagnostics.value import Diagnostic
from presk.elab.entities import Env
from presk.elab.exprs import dimension
from presk.elab.scope import Scope, merged
from presk.syntax import tree
from presk.types.claim import Claim, Proved, Refuted, Relation
from presk.types.decide import Decider, explain
from presk.types.dim import constant

COMPARISONS: Final = ("==", "<=", "<", ">=", ">")
FORMS: Final = (
    "assertions are `a == b`, `a <= b`, `a < b`, `a >= b`, `a > b` and `a % k == 0` with a positive constant k"
)


def decide_assertion(assertion: tree.StaticAssert, env: Env, decider: Decider) -> tuple[Diagnostic, ...]:
    """What is to be said about an assertion; nothing if it holds.

    Errors: E1004 (false, with the least counterexample), E1016 (another form), E1017 (not decided), those of dimensions.
    """
    reporter = Reporter()
    scope = Scope(env, decider, "static assert")
    condition = assertion.condition
    claim = _claim(condition, scope, reporter)
    if claim is None:
        return merged(reporter.diagnostics())
    verdict = decider.decide(claim, scope.facts((*claim.left.symbols(), *claim.right.symbols())))
    if isinstance(verdict, Proved):
        return ()
    if isinstance(verdict, Refuted):
        _report_false(claim, verdict, condition, reporter)
    else:
        reporter.report(
            "E1017",
            condition.at,
            "this static assertion cannot be decided",
            text=verdict.why,
            notes=["an assertion that is not proved is an error, so that none passes silently"],
        )
    return reporter.diagnostics()


def _report_false(claim: Claim, verdict: Refuted, condition: tree.Expr, reporter: Reporter) -> None:
    labels: list[tuple[tree.At, str]] = []
    if isinstance(condition, tree.Binary) and claim.relation is not Relation.DIVIDES:
        for side, form in ((condition.left, claim.left), (condition.right, claim.right)):
            if form.is_constant() and not isinstance(side, tree.Nat):
                labels.append((side.at, f"this is {form}"))
    notes = []
    if verdict.at:
        notes.append(
            "an assertion must hold for every natural value of its dimensions, 0 included; it is no constraint on them"
        )
    reporter.report(
        "E1004",
        condition.at,
        f"static assertion fails: {claim}",
        text=explain(verdict, claim),
        labels=labels,
        notes=notes,
    )


def _claim(condition: tree.Expr, scope: Scope, reporter: Reporter) -> Claim | None:
    if not isinstance(condition, tree.Binary) or condition.operator not in COMPARISONS:
        _report_form(condition, "this is not an assertion", reporter)
        return None
    remainder = condition.left
    if isinstance(remainder, tree.Binary) and remainder.operator == "%":
        return _divisibility(condition, remainder, scope, reporter)
    if isinstance(remainder, tree.Binary) and remainder.operator in COMPARISONS:
        _report_form(
            condition, "comparisons cannot be chained", reporter, mend="write one assertion for each comparison"
        )
        return None
    left = dimension(condition.left, scope, reporter, natural=False, fractions=True)
    right = dimension(condition.right, scope, reporter, natural=False, fractions=True)
    if left is None or right is None:
        return None
    return Claim(Relation(condition.operator), left, right)


def _divisibility(condition: tree.Binary, remainder: tree.Binary, scope: Scope, reporter: Reporter) -> Claim | None:
    if condition.operator != "==" or not (isinstance(condition.right, tree.Nat) and set(condition.right.text) == {"0"}):
        _report_form(condition, "a remainder can only be compared with 0", reporter)
        return None
    left = dimension(remainder.left, scope, reporter, natural=False, fractions=True)
    right = dimension(remainder.right, scope, reporter, natural=False, fractions=True)
    if left is None or right is None:
        return None
    if not right.is_constant():
        reporter.report(
            "E1007",
            remainder.right.at,
            "division by a symbolic dimension is outside of linear arithmetic",
            text=f"the divisor is {right}",
            notes=[FORMS],
        )
        return None
    divisor = right.natural()
    if divisor == 0:
        reporter.report(
            "E1023",
            remainder.at,
            "division by zero",
            text="a remainder by 0",
            labels=[(remainder.right.at, "this is 0")],
        )
        return None
    if divisor is None:
        _report_form(condition, f"the divisor {right} is not a positive whole number", reporter)
        return None
    return Claim(Relation.DIVIDES, left, constant(right.constant))


def _report_form(condition: tree.Expr, said: str, reporter: Reporter, mend: str | None = None) -> None:
    reporter.report("E1016", condition.at, said, text="not a form of assertion", notes=[FORMS], mend=mend)
