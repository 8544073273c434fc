"""From what users give to a source of rows."""

from typing import Any

import numpy as np

from sparsebayes.dictionaries._protocol import is_sparse
from sparsebayes.rows.arrays import ArraySource
from sparsebayes.rows.local import Source

__all__ = ["is_streamed", "open_source"]


def is_streamed(X: Any) -> bool:
    """Whether X is data that must be read piece by piece: a file, or an array that lives in one.

    Parameters
    ----------
    X : object
        As given to ``fit``.

    Returns
    -------
    bool
        False for arrays in memory, sparse matrices, lists and frames.

    Examples
    --------
    >>> is_streamed([[1.0, 2.0]])
    False
    """
    return isinstance(X, np.memmap) or _is_stored(X)


def open_source(X: Any, y: Any, sample_weight: Any = None, *, numeric_y: bool = True) -> Source:
    """Make a source of what a user has given.

    Parameters
    ----------
    X : array-like or CSR matrix of shape (n, d)
        Inputs: in memory, `numpy.memmap`, zarr or HDF5 array.
    y : array-like of shape (n,) or (n, T)
        Targets, of the same kinds.
    sample_weight : array-like of shape (n,), a number or None, default=None
        Weights, of the same kinds.
    numeric_y : bool, default=True
        Whether targets are numbers, not labels.

    Returns
    -------
    Source
        Its rows.

    Examples
    --------
    >>> source = open_source([[1, 2], [3, 4]], [5, 6])
    >>> next(source.chunks(10)).X
    array([[1., 2.],
           [3., 4.]])
    """
    X = X.tocsr() if is_sparse(X) else _sliceable(X)
    return ArraySource(X, _sliceable(y), _sliceable(sample_weight), numeric_y)


def _sliceable(values: Any) -> Any:
    if values is None or isinstance(values, np.ndarray) or _is_stored(values):
        return values
    return np.asarray(values)


def _is_stored(X: Any) -> bool:
    """Whether X is an array of zarr or h5py, neither of which needs to be installed."""
    home = type(X).__module__.partition(".")[0]
    return home in ("zarr", "h5py") and hasattr(X, "shape") and hasattr(X, "dtype")
