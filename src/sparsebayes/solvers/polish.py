"""Last steps by the gradient alone, where float64 no longer resolves the objective.

Nearly collinear atoms with variances of 1e10 times the noise leave rounding of 1e-5 nats in the
evidence. Newton's steps must climb, and stop there with a gradient that is small but known much
better than that. The last of them are then judged by the gradient itself.
"""

import numpy as np

from sparsebayes.engine import Breakdown, State, refresh
from sparsebayes.problem import Problem
from sparsebayes.solvers.newton import Noise, ascent, curvature, derivatives, log_step

__all__ = ["polished"]

_STEPS = 20
_LONGEST = 0.1  # in a log parameter: beyond it a step is no last one


def polished(problem: Problem, state: State, noise: Noise, unresolved: float) -> State:
    """Take Newton's steps for as long as each of them halves the gradient.

    Parameters
    ----------
    problem : Problem
        The problem.
    state : State
        A state that no step improves as far as the objective tells.
    noise : Noise
        Whether the noise is a parameter, and its floor.
    unresolved : float
        Nats that the objective may seem to lose.

    Returns
    -------
    State
        Of a smaller gradient, or ``state`` itself.
    """
    best, before = state, np.inf
    now = state
    for _ in range(_STEPS):
        gram = problem.quad.gram(now.active)
        here = noise._replace(var=now.noise_var)
        gradient, H = derivatives(gram, problem.hyperprior, now.v, here, now.white)
        slope = float(np.abs(gradient).max(initial=0.0))
        if not slope <= 0.5 * before or now.objective < state.objective - unresolved:
            break
        best, before = now, slope
        if gram.group > 1 or curvature(H)[0] >= 0:
            break
        bend = now.white.W.diagonal()
        step = log_step(ascent(gradient, H, bend), bend)
        if not np.abs(step).max(initial=0.0) <= _LONGEST:
            break
        m = now.v.size
        noise_var = now.noise_var
        if noise.estimated:
            noise_var = max(noise_var * float(np.exp(step[m])), noise.floor)
        try:
            v = now.v * np.exp(step[:m])
            now = refresh(problem.quad, problem.hyperprior, now.active, v, noise_var)
        except Breakdown:
            break
    return best
