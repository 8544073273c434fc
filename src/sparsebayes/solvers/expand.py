"""Follow the mode: expand a likelihood, climb on the expansion, settle, expand anew.

The quadratic of a likelihood is that at the mode of the weights, which moves with the variances. A
point is certified by the expansion at its own mode. Every loop ends by a rule: settling when two
expansions agree to the nats that may be left, or where the gradients of expansions vanish, which
Broyden's method finds; converging when the certificate holds.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsebayes._hyperprior import is_flat, lets_out
from sparsebayes.core.quadratic import members
from sparsebayes.engine import Breakdown, State, refresh
from sparsebayes.hyperpriors import Hyperprior
from sparsebayes.laplace import LatentData, Start, find_mode, quadratic_at
from sparsebayes.problem import Problem, Progress, Report, certify
from sparsebayes.solvers.climb import Run, climb
from sparsebayes.solvers.newton import Noise, derivatives, newton
from sparsebayes.solvers.search import SETTINGS

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = [
    "FINE",
    "NOTHING",
    "STUCK",
    "UNIT_NOISE",
    "Expanded",
    "Fit",
    "LatentProblem",
    "Part",
    "Point",
    "converge",
    "expand",
    "halfway",
    "inched",
    "is_same",
    "look",
    "settle",
]

UNIT_NOISE = Noise(1.0, False, 1e-9)  # the curvature of the likelihood takes the place of the noise
FINE = 1e-3  # nats left on the table where optima are compared
STUCK = 0.9  # steps are short if an expansion leaves this much of what the last one promised

_STALE = 0.05  # fraction of the best gain that is left for the next expansion
_EXPANSIONS = 16  # after which expansions are said to disagree; almost all fits need five
_BESIDE = 0.1  # fraction of the nats left on the table by which an expansion may miss its mode
_HELD = 60  # most Newton steps of a climb on one expansion
_STEPS = 5  # Newton steps on the variances between modes
_TURNS = 5  # turns of mode and variances, after which Broyden's method goes on,
_BALANCES = 24  # in so many steps at most
_RETREATS = 8  # halvings of a step that falls
_FALL = 0.1  # relative to its objective, by what a new expansion may lie below the last one
_FAINT = 1e-3  # variance, for unit norm, at which an atom enters or leaves in short steps
_FADED = 0.1  # what is left of an atom that leaves, or there of one that enters, before halving


# Points and expansions


class Point(NamedTuple):
    """Where a fit is: nothing else is needed to go on from there."""

    active: IndexArray  # (m,) columns, or atoms where their variances are shared
    v: FloatArray  # (m,) prior variances of weights, of atoms as given if they have a mode
    noise_var: float = 1.0
    starts: tuple[Start, ...] = ()  # where its mode may be


NOTHING = Point(np.empty(0, dtype=np.intp), np.empty(0))


@dataclass(frozen=True)
class LatentProblem:
    """Data, a likelihood and a hyperprior: a problem whose quadratic moves with the mode."""

    data: Any  # LatentData
    hyperprior: Hyperprior

    def noise(self, fraction: float = 1.0) -> Noise:
        """There is none: the curvature of the likelihood takes its place."""
        return UNIT_NOISE


@dataclass(frozen=True)
class Expanded:
    """A point, its mode and the quadratic there."""

    point: Point
    mode: Any  # as the data keep it; None if the quadratic is the same everywhere
    quad: Any  # AnyQuadratic if there is a mode
    problem: Problem
    state: State

    def at(self, active: IndexArray, v: FloatArray, noise_var: float = 1.0) -> Point:
        """The point where atoms of unit norm have these variances."""
        if self.mode is None:
            return Point(active, v, noise_var)
        norm = self.quad.norm[active * self.quad.group]
        return Point(active, v / norm**2, starts=self.point.starts)

    def moved(self, state: State) -> Point:
        """The point of another state of this expansion, and where it expects the mode."""
        quad = self.quad
        columns = quad.members(state.active)
        w = state.mu[:, 0] / quad.norm[columns]
        expected = Start(columns, w, quad.offset - quad.centers(columns).T @ w)
        starts = expected, *self.point.starts[:1]
        return self.at(state.active, state.v)._replace(starts=starts)


def look(problem: Problem | LatentProblem, point: Point) -> Expanded:
    """The quadratic of a problem and the state there, from definitions; it may be a `Breakdown`."""
    if isinstance(problem, LatentProblem):
        return expand(problem.data, problem.hyperprior, point)
    quad = problem.quad
    state = refresh(quad, problem.hyperprior, point.active, point.v, point.noise_var)
    return Expanded(point, None, quad, problem, state)


def expand(
    latent: LatentData[Any],
    hyperprior: Hyperprior,
    point: Point,
    alone: bool = False,
    loose: float = 0.0,
) -> Expanded:
    """Find the mode at a point, and the quadratic and state there; it may be a `Breakdown`.

    ``alone``: nobody will ask the quadratic for other columns. ``loose`` are nats by which the log
    posterior may stay below its mode.
    """
    group = latent.K if latent.shared else 1
    if not (point.v > 0).all():  # huge atoms as given: their variances may underflow
        present = point.v > 0
        point = point._replace(active=point.active[present], v=point.v[present])
    columns = members(point.active, group)
    mode = find_mode(latent, columns, np.repeat(point.v, group), point.starts, loose)
    quad = quadratic_at(latent, mode, alone)
    v = point.v * quad.norm[point.active * group] ** 2
    usable = v > 0  # an atom that has lost its norm to saturated samples is no atom
    active, v = point.active[usable], v[usable]
    state = refresh(quad, hyperprior, active, v, 1.0)
    problem = Problem(quad, hyperprior, 1.0)
    found = Start(columns, mode.w, mode.c)
    return Expanded(Point(active, point.v[usable], starts=(found,)), mode, quad, problem, state)


class Part:
    """Some atoms, ascending: the data with these alone, and points counted among them or among all.

    Columns of an atom stay together: one variance for each latent function, or one that all share.
    """

    def __init__(self, whole: LatentData[Any], atoms: IndexArray) -> None:
        self.whole, self.atoms, self.K = whole, atoms, whole.K
        self.per_atom = 1 if whole.shared else whole.K

    @classmethod
    def of(cls, whole: LatentData[Any], *points: Point) -> "Part":
        """The atoms of some points."""
        per_atom = 1 if whole.shared else whole.K
        active = np.concatenate([point.active for point in points])
        return cls(whole, np.unique(active // per_atom))

    @cached_property
    def data(self) -> LatentData[Any]:
        """The data with these atoms."""
        every = self.atoms.size == self.whole.n_atoms
        return self.whole if every else self.whole.restrict(self.atoms)

    def inside(self, point: Point) -> Point:
        """A point of all atoms, counted among these, which hold its active ones."""
        place = np.searchsorted(self.atoms, point.active // self.per_atom)
        starts = []
        for start in point.starts:
            known = np.isin(start.columns // self.K, self.atoms)
            columns = start.columns[known]
            own = np.searchsorted(self.atoms, columns // self.K) * self.K + columns % self.K
            starts.append(Start(own, start.w[known], start.c))
        active = place * self.per_atom + point.active % self.per_atom
        return Point(active, point.v, starts=tuple(starts))

    def outside(self, point: Point) -> Point:
        """A point of these atoms, counted among all."""
        atoms, starts = self.atoms, []
        for start in point.starts:
            columns = atoms[start.columns // self.K] * self.K + start.columns % self.K
            starts.append(start._replace(columns=columns))
        active = atoms[point.active // self.per_atom] * self.per_atom
        active += point.active % self.per_atom
        return Point(active, point.v, starts=tuple(starts))


def is_same(one: Point, other: Point) -> bool:
    """Whether two points have the same atoms and variances."""
    return np.array_equal(one.active, other.active) and np.array_equal(one.v, other.v)


# Steps between points


def halfway(old: Point, new: Point) -> Point:
    """Between two points, in log variances; atoms of one of them count as fainter in the other."""
    active, v = _aligned(old, new)
    v = np.where(v > 0, v, _FADED * v.max(axis=0))
    root = np.sqrt(v)  # a product of variances underflows
    return Point(active, root[0] * root[1], starts=new.starts)


def inched(at: Expanded, new: Point, longest: float, fraction: float = 1.0) -> Point:
    """A short step from an expansion towards where it leads to.

    An expansion may call for an atom that the next one wants to be rid of, and so on for ever. In
    short steps, atoms fading out, variances come to rest where both agree.
    """
    active, v = _aligned(at.point, new)
    norm2 = np.maximum(at.quad.norm[active * at.quad.group] ** 2, np.finfo(float).tiny)
    faint = _FAINT / norm2
    gone = (v[1] == 0) & (v[0] <= 2.0 * faint)
    came = v[0] == 0  # at its full variance: with a price on it, a faint atom is worth nothing
    v[0] = np.where(came, v[1], v[0])
    if lets_out(at.problem.hyperprior):
        v[1] = np.maximum(v[1], faint)
    step = np.clip(fraction * np.log(v[1] / v[0]), -longest, longest)
    return Point(active[~gone], (v[0] * np.exp(step))[~gone], starts=new.starts)


def _aligned(old: Point, new: Point) -> tuple[IndexArray, FloatArray]:
    """Atoms of either point, and their variances in both, zero where an atom is absent."""
    active = np.union1d(old.active, new.active)
    v = np.zeros((2, active.size))
    for row, point in zip(v, (old, new), strict=True):
        row[np.searchsorted(active, point.active)] = point.v
    return active, v


# The account of a fit


@dataclass
class Fit:
    """One fit: what is given, and what has been spent."""

    latent: LatentData[Any]
    hyperprior: Hyperprior
    max_iter: int
    report: Report | None
    iterations: int = 0
    trace: list[Progress] = field(default_factory=list)
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
        return _BESIDE * tol if is_flat(self.hyperprior) else 0.0

    def run(self, problem: Problem) -> Run:
        """Let a solver of fixed quadratics work on this one, on the same account."""
        large = self.latent.n_atoms > 2 * SETTINGS.crowd
        return Run(problem, self.max_iter, None, large=large, iterations=self.iterations)

    def held(self, problem: Problem) -> Run:
        """Like `run`, for few steps: far from its mode an expansion promises what is not true."""
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


# Mode and variances


def settle(
    fit: Fit,
    latent: LatentData[Any],
    point: Point,
    tol: float,
    origin: Expanded | None = None,
    short: bool = False,
) -> Point:
    """Mode and variances of the active atoms in turn, until neither moves the other.

    Atoms may leave, none is added. ``tol`` are nats that may be left on the table, ``origin`` is
    the expansion that has led there, to retreat to. In ``short`` steps no atom is deleted for being
    worth nothing to a single expansion.
    """
    last = point if origin is None else origin.point
    height = -np.inf if origin is None else origin.state.objective
    part = Part.of(latent, last, point)
    if not part.atoms.size:
        return point
    best, here = part.inside(last), part.inside(point)
    at = _advance(fit, part.data, best, height, here, 0.0 if short else fit.loose(tol))
    for _ in range(0 if short else _TURNS):
        end = fit.newton(at, at.state.active, at.state.v, tol=0.1 * tol, max_steps=_STEPS)
        here, height = at.moved(end), at.state.objective
        if end.objective - height < tol or fit.exhausted:
            return part.outside(here)
        at = _advance(fit, part.data, at.point, height, here, fit.loose(tol))
    return part.outside(_balance(fit, part.data, at, tol))


def _balance(fit: Fit, latent: LatentData[Any], at: Expanded, tol: float) -> Point:
    """Variances at which the gradient of their own expansion vanishes, by Broyden's method.

    The Hessian of an expansion does not know how the curvature of the likelihood moves with the
    mode; where that matters, turns of mode and variances circle around the balance. Broyden's
    updates learn it from the gradients seen. Atoms may leave, none is deleted for being worth
    nothing to a single expansion.
    """
    J: FloatArray | None = None
    step = before = np.empty(0)
    for _ in range(_BALANCES):
        gram = at.quad.gram(at.state.active)
        gradient, H = derivatives(gram, fit.hyperprior, at.state.v, UNIT_NOISE, at.state.white)
        fit.iterations += 1
        stays = (at.state.v > _FAINT) | (gradient > 0) | (not lets_out(fit.hyperprior))
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
    for _ in range(_RETREATS):
        try:
            at = expand(latent, fit.hyperprior, target, alone=True, loose=loose)
        except Breakdown:
            at = None
        if at is not None and at.state.objective >= height - _FALL * (1.0 + abs(height)):
            return at
        target = halfway(origin, target)
    return expand(latent, fit.hyperprior, origin, alone=True)


# The loop


def converge(
    fit: Fit,
    latent: LatentData[Any],
    point: Point,
    tol: float,
    phase: str,
    looks: int = _EXPANSIONS,
    known: Expanded | None = None,
) -> Expanded:
    """Expand, climb and settle until no change gains more than ``tol``, or ``looks`` times.

    ``known`` is the expansion at the point, where there is one already. Returns the last expansion
    if nothing is left to gain, else the one that leaves least. Once an expansion leaves what the
    last one promised, steps are short: two expansions then come to rest where they agree.
    """
    short, pending, height = False, np.inf, -np.inf
    loose = fit.loose(tol) if tol >= FINE else 0.0
    best: Expanded | None = None
    least = np.inf
    for _ in range(looks):
        at, known = known or expand(latent, fit.hyperprior, point, loose=loose), None
        certificate, _ = certify(at.problem, at.state, UNIT_NOISE)
        gain = certificate.max_gain
        fit.note(phase, at.state, gain)
        if certificate.holds(tol):
            return at
        if best is None or gain < least:
            best, least = at, gain
            if latent is fit.latent:
                fit.good = best
        if fit.exhausted:
            break
        short = short or (gain > STUCK * pending and at.state.objective - height < pending)
        height, pending = at.state.objective, gain
        # An expansion far from the mode is not worth more than a fraction of what it promises.
        left = max(_STALE * gain, 0.1 * tol)
        run = fit.held(at.problem)
        point = at.moved(climb(run, at.state, UNIT_NOISE, left, phase))
        fit.iterations = run.iterations
        point = inched(at, point, 1.0, 0.5) if short else point
        point = settle(fit, latent, point, left, at, short)
        if is_same(point, at.point):  # every way on is a fall: nothing will change
            break
    assert best is not None
    return best
