"""Coordinates in which sums over rows lose no digits, though weights of atoms almost cancel.

Atoms that overlap are nearly collinear, and models of many rows need their differences: weights of
a million whose sum is of the order of one. Products of such atoms, summed in float64, no longer
tell these differences; products of mixtures of them that are far from collinear do.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg.lapack import dtrtri

from sparsebayes.dictionaries import Atoms
from sparsebayes.dictionaries._protocol import Arrays, Matrix, Spec, is_sparse, positions
from sparsebayes.rows.span import Span

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = ["Coordinates", "Mixed", "coordinates_of"]

_STEEP = 1e10  # condition of a mixture beyond which rounding of its atoms shows


@dataclass(frozen=True)
class Mixed:
    """Sums of atoms and a constant, as atoms themselves.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.dictionaries import Linear
    >>> X = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> Mixed(Linear().bind(X), np.array([[1.0], [1.0]]), np.ones(1)).evaluate(X)
    array([[4.],
           [8.]])
    """

    atoms: Atoms
    mix: FloatArray  # (a, q)
    offset: FloatArray  # (q,) constants that are added
    orthonormal = False

    @property
    def size(self) -> int:
        """Number of sums."""
        return int(self.mix.shape[1])

    @property
    def index(self) -> IndexArray:
        """Position of each sum."""
        return np.arange(self.size)

    @property
    def count(self) -> int:
        """Number of positions."""
        return self.size

    @property
    def n_features_in(self) -> int | None:
        """Columns that X must have."""
        return self.atoms.n_features_in

    def evaluate(self, X: Matrix, out: FloatArray | None = None) -> FloatArray:
        """All sums at the rows of X: (n, q)."""
        values = self.atoms.evaluate(X)
        if is_sparse(values):
            values = values.toarray()
        found = np.matmul(values, self.mix, out=out)
        if self.offset.any():
            found += self.offset
        return np.asarray(found)

    def restrict(self, indices: ArrayLike) -> "Mixed":
        """Only some of the sums."""
        chosen = positions(indices, self.size)
        return Mixed(self.atoms, self.mix[:, chosen], self.offset[chosen])

    def to_spec(self) -> tuple[Spec, Arrays]:
        """Refused: these are for sums over rows, and part of no model."""
        raise TypeError("sums of atoms are not stored")


@dataclass(frozen=True)
class Coordinates:
    """Functions whose sums are those atoms that were asked for, less their references."""

    atoms: Atoms  # q functions
    reference: FloatArray  # (q,) what is subtracted from them
    J: FloatArray  # (q, a) the atoms in these coordinates
    E: FloatArray | None  # (r, q) these functions in those of the span; None where they are those

    @property
    def size(self) -> int:
        """Number of functions q."""
        return len(self.J)

    def of(self, columns: IndexArray, K: int) -> FloatArray:
        """Columns, ``a K + k`` for an atom in one of K latent functions, in coordinates.

        Parameters
        ----------
        columns : ndarray of shape (m,)
            The columns.
        K : int
            Latent functions.

        Returns
        -------
        ndarray of shape (q K, m)
            Weights of all columns of the functions.
        """
        found = np.zeros((self.size, K, columns.size))
        found[:, columns % K, np.arange(columns.size)] = self.J[:, columns // K]
        return found.reshape(self.size * K, columns.size)


def coordinates_of(span: Span, atoms: Atoms, chosen: IndexArray) -> Coordinates:
    """Coordinates for some atoms: mixtures of themselves, or of those that all are sums of.

    Parameters
    ----------
    span : Span
        All atoms as sums of a few.
    atoms : Atoms
        All atoms.
    chosen : ndarray of shape (a,)
        Which of them.

    Returns
    -------
    Coordinates
        As few as there are atoms, if these are not too nearly collinear.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.dictionaries import Kernel
    >>> from sparsebayes.rows.span import find_span
    >>> X = np.linspace(0, 1, 500)[:, None]
    >>> atoms = Kernel("rbf", gamma=1.0, centers=X).bind(X)
    >>> some = coordinates_of(find_span(atoms, X), atoms, np.array([3, 250, 400]))
    >>> values = (some.atoms.evaluate(X) - some.reference) @ some.J
    >>> bool(np.abs(values.mean(axis=0)).max() < 1e-9), some.size
    (True, 3)
    """
    A = span.A if chosen.size == span.A.shape[1] else span.A[:, chosen]
    if not chosen.size:
        return Coordinates(atoms.restrict(chosen), np.zeros(0), np.zeros((0, 0)), A)
    if chosen.size < span.rank:
        Q, R = np.linalg.qr(A)
        inverse, info = dtrtri(R)
        if info == 0 and np.abs(inverse).max() * np.abs(R).max() < _STEEP:
            mix, reference = np.triu(inverse), span.means[chosen]
            few = atoms.restrict(chosen)
            if isinstance(few, Mixed):  # of what they are sums of, without adding what is taken off
                return Coordinates(
                    _sums(few.atoms, few.mix @ mix), (reference - few.offset) @ mix, R, Q
                )
            return Coordinates(_sums(few, mix), reference @ mix, R, Q)
    if span.plain:
        return Coordinates(span.few, span.reference, A, None)
    return Coordinates(_sums(span.few, span.mix), span.reference @ span.mix, A, None)


def _sums(atoms: Atoms, mix: FloatArray) -> Mixed:
    return Mixed(atoms, mix, np.zeros(mix.shape[1]))
