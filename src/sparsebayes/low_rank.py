"""Designs of smooth kernels: N x M values that are the products of a few coordinates.

A Gaussian kernel that is wide beside the distance of the data has a low numerical rank, however
many centers there are. Then ``Phi = A'B`` to 1e-12 with A (k, N) and B (k, M), and everything that
a screen of the whole dictionary needs costs (N + M) k instead of N M, and so does memory.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from sparsebayes.design import ArrayDesign, Design, Moments, make_design
from sparsebayes.dictionaries import Bias, Linear
from sparsebayes.dictionaries._kernel_parameters import POOLED
from sparsebayes.dictionaries.kernels import Kernel, KernelAtoms
from sparsebayes.dictionaries.union import UnionAtoms, leaves
from sparsebayes.operator_design import UnionDesign
from sparsebayes.pivots import PROMISING, n_probed, pivoted_factor, pivots_of

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = ["LOW_RANK_BYTES", "LowRankDesign", "WeightedLowRank", "is_low_rank", "low_rank_design"]

LOW_RANK_BYTES = 2**28
"""Largest array of coordinates that is kept."""

_LEAST = 2**20  # entries below which the matrix itself is cheap
_WORTHWHILE = 6  # rows and atoms for each of the rank, where products are cheaper than the matrix
_CANCELLATION = 1e-3  # a centered square below this fraction of the whole is summed afresh
_FAINT = 1e-7  # a mean square below this, of kernels that are one at most, is near rounding
_CONSTANT = (
    1e-13  # an atom that varies less than this, relative to its norm, is meant to be constant
)
_CLEAR = 0.7 * PROMISING  # share of the probed rows that may be pivots: the rank of all is larger
_NARROW = 4.0  # gamma by which it is guessed where that is yet to be found, of that of "scale"
_CHUNK_CELLS = 2**22  # entries of atoms that are evaluated at a time


class WeightedLowRank(NamedTuple):
    """Products of centered atoms in one metric of the rows: all of them by k x k numbers."""

    mean: FloatArray  # (M,) what is taken off each atom
    squares: FloatArray  # (M,) of centered atoms
    metric: FloatArray  # (k, M) coordinates of atoms, times the products of those of the rows


@dataclass(frozen=True, eq=False)
class LowRankDesign:
    """A design known by coordinates of its rows and of its atoms.

    Parameters
    ----------
    A : ndarray of shape (k, N)
        Coordinates of the rows.
    B : ndarray of shape (k, M)
        Coordinates of the atoms.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.dictionaries import Kernel
    >>> X = np.linspace(0, 1, 1500)[:, None]
    >>> design = low_rank_design(Kernel("rbf", gamma=1.0).bind(X), X)
    >>> design.shape, len(design.A) < 20
    ((1500, 1500), True)
    >>> design.correlate(np.ones((1, 1500)))[0, 0].round(3)
    np.float64(1120.173)
    """

    A: FloatArray
    B: FloatArray

    @property
    def shape(self) -> tuple[int, int]:
        """Return (N, M)."""
        return self.A.shape[1], self.B.shape[1]

    def columns(self, indices: IndexArray) -> FloatArray:
        """Return the atoms at ``indices`` as rows: shape (k, N)."""
        return np.asarray(self.B[:, indices].T @ self.A)

    def correlate(self, rows: FloatArray) -> FloatArray:
        """Return ``rows @ Phi``: shape (k, M)."""
        return np.asarray((rows @ self.A.T) @ self.B)

    def moments(self, weights: FloatArray | None, center: bool) -> Moments:
        """Return weighted means and centered norms of all columns."""
        n, m = self.shape
        w = np.ones(n) if weights is None else weights
        mean = np.zeros(m)
        A = self.A
        if center:
            middle = A @ w / float(w.sum())
            mean = middle @ self.B
            A = A - middle[:, None]
        squares = self._squares(A, w)
        if center:
            # What a product of coordinates leaves of nearly constant atoms is summed afresh.
            whole = squares + float(w.sum()) * mean**2
            lossy = np.flatnonzero(squares < _CANCELLATION * whole)
            step = max(1, _CHUNK_CELLS // n)
            for start in range(0, lossy.size, step):
                part = lossy[start : start + step]
                shifted = self.columns(part) - mean[part, None]
                shift = shifted @ w / float(w.sum())
                mean[part] += shift
                shifted -= shift[:, None]
                squares[part] = np.square(shifted) @ w
            squares[squares <= _CONSTANT**2 * whole] = 0.0
        return Moments(mean, np.sqrt(squares))

    def weighted(self, weights: FloatArray | None, center: bool) -> WeightedLowRank | None:
        """Return products of all atoms, with weights of the rows that are not negative.

        None where some atoms are so faint, or so nearly constant, that products of coordinates
        leave little of them: they must be summed one by one.
        """
        middle = np.zeros(len(self.A))
        weights = np.ones(self.shape[0]) if weights is None else weights
        total = float(weights.sum())
        if not total > 0:
            return None
        if center:
            middle = self.A @ weights / total
        mean = middle @ self.B
        half = self.A - middle[:, None]
        half *= np.sqrt(weights)
        metric = (half @ half.T) @ self.B  # half the work of a product of two matrices
        squares = np.einsum("ij,ij->j", metric, self.B)
        least = _FAINT * total
        if center:
            least = np.maximum(least, _CANCELLATION * (squares + total * mean**2))
        if not (squares > least).all():
            return None
        return WeightedLowRank(mean, squares, metric)

    def squares(self, rows: FloatArray) -> FloatArray:
        """Return ``rows @ Phi**2`` for ``rows`` of shape (k, N): shape (k, M)."""
        return np.array([self._squares(self.A, row) for row in rows]).reshape(
            len(rows), self.shape[1]
        )

    def restrict(self, indices: IndexArray) -> Design:
        """Return the design of some atoms alone, as a matrix if they are few."""
        if indices.size < _WORTHWHILE * len(self.A):
            return ArrayDesign(self.columns(indices).T)
        return LowRankDesign(self.A, self.B[:, indices])

    def take(self, rows: IndexArray) -> Design:
        """Return the design of some rows alone, as a matrix if they are few."""
        if rows.size < _WORTHWHILE * len(self.A):
            return ArrayDesign(self.A[:, rows].T @ self.B)
        return LowRankDesign(self.A[:, rows], self.B)

    def _squares(self, A: FloatArray, w: FloatArray) -> FloatArray:
        """Sums over rows of w times the squared products of A and B."""
        if (w >= 0).all():
            half = A * np.sqrt(w)
            middle = half @ half.T  # half the work of a product of two matrices
        else:
            middle = (A * w) @ A.T
        return np.asarray(np.einsum("ij,ij->j", middle @ self.B, self.B))


def low_rank_design(atoms: Any, X: Any) -> Design | None:
    """Design of kernels by their coordinates, where their rank is low enough to gain by it.

    Parameters
    ----------
    atoms : Atoms
        Atoms bound to data.
    X : ndarray or scipy.sparse matrix of shape (N, d)
        Inputs.

    Returns
    -------
    LowRankDesign, UnionDesign or None
        None where no atoms are Gaussian kernels of dense inputs, or too few, or of too high a
        rank; of a union with such a part, the designs of its parts side by side.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.dictionaries import Kernel
    >>> X = np.linspace(0, 1, 1500)[:, None]
    >>> low_rank_design(Kernel("rbf", gamma=1e6).bind(X), X) is None
    True
    """
    if isinstance(atoms, UnionAtoms):
        parts = [low_rank_design(part, X) for part in atoms.parts]
        if not any(parts):
            return None
        whole = (own or make_design(part, X) for own, part in zip(parts, atoms.parts, strict=True))
        return UnionDesign(tuple(whole), atoms.columns)
    n, m = int(X.shape[0]), int(atoms.size)
    if n * m < _LEAST or not isinstance(atoms, KernelAtoms) or not atoms.has_unit_diagonal(X):
        return None
    at_rows = bool(m == n and np.array_equal(X, atoms.centers))
    points = X if at_rows else np.concatenate([X, atoms.centers])
    most = min(min(n, m) // _WORTHWHILE, LOW_RANK_BYTES // (8 * len(points)))
    factor = pivoted_factor(atoms.between, points, most)
    if factor is None:
        return None
    A = factor.coordinates
    return LowRankDesign(A[:, :n], A if at_rows else A[:, n:])


def is_low_rank(dictionary: Any, X: Any, n_atoms: int) -> bool:
    """Guess, by a few rows, whether the kernels at all rows can be kept by their coordinates.

    Parameters
    ----------
    dictionary : Dictionary
        The dictionary, not bound.
    X : object
        Inputs as a user gave them.
    n_atoms : int
        Number of atoms.

    Returns
    -------
    bool
        False for all but Gaussian kernels, beside a bias and columns of X if need be, on finite
        numbers in memory.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.dictionaries import Kernel
    >>> is_low_rank(Kernel("rbf"), np.linspace(0, 1, 30_000)[:, None], 30_000)
    True
    """
    if isinstance(X, np.memmap):  # it is in no memory yet
        return False
    rows = np.asarray(X)
    if rows.ndim != 2 or rows.dtype.kind not in "fiu":
        return False
    kernels = [leaf for leaf in leaves(dictionary) if not isinstance(leaf, Linear | Bias)]
    return bool(kernels) and all(_is_smooth(leaf, rows, n_atoms) for leaf in kernels)


def _is_smooth(dictionary: Any, rows: NDArray[Any], n_atoms: int) -> bool:
    n = len(rows)
    some = rows[np.random.RandomState(0).choice(n, n_probed(n), replace=False)].astype(np.float64)
    if not isinstance(dictionary, Kernel) or not np.isfinite(some).all():
        return False
    kernel = clone(dictionary).set_params(centers=None)
    pooled = isinstance(kernel.gamma, str) and kernel.gamma in POOLED
    if pooled:  # a width that is not known yet: seldom less than half of that of "scale"
        kernel.gamma = "scale"
    atoms = kernel.bind(some)
    if not isinstance(atoms, KernelAtoms) or atoms.learned or not atoms.has_unit_diagonal(some):
        return False
    if pooled and atoms.gamma_ is not None:
        atoms = replace(atoms, gamma_=_NARROW * atoms.gamma_)
    rank = pivots_of(atoms.between(some, some)).size
    return rank <= _CLEAR * len(some) and 16 * rank * (n + n_atoms) <= LOW_RANK_BYTES
