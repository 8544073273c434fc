"""Likelihoods other than the Gaussian: the same climb on a quadratic that follows the mode.

1. Expand: find the mode of the weights at the current variances, and the quadratic there.
2. Screen the dictionary and add the best few atoms on this expansion, held.
3. Settle: on the active atoms alone, which cost little, mode and variances in turn until neither
   moves the other.
4. Expand again, until the certificate holds for the last expansion.

With many atoms, 1 to 4 go on among those that gain most, between screens of all of them. Structure
is sought from nothing or, with one latent function and no price on an atom, from a crowd of atoms
of which most leave; there pairs of atoms in the end slide to where they serve better.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from sparsebayes._hyperprior import lets_out, refuse_if_never_out
from sparsebayes.engine import Breakdown
from sparsebayes.hyperpriors import Hyperprior, Smoothness
from sparsebayes.laplace import SOME_ROWS, LatentData
from sparsebayes.latent_quadratic import LatentColumns
from sparsebayes.problem import Report, Solution, Status, certify
from sparsebayes.solvers.convergence import FINE, STUCK, converge
from sparsebayes.solvers.expansion import (
    NOTHING,
    UNIT_NOISE,
    Expanded,
    Point,
    expand,
    renumbered,
    restored,
)
from sparsebayes.solvers.explore import SAMPLE
from sparsebayes.solvers.settling import Fit
from sparsebayes.solvers.structure import Found, better, exchanged_often, explore

__all__ = ["solve"]

_WORK = 512  # atoms on which a fit of more of them converges between screens of all
_LOOSE = 0.1  # fraction of what a screen promises that may be left for the next one
_SCREENS = 20  # most screens of all atoms,
_IDLE = 2  # and of those that find nothing better
_LEFT_OUT = (
    8  # times as many samples as structure is sought in, from which atoms are exchanged anew
)
_MARGIN = 0.02  # nats by which a fit at half the price must be better to be kept
_CHEAP = 0.25  # price of a degree of freedom that no path to a higher one begins below


def solve(
    latent: LatentData[Any],
    hyperprior: Hyperprior,
    *,
    tol: float = 1e-6,
    max_iter: int = 10_000,
    n_restarts: int = 0,
    random_state: np.random.RandomState | None = None,
    start: Point | None = None,
    report: Report | None = None,
) -> tuple[Solution, LatentColumns]:
    """Maximise the objective over all atoms and their variances, following the mode.

    Parameters
    ----------
    latent : LatentData
        Data and likelihood.
    hyperprior : Hyperprior
        Prior of the variances.
    tol : float, default=1e-6
        Largest gain, in nats, that the certificate leaves on the table.
    max_iter : int, default=10_000
        Most Newton steps on the variances in all.
    n_restarts : int, default=0
        Further random searches for a better optimum.
    random_state : RandomState or None
        Source of the sample of a large dictionary and of restarts.
    start : Point or None
        Where to start, for a warm start.
    report : callable or None
        Called with a `Progress` after every screen.

    Returns
    -------
    solution : Solution
        State of the last expansion, status, certificate and trace.
    quad : LatentColumns
        The last expansion.
    """
    if start is None:
        refuse_if_never_out(hyperprior, "the working-set solver")
    fit = Fit(latent, hyperprior, max_iter, report)
    rng = np.random.RandomState(0) if random_state is None else random_state
    found = Found(NOTHING if start is None else start)
    if start is None:
        found = explore(fit, rng)
        for _ in range(n_restarts):
            if not fit.exhausted:
                found = Found(better(fit, found.point, explore(fit, rng, anew=True).point))
    try:
        at, broken = _finish(fit, found, tol), False
        if start is None and latent.n_rows >= _LEFT_OUT * SOME_ROWS:
            at = _elsewhere(fit, at, tol, rng)
    except Breakdown:
        at, broken = fit.good or expand(latent, hyperprior, NOTHING), True
    certificate, _ = certify(at.problem, at.state, UNIT_NOISE)
    converged = certificate.holds(tol)
    status = Status.MAX_ITER if fit.exhausted else Status.UNSETTLED
    if converged:
        status = Status.CONVERGED
    elif broken:
        status = Status.BREAKDOWN
    trace = tuple(fit.trace)
    solution = Solution(at.state, UNIT_NOISE, status, certificate, converged, fit.iterations, trace)
    if status is Status.UNSETTLED and start is None and isinstance(hyperprior, Smoothness):
        settings = {"tol": tol, "n_restarts": n_restarts, "random_state": rng, "report": report}
        return _eased(latent, hyperprior, solution, at.quad, max_iter, settings)
    return solution, at.quad


def _elsewhere(fit: Fit, at: Expanded, tol: float, rng: np.random.RandomState) -> Expanded:
    """Exchange atoms among all samples, where structure was sought in few of them."""
    latent, per_atom, K = fit.latent, 1 if fit.latent.shared else fit.latent.K, fit.latent.K
    atoms = np.arange(latent.n_atoms)
    if fit.exhausted or latent.shared:  # the table of swaps knows atoms of one column only
        return at
    try:
        here = at
        if atoms.size > 2 * SAMPLE:  # any sample will do: neighbors replace each other
            drawn = rng.choice(atoms, SAMPLE, replace=False)
            atoms = np.union1d(at.state.active // per_atom, drawn)
            latent = latent.restrict(atoms)
            here = expand(latent, fit.hyperprior, renumbered(at.point, atoms, per_atom, K))
        further = exchanged_often(fit, latent, here, thorough=True)
        if further is here:
            return at
        end = _finish(fit, Found(restored(further.point, atoms, per_atom, K)), tol)
    except Breakdown:
        return at
    settled = [certify(one.problem, one.state, UNIT_NOISE)[0].holds(tol) for one in (at, end)]
    better = end.state.objective > at.state.objective and settled[1] >= settled[0]
    return end if better else at


def _eased(
    latent: LatentData[Any],
    hyperprior: Smoothness,
    solution: Solution,
    quad: LatentColumns,
    max_iter: int,
    settings: dict[str, Any],
) -> tuple[Solution, LatentColumns]:
    """What a fit at half the price leads to, if that is better.

    Growth at full price may lead into a corner, where two atoms do worse than another one alone.
    """
    left = max_iter - solution.n_iter
    if hyperprior.c <= _CHEAP or left <= 0:
        return solution, quad
    eased, at = solve(latent, Smoothness(hyperprior.c / 2), max_iter=left, **settings)
    active = eased.state.active
    point = Point(active, eased.state.v / at.norm[active * at.group] ** 2)
    left = max(left - eased.n_iter, 1)
    again, end = solve(latent, hyperprior, max_iter=left, start=point, **settings)
    spent = solution.n_iter + eased.n_iter + again.n_iter
    if again.converged or again.state.objective > solution.state.objective + _MARGIN:
        solution, quad = again, end
    return replace(solution, n_iter=spent), quad


def _finish(fit: Fit, found: Found, tol: float) -> Expanded:
    """Screen the whole dictionary and converge on the atoms that gain most, in turn."""
    per_atom = 1 if fit.latent.shared else fit.latent.K
    m = fit.latent.n_atoms
    if m <= 2 * _WORK or fit.latent.K == 1 or not lets_out(fit.hyperprior):
        # with several latent functions a screen costs K^2
        return converge(fit, fit.latent, found.point, tol, "finish", known=found.known)
    point, least, height, idle = found.point, np.inf, -np.inf, 0
    for _ in range(_SCREENS):
        at = expand(fit.latent, fit.hyperprior, point)
        certificate, statistics = certify(at.problem, at.state, UNIT_NOISE)
        fit.note("screen", at.state, certificate.max_gain)
        better = certificate.max_gain < STUCK * least or at.state.objective > height + FINE
        idle = 0 if better else idle + 1
        height = max(height, at.state.objective)
        if fit.good is None or certificate.max_gain < least:
            fit.good, least = at, certificate.max_gain
        if certificate.holds(tol) or fit.exhausted:
            return at
        if idle == _IDLE:
            break
        worth = statistics.gains.reshape(m, -1).max(axis=1)
        worth[at.state.active // per_atom] = np.inf
        atoms = np.sort(np.argpartition(-worth, _WORK)[:_WORK])
        few = fit.latent.restrict(atoms)
        here = renumbered(at.point, atoms, per_atom, fit.latent.K)
        here = converge(fit, few, here, max(_LOOSE * certificate.max_gain, tol), "finish").point
        point = restored(here, atoms, per_atom, fit.latent.K)
    assert fit.good is not None
    return fit.good
