"""The derivative of the objective in atoms, against differences of dense definitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import root
from scipy.special import expit, log_expit
from sklearn.gaussian_process import kernels as gp

import laplace_oracle
import oracle
from kernel_definitions import gentle_slope, kernel, slope
from random_problems import examples, seeds
from sparsebayes import evidence_gradient
from sparsebayes.core.quadratic import members
from sparsebayes.core.stored import weighted_quadratic
from sparsebayes.curvature_slope import KnowsCurvatureSlope, curvature_slope
from sparsebayes.design import ArrayDesign
from sparsebayes.dictionaries import Bias, Kernel, Linear
from sparsebayes.engine import refresh
from sparsebayes.evidence_gradient import (
    gaussian_gradient,
    latent_gradient,
    latent_profile_gradient,
)
from sparsebayes.hyperpriors import Flat, Gamma, Smoothness
from sparsebayes.laplace import Latent
from sparsebayes.likelihoods import Bernoulli, Expansion, Gaussian, Multinomial, Poisson
from sparsebayes.solvers.expand import Point, expand

N, M = 18, 6
PRIORS = [Flat(), Smoothness(1.7), Gamma(0.6, 0.2)]


@pytest.fixture(params=[True, False], ids=["intercept", "no intercept"])
def center(request):
    return request.param


@pytest.fixture(params=[True, False], ids=["weights", "no weights"])
def weights(request):
    return np.random.default_rng(1).integers(1, 4, N) if request.param else None


def gaussian_objective(Phi_a, t, weights, v, noise, center, prior):
    """By definition, at variances of atoms as given; complex where its derivative is wanted."""
    many = oracle.repeated(Phi_a, weights)
    shifted = many - many.mean(axis=0) if center else many
    evidence = oracle.log_evidence(many, oracle.repeated(t, weights), v, noise, center)
    return evidence + np.sum(prior.log_density(v * np.sum(shifted**2, axis=0), noise))


@pytest.mark.parametrize("prior", PRIORS, ids=str)
@pytest.mark.parametrize("n_targets", [1, 3])
def test_gaussian_noise(center, weights, prior, n_targets):
    rng = np.random.default_rng(0)
    Phi, t = rng.normal(size=(N, M)) + 0.7, rng.normal(size=(N, n_targets)) + 2.0
    active, v, noise = np.array([4, 0, 3]), np.array([0.3, 2.0, 1e-2]), 0.4

    want = np.empty((N, len(active)))
    for n in range(N):
        for j in range(len(active)):
            step = np.zeros((N, len(active)))
            step[n, j] = oracle.STEP
            Phi_a = Phi[:, active] + 1j * step
            value = gaussian_objective(Phi_a, t, weights, v, noise, center, prior)
            want[n, j] = value.imag / oracle.STEP
    quad = weighted_quadratic(ArrayDesign(Phi), t, weights, center)
    state = refresh(quad, prior, active, v * quad.norm[active] ** 2, noise)
    got = gaussian_gradient(quad, state, prior, t)
    assert_allclose(got, want, rtol=1e-9, atol=1e-9 * np.abs(want).max())


NAMED = [(name, "evidence") for name in ("rbf", "laplacian", "poly", "sigmoid", "lspline", "tps")]
NAMED += [(name, "ard") for name, _ in NAMED] + [("chi2", "evidence")]
OTHERS = {
    "rbf object": Kernel(gp.RBF([1.0, 2.0]), gamma="evidence"),
    "matern": Kernel(gp.ConstantKernel(2.0) * gp.Matern([1.0, 2.0], nu=1.5), gamma="ard"),
    "sum": Kernel(gp.RationalQuadratic() + gp.ExpSineSquared(1.0, 3.0), gamma="evidence"),
    "dot product": Kernel(gp.DotProduct() ** 2, gamma="evidence"),
    "union": Linear() + Kernel("lspline", gamma="ard") + Bias() + Kernel(gamma="evidence"),
}


def random_fit(rng, dictionary, center, weighted, n_targets, prior):
    """A model of a few atoms of a dictionary at its start, and the gradient of its objective."""
    X = rng.uniform(0.1, 2.0, (N, 2))
    t = np.sin(3 * X[:, :1]) + rng.normal(size=(N, n_targets))
    weights = rng.integers(1, 4, N) if weighted else None
    atoms = dictionary.bind(X, sample_weight=weights)
    theta = atoms.theta + 0.3 * rng.normal(size=len(atoms.theta))
    atoms = atoms.with_theta(theta)
    noise = float(np.exp(rng.uniform(-4, 1)))
    quad = weighted_quadratic(ArrayDesign(atoms.evaluate(X)), t, weights, center)
    active = rng.permutation(np.flatnonzero(quad.norm > 0))[: rng.integers(1, 5)]
    v = noise * np.exp(rng.normal(size=len(active)) + 2)
    state = refresh(quad, prior, active, v, noise)
    D = gaussian_gradient(quad, state, prior, t)
    got = atoms.restrict(active).pullback(X, D)

    def objective(Phi_a):
        raw = v / quad.norm[active] ** 2
        if center:  # an intercept takes up any shift, and the definition's inverse keeps its digits
            Phi_a = Phi_a - Phi_a.mean(axis=0)
        return gaussian_objective(Phi_a, t, weights, raw, noise, center, prior)

    return atoms, X, active, objective, got


drawn = given(
    seed=seeds,
    center=st.booleans(),
    weighted=st.booleans(),
    n_targets=st.integers(1, 3),
    prior=st.sampled_from(PRIORS),
)


@pytest.mark.parametrize(("name", "learned"), NAMED)
@examples(15)
@drawn
def test_every_kernel(name, learned, seed, center, weighted, n_targets, prior):
    rng = np.random.default_rng(seed)
    dictionary = Kernel(name, gamma=learned, coef0=0.5, degree=2)
    fit = random_fit(rng, dictionary, center, weighted, n_targets, prior)
    atoms, X, active, objective, got = fit
    want = slope(
        lambda theta: objective(kernel(name, X, atoms.centers[active], np.exp(theta), 2, 0.5)),
        atoms.theta,
    )
    assert_allclose(got, want, rtol=1e-6, atol=1e-7 * (1 + np.abs(want).max()))


@pytest.mark.parametrize("name", OTHERS)
@examples(15)
@drawn
def test_kernel_objects_and_unions(name, seed, center, weighted, n_targets, prior):
    rng = np.random.default_rng(seed)
    fit = random_fit(rng, OTHERS[name], center, weighted, n_targets, prior)
    atoms, X, active, objective, got = fit
    want = gentle_slope(
        lambda theta: objective(atoms.with_theta(theta).evaluate(X)[:, active]), atoms.theta
    )
    assert_allclose(got, want, rtol=1e-6, atol=1e-7 * (1 + np.abs(want).max()))


@pytest.mark.parametrize("theta", [-60.0, 60.0], ids=["all atoms constant", "atoms of one row"])
@pytest.mark.parametrize("prior", [Flat(), Smoothness(1.7)], ids=str)
def test_atoms_that_became_void_give_no_nan(theta, prior, center):
    rng = np.random.default_rng(0)
    X, t = rng.uniform(size=(N, 2)), rng.normal(size=(N, 1))
    centers = np.vstack([X[:3], X[3:5] + 0.01])  # the last two are at no row
    start = Kernel(gamma="ard", centers=centers).bind(X)
    atoms = start.with_theta(np.full(2, theta))
    quad = weighted_quadratic(ArrayDesign(atoms.evaluate(X)), t, None, center)
    assert (quad.norm == 0).any() or (theta < 0 and not center)
    active = np.arange(5)
    state = refresh(quad, prior, active, np.ones(5) * quad.norm**2, 0.1)
    pulled = atoms.pullback(X, gaussian_gradient(quad, state, prior, t))
    assert_allclose(pulled, 0.0, atol=1e-12)
    labels = (t[:, 0] > 0).astype(float)
    latent = Latent(ArrayDesign(atoms.evaluate(X)), labels, None, Bernoulli(), center)
    at = expand(latent, prior, Point(active, np.ones(5)))
    used, D = latent_gradient(latent, at.quad, at.state, prior)
    assert_allclose(atoms.restrict(used).pullback(X, D), 0.0, atol=1e-12)


def test_atoms_that_became_equal(center):
    rng = np.random.default_rng(0)
    X, t = rng.uniform(size=(N, 2)), rng.normal(size=(N, 1))
    atoms = Kernel("rbf", gamma="evidence").bind(X).restrict([3, 3, 4])
    quad = weighted_quadratic(ArrayDesign(atoms.evaluate(X)), t, None, center)
    v, active = np.array([1.0, 2.0, 3.0]), np.arange(3)
    state = refresh(quad, Flat(), active, v * quad.norm**2, 0.1)
    got = atoms.pullback(X, gaussian_gradient(quad, state, Flat(), t))
    want = slope(
        lambda theta: gaussian_objective(
            kernel("rbf", X, atoms.centers, np.exp(theta)), t, None, v, 0.1, center, Flat()
        ),
        atoms.theta,
    )
    assert_allclose(got, want, rtol=1e-9)


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


def dense_fit(Phi, latent, columns, v):
    """Laplace's approximation by definition, and squared norms by the curvature at its mode."""
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
    return fit, np.reshape(squares, (-1, group)).mean(axis=1)


def laplace_objective(Phi, latent, columns, v, prior):
    fit, squares = dense_fit(Phi, latent, columns, v)
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
        (want,) = gentle_slope(
            lambda step, way=way: laplace_objective(Phi + step * way, latent, active, v, prior),
            np.zeros(1),
        )
        assert_allclose(np.vdot(D, way[:, atoms]), want, rtol=1e-7)


@pytest.mark.parametrize(
    "dictionary", [Kernel("laplacian", gamma="ard"), OTHERS["matern"]], ids=str
)
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_latent_functions_of_kernels(name, dictionary, center):
    rng = np.random.default_rng(4)
    likelihood, t = LIKELIHOODS[name]
    X, prior = rng.uniform(size=(N, 2)), Smoothness(0.8)
    atoms = dictionary.bind(X)
    active, v = np.array([0, 4, 7]), np.array([1.0, 3.0, 0.5])
    latent = Latent(ArrayDesign(atoms.evaluate(X)), t, None, likelihood, center)
    at = expand(latent, prior, Point(active, v))
    used, D = latent_gradient(latent, at.quad, at.state, prior)
    want = gentle_slope(
        lambda theta: laplace_objective(
            atoms.with_theta(theta).evaluate(X), latent, active, v, prior
        ),
        atoms.theta,
        step=1e-2,
    )
    got = atoms.restrict(used).pullback(X, D)
    assert_allclose(got, want, rtol=1e-6, atol=1e-7 * np.abs(want).max())


def balanced(Phi, latent, active, v, prior):
    """Log variances at which the gradient of their own expansion vanishes, by definition."""
    K = latent.K
    group = K if latent.shared else 1

    def gradient(log_v):
        fit, squares = dense_fit(Phi, latent, active, np.exp(log_v))
        own = np.diag(fit.covariance)[: group * len(active)] + fit.w**2
        power = own.reshape(-1, group).sum(axis=1) / np.exp(log_v)
        slope = prior.log_derivatives(np.exp(log_v) * squares, 1.0).u
        return 0.5 * (power - group) + slope

    found = root(gradient, np.log(v), method="hybr", options={"xtol": 1e-12})
    assert np.abs(gradient(found.x)).max() < 1e-9
    return np.exp(found.x)


@pytest.mark.parametrize(
    ("likelihood", "shared", "prior"),
    [
        (Bernoulli(), False, Flat()),
        (Poisson(), False, Smoothness(0.4)),
        (Multinomial(3), False, Smoothness(0.4)),
        (Multinomial(3), True, Flat()),
    ],
    ids=str,
)
def test_variances_follow_too(likelihood, shared, prior, center, monkeypatch):
    """Differences of the objective at the balance of variances, found anew at each step."""
    rng = np.random.default_rng(8)
    n, K = 50, likelihood.n_latent
    weights = rng.uniform(0.5, 2.0, n)
    Phi = rng.normal(size=(n, 3))
    f = Phi @ rng.normal(size=(3, K)) * 2
    if K == 1:
        rate = np.exp(f[:, 0] / 5)
        t = rng.poisson(rate) if isinstance(likelihood, Poisson) else rng.random(n) < expit(f[:, 0])
    else:
        t = np.argmax(f + rng.gumbel(size=f.shape), axis=1)
    latent = Latent(ArrayDesign(Phi), t.astype(float), weights, likelihood, center, shared)
    active = np.array([2, 0]) if K == 1 or shared else np.array([7, 0, 2])
    start = balanced(Phi, latent, active, np.ones(len(active)), prior)
    at = expand(latent, prior, Point(active, start))
    atoms, D = latent_profile_gradient(latent, at.quad, at.state, prior)
    held = latent_gradient(latent, at.quad, at.state, prior)[1]
    assert_array_equal(atoms, [0, 2])
    way = rng.normal(size=Phi.shape)

    def profile(step):
        moved = Phi + step * way
        v = balanced(moved, latent, active, start, prior)
        return laplace_objective(moved, latent, active, v, prior)

    (want,) = gentle_slope(profile, np.zeros(1), step=3e-3)
    assert_allclose(np.vdot(D, way[:, atoms]), want, rtol=1e-6)
    assert abs(np.vdot(held, way[:, atoms]) - want) > 1e-4 * abs(want)
    monkeypatch.setattr(evidence_gradient, "_CELLS", 1)  # one atom at a time
    again = latent_profile_gradient(latent, at.quad, at.state, prior)[1]
    assert_allclose(again, D, rtol=1e-9, atol=1e-12 * np.abs(D).max())


class TestCurvatureSlope:
    @pytest.mark.parametrize("name", LIKELIHOODS)
    def test_of_every_likelihood(self, name):
        likelihood, t = LIKELIHOODS[name]
        K = likelihood.n_latent
        rng = np.random.default_rng(0)
        f, F = rng.normal(size=(N, K)) * 2, rng.normal(size=(N, K, K))
        F += F.transpose(0, 2, 1)

        def contracted(f_n, n):
            B = likelihood.expand(t[n : n + 1], f_n[None]).curvature
            return np.vdot(F[n], B)

        want = [gentle_slope(lambda f_n, n=n: contracted(f_n, n), f[n]) for n in range(N)]
        got = curvature_slope(likelihood, t, f, F)
        assert_allclose(got, want, rtol=1e-8, atol=1e-9 * (1 + np.abs(want).max()))

    @pytest.mark.parametrize("name", LIKELIHOODS)
    @pytest.mark.parametrize("size", [-1e6, -800.0, 305.0, 800.0, 1e6])
    def test_saturated_samples(self, name, size):
        likelihood, t = LIKELIHOODS[name]
        f = np.full((N, likelihood.n_latent), size)
        f[:, 0] = 0.0 if likelihood.n_latent > 1 else size
        F = np.ones((N, f.shape[1], f.shape[1]))
        assert_allclose(curvature_slope(likelihood, t, f, F), 0.0, atol=1e-12)

    def test_of_likelihoods_far_steeper_than_their_unit(self):
        class Steep(OwnCounts):
            def expand(self, t, f):
                value, slope, curvature = super().expand(t, f * 1e6)
                return Expansion(value, slope * 1e6, curvature * 1e12)

        t, f, F = np.array([4.0]), np.array([[1.1]]), np.ones((1, 1, 1))
        want = curvature_slope(OwnCounts(), t, f, F) * 1e18
        assert_allclose(curvature_slope(Steep(), t, f / 1e6, F), want, rtol=1e-6)

    def test_a_likelihood_may_know_better(self):
        class Known(Bernoulli):
            def curvature_slope(self, t, f, F):
                return np.full_like(f, 7.0)

        assert isinstance(Known(), KnowsCurvatureSlope)
        f, F = np.zeros((2, 1)), np.ones((2, 1, 1))
        assert_array_equal(curvature_slope(Known(), np.ones(2), f, F), np.full((2, 1), 7.0))
