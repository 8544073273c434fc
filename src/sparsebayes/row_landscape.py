"""What Newton's method sees of rows that are kept elsewhere: every look is a pass over them."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsebayes.mode_search import Normal, Place, highest
from sparsebayes.rows.latent import Functions, Looks, LookSums

if TYPE_CHECKING:
    from sparsebayes.row_latent import RowLatent

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = ["RowLandscape", "RowMode"]


class RowMode(NamedTuple):
    """The maximum of the posterior of the weights, at given variances."""

    columns: IndexArray  # (m,)
    w: FloatArray  # (m,) weights of atoms as given
    c: FloatArray  # (K,) intercepts
    penalty: float  # sum of w^2 / (2 v)
    sums: LookSums  # there, of these columns

    @property
    def log_likelihood(self) -> float:
        """Log likelihood at the mode."""
        return self.sums.value


class RowLandscape:
    """The landscape of rows: a look is a pass over them, with the active atoms alone."""

    def __init__(self, latent: "RowLatent", columns: IndexArray, v: FloatArray) -> None:
        K = latent.K
        self.latent, self.columns, self.center = latent, columns, latent.center
        self.root, self.k = np.sqrt(v), columns % K
        atoms, which = np.unique(columns // K, return_inverse=True)
        self.few, self.reference = latent.atoms.restrict(atoms), latent.reference[atoms]
        self.mean = self.reference[which]
        self.correction = None if latent.correction is None else latent.correction.restrict(atoms)
        self.local = which * K + self.k  # the same columns, among these atoms alone

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
        return self._look(place, (), None if before is None else self._functions(before[0]))

    def _look(
        self, place: Place, others: tuple[Functions, ...] = (), before: Functions | None = None
    ) -> "_RowLook":
        functions, likelihood = self._functions(place), self.latent.likelihood
        statistic = Looks(
            self.few, self.reference, likelihood, functions, self.local, others, before
        )
        sums = self.latent.rows.fold(statistic)
        if self.correction is not None:
            sums = self.correction.applied(sums, functions, self.local, others)
        return _RowLook(sums, self.root)

    def _functions(self, place: Place) -> Functions:
        z, c = place
        return Functions.of(self.local, z * self.root, c)

    def mode(self, w: FloatArray, place: Place, look: "_RowLook") -> RowMode:
        """The mode, where Newton's method ends."""
        z, c = place
        return RowMode(self.columns, w, c, 0.5 * float(z @ z), look.sums)


class _RowLook(NamedTuple):
    """A look at rows."""

    sums: LookSums
    root: FloatArray

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
        gram = sums.gram * root
        gram *= root[:, None]
        cross = sums.cross * root[:, None]
        return Normal(sums.gradient * root, sums.pull, gram, cross, sums.C[None])
