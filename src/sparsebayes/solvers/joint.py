"""The original training of Tipping (2001): all atoms in the model, all variances at once.

Every atom of the dictionary starts in the model. Each iteration computes the posterior and then
updates all variances and the noise together, by EM or by MacKay's rule (`solvers.updates`). Atoms
whose variance has gone to zero, and which the model is better without, are pruned (appendix B).
When a step gains next to nothing, the finish is the default solver's: whatever was pruned too
early is put back, and Newton steps reach the optimum that fixed-point steps creep towards.

It costs M^3 operations and a few M x M matrices at the start; it is the reference that the other
solvers are compared with, and the one that takes a `Gamma` prior of precisions.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sparsebayes._hyperprior import lets_out
from sparsebayes.core.quadratic import Gram
from sparsebayes.engine import (
    EPS,
    Breakdown,
    State,
    log_hyperprior,
    refresh,
    whiten,
    without_self,
)
from sparsebayes.hyperpriors import Hyperprior, best_variance, gain
from sparsebayes.problem import Problem, Report, Solution, Status, certify, empty_state
from sparsebayes.solvers import updates
from sparsebayes.solvers.climb import Run
from sparsebayes.solvers.newton import Noise
from sparsebayes.solvers.working_set import finish, solution

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = ["CIRCLES", "LEAST", "UPDATES", "check_size", "pruned", "solve", "state_at", "worthless"]

UPDATES = {"em": updates.em, "mackay": updates.mackay}
"""Rules by which variances and noise are updated, by the name of the solver."""

CIRCLES = 100
"""Steps in a row none of which is the best so far: MacKay's may go round in a circle."""

LEAST = float(np.finfo(float).tiny) / EPS
"""Least variance of an atom in the model: under MacKay's rule one that explains nothing gets 0,
and statistics of smaller ones would overflow."""

_START_NOISE = 0.1  # of the targets' power
_MOST_ATOMS = 12_000  # matrices of 1.2 gigabytes, of which six are held at a time
_GONE = 0.01  # v s, the signal to noise ratio of an atom, at which its variance has gone to zero
_RETREATS, _FAINTER = 20, 1e-2
_PAUSE = 10  # iterations between looks for atoms to prune, unless a tenth of them can go


def solve(
    problem: Problem,
    *,
    update: str = "em",
    tol: float = 1e-6,
    max_iter: int = 10_000,
    random_state: np.random.RandomState | None = None,
    start: tuple[IndexArray, FloatArray, float] | None = None,
    report: Report | None = None,
) -> Solution:
    """Maximise the objective by updates of all variances at once.

    Parameters
    ----------
    problem : Problem
        The problem; at most 12 000 atoms.
    update : {"em", "mackay"}, default="em"
        The rule. Under "em" the objective rises at every step.
    tol : float, default=1e-6
        Largest gain, in nats, that the certificate leaves on the table. Updates end when one of
        them gains less.
    max_iter : int, default=10_000
        Most updates and, once they have ended, Newton steps.
    random_state : RandomState or None
        Not used: there is nothing random about it.
    start : tuple of (active, v, noise_var) or None
        Where to start, for a warm start. Atoms that it leaves out start out of the model if the
        hyperprior lets them.
    report : callable or None
        Called with a `Progress` at every step.

    Returns
    -------
    Solution
        State, status, certificate and trace, in which updates are of the phase "em" or "mackay".

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.hyperpriors import Flat
    >>> from sparsebayes.core.quadratic import Gram
    >>> gram = Gram(np.eye(3), np.array([[3.0], [0.1], [-4.0]]), tt=30.0, n=10.0, spread=1.0)
    >>> solution = solve(Problem(gram, Flat(), noise_var=1.0), update="mackay")
    >>> sorted(solution.state.active.tolist()), solution.status.name
    ([0, 2], 'CONVERGED')
    """
    if update not in UPDATES:
        raise ValueError(f"update must be one of {tuple(UPDATES)}, got {update!r}.")
    check_size(problem.quad.size, update)
    problem = replace(problem, quad=problem.quad.gram(np.arange(problem.quad.size)))
    run = Run(problem, max_iter, report, large=False)
    noise = problem.noise(_START_NOISE)
    state = empty_state(problem, noise.var)
    try:
        state = _first_state(problem, noise, start)
        state, settled = _iterate(run, state, noise, update, tol)
        if settled and not run.exhausted:
            return finish(run, state, noise, tol)
        ended = Status.MAX_ITER
    except Breakdown:
        ended = Status.BREAKDOWN
    certificate, _ = certify(problem, state, noise)
    if certificate.holds(tol):
        ended = Status.CONVERGED
    return solution(run, state, noise, ended, certificate)


def check_size(size: int, solver: str) -> None:
    """Refuse a dictionary whose matrices would not fit into memory.

    Parameters
    ----------
    size : int
        Number of variances.
    solver : str
        Name of the solver, for the message.

    Examples
    --------
    >>> check_size(1000, "em")
    """
    if size > _MOST_ATOMS:
        raise ValueError(
            f"solver={solver!r} starts with all {size} atoms in the model, and matrices of that "
            f"size squared would take {48e-9 * size**2:.0f} gigabytes: use solver='auto', or "
            f"at most {_MOST_ATOMS} atoms."
        )


def _first_state(
    problem: Problem, noise: Noise, start: tuple[IndexArray, FloatArray, float] | None
) -> State:
    """All atoms that are any, of one variance: as much signal as the targets have power."""
    quad, hyperprior = problem.quad, problem.hyperprior
    usable = np.flatnonzero(quad.diag > 0)
    v = np.full(quad.size, problem.power * quad.n / max(usable.size, 1) or noise.var)
    noise_var = noise.var
    if start is not None:
        if lets_out(hyperprior):
            usable = start[0]
        v[start[0]] = start[1]
        noise_var = start[2] if noise.estimated else noise.var
    for _ in range(_RETREATS):
        try:
            return refresh(quad, hyperprior, usable, v[usable], noise_var)
        except Breakdown:  # a noise that is tiny beside the targets: begin with fainter atoms
            v *= _FAINTER
    return refresh(quad, hyperprior, usable, v[usable], noise_var)


def _iterate(run: Run, state: State, noise: Noise, update: str, tol: float) -> tuple[State, bool]:
    """Update until that gains less than ``tol``; whether it came to that before max_iter."""
    problem, hyperprior = run.problem, run.problem.hyperprior
    gram = problem.quad.gram(state.active)
    looked = idle = 0
    best = state
    while not run.exhausted:
        if not state.active.size:
            return state, True
        here = noise._replace(var=state.noise_var)
        v, noise_var = UPDATES[update](gram, hyperprior, state.v, here, state.white)
        run.iterations += 1
        active, left = state.active, np.flatnonzero(v >= LEAST)
        if left.size < v.size:
            gram, active, v = gram.gram(left), active[left], v[left]
        try:
            following = state_at(gram, hyperprior, active, v, noise_var)
        except Breakdown:
            return state, True
        rise = following.objective - state.objective
        if update == "em" and rise <= 0:  # no more than rounding: EM does not fall
            return state, True
        state = following
        gone, max_gain = worthless(hyperprior, state)
        run.note(update, state, max_gain)
        if abs(rise) < tol:
            return state, True
        best, idle = (state, 0) if state.objective > best.objective else (best, idle + 1)
        if idle >= CIRCLES:
            return best, True
        looked += 1
        if gone.size and (looked >= _PAUSE or 10 * gone.size >= state.active.size):
            gram, state = pruned(gram, hyperprior, state, gone)
            looked = 0
    return state, False


def state_at(
    gram: Gram, hyperprior: Hyperprior, active: IndexArray, v: FloatArray, noise_var: float
) -> State:
    """State of ``active``, which are all atoms of a Gram matrix; raises `Breakdown`."""
    white = whiten(gram, v, noise_var)
    objective = white.log_evidence + log_hyperprior(hyperprior, v, noise_var)
    if not np.isfinite(objective):
        raise Breakdown
    return State(active, v, noise_var, white, objective)


def worthless(hyperprior: Hyperprior, state: State) -> tuple[IndexArray, float]:
    """Atoms that have faded and that the model is better without, and the largest gain of any.

    Parameters
    ----------
    hyperprior : Hyperprior
        Prior of the variances.
    state : State
        The model.

    Returns
    -------
    gone : ndarray of int
        Positions among the active atoms, the most worthless first.
    max_gain : float
        What changing a single variance of the model would gain, in nats.
    """
    s, q2 = without_self(state.v, state.white)
    n_targets, noise_var = state.white.z.shape[1], state.noise_var
    best = best_variance(hyperprior, s, q2, noise_var, n_targets)
    gains = gain(hyperprior, s, q2, best, noise_var, n_targets, state.v)
    ratio = state.v * (s if s.ndim == 1 else s.max(axis=1))
    gone = np.flatnonzero((best == 0) & (ratio < _GONE))
    gone = gone[np.argsort(-gains[gone], kind="stable")]
    return gone, max(float(gains.max(initial=0.0)), 0.0)


def pruned(
    gram: Gram, hyperprior: Hyperprior, state: State, gone: IndexArray
) -> tuple[Gram, State]:
    """Delete atoms together, or as many of them as the objective does not fall for.

    Parameters
    ----------
    gram : Gram
        Quadratic of the active atoms.
    hyperprior : Hyperprior
        Prior of the variances.
    state : State
        The model.
    gone : ndarray of int
        Positions among the active atoms: each gains by its deletion, one after another.

    Returns
    -------
    Gram, State
        Of the atoms that are left.
    """
    while gone.size:
        keep = np.ones(state.active.size, dtype=np.bool_)
        keep[gone] = False
        left = np.flatnonzero(keep)
        fewer = gram.gram(left)
        trial = state_at(fewer, hyperprior, state.active[left], state.v[left], state.noise_var)
        if trial.objective >= state.objective:
            return fewer, trial
        gone = gone[: gone.size // 2]
    return gram, state
