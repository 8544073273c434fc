"""The test signals of Donoho & Johnstone, and one made of two kinds of signal."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from sparsebayes.datasets._data import Dataset, Seed, count, noise_at, with_noise

# Donoho & Johnstone (1994), Ideal spatial adaptation by wavelet shrinkage, table 1: where blocks
# and bumps are, how high, and how wide the bumps.
_PLACES = np.array([0.1, 0.13, 0.15, 0.23, 0.25, 0.4, 0.44, 0.65, 0.76, 0.78, 0.81])
_STEPS = np.array([4.0, -5.0, 3.0, -4.0, 5.0, -4.2, 2.1, 4.3, -3.1, 2.1, -4.2])
_PEAKS = np.array([4.0, 5.0, 3.0, 4.0, 5.0, 4.2, 2.1, 4.3, 3.1, 5.1, 4.2])
_WIDTHS = np.array([0.005, 0.005, 0.006, 0.01, 0.01, 0.03, 0.01, 0.01, 0.005, 0.008, 0.005])


def blocks(
    n: int = 1024,
    snr: float = 7.0,
    *,
    exact_noise: bool = False,
    random_state: Seed = None,
) -> Dataset:
    """Draw Donoho & Johnstone's Blocks: constant pieces between eleven jumps.

    Haar wavelets hold such a signal in few coefficients, smooth functions do not.

    Parameters
    ----------
    n : int, default=1024
        Number of samples.
    snr : float, default=7.0
        Ratio of the standard deviations of signal and noise, the signal's with n - 1 in its
        denominator; infinity for no noise.
    exact_noise : bool, default=False
        Whether the noise drawn is scaled to have exactly its standard deviation in this sample,
        as Schmolck & Everson (2007) did.
    random_state : int, RandomState or None, default=None
        An int makes the draw repeatable.

    Returns
    -------
    Dataset
        Positions (x = 1/n, 2/n, ..., 1), values with noise, without, and the noise.

    Examples
    --------
    >>> from sparsebayes.datasets import blocks
    >>> blocks(8, snr=float("inf")).truth[:6].round(1)
    array([4. , 0.5, 3. , 0.9, 0.9, 5.2])
    """
    x = _positions(n)
    return _signal(x, _blocks(x), snr, exact_noise, random_state)


def bumps(
    n: int = 1024,
    snr: float = 7.0,
    *,
    exact_noise: bool = False,
    random_state: Seed = None,
) -> Dataset:
    """Draw Donoho & Johnstone's Bumps: eleven peaks of different height and width.

    The sum of `h (1 + |x - p| / w)^-4` over peaks at p.

    Parameters
    ----------
    n : int, default=1024
        Number of samples.
    snr : float, default=7.0
        Ratio of the standard deviations of signal and noise, the signal's with n - 1 in its
        denominator; infinity for no noise.
    exact_noise : bool, default=False
        Whether the noise drawn is scaled to have exactly its standard deviation in this sample,
        as Schmolck & Everson (2007) did.
    random_state : int, RandomState or None, default=None
        An int makes the draw repeatable.

    Returns
    -------
    Dataset
        Positions (x = 1/n, 2/n, ..., 1), values with noise, without, and the noise.

    Examples
    --------
    >>> from sparsebayes.datasets import bumps
    >>> data = bumps(128, snr=2, random_state=0)
    >>> data.X.shape, round(data.noise_std**2, 3)
    ((128, 1), 0.119)
    """
    x = _positions(n)
    truth = (1.0 + np.abs((x[:, np.newaxis] - _PLACES) / _WIDTHS)) ** -4.0 @ _PEAKS
    return _signal(x, truth, snr, exact_noise, random_state)


def heavisine(
    n: int = 1024,
    snr: float = 7.0,
    *,
    exact_noise: bool = False,
    random_state: Seed = None,
) -> Dataset:
    """Draw Donoho & Johnstone's HeaviSine: a sine with two jumps.

    The signal is 4 sin(4 pi x) - sign(x - 0.3) - sign(0.72 - x).

    Parameters
    ----------
    n : int, default=1024
        Number of samples.
    snr : float, default=7.0
        Ratio of the standard deviations of signal and noise, the signal's with n - 1 in its
        denominator; infinity for no noise.
    exact_noise : bool, default=False
        Whether the noise drawn is scaled to have exactly its standard deviation in this sample,
        as Schmolck & Everson (2007) did.
    random_state : int, RandomState or None, default=None
        An int makes the draw repeatable.

    Returns
    -------
    Dataset
        Positions (x = 1/n, 2/n, ..., 1), values with noise, without, and the noise.

    Examples
    --------
    >>> from sparsebayes.datasets import heavisine
    >>> heavisine(8, snr=float("inf")).truth[::2].round(1)
    array([ 4., -6.,  2., -4.])
    """
    x = _positions(n)
    truth = 4.0 * np.sin(4.0 * np.pi * x) - np.sign(x - 0.3) - np.sign(0.72 - x)
    return _signal(x, truth, snr, exact_noise, random_state)


def doppler(
    n: int = 1024,
    snr: float = 7.0,
    *,
    exact_noise: bool = False,
    random_state: Seed = None,
) -> Dataset:
    """Draw Donoho & Johnstone's Doppler: a wave that slows down as it grows.

    The signal is (x (1 - x))^(1/2) sin(2.1 pi / (x + 0.05)).

    Parameters
    ----------
    n : int, default=1024
        Number of samples.
    snr : float, default=7.0
        Ratio of the standard deviations of signal and noise, the signal's with n - 1 in its
        denominator; infinity for no noise.
    exact_noise : bool, default=False
        Whether the noise drawn is scaled to have exactly its standard deviation in this sample,
        as Schmolck & Everson (2007) did.
    random_state : int, RandomState or None, default=None
        An int makes the draw repeatable.

    Returns
    -------
    Dataset
        Positions (x = 1/n, 2/n, ..., 1), values with noise, without, and the noise.

    Examples
    --------
    >>> from sparsebayes.datasets import doppler
    >>> data = doppler(exact_noise=True, random_state=0)
    >>> print(f"{(data.y - data.truth).std(ddof=1) ** 2:.4f}")
    0.0017
    """
    x = _positions(n)
    truth = np.sqrt(x * (1.0 - x)) * np.sin(2.0 * np.pi * 1.05 / (x + 0.05))
    return _signal(x, truth, snr, exact_noise, random_state)


def blocks_sinc(
    n: int = 1024,
    snr: float = 7.0,
    *,
    exact_noise: bool = False,
    random_state: Seed = None,
) -> Dataset:
    """Draw a signal in two parts: Blocks, and then sin(x)/x.

    Of Schmolck & Everson (2007, section 4.3): no single kind of atom suits both halves, a union of
    Haar wavelets and smooth kernels does. Each half has `n` / 2 samples: those of `blocks`, and
    sin(x)/x at equally spaced x from -10 to 10.

    Parameters
    ----------
    n : int, default=1024
        Number of samples, even.
    snr : float, default=7.0
        Ratio of the standard deviations of signal and noise, the signal's with n - 1 in its
        denominator; infinity for no noise.
    exact_noise : bool, default=False
        Whether the noise drawn is scaled to have exactly its standard deviation in this sample,
        as Schmolck & Everson (2007) did.
    random_state : int, RandomState or None, default=None
        An int makes the draw repeatable.

    Returns
    -------
    Dataset
        Positions (equally spaced from -10 to 10), values with noise, without, and the noise.

    Examples
    --------
    >>> from sparsebayes.datasets import blocks_sinc
    >>> data = blocks_sinc(8, snr=float("inf"))
    >>> data.truth[[0, 1, 2, 4, 5]].round(2)
    array([ 0.5 ,  0.9 ,  5.2 , -0.05, -0.06])
    >>> data.X[:2, 0].round(2)
    array([-10.  ,  -7.14])
    """
    n = count("n", n, minimum=4)
    if n % 2:
        raise ValueError(f"n must be even, got {n}.")
    half = n // 2
    smooth = np.sinc(np.linspace(-10.0, 10.0, half) / np.pi)
    truth = np.concatenate([_blocks(_positions(half)), smooth])
    return _signal(np.linspace(-10.0, 10.0, n), truth, snr, exact_noise, random_state)


def _positions(n: int) -> NDArray[np.float64]:
    n = count("n", n, minimum=2)
    return np.arange(1, n + 1) / n


def _blocks(x: NDArray[np.float64]) -> NDArray[np.float64]:
    # Half a jump at the jump itself, should a sample fall on it.
    return np.asarray(0.5 * (1.0 + np.sign(x[:, np.newaxis] - _PLACES)) @ _STEPS)


def _signal(
    x: NDArray[np.float64], truth: NDArray[np.float64], snr: float, exact: bool, seed: Seed
) -> Dataset:
    rng = check_random_state(seed)
    return with_noise(x[:, np.newaxis], truth, noise_at(snr, truth), rng, exact)
