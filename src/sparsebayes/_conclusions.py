"""What a solution of a regression means in the units of its user."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsebayes._samples import noise_in_units, prior_in_units
from sparsebayes._settings import resolve_noise_prior
from sparsebayes.core.quadratic import AnyQuadratic, Quadratic
from sparsebayes.diagonal import DiagonalState
from sparsebayes.dictionaries import Atoms, Tunable
from sparsebayes.dictionaries._protocol import OutOfRange
from sparsebayes.engine import State, inverse_factor
from sparsebayes.fit.widths import Targets
from sparsebayes.hyperparameters import Evidence
from sparsebayes.hyperpriors import Hyperprior
from sparsebayes.implicit import SampledState
from sparsebayes.noise_priors import InverseGamma, NoisePrior
from sparsebayes.posterior import Posterior
from sparsebayes.problem import Solution

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]
Start = tuple[IndexArray, FloatArray, float]  # active atoms, their variances, noise variance

__all__ = [
    "SMALLEST_NORM",
    "Regression",
    "Start",
    "Units",
    "check_norms",
    "conclude",
    "in_units",
]

SMALLEST_NORM, _LARGEST_NORM = 1e-290, 1e290


@dataclass(frozen=True)
class Regression:
    """What a fit leaves: nothing in it is as long as the data or the dictionary."""

    posterior: Posterior
    solution: Solution
    log_evidence: float  # of the targets in their own unit; no prior in it
    log_posterior: float  # with the hyperprior and the prior of the noise, also in that unit
    size: int  # atoms there were to choose from
    theta: FloatArray  # parameters of kernels that were learned

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


class Units(NamedTuple):
    """Targets in a unit of their own, and what their user says of the noise, in that unit."""

    shift: FloatArray  # (T,) what was subtracted from the targets
    scale: float
    before: NoisePrior | None
    noise_var: float | None

    def explained(
        self, constant: NDArray[np.bool_], center: bool
    ) -> Callable[[FloatArray, FloatArray | None], Targets]:
        """What widths are to explain, from some targets and their weights.

        Of targets that are ``constant`` nothing but rounding would be left.
        """

        def of(y: FloatArray, weights: FloatArray | None) -> Targets:
            t = np.where(constant, 0.0, (y - self.shift) / self.scale)
            return Targets(t, weights, center, self.noise_var, self.before)

        return of


def in_units(
    shift: FloatArray, scale: float, constant: bool, noise_variance: float | None, noise_prior: Any
) -> Units:
    """Noise and its prior in the unit of the targets.

    Parameters
    ----------
    shift : ndarray of shape (T,)
        What is subtracted from the targets.
    scale : float
        Their unit.
    constant : bool
        Whether all that is left of them is zero: then the noise, if it is known, gives the unit.
    noise_variance : float or None
        As in the estimators.
    noise_prior : None, pair of floats, InverseGamma or Gamma
        As in the estimators.

    Returns
    -------
    Units
        The units, and what was given in others.

    Examples
    --------
    >>> import numpy as np
    >>> in_units(np.zeros(1), 2.0, False, 16.0, None).noise_var
    4.0
    """
    before = resolve_noise_prior(noise_prior)
    typical = noise_variance or (0.0 if before is None else before.h)
    if typical and constant:
        scale = float(typical) ** 0.5  # constant targets have no unit of their own
    before = None if before is None else prior_in_units(before, scale)
    noise_var = None if noise_variance is None else noise_in_units(noise_variance, scale)
    return Units(shift, scale, before, noise_var)


def conclude(
    solution: Solution,
    quad: AnyQuadratic,
    atoms: Atoms,
    units: Units,
    hyperprior: Hyperprior,
    single: bool,
) -> Regression:
    """What a solution means in the units of the user.

    Parameters
    ----------
    solution : Solution
        Of the quadratic.
    quad : LazyQuadratic
        Sums over targets in their units.
    atoms : Atoms
        All atoms of the quadratic, counted as the user does.
    units : Units
        Units of the targets.
    hyperprior : Hyperprior
        Prior of the variances in them.
    single : bool
        Whether the user's targets were one-dimensional.

    Returns
    -------
    Regression
        Posterior and solution.
    """
    state = solution.state
    if isinstance(state, SampledState):
        raise TypeError("a posterior that was only sampled is none that an estimator can keep.")
    offset_variance = state.noise_var * float(quad.intercepts.covariance[0, 0])
    evidence = _evidence(state, quad, units.noise_var is None, hyperprior)
    offset = units.shift + units.scale * quad.offset
    posterior = _posterior(
        state, quad, atoms, offset, offset_variance, units.scale, single, evidence
    )
    before, n_targets = units.before, len(offset)
    of_noise, n_before = 0.0, 0.0
    if before is not None:
        of_noise, n_before = before.log_density(state.noise_var), before.observations(n_targets).n
    # p(y) = p(t) scale^-N, and a flat prior of the intercept gives one scale back.
    log_scale = float(np.log(units.scale))
    log_evidence = state.log_evidence - of_noise - n_targets * (quad.n - n_before) * log_scale
    log_posterior = log_evidence + (state.objective - state.log_evidence)
    log_posterior += of_noise
    if isinstance(before, InverseGamma):
        log_posterior -= 2.0 * log_scale  # a density of variances in units of y squared
    theta = atoms.theta if isinstance(atoms, Tunable) else np.empty(0)
    return Regression(posterior, solution, log_evidence, log_posterior, quad.size, theta)


def check_norms(quad: AnyQuadratic) -> None:
    norms = quad.norm[quad.norm != 0]
    if norms.size and not (norms.min() >= SMALLEST_NORM and norms.max() <= _LARGEST_NORM):
        raise OutOfRange(
            f"the atoms have values of size {norms.min():.0e} to {norms.max():.0e}, which leave "
            "the range of float64: give X in other units."
        )


def _evidence(
    state: State | DiagonalState, quad: AnyQuadratic, estimated: bool, prior: Hyperprior
) -> Evidence:
    """Keep what scores other variances and another noise than the best."""
    mu = state.mu
    # |t - Phi mu|^2 = t't - g'mu - noise mu'P mu, as G mu = g - noise P mu
    explained = float(np.vdot(quad.g[state.active], mu))
    explained += state.noise_var * float(np.vdot(mu / state.v[:, None], mu))
    return Evidence(quad.n, max(quad.tt - explained, 0.0), estimated, prior)


def _posterior(
    state: State | DiagonalState,
    quad: AnyQuadratic,
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
