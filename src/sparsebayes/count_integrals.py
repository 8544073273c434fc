"""Probabilities of counts whose rate is log-normal: a Poisson distribution averaged over its rate.

With f the logarithm of the rate, normal of mean m and standard deviation s, all are integrals of a
smooth log-concave function, which the trapezoidal rule over its support gives almost exactly.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincc, ndtr, wrightomega

from sparsebayes.likelihoods import Poisson

FloatArray = NDArray[np.float64]

__all__ = ["cdf", "log_pmf"]

_NODES = 128
_DROP = 36.0  # e^-36 of the highest point is rounding
_BLOCK_ROWS = 2**10
_WIDE, _THIN_RATE = 3.0, 0.3  # where no event is explained by a small rate: see log_pmf


def log_pmf(k: FloatArray, mean: FloatArray, std: FloatArray) -> FloatArray:
    """Log probability of counts.

    Relative errors of probabilities are below 1e-8, unless these are smaller than 1e-20.

    Parameters
    ----------
    k : ndarray of shape (n,)
        Counts: integers, at least zero.
    mean, std : ndarray of shape (n,)
        Means and standard deviations of the logarithms of the rates; zero is allowed.

    Returns
    -------
    ndarray of shape (n,)
        Log probabilities.

    Examples
    --------
    >>> import numpy as np
    >>> k = np.arange(3.0)
    >>> np.exp(log_pmf(k, np.zeros(3), np.zeros(3))).round(3)
    array([0.368, 0.368, 0.184])
    >>> np.exp(log_pmf(k, np.zeros(3), np.ones(3))).round(3)
    array([0.382, 0.259, 0.145])
    """
    out = np.empty(len(k))
    for start in range(0, len(k), _BLOCK_ROWS):
        rows = slice(start, start + _BLOCK_ROWS)
        out[rows] = _log_pmf(k[rows], mean[rows], std[rows])
    return out


def cdf(k: FloatArray, mean: FloatArray, std: FloatArray) -> FloatArray:
    """Probability of at most k events, which need not be an integer; absolute error below 1e-10.

    Parameters
    ----------
    k : ndarray of shape (n,)
        Numbers of events, at least zero.
    mean, std : ndarray of shape (n,)
        Means and standard deviations of the logarithms of the rates; zero is allowed.

    Returns
    -------
    ndarray of shape (n,)
        Probabilities.

    Examples
    --------
    >>> import numpy as np
    >>> cdf(np.array([0.0, 1.0]), np.zeros(2), np.zeros(2)).round(3)
    array([0.368, 0.736])
    """
    out = np.empty(len(k))
    for start in range(0, len(k), _BLOCK_ROWS):
        rows = slice(start, start + _BLOCK_ROWS)
        out[rows] = _cdf(k[rows] + 1.0, mean[rows], std[rows])
    return out


def _log_pmf(k: FloatArray, m: FloatArray, s: FloatArray) -> FloatArray:
    # The integrand exp(k f - e^f - (f - m)^2 / 2v) has its mode where e^f = k - (f - m) / v.
    v = s**2
    rate = _rate_at_mode(k, m, v)
    with np.errstate(divide="ignore", over="ignore"):
        short = (v * (k + rate) < 1.0) | (rate < 0.5 * k)
        shift = np.where(short, v * (k - rate), np.log(rate) - m)
        stretch = np.sqrt(1.0 + v * rate)  # the normal's width over the width at the mode
        width = s / stretch
        left = np.minimum(np.sqrt(2 * _DROP) * stretch, _left(rate) / width)
        right = np.minimum(np.sqrt(2 * _DROP), _right(rate) / width)
    y, step = _grid(left, right)
    drop = rate[:, None] * _excess(y * width[:, None]) + 0.5 * np.square(y / stretch[:, None])
    area = np.exp(-drop).sum(axis=1) * step / (np.sqrt(2 * np.pi) * stretch)
    standard = np.divide(shift, s, out=np.zeros(len(s)), where=s > 0)
    out: FloatArray = Poisson().expand(k, (m + shift)[:, None]).value - 0.5 * standard**2
    out += np.log(area)
    # No events at an uncertain, probably small rate: a step, over which the normal is the wide one.
    rows = np.flatnonzero((k == 0) & (s > _WIDE) & (rate < _THIN_RATE))
    if rows.size:
        out[rows] = np.log(_cdf(np.ones(len(rows)), m[rows], s[rows]))
    return out


def _rate_at_mode(k: FloatArray, m: FloatArray, v: FloatArray) -> FloatArray:
    """Solve log(rate) = m + v (k - rate)."""
    far = m + v * k
    with np.errstate(divide="ignore"):
        argument = far + np.log(v)
    narrow = argument < -40.0  # v rate is below rounding
    omega = wrightomega(np.where(narrow, 0.0, argument))
    return np.where(narrow, np.exp(np.minimum(far, 700.0)), omega / np.where(narrow, 1.0, v))


def _cdf(a: FloatArray, m: FloatArray, s: FloatArray) -> FloatArray:
    """Chance that a Gamma(a) variable exceeds the rate: nodes over the narrower of the two."""
    out = np.empty(len(a))
    wide = s * np.sqrt(a) > 1.0
    rows = np.flatnonzero(wide)
    if rows.size:
        shape = a[rows]
        d, _ = _grid(_left(shape), _right(shape))
        weight = np.exp(-shape[:, None] * _excess(d))
        x = np.log(shape)[:, None] + d  # logarithm of the Gamma variable
        chance = ndtr((x - m[rows][:, None]) / s[rows][:, None])
        out[rows] = np.sum(weight * chance, axis=1) / weight.sum(axis=1)
    rows = np.flatnonzero(~wide)
    if rows.size:
        z = np.linspace(-8.5, 8.5, _NODES // 2)
        weight = np.exp(-0.5 * z * z)
        with np.errstate(over="ignore"):
            rate = np.exp(m[rows][:, None] + s[rows][:, None] * z)
        out[rows] = gammaincc(a[rows][:, None], rate) @ (weight / weight.sum())
    return np.clip(out, 0.0, 1.0)


def _excess(d: FloatArray) -> FloatArray:
    """exp(d) - 1 - d, precise for small d."""
    series = d * d * (1 / 2 + d * (1 / 6 + d * (1 / 24 + d * (1 / 120 + d / 720))))
    with np.errstate(over="ignore"):
        return np.where(np.abs(d) < 1e-2, series, np.expm1(d) - d)


def _left(rate: FloatArray) -> FloatArray:
    """A distance d with rate (exp(-d) - 1 + d) >= _DROP, from exp(-d) - 1 + d >= d^2 / (2 + d)."""
    with np.errstate(divide="ignore", over="ignore"):
        c = _DROP / rate
        return np.asarray(0.5 * (c + np.sqrt(c) * np.sqrt(c + 8.0)))


def _right(rate: FloatArray) -> FloatArray:
    """A distance d with rate (exp(d) - 1 - d) >= _DROP."""
    with np.errstate(divide="ignore", over="ignore"):
        c = 2 * _DROP / rate
        return np.minimum(np.sqrt(c), np.log1p(c + 2.0))


def _grid(left: FloatArray, right: FloatArray) -> tuple[FloatArray, FloatArray]:
    step = (left + right) / (_NODES - 1)
    return step[:, None] * np.arange(_NODES) - left[:, None], step
