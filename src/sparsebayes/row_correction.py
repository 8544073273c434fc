"""Sums over a sample of the rows, corrected so that around one place they are those of all rows.

With L the log likelihood of all rows, S that of a sample whose weights make it stand for all, and Q
the quadratic expansion of L - S around weights w0, S + Q has the value, the gradient and the
curvature of L at w0. What is left is of third order in the way from w0, and of that only what the
sample gets wrong. So a fit may look at the sample many times for each look at all rows.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sparsebayes.rows.latent import Functions, LookSums

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = ["Correction"]


@dataclass(frozen=True)
class Correction:
    """What sums over all rows have beyond those over a sample, of all columns of M atoms.

    Parameters
    ----------
    w : ndarray of shape (M K,)
        Weights of the place around which it holds.
    c : ndarray of shape (K,)
        Intercepts there, of atoms less their references.
    more : LookSums
        Sums over all rows less sums over the sample, there.

    Examples
    --------
    >>> import numpy as np
    >>> def sums(value, slope, curvature):
    ...     one, square = np.full(1, slope), np.full((1, 1), curvature)
    ...     return LookSums(value, np.empty(0), one, square, one, square, square, 0.0, 0.0)
    >>> nowhere = Functions(np.arange(1), np.zeros((1, 1)), np.zeros(1))
    >>> found = Correction.between(nowhere, 1, sums(-5.0, 3.0, 2.0), sums(-4.0, 1.0, 1.0))
    >>> there = Functions(np.arange(1), np.full((1, 1), 0.1), np.zeros(1))
    >>> right = found.applied(sums(-4.0, 1.0, 1.0), there, np.arange(1))
    >>> round(right.value, 3), right.gradient.round(3)
    (-4.805, array([2.9]))
    """

    w: FloatArray
    c: FloatArray
    more: LookSums

    @classmethod
    def between(
        cls, place: Functions, atoms: int, everything: LookSums, sample: LookSums
    ) -> "Correction":
        """The difference of two sums at the same place.

        Parameters
        ----------
        place : Functions
            The place.
        atoms : int
            Number of atoms M.
        everything, sample : LookSums
            Sums over all rows and over the sample, of all columns.

        Returns
        -------
        Correction
            What takes the second to the first.
        """
        more = replace(
            everything,
            value=everything.value - sample.value,
            pull=everything.pull - sample.pull,
            C=everything.C - sample.C,
            gradient=everything.gradient - sample.gradient,
            cross=everything.cross - sample.cross,
            gram=everything.gram - sample.gram,
        )
        return cls(_flat(place, atoms), place.c, more)

    def restrict(self, atoms: IndexArray) -> "Correction":
        """The same for some of the atoms, the others without weight.

        Parameters
        ----------
        atoms : ndarray of shape (m,)
            Which ones, ascending.

        Returns
        -------
        Correction
            Around the same place, as far as these atoms go.
        """
        K = len(self.c)
        columns = (atoms[:, None] * K + np.arange(K)).ravel()
        if columns.size == self.w.size:
            return self
        w = np.zeros_like(self.w)
        w[columns] = self.w[columns]
        value, gradient, pull = self._moved(w, self.c)
        more = replace(
            self.more,
            value=value,
            pull=pull,
            gradient=gradient[columns],
            cross=self.more.cross[columns],
            gram=self.more.gram[np.ix_(columns, columns)],
        )
        return Correction(w[columns], self.c, more)

    def applied(
        self,
        sums: LookSums,
        place: Functions,
        columns: IndexArray,
        others: tuple[Functions, ...] = (),
    ) -> LookSums:
        """Sums over the sample as if they were of all rows.

        Parameters
        ----------
        sums : LookSums
            Of the sample, at ``place`` and ``others``.
        place : Functions
            Where it was looked at.
        columns : ndarray of shape (m,)
            In whose weights derivatives were taken.
        others : tuple of Functions, default=()
            Other places, where only the log likelihood was wanted.

        Returns
        -------
        LookSums
            The sums.
        """
        M = self.w.size // len(self.c)
        value, gradient, pull = self._moved(_flat(place, M), place.c)
        elsewhere = [self._moved(_flat(other, M), other.c)[0] for other in others]
        more = self.more
        return replace(
            sums,
            value=sums.value + value,
            elsewhere=sums.elsewhere + elsewhere,
            pull=sums.pull + pull,
            C=sums.C + more.C,
            gradient=sums.gradient + gradient[columns],
            cross=sums.cross + more.cross[columns],
            gram=sums.gram + more.gram[np.ix_(columns, columns)],
        )

    def _moved(self, w: FloatArray, c: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Value, gradient and pull of the difference at another place."""
        more, dw, dc = self.more, w - self.w, c - self.c
        bent, tilted = more.gram @ dw + more.cross @ dc, more.cross.T @ dw + more.C @ dc
        value = more.value + more.gradient @ dw + more.pull @ dc
        value -= 0.5 * (bent @ dw + tilted @ dc)
        return float(value), more.gradient - bent, more.pull - tilted


def _flat(place: Functions, atoms: int) -> FloatArray:
    """Weights of all columns."""
    w = np.zeros((atoms, len(place.c)))
    w[place.atoms] = place.weights
    return w.ravel()
