import dataclasses
from pathlib import Path

import numpy as np
import pytest

from sparsebayes import datasets

SIGNALS = Path(__file__).parents[2] / "shared" / "data" / "wavelet" / "signals.npz"

GENERATORS = {
    "sinc": datasets.sinc,
    "sinc2": lambda n, **kw: datasets.sinc(n, dim=2, **kw),
    "friedman1": datasets.friedman1,
    "friedman2": datasets.friedman2,
    "friedman3": datasets.friedman3,
}


@pytest.mark.parametrize("make", GENERATORS.values(), ids=GENERATORS.keys())
def test_noise_is_what_was_asked_for(make):
    data = make(4000, random_state=0)
    residual = data.y - data.truth
    assert data.noise_std > 0
    assert residual.std() == pytest.approx(data.noise_std, rel=0.04)
    assert abs(residual.mean()) < 4 * data.noise_std / np.sqrt(4000)
    quiet = make(40, noise=0.0, random_state=0)
    np.testing.assert_array_equal(quiet.y, quiet.truth)


@pytest.mark.parametrize("make", GENERATORS.values(), ids=GENERATORS.keys())
def test_same_seed_same_data(make):
    a, b, c = (make(30, random_state=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(a.X, b.X)
    np.testing.assert_array_equal(a.y, b.y)
    assert not np.array_equal(a.y, c.y)


def test_drawing_leaves_the_global_generator_alone():
    before = np.random.get_state()[1].copy()  # noqa: NPY002 - the legacy state is the subject
    datasets.sparse_linear(10, 20, 2, random_state=3)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_sinc_is_sin_x_over_x():
    data = datasets.sinc(101, random_state=0)
    x = data.X[:, 0]
    assert x[0] == -10
    assert x[-1] == 10
    np.testing.assert_allclose(np.diff(x), 0.2)
    away = x != 0
    np.testing.assert_allclose(data.truth[away], np.sin(x[away]) / x[away])
    assert data.truth[50] == 1.0


def test_sinc_in_two_dimensions_depends_on_the_radius():
    data = datasets.sinc(5000, dim=2, random_state=0)
    r = np.sqrt((data.X**2).sum(axis=1))
    np.testing.assert_allclose(data.truth, np.sin(r) / r)
    assert data.X.min() < -9.9
    assert data.X.max() > 9.9
    assert np.abs(data.X).max() <= 10


def test_friedman1_uses_five_of_ten_inputs():
    data = datasets.friedman1(6, random_state=0)
    x = data.X.T
    expected = 10 * np.sin(np.pi * x[0] * x[1]) + 20 * (x[2] - 0.5) ** 2 + 10 * x[3] + 5 * x[4]
    np.testing.assert_allclose(data.truth, expected)
    assert data.X.shape == (6, 10)


@pytest.mark.parametrize("make", [datasets.friedman2, datasets.friedman3])
def test_friedman_circuits(make):
    data = make(20000, random_state=0)
    low, high = [0, 40 * np.pi, 0, 1], [100, 560 * np.pi, 1, 11]
    assert (data.X >= low).all()
    assert (data.X <= high).all()
    np.testing.assert_allclose(data.X.mean(axis=0), np.add(low, high) / 2, rtol=0.02)
    x = data.X.T
    inner = x[1] * x[2] - 1 / (x[1] * x[3])
    if make is datasets.friedman2:
        np.testing.assert_allclose(data.truth, np.sqrt(x[0] ** 2 + inner**2))
    else:
        np.testing.assert_allclose(data.truth, np.arctan(inner / x[0]))
    # The documented default: one third of the signal's standard deviation.
    assert data.truth.std() / 3 == pytest.approx(data.noise_std, rel=0.02)


def test_sparse_linear():
    data = datasets.sparse_linear(2000, 300, 30, snr_db=20, random_state=0)
    assert data.X.shape == (2000, 300)
    values, counts = np.unique(data.weights, return_counts=True)
    np.testing.assert_array_equal(values, [-1, 0, 1])
    assert counts[1] == 270
    np.testing.assert_allclose(data.X.std(axis=0), 1, atol=0.1)
    np.testing.assert_allclose(data.truth, data.X @ data.weights)
    ratio = 10 * np.log10(data.truth.var() / (data.y - data.truth).var())
    assert ratio == pytest.approx(20, abs=0.5)


def test_sparse_linear_limits():
    silent = datasets.sparse_linear(10, 5, 5, snr_db=np.inf, random_state=0)
    np.testing.assert_array_equal(silent.y, silent.truth)
    assert (silent.weights != 0).all()
    noise = datasets.sparse_linear(10, 5, 0, random_state=0)
    assert noise.noise_std == 1
    assert not noise.truth.any()
    assert noise.y.any()


def test_mixtures_are_what_they_say():
    data = datasets.mixtures(20_000, random_state=0)
    for label, means in enumerate([[-0.2, 0.3], [0.05, 0.7]]):
        X = data.X[data.y == label]
        np.testing.assert_allclose(X.mean(axis=0), means, atol=0.02)
        assert X[:, 1].var() == pytest.approx(0.03, rel=0.05)
    # Within each tenth of the stated probabilities, as many ones as they promise.
    tenth = np.minimum((10 * data.probability).astype(int), 9)
    for k in range(10):
        rows = tenth == k
        spread = np.sqrt(0.25 / rows.sum())
        assert abs(data.y[rows].mean() - data.probability[rows].mean()) < 4 * spread
    # The Bayes error, by quadrature of the densities.
    assert np.mean((data.probability > 0.5) != data.y) == pytest.approx(0.0893, abs=0.006)


def test_mixtures_are_repeatable():
    a, b, c = (datasets.mixtures(30, random_state=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(a.X, b.X)
    np.testing.assert_array_equal(a.y, b.y)
    assert not np.array_equal(a.X, c.X)


def test_datasets_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        datasets.sinc(5).y = None


DRAWN = {
    "sinc": datasets.sinc,
    "blocks": datasets.blocks,
    "bumps": datasets.bumps,
    "heavisine": datasets.heavisine,
    "doppler": datasets.doppler,
    "blocks_sinc": datasets.blocks_sinc,
}
signals = pytest.mark.parametrize("make", DRAWN.values(), ids=DRAWN.keys())


@signals
@pytest.mark.parametrize("snr", [2, 7.5])
def test_noise_of_signals_has_the_ratio_asked_for(make, snr):
    data = make(4096, snr=snr, random_state=0)
    assert data.X.shape == (4096, 1)
    spacing = np.diff(data.X[:, 0])
    np.testing.assert_allclose(spacing, spacing[0])
    assert data.truth.std(ddof=1) / data.noise_std == pytest.approx(snr)
    drawn = (data.y - data.truth).std(ddof=1)
    assert drawn == pytest.approx(data.noise_std, rel=0.04)
    assert drawn != pytest.approx(data.noise_std, rel=1e-6)
    exact = make(4096, snr=snr, exact_noise=True, random_state=0)
    assert (exact.y - exact.truth).std(ddof=1) == pytest.approx(data.noise_std, rel=1e-12)
    # The same draw in another unit, with its mean.
    scale = data.noise_std / drawn
    np.testing.assert_allclose(exact.y - exact.truth, scale * (data.y - data.truth), atol=1e-12)


@signals
def test_signals_are_repeatable_and_can_be_silent(make):
    a, b, c = (make(30, snr=3, random_state=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(a.y, b.y)
    assert not np.array_equal(a.y, c.y)
    silent = make(30, snr=np.inf)
    np.testing.assert_array_equal(silent.y, silent.truth)
    np.testing.assert_array_equal(silent.truth, a.truth)


def test_blocks_are_constant_between_jumps():
    data = datasets.blocks(10_000, snr=np.inf)
    jumps = np.flatnonzero(np.abs(np.diff(data.truth)) > 1e-9)
    places = [0.1, 0.13, 0.15, 0.23, 0.25, 0.4, 0.44, 0.65, 0.76, 0.78, 0.81]
    # A sample on a jump has half of it, so that each jump is two.
    np.testing.assert_allclose(np.unique((jumps + 2) // 2 * 2) / 10_000, places, atol=1e-3)
    heights = np.interp([0.05, 0.12, 0.14, 0.2, 0.24, 0.3, 0.42, 0.5], data.X[:, 0], data.truth)
    np.testing.assert_allclose(heights, [0, 4, -1, 2, -2, 3, -1.2, 0.9], atol=1e-12)


def test_bumps_peak_where_they_should():
    x, truth = datasets.bumps(2000, snr=np.inf).X[:, 0], datasets.bumps(2000, snr=np.inf).truth
    for place, peak in ((0.1, 4.0), (0.25, 5.0), (0.81, 4.2)):
        near = np.abs(x - place) < 0.005
        assert x[near][truth[near].argmax()] == pytest.approx(place)
        assert peak < truth[near].max() < peak + 0.1


def test_heavisine_and_doppler_by_their_formulas():
    data = datasets.heavisine(1000, snr=np.inf)
    x = data.X[:, 0]
    smooth = data.truth - 4 * np.sin(4 * np.pi * x)
    middle = (x > 0.3005) & (x < 0.7195)
    np.testing.assert_allclose(smooth[middle], -2, atol=1e-12)
    np.testing.assert_allclose(smooth[(x < 0.2995) | (x > 0.7205)], 0, atol=1e-12)
    wave = datasets.doppler(1000, snr=np.inf).truth
    np.testing.assert_allclose(wave, np.sqrt(x - x**2) * np.sin(2.1 * np.pi / (x + 0.05)))


def test_blocks_sinc_is_both():
    data = datasets.blocks_sinc(256, snr=np.inf)
    np.testing.assert_array_equal(data.truth[:128], datasets.blocks(128).truth)
    np.testing.assert_array_equal(data.truth[128:], datasets.sinc(128).truth)
    assert (data.X[0, 0], data.X[-1, 0]) == (-10, 10)


@pytest.mark.skipif(not SIGNALS.exists(), reason="no ../shared/data/wavelet beside the project")
@pytest.mark.parametrize("n", [128, 256, 512, 1024, 2048])
def test_signals_equal_those_of_wavelab(n):
    names = {
        "Blocks": datasets.blocks,
        "Bumps": datasets.bumps,
        "HeaviSine": datasets.heavisine,
        "Doppler": datasets.doppler,
        "Sinc": datasets.sinc,
    }
    with np.load(SIGNALS) as stored:
        for name, make in names.items():
            np.testing.assert_allclose(make(n).truth, stored[f"{name}_{n}"], atol=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: datasets.sinc(0), "n must be an integer, 1 or more, got 0"),
        (lambda: datasets.sinc(2.5), "n must be an integer"),
        (lambda: datasets.sinc(True), "n must be an integer"),
        (lambda: datasets.sinc(5, dim=3), "dim must be 1 or 2, got 3"),
        (lambda: datasets.sinc(5, noise=-1), "noise must be a finite number"),
        (lambda: datasets.friedman1(5, noise=np.nan), "noise must be a finite number"),
        (lambda: datasets.friedman2(-1), "n must be an integer"),
        (lambda: datasets.sinc(5, 0.1, snr=2), "give noise or snr, not both"),
        (lambda: datasets.sinc(1, exact_noise=True), "exact_noise needs at least two values"),
        (lambda: datasets.sinc(1, snr=2), "snr needs a signal of at least two values, got 1"),
        (lambda: datasets.blocks(1), "n must be an integer, 2 or more, got 1"),
        (lambda: datasets.bumps(8, snr=0), "snr must be a number above zero or infinity, got 0"),
        (lambda: datasets.doppler(8, snr=np.nan), "snr must be a number above zero"),
        (lambda: datasets.heavisine(8, snr="7"), "snr must be a number above zero"),
        (lambda: datasets.blocks_sinc(9), "n must be even, got 9"),
        (lambda: datasets.mixtures(0), "n must be an integer"),
        (lambda: datasets.sparse_linear(5, 3, 4), "k must be at most m = 3, got 4"),
        (lambda: datasets.sparse_linear(5, 3, 1, snr_db=np.nan), "snr_db must be a number"),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
