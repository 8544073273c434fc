"""Denoising in closed form: the coefficients of an orthonormal transform, shrunk."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsebayes._samples import SMALLEST_NOISE, noise_in_units, prior_in_units
from sparsebayes._settings import resolve_prior
from sparsebayes._wavelet_transforms import Transform, squared_synthesis
from sparsebayes.core.quadratic import OrthonormalQuadratic
from sparsebayes.dictionaries import Wavelet
from sparsebayes.dictionaries._leveled import LeveledTransform, leveled
from sparsebayes.hyperpriors import Hyperprior
from sparsebayes.noise_priors import NoisePrior
from sparsebayes.problem import Problem, Solution, Status
from sparsebayes.solvers import orthonormal
from sparsebayes.solvers.orthonormal import Prices

FloatArray = NDArray[np.float64]

__all__ = [
    "Outcome",
    "Setup",
    "quiet",
    "shrink",
    "to_atoms",
    "transform_of",
    "without_offset",
]

_EPS = float(np.finfo(float).eps)
_LARGEST_EXPONENT = 502  # squares of values up to 2^502 = 1e151 stay in the range of float64
_NORMAL_MEDIAN = 0.6744897501960817  # of the absolute value of a standard normal number


class Setup(NamedTuple):
    """What a user may choose, checked."""

    prior: Any = "bic"
    noise_variance: float | str | None = None
    noise_prior: NoisePrior | None = None
    by_scale: bool | None = None  # None: for images
    tol: float = 1e-6
    max_iter: int = 10_000
    random_state: Any = None
    verbose: int = 0


class Outcome(NamedTuple):
    """What is known of one signal, in its own units; what costs anything is computed on demand."""

    signal: FloatArray
    coefficients: FloatArray
    noise_variance: float
    offset: float
    log_evidence: float
    dof: float
    n_atoms: int
    solution: Solution
    std: Callable[[], FloatArray]
    parts: Callable[[], list[FloatArray]]
    least_squares: Callable[[], FloatArray] | None = None


class _Unit(NamedTuple):
    shift: float
    scale: float  # a power of two
    constant: bool


def transform_of(wavelet: Any, shape: tuple[int, ...], level: int | None) -> Transform | None:
    """Orthonormal transform that a name or a dictionary stands for; None where it is no such.

    Parameters
    ----------
    wavelet : str or dictionary
        As the user gave it.
    shape : tuple of one or two ints
        Of the signal or image.
    level : int or None
        Of a wavelet given by its name.

    Returns
    -------
    Transform or None
        The transform.

    Examples
    --------
    >>> transform_of("haar", (100,), None).orthonormal, transform_of("bior4.4", (100,), None)
    (True, None)
    """
    if isinstance(wavelet, str):
        transform = _transform(wavelet, shape, level)
    elif type(wavelet) is Wavelet:
        given = wavelet.shape
        own = shape if given is None else (given,) if np.ndim(given) == 0 else tuple(given)
        if own != shape:
            raise ValueError(f"{wavelet!r} does not fit a signal of shape {shape}.")
        transform = Transform(wavelet.name, shape, wavelet.level, wavelet.mode)
    else:
        return None
    return transform if transform.orthonormal else None


_transform = lru_cache(maxsize=16)(Transform)


def shrink(data: FloatArray, transform: Transform, setup: Setup) -> Outcome:
    """Shrink the coefficients of an orthonormal transform: the closed form, in O(N).

    Parameters
    ----------
    data : ndarray of the transform's shape
        Finite.
    transform : Transform
        Orthonormal, of at least one level.
    setup : Setup
        Prior, noise and tolerance.

    Returns
    -------
    Outcome
        Coefficients of the scaling function have a flat prior, as an intercept has.

    Examples
    --------
    >>> import numpy as np
    >>> noisy, transform = np.array([5.0, 5.0, -5.0, -5.0]), Transform("haar", (4,))
    >>> shrink(noisy, transform, Setup(noise_variance=1.0)).signal.round(3)
    array([ 4.949,  4.949, -4.949, -4.949])
    """
    unit = _unit(data, setup)
    work = data - unit.shift
    work *= 1.0 / unit.scale
    if unit.constant:
        work[...] = 0.0
    spread = float(np.vdot(work, work)) / work.size
    coefficients = transform.analyze(work)
    del work
    first = transform.scaling.stop
    details = coefficients[first:]
    noise_var = _given_noise(setup, transform, coefficients, unit)
    # The evidence under a flat prior of the offset; of the other coefficients kept it has none.
    n, tt = float(details.size), float(details @ details)
    log_offset = -0.5 * math.log(data.size)
    before = None
    if setup.noise_prior is not None:
        before = prior_in_units(setup.noise_prior, unit.scale, "the signal")
        more = before.observations(1)
        n, tt, log_offset = n + more.n, tt + more.tt, log_offset + more.log_offset
    quad = OrthonormalQuadratic(details[:, None], tt, n, spread, log_offset)
    problem = Problem(quad, _hyperprior(setup, transform), noise_var)
    solution = orthonormal.solve(problem, tol=setup.tol)
    state = solution.state
    log_evidence = state.log_evidence - details.size * math.log(unit.scale)
    if before is not None:
        log_evidence -= before.log_density(state.noise_var)
    details[:] = 0.0
    details[state.active] = state.mu[:, 0]
    signal = transform.synthesize(coefficients)
    signal *= unit.scale
    signal += unit.shift
    coefficients *= unit.scale
    to_atoms(transform, coefficients)
    noise = _noise_in_use(setup, solution, unit)
    return Outcome(
        signal=signal,
        coefficients=coefficients,
        noise_variance=noise,
        offset=unit.shift,
        log_evidence=log_evidence,
        dof=first - 1.0 + float(state.dof.sum()),
        n_atoms=int(state.active.size),
        solution=quiet(solution) if unit.constant else solution,
        std=partial(_transform_std, transform, solution, 0.0 if noise == 0 else unit.scale),
        parts=partial(without_offset, signal, unit.shift),
        least_squares=partial(_analyzed, transform, data, unit.shift),
    )


def to_atoms(transform: Transform, coefficients: FloatArray) -> None:
    """Turn coefficients of a transform into those of the atoms of `Wavelet`, in place.

    Parameters
    ----------
    transform : Transform
        Whose scaling functions are not those of `Wavelet` where lengths are odd.
    coefficients : ndarray of shape (M,)
        Changed.

    Examples
    --------
    >>> import numpy as np
    >>> transform = Transform("haar", (3,))
    >>> coefficients = transform.analyze(np.ones(3))
    >>> to_atoms(transform, coefficients)
    >>> coefficients.round(3) + 0.0
    array([1.732, 0.   , 0.   ])
    """
    if transform.scaling.stop > 1:
        level = leveled(transform)
        if isinstance(level, LeveledTransform):
            level.reflect(coefficients)


def _hyperprior(setup: Setup, transform: Transform) -> Hyperprior:
    """The prior of all coefficients but those of the scaling function."""
    first = transform.scaling.stop
    shrunk = transform.size - first
    common = resolve_prior(setup.prior, None, math.prod(transform.shape), shrunk)
    by_scale = len(transform.shape) == 2 if setup.by_scale is None else setup.by_scale
    if not by_scale or setup.prior not in ("bic", "ric"):
        return common
    # Given the noise, each subband is a regression on its own data.
    c = np.empty(shrunk)
    for block in transform.blocks:
        if block.slice.start >= first:
            n = block.slice.stop - block.slice.start
            own = slice(block.slice.start - first, block.slice.stop - first)
            c[own] = (0.5 if setup.prior == "bic" else 1.0) * math.log(n)
    return Prices(c)


def _given_noise(
    setup: Setup, transform: Transform, coefficients: FloatArray, unit: _Unit
) -> float | None:
    if isinstance(setup.noise_variance, float):
        return noise_in_units(setup.noise_variance, unit.scale, "the signal")
    if setup.noise_variance is None or unit.constant:
        return None
    finest = coefficients[transform.blocks[-1].slice]
    noise = (float(np.median(np.abs(finest))) / _NORMAL_MEDIAN) ** 2
    if not noise >= SMALLEST_NOISE:
        raise ValueError(
            "noise_variance='mad' finds no noise: at least half of the finest coefficients are "
            "zero. Give a number, or None."
        )
    return noise


def _unit(data: FloatArray, setup: Setup) -> _Unit:
    """The mean, and the power of two above the largest deviation from it."""
    low, high = float(data.min()), float(data.max())
    peak = max(abs(low), abs(high))
    if math.frexp(peak)[1] > _LARGEST_EXPONENT:
        raise ValueError(_out_of_range(peak))
    shift = float(data.mean())
    spread = max(high - shift, shift - low)
    if spread <= 4 * _EPS * peak:
        # A constant has no unit of its own.
        scale = peak or 1.0
        if isinstance(setup.noise_variance, float):
            scale = setup.noise_variance**0.5
        elif setup.noise_prior is not None and setup.noise_prior.h > 0:
            scale = setup.noise_prior.h**0.5
        return _Unit(shift, math.ldexp(1.0, math.frexp(scale)[1]), True)
    if math.frexp(spread)[1] < -_LARGEST_EXPONENT:
        raise ValueError(_out_of_range(spread))
    return _Unit(shift, math.ldexp(1.0, math.frexp(spread)[1]), False)


def _out_of_range(value: float) -> str:
    return (
        f"the signal has values of size {value:.0e}, whose squares leave the range of float64: "
        "give it in another unit (from 1e-150 to 1e+150)."
    )


def _noise_in_use(setup: Setup, solution: Solution, unit: _Unit) -> float:
    if isinstance(setup.noise_variance, float):
        return setup.noise_variance
    if unit.constant and setup.noise_prior is None:
        return 0.0
    return solution.state.noise_var * unit.scale**2


def quiet(solution: Solution) -> Solution:
    """A constant signal has no noise, which is no reason to warn."""
    return replace(solution, status=Status.CONVERGED, converged=True)


def _transform_std(transform: Transform, solution: Solution, scale: float) -> FloatArray:
    first, state = transform.scaling.stop, solution.state
    variances = np.zeros(transform.size)
    variances[:first] = state.noise_var
    variances[first + state.active] = state.noise_var * state.dof
    std = squared_synthesis(transform, variances)
    np.sqrt(std, out=std)
    std *= scale
    return std


def without_offset(signal: FloatArray, offset: float) -> list[FloatArray]:
    return [signal - offset]


def _analyzed(transform: Transform, data: FloatArray, offset: float) -> FloatArray:
    coefficients = transform.analyze(data - offset)
    to_atoms(transform, coefficients)
    return coefficients
