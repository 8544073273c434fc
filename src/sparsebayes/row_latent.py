"""Laplace's approximation on rows that are kept elsewhere: modes and quadratics as sums over them.

Nothing here is as long as the data. A mode is kept as weights and intercepts; the curvature there
is found again, row by row, by whatever pass needs it.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sparsebayes.core.expanded import in_coordinates
from sparsebayes.core.quadratic import AnyQuadratic, LazyQuadratic
from sparsebayes.core.sums import Rooted
from sparsebayes.design import STORED_BYTES, make_design
from sparsebayes.dictionaries import Atoms, Linear
from sparsebayes.laplace import SOME_ROWS, Latent
from sparsebayes.likelihoods import Likelihood
from sparsebayes.mode_search import Normal
from sparsebayes.row_correction import Correction
from sparsebayes.row_landscape import RowLandscape, RowMode
from sparsebayes.rows.blocks import Chosen, Rows, weighted_rows
from sparsebayes.rows.coordinates import Coordinates, Mixed, coordinates_of
from sparsebayes.rows.kinds import ByKind, by_kind
from sparsebayes.rows.products import Functions, Looks, LookSums
from sparsebayes.rows.quadratics import WHOLE, Passes, row_expanded
from sparsebayes.rows.span import Span
from sparsebayes.rows.summary import gather

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = ["RowLatent"]

_VALUE = 40  # multiplications that an atom at a row costs
_CONFIRMED = 1e-9  # differences of sums, for columns of unit norm, that do no harm,
_MAGNIFIED, _MOST = 1e-4, 1e-6  # and more of them where weights cancel by that factor;
_LIKELY = 1e-7  # differences of the log likelihood


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

    def resembled(self, quad: AnyQuadratic, atoms: IndexArray, sample: Rows) -> "RowLatent | None":
        """A sample of the rows that stands for all of them around a mode, with some of the atoms.

        Parameters
        ----------
        quad : LazyQuadratic
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
        products = quad.products
        if isinstance(products, Rooted):
            return self._resembled(products, atoms, sample)
        if not isinstance(products, Passes) or atoms.size * self.K > WHOLE:
            return None
        place, everything = products.sums_of(atoms)
        few, reference = products.atoms.restrict(atoms), products.reference[atoms]
        every = np.arange(atoms.size * self.K)
        looked = Looks(few, reference, self.likelihood, place, every)
        correction = Correction.between(place, everything, sample.fold(looked), np.eye(atoms.size))
        return replace(
            self, rows=sample, atoms=few, reference=reference, span=None, correction=correction
        )

    def _resembled(self, products: Rooted, atoms: IndexArray, sample: Rows) -> "RowLatent | None":
        """The same where rows of the sample are coordinates of its rows."""
        assert self.span is not None
        r, A = self.span.rank, products.A[:, atoms]
        several = self.K > 1 and not self.shared  # then quadratics may be sums of all columns
        if len(products.A) != r or (several and atoms.size * self.K > WHOLE):
            return None  # the expansion was in other coordinates, or there are too many
        own, nothing, every = Linear().bind(np.zeros((1, r))), np.zeros(r), np.arange(r * self.K)
        place, everything = products.seen
        looked = Looks(own, nothing, self.likelihood, place, every)
        correction = Correction.between(place, everything, sample.fold(looked), A)
        reference = self.reference[atoms]
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

    def quadratic(self, mode: RowMode, alone: bool = False) -> AnyQuadratic:
        """Expand the likelihood around a mode, over all atoms or those that are active there."""
        found = self._alone(mode) if alone else self._spanned(mode)
        return row_expanded(self, mode, alone) if found is None else found

    def _alone(self, mode: RowMode) -> LazyQuadratic[Rooted] | None:
        """In the coordinates in which Newton's method has looked: no pass is needed."""
        if mode.seen is None:
            return None
        seen = mode.seen
        A = np.zeros((seen.coordinates.size, self.n_atoms))
        A[:, seen.atoms] = seen.coordinates.J
        # without a correction what is negative is rounding
        return self._in_coordinates(seen.place, seen.sums, A, clip=self.correction is None)

    def _spanned(self, mode: RowMode) -> LazyQuadratic[Rooted] | None:
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
        return self._in_coordinates(here, sums, at.J, clip=True)

    def _in_coordinates(
        self, place: Functions, sums: LookSums, A: FloatArray, clip: bool
    ) -> LazyQuadratic[Rooted]:
        normal = Normal(sums.gradient, sums.pull, sums.gram, sums.cross, sums.C[None])
        at = place.weights.ravel(), place.c
        kind = self.reference, self.center, self.shared, self.n_rows
        return in_coordinates(normal, at, sums.value, A, *kind, clip, seen=(place, sums))

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


def _pays(few: int, M: int, K: int, active: int) -> bool:
    """Whether all products of few atoms cost less than what a screen needs of all atoms."""
    products = (M * K) ** 2 if M * K <= WHOLE else 2 * M * K * (active + K + 2)
    return _VALUE * few + (few * K) ** 2 <= _VALUE * M + products
