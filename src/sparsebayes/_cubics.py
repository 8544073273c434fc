"""Roots of cubics, of many at once: where one-dimensional problems of a variance end."""

import math

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
Cubic = tuple[FloatArray, FloatArray, FloatArray, FloatArray]  # b3, b2, b1, b0

__all__ = ["bracketed_root", "falling_roots"]

_FEW = 16  # cubics that are solved one by one
_ROOT_STEPS = 60  # a bracketed Newton search on a cubic needs about ten; bisection alone fifty


def bracketed_root(
    cubic: Cubic, low: FloatArray, high: FloatArray, wanted: NDArray[np.bool_]
) -> FloatArray:
    """A root of each cubic between two ends above zero.

    Parameters
    ----------
    cubic : tuple of ndarray of shape (k,)
        Coefficients, that of the cube first.
    low, high : ndarray of shape (k,)
        Where a cubic is positive and where it is not.
    wanted : ndarray of bool of shape (k,)
        Cubics whose root matters; the others need none.

    Returns
    -------
    ndarray of shape (k,)
        Roots.

    Examples
    --------
    >>> import numpy as np
    >>> one = np.ones(1)
    >>> bracketed_root((-one, 0 * one, 0 * one, 8 * one), one, 3 * one, one > 0)
    array([2.])
    """
    if len(low) <= _FEW:
        found = low.copy()
        rows = np.stack([*cubic, low, high], axis=1)
        for i in np.flatnonzero(wanted).tolist():
            found[i] = _root(*rows[i].tolist())
        return found
    b3, b2, b1, b0 = cubic
    c2, c1 = 3 * b3, 2 * b2  # of the derivative
    idle = ~wanted
    a = low
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for _ in range(_ROOT_STEPS):
            value = ((b3 * a + b2) * a + b1) * a + b0
            low = np.where(value > 0, a, low)
            high = np.where(value <= 0, a, high)
            step = a - value / ((c2 * a + c1) * a + b1)
            inside = (step >= low) & (step <= high)
            if not inside.all():
                step = np.where(inside, step, np.sqrt(low) * np.sqrt(high))
            if (idle | (np.abs(step - a) <= 1e-14 * a)).all():
                return step
            a = step
    return a


def _root(b3: float, b2: float, b1: float, b0: float, low: float, high: float) -> float:
    """The positive root of one cubic: for a few, numbers are faster than arrays."""
    a = low
    for _ in range(_ROOT_STEPS):
        value = ((b3 * a + b2) * a + b1) * a + b0
        if value > 0:
            low = a
        else:
            high = a
        slope = (3 * b3 * a + 2 * b2) * a + b1
        step = a - value / slope if slope else math.inf
        if not low <= step <= high:
            step = math.sqrt(low) * math.sqrt(high)
        if abs(step - a) <= 1e-14 * a:
            return step
        a = step
    return a


def falling_roots(cubic: Cubic) -> tuple[FloatArray, FloatArray]:
    """First and last positive root of cubics that are positive at zero and fall in the end.

    There a function whose derivative has the sign of the cubic has its maxima: one or two.

    Parameters
    ----------
    cubic : tuple of ndarray of shape (k,)
        Coefficients, that of the cube, which is negative, first; the last is positive.

    Returns
    -------
    first, last : ndarray of shape (k,)
        The same where there is but one.

    Examples
    --------
    >>> import numpy as np
    >>> falling_roots(tuple(np.array([c]) for c in (-1.0, 6.0, -11.0, 6.0)))  # 1, 2 and 3
    (array([1.]), array([3.]))
    """
    b3, b2, b1, b0 = cubic
    fall = -b3
    with np.errstate(divide="ignore"):
        # Closer to zero b0 outweighs the other terms together, farther away b3 does.
        low = 0.5 * np.minimum(b0 / (3 * np.abs(b1)), np.sqrt(b0 / (3 * np.abs(b2))))
    low = np.minimum(low, 0.5 * np.cbrt(b0 / (3 * fall)))
    high = 2 * np.maximum(3 * np.abs(b2) / fall, np.sqrt(3 * np.abs(b1) / fall))
    high = np.maximum(high, 2 * np.cbrt(3 * b0 / fall))
    disc = b2 * b2 - 3 * b3 * b1
    turns = (b2 > 0) & (b1 < 0) & (disc > 0)
    top = np.where(turns, (b2 + np.sqrt(np.maximum(disc, 0.0))) / (3 * fall), 1.0)
    dip = np.where(turns, -b1 / (3 * fall * top), 1.0)

    def value(x: FloatArray) -> FloatArray:
        return ((b3 * x + b2) * x + b1) * x + b0

    two = turns & (value(dip) < 0) & (value(top) > 0)
    every = np.ones(two.shape, dtype=np.bool_)
    first = bracketed_root(cubic, low, np.where(two, dip, high), every)
    if not two.any():
        return first, first
    return first, np.where(two, bracketed_root(cubic, np.where(two, top, low), high, two), first)
