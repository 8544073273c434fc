"""Every atom of a large dictionary, where a screen of all of them is what a fit costs.

With K latent functions a screen takes K^2 products for each active atom. So it is made in parts,
which bounds its memory, and between two of them atoms are glanced at: Q, which tells what is left
to explain, costs one product for each latent function, and S, which hardly changes while few atoms
come and go, is that of the last survey. What only a survey knows, the certificate, waits for one.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsebayes.core.quadratic import AnyQuadratic
from sparsebayes.core.tolerances import COLLINEAR
from sparsebayes.engine import Screen, resolved, screen
from sparsebayes.hyperpriors import Hyperprior, best_variance, gain
from sparsebayes.laplace import Latent, Mode
from sparsebayes.problem import Certificate, Problem, certify
from sparsebayes.solvers.expand import UNIT_NOISE, Expanded, Part

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = ["Survey", "glance", "survey"]

_CELLS = 2**24  # entries of columns of G at a time: 128 megabytes, a few times over,
_FEWEST = 256  # but not of fewer atoms than these


class Survey(NamedTuple):
    """What a screen of the whole dictionary has found at one point, for atoms of unit norm."""

    certificate: Certificate
    worth: FloatArray  # (M,) nats that the best change of one of an atom's columns gains
    S: FloatArray  # (M, K, K) of atoms whose columns share their variance, else (M, K)
    diag: FloatArray  # (M, K) of G
    norm: FloatArray  # (M, K) of columns as given
    active: IndexArray  # atoms that were in the model, whose S is beside themselves


def survey(latent: Latent, at: Expanded) -> Survey:
    """Certify an expansion over the whole dictionary, part by part."""
    M, K, quad, problem = latent.n_atoms, latent.K, at.quad, at.problem
    active = Part.of(latent, at.point).atoms
    diag, norm = quad.diag.reshape(M, K), quad.norm.reshape(M, K)
    columns = quad.members(at.state.active).size
    # Active atoms are in every part.
    size = max(_FEWEST, active.size, _CELLS // (K * max(columns, 1)))
    if size >= M:
        certificate, statistics = certify(problem, at.state, UNIT_NOISE)
        worth = statistics.gains.reshape(M, -1).max(axis=1)
        return Survey(certificate, worth, _sparsity(quad, statistics), diag, norm, active)
    # Gradient and curvature are those of the active atoms, whatever else there is.
    own_state = replace(at.state, active=np.arange(at.state.active.size))
    own_problem = Problem(quad.gram(at.state.active), problem.hyperprior, 1.0)
    certificate, _ = certify(own_problem, own_state, UNIT_NOISE)
    worth = np.empty(M)
    S = np.empty((M, K, K) if quad.group > 1 else (M, K))
    for start in range(0, M, size):
        share = np.arange(start, min(start + size, M))
        part = Part(latent, np.union1d(share, active))
        some = part.data.quadratic(at.mode)
        state = replace(at.state, active=part.inside(at.point).active)
        statistics = screen(some, problem.hyperprior, state, resolved(quad, state.white))
        own = np.searchsorted(part.atoms, share)
        worth[share] = statistics.gains.reshape(part.atoms.size, -1).max(axis=1)[own]
        S[share] = _sparsity(some, statistics)[own]
    certificate = replace(certificate, max_gain=max(float(worth.max()), 0.0))
    return Survey(certificate, worth, S, diag, norm, active)


def glance(latent: Latent, hyperprior: Hyperprior, mode: Mode, last: Survey) -> FloatArray:
    """About what each atom would gain at a mode, by the S of the last survey.

    Of atoms that are active now it means nothing; of those that were and have left it is zero.
    """
    slope = mode.expansion.slope.T.copy()
    if latent.center:  # beside its mode, intercepts have something left to take up
        slope -= slope.mean(axis=1, keepdims=True)
    void = last.norm == 0
    Q = latent.design.correlate(slope).T / np.where(void, 1.0, last.norm)  # b - H mu at the mode
    Q[void] = 0.0
    if latent.shared:
        s, directions = np.linalg.eigh(last.S)
        Q = np.einsum("akl,ak->al", directions, Q)
        free = s > COLLINEAR * last.diag.max(axis=1, keepdims=True)
        s, q2 = np.where(free, s, 0.0), np.where(free, Q * Q, 0.0)
    else:
        s, q2 = last.S.ravel(), np.square(Q).ravel()
        free = s > COLLINEAR * last.diag.ravel()
        s, q2 = np.where(free, s, 1.0), np.where(free, q2, 0.0)
    gains = gain(hyperprior, s, q2, best_variance(hyperprior, s, q2, 1.0), 1.0)
    gains = gains.reshape(latent.n_atoms, -1).max(axis=1)
    gains[last.active] = 0.0
    return np.asarray(gains)


def _sparsity(quad: AnyQuadratic, statistics: Screen) -> FloatArray:
    """S of every atom: one number for each column, or a matrix where they share their variance."""
    K, X = quad.K, statistics.X
    if quad.group == 1:
        return statistics.S.reshape(-1, K)
    own = X.reshape(len(X), quad.size, K).transpose(1, 0, 2)
    return np.asarray(quad.blocks - own.transpose(0, 2, 1) @ own)
