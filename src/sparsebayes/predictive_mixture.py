"""Mixtures of normal distributions: a target whose noise and variances are uncertain too."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp, ndtr, ndtri

from sparsebayes._alignment import aligned, aligned_chances, checked_level

FloatArray = NDArray[np.float64]

__all__ = ["Mixture"]

_STEPS = 200  # of a search that needs about six, and never more than halving
_PRECISION = 1e-12  # of a quantile, in standard deviations
_BLOCK_CELLS = 2**20  # components looked at at a time
_HALF_LOG_2PI = 0.5 * float(np.log(2 * np.pi))


@dataclass(frozen=True, eq=False)
class Mixture:
    """Equal mixtures of normal distributions, one for each row (and target).

    What ``predict_distribution(X, marginalize=True)`` returns, with a component for each draw of
    the variances and the noise. Its intervals are those of the mixture, whose tails are longer than
    those of a normal distribution of the same variance.

    Parameters
    ----------
    means : ndarray of shape (n, K) or (n, T, K)
        Means of the components.
    stds : ndarray of the same shape
        Standard deviations of the target, noise included; positive.
    function_stds : ndarray of the same shape
        Standard deviations of the noise-free function.

    Examples
    --------
    >>> import numpy as np
    >>> means, stds = np.array([[-1.0, 1.0]]), np.array([[1.0, 1.0]])
    >>> forecast = Mixture(means, stds, 0.5 * stds)
    >>> forecast.mean, forecast.variance
    (array([0.]), array([2.]))
    >>> low, high = forecast.interval(0.9)
    >>> forecast.cdf(high).round(6)
    array([0.95])
    """

    means: FloatArray
    stds: FloatArray
    function_stds: FloatArray

    @property
    def mean(self) -> FloatArray:
        """Means."""
        return np.asarray(self.means.mean(axis=-1))

    @property
    def variance(self) -> FloatArray:
        """Variances of the target, noise included, by the law of total variance."""
        return np.asarray(np.square(self.stds).mean(axis=-1) + self.means.var(axis=-1))

    @property
    def std(self) -> FloatArray:
        """Standard deviations of the target, noise included."""
        return np.sqrt(self.variance)

    @property
    def function_std(self) -> FloatArray:
        """Standard deviations of the noise-free function."""
        return np.asarray(
            np.sqrt(np.square(self.function_stds).mean(axis=-1) + self.means.var(axis=-1))
        )

    def interval(self, level: float = 0.9) -> tuple[FloatArray, FloatArray]:
        """Central interval that holds the target with probability ``level``.

        Parameters
        ----------
        level : float, default=0.9
            Probability, between 0 and 1.

        Returns
        -------
        low, high : ndarray
            Ends of the interval.
        """
        outside = 0.5 - 0.5 * checked_level(level)
        return self.ppf(outside), self.ppf(1.0 - outside)

    def ppf(self, probability: ArrayLike) -> FloatArray:
        """Quantiles, to about twelve digits of the standard deviation.

        Parameters
        ----------
        probability : array-like
            One for each row (and target), or what broadcasts against the mean.

        Returns
        -------
        ndarray
            Values that the target stays below with this probability.
        """
        chances = aligned_chances(probability, self.means[..., 0])
        shape = np.broadcast_shapes(chances.shape, self.means.shape[:-1])
        components = (*shape, self.means.shape[-1])
        means = np.broadcast_to(self.means, components).reshape(-1, components[-1])
        stds = np.broadcast_to(self.stds, components).reshape(-1, components[-1])
        p = np.broadcast_to(chances, shape).reshape(-1)
        out = np.empty(len(p))
        step = max(1, _BLOCK_CELLS // components[-1])
        for start in range(0, len(p), step):
            some = slice(start, start + step)
            out[some] = _quantiles(p[some], means[some], stds[some])
        return out.reshape(shape)

    def cdf(self, y: ArrayLike) -> FloatArray:
        """Probability that the target is at most ``y``.

        Parameters
        ----------
        y : array-like
            One for each row (and target), or what broadcasts against the mean.

        Returns
        -------
        ndarray
            Probabilities.
        """
        return np.asarray(ndtr(self._standard(y)).mean(axis=-1))

    def logpdf(self, y: ArrayLike) -> FloatArray:
        """Log predictive density at ``y``.

        Parameters
        ----------
        y : array-like
            One for each row (and target), or what broadcasts against the mean.

        Returns
        -------
        ndarray
            Log densities; their mean over held-out data is a proper score.
        """
        with np.errstate(over="ignore"):  # far out of reach the log density is -infinity
            each = -0.5 * np.square(self._standard(y)) - np.log(self.stds)
        count = float(np.log(self.means.shape[-1]))
        return np.asarray(logsumexp(each, axis=-1) - count - _HALF_LOG_2PI)

    def sample(self, n_samples: int = 1, random_state: Any = None) -> FloatArray:
        """Draw targets, independently for each row.

        Parameters
        ----------
        n_samples : int, default=1
            Number of draws.
        random_state : int, RandomState or None
            Source of randomness.

        Returns
        -------
        ndarray of shape (n_samples, n) or (n_samples, n, T)
            Draws.
        """
        from sklearn.utils import check_random_state

        rng = check_random_state(random_state)
        *shape, count = self.means.shape
        chosen = rng.randint(count, size=(*shape, n_samples))
        draws = np.take_along_axis(self.means, chosen, axis=-1)
        draws += np.take_along_axis(self.stds, chosen, axis=-1) * rng.standard_normal(chosen.shape)
        return np.ascontiguousarray(np.moveaxis(draws, -1, 0))

    def _standard(self, y: ArrayLike) -> FloatArray:
        with np.errstate(over="ignore"):
            return np.asarray((aligned(y, self.means[..., 0])[..., None] - self.means) / self.stds)


def _quantiles(p: FloatArray, means: FloatArray, stds: FloatArray) -> FloatArray:
    """Newton's method between the extreme quantiles of the components, which bracket the root."""
    each: FloatArray = means + stds * ndtri(p)[:, None]
    low, high = each.min(axis=1), each.max(axis=1)
    out: FloatArray = (
        0.5 * low + 0.5 * high
    )  # infinite where p is zero or one, equal where all agree
    open_ = np.flatnonzero(np.isfinite(out) & (low < high))
    for _ in range(_STEPS):
        if not open_.size:
            break
        x = out[open_]
        z = (x[:, None] - means[open_]) / stds[open_]
        excess = ndtr(z).mean(axis=1) - p[open_]
        density = (np.exp(-0.5 * z * z) / stds[open_]).mean(axis=1) / np.sqrt(2 * np.pi)
        above = excess > 0
        high[open_] = np.where(above, x, high[open_])
        low[open_] = np.where(above, low[open_], x)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            new = x - excess / density
        inside = (new >= low[open_]) & (new <= high[open_])
        out[open_] = np.where(inside, new, 0.5 * (low[open_] + high[open_]))
        open_ = open_[np.abs(out[open_] - x) > _PRECISION * stds[open_].min(axis=1)]
    return out
