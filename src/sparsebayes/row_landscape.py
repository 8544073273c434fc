"""What Newton's method sees of rows that are kept elsewhere: every look is a pass over them."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsebayes.mode_search import Normal, Place, highest
from sparsebayes.rows.coordinates import Coordinates, coordinates_of
from sparsebayes.rows.products import Functions, Looks, LookSums

if TYPE_CHECKING:
    from sparsebayes.row_latent import RowLatent

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = ["RowLandscape", "RowMode", "Seen"]


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
