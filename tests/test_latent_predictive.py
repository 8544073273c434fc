"""Probabilities of classes and counts against brute-force integrals over the latent values."""

import itertools
import time

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.special import expit, gammaln, log_expit, logsumexp, ndtr, softmax

from pairwise import pairwise
from sparsebayes import count_integrals
from sparsebayes.latent_integrals import log_mean_sigmoid, log_mean_softmax, plug_in
from sparsebayes.likelihoods import Bernoulli, Multinomial, Poisson
from sparsebayes.predictive import Categorical, Counts

NODES, SHARES = np.polynomial.legendre.leggauss(160)


def sigmoid_by_quad(m, v):
    """E sigmoid(f): by Gauss's rule between where the sigmoid and the normal change."""
    s = v**0.5
    marks = sorted(
        {z for x in (-40, -5, 0, 5, 40) if abs(z := (x - m) / s) < 12} | {-12.0, -4.0, 0.0, 4.0, 12}
    )
    total = 0.0
    for a, b in itertools.pairwise(marks):
        z = 0.5 * (a + b) + 0.5 * (b - a) * NODES
        total += 0.5 * (b - a) * SHARES @ (expit(m + s * z) * np.exp(-0.5 * z**2))
    return total / np.sqrt(2 * np.pi)


MEANS = [0.0, 1e-3, 0.3, 1.0, 3.0, 10.0, 50.0, 1e3]
VARIANCES = [1e-12, 1e-4, 0.1, 1.0, 2.25, 2.26, 9.0, 15.9, 16.1, 100.0, 1e4, 1e6]


@pytest.mark.parametrize("v", VARIANCES)
def test_two_classes_against_quad(v):
    m = np.array([sign * x for x in MEANS for sign in (-1, 1)])
    p = np.exp(log_mean_sigmoid(m, np.full(len(m), v)))
    want = np.array([sigmoid_by_quad(x, v) for x in m])
    assert_allclose(p[:, 1], want, atol=1e-10)
    assert_allclose(p[:, 0], want[::-1].reshape(-1, 2)[::-1].ravel(), atol=1e-10)


def tail_by_sum(m, v):
    """log E sigmoid(f), as a sum on a fine grid in the logarithm: right where all is tiny."""
    s = v**0.5
    x = np.linspace(min(m, m + v) - 14 * s, max(m, m + v) + 14 * s, 40_001)
    logs = log_expit(x) - 0.5 * ((x - m) / s) ** 2
    return logsumexp(logs) + np.log((x[1] - x[0]) / s) - 0.5 * np.log(2 * np.pi)


@pytest.mark.parametrize("v", [0.1, 1.0, 2.3, 9.0, 17.0, 100.0, 1e3])
@pytest.mark.parametrize("ratio", [0.2, 0.49, 0.51, 0.99, 1.01, 1.7, 5.0, 60.0])
def test_small_probabilities_keep_their_digits(v, ratio):
    want = tail_by_sum(-ratio * v, v)
    got = log_mean_sigmoid(np.array([-ratio * v, ratio * v]), np.full(2, v))
    assert_allclose(got[0, 1], want, rtol=1e-10)
    assert got[1, 0] == got[0, 1]
    assert got[0, 0] == got[1, 1]


def test_two_classes_without_uncertainty_are_the_plug_in():
    m = np.linspace(-900, 900, 101)
    got = log_mean_sigmoid(m, np.zeros(101))
    assert_allclose(got, plug_in(m[:, None]), rtol=1e-13)


def test_two_classes_in_the_limit_of_no_knowledge():
    """For a huge variance the sigmoid is a step."""
    m = np.array([-1e3, 0.0, 2e3])
    got = np.exp(log_mean_sigmoid(m, np.full(3, 1e6)))
    assert_allclose(got[:, 1], ndtr(m / 1e3), atol=2e-6)


def test_two_classes_sum_to_one_and_are_monotone():
    rng = np.random.default_rng(0)
    m, v = rng.normal(size=2000) * 10, np.exp(rng.uniform(-10, 12, 2000))
    assert_allclose(np.exp(log_mean_sigmoid(m, v)).sum(axis=1), 1, rtol=1e-14)
    for variance in (0.0, 1.0, 2.25, 16.0, 1e4):
        line = np.linspace(-30, 30, 500)
        assert (np.diff(log_mean_sigmoid(line, np.full(500, variance))[:, 1]) > 0).all()
    for mean in (0.5, 3.0, 20.0):  # uncertainty draws probabilities towards one half, smoothly
        path = log_mean_sigmoid(np.full(4000, mean), np.linspace(0, 6, 4000) ** 2)[:, 1]
        assert (np.diff(path) < 1e-14).all()
        assert np.abs(np.diff(path, 2)).max() < 1e-5


def test_the_sign_of_the_mean_says_which_class_is_more_probable():
    v = np.concatenate([[0.0], np.logspace(-12, 6, 500)])
    for mean in (0.0, -0.0):
        assert_array_equal(log_mean_sigmoid(np.full(v.size, mean), v), -np.log(2.0))
    for mean in (1e-300, 1e-17, 1e-15):
        for sign, larger in ((1, 1), (-1, 0)):
            found = log_mean_sigmoid(np.full(v.size, sign * mean), v)
            assert_array_equal(found.argmax(axis=1), larger)
            assert_array_equal(np.exp(found).argmax(axis=1), larger)
            assert_allclose(found, -np.log(2.0), rtol=2e-14)


def test_two_classes_far_out():
    m = np.array([-1e300, 1e300, -1e6, 1e6, 0.0, 5.0])
    v = np.array([1.0, 1e6, 1e6, 0.0, 1e300, 1e-300])
    with np.errstate(all="raise", under="ignore"):
        got = log_mean_sigmoid(m, v)
    assert np.isfinite(got).all()
    assert_allclose(got[0], [0, -1e300])
    assert_allclose(got[4], np.log([0.5, 0.5]))


def test_two_classes_are_fast():
    rng = np.random.default_rng(0)
    m, v = 3 * rng.normal(size=100_000), rng.uniform(0, 6, 100_000) ** 2
    start = time.process_time()
    log_mean_sigmoid(m, v)
    assert time.process_time() - start < 2.0  # about 0.2 s


def covariances(kind, n, K, v, rng):
    A = rng.normal(size=(n, K, K))
    return (
        v
        * {
            "full": A @ A.transpose(0, 2, 1) / K,
            "independent": np.eye(K) * rng.uniform(0.2, 1, size=(n, 1, K)),
            "two directions": A[:, :, :2] @ A[:, :, :2].transpose(0, 2, 1) / 2,
        }[kind]
    )


def softmax_by_grid(m, Sigma):
    """E softmax(f) for three classes: the plane of contrasts on a dense grid."""
    T = np.array([[1, -1, 0], [1, 1, -2]]) / np.sqrt([[2], [6]])
    size, vectors = np.linalg.eigh(T @ Sigma @ T.T)
    z = np.linspace(-7, 7, 351 if size.max() > 10 else 101)
    w = np.exp(-0.5 * z**2)
    w /= w.sum()
    plane = np.stack(np.meshgrid(z, z, indexing="ij"), axis=-1)
    f = m + (plane * np.sqrt(np.maximum(size, 0))) @ vectors.T @ T
    return np.einsum("ijk,i,j->k", softmax(f, axis=2), w, w)


def softmax_of_independent(m, v):
    """E softmax(f) for independent f, by the Gumbel trick: one integral for any number of classes.

    softmax_k is the chance that f_k plus Gumbel noise is the largest, and the distribution function
    of f_j plus Gumbel noise is the chance of no event at the rate exp(f_j - x).
    """
    K, s = len(m), np.sqrt(v)
    x = np.linspace((m - 10 * s).min() - 6, (m + 10 * s).max() + 45, 2001)
    below = np.stack([count_integrals.cdf(0 * x, m[j] - x, 0 * x + s[j]) for j in range(K)])
    middle = 0.5 * (below[:, 1:] + below[:, :-1])
    others = [np.prod(np.delete(middle, k, axis=0), axis=0) for k in range(K)]
    return np.array([np.sum(np.diff(below[k]) * others[k]) for k in range(K)])


# Largest error and root mean square of the errors of probabilities, as the docstring states them.
ACCURACY = {0.05: (5e-4, 1e-4), 1.0: (5e-3, 1e-3), 30.0: (2e-2, 5e-3), 1e4: (2e-2, 5e-3)}


@pytest.mark.parametrize("K", [3, 5, 8])
def test_softmax_where_only_one_direction_is_uncertain(K):
    """Of a singular covariance rounding is left, which must not become another direction."""
    rng = np.random.default_rng(K)
    m, direction = 3 * rng.normal(size=(40, K)), rng.normal(size=(40, K))
    direction *= 10 ** rng.uniform(-2, 1, size=(40, 1))
    got = np.exp(log_mean_softmax(m, direction[:, :, None] * direction[:, None, :]))
    z = np.linspace(-9, 9, 20_001)
    weight = np.exp(-0.5 * z**2)
    for i in range(40):
        p = softmax(m[i] + z[:, None] * direction[i], axis=1)
        assert_allclose(got[i], weight @ p / weight.sum(), atol=1e-3)


@pytest.mark.parametrize("v", ACCURACY)
@pytest.mark.parametrize("kind", ["full", "independent", "two directions"])
def test_three_classes_against_a_grid(v, kind):
    rng = np.random.default_rng(0)
    m = rng.normal(size=(4, 3)) * (1 + v) ** 0.5
    Sigma = covariances(kind, 4, 3, v, rng)
    want = np.array([softmax_by_grid(*row) for row in zip(m, Sigma, strict=True)])
    error = np.exp(log_mean_softmax(m, Sigma)) - want
    largest, typical = ACCURACY[v]
    assert np.abs(error).max() < largest / 4  # few classes can afford more points
    assert np.sqrt(np.mean(error**2)) < typical / 4


@pytest.mark.parametrize(
    ("K", "v"), [(4, 0.05), (4, 1.0), (4, 30.0), (4, 1e4), (10, 30.0), (26, 1.0)]
)
def test_independent_classes_against_one_integral(K, v):
    rng = np.random.default_rng(K)
    rows = 2 if K < 26 else 1  # the integral of each takes long
    m = rng.normal(size=(rows, K)) * (1 + v) ** 0.5
    variances = v * rng.uniform(0.2, 1, size=(rows, K))
    want = np.array([softmax_of_independent(*row) for row in zip(m, variances, strict=True)])
    assert_allclose(want.sum(axis=1), 1, atol=1e-4)
    shared = 5.0 * np.ones((K, K))  # a shift of all classes at once has no effect
    error = np.exp(log_mean_softmax(m, variances[:, :, None] * np.eye(K) + shared)) - want
    largest, typical = ACCURACY[v]
    assert np.abs(error).max() < largest
    assert np.sqrt(np.mean(error**2)) < typical


@pairwise(kind=["full", "two directions"], K=[5, 10, 26], v=list(ACCURACY))
def test_many_classes_against_monte_carlo(kind, K, v):
    """Against 20 000 draws and their standard error."""
    rng = np.random.default_rng(K)
    m = rng.normal(size=(4, K)) * (1 + v) ** 0.5
    Sigma = covariances(kind, 4, K, v, rng)
    got = np.exp(log_mean_softmax(m, Sigma))
    largest, _ = ACCURACY[v]
    for i in range(4):
        root = np.linalg.cholesky(Sigma[i] + 1e-9 * v * np.eye(K))
        draws = softmax(m[i] + rng.normal(size=(20_000, K)) @ root.T, axis=1)
        error = draws.std(axis=0) / len(draws) ** 0.5
        assert (np.abs(got[i] - draws.mean(axis=0)) < largest + 4 * error).all()


@pytest.mark.parametrize("K", [2, 3, 5, 10, 26, 60])
@pytest.mark.parametrize("v", [0.05, 1.0, 30.0])
def test_probabilities_of_several_classes(K, v):
    rng = np.random.default_rng(0)
    m = rng.normal(size=(7, K))
    Sigma = covariances("full", 7, K, v, rng)
    got = log_mean_softmax(m, Sigma)
    assert_allclose(np.exp(got).sum(axis=1), 1, rtol=1e-13)
    assert_allclose(log_mean_softmax(m, 0 * Sigma), plug_in_pair(m), rtol=1e-12)
    order = rng.permutation(K)  # pivoting makes the classes' order irrelevant
    permuted = log_mean_softmax(m[:, order], Sigma[:, order][:, :, order])
    assert_allclose(permuted, got[:, order], rtol=1e-9, atol=1e-12)
    u = rng.normal(size=(7, K))
    moved = Sigma + u[:, :, None] + u[:, None, :] + 50.0
    assert_allclose(log_mean_softmax(m + 7.0, moved), got, rtol=1e-6, atol=1e-8)
    assert_allclose(log_mean_softmax(m[3:4], Sigma[3:4]), got[3:4], rtol=1e-13)  # by itself


def plug_in_pair(m):
    return m - logsumexp(m, axis=1, keepdims=True)


def test_equal_classes_are_nearly_equal():
    for K, v in itertools.product((3, 10), (0.05, 1.0, 30.0)):
        got = np.exp(log_mean_softmax(np.zeros((1, K)), v * np.eye(K)[None]))
        assert np.abs(got - 1 / K).max() < ACCURACY[v][0] / 2


def test_two_of_several_classes_are_one_difference():
    rng = np.random.default_rng(0)
    m, Sigma = rng.normal(size=(9, 2)) * 3, covariances("full", 9, 2, 4.0, rng)
    difference = np.array([-1.0, 1.0])
    want = log_mean_sigmoid(m @ difference, difference @ Sigma @ difference)
    assert_allclose(log_mean_softmax(m, Sigma), want, rtol=1e-12)
    far = np.full((9, 1), -60.0)  # a third class that is out of the question
    three = np.zeros((9, 3, 3))
    three[:, :2, :2] = Sigma
    got = log_mean_softmax(np.hstack([m, far]), three)
    assert_allclose(np.exp(got[:, :2]), np.exp(want), atol=5e-3)


def test_small_probabilities_of_several_classes_do_not_vanish():
    m = np.array([[0.0, -2000.0, 5.0, -800.0]])
    for v in (0.0, 0.05, 1.0):
        got = log_mean_softmax(m, v * np.eye(4)[None])
        assert_allclose(got[0, 1] - m[0, 1] + 5.0, 0, atol=3.0)
        assert_allclose(got[0, 3] - m[0, 3] + 5.0, 0, atol=3.0)
    with np.errstate(all="raise", under="ignore"):
        far = log_mean_softmax(np.array([[1e300, -1e300, 0.0]]), 1e6 * np.eye(3)[None])
    assert not np.isnan(far).any()


def test_plug_in():
    f = np.array([[-1e3], [0.0], [2.0]])
    assert_allclose(plug_in(f)[:, 1], [-1e3, np.log(0.5), -np.log1p(np.exp(-2.0))])
    assert_allclose(np.exp(plug_in(f)).sum(axis=1), 1)
    several = np.array([[1e3, 0.0, -1e3]])
    assert_allclose(plug_in(several), [[0.0, -1e3, -2e3]])


LABELS = np.array(["ant", "bee", "cat"])
FORECAST = Categorical(np.log([[0.2, 0.5, 0.3], [0.9, 0.05, 0.05]]), LABELS)


def test_categorical():
    assert_allclose(FORECAST.proba.sum(axis=1), 1)
    assert FORECAST.mode.tolist() == ["bee", "ant"]
    assert_allclose(FORECAST.entropy, stats.entropy(FORECAST.proba, axis=1))
    assert_allclose(FORECAST.logpmf(["ant", "cat"]), np.log([0.2, 0.05]))
    assert_allclose(FORECAST.logpmf("bee"), np.log([0.5, 0.05]))
    numbered = Categorical(FORECAST.log_proba)
    assert numbered.mode.tolist() == [1, 0]
    assert_allclose(numbered.logpmf([2.0, 0.0]), np.log([0.3, 0.9]))
    with np.errstate(divide="ignore"):
        certain = Categorical(np.log([[1.0, 0.0]]))
    assert_array_equal(certain.entropy, [0.0])
    assert not np.signbit(certain.entropy[0])


def test_categorical_refuses_strange_labels():
    with pytest.raises(ValueError, match="'dog' is not one of the classes"):
        FORECAST.logpmf(["ant", "dog"])
    with pytest.raises(ValueError, match="expected 2 labels"):
        FORECAST.logpmf(["ant", "bee", "cat"])


def test_categorical_draws():
    draws = FORECAST.sample(20_000, random_state=0)
    assert draws.shape == (20_000, 2)
    frequency = (draws[:, :, None] == LABELS).mean(axis=0)
    assert np.abs(frequency - FORECAST.proba).max() < 0.02
    assert_array_equal(draws, FORECAST.sample(20_000, random_state=0))
    certain = Categorical(np.array([[0.0, -np.inf]]))
    assert (certain.sample(50, random_state=0) == 0).all()


def pmf_by_quad(k, m, s):
    """E Poisson(k; exp(f)): a fine grid around the mode of the integrand, coarsely found."""

    def logs(f):
        return k * f - np.exp(np.minimum(f, 600.0)) - gammaln(k + 1) - 0.5 * ((f - m) / s) ** 2

    f = np.linspace(m - 12 * s - 30, m + 12 * s + 30, 20_001)
    inside = f[logs(f) > logs(f).max() - 45]
    f = np.linspace(inside[0] - 1e-2, inside[-1] + 1e-2, 4001)
    return logsumexp(logs(f)) + np.log((f[1] - f[0]) / s) - 0.5 * np.log(2 * np.pi)


@pytest.mark.parametrize("s", [1e-3, 0.1, 1.0, 2.9, 3.1, 8.0])
@pytest.mark.parametrize("m", [-8.0, -1.0, 1.0, 5.0])
def test_counts_against_quad(m, s):
    k = np.array([0.0, 1.0, 2.0, 7.0, 150.0, 2000.0])
    forecast = Counts(np.full(6, m), np.full(6, s))
    got = forecast.logpmf(k)
    for i, count in enumerate(k):
        want = pmf_by_quad(count, m, s)
        if want > -40:
            assert_allclose(got[i], want, rtol=1e-6, atol=1e-7)
    assert_allclose(forecast.pmf(k), np.exp(got))


@pytest.mark.parametrize("s", [0.0, 1e-6, 0.1, 0.7, 1.5, 4.0, 30.0])
@pytest.mark.parametrize("m", [-2.0, 0.5, 3.0])
def test_distribution_function_is_the_sum(m, s):
    k = np.arange(200.0)
    forecast = Counts(np.full(200, m), np.full(200, s))
    assert_allclose(forecast.cdf(k), np.cumsum(forecast.pmf(k)), atol=1e-10)
    assert_allclose(forecast.cdf(k + 0.5), forecast.cdf(k))
    assert_array_equal(forecast.cdf(-1.0), np.zeros(200))
    assert_array_equal(forecast.cdf(np.inf), np.ones(200))


def test_counts_at_a_known_rate_are_poisson():
    m = np.array([-20.0, -1.0, 0.0, 2.0, 10.0, 25.0])
    forecast, frozen = Counts(m, np.zeros(6)), stats.poisson(np.exp(m))
    k = np.floor(np.exp(m) * 1.0001)
    assert_allclose(forecast.logpmf(k), frozen.logpmf(k), rtol=1e-6, atol=1e-12)
    assert_allclose(forecast.cdf(k), frozen.cdf(k), atol=1e-9)
    assert_allclose(forecast.mean, frozen.mean())
    assert_allclose(forecast.std, frozen.std())
    for p in (0.01, 0.3, 0.5, 0.99):
        assert_array_equal(forecast.ppf(p)[:-1], frozen.ppf(p)[:-1])
        assert_allclose(forecast.ppf(p)[-1], np.exp(25.0), rtol=1e-4)


def test_moments_of_counts():
    forecast = Counts(np.array([0.5, 1.5]), np.array([0.8, 0.3]))
    k = np.arange(3000.0)
    p = forecast.pmf(k[:, None])
    assert p.shape == (3000, 2)
    assert_allclose(p.sum(axis=0), 1, rtol=1e-8)
    assert_allclose(k @ p, forecast.mean, rtol=1e-7)
    assert_allclose(k**2 @ p - (k @ p) ** 2, forecast.variance, rtol=1e-6)
    assert_allclose(forecast.std**2, forecast.variance)


@pytest.mark.parametrize("p", [1e-6, 0.05, 0.5, 0.95, 1 - 1e-6])
def test_quantiles_are_the_smallest_counts_that_reach(p):
    rng = np.random.default_rng(0)
    forecast = Counts(rng.uniform(-10, 15, 300), rng.uniform(0, 3, 300))
    k = forecast.ppf(p)
    assert_array_equal(k, np.floor(k))
    assert (forecast.cdf(k) >= p).all()
    assert (forecast.cdf(k - 1) < p).all()


def test_edges_of_quantiles():
    forecast = Counts(np.array([-800.0, 0.0, 40.0, 900.0]), np.array([0.0, 1.0, 0.5, 2.0]))
    assert_array_equal(forecast.ppf(0.0), np.zeros(4))
    assert_array_equal(forecast.ppf(1.0), np.full(4, np.inf))
    assert_allclose(forecast.ppf(0.5), [0.0, 1.0, np.exp(40.0), np.inf])
    low, high = forecast.interval(0.9)
    assert (low <= high).all()
    assert forecast.cdf(high)[1] >= 0.95
    for wrong in (-0.1, 1.1, np.nan):
        with pytest.raises(ValueError, match="probability"):
            forecast.ppf(wrong)
    for wrong in (0.0, 1.0, np.nan):
        with pytest.raises(ValueError, match="level"):
            forecast.interval(wrong)


def test_what_is_no_count_has_no_probability():
    forecast = Counts(np.zeros(5), np.ones(5))
    y = [-1.0, 0.5, np.inf, np.nan, 2.0]
    assert_array_equal(np.isinf(forecast.logpmf(y)), [True, True, True, True, False])
    assert_array_equal(forecast.pmf(y)[:4], np.zeros(4))
    assert np.isnan(forecast.cdf(np.nan)).all()


def test_counts_far_out():
    forecast = Counts(np.array([-1e3, 800.0, 5.0, 0.0]), np.array([1.0, 1.0, 1e3, 50.0]))
    with np.errstate(all="raise", under="ignore"):
        assert_array_equal(np.isinf(forecast.mean), [False, True, True, True])
        assert not np.isnan(forecast.std).any()
        for k in (0.0, 3.0, 1e15):
            assert not np.isnan(forecast.logpmf(k)).any()
            assert not np.isnan(forecast.cdf(k)).any()
        assert not np.isnan(forecast.sample(5, random_state=0)).any()
    assert_allclose(forecast.cdf(0.0)[0], 1.0)


def test_counts_of_another_number():
    forecast = Counts(np.zeros(3), np.ones(3))
    for wrong in ([1, 2], np.ones((3, 2))):
        for method in (forecast.logpmf, forecast.pmf, forecast.cdf, forecast.ppf):
            with pytest.raises(ValueError, match=r"of shape \(3,\), one for each row, got"):
                method(np.asarray(wrong) / 2)
    assert forecast.logpmf(np.ones((4, 1))).shape == (4, 3)
    with pytest.raises(ValueError, match="level must lie between 0 and 1, got 'most'"):
        forecast.interval("most")


def test_counts_draws():
    forecast = Counts(np.array([1.0, 4.0]), np.array([0.5, 0.0]))
    draws = forecast.sample(40_000, random_state=0)
    assert draws.shape == (40_000, 2)
    assert_array_equal(draws, np.floor(draws))
    error = forecast.std / 200
    assert (np.abs(draws.mean(axis=0) - forecast.mean) < 4 * error).all()
    assert_allclose(draws.std(axis=0), forecast.std, rtol=0.03)
    assert np.abs((draws <= 3).mean(axis=0) - forecast.cdf(3)).max() < 0.01


def test_likelihoods_hand_over_their_latent_moments():
    mean, covariance = np.array([[0.4], [2.0]]), np.array([[[0.5]], [[2.0]]])
    two = Bernoulli().predictive(mean, covariance)
    assert_array_equal(two.log_proba, log_mean_sigmoid(mean[:, 0], covariance[:, 0, 0]))
    counts = Poisson().predictive(mean, covariance)
    assert_array_equal(counts.log_rate, mean[:, 0])
    assert_allclose(counts.log_rate_std**2, covariance[:, 0, 0])
    m = np.array([[0.4, 2.0, -1.0]])
    three = Multinomial(3).predictive(m, np.eye(3)[None])
    assert_array_equal(three.log_proba, log_mean_softmax(m, np.eye(3)[None]))
