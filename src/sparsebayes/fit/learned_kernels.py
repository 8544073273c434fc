"""Learn kernel widths jointly with the atoms: ``gamma="evidence"``, ``gamma="ard"``.

The objective is that of the fit, log evidence plus log hyperprior, plus a normal prior of the log
widths around those that `widths.find_widths` finds. Widths that are free to please a dozen atoms
become narrower than is good: the evidence rises, and so does the test error.

1. Fit all atoms with the widths found.
2. Tune: with the active atoms alone, climb the objective, maximized over variances and noise, as a
   function of the widths. At that maximum its derivative in them is exact (Tipping 2001, appendix
   C). Atoms may leave, none comes in.
3. Fit all atoms again from there, and repeat until neither gains.

Where there is almost no noise the widths found are held: the evidence is too sharp in them for
float64 to climb, and a few atoms would decide.

No step lowers the objective. The certificate then holds for atoms, variances, noise and widths.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import fsolve

from sparsebayes._samples import copies
from sparsebayes.core.quadratic import AnyQuadratic
from sparsebayes.core.stored import StoredQuadratic
from sparsebayes.dictionaries._protocol import Matrix, OutOfRange
from sparsebayes.engine import Breakdown, State, refresh
from sparsebayes.evidence_gradient import gaussian_gradient, latent_profile_gradient
from sparsebayes.fit.widths import Loss, Targets, climb, find_widths
from sparsebayes.hyperpriors import Hyperprior
from sparsebayes.laplace import Latent
from sparsebayes.problem import Problem, Solution, Status
from sparsebayes.solvers.expand import Fit as Account
from sparsebayes.solvers.expand import LatentProblem, Part, Point, expand, settle
from sparsebayes.solvers.newton import newton

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]
Start = tuple[IndexArray, FloatArray, float]  # active atoms, their variances, noise variance


class Tolerances(NamedTuple):
    """Every number of the joint climb."""

    spread: float = 0.1  # standard deviation of the prior of log widths
    quiet: float = 1e-4  # noise, as a fraction of the targets' power, below which widths are held
    rounds: int = 20  # of tuning and fitting
    idle: int = 2  # of them that gain nothing though a derivative is left
    steps: int = 60  # of one tuning
    tight: float = 0.5  # of the slope that the certificate allows, where a tuning ends
    rounding: float = 1e-6  # relative to the objective, what a step may seem to lose
    at_bound: float = 1e-9  # of a log width
    fine: float = 1e-9  # nats that Newton's method leaves to the variances
    fine_latent: float = 1e-7  # nats that mode and variances leave to each other
    turns: int = 1000  # Newton steps of one evaluation, at most


TOLERANCES = Tolerances()


class Tuned(NamedTuple):
    """A point of a tuning."""

    objective: float
    slope: FloatArray  # (P,)
    start: Any  # where a fit of all atoms goes on from, as the model understands it


class Fitted(Protocol):
    """A fit of all atoms, their widths held."""

    @property
    def solution(self) -> Solution:
        """State, status and iterations."""


F = TypeVar("F", bound=Fitted)


class Model(Protocol[F]):
    """What is fitted: data, a likelihood and a hyperprior."""

    def fit(self, atoms: Any, start: Any) -> F:
        """Fit all atoms, their widths held; ``start`` is None or from a `Tuned`."""

    def profile(self, atoms: Any, fit: F) -> Callable[[FloatArray], Tuned]:
        """Objective of the active atoms of a fit, as a function of the log widths."""

    def gradient(self, atoms: Any, fit: F) -> FloatArray:
        """Derivative of the objective in the log widths, at the fit."""


@dataclass(frozen=True)
class Learned(Generic[F]):
    """Atoms with the widths found, the fit with them, and what holds there."""

    atoms: Any
    fit: F
    log_prior: float = 0.0  # log density of the widths
    slope: float = 0.0  # largest derivative in a log width that no bound holds
    held: tuple[str, ...] = ()  # widths that a bound holds
    n_iter: int = 0  # iterations of all fits
    narrowing: bool = False  # whether better widths would end in a collapse

    @property
    def objective(self) -> float:
        """What is maximized: by the fit, and by the widths too."""
        return self.fit.solution.state.objective + self.log_prior


def with_same(atoms: Any, theta: FloatArray) -> Any:
    """Atoms with the widths of an earlier fit; as they are if those were others."""
    return atoms.with_theta(np.clip(theta, *atoms.bounds.T)) if _same(atoms, theta) else atoms


def fit_kernels(
    model: Model[F],
    atoms: Any,
    X: Matrix,
    targets: Targets,
    tol: float,
    start: Any = None,
    theta: FloatArray | None = None,
) -> tuple[Any, F, Solution]:
    """Fit atoms, their variances, the noise and the widths of their kernels.

    ``X`` and ``targets`` are the sample that the prior of the widths is made of; ``start`` and
    ``theta`` are where an earlier fit ended. The solution's certificate and status know of the
    widths.
    """
    found = find_widths(atoms, X, targets)
    held = _named(atoms, projected(found.rise, found.theta, atoms.bounds, tol**0.5)[1])
    if found.noise < TOLERANCES.quiet:
        atoms = atoms.with_theta(found.theta)
        fit = model.fit(atoms, start)
        learned = Learned(atoms, fit, n_iter=fit.solution.n_iter)
    else:
        begin = found.theta if start is None or theta is None or not _same(atoms, theta) else theta
        learned = learn(model, atoms.with_theta(begin), found.theta, tol, start)
    learned = replace(learned, held=tuple(dict.fromkeys(held + learned.held)))
    return learned.atoms, learned.fit, learned.fit.solution.with_kernels(learned, tol)


def learn(
    model: Model[F], atoms: Any, center: FloatArray, tol: float, start: Any = None
) -> Learned[F]:
    """Fit atoms and learn their widths, from those they have, under a prior around ``center``."""

    def judged(atoms: Any, start: Any) -> Learned[F]:
        fit = model.fit(atoms, start)
        density, slope = _log_prior(atoms.theta, center)
        found = Learned(atoms, fit, density)
        if fit.solution.status in (Status.MAX_ITER, Status.BREAKDOWN):
            return found
        if fit.solution.state.active.size:
            slope = slope + model.gradient(atoms, fit)
        free, held = projected(slope, atoms.theta, atoms.bounds, enough)
        left = float(np.abs(slope[free]).max(initial=0.0))
        return replace(found, slope=left, held=_named(atoms, held))

    enough = tol**0.5
    best = judged(atoms, start)
    spent, idle = best.fit.solution.n_iter, 0
    for _ in range(TOLERANCES.rounds):
        if best.slope <= TOLERANCES.tight * enough or idle == TOLERANCES.idle:
            break
        if not best.fit.solution.state.active.size:
            break
        profile = model.profile(best.atoms, best.fit)

        def loss(theta: FloatArray, profile: Any = profile) -> tuple[float, FloatArray]:
            tuned = profile(theta)
            density, slope = _log_prior(theta, center)
            return -tuned.objective - density, -tuned.slope - slope

        tight = TOLERANCES.tight * enough
        bounds = best.atoms.bounds
        value, theta = climb(loss, best.atoms.theta, bounds, tight, TOLERANCES.steps, 1e-14)
        value, theta = _at_rest(loss, value, theta, bounds, tight)
        excused = max(tol, TOLERANCES.rounding * (1.0 + abs(best.objective)))
        if not -value >= best.objective - excused:
            break
        again = judged(best.atoms.with_theta(theta), profile(theta).start)
        spent += again.fit.solution.n_iter
        if _collapsed(again) and not _collapsed(best):
            best = replace(best, narrowing=True)
            break
        gained = again.objective - best.objective
        if gained < -excused or (gained < 0 and again.slope >= best.slope):
            break
        best = again
        idle += gained <= tol
    return replace(best, n_iter=spent)


def _at_rest(
    loss: Loss, value: float, theta: FloatArray, bounds: FloatArray, enough: float
) -> tuple[float, FloatArray]:
    """Where the slope vanishes beside the end of a climb.

    Near a sharp optimum float64 cannot see the loss fall any more, but its slope.
    """
    slope = loss(theta)[1]
    free = np.flatnonzero(projected(-slope, theta, bounds, 0.0)[0])
    left = np.abs(slope[free]).max(initial=0.0)
    if left <= enough:
        return value, theta

    def moved(part: FloatArray) -> FloatArray:
        whole = theta.copy()
        whole[free] = part
        return np.clip(whole, *bounds.T)

    def left_of(part: Any) -> Any:
        return loss(moved(part))[1][free]

    try:
        end = fsolve(
            left_of,
            theta[free],
            maxfev=TOLERANCES.steps,
            factor=0.1,
            epsfcn=1e-8,
            full_output=True,
        )[0]
        reached, slope = loss(moved(end))
    except (Breakdown, OutOfRange):
        return value, theta
    excused = TOLERANCES.rounding * (1.0 + abs(value))
    if reached <= value + excused and np.abs(slope[free]).max() < left:
        return reached, moved(end)
    return value, theta


def projected(
    gradient: FloatArray, theta: FloatArray, bounds: FloatArray, least: float
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Parameters that are free, and those that a bound holds against a derivative above ``least``.

    Each is one of these, or at a bound and at rest: so is an input that has turned out irrelevant.
    """
    low, high = bounds.T
    outward = ((theta <= low + TOLERANCES.at_bound) & (gradient < 0)) | (
        (theta >= high - TOLERANCES.at_bound) & (gradient > 0)
    )
    return ~outward, outward & (np.abs(gradient) > least)


def _log_prior(theta: FloatArray, center: FloatArray) -> tuple[float, FloatArray]:
    """Log density of log widths but for a constant, and its slope."""
    moved = (theta - center) / TOLERANCES.spread
    return -0.5 * float(moved @ moved), -moved / TOLERANCES.spread


def _collapsed(one: Learned[Any]) -> bool:
    return one.fit.solution.status is Status.COLLAPSED


def _named(atoms: Any, held: NDArray[np.bool_]) -> tuple[str, ...]:
    return tuple(label for label, at in zip(atoms.labels, held, strict=True) if at)


def _same(atoms: Any, theta: FloatArray) -> bool:
    return len(theta) == len(atoms.theta)


# Regression with Gaussian noise


class GaussianFit(NamedTuple):
    """A fit of all atoms, and the quadratic that it is of."""

    quad: StoredQuadratic
    solution: Solution


class GaussianModel(NamedTuple):
    """A `Model`; ``quadratic`` makes the quadratic of atoms, ``solve`` solves a problem."""

    X: Matrix
    t: FloatArray  # (N, T)
    hyperprior: Hyperprior
    noise_var: float | None
    quadratic: Callable[[Any], StoredQuadratic]
    solve: Callable[[Problem, Start | None], Solution]

    def fit(self, atoms: Any, start: Start | None) -> GaussianFit:
        """Fit all atoms, their widths held."""
        quad = self.quadratic(atoms)
        return GaussianFit(quad, self.solve(self.problem(quad), start))

    def problem(self, quad: StoredQuadratic) -> Problem:
        """The problem of a quadratic."""
        return Problem(quad, self.hyperprior, self.noise_var, copies(quad.products.weights))

    def gradient(self, atoms: Any, fit: GaussianFit) -> FloatArray:
        """Derivative of the objective in the log widths."""
        return self.slope(atoms.restrict(_state(fit).active), fit.quad, _state(fit))

    def slope(self, active: Any, quad: StoredQuadratic, state: State) -> FloatArray:
        """The same, of a state and its active atoms."""
        D = gaussian_gradient(quad, state, self.hyperprior, self.t)
        return np.asarray(active.pullback(self.X, D))

    def profile(self, atoms: Any, fit: GaussianFit) -> Callable[[FloatArray], Tuned]:
        """The active atoms alone, their variances and the noise maximized over by Newton."""
        state = _state(fit)
        active, few, v = state.active, atoms.restrict(state.active), state.v
        noise_var = state.noise_var

        # Always from the state of the fit: with a memory, the profile would be no function.
        def profile(theta: FloatArray) -> Tuned:
            now = few.with_theta(theta)
            quad = self.quadratic(now)
            noise = self.problem(quad).noise()
            if noise.estimated:
                noise = noise._replace(var=max(noise_var, noise.floor))
            usable = np.flatnonzero(quad.diag)
            end = newton(quad.gram(usable), self.hyperprior, v[usable], noise, tol=TOLERANCES.fine)
            kept = usable[end.kept]
            at = refresh(quad, self.hyperprior, kept, end.v, end.noise_var)
            slope = self.slope(now.restrict(kept), quad, at)
            return Tuned(at.objective, slope, (active[kept], at.v, at.noise_var))

        return profile


def _state(fit: Fitted) -> State:
    state = fit.solution.state
    assert isinstance(state, State)  # atoms with parameters to learn are not orthonormal
    return state


# Latent functions, by Laplace's approximation


class LatentFit(NamedTuple):
    """A fit of all atoms: solution, last expansion, and what it is of."""

    solution: Solution
    quad: AnyQuadratic
    latent: Latent


class LatentModel(NamedTuple):
    """A `Model`; ``latent`` makes the data and likelihood of some atoms."""

    X: Matrix
    hyperprior: Hyperprior
    latent: Callable[[Any], Latent]
    solve: Callable[[LatentProblem, Point | None], Solution]

    def fit(self, atoms: Any, start: Point | None) -> LatentFit:
        """Fit all atoms, their widths held."""
        latent = self.latent(atoms)
        found = self.solve(LatentProblem(latent, self.hyperprior), start)
        return LatentFit(replace(found, quad=None), found.quad, latent)

    def gradient(self, atoms: Any, fit: LatentFit) -> FloatArray:
        """Derivative of the objective in the log widths, mode and variances following."""
        return self.slope(atoms, fit.latent, fit.quad, _state(fit))

    def slope(self, atoms: Any, latent: Latent, quad: AnyQuadratic, state: State) -> FloatArray:
        """The same, of a state on an expansion."""
        active, D = latent_profile_gradient(latent, quad, state, self.hyperprior)
        return np.asarray(atoms.restrict(active).pullback(self.X, D))

    def profile(self, atoms: Any, fit: LatentFit) -> Callable[[FloatArray], Tuned]:
        """The active atoms alone, mode and variances settled."""
        state, quad = _state(fit), fit.quad
        norm = quad.norm[state.active * quad.group]
        whole = Point(state.active, state.v / norm**2)
        part = Part.of(fit.latent, whole)
        few, point = atoms.restrict(part.atoms), part.inside(whole)

        def profile(theta: FloatArray) -> Tuned:
            now = few.with_theta(theta)
            latent = self.latent(now)
            account = Account(latent, self.hyperprior, TOLERANCES.turns, None)
            settled = settle(account, latent, point, TOLERANCES.fine_latent)
            at = expand(latent, self.hyperprior, settled)
            end = part.outside(at.point)._replace(starts=())
            slope = np.zeros_like(theta)
            if at.state.active.size:
                slope = self.slope(now, latent, at.quad, at.state)
            return Tuned(at.state.objective, slope, end)

        return profile
