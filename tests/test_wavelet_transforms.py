"""Wavelet transforms: orthonormal at any size, adjoint for all wavelets, PyWavelets' numbers."""

import copy
import pickle
import tracemalloc
import warnings
from itertools import pairwise

import numpy as np
import pytest
import pywt
from numpy.testing import assert_allclose, assert_array_equal

from sparsebayes import _wavelet_plans
from sparsebayes._wavelet_transforms import MODES, Transform, squared_analysis, squared_synthesis

ALL = pywt.wavelist(kind="discrete")
ORTHONORMAL = [name for name in ALL if pywt.Wavelet(name).orthogonal and name != "dmey"]
LENGTHS = [(1,), (2,), (3,), (4,), (6,), (7,), (16,), (37,), (100,), (127,), (128,)]
MANY = [(1,), (2,), (3,), (7,), (16,), (37,), (100,), (7, 12), (1, 16), (13, 11), (16, 16)]
FEW = [(1,), (2,), (7,), (37,), (64,), (7, 12), (1, 16), (5, 5), (8, 8)]
SHAPES = [(7, 12), (1, 16), (16, 1), (1, 1), (2, 3), (16, 16), (13, 11), (32, 4), (3, 17)]


def some(shapes, name, every=3):
    """Some shapes for each wavelet, in turn: neighbours in the list are of one family."""
    return shapes[ALL.index(name) % every :: every]


def matrix(transform):
    """Atoms as rows, (M, N)."""
    return transform.synthesize(np.eye(transform.size)).reshape(transform.size, -1)


def wavedec(x, name, level, mode="periodization"):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns of what happens at the ends
        return pywt.wavedec(x, name, mode, level)


@pytest.mark.parametrize("name", ORTHONORMAL)
def test_every_orthonormal_family_at_any_size(name):
    for shape in some(MANY, name):
        transform = Transform(name, shape)
        assert transform.orthonormal
        assert transform.size == np.prod(shape)
        W = matrix(transform)
        # PyWavelets gives the filters of some symlets to eleven digits.
        assert_allclose(W @ W.T, np.eye(len(W)), atol=1e-9 if name.startswith("sym") else 2e-11)
        assert_allclose(transform.analyze(np.eye(len(W)).reshape(-1, *shape)), W.T, atol=1e-13)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ALL)
def test_analysis_is_the_adjoint_of_synthesis(name, mode):
    rng = np.random.default_rng(0)
    for shape in some(FEW, name):
        for level in {None, min(2, max(shape).bit_length() - 1)}:
            transform = Transform(name, shape, level, mode)
            x = rng.normal(size=(3, *shape))
            c = rng.normal(size=(3, transform.size))
            left = (transform.analyze(x) * c).sum(axis=-1)
            right = (transform.synthesize(c) * x).reshape(3, -1).sum(axis=-1)
            assert_allclose(left, right, atol=1e-11 * (1 + np.abs(left).max()))


@pytest.mark.parametrize("name", ["dmey", "bior2.2", "bior4.4", "rbio3.7"])
def test_what_is_not_orthonormal_says_so(name):
    transform = Transform(name, (64,))
    assert not transform.orthonormal
    W = matrix(transform)
    assert np.abs(W @ W.T - np.eye(64)).max() > 1e-4
    assert not Transform("sym8", (64,), 2, "zero").orthonormal


def test_biorthogonal_haar_is_haar():
    # PyWavelets calls it biorthogonal; its filters say otherwise.
    assert Transform("bior1.1", (64,)).orthonormal


@pytest.mark.parametrize("name", ["haar", "sym8", "db20", "bior4.4"])
@pytest.mark.parametrize("n", [16, 64, 4096])
def test_powers_of_two_are_those_of_pywavelets(name, n):
    x = np.random.default_rng(1).normal(size=n)
    for level in (1, 3, n.bit_length() - 1):
        transform = Transform(name, (n,), level)
        parts = wavedec(x, name, level)
        coefficients = np.concatenate(parts)
        if transform.orthonormal:
            assert_allclose(transform.analyze(x), coefficients, atol=1e-9)
        assert_allclose(transform.synthesize(coefficients), x, atol=1e-9)
        kinds = [(b.level, b.orientation, b.shape) for b in transform.blocks]
        levels = [level, *range(level, 0, -1)]
        expected = [(k, "d" if i else "a", parts[i].shape) for i, k in enumerate(levels)]
        assert kinds == expected
        assert transform.scaling == slice(0, n >> level)


@pytest.mark.parametrize("name", ["haar", "sym4", "bior4.4"])
def test_images_are_those_of_pywavelets(name):
    x = np.random.default_rng(1).normal(size=(32, 64))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parts = pywt.wavedecn(x, name, "periodization", 3)
    transform = Transform(name, (32, 64), 3)
    c = np.full(transform.size, np.nan)
    c[transform.blocks[0].slice] = parts[0].ravel()
    for block in transform.blocks[1:]:
        piece = parts[4 - block.level][block.orientation]
        assert piece.shape == block.shape
        c[block.slice] = piece.ravel()
    assert_allclose(transform.synthesize(c), x, atol=1e-10)
    if transform.orthonormal:
        assert_allclose(transform.analyze(x), c, atol=1e-10)


@pytest.mark.parametrize("name", ["haar", "sym8", "bior4.4", "dmey"])
def test_zeros_beyond_the_ends_are_pywavelets_synthesis(name):
    rng = np.random.default_rng(2)
    for n in (50, 101):
        transform = Transform(name, (n,), 2, "zero")
        parts = wavedec(rng.normal(size=n), name, 2, "zero")
        c = [rng.normal(size=len(part)) for part in parts]
        assert transform.size == sum(map(len, parts)) >= n
        expected = pywt.waverec(c, name, "zero")[:n]
        assert_allclose(transform.synthesize(np.concatenate(c)), expected, atol=1e-12)
    assert Transform("sym8", (100,), mode="zero").level == pywt.dwt_max_level(100, 16)


def test_blocks_tile_the_coefficients():
    for shape in LENGTHS + SHAPES:
        for mode in MODES:
            transform = Transform("sym8", shape, None, mode)
            ends = [(b.slice.start, b.slice.stop) for b in transform.blocks]
            assert ends[0][0] == 0
            assert all(a[1] == b[0] for a, b in pairwise(ends))
            assert ends[-1][1] == transform.size
            assert all(b.slice.stop - b.slice.start == np.prod(b.shape) for b in transform.blocks)
            for b in transform.blocks:
                first = b.slice.stop <= transform.scaling.stop
                assert first is (b.orientation in ("a", "aa", "aside"))


def test_what_an_odd_length_leaves_over():
    transform = Transform("db2", (13,))
    kinds = [(b.level, b.orientation) for b in transform.blocks]
    assert kinds == [(3, "a"), (3, "aside"), (1, "aside"), (3, "d"), (2, "d"), (1, "d")]
    last = np.zeros(13)
    last[-1] = 1.0
    assert_array_equal(transform.analyze(last).nonzero()[0], [2])  # a coefficient of its own
    # The rest is transformed as if the last sample were not there.
    x = np.random.default_rng(3).normal(size=13)
    low, high = pywt.dwt(x[:12], "db2", "periodization")
    assert_allclose(transform.analyze(x)[-6:], high)
    rest, detail = pywt.dwt(low, "db2", "periodization")
    assert_allclose(transform.analyze(x)[-9:-6], detail)
    assert_allclose(transform.analyze(x)[1], rest[-1])


def test_a_row_left_over_is_transformed_along_itself():
    transform = Transform("haar", (3, 4))
    x = np.zeros((3, 4))
    x[2] = [1.0, 1.0, 2.0, 4.0]
    strip = Transform("haar", (4,)).analyze(x[2])
    c = transform.analyze(x)
    aside, details = (b for b in transform.blocks if b.orientation in ("aside", "strip"))
    assert_allclose(c[aside.slice], strip[:1])
    assert_allclose(c[details.slice], strip[1:])
    assert_allclose(np.delete(c, np.r_[aside.slice, details.slice]), 0.0, atol=1e-15)


@pytest.mark.parametrize("shape", [(64,), (96,), (512,), (32, 32), (24, 40)])
def test_a_constant_needs_scaling_coefficients_only(shape):
    for name in ("haar", "db5", "sym8", "coif4"):
        transform = Transform(name, shape)
        c = transform.analyze(np.ones(shape))
        c[transform.scaling] = 0.0
        assert np.abs(c).max() < 1e-9


def test_the_matrix_for_coarse_levels_changes_nothing(monkeypatch):
    x = np.random.default_rng(4).normal(size=(2, 300))
    for n in (2, 5, 32, 33, 63, 65, 255, 300):
        fast = Transform("sym5", (n,))
        with_matrix = fast.analyze(x[:, :n])
        back = fast.synthesize(with_matrix)
        monkeypatch.setattr(_wavelet_plans, "_SMALL", 0)
        _wavelet_plans.plan.cache_clear()
        assert fast._plan.tail is None
        assert_allclose(fast.analyze(x[:, :n]), with_matrix, atol=1e-13)
        assert_allclose(fast.synthesize(with_matrix), back, atol=1e-13)
        monkeypatch.undo()
        _wavelet_plans.plan.cache_clear()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["haar", "sym3", "sym8", "db38", "bior3.1", "bior4.4", "dmey"])
def test_squares_of_atoms(name, mode):
    rng = np.random.default_rng(5)
    # With zeros beyond its ends an image has far more coefficients than samples.
    shapes = LENGTHS + [(201,)] + (SHAPES if mode == "periodization" else [(1, 9), (3, 5)])
    for shape in some(shapes, name, 2):
        for level in {None, 0, min(1, max(shape).bit_length() - 1)}:
            transform = Transform(name, shape, level, mode)
            atoms = matrix(transform)
            v = rng.exponential(size=transform.size) * (rng.random(transform.size) < 0.6)
            assert_allclose(squared_synthesis(transform, v).ravel(), v @ atoms**2, atol=1e-11)
            w = rng.exponential(size=shape) * (rng.random(shape) < 0.6)
            assert_allclose(squared_analysis(transform, w), atoms**2 @ w.ravel(), atol=1e-11)


@pytest.mark.parametrize("n", [2**15, 2**15 + 3, 3 * 2**13 - 1])
def test_squares_of_more_samples_than_are_worked_out_at_a_time(n):
    transform = Transform("sym8", (n,))
    rng = np.random.default_rng(6)
    some = np.concatenate((rng.choice(n, 40, replace=False), [0, 1, 2, n // 2, n - 1]))
    c = np.zeros((len(some), n))
    c[np.arange(len(some)), some] = 1.0
    atoms = transform.synthesize(c) ** 2
    v = np.zeros(n)
    v[some] = rng.exponential(size=len(some))
    assert_allclose(squared_synthesis(transform, v), v[some] @ atoms, atol=1e-13)
    assert_allclose(squared_synthesis(transform, np.ones(n)), 1.0, rtol=1e-9)
    w = rng.exponential(size=n)
    assert_allclose(squared_analysis(transform, w)[some], atoms @ w, rtol=1e-11)
    assert_allclose(squared_analysis(transform, np.ones(n)), 1.0, rtol=1e-9)


def test_copies():
    transform = Transform("SYM8", [30], None)
    assert transform == Transform("sym8", (30,), 4)
    assert hash(transform) == hash(Transform("sym8", (30,), 4))
    for twin in (pickle.loads(pickle.dumps(transform)), copy.deepcopy(transform)):
        assert twin == transform
        assert twin.size == 30
    assert Transform("haar", np.int64(8)).shape == (8,)


def test_results_are_new_arrays():
    for shape, level in (((6,), 0), ((6,), None), ((1,), None), ((4, 4), 0), ((4, 4), None)):
        transform = Transform("haar", shape, level)
        x = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
        c = transform.analyze(x)
        y = transform.synthesize(c)
        assert not np.shares_memory(x, c)
        assert not np.shares_memory(c, y)
        assert_allclose(y, x, atol=1e-14)


def test_integers_and_single_precision_become_doubles():
    transform = Transform("haar", (8,))
    for x in (np.arange(8), np.arange(8, dtype=np.float32), list(range(8))):
        assert transform.analyze(x).dtype == np.float64
        assert_allclose(transform.analyze(x), transform.analyze(np.arange(8.0)))
    assert transform.analyze(np.empty((0, 8))).shape == (0, 8)
    assert transform.synthesize(np.empty((0, 8))).shape == (0, 8)


def test_memory_is_a_few_arrays():
    n = 2**18
    transform = Transform("sym8", (n,))
    x = np.random.default_rng(7).normal(size=n)
    transform.synthesize(transform.analyze(x))
    tracemalloc.start()
    try:
        c = transform.analyze(x)
        transform.synthesize(c)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3.5 * x.nbytes


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("sym", (8,)), ValueError, "unknown discrete wavelet 'sym'"),
        (("morl", (8,)), ValueError, "unknown discrete wavelet 'morl'"),
        ((pywt.Wavelet("haar"), (8,)), TypeError, "by its name"),
        (("haar", (8,), 4), ValueError, "8 samples have no more than 3 levels"),
        (("haar", (8, 2), 4), ValueError, "8 x 2 samples have no more than 3 levels"),
        (("haar", (8,), -1), ValueError, "level must be None or an integer"),
        (("haar", (8,), True), ValueError, "level must be None or an integer"),
        (("haar", (8,), 1.5), ValueError, "level must be None or an integer"),
        (("haar", (8,), None, "symmetric"), ValueError, "mode must be one of periodization, zero"),
        (("haar", (0,)), ValueError, "shape must be one or two positive integers"),
        (("haar", ()), ValueError, "shape must be one or two positive integers"),
        (("haar", (4, 4, 4)), ValueError, "shape must be one or two positive integers"),
        (("haar", (4.0,)), ValueError, "shape must be one or two positive integers"),
        (("haar", "8"), ValueError, "shape must be one or two positive integers"),
    ],
)
def test_bad_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        Transform(*arguments)


def test_bad_arrays():
    transform = Transform("haar", (2, 4))
    with pytest.raises(ValueError, match=r"shape \(2, 4\) or \(k, 2, 4\), but its shape is \(8,\)"):
        transform.analyze(np.ones(8))
    with pytest.raises(ValueError, match=r"its shape is \(1, 1, 2, 4\)"):
        transform.analyze(np.ones((1, 1, 2, 4)))
    with pytest.raises(ValueError, match=r"shape \(8\) or \(k, 8\)"):
        transform.synthesize(np.ones((2, 4)))
    with pytest.raises(TypeError, match="real numbers"):
        transform.analyze(np.ones((2, 4), dtype=complex))
    with pytest.raises(TypeError, match="real numbers"):
        transform.synthesize(["a"] * 8)
    for v in (np.ones(7), -np.ones(8), np.full(8, np.nan), np.full(8, np.inf)):
        with pytest.raises(ValueError, match="variances must be finite, not negative"):
            squared_synthesis(transform, v)
        with pytest.raises(ValueError, match="weights must be finite, not negative"):
            squared_analysis(transform, v)
