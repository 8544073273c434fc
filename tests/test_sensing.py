"""Ways to measure: seeds, masks, indices, matrices; adjoint pairs, and clear refusals."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.fft import dctn
from scipy.linalg import hadamard
from scipy.sparse.linalg import LinearOperator, aslinearoperator

from sparsebayes import reconstruct
from sparsebayes._sensing_forms import checked_sensing, checked_shape
from sparsebayes.dictionaries import Operator
from sparsebayes.sensing import PartialDCT, PartialHadamard, Sensing

RNG = np.random.default_rng(0)
MATRIX = RNG.standard_normal((7, 12))
FORMS = {
    "dct": (PartialDCT(12, 5, random_state=3), None),
    "dct of an image": (PartialDCT((3, 4), 5, random_state=3, scramble=False), None),
    "hadamard": (PartialHadamard(16, 5), None),
    "hadamard of an image": (PartialHadamard((4, 8), 9, scramble=False), None),
    "mask": (RNG.random((3, 4)) < 0.5, None),
    "indices": (np.array([3, 1, 11]), (12,)),
    "indices, one of them twice": (np.array([3, 1, 3]), (3, 4)),
    "indices by axis": ((np.array([0, 2]), np.array([3, 1])), (3, 4)),
    "matrix": (MATRIX, None),
    "matrix of images": (MATRIX, (3, 4)),
    "sparse matrix": (sp.random(7, 12, density=0.3, random_state=0), None),
    "operator": (aslinearoperator(MATRIX), (3, 4)),
}


@pytest.mark.parametrize("name", FORMS)
def test_measuring_and_its_transpose(name):
    given, shape = FORMS[name]
    sensing = checked_sensing(given, shape)
    assert isinstance(sensing, Sensing)
    n, shape = sensing.n_measurements, tuple(sensing.shape)
    x, y = RNG.standard_normal((3, *shape)), RNG.standard_normal((3, n))
    forth, back = sensing.measure(x), sensing.adjoint(y)
    assert forth.shape == (3, n)
    assert back.shape == (3, *shape)
    np.testing.assert_allclose(
        forth @ y.T, x.reshape(3, -1) @ back.reshape(3, -1).T, rtol=1e-10, atol=1e-12
    )
    np.testing.assert_allclose(sensing.measure(x[1]), forth[1], atol=1e-12)
    np.testing.assert_allclose(sensing.adjoint(y[2]), back[2], atol=1e-12)


def test_what_each_form_measures():
    x = RNG.standard_normal((3, 4))
    mask = RNG.random((3, 4)) < 0.5
    np.testing.assert_array_equal(checked_sensing(mask, None).measure(x), x[mask])
    np.testing.assert_array_equal(
        checked_sensing(np.array([5, 0]), (3, 4)).measure(x), x.flat[[5, 0]]
    )
    where = (np.array([2, 0]), np.array([3, 1]))
    np.testing.assert_array_equal(checked_sensing(where, (3, 4)).measure(x), x[where])
    np.testing.assert_allclose(checked_sensing(MATRIX, (3, 4)).measure(x), MATRIX @ x.ravel())


def test_partial_transforms_are_rows_of_the_transforms():
    x = RNG.standard_normal((4, 8))
    plain = PartialDCT((4, 8), 10, scramble=False)
    np.testing.assert_allclose(plain.measure(x), dctn(x, norm="ortho").flat[plain.rows], atol=1e-12)
    plain = PartialHadamard((4, 8), 10, scramble=False)
    expected = hadamard(32) @ x.ravel() / 32**0.5
    np.testing.assert_allclose(plain.measure(x), expected[plain.rows], atol=1e-12)


@pytest.mark.parametrize("kind", [PartialDCT, PartialHadamard])
def test_partial_transforms_have_orthonormal_rows(kind):
    sensing = kind((4, 4), 9, random_state=5)
    rows = sensing.adjoint(np.eye(9)).reshape(9, -1)
    np.testing.assert_allclose(rows @ rows.T, np.eye(9), atol=1e-12)
    spread = np.abs(kind(64, 64).adjoint(np.eye(64)))
    # With random signs no sample is left out of any measurement.
    assert (spread > 0).mean() > 0.95


def test_a_seed_means_the_same_measurements_for_ever():
    sensing = PartialDCT(32, 6, random_state=42)
    assert sensing.rows.tolist() == [8, 9, 15, 17, 24, 29]
    signs = np.sign(PartialDCT(32, 32, random_state=42).adjoint(np.eye(32)[0]))
    assert signs.astype(int).tolist()[:8] == [1, 1, 1, 1, 1, -1, 1, 1]
    assert sensing == PartialDCT((32,), 6, random_state=42)
    assert sensing != PartialDCT(32, 6, random_state=43)
    assert "random_state=42" in repr(sensing)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: PartialDCT(0, 1), "shape must be one or two positive integers"),
        (lambda: PartialDCT((2, 2, 2), 1), "shape must be one or two"),
        (lambda: PartialDCT(8, 0), "n_measurements must be an integer >= 1"),
        (lambda: PartialDCT(8, 9), "a signal of 8 samples has no more than 8"),
        (lambda: PartialDCT(8, 4.5), "n_measurements must be an integer"),
        (lambda: PartialDCT(8, 4, random_state=None), "random_state must be an integer >= 0"),
        (lambda: PartialDCT(8, 4, random_state=2**32), "below 2"),
        (lambda: PartialDCT(8, 4, scramble=1), "scramble must be True or False"),
        (lambda: PartialHadamard((3, 4), 2), "power of two"),
        (lambda: PartialDCT(8, 4).measure(np.ones(7)), r"shape \(8\) or \(k, 8\), got \(7,\)"),
        (lambda: PartialDCT(8, 4).adjoint(np.ones(8)), r"shape \(4\) or \(k, 4\), got \(8,\)"),
        (lambda: PartialDCT(8, 4).measure(np.ones(8) * 1j), "real numbers"),
        (lambda: checked_shape("8"), "one or two positive integers"),
    ],
)
def test_parameters_that_make_no_sense(make, words):
    with pytest.raises((ValueError, TypeError), match=words):
        make()


class Own:
    """A user's sensing, right or wrong."""

    def __init__(self, factor=1.0, extra=0):
        self.shape, self.n_measurements, self.factor, self.extra = (4,), 2, factor, extra

    def measure(self, signal):
        return np.asarray(signal)[..., : 2 + self.extra]

    def adjoint(self, measurements):
        y = np.asarray(measurements)
        return self.factor * np.concatenate([y, np.zeros_like(y)], axis=-1)


def test_a_sensing_of_ones_own():
    sensing = Own()
    assert checked_sensing(sensing, None) is sensing
    with pytest.raises(ValueError, match="adjoint is not the transpose"):
        checked_sensing(Own(factor=2.0), None)
    with pytest.raises(ValueError, match=r"must have shape \(2, 2\)"):
        checked_sensing(Own(extra=1), None)
    with pytest.raises(ValueError, match=r"signals of shape \(4,\), but shape is \(5,\)"):
        checked_sensing(Own(), (5,))


def wrong_adjoint():
    return LinearOperator((7, 12), matvec=lambda x: MATRIX @ x, rmatvec=lambda y: MATRIX.T @ y * 2)


@pytest.mark.parametrize(
    ("given", "shape", "words"),
    [
        (np.zeros((3, 4), dtype=bool), None, "False everywhere"),
        (np.ones((3, 4), dtype=bool), (12,), "mask has shape"),
        (np.array([1, 2]), None, "give shape="),
        (np.array([1, 12]), (12,), "index 12, but a signal of shape"),
        (np.array([-1, 2]), (12,), "index -1"),
        (np.array([0.5, 2.0]), (12,), "integers or bool"),
        (np.arange(12) % 2, (12,), "A mask is an array of bool"),
        (np.array([], dtype=int), (12,), "nothing is measured"),
        (np.zeros((2, 3, 4)), None, "mask or indices"),
        (MATRIX, (13,), "12 columns"),
        (MATRIX * np.nan, None, "NaN or infinity"),
        (MATRIX * 1j, None, "complex"),
        ("dct", None, "sensing must be a matrix"),
        (None, None, "sensing must be a matrix"),
        (PartialDCT, None, "not the class PartialDCT"),
        ((np.array([1]), np.array([2])), (12,), "one array of integers for each axis"),
        ((np.array([1]), np.array([2, 3])), (3, 4), "one length"),
        ((np.array([1]), np.array([4])), (3, 4), "beyond 0 to 3 for axis 1"),
        ((np.array([1]), np.array([2])), None, "give shape="),
        (wrong_adjoint(), None, "does not belong"),
    ],
)
def test_sensing_that_does_not_fit(given, shape, words):
    with pytest.raises((ValueError, TypeError), match=words):
        checked_sensing(given, shape)


def test_masked_measurements_are_not_used():
    y = np.ma.array(np.ones(5), mask=np.arange(5) == 3)
    with pytest.raises(ValueError, match="measurement 3 is nan: leave out what was not measured"):
        reconstruct(y, np.eye(5, 12))


def test_noise_that_is_given_has_no_prior():
    with pytest.raises(ValueError, match=r"with noise_variance=0\.1 it must be None"):
        reconstruct(np.ones(5), np.eye(5, 12), noise_variance=0.1, noise_prior=(1.0, 1.0))


def test_an_operator_is_a_basis_of_images():
    mask = np.arange(24).reshape(4, 6) % 5 > 0
    basis = np.linalg.qr(np.random.default_rng(0).standard_normal((24, 24)))[0]
    image = (basis[:, :2] @ [3.0, -2.0]).reshape(4, 6)
    for atoms in (basis, Operator(basis)):
        found = reconstruct(image[mask], mask, atoms)
        assert found.signal.shape == (4, 6)
        np.testing.assert_allclose(found.signal, image, atol=1e-6)
