"""Quadratics of atoms at rows in memory: products with a design, in a metric of its rows."""

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from sparsebayes.core.expanded import expanded, projected
from sparsebayes.core.intercepts import Intercepts
from sparsebayes.core.quadratic import (
    AnyQuadratic,
    Columns,
    Later,
    LazyQuadratic,
    LeastSquares,
    Root,
    Targets,
    most_rooted,
    reduced,
)
from sparsebayes.core.sums import InCoordinates
from sparsebayes.core.tolerances import COLLINEAR, EPS, TOLERANCES
from sparsebayes.design import Design
from sparsebayes.low_rank import LowRankDesign
from sparsebayes.noise_priors import NoisePrior

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = [
    "AtRows",
    "Stored",
    "StoredLatent",
    "StoredQuadratic",
    "expanded_quadratic",
    "weighted_gram",
    "weighted_quadratic",
]


class Stored:
    """Products of atoms at rows, which count by their weights."""

    keep = True
    collinear = COLLINEAR

    def __init__(
        self,
        design: Design,
        weights: FloatArray | None,  # (N,)
        mean: FloatArray,  # (M,)
        t: FloatArray | None = None,  # (N, T) targets, times roots of weights, if they are kept
        rest: float = 0.0,  # squares of targets that no row has
        metric: FloatArray | None = None,  # (k, M) where rows and atoms have few coordinates
    ) -> None:
        self.design, self.weights, self.mean, self.t, self.rest = design, weights, mean, t, rest
        self.total = float(design.shape[0] if weights is None else weights.sum())
        self._few: InCoordinates | None = None
        self._is_few = metric is not None
        if isinstance(design, LowRankDesign):
            root = None if t is None else partial(_few_rows, design, weights, mean, t, rest)
            self._few = InCoordinates(design.B, design.B if metric is None else metric, root)

    def unit_atoms(self, some: IndexArray, unit: FloatArray) -> FloatArray:
        """Centered atoms of unit norm as rows, shape (k, N)."""
        atoms = self.design.columns(some)
        if self.mean.any():
            atoms -= self.mean[some, None]
        atoms *= unit[some, None]
        return atoms

    def columns(self, some: IndexArray, unit: FloatArray) -> FloatArray:
        """Products of some columns with all, shape (k, M)."""
        if self._few is not None and self._is_few:
            return self._few.columns(some, unit)
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
        if self._few is not None and self._is_few:
            return self._few.block(some, unit)
        N, M = self.design.shape
        step = max(1, TOLERANCES.chunk_cells // N)
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

    def least_squares(self, unit: FloatArray) -> LeastSquares | None:
        """Atoms and targets at the rows, or in the few coordinates that the rows have."""
        if self._few is not None:
            return self._few.least_squares(unit)
        return None if self.t is None else AtRows(self, unit, self.t)

    def root(self, some: IndexArray, unit: FloatArray) -> Later | None:
        """The root of some columns, where squares of them lose digits."""
        if self._few is not None:
            return self._few.root(some, unit)
        rows = self.least_squares(unit)
        if rows is None:
            return None

        def made(indices: IndexArray) -> Root:
            return reduced(Root(rows.columns(indices), rows.t, rows.rest, rows.error))

        return Later(made, some, most_rooted(self.design.shape[0]))


def _few_rows(
    design: LowRankDesign,
    weights: FloatArray | None,
    mean: FloatArray,
    t: FloatArray,
    rest: float,
) -> Root:
    """Coordinates of the rows and targets as a triangle."""
    A = design.A.T
    ones = np.ones(len(A)) if weights is None else weights
    if mean.any():
        A = A - (ones @ A) / ones.sum()
    k = A.shape[1]
    rows = np.concatenate([A * np.sqrt(ones)[:, None], t], axis=1)
    R = np.asarray(np.linalg.qr(rows, mode="r"))
    return Root(R[:k, :k], R[:k, k:], rest + float(np.square(R[k:, k:]).sum()), EPS)


@dataclass(frozen=True)
class AtRows:
    """Least squares of a design: columns are atoms at all rows, times roots of weights."""

    stored: Stored
    unit: FloatArray
    t: FloatArray  # (N, T) targets
    error = EPS
    least = TOLERANCES.told

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
    mean, norm, metric = _sizes(design, weights, center)
    drawn = design.correlate(np.ascontiguousarray(weighted.T))
    drawn -= weighted.sum(axis=0)[:, None] * mean
    return LazyQuadratic(
        Stored(design, weights, mean, rooted, targets.rest(noise_prior), metric),
        Columns(mean, norm, drawn.T, targets.offset(center)),
        targets.facts(center, noise_prior),
        Intercepts(np.full((1, 1, 1), total), center),
    )


class StoredLatent:
    """Products of atoms at rows in K latent functions; B_n, (K, K), is the metric of a row."""

    keep = True
    collinear = COLLINEAR

    def __init__(
        self,
        design: Design,
        curvature: FloatArray,  # (N, K, K)
        mean: FloatArray,  # (M,)
        C: FloatArray,  # (K, K) sum of the curvature
        cross: FloatArray,  # (M, K, K) sums of B (phi - mean)
        tilt: FloatArray,  # (M, K, K) what intercepts take off besides the means
        shared: bool,  # whether all columns of an atom are asked for together
    ) -> None:
        self.design, self.curvature, self.mean, self.C = design, curvature, mean, C
        self.cross, self.tilt, self.shared = cross, tilt, shared
        self.K = curvature.shape[1]

    def _shifted(self, atoms: IndexArray) -> FloatArray:
        """Atoms less their own means, as rows, shape (k, N)."""
        found = self.design.columns(atoms)
        if self.mean.any():
            found -= self.mean[atoms, None]
        return found

    def columns(self, some: IndexArray, unit: FloatArray) -> FloatArray:
        """Products of some columns with all, shape (k, M K)."""
        rows = self._by_atom(some[:: self.K] // self.K) if self.shared else self._by_column(some)
        rows *= unit
        rows *= unit[some, None]
        return rows

    def _by_column(self, some: IndexArray) -> FloatArray:
        (n, M), K = self.design.shape, self.K
        rows = np.empty((some.size, M * K))
        step = max(1, TOLERANCES.weighted_cells // (n * K))
        for start in range(0, some.size, step):
            a, k = np.divmod(some[start : start + step], K)
            B_k = self.curvature[:, :, k].transpose(2, 1, 0)  # (part, K, N)
            weighted = B_k * self._shifted(a)[:, None, :]
            if self.tilt.any():
                weighted -= np.einsum("nkl,pl->pkn", self.curvature, self.tilt[a, k])
            flat = np.ascontiguousarray(weighted).reshape(a.size * K, n)
            products = self.design.correlate(flat).reshape(a.size, K, M)
            # The sums are zero but for rounding, which a large mean would magnify.
            products -= weighted.sum(axis=2)[:, :, None] * self.mean
            rows[start : start + step] = products.transpose(0, 2, 1).reshape(a.size, M * K)
        return rows

    def _by_atom(self, atoms: IndexArray) -> FloatArray:
        """All K columns of each atom: B_kl = B_lk saves nearly half of the products."""
        (n, M), K = self.design.shape, self.K
        one, two = np.triu_indices(K)
        pairs = np.ascontiguousarray(self.curvature[:, one, two].T)  # (pairs, N)
        cross = self.cross.transpose(1, 0, 2).reshape(K, M * K)
        rows = np.empty((atoms.size, K, M, K))
        step = max(1, TOLERANCES.weighted_cells // pairs.size)
        for start in range(0, atoms.size, step):
            a = atoms[start : start + step]
            weighted = (self._shifted(a)[:, None, :] * pairs).reshape(-1, n)
            products = self.design.correlate(weighted)
            # Centered before the product: a large mean would magnify rounding.
            products -= np.outer(weighted.sum(axis=1), self.mean)
            products = products.reshape(a.size, one.size, M)
            part = rows[start : start + step]
            part[:, one, :, two] = part[:, two, :, one] = products.transpose(1, 0, 2)
            if self.tilt.any():  # less what the intercepts take up
                part -= (self.tilt[a].reshape(-1, K) @ cross).reshape(part.shape)
        return rows.reshape(atoms.size * K, M * K)

    def block(self, some: IndexArray, unit: FloatArray) -> FloatArray:
        """Products of some columns with each other, shape (k, k)."""
        (a, k), scale = np.divmod(some, self.K), unit[some, None]
        G = weighted_gram(self._shifted(a) * scale, k, self.curvature)
        if self.tilt.any():
            tilt = self.tilt[a, k] * scale
            G -= tilt @ self.C @ tilt.T
        return G

    def least_squares(self, unit: FloatArray) -> None:
        """Not used: squares are well enough."""

    def root(self, some: IndexArray, unit: FloatArray) -> None:
        """Not used: squares are well enough."""


def expanded_quadratic(
    design: Design,
    curvature: FloatArray,  # (N, K, K) B, sample weights included
    pull: FloatArray,  # (N, K) B f + slope: what the quadratic is drawn to, times B
    center: bool,
    shared: bool = False,
    value: float = 0.0,
) -> AnyQuadratic:
    """The quadratic of a likelihood around f, of which ``value`` depends on no weight."""
    intercepts, total = Intercepts(curvature, center), pull.sum(axis=0)
    K = len(total)
    mean, cross, squares, metric = _moments(design, curvature, intercepts.C, center, shared)
    drawn = design.correlate(np.ascontiguousarray(pull.T)).T - mean[:, None] * total
    sums = projected(intercepts, cross, squares, drawn, total)
    products: Stored | StoredLatent
    if K == 1:
        weights = np.ascontiguousarray(curvature[:, 0, 0])
        products = Stored(design, weights, mean, metric=metric)
    else:
        products = StoredLatent(design, curvature, mean, intercepts.C, cross, sums.tilt, shared)
    return expanded(products, intercepts, mean, sums, total, shared, value)


def _sizes(
    design: Design, weights: FloatArray | None, center: bool
) -> tuple[FloatArray, FloatArray, FloatArray | None]:
    """Means and norms of atoms, and the metric of coordinates if nothing is lost in them."""
    low = design.weighted(weights, center) if isinstance(design, LowRankDesign) else None
    if low is not None:
        return low.mean, np.sqrt(low.squares), low.metric
    found = design.moments(weights, center)
    return found.mean, found.norm, None


def _moments(
    design: Design, B: FloatArray, C: FloatArray, center: bool, shared: bool
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray | None]:
    """Means of atoms, sums of B_kl (phi - mean) and B_kl (phi - mean)^2 over samples."""
    M, K = design.shape[1], B.shape[1]
    cross, blocks = np.zeros((M, K, K)), np.zeros((M, K, K))
    if not B.any():  # every sample is saturated: no atom has a norm
        return np.zeros(M), cross, blocks, None
    if K == 1:
        mean, norm, metric = _sizes(design, np.ascontiguousarray(B[:, 0, 0]), center)
        with np.errstate(over="ignore", under="ignore"):
            blocks[:, 0, 0] = norm**2
        return mean, cross, blocks, metric
    one, two = np.triu_indices(K)
    same = one == two
    rows = np.ascontiguousarray(B[:, one, two].T)  # (pairs, N)
    needed = np.ones(one.size, dtype=np.bool_) if shared else same
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        second = design.squares(rows[needed]).T
    mean = np.zeros(M)
    if center:
        total = C[one, two]
        first = design.correlate(rows).T
        mean = first[:, same].sum(axis=1) / max(float(total[same].sum()), TOLERANCES.no_curvature)
        plain = second.copy()
        second -= mean[:, None] * (2 * first[:, needed] - mean[:, None] * total[needed])
        first -= mean[:, None] * total
        lossy = np.flatnonzero(
            (second < TOLERANCES.cancellation * plain)[:, same[needed]].any(axis=1)
        )
        step = max(1, TOLERANCES.weighted_cells // len(B))
        for start in range(0, lossy.size, step):
            part = lossy[start : start + step]
            shifted = design.columns(part) - mean[part, None]
            first[part] = shifted @ rows.T
            second[part] = (shifted * shifted) @ rows[needed].T
        cross[:, one, two] = cross[:, two, one] = first
    blocks[:, one[needed], two[needed]] = second
    blocks[:, two[needed], one[needed]] = second
    return mean, cross, blocks, None


def weighted_gram(
    rows: FloatArray,  # (m, N)
    latent: IndexArray,  # (m,)
    curvature: FloatArray,  # (N, K, K)
) -> FloatArray:
    """Sums over samples of rows_i B_kl rows_j, k and l the latent functions of i and j."""
    if curvature.shape[1] == 1:  # a product with its own transpose is half the work
        half = rows * np.sqrt(curvature[:, 0, 0])
        return np.asarray(half @ half.T)
    G = np.empty((len(rows), len(rows)))
    by_pair = np.ascontiguousarray(curvature.transpose(1, 2, 0))  # (K, K, N)
    for k in np.unique(latent):
        own, later = np.flatnonzero(latent == k), np.flatnonzero(latent >= k)
        block = rows[own] @ (rows[later] * by_pair[k, latent[later]]).T
        G[own[:, None], later] = block
        G[later[:, None], own] = block.T
    return G
