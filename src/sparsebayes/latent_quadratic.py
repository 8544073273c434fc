"""The quadratic of any likelihood around its mode, for one or several latent functions.

A column is an atom in one latent function: ``phi_a(x) e_k``, numbered ``a K + k``. With B_n the
curvature of the likelihood at sample n, ``G_ij = sum_n c_i(x_n)' B_n c_j(x_n)``. Intercepts with a
flat prior are projected out: ``c_i(x) = phi_a(x) e_k - mu_i``, ``mu_i = C^+ sum_n B_n e_k phi_a``,
``C = sum_n B_n``; C is singular where the likelihood does not change with a shift of all latents.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsebayes.core.intercepts import NO_CURVATURE, Intercepts
from sparsebayes.core.quadratic import COLLINEAR, ColumnCache, Gram, LeastSquares, Root, members
from sparsebayes.design import Design
from sparsebayes.low_rank import LowRankDesign

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = [
    "ColumnMoments",
    "LatentColumns",
    "LatentQuadratic",
    "weighted_gram",
]

_CHUNK_CELLS = 2**23  # entries of weighted columns made at a time: 64 megabytes
_CANCELLATION = 1e-3  # a difference of sums below this fraction of them is summed afresh
_SMALLEST, _LARGEST = 1e-280, 1e280  # squared norms that float64 can compute with
_ROUNDING = 1e-13  # and below this one it is nothing but rounding


class ColumnMoments(NamedTuple):
    """Sums over samples from which a quadratic is made, for M atoms and K latent functions."""

    intercepts: Intercepts
    mean: FloatArray  # (M,) of atoms
    cross: FloatArray  # (M, K, K) of B (phi - mean)
    blocks: FloatArray  # (M, K, K) of B (phi - mean)^2; only the diagonal where none is shared
    drawn: FloatArray  # (M, K) of (phi - mean) times the pull
    total: FloatArray  # (K,) of the pull


class LatentColumns:
    """What quadratics of latent functions have in common, wherever their sums come from.

    Parameters
    ----------
    moments : ColumnMoments
        The sums.
    center : bool
        Whether intercepts are projected out.
    shared : bool, default=False
        Whether the K columns of an atom share their variance; then they share their scale.
    log_offset : float, default=0.0
        Log evidence that depends on no variance.
    """

    tt = 0.0
    n = 0.0
    spread = 1.0
    collinear = COLLINEAR

    def __init__(
        self, moments: ColumnMoments, center: bool, shared: bool = False, log_offset: float = 0.0
    ) -> None:
        self.center = center
        self.log_offset = log_offset
        self.intercepts, self.mean, cross, blocks, drawn, total = moments
        self.cross = cross
        self.K = K = len(total)
        self.group = K if shared else 1
        self.tilt = cross @ self.intercepts.covariance  # (M, K, K): mu_i less the mean
        own = blocks.diagonal(axis1=1, axis2=2)  # (M, K)
        if center and cross.any():
            left = own - np.einsum("akl,akl->ak", cross, self.tilt)
            own = np.where(left > _ROUNDING * own, left, 0.0)
        _check_range(own)
        scale = np.sqrt(own.mean(axis=1, keepdims=True) if shared else own)
        self.norm = np.broadcast_to(scale, own.shape).ravel()  # (M K,)
        void = self.norm == 0
        self._inverse_norm = np.where(void, 0.0, 1.0 / np.where(void, 1.0, self.norm))
        self.diag = np.where(void, 0.0, 1.0)
        self.blocks = self.diag[:, None, None]  # of G, for each atom as a solver counts them
        if shared:
            self.diag = own.ravel() * self._inverse_norm**2
            if center:
                blocks = blocks - self.tilt @ cross.transpose(0, 2, 1)
            by_atom = self._inverse_norm[::K] ** 2
            self.blocks = blocks * by_atom[:, None, None]
        drawn = drawn - self.tilt @ total
        self.g = (drawn.ravel() * self._inverse_norm)[:, None]
        self.offset = self.intercepts.covariance @ total  # (K,)
        self.cache = ColumnCache(len(self.mean) * K)

    @property
    def size(self) -> int:
        """Number of atoms as a solver counts them: M K columns, or M where variances are shared."""
        return len(self.mean) * self.K // self.group

    def members(self, indices: IndexArray) -> IndexArray:
        """Columns of atoms as a solver counts them."""
        return members(indices, self.group)

    def atom(self, columns: IndexArray) -> IndexArray:
        """Atoms of columns."""
        return np.asarray(columns // self.K)

    def latent(self, columns: IndexArray) -> IndexArray:
        """Latent functions of columns."""
        return np.asarray(columns % self.K)

    def centers(self, columns: IndexArray) -> FloatArray:
        """mu_i of columns, shape (k, K)."""
        a, k = self.atom(columns), self.latent(columns)
        mu = self.tilt[a, k].copy()
        mu[np.arange(columns.size), k] += self.mean[a]
        return mu

    def columns(self, indices: IndexArray) -> FloatArray:
        """Return columns of G as rows, shape (k, M K), computing only those not seen before."""
        return self.cache.columns(self.members(indices), self._compute)

    def gram(self, indices: IndexArray) -> Gram:
        """Return the quadratic of some columns alone; whole columns of G are used where kept."""
        indices = self.members(indices)
        G, new = self.cache.block(indices)
        if new.size:
            G[new[:, None], new] = self._block(indices[new])
        G.flat[:: indices.size + 1] = self.diag[indices]
        offset, root = self.log_offset, self._root(indices)
        return Gram(G, self.g[indices], self.tt, self.n, self.spread, offset, self.group, root)

    def least_squares(self) -> LeastSquares | None:
        """What this is the square of, where that is known."""
        return None

    def _compute(self, fresh: IndexArray) -> FloatArray:
        """Columns of G as rows, shape (k, M K)."""
        raise NotImplementedError

    def _block(self, indices: IndexArray) -> FloatArray:
        """G of some columns alone."""
        raise NotImplementedError

    def _root(self, indices: IndexArray) -> Root | None:
        """What G of some columns is the square of, where it is known."""
        return None


class LatentQuadratic(LatentColumns):
    """Quadratic of a likelihood at given curvature and pull, on every column of a design.

    Parameters
    ----------
    design : Design
        Atoms evaluated at the data.
    curvature : ndarray of shape (N, K, K)
        B, sample weights included.
    pull : ndarray of shape (N, K)
        B f + slope: what the quadratic is drawn to, times B.
    center : bool
        Whether intercepts are projected out.
    shared : bool, default=False
        Whether the K columns of an atom share their variance; then they share their scale.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.design import ArrayDesign
    >>> design = ArrayDesign(np.array([[1.0, 0.0], [1.0, 2.0], [1.0, 4.0]]))
    >>> B, pull = np.full((3, 1, 1), 0.25), np.array([[-0.5], [0.5], [0.5]])
    >>> quad = LatentQuadratic(design, B, pull, center=True)
    >>> quad.diag, quad.norm.round(3)
    (array([0., 1.]), array([0.   , 1.414]))
    """

    def __init__(
        self,
        design: Design,
        curvature: FloatArray,
        pull: FloatArray,
        center: bool,
        shared: bool = False,
    ) -> None:
        self.design = design
        self.curvature = curvature
        intercepts = Intercepts(curvature, center)
        total = pull.sum(axis=0)
        self._products = None
        if isinstance(design, LowRankDesign) and len(total) == 1:
            self._products = design.weighted(curvature[:, 0, 0], center)
        if self._products is None:
            mean, cross, blocks = _moments(design, curvature, intercepts.C, center, shared)
            drawn = design.correlate(np.ascontiguousarray(pull.T)).T - mean[:, None] * total
        else:
            mean, cross = self._products.mean, np.zeros((design.shape[1], 1, 1))
            blocks = self._products.squares[:, None, None]
            drawn = self._products.correlate(pull[:, 0])[:, None]
        moments = ColumnMoments(intercepts, mean, cross, blocks, drawn, total)
        super().__init__(moments, center, shared)

    def _shifted(self, indices: IndexArray) -> FloatArray:
        """Atoms less their own means, as rows, shape (k, N)."""
        a = self.atom(indices)
        atoms = self.design.columns(a)
        if self.center:
            atoms -= self.mean[a, None]
        return atoms

    def _compute(self, fresh: IndexArray) -> FloatArray:
        n, M, K = len(self.curvature), self.design.shape[1], self.K
        if self._products is not None:
            rows = self._products.columns(fresh) * self._inverse_norm
            rows *= self._inverse_norm[fresh, None]
            rows[np.arange(fresh.size), fresh] = self.diag[fresh]
            return rows
        if self.group > 1:
            return self._compute_groups(self.atom(fresh[::K]))
        rows = np.empty((fresh.size, M * K))
        step = max(1, _CHUNK_CELLS // (n * K))
        for start in range(0, fresh.size, step):
            part = fresh[start : start + step]
            k = self.latent(part)
            B_k = self.curvature[:, :, k].transpose(2, 1, 0)  # (part, K, N)
            weighted = B_k * self._shifted(part)[:, None, :]
            if K > 1 and self.center:
                tilt = self.tilt[self.atom(part), k]  # (part, K)
                weighted -= np.einsum("nkl,pl->pkn", self.curvature, tilt)
            weighted *= self._inverse_norm[part][:, None, None]
            flat = np.ascontiguousarray(weighted).reshape(part.size * K, n)
            products = self.design.correlate(flat).reshape(part.size, K, M)
            # The sums are zero but for rounding, which a large mean would magnify.
            products -= weighted.sum(axis=2)[:, :, None] * self.mean
            rows[start : start + step] = products.transpose(0, 2, 1).reshape(part.size, M * K)
        rows *= self._inverse_norm
        rows[np.arange(fresh.size), fresh] = self.diag[fresh]
        return rows

    def _compute_groups(self, atoms: IndexArray) -> FloatArray:
        """All K columns of each atom: B_kl = B_lk saves nearly half of the products."""
        n, M, K = len(self.curvature), self.design.shape[1], self.K
        one, two = np.triu_indices(K)
        pairs = np.ascontiguousarray(self.curvature[:, one, two].T)  # (pairs, N)
        cross = self.cross.transpose(1, 0, 2).reshape(K, M * K)
        rows = np.empty((atoms.size, K, M, K))
        step = max(1, _CHUNK_CELLS // pairs.size)
        for start in range(0, atoms.size, step):
            a = atoms[start : start + step]
            weighted = (self._shifted(a * K)[:, None, :] * pairs).reshape(-1, n)
            products = self.design.correlate(weighted)
            # As in `_compute`: a large mean would magnify rounding.
            products -= np.outer(weighted.sum(axis=1), self.mean)
            products = products.reshape(a.size, one.size, M)
            part = rows[start : start + step]
            part[:, one, :, two] = part[:, two, :, one] = products.transpose(1, 0, 2)
            if self.center:  # less mu_i, which the intercepts take up
                part -= (self.tilt[a].reshape(-1, K) @ cross).reshape(part.shape)
        found = rows.reshape(atoms.size * K, M * K)
        columns = members(atoms, K)
        found *= self._inverse_norm
        found *= self._inverse_norm[columns, None]
        found[np.arange(columns.size), columns] = self.diag[columns]
        return found

    def _block(self, indices: IndexArray) -> FloatArray:
        a, latent = self.atom(indices), self.latent(indices)
        scale = self._inverse_norm[indices][:, None]
        if self._products is not None:
            return np.asarray(self._products.block(indices) * (scale * scale.T))
        G = weighted_gram(self._shifted(indices) * scale, latent, self.curvature)
        if self.center and self.K > 1:
            tilt = self.tilt[a, latent] * scale
            G -= tilt @ self.intercepts.C @ tilt.T
        return G


def _moments(
    design: Design, B: FloatArray, C: FloatArray, center: bool, shared: bool
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Means of atoms, and sums of B_kl (phi - mean) and B_kl (phi - mean)^2 over samples."""
    M, K = design.shape[1], B.shape[1]
    cross, blocks = np.zeros((M, K, K)), np.zeros((M, K, K))
    if not B.any():  # every sample is saturated: no atom has a norm
        return np.zeros(M), cross, blocks
    if K == 1:
        own = design.moments(np.ascontiguousarray(B[:, 0, 0]), center)
        with np.errstate(over="ignore", under="ignore"):
            blocks[:, 0, 0] = own.norm**2
        return own.mean, cross, blocks
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
        mean = first[:, same].sum(axis=1) / max(float(total[same].sum()), NO_CURVATURE)
        plain = second.copy()
        second -= mean[:, None] * (2 * first[:, needed] - mean[:, None] * total[needed])
        first -= mean[:, None] * total
        lossy = np.flatnonzero((second < _CANCELLATION * plain)[:, same[needed]].any(axis=1))
        step = max(1, _CHUNK_CELLS // len(B))
        for start in range(0, lossy.size, step):
            part = lossy[start : start + step]
            shifted = design.columns(part) - mean[part, None]
            first[part] = shifted @ rows.T
            second[part] = (shifted * shifted) @ rows[needed].T
        cross[:, one, two] = cross[:, two, one] = first
    blocks[:, one[needed], two[needed]] = second
    blocks[:, two[needed], one[needed]] = second
    return mean, cross, blocks


def weighted_gram(rows: FloatArray, latent: IndexArray, curvature: FloatArray) -> FloatArray:
    """Sums over samples of rows_i B_kl rows_j, k and l the latent functions of i and j.

    Parameters
    ----------
    rows : ndarray of shape (m, N)
        Atoms at the samples.
    latent : ndarray of shape (m,)
        Latent function of each.
    curvature : ndarray of shape (N, K, K)
        B.

    Returns
    -------
    ndarray of shape (m, m)
        Symmetric.

    Examples
    --------
    >>> import numpy as np
    >>> B = np.array([[[2.0, -1.0], [-1.0, 2.0]]])
    >>> weighted_gram(np.array([[1.0], [3.0]]), np.array([0, 1]), B)
    array([[ 2., -3.],
           [-3., 18.]])
    """
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


def _check_range(squares: FloatArray) -> None:
    present = squares != 0
    if not ((squares >= _SMALLEST) & (squares <= _LARGEST) | ~present).all():
        raise ValueError(
            "the atoms have values whose squares leave the range of float64: give X in other units."
        )
