"""The quadratic of a likelihood around a place, of sums in coordinates that are not collinear.

With P the curvature of all samples in coordinates u, intercepts projected out, and F'F = P, atoms
``u'A`` are the columns of the small design ``D = F A``: the quadratic is that of least squares with
these columns. What is lost in G = D'D where weights almost cancel is still there in D, and the
engine takes it from there (`quadratic.LeastSquares`).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparsebayes.active_quadratic import log_offset_at, total_pull
from sparsebayes.core.intercepts import Intercepts
from sparsebayes.core.quadratic import ROOTED, SUMMED, Root
from sparsebayes.core.roots import rooted
from sparsebayes.latent_quadratic import ColumnMoments, LatentColumns
from sparsebayes.mode_search import Normal
from sparsebayes.rows.latent import Functions, LookSums

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = ["SpannedQuadratic"]

_NO_CURVATURE = 1e-300
_CONSTANT = (8 * float(np.finfo(float).eps)) ** 2  # of its square: what is left of a constant atom


class SpannedQuadratic(LatentColumns):
    """Quadratic of a likelihood of K latent functions around a place, whose root is known.

    Parameters
    ----------
    sums : LookSums
        Sums at the place, of all columns of q coordinates.
    place : Functions
        The latent functions there, in these coordinates.
    A : ndarray of shape (q, M)
        The atoms, less their references, in these coordinates; zero for those that are void.
    reference : ndarray of shape (M,)
        References of the atoms.
    center : bool
        Whether intercepts are projected out.
    shared : bool
        Whether the K columns of an atom share their variance.
    n : int
        About how many samples there are.
    clip : bool, default=False
        Whether directions of negative curvature are left out, be it rounding or that of a sample
        that stands for all samples; else they raise `Breakdown`.
    """

    collinear = ROOTED

    def __init__(
        self,
        sums: LookSums,
        place: Functions,
        A: FloatArray,
        reference: FloatArray,
        center: bool,
        shared: bool,
        n: int,
        clip: bool = False,
    ) -> None:
        self.sums, self.place, self.reference = sums, place, reference
        (q, M), K = A.shape, len(place.c)
        intercepts = Intercepts(sums.C[None], center)
        C, covariance = intercepts.C, intercepts.covariance
        theta = place.weights.ravel()
        normal = Normal(sums.gradient, sums.pull, sums.gram, sums.cross, sums.C[None])
        total = total_pull(normal, (theta, place.c), C)
        drawn = sums.gradient + sums.gram @ theta + sums.cross @ place.c
        projected = sums.gram - sums.cross @ covariance @ sums.cross.T
        self._F, t = rooted(projected, drawn - sums.cross @ (covariance @ total), clip)
        self._t = t[:, None]
        self.A = A
        cross = np.tensordot(A, sums.cross.reshape(q, K, K), (0, 0))
        shift = np.zeros(M)
        if center:
            shift = np.einsum("akk->a", cross) / max(float(C.trace()), _NO_CURVATURE)
        off = cross - shift[:, None, None] * C
        if K == 1 and center:
            off = np.zeros_like(cross)  # but for rounding
        blocks = self._squares(shared)
        raw = self._raw(cross, reference, C)
        constant = (np.einsum("akk->ak", blocks) <= _CONSTANT * n * raw).all(axis=1) & center
        blocks += off @ covariance @ off.transpose(0, 2, 1) if K > 1 and center else 0.0
        blocks, off = (np.where(constant[:, None, None], 0.0, found) for found in (blocks, off))
        pulled = A.T @ drawn.reshape(q, K) - shift[:, None] * total
        moments = ColumnMoments(intercepts, reference + shift, off, blocks, pulled, total)
        log_offset = log_offset_at(normal, (theta, place.c), sums.value, intercepts)
        super().__init__(moments, center, shared, log_offset)
        for k in range(K):  # the same, of what G is made of
            self.g[k::K, 0] = A.T @ (self._F[:, k::K].T @ self._t[:, 0])
        self.g *= self._inverse_norm[:, None]

    def _squares(self, pairs: bool) -> FloatArray:
        """Products of the columns of each atom with each other, (M, K, K)."""
        F, A = self._F, self.A
        M, K = A.shape[1], len(self.place.c)
        found = np.zeros((M, K, K))
        for k in range(K):
            own = F[:, k::K] @ A
            found[:, k, k] = np.einsum("qm,qm->m", own, own)
            for other in range(k + 1, K if pairs else k):
                products = np.einsum("qm,qm->m", own, F[:, other::K] @ A)
                found[:, k, other] = found[:, other, k] = products
        return found

    def _raw(self, cross: FloatArray, reference: FloatArray, C: FloatArray) -> FloatArray:
        """Sums of B phi^2 for atoms as given, (M, K)."""
        A, K = self.A, len(C)
        raw = np.empty((A.shape[1], K))
        for k in range(K):
            raw[:, k] = np.einsum("qm,qm->m", A, self.sums.gram[k::K, k::K] @ A)
            raw[:, k] += reference * (2.0 * cross[:, k, k] + reference * C[k, k])
        return raw

    def _columns(self, indices: IndexArray) -> FloatArray:
        """Columns of D, of unit norm, (k, p)."""
        found = np.empty((len(self._F), indices.size))
        for k in range(self.K):
            mine = np.flatnonzero(indices % self.K == k)
            found[:, mine] = self._F[:, k :: self.K] @ self.A[:, indices[mine] // self.K]
        return found * self._inverse_norm[indices]

    def _compute(self, fresh: IndexArray) -> FloatArray:
        rows = self.along(self._columns(fresh).T)
        rows[np.arange(fresh.size), fresh] = self.diag[fresh]
        return rows

    def _block(self, indices: IndexArray) -> FloatArray:
        D = self._columns(indices)
        return np.asarray(D.T @ D)

    def least_squares(self) -> "_Turned":
        """What this is the square of."""
        return _Turned(self)

    def along(self, rows: FloatArray) -> FloatArray:
        """Products of rows, shape (p, k), with all columns of D, shape (p, M K)."""
        left, found = rows @ self._F, np.empty((len(rows), len(self.g)))
        for k in range(self.K):
            found[:, k :: self.K] = left[:, k :: self.K] @ self.A
        return found * self._inverse_norm

    def _root(self, indices: IndexArray) -> Root:
        return Root(self._columns(indices), self._t)


@dataclass(frozen=True)
class _Turned:
    """The small design D of a quadratic."""

    quad: SpannedQuadratic
    rest = None
    error = SUMMED
    least = ROOTED

    @property
    def t(self) -> FloatArray:
        """Targets, (q, 1)."""
        return self.quad._t

    def columns(self, indices: IndexArray) -> FloatArray:
        """Return some columns, shape (q, k)."""
        return self.quad._columns(indices)

    def along(self, rows: FloatArray) -> FloatArray:
        """Products of rows with all columns."""
        return self.quad.along(rows)
