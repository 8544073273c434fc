"""Creep and stride: converge in a dictionary so fine that atoms move in tiny steps.

Kernels at many rows lie far closer together than they are wide. A neighbor of an active atom then
gains a little, together the two are collinear almost to rounding, and each addition moves the
optimum by next to nothing. Two remedies know nothing but inner products. To creep is to put the
neighbor in the place of the atom, which is as well conditioned as the model was before. To stride
is to go on in the direction in which all atoms have moved of late.
"""

import numpy as np

from sparsebayes._hyperprior import lets_out
from sparsebayes.engine import Breakdown, State
from sparsebayes.solvers.climb import Run, resume_noise
from sparsebayes.solvers.newton import Noise
from sparsebayes.solvers.swaps import best_swaps, swapped

__all__ = ["creep", "stride"]

_ROUNDS = 50
_LEAST = 1e-3  # nats that are worth a swap: what is left comes by additions and strides
_COUPLING = 0.5  # squared posterior correlation up to which atoms are moved together
_LAX = 0.1  # Newton steps stop when they promise this fraction of what a move must gain
_TREND = 2.0  # factor by which a variance may go on to change with each length of a stride


def creep(run: Run, state: State, noise: Noise, tol: float) -> State:
    """Swap active atoms for better ones, the others held, until none gains enough.

    Parameters
    ----------
    run : Run
        The account.
    state : State
        Where to start.
    noise : Noise
        Whether the noise is a parameter, and its floor.
    tol : float
        Largest gain, in nats, that may be left on the table.

    Returns
    -------
    State
        ``state`` or a better one with no more atoms.
    """
    # The table of swaps knows atoms of one column only, and what it is worth to leave.
    if run.problem.quad.group > 1 or not lets_out(run.problem.hyperprior):
        return state
    coupling = _COUPLING
    for _ in range(_ROUNDS):
        if run.exhausted or not state.active.size:
            break
        swaps = best_swaps(run.problem, state, run.swap_table(state))
        active, v, count = swapped(state, swaps, max(tol, _LEAST), coupling)
        if count == 0:
            break
        try:
            moved = run.newton(active, v, resume_noise(noise, state), tol=_LAX * tol)
        except Breakdown:
            break
        if moved.objective > state.objective:
            state = moved
        elif count > 1:
            coupling = 0.0  # together they spoil each other: the best alone
        else:
            break
    return state


def stride(run: Run, before: State, state: State, noise: Noise, tol: float) -> State:
    """Go on in the direction from ``before`` to ``state``, twice as far each time it pays.

    Parameters
    ----------
    run : Run
        The account.
    before : State
        Where the atoms were.
    state : State
        Where they are now, as many.
    noise : Noise
        Whether the noise is a parameter, and its floor.
    tol : float
        Largest gain, in nats, that may be left on the table.

    Returns
    -------
    State
        ``state`` or a better one with no more atoms.
    """
    quad, m = run.problem.quad, state.active.size
    if not m or before.active.size != m or quad.group > 1:
        return state
    here, there = quad.columns(state.active), quad.columns(before.active)  # (m, M)
    came = np.argmax(np.abs(here[:, before.active]), axis=1)
    if np.unique(came).size < m:
        return state
    # An atom stands for its negative as well.
    there = there[came] * np.sign(here[np.arange(m), before.active[came]])[:, None]
    trend = np.clip(state.v / before.v[came], 1 / _TREND, _TREND)
    best, length = state, 1.0
    while best.active.size == m and not run.exhausted:
        # The atom of the largest inner product with the point that a straight line leads to.
        active = np.argmax((1.0 + length) * here - length * there, axis=1)
        if np.unique(active).size < m or np.array_equal(active, best.active):
            break
        v = state.v * trend ** min(length, 1.0)
        try:
            moved = run.newton(active, v, resume_noise(noise, best), tol=_LAX * tol)
        except Breakdown:
            break
        if moved.objective <= best.objective:
            break
        best, length = moved, 2.0 * length
    return best
