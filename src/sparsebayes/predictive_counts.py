"""Predictive distributions of counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from sparsebayes import count_integrals
from sparsebayes._alignment import aligned, aligned_chances, checked_level

FloatArray = NDArray[np.float64]

__all__ = ["Counts"]

_LARGEST = 2.0**53  # beyond it float64 has no integers, and Poisson noise is nothing


@dataclass(frozen=True, eq=False)
class Counts:
    """Poisson distributions whose rates are log-normal, one for each row.

    Parameters
    ----------
    log_rate : ndarray of shape (n,)
        Means of the logarithms of the rates.
    log_rate_std : ndarray of shape (n,)
        Their standard deviations; with zero it is a Poisson distribution.

    Examples
    --------
    >>> import numpy as np
    >>> forecast = Counts(np.log([3.0, 3.0]), np.array([0.0, 0.5]))
    >>> forecast.mean.round(2), forecast.std.round(2)
    (array([3. , 3.4]), array([1.73, 2.58]))
    >>> forecast.interval(0.9)
    (array([1., 0.]), array([6., 8.]))
    >>> np.exp(forecast.logpmf(2)).round(3)
    array([0.224, 0.187])
    """

    log_rate: FloatArray
    log_rate_std: FloatArray

    @property
    def mean(self) -> FloatArray:
        """Means; infinite where they exceed float64."""
        with np.errstate(over="ignore"):
            return np.exp(self.log_rate + 0.5 * self.log_rate_std**2)

    @property
    def variance(self) -> FloatArray:
        """Variances: of the counts at a known rate, and of the rate."""
        with np.errstate(over="ignore"):
            log_factor = np.log(np.maximum(np.expm1(self.log_rate_std**2), 1e-300))
            return self.mean + np.exp(2 * self.log_rate + self.log_rate_std**2 + log_factor)

    @property
    def std(self) -> FloatArray:
        """Standard deviations."""
        return np.sqrt(self.variance)

    def interval(self, level: float = 0.9) -> tuple[FloatArray, FloatArray]:
        """Central interval that holds the count with at least probability ``level``.

        Parameters
        ----------
        level : float, default=0.9
            Probability, between 0 and 1.

        Returns
        -------
        low, high : ndarray of shape (n,)
            Ends of the interval, which are in it.
        """
        half = 0.5 * checked_level(level)
        return self.ppf(0.5 - half), self.ppf(0.5 + half)

    def logpmf(self, y: ArrayLike) -> FloatArray:
        """Log probability of ``y``.

        Parameters
        ----------
        y : array-like
            One for each row, or what broadcasts against the rows.

        Returns
        -------
        ndarray
            Log probabilities, -infinity for what is no count; their mean over held-out data is a
            proper score.
        """

        def evaluate(k: FloatArray, mean: FloatArray, std: FloatArray) -> FloatArray:
            count = (k >= 0) & (k == np.floor(k)) & np.isfinite(k)
            out = count_integrals.log_pmf(np.where(count, k, 0.0), mean, std)
            return np.where(count, out, -np.inf)

        return self._each(y, evaluate)

    def pmf(self, y: ArrayLike) -> FloatArray:
        """Probability of ``y``.

        Parameters
        ----------
        y : array-like
            One for each row, or what broadcasts against the rows.

        Returns
        -------
        ndarray
            Probabilities, zero for what is no count.
        """
        return np.exp(self.logpmf(y))

    def cdf(self, y: ArrayLike) -> FloatArray:
        """Probability that the count is at most ``y``.

        Parameters
        ----------
        y : array-like
            One for each row, or what broadcasts against the rows.

        Returns
        -------
        ndarray
            Probabilities.
        """
        return self._each(y, _cdf)

    def ppf(self, probability: ArrayLike) -> FloatArray:
        """Quantiles: the smallest count whose ``cdf`` reaches the probability.

        Parameters
        ----------
        probability : array-like
            One for each row, or what broadcasts against the rows.

        Returns
        -------
        ndarray
            Counts; infinity for a probability of one.
        """
        return self._each(aligned_chances(probability, self.log_rate), _ppf)

    def sample(self, n_samples: int = 1, random_state: Any = None) -> FloatArray:
        """Draw counts, independently for each row.

        Parameters
        ----------
        n_samples : int, default=1
            Number of draws.
        random_state : int, RandomState or None
            Source of randomness.

        Returns
        -------
        ndarray of shape (n_samples, n)
            Draws.
        """
        from sklearn.utils import check_random_state

        rng = check_random_state(random_state)
        normal = rng.standard_normal((n_samples, len(self.log_rate)))
        with np.errstate(over="ignore"):
            rate = np.exp(self.log_rate + self.log_rate_std * normal)
        drawn: FloatArray = rng.poisson(np.minimum(rate, _LARGEST)).astype(float)
        return np.where(rate < _LARGEST, drawn, np.floor(rate))

    def _each(
        self,
        values: ArrayLike,
        function: Callable[[FloatArray, FloatArray, FloatArray], FloatArray],
    ) -> FloatArray:
        """Apply a function of flat arrays to values that broadcast against the rows."""
        given, mean, std = np.broadcast_arrays(
            aligned(values, self.log_rate), self.log_rate, self.log_rate_std
        )
        return function(given.ravel(), mean.ravel(), std.ravel()).reshape(given.shape)


def _cdf(k: FloatArray, mean: FloatArray, std: FloatArray) -> FloatArray:
    counts = np.clip(np.floor(k), 0.0, 1e300)
    inside = count_integrals.cdf(counts, mean, std)
    return np.where(k < 0, 0.0, np.where(np.isnan(k), np.nan, np.where(k == np.inf, 1.0, inside)))


def _ppf(p: FloatArray, mean: FloatArray, std: FloatArray) -> FloatArray:
    """Search outward from the log-normal quantile, then halve."""
    inside = (p > 0) & (p < 1)
    z = ndtri(np.where(inside, p, 0.5))
    with np.errstate(over="ignore"):
        spread = np.sqrt(std**2 + np.exp(-np.maximum(mean, 0.0)))
        guess = np.exp(mean + spread * z)
    out = np.where(inside, guess, np.where(p <= 0, 0.0, np.inf))
    rows = np.flatnonzero(inside & (guess < _LARGEST))
    p, mean, std = p[rows], mean[rows], std[rows]
    low = np.full(len(rows), -1.0)  # cdf(low) < p <= cdf(high)
    high = np.full(len(rows), np.inf)
    at = np.floor(guess[rows])
    stride = np.ceil(0.05 * np.minimum(spread[rows], 1.0) * at + 1.0)
    open_ = np.arange(len(rows))
    while open_.size:
        reached = count_integrals.cdf(at[open_], mean[open_], std[open_]) >= p[open_]
        high[open_[reached]] = at[open_[reached]]
        low[open_[~reached]] = at[open_[~reached]]
        open_ = open_[(high[open_] - low[open_] > 1) & (high[open_] > low[open_] * (1 + 1e-15))]
        lo, hi = low[open_], high[open_]
        outward = np.where(np.isinf(hi), lo + stride[open_], hi - stride[open_])
        searching = np.isinf(hi) | (lo < 0)
        stride[open_] *= 2.0
        halfway = np.floor(lo + 0.5 * (np.where(searching, 0.0, hi) - lo))
        at[open_] = np.where(searching, np.maximum(outward, lo + 1), halfway)
    out[rows] = high
    return out
