"""Rounds: a fit whose screens are dear, because they read data or because atoms come in subsets.

Tipping & Faul 2003 (section 6.2) work on subsets of the basis in turn. Here a round screens one
subset of the dictionary together with the active atoms, takes the active atoms and the best few
hundred candidates, whose Gram matrix is small, and lets the ordinary solver converge on them: on
the quadratic itself (`Exact`), or mode and variances in turn (`Following`). When no subset has
anything to add to one and the same model, the certificate holds for all of them.

A round depends on nothing but the point it starts from and how many there were before. So a fit
that is stopped after any round goes on from there as if nothing had happened.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sparsebayes.engine import Breakdown, Screen, State, refresh
from sparsebayes.hyperpriors import Hyperprior
from sparsebayes.laplace import LatentData
from sparsebayes.problem import Certificate, Problem, Progress, Report, Solution, Status, certify
from sparsebayes.solvers import search
from sparsebayes.solvers.expand import (
    NOTHING,
    Expanded,
    Fit,
    Part,
    Point,
    converge,
    expand,
    is_same,
)
from sparsebayes.solvers.structure import exchanged
from sparsebayes.solvers.swaps import swap_table

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]
Resembled = Callable[[Expanded, IndexArray], LatentData[Any] | None]
"""Makes, of an expansion and some of its atoms, data that cost little and resemble all data with
these atoms around its mode; None where there are none."""

__all__ = [
    "NEAR",
    "PARTNERS",
    "POOL",
    "Ended",
    "Exact",
    "Following",
    "Resembled",
    "Screened",
    "View",
    "Views",
    "closest",
    "nearest",
    "solve",
]

POOL = 128
"""Candidates that compete with the active atoms after a screen,"""

PARTNERS = 6
"""and, for each active atom, those that would best replace it."""

NEAR = 512, 12
"""The same of those that are taken along to more rows."""

_FOLLOWING = 256, 8  # the same where the mode moves, of at most so many columns in all:
_COLUMNS = 512  # their products are summed at every expansion
_LEAST = 16  # atoms that may enter, however many there are
_EASINGS, _EASIER = 12, 0.25  # of variances that float64 cannot hold, and by what
_IDLE = 2  # screens in a row of a subset after which nothing had moved
_LOOSE = 0.01  # fraction of what a screen promises that may be left for the next one
_ROUGH = 0.05  # nats left on the table before atoms are exchanged,
_EXCHANGES = 4  # so often at most: products of all that compete are known, so it costs little
_QUICK = 12  # screens of each subset after which what resembles the data is no longer trusted,
_FALL = 0.5  # or as soon as it leads down by so many nats
_NOT_MANY = 200_000  # rows of which all are looked at where atoms are exchanged in the end
_SCREENS = 30  # of each subset, at most, where the mode moves
_MARGIN = 0.02  # nats by which a model must be better to be looked at once more


class Seen(NamedTuple):
    """A state of the active atoms and one subset."""

    at: Any  # what it is of: a `View` or an `Expanded`
    state: State  # it counts the atoms of the subset
    atoms: IndexArray  # which these are, ascending
    point: Point  # the same, where all atoms are counted


@dataclass(frozen=True)
class Screened:
    """A point and what a screen has found there."""

    seen: Seen
    certificate: Certificate
    statistics: Screen
    subset: int
    turn: int  # screens so far, this one included

    @property
    def at(self) -> Any:
        """The `View` or `Expanded` that was screened."""
        return self.seen.at

    @property
    def problem(self) -> Problem:
        """Its problem."""
        problem: Problem = self.at.problem
        return problem

    @property
    def state(self) -> State:
        """The state; it counts the atoms that were screened."""
        return self.seen.state

    @property
    def atoms(self) -> IndexArray:
        """Which these are, ascending."""
        return self.seen.atoms

    @property
    def point(self) -> Point:
        """Where it is, all atoms counted."""
        return self.seen.point


@dataclass(frozen=True)
class Ended:
    """How rounds have ended."""

    solution: Solution  # its state counts the atoms of the last screen
    last: Screened
    near: IndexArray  # atoms, of the whole dictionary, that were closest to entering


class Worker(Protocol):
    """What works between screens: `Exact` or `Following`."""

    stuck: Status
    screens: float  # most of each subset

    @property
    def count(self) -> int:
        """Number of subsets."""

    @property
    def iterations(self) -> int:
        """Newton steps so far."""

    @property
    def exhausted(self) -> bool:
        """Whether no more are allowed."""

    def look(self, point: Point, subset: int) -> Seen:
        """The state of a point, or of smaller variances where float64 cannot hold it."""
        ...

    def begin(self, point: Point, near: IndexArray, tol: float) -> Point:
        """Converge with some more atoms before the first screen."""
        ...

    def onward(self, found: Screened, tol: float) -> Point | None:
        """Converge with the best candidates; None where float64 cannot."""
        ...

    def elsewhere(self, found: Screened) -> Point | None:
        """Another point, where one that is certified may not be the best."""
        ...

    def near(self, found: Screened) -> IndexArray:
        """Atoms, of the whole dictionary, that are closest to entering."""
        ...


def solve(
    worker: Worker,
    start: Point,
    *,
    tol: float,
    near: IndexArray | None = None,
    turn: int = 0,
    subset: int = 0,
    report: Report | None = None,
    keep: Callable[[Screened], None] | None = None,
) -> Ended:
    """Converge on all subsets of a dictionary.

    ``near`` are atoms with which the active ones converge before the first screen; None where the
    start was screened before. ``turn`` counts the screens of earlier calls; every screen is
    reported and kept.
    """
    point, trace = start, list[Progress]()
    quiet: list[Certificate] = []  # of subsets that have nothing to add to this very point
    idle, status = 0, worker.stuck
    proven: tuple[Screened, Certificate] | None = None  # the best that was certified
    subset %= worker.count  # with more memory there may be fewer of them
    last = turn + worker.screens * worker.count
    if near is not None:
        point = worker.begin(point, near, tol)
    while True:
        seen = worker.look(point, subset)
        problem, state = seen.at.problem, seen.state
        noise = problem.noise()._replace(var=state.noise_var)
        certificate, statistics = certify(problem, state, noise)
        turn += 1
        found = Screened(seen, certificate, statistics, subset, turn)
        size, gain = state.active.size, certificate.max_gain
        trace.append(
            Progress("screen", worker.iterations, size, state.objective, state.noise_var, gain)
        )
        if report is not None:
            report(trace[-1])
        if keep is not None:
            keep(found)
        quiet.append(certificate)
        point, subset = seen.point, (subset + 1) % worker.count
        if certificate.holds(tol):
            if len(quiet) >= worker.count:
                whole, status = _combined(quiet), Status.CONVERGED
                better = proven is None or _is_above(found, proven[0])
                further = worker.elsewhere(found) if better else None
                proven = (found, whole) if better else proven
                if further is None:
                    break
                point, quiet, idle, status = further, [], 0, worker.stuck
        elif worker.exhausted:
            status = Status.MAX_ITER
            break
        elif idle == _IDLE:
            break
        else:
            moved = worker.onward(found, tol)
            if moved is None:
                status = Status.BREAKDOWN
                break
            idle = idle + 1 if _is_still(moved, seen.point) else 0
            point, quiet = moved, []
        if turn >= last:
            break
    whole = _combined(quiet or [certificate])
    if proven is not None and (status is not Status.CONVERGED or _is_above(proven[0], found)):
        (found, whole), status = proven, Status.CONVERGED
    noise = found.problem.noise()._replace(var=found.state.noise_var)
    solution = Solution(
        found.state,
        noise,
        found.problem.verdict(found.state, noise, status),
        whole,
        status is Status.CONVERGED,
        worker.iterations,
        tuple(trace),
    )
    return Ended(solution, found, worker.near(found))


def _is_above(one: Screened, other: Screened) -> bool:
    """Whether one model is better than another, by more than rounding."""
    return one.state.objective > other.state.objective + _MARGIN


def _is_still(one: Point, other: Point) -> bool:
    """Whether nothing has moved beyond rounding."""
    return (
        np.array_equal(one.active, other.active)
        and np.allclose(one.v, other.v, rtol=1e-9, atol=0.0)
        and bool(np.isclose(one.noise_var, other.noise_var, rtol=1e-9, atol=0.0))
    )


def _combined(certificates: list[Certificate]) -> Certificate:
    """One certificate of several subsets of a dictionary, at the same point."""
    return Certificate(
        max(one.max_gain for one in certificates),
        max(one.gradient_norm for one in certificates),
        max(one.max_curvature for one in certificates),
        max(one.rounding for one in certificates),
        noise_gradient=max(one.noise_gradient for one in certificates),
    )


# Candidates


def _candidates(
    problem: Problem, state: State, statistics: Screen, count: int, partners: int
) -> IndexArray:
    """Atoms that gain most, that are closest to gaining anything, or would best replace others.

    There are ``count`` of the first two kinds, each, and ``partners`` of the third for each active
    atom. The last matter most: among kernels, models get better by atoms that move to a neighbor,
    which adds little to the model that has the atom itself.
    """
    M = problem.quad.size
    S = statistics.S if statistics.S.ndim == 1 else statistics.S.max(axis=1)
    Q2 = np.einsum("ij,ij->i", statistics.Q, statistics.Q)
    Q2 = Q2.reshape(M, -1).sum(axis=1)
    resolved = S * state.noise_var > problem.quad.collinear * problem.quad.diag.reshape(M, -1).max(
        axis=1
    )
    near = Q2 / np.where(resolved, S, np.inf)
    chosen = [_best(statistics.gains[None], count), _best(near[None], count)]
    if problem.quad.group == 1 and state.active.size:
        chosen.append(_best(swap_table(problem, state, statistics).score, partners))
    return np.asarray(np.setdiff1d(np.concatenate(chosen), state.active))


def nearest(
    problem: Problem,
    state: State,
    statistics: Screen,
    most: int,
    pool: tuple[int, int],
    per_atom: int = 1,
) -> IndexArray:
    """Candidates, few enough for all products with each other and active atoms to be kept.

    That is ``most`` atoms with the active ones; a few are taken in any case. ``pool`` are numbers
    of `_candidates`, where there is room for them. The problem counts an atom ``per_atom`` times,
    once for each latent function; what may be active in one of these is among those returned.
    """
    active = np.unique(state.active // per_atom)
    room = max(most - active.size, _LEAST)
    count, partners = pool
    while True:
        chosen = _candidates(problem, state, statistics, count, partners)
        atoms = np.unique(chosen // per_atom)
        fresh = np.setdiff1d(atoms, active).size
        if fresh <= room or count == 1:
            return atoms
        count, partners = max(count * min(room, fresh - 1) // fresh, 1), max(partners - 1, 0)


def _best(scores: FloatArray, count: int) -> IndexArray:
    """Columns of the largest positive scores of each row."""
    count = min(count, scores.shape[1])
    best = np.argpartition(-scores, count - 1, axis=1)[:, :count]
    return best[np.take_along_axis(scores, best, axis=1) > 0]


def closest(problem: Problem, state: State, statistics: Screen, K: int) -> IndexArray:
    """Atoms closest to entering where the mode moves, for K latent functions."""
    per_atom = K // problem.quad.group
    return nearest(problem, state, statistics, _COLUMNS // K, _FOLLOWING, per_atom)


# Gaussian noise


@dataclass(frozen=True)
class View:
    """The problem of some atoms of the dictionary."""

    problem: Problem
    atoms: IndexArray  # which, ascending
    norm: FloatArray  # of these

    def state(self, point: Point) -> State:
        """The state of a point, whose atoms must be among these.

        Where float64 cannot hold it, that of smaller variances.
        """
        local = np.searchsorted(self.atoms, point.active)
        v = point.v * self.norm[local] ** 2
        usable = v > 0  # atoms that were none on the rows that this problem is of
        quad, hyperprior = self.problem.quad, self.problem.hyperprior
        local, v = local[usable], v[usable]
        quad.columns(local)  # the screen needs them: the Gram matrix is then known too
        for _ in range(_EASINGS):
            try:
                return refresh(quad, hyperprior, local, v, point.noise_var)
            except Breakdown:  # sums in another order round differently: it was at the very edge
                v = _EASIER * v
        return refresh(quad, hyperprior, local, v, point.noise_var)

    def point(self, state: State) -> Point:
        """The point of a state."""
        v = state.v / self.norm[state.active] ** 2
        return Point(self.atoms[state.active], v, state.noise_var)


class Views(Protocol):
    """A dictionary as subsets, each of which can be screened at once."""

    @property
    def count(self) -> int:
        """Number of subsets."""

    @property
    def most(self) -> int:
        """Number of atoms of which all of G may be kept."""

    def view(self, subset: int, active: IndexArray) -> View:
        """The problem of the active atoms and those of a subset."""
        ...

    def few(self, atoms: IndexArray) -> View:
        """The problem of some atoms, so few that all of G may be kept."""
        ...


@dataclass
class Exact:
    """Work of the default solver on small Gram matrices."""

    views: Views
    max_iter: int
    iterations: int = 0
    stuck = Status.STALLED
    screens = np.inf

    @property
    def count(self) -> int:
        """Number of subsets."""
        return self.views.count

    @property
    def exhausted(self) -> bool:
        """Whether no more steps are allowed."""
        return self.iterations >= self.max_iter

    def look(self, point: Point, subset: int) -> Seen:
        """The state of a point, among the atoms of a subset."""
        view = self.views.view(subset, point.active)
        state = view.state(point)
        return Seen(view, state, view.atoms, view.point(state))

    def begin(self, point: Point, near: IndexArray, tol: float) -> Point:
        """Converge with some more atoms, in a search from the beginning too."""
        view = self.views.few(np.union1d(point.active, near))
        return self._work(view, view.state(point), np.arange(view.atoms.size), tol, anew=True)

    def onward(self, found: Screened, tol: float) -> Point:
        """Converge with the best candidates."""
        state = found.state
        fresh = _candidates(found.problem, state, found.statistics, POOL, PARTNERS)
        self.iterations += 1
        return self._work(found.at, state, np.union1d(state.active, fresh), tol)

    def elsewhere(self, found: Screened) -> None:
        """Nowhere: what is certified is the answer."""

    def near(self, found: Screened) -> IndexArray:
        """Atoms that are closest to entering."""
        most = self.views.most
        return found.atoms[nearest(found.problem, found.state, found.statistics, most, NEAR)]

    def _work(
        self, view: View, state: State, pool: IndexArray, tol: float, anew: bool = False
    ) -> Point:
        """Converge on a pool of atoms; ``anew``: search from the beginning too, keep the better."""
        few = replace(view.problem, quad=view.problem.quad.gram(pool))
        start = None  # a model without atoms is no place to start from: its noise is all there is
        if state.active.size:
            start = (np.searchsorted(pool, state.active), state.v, state.noise_var)
        left = max(self.max_iter - self.iterations, 1)
        try:
            found = search.solve(few, tol=0.1 * tol, max_iter=left, start=start)
            self.iterations += found.n_iter
            left -= found.n_iter
            assert isinstance(found.state, State)
            end = found.state
            if anew and start is not None and pool.size > state.active.size and left > 1:
                other = search.solve(few, tol=0.1 * tol, max_iter=left // 2)
                self.iterations += other.n_iter
                assert isinstance(other.state, State)
                end = other.state if search.is_better(few, other.state, end) else end
        except Breakdown:
            self.iterations += 1
            return view.point(state)
        return view.point(replace(end, active=pool[end.active]))


# Likelihoods with a mode to find


class Following:
    """Work on the active atoms and candidates, mode and variances in turn.

    ``subsets`` are atoms that are screened at a time, ascending; active ones are added to each.
    """

    stuck = Status.UNSETTLED
    screens: float = _SCREENS

    def __init__(
        self,
        latent: LatentData[Any],
        hyperprior: Hyperprior,
        subsets: list[IndexArray],
        max_iter: int,
        resembled: Resembled | None = None,
    ) -> None:
        self.latent, self.hyperprior, self.subsets = latent, hyperprior, subsets
        self.fit, self.resembled = Fit(latent, hyperprior, max_iter, None), resembled

    @property
    def count(self) -> int:
        """Number of subsets."""
        return len(self.subsets)

    @property
    def iterations(self) -> int:
        """Newton steps so far."""
        return self.fit.iterations

    @property
    def exhausted(self) -> bool:
        """Whether no more are allowed."""
        return self.fit.exhausted

    def look(self, point: Point, subset: int) -> Seen:
        """Expand around the mode of a point, over a subset of the dictionary."""
        part = Part(self.latent, np.union1d(self.subsets[subset], self._of(point)))
        here = part.inside(point)
        for _ in range(_EASINGS):
            try:
                at = expand(part.data, self.hyperprior, here)
                break
            except Breakdown:  # sums in another order round differently: it was at the very edge
                here = here._replace(v=_EASIER * here.v)
        else:
            at = expand(part.data, self.hyperprior, NOTHING)
        return Seen(at, at.state, part.atoms, part.outside(at.point))

    def begin(self, point: Point, near: IndexArray, tol: float) -> Point:
        """Converge on a few atoms before the first screen."""
        pool, moved = Part(self.latent, np.union1d(self._of(point), near)), None
        if self.resembled is not None and pool.atoms.size:
            with suppress(Breakdown):
                at = expand(pool.data, self.hyperprior, pool.inside(point))
                moved = self._beside(at, pool, pool, tol)
        return moved or self._work(point, pool, tol) or point

    def onward(self, found: Screened, tol: float) -> Point | None:
        """Converge on a few atoms after a screen; None where float64 cannot."""
        atoms, moved = np.union1d(self._of(found.point), self.near(found)), None
        competing = Part(self.latent, atoms)
        tol = max(_LOOSE * found.certificate.max_gain, 0.5 * tol)
        if found.turn <= _QUICK * len(self.subsets):
            moved = self._beside(found.at, Part(self.latent, found.atoms), competing, tol)
        if moved is None or is_same(moved, found.point):
            return self._work(found.point, competing, tol)
        return moved

    def elsewhere(self, found: Screened) -> Point | None:
        """Exchange atoms, looking at all data, where only a sample was looked at; None if in vain.

        Far from its mode a sample tells little, and an exchange goes far. All data cost little
        where they are not many more.
        """
        few = self.latent.n_rows <= _NOT_MANY and len(self.subsets) == 1
        if self.resembled is None or not few or self.fit.exhausted:
            return None
        try:
            part = Part(self.latent, found.atoms)
            trial = exchanged(self.fit, part.data, found.at)
        except Breakdown:
            return None
        return None if trial is None else part.outside(trial.point)

    def near(self, found: Screened) -> IndexArray:
        """Atoms that are closest to entering."""
        chosen = closest(found.problem, found.state, found.statistics, self.latent.K)
        return found.atoms[chosen]

    def _of(self, point: Point) -> IndexArray:
        """Atoms of a point."""
        return Part.of(self.latent, point).atoms

    def _beside(self, at: Expanded, part: Part, pool: Part, tol: float) -> Point | None:
        """Converge on data that resemble all data around an expansion; None where they do not."""
        alike = None
        if self.resembled is not None:
            alike = self.resembled(at, np.searchsorted(part.atoms, pool.atoms))
        if alike is None:
            return None
        start = pool.inside(part.outside(at.point))
        try:
            here = pool.outside(self._search(alike, start, tol).point)
            few = Part.of(self.latent, here)
            end = expand(few.data, self.hyperprior, few.inside(here), alone=True)
        except Breakdown:
            return None
        if end.state.objective < at.state.objective - _FALL:
            return None
        return few.outside(end.point)

    def _work(self, point: Point, pool: Part, tol: float) -> Point | None:
        """Converge on a few atoms, looking at all data; None where float64 cannot."""
        if not pool.atoms.size:
            return point
        try:
            at = self._search(pool.data, pool.inside(point), tol)
        except Breakdown:
            return None
        return pool.outside(at.point)

    def _search(self, few: LatentData[Any], here: Point, tol: float) -> Expanded:
        """Converge, and exchange atoms."""
        at = converge(self.fit, few, here, max(tol, _ROUGH), "work")
        for _ in range(_EXCHANGES):
            trial = exchanged(self.fit, few, at)
            if trial is None:
                break
            at = trial
        return converge(self.fit, few, at.point, tol, "work") if tol < _ROUGH else at
