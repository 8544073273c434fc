"""Explore: grow a model from nothing to one of the optima worth comparing.

An estimated noise is held at a fraction of the targets' power until the model has grown: estimated
from the start it would swallow the signal while the model is small.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sparsebayes.engine import Breakdown, State, refresh
from sparsebayes.problem import empty_state
from sparsebayes.quadratic import Quadratic
from sparsebayes.solvers.climb import Run, climb
from sparsebayes.solvers.exchange import LARGE, exchange_rounds, is_smooth
from sparsebayes.solvers.newton import Noise

IndexArray = NDArray[np.intp]

__all__ = ["SAMPLE", "explore", "sample", "start_var"]

_COARSE = 3.0  # nats left on the table in a sample of a large dictionary
_GROWN = 0.3  # the same while the noise is held, in the whole of a small one
_FIXED = 0.03  # a given noise below this fraction of the power is approached from above
SAMPLE = 384  # atoms that structure is sought in, of a larger dictionary


def start_var(run: Run, noise: Noise) -> float:
    """Noise variance to grow at: ``noise``, or a larger one if it is tiny beside the targets."""
    return max(noise.var, _FIXED * run.problem.power)


def explore(run: Run, noise: Noise, held_var: float, rng: np.random.RandomState) -> State:
    """Find the structure: grow with the noise held, release it, exchange.

    With a large dictionary this is done on a sample of it whose Gram matrix is small: atoms that
    correlate with the targets, and atoms drawn at random for what only shows later.
    """
    quad = run.problem.quad
    some = None
    if run.large:
        some = sample(quad, rng)
        run.problem = replace(run.problem, quad=quad.gram(some))
    state = empty_state(run.problem, held_var)
    if noise.estimated or held_var != noise.var:
        held = Noise(held_var, False, noise.floor)
        state = climb(run, state, held, _COARSE if run.large else _GROWN, "grow")
    state = _released(run, state, noise, _COARSE if run.large else run.rough)
    if some is not None:
        run.problem = replace(run.problem, quad=quad)
        active = some[state.active]
        state = refresh(quad, run.problem.hyperprior, active, state.v, state.noise_var)
        if quad.size <= LARGE or not is_smooth(run, state):
            state = climb(run, state, noise, run.rough, "climb")
    return exchange_rounds(run, state, noise, run.rough)


def _released(run: Run, state: State, noise: Noise, rough: float) -> State:
    """Climb on from what has grown; from nothing where float64 cannot hold it at this noise."""
    try:
        return climb(run, state, noise, rough, "climb")
    except Breakdown:
        return climb(run, empty_state(run.problem, noise.var), noise, rough, "climb")


def sample(quad: Quadratic, rng: np.random.RandomState) -> IndexArray:
    """Atoms of a large dictionary to seek structure in: half correlate best, half are drawn."""
    power = np.einsum("ij,ij->i", quad.g, quad.g)
    best = np.argpartition(-power, SAMPLE // 2)[: SAMPLE // 2]
    rest = np.setdiff1d(np.flatnonzero(quad.diag), best)
    drawn = rng.choice(rest, min(SAMPLE - best.size, rest.size), replace=False)
    return np.sort(np.concatenate([best, drawn]))
