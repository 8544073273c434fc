"""How what depends on atoms, mode and curvature of latent functions changes with the atoms.

Columns are of unit norm and as in `latent_quadratic`: an atom in its own latent function, less a
shift in all of them that the intercepts take up. With variances held, the weights follow the mode,
dw = Sigma (dc'slope - c'B dc w), and B follows the latent functions.
"""

import numpy as np
from numpy.typing import NDArray

from sparsebayes.core.quadratic import AnyQuadratic
from sparsebayes.curvature_slope import curvature_slope
from sparsebayes.engine import State
from sparsebayes.laplace import Latent

FloatArray = NDArray[np.float64]

__all__ = ["Sensitivity", "inverse_norm"]


def inverse_norm(norm: FloatArray) -> FloatArray:
    """1 / norm, zero for an atom that has become void: nothing depends on it."""
    return np.divide(1.0, norm, out=np.zeros_like(norm), where=norm > 0)


class Sensitivity:
    """Active columns at a mode, and what moves with them.

    Parameters
    ----------
    latent : Latent
        Data and likelihood.
    quad : AnyQuadratic
        The expansion at the mode of the state's own variances.
    state : State
        Active columns, their variances and posterior.
    """

    def __init__(self, latent: Latent, quad: AnyQuadratic, state: State) -> None:
        self.latent, self.quad = latent, quad
        columns = quad.members(state.active)
        self.k, self.K = quad.latent(columns), quad.K
        self.atoms, self.which = np.unique(quad.atom(columns), return_inverse=True)
        rows = latent.design.columns(self.atoms)
        if quad.mean.any():
            rows -= quad.mean[self.atoms, None]
        self.scale = inverse_norm(quad.norm[columns])
        self.U = rows[self.which] * self.scale[:, None]  # (m, N)
        self.tilt = quad.tilt[self.atoms[self.which], self.k] * self.scale[:, None]  # (m, K)
        self.own = [np.flatnonzero(self.k == k) for k in range(self.K)]
        self.mu, self.Sigma = state.mu[:, 0], state.Sigma
        self.f = self.sums(self.mu, quad.offset)  # (N, K)
        _, self.slope, self.curvature = latent.expand(self.f)

    def sums(self, weights: FloatArray, constant: FloatArray | float = 0.0) -> FloatArray:
        """Sums of columns, and a constant: latent functions, (N, K)."""
        f = np.empty((self.U.shape[1], self.K))
        for k, own in enumerate(self.own):
            f[:, k] = weights[own] @ self.U[own]
        return np.asarray(f - weights @ self.tilt + constant)

    def products(self, g: FloatArray) -> FloatArray:
        """Inner products of all columns with g (..., N, K), shape (..., m)."""
        inner = np.empty((*g.shape[:-2], len(self.U)))
        for k, own in enumerate(self.own):
            inner[..., own] = g[..., k] @ self.U[own].T
        return np.asarray(inner - g.sum(axis=-2) @ self.tilt.T)

    def squares(self, weights: FloatArray, group: int) -> FloatArray:
        """Outer products of sums of columns with themselves, each ``group`` of them added.

        Parameters
        ----------
        weights : ndarray of shape (r group, m)
            Weights of the columns.
        group : int
            Rows of ``weights`` that are one atom's.

        Returns
        -------
        ndarray of shape (r, N, K, K)
            One matrix for each atom and sample.
        """
        f = np.stack([self._crossed(weights, k) for k in range(self.K)], axis=2)
        f = f.reshape(-1, group, *f.shape[1:])  # (r, group, N, K)
        return np.asarray(np.einsum("rgnk,rgnl->rnkl", f, f))

    def curvature_slopes(self, F: FloatArray) -> FloatArray:
        """Gradients in f, (r, N, K), of sums of F (r, N, K, K) times B, sample weights included."""
        r, n, K, _ = F.shape
        latent = self.latent
        if K == 1:  # proportional to F: one derivative for all
            slope = curvature_slope(latent.likelihood, latent.t, self.f, np.ones((n, 1, 1)))
            slopes = slope * F[..., 0]
        else:
            t, f = np.tile(latent.t, r), np.tile(self.f, (r, 1))
            slopes = curvature_slope(latent.likelihood, t, f, F.reshape(r * n, K, K))
            slopes = slopes.reshape(r, n, K)
        return slopes if latent.weights is None else slopes * latent.weights[:, None]

    def _crossed(self, inner: FloatArray, k: int) -> FloatArray:
        """Products of `inner` (r, m) with all columns in one latent function, (r, N)."""
        own = self.own[k]
        return np.asarray(inner[:, own] @ self.U[own] - (inner @ self.tilt[:, k])[:, None])

    def covariances(self, inner: FloatArray) -> FloatArray:
        """Sums of c_i inner_ij c_j' at each sample, (N, K, K)."""
        F = np.empty((len(self.f), self.K, self.K))
        for one in range(self.K):
            R = self._crossed(inner, one)
            F[:, :, one] = -(R.T @ self.tilt)
            for other, theirs in enumerate(self.own):
                F[:, other, one] += np.einsum("in,in->n", self.U[theirs], R[theirs])
        return F

    def pulled(
        self, inner: FloatArray, pull: FloatArray, covariance: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Derivative in the values of the columns of some number J at the mode.

        Parameters
        ----------
        inner : ndarray of shape (m, m)
            J changes by -tr(inner dH) / 2 with H = sum over samples of c'B c.
        pull : ndarray of shape (m,)
            Derivative of J in the weights.
        covariance : ndarray of shape (K, K) or None
            J also changes by -tr(covariance dB) / 2 at every sample.

        Returns
        -------
        D : ndarray of shape (m, N)
            The derivative, weights and curvature following the columns.
        answer : ndarray of shape (m,)
            Sigma times the derivative of J in the weights, the curvature following them.
        """
        B, k = self.curvature, self.k
        F, D = self.covariances(inner), np.zeros_like(self.U)
        if covariance is not None:
            F += covariance
        for one in range(self.K):
            D -= B[:, k, one].T * self._crossed(inner, one)
        (g,) = -0.5 * self.curvature_slopes(F[None])  # dJ / df by way of the curvature
        answer = self.Sigma @ (self.products(g) + pull)  # of the weights, to all that pulls at them
        shift = self.quad.intercepts.covariance @ g.sum(axis=0)
        rest = g - np.einsum("nkl,nl->nk", B, self.sums(answer, shift))
        D += self.slope.T[k] * answer[:, None] + rest.T[k] * self.mu[:, None]
        return D, np.asarray(answer)

    def by_atom(self, D: FloatArray) -> FloatArray:
        """Derivative in values of atoms as given, (N, atoms), from that in columns (m, N)."""
        total = np.zeros((len(self.atoms), D.shape[1]))
        np.add.at(total, self.which, D * self.scale[:, None])
        return np.ascontiguousarray(total.T)
