"""The design matrix as the engine uses it: some columns, products with all of them, their norms.

A design answers three questions about the N x M matrix Phi of atoms evaluated at the data and hides
how it is kept: a dense array, a scipy.sparse matrix, blocks of rows evaluated when needed, or (in
`operator_design`) products alone.
Vectors of length N travel as rows, so that every product is one call on contiguous memory.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sparsebayes.dictionaries import Atoms
from sparsebayes.dictionaries._protocol import is_sparse
from sparsebayes.dictionaries.kernels import KernelAtoms

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = [
    "STORED_BYTES",
    "ArrayDesign",
    "BlockedDesign",
    "Design",
    "Moments",
    "make_design",
    "norm_unless_constant",
    "tame",
]

STORED_BYTES = 2**31
"""Largest dense design that is stored; above it atoms are evaluated in blocks of rows."""

_BLOCK_BYTES = 2**25
# A centered norm found as a difference of sums loses digits; below this ratio it is summed afresh.
_CANCELLATION = 1e-3
# A product of a few rows copies the whole matrix into panels first: row by row, or the other way
# round, takes a quarter to a half of the time.
_SINGLE, _FEW = 3, 32
_TINY_SQUARES = 1e-280


@dataclass(frozen=True)
class Moments:
    """Weighted mean of each atom (zero if not centered) and its norm after centering."""

    mean: FloatArray
    norm: FloatArray


class Design(Protocol):
    """Atoms evaluated at the data, N rows and M columns."""

    @property
    def shape(self) -> tuple[int, int]:
        """Return (N, M)."""
        ...

    def columns(self, indices: IndexArray) -> FloatArray:
        """Return the atoms at ``indices`` as rows: shape (k, N)."""
        ...

    def correlate(self, rows: FloatArray) -> FloatArray:
        """Return ``rows @ Phi`` for ``rows`` of shape (k, N): shape (k, M)."""
        ...

    def moments(self, weights: FloatArray | None, center: bool) -> Moments:
        """Return weighted means and centered norms of all columns."""
        ...

    def squares(self, rows: FloatArray) -> FloatArray:
        """Return ``rows @ Phi**2`` for ``rows`` of shape (k, N): shape (k, M)."""
        ...

    def restrict(self, indices: IndexArray) -> "Design":
        """Return the design of some atoms alone."""
        ...

    def take(self, rows: IndexArray) -> "Design":
        """Return the design of some rows alone."""
        ...


@dataclass(frozen=True)
class ArrayDesign:
    """A design kept in memory, dense or sparse.

    Examples
    --------
    >>> import numpy as np
    >>> design = ArrayDesign(np.array([[1.0, 0.0], [1.0, 2.0]]))
    >>> design.correlate(np.array([[1.0, 1.0]]))
    array([[2., 2.]])
    >>> design.moments(None, center=True).norm.round(3)
    array([0.   , 1.414])
    """

    Phi: Any  # (N, M) ndarray or CSC matrix
    symmetric: bool = False  # whether it is known to be its own transpose

    @property
    def shape(self) -> tuple[int, int]:
        """Return (N, M)."""
        n, m = self.Phi.shape
        return int(n), int(m)

    def columns(self, indices: IndexArray) -> FloatArray:
        """Return the atoms at ``indices`` as rows: shape (k, N)."""
        if self.symmetric:  # rows lie side by side in memory, columns do not
            return np.ascontiguousarray(self.Phi[indices])
        if is_sparse(self.Phi):
            return np.ascontiguousarray(self.Phi[:, indices].toarray().T)
        return np.ascontiguousarray(self.Phi.T[indices])

    def correlate(self, rows: FloatArray) -> FloatArray:
        """Return ``rows @ Phi``: shape (k, M)."""
        if is_sparse(self.Phi):
            return np.ascontiguousarray((self.Phi.T @ rows.T).T)
        if len(rows) <= _SINGLE:
            products = np.empty((len(rows), self.shape[1]))
            for row, product in zip(rows, products, strict=True):
                np.matmul(row, self.Phi, out=product)
            return products
        if len(rows) <= _FEW:
            return np.ascontiguousarray((self.Phi.T @ rows.T).T)
        return np.asarray(rows @ self.Phi)

    def moments(self, weights: FloatArray | None, center: bool) -> Moments:
        """Return weighted means and centered norms of all columns."""
        if is_sparse(self.Phi):
            return _sparse_moments(self.Phi, weights, center)
        return _block_moments(lambda: _row_blocks(self.Phi), self.shape, weights, center)

    def squares(self, rows: FloatArray) -> FloatArray:
        """Return ``rows @ Phi**2``: shape (k, M)."""
        if is_sparse(self.Phi):
            return np.ascontiguousarray((self.Phi.power(2).T @ rows.T).T)
        return _block_squares(_row_blocks(self.Phi), rows, self.shape[1])

    def restrict(self, indices: IndexArray) -> "ArrayDesign":
        """Return the design of some atoms alone, copied."""
        return ArrayDesign(self.Phi[:, indices])

    def take(self, rows: IndexArray) -> "ArrayDesign":
        """Return the design of some rows alone, copied."""
        Phi = self.Phi.tocsr()[rows].tocsc() if is_sparse(self.Phi) else self.Phi[rows]
        return ArrayDesign(Phi)


@dataclass(frozen=True)
class BlockedDesign:
    """A design too large to store: atoms are evaluated in blocks of rows, whenever asked."""

    atoms: Atoms
    X: Any
    block_rows: int

    @property
    def shape(self) -> tuple[int, int]:
        """Return (N, M)."""
        return int(self.X.shape[0]), self.atoms.size

    def _blocks(self) -> Iterator[tuple[slice, FloatArray]]:
        buffer = np.empty((self.block_rows, self.atoms.size))
        for start in range(0, self.shape[0], self.block_rows):
            rows = slice(start, min(start + self.block_rows, self.shape[0]))
            out = buffer[: rows.stop - rows.start]
            yield rows, self.atoms.evaluate(self.X[rows], out=out)

    def columns(self, indices: IndexArray) -> FloatArray:
        """Return the atoms at ``indices`` as rows: shape (k, N)."""
        few = self.atoms.restrict(indices).evaluate(self.X)
        few = few.toarray() if is_sparse(few) else few
        return np.ascontiguousarray(few.T)

    def correlate(self, rows: FloatArray) -> FloatArray:
        """Return ``rows @ Phi``: shape (k, M)."""
        total = np.zeros((rows.shape[0], self.atoms.size))
        for where, block in self._blocks():
            total += rows[:, where] @ block
        return total

    def moments(self, weights: FloatArray | None, center: bool) -> Moments:
        """Return weighted means and centered norms of all columns."""
        return _block_moments(self._blocks, self.shape, weights, center)

    def squares(self, rows: FloatArray) -> FloatArray:
        """Return ``rows @ Phi**2``: shape (k, M)."""
        return _block_squares(self._blocks(), rows, self.atoms.size)

    def restrict(self, indices: IndexArray) -> Design:
        """Return the design of some atoms alone, stored if they are few enough."""
        return make_design(self.atoms.restrict(indices), self.X)

    def take(self, rows: IndexArray) -> Design:
        """Return the design of some rows alone, stored if they are few enough."""
        return make_design(self.atoms, self.X[rows])


def make_design(atoms: Atoms, X: Any, stored_bytes: int = STORED_BYTES) -> Design:
    """Choose how to keep the atoms evaluated at ``X``.

    Parameters
    ----------
    atoms : Atoms
        Atoms bound to data.
    X : ndarray or scipy.sparse matrix of shape (N, d)
        Inputs.
    stored_bytes : int, default=STORED_BYTES
        Largest dense design that is stored.

    Returns
    -------
    Design
        An `ArrayDesign`, or a `BlockedDesign` where that would be too large; of atoms that have
        fast products (``at``), alone or in a union, a design that never forms the matrix.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.dictionaries import Kernel
    >>> X = np.linspace(0, 1, 50)[:, None]
    >>> atoms = Kernel("rbf", gamma=1.0).bind(X)
    >>> make_design(atoms, X).shape
    (50, 50)
    >>> type(make_design(atoms, X, stored_bytes=1000)).__name__
    'BlockedDesign'
    """
    from sparsebayes.low_rank import low_rank_design
    from sparsebayes.operator_design import design_of_products

    matrix_free = design_of_products(atoms, X, stored_bytes) or low_rank_design(atoms, X)
    if matrix_free is not None:
        return matrix_free
    n = int(X.shape[0])
    row_bytes = 8 * max(atoms.size, 1)
    # One row tells whether the atoms are X itself, or sparse: neither is stored a second time.
    probe = atoms.evaluate(X[:1])
    if (
        not is_sparse(probe)
        and not np.shares_memory(probe, _data(X))
        and n * row_bytes > stored_bytes
    ):
        return BlockedDesign(atoms, X, max(1, min(n, min(_BLOCK_BYTES, stored_bytes) // row_bytes)))
    Phi = atoms.evaluate(X)
    if is_sparse(Phi):
        return ArrayDesign(Phi.tocsc())
    return ArrayDesign(tame(Phi), isinstance(atoms, KernelAtoms) and atoms.is_symmetric(X))


def _data(X: Any) -> NDArray[Any]:
    return np.asarray(X.data if is_sparse(X) else X)


def tame(Phi: FloatArray) -> FloatArray:
    """Reject atoms that are not finite; they would poison every product."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = Phi.sum()
    if not np.isfinite(total) and not np.isfinite(Phi).all():
        raise ValueError(
            "the dictionary gives NaN or infinite values on X: check the kernel and its parameters."
        )
    return Phi


def _row_blocks(Phi: FloatArray) -> Iterator[tuple[slice, FloatArray]]:
    step = max(1, 2**18 // max(Phi.shape[1], 1))
    for start in range(0, Phi.shape[0], step):
        rows = slice(start, min(start + step, Phi.shape[0]))
        yield rows, Phi[rows]


def _block_squares(
    blocks: Iterator[tuple[slice, FloatArray]], rows: FloatArray, m: int
) -> FloatArray:
    total = np.zeros((len(rows), m))
    for where, block in blocks:
        total += rows[:, where] @ (block * block)
    return total


def _block_moments(
    blocks: Any, shape: tuple[int, int], weights: FloatArray | None, center: bool
) -> Moments:
    n, m = shape
    w = np.ones(n) if weights is None else weights
    total = float(w.sum())
    unit = np.ones(m)
    mean, squares = _sums(blocks, w, unit)
    extreme = ~np.isfinite(squares) | (squares < _TINY_SQUARES)
    if extreme.any():  # squares of 1e200 overflow, those of 1e-200 vanish: change the unit
        peak = np.zeros(m)
        for _, block in blocks():
            np.maximum(peak, np.abs(block).max(axis=0, initial=0.0), out=peak)
        unit = np.where(extreme & (peak > 0), peak, 1.0)
        mean, squares = _sums(blocks, w, unit)
    if not center:
        return Moments(np.zeros(m), np.sqrt(squares) * unit)
    mean /= total
    centered = squares - total * mean**2
    if np.any(centered < _CANCELLATION * squares):
        # A mean far larger than the spread is itself rounded: once more about the first one.
        mean += sum(w[rows] @ (block / unit - mean) for rows, block in blocks()) / total
        centered = np.zeros(m)
        for rows, block in blocks():
            difference = block / unit - mean
            centered += w[rows] @ (difference * difference)
    return Moments(mean * unit, norm_unless_constant(centered, squares, n) * unit)


def _sums(blocks: Any, w: FloatArray, unit: FloatArray) -> tuple[FloatArray, FloatArray]:
    total, squares = np.zeros(len(unit)), np.zeros(len(unit))
    plain = bool((unit == 1).all())
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        for rows, block in blocks():
            scaled = block if plain else block / unit
            total += w[rows] @ scaled
            squares += w[rows] @ (scaled * scaled)
    return total, squares


def norm_unless_constant(centered: FloatArray, squares: FloatArray, n: float) -> FloatArray:
    """Norms; zero where a column is constant up to rounding: the intercept again, no atom."""
    negligible = centered <= squares * (8 * np.finfo(float).eps) ** 2 * n
    return np.sqrt(np.where(negligible, 0.0, centered))


def _sparse_moments(Phi: Any, weights: FloatArray | None, center: bool) -> Moments:
    n, m = Phi.shape
    w = np.ones(n) if weights is None else weights
    total = float(w.sum())
    stored = w[Phi.indices]
    column = np.repeat(np.arange(m), np.diff(Phi.indptr))
    peak = np.zeros(m)
    np.maximum.at(peak, column, np.abs(Phi.data))
    extreme = (peak > 0) & ((peak < 1e-140) | (peak > 1e140))
    unit = np.where(extreme, peak, 1.0)
    data = Phi.data / unit[column]
    squares = np.bincount(column, stored * data**2, minlength=m).astype(np.float64)
    if not center:
        return Moments(np.zeros(m), np.sqrt(squares) * unit)
    mean = np.bincount(column, stored * data, minlength=m) / total
    absent = total - np.bincount(column, stored, minlength=m)
    absent[absent <= n * np.finfo(float).eps * total] = 0.0  # a full column: nothing but rounding
    centered = absent * mean**2
    centered += np.bincount(column, stored * (data - mean[column]) ** 2, minlength=m)
    return Moments(mean * unit, norm_unless_constant(centered, squares, n) * unit)
