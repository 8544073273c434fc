"""Swaps: what each atom would be worth in the place of every active one, in one table."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsebayes.engine import Screen, State, inverse_factor, without_self
from sparsebayes.hyperpriors import gain
from sparsebayes.problem import Problem

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = ["SwapTable", "Swaps", "best_swaps", "swap_table"]


class SwapTable(NamedTuple):
    """Every atom in the place of each active one, the others held."""

    S: FloatArray  # (m, M) its sparsity there
    score: (
        FloatArray  # (m, M) q^2 / s there, by which gains are ordered; -1 if it cannot stand there
    )


class Swaps(NamedTuple):
    """For each active atom, the exact effect of its best replacement, other variances held."""

    loss: FloatArray  # (m,) nats lost by the swap; negative is a gain
    partner: IndexArray  # (m,) the atom that would replace it
    v: FloatArray  # (m,) its variance


def swap_table(problem: Problem, state: State, statistics: Screen) -> SwapTable:
    """Score every swap of an active atom for another.

    With V = H_.a Sigma, deleting j gives atom m the statistics S_m + V_mj^2 / Sigma_jj and
    Q_m + mu_j V_mj / Sigma_jj (T&F eqs. 40, 41): all swaps j -> m are scored exactly.

    Parameters
    ----------
    problem : Problem
        The problem, of atoms that have one column each.
    state : State
        A model with atoms.
    statistics : Screen
        What a screen has found there.

    Returns
    -------
    SwapTable
        A row for each active atom.
    """
    noise_var, white = state.noise_var, state.white
    d = white.W.diagonal()
    Y = inverse_factor(white).T @ statistics.X  # (m, M): V = Y' sqrt(v / noise)
    score = np.zeros_like(Y)
    for z, Q in zip(white.z.T, statistics.Q.T, strict=True):
        q = Y * (z / (math.sqrt(noise_var) * d))[:, None]
        q += Q
        q *= q
        score += q
    Y *= Y
    Y *= (1.0 / (noise_var * d))[:, None]
    Y += statistics.S
    usable = Y > problem.quad.diag * (problem.quad.collinear / noise_var)
    usable[:, state.active] = False
    np.divide(score, Y, out=score, where=usable)
    np.copyto(score, -1.0, where=~usable)
    return SwapTable(Y, score)


def best_swaps(problem: Problem, state: State, table: SwapTable) -> Swaps:
    """The best replacement of each active atom, and what it would lose or gain.

    Parameters
    ----------
    problem : Problem
        The problem.
    state : State
        A model with atoms.
    table : SwapTable
        The table of its swaps.

    Returns
    -------
    Swaps
        One for each active atom; its variance is zero where no atom could stand there.
    """
    # The best partner has the largest q^2 / s; its own variance and gain are found only then.
    partner = table.score.argmax(axis=1)
    rows = np.arange(partner.size)
    ratio = table.score[rows, partner]
    s = np.where(ratio < 0, 1.0, table.S[rows, partner])
    q2 = np.maximum(ratio, 0.0) * s
    hyperprior, noise_var, n_targets = problem.hyperprior, state.noise_var, problem.n_targets
    v = hyperprior.best_variance(s, q2, noise_var, n_targets)
    own_s, own_q2 = without_self(state.v, state.white)
    worth = gain(hyperprior, own_s, own_q2, state.v, noise_var, n_targets)
    return Swaps(worth - gain(hyperprior, s, q2, v, noise_var, n_targets), partner, v)
