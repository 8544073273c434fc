"""The sequential algorithm of Tipping & Faul (2003) for likelihoods with a mode to find.

Single moves with rank-one updates on one expansion, held; a new expansion whenever an atom has
entered or left, or a few re-estimations have been made. Slower than the default by far: it is the
reference that the default is compared with. One expansion may add an atom that the next deletes:
where moves go round in a circle, the default's short steps end it.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sparsebayes._hyperprior import refuse_if_never_out
from sparsebayes.engine import Breakdown
from sparsebayes.hyperpriors import Hyperprior
from sparsebayes.laplace import Latent
from sparsebayes.latent_quadratic import LatentColumns
from sparsebayes.problem import Progress, Report, Solution, Status, certify
from sparsebayes.solvers import relinearize
from sparsebayes.solvers.expansion import UNIT_NOISE, Expanded, Point, expand
from sparsebayes.solvers.sequential import SELECTIONS, Moves, plan_moves, select_move

FloatArray = NDArray[np.float64]

__all__ = ["solve"]

_REESTIMATES = 10  # re-estimations on one expansion


def solve(
    latent: Latent,
    hyperprior: Hyperprior,
    *,
    tol: float = 1e-6,
    max_iter: int = 10_000,
    selection: str = "greedy",
    random_state: np.random.RandomState | None = None,
    start: Point | None = None,
    report: Report | None = None,
) -> tuple[Solution, LatentColumns]:
    """Maximise the objective by single moves, following the mode.

    Parameters
    ----------
    latent : Latent
        Data and likelihood.
    hyperprior : Hyperprior
        Prior of the variances.
    tol : float, default=1e-6
        Largest gain, in nats, that the certificate leaves on the table.
    max_iter : int, default=10_000
        Most moves.
    selection : {"greedy", "random", "cyclic"}, default="greedy"
        Which atom to look at next (T&F section 4.2).
    random_state : RandomState or None
        Source of the random selection.
    start : Point or None
        Where to start, for a warm start.
    report : callable or None
        Called with a `Progress` at every expansion.

    Returns
    -------
    solution : Solution
        State of the last expansion, status, certificate and trace.
    quad : LatentColumns
        The last expansion.
    """
    if selection not in SELECTIONS:
        raise ValueError(f"selection must be one of {SELECTIONS}, got {selection!r}.")
    refuse_if_never_out(hyperprior, "the sequential solver")
    rng = np.random.RandomState(0) if random_state is None else random_state
    point = start or Point(np.empty(0, dtype=np.intp), np.empty(0))
    trace: list[Progress] = []
    seen: set[tuple[bytes, float]] = set()
    iteration = cursor = 0
    at = expand(latent, hyperprior, point)
    status = Status.MAX_ITER
    while True:
        certificate, _ = certify(at.problem, at.state, UNIT_NOISE)
        size, objective = at.state.active.size, at.state.objective
        trace.append(Progress("move", iteration, size, objective, 1.0, certificate.max_gain))
        if report is not None:
            report(trace[-1])
        if certificate.holds(tol):
            status = Status.CONVERGED
        place = (np.sort(at.state.active).tobytes(), round(objective, 9))
        if status is Status.MAX_ITER and place in seen:
            solution, quad = relinearize.solve(
                latent, hyperprior, tol=tol, max_iter=max_iter, start=at.point, report=report
            )
            trace.extend(solution.trace)
            spent = iteration + solution.n_iter
            return replace(solution, n_iter=spent, trace=tuple(trace)), quad
        seen.add(place)
        if status is not Status.MAX_ITER or iteration >= max_iter:
            break
        try:
            point, moved, cursor = _moves(at, tol, selection, rng, cursor)
            iteration += moved
            if moved == 0:
                status = Status.STALLED
            else:
                at = expand(latent, hyperprior, point)
        except Breakdown:
            status = Status.BREAKDOWN
    converged = status is Status.CONVERGED
    solution = Solution(
        at.state, UNIT_NOISE, status, certificate, converged, iteration, tuple(trace)
    )
    return solution, at.quad


def _moves(
    at: Expanded, tol: float, selection: str, rng: np.random.RandomState, cursor: int
) -> tuple[Point, int, int]:
    """Moves on one expansion, up to the first that changes which atoms are in the model."""
    moves = Moves.at(at.problem, at.state)
    made = 0
    while made < _REESTIMATES:
        plan = plan_moves(moves, 0.1 * tol)
        if plan.todo.size == 0:
            break
        j = select_move(plan, selection, rng, cursor)
        cursor = j + 1
        changes = (moves.v[j] > 0) != (plan.v[j] > 0)
        moves.move(j, float(plan.v[j]))
        made += 1
        if changes:
            break
    v = moves.v[moves.active] / at.quad.norm[moves.active] ** 2
    return Point(moves.active, v, at.point.starts), made, cursor
