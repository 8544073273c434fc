"""Stride: converge in a dictionary so fine that atoms move in tiny steps.

Kernels at many rows lie far closer together than they are wide. A neighbor of an active atom then
gains a little, together the two are collinear almost to rounding, and each addition moves the
optimum by next to nothing. To stride is to go on in the direction in which all atoms have moved of
late; it knows nothing but inner products.
"""

import numpy as np

from sparsebayes.engine import Breakdown, State
from sparsebayes.solvers.climb import Run, resume_noise
from sparsebayes.solvers.newton import Noise

__all__ = ["stride"]

_LAX = 0.1  # Newton steps stop when they promise this fraction of what a move must gain
_TREND = 2.0  # factor by which a variance may go on to change with each length of a stride


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
