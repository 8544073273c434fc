"""Predictive distributions of class labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]

__all__ = ["Categorical"]


@dataclass(frozen=True, eq=False)
class Categorical:
    """Probabilities of the classes, one distribution for each row.

    Parameters
    ----------
    log_proba : ndarray of shape (n, K)
        Logarithms of the probabilities.
    classes : ndarray of shape (K,) or None, default=None
        Labels of the classes; None numbers them from 0.

    Examples
    --------
    >>> import numpy as np
    >>> forecast = Categorical(np.log([[0.2, 0.8], [0.7, 0.3]]), np.array(["no", "yes"]))
    >>> forecast.mode
    array(['yes', 'no'], dtype='<U3')
    >>> forecast.proba
    array([[0.2, 0.8],
           [0.7, 0.3]])
    >>> forecast.logpmf(["yes", "yes"]).round(2)
    array([-0.22, -1.2 ])
    """

    log_proba: FloatArray
    classes: NDArray[Any] | None = None

    @property
    def proba(self) -> FloatArray:
        """Probabilities, shape (n, K)."""
        return np.exp(self.log_proba)

    @property
    def mode(self) -> NDArray[Any]:
        """The most probable class of each row, shape (n,)."""
        return np.asarray(self._labels[self.log_proba.argmax(axis=1)])

    @property
    def entropy(self) -> FloatArray:
        """Entropy of each row in nats, shape (n,): 0 is certain, log K knows nothing."""
        p = self.proba
        # 0 log 0 is 0, and the sum of terms of one sign may round to -0.
        return np.asarray(np.abs(np.sum(p * np.where(p > 0, self.log_proba, 0.0), axis=1)))

    def logpmf(self, y: ArrayLike) -> FloatArray:
        """Log probability of ``y``.

        Parameters
        ----------
        y : array-like of shape (n,)
            A label for each row, or one for all.

        Returns
        -------
        ndarray of shape (n,)
            Log probabilities; minus their mean over held-out data is the log loss.
        """
        n = len(self.log_proba)
        given = np.asarray(y)
        if given.shape not in ((), (n,)):
            raise ValueError(f"expected {n} labels, one for each row, got shape {given.shape}.")
        table = np.broadcast_to(given, (n,))[:, None] == self._labels[None, :]
        known = table.any(axis=1)
        if not known.all():
            wrong = np.broadcast_to(given, (n,))[~known][:1].tolist()[0]
            raise ValueError(f"{wrong!r} is not one of the classes {self._labels.tolist()}.")
        return np.asarray(self.log_proba[np.arange(n), table.argmax(axis=1)])

    def sample(self, n_samples: int = 1, random_state: Any = None) -> NDArray[Any]:
        """Draw labels, independently for each row.

        Parameters
        ----------
        n_samples : int, default=1
            Number of draws.
        random_state : int, RandomState or None
            Source of randomness.

        Returns
        -------
        ndarray of shape (n_samples, n)
            Labels.
        """
        from sklearn.utils import check_random_state

        rng = check_random_state(random_state)
        below = np.cumsum(self.proba, axis=1)[:, :-1]
        u = rng.random_sample((n_samples, len(below)))
        drawn = np.empty(u.shape, dtype=np.intp)
        for i, edges in enumerate(below):
            drawn[:, i] = np.searchsorted(edges, u[:, i], side="right")
        return np.asarray(self._labels[drawn])

    @property
    def _labels(self) -> NDArray[Any]:
        return np.arange(self.log_proba.shape[1]) if self.classes is None else self.classes
