"""The original training of Tipping (2001): all atoms in the model, all variances at once.

Every atom of the dictionary starts in the model. Each iteration computes the posterior and then
updates all variances and the noise together, by EM or by MacKay's rule (`solvers.updates`). Atoms
whose variance has gone to zero, and which the model is better without, are pruned (appendix B).
When steps gain next to nothing, the finish is the default solver's: whatever was pruned too early
is put back, and Newton steps reach the optimum that fixed-point steps creep towards.

Where the likelihood is not Gaussian the posterior is that of the mode (section 3). The curvature
moves with the mode, of which the updates know nothing: Laplace's evidence may fall by a little even
under EM.

It costs M^3 operations and a few M x M matrices at the start; it is the reference that the other
solvers are compared with, and the one that takes a `Gamma` prior of precisions.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sparsebayes._hyperprior import lets_out
from sparsebayes.core.quadratic import Gram
from sparsebayes.engine import EPS, Breakdown, State, log_hyperprior, whiten, without_self
from sparsebayes.hyperpriors import Hyperprior, best_variance, gain
from sparsebayes.problem import Problem, Progress, Report, Solution, Status, certify
from sparsebayes.solvers import relinearize, updates
from sparsebayes.solvers.climb import Run
from sparsebayes.solvers.expand import (
    NOTHING,
    Expanded,
    LatentProblem,
    Part,
    Point,
    look,
)
from sparsebayes.solvers.newton import Noise
from sparsebayes.solvers.search import finish

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = ["UPDATES", "solve"]

UPDATES = {"em": updates.em, "mackay": updates.mackay}
"""Rules by which variances and noise are updated, by the name of the solver."""

_START_NOISE = 0.1  # of the targets' power
_STRENGTH = 4.0  # variance of latent functions at the start
_MOST_ATOMS = 12_000  # matrices of 1.2 gigabytes, of which six are held at a time
# Under MacKay's rule what explains nothing gets a variance of 0; less than this would overflow.
_LEAST = float(np.finfo(float).tiny) / EPS
_GONE = 0.01  # v s, the signal to noise ratio of an atom, at which its variance has gone to zero
_RETREATS, _FAINTER = 20, 1e-2
_STEADY = 2  # steps in a row that change the objective by next to nothing, which is
_LITTLE = 1e3  # times tol where each takes a mode: the finish is better at the rest
_CIRCLES = 100  # steps in a row none of which is the best so far: MacKay's may go round in a circle


@dataclass(frozen=True)
class _Model:
    """A point and the expansion there, over the atoms of the model alone."""

    problem: Problem | LatentProblem  # of the whole dictionary
    point: Point
    atoms: IndexArray  # which the expansion counts
    at: Expanded
    gram: Gram  # of active columns

    @property
    def state(self) -> State:
        """The state, whose active atoms are counted among these."""
        return self.at.state

    @property
    def whole(self) -> State:
        """The state, whose active atoms are counted in the whole dictionary."""
        return replace(self.state, active=self.point.active)


def _model(problem: Problem | LatentProblem, point: Point, gram: Gram | None = None) -> _Model:
    """The model at a point, whose Gram matrix may be known; it may be a `Breakdown`."""
    if isinstance(problem, Problem):
        v, noise_var, own = point.v, point.noise_var, np.arange(point.active.size)
        gram = problem.quad.gram(point.active) if gram is None else gram
        white = whiten(gram, v, noise_var)
        objective = white.log_evidence + log_hyperprior(problem.hyperprior, v, noise_var)
        state = State(own, v, noise_var, white, objective)
        at = Expanded(point._replace(active=own), None, gram, problem, state)
        found = _Model(problem, point, point.active, at, gram)
    else:
        part = Part.of(problem.data, point)
        at = look(replace(problem, data=part.data), part.inside(point))
        point = part.outside(at.point)
        found = _Model(problem, point, part.atoms, at, at.quad.gram(at.state.active))
    if not np.isfinite(at.state.objective):
        raise Breakdown
    return found


def solve(
    problem: Problem | LatentProblem,
    *,
    update: str = "em",
    tol: float = 1e-6,
    max_iter: int = 10_000,
    random_state: np.random.RandomState | None = None,
    start: Point | tuple[IndexArray, FloatArray, float] | None = None,
    report: Report | None = None,
) -> Solution:
    """Maximize the objective by updates of all variances at once, and then as by default.

    Nothing is random. Atoms that ``start`` leaves out start out of the model if the hyperprior lets
    them. Lines of the trace are of the phase "em" or "mackay".
    """
    if update not in UPDATES:
        raise ValueError(f"update must be one of {tuple(UPDATES)}, got {update!r}.")
    exact = isinstance(problem, Problem)
    trace: list[Progress] = []

    def note(line: Progress) -> None:
        trace.append(line)
        if report is not None:
            report(line)

    if isinstance(problem, Problem):
        _check_size(problem.quad.size, update)
        problem = replace(problem, quad=problem.quad.gram(np.arange(problem.quad.size)))
    else:
        data = problem.data
        _check_size(data.n_atoms * (1 if data.shared else data.K), update)
    noise, ended = problem.noise(_START_NOISE), Status.BREAKDOWN
    model = _model(problem, NOTHING._replace(noise_var=noise.var))
    try:
        model = _first(problem, noise, None if start is None else Point(*start))
        model, settled = _iterate(model, noise, update, tol, max_iter, note)
        ended = Status.MAX_ITER
        if settled and len(trace) < max_iter:
            return _finished(model, noise, tol, max_iter, trace, report)
    except Breakdown:
        pass
    at = look(problem, model.point)
    certificate, _ = certify(at.problem, at.state, noise)
    converged = certificate.holds(tol)
    ended = Status.CONVERGED if converged else ended
    return Solution(
        at.state,
        noise._replace(var=at.state.noise_var),
        at.problem.verdict(at.state, noise, ended),
        certificate,
        converged,
        len(trace),
        tuple(trace),
        quad=None if exact else at.quad,
    )


def _finished(
    model: _Model,
    noise: Noise,
    tol: float,
    max_iter: int,
    trace: list[Progress],
    report: Report | None,
) -> Solution:
    """Where the default solver leads to."""
    problem, spent = model.problem, len(trace)
    if isinstance(problem, Problem):
        run = Run(problem, max_iter, report, large=False, iterations=spent, trace=trace)
        return finish(run, model.whole, noise, tol)
    end = relinearize.solve(
        problem, tol=tol, max_iter=max_iter - spent, start=model.point, report=report
    )
    return replace(end, n_iter=spent + end.n_iter, trace=(*trace, *end.trace))


def _check_size(size: int, solver: str) -> None:
    """Refuse a dictionary whose matrices would not fit into memory."""
    if size > _MOST_ATOMS:
        raise ValueError(
            f"solver={solver!r} starts with all {size} atoms in the model, and matrices of that "
            f"size squared would take {48e-9 * size**2:.0f} gigabytes: use solver='auto', or "
            f"at most {_MOST_ATOMS} atoms."
        )


def _first(problem: Problem | LatentProblem, noise: Noise, start: Point | None) -> _Model:
    """The start, or all atoms; fainter where a noise is tiny beside the targets."""
    point = _first_point(problem, noise, start)
    for _ in range(_RETREATS):
        try:
            return _model(problem, point)
        except Breakdown:
            point = point._replace(v=_FAINTER * point.v)
    return _model(problem, point)


def _first_point(problem: Problem | LatentProblem, noise: Noise, start: Point | None) -> Point:
    """All atoms that are any, each with the same share of the signal that there may be."""
    noise_var = start.noise_var if start is not None and noise.estimated else noise.var
    if start is not None and lets_out(problem.hyperprior):
        return start._replace(noise_var=noise_var)
    if isinstance(problem, Problem):
        quad, per_atom = problem.quad, 1
        norm2 = np.where(quad.diag > 0, 1.0, 0.0)
        power = problem.power * quad.n or noise.var
    else:
        data, per_atom = problem.data, 1 if problem.data.shared else problem.data.K
        norm2 = data.design.moments(data.weights, data.center).norm ** 2
        power = _STRENGTH * (data.n_rows if data.weights is None else data.weights.sum())
    atoms = np.flatnonzero(norm2 > 0)
    v = np.repeat(power / (max(atoms.size, 1) * norm2[atoms]), per_atom)
    active = (atoms[:, None] * per_atom + np.arange(per_atom)).ravel()
    if start is not None:
        known = np.isin(active, start.active)
        order = np.argsort(start.active)
        v[known] = start.v[order][np.searchsorted(start.active[order], active[known])]
    return Point(active, v, noise_var, () if start is None else start.starts)


def _iterate(
    model: _Model, noise: Noise, update: str, tol: float, max_iter: int, note: Report
) -> tuple[_Model, bool]:
    """Update until that gains next to nothing; whether it came to that before ``max_iter``."""
    best, steady, idle = model, 0, 0
    little = tol if isinstance(model.problem, Problem) else _LITTLE * tol
    gone, _ = _worthless(model.problem.hyperprior, model.state)
    for iteration in range(1, max_iter + 1):
        if not model.point.active.size:
            return model, True
        try:
            following = _updated(model, noise, update, gone)
        except Breakdown:
            return model, True
        rise = following.state.objective - model.state.objective
        model, state = following, following.state
        gone, max_gain = _worthless(model.problem.hyperprior, state)
        size, objective = state.active.size, state.objective
        note(Progress(update, iteration, size, objective, state.noise_var, max_gain))
        steady = steady + 1 if abs(rise) < little else 0
        best, idle = (model, 0) if objective > best.state.objective else (best, idle + 1)
        if steady == _STEADY or idle == _CIRCLES:
            return best, True
    return model, False


def _updated(model: _Model, noise: Noise, update: str, gone: IndexArray) -> _Model:
    """The next model, without atoms that are ``gone``, or as many as it does not fall for."""
    state, gram, hyperprior = model.state, model.gram, model.problem.hyperprior
    left, white, here = np.arange(state.v.size), state.white, noise._replace(var=state.noise_var)
    while gone.size:
        kept = np.delete(left, gone)
        fewer = gram.gram(kept)
        trial = whiten(fewer, state.v[kept], here.var)
        reached = trial.log_evidence + log_hyperprior(hyperprior, state.v[kept], here.var)
        if reached >= state.objective:
            left, gram, white = kept, fewer, trial
            break
        gone = gone[: gone.size // 2]
    v, noise_var = UPDATES[update](gram, hyperprior, state.v[left], here, white)
    known = gram if (v >= _LEAST).all() else None
    left, v = left[v >= _LEAST], v[v >= _LEAST]
    point = model.point._replace(
        active=model.point.active[left], v=model.at.at(state.active[left], v).v, noise_var=noise_var
    )
    return _model(model.problem, point, known)


def _worthless(hyperprior: Hyperprior, state: State) -> tuple[IndexArray, float]:
    """Positions of atoms that have faded and that the model is better without, the worst first.

    Also what changing a single variance of the model would gain, in nats.
    """
    s, q2 = without_self(state.v, state.white)
    n_targets, noise_var = state.white.z.shape[1], state.noise_var
    best = best_variance(hyperprior, s, q2, noise_var, n_targets)
    gains = gain(hyperprior, s, q2, best, noise_var, n_targets, state.v)
    ratio = state.v * (s if s.ndim == 1 else s.max(axis=1))
    gone = np.flatnonzero((best == 0) & (ratio < _GONE))
    gone = gone[np.argsort(-gains[gone], kind="stable")]
    return gone, max(float(gains.max(initial=0.0)), 0.0)
