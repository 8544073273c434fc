"""Augmented error bars: the posterior of a larger model, found without fitting it."""

import copy
import gc
import pickle
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import oracle
import sparsebayes
from pairwise import pairwise
from sparsebayes import RVR, SparseBayesRegressor
from sparsebayes.datasets import sinc
from sparsebayes.dictionaries import Kernel, Linear, Operator, Union, Wavelet
from sparsebayes.hyperpriors import Gamma

NOISE = 0.02
FAR = np.array([[1e3, 1e3]])


def rbf(X, Z):
    return np.exp(-cdist(X, Z, "sqeuclidean"))


def poly(X, Z):
    return (0.3 * X @ Z.T + 1.0) ** 3


def lopsided(X, Z):
    """A kernel that is neither symmetric nor one at its center."""
    return np.exp(-0.5 * cdist(X, Z + 0.3, "cityblock")) * (2 + np.sin(Z).sum(axis=1))


def samples(n=80, seed=0, n_targets=1):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, 2))
    Y = 3 + np.stack([np.sin((k + 1) * X[:, 0]) + X[:, 1] for k in range(n_targets)], axis=1)
    Y += 0.1 * rng.normal(size=Y.shape)
    return X, Y[:, 0] if n_targets == 1 else Y


def elsewhere(n=12, seed=1):
    return np.random.default_rng(seed).uniform(-4, 4, size=(n, 2))


def machine(**settings):
    return RVR(**({"gamma": 1.0, "noise_variance": NOISE} | settings))


def by_definition(model, K, columns, columns_new, X, y, weights, X_new):
    """One more column beside the active ones, and the normal equations of the larger model.

    The active atoms are the given columns, then kernels K at the last relevance vectors. The
    intercept is a column of no prior precision. (The covariance form of the oracle cancels.)
    """
    Y, center, n_given = np.reshape(y, (len(y), -1)), model.fit_intercept, columns.shape[1]
    centers = X[model.relevance_[n_given:] - (2 if n_given else 0)]
    Phi, Phi_new = np.c_[columns, K(X, centers)], np.c_[columns_new, K(X_new, centers)]
    given = np.reshape(model.weights_, (Phi.shape[1], -1))[:n_given]
    to_explain = Y - (model.intercept_ if center else 0.0) - columns @ given
    weights = np.ones(len(X), dtype=int) if weights is None else weights
    size = np.average(np.mean(to_explain**2, axis=1), weights=weights)
    v_new = size / np.average(np.diag(K(X, X)) ** 2, weights=weights)
    precision = np.r_[1 / model.prior_variance_, 1 / v_new, np.zeros(int(center))]
    noise, targets = model.noise_variance_, oracle.repeated(Y, weights)
    mean, variance = np.empty((len(X_new), Y.shape[1])), np.empty(len(X_new))
    for i, x in enumerate(X_new[:, None]):
        wide = oracle.repeated(np.c_[Phi, K(X, x), np.ones((len(X), int(center)))], weights)
        row = np.r_[Phi_new[i], K(x, x)[0], np.ones(int(center))]
        H = np.diag(precision) + wide.T @ wide / noise
        mean[i] = row @ np.linalg.solve(H, wide.T @ targets / noise)
        variance[i] = row @ np.linalg.solve(H, row) + noise
    std = np.repeat(np.sqrt(variance)[:, None], Y.shape[1], axis=1)
    return (mean[:, 0], std[:, 0]) if np.ndim(y) == 1 else (mean, std)


NOTHING, NOTHING_NEW = np.empty((80, 0)), np.empty((12, 0))
KERNELS = {
    "rbf": ({}, rbf),
    "poly": ({"kernel": "poly", "gamma": 0.3, "coef0": 1.0}, poly),
    "of gaussian_process": (
        {"kernel": ConstantKernel(4.0) * RBF(0.5**0.5)},
        lambda X, Z: 4 * rbf(X, Z),
    ),
    "a function": ({"kernel": lopsided}, lopsided),
}


@pairwise(name=list(KERNELS), fit_intercept=[True, False], n_targets=[1, 3], weighted=[False, True])
def test_is_the_posterior_of_the_model_with_one_more_atom(name, fit_intercept, n_targets, weighted):
    settings, K = KERNELS[name]
    X, y = samples(n_targets=n_targets)
    X_new = elsewhere()
    X_new[0] = X[7]
    weights = np.random.default_rng(2).integers(0, 4, size=80) if weighted else None
    model = machine(fit_intercept=fit_intercept, **settings).fit(X, y, sample_weight=weights)
    assert len(model.relevance_) > 2
    mean, std = model.predict(X_new, return_std=True, augment=True)
    want_mean, want_std = by_definition(model, K, NOTHING, NOTHING_NEW, X, y, weights, X_new)
    np.testing.assert_allclose(mean, want_mean, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(std, want_std, rtol=1e-10, atol=1e-10)
    assert np.abs(std - model.predict(X_new, return_std=True)[1]).max() > 0.05
    np.testing.assert_array_equal(model.predict(X_new, augment=True), mean)


@pytest.mark.parametrize("nested", [False, True], ids=["flat", "nested"])
@pytest.mark.parametrize("order", [1, -1], ids=["linear first", "kernel first"])
def test_the_kernel_of_a_union_is_augmented_and_the_rest_is_its_trend(order, nested):
    X, y = samples()
    y = y + 5 * X[:, 0]
    X_new = elsewhere()
    kernel = Union([Kernel(gamma=1.0)]) if nested else Kernel(gamma=1.0)
    dictionary = Union([Linear(), kernel][::order])
    model = SparseBayesRegressor(dictionary, noise_variance=NOISE, prior="flat").fit(X, y)
    is_linear = model.relevance_ < 2 if order == 1 else model.relevance_ >= 80
    assert is_linear.sum() == 2
    assert (~is_linear).sum() > 2
    twin = copy.copy(model)  # the linear atoms first, whatever the union's order
    if order == -1:
        arranged = np.argsort(~is_linear, kind="stable")
        shifted = np.where(is_linear, model.relevance_ - 80, model.relevance_ + 2)
        twin.relevance_, twin.weights_ = shifted[arranged], model.weights_[arranged]
        twin.prior_variance_ = model.prior_variance_[arranged]
    want = by_definition(twin, rbf, X, X_new, X, y, None, X_new)
    found = model.predict(X_new, return_std=True, augment=True)
    np.testing.assert_allclose(found, want, rtol=1e-10, atol=1e-10)


def test_far_away_the_new_atom_is_all_there_is():
    X, y = samples()
    model = machine().fit(X, y)
    mean, std = model.predict(FAR, return_std=True, augment=True)
    plain = model.predict(FAR, return_std=True)[1]
    size = np.mean((y - model.intercept_) ** 2)
    np.testing.assert_allclose(mean, model.intercept_, rtol=1e-12)
    np.testing.assert_allclose(std, np.sqrt(plain**2 + size), rtol=1e-12)
    assert std > 3 * plain


@pytest.mark.parametrize(
    "settings",
    [
        {"gamma": "evidence"},
        {"gamma": "ard"},
        {"gamma": 1.0, "solver": "em"},
        {"gamma": 1.0, "solver": "mackay", "prior": Gamma(1e-3, 1e-3)},
        {"gamma": 1.0, "solver": "sequential"},
        {"gamma": 1.0, "noise_prior": (1.0, 0.1)},
        {"gamma": 1.0, "centers": [[0.0, 0.0], [1.0, 1.0], [5.0, -5.0]]},
    ],
    ids=lambda settings: ", ".join(f"{key}={value}" for key, value in settings.items()),
)
def test_whatever_the_fit_was_like_its_data_are_recognized(settings, tmp_path):
    X, y = samples()
    model = RVR(**settings).fit(X, y)
    mean, std = model.predict(FAR, return_std=True, augment=True)
    added = std**2 - model.predict(FAR, return_std=True)[1] ** 2
    np.testing.assert_allclose(added, np.mean((y - model.intercept_) ** 2), rtol=1e-9)
    model.save(tmp_path / "a.model")
    loaded = sparsebayes.load(tmp_path / "a.model")
    np.testing.assert_array_equal(loaded.predict(FAR, return_std=True, augment=(X, y)), (mean, std))


def test_on_the_data_hardly_anything_changes_and_no_bar_is_smaller():
    data = sinc(200, noise=0.1, random_state=0)
    model = RVR(gamma=1 / 9).fit(data.X, data.y)
    x = np.linspace(-40, 40, 801)[:, None]
    mean, std = model.predict(x, return_std=True)
    new_mean, new_std = model.predict(x, return_std=True, augment=True)
    inside = np.abs(x[:, 0]) < 9.5
    assert np.abs(new_mean - mean)[inside].max() < 0.02
    assert (new_std / std)[inside].max() < 1.05
    assert (new_std >= std).all()
    outside = new_std[x[:, 0] >= 10]
    assert (np.diff(outside) > -1e-3).all()
    assert outside[-1] > 2 * std[-1]


def test_covers_a_gap_and_beyond_where_the_model_alone_does_not():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-10, 0, 80), rng.uniform(5, 10, 40)])[:, None]
    y = np.sinc(x[:, 0] / np.pi) + 0.1 * rng.normal(size=120)
    model = RVR(gamma=0.5).fit(x, y)
    for low, high in (0.5, 4.5), (10.5, 14.0):
        new = rng.uniform(low, high, size=(2000, 1))
        truth = np.sinc(new[:, 0] / np.pi)
        covered = []
        for augment in False, True:
            forecast = model.predict_distribution(new, augment=augment)
            covered.append(np.mean(np.abs(truth - forecast.mean) <= 2 * forecast.function_std))
        assert covered[1] > 0.8 > covered[0]


def test_the_distribution_says_the_same():
    X, y = samples(n_targets=2)
    model = machine().fit(X, y)
    forecast = model.predict_distribution(elsewhere(), augment=True)
    mean, std = model.predict(elsewhere(), return_std=True, augment=True)
    np.testing.assert_array_equal(forecast.mean, mean)
    np.testing.assert_array_equal(forecast.std, std)
    np.testing.assert_allclose(forecast.function_std**2, std**2 - NOISE, rtol=1e-10)
    given = model.predict_distribution(elsewhere(), augment=(X, y))
    np.testing.assert_array_equal(given.std, std)


class TestInvariances:
    @pytest.mark.parametrize("unit", [2.0**-40, 1e-3, 1e6])
    def test_unit_of_the_targets(self, unit):
        X, y = samples()
        mean, std = machine().fit(X, y).predict(elsewhere(), return_std=True, augment=True)
        other = machine(noise_variance=NOISE * unit**2).fit(X, unit * y)
        found = other.predict(elsewhere(), return_std=True, augment=True)
        np.testing.assert_allclose(found, (unit * mean, unit * std), rtol=1e-7)

    def test_level_of_the_targets(self):
        X, y = samples()
        mean, std = machine().fit(X, y).predict(elsewhere(), return_std=True, augment=True)
        found = machine().fit(X, y + 1e6).predict(elsewhere(), return_std=True, augment=True)
        np.testing.assert_allclose(found, (mean + 1e6, std), rtol=1e-6)

    def test_order_of_rows(self):
        X, y = samples()
        order = np.random.default_rng(3).permutation(80)
        want = machine().fit(X, y).predict(elsewhere(), return_std=True, augment=True)
        model = machine().fit(X[order], y[order])
        found = model.predict(elsewhere(), return_std=True, augment=True)
        np.testing.assert_allclose(found, want, rtol=1e-7)
        again = model.predict(elsewhere(), return_std=True, augment=(X, y))
        np.testing.assert_allclose(again, want, rtol=1e-7)

    def test_weights_are_repetitions(self):
        X, y = samples()
        weights = np.random.default_rng(4).integers(0, 3, size=80)
        model = machine().fit(X, y, sample_weight=weights)
        want = model.predict(elsewhere(), return_std=True, augment=True)
        several = np.repeat(X, weights, axis=0), np.repeat(y, weights)
        repeated = machine().fit(*several)
        found = repeated.predict(elsewhere(), return_std=True, augment=True)
        np.testing.assert_allclose(found, want, rtol=1e-10)
        again = model.predict(elsewhere(), return_std=True, augment=several)
        np.testing.assert_allclose(again, want, rtol=1e-10)
        again = repeated.predict(elsewhere(), return_std=True, augment=(X, y, weights))
        np.testing.assert_allclose(again, want, rtol=1e-10)

    def test_size_of_the_kernel(self):
        X, y = samples()
        small, large = (
            machine(kernel=ConstantKernel(size) * RBF(1.0)).fit(X, y) for size in (1.0, 1e4)
        )
        want = small.predict(elsewhere(), return_std=True, augment=True)
        found = large.predict(elsewhere(), return_std=True, augment=True)
        np.testing.assert_allclose(found, want, rtol=1e-6)

    def test_sparse_rows(self):
        X, y = samples()
        X[np.abs(X) < 0.3] = 0
        X_new = elsewhere()
        X_new[np.abs(X_new) < 1] = 0
        for model in machine().fit(X, y), machine().fit(sp.csr_matrix(X), y):
            want = model.predict(X_new, return_std=True, augment=(X, y))
            for rows in X_new, sp.csr_array(X_new):
                for augment in True, (X, y), (sp.csc_matrix(X), y):
                    found = model.predict(rows, return_std=True, augment=augment)
                    np.testing.assert_allclose(found, want, rtol=1e-7)


def test_ten_thousand_rows_take_little_memory_and_do_not_see_each_other():
    data = sinc(2000, noise=0.1, random_state=0)
    model = RVR(gamma=0.1, noise_variance=0.01).fit(data.X, data.y)
    X = np.linspace(-30, 30, 10_000)[:, None]
    gc.collect()
    tracemalloc.start()
    mean, std = model.predict(X, return_std=True, augment=True)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50e6  # all new atoms at all rows are 160 megabytes
    few = model.predict(X[4000:4003], return_std=True, augment=True)
    np.testing.assert_allclose(few, (mean[4000:4003], std[4000:4003]), rtol=1e-10)


def test_a_model_without_atoms_and_one_without_anything_to_explain():
    X = np.linspace(0, 1, 20)[:, None]
    y = np.tile([1.0, -1.0], 10)
    model = RVR(gamma=1e-3, noise_variance=100.0).fit(X, y)
    assert len(model.relevance_) == 0
    mean, std = model.predict([[1e9]], return_std=True, augment=True)
    np.testing.assert_allclose((mean[0], std[0] ** 2), (0.0, 100 + 100 / 20 + 1), atol=1e-12)
    constant = RVR(gamma=1.0, noise_variance=1.0).fit(X, np.full(20, 7.0))
    found = constant.predict([[0.5], [50.0]], return_std=True, augment=True)
    np.testing.assert_allclose(found, constant.predict([[0.5], [50.0]], return_std=True))


class TestTrainingData:
    def test_is_a_reference_and_only_where_it_can_serve(self):
        X, y = samples()
        model = machine().fit(X, y)
        assert np.shares_memory(model._training.X, X)
        assert np.shares_memory(model._training.y, y)
        assert "_training" not in vars(SparseBayesRegressor().fit(X, y))
        poisson = machine(noise_variance=None, likelihood="poisson")
        assert "_training" not in vars(poisson.fit(X, np.arange(80)))

    @pytest.mark.parametrize(
        "lose",
        [lambda model: pickle.loads(pickle.dumps(model)), copy.deepcopy, copy.copy],
        ids=["pickle", "deepcopy", "copy"],
    )
    def test_is_lost_in_pickles_and_copies_and_can_be_given_again(self, lose):
        X, y = samples()
        weights = np.linspace(0.5, 1.5, 80)
        model = machine().fit(X, y, sample_weight=weights)
        want = model.predict(elsewhere(), return_std=True, augment=True)
        lost = lose(model)
        with pytest.raises(ValueError, match=r"neither pickles nor model files.*augment=\(X, y\)"):
            lost.predict(elsewhere(), return_std=True, augment=True)
        found = lost.predict(elsewhere(), return_std=True, augment=(X, y, weights))
        np.testing.assert_array_equal(found, want)
        model.predict(elsewhere(), augment=True)  # the original still has its own
        assert not hasattr(clone(model), "_training")

    def test_is_in_no_file(self, tmp_path):
        X, y = samples()
        model = machine().fit(X, y)
        want = model.predict(elsewhere(), return_std=True, augment=True)
        model.save(tmp_path / "a.model")
        loaded = sparsebayes.load(tmp_path / "a.model")
        with pytest.raises(ValueError, match="neither pickles nor model files"):
            loaded.predict(elsewhere(), augment=True)
        found = loaded.predict(elsewhere(), return_std=True, augment=(X.tolist(), y.tolist()))
        np.testing.assert_array_equal(found, want)

    def test_pickles_do_not_grow_with_the_data(self):
        data = sinc(4000, noise=0.1, random_state=0)
        model = RVR(gamma=0.1, noise_variance=0.01, centers=50).fit(data.X, data.y)
        assert len(pickle.dumps(model)) < 20_000 < data.X.nbytes

    def test_another_fit_replaces_it(self):
        X, y = samples()
        model = machine().fit(X, y)
        X_2, y_2 = samples(n=40, seed=9)
        want = machine().fit(X_2, y_2).predict(elsewhere(), augment=True)
        np.testing.assert_array_equal(model.fit(X_2, y_2).predict(elsewhere(), augment=True), want)
        model.set_params(likelihood="poisson", noise_variance=None).fit(X, np.arange(80))
        assert "_training" not in vars(model)

    def test_changed_in_place_is_noticed(self):
        X, y = samples()
        model = machine().fit(X, y)
        X *= 1.001
        with pytest.raises(ValueError, match="these are others"):
            model.predict(elsewhere(), augment=True)

    def test_is_recognized_where_a_large_mean_has_taken_most_digits(self):
        rng = np.random.default_rng(0)
        X = 1e5 + rng.normal(size=(50, 3))  # cosines of one, but for 1e-10
        y = X[:, 0] - X[:, 1] + 0.1 * rng.normal(size=50)
        model = RVR("cosine", noise_variance=0.01).fit(X, y)
        mean, std = model.predict(X, return_std=True, augment=True)
        assert np.isfinite(mean).all()
        assert (std >= 0.1).all()

    @pytest.mark.parametrize("fit_intercept", [True, False])
    def test_of_another_fit_is_refused(self, fit_intercept):
        X, y = samples()
        model = machine(fit_intercept=fit_intercept).fit(X, y)
        others = {
            "targets": (X, y + 1e-3 * np.random.default_rng(0).normal(size=80)),
            "inputs": (X + 1e-3, y),
            "rows": (X[1:], y[1:]),
            "weights": (X, y, np.full(80, 2.0)),
            "level": (X, y + 0.1),
        }
        assert len(model.predict(elsewhere(), augment=(X, y))) == 12
        for data in others.values():
            with pytest.raises(ValueError, match="these are others"):
                model.predict(elsewhere(), augment=data)

    def test_of_a_model_without_atoms_is_checked_too(self):
        X, y = np.linspace(0, 1, 20)[:, None], np.tile([1.0, -1.0], 10)
        model = RVR(gamma=1e-3, noise_variance=100.0).fit(X, y)
        for data in (X, y + 1), (X[2:], y[2:]):
            with pytest.raises(ValueError, match="these are others"):
                model.predict(X, augment=data)

    def test_in_a_pipeline(self):
        X, y = samples()
        model = make_pipeline(StandardScaler(), machine()).fit(X, y)
        mean, std = model.predict(FAR, return_std=True, augment=True)
        assert std > 3 * model.predict(FAR, return_std=True)[1]
        scaled = model[0].transform(X)
        given = model.predict(FAR, return_std=True, augment=(scaled, y))
        np.testing.assert_array_equal(given, (mean, std))


class TestErrors:
    @pytest.mark.parametrize(
        ("augment", "error", "message"),
        [
            (1, TypeError, "augment must be True, False"),
            (None, TypeError, "augment must be True, False"),
            ("yes", TypeError, "got 'yes'"),
            ((np.zeros((3, 2)),), TypeError, "got 1 items"),
            (np.zeros((3, 2)), TypeError, "got ndarray"),
            ((np.zeros((3, 1)), np.zeros(3)), ValueError, "expecting 2 features"),
            ((np.zeros((3, 2)), np.zeros(4)), ValueError, "inconsistent numbers of samples"),
            ((np.full((3, 2), np.nan), np.zeros(3)), ValueError, "NaN"),
            ((np.zeros((3, 2)), np.zeros((3, 2))), ValueError, "y has 2 targets"),
            ((np.zeros((3, 2)), np.zeros(3), [1, 2]), ValueError, "one weight per row"),
            ((np.zeros((3, 2)), np.zeros(3), [-1, 2, 2]), ValueError, "not negative"),
        ],
    )
    def test_bad_arguments(self, augment, error, message):
        model = machine().fit(*samples())
        for predict in model.predict, model.predict_distribution:
            with pytest.raises(error, match=message):
                predict(FAR, augment=augment)

    def test_a_covariance_is_not_defined(self):
        with pytest.raises(ValueError, match="return_cov and augment cannot both"):
            machine().fit(*samples()).predict(FAR, return_cov=True, augment=True)

    @pytest.mark.parametrize(
        ("dictionary", "message"),
        [
            ("linear", "kept none"),
            (Wavelet("haar"), "kept none"),
            (Operator(np.eye(32)), "kept none"),
            (Kernel("rbf", gamma=0.03) + Kernel("laplacian", gamma=0.1), "kept atoms of 2"),
        ],
        ids=["linear", "wavelets", "operator", "two kernels"],
    )
    def test_other_dictionaries(self, dictionary, message):
        x = np.arange(32.0)[:, None]
        y = np.where(x[:, 0] > 13, 1.0, 0.0) + np.sin(x[:, 0] / 4)
        model = SparseBayesRegressor(dictionary, noise_variance=1e-3, prior="flat").fit(x, y)
        for augment in True, (x, y):
            with pytest.raises(ValueError, match=message):
                model.predict(x, return_std=True, augment=augment)

    def test_a_kernel_matrix(self):
        X, y = samples()
        model = machine(kernel="precomputed").fit(rbf(X, X), y)
        with pytest.raises(ValueError, match="kernel='precomputed' gives its values"):
            model.predict(rbf(X, X), augment=True)

    def test_a_kernel_that_is_zero_at_its_center(self):
        model = machine(kernel="tps", gamma=0.1).fit(*samples())
        with pytest.raises(ValueError, match="zero at its own center"):
            model.predict(FAR, augment=True)

    def test_another_likelihood(self):
        X, y = samples()
        model = RVR(gamma=0.5, likelihood="poisson").fit(X, np.round(np.abs(y)))
        with pytest.raises(ValueError, match=r"augment is for Gaussian noise.*Poisson\(\)"):
            model.predict(X, augment=True)

    def test_rows_to_predict_are_checked_first(self):
        model = machine().fit(*samples())
        with pytest.raises(ValueError, match="expecting 2 features"):
            model.predict([[1.0]], augment=True)
