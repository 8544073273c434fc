"""The order of samples that belongs to them, so that no result hangs on how they come."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsebayes.dictionaries._protocol import is_sparse
from sparsebayes.dictionaries._rows import row_keys

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = ["is_new", "own_order"]


def own_order(X: Any, y: FloatArray) -> IndexArray:
    """Order of samples that belongs to them: no order of rows changes it.

    Nor does one of columns, but for rows that hold the same values in other columns. Rows of one
    column ascend.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (N, d)
        Inputs.
    y : ndarray of shape (N, T)
        Targets, which order samples of equal inputs.

    Returns
    -------
    ndarray of shape (N,)
        Positions of the samples.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[3.0, 1.0], [0.0, 2.0], [1.0, 2.0]])
    >>> own_order(X, np.zeros((3, 1))), own_order(X[:, ::-1], np.zeros((3, 1)))
    (array([1, 2, 0]), array([1, 2, 0]))
    """
    if is_sparse(X):
        return np.lexsort((*y.T[::-1], row_keys(X)))
    columns = np.sort(X, axis=1).T
    first = columns[0]
    if (first[1:] > first[:-1]).all():
        return np.arange(len(X))
    return np.lexsort((*y.T[::-1], *X.T[::-1], *columns[::-1]))


def is_new(X: Any) -> NDArray[np.bool_]:
    """Whether each row of X, in its own order, differs from the one before."""
    if is_sparse(X):
        keys = row_keys(X)
        differs: NDArray[np.bool_] = keys[1:] != keys[:-1]
    else:
        differs = (X[1:] != X[:-1]).any(axis=1)
    return np.concatenate([[True], differs])
