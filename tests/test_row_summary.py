"""What one pass finds of rows equals what is true of the whole, however it is divided."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from sparsebayes.rows import Block, Chosen, Chunks, LocalRows, gather, open_source, summarize
from sparsebayes.rows.moments import moments


def exact(column, weights):
    """Mean and variance in rational numbers."""
    pairs = list(zip(map(Fraction, column.tolist()), map(Fraction, weights.tolist()), strict=True))
    total = sum(w for _, w in pairs)
    mean = sum(w * x for x, w in pairs) / total
    return float(mean), float(sum(w * (x - mean) ** 2 for x, w in pairs) / total)


def divided(X, y, w, cuts):
    cuts = sorted({0, *cuts, len(y)})
    spans = list(pairwise(cuts))
    if w is None:
        return LocalRows(open_source(Chunks([(X[i:j], y[i:j]) for i, j in spans])), 10**6)
    return LocalRows(open_source(Chunks([(X[i:j], y[i:j], w[i:j]) for i, j in spans])), 10**6)


def check(found, X, y, w):
    w = np.ones(len(y)) if w is None else w
    assert (found.n, found.n_used) == (len(y), np.count_nonzero(w))
    assert_allclose(found.weight, w.sum(), rtol=1e-14)
    kept = w > 0
    X = X.toarray() if sp.issparse(X) else X
    for k in range(X.shape[1]):
        mean, variance = exact(X[:, k], w)
        size = np.abs(X[kept, k]).max()
        assert_allclose(found.inputs.mean[k], mean, rtol=1e-13, atol=4e-16 * size)
        assert_allclose(found.inputs.variance[k], variance, rtol=1e-13)
    every = exact(X.ravel(), np.repeat(w, X.shape[1]))[1]
    assert_allclose(found.variance, every, rtol=1e-13)
    assert_array_equal(found.inputs.low, X[kept].min(axis=0))
    assert_array_equal(found.inputs.high, X[kept].max(axis=0))
    mean, variance = exact(y, w)
    assert_allclose(found.targets.mean, [mean], rtol=1e-13, atol=4e-16 * np.abs(y).max())
    assert_allclose(found.targets.variance, [variance], rtol=1e-13)


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 60),
    offset=st.sampled_from([0.0, 1.0, 1e8, -1e12]),
    outlier=st.sampled_from([0.0, 1e6]),
    weighted=st.booleans(),
    cuts=st.lists(st.integers(0, 60), max_size=60),
)
def test_moments_are_those_of_the_whole(seed, n, offset, outlier, weighted, cuts):
    rng = np.random.default_rng(seed)
    X = offset + rng.normal(size=(n, 3)) * [1e-3, 1.0, 30.0]
    X[0] += outlier
    y = offset - rng.normal(size=n)
    w = rng.integers(0, 4, n) * rng.uniform(0.5, 1, n) if weighted else None
    if weighted:
        w[-1] = 2.0
    check(summarize(divided(X, y, w, [c for c in cuts if c < n])), X, y, w)


def test_many_blocks_of_one_row():
    rng = np.random.default_rng(0)
    X, y = 1e8 + rng.normal(size=(3000, 2)), rng.normal(size=3000)
    found = summarize(LocalRows(open_source(X, y), 1))
    check(found, X, y, None)
    assert not found.weighted
    assert found.n_targets == 0


@pytest.mark.parametrize("cuts", [[1], [2**k for k in range(17)]])  # or none outweighs the first
def test_a_first_block_that_is_far_from_all_others(cuts):
    x = np.random.default_rng(0).integers(-1000, 1000, 100_000)
    x[0] = 10**9
    total, squares = sum(x.tolist()), sum(value**2 for value in x.tolist())
    variance = (squares - Fraction(total**2, x.size)) / x.size
    X = x[:, None].astype(float)
    found = summarize(divided(X, X[:, 0], None, cuts))
    assert_allclose(found.inputs.mean, total / x.size, rtol=1e-13)
    assert_allclose(found.inputs.variance, float(variance), rtol=1e-13)


@pytest.mark.parametrize("block_rows", [1, 7, 1000])
@pytest.mark.parametrize("weighted", [False, True])
def test_sparse_rows(block_rows, weighted):
    rng = np.random.default_rng(1)
    X = sp.random(60, 5, density=0.4, format="csr", random_state=rng)
    X.data += 50.0
    X = sp.hstack([X, np.full((60, 1), 3.0)]).tocsr()
    w = rng.integers(0, 3, 60).astype(float) if weighted else None
    y = rng.normal(size=60)
    found = summarize(LocalRows(open_source(X, y, w), block_rows))
    check(found, X, y, w)
    assert found.sparse
    assert found.inputs.variance[-1] == 0.0


def test_entries_of_a_sparse_matrix_that_are_stored_in_parts():
    X = sp.csr_matrix((np.array([1.0, 2.0, 5.0]), np.array([0, 0, 1]), np.array([0, 2, 3])))
    assert not X.has_canonical_format
    found = moments(X)
    assert_array_equal(found.mean, [1.5, 2.5])
    assert_array_equal(found.variance, [2.25, 6.25])
    assert_array_equal(found.high, [3.0, 5.0])


def test_a_constant_has_no_variance_and_what_varies_has_some():
    X = np.column_stack([np.full(50, 0.1), np.r_[np.zeros(49), 1e-170]])
    for size in (1, 3, 50):
        found = summarize(LocalRows(open_source(X, X[:, 0]), size))
        assert found.inputs.variance[0] == found.targets.variance[0] == 0.0
        assert found.inputs.mean[0] == 0.1
        assert found.inputs.variance[1] > 0.0
    same = summarize(LocalRows(open_source(np.full((50, 2), 0.1), X[:, 1]), 7))
    assert same.variance is None


def test_values_whose_squares_overflow_give_no_warning():
    X = np.array([[1e200], [-1e200], [3e200]])
    found = summarize(LocalRows(open_source(X, X[:, 0]), 1))
    assert found.variance == np.inf
    assert_allclose(found.inputs.mean, 1e200)


def test_several_targets():
    y = np.arange(12.0).reshape(6, 2)
    found = summarize(LocalRows(open_source(y, y), 4))
    assert found.n_targets == 2
    assert_array_equal(found.targets.mean, [5.0, 6.0])


def test_weights():
    X = np.arange(6.0)[:, None]
    ones = summarize(LocalRows(open_source(X, X[:, 0], np.ones(6)), 2))
    assert not ones.weighted
    assert summarize(LocalRows(open_source(X, X[:, 0], [1, 1, 1, 0, 1, 1]), 2)).weighted
    first_blocks_empty = summarize(LocalRows(open_source(X, X[:, 0], [0, 0, 0, 0, 1, 2]), 2))
    assert_allclose(first_blocks_empty.inputs.mean, 14 / 3)
    with pytest.raises(ValueError, match="sample_weight is zero for every sample"):
        summarize(LocalRows(open_source(X, X[:, 0], np.zeros(6)), 2))
    with pytest.raises(ValueError, match="sample_weight sums to 0.6"):
        summarize(LocalRows(open_source(X, X[:, 0], np.full(6, 0.1)), 2))


def test_one_row_is_too_few():
    with pytest.raises(ValueError, match="there is only 1 row: a fit needs at least 2"):
        summarize(LocalRows(open_source([[1.0]], [2.0]), 5))


class TestLabels:
    def found(self, *chunks, weights=None):
        items = [(np.zeros((len(y), 1)), y) for y in chunks]
        if weights is not None:
            items = [(*item, w) for item, w in zip(items, weights, strict=True)]
        return summarize(LocalRows(open_source(Chunks(items), numeric_y=False), 3), numeric_y=False)

    def test_union_of_chunks(self):
        labels = self.found(
            ["b", "a", "b", "b"], ["cc", "b"], weights=[[1, 2, 0, 1], [3, 4]]
        ).labels
        assert labels.classes.tolist() == ["a", "b", "cc"]
        assert labels.counts.tolist() == [1, 3, 1]
        assert labels.weights.tolist() == [2, 6, 3]
        assert labels.classes.dtype.kind == "U"

    @pytest.mark.parametrize("dtype", [bool, np.int8, np.float32, object, "U1"])
    def test_types_are_kept(self, dtype):
        y = np.array([0, 1, 1]).astype(dtype)
        labels = self.found(y, y[:2]).labels
        kind = np.int64 if dtype is object else np.dtype(dtype)
        assert_array_equal(labels.classes, np.unique(y.astype(kind)))
        assert labels.classes.dtype == kind
        assert labels.counts.tolist() == [2, 3]

    def test_text_as_objects_and_as_an_array(self):
        labels = self.found(np.array(["a", "b"], dtype=object), np.array(["b", "c"])).labels
        assert labels.classes.tolist() == ["a", "b", "c"]

    def test_labels_of_rows_without_weight_are_known(self):
        labels = self.found(["a", "b", "c"], weights=[[1, 1, 0]]).labels
        assert labels.weights.tolist() == [1, 1, 0]

    @pytest.mark.parametrize("order", [1, -1])
    def test_types_that_cannot_be_sorted(self, order):
        chunks = [np.array(["a", "b"]), np.array([1, 2])][::order]
        with pytest.raises(ValueError, match="cannot be sorted, of the types int, str"):
            self.found(*chunks)
        with pytest.raises(ValueError, match="cannot be sorted"):
            self.found(np.array([1, "a"], dtype=object))

    def test_numbers_that_are_no_labels(self):
        with pytest.raises(ValueError, match="Unknown label type"):
            self.found(np.array([0.5, 1.0]))
        with pytest.raises(ValueError, match="more than 65536 different labels"):
            summarize(
                LocalRows(open_source(np.zeros((70_000, 1)), np.arange(70_000)), 30_000),
                numeric_y=False,
            )
        with pytest.raises(ValueError, match="one label for each row, but it has 2 columns"):
            self.found(np.array([[0, 1], [1, 0]]))


class TestGather:
    X = np.arange(4000.0).reshape(1000, 4)

    @pytest.mark.parametrize("threads", [1, 2])
    def test_the_same_rows_however_they_are_divided(self, threads):
        y, w = self.X[:, 0], np.arange(1000.0)
        whole = Chosen(0.1, 3)(Block(self.X, y, w, 0, ""))
        for size in (1, 13, 1000):
            got = gather(LocalRows(open_source(self.X, y, w), size, threads), 0.1, 3)
            assert_array_equal(got.X, whole.X)
            assert_array_equal(got.y, whole.y)
            assert_array_equal(got.weights, whole.weights)
        other = gather(LocalRows(open_source(self.X, y), 64), 0.1, 4)
        assert other.weights is None
        assert not np.array_equal(other.y, whole.y)

    def test_all_rows(self):
        S = sp.csr_matrix(self.X)
        got = gather(LocalRows(open_source(S, self.X[:, :2]), 64))
        assert_array_equal(got.X.toarray(), self.X)
        assert_array_equal(got.y, self.X[:, :2])

    def test_weights_of_some_chunks(self):
        items = [(self.X[:3], self.X[:3, 0]), (self.X[3:5], self.X[3:5, 0], [2.0, 0.0])]
        got = gather(LocalRows(open_source(Chunks(items)), 64))
        assert got.weights.tolist() == [1, 1, 1, 2, 0]
