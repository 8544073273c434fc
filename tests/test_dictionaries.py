"""The contract of every dictionary, and the values of every kernel."""

import itertools
import json
import pickle
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.gaussian_process import kernels as gp
from sklearn.metrics import pairwise as kernels_there

from pairwise import pairwise
from sparsebayes import RVR
from sparsebayes.dictionaries import (
    Atoms,
    Bias,
    Dictionary,
    Kernel,
    Linear,
    StationaryWavelet,
    Tunable,
    Union,
    Wavelet,
    _rows,
    atoms_from_spec,
)

N, D = 40, 3
ORACLES = Path(__file__).parents[2] / "shared" / "oracles"


def rows(n=N, d=D, seed=0):
    """Non-negative rows (chi2 needs them), a third of the entries zero, the last row a copy."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.1, 2.0, (n, d)) * (rng.random((n, d)) > 0.3)
    X[-1] = X[1]
    return X


def skewed(X, Z, shift=0.0):
    """A kernel that is neither positive definite nor symmetric."""
    X, Z = dense(X), dense(Z)
    return np.tanh(X @ Z.T - Z.sum(axis=1) + shift)


def on_a_grid(n, d, seed):
    """Positions in any order, some missing, one twice: of 0 to 40 at least, or of 9 x 7 pixels."""
    rng = np.random.default_rng(seed)
    if d == 2:
        return np.stack(np.divmod(rng.permutation(max(n, 63))[:n] % 63, 7), axis=1).astype(float)
    X = rng.permutation(max(n, 41))[:n, None].astype(float)
    if n >= 40:
        X[0], X[1], X[-1] = 0.0, max(n, 41) - 1, 1.0
    return X


def fitting(dictionary, n=N, seed=0, columns=D):
    """Rows that a dictionary takes."""
    name = next(name for name, known in DICTIONARIES.items() if known is dictionary)
    if name in ON_A_GRID:
        return on_a_grid(n, ON_A_GRID[name], seed)
    return rows(n, columns, seed)


CENTERS = np.array([[0.0, 1.0, 0.5], [1.0, 1.0, 1.0], [0.0, 1.0, 0.5], [2.0, 0.0, 1.0]])
GP = gp.ConstantKernel(2.0) * gp.RBF([1.0, 2.0, 0.5]) + gp.Matern(nu=np.inf) ** 2.0

DICTIONARIES = {
    "bias": Bias(),
    "linear": Linear(),
    "rbf": Kernel(gamma=0.7),
    "rbf-per-input": Kernel(gamma=[0.5, 0.0, 2.0]),
    "rbf-scale": Kernel(),
    "laplacian": Kernel("laplacian", gamma="auto"),
    "laplacian-per-input": Kernel("laplacian", gamma=[0.5, 1.0, 2.0]),
    "poly": Kernel("poly", gamma=2, degree=5, coef0=0.5),
    "polynomial": Kernel("polynomial", degree=1),
    "sigmoid": Kernel("sigmoid", gamma=[0.1, 0.2, 0.3], coef0=-0.5),
    "linear-kernel": Kernel("linear"),
    "cosine": Kernel("cosine"),
    "lspline": Kernel("lspline", gamma=[0.5, 1.0, 2.0]),
    "tps": Kernel("tps", gamma=0.3),
    "chi2": Kernel("chi2", gamma=0.5),
    "additive-chi2": Kernel("additive_chi2"),
    "precomputed": Kernel("precomputed"),
    "callable": Kernel(skewed, kernel_params={"shift": 0.5}),
    "gaussian-process": Kernel(GP),
    "given-centers": Kernel(gamma=1.0, centers=CENTERS),
    "k-means": Kernel(gamma=1.0, centers=5),
    "union": Bias() + Linear() + Kernel("rbf", gamma=0.5),
    "union-of-unions": Union([Union([Kernel("tps"), Linear()]), Union([Bias(), Kernel(gamma=2)])]),
    "union-of-one": Union((Kernel("lspline"),)),
    "rbf-learned": Kernel(gamma="evidence"),
    "rbf-learned-per-input": Kernel(gamma="ard"),
    "chi2-learned": Kernel("chi2", gamma="evidence"),
    "gaussian-process-learned": Kernel(GP, gamma="evidence"),
    "union-learned": Linear() + Kernel("tps", gamma="ard") + (Bias() + Kernel(gamma="evidence")),
    "wavelet": Wavelet("db2"),
    "wavelet-zero": Wavelet("sym4", 2, "zero"),
    "wavelet-biorthogonal": Wavelet("bior2.2"),
    "wavelet-image": Wavelet("haar", shape=(9, 7)),
    "stationary-wavelet": StationaryWavelet("haar", 2),
    "stationary-wavelet-image": StationaryWavelet("db2", 1, (9, 7)),
    "union-of-wavelets": Wavelet("haar") + Kernel("tps", gamma=0.01) + StationaryWavelet("sym2", 1),
}
# Wavelets want positions: a signal's in one column, an image's in two.
ON_A_GRID = {name: 2 if "image" in name else 1 for name in DICTIONARIES if "wavelet" in name}
SPARSE = [
    *("bias", "linear", "rbf", "rbf-per-input", "rbf-scale", "laplacian", "laplacian-per-input"),
    *("poly", "polynomial", "sigmoid", "linear-kernel", "cosine", "tps", "precomputed", "callable"),
    *("given-centers", "k-means", "union", "union-of-unions", "wavelet", "stationary-wavelet"),
    *("rbf-learned", "rbf-learned-per-input", "union-learned"),
]
# Numbers to learn of the dictionaries that have some.
LEARNED = {
    "rbf-learned": 1,
    "rbf-learned-per-input": 3,
    "chi2-learned": 1,
    "gaussian-process-learned": 5,
    "union-learned": 4,
}
STORAGES = {"dense": np.asarray, "csr_matrix": sp.csr_matrix, "csr_array": sp.csr_array}
CASES = [(name, "dense") for name in DICTIONARIES] + [
    (name, storage) for name in SPARSE for storage in ("csr_matrix", "csr_array")
]
TUNABLE = [
    (name, storage) for name, storage in CASES if name in {*LEARNED, "rbf", "callable", "union"}
]


def dense(values):
    return values.toarray() if sp.issparse(values) else np.asarray(values)


def close(actual, desired):
    assert_allclose(dense(actual), dense(desired), rtol=1e-12, atol=1e-12)


def stored_and_back(atoms):
    spec, arrays = atoms.to_spec()
    return atoms_from_spec(json.loads(json.dumps(spec, allow_nan=False)), arrays)


@pytest.fixture(params=CASES, ids="-".join)
def case(request):
    """A dictionary, its training rows, its atoms there, and other rows."""
    name, storage = request.param
    convert = STORAGES[storage]
    dictionary = DICTIONARIES[name]
    X, other = (convert(fitting(dictionary, n, seed)) for n, seed in ((N, 0), (17, 1)))
    return dictionary, X, dictionary.bind(X, random_state=0), other


class TestContract:
    """One test for each dictionary: each check alone would take longer to begin than to run."""

    def test_of_a_dictionary(self, case):
        for name in vars(type(self)):
            if name.startswith("check_"):
                getattr(self, name)(case)

    def check_protocols(self, case):
        dictionary, _, atoms, _ = case
        assert isinstance(dictionary, Dictionary)
        assert isinstance(atoms, Atoms)
        assert atoms.orthonormal is False

    def check_shapes(self, case):
        _, X, atoms, other = case
        assert atoms.size >= 1
        assert atoms.evaluate(X).shape == (N, atoms.size)
        assert atoms.evaluate(other).shape == (17, atoms.size)
        assert atoms.evaluate(other[:0]).shape == (0, atoms.size)
        assert atoms.n_features_in in (None, X.shape[1])
        assert np.isfinite(dense(atoms.evaluate(other))).all()

    def check_index(self, case):
        _, _, atoms, _ = case
        assert atoms.index.shape == (atoms.size,)
        assert atoms.index.dtype == np.intp
        assert len(np.unique(atoms.index)) == atoms.size
        assert 0 <= atoms.index.min() <= atoms.index.max() < atoms.count

    def check_no_two_atoms_of_a_kernel_are_equal(self, case):
        dictionary, X, atoms, _ = case
        if isinstance(dictionary, Kernel) and dictionary.kernel not in ("cosine", "linear"):
            assert len(np.unique(dense(atoms.evaluate(X)).round(12), axis=1).T) == atoms.size

    def check_out(self, case):
        _, X, atoms, other = case
        for order, at in itertools.product(["C", "F", "slice"], (X, other)):
            wide = np.full(
                (at.shape[0], atoms.size + 2), np.nan, order="F" if order == "F" else "C"
            )
            out = wide[:, 1:-1] if order == "slice" else wide[:, : atoms.size].copy(order="K")
            assert atoms.evaluate(at, out=out) is out
            close(out, atoms.evaluate(at))
            if order == "slice":
                assert np.isnan(wide[:, [0, -1]]).all()

    def check_out_of_the_wrong_shape(self, case):
        _, X, atoms, _ = case
        with pytest.raises(ValueError, match="out must be"):
            atoms.evaluate(X, out=np.empty((N, atoms.size + 1)))

    def check_rows_are_independent(self, case):
        _, X, atoms, other = case
        for at in (X, other):
            whole = dense(atoms.evaluate(at))
            blocks = [dense(atoms.evaluate(at[i : i + 7])) for i in range(0, at.shape[0], 7)]
            close(np.vstack(blocks), whole)

    def check_restrict(self, case):
        _, X, atoms, other = case
        rng = np.random.default_rng(3)
        mask = rng.random(atoms.size) < 0.5
        for chosen in (rng.permutation(atoms.size)[: atoms.size // 2 + 1], mask, [], [-1]):
            few = atoms.restrict(chosen)
            picked = np.arange(atoms.size)[
                np.asarray(chosen, dtype=np.intp if len(chosen) == 0 else None)
            ]
            assert few.size == len(picked)
            assert (few.count, few.n_features_in) == (atoms.count, atoms.n_features_in)
            assert_array_equal(few.index, atoms.index[picked])
            for at in (X, other):
                close(few.evaluate(at), dense(atoms.evaluate(at))[:, picked])

    def check_restrict_twice(self, case):
        _, _, atoms, other = case
        order = np.random.default_rng(4).permutation(atoms.size)
        twice = atoms.restrict(order).restrict(np.arange(atoms.size)[::-2])
        close(twice.evaluate(other), dense(atoms.evaluate(other))[:, order[::-2]])
        assert_array_equal(twice.index, atoms.index[order[::-2]])
        out = np.empty((17, twice.size))
        close(twice.evaluate(other, out=out), dense(atoms.evaluate(other))[:, order[::-2]])

    def check_restrict_out_of_range(self, case):
        _, _, atoms, _ = case
        with pytest.raises(IndexError):
            atoms.restrict([atoms.size])

    def check_store(self, case):
        dictionary, _, atoms, other = case
        if callable(getattr(dictionary, "kernel", None)) and dictionary.kernel is skewed:
            with pytest.raises(ValueError, match="precomputed"):
                atoms.to_spec()
            return
        order = np.random.default_rng(5).permutation(atoms.size)
        for stored in (atoms, atoms.restrict(order[:3]), atoms.restrict([])):
            back = stored_and_back(stored)
            assert type(back) is type(stored)
            assert_array_equal(dense(back.evaluate(other)), dense(stored.evaluate(other)))
            assert_array_equal(back.index, stored.index)
            assert (back.count, back.n_features_in) == (stored.count, stored.n_features_in)
            close(back.restrict([]).evaluate(other), np.empty((17, 0)))

    def check_damaged_stores_are_refused(self, case):
        dictionary, _, atoms, _ = case
        if getattr(dictionary, "kernel", None) is skewed:
            return
        spec, arrays = atoms.restrict([0]).to_spec()
        with pytest.raises(ValueError, match="unknown kind"):
            atoms_from_spec(spec | {"kind": "shell"}, arrays)
        for name, array in arrays.items():
            without = {key: value for key, value in arrays.items() if key != name}
            bad = 10**9 if array.dtype.kind == "i" else np.nan
            wrong = [array.astype("U"), array[None], np.full_like(array, bad)]
            if len(arrays) > 1:  # where it is alone, a longer list of columns is as good
                wrong.append(np.concatenate((array, array, array)))
            for stored in (without, *(without | {name: value} for value in wrong)):
                with pytest.raises(ValueError, match="stored"):
                    atoms_from_spec(spec, stored)

    def check_pickle_is_small_after_restriction(self, case):
        dictionary, _, _, _ = case
        precomputed = getattr(dictionary, "kernel", None) == "precomputed"
        X = fitting(dictionary, 3000, columns=200 if precomputed else D)
        atoms = dictionary.bind(X, random_state=0)
        few = atoms.restrict(range(min(2, atoms.size)))
        stored = pickle.dumps(few)
        assert len(stored) < 4000
        at = fitting(dictionary, 5, 2, X.shape[1])
        assert_array_equal(pickle.loads(stored).evaluate(at), few.evaluate(at))

    def check_binding_leaves_parameters_alone(self, case):
        dictionary, X, _, _ = case
        before = dictionary.get_params(deep=True)
        text = repr(dictionary)
        dictionary.bind(X, random_state=0)
        after = dictionary.get_params(deep=True)
        assert before.keys() == after.keys()
        assert all(before[key] is after[key] for key in before)
        assert repr(dictionary) == text

    def check_clone_and_repr(self, case):
        dictionary, X, atoms, other = case
        copy = clone(dictionary)
        assert copy is not dictionary
        assert type(copy) is type(dictionary)
        assert repr(copy) == repr(dictionary)
        assert repr(dictionary).startswith(type(dictionary).__name__ + "(")
        close(copy.bind(X, random_state=0).evaluate(other), atoms.evaluate(other))

    def check_wrong_number_of_columns(self, case):
        _, _, atoms, _ = case
        if atoms.n_features_in is not None:
            with pytest.raises(ValueError, match="4 features"):
                atoms.evaluate(np.ones((2, 4)))

    def check_sparse_equals_dense(self, case):
        dictionary, X, atoms, other = case
        if sp.issparse(X):
            plain = dictionary.bind(X.toarray(), random_state=0)
            assert_array_equal(atoms.index, plain.index)
            assert atoms.count == plain.count
            close(atoms.evaluate(other), plain.evaluate(other.toarray()))
            # Fitted on one kind of matrix, used on the other.
            close(atoms.evaluate(other.toarray()), plain.evaluate(other))


class TestTunable:
    """What atoms promise of parameters to learn, whether they have any or none."""

    @pytest.fixture(params=TUNABLE, ids="-".join)
    def tunable(self, request):
        name, storage = request.param
        X, other = (STORAGES[storage](rows(n, seed=seed)) for n, seed in ((N, 0), (17, 1)))
        atoms = DICTIONARIES[name].bind(X, random_state=0)
        return atoms, other, np.random.default_rng(6).normal(size=(17, atoms.size))

    def test_which_have_something_to_learn(self, case):
        dictionary, _, atoms, _ = case
        name = next(name for name, known in DICTIONARIES.items() if known is dictionary)
        n_learned = len(atoms.theta) if isinstance(atoms, Tunable) else 0
        assert n_learned == LEARNED.get(name, 0)

    def test_shapes(self, tunable):
        atoms, other, D = tunable
        (P,) = atoms.theta.shape
        assert atoms.bounds.shape == (P, 2)
        assert len(set(atoms.labels)) == P
        assert all(isinstance(label, str) for label in atoms.labels)
        assert (atoms.bounds[:, 0] <= atoms.theta).all()
        assert (atoms.theta <= atoms.bounds[:, 1]).all()
        assert atoms.pullback(other, D).shape == (P,)
        assert_array_equal(atoms.pullback(other[:0], D[:0]), np.zeros(P))

    def test_other_parameters(self, tunable):
        atoms, other, _ = tunable
        close(atoms.with_theta(atoms.theta).evaluate(other), atoms.evaluate(other))
        before = dense(atoms.evaluate(other)).copy()
        for k in range(len(atoms.theta)):
            theta = atoms.theta + 0.1 * (np.arange(len(atoms.theta)) == k)
            moved = atoms.with_theta(theta)
            assert type(moved) is type(atoms)
            assert_allclose(moved.theta, theta, rtol=1e-12)
            assert_array_equal(moved.bounds, atoms.bounds)
            assert moved.labels == atoms.labels
            assert_array_equal(moved.index, atoms.index)
            assert np.abs(dense(moved.evaluate(other)) - before).max() > 1e-3
            close(moved.with_theta(atoms.theta).evaluate(other), before)
        assert_array_equal(dense(atoms.evaluate(other)), before)
        for wrong in (np.zeros(len(atoms.theta) + 1), np.full(max(len(atoms.theta), 1), np.nan)):
            with pytest.raises(ValueError, match="theta"):
                atoms.with_theta(wrong)

    def test_pullback_is_the_derivative(self, tunable):
        atoms, other, D = tunable
        for k in range(len(atoms.theta)):
            step = 1e-4 * (np.arange(len(atoms.theta)) == k)
            above, below = (
                dense(atoms.with_theta(atoms.theta + s).evaluate(other)) for s in (step, -step)
            )
            want = np.vdot(D, above - below) / 2e-4
            assert_allclose(atoms.pullback(other, D)[k], want, rtol=1e-5, atol=1e-6)

    def test_pullback_is_linear_and_takes_any_memory_order(self, tunable):
        atoms, other, D = tunable
        pulled = atoms.pullback(other, D)
        assert_allclose(atoms.pullback(other, np.asfortranarray(-3 * D)), -3 * pulled, rtol=1e-9)
        halves = atoms.pullback(other[:6], D[:6]) + atoms.pullback(other[6:], D[6:])
        assert_allclose(halves, pulled, rtol=1e-9, atol=1e-12)

    def test_restriction_keeps_what_is_learned(self, tunable):
        atoms, other, D = tunable
        for chosen in ([0], [atoms.size - 1, 2], []):
            few = atoms.restrict(chosen)
            chosen = np.asarray(chosen, dtype=np.intp)
            assert_array_equal(few.theta, atoms.theta)
            assert few.labels == atoms.labels
            theta = atoms.theta + 0.3
            whole = dense(atoms.with_theta(theta).evaluate(other))
            close(few.with_theta(theta).evaluate(other), whole[:, chosen])
            only = np.zeros_like(D)
            only[:, chosen] = D[:, chosen]
            assert_allclose(
                few.pullback(other, D[:, chosen]),
                atoms.pullback(other, only),
                rtol=1e-9,
                atol=1e-12,
            )

    def test_what_is_stored_is_numbers(self, tunable):
        atoms, other, _ = tunable
        moved = atoms.with_theta(atoms.theta + 0.3)
        if getattr(atoms, "kernel", None) is skewed:
            return
        back = stored_and_back(moved)
        assert len(back.theta) == len(back.labels) == len(back.bounds) == 0
        assert_array_equal(dense(back.evaluate(other)), dense(moved.evaluate(other)))


# --- kernels -----------------------------------------------------------------------------------


def slow(function, X, Z):
    return np.array([[function(x, z) for z in Z] for x in X])


def eq38(x, z, r):
    """The linear spline as Schmolck & Everson print it, times over the inputs."""
    low = np.minimum(x, z)
    terms = 1 + x * z / r**2 + x * z * low / r**3 - (x + z) / 2 * low**2 / r**3 + low**3 / 3 / r**3
    return terms.prod()


def eq40(x, z, r):
    distance = np.linalg.norm(x - z)
    return 0.0 if distance == 0 else distance**2 / r**2 * np.log(distance / r)


G = np.array([0.5, 1.5, 0.1, 2.0])
FORMULAS = {
    "rbf": ({"gamma": 0.7}, lambda x, z: np.exp(-0.7 * ((x - z) ** 2).sum())),
    "rbf each": ({"kernel": "rbf", "gamma": G}, lambda x, z: np.exp(-(G * (x - z) ** 2).sum())),
    "laplacian": ({"gamma": 0.7}, lambda x, z: np.exp(-0.7 * abs(x - z).sum())),
    "laplacian each": (
        {"kernel": "laplacian", "gamma": G},
        lambda x, z: np.exp(-(G * abs(x - z)).sum()),
    ),
    "poly": ({"gamma": 2, "degree": 3, "coef0": 1.5}, lambda x, z: (2 * x @ z + 1.5) ** 3),
    "poly each": ({"kernel": "poly", "gamma": G, "degree": 2}, lambda x, z: ((G * x) @ z) ** 2),
    "poly 0": ({"kernel": "poly", "degree": 0}, lambda x, z: 1.0),
    "poly 11": ({"kernel": "poly", "gamma": 0.3, "degree": 11}, lambda x, z: (0.3 * x @ z) ** 11),
    "sigmoid": ({"gamma": 0.3, "coef0": -1}, lambda x, z: np.tanh(0.3 * x @ z - 1)),
    "sigmoid each": ({"kernel": "sigmoid", "gamma": G}, lambda x, z: np.tanh((G * x) @ z)),
    "linear": ({"gamma": 3.0}, lambda x, z: x @ z),
    "lspline": ({"gamma": 1 / 2.5**2}, lambda x, z: eq38(x, z, 2.5)),
    "lspline each": ({"kernel": "lspline", "gamma": G}, lambda x, z: eq38(x, z, 1 / np.sqrt(G))),
    "tps": ({"gamma": 1 / 1.7**2}, lambda x, z: eq40(x, z, 1.7)),
    "tps each": (
        {"kernel": "tps", "gamma": G},
        lambda x, z: eq40(np.sqrt(G) * x, np.sqrt(G) * z, 1.0),
    ),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_formula(name):
    params, function = FORMULAS[name]
    rng = np.random.default_rng(0)
    X, other = rng.normal(size=(23, 4)), rng.normal(size=(9, 4))
    atoms = Kernel(**({"kernel": name} | params)).bind(X)
    # The training rows take a path of their own, which mirrors half of the matrix.
    assert_allclose(atoms.evaluate(X), slow(function, X, X), rtol=1e-10, atol=1e-11)
    assert_allclose(atoms.evaluate(other), slow(function, other, X), rtol=1e-10, atol=1e-11)


@pairwise(name=["rbf", "laplacian", "tps"], d=[1, 2, 3, 4, 10, 50])
def test_every_number_of_inputs_and_blocks(name, d):
    rng = np.random.default_rng(d)
    X = rng.normal(size=(520, d))
    atoms = Kernel(name, gamma=1 / d).bind(X)
    if name == "laplacian":
        expected = np.exp(-abs(X[:, None, :] - X[None, :, :]).sum(axis=2) / d)
    else:
        squares = np.array([((X - x) ** 2).sum(axis=1) for x in X]) / d
        logs = np.log(np.where(squares > 0, squares, 1.0))
        expected = np.exp(-squares) if name == "rbf" else 0.5 * squares * logs
    assert_allclose(atoms.evaluate(X), expected, rtol=1e-11, atol=1e-12)
    assert_allclose(atoms.evaluate(X[::-1].copy()), expected[::-1], rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "function", "arguments"),
    [
        ("rbf", kernels_there.rbf_kernel, {"gamma": 0.7}),
        ("laplacian", kernels_there.laplacian_kernel, {"gamma": 0.7}),
        ("poly", kernels_there.polynomial_kernel, {"gamma": 0.7, "degree": 4, "coef0": 2.0}),
        ("polynomial", kernels_there.polynomial_kernel, {"gamma": 0.7, "degree": 4, "coef0": 2.0}),
        ("sigmoid", kernels_there.sigmoid_kernel, {"gamma": 0.7, "coef0": 2.0}),
        ("linear", kernels_there.linear_kernel, {}),
        ("cosine", kernels_there.cosine_similarity, {}),
        ("chi2", kernels_there.chi2_kernel, {"gamma": 0.7}),
        ("additive_chi2", kernels_there.additive_chi2_kernel, {}),
    ],
)
def test_as_scikit_learn(name, function, arguments):
    X, other = rows(), rows(11, seed=1)
    other[3] = 0.0
    atoms = Kernel(name, **arguments).bind(X)
    expected = function(other, X[atoms.index], **arguments)
    assert_allclose(atoms.evaluate(other), expected, rtol=1e-12, atol=1e-13)


def test_every_scikit_learn_name_is_known():
    for name in kernels_there.kernel_metrics():
        assert np.isfinite(Kernel(name).bind(rows()).evaluate(rows())).all()


def test_splines_of_the_reference_problems():
    cases = {
        "c01_sinc1d_lspline_n100": ("lspline", 1.0, slice(0, 100)),
        "c03_sinc2d_gauss_n300": ("rbf", 2.5, slice(0, 300)),
        "c20_blockssinc_haar_tps_n128": ("tps", 3.0, slice(128, 256)),
    }
    if not ORACLES.is_dir():
        pytest.skip("reference problems (../shared/oracles) are not here")
    for name, (kernel, r, columns) in cases.items():
        with np.load(ORACLES / f"{name}.npz") as z:
            X, Phi = np.ascontiguousarray(z["X"], dtype=np.float64), z["Phi"]
        K = Kernel(kernel, gamma=1 / r**2).bind(X).evaluate(X)
        assert_allclose(K, Phi[:, columns], rtol=1e-11, atol=1e-11)


class TestAccuracy:
    @pytest.mark.parametrize("d", [1, 2, 6, 100])
    @pytest.mark.parametrize("shift", [0.0, 1e6, -1e9])
    def test_far_from_the_origin(self, d, shift):
        rng = np.random.default_rng(d)
        near = np.array([rng.permutation(150) / 64 - 1 for _ in range(d)]).T
        X = near + shift  # exactly
        K = Kernel(gamma=1 / d).bind(X).evaluate(X)
        assert_allclose(np.diag(K), 1.0, rtol=0, atol=1e-12)
        assert K.max() <= 1.0
        assert_allclose(K, Kernel(gamma=1 / d).bind(near).evaluate(near), rtol=0, atol=1e-12)

    def test_far_from_the_origin_is_as_fast(self):
        # A matrix product of d + 2 columns; exact differences take several times as long.
        X = np.random.default_rng(0).normal(size=(50, 20))
        for shift in (0.0, 1e9):
            assert Kernel(gamma=0.1).bind(X + shift)._formula(sparse=False).right.shape[1] == 22

    @pytest.mark.parametrize("d", [2, 6, 40])
    def test_narrow_kernels(self, d):
        # Inputs spread over thousands of widths: expanding the square would lose six digits.
        rng = np.random.default_rng(d)
        X = rng.normal(size=(60, d)) * 1e5
        X = np.vstack((X, X + rng.normal(size=X.shape) / d))
        K = Kernel(gamma=1.0).bind(X).evaluate(X)
        direct = np.array([np.exp(-((X - x) ** 2).sum(axis=1)) for x in X])
        assert_allclose(K, direct, rtol=1e-12, atol=1e-300)
        assert (np.diag(K) == 1.0).all()

    def test_far_rows_give_exact_zeros(self):
        X = np.array([[0.0] * 5, [1.0] * 5])
        atoms = Kernel(gamma=1.0).bind(X)
        K = atoms.evaluate(np.array([[30.0] * 5, [1e200] * 5, [12.5] * 5]))
        assert_array_equal(K[:2], 0.0)
        assert (np.abs(K) < 1e-200).all()
        assert_array_equal(Kernel("laplacian", gamma=1.0).bind(X).evaluate(X * 1e4)[1], 0.0)

    def test_sparse_diagonal(self):
        X = sp.random(60, 500, density=0.05, format="csr", random_state=0)
        K = Kernel(gamma=1.0).bind(X).evaluate(X)
        assert_allclose(np.diag(K), 1.0, rtol=0, atol=1e-12)
        assert K.max() <= 1.0

    def test_overflow_is_refused(self):
        X = np.array([[1e120], [2e120]])
        for name in ("poly", "lspline", "linear"):
            big = X * 1e40 if name == "linear" else X
            with pytest.raises(ValueError, match="scale the inputs"):
                Kernel(name, gamma=1.0).bind(big).evaluate(big)
        with pytest.raises(ValueError, match="scale the inputs"):
            Kernel("tps", gamma=1.0).bind(X).evaluate(X * 1e50)


class TestGamma:
    def test_scale_as_svr(self):
        X = rows()
        assert Kernel().bind(X).gamma_ == pytest.approx(1 / (D * X.var()), rel=1e-13)
        assert Kernel(gamma="auto").bind(X).gamma_ == 1 / D
        assert Kernel(gamma=2).bind(X).gamma_ == 2.0
        assert Kernel(gamma=np.float32(0.5)).bind(X).gamma_ == 0.5

    @pytest.mark.parametrize("convert", STORAGES.values(), ids=STORAGES)
    def test_weights_equal_repetition(self, convert):
        X = rows()
        repeats = np.random.default_rng(0).integers(1, 5, N)
        weighted = Kernel().bind(convert(X), sample_weight=repeats.astype(float))
        repeated = Kernel().bind(convert(np.repeat(X, repeats, axis=0)))
        assert weighted.gamma_ == pytest.approx(repeated.gamma_, rel=1e-13)
        assert_array_equal(dense(weighted.centers), dense(repeated.centers))
        assert weighted.gamma_ != pytest.approx(Kernel().bind(convert(X)).gamma_, rel=1e-3)
        assert repeated.count == repeats.sum()

    @pytest.mark.parametrize("convert", STORAGES.values(), ids=STORAGES)
    def test_constant_inputs(self, convert):
        atoms = Kernel().bind(convert(np.full((7, 3), 0.1)), sample_weight=np.linspace(1, 2, 7))
        assert atoms.gamma_ == 1.0
        assert atoms.size == 1

    def test_unused_gamma(self):
        assert Kernel("cosine").bind(rows()).gamma_ is None
        assert Kernel(skewed, gamma=[1.0, 2.0]).bind(rows()).gamma_ is None

    @pytest.mark.parametrize("size", [1e200, 1e-170])
    def test_variance_out_of_range(self, size):
        with pytest.raises(ValueError, match="scale the inputs"):
            Kernel().bind(np.array([[size], [2 * size]]))

    def test_user_array_may_change_afterwards(self):
        widths = np.array([1.0, 2.0, 3.0])
        atoms = Kernel(gamma=widths).bind(rows())
        widths[:] = 0
        assert_array_equal(atoms.gamma_, [1, 2, 3])


class TestCenters:
    def test_equal_rows_give_one_atom(self):
        X = np.array([[1.0, -0.0], [2.0, 0.0], [1.0, 0.0], [2.0, -0.0], [0.0, 1.0]])
        for convert in STORAGES.values():
            atoms = Kernel().bind(convert(X))
            assert_array_equal(atoms.index, [0, 1, 4])
            assert atoms.count == 5

    def test_given(self):
        atoms = DICTIONARIES["given-centers"].bind(rows())
        assert_array_equal(atoms.index, [0, 1, 3])
        assert_array_equal(atoms.centers, CENTERS[[0, 1, 3]])
        assert atoms.count == 4
        assert Kernel(centers=CENTERS.tolist()).bind(rows()).size == 3
        assert Kernel(centers=sp.csc_matrix(CENTERS)).bind(rows()).size == 3

    def test_k_means(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(300, 2)) * 0.01 + rng.integers(0, 3, (300, 1)) * 10
        atoms = Kernel(centers=3).bind(X, random_state=0)
        assert atoms.count == atoms.size == 3
        assert_allclose(np.sort(atoms.centers[:, 0]), [0, 10, 20], atol=0.02)
        again = Kernel(centers=3).bind(X, random_state=0)
        assert_array_equal(atoms.centers, again.centers)

    def test_k_means_listens_to_weights(self):
        X = np.array([[0.0], [1.0], [10.0], [11.0]])
        weight = np.array([3.0, 1.0, 1.0, 3.0])
        atoms = Kernel(centers=2).bind(X, sample_weight=weight, random_state=0)
        assert_allclose(np.sort(atoms.centers.ravel()), [0.25, 10.75])

    def test_more_k_means_centers_than_distinct_rows(self):
        X = np.repeat(rows(), 3, axis=0)
        atoms = Kernel(centers=100).bind(X)
        assert_array_equal(np.unique(atoms.centers, axis=0), np.unique(rows(), axis=0))
        some = Kernel(centers=100).bind(rows()[:-1]).centers
        assert_array_equal(np.unique(some, axis=0), np.unique(rows()[:-1], axis=0))
        assert_array_equal(some, Kernel(centers=100).bind(rows()[-2::-1]).centers)

    def test_precomputed(self):
        X, other = rows(), rows(11, seed=1)
        K = kernels_there.rbf_kernel(X, X)
        K_other = kernels_there.rbf_kernel(other, X)
        atoms = Kernel("precomputed").bind(K)
        assert_array_equal(atoms.index, np.arange(N - 1))
        assert (atoms.count, atoms.n_features_in) == (N, N)
        few = atoms.restrict([5, 2])
        assert_array_equal(few.evaluate(K_other), K_other[:, [5, 2]])
        with pytest.raises(ValueError, match="11 features"):
            few.evaluate(K_other.T)

    def test_precomputed_columns_that_differ_late(self):
        K = np.zeros((20, 3))
        K[15] = [1, 2, 1]
        assert_array_equal(Kernel("precomputed").bind(K).index, [0, 1])
        assert_array_equal(Kernel("precomputed").bind(sp.csr_matrix(K)).index, [0, 1])


class TestDistinctRows:
    @pytest.mark.parametrize("convert", STORAGES.values(), ids=STORAGES)
    @pytest.mark.parametrize("low", [-3, 0])
    def test_small_integers(self, convert, low, monkeypatch):
        def slow_path(X):
            raise AssertionError("two different rows share a hash")

        # Doubles of small integers share most of their bits.
        X = np.random.default_rng(0).integers(low, 4, (3000, 5 - low // 3)).astype(float)
        monkeypatch.setattr(_rows, "_first_occurrences_exactly", slow_path)
        expected = np.sort(np.unique(X, axis=0, return_index=True)[1])
        assert 900 < len(expected) < 3000
        assert_array_equal(_rows.first_occurrences(convert(X)), expected)

    @pytest.mark.parametrize("convert", STORAGES.values(), ids=STORAGES)
    def test_when_every_hash_collides(self, convert, monkeypatch):
        X = np.random.default_rng(0).integers(-1, 2, (50, 3)).astype(float)
        X[X == 0] = -0.0
        expected = np.sort(np.unique(X + 0.0, axis=0, return_index=True)[1])
        monkeypatch.setattr(
            _rows, "_row_hashes", lambda X, ordered=True: np.zeros(X.shape[0], np.uint64)
        )
        assert_array_equal(_rows.first_occurrences(convert(X)), expected)

    def test_explicit_zeros_and_repeated_entries(self):
        data, columns = [1.0, 0.0, 0.5, 0.5, 1.0], [0, 1, 0, 0, 1]
        X = sp.csr_matrix((data, columns, [0, 2, 4, 5, 5]), shape=(4, 2))
        assert_array_equal(_rows.first_occurrences(X), [0, 2, 3])
        assert not X.has_canonical_format  # the user's matrix is as it was


class TestOtherKernels:
    def test_gaussian_process_object(self):
        X, other = rows(), rows(9, seed=1)
        kernel = gp.RBF(0.7) + gp.WhiteKernel(0.3)
        atoms = Kernel(kernel).bind(X)
        assert_allclose(atoms.evaluate(other), kernel(other, X[:-1]))
        kernel.k1.length_scale = 99.0
        assert atoms.kernel.k1.length_scale == 0.7

    def test_stored_gaussian_process_objects(self):
        X, other = rows(), rows(9, seed=1)
        for kernel in (
            gp.RBF(0.7, length_scale_bounds="fixed"),
            gp.Matern([1.0, 2.0, 3.0], nu=1.5),
            gp.Matern(nu=np.inf, length_scale_bounds=(0.1, np.inf)),
            gp.RationalQuadratic(alpha=0.3),
            gp.ExpSineSquared(periodicity=2.0),
            gp.DotProduct(0.5) ** 3,
            2.0 * gp.RBF() + gp.WhiteKernel(),
        ):
            atoms = Kernel(kernel).bind(X)
            back = stored_and_back(atoms)
            assert repr(back.kernel) == repr(kernel)
            assert_array_equal(back.evaluate(other), atoms.evaluate(other))

    def test_unknown_gaussian_process_kernels_are_not_stored(self):
        with pytest.raises(ValueError, match="PairwiseKernel"):
            Kernel(gp.PairwiseKernel()).bind(rows()).to_spec()

    @pytest.mark.parametrize(
        "tree",
        [
            {"class": "PairwiseKernel", "params": {}},
            {"class": "RBF", "params": {"length_scale": "os.system"}},
            {"class": "RBF", "params": {"no_such": 1.0}},
            {"class": "RBF"},
            {"class": ["RBF"], "params": {}},
            "eval",
        ],
    )
    def test_hostile_trees(self, tree):
        spec, arrays = Kernel(gp.RBF()).bind(rows()).to_spec()
        with pytest.raises(ValueError, match="stored kernel"):
            atoms_from_spec(spec | {"kernel": tree}, arrays)

    def test_deep_trees(self):
        spec, arrays = Kernel(gp.RBF()).bind(rows()).to_spec()
        tree = spec["kernel"]
        for _ in range(100):
            tree = {"class": "Exponentiation", "params": {"kernel": tree, "exponent": 1.0}}
        with pytest.raises(ValueError, match="deep"):
            atoms_from_spec(spec | {"kernel": tree}, arrays)
        union, more = Union([Bias()]).bind(rows()).to_spec()
        for _ in range(100):
            union = {"kind": "union", "parts": [union], "count": 1, "n_features_in": None}
            more = {"index": np.array([0]), "0.columns": np.array([0])} | {
                f"0.atoms.{key}": value for key, value in more.items()
            }
        with pytest.raises(ValueError, match="deep"):
            atoms_from_spec(union, more)

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("kernel", "no-such"),
            ("kernel", "precomputed"),
            ("gamma", None),
            ("gamma", "scale"),
            ("gamma", "array"),
            ("gamma", True),
            ("gamma", float("nan")),
            ("gamma", -1.0),
            ("degree", 2.5),
            ("degree", -1),
            ("coef0", "1"),
            ("kernel_params", {"shift": 1}),
            ("count", 3),
            ("count", None),
            ("n_features_in", 2),
            ("sparse", 1),
            ("sparse", True),
        ],
    )
    def test_malformed_specs(self, key, value):
        spec, arrays = Kernel().bind(rows()).to_spec()
        with pytest.raises(ValueError, match=r"stored|degree|kernel_params"):
            atoms_from_spec(spec | {key: value}, arrays)

    def test_malformed_sparse_centers(self):
        spec, arrays = Kernel().bind(sp.csr_matrix(rows())).to_spec()
        indptr = arrays["centers_indptr"].copy()
        indptr[1] = indptr[-1]
        with pytest.raises(ValueError, match="indptr"):
            atoms_from_spec(spec, arrays | {"centers_indptr": indptr})

    def test_parameters_that_json_cannot_hold(self):
        def shifted(X, Z, shift):
            return X @ Z.T + shift

        atoms = Kernel("chi2", kernel_params={"gamma": 0.25}).bind(rows())
        assert_allclose(
            atoms.evaluate(rows()), kernels_there.chi2_kernel(rows(), rows()[:-1], 0.25)
        )
        close(stored_and_back(atoms).evaluate(rows()), atoms.evaluate(rows()))
        with pytest.raises(ValueError, match="kernel_params"):
            Kernel("chi2", kernel_params={"gamma": np.ones(2)}).bind(rows()).to_spec()
        assert Kernel(shifted, kernel_params={"shift": 2.0}).bind(rows()).size == N - 1

    def test_callable_may_return_a_list_or_a_sparse_matrix(self):
        X = rows()
        lists = Kernel(lambda X, Z: (X @ Z.T).tolist()).bind(X).evaluate(X)
        assert_allclose(lists, X @ X[:-1].T)
        S = sp.csr_matrix(X)
        products = Kernel(lambda X, Z: X @ Z.T).bind(S).evaluate(S)
        assert isinstance(products, np.ndarray)
        assert_allclose(products, X @ X[:-1].T)

    def test_callable_of_single_rows_is_explained(self):
        with pytest.raises(ValueError, match="two matrices"):
            Kernel(lambda x, z: 1.0).bind(rows()).evaluate(rows())

    def test_callable_that_returns_nan(self):
        with pytest.raises(ValueError, match="NaN"):
            Kernel(lambda X, Z: X @ Z.T * np.nan).bind(rows()).evaluate(rows())


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"kernel": "gaussian"}, ValueError, "unknown kernel 'gaussian'; choose one of .*rbf"),
        ({"kernel": 3}, TypeError, "kernel must be"),
        ({"kernel": None}, TypeError, "kernel must be"),
        ({"kernel": gp.RBF}, TypeError, "not a class"),
        ({"kernel": "linear", "gamma": "ard"}, ValueError, "nothing to learn: .* has no width"),
        ({"kernel": "cosine", "gamma": "evidence"}, ValueError, "nothing to learn: .* no width"),
        ({"kernel": "additive_chi2", "gamma": "evidence"}, ValueError, "has no width"),
        ({"kernel": "precomputed", "gamma": "evidence"}, ValueError, "matrix has no width"),
        ({"kernel": "chi2", "gamma": "ard"}, ValueError, "takes one gamma, .*='evidence'"),
        (
            {"kernel": "chi2", "gamma": "evidence", "kernel_params": {"gamma": 2.0}},
            ValueError,
            "kernel_params has a gamma of 2.0",
        ),
        ({"kernel": skewed, "gamma": "evidence"}, ValueError, "function has no derivatives"),
        (
            {"kernel": gp.RBF(1.0, "fixed"), "gamma": "evidence"},
            ValueError,
            "all parameters of .* are fixed",
        ),
        ({"gamma": "wide"}, ValueError, "'evidence' or 'ard', but it is 'wide'"),
        ({"gamma": 0.0}, ValueError, "gamma must be a positive number"),
        ({"gamma": -1}, ValueError, "gamma must be a positive number"),
        ({"gamma": np.inf}, ValueError, "gamma must be a positive number"),
        ({"gamma": np.nan}, ValueError, "gamma must be a positive number"),
        ({"gamma": True}, TypeError, "gamma must be"),
        ({"gamma": None}, TypeError, "gamma must be"),
        ({"gamma": [1.0, "a", 2.0]}, TypeError, "gamma must be"),
        ({"gamma": [1.0, 2.0]}, ValueError, r"gamma has shape \(2,\), but X has 3 features"),
        ({"gamma": [1.0, -2.0, 1.0]}, ValueError, "gamma must be"),
        ({"gamma": [0.0, 0.0, 0.0]}, ValueError, "gamma must be"),
        ({"gamma": np.ones((3, 3))}, ValueError, "gamma has shape"),
        ({"kernel": "chi2", "gamma": [1.0, 2.0, 3.0]}, ValueError, "takes one gamma"),
        ({"degree": 2.5}, ValueError, "degree must be an integer"),
        ({"degree": -1}, ValueError, "degree must be an integer"),
        ({"degree": True}, ValueError, "degree must be an integer"),
        ({"coef0": np.nan}, ValueError, "coef0 must be a finite number"),
        ({"coef0": "1"}, ValueError, "coef0 must be a finite number"),
        ({"kernel_params": [1]}, TypeError, "kernel_params must be a dict"),
        ({"kernel_params": {1: 2}}, TypeError, "kernel_params must be a dict"),
        ({"kernel_params": {"gamma": 2}}, ValueError, "takes no kernel_params"),
        ({"kernel": gp.RBF(), "kernel_params": {"a": 2}}, ValueError, "takes no kernel_params"),
        ({"centers": 0}, ValueError, "centers must be at least 1"),
        ({"centers": True}, ValueError, "centers must be None, a number"),
        ({"centers": "all"}, TypeError, "centers must be None, a number"),
        ({"centers": 2.5}, ValueError, "centers must be None, a number"),
        ({"centers": np.ones((2, 4))}, ValueError, r"shape \(n_centers, 3\)"),
        ({"centers": np.ones(3)}, ValueError, r"shape is \(3,\)"),
        ({"centers": np.empty((0, 3))}, ValueError, "centers must be"),
        ({"centers": [[1.0, np.nan, 0.0]]}, ValueError, "NaN"),
        ({"centers": sp.csr_matrix([[np.inf, 0, 0]])}, ValueError, "NaN"),
        ({"kernel": "precomputed", "centers": 2}, ValueError, "centers must be None"),
        ({"kernel": "lspline", "centers": sp.csr_matrix(CENTERS)}, TypeError, "sparse"),
    ],
)
def test_bad_parameters(params, error, message):
    with pytest.raises(error, match=message):
        Kernel(**params).bind(rows())


def test_bad_data():
    with pytest.raises(ValueError, match="sample_weight has shape"):
        Kernel().bind(rows(), sample_weight=np.ones(3))
    with pytest.raises(ValueError, match="rows and columns"):
        Kernel().bind(np.empty((0, 3)))
    with pytest.raises(ValueError, match="two-dimensional"):
        Kernel().bind(np.ones(3))


@pairwise(
    dtype=[np.float64, np.float32],
    form=["csr", "csc", "coo"],
    kernel=["rbf", "laplacian", "linear", "poly", "sigmoid", "cosine", "tps"],
)
def test_indices_of_64_bits_change_nothing(kernel, form, dtype):
    wide = sp.coo_array(rows().astype(dtype))
    wide.coords = tuple(index.astype(np.int64) for index in wide.coords)
    wide = wide.asformat(form)
    assert wide.row.dtype == np.int64 if form == "coo" else wide.indices.dtype == np.int64
    y = np.arange(float(N))
    model = RVR(kernel=kernel, gamma=0.5).fit(wide, y)
    same = RVR(kernel=kernel, gamma=0.5).fit(sp.csr_matrix(rows().astype(dtype)), y)
    assert_array_equal(model.relevance_, same.relevance_)
    assert_array_equal(model.predict(wide), same.predict(sp.csr_matrix(wide)))
    assert_array_equal(
        model.predict(wide[:7] if form != "coo" else wide)[:7], same.predict(wide)[:7]
    )


def test_indices_of_64_bits_are_clustered():
    wide = sp.csr_array(rows())
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    found = Kernel("rbf", gamma=0.5, centers=4).bind(wide, random_state=0)
    same = Kernel("rbf", gamma=0.5, centers=4).bind(sp.csr_matrix(rows()), random_state=0)
    assert_array_equal(found.centers, same.centers)


@pytest.mark.parametrize("kernel", ["lspline", "chi2", "additive_chi2", gp.RBF()])
def test_kernels_that_cannot_take_sparse_data(kernel):
    with pytest.raises(TypeError, match="toarray"):
        Kernel(kernel).bind(sp.csr_matrix(rows()))
    with pytest.raises(TypeError, match="toarray"):
        Kernel(kernel).bind(rows()).evaluate(sp.csr_matrix(rows()))


# --- linear, bias, unions ----------------------------------------------------------------------


def test_linear_does_not_copy():
    X, S = rows(), sp.csr_matrix(rows())
    assert Linear().bind(X).evaluate(X) is X
    assert Linear().bind(S).evaluate(S) is S
    assert_array_equal(Linear().bind(X).restrict([2, 1, 0]).evaluate(X), X[:, ::-1])


def test_linear_stays_sparse():
    S = sp.csr_matrix(rows())
    few = Linear().bind(S).restrict([2, 0]).evaluate(S)
    assert sp.issparse(few)
    assert_array_equal(few.toarray(), rows()[:, [2, 0]])


class TestUnion:
    def test_plus(self):
        a, b, c = Bias(), Linear(), Kernel()
        for made in (a + b + c, a + (b + c), (a + b) + c):
            assert made.parts == [a, b, c]
        assert ((a + b) + (c + a)).parts == [a, b, c, a]
        with pytest.raises(TypeError):
            a + 1
        with pytest.raises(TypeError):
            a + Kernel

    def test_plus_accepts_dictionaries_of_others(self):
        class Constant:
            def bind(self, X, *, sample_weight=None, random_state=None):
                return Bias().bind(X)

        mine = Constant()
        assert (mine + Linear()).parts[0] is mine
        both = Linear() + mine
        assert both.parts[1] is mine
        assert both.bind(rows()).size == D + 1

    def test_index_counts_duplicates_of_earlier_parts(self):
        X = np.array([[1.0], [1.0], [2.0]])
        atoms = (Kernel(gamma=1.0) + Linear() + Kernel("tps") + Bias()).bind(X)
        assert_array_equal(atoms.index, [0, 2, 3, 4, 6, 7])
        assert atoms.count == 8
        assert_array_equal(atoms.restrict([5, 0, 3]).index, [7, 0, 4])
        nested = Union([Kernel(gamma=1.0) + Linear(), Kernel("tps") + Bias()]).bind(X)
        assert_array_equal(nested.index, atoms.index)
        assert nested.count == 8

    def test_columns(self):
        X, other = rows(), rows(9, seed=1)
        parts = [Bias(), Linear(), Kernel("tps", gamma=2.0), Kernel("lspline")]
        expected = np.hstack([part.bind(X).evaluate(other) for part in parts])
        assert_array_equal(Union(parts).bind(X).evaluate(other), expected)

    def test_a_part_without_atoms(self):
        class Nothing:
            def bind(self, X, *, sample_weight=None, random_state=None):
                return Linear().bind(X).restrict([])

        X = rows()
        atoms = Union([Bias(), Nothing(), Kernel()]).bind(X)
        expected = np.hstack((np.ones((N, 1)), Kernel().bind(X).evaluate(X)))
        assert_array_equal(atoms.evaluate(X), expected)
        assert_array_equal(stored_and_back(atoms).evaluate(X), expected)
        assert_array_equal(atoms.restrict([1]).index, [1 + D])

    def test_sparse_only_while_it_pays(self):
        S = sp.csr_matrix(rows())
        mostly = (Bias() + Linear()).bind(S)
        assert sp.issparse(mostly.evaluate(S))
        assert mostly.evaluate(S).format == "csr"
        assert sp.issparse(mostly.restrict([2, 0, 1]).evaluate(S))
        close(mostly.restrict([2, 0, 3]).evaluate(S), dense(mostly.evaluate(S))[:, [2, 0, 3]])
        assert isinstance((Bias() + Kernel() + Linear()).bind(S).evaluate(S), np.ndarray)

    def test_nested_parameters(self):
        both = Bias() + Kernel("rbf", gamma=1.0) + Union([Linear(), Kernel("tps")])
        params = Union([Bias(), Union([Kernel(gamma=3.0)])]).get_params()
        assert params["1__0__gamma"] == 3.0
        assert set(Union([Bias()]).get_params(deep=False)) == {"parts"}
        assert both.set_params(**{"1__gamma": 2.0, "3__gamma": 5.0}) is both
        assert (both.parts[1].gamma, both.parts[3].gamma) == (2.0, 5.0)

    def test_replaced_parts(self):
        union = Union([Bias(), Linear()])
        given = union.parts
        union.set_params(**{"1__gamma": 7.0, "1": Kernel("tps")})
        assert (union.parts[1].kernel, union.parts[1].gamma) == ("tps", 7.0)
        assert isinstance(given[1], Linear)
        union.set_params(**{"0__gamma": 4.0, "parts": [Kernel()]})
        assert union.parts[0].gamma == 4.0

    def test_a_clone_is_independent(self):
        union = Bias() + Kernel(gamma=1.0)
        copy = clone(union).set_params(**{"1__gamma": 9.0})
        assert union.parts[1].gamma == 1.0
        assert copy.parts[1].gamma == 9.0

    @pytest.mark.parametrize("name", ["2", "5__gamma", "nothing", "1__nothing", "parts__0"])
    def test_unknown_parameters(self, name):
        with pytest.raises(ValueError, match="(?i)invalid parameter"):
            Union([Bias(), Kernel()]).set_params(**{name: 1})

    @pytest.mark.parametrize("parts", [[], None, Kernel(), "linear", {}])
    def test_no_list_of_parts(self, parts):
        with pytest.raises(TypeError, match="parts must be a list"):
            Union(parts).bind(rows())

    @pytest.mark.parametrize("part", ["linear", None, Kernel, 3])
    def test_a_part_that_is_no_dictionary(self, part):
        with pytest.raises(TypeError, match="part 1 of the union"):
            Union([Bias(), part]).bind(rows())

    def test_errors_of_parts_come_through(self):
        with pytest.raises(ValueError, match="gamma must be"):
            (Bias() + Kernel(gamma=-1)).bind(rows())

    def test_stored_parts_must_fit(self):
        spec, arrays = (Bias() + Linear()).bind(rows()).to_spec()
        with pytest.raises(ValueError, match="whole"):
            atoms_from_spec(spec, arrays | {"0.columns": np.array([1])})
        with pytest.raises(ValueError, match="does not fit"):
            atoms_from_spec(spec | {"n_features_in": 7}, arrays)
        with pytest.raises(ValueError, match="unknown kind"):
            atoms_from_spec(spec | {"parts": [3, 4]}, arrays)
        with pytest.raises(ValueError, match="unknown kind"):
            atoms_from_spec([], {})


def test_weights_and_seeds_reach_the_parts():
    X = np.array([[0.0], [1.0], [10.0], [11.0]])
    weight = np.array([3.0, 1.0, 1.0, 3.0])
    atoms = (Bias() + Kernel(centers=2)).bind(X, sample_weight=weight, random_state=0)
    assert_allclose(np.sort(atoms.parts[1].centers.ravel()), [0.25, 10.75])
