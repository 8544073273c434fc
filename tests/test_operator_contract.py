"""The contract of every design: products, columns and norms are those of the atoms evaluated.

It runs on every dictionary, stored or known by its products, and on unions of them. A new
dictionary is added to ``CASES``.
"""

import tracemalloc
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.fft import dct, idct
from scipy.sparse.linalg import LinearOperator, aslinearoperator

import test_dictionaries
from sparsebayes import operator_design
from sparsebayes.core.stored import weighted_quadratic
from sparsebayes.design import ArrayDesign, make_design
from sparsebayes.dictionaries import (
    Bias,
    Kernel,
    Linear,
    Operator,
    Products,
    StationaryWavelet,
    Union,
    Wavelet,
)
from sparsebayes.operator_design import OperatorDesign, UnionDesign

N = 40


def matrix(n=N, m=30, seed=0):
    """Columns with means, one of them constant and one zero."""
    A = np.random.default_rng(seed).normal(0.3, 1.0, (n, m))
    A[:, 3], A[:, 5] = 2.5, 0.0
    return A


def cosines(n=N, m=N):
    """The first m cosines of a discrete cosine transform: orthonormal, the first constant."""

    def matmat(w):
        return idct(w, axis=0, n=n, norm="ortho")

    def rmatmat(r):
        return dct(r, axis=0, norm="ortho")[:m]

    return LinearOperator(
        (n, m), matvec=matmat, matmat=matmat, rmatvec=rmatmat, rmatmat=rmatmat, dtype=np.float64
    )


@dataclass(frozen=True, eq=False)
class Steps:
    """A dictionary of running sums: atom j is one from row j on, and is known by cumsum alone."""

    def bind(self, X, *, sample_weight=None, random_state=None):
        return StepAtoms(np.arange(N), N)


@dataclass(frozen=True, eq=False)
class StepAtoms:
    index: np.ndarray
    count: int
    orthonormal: bool = False
    n_features_in: int = 1

    @property
    def size(self):
        return len(self.index)

    def evaluate(self, X, out=None):
        return np.heaviside(X - self.index, 1.0, out=out)

    def at(self, X):
        return StepProducts(X[:, 0].astype(int), self.index)

    def restrict(self, indices):
        return replace(self, index=self.index[np.asarray(indices, dtype=np.intp)])

    def to_spec(self):
        raise ValueError("not stored")


@dataclass(frozen=True, eq=False)
class StepProducts:
    rows: np.ndarray
    index: np.ndarray

    @property
    def shape(self):
        return len(self.rows), len(self.index)

    def synthesize(self, weights):
        steps = np.zeros((len(weights), N))
        steps[:, self.index] = weights
        return np.cumsum(steps, axis=1)[:, self.rows]

    def analyze(self, rows):
        values = np.zeros((N, len(rows)))
        np.add.at(values, self.rows, rows.T)
        return np.cumsum(values[::-1], axis=0)[::-1].T[:, self.index]

    def squared_norms(self):
        return (self.rows[:, None] >= self.index).sum(axis=0).astype(float)


class SquaredSteps(Steps):
    """The same with products of squares, as coarse as those of a Fourier transform are."""

    def bind(self, X, *, sample_weight=None, random_state=None):
        return SquaredStepAtoms(np.arange(N), N)


class SquaredStepAtoms(StepAtoms):
    def at(self, X):
        return SquaredStepProducts(X[:, 0].astype(int), self.index)


class SquaredStepProducts(StepProducts):
    def squares(self, rows):
        exact = self.analyze(rows)  # the atoms are zero or one
        noise = np.random.default_rng(0).normal(size=exact.shape)
        return exact + 1e-15 * np.abs(rows).sum(axis=1, keepdims=True) * noise

    def squared_norms(self):
        return None


ROWS = np.arange(float(N))[:, None]
SHUFFLED = np.random.default_rng(1).permutation(ROWS)
SOME = SHUFFLED[: N // 2]
AGAIN = np.concatenate([SHUFFLED[:25], SHUFFLED[:25]])  # rows named twice

A = matrix()
FAST = Operator(aslinearoperator(A))
NORMED = Operator(aslinearoperator(A), np.linalg.norm(A, axis=0))
COSINES = Operator(cosines(), orthonormal=True)
HALF = Operator(cosines(m=N // 2), orthonormal=True)

OPERATORS = {
    "array": Operator(A),
    "integers": Operator(np.arange(80).reshape(40, 2)),
    "sparse": Operator(sp.csc_matrix(A * (A > 0.5))),
    "sparse-array": Operator(sp.coo_array(A * (A > 0.5))),
    "operator": FAST,
    "norms": NORMED,
    "wide": Operator(aslinearoperator(matrix(m=90))),
    "cosines": COSINES,
    "half-of-the-cosines": HALF,
    "cosines-without-a-claim": Operator(cosines()),
    "orthonormal-array": Operator(np.linalg.qr(A[:, 10:])[0], orthonormal=True),
    "steps": Union([Steps()]),
    "squared-steps": Union([SquaredSteps()]),
}
WAVELETS = {
    "haar": Wavelet("haar"),
    "sym8": Wavelet("sym8"),
    "two-levels": Wavelet("db3", level=2, shape=N),
    "no-level": Wavelet("db3", level=0),
    "zeros-beyond-the-ends": Wavelet("sym4", mode="zero"),
    "biorthogonal": Wavelet("bior2.4"),
    "biorthogonal-zeros": Wavelet("rbio3.1", level=2, mode="zero"),
    "meyer": Wavelet("dmey", level=2),
    "stationary": StationaryWavelet("sym4", level=2),
    "stationary-biorthogonal": StationaryWavelet("bior1.3", level=1, shape=N),
}
UNIONS = {
    "wavelet-and-kernel": Wavelet("haar") + Kernel("tps", gamma=0.01),
    "linear-and-wavelet": Linear() + Wavelet("sym8"),
    "wavelets-and-operator": Union([Bias() + Wavelet("db2"), StationaryWavelet("haar", 1) + FAST]),
    "operator-and-bias": FAST + Bias(),
    "operator-and-kernel": COSINES + Kernel("tps", gamma=0.01),
    "linear-and-operator": Linear() + NORMED,
    "three": Kernel(gamma=0.1) + FAST + Linear(),
    "nested": Union([Union([Bias(), HALF]), Union([Union([FAST]), Kernel("lspline")]), Steps()]),
    "sparse-and-fast": Operator(sp.csr_matrix(A)) + COSINES,
}
PIXELS = np.indices((6, 7)).reshape(2, -1).T.astype(float)
IMAGES = {
    "image": Wavelet("haar"),
    "image-sym8": Wavelet("sym8", shape=(6, 7)),
    "image-one-level": Wavelet("db2", level=1),
    "image-zeros-beyond-the-ends": Wavelet("db2", mode="zero"),
    "image-biorthogonal": Wavelet("bior2.2"),
    "image-stationary": StationaryWavelet("db2", level=1),
    "image-and-kernel": Wavelet("haar") + Kernel("tps", gamma=0.1),
    "image-and-linear": Linear() + StationaryWavelet("haar", level=1),
}
PLACES = {"rows": ROWS, "shuffled": SHUFFLED, "some": SOME, "again": AGAIN}
PIXEL_PLACES = {
    "rows": PIXELS,
    "shuffled": np.random.default_rng(2).permutation(PIXELS),
    "some": np.random.default_rng(3).permutation(PIXELS)[:25],
    "again": np.concatenate([PIXELS, PIXELS[:9]]),
}
CASES = {
    f"{name}-{place}": (dictionary, X)
    for name, dictionary in (OPERATORS | WAVELETS | UNIONS).items()
    for place, X in PLACES.items()
    if name not in UNIONS or place in ("rows", "again")  # parts are at all places above
}
CASES |= {
    f"{name}-{place}": (dictionary, X)
    for name, dictionary in IMAGES.items()
    for place, X in PIXEL_PLACES.items()
}
CASES |= {
    name: (dictionary, test_dictionaries.rows())
    for name, dictionary in test_dictionaries.DICTIONARIES.items()
    if name not in test_dictionaries.ON_A_GRID  # there are smaller ones above
}
ORTHONORMAL = {
    f"{name}-{place}"
    for name in (
        *("cosines", "half-of-the-cosines", "orthonormal-array"),
        *("haar", "sym8", "two-levels", "no-level"),
        *("image", "image-sym8", "image-one-level"),
    )
    for place in ("rows", "shuffled")
}


@dataclass(frozen=True)
class Case:
    name: str
    atoms: object
    X: np.ndarray
    Phi: np.ndarray  # (N, M), by definition
    design: object


@cache
def made(name, choose=None):
    dictionary, X = CASES[name]
    atoms = dictionary.bind(X, random_state=0)
    if choose is not None:
        atoms = atoms.restrict(choose(atoms.size))
    Phi = test_dictionaries.dense(atoms.evaluate(X)).astype(float)
    return Case(name, atoms, X, Phi, make_design(atoms, X))


@pytest.fixture(params=CASES)
def case(request):
    return made(request.param)


def scattered(size):
    """Three quarters of the atoms in no order, so that the parts of a union are interleaved."""
    return np.random.default_rng(2).permutation(size)[: 1 + 3 * size // 4]


@pytest.fixture(params=[name for name in CASES if name.endswith(("-rows", "-some"))])
def restricted(request):
    return made(request.param, choose=scattered)


def products(case):
    """Products of the atoms where they have them, and of the parts of a union."""
    found = []

    def collect(atoms):
        for part in getattr(atoms, "parts", ()):
            collect(part)
        if hasattr(atoms, "at") and atoms.size:
            found.append((atoms, atoms.at(case.X)))

    collect(case.atoms)
    return found


def close(actual, desired, tol=1e-11):
    size = np.abs(desired).max(initial=1.0)
    np.testing.assert_allclose(actual, desired, rtol=0, atol=tol * size)


def defined_moments(Phi, weights, center):
    Phi = Phi.astype(np.longdouble)
    w = np.ones(len(Phi)) if weights is None else weights
    mean = (w @ Phi) / w.sum() if center else np.zeros(Phi.shape[1])
    return mean.astype(float), np.sqrt(w @ (Phi - mean) ** 2).astype(float)


def check_design(design, Phi):
    """Everything that a design promises, by definition of the matrix Phi."""
    n, m = Phi.shape
    rng = np.random.default_rng(4)
    rows, some = rng.normal(size=(3, n)), rng.permutation(m)[: m // 2 + 1]
    kept = rows.copy()
    assert design.shape == (n, m)
    close(design.columns(some), Phi[:, some].T)
    assert design.columns(some[:0]).shape == (0, n)
    close(design.correlate(rows), rows @ Phi)
    close(design.squares(rows), rows @ Phi**2)
    for weights in (None, rng.uniform(0.1, 2.0, n), rng.integers(0, 3, n) + (np.arange(n) == 0)):
        for center in (False, True):
            mean, norm = defined_moments(Phi, weights, center)
            found = design.moments(weights, center)
            constant = norm < 1e-9 * np.linalg.norm(Phi, axis=0)
            close(found.mean, mean)
            close(found.norm, np.where(constant, 0.0, norm), 1e-9)
            assert (found.norm[constant] == 0).all()
    np.testing.assert_array_equal(rows, kept)  # nobody writes on what it is given


def check_part(design, Phi):
    """What differs between a design and a part of it."""
    rng = np.random.default_rng(7)
    rows = rng.normal(size=(2, len(Phi)))
    some = rng.permutation(Phi.shape[1])[:3]
    assert design.shape == Phi.shape
    close(design.columns(some), Phi[:, some].T)
    close(design.correlate(rows), rows @ Phi)
    close(design.squares(rows), rows @ Phi**2)
    mean, norm = defined_moments(Phi, None, True)
    found = design.moments(None, True)
    close(found.mean, mean)
    close(found.norm, np.where(norm < 1e-9 * np.linalg.norm(Phi, axis=0), 0.0, norm), 1e-9)


class TestContract:
    def test_design(self, case):
        """Of all atoms and rows, and the same in a quadratic."""
        check_design(case.design, case.Phi)
        n, m = case.Phi.shape
        rng = np.random.default_rng(3)
        w, r = rng.normal(size=(4, m)), rng.normal(size=(4, n))
        Phi_w = w @ case.design.columns(np.arange(m))
        close((Phi_w * r).sum(axis=1), (w * case.design.correlate(r)).sum(axis=1))
        t = rng.normal(size=(n, 2))
        chosen = rng.permutation(m)[: min(m, 7)]
        for weights, center in ((None, True), (rng.uniform(0.5, 2.0, n), True), (None, False)):
            fast = weighted_quadratic(case.design, t, weights, center)
            plain = weighted_quadratic(ArrayDesign(case.Phi), t, weights, center)
            close(fast.g, plain.g, 1e-9)
            close(fast.diag, plain.diag)
            close(fast.columns(chosen), plain.columns(chosen), 1e-9)
            close(fast.gram(chosen[::-1]).G, plain.gram(chosen[::-1]).G, 1e-9)

    def test_products(self, case):
        for atoms, fast in products(case):
            assert isinstance(fast, Products)
            n, m = fast.shape
            assert (n, m) == (len(case.X), atoms.size)
            rng = np.random.default_rng(3)
            w, r = rng.normal(size=(4, m)), rng.normal(size=(4, n))
            given = w.copy(), r.copy()
            Phi_w, back = fast.synthesize(w), fast.analyze(r)
            assert (Phi_w.shape, back.shape) == ((4, n), (4, m))
            assert Phi_w.dtype == back.dtype == np.float64
            own = test_dictionaries.dense(atoms.evaluate(case.X))
            close((Phi_w * r).sum(axis=1), (w * back).sum(axis=1))
            close(Phi_w, w @ own.T)
            np.testing.assert_array_equal(w, given[0])
            np.testing.assert_array_equal(r, given[1])
            close(fast.synthesize(w[:1]), Phi_w[:1])
            close(fast.analyze(r[:1]), back[:1])
            known = fast.squared_norms()
            if known is not None:
                close(known, (own**2).sum(axis=0), 1e-9)

    def test_claim_of_orthonormality(self):
        for name in CASES:
            case = made(name)
            assert case.atoms.orthonormal == (name in ORTHONORMAL), name
            if case.atoms.orthonormal:
                close(case.Phi.T @ case.Phi, np.eye(case.atoms.size), 1e-9)
                few = case.atoms.restrict(scattered(case.atoms.size))
                own = test_dictionaries.dense(few.evaluate(case.X))
                close(own.T @ own, np.eye(few.size), 1e-9)

    def test_restricted_atoms(self, restricted):
        check_design(restricted.design, restricted.Phi)

    def test_some_atoms_and_some_rows(self, case, monkeypatch):
        n, m = case.Phi.shape
        rng = np.random.default_rng(5)
        some, rows = rng.permutation(m)[: m // 2 + 1], rng.integers(0, n, n + 3)
        check_part(case.design.restrict(some), case.Phi[:, some])
        check_part(case.design.take(rows).restrict(some), case.Phi[rows][:, some])
        monkeypatch.setattr(operator_design, "_FEW_BYTES", 0)  # nothing is stored
        check_design(case.design.take(rows), case.Phi[rows])
        check_part(case.design.restrict(some), case.Phi[:, some])
        check_part(case.design.restrict(some).take(rows), case.Phi[rows][:, some])
        assert case.design.restrict(some[:0]).shape == (n, 0)


def test_which_designs_are_stored():
    kinds = {
        ArrayDesign: (Operator(A), Operator(sp.csr_matrix(A)), Operator(A) + Bias()),
        OperatorDesign: (FAST, NORMED, COSINES),
        UnionDesign: (FAST + Bias(), *(UNIONS[name] for name in ("nested", "three"))),
    }
    for kind, dictionaries in kinds.items():
        for dictionary in dictionaries:
            assert type(make_design(dictionary.bind(ROWS), ROWS)) is kind
    whole = make_design(Operator(A).bind(ROWS), ROWS)
    assert np.shares_memory(whole.Phi, A)
    few = make_design((FAST + Bias()).bind(ROWS).restrict([0, 30]), ROWS)
    assert isinstance(few, ArrayDesign)
    steps = make_design((Steps().bind(ROWS)).restrict([7, 3]), ROWS)
    assert isinstance(steps, OperatorDesign)


@pytest.mark.parametrize("offset", [1.0, 1e3, 1e6])
def test_a_mean_far_larger_than_the_spread(offset):
    Phi = matrix() + offset
    norms = np.linalg.norm(Phi, axis=0)
    mean, norm = defined_moments(Phi, None, center=True)
    norm[[3, 5]] = 0.0
    for given in (None, norms):
        design = make_design(Operator(aslinearoperator(Phi), given).bind(ROWS), ROWS)
        found = design.moments(None, center=True)
        np.testing.assert_allclose(found.norm, norm, rtol=1e-9)
        np.testing.assert_allclose(found.mean, mean, rtol=1e-13)


@pytest.mark.parametrize("scale", [1e-180, 1e180])
def test_norms_whose_squares_leave_the_range_of_floats(scale):
    Phi = matrix()
    norms = np.linalg.norm(Phi, axis=0)
    Phi[:, ::2] *= scale
    for center in (False, True):
        plain = make_design(FAST.bind(ROWS), ROWS).moments(None, center)
        factor = np.where(np.arange(30) % 2, 1.0, scale)
        for given in (None, norms * factor):
            design = make_design(Operator(aslinearoperator(Phi), given).bind(ROWS), ROWS)
            found = design.moments(None, center)
            np.testing.assert_allclose(found.norm / factor, plain.norm, rtol=1e-9)
            np.testing.assert_allclose(found.mean / factor, plain.mean, rtol=1e-9)


def test_atoms_that_weights_nearly_hide():
    """Fast sums of squares do not resolve them, nor may they see what is not there."""
    atoms = SquaredSteps().bind(ROWS)
    Phi = atoms.evaluate(ROWS)
    for faint in (1e-12, 1e-30, 0.0):
        weights = np.where(np.arange(N) < 20, 1.0, faint)
        design = make_design(atoms, ROWS)
        np.testing.assert_allclose(design.squares(weights[None])[0], weights @ Phi**2, rtol=1e-8)
        for center in (False, True):
            _, norm = defined_moments(Phi, weights, center)
            norm[0] *= not center
            found = design.moments(weights, center).norm
            np.testing.assert_allclose(found, norm, rtol=1e-6)


def peak_bytes(function):
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("known", [True, False])
def test_memory_is_bounded_by_blocks(known):
    n = 4096  # a matrix of 134 megabytes
    X = np.arange(float(n))[:, None]
    atoms = Operator(cosines(n, n), orthonormal=known).bind(X)
    design = replace(make_design(atoms, X), block_bytes=2**20)
    rows = np.ones((2, n))
    assert peak_bytes(lambda: design.moments(None, center=True)) < 8 * 2**20
    assert peak_bytes(lambda: design.correlate(np.ones((64, n)))) < 10 * 2**20
    assert peak_bytes(lambda: design.columns(np.arange(64))) < 10 * 2**20
    if not known:
        assert peak_bytes(lambda: design.squares(rows)) < 8 * 2**20
        assert peak_bytes(lambda: design.moments(rows[0], center=True)) < 8 * 2**20
    few = design.restrict(np.arange(5))
    assert isinstance(few, ArrayDesign)


def test_known_norms_spare_the_columns():
    n = 2**17  # a matrix of 137 gigabytes
    X = np.arange(float(n))[:, None]
    design = make_design(Operator(cosines(n, n), orthonormal=True).bind(X), X)
    found = design.moments(None, center=True)
    assert found.norm[0] == 0.0  # the constant is the intercept
    np.testing.assert_allclose(found.norm[1:], 1.0, rtol=1e-12)
    quad = weighted_quadratic(design, np.cos(X), None, center=True)
    np.testing.assert_allclose(quad.columns(np.array([5]))[0], np.arange(n) == 5, atol=1e-12)
