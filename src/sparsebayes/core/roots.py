"""Roots of positive semi-definite matrices: what a sum of squares is the square of."""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dtrtrs

from sparsebayes.core.tolerances import TOLERANCES
from sparsebayes.engine import Breakdown

FloatArray = NDArray[np.float64]

__all__ = ["root_of", "rooted"]


def root_of(P: FloatArray) -> FloatArray:
    """F with F'F = P.

    Rows and columns of different scale cost no digits; directions that are nothing but rounding
    beside the others are left out.

    Parameters
    ----------
    P : ndarray of shape (q, q)
        Symmetric; raises `Breakdown` where it has negative eigenvalues, but for rounding.

    Returns
    -------
    ndarray of shape (k, q)
        The root; k is at most q.

    Examples
    --------
    >>> import numpy as np
    >>> root_of(np.array([[4.0, 2.0], [2.0, 10.0]]))
    array([[2., 1.],
           [0., 3.]])
    >>> root_of(np.ones((2, 2))).round(12)
    array([[1., 1.]])
    """
    return rooted(P, np.zeros(len(P)))[0]


def rooted(P: FloatArray, right: FloatArray, clip: bool = False) -> tuple[FloatArray, FloatArray]:
    """F with F'F = P, and t with F't = right.

    Parameters
    ----------
    P : ndarray of shape (q, q)
        As in `root_of`.
    right : ndarray of shape (q,)
        In the range of P.
    clip : bool, default=False
        Whether directions of negative eigenvalues are left out, too, in the place of an error.

    Returns
    -------
    F : ndarray of shape (k, q)
        The root.
    t : ndarray of shape (k,)
        What it takes to ``right``.

    Examples
    --------
    >>> import numpy as np
    >>> rooted(np.array([[4.0, 2.0], [2.0, 10.0]]), np.array([2.0, 7.0]))[1]
    array([1., 2.])
    """
    if not len(P):
        return np.zeros((0, 0)), np.zeros(0)
    if not (np.isfinite(P).all() and np.isfinite(right).all()):
        raise Breakdown
    own = P.diagonal()
    if not clip and not (own >= -TOLERANCES.negative * np.abs(own).max(initial=0.0)).all():
        raise Breakdown
    scale = np.sqrt(np.maximum(own, 0.0))
    inverse = np.where(scale > 0, 1.0 / np.where(scale > 0, scale, 1.0), 0.0)
    unit = P * inverse
    unit *= inverse[:, None]
    factor, info = dpotrf(unit.T, lower=0, clean=1)
    if info == 0 and (factor.diagonal() ** 2).min(initial=1.0) > TOLERANCES.firm:
        t, _ = dtrtrs(factor, right * inverse, lower=0, trans=1)
        return np.asarray(factor * scale), np.asarray(t)
    try:
        values, vectors = np.linalg.eigh(unit)
    except np.linalg.LinAlgError:
        raise Breakdown from None
    if not clip and not values[0] > -TOLERANCES.negative:
        raise Breakdown
    kept = values > TOLERANCES.nothing * len(P)
    vectors, half = vectors[:, kept], np.sqrt(values[kept])
    vectors = vectors * np.where(vectors.sum(axis=0) < 0, -1.0, 1.0)
    return (vectors * half).T * scale, vectors.T @ (right * inverse) / half
