"""Signals and images from few measurements: compressive sensing, gaps filled in, error bars."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning

from sparsebayes._bases import known_shape, products_of
from sparsebayes._hyperprior import refuse_if_never_out
from sparsebayes._reconstructing import (
    Measured,
    Recovered,
    Settings,
    Spread,
    exactly,
    implicitly,
)
from sparsebayes._sensing_forms import Picks, Sensing, checked_sensing
from sparsebayes._settings import is_count, is_positive, resolve_noise_prior, resolve_prior
from sparsebayes.dictionaries._protocol import is_sparse
from sparsebayes.estimators._base import seeded
from sparsebayes.problem import Certificate, Solution, Status

FloatArray = NDArray[np.float64]

__all__ = ["Reconstruction", "reconstruct"]

_SOLVERS = ("auto", "working-set", "matrix-free")
_LARGE = 2**13  # atoms above which "auto" takes products alone
_LEAST_PRICE = 3.5  # nats for an atom: it enters alone at 2.8 standard deviations
_FINE = (Status.CONVERGED, Status.SETTLED, Status.NOISE_FLOOR)


@dataclass(frozen=True, eq=False, repr=False)
class Reconstruction:
    """A signal from few measurements, and how sure that is; what `reconstruct` returns.

    Attributes
    ----------
    signal : ndarray
        Posterior mean of the signal.
    std : ndarray
        Its posterior standard deviation; computed when first asked for. With
        ``solver="matrix-free"`` it is the root mean square of ``n_draws`` draws.
    coefficients : ndarray of shape (M,)
        Posterior means of the coefficients of all atoms of the basis, zeros included.
    coefficient_std : ndarray of shape (M,)
        Their posterior standard deviations, from the same computation; zero for atoms out of the
        model.
    noise_variance : float
        Variance of the noise of a measurement, estimated or given. Measurements without noise have
        an estimate near 1e-9 of their variance, its floor, and the status says so.
    log_marginal_likelihood : float
        Log evidence of the measurements; with ``solver="matrix-free"`` an estimate, of the standard
        error ``solution.state.log_evidence_error``.
    degrees_of_freedom : float
        Of the measurements that the model uses up.
    n_atoms : int
        Number of coefficients that are not zero.
    converged : bool
        Whether the certificate holds; with ``solver="matrix-free"``, whether the rounds settled.
    certificate : Certificate
        What is known about the answer. With ``solver="matrix-free"`` its gain and gradient are
        estimates and its curvature is NaN, not known.
    solution : Solution
        Of the solver; ``solution.status`` says how it ended.
    measurements : ndarray of shape (n,)
        As they were used.
    """

    signal: FloatArray
    coefficients: FloatArray
    noise_variance: float
    log_marginal_likelihood: float
    degrees_of_freedom: float
    n_atoms: int
    converged: bool
    solution: Solution
    measurements: FloatArray
    data: FloatArray | None  # the signal where it was measured itself, NaN elsewhere
    _spread: Callable[[], Spread] = field(compare=False)

    @cached_property
    def _deviations(self) -> Spread:
        return self._spread()

    @cached_property
    def std(self) -> FloatArray:
        """Posterior standard deviation of the signal."""
        return self._deviations.signal.reshape(self.signal.shape)

    @property
    def coefficient_std(self) -> FloatArray:
        """Posterior standard deviation of every coefficient."""
        return self._deviations.coefficients

    @property
    def certificate(self) -> Certificate:
        """What is known about the answer."""
        return self.solution.certificate

    def plot(self, ax: Any = None) -> Any:
        """Draw the signal and a band of two standard deviations; of an image the signal itself.

        Parameters
        ----------
        ax : matplotlib Axes or None
            Where to draw; a new figure where it is None.

        Returns
        -------
        matplotlib Axes
            The axes drawn into.
        """
        from sparsebayes.plotting import SignalDisplay

        return SignalDisplay.from_result(self, ax=ax).ax_

    def __repr__(self) -> str:
        size = " x ".join(map(str, self.signal.shape))
        return (
            f"<Reconstruction {size} from {len(self.measurements)} measurements: {self.n_atoms} of "
            f"{self.coefficients.size} coefficients, noise variance {self.noise_variance:.4g}, "
            f"converged {self.converged}>"
        )


def reconstruct(
    measurements: ArrayLike,
    sensing: Any,
    basis: Any = "haar",
    prior: Any = "auto",
    noise_variance: float | None = None,
    *,
    shape: Any = None,
    level: int | None = None,
    solver: str = "auto",
    noise_prior: Any = None,
    n_draws: int = 32,
    tol: float | None = None,
    max_iter: int | None = None,
    random_state: Any = None,
    verbose: int = 0,
) -> Reconstruction:
    """Reconstruct a signal or an image that is sparse in a basis from few measurements.

    The measurements are ``sensing @ signal`` plus noise, and the signal is a sum of few atoms of
    the basis. Which ones, how large, how much noise: the evidence decides, and what is not known
    shows in the error bars.

    Parameters
    ----------
    measurements : array-like of shape (n,)
        Real numbers. With a mask, an array of the mask's shape will do as well, of which the
        entries outside it are ignored.
    sensing : array, sparse matrix, LinearOperator, or object such as PartialDCT
        How the signal was measured:

        - an array of bool, of the shape of the signal: True where a sample was measured;
        - an array of integers: the samples that were measured, counted row by row in an image (or
          a tuple of such arrays, one for each axis); needs ``shape``;
        - a matrix or linear operator of shape (n, N), times the signal in one row;
        - `sparsebayes.sensing.PartialDCT` or `PartialHadamard`, which measures by a seed, or an
          object of your own with the four names of `sparsebayes.sensing.Sensing`.
    basis : str, dictionary, matrix or LinearOperator, default="haar"
        What the signal is sparse in: a discrete wavelet of PyWavelets by its name, "identity" for
        the samples themselves, a dictionary such as ``Wavelet("sym8", level=4)`` whose inputs are
        the sample numbers, or the atoms as columns, (N, M).
    prior : str, float or Hyperprior, default="auto"
        As in `denoise`. "auto" prices an atom as "bic" does, at half the logarithm of the number of
        measurements, but at 3.5 nats at least: with few measurements "bic" lets some noise in, and
        error bars come out too short. "ric" asks for more: better for very few atoms in much noise,
        worse for pictures and where atoms are many.
    noise_variance : float or None
        Variance of the noise; None to estimate it.
    shape : int or tuple of ints, default=None
        Of the signal or image, where ``sensing`` does not tell.
    level : int or None
        Levels of the wavelet transform, as many as there are by default. Only with a name.
    solver : {"auto", "working-set", "matrix-free"}, default="auto"
        "working-set" is the solver of `SparseBayesRegressor`, with an exact certificate;
        "matrix-free" needs nothing but products with the atoms, for pictures. "auto" takes the
        latter above 8192 atoms; below, it starts the former twice, on its own and from what the
        latter finds, and keeps the better.
    noise_prior : None, (g, h) or InverseGamma
        Inverse-gamma prior of the noise variance; None for none.
    n_draws : int, default=32
        Draws from the posterior that ``std`` is computed from; for ``solver="matrix-free"``. Their
        scatter is 1 / sqrt(2 n_draws), an eighth.
    tol : float or None
        Largest gain, in nats, that may be left on the table, 1e-6 by default; for "matrix-free"
        the relative change of the coefficients at which rounds end, 1e-3 by default.
    max_iter : int or None
        Most iterations of the solver, 10000 by default; for "matrix-free" rounds, 60 by default,
        not counting those in which the noise comes down.
    random_state : int, RandomState or None
        Source of the solver's randomness. None is as repeatable as a seed.
    verbose : int, default=0
        1 for progress on stderr, 2 for every step.

    Returns
    -------
    Reconstruction
        ``.signal``, ``.std``, ``.coefficients``, ``.noise_variance`` and more.

    Examples
    --------
    A signal of three steps, of which every fourth sample is known:

    >>> import numpy as np
    >>> from sparsebayes import reconstruct
    >>> signal = np.repeat([0.0, 3.0, -1.0, 2.0], 64)
    >>> places = np.random.default_rng(0).choice(256, size=64, replace=False)
    >>> found = reconstruct(signal[places], places, basis="haar", shape=256)
    >>> bool(np.abs(found.signal - signal).max() < 1e-6), found.n_atoms
    (True, 4)

    An image with pixels missing:

    >>> image = np.add.outer(np.arange(16.0), np.arange(16.0) >= 8)
    >>> mask = np.random.default_rng(1).random((16, 16)) < 0.5
    >>> found = reconstruct(image[mask], mask, basis="haar")
    >>> found.signal.shape, found.std.shape
    ((16, 16), (16, 16))
    """
    settings = _checked_settings(
        prior, noise_variance, noise_prior, tol, max_iter, n_draws, random_state, verbose
    )
    if not isinstance(solver, str) or solver not in _SOLVERS:
        raise ValueError(f"solver must be one of {_SOLVERS}, got {solver!r}.")
    rng = np.random.RandomState(0) if random_state is None else seeded(random_state)
    own = known_shape(shape, sensing, basis)
    how = checked_sensing(sensing, own)
    products = products_of(basis, tuple(how.shape), level, rng)
    y = _checked_measurements(measurements, how)
    if isinstance(prior, str) and prior == "auto":
        settings = settings._replace(prior=max(_LEAST_PRICE, 0.5 * math.log(len(y))))
    measured = Measured(how, products)
    free = solver == "matrix-free" or (solver == "auto" and products.shape[1] > _LARGE)
    if free:
        found = implicitly(y, measured, settings, rng)
    else:
        found = exactly(y, measured, settings, rng, twice=solver == "auto")
    _warn(found.solution)
    return _wrapped(found, measured, y)


def _wrapped(found: Recovered, measured: Measured, y: FloatArray) -> Reconstruction:
    how = measured.sensing
    signal = measured.basis.synthesize(found.coefficients[None])[0].reshape(how.shape)
    data = None
    if isinstance(how, Picks):
        data = np.full(math.prod(how.shape), np.nan)
        data[how.places] = y
        data = data.reshape(how.shape)
    return Reconstruction(
        signal=signal,
        coefficients=found.coefficients,
        noise_variance=found.noise_variance,
        log_marginal_likelihood=found.log_evidence,
        degrees_of_freedom=found.dof,
        n_atoms=int(found.solution.state.active.size),
        converged=found.solution.converged,
        solution=found.solution,
        measurements=y,
        data=data,
        _spread=found.spread,
    )


def _warn(solution: Solution) -> None:
    if solution.status not in _FINE:
        warnings.warn(f"reconstruct: {solution.status.value}", ConvergenceWarning, stacklevel=3)


def _checked_settings(
    prior: Any,
    noise_variance: Any,
    noise_prior: Any,
    tol: Any,
    max_iter: Any,
    n_draws: Any,
    random_state: Any,
    verbose: Any,
) -> Settings:
    refuse_if_never_out(resolve_prior(prior, None, 1.0, 1), "reconstruct")
    before = resolve_noise_prior(noise_prior)
    if noise_variance is not None and not is_positive(noise_variance):
        raise ValueError(
            f"noise_variance must be None (estimated) or a number > 0, got {noise_variance!r}."
        )
    if before is not None and noise_variance is not None:
        raise ValueError(
            f"noise_prior={noise_prior!r} is for a noise that is estimated: with noise_variance="
            f"{noise_variance!r} it must be None."
        )
    if tol is not None and not is_positive(tol):
        raise ValueError(f"tol must be None or a number > 0, got {tol!r}.")
    if max_iter is not None and not is_count(max_iter, 1):
        raise ValueError(f"max_iter must be None or an integer >= 1, got {max_iter!r}.")
    if not is_count(n_draws, 1):
        raise ValueError(f"n_draws must be an integer >= 1, got {n_draws!r}.")
    if not isinstance(verbose, bool | np.bool_) and not is_count(verbose, 0):
        raise ValueError(f"verbose must be 0, 1 or 2, got {verbose!r}.")
    noise = None if noise_variance is None else float(noise_variance)
    return Settings(
        prior, noise, noise_prior, tol, max_iter, int(n_draws), random_state, int(verbose)
    )


def _checked_measurements(measurements: Any, how: Sensing) -> FloatArray:
    if is_sparse(measurements):
        raise TypeError("measurements are a sparse matrix; give a dense array.")
    if np.ma.isMaskedArray(measurements) and measurements.dtype.kind in "biuf":
        measurements = np.ma.filled(measurements.astype(np.float64), np.nan)
    try:
        given = np.asarray(measurements)
    except ValueError:
        raise ValueError(
            "measurements must be an array of numbers, got rows that differ."
        ) from None
    if given.dtype.kind == "c":
        raise ValueError("measurements are complex; give real and imaginary parts as rows.")
    if given.dtype.kind not in "biuf":
        raise TypeError(f"measurements must be real numbers, got an array of {given.dtype}.")
    n = how.n_measurements
    if isinstance(how, Picks) and given.shape == how.shape and given.shape != (n,):
        given = given.reshape(-1)[how.places]
    if given.shape == (n, 1):
        given = given[:, 0]
    if given.shape != (n,):
        raise ValueError(
            f"sensing makes {n} measurements, but measurements has shape {given.shape}."
        )
    y = given.astype(np.float64)
    if not np.isfinite(y).all():
        where = int(np.argmin(np.isfinite(y)))
        raise ValueError(
            f"measurement {where} is {y[where]}: leave out what was not measured, of the sensing "
            "too."
        )
    return y
