"""Products that were all summed: what a quadratic needs is a part of a matrix, or of a few sums."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsebayes.core.quadratic import (
    Later,
    Root,
    reduced,
)
from sparsebayes.core.tolerances import COLLINEAR, TOLERANCES

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = ["InCoordinates", "Known", "Rooted"]


class Known:
    """Products of columns with each other as a matrix; nothing needs to be kept beside it."""

    keep = False
    collinear = COLLINEAR

    def __init__(
        self,
        matrix: FloatArray,  # (m, m)
        scale: FloatArray,  # (M K,) by what columns are multiplied; zero for those not in it
        drift: FloatArray | None = None,  # (M K,) whose products with each other are added to it
        rows: IndexArray | None = None,  # (M K,) where columns are in it; None for all in order
    ) -> None:
        self.matrix, self.scale, self.rows = matrix, scale, rows
        self.drift = drift if drift is not None and drift.any() else None

    def columns(self, some: IndexArray, unit: FloatArray) -> FloatArray:
        """Products of some columns with all, shape (k, M K)."""
        at = self.rows
        rows = self.matrix[some] if at is None else self.matrix[at[some]][:, at]
        if self.drift is not None:
            rows += self.drift[some, None] * self.drift
        unit = unit * self.scale
        rows *= unit
        rows *= unit[some, None]
        return rows

    def block(self, some: IndexArray, unit: FloatArray) -> FloatArray:
        """Products of some columns with each other, shape (k, k)."""
        own = some if self.rows is None else self.rows[some]
        G = self.matrix[own[:, None], own]
        if self.drift is not None:
            G += self.drift[some, None] * self.drift[some]
        unit = unit[some] * self.scale[some]
        G *= unit
        G *= unit[:, None]
        return G

    def least_squares(self, unit: FloatArray) -> None:
        """The rows are gone."""

    def root(self, some: IndexArray, unit: FloatArray) -> None:
        """The rows are gone."""


class InCoordinates:
    """Products of columns that are sums of few: G = A'P A, P the products of the few."""

    keep = True
    collinear = COLLINEAR

    def __init__(
        self,
        A: FloatArray,  # (q, M)
        metric: FloatArray,  # (q, M) P A
        root: Callable[[], Root] | None = None,  # makes that of the few
    ) -> None:
        self.A, self.metric, self._make = A, metric, root
        self._root: Root | None = None

    def columns(self, some: IndexArray, unit: FloatArray) -> FloatArray:
        """Products of some columns with all, shape (k, M)."""
        rows = np.asarray(self.metric[:, some].T @ self.A)
        rows *= unit
        rows *= unit[some, None]
        return rows

    def block(self, some: IndexArray, unit: FloatArray) -> FloatArray:
        """Products of some columns with each other, shape (k, k)."""
        G = self.metric[:, some].T @ self.A[:, some]
        return np.asarray(0.5 * (G + G.T)) * (unit[some, None] * unit[some])

    def least_squares(self, unit: FloatArray) -> Root | None:
        """All columns and the targets, where the few can be had as more than products."""
        if self._root is None and self._make is not None:
            few = self._make()
            self._root = few._replace(D=(few.D @ self.A) * unit)
        return self._root

    def root(self, some: IndexArray, unit: FloatArray) -> Later | None:
        """What some columns are the squares of, where the squares lose digits."""
        if self._make is None:
            return None

        def made(indices: IndexArray) -> Root:
            whole = self.least_squares(unit)
            assert whole is not None
            return reduced(whole._replace(D=whole.D[:, indices]))

        return Later(made, some, self.A.shape[1])


class Rooted:
    """Columns D = F A of few coordinates: what D'D loses where weights cancel is still in D."""

    keep = True
    collinear = TOLERANCES.rooted

    def __init__(
        self,
        F: FloatArray,  # (r, q K)
        t: FloatArray,  # (r, 1)
        A: FloatArray,  # (q, M)
        K: int,
        seen: Any = None,  # whatever the sums were, for those who make others from them
    ) -> None:
        self.F, self.t, self.A, self.K, self.seen = F, t, A, K, seen

    def roots(self, some: IndexArray, unit: FloatArray) -> FloatArray:
        """Columns of D, of unit norm, (r, k)."""
        found = np.empty((len(self.F), some.size))
        for k in range(self.K):
            mine = np.flatnonzero(some % self.K == k)
            found[:, mine] = self.F[:, k :: self.K] @ self.A[:, some[mine] // self.K]
        return found * unit[some]

    def along(self, rows: FloatArray, unit: FloatArray) -> FloatArray:
        """Products of rows, shape (p, r), with all columns of D, shape (p, M K)."""
        left, found = rows @ self.F, np.empty((len(rows), unit.size))
        for k in range(self.K):
            found[:, k :: self.K] = left[:, k :: self.K] @ self.A
        return found * unit

    def squares(self, pairs: bool) -> FloatArray:
        """Products of the columns of each atom with each other, or themselves: (M, K, K)."""
        K = self.K
        found = np.zeros((self.A.shape[1], K, K))
        for k in range(K):
            own = self.F[:, k::K] @ self.A
            found[:, k, k] = np.einsum("qm,qm->m", own, own)
            for other in range(k + 1, K if pairs else k):
                products = np.einsum("qm,qm->m", own, self.F[:, other::K] @ self.A)
                found[:, k, other] = found[:, other, k] = products
        return found

    def columns(self, some: IndexArray, unit: FloatArray) -> FloatArray:
        """Products of some columns with all, shape (k, M K)."""
        return self.along(self.roots(some, unit).T, unit)

    def block(self, some: IndexArray, unit: FloatArray) -> FloatArray:
        """Products of some columns with each other, shape (k, k)."""
        D = self.roots(some, unit)
        return np.asarray(D.T @ D)

    def least_squares(self, unit: FloatArray) -> "_Turned":
        """What all of them are the squares of."""
        return _Turned(self, unit)

    def root(self, some: IndexArray, unit: FloatArray) -> Root:
        """What some columns are the squares of."""
        return Root(self.roots(some, unit), self.t)


@dataclass(frozen=True)
class _Turned:
    """The small design D, of columns of unit norm."""

    at: Rooted
    unit: FloatArray
    rest = None
    error = TOLERANCES.summed
    least = TOLERANCES.rooted

    @property
    def t(self) -> FloatArray:
        """Targets, (r, 1)."""
        return self.at.t

    def columns(self, indices: IndexArray) -> FloatArray:
        """Return some columns, shape (r, k)."""
        return self.at.roots(indices, self.unit)

    def along(self, rows: FloatArray) -> FloatArray:
        """Products of rows with all columns."""
        return self.at.along(rows, self.unit)
