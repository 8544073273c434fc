"""Pairs: swap two active atoms for two others at once, on one expansion of the likelihood.

Classes are told apart by atoms that pull against each other. One of such two cannot move without
the other, so that no single swap gains. All swaps of two among some atoms are scored exactly.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsebayes.core.tolerances import COLLINEAR
from sparsebayes.engine import Breakdown, State, inverse_factor, refresh, without_self
from sparsebayes.solvers.climb import Run
from sparsebayes.solvers.draws import drawn
from sparsebayes.solvers.newton import Noise

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = ["slide_pairs"]

_POOL = 128
_BEARABLE = 8.0  # nats that one may lose as the only one that is swapped
_MOST = 16  # active atoms up to which there are not too many pairs
_POOLS = 12  # drawn on one expansion,
_FAILURES = 1  # and those in a row in which nothing was found
_ROUNDS = 20  # swaps in one pool
_LEAST = 0.02  # nats that a swap must gain


class _Pair(NamedTuple):
    """Two positions among active atoms, who takes them, and what that gains."""

    gain: float
    places: list[int]
    atoms: list[int]


def slide_pairs(
    run: Run, state: State, noise: Noise, rough: float, rng: np.random.RandomState
) -> State:
    """Swap pairs of atoms for others of a pool, as long as that gains; fewer may be left."""
    failures = 0
    for _ in range(_POOLS):
        if not 2 <= state.active.size <= _MOST or failures == _FAILURES or run.exhausted:
            break
        try:
            trial = _slid(run, state, noise, rough, rng)
        except Breakdown:
            break
        failures = 0 if trial.objective > state.objective + _LEAST else failures + 1
        state = state if failures else trial
    return state


def _slid(run: Run, state: State, noise: Noise, rough: float, rng: np.random.RandomState) -> State:
    """Slide in one pool."""
    problem = run.problem
    others = np.flatnonzero(_bearable(run, state).any(axis=0))
    if others.size > _POOL:
        others = drawn(problem.quad, _POOL, rng, others)
    atoms = np.concatenate([state.active, others])
    pool = Run(replace(problem, quad=problem.quad.gram(atoms)), run.max_iter, None, large=False)
    pool.iterations = run.iterations
    first = np.arange(state.active.size)
    here = refresh(pool.problem.quad, problem.hyperprior, first, state.v, state.noise_var)
    here = _slide(pool, here, noise, rough)
    run.iterations = pool.iterations
    return replace(here, active=atoms[here.active])


def _slide(pool: Run, state: State, noise: Noise, rough: float) -> State:
    for _ in range(_ROUNDS):
        if state.active.size < 2 or pool.exhausted:
            break
        pair = _best_pair(pool, state)
        if pair.gain < _LEAST:
            break
        active = state.active.copy()
        active[pair.places] = pair.atoms
        trial = pool.newton(active, state.v, noise, tol=rough)
        if trial.objective < state.objective + _LEAST:
            break
        state = trial
    return state


def _bearable(run: Run, state: State) -> NDArray[np.bool_]:
    """Who loses little in the place of each active atom, (m, M), by what q^2 / s is worth."""
    score = run.swap_table(state).score
    s, q2 = without_self(state.v, state.white)
    return (_worth(q2 / s)[:, None] - _worth(score) < _BEARABLE) & (score >= 0)


def _worth(ratio: FloatArray) -> FloatArray:
    """What an atom gains at its best variance under a flat prior, of q^2 / s."""
    ratio = np.maximum(ratio, 1.0)
    return 0.5 * (ratio - 1.0 - np.log(ratio))


def _best_pair(pool: Run, state: State) -> _Pair:
    """The swap of two atoms that gains most, all variances held; one of them may stay."""
    statistics, white, active, v = pool.screen(state), state.white, state.active, state.v
    X, r = statistics.X, statistics.Q[:, 0]
    R = pool.problem.quad.columns(np.arange(len(r))) - X.T @ X
    Y = inverse_factor(white).T @ X
    places = _bearable(pool, state)
    places[np.arange(active.size), active] = True
    who = [np.flatnonzero(place) for place in places]
    # without both: R + V_J Sigma_JJ^-1 V_J', see `swap_table`; J are the pairs, all at once
    i, j = np.triu_indices(active.size, 1)
    own_i, own_j, own_ij = white.W[i, i], white.W[j, j], white.W[i, j]
    det = own_i * own_j - own_ij**2
    distinct = det > COLLINEAR * own_i * own_j  # else what either explains is lost in rounding
    det = np.where(distinct, det, 1.0)[:, None]
    share_i = (own_j[:, None] * Y[i] - own_ij[:, None] * Y[j]) / det  # (pairs, M)
    share_j = (own_i[:, None] * Y[j] - own_ij[:, None] * Y[i]) / det
    left = r + white.z[i] * share_i + white.z[j] * share_j
    S = np.maximum(R.diagonal() + Y[i] * share_i + Y[j] * share_j, 0.0)
    p, q = 1.0 + v[i, None] * S, 1.0 + v[j, None] * S  # of either, as the first and as the second
    one = _Ones(p, np.sqrt(v[i, None] / p), left)
    two = _Ones(q, np.sqrt(v[j, None] / q), left)
    best = _Pair(0.0, [], [])
    for k in np.flatnonzero(distinct).tolist():
        a, b = int(i[k]), int(j[k])
        first, second = who[a], who[b]
        common = R.take(first, axis=0).take(second, axis=1)
        common += np.outer(Y[a, first], share_i[k, second])
        common += np.outer(Y[b, first], share_j[k, second])
        gains = _gains(one.of(k, first), two.of(k, second), common)
        gains[first[:, None] == second] = -np.inf
        own = gains[np.searchsorted(first, active[a]), np.searchsorted(second, active[b])]
        if not np.isfinite(own):
            continue
        row, column = divmod(int(gains.argmax()), second.size)
        gain = float(gains[row, column] - own)
        if gain > best.gain:
            best = _Pair(gain, [a, b], [int(first[row]), int(second[column])])
    return best


class _Ones(NamedTuple):
    """One of a pair: for atoms that may be it, 1 + v S, sqrt(v) over the root of that, and Q."""

    p: FloatArray
    scale: FloatArray
    Q: FloatArray

    def of(self, pair: int, atoms: IndexArray) -> "_Ones":
        """Some atoms in one pair."""
        return _Ones(self.p[pair, atoms], self.scale[pair, atoms], self.Q[pair, atoms])


def _gains(one: _Ones, two: _Ones, R: FloatArray) -> FloatArray:
    """What two atoms gain together, with these variances; R is what they have in common.

    Scaled to a unit diagonal the matrix of both is ((1, c), (c, 1)).
    """
    c = R * (one.scale[:, None] * two.scale)
    y, z = one.scale * one.Q, two.scale * two.Q
    det = 1.0 - c * c
    collinear = det <= COLLINEAR
    det[collinear] = 1.0
    c *= (2.0 * y)[:, None] * z
    explained = np.add.outer(y * y, z * z) - c
    explained /= det
    explained -= np.log(det)
    explained -= np.add.outer(np.log(one.p), np.log(two.p))
    explained *= 0.5
    explained[collinear] = -np.inf
    return explained
