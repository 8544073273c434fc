"""Designs of atoms that are known by their products: no matrix is ever formed.

Columns are made when asked for, one weight at a time; norms that are not known are summed over
columns in blocks, so memory is bounded by a block however many atoms there are.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsebayes.design import ArrayDesign, Design, Moments, make_design
from sparsebayes.dictionaries import Atoms
from sparsebayes.dictionaries._products import (
    BLOCK_BYTES,
    SomeColumns,
    SomeRows,
    blocks,
    columns_of,
    products_at,
    squares_of,
)
from sparsebayes.dictionaries._protocol import Products
from sparsebayes.dictionaries.union import UnionAtoms

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = ["OperatorDesign", "UnionDesign", "design_of_products", "has_products", "sums_of_atoms"]

_FEW_BYTES = 2**28  # a restriction up to this size is stored
_CANCELLATION = 1e-3  # a difference of sums below this fraction of them is summed afresh
_TINY_SQUARES = 1e-280
_RESOLVED = 1e-6  # a fast sum of squares below this fraction of the largest is summed afresh
# Filters are tabulated to 1e-11, and their errors add up over the levels of a transform: an atom
# that varies less than this, relative to its norm, is meant to be constant.
_CONSTANT = 1e-9


@dataclass(frozen=True, eq=False)
class OperatorDesign:
    """A design known by its products with vectors.

    Parameters
    ----------
    products : Products
        Products with the matrix.
    block_bytes : int, default=2**25
        Size of an array of columns that is made at a time.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse.linalg import aslinearoperator
    >>> from sparsebayes.dictionaries import Operator
    >>> A, X = np.array([[1.0, 0.0], [1.0, 2.0]]), np.array([[0.0], [1.0]])
    >>> design = OperatorDesign(Operator(aslinearoperator(A)).bind(X).at(X))
    >>> design.columns(np.array([1]))
    array([[0., 2.]])
    >>> design.moments(None, center=True).norm.round(3)
    array([0.   , 1.414])
    """

    products: Products
    block_bytes: int = BLOCK_BYTES

    @property
    def shape(self) -> tuple[int, int]:
        """Return (N, M)."""
        return self.products.shape

    def columns(self, indices: IndexArray) -> FloatArray:
        """Return the atoms at ``indices`` as rows: shape (k, N)."""
        return columns_of(self.products, indices, self.block_bytes)

    def correlate(self, rows: FloatArray) -> FloatArray:
        """Return ``rows @ Phi``: shape (k, M)."""
        total = np.empty((len(rows), self.shape[1]))
        for part in blocks(len(rows), max(self.shape), self.block_bytes):
            total[part] = self.products.analyze(rows[part])
        return total

    def moments(self, weights: FloatArray | None, center: bool) -> Moments:
        """Return weighted means and centered norms of all columns.

        Norms that are known serve where rows have no weights; an atom whose mean is most of its
        norm is computed, as a difference would not tell its spread from rounding.
        """
        n, m = self.shape
        w = np.ones(n) if weights is None else weights
        least = _TINY_SQUARES
        known = self.products.squared_norms() if weights is None else None
        found = squares_of(self.products, w[None]) if known is None else known[None]
        if found is None:
            return _finite(self._summed(np.arange(m), w, center))
        squares = found[0]
        if known is None:
            least = max(least, _RESOLVED * float(squares.max(initial=0.0)))
        mean, centered = np.zeros(m), squares
        if center:
            total = float(w.sum())
            mean = self.correlate(w[None])[0] / total
            with np.errstate(over="ignore", under="ignore", invalid="ignore"):
                centered = squares - total * mean**2
        sure = np.isfinite(squares) & (squares >= least) & (centered >= _CANCELLATION * squares)
        norm = np.sqrt(np.where(sure, centered, 0.0))
        # Where positions are missing, many atoms of a transform are zero at all that are left.
        absent = (squares == 0) & (known is None and weights is None)
        afresh = np.flatnonzero(~(sure | absent))
        exact = self._summed(afresh, w, center)
        mean[afresh], norm[afresh] = exact.mean, exact.norm
        return _finite(Moments(mean, norm))

    def _summed(self, indices: IndexArray, w: FloatArray, center: bool) -> Moments:
        n, m = self.shape
        mean, norm = np.zeros(indices.size), np.zeros(indices.size)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            for part in blocks(indices.size, max(n, m), self.block_bytes):
                mean[part], norm[part] = _row_moments(self.columns(indices[part]), w, center)
        return Moments(mean, norm)

    def squares(self, rows: FloatArray) -> FloatArray:
        """Return ``rows @ Phi**2``: shape (k, M)."""
        n, m = self.shape
        found = squares_of(self.products, rows)
        total = np.empty((len(rows), m)) if found is None else found
        afresh = np.arange(m)
        if found is not None:
            size = np.abs(total)
            lost = size < _RESOLVED * size.max(axis=1, initial=0.0, keepdims=True)
            afresh = np.flatnonzero(lost.any(axis=0))
        for part in blocks(afresh.size, max(n, m), self.block_bytes):
            atoms = self.columns(afresh[part])
            atoms *= atoms
            total[:, afresh[part]] = rows @ atoms.T
        return total

    def restrict(self, indices: IndexArray) -> Design:
        """Return the design of some atoms alone, stored if they are few."""
        if 8 * indices.size * self.shape[0] <= _FEW_BYTES:
            return ArrayDesign(self.columns(indices).T)
        return OperatorDesign(SomeColumns(self.products, indices), self.block_bytes)

    def take(self, rows: IndexArray) -> "OperatorDesign":
        """Return the design of some rows alone."""
        return OperatorDesign(SomeRows(self.products, rows), self.block_bytes)


@dataclass(frozen=True, eq=False)
class UnionDesign:
    """Several designs side by side, each kept in its own way.

    Parameters
    ----------
    designs : tuple of Design
        Parts with the same rows.
    places : tuple of ndarray
        Where the columns of each part stand in the whole.

    Examples
    --------
    >>> import numpy as np
    >>> parts = ArrayDesign(np.array([[1.0], [2.0]])), ArrayDesign(np.array([[3.0], [4.0]]))
    >>> design = UnionDesign(parts, (np.array([1]), np.array([0])))
    >>> design.correlate(np.eye(2))
    array([[3., 1.],
           [4., 2.]])
    """

    designs: tuple[Design, ...]
    places: tuple[IndexArray, ...]

    @property
    def shape(self) -> tuple[int, int]:
        """Return (N, M)."""
        return self.designs[0].shape[0], sum(len(own) for own in self.places)

    def _split(self, indices: IndexArray) -> list[tuple[Design, IndexArray, IndexArray]]:
        """Parts that have some of the atoms: which of their own, and where in ``indices``."""
        m = self.shape[1]
        owner, own = np.empty(m, dtype=np.intp), np.empty(m, dtype=np.intp)
        for k, places in enumerate(self.places):
            owner[places] = k
            own[places] = np.arange(len(places))
        found = []
        for k, design in enumerate(self.designs):
            where = np.flatnonzero(owner[indices] == k)
            if where.size:
                found.append((design, own[indices[where]], where))
        return found

    def columns(self, indices: IndexArray) -> FloatArray:
        """Return the atoms at ``indices`` as rows: shape (k, N)."""
        found = self._split(indices)
        if len(found) == 1:
            return found[0][0].columns(found[0][1])
        rows = np.empty((indices.size, self.shape[0]))
        for design, own, where in found:
            rows[where] = design.columns(own)
        return rows

    def correlate(self, rows: FloatArray) -> FloatArray:
        """Return ``rows @ Phi``: shape (k, M)."""
        total = np.empty((len(rows), self.shape[1]))
        for design, places in zip(self.designs, self.places, strict=True):
            total[:, places] = design.correlate(rows)
        return total

    def moments(self, weights: FloatArray | None, center: bool) -> Moments:
        """Return weighted means and centered norms of all columns."""
        mean, norm = np.empty(self.shape[1]), np.empty(self.shape[1])
        for design, places in zip(self.designs, self.places, strict=True):
            own = design.moments(weights, center)
            mean[places], norm[places] = own.mean, own.norm
        return Moments(mean, norm)

    def squares(self, rows: FloatArray) -> FloatArray:
        """Return ``rows @ Phi**2``: shape (k, M)."""
        total = np.empty((len(rows), self.shape[1]))
        for design, places in zip(self.designs, self.places, strict=True):
            total[:, places] = design.squares(rows)
        return total

    def restrict(self, indices: IndexArray) -> Design:
        """Return the design of some atoms alone, stored if they are few."""
        if 8 * indices.size * self.shape[0] <= _FEW_BYTES:
            return ArrayDesign(self.columns(indices).T)
        found = self._split(indices)
        parts = tuple(design.restrict(own) for design, own, _ in found)
        return UnionDesign(parts, tuple(where for _, _, where in found))

    def take(self, rows: IndexArray) -> "UnionDesign":
        """Return the design of some rows alone."""
        return UnionDesign(tuple(design.take(rows) for design in self.designs), self.places)


def design_of_products(atoms: Atoms, X: Any, stored_bytes: int) -> Design | None:
    """Design of atoms that have products, or of a union with such a part; else None.

    Parameters
    ----------
    atoms : Atoms
        Atoms bound to data.
    X : ndarray or scipy.sparse matrix of shape (N, d)
        Inputs.
    stored_bytes : int
        Largest dense design of another part that is stored.

    Returns
    -------
    OperatorDesign, UnionDesign or None
        None where the atoms are to be evaluated.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.dictionaries import Linear
    >>> X = np.ones((2, 3))
    >>> design_of_products(Linear().bind(X), X, 100) is None
    True
    """
    products = products_at(atoms, X)
    if products is not None:
        return OperatorDesign(products)
    if not has_products(atoms):
        return None
    assert isinstance(atoms, UnionAtoms)
    parts = tuple(make_design(part, X, stored_bytes) for part in atoms.parts)
    return UnionDesign(parts, atoms.columns)


def has_products(atoms: Atoms) -> bool:
    """Whether atoms, or some of a union, have fast products.

    Parameters
    ----------
    atoms : Atoms
        Atoms bound to data.

    Returns
    -------
    bool
        True if one evaluation costs as much for few rows as for all.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.dictionaries import Linear, Wavelet
    >>> X = np.arange(8.0)[:, None]
    >>> has_products((Wavelet("haar") + Linear()).bind(X)), has_products(Linear().bind(X))
    (True, False)
    """
    if isinstance(atoms, UnionAtoms):
        return any(has_products(part) for part in atoms.parts)
    return atoms.size > 0 and hasattr(atoms, "at")


def sums_of_atoms(atoms: Atoms, X: Any, weights: FloatArray) -> FloatArray:
    """Sums of atoms at the rows of X: by products where atoms have them, else in blocks of rows.

    Parameters
    ----------
    atoms : Atoms
        M atoms.
    X : ndarray or scipy.sparse matrix of shape (N, d)
        Inputs.
    weights : ndarray of shape (k, M)
        Weights of the atoms.

    Returns
    -------
    ndarray of shape (k, N)
        The sums.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.dictionaries import Linear, Wavelet
    >>> X = np.arange(4.0)[:, None]
    >>> atoms = (Wavelet("haar") + Linear()).bind(X)
    >>> sums_of_atoms(atoms, X, np.array([[2.0, 0.0, 0.0, 0.0, 1.0]]))
    array([[1., 2., 3., 4.]])
    """
    products = products_at(atoms, X)
    if products is not None:
        return products.synthesize(weights)
    total = np.zeros((len(weights), int(X.shape[0])))
    if isinstance(atoms, UnionAtoms):
        for part, places in zip(atoms.parts, atoms.columns, strict=True):
            total += sums_of_atoms(part, X, np.ascontiguousarray(weights[:, places]))
        return total
    for rows in blocks(total.shape[1], atoms.size):
        total[:, rows] = (atoms.evaluate(X[rows]) @ weights.T).T
    return total


def _row_moments(
    atoms: FloatArray, w: FloatArray, center: bool
) -> tuple[FloatArray | float, FloatArray]:
    """Weighted means and centered norms of rows; the rows are changed."""
    peak = np.abs(atoms).max(axis=1, initial=0.0)
    # Squares of 1e200 overflow, those of 1e-200 vanish: change the unit.
    usual = ((peak > 1e-130) & (peak < 1e130)) | (peak == 0) | ~np.isfinite(peak)
    unit = np.where(usual, 1.0, peak)
    if not usual.all():
        atoms /= unit[:, None]
    squares = np.square(atoms) @ w
    if not center:
        return 0.0, np.sqrt(squares) * unit
    total = float(w.sum())
    mean = atoms @ w / total
    atoms -= mean[:, None]
    centered = np.square(atoms) @ w
    constant = centered <= squares * _CONSTANT**2
    return mean * unit, np.sqrt(np.where(constant, 0.0, centered)) * unit


def _finite(moments: Moments) -> Moments:
    if not np.isfinite(moments.norm).all():
        raise ValueError(
            "the dictionary gives NaN or infinite values on X: check its operator or transform."
        )
    return moments
