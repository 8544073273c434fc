"""Signals and images without their noise: the few wavelets or other atoms that the data support."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning

from sparsebayes._denoising import Outcome, Setup, shrink, transform_of
from sparsebayes._denoising_fit import fill, fit
from sparsebayes._signal_checks import checked_setup, checked_signal, checked_wavelet, inputs
from sparsebayes.dictionaries import Operator, Wavelet
from sparsebayes.problem import Certificate, Solution, Status

FloatArray = NDArray[np.float64]

__all__ = ["Denoised", "denoise"]

_LARGE = 2**12  # samples up to which gaps in wavelets are filled by the exact solver
_FINE = (Status.CONVERGED, Status.SETTLED)


@dataclass(frozen=True, eq=False, repr=False)
class Denoised:
    """A signal without its noise, and how sure that is; what `denoise` returns.

    Along an axis every line is a signal of its own: numbers become arrays, of the shape of the
    data without that axis, and ``solution`` a tuple.

    Attributes
    ----------
    signal : ndarray
        Posterior mean of the signal, of the shape of the data.
    std : ndarray
        Its posterior standard deviation, noise not included; computed when first asked for.
    coefficients : ndarray of shape (M,)
        Posterior means of the coefficients of all atoms as given, zeros included: those of
        `Wavelet` for a name. They are of the signal without its offset, the coarsest first.
    noise_variance : float
        Variance of the noise, estimated or given.
    offset : float
        Mean of the signal.
    parts : list of ndarray
        What each part of a union contributes: ``signal == offset + sum(parts)``.
    log_marginal_likelihood : float
        Log evidence of the data.
    degrees_of_freedom : float
        Trace of the matrix that turns data into signal, the offset's one not counted.
    n_atoms : int
        Number of atoms in the model; scaling functions, which are kept as an intercept is, are not
        counted.
    converged : bool
        Whether the certificate holds.
    certificate : Certificate
        What is known about the answer; along an axis the worst of all lines.
    solution : Solution
        Of the solver.
    data : ndarray
        The data as given, NaN where samples are missing.
    """

    signal: FloatArray
    coefficients: FloatArray
    noise_variance: Any
    offset: Any
    log_marginal_likelihood: Any
    degrees_of_freedom: Any
    n_atoms: Any
    converged: bool
    solution: Any
    data: FloatArray
    _std: Callable[[], FloatArray] = field(compare=False)
    _parts: Callable[[], list[FloatArray]] = field(compare=False)
    _least_squares: Callable[[], FloatArray] | None = field(compare=False)

    @cached_property
    def std(self) -> FloatArray:
        """Posterior standard deviation of the signal, noise not included."""
        return self._std()

    @cached_property
    def parts(self) -> list[FloatArray]:
        """What each part of a union contributes; one part for any other dictionary."""
        return self._parts()

    @property
    def least_squares(self) -> FloatArray:
        """Coefficients without any shrinkage, for orthonormal transforms; else a ValueError."""
        if self._least_squares is None:
            raise ValueError(
                "coefficients without shrinkage are defined for one orthonormal wavelet transform "
                "of a complete signal, not for other dictionaries."
            )
        return self._least_squares()

    @property
    def certificate(self) -> Certificate:
        """What is known about the answer; along an axis the worst of all lines."""
        if isinstance(self.solution, tuple):
            each = [solution.certificate for solution in self.solution]
            names = ("max_gain", "gradient_norm", "max_curvature", "rounding")
            return Certificate(*(max(getattr(one, name) for one in each) for name in names))
        found: Certificate = self.solution.certificate
        return found

    def plot(self, ax: Any = None) -> Any:
        """Draw data, signal and a band of two standard deviations.

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
        if isinstance(self.solution, tuple):
            return (
                f"<Denoised {size} in {len(self.solution)} lines: {int(np.sum(self.n_atoms))} of "
                f"{self.coefficients.size} atoms, converged {self.converged}>"
            )
        return (
            f"<Denoised {size}: {self.n_atoms} of {self.coefficients.size} atoms, "
            f"noise variance {self.noise_variance:.4g}, converged {self.converged}>"
        )


def denoise(
    signal: ArrayLike,
    wavelet: Any = "sym8",
    prior: Any = "bic",
    noise_variance: float | str | None = None,
    *,
    level: int | None = None,
    by_scale: bool | None = None,
    axis: int | None = None,
    positions: ArrayLike | None = None,
    noise_prior: Any = None,
    tol: float = 1e-6,
    max_iter: int = 10_000,
    random_state: Any = None,
    verbose: int = 0,
) -> Denoised:
    """Take the noise from a signal or an image.

    Each coefficient of a wavelet transform, or each atom of any dictionary, has a prior variance
    of its own, which the data choose: zero for most. Orthonormal wavelets have a closed form, whose
    cost is that of the transform; the coarsest coefficients, which are no wavelets, are kept as an
    intercept is. Other dictionaries and unions go through the solver of `SparseBayesRegressor`.

    Parameters
    ----------
    signal : array-like of shape (n,) or (n1, n2), or of any shape with ``axis``
        Real numbers, equally spaced, in noise of one variance. NaN, or a masked entry, is a missing
        sample, which is filled in; in large signals (more than 4096 samples) as `reconstruct` does
        it, with error bars from draws.
    wavelet : str or dictionary, default="sym8"
        A discrete wavelet of PyWavelets by its name, or a dictionary such as
        ``Wavelet("haar") + Kernel("tps")``, whose inputs are the sample numbers (for images: row
        and column) unless ``positions`` are given. Rows of an `Operator` are pixels row by row.
    prior : str, float or Hyperprior, default="bic"
        As in `SparseBayesRegressor`: "bic" prices an atom at half the logarithm of the number of
        samples, "ric" twice as high, "aic" at 1, "flat" at nothing.
    noise_variance : float, "mad" or None
        Variance of the noise. None estimates it together with the signal, where it is most
        probable; it then counts what is too small to be told from noise. "mad" takes it from the
        median of the finest wavelet coefficients, which suits signals that fill all scales, such as
        pictures with little noise.
    level : int or None
        Levels of the wavelet transform, as many as there are by default. Only with a name.
    by_scale : bool or None, default=None
        Whether "bic" and "ric" count the coefficients of each subband, which given the noise is a
        regression of its own, instead of all samples. The coarser, the lower the price: better for
        signals and pictures with detail at all scales (by 5 to 20 per cent of the squared error for
        Blocks, Bumps and pictures), worse for smooth ones. None does so for images, while signals
        are priced as in the paper. Only for orthonormal wavelets of complete signals.
    axis : int or None
        Denoise along this axis, every line on its own, each with its own noise.
    positions : array-like of shape (n,) or (n, d), default=None
        Where the samples of a signal were taken, for dictionaries.
    noise_prior : None, (g, h) or InverseGamma
        Inverse-gamma prior of the noise variance; None for none.
    tol : float, default=1e-6
        Largest gain, in nats, that may be left on the table.
    max_iter : int, default=10000
        Most iterations of the solver; for dictionaries.
    random_state : int, RandomState or None
        For dictionaries with k-means centers, and the solver's search.
    verbose : int, default=0
        1 for progress on stderr, 2 for every step; for dictionaries.

    Returns
    -------
    Denoised
        ``.signal``, ``.std``, ``.coefficients``, ``.noise_variance``, ``.parts`` and more.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes import denoise
    >>> x = np.linspace(0, 1, 1000)
    >>> truth = np.where(x < 0.3, 0.0, 1.0) + np.sin(6 * x)
    >>> noisy = truth + 0.2 * np.random.default_rng(0).standard_normal(1000)
    >>> found = denoise(noisy)
    >>> bool(np.mean((found.signal - truth) ** 2) < 0.1 * 0.2**2)
    True
    >>> found.std.shape, round(found.noise_variance**0.5, 1)
    ((1000,), 0.2)
    """
    checked_wavelet(wavelet, level)
    setup = checked_setup(
        prior, noise_variance, noise_prior, by_scale, tol, max_iter, random_state, verbose
    )
    data, missing = checked_signal(signal, axis)
    if missing:
        warnings.warn(
            f"denoise: {missing} of {data.size} samples are missing (NaN) and are filled in.",
            UserWarning,
            stacklevel=2,
        )
    solve = partial(_outcome, wavelet, level, positions, setup, bool(missing))
    if axis is None:
        outcome = solve(data)
        _warn([outcome.solution])
        return _wrapped(outcome, data)
    lines = np.moveaxis(data, axis, -1)
    rows = lines.reshape(-1, lines.shape[-1])
    outcomes = [solve(row) for row in rows]
    _warn([outcome.solution for outcome in outcomes])
    return _stacked(outcomes, lines.shape[:-1], axis, data)


def _outcome(
    wavelet: Any, level: int | None, positions: Any, setup: Setup, missing: bool, data: FloatArray
) -> Outcome:
    """Denoise one signal or image in the way that suits it."""
    there = ~np.isnan(data) if missing else np.True_
    gaps = not there.all()
    if gaps and there.sum() < 2:
        raise ValueError("the signal has fewer than two samples that are not missing.")
    transform = transform_of(wavelet, data.shape, level) if positions is None else None
    if transform is not None and not gaps:
        return shrink(data, transform, setup)
    if setup.by_scale or setup.noise_variance == "mad":
        name = "by_scale=True" if setup.by_scale else "noise_variance='mad'"
        raise ValueError(f"{name} is for orthonormal wavelets of a signal without gaps.")
    if transform is not None and data.size > _LARGE:
        return fill(data, transform, setup)
    dictionary = Wavelet(wavelet, level) if isinstance(wavelet, str) else wavelet
    # Rows of a matrix are pixels row by row.
    shape = (data.size,) if isinstance(dictionary, Operator) else data.shape
    X = inputs(positions, shape)
    return fit(data, X, dictionary, setup, on_grid=positions is None)


def _wrapped(outcome: Outcome, data: FloatArray) -> Denoised:
    return Denoised(
        signal=outcome.signal,
        coefficients=outcome.coefficients,
        noise_variance=outcome.noise_variance,
        offset=outcome.offset,
        log_marginal_likelihood=outcome.log_evidence,
        degrees_of_freedom=outcome.dof,
        n_atoms=outcome.n_atoms,
        converged=outcome.solution.converged,
        solution=outcome.solution,
        data=data,
        _std=outcome.std,
        _parts=outcome.parts,
        _least_squares=outcome.least_squares,
    )


def _stacked(
    outcomes: list[Outcome], lead: tuple[int, ...], axis: int, data: FloatArray
) -> Denoised:
    """Put the lines of an array back where they were."""
    put = partial(_put, lead, axis)

    def values(name: str) -> NDArray[Any]:
        return np.array([getattr(outcome, name) for outcome in outcomes]).reshape(lead)

    whole = all(outcome.least_squares is not None for outcome in outcomes)
    return Denoised(
        signal=put([outcome.signal for outcome in outcomes]),
        coefficients=put([outcome.coefficients for outcome in outcomes]),
        noise_variance=values("noise_variance"),
        offset=values("offset"),
        log_marginal_likelihood=values("log_evidence"),
        degrees_of_freedom=values("dof"),
        n_atoms=values("n_atoms"),
        converged=all(outcome.solution.converged for outcome in outcomes),
        solution=tuple(outcome.solution for outcome in outcomes),
        data=data,
        _std=partial(_put_each, lead, axis, [outcome.std for outcome in outcomes]),
        _parts=partial(_put_parts, lead, axis, [outcome.parts for outcome in outcomes]),
        _least_squares=partial(
            _put_each, lead, axis, [outcome.least_squares for outcome in outcomes]
        )
        if whole
        else None,
    )


def _put(lead: tuple[int, ...], axis: int, rows: list[FloatArray]) -> FloatArray:
    return np.moveaxis(np.stack(rows).reshape(*lead, -1), -1, axis)


def _put_each(lead: tuple[int, ...], axis: int, rows: list[Any]) -> FloatArray:
    return _put(lead, axis, [row() for row in rows])


def _put_parts(lead: tuple[int, ...], axis: int, lines: list[Any]) -> list[FloatArray]:
    by_part = zip(*(line() for line in lines), strict=True)
    return [_put(lead, axis, list(rows)) for rows in by_part]


def _warn(solutions: list[Solution]) -> None:
    troubles = [one.status for one in solutions if one.status not in _FINE]
    if troubles:
        where = f"{len(troubles)} of {len(solutions)} lines: " if len(solutions) > 1 else ""
        warnings.warn(f"denoise: {where}{troubles[0].value}", ConvergenceWarning, stacklevel=3)
