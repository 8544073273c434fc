"""The quadratic of Gaussian noise on rows that are kept elsewhere: sums over them, and no more."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sparsebayes.design import Moments, norm_unless_constant
from sparsebayes.dictionaries import Atoms
from sparsebayes.noise_priors import NoisePrior
from sparsebayes.quadratic import CenteredQuadratic, Targets
from sparsebayes.rows.blocks import Rows
from sparsebayes.rows.gaussian import Grams, Products, ProductSums

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = ["RowQuadratic"]

# A norm about a mean that lies this much nearer than the reference is summed again about the mean.
_CANCELLATION = 1e-3


class RowQuadratic(CenteredQuadratic):
    """The quadratic of Gaussian noise, each statistic of which is a sum over blocks of rows.

    Parameters
    ----------
    rows : Rows
        Rows whose ``y`` are targets, (n, T).
    atoms : Atoms
        Atoms that can be evaluated at any row.
    center : bool
        Whether an intercept with a flat prior is integrated out.
    noise_prior : InverseGamma, LogGamma or None, default=None
        Prior of the noise variance.
    reference : ndarray of shape (M,) or None, default=None
        About where the means of the atoms are; only used with an intercept.
    prefetch : array of int, default=()
        Atoms whose columns of G are computed in the pass that finds everything else.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.dictionaries import Linear
    >>> from sparsebayes.rows import LocalRows, open_source
    >>> X = np.array([[1.0, 0.0], [1.0, 2.0], [1.0, 4.0]])
    >>> rows = LocalRows(open_source(X, np.array([[-1.0], [0.0], [1.0]])), block_rows=2)
    >>> quad = RowQuadratic(rows, Linear().bind(X), center=True, prefetch=[1])
    >>> quad.diag, quad.g.ravel().round(3), rows.meter.passes
    (array([0., 1.]), array([0.   , 1.414]), 1)
    """

    def __init__(
        self,
        rows: Rows,
        atoms: Atoms,
        center: bool,
        noise_prior: NoisePrior | None = None,
        reference: FloatArray | None = None,
        prefetch: Sequence[int] | IndexArray = (),
    ) -> None:
        self.rows, self.atoms, self.center = rows, atoms, center
        self.reference = np.zeros(atoms.size)
        if center and reference is not None:
            self.reference = reference
        chosen = np.asarray(prefetch, dtype=np.intp)
        sums = rows.fold(Products(atoms, self.reference, chosen))
        moments, lossy = self._moments(sums)
        if lossy:
            self.reference = moments.mean
            sums = rows.fold(Products(atoms, self.reference, chosen))
            moments, _ = self._moments(sums)
        total = sums.total
        mean = sums.t / total
        squares = sums.tt - total * mean**2 if center else sums.tt
        targets = Targets(total, mean, float(squares.sum()))
        super().__init__(moments, targets, center, noise_prior)
        drawn = sums.drawn
        if center:
            drawn = drawn - mean[:, None] * sums.first
        self.g = np.ascontiguousarray((drawn * self._inverse_norm).T)
        self._shift = sums.first if center else np.zeros(atoms.size)
        self._total = total
        if chosen.size:
            self.cache.columns(chosen, lambda fresh: self._scaled(sums.columns, fresh))

    def _moments(self, sums: ProductSums) -> tuple[Moments, bool]:
        """Means and norms of atoms, and whether a bad reference has cost them digits."""
        if not self.center:
            return Moments(np.zeros(len(sums.second)), np.sqrt(sums.second)), False
        shift = sums.first / sums.total
        mean = self.reference + shift
        centered = sums.second - sums.total * shift**2
        squares = centered + sums.total * mean**2
        norm = norm_unless_constant(centered, squares, sums.total)
        lossy = (centered < _CANCELLATION * sums.second) & (norm > 0)
        return Moments(mean, norm), bool(lossy.any())

    def _scaled(self, columns: FloatArray, chosen: IndexArray) -> FloatArray:
        """Columns of G, centered and of unit norm, of sums about the reference."""
        columns = columns - self._shift[chosen, None] * (self._shift / self._total)
        columns *= self._inverse_norm
        columns *= self._inverse_norm[chosen, None]
        columns[np.arange(chosen.size), chosen] = self.diag[chosen]
        return columns

    def _compute(self, fresh: IndexArray) -> FloatArray:
        sums = self.rows.fold(Products(self.atoms, self.reference, fresh, alone=True))
        return self._scaled(sums.columns, fresh)

    def _block(self, indices: IndexArray) -> FloatArray:
        if not indices.size:
            return np.empty((0, 0))
        few = self.atoms.restrict(indices)
        sums = self.rows.fold(Grams(few, self.reference[indices]))
        shift, inverse = self._shift[indices], self._inverse_norm[indices]
        G = sums.gram - shift[:, None] * (shift / self._total)
        G *= inverse
        G *= inverse[:, None]
        return G
