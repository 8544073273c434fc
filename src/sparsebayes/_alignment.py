"""Values beside predictions: one for each row (and target), and probabilities among them."""

import numbers

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]

__all__ = ["aligned", "aligned_chances", "checked_level"]


def aligned(values: ArrayLike, mean: FloatArray) -> FloatArray:
    """Values as an array, refused where they are of another number or would cross rows with rows.

    Parameters
    ----------
    values : array-like
        One for each row (and target), or what broadcasts against them.
    mean : ndarray of shape (n,) or (n, T)
        What they are for.

    Returns
    -------
    ndarray
        The values.

    Examples
    --------
    >>> import numpy as np
    >>> aligned([1, 2], np.zeros(2))
    array([1., 2.])
    """
    array = np.asarray(values, dtype=float)
    rows = len(mean)
    try:
        np.broadcast_shapes(array.shape, mean.shape)
        fits = mean.ndim == 1 or array.shape != (rows,) or rows == mean.shape[1]
    except ValueError:
        fits = False
    if not fits:
        of = "row" if mean.ndim == 1 else "row and target"
        raise ValueError(
            f"expected values of shape {mean.shape}, one for each {of}, got {array.shape}."
        )
    return array


def aligned_chances(values: ArrayLike, mean: FloatArray) -> FloatArray:
    """Probabilities as an array, checked to be such.

    Parameters
    ----------
    values : array-like
        As in `aligned`.
    mean : ndarray of shape (n,) or (n, T)
        What they are for.

    Returns
    -------
    ndarray
        The probabilities.

    Examples
    --------
    >>> import numpy as np
    >>> aligned_chances(0.5, np.zeros(2))
    array(0.5)
    """
    chances = aligned(values, mean)
    if not ((chances >= 0) & (chances <= 1)).all():
        raise ValueError("probability must lie between 0 and 1.")
    return chances


def checked_level(level: float) -> float:
    """Probability of an interval, strictly between 0 and 1.

    Parameters
    ----------
    level : float
        As given.

    Returns
    -------
    float
        The same; a ValueError for anything else.

    Examples
    --------
    >>> checked_level(0.9)
    0.9
    """
    if not (isinstance(level, numbers.Real) and 0 < level < 1):
        raise ValueError(f"level must lie between 0 and 1, got {level!r}.")
    return level
