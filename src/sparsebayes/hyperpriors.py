"""Hyperpriors on the prior variance of an atom: one-dimensional problems.

An atom that is out of its own model is summarised by two numbers, its sparsity ``s`` and its
squared quality ``q2`` (Tipping & Faul 2003, eq. 19). A hyperprior answers one question about them:
which variance ``v`` is best, counting ``v = 0`` ("out of the model") as worth nothing.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparsebayes._cubics import bracketed_root
from sparsebayes._hyperprior import Flat, Hyperprior, LogDerivatives, lets_out
from sparsebayes.gamma_prior import Gamma
from sparsebayes.noise_priors import InverseGamma, smoothness_log_normalizer

FloatArray = NDArray[np.float64]

__all__ = [
    "Flat",
    "Gamma",
    "Hyperprior",
    "InverseGamma",
    "LogDerivatives",
    "Smoothness",
    "best_variance",
    "gain",
]

_LOWEST = 1e-4  # variances sought for atoms of several columns, relative to what a column wants
_FEW = 5000  # numbers of atoms by columns up to which a grid is looked at in one go
_GRID = 32
_SECTIONS = 26  # a bracket of a few 1e-6: the gain is right to its square


def gain(
    hyperprior: Hyperprior,
    s: FloatArray,
    q2: FloatArray,
    v: FloatArray,
    noise_var: float,
    n_targets: int = 1,
    v_now: FloatArray | float = 0.0,
) -> FloatArray:
    """Objective with the atom at variance ``v`` minus the objective with it at ``v_now``, in nats.

    Parameters
    ----------
    hyperprior : Hyperprior
        Prior of the variance.
    s, q2 : ndarray of shape (k,) or (k, K)
        Sparsity and squared quality of each atom, out of its own model (T&F eq. 19).
        With several targets ``q2`` is summed over them. An atom of K columns that share its
        variance has K of each, in the directions in which its columns do not interact.
    v : ndarray of shape (k,)
        Variances; zero is "out of the model".
    noise_var : float
        Noise variance.
    n_targets : int, default=1
        Number of targets that share the atoms.
    v_now : ndarray of shape (k,) or 0.0, default=0.0
        Variances to compare with; by default the atoms are out of the model. Under a prior that
        lets none out, any variance gains infinitely much over that.

    Returns
    -------
    ndarray of shape (k,)
        Gains in nats.

    Examples
    --------
    >>> import numpy as np
    >>> s, q2 = np.array([1.0, 1.0]), np.array([9.0, 0.5])
    >>> v = Flat().best_variance(s, q2, 1.0)
    >>> v
    array([8., 0.])
    >>> gain(Flat(), s, q2, v, 1.0).round(3)
    array([2.901, 0.   ])
    """
    if s.ndim == 2:
        return _shared_gain(hyperprior, s, q2, v, noise_var, v_now)
    if isinstance(v_now, float):
        return _worth(hyperprior, s, q2, v, noise_var, n_targets)
    # As a difference of logarithms and fractions: at little noise both values are huge.
    change = v - v_now
    before = 1.0 + v_now * s
    ratio = change * s / before
    shrunk = ratio < -0.5
    log_ratio = np.log1p(np.where(shrunk, 0.0, ratio))
    if shrunk.any():
        log_ratio = np.where(shrunk, np.log1p(v * s) - np.log(before), log_ratio)
    likelihood = 0.5 * (q2 * change / (before * (1.0 + v * s)) - n_targets * log_ratio)
    prior = hyperprior.log_density(v, noise_var) - hyperprior.log_density(v_now, noise_var)
    return np.asarray(likelihood + prior)


def _worth(
    hyperprior: Hyperprior,
    s: FloatArray,
    q2: FloatArray,
    v: FloatArray,
    noise_var: float,
    n_targets: int,
) -> FloatArray:
    """Gain over being out of the model (T&F eq. 18)."""
    vs = v * s
    likelihood = v * q2
    likelihood /= 1.0 + vs
    likelihood -= n_targets * np.log1p(vs)
    likelihood *= 0.5
    if not isinstance(hyperprior, Flat):
        likelihood += hyperprior.log_density(v, noise_var)
        if not lets_out(hyperprior):
            return np.where(v > 0, np.inf, 0.0)
    return likelihood


def _shared_gain(
    hyperprior: Hyperprior,
    s: FloatArray,
    q2: FloatArray,
    v: FloatArray,
    noise_var: float,
    v_now: FloatArray | float,
) -> FloatArray:
    """The same for atoms of several columns."""
    now = np.broadcast_to(np.asarray(v_now, dtype=np.float64), v.shape)
    prior = hyperprior.log_density(v, noise_var)
    some = v != now  # out of the model both times, a prior may be minus infinity both times
    prior[some] -= hyperprior.log_density(now[some], noise_var)
    prior[~some] = 0.0
    return _shared_evidence(s, q2, v, now) + prior


def _shared_evidence(
    s: FloatArray, q2: FloatArray, v: FloatArray, now: FloatArray | float
) -> FloatArray:
    """What the log evidence gains by variances ``v`` over ``now``: a sum over directions."""
    now = np.broadcast_to(np.asarray(now, dtype=np.float64), v.shape)
    change, before = (v - now)[:, None], 1.0 + now[:, None] * s
    after = 1.0 + v[:, None] * s
    worth = 0.5 * (q2 * change / (before * after) - np.log(after / before)).sum(axis=1)
    return np.asarray(worth)


def best_variance(
    hyperprior: Hyperprior, s: FloatArray, q2: FloatArray, noise_var: float, n_targets: int = 1
) -> FloatArray:
    """Variance that maximises the gain, for atoms of one column or of several.

    Parameters
    ----------
    hyperprior : Hyperprior
        Prior of the variance.
    s, q2 : ndarray of shape (k,) or (k, K)
        As in `gain`.
    noise_var : float
        Noise variance.
    n_targets : int, default=1
        Number of targets that share the atoms.

    Returns
    -------
    ndarray of shape (k,)
        Variances, zero where none gains anything.

    Examples
    --------
    Two directions that agree are one atom with two targets.

    >>> import numpy as np
    >>> s, q2 = np.array([[2.0, 2.0]]), np.array([[3.0, 17.0]])
    >>> best_variance(Flat(), s, q2, 1.0).round(4)
    array([2.])
    >>> best_variance(Flat(), np.array([2.0]), np.array([20.0]), 1.0, n_targets=2)
    array([2.])
    """
    if s.ndim == 1:
        return hyperprior.best_variance(s, q2, noise_var, n_targets)
    best = np.zeros(len(s))
    if isinstance(hyperprior, Gamma) and hyperprior.b > 0:
        # A direction, with its share of the prior, rises to its first maximum and falls from its
        # last; so the sum has its maximum in between. Directions in the span have no say.
        known = s > 0
        count = known.sum(axis=1, keepdims=True) * np.ones_like(s)
        ends = hyperprior.maxima(s.ravel(), (count * q2).ravel(), np.maximum(count, 1.0).ravel())
        floor = np.where(known, ends[0].reshape(s.shape), np.inf).min(axis=1)
        ceiling = np.where(known, ends[1].reshape(s.shape), 0.0).max(axis=1)
    else:
        # No direction wants more than its own flat optimum, so the best is below the largest.
        optima = Flat().best_variance(s.ravel(), q2.ravel(), noise_var).reshape(s.shape)
        ceiling = optima.max(axis=1)
        floor = _LOWEST * np.where(optima > 0, optima, np.inf).min(axis=1)
    some = np.flatnonzero(ceiling > 0)
    if some.size:
        ends = floor[some], ceiling[some]
        best[some] = _shared_maximum(hyperprior, s[some], q2[some], ends, noise_var)
    return best


def _shared_maximum(
    hyperprior: Hyperprior,
    s: FloatArray,
    q2: FloatArray,
    ends: tuple[FloatArray, FloatArray],
    noise_var: float,
) -> FloatArray:
    """The best of a grid in log v, refined by golden sections between its neighbors."""
    grid = np.linspace(np.log(ends[0]), np.log(ends[1]), _GRID)  # (grid, k)

    def worth(u: FloatArray) -> FloatArray:
        v = np.exp(u)
        after = 1.0 + v[..., None] * s
        evidence = 0.5 * (q2 * v[..., None] / after - np.log(after)).sum(axis=-1)
        prior = hyperprior.log_density(v.ravel(), noise_var).reshape(v.shape)
        return np.asarray(evidence + prior)

    at_once = s.size <= _FEW  # else a table of the whole grid takes memory, and no less time
    peak = (worth(grid) if at_once else np.stack([worth(u) for u in grid])).argmax(axis=0)
    each = np.arange(len(s))
    low, high = grid[np.maximum(peak - 1, 0), each], grid[np.minimum(peak + 1, _GRID - 1), each]
    ratio = 0.5 * (5.0**0.5 - 1.0)
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    heights = worth(np.stack([left, right]))
    for _ in range(_SECTIONS):
        rising = heights[1] > heights[0]
        low, high = np.where(rising, left, low), np.where(rising, high, right)
        new = np.where(rising, low + ratio * (high - low), high - ratio * (high - low))
        left, right = np.where(rising, right, new), np.where(rising, new, left)
        found = worth(new)
        heights = np.where(rising, [heights[1], found], [found, heights[0]])
    middle = 0.5 * (low + high)
    v = np.exp(middle)
    return np.where(worth(middle) > 0, v, 0.0) if lets_out(hyperprior) else v


@dataclass(frozen=True)
class Smoothness:
    """Noise-dependent smoothness prior ``log p(v) = -c v / (v + noise)`` (Schmolck & Everson 2007).

    The exponent counts the degrees of freedom that an atom of unit norm takes, so ``c`` is the
    price of one parameter in nats: 1 is Akaike's criterion, ``log(N) / 2`` the Bayesian one (BIC)
    and ``log(M)`` the risk inflation criterion (RIC), which pays for having searched M atoms.

    Parameters
    ----------
    c : float
        Price of a degree of freedom, at least 0.

    Examples
    --------
    An orthonormal atom is active if and only if its squared z-score exceeds ``1 + 2 c``.

    >>> import numpy as np
    >>> prior = Smoothness(c=2.0)
    >>> prior.best_variance(np.ones(2), np.array([4.9, 5.1]), noise_var=1.0).round(3)
    array([0. , 0.1])
    """

    c: float

    def __post_init__(self) -> None:
        if not (np.isfinite(self.c) and self.c >= 0):
            raise ValueError(f"Smoothness(c): c must be a finite number >= 0, got {self.c!r}.")

    @property
    def is_flat(self) -> bool:
        """Whether a degree of freedom costs nothing."""
        return self.c == 0

    def log_density(self, v: FloatArray, noise_var: float) -> FloatArray:
        """Return ``-c v / (v + noise)`` (S&E eq. 33)."""
        return -self.c * (v / (v + noise_var))

    def log_normalizer(self, noise_var: float, low: float = 1e-10, high: float = 1e10) -> float:
        """Logarithm of the integral of the density over the precision 1 / v (S&E eq. 17).

        The density is improper; restricted to a range of precisions it is not. In the log
        posterior of the paper (eq. 60) each active atom pays this, at the paper's own range; it
        hardly depends on the noise, and no solver needs it.

        Parameters
        ----------
        noise_var : float
            Noise variance.
        low, high : float, default=1e-10, 1e10
            Range of the precision.

        Returns
        -------
        float
            The logarithm.

        Examples
        --------
        >>> round(Smoothness(2.0).log_normalizer(0.01), 6)
        23.025851
        """
        return smoothness_log_normalizer(self.c, noise_var, low, high)

    def log_derivatives(self, v: FloatArray, noise_var: float) -> LogDerivatives:
        """Return the derivatives: the density is a logistic function of log v - log noise."""
        x = v / (v + noise_var)
        slope = self.c * x * (1.0 - x)
        bend = slope * (1.0 - 2.0 * x)
        return LogDerivatives(-slope, -bend, slope, bend, -bend)

    def best_variance(
        self, s: FloatArray, q2: FloatArray, noise_var: float, n_targets: int = 1
    ) -> FloatArray:
        """Return the maximum at finite variance where it beats zero, else zero."""
        flat = Flat().best_variance(s, q2, noise_var, n_targets)
        best = np.zeros_like(flat)
        # The prior only lowers the gain: atoms without a flat maximum have none here either.
        some = np.flatnonzero(flat > 0)
        if self.c == 0 or some.size == 0:
            return flat
        # In units of the noise precision: a = noise / v, sparsity sigma, squared quality theta.
        sigma, theta = s[some] * noise_var, q2[some] * noise_var
        start = noise_var / flat[some]
        a, exists = _first_root(sigma, theta, start, self.c, n_targets)
        v = np.where(exists, noise_var / a, 0.0)
        # S&E algorithm 1, line 11, must also test that the maximum is worth more than nothing.
        v[gain(self, s[some], q2[some], v, noise_var, n_targets) <= 0] = 0.0
        best[some] = v
        return best


def _first_root(
    sigma: FloatArray, theta: FloatArray, start: FloatArray, c: float, n_targets: int
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Smallest positive root of the cubic of S&E eq. 51, which is the maximum (their section 6.3).

    P(a) = [T sigma (a + sigma) - theta a] (1 + a)^2 + 2 c a (a + sigma)^2 is positive at ``start``,
    the root for c = 0, and has no root to its left.
    """
    slope = n_targets * sigma - theta  # negative
    b3 = slope + 2 * c
    b2 = n_targets * sigma**2 + 2 * slope + 4 * c * sigma
    b1 = 2 * n_targets * sigma**2 + slope + 2 * c * sigma**2
    b0 = n_targets * sigma**2

    def cubic(a: FloatArray) -> FloatArray:
        return ((b3 * a + b2) * a + b1) * a + b0

    # The right end of a bracket: the local minimum if the cubic finally rises, else doubling.
    disc = b2 * b2 - 3 * b3 * b1
    with np.errstate(invalid="ignore", divide="ignore"):
        minimum = (-b2 + np.sqrt(disc)) / (3 * b3)
        # the same root of the derivative without cancellation where b2 > 0
        stable = -b1 / (b2 + np.sqrt(disc))
    minimum = np.where(b2 > 0, stable, minimum)
    rising = (b3 > 0) | ((b3 == 0) & ((b2 > 0) | ((b2 == 0) & (b1 >= 0))))
    exists = np.where(rising, (disc >= 0) & (minimum > start), True)
    high = np.where(rising & exists, minimum, 2 * start)
    exists &= np.where(rising, cubic(np.where(exists, high, start)) <= 0, True)
    falling = ~rising
    while True:
        short = falling & (cubic(high) > 0)
        if not short.any():
            break
        high = np.where(short, 4 * high, high)

    return bracketed_root((b3, b2, b1, b0), start, high, exists), exists
