"""The default solver: a few seeds, one move, and a finish that certifies.

A search begins with seeds: a crowd of atoms that share one variance, of which most leave, and the
empty model, which grows. It goes on with one move as long as that helps: the active atoms and the
best few replacements of each share out what they explain, those left with nothing go, and the rest
climbs (`solvers.climb`) to an optimum of the whole dictionary. Where most active atoms have near
copies it is enough that they compete among themselves and their neighbors. Under a prior with a
price there are two detours through the flat one, where atoms come in freely.

``python -m benchmarks.ablation`` switches off every part, halves and doubles every number.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsebayes._hyperprior import Flat, is_flat, refuse_if_never_out
from sparsebayes.core.quadratic import Gram, Quadratic
from sparsebayes.engine import (
    Breakdown,
    Screen,
    State,
    factorize,
    inverse_triangle,
    log_evidence_constant,
    refresh,
)
from sparsebayes.problem import (
    Certificate,
    Problem,
    Report,
    Solution,
    Status,
    certify,
    empty_state,
)
from sparsebayes.solvers.climb import Run, climb, resume_noise
from sparsebayes.solvers.draws import drawn
from sparsebayes.solvers.newton import Noise
from sparsebayes.solvers.polish import polished
from sparsebayes.solvers.stride import stride
from sparsebayes.solvers.swaps import best_swaps

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = ["SETTINGS", "finish", "improved", "is_better", "likely", "solution", "solve"]


class Competition(NamedTuple):
    """How active atoms and their replacements compete; without a raise it is mild."""

    raised: float  # factor on all variances
    cut: float  # factor on an estimated noise
    partners: int  # replacements of each active atom


class Pace(NamedTuple):
    """How atoms share out what they explain."""

    steps: int
    gone: float  # variance, relative to the noise, of an atom left with nothing
    mild: bool  # whether in MacKay's steps, not in those of EM


class Settings(NamedTuple):
    """The numbers of the search; `benchmarks.ablation` says what each is worth."""

    crowd: int = 384  # atoms of a crowd, and of the sample that a large dictionary's model grows in
    probe: int = 100  # of which tell what variance and noise would suit them
    broad: float = 3.0  # ratio of that variance to the noise, per row: weights almost cancel
    tiny: int = 150  # atoms up to which all seeds are tried
    dense: int = 400  # atoms up to which the whole Gram matrix is made, and all seeds go on
    held: float = 0.06  # of the targets' power: the least noise at which a model grows
    schedule: tuple[Competition, ...] = (
        Competition(1.0, 1.0, 5),
        Competition(10.0, 0.5, 4),
        Competition(1e5, 0.5, 4),
    )
    near: int = 4  # neighbors of each active atom among which a smooth model settles
    smooth: float = 1.0  # median loss of the best swaps, in nats, below which a model is smooth
    few: int = 12  # active atoms below which it never is, and a fierce crowd is tried, too
    mild: Pace = Pace(8, 0.1, True)
    fierce: Pace = Pace(15, 1e-6, False)
    rounds: int = 12  # most moves
    margin: float = 0.02  # nats by which the better of two optima must be better
    worth: float = 2.0  # nats that a move must gain not to count as one that failed
    spent: float = 0.5  # degrees of freedom per row from which a model is on its way to collapse
    close: float = 20.0  # nats by which a seed may be behind the best and still go on
    pool: int = 200  # atoms closest to entering among which a large dictionary is finished first


SETTINGS = Settings()

_RESERVE = 25  # Newton steps that must be left for a crowd or a move
_PROMISING = 64  # atoms that are tried together where none helps alone
_CROWDED = 800  # most atoms that compete at once
_FASTEST, _TINY = 10.0, 1e-12  # most that a mild step changes a variance by; least divisor in it
_COPY = 1.0 - 1e-12  # inner product with an atom from which another one is taken for a copy
_RATIOS = np.logspace(-4, 10, 57)  # of a shared variance to the noise that are compared
_FINE = 1e-3  # nats left on the table where restarts are compared


def solve(
    problem: Problem,
    *,
    tol: float = 1e-6,
    max_iter: int = 10_000,
    n_restarts: int = 0,
    random_state: np.random.RandomState | None = None,
    start: tuple[IndexArray, FloatArray, float] | None = None,
    report: Report | None = None,
) -> Solution:
    """Maximize the objective over all atoms, their variances and the noise.

    Atoms have one column each. The certificate leaves at most ``tol`` nats on the table;
    ``max_iter`` counts Newton steps. ``start`` (active, v, noise_var) is where a warm start goes on
    from, ``n_restarts`` are further searches of which the best is kept, and ``report`` hears of
    every screen.
    """
    refuse_if_never_out(problem.hyperprior, "the default solver")
    if problem.quad.size <= SETTINGS.dense:
        problem = replace(problem, quad=problem.quad.gram(np.arange(problem.quad.size)))
    run = Run(problem, max_iter, report, problem.quad.size > 2 * SETTINGS.crowd)
    rng = np.random.RandomState(0) if random_state is None else random_state
    noise = problem.noise(3 * SETTINGS.held)
    best = empty_state(problem, problem.noise().var)
    try:
        if start is not None:
            noise = noise._replace(var=noise.var if not noise.estimated else start[2])
            best = refresh(problem.quad, problem.hyperprior, start[0], start[1], noise.var)
        else:
            best = _searched(run, noise, rng)
        best = _restarted(run, best, noise, n_restarts, rng)
        return finish(run, best, noise, tol)
    except Breakdown:
        certificate, _ = certify(problem, best, noise)
        return solution(run, best, noise, Status.BREAKDOWN, certificate)


def _searched(run: Run, noise: Noise, rng: np.random.RandomState) -> State:
    return (_free if is_flat(run.problem.hyperprior) else _priced)(run, noise, rng)


def _free(run: Run, noise: Noise, rng: np.random.RandomState) -> State:
    """Search under the flat prior: the best of what moves make of the seeds."""
    problem, found = run.problem, []
    few = problem.quad.size <= SETTINGS.dense
    if not _is_short(run):
        with suppress(Breakdown):  # of broad kernels, whose weights float64 cannot hold
            found.append(_crowd(run, noise, rng))
    given_low = not noise.estimated and noise.var < SETTINGS.held * problem.power
    tiny = problem.quad.size <= SETTINGS.tiny
    if not found or tiny or given_low or not is_smooth(run, found[0]):
        found.append(_grown(run, noise, rng))
    best = _best(problem, found)
    if best.active.size <= SETTINGS.few and not _is_short(run):
        with suppress(Breakdown):
            trial = _fierce_crowd(run, best, noise, rng)
            found += [] if trial is None else [trial]
    best = _best(problem, found)
    near = [
        one
        for one in found
        if _fullness(problem, one) == _fullness(problem, best)
        and best.objective - one.objective < SETTINGS.close
    ]
    return _best(problem, [improved(run, one, noise) for one in (near if few else [best])])


def _best(problem: Problem, states: list[State]) -> State:
    best = states[0]
    for one in states[1:]:
        best = one if is_better(problem, one, best) else best
    return best


def _priced(run: Run, noise: Noise, rng: np.random.RandomState) -> State:
    """Search under a prior with a price: from nothing, and by two detours through the flat one.

    A price makes growth timid: an atom that pays for itself only beside others never enters, one
    that stands in for several never leaves. Charged afterwards, it has only to choose.
    """
    best = improved(run, _grown(run, noise, rng), noise)
    for anew in (True, False):
        if _is_short(run):
            break
        trial = _detour(run, best, noise, rng, anew)
        if trial is not None and is_better(run.problem, trial, best):
            best = improved(run, trial, noise)
    return best


def _detour(
    run: Run, best: State, noise: Noise, rng: np.random.RandomState, anew: bool
) -> State | None:
    """Search under the flat prior, from nothing or from the best, and charge what is found.

    The noise is held: free of the price it would fall. None where float64 cannot hold it.
    """
    problem = run.problem
    usual = max(SETTINGS.held * problem.power, noise.floor)
    var = noise.var if not noise.estimated else usual if anew else best.noise_var
    held = Noise(var, False, noise.floor)
    pool = np.union1d(likely(problem.quad, rng), best.active)
    if pool.size > 0.5 * problem.quad.size:
        pool = np.arange(problem.quad.size)
    try:
        with _among(run, pool, Flat(), var):
            if anew:
                free = _grown(run, held, rng)
            else:
                active = np.searchsorted(pool, best.active)
                free = refresh(run.problem.quad, Flat(), active, best.v, var)
                free = climb(run, free, held, run.rough, run.phase)
            free = improved(run, free, held)
        return _widened(run, free, pool, noise)
    except Breakdown:
        return None


def improved(run: Run, best: State, noise: Noise) -> State:
    """Move as long as it helps: mildly among neighbors, or through the schedule."""
    smooth = is_smooth(run, best)
    patience = 1 if smooth or run.large else len(SETTINGS.schedule)
    failures = 0
    for turn in range(SETTINGS.rounds):
        if failures >= patience or _is_short(run) or 2 * best.active.size > _CROWDED:
            break
        failures += 1
        how = SETTINGS.schedule[turn % len(SETTINGS.schedule)]
        try:
            trial = _settled(run, best, noise) if smooth else _competed(run, best, noise, how)
        except Breakdown:  # raised variances can leave float64's range
            continue
        if is_better(run.problem, trial, best):
            failures = 0 if trial.objective > best.objective + SETTINGS.worth else failures
            best = trial
    return best


def _is_short(run: Run) -> bool:
    """Whether few of the Newton steps allowed are left: enough to converge with, and no more."""
    return run.max_iter - run.iterations < _RESERVE


def is_smooth(run: Run, state: State) -> bool:
    """Whether most active atoms, of many, have a neighbor that would do almost as well."""
    if state.active.size < SETTINGS.few:
        return False
    swaps = best_swaps(run.problem, state, run.swap_table(state))
    return float(np.median(swaps.loss)) < SETTINGS.smooth


def is_better(problem: Problem, trial: State, state: State) -> bool:
    """Whether ``trial`` is the better optimum: evidence does not order models that collapse."""
    ahead = _fullness(problem, trial) - _fullness(problem, state)
    if ahead:
        return ahead < 0
    return trial.objective > state.objective + SETTINGS.margin


def _fullness(problem: Problem, state: State) -> int:
    """How far a model is on its way to collapse: not, half way, or there."""
    rows = problem.quad.n - problem.copies
    spent = problem.noise_var is None and float(state.dof.sum()) > SETTINGS.spent * rows
    return int(spent) + int(problem.is_collapsed(state))


# Seeds


def _crowd(run: Run, noise: Noise, rng: np.random.RandomState) -> State:
    """From a crowd of atoms that share one variance.

    Grown models commit themselves early: the first atoms stand where one alone serves best, and an
    estimated noise takes what they leave. A crowd explains together what there is to explain. Where
    its weights almost cancel, only all of it shows how much, and the noise is held until it has.
    """
    run.phase = "crowd"
    problem = run.problem
    if problem.quad.size <= SETTINGS.few:
        raise Breakdown("too few atoms")
    atoms = drawn(problem.quad, SETTINGS.crowd, rng)
    if not atoms.size:
        raise Breakdown("no atom but void ones")
    v, var = _shared(problem.quad.gram(atoms[: SETTINGS.probe]), noise)
    broad = v > SETTINGS.broad * var * problem.quad.n
    v *= min(SETTINGS.probe / atoms.size, 1.0)
    atoms = np.sort(atoms)
    with _among(run, atoms):
        few = run.problem.quad
        if broad:
            v, var = _shared(few.gram(np.arange(atoms.size)), noise)
            var = max(0.5 * var, noise.floor) if noise.estimated else var
        state = _landed(
            run, np.arange(atoms.size), np.full(atoms.size, v), noise, var, SETTINGS.mild, broad
        )
    return _widened(run, state, atoms, noise)


def _fierce_crowd(run: Run, best: State, noise: Noise, rng: np.random.RandomState) -> State | None:
    """From fewer atoms of the largest variance that suits them; None where they explain too little.

    Broad kernels that overlap explain a signal with large weights of either sign, where none gains
    anything alone: growth stops at once, with a signal that counts as noise.
    """
    run.phase = "fierce crowd"
    problem = run.problem
    if not problem.quad.diag.any():
        return None
    atoms = np.sort(drawn(problem.quad, SETTINGS.probe, rng))
    gram = problem.quad.gram(atoms)
    _, left = _shared(gram, noise)
    held = noise.var
    if noise.estimated:
        held = max(0.5 * min(left, best.noise_var), noise.floor)
    v, _ = _shared(gram, Noise(held, False, noise.floor), largest=True)
    while v > held * _RATIOS[0]:
        try:
            return _landed(run, atoms, np.full(atoms.size, v), noise, held, SETTINGS.fierce)
        except Breakdown:  # variances that float64 cannot hold
            v *= 1e-2
    return None


def _grown(run: Run, noise: Noise, rng: np.random.RandomState) -> State:
    """From nothing: grown with the noise held, which is then released.

    Estimated from the start it would swallow the signal while the model is small; a given one that
    is tiny beside the targets is approached from above. In a large dictionary all that is done
    among a sample of atoms first.
    """
    run.phase = "grow"
    problem = run.problem
    try:
        if not run.large:
            return _raised(run, noise)
        pool = likely(problem.quad, rng)
        with _among(run, pool):
            state = _raised(run, noise)
        return _widened(run, state, pool, noise)
    except Breakdown:  # what has grown is more than float64 can hold at this noise
        return _climbed(run, empty_state(problem, noise.var), noise)


def _raised(run: Run, noise: Noise) -> State:
    held = max(noise.var, SETTINGS.held * run.problem.power)
    state = empty_state(run.problem, held)
    if noise.estimated or held != noise.var:
        state = climb(run, state, Noise(held, False, noise.floor), 6 * run.rough, run.phase)
    return _climbed(run, state, noise)


def likely(quad: Quadratic, rng: np.random.RandomState) -> IndexArray:
    """Atoms of a large dictionary to seek structure in: half correlate best, half are drawn."""
    half = SETTINGS.crowd // 2
    if quad.size <= 2 * half:
        return np.arange(quad.size)
    power = np.einsum("ij,ij->i", quad.g, quad.g).reshape(quad.size, -1).sum(axis=1)
    best = np.argpartition(-power, half)[:half]
    rest = np.setdiff1d(np.flatnonzero(quad.diag), best)
    return np.sort(np.concatenate([best, drawn(quad, half, rng, rest)]))


def _shared(gram: Gram, noise: Noise, largest: bool = False) -> tuple[float, float]:
    """Give all atoms one variance: the best there is under the flat prior, with its noise.

    ``largest`` takes the maximum of the largest variance where there are several: small ones
    explain a trend, large ones what is left of it.
    """
    n_targets = gram.g.shape[1]
    values, vectors = np.linalg.eigh(gram.G)
    values = np.maximum(values, 0.0)
    c2 = np.square(vectors.T @ gram.g).sum(axis=1)
    scaled = 1.0 + _RATIOS[:, None] * values
    explained = _RATIOS * (c2 / scaled).sum(axis=1)
    noise_vars = np.full(_RATIOS.size, noise.var)
    if noise.estimated:
        noise_vars = np.maximum((gram.tt - explained) / (n_targets * gram.n), noise.floor)
    objective = np.array([log_evidence_constant(gram, var) for var in noise_vars])
    objective += 0.5 * (explained / noise_vars - n_targets * np.log(scaled).sum(axis=1))
    best = int(objective.argmax())
    if largest:
        best += int(np.flatnonzero(np.diff(objective[best:], prepend=-np.inf) > 0)[-1])
    return float(_RATIOS[best] * noise_vars[best]), float(noise_vars[best])


# The move


def _landed(
    run: Run,
    atoms: IndexArray,
    v: FloatArray,
    noise: Noise,
    var: float,
    pace: Pace,
    hold: bool = True,
) -> State:
    """Atoms share out what they explain at this noise; what is left climbs to an optimum.

    ``hold`` keeps an estimated noise there until the rest has converged.
    """
    problem = run.problem
    active, v = _shared_out(run, atoms, v, var, pace)
    state = refresh(problem.quad, problem.hyperprior, active, v, var)
    if noise.estimated and hold:
        state = climb(run, state, Noise(var, False, noise.floor), 5 * run.rough, run.phase)
    return _climbed(run, state, noise)


def _climbed(run: Run, state: State, noise: Noise) -> State:
    return climb(run, state, noise, run.rough, run.phase)


def _shared_out(
    run: Run, active: IndexArray, v: FloatArray, noise_var: float, pace: Pace
) -> tuple[IndexArray, FloatArray]:
    """Let atoms share out what they explain; those left with nothing go.

    Fierce steps are those of EM; mild ones MacKay's, which lead to the same fixed points faster.
    """
    problem = run.problem
    gram = problem.quad.gram(active)
    run.iterations += pace.steps
    if pace.mild:  # a copy of an atom would only share its weight with it
        first = np.flatnonzero(~np.triu(np.abs(gram.G) > _COPY, 1).any(axis=0))
        if first.size < active.size:
            gram, v, active = gram.gram(first), v[first], active[first]
    for _ in range(pace.steps if active.size else 0):
        d, power = _spread(gram, v, noise_var)
        power /= problem.n_targets
        if pace.mild:  # Tipping 2001, eq. 16: mu^2 / (1 - Sigma_jj / v_j)
            v = v * np.minimum(power / np.maximum(1.0 - d, _TINY), _FASTEST)
        else:  # Tipping 2001, EM update: mu^2 + Sigma_jj
            v = v * (power + d)
        keep = np.flatnonzero(v > pace.gone * noise_var)
        if keep.size < v.size:
            gram, v, active = gram.gram(keep), v[keep], active[keep]
    return active, v


def _spread(gram: Gram, v: FloatArray, noise_var: float) -> tuple[FloatArray, FloatArray]:
    """Diagonal of W and squares of z, summed over targets: all that these steps need."""
    L, root, _ = factorize(gram, v, noise_var)
    inverse = inverse_triangle(L)
    z = inverse.T @ (inverse @ (gram.g * (root / np.sqrt(noise_var))[:, None]))
    return np.einsum("ij,ij->j", inverse, inverse), (z * z).sum(axis=1)


def _competed(run: Run, state: State, noise: Noise, how: Competition) -> State:
    """The active atoms and the best replacements of each compete."""
    run.phase = "move"
    partners = min(how.partners, _CROWDED // max(state.active.size, 1) - 1)
    if partners < 1:
        return state
    if state.active.size:
        score = run.swap_table(state).score
        extra = _replacements(score, partners)
        v_extra = state.v[np.argmax(score[:, extra], axis=0)]
    else:  # several atoms may help where none does alone
        extra = _promising(run.problem.quad, run.screen(state))
        v_extra = np.full(extra.size, state.noise_var)
    var = max(state.noise_var * how.cut, noise.floor) if noise.estimated else state.noise_var
    atoms, v = np.append(state.active, extra), np.append(state.v, v_extra) * how.raised
    mild = how.raised == 1
    pace = SETTINGS.mild if mild else SETTINGS.fierce
    return _landed(run, atoms, v, noise, var, pace, hold=not mild)


def _replacements(score: FloatArray, count: int) -> IndexArray:
    """For each active atom the ``count`` that would best stand in its place; in order."""
    count = min(count, score.shape[1])
    best = np.argpartition(-score, count - 1, axis=1)[:, :count].ravel()
    rows = np.repeat(np.arange(len(score)), count)
    return np.unique(best[score[rows, best] > 0])


def _promising(quad: Quadratic, statistics: Screen) -> IndexArray:
    q2 = np.einsum("ij,ij->i", statistics.Q, statistics.Q)
    count = min(_PROMISING, quad.size)
    best = np.argpartition(-q2, count - 1)[:count]
    return np.asarray(best[q2[best] > 0])


def _settled(run: Run, state: State, noise: Noise) -> State:
    """Compete mildly among the neighbors of the model alone."""
    pool = np.union1d(_replacements(run.swap_table(state).score, SETTINGS.near), state.active)

    def search(near: State) -> State:
        return _competed(run, near, noise, SETTINGS.schedule[0])

    return _climbed(run, _within(run, state, pool, search), noise)


# Parts of a dictionary


@contextmanager
def _among(
    run: Run, pool: IndexArray, hyperprior: Flat | None = None, noise_var: float | None = None
) -> Iterator[None]:
    """Work among some atoms, whose Gram matrix is small; under another prior if one is given."""
    whole = run.problem
    quad = whole.quad if pool.size == whole.quad.size else whole.quad.gram(pool)
    run.problem = replace(whole, quad=quad)
    if hyperprior is not None:
        run.problem = replace(run.problem, hyperprior=hyperprior, noise_var=noise_var)
    try:
        yield
    finally:
        run.problem = whole


def _within(run: Run, state: State, pool: IndexArray, search: Callable[[State], State]) -> State:
    """Go from a state to another one among some atoms alone, which hold those of the state."""
    with _among(run, pool):
        near = search(replace(state, active=np.searchsorted(pool, state.active)))
    return replace(near, active=pool[near.active])


def _widened(run: Run, state: State, pool: IndexArray, noise: Noise) -> State:
    """Converge in the whole dictionary what was found among some atoms."""
    return _climbed(run, replace(state, active=pool[state.active]), noise)


# Restarts and the finish


def _restarted(
    run: Run, best: State, noise: Noise, n_restarts: int, rng: np.random.RandomState
) -> State:
    """Random competitions from the best so far, and searches from other draws, in turn."""
    if n_restarts:
        best = climb(run, best, noise, _FINE, "restart")
    for turn in range(n_restarts):
        if _is_short(run):
            break
        with suppress(Breakdown):  # that of a trial costs nothing else
            if turn % 2:
                held = noise.var * (4.0 ** rng.uniform(-1, 1) if noise.estimated else 1.0)
                trial = _searched(run, noise._replace(var=max(held, noise.floor)), rng)
            else:
                raised, cut = 10.0 ** rng.uniform(0, 5), 2.0 ** -float(rng.randint(0, 3))
                how = Competition(raised, cut, int(rng.randint(2, 7)))
                trial = improved(run, _competed(run, best, noise, how), noise)
            trial = climb(run, trial, noise, _FINE, "restart")
            best = trial if is_better(run.problem, trial, best) else best
    return best


def finish(run: Run, state: State, noise: Noise, tol: float) -> Solution:
    """Converge tightly, from definitions, until the certificate holds."""
    problem = run.problem
    previous = -np.inf
    while True:
        if problem.quad.size > 4 * SETTINGS.crowd:
            state = _nearby(run, state, noise, tol)
        state = climb(run, state, noise, tol, "finish", stride)
        state = run.newton(state.active, state.v, resume_noise(noise, state), 1e-11, escape=True)
        state = refresh(problem.quad, problem.hyperprior, state.active, state.v, state.noise_var)
        certificate, _ = certify(problem, state, noise)
        run.note("certify", state, certificate.max_gain)
        if replace(certificate, rounding=0.0).holds(tol):
            return solution(run, state, noise, Status.CONVERGED, certificate)
        if run.exhausted:
            ended = Status.CONVERGED if certificate.holds(tol) else Status.MAX_ITER
            return solution(run, state, noise, ended, certificate)
        if certificate.max_gain > tol and not run.sharp:  # what no screen of squares has seen
            run.sharp, run._screened, previous = True, None, -np.inf
            continue
        if state.objective <= previous + 1e-12 * abs(state.objective):
            finer = polished(problem, state, noise, tol**0.5)
            better, _ = certify(problem, finer, noise)
            if better.holds(tol):
                return solution(run, finer, noise, Status.CONVERGED, better)
            ended = Status.CONVERGED if certificate.holds(tol) else Status.STALLED
            return solution(run, state, noise, ended, certificate)
        previous = state.objective


def _nearby(run: Run, state: State, noise: Noise, tol: float) -> State:
    """Converge among the atoms that are closest to entering, whose Gram matrix is small.

    Late additions come one or two at a time, and the column of G that each needs in the whole
    dictionary costs as much as the Gram matrix of a few hundred atoms.
    """
    for _ in range(3):
        statistics = run.screen(state)
        gains = statistics.gains.copy()
        gains[state.active] = 0.0
        if run.exhausted or gains.max(initial=0.0) <= tol:
            break
        resolved = statistics.S * state.noise_var > statistics.least * run.problem.quad.diag
        ratio = np.einsum("ij,ij->i", statistics.Q, statistics.Q)
        ratio /= np.where(resolved, statistics.S, np.inf)
        ratio[state.active] = np.inf
        size = min(SETTINGS.pool + state.active.size, ratio.size)
        pool = np.sort(np.argpartition(-ratio, size - 1)[:size])
        state = _within(
            run, state, pool, lambda near: climb(run, near, noise, tol, "finish", stride)
        )
    return state


def solution(
    run: Run, state: State, noise: Noise, ended: Status, certificate: Certificate
) -> Solution:
    """What a run returns that has ended at a state."""
    return Solution(
        state,
        noise._replace(var=state.noise_var),
        run.problem.verdict(state, noise, ended),
        certificate,
        ended is Status.CONVERGED,
        run.iterations,
        tuple(run.trace),
    )
