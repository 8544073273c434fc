"""The best of all widths: one number, whose whole range is looked at.

Kernels that share one variance, or the covariance of a Gaussian process, leave three numbers to
find: width, variance and noise. For each width the other two are maximized at the price of one
eigendecomposition, so that all widths, a factor of four in gamma apart, are looked at, and none is
missed as by a climb.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

__all__ = ["RANK", "Top", "highest", "profile"]

RANK = 1e-13  # of the largest eigenvalue: what is less is rounding
_STEP = np.log(2.0)  # between log gammas
_COARSE = 2  # steps at first
_FINE = 32  # the width found is a multiple of that part of a step: rounding does not show
# Power of the function, in units of that of the noise.
_RATIOS = np.log(10.0) * np.arange(-6.0, 9.05, 0.1)
_LEAST_NOISE = 1e-9  # of the power of the targets


class Top(NamedTuple):
    """The best width, and the noise with it."""

    theta: FloatArray  # (1,)
    noise: float  # as a fraction of the power of the targets; nan where no width can be looked at


def highest(
    atoms: Any, evidences: Sequence[Callable[[Any], tuple[float, float]]], pull: FloatArray
) -> Top:
    """The width of the highest evidence, times a normal prior around that of the atoms.

    Parameters
    ----------
    atoms : KernelAtoms
        With one width to learn.
    evidences : sequence of callables
        From these atoms with another width to log evidence and noise, of more and more rows: the
        first looks at the whole range, the last climbs from where it is best.
    pull : ndarray of shape (1,)
        Precision of the prior of the log width.

    Returns
    -------
    Top
        Within the bounds; the width as it is where none has an evidence.

    Examples
    --------
    >>> from sparsebayes.dictionaries import Kernel
    >>> atoms = Kernel("rbf", gamma="evidence").bind(np.linspace(0, 1, 9)[:, None])
    >>> top = highest(atoms, [lambda now: (-(now.theta[0] - 3.0) ** 2, 0.1)], np.zeros(1))
    >>> top.theta.round(1), top.noise
    (array([3.]), 0.1)
    """
    begin, (low, high) = float(atoms.theta[0]), atoms.bounds[0]
    first, last = (int((end - begin) / _STEP) for end in (low, high))
    found: dict[int, tuple[float, float]] = {}

    def looked(k: int, evidence: Callable[[Any], tuple[float, float]]) -> float:
        """Height of the log width that is k steps from the start."""
        if k not in found:
            shift = k * _STEP
            inside = low <= begin + shift <= high
            at = evidence(atoms.with_theta([begin + shift])) if inside else (-np.inf, np.nan)
            found[k] = at[0] - 0.5 * float(pull[0]) * shift**2, at[1]
        return found[k][0]

    coarse = range(-(-first // _COARSE) * _COARSE, last + 1, _COARSE)
    best = max(coarse, key=lambda k: looked(k, evidences[0]))
    if len(evidences) > 1:
        found.clear()

    def beside(k: int) -> int:
        """The best of three neighbors."""
        return max((k, k - 1, k + 1), key=lambda j: looked(j, evidences[-1]))

    while (better := beside(best)) != best:
        best = better
    below, at, above = (found[best + side][0] for side in (-1, 0, 1))
    if not np.isfinite(at):  # no atom varies, whatever its width
        return Top(np.array([begin]), np.nan)
    part = 0.0
    if np.isfinite([below, above]).all() and (bend := below - 2.0 * at + above) < 0:
        part = 0.5 * (below - above) / bend  # the vertex of the parabola through three points
    return Top(np.array([begin + (best + round(part * _FINE) / _FINE) * _STEP]), found[best][1])


def profile(
    s: FloatArray,
    explained: FloatArray,
    tt: float,
    n: float,
    n_targets: int,
    noise_var: float | None,
) -> tuple[float, float]:
    """Log evidence, but for a constant, at the best variance of a function and of the noise.

    Parameters
    ----------
    s : ndarray of shape (k,)
        Eigenvalues, not zero, of the covariance of the function, but for its variance.
    explained : ndarray of shape (k,)
        Squares of the targets along each eigenvector, summed over the targets.
    tt : float
        Squares of the targets in all.
    n : float
        Number of observations of each target.
    n_targets : int
        Number of targets.
    noise_var : float or None
        Noise variance; None to maximize over it.

    Returns
    -------
    height : float
        Log evidence; minus infinity where there is no eigenvalue, or nothing to explain.
    noise : float
        Noise variance there, as a fraction of the power of the targets.

    Examples
    --------
    >>> profile(np.ones(2), np.array([4.0, 4.0]), 9.0, 10.0, 1, 0.5)[1]
    0.5555555555555556
    """
    if not s.size or not tt > 0:
        return -np.inf, np.nan
    n_terms = n * n_targets
    power = tt / n_terms
    # I + v C / noise has the eigenvalues 1 + ratio s / (mean s), and ones.
    D = 1.0 + np.exp(_RATIOS)[:, None] * (n * s / s.sum())
    left = (explained / D).sum(axis=1) + max(tt - float(explained.sum()), 0.0)
    noise = left / n_terms if noise_var is None else np.full(len(left), noise_var)
    noise = np.maximum(noise, _LEAST_NOISE * power)
    heights = n_targets * np.log(D).sum(axis=1) + n_terms * np.log(noise) + left / noise
    lowest = int(heights.argmin())
    return float(-0.5 * heights[lowest]), float(noise[lowest] / power)
