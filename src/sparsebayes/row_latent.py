"""Laplace's approximation on rows that are kept elsewhere: modes and quadratics as sums over them.

Nothing here is as long as the data. A mode is kept as weights and intercepts; the curvature there
is found again, row by row, by whatever pass needs it.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsebayes.active_quadratic import log_offset_at, total_pull
from sparsebayes.core.intercepts import Intercepts
from sparsebayes.design import STORED_BYTES, make_design
from sparsebayes.dictionaries import Atoms, Linear
from sparsebayes.engine import Breakdown
from sparsebayes.laplace import SOME_ROWS, Latent
from sparsebayes.latent_quadratic import ColumnMoments, LatentColumns
from sparsebayes.likelihoods import Likelihood
from sparsebayes.mode_search import Normal
from sparsebayes.row_correction import Correction
from sparsebayes.row_landscape import RowLandscape, RowMode
from sparsebayes.rows.blocks import Chosen, Rows, weighted_rows
from sparsebayes.rows.coordinates import Coordinates, Mixed, coordinates_of
from sparsebayes.rows.kinds import ByKind, by_kind
from sparsebayes.rows.latent import Functions, Looks, LookSums, Screens, ScreenSums
from sparsebayes.rows.span import Span
from sparsebayes.rows.summary import gather
from sparsebayes.spanned_quadratic import SpannedQuadratic

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = ["RowLatent", "RowLatentQuadratic"]

_VALUE = 40  # multiplications that an atom at a row costs
_CONFIRMED = 1e-9  # differences of sums, for columns of unit norm, that do no harm,
_MAGNIFIED, _MOST = 1e-4, 1e-6  # and more of them where weights cancel by that factor;
_LIKELY = 1e-7  # differences of the log likelihood
_WHOLE = 512  # columns up to which all of G is summed in the pass that finds everything else
# A square about a mean that lies this much nearer than the reference is summed again about it.
_CANCELLATION = 1e-4
_NO_CURVATURE = 1e-300
_CONSTANT = (8 * float(np.finfo(float).eps)) ** 2  # of its square: what is left of a constant atom


@dataclass(frozen=True)
class RowLatent:
    """Data and a likelihood of latent functions, where the data are rows kept elsewhere.

    Parameters
    ----------
    rows : Rows
        Rows whose ``y`` are targets as the likelihood takes them, (n,), with their final weights.
    atoms : Atoms
        Atoms that can be evaluated at any row.
    likelihood : Likelihood
        Likelihood of the targets; it must be picklable.
    center : bool
        Whether each latent function has an intercept, with a flat prior.
    shared : bool
        Whether the latent functions share the variance of each atom.
    reference : ndarray of shape (M,)
        About where the means of the atoms are; only used with an intercept.
    n_rows : int
        About how many rows of positive weight there are.
    counts : ndarray of shape (kinds,) or None, default=None
        How many of them have target 0, 1, ..., where targets are classes.
    span : Span or None, default=None
        The atoms as sums of a few, which are then all that is evaluated where that pays.
    correction : Correction or None, default=None
        What sums over other rows have beyond those over these, which are a sample of them.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.dictionaries import Linear
    >>> from sparsebayes.laplace import find_mode
    >>> from sparsebayes.likelihoods import Poisson
    >>> from sparsebayes.rows import LocalRows, open_source
    >>> X, y = np.zeros((4, 1)), np.array([1.0, 2, 3, 2])
    >>> rows = LocalRows(open_source(X, y), block_rows=3)
    >>> latent = RowLatent(rows, Linear().bind(X), Poisson(), True, False, np.zeros(1), 4)
    >>> mode = find_mode(latent, np.empty(0, dtype=np.intp), np.empty(0))
    >>> np.exp(mode.c).round(9)
    array([2.])
    """

    rows: Rows
    atoms: Atoms
    likelihood: Likelihood
    center: bool
    shared: bool
    reference: FloatArray
    n_rows: int
    counts: FloatArray | None = None
    span: Span | None = None
    correction: Correction | None = None

    def __post_init__(self) -> None:
        if not self.center:
            object.__setattr__(self, "reference", np.zeros(self.atoms.size))

    @property
    def K(self) -> int:
        """Number of latent functions."""
        return self.likelihood.n_latent

    @property
    def n_atoms(self) -> int:
        """Number of atoms."""
        return self.atoms.size

    def restrict(self, atoms: IndexArray) -> "RowLatent":
        """The same rows with some of the atoms."""
        span = None if self.span is None else self.span.seen(atoms)
        few, reference = self.atoms.restrict(atoms), self.reference[atoms]
        correction = None if self.correction is None else self.correction.restrict(atoms)
        return replace(self, atoms=few, reference=reference, span=span, correction=correction)

    def resembled(self, quad: LatentColumns, atoms: IndexArray, sample: Rows) -> "RowLatent | None":
        """A sample of the rows that stands for all of them around a mode, with some of the atoms.

        Parameters
        ----------
        quad : RowLatentQuadratic or SpannedQuadratic
            An expansion over all rows.
        atoms : ndarray of int
            Atoms of it, ascending; those of the mode are among them.
        sample : Rows
            Some of the rows, with weights by which they stand for all; their coordinates
            (`rows.kept.transformed`) where the expansion is in coordinates.

        Returns
        -------
        RowLatent or None
            None where there are too many atoms for their products to be known.
        """
        if isinstance(quad, SpannedQuadratic):
            return self._resembled(quad, atoms, sample)
        if not isinstance(quad, RowLatentQuadratic) or atoms.size * self.K > _WHOLE:
            return None
        place, everything = quad.sums_of(atoms)
        few, reference = quad.atoms.restrict(atoms), quad.reference[atoms]
        every = np.arange(atoms.size * self.K)
        looked = Looks(few, reference, self.likelihood, place, every)
        correction = Correction.between(place, everything, sample.fold(looked), np.eye(atoms.size))
        return replace(
            self, rows=sample, atoms=few, reference=reference, span=None, correction=correction
        )

    def _resembled(
        self, quad: SpannedQuadratic, atoms: IndexArray, sample: Rows
    ) -> "RowLatent | None":
        """The same where rows of the sample are coordinates of its rows."""
        assert self.span is not None
        r, A = self.span.rank, quad.A[:, atoms]
        several = self.K > 1 and not self.shared  # then quadratics may be sums of all columns
        if len(quad.A) != r or (several and atoms.size * self.K > _WHOLE):
            return None  # the expansion was in other coordinates, or there are too many
        own, nothing, every = Linear().bind(np.zeros((1, r))), np.zeros(r), np.arange(r * self.K)
        looked = Looks(own, nothing, self.likelihood, quad.place, every)
        correction = Correction.between(quad.place, quad.sums, sample.fold(looked), A)
        reference = quad.reference[atoms]
        return replace(
            self,
            rows=sample,
            atoms=Mixed(own, A, reference),
            reference=reference,
            span=Span(own, nothing, A, np.eye(r), A, reference, plain=True),
            correction=correction,
        )

    def coordinates(self) -> Coordinates | None:
        """Those of all atoms, where these are sums of a few."""
        if self.span is None:
            return None
        return coordinates_of(self.span, self.atoms, np.arange(self.atoms.size))

    def draw(self, rng: np.random.RandomState) -> Chosen | ByKind | None:
        """Rows drawn at random, more of rare classes; None where there are not too many."""
        if self.n_rows <= 2 * SOME_ROWS:
            return None
        seed = int(rng.randint(2**31 - 1))
        if self.counts is not None:
            return by_kind(self.counts, SOME_ROWS, seed)
        return Chosen(SOME_ROWS / self.n_rows, seed)

    def take(self, rows: Chosen | ByKind, memory: int = STORED_BYTES) -> Latent:
        """These rows, in memory; atoms are kept too if they take no more than so many bytes."""
        X, t, weights = gather(self.rows.mapped(rows).mapped(weighted_rows))
        design = make_design(self.atoms, X, memory)
        return Latent(design, t, weights, self.likelihood, self.center, self.shared)

    def landscape(self, columns: IndexArray, v: FloatArray) -> RowLandscape:
        """The log likelihood as a function of the weights of some columns."""
        return RowLandscape(self, columns, v)

    def quadratic(self, mode: RowMode, alone: bool = False) -> LatentColumns:
        """Expand the likelihood around a mode, over all atoms or those that are active there."""
        found = self._alone(mode) if alone else self._spanned(mode)
        return RowLatentQuadratic(self, mode, alone) if found is None else found

    def _alone(self, mode: RowMode) -> SpannedQuadratic | None:
        """In the coordinates in which Newton's method has looked: no pass is needed."""
        if mode.seen is None:
            return None
        seen = mode.seen
        A = np.zeros((seen.coordinates.size, self.n_atoms))
        A[:, seen.atoms] = seen.coordinates.J
        return SpannedQuadratic(
            seen.sums,
            seen.place,
            A,
            self.reference,
            self.center,
            self.shared,
            self.n_rows,
            clip=self.correction is None,  # then what is negative is rounding
        )

    def _spanned(self, mode: RowMode) -> SpannedQuadratic | None:
        """One pass over the rows, in coordinates of all atoms, if that pays."""
        K, at = self.K, self.coordinates()
        if at is None:
            return None
        accurate = mode.seen is not None and K == 1
        if not accurate and not _pays(at.size, self.n_atoms, K, mode.columns.size):
            return None
        active = np.unique(mode.columns // K)
        functions = self._functions(mode)
        here = Functions(np.arange(at.size), at.J[:, active] @ functions.weights, functions.c)
        every = np.arange(at.size * K)
        sums = self.rows.fold(Looks(at.atoms, at.reference, self.likelihood, here, every))
        if self.correction is not None:
            sums = self.correction.applied(sums, here, at.E, every)
        if not self._confirmed(mode, at.of(mode.columns, K), sums):
            return None
        return SpannedQuadratic(
            sums, here, at.J, self.reference, self.center, self.shared, self.n_rows, clip=True
        )

    def _confirmed(self, mode: RowMode, J: FloatArray, sums: LookSums) -> bool:
        """Whether sums of columns J agree with those of the atoms themselves.

        Newton's method has summed the latter, at latent functions that differ by the rounding of
        the span, magnified as far as weights cancel. Where it has used the span itself they take
        one more pass.
        """
        log_likelihood, own, gram = mode.log_likelihood, mode.sums.gram, sums.gram
        if mode.seen is not None and mode.seen.coordinates.E is None and self.correction is None:
            atoms, which = np.unique(mode.columns // self.K, return_inverse=True)
            here = self._functions(mode)
            here = replace(here, atoms=np.arange(atoms.size))
            few, local = self.atoms.restrict(atoms), which * self.K + mode.columns % self.K
            looked = self.rows.fold(Looks(few, self.reference[atoms], self.likelihood, here, local))
            log_likelihood, own = looked.value, looked.gram
        if not abs(sums.value - log_likelihood) <= _LIKELY * (1.0 + abs(log_likelihood)):
            return False
        found = J.T @ gram @ J
        root = np.sqrt(np.maximum(own.diagonal(), 0.0))
        theta = J @ mode.w
        left = float(theta @ gram @ theta)
        canceled = np.sqrt(float(np.square(mode.w * root).sum()) / left) if left > 0 else 0.0
        allowed = min(_CONFIRMED * (1.0 + _MAGNIFIED * canceled), _MOST)
        return bool((np.abs(found - own) <= allowed * root * root[:, None]).all())

    def _functions(self, mode: RowMode) -> Functions:
        """The latent functions at a mode, of atoms less their references."""
        if mode.seen is None:
            shift = np.bincount(
                mode.columns % self.K,
                mode.w * self.reference[mode.columns // self.K],
                minlength=self.K,
            )
            return Functions.of(mode.columns, mode.w, mode.c + shift)
        return Functions.of(mode.columns, mode.w, mode.seen.place.c)


class _Found(NamedTuple):
    """Sums about a reference, for all columns of a quadratic."""

    cross: FloatArray  # (M, K, K) of B phi
    squares: FloatArray  # (M, K, K) of B phi^2; only the diagonal where none is shared
    drawn: FloatArray  # (M, K) of phi times the pull
    columns: IndexArray  # (p,) some columns
    products: FloatArray  # (p, M K) of these with all columns


class RowLatentQuadratic(LatentColumns):
    """Quadratic of a likelihood around a mode, each statistic of which is a sum over rows.

    One pass over the rows finds what a screen needs, the columns of G of active atoms included. Of
    few atoms it finds all of G; and where nobody will ask for other columns than those of the mode,
    no pass is needed: Newton's method has summed it all.

    Parameters
    ----------
    latent : RowLatent
        Data and likelihood.
    mode : RowMode
        The mode, of columns of the same atoms.
    alone : bool, default=False
        Whether nobody will ask for other columns than those of the mode: the others are void.
    """

    def __init__(self, latent: RowLatent, mode: RowMode, alone: bool = False) -> None:
        self.rows, self.atoms, self.likelihood = latent.rows, latent.atoms, latent.likelihood
        self.mode, self.reference, self.correction = mode, latent.reference, latent.correction
        center, shared, n = latent.center, latent.shared, latent.n_rows
        sums = mode.sums
        intercepts = Intercepts(sums.C[None], center)
        place = mode.w, self._functions().c
        normal = Normal(sums.gradient, sums.pull, sums.gram, sums.cross, sums.C[None])
        total = total_pull(normal, place, sums.C)
        log_offset = log_offset_at(normal, place, mode.log_likelihood, intercepts)
        if alone:
            found = self._dense(sums, mode.columns)
            moments, _ = self._moments(found, intercepts, total, n, center and latent.K == 1)
        else:
            found = self._summed(shared)
            moments, lossy = self._moments(found, intercepts, total, n, center)
            if lossy and self.correction is not None:
                raise Breakdown  # the correction is of atoms less this reference
            if lossy:
                self.reference = moments.mean
                found = self._summed(shared)
                moments, _ = self._moments(found, intercepts, total, n, center)
        if self.correction is not None and (moments.blocks.diagonal(axis1=1, axis2=2) < 0).any():
            raise Breakdown  # so far from where it holds that it leaves no curvature
        super().__init__(moments, center, shared, log_offset)
        self._shift = found.cross.reshape(-1, self.K)
        if found.columns.size:
            self.cache.columns(found.columns, lambda fresh: self._scaled(found.products, fresh))

    def _functions(self) -> Functions:
        """The latent functions at the mode, of atoms less their references."""
        columns, w, c = self.mode.columns, self.mode.w, self.mode.c
        K = len(c)
        shift = np.bincount(columns % K, w * self.reference[columns // K], minlength=K)
        return Functions.of(columns, w, c + shift)

    def _summed(self, shared: bool) -> _Found:
        """One pass over the rows."""
        M, K = self.atoms.size, len(self.mode.c)
        if M * K <= _WHOLE:
            every = np.arange(M * K)
            return self._dense(self._look(np.arange(M), every), every)
        wanted = self.mode.columns
        sums = self._screen(wanted, shared)
        one, two = np.triu_indices(K)
        cross, squares = np.empty((M, K, K)), np.zeros((M, K, K))
        cross[:, one, two] = cross[:, two, one] = sums.first.T
        if not shared:
            one, two = np.arange(K), np.arange(K)
        squares[:, one, two] = squares[:, two, one] = sums.second.T
        return _Found(cross, squares, sums.drawn.T, wanted, _flat(sums.columns))

    def _screen(self, wanted: IndexArray, pairs: bool) -> ScreenSums:
        if self.correction is not None:
            raise Breakdown  # it knows no such sums
        functions = self._functions()
        return self.rows.fold(
            Screens(self.atoms, self.reference, self.likelihood, functions, wanted, pairs)
        )

    def _look(self, atoms: IndexArray, columns: IndexArray) -> LookSums:
        """Sums of some columns with each other; ``atoms`` are theirs, in order."""
        K, functions = len(self.mode.c), self._functions()
        needed = np.union1d(atoms, functions.atoms)
        few = self.atoms if needed.size == self.atoms.size else self.atoms.restrict(needed)
        here = replace(functions, atoms=np.searchsorted(needed, functions.atoms))
        local = np.searchsorted(needed, columns // K) * K + columns % K
        sums = self.rows.fold(Looks(few, self.reference[needed], self.likelihood, here, local))
        if self.correction is not None:
            sums = self.correction.applied(sums, here, self.correction.E[:, needed], local)
        return sums

    def sums_of(self, atoms: IndexArray) -> tuple[Functions, LookSums]:
        """Sums at the mode, of all columns of some atoms with each other.

        Parameters
        ----------
        atoms : ndarray of int
            The atoms, ascending; those of the mode are among them.

        Returns
        -------
        place : Functions
            The latent functions at the mode, of these atoms.
        sums : LookSums
            The sums: one pass over the rows.
        """
        K, functions = len(self.mode.c), self._functions()
        place = replace(functions, atoms=np.searchsorted(atoms, functions.atoms))
        columns = (atoms[:, None] * K + np.arange(K)).ravel()
        return place, self._look(atoms, columns)

    def _dense(self, sums: LookSums, columns: IndexArray) -> _Found:
        """Sums of some columns, among which are those of the mode, with each other."""
        M, K = self.atoms.size, len(self.mode.c)
        w, rows = np.zeros(M * K), np.arange(columns.size)
        w[self.mode.columns] = self.mode.w
        cross, drawn, squares = np.zeros((M * K, K)), np.zeros(M * K), np.zeros((M * K, K))
        products = np.zeros((columns.size, M * K))
        cross[columns] = sums.cross
        products[:, columns] = sums.gram
        drawn[columns] = sums.gram @ w[columns] + sums.cross @ self._functions().c + sums.gradient
        own = (columns // K * K)[:, None] + np.arange(K)
        squares[columns] = products[rows[:, None], own]
        by_atom = M, K, K
        return _Found(
            cross.reshape(by_atom), squares.reshape(by_atom), drawn.reshape(M, K), columns, products
        )

    def _moments(
        self, found: _Found, intercepts: Intercepts, total: FloatArray, n: int, center: bool
    ) -> tuple[ColumnMoments, bool]:
        """Moments about the means of atoms, and whether a bad reference has cost them digits."""
        cross, squares, C = found.cross, found.squares, intercepts.C
        own, reference = np.einsum("akk->ak", squares), self.reference[:, None]
        shift = np.zeros(len(cross))
        if center:
            shift = np.einsum("akk->a", cross) / max(float(C.trace()), _NO_CURVATURE)
        d = shift[:, None, None]
        about = squares - d * (2.0 * cross - d * C)
        left = np.einsum("akk->ak", about)
        with np.errstate(over="ignore"):  # infinite for a large constant, which is told by that
            raw = own + reference * (2.0 * np.einsum("akk->ak", cross) + reference * C.diagonal())
        constant = (left <= _CONSTANT * n * raw).all(axis=1) & center
        lossy = ((left < _CANCELLATION * own) & ~constant[:, None]).any() and center
        off = cross - d * C
        if len(C) == 1 and center:
            off = np.zeros_like(cross)  # but for rounding
        about, off = (np.where(constant[:, None, None], 0.0, sums) for sums in (about, off))
        drawn = found.drawn - shift[:, None] * total
        mean = self.reference + shift
        return ColumnMoments(intercepts, mean, off, about, drawn, total), bool(lossy)

    def _scaled(self, products: FloatArray, chosen: IndexArray) -> FloatArray:
        """Columns of G, intercepts projected out and of unit norm, of sums about the reference."""
        rows = products - self._shift[chosen] @ self.intercepts.covariance @ self._shift.T
        rows *= self._inverse_norm
        rows *= self._inverse_norm[chosen, None]
        rows[np.arange(chosen.size), chosen] = self.diag[chosen]
        return rows

    def _compute(self, fresh: IndexArray) -> FloatArray:
        return self._scaled(_flat(self._screen(fresh, False).columns), fresh)

    def _block(self, indices: IndexArray) -> FloatArray:
        if not indices.size:
            return np.empty((0, 0))
        gram = self._look(np.unique(self.atom(indices)), indices).gram
        shift, inverse = self._shift[indices], self._inverse_norm[indices]
        G = gram - shift @ self.intercepts.covariance @ shift.T
        G *= inverse
        G *= inverse[:, None]
        return G


def _pays(few: int, M: int, K: int, active: int) -> bool:
    """Whether all products of few atoms cost less than what a screen needs of all atoms."""
    products = (M * K) ** 2 if M * K <= _WHOLE else 2 * M * K * (active + K + 2)
    return _VALUE * few + (few * K) ** 2 <= _VALUE * M + products


def _flat(columns: FloatArray) -> FloatArray:
    """Products (p, K, M) in the order of columns, (p, M K)."""
    p, K, M = columns.shape
    return columns.transpose(0, 2, 1).reshape(p, M * K)
