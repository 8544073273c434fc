"""Ways to measure a signal by a seed: the same object measures, and tells how that was done."""

from __future__ import annotations

import math
import numbers
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.fft import dctn, idctn

from sparsebayes._sensing_forms import Sensing, check_shape, checked_shape, real

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = ["PartialDCT", "PartialHadamard", "Sensing"]


@dataclass(frozen=True)
class _Partial(ABC):
    """Some rows of an orthonormal transform, drawn at random."""

    shape: Any
    n_measurements: int
    random_state: int = 0
    scramble: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", checked_shape(self.shape))
        name, n = type(self).__name__, math.prod(self.shape)
        for field, least in (("n_measurements", 1), ("random_state", 0)):
            value = getattr(self, field)
            whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
            if not whole or int(value) < least:
                raise ValueError(f"{name}: {field} must be an integer >= {least}, got {value!r}.")
            object.__setattr__(self, field, int(value))
        if self.n_measurements > n:
            raise ValueError(
                f"{name}: n_measurements is {self.n_measurements}, but a signal of {n} samples has "
                f"no more than {n} of them."
            )
        if self.random_state >= 2**32:
            raise ValueError(f"{name}: random_state must be below 2**32.")
        if not isinstance(self.scramble, bool | np.bool_):
            raise TypeError(f"{name}: scramble must be True or False, got {self.scramble!r}.")

    @cached_property
    def _drawn(self) -> tuple[IndexArray, FloatArray]:
        # RandomState, whose stream never changes: measurements outlive versions of NumPy.
        rng = np.random.RandomState(self.random_state)
        n = math.prod(self.shape)
        rows = np.sort(rng.permutation(n)[: self.n_measurements]).astype(np.intp)
        signs = 2.0 * rng.randint(0, 2, size=n) - 1.0 if self.scramble else np.ones(n)
        return rows, signs.reshape(self.shape)

    @property
    def rows(self) -> IndexArray:
        """Rows of the transform that are measured, in ascending order."""
        return self._drawn[0]

    def measure(self, signal: ArrayLike) -> FloatArray:
        """Measure a signal, or several along a first axis.

        Parameters
        ----------
        signal : array of shape `shape` or `(k, *shape)`
            Real numbers.

        Returns
        -------
        ndarray of shape (n,) or (k, n)
            Measurements.
        """
        x = real(signal, "the signal")
        check_shape(x, self.shape, f"{type(self).__name__}.measure")
        many = x.reshape(-1, *self.shape)
        rows, signs = self._drawn
        found = self._forth(many * signs if self.scramble else many)
        found = found.reshape(len(many), -1)[:, rows]
        return found[0] if x.ndim == len(self.shape) else found

    def adjoint(self, measurements: ArrayLike) -> FloatArray:
        """Transpose of `measure`.

        Parameters
        ----------
        measurements : array of shape (n,) or (k, n)
            Real numbers.

        Returns
        -------
        ndarray of shape `shape` or `(k, *shape)`
            The signal that explains them with the least energy.
        """
        y = real(measurements, "the measurements")
        check_shape(y, (self.n_measurements,), f"{type(self).__name__}.adjoint")
        many = y.reshape(-1, self.n_measurements)
        rows, signs = self._drawn
        spread = np.zeros((len(many), math.prod(self.shape)))
        spread[:, rows] = many
        found = self._back(spread.reshape(-1, *self.shape))
        if self.scramble:
            found *= signs
        return found[0] if y.ndim == 1 else found

    @abstractmethod
    def _forth(self, signals: FloatArray) -> FloatArray:
        """Transform signals (k, *shape)."""

    @abstractmethod
    def _back(self, coefficients: FloatArray) -> FloatArray:
        """Transform back, by the transpose."""


@dataclass(frozen=True)
class PartialDCT(_Partial):
    """Some coefficients of a discrete cosine transform, drawn at random by a seed.

    The same object measures a signal and tells `reconstruct` how that was done, so a seed is all
    that has to be kept beside the measurements.

    Parameters
    ----------
    shape : int or tuple of one or two ints
        Of the signal or image.
    n_measurements : int
        How many coefficients are measured.
    random_state : int, default=0
        Seed of which ones, and of the signs.
    scramble : bool, default=True
        Whether each sample is multiplied by a random sign first. Then every measurement holds a
        little of everything, whatever the basis. Without the signs a measurement is one frequency,
        which suits signals of few spikes (``basis="identity"``); pictures have most of what they
        are in a few low frequencies, which a draw will miss.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes import reconstruct
    >>> from sparsebayes.sensing import PartialDCT
    >>> signal = np.repeat([0.0, 3.0, -1.0, 2.0], 64)
    >>> sensing = PartialDCT(256, n_measurements=40, random_state=1)
    >>> found = reconstruct(sensing.measure(signal), sensing, basis="haar")
    >>> bool(np.abs(found.signal - signal).max() < 1e-6)
    True
    """

    def _forth(self, signals: FloatArray) -> FloatArray:
        axes = tuple(range(1, signals.ndim))
        return np.asarray(dctn(signals, axes=axes, norm="ortho"), dtype=np.float64)

    def _back(self, coefficients: FloatArray) -> FloatArray:
        axes = tuple(range(1, coefficients.ndim))
        return np.asarray(idctn(coefficients, axes=axes, norm="ortho"), dtype=np.float64)


@dataclass(frozen=True)
class PartialHadamard(_Partial):
    """Some sums and differences of all samples (a Walsh-Hadamard transform), drawn by a seed.

    What a single-pixel camera measures. The number of samples must be a power of two.

    Parameters
    ----------
    shape : int or tuple of one or two ints
        Of the signal or image.
    n_measurements : int
        How many coefficients are measured.
    random_state : int, default=0
        Seed of which ones, and of the signs.
    scramble : bool, default=True
        Whether each sample is multiplied by a random sign first, as in `PartialDCT`.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.sensing import PartialHadamard
    >>> sensing = PartialHadamard((4, 4), n_measurements=16, scramble=False)
    >>> sensing.measure(np.ones((4, 4)))[:3]
    array([4., 0., 0.])
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        n = math.prod(self.shape)
        if n & (n - 1):
            raise ValueError(
                f"PartialHadamard: a signal of {n} samples has no Hadamard transform, which needs "
                "a power of two; use PartialDCT, or pad the signal."
            )

    def _forth(self, signals: FloatArray) -> FloatArray:
        n = math.prod(self.shape)
        x = np.array(signals, dtype=np.float64).reshape(len(signals), n)
        half = 1
        while half < n:
            pairs = x.reshape(len(x), -1, 2, half)
            difference = pairs[:, :, 0] - pairs[:, :, 1]
            pairs[:, :, 0] += pairs[:, :, 1]
            pairs[:, :, 1] = difference
            half *= 2
        x *= 1.0 / math.sqrt(n)
        return x.reshape(signals.shape)

    def _back(self, coefficients: FloatArray) -> FloatArray:
        return self._forth(coefficients)  # symmetric, and its own inverse
