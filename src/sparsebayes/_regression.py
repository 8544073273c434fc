"""One regression, from checked arrays to a posterior in the units of its user."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsebayes._counting import is_pairwise, recount
from sparsebayes._samples import gather, standardized
from sparsebayes._settings import resolve_prior
from sparsebayes._threads import one_blas_thread
from sparsebayes.design import make_design
from sparsebayes.dictionaries import Atoms
from sparsebayes.engine import State, inverse_factor
from sparsebayes.posterior import Posterior
from sparsebayes.problem import Problem, Solution
from sparsebayes.quadratic import DesignQuadratic, Quadratic

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]
Start = tuple[IndexArray, FloatArray, float]  # active atoms, their variances, noise variance

__all__ = ["Regression", "regress"]

_SMALLEST_NORM, _LARGEST_NORM = 1e-290, 1e290
_SMALLEST_NOISE, _LARGEST_NOISE = 1e-32, 1e200  # in the unit of the targets, squared


@dataclass(frozen=True)
class Regression:
    """What a fit leaves: nothing in it is as long as the data or the dictionary."""

    posterior: Posterior
    solution: Solution
    log_evidence: float  # of the targets in their own unit
    size: int  # atoms there were to choose from

    def start(self, quad: Quadratic, scale: float) -> Start | None:
        """Where a new fit may start; None where the dictionary is another one.

        Parameters
        ----------
        quad : Quadratic
            Quadratic of the new fit.
        scale : float
            Unit of its targets.

        Returns
        -------
        tuple or None
            Active atoms, their variances and the noise variance, in the new unit.
        """
        if self.size != quad.size or not self.solution.state.active.size:
            return None
        state = self.solution.state
        ratio = self.posterior.scale / scale
        usable = quad.diag[state.active] > 0
        # Targets of another size altogether: what was known about them is of no use.
        if not 1e-3 < ratio < 1e3 or not usable.any():
            return None
        return state.active[usable], state.v[usable] * ratio**2, state.noise_var * ratio**2


def regress(
    X: Any,
    y: FloatArray,
    weights: FloatArray | None,
    dictionary: Any,
    *,
    single: bool,
    fit_intercept: bool,
    prior: Any,
    noise_variance: float | None,
    solve: Callable[[Problem, Start | None], Solution],
    last: Regression | None,
    random_state: np.random.RandomState,
) -> Regression:
    """Fit the targets with the atoms of a dictionary.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (N, d)
        Inputs.
    y : ndarray of shape (N, T)
        Targets.
    weights : ndarray of shape (N,) or None
        Weight of each row, as `checked_weights` gives them.
    dictionary : Dictionary
        Candidate atoms.
    single : bool
        Whether the user's targets were one-dimensional.
    fit_intercept : bool
        Whether to integrate out an intercept.
    prior : str, float or Hyperprior
        As in the estimators.
    noise_variance : float or None
        As in the estimators.
    solve : callable
        Takes a problem and where to start, or None; returns a solution.
    last : Regression or None
        An earlier fit to start from.
    random_state : RandomState
        For k-means centers.

    Returns
    -------
    Regression
        Posterior and solution.
    """
    n = int(X.shape[0])
    samples = gather(X, y, weights, pairwise=is_pairwise(dictionary))
    X, weights = samples.X, samples.weights
    t, shift, scale = standardized(samples.y, weights, fit_intercept)
    if noise_variance is not None and not t.any():
        scale = float(noise_variance) ** 0.5  # constant targets have no unit of their own
    noise_var = None if noise_variance is None else _in_units(noise_variance, scale)
    atoms = dictionary.bind(X, sample_weight=weights, random_state=random_state)
    with one_blas_thread():
        quad = DesignQuadratic(make_design(atoms, X), t, weights, center=fit_intercept)
        _check_norms(quad)
        hyperprior = resolve_prior(prior, dictionary, samples.total, int((quad.diag > 0).sum()))
        start = None if last is None else last.start(quad, scale)
        solution = solve(Problem(quad, hyperprior, noise_var), start)
    counted = atoms if samples.rows is None else recount(dictionary, atoms, samples.rows, n)
    offset_variance = solution.state.noise_var / samples.total if fit_intercept else 0.0
    assert isinstance(solution.state, State)
    posterior = _posterior(
        solution.state, quad, counted, shift + scale * quad.offset, offset_variance, scale, single
    )
    # p(y) = p(t) scale^-N, and a flat prior of the intercept gives one scale back.
    log_evidence = solution.log_evidence - y.shape[1] * quad.n * float(np.log(scale))
    return Regression(posterior, solution, log_evidence, quad.size)


def _in_units(noise_variance: float, scale: float) -> float:
    noise_var = float(np.float64(noise_variance) ** 0.5 / scale) ** 2
    if not _SMALLEST_NOISE <= noise_var <= _LARGEST_NOISE:
        raise ValueError(
            f"noise_variance={noise_variance:g} is out of proportion to y, whose values spread "
            f"over about {scale:.0e}: float64 cannot hold both."
        )
    return noise_var


def _check_norms(quad: DesignQuadratic) -> None:
    norms = quad.norm[quad.norm != 0]
    if norms.size and not (norms.min() >= _SMALLEST_NORM and norms.max() <= _LARGEST_NORM):
        raise ValueError(
            f"the atoms have values of size {norms.min():.0e} to {norms.max():.0e}, which leave "
            "the range of float64: give X in other units."
        )


def _posterior(
    state: State,
    quad: DesignQuadratic,
    atoms: Atoms,
    offset: FloatArray,
    offset_variance: float,
    scale: float,
    single: bool,
) -> Posterior:
    """Keep the active atoms, in the order of the dictionary."""
    order = np.argsort(atoms.index[state.active], kind="stable")
    active = state.active[order]
    # Sigma = V^(1/2) W V^(1/2) with W = L^-T L^-1.
    root = np.zeros((0, 0))
    if active.size:
        root = np.sqrt(state.v)[:, None] * inverse_factor(state.white).T
    posterior = Posterior(
        atoms=atoms.restrict(active),
        norm=quad.norm[active],
        center=quad.mean[active],
        mean=state.mu[order],
        root=root[order],
        prior_variance=state.v[order],
        offset=offset,
        offset_variance=offset_variance,
        noise_variance=state.noise_var,
        scale=scale,
        single=single,
    )
    with np.errstate(over="ignore", under="ignore"):
        variances = posterior.weight_variance
    if not (np.isfinite(variances) & (variances > 0)).all():
        raise ValueError(
            "the variances of the weights leave the range of float64: X and y are of sizes too far "
            "apart; give them in other units."
        )
    return posterior
