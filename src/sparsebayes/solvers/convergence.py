"""Converge: expand, climb and settle in turn, until the last expansion has its certificate."""

from typing import Any

import numpy as np

from sparsebayes.laplace import LatentData
from sparsebayes.problem import certify
from sparsebayes.solvers.climb import climb
from sparsebayes.solvers.expansion import UNIT_NOISE, Expanded, Point, expand, inched, is_same
from sparsebayes.solvers.settling import FARTHEST, Fit, settle

__all__ = ["FINE", "STUCK", "converge"]

FINE = 1e-3  # nats left on the table where optima are compared
STUCK = 0.9  # steps are short if an expansion leaves this much of what the last one promised
_STALE = 0.05  # fraction of the best gain that is left for the next expansion
_EXPANSIONS = 35  # after which expansions are said to disagree
_PATIENCE = 15  # expansions after which steps are short in any case
_CIRCLES = 6  # short steps in a row that leave as much as ever: they go around in circles


def converge(
    fit: Fit,
    latent: LatentData[Any],
    point: Point,
    tol: float,
    phase: str,
    looks: int = _EXPANSIONS,
    known: Expanded | None = None,
) -> Expanded:
    """Expand, climb and settle until no change gains more than ``tol``, or ``looks`` times.

    Parameters
    ----------
    fit : Fit
        The account.
    latent : LatentData
        Data and likelihood, and the atoms that there are to choose from.
    point : Point
        Where to start.
    tol : float
        Largest gain, in nats, that is left on the table.
    phase : str
        What it is, for the trace.
    looks : int
        Most expansions.
    known : Expanded or None
        The expansion at ``point``, where there is one already.

    Returns
    -------
    Expanded
        The last expansion if nothing is left to gain, else the one that leaves least.
    """
    short, pending, height = False, np.inf, -np.inf
    loose = fit.loose(tol) if tol >= FINE else 0.0
    best: Expanded | None = None
    least, circles = np.inf, 0
    for turn in range(looks):
        at, known = known or expand(latent, fit.hyperprior, point, loose=loose), None
        certificate, _ = certify(at.problem, at.state, UNIT_NOISE)
        fit.note(phase, at.state, certificate.max_gain)
        if certificate.holds(tol):
            return at
        gained = at.state.objective - height
        vain = certificate.max_gain > STUCK * least and gained < max(tol, FINE)
        circles = circles + 1 if short and vain else 0
        if best is None or certificate.max_gain < least:
            best, least = at, certificate.max_gain
            if latent is fit.latent:
                fit.good = best
        if fit.exhausted or circles == _CIRCLES:
            return best
        height = at.state.objective
        stuck = certificate.max_gain > STUCK * pending and gained < pending
        short = short or turn >= _PATIENCE or stuck
        pending = certificate.max_gain
        # An expansion far from the mode is not worth more than a fraction of what it promises.
        left = max(_STALE * certificate.max_gain, 0.1 * tol)
        run = fit.held(at.problem)
        state = climb(run, at.state, UNIT_NOISE, left, phase)
        fit.iterations = run.iterations
        point = at.moved(state)
        if short:
            point = inched(at, point, 1.0, 0.5)
        elif fit.reach < FARTHEST:
            point = inched(at, point, fit.reach)
        point = settle(fit, latent, point, left, at, short)
        if is_same(point, at.point):  # every way on is a fall: nothing will change
            break
    assert best is not None
    return best
