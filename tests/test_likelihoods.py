"""Likelihoods: the contract that every one must keep, and what is special about each."""

import dataclasses
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.special import expit, log_softmax, softmax

from sparsebayes.curvature_slope import curvature_slope
from sparsebayes.likelihoods import (
    Bernoulli,
    Expansion,
    Gaussian,
    Likelihood,
    Multinomial,
    Poisson,
    _log_density_of_best_rate,
)
from sparsebayes.predictive import Categorical, Counts, Normal
from sparsebayes.testing import check_likelihood

CONTRACT = {
    "gaussian": (Gaussian(0.3), [-2.0, 0.0, 0.1, 7.5]),
    "little noise": (Gaussian(1e-6), [-2.0, 0.5]),
    "bernoulli": (Bernoulli(), [0, 1, 1, 0, 1]),
    "booleans": (Bernoulli(), [True, False]),
    "two classes": (Multinomial(2), [0, 1, 1]),
    "four classes": (Multinomial(4), [0, 1, 2, 3, 3]),
    "26 classes": (Multinomial(26), np.arange(26)),
    "poisson": (Poisson(), [0, 1, 2, 3, 30]),
    "large counts": (Poisson(), [1e3, 1e6, 1e9]),
}


def test_contract_of_third_derivatives():
    """Optional; ours are held to it too, as if they were a method."""
    for likelihood, targets in CONTRACT.values():
        known = Broken(likelihood, curvature_slope=partial(curvature_slope, likelihood))
        check_likelihood(known, targets)


@pytest.mark.parametrize(("likelihood", "targets"), CONTRACT.values(), ids=CONTRACT.keys())
def test_contract(likelihood, targets):
    check_likelihood(likelihood, targets)


class Broken:
    """A good likelihood of which one method is replaced, or added."""

    def __init__(self, likelihood=None, **methods):
        self.good = likelihood or Bernoulli()
        self.n_latent = self.good.n_latent
        for name in ("check", "expand", "predictive"):
            setattr(self, name, methods.get(name, getattr(self.good, name)))
        self.n_latent = methods.get("n_latent", self.n_latent)
        if "curvature_slope" in methods:
            self.curvature_slope = methods["curvature_slope"]


def changed(likelihood=None, **changes):
    """A likelihood whose expansion is changed by functions of its parts."""
    good = likelihood or Bernoulli()

    def expand(t, f):
        parts = good.expand(t, f)._asdict()
        return Expansion(**{k: changes.get(k, lambda x: x)(v) for k, v in parts.items()})

    return Broken(good, expand=expand)


def naive(t, f):
    p = 1 / (1 + np.exp(-f))
    value = t * np.log(p[:, 0]) + (1 - t) * np.log(1 - p[:, 0])
    return Expansion(value, t[:, None] - p, (p * (1 - p))[:, :, None])


def forgetful(t, f):
    f -= f.mean()
    return Bernoulli().expand(t, f)


def convex(t, f):
    """log p = f^2 is no log-concave likelihood."""
    return Expansion(f[:, 0] ** 2, 2 * f, np.full((len(t), 1, 1), -2.0))


BROKEN = {
    "lacks": (object(), "lacks a method"),
    "n_latent": (Broken(n_latent=0), "n_latent"),
    "check returns a list": (Broken(check=lambda y: list(y)), "check() must return"),
    "check returns integers": (Broken(check=lambda y: np.asarray(y)), "check() must return"),
    "check takes NaN": (Broken(check=lambda y: np.ravel(y).astype(float)), "NaN"),
    "check drifts": (Broken(check=lambda y: Gaussian(1.0).check(y) * 0.5), "changes targets"),
    "check refuses": (Broken(check=lambda y: Bernoulli().check(y) - 1), "refuses targets it has"),
    "slope of the wrong sign": (changed(slope=lambda x: -x), "not the gradient"),
    "slope off by a little": (changed(slope=lambda x: 1.001 * x), "not the gradient"),
    "curvature is the Hessian": (changed(curvature=lambda x: -x), "not minus the Hessian"),
    "curvature halved": (changed(curvature=lambda x: x / 2), "not minus the Hessian"),
    "curvature asymmetric": (
        changed(Multinomial(3), curvature=lambda x: x + 1e-9 * np.triu(np.ones((3, 3)), 1)),
        "not symmetric",
    ),
    "shapes": (changed(slope=lambda x: x[:, 0]), "shape (3,), not (3, 1)"),
    "not log-concave": (Broken(expand=convex), "not log-concave"),
    "overflows": (Broken(expand=naive), "warns at latent values of size"),
    "changes its arguments": (Broken(expand=forgetful), "changes its arguments"),
    "rows depend on each other": (
        changed(value=lambda x: x + (len(x) == 3)),
        "differs from those rows",
    ),
    "predicts something else": (
        Broken(predictive=lambda m, c: Categorical(np.full((len(m), 2), np.log(0.5)))),
        "without uncertainty",
    ),
    "predicts the plug-in": (
        Broken(predictive=lambda m, c: Bernoulli().predictive(m, 0 * c)),
        "averaged over the latent values",
    ),
    "third derivatives of the wrong sign": (
        Broken(curvature_slope=lambda t, f, F: -curvature_slope(Bernoulli(), t, f, F)),
        "curvature_slope is not the derivative",
    ),
    "third derivatives of another shape": (
        Broken(curvature_slope=lambda t, f, F: F),
        "curvature_slope() must return an array of shape (3, 1)",
    ),
    "predicts nothing": (Broken(predictive=lambda m, c: None), "logpmf"),
}


@pytest.mark.parametrize(("likelihood", "message"), BROKEN.values(), ids=BROKEN.keys())
def test_broken_likelihoods_are_found(likelihood, message):
    targets = [0, 1, 2] if getattr(likelihood, "n_latent", 1) == 3 else [0, 1, 1]
    with pytest.raises(AssertionError) as caught:
        check_likelihood(likelihood, targets)
    assert message in str(caught.value)


@pytest.mark.parametrize("likelihood", [Gaussian(1.0), Bernoulli(), Multinomial(3), Poisson()])
def test_they_are_frozen_data(likelihood):
    assert isinstance(likelihood, Likelihood)
    assert likelihood == dataclasses.replace(likelihood)
    assert hash(likelihood) == hash(dataclasses.replace(likelihood))
    with pytest.raises(dataclasses.FrozenInstanceError):
        likelihood.anything = 1


F = np.linspace(-8, 8, 33)[:, None]


def test_values_are_log_densities():
    t = np.full(len(F), 1.3)
    want = stats.norm.logpdf(t, F[:, 0], 0.5)
    assert_allclose(Gaussian(0.25).expand(t, F).value, want, rtol=1e-12)
    for label in (0.0, 1.0):
        want = stats.bernoulli.logpmf(label, expit(F[:, 0]))
        assert_allclose(Bernoulli().expand(0 * t + label, F).value, want, rtol=1e-9)
    for count in (0.0, 1.0, 7.0, 99.0, 100.0, 101.0, 1000.0):
        want = stats.poisson.logpmf(count, np.exp(F[:, 0]))
        assert_allclose(Poisson().expand(0 * t + count, F).value, want, rtol=1e-10)
    f = np.random.default_rng(0).normal(size=(50, 4)) * 3
    t = np.arange(50) % 4
    got = Multinomial(4).expand(t.astype(float), f)
    assert_allclose(got.value, log_softmax(f, axis=1)[np.arange(50), t], rtol=1e-10)
    p = softmax(f, axis=1)
    assert_allclose(got.slope, np.eye(4)[t] - p, atol=1e-14)
    want = np.eye(4) * p[:, None, :] - p[:, :, None] * p[:, None, :]
    assert_allclose(got.curvature, want, atol=1e-14)


def test_probabilities_sum_to_one():
    one = np.ones(len(F))
    total = sum(np.exp(Bernoulli().expand(one * k, F).value) for k in (0, 1))
    assert_allclose(total, 1, rtol=1e-14)
    total = sum(np.exp(Poisson().expand(one * k, F / 4).value) for k in range(80))
    assert_allclose(total, 1, rtol=1e-13)


def test_two_classes_are_bernoulli():
    t = (np.arange(len(F)) % 2).astype(float)
    pair = Multinomial(2).expand(t, np.hstack([0 * F + 3.0, F + 3.0]))
    one = Bernoulli().expand(t, F)
    assert_allclose(pair.value, one.value, rtol=1e-12)
    assert_allclose(pair.slope[:, 1:], one.slope, rtol=1e-12)
    assert_allclose(pair.curvature[:, 1:, 1:], one.curvature, rtol=1e-12)


def test_tails_of_bernoulli_keep_their_digits():
    f = np.array([[40.0], [-40.0], [700.0]])
    value, slope, curvature = Bernoulli().expand(np.array([1.0, 0.0, 1.0]), f)
    assert_allclose(value, -np.exp([-40.0, -40.0, -700.0]), rtol=1e-12)
    assert_allclose(slope[:, 0], np.exp([-40.0, -40.0, -700.0]) * [1, -1, 1], rtol=1e-12)
    assert_allclose(curvature[:, 0, 0], np.exp([-40.0, -40.0, -700.0]), rtol=1e-12)


def test_tails_of_softmax_keep_their_digits():
    f = np.array([[0.0, 40.0, -3.0]])
    value, slope, curvature = Multinomial(3).expand(np.array([1.0]), f)
    small = np.exp([-40.0, -43.0])
    assert_allclose(value, -small.sum(), rtol=1e-12)
    assert_allclose(slope[0], [-small[0], small.sum(), -small[1]], rtol=1e-12)
    assert_allclose(curvature[0].diagonal(), [small[0], small.sum(), small[1]], rtol=1e-12)
    assert_allclose(curvature.sum(axis=2), 0, atol=1e-32)


def test_softmax_does_not_see_a_common_shift():
    f = np.random.default_rng(0).integers(-5, 5, size=(20, 3)).astype(float)
    t = (np.arange(20) % 3).astype(float)
    for got, want in zip(
        Multinomial(3).expand(t, f + 1e6), Multinomial(3).expand(t, f), strict=True
    ):
        assert_array_equal(got, want)
    slope, curvature = Multinomial(3).expand(t, f)[1:]
    assert_allclose(slope.sum(axis=1), 0, atol=1e-15)
    assert_allclose(curvature.sum(axis=1), 0, atol=1e-15)


def test_large_counts_keep_their_digits():
    """Near the best rate the value is small beside its terms t f, exp(f) and log t!."""
    t = np.array([1e3, 1e6, 1e9, 1e12])
    f = np.log(t)[:, None]
    value = Poisson().expand(t, f).value
    assert_allclose(value, -0.5 * np.log(2 * np.pi * t) - 1 / (12 * t), rtol=1e-9)
    assert_allclose(_log_density_of_best_rate(t), value, rtol=1e-9)
    few = np.arange(0.0, 400.0)
    want = np.array([stats.poisson.logpmf(k, k) if k else 0.0 for k in few])
    assert_allclose(_log_density_of_best_rate(few), want, rtol=1e-11, atol=1e-13)


def test_rates_beyond_float64_lead_back():
    """Newton's method from an absurd rate stays finite and arrives."""
    f = np.array([[5000.0], [800.0], [300.5]])
    t = np.array([3.0, 1e6, 0.0])
    h = 1e-3
    middle, up, down = (Poisson().expand(t, f + d) for d in (0.0, h, -h))
    assert_allclose((up.value - down.value) / (2 * h), middle.slope[:, 0], rtol=1e-6)
    assert_allclose(-(up.slope - down.slope)[:, 0] / (2 * h), middle.curvature[:, 0, 0], rtol=1e-6)
    for _ in range(400):
        _, slope, curvature = Poisson().expand(t, f)
        f = f + slope / (curvature[:, 0] + 1e-3)
    assert_allclose(f[:2, 0], np.log(t[:2]), rtol=1e-6)
    assert f[2, 0] < 0


@pytest.mark.parametrize("likelihood", [Gaussian(1.0), Bernoulli(), Multinomial(3), Poisson()])
@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0, 1, np.nan], "finite: they contain NaN"),
        ([0, 1, np.inf], "finite"),
        ([[0], [1]], "one-dimensional, got an array of shape (2, 1)"),
        (1.0, "one-dimensional"),
        (["a", "b"], "must be numbers"),
        ([0, "b"], "must be numbers"),
        ([0, None], "must be"),
        ([1j, 0], "must be numbers"),
    ],
)
def test_targets_that_none_takes(likelihood, y, message):
    y = np.array(y, dtype=object) if y in ([0, "b"], [0, None]) else y
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        likelihood.check(y)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("likelihood", "y", "message"),
    [
        (Bernoulli(), [0, 1, 2, 2], "must be 0 or 1; got 2 (2 such targets)"),
        (Bernoulli(), [-1, 1], "must be 0 or 1; got -1"),
        (Bernoulli(), [0.5], "must be 0 or 1; got 0.5"),
        (Multinomial(3), [0, 3], "integers from 0 to 2; got 3"),
        (Multinomial(3), [-1], "integers from 0 to 2; got -1"),
        (Multinomial(3), [1.5], "integers from 0 to 2; got 1.5"),
        (Poisson(), [3, -2], "counts, which are not negative; got -2"),
        (Poisson(), [0.5, 1], "counts, which are integers; got 0.5"),
        (Poisson(), [1e16], "at most 2**53; got 1e+16"),
    ],
)
def test_targets_that_one_refuses(likelihood, y, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        likelihood.check(y)
    assert message in str(caught.value)


def test_targets_are_floats_afterwards():
    for likelihood, y in ((Bernoulli(), [True, False]), (Poisson(), np.array([3, 4], dtype="u1"))):
        t = likelihood.check(y)
        assert t.dtype == np.float64
        assert_array_equal(t, np.asarray(y, dtype=float))
    assert Poisson().check([]).shape == (0,)
    given = np.array([1.0, 0.0])
    assert not np.shares_memory(Bernoulli().check(given), given)


@pytest.mark.parametrize("noise_var", [0.0, -1.0, np.nan, np.inf])
def test_a_noise_must_be_positive(noise_var):
    with pytest.raises(ValueError, match="noise_var must be positive"):
        Gaussian(noise_var)


@pytest.mark.parametrize("n_classes", [1, 0, -3, 2.5, "3", True, None])
def test_classes_must_be_several(n_classes):
    with pytest.raises(ValueError, match="n_classes must be"):
        Multinomial(n_classes)


def test_they_predict_their_own_distribution():
    mean, covariance = np.zeros((2, 1)), np.full((2, 1, 1), 0.5)
    assert isinstance(Gaussian(0.5).predictive(mean, covariance), Normal)
    assert_allclose(Gaussian(0.5).predictive(mean, covariance).std, 1.0)
    assert_allclose(Gaussian(0.5).predictive(mean, covariance).function_std, 0.5**0.5)
    assert Bernoulli().predictive(mean, covariance).proba.shape == (2, 2)
    assert isinstance(Poisson().predictive(mean, covariance), Counts)
    several = Multinomial(3).predictive(np.zeros((2, 3)), np.tile(np.eye(3), (2, 1, 1)))
    assert several.proba.shape == (2, 3)
