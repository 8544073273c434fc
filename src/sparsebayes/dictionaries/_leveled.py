"""Wavelet transforms of any length whose atoms, but for one constant, have no mean."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sparsebayes._wavelet_plans import deepest
from sparsebayes._wavelet_transforms import Transform
from sparsebayes.dictionaries._protocol import Floats

_BLOCK = 16  # scaling functions at a time


@dataclass(frozen=True)
class LeveledTransform:
    """A transform with its scaling functions reflected so that the first is constant.

    A transform of a power of two has one scaling function, a constant. What odd lengths set aside
    has a mean as well, and atoms with means are not orthonormal once an intercept takes these. The
    constant is a sum of scaling functions, as wavelets have no mean; the reflection that makes it
    the first of them leaves the others without mean, and all of them orthonormal.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes._wavelet_transforms import Transform
    >>> from sparsebayes.dictionaries._leveled import LeveledTransform
    >>> transform = LeveledTransform(Transform("haar", (6,)))
    >>> transform.synthesize(np.eye(6)).sum(axis=1).round(3) + 0.0
    array([2.449, 0.   , 0.   , 0.   , 0.   , 0.   ])
    """

    plain: Transform

    @property
    def name(self) -> str:
        """Name of the wavelet."""
        return self.plain.name

    @property
    def level(self) -> int | None:
        """Number of levels."""
        return self.plain.level

    @property
    def mode(self) -> str:
        """What is beyond the ends."""
        return self.plain.mode

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the signal or image."""
        return self.plain.shape

    @property
    def size(self) -> int:
        """Number of coefficients M."""
        return self.plain.size

    @property
    def orthonormal(self) -> bool:
        """As it was."""
        return self.plain.orthonormal

    @cached_property
    def _normal(self) -> Floats:
        """Unit vector whose Householder reflection takes the first axis to the constant."""
        constant = self.plain.analyze(np.ones(self.shape))[self.plain.scaling]
        if len(constant) == 1:
            return np.zeros(1)
        constant /= np.linalg.norm(constant)
        constant[0] -= 1.0
        return constant / np.linalg.norm(constant)

    def reflect(self, c: Floats) -> None:
        """Turn coefficients of the plain transform into those of this one, or back, in place."""
        head = c[..., self.plain.scaling]
        head -= 2.0 * np.multiply.outer(head @ self._normal, self._normal)

    @property
    def _height(self) -> float:
        return 1.0 / math.sqrt(math.prod(self.shape))

    def analyze(self, arrays: Floats) -> Floats:
        """Correlate signals with all atoms."""
        c = self.plain.analyze(arrays)
        self.reflect(c)
        axes = tuple(range(-len(self.shape), 0))
        c[..., 0] = self._height * arrays.sum(axis=axes)
        return c

    def synthesize(self, coefficients: Floats) -> Floats:
        """Add up atoms with the given coefficients."""
        c = np.array(coefficients, dtype=np.float64)
        # Filters are tabulated to so many digits; this atom is constant to the last one.
        level = self._height * c[..., 0]
        c[..., 0] = 0.0
        self.reflect(c)
        x = self.plain.synthesize(c)
        x += level.reshape(level.shape + (1,) * len(self.shape))
        return x

    def squared_analysis(self, rows: Floats) -> Floats:
        """Sums of squares of each atom over positions with weights: (..., *shape) to (..., M)."""
        found = self.plain.squared_analysis(rows)
        flat = rows.reshape((*found.shape[:-1], -1))
        count = self.plain.scaling.stop
        for i in range(0, count, _BLOCK):
            unit = np.zeros((min(_BLOCK, count - i), self.size))
            unit[np.arange(len(unit)), i + np.arange(len(unit))] = 1.0
            atoms = self.synthesize(unit).reshape(len(unit), -1)
            found[..., i : i + len(unit)] = flat @ np.square(atoms).T
        return found


def leveled(transform: Transform) -> Transform | LeveledTransform:
    """Level a transform that is orthonormal and of full depth."""
    whole = transform.orthonormal and transform.level == deepest(transform.shape)
    return LeveledTransform(transform) if whole else transform
