"""Bad and extreme input of classifiers: a right answer or a clear error, never NaN nor a hang."""

import re

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import DataConversionWarning

from pairwise import in_turn, pairwise
from sparsebayes import RVC, SparseBayesClassifier, SparseBayesRegressor
from sparsebayes.dictionaries import Kernel, Linear
from sparsebayes.hyperpriors import Flat
from sparsebayes.problem import Status
from test_bad_input import WRONG as WRONG_OF_REGRESSORS

DEGENERATE = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
MODELS = {
    "linear": SparseBayesClassifier,
    "kernel": RVC,
    "union": lambda **p: SparseBayesClassifier(Linear() + Kernel(gamma=0.5), **p),
}
EACH = pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
SOLVERS = ["working-set", "sequential", "sequential-random", "sequential-cyclic"]


def plain(n_classes=2, n=30, d=3, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    X = rng.normal(size=(n, d))
    X[:, 0] += y
    return X, y


def assert_sane(model, X):
    """What holds of every fit, however bad the data."""
    K = len(model.classes_)
    for plug_in in (False, True):
        p = model.predict_proba(X, plug_in=plug_in)
        assert p.shape == (X.shape[0], K)
        assert (p >= 0).all()
        assert_allclose(p.sum(axis=1), 1, atol=1e-9)
        assert not np.isnan(model.predict_log_proba(X, plug_in=plug_in)).any()
    f = model.decision_function(X)
    assert not np.isnan(f).any()
    assert np.isfinite(model.decision_function(X, plug_in=True)).all()
    assert np.isin(model.predict(X), model.classes_).all()
    assert np.isfinite(model.log_marginal_likelihood_)
    parts = (model.relevance_, model.weights_, model.prior_variance_)
    for relevance, weights, v in [parts] if K == 2 else zip(*parts, strict=True):
        assert (np.diff(relevance) > 0).all()
        assert np.isfinite(weights).all()
        assert np.isfinite(v).all()
        assert (v > 0).all()
    assert np.isfinite(model.covariance_).all()
    assert (model.covariance_.diagonal() >= 0).all()
    assert np.isfinite(model.intercept_).all()
    certificate = model.certificate_
    assert np.isfinite([certificate.max_gain, certificate.gradient_norm]).all()
    assert certificate.holds(model.tol) or not model.converged_


# Targets that are none


@EACH
def test_one_class_only(make):
    X, _ = plain()
    for label in ("oak", 1, True, 0.0):
        message = f"y has only one class, .*{label}.*: a classifier needs samples of at least two"
        with pytest.raises(ValueError, match=message):
            make().fit(X, np.full(30, label))
    with pytest.raises(ValueError, match="minimum of 2"):
        make().fit(X[:1], [1])


@EACH
def test_labels_that_are_none(make):
    X, y = plain()
    for wrong, message in [
        (X[:, 0], "continuous"),
        (y + 0.5 * (y > 0), "continuous"),
        (np.where(y > 0, np.nan, 0.0), "NaN"),
        (np.where(y > 0, np.inf, 0.0), "infinity"),
        (np.array(["a", np.nan] * 15, dtype=object), "NaN|Unknown label type|one type"),
        (np.array(["a", None] * 15, dtype=object), "row 1 has no label but None"),
        (np.array([None, 1] * 15, dtype=object), "row 0 has no label but None"),
        ([None, *y[1:].tolist()], "row 0 has no label but None"),
        (np.array([1, pd.NA] * 15, dtype=object), "row 1 has no label but <NA>"),
        (np.array(["2020-01-01", "NaT"] * 15, dtype="M8[D]"), "row 1 has no label but NaT"),
        (np.array(["a", 1] * 15, dtype=object), "cannot be sorted, of the types int, str"),
        (np.array([1, "a"] * 15, dtype=object), "cannot be sorted, of the types int, str"),
        (np.array([{}, []] * 15, dtype=object), "cannot be sorted, of the types dict, list"),
        (np.array([None, [1], [1, 2]], dtype=object)[1 + y], "of the types list"),
        (np.array([frozenset("a"), frozenset("b")] * 15), "cannot be sorted, of the types froz"),
        (np.array([1, *X[1:, 0]], dtype=object), "continuous"),
        (y + 1j, "Complex"),
        (np.stack([y, y], axis=1), "1d|1-d|1D|multilabel|multioutput"),
        (np.stack([y, y], axis=1)[:, :, None], "1d|dim 3|shape"),
        (y[:20], "inconsistent numbers of samples"),
        (None, "requires y"),
    ]:
        with pytest.raises((ValueError, TypeError), match=message):
            make().fit(X, wrong)


@EACH
def test_a_column_of_labels(make):
    X, y = plain(3)
    with pytest.warns(DataConversionWarning):
        model = make().fit(X, y[:, None])
    assert model.predict(X).shape == (30,)
    assert_array_equal(model.predict_proba(X), make().fit(X, y).predict_proba(X))


@EACH
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
def test_inputs_that_are_not_finite(make, storage):
    X, y = plain()
    wrong = X.copy()
    wrong[3, 1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        make().fit(storage(wrong), y)
    model = make().fit(storage(X), y)
    for call in (model.predict, model.predict_proba, model.decision_function):
        with pytest.raises(ValueError, match="NaN"):
            call(storage(wrong))
        with pytest.raises(ValueError, match="features"):
            call(X[:, :2])


# Parameters


WRONG = WRONG_OF_REGRESSORS | {
    "shared": ["yes", 1, None],
    "class_weight": ["even", 3, [1, 2], {"oak": 1}, {0: -1}],
}
del WRONG["noise_variance"]


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name, values in WRONG.items() for value in values],
    ids=lambda x: repr(x)[:20],
)
def test_wrong_parameters(name, value):
    X, y = plain()
    for make in (SparseBayesClassifier, RVC):
        with pytest.raises((ValueError, TypeError), match=name):
            make(**{name: value}).fit(X, y)


def test_parameters_of_numpy_kinds():
    X, y = plain(3)
    want = SparseBayesClassifier(prior=1.0, shared=True).fit(X, y)
    got = SparseBayesClassifier(prior=np.float64(1), shared=np.True_, verbose=np.int32(0))
    assert_array_equal(got.fit(X, y).predict_proba(X), want.predict_proba(X))


# Data without information, or with too much


@DEGENERATE
@EACH
def test_two_samples(make):
    for X in ([[0.0], [1.0]], [[1.0], [1.0]], [[0.0, 3.0], [0.0, -3.0]]):
        model = make().fit(X, ["a", "b"])
        assert_sane(model, np.asarray(X))
    assert_allclose(make().fit([[1.0], [1.0]], [0, 1]).predict_proba([[1.0]]), [[0.5, 0.5]])


@DEGENERATE
@pairwise(make=MODELS, n_classes=[2, 3], gap=[1.0, 1e3], prior=["auto", "flat", "bic"])
def test_separable(make, n_classes, gap, prior):
    X, y = plain(n_classes)
    X = 0.1 * X + gap * y[:, None]
    model = make(prior=prior).fit(X, y)
    assert_sane(model, X)
    if gap == 1.0:
        assert_array_equal(model.predict(X), y)
        proba = model.predict_proba(X)[np.arange(30), y]
        assert proba.min() > 0.5


@DEGENERATE
@pytest.mark.parametrize("model", [SparseBayesClassifier(), RVC(gamma=0.5, centers=20)], ids=str)
@pytest.mark.parametrize("easy", [True, False])
def test_one_in_ten_thousand(model, easy):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(10_001, 3))
    y = np.zeros(10_001, dtype=int)
    y[17] = 1
    if easy:
        X[17] = 6.0
    model = clone(model).set_params(random_state=0).fit(X, y)
    assert_sane(model, X)
    rare = model.predict_proba(X, plug_in=True)[:, 1]
    assert rare.mean() < 1e-3
    assert (model.predict(X) == 0).sum() >= 9_990
    if easy:
        assert rare[17] > 5 * np.median(rare)
        assert model.predict_proba(X)[17, 1] > model.predict_proba(X)[:, 1].mean()
    even = model.set_params(class_weight="balanced").fit(X, y)
    assert_sane(even, X)
    assert even.predict(X)[17] == 1


@EACH
def test_equal_rows_of_different_classes(make):
    X = np.repeat([[0.0, 1.0], [2.0, 1.0]], [40, 40], axis=0)
    y = np.tile(["a", "b", "a", "a"], 20)
    model = make().fit(X, y)
    assert_sane(model, X)
    assert_allclose(model.predict_proba(X, plug_in=True)[:, 0], 0.75, atol=1e-6)
    y[40:] = "b"
    y[40:43] = "a"
    model = make(prior="flat").fit(X, y)
    assert_sane(model, X)
    assert_allclose(model.predict_proba(X[[0, 79]])[:, 0], [0.75, 3 / 40], atol=0.08)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_void_and_equal_columns(fit_intercept, n_classes):
    X, y = plain(n_classes, 60)
    X[:, 0] += y
    bad = np.column_stack([np.zeros(60), X, np.full(60, 0.1), X[:, 0], -2 * X[:, 0]])
    model = SparseBayesClassifier(fit_intercept=fit_intercept, prior="aic").fit(bad, y)
    assert_sane(model, bad)
    active = model.relevance_ if n_classes == 2 else np.concatenate(model.relevance_)
    assert 0 not in active
    if fit_intercept:
        assert 4 not in active


def test_nothing_but_void_columns():
    y = np.repeat([0, 1], [20, 10])
    for model in (SparseBayesClassifier(), RVC(), RVC("linear")):
        model.fit(np.ones((30, 2)), y)
        assert len(model.relevance_) == 0
        assert_allclose(model.predict_proba(np.ones((3, 2)), plug_in=True)[:, 0], 2 / 3)
    zeros = SparseBayesClassifier(fit_intercept=False).fit(np.zeros((30, 2)), y)
    assert_array_equal(zeros.predict_proba(np.ones((3, 2))), np.full((3, 2), 0.5))


@DEGENERATE
@EACH
def test_more_atoms_than_samples(make):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 200))
    for y in (X[:, 3] > 0, np.digitize(X[:, 3], [-0.5, 0.5]), rng.integers(0, 3, size=12)):
        for prior in ("flat", "ric"):
            assert_sane(make(prior=prior, max_iter=500).fit(X, y), X)


@DEGENERATE
@in_turn(make=MODELS, shared=[False, True])
def test_many_classes_of_few_samples(make, shared):
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    rng = np.random.default_rng(0)
    y = np.repeat(letters, 2)
    X = np.repeat(rng.normal(size=(26, 4)), 2, axis=0) + 0.1 * rng.normal(size=(52, 4))
    model = make(shared=shared, max_iter=8).fit(X, y)
    assert_sane(model, X)
    assert_array_equal(model.classes_, letters)
    assert len(model.relevance_) == 26


# Sizes


@pairwise(scale=[1e-120, 1e-9, 1e9, 1e120], n_classes=[2, 3], storage=[np.asarray, sp.csr_array])
def test_columns_in_other_units(scale, n_classes, storage):
    X, y = plain(n_classes)
    want = SparseBayesClassifier(prior="flat").fit(X, y)
    got = SparseBayesClassifier(prior="flat").fit(storage(X * scale), y)
    assert_sane(got, storage(X * scale))
    assert_allclose(got.predict_proba(storage(X * scale)), want.predict_proba(X), atol=1e-5)
    assert_allclose(got.log_marginal_likelihood_, want.log_marginal_likelihood_, atol=1e-4)


@pytest.mark.parametrize("scale", [1e-150, 1e-9, 1e9, 1e150])
def test_kernels_in_other_units(scale):
    X, y = plain(3)
    want = RVC().fit(X, y)
    got = RVC().fit(X * scale, y)
    assert_allclose(got.predict_proba(X * scale), want.predict_proba(X), atol=1e-5)


def test_columns_beyond_range():
    X, y = plain()
    for scale in (1e-305, 1e-155, 1e155, 1e300):
        with pytest.raises(ValueError, match="range of float64|infinity|too large"):
            SparseBayesClassifier().fit(X * scale, y)
    with pytest.raises(ValueError, match="gamma='scale'"):
        RVC().fit(X * 1e200, y)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("make", [SparseBayesClassifier, lambda: RVC("poly", gamma=1.0)])
def test_inputs_of_any_size_are_predicted_or_refused_in_a_sentence(make, n_classes):
    X, y = plain(n_classes)
    model = make().fit(X, y)
    told = []
    for size in 10.0 ** np.arange(0, 309, 7):
        far = np.full((1, 3), size)
        try:
            p = model.predict_proba(far)
        except ValueError:
            told.append(False)
            with pytest.raises(ValueError, match=r"overflows? on this X"):
                model.predict_proba(far)
            continue
        told.append(True)
        assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(far))
    assert told[0]
    assert not told[-1]
    assert told == sorted(told, reverse=True)


def test_columns_shifted():
    X, y = plain(3)
    want = SparseBayesClassifier(prior="flat").fit(X, y)
    for shift in (1e3, -1e6):
        got = SparseBayesClassifier(prior="flat").fit(X + shift, y)
        assert_allclose(got.predict_proba(X + shift), want.predict_proba(X), atol=1e-4)


@DEGENERATE
@pairwise(max_iter=[1, 2, 10], solver=["working-set", "sequential"], n_classes=[2, 3])
def test_a_short_life(max_iter, solver, n_classes):
    X, y = plain(n_classes, 40, 60)
    model = SparseBayesClassifier(max_iter=max_iter, solver=solver, prior=Flat()).fit(X, y)
    assert_sane(model, X)
    assert model.converged_ == model.certificate_.holds(1e-6)


# By the hundred


@st.composite
def problems(draw):
    """Data of any rank and scale, with copies and constants, and labels from exact to random."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_classes = draw(st.sampled_from([2, 2, 2, 3, 4]))
    n, m = draw(st.integers(n_classes, 25)), draw(st.integers(1, 20))
    rank = draw(st.integers(1, min(n, m)))
    X = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, m))
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
    kind = draw(st.sampled_from(["exact", "noisy", "random", "rare"]))
    signal = X @ rng.normal(size=m)
    if kind == "noisy":
        signal = signal + (signal.std() or 1.0) * rng.normal(size=n)
    rank_of = np.argsort(np.argsort(rng.normal(size=n) if kind == "random" else signal))
    y = rank_of * n_classes // n
    if kind == "rare":
        y = np.maximum(rank_of - (n - n_classes), 0)
    weights = None
    if draw(st.booleans()):
        weights = rng.integers(0, 4, size=n) if draw(st.booleans()) else rng.exponential(size=n)
        weights[np.unique(y, return_index=True)[1]] += 1.0 if weights.dtype == float else 1
    return X, np.array(["a", "b", "c", "d"])[y], weights


KERNELS = ("rbf", "laplacian", "poly", "tps", "linear", "sigmoid")


@st.composite
def models(draw):
    solver = draw(st.sampled_from(SOLVERS))
    parameters = {
        "prior": draw(st.sampled_from(["auto", "flat", "aic", "bic", "ric", 0.3])),
        "fit_intercept": draw(st.booleans()),
        "class_weight": draw(st.sampled_from([None, None, "balanced"])),
        "shared": draw(st.booleans()) and solver == "working-set",
        "solver": solver,
        "max_iter": draw(st.sampled_from([1, 5, 50, 300])),
        "random_state": 0,
    }
    kind = draw(st.sampled_from(["linear", "kernel", "union"]))
    if kind == "kernel":
        return RVC(draw(st.sampled_from(KERNELS)), **parameters)
    return MODELS[kind](**parameters)


BY_THE_HUNDRED = settings(
    max_examples=40,
    deadline=20_000,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@DEGENERATE
@BY_THE_HUNDRED
@given(problem=problems(), model=models())
def test_any_problem(problem, model):
    X, y, weights = problem
    try:
        model.fit(X, y, sample_weight=weights)
    except ValueError as error:
        if not re.search("gamma='scale'|other units", str(error)):
            raise
    else:
        assert_sane(model, X)


@DEGENERATE
@settings(BY_THE_HUNDRED, max_examples=25)
@given(problem=problems(), scale=st.sampled_from([1, 30, 10_000, 1_000_000]))
def test_any_counts(problem, scale):
    X, y, weights = problem
    counts = np.searchsorted(np.array(["a", "b", "c", "d"]), y) * scale
    model = SparseBayesRegressor(likelihood="poisson", max_iter=300)
    try:
        model.fit(X, counts, sample_weight=weights)
    except ValueError as error:
        if not re.search("other units", str(error)):
            raise
        return
    mean, std = model.predict(X, return_std=True)
    # Columns of 1e11 that almost cancel can leave a rate nothing but rounding: such a fit says so.
    broken = model.solution_.status is Status.BREAKDOWN
    assert ((mean >= 0) & (broken | (mean < np.inf))).all()
    # The spread may be infinite: where there are no counts at all, the log rate has no lower end.
    assert (std >= 0).all()
    assert np.isfinite(model.log_marginal_likelihood_)
