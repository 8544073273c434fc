"""Explore: from a crowd or from nothing to one of the optima worth comparing.

A crowd of atoms that overlap is the better start, and the quicker one. Where they do not, a model
also grows from nothing, an estimated noise held at a fraction of the targets' power until it has:
estimated from the start it would swallow the signal while the model is small.
"""

from contextlib import suppress
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sparsebayes.core.quadratic import Quadratic
from sparsebayes.engine import Breakdown, State, refresh
from sparsebayes.problem import empty_state
from sparsebayes.solvers.climb import Run, climb
from sparsebayes.solvers.crowd import from_crowd
from sparsebayes.solvers.draws import drawn
from sparsebayes.solvers.exchange import LARGE, exchange_rounds, is_better, is_smooth
from sparsebayes.solvers.newton import Noise

IndexArray = NDArray[np.intp]

__all__ = ["OBSERVED", "SAMPLE", "begin", "explore", "grow", "sample", "start_var"]

_COARSE = 3.0  # nats left on the table in a sample of a large dictionary
_GROWN = 0.3  # the same while the noise is held, in the whole of a small one
_FIXED = 0.03  # a given noise below this fraction of the power is approached from above
_FEW = 150  # atoms up to which both a crowd and growth are tried in any case, and go on
_SMALL = 400  # atoms up to which both go on
_CLOSE = 20.0  # if they are so many nats apart at most
OBSERVED = 3.0  # observations for each atom, from which on searches cost little beside sums
SAMPLE = 384  # atoms that structure is sought in, of a larger dictionary


def start_var(run: Run, noise: Noise) -> float:
    """Noise variance to grow at: ``noise``, or a larger one if it is tiny beside the targets."""
    return max(noise.var, _FIXED * run.problem.power)


def begin(run: Run, noise: Noise, held_var: float, rng: np.random.RandomState) -> State:
    """Find the structure from a crowd of atoms, from nothing, or from the better of both.

    A crowd alone will do where most atoms it has led to have a neighbor that would do almost as
    well, unless growth costs little: among few atoms, or beside sums over many more observations.

    Parameters
    ----------
    run : Run
        The fit.
    noise : Noise
        The noise, and whether it is estimated.
    held_var : float
        Noise variance to grow at.
    rng : RandomState
        Draws atoms.

    Returns
    -------
    State
        One of the optima worth comparing, roughly converged.
    """
    problem = run.problem
    state = from_crowd(run, noise, rng)
    if state is None:
        return explore(run, noise, held_var, rng)
    quad = problem.quad
    cheap = quad.size <= _FEW or quad.n >= OBSERVED * quad.size
    near = noise.estimated or held_var == noise.var
    if near and not cheap and is_smooth(run, state):
        return exchange_rounds(run, state, noise, run.rough)
    other = None
    with suppress(Breakdown):
        other = grow(run, noise, held_var, rng)
    run.problem = problem  # growth may have stopped in a sample of it
    if other is not None and not is_better(problem, state, other):
        state, other = other, state
    best = exchange_rounds(run, state, noise, run.rough)
    if other is not None:  # its exchanges may turn around which is better
        close = quad.size <= _SMALL and other.objective > state.objective - _CLOSE
        with suppress(Breakdown):
            if cheap or close:
                other = exchange_rounds(run, other, noise, run.rough)
                best = other if is_better(problem, other, best) else best
    return best


def explore(run: Run, noise: Noise, held_var: float, rng: np.random.RandomState) -> State:
    """Find the structure from nothing: grow with the noise held, release it, exchange.

    Parameters
    ----------
    run : Run
        The fit.
    noise : Noise
        The noise, and whether it is estimated.
    held_var : float
        Noise variance to grow at.
    rng : RandomState
        Draws atoms of a large dictionary.

    Returns
    -------
    State
        One of the optima worth comparing, roughly converged.
    """
    return exchange_rounds(run, grow(run, noise, held_var, rng), noise, run.rough)


def grow(run: Run, noise: Noise, held_var: float, rng: np.random.RandomState) -> State:
    """Grow a model from nothing with the noise held, then release it.

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
    return state


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
    return np.sort(np.concatenate([best, drawn(quad, SAMPLE - best.size, rng, rest)]))
