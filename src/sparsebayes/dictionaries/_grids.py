"""Regular grids of positions: found in data, and data located on them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsebayes._wavelet_transforms import checked_shape
from sparsebayes.dictionaries._protocol import Floats, Matrix, Positions, check_columns, is_sparse

LARGEST = 2**26
"""Most positions of a grid: one array of them is half a gigabyte."""

_OFF = 1e-2  # how far from its place on the grid a position may be, in steps
_SPARSEST, _SMALL = 100, 2**20  # positions for each row of X that a found grid may have; any may


@dataclass(frozen=True)
class Grid:
    """Positions ``origin + step * k`` along one or two axes, k = 0 .. n - 1.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.dictionaries._grids import Grid
    >>> grid = Grid.found(np.array([[0.5], [0.3], [0.1], [0.9]]))
    >>> grid.shape
    (5,)
    >>> grid.locate(np.array([[0.7], [0.1]]))
    array([3, 0])
    """

    origin: tuple[float, ...]
    step: tuple[float, ...]
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of positions."""
        return math.prod(self.shape)

    @classmethod
    def given(cls, shape: Any) -> Grid:
        """Whole numbers from zero, of a shape that the user gives."""
        sizes = checked_shape(shape)
        _check_size(sizes)
        return cls((0.0,) * len(sizes), (1.0,) * len(sizes), sizes)

    @classmethod
    def found(cls, X: Matrix) -> Grid:
        """The smallest grid that holds the rows of X, one position in each."""
        values = dense(X)
        if values.ndim != 2 or values.shape[1] not in (1, 2) or not len(values):
            raise ValueError(
                "X must have a row for each sample, and one column (positions of a signal) or two "
                f"(of an image), but its shape is {values.shape}"
            )
        if not np.isfinite(values).all():
            raise ValueError("X holds NaN or infinity, which are no positions")
        axes = [_axis(values[:, j], j) for j in range(values.shape[1])]
        origin, step, shape = zip(*axes, strict=True)
        size = math.prod(shape)
        if size > max(_SMALL, _SPARSEST * len(values)):
            raise ValueError(
                f"the smallest grid that holds the {len(values)} rows of X has "
                f"{' x '.join(map(str, shape))} positions, nearly all of them empty: {_ADVICE}"
            )
        _check_size(shape)
        return cls(origin, step, shape)

    def locate(self, X: Matrix) -> Positions:
        """Number of the grid's position, rows of an image one after the other, for each row of X.

        Parameters
        ----------
        X : array of shape (n, number of axes)
            Positions.

        Returns
        -------
        intp array of shape (n,)
            Places in a raveled array of the grid's shape.

        Raises
        ------
        ValueError
            If a row is not on the grid.
        """
        values = dense(X)
        check_columns(values, len(self.shape))
        with np.errstate(over="ignore", invalid="ignore"):
            exact = (values - self.origin) / self.step
            nearest = np.rint(exact)
            on = np.abs(exact - nearest) <= _OFF
            on &= (nearest >= 0) & (nearest < self.shape)
        if not on.all():
            i = int(np.argmin(on.all(axis=1)))
            raise ValueError(
                f"row {i} of X, {', '.join(f'{x:.10g}' for x in values[i])}, is not on the grid "
                f"{self}: wavelets are known there alone. If it belongs to the same signal, give "
                "the dictionary its shape, and X whole numbers from 0"
            )
        whole = nearest.astype(np.intp)
        places: Positions = whole[:, 0]
        for axis in range(1, len(self.shape)):
            places = places * self.shape[axis] + whole[:, axis]
        return places

    def __str__(self) -> str:
        axes = [
            f"{a:.10g}" if n == 1 else f"{a:.10g}, {a + h:.10g}, ..., {a + (n - 1) * h:.10g}"
            for a, h, n in zip(self.origin, self.step, self.shape, strict=True)
        ]
        return " x ".join(f"({axis})" for axis in axes)


_ADVICE = (
    "wavelets need equally spaced positions (some may be missing); if these are samples in a "
    "sequence, give X whole numbers from 0 and the dictionary their shape"
)


def dense(X: Matrix) -> Floats:
    """X as an array."""
    return np.asarray(X.toarray() if is_sparse(X) else X, dtype=np.float64)


def _axis(values: Floats, column: int) -> tuple[float, float, int]:
    """Origin, step and number of positions of an axis."""
    if not (values[1:] > values[:-1]).all():
        values = np.unique(values)
    rounding = 8 * np.finfo(np.float64).eps * max(abs(values[0]), abs(values[-1]))
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        gaps = np.diff(values)
        apart = gaps > rounding
        values, gaps = values[np.concatenate(([True], apart))], gaps[apart]
        if not len(gaps):
            return float(values[0]), 1.0, 1
        if not gaps.max() < 1e300:
            raise ValueError(f"column {column} of X holds positions too far apart: {_ADVICE}")
        # One gap is as inexact as its ends; the whole range, of so many steps, is not.
        least = gaps[gaps < 1.5 * gaps.min()].mean()
        counts = np.rint(gaps / least)
        total = counts.sum()
        step = (values[-1] - values[0]) / total
        places = np.concatenate(([0.0], np.cumsum(counts)))
        off = np.abs(values - values[0] - step * places)
        regular = bool(total < 2**53 and (off <= _OFF * step).all())
    if not regular:
        raise ValueError(
            f"column {column} of X is not equally spaced (gaps of {gaps.min():.6g} to "
            f"{gaps.max():.6g}): {_ADVICE}"
        )
    return float(values[0]), float(step), int(total) + 1


def _check_size(shape: tuple[int, ...]) -> None:
    if math.prod(shape) > LARGEST:
        raise ValueError(
            f"a grid of {' x '.join(map(str, shape))} positions is too large: no more than "
            f"{LARGEST} can be had"
        )
