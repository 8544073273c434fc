"""Settling: mode and variances of the active atoms, in turn, until neither moves the other."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsebayes._hyperprior import lets_out
from sparsebayes.engine import Breakdown, State
from sparsebayes.hyperpriors import Flat, Hyperprior
from sparsebayes.laplace import LatentData
from sparsebayes.problem import Problem, Progress, Report
from sparsebayes.solvers.climb import Run
from sparsebayes.solvers.expansion import (
    FAINT,
    UNIT_NOISE,
    Expanded,
    Point,
    expand,
    halfway,
    inched,
    renumbered,
    restored,
)
from sparsebayes.solvers.explore import SAMPLE
from sparsebayes.solvers.newton import derivatives, newton

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = ["FARTHEST", "Fit", "settle"]

_STEPS = 5  # Newton steps on the variances between modes
_HELD = 60  # most Newton steps of a climb on one expansion
_TURNS = 24  # most turns of mode and variances before the next screen
_FULL_TURNS = 4  # turns after which steps are short
_IDLE = 1e-3  # nats for which an atom that leaves need not fade first
_BESIDE = 0.1  # fraction of the nats left on the table by which an expansion may miss its mode
_RETREATS = 8  # halvings of a step that falls
_FALL = 0.1  # relative to its objective, by what a new expansion may lie below the last one
FARTHEST, _NEAREST = 8.0, 0.5  # bounds of the step in log variances after a fall


@dataclass
class Fit:
    """One fit: what is given, and what has been spent."""

    latent: LatentData[Any]
    hyperprior: Hyperprior
    max_iter: int
    report: Report | None
    iterations: int = 0
    trace: list[Progress] = field(default_factory=list)
    reach: float = FARTHEST  # longest step in log variances that the last falls have left
    good: Expanded | None = None  # the best expansion so far over the whole dictionary

    @property
    def exhausted(self) -> bool:
        """Whether max_iter is used up."""
        return self.iterations >= self.max_iter

    def note(self, phase: str, state: State, max_gain: float) -> None:
        """Add a line to the trace and report it."""
        line = Progress(phase, self.iterations, state.active.size, state.objective, 1.0, max_gain)
        self.trace.append(line)
        if self.report is not None:
            self.report(line)

    def loose(self, tol: float) -> float:
        """Nats by which expansions may miss their modes, where as many as ``tol`` are left.

        Where an atom has its price, they disagree about single atoms enough at their modes.
        """
        return _BESIDE * tol if isinstance(self.hyperprior, Flat) else 0.0

    def run(self, problem: Problem) -> Run:
        """Let a solver of fixed quadratics work on this one, on the same account."""
        large = self.latent.n_atoms > 2 * SAMPLE
        return Run(problem, self.max_iter, None, large=large, iterations=self.iterations)

    def held(self, problem: Problem) -> Run:
        """The same in few steps: far from its mode an expansion promises what is not true."""
        run = self.run(problem)
        run.max_iter = min(run.max_iter, run.iterations + _HELD)
        return run

    def newton(
        self, at: Expanded, active: IndexArray, v: FloatArray, *, tol: float, max_steps: int
    ) -> State:
        """Newton steps on the variances of ``active``, the expansion held."""
        gram = at.quad.gram(active)
        end = newton(
            gram, self.hyperprior, v, UNIT_NOISE, tol=tol, max_steps=max_steps, escape=True
        )
        self.iterations += end.steps + 1
        return State(active[end.kept], end.v, 1.0, end.white, end.objective)


def settle(
    fit: Fit,
    latent: LatentData[Any],
    point: Point,
    tol: float,
    origin: Expanded | None = None,
    short: bool = False,
) -> Point:
    """Mode and variances of the active atoms in turn, until neither moves the other.

    Parameters
    ----------
    fit : Fit
        The account.
    latent : LatentData
        Data and likelihood.
    point : Point
        Where to start.
    tol : float
        Nats that may be left on the table.
    origin : Expanded or None
        The expansion that has led there, to retreat to.
    short : bool, default=False
        Whether to take short steps.

    Returns
    -------
    Point
        Fewer atoms, maybe, and none added.
    """
    per_atom = 1 if latent.shared else latent.K
    last = point if origin is None else origin.point
    height = -np.inf if origin is None else origin.state.objective
    atoms = np.unique(np.concatenate([last.active, point.active]) // per_atom)
    if not atoms.size:
        return point
    few = latent.restrict(atoms)
    best = renumbered(last, atoms, per_atom, latent.K)
    here = renumbered(point, atoms, per_atom, latent.K)
    if short:
        here = _balance(fit, few, _advance(fit, few, best, height, here), tol)
    unwanted = np.empty(0, dtype=np.intp)
    for turn in range(0 if short else _TURNS):
        at = _advance(fit, few, best, height, here, fit.loose(tol))
        best, height = at.point, at.state.objective
        end = fit.newton(at, at.state.active, at.state.v, tol=0.1 * tol, max_steps=_STEPS)
        here = at.moved(end)
        if end.objective - height < tol or fit.exhausted:
            break
        before, unwanted = unwanted, np.setdiff1d(at.state.active, end.active)
        if turn >= _FULL_TURNS:
            here = inched(at, here, 1.0 / (1.0 + turn / _FULL_TURNS), 0.5)
            if end.objective - height < _IDLE:  # two expansions agree: it need not fade on
                stays = np.isin(here.active, np.intersect1d(before, unwanted), invert=True)
                here = here._replace(active=here.active[stays], v=here.v[stays])
        elif fit.reach < FARTHEST:
            here = inched(at, here, fit.reach)
    return restored(here, atoms, per_atom, latent.K)


def _balance(fit: Fit, latent: LatentData[Any], at: Expanded, tol: float) -> Point:
    """Variances at which the gradient of their own expansion vanishes, by Broyden's method.

    The Hessian of an expansion does not know how the curvature of the likelihood moves with the
    mode; where that matters, turns of mode and variances circle around the balance. Broyden's
    updates learn it from the gradients seen. Atoms may leave, none is deleted for being worth
    nothing to a single expansion.
    """
    J: FloatArray | None = None
    step = before = np.empty(0)
    for _ in range(_TURNS):
        gram = at.quad.gram(at.state.active)
        gradient, H = derivatives(gram, fit.hyperprior, at.state.v, UNIT_NOISE, at.state.white)
        fit.iterations += 1
        stays = (at.state.v > FAINT) | (gradient > 0) | (not lets_out(fit.hyperprior))
        if not stays.all():
            point = at.point
            fewer = point._replace(active=point.active[stays], v=point.v[stays])
            at = expand(latent, fit.hyperprior, fewer, alone=True)
            J = None
            continue
        if J is not None and len(J) != gradient.size:  # an atom has lost its norm
            J = None
        if not gradient.size:
            break
        if J is not None:
            J = J + np.outer(gradient - before - J @ step, step) / float(step @ step)
        if J is None or not _climbs(J, gradient):
            values, vectors = np.linalg.eigh(H)
            J = -(vectors * np.maximum(np.abs(values), 1e-5)) @ vectors.T
        step = -np.linalg.solve(J, gradient)
        if 0.5 * float(gradient @ step) < tol or fit.exhausted:
            break
        step *= min(1.0, 1.0 / float(np.abs(step).max()))
        before = gradient
        moved = at.point._replace(v=at.point.v * np.exp(step))
        at = expand(latent, fit.hyperprior, moved, alone=True)
    return at.point


def _climbs(J: FloatArray, gradient: FloatArray) -> bool:
    """Whether the step of an updated Hessian exists and goes up."""
    try:
        return float(gradient @ np.linalg.solve(J, gradient)) < 0
    except np.linalg.LinAlgError:
        return False


def _advance(
    fit: Fit,
    latent: LatentData[Any],
    origin: Point,
    height: float,
    target: Point,
    loose: float = 0.0,
) -> Expanded:
    """Expand at ``target``, or nearer to ``origin`` where that is a fall.

    The quadratic at the origin knows nothing of how the curvature changes: far away its promises
    can be wrong by any amount.
    """
    for retreats in range(_RETREATS):
        try:
            at = expand(latent, fit.hyperprior, target, alone=True, loose=loose)
        except Breakdown:
            at = None
        if at is not None and at.state.objective >= height - _FALL * (1.0 + abs(height)):
            fit.reach *= 1.5 if retreats == 0 else 1.0
            return at
        fit.reach = max(0.5 * min(fit.reach, FARTHEST), _NEAREST)
        target = halfway(origin, target)
    return expand(latent, fit.hyperprior, origin, alone=True)
