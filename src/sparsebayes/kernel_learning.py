"""Learned kernels: atoms and the parameters of their kernels, to a joint optimum.

Tipping (2001, appendix C) leaves open how to combine the two. Here:

1. Begin with the parameters that are best where all atoms share one variance
   (`shared_variance.first_theta`), or with those given, whichever gives the better fit.
2. Fit: the whole solver, over all atoms, with the parameters held.
3. Tune: with the active atoms alone, maximize over the parameters the objective that is itself
   maximized over variances and noise. At its maximum over these the derivative of the objective
   in the parameters is the whole derivative, so each is exact; atoms may leave, none comes in.
4. Fit again, from there. Repeat 3 and 4 until neither gains.

A width of each input has a prior, in a regression with kernels that are a covariance: it begins
with the widths of the Gaussian process of that covariance, and their log density is part of the
objective (`process_widths`). Without it the joint optimum predicts worse than any of its starts.

A model whose atoms explain the noise, as narrow kernels can, is never gone on to from one whose
atoms do not. Laplace's variances are a balance rather than a maximum, and their derivatives count.
No step lowers the objective, and where it stops no single atom, no variance, nor the noise, nor any
parameter can raise it: the certificate holds for all of them.
"""

from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, minimize

from sparsebayes.dictionaries import Tunable
from sparsebayes.dictionaries._protocol import Matrix
from sparsebayes.problem import Solution, Status
from sparsebayes.process_widths import WidthPrior
from sparsebayes.shared_variance import Targets, first_theta

FloatArray = NDArray[np.float64]

__all__ = [
    "Fit",
    "Learned",
    "Model",
    "Profile",
    "Tuned",
    "fit_kernels",
    "learn",
    "learns",
    "projected",
    "with_same",
]

_SOUND = 0.4  # degrees of freedom, as a share of the samples, beyond which atoms explain noise
_CHARGE = 0.5  # nats that a fitted variance adds to the evidence where there is nothing to explain
_ROUNDS = 40
_IDLE = 2  # of them that gain nothing, though a derivative is left
_STEPS, _EVALUATIONS = 60, 100  # of one tuning
_ALIKE = 0.1  # log parameters that are not worth two fits
_AT_BOUND = 1e-9  # of a log parameter
_POLISHES, _HALVINGS = 8, 4
_DIFFERENCE = 1e-4  # between log parameters, to see how gradients change
_LONGEST = 1.0  # longest step of a polish
_NOISE, _MOST = 4.0, 1e-3  # factor by which rounding may exceed what was seen of it; in nats
_ROUNDING = 1e-9  # relative to the objective, what a step may seem to lose
_TIGHT = 0.5  # of what the certificate allows, for the derivative where tuning ends


class Tuned(NamedTuple):
    """The best point that a tuning has seen."""

    objective: float
    theta: FloatArray  # (P,)
    start: Any  # where a fit of all atoms goes on from, as the model understands it
    rounding: float = 0.0  # error of the objective in float64, as far as it was seen


class Profile(Protocol):
    """The objective of a few atoms as a function of their parameters alone."""

    best: Tuned | None
    last: Tuned | None  # where it was evaluated last, unless float64 could not

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Objective, maximized over all else, and its derivatives; remember the best."""


class Fit(Protocol):
    """A fit of all atoms, their parameters held."""

    @property
    def solution(self) -> Solution:
        """State, status and iterations."""


F = TypeVar("F", bound=Fit)


class Model(Protocol[F]):
    """What is fitted: data, a likelihood and a hyperprior."""

    @property
    def X(self) -> Matrix:
        """Training rows, (N, d), no two of them one sample."""

    def fit(self, atoms: Any, start: Any) -> F:
        """Fit all atoms, their parameters held; ``start`` is None or from a `Tuned`."""

    def profile(self, atoms: Any, fit: F) -> Profile:
        """The active atoms of a fit alone."""

    def gradient(self, atoms: Any, fit: F) -> FloatArray:
        """Derivative of the objective in the parameters, at the fit."""


@dataclass(frozen=True)
class Learned(Generic[F]):
    """Atoms with the parameters found, the fit with them, and what holds there."""

    atoms: Any
    fit: F
    slope: float = 0.0  # largest derivative in a log parameter that no bound holds
    held: tuple[str, ...] = ()  # parameters that a bound holds
    n_iter: int = 0  # iterations of all fits
    narrowing: bool = False  # atoms that explain the noise would be better still
    log_prior: float = 0.0  # log density of the parameters

    @property
    def objective(self) -> float:
        """What is maximized: by the fit, and by the parameters too."""
        return self.fit.solution.state.objective + self.log_prior

    @property
    def dof(self) -> float:
        """Degrees of freedom of the fit."""
        return float(self.fit.solution.state.dof.sum())

    @property
    def is_done(self) -> bool:
        """Whether nothing can be learned from the fit: no atom, or no more iterations."""
        solution = self.fit.solution
        ended = solution.status in (Status.MAX_ITER, Status.BREAKDOWN)
        return ended or not solution.state.active.size


def learns(atoms: Any) -> bool:
    """Whether atoms have parameters that a fit is to learn.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.dictionaries import Kernel
    >>> X = np.eye(2)
    >>> learns(Kernel("rbf", gamma="ard").bind(X)), learns(Kernel("rbf").bind(X))
    (True, False)
    """
    return isinstance(atoms, Tunable) and len(atoms.theta) > 0


def with_same(atoms: Any, theta: FloatArray) -> Any:
    """Atoms with the parameters of an earlier fit; as they are if those were others.

    Parameters
    ----------
    atoms : Tunable atoms
        Of a new fit.
    theta : ndarray of shape (P,)
        Parameters of the earlier one.

    Returns
    -------
    Tunable atoms
        The same centers.
    """
    if len(theta) != len(atoms.theta):
        return atoms
    return atoms.with_theta(_inside(theta, atoms.bounds))


def fit_kernels(
    model: Model[F],
    atoms: Any,
    targets: Targets,
    tol: float,
    start: Any = None,
    prior: WidthPrior | None = None,
) -> tuple[Any, F, Solution]:
    """Fit atoms, their variances, the noise and the parameters of their kernels.

    Parameters
    ----------
    model : Model
        What is fitted.
    atoms : Tunable atoms
        All atoms, with the parameters to begin with.
    targets : Targets
        The data, or numbers that stand for them, as the first search for parameters takes them.
    tol : float
        What the certificate is held to.
    start : object or None
        Where an earlier fit ended, with the parameters that ``atoms`` have.
    prior : WidthPrior or None
        Prior of the parameters.

    Returns
    -------
    atoms : Tunable atoms
        With the parameters found.
    fit : F
        The last fit.
    solution : Solution
        Its solution, with what is known about the parameters in its certificate and status.
    """
    begins = [atoms.theta]
    if start is None and prior is not None:
        begins = [prior.center]
    elif start is None:
        begins = [first_theta(atoms, model.X, targets), atoms.theta]
    learned = learn(model, atoms, begins, tol, start, prior)
    return learned.atoms, learned.fit, learned.fit.solution.with_kernels(learned, tol)


def learn(
    model: Model[F],
    atoms: Any,
    begins: list[FloatArray],
    tol: float,
    start: Any = None,
    prior: WidthPrior | None = None,
) -> Learned[F]:
    """Fit atoms and learn their parameters.

    Parameters
    ----------
    model : Model
        What is fitted.
    atoms : Tunable atoms
        All atoms.
    begins : list of ndarray of shape (P,)
        Parameters to begin with: all are fitted, and the best fit is gone on from.
    tol : float
        Nats that may be left on the table; derivatives are held to its root.
    start : object or None
        Where the first fits start, as the model understands it.
    prior : WidthPrior or None
        Prior of the parameters.

    Returns
    -------
    Learned
        Atoms, fit and what holds there; not below the first fit that it goes on from.
    """
    best, spent = _first(model, atoms, begins, tol, start, prior)
    idle = 0
    for _ in range(_ROUNDS):
        if best.is_done or best.narrowing or idle == _IDLE:
            break
        height = best.objective
        profile = model.profile(best.atoms, best.fit)
        if prior is not None:
            profile = _WithPrior(profile, prior)
        tuned = _tune(profile, best.atoms, _TIGHT * tol**0.5)
        if tuned is None:
            break
        excused = max(tol, _ROUNDING * (1.0 + abs(height)), tuned.rounding)
        if tuned.objective < height - excused:
            break
        moved = best.atoms.with_theta(tuned.theta)
        again = _judged(model, moved, model.fit(moved, tuned.start), tol, prior)
        spent += again.fit.solution.n_iter
        gained = again.objective - height
        if gained < -excused or (gained < 0 and again.slope >= best.slope):
            break
        if again.dof > _SOUND * model.X.shape[0]:
            best = replace(best, narrowing=True)
            break
        best = again
        if best.slope <= _TIGHT * tol**0.5:
            break  # nothing came in that would have moved the parameters again
        if gained <= tol:
            if best.slope <= tol**0.5:
                break
            idle += 1
    return replace(best, n_iter=spent)


def _first(
    model: Model[F],
    atoms: Any,
    begins: list[FloatArray],
    tol: float,
    start: Any,
    prior: WidthPrior | None,
) -> tuple[Learned[F], int]:
    """The best sound fit to begin with, or the least unsound; iterations of all."""
    near: list[FloatArray] = []
    for theta in begins:
        inside = _inside(theta, atoms.bounds)
        if all(np.abs(inside - other).max() > _ALIKE for other in near):
            near.append(inside)
    fits = [
        _judged(model, own, model.fit(own, start), tol, prior)
        for own in map(atoms.with_theta, near)
    ]
    sound = [one for one in fits if one.dof <= _SOUND * model.X.shape[0]]
    if sound:
        best = max(sound, key=lambda one: one.objective - _CHARGE * one.dof)
    else:
        best = replace(min(fits, key=lambda one: one.dof), narrowing=True)
    return best, sum(one.fit.solution.n_iter for one in fits)


def _judged(
    model: Model[F], atoms: Any, fit: F, tol: float, prior: WidthPrior | None
) -> Learned[F]:
    """A fit, and what is left to learn there."""
    density, slope = (0.0, 0.0) if prior is None else prior(atoms.theta)
    found = Learned(atoms, fit, log_prior=density)
    if found.is_done:
        return found
    gradient = model.gradient(atoms, fit) + slope
    free, held = projected(gradient, atoms.theta, atoms.bounds, tol**0.5)
    labels = tuple(label for label, at in zip(atoms.labels, held, strict=True) if at)
    return replace(found, slope=float(np.abs(gradient[free]).max(initial=0.0)), held=labels)


class _WithPrior:
    """A profile with the prior of its parameters."""

    def __init__(self, profile: Profile, prior: WidthPrior) -> None:
        self.profile, self.prior = profile, prior
        self.best: Tuned | None = None
        self.last: Tuned | None = None

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Log posterior of the parameters, and its derivatives."""
        value, gradient = self.profile(theta)
        density, slope = self.prior(theta)
        last = self.profile.last
        self.last = None if last is None else last._replace(objective=last.objective + density)
        if self.last and (self.best is None or self.last.objective > self.best.objective):
            self.best = self.last
        return value + density, gradient + slope


def projected(
    gradient: FloatArray, theta: FloatArray, bounds: FloatArray, least: float
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Parameters that are free, and those that a bound holds against a derivative.

    Parameters
    ----------
    gradient, theta : ndarray of shape (P,)
        Derivatives of the objective, and where.
    bounds : ndarray of shape (P, 2)
        Lowest and highest values.
    least : float
        Derivatives up to this are none: an input that has turned out irrelevant rests at its
        lower bound, and nothing pushes it any further.

    Returns
    -------
    free, held : ndarray of bool of shape (P,)
        Each parameter is one of these, or at a bound and at rest.

    Examples
    --------
    >>> import numpy as np
    >>> bounds = np.array([[-1.0, 1.0]] * 3)
    >>> theta = np.array([0.0, 1.0, 1.0])
    >>> projected(np.array([0.1, 0.1, -0.1]), theta, bounds, 0.001)
    (array([ True, False,  True]), array([False,  True, False]))
    """
    low, high = bounds.T
    outward = ((theta <= low + _AT_BOUND) & (gradient < 0)) | (
        (theta >= high - _AT_BOUND) & (gradient > 0)
    )
    return ~outward, outward & (np.abs(gradient) > least)


def _tune(profile: Profile, atoms: Any, enough: float) -> Tuned | None:
    """Climb the profile from the parameters of ``atoms``, within their bounds."""

    def loss(theta: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = profile(theta)
        return -value, -gradient

    minimize(
        loss,
        _inside(atoms.theta, atoms.bounds),
        jac=True,
        method="L-BFGS-B",
        bounds=Bounds(*atoms.bounds.T),
        options={
            "maxiter": _STEPS,
            "maxfun": _EVALUATIONS,
            "gtol": enough,
            "ftol": 1e-13,
            "maxcor": 20,
            "maxls": 10,
        },
    )
    if profile.best is None:
        return None
    return _polished(profile, profile.best, atoms.bounds, enough)


def _polished(profile: Profile, tuned: Tuned, bounds: FloatArray, enough: float) -> Tuned:
    """Newton steps on the gradient alone: near a sharp maximum float64 cannot see the rest rise.

    The Hessian is made of differences of exact gradients. What they say of the rise in between, and
    the values do not, is rounding of the values.
    """
    value, gradient = profile(tuned.theta)
    rounding = 0.0
    for _ in range(_POLISHES):
        free = np.flatnonzero(projected(gradient, tuned.theta, bounds, 0.0)[0])
        left = float(np.abs(gradient[free]).max(initial=0.0))
        if left <= enough:
            break
        H = np.empty((free.size, free.size))
        for row, k in zip(H, free, strict=True):
            moved = tuned.theta.copy()
            moved[k] += _DIFFERENCE if moved[k] < bounds[k].mean() else -_DIFFERENCE
            there, slope = profile(moved)
            row[:] = (slope - gradient)[free] / (moved[k] - tuned.theta[k])
            rise = 0.5 * float((slope + gradient) @ (moved - tuned.theta))
            if profile.last is not None:
                seen = _NOISE * abs(there - value - rise)
                rounding = min(max(rounding, seen), _MOST)
        bends, axes = np.linalg.eigh(-0.5 * (H + H.T))
        step = np.zeros_like(gradient)
        step[free] = axes @ ((axes.T @ gradient[free]) / np.maximum(np.abs(bends), left))
        step *= min(1.0, _LONGEST / float(np.abs(step).max()))
        slack = max(_ROUNDING * (1.0 + abs(value)), rounding)
        for _ in range(_HALVINGS):
            theta = _inside(tuned.theta + step, bounds)
            reached, slope = profile(theta)
            outside = ~projected(slope, theta, bounds, 0.0)[0]
            calmer = float(np.abs(np.where(outside, 0.0, slope)).max()) < left
            if profile.last is not None and (
                reached > value + slack or (calmer and reached > value - slack)
            ):
                break
            step *= 0.5
        else:
            break
        assert profile.last is not None  # the loop has seen to it
        tuned, value, gradient = profile.last, reached, slope
    return tuned._replace(rounding=rounding)


def _inside(theta: FloatArray, bounds: FloatArray) -> FloatArray:
    return np.clip(theta, bounds[:, 0], bounds[:, 1])
