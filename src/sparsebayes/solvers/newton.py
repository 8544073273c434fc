"""All active variances and the noise at once: damped Newton on (log v, log noise).

Coordinate updates zig-zag on collinear kernels; a joint step does not. The step climbs always:
where the Hessian is not negative definite its eigenvalues are replaced by their magnitudes, and at
a stationary point that is a saddle (Faul & Tipping 2002, result III, is wrong) the solver leaves
along the eigenvector of largest curvature.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.linalg.lapack import dpotrf, dpotrs, dsyevr

from sparsebayes.core.quadratic import Gram
from sparsebayes.engine import (
    EPS,
    Breakdown,
    Whitened,
    log_hyperprior,
    per_column,
    whiten,
    without_self,
)
from sparsebayes.hyperpriors import Flat, Hyperprior, LogDerivatives, best_variance, gain

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = [
    "Newton",
    "Noise",
    "ascent",
    "curvature",
    "derivatives",
    "held_slope",
    "is_floored",
    "log_step",
    "newton",
    "prune",
    "uncoupled",
]

_RADIUS = 4.0  # longest step in any log parameter
_LEAST = -0.98  # most of an atom's variance that a step may take, in v^a
_FLAT = 1e-5  # eigenvalues below this count as flat: no step is longer than gradient / _FLAT
_HUGE = 1e300
_BACKTRACK = 0.25
_COUPLING = 0.05  # squared posterior correlation up to which atoms may be deleted together
_TRIES = 14
_ESCAPES = 20


class Noise(NamedTuple):
    """The noise variance: a value, and where it may go."""

    var: float
    estimated: bool
    floor: float


def is_floored(noise: Noise) -> bool:
    """Whether an estimated noise is at its floor."""
    return noise.estimated and noise.var <= noise.floor * (1 + 1e-9)


@dataclass(frozen=True)
class Newton:
    """Where a Newton run ended, for the atoms ``kept`` of the Gram matrix it was given."""

    kept: IndexArray
    v: FloatArray
    noise_var: float
    white: Whitened
    objective: float
    steps: int
    converged: bool


class Derivatives(NamedTuple):
    """Gradient and Hessian of the objective in (log v, log noise); noise last, if estimated."""

    gradient: FloatArray
    hessian: FloatArray


def derivatives(
    gram: Gram, hyperprior: Hyperprior, v: FloatArray, noise: Noise, white: Whitened
) -> Derivatives:
    """Exact gradient and Hessian of the objective in log v and, if estimated, log noise.

    Parameters
    ----------
    gram : Gram
        Quadratic of the active atoms.
    hyperprior : Hyperprior
        Prior of the variances.
    v : ndarray of shape (m,)
        Prior variances.
    noise : Noise
        Noise variance and whether it is a parameter.
    white : Whitened
        Posterior at these parameters.

    Returns
    -------
    Derivatives
        Gradient (m or m + 1,) and Hessian; the row of a noise pinned at its floor is that of a
        parameter at rest.
    """
    if gram.group > 1:
        return _shared_derivatives(gram, hyperprior, v, noise, white)
    m, n_targets = gram.g.shape
    W, z = white.W, white.z
    d = W.diagonal()
    # P_i (T Sigma_ii + |mu_i|^2)
    power = n_targets * d + np.einsum("ij,ij->i", z, z)
    prior = hyperprior.log_derivatives(v, noise.var)
    size = m + 1 if noise.estimated else m
    gradient = np.empty(size)
    gradient[:m] = 0.5 * (power - n_targets) + prior.u
    H = np.empty((size, size))
    # 1/2 T W_ij^2 + W_ij z_i.z_j; of one target the products are faster without BLAS
    products = z * z.T if n_targets == 1 else z @ z.T
    products += (0.5 * n_targets) * W
    np.multiply(products, W, out=H[:m, :m])
    H.reshape(-1)[: m * (size + 1) : size + 1] += prior.uu - 0.5 * power
    if not noise.estimated:
        return Derivatives(gradient, H)
    misfit = white.residual / noise.var
    each = m / max(prior.rho.size, 1)  # of length one where all are equal
    slope = _noise_slope(gram, noise, white, prior)
    if is_floored(noise) and slope < 0:
        gradient[m] = 0.0
        H[m, :] = H[:, m] = 0.0
        H[m, m] = -1.0
        return Derivatives(gradient, H)
    leaned = np.einsum("ij,ij->i", z, W @ z)
    taken = d - np.einsum("ij,ij->i", W, W)
    gradient[m] = slope
    H[m, :m] = H[:m, m] = (0.5 * n_targets) * taken - leaned + prior.u_rho
    H[m, m] = (
        float(np.add.reduce(leaned))
        - 0.5 * n_targets * float(np.add.reduce(taken))
        - 0.5 * misfit
        + each * float(prior.rho_rho.sum())
    )
    return Derivatives(gradient, H)


def _noise_slope(gram: Gram, noise: Noise, white: Whitened, prior: LogDerivatives) -> float:
    """Derivative of the objective in the log noise."""
    m, n_targets = gram.g.shape
    misfit = white.residual / noise.var
    trace = float(np.add.reduce(white.W.diagonal()))
    each = m / max(prior.rho.size, 1)  # of length one where all are equal
    return float(0.5 * (misfit - n_targets * (gram.n - m + trace)) + each * prior.rho.sum())


def held_slope(
    gram: Gram, hyperprior: Hyperprior, v: FloatArray, noise: Noise, white: Whitened
) -> float:
    """Derivative in the log noise where its floor holds the noise, negative; else zero.

    `derivatives` leaves it out of the gradient, for no step may follow it.

    Parameters
    ----------
    gram : Gram
        Quadratic of the active atoms.
    hyperprior : Hyperprior
        Prior of the variances.
    v : ndarray of shape (m,)
        Prior variances.
    noise : Noise
        Noise variance and whether it is a parameter.
    white : Whitened
        Posterior at these parameters.

    Returns
    -------
    float
        The derivative.
    """
    if not is_floored(noise):
        return 0.0
    return min(_noise_slope(gram, noise, white, hyperprior.log_derivatives(v, noise.var)), 0.0)


def _shared_derivatives(
    gram: Gram, hyperprior: Hyperprior, v: FloatArray, noise: Noise, white: Whitened
) -> Derivatives:
    """The same where the columns of an atom share its log variance: sums over them."""
    each = Gram(gram.G, gram.g, gram.tt, gram.n, gram.spread, gram.log_offset)
    held = noise._replace(estimated=False)  # only likelihoods without a noise have such atoms
    columns = derivatives(each, Flat(), per_column(v, len(gram.g)), held, white)
    m, group = len(v), gram.group
    prior = hyperprior.log_derivatives(v, noise.var)
    gradient = columns.gradient.reshape(m, group).sum(axis=1) + prior.u
    H = columns.hessian.reshape(m, group, m, group).sum(axis=(1, 3))
    H.ravel()[:: m + 1] += prior.uu
    return Derivatives(gradient, H)


def curvature(hessian: FloatArray) -> tuple[float, FloatArray]:
    """Largest eigenvalue of a Hessian and its eigenvector."""
    size = len(hessian)
    if size == 0:
        return -np.inf, np.zeros(0)
    values, vectors = eigh(hessian, subset_by_index=[size - 1, size - 1])
    return float(values[0]), vectors[:, 0]


def prune(
    hyperprior: Hyperprior, v: FloatArray, noise_var: float, white: Whitened, coupling: float = 0.0
) -> NDArray[np.bool_]:
    """Atoms to keep: those worth nothing are deleted, each gaining by it.

    Two copies of one atom are each worth nothing beside the other; deleting one (T&F eqs. 38, 39)
    changes the worth of the other, so the statistics are updated after every deletion. Atoms whose
    squared posterior correlation is at most ``coupling`` are deleted together.
    """
    n_targets = white.z.shape[1]
    keep = np.ones(len(v), dtype=np.bool_)
    if isinstance(hyperprior, Flat) and len(white.z) == len(v) and _all_wanted(white):
        return keep
    s, q2 = without_self(v, white)
    best = best_variance(hyperprior, s, q2, noise_var, n_targets)
    if np.minimum.reduce(best, initial=np.inf) > 0:
        return keep
    doomed = np.flatnonzero(best <= 0)
    if doomed.size == 1:
        keep[doomed] = False
        return keep
    if s.ndim == 2:  # atoms of several columns go one at a time
        worth = gain(hyperprior, s[doomed], q2[doomed], v[doomed], noise_var)
        keep[doomed[np.argmin(worth)]] = False
        return keep
    # Only the doomed can go, and their statistics depend on each other's alone.
    v, s, q2, best = v[doomed], s[doomed], q2[doomed], best[doomed]
    W, z = white.W[doomed[:, None], doomed], white.z[doomed]
    while True:
        worth = gain(hyperprior, s, q2, v, noise_var, n_targets)
        worth[best > 0] = np.inf
        gone = uncoupled(W, worth, coupling)
        if not gone:
            break
        keep[doomed[gone]] = False
        if len(gone) == doomed.size:
            break
        left = np.ones(doomed.size, dtype=np.bool_)
        left[gone] = False
        share = W[gone]
        if len(gone) == 1:
            share = share / share[0, gone]
        else:
            share = np.asarray(np.linalg.solve(share[:, gone], share), dtype=np.float64)
        z = (z - share.T @ z[gone])[left]
        W = (W - W[:, gone] @ share)[left][:, left]
        if not (W.diagonal() > 0).all():
            break  # rounding of the downdates: the next posterior, from definitions, decides
        v, doomed = v[left], doomed[left]
        s, q2 = without_self(v, white._replace(W=W, z=z))
        best = hyperprior.best_variance(s, q2, noise_var, n_targets)
    return keep


def _all_wanted(white: Whitened) -> bool:
    """Whether q^2 > T s for all atoms, under a flat prior: almost always, and cheap to tell."""
    d = white.W.diagonal()
    least = 1.0 - d
    np.maximum(least, EPS, out=least)
    least *= d
    if white.z.shape[1] > 1:
        least *= white.z.shape[1]
    return bool(np.logical_and.reduce(np.einsum("ij,ij->i", white.z, white.z) > least))


def uncoupled(W: FloatArray, worth: FloatArray, coupling: float) -> list[int]:
    """Worthless atoms, the most worthless first, none coupled to another of them."""
    order = np.argsort(worth, kind="stable")[: int(np.isfinite(worth).sum())]
    if order.size == 0:
        return []
    if coupling == 0.0:
        return [int(order[0])]
    d = W.diagonal()
    tied = W * W > coupling * d * d[:, None]
    gone: list[int] = []
    blocked = np.zeros(len(worth), dtype=np.bool_)
    for j in order.tolist():
        if not blocked[j]:
            gone.append(j)
            blocked |= tied[j]
    return gone


def newton(
    gram: Gram,
    hyperprior: Hyperprior,
    v: FloatArray,
    noise: Noise,
    *,
    tol: float,
    max_steps: int = 100,
    escape: bool = False,
) -> Newton:
    """Climb to a stationary point of the objective in all variances and the noise.

    Parameters
    ----------
    gram : Gram
        Quadratic of the atoms in the model.
    hyperprior : Hyperprior
        Prior of the variances.
    v : ndarray of shape (m,)
        Variances to start from.
    noise : Noise
        Noise to start from and whether it is estimated.
    tol : float
        Stop when a step promises less than this many nats.
    max_steps : int, default=100
        Most steps taken.
    escape : bool, default=False
        Whether to test the stationary point for being a saddle, and to leave it.

    Returns
    -------
    Newton
        The parameters reached; the objective is never below where it started, except by what
        rounding can do.
    """
    kept = np.arange(len(v))
    if len(v) == 0:
        return _empty(gram, noise, kept, 0)
    white = whiten(gram, v, noise.var)
    objective = white.log_evidence + log_hyperprior(hyperprior, v, noise.var)
    escapes = 0
    for step in range(max_steps):
        for coupling in (_COUPLING, 0.0):
            keep = prune(hyperprior, v, noise.var, white, coupling)
            if np.logical_and.reduce(keep):
                break
            chosen = np.flatnonzero(keep)
            fewer = gram.gram(chosen)
            pruned = whiten(fewer, v[chosen], noise.var)
            reached = pruned.log_evidence + log_hyperprior(hyperprior, v[chosen], noise.var)
            if reached >= objective or coupling == 0.0:
                gram, v, kept = fewer, v[chosen], kept[chosen]
                white, objective = pruned, reached
                break
        if len(v) == 0:
            return _empty(gram, noise, kept, step)
        gradient, H = derivatives(gram, hyperprior, v, noise, white)
        bend = white.W.diagonal()
        if gram.group > 1:
            bend = bend.reshape(len(v), gram.group).mean(axis=1)
        direction = ascent(gradient, H, bend)
        promise = 0.5 * float(gradient @ direction)
        if promise < tol:
            if not escape or escapes >= _ESCAPES:
                return Newton(kept, v, noise.var, white, objective, step, True)
            value, vector = curvature(H)
            if value <= _saddle_threshold(H):
                return Newton(kept, v, noise.var, white, objective, step, True)
            escapes += 1
            direction = vector if gradient @ vector >= 0 else -vector
            found = _both_ways(gram, hyperprior, v, noise, direction, objective)
        else:
            found = _search(gram, hyperprior, v, noise, direction, objective, bend)
        if found is None:
            return Newton(kept, v, noise.var, white, objective, step, promise < tol)
        v, noise, white, objective = found
    return Newton(kept, v, noise.var, white, objective, max_steps, False)


_Point = tuple[FloatArray, Noise, Whitened, float]


def _saddle_threshold(H: FloatArray) -> float:
    return 1e-7 * max(1.0, float(np.abs(H.diagonal()).max()))


def ascent(gradient: FloatArray, H: FloatArray, bend: FloatArray) -> FloatArray:
    """Newton's step in v^a / a, a = ``bend`` for each atom, in units of v^a; it climbs.

    An atom that the data hardly determine has Sigma_jj / v_j near one. In log v the objective is
    an exponential there, along which Newton's step is one, however far there is to go; in v it is
    a parabola. Changing the coordinate adds a multiple of the gradient to the Hessian's diagonal.
    """
    m, size = len(bend), len(H)
    B = -H
    B.reshape(-1)[: m * (size + 1) : size + 1] += bend * gradient[:m]
    factor, info = dpotrf(B.T, lower=1)
    if info != 0:
        # Only the few negative eigenvalues are needed: with their signs turned it is definite.
        values, vectors, count, _, info = dsyevr(B.T, range="V", vl=-_HUGE, vu=0.0, lower=1)
        if info == 0:
            values, vectors = -values[:count], vectors[:, :count]
            turned = B + (vectors * (values + np.maximum(values, _FLAT))) @ vectors.T
            factor, info = dpotrf(turned.T, lower=1)
    if info == 0:
        direction, _ = dpotrs(factor, gradient, lower=1)
        return np.asarray(direction)
    values, vectors = np.linalg.eigh(B)
    return np.asarray(vectors @ ((vectors.T @ gradient) / np.maximum(np.abs(values), _FLAT)))


def log_step(step: FloatArray, bend: FloatArray) -> FloatArray:
    """The change of log v that a step in v^a / a means."""
    step = step.copy()
    scaled = bend * step[: len(bend)]
    np.maximum(scaled, _LEAST, out=scaled)
    np.log1p(scaled, out=scaled)
    scaled /= bend
    step[: len(bend)] = scaled
    return step


def _search(
    gram: Gram,
    hyperprior: Hyperprior,
    v: FloatArray,
    noise: Noise,
    step: FloatArray,
    objective: float,
    bend: FloatArray | None = None,
) -> _Point | None:
    """Backtrack along ``step`` until the objective rises; None where it does not."""
    m = len(v)
    for _ in range(_TRIES):
        direction = step if bend is None else log_step(step, bend)
        longest = float(np.abs(direction).max())
        if longest > _RADIUS:
            direction *= _RADIUS / longest
        v_new = v * np.exp(direction[:m])
        noise_new = noise
        if noise.estimated:
            moved = noise.var * float(np.exp(direction[m]))
            noise_new = noise._replace(var=max(moved, noise.floor))
        try:
            white = whiten(gram, v_new, noise_new.var)
        except Breakdown:
            step = step * _BACKTRACK
            continue
        reached = white.log_evidence + log_hyperprior(hyperprior, v_new, noise_new.var)
        if reached > objective:
            return v_new, noise_new, white, reached
        step = step * _BACKTRACK
    return None


def _both_ways(
    gram: Gram,
    hyperprior: Hyperprior,
    v: FloatArray,
    noise: Noise,
    direction: FloatArray,
    objective: float,
) -> _Point | None:
    """Leave a saddle along either sign of ``direction``, whichever climbs higher."""
    ways = [
        _search(gram, hyperprior, v, noise, sign * direction, objective) for sign in (2.0, -2.0)
    ]
    found = [way for way in ways if way is not None]
    return max(found, key=lambda point: point[3]) if found else None


def _empty(gram: Gram, noise: Noise, kept: IndexArray, step: int) -> Newton:
    """No atom left: the best noise is the mean square of the targets."""
    if noise.estimated:
        n_targets = gram.g.shape[1]
        noise = noise._replace(var=max(gram.tt / (n_targets * gram.n), noise.floor))
    white = whiten(gram, np.empty(0), noise.var)
    return Newton(kept, np.empty(0), noise.var, white, white.log_evidence, step, True)
