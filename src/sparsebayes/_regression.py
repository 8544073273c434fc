"""One regression, from checked arrays to a posterior in the units of its user."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsebayes._counting import is_pairwise, recount
from sparsebayes._gaussian_kernels import GaussianModel
from sparsebayes._samples import (
    gather,
    hyperprior_in_units,
    noise_in_units,
    prior_in_units,
    standardized,
)
from sparsebayes._settings import resolve_noise_prior, resolve_prior
from sparsebayes._threads import one_blas_thread
from sparsebayes._union_search import Part, search_parts
from sparsebayes.design import make_design
from sparsebayes.diagonal import DiagonalState
from sparsebayes.dictionaries import Atoms, Tunable
from sparsebayes.dictionaries._protocol import OutOfRange
from sparsebayes.dictionaries.union import UnionAtoms
from sparsebayes.engine import State, inverse_factor
from sparsebayes.hyperparameters import Evidence
from sparsebayes.hyperpriors import Hyperprior
from sparsebayes.implicit import SampledState
from sparsebayes.kernel_learning import fit_kernels, learns, with_same
from sparsebayes.noise_priors import InverseGamma
from sparsebayes.posterior import Posterior
from sparsebayes.problem import Problem, Solution
from sparsebayes.quadratic import DesignQuadratic, OrthonormalQuadratic, Quadratic
from sparsebayes.shared_variance import Targets

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]
Start = tuple[IndexArray, FloatArray, float]  # active atoms, their variances, noise variance

__all__ = ["Regression", "orthonormal_form", "regress"]

_SMALLEST_NORM, _LARGEST_NORM = 1e-290, 1e290
_LOST = 1e-6  # of its norm: an atom that centering leaves less of was the constant one
_OVERLAP = 1e-8  # inner product of centered atoms of unit norm that is still none


@dataclass(frozen=True)
class Regression:
    """What a fit leaves: nothing in it is as long as the data or the dictionary."""

    posterior: Posterior
    solution: Solution
    log_evidence: float  # of the targets in their own unit; no prior in it
    log_posterior: float  # with the hyperprior and the prior of the noise, also in that unit
    size: int  # atoms there were to choose from
    theta: FloatArray  # parameters of kernels that were learned

    def tuned(self, atoms: Any) -> Any:
        """Atoms with the parameters that this fit has learned, where they have the same ones."""
        return with_same(atoms, self.theta)

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
    noise_prior: Any = None,
    solver: str = "auto",
    solve: Callable[[Problem, Start | None], Solution],
    last: Regression | None,
    random_state: np.random.RandomState,
    tol: float = 1e-6,
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
    noise_prior : None, pair of floats, InverseGamma or Gamma, default=None
        As in the estimators.
    solver : str, default="auto"
        With "auto" and "orthonormal" a problem of orthonormal atoms has an
        `OrthonormalQuadratic`.
    solve : callable
        Takes a problem and where to start, or None; returns a solution.
    last : Regression or None
        An earlier fit to start from.
    random_state : RandomState
        For k-means centers.
    tol : float, default=1e-6
        What the certificate is held to; ``solve`` knows it too.

    Returns
    -------
    Regression
        Posterior and solution.
    """
    n = int(X.shape[0])
    samples = gather(X, y, weights, pairwise=is_pairwise(dictionary))
    X, weights = samples.X, samples.weights
    t, shift, scale = standardized(samples.y, weights, fit_intercept)
    before = resolve_noise_prior(noise_prior)
    typical = noise_variance or (0.0 if before is None else before.h)
    if typical and not t.any():
        scale = float(typical) ** 0.5  # constant targets have no unit of their own
    before = None if before is None else prior_in_units(before, scale)
    noise_var = None if noise_variance is None else noise_in_units(noise_variance, scale)
    atoms = dictionary.bind(X, sample_weight=weights, random_state=random_state)

    def quadratic(atoms: Atoms) -> DesignQuadratic:
        quad = DesignQuadratic(make_design(atoms, X), t, weights, fit_intercept, before)
        _check_norms(quad)
        return quad

    with one_blas_thread():
        if last is not None and learns(atoms):
            atoms = last.tuned(atoms)
        quad = quadratic(atoms)
        given: Quadratic = quad
        if solver in ("auto", "orthonormal"):
            given = _simplest(quad, atoms, solver == "orthonormal")
        hyperprior = resolve_prior(prior, dictionary, samples.total, int((given.diag > 0).sum()))
        hyperprior = hyperprior_in_units(hyperprior, scale)
        start = None if last is None else last.start(given, scale)
        if learns(atoms):
            del quad, given  # their design is as large as those with other parameters
            model = GaussianModel(X, t, hyperprior, noise_var, quadratic, solve)
            targets = Targets(t, weights, fit_intercept, noise_var, before)
            atoms, fit, solution = fit_kernels(model, atoms, targets, tol, start)
            quad = fit.quad
        else:
            problem = Problem(given, hyperprior, noise_var)
            solution = solve(problem, start)
            if start is None and solver == "auto":
                parts = _orthonormal_parts(quad, atoms)
                solution = search_parts(problem, parts, solve, solution)
    counted = atoms if samples.rows is None else recount(dictionary, atoms, samples.rows, n)
    offset_variance = solution.state.noise_var / samples.total if fit_intercept else 0.0
    if isinstance(solution.state, SampledState):
        raise TypeError("a posterior that was only sampled is none that an estimator can keep.")
    state = solution.state
    evidence = _evidence(state, quad, noise_var is None, hyperprior)
    posterior = _posterior(
        state, quad, counted, shift + scale * quad.offset, offset_variance, scale, single, evidence
    )
    of_noise, n_before = 0.0, 0.0
    if before is not None:
        of_noise, n_before = before.log_density(state.noise_var), before.observations(y.shape[1]).n
    # p(y) = p(t) scale^-N, and a flat prior of the intercept gives one scale back.
    log_scale = float(np.log(scale))
    log_evidence = state.log_evidence - of_noise - y.shape[1] * (quad.n - n_before) * log_scale
    log_posterior = log_evidence + (state.objective - state.log_evidence)
    log_posterior += of_noise
    if isinstance(before, InverseGamma):
        log_posterior -= 2.0 * log_scale  # a density of variances in units of y squared
    theta = atoms.theta if isinstance(atoms, Tunable) else np.empty(0)
    return Regression(posterior, solution, log_evidence, log_posterior, quad.size, theta)


def orthonormal_form(
    quad: DesignQuadratic, columns: IndexArray | slice = slice(None)
) -> OrthonormalQuadratic | None:
    """Quadratic of atoms that were orthonormal before they were centered; None if that broke it.

    Centering takes N mean_i mean_j from the inner product of two atoms: nothing, if at most one
    has a mean. Of wavelets of full depth only the constant one has.

    Parameters
    ----------
    quad : DesignQuadratic
        The quadratic, of rows without weights.
    columns : ndarray of shape (k,) or slice, default=slice(None)
        Which of its atoms; all by default.

    Returns
    -------
    OrthonormalQuadratic or None
        The same without a matrix.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.design import ArrayDesign
    >>> haar, t = ArrayDesign(np.array([[1.0, 1.0], [1.0, -1.0]]) / 2**0.5), np.ones((2, 1))
    >>> orthonormal_form(DesignQuadratic(haar, t, center=True)).void
    array([ True, False])
    >>> points = DesignQuadratic(ArrayDesign(np.eye(3)), np.ones((3, 1)), center=True)
    >>> orthonormal_form(points) is None
    True
    """
    mean, norm = np.abs(quad.mean[columns]) * np.sqrt(quad.design.shape[0]), quad.norm[columns]
    void = norm <= _LOST * mean
    void |= norm == 0
    overlap = np.sort(mean[~void] / norm[~void])[-2:]
    if overlap.size == 2 and overlap.prod() > _OVERLAP:
        return None
    g = np.where(void[:, None], 0.0, quad.g[columns])
    return OrthonormalQuadratic(g, quad.tt, quad.n, quad.spread, quad.log_offset, void)


def _orthonormal_parts(quad: DesignQuadratic, atoms: Atoms) -> list[Part]:
    """Parts of a union whose atoms are orthonormal, as long as there is another part."""
    if not isinstance(atoms, UnionAtoms) or len(atoms.parts) < 2 or quad.weights is not None:
        return []
    found = [
        (columns, orthonormal_form(quad, columns))
        for part, columns in zip(atoms.parts, atoms.columns, strict=True)
        if part.orthonormal
    ]
    return [(columns, form) for columns, form in found if form is not None]


def _simplest(quad: DesignQuadratic, atoms: Atoms, required: bool) -> Quadratic:
    """The quadratic without a matrix, where the atoms allow it or else the user insists."""
    found = orthonormal_form(quad) if atoms.orthonormal and quad.weights is None else None
    if found is not None or not required:
        return found or quad
    if not atoms.orthonormal:
        reason = "the atoms of this dictionary are not orthonormal on X"
    elif quad.weights is not None:
        reason = "sample weights (or rows given twice) leave the atoms orthonormal no more"
    else:
        reason = (
            "without their means, which fit_intercept=True takes, the atoms are not orthonormal"
        )
    raise ValueError(f"solver='orthonormal' does not apply: {reason}; use solver='auto'.")


def _check_norms(quad: DesignQuadratic) -> None:
    norms = quad.norm[quad.norm != 0]
    if norms.size and not (norms.min() >= _SMALLEST_NORM and norms.max() <= _LARGEST_NORM):
        raise OutOfRange(
            f"the atoms have values of size {norms.min():.0e} to {norms.max():.0e}, which leave "
            "the range of float64: give X in other units."
        )


def _evidence(
    state: State | DiagonalState, quad: DesignQuadratic, estimated: bool, hyperprior: Hyperprior
) -> Evidence:
    """Keep what scores other variances and another noise than the best."""
    mu = state.mu
    # |t - Phi mu|^2 = t't - g'mu - noise mu'P mu, as G mu = g - noise P mu
    explained = float(np.vdot(quad.g[state.active], mu))
    explained += state.noise_var * float(np.vdot(mu / state.v[:, None], mu))
    return Evidence(quad.n, max(quad.tt - explained, 0.0), estimated, hyperprior)


def _posterior(
    state: State | DiagonalState,
    quad: DesignQuadratic,
    atoms: Atoms,
    offset: FloatArray,
    offset_variance: float,
    scale: float,
    single: bool,
    evidence: Evidence,
) -> Posterior:
    """Keep the active atoms, in the order of the dictionary."""
    order = np.argsort(atoms.index[state.active], kind="stable")
    active = state.active[order]
    root = np.zeros((0, 0))
    if isinstance(state, DiagonalState):
        root = np.sqrt(state.variance)
    elif active.size:  # Sigma = V^(1/2) W V^(1/2) with W = L^-T L^-1
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
        evidence=evidence,
    )
    with np.errstate(over="ignore", under="ignore"):
        variances = posterior.weight_variance
    if not (np.isfinite(variances) & (variances > 0)).all():
        raise ValueError(
            "the variances of the weights leave the range of float64: X and y are of sizes too far "
            "apart; give them in other units."
        )
    return posterior
