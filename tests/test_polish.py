"""Last steps by the gradient: where the evidence is rounding and its derivatives are not."""

import numpy as np
import pytest

from sparsebayes import denoise, reconstruct
from sparsebayes.core.quadratic import Gram
from sparsebayes.datasets import doppler
from sparsebayes.dictionaries import Kernel, Wavelet
from sparsebayes.engine import refresh
from sparsebayes.hyperpriors import Flat
from sparsebayes.problem import Problem, Status, certify
from sparsebayes.sensing import PartialDCT
from sparsebayes.solvers.polish import polished


def test_nearly_collinear_splines_of_huge_variances_converge():
    y = doppler(200, snr=7, random_state=0).y
    found = denoise(y, Wavelet("haar") + Kernel("tps"))
    state = found.solution.state
    assert state.v.max() / state.noise_var > 1e9
    assert found.solution.status is Status.CONVERGED


def test_measurements_without_noise_converge():
    sensing = PartialDCT(64, 30, random_state=3)
    signal = np.repeat([1.0, 3.0, 0.0, 2.0], 16)
    found = reconstruct(sensing.measure(signal), sensing)
    assert found.solution.status is Status.NOISE_FLOOR
    assert found.converged
    np.testing.assert_allclose(found.signal, signal, atol=1e-7)


def orthonormal_problem(noise_var=None):
    gram = Gram(np.eye(2), np.array([[3.0], [-4.0]]), tt=35.0, n=20.0, spread=1.0)
    return Problem(gram, Flat(), noise_var)


@pytest.mark.parametrize("noise_var", [None, 0.5])
def test_ends_at_the_stationary_point_nearby(noise_var):
    problem = orthonormal_problem(noise_var)
    noise_best = 10.0 / 18.0 if noise_var is None else noise_var  # |t|^2 outside / (n - 2)
    best = np.array([9.0, 16.0]) - noise_best
    noise = problem.noise()._replace(var=noise_best * 1.01 if noise_var is None else noise_var)
    start = refresh(problem.quad, Flat(), np.arange(2), best * [1.02, 0.99], noise.var)
    end = polished(problem, start, noise, unresolved=0.0)
    np.testing.assert_allclose(end.v, best, rtol=1e-9)
    assert end.noise_var == pytest.approx(noise_best, rel=1e-9)
    assert certify(problem, end, noise)[0].holds(1e-12)
    assert end.objective >= start.objective


def test_a_point_that_is_far_from_stationary_is_left_alone():
    problem = orthonormal_problem(0.5)
    far = refresh(problem.quad, Flat(), np.arange(2), np.array([1.0, 100.0]), 0.5)
    assert polished(problem, far, problem.noise(), unresolved=1e-3) is far
