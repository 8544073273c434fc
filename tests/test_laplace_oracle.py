"""The oracle of the Laplace approximation is itself held to finite differences and to integrals."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.special import logsumexp

import laplace_oracle
import oracle
from laplace_oracle import laplace
from sparsebayes.likelihoods import Bernoulli, Gaussian, Multinomial, Poisson

N, M = 25, 4
RNG = np.random.default_rng(0)
PHI = RNG.normal(size=(N, M)) + 0.5
LIKELIHOODS = {
    "gaussian": (Gaussian(0.3), RNG.normal(size=N) + 2.0),
    "bernoulli": (Bernoulli(), RNG.integers(0, 2, N).astype(float)),
    "multinomial": (Multinomial(3), RNG.integers(0, 3, N).astype(float)),
    "poisson": (Poisson(), RNG.poisson(4.0, N).astype(float)),
}


@pytest.fixture(params=[True, False], ids=["intercept", "no intercept"])
def intercept(request):
    return request.param


@pytest.fixture(params=[True, False], ids=["weights", "no weights"])
def weights(request):
    return np.random.default_rng(1).uniform(0.2, 3.0, N) if request.param else None


@pytest.fixture(params=LIKELIHOODS.values(), ids=LIKELIHOODS.keys())
def fitted(request, intercept, weights):
    likelihood, t = request.param
    last = likelihood.n_latent - 1
    columns, v = [(0, 0), (2, 0), (2, last), (3, last)][:: 1 if last else 2], [0.5, 2.0, 1e-3, 30.0]
    v = np.array(v[:: 1 if last else 2])
    problem = (PHI, t, weights, likelihood, columns, v, intercept)
    return problem, laplace(*problem)


def log_posterior(problem, w, c):
    """Log of the likelihood times the prior, from scratch."""
    Phi, t, weights, likelihood, columns, v, _ = problem
    f = np.tile(c, (len(t), 1))
    for (a, k), w_i in zip(columns, w, strict=True):
        f[:, k] += w_i * Phi[:, a]
    value = likelihood.expand(t, f).value
    prior = -0.5 * (w**2 / v + np.log(2 * np.pi * v))
    return np.sum(value if weights is None else weights * value) + np.sum(prior)


def directions(problem, fit):
    """Steps in weights and intercepts, one for each row of the covariance."""
    m = len(fit.w)
    Z = laplace_oracle.visible(problem[3], problem[1])
    for i in range(len(fit.covariance)):
        yield np.eye(m)[i] if i < m else np.zeros(m), Z[:, i - m] if i >= m else 0 * fit.c


def test_the_mode_is_one(fitted):
    problem, fit = fitted
    assert np.abs(fit.gradient).max() < 1e-10
    best = log_posterior(problem, fit.w, fit.c)
    for dw, dc in directions(problem, fit):
        for size in (-1e-2, 1e-2):
            assert log_posterior(problem, fit.w + size * dw, fit.c + size * dc) < best


def test_hessian_by_finite_differences(fitted):
    problem, fit = fitted
    steps, h = list(directions(problem, fit)), 1e-3
    hessian = np.empty((len(steps), len(steps)))
    for i, (dw, dc) in enumerate(steps):
        for j, (ew, ec) in enumerate(steps):
            hessian[i, j] = sum(
                a
                * b
                * log_posterior(
                    problem, fit.w + h * (a * dw + b * ew), fit.c + h * (a * dc + b * ec)
                )
                for a in (-1, 1)
                for b in (-1, 1)
            )
    hessian /= -4 * h**2
    assert_allclose(hessian @ fit.covariance, np.eye(len(steps)), atol=2e-4)


def test_evidence_in_the_words_of_the_projected_form(fitted):
    """Weights after the intercept is integrated out, then the intercept (its C) by itself."""
    problem, fit = fitted
    _, t, _, likelihood, _, v, intercept = problem
    K, m = likelihood.n_latent, len(v)
    value = laplace_oracle.expansion(likelihood, t, fit.f, problem[2])[0]
    Sigma = fit.covariance[:m, :m]
    want = value - 0.5 * np.sum(fit.w**2 / v + np.log(2 * np.pi * v))
    want += 0.5 * np.linalg.slogdet(2 * np.pi * Sigma)[1]
    if intercept:
        ones = np.tile(np.eye(K), (N, 1))
        sizes = np.linalg.eigvalsh(ones.T @ fit.B @ ones)
        sizes = sizes[sizes > 1e-10 * sizes.max()]
        assert len(sizes) == (K if likelihood.n_latent == 1 else K - 1)
        want += 0.5 * len(sizes) * np.log(2 * np.pi) - 0.5 * np.sum(np.log(sizes))
    assert_allclose(fit.log_evidence, want, rtol=1e-12)


def test_S_and_Q_of_the_projected_form(fitted):
    problem, fit = fitted
    Phi, _, _, likelihood, columns, v, intercept = problem
    K = likelihood.n_latent
    every = np.column_stack(
        [laplace_oracle.column(Phi, a, k, K) for a in range(M) for k in range(K)]
    )
    if intercept:
        ones = np.tile(np.eye(K), (N, 1))
        C = ones.T @ fit.B @ ones
        every = every - ones @ np.linalg.pinv(C, rcond=1e-10) @ ones.T @ fit.B @ every
        slope = fit.slope.ravel()
        assert np.abs(ones.T @ slope).max() < 1e-9
    H = every.T @ fit.B @ every
    active = [a * K + k for a, k in columns]
    Sigma = np.linalg.inv(np.diag(1 / v) + H[np.ix_(active, active)])
    assert_allclose(Sigma, fit.covariance[: len(v), : len(v)], rtol=1e-8, atol=1e-12)
    S = H.diagonal() - np.sum(H[:, active] * (H[:, active] @ Sigma), axis=1)
    b = every.T @ (fit.B @ fit.f.ravel() + fit.slope.ravel())
    assert_allclose(fit.S, S, rtol=1e-8, atol=1e-10)
    assert_allclose(fit.Q, b - H[:, active] @ fit.w, rtol=1e-7, atol=1e-9)
    assert_allclose(fit.Q[active], fit.w / v, rtol=1e-8)


def test_S_and_Q_tell_what_a_small_variance_gains(fitted):
    """The derivative in v at v = 0 is (Q^2 - S) / 2, and what the curvature changes as f moves."""
    problem, fit = fitted
    Phi, t, weights, likelihood, columns, v, intercept = problem
    K = likelihood.n_latent
    new = next((a, k) for a in range(M) for k in range(K) if (a, k) not in columns)
    h, i = 1e-6, new[0] * K + new[1]
    more = laplace(Phi, t, weights, likelihood, [*columns, new], np.append(v, h), intercept)
    A = np.column_stack([laplace_oracle.column(Phi, a, k, K) for a, k in columns])
    if intercept:
        A = np.column_stack([A, np.tile(laplace_oracle.visible(likelihood, t), (N, 1))])
    moved = -0.5 * np.trace(fit.covariance @ A.T @ (more.B - fit.B) @ A) / h
    got = (more.log_evidence - fit.log_evidence) / h
    assert_allclose(got, 0.5 * (fit.Q[i] ** 2 - fit.S[i]) + moved, rtol=1e-3, atol=1e-3)


def test_gaussian_noise_needs_no_approximation(intercept):
    likelihood, t = LIKELIHOODS["gaussian"]
    v = np.array([0.5, 0.0, 2.0, 0.0])
    fit = laplace(PHI, t, None, likelihood, [(0, 0), (2, 0)], v[[0, 2]], intercept)
    problem = (PHI, t[:, None], v, likelihood.noise_var, intercept)
    assert_allclose(fit.log_evidence, oracle.log_evidence(*problem), rtol=1e-10)
    S, Q = oracle.statistics(*problem)
    assert_allclose(fit.S, S, rtol=1e-9)
    assert_allclose(fit.Q, Q[:, 0], rtol=1e-9, atol=1e-10)
    mu, Sigma = oracle.posterior(*problem)
    assert_allclose(fit.w, mu[[0, 2], 0], rtol=1e-9)
    assert_allclose(fit.covariance[:2, :2], Sigma[np.ix_([0, 2], [0, 2])], rtol=1e-8)


@pytest.mark.parametrize("name", ["bernoulli", "poisson", "gaussian"])
def test_evidence_of_one_weight_against_its_integral(name):
    likelihood, t = LIKELIHOODS[name]
    v = np.array([0.7])
    problem = (PHI, t, None, likelihood, [(1, 0)], v, False)
    fit = laplace(*problem)
    top = log_posterior(problem, fit.w, fit.c)
    width = np.sqrt(fit.covariance[0, 0])
    area = quad(lambda z: np.exp(log_posterior(problem, fit.w + width * z, fit.c) - top), -12, 12)[
        0
    ]
    assert_allclose(fit.log_evidence, top + np.log(area * width), atol=0.03)


def test_evidence_of_a_multinomial_against_monte_carlo():
    likelihood, t = LIKELIHOODS["multinomial"]
    columns, v = [(0, 0), (1, 2)], np.array([0.3, 0.6])
    fit = laplace(PHI, t, None, likelihood, columns, v, False)
    w = np.random.default_rng(0).normal(size=(20_000, 2)) * np.sqrt(v)
    f = np.zeros((len(w), N, 3))
    f[:, :, 0], f[:, :, 2] = np.outer(w[:, 0], PHI[:, 0]), np.outer(w[:, 1], PHI[:, 1])
    values = likelihood.expand(np.tile(t, len(w)), f.reshape(-1, 3)).value.reshape(len(w), N)
    totals = values.sum(axis=1)
    estimate = logsumexp(totals) - np.log(len(w))
    error = np.std(np.exp(totals - estimate)) / len(w) ** 0.5
    assert error < 0.02
    assert abs(fit.log_evidence - estimate) < 4 * error + 0.05


def test_separable_classes_and_extreme_variances_have_a_mode():
    t = (PHI[:, 0] > 0.5).astype(float)
    for v in (1e-8, 1e4, 1e8):
        fit = laplace(PHI, t, None, Bernoulli(), [(0, 0)], np.array([v]), True)
        assert np.abs(fit.gradient).max() < 1e-8
        assert np.isfinite(fit.log_evidence)
