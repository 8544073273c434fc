"""The quadratic of active columns alone, from nothing but the sums that Newton's method has made.

It holds at any place, be it the mode or not: there ``l(f) + slope (f' - f) - (f' - f)'B(f' - f)/2``
is what the likelihood looks like.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsebayes.core.intercepts import Intercepts
from sparsebayes.latent_quadratic import ColumnMoments, LatentColumns
from sparsebayes.mode_search import Normal, Place

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = ["ActiveColumns", "ActiveQuadratic", "log_offset_at", "total_pull"]


class ActiveColumns(NamedTuple):
    """The columns that sums were made of: ``scale`` (phi - mean), whitened or not."""

    columns: IndexArray  # (m,) of ``a K + k``
    scale: FloatArray  # (m,)
    mean: FloatArray  # (m,)
    n_atoms: int  # that are counted, active or not


class ActiveQuadratic(LatentColumns):
    """Quadratic of a likelihood around a place, of which only active columns can be asked.

    Parameters
    ----------
    active : ActiveColumns
        What the sums are of.
    normal : Normal
        The sums.
    place : pair of ndarray
        Weights of the scaled columns and intercepts where they were made.
    value : float
        Log likelihood there.
    center : bool
        Whether intercepts are projected out.
    shared : bool
        Whether the K columns of an atom share their variance.

    Examples
    --------
    >>> import numpy as np
    >>> one, none = np.ones(1), np.zeros(1)
    >>> sums = Normal(2 * one, none, np.full((1, 1), 4.0), np.zeros((1, 1)), np.ones((1, 1, 1)))
    >>> active = ActiveColumns(np.zeros(1, dtype=np.intp), one, none, 1)
    >>> quad = ActiveQuadratic(active, sums, (none, none), -3.0, False, False)
    >>> quad.norm, quad.g.ravel(), quad.log_offset
    (array([2.]), array([1.]), -3.0)
    """

    def __init__(
        self,
        active: ActiveColumns,
        normal: Normal,
        place: Place,
        value: float,
        center: bool,
        shared: bool,
    ) -> None:
        (z, c), (gradient, _, gram, D, curvature, _) = place, normal
        intercepts = Intercepts(curvature, center)
        C, K = intercepts.C, len(c)
        total = total_pull(normal, place, C)
        columns, inverse = active.columns, 1.0 / active.scale
        shape = active.n_atoms, K
        mean, cross, drawn = np.zeros(active.n_atoms), np.zeros((*shape, K)), np.zeros(shape)
        mean[columns // K] = active.mean
        cross.reshape(-1, K)[columns] = D * inverse[:, None]
        drawn.reshape(-1)[columns] = (gradient + gram @ z + D @ c) * inverse
        moments = ColumnMoments(intercepts, mean, cross, _blocks(active, gram, K), drawn, total)
        super().__init__(moments, center, shared)
        self.log_offset = log_offset_at(normal, place, value, intercepts)
        self._row = np.zeros(active.n_atoms * K, dtype=np.intp)
        self._row[columns] = np.arange(columns.size)
        self._inverse_scale = inverse
        self._projected = gram - D @ intercepts.covariance @ D.T

    def _block(self, indices: IndexArray) -> FloatArray:
        rows = self._row[indices]
        scale = self._inverse_norm[indices] * self._inverse_scale[rows]
        return self._projected[rows[:, None], rows] * (scale * scale[:, None])


def total_pull(normal: Normal, place: Place, C: FloatArray) -> FloatArray:
    """Sum of B f + slope over samples, (K,); C is the sum of B."""
    z, c = place
    return normal.pull + normal.cross.T @ z + C @ c


def log_offset_at(normal: Normal, place: Place, value: float, intercepts: Intercepts) -> float:
    """What depends on no variance in the evidence of an expansion, intercepts integrated out.

    Parameters
    ----------
    normal : Normal
        Sums at a place, be it the mode or not.
    place : pair of ndarray
        Weights of the columns that the sums are of, and intercepts.
    value : float
        Log likelihood there.
    intercepts : Intercepts
        Of the same curvature.

    Returns
    -------
    float
        In nats.
    """
    z, c = place
    total = total_pull(normal, place, intercepts.C)
    met = z @ normal.gradient + c @ normal.pull  # slope f
    bent = z @ (normal.gram @ z) + c @ (total - normal.pull + normal.cross.T @ z)  # f'B f
    gained = total @ intercepts.covariance @ total
    return float(value - met + 0.5 * (gained - bent)) + intercepts.log_volume


def _blocks(active: ActiveColumns, gram: FloatArray, K: int) -> FloatArray:
    """Sums of B (phi - mean)^2, (M, K, K): of active columns with those of the same atom."""
    blocks = np.zeros((active.n_atoms * K, K))
    columns = active.columns
    if K == 1:
        blocks[columns, 0] = gram.diagonal() / active.scale**2
        return blocks[:, :, None]
    one, two = np.nonzero(columns[:, None] // K == columns // K)
    blocks[columns[one], columns[two] % K] = gram[one, two] / (
        active.scale[one] * active.scale[two]
    )
    return blocks.reshape(active.n_atoms, K, K)
