"""Exchange: leave an optimum that greedy growth ended in for a better one.

All swaps of an active atom for another are scored exactly in one table. Where most active atoms
have a neighbor that would do almost as well they slide there; where they have none, the atoms that
would best replace them are brought in, all variances are raised, all compete under EM steps, and
the result is kept if it is better.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dtrtri

from sparsebayes.engine import (
    COLLINEAR,
    Breakdown,
    Screen,
    State,
    factorize,
    inverse_factor,
    refresh,
    screen,
    without_self,
)
from sparsebayes.hyperpriors import gain
from sparsebayes.problem import Problem, empty_state
from sparsebayes.quadratic import Gram, Quadratic
from sparsebayes.solvers.climb import Run, climb, resume_noise
from sparsebayes.solvers.newton import Noise, uncoupled

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = [
    "Exchange",
    "best_swaps",
    "exchange",
    "exchange_rounds",
    "is_better",
    "rearrange",
    "swap_table",
    "swapped",
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
_MILD = 10.0  # raise of variances where the landscape is smooth
_NEIGHBORS = 2  # replacements tried there for each active atom
_SETTLINGS = 2  # mild competitions where restarts say that time is no matter; else one
_CROWD = 800  # atoms that may compete in one exchange
_EM_STEPS = 15  # steps of their competition
_EM_STEP = 2e4, 0.06  # work of each: at least, and for each m^3
_ROUNDS = 12  # most rounds of sliding or competing


class Exchange(NamedTuple):
    """How an exchange is done."""

    raised: float  # factor on all variances
    cut: float  # factor on an estimated noise
    partners: int  # atoms brought in for each active one
    rough: float  # nats to converge to
    hold: bool = True  # whether an estimated noise waits until the rest has converged
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
    if state.active.size >= _MANY:
        swaps = best_swaps(run.problem, state, run.screen(state))
        if float(np.median(swaps.loss)) < _SMOOTH:
            state = settle(run, state, noise, rough)
            if state.active.size:
                swaps = best_swaps(run.problem, state, run.screen(state))
                state = slide(run, state, noise, rough, swaps, worthwhile)
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


class Swaps(NamedTuple):
    """For each active atom, the exact effect of its best replacement, other variances held."""

    loss: FloatArray  # (m,) nats lost by the swap; negative is a gain
    partner: IndexArray  # (m,) the atom that would replace it
    v: FloatArray  # (m,) its variance


def best_swaps(problem: Problem, state: State, statistics: Screen | None = None) -> Swaps:
    """Score every swap of an active atom for another, and keep the best for each."""
    if statistics is None:
        statistics = screen(problem.quad, problem.hyperprior, state)
    S, Q2, usable = swap_table(problem, state, statistics)
    # The best partner has the largest q^2 / s; its own variance and gain are found only then.
    partner = np.argmax(np.where(usable, Q2 / np.where(usable, S, 1.0), 0.0), axis=1)
    rows = np.arange(partner.size)
    s, q2 = np.where(usable, S, 1.0)[rows, partner], np.where(usable, Q2, 0.0)[rows, partner]
    hyperprior, noise_var, n_targets = problem.hyperprior, state.noise_var, problem.n_targets
    v = hyperprior.best_variance(s, q2, noise_var, n_targets)
    own_s, own_q2 = without_self(state.v, state.white)
    worth = gain(hyperprior, own_s, own_q2, state.v, noise_var, n_targets)
    return Swaps(worth - gain(hyperprior, s, q2, v, noise_var, n_targets), partner, v)


def swapped(
    state: State, swaps: Swaps, margin: float, coupling: float
) -> tuple[IndexArray, FloatArray, int]:
    """Atoms and variances after the swaps that gain more than ``margin``, and how many there are.

    Of atoms coupled more than ``coupling`` by the posterior, or with the same partner, one moves.
    """
    gaining = np.where((swaps.loss < -margin) & (swaps.v > 0), swaps.loss, np.inf)
    movers = uncoupled(state.white.W, gaining, coupling)
    _, first = np.unique(swaps.partner[movers], return_index=True)
    chosen = np.array(movers, dtype=np.intp)[first]
    active, v = state.active.copy(), state.v.copy()
    active[chosen], v[chosen] = swaps.partner[chosen], swaps.v[chosen]
    return active, v, chosen.size


def slide(
    run: Run, state: State, noise: Noise, rough: float, swaps: Swaps, worthwhile: float
) -> State:
    """Swap atoms for better neighbors, many at a time, until it gains little."""
    for _ in range(_ROUNDS):
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
        swaps = best_swaps(run.problem, state, run.screen(state))
    return state


def settle(run: Run, state: State, noise: Noise, rough: float) -> State:
    """Compete mildly with the nearest neighbors: what sliding one by one would not find."""
    for _ in range(_SETTLINGS if run.patient else 1):
        if run.exhausted or not state.active.size:
            break
        how = Exchange(_MILD, 1.0, _NEIGHBORS, rough, hold=False, phase="settle")
        trial = exchange(run, state, noise, how)
        if trial is not None and is_better(run.problem, trial, state):
            state = trial
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
    extra, v_extra = replacements(problem, state, partners, run.screen(state))
    active = np.concatenate([state.active, extra])
    v = np.concatenate([state.v, v_extra]) * how.raised
    noise_var = max(state.noise_var * how.cut, noise.floor) if noise.estimated else state.noise_var
    active, v = rearrange(run, active, v, noise_var)
    trial = refresh(problem.quad, problem.hyperprior, active, v, noise_var)
    if noise.estimated and how.hold:
        held = Noise(noise_var, False, noise.floor)
        trial = climb(run, trial, held, rough, how.phase)
    return climb(run, trial, noise, rough, how.phase)


def rearrange(
    run: Run, active: IndexArray, v: FloatArray, noise_var: float
) -> tuple[IndexArray, FloatArray]:
    """Let atoms share out what they explain in EM steps; those left with nothing go."""
    problem = run.problem
    gram = problem.quad.gram(active)
    run.iterations += _EM_STEPS
    run.count(_EM_STEP, active.size**3, _EM_STEPS)
    for _ in range(_EM_STEPS if active.size else 0):
        d, power = _spread(gram, v, noise_var)
        v = v * (power / problem.n_targets + d)  # Tipping 2001, EM update: mu^2 + Sigma_jj
        keep = np.flatnonzero(v > 1e-6 * noise_var)
        if keep.size < v.size:
            gram, v, active = gram.gram(keep), v[keep], active[keep]
    return active, v


def _spread(gram: Gram, v: FloatArray, noise_var: float) -> tuple[FloatArray, FloatArray]:
    """Diagonal of W and squares of z, summed over targets: all that EM needs of a posterior."""
    L, root, _ = factorize(gram, v, noise_var)
    inverse, _ = dtrtri(L, lower=1, overwrite_c=1)
    z = inverse.T @ (inverse @ (gram.g * (root / np.sqrt(noise_var))[:, None]))
    return np.einsum("ij,ij->j", inverse, inverse), (z * z).sum(axis=1)


def swap_table(
    problem: Problem, state: State, statistics: Screen
) -> tuple[FloatArray, FloatArray, NDArray[np.bool_]]:
    """S, squared Q and usability of every atom in the place of each active one: m x M tables.

    With V = H_.a Sigma, deleting j gives atom m the statistics S_m + V_mj^2 / Sigma_jj and
    Q_m + mu_j V_mj / Sigma_jj (T&F eqs. 40, 41): all swaps j -> m are scored exactly.
    """
    quad, noise_var, white = problem.quad, state.noise_var, state.white
    d = white.W.diagonal()
    Y = inverse_factor(white).T @ statistics.X  # (m, M): V = Y' sqrt(v / noise)
    lever = Y / (np.sqrt(noise_var) * d)[:, None]
    Q2 = np.einsum("ij,ij->i", statistics.Q, statistics.Q) + lever * (
        2.0 * (white.z @ statistics.Q.T) + lever * np.einsum("ij,ij->i", white.z, white.z)[:, None]
    )
    Y *= Y
    Y /= (noise_var * d)[:, None]
    S = statistics.S + Y
    usable = S * noise_var > COLLINEAR * quad.diag
    usable[:, state.active] = False
    return S, Q2, usable


def replacements(
    problem: Problem, state: State, partners: int, statistics: Screen
) -> tuple[IndexArray, FloatArray]:
    """For each active atom, the atoms that would serve best in its place, and variances."""
    quad = problem.quad
    if not state.active.size:  # several atoms may help where none does alone
        return _promising(quad, statistics, state.noise_var)
    S, Q2, usable = swap_table(problem, state, statistics)
    score = np.where(usable, Q2 / np.where(usable, S, 1.0), -1.0)
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
