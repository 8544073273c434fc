"""What is to be solved, and what a solver returns."""

import enum
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from sparsebayes.core.quadratic import Quadratic
from sparsebayes.diagonal import DiagonalState
from sparsebayes.engine import Screen, State, refresh, resolved, screen
from sparsebayes.hyperpriors import Hyperprior
from sparsebayes.implicit import SampledState
from sparsebayes.solvers.newton import Noise, curvature, derivatives, held_slope, is_floored

__all__ = ["Certificate", "Problem", "Progress", "Solution", "Status", "certify"]

_NOISE_FLOOR = 1e-9
_COLLAPSE = 0.8
SAFELY = 10.0
"""Of the rounding of one factorization: gains and slopes come of several steps after it."""
_ALLOWED = 0.3  # nats, or slope, that rounding excuses: where it is worse nothing is certain


class Progress(NamedTuple):
    """One line of a fit's trace."""

    phase: str
    iteration: int
    n_active: int
    objective: float
    noise_var: float
    max_gain: float


class Status(enum.Enum):
    """How a fit ended; the text is the advice."""

    CONVERGED = "converged: no single change of the model gains anything."
    SETTLED = (
        "settled: neither the weights nor the noise change any more. The certificate's gain and "
        "gradient are estimates from draws of the posterior, its curvature is not known."
    )
    COLLAPSED = (
        "the model explains the data almost completely and the noise estimate has collapsed: it is "
        'probably overfitted. Use a stronger prior (prior="bic" or "ric"), give noise_variance, or '
        "choose fewer or smoother atoms."
    )
    NOISE_FLOOR = (
        "the noise estimate reached its floor: the model fits the data to rounding. If the data "
        "are noisy, give noise_variance or use a stronger prior."
    )
    MAX_ITER = "max_iter was reached before the certificate held: increase max_iter or tol."
    STALLED = (
        "no further progress was possible in double precision before the certificate held: the "
        "atoms are nearly collinear. Increase tol, use fewer or narrower atoms, or give "
        "noise_variance."
    )
    UNSETTLED = (
        "expansions of the likelihood at successive modes disagree about single atoms (the "
        "certificate's max_gain) or about their variances (gradient_norm, max_curvature): the "
        "model is as good as Laplace's approximation can tell. Increase tol, or use another prior "
        "or more data."
    )
    UNTUNED = (
        "the parameters of the kernel had not settled when the fit ended: the certificate's "
        "kernel_gradient says how steep the objective still is in their logarithms. Use fewer of "
        'them (gamma="evidence" for "ard"), a stronger prior, or a larger tol.'
    )
    NARROWING = (
        "the evidence goes on rising towards kernels so narrow that they explain the noise: the "
        'last sound model was kept. Use a stronger prior (prior="aic" or "bic"), or give gamma.'
    )
    INTERRUPTED = (
        "the fit was interrupted: this is the last model it had, and its certificate does not "
        "hold. If it had a checkpoint, a fit with resume=True goes on from it."
    )
    BREAKDOWN = (
        "a factorization failed and the last good state was kept: the atoms are too nearly "
        "collinear. Use fewer or narrower atoms, or give noise_variance."
    )


_GOOD = (Status.CONVERGED, Status.SETTLED)


@dataclass(frozen=True)
class Problem:
    """Data and likelihood as a quadratic, and a hyperprior.

    Parameters
    ----------
    quad : Quadratic
        The quadratic of all atoms.
    hyperprior : Hyperprior
        Prior of the variances.
    noise_var : float or None
        Noise variance, or None to estimate it.
    copies : float
        Weight of the rows beyond one each, which tells of no more atoms.
    """

    quad: Quadratic
    hyperprior: Hyperprior
    noise_var: float | None = None
    copies: float = 0.0

    @property
    def n_targets(self) -> int:
        """Number of targets that share the atoms."""
        return int(self.quad.g.shape[1])

    @property
    def power(self) -> float:
        """Variance of the targets about their mean, whether or not an intercept is fitted."""
        return self.quad.spread / self.n_targets

    def noise(self, fraction: float = 1.0) -> Noise:
        """Return the noise to start from: the given one, or a fraction of the targets' power."""
        eps = float(np.finfo(float).eps)
        rounding = eps * self.quad.tt / (self.n_targets * max(self.quad.n, 1.0))
        floor = max(_NOISE_FLOOR * self.power, rounding, eps**2)
        if self.noise_var is not None:
            return Noise(self.noise_var, False, floor)
        return Noise(max(fraction * self.power, floor), True, floor)

    def is_collapsed(self, state: State | DiagonalState | SampledState) -> bool:
        """Whether an estimated noise has been explained away by nearly as many atoms as rows."""
        own = self.quad.n - self.copies
        return self.noise_var is None and float(state.dof.sum()) > _COLLAPSE * own

    def verdict(
        self, state: State | DiagonalState | SampledState, noise: Noise, ended: Status
    ) -> Status:
        """Return the most useful advice about a state at which a solver ended."""
        if self.is_collapsed(state):
            return Status.COLLAPSED
        at_floor = noise.estimated and state.noise_var <= noise.floor * (1 + 1e-6)
        return Status.NOISE_FLOOR if at_floor and ended in _GOOD else ended


@dataclass(frozen=True)
class Certificate:
    """What is known about an answer, over the whole dictionary unless ``fraction`` is below one.

    Attributes
    ----------
    max_gain : float
        Largest gain, in nats, of adding, deleting or re-estimating any single atom.
    gradient_norm : float
        Largest derivative of the objective in any log variance or the log noise. At a bound it is
        the projected gradient: an estimated noise that its floor holds, and that would only fall
        further, counts with nothing here but in ``noise_gradient``.
    max_curvature : float
        Largest eigenvalue of the Hessian in these parameters; above zero it is a saddle.
    rounding : float
        Most by which float64 may have moved these figures and the evidence: large where atoms are
        nearly collinear or the noise is tiny beside the targets, and only their squares are known.
    kernel_gradient : float
        Largest derivative of the objective in the logarithm of a kernel's parameter that was
        learned and that no bound holds; zero where none was.
    fraction : float
        Fraction of the dictionary, drawn at random, that the gain is the largest of; one where it
        is that of every atom.
    noise_gradient : float
        How steeply the objective still rises as the log noise falls, where its floor holds the
        noise: at that bound it may. Zero where no floor holds it.
    """

    max_gain: float
    gradient_norm: float
    max_curvature: float
    rounding: float = 0.0
    kernel_gradient: float = 0.0
    fraction: float = 1.0
    noise_gradient: float = 0.0

    def holds(self, tol: float) -> bool:
        """Whether this is a maximum up to ``tol`` nats, as far as float64 and the draw can tell."""
        error = min(self.rounding, _ALLOWED)
        return (
            self.max_gain <= tol + error
            and self.gradient_norm <= tol**0.5 + error
            and self.max_curvature <= tol**0.5 + error
            and self.kernel_gradient <= tol**0.5 + error
        )


class Kernels(Protocol):
    """What is known about parameters of kernels that were learned."""

    @property
    def slope(self) -> float:
        """Largest derivative in one of them that no bound holds."""

    @property
    def held(self) -> tuple[str, ...]:
        """Those that a bound holds."""

    @property
    def n_iter(self) -> int:
        """Iterations of all fits."""

    @property
    def narrowing(self) -> bool:
        """Whether other parameters would end in a collapse."""


@dataclass(frozen=True)
class Solution:
    """What every solver returns."""

    state: State | DiagonalState | SampledState
    noise: Noise
    status: Status
    certificate: Certificate
    converged: bool  # whether the certificate holds; of a `SampledState`, whether it is settled
    n_iter: int
    trace: tuple[Progress, ...] = field(repr=False, default=())
    held: tuple[str, ...] = ()  # learned parameters of kernels that a bound holds
    quad: Any = field(repr=False, compare=False, default=None)
    """The last expansion of a likelihood, which the state is of, until it is concluded."""

    def with_kernels(self, learned: "Kernels", tol: float) -> Self:
        """The same where parameters of kernels were learned too.

        Parameters
        ----------
        learned : Kernels
            What is known about them, such as `fit.learned_kernels.Learned`.
        tol : float
            What the certificate is held to.

        Returns
        -------
        Solution
            With all of it in the certificate and the status.
        """
        certificate = replace(self.certificate, kernel_gradient=learned.slope)
        converged = self.converged and certificate.holds(tol) and not learned.narrowing
        status = self.status
        if status is Status.CONVERGED and not converged:
            status = Status.NARROWING if learned.narrowing else Status.UNTUNED
        return replace(
            self,
            certificate=certificate,
            converged=converged,
            status=status,
            n_iter=learned.n_iter,
            held=learned.held,
        )

    @property
    def log_evidence(self) -> float:
        """Log marginal likelihood of the data."""
        return self.state.log_evidence


Report = Callable[[Progress], None]


def certify(problem: Problem, state: State, noise: Noise) -> tuple[Certificate, Screen]:
    """Certify a state over the whole dictionary.

    Parameters
    ----------
    problem : Problem
        The problem.
    state : State
        A state computed from definitions.
    noise : Noise
        Whether the noise is a parameter, and its floor.

    Returns
    -------
    Certificate
        Largest gain, gradient and curvature.
    Screen
        The statistics it rests on.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.engine import refresh
    >>> from sparsebayes.hyperpriors import Flat
    >>> from sparsebayes.core.quadratic import Gram
    >>> gram = Gram(np.eye(2), np.array([[3.0], [0.1]]), tt=9.5, n=10.0, spread=1.0)
    >>> problem = Problem(gram, Flat(), noise_var=1.0)
    >>> state = refresh(gram, Flat(), np.array([0]), np.array([8.0]), noise_var=1.0)
    >>> certify(problem, state, problem.noise())[0].holds(1e-6)
    True
    """
    # Gains of atoms so nearly in the span of the model that S is rounding are not gains: S is told
    # from it by the columns themselves, where they are known.
    least = resolved(problem.quad, state.white)
    statistics = screen(problem.quad, problem.hyperprior, state, least, sharp=True)
    gram = problem.quad.gram(state.active)
    noise = noise._replace(var=state.noise_var)
    slope, bend = 0.0, -np.inf
    if state.active.size:
        gradient, hessian = derivatives(gram, problem.hyperprior, state.v, noise, state.white)
        slope, bend = float(np.abs(gradient).max()), curvature(hessian)[0]
    elif noise.estimated:
        downhill = 0.5 * (problem.quad.tt / noise.var - problem.n_targets * problem.quad.n)
        slope = max(downhill, 0.0) if is_floored(noise) else abs(downhill)
    held = held_slope(gram, problem.hyperprior, state.v, noise, state.white)
    max_gain = max(float(statistics.gains.max(initial=0.0)), 0.0)
    rounding = SAFELY * state.white.rounding
    return Certificate(max_gain, slope, bend, rounding, noise_gradient=-held), statistics


def empty_state(problem: Problem, noise_var: float) -> State:
    """Return the model without atoms."""
    none = np.empty(0, dtype=np.intp)
    return refresh(problem.quad, problem.hyperprior, none, np.empty(0), noise_var)
