"""Laplace's approximation on rows that are kept elsewhere: modes and quadratics as sums over them.

Nothing here is as long as the data. A mode is kept as weights and intercepts; the curvature there
is found again, row by row, by whatever pass needs it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsebayes.core.expanded import in_coordinates
from sparsebayes.core.quadratic import AnyQuadratic, LazyQuadratic
from sparsebayes.core.sums import Rooted
from sparsebayes.design import STORED_BYTES, make_design
from sparsebayes.dictionaries import Atoms, Linear
from sparsebayes.laplace import SOME_ROWS, Latent
from sparsebayes.likelihoods import Likelihood
from sparsebayes.mode_search import Normal, Place, highest
from sparsebayes.rows.blocks import Chosen, Rows, weighted_rows
from sparsebayes.rows.coordinates import Coordinates, Mixed, coordinates_of
from sparsebayes.rows.correction import Correction
from sparsebayes.rows.kinds import ByKind, by_kind
from sparsebayes.rows.products import Functions, Looks, LookSums
from sparsebayes.rows.quadratics import WHOLE, Passes, row_expanded
from sparsebayes.rows.span import Span
from sparsebayes.rows.summary import gather

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = ["RowLandscape", "RowLatent", "RowMode", "Seen"]

_VALUE = 40  # multiplications that an atom at a row costs
_CONFIRMED = 1e-9  # differences of sums, for columns of unit norm, that do no harm,
_MAGNIFIED, _MOST = 1e-4, 1e-6  # and more of them where weights cancel by that factor;
_LIKELY = 1e-7  # differences of the log likelihood


class Seen(NamedTuple):
    """The coordinates in which Newton's method looked, and what it saw where it ended."""

    coordinates: Coordinates
    atoms: IndexArray  # (a,) that they are coordinates of
    place: Functions
    sums: LookSums


class RowMode(NamedTuple):
    """The maximum of the posterior of the weights, at given variances."""

    columns: IndexArray  # (m,)
    w: FloatArray  # (m,) weights of atoms as given
    c: FloatArray  # (K,) intercepts
    penalty: float  # sum of w^2 / (2 v)
    sums: LookSums  # there, of these columns
    seen: Seen | None = None  # the same in coordinates, where there are any

    @property
    def log_likelihood(self) -> float:
        """Log likelihood at the mode."""
        return self.sums.value


class RowLandscape:
    """The landscape of rows: a look is a pass over them, with the active atoms alone.

    Where all atoms are sums of a few, and every active one is there in all latent functions, sums
    are in coordinates.
    """

    def __init__(self, latent: "RowLatent", columns: IndexArray, v: FloatArray) -> None:
        K = latent.K
        self.latent, self.columns, self.center = latent, columns, latent.center
        self.root, self.k = np.sqrt(v), columns % K
        self.atoms, which = np.unique(columns // K, return_inverse=True)
        self.mean = latent.reference[self.atoms][which]
        self.local = which * K + self.k  # the same columns, among these atoms alone
        correction = latent.correction
        self.seen: Coordinates | None = None
        if latent.span is not None and (K == 1 or latent.shared):
            self.seen = coordinates_of(latent.span, latent.atoms, self.atoms)
            self.few, self.reference = self.seen.atoms, self.seen.reference
            self.wanted, self.E = np.arange(self.seen.size * K), self.seen.E
            self.J = self.seen.of(self.local, K)
        else:
            self.few, self.wanted = latent.atoms.restrict(self.atoms), self.local
            self.reference = latent.reference[self.atoms]
            self.E = None if correction is None else correction.E[:, self.atoms]

    def first(
        self, places: list[Place], near: Callable[[Place, "_RowLook"], bool]
    ) -> tuple[int, "_RowLook"]:
        """The highest of some places: all in one pass, if it is the second, as it should be."""
        guess = min(1, len(places) - 1)
        others = [place for i, place in enumerate(places) if i != guess]
        look = self._look(places[guess], tuple(self._functions(place) for place in others))
        values = list(look.sums.elsewhere)
        values.insert(guess, look.value)
        heights = [value - 0.5 * float(z @ z) for value, (z, _) in zip(values, places, strict=True)]
        best = highest(heights)
        return best, look if best == guess else self._look(places[best])

    def look(self, place: Place, before: "tuple[Place, _RowLook] | None" = None) -> "_RowLook":
        """Look at one place, coming from another one."""
        return self._look(place, (), None if before is None else before[1].place)

    def _look(
        self, place: Place, others: tuple[Functions, ...] = (), before: Functions | None = None
    ) -> "_RowLook":
        functions, likelihood = self._functions(place), self.latent.likelihood
        statistic = Looks(
            self.few, self.reference, likelihood, functions, self.wanted, others, before
        )
        sums = self.latent.rows.fold(statistic)
        if self.latent.correction is not None:
            correct = self.latent.correction.applied
            sums = correct(sums, functions, self.E, self.wanted, others)
        return _RowLook(sums, self.root, functions, None if self.seen is None else self.J)

    def _functions(self, place: Place) -> Functions:
        z, c = place
        found = Functions.of(self.local, z * self.root, c)
        if self.seen is None:
            return found
        return Functions(np.arange(self.seen.size), self.seen.J @ found.weights, c)

    def mode(self, w: FloatArray, place: Place, look: "_RowLook") -> RowMode:
        """The mode, where Newton's method ends."""
        z, c = place
        sums, seen = look.sums, None
        if self.seen is not None:
            seen, J = Seen(self.seen, self.atoms, look.place, sums), self.J
            gradient, cross, gram = J.T @ sums.gradient, J.T @ sums.cross, J.T @ sums.gram @ J
            sums = replace(sums, gradient=gradient, cross=cross, gram=gram)
        return RowMode(self.columns, w, c, 0.5 * float(z @ z), sums, seen)


class _RowLook(NamedTuple):
    """A look at rows."""

    sums: LookSums
    root: FloatArray
    place: Functions
    J: FloatArray | None  # where sums are in coordinates: those of the columns

    @property
    def value(self) -> float:
        """Log likelihood."""
        return self.sums.value

    @property
    def moved(self) -> float:
        """Largest change of a latent function since the look before."""
        return self.sums.moved

    @property
    def peak(self) -> float:
        """Largest absolute value of a latent function."""
        return self.sums.peak

    def normal(self) -> Normal:
        """Sums of first and second derivatives."""
        sums, root = self.sums, self.root
        if self.J is not None:
            mix = self.J * root
            return Normal(sums.gradient, sums.pull, sums.gram, sums.cross, sums.C[None], mix)
        gram = sums.gram * root
        gram *= root[:, None]
        cross = sums.cross * root[:, None]
        return Normal(sums.gradient * root, sums.pull, gram, cross, sums.C[None])


@dataclass(frozen=True)
class RowLatent:
    """Data and a likelihood of latent functions, where the data are rows kept elsewhere."""

    rows: Rows  # whose y are targets as the likelihood takes them, with their final weights
    atoms: Atoms
    likelihood: Likelihood  # it must be picklable
    center: bool  # whether each latent function has an intercept
    shared: bool  # whether the latent functions share the variance of each atom
    reference: FloatArray  # (M,) about where the means of the atoms are
    n_rows: int  # about how many rows of positive weight there are
    counts: FloatArray | None = None  # (kinds,) of targets 0, 1, ..., where these are classes
    span: Span | None = None  # the atoms as sums of a few, evaluated in their place where that pays
    correction: Correction | None = None  # what sums over other rows have beyond these, a sample

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
        """These rows, with some of the atoms."""
        span = None if self.span is None else self.span.seen(atoms)
        few, reference = self.atoms.restrict(atoms), self.reference[atoms]
        correction = None if self.correction is None else self.correction.restrict(atoms)
        return replace(self, atoms=few, reference=reference, span=span, correction=correction)

    def resembled(self, quad: AnyQuadratic, atoms: IndexArray, sample: Rows) -> "RowLatent | None":
        """A sample of the rows that stands for all of them around a mode, with some of the atoms.

        ``quad`` is an expansion over all rows; its mode is of some of ``atoms``, which ascend. Rows
        of the sample have weights by which they stand for all, and are coordinates
        (`rows.kept.transformed`) where the expansion is in coordinates. None where there are too
        many atoms for their products to be known.
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
        """A sample that stands for all rows, where its rows are coordinates."""
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
