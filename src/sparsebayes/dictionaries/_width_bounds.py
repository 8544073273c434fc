"""Where the search for a kernel's width starts, and the widths between which it stays."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist

from sparsebayes.dictionaries._protocol import Floats, Matrix, is_sparse
from sparsebayes.dictionaries._rows import column_variances, first_occurrences, row_keys
from sparsebayes.dictionaries.kernel_functions import squared_norms

_QUERIES = 500  # rows whose nearest neighbors are sought
_CELLS = 1 << 22  # distances at a time
_NEIGHBORS = 4.0  # narrowest: exp(-4) at the distance of the nearest neighbor
_WIDEST = 1e-4  # of the start
_NARROWEST_INPUT, _WIDEST_INPUT = 1e4, 1e-12  # of the start; an input may turn out irrelevant


def starting_widths(
    X: Matrix, sample_weight: Floats | None, inverse_distance: bool = False, given: str = "ard"
) -> Floats:
    """1 / (d var(x_k)) for each input, (d,); zero, never to be learned, where it is constant.

    Of a kernel that sees distances instead of their squares, 1 / (d std(x_k)). What is ``given`` is
    named where there is none.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        spread = column_variances(X, sample_weight)
    if inverse_distance:
        spread = np.sqrt(spread)
    some = (spread > 0) | np.isnan(spread)
    if not some.any():
        return np.ones(len(spread))
    with np.errstate(over="ignore", under="ignore"):
        start = np.where(some, 1.0 / (len(spread) * np.where(some, spread, 1.0)), 0.0)
    if not (np.isfinite(start).all() and (start > 0).sum() == some.sum()):
        raise ValueError(
            f"gamma={given!r} cannot be computed: the inputs' spreads are {spread}; scale them"
        )
    return start


def width_bounds(
    X: Matrix,
    sample_weight: Floats | None,
    start: float | Floats,
    inverse_distance: bool = False,
) -> Floats:
    """Lowest and highest log gamma, (P, 2).

    Parameters
    ----------
    X : float64 array or CSR matrix of shape (n, d)
        Training rows.
    sample_weight : array of shape (n,) or None
        Rows of weight zero do not count.
    start : float or array of shape (d,)
        Where the search starts: one width, or one for each input.
    inverse_distance : bool, default=False
        Whether gamma multiplies distances, as that of "laplacian" does, or their squares.

    Returns
    -------
    ndarray of shape (P, 2)
        One row for each positive entry of `start`.

    Examples
    --------
    >>> import numpy as np
    >>> np.exp(width_bounds(np.array([[0.0], [0.5], [1.0]]), None, 1.0)).round(4)
    array([[1.0e-04, 1.6e+01]])
    """
    if np.ndim(start):
        log_start = np.log(np.asarray(start)[np.asarray(start) > 0])
        ends = np.log(np.array([_WIDEST_INPUT, _NARROWEST_INPUT]))
        return np.asarray(log_start[:, None] + ends)
    nearest = _nearest_squared_distance(X if sample_weight is None else X[sample_weight > 0])
    if inverse_distance:
        nearest = nearest**0.5
    lowest, highest = _WIDEST * float(start), _NARROWEST_INPUT * float(start)
    if nearest > _NEIGHBORS / np.finfo(np.float64).max:
        highest = max(_NEIGHBORS / nearest, _NEIGHBORS * float(start))
    return np.asarray(np.log([[lowest, highest]]))


def _nearest_squared_distance(X: Matrix) -> float:
    """Median squared distance to the nearest other row, over some distinct rows; zero if none."""
    X = X[first_occurrences(X)]
    n = X.shape[0]
    if n < 2:
        return 0.0
    rows = np.arange(n)
    if n > _QUERIES:
        rows = np.sort(np.argsort(row_keys(X), kind="stable")[:_QUERIES])
    nearest = np.full(len(rows), np.inf)
    step = max(1, _CELLS // len(rows))
    for i in range(0, n, step):
        others = slice(i, min(i + step, n))
        squares = _squared_distances(X[rows], X[others])
        own = np.flatnonzero((rows >= i) & (rows < others.stop))
        squares[own, rows[own] - i] = np.inf
        nearest = np.minimum(nearest, squares.min(axis=1))
    return float(np.median(nearest))


def _squared_distances(X: Matrix, Z: Matrix) -> Floats:
    if not is_sparse(X):
        return np.asarray(cdist(X, Z, "sqeuclidean"))
    products = (X @ Z.T).toarray()
    return np.asarray(
        np.maximum(squared_norms(X)[:, None] + squared_norms(Z) - 2.0 * products, 0.0)
    )
