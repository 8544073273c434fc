"""Derivative of the objective in the values of the active atoms (Tipping 2001, appendix C).

What is differentiated is the log evidence plus the log hyperprior, with active atoms, noise and
variances of the weights held still; of weights of atoms as given, whose scale is part of what is
differentiated. The derivative in the parameters of the atoms is `Tunable.pullback` of the result.
"""

import numpy as np
from numpy.typing import NDArray

from sparsebayes.engine import State
from sparsebayes.hyperpriors import Hyperprior
from sparsebayes.quadratic import DesignQuadratic

FloatArray = NDArray[np.float64]

__all__ = ["gaussian_gradient"]


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
    norm = quad.norm[state.active]
    D *= np.divide(1.0, norm, out=np.zeros_like(norm), where=norm > 0)
    if quad.weights is not None:
        D *= quad.weights[:, None]
    return np.asarray(D)
