"""Products that were all summed: what a quadratic needs is a part of a matrix."""

import numpy as np
from numpy.typing import NDArray

from sparsebayes.core.quadratic import COLLINEAR

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = ["Known"]


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
