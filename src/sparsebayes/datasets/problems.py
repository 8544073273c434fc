"""Regression and classification problems of the papers."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.utils import check_random_state

from sparsebayes.datasets._data import (
    Dataset,
    Labeled,
    Seed,
    SparseLinear,
    count,
    noise_at,
    with_noise,
)

# Standard deviation of the noise-free targets over their box, by Gauss-Legendre quadrature.
_FRIEDMAN2_STD = 378.93943
_FRIEDMAN3_STD = 0.316604

# Ripley (1996), Pattern Recognition and Neural Networks: class, component, coordinate.
_MIXTURE_MEANS = np.array([[[-0.7, 0.3], [0.3, 0.3]], [[-0.3, 0.7], [0.4, 0.7]]])
_MIXTURE_VARIANCE = 0.03


def sinc(
    n: int = 100,
    noise: float | None = None,
    dim: int = 1,
    random_state: Seed = None,
    *,
    snr: float | None = None,
    exact_noise: bool = False,
) -> Dataset:
    """Draw noisy values of sin(x)/x, the standard illustration of the relevance vector machine.

    In one dimension `n` equally spaced x in [-10, 10] (Tipping 2001); in two dimensions `n` points
    uniform in the square [-10, 10]^2 with target `sin|x|/|x|` (Tipping & Faul 2003, section 5.1).

    Parameters
    ----------
    n : int, default=100
        Number of rows.
    noise : float or None, default=None
        Standard deviation of the Gaussian noise; None for 0.1, or what `snr` says.
    dim : {1, 2}, default=1
        Number of inputs.
    random_state : int, RandomState or None, default=None
        An int makes the draw repeatable.
    snr : float or None, default=None
        Instead of `noise`: the ratio of the standard deviations of signal and noise.
    exact_noise : bool, default=False
        Whether the noise drawn is scaled to have exactly its standard deviation in this sample,
        as Schmolck & Everson (2007) did.

    Returns
    -------
    Dataset
        Inputs, targets, truth and noise.

    Examples
    --------
    >>> from sparsebayes.datasets import sinc
    >>> sinc(5, noise=0).truth.round(3)
    array([-0.054, -0.192,  1.   , -0.192, -0.054])
    >>> sinc(300, dim=2, random_state=0).X.shape
    (300, 2)
    >>> round(sinc(128, snr=2, random_state=0).noise_std ** 2, 3)
    0.031
    """
    n = count("n", n, minimum=1)
    if dim not in (1, 2):
        raise ValueError(f"dim must be 1 or 2, got {dim!r}.")
    rng = check_random_state(random_state)
    if dim == 1:
        X = np.linspace(-10.0, 10.0, n)[:, np.newaxis]
    else:
        X = rng.uniform(-10.0, 10.0, (n, 2))
    # numpy's sinc has pi inside: sin(pi x) / (pi x).
    truth = np.sinc(np.hypot.reduce(X, axis=1) / np.pi)
    if snr is not None:
        if noise is not None:
            raise ValueError("give noise or snr, not both.")
        noise = noise_at(snr, truth)
    return with_noise(X, truth, 0.1 if noise is None else noise, rng, exact_noise)


def friedman1(
    n: int = 240,
    noise: float = 1.0,
    random_state: Seed = None,
) -> Dataset:
    """Draw Friedman's first problem: ten inputs uniform in [0, 1], of which five matter.

    The target is 10 sin(pi x1 x2) + 20 (x3 - 1/2)^2 + 10 x4 + 5 x5.

    Parameters
    ----------
    n : int, default=240
        Number of rows.
    noise : float, default=1.0
        Standard deviation of the Gaussian noise.
    random_state : int, RandomState or None, default=None
        An int makes the draw repeatable.

    Returns
    -------
    Dataset
        Inputs, targets, truth and noise.

    Examples
    --------
    >>> from sparsebayes.datasets import friedman1
    >>> friedman1(random_state=0).X.shape
    (240, 10)
    """
    rng = check_random_state(random_state)
    X = rng.uniform(size=(count("n", n, minimum=1), 10))
    truth = (
        10.0 * np.sin(np.pi * X[:, 0] * X[:, 1])
        + 20.0 * (X[:, 2] - 0.5) ** 2
        + 10.0 * X[:, 3]
        + 5.0 * X[:, 4]
    )
    return with_noise(X, truth, noise, rng)


def friedman2(
    n: int = 240,
    noise: float | None = None,
    random_state: Seed = None,
) -> Dataset:
    """Draw Friedman's second problem: the impedance of an alternating current circuit.

    The target is (x1^2 + (x2 x3 - 1/(x2 x4))^2)^(1/2) with x1 in [0, 100], x2 in [40 pi, 560 pi],
    x3 in [0, 1] and x4 in [1, 11], all uniform.

    Parameters
    ----------
    n : int, default=240
        Number of rows.
    noise : float or None, default=None
        Standard deviation of the Gaussian noise; None for one third of the signal's (126.3).
    random_state : int, RandomState or None, default=None
        An int makes the draw repeatable.

    Returns
    -------
    Dataset
        Inputs, targets, truth and noise.

    Examples
    --------
    >>> from sparsebayes.datasets import friedman2
    >>> data = friedman2(random_state=0)
    >>> data.X.shape, round(data.noise_std, 1)
    ((240, 4), 126.3)
    """
    rng = check_random_state(random_state)
    X = _circuits(count("n", n, minimum=1), rng)
    truth = np.hypot(X[:, 0], _reactance(X))
    return with_noise(X, truth, _FRIEDMAN2_STD / 3 if noise is None else noise, rng)


def friedman3(
    n: int = 240,
    noise: float | None = None,
    random_state: Seed = None,
) -> Dataset:
    """Draw Friedman's third problem: the phase angle of an alternating current circuit.

    The target is arctan((x2 x3 - 1/(x2 x4)) / x1), with the inputs of `friedman2`.

    Parameters
    ----------
    n : int, default=240
        Number of rows.
    noise : float or None, default=None
        Standard deviation of the Gaussian noise; None for one third of the signal's (0.106).
    random_state : int, RandomState or None, default=None
        An int makes the draw repeatable.

    Returns
    -------
    Dataset
        Inputs, targets, truth and noise.

    Examples
    --------
    >>> from sparsebayes.datasets import friedman3
    >>> data = friedman3(random_state=0)
    >>> data.X.shape, round(data.noise_std, 3)
    ((240, 4), 0.106)
    """
    rng = check_random_state(random_state)
    X = _circuits(count("n", n, minimum=1), rng)
    # arctan2 is finite where x1 = 0, and equal to the arctan of the ratio since x1 >= 0.
    truth = np.arctan2(_reactance(X), X[:, 0])
    return with_noise(X, truth, _FRIEDMAN3_STD / 3 if noise is None else noise, rng)


def sparse_linear(
    n: int = 500,
    m: int = 2000,
    k: int = 30,
    snr_db: float = 20.0,
    random_state: Seed = None,
) -> SparseLinear:
    """Draw a linear problem with `m` Gaussian columns, `k` of which have a weight of +-1.

    Parameters
    ----------
    n : int, default=500
        Number of rows.
    m : int, default=2000
        Number of columns, each standard normal.
    k : int, default=30
        Number of columns that matter; 0 gives pure noise of variance one.
    snr_db : float, default=20.0
        Ratio of the variances of signal and noise in decibels; infinity for no noise.
    random_state : int, RandomState or None, default=None
        An int makes the draw repeatable.

    Returns
    -------
    SparseLinear
        Inputs, targets, truth, noise and the true weights.

    Examples
    --------
    >>> from sparsebayes.datasets import sparse_linear
    >>> data = sparse_linear(50, 200, k=4, snr_db=20, random_state=0)
    >>> data.X.shape, data.noise_std
    ((50, 200), 0.2)
    """
    n, m = count("n", n, minimum=1), count("m", m, minimum=1)
    k = count("k", k, minimum=0)
    if k > m:
        raise ValueError(f"k must be at most m = {m}, got {k}.")
    if math.isnan(snr_db) or snr_db == -math.inf:
        raise ValueError(f"snr_db must be a number or infinity, got {snr_db!r}.")
    rng = check_random_state(random_state)
    X = rng.standard_normal((n, m))
    weights = np.zeros(m)
    weights[rng.choice(m, k, replace=False)] = rng.choice([-1.0, 1.0], k)
    # The signal's variance is k: a sum of k independent columns of variance one.
    noise = math.sqrt(k) * 10.0 ** (-snr_db / 20.0) if k else 1.0
    data = with_noise(X, X @ weights, noise, rng)
    return SparseLinear(data.X, data.y, data.truth, data.noise_std, weights)


def mixtures(n: int = 250, random_state: Seed = None) -> Labeled:
    """Draw two classes in the plane, each a mixture of two Gaussians: Ripley's synthetic problem.

    The classes are equally likely, the Gaussians have variance 0.03 in every direction; no
    classifier errs in fewer than 8.93 % of the cases.

    Parameters
    ----------
    n : int, default=250
        Number of rows.
    random_state : int, RandomState or None, default=None
        An int makes the draw repeatable.

    Returns
    -------
    Labeled
        Inputs, classes and their true probability.

    Examples
    --------
    >>> from sparsebayes.datasets import mixtures
    >>> data = mixtures(20000, random_state=0)
    >>> print(f"{((data.probability > 0.5) != data.y).mean():.2f}")
    0.09
    """
    n = count("n", n, minimum=1)
    rng = check_random_state(random_state)
    y, component = rng.randint(2, size=n), rng.randint(2, size=n)
    X = _MIXTURE_MEANS[y, component] + math.sqrt(_MIXTURE_VARIANCE) * rng.standard_normal((n, 2))
    distance = ((X[:, np.newaxis, np.newaxis] - _MIXTURE_MEANS) ** 2).sum(axis=-1)
    log_density = np.logaddexp.reduce(distance / (-2 * _MIXTURE_VARIANCE), axis=-1)
    return Labeled(X, y.astype(np.intp), expit(log_density[:, 1] - log_density[:, 0]))


def _circuits(n: int, rng: np.random.RandomState) -> NDArray[np.float64]:
    low = [0.0, 40.0 * np.pi, 0.0, 1.0]
    high = [100.0, 560.0 * np.pi, 1.0, 11.0]
    return rng.uniform(low, high, (n, 4))


def _reactance(X: NDArray[np.float64]) -> NDArray[np.float64]:
    reactance: NDArray[np.float64] = X[:, 1] * X[:, 2] - 1.0 / (X[:, 1] * X[:, 3])
    return reactance
