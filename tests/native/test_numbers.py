"""Hyperparameters in native runs: in accumulators, of any size, as exponents and as rates."""

import numpy as np
import pytest

from presk.exact.faults import Fault
from presk.exact.interpreter import Stopped
from presk.exact.values import Number, Real
from presk.kernels.ir import Elem
from presk.kernels.trace.hyper import Given, Known, Scalar, known
from presk.native.scalars import check_rates, element
from tests.ad.support import all_ways, dims_of, lowered, named
from tests.native.support import driver_of, exactly, given_to, interpreted, native, same, traced

CARRIED = """
module H {
  param w : ℝ[] init = ones
  fn apply(s : (ℝ, f64)) -> (ℝ, f64) =
    let (x, f) = s
    (x * w * f, f * 0.5)
}
module N {
  use hs : stack{3}(H)
  fn apply(x : ℝ, f : f64) -> ℝ =
    let (y, _) = hs.apply((x, f))
    y
}
module P {
  param w : ℝ[] init = ones
  fn apply(s : (ℝ, nat)) -> (ℝ, nat) =
    let (x, n) = s
    (x^n * w, n + 1)
}
module Q {
  use ps : stack{2}(stack{2}(P))
  fn apply(x : ℝ, n : nat) -> ℝ =
    let (y, _) = ps.apply((x, n))
    y
}
fn half(θ : params N, x : ℝ, f : f64) -> ℝ = N.apply(θ, x, f)
fn power(θ : params Q, x : ℝ, n : nat) -> ℝ = Q.apply(θ, x, n)
fn half_grad(θ : params N, x : ℝ, f : f64) -> ℝ = grad(λ x. half(θ, x, f))(x)
fn half_grad_all(θ : params N, x : ℝ, f : f64) -> params N = grad(λ θ. half(θ, x, f))(θ)
fn power_grad(θ : params Q, x : ℝ, n : nat) -> params Q = grad(λ θ. power(θ, x, n))(θ)
"""


@pytest.mark.parametrize("entry", ["half", "power", "half_grad", "half_grad_all", "power_grad"])
def test_a_gradient_through_a_loop_that_carries_a_number(entry: str) -> None:
    given = lowered(CARRIED)
    for done in all_ways(given.program).values():
        function = named(done.program, entry)
        dims = dims_of(function)
        args = given_to(function, given.headers, dims, "f64")
        driver = driver_of(traced(done.program, given.headers, entry, dims, "f64"))
        found = native(driver, function, args)
        assert same(found, interpreted(driver, function, args))
        expected = exactly(done.program, given.headers, entry, args, dims)
        assert found.keys() == expected.keys()
        for path, array in found.items():
            np.testing.assert_allclose(array, expected[path], rtol=1e-12, err_msg=path)


@pytest.mark.parametrize("text", ["1e-300", "3.14159265358979323846", "99999999999999999999999", "1e22", "-0.1"])
def test_a_constant_of_any_size(text: str) -> None:
    given = lowered(f"fn f(x : ℝ[3]) -> ℝ[3] = x * ({text} : ℝ)\n")
    function = named(given.program, "f")
    args = given_to(function, given.headers, {}, "f64")
    found = native(driver_of(traced(given.program, given.headers, "f", {}, "f64")), function, args)
    expected = exactly(given.program, given.headers, "f", args, {})
    np.testing.assert_allclose(found[""], expected[""], rtol=1e-15)
    assert element(Scalar(known(text), Elem.F64), {}) == float(text)


@pytest.mark.parametrize("n", [1, 2, 2**53 + 1, 2**62 - 1, 2**62, 2**62 + 1, 2**63 - 1, 2**64 + 1, 10**40, 10**40 + 1])
def test_an_exponent_keeps_its_parity(n: int) -> None:
    found = element(Scalar(Given("n"), Elem.I64), {"n": Number(n)})
    assert found % 2 == n % 2
    assert found == n if n < 2**62 else 2**62 <= found < 2**63


@pytest.mark.parametrize("n", [64, 65, 100_000, 100_001, 10**30 + 1])
def test_a_large_constant_exponent_is_no_long_chain(n: int) -> None:
    given = lowered(f"fn f(x : ℝ[3]) -> ℝ[3] = x^{n}\n")
    function = named(given.program, "f")
    args = given_to(function, given.headers, {}, "f64")
    args[0] = Real(np.array([-1.0, 1.0, 0.5], dtype=np.float64))
    driver = driver_of(traced(given.program, given.headers, "f", {}, "f64"))
    assert sum(len(kernel.body) for kernel in driver.kernels) < 100
    found = native(driver, function, args)[""]
    assert found.tolist() == [-1.0 if n % 2 else 1.0, 1.0, 0.5**n if n < 1000 else 0.0]


@pytest.mark.parametrize("rate, refused", [("-1/2", True), ("0", False), ("0.999", False), ("1", True), ("2", True)])
def test_a_rate_lies_between_0_and_1(rate: str, refused: bool) -> None:
    rates = ((known(rate) if "/" not in rate else Known(rate), (("f", 3),)),)
    if not refused:
        check_rates(rates, {})
        return
    with pytest.raises(Stopped) as error:
        check_rates(rates, {})
    assert isinstance(error.value.fault, Fault)
    assert error.value.fault.code == "E7009" and error.value.trail == (("f", 3),)
