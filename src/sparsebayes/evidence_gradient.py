"""Derivative of the objective in the values of the active atoms (Tipping 2001, appendix C).

What is differentiated is the log evidence plus the log hyperprior, with active atoms, noise and
variances of the weights held still; of weights of atoms as given, whose scale is part of what is
differentiated. The derivative in the parameters of the atoms is `Tunable.pullback` of the result.
"""

import numpy as np
from numpy.typing import NDArray

from sparsebayes.curvature_slope import curvature_slope
from sparsebayes.engine import State, per_column
from sparsebayes.hyperpriors import Hyperprior
from sparsebayes.laplace import Latent
from sparsebayes.latent_quadratic import LatentQuadratic
from sparsebayes.quadratic import DesignQuadratic

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = ["gaussian_gradient", "latent_gradient"]


def gaussian_gradient(
    quad: DesignQuadratic, state: State, hyperprior: Hyperprior, t: FloatArray
) -> FloatArray:
    """Derivative of the objective of Gaussian noise in the active atoms.

    Parameters
    ----------
    quad : DesignQuadratic
        Atoms at the data; only the active ones are evaluated.
    state : State
        Active atoms, their variances, noise and posterior, any point of a fit.
    hyperprior : Hyperprior
        Prior of the variances; it sees those of atoms of unit norm, which change with the atoms.
    t : ndarray of shape (N, T)
        Targets, as the quadratic was made of.

    Returns
    -------
    ndarray of shape (N, m)
        Derivative in each value of each active atom, as given: neither centered nor normalized.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.design import ArrayDesign
    >>> from sparsebayes.engine import refresh
    >>> from sparsebayes.hyperpriors import Flat
    >>> t = np.array([[1.0], [3.0]])
    >>> quad = DesignQuadratic(ArrayDesign(np.array([[1.0], [1.0]])), t)
    >>> state = refresh(quad, Flat(), np.array([0]), np.array([2.0]), noise_var=1.0)
    >>> gaussian_gradient(quad, state, Flat(), t).round(3)
    array([[-0.778],
           [ 1.889]])
    """
    atoms = quad.unit_atoms(state.active)  # (m, N)
    mu, n_targets = state.mu, t.shape[1]
    residual = t - quad.offset - atoms.T @ mu
    # 2001 eqs. 36 to 38, for atoms that are centered and of unit norm.
    D = residual @ mu.T - n_targets * (atoms.T @ state.Sigma)
    D /= state.noise_var
    D += 2.0 * hyperprior.log_derivatives(state.v, state.noise_var).u * atoms.T
    # In raw values the centering drops out: what is weighted sums to zero already.
    D *= _inverse(quad.norm[state.active])
    if quad.weights is not None:
        D *= quad.weights[:, None]
    return np.asarray(D)


def latent_gradient(
    latent: Latent, quad: LatentQuadratic, state: State, hyperprior: Hyperprior
) -> tuple[IndexArray, FloatArray]:
    """Derivative of Laplace's objective in the active atoms, the mode following them.

    Parameters
    ----------
    latent : Latent
        Data and likelihood.
    quad : LatentQuadratic
        The expansion at the mode of the state's own variances, as a solver returns it.
    state : State
        Active columns, their variances and posterior, on that expansion.
    hyperprior : Hyperprior
        Prior of the variances; it sees those of columns of unit norm, which change with the atoms
        and, as norms are weighted by the curvature, with the mode.

    Returns
    -------
    atoms : ndarray of shape (m,)
        Active atoms, ascending; each may have columns in several latent functions.
    D : ndarray of shape (N, m)
        Derivative in each value of each of them, as given: neither centered nor normalized.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.design import ArrayDesign
    >>> from sparsebayes.hyperpriors import Flat
    >>> from sparsebayes.likelihoods import Bernoulli
    >>> from sparsebayes.solvers.expansion import Point, expand
    >>> design = ArrayDesign(np.array([[1.0], [2.0]]))
    >>> latent = Latent(design, np.array([1.0, 1.0]), None, Bernoulli(), center=False)
    >>> at = expand(latent, Flat(), Point(np.array([0]), np.array([4.0])))
    >>> atoms, D = latent_gradient(latent, at.quad, at.state, Flat())
    >>> atoms, D.round(3)
    (array([0]), array([[0.118],
           [0.059]]))
    """
    columns = quad.members(state.active)
    k, K, B = quad.latent(columns), quad.K, quad.curvature
    atoms, which = np.unique(quad.atom(columns), return_inverse=True)
    rows = latent.design.columns(atoms)
    if quad.center:
        rows -= quad.mean[atoms, None]
    scale = _inverse(quad.norm[columns])
    U = rows[which] * scale[:, None]  # (m, N)
    tilt = quad.tilt[atoms[which], k] * scale[:, None]  # (m, K)
    mine = [np.flatnonzero(k == one) for one in range(K)]
    mu, Sigma = state.mu[:, 0], state.Sigma

    def latents(weights: FloatArray, constant: FloatArray) -> FloatArray:
        """Sums of columns, which are U in their own latent function less a tilt in all."""
        f = np.empty((U.shape[1], K))
        for one, own in enumerate(mine):
            f[:, one] = weights[own] @ U[own]
        return f - weights @ tilt + constant

    f = latents(mu, quad.offset)
    slope = latent.expand(f).slope
    # The hyperprior's u d log |c|^2 is of the form of the determinant's -tr(Sigma dH) / 2.
    u = np.broadcast_to(hyperprior.log_derivatives(state.v, state.noise_var).u, state.v.shape)
    inner = Sigma - np.diag(2.0 / quad.group * per_column(u, len(columns)))
    F = np.tile(quad.intercepts.covariance, (len(f), 1, 1))  # (N, K, K) covariance of f
    D = np.zeros_like(U)  # first -B cov(f, w), the determinant's explicit part
    for one, own in enumerate(mine):
        R = inner[:, own] @ U[own] - (inner @ tilt[:, one])[:, None]  # cov(w, f_one), (m, N)
        D -= B[:, k, one].T * R
        for other, theirs in enumerate(mine):
            F[:, other, one] += np.einsum("in,in->n", U[theirs], R[theirs])
        F[:, :, one] -= R.T @ tilt
    # The curvature follows f, and f the mode: g = d objective / d f by way of the curvature.
    g = -0.5 * curvature_slope(latent.likelihood, latent.t, f, F)
    if latent.weights is not None:
        g *= latent.weights[:, None]
    total = g.sum(axis=0)
    pull = np.einsum("in,in->i", U, g.T[k]) - tilt @ total
    h = Sigma @ pull  # how the mode answers to g
    rest = g - np.einsum("nkl,nl->nk", B, latents(h, quad.intercepts.covariance @ total))
    D += slope.T[k] * (mu + h)[:, None] + rest.T[k] * mu[:, None]
    D *= scale[:, None]
    by_atom = np.zeros((len(atoms), len(f)))
    np.add.at(by_atom, which, D)
    return atoms, np.ascontiguousarray(by_atom.T)


def _inverse(norm: FloatArray) -> FloatArray:
    """1 / norm, zero for an atom that has become void: nothing depends on it."""
    return np.divide(1.0, norm, out=np.zeros_like(norm), where=norm > 0)
