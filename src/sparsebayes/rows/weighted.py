"""The quadratic of Gaussian noise on rows that are kept elsewhere: sums over them, and no more."""

from collections.abc import Sequence
from typing import Any

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
from sparsebayes.core.sums import InCoordinates
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

__all__ = ["RowQuadratic", "row_quadratic"]

# A norm about a mean that lies this much nearer than the reference is summed again about the mean.
_CANCELLATION = 1e-3


class RowProducts:
    """Products of atoms at rows that are kept elsewhere: passes over them."""

    keep = True
    collinear = COLLINEAR

    def __init__(
        self,
        rows: Rows,
        atoms: Atoms,
        center: bool,
        reference: FloatArray,  # (M,) about where the means of the atoms are
        sums: ProductSums,
        mean: FloatArray,  # (M,) of atoms
        offset: FloatArray,  # (T,) what is taken off the targets
        rest: float,  # squares of targets that no row has
    ) -> None:
        self.rows, self.atoms, self.center, self.reference = rows, atoms, center, reference
        self.mean, self.offset, self.rest = mean, offset, rest
        self.total = sums.total
        self.shift = sums.first if center else np.zeros(atoms.size)
        self._whole: Later | None = None

    def scaled(self, columns: FloatArray, chosen: IndexArray, unit: FloatArray) -> FloatArray:
        """Columns of G, of sums about the reference."""
        columns = columns - self.shift[chosen, None] * (self.shift / self.total)
        columns *= unit
        columns *= unit[chosen, None]
        return columns

    def columns(self, some: IndexArray, unit: FloatArray) -> FloatArray:
        """Products of some columns with all, shape (k, M)."""
        sums = self.rows.fold(Products(self.atoms, self.reference, some, alone=True))
        return self.scaled(sums.columns, some, unit)

    def block(self, some: IndexArray, unit: FloatArray) -> FloatArray:
        """Products of some columns with each other, shape (k, k)."""
        if not some.size:
            return np.empty((0, 0))
        gram = self.rows.fold(Grams(self.atoms.restrict(some), self.reference[some])).gram
        shift, inverse = self.shift[some], unit[some]
        G = gram - shift[:, None] * (shift / self.total)
        G *= inverse
        G *= inverse[:, None]
        return G

    def least_squares(self, unit: FloatArray) -> Root | None:
        """All atoms and the targets in one more pass, where they are few."""
        if self._whole is None:
            self._whole = self.root(np.arange(self.atoms.size), unit)
        return self._whole()

    def root(self, some: IndexArray, unit: FloatArray) -> Later:
        """The root of some atoms: a pass with them."""

        def made(indices: IndexArray) -> Root:
            few = self.atoms.restrict(indices)
            found = _factored(self.rows, few, self.mean[indices], self.offset, self.center)
            D = found.D * unit[indices]
            return reduced(found._replace(D=D, rest=self.rest))

        return Later(made, some, most_rooted(int(self.total)))


def _factored(
    rows: Rows, atoms: Atoms, reference: FloatArray, offset: FloatArray, center: bool
) -> Root:
    """Atoms and targets as a triangle, in a pass that forms no squares."""
    factors = Factors(atoms, reference, offset, center)
    R = factors.merged(rows.fold(factors, side_by_side))
    return Root(R[:, : atoms.size], R[:, atoms.size :], error=EPS)


RowQuadratic = LazyQuadratic[Any]


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
    ``reference``. With a ``span`` nothing is evaluated but the few that all others are sums of, and
    that pass finds all of G.
    """
    chosen, about = np.asarray(prefetch, dtype=np.intp), np.zeros(atoms.size)
    if center and reference is not None:
        about = reference
    metric = None
    if span is not None:
        about, every = span.means, np.arange(span.rank)
        few = rows.fold(Products(span.few, span.reference, every))
        shift = few.first if center else np.zeros(span.rank)
        metric = (few.columns - shift[:, None] * (shift / few.total)) @ span.T
        sums = span.products(few)
    else:
        sums = rows.fold(Products(atoms, about, chosen))
    moments, lossy = _moments(atoms, sums, about, center)
    if lossy:
        about, metric = moments.mean, None
        sums = rows.fold(Products(atoms, about, chosen))
        moments, _ = _moments(atoms, sums, about, center)
    total = sums.total
    mean = sums.t / total
    squares = sums.tt - total * mean**2 if center else sums.tt
    targets = Targets(total, mean, float(squares.sum()))
    offset, rest = targets.offset(center), targets.rest(noise_prior)
    drawn = (sums.drawn - offset[:, None] * sums.first).T
    columns = Columns(moments.mean, moments.norm, drawn, offset)
    intercepts = Intercepts(np.full((1, 1, 1), total), center)
    facts = targets.facts(center, noise_prior)
    if metric is not None and span is not None:
        spanning = span.few, span.reference

        def root() -> Root:
            return _factored(rows, *spanning, offset, center)._replace(rest=rest)

        return LazyQuadratic(InCoordinates(span.T, metric, root), columns, facts, intercepts)
    products = RowProducts(rows, atoms, center, about, sums, moments.mean, offset, rest)
    quad = LazyQuadratic(products, columns, facts, intercepts)
    quad.keep(chosen, lambda fresh: products.scaled(sums.columns, fresh, quad.unit))
    return quad


def _moments(
    atoms: Atoms, sums: ProductSums, reference: FloatArray, center: bool
) -> tuple[Moments, bool]:
    """Means and norms of atoms, and whether a bad reference has cost them digits."""
    mean, norm, lost = norms_of(sums, reference, center)
    gone = lost > 0
    if gone.any() and (not norm.any() or not _may_vanish(atoms)[gone].all()):
        raise OutOfRange(
            f"the atoms have values of size {lost[gone].min():.0e}, whose squares leave the "
            "range of float64: give X in other units."
        )
    if not center:
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
