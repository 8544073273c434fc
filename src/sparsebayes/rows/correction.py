"""Sums over a sample of the rows, corrected so that around one place they are those of all rows.

With L the log likelihood of all rows, S that of a sample whose weights make it stand for all, and Q
the quadratic expansion of L - S around weights w0, S + Q has the value, the gradient and the
curvature of L at w0. What is left is of third order in the way from w0, and of that only what the
sample gets wrong. So a fit may look at the sample many times for each look at all rows.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sparsebayes.rows.products import Functions, LookSums

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = ["Correction"]


@dataclass(frozen=True)
class Correction:
    """What sums over all rows have beyond those over a sample, of all columns of r functions."""

    w: FloatArray  # (r K,) weights of the place around which it holds
    c: FloatArray  # (K,) intercepts there, of functions less their references
    more: LookSums  # over all rows less those over the sample, there
    E: FloatArray  # (r, M) atoms of the dictionary as sums of these functions

    @classmethod
    def between(
        cls, place: Functions, everything: LookSums, sample: LookSums, E: FloatArray
    ) -> "Correction":
        """The difference of two sums at the same place, of all columns; atoms are sums E."""
        more = replace(
            everything,
            value=everything.value - sample.value,
            pull=everything.pull - sample.pull,
            C=everything.C - sample.C,
            gradient=everything.gradient - sample.gradient,
            cross=everything.cross - sample.cross,
            gram=everything.gram - sample.gram,
        )
        w = np.zeros((len(E), len(place.c)))
        w[place.atoms] = place.weights
        return cls(w.ravel(), place.c, more, E)

    def restrict(self, atoms: IndexArray) -> "Correction":
        """The correction of sums over some of the atoms."""
        return replace(self, E=self.E[:, atoms])

    def applied(
        self,
        sums: LookSums,
        place: Functions,
        E: FloatArray | None,
        columns: IndexArray,
        others: tuple[Functions, ...] = (),
    ) -> LookSums:
        """Sums over the sample as if they were of all rows.

        They are at ``place`` and ``others``, in weights of some ``columns`` of q functions, which
        are sums ``E`` of the r that it knows; None where they are the same.
        """
        more = self.more
        value, gradient, pull = self._moved(_flat(place, E), place.c)
        elsewhere = [self._moved(_flat(other, E), other.c)[0] for other in others]
        slopes, cross, gram = gradient, more.cross, more.gram
        if E is not None:
            slopes, cross, gram = self._mixed(gradient, E)
        return replace(
            sums,
            value=sums.value + value,
            elsewhere=sums.elsewhere + elsewhere,
            pull=sums.pull + pull,
            C=sums.C + more.C,
            gradient=sums.gradient + slopes[columns],
            cross=sums.cross + cross[columns],
            gram=sums.gram + gram[columns[:, None], columns],
        )

    def _mixed(
        self, gradient: FloatArray, E: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Gradient, cross and gram of functions that are sums E of those that it knows."""
        more, K, r = self.more, len(self.c), len(self.E)
        slopes = (E.T @ gradient.reshape(r, K)).ravel()
        cross = np.tensordot(E, more.cross.reshape(r, K, K), (0, 0)).reshape(-1, K)
        half = np.tensordot(E, more.gram.reshape(r, K, r * K), (0, 0))  # (q, K, r K)
        gram = np.tensordot(half.reshape(slopes.size, r, K), E, (1, 0))  # (q K, K, q)
        return slopes, cross, gram.transpose(0, 2, 1).reshape(slopes.size, slopes.size)

    def _moved(self, w: FloatArray, c: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Value, gradient and pull of the difference at another place."""
        more, dw, dc = self.more, w - self.w, c - self.c
        bent, tilted = more.gram @ dw + more.cross @ dc, more.cross.T @ dw + more.C @ dc
        value = more.value + more.gradient @ dw + more.pull @ dc
        value -= 0.5 * (bent @ dw + tilted @ dc)
        return float(value), more.gradient - bent, more.pull - tilted


def _flat(place: Functions, E: FloatArray | None) -> FloatArray:
    """Weights of all columns of the functions that a correction knows."""
    if E is None:  # a place in these functions themselves has weights of all of them
        return np.asarray(place.weights).ravel()
    return np.asarray(E[:, place.atoms] @ place.weights).ravel()
