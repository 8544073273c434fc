"""Quadratics on rows that are kept elsewhere: sums over them, and no more."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsebayes.core.expanded import expanded, projected, total_pull, value_at
from sparsebayes.core.intercepts import Intercepts
from sparsebayes.core.quadratic import (
    AnyQuadratic,
    Columns,
    Later,
    LazyQuadratic,
    Root,
    Targets,
    most_rooted,
    reduced,
)
from sparsebayes.core.sums import InCoordinates
from sparsebayes.core.tolerances import COLLINEAR, EPS, TOLERANCES
from sparsebayes.dictionaries import Atoms
from sparsebayes.dictionaries._protocol import OutOfRange
from sparsebayes.dictionaries.kernels import KernelAtoms
from sparsebayes.dictionaries.union import UnionAtoms
from sparsebayes.engine import Breakdown
from sparsebayes.mode_search import Normal
from sparsebayes.noise_priors import NoisePrior
from sparsebayes.rows.blocks import Rows
from sparsebayes.rows.correction import Correction
from sparsebayes.rows.gaussian import Factors, Grams, Norms, SizeSums, norms_of, side_by_side
from sparsebayes.rows.products import (
    Curvature,
    Functions,
    Looks,
    LookSums,
    Screens,
    ScreenSums,
    Weighted,
)
from sparsebayes.rows.span import Span

if TYPE_CHECKING:
    from sparsebayes.rows.latent import RowLatent, RowMode

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = ["WHOLE", "Passes", "row_expanded", "row_quadratic"]

WHOLE = 512
"""Columns up to which all of G is summed in the pass that finds everything else."""

# A square about a mean that lies this much nearer than the reference is summed again about it: of
# Gaussian noise, and of a likelihood.
_CANCELLATION, _LATENT_CANCELLATION = 1e-3, 1e-4


class Passes:
    """Products of columns in a metric: passes over rows that are kept elsewhere."""

    keep = True
    collinear = COLLINEAR

    def __init__(
        self,
        rows: Rows,
        atoms: Atoms,
        reference: FloatArray,  # (M,) about where the means of the atoms are
        metric: Weighted | Curvature,
        correction: Correction | None = None,
    ) -> None:
        self.rows, self.atoms, self.reference = rows, atoms, reference
        self.metric, self.correction, self.K = metric, correction, metric.K
        self.shift, self.covariance = np.zeros((0, self.K)), np.zeros((self.K, self.K))
        self._rooted: Callable[[IndexArray], Root] | None = None
        self._most = 0
        self._whole: Later | None = None

    def project(self, first: FloatArray, covariance: FloatArray) -> None:
        """Take intercepts off: ``first``, (M K, K), are sums of B phi about the reference."""
        self.shift, self.covariance = first, covariance

    def rooted(self, make: Callable[[IndexArray], Root], most: int) -> None:
        """Say how the root of some columns is made, worth it up to so many of them."""
        self._rooted, self._most = make, most

    def screen(self, wanted: IndexArray, pairs: bool = False, alone: bool = False) -> ScreenSums:
        """One pass over the rows, with all atoms."""
        if self.correction is not None:
            raise Breakdown  # it knows no such sums
        return self.rows.fold(
            Screens(self.atoms, self.reference, self.metric, wanted, pairs, alone)
        )

    def look(self, atoms: IndexArray, columns: IndexArray) -> LookSums:
        """Sums of some columns with each other around a mode; ``atoms`` are theirs, in order."""
        assert isinstance(self.metric, Curvature)
        K, functions = self.K, self.metric.functions
        needed = np.union1d(atoms, functions.atoms)
        few = self.atoms if needed.size == self.atoms.size else self.atoms.restrict(needed)
        here = replace(functions, atoms=np.searchsorted(needed, functions.atoms))
        local = np.searchsorted(needed, columns // K) * K + columns % K
        looks = Looks(few, self.reference[needed], self.metric.likelihood, here, local)
        sums = self.rows.fold(looks)
        if self.correction is not None:
            sums = self.correction.applied(sums, here, self.correction.E[:, needed], local)
        return sums

    def sums_of(self, atoms: IndexArray) -> tuple[Functions, LookSums]:
        """The latent functions at the mode and sums of all columns of some atoms: one pass.

        Atoms are ascending; those of the mode are among them.
        """
        assert isinstance(self.metric, Curvature)
        functions = self.metric.functions
        place = replace(functions, atoms=np.searchsorted(atoms, functions.atoms))
        columns = (atoms[:, None] * self.K + np.arange(self.K)).ravel()
        return place, self.look(atoms, columns)

    def scaled(self, products: FloatArray, some: IndexArray, unit: FloatArray) -> FloatArray:
        """Columns of G, of sums about the reference."""
        rows = products - self.shift[some] @ self.covariance @ self.shift.T
        rows *= unit
        rows *= unit[some, None]
        return rows

    def columns(self, some: IndexArray, unit: FloatArray) -> FloatArray:
        """Products of some columns with all, shape (k, M K)."""
        return self.scaled(_flat(self.screen(some, alone=True).columns), some, unit)

    def block(self, some: IndexArray, unit: FloatArray) -> FloatArray:
        """Products of some columns with each other, shape (k, k)."""
        if not some.size:
            return np.empty((0, 0))
        if isinstance(self.metric, Weighted):
            gram = self.rows.fold(Grams(self.atoms.restrict(some), self.reference[some])).gram
        else:
            gram = self.look(np.unique(some // self.K), some).gram
        shift, scale = self.shift[some], unit[some]
        G = gram - shift @ self.covariance @ shift.T
        G *= scale
        G *= scale[:, None]
        return G

    def least_squares(self, unit: FloatArray) -> Root | None:
        """All columns and the targets in one more pass, where they are few."""
        if self._whole is None:
            self._whole = self.root(np.arange(unit.size), unit)
        return None if self._whole is None else self._whole()

    def root(self, some: IndexArray, unit: FloatArray) -> Later | None:
        """The root of some columns, a pass with them; None where squares are all that is summed."""
        make = self._rooted
        if make is None:
            return None

        def made(indices: IndexArray) -> Root:
            found = make(indices)
            return reduced(found._replace(D=found.D * unit[indices]))

        return Later(made, some, self._most)


def row_quadratic(
    rows: Rows,
    atoms: Atoms,
    center: bool,
    noise_prior: NoisePrior | None = None,
    reference: FloatArray | None = None,
    prefetch: Sequence[int] | IndexArray = (),
    span: Span | None = None,
) -> AnyQuadratic:
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
        few = Passes(rows, span.few, span.reference, Weighted()).screen(every)
        shift = few.first[0] if center else np.zeros(span.rank)
        metric = (few.columns[:, 0] - shift[:, None] * (shift / few.C)) @ span.T
        sums = span.products(few)
    else:
        products = Passes(rows, atoms, about, Weighted())
        sums = products.screen(chosen)
    sizes, lossy = _sizes(atoms, sums, about, center)
    if lossy:
        metric = None
        products = Passes(rows, atoms, sizes.mean, Weighted())
        sums = products.screen(chosen)
        sizes, _ = _sizes(atoms, sums, sizes.mean, center)
    total = float(sums.C[0, 0])
    mean = sums.pull / total
    squares = sums.squares - total * mean**2 if center else sums.squares
    targets = Targets(total, mean, float(squares.sum()))
    offset, rest = targets.offset(center), targets.rest(noise_prior)
    drawn = (sums.drawn - offset[:, None] * sums.first).T
    columns = Columns(sizes.mean, sizes.norm, drawn, offset)
    intercepts, facts = Intercepts(sums.C[None], center), targets.facts(center, noise_prior)

    def factored(few: Atoms, reference: FloatArray) -> Root:
        """Atoms and targets as a triangle, in a pass that forms no squares."""
        factors = Factors(few, reference, offset, center)
        R = factors.merged(rows.fold(factors, side_by_side))
        return Root(R[:, : few.size], R[:, few.size :], rest, EPS)

    if span is not None and metric is not None:
        spanning = span.few, span.reference
        spanned = InCoordinates(span.T, metric, lambda: factored(*spanning))
        return LazyQuadratic(spanned, columns, facts, intercepts)
    products.project(sums.first.T, intercepts.covariance)
    most = most_rooted(int(total))
    products.rooted(lambda few: factored(atoms.restrict(few), sizes.mean[few]), most)
    quad = LazyQuadratic(products, columns, facts, intercepts)
    quad.keep(chosen, lambda fresh: products.scaled(_flat(sums.columns), fresh, quad.unit))
    return quad


def _sizes(
    atoms: Atoms, sums: ScreenSums, reference: FloatArray, center: bool
) -> tuple[Norms, bool]:
    """Means and norms of atoms, and whether a bad reference has cost them digits."""
    total, first, second = float(sums.C[0, 0]), sums.first[0], sums.second[0]
    found = norms_of(SizeSums(total, first, second, sums.faint), reference, center)
    gone = found.lost > 0
    if gone.any() and (not found.norm.any() or not _may_vanish(atoms)[gone].all()):
        raise OutOfRange(
            f"the atoms have values of size {found.lost[gone].min():.0e}, whose squares leave the "
            "range of float64: give X in other units."
        )
    if not center:
        return found, False
    lossy = second - total * (first / total) ** 2 < _CANCELLATION * second
    return found, bool((lossy & (found.norm > 0)).any())


def _may_vanish(atoms: Atoms) -> NDArray[np.bool_]:
    """Which atoms may be too small to count for anything: kernels, far from all rows."""
    found = np.full(atoms.size, isinstance(atoms, KernelAtoms))
    if isinstance(atoms, UnionAtoms):
        for part, columns in zip(atoms.parts, atoms.columns, strict=True):
            found[columns] = _may_vanish(part)
    return found


class _Found(NamedTuple):
    """Sums about a reference, for all columns of a quadratic."""

    cross: FloatArray  # (M, K, K) of B phi
    squares: FloatArray  # (M, K, K) of B phi^2; only the diagonal where none is shared
    drawn: FloatArray  # (M, K) of phi times the pull
    columns: IndexArray  # (p,) some columns
    products: FloatArray  # (p, M K) of these with all columns


def _dense(
    mode: "RowMode", place: Functions, M: int, sums: LookSums, columns: IndexArray
) -> _Found:
    """Sums of some columns, among which are those of the mode, with each other."""
    K = len(place.c)
    w, rows = np.zeros(M * K), np.arange(columns.size)
    w[mode.columns] = mode.w
    cross, drawn, squares = np.zeros((M * K, K)), np.zeros(M * K), np.zeros((M * K, K))
    products = np.zeros((columns.size, M * K))
    cross[columns] = sums.cross
    products[:, columns] = sums.gram
    drawn[columns] = sums.gram @ w[columns] + sums.cross @ place.c + sums.gradient
    own = (columns // K * K)[:, None] + np.arange(K)
    squares[columns] = products[rows[:, None], own]
    by_atom = M, K, K
    return _Found(
        cross.reshape(by_atom), squares.reshape(by_atom), drawn.reshape(M, K), columns, products
    )


def _summed(mode: "RowMode", products: Passes, place: Functions, shared: bool) -> _Found:
    """One pass over the rows: what a screen needs, or all of G where columns are few."""
    M, K = products.atoms.size, products.K
    if M * K <= WHOLE:
        every = np.arange(M * K)
        return _dense(mode, place, M, products.look(np.arange(M), every), every)
    sums = products.screen(mode.columns, shared)
    one, two = np.triu_indices(K)
    cross, squares = np.empty((M, K, K)), np.zeros((M, K, K))
    cross[:, one, two] = cross[:, two, one] = sums.first.T
    if not shared:
        one, two = np.arange(K), np.arange(K)
    squares[:, one, two] = squares[:, two, one] = sums.second.T
    return _Found(cross, squares, sums.drawn.T, mode.columns, _flat(sums.columns))


def row_expanded(
    latent: "RowLatent", mode: "RowMode", alone: bool = False
) -> LazyQuadratic[Passes]:
    """The quadratic around a mode: one pass for all that a screen of the atoms needs.

    Where nobody will ask for other columns than those of the mode (``alone``) no pass is needed:
    Newton's method has summed it all. The others are void then.
    """
    sums, center, K = mode.sums, latent.center, latent.K
    intercepts = Intercepts(sums.C[None], center)

    def started(reference: FloatArray) -> tuple[Passes, Functions]:
        shift = np.bincount(mode.columns % K, mode.w * reference[mode.columns // K], minlength=K)
        place = Functions.of(mode.columns, mode.w, mode.c + shift)
        metric = Curvature(latent.likelihood, place)
        return Passes(latent.rows, latent.atoms, reference, metric, latent.correction), place

    products, place = started(latent.reference)
    at = mode.w, place.c
    normal = Normal(sums.gradient, sums.pull, sums.gram, sums.cross, sums.C[None])
    total = total_pull(normal, at, sums.C)
    value = value_at(normal, at, mode.log_likelihood, total)
    if alone:
        found = _dense(mode, place, latent.n_atoms, sums, mode.columns)
        about, _ = _about(found, products, intercepts, total, latent.n_rows, center and K == 1)
    else:
        found = _summed(mode, products, place, latent.shared)
        about, lossy = _about(found, products, intercepts, total, latent.n_rows, center)
        if lossy and latent.correction is not None:
            raise Breakdown  # the correction is of atoms less this reference
        if lossy:
            products, place = started(about.mean)
            found = _summed(mode, products, place, latent.shared)
            about, _ = _about(found, products, intercepts, total, latent.n_rows, center)
    if latent.correction is not None and (about.squares.diagonal(axis1=1, axis2=2) < 0).any():
        raise Breakdown  # so far from where it holds that it leaves no curvature
    sums_left = projected(intercepts, about.cross, about.squares, about.drawn, total)
    products.project(found.cross.reshape(-1, K), intercepts.covariance)
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
    products: Passes,
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
        shift = np.einsum("akk->a", cross) / max(float(C.trace()), TOLERANCES.no_curvature)
    d = shift[:, None, None]
    about = squares - d * (2.0 * cross - d * C)
    left = np.einsum("akk->ak", about)
    with np.errstate(over="ignore"):  # infinite for a large constant, which is told by that
        raw = own + reference * (2.0 * np.einsum("akk->ak", cross) + reference * C.diagonal())
    constant = (left <= TOLERANCES.constant * n * raw).all(axis=1) & center
    lossy = ((left < _LATENT_CANCELLATION * own) & ~constant[:, None]).any() and center
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
