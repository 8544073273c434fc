"""The quadratic of Gaussian noise on rows that are kept elsewhere: sums over them, and no more."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sparsebayes.core.intercepts import Intercepts
from sparsebayes.core.quadratic import (
    COLLINEAR,
    EPS,
    Columns,
    Later,
    LazyQuadratic,
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

__all__ = ["RowProducts", "RowQuadratic", "row_quadratic"]

# A norm about a mean that lies this much nearer than the reference is summed again about the mean.
_CANCELLATION = 1e-3


class RowProducts:
    """Products of atoms at rows that are kept elsewhere: passes over them, or sums of a few."""

    keep = True
    collinear = COLLINEAR

    def __init__(
        self,
        rows: Rows,
        atoms: Atoms,
        center: bool,
        reference: FloatArray,  # (M,) about where the means of the atoms are
        span: Span | None,
    ) -> None:
        self.rows, self.atoms, self.center = rows, atoms, center
        self.reference, self.span = reference, span
        self._whole: Later | None = None
        self._spanned: tuple[FloatArray, FloatArray] | None = None
        self.shift, self.total, self.rest = np.zeros(0), 0.0, 0.0
        self.mean, self.offset = np.zeros(0), np.zeros(0)

    def sums(self, chosen: IndexArray) -> ProductSums:
        """One pass over the rows."""
        if self.span is None:
            return self.rows.fold(Products(self.atoms, self.reference, chosen))
        every = np.arange(self.span.rank)
        few = self.rows.fold(Products(self.span.few, self.span.reference, every))
        self._few = few.columns
        return replace(self.span.products(few, chosen), faint=np.zeros((2, self.atoms.size)))

    def placed(self, sums: ProductSums, mean: FloatArray, offset: FloatArray, rest: float) -> None:
        """Keep what projects the intercepts out, and what the root needs."""
        self.total, self.mean, self.offset, self.rest = sums.total, mean, offset, rest
        self.shift = sums.first if self.center else np.zeros(self.atoms.size)

    def scaled(self, columns: FloatArray, chosen: IndexArray, unit: FloatArray) -> FloatArray:
        """Columns of G, of sums about the reference."""
        columns = columns - self.shift[chosen, None] * (self.shift / self.total)
        columns *= unit
        columns *= unit[chosen, None]
        return columns

    def columns(self, some: IndexArray, unit: FloatArray) -> FloatArray:
        """Products of some columns with all, shape (k, M)."""
        if self.span is not None:
            every = np.arange(self.atoms.size)
            return self.scaled(self.span.between(self._few, some, every), some, unit)
        sums = self.rows.fold(Products(self.atoms, self.reference, some, alone=True))
        return self.scaled(sums.columns, some, unit)

    def block(self, some: IndexArray, unit: FloatArray) -> FloatArray:
        """Products of some columns with each other, shape (k, k)."""
        if not some.size:
            return np.empty((0, 0))
        if self.span is not None:
            gram = self.span.between(self._few, some)
        else:
            few = self.atoms.restrict(some)
            gram = self.rows.fold(Grams(few, self.reference[some])).gram
        shift, inverse = self.shift[some], unit[some]
        G = gram - shift[:, None] * (shift / self.total)
        G *= inverse
        G *= inverse[:, None]
        return G

    def least_squares(self, unit: FloatArray) -> Root | None:
        """All atoms and the targets in one more pass, where they are few or sums of few."""
        if self._whole is None:
            self._whole = self.root(np.arange(self.atoms.size), unit)
        return self._whole()

    def root(self, some: IndexArray, unit: FloatArray) -> Later:
        """The root of some atoms: a pass with them, or with the few that they are sums of."""
        span, most = self.span, most_rooted(int(self.total))

        def made(indices: IndexArray) -> Root:
            if span is None:
                D, t = self._factored(self.atoms.restrict(indices), self.mean[indices])
            else:
                if self._spanned is None:
                    self._spanned = self._factored(span.few, span.reference)
                D, t = self._spanned
                D = D @ span.T[:, indices]
            return reduced(Root(D * unit[indices], t, self.rest, EPS))

        return Later(made, some, most if span is None else self.atoms.size)

    def _factored(self, atoms: Atoms, reference: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Atoms and targets as a triangle, in a pass that forms no squares."""
        factors = Factors(atoms, reference, self.offset, self.center)
        R = factors.merged(self.rows.fold(factors, side_by_side))
        return R[:, : atoms.size], R[:, atoms.size :]


RowQuadratic = LazyQuadratic[RowProducts]


def row_quadratic(
    rows: Rows,
    atoms: Atoms,
    center: bool,
    noise_prior: NoisePrior | None = None,
    reference: FloatArray | None = None,
    prefetch: Sequence[int] | IndexArray = (),
    span: Span | None = None,
) -> RowQuadratic:
    """The quadratic of Gaussian noise of rows whose ``y`` are targets, (n, T): one pass over them.

    That pass also finds columns of G of the atoms ``prefetch``. Means of atoms are about
    ``reference``; with a ``span`` nothing is evaluated but the few that all others are sums of.
    """
    M, chosen = atoms.size, np.asarray(prefetch, dtype=np.intp)
    about = np.zeros(M)
    if span is not None:
        about = span.means
    elif center and reference is not None:
        about = reference
    products = RowProducts(rows, atoms, center, about, span)
    sums = products.sums(chosen)
    moments, lossy = _moments(products, sums)
    if lossy:
        products = RowProducts(rows, atoms, center, moments.mean, None)
        sums = products.sums(chosen)
        moments, _ = _moments(products, sums)
    total = sums.total
    mean = sums.t / total
    squares = sums.tt - total * mean**2 if center else sums.tt
    targets = Targets(total, mean, float(squares.sum()))
    offset = targets.offset(center)
    products.placed(sums, moments.mean, offset, targets.rest(noise_prior))
    quad = LazyQuadratic(
        products,
        Columns(moments.mean, moments.norm, (sums.drawn - offset[:, None] * sums.first).T, offset),
        targets.facts(center, noise_prior),
        Intercepts(np.full((1, 1, 1), total), center),
    )
    quad.keep(chosen, lambda fresh: products.scaled(sums.columns, fresh, quad.unit))
    return quad


def _moments(products: RowProducts, sums: ProductSums) -> tuple[Moments, bool]:
    """Means and norms of atoms, and whether a bad reference has cost them digits."""
    mean, norm, lost = norms_of(sums, products.reference, products.center)
    gone = lost > 0
    if gone.any() and (not norm.any() or not _may_vanish(products.atoms)[gone].all()):
        raise OutOfRange(
            f"the atoms have values of size {lost[gone].min():.0e}, whose squares leave the "
            "range of float64: give X in other units."
        )
    if not products.center:
        return Moments(mean, norm), False
    centered = sums.second - sums.total * (sums.first / sums.total) ** 2
    lossy = (centered < _CANCELLATION * sums.second) & (norm > 0)
    return Moments(mean, norm), bool(lossy.any())


def _may_vanish(atoms: Atoms) -> NDArray[np.bool_]:
    """Which atoms may be too small to count for anything: kernels, far from all rows."""
    found = np.full(atoms.size, isinstance(atoms, KernelAtoms))
    if isinstance(atoms, UnionAtoms):
        for part, columns in zip(atoms.parts, atoms.columns, strict=True):
            found[columns] = _may_vanish(part)
    return found
