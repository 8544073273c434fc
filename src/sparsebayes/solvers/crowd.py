"""Crowd: begin with many atoms at once, of which most leave.

Growth by the best additions commits itself early: the first atoms stand where one alone serves
best, and an estimated noise takes what they leave. Atoms of one variance, drawn at random, explain
together what there is to explain; in a few of MacKay's steps they share it out (Tipping 2001
trained all its machines from all atoms). It takes atoms that overlap: a crowd of others would leave
out what lies between them.
"""

import numpy as np

from sparsebayes.engine import Breakdown, State, refresh
from sparsebayes.hyperpriors import Flat
from sparsebayes.solvers.climb import Run, climb
from sparsebayes.solvers.descend import is_spent, shared_variance
from sparsebayes.solvers.draws import drawn
from sparsebayes.solvers.exchange import rearrange
from sparsebayes.solvers.newton import Noise

__all__ = ["from_crowd"]

_CROWD = 384  # atoms that begin together,
_LEAST = 20  # of at least so many
_STEPS = 500  # Newton steps that must be allowed: growth makes the best of fewer
_PROBE = 100  # of which tell what variance and noise would suit them
# Ratio of that variance to the noise, for each observation, from which on weights almost cancel.
# Then only all of them show how much they explain, and a noise that is free takes much of it.
_BROAD = 3.0
_CUT = 0.5  # of the noise that they leave: it is held there until they have been sorted out


def from_crowd(run: Run, noise: Noise, rng: np.random.RandomState) -> State | None:
    """Begin with atoms drawn at random that share one variance, and climb from what is left.

    Parameters
    ----------
    run : Run
        The fit.
    noise : Noise
        The noise, and whether it is estimated.
    rng : RandomState
        Draws the atoms.

    Returns
    -------
    State or None
        A model of few atoms, roughly converged. None under a prior with a price, where a crowd does
        not begin, and where float64 cannot hold it or it leads on the way to collapse.
    """
    problem = run.problem
    atoms = np.flatnonzero(problem.quad.diag)
    plain = isinstance(problem.hyperprior, Flat) and problem.quad.group == 1
    if not plain or atoms.size < _LEAST or run.max_iter - run.iterations < _STEPS:
        return None
    atoms = drawn(problem.quad, _CROWD, rng)
    probe = problem.quad.gram(atoms[:_PROBE])
    shared = shared_variance(probe, problem.hyperprior, noise)
    v, var = shared.v * probe.size / atoms.size, shared.noise_var
    broad = shared.v > _BROAD * var * problem.quad.n
    if broad:
        shared = shared_variance(problem.quad.gram(atoms), problem.hyperprior, noise)
        v, var = shared.v, shared.noise_var
        if noise.estimated:
            var = max(_CUT * var, noise.floor)
    try:
        active, variances = rearrange(run, atoms, np.full(atoms.size, v), var, mild=True)
        state = refresh(problem.quad, problem.hyperprior, active, variances, var)
        if broad and noise.estimated:
            state = climb(run, state, Noise(var, False, noise.floor), run.rough, "crowd")
        state = climb(run, state, noise, run.rough, "crowd")
    except Breakdown:  # broad kernels with large variances are more than float64 can hold
        return None
    return None if is_spent(problem, state) else state
