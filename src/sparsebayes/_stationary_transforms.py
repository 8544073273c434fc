"""The stationary wavelet transform: every wavelet at every position, by Fourier transforms."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import scipy.fft
from numpy.typing import ArrayLike, NDArray

from sparsebayes._wavelet_plans import Block, Floats, deepest, filters
from sparsebayes._wavelet_transforms import (
    advised_level,
    check_array,
    checked_level,
    checked_name,
    checked_shape,
    real,
)

Complex = NDArray[np.complex128]


@dataclass(frozen=True)
class StationaryTransform:
    """A redundant wavelet transform of signals of one length or images of one shape.

    Each level has wavelets at all positions, none left out, so a shift of the signal shifts its
    coefficients. `synthesize` adds up atoms and `analyze` is its adjoint. Ends are periodic, and
    any length will do. With an orthonormal wavelet, analysis then synthesis gives the signal back
    (a Parseval frame), and coefficients are those of ``pywt.swt(..., norm=True,
    trim_approx=True)``, which needs a length divisible by ``2 ** level``.

    Parameters
    ----------
    name : str
        A discrete wavelet of PyWavelets.
    shape : tuple of one or two ints
        Of the signal or image.
    level : int, default=None
        Number of levels; None for as many as PyWavelets advises, at least one.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes._stationary_transforms import StationaryTransform
    >>> transform = StationaryTransform("sym8", (100,), 2)
    >>> signal = np.sin(np.arange(100.0))
    >>> coefficients = transform.analyze(signal)
    >>> coefficients.shape
    (300,)
    >>> bool(np.allclose(transform.synthesize(coefficients), signal))
    True
    """

    name: str
    shape: tuple[int, ...]
    level: int | None = None
    mode = "periodization"
    orthonormal = False

    def __post_init__(self) -> None:
        name, shape = checked_name(self.name), checked_shape(self.shape)
        level = checked_level(self.level, shape)
        if level is None:
            level = min(max(advised_level(name, shape), 1), deepest(shape))
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "level", level)

    @property
    def size(self) -> int:
        """Number of coefficients M."""
        return len(self._kinds()) * math.prod(self.shape)

    @property
    def scaling(self) -> slice:
        """Place of the coefficients that are not those of wavelets: the first ones."""
        return slice(0, math.prod(self.shape))

    @property
    def blocks(self) -> tuple[Block, ...]:
        """How the coefficients are laid out, the coarsest first."""
        n = math.prod(self.shape)
        return tuple(
            Block(level, kind, slice(i * n, (i + 1) * n), self.shape)
            for i, (level, kind) in enumerate(self._kinds())
        )

    @property
    def _axes(self) -> tuple[int, ...]:
        return tuple(axis for axis, n in enumerate(self.shape) if n > 1)

    def _kinds(self) -> list[tuple[int, str]]:
        letters = ["ad" if axis in self._axes else "a" for axis in range(len(self.shape))]
        kinds = ["".join(kind) for kind in product(*letters)]
        levels = self.level or 0
        details = [(level, kind) for level in range(levels, 0, -1) for kind in kinds[1:]]
        return [(levels, kinds[0]), *details]

    def analyze(self, arrays: ArrayLike) -> Floats:
        """Correlate signals with all atoms: the adjoint of `synthesize`.

        Parameters
        ----------
        arrays : array of the transform's shape, or one axis more in front
            Signals or images.

        Returns
        -------
        array of shape (M,) or (k, M)
            Coefficients.
        """
        x = real(arrays)
        check_array(x.shape, self.shape)
        return self._correlated(x, squared=False)

    def _correlated(self, x: Floats, squared: bool) -> Floats:
        lead = x.shape[: x.ndim - len(self.shape)]
        spectrum = self._forward(x)
        out = np.empty((*lead, self.size))
        for block, response in self._responses(squared):
            out[..., block.slice] = self._backward(spectrum * response).reshape((*lead, -1))
        return out

    def synthesize(self, coefficients: ArrayLike) -> Floats:
        """Add up atoms with the given coefficients.

        Parameters
        ----------
        coefficients : array of shape (M,) or (k, M)
            One for each atom.

        Returns
        -------
        array of the transform's shape, or with an axis of k in front
            Signals or images.
        """
        c = real(coefficients)
        check_array(c.shape, (self.size,))
        return self._added(c, squared=False)

    def _added(self, c: Floats, squared: bool) -> Floats:
        lead = c.shape[:-1]
        total: Any = 0.0
        for block, response in self._responses(squared):
            part = c[..., block.slice].reshape((*lead, *self.shape))
            total = total + self._forward(part) * response.conj()
        return self._backward(total)

    def squared_analysis(self, rows: Floats) -> Floats:
        """Sums of squares of each atom over positions with weights: (..., *shape) to (..., M)."""
        return self._correlated(rows, squared=True)

    def squared_synthesis(self, variances: Floats) -> Floats:
        """Sum of all atoms squared, with weights: (..., M) to (..., *shape)."""
        return self._added(variances, squared=True)

    def _responses(self, squared: bool) -> Iterator[tuple[Block, Complex]]:
        """Frequency response of each band, or of the squares of its atom."""
        d = len(self.shape)
        single = [_responses_of_axis(self.name, n, self.level or 0) for n in self.shape]
        for block in self.blocks:
            response: Any = 1.0
            for axis, kind in enumerate(block.orientation):
                # An axis of one position has no levels.
                own = single[axis][block.level if self.shape[axis] > 1 else 0, kind]
                if squared:
                    own = np.fft.fft(np.fft.ifft(own).real ** 2)
                if axis == d - 1:
                    own = own[: self.shape[axis] // 2 + 1]
                response = response * own.reshape([-1 if i == axis else 1 for i in range(d)])
            yield block, response

    def _forward(self, x: Floats) -> Complex:
        axes = tuple(range(-len(self.shape), 0))
        spectrum: Complex = scipy.fft.rfftn(x, axes=axes)
        return spectrum

    def _backward(self, spectrum: Complex) -> Floats:
        axes = tuple(range(-len(self.shape), 0))
        x: Floats = scipy.fft.irfftn(spectrum, s=self.shape, axes=axes)
        return x


def _responses_of_axis(name: str, n: int, levels: int) -> dict[tuple[int, str], Complex]:
    """Analysis responses (n,) of approximations and details at each level, and of no level."""
    wavelet = filters(name).adjoint
    low, high = (_response(taps, n) for taps in (wavelet.dec_lo, wavelet.dec_hi))
    found = {(0, "a"): np.ones(n, dtype=np.complex128)}
    frequency = np.arange(n)
    whole = found[0, "a"]
    for level in range(1, levels + 1):
        # Filters with holes, "a trous": their response repeats itself twice as often.
        found[level, "d"] = whole * high[frequency]
        found[level, "a"] = whole = whole * low[frequency]
        frequency = 2 * frequency % n
    return found


def _response(taps: ArrayLike, n: int) -> Complex:
    taps = np.asarray(taps, dtype=np.float64)
    wrapped = np.zeros(n)
    np.add.at(wrapped, (np.arange(len(taps)) - len(taps) // 2) % n, taps)
    response: Complex = np.fft.fft(wrapped) / math.sqrt(2.0)
    return response
