"""The sequential algorithm of Tipping & Faul (2003), to the letter.

One atom at a time is added, re-estimated or deleted, with the appendix's rank-one updates of Sigma,
mu, S and Q. It is the reference that the default solver is compared with; it is slower and, as the
noise is estimated while the model is small, it may end at a poorer optimum. Where the likelihood is
not Gaussian, moves are made on one expansion until an atom has entered or left. One expansion may
add an atom that the next deletes: where moves go round in a circle, the default solver ends it.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsebayes._hyperprior import refuse_if_never_out
from sparsebayes.engine import Breakdown, State, screen
from sparsebayes.hyperpriors import gain
from sparsebayes.problem import Problem, Progress, Report, Solution, Status, certify
from sparsebayes.solvers import relinearize
from sparsebayes.solvers.expand import (
    NOTHING,
    UNIT_NOISE,
    Expanded,
    LatentProblem,
    Point,
    look,
)
from sparsebayes.solvers.newton import Noise
from sparsebayes.solvers.updates import noise_given_dof

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = ["Moves", "solve"]

_START_NOISE = 0.1  # step 1: sigma^2 = 0.1 var[t]
_NOISE_EVERY = 5  # moves, section 5.1; a new noise makes new quantities (section 4.3)
_REFRESH_EVERY = 100  # moves: rank-one updates drift
_REESTIMATES = 10  # of variances, on one expansion of a likelihood
SELECTIONS = ("greedy", "random", "cyclic")
"""The three ways of section 4.2: the greatest increase, at random, or an ordered list."""


@dataclass
class Moves:
    """Sigma, mu, S and Q of a model under single moves: the updates of T&F appendix A.

    ``v`` has an entry for each of the M atoms, zero for those out of the model; Sigma and mu are
    kept for the active ones, in the order of ``active``.
    """

    problem: Problem
    noise_var: float
    active: IndexArray
    v: FloatArray  # (M,)
    Sigma: FloatArray  # (m, m)
    mu: FloatArray  # (m, T)
    S: FloatArray  # (M,)
    Q: FloatArray  # (M, T)

    @classmethod
    def at(cls, problem: Problem, state: State) -> "Moves":
        """Start from definitions."""
        statistics = screen(problem.quad, problem.hyperprior, state)
        v = np.zeros(problem.quad.size)
        v[state.active] = state.v
        return cls(
            problem,
            state.noise_var,
            state.active,
            v,
            state.Sigma,
            state.mu,
            statistics.S,
            statistics.Q,
        )

    def _H_a(self) -> FloatArray:
        """Rows of H for active atoms, shape (m, M)."""
        return self.problem.quad.columns(self.active) / self.noise_var

    def without_self(self) -> tuple[FloatArray, FloatArray]:
        """Sparsity and squared quality of active atoms, each out of its own model.

        T&F eq. 23 in the form that keeps its digits: 1/Sigma_jj - 1/v_j and mu_j / Sigma_jj.
        """
        own = self.Sigma.diagonal()
        if not (own > 0).all():  # rank-one updates have drifted beyond use
            raise Breakdown
        least = np.finfo(float).eps / self.noise_var
        s = np.maximum(1.0 / own - 1.0 / self.v[self.active], least)
        return s, np.einsum("ij,ij->i", self.mu, self.mu) / own**2

    def move(self, j: int, v_new: float) -> None:
        """Set the variance of atom ``j``: add, re-estimate or delete it.

        Parameters
        ----------
        j : int
            The atom.
        v_new : float
            Its new variance; zero takes it out of the model.
        """
        if self.v[j] == 0:
            if v_new > 0:
                self._add(j, v_new)
        elif v_new > 0:
            self._rescale(j, v_new)
        else:
            self._delete(j)
        self.v[j] = v_new

    def _add(self, j: int, v_new: float) -> None:
        column = self.problem.quad.columns(np.array([j]))[0] / self.noise_var  # beta Phi' phi_i
        tied = self.Sigma @ column[self.active]  # beta Sigma Phi' phi_i
        e = column.copy()  # beta phi_m' e_i
        if self.active.size:
            e -= tied @ self._H_a()
        own = 1.0 / (1.0 / v_new + self.S[j])  # Sigma_ii
        mu_j = own * self.Q[j]
        m = self.active.size
        Sigma = np.empty((m + 1, m + 1))
        Sigma[:m, :m] = self.Sigma + own * np.outer(tied, tied)  # T&F eq. 28, corrected
        Sigma[:m, m] = Sigma[m, :m] = -own * tied
        Sigma[m, m] = own
        self.Sigma = Sigma
        self.mu = np.vstack([self.mu - np.outer(tied, mu_j), mu_j])  # T&F eq. 29
        self.S = self.S - own * e**2  # T&F eq. 30
        self.Q = self.Q - np.outer(e, mu_j)  # T&F eq. 31
        self.active = np.append(self.active, j)

    def _rescale(self, j: int, v_new: float) -> None:
        k = int(np.flatnonzero(self.active == j)[0])
        change = 1.0 / v_new - 1.0 / self.v[j]
        left = self.Sigma[k, k] * change + 1.0
        if left < 1e-4:  # 1/Sigma - 1/v has no digits left: begin again without the atom
            self._delete(j)
            self._add(j, v_new)
            return
        kappa = change / left
        self._shift(k, kappa)  # T&F eqs. 33 to 36

    def _delete(self, j: int) -> None:
        k = int(np.flatnonzero(self.active == j)[0])
        self._shift(k, 1.0 / self.Sigma[k, k])  # T&F eqs. 38 to 41
        keep = np.arange(self.active.size) != k
        self.active = self.active[keep]
        self.Sigma = self.Sigma[np.ix_(keep, keep)]
        self.mu = self.mu[keep]

    def _shift(self, k: int, kappa: float) -> None:
        column, mu_k = self.Sigma[:, k].copy(), self.mu[k].copy()
        tied = column @ self._H_a()  # beta Sigma_j' Phi' phi_m
        self.Sigma = self.Sigma - kappa * np.outer(column, column)
        self.mu = self.mu - kappa * np.outer(column, mu_k)
        self.S = self.S + kappa * tied**2
        self.Q = self.Q + kappa * np.outer(tied, mu_k)


def solve(
    problem: Problem | LatentProblem,
    *,
    tol: float = 1e-6,
    max_iter: int = 10_000,
    selection: str = "greedy",
    random_state: np.random.RandomState | None = None,
    start: Point | tuple[IndexArray, FloatArray, float] | None = None,
    report: Report | None = None,
) -> Solution:
    """Maximize the objective by at most ``max_iter`` single moves.

    With Gaussian noise the convergence test is that of section 4.4: no change of a log variance
    above ``tol``, nothing to add and nothing to delete. With other likelihoods it is the
    certificate of the last expansion.
    """
    if selection not in SELECTIONS:
        raise ValueError(f"selection must be one of {SELECTIONS}, got {selection!r}.")
    refuse_if_never_out(problem.hyperprior, "the sequential solver")
    rng = np.random.RandomState(0) if random_state is None else random_state
    exact = isinstance(problem, Problem)
    noise = problem.noise(_START_NOISE)
    held = _REFRESH_EVERY if exact else _REESTIMATES
    held = _NOISE_EVERY if noise.estimated else held
    at = _first(problem, noise, None if start is None else Point(*start))
    trace: list[Progress] = []
    status = Status.MAX_ITER
    seen: set[tuple[bytes, float]] = set()
    iteration = cursor = 0
    while True:
        try:
            moves = Moves.at(at.problem, at.state)
            plan = plan_moves(moves, tol)
            rests = plan.todo.size == 0 and (
                abs(np.log(_noise_update(at.problem, moves, noise) / moves.noise_var)) <= tol
            )
            size, objective = at.state.active.size, at.state.objective
            line = Progress("move", iteration, size, objective, at.state.noise_var, plan.best)
            trace.append(line)
            if report is not None:
                report(line)
            if rests or (not exact and plan.best <= tol and _certified(at, tol)):
                status = Status.CONVERGED
            if status is Status.CONVERGED or iteration >= max_iter:
                break
            place = np.sort(at.state.active).tobytes(), round(objective, 9)
            if isinstance(problem, LatentProblem) and place in seen:
                return _ended_by_default(problem, at, tol, max_iter, iteration, trace, report)
            seen.add(place)
            made = 0
            while plan.todo.size and made < held and iteration < max_iter:
                j = select_move(plan, selection, rng, cursor)
                cursor = j + 1
                changes = (moves.v[j] > 0) != (plan.v[j] > 0)
                moves.move(j, float(plan.v[j]))
                iteration, made = iteration + 1, made + 1
                if changes and not exact:
                    break
                plan = plan_moves(moves, tol)
            iteration += made == 0  # the noise alone
            noise_var = _noise_update(at.problem, moves, noise)
            at = look(problem, at.at(moves.active, moves.v[moves.active], noise_var))
        except Breakdown:  # once: back to the last good state, and from definitions every time
            iteration += 1
            if held == 1:
                status = Status.BREAKDOWN
                break
            held = 1
    certificate, _ = certify(at.problem, at.state, noise)
    converged = status is Status.CONVERGED and certificate.holds(max(tol, 1e-6))
    if status is Status.CONVERGED and not converged:
        status = Status.STALLED
    return Solution(
        at.state,
        noise._replace(var=at.state.noise_var),
        at.problem.verdict(at.state, noise, status),
        certificate,
        converged,
        iteration,
        tuple(trace),
        quad=None if exact else at.quad,
    )


def _certified(at: Expanded, tol: float) -> bool:
    return certify(at.problem, at.state, UNIT_NOISE)[0].holds(tol)


def _ended_by_default(
    problem: LatentProblem,
    at: Expanded,
    tol: float,
    max_iter: int,
    spent: int,
    trace: list[Progress],
    report: Report | None,
) -> Solution:
    """Where the default solver, whose steps are short, leads to from a circle of moves."""
    end = relinearize.solve(problem, tol=tol, max_iter=max_iter, start=at.point, report=report)
    return replace(end, n_iter=spent + end.n_iter, trace=(*trace, *end.trace))


class _Plan(NamedTuple):
    """What each atom would do next."""

    todo: IndexArray  # atoms with something to do
    v: FloatArray  # (M,) best variance
    gains: FloatArray  # (M,)
    best: float


def plan_moves(moves: Moves, tol: float) -> _Plan:
    """Steps 4 to 8 for every atom at once: theta, the best variance and what it gains."""
    quad, hyperprior = moves.problem.quad, moves.problem.hyperprior
    noise_var, n_targets = moves.noise_var, moves.problem.n_targets
    inside = moves.v > 0
    usable = inside | (moves.S * noise_var > quad.collinear * quad.diag)
    s = np.where(usable, moves.S, 1.0)
    q2 = np.where(usable, np.einsum("ij,ij->i", moves.Q, moves.Q), 0.0)
    s[moves.active], q2[moves.active] = moves.without_self()
    v = hyperprior.best_variance(s, q2, noise_var, n_targets)
    gains = gain(hyperprior, s, q2, v, noise_var, n_targets, moves.v)
    with np.errstate(divide="ignore", invalid="ignore"):
        change = np.abs(np.log(v) - np.log(moves.v))  # infinite for additions and deletions
    todo = np.flatnonzero((inside | (v > 0)) & (change > tol))
    return _Plan(todo, v, gains, float(gains.max(initial=0.0)))


def select_move(plan: _Plan, selection: str, rng: np.random.RandomState, cursor: int) -> int:
    """Section 4.2: the greatest increase, at random, or the next of an ordered list."""
    if selection == "greedy":
        return int(plan.todo[np.argmax(plan.gains[plan.todo])])
    if selection == "random":
        return int(rng.choice(plan.todo))
    following = plan.todo[plan.todo >= cursor]
    return int(following[0] if following.size else plan.todo[0])


def _first(problem: Problem | LatentProblem, noise: Noise, start: Point | None) -> Expanded:
    """Steps 1 to 3: the atom with the largest normalized projection onto the targets, alone."""
    empty = look(problem, NOTHING._replace(noise_var=noise.var))
    try:
        if start is not None:
            noise_var = start.noise_var if noise.estimated else noise.var
            return look(problem, start._replace(noise_var=noise_var))
        quad = empty.quad
        projection = np.einsum("ij,ij->i", quad.g, quad.g)
        if not projection.any():
            return empty
        j = np.array([int(np.argmax(projection))])
        s, q2 = quad.diag[j] / noise.var, projection[j] / noise.var**2
        v = problem.hyperprior.best_variance(s, q2, noise.var, quad.g.shape[1])  # T&F eq. 26
        return look(problem, empty.at(j[v > 0], v[v > 0], noise.var))
    except Breakdown:
        return empty


def _noise_update(problem: Problem, moves: Moves, noise: Noise) -> float:
    """Step 9, with the hyperprior's own term where it depends on the noise."""
    if not noise.estimated:
        return noise.var
    quad, n_targets = problem.quad, problem.n_targets
    v = moves.v[moves.active]
    G = quad.gram(moves.active).G
    fit = np.einsum("ij,ij->", moves.mu, 2 * quad.g[moves.active] - G @ moves.mu)
    misfit = max(quad.tt - float(fit), 0.0)
    free = quad.n - v.size + float((moves.Sigma.diagonal() / v).sum())
    return noise_given_dof(problem.hyperprior, v, noise, misfit, n_targets * free)
