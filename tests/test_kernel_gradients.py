"""Derivatives of kernels in what is learned of them, against definitions."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process import kernels as gp

from kernel_definitions import gentle_slope, kernel, slope
from random_problems import examples, seeds
from sparsebayes.dictionaries import Bias, Kernel, Linear, _gp_derivatives, kernel_derivatives
from sparsebayes.dictionaries._width_bounds import width_bounds

WITH_WIDTHS = ["rbf", "laplacian", "poly", "sigmoid", "lspline", "tps"]
TAKES_SPARSE = ["rbf", "laplacian", "poly", "sigmoid", "tps"]
CASES = [(name, "evidence") for name in [*WITH_WIDTHS, "chi2"]] + [
    (name, "ard") for name in WITH_WIDTHS
]
KERNEL_OBJECTS = {
    "rbf": gp.RBF(0.7),
    "rbf-of-one-in-a-list": gp.RBF([0.7]),
    "rbf-per-input": gp.RBF([0.7, 2.0, 1.0]),
    "matern-0.5": gp.Matern(0.7, nu=0.5),
    "matern-0.5-per-input": gp.Matern([0.7, 2.0, 1.0], nu=0.5),
    "matern-1.5-per-input": gp.Matern([0.7, 2.0, 1.0], nu=1.5),
    "matern-2.5": gp.Matern(1.2, nu=2.5),
    "matern-2.5-per-input": gp.Matern([0.7, 2.0, 1.0], nu=2.5),
    "matern-inf-per-input": gp.Matern([0.7, 2.0, 1.0], nu=np.inf),
    "matern-rough": gp.Matern(0.8, nu=0.3),
    "matern-any": gp.Matern([0.7, 2.0, 1.0], nu=3.7),
    "rational-quadratic": gp.RationalQuadratic(0.8, 1.3),
    "rational-quadratic-one-fixed": gp.RationalQuadratic(0.8, 1.3, alpha_bounds="fixed"),
    "periodic": gp.ExpSineSquared(0.8, 3.4),
    "periodic-one-fixed": gp.ExpSineSquared(0.8, 3.4, length_scale_bounds="fixed"),
    "dot-product": gp.DotProduct(0.6),
    "constant": gp.ConstantKernel(2.0) * gp.RBF(1.0, "fixed"),
    "noise-is-not-of-atoms": gp.RBF(1.0) + gp.WhiteKernel(0.3),
    "power": gp.DotProduct(0.6) ** 2,
    "root-of-what-is-zero": gp.RBF(0.02) ** 0.5 + gp.RBF(0.3),
    "everything": gp.ConstantKernel(2.0) * gp.RBF([1.0, 2.0, 0.5])
    + gp.Matern(nu=1.5) * gp.ExpSineSquared(1.1, 5.0, periodicity_bounds="fixed")
    + gp.RationalQuadratic() ** 1.5,
    "pairwise": gp.PairwiseKernel(0.4, metric="laplacian"),
}


class ShiftedRBF(gp.RBF):
    """A kernel that its user made from another: the formula of the other one is not its own."""

    def __call__(self, X, Y=None, eval_gradient=False):
        if eval_gradient:
            K, gradient = super().__call__(X, Y, True)
            return K**2, 2 * K[:, :, None] * gradient
        return super().__call__(X, Y) ** 2


KERNEL_OBJECTS["of-the-user"] = ShiftedRBF([0.7, 2.0, 1.0])


def rows(n=40, d=3, seed=0):
    """Not negative, for chi2; some entries zero, and one row twice."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.1, 2.0, (n, d)) * (rng.random((n, d)) > 0.2)
    X[-1] = X[0]
    return X


def bound(name, learned, X, **params):
    return Kernel(name, gamma=learned, **params).bind(X)


def close(actual, desired, rtol=1e-9):
    assert_allclose(actual, desired, rtol=rtol, atol=rtol * np.abs(desired).max(initial=0.0))


@pytest.mark.parametrize(("name", "learned"), CASES)
@examples(20)
@given(
    seed=seeds,
    n=st.integers(2, 40),
    d=st.integers(1, 7),
    size=st.floats(-6.0, 4.0),
    degree=st.integers(0, 5),
    coef0=st.floats(-1.0, 1.0),
)
def test_every_width_of_every_kernel(name, learned, seed, n, d, size, degree, coef0):
    rng = np.random.default_rng(seed)
    X = rows(n, d, seed)
    atoms = bound(name, learned, X, degree=degree, coef0=coef0)
    theta = size + rng.normal(size=len(atoms.theta))
    atoms = atoms.with_theta(theta)
    new = rows(n, d, seed + 1)
    D = rng.normal(size=(n, atoms.size))
    free = np.atleast_1d(atoms.gamma_) > 0
    if learned == "ard":
        varies = X.min(axis=0) < X.max(axis=0)
        assert_array_equal(free, varies if varies.any() else ~varies)

    def contracted(theta):
        widths = np.zeros(len(free), dtype=theta.dtype)
        widths[free] = np.exp(theta)
        return np.vdot(D, kernel(name, new, atoms.centers, widths, degree, coef0))

    close(np.vdot(D, atoms.evaluate(new)), contracted(theta + 0j).real, 1e-8)
    each = np.abs(np.vdot(D, D)) ** 0.5 * np.abs(atoms.evaluate(new)).max()
    want = slope(contracted, theta)
    assert_allclose(atoms.pullback(new, D), want, rtol=1e-9, atol=1e-9 * each)


@pytest.mark.parametrize("name", KERNEL_OBJECTS)
@pytest.mark.parametrize("learned", ["evidence", "ard"])
def test_kernel_objects(name, learned):
    X, rng = rows() - 0.4, np.random.default_rng(1)
    original = KERNEL_OBJECTS[name]
    atoms = bound(original, learned, X)
    new = np.vstack([X[:5], rows(12, seed=3)])
    D = rng.normal(size=(17, atoms.size))
    assert_array_equal(atoms.theta, original.theta)
    assert_array_equal(atoms.bounds, original.bounds)
    assert len(atoms.labels) == len(atoms.theta)
    want = gentle_slope(
        lambda theta: np.vdot(D, atoms.with_theta(theta).evaluate(new)), atoms.theta
    )
    close(atoms.pullback(new, D), want, 1e-7)
    assert_array_equal(original.theta, KERNEL_OBJECTS[name].theta)


def test_labels_of_kernel_objects():
    everything = bound(KERNEL_OBJECTS["everything"], "evidence", rows())
    assert everything.labels == (
        "k1__k1__k1__constant_value",
        "k1__k1__k2__length_scale[0]",
        "k1__k1__k2__length_scale[1]",
        "k1__k1__k2__length_scale[2]",
        "k1__k2__k1__length_scale",
        "k1__k2__k2__length_scale",
        "k2__kernel__alpha",
        "k2__kernel__length_scale",
    )


@pytest.mark.parametrize("convert", [sp.csr_matrix, sp.csr_array])
@pytest.mark.parametrize(("name", "learned"), [c for c in CASES if c[0] in TAKES_SPARSE])
def test_sparse_rows_and_centers(name, learned, convert):
    X, new, rng = rows(d=6), rows(23, 6, 2), np.random.default_rng(1)
    plain = bound(name, learned, X)
    D = rng.normal(size=(23, plain.size))
    want = plain.pullback(new, D)
    sparse = bound(name, learned, convert(X))
    close(sparse.theta, plain.theta, 1e-12)
    close(sparse.bounds, plain.bounds, 1e-12)
    for atoms in (plain, sparse):
        for given_rows in (new, convert(new)):
            close(atoms.pullback(given_rows, D), want)


@pytest.mark.parametrize(("name", "learned"), CASES)
def test_blocks_of_rows_change_nothing(name, learned, monkeypatch):
    X = rows(70, 4)
    atoms = bound(name, learned, X)
    D = np.random.default_rng(0).normal(size=(70, atoms.size))
    want = atoms.pullback(X, D)
    monkeypatch.setattr(kernel_derivatives, "_CELLS", 1)
    assert len(list(kernel_derivatives.row_blocks(70, atoms.size))) == 5
    close(atoms.pullback(X, D), want, 1e-12)


@pytest.mark.parametrize("name", ["rbf-per-input", "everything", "of-the-user"])
def test_tiles_of_kernel_objects_change_nothing(name, monkeypatch):
    X = rows(40)
    atoms = bound(KERNEL_OBJECTS[name], "evidence", X)
    D = np.random.default_rng(0).normal(size=(40, atoms.size))
    want = atoms.pullback(X, D)
    monkeypatch.setattr(_gp_derivatives, "_TILE", 7)
    monkeypatch.setattr(kernel_derivatives, "_CELLS", 1)
    close(atoms.pullback(X, D), want, 1e-12)


@pytest.mark.parametrize("d", [2, 6])
@pytest.mark.parametrize("name", ["rbf", "laplacian", "tps"])
def test_inputs_far_from_the_origin_keep_their_digits(name, d):
    X, rng = rows(30, d), np.random.default_rng(2)
    D = rng.normal(size=(30, 29))
    X = np.round(X, 6)  # so that a shift by a power of two rounds nothing
    X = np.round(X * 2**20) / 2**20
    atoms, far = bound(name, "ard", X), bound(name, "ard", X + 2.0**30)
    far = far.with_theta(atoms.theta)
    close(far.pullback(X + 2.0**30, D), atoms.pullback(X, D), 1e-9)


@pytest.mark.parametrize(("name", "learned"), CASES)
@pytest.mark.parametrize("size", [-600.0, -80.0, 40.0])
def test_widths_out_of_all_proportion_give_finite_derivatives(name, learned, size):
    X = rows()
    atoms = bound(name, learned, X)
    atoms = atoms.with_theta(np.full(len(atoms.theta), size))
    pulled = atoms.pullback(X, np.ones((len(X), atoms.size)))
    assert np.isfinite(pulled).all()
    if name in ("rbf", "laplacian", "chi2"):  # all atoms are constant, or zero but at their center
        assert np.abs(pulled).max() < 1e-10


@pytest.mark.parametrize("name", ["poly", "lspline", "tps"])
def test_derivatives_that_overflow_are_refused(name):
    atoms = bound(name, "evidence", rows())
    with pytest.raises(ValueError, match=f"kernel '{name}' overflows .* smaller gamma"):
        atoms.with_theta([705.0]).pullback(rows() + 1e10, np.ones((40, atoms.size)))


def test_one_width_is_the_sum_of_many():
    X = rows()
    for name in WITH_WIDTHS:
        one = bound(name, "evidence", X).with_theta([0.3])
        many = bound(name, "ard", X).with_theta([0.3, 0.3, 0.3])
        D = np.random.default_rng(0).normal(size=(len(X), one.size))
        close(one.pullback(X, D), many.pullback(X, D).sum(keepdims=True))


def test_unions_learn_all_their_kernels():
    X, rng = rows(), np.random.default_rng(0)
    union = (
        Bias()
        + Kernel("rbf", gamma="evidence")
        + Linear()
        + Kernel(gp.RBF([1.0, 2.0, 3.0], [(0.1, 10), (0.2, 20), (0.3, 30)]), gamma="ard")
        + Kernel("tps", gamma=0.5)
        + (Kernel("laplacian", gamma="ard") + Bias())
    )
    atoms = union.bind(X)
    assert atoms.labels[:3] == ("1__gamma", "3__length_scale[0]", "3__length_scale[1]")
    assert atoms.labels[-1] == "5__gamma[2]"
    assert_allclose(atoms.bounds[1:4], np.log([(0.1, 10), (0.2, 20), (0.3, 30)]))
    theta = atoms.theta + rng.normal(size=7)
    atoms = atoms.with_theta(theta)
    assert_allclose(atoms.theta, theta)
    D = rng.normal(size=(len(X), atoms.size))
    want = gentle_slope(lambda theta: np.vdot(D, atoms.with_theta(theta).evaluate(X)), theta)
    close(atoms.pullback(X, D), want, 1e-8)


class TestStartAndBounds:
    def test_scale_and_one_per_input(self):
        X = rows()
        X[:, 1] *= 100
        assert_allclose(np.exp(bound("rbf", "evidence", X).theta), 1 / (3 * X.var()))
        assert_allclose(np.exp(bound("rbf", "ard", X).theta), 1 / (3 * X.var(axis=0)))

    @pytest.mark.parametrize("learned", ["evidence", "ard"])
    @pytest.mark.parametrize("convert", [np.asarray, sp.csr_matrix])
    def test_a_weight_is_a_number_of_copies(self, learned, convert):
        X, weights = rows(), np.random.default_rng(0).integers(0, 4, 40)
        weighted = Kernel(gamma=learned).bind(convert(X), sample_weight=weights.astype(float))
        copied = Kernel(gamma=learned).bind(convert(np.repeat(X, weights, axis=0)))
        assert_allclose(weighted.theta, copied.theta, rtol=1e-12)
        assert_allclose(weighted.bounds, copied.bounds, rtol=1e-12)

    def test_constant_inputs_are_not_learned(self):
        X = rows()
        X[:, 1] = 0.1 + 0.2
        atoms = bound("rbf", "ard", X)
        assert atoms.labels == ("gamma[0]", "gamma[2]")
        assert_array_equal(atoms.gamma_ > 0, [True, False, True])
        moved = atoms.with_theta([1.0, 2.0])
        assert_allclose(moved.gamma_, [np.e, 0.0, np.e**2])

    @pytest.mark.parametrize("learned", ["evidence", "ard"])
    @pytest.mark.parametrize("X", [np.ones((1, 2)), np.full((5, 2), 0.3)], ids=["one row", "equal"])
    def test_nothing_varies(self, learned, X):
        atoms = bound("rbf", learned, X)
        assert np.isfinite(atoms.bounds).all()
        assert (atoms.bounds[:, 0] < atoms.theta).all()
        assert (atoms.theta < atoms.bounds[:, 1]).all()
        assert_array_equal(atoms.pullback(X, np.ones((len(X), 1))), np.zeros(len(atoms.theta)))

    @pytest.mark.parametrize("scale", [1e-100, 1e-3, 1.0, 1e5, 1e100])
    def test_units_of_the_inputs_do_not_matter(self, scale):
        X = rows()
        for learned in ("evidence", "ard"):
            plain, scaled = bound("rbf", learned, X), bound("rbf", learned, X * scale)
            shift = -2 * np.log(scale)
            assert_allclose(scaled.theta, plain.theta + shift, rtol=1e-9, atol=1e-9)
            assert_allclose(scaled.bounds, plain.bounds + shift, rtol=1e-9, atol=1e-9)

    @pytest.mark.parametrize("kernel", ["laplacian", "chi2"])
    def test_units_of_distances_that_are_not_squared_do_not_matter(self, kernel):
        X = np.abs(rows())
        for learned in ("evidence", "ard") if kernel == "laplacian" else ("evidence",):
            plain, scaled = bound(kernel, learned, X), bound(kernel, learned, X * 1e5)
            assert_allclose(scaled.theta, plain.theta - np.log(1e5))
            assert_allclose(scaled.bounds, plain.bounds - np.log(1e5))

    def test_narrowest_width_is_that_of_neighbors(self):
        X = np.linspace(0, 1, 2001)[:, None]  # more rows than are looked at
        assert_allclose(np.exp(width_bounds(X, None, 1.0)[0, 1]), 4 * 2000**2, rtol=1e-6)

    def test_there_is_room_above_the_start_where_all_rows_are_far_apart(self):
        X = np.random.default_rng(0).normal(size=(50, 200))
        atoms = bound("rbf", "evidence", X)
        assert_allclose(atoms.bounds[0, 1] - atoms.theta[0], np.log(4.0))

    def test_inputs_whose_variance_is_out_of_range(self):
        for learned in ("evidence", "ard"):
            with pytest.raises(ValueError, match="cannot be computed: .* scale"):
                bound("rbf", learned, rows() * 1e-170)


class TestBadTheta:
    @pytest.mark.parametrize("theta", [[], [1.0, 2.0], 1.0, [[1.0]]])
    def test_of_another_shape(self, theta):
        with pytest.raises(ValueError, match=r"theta has shape .* parameters are \('gamma',\)"):
            bound("rbf", "evidence", rows()).with_theta(theta)

    @pytest.mark.parametrize("theta", [[np.nan], [np.inf], [-np.inf], [800.0], [-800.0]])
    def test_of_no_positive_number(self, theta):
        with pytest.raises(ValueError, match="theta must be logarithms of positive numbers"):
            bound("rbf", "evidence", rows()).with_theta(theta)

    def test_matrix_of_another_shape(self):
        atoms = bound("rbf", "ard", rows())
        with pytest.raises(ValueError, match=r"D has shape \(40, 2\), not \(40, 39\)"):
            atoms.pullback(rows(), np.ones((40, 2)))
        with pytest.raises(ValueError, match="bound to 3"):
            atoms.pullback(rows(d=4), np.ones((40, 39)))
        with pytest.raises(TypeError, match="does not take sparse data"):
            bound("lspline", "ard", rows()).pullback(sp.csr_matrix(rows()), np.ones((40, 39)))
