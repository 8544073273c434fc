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

from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsebayes._hyperprior import lets_out, refuse_if_never_out
from sparsebayes.engine import Breakdown
from sparsebayes.hyperpriors import Flat, Hyperprior, Smoothness
from sparsebayes.laplace import LatentData
from sparsebayes.latent_quadratic import LatentColumns
from sparsebayes.problem import Report, Solution, Status, certify
from sparsebayes.solvers.climb import climb
from sparsebayes.solvers.exchange import exchange_rounds
from sparsebayes.solvers.expansion import (
    NOTHING,
    UNIT_NOISE,
    Expanded,
    Point,
    expand,
    inched,
    is_same,
    renumbered,
    restored,
)
from sparsebayes.solvers.explore import SAMPLE
from sparsebayes.solvers.pairs import slide_pairs
from sparsebayes.solvers.settling import FARTHEST, Fit, settle

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = ["converge", "exchanged", "solve"]

_ROUGH = 0.05  # nats left on the table while structure is sought
_FINE = 1e-3  # the same where optima are compared
_STALE = 0.05  # fraction of the best gain that is left for the next expansion
_EXPANSIONS = 35  # after which expansions are said to disagree
_WORK = 512  # atoms on which a fit of more of them converges between screens of all
_HELD = 60  # most Newton steps on one expansion
_LOOSE = 0.1  # fraction of what a screen promises that may be left for the next one
_SCREENS = 20  # most screens of all atoms,
_IDLE = 2  # and of those that find nothing better
_LOOKS = 6  # expansions while structure is sought
_PATIENCE = 15  # expansions after which steps are short,
_STUCK = 0.9  # or as soon as one leaves this much of what the last one promised, and gained less
_SLIDES = 4  # most expansions on which pairs of atoms slide
_EXCHANGES = 12  # most exchanges in a row
_CROWD = 64  # atoms that are in the model at once where a descent begins
_STRENGTH = 4.0  # variance of a latent function there, about
_SURPLUS = 1.5  # atoms per row that are many: a bias beside a kernel at each row is no surplus
_MARGIN = 0.02  # nats by which an exchange must be better to be kept
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
    point = start
    if point is None:
        point = _explore(fit, rng)
        for _ in range(n_restarts):
            if not fit.exhausted:
                point = _better(fit, point, _explore(fit, rng, anew=True))
    try:
        if start is None:
            point = _slid(fit, point, rng)
        at, broken = _finish(fit, point, tol), False
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


def converge(
    fit: Fit,
    latent: LatentData[Any],
    point: Point,
    tol: float,
    phase: str,
    looks: int = _EXPANSIONS,
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

    Returns
    -------
    Expanded
        The last expansion if nothing is left to gain, else the one that leaves least.
    """
    short, pending, height = False, np.inf, -np.inf
    loose = fit.loose(tol) if tol >= _FINE else 0.0
    best: Expanded | None = None
    least = np.inf
    for turn in range(looks):
        at = expand(latent, fit.hyperprior, point, loose=loose)
        certificate, _ = certify(at.problem, at.state, UNIT_NOISE)
        fit.note(phase, at.state, certificate.max_gain)
        if certificate.holds(tol):
            return at
        if best is None or certificate.max_gain < least:
            best, least = at, certificate.max_gain
            if latent is fit.latent:
                fit.good = best
        if fit.exhausted:
            return best
        gained = at.state.objective - height
        height = at.state.objective
        stuck = certificate.max_gain > _STUCK * pending and gained < pending
        short = short or turn >= _PATIENCE or stuck
        pending = certificate.max_gain
        # An expansion far from the mode is not worth more than a fraction of what it promises.
        left = max(_STALE * certificate.max_gain, 0.1 * tol)
        run = fit.run(at.problem)
        run.max_iter = min(run.max_iter, run.iterations + _HELD)
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


def _finish(fit: Fit, point: Point, tol: float) -> Expanded:
    """Screen the whole dictionary and converge on the atoms that gain most, in turn."""
    per_atom = 1 if fit.latent.shared else fit.latent.K
    m = fit.latent.n_atoms
    if m <= 2 * _WORK or fit.latent.K == 1 or not lets_out(fit.hyperprior):
        # with several latent functions a screen costs K^2
        return converge(fit, fit.latent, point, tol, "finish")
    least, height, idle = np.inf, -np.inf, 0
    for _ in range(_SCREENS):
        at = expand(fit.latent, fit.hyperprior, point)
        certificate, statistics = certify(at.problem, at.state, UNIT_NOISE)
        fit.note("screen", at.state, certificate.max_gain)
        better = certificate.max_gain < _STUCK * least or at.state.objective > height + _FINE
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


def _explore(fit: Fit, rng: np.random.RandomState, anew: bool = False) -> Point:
    """Find the structure, in a sample of many rows and many atoms: climb, then exchange atoms.

    To look ``anew``, half of few atoms are drawn too, so that another optimum may be found.
    """
    rows = fit.latent.draw(rng)
    sample = _some_atoms(fit, rng)
    if anew and sample.size == fit.latent.n_atoms:
        sample = np.sort(rng.choice(sample, (sample.size + 1) // 2, replace=False))
    latent = fit.latent if sample.size == fit.latent.n_atoms else fit.latent.restrict(sample)
    try:
        point = _explored(fit, latent if rows is None else latent.take(rows), rng)
        if rows is not None:  # the same atoms, with all rows
            point = settle(fit, latent, point, _ROUGH)
            if not _is_plain(fit):  # else pairs slide among all atoms next, and others come in
                point = converge(fit, latent, point, _ROUGH, "climb", _LOOKS).point
    except Breakdown:  # the whole dictionary may do better
        return NOTHING
    return restored(point, sample, 1 if latent.shared else latent.K, latent.K)


def _explored(fit: Fit, latent: LatentData[Any], rng: np.random.RandomState) -> Point:
    """Descend, grow or both, then exchange atoms; pairs will slide in a sample's place."""
    plain, all_rows = _is_plain(fit), latent.n_rows == fit.latent.n_rows
    whole = all_rows and latent.n_atoms == fit.latent.n_atoms
    # Of several functions, or where an atom has its price, a descent costs more than it finds.
    at = _descended(fit, latent, rng) if plain else None
    if at is not None and not all_rows:  # few rows cost little: once more, with another crowd
        other = _descended(fit, latent, rng)
        at = at if other is None or other.state.objective < at.state.objective else other
    if at is None or whole:
        grown = converge(fit, latent, NOTHING, _ROUGH, "climb", _LOOKS)
        at = grown if at is None or grown.state.objective > at.state.objective else at
    # Rows left out will move the optimum anyway: there one exchange is enough.
    for _ in range(_EXCHANGES if (whole if plain else all_rows) else 1):
        trial = exchanged(fit, latent, at)
        if trial is None:
            break
        at = trial
    return at.point


def _descended(fit: Fit, latent: LatentData[Any], rng: np.random.RandomState) -> Expanded | None:
    """Begin with a crowd of atoms, of which most leave; None where that fails.

    Growth from nothing stops where no single atom gains. Classes often need two that pull against
    each other, of which each alone is worth nothing.
    """
    at = expand(latent, fit.hyperprior, NOTHING)
    atoms = np.flatnonzero(at.quad.norm > 0)
    if not atoms.size:
        return None
    if atoms.size > _CROWD:
        atoms = np.sort(rng.choice(atoms, _CROWD, replace=False))
    # Norms are weighted by the curvature, which for classes is a quarter at most.
    v = _STRENGTH * latent.n_rows / (4 * atoms.size * at.quad.norm[atoms] ** 2)
    try:
        point = settle(fit, latent, Point(atoms, v), _ROUGH)
        return converge(fit, latent, point, _ROUGH, "descend", _LOOKS)
    except Breakdown:
        return None


def _slid(fit: Fit, point: Point, rng: np.random.RandomState) -> Point:
    """Slide pairs of atoms to where they serve better, one expansion after the other.

    Nothing depends on it: at a breakdown the last good point is kept.
    """
    if not _is_plain(fit):
        return point
    latent, loose = fit.latent, fit.loose(_ROUGH)
    with suppress(Breakdown):
        at = expand(latent, fit.hyperprior, point, loose=loose)
        point = at.point
        for _ in range(_SLIDES):
            run = fit.run(at.problem)
            state = climb(run, at.state, UNIT_NOISE, _ROUGH, "slide")
            state = slide_pairs(run, state, UNIT_NOISE, 0.1 * _ROUGH, rng)
            fit.iterations = run.iterations
            if state.objective <= at.state.objective + _MARGIN:
                break
            settled = settle(fit, latent, at.moved(state), _ROUGH, at)
            trial = expand(latent, fit.hyperprior, settled, loose=loose)
            if trial.state.objective <= at.state.objective + _MARGIN:
                break
            at, point = trial, trial.point
    return point


def _is_plain(fit: Fit) -> bool:
    """Whether there is one latent function, and no price on an atom."""
    return fit.latent.K == 1 and isinstance(fit.hyperprior, Flat)


def _some_atoms(fit: Fit, rng: np.random.RandomState) -> IndexArray:
    """Atoms drawn at random; where far more than rows, half that correlate best with the targets.

    Among kernels at the rows neighbors replace each other, and any sample will do.
    """
    n, m = fit.latent.n_rows, fit.latent.n_atoms
    if m <= 2 * SAMPLE:
        return np.arange(m)
    best = np.empty(0, dtype=np.intp)
    if m > _SURPLUS * n:
        quad = expand(fit.latent, fit.hyperprior, NOTHING).quad
        power = np.square(quad.g).reshape(m, quad.K).max(axis=1)
        best = np.argpartition(-power, SAMPLE // 2)[: SAMPLE // 2]
    rest = np.setdiff1d(np.arange(m), best)
    drawn = rng.choice(rest, SAMPLE - best.size, replace=False)
    return np.sort(np.concatenate([best, drawn]))


def exchanged(fit: Fit, latent: LatentData[Any], at: Expanded) -> Expanded | None:
    """Exchange atoms on one expansion; None unless that is better on its own.

    Parameters
    ----------
    fit : Fit
        The account.
    latent : LatentData
        Data and likelihood.
    at : Expanded
        The expansion.

    Returns
    -------
    Expanded or None
        Where the exchanges lead to, roughly converged.
    """
    if latent.shared:  # the table of swaps knows atoms of one column only
        return None
    run = fit.run(at.problem)
    state = exchange_rounds(run, at.state, UNIT_NOISE, _ROUGH)
    fit.iterations = run.iterations
    if state.objective <= at.state.objective + _MARGIN:
        return None
    try:
        trial = converge(
            fit, latent, settle(fit, latent, at.moved(state), _ROUGH, at), _ROUGH, "exchange"
        )
    except Breakdown:
        return None
    return trial if trial.state.objective > at.state.objective + _MARGIN else None


def _better(fit: Fit, one: Point, other: Point) -> Point:
    """The better of two points, each with what the whole dictionary adds to it."""
    try:
        first, second = (
            converge(fit, fit.latent, point, _FINE, "restart", _LOOKS) for point in (one, other)
        )
    except Breakdown:
        return one
    return (first if first.state.objective >= second.state.objective else second).point
