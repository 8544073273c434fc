"""Neighborhood: search among the atoms around a model, whose Gram matrix is small.

A screen of a large dictionary needs a whole column of G for each active atom, and every exchange
brings in new ones. The atoms that come into question at all are few: those that would best replace
an active one, and those closest to entering. Among them a search costs next to nothing.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sparsebayes.engine import State
from sparsebayes.solvers.climb import Run

IndexArray = NDArray[np.intp]
FloatArray = NDArray[np.float64]

__all__ = ["entering", "replacing", "within"]


def within(run: Run, state: State, pool: IndexArray, search: Callable[[State], State]) -> State:
    """Search among the atoms of ``pool`` alone.

    Parameters
    ----------
    run : Run
        The account.
    state : State
        Where to start; its atoms are in the pool.
    pool : ndarray of shape (k,)
        Atoms, in order.
    search : callable
        From a state of the pool to a better one.

    Returns
    -------
    State
        What was found, as a state of the whole dictionary.
    """
    whole = run.problem
    run.problem = replace(whole, quad=whole.quad.gram(pool))
    try:
        near = search(replace(state, active=np.searchsorted(pool, state.active)))
    finally:
        run.problem = whole
    return replace(near, active=pool[near.active])


def entering(run: Run, state: State, count: int) -> IndexArray:
    """Atoms closest to entering, ``count`` of them, and those of the model; in order."""
    statistics = run.screen(state)
    resolved = statistics.S * state.noise_var > statistics.least * run.problem.quad.diag
    ratio = np.einsum("ij,ij->i", statistics.Q, statistics.Q)
    ratio /= np.where(resolved, statistics.S, np.inf)
    ratio[state.active] = np.inf
    size = min(count + state.active.size, ratio.size)
    return np.sort(np.argpartition(-ratio, size - 1)[:size])


def replacing(state: State, score: FloatArray, count: int) -> IndexArray:
    """For each active atom the ``count`` that would best replace it, and the atoms themselves.

    Parameters
    ----------
    state : State
        The model.
    score : ndarray of shape (m, M)
        How well each atom would serve in the place of each active one.
    count : int
        How many to take for each.

    Returns
    -------
    ndarray of shape (k,)
        Atoms, in order.
    """
    count = min(count, score.shape[1])
    best = np.argpartition(-score, count - 1, axis=1)[:, :count]
    return np.union1d(best, state.active)
