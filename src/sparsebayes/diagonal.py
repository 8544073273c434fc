"""State of a fit on orthonormal atoms: nothing in it is a matrix of atoms by atoms.

Orthonormal atoms do not interact: Sigma is diagonal, and the Hessian of the objective in
(log v, log noise) is an arrow, a diagonal with one border for the noise.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparsebayes.hyperpriors import Hyperprior
from sparsebayes.solvers.newton import Noise

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = ["Arrow", "DiagonalState"]

_STEPS = 100  # of Newton's method on the secular equation, which needs about five


@dataclass(frozen=True)
class DiagonalState:
    """One consistent point of a fit on orthonormal atoms.

    Examples
    --------
    >>> import numpy as np
    >>> one = np.ones(1)
    >>> state = DiagonalState(np.array([3]), 9 * one, 1.0, -2.0, -2.0, 2 * one[:, None], 0.9 * one)
    >>> state.dof, state.Sigma
    (array([0.9]), array([[0.9]]))
    """

    active: IndexArray  # (m,) atoms in the model, of 0..M-1
    v: FloatArray  # (m,) prior variances of unit-norm atoms
    noise_var: float
    log_evidence: float
    objective: float  # log evidence + log hyperprior
    mu: FloatArray  # (m, T) posterior mean of the weights
    variance: FloatArray  # (m,) their posterior variance, the same for every target

    @property
    def dof(self) -> FloatArray:
        """Degrees of freedom 1 - Sigma_jj / v_j of each active atom, shape (m,) (S&E eq. 13)."""
        return self.v / (self.v + self.noise_var)

    @property
    def Sigma(self) -> FloatArray:
        """Posterior covariance of the weights, shape (m, m): for few atoms only."""
        return np.diag(self.variance)


@dataclass(frozen=True)
class Arrow:
    """Gradient and Hessian of the objective in (log v, log noise) on orthonormal atoms.

    Where the noise is given, or rests at its floor, ``corner`` is None and there is no border.
    """

    gradient: FloatArray  # (m,)
    diagonal: FloatArray  # (m,)
    slope: float = 0.0  # in log noise
    border: FloatArray | None = None  # (m,)
    corner: float | None = None

    @classmethod
    def at(
        cls,
        state: DiagonalState,
        hyperprior: Hyperprior,
        noise: Noise,
        n: float,
        residual: float,
    ) -> "Arrow":
        """Compute them at a state (the equations of `solvers.newton.derivatives`, W diagonal).

        Parameters
        ----------
        state : DiagonalState
            The state.
        hyperprior : Hyperprior
            Prior of the variances.
        noise : Noise
            Whether the noise is a parameter, and its floor.
        n : float
            Residual degrees of freedom of an empty model.
        residual : float
            Squared residual at the posterior mean, over all targets.

        Returns
        -------
        Arrow
            The derivatives.
        """
        n_targets = state.mu.shape[1]
        w = state.variance / state.v
        z2 = np.einsum("ij,ij->i", state.mu, state.mu) / state.v
        prior = hyperprior.log_derivatives(state.v, state.noise_var)
        gradient = 0.5 * (n_targets * (w - 1.0) + z2) + prior.u
        diagonal = 0.5 * n_targets * w * (w - 1.0) + (w - 0.5) * z2 + prior.uu
        if not noise.estimated:
            return cls(gradient, diagonal)
        misfit = residual / state.noise_var
        left = n - len(w) + float(w.sum())
        each = len(w) / max(prior.rho.size, 1)  # of length one where all are equal
        slope = 0.5 * (misfit - n_targets * left) + each * float(prior.rho.sum())
        if state.noise_var <= noise.floor * (1 + 1e-9) and slope < 0:
            return cls(gradient, diagonal)
        leaned, taken = w * z2, w * (1.0 - w)
        corner = float(leaned.sum()) - 0.5 * n_targets * float(taken.sum()) - 0.5 * misfit
        corner += each * float(prior.rho_rho.sum())
        border = 0.5 * n_targets * taken - leaned + prior.u_rho
        return cls(gradient, diagonal, slope, border, corner)

    @property
    def gradient_norm(self) -> float:
        """Largest derivative."""
        return max(float(np.abs(self.gradient).max(initial=0.0)), abs(self.slope))

    @property
    def curvature(self) -> float:
        """Largest eigenvalue, in O(m) operations.

        Above the diagonal the eigenvalues are the only root of the secular equation
        corner - x + sum border^2 / (x - diagonal) = 0, which falls and is convex there: Newton's
        method climbs to it from any eigenvalue of a part of the matrix, which is below it.
        """
        top = float(self.diagonal.max(initial=-np.inf))
        if self.corner is None or self.border is None:
            return top
        b2 = np.square(self.border)
        inner = b2 > 0
        d, b2 = self.diagonal[inner], b2[inner]
        if d.size == 0:
            return max(top, self.corner)
        pole = float(d.max())
        half = 0.5 * (d - self.corner)
        x = float((self.corner + half + np.sqrt(half * half + b2)).max())
        for _ in range(_STEPS):
            if not x > pole:  # a border that rounds to nothing
                break
            share = b2 / (x - d)
            value = self.corner - x + float(share.sum())
            step = value / (1.0 + float((share / (x - d)).sum()))
            x += max(step, 0.0)
            if not step > 1e-8 * (x - pole):  # the error is about its square, over that distance
                break
        return max(top, x)
