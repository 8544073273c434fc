"""Quadratics of atoms at rows in memory: products with a design, in a metric of its rows."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparsebayes.core.intercepts import Intercepts
from sparsebayes.core.quadratic import (
    COLLINEAR,
    EPS,
    TOLD,
    Columns,
    Later,
    LazyQuadratic,
    LeastSquares,
    Root,
    Targets,
    most_rooted,
    reduced,
)
from sparsebayes.design import Design
from sparsebayes.low_rank import LowRankDesign
from sparsebayes.noise_priors import NoisePrior

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = ["AtRows", "Stored", "StoredQuadratic", "weighted_quadratic"]

_CHUNK_CELLS = 2**25  # entries of atoms that are held at a time: 256 megabytes


class Stored:
    """Products of atoms at rows, which count by their weights."""

    keep = True
    collinear = COLLINEAR

    def __init__(
        self,
        design: Design,
        weights: FloatArray | None,  # (N,)
        mean: FloatArray,  # (M,)
        t: FloatArray,  # (N, T) targets, times roots of weights
        rest: float,  # squares of targets that no row has
    ) -> None:
        self.design, self.weights, self.mean, self.t, self.rest = design, weights, mean, t, rest
        self.total = float(design.shape[0] if weights is None else weights.sum())
        self._coordinates: Root | None = None

    def unit_atoms(self, some: IndexArray, unit: FloatArray) -> FloatArray:
        """Centered atoms of unit norm as rows, shape (k, N)."""
        atoms = self.design.columns(some)
        if self.mean.any():
            atoms -= self.mean[some, None]
        atoms *= unit[some, None]
        return atoms

    def columns(self, some: IndexArray, unit: FloatArray) -> FloatArray:
        """Products of some columns with all, shape (k, M)."""
        atoms = self.unit_atoms(some, unit)
        if self.weights is not None:
            atoms *= self.weights
        # Phi' W (phi_j - mean_j) needs no centering of Phi: the weighted sum of the row is zero.
        rows = self.design.correlate(atoms)
        # ... but for the rounding of that sum, which a large mean would magnify.
        rows -= atoms.sum(axis=1)[:, None] * self.mean
        rows *= unit
        return rows

    def block(self, some: IndexArray, unit: FloatArray) -> FloatArray:
        """Products of some columns with each other, shape (k, k)."""
        N, M = self.design.shape
        step = max(1, _CHUNK_CELLS // N)
        if some.size <= step or 2 * some.size < M:
            half = self.unit_atoms(some, unit)
            if self.weights is not None:
                half *= np.sqrt(self.weights)
            return np.asarray(half @ half.T)
        # Most atoms of few, at many rows: whole columns of G cost no more, and need not be held.
        G = np.empty((some.size, some.size))
        for start in range(0, some.size, step):
            part = slice(start, start + step)
            G[part] = self.columns(some[part], unit)[:, some]
        return 0.5 * (G + G.T)

    def least_squares(self, unit: FloatArray) -> LeastSquares:
        """Atoms and targets at the rows, or in the few coordinates that the rows have."""
        if not isinstance(self.design, LowRankDesign):
            return AtRows(self, unit)
        if self._coordinates is None:
            self._coordinates = self._in_coordinates(self.design, unit)
        return self._coordinates

    def _in_coordinates(self, design: LowRankDesign, unit: FloatArray) -> Root:
        A = design.A.T
        ones = np.ones(len(A)) if self.weights is None else self.weights
        if self.mean.any():
            A = A - (ones @ A) / self.total
        basis, R = np.linalg.qr(A * np.sqrt(ones)[:, None])
        t = basis.T @ self.t
        left = self.t - basis @ t
        return Root((R @ design.B) * unit, t, self.rest + float(np.vdot(left, left)), EPS)

    def root(self, some: IndexArray, unit: FloatArray) -> Later:
        """The root of some columns, where squares of them lose digits."""

        def made(indices: IndexArray) -> Root:
            rows = self.least_squares(unit)
            return reduced(Root(rows.columns(indices), rows.t, rows.rest, rows.error))

        return Later(made, some, most_rooted(self.design.shape[0]))


@dataclass(frozen=True)
class AtRows:
    """Least squares of a design: columns are atoms at all rows, times roots of weights."""

    stored: Stored
    unit: FloatArray
    error = EPS
    least = TOLD

    @property
    def t(self) -> FloatArray:
        """Targets, (N, T)."""
        return self.stored.t

    @property
    def rest(self) -> float:
        """Squares of targets that no column reaches: those of a prior of the noise."""
        return self.stored.rest

    def columns(self, indices: IndexArray) -> FloatArray:
        """Return some columns, shape (N, k)."""
        stored, weights = self.stored, self.stored.weights
        atoms = stored.unit_atoms(indices, self.unit)
        if stored.mean.any():  # the rounding of a mean that is large beside what varies about it
            shares = np.full(atoms.shape[1], 1.0) if weights is None else weights
            atoms -= (atoms @ (shares / stored.total))[:, None]
        if weights is not None:
            atoms *= np.sqrt(weights)
        return np.asarray(atoms.T)

    def along(self, rows: FloatArray) -> FloatArray:
        """Products of rows, shape (k, N), with all columns, shape (k, M)."""
        stored = self.stored
        rows = rows if stored.weights is None else rows * np.sqrt(stored.weights)
        found = stored.design.correlate(np.ascontiguousarray(rows))
        if stored.mean.any():
            found -= rows.sum(axis=1)[:, None] * stored.mean
        found *= self.unit
        return found


StoredQuadratic = LazyQuadratic[Stored]


def weighted_quadratic(
    design: Design,
    t: FloatArray,  # (N, T)
    weights: FloatArray | None = None,  # (N,)
    center: bool = False,
    noise_prior: NoisePrior | None = None,
) -> StoredQuadratic:
    """The quadratic of Gaussian noise; a weight of two equals a row given twice."""
    total = float(design.shape[0] if weights is None else weights.sum())
    shares = t if weights is None else t * weights[:, None]
    average = shares.sum(axis=0) / total
    residual = t - average if center else t
    weighted = residual if weights is None else residual * weights[:, None]
    rooted = residual if weights is None else residual * np.sqrt(weights)[:, None]
    targets = Targets(total, average, float(np.einsum("ij,ij->", weighted, residual)))
    moments = design.moments(weights, center)
    mean = moments.mean
    drawn = design.correlate(np.ascontiguousarray(weighted.T))
    drawn -= weighted.sum(axis=0)[:, None] * mean
    return LazyQuadratic(
        Stored(design, weights, mean, rooted, targets.rest(noise_prior)),
        Columns(mean, moments.norm, drawn.T, targets.offset(center)),
        targets.facts(center, noise_prior),
        Intercepts(np.full((1, 1, 1), total), center),
    )
