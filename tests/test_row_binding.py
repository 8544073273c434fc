"""Dictionaries bound to rows in blocks equal those bound to the same rows in memory."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.metrics.pairwise import rbf_kernel

from pairwise import pairwise
from sparsebayes._counting import recount, sits_on_rows
from sparsebayes._samples import gather as gather_samples
from sparsebayes.dictionaries import (
    Bias,
    Kernel,
    Linear,
    Operator,
    StationaryWavelet,
    Union,
    Wavelet,
)
from sparsebayes.dictionaries._distinct import distinct_rows
from sparsebayes.rows import LocalRows, open_source, summarize
from sparsebayes.rows.binding import bind_rows

RNG = np.random.default_rng(0)
N, D = 400, 3
X = RNG.normal(size=(N, D)) + [0.0, 5.0, -2.0]
Y = RNG.normal(size=N)
MANY = RNG.normal(size=(30_000, 2))


def bound(dictionary, X, w=None, block_rows=37, threads=1, seed=0, limit=10**9, y=None):
    y = np.arange(float(X.shape[0])) if y is None else y
    rows = LocalRows(open_source(X, y, w), block_rows, threads)
    return bind_rows(dictionary, rows, summarize(rows), seed, limit)


def in_memory(dictionary, X, w=None, seed=0, y=None):
    """As an estimator binds it: equal samples merged, in their order; none of weight zero."""
    y = np.arange(float(X.shape[0])) if y is None else y
    ordered = sits_on_rows(dictionary)
    samples = gather_samples(X, y[:, None], w, pairwise=False, ordered=ordered)
    atoms = dictionary.bind(samples.X, sample_weight=samples.weights, random_state=seed)
    if w is not None or samples.rows is None:
        return atoms
    return recount(dictionary, atoms, samples.rows, X.shape[0])


def check_same(one, other, X):
    assert (one.size, one.count, one.n_features_in) == (
        other.size,
        other.count,
        other.n_features_in,
    )
    assert_array_equal(one.index, other.index)
    assert_allclose(one.evaluate(X[:50]), other.evaluate(X[:50]), rtol=1e-11, atol=1e-14)


class Own:
    """A user's own dictionary, which remembers what it was bound to."""

    def bind(self, X, *, sample_weight=None, random_state=None):
        self.seen = X, sample_weight
        return Linear().bind(X)


DICTIONARIES = {
    "linear": Linear(),
    "bias": Bias(),
    "scale": Kernel("rbf"),
    "auto": Kernel("rbf", gamma="auto", centers=9),
    "number": Kernel("laplacian", gamma=0.3, centers=9),
    "widths": Kernel("rbf", gamma=[0.5, 0.0, 2.0], centers=9),
    "some-centers": Kernel("rbf", centers=X[:7]),
    "poly": Kernel("poly", degree=2, coef0=1.0, centers=9),
    "tps": Kernel("tps", centers=9),
    "cosine": Kernel("cosine", centers=9),
    "gaussian-process": Kernel(RBF(2.0) + WhiteKernel(), centers=9),
    "function": Kernel(rbf_kernel, kernel_params={"gamma": 0.2}, centers=9),
    "too-many-centers": Kernel("rbf", centers=10_000),
    "union": Bias() + Linear() + Kernel("rbf", centers=9) + Kernel("rbf", gamma=0.1),
    "nested": Union([Union([Bias(), Kernel("rbf", centers=5)]), Linear()]),
}


@pairwise(name=list(DICTIONARIES), block_rows=[37, 1000])
def test_atoms_are_those_of_rows_in_memory(name, block_rows):
    dictionary = DICTIONARIES[name]
    check_same(bound(dictionary, X, block_rows=block_rows), in_memory(dictionary, X), X)


@pytest.mark.parametrize("name", DICTIONARIES)
def test_weights(name):
    dictionary = DICTIONARIES[name]
    w = RNG.integers(0, 3, N).astype(float)
    one, other = bound(dictionary, X, w, threads=2), in_memory(dictionary, X, w)
    if name in ("scale", "union"):  # kernels at rows are counted among all rows, used or not
        assert one.count - other.count == np.count_nonzero(w == 0)
        one, other = (atoms.parts[-1] if name == "union" else atoms for atoms in (one, other))
        assert_array_equal(np.sort(one.index), np.flatnonzero(w))
        assert_array_equal(one.centers, X[one.index])
        assert_array_equal(one.centers, other.centers)
        assert_allclose(one.gamma_, other.gamma_, rtol=1e-13)
    else:
        check_same(one, other, X)


def test_weights_of_zero_alone_change_no_order():
    w = (np.arange(N) % 3 > 0).astype(float)
    one = bound(Kernel(centers=9), X, w)
    assert_array_equal(one.centers, Kernel(centers=9).bind(X[w > 0], random_state=0).centers)


@pytest.mark.parametrize("name", ["linear", "scale", "number", "some-centers", "cosine"])
def test_sparse_rows(name):
    S = sp.random(N, D, density=0.5, format="csr", random_state=3)
    one, other = bound(DICTIONARIES[name], S), in_memory(DICTIONARIES[name], S)
    assert_array_equal(one.index, other.index)
    one, other = one.evaluate(S[:20]), other.evaluate(S[:20])
    if sp.issparse(other):
        one, other = one.toarray(), other.toarray()
    assert_allclose(one, other, rtol=1e-11)


def test_sparse_rows_are_refused_by_kernels_that_cannot_take_them():
    S = sp.random(N, D, density=0.5, format="csr", random_state=3)
    with pytest.raises(TypeError, match="does not take sparse data"):
        bound(Kernel("lspline", centers=5), S)


class TestSamples:
    """More rows than k-means is given."""

    dictionary = Kernel("rbf", gamma=1.0, centers=3)

    def test_the_same_sample_in_memory_and_in_blocks(self):
        atoms = self.dictionary.bind(MANY, random_state=0)
        for size in (999, 10**6):
            again = bound(self.dictionary, MANY, block_rows=size)
            assert_array_equal(again.centers, atoms.centers)

    def test_order_repetition_and_weights(self):
        w = RNG.integers(0, 3, len(MANY)).astype(float)
        y = np.zeros(len(MANY))  # equal rows are one sample
        one = bound(self.dictionary, MANY, w, 5000, y=y)
        assert_allclose(one.centers, in_memory(self.dictionary, MANY, w, y=y).centers, rtol=1e-12)
        again = np.repeat(MANY, w.astype(int), axis=0)[RNG.permutation(int(w.sum()))]
        y = np.zeros(len(again))
        assert_allclose(bound(self.dictionary, again, None, 5000, y=y).centers, one.centers)
        assert_allclose(in_memory(self.dictionary, again, y=y).centers, one.centers)

    def test_a_sample_is_fair(self):
        drawn = distinct_rows(np.arange(100_000.0)[:, None], None, 20_000)
        assert not drawn.complete
        assert len(drawn.keys) == 20_000
        counts = np.histogram(drawn.X, bins=20, range=(0, 100_000))[0]
        assert (np.abs(counts - 1000) < 5 * np.sqrt(1000 * 0.8)).all()
        grid = np.stack(np.meshgrid(np.arange(300.0), np.arange(300.0)), axis=-1).reshape(-1, 2)
        drawn = distinct_rows(grid, None, 20_000)
        counts = np.histogram2d(*drawn.X.T, bins=5)[0]
        assert (np.abs(counts - 800) < 5 * np.sqrt(800)).all()

    def test_distinct_rows_of_many_equal_ones(self):
        few = np.repeat(X[:10], 5000, axis=0)
        found = distinct_rows(few, None, 20_000)
        assert found.complete
        assert_array_equal(found.weights, np.full(10, 5000.0))
        assert bound(Kernel(centers=30), few, y=np.zeros(len(few))).size == 10


def test_a_dictionary_of_ones_own_is_bound_to_a_sample():
    dictionary = Own()
    assert bound(dictionary, MANY).size == 2
    seen, weights = dictionary.seen
    assert 19_000 < len(seen) < 21_000
    assert weights is None
    bound(dictionary, MANY, limit=16 * 1000)
    assert 800 < len(dictionary.seen[0]) < 1200
    w = np.arange(float(N)) % 2
    bound(dictionary, X, w)
    assert_array_equal(dictionary.seen[0], X[1::2])
    assert_array_equal(dictionary.seen[1], np.ones(N // 2))


@pytest.mark.parametrize(
    ("dictionary", "limit", "message"),
    [
        (Kernel("rbf"), 9000, r"centers=None puts a kernel at each of 400 rows, .* centers=2000"),
        (Kernel("rbf", centers=5), 9000, r"centers=5 are found by k-means of 400 rows"),
        (Kernel("rbf", gamma="evidence"), 10**9, "gamma='evidence' is learned from rows in memory"),
        (Kernel("rbf", gamma="ard"), 10**9, "gamma='ard' is learned from rows in memory"),
        (Kernel("precomputed"), 10**9, "a precomputed kernel matrix has a column for each row"),
        (Wavelet(), 10**9, "wavelets need all rows at once"),
        (StationaryWavelet(), 10**9, "wavelets need all rows at once"),
        (Linear() + Wavelet(), 10**9, "wavelets need all rows at once"),
        (Operator(np.eye(N)), 10**9, "the matrix of an Operator has a row for each sample"),
        (Kernel("rbf", centers=0), 10**9, "centers must be at least 1"),
        (Kernel("rbf", centers=X[:, :2]), 10**9, r"an array of shape \(n_centers, 3\)"),
        (Kernel("no-kernel"), 10**9, "unknown kernel 'no-kernel'"),
        (Kernel("rbf", gamma=-1.0, centers=5), 10**9, "gamma must be a positive number"),
        (Kernel("rbf", gamma="wide", centers=5), 10**9, "gamma must be a positive number"),
    ],
)
def test_what_cannot_be_bound(dictionary, limit, message):
    with pytest.raises(ValueError, match=message):
        bound(dictionary, X, limit=limit)


def test_parts_that_are_no_dictionaries():
    with pytest.raises(TypeError, match="part 1 of the union is no dictionary"):
        bound(Union([Linear(), 3]), X)


def test_scale_of_values_that_overflow():
    with pytest.raises(ValueError, match="gamma='scale' cannot be computed"):
        bound(Kernel("rbf", centers=5), X * 1e200)
    assert bound(Kernel("rbf", centers=5), np.ones((10, 2))).gamma_ == 1.0


def test_parameters_of_the_dictionary_stay_as_they_are():
    dictionary = Kernel("rbf", centers=5)
    bound(dictionary, X)
    assert (dictionary.gamma, dictionary.centers) == ("scale", 5)
