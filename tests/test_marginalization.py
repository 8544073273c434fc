"""Averages over variances and noise: against integrals, a long chain, and closed forms."""

import gc
import json
import pickle
import weakref
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import t as student
from sklearn.exceptions import ConvergenceWarning

import oracle
import sparsebayes
from sparsebayes import RVR, SparseBayesRegressor
from sparsebayes.augmentation import AugmentedFit, TrainingData
from sparsebayes.datasets import friedman1, sinc
from sparsebayes.dictionaries import Wavelet
from sparsebayes.hyperparameters import Chains, Evidence, Optimum, draw
from sparsebayes.hyperpriors import Flat, Gamma, Smoothness
from sparsebayes.marginalization import (
    _points,
    marginal_covariance,
    marginal_mixture,
    marginal_spread,
)
from sparsebayes.persistence import ModelFileError

REACH = 5.0  # of a log variance, either way
NEW = np.array([[-2.0, 0.3], [0.1, 0.0], [4.0, 1.0]])


def columns(n=20, n_targets=1, seed=1, slope=1.0):
    """Targets that depend on the first of two columns."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = 2.0 + slope * X[:, :1] + 0.7 * rng.normal(size=(n, n_targets))
    return X, y[:, 0] if n_targets == 1 else y


def unit(model, X):
    """Centered active columns of unit norm at the rows of X."""
    p = model.posterior_
    return (X[:, model.relevance_] - p.center) / p.norm


def at_points(model, X, y, points, prior, X_new):
    """Log density, means and variances of the target at points of (log v, log noise)."""
    Phi, t, Phi_new = unit(model, X), y.reshape(len(X), -1), unit(model, X_new)
    v, noise = model.prior_variance_ * model.posterior_.norm**2, model.noise_variance_
    center = bool(model.fit_intercept)
    found = []
    for *log_v, log_noise in points:
        v_here, noise_here = v * np.exp(log_v), noise * np.exp(log_noise)
        mean, covariance = oracle.predictive(Phi, t, v_here, noise_here, center, Phi_new)
        log_density = oracle.objective(Phi, t, v_here, noise_here, center, prior)
        found.append((log_density, mean, covariance.diagonal() + noise_here))
    log_density, means, variances = (np.array(each) for each in zip(*found, strict=True))
    return log_density, means, variances[:, :, None]


def integral(model, X, y, prior, X_new, noise=True):
    """Weights of a grid over all of (log v, log noise), for one atom, and what is there."""
    u = np.linspace(-REACH, REACH, 31)
    rho = np.linspace(-1.5, 2.5, 31) if noise else np.zeros(1)
    points = np.stack(np.meshgrid(u, rho, indexing="ij"), axis=-1).reshape(-1, 2)
    log_density, means, variances = at_points(model, X, y, points, prior, X_new)
    # trapezoids: the ends of the range of log v have half the weight
    weight = np.exp(log_density - log_density.max())
    weight *= np.repeat(np.where(np.abs(u) == REACH, 0.5, 1.0), len(rho))
    return weight / weight.sum(), points, means, variances


def optimum_of(model):
    p = model.posterior_
    return Optimum.of(
        p.mean, p.root, p.prior_variance, p.noise_variance, p.evidence, p.evidence.hyperprior
    )


def many_points(optimum, sweeps=120):
    """Far more draws of (log v, log noise) than predictions average over."""
    chains = Chains(optimum, 64, np.random.default_rng(11))
    found = []
    for sweep in range(sweeps + 20):
        chains.sweep()
        if sweep >= 20:
            found.append(np.log(np.column_stack([chains.v, chains.noise])))
    return np.concatenate(found)


def total(weight, means, variances):
    mean = np.einsum("k,kit->it", weight, means)
    second = np.einsum("k,kit->it", weight, variances + means**2)
    return mean, np.sqrt(second - mean**2)


def check_integral(model, X, y, prior, noise=True):
    weight, points, means, variances = integral(model, X, y, prior, NEW, noise)
    many, center = many_points(optimum_of(model)), weight @ points
    spread = np.sqrt(weight @ (points - center) ** 2)
    assert (np.abs(many.mean(axis=0) - center) <= 0.06 * spread).all()
    assert (np.abs(many.std(axis=0) - spread) <= 0.05 * spread).all()
    mean, std = total(weight, means, variances)
    own_mean, own_std = model.predict(NEW, return_std=True, marginalize=True)
    shape = own_mean.shape
    plain = model.predict(NEW, return_std=True)
    assert np.abs(own_mean - mean.reshape(shape)).max() < 0.1 * std.max()
    np.testing.assert_allclose(own_std, std.reshape(shape), rtol=0.08)
    # the integral is nearer to the draws than to the plain error bars
    worst = np.abs(plain[1] - std.reshape(shape)).max()
    assert np.abs(own_std - std.reshape(shape)).max() < 0.5 * worst
    low, high = model.predict_distribution(NEW, marginalize=True).interval(0.9)
    for end, chance in ((low, 0.05), (high, 0.95)):
        ends = end.reshape(mean.shape)
        below = np.einsum("k,kit->it", weight, ndtr((ends - means) / np.sqrt(variances)))
        np.testing.assert_allclose(below, chance, atol=0.02)


@pytest.mark.parametrize(("slope", "fit_intercept"), [(1.0, True), (0.4, True), (1.0, False)])
def test_one_atom_is_the_integral(slope, fit_intercept):
    X, y = columns(n=14, slope=slope)
    y -= 0 if fit_intercept else 2
    model = SparseBayesRegressor(prior="flat", fit_intercept=fit_intercept).fit(X * [1, 0], y)
    assert len(model.relevance_) == 1
    check_integral(model, X, y, Flat())


def test_one_atom_of_several_targets_is_the_integral():
    X, y = columns(n=10, n_targets=3)
    model = SparseBayesRegressor(prior="flat").fit(X * [1, 0], y)
    assert len(model.relevance_) == 1
    check_integral(model, X, y, Flat())


def test_a_smoothness_prior_is_in_the_integral():
    X, y = columns(n=14)
    model = SparseBayesRegressor(prior=3.0).fit(X * [1, 0], y)
    assert len(model.relevance_) == 1
    check_integral(model, X, y, Smoothness(3.0))


def test_a_given_noise_is_certain():
    X, y = columns(n=14, slope=0.4)
    model = SparseBayesRegressor(prior="flat", noise_variance=0.5).fit(X * [1, 0], y)
    assert len(model.relevance_) == 1
    forecast = model.predict_distribution(NEW, marginalize=True)
    noise = forecast.stds**2 - forecast.function_stds**2
    np.testing.assert_allclose(noise, 0.5, rtol=1e-12)
    check_integral(model, X, y, Flat(), noise=False)


class Own:
    """A hyperprior of the user's: the smoothness prior with another name."""

    def log_density(self, v, noise_var):
        assert isinstance(noise_var, float)
        return Smoothness(3.0).log_density(v, noise_var)

    def log_derivatives(self, v, noise_var):
        return Smoothness(3.0).log_derivatives(v, noise_var)

    def best_variance(self, s, q2, noise_var, n_targets=1):
        return Smoothness(3.0).best_variance(s, q2, noise_var, n_targets)


@pytest.mark.parametrize(
    ("prior", "J"),
    [(Flat(), 8.0), (Flat(), 1e5), (Smoothness(4.0), 1e5), (Gamma(1.5, 2.0), 8.0), (Own(), 8.0)],
)
def test_moments_of_draws_where_one_atom_has_a_given_noise(prior, J):
    x, v = (1.4, 0.3) if J < 100 else (60.0, 0.3)  # the best variance is far out of range
    best = Optimum(np.array([[J]]), np.array([[x]]), 1.0, 1.0, False, prior, np.array([v]), 0.2)
    u = np.linspace(-REACH, REACH, 4001)
    r = np.exp(u)
    # evidence of one atom, from its definition: J x + x is Phi't, and J Phi'Phi
    g = J * x + x
    log_density = 0.5 * (g**2 * r / (1 + r * J) - np.log1p(r * J)) + prior.log_density(v * r, 0.2)
    weight = np.exp(log_density - log_density.max())
    weight /= weight.sum()
    mean = weight @ u
    chains = Chains(best, 64, np.random.default_rng(0))
    for _ in range(50):
        chains.sweep()
    found = []
    for _ in range(200):
        chains.sweep()
        found.append(np.log(chains.v))
    found = np.array(found)
    assert abs(found.mean() - mean) < 0.06
    assert abs(found.std() - np.sqrt(weight @ u**2 - mean**2)) < 0.06
    assert (chains.noise == 1).all()


def test_draws_forget_where_their_chains_began():
    # many atoms for the samples: the best noise is far too small, and draws of it move slowly
    m, n, J = 40, 70, 20.0
    residual = n - m * J / (J + 1)
    best = Optimum(
        J * np.eye(m), np.ones((m, 1)), residual, float(n), True, Flat(), np.ones(m), 1.0
    )
    chains = Chains(best, 16, np.random.default_rng(7))
    for _ in range(150):
        chains.sweep()
    noise = []
    for _ in range(150):
        chains.sweep()
        noise.append(np.log(chains.noise))
    found, mean, std = np.log(draw(best).noise), np.mean(noise), np.std(noise)
    assert mean > 2 * std
    assert abs(found.mean() - mean) < 0.3 * std


def test_a_residual_of_zero_leaves_the_least_noise():
    none = np.empty((0, 0)), np.empty((0, 2))
    draws = draw(Optimum(*none, 0.0, 5.0, True, Flat(), np.empty(0), 1.0))
    np.testing.assert_allclose(np.log(draws.noise), -REACH)


def three_atoms():
    data = sinc(16, noise=0.15, random_state=1)
    model = RVR(gamma=0.05).fit(data.X, data.y)
    assert len(model.relevance_) == 3
    return model, data


def kernel_columns(model, X):
    return np.exp(-0.05 * (X - model.relevance_vectors_.T) ** 2)


class Atoms:
    """Kernel columns of a fit, as the functions above take a linear one."""

    def __init__(self, model):
        self.posterior_, self.fit_intercept = model.posterior_, True
        self.relevance_ = np.arange(len(model.relevance_))
        self.prior_variance_, self.noise_variance_ = model.prior_variance_, model.noise_variance_


@pytest.fixture(scope="module")
def reference():
    """A long random walk in (log v, log noise) on the dense evidence, and its predictions."""
    model, data = three_atoms()
    linear, Phi = Atoms(model), kernel_columns(model, data.X)
    U, t = unit(linear, Phi), data.y[:, None]
    v, noise = model.prior_variance_ * model.posterior_.norm**2, model.noise_variance_
    rng = np.random.default_rng(0)
    at, value, chain = np.zeros(4), -np.inf, []
    for _ in range(15_000):
        proposed = at + rng.normal(size=4) * [1.5, 1.5, 1.5, 0.3]
        if np.abs(proposed[:3]).max() <= REACH:
            new = oracle.log_evidence(
                U, t, v * np.exp(proposed[:3]), noise * np.exp(proposed[3]), True
            )
            if np.log(rng.random()) < new - value:
                at, value = proposed, new
        chain.append(at)
    points = np.array(chain)[2000:]
    X_new = np.linspace(-12, 12, 7)[:, None]
    new = kernel_columns(model, X_new)
    _, means, variances = at_points(linear, Phi, data.y, points[::60], Flat(), new)
    share = np.full(len(means), 1 / len(means))
    return model, points, X_new, total(share, means, variances)


def test_draws_have_the_moments_of_a_long_chain(reference):
    model, points, _, _ = reference
    draws = draw(optimum_of(model))
    logs = np.log(np.column_stack([draws.v, draws.noise]))
    error = np.abs(logs.mean(axis=0) - points.mean(axis=0)) / points.std(axis=0)
    assert error.max() < 0.2
    np.testing.assert_allclose(logs.std(axis=0), points.std(axis=0), rtol=0.2)


def test_predictions_are_those_of_a_long_chain_and_laplace_is_further_off(reference):
    model, _, X_new, (mean, std) = reference
    data = sinc(16, noise=0.15, random_state=1)
    own_mean, own_std = model.predict(X_new, return_std=True, marginalize=True)
    ours = np.abs(own_std - std[:, 0]).max()
    assert np.abs(own_mean - mean[:, 0]).max() < 0.1 * std.max()
    assert ours < 0.05 * std.max()
    # Laplace: normal in (log v, log noise), with the Hessian there
    linear, Phi = Atoms(model), kernel_columns(model, data.X)
    v, noise = model.prior_variance_ * model.posterior_.norm**2, model.noise_variance_
    U = unit(linear, Phi)
    H = oracle.hessian(U, data.y[:, None], v, noise, True, Flat())
    points = np.random.default_rng(0).multivariate_normal(np.zeros(4), np.linalg.inv(-H), 400)
    _, means, variances = at_points(
        linear, Phi, data.y, points, Flat(), kernel_columns(model, X_new)
    )
    _, laplace = total(np.full(400, 1 / 400), means, variances)
    plain = np.abs(model.predict(X_new, return_std=True)[1] - std[:, 0]).max()
    assert ours < 0.5 * np.abs(laplace[:, 0] - std[:, 0]).max()
    assert ours < 0.5 * plain


def test_draws_are_normal_with_the_hessian_where_the_data_say_much():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 3))
    Y = X @ rng.normal(size=(3, 60)) + 0.5 * rng.normal(size=(150, 60))
    model = SparseBayesRegressor(prior="flat").fit(X, Y)
    p, optimum = model.posterior_, optimum_of(model)
    draws = draw(optimum)
    logs = np.log(np.column_stack([draws.v, draws.noise]))
    v, noise = model.prior_variance_ * p.norm**2, model.noise_variance_
    H = oracle.hessian(unit(model, X), Y, v, noise, True, Flat())
    std = np.sqrt(np.linalg.inv(-H).diagonal())
    np.testing.assert_allclose(logs.std(axis=0), std, rtol=0.15)
    assert (np.abs(logs.mean(axis=0)) < 0.3 * std).all()


def test_without_atoms_it_is_student_t():
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(8, 2)), 3 + 0.5 * rng.normal(size=8)
    model = SparseBayesRegressor(prior=20.0).fit(X, y)
    assert len(model.relevance_) == 0
    forecast = model.predict_distribution(NEW, marginalize=True)
    scale = y.std(ddof=1) * np.sqrt(1 + 1 / 8)
    exact = student(df=7, loc=y.mean(), scale=scale)
    np.testing.assert_allclose(forecast.mean, y.mean(), rtol=1e-12)
    np.testing.assert_allclose(forecast.interval(0.9)[1], exact.ppf(0.95), rtol=0.01)
    np.testing.assert_allclose(forecast.logpdf(4.0), exact.logpdf(4.0), atol=0.01)
    np.testing.assert_allclose(forecast.std, exact.std(), rtol=0.05)
    own = model.predict(NEW, return_std=True, marginalize=True)
    np.testing.assert_allclose(own, [forecast.mean, forecast.std], rtol=1e-12)


def test_without_atoms_it_can_be_augmented(capfd):
    X = np.linspace(0, 1, 20)[:, None]
    model = RVR(gamma=1e-3, noise_variance=100.0).fit(X, np.tile([1.0, -1.0], 10))
    assert len(model.relevance_) == 0
    both = model.predict([[0.0], [1e9]], return_std=True, augment=True, marginalize=True)
    alone = model.predict([[0.0], [1e9]], return_std=True, augment=True)
    np.testing.assert_allclose(both, alone, rtol=1e-12, atol=1e-12)  # the noise is known
    assert capfd.readouterr() == ("", "")  # LAPACK complains of empty matrices


@pytest.mark.parametrize("n_targets", [1, 2])
def test_every_way_to_ask_gives_the_same(n_targets):
    X, y = columns(n=30, n_targets=n_targets)
    model = RVR(gamma=0.5).fit(X, y)
    mean, std = model.predict(NEW, return_std=True, marginalize=True)
    forecast = model.predict_distribution(NEW, marginalize=True)
    assert mean.shape == std.shape == (3, *y.shape[1:])
    np.testing.assert_array_equal(model.predict(NEW, marginalize=True), mean)
    np.testing.assert_allclose(forecast.mean, mean, rtol=1e-12)
    np.testing.assert_allclose(forecast.std, std, rtol=1e-12)
    assert (forecast.function_std < forecast.std).all()
    if n_targets == 1:
        same, covariance = model.predict(NEW, return_cov=True, marginalize=True)
        np.testing.assert_array_equal(same, mean)
        np.testing.assert_allclose(covariance.diagonal(), std**2, rtol=1e-10)
        assert np.linalg.eigvalsh(covariance).min() > 0
        # covariances without noise, and so of rows given twice
        twice = model.predict(NEW[[0, 0]], return_cov=True, marginalize=True)[1]
        np.testing.assert_allclose(twice[0, 1], forecast.function_std[0] ** 2, rtol=1e-10)
    else:
        with pytest.raises(ValueError, match="one target"):
            model.predict(NEW, return_cov=True, marginalize=True)


def test_atoms_are_evaluated_in_blocks():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 90))
    model = SparseBayesRegressor(noise_variance=0.01).fit(X, X.sum(axis=1))
    assert len(model.relevance_) == 90
    rows = np.resize(X[:3], (1500, 90))
    many = model.predict(rows, return_std=True, marginalize=True)
    few = model.predict(X[:3], return_std=True, marginalize=True)
    np.testing.assert_allclose(many, np.tile(few, 500), rtol=1e-9)


def test_weights_are_repetitions():
    X, y = columns(n=25)
    weights = np.random.default_rng(0).integers(0, 4, size=25)
    a = RVR(gamma=0.5).fit(X, y, sample_weight=weights)
    b = RVR(gamma=0.5).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    one, other = (model.predict(NEW, return_std=True, marginalize=True) for model in (a, b))
    np.testing.assert_allclose(one, other, rtol=1e-6)
    X1, y1 = X * [1, 0], y
    linear = SparseBayesRegressor(prior="flat").fit(X1, y1, sample_weight=weights)
    check_integral(linear, np.repeat(X1, weights, axis=0), np.repeat(y1, weights), Flat())


@pytest.mark.parametrize("factor", [1e-140, 1e3, 1e140])
def test_units_of_the_target_do_not_matter(factor):
    X, y = columns(n=30)
    mean, std = RVR(gamma=0.5).fit(X, y).predict(NEW, return_std=True, marginalize=True)
    scaled = RVR(gamma=0.5).fit(X, y * factor).predict(NEW, return_std=True, marginalize=True)
    np.testing.assert_allclose(scaled[0] / factor, mean, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(scaled[1] / factor, std, rtol=1e-5)


def test_a_noise_prior_counts_as_observations():
    X, y = columns(n=8)
    strong = SparseBayesRegressor(prior=20.0, noise_prior=(5e3, 5e3 * 0.3)).fit(X, y)
    assert len(strong.relevance_) == 0
    forecast = strong.predict_distribution(NEW, marginalize=True)
    noise = forecast.stds**2 - forecast.function_stds**2
    assert noise.std() < 0.02 * noise.mean()
    np.testing.assert_allclose(noise.mean(), strong.noise_variance_, rtol=0.01)


def test_orthonormal_atoms_are_taken_too():
    X = np.arange(64.0)[:, None]
    y = np.where(X[:, 0] < 20, 3.0, -1.0) + 0.2 * np.random.default_rng(0).normal(size=64)
    model, dense = (
        SparseBayesRegressor(Wavelet("haar"), prior="bic", solver=solver).fit(X, y)
        for solver in ("orthonormal", "working-set")
    )
    assert (model.posterior_.root.ndim, dense.posterior_.root.ndim) == (1, 2)
    np.testing.assert_array_equal(model.relevance_, dense.relevance_)
    one, other = (each.predict(X, return_std=True, marginalize=True) for each in (model, dense))
    np.testing.assert_allclose(one, other, rtol=1e-3)


def test_overfitted_models_own_up():
    data, test = (friedman1(n, noise=1.0, random_state=4) for n in (50, 400))
    middle, spread = data.X.mean(axis=0), data.X.std(axis=0)
    model = RVR(gamma=0.1).fit((data.X - middle) / spread, data.y)
    X_new = (test.X - middle) / spread
    inside = []
    for marginalize in (False, True):
        forecast = model.predict_distribution(X_new, marginalize=marginalize)
        low, high = forecast.interval(0.95)
        inside.append(np.mean((low <= test.y) & (test.y <= high)))
    assert inside[0] + 0.05 < inside[1] < 0.97


@pytest.mark.parametrize("gamma", [1e-4, 1e-3])
def test_nearly_collinear_atoms(gamma):
    data = sinc(60, noise=0.01, random_state=0)
    model = RVR(gamma=gamma).fit(data.X, data.y)
    mean, std = model.predict(data.X, return_std=True, marginalize=True)
    assert np.isfinite(mean).all()
    np.testing.assert_allclose(std, model.predict(data.X, return_std=True)[1], rtol=0.3)


def test_a_perfect_fit_has_draws_too():
    X = np.linspace(0, 1, 12)[:, None]
    with pytest.warns(ConvergenceWarning):
        model = SparseBayesRegressor().fit(X, 3 * X[:, 0])
    mean, std = model.predict(X, return_std=True, marginalize=True)
    np.testing.assert_allclose(mean, 3 * X[:, 0], atol=1e-3)
    assert ((std > 0) & (std < 1e-3)).all()


def test_chains_stay_where_float64_can_factorize():
    # a matrix that rounding has left indefinite: 1 + v J / noise is positive for v < 10 noise
    best = Optimum(np.array([[-0.1]]), np.ones((1, 1)), 50.0, 50.0, True, Flat(), np.ones(1), 1.0)
    chains = Chains(best, 32, np.random.default_rng(0))
    stayed = 0
    for _ in range(30):
        before = chains.v
        chains.sweep()
        assert (1 - 0.1 * chains.v[:, 0] / chains.noise > 0).all()
        stayed += int((before == chains.v).sum())
    assert 0 < stayed < 30 * 32


# Augmented draws


def posterior_at(posterior, optimum, v, noise):
    """The posterior of the weights at other variances and noise, from its definition."""
    scale = np.sqrt(posterior.prior_variance)
    precision = optimum.J / noise + np.diag(1 / v)
    covariance = np.linalg.inv(precision)
    mean = covariance @ (optimum.J @ optimum.x + optimum.x) / noise
    return replace(
        posterior,
        mean=scale[:, None] * mean,
        root=scale[:, None] * np.linalg.cholesky(covariance),
        prior_variance=posterior.prior_variance * v,
        noise_variance=posterior.noise_variance * noise,
        offset_variance=posterior.offset_variance * noise,
    )


@pytest.mark.parametrize(
    ("settings", "n_targets"),
    [({}, 2), ({"fit_intercept": False}, 1), ({"noise_variance": 0.5}, 2)],
)
def test_each_draw_is_augmented(n_targets, settings):
    X, y = columns(n=30, n_targets=n_targets)
    weights = np.random.default_rng(0).integers(1, 4, size=30)
    model = RVR(gamma=0.5, **settings).fit(X, y, sample_weight=weights)
    p, optimum = model.posterior_, optimum_of(model)
    draws = draw(optimum)
    data = TrainingData(X, y.reshape(30, -1), weights.astype(float))
    v_new = AugmentedFit(p, data).v_new
    means, stds, function_stds = [], [], []
    for v, noise in zip(draws.v, draws.noise, strict=True):
        fit = AugmentedFit(posterior_at(p, optimum, v, noise), data)
        fit.v_new = v_new  # of the fit, not of the draw
        mean, variance = fit.predict(NEW)
        means.append(p.offset + p.scale * mean)
        stds.append(p.scale * np.sqrt(variance + fit.posterior.noise_variance))
        function_stds.append(p.scale * np.sqrt(variance))
    forecast = model.predict_distribution(NEW, augment=True, marginalize=True)
    shape = forecast.means.shape
    expected = np.moveaxis(means, 0, -1)
    np.testing.assert_allclose(forecast.means, expected.reshape(shape), rtol=1e-7)
    for found, each in ((forecast.stds, stds), (forecast.function_stds, function_stds)):
        same = np.repeat(np.transpose(each)[:, None], n_targets, axis=1).reshape(shape)
        np.testing.assert_allclose(found, same, rtol=1e-7)
    mean, std = model.predict(NEW, return_std=True, augment=True, marginalize=True)
    np.testing.assert_allclose([mean, std], [forecast.mean, forecast.std], rtol=1e-10)


def test_augmented_draws_are_wide_far_away():
    data = sinc(40, noise=0.1, random_state=0)
    model = RVR(gamma=0.1).fit(data.X, data.y)
    places = np.array([[0.0], [3.0], [1e3]])
    plain, augmented, both = (
        model.predict(places, return_std=True, **how)[1]
        for how in ({}, {"augment": True}, {"augment": True, "marginalize": True})
    )
    assert both[2] > augmented[2] > 2 * plain[2]
    np.testing.assert_allclose(both[:2], augmented[:2], rtol=0.3)
    stored = pickle.loads(pickle.dumps(model))
    again = stored.predict(places, return_std=True, augment=(data.X, data.y), marginalize=True)
    np.testing.assert_array_equal(again[1], both)


# Repeats, pickles, files


def test_draws_repeat_and_are_forgotten_with_the_model():
    X, y = columns(n=30)
    model = RVR(gamma=0.5).fit(X, y)
    first = model.predict(NEW, return_std=True, marginalize=True)
    np.testing.assert_array_equal(first, model.predict(NEW, return_std=True, marginalize=True))
    size = len(pickle.dumps(model))
    posterior = weakref.ref(model.posterior_)
    assert _points(model.posterior_) is _points(model.posterior_)
    again = RVR(gamma=0.5).fit(X, y)
    assert size == len(pickle.dumps(again))
    np.testing.assert_array_equal(first, again.predict(NEW, return_std=True, marginalize=True))
    del model
    gc.collect()
    assert posterior() is None


@pytest.mark.parametrize(
    ("settings", "n_targets"),
    [
        ({}, 1),
        ({"prior": "bic"}, 2),
        ({"prior": 2.0}, 1),
        ({"noise_variance": 0.3}, 1),
        ({"fit_intercept": False}, 2),
    ],
)
def test_pickles_and_files_give_the_same(settings, n_targets, tmp_path):
    X, y = columns(n=30, n_targets=n_targets)
    model = RVR(gamma=0.5, **settings).fit(X, y)
    expected = model.predict(NEW, return_std=True, marginalize=True)
    model.save(tmp_path / "some.model")
    loaded = sparsebayes.load(tmp_path / "some.model")
    for other in (pickle.loads(pickle.dumps(model)), loaded):
        found = other.predict(NEW, return_std=True, marginalize=True)
        np.testing.assert_array_equal(found, expected)
    assert loaded.posterior_.evidence == model.posterior_.evidence


def rewritten(path, change):
    """The same model file with another header."""
    with zipfile.ZipFile(path) as old:
        members = {name: old.read(name) for name in old.namelist()}
    header = json.loads(members["model.json"])
    change(header["posterior"])
    members["model.json"] = json.dumps(header).encode()
    new = path.with_suffix(".changed")
    with zipfile.ZipFile(new, "w") as file:
        for name, content in members.items():
            file.writestr(name, content)
    return new


def test_old_files_and_pickles_say_what_they_lack(tmp_path):
    X, y = columns(n=30)
    model = RVR(gamma=0.5).fit(X, y)
    model.save(tmp_path / "some.model")
    old = sparsebayes.load(rewritten(tmp_path / "some.model", lambda spec: spec.pop("evidence")))
    np.testing.assert_array_equal(old.predict(NEW), model.predict(NEW))
    model.posterior_ = replace(model.posterior_, evidence=None)
    for each in (old, model):
        for ask in (each.predict, each.predict_distribution):
            with pytest.raises(ValueError, match="fit the model again"):
                ask(NEW, marginalize=True)


@pytest.mark.parametrize(
    "change",
    [
        {"n": -1.0},
        {"n": {"$": "float", "value": "nan"}},
        {"n": "many"},
        {"residual": -1.0},
        {"residual": {"$": "float", "value": "inf"}},
        {"noise_estimated": 1},
        {"hyperprior": {"$": "Poisson", "parameters": {}}},
        {"hyperprior": {"$": "Linear", "parameters": {}}},
        {"hyperprior": 3.0},
        {"hyperprior": {"$": "Smoothness", "parameters": {"c": -1.0}}},
    ],
)
def test_damaged_files_are_refused(change, tmp_path):
    X, y = columns(n=30)
    RVR(gamma=0.5).fit(X, y).save(tmp_path / "some.model")
    with pytest.raises(ModelFileError, match="damaged"):
        sparsebayes.load(
            rewritten(tmp_path / "some.model", lambda spec: spec["evidence"].update(change))
        )
    broken = rewritten(tmp_path / "some.model", lambda spec: spec.update(evidence=[1, 2]))
    with pytest.raises(ModelFileError, match="damaged"):
        sparsebayes.load(broken)


def test_hyperpriors_that_files_cannot_hold(tmp_path):
    X, y = columns(n=30)
    model = SparseBayesRegressor(prior=Own()).fit(X, y)
    known = SparseBayesRegressor(prior=3.0).fit(X, y)
    expected = known.predict(NEW, return_std=True, marginalize=True)
    for own in (model, pickle.loads(pickle.dumps(model))):
        found = own.predict(NEW, return_std=True, marginalize=True)
        np.testing.assert_allclose(found, expected, rtol=1e-10)
    with pytest.warns(UserWarning, match="cannot be stored without its code"):
        model.save(tmp_path / "own.model")
    loaded = sparsebayes.load(tmp_path / "own.model")
    np.testing.assert_array_equal(loaded.predict(NEW), model.predict(NEW))
    with pytest.raises(ValueError, match=r"hyperprior.*could not hold"):
        loaded.predict(NEW, marginalize=True)
    assert Evidence(3.0, 1.0, True, Own()).to_spec()["hyperprior"] is None


# Refusals


def test_only_gaussian_noise():
    X, _ = columns(n=40)
    counts = np.random.default_rng(0).poisson(np.exp(X[:, 0]))
    model = SparseBayesRegressor(likelihood="poisson").fit(X, counts)
    for ask in (model.predict, model.predict_distribution):
        with pytest.raises(ValueError, match="marginalize is for Gaussian noise"):
            ask(NEW, marginalize=True)


def test_not_with_two_kinds_of_spread():
    X, y = columns(n=30)
    model = RVR(gamma=0.5).fit(X, y)
    with pytest.raises(ValueError, match="return_std and return_cov"):
        model.predict(NEW, return_std=True, return_cov=True, marginalize=True)
    with pytest.raises(ValueError, match="return_cov and augment"):
        model.predict(NEW, return_cov=True, augment=True, marginalize=True)


def test_not_of_too_many_atoms():
    rng = np.random.default_rng(0)
    X, y = np.arange(2048.0)[:, None], rng.normal(size=2048)
    model = SparseBayesRegressor(Wavelet("haar"), noise_variance=0.01).fit(X, y)
    count = len(model.relevance_)
    assert count > 1000
    for ask in (marginal_spread, marginal_mixture, marginal_covariance):
        with pytest.raises(
            ValueError, match=f"at most 1000 active atoms, and this model has {count}"
        ):
            ask(model.posterior_, X[:2])


@pytest.mark.parametrize("value", ["yes", 1, None])
def test_marginalize_is_a_flag(value):
    X = np.arange(10.0)[:, None]
    model = RVR(gamma=0.1).fit(X, np.sin(X[:, 0]) + 0.1 * np.cos(7 * X[:, 0]))
    for predict in (model.predict, model.predict_distribution):
        with pytest.raises(TypeError, match="marginalize must be True or False"):
            predict(X, marginalize=value)
