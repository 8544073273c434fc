"""Mixtures of normal distributions against their definitions."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import norm

from sparsebayes.predictive import Mixture, Normal


def mixture(shape=(5,), count=7, seed=0, apart=2.0):
    rng = np.random.default_rng(seed)
    means = apart * rng.normal(size=(*shape, count))
    stds = np.exp(rng.normal(size=(*shape, count)))
    return Mixture(means, stds, 0.5 * stds)


def test_density_and_distribution_by_definition():
    one = mixture((1,))

    def density(y):
        return norm.pdf(y, one.means[0], one.stds[0]).mean()

    for y in (-3.0, 0.2, 4.0):
        np.testing.assert_allclose(np.exp(one.logpdf(y)), density(y), rtol=1e-12)
        below, _ = quad(density, -60, y, limit=200)
        np.testing.assert_allclose(one.cdf(y), below, rtol=1e-6)
    mean = quad(lambda y: y * density(y), -90, 90, limit=500)[0]
    square = quad(lambda y: y * y * density(y), -90, 90, limit=500)[0]
    np.testing.assert_allclose(one.mean, mean, rtol=1e-6)
    np.testing.assert_allclose(one.variance, square - mean**2, rtol=1e-6)
    np.testing.assert_allclose(one.std**2, one.variance)


@pytest.mark.parametrize("apart", [0.1, 2.0, 1e4])
@pytest.mark.parametrize("p", [1e-12, 0.05, 0.5, 0.731, 1 - 1e-9])
def test_quantiles_are_roots(p, apart):
    some = mixture(apart=apart)
    found = some.ppf(p)
    for x, means, stds in zip(found, some.means, some.stds, strict=True):
        low, high = (means - 9 * stds).min(), (means + 9 * stds).max()
        root = brentq(
            lambda y, m=means, s=stds: norm.cdf(y, m, s).mean() - p, low, high, rtol=1e-15
        )
        # in a gap between components many values have nearly this probability
        near = norm.cdf(x, means, stds).mean() - p
        assert abs(x - root) < 1e-6 * stds.max() or abs(near) < 1e-15


def test_intervals_hold_what_they_say():
    some = mixture((4, 2))
    for level in (0.5, 0.9, 0.999):
        low, high = some.interval(level)
        assert low.shape == (4, 2)
        np.testing.assert_allclose(some.cdf(low), 0.5 - 0.5 * level, atol=1e-12)
        np.testing.assert_allclose(some.cdf(high) - some.cdf(low), level, atol=1e-12)
    assert (some.ppf(0.0) == -np.inf).all()
    assert (some.ppf(1.0) == np.inf).all()


def test_equal_components_are_one_normal():
    mean, std = np.array([1.0, -2.0]), np.array([0.5, 3.0])
    one = Normal(mean, std, 0.1 * std)
    same = Mixture(*(np.repeat(a[:, None], 9, axis=1) for a in (mean, std, 0.1 * std)))
    y = np.array([1.2, 5.0])
    for name in ("mean", "std", "variance", "function_std"):
        np.testing.assert_allclose(getattr(same, name), getattr(one, name), rtol=1e-12)
    for name in ("cdf", "logpdf"):
        np.testing.assert_allclose(getattr(same, name)(y), getattr(one, name)(y), rtol=1e-12)
    np.testing.assert_allclose(same.interval(0.8), one.interval(0.8), rtol=1e-12)
    np.testing.assert_allclose(same.ppf([0.2, 0.7]), one.ppf([0.2, 0.7]), rtol=1e-12)


def test_many_rows_are_taken_in_blocks():
    few = mixture((3,), count=400)
    rows = np.resize(np.arange(3), 2**20 // 400 + 10)
    many = Mixture(few.means[rows], few.stds[rows], few.function_stds[rows])
    np.testing.assert_array_equal(many.ppf(0.3), few.ppf(0.3)[rows])


def test_draws_have_its_moments():
    some = mixture((3, 2))
    draws = some.sample(40_000, random_state=0)
    assert draws.shape == (40_000, 3, 2)
    np.testing.assert_allclose(draws.mean(axis=0), some.mean, atol=0.02 * some.std.max())
    np.testing.assert_allclose(draws.std(axis=0), some.std, rtol=0.03)
    share = (draws <= some.ppf(0.9)).mean(axis=0)
    np.testing.assert_allclose(share, 0.9, atol=0.01)
    np.testing.assert_array_equal(some.sample(3, 1), some.sample(3, 1))


def test_refusals():
    some = mixture((5, 2))
    with pytest.raises(ValueError, match="level must lie between"):
        some.interval(1.0)
    with pytest.raises(ValueError, match="probability must lie between"):
        some.ppf(1.5)
    for ask in (some.cdf, some.logpdf):
        with pytest.raises(ValueError, match="one for each row and target"):
            ask(np.zeros(5))
    with pytest.raises(ValueError, match="one for each row and target"):
        some.ppf(np.full(5, 0.5))
    assert some.logpdf(1e300).max() == -np.inf
