"""Points of a fit that follows the mode, their expansions, and steps between points."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsebayes._hyperprior import lets_out
from sparsebayes.core.quadratic import members
from sparsebayes.engine import State, refresh
from sparsebayes.hyperpriors import Hyperprior
from sparsebayes.laplace import LatentData, Start, find_mode, quadratic_at
from sparsebayes.problem import Problem
from sparsebayes.solvers.newton import Noise

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = [
    "FAINT",
    "NOTHING",
    "UNIT_NOISE",
    "Expanded",
    "LatentProblem",
    "Point",
    "expand",
    "halfway",
    "inched",
    "is_same",
    "look",
    "renumbered",
    "restored",
]

UNIT_NOISE = Noise(1.0, False, 1e-9)  # the curvature of the likelihood takes the place of the noise
FAINT = 1e-3  # variance, for unit norm, at which an atom enters or leaves in short steps
_FADED = 0.1  # what is left of an atom that leaves, or there of one that enters, before halving


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
    """Find the mode at a point, and the quadratic and state there.

    Parameters
    ----------
    latent : LatentData
        Data and likelihood.
    hyperprior : Hyperprior
        Prior of the variances.
    point : Point
        Active columns, their variances, and where the mode may be.
    alone : bool, default=False
        Whether nobody will ask the quadratic for other columns.
    loose : float, default=0.0
        Nats by which the log posterior may stay below its mode.

    Returns
    -------
    Expanded
        Mode, quadratic and state; raises `Breakdown` where float64 cannot hold them.
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


def renumbered(point: Point, atoms: IndexArray, per_atom: int, K: int) -> Point:
    """The same point where only ``atoms`` are counted."""
    place = np.searchsorted(atoms, point.active // per_atom)
    starts = []
    for start in point.starts:
        known = np.isin(start.columns // K, atoms)
        columns = start.columns[known]
        renumbered = np.searchsorted(atoms, columns // K) * K + columns % K
        starts.append(Start(renumbered, start.w[known], start.c))
    return Point(place * per_atom + point.active % per_atom, point.v, starts=tuple(starts))


def restored(point: Point, atoms: IndexArray, per_atom: int, K: int) -> Point:
    """The same point where all atoms are counted, of which ``atoms`` were."""
    starts = tuple(
        start._replace(columns=atoms[start.columns // K] * K + start.columns % K)
        for start in point.starts
    )
    active = atoms[point.active // per_atom] * per_atom + point.active % per_atom
    return Point(active, point.v, starts=starts)


def is_same(one: Point, other: Point) -> bool:
    """Whether two points have the same atoms and variances."""
    return np.array_equal(one.active, other.active) and np.array_equal(one.v, other.v)


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
    faint = FAINT / norm2
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
