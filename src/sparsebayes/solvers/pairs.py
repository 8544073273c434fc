"""Pairs: swap two active atoms for two others at once, on one expansion of the likelihood.

Classes are told apart by atoms that pull against each other. One of such two cannot move without
the other, so that no single swap gains. All swaps of two among some atoms are scored exactly.
"""

from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsebayes.engine import COLLINEAR, Breakdown, State, inverse_factor, refresh, without_self
from sparsebayes.solvers.climb import Run
from sparsebayes.solvers.exchange import swap_table
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
    """Swap pairs of atoms for others of a pool, as long as that gains.

    Parameters
    ----------
    run : Run
        The account, and the expansion that is held.
    state : State
        Where to start.
    noise : Noise
        The noise, which is not estimated.
    rough : float
        Nats to converge to.
    rng : RandomState
        Draws the pool.

    Returns
    -------
    State
        As many atoms or fewer, and an objective that is not lower.
    """
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
        others = rng.choice(others, _POOL, replace=False)
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
    S, Q2, usable = swap_table(run.problem, state, run.screen(state))
    s, q2 = without_self(state.v, state.white)
    worth = _worth(np.where(usable, Q2 / np.where(usable, S, 1.0), 0.0))
    return (_worth(q2 / s)[:, None] - worth < _BEARABLE) & usable


def _worth(ratio: FloatArray) -> FloatArray:
    """What an atom gains at its best variance under a flat prior, of q^2 / s."""
    ratio = np.maximum(ratio, 1.0)
    return 0.5 * (ratio - 1.0 - np.log(ratio))


def _best_pair(pool: Run, state: State) -> _Pair:
    """The swap of two atoms that gains most, all variances held; one of them may stay."""
    statistics, white, active = pool.screen(state), state.white, state.active
    X, r = statistics.X, statistics.Q[:, 0]
    R = pool.problem.quad.columns(np.arange(len(r))) - X.T @ X
    Y = inverse_factor(white).T @ X
    places = _bearable(pool, state)
    places[np.arange(active.size), active] = True
    who = [np.flatnonzero(place) for place in places]
    best = _Pair(0.0, [], [])
    for i, j in combinations(range(active.size), 2):
        # without both: R + V_J Sigma_JJ^-1 V_J', see `swap_table`
        pair, p, q = [i, j], who[i], who[j]
        own_W = white.W[np.ix_(pair, pair)]
        if 1.0 - own_W[0, 1] ** 2 / (own_W[0, 0] * own_W[1, 1]) <= COLLINEAR:
            continue  # what either explains alone is lost in rounding
        share = np.linalg.solve(own_W, Y[pair])
        left = r + white.z[pair, 0] @ share
        S = R.diagonal() + np.einsum("ij,ij->j", Y[pair], share)
        shared = R[p[:, None], q] + Y[pair][:, p].T @ share[:, q]
        one, two = _One(state.v[i], S[p], left[p]), _One(state.v[j], S[q], left[q])
        gains = np.where(p[:, None] == q, -np.inf, _gains(one, two, shared))
        own = gains[np.searchsorted(p, active[i]), np.searchsorted(q, active[j])]
        row, column = divmod(int(gains.argmax()), q.size)
        gain = float(gains[row, column] - own)
        if gain > best.gain:
            best = _Pair(gain, pair, [int(p[row]), int(q[column])])
    return best


class _One(NamedTuple):
    """One of a pair: its variance, and statistics of the atoms that may be it."""

    v: float
    S: FloatArray
    Q: FloatArray


def _gains(one: _One, two: _One, R: FloatArray) -> FloatArray:
    """What two atoms gain together, with these variances; R is what they have in common."""
    p, q = 1.0 + one.v * one.S[:, None], 1.0 + two.v * two.S
    both = one.v * two.v
    det = p * q - both * R * R
    possible = det > COLLINEAR * p * q
    det = np.where(possible, det, 1.0)
    Q = one.Q[:, None]
    explained = (one.v * Q * Q) * q + p * (two.v * two.Q**2) - (2.0 * both) * R * (Q * two.Q)
    return np.where(possible, 0.5 * (explained / det - np.log(det)), -np.inf)
