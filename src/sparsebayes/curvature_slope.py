"""How the curvature of a likelihood changes with its latent functions: third derivatives.

Laplace's evidence depends on the curvature at the mode, and the mode moves with the atoms.
Third derivatives are only ever needed in sums with a matrix for each sample.
"""

from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sparsebayes.likelihoods import Bernoulli, Gaussian, Likelihood, Multinomial, Poisson

FloatArray = NDArray[np.float64]

__all__ = ["KnowsCurvatureSlope", "curvature_slope"]

_STEP = 1e-3  # of differences of fourth order, in units in which the likelihood changes by one


@runtime_checkable
class KnowsCurvatureSlope(Likelihood, Protocol):
    """A likelihood that knows its third derivatives; of others, differences are taken."""

    def curvature_slope(self, t: FloatArray, f: FloatArray, F: FloatArray) -> FloatArray:
        """Gradient in f, (N, K), of the sum of F[n, k, l] times the curvature (N, K, K)."""


def curvature_slope(
    likelihood: Likelihood, t: FloatArray, f: FloatArray, F: FloatArray
) -> FloatArray:
    """Gradient in f of the sum over k and l of F[n, k, l] times the curvature at sample n.

    Parameters
    ----------
    likelihood : Likelihood
        One of ours, or any other; a method of this name, with the other arguments, is used if it
        has one.
    t : ndarray of shape (N,)
        Targets as the likelihood checked them.
    f : ndarray of shape (N, K)
        Latent functions.
    F : ndarray of shape (N, K, K)
        Symmetric matrices.

    Returns
    -------
    ndarray of shape (N, K)
        The gradient of each sample, sample weights not included.

    Examples
    --------
    >>> import numpy as np
    >>> curvature_slope(Poisson(), np.array([2.0]), np.zeros((1, 1)), np.ones((1, 1, 1)))
    array([[1.]])
    """
    # Not isinstance: what inherits from ours may have another curvature.
    kind = type(likelihood)
    if isinstance(likelihood, KnowsCurvatureSlope):
        return likelihood.curvature_slope(t, f, F)
    if kind is Gaussian:
        return np.zeros_like(f)
    if kind is Bernoulli:
        # B = p (1 - p), so B' = B (1 - 2 p) = -B tanh(f / 2).
        B = likelihood.expand(t, f).curvature
        return np.asarray(-(F * B)[:, 0] * np.tanh(0.5 * f))
    if kind is Poisson:
        return _poisson(likelihood, t, f, F)
    if kind is Multinomial:
        return _multinomial(f, F)
    return _differences(likelihood, t, f, F)


def _poisson(likelihood: Likelihood, t: FloatArray, f: FloatArray, F: FloatArray) -> FloatArray:
    # The curvature is its own derivative, but for the parabola that takes the place of rates
    # beyond any count.
    B = likelihood.expand(t, f).curvature
    beyond = B == likelihood.expand(t, f + 1.0).curvature
    return np.where(beyond, 0.0, F * B)[:, 0]


def _multinomial(f: FloatArray, F: FloatArray) -> FloatArray:
    # B_kl = p_k [k = l] - p_k p_l: with y_k = F_kk - 2 (F p)_k the gradient is p_j (y_j - p'y).
    with np.errstate(over="ignore"):
        p = np.exp(f - f.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    y = F.diagonal(axis1=1, axis2=2) - 2.0 * np.einsum("nkl,nl->nk", F, p)
    return np.asarray(p * (y - np.einsum("nk,nk->n", p, y)[:, None]))


def _differences(likelihood: Likelihood, t: FloatArray, f: FloatArray, F: FloatArray) -> FloatArray:
    own = likelihood.expand(t, f).curvature.diagonal(axis1=1, axis2=2)  # (N, K)
    slope = np.empty_like(f)
    for j in range(f.shape[1]):
        aside = f.copy()
        aside[:, j] += _STEP / np.maximum(np.sqrt(own[:, j]), 1.0)
        step = aside - f  # as float64 has it

        def curvature(multiple: float, step: FloatArray = step) -> FloatArray:
            B = likelihood.expand(t, f + multiple * step).curvature
            return np.asarray(np.einsum("nkl,nkl->n", F, B))

        near, far = curvature(1.0) - curvature(-1.0), curvature(2.0) - curvature(-2.0)
        slope[:, j] = (8.0 * near - far) / (12.0 * step[:, j])
    return slope
