"""Wavelets on a regular grid: atoms known by their fast transform, their matrix never formed."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from sparsebayes._stationary_transforms import StationaryTransform
from sparsebayes._wavelet_transforms import Transform
from sparsebayes.dictionaries._grids import LARGEST, Grid
from sparsebayes.dictionaries._leveled import LeveledTransform, leveled
from sparsebayes.dictionaries._products import (
    SomeColumns,
    blocks,
    columns_of,
    is_permutation,
    scatter,
)
from sparsebayes.dictionaries._protocol import (
    Addable,
    Arrays,
    Floats,
    Matrix,
    Positions,
    Products,
    Spec,
    check_columns,
    positions,
    room,
    spec_positions,
    spec_value,
)

AnyTransform: TypeAlias = Transform | LeveledTransform | StationaryTransform

_MOST = 8 * LARGEST  # coefficients of a transform
# A wavelet that is hardly seen fits the few samples it has with a huge weight and runs riot between
# them. Of 0, 0.3, 0.5, 0.7, 0.8 and 0.9 this share, relative to that of all atoms, predicted the
# missing samples of steps and of smooth signals best, with 10 to 70 % of them missing.
_SHARE = 0.7
_NOTHING = 1e-13  # squared norms, relative to the largest


class Wavelet(Addable, BaseEstimator):
    """Wavelets of a signal or an image on a regular grid.

    X holds the positions of the samples: one column for a signal, two for an image (row and
    column of each pixel). The grid is the smallest that holds them all, rows may come in any order
    and positions may be missing; where they are complete, wavelets of an orthonormal family are
    orthonormal atoms. Beyond its positions a wavelet is not defined: predictions are for positions
    of the grid. Where positions are missing, wavelets that lie mostly between the others are left
    out: the data say too little of them.

    Any number of samples will do. The transform halves the signal at each level; where that is not
    possible, its last sample is set aside as an atom of its own, and the rest is transformed. (In
    an image it is the last row or column, which is transformed along itself.) Lengths that are
    divisible by ``2 ** level`` have no such atoms. At full depth a constant is taken from such
    atoms, so that of all atoms of an orthonormal family only one, the first and constant, has a
    mean: they stay orthonormal beside an intercept.

    Parameters
    ----------
    name : str, default="sym8"
        A discrete wavelet of PyWavelets: see ``pywt.wavelist(kind="discrete")``. Biorthogonal
        families, and "dmey", are not orthonormal.
    level : int, default=None
        Number of levels; None for as many as there are (with mode "zero", as many as PyWavelets
        advises).
    mode : {"periodization", "zero"}, default="periodization"
        What is beyond the ends of the signal: the signal again, or zeros. With zeros there are more
        atoms than samples, and they are not orthonormal.
    shape : int or tuple of one or two ints, default=None
        Shape of the whole signal or image; X then holds whole numbers from 0. Needed where X has
        not all positions and others are to be predicted, as in cross-validation.

    Notes
    -----
    The first atoms are scaling functions, which are no wavelets, the coarsest wavelets come next.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes import SparseBayesRegressor
    >>> from sparsebayes.dictionaries import Wavelet
    >>> X = np.arange(64)[:, None] / 64
    >>> rng = np.random.default_rng(0)
    >>> y = np.where(X[:, 0] < 0.5, 1.0, 3.0) + 0.1 * rng.normal(size=64)
    >>> model = SparseBayesRegressor(Wavelet("haar")).fit(X, y)
    >>> model.relevance_
    array([1])
    >>> model.predict([[0.25], [0.75]]).round(1)
    array([1., 3.])
    """

    def __init__(
        self,
        name: str = "sym8",
        level: int | None = None,
        mode: str = "periodization",
        shape: Any = None,
    ) -> None:
        self.name = name
        self.level = level
        self.mode = mode
        self.shape = shape

    def bind(
        self, X: Matrix, *, sample_weight: Floats | None = None, random_state: Any = None
    ) -> WaveletAtoms:
        """Find the grid of the rows of X, and make its wavelets.

        Parameters
        ----------
        X : array of shape (n_samples, 1) or (n_samples, 2)
            Positions.
        sample_weight : array of shape (n_samples,), default=None
            Weighted samples have no orthonormal atoms; else it does not matter.
        random_state : int, RandomState or None, default=None
            Does not matter.

        Returns
        -------
        WaveletAtoms
            One atom for each coefficient of the transform, but for those hardly seen.
        """
        grid = Grid.found(X) if self.shape is None else Grid.given(self.shape)
        transform = Transform(self.name, grid.shape, self.level, self.mode)
        _check_count(transform)
        return _bound(leveled(transform), grid, X, sample_weight)


class StationaryWavelet(Addable, BaseEstimator):
    """Wavelets of each level at every position: several times as many atoms as samples.

    A shift of the signal shifts its coefficients, which the wavelets of `Wavelet` cannot offer. X
    is as for `Wavelet`, ends are periodic, and any number of samples will do. Atoms of an
    orthonormal family are a Parseval frame where positions are complete.

    Parameters
    ----------
    name : str, default="sym8"
        A discrete wavelet of PyWavelets.
    level : int, default=None
        Number of levels; None for as many as PyWavelets advises, at least one. A signal has ``level
        + 1`` atoms for each position, an image ``3 * level + 1``.
    shape : int or tuple of one or two ints, default=None
        Shape of the whole signal or image; X then holds whole numbers from 0.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.dictionaries import StationaryWavelet
    >>> X = np.arange(10.0)[:, None]
    >>> atoms = StationaryWavelet("haar", level=2).bind(X)
    >>> atoms.size
    30
    >>> Phi = atoms.evaluate(X)
    >>> bool(np.allclose(Phi @ Phi.T, np.eye(10)))
    True
    """

    def __init__(self, name: str = "sym8", level: int | None = None, shape: Any = None) -> None:
        self.name = name
        self.level = level
        self.shape = shape

    def bind(
        self, X: Matrix, *, sample_weight: Floats | None = None, random_state: Any = None
    ) -> WaveletAtoms:
        """Find the grid of the rows of X, and make its wavelets.

        Parameters
        ----------
        X : array of shape (n_samples, 1) or (n_samples, 2)
            Positions.
        sample_weight : array of shape (n_samples,), default=None
            Does not matter.
        random_state : int, RandomState or None, default=None
            Does not matter.

        Returns
        -------
        WaveletAtoms
            One atom for each position at each level, but for those hardly seen.
        """
        grid = Grid.found(X) if self.shape is None else Grid.given(self.shape)
        transform = StationaryTransform(self.name, grid.shape, self.level)
        _check_count(transform)
        return _bound(transform, grid, X, None)


def _bound(
    transform: AnyTransform, grid: Grid, X: Matrix, sample_weight: Floats | None
) -> WaveletAtoms:
    rows = grid.locate(X)
    plain = sample_weight is None or bool((np.asarray(sample_weight) == 1).all())
    orthonormal = plain and transform.orthonormal and is_permutation(rows, grid.size)
    return WaveletAtoms(transform, grid, _seen(transform, rows), orthonormal)


def _seen(transform: AnyTransform, rows: Positions) -> Positions:
    """Atoms of which enough lies where the rows are."""
    there = np.zeros(transform.shape)
    there.ravel()[rows] = 1.0
    if there.all():
        return np.arange(transform.size, dtype=np.intp)
    total = transform.squared_analysis(np.ones(transform.shape))
    enough = transform.squared_analysis(there) >= _SHARE * there.mean() * total
    return np.flatnonzero(enough)


def _check_count(transform: AnyTransform) -> None:
    if transform.size > _MOST:
        raise ValueError(
            f"this transform has {transform.size} atoms, which is too many: no more than {_MOST} "
            "can be had"
        )


@dataclass(frozen=True, eq=False)
class WaveletAtoms:
    """Some atoms of a wavelet transform, at positions of its grid."""

    transform: AnyTransform
    grid: Grid
    index: Positions
    orthonormal: bool = False

    @property
    def size(self) -> int:
        """Number of atoms."""
        return len(self.index)

    @property
    def count(self) -> int:
        """Number of coefficients of the transform."""
        return self.transform.size

    @property
    def n_features_in(self) -> int:
        """One column of X for a signal, two for an image."""
        return len(self.grid.shape)

    @property
    def _whole(self) -> bool:
        return self.size == self.count and bool((self.index == np.arange(self.count)).all())

    def at(self, X: Matrix) -> Products:
        """Products with the atoms at the rows of X, by the transform."""
        check_columns(X, self.n_features_in)
        products = WaveletProducts(self.transform, self.grid.locate(X))
        return products if self._whole else SomeColumns(products, self.index)

    def evaluate(self, X: Matrix, out: Floats | None = None) -> Floats:
        """Atoms at the rows of X, (n, M): by columns or by rows, what there is less of."""
        check_columns(X, self.n_features_in)
        products = WaveletProducts(self.transform, self.grid.locate(X))
        n, m = products.shape
        out = room(out, (n, self.size))
        if n < self.size:
            for part in blocks(n, max(n, m)):
                unit = np.zeros((part.stop - part.start, n))
                unit[np.arange(len(unit)), np.arange(part.start, part.stop)] = 1.0
                out[part] = products.analyze(unit)[:, self.index]
            return out
        for part in blocks(self.size, max(n, m)):
            out[:, part] = columns_of(products, self.index[part]).T
        return out

    def restrict(self, indices: ArrayLike) -> WaveletAtoms:
        """Only the atoms at `indices`."""
        return replace(self, index=self.index[positions(indices, self.size)])

    def to_spec(self) -> tuple[Spec, Arrays]:
        """Describe the atoms by their transform, its grid and their numbers."""
        stationary = isinstance(self.transform, StationaryTransform)
        spec: Spec = {
            "kind": "stationary-wavelet" if stationary else "wavelet",
            "name": self.transform.name,
            "level": self.transform.level,
            "shape": list(self.grid.shape),
            "origin": list(self.grid.origin),
            "step": list(self.grid.step),
        }
        if not stationary:
            spec["mode"] = self.transform.mode
        return spec, {"index": self.index}

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> WaveletAtoms:
        """Rebuild the atoms that `to_spec` described; a ValueError for anything unexpected."""
        kind = spec.get("kind")
        name, level = spec_value(spec, "name", str), spec_value(spec, "level", int)
        shape = tuple(spec_value(spec, "shape", list))
        stationary = kind == "stationary-wavelet"
        mode = "" if stationary else spec_value(spec, "mode", str)
        try:
            Grid.given(shape)
            plain = (
                StationaryTransform(name, shape, level)
                if stationary
                else Transform(name, shape, level, mode)
            )
            _check_count(plain)
        except (TypeError, ValueError) as error:
            raise ValueError(f"stored {kind!r} atoms: {error}") from None
        origin, step = (_numbers(spec, key, len(shape)) for key in ("origin", "step"))
        if not min(step) > 0:
            raise ValueError(f"stored {kind!r} atoms: 'step' is missing or malformed")
        index = spec_positions(arrays, "index", None, plain.size)
        transform = leveled(plain) if isinstance(plain, Transform) else plain
        return cls(transform, Grid(origin, step, plain.shape), index)


def _numbers(spec: Mapping[str, Any], name: str, count: int) -> tuple[float, ...]:
    values = spec_value(spec, name, list)
    fine = len(values) == count and all(
        isinstance(x, float | int) and not isinstance(x, bool) and abs(x) <= sys.float_info.max
        for x in values
    )
    if not fine:
        raise ValueError(f"stored {spec.get('kind')!r} atoms: {name!r} is missing or malformed")
    return tuple(float(x) for x in values)


@dataclass(frozen=True, eq=False)
class WaveletProducts:
    """Products with all atoms of a transform at some positions of its grid."""

    transform: AnyTransform
    rows: Positions

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and atoms."""
        return len(self.rows), self.transform.size

    def synthesize(self, weights: Floats) -> Floats:
        """Sums of atoms: (k, M) to (k, N)."""
        whole = self.transform.synthesize(weights).reshape(len(weights), -1)
        return whole if self._in_order else np.ascontiguousarray(whole[:, self.rows])

    def analyze(self, rows: Floats) -> Floats:
        """Inner products with the atoms: (k, N) to (k, M)."""
        return self.transform.analyze(self._spread(rows))

    def squares(self, rows: Floats) -> Floats:
        """Products with the squares of the atoms: (k, N) to (k, M)."""
        found = self.transform.squared_analysis(self._spread(rows))
        # An atom between the rows is zero at all of them, but for rounding.
        found[np.abs(found) < _NOTHING * np.abs(found).max(axis=1, keepdims=True)] = 0.0
        return found

    def squared_norms(self) -> Floats | None:
        """One for each atom where they are orthonormal; else `squares` tells them."""
        if self.transform.orthonormal and is_permutation(self.rows, self._positions):
            return np.ones(self.transform.size)
        return None

    @property
    def _positions(self) -> int:
        return math.prod(self.transform.shape)

    @cached_property
    def _in_order(self) -> bool:
        n = self._positions
        return len(self.rows) == n and bool((self.rows == np.arange(n)).all())

    def _spread(self, rows: Floats) -> Floats:
        whole = rows if self._in_order else scatter(rows, self.rows, self._positions)
        return whole.reshape(len(rows), *self.transform.shape)
