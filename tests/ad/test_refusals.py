"""E6001 and E6002: what is refused, where it is said, and what is not refused."""

import pytest

from presk.ad.pipeline import Remat, after_ad
from presk.ad.vjp import differentiate
from presk.core.parse import parse
from presk.diagnostics.value import Diagnostic
from tests.ad.support import lowered


def refused(text: str) -> tuple[Diagnostic, ...]:
    given = lowered(text)
    made = differentiate(given.program, given.origins())
    assert made.program == given.program or not made.diagnostics
    return made.diagnostics


SECOND = """
    dim N
    fn energy(x : ℝ[n: N]) -> ℝ = sum(x^3)
    fn slope(x : ℝ[n: N]) -> ℝ[n: N] = grad(λ v. energy(v))(x)
    fn norm(x : ℝ[n: N]) -> ℝ = sum(slope(x)^2)
    fn curve(x : ℝ[n: N]) -> ℝ[n: N] = grad(λ v. norm(v))(x)
"""


def test_a_gradient_inside_a_differentiated_function():
    (one,) = refused(SECOND)
    assert one.code == "E6001"
    assert "`slope`" in one.message
    assert one.primary.place.chunk == "fn slope"
    assert [label.place.chunk for label in one.labels] == ["fn curve"]


def test_a_gradient_beside_a_differentiated_function_is_fine():
    assert not refused(SECOND.partition("    fn curve")[0])


def test_a_gradient_of_what_no_parameter_reaches_is_fine():
    assert not refused("""
        dim N
        fn slope(x : ℝ) -> ℝ = grad(λ v. v^3)(x)
        fn f(x : ℝ[n: N]) -> ℝ = sum(x * slope(2 : ℝ))
        fn g(x : ℝ[n: N]) -> ℝ[n: N] = grad(λ v. f(v))(x)
    """)


def test_a_declared_function_is_no_lambda():
    (one,) = refused("""
        dim N
        fn energy(x : ℝ[n: N]) -> ℝ = sum(x^3)
        fn slope(x : ℝ[n: N]) -> ℝ[n: N] = grad(energy)(x)
    """)
    assert one.code == "E6002" and one.primary.place.chunk == "fn slope"
    assert one.mend is not None and "energy(x)" in one.mend


def test_a_lambda_of_another_body_is_refused_where_it_is_applied_and_differentiated():
    captured = """
        dim N
        fn f(x : ℝ[n: N]) -> ℝ =
          let h = λ a. sum(a * x)
          let k = λ b. h(b) * h(b)
          k(x)
    """
    assert not refused(captured)
    both = refused(captured + "    fn g(x : ℝ[n: N]) -> ℝ[n: N] = grad(λ v. f(v))(x)\n")
    # Each of the two applications of h.
    assert [(one.code, one.primary.place.chunk) for one in both] == [("E6002", "fn f")] * 2


def test_a_declared_function_applied_as_a_value():
    text = """
        dim N
        fn energy(x : ℝ[n: N]) -> ℝ = sum(x^3)
        fn f(x : ℝ[n: N]) -> ℝ =
          let h = energy
          h(x)
    """
    assert not refused(text)
    (one,) = refused(text + "    fn g(x : ℝ[n: N]) -> ℝ[n: N] = grad(λ v. f(v))(x)\n")
    assert one.code == "E6002" and "no lambda of its body" in one.message


def test_a_lambda_of_the_body_may_be_applied_differentiated_and_both():
    assert not refused("""
        dim N
        fn f(x : ℝ[n: N]) -> ℝ[n: N] =
          let h = λ a. sum(a^2)
          grad(h)(x) * h(x)
        fn g(x : ℝ[n: N]) -> ℝ =
          let h = λ a. sum(a^2)
          h(x) + h(x * x)
        fn d(x : ℝ[n: N]) -> ℝ[n: N] = grad(λ v. g(v))(x)
    """)


def test_a_gradient_may_be_applied_more_than_once():
    assert not refused("""
        dim N
        fn f(x : ℝ[n: N], y : ℝ[n: N]) -> ℝ[n: N] =
          let h = grad(λ a. sum(a^3))
          h(x) - h(y)
    """)


def test_two_refusals_are_both_reported():
    codes = [
        one.code
        for one in refused(
            SECOND
            + """
    fn direct(x : ℝ[n: N]) -> ℝ[n: N] = grad(energy)(x)
"""
        )
    ]
    assert sorted(codes) == ["E6001", "E6002"]


def test_an_adjoint_is_not_differentiated_again():
    made = differentiate(
        parse("""
fn f.lambda0{N}(x : ℝ[n: N]) -> ℝ[] {
  %1 : ℝ[n: N] = gelu' x
  %2 : ℝ[] = sum axis n %1
  return %2
}
fn f{N}(x : ℝ[n: N]) -> ℝ[n: N] {
  %1 : (ℝ[n: N]) -> ℝ[] = closure f.lambda0[]
  %2 : (ℝ[n: N]) -> ℝ[n: N] = grad %1
  %3 : ℝ[n: N] = apply %2(x)
  return %3
}
""")
    )
    (one,) = made.diagnostics
    assert one.code == "E6001" and "`gelu'`" in one.message


@pytest.mark.parametrize("remat", list(Remat))
def test_the_pipeline_gives_back_the_program_with_what_was_refused(remat):
    given = lowered(SECOND)
    done = after_ad(given.program, remat, hold_groups=False, origins=given.origins())
    assert [one.code for one in done.diagnostics] == ["E6001"]
    assert done.program == given.program and done.purposes == ()
