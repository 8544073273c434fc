"""Pivoted Cholesky: the few points that tell all values of a smooth positive-definite kernel.

With P the pivots and U'U = K(P, P), every point x has coordinates ``a(x) = U^-T K(P, x)``, and
``K(x, z) = a(x) . a(z)`` up to ``sqrt(r(x) r(z))``, where ``r(x) = K(x, x) - |a(x)|^2``. Pivots are
added until no point has more than a given r. Nothing of size N x N is formed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.linalg.blas import dtrsm
from scipy.linalg.lapack import dpstrf

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = ["PROMISING", "TOLERANCE", "Factor", "n_probed", "pivoted_factor", "pivots_of"]

TOLERANCE = 1e-14
"""Largest r(x) that is left, for a kernel with K(x, x) = 1: little more than rounding."""

PROMISING = 0.8
"""Share of the probed points that may be pivots: more of them tell of no low rank."""

_PROBE = 400  # most points that are probed,
_SPARING = 10  # and how many there are for each of them
_BATCH = 128  # points that pivots are sought among at a time
_GRADED = 1e-4  # smallest pivot, as a share of the largest r left
_CHECKED = 64  # points of which all products are compared with the kernel at the end
_WRONG = 1e-12  # difference beyond which the factors are given up

Kernel = Callable[[Any, Any], FloatArray]


@dataclass(frozen=True)
class Factor:
    """Pivots of a kernel, and how to find the coordinates of any points."""

    pivots: IndexArray  # (k,) positions among the points
    U: FloatArray  # (k, k) upper triangular: U'U is the kernel of the pivots
    coordinates: FloatArray  # (k, N) of the points

    @property
    def rank(self) -> int:
        """Number of pivots."""
        return len(self.pivots)

    def locate(self, values: FloatArray) -> FloatArray:
        """Return coordinates, (k, n), of n points by their kernel values at the pivots, (k, n)."""
        return np.asarray(solve_triangular(self.U, values, trans="T", check_finite=False))


def pivoted_factor(
    kernel: Kernel, points: Any, max_rank: int, tol: float = TOLERANCE
) -> Factor | None:
    """Find pivots among the points that determine the kernel at all of them.

    Parameters
    ----------
    kernel : callable
        ``kernel(X, Z)`` of shape (n, m), positive definite and with ``K(x, x) = 1``.
    points : ndarray of shape (N, d)
        The points.
    max_rank : int
        More pivots than this are not worth their cost.
    tol : float, default=TOLERANCE
        Largest r(x) that may be left.

    Returns
    -------
    Factor or None
        None where more pivots are needed than allowed, or where the products of coordinates turn
        out not to be the kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.metrics.pairwise import rbf_kernel
    >>> X = np.linspace(0, 1, 1000)[:, None]
    >>> factor = pivoted_factor(rbf_kernel, X, max_rank=100)
    >>> factor.rank < 20
    True
    >>> A = factor.coordinates
    >>> bool(np.allclose(A.T @ A[:, :5], rbf_kernel(X, X[:5]), rtol=0, atol=1e-13))
    True
    """
    n = int(points.shape[0])
    rng = np.random.RandomState(0)
    some = np.random.RandomState(0).choice(n, n_probed(n), replace=False)
    own, V = _cholesky(kernel(points[some], points[some]), tol)
    if own.size > min(max_rank, PROMISING * some.size):
        return None
    clear = int(np.count_nonzero(V.diagonal() ** 2 > _GRADED))  # they are in falling order
    own, V = own[:clear], V[:clear, :clear]
    pivots = np.empty(0, dtype=np.intp)
    A, U = np.empty((0, n)), np.empty((0, 0))
    left = np.ones(n)
    while True:
        if not own.size or pivots.size + own.size > max_rank:
            return None
        added = some[own]
        shared = A[:, added]
        values = kernel(points[added], points)
        if pivots.size:
            values -= shared.T @ A
        # V^-T values, in place, as the transpose of values' V^-1
        fresh = dtrsm(1.0, V, np.ascontiguousarray(values).T, side=1, overwrite_b=1).T
        U = np.block([[U, shared], [np.zeros((own.size, pivots.size)), V]])
        A = np.concatenate([A, fresh])
        pivots = np.concatenate([pivots, added])
        left -= np.einsum("ij,ij->j", fresh, fresh)
        left[pivots] = 0.0
        largest = float(left.max())
        if largest <= tol:
            break
        # Pivots far smaller than what is left elsewhere would magnify rounding there.
        least = max(_GRADED * largest, tol)
        some = np.flatnonzero(left > least)
        if some.size > _BATCH:
            some = rng.choice(some, _BATCH, replace=False)
        own, V = _cholesky(kernel(points[some], points[some]) - A[:, some].T @ A[:, some], least)
    tested = rng.choice(n, min(_CHECKED, n), replace=False)
    wrong = np.abs(A[:, tested].T @ A[:, tested] - kernel(points[tested], points[tested])).max()
    return Factor(pivots, U, A) if wrong <= _WRONG else None


def pivots_of(K: FloatArray, tol: float = TOLERANCE) -> IndexArray:
    """Pivots of a small matrix, in order.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Positive semi-definite.
    tol : float, default=TOLERANCE
        Largest pivot that is left.

    Returns
    -------
    ndarray of shape (rank,)
        Their positions.

    Examples
    --------
    >>> import numpy as np
    >>> pivots_of(np.ones((3, 3)))
    array([0])
    """
    return _cholesky(K, tol)[0]


def n_probed(n: int) -> int:
    """Number of points, of n, that are probed.

    Parameters
    ----------
    n : int
        Number of points.

    Returns
    -------
    int
        One of ten, and 100 to 400 if there are as many.

    Examples
    --------
    >>> n_probed(50), n_probed(2000), n_probed(50_000)
    (50, 200, 400)
    """
    return min(n, max(_PROBE // 4, min(_PROBE, n // _SPARING)))


def _cholesky(K: FloatArray, tol: float) -> tuple[IndexArray, FloatArray]:
    """Pivots of a small matrix and their triangular factor."""
    factor, order, rank, _ = dpstrf(K, tol=tol)
    return np.asarray(order[:rank] - 1, dtype=np.intp), np.triu(factor[:rank, :rank])
