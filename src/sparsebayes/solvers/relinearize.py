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
from typing import Any, NamedTuple

import numpy as np

from sparsebayes._hyperprior import lets_out, refuse_if_never_out
from sparsebayes.engine import Breakdown
from sparsebayes.hyperpriors import Smoothness
from sparsebayes.laplace import SOME_ROWS, Latent
from sparsebayes.problem import Certificate, Report, Solution, Status, certify
from sparsebayes.solvers.expand import (
    FINE,
    NOTHING,
    STUCK,
    UNIT_NOISE,
    Expanded,
    Fit,
    LatentProblem,
    Part,
    Point,
    converge,
    expand,
    is_same,
)
from sparsebayes.solvers.search import SETTINGS
from sparsebayes.solvers.structure import Found, better, exchanged_often, explore
from sparsebayes.solvers.survey import Survey, glance, survey

__all__ = ["solve"]

_WORK = 512  # atoms on which a fit of more of them converges between screens of all
_LOOSE = 0.1  # fraction of what a screen promises that may be left for the next one
_SCREENS = 20  # most screens of all atoms,
_IDLE = 4  # and of those that find nothing better
_CANDIDATES = 128  # atoms among these beside those that were in the model, at least
_GLANCES = 8  # most glances between two screens,
_TRUSTED = 1e-3  # until they promise so little of what the last screen has found
_LEFT_OUT = (
    8  # times as many samples as structure is sought in, from which atoms are exchanged anew
)
_MARGIN = 0.02  # nats by which a fit at half the price must be better to be kept
_CHEAP = 0.25  # price of a degree of freedom that no path to a higher one begins below


class Ending(NamedTuple):
    """The last expansion over the whole dictionary, and its certificate."""

    at: Expanded
    certificate: Certificate


def solve(
    problem: LatentProblem,
    *,
    tol: float = 1e-6,
    max_iter: int = 10_000,
    n_restarts: int = 0,
    random_state: np.random.RandomState | None = None,
    start: Point | None = None,
    report: Report | None = None,
) -> Solution:
    """Maximize the objective over all atoms and their variances, following the mode.

    As `solvers.search.solve` does it where the quadratic does not move.
    """
    latent, hyperprior = problem.data, problem.hyperprior
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
        end, broken = _finish(fit, latent, found, tol), False
        if start is None and latent.n_rows >= _LEFT_OUT * SOME_ROWS:
            end = _elsewhere(fit, latent, end, tol, rng)
    except Breakdown:
        last, broken = fit.good or expand(latent, hyperprior, NOTHING), True
        end = Ending(last, certify(last.problem, last.state, UNIT_NOISE)[0])
    at, certificate = end
    converged = certificate.holds(tol)
    status = Status.MAX_ITER if fit.exhausted else Status.UNSETTLED
    if converged:
        status = Status.CONVERGED
    elif broken:
        status = Status.BREAKDOWN
    trace = tuple(fit.trace)
    solution = Solution(
        at.state,
        UNIT_NOISE,
        status,
        certificate,
        converged,
        fit.iterations,
        trace,
        quad=at.quad,
    )
    if status is Status.UNSETTLED and start is None and isinstance(hyperprior, Smoothness):
        settings = {"tol": tol, "n_restarts": n_restarts, "random_state": rng, "report": report}
        return _eased(problem, hyperprior.c, solution, max_iter, settings)
    return solution


def _elsewhere(
    fit: Fit, latent: Latent, found: Ending, tol: float, rng: np.random.RandomState
) -> Ending:
    """Exchange atoms among all samples, where structure was sought in few of them."""
    at, part = found.at, Part(latent, np.arange(latent.n_atoms))
    if fit.exhausted or latent.shared:  # the table of swaps knows atoms of one column only
        return found
    try:
        here = at
        if latent.n_atoms > 2 * SETTINGS.crowd:  # any sample will do: neighbors replace each other
            drawn = rng.choice(part.atoms, SETTINGS.crowd, replace=False)
            part = Part(latent, np.union1d(Part.of(latent, at.point).atoms, drawn))
            here = expand(part.data, fit.hyperprior, part.inside(at.point))
        further = exchanged_often(fit, part.data, here, thorough=True)
        if further is here:
            return found
        end = _finish(fit, latent, Found(part.outside(further.point)), tol)
    except Breakdown:
        return found
    higher = end.at.state.objective > at.state.objective
    settled = end.certificate.holds(tol) or not found.certificate.holds(tol)
    return end if higher and settled else found


def _eased(
    problem: LatentProblem, price: float, solution: Solution, max_iter: int, settings: Any
) -> Solution:
    """What a fit at half the price leads to, if that is better.

    Growth at full price may lead into a corner, where two atoms do worse than another one alone.
    """
    left = max_iter - solution.n_iter
    if price <= _CHEAP or left <= 0:
        return solution
    cheaper = replace(problem, hyperprior=Smoothness(price / 2))
    eased = solve(cheaper, max_iter=left, **settings)
    active, quad = eased.state.active, eased.quad
    point = Point(active, eased.state.v / quad.norm[active * quad.group] ** 2)
    left = max(left - eased.n_iter, 1)
    again = solve(problem, max_iter=left, start=point, **settings)
    spent = solution.n_iter + eased.n_iter + again.n_iter
    if again.converged or again.state.objective > solution.state.objective + _MARGIN:
        solution = again
    return replace(solution, n_iter=spent)


def _finish(fit: Fit, latent: Latent, found: Found, tol: float) -> Ending:
    """Screen the whole dictionary and converge on the atoms that gain most, in turn."""
    if latent.n_atoms <= 2 * _WORK or latent.K == 1 or not lets_out(fit.hyperprior):
        # with several latent functions a screen costs K^2
        at = converge(fit, latent, found.point, tol, "finish", known=found.known)
        return Ending(at, certify(at.problem, at.state, UNIT_NOISE)[0])
    point, height, idle = found.point, -np.inf, 0
    tried: set[int] = set()
    good: Ending | None = None
    for _ in range(_SCREENS):
        at = expand(latent, fit.hyperprior, point)
        seen = survey(latent, at)
        most = seen.certificate.max_gain
        fit.note("screen", at.state, most)
        least = np.inf if good is None else good.certificate.max_gain
        better = most < STUCK * least or at.state.objective > height + FINE
        idle = 0 if better else idle + 1
        height = max(height, at.state.objective)
        if good is None or most < least:
            good, fit.good = Ending(at, seen.certificate), at
        if seen.certificate.holds(tol) or fit.exhausted:
            return Ending(at, seen.certificate)
        if idle == _IDLE or (idle and most <= tol):  # where only the curvature fails, it will again
            break
        point = _work(fit, latent, at.point, seen, tol, tried)
        if is_same(point, at.point):  # nor would the next screen lead anywhere
            break
    assert good is not None
    return good


def _work(
    fit: Fit, latent: Latent, point: Point, seen: Survey, tol: float, tried: set[int]
) -> Point:
    """Converge on the atoms that gain most, and again on those that a glance at all then finds.

    Atoms that were in the model once stay among them: those that leave are the first to come back.
    """
    worth = seen.worth.copy()
    enough = max(_TRUSTED * seen.certificate.max_gain, tol)
    promised = seen.certificate.max_gain
    for _ in range(_GLANCES):
        tried.update(Part.of(latent, point).atoms.tolist())
        kept = np.fromiter(tried, np.intp, len(tried))
        worth[kept] = np.inf
        size = kept.size + _CANDIDATES
        size = min(size if latent.shared else max(_WORK, size), latent.n_atoms)
        atoms = np.sort(np.argpartition(-worth, size - 1)[:size])
        part = Part(latent, atoms)
        # A glance may promise too much: S of atoms beside one that has left is too small.
        left = _LOOSE * min(promised, seen.certificate.max_gain)
        left = tol if left < FINE else left  # a few more steps cost less than another screen
        at = converge(fit, part.data, part.inside(point), left, "finish")
        before, point = point, part.outside(at.point)
        if fit.exhausted or is_same(point, before):
            break
        worth = glance(latent, fit.hyperprior, at.mode, seen)
        worth[atoms] = 0.0  # what these gain was known better
        promised = float(worth.max(initial=0.0))
        if promised <= enough:
            break
    return point
