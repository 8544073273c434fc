"""Exchange: leave an optimum that greedy growth ended in for a better one.

All swaps of an active atom for another are scored exactly in one table. Where most active atoms
have a neighbor that would do almost as well they settle, in a mild competition with some of them,
and slide; where they have none, the atoms that would best replace them are brought in, all
variances are raised, all compete under EM steps, and the result is kept if it is better.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsebayes.core.quadratic import Gram, Quadratic
from sparsebayes.engine import Breakdown, Screen, State, factorize, inverse_triangle, refresh
from sparsebayes.problem import Problem, empty_state
from sparsebayes.solvers.climb import Run, climb, resume_noise
from sparsebayes.solvers.neighborhood import replacing, within
from sparsebayes.solvers.newton import Noise
from sparsebayes.solvers.swaps import best_swaps, swapped

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = [
    "LARGE",
    "Exchange",
    "exchange",
    "exchange_rounds",
    "is_better",
    "is_smooth",
    "rearrange",
    "settle",
]

_PROMISING = 64  # atoms that are tried together where none helps alone
_MARGIN = 0.02  # nats by which an exchange must be better to be kept
_WORTHWHILE = 0.2  # nats that an exchange must gain for another round of them
_RELATIVE = 2e-3  # the same for a large dictionary, relative to what the model explains
_SMOOTH = 1.0  # median loss of the best swaps, in nats, below which atoms slide
_MANY = 12  # with fewer active atoms competition is cheap, and always held
_COUPLING = 0.05  # squared posterior correlation up to which atoms may be swapped together
# raise of variances, cut of an estimated noise, whether it waits until the rest has converged
_EXCHANGES = ((10.0, 0.5, True), (1e5, 1.0, True), (100.0, 1.0, False))
_PARTNERS = 4  # replacements tried for each active atom
_SETTLINGS = 2  # mild competitions where the landscape is smooth,
_PROMISE = 0.5  # as long as each gains so many nats,
_RIVALS = 5  # and replacements tried in them for each active atom
_RAISED = 10.0  # factor on all variances in one more where restarts say that time is no matter,
_NEIGHBORS = 2  # and replacements tried in it for each active atom
LARGE = 1536  # atoms beyond which they are held among the neighbors of the model alone,
_POOLS = 4  # up to so many times, each among those of what was found,
_KEEN = 5.0  # as long as each gains so many nats,
_NEAREST = 8  # which are so many for each active atom
_COPY = 1.0 - 1e-12  # inner product with an atom from which another one is taken for a copy
_CROWD = 800  # atoms that may compete in one exchange
_FASTEST = 10.0  # factor on a variance in a step of a mild one
_TINY = 1e-12  # the least that an atom may take of its own prior
_EM_STEP = 2e4, 0.06  # work of each: at least, and for each m^3
_ROUNDS = 12  # most rounds of sliding or competing


class Pace(NamedTuple):
    """How fast atoms compete."""

    steps: int
    power: float  # of the factor by which a step would change a variance
    gone: float  # variance, relative to the noise, of an atom left with nothing


_FIERCE, _MILD = Pace(15, 1.0, 1e-6), Pace(8, 1.0, 0.1)
_BRISK = Pace(8, 1.5, 1.0)  # a mild one in a large dictionary: a sixth less time, optima as good


class Exchange(NamedTuple):
    """How an exchange is done."""

    raised: float  # factor on all variances
    cut: float  # factor on an estimated noise
    partners: int  # atoms brought in for each active one
    rough: float  # nats to converge to
    hold: bool = True  # whether an estimated noise waits until the rest has converged
    mild: bool = False  # whether atoms compete in few quick steps
    phase: str = "exchange"


def exchange_rounds(run: Run, state: State, noise: Noise, rough: float) -> State:
    """Exchange atoms for others that serve better, as long as it is worth the time.

    Where most active atoms have a neighbor that would do almost as well, the landscape is smooth:
    a mild competition with the nearest of them settles most, and swaps slide the rest to better
    places. Where they have none it is rugged, and only many atoms in fierce competition find a
    better optimum. A small model can afford that anyway.
    """
    worthwhile, patience = _WORTHWHILE, len(_EXCHANGES)
    if run.large:
        explained = state.objective - empty_state(run.problem, run.problem.power).objective
        worthwhile, patience = max(_WORTHWHILE, _RELATIVE * explained), 1
    if is_smooth(run, state):
        state = settle(run, state, noise, rough)
        if state.active.size:
            state = slide(run, state, noise, rough, worthwhile)
        return state
    failed = 0
    for turn in range(_ROUNDS):
        if failed == patience or run.exhausted:
            break
        raised, cut, hold = _EXCHANGES[turn % len(_EXCHANGES)]
        failed += 1
        trial = exchange(run, state, noise, Exchange(raised, cut, _PARTNERS, rough, hold))
        if trial is not None and is_better(run.problem, trial, state):
            if trial.objective > state.objective + worthwhile:
                failed = 0
            state = trial
    return state


def is_smooth(run: Run, state: State) -> bool:
    """Whether most active atoms, of many, have a neighbor that would do almost as well."""
    if state.active.size < _MANY:
        return False
    swaps = best_swaps(run.problem, state, run.swap_table(state))
    return float(np.median(swaps.loss)) < _SMOOTH


def slide(run: Run, state: State, noise: Noise, rough: float, worthwhile: float) -> State:
    """Swap atoms for better neighbors, many at a time, until it gains little."""
    for _ in range(_ROUNDS):
        swaps = best_swaps(run.problem, state, run.swap_table(state))
        active, v, count = swapped(state, swaps, _MARGIN, _COUPLING)
        if count == 0 or run.exhausted:
            break
        try:
            moved = run.newton(active, v, resume_noise(noise, state), tol=rough)
            trial = climb(run, moved, noise, rough, "slide")
        except Breakdown:
            break
        if not is_better(run.problem, trial, state):
            break
        small = trial.objective < state.objective + worthwhile
        state = trial
        if small or not state.active.size:
            break
    return state


def settle(run: Run, state: State, noise: Noise, rough: float) -> State:
    """Compete mildly with the nearest neighbors: what sliding one by one would not find.

    In a large dictionary among the neighbors of the model alone, which are few.
    """
    if run.problem.quad.size <= LARGE:
        return _settled(run, state, noise, rough)

    def search(near: State) -> State:
        return _settled(run, climb(run, near, noise, rough, "near"), noise, rough)

    for _ in range(_POOLS):
        if run.exhausted or not state.active.size:
            return state
        pool = replacing(state, run.swap_table(state).score, _NEAREST)
        before = state.objective
        try:
            state = within(run, state, pool, search)
        except Breakdown:
            break
        if state.objective < before + _KEEN:
            break
    return climb(run, state, noise, rough, "settle")


def _settled(run: Run, state: State, noise: Noise, rough: float) -> State:
    mild = Exchange(1.0, 1.0, _RIVALS, rough, hold=False, mild=True, phase="settle")
    longer = mild._replace(raised=_RAISED, partners=_NEIGHBORS, mild=False)
    for how in [mild] * _SETTLINGS + [longer] * run.patient:
        if run.exhausted or not state.active.size:
            break
        trial = exchange(run, state, noise, how)
        before = state
        if trial is not None and is_better(run.problem, trial, state):
            state = trial
        if state.objective < before.objective + _PROMISE and not run.patient:
            break
    return state


def is_better(problem: Problem, trial: State, state: State) -> bool:
    """Whether ``trial`` is the better optimum: evidence does not order models that collapse."""
    collapsed = problem.is_collapsed(trial), problem.is_collapsed(state)
    if collapsed[0] != collapsed[1]:
        return collapsed[1]
    return trial.objective > state.objective + _MARGIN


def exchange(run: Run, state: State, noise: Noise, how: Exchange) -> State | None:
    """Let every active atom compete with the atoms that would best replace it."""
    try:
        return compete(run, state, noise, how)
    except Breakdown:  # raised variances can leave float64's range: this exchange is not possible
        return None


def compete(run: Run, state: State, noise: Noise, how: Exchange) -> State:
    problem, rough = run.problem, how.rough
    partners = min(how.partners, _CROWD // max(state.active.size, 1) - 1)
    if partners < 1:
        return state
    extra, v_extra = replacements(run, state, partners)
    active = np.concatenate([state.active, extra])
    v = np.concatenate([state.v, v_extra]) * how.raised
    noise_var = max(state.noise_var * how.cut, noise.floor) if noise.estimated else state.noise_var
    active, v = rearrange(run, active, v, noise_var, how.mild)
    trial = refresh(problem.quad, problem.hyperprior, active, v, noise_var)
    if noise.estimated and how.hold:
        held = Noise(noise_var, False, noise.floor)
        trial = climb(run, trial, held, rough, how.phase)
    return climb(run, trial, noise, rough, how.phase)


def rearrange(
    run: Run, active: IndexArray, v: FloatArray, noise_var: float, mild: bool = False
) -> tuple[IndexArray, FloatArray]:
    """Let atoms share out what they explain in EM steps; those left with nothing go.

    MacKay's steps, for a mild competition, lead to the same fixed points faster.
    """
    problem = run.problem
    gram = problem.quad.gram(active)
    pace = (_BRISK if run.large else _MILD) if mild else _FIERCE
    run.iterations += pace.steps
    run.count(_EM_STEP, active.size**3, pace.steps)
    if mild:  # a copy of an atom would only share its weight with it
        first = np.flatnonzero(~np.triu(np.abs(gram.G) > _COPY, 1).any(axis=0))
        if first.size < active.size:
            gram, v, active = gram.gram(first), v[first], active[first]
    for _ in range(pace.steps if active.size else 0):
        d, power = _spread(gram, v, noise_var)
        power /= problem.n_targets
        if mild:  # Tipping 2001, eq. 16: mu^2 / (1 - Sigma_jj / v_j)
            factor = power / np.maximum(1.0 - d, _TINY)
            v = v * np.minimum(factor**pace.power, _FASTEST)
        else:  # Tipping 2001, EM update: mu^2 + Sigma_jj
            v = v * (power + d)
        keep = np.flatnonzero(v > pace.gone * noise_var)
        if keep.size < v.size:
            gram, v, active = gram.gram(keep), v[keep], active[keep]
    return active, v


def _spread(gram: Gram, v: FloatArray, noise_var: float) -> tuple[FloatArray, FloatArray]:
    """Diagonal of W and squares of z, summed over targets: all that EM needs of a posterior."""
    L, root, _ = factorize(gram, v, noise_var)
    inverse = inverse_triangle(L)
    z = inverse.T @ (inverse @ (gram.g * (root / np.sqrt(noise_var))[:, None]))
    return np.einsum("ij,ij->j", inverse, inverse), (z * z).sum(axis=1)


def replacements(run: Run, state: State, partners: int) -> tuple[IndexArray, FloatArray]:
    """For each active atom, the atoms that would serve best in its place, and variances."""
    quad = run.problem.quad
    if not state.active.size:  # several atoms may help where none does alone
        return _promising(quad, run.screen(state), state.noise_var)
    score = run.swap_table(state).score
    count = min(partners, quad.size)
    best = np.argpartition(-score, count - 1, axis=1)[:, :count]
    rows = np.repeat(np.arange(len(score)), count)
    chosen = best.ravel()
    extra = np.unique(chosen[score[rows, chosen] > 0])
    partner = np.argmax(score[:, extra], axis=0)
    return extra, state.v[partner]


def _promising(
    quad: Quadratic, statistics: Screen, noise_var: float
) -> tuple[IndexArray, FloatArray]:
    q2 = np.einsum("ij,ij->i", statistics.Q, statistics.Q)
    count = min(_PROMISING, quad.size)
    best = np.argpartition(-q2, count - 1)[:count]
    best = best[q2[best] > 0]
    return best, np.full(best.size, noise_var)
