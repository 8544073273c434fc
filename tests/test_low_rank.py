"""Smooth kernels by a few coordinates: the same numbers as the matrix, at a fraction of it."""

import copy
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics.pairwise import rbf_kernel

import sparsebayes.low_rank as low_rank
from random_problems import examples, seeds
from sparsebayes import RVR, SparseBayesClassifier
from sparsebayes.core.sums import InCoordinates
from sparsebayes.datasets import mixtures, sinc
from sparsebayes.design import ArrayDesign, make_design
from sparsebayes.dictionaries import Bias, Kernel, Linear
from sparsebayes.low_rank import LowRankDesign, is_low_rank, low_rank_design
from sparsebayes.operator_design import UnionDesign
from sparsebayes.pivots import pivoted_factor

EXACT = np.longdouble


def inputs(n=1500, seed=0, d=1):
    return np.random.RandomState(seed).uniform(-1, 1, (n, d))


@pytest.fixture(scope="module", params=["rows", "centers"])
def both(request):
    """A design by coordinates, and the matrix it stands for."""
    X = inputs()
    centers = None if request.param == "rows" else inputs(1600, seed=1)
    atoms = Kernel("rbf", gamma=2.0, centers=centers).bind(X)
    design = make_design(atoms, X)
    assert isinstance(design, LowRankDesign)
    return design, atoms.evaluate(X)


@examples(30)
@given(seeds, st.integers(1, 2), st.floats(0.01, 30.0), st.integers(2, 900))
def test_coordinates_multiply_to_the_kernel(seed, d, width, n):
    X = inputs(n, seed, d)

    def kernel(x, z):
        return np.exp(-((x[:, None] - z[None]) ** 2).sum(axis=2) / width**2)

    factor = pivoted_factor(kernel, X, max_rank=n)
    if factor is None:  # rank of the order of n: only a narrow kernel has that
        assert width < 1 or n < 100
        return
    A = factor.coordinates
    np.testing.assert_allclose(A.T @ A, kernel(X, X), rtol=0, atol=3e-13)
    np.testing.assert_allclose(factor.locate(kernel(X[factor.pivots], X)), A, rtol=0, atol=1e-5)


def test_a_rank_above_the_limit_is_refused():
    X = inputs()
    assert pivoted_factor(rbf_kernel, X, max_rank=100).rank > 5
    assert pivoted_factor(rbf_kernel, X, max_rank=5) is None


def test_a_kernel_that_is_not_positive_definite_is_refused():
    X = inputs(600)
    assert pivoted_factor(lambda x, z: np.cos(3 * (x + z.T)), X, max_rank=100) is None


def test_products_are_those_of_the_matrix(both):
    design, Phi = both
    n, m = Phi.shape
    rng = np.random.RandomState(0)
    rows, some = rng.standard_normal((3, n)), rng.permutation(m)[:7]
    assert design.shape == (n, m)
    np.testing.assert_allclose(design.columns(some), Phi[:, some].T, rtol=0, atol=1e-13)
    np.testing.assert_allclose(design.correlate(rows), rows @ Phi, rtol=0, atol=1e-11)
    np.testing.assert_allclose(design.squares(rows), rows @ Phi**2, rtol=0, atol=1e-11)
    assert design.squares(np.empty((0, n))).shape == (0, m)


@pytest.mark.parametrize("center", [True, False])
def test_all_products_in_one_metric_are_those_of_the_matrix(both, center):
    design, Phi = both
    n, m = Phi.shape
    rng = np.random.RandomState(1)
    w, some = rng.uniform(0, 1, n), rng.permutation(m)[:7]
    products = design.weighted(w, center)
    mean = w @ Phi / w.sum() if center else np.zeros(m)
    shifted = Phi - mean
    G = shifted.T @ (w[:, None] * shifted)
    np.testing.assert_allclose(products.mean, mean, rtol=0, atol=1e-13)
    np.testing.assert_allclose(products.squares, G.diagonal(), rtol=1e-11)
    unit = np.arange(1.0, m + 1.0)
    G *= unit[:, None] * unit
    to = 1e-10 * unit.max() ** 2
    few = InCoordinates(design.B, products.metric)
    np.testing.assert_allclose(few.columns(some, unit), G[some], rtol=0, atol=to)
    np.testing.assert_allclose(few.block(some, unit), G[some][:, some], rtol=0, atol=to)
    assert design.weighted(np.zeros(n), center) is None


def test_faint_or_constant_atoms_are_summed_one_by_one():
    X = inputs()
    wide = low_rank_design(Kernel("rbf", gamma=1e-4).bind(X), X)
    assert wide.weighted(np.ones(1500), True) is None
    assert wide.weighted(np.ones(1500), False) is not None
    apart = np.concatenate([inputs(1499), [[30.0]]])
    far = low_rank_design(Kernel("rbf", gamma=1.0).bind(apart), apart)
    w = np.ones(1500)
    w[-1] = 1e-9
    assert far.weighted(w, False) is None


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_moments_are_those_of_the_matrix(both, center, weighted):
    design, Phi = both
    w = np.random.RandomState(0).uniform(0, 2, len(Phi)) if weighted else None
    wanted, found = ArrayDesign(Phi).moments(w, center), design.moments(w, center)
    np.testing.assert_allclose(found.mean, wanted.mean, rtol=0, atol=1e-13)
    np.testing.assert_allclose(found.norm, wanted.norm, rtol=1e-11)


@pytest.mark.parametrize("size", [3, 1000])
def test_some_atoms_and_some_rows_are_those_of_the_whole(both, size):
    design, Phi = both
    some = np.random.RandomState(0).permutation(1500)[:size]
    one = np.ones((1, size))
    few = design.restrict(some)
    np.testing.assert_allclose(few.columns(np.arange(3)), Phi[:, some[:3]].T, rtol=0, atol=1e-13)
    np.testing.assert_allclose(few.correlate(np.ones((1, 1500))), Phi[:, some].sum(axis=0)[None])
    less = design.take(some)
    assert less.shape == (size, Phi.shape[1])
    np.testing.assert_allclose(less.correlate(one), Phi[some].sum(axis=0)[None])


@pytest.mark.parametrize("gamma", [1e-3, 1e-6, 1e-9])
def test_atoms_that_hardly_vary_keep_their_digits(gamma):
    X = inputs()
    atoms = Kernel("rbf", gamma=gamma).bind(X)
    design = low_rank_design(atoms, X)
    deviation = np.expm1(-EXACT(gamma) * (X.astype(EXACT) - X[:50].T) ** 2)
    deviation -= deviation.mean(axis=0)
    wanted = np.sqrt((deviation**2).sum(axis=0)).astype(float)
    np.testing.assert_allclose(design.moments(None, True).norm[:50], wanted, rtol=1e-13 / gamma)


def test_a_constant_kernel_is_no_atom_beside_an_intercept():
    X = inputs()
    design = low_rank_design(Kernel("rbf", gamma=1e-30).bind(X), X)
    assert not design.moments(None, True).norm.any()
    np.testing.assert_allclose(design.moments(None, False).norm, np.sqrt(1500))


def test_a_union_keeps_each_part_in_its_own_way():
    X = inputs()
    atoms = (Bias() + Kernel("rbf", gamma=1.0) + Linear()).bind(X)
    design, Phi = make_design(atoms, X), atoms.evaluate(X)
    assert isinstance(design, UnionDesign)
    assert [type(part).__name__ for part in design.designs] == [
        "ArrayDesign",
        "LowRankDesign",
        "ArrayDesign",
    ]
    np.testing.assert_allclose(design.correlate(Phi[:, :3].T.copy()), Phi[:, :3].T @ Phi, atol=1e-9)


@pytest.mark.parametrize(
    "kernel",
    [
        Kernel("rbf", gamma=1e5),  # of full rank
        Kernel("laplacian", gamma=1.0),
        Kernel("poly", gamma=1.0),
        Kernel(rbf_kernel),
    ],
)
def test_other_kernels_are_matrices(kernel):
    X = inputs()
    assert isinstance(make_design(kernel.bind(X), X), ArrayDesign)


def test_small_matrices_are_matrices():
    X = inputs(1000)
    assert isinstance(make_design(Kernel("rbf", gamma=1.0).bind(X), X), ArrayDesign)


@pytest.mark.parametrize("bias", [False, True])
def test_fits_are_those_of_the_matrix(monkeypatch, bias):
    data = mixtures(1500, random_state=0)
    dictionary = Bias() + Kernel("rbf", gamma=1.0) if bias else Kernel("rbf", gamma=1.0)
    settings = {"prior": "flat", "random_state": 0, "tol": 1e-9, "fit_intercept": not bias}
    quick = SparseBayesClassifier(dictionary, warm_start=True, **settings).fit(data.X, data.y)
    # Two searches may part where rounding decides a tie. So the matrix is asked to agree that this
    # is an optimum, and how good it is.
    monkeypatch.setattr(low_rank, "_LEAST", 2**40)
    slow = copy.deepcopy(quick).fit(data.X, data.y)
    np.testing.assert_array_equal(quick.relevance_, slow.relevance_)
    np.testing.assert_allclose(
        quick.log_marginal_likelihood_, slow.log_marginal_likelihood_, rtol=1e-9
    )
    np.testing.assert_allclose(
        quick.predict_proba(data.X), slow.predict_proba(data.X), rtol=0, atol=1e-7
    )


def test_many_rows_of_few_inputs_need_neither_the_matrix_nor_blocks():
    data = sinc(12_000, noise=0.1, random_state=1)
    tracemalloc.start()
    model = RVR(gamma="scale", random_state=0).fit(data.X, data.y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert model.certificate_.holds(1e-6)
    assert abs(model.noise_variance_ - 0.01) < 0.0005
    assert np.abs(model.predict(data.X) - data.truth).max() < 0.02
    assert peak < 200e6  # the matrix would take 1.2e9


def test_only_an_array_of_smooth_kernels_is_taken_for_one():
    X = inputs(30_000)
    rbf = Kernel("rbf", gamma=1.0)
    assert is_low_rank(rbf, X, 30_000)
    assert is_low_rank(Kernel("rbf", gamma="pooled"), X, 30_000)
    assert is_low_rank(Bias() + rbf + Linear(), X, 30_000)
    assert is_low_rank(Kernel("rbf"), (1000 * X).astype(int), 30_000)
    assert not is_low_rank(Bias() + rbf + Kernel("rbf", gamma=1e6), X, 30_000)
    assert not is_low_rank(Bias(), X, 30_000)
    assert not is_low_rank(rbf, X.astype(object), 30_000)
    assert not is_low_rank(rbf, np.full_like(X, np.nan), 30_000)
    assert not is_low_rank(rbf, inputs(30_000, d=10), 30_000)
    assert not is_low_rank(Kernel("rbf", gamma="evidence"), X, 30_000)
    assert not is_low_rank(Kernel("laplacian", gamma=1.0), X, 30_000)
    assert not is_low_rank(rbf, X, 10**9)


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("share", [0.3, 1.0, 4.0])
def test_what_is_taken_for_low_rank_has_coordinates(d, share):
    """Else the matrix would be too large to store, and be evaluated again and again."""
    X = np.random.RandomState(0).standard_normal((20_000, d))
    kernel = Kernel("rbf", gamma=share / (d * X.var()))
    if is_low_rank(kernel, X, len(X)):
        assert isinstance(low_rank_design(kernel.bind(X), X), LowRankDesign)
    else:
        assert (d, share) != (1, 1.0)


def test_frames_of_many_rows_are_fitted_like_arrays():
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame({"x": inputs(30_000)[:, 0]})
    assert not RVR()._reads_rows(X)
    assert not RVR()._reads_rows(X.to_numpy())
    assert RVR(gamma=1e6)._reads_rows(X)
