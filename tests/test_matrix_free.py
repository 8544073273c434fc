"""The solver of large problems, on problems small enough to know the answer."""

import numpy as np
import pytest

from sparsebayes.core.quadratic import Gram
from sparsebayes.core.stored import weighted_quadratic
from sparsebayes.design import ArrayDesign
from sparsebayes.engine import refresh
from sparsebayes.hyperpriors import Flat, Smoothness
from sparsebayes.implicit import Implicit, matrix_of, shrunk
from sparsebayes.problem import Problem, Status
from sparsebayes.solvers import matrix_free, search


def sparse_problem(n, m, k, noise, seed=5, scale=True):
    rng = np.random.default_rng(seed)
    Phi = rng.standard_normal((n, m)) / n**0.5
    if scale:  # atoms of different norms
        Phi *= np.exp(rng.uniform(-2, 2, m))
    w = np.zeros(m)
    w[rng.choice(m, k, replace=False)] = rng.standard_normal(k)
    w /= np.linalg.norm(Phi, axis=0)
    t = Phi @ w + noise * rng.standard_normal(n)
    return weighted_quadratic(ArrayDesign(Phi), t[:, None]), w


@pytest.fixture(scope="module")
def posterior():
    """A posterior by products, and the same from definitions."""
    quad, _ = sparse_problem(60, 100, 10, 0.1)
    rng = np.random.default_rng(0)
    active = np.sort(rng.choice(100, 25, replace=False))
    v = np.exp(rng.uniform(-6, 3, 25))
    implicit = Implicit(matrix_of(quad)[1], 100, active, v, 0.02)
    return quad, implicit, refresh(quad, Flat(), active, v, 0.02)


def test_products_are_adjoint_and_of_unit_norm(posterior):
    quad, implicit, _ = posterior
    U = implicit.matrix.synthesize(np.eye(100))  # atoms as rows
    np.testing.assert_allclose(np.linalg.norm(U, axis=1), 1.0)
    np.testing.assert_allclose(implicit.matrix.analyze(np.eye(60)), U.T)
    given = matrix_of(quad)[0]
    np.testing.assert_allclose(
        given.synthesize(np.eye(100)), quad.products.design.columns(np.arange(100))
    )


def test_mean_by_conjugate_gradients(posterior):
    quad, implicit, state = posterior
    z, n_iter = implicit.mean(quad.g[:, 0], tol=1e-12)
    np.testing.assert_allclose(z, state.white.z[:, 0], rtol=1e-8, atol=1e-10)
    again, fewer = implicit.mean(quad.g[:, 0], start=z, tol=1e-8)
    assert fewer == 0 < n_iter
    np.testing.assert_array_equal(again, z)


def test_draws_have_the_covariance_of_the_posterior(posterior):
    _, implicit, state = posterior
    draws = implicit.draw(np.random.RandomState(0), 12_000, 60, tol=1e-6)
    W = draws.whitened.T @ draws.whitened / 12_000
    np.testing.assert_allclose(W, state.white.W, atol=0.05)
    U = implicit.matrix.synthesize(np.eye(100))
    C = 0.02 * np.eye(60) + (U[implicit.active].T * implicit.v) @ U[implicit.active]
    S = np.einsum("ij,ij->i", U, np.linalg.solve(C, U.T).T)
    np.testing.assert_allclose(np.square(draws.quality).mean(axis=0), S, rtol=0.06)


def test_determinant(posterior):
    _, implicit, state = posterior
    exact = 2 * np.log(state.white.L.diagonal()).sum()
    value, error = implicit.log_det(np.random.RandomState(0), 400)
    assert abs(value - exact) < 4 * error < 2.0
    nothing = Implicit(implicit.matrix, 100, np.empty(0, dtype=np.intp), np.empty(0), 1.0)
    assert nothing.log_det(np.random.RandomState(0), 3) == (0.0, 0.0)
    assert nothing.draw(np.random.RandomState(0), 2, 60).whitened.shape == (2, 0)


def test_determinant_of_orthogonal_atoms_is_exact():
    quad = weighted_quadratic(ArrayDesign(np.eye(5)), np.ones((5, 1)))
    v = np.arange(1.0, 6.0)
    implicit = Implicit(matrix_of(quad)[1], 5, np.arange(5), v, 0.5)
    value, error = implicit.log_det(np.random.RandomState(0), 2)
    assert np.isclose(value, np.log(1 + v / 0.5).sum())
    assert error < 1e-10


def test_estimates_are_drawn_together_only_as_far_as_they_scatter():
    rng = np.random.RandomState(0)
    equal = (rng.standard_normal((20, 2000)) ** 2).mean(axis=0)
    assert np.abs(shrunk(equal, 20) - 1).max() < 0.3 * np.abs(equal - 1).max()
    truth = np.exp(rng.uniform(-5, 5, 2000))
    np.testing.assert_allclose(shrunk(truth, 2000), truth, rtol=0.2, atol=0.02 * truth.mean())
    assert shrunk(np.array([0.0, 1.0, 1.1]), 50)[0] == 0.0


@pytest.mark.parametrize("c", [0.5 * np.log(100), np.log(256)])
def test_it_comes_near_the_exact_solver(c):
    quad, _ = sparse_problem(100, 256, 15, 0.05)
    problem = Problem(quad, Smoothness(c))
    exact = search.solve(problem)
    found = matrix_free.solve(problem, n_probes=16)
    assert found.converged
    assert found.status is Status.SETTLED
    state = found.state
    same = refresh(quad, Smoothness(c), state.active, state.v, state.noise_var)
    assert same.objective > exact.state.objective - 5.0
    assert abs(state.objective - same.objective) < 5 * state.log_evidence_error + 0.5
    np.testing.assert_allclose(state.mu, same.mu, atol=1e-4)
    np.testing.assert_allclose(np.sqrt(state.variance), np.sqrt(np.diag(same.Sigma)), rtol=0.25)
    np.testing.assert_allclose(state.dof.sum(), same.dof.sum(), rtol=0.1)
    assert found.certificate.max_gain < 3.0
    # The noise is left within 1 % of where it is stationary: a slope of half a nat.
    assert found.certificate.gradient_norm < 0.6
    assert np.isnan(found.certificate.max_curvature)


def test_measurements_without_noise():
    quad, w = sparse_problem(100, 256, 20, 0.0)
    found = matrix_free.solve(Problem(quad, Smoothness(2.3)))
    assert found.status is Status.NOISE_FLOOR
    assert found.converged
    weights = np.zeros(256)
    weights[found.state.active] = found.state.mu[:, 0] / quad.norm[found.state.active]
    assert np.linalg.norm(weights - w) < 1e-6 * np.linalg.norm(w)


def test_given_noise_orthonormal_atoms():
    """The closed form: active iff z^2 > 1 + 2c, shrinkage (z^2 - 2c - 1) / (z^2 - 2c)."""
    z = np.array([6.0, -4.0, 2.5, 2.0, 0.5, -3.0])
    quad = weighted_quadratic(ArrayDesign(np.eye(6)), 0.1 * z[:, None])
    found = matrix_free.solve(Problem(quad, Smoothness(2.0), 0.01), n_probes=256, tol=1e-5)
    assert found.state.noise_var == 0.01
    assert found.state.active.tolist() == [0, 1, 2, 5]
    z2 = z[found.state.active] ** 2
    shrinkage = (z2 - 5) / (z2 - 4)
    np.testing.assert_allclose(
        found.state.mu[:, 0], 0.1 * z[found.state.active] * shrinkage, rtol=0.03
    )


def test_pure_noise_and_nothing():
    rng = np.random.default_rng(0)
    quad = weighted_quadratic(
        ArrayDesign(rng.standard_normal((100, 200))), rng.standard_normal((100, 1))
    )
    found = matrix_free.solve(Problem(quad, Smoothness(np.log(200))))
    assert found.state.active.size <= 2
    assert 0.7 < found.state.noise_var < 1.4
    zero = weighted_quadratic(ArrayDesign(rng.standard_normal((10, 20))), np.zeros((10, 1)))
    found = matrix_free.solve(Problem(zero, Smoothness(1.0)))
    assert found.state.active.size == 0
    assert np.isfinite(found.state.log_evidence)


def test_void_atoms_stay_out():
    quad, _ = sparse_problem(60, 100, 5, 0.05)
    Phi = quad.products.design.Phi.copy()
    Phi[:, ::3] = 0.0
    t = Phi[:, [1, 4]].sum(axis=1)[:, None] + 0.01
    quad = weighted_quadratic(ArrayDesign(Phi), t)
    found = matrix_free.solve(Problem(quad, Smoothness(2.0)))
    assert {1, 4} <= set(found.state.active.tolist())
    assert not (found.state.active % 3 == 0).any()


def test_warm_start_and_progress():
    quad, _ = sparse_problem(100, 256, 15, 0.05)
    problem = Problem(quad, Smoothness(2.3))
    lines = []
    first = matrix_free.solve(problem, report=lines.append)
    assert len(lines) == first.n_iter == len(first.trace)
    assert {line.phase for line in lines} == {"descend", "settle"}
    start = (first.state.active, first.state.v, first.state.noise_var)
    second = matrix_free.solve(problem, start=start)
    assert "descend" not in {line.phase for line in second.trace}
    assert abs(second.state.objective - first.state.objective) < 5.0
    short = matrix_free.solve(problem, max_iter=1, start=start)
    assert short.status is Status.MAX_ITER
    assert not short.converged


def test_the_way_down_to_little_noise_is_not_counted():
    quad, _ = sparse_problem(60, 100, 5, 0.0)
    problem = Problem(quad, Smoothness(2.3), 1e-22)
    found = matrix_free.solve(problem, max_iter=20)
    phases = [line.phase for line in found.trace]
    assert phases.count("descend") > 60
    assert phases.count("settle") <= 20
    assert found.status is Status.SETTLED


def test_certificate_knows_the_slope_in_the_noise():
    quad, _ = sparse_problem(60, 100, 8, 0.05)
    prior = Smoothness(2.3)
    first = matrix_free.solve(Problem(quad, prior)).state
    start = (first.active, first.v, 3 * first.noise_var)
    found = matrix_free.solve(Problem(quad, prior), start=start, max_iter=1)
    rho = np.log(found.state.noise_var) + np.array([-1e-4, 1e-4])
    low, high = (
        refresh(quad, prior, found.state.active, found.state.v, np.exp(x)).objective for x in rho
    )
    slope = abs(high - low) / 2e-4
    assert slope > 5.0
    assert abs(found.certificate.gradient_norm - slope) < 0.15 * slope


def test_repeatable():
    quad, _ = sparse_problem(60, 100, 8, 0.05)
    problem = Problem(quad, Smoothness(2.3))
    first, second = (
        matrix_free.solve(problem, random_state=np.random.RandomState(3)) for _ in range(2)
    )
    np.testing.assert_array_equal(first.state.mu, second.state.mu)


def test_what_it_refuses():
    quad, _ = sparse_problem(20, 30, 3, 0.1)
    gram = Gram(np.eye(2), np.ones((2, 1)), tt=3.0, n=5.0, spread=1.0)
    with pytest.raises(TypeError, match="needs a design"):
        matrix_free.solve(Problem(gram, Flat()))
    centered = weighted_quadratic(
        quad.products.design,
        np.ones((20, 1)) + quad.products.design.columns(np.array([0])).T,
        center=True,
    )
    with pytest.raises(TypeError, match="no intercept"):
        matrix_free.solve(Problem(centered, Flat()))
    two = weighted_quadratic(quad.products.design, np.ones((20, 2)))
    with pytest.raises(ValueError, match="one target, not 2"):
        matrix_free.solve(Problem(two, Flat()))
