"""Likelihoods other than the Gaussian: the same climb on a quadratic that follows the mode.

1. Expand: find the mode of the weights at the current variances, and the quadratic there.
2. Screen the dictionary and add the best few atoms on this expansion, held.
3. Settle: on the active atoms alone, which cost little, mode and variances in turn until neither
   moves the other.
4. Expand again, until the certificate holds for the last expansion.

With many atoms, 1 to 4 go on among those that gain most, between screens of all of them.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsebayes.engine import Breakdown, State, refresh
from sparsebayes.hyperpriors import Hyperprior
from sparsebayes.laplace import Latent, Mode, Start, find_mode, quadratic_at
from sparsebayes.latent_quadratic import LatentQuadratic
from sparsebayes.problem import Problem, Progress, Report, Solution, Status, certify
from sparsebayes.quadratic import members
from sparsebayes.solvers.climb import Run, climb
from sparsebayes.solvers.exchange import exchange_rounds
from sparsebayes.solvers.newton import Noise, derivatives, newton
from sparsebayes.solvers.working_set import SAMPLE

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = ["UNIT_NOISE", "Expanded", "Point", "expand", "settle", "solve"]

UNIT_NOISE = Noise(1.0, False, 1e-9)  # the curvature of the likelihood takes the place of the noise
_ROUGH = 0.05  # nats left on the table while structure is sought
_FINE = 1e-3  # the same where optima are compared
_STALE = 0.05  # fraction of the best gain that is left for the next expansion
_STEPS = 5  # Newton steps on the variances between modes
_TURNS = 24  # most turns of mode and variances before the next screen
_FULL_TURNS = 4  # turns after which steps are short
_RETREATS = 8  # halvings of a step that falls
_FALL = 0.1  # relative to its objective, by what a new expansion may lie below the last one
_ROWS = 1024  # samples in which structure is sought, of more
_EXPANSIONS = 35  # after which expansions are said to disagree
_WORK = 512  # atoms on which a fit of more of them converges between screens of all
_LOOSE = 0.1  # fraction of what a screen promises that may be left for the next one
_SCREENS = 20  # most screens of all atoms,
_IDLE = 2  # and of those that find nothing better
_LOOKS = 6  # expansions while structure is sought
_FARTHEST, _NEAREST = 8.0, 0.5  # bounds of the step in log variances after a fall
_PATIENCE = 15  # expansions after which they are,
_STUCK = 0.9  # or as soon as one leaves this much of what the last one promised, and gained less
_FAINT = 1e-3  # variance, for unit norm, at which an atom enters or leaves in short steps
_FADED = 0.1  # what is left of an atom that leaves, or there of one that enters, before halving
_EXCHANGES = 12  # most exchanges in a row
_MARGIN = 0.02  # nats by which an exchange must be better to be kept


class Point(NamedTuple):
    """Where a fit is: nothing else is needed to go on from there."""

    active: IndexArray  # (m,) columns, or atoms where their variances are shared
    v: FloatArray  # (m,) prior variances of weights of atoms as given
    starts: tuple[Start, ...] = ()  # where its mode may be


_NOTHING = Point(np.empty(0, dtype=np.intp), np.empty(0))


@dataclass(frozen=True)
class Expanded:
    """A point, its mode and the quadratic there."""

    point: Point
    mode: Mode
    quad: LatentQuadratic
    problem: Problem
    state: State

    def moved(self, state: State) -> Point:
        """The point of another state of this expansion, and where it expects the mode."""
        quad = self.quad
        columns = quad.members(state.active)
        w = state.mu[:, 0] / quad.norm[columns]
        expected = Start(columns, w, quad.offset - quad.centers(columns).T @ w)
        v = state.v / quad.norm[state.active * quad.group] ** 2
        return Point(state.active, v, (expected, *self.point.starts[:1]))


@dataclass
class _Fit:
    """One fit: what is given, and what has been spent."""

    latent: Latent
    hyperprior: Hyperprior
    max_iter: int
    report: Report | None
    iterations: int = 0
    trace: list[Progress] = field(default_factory=list)
    reach: float = 8.0  # longest step in log variances that the last falls have left
    good: Expanded | None = None  # the last expansion over the whole dictionary

    @property
    def exhausted(self) -> bool:
        """Whether max_iter is used up."""
        return self.iterations >= self.max_iter

    def note(self, phase: str, state: State, max_gain: float) -> None:
        line = Progress(phase, self.iterations, state.active.size, state.objective, 1.0, max_gain)
        self.trace.append(line)
        if self.report is not None:
            self.report(line)

    def run(self, problem: Problem) -> Run:
        """Let a solver of fixed quadratics work on this one, on the same account."""
        large = self.latent.design.shape[1] > 2 * SAMPLE
        return Run(problem, self.max_iter, None, large=large, iterations=self.iterations)

    def newton(
        self, at: Expanded, active: IndexArray, v: FloatArray, *, tol: float, max_steps: int
    ) -> State:
        gram = at.quad.gram(active)
        end = newton(
            gram, self.hyperprior, v, UNIT_NOISE, tol=tol, max_steps=max_steps, escape=True
        )
        self.iterations += end.steps + 1
        return State(active[end.kept], end.v, 1.0, end.white, end.objective)


def expand(latent: Latent, hyperprior: Hyperprior, point: Point) -> Expanded:
    """Find the mode at a point, and the quadratic and state there.

    Parameters
    ----------
    latent : Latent
        Data and likelihood.
    hyperprior : Hyperprior
        Prior of the variances.
    point : Point
        Active columns, their variances, and latent functions to start from.

    Returns
    -------
    Expanded
        Mode, quadratic and state; raises `Breakdown` where float64 cannot hold them.
    """
    group = latent.K if latent.shared else 1
    columns = members(point.active, group)
    mode = find_mode(latent, columns, np.repeat(point.v, group), point.starts)
    quad = quadratic_at(latent, mode)
    v = point.v * quad.norm[point.active * group] ** 2
    usable = v > 0  # an atom that has lost its norm to saturated samples is no atom
    active, v = point.active[usable], v[usable]
    state = refresh(quad, hyperprior, active, v, 1.0)
    problem = Problem(quad, hyperprior, 1.0)
    found = Start(columns, mode.w, mode.c)
    return Expanded(Point(active, point.v[usable], (found,)), mode, quad, problem, state)


def settle(
    fit: _Fit,
    latent: Latent,
    point: Point,
    tol: float,
    origin: Expanded | None = None,
    short: bool = False,
) -> Point:
    """Mode and variances of the active atoms in turn, until neither moves the other.

    Parameters
    ----------
    fit : _Fit
        The account.
    latent : Latent
        Data and likelihood.
    point : Point
        Where to start.
    tol : float
        Nats that may be left on the table.
    origin : Expanded or None
        The expansion that has led there, to retreat to.
    short : bool, default=False
        Whether to take short steps.

    Returns
    -------
    Point
        Fewer atoms, maybe, and none added.
    """
    per_atom = 1 if latent.shared else latent.K
    last = point if origin is None else origin.point
    height = -np.inf if origin is None else origin.state.objective
    atoms = np.unique(np.concatenate([last.active, point.active]) // per_atom)
    if not atoms.size:
        return point
    few = latent.restrict(atoms)
    best = _renumbered(last, atoms, per_atom, latent.K)
    here = _renumbered(point, atoms, per_atom, latent.K)
    if short:
        here = _balance(fit, few, _advance(fit, few, best, height, here), tol)
    for turn in range(0 if short else _TURNS):
        at = _advance(fit, few, best, height, here)
        best, height = at.point, at.state.objective
        end = fit.newton(at, at.state.active, at.state.v, tol=0.1 * tol, max_steps=_STEPS)
        here = at.moved(end)
        if end.objective - height < tol or fit.exhausted:
            break
        if turn >= _FULL_TURNS:
            here = _inched(at, here, 1.0 / (1.0 + turn / _FULL_TURNS), 0.5)
        elif fit.reach < _FARTHEST:
            here = _inched(at, here, fit.reach)
    active = atoms[here.active // per_atom] * per_atom + here.active % per_atom
    return Point(active, here.v, _renamed(here.starts, atoms, latent.K))


def _balance(fit: _Fit, latent: Latent, at: Expanded, tol: float) -> Point:
    """Variances at which the gradient of their own expansion vanishes, by Broyden's method.

    The Hessian of an expansion does not know how the curvature of the likelihood moves with the
    mode; where that matters, turns of mode and variances circle around the balance. Broyden's
    updates learn it from the gradients seen. Atoms may leave, none is deleted for being worth
    nothing to a single expansion.
    """
    J: FloatArray | None = None
    step = before = np.empty(0)
    for _ in range(_TURNS):
        gram = at.quad.gram(at.state.active)
        gradient, H = derivatives(gram, fit.hyperprior, at.state.v, UNIT_NOISE, at.state.white)
        fit.iterations += 1
        stays = (at.state.v > _FAINT) | (gradient > 0)
        if not stays.all():
            point = at.point
            at = expand(
                latent, fit.hyperprior, point._replace(active=point.active[stays], v=point.v[stays])
            )
            J = None
            continue
        if J is not None and len(J) != gradient.size:  # an atom has lost its norm
            J = None
        if not gradient.size:
            break
        if J is not None:
            J = J + np.outer(gradient - before - J @ step, step) / float(step @ step)
        if J is None or float(gradient @ np.linalg.solve(J, gradient)) >= 0:
            values, vectors = np.linalg.eigh(H)
            J = -(vectors * np.maximum(np.abs(values), 1e-5)) @ vectors.T
        step = -np.linalg.solve(J, gradient)
        if 0.5 * float(gradient @ step) < tol or fit.exhausted:
            break
        step *= min(1.0, 1.0 / float(np.abs(step).max()))
        before = gradient
        at = expand(latent, fit.hyperprior, at.point._replace(v=at.point.v * np.exp(step)))
    return at.point


def _renumbered(point: Point, atoms: IndexArray, per_atom: int, K: int) -> Point:
    """The same point where only ``atoms`` are counted."""
    place = np.searchsorted(atoms, point.active // per_atom)
    starts = []
    for start in point.starts:
        known = np.isin(start.columns // K, atoms)
        columns = start.columns[known]
        renumbered = np.searchsorted(atoms, columns // K) * K + columns % K
        starts.append(Start(renumbered, start.w[known], start.c))
    return Point(place * per_atom + point.active % per_atom, point.v, tuple(starts))


def _renamed(starts: tuple[Start, ...], atoms: IndexArray, K: int) -> tuple[Start, ...]:
    """The same starts where all atoms are counted."""
    return tuple(
        start._replace(columns=atoms[start.columns // K] * K + start.columns % K)
        for start in starts
    )


def _advance(fit: _Fit, latent: Latent, origin: Point, height: float, target: Point) -> Expanded:
    """Expand at ``target``, or nearer to ``origin`` where that is a fall.

    The quadratic at the origin knows nothing of how the curvature changes: far away its promises
    can be wrong by any amount.
    """
    for retreats in range(_RETREATS):
        try:
            at = expand(latent, fit.hyperprior, target)
        except Breakdown:
            at = None
        if at is not None and at.state.objective >= height - _FALL * (1.0 + abs(height)):
            fit.reach *= 1.5 if retreats == 0 else 1.0
            return at
        fit.reach = max(0.5 * min(fit.reach, _FARTHEST), _NEAREST)
        target = _halfway(origin, target)
    return expand(latent, fit.hyperprior, origin)


def _climb(
    fit: _Fit, latent: Latent, point: Point, tol: float, phase: str, looks: int = _EXPANSIONS
) -> Expanded:
    """Expand, climb and settle until no change gains more than ``tol``, or ``looks`` times."""
    short, pending, height = False, np.inf, -np.inf
    best: Expanded | None = None
    least = np.inf
    for turn in range(looks):
        at = expand(latent, fit.hyperprior, point)
        certificate, _ = certify(at.problem, at.state, UNIT_NOISE)
        fit.note(phase, at.state, certificate.max_gain)
        if certificate.holds(tol) or fit.exhausted:
            return at
        if best is None or certificate.max_gain < least:
            best, least = at, certificate.max_gain
        gained = at.state.objective - height
        height = at.state.objective
        stuck = certificate.max_gain > _STUCK * pending and gained < pending
        short = short or turn >= _PATIENCE or stuck
        pending = certificate.max_gain
        # An expansion far from the mode is not worth more than a fraction of what it promises.
        left = max(_STALE * certificate.max_gain, 0.1 * tol)
        run = fit.run(at.problem)
        state = climb(run, at.state, UNIT_NOISE, left, phase)
        fit.iterations = run.iterations
        point = at.moved(state)
        if short:
            point = _inched(at, point, 1.0, 0.5)
        elif fit.reach < _FARTHEST:
            point = _inched(at, point, fit.reach)
        point = settle(fit, latent, point, left, at, short)
        if _is_same(point, at.point):  # every way on is a fall: nothing will change
            break
    assert best is not None
    return best


def _is_same(one: Point, other: Point) -> bool:
    return np.array_equal(one.active, other.active) and np.array_equal(one.v, other.v)


def _halfway(old: Point, new: Point) -> Point:
    """Between two points, in log variances; atoms of one of them count as fainter in the other."""
    active, v = _aligned(old, new)
    v = np.where(v > 0, v, _FADED * v.max(axis=0))
    return Point(active, np.sqrt(v[0] * v[1]), new.starts)


def _inched(at: Expanded, new: Point, longest: float, fraction: float = 1.0) -> Point:
    """A short step from an expansion towards where it leads to.

    An expansion may call for an atom that the next one wants to be rid of, and so on for ever. In
    short steps, atoms fading out, variances come to rest where both agree.
    """
    active, v = _aligned(at.point, new)
    norm2 = np.maximum(at.quad.norm[active * at.quad.group] ** 2, np.finfo(float).tiny)
    faint = _FAINT / norm2
    gone = (v[1] == 0) & (v[0] <= 2.0 * faint)
    came = v[0] == 0  # at its full variance: with a price on it, a faint atom is worth nothing
    v[0] = np.where(came, v[1], v[0])
    v[1] = np.maximum(v[1], faint)
    step = np.clip(fraction * np.log(v[1] / v[0]), -longest, longest)
    return Point(active[~gone], (v[0] * np.exp(step))[~gone], new.starts)


def _aligned(old: Point, new: Point) -> tuple[IndexArray, FloatArray]:
    """Atoms of either point, and their variances in both, zero where an atom is absent."""
    active = np.union1d(old.active, new.active)
    v = np.zeros((2, active.size))
    for row, point in zip(v, (old, new), strict=True):
        row[np.searchsorted(active, point.active)] = point.v
    return active, v


def solve(
    latent: Latent,
    hyperprior: Hyperprior,
    *,
    tol: float = 1e-6,
    max_iter: int = 10_000,
    n_restarts: int = 0,
    random_state: np.random.RandomState | None = None,
    start: Point | None = None,
    report: Report | None = None,
) -> tuple[Solution, LatentQuadratic]:
    """Maximise the objective over all atoms and their variances, following the mode.

    Parameters
    ----------
    latent : Latent
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
    quad : LatentQuadratic
        The last expansion.
    """
    fit = _Fit(latent, hyperprior, max_iter, report)
    rng = np.random.RandomState(0) if random_state is None else random_state
    point = start
    if point is None:
        point = _explore(fit, rng)
        for _ in range(n_restarts):
            if not fit.exhausted:
                point = _better(fit, point, _explore(fit, rng, anew=True))
    try:
        at, broken = _finish(fit, point, tol), False
    except Breakdown:
        at, broken = fit.good or expand(latent, hyperprior, _NOTHING), True
    certificate, _ = certify(at.problem, at.state, UNIT_NOISE)
    converged = certificate.holds(tol)
    status = Status.MAX_ITER if fit.exhausted else Status.UNSETTLED
    if converged:
        status = Status.CONVERGED
    elif broken:
        status = Status.BREAKDOWN
    trace = tuple(fit.trace)
    solution = Solution(at.state, UNIT_NOISE, status, certificate, converged, fit.iterations, trace)
    return solution, at.quad


def _finish(fit: _Fit, point: Point, tol: float) -> Expanded:
    """Screen the whole dictionary and converge on the atoms that gain most, in turn."""
    per_atom = 1 if fit.latent.shared else fit.latent.K
    m = fit.latent.design.shape[1]
    if m <= 2 * _WORK or fit.latent.K == 1:  # with several latent functions a screen costs K^2
        return _climb(fit, fit.latent, point, tol, "finish")
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
        here = _renumbered(at.point, atoms, per_atom, fit.latent.K)
        here = _climb(fit, few, here, max(_LOOSE * certificate.max_gain, tol), "finish").point
        active = atoms[here.active // per_atom] * per_atom + here.active % per_atom
        point = Point(active, here.v, _renamed(here.starts, atoms, fit.latent.K))
    assert fit.good is not None
    return fit.good


def _explore(fit: _Fit, rng: np.random.RandomState, anew: bool = False) -> Point:
    """Find the structure, in a sample of many rows and many atoms: climb, then exchange atoms.

    To look ``anew``, half of few atoms are drawn too, so that another optimum may be found.
    """
    rows = _some_rows(fit.latent.t, rng)
    sample = _some_atoms(fit, rng)
    if anew and sample.size == fit.latent.design.shape[1]:
        sample = np.sort(rng.choice(sample, (sample.size + 1) // 2, replace=False))
    latent = (
        fit.latent if sample.size == fit.latent.design.shape[1] else fit.latent.restrict(sample)
    )
    try:
        point = _explored(fit, latent if rows is None else latent.take(rows))
        if rows is not None:  # the same atoms, with all rows
            point = settle(fit, latent, point, _ROUGH)
            point = _climb(fit, latent, point, _ROUGH, "climb", _LOOKS).point
    except Breakdown:  # the whole dictionary may do better
        return _NOTHING
    per_atom = 1 if latent.shared else latent.K
    active = sample[point.active // per_atom] * per_atom + point.active % per_atom
    return Point(active, point.v, _renamed(point.starts, sample, latent.K))


def _explored(fit: _Fit, latent: Latent) -> Point:
    at = _climb(fit, latent, _NOTHING, _ROUGH, "climb", _LOOKS)
    # Rows left out will move the optimum anyway: there one exchange is enough.
    whole = len(latent.t) == len(fit.latent.t)
    for _ in range(_EXCHANGES if whole else 1):
        trial = _exchanged(fit, latent, at)
        if trial is None:
            break
        at = trial
    return at.point


def _some_rows(t: FloatArray, rng: np.random.RandomState) -> IndexArray | None:
    """Rows drawn at random, more of rare targets; None where there are not too many."""
    if len(t) <= 2 * _ROWS:
        return None
    _, kind, count = np.unique(t, return_inverse=True, return_counts=True)
    # At least as many of each kind as if there were ten times fewer of all; rare ones are kept.
    wanted = np.maximum(_ROWS * count / len(t), _ROWS / (10.0 * count.size))
    drawn = rng.uniform(size=len(t)) * count[kind] < wanted[kind]
    return np.flatnonzero(drawn)


def _some_atoms(fit: _Fit, rng: np.random.RandomState) -> IndexArray:
    """Atoms drawn at random; where they outnumber the rows, half that correlate with the targets.

    Among kernels at the rows neighbors replace each other, and any sample will do.
    """
    n, m = fit.latent.design.shape
    if m <= 2 * SAMPLE:
        return np.arange(m)
    best = np.empty(0, dtype=np.intp)
    if m > n:
        quad = expand(fit.latent, fit.hyperprior, _NOTHING).quad
        power = np.square(quad.g).reshape(m, quad.K).max(axis=1)
        best = np.argpartition(-power, SAMPLE // 2)[: SAMPLE // 2]
    rest = np.setdiff1d(np.arange(m), best)
    drawn = rng.choice(rest, SAMPLE - best.size, replace=False)
    return np.sort(np.concatenate([best, drawn]))


def _exchanged(fit: _Fit, latent: Latent, at: Expanded) -> Expanded | None:
    """Exchange atoms on one expansion; None unless that is better on its own."""
    if latent.shared:  # the table of swaps knows atoms of one column only
        return None
    run = fit.run(at.problem)
    state = exchange_rounds(run, at.state, UNIT_NOISE, _ROUGH)
    fit.iterations = run.iterations
    if state.objective <= at.state.objective + _MARGIN:
        return None
    try:
        trial = _climb(
            fit, latent, settle(fit, latent, at.moved(state), _ROUGH, at), _ROUGH, "exchange"
        )
    except Breakdown:
        return None
    return trial if trial.state.objective > at.state.objective + _MARGIN else None


def _better(fit: _Fit, one: Point, other: Point) -> Point:
    """The better of two points, each with what the whole dictionary adds to it."""
    try:
        first, second = (
            _climb(fit, fit.latent, point, _FINE, "restart", _LOOKS) for point in (one, other)
        )
    except Breakdown:
        return one
    return (first if first.state.objective >= second.state.objective else second).point
