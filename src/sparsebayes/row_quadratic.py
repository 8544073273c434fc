"""The quadratic of Gaussian noise on rows that are kept elsewhere: sums over them, and no more."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sparsebayes.core.quadratic import (
    EPS,
    CenteredQuadratic,
    Later,
    Root,
    Targets,
    most_rooted,
    reduced,
)
from sparsebayes.design import Moments
from sparsebayes.dictionaries import Atoms
from sparsebayes.dictionaries._protocol import OutOfRange
from sparsebayes.dictionaries.kernels import KernelAtoms
from sparsebayes.dictionaries.union import UnionAtoms
from sparsebayes.noise_priors import NoisePrior
from sparsebayes.rows.blocks import Rows
from sparsebayes.rows.gaussian import (
    Factors,
    Grams,
    Products,
    ProductSums,
    norms_of,
    side_by_side,
)
from sparsebayes.rows.span import Span

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
    span : Span or None, default=None
        The atoms as sums of a few, which are then all that is evaluated; in one pass for all of G.

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
        span: Span | None = None,
    ) -> None:
        self.rows, self.atoms, self.center, self.span = rows, atoms, center, span
        self.reference = np.zeros(atoms.size)
        self._whole: Later | None = None
        self._spanned: tuple[FloatArray, FloatArray] | None = None
        if span is not None:
            self.reference = span.means
        elif center and reference is not None:
            self.reference = reference
        chosen = np.asarray(prefetch, dtype=np.intp)
        sums = self._sums(chosen)
        moments, lossy = self._moments(sums)
        if lossy:
            self.reference, self.span = moments.mean, None
            sums = self._sums(chosen)
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

    def _sums(self, chosen: IndexArray) -> ProductSums:
        """One pass over the rows."""
        if self.span is None:
            return self.rows.fold(Products(self.atoms, self.reference, chosen))
        every = np.arange(self.span.rank)
        few = self.rows.fold(Products(self.span.few, self.span.reference, every))
        self._few = few.columns
        return replace(self.span.products(few, chosen), faint=np.zeros((2, self.atoms.size)))

    def _moments(self, sums: ProductSums) -> tuple[Moments, bool]:
        """Means and norms of atoms, and whether a bad reference has cost them digits."""
        mean, norm, lost = norms_of(sums, self.reference, self.center)
        gone = lost > 0
        if gone.any() and (not norm.any() or not _may_vanish(self.atoms)[gone].all()):
            raise OutOfRange(
                f"the atoms have values of size {lost[gone].min():.0e}, whose squares leave the "
                "range of float64: give X in other units."
            )
        if not self.center:
            return Moments(mean, norm), False
        centered = sums.second - sums.total * (sums.first / sums.total) ** 2
        lossy = (centered < _CANCELLATION * sums.second) & (norm > 0)
        return Moments(mean, norm), bool(lossy.any())

    def _scaled(self, columns: FloatArray, chosen: IndexArray) -> FloatArray:
        """Columns of G, centered and of unit norm, of sums about the reference."""
        columns = columns - self._shift[chosen, None] * (self._shift / self._total)
        columns *= self._inverse_norm
        columns *= self._inverse_norm[chosen, None]
        columns[np.arange(chosen.size), chosen] = self.diag[chosen]
        return columns

    def least_squares(self) -> Root | None:
        """All atoms and the targets in one more pass, where they are few or sums of few."""
        if self._whole is None:
            self._whole = self._later(np.arange(self.size))
        return self._whole()

    def _later(self, indices: IndexArray) -> Later:
        most = self.size if self.span is not None else most_rooted(int(self.total))
        return Later(self._root, indices, most)

    def _root(self, indices: IndexArray) -> Root:
        """The root of some atoms: a pass with them, or with the few that they are sums of."""
        span = self.span
        if span is None:
            few, reference = self.atoms.restrict(indices), self.mean[indices]
            D, t = self._factored(few, reference)
        else:
            if self._spanned is None:
                self._spanned = self._factored(span.few, span.reference)
            D, t = self._spanned
            D = D @ span.T[:, indices]
        return reduced(Root(D * self._inverse_norm[indices], t, self.before, EPS))

    def _factored(self, atoms: Atoms, reference: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Atoms and targets as a triangle, in a pass that forms no squares."""
        factors = Factors(atoms, reference, self.offset, self.center)
        R = factors.merged(self.rows.fold(factors, side_by_side))
        return R[:, : atoms.size], R[:, atoms.size :]

    def _compute(self, fresh: IndexArray) -> FloatArray:
        if self.span is not None:
            return self._scaled(self.span.between(self._few, fresh, np.arange(self.size)), fresh)
        sums = self.rows.fold(Products(self.atoms, self.reference, fresh, alone=True))
        return self._scaled(sums.columns, fresh)

    def _block(self, indices: IndexArray) -> FloatArray:
        if not indices.size:
            return np.empty((0, 0))
        if self.span is not None:
            gram = self.span.between(self._few, indices)
        else:
            few = self.atoms.restrict(indices)
            gram = self.rows.fold(Grams(few, self.reference[indices])).gram
        shift, inverse = self._shift[indices], self._inverse_norm[indices]
        G = gram - shift[:, None] * (shift / self._total)
        G *= inverse
        G *= inverse[:, None]
        return G


def _may_vanish(atoms: Atoms) -> NDArray[np.bool_]:
    """Which atoms may be too small to count for anything: kernels, far from all rows."""
    found = np.full(atoms.size, isinstance(atoms, KernelAtoms))
    if isinstance(atoms, UnionAtoms):
        for part, columns in zip(atoms.parts, atoms.columns, strict=True):
            found[columns] = _may_vanish(part)
    return found
