"""Regressors with other likelihoods than normal noise: counts, and one of the user's own."""

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit
from sklearn.base import clone
from sklearn.exceptions import DataConversionWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils import get_tags

from sparsebayes import RVR, SparseBayesRegressor
from sparsebayes.dictionaries import Kernel, Linear
from sparsebayes.likelihoods import Bernoulli, Expansion, Gaussian, Multinomial, Poisson
from sparsebayes.predictive import Normal

N = 120
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 5))
RATE = np.exp(1 + X[:, 1] - 0.5 * X[:, 3])
COUNTS = RNG.poisson(RATE)
MODELS = {
    "linear": SparseBayesRegressor(likelihood="poisson"),
    "kernel": RVR(gamma=0.05, likelihood="poisson"),
    "union": SparseBayesRegressor(Linear() + Kernel(gamma=0.1), likelihood="poisson", prior="bic"),
}
EACH = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)


@dataclass(frozen=True)
class Logistic:
    """Noise with longer tails than the normal: a likelihood as a user would write it."""

    scale: float

    @property
    def n_latent(self):
        return 1

    def check(self, y):
        return np.asarray(y, dtype=float)

    def expand(self, t, f):
        z = (t - f[:, 0]) / self.scale
        p = expit(z)
        value = -np.logaddexp(0, z) - np.logaddexp(0, -z) - np.log(self.scale)
        curvature = 2 * p * (1 - p) / self.scale**2
        return Expansion(value, ((2 * p - 1) / self.scale)[:, None], curvature[:, None, None])

    def predictive(self, mean, covariance):
        noise = np.pi**2 / 3 * self.scale**2
        variance = covariance[:, 0, 0]
        return Normal(mean[:, 0], np.sqrt(variance + noise), np.sqrt(variance))


def test_fitted_attributes():
    model = SparseBayesRegressor(likelihood="poisson").fit(X, COUNTS)
    assert {1, 3} <= set(model.relevance_.tolist())
    assert_array_equal(model.coef_[model.relevance_], model.weights_)
    assert_allclose(model.coef_, [0, 1, 0, -0.5, 0], atol=0.2)
    assert type(model.intercept_) is float
    assert_allclose(model.intercept_, 1, atol=0.2)
    m = len(model.relevance_)
    assert model.weights_.shape == model.prior_variance_.shape == (m,)
    assert model.covariance_.shape == (m, m)
    assert model.likelihood_ == Poisson()
    assert not hasattr(model, "noise_variance_")
    assert model.certificate_.holds(model.tol)
    # The rate, averaged over the posterior of its logarithm, is a little above exp(f).
    f = X @ model.coef_ + model.intercept_
    assert (model.predict(X) >= np.exp(f) * (1 - 1e-9)).all()
    assert_allclose(model.predict(X), np.exp(f), rtol=0.1)
    vectors = RVR(gamma=0.05, likelihood="poisson").fit(X, COUNTS)
    assert_array_equal(vectors.relevance_vectors_, X[vectors.relevance_])
    Phi = rbf_kernel(X, vectors.relevance_vectors_, gamma=0.05)
    latent = vectors.posterior_.predict(X)[:, 0]
    assert_allclose(Phi @ vectors.weights_ + vectors.intercept_, latent, atol=1e-8)


@EACH
def test_predictions_are_those_of_the_draws(model):
    model.fit(X, COUNTS)
    mean, std = model.predict(X[:10], return_std=True)
    counts = model.sample_y(X[:10], 20_000, noise=True)
    assert counts.shape == (10, 20_000)
    assert_array_equal(counts, counts.round())
    assert_allclose(counts.mean(axis=1), mean, rtol=0.05)
    assert_allclose(counts.std(axis=1), std, rtol=0.1)
    rates = model.sample_y(X[:10], 20_000)
    assert (rates > 0).all()
    assert_allclose(rates.mean(axis=1), mean, rtol=0.05)
    assert (rates.std(axis=1) < std).all()
    assert_array_equal(model.sample_y(X[:3], 2, random_state=1), model.sample_y(X[:3], 2, 1))
    forecast = model.predict_distribution(X)
    assert_allclose(model.predict(X), np.exp(model.posterior_.predict(X)[:, 0]))  # median rates
    assert (forecast.mean > model.predict(X)).all()
    low, high = forecast.interval(0.9)
    assert np.mean((low <= COUNTS) & (COUNTS <= high)) > 0.85
    assert model.score(X, COUNTS) > 0.6


def test_the_latent_path_equals_regression_where_both_apply():
    y = np.log(RATE) + 0.3 * RNG.normal(size=N)
    exact = SparseBayesRegressor(noise_variance=0.09).fit(X, y)
    other = SparseBayesRegressor(likelihood=Gaussian(0.09)).fit(X, y)
    assert_array_equal(other.relevance_, exact.relevance_)
    assert_allclose(other.log_marginal_likelihood_, exact.log_marginal_likelihood_, rtol=1e-6)
    assert_allclose(
        other.predict(X, return_std=True), exact.predict(X, return_std=True), rtol=1e-5, atol=1e-5
    )
    assert_allclose(other.covariance_, exact.covariance_, rtol=1e-4)
    assert_allclose(other.prior_variance_, exact.prior_variance_, rtol=1e-4)


def test_a_likelihood_of_ones_own():
    y = X[:, 1] - 2 * X[:, 4] + RNG.logistic(scale=0.1, size=N)
    y[::20] += 5
    model = SparseBayesRegressor(likelihood=Logistic(0.1)).fit(X, y)
    assert_array_equal(model.relevance_, [1, 4])
    assert_allclose(model.coef_[[1, 4]], [1, -2], atol=0.1)
    assert isinstance(model.predict_distribution(X), Normal)
    assert model.sample_y(X, 3).shape == model.sample_y(X, 3, noise=True).shape == (N, 3)
    assert clone(model).likelihood == Logistic(0.1)
    with pytest.raises(ValueError, match="likelihood Logistic.*cannot be stored.*pickle"):
        model.save("nowhere.model")


@EACH
def test_weights_equal_repetition(model):
    w = np.random.default_rng(1).integers(0, 4, size=N)
    twice = np.repeat(np.arange(N), w)
    want = model.fit(X, COUNTS, sample_weight=w)
    mean, evidence = want.predict(X), want.log_marginal_likelihood_
    again = model.fit(X[twice], COUNTS[twice])
    assert_array_equal(again.predict(X), mean)
    assert again.log_marginal_likelihood_ == evidence


def test_another_likelihood_leaves_nothing_of_the_last():
    model = SparseBayesRegressor(warm_start=True).fit(X, COUNTS)
    assert hasattr(model, "noise_variance_")
    model.set_params(likelihood="poisson").fit(X, COUNTS)
    assert not hasattr(model, "noise_variance_")
    assert model.fit(X, COUNTS).converged_
    model.set_params(likelihood="gaussian").fit(X, COUNTS)
    assert not hasattr(model, "likelihood_")
    assert model.predict(X, return_cov=True)[1].shape == (N, N)


def test_what_counts_refuse():
    model = SparseBayesRegressor(likelihood="poisson")
    for wrong, message in [
        (COUNTS - 1, "counts, which are not negative"),
        (COUNTS + 0.5, "counts, which are integers"),
        (COUNTS * 0, "no count above zero"),
        (np.stack([COUNTS, COUNTS], axis=1), "1d|1-d|2d"),
        (np.where(COUNTS > 3, np.nan, 1.0), "NaN"),
        (["one"] * N, "."),
    ]:
        with pytest.raises(ValueError, match=message):
            model.fit(X, wrong)
    with pytest.raises(ValueError, match="no count above zero"):
        model.fit(X, COUNTS, sample_weight=(COUNTS == 0).astype(float))
    with pytest.raises(ValueError, match=r"return_cov is not available for likelihood=Poisson\(\)"):
        model.fit(X, COUNTS).set_params(likelihood="gaussian").predict(X, return_cov=True)
    model.set_params(likelihood="poisson")
    with pytest.warns(DataConversionWarning):
        assert model.fit(X, COUNTS[:, None]).predict(X).shape == (N,)


@pytest.mark.parametrize(
    ("likelihood", "message"),
    [
        ("binomial", "likelihood must be 'gaussian', 'poisson' or"),
        (None, "likelihood must be"),
        (Poisson, "likelihood must be"),
        (3, "likelihood must be"),
        (Bernoulli(), "use SparseBayesClassifier"),
        (Multinomial(3), "use SparseBayesClassifier"),
    ],
    ids=str,
)
def test_likelihoods_that_make_no_sense(likelihood, message):
    for make in (SparseBayesRegressor, RVR):
        with pytest.raises((TypeError, ValueError), match=message):
            make(likelihood=likelihood).fit(X, COUNTS)


def test_noise_is_of_the_gaussian_only():
    for likelihood in ("poisson", Poisson(), Gaussian(0.1)):
        with pytest.raises(ValueError, match="noise_variance=0.1 is for likelihood='gaussian'"):
            RVR(likelihood=likelihood, noise_variance=0.1).fit(X, COUNTS)


def test_tags():
    assert get_tags(RVR()).target_tags.multi_output
    for likelihood in ("poisson", Poisson()):
        tags = get_tags(RVR(likelihood=likelihood)).target_tags
        assert tags.positive_only
        assert not tags.multi_output
    assert not get_tags(RVR(likelihood=Gaussian(0.1))).target_tags.positive_only


@pytest.mark.parametrize("largest", [1, 1_000, 1_000_000])
def test_counts_of_any_size(largest):
    rng = np.random.default_rng(2)
    x = np.linspace(0, 1, 60)[:, None]
    rate = largest * (0.2 + 0.8 * np.sin(3 * x[:, 0]) ** 2)
    counts = rng.poisson(rate)
    model = RVR(gamma=20.0, likelihood="poisson").fit(x, counts)
    assert_allclose(model.predict(x), rate, atol=4 * np.sqrt(largest), rtol=0.2)


def test_one_count_only():
    counts = np.zeros(N)
    counts[17] = 3
    model = SparseBayesRegressor(likelihood="poisson").fit(X, counts)
    assert np.isfinite(model.predict(X)).all()
    flat = SparseBayesRegressor(likelihood="poisson").fit(np.ones((N, 1)), counts)
    assert_allclose(np.exp(flat.intercept_), 3 / N, rtol=1e-6)


class Halves(Bernoulli):
    """A likelihood of classes, of a user's."""


@pytest.mark.parametrize("likelihood", [Halves(), Bernoulli(), Multinomial(3)], ids=repr)
def test_likelihoods_of_classes_are_refused(likelihood):
    with pytest.raises(ValueError, match="is one of classes, and a regressor predicts numbers"):
        SparseBayesRegressor(likelihood=likelihood).fit(X, COUNTS)


@pytest.mark.parametrize("likelihood", ["poisson", "gaussian"])
@pytest.mark.parametrize("options", [{}, {"return_std": True}], ids=str)
def test_inputs_of_any_size_are_predicted_or_refused_in_a_sentence(likelihood, options):
    rng = np.random.default_rng(0)
    Z = 0.1 * rng.uniform(size=(40, 2))
    model = RVR("linear", likelihood=likelihood).fit(Z, rng.poisson(np.exp(10 * Z[:, 0])))
    for size in 1e308, -1e308:
        with pytest.raises(ValueError, match="overflow on this X"):
            model.predict(np.full((1, 2), size), **options)
