"""Quadratics of likelihoods of latent functions, whose statistics are sums over blocks of rows."""

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsebayes.core.expanded import CONSTANT, expanded, projected, total_pull, value_at
from sparsebayes.core.intercepts import NO_CURVATURE, Intercepts
from sparsebayes.core.quadratic import COLLINEAR, LazyQuadratic
from sparsebayes.engine import Breakdown
from sparsebayes.mode_search import Normal
from sparsebayes.row_landscape import RowMode
from sparsebayes.rows.latent import Functions, Looks, LookSums, Screens, ScreenSums

if TYPE_CHECKING:
    from sparsebayes.row_latent import RowLatent

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = ["WHOLE", "RowExpansion", "row_expanded"]

WHOLE = 512
"""Columns up to which all of G is summed in the pass that finds everything else."""

# A square about a mean that lies this much nearer than the reference is summed again about it.
_CANCELLATION = 1e-4


class _Found(NamedTuple):
    """Sums about a reference, for all columns of a quadratic."""

    cross: FloatArray  # (M, K, K) of B phi
    squares: FloatArray  # (M, K, K) of B phi^2; only the diagonal where none is shared
    drawn: FloatArray  # (M, K) of phi times the pull
    columns: IndexArray  # (p,) some columns
    products: FloatArray  # (p, M K) of these with all columns


class RowExpansion:
    """Products of columns around a mode: passes over rows that are kept elsewhere."""

    keep = True
    collinear = COLLINEAR

    def __init__(self, latent: "RowLatent", mode: RowMode, reference: FloatArray) -> None:
        self.rows, self.atoms, self.likelihood = latent.rows, latent.atoms, latent.likelihood
        self.mode, self.reference, self.correction = mode, reference, latent.correction
        self.shift, self.covariance = np.zeros((0, 0)), np.zeros((0, 0))
        # the latent functions at the mode, of atoms less their references
        columns, w, c = mode.columns, mode.w, mode.c
        K = len(c)
        shift = np.bincount(columns % K, w * reference[columns // K], minlength=K)
        self.functions = Functions.of(columns, w, c + shift)

    def summed(self, shared: bool) -> _Found:
        """One pass over the rows: what a screen needs, or all of G where columns are few."""
        M, K = self.atoms.size, len(self.mode.c)
        if M * K <= WHOLE:
            every = np.arange(M * K)
            return self.dense(self._look(np.arange(M), every), every)
        wanted = self.mode.columns
        sums = self._screen(wanted, shared)
        one, two = np.triu_indices(K)
        cross, squares = np.empty((M, K, K)), np.zeros((M, K, K))
        cross[:, one, two] = cross[:, two, one] = sums.first.T
        if not shared:
            one, two = np.arange(K), np.arange(K)
        squares[:, one, two] = squares[:, two, one] = sums.second.T
        return _Found(cross, squares, sums.drawn.T, wanted, _flat(sums.columns))

    def dense(self, sums: LookSums, columns: IndexArray) -> _Found:
        """Sums of some columns, among which are those of the mode, with each other."""
        M, K = self.atoms.size, len(self.mode.c)
        w, rows = np.zeros(M * K), np.arange(columns.size)
        w[self.mode.columns] = self.mode.w
        cross, drawn, squares = np.zeros((M * K, K)), np.zeros(M * K), np.zeros((M * K, K))
        products = np.zeros((columns.size, M * K))
        cross[columns] = sums.cross
        products[:, columns] = sums.gram
        drawn[columns] = sums.gram @ w[columns] + sums.cross @ self.functions.c + sums.gradient
        own = (columns // K * K)[:, None] + np.arange(K)
        squares[columns] = products[rows[:, None], own]
        by_atom = M, K, K
        return _Found(
            cross.reshape(by_atom), squares.reshape(by_atom), drawn.reshape(M, K), columns, products
        )

    def _screen(self, wanted: IndexArray, pairs: bool) -> ScreenSums:
        if self.correction is not None:
            raise Breakdown  # it knows no such sums
        return self.rows.fold(
            Screens(self.atoms, self.reference, self.likelihood, self.functions, wanted, pairs)
        )

    def _look(self, atoms: IndexArray, columns: IndexArray) -> LookSums:
        """Sums of some columns with each other; ``atoms`` are theirs, in order."""
        K, functions = len(self.mode.c), self.functions
        needed = np.union1d(atoms, functions.atoms)
        few = self.atoms if needed.size == self.atoms.size else self.atoms.restrict(needed)
        here = replace(functions, atoms=np.searchsorted(needed, functions.atoms))
        local = np.searchsorted(needed, columns // K) * K + columns % K
        sums = self.rows.fold(Looks(few, self.reference[needed], self.likelihood, here, local))
        if self.correction is not None:
            sums = self.correction.applied(sums, here, self.correction.E[:, needed], local)
        return sums

    def sums_of(self, atoms: IndexArray) -> tuple[Functions, LookSums]:
        """The latent functions at the mode and sums of all columns of some atoms: one pass.

        Atoms are ascending; those of the mode are among them.
        """
        K, functions = len(self.mode.c), self.functions
        place = replace(functions, atoms=np.searchsorted(atoms, functions.atoms))
        columns = (atoms[:, None] * K + np.arange(K)).ravel()
        return place, self._look(atoms, columns)

    def placed(self, cross: FloatArray, covariance: FloatArray) -> None:
        """Keep what projects the intercepts out of products about the reference."""
        self.shift, self.covariance = cross.reshape(-1, len(covariance)), covariance

    def scaled(self, products: FloatArray, some: IndexArray, unit: FloatArray) -> FloatArray:
        """Columns of G, of sums about the reference."""
        rows = products - self.shift[some] @ self.covariance @ self.shift.T
        rows *= unit
        rows *= unit[some, None]
        return rows

    def columns(self, some: IndexArray, unit: FloatArray) -> FloatArray:
        """Products of some columns with all, shape (k, M K)."""
        return self.scaled(_flat(self._screen(some, False).columns), some, unit)

    def block(self, some: IndexArray, unit: FloatArray) -> FloatArray:
        """Products of some columns with each other, shape (k, k)."""
        if not some.size:
            return np.empty((0, 0))
        gram = self._look(np.unique(some // len(self.mode.c)), some).gram
        shift, scale = self.shift[some], unit[some]
        G = gram - shift @ self.covariance @ shift.T
        G *= scale
        G *= scale[:, None]
        return G

    def least_squares(self, unit: FloatArray) -> None:
        """Squares are all that was summed."""

    def root(self, some: IndexArray, unit: FloatArray) -> None:
        """Squares are all that was summed."""


def row_expanded(
    latent: "RowLatent", mode: RowMode, alone: bool = False
) -> LazyQuadratic[RowExpansion]:
    """The quadratic around a mode: one pass for all that a screen of the atoms needs.

    Where nobody will ask for other columns than those of the mode (``alone``) no pass is needed:
    Newton's method has summed it all. The others are void then.
    """
    sums, center = mode.sums, latent.center
    products = RowExpansion(latent, mode, latent.reference)
    intercepts = Intercepts(sums.C[None], center)
    place = mode.w, products.functions.c
    normal = Normal(sums.gradient, sums.pull, sums.gram, sums.cross, sums.C[None])
    total = total_pull(normal, place, sums.C)
    value = value_at(normal, place, mode.log_likelihood, total)
    if alone:
        found = products.dense(sums, mode.columns)
        shifts = center and latent.K == 1
        about, _ = _about(found, products, intercepts, total, latent.n_rows, shifts)
    else:
        found = products.summed(latent.shared)
        about, lossy = _about(found, products, intercepts, total, latent.n_rows, center)
        if lossy and latent.correction is not None:
            raise Breakdown  # the correction is of atoms less this reference
        if lossy:
            products = RowExpansion(latent, mode, about.mean)
            found = products.summed(latent.shared)
            about, _ = _about(found, products, intercepts, total, latent.n_rows, center)
    if latent.correction is not None and (about.squares.diagonal(axis1=1, axis2=2) < 0).any():
        raise Breakdown  # so far from where it holds that it leaves no curvature
    sums_left = projected(intercepts, about.cross, about.squares, about.drawn, total)
    products.placed(found.cross, intercepts.covariance)
    quad = expanded(products, intercepts, about.mean, sums_left, total, latent.shared, value)
    quad.keep(found.columns, lambda fresh: products.scaled(found.products, fresh, quad.unit))
    return quad


class _About(NamedTuple):
    """Sums about the means of atoms."""

    mean: FloatArray  # (M,)
    cross: FloatArray  # (M, K, K) of B (phi - mean)
    squares: FloatArray  # (M, K, K) of B (phi - mean)^2
    drawn: FloatArray  # (M, K) of (phi - mean) times the pull


def _about(
    found: _Found,
    products: RowExpansion,
    intercepts: Intercepts,
    total: FloatArray,
    n: int,
    center: bool,
) -> tuple[_About, bool]:
    """Sums about the means of atoms, and whether a bad reference has cost them digits."""
    cross, squares, C = found.cross, found.squares, intercepts.C
    own, reference = np.einsum("akk->ak", squares), products.reference[:, None]
    shift = np.zeros(len(cross))
    if center:
        shift = np.einsum("akk->a", cross) / max(float(C.trace()), NO_CURVATURE)
    d = shift[:, None, None]
    about = squares - d * (2.0 * cross - d * C)
    left = np.einsum("akk->ak", about)
    with np.errstate(over="ignore"):  # infinite for a large constant, which is told by that
        raw = own + reference * (2.0 * np.einsum("akk->ak", cross) + reference * C.diagonal())
    constant = (left <= CONSTANT * n * raw).all(axis=1) & center
    lossy = ((left < _CANCELLATION * own) & ~constant[:, None]).any() and center
    off = cross - d * C
    if len(C) == 1 and center:
        off = np.zeros_like(cross)  # but for rounding
    about, off = (np.where(constant[:, None, None], 0.0, sums) for sums in (about, off))
    drawn = found.drawn - shift[:, None] * total
    return _About(products.reference + shift, off, about, drawn), bool(lossy)


def _flat(columns: FloatArray) -> FloatArray:
    """Products (p, K, M) in the order of columns, (p, M K)."""
    p, K, M = columns.shape
    return columns.transpose(0, 2, 1).reshape(p, M * K)
