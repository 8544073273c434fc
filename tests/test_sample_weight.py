"""A weight of two is a row given twice, and a weight of zero a row left out: to the last bit."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics.pairwise import rbf_kernel

from sparsebayes import RVR, SparseBayesRegressor
from sparsebayes._samples import gather, standardized
from sparsebayes.dictionaries import Bias, Kernel, Linear, Union

N, D = 60, 2

MODELS = {
    "linear": SparseBayesRegressor(prior="flat"),
    "linear, no intercept": SparseBayesRegressor(fit_intercept=False),
    "kernel": RVR(),
    "kernel, sequential": RVR(gamma=0.2, prior="aic", solver="sequential"),
    "k-means": RVR(gamma=0.2, centers=12, random_state=0),
    "centers": RVR(gamma=0.2, centers=np.random.default_rng(3).normal(size=(10, D))),
    "union": SparseBayesRegressor(Linear() + Kernel(gamma=0.2) + Bias(), prior="aic"),
    "nested": SparseBayesRegressor(
        Union([Union([Kernel(gamma=0.3), Linear()]), Kernel("laplacian")]), prior="bic"
    ),
}
DEGENERATE = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def data(targets=1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, D)).round(1)
    X[7] = X[3]  # equal rows with different targets
    f = np.stack([np.sin(1.5 * X[:, 0]) + t + X[:, 1] for t in range(targets)], axis=1)
    y = f + 0.2 * rng.normal(size=f.shape)
    w = rng.integers(0, 4, size=N)
    w[3], w[7] = 0, 2  # the first of the equal rows is left out
    return X, (y[:, 0] if targets == 1 else y), w


def outcome(model, X):
    return [
        *model.predict(X, return_std=True),
        model.weights_,
        model.prior_variance_,
        model.covariance_,
        model.noise_variance_,
        model.log_marginal_likelihood_,
    ]


def assert_same(got, want):
    for a, b in zip(got, want, strict=True):
        assert_array_equal(a, b)


@DEGENERATE
@pytest.mark.parametrize(
    ("name", "targets", "storage"),
    [
        *((name, 1, np.asarray) for name in MODELS),
        # Beside it some have two targets, or sparse X, or both.
        *(
            (name, *other)
            for name, other in zip(
                ("kernel", "linear, no intercept", "union", "nested"),
                itertools.cycle([(2, np.asarray), (1, sp.csr_matrix), (2, sp.csc_array)]),
                strict=False,
            )
        ),
    ],
)
def test_weights_equal_repetition(name, targets, storage):
    X, y, w = data(targets)
    twice = np.repeat(np.arange(N), w)
    shuffled = np.random.default_rng(1).permutation(len(twice))
    model = MODELS[name]
    weighted = outcome(model.fit(storage(X), y, sample_weight=w), storage(X))
    assert_same(outcome(model.fit(storage(X[twice]), y[twice]), storage(X)), weighted)
    if storage is not np.asarray or name == "k-means":
        return
    # Atoms keep the order of the dictionary, which that of the rows decides.
    rows = twice[shuffled]
    again = model.fit(storage(X[rows]), y[rows])
    for a, b in zip(again.predict(storage(X), return_std=True), weighted, strict=False):
        assert_allclose(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_zero_and_one_leave_out(name):
    X, y, w = data()
    keep = w > 0
    model = MODELS[name]
    weighted = outcome(model.fit(X, y, sample_weight=keep.astype(float)), X)
    assert_same(outcome(model.fit(X[keep], y[keep]), X), weighted)


def test_ones_change_nothing():
    X, y, _ = data()
    model = RVR(gamma=0.3)
    plain = outcome(model.fit(X, y), X)
    for ones in (np.ones(N), np.ones(N, dtype=int), [1] * N, 1.0, 1):
        assert_same(outcome(model.fit(X, y, sample_weight=ones), X), plain)


def test_fractions_interpolate():
    # Not only whole numbers: the quadratic is linear in the weights.
    X, y, _ = data()
    model = SparseBayesRegressor(prior="flat", noise_variance=0.1)
    a, b = (model.fit(X, y, sample_weight=np.full(N, c)).noise_variance_ for c in (1.0, 2.5))
    assert a == b
    half = model.fit(np.vstack([X, X]), np.append(y, y), sample_weight=np.full(2 * N, 0.5))
    want = model.fit(X, y)
    assert_allclose(half.predict(X), want.predict(X), rtol=1e-12)
    assert_allclose(half.log_marginal_likelihood_, want.log_marginal_likelihood_, rtol=1e-12)


def test_relevance_counts_rows_as_the_user_does():
    X, y, w = data()
    model = RVR(gamma=0.2).fit(X, y, sample_weight=w)
    assert_array_equal(X[model.relevance_], model.relevance_vectors_)
    assert (w[model.relevance_] > 0).all()
    assert model.posterior_.atoms.count == N
    twice = np.repeat(np.arange(N), w)
    again = RVR(gamma=0.2).fit(X[twice], y[twice])
    assert_array_equal(twice[again.relevance_], model.relevance_)
    assert_array_equal(X[twice][again.relevance_], again.relevance_vectors_)
    # The first of equal rows, as everywhere.
    first = [np.flatnonzero((X[twice] == x).all(axis=1))[0] for x in again.relevance_vectors_]
    assert_array_equal(again.relevance_, first)


@pytest.mark.parametrize("place", ["first", "last", "nested"])
def test_relevance_in_unions(place):
    X, y, w = data()
    dictionary = {
        "first": Kernel(gamma=0.2) + Linear(),
        "last": Bias() + Linear() + Kernel(gamma=0.2),
        "nested": Union([Bias(), Union([Linear(), Kernel(gamma=0.2)])]),
    }[place]
    model = SparseBayesRegressor(dictionary, prior="aic").fit(X, y, sample_weight=w)
    atoms = dictionary.bind(X)
    assert model.posterior_.atoms.count == atoms.count
    Phi = model.posterior_.atoms.evaluate(X)
    assert Phi.shape[1] > 3
    # The dictionary bound to all rows has the same atoms at these positions.
    everything = dict(zip(atoms.index.tolist(), atoms.evaluate(X).T, strict=True))
    shift = {"first": 0, "last": 1 + D, "nested": 1 + D}[place]
    for position, column in zip(model.relevance_.tolist(), Phi.T, strict=True):
        row = position - shift
        if 0 <= row < N:
            assert w[row] > 0
            position = shift + np.flatnonzero((X == X[row]).all(axis=1))[0]
        assert_array_equal(column, everything[position])


def test_centers_are_no_rows():
    # As many centers as rows of positive weight: their positions stay those among the centers.
    X, y, w = data()
    centers = np.random.default_rng(3).normal(size=((w > 0).sum(), D))
    model = RVR(gamma=0.2, centers=centers).fit(X, y, sample_weight=w)
    assert_array_equal(centers[model.relevance_], model.relevance_vectors_)


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
def test_precomputed(storage):
    X, y, w = data()
    K = rbf_kernel(X, gamma=0.2)
    keep = np.flatnonzero(w)
    model = RVR("precomputed").fit(storage(K), y, sample_weight=w)
    assert (w[model.relevance_] > 0).all()
    # Columns of the rows left out are no atoms, and predictions still take all columns.
    small = RVR("precomputed").fit(storage(K[np.ix_(keep, keep)]), y[keep], sample_weight=w[keep])
    assert_array_equal(keep[small.relevance_], model.relevance_)
    assert_array_equal(model.predict(storage(K)), small.predict(storage(K[:, keep])))
    kernels = RVR(gamma=0.2).fit(X, y, sample_weight=w)
    assert_allclose(model.predict(storage(K)), kernels.predict(X), rtol=1e-6, atol=1e-6)
    union = SparseBayesRegressor(Bias() + Kernel("precomputed"), fit_intercept=False)
    union.fit(storage(K), y, sample_weight=w)
    assert (w[union.relevance_[union.relevance_ > 0] - 1] > 0).all()
    assert union.predict(storage(K)).shape == (N,)


def test_weights_that_make_no_sense():
    X, y, w = data()
    model = SparseBayesRegressor()
    for wrong, message in [
        (-w.astype(float), "negative"),
        (np.where(w == 2, np.nan, 1.0), "finite"),
        (np.where(w == 2, np.inf, 1.0), "finite"),
        (np.zeros(N), "zero for every sample"),
        (np.full(N, 1e-3), "at least 2"),
        (np.full(N, 1e300), "below 1e15"),
        (np.ones(N - 1), "sample_weight.shape"),
        (np.ones((N, 1)), "sample_weight.shape"),
        (["heavy"] * N, "numbers"),
        (np.ones(N, dtype=complex), "complex"),
    ]:
        with pytest.raises(ValueError, match="sample_weight") as caught:
            model.fit(X, y, sample_weight=wrong)
        assert message in str(caught.value)


def test_one_row_of_any_weight():
    X, y, _ = data()
    w = np.zeros(N)
    w[4] = 3
    with pytest.warns(match="noise"):
        model = SparseBayesRegressor().fit(X, y, sample_weight=w)
    assert_allclose(model.predict(X), y[4])


def test_gather_leaves_distinct_samples_alone():
    X, y, _ = data()
    samples = gather(X, y[:, None], None, pairwise=False)
    assert samples.X is X
    assert samples.weights is None
    assert samples.rows is None
    assert samples.total == N
    tied = np.zeros((N, 1))
    tied[7] = 1  # equal rows, different targets: still distinct samples
    distinct = np.unique(X, axis=0)
    assert gather(distinct, tied[: len(distinct)], None, pairwise=False).X is distinct


def test_gather_points_to_the_first_of_equal_rows():
    X, y = np.array([[5.0], [5.0], [3.0], [5.0]]), np.array([[2.0], [1.0], [1.0], [2.0]])
    samples = gather(X, y, None, pairwise=False)
    assert_array_equal(samples.X.ravel(), [3, 5, 5])
    assert_array_equal(samples.y.ravel(), [1, 1, 2])
    assert_array_equal(samples.weights, [1, 1, 2])
    assert_array_equal(samples.rows, [2, 0, 0])


def test_gather_takes_zeros_of_both_signs_for_equal():
    X, y = np.array([[0.0], [-0.0], [1.0]]), np.zeros((3, 1))
    for storage in (np.asarray, sp.csr_array):
        samples = gather(storage(X), y, None, pairwise=False)
        assert sorted(samples.weights) == [1, 2]
        assert sorted(samples.rows) == [0, 2]


@pytest.mark.parametrize("scale", [1e-150, 1e-9, 1.0, 1e9, 1e150])
def test_standardized_targets(scale):
    rng = np.random.default_rng(0)
    y = scale * (3 + rng.normal(size=(50, 2)))
    w = rng.uniform(0.5, 2, size=50)
    t, shift, unit = standardized(y, w, True)
    assert 0.5 <= np.abs(t).max() <= 1
    assert_allclose(w @ t, 0, atol=1e-13)
    assert_allclose(t * unit + shift, y, rtol=1e-14)
    assert np.log2(unit) == np.round(np.log2(unit))
    t, shift, unit = standardized(y, None, False)
    assert_array_equal(t * unit, y)
    assert_array_equal(shift, [0, 0])


def test_standardized_constants():
    for value in (0.0, 0.1, -1e150, 1e-300, 5e-324):
        t, shift, unit = standardized(np.full((100_001, 1), value), None, True)
        assert not t.any()
        assert shift[0] == value
        assert unit > 0
