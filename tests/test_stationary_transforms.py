"""The stationary wavelet transform: a Parseval frame at any size, PyWavelets' numbers."""

import pickle
import warnings

import numpy as np
import pytest
import pywt
from numpy.testing import assert_allclose

from sparsebayes._stationary_transforms import StationaryTransform

SHAPES = [(1,), (2,), (3,), (37,), (64,), (100,), (8, 8), (7, 12), (1, 16), (5, 1), (1, 1)]
ORTHONORMAL = [
    name
    for name in pywt.wavelist(kind="discrete")
    if pywt.Wavelet(name).orthogonal and name != "dmey"
]


def cases(name, shapes=SHAPES):
    for shape in shapes:
        for level in {None, min(2, max(shape).bit_length() - 1)}:
            yield StationaryTransform(name, shape, level)


def matrix(transform):
    return transform.synthesize(np.eye(transform.size)).reshape(transform.size, -1)


def pywavelets(function, x, name, level):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of wavelets that are not orthogonal
        return function(x, name, level, trim_approx=True, norm=True)


@pytest.mark.parametrize("name", ORTHONORMAL)
def test_parseval_frame_at_any_size(name):
    # Some sizes for each wavelet, in turn: neighbours in the list are of one family.
    for transform in cases(name, SHAPES[ORTHONORMAL.index(name) % 3 :: 3]):
        x = np.random.default_rng(0).normal(size=(2, *transform.shape))
        c = transform.analyze(x)
        assert_allclose(transform.synthesize(c), x, atol=1e-9)
        assert_allclose((c**2).sum(axis=1), (x**2).reshape(2, -1).sum(axis=1), rtol=1e-9)


@pytest.mark.parametrize("name", ["haar", "sym8", "db38", "bior4.4", "rbio3.1", "dmey"])
def test_analysis_is_the_adjoint_and_squares_are_those_of_atoms(name):
    rng = np.random.default_rng(1)
    for transform in cases(name):
        W = matrix(transform)
        n = W.shape[1]
        assert transform.size == len(W) == transform.blocks[-1].slice.stop
        assert transform.scaling == transform.blocks[0].slice == slice(0, n)
        assert_allclose(transform.analyze(np.eye(n).reshape(-1, *transform.shape)), W.T, atol=1e-13)
        v, w = rng.exponential(size=len(W)), rng.exponential(size=transform.shape)
        assert_allclose(transform.squared_synthesis(v).ravel(), v @ W**2, atol=1e-12)
        assert_allclose(transform.squared_analysis(w), W**2 @ w.ravel(), atol=1e-12)


@pytest.mark.parametrize("name", ["haar", "sym8", "db4", "bior4.4", "rbio2.2"])
def test_numbers_of_pywavelets(name):
    rng = np.random.default_rng(2)
    x = rng.normal(size=64)
    transform = StationaryTransform(name, (64,), 3)
    c = np.concatenate(pywavelets(pywt.swt, x, name, 3))
    assert_allclose(transform.synthesize(c), x, atol=1e-10)
    if name in ORTHONORMAL:
        assert_allclose(transform.analyze(x), c, atol=1e-12)
    image = rng.normal(size=(8, 16))
    transform = StationaryTransform(name, (8, 16), 2)
    parts = pywavelets(pywt.swtn, image, name, 2)
    pieces = [parts[3 - b.level][b.orientation].ravel() for b in transform.blocks[1:]]
    c = np.concatenate([parts[0].ravel(), *pieces])
    assert_allclose(transform.synthesize(c), image, atol=1e-10)
    if name in ORTHONORMAL:
        assert_allclose(transform.analyze(image), c, atol=1e-12)


def test_a_shift_of_the_signal_shifts_its_coefficients():
    transform = StationaryTransform("sym4", (50,))
    x = np.random.default_rng(3).normal(size=50)
    c = transform.analyze(x).reshape(-1, 50)
    shifted = transform.analyze(np.roll(x, 7)).reshape(-1, 50)
    assert_allclose(shifted, np.roll(c, 7, axis=1), atol=1e-13)


def test_levels():
    assert StationaryTransform("sym8", (1000,)).level == pywt.dwt_max_level(1000, 16)
    assert StationaryTransform("sym8", (8,)).level == 1
    assert StationaryTransform("sym8", (1,)).level == 0
    assert StationaryTransform("haar", (64, 8)).size == (3 * 3 + 1) * 512
    twin = pickle.loads(pickle.dumps(StationaryTransform("HAAR", [64])))
    assert twin == StationaryTransform("haar", 64, 6)


def test_bad_arguments():
    with pytest.raises(ValueError, match="unknown discrete wavelet"):
        StationaryTransform("sin", (8,))
    with pytest.raises(ValueError, match="no more than 3 levels"):
        StationaryTransform("haar", (8,), 4)
    with pytest.raises(ValueError, match="shape must be"):
        StationaryTransform("haar", (8, 0))
    with pytest.raises(ValueError, match="expected an array of shape"):
        StationaryTransform("haar", (8,)).analyze(np.ones(7))
    with pytest.raises(TypeError, match="real numbers"):
        StationaryTransform("haar", (8,)).analyze(np.ones(8, dtype=complex))
