"""Sufficient statistics of Gaussian noise: all that a fit asks of rows, and it can be added up.

Kept are means and products of differences from the means, of atoms and targets together. Two lots
of rows are joined by the distance of their means (Chan, Golub and LeVeque 1983): every term of that
sum is positive, so nothing cancels however large a mean is beside the spread.
"""

from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sparsebayes.core.intercepts import Intercepts
from sparsebayes.core.quadratic import Columns, LazyQuadratic, Targets
from sparsebayes.core.sums import Known
from sparsebayes.design import norm_unless_constant, tame
from sparsebayes.dictionaries import Atoms
from sparsebayes.noise_priors import NoisePrior
from sparsebayes.rows.blocks import Block, weighted_rows
from sparsebayes.rows.gaussian import TILE_CELLS, shifted_tiles
from sparsebayes.rows.moments import Moments, moments

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = ["Sufficient", "SufficientStatistics", "sufficient_quadratic"]

_TILE_ROWS = 1024  # beyond which a product of so many rows gains nothing
_STRIP = 64  # rows of a large matrix that are changed at a time, in the cache
_SMALLEST, _LARGEST = 1e-280, 1e280  # sums of squares that need no other unit
_NOTHING = 2.0**-1022  # unit of a column of zeros: less than any other


@dataclass(frozen=True)
class SufficientStatistics:
    """What is known of rows that were seen, for M atoms and T targets.

    Columns are the atoms and, after them, the targets. They are divided by ``unit``, which is one
    but for values whose squares would leave the range of float64.
    """

    single: bool  # whether targets are one-dimensional
    rows: int  # of positive weight
    total: float  # sum of weights
    inputs: Moments  # of X
    targets: Moments  # of y
    unit: FloatArray  # (M + T,) powers of two
    reference: FloatArray  # (M + T,) near the means
    mean: FloatArray  # (M + T,) from the reference on: digits that their sum has not
    scatter: FloatArray  # (M + T, M + T) weighted products of differences from the means

    @property
    def n_targets(self) -> int:
        """Number of targets T."""
        return len(self.targets.reference)

    @property
    def size(self) -> int:
        """Number of atoms M."""
        return len(self.unit) - self.n_targets

    def plus(self, other: Self) -> Self:
        """Statistics of both lots of rows; the largest array of this one is reused for them."""
        unit = np.maximum(self.unit, other.unit)
        one, two = self._in_units(unit), other._in_units(unit)
        away = (two.reference - one.reference) + (two.mean - one.mean)
        total = one.total + two.total
        scatter = one.scatter
        scaled = away * (one.total * two.total / total)
        for start in range(0, len(unit), _STRIP):
            strip = slice(start, start + _STRIP)
            scatter[strip] += two.scatter[strip]
            scatter[strip] += scaled[strip, None] * away
        heavy = one if one.total >= two.total else two
        step = away * (two.total / total) if heavy is one else away * (-one.total / total)
        return replace(
            one,
            rows=one.rows + two.rows,
            total=total,
            inputs=one.inputs.plus(two.inputs),
            targets=one.targets.plus(two.targets),
            reference=heavy.reference,
            mean=heavy.mean + step,
        )

    def joined(self, other: Self) -> Self:
        """Statistics of both lots of rows; neither is changed."""
        return replace(self, scatter=self.scatter.copy()).plus(other)

    def _in_units(self, unit: FloatArray) -> Self:
        if np.array_equal(unit, self.unit):
            return self
        ratio = self.unit / unit  # powers of two: what is rounded is negligible beside the larger
        return replace(
            self,
            unit=unit,
            reference=self.reference * ratio,
            mean=self.mean * ratio,
            scatter=self.scatter * ratio * ratio[:, None],
        )


@dataclass(frozen=True)
class Sufficient:
    """The statistic of a block that gives sufficient statistics."""

    atoms: Atoms

    def __call__(self, block: Block) -> SufficientStatistics:
        """Sum over rows, at least one of positive weight; ``y`` holds targets, (n,) or (n, T)."""
        block = weighted_rows(block)
        if not block.n:
            raise ValueError("sample_weight is zero for every sample: nothing is left to fit.")
        single = block.y.ndim == 1
        block = block._replace(y=block.y.reshape(block.n, -1))
        M = self.atoms.size
        cells = max(TILE_CELLS, M * min(M, _TILE_ROWS))
        parts = (
            _of_tile(
                block.X[rows],
                tame(phi),
                block.y[rows],
                None if block.weights is None else block.weights[rows],
                single,
            )
            for rows, phi in shifted_tiles(self.atoms, np.zeros(M), block, cells)
        )
        return reduce(SufficientStatistics.plus, parts)


def _of_tile(
    X: Any, phi: FloatArray, y: FloatArray, weights: FloatArray | None, single: bool
) -> SufficientStatistics:
    """Statistics of rows whose atoms are known."""
    Z = np.concatenate([phi, y], axis=1)
    w = np.ones(len(Z)) if weights is None else weights
    total = float(w.sum())
    unit = np.ones(Z.shape[1])
    with np.errstate(over="ignore", under="ignore"):
        squares = np.einsum("ij,ij,i->j", Z, Z, w)
    extreme = np.flatnonzero(~((squares > _SMALLEST) & (squares < _LARGEST)))
    if extreme.size:
        peak = np.abs(Z[:, extreme]).max(axis=0)
        unit[extreme] = np.where(peak > 0, np.ldexp(1.0, np.frexp(peak)[1] - 1), _NOTHING)
        Z /= unit
    share = w / total
    reference = share @ Z
    Z -= reference
    mean = share @ Z  # of many values is rounded, that of their differences from it not
    Z -= mean
    if weights is not None:
        Z *= np.sqrt(w)[:, None]
    return SufficientStatistics(
        single,
        len(Z),
        total,
        moments(X, weights),
        moments(y, weights),
        unit,
        reference,
        mean,
        Z.T @ Z,
    )


def sufficient_quadratic(
    statistics: SufficientStatistics,
    shift: FloatArray,  # (T,) what is subtracted from the targets,
    scale: float,  # what they are then divided by,
    constant: NDArray[np.bool_],  # (T,) and of which nothing but rounding is left: they become zero
    center: bool,
    noise_prior: NoisePrior | None = None,
    least: float | FloatArray = 0.0,
) -> LazyQuadratic[Known]:
    """The quadratic of Gaussian noise; atoms of a norm below ``least`` are none."""
    M, total = statistics.size, statistics.total
    unit, target_unit = statistics.unit[:M], statistics.unit[M:]
    scatter = statistics.scatter[:M, :M]
    mean = (statistics.reference + statistics.mean)[:M]
    drift = np.zeros(M) if center else mean * total**0.5
    squares = scatter.diagonal()
    if center:
        norm = norm_unless_constant(squares, squares + total * mean**2, total)
    else:
        norm = np.sqrt(squares + drift**2)
    norm[norm * unit < least] = 0.0
    factor = np.where(constant, 0.0, target_unit / scale)
    target_mean = (statistics.reference[M:] - shift / target_unit) + statistics.mean[M:]
    target_mean = target_mean * factor
    target_squares = statistics.scatter.diagonal()[M:] * factor**2
    drawn = statistics.scatter[:M, M:] * factor
    if not center:
        target_squares = target_squares + total * target_mean**2
        drawn = drawn + total * mean[:, None] * target_mean
    targets = Targets(total, target_mean, float(target_squares.sum()))
    means = mean * unit if center else np.zeros(M)
    return LazyQuadratic(
        Known(scatter, unit, drift),
        Columns(means, norm * unit, drawn * unit[:, None], targets.offset(center)),
        targets.facts(center, noise_prior),
        Intercepts(np.full((1, 1, 1), total), center),
    )
