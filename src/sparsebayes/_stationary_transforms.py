"""The stationary wavelet transform: every wavelet at every position."""

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
        a = real(arrays)
        check_array(a.shape, self.shape)
        lead = a.shape[: a.ndim - len(self.shape)]
        out = np.empty((*lead, self.size))
        low, high = _filters(self.name)
        where = {(block.level, block.orientation): block.slice for block in self.blocks}
        for level in range(1, (self.level or 0) + 1):
            parts = {"": a}
            for axis, n in enumerate(self.shape):
                place, parts_before = axis - len(self.shape), parts
                parts = {}
                for kind, part in parts_before.items():
                    parts[kind + "a"] = _convolved(part, low, level, place) if n > 1 else part
                    if n > 1:
                        parts[kind + "d"] = _convolved(part, high, level, place)
            a = parts.pop("a" * len(self.shape))
            for kind, part in parts.items():
                out[..., where[level, kind]] = part.reshape((*lead, -1))
        out[..., self.scaling] = a.reshape((*lead, -1))
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
        lead = c.shape[:-1]
        low, high = _filters(self.name)
        bands = {
            (block.level, block.orientation): c[..., block.slice].reshape((*lead, *self.shape))
            for block in self.blocks
        }
        d = len(self.shape)
        a = bands[self.level or 0, "a" * d].copy()
        for level in range(self.level or 0, 0, -1):
            parts = {kind: band for (at, kind), band in bands.items() if at == level}
            parts["a" * d] = a
            for axis in reversed(range(d)):
                joined: dict[str, Floats] = {}
                for kind, part in parts.items():
                    taps = low if kind[axis] == "a" else high
                    if self.shape[axis] > 1:
                        part = _convolved(part, taps, level, axis - d, -1)
                    before = joined.get(kind[:axis])
                    joined[kind[:axis]] = part if before is None else before + part
                parts = joined
            a = parts[""]
        return a

    def squared_analysis(self, rows: Floats) -> Floats:
        """Sums of squares of each atom over positions with weights: (..., *shape) to (..., M)."""
        lead = rows.shape[: rows.ndim - len(self.shape)]
        spectrum = self._forward(rows)
        out = np.empty((*lead, self.size))
        for block, response in self._squared_responses():
            part = self._backward(spectrum * response.conj())
            out[..., block.slice] = part.reshape((*lead, -1))
        return out

    def squared_synthesis(self, variances: Floats) -> Floats:
        """Sum of all atoms squared, with weights: (..., M) to (..., *shape)."""
        total: Any = 0.0
        for block, response in self._squared_responses():
            part = variances[..., block.slice].reshape((*variances.shape[:-1], *self.shape))
            total = total + self._forward(part) * response
        return self._backward(total)

    def _squared_responses(self) -> Iterator[tuple[Block, Complex]]:
        """Spectrum of the square of each band's first atom: the others are its translates."""
        single = [_first_atoms(self.name, n, self.level or 0) for n in self.shape]
        for block in self.blocks:
            atom: Any = 1.0
            for axis, kind in enumerate(block.orientation):
                own = single[axis][block.level, kind]
                atom = np.multiply.outer(atom, own) if axis else own
            yield block, self._forward(atom**2)

    def _forward(self, x: Floats) -> Complex:
        axes = tuple(range(-len(self.shape), 0))
        spectrum: Complex = scipy.fft.rfftn(x, axes=axes)
        return spectrum

    def _backward(self, spectrum: Complex) -> Floats:
        axes = tuple(range(-len(self.shape), 0))
        x: Floats = scipy.fft.irfftn(spectrum, s=self.shape, axes=axes)
        return x


def _filters(name: str) -> tuple[Floats, Floats]:
    wavelet = filters(name).adjoint
    low, high = np.array(wavelet.dec_lo), np.array(wavelet.dec_hi)
    return low / math.sqrt(2.0), high / math.sqrt(2.0)


def _first_atoms(name: str, n: int, levels: int) -> dict[tuple[int, str], Floats]:
    """Scaling functions and wavelets of each level at the first of n positions."""
    low, high = _filters(name)
    atom = np.zeros(n)
    atom[0] = 1.0
    found = {(0, "a"): atom}
    for level in range(1, levels + 1):
        if n > 1:  # one position has no levels
            found[level, "d"] = _convolved(atom, high, level, -1, -1)
            atom = _convolved(atom, low, level, -1, -1)
        found[level, "a"] = atom
    return found


def _convolved(x: Floats, taps: Floats, level: int, axis: int, direction: int = 1) -> Floats:
    """Circular convolution with a filter whose taps are 2 ** (level - 1) samples apart.

    Correlation where `direction` is -1. Term by term, not by Fourier transforms: what is zero stays
    zero.
    """
    n = x.shape[axis]
    out = np.zeros(x.shape)
    term = np.empty(x.shape)
    head, tail = (slice(None),) * (x.ndim + axis), (slice(None),) * (-axis - 1)
    for t, factor in enumerate(taps):
        if factor == 0.0:
            continue
        shift = direction * (t - len(taps) // 2) * 2 ** (level - 1) % n
        np.multiply(x, factor, out=term)
        out[(*head, slice(shift, None), *tail)] += term[(*head, slice(0, n - shift), *tail)]
        out[(*head, slice(0, shift), *tail)] += term[(*head, slice(n - shift, None), *tail)]
    return out
