"""What a signal may be, and the settings that go with it."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsebayes._counting import is_pairwise
from sparsebayes._denoising import Setup
from sparsebayes._hyperprior import refuse_if_never_out
from sparsebayes._settings import is_count, is_positive, resolve_noise_prior, resolve_prior
from sparsebayes._wavelet_transforms import checked_name
from sparsebayes.dictionaries._protocol import is_dictionary, is_sparse
from sparsebayes.estimators._base import seeded

FloatArray = NDArray[np.float64]

__all__ = ["checked_setup", "checked_signal", "checked_wavelet", "inputs"]


def checked_signal(signal: Any, axis: Any = None) -> tuple[FloatArray, int]:
    """Real numbers as float64, NaN where a sample is missing; the array itself where it will do.

    Parameters
    ----------
    signal : array-like
        As given; entries that are masked are missing.
    axis : int or None
        The axis along which lines are signals; None for one signal or image.

    Returns
    -------
    data : ndarray
        NaN or finite.
    missing : int
        Number of NaN in it.

    Examples
    --------
    >>> checked_signal([1, 2, None])
    (array([ 1.,  2., nan]), 1)
    """
    if np.ma.isMaskedArray(signal):
        signal = np.ma.filled(signal.astype(np.float64), np.nan)
    data = _numbers(signal)
    if data.size == 0:
        raise ValueError("the signal is empty.")
    if data.ndim == 0:
        raise ValueError(f"the signal must be an array of numbers, got {signal!r}.")
    if axis is not None:
        if isinstance(axis, bool) or not isinstance(axis, numbers.Integral):
            raise TypeError(f"axis must be None or an integer, got {axis!r}.")
        if not -data.ndim <= int(axis) < data.ndim:
            raise ValueError(f"axis={axis} is not an axis of an array of shape {data.shape}.")
    elif data.ndim not in (1, 2):
        raise ValueError(
            f"a signal has one axis and an image two, but the array has shape {data.shape}: give "
            "axis= to denoise every line along it, or denoise its slices."
        )
    if (data.size if axis is None else data.shape[axis]) < 2:
        raise ValueError("the signal has one sample only; at least two are needed.")
    # The sum of finite numbers is finite, or they are out of range: one pass for what is rare.
    with np.errstate(over="ignore", invalid="ignore"):
        total = float(data.sum())
    if np.isfinite(total):
        return data, 0
    if np.isinf(data).any():
        place = [int(i) for i in np.argwhere(np.isinf(data))[0]]
        where = place[0] if len(place) == 1 else tuple(place)
        raise ValueError(f"the signal is infinite at {where}; mark missing samples by NaN.")
    return data, int(np.isnan(data).sum())


def _numbers(signal: Any) -> FloatArray:
    if is_sparse(signal):
        raise TypeError("the signal is a sparse matrix; give a dense array.")
    try:
        given = np.asarray(signal)
    except ValueError:
        raise ValueError("the signal must be an array of numbers, got rows that differ.") from None
    if given.dtype.kind == "c":
        raise ValueError(
            "the signal is complex; denoise its real and its imaginary part one by one."
        )
    if given.dtype.kind == "O":
        return np.array([_number(value) for value in given.ravel()]).reshape(given.shape)
    if given.dtype.kind not in "biuf":
        raise ValueError(f"the signal must be numbers, got an array of {given.dtype}.")
    return given.astype(np.float64, copy=False)


def _number(value: Any) -> float:
    if value is None or str(value) == "<NA>":  # how pandas marks what is missing
        return np.nan
    if not isinstance(value, numbers.Real):
        raise ValueError(f"the signal must be numbers, but holds {value!r}.")
    return float(value)


def checked_setup(
    prior: Any,
    noise_variance: Any,
    noise_prior: Any,
    by_scale: Any,
    tol: Any,
    max_iter: Any,
    random_state: Any,
    verbose: Any,
) -> Setup:
    """Refuse settings that make no sense, with an error that names the first of them.

    Parameters
    ----------
    prior, noise_variance, noise_prior, by_scale, tol, max_iter, random_state, verbose
        As `sparsebayes.denoise` takes them.

    Returns
    -------
    Setup
        The same, checked.

    Examples
    --------
    >>> checked_setup("bic", 2, None, False, 1e-6, 100, 0, False).noise_variance
    2.0
    """
    refuse_if_never_out(resolve_prior(prior, None, 1.0, 1), "denoise")
    named = isinstance(noise_variance, str) and noise_variance == "mad"
    if not (noise_variance is None or named or is_positive(noise_variance)):
        raise ValueError(
            "noise_variance must be None (estimated by the model), 'mad' (from the finest "
            f"wavelets) or a number > 0, got {noise_variance!r}."
        )
    before = resolve_noise_prior(noise_prior)
    if before is not None and noise_variance is not None:
        raise ValueError(
            f"noise_prior={noise_prior!r} is for a noise that the model estimates: noise_variance "
            "must be None."
        )
    if by_scale is not None and not isinstance(by_scale, bool | np.bool_):
        raise TypeError(f"by_scale must be True, False or None, got {by_scale!r}.")
    if not is_positive(tol):
        raise ValueError(f"tol must be a number > 0, got {tol!r}.")
    if not is_count(max_iter, 1):
        raise ValueError(f"max_iter must be an integer >= 1, got {max_iter!r}.")
    if not isinstance(verbose, bool | np.bool_) and not is_count(verbose, 0):
        raise ValueError(f"verbose must be 0, 1 or 2, got {verbose!r}.")
    seeded(random_state)
    return Setup(
        prior=prior,
        noise_variance=noise_variance if noise_variance is None or named else float(noise_variance),
        noise_prior=before,
        by_scale=None if by_scale is None else bool(by_scale),
        tol=float(tol),
        max_iter=int(max_iter),
        random_state=random_state,
        verbose=int(verbose),
    )


def checked_wavelet(wavelet: Any, level: Any) -> None:
    """Refuse what is neither the name of a wavelet nor a dictionary, and levels of the latter.

    Parameters
    ----------
    wavelet : str or dictionary
        As given.
    level : int or None
        As given.

    Examples
    --------
    >>> checked_wavelet("haar", 3)
    """
    if isinstance(wavelet, str):
        checked_name(wavelet)
        if level is not None and not is_count(level, 1):
            raise ValueError(f"level must be None or an integer >= 1, got {level!r}.")
        return
    if not is_dictionary(wavelet):
        raise TypeError(
            "wavelet must be the name of a discrete wavelet, such as 'sym8', or a dictionary, such "
            f"as Wavelet('haar') + Kernel('tps'), got {wavelet!r}."
        )
    if is_pairwise(wavelet):
        raise ValueError("a signal has positions, which a precomputed kernel cannot take.")
    if level is not None:
        raise ValueError("level is one of the dictionary: give Wavelet(name, level=...).")


def inputs(positions: Any, shape: tuple[int, ...]) -> FloatArray:
    """Inputs of a dictionary: positions as given, or sample numbers, or rows and columns.

    Parameters
    ----------
    positions : array-like or None
        As given.
    shape : tuple of one or two ints
        Of the signal or image.

    Returns
    -------
    ndarray of shape (N, d)
        One row for each sample.

    Examples
    --------
    >>> inputs(None, (2, 2)).tolist()
    [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
    """
    if positions is None:
        return np.indices(shape, dtype=np.float64).reshape(len(shape), -1).T.copy()
    given = np.asarray(positions)
    if given.dtype.kind not in "biuf":
        raise ValueError(f"positions must be real numbers, got an array of {given.dtype}.")
    n = int(np.prod(shape))
    if given.ndim not in (1, 2) or len(given) != n or given.size == 0:
        raise ValueError(
            f"positions must have one row for each of {n} samples, got an array of shape "
            f"{given.shape}."
        )
    X = np.array(given.reshape(n, -1), dtype=np.float64, order="C")
    if not np.isfinite(X).all():
        raise ValueError("positions must be finite.")
    return X
