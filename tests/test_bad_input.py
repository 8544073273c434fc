"""Bad and extreme input: a right answer or a clear error, never NaN nor an endless loop."""

import datetime
import re
import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from sparsebayes import RVC, RVR, SparseBayesRegressor
from sparsebayes.dictionaries import Bias, Kernel, Linear, Union
from sparsebayes.hyperpriors import Flat
from sparsebayes.problem import Status

DEGENERATE = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
MODELS = {
    "linear": SparseBayesRegressor,
    "kernel": RVR,
    "union": lambda **p: SparseBayesRegressor(Linear() + Kernel(gamma=0.5), **p),
}
EACH = pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
SOLVERS = ["working-set", "sequential", "sequential-random", "sequential-cyclic"]


def plain(n=30, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, X[:, 0] + 0.1 * rng.normal(size=n)


def assert_sane(model, X):
    """What holds of every fit, however bad the data."""
    mean, std = model.predict(X, return_std=True)
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()
    assert (std > 0).all()
    assert np.isfinite(model.log_marginal_likelihood_)
    assert 0 < model.noise_variance_ < np.inf
    assert np.isfinite(model.weights_).all()
    assert np.isfinite(model.covariance_).all()
    assert (model.covariance_.diagonal() >= 0).all()
    assert np.isfinite(model.prior_variance_).all()
    assert (model.prior_variance_ > 0).all()
    assert np.isfinite(model.intercept_).all()
    assert (np.diff(model.relevance_) > 0).all()
    certificate = model.certificate_
    assert np.isfinite([certificate.max_gain, certificate.gradient_norm]).all()
    assert not np.isnan(certificate.max_curvature)
    assert certificate.holds(model.tol) or not model.converged_
    assert np.isfinite(model.sample_y(X, 2, noise=True)).all()


# Data that are no data


@EACH
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
def test_not_finite(make, bad, storage):
    X, y = plain()
    wrong_X, wrong_y = X.copy(), y.copy()
    wrong_X[3, 1] = wrong_y[4] = bad
    with pytest.raises(ValueError, match="X contains|NaN|infinity"):
        make().fit(storage(wrong_X), y)
    with pytest.raises(ValueError, match="y contains|NaN|infinity"):
        make().fit(storage(X), wrong_y)
    with pytest.raises(ValueError, match="NaN|infinity"):
        make().fit(storage(X), y).predict(storage(wrong_X))


@EACH
def test_shapes_that_make_no_sense(make):
    X, y = plain()
    for wrong, target, message in [
        (np.empty((0, 3)), np.empty(0), "0 sample"),
        (np.empty((30, 0)), y, "0 feature"),
        (X[:1], y[:1], "minimum of 2"),
        (X[:, 0], y, "Expected 2D array"),
        (X[None], y, "dim 3"),
        (X[:20], y, "inconsistent numbers of samples"),
        (X, y[:, None, None], "dim 3|3D|shape"),
        (X, None, "requires y"),
        (X, 5.0, "."),
    ]:
        with pytest.raises((ValueError, TypeError), match=message):
            make().fit(wrong, target)
    model = make().fit(X, y)
    for wrong in (X[:, :2], np.ones((2, 4))):
        with pytest.raises(ValueError, match="features"):
            model.predict(wrong)
    with pytest.raises(ValueError, match="2D"):
        model.predict(X[0])
    with pytest.raises(ValueError, match="0 sample"):
        model.predict(X[:0])


@EACH
def test_kinds_that_are_no_numbers(make):
    X, y = plain()
    for wrong, target in [
        (X.astype(str).tolist() + [["a", "b", "c"]], np.append(y, 0)),
        (X + 1j, y),
        (X, y + 1j),
        (X, ["low"] * 30),
        (np.array([[{}] * 3] * 30, dtype=object), y),
        (X, np.array([{}] * 30, dtype=object)),
    ]:
        with pytest.raises((ValueError, TypeError)):
            make().fit(wrong, target)


# Parameters


WRONG = {
    "fit_intercept": ["yes", 1, None, 0.0],
    "prior": ["Flat", "", -1, np.nan, np.inf, None, Flat, [1.0], True],
    "noise_variance": [0, -1.0, np.nan, np.inf, "0.1", [0.1], True],
    "noise_prior": [0.1, (1.0,), (-1.0, 1.0), (1.0, np.nan), "flat", True],
    "solver": ["fast", None, 3, "EM", "orthonormal", ["auto"]],
    "tol": [0, -1e-3, np.nan, np.inf, "small", None],
    "max_iter": [0, -5, 2.5, "many", None, True],
    "n_restarts": [-1, 1.5, "few", None],
    "warm_start": ["no", 2, None],
    "random_state": ["dice", 1.5, -1, [1, 2]],
    "verbose": [-1, "loud", 0.5, None],
}
WRONG_KERNEL = {
    "kernel": ["gauss", 5, None, Kernel],
    "gamma": ["wide", -1.0, 0.0, np.nan, None, [1.0, 2.0], True],
    "degree": [-1, 2.5, "two"],
    "coef0": [np.inf, "zero", None],
    "kernel_params": [5, [("a", 1)], {"sigma": 1.0}],
    "centers": [0, -3, "rows", [[1.0, 2.0]], [[np.nan] * 3], True],
}


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (None, "y contains NaN"),
        (np.inf, "y contains infinity"),
        ("nan", "y contains NaN"),
        ("seven", "seven"),
        (np.datetime64("NaT"), "contains NaN"),
    ],
)
@pytest.mark.parametrize("columns", [1, 2])
@EACH
def test_objects_among_targets(make, columns, bad, message):
    X, y = plain()
    targets = np.column_stack([y.astype(object)] * columns)
    targets[4, 0] = bad
    with pytest.raises(ValueError, match=message):
        make().fit(X, targets.squeeze())


@EACH
def test_dates_are_no_targets(make):
    X, _ = plain()
    days = np.arange(30).astype("datetime64[D]")
    for y in (days, days - days[0]):
        with pytest.raises(ValueError, match="holds dates or times"):
            make().fit(X, y)
        with pytest.raises(ValueError, match="holds dates or times"):
            make().fit(X, np.array([*y, None], dtype=object)[:-1])


DAYS = np.arange(30).astype("datetime64[D]")
DATED = {
    "dates": DAYS[:, None],
    "spans": (DAYS - DAYS[0])[:, None],
    "a list": [[day] for day in DAYS],
    "objects": DAYS[:, None].astype(object),
    "objects of NumPy": np.array([[day, 1.0] for day in [*DAYS, None]], dtype=object)[:-1],
    "times": [[datetime.time(i % 24)] for i in range(30)],
    "a column of pandas": pd.DataFrame({"a": np.arange(30.0), "b": DAYS}),
    "with a time zone": pd.DataFrame({"a": pd.date_range("2020", periods=30, tz="UTC")}),
    "objects of pandas": pd.DataFrame({"a": pd.Series(DAYS - DAYS[0]).astype(object), "b": 1.0}),
    "a column of polars": pl.DataFrame({"a": np.arange(30.0), "b": list(DAYS.astype(object))}),
}


@pytest.mark.parametrize("X", DATED.values(), ids=DATED)
@EACH
def test_dates_are_no_inputs(make, X):
    y = np.arange(30.0)
    numbers = np.random.default_rng(0).normal(size=(30, np.shape(X)[1]))
    model = make().fit(numbers, y)
    for use in (lambda: make().fit(X, y), lambda: model.predict(X), lambda: model.score(X, y)):
        with pytest.raises(ValueError, match="X must be numbers, but holds dates or times"):
            use()


def test_dates_are_no_inputs_of_classes_nor_of_frames_of_dask():
    import dask.dataframe as dd

    frame = DATED["a column of pandas"]
    with pytest.raises(ValueError, match="X must be numbers, but holds dates or times"):
        RVC().fit(frame, np.arange(30) % 2)
    with pytest.raises(ValueError, match="X must be numbers, but holds dates or times"):
        SparseBayesRegressor().partial_fit(frame, np.arange(30.0))
    parts = dd.from_pandas(frame, npartitions=2)
    targets = dd.from_pandas(pd.Series(np.arange(30.0)), npartitions=2)
    with pytest.raises(ValueError, match="X must be numbers, but holds datetime64"):
        SparseBayesRegressor().fit(parts, targets)
    model = SparseBayesRegressor().fit(frame.assign(b=1.0), plain()[1])
    with pytest.raises(ValueError, match="dates"):
        model.predict(parts).compute()


@dataclass(frozen=True)
class Interrupted(Flat):
    """A hyperprior that is interrupted where NumPy's error handling has just been changed."""

    def best_variance(self, s, q2, noise_var, n_targets=1):
        np.errstate(all="raise").__enter__()
        raise KeyboardInterrupt


@EACH
def test_an_interrupt_leaves_no_settings_of_numpy(make):
    X, y = plain()
    before = np.geterr()
    with pytest.raises(KeyboardInterrupt):
        make(prior=Interrupted()).fit(X, y)
    assert np.geterr() == before


@DEGENERATE
@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("scale", [1e207, 1e300, 1e-310, 1e-200, 1e154, 1e-160])
@pytest.mark.parametrize("settings", [{}, {"memory": "64MiB"}])
def test_inputs_at_the_ends_of_float64(scale, settings):
    X, y = plain()
    kinds = (
        SparseBayesRegressor(**settings),
        RVR(**settings, gamma=1.0),
        RVR(**settings, gamma="scale"),
        RVR("linear", **settings),
    )
    for model in kinds:
        refusal, mean = "", np.zeros(1)
        try:
            mean = model.fit(scale * X, y).predict(scale * X)
        except ValueError as error:
            refusal = str(error)
        assert not refusal or re.search("scale|units|range|overflow", refusal)
        assert np.isfinite(mean).all()


@EACH
def test_objects_and_text_that_are_numbers(make):
    X, y = plain()
    expected = make().fit(X, y).predict(X)
    for given_y in (y.astype(object), list(map(str, y))):
        assert_array_equal(make().fit(X, given_y).predict(X), expected)


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name, values in WRONG.items() for value in values],
    ids=lambda x: repr(x)[:20],
)
@EACH
def test_wrong_parameters(make, name, value):
    X, y = plain()
    with pytest.raises((ValueError, TypeError), match=name):
        make(**{name: value}).fit(X, y)


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name, values in WRONG_KERNEL.items() for value in values],
    ids=lambda x: repr(x)[:20],
)
def test_wrong_kernels(name, value):
    X, y = plain()
    for model in (RVR(**{name: value}), SparseBayesRegressor(Kernel(**{name: value}))):
        with pytest.raises((ValueError, TypeError), match=name):
            model.fit(X, y)


@pytest.mark.parametrize(
    "dictionary", ["rbf", None, 3, Linear, "Linear", [Linear()], np.eye(3), Union([]), Union([3])]
)
def test_wrong_dictionaries(dictionary):
    X, y = plain()
    with pytest.raises((ValueError, TypeError), match="dictionary|parts|union"):
        SparseBayesRegressor(dictionary).fit(X, y)


def test_parameters_of_numpy_kinds():
    X, y = plain()
    want = SparseBayesRegressor(prior=1.0, noise_variance=1.0, tol=1e-3, max_iter=50).fit(X, y)
    got = SparseBayesRegressor(
        prior=np.float64(1),
        noise_variance=np.float32(1),
        tol=np.float64(1e-3),
        max_iter=np.int64(50),
        fit_intercept=np.True_,
        warm_start=np.False_,
        verbose=np.int32(0),
    )
    assert_array_equal(got.fit(X, y).predict(X), want.predict(X))
    assert_array_equal(got.set_params(noise_variance=1).fit(X, y).predict(X), want.predict(X))


def test_a_kernel_that_is_not_finite():
    X, y = plain()
    with pytest.raises(ValueError, match="NaN or infinit"):
        RVR(lambda X, Z: np.full((len(X), len(Z)), np.nan)).fit(X, y)
    with pytest.raises(ValueError, match="shape"):
        RVR(lambda X, Z: np.ones((2, 2))).fit(X, y)


# Targets without information


@EACH
@pytest.mark.parametrize("value", [0.0, 1.0, -7.3, 0.1, 1e150, -1e-150, 1e-300, 1e6 + 0.1])
@pytest.mark.parametrize("solver", ["working-set", "sequential"])
def test_constant_targets(make, value, solver):
    X, _ = plain()
    with pytest.warns(ConvergenceWarning, match="noise"):
        model = make(solver=solver).fit(X, np.full(30, value))
    assert_sane(model, X)
    assert len(model.relevance_) == 0
    assert_array_equal(model.predict(X), np.full(30, value))
    assert model.intercept_ == value
    assert (model.predict(X, return_std=True)[1] < 1e-12 * max(abs(value), 1)).all()
    assert model.score(X, np.full(30, value)) == 1.0


@EACH
def test_constant_targets_with_given_noise(make):
    X, _ = plain()
    for value, noise in [(3.0, 0.25), (0.0, 1e-8), (1e20, 1e-2), (1e-20, 100.0)]:
        model = make(noise_variance=noise).fit(X, np.full(30, value))
        assert_sane(model, X)
        assert_array_equal(model.predict(X), np.full(30, value))
        std = model.predict(X, return_std=True)[1]
        assert_allclose(std, np.sqrt(noise * (1 + 1 / 30)))


def test_constant_and_varying_targets():
    X, y = plain()
    model = SparseBayesRegressor().fit(X, np.stack([y, np.full(30, 4.0)], axis=1))
    assert_sane(model, X)
    assert_allclose(model.predict(X)[:, 1], 4.0, rtol=1e-12)
    assert 0 in model.relevance_


def test_targets_constant_up_to_rounding():
    X, _ = plain()
    y = np.full(30, 0.1)
    y[::2] = np.nextafter(0.1, 1)
    with pytest.warns(ConvergenceWarning, match="noise"):
        model = SparseBayesRegressor().fit(X, y)
    assert len(model.relevance_) == 0


# Columns without information


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_void_and_equal_columns(fit_intercept):
    X, y = plain(60, 4)
    bad = np.column_stack([np.zeros(60), X, np.full(60, 0.1), X[:, 0], -2 * X[:, 0], X[:, 1:]])
    model = SparseBayesRegressor(fit_intercept=fit_intercept).fit(bad, y)
    assert_sane(model, bad)
    assert 0 not in model.relevance_
    assert np.isin([1, 6, 7], model.relevance_).sum() == 1  # one of the three copies
    assert_allclose(model.predict(bad), X[:, 0], atol=0.2)
    assert 5 not in model.relevance_ or not fit_intercept


def test_nothing_but_void_columns():
    _, y = plain()
    for model in (SparseBayesRegressor(), SparseBayesRegressor(Bias()), RVR(), RVR("linear")):
        model.fit(np.ones((30, 2)), y)
        assert len(model.relevance_) == 0
        assert_allclose(model.predict(np.ones((3, 2))), y.mean())
        assert_allclose(model.noise_variance_, y.var(ddof=1))
    zeros = SparseBayesRegressor(fit_intercept=False).fit(np.zeros((30, 2)), y)
    assert_array_equal(zeros.predict(np.ones((3, 2))), np.zeros(3))


@DEGENERATE
@EACH
def test_more_atoms_than_samples(make):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(10, 200))
    for y in (X[:, 3] + 0.1 * rng.normal(size=10), rng.normal(size=10), X[:, :4].sum(axis=1)):
        for prior in ("flat", "ric"):
            assert_sane(make(prior=prior).fit(X, y), X)


@DEGENERATE
@EACH
def test_two_samples(make):
    for X, y in [
        ([[0.0], [1.0]], [0.0, 1.0]),
        ([[1.0], [1.0]], [0.0, 1.0]),
        ([[0.0, 3.0], [0.0, -3.0]], [1.0, 1.0]),
    ]:
        assert_sane(make().fit(X, y), np.asarray(X))


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "poly", "tps", "lspline", "sigmoid"])
def test_collinear_kernels(kernel):
    # Forty samples of a very wide kernel: atoms equal to ten digits.
    X = np.linspace(1, 2, 40)[:, None]
    y = np.cos(3 * X[:, 0]) + 0.01 * np.random.default_rng(0).normal(size=40)
    model = RVR(kernel, gamma=1e-4, prior="bic", max_iter=500)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    # Any other warning, of an overflow say, would be a fault.
    assert all(issubclass(warning.category, ConvergenceWarning) for warning in caught)
    assert bool(caught) == (model.solution_.status is not Status.CONVERGED)
    assert_sane(model, X)


# Sizes


@pytest.mark.parametrize("scale", [1e-160, 1e-300, 1e160, 1e300])
def test_targets_beyond_range(scale):
    X, y = plain()
    with pytest.raises(ValueError, match="y has values of size .* another unit"):
        RVR().fit(X, scale * y)


@pytest.mark.parametrize("scale", [1e-150, 1e150])
@EACH
def test_targets_at_the_end_of_the_range(make, scale):
    X, y = plain()
    model = make().fit(X, scale * y)
    assert_sane(model, X)
    assert_allclose(model.predict(X) / scale, make().fit(X, y).predict(X), atol=1e-6)


def test_noise_out_of_proportion():
    X, y = plain()
    for noise in (1e-40, 1e-300, 1e250):
        with pytest.raises(ValueError, match="noise_variance=.*out of proportion"):
            SparseBayesRegressor(noise_variance=noise).fit(X, y)
    for noise in (1e-6, 1e6, 1e150):
        model = SparseBayesRegressor(noise_variance=noise).fit(X, y)
        assert_sane(model, X)
        assert len(model.relevance_) == (3 if noise < 1 else 0)


def test_columns_beyond_range():
    X, y = plain()
    for scale in (1e-305, 1e300):
        with pytest.raises(ValueError, match="range of float64|infinity|too large"):
            SparseBayesRegressor().fit(X * scale, y)
    with pytest.raises(ValueError, match="too far apart"):
        SparseBayesRegressor().fit(X * 1e-140, y * 1e140)
    with pytest.raises(ValueError, match="gamma='pooled'"):
        RVR().fit(X * 1e200, y)


@DEGENERATE
@pytest.mark.parametrize("max_iter", [1, 2, 3, 10])
@pytest.mark.parametrize("solver", ["working-set", "sequential"])
def test_a_short_life(max_iter, solver):
    X, y = plain(40, 60)
    model = SparseBayesRegressor(max_iter=max_iter, solver=solver, prior="flat").fit(X, y)
    assert_sane(model, X)
    assert model.converged_ == model.certificate_.holds(1e-6)


# By the hundred


@st.composite
def problems(draw):
    """Data of any rank and scale, with copies and constants, and targets from exact to random."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, m = draw(st.integers(2, 30)), draw(st.integers(1, 40))
    rank = draw(st.integers(1, min(n, m)))
    X = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, m))
    if draw(st.booleans()):
        X = rng.normal(size=(n, m))
    if draw(st.booleans()):
        X = X.round()
    if draw(st.booleans()):
        X = X * 10.0 ** rng.integers(-12, 13, size=m)
    if draw(st.booleans()):
        X = X + 10.0 ** draw(st.integers(-3, 6))
    if draw(st.booleans()):
        X[:, rng.integers(m)] = draw(st.sampled_from([0.0, 1.0, -3.5, 1e12]))
    if draw(st.booleans()):
        X[:, rng.integers(m)] = X[:, rng.integers(m)]
    if draw(st.booleans()):
        X[rng.integers(n)] = X[rng.integers(n)]
    targets = draw(st.sampled_from([None, 1, 2, 3]))
    shape = (n, targets or 1)
    signal = X @ (rng.normal(size=(m, shape[1])) * (rng.random((m, 1)) < 0.3))
    kind = draw(st.sampled_from(["exact", "noisy", "random", "classes", "constant"]))
    y = {
        "exact": signal,
        "noisy": signal + 0.1 * (signal.std() or 1.0) * rng.normal(size=shape),
        "random": rng.normal(size=shape),
        "classes": rng.integers(0, 3, size=shape).astype(float),
        "constant": np.full(shape, draw(st.sampled_from([0.0, 1.0, -7.3]))),
    }[kind]
    y = y * 10.0 ** draw(st.integers(-12, 12)) + draw(st.sampled_from([0.0, 1e-3, 1e6]))
    weights = None
    if draw(st.booleans()):
        weights = rng.integers(0, 4, size=n) if draw(st.booleans()) else rng.exponential(size=n)
        weights = weights + (2.0 if weights.sum() < 2 else 0.0)
    return X, (y[:, 0] if targets is None else y), weights


KERNELS = ("rbf", "laplacian", "poly", "tps", "linear", "sigmoid")


@st.composite
def models(draw):
    parameters = {
        "prior": draw(st.sampled_from(["auto", "flat", "aic", "bic", "ric", 0.3])),
        "fit_intercept": draw(st.booleans()),
        "noise_variance": draw(st.none() | st.sampled_from([1e-6, 1.0, 1e6])),
        "solver": draw(st.sampled_from(SOLVERS)),
        "max_iter": draw(st.sampled_from([1, 5, 50, 300])),
        "random_state": 0,
    }
    kind = draw(st.sampled_from(["linear", "kernel", "union"]))
    if kind == "kernel":
        return RVR(draw(st.sampled_from(KERNELS)), **parameters)
    return MODELS[kind](**parameters)


@DEGENERATE
@settings(
    max_examples=120,
    deadline=20_000,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(problem=problems(), model=models())
def test_any_problem(problem, model):
    X, y, weights = problem
    try:
        model.fit(X, y, sample_weight=weights)
    except ValueError as error:
        if not re.search("out of proportion|gamma='(scale|pooled)'|other units", str(error)):
            raise
    else:
        assert_sane(model, X)
