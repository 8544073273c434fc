"""A design answers the same whether it is dense, sparse or evaluated in blocks."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from random_problems import examples, seeds
from sparsebayes.design import ArrayDesign, BlockedDesign, make_design
from sparsebayes.dictionaries import Bias, Kernel, Linear

EXACT = np.longdouble


def moments(Phi, weights, center):
    """Weighted mean and centered norm by definition, in extended precision where there is one."""
    Phi = Phi.astype(EXACT)
    w = np.ones(len(Phi)) if weights is None else weights
    mean = (w @ Phi) / w.sum() if center else np.zeros(Phi.shape[1])
    peak = np.abs(Phi).max(axis=0)
    unit = np.where(peak > 0, peak, 1)
    return mean, np.sqrt(w @ ((Phi - mean) / unit) ** 2) * unit


def random_kernel(seed, n=23, m=11):
    rng = np.random.RandomState(seed)
    X = rng.standard_normal((n, 2))
    return Kernel("rbf", gamma=0.7, centers=X[:m]).bind(X), X


@examples(30)
@given(seeds, st.booleans(), st.booleans(), st.integers(1, 12), st.integers(1, 9))
def test_dense_sparse_and_blocked_give_the_same(seed, center, weighted, n_rows, block_rows):
    rng = np.random.RandomState(seed)
    X = rng.standard_normal((n_rows, 5)) * (rng.uniform(size=(n_rows, 5)) < 0.5)
    weights = rng.uniform(0, 2, n_rows) if weighted else None
    atoms = Linear().bind(X)
    rows, some = rng.standard_normal((3, n_rows)), rng.permutation(5)[:3]
    mean, norm = moments(X, weights, center)
    designs = [
        ArrayDesign(X),
        ArrayDesign(np.asfortranarray(X)),
        ArrayDesign(sp.csc_matrix(X)),
        ArrayDesign(sp.csc_array(X)),
        BlockedDesign(atoms, X, block_rows),
    ]
    for design in designs:
        assert design.shape == X.shape
        np.testing.assert_array_equal(design.columns(some), X[:, some].T)
        np.testing.assert_allclose(design.correlate(rows), rows @ X, atol=1e-12)
        found = design.moments(weights, center)
        np.testing.assert_allclose(found.mean, mean, atol=1e-12)
        np.testing.assert_allclose(found.norm, norm, atol=1e-7)
        np.testing.assert_allclose(found.norm[norm > 1e-6], norm[norm > 1e-6], rtol=1e-9)
        np.testing.assert_allclose(design.squares(rows), rows @ X**2, atol=1e-12)


@examples(20)
@given(seeds, st.integers(1, 12), st.integers(1, 9))
def test_some_atoms_and_some_rows_are_those_of_the_whole(seed, n_rows, block_rows):
    rng = np.random.RandomState(seed)
    X = rng.standard_normal((n_rows, 5)) * (rng.uniform(size=(n_rows, 5)) < 0.5)
    atoms = Linear().bind(X)
    some = rng.permutation(5)[: rng.randint(0, 6)]
    rows = rng.randint(0, n_rows, rng.randint(1, 2 * n_rows + 1))
    kept = X.copy()
    for design in (
        ArrayDesign(X),
        ArrayDesign(np.asfortranarray(X)),
        ArrayDesign(sp.csc_matrix(X)),
        ArrayDesign(sp.csc_array(X)),
        BlockedDesign(atoms, X, block_rows),
    ):
        few = design.restrict(some)
        assert few.shape == (n_rows, some.size)
        np.testing.assert_array_equal(few.columns(np.arange(some.size)), X[:, some].T)
        less = design.take(rows)
        assert less.shape == (rows.size, 5)
        np.testing.assert_array_equal(less.columns(np.arange(5)), X[rows].T)
        ones = np.ones((1, rows.size))
        np.testing.assert_allclose(less.correlate(ones), ones @ X[rows], atol=1e-12)
        both = less.restrict(some)
        np.testing.assert_array_equal(both.columns(np.arange(some.size)), X[rows][:, some].T)
        np.testing.assert_allclose(both.squares(ones), ones @ X[rows][:, some] ** 2, atol=1e-12)
        shifted = few.columns(np.arange(some.size))
        shifted += 1.0  # what it returns is the caller's own
    np.testing.assert_array_equal(X, kept)


@pytest.mark.parametrize("stored_bytes", [1, 8 * 11, 8 * 11 * 7, 8 * 11 * 22])
@pytest.mark.parametrize("center", [False, True])
def test_kernels_in_blocks_equal_the_stored_ones(stored_bytes, center):
    atoms, X = random_kernel(0)
    stored, blocked = make_design(atoms, X), make_design(atoms, X, stored_bytes)
    assert isinstance(stored, ArrayDesign)
    assert isinstance(blocked, BlockedDesign)
    assert blocked.block_rows == max(1, stored_bytes // (8 * 11))
    rng = np.random.RandomState(1)
    rows, weights = rng.standard_normal((2, 23)), rng.uniform(0, 3, 23)
    some = np.array([10, 0, 4])
    np.testing.assert_allclose(blocked.columns(some), stored.columns(some), rtol=1e-12)
    np.testing.assert_allclose(blocked.correlate(rows), stored.correlate(rows), atol=1e-12)
    np.testing.assert_allclose(blocked.squares(rows), stored.squares(rows), atol=1e-12)
    for part in (blocked.restrict(some), stored.restrict(some)):
        np.testing.assert_allclose(part.correlate(rows), stored.correlate(rows)[:, some], rtol=1e-9)
    for part in (blocked.take(some), stored.take(some)):
        np.testing.assert_allclose(part.columns(some), stored.columns(some)[:, some], rtol=1e-12)
    for w in (None, weights):
        one, other = stored.moments(w, center), blocked.moments(w, center)
        np.testing.assert_allclose(other.mean, one.mean, atol=1e-14)
        np.testing.assert_allclose(other.norm, one.norm, rtol=1e-12)


def test_what_is_already_in_memory_is_never_blocked():
    X = np.random.RandomState(0).standard_normal((20, 3))
    design = make_design(Linear().bind(X), X, stored_bytes=1)
    assert isinstance(design, ArrayDesign)
    assert np.shares_memory(design.Phi, X)
    S = sp.csr_matrix(X)
    assert sp.issparse(make_design(Linear().bind(S), S, stored_bytes=1).Phi)


def test_a_union_in_blocks_equals_the_stored_one():
    X = np.random.RandomState(2).standard_normal((17, 2))
    atoms = (Bias() + Linear() + Kernel("rbf", gamma=1.0)).bind(X)
    stored, blocked = make_design(atoms, X), make_design(atoms, X, stored_bytes=8 * atoms.size * 5)
    assert isinstance(blocked, BlockedDesign)
    every = np.arange(atoms.size)
    np.testing.assert_allclose(blocked.columns(every), stored.columns(every), rtol=1e-12)
    np.testing.assert_allclose(blocked.correlate(X.T), stored.correlate(X.T), atol=1e-12)


@pytest.mark.parametrize("scale", [1e-300, 1e-170, 1e-30, 1e30, 1e170, 1e300])
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("storage", [np.asarray, sp.csc_matrix])
def test_extreme_scales_neither_overflow_nor_vanish(scale, center, weighted, storage):
    rng = np.random.RandomState(5)
    Phi = (rng.standard_normal((50, 4)) + 0.5) * (rng.uniform(size=(50, 4)) < 0.8)
    weights = rng.uniform(0, 2, 50) if weighted else None
    plain = ArrayDesign(storage(Phi)).moments(weights, center)
    scaled = Phi * np.array([1.0, scale, 1.0, -scale])
    found = ArrayDesign(storage(scaled)).moments(weights, center)
    factor = np.array([1.0, scale, 1.0, scale])
    np.testing.assert_allclose(found.norm / factor, plain.norm, rtol=1e-9)
    np.testing.assert_allclose(found.mean / factor, plain.mean * [1, 1, 1, -1], rtol=1e-9)


@pytest.mark.parametrize("offset", [0.0, 1.0, 1e3, 1e6, 1e9])
@pytest.mark.parametrize("storage", [np.asarray, sp.csc_matrix])
def test_centered_norms_survive_a_huge_offset(offset, storage):
    rng = np.random.RandomState(6)
    Phi = rng.standard_normal((60, 3)) + offset
    mean, norm = moments(Phi, None, center=True)
    found = ArrayDesign(storage(Phi)).moments(None, center=True)
    np.testing.assert_allclose(found.norm, norm.astype(float), rtol=1e-9)
    np.testing.assert_allclose(found.mean, mean.astype(float), rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("storage", [np.asarray, sp.csc_matrix])
@pytest.mark.parametrize("value", [0.0, 0.1, 1.0 / 3.0, -7e5, 1e-9])
def test_a_constant_column_is_void_when_centered_and_only_then(storage, value):
    Phi = np.random.RandomState(7).standard_normal((37, 2))
    Phi[:, 1] = value
    weights = np.random.RandomState(8).uniform(0, 2, 37)
    for w in (None, weights):
        design = ArrayDesign(storage(Phi))
        assert design.moments(w, center=True).norm[1] == 0
        total = 37 if w is None else w.sum()
        plain = design.moments(w, center=False)
        assert plain.norm[1] == pytest.approx(abs(value) * np.sqrt(total))
        assert not plain.mean.any()


def test_rows_without_weight_do_not_count():
    Phi = np.random.RandomState(9).standard_normal((10, 3))
    weights = np.repeat([1.0, 0.0], 5)
    Phi[5:, 1] = np.linspace(1e3, 2e3, 5)
    Phi[:5, 1] = 4.0
    for storage in (np.asarray, sp.csc_matrix):
        found = ArrayDesign(storage(Phi)).moments(weights, center=True)
        alone = ArrayDesign(storage(Phi[:5])).moments(None, center=True)
        assert found.norm[1] == 0
        np.testing.assert_allclose(found.norm, alone.norm, rtol=1e-9)
        np.testing.assert_allclose(found.mean, alone.mean, rtol=1e-12)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_atoms_that_are_not_finite_are_refused(bad):
    X = np.zeros((5, 2))
    X[3, 1] = bad
    with pytest.raises(ValueError, match="NaN or infinite"):
        make_design(Linear().bind(X), X)


@pytest.mark.parametrize("stored_bytes", [10**6, 10])
def test_a_kernel_that_overflows_is_refused_stored_or_in_blocks(stored_bytes):
    X = np.linspace(0, 1, 20)[:, None]
    atoms = Kernel("poly", degree=200, gamma=1e6, coef0=1.0).bind(X)
    with pytest.raises(ValueError, match="overflow"):
        make_design(atoms, X, stored_bytes).moments(None, center=True)


def test_columns_of_kernels_at_the_rows_are_rows():
    X = np.random.RandomState(0).standard_normal((40, 2))
    some = np.array([3, 17, 5])
    for kernel, centers, symmetric in (("rbf", None, True), ("rbf", X[::-1], False)):
        atoms = Kernel(kernel, gamma=0.5, centers=centers).bind(X)
        design = make_design(atoms, X)
        assert design.symmetric == symmetric
        np.testing.assert_array_equal(design.columns(some), atoms.evaluate(X)[:, some].T)
