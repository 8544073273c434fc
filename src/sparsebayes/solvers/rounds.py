"""Rounds: a fit whose screens are dear, because they read data or because atoms come in subsets.

Tipping & Faul 2003 (section 6.2) work on subsets of the basis in turn. Here a round screens one
subset of the dictionary together with the active atoms, takes the active atoms and the best few
hundred candidates, whose Gram matrix is small, and lets the ordinary solver converge on them. When
no subset has anything to add to one and the same model, the certificate holds for all of them.

A round depends on nothing but the place it starts from. So a fit that is stopped after any round
goes on from there as if nothing had happened.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sparsebayes.engine import Breakdown, Screen, State, refresh
from sparsebayes.problem import Certificate, Problem, Progress, Report, Solution, Status, certify
from sparsebayes.solvers import working_set
from sparsebayes.solvers.exchange import is_better
from sparsebayes.solvers.swaps import swap_table

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = [
    "NEAR",
    "PARTNERS",
    "POOL",
    "Ended",
    "Place",
    "Screened",
    "View",
    "Views",
    "candidates",
    "combined",
    "nearest",
    "solve",
    "work",
]

POOL = 128
"""Candidates that compete with the active atoms after a screen,"""

PARTNERS = 6
"""and, for each active atom, those that would best replace it."""

NEAR = 512, 12
"""The same of those that are taken along to more rows."""

_LEAST = 16  # atoms that may enter, however many there are
EASINGS, EASIER = 12, 0.25  # of variances that float64 cannot hold, and by what
_IDLE = 2  # screens in a row of a subset after which nothing had moved


@dataclass(frozen=True)
class Place:
    """Where a fit is: nothing else is needed to go on from there."""

    active: IndexArray  # (m,) atoms, of the whole dictionary
    v: FloatArray  # (m,) prior variances of weights of atoms as given
    noise_var: float


@dataclass(frozen=True)
class View:
    """The problem of some atoms of the dictionary."""

    problem: Problem
    atoms: IndexArray  # which, ascending
    norm: FloatArray  # of these

    def state(self, place: Place) -> State:
        """The state of a place; its atoms must be among these.

        Where float64 cannot hold it, that of smaller variances.
        """
        local = np.searchsorted(self.atoms, place.active)
        v = place.v * self.norm[local] ** 2
        usable = v > 0  # atoms that were none on the rows that this problem is of
        quad, hyperprior = self.problem.quad, self.problem.hyperprior
        local, v = local[usable], v[usable]
        quad.columns(local)  # the screen needs them: the Gram matrix is then known too
        for _ in range(EASINGS):
            try:
                return refresh(quad, hyperprior, local, v, place.noise_var)
            except Breakdown:  # sums in another order round differently: it was at the very edge
                v = EASIER * v
        return refresh(quad, hyperprior, local, v, place.noise_var)

    def place(self, state: State) -> Place:
        """The place of a state."""
        v = state.v / self.norm[state.active] ** 2
        return Place(self.atoms[state.active], v, state.noise_var)


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


@dataclass(frozen=True)
class Screened:
    """A place and what a screen has found there."""

    view: View
    state: State
    certificate: Certificate
    subset: int
    turn: int  # screens so far, this one included

    @property
    def place(self) -> Place:
        """Where it is."""
        return self.view.place(self.state)


@dataclass(frozen=True)
class Ended:
    """How rounds have ended."""

    solution: Solution  # its state counts the atoms of the view
    view: View
    near: IndexArray  # atoms, of the whole dictionary, that were closest to entering


def solve(
    views: Views,
    start: Place,
    *,
    tol: float,
    max_iter: int,
    near: IndexArray | None = None,
    turn: int = 0,
    subset: int = 0,
    report: Report | None = None,
    keep: Callable[[Screened], None] | None = None,
) -> Ended:
    """Converge on all subsets of a dictionary.

    Parameters
    ----------
    views : Views
        The subsets.
    start : Place
        Where to start.
    tol : float
        Largest gain, in nats, that the certificate leaves on the table.
    max_iter : int
        Most Newton steps in all.
    near : ndarray of int or None, default=None
        Atoms with which the active ones converge before the first screen, in a search from the
        beginning too; None where the start is a place that was screened before.
    turn : int, default=0
        Screens of earlier calls.
    subset : int, default=0
        The subset to begin with.
    report : callable or None
        Called with a `Progress` after every screen.
    keep : callable or None
        Called after every screen with what it has found.

    Returns
    -------
    Ended
        Solution, the last view and the atoms that are closest to entering.
    """
    place, trace = start, list[Progress]()
    subset %= views.count  # with more memory there may be fewer of them
    quiet: list[Certificate] = []  # of subsets that have nothing to add to this very place
    iterations = idle = 0
    if near is not None:
        view = views.few(np.union1d(place.active, near))
        worked = work(view, view.state(place), np.arange(view.atoms.size), tol, max_iter, anew=True)
        iterations, place = worked.n_iter, view.place(worked.state)
    while True:
        view = views.view(subset, place.active)
        state = view.state(place)
        noise = view.problem.noise()._replace(var=state.noise_var)
        certificate, statistics = certify(view.problem, state, noise)
        turn += 1
        gain = certificate.max_gain
        size, objective = state.active.size, state.objective
        trace.append(Progress("screen", iterations, size, objective, state.noise_var, gain))
        if report is not None:
            report(trace[-1])
        if keep is not None:
            keep(Screened(view, state, certificate, subset, turn))
        quiet.append(certificate)
        holds = certificate.holds(tol)
        ended = None
        if holds and len(quiet) >= views.count:
            ended = Status.CONVERGED
        elif not holds and iterations >= max_iter:
            ended = Status.MAX_ITER
        elif not holds and idle == _IDLE:
            ended = Status.STALLED
        if ended is not None:
            status = view.problem.verdict(state, noise, ended)
            whole, converged = combined(quiet), ended is Status.CONVERGED
            solution = Solution(state, noise, status, whole, converged, iterations, tuple(trace))
            close = nearest(view.problem, state, statistics, views.most, NEAR)
            return Ended(solution, view, view.atoms[close])
        if not holds:
            pool = np.union1d(
                state.active, candidates(view.problem, state, statistics, POOL, PARTNERS)
            )
            worked = work(view, state, pool, tol, max_iter - iterations)
            iterations += worked.n_iter + 1
            moved = view.place(worked.state)
            idle = idle + 1 if _is_same(moved, place) else 0
            place, quiet = moved, []
        subset = (subset + 1) % views.count


class Worked(NamedTuple):
    """Where the ordinary solver has come to."""

    state: State  # it counts the atoms of the view
    n_iter: int


def work(
    view: View, state: State, pool: IndexArray, tol: float, max_iter: int, anew: bool = False
) -> Worked:
    """Let the ordinary solver converge on a few atoms.

    Parameters
    ----------
    view : View
        The problem.
    state : State
        Where it is.
    pool : ndarray of int
        Atoms of the view, the active ones among them, ascending.
    tol : float
        What the certificate is held to.
    max_iter : int
        Most Newton steps.
    anew : bool, default=False
        Whether to search from the beginning as well, and to keep what is better.

    Returns
    -------
    Worked
        The state it has come to, and the steps that took.
    """
    few = replace(view.problem, quad=view.problem.quad.gram(pool))
    start = None  # a model without atoms is no place to start from: its noise is all there is
    if state.active.size:
        start = (np.searchsorted(pool, state.active), state.v, state.noise_var)
    try:
        found = working_set.solve(few, tol=0.1 * tol, max_iter=max(max_iter, 1), start=start)
        left = max_iter - found.n_iter
        if anew and start is not None and pool.size > state.active.size and left > 1:
            other = working_set.solve(few, tol=0.1 * tol, max_iter=left // 2)
            assert isinstance(found.state, State)
            assert isinstance(other.state, State)
            better = other if is_better(few, other.state, found.state) else found
            found = replace(better, n_iter=found.n_iter + other.n_iter)
    except Breakdown:
        return Worked(state, 1)
    assert isinstance(found.state, State)
    return Worked(replace(found.state, active=pool[found.state.active]), found.n_iter)


def candidates(
    problem: Problem, state: State, statistics: Screen, count: int, partners: int
) -> IndexArray:
    """Atoms that gain most, that are closest to gaining anything, or would best replace others.

    The last matter most: among kernels, models get better by atoms that move to a neighbor, which
    adds little to the model that has the atom itself.

    Parameters
    ----------
    problem : Problem
        The problem.
    state : State
        Where it is.
    statistics : Screen
        What a screen has found there.
    count : int
        How many of the first two kinds, each.
    partners : int
        How many of the third, for each active atom.

    Returns
    -------
    ndarray of int
        Atoms that are not active, ascending.
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

    Parameters
    ----------
    problem : Problem
        The problem.
    state : State
        Where it is.
    statistics : Screen
        What a screen has found there.
    most : int
        Atoms in all, those that are active included; a few are taken in any case.
    pool : pair of int
        Candidates of each kind, and partners of each active atom, where there is room for them.
    per_atom : int, default=1
        How often an atom is counted by the problem: once for each latent function.

    Returns
    -------
    ndarray of int
        Atoms that may be active in one latent function, but not in all; ascending.
    """
    active = np.unique(state.active // per_atom)
    room = max(most - active.size, _LEAST)
    count, partners = pool
    while True:
        chosen = candidates(problem, state, statistics, count, partners)
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


def combined(certificates: list[Certificate]) -> Certificate:
    """One certificate of several subsets of a dictionary, at the same place.

    Parameters
    ----------
    certificates : list of Certificate
        At least one.

    Returns
    -------
    Certificate
        The largest of each figure.
    """
    return Certificate(
        max(one.max_gain for one in certificates),
        max(one.gradient_norm for one in certificates),
        max(one.max_curvature for one in certificates),
        max(one.rounding for one in certificates),
        noise_gradient=max(one.noise_gradient for one in certificates),
    )


def _is_same(one: Place, other: Place) -> bool:
    """Whether nothing has moved beyond rounding."""
    return (
        np.array_equal(one.active, other.active)
        and np.allclose(one.v, other.v, rtol=1e-9, atol=0.0)
        and bool(np.isclose(one.noise_var, other.noise_var, rtol=1e-9, atol=0.0))
    )
