"""Predictive distributions: what a model says about targets it has not seen."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

from sparsebayes._alignment import aligned, aligned_chances, checked_level
from sparsebayes.predictive_classes import Categorical
from sparsebayes.predictive_counts import Counts
from sparsebayes.predictive_mixture import Mixture

FloatArray = NDArray[np.float64]

__all__ = ["Categorical", "Counts", "Mixture", "Normal"]


@dataclass(frozen=True, eq=False)
class Normal:
    """Normal distributions of the target, one for each row (and target).

    Each is right by itself; how rows depend on each other is what ``predict(X, return_cov=True)``
    and ``sample_y`` say.

    Parameters
    ----------
    mean : ndarray of shape (n,) or (n, T)
        Means.
    std : ndarray of the same shape
        Standard deviations of the target, noise included; positive.
    function_std : ndarray of the same shape
        Standard deviations of the noise-free function.

    Examples
    --------
    >>> import numpy as np
    >>> forecast = Normal(np.zeros(1), np.ones(1), np.full(1, 0.5))
    >>> low, high = forecast.interval(0.95)
    >>> low.round(2), high.round(2)
    (array([-1.96]), array([1.96]))
    >>> forecast.cdf(0.0)
    array([0.5])
    """

    mean: FloatArray
    std: FloatArray
    function_std: FloatArray

    @property
    def variance(self) -> FloatArray:
        """Variances of the target, noise included."""
        return np.square(self.std)

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
        reach = float(ndtri(0.5 + 0.5 * checked_level(level))) * self.std
        return self.mean - reach, self.mean + reach

    def ppf(self, probability: ArrayLike) -> FloatArray:
        """Quantiles.

        Parameters
        ----------
        probability : array-like
            One for each row (and target), or what broadcasts against the mean.

        Returns
        -------
        ndarray
            Values that the target stays below with this probability.
        """
        chances = aligned_chances(probability, self.mean)
        return np.asarray(self.mean + self.std * ndtri(chances))

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
        return np.asarray(ndtr(self._standard(y)))

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
            squares = np.square(self._standard(y))
        return np.asarray(-0.5 * (squares + np.log(2 * np.pi)) - np.log(self.std))

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
        draws: FloatArray = self.mean + self.std * rng.standard_normal(
            (n_samples, *self.mean.shape)
        )
        return draws

    def _standard(self, y: ArrayLike) -> FloatArray:
        with np.errstate(over="ignore"):
            return np.asarray((aligned(y, self.mean) - self.mean) / self.std)
