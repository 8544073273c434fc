"""Predictions, error bars and evidence against their definitions, in dense algebra."""

import tracemalloc
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from sparsebayes import RVR, SparseBayesClassifier, SparseBayesRegressor
from sparsebayes.dictionaries import Bias, Kernel, Linear
from sparsebayes.predictive import Normal

N, D = 60, 4


def data(targets=None, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, D))
    f = 5.0 + np.sin(2 * X[:, 0]) + X[:, 1]
    if targets is not None:
        f = np.stack([f * (1 + t) + t * X[:, 2] for t in range(targets)], axis=1)
    return X, f + 0.2 * rng.normal(size=f.shape)


def weights(seed=1):
    return np.random.default_rng(seed).integers(0, 4, size=N)


MODELS = {
    "linear": (SparseBayesRegressor(), data(), None),
    "no intercept": (SparseBayesRegressor(fit_intercept=False), data(), None),
    "kernel": (RVR(gamma=0.5), data(), None),
    "kernel, no intercept": (RVR(gamma=0.5, fit_intercept=False, prior="bic"), data(), None),
    "union": (SparseBayesRegressor(Linear() + Kernel(gamma=0.5)), data(), None),
    "bias": (SparseBayesRegressor(Bias() + Linear(), fit_intercept=False), data(), None),
    "two targets": (SparseBayesRegressor(), data(2), None),
    "one column": (SparseBayesRegressor(), data(1), None),
    "kernel, three targets": (RVR(gamma=0.5, prior="bic"), data(3), None),
    "weights": (RVR(gamma=0.1, prior="bic"), data(), weights()),
    "weights, two targets": (SparseBayesRegressor(fit_intercept=False), data(2), weights()),
    "given noise": (RVR(gamma=0.5, noise_variance=0.3), data(), None),
    "sequential": (RVR(gamma=0.5, prior="aic", solver="sequential"), data(), None),
    "small targets": (RVR(gamma=0.5), (data()[0], 1e-9 * data()[1]), None),
    "large targets": (SparseBayesRegressor(), (data()[0], 1e9 * data()[1]), weights()),
    "sparse": (SparseBayesRegressor(), (sp.csr_array(data()[0]), data()[1]), None),
    "nothing to find": (SparseBayesRegressor(), (data()[0], np.tile([1.0, 2.0], N // 2)), None),
}


@pytest.fixture(scope="module", params=MODELS)
def case(request):
    model, (X, y), w = MODELS[request.param]
    return model.fit(X, y, sample_weight=w), X, y, w


def dense(A):
    return A.toarray() if sp.issparse(A) else np.asarray(A)


def design(model, X):
    """Active atoms as given and, with an intercept, a column of ones; precisions of the weights."""
    Phi = dense(model.posterior_.atoms.evaluate(X))
    precision = 1.0 / model.prior_variance_
    if model.fit_intercept:
        Phi = np.column_stack([Phi, np.ones(X.shape[0])])
        precision = np.append(precision, 0.0)
    return Phi, precision


def moments(model, X, y, w):
    """Posterior mean and covariance of the weights, the intercept last."""
    Phi, precision = design(model, X)
    W = np.eye(len(y)) if w is None else np.diag(w.astype(float))
    noise = model.noise_variance_
    H = Phi.T @ W @ Phi / noise + np.diag(precision)
    unit = 1 / np.sqrt(H.diagonal())  # atoms of very different scales
    Sigma = np.linalg.inv(H * unit * unit[:, None]) * unit * unit[:, None]
    return Sigma @ (Phi.T @ W @ y) / noise, Sigma


def new_rows(X):
    rng = np.random.default_rng(5)
    rows = np.vstack([rng.normal(size=(7, D)), np.full((1, D), 30.0)])  # the last one is far away
    return sp.csr_array(rows) if sp.issparse(X) else rows


def test_posterior_of_the_weights(case):
    model, X, y, w = case
    mean, Sigma = moments(model, X, y, w)
    m = len(model.relevance_)
    assert_allclose(model.weights_, mean[:m], rtol=1e-7, atol=1e-9 * np.abs(y).max())
    assert_allclose(model.covariance_, Sigma[:m, :m], rtol=1e-6, atol=1e-9 * Sigma.max(initial=0))
    if model.fit_intercept:
        assert_allclose(model.intercept_, mean[m], rtol=1e-7)
    else:
        assert_array_equal(model.intercept_, np.zeros(np.shape(model.intercept_)))


def test_predictive_moments(case):
    model, X, y, w = case
    mean, Sigma = moments(model, X, y, w)
    rows = new_rows(X)
    Phi, _ = design(model, rows)
    want = Phi @ mean
    cov = Phi @ Sigma @ Phi.T
    noise = model.noise_variance_
    got, std = model.predict(rows, return_std=True)
    assert got.shape == std.shape == want.shape
    assert_allclose(got, want, rtol=1e-7)
    assert_array_equal(model.predict(rows), got)
    for column in std.reshape(len(std), -1).T:
        assert_allclose(column**2, cov.diagonal() + noise, rtol=1e-7)
    same, full = model.predict(rows, return_cov=True)
    assert_array_equal(same, got)
    assert_allclose(full, cov + noise * np.eye(len(full)), rtol=1e-6, atol=1e-9 * full.max())
    assert_array_equal(full, full.T)
    assert np.linalg.eigvalsh(full).min() > 0
    forecast = model.predict_distribution(rows)
    assert_array_equal(forecast.mean, got)
    assert_array_equal(forecast.std, std)
    assert_allclose(forecast.variance, std**2)
    assert_allclose(forecast.function_std**2 + noise, std**2, rtol=1e-9)


def log_evidence(model, X, y, w):
    """Density of the targets, a flat intercept integrated out; weights are repeated rows."""
    count = np.ones(len(y), dtype=int) if w is None else w
    Phi = dense(model.posterior_.atoms.evaluate(X)).repeat(count, axis=0)
    y = y.reshape(len(y), -1).repeat(count, axis=0)
    C = model.noise_variance_ * np.eye(len(y)) + (Phi * model.prior_variance_) @ Phi.T
    inverse, one = np.linalg.inv(C), np.ones(len(y))
    log_det = np.linalg.slogdet(C)[1]
    total, n = 0.0, len(y)
    if model.fit_intercept:
        seen = inverse @ one
        log_det += np.log(one @ seen)
        inverse = inverse - np.outer(seen, seen) / (one @ seen)
        n -= 1
    for t in y.T:
        total -= 0.5 * (n * np.log(2 * np.pi) + log_det + t @ inverse @ t)
    return total


def test_evidence(case):
    model, X, y, w = case
    assert_allclose(model.log_marginal_likelihood_, log_evidence(model, X, y, w), rtol=1e-8)


def test_samples_have_the_posterior_moments(case):
    model, X, y, _ = case
    rows = new_rows(X)
    mean, cov = model.predict(rows, return_cov=True)
    size = 4000
    for noise in (False, True):
        draws = model.sample_y(rows, size, random_state=3, noise=noise)
        assert draws.shape == (*mean.shape, size)
        want = cov if noise else cov - model.noise_variance_ * np.eye(len(cov))
        spread = np.sqrt(np.maximum(want.diagonal(), 0.0))
        for t in range(1 if y.ndim == 1 else y.shape[1]):
            one = draws if y.ndim == 1 else draws[:, t]
            target = mean if y.ndim == 1 else mean[:, t]
            assert (np.abs(one.mean(axis=1) - target) <= 5 * spread / size**0.5 + 1e-12).all()
            scale = np.outer(spread, spread)
            assert (np.abs(np.cov(one) - want) <= 0.12 * scale + 1e-12 * scale.max()).all()
        assert_array_equal(draws, model.sample_y(rows, size, random_state=3, noise=noise))


def test_targets_are_drawn_independently():
    X, y = data(2)
    model = SparseBayesRegressor().fit(X, y)
    draws = model.sample_y(X[:1], 4000, random_state=0)[0]
    assert abs(np.corrcoef(draws)[0, 1]) < 0.08


def test_sample_y_asks_for_a_number():
    model = MODELS["linear"][0].fit(*data())
    assert model.sample_y(data()[0]).shape == (N, 1)
    for wrong in (0, -1, 1.5, "two"):
        with pytest.raises(ValueError, match="n_samples"):
            model.sample_y(data()[0], wrong)
    with pytest.raises(ValueError, match="random_state"):
        model.sample_y(data()[0], random_state="dice")


def test_std_or_cov():
    model = MODELS["linear"][0].fit(*data())
    with pytest.raises(ValueError, match="return_std and return_cov"):
        model.predict(data()[0], return_std=True, return_cov=True)


def test_error_bars_far_away_hold_the_intercept():
    X, y = data()
    model = RVR(gamma=0.5).fit(X, y)
    _, std = model.predict(np.full((1, D), 1e3), return_std=True)
    assert std[0] ** 2 > model.noise_variance_ * (1 + 1 / N)


def test_error_bars_cover():
    inside = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X = rng.uniform(-3, 3, size=(300, 1))
        y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=300)
        low, high = RVR(gamma=0.5).fit(X[:100], y[:100]).predict_distribution(X[100:]).interval(0.8)
        inside.append(np.mean((low < y[100:]) & (y[100:] < high)))
    assert 0.74 < np.mean(inside) < 0.86


def many_atoms():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    model = RVR(gamma=30.0, noise_variance=1e-2).fit(X, rng.normal(size=300))
    assert len(model.relevance_) > 200
    return model


def test_predictions_are_made_in_blocks():
    model = many_atoms()
    rows = np.random.default_rng(1).normal(size=(40_000, 2))
    table = 8 * len(rows) * len(model.relevance_)
    calls = {
        "std": lambda: model.predict(rows, return_std=True)[1],
        "mean": lambda: model.predict(rows),
        "draws": lambda: model.sample_y(rows, 2),
    }
    found = {}
    for name, call in calls.items():
        tracemalloc.start()
        result = found[name] = call()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 12e6 + 4 * result.nbytes < 0.2 * table, name
    mean, std = model.predict(rows[::999], return_std=True)
    assert_allclose(found["mean"][::999], mean, rtol=1e-9, atol=1e-12)
    assert_allclose(found["std"][::999], std, rtol=1e-9)


NORMAL = Normal(np.array([0.0, 2.0, -1.0]), np.array([1.0, 0.5, 3.0]), np.array([0.1, 0.2, 0.3]))


def test_normal_agrees_with_scipy():
    frozen = stats.norm(NORMAL.mean, NORMAL.std)
    y = np.array([0.3, -2.0, 8.0])
    assert_allclose(NORMAL.cdf(y), frozen.cdf(y))
    assert_allclose(NORMAL.logpdf(y), frozen.logpdf(y))
    assert_allclose(NORMAL.ppf(0.3), frozen.ppf(0.3))
    assert_allclose(NORMAL.ppf([[0.1], [0.9]]), frozen.ppf([[0.1], [0.9]]))
    assert_allclose(NORMAL.interval(0.7), frozen.interval(0.7))
    assert_allclose(NORMAL.variance, frozen.var())


def test_normal_draws():
    draws = NORMAL.sample(5000, random_state=0)
    assert draws.shape == (5000, 3)
    assert_allclose(draws.mean(axis=0), NORMAL.mean, atol=0.2)
    assert_allclose(draws.std(axis=0), NORMAL.std, rtol=0.05)
    assert_array_equal(draws, NORMAL.sample(5000, random_state=0))


@pytest.mark.parametrize("level", [0, 1, -0.5, 1.5, np.nan])
def test_normal_refuses_levels(level):
    with pytest.raises(ValueError, match="level"):
        NORMAL.interval(level)
    with pytest.raises(ValueError, match="probability"):
        NORMAL.ppf(level if level not in (0, 1) else 2.0)


def test_normal_does_not_cross_rows_with_rows():
    column = Normal(NORMAL.mean[:, None], NORMAL.std[:, None], NORMAL.function_std[:, None])
    for call in (column.cdf, column.logpdf):
        with pytest.raises(ValueError, match=r"shape \(3, 1\)"):
            call(np.zeros(3))
    assert column.cdf(np.zeros((3, 1))).shape == (3, 1)
    assert column.cdf(0.0).shape == (3, 1)


def test_normal_far_out_of_reach():
    assert_array_equal(NORMAL.logpdf(np.full(3, 1e300)), np.full(3, -np.inf))
    assert_array_equal(NORMAL.cdf(np.full(3, -1e300)), np.zeros(3))


@pytest.mark.parametrize(("kernel", "growth"), [("linear", 1), ("poly", 3)])
def test_far_away_error_bars_are_right_or_refused(kernel, growth):
    x, noise = data()[0][:, :1], np.random.default_rng(2).normal(size=N)
    model = RVR(kernel, gamma=1.0).fit(x, x[:, 0] ** growth + 0.1 * noise)
    # Squares of these leave the range of float64, the values themselves do not.
    near, far = (1e30, 1e80) if growth == 3 else (1e30, 1e180)
    (_, low), (_, high) = (model.predict([[x]], return_std=True) for x in (near, far))
    assert_allclose(high / low, (far / near) ** growth, rtol=1e-9)
    for options in ({"return_cov": True}, {"return_std": True, "marginalize": True}):
        with pytest.raises(ValueError, match="predictions overflow"):
            model.predict([[far]], **options)


def test_no_look_at_plain_arrays_is_left_out():
    X, y = data()
    model = RVR(gamma=0.5).fit(X, y)
    assert_array_equal(model.predict(X[:3]), model.predict(X[:3].tolist()))
    for bad, word in (
        (np.full((1, D), np.nan), "NaN"),
        (np.array([[np.inf, 1.0, 0.0, 0.0]]), "infinity"),
        (X[:, 1:], "3 features"),
        (X[:0], "0 sample"),
    ):
        with pytest.raises(ValueError, match=word):
            model.predict(np.ascontiguousarray(bad))
    with pytest.raises(ValueError, match="not fitted"):
        RVR().predict(X)
    named = RVR(gamma=0.5).fit(pd.DataFrame(X, columns=list("abcd")), y)
    with pytest.warns(UserWarning, match="valid feature names"):
        named.predict(X)


@dataclass(frozen=True, eq=False)
class Powers:
    """Powers of one column, in an array of their own whatever is given."""

    index: np.ndarray
    count: int = 5
    n_features_in: int = 1
    orthonormal: bool = False

    def bind(self, X, **options):
        return self

    @property
    def size(self):
        return len(self.index)

    def evaluate(self, X, out=None):
        return X ** (1 + self.index)

    def restrict(self, indices):
        return replace(self, index=self.index[np.asarray(indices, dtype=np.intp)])


@pytest.mark.parametrize("joined", [False, True])
def test_atoms_that_overlook_the_array_given_are_predicted_right(joined):
    powers = Powers(np.arange(5))
    dictionary = powers + Bias() if joined else powers
    X = np.arange(-6.0, 7.0)[:, None]
    target = X[:, 0] ** 3 - 4.0 * X[:, 0]
    model = SparseBayesRegressor(dictionary, prior="flat", noise_variance=1e-4).fit(X, target)
    for mean in model.predict(X), model.predict(X, return_std=True)[0]:
        assert_allclose(mean, target, atol=0.1)
    classes = SparseBayesClassifier(dictionary, prior="flat").fit(X, X[:, 0] > 0)
    assert_array_equal(classes.predict(X), X[:, 0] > 0)
