"""Class probabilities averaged over normally distributed latent values.

All functions are deterministic, treat each row by itself and return logarithms, so that small
probabilities survive.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh_tridiagonal
from scipy.special import erfcx, log_expit, log_softmax, logsumexp, ndtri

FloatArray = NDArray[np.float64]

__all__ = [
    "NEGLIGIBLE",
    "TIE",
    "Lattice",
    "log_mean_sigmoid",
    "log_mean_softmax",
    "logistic_rule",
    "plug_in",
    "softmax_lattices",
    "softmax_rules",
]

_BLOCK_CELLS = 2**17  # entries at a time, so that they stay in the cache
# Nodes over the normal density for standard deviations up to _WIDE: (largest one, step, reach).
# The step is in standard deviations; the sigmoid's poles at +-i pi limit it.
_NORMAL_RULES = ((1.5, 0.375, 8.625), (4.0, 0.15, 8.55))
_WIDE = _NORMAL_RULES[-1][0]
_LOGISTIC_NODES = 40
# Lattice rules over the normal density: (points, generator), by the largest variance of a contrast.
_LATTICES = ((128, 19), (512, 115), (2048, 301), (8192, 3035))
_VARIANCES = (0.1, 2.0)  # where the next larger rule begins
_FEW_CLASSES = 5  # up to which a larger one is cheap
_LEAST_POINTS = 8  # points per dimension: fewer could repeat a coordinate
NEGLIGIBLE = 1e-14  # share of the largest variance below which a variance is rounding
TIE = 1e-7  # relative difference of variances that are equal up to rounding
_UNDERFLOW = 1e-280


def plug_in(mean: FloatArray) -> FloatArray:
    """Log-probabilities of the classes at the mean, as if the latent values were known.

    Parameters
    ----------
    mean : ndarray of shape (n, K)
        Latent values; one column for two classes (of the second), else a column for each class.

    Returns
    -------
    ndarray of shape (n, 2) or (n, K)
        Logarithms of the sigmoid and its complement, or of the softmax.

    Examples
    --------
    >>> import numpy as np
    >>> np.exp(plug_in(np.array([[2.0]]))).round(3)
    array([[0.119, 0.881]])
    >>> np.exp(plug_in(np.array([[0.0, 0.0, 3.0]]))).round(3)
    array([[0.045, 0.045, 0.909]])
    """
    if mean.shape[1] == 1:
        return np.concatenate([log_expit(-mean), log_expit(mean)], axis=1)
    return np.asarray(log_softmax(mean, axis=1))


def log_mean_sigmoid(mean: FloatArray, variance: FloatArray) -> FloatArray:
    """Log of the mean of 1 / (1 + exp(f)) and of 1 / (1 + exp(-f)) for normal f.

    The relative error of either probability is below 1e-11 (of its logarithm, 1e-14), however small
    it is.

    Parameters
    ----------
    mean : ndarray of shape (n,)
        Means of f.
    variance : ndarray of shape (n,)
        Variances of f; zero is allowed.

    Returns
    -------
    ndarray of shape (n, 2)
        Logarithms of the two probabilities of each row.

    Examples
    --------
    >>> import numpy as np
    >>> np.exp(log_mean_sigmoid(np.array([2.0, 2.0]), np.array([0.0, 4.0]))).round(3)
    array([[0.119, 0.881],
           [0.225, 0.775]])
    """
    # With p(m) = E sigmoid(N(m, v)):  p(m) = 1 - p(-m)  and  p(m) = exp(m + v/2) p(-m - v), as
    # sigmoid(f) = exp(f) sigmoid(-f). Together they leave means in [-v/2, 0] where p can be small
    # and needs its relative precision; elsewhere an absolute one is enough.
    m = -np.abs(mean)
    direct = m >= -0.5 * variance
    reduced = np.where(direct, m, -np.abs(m + variance))
    log_p = _log_p(reduced, variance)
    beyond = m < -variance
    if beyond.any():
        log_p[beyond] = np.log1p(-np.exp(log_p[beyond]))
    smaller = np.where(direct, log_p, m + 0.5 * variance + log_p)
    # The sign of the mean says which is the larger one, however the integral was rounded.
    even = -np.log(2.0)
    smaller = np.where(mean == 0, even, np.minimum(smaller, np.nextafter(even, -1.0)))
    larger = np.log1p(-np.exp(smaller))
    negative = mean < 0
    return np.stack(
        [np.where(negative, larger, smaller), np.where(negative, smaller, larger)], axis=1
    )


def _log_p(m: FloatArray, v: FloatArray) -> FloatArray:
    """Log of E sigmoid(N(m, v)) for m <= 0, precise relative to max(p, 1e-16) if m < -v/2."""
    s = np.sqrt(v)
    out = np.empty(len(m))
    lowest = -1.0
    for highest, step, reach in _NORMAL_RULES:
        rows = np.flatnonzero((s > lowest) & (s <= highest))
        z = np.arange(-reach, reach + 0.5 * step, step)
        weight = np.exp(-0.5 * z * z)
        weight /= weight.sum()
        for block in _blocks(rows, len(z)):
            # sigmoid(x) N(x; m, v) = exp(m/2 + v/8) N(x; m + v/2, v) / (2 cosh(x/2))
            center = m[block] + 0.5 * v[block]
            e = np.exp(-0.5 * np.abs(center[:, None] + s[block][:, None] * z))
            e /= 1.0 + e * e
            with np.errstate(divide="ignore"):
                out[block] = np.log(e @ weight) + (0.5 * m[block] + 0.125 * v[block])
        lowest = highest
    rows = np.flatnonzero(s > lowest)
    x, weight = logistic_rule(_LOGISTIC_NODES)
    for block in _blocks(rows, len(x)):
        # p is the chance that a logistic variable is below f: the mean of its Phi((m - x) / s).
        # Below -2 v, p is less than 1e-16 and its value of no interest.
        scale = s[block][:, None]
        a = (np.maximum(m[block], -2.0 * v[block]) / s[block])[:, None]
        y = x / scale
        ratio = erfcx((y - a) / np.sqrt(2.0)) * np.exp(y * (a - 0.5 * y))  # to exp(-a^2 / 2) / 2
        out[block] = np.log(0.5 * (ratio @ weight)) - 0.5 * a[:, 0] ** 2
    return out


@cache
def logistic_rule(n: int) -> tuple[FloatArray, FloatArray]:
    """Gauss quadrature for the logistic density, from the recurrence of its polynomials.

    Parameters
    ----------
    n : int
        Number of nodes.

    Returns
    -------
    nodes, weights : ndarray of shape (n,)
        Symmetric around zero.

    Examples
    --------
    >>> nodes, weights = logistic_rule(2)
    >>> nodes.round(3), weights
    (array([-1.814,  1.814]), array([0.5, 0.5]))
    """
    k = np.arange(1.0, n)
    off = np.pi * k**2 / np.sqrt(4 * k**2 - 1)
    x = np.asarray(eigh_tridiagonal(np.zeros(n), off, eigvals_only=True), dtype=np.float64)
    # 1 / sum of squared orthonormal polynomials: small weights keep their relative precision.
    before, now, total = np.zeros(n), np.ones(n), np.ones(n)
    for j in range(n - 1):
        before, now = now, (x * now - (off[j - 1] if j else 0.0) * before) / off[j]
        total += now**2
    return x, 1.0 / total


def log_mean_softmax(mean: FloatArray, covariance: FloatArray) -> FloatArray:
    """Log of the mean of softmax(f) for normal f.

    Two classes are one integral, as precise as `log_mean_sigmoid`. More are averaged over the
    points of a lattice, symmetric and with exactly the covariance asked for, so that polynomials in
    f of up to the third degree would be averaged exactly. Probabilities are then wrong by less than
    0.0005 for variances up to 0.1, 0.005 up to 2 and 0.02 beyond, and typically by a fifth of that;
    of up to five classes, by less than a quarter of these.

    Parameters
    ----------
    mean : ndarray of shape (n, K)
        Means of f.
    covariance : ndarray of shape (n, K, K)
        Covariances of f; positive semidefinite, zero is allowed. What all classes share has no
        effect.

    Returns
    -------
    ndarray of shape (n, K)
        Logarithms of probabilities, which sum to one in each row.

    Examples
    --------
    >>> import numpy as np
    >>> mean, covariance = np.array([[0.0, 0.0, 3.0]]), np.eye(3)[None]
    >>> np.exp(log_mean_softmax(mean, 0 * covariance)).round(2)
    array([[0.05, 0.05, 0.91]])
    >>> np.exp(log_mean_softmax(mean, 4 * covariance)).round(2)
    array([[0.15, 0.15, 0.71]])
    """
    n, K = mean.shape
    if K == 2:
        of_difference = covariance[:, 0, 0] + covariance[:, 1, 1] - 2 * covariance[:, 0, 1]
        return log_mean_sigmoid(mean[:, 1] - mean[:, 0], np.maximum(of_difference, 0.0))
    out = np.empty((n, K))
    contrast = covariance - covariance.mean(axis=1, keepdims=True)
    contrast -= contrast.mean(axis=2, keepdims=True)
    largest = contrast[:, np.arange(K), np.arange(K)].max(axis=1, initial=0.0)
    level = np.searchsorted(_VARIANCES, largest)
    for number, (_, z) in enumerate(softmax_rules(K)):
        rows = np.flatnonzero(level == number)
        for block in _blocks(rows, len(z) * K):
            root = _pivoted_root(contrast[block], mean[block])
            f = root @ z.T
            f += mean[block][:, :, None]
            out[block] = _log_average(f)
    return out


def softmax_rules(K: int) -> list[tuple[float, FloatArray]]:
    """Points over which the softmax of K classes is averaged.

    Parameters
    ----------
    K : int
        Number of classes, at least three.

    Returns
    -------
    list of (float, ndarray of shape (points, K - 1))
        The largest variance of a contrast up to which the points are taken, and the points: the
        second half of them is the first with the opposite sign, from the last to the first.

    Examples
    --------
    >>> [(limit, len(points)) for limit, points in softmax_rules(3)]
    [(0.1, 512), (2.0, 2048), (inf, 8192)]
    """
    return [(limit, lattice.points) for limit, lattice in softmax_lattices(K)]


def softmax_lattices(K: int) -> list[tuple[float, Lattice]]:
    """The same with what these points are made of.

    Parameters
    ----------
    K : int
        Number of classes, at least three.

    Returns
    -------
    list of (float, Lattice)
        The largest variance of a contrast, and the lattice.

    Examples
    --------
    >>> [(limit, lattice.steps.tolist()) for limit, lattice in softmax_lattices(3)]
    [(0.1, [1, 115]), (2.0, [1, 301]), (inf, [1, 3035])]
    """
    first = 1 if K <= _FEW_CLASSES else 0
    rules = zip((*_VARIANCES, np.inf), _LATTICES[first:], strict=False)
    return [(limit, _lattice(*rule, K - 1)) for limit, rule in rules]


def _log_average(f: FloatArray) -> FloatArray:
    """Log of the average over points of the softmax of f (n, K, points), which is overwritten."""
    f -= f.max(axis=1, keepdims=True)
    odds = np.exp(f)
    total = odds.sum(axis=1)
    p = np.matmul(odds, (1.0 / total)[:, :, None])[:, :, 0]
    p /= p.sum(axis=1, keepdims=True)
    log_p: FloatArray = np.log(np.maximum(p, _UNDERFLOW))
    rows = np.flatnonzero((p < _UNDERFLOW).any(axis=1))
    if rows.size:
        exact = logsumexp(f[rows] - np.log(total[rows])[:, None, :], axis=2) - np.log(f.shape[2])
        log_p[rows] = np.where(p[rows] < _UNDERFLOW, exact, log_p[rows])
    return log_p


def _pivoted_root(covariance: FloatArray, mean: FloatArray) -> FloatArray:
    """Root (n, K, K - 1) of covariances of contrasts, by Cholesky with pivoting.

    The largest directions come first, where the lattice is best, and permuting the classes permutes
    the rows of the root. Where variances are equal the mean decides, not their rounding; the last
    two classes always have the same variance left.
    """
    rest = covariance.copy()
    n, K, _ = rest.shape
    rows, diagonal = np.arange(n), np.arange(K)
    root = np.zeros((n, K, K - 1))
    # Of a singular covariance rounding is left, of which columns of any size could be made.
    least = NEGLIGIBLE * rest[:, diagonal, diagonal].max(axis=1)
    waiting = np.ones((n, K), dtype=bool)
    for j in range(K - 1):
        variances = rest[:, diagonal, diagonal]
        left = np.where(waiting, variances, -np.inf)
        equal = left >= (1.0 - TIE) * left.max(axis=1, keepdims=True)
        pivot = np.where(equal if j < K - 2 else waiting, mean, -np.inf).argmax(axis=1)
        waiting[rows, pivot] = False
        size = variances[rows, pivot]
        positive = size > least
        scale = np.where(positive, 1.0 / np.sqrt(np.where(positive, size, 1.0)), 0.0)
        column = rest[rows, :, pivot] * scale[:, None]
        root[:, :, j] = column
        rest -= column[:, :, None] * column[:, None, :]
        rest[rows, pivot, :] = 0.0
        rest[rows, :, pivot] = 0.0
    return root


@dataclass(frozen=True, eq=False)
class Lattice:
    """Points that stand for a standard normal: symmetric, and of exactly unit covariance.

    Point k is ``ndtri(u) @ whitening`` with ``u = (2 k + 1) steps % (2 n) / (2 n)`` for n points,
    a power of two.
    """

    steps: NDArray[np.int64]  # (dimension,)
    whitening: FloatArray  # (dimension, dimension), symmetric
    points: FloatArray  # (n, dimension)


@cache
def _lattice(n_points: int, generator: int, dimension: int) -> Lattice:
    """A lattice; in more dimensions than the number of points allows there are more points."""
    while n_points < _LEAST_POINTS * dimension:
        n_points *= 2
    steps = np.ones(dimension, dtype=np.int64)
    for j in range(1, dimension):
        steps[j] = steps[j - 1] * generator % n_points
    k = np.arange(n_points)[:, None]
    u = ((2 * k + 1) * steps % (2 * n_points)) / (2 * n_points)  # odd steps: never 0
    z = ndtri(u)
    values, vectors = np.linalg.eigh(z.T @ z / n_points)
    whitening: FloatArray = (vectors / np.sqrt(values)) @ vectors.T
    return Lattice(steps, whitening, z @ whitening)


def _blocks(rows: NDArray[np.intp], cells: int) -> list[NDArray[np.intp]]:
    step = max(1, _BLOCK_CELLS // cells)
    return [rows[start : start + step] for start in range(0, len(rows), step)]
