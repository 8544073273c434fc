"""The derivative of the objective in atoms, against differences of dense definitions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, log_expit

import laplace_oracle
import oracle
from sparsebayes.design import ArrayDesign
from sparsebayes.engine import refresh
from sparsebayes.evidence_gradient import gaussian_gradient, latent_gradient
from sparsebayes.hyperpriors import Flat, Smoothness
from sparsebayes.laplace import Latent
from sparsebayes.likelihoods import Bernoulli, Expansion, Gaussian, Multinomial, Poisson
from sparsebayes.quadratic import DesignQuadratic, members
from sparsebayes.solvers.expansion import Point, expand

N, M = 18, 6


@pytest.fixture(params=[True, False], ids=["intercept", "no intercept"])
def center(request):
    return request.param


@pytest.fixture(params=[True, False], ids=["weights", "no weights"])
def weights(request):
    return np.random.default_rng(1).integers(1, 4, N) if request.param else None


@pytest.mark.parametrize("prior", [Flat(), Smoothness(1.7)], ids=str)
@pytest.mark.parametrize("n_targets", [1, 3])
def test_gaussian_noise(center, weights, prior, n_targets):
    rng = np.random.default_rng(0)
    Phi, t = rng.normal(size=(N, M)) + 0.7, rng.normal(size=(N, n_targets)) + 2.0
    active, v, noise = np.array([4, 0, 3]), np.array([0.3, 2.0, 1e-2]), 0.4

    def objective(Phi_a):  # complex where its derivative is wanted
        many = oracle.repeated(Phi_a, weights)
        shifted = many - many.mean(axis=0) if center else many
        evidence = oracle.log_evidence(many, oracle.repeated(t, weights), v, noise, center)
        return evidence + np.sum(prior.log_density(v * np.sum(shifted**2, axis=0), noise))

    want = np.empty((N, len(active)))
    for n in range(N):
        for j in range(len(active)):
            step = np.zeros((N, len(active)))
            step[n, j] = oracle.STEP
            want[n, j] = objective(Phi[:, active] + 1j * step).imag / oracle.STEP
    quad = DesignQuadratic(ArrayDesign(Phi), t, weights, center)
    state = refresh(quad, prior, active, v * quad.norm[active] ** 2, noise)
    got = gaussian_gradient(quad, state, prior, t)
    assert_allclose(got, want, rtol=1e-9, atol=1e-9 * np.abs(want).max())


class OwnCounts:
    """Negative binomial counts: a likelihood that does not know its third derivatives."""

    n_latent = 1
    r = 3.0

    def expand(self, t, f):
        a = f[:, 0] - np.log(self.r)
        value = t * log_expit(a) + self.r * log_expit(-a)
        slope = t * expit(-a) - self.r * expit(a)
        curvature = (t + self.r) * expit(a) * expit(-a)
        return Expansion(value, slope[:, None], curvature[:, None, None])


class OwnClasses(Multinomial):
    """Inherits its curvature, but nobody can know."""


RNG = np.random.default_rng(5)
LIKELIHOODS = {
    "gaussian": (Gaussian(0.3), RNG.normal(size=N) + 2.0),
    "bernoulli": (Bernoulli(), RNG.integers(0, 2, N).astype(float)),
    "three classes": (Multinomial(3), RNG.integers(0, 3, N).astype(float)),
    "poisson": (Poisson(), RNG.poisson(4.0, N).astype(float)),
    "own counts": (OwnCounts(), RNG.poisson(4.0, N).astype(float)),
    "own classes": (OwnClasses(3), RNG.integers(0, 3, N).astype(float)),
}
SETTINGS = [(name, False) for name in LIKELIHOODS] + [("three classes", True)]


def differences(function, step=1e-3):
    """Derivative at zero, of fourth order."""
    near, far = function(step) - function(-step), function(2 * step) - function(-2 * step)
    return (8 * near - far) / (12 * step)


def laplace_objective(Phi, latent, columns, v, prior):
    """Log evidence and log hyperprior by definition; norms by the curvature at the mode."""
    K = latent.K
    group = K if latent.shared else 1
    pairs = [(int(i) // K, int(i) % K) for i in members(columns, group)]
    fit = laplace_oracle.laplace(
        Phi, latent.t, latent.weights, latent.likelihood, pairs, np.repeat(v, group), latent.center
    )
    squares = []
    for atom, k in pairs:
        c = laplace_oracle.column(Phi, atom, k, K)
        if latent.center:
            ones = np.tile(np.eye(K), (len(Phi), 1))
            C = ones.T @ fit.B @ ones
            c = c - ones @ np.linalg.pinv(C, rcond=1e-10) @ ones.T @ fit.B @ c
        squares.append(c @ fit.B @ c)
    squares = np.reshape(squares, (-1, group)).mean(axis=1)
    return fit.log_evidence + np.sum(prior.log_density(v * squares, 1.0))


@pytest.mark.parametrize("prior", [Flat(), Smoothness(1.3)], ids=str)
@pytest.mark.parametrize(("name", "shared"), SETTINGS)
def test_latent_functions(name, shared, prior, center, weights):
    rng = np.random.default_rng(3)
    likelihood, t = LIKELIHOODS[name]
    K = likelihood.n_latent
    Phi = rng.normal(size=(N, M)) + 0.5
    # Atoms 0 and 2, of classes in several latent functions each, and out of order.
    active = np.array([2, 0]) if K == 1 or shared else np.array([7, 2, 0, 6])
    v = np.array([0.5, 2.0, 1.0, 0.2])[: len(active)]
    latent = Latent(ArrayDesign(Phi), t, weights, likelihood, center, shared)
    at = expand(latent, prior, Point(active, v))
    atoms, D = latent_gradient(latent, at.quad, at.state, prior)
    assert_array_equal(atoms, [0, 2])
    for _ in range(3):
        way = rng.normal(size=Phi.shape)
        want = differences(
            lambda step, way=way: laplace_objective(Phi + step * way, latent, active, v, prior)
        )
        assert_allclose(np.vdot(D, way[:, atoms]), want, rtol=1e-7)
