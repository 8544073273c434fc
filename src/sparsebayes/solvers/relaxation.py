"""Relaxation: other paths to an optimum under a smoothness prior, through the flat one.

A price on every degree of freedom makes growth timid. An atom that pays for itself only beside
others never enters, an atom that stands in for several others never leaves, and an estimated noise
settles where it swallows what they would explain. Without the price atoms come in freely and
compete; charged afterwards, it only has to choose among what they found.
"""

import numpy as np
from numpy.typing import NDArray

from sparsebayes.engine import Breakdown, State, refresh
from sparsebayes.hyperpriors import Flat, Smoothness
from sparsebayes.problem import Problem, empty_state
from sparsebayes.solvers.climb import Run, climb
from sparsebayes.solvers.draws import drawn
from sparsebayes.solvers.exchange import exchange_rounds, is_better, rearrange
from sparsebayes.solvers.explore import sample
from sparsebayes.solvers.newton import Noise

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = ["relaxed"]

_HELD = 0.03  # an estimated noise is held at this fraction of the power while the model grows
_GROWN = 0.3  # nats left on the table where a smaller noise is approached from there
_WHOLE = 4096  # atoms up to which the whole dictionary is open without the price
_CROWD = 100  # atoms drawn from a large dictionary to compete with those found
_RAISED = 100.0  # factor on all variances before they do
_AGREE = 0.1  # nats by which two paths to one optimum may differ
_CLOSE = 1.0  # nats by which an optimum must be better to be kept without a closer look
_FINE = 1e-3  # nats left on the table in that look
_RESERVE = 4  # how often max_iter must hold the steps taken so far
_SHARE = 1.5  # work allowed, as a share of that which led to the first optimum
_LEAST = 1.5e8  # the least allowed, in about nanoseconds


def relaxed(run: Run, state: State, noise: Noise, rng: np.random.RandomState) -> State:
    """Seek a better optimum through the flat prior, from nothing and from the best so far.

    Parameters
    ----------
    run : Run
        The fit, which has arrived at ``state``.
    state : State
        An optimum under the hyperprior of the problem.
    noise : Noise
        The noise, and whether it is estimated.
    rng : RandomState
        Draws atoms of a large dictionary.

    Returns
    -------
    State
        ``state`` or a better one, for about as much work as it took to find ``state``.
    """
    hyperprior = run.problem.hyperprior
    if not isinstance(hyperprior, Smoothness) or hyperprior.c == 0:
        return state
    if _RESERVE * run.iterations > run.max_iter:  # enough must be left to converge
        return state
    first = state
    allowance = run.work + max(_SHARE * run.work, _LEAST)
    for anew in (True, False):
        trial = _detour(run, state, noise, rng, anew, allowance)
        if trial is None:
            break
        gained = trial.objective - state.objective
        if is_better(run.problem, trial, state):
            state = exchange_rounds(run, trial, noise, run.rough)
        if abs(gained) < _AGREE or not state.active.size or run.problem.is_collapsed(state):
            break  # a third path would hardly lead to a better end
    if state is not first and state.objective - first.objective < _CLOSE:
        # Both have yet to climb: the one ahead now need not be the one that ends ahead.
        state = climb(run, state, noise, _FINE, "second")
        first = climb(run, first, noise, _FINE, "first")
        state = state if is_better(run.problem, state, first) else first
    return state


def _detour(
    run: Run,
    state: State,
    noise: Noise,
    rng: np.random.RandomState,
    anew: bool,
    allowance: float,
) -> State | None:
    """Climb and exchange under the flat prior, then climb under the problem's own.

    None if that would take more work than allowed, or more digits than float64 has.
    """
    problem = run.problem
    pool = np.arange(problem.quad.size)
    if pool.size > _WHOLE:
        pool = np.union1d(sample(problem.quad, rng), state.active)
    try:
        run.allowance = allowance
        free = _free(run, None if anew else state, noise, pool, rng)
        if run.exhausted:
            return None
        run.problem, run.allowance = problem, np.inf
        active = pool[free.active]
        charged = refresh(problem.quad, problem.hyperprior, active, free.v, free.noise_var)
        return climb(run, charged, noise, run.rough, "charge")
    except Breakdown:
        return None
    finally:
        run.problem, run.allowance = problem, np.inf


def _free(
    run: Run, state: State | None, noise: Noise, pool: IndexArray, rng: np.random.RandomState
) -> State:
    """Go to an optimum among the atoms of ``pool`` under the flat prior, the noise held."""
    problem = run.problem
    quad = problem.quad if pool.size == problem.quad.size else problem.quad.gram(pool)
    usual = max(_HELD * problem.power, noise.floor)
    if noise.estimated:
        noise = Noise(usual if state is None else state.noise_var, False, noise.floor)
    run.problem = Problem(quad, Flat(), noise.var)
    if state is None:
        free = empty_state(run.problem, noise.var)
        if noise.var < usual:
            free = climb(run, free, noise._replace(var=usual), _GROWN, "grow")
    else:
        active, v = np.searchsorted(pool, state.active), state.v
        if run.large:
            active, v = _crowd(run, active, v, noise.var, rng)
        free = refresh(quad, Flat(), active, v, noise.var)
    free = climb(run, free, noise, run.rough, "relax")
    return exchange_rounds(run, free, noise, run.rough)


def _crowd(
    run: Run, active: IndexArray, v: FloatArray, noise_var: float, rng: np.random.RandomState
) -> tuple[IndexArray, FloatArray]:
    """Bring in a crowd of atoms drawn at random: many together may do what none does alone."""
    rest = np.setdiff1d(np.flatnonzero(run.problem.quad.diag), active)
    crowd = drawn(run.problem.quad, _CROWD, rng, rest)
    v = np.concatenate([v, np.full(crowd.size, np.median(v))])
    return rearrange(run, np.concatenate([active, crowd]), _RAISED * v, noise_var)
