"""Distinct rows of data of any size, or a fair sample of them, whatever blocks they come in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sparsebayes.dictionaries._protocol import Floats, Matrix, is_sparse
from sparsebayes.dictionaries._rows import row_keys

__all__ = ["DistinctRows", "distinct_rows", "sample_size"]

_FEWEST = 20_000  # rows that k-means sees, if there are as many
_PER_CENTER = 10


def sample_size(k: int) -> int:
    """Most rows that are clustered into k centers: k-means of more would find about the same."""
    return max(_FEWEST, _PER_CENTER * k)


@dataclass(frozen=True)
class DistinctRows:
    """The distinct rows with the smallest keys, at most `limit` of them.

    A key is a hash of a row, so it depends neither on the order of rows nor on how often one is
    given, and rows with small keys are drawn at random. Those of two lots of rows give those of
    both.
    """

    X: Matrix  # (k, d) in the order of the keys, dense or CSR
    weights: Floats  # (k,) of all rows equal to it
    keys: NDArray[np.uint64]  # (k,) ascending
    first: NDArray[np.int64]  # (k,) position of the first of the equal rows
    limit: int
    complete: bool  # whether none has been left out

    def plus(self, other: Self) -> Self:
        """Those of two lots of rows, of which this one comes first."""
        X = (self.X, other.X)
        return type(self)._chosen(
            sp.vstack(X, format="csr") if is_sparse(self.X) else np.concatenate(X),
            np.concatenate([self.weights, other.weights]),
            np.concatenate([self.keys, other.keys]),
            np.concatenate([self.first, other.first]),
            self.limit,
            self.complete and other.complete,
        )

    @classmethod
    def _chosen(
        cls,
        X: Matrix,
        weights: Floats,
        keys: NDArray[np.uint64],
        first: NDArray[np.int64],
        limit: int,
        complete: bool,
    ) -> Self:
        chosen, place, group = np.unique(keys, return_index=True, return_inverse=True)
        total: Floats = np.bincount(group, weights, minlength=len(chosen)).astype(np.float64)
        complete = complete and len(chosen) <= limit
        place = place[:limit]
        return cls(X[place], total[:limit], chosen[:limit], first[place], limit, complete)

    def rows(self) -> tuple[Matrix, Floats | None]:
        """Rows and weights (None where all are one) in an order that belongs to them."""
        return self.X, None if (self.weights == 1).all() else self.weights


def distinct_rows(
    X: Matrix, sample_weight: Floats | None, limit: int, start: int = 0
) -> DistinctRows:
    """Find the distinct rows of positive weight, at most `limit` of them.

    Parameters
    ----------
    X : float64 array or CSR matrix of shape (n, d)
        Rows.
    sample_weight : array of shape (n,) or None
        Their weights.
    limit : int
        Most rows that are kept.
    start : int, default=0
        Position of the first row.

    Returns
    -------
    DistinctRows
        With copies of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[3.0], [1.0], [3.0], [2.0]])
    >>> both = distinct_rows(X[:2], None, 10).plus(distinct_rows(X[2:], None, 10, start=2))
    >>> both.weights[both.X[:, 0] == 3.0], both.first[both.X[:, 0] == 2.0], both.complete
    (array([2.]), array([3]), True)
    """
    first = start + np.arange(X.shape[0])
    weights = np.ones(X.shape[0]) if sample_weight is None else sample_weight
    if not weights.all():
        used = np.flatnonzero(weights)
        X, weights, first = X[used], weights[used], first[used]
    return DistinctRows._chosen(X, weights, row_keys(X), first, limit, True)
