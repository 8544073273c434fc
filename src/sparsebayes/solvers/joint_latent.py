"""The original training of Tipping (2001) where the likelihood is not Gaussian.

All atoms start in the model. Each iteration finds the mode of the weights at the current variances
(section 3), takes the curvature there for that of the posterior, and updates all variances by EM
or by MacKay's rule; atoms whose variance has gone to zero are pruned. The curvature moves with the
mode, of which the updates know nothing: Laplace's evidence may fall by a little even under EM. The
finish is the default solver's, until the certificate of the last expansion holds.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sparsebayes._hyperprior import lets_out
from sparsebayes.engine import Breakdown
from sparsebayes.hyperpriors import Hyperprior
from sparsebayes.laplace import Latent
from sparsebayes.latent_quadratic import LatentColumns
from sparsebayes.problem import Progress, Report, Solution, Status, certify
from sparsebayes.solvers import relinearize
from sparsebayes.solvers.expansion import (
    UNIT_NOISE,
    Expanded,
    Point,
    expand,
    renumbered,
    restored,
)
from sparsebayes.solvers.joint import CIRCLES, LEAST, UPDATES, check_size, worthless

IndexArray = NDArray[np.intp]

__all__ = ["solve"]

_STRENGTH = 4.0  # variance of the latent functions at the start
_STEADY = 2  # steps in a row that change the objective by next to nothing, which is
_LITTLE = 1e3  # times tol: each of them takes a mode, and the finish is better at the rest


def solve(
    latent: Latent,
    hyperprior: Hyperprior,
    *,
    update: str = "em",
    tol: float = 1e-6,
    max_iter: int = 10_000,
    random_state: np.random.RandomState | None = None,
    start: Point | None = None,
    report: Report | None = None,
) -> tuple[Solution, LatentColumns]:
    """Maximise the objective by updates of all variances at once, following the mode.

    Parameters
    ----------
    latent : Latent
        Data and likelihood; at most 12 000 variances.
    hyperprior : Hyperprior
        Prior of the variances.
    update : {"em", "mackay"}, default="em"
        The rule.
    tol : float, default=1e-6
        Largest gain, in nats, that the certificate leaves on the table. Updates end when two in a
        row change the objective by less than a thousand times as much.
    max_iter : int, default=10_000
        Most updates and, once they have ended, Newton steps.
    random_state : RandomState or None
        Not used: there is nothing random about it.
    start : Point or None
        Where to start, for a warm start. Atoms that it leaves out start out of the model if the
        hyperprior lets them.
    report : callable or None
        Called with a `Progress` at every step.

    Returns
    -------
    solution : Solution
        State of the last expansion, status, certificate and trace.
    quad : LatentColumns
        The last expansion.
    """
    if update not in UPDATES:
        raise ValueError(f"update must be one of {tuple(UPDATES)}, got {update!r}.")
    check_size(latent.n_atoms * latent.K, update)
    trace: list[Progress] = []

    def note(line: Progress) -> None:
        trace.append(line)
        if report is not None:
            report(line)

    point, settled = _iterate(
        latent, hyperprior, _first_point(latent, hyperprior, start), update, tol, max_iter, note
    )
    spent = len(trace)
    if settled and spent < max_iter:
        solution, quad = relinearize.solve(
            latent, hyperprior, tol=tol, max_iter=max_iter - spent, start=point, report=report
        )
        trace.extend(solution.trace)
        return replace(solution, n_iter=spent + solution.n_iter, trace=tuple(trace)), quad
    at = expand(latent, hyperprior, point)
    certificate, _ = certify(at.problem, at.state, UNIT_NOISE)
    converged = certificate.holds(tol)
    status = Status.CONVERGED if converged else Status.MAX_ITER
    return Solution(
        at.state, UNIT_NOISE, status, certificate, converged, spent, tuple(trace)
    ), at.quad


def _first_point(latent: Latent, hyperprior: Hyperprior, start: Point | None) -> Point:
    """All atoms that are any, each with the same share of the variance of a latent function."""
    if start is not None and lets_out(hyperprior):
        return start
    norm = latent.design.moments(latent.weights, latent.center).norm
    n = float(len(latent.t) if latent.weights is None else latent.weights.sum())
    atoms = np.flatnonzero(norm > 0)
    v = _STRENGTH * n / (max(atoms.size, 1) * norm[atoms] ** 2)
    per_atom = 1 if latent.shared else latent.K
    active = (atoms[:, None] * per_atom + np.arange(per_atom)).ravel()
    v = np.repeat(v, per_atom)
    if start is not None:
        known = np.isin(active, start.active)
        order = np.argsort(start.active)
        v[known] = start.v[order][np.searchsorted(start.active[order], active[known])]
    return Point(active, v, starts=() if start is None else start.starts)


def _iterate(
    latent: Latent,
    hyperprior: Hyperprior,
    point: Point,
    update: str,
    tol: float,
    max_iter: int,
    note: Report,
) -> tuple[Point, bool]:
    """Mode, update and pruning in turn; whether the objective came to rest before max_iter."""
    per_atom, K = 1 if latent.shared else latent.K, latent.K
    height, steady, best, idle = np.inf, 0, -np.inf, 0
    good = point
    for iteration in range(max_iter + 1):
        atoms = np.unique(point.active // per_atom)
        try:
            at = expand(latent.restrict(atoms), hyperprior, renumbered(point, atoms, per_atom, K))
        except Breakdown:
            return good, True
        good = restored(at.point, atoms, per_atom, K)
        gone, max_gain = worthless(hyperprior, at.state)
        if iteration:
            objective = at.state.objective
            note(Progress(update, iteration, at.state.active.size, objective, 1.0, max_gain))
            steady = steady + 1 if abs(objective - height) < _LITTLE * tol else 0
            best, idle = (objective, 0) if objective > best else (best, idle + 1)
            if steady >= _STEADY or idle >= CIRCLES:
                return good, True
        if not at.state.active.size:
            return good, True
        if iteration == max_iter:
            break
        height = at.state.objective
        point = restored(_updated(at, update, gone), atoms, per_atom, K)
    return good, False


def _updated(at: Expanded, update: str, gone: IndexArray) -> Point:
    """The next variances, without the atoms that are worthless, and where the mode may be then."""
    gram, state = at.quad.gram(at.state.active), at.state
    v, _ = UPDATES[update](gram, at.problem.hyperprior, state.v, UNIT_NOISE, state.white)
    keep = v >= LEAST
    keep[gone] = False
    norm = at.quad.norm[state.active * at.quad.group]
    return Point(state.active[keep], (v / norm**2)[keep], starts=at.point.starts)
