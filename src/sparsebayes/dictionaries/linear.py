"""The columns of X as atoms, and the columns of a kernel matrix, which are handled alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from sparsebayes.dictionaries._protocol import (
    Addable,
    Arrays,
    Floats,
    Matrix,
    Positions,
    Spec,
    check_columns,
    is_sparse,
    positions,
    room,
    spec_positions,
    spec_value,
)

_CELLS = 1 << 18  # entries of a sparse X made dense at a time, when it is written into `out`


class Linear(Addable, BaseEstimator):
    """The columns of X themselves: sparse Bayesian linear regression.

    Sparse X stays sparse.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.dictionaries import Linear
    >>> X = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    >>> Linear().bind(X).restrict([2, 0]).evaluate(X)
    array([[3., 1.],
           [6., 4.]])
    """

    def bind(
        self, X: Matrix, *, sample_weight: Floats | None = None, random_state: Any = None
    ) -> LinearAtoms:
        """One atom per column of X; weights and random state do not matter to it."""
        check_columns(X, None)
        return LinearAtoms(np.arange(X.shape[1], dtype=np.intp), X.shape[1])


@dataclass(frozen=True, eq=False)
class ColumnAtoms:
    """Some columns of the X that is given: all of them without a copy, in their order."""

    index: Positions
    n_features_in: int
    orthonormal: bool = False
    kind: ClassVar[str]

    @property
    def size(self) -> int:
        """Number of atoms."""
        return len(self.index)

    @property
    def count(self) -> int:
        """Number of columns of X."""
        return self.n_features_in

    def evaluate(self, X: Matrix, out: Floats | None = None) -> Matrix:
        """Columns of X, (n, M): X itself if all are wanted; sparse as X is, but not in `out`."""
        check_columns(X, self.n_features_in)
        whole = self.size == self.n_features_in and bool(
            (self.index == np.arange(self.size, dtype=np.intp)).all()
        )
        if out is None:
            return X if whole else X[:, self.index]
        out = room(out, (X.shape[0], self.size))
        if not is_sparse(X):
            # "clip" spares the buffer of the default mode; the index is known to be valid.
            np.take(X, self.index, axis=1, out=out, mode="clip")
            return out
        chosen = X if whole else X[:, self.index]
        step = max(1, _CELLS // max(self.size, 1))
        for i in range(0, X.shape[0], step):
            out[i : i + step] = chosen[i : i + step].toarray()
        return out

    def restrict(self, indices: ArrayLike) -> Self:
        """Only the columns at `indices`."""
        return replace(self, index=self.index[positions(indices, self.size)])

    def to_spec(self) -> tuple[Spec, Arrays]:
        """Describe the atoms by their column numbers."""
        return {"kind": self.kind, "n_features_in": self.n_features_in}, {"index": self.index}

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Rebuild the atoms that `to_spec` described; a ValueError for anything unexpected."""
        n_features = spec_value(spec, "n_features_in", int)
        return cls(spec_positions(arrays, "index", None, n_features), n_features)


@dataclass(frozen=True, eq=False)
class LinearAtoms(ColumnAtoms):
    """Columns of X."""

    kind: ClassVar[str] = "linear"


@dataclass(frozen=True, eq=False)
class PrecomputedAtoms(ColumnAtoms):
    """Columns of a kernel matrix that the user computed: X[i, j] = K(row i, atom j)."""

    kind: ClassVar[str] = "precomputed"
