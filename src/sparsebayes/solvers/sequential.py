"""The sequential algorithm of Tipping & Faul (2003), to the letter.

One atom at a time is added, re-estimated or deleted, with the appendix's rank-one updates of Sigma,
mu, S and Q. It is the reference that the default solver is compared with; it is slower and, as the
noise is estimated while the model is small, it may end at a poorer optimum.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsebayes._hyperprior import refuse_if_never_out
from sparsebayes.engine import Breakdown, State, refresh, screen
from sparsebayes.hyperpriors import gain
from sparsebayes.problem import Problem, Progress, Report, Solution, Status, certify, empty_state
from sparsebayes.solvers.newton import Noise
from sparsebayes.solvers.updates import noise_given_dof

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = ["Moves", "solve"]

_START_NOISE = 0.1  # step 1: sigma^2 = 0.1 var[t]
_NOISE_EVERY = (
    5  # section 5.1: "we also re-estimated the noise variance one in every five iterations"
)
_REFRESH_EVERY = 100  # rank-one updates drift: start again from definitions now and then
_REFRESH_CAREFULLY = 5
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
    problem: Problem,
    *,
    tol: float = 1e-6,
    max_iter: int = 10_000,
    selection: str = "greedy",
    random_state: np.random.RandomState | None = None,
    start: tuple[IndexArray, FloatArray, float] | None = None,
    report: Report | None = None,
) -> Solution:
    """Maximise the objective by single moves.

    Parameters
    ----------
    problem : Problem
        The problem.
    tol : float, default=1e-6
        Convergence test of section 4.4: no change of a log variance above it, nothing to add, and
        nothing to delete.
    max_iter : int, default=10_000
        Most moves.
    selection : {"greedy", "random", "cyclic"}, default="greedy"
        Which atom to look at next (section 4.2).
    random_state : RandomState or None
        Source of the random selection.
    start : tuple of (active, v, noise_var) or None
        Where to start, for a warm start.
    report : callable or None
        Called with a `Progress` now and then.

    Returns
    -------
    Solution
        State, status, certificate and trace.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.hyperpriors import Flat
    >>> from sparsebayes.core.quadratic import Gram
    >>> gram = Gram(np.eye(3), np.array([[3.0], [0.1], [-4.0]]), tt=30.0, n=10.0, spread=1.0)
    >>> solution = solve(Problem(gram, Flat(), noise_var=1.0), selection="cyclic")
    >>> sorted(solution.state.active.tolist())
    [0, 2]
    """
    if selection not in SELECTIONS:
        raise ValueError(f"selection must be one of {SELECTIONS}, got {selection!r}.")
    refuse_if_never_out(problem.hyperprior, "the sequential solver")
    rng = np.random.RandomState(0) if random_state is None else random_state
    noise = problem.noise(_START_NOISE)
    try:
        good = _first_state(problem, noise, start)
    except Breakdown:
        good = empty_state(problem, noise.var)
    trace: list[Progress] = []
    status = Status.MAX_ITER
    iteration = cursor = 0
    refresh_every = _REFRESH_EVERY
    moves, exact = Moves.at(problem, good), True  # exact: no rank-one update since a refresh
    while iteration < max_iter:
        try:
            plan = plan_moves(moves, tol)
            fresh = False
            if plan.todo.size == 0:  # nothing left to move: the noise, then the convergence test
                noise_var = _noise_update(problem, moves, noise)
                if exact and abs(np.log(noise_var / moves.noise_var)) <= tol:
                    status = Status.CONVERGED
                    break
                fresh = True
            else:
                j = select_move(plan, selection, rng, cursor)
                cursor = j + 1
                moves.move(j, float(plan.v[j]))
                noise_var = moves.noise_var
                if noise.estimated and iteration % _NOISE_EVERY == _NOISE_EVERY - 1:
                    noise_var, fresh = _noise_update(problem, moves, noise), True
            iteration += 1
            exact = False
            if fresh or iteration % refresh_every == 0:
                # A new noise makes new quantities: recompute them in full (section 4.3).
                good = _refreshed(problem, moves, noise_var)
                moves, exact = Moves.at(problem, good), True
                line = Progress(
                    "move", iteration, good.active.size, good.objective, noise_var, plan.best
                )
                trace.append(line)
                if report is not None:
                    report(line)
        except Breakdown:
            # Once: back to the last good state, with fewer moves between refreshes.
            iteration += 1
            if refresh_every == _REFRESH_CAREFULLY:
                status = Status.BREAKDOWN
                break
            refresh_every = _REFRESH_CAREFULLY
            moves = Moves.at(problem, good)
    try:
        good = _refreshed(problem, moves, moves.noise_var)
    except Breakdown:
        status = Status.BREAKDOWN
    certificate, _ = certify(problem, good, noise)
    converged = status is Status.CONVERGED and certificate.holds(max(tol, 1e-6))
    if status is Status.CONVERGED and not converged:
        status = Status.STALLED
    return Solution(
        good,
        noise._replace(var=good.noise_var),
        problem.verdict(good, noise, status),
        certificate,
        converged,
        iteration,
        tuple(trace),
    )


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


def _first_state(
    problem: Problem, noise: Noise, start: tuple[IndexArray, FloatArray, float] | None
) -> State:
    """Steps 1 to 3: the atom with the largest normalized projection onto the targets, alone."""
    quad = problem.quad
    if start is not None:
        noise_var = start[2] if noise.estimated else noise.var
        return refresh(quad, problem.hyperprior, start[0], start[1], noise_var)
    empty = empty_state(problem, noise.var)
    projection = np.einsum("ij,ij->i", quad.g, quad.g)
    if not projection.any():
        return empty
    j = np.array([int(np.argmax(projection))])
    s, q2 = quad.diag[j] / noise.var, projection[j] / noise.var**2
    v = problem.hyperprior.best_variance(s, q2, noise.var, problem.n_targets)  # T&F eq. 26
    return refresh(quad, problem.hyperprior, j, v, noise.var) if v[0] > 0 else empty


def _refreshed(problem: Problem, moves: Moves, noise_var: float) -> State:
    v = moves.v[moves.active]
    return refresh(problem.quad, problem.hyperprior, moves.active, v, noise_var)


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
