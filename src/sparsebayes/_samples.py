"""Samples before a fit: what their weights mean, and targets in a unit of their own."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparsebayes._row_order import is_new, own_order
from sparsebayes.dictionaries._protocol import is_sparse
from sparsebayes.gamma_prior import Gamma
from sparsebayes.hyperpriors import Hyperprior
from sparsebayes.noise_priors import NoisePrior

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = [
    "SMALLEST_NOISE",
    "Samples",
    "check_total_weight",
    "checked_weights",
    "copies",
    "gather",
    "hyperprior_in_units",
    "noise_in_units",
    "prior_in_units",
    "standardized",
    "unit_of_range",
    "weights_of_some",
]

SMALLEST_NOISE, _LARGEST_NOISE = 1e-32, 1e200  # variances in the unit of the targets, squared

_LARGEST_EXPONENT = 502  # 2^502 = 1e151: squares of targets, the units of variances, stay in range
_SMALLEST_CONSTANT = 1e-130  # so that the rounding error of a constant target has a square


def checked_weights(sample_weight: ArrayLike | None, n: int) -> FloatArray | None:
    """Weights as a float array, None where they are all one.

    Parameters
    ----------
    sample_weight : array-like of shape (n,), a number or None
        Weights as given.
    n : int
        Number of samples.

    Returns
    -------
    ndarray of shape (n,) or None
        Weights, not negative, whose sum counts as the number of samples.

    Examples
    --------
    >>> checked_weights([2, 0, 1], 3)
    array([2., 0., 1.])
    >>> checked_weights([1, 1, 1], 3) is None
    True
    """
    weights = weights_of_some(sample_weight, n)
    if weights is not None:
        with np.errstate(over="ignore"):
            check_total_weight(float(weights.sum()))
    return weights


def weights_of_some(sample_weight: ArrayLike | None, n: int) -> FloatArray | None:
    """The same for samples that are not all there are: whatever their sum.

    Parameters
    ----------
    sample_weight : array-like of shape (n,), a number or None
        Weights as given.
    n : int
        Number of these samples.

    Returns
    -------
    ndarray of shape (n,) or None
        Weights, not negative.

    Examples
    --------
    >>> weights_of_some([0.25, 0.0], 2)
    array([0.25, 0.  ])
    """
    if sample_weight is None:
        return None
    given = np.asarray(sample_weight)
    if given.dtype.kind == "c":
        raise ValueError("sample_weight must be real numbers, got complex ones.")
    try:
        weights = given.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"sample_weight must be numbers, got an array of {given.dtype}.") from None
    if weights.ndim == 0:
        weights = np.full(n, float(weights))
    if weights.shape != (n,):
        raise ValueError(
            f"sample_weight.shape == {weights.shape}, expected ({n},): one weight per row of X."
        )
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError("sample_weight must be finite and not negative.")
    return None if (weights == 1).all() else weights


def check_total_weight(total: float) -> None:
    """Refuse weights whose sum cannot be a number of samples.

    Parameters
    ----------
    total : float
        Sum of all weights.

    Examples
    --------
    >>> check_total_weight(0.0)
    Traceback (most recent call last):
    ...
    ValueError: sample_weight is zero for every sample: nothing is left to fit.
    """
    if total == 0:
        raise ValueError("sample_weight is zero for every sample: nothing is left to fit.")
    if not 2 <= total < 1e15:
        raise ValueError(
            f"sample_weight sums to {total:g}; a weight counts repetitions of its row, so the sum "
            "is the number of samples and must be at least 2 (and below 1e15): multiply the "
            "weights by a constant, e.g. so that their mean is 1."
        )


def copies(weights: FloatArray | None) -> float:
    """Weight beyond one of each row: it makes a row more certain, and is no other one.

    Parameters
    ----------
    weights : ndarray of shape (n,) or None
        Weights of rows that are all different; None where they are one.

    Returns
    -------
    float
        How many of the samples that the weights count are copies.

    Examples
    --------
    >>> copies(np.array([3.0, 1.0, 0.5])), copies(None)
    (2.0, 0.0)
    """
    return 0.0 if weights is None else float(np.maximum(weights - 1.0, 0.0).sum())


class Samples(NamedTuple):
    """What a fit sees of the data."""

    X: Any  # (N, d)
    y: FloatArray  # (N, T)
    weights: FloatArray | None  # (N,) positive; None where all are one
    rows: IndexArray | None  # (N,) first row of the user's X equal to each; None for all, in order

    @property
    def total(self) -> float:
        """Number of samples, weights counted."""
        return float(len(self.y) if self.weights is None else self.weights.sum())


def gather(
    X: Any, y: FloatArray, weights: FloatArray | None, *, pairwise: bool, ordered: bool = False
) -> Samples:
    """Leave out samples of weight zero, and make equal samples one of their joint weight.

    Weighted samples are sorted. So weights equal repetition to the last bit, in any order of rows,
    even where a fit is so degenerate that rounding decides which of many models it finds.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (N, d)
        Inputs.
    y : ndarray of shape (N, T)
        Targets.
    weights : ndarray of shape (N,) or None
        As `checked_weights` gives them.
    pairwise : bool
        Whether X is a kernel matrix: then samples are left out, columns too, but not merged.
    ordered : bool, default=False
        Whether samples are brought into the order that `own_order` gives them, so that a fit is
        the same to the last bit in any order of rows: where kernels sit at the rows, which would
        otherwise be tried, and drawn, in the order of these. Not those of a kernel matrix.

    Returns
    -------
    Samples
        The arrays themselves where there is nothing to do.

    Examples
    --------
    >>> import numpy as np
    >>> X, y = np.array([[5.0], [3.0], [5.0], [4.0]]), np.array([[1.0], [2.0], [1.0], [0.0]])
    >>> samples = gather(X, y, None, pairwise=False)
    >>> samples.X.ravel(), samples.weights, samples.rows
    (array([3., 4., 5.]), array([1., 1., 2.]), array([1, 3, 0]))
    """
    samples = _distinct(X, y, weights, pairwise)
    return samples if pairwise or not ordered else _sorted(samples)


def _sorted(samples: Samples) -> Samples:
    """The same samples in their own order; the arrays themselves where they are."""
    order = own_order(samples.X, samples.y)
    if (np.diff(order) == 1).all():
        return samples
    X, weights = samples.X[order], samples.weights
    rows = order if samples.rows is None else samples.rows[order]
    starts = np.flatnonzero(is_new(X))
    if starts.size < len(order):  # the first of the user's rows stands for all that equal it
        size = np.diff(np.append(starts, len(order)))
        rows = np.repeat(np.minimum.reduceat(rows, starts), size)
    return Samples(X, samples.y[order], None if weights is None else weights[order], rows)


def _distinct(X: Any, y: FloatArray, weights: FloatArray | None, pairwise: bool) -> Samples:
    """Samples of some weight, equal ones once."""
    n = len(y)
    rows = None
    if weights is not None:
        rows = np.flatnonzero(weights)
        weights = None if (weights[rows] == 1).all() else weights[rows]
        if rows.size == n:
            rows = None
        else:
            X, y = X[rows], y[rows]
            X = X[:, rows] if pairwise else X
    # Different targets tell samples apart cheaply.
    if pairwise or (weights is None and len(np.unique(y[:, 0])) == len(y)):
        return Samples(X, y, weights, rows)
    first, group = _groups(X)
    order = np.lexsort((*y.T[::-1], group))
    same = (np.diff(group[order]) == 0) & (y[order[1:]] == y[order[:-1]]).all(axis=1)
    if weights is None and not same.any():
        return Samples(X, y, weights, rows)
    starts = np.concatenate([[0], 1 + np.flatnonzero(~same)])
    w = np.ones(len(y)) if weights is None else weights
    chosen = order[starts]
    position = first[group[chosen]]
    return Samples(
        X[chosen],
        y[chosen],
        np.add.reduceat(w[order], starts),
        position if rows is None else rows[position],
    )


def _groups(X: Any) -> tuple[IndexArray, IndexArray]:
    """Groups of equal rows: the first of each group, and the group of each row."""
    if is_sparse(X):
        clean = X.copy()
        clean.sort_indices()
        clean.eliminate_zeros()
        ends = list(zip(clean.indptr[:-1], clean.indptr[1:], strict=True))
        bits = [clean.indices[a:b].tobytes() + clean.data[a:b].tobytes() for a, b in ends]
        names = {key: i for i, key in enumerate(sorted(set(bits)))}
        group = np.array([names[key] for key in bits], dtype=np.intp)
        return np.unique(group, return_index=True)[1], group
    d = X.shape[1]
    rows = np.ascontiguousarray(X + 0.0)  # -0.0 becomes 0.0
    keys = rows.view(np.dtype((np.void, rows.itemsize * d))).ravel()
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    return first, group


def standardized(
    y: FloatArray, weights: FloatArray | None, center: bool
) -> tuple[FloatArray, FloatArray, float]:
    """Targets about their mean (with an intercept), in a unit of their own size.

    The unit is a power of two, so nothing is rounded; targets of 1e150 and 1e-150 look alike to
    the engine.

    Parameters
    ----------
    y : ndarray of shape (N, T)
        Targets.
    weights : ndarray of shape (N,) or None
        Weight of each row.
    center : bool
        Whether to subtract the mean.

    Returns
    -------
    t : ndarray of shape (N, T)
        ``(y - shift) / scale``; zero where y is constant up to rounding.
    shift : ndarray of shape (T,)
        What was subtracted.
    scale : float
        The unit.

    Examples
    --------
    >>> import numpy as np
    >>> t, shift, scale = standardized(np.array([[7.0], [13.0]]), None, center=True)
    >>> t.ravel(), shift, scale
    (array([-0.75,  0.75]), array([10.]), 4.0)
    """
    peak = float(np.abs(y).max(initial=0.0))
    shift = np.zeros(y.shape[1])
    if np.frexp(peak)[1] > _LARGEST_EXPONENT:
        raise ValueError(_out_of_range(peak))
    t = y
    if center and peak > 0:
        unit = _power_of_two(peak)
        shift = np.average(y / unit, axis=0, weights=weights) * unit
        # A second pass: the mean of many values is rounded, that of their differences from it not.
        shift += np.average((y - shift) / unit, axis=0, weights=weights) * unit
        t = y - shift
        rounding = 4 * np.finfo(float).eps * np.abs(y).max(axis=0)
        t[:, np.abs(t).max(axis=0) <= rounding] = 0.0
    spread = float(np.abs(t).max(initial=0.0))
    if spread > 0 and np.frexp(spread)[1] < -_LARGEST_EXPONENT:
        raise ValueError(_out_of_range(spread))
    scale = _power_of_two(spread or (max(peak, _SMALLEST_CONSTANT) if peak else 1.0))
    return t / scale, shift, scale


def unit_of_range(
    low: FloatArray, high: FloatArray, mean: FloatArray, center: bool
) -> tuple[FloatArray, float, NDArray[np.bool_]]:
    """The same where targets are not in memory: what is subtracted, the unit, which are constant.

    Parameters
    ----------
    low, high, mean : ndarray of shape (T,)
        Of the targets.
    center : bool
        Whether to subtract the mean.

    Returns
    -------
    shift : ndarray of shape (T,)
        What is to be subtracted.
    scale : float
        The unit.
    constant : ndarray of bool of shape (T,)
        Targets of which nothing but rounding would be left.

    Examples
    --------
    >>> import numpy as np
    >>> unit_of_range(np.array([7.0]), np.array([13.0]), np.array([10.0]), center=True)
    (array([10.]), 4.0, array([False]))
    """
    sizes = np.maximum(np.abs(low), np.abs(high))
    peak = float(sizes.max(initial=0.0))
    if np.frexp(peak)[1] > _LARGEST_EXPONENT:
        raise ValueError(_out_of_range(peak))
    shift = mean.copy() if center and peak > 0 else np.zeros(len(low))
    away = np.maximum(high - shift, shift - low)
    constant = (away <= 4 * np.finfo(float).eps * sizes) & (center or sizes == 0)
    spread = float(np.where(constant, 0.0, away).max(initial=0.0))
    if spread > 0 and np.frexp(spread)[1] < -_LARGEST_EXPONENT:
        raise ValueError(_out_of_range(spread))
    scale = _power_of_two(spread or (max(peak, _SMALLEST_CONSTANT) if peak else 1.0))
    return shift, scale, constant


def noise_in_units(noise_variance: float, scale: float, of: str = "y") -> float:
    """Noise variance of targets that are divided by ``scale``.

    Parameters
    ----------
    noise_variance : float
        In the unit of the user, squared.
    scale : float
        The unit.
    of : str, default="y"
        What the user calls the targets, for the message.

    Returns
    -------
    float
        The variance; a ValueError where float64 cannot hold both.

    Examples
    --------
    >>> noise_in_units(16.0, 2.0)
    4.0
    """
    return _in_units(noise_variance, scale, f"noise_variance={noise_variance:g}", of)


def prior_in_units(prior: NoisePrior, scale: float, of: str = "y") -> NoisePrior:
    """Prior of that variance.

    Parameters
    ----------
    prior : InverseGamma or LogGamma
        In the unit of the user, squared.
    scale : float
        The unit.
    of : str, default="y"
        What the user calls the targets, for the message.

    Returns
    -------
    InverseGamma or LogGamma
        The prior; a ValueError where float64 cannot hold both.

    Examples
    --------
    >>> from sparsebayes.noise_priors import InverseGamma
    >>> prior_in_units(InverseGamma(3.0, 16.0), 2.0)
    InverseGamma(g=3.0, h=4.0)
    """
    if prior.h == 0:
        return prior
    named = f"the scale h={prior.h:g} of noise_prior"
    return replace(prior, h=_in_units(prior.h, scale, named, of))


def hyperprior_in_units(prior: Hyperprior, scale: float) -> Hyperprior:
    """Prior of the variances of weights of atoms of unit norm.

    Parameters
    ----------
    prior : Hyperprior
        In the unit of the user, squared, if it has one.
    scale : float
        The unit.

    Returns
    -------
    Hyperprior
        The prior; a ValueError where float64 cannot hold both.

    Examples
    --------
    >>> hyperprior_in_units(Gamma(1.0, 16.0), 2.0)
    Gamma(a=1.0, b=4.0)
    """
    if not isinstance(prior, Gamma) or prior.b == 0:
        return prior
    return Gamma(prior.a, _in_units(prior.b, scale, f"the rate b={prior.b:g} of prior", "y"))


def _in_units(variance: float, scale: float, named: str, of: str) -> float:
    found = float(np.float64(variance) ** 0.5 / scale) ** 2
    if not SMALLEST_NOISE <= found <= _LARGEST_NOISE:
        raise ValueError(
            f"{named} is out of proportion to {of}, whose values spread over about {scale:.0e}: "
            "float64 cannot hold both."
        )
    return found


def _out_of_range(value: float) -> str:
    return (
        f"y has values of size {value:.0e}, whose squares leave the range of float64: give y in "
        "another unit (from 1e-150 to 1e+150)."
    )


def _power_of_two(value: float) -> float:
    return float(np.ldexp(1.0, int(np.frexp(value)[1])))
