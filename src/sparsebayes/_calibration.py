"""Probabilities that were stated beside what happened."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

__all__ = ["Bin", "reliability", "wilson"]

_Z = 1.959964  # of an interval of 95 %


class Bin(NamedTuple):
    """Rows of which a model stated about the same probability."""

    low: float  # probabilities of the bin
    high: float
    rows: int
    stated: float  # mean probability stated
    share: float  # share of rows where it happened
    least: float  # 95 % interval of that share, Wilson's
    most: float


def reliability(probability: FloatArray, happened: NDArray[np.bool_], count: int = 10) -> list[Bin]:
    """Compare probabilities that were stated with how often it happened.

    Parameters
    ----------
    probability : ndarray of shape (n,)
        Probabilities.
    happened : ndarray of bool of shape (n,)
        Whether it happened.
    count : int, default=10
        Number of bins of equal width; those without rows are left out.

    Returns
    -------
    list of Bin
        In order.

    Examples
    --------
    >>> import numpy as np
    >>> found = reliability(np.array([0.1, 0.1, 0.9]), np.array([False, True, True]))
    >>> [(each.rows, each.share) for each in found]
    [(2, 0.5), (1, 1.0)]
    """
    place = np.minimum((probability * count).astype(np.intp), count - 1)
    bins = []
    for k in np.unique(place):
        rows = place == k
        n, share = int(rows.sum()), float(happened[rows].mean())
        least, most = wilson(share, n)
        stated = float(probability[rows].mean())
        bins.append(Bin(k / count, (k + 1) / count, n, stated, share, least, most))
    return bins


def wilson(share: float, n: int) -> tuple[float, float]:
    """Interval of 95 % of a share that was counted, Wilson's.

    Parameters
    ----------
    share : float
        Share found.
    n : int
        Among how many.

    Returns
    -------
    least, most : float
        Ends.

    Examples
    --------
    >>> [round(end, 2) for end in wilson(0.5, 10)]
    [0.24, 0.76]
    """
    shrink = 1.0 + _Z**2 / n
    center = (share + _Z**2 / (2 * n)) / shrink
    reach = _Z * math.sqrt(share * (1 - share) / n + (_Z / (2 * n)) ** 2) / shrink
    return max(center - reach, 0.0), min(center + reach, 1.0)
