"""Relaxation: a second path to an optimum under a smoothness prior, through the flat one.

A price on every degree of freedom makes growth timid. An atom that pays for itself only beside
others never enters, an atom that stands in for several others never leaves, and an estimated noise
settles where it swallows what they would explain. Without the price atoms come in freely and
compete; charged afterwards, it only has to choose among what they found.
"""

import numpy as np

from sparsebayes.engine import Breakdown, State, refresh
from sparsebayes.hyperpriors import Flat, Smoothness
from sparsebayes.problem import Problem, empty_state
from sparsebayes.solvers.climb import Run, climb
from sparsebayes.solvers.exchange import exchange_rounds, is_better
from sparsebayes.solvers.explore import sample
from sparsebayes.solvers.newton import Noise

__all__ = ["relaxed"]

_HELD = 0.03  # an estimated noise is held at this fraction of the power without the price
_GROWN = 0.3  # nats left on the table where a tiny noise is approached from above
_WHOLE = 4096  # atoms up to which the whole dictionary is open without the price
_LEAST = 4e8  # work always allowed: what a fit of a hundred samples takes


def relaxed(run: Run, state: State, noise: Noise, rng: np.random.RandomState) -> State:
    """Go to another optimum through the flat prior; return the better of the two.

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
        ``state``, or a better one; the other path may take as much work as that to ``state``.
    """
    problem = run.problem
    if not isinstance(problem.hyperprior, Smoothness) or problem.hyperprior.c == 0:
        return state
    run.allowance = run.work + max(run.work, _LEAST)
    try:
        trial = _through_flat(run, state, noise, rng)
    except Breakdown:
        return state
    finally:
        run.problem, run.allowance = problem, np.inf
    if trial is None or not is_better(problem, trial, state):
        return state
    return exchange_rounds(run, trial, noise, run.rough)


def _through_flat(run: Run, state: State, noise: Noise, rng: np.random.RandomState) -> State | None:
    """Grow and exchange under the flat prior, then climb under the problem's own."""
    problem = run.problem
    quad = problem.quad
    held_var = max(_HELD * problem.power, noise.floor) if noise.estimated else noise.var
    held = Noise(held_var, False, noise.floor)
    pool = None
    if quad.size > _WHOLE:
        pool = np.union1d(sample(quad, rng), state.active)
        quad = quad.gram(pool)
    run.problem = Problem(quad, Flat(), held_var)
    free = empty_state(run.problem, held_var)
    large = _HELD * problem.power
    if held_var < large:
        free = climb(run, free, Noise(large, False, noise.floor), _GROWN, "relax")
    free = climb(run, free, held, run.rough, "relax")
    free = exchange_rounds(run, free, held, run.rough)
    if run.exhausted:
        return None
    run.problem = problem
    active = free.active if pool is None else pool[free.active]
    charged = refresh(problem.quad, problem.hyperprior, active, free.v, free.noise_var)
    return climb(run, charged, noise, run.rough, "charge")
