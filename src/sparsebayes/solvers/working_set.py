"""The default solver: screens of the whole dictionary, work on a few atoms, joint Newton steps.

1. Screen: S, Q and the gain of every atom. Only this touches the whole dictionary.
2. Work: add the best few candidates one at a time, each given those before it, on their small Gram
   matrix; then Newton steps on all active variances (and the noise), deleting as they go.
3. Exchange: greedy growth ends in one of many optima. Add to each active atom the atoms that
   would best replace it, let them compete, converge again, and keep the result if it is better.

A search begins with a crowd of atoms that share one variance, of which most leave, or grows from
nothing, or tries both (`solvers.explore`). While a model grows the noise is held at a fraction of
the targets' power: estimated from the start it would swallow the signal while the model is small.
"""

from contextlib import suppress
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sparsebayes._hyperprior import refuse_if_never_out
from sparsebayes.engine import Breakdown, State, refresh
from sparsebayes.problem import (
    Certificate,
    Problem,
    Report,
    Solution,
    Status,
    certify,
    empty_state,
)
from sparsebayes.solvers.climb import Run, climb, resume_noise
from sparsebayes.solvers.creep import creep, stride
from sparsebayes.solvers.descend import descended
from sparsebayes.solvers.exchange import (
    LARGE,
    Exchange,
    exchange,
    exchange_rounds,
    is_better,
    is_smooth,
    settle,
)
from sparsebayes.solvers.explore import OBSERVED, SAMPLE, begin, explore, start_var
from sparsebayes.solvers.neighborhood import entering, within
from sparsebayes.solvers.newton import Noise
from sparsebayes.solvers.polish import polished
from sparsebayes.solvers.relaxation import relaxed

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = ["finish", "solution", "solve"]

_HELD = 0.09  # noise held at (0.3 std)^2 while the model grows
_FINE = 1e-3  # nats left on the table where optima are compared
_LITTLE = 3  # restarts that cost little beside sums over many observations
_DENSE = 400  # atoms up to which the whole Gram matrix is computed at once
_POOL = 200  # atoms closest to entering that a large dictionary's finish first looks at
_POOLS = 3  # how often


def solve(
    problem: Problem,
    *,
    tol: float = 1e-6,
    max_iter: int = 10_000,
    n_restarts: int = 0,
    random_state: np.random.RandomState | None = None,
    start: tuple[IndexArray, FloatArray, float] | None = None,
    report: Report | None = None,
) -> Solution:
    """Maximise the objective over all atoms, their variances and the noise.

    Parameters
    ----------
    problem : Problem
        The problem.
    tol : float, default=1e-6
        Largest gain, in nats, that the certificate leaves on the table.
    max_iter : int, default=10_000
        Most Newton steps in all.
    n_restarts : int, default=0
        Further random exchanges, each followed to its optimum; the best is kept. Among many atoms
        of far more observations, beside whose sums they cost little, there are always a few.
    random_state : RandomState or None
        Source of the random exchanges.
    start : tuple of (active, v, noise_var) or None
        Where to start, for a warm start.
    report : callable or None
        Called with a `Progress` after every screen.

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
    >>> solution = solve(Problem(gram, Flat(), noise_var=1.0))
    >>> sorted(solution.state.active.tolist()), solution.status.name
    ([0, 2], 'CONVERGED')
    """
    refuse_if_never_out(problem.hyperprior, "the working-set solver")
    if problem.quad.size <= _DENSE:
        problem = replace(problem, quad=problem.quad.gram(np.arange(problem.quad.size)))
    large = problem.quad.size > 2 * SAMPLE
    if large and start is None and problem.quad.n >= OBSERVED * problem.quad.size:
        n_restarts = max(n_restarts, _LITTLE)
    run = Run(problem, max_iter, report, large, patient=n_restarts > 0)
    rng = np.random.RandomState(0) if random_state is None else random_state
    noise = problem.noise(_HELD)
    good = empty_state(problem, problem.noise().var)
    try:
        if start is not None:
            noise = noise._replace(var=noise.var if not noise.estimated else start[2])
            good = refresh(problem.quad, problem.hyperprior, start[0], start[1], noise.var)
        else:
            good = begin(run, noise, start_var(run, noise), rng)
            good = descended(run, good, noise, rng)
            good = relaxed(run, good, noise, rng)
        good = _restarts(run, good, noise, n_restarts, rng)
        return finish(run, good, noise, tol)
    except Breakdown:
        certificate, _ = certify(problem, good, noise)
        whole = replace(run, problem=problem)
        return solution(whole, good, noise, Status.BREAKDOWN, certificate)


def _restarts(
    run: Run, state: State, noise: Noise, n_restarts: int, rng: np.random.RandomState
) -> State:
    """Random exchanges from the best optimum so far, and fresh explorations, in turn."""
    if n_restarts:
        state = climb(run, state, noise, _FINE, "restart")
    for restart in range(n_restarts):
        if run.exhausted:
            break
        trial: State | None
        if restart % 2:
            trial = _fresh(run, noise, noise.var * 4.0 ** rng.uniform(-1, 1), rng)
        else:
            raised, cut = 10.0 ** rng.uniform(0, 5), 2.0 ** -float(rng.randint(0, 3))
            partners, hold = int(rng.randint(2, 7)), bool(rng.randint(2))
            how = Exchange(raised, cut, partners, run.rough, hold)
            trial = exchange(run, state, noise, how)
        if trial is None:
            continue
        with suppress(Breakdown):  # that of a trial costs nothing else
            if is_smooth(run, trial):
                trial = settle(run, trial, noise, run.rough)
            trial = climb(run, trial, noise, _FINE, "restart")
            if is_better(run.problem, trial, state):
                state = trial
                state = exchange_rounds(run, trial, noise, _FINE)
    return state


def _fresh(run: Run, noise: Noise, held_var: float, rng: np.random.RandomState) -> State | None:
    problem = run.problem
    try:
        return explore(run, noise, held_var, rng)
    except Breakdown:
        return None
    finally:
        run.problem = problem  # an exploration works on a sample of it


def finish(run: Run, state: State, noise: Noise, tol: float) -> Solution:
    """Converge tightly, from definitions, until the certificate holds.

    Parameters
    ----------
    run : Run
        The account.
    state : State
        Where to start.
    noise : Noise
        Whether the noise is a parameter, and its floor.
    tol : float
        Largest gain, in nats, that the certificate leaves on the table.

    Returns
    -------
    Solution
        State, status, certificate and trace.
    """
    problem = run.problem
    previous = -np.inf
    while True:
        if problem.quad.size > LARGE:
            state = _nearby(run, state, noise, tol)
        state = creep(run, state, noise, tol)
        state = climb(run, state, noise, tol, "finish", stride)
        state = run.newton(state.active, state.v, resume_noise(noise, state), 1e-11, escape=True)
        state = refresh(problem.quad, problem.hyperprior, state.active, state.v, state.noise_var)
        certificate, _ = certify(problem, state, noise)
        run.note("certify", state, certificate.max_gain)
        if replace(certificate, rounding=0.0).holds(tol):
            return solution(run, state, noise, Status.CONVERGED, certificate)
        if run.exhausted:
            ended = Status.CONVERGED if certificate.holds(tol) else Status.MAX_ITER
            return solution(run, state, noise, ended, certificate)
        if certificate.max_gain > tol and not run.sharp:  # what no screen of squares has seen
            run.sharp, run._screened, previous = True, None, -np.inf
            continue
        if state.objective <= previous + 1e-12 * abs(state.objective):
            finer = polished(problem, state, noise, tol**0.5)
            better, _ = certify(problem, finer, noise)
            if better.holds(tol):
                return solution(run, finer, noise, Status.CONVERGED, better)
            ended = Status.CONVERGED if certificate.holds(tol) else Status.STALLED
            return solution(run, state, noise, ended, certificate)
        previous = state.objective


def _nearby(run: Run, state: State, noise: Noise, tol: float) -> State:
    """Converge among the atoms that are closest to entering, whose Gram matrix is small.

    Late additions come one or two at a time, and the column of G that each needs in the whole
    dictionary costs as much as the Gram matrix of a few hundred atoms.
    """
    for _ in range(_POOLS):
        gains = run.screen(state).gains.copy()
        gains[state.active] = 0.0
        if run.exhausted or gains.max(initial=0.0) <= tol:
            break
        pool = entering(run, state, _POOL)
        state = within(
            run, state, pool, lambda near: climb(run, near, noise, tol, "finish", stride)
        )
    return state


def solution(
    run: Run, state: State, noise: Noise, ended: Status, certificate: Certificate
) -> Solution:
    """What a run returns that has ended at a state."""
    return Solution(
        state,
        noise._replace(var=state.noise_var),
        run.problem.verdict(state, noise, ended),
        certificate,
        ended is Status.CONVERGED,
        run.iterations,
        tuple(run.trace),
    )
