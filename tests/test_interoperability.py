"""The regressors among others: scikit-learn's tools, data of every kind, kernels of every kind."""

import copy
import gc
import pickle
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.gaussian_process import kernels as gp
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_html_repr, get_tags

from sparsebayes import RVR, SparseBayesRegressor
from sparsebayes.datasets import sinc, sparse_linear
from sparsebayes.dictionaries import Bias, Kernel, Linear
from sparsebayes.hyperpriors import Smoothness

SINC = sinc(120, noise=0.1, random_state=0)
WIDE = sparse_linear(80, 120, 4, random_state=1)


def kernel_model(**parameters):
    return RVR(gamma=1 / 9, **parameters)


# scikit-learn's tools


def test_parameters_are_left_alone():
    centers = np.linspace(-10, 10, 12)[:, None]
    given = {
        "kernel": gp.RBF(3.0),
        "gamma": np.array([0.5]),
        "kernel_params": {},
        "centers": centers,
        "prior": Smoothness(1.0),
        "random_state": np.random.RandomState(0),
    }
    model = RVR(**given)
    before = {key: copy.deepcopy(value) for key, value in given.items() if key != "random_state"}
    model.fit(SINC.X, SINC.y)
    for key, value in given.items():
        assert getattr(model, key) is value
    for key, value in before.items():
        assert repr(getattr(model, key)) == repr(value)
    dictionary = Linear() + Kernel("rbf")
    SparseBayesRegressor(dictionary).fit(SINC.X, SINC.y)
    assert repr(dictionary) == repr(Linear() + Kernel("rbf"))
    assert not [name for name in vars(dictionary.parts[1]) if name.endswith("_")]


def test_clone_and_nested_parameters():
    model = SparseBayesRegressor(Linear() + Kernel(gamma=0.5), prior="bic")
    twin = clone(model)
    assert repr(twin) == repr(model)
    assert twin.dictionary is not model.dictionary
    twin.set_params(dictionary__1__gamma=2.0)
    assert twin.get_params()["dictionary__1__gamma"] == 2.0
    assert model.dictionary.parts[1].gamma == 0.5
    single = SparseBayesRegressor(Kernel()).set_params(dictionary__gamma=3)
    assert single.dictionary.gamma == 3
    assert not hasattr(clone(single.fit(SINC.X, SINC.y)), "relevance_")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_searches_and_pipelines():
    X, y = SINC.X, SINC.y
    search = GridSearchCV(
        make_pipeline(StandardScaler(), SparseBayesRegressor(Kernel())),
        {"sparsebayesregressor__dictionary__gamma": [1e-3, 3.0, 1e4]},
        cv=KFold(3, shuffle=True, random_state=0),
    )
    assert search.fit(X, y).best_params_["sparsebayesregressor__dictionary__gamma"] == 3.0
    assert search.score(X, y) > 0.9
    mean, std = search.best_estimator_.predict(X[:3], return_std=True)
    assert std.shape == mean.shape
    folds = KFold(5, shuffle=True, random_state=0)
    assert cross_val_score(RVR(gamma=1 / 9), X, y, cv=folds).mean() > 0.8
    assert cross_val_score(SparseBayesRegressor(), WIDE.X, WIDE.y, cv=folds).mean() > 0.8


def test_html():
    page = estimator_html_repr(SparseBayesRegressor(Linear() + Kernel(gamma=0.5)))
    assert "SparseBayesRegressor" in page
    assert "Kernel" in page
    assert "RVR" in estimator_html_repr(RVR().fit(SINC.X, SINC.y))


def test_not_fitted():
    for call in ("predict", "predict_distribution", "sample_y"):
        with pytest.raises(NotFittedError):
            getattr(RVR(), call)(SINC.X)
    with pytest.raises(NotFittedError):
        SparseBayesRegressor().save("nowhere")


def reachable_bytes(thing):
    """Memory of all arrays that can be reached, those they are views of included."""
    seen, todo, total = set(), [thing], 0
    while todo:
        item = todo.pop()
        if id(item) in seen or isinstance(item, (type, type(sys))) or callable(item):
            continue
        seen.add(id(item))
        if isinstance(item, np.ndarray):
            total += item.nbytes if item.base is None else 0
            todo.append(item.base)
        else:
            todo.extend(gc.get_referents(item))
    return total


@pytest.mark.parametrize(
    ("model", "size"),
    [
        (kernel_model(), 2000),
        (SparseBayesRegressor(Linear() + Kernel(gamma=1 / 9), prior="flat"), 1000),
        (kernel_model(solver="sequential", noise_variance=0.01), 1000),
    ],
)
def test_fitted_models_are_small(model, size):
    few, many = sinc(100, noise=0.1, random_state=0), sinc(size, noise=0.1, random_state=0)
    small = len(pickle.dumps(model.fit(few.X, few.y)))
    large = pickle.dumps(model.fit(many.X, many.y))
    assert len(large) < small + 20_000 < 8 * size * 10
    assert reachable_bytes(vars(model)) < 40_000
    again = pickle.loads(large)
    assert_array_equal(again.predict(few.X), model.predict(few.X))
    assert again.solution_.status is model.solution_.status


# Data of every kind


STORAGES = {
    "float32": lambda X: X.astype(np.float32),
    "Fortran order": np.asfortranarray,
    "strided": lambda X: np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3],
    "list": lambda X: X.tolist(),
    "object": lambda X: X.astype(object),
    "csr_matrix": sp.csr_matrix,
    "csc_matrix": sp.csc_matrix,
    "coo_matrix": sp.coo_matrix,
    "csr_array": sp.csr_array,
    "csc_array": sp.csc_array,
    "coo_array": sp.coo_array,
    "lil_array": sp.lil_array,
    "pandas": lambda X: pd.DataFrame(X).add_prefix("x"),
    "polars": pl.DataFrame,
}


@pytest.mark.parametrize(
    ("model", "storage"),
    [
        *((SparseBayesRegressor(Linear() + Kernel(gamma=0.02)), storage) for storage in STORAGES),
        *((SparseBayesRegressor(), storage) for storage in ("list", "csc_array", "pandas")),
        *((RVR(gamma=0.02), storage) for storage in ("strided", "csr_array", "polars")),
    ],
)
def test_storage_makes_no_difference(model, storage):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 8)).astype(np.float32).astype(np.float64)
    X[np.abs(X) < 0.5] = 0
    y = X[:, 0] - 2 * X[:, 3] + 0.1 * rng.normal(size=60)
    mean, std = model.fit(X, y).predict(X, return_std=True)
    other = STORAGES[storage](X)
    got_mean, got_std = model.fit(other, y).predict(other, return_std=True)
    assert got_mean.dtype == got_std.dtype == np.float64
    assert_allclose(got_mean, mean, atol=1e-6)
    assert_allclose(got_std, std, atol=1e-6)
    if not hasattr(model, "feature_names_in_"):
        assert_allclose(model.predict(X), mean, atol=1e-6)


def test_sparse_entries_stored_in_parts():
    X = sp.csr_array(WIDE.X * (np.abs(WIDE.X) > 1))
    parts = sp.csr_array(
        (np.repeat(X.data / 2, 2), np.repeat(X.indices, 2), 2 * X.indptr), shape=X.shape
    )
    data = parts.data.copy()
    want = SparseBayesRegressor().fit(X, WIDE.y)
    got = SparseBayesRegressor().fit(parts, WIDE.y)
    assert_array_equal(got.relevance_, want.relevance_)
    assert_array_equal(got.predict(parts), want.predict(X))
    assert_array_equal(parts.data, data)


def test_integers():
    rng = np.random.default_rng(0)
    X = rng.integers(-5, 6, size=(80, 6))
    y = 3 * X[:, 2] - X[:, 4] + 7
    with pytest.warns(ConvergenceWarning, match="noise"):
        model = SparseBayesRegressor().fit(X, y)
    assert_allclose(model.coef_, [0, 0, 3, 0, -1, 0], atol=1e-4)
    assert_allclose(model.intercept_, 7, atol=1e-3)


def test_read_only_memory_maps(tmp_path):
    np.save(tmp_path / "X.npy", SINC.X)
    np.save(tmp_path / "y.npy", SINC.y)
    X, y = (np.load(tmp_path / name, mmap_mode="r") for name in ("X.npy", "y.npy"))
    for model in (kernel_model(), SparseBayesRegressor()):
        mean = model.fit(SINC.X, SINC.y).predict(SINC.X)
        assert_array_equal(model.fit(X, y, sample_weight=np.ones(120)).predict(X), mean)
        assert not isinstance(getattr(model, "relevance_vectors_", None), np.memmap)


def test_data_are_left_alone():
    X, y, w = SINC.X.copy(), SINC.y.copy(), 1 + np.arange(120.0) / 60
    for model in (kernel_model(), SparseBayesRegressor(Linear() + Bias())):
        model.fit(X, y, sample_weight=w).predict(X, return_std=True)
    assert_array_equal(X, SINC.X)
    assert_array_equal(y, SINC.y)
    assert_array_equal(w, 1 + np.arange(120.0) / 60)


@pytest.mark.parametrize("library", [pd, pl])
def test_feature_names(library):
    frame = library.DataFrame({"angle": SINC.X[:, 0], "zero": np.zeros(120)})
    model = RVR(gamma=1 / 9).fit(frame, SINC.y)
    assert model.feature_names_in_.tolist() == ["angle", "zero"]
    assert model.predict(frame).shape == (120,)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(library.DataFrame({"radius": SINC.X[:, 0], "zero": np.zeros(120)}))
    with pytest.raises(ValueError, match="same order"):
        model.predict(frame[["zero", "angle"]])
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.predict(frame.to_numpy())
    series = library.Series(SINC.y)
    assert_array_equal(RVR(gamma=1 / 9).fit(frame, series).predict(frame), model.predict(frame))


# Kernels of every kind


def test_precomputed_kernels():
    X, y = SINC.X, SINC.y
    K = rbf_kernel(X, gamma=1 / 9)
    want = kernel_model().fit(X, y)
    for model in (RVR("precomputed"), SparseBayesRegressor(Kernel("precomputed"))):
        assert get_tags(model).input_tags.pairwise
        model.fit(K, y)
        assert_array_equal(model.relevance_, want.relevance_)
        new = np.linspace(-9, 9, 7)[:, None]
        assert_allclose(
            model.predict(rbf_kernel(new, X, gamma=1 / 9), return_std=True),
            want.predict(new, return_std=True),
            rtol=1e-6,
        )
        with pytest.raises(ValueError, match="features"):
            model.predict(K[:, :5])
        with pytest.raises(ValueError, match="square"):
            model.fit(K[:, :100], y)
        folds = KFold(3, shuffle=True, random_state=0)
        scores = cross_val_score(model, K, y, cv=folds)
        assert_allclose(scores, cross_val_score(kernel_model(), X, y, cv=folds), rtol=1e-4)
    assert not get_tags(RVR()).input_tags.pairwise
    assert not get_tags(SparseBayesRegressor()).input_tags.pairwise


def linear_spline(X, Z, scale=1.0):
    return np.minimum(X, Z.T) * scale


def test_callable_kernels():
    X, y = SINC.X, SINC.y
    model = RVR(lambda X, Z: np.exp(-((X - Z.T) ** 2) / 9)).fit(X, y)
    assert_allclose(model.predict(X), kernel_model().fit(X, y).predict(X), atol=1e-6)
    bent = RVR(linear_spline, kernel_params={"scale": 2.0}, prior="bic").fit(X, y)
    assert bent.score(X, y) > 0.7
    assert_array_equal(pickle.loads(pickle.dumps(bent)).predict(X), bent.predict(X))


def test_gaussian_process_kernels():
    X, y = SINC.X, SINC.y
    want = kernel_model().fit(X, y)
    model = RVR(gp.RBF(np.sqrt(4.5))).fit(X, y)
    assert_allclose(model.predict(X), want.predict(X), atol=1e-6)
    assert not get_tags(model).input_tags.sparse
    with pytest.raises(TypeError, match="sparse"):
        model.fit(sp.csr_array(X), y)
    nested = RVR(gp.ConstantKernel(2.0) * gp.Matern(3.0, nu=1.5), prior="bic").fit(X, y)
    assert nested.score(X, y) > 0.8
    assert nested.get_params()["kernel__k2__nu"] == 1.5


def test_centers():
    X, y = SINC.X, SINC.y
    grid = np.linspace(-10, 10, 25)[:, None]
    given = kernel_model(centers=grid).fit(X, y)
    assert_array_equal(given.relevance_vectors_, grid[given.relevance_])
    means = kernel_model(centers=25, random_state=0).fit(X, y)
    assert means.relevance_.max() < 25
    assert min(given.score(X, y), means.score(X, y)) > 0.9


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "poly", "sigmoid", "lspline", "tps"])
def test_an_integer_gamma(kernel):
    X, y = SINC.X / 4, SINC.y
    whole, real = (RVR(kernel, gamma=gamma, prior="bic") for gamma in (2, 2.0))
    assert_array_equal(whole.fit(X, y).predict(X), real.fit(X, y).predict(X))


def test_a_large_dictionary_without_a_seed_is_fitted_alike_twice():
    data = sinc(800, noise=0.1, dim=2, random_state=0)
    first, second = (RVR(gamma=0.16).fit(data.X, data.y) for _ in range(2))
    assert first.log_marginal_likelihood_ == second.log_marginal_likelihood_
    assert_array_equal(first.relevance_, second.relevance_)
