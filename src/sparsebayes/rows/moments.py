"""Means, variances and extremes of columns, of any number of blocks, as exact as of the whole."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from sparsebayes.dictionaries._protocol import is_sparse
from sparsebayes.rows.blocks import FloatArray

__all__ = ["Moments", "moments"]

_CELLS = 1 << 18  # differences from the reference held at a time
_OFF = 0.25  # squared distance of mean and reference, in variances, that moves the reference


@dataclass(frozen=True)
class Moments:
    """Sums about a reference near the mean: nothing cancels, whatever the mean is."""

    weight: float  # of all rows
    reference: FloatArray  # (d,)
    first: FloatArray  # (d,) sums of differences from the reference
    second: FloatArray  # (d,) sums of their squares
    low: FloatArray  # (d,)
    high: FloatArray  # (d,)

    @property
    def mean(self) -> FloatArray:
        """Mean of each column."""
        return np.clip(self.reference + self.first / self.weight, self.low, self.high)

    @property
    def variance(self) -> FloatArray:
        """Variance of each column; exactly zero where it is constant, and only there."""
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            spread = self.second / self.weight - (self.first / self.weight) ** 2
        spread = np.maximum(spread, np.finfo(np.float64).smallest_subnormal)
        return np.where(self.low == self.high, 0.0, spread)

    def plus(self, other: Self) -> Self:
        """Moments of both lots of rows.

        Parameters
        ----------
        other : Moments
            Of as many columns.

        Returns
        -------
        Moments
            About the reference of the heavier one, moved where that is far from the mean.
        """
        # Few rows far away are moved to the many: theirs is most of the variance then anyway.
        heavy, light = (self, other) if self.weight >= other.weight else (other, self)
        light = light.about(heavy.reference)
        both = type(self)(
            heavy.weight + light.weight,
            heavy.reference,
            heavy.first + light.first,
            heavy.second + light.second,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
        )
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            off = both.first**2 > _OFF * both.weight * both.second
        if not off.any():
            return both
        return both.about(np.where(off, both.mean, both.reference))

    def about(self, reference: FloatArray) -> Self:
        """The same moments about another reference.

        Parameters
        ----------
        reference : ndarray of shape (d,)
            One number for each column.

        Returns
        -------
        Moments
            With sums of differences from it.
        """
        # The difference of two numbers of about the same size is exact.
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            shift = self.reference - reference
            first = self.first + self.weight * shift
            second = self.second + shift * (self.first + first)
        return type(self)(self.weight, reference, first, second, self.low, self.high)


def moments(X: Any, weights: FloatArray | None = None) -> Moments:
    """Moments of the columns of a block.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, d)
        At least one row.
    weights : ndarray of shape (n,) or None, default=None
        Positive weights of the rows; None where all are one.

    Returns
    -------
    Moments
        Of all rows.

    Examples
    --------
    >>> import numpy as np
    >>> X = 1e8 + np.array([[1.0], [2.0], [4.0]])
    >>> both = moments(X[:1]).plus(moments(X[1:]))
    >>> both.mean - 1e8, both.variance.round(12)
    (array([2.33333333]), array([1.55555556]))
    """
    n, d = X.shape
    w = np.ones(n) if weights is None else weights
    total = float(n if weights is None else weights.sum())
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if is_sparse(X):
            return _sparse_moments(X, w, total)
        low, high = X.min(axis=0), X.max(axis=0)
        reference = np.clip((w / total) @ X, low, high)
        first, second = np.zeros(d), np.zeros(d)
        step = max(1, _CELLS // max(d, 1))
        for i in range(0, n, step):
            away = X[i : i + step] - reference
            first += w[i : i + step] @ away
            away *= away
            second += w[i : i + step] @ away
    return Moments(total, reference, first, second, low, high)


def _sparse_moments(X: Any, w: FloatArray, total: float) -> Moments:
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    d, columns = X.shape[1], X.indices
    w = np.repeat(w, np.diff(X.indptr))
    reference = np.bincount(columns, w * X.data, minlength=d) / total
    stored = np.bincount(columns, w, minlength=d)
    away = X.data - reference[columns]
    first = np.bincount(columns, w * away, minlength=d) - (total - stored) * reference
    second = np.bincount(columns, w * away**2, minlength=d) + (total - stored) * reference**2
    low, high = (np.asarray(X.min(axis=0).todense()).ravel(), X.max(axis=0).toarray().ravel())
    return Moments(total, reference, first, second, low, high)
