"""The columns of a linear operator as atoms: of a matrix, or of a fast transform."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.linalg import LinearOperator
from sklearn.base import BaseEstimator

from sparsebayes.dictionaries._operator_checks import (
    checked_norms,
    checked_operator,
    row_numbers,
    verify_adjoint,
    verify_norms,
    verify_orthonormal,
)
from sparsebayes.dictionaries._products import (
    SomeColumns,
    SomeRows,
    blocks,
    columns_of,
    is_permutation,
)
from sparsebayes.dictionaries._protocol import (
    Addable,
    Arrays,
    Floats,
    Matrix,
    Positions,
    Products,
    Spec,
    check_columns,
    is_sparse,
    positions,
    room,
    spec_array,
    spec_positions,
    spec_value,
)

_STORED_BYTES = 2**28  # columns of active atoms up to this size are stored


class Operator(Addable, BaseEstimator):
    """The columns of a linear operator, known at its rows alone.

    X has one column, which holds numbers of rows of A: ``np.arange(len(y))[:, None]`` for all of
    them in their order. Some of the rows, as in cross-validation, are as good. A matrix is used
    as it is; of a transform only products with vectors are computed, and the few columns that a
    fit needs.

    Parameters
    ----------
    A : array, scipy.sparse matrix, LinearOperator or PyLops operator, of shape (N, M)
        Anything real that `scipy.sparse.linalg.aslinearoperator` takes. An operator must
        have its adjoint and compute in double precision.
    column_norms : array of shape (M,), default=None
        Norms of the columns. Without them every column of a transform is computed once, in blocks.
    orthonormal : bool, default=False
        Whether the columns are orthonormal.

    Notes
    -----
    What is claimed is verified with random vectors when the dictionary is bound: the adjoint,
    the norms and orthonormality. A false claim is refused.

    A fitted model holds the columns of its few active atoms at all rows of A (or A itself, where
    these columns are more than 256 megabytes), and a model file holds them. The parameter A is
    stored in a model file only if it is an array of at most 1000 numbers; otherwise the estimator
    predicts after loading as before, but has its default dictionary, for a new ``fit``.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.fft import dct, idct
    >>> from scipy.sparse.linalg import LinearOperator
    >>> from sparsebayes import SparseBayesRegressor
    >>> from sparsebayes.dictionaries import Operator
    >>> cosines = LinearOperator(
    ...     (64, 64),
    ...     matvec=lambda w: idct(w, axis=0, norm="ortho"),
    ...     rmatvec=lambda r: dct(r, axis=0, norm="ortho"),
    ... )
    >>> X = np.arange(64)[:, None]
    >>> noise = 0.05 * np.random.default_rng(0).normal(size=64)
    >>> y = np.cos(np.pi / 64 * (X[:, 0] + 0.5) * 5) + noise
    >>> SparseBayesRegressor(Operator(cosines, orthonormal=True)).fit(X, y).relevance_
    array([5])
    """

    def __init__(
        self, A: Any, column_norms: ArrayLike | None = None, orthonormal: bool = False
    ) -> None:
        self.A = A
        self.column_norms = column_norms
        self.orthonormal = orthonormal

    def __sklearn_clone__(self) -> Operator:
        # An operator may be as large as memory, or hold what cannot be copied: it is shared.
        return Operator(self.A, self.column_norms, self.orthonormal)

    def bind(
        self, X: Matrix, *, sample_weight: Floats | None = None, random_state: Any = None
    ) -> MatrixAtoms | OperatorAtoms:
        """Make the columns atoms, and verify what is claimed of them.

        Parameters
        ----------
        X : array of shape (n_samples, 1)
            Numbers of rows of A.
        sample_weight : array of shape (n_samples,), default=None
            Does not matter.
        random_state : int, RandomState or None, default=None
            Does not matter.

        Returns
        -------
        MatrixAtoms or OperatorAtoms
            One atom for each column.
        """
        A = checked_operator(self.A)
        n, m = A.shape
        rows = row_numbers(X, n)
        norms = checked_norms(self.column_norms, m)
        if not isinstance(self.orthonormal, bool | np.bool_):
            raise TypeError(f"orthonormal must be True or False, got {self.orthonormal!r}")
        whole = OperatorProducts(A)
        verify_adjoint(whole)
        if norms is not None:
            verify_norms(whole, norms)
        if self.orthonormal:
            verify_orthonormal(whole)
            norms = np.ones(m)
        with np.errstate(over="ignore", under="ignore"):
            norms2 = None if norms is None else norms**2
        # The claim is about all rows, each of them once.
        orthonormal = bool(self.orthonormal) and is_permutation(rows, n)
        index = np.arange(m, dtype=np.intp)
        if isinstance(A, LinearOperator):
            return OperatorAtoms(A, norms2, index, m, orthonormal)
        return MatrixAtoms(A, index, m, orthonormal)


@dataclass(frozen=True, eq=False)
class OperatorAtoms:
    """Columns of a transform: all of them, or too many to be stored."""

    A: LinearOperator = field(repr=False)
    norms2: Floats | None = field(repr=False)  # of whole columns
    index: Positions = field(repr=False)  # columns of A
    count: int
    orthonormal: bool = False
    n_features_in: int = 1

    @property
    def size(self) -> int:
        """Number of atoms."""
        return len(self.index)

    @property
    def _products(self) -> Products:
        whole = OperatorProducts(self.A)
        return whole if _is_all(self.index, self.count) else SomeColumns(whole, self.index)

    def at(self, X: Matrix) -> Products:
        """Products with the rows that X names; norms are known where it names each of them once."""
        check_columns(X, 1)
        n = self.A.shape[0]
        rows = row_numbers(X, n)
        norms2 = self.norms2 if is_permutation(rows, n) else None
        products = self._products
        if not _is_all(rows, n):
            products = SomeRows(products, rows)
        return products if norms2 is None else NormedProducts(products, norms2)

    def evaluate(self, X: Matrix, out: Floats | None = None) -> Floats:
        """The rows that X names, (n, M), by the adjoint or by columns: what there is less of."""
        check_columns(X, 1)
        n, m = self.A.shape[0], self.size
        rows = row_numbers(X, n)
        out = room(out, (len(rows), m))
        products = self._products
        if len(rows) < m:
            for part in blocks(len(rows), max(n, m)):
                unit = np.zeros((part.stop - part.start, n))
                unit[np.arange(len(unit)), rows[part]] = 1.0
                out[part] = products.analyze(unit)
            return out
        for part in blocks(m, max(n, m)):
            out[:, part] = columns_of(products, np.arange(part.start, part.stop))[:, rows].T
        return out

    def restrict(self, indices: ArrayLike) -> MatrixAtoms | OperatorAtoms:
        """Only the columns at `indices`, as a matrix of all rows of A unless that is too large."""
        chosen = positions(indices, self.size)
        if 8 * len(chosen) * self.A.shape[0] <= _STORED_BYTES:
            return self._matrix(chosen)
        norms2 = None if self.norms2 is None else self.norms2[chosen]
        return replace(self, index=self.index[chosen], norms2=norms2)

    def _matrix(self, chosen: Positions) -> MatrixAtoms:
        columns = columns_of(self._products, chosen)
        matrix = np.ascontiguousarray(columns.T)
        return MatrixAtoms(matrix, self.index[chosen], self.count, self.orthonormal)

    def to_spec(self) -> tuple[Spec, Arrays]:
        """Describe the atoms by their columns: a matrix."""
        return self._matrix(np.arange(self.size)).to_spec()


@dataclass(frozen=True, eq=False)
class MatrixAtoms:
    """Columns of a matrix, at the rows that X names."""

    A: Matrix = field(repr=False)  # (N, M), dense or CSR
    index: Positions = field(repr=False)
    count: int
    orthonormal: bool = False
    n_features_in: int = 1

    @property
    def size(self) -> int:
        """Number of atoms."""
        return len(self.index)

    def evaluate(self, X: Matrix, out: Floats | None = None) -> Matrix:
        """Rows of the matrix, (n, M): itself if X names all in order; sparse as it is."""
        check_columns(X, 1)
        rows = row_numbers(X, self.A.shape[0])
        whole = _is_all(rows, self.A.shape[0])
        if out is None:
            return self.A if whole else self.A[rows]
        out = room(out, (len(rows), self.size))
        if not is_sparse(self.A):
            np.take(self.A, rows, axis=0, out=out, mode="clip")
            return out
        for part in blocks(len(rows), self.size):
            out[part] = self.A[rows[part]].toarray()
        return out

    def restrict(self, indices: ArrayLike) -> MatrixAtoms:
        """Only the columns at `indices`, copied."""
        chosen = positions(indices, self.size)
        A = self.A[:, chosen] if is_sparse(self.A) else np.take(self.A, chosen, axis=1)
        return replace(self, A=A, index=self.index[chosen])

    def to_spec(self) -> tuple[Spec, Arrays]:
        """Describe the atoms by their columns."""
        A = self.A.toarray() if is_sparse(self.A) else self.A
        spec = {"kind": "operator", "count": self.count}
        return spec, {"index": self.index, "columns": np.ascontiguousarray(A)}

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> MatrixAtoms:
        """Rebuild the atoms that `to_spec` described; a ValueError for anything unexpected."""
        count = spec_value(spec, "count", int)
        index = spec_positions(arrays, "index", None, count)
        return cls(spec_array(arrays, "columns", (None, len(index))), index, count)


@dataclass(frozen=True, eq=False)
class OperatorProducts:
    """Products with a matrix or a linear operator, vectors as rows."""

    A: Any

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        n, m = self.A.shape
        return int(n), int(m)

    def synthesize(self, weights: Floats) -> Floats:
        """Sums of columns: (k, M) to (k, N)."""
        fast = isinstance(self.A, LinearOperator)
        return _rows(self.A.matmat(weights.T) if fast else self.A @ weights.T)

    def analyze(self, rows: Floats) -> Floats:
        """Inner products with the columns: (k, N) to (k, M)."""
        fast = isinstance(self.A, LinearOperator)
        return _rows(self.A.rmatmat(rows.T) if fast else self.A.T @ rows.T)

    def squared_norms(self) -> Floats | None:
        """Not known."""
        return None


@dataclass(frozen=True, eq=False)
class NormedProducts:
    """Products of which the norms were given."""

    products: Products
    norms2: Floats

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.products.shape

    def synthesize(self, weights: Floats) -> Floats:
        """Sums of columns: (k, M) to (k, N)."""
        return self.products.synthesize(weights)

    def analyze(self, rows: Floats) -> Floats:
        """Inner products with the columns: (k, N) to (k, M)."""
        return self.products.analyze(rows)

    def squared_norms(self) -> Floats | None:
        """As they were given."""
        return self.norms2


def _rows(values: Any) -> Floats:
    found = np.asarray(values)
    if found.dtype.kind == "c":
        raise ValueError("A is said to be real, but gives complex numbers")
    return np.ascontiguousarray(found.T, dtype=np.float64)


def _is_all(rows: Positions, n: int) -> bool:
    return len(rows) == n and bool((rows == np.arange(n)).all())
