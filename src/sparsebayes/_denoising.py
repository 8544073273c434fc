"""The two ways to denoise: shrink the coefficients of a transform, or fit a dictionary."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from sparsebayes._regression import Start, regress
from sparsebayes._settings import resolve_prior
from sparsebayes._wavelet_transforms import Transform, squared_synthesis
from sparsebayes.dictionaries import Union
from sparsebayes.estimators._base import Reporter, seeded
from sparsebayes.posterior import Posterior
from sparsebayes.problem import Problem, Solution
from sparsebayes.quadratic import OrthonormalQuadratic
from sparsebayes.solvers import orthonormal, working_set

FloatArray = NDArray[np.float64]

__all__ = ["Outcome", "Setup", "fit", "shrink", "transform_of"]

_EPS = float(np.finfo(float).eps)
_LARGEST_EXPONENT = 502  # squares of values up to 2^502 = 1e151 stay in the range of float64
_SMALLEST_NOISE, _LARGEST_NOISE = 1e-32, 1e200  # in the unit of the signal, squared


class Setup(NamedTuple):
    """What a user may choose, checked."""

    prior: Any
    noise_variance: float | None
    noise_prior: Any
    tol: float
    max_iter: int
    random_state: Any
    verbose: int


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
        transform = Transform(wavelet, shape, level)
    elif type(wavelet).__name__ == "Wavelet" and wavelet.shape in (None, shape):
        transform = Transform(wavelet.name, shape, wavelet.level, wavelet.mode)
    else:
        return None
    return transform if transform.orthonormal else None


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
    >>> setup = Setup("bic", 1.0, None, 1e-6, 100, None, 0)
    >>> shrink(np.array([5.0, 5.0, -5.0, -5.0]), Transform("haar", (4,)), setup).signal.round(3)
    array([ 4.949,  4.949, -4.949, -4.949])
    """
    unit = _unit(data, setup.noise_variance)
    work = data - unit.shift
    work *= 1.0 / unit.scale
    spread = float(np.vdot(work, work)) / work.size
    if unit.constant:
        work[...], spread = 0.0, 0.0
    coefficients = transform.analyze(work)
    del work
    first = transform.scaling.stop
    details = coefficients[first:]
    n = float(data.size - first)
    tt = float(details @ details)
    # The evidence under a flat prior of the offset; of the other coefficients kept it has none.
    log_offset = -0.5 * math.log(data.size)
    quad = OrthonormalQuadratic(details[:, None], tt, n, spread, log_offset)
    hyperprior = resolve_prior(setup.prior, None, data.size, details.size)
    noise_var = _noise_in_units(setup.noise_variance, unit.scale)
    solution = orthonormal.solve(Problem(quad, hyperprior, noise_var), tol=setup.tol)
    state = solution.state
    details[:] = 0.0
    details[state.active] = state.mu[:, 0]
    signal = transform.synthesize(coefficients)
    signal *= unit.scale
    signal += unit.shift
    coefficients *= unit.scale
    return Outcome(
        signal=signal,
        coefficients=coefficients,
        noise_variance=_noise_in_use(setup.noise_variance, solution, unit),
        offset=unit.shift,
        log_evidence=solution.log_evidence - n * math.log(unit.scale),
        dof=first + float(state.dof.sum()),
        n_atoms=first + int(state.active.size),
        solution=solution,
        std=partial(_transform_std, transform, solution, unit.scale),
        parts=partial(_without_offset, signal, unit.shift),
        least_squares=partial(_analyzed, transform, data, unit.shift),
    )


def _unit(data: FloatArray, noise_variance: float | None) -> _Unit:
    """The mean, and the power of two above the largest deviation from it."""
    low, high = float(data.min()), float(data.max())
    peak = max(abs(low), abs(high))
    if math.frexp(peak)[1] > _LARGEST_EXPONENT:
        raise ValueError(_out_of_range(peak))
    shift = float(data.mean())
    spread = max(high - shift, shift - low)
    if spread <= 4 * _EPS * peak:
        scale = peak if noise_variance is None else noise_variance**0.5
        return _Unit(shift, math.ldexp(1.0, math.frexp(scale)[1]), True)
    if math.frexp(spread)[1] < -_LARGEST_EXPONENT:
        raise ValueError(_out_of_range(spread))
    return _Unit(shift, math.ldexp(1.0, math.frexp(spread)[1]), False)


def _out_of_range(value: float) -> str:
    return (
        f"the signal has values of size {value:.0e}, whose squares leave the range of float64: "
        "give it in another unit (from 1e-150 to 1e+150)."
    )


def _noise_in_units(noise_variance: float | None, scale: float) -> float | None:
    if noise_variance is None:
        return None
    noise_var = (noise_variance**0.5 / scale) ** 2
    if not _SMALLEST_NOISE <= noise_var <= _LARGEST_NOISE:
        raise ValueError(
            f"noise_variance={noise_variance:g} is out of proportion to the signal, whose values "
            f"spread over about {scale:.0e}: float64 cannot hold both."
        )
    return noise_var


def _noise_in_use(given: float | None, solution: Solution, unit: _Unit) -> float:
    if given is not None:
        return given
    return 0.0 if unit.constant else solution.state.noise_var * unit.scale**2


def _transform_std(transform: Transform, solution: Solution, scale: float) -> FloatArray:
    first, state = transform.scaling.stop, solution.state
    variances = np.zeros(transform.size)
    variances[:first] = state.noise_var
    variances[first + state.active] = state.noise_var * state.dof
    std = squared_synthesis(transform, variances)
    np.sqrt(std, out=std)
    std *= scale
    return std


def _without_offset(signal: FloatArray, offset: float) -> list[FloatArray]:
    return [signal - offset]


def _analyzed(transform: Transform, data: FloatArray, offset: float) -> FloatArray:
    return transform.analyze(data - offset)


class _Counted(Union):
    """A union that remembers how many atoms each of its parts has."""

    def bind(self, X: Any, *, sample_weight: Any = None, random_state: Any = None) -> Any:
        atoms = super().bind(X, sample_weight=sample_weight, random_state=random_state)
        self.counts_ = [part.count for part in atoms.parts]
        return atoms


def fit(data: FloatArray, X: FloatArray, dictionary: Any, setup: Setup) -> Outcome:
    """Fit the atoms of a dictionary to the samples that are there, by the default solver.

    Parameters
    ----------
    data : ndarray of N entries
        NaN where a sample is missing.
    X : ndarray of shape (N, d)
        Inputs of the dictionary, in the order of the data.
    dictionary : Dictionary
        Any.
    setup : Setup
        Prior, noise and settings of the solver.

    Returns
    -------
    Outcome
        At all rows of X, missing ones included.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.dictionaries import Linear
    >>> X, setup = np.arange(9.0)[:, None], Setup("bic", 1e-4, None, 1e-6, 100, None, 0)
    >>> y = np.where(X[:, 0] == 4, np.nan, 3 * X[:, 0])
    >>> fit(y, X, Linear(), setup).signal[4].round(3)
    np.float64(12.0)
    """
    rng = seeded(setup.random_state)
    y = data.ravel()
    there = ~np.isnan(y)
    X_there, y_there = (X, y) if there.all() else (X[there], y[there])
    counted = isinstance(dictionary, Union)
    chosen = _Counted([clone(part) for part in dictionary.parts]) if counted else dictionary
    result = regress(
        X_there,
        y_there[:, None],
        None,
        chosen,
        single=True,
        fit_intercept=True,
        prior=setup.prior,
        noise_variance=setup.noise_variance,
        solve=partial(_solve, setup, rng),
        last=None,
        random_state=rng,
    )
    posterior, state = result.posterior, result.solution.state
    signal = posterior.predict(X).reshape(data.shape)
    coefficients = np.zeros(posterior.atoms.count)
    coefficients[posterior.atoms.index] = posterior.weights
    offset = float(posterior.offset[0])
    parts: Callable[[], list[FloatArray]] = partial(_without_offset, signal, offset)
    if counted:
        parts = partial(_contributions, posterior, X, np.cumsum(chosen.counts_), data.shape)
    noise = posterior.noise_variance * posterior.scale**2
    return Outcome(
        signal=signal,
        coefficients=coefficients,
        noise_variance=noise if setup.noise_variance is None else setup.noise_variance,
        offset=offset,
        log_evidence=result.log_evidence,
        dof=1.0 + float(state.dof.sum()),
        n_atoms=int(state.active.size),
        solution=result.solution,
        std=partial(_posterior_std, posterior, X, data.shape),
        parts=parts,
    )


def _solve(
    setup: Setup, rng: np.random.RandomState, problem: Problem, start: Start | None
) -> Solution:
    reporter = Reporter("denoise", setup.verbose, True) if setup.verbose else None
    solution = working_set.solve(
        problem,
        tol=setup.tol,
        max_iter=setup.max_iter,
        # A fit is repeatable unless it is asked not to be.
        random_state=np.random.RandomState(0) if setup.random_state is None else rng,
        start=start,
        report=reporter,
    )
    if reporter is not None:
        reporter.close(solution)
    return solution


def _posterior_std(posterior: Posterior, X: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    return posterior.spread(X, noise=False)[1].reshape(shape)


def _contributions(
    posterior: Posterior, X: FloatArray, ends: NDArray[np.intp], shape: tuple[int, ...]
) -> list[FloatArray]:
    owner = np.searchsorted(ends, posterior.atoms.index, side="right")
    return [posterior.contribution(X, owner == part).reshape(shape) for part in range(len(ends))]
