"""What a data set holds, its noise, and checks of arguments."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Seed = int | np.random.RandomState | None


@dataclass(frozen=True, eq=False)
class Dataset:
    """A regression problem together with its truth.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Inputs.
    y : ndarray of shape (n,)
        Targets with noise.
    truth : ndarray of shape (n,)
        The same targets without noise.
    noise_std : float
        Standard deviation of the noise that was added.

    Examples
    --------
    >>> from sparsebayes.datasets import sinc
    >>> data = sinc(50, random_state=0)
    >>> data.X.shape, data.y.shape, data.noise_std
    ((50, 1), (50,), 0.1)
    """

    X: NDArray[np.float64]
    y: NDArray[np.float64]
    truth: NDArray[np.float64]
    noise_std: float


@dataclass(frozen=True, eq=False)
class SparseLinear(Dataset):
    """A linear problem in which only a few columns matter.

    Parameters
    ----------
    X : ndarray of shape (n, m)
        Inputs.
    y : ndarray of shape (n,)
        Targets with noise.
    truth : ndarray of shape (n,)
        ``X @ weights``.
    noise_std : float
        Standard deviation of the noise that was added.
    weights : ndarray of shape (m,)
        True weights, zeros included.

    Examples
    --------
    >>> from sparsebayes.datasets import sparse_linear
    >>> data = sparse_linear(20, 100, 3, random_state=0)
    >>> int((data.weights != 0).sum())
    3
    """

    weights: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Labeled:
    """A problem of two classes together with its truth.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Inputs.
    y : ndarray of shape (n,)
        Classes, 0 or 1.
    probability : ndarray of shape (n,)
        True probability of class 1 at each row of X.

    Examples
    --------
    >>> from sparsebayes.datasets import mixtures
    >>> data = mixtures(50, random_state=0)
    >>> data.X.shape, data.y.shape, data.probability.shape
    ((50, 2), (50,), (50,))
    """

    X: NDArray[np.float64]
    y: NDArray[np.intp]
    probability: NDArray[np.float64]


def with_noise(
    X: NDArray[np.float64],
    truth: NDArray[np.float64],
    noise: float,
    rng: np.random.RandomState,
    exact: bool = False,
) -> Dataset:
    """Add Gaussian noise; `exact` scales the draw to the standard deviation that was asked for."""
    if not (math.isfinite(noise) and noise >= 0):
        raise ValueError(f"noise must be a finite number, zero or more, got {noise!r}.")
    draw = rng.standard_normal(truth.shape)
    if exact:
        if draw.size < 2:
            raise ValueError(f"exact_noise needs at least two values, got {draw.size}.")
        draw /= draw.std(ddof=1)
    return Dataset(X, truth + noise * draw, truth, float(noise))


def noise_at(snr: float, truth: NDArray[np.float64]) -> float:
    """Noise with which the signal's standard deviation is `snr` times that of the noise."""
    if not isinstance(snr, numbers.Real) or isinstance(snr, bool) or not snr > 0:
        raise ValueError(f"snr must be a number above zero or infinity, got {snr!r}.")
    if truth.size < 2:
        raise ValueError(f"snr needs a signal of at least two values, got {truth.size}.")
    return float(truth.std(ddof=1) / snr)


def count(name: str, value: int, minimum: int) -> int:
    """Check a whole number."""
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < minimum:
        raise ValueError(f"{name} must be an integer, {minimum} or more, got {value!r}.")
    return int(value)
