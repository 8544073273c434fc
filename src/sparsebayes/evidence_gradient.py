"""Derivative of the objective in the values of the active atoms (Tipping 2001, appendix C).

What is differentiated is the log evidence plus the log hyperprior, with active atoms, noise and
variances of the weights held still; of weights of atoms as given, whose scale is part of what is
differentiated. The derivative in the parameters of the atoms is `Tunable.pullback` of the result.
"""

import numpy as np
from numpy.typing import NDArray

from sparsebayes.core.quadratic import AnyQuadratic
from sparsebayes.core.stored import StoredQuadratic
from sparsebayes.engine import State, per_column
from sparsebayes.hyperpriors import Hyperprior
from sparsebayes.laplace import Latent
from sparsebayes.latent_sensitivity import Sensitivity, inverse_norm
from sparsebayes.solvers.expand import UNIT_NOISE
from sparsebayes.solvers.newton import derivatives

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

_CELLS = 2**21  # entries of matrices of samples made at a time: 16 megabytes

__all__ = ["gaussian_gradient", "latent_gradient", "latent_profile_gradient"]


def gaussian_gradient(
    quad: StoredQuadratic, state: State, hyperprior: Hyperprior, t: FloatArray
) -> FloatArray:
    """Derivative of the objective of Gaussian noise in the active atoms.

    Parameters
    ----------
    quad : StoredQuadratic
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
    >>> from sparsebayes.core.stored import weighted_quadratic
    >>> t = np.array([[1.0], [3.0]])
    >>> quad = weighted_quadratic(ArrayDesign(np.array([[1.0], [1.0]])), t)
    >>> state = refresh(quad, Flat(), np.array([0]), np.array([2.0]), noise_var=1.0)
    >>> gaussian_gradient(quad, state, Flat(), t).round(3)
    array([[-0.778],
           [ 1.889]])
    """
    atoms = quad.products.unit_atoms(state.active, quad.unit)  # (m, N)
    mu, n_targets = state.mu, t.shape[1]
    residual = t - quad.offset - atoms.T @ mu
    # 2001 eqs. 36 to 38, for atoms that are centered and of unit norm.
    D = residual @ mu.T - n_targets * (atoms.T @ state.Sigma)
    D /= state.noise_var
    D += 2.0 * hyperprior.log_derivatives(state.v, state.noise_var).u * atoms.T
    # In raw values the centering drops out: what is weighted sums to zero already.
    D *= inverse_norm(quad.norm[state.active])
    if quad.products.weights is not None:
        D *= quad.products.weights[:, None]
    return np.asarray(D)


def latent_gradient(
    latent: Latent, quad: AnyQuadratic, state: State, hyperprior: Hyperprior
) -> tuple[IndexArray, FloatArray]:
    """Derivative of Laplace's objective in the active atoms, the mode following them.

    Parameters
    ----------
    latent : Latent
        Data and likelihood.
    quad : AnyQuadratic
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
    >>> from sparsebayes.solvers.expand import Point, expand
    >>> design = ArrayDesign(np.array([[1.0], [2.0]]))
    >>> latent = Latent(design, np.array([1.0, 1.0]), None, Bernoulli(), center=False)
    >>> at = expand(latent, Flat(), Point(np.array([0]), np.array([4.0])))
    >>> atoms, D = latent_gradient(latent, at.quad, at.state, Flat())
    >>> atoms, D.round(3)
    (array([0]), array([[0.118],
           [0.059]]))
    """
    at = Sensitivity(latent, quad, state)
    return at.atoms, at.by_atom(_at_held_variances(at, state, hyperprior)[0])


def latent_profile_gradient(
    latent: Latent, quad: AnyQuadratic, state: State, hyperprior: Hyperprior
) -> tuple[IndexArray, FloatArray]:
    """Derivative of Laplace's objective in the active atoms, mode and variances following them.

    What solvers find are variances at which each expansion is maximal with its curvature held. That
    is a balance, not the maximum of Laplace's evidence over the variances; so the objective at the
    balance has another derivative than at held variances.

    Parameters
    ----------
    latent : Latent
        Data and likelihood.
    quad : AnyQuadratic
        The expansion at the mode of the state's own variances, as a solver returns it.
    state : State
        A balance: variances at which the gradient of this expansion vanishes.
    hyperprior : Hyperprior
        Prior of the variances.

    Returns
    -------
    atoms : ndarray of shape (m,)
        Active atoms, ascending.
    D : ndarray of shape (N, m)
        Derivative in each value of each of them, as in `latent_gradient`.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.design import ArrayDesign
    >>> from sparsebayes.hyperpriors import Flat
    >>> from sparsebayes.likelihoods import Poisson
    >>> from sparsebayes.solvers.expand import LatentProblem
    >>> from sparsebayes.solvers.relinearize import solve
    >>> design = ArrayDesign(np.array([[1.0], [2.0]]))
    >>> latent = Latent(design, np.array([2.0, 20.0]), None, Poisson(), center=False)
    >>> solution = solve(LatentProblem(latent, Flat()), tol=1e-12)
    >>> for gradient in (latent_gradient, latent_profile_gradient):
    ...     print(gradient(latent, solution.quad, solution.state, Flat())[1].round(3).ravel())
    [-3.348  1.666]
    [-3.347  1.673]
    """
    at = Sensitivity(latent, quad, state)
    D, in_log_v = _at_held_variances(at, state, hyperprior)
    # With r = 0 the balance, dv = -(dr/dv)^-1 dr: the derivative of the objective in v, turned by
    # that inverse, weighs the derivatives of r.
    J = _balance_jacobian(at, state, hyperprior)
    weight, *_ = np.linalg.lstsq(J.T, in_log_v, rcond=None)
    m = len(at.mu)
    uu = np.broadcast_to(hyperprior.log_derivatives(state.v, state.noise_var).uu, state.v.shape)
    power = per_column(weight / state.v, m)
    inner = (at.Sigma * power) @ at.Sigma - np.diag(2.0 / quad.group * per_column(weight * uu, m))
    return at.atoms, at.by_atom(D - at.pulled(inner, power * at.mu)[0])


def _at_held_variances(
    at: Sensitivity, state: State, hyperprior: Hyperprior
) -> tuple[FloatArray, FloatArray]:
    """Derivatives of the objective in the columns (m, N), and in log v."""
    group, m = at.quad.group, len(at.mu)
    prior = hyperprior.log_derivatives(state.v, state.noise_var)
    u = np.broadcast_to(prior.u, state.v.shape)
    # The hyperprior's u d log |c|^2 is of the form of the determinant's -tr(Sigma dH) / 2.
    inner = at.Sigma - np.diag(2.0 / group * per_column(u, m))
    D, answer = at.pulled(inner, np.zeros(m), at.quad.intercepts.covariance)
    D += at.slope.T[at.k] * at.mu[:, None]
    power = at.mu**2 + at.Sigma.diagonal() + 2.0 * at.mu * answer
    in_log_v = 0.5 * (power / per_column(state.v, m) - 1.0)
    return D, in_log_v.reshape(-1, group).sum(axis=1) + u


def _balance_jacobian(at: Sensitivity, state: State, hyperprior: Hyperprior) -> FloatArray:
    """Derivative in log v of the gradient of each state's own expansion, its curvature held."""
    quad, m = at.quad, len(at.mu)
    gram = quad.gram(state.active)
    held = derivatives(gram, hyperprior, state.v, UNIT_NOISE, state.white).hessian
    uu = np.broadcast_to(hyperprior.log_derivatives(state.v, state.noise_var).uu, state.v.shape)
    pull = at.mu / per_column(state.v, m)
    moved = np.empty_like(held)
    step = max(1, _CELLS // (len(at.f) * at.K**2 * quad.group))
    for start in range(0, len(state.v), step):
        atoms = slice(start, start + step)
        of = slice(start * quad.group, (start + step) * quad.group)
        # How the curvature enters P Sigma_ii / 2 and the norms that the hyperprior sees.
        F = -0.5 * at.squares(at.Sigma[of], quad.group) / state.v[atoms, None, None, None]
        if uu[atoms].any():
            own = at.squares(np.eye(m)[of], quad.group)
            F += uu[atoms, None, None, None] / quad.group * own
        answer = pull * (at.products(at.curvature_slopes(F)) @ at.Sigma)
        moved[atoms] = answer.reshape(len(F), -1, quad.group).sum(axis=2)
    return np.asarray(held + moved)
