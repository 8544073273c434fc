"""Targets in another unit (S&E section 6.2): t -> k t gives v -> k^2 v, noise -> k^2 noise.

The log posterior moves by -N log k: the paper's eq. 44 has a sign and a factor wrong. With an
intercept, whose flat prior has a unit too, it is N - 1.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from pairwise import pairwise
from random_problems import random_case
from sparsebayes import RVR, SparseBayesRegressor
from sparsebayes.core.quadratic import OrthonormalQuadratic
from sparsebayes.core.stored import weighted_quadratic
from sparsebayes.design import ArrayDesign
from sparsebayes.hyperpriors import Flat, InverseGamma, Smoothness
from sparsebayes.problem import Problem
from sparsebayes.solvers import orthonormal, search, sequential

PRIORS = [Flat(), Smoothness(1.0), Smoothness(0.5 * np.log(40)), Smoothness(np.log(25))]
NOISES = ["estimated", "given", "inverse gamma"]
UNITS = [1e-7, 0.3, 1e5]
before = InverseGamma(2.0, 0.05)


def quad_of(Phi, t, k, noise, center):
    prior = before.rescaled(k * k) if noise == "inverse gamma" else None
    return weighted_quadratic(ArrayDesign(Phi), k * t, None, center, prior)


@pairwise(
    prior=PRIORS,
    noise=NOISES,
    k=UNITS,
    solve={"search": search.solve, "sequential": sequential.solve},
    n_targets=[1, 2],
)
def test_solvers(prior, noise, k, solve, n_targets):
    case = random_case(6, n=40, m=25, n_targets=n_targets, noise=0.3)
    plain, moved = (
        solve(
            Problem(
                quad_of(case.Phi, case.t, unit, noise, center=False),
                prior,
                0.09 * unit * unit if noise == "given" else None,
            )
        ).state
        for unit in (1.0, k)
    )
    order, other = np.argsort(plain.active), np.argsort(moved.active)
    assert_allclose(moved.active[other], plain.active[order])
    assert_allclose(moved.v[other] / k**2, plain.v[order], rtol=1e-3)
    assert moved.noise_var / k**2 == pytest.approx(plain.noise_var, rel=1e-4)
    assert moved.dof.sum() == pytest.approx(plain.dof.sum(), rel=1e-5)
    shift = 40 * n_targets * np.log(k)
    if noise == "inverse gamma":
        shift += 2 * np.log(k)  # of the density of the noise variance
    assert moved.objective + shift == pytest.approx(plain.objective, abs=1e-5)
    assert moved.log_evidence + shift == pytest.approx(plain.log_evidence, abs=1e-3)


@pairwise(prior=PRIORS, noise=NOISES, k=UNITS)
def test_orthonormal_atoms(prior, noise, k):
    g = np.random.RandomState(1).standard_normal((25, 2))
    g[:4] *= 15.0
    spread = float(np.sum(g**2)) / 40

    def solved(unit):
        n, tt, offset = 40.0, 40 * spread + 20.0, 0.0
        if noise == "inverse gamma":
            more = before.rescaled(unit * unit).observations(2)
            n, tt, offset = n + more.n, unit**2 * tt + more.tt, more.log_offset
        else:
            tt *= unit**2
        quad = OrthonormalQuadratic(unit * g, tt, n, unit**2 * spread, offset)
        given = 0.8 * unit * unit if noise == "given" else None
        return orthonormal.solve(Problem(quad, prior, given)).state

    plain, moved = solved(1.0), solved(k)
    assert_allclose(moved.active, plain.active)
    assert_allclose(moved.v / k**2, plain.v, rtol=1e-9)
    assert moved.noise_var / k**2 == pytest.approx(plain.noise_var, rel=1e-9)
    assert_allclose(moved.dof, plain.dof, rtol=1e-9)
    shift = 80 * np.log(k) + (2 * np.log(k) if noise == "inverse gamma" else 0.0)
    assert moved.objective + shift == pytest.approx(plain.objective, rel=1e-9)


@pairwise(prior=["flat", "aic", "bic", "ric"], noise=NOISES, k=UNITS, fit_intercept=[True, False])
def test_estimators(prior, noise, k, fit_intercept):
    case = random_case(8, n=40, m=25, noise=0.3)
    X, y = case.Phi, case.t[:, 0] + (2.0 if fit_intercept else 0.0)

    def fitted(unit):
        options = {"prior": prior, "fit_intercept": fit_intercept}
        if noise == "given":
            options["noise_variance"] = 0.09 * unit**2
        if noise == "inverse gamma":
            options["noise_prior"] = before.rescaled(unit**2)
        return SparseBayesRegressor(**options).fit(X, unit * y)

    plain, moved = fitted(1.0), fitted(k)
    assert_allclose(moved.relevance_, plain.relevance_)
    assert_allclose(moved.weights_ / k, plain.weights_, rtol=1e-3, atol=1e-5)
    assert_allclose(moved.prior_variance_ / k**2, plain.prior_variance_, rtol=1e-2)
    assert moved.noise_variance_ / k**2 == pytest.approx(plain.noise_variance_, rel=1e-4)
    assert moved.degrees_of_freedom_ == pytest.approx(plain.degrees_of_freedom_, rel=1e-4)
    shift = (39 if fit_intercept else 40) * np.log(k)
    assert moved.log_marginal_likelihood_ + shift == pytest.approx(
        plain.log_marginal_likelihood_, abs=1e-3
    )
    shift += 2 * np.log(k) if noise == "inverse gamma" else 0.0
    assert moved.log_posterior_ + shift == pytest.approx(plain.log_posterior_, abs=1e-5)


@pytest.mark.parametrize("noise", NOISES)
def test_kernel_machines(noise):
    rng = np.random.RandomState(0)
    X = rng.uniform(-5, 5, (60, 1))
    y = np.sinc(X[:, 0]) + 0.1 * rng.standard_normal(60)

    def fitted(unit):
        options = {"gamma": 0.3}
        if noise == "given":
            options["noise_variance"] = 0.01 * unit**2
        if noise == "inverse gamma":
            options["noise_prior"] = before.rescaled(unit**2)
        return RVR(**options).fit(X, unit * y)

    plain, moved = fitted(1.0), fitted(4.0**12)  # powers of two round nothing
    assert_allclose(moved.relevance_, plain.relevance_)
    assert_allclose(moved.predict(X) / 4.0**12, plain.predict(X), rtol=1e-9, atol=1e-9)
    assert moved.degrees_of_freedom_ == pytest.approx(plain.degrees_of_freedom_, rel=1e-9)
