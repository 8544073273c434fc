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
        scale: FloatArray,  # (M,) what columns are divided by in it
        drift: FloatArray,  # (M,) whose products with each other are added to it
    ) -> None:
        self.matrix, self.scale, self.drift = matrix, scale, drift

    def columns(self, some: IndexArray, unit: FloatArray) -> FloatArray:
        """Products of some columns with all, shape (k, M)."""
        inverse = unit * self.scale
        rows = self.matrix[some]
        if self.drift.any():
            rows += self.drift[some, None] * self.drift
        rows *= inverse
        rows *= inverse[some, None]
        return rows

    def block(self, some: IndexArray, unit: FloatArray) -> FloatArray:
        """Products of some columns with each other, shape (k, k)."""
        inverse, drift = (unit * self.scale)[some], self.drift[some]
        G = self.matrix[some[:, None], some]
        G += drift[:, None] * drift
        G *= inverse
        G *= inverse[:, None]
        return G

    def least_squares(self, unit: FloatArray) -> None:
        """The rows are gone."""

    def root(self, some: IndexArray, unit: FloatArray) -> None:
        """The rows are gone."""
