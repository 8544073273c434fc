"""The engine's statistics, evidence and gains equal their definitions."""

import numpy as np
import pytest
from hypothesis import given

import oracle
from random_problems import cases, examples, priors
from sparsebayes import SparseBayesRegressor
from sparsebayes.core.quadratic import Gram
from sparsebayes.engine import (
    Breakdown,
    inverse_triangle,
    refresh,
    screen,
    whiten,
    without_self,
)
from sparsebayes.hyperpriors import Flat, Smoothness


def assert_equal(fast, slow, scale=None):
    """To 1e-9 of the largest entry, or of ``scale``."""
    fast, slow = np.asarray(fast), np.asarray(slow)
    assert fast.shape == slow.shape
    if slow.size:
        scale = np.abs(slow).max() if scale is None else scale
        np.testing.assert_allclose(fast, slow, rtol=1e-9, atol=1e-9 * scale)


@examples(50)
@given(cases(), priors)
def test_refresh_equals_the_definitions(case, prior):
    state = refresh(case.quad(), prior, case.active, case.v_a, case.noise)
    a = case.active
    mu, Sigma = oracle.posterior(*case.at())
    assert_equal(state.mu, mu[a])
    assert_equal(state.Sigma, Sigma[np.ix_(a, a)])
    assert_equal(state.dof, 1 - Sigma.diagonal()[a] / case.v_a, scale=1.0)
    assert_equal(state.log_evidence, oracle.log_evidence(*case.at()))
    assert_equal(state.objective, oracle.objective(*case.at(), prior))
    misfit = case.rows[1] - case.rows[0] @ mu
    misfit = misfit - misfit.mean(axis=0) if case.center else misfit
    assert_equal(state.white.residual, np.sum(misfit**2), scale=case.quad().tt)


@examples(50)
@given(cases(), priors)
def test_screen_and_without_self_equal_the_definitions(case, prior):
    quad = case.quad()
    state = refresh(quad, prior, case.active, case.v_a, case.noise)
    seen = screen(quad, prior, state)
    S, Q = oracle.statistics(*case.at())
    real = quad.diag > 0
    assert_equal(seen.S[real], S[real])
    assert_equal(seen.Q[real], Q[real])
    s, q = oracle.without_self(*case.at())
    s_a, q2_a = without_self(case.v_a, state.white)
    assert_equal(s_a, s[case.active])
    assert_equal(q2_a, np.sum(q**2, axis=1)[case.active])


@examples(50)
@given(cases(), priors)
def test_predicted_gain_is_the_actual_gain_of_adding_re_estimating_and_deleting(case, prior):
    quad = case.quad()
    seen = screen(quad, prior, refresh(quad, prior, case.active, case.v_a, case.noise))
    here = oracle.objective(*case.at(), prior)
    assert np.all(seen.gains >= -1e-12 * (1 + abs(here)))
    for j in range(quad.size):
        there = oracle.objective(*case.at(case.with_variance(j, seen.v[j])), prior)
        assert seen.gains[j] == pytest.approx(there - here, rel=1e-8, abs=1e-9 * (1 + abs(here)))


@examples(20)
@given(cases(), priors)
def test_no_other_variance_gains_more(case, prior):
    quad = case.quad()
    seen = screen(quad, prior, refresh(quad, prior, case.active, case.v_a, case.noise))
    here = oracle.objective(*case.at(), prior)
    j = case.active[0] if case.active.size else 0
    if quad.diag[j] == 0:
        assert seen.v[j] == 0
        return
    for v_j in np.append(0.0, case.noise * np.logspace(-4, 4, 17)):
        there = oracle.objective(*case.at(case.with_variance(j, v_j)), prior)
        assert there - here <= seen.gains[j] + 1e-9 * (1 + abs(here))


@examples(20)
@given(cases(), priors)
def test_order_of_active_atoms_does_not_matter(case, prior):
    quad = case.quad()
    one = refresh(quad, prior, case.active, case.v_a, case.noise)
    other = refresh(quad, prior, case.active[::-1], case.v_a[::-1], case.noise)
    assert_equal(other.objective, one.objective)
    assert_equal(other.mu[::-1], one.mu)
    assert_equal(screen(quad, prior, other).gains, screen(quad, prior, one).gains, scale=1.0)


@pytest.mark.parametrize("prior", [Flat(), Smoothness(2.0)])
@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_scaling_the_targets_scales_the_answer(prior, scale):
    rng = np.random.RandomState(0)
    Phi, t = rng.standard_normal((15, 8)), rng.standard_normal((15, 1))
    active, v, noise = np.array([2, 5]), np.array([0.3, 2.0]), 0.4
    G, g = Phi.T @ Phi, Phi.T @ t
    one = Gram(G, g, float(np.sum(t**2)), 15.0, 1.0)
    other = Gram(G, g * scale, float(np.sum(t**2)) * scale**2, 15.0, scale**2)
    a = refresh(one, prior, active, v, noise)
    b = refresh(other, prior, active, v * scale**2, noise * scale**2)
    assert_equal(b.mu, a.mu * scale)
    assert_equal(b.objective, a.objective - 15 * np.log(scale))
    assert_equal(screen(other, prior, b).gains, screen(one, prior, a).gains, scale=1.0)


def test_a_copy_of_a_strong_active_atom_gains_nothing():
    rng = np.random.RandomState(1)
    phi = rng.standard_normal((20, 1))
    phi /= np.linalg.norm(phi)
    other = rng.standard_normal((20, 1))
    Phi = np.hstack([phi, -phi, phi + 1e-7 * other])
    t = 5 * phi + 0.01 * other
    gram = Gram(Phi.T @ Phi, Phi.T @ t, float(np.sum(t**2)), 20.0, 1.0)
    state = refresh(gram, Flat(), np.array([0]), np.array([25.0]), 1e-10)
    seen = screen(gram, Flat(), state)
    assert seen.v[1] == 0
    assert seen.gains[1] == 0
    assert np.isfinite(seen.gains).all()


@pytest.mark.parametrize("v", [1e-12, 1.0, 1e6, 1e12])
def test_copies_keep_their_digits_at_extreme_variances(v):
    G = np.ones((3, 3))
    gram = Gram(G, np.ones((3, 1)), tt=2.0, n=5.0, spread=0.4)
    state = refresh(gram, Flat(), np.arange(3), np.full(3, v), 1.0)
    s, q2 = without_self(state.v, state.white)
    assert np.isfinite(s).all()
    assert np.isfinite(q2).all()
    total = 3 * v / (1 + 3 * v)  # three equal atoms are one of three times the variance
    np.testing.assert_allclose(state.mu.sum(), total, rtol=1e-9)
    np.testing.assert_allclose(state.dof.sum(), total, rtol=1e-3)
    one = Gram(G[:1, :1], np.ones((1, 1)), tt=2.0, n=5.0, spread=0.4)
    alone = refresh(one, Flat(), np.arange(1), np.array([3 * v]), 1.0)
    assert state.log_evidence == pytest.approx(alone.log_evidence, abs=1e-3 if v > 1e6 else 1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_evidence_of_collinear_kernels_keeps_its_digits(seed):
    """Against a QR factorization of the augmented design, which never forms a Gram matrix."""
    rng, n, m, noise = np.random.RandomState(seed), 60, 40, 1e-6
    x, centers = np.linspace(-1, 1, n), np.linspace(-1, 1, m)
    Phi = np.exp(-((x[:, None] - centers) ** 2) / 0.02)
    Phi /= np.linalg.norm(Phi, axis=0)
    t = np.sign(np.sin(9 * x))[:, None] + 1e-3 * rng.standard_normal((n, 1))
    v = noise * 10.0 ** rng.uniform(5, 6, m)
    Q, R = np.linalg.qr(np.vstack([Phi * np.sqrt(v / noise), np.eye(m)]))
    left = np.vstack([t / np.sqrt(noise), np.zeros((m, 1))])
    left -= Q @ (Q.T @ left)
    log_det = n * np.log(2 * np.pi * noise) + 2 * np.sum(np.log(np.abs(R.diagonal())))
    gram = Gram(Phi.T @ Phi, Phi.T @ t, float(np.sum(t**2)), float(n), 1.0)
    exact = -0.5 * (log_det + np.sum(left**2))  # about -2e6: eleven digits
    assert whiten(gram, v, noise).log_evidence == pytest.approx(exact, abs=2e-5)


@pytest.mark.parametrize("order", ["C", "F"])
def test_memory_order_does_not_matter(order):
    rng = np.random.RandomState(0)
    P = rng.standard_normal((9, 3))
    G, g = P.T @ P, P.T @ rng.standard_normal((9, 1))
    plain = whiten(Gram(G, g, 9.0, 9.0, 1.0), np.ones(3), 1.0)
    other = whiten(Gram(np.array(G, order=order), g, 9.0, 9.0, 1.0), np.ones(3), 1.0)
    assert other.log_evidence == plain.log_evidence


def test_a_model_beyond_double_precision_breaks_down_and_says_so():
    gram = Gram(np.ones((2, 2)), np.ones((2, 1)), tt=2.0, n=5.0, spread=0.4)
    with pytest.raises(Breakdown):
        refresh(gram, Flat(), np.arange(2), np.full(2, 1e16), 1.0)


def test_an_indefinite_gram_matrix_breaks_down_and_says_so():
    G = np.array([[1.0, 2.0], [2.0, 1.0]])
    gram = Gram(G, np.ones((2, 1)), tt=2.0, n=5.0, spread=0.4)
    with pytest.raises(Breakdown):
        refresh(gram, Flat(), np.arange(2), np.full(2, 10.0), 1.0)


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("n_targets", [1, 3])
def test_predictive_moments_equal_the_definitions(center, n_targets):
    rng = np.random.RandomState(4)
    X, X_new = rng.standard_normal((25, 6)) + 2.0, rng.standard_normal((7, 6))
    W = np.zeros((6, n_targets))
    W[:3] = rng.standard_normal((3, n_targets))
    y = X @ W + 0.2 * rng.standard_normal((25, n_targets)) + 4.0 * center
    weights = rng.randint(1, 4, 25)
    model = SparseBayesRegressor(fit_intercept=center, prior="flat", random_state=0)
    model.fit(X, y if n_targets > 1 else y[:, 0], sample_weight=weights)
    v = np.zeros(6)
    v[model.relevance_] = model.prior_variance_
    rows, t = oracle.repeated(X, weights), oracle.repeated(y, weights)
    mean, cov = oracle.predictive(rows, t, v, model.noise_variance_, center, X_new)
    fast_mean, fast_std = model.predict(X_new, return_std=True)
    assert_equal(fast_mean.reshape(mean.shape), mean)
    slow_std = np.sqrt(cov.diagonal() + model.noise_variance_)
    for column in fast_std.reshape(7, -1).T:
        assert_equal(column, slow_std)
    evidence = oracle.log_evidence(rows, t, v, model.noise_variance_, center)
    assert_equal(model.log_marginal_likelihood_, evidence)


@pytest.mark.parametrize("m", [0, 1, 47, 48, 49, 96, 131])
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_triangle_is_inverted_whatever_its_size(m, order):
    rng = np.random.RandomState(m)
    L = np.array(np.tril(rng.standard_normal((m, m)), -1) / 8 + np.diag(rng.uniform(1, 9, m)))
    inverse = inverse_triangle(np.asarray(L, order=order))
    np.testing.assert_allclose(inverse @ L, np.eye(m), atol=1e-12)
    assert not np.triu(inverse, 1).any()


@pytest.mark.parametrize("v", [1.0, 1e6, 1e12])
def test_the_inverse_of_an_ill_conditioned_triangle_is_one_from_the_left(v):
    """As exact as LAPACK's: S of all atoms is made of it."""
    x = np.sort(np.random.RandomState(0).uniform(size=100))
    L = np.linalg.cholesky(np.eye(100) + v * np.exp(-50 * (x[:, None] - x) ** 2))
    left = np.asarray(inverse_triangle(L), dtype=np.longdouble) @ L - np.eye(100)
    assert np.abs(left).max() < 1e-9
