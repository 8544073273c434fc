"""Rounds of `solvers.rounds` for likelihoods whose mode moves: screens are dear, the rest is not.

A round finds the mode with the active atoms, screens one subset of the dictionary around it, takes
the active atoms and the best candidates, and converges on these, mode and variances in turn. When
no subset has anything to add to one and the same model, the certificate holds for all of them.

A round depends on nothing but the point it starts from and how many there were before. So a fit
that is stopped after any round goes on from there as if nothing had happened.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsebayes.engine import Breakdown, Screen, State
from sparsebayes.hyperpriors import Hyperprior
from sparsebayes.laplace import LatentData
from sparsebayes.problem import Certificate, Problem, Progress, Report, Solution, Status, certify
from sparsebayes.solvers.convergence import converge
from sparsebayes.solvers.expansion import (
    NOTHING,
    UNIT_NOISE,
    Expanded,
    Point,
    expand,
    is_same,
    renumbered,
    restored,
)
from sparsebayes.solvers.rounds import EASIER, EASINGS, combined, nearest
from sparsebayes.solvers.settling import FARTHEST, Fit
from sparsebayes.solvers.structure import exchanged

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]
Resembled = Callable[[Expanded, IndexArray], LatentData[Any] | None]

__all__ = ["Ended", "Resembled", "Screened", "closest", "solve"]

_POOL = 256, 8  # candidates of each kind, and partners of each active atom
_COLUMNS = 512  # most columns that compete: their products are summed at every expansion
_LOOSE = 0.01  # fraction of what a screen promises that may be left for the next one
_ROUGH = 0.05  # nats left on the table before atoms are exchanged,
_EXCHANGES = 4  # so often at most: products of all that compete are known, so it costs little
_QUICK = 12  # screens of each subset after which what resembles the data is no longer trusted,
_FALL = 0.5  # or as soon as it leads down by so many nats
_NOT_MANY = 200_000  # rows of which all are looked at where atoms are exchanged in the end
_SCREENS = 30  # of each subset, at most
_MARGIN = 0.02  # nats by which a model must be better to be looked at once more
_IDLE = 2  # screens in a row after which nothing had moved


@dataclass(frozen=True)
class Screened:
    """An expansion over a subset of the dictionary, and what a screen of it has found."""

    at: Expanded  # its point and state count the atoms of the subset
    atoms: IndexArray  # which these are, ascending
    point: Point  # the same point, where all atoms are counted
    certificate: Certificate
    statistics: Screen
    subset: int
    turn: int  # screens so far, this one included


@dataclass(frozen=True)
class Ended:
    """How rounds have ended."""

    solution: Solution  # its state counts the atoms of the last subset
    last: Screened
    near: IndexArray  # atoms, of the whole dictionary, that were closest to entering


def solve(
    latent: LatentData[Any],
    hyperprior: Hyperprior,
    start: Point,
    *,
    subsets: list[IndexArray],
    tol: float,
    max_iter: int,
    near: IndexArray | None = None,
    turn: int = 0,
    subset: int = 0,
    report: Report | None = None,
    keep: Callable[[Screened], None] | None = None,
    resembled: Resembled | None = None,
) -> Ended:
    """Converge on all subsets of a dictionary.

    Parameters
    ----------
    latent : LatentData
        Data and likelihood, with all atoms.
    hyperprior : Hyperprior
        Prior of the variances.
    start : Point
        Where to start.
    subsets : list of arrays of int
        Atoms that are screened at a time, ascending; active ones are added to each.
    tol : float
        Largest gain, in nats, that the certificate leaves on the table.
    max_iter : int
        Most Newton steps on the variances in all.
    near : ndarray of int or None, default=None
        Atoms with which the active ones converge before the first screen; None where the start is
        a point that was screened before, or where a screen costs no more than that.
    turn : int, default=0
        Screens of earlier calls.
    subset : int, default=0
        The subset to begin with.
    report : callable or None
        Called with a `Progress` after every screen.
    keep : callable or None
        Called after every screen with what it has found.
    resembled : callable or None
        Makes, of an expansion and some of its atoms, data that cost little and resemble all data
        with these atoms around its mode; None where there are none.

    Returns
    -------
    Ended
        Solution, the last screen and the atoms that are closest to entering.
    """
    fit = Fit(latent, hyperprior, max_iter, None)
    rounds = _Rounds(latent, hyperprior, subsets, tol, fit, resembled)
    point, trace = start, list[Progress]()
    quiet: list[Certificate] = []  # of subsets that have nothing to add to this very point
    idle, status = 0, Status.CONVERGED
    proven: tuple[Screened, Certificate] | None = None  # the best that was certified
    subset %= len(subsets)  # with more memory there may be fewer of them
    if near is not None:
        point = rounds.begin(point, np.union1d(rounds.atoms_of(point), near), tol) or point
    for _ in range(_SCREENS * len(subsets)):
        found = rounds.screen(point, subset, turn)
        turn = found.turn
        certificate, state = found.certificate, found.at.state
        size, gain = state.active.size, certificate.max_gain
        trace.append(Progress("screen", rounds.fit.iterations, size, state.objective, 1.0, gain))
        if report is not None:
            report(trace[-1])
        if keep is not None:
            keep(found)
        quiet.append(certificate)
        if certificate.holds(tol):
            if len(quiet) >= len(subsets):
                whole = combined(quiet)
                better = proven is None or _is_above(found, proven[0])
                further = rounds.elsewhere(found) if better else None
                proven = (found, whole) if better else proven
                if further is None:
                    break
                point, quiet, idle = further, [], 0
                continue
        elif rounds.fit.exhausted:
            status = Status.MAX_ITER
            break
        elif idle == _IDLE:
            status = Status.UNSETTLED
            break
        else:
            pool = np.union1d(rounds.atoms_of(found.point), rounds.close(found))
            moved = rounds.onward(found, pool, max(_LOOSE * gain, 0.5 * tol))
            if moved is None:
                status = Status.BREAKDOWN
                break
            idle = idle + 1 if is_same(moved, found.point) else 0
            point, quiet = moved, []
            subset = (subset + 1) % len(subsets)
            continue
        point = found.point
        subset = (subset + 1) % len(subsets)
    else:
        status = Status.UNSETTLED
    whole = combined(quiet)
    if proven is not None and (status is not Status.CONVERGED or _is_above(proven[0], found)):
        (found, whole), status = proven, Status.CONVERGED
    converged, state = status is Status.CONVERGED, found.at.state
    iterations = rounds.fit.iterations
    solution = Solution(state, UNIT_NOISE, status, whole, converged, iterations, tuple(trace))
    return Ended(solution, found, rounds.close(found))


def closest(problem: Problem, state: State, statistics: Screen, K: int) -> IndexArray:
    """Atoms that are closest to entering, few enough for all their products to be summed.

    Parameters
    ----------
    problem : Problem
        The problem of one expansion.
    state : State
        Where it is.
    statistics : Screen
        What a screen has found there.
    K : int
        Number of latent functions.

    Returns
    -------
    ndarray of int
        Atoms that may be active in one latent function, but not in all; ascending.
    """
    return nearest(problem, state, statistics, _COLUMNS // K, _POOL, K // problem.quad.group)


def _is_above(one: Screened, other: Screened) -> bool:
    """Whether one model is better than another, by more than rounding."""
    return one.at.state.objective > other.at.state.objective + _MARGIN


@dataclass
class _Rounds:
    """What all rounds share."""

    latent: LatentData[Any]
    hyperprior: Hyperprior
    subsets: list[IndexArray]
    tol: float
    fit: Fit
    resembled: Resembled | None

    @property
    def per_atom(self) -> int:
        return 1 if self.latent.shared else self.latent.K

    def atoms_of(self, point: Point) -> IndexArray:
        """Atoms of a point, ascending."""
        return np.unique(point.active // self.per_atom)

    def screen(self, point: Point, subset: int, turn: int) -> Screened:
        """Expand around the mode of a point, over a subset of the dictionary."""
        atoms = np.union1d(self.subsets[subset], self.atoms_of(point))
        whole = atoms.size == self.latent.n_atoms
        view = self.latent if whole else self.latent.restrict(atoms)
        K = self.latent.K
        at = self._expanded(view, renumbered(point, atoms, self.per_atom, K))
        certificate, statistics = certify(at.problem, at.state, UNIT_NOISE)
        here = restored(at.point, atoms, self.per_atom, K)
        return Screened(at, atoms, here, certificate, statistics, subset, turn + 1)

    def _expanded(self, view: LatentData[Any], point: Point) -> Expanded:
        """Expand, at smaller variances where float64 cannot hold these, or without atoms."""
        for _ in range(EASINGS):
            try:
                return expand(view, self.hyperprior, point)
            except Breakdown:  # sums in another order round differently: it was at the very edge
                point = point._replace(v=EASIER * point.v)
        return expand(view, self.hyperprior, NOTHING)

    def close(self, found: Screened) -> IndexArray:
        """Atoms, of the whole dictionary, that are closest to entering."""
        chosen = closest(found.at.problem, found.at.state, found.statistics, self.latent.K)
        return found.atoms[chosen]

    def onward(self, found: Screened, pool: IndexArray, tol: float) -> Point | None:
        """Converge on a few atoms after a screen; None where float64 cannot."""
        moved = None
        if found.turn <= _QUICK * len(self.subsets):
            moved = self._beside(found.at, found.atoms, pool, tol)
        if moved is None or is_same(moved, found.point):
            return self.work(found.point, pool, tol)
        return moved

    def elsewhere(self, found: Screened) -> Point | None:
        """Exchange atoms, looking at all data, where only a sample was looked at; None if in vain.

        Far from its mode a sample tells little, and an exchange goes far. All data cost little
        where they are not many more.
        """
        few = self.latent.n_rows <= _NOT_MANY and len(self.subsets) == 1
        if self.resembled is None or not few or self.fit.exhausted:
            return None
        self.fit.reach = FARTHEST  # a round depends on nothing that earlier ones have learned
        whole = found.atoms.size == self.latent.n_atoms
        view = self.latent if whole else self.latent.restrict(found.atoms)
        try:
            trial = exchanged(self.fit, view, found.at)
        except Breakdown:
            return None
        if trial is None:
            return None
        return restored(trial.point, found.atoms, self.per_atom, self.latent.K)

    def begin(self, point: Point, pool: IndexArray, tol: float) -> Point | None:
        """Converge on a few atoms before the first screen; None where float64 cannot."""
        moved = None
        if self.resembled is not None and pool.size:
            K = self.latent.K
            here = renumbered(point, pool, self.per_atom, K)
            with suppress(Breakdown):
                at = expand(self.latent.restrict(pool), self.hyperprior, here)
                moved = self._beside(at, pool, pool, tol)
        return self.work(point, pool, tol) if moved is None else moved

    def _beside(
        self, at: Expanded, atoms: IndexArray, pool: IndexArray, tol: float
    ) -> Point | None:
        """Converge on data that resemble all data around an expansion; None where they do not."""
        alike = None
        if self.resembled is not None:
            alike = self.resembled(at, np.searchsorted(atoms, pool))
        if alike is None:
            return None
        self.fit.reach = FARTHEST  # a round depends on nothing that earlier ones have learned
        K = self.latent.K
        start = restored(at.point, atoms, self.per_atom, K)
        try:
            near = self._search(alike, renumbered(start, pool, self.per_atom, K), tol).point
            here = restored(near, pool, self.per_atom, K)
            active = self.atoms_of(here)
            few = renumbered(here, active, self.per_atom, K)
            end = expand(self.latent.restrict(active), self.hyperprior, few, alone=True)
        except Breakdown:
            return None
        if end.state.objective < at.state.objective - _FALL:
            return None
        return restored(end.point, active, self.per_atom, K)

    def work(self, point: Point, pool: IndexArray, tol: float) -> Point | None:
        """Converge on a few atoms, looking at all data; None where float64 cannot."""
        if not pool.size:
            return point
        self.fit.reach = FARTHEST
        few, K = self.latent.restrict(pool), self.latent.K
        try:
            at = self._search(few, renumbered(point, pool, self.per_atom, K), tol)
        except Breakdown:
            return None
        return restored(at.point, pool, self.per_atom, K)

    def _search(self, few: LatentData[Any], here: Point, tol: float) -> Expanded:
        """Converge, and exchange atoms."""
        at = converge(self.fit, few, here, max(tol, _ROUGH), "work")
        for _ in range(_EXCHANGES):
            trial = exchanged(self.fit, few, at)
            if trial is None:
                break
            at = trial
        return converge(self.fit, few, at.point, tol, "work") if tol < _ROUGH else at
