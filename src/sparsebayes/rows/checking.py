"""Checks of a block before anything is computed from it, with errors that name block and reason."""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsebayes._labels import first_missing
from sparsebayes.dictionaries._protocol import is_sparse
from sparsebayes.rows.blocks import Block, ChunkError, FloatArray

__all__ = [
    "Checker",
    "as_array",
    "check_lengths",
    "column_names",
    "holds_dates",
    "numbers_of",
    "reason_of",
    "refused",
]

_REAL = "biuf"
_TEMPORAL = (
    datetime.date,
    datetime.time,
    datetime.timedelta,
    np.datetime64,
    np.timedelta64,
)
_KINDS = {"U": "text", "S": "text", "T": "text", "c": "complex numbers", "O": "objects"}
_KINDS |= {"M": "dates", "m": "time spans", "V": "records"}


def refused(name: str, reason: str) -> ChunkError:
    """The error of a block that cannot be used.

    Parameters
    ----------
    name : str
        Which block, such as "chunk 3 (rows 3000 to 3999)".
    reason : str
        What is wrong with it.

    Returns
    -------
    ChunkError
        To be raised.

    Examples
    --------
    >>> refused("chunk 3", "it has 4 columns, the first one has 5")
    ChunkError('chunk 3: it has 4 columns, the first one has 5.')
    """
    return ChunkError(f"{name}: {reason}.")


def reason_of(error: BaseException) -> str:
    """What an exception says, on one line."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__


def column_names(X: Any) -> tuple[str, ...] | None:
    """Names of the columns of a frame; None where X is no frame, or a name is no text."""
    columns = getattr(X, "columns", None)
    if columns is None or is_sparse(X):
        return None
    names = tuple(columns)
    return names if names and all(isinstance(name, str) for name in names) else None


def holds_dates(values: Any) -> bool:
    """Whether there are dates or times, which as floats are counts of a unit that nobody sees.

    Parameters
    ----------
    values : array-like, frame or sparse matrix
        What was given for X or y.

    Returns
    -------
    bool
        Of objects each is looked at. NaT among them is a missing value.

    Examples
    --------
    >>> import numpy as np
    >>> holds_dates(np.array(["2020-02-29"], dtype="datetime64[D]")), holds_dates([1.5])
    (True, False)
    """
    if isinstance(values, list | tuple):
        try:
            values = np.asarray(values)
        except (TypeError, ValueError):
            return False  # no array at all, for which there is a message
    dtypes = _dtypes(values)
    if any(_is_temporal(dtype) for dtype in dtypes):
        return True
    if all(getattr(dtype, "kind", "O") != "O" for dtype in dtypes):
        return False
    found = values.data if is_sparse(values) else np.asarray(values)
    if found.dtype.kind != "O":
        return False
    return any(isinstance(value, _TEMPORAL) and value == value for value in found.flat)


def _dtypes(values: Any) -> list[Any]:
    """Types of the columns of a frame, or the one of an array."""
    columns = getattr(values, "dtypes", None)
    if columns is not None:
        return list(columns) if hasattr(columns, "__iter__") else [columns]
    dtype = getattr(values, "dtype", None)
    return [] if dtype is None else [dtype]


def _is_temporal(dtype: Any) -> bool:
    """Whether a type of NumPy, pandas or polars is one of dates, times or spans of time."""
    if hasattr(dtype, "is_temporal"):
        return bool(dtype.is_temporal())
    return getattr(dtype, "kind", "O") in "mM"


def check_lengths(n: int, y: Any, weights: Any, name: str) -> None:
    """Refuse targets or weights that are not one for each of n rows; weights may be a number."""
    for what, values in (("y", y), ("sample_weight", weights)):
        if values is None:
            if what == "y":
                raise refused(name, "y is missing")
            continue
        shape = tuple(values.shape)
        if what == "sample_weight" and shape == ():
            continue
        if not shape or shape[0] != n:
            raise refused(name, f"X has {n} rows, but {what} has shape {shape}")


@dataclass
class Checker:
    """Makes blocks of what was read, and refuses what cannot be used.

    Parameters
    ----------
    numeric_y : bool, default=True
        Whether targets are numbers; else they are labels, of any type.
    n_features : int or None, default=None
        Columns that X must have; None for those of the first block.
    n_targets : int or None, default=None
        Columns that y must have, 0 where it is one-dimensional; None for those of the first block.
    names : sequence of str, default=()
        Names of the columns of X, for messages.

    Examples
    --------
    >>> import numpy as np
    >>> checker = Checker()
    >>> checker.block([[1, 2]], [3], None, start=0, name="chunk 0").X
    array([[1., 2.]])
    >>> checker.block([[1, 2, 3]], [3], None, start=1, name="chunk 1")
    Traceback (most recent call last):
    ...
    sparsebayes.rows.blocks.ChunkError: chunk 1: it has 3 columns, the first one has 2.
    """

    numeric_y: bool = True
    n_features: int | None = None
    n_targets: int | None = None
    names: Sequence[str] = field(default=(), repr=False)

    def block(
        self, X: Any, y: Any, weights: Any, *, start: int, name: str, first: int | None = None
    ) -> Block:
        """Check some rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            Inputs.
        y : array-like of shape (n,) or (n, T)
            Targets or labels.
        weights : array-like of shape (n,) or None
            Weights.
        start : int
            Position of the first row among all.
        name : str
            For messages.
        first : int or None, default=None
            Number of the first row in messages; None for ``start``.

        Returns
        -------
        Block
            X in float64, contiguous or CSR; numeric targets and weights in float64.
        """
        first = start if first is None else first
        X = self._inputs(X, name, first)
        n = int(X.shape[0])
        y = self._targets(y, n, name, first)
        return Block(X, y, _weights(weights, n, name, first), start, name)

    def _inputs(self, X: Any, name: str, first: int) -> Any:
        X = X.tocsr() if is_sparse(X) else as_array(X, "X", name)
        if X.ndim != 2:
            raise refused(name, f"X must have two dimensions, but its shape is {X.shape}")
        d = int(X.shape[1])
        if self.n_features is None:
            if d == 0:
                raise refused(name, "X has no columns")
            self.n_features = d
        if d != self.n_features:
            raise refused(name, f"it has {d} columns, the first one has {self.n_features}")
        X = _floats(X, "X", name)
        values = X.data if is_sparse(X) else X
        if not _finite(values):
            row, column = _first_bad(X)
            label = f" ({self.names[column]!r})" if self.names else ""
            value = "infinity" if np.isinf(X[row, column]) else "NaN"
            raise refused(name, f"X has {value} in column {column}{label}, row {first + row}")
        return X

    def _targets(self, y: Any, n: int, name: str, first: int) -> NDArray[Any]:
        if y is None:
            raise refused(name, "y is missing")
        y = as_array(y, "y", name, labels=not self.numeric_y)
        if y.ndim not in (1, 2):
            raise refused(name, f"y must have one or two dimensions, but its shape is {y.shape}")
        if y.shape[0] != n:
            raise refused(name, f"X has {n} rows, but y has {y.shape[0]}")
        width = y.shape[1] if y.ndim == 2 else 0
        if self.n_targets is None:
            if y.ndim == 2 and width == 0:
                raise refused(name, "y has no columns")
            self.n_targets = width
        if width != self.n_targets:
            shapes = [f"{w} columns" if w else "one dimension" for w in (width, self.n_targets)]
            raise refused(name, f"y has {shapes[0]}, that of the first one has {shapes[1]}")
        if self.numeric_y:
            numbers: FloatArray = _floats(y, "y", name)
            if not _finite(numbers):
                row = int(np.argwhere(~np.isfinite(numbers))[0][0])
                value = "infinity" if np.isinf(numbers[row]).any() else "NaN"
                raise refused(name, f"y has {value} in row {first + row}")
            return numbers
        # Text of variable width is unknown to some functions of NumPy.
        labels: NDArray[Any] = y.astype(np.str_) if y.dtype.kind == "T" else y
        if (gap := first_missing(labels)) is not None:
            raise refused(name, f"row {first + gap} has no label but {labels[gap]}")
        return labels


def _weights(weights: Any, n: int, name: str, first: int) -> FloatArray | None:
    if weights is None:
        return None
    found: FloatArray = _floats(as_array(weights, "sample_weight", name), "sample_weight", name)
    if np.ndim(weights) == 0:
        found = np.full(n, found[0])
    if found.shape != (n,):
        raise refused(name, f"X has {n} rows, but sample_weight has shape {found.shape}")
    wrong = ~(np.isfinite(found) & (found >= 0))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise refused(
            name,
            f"sample_weight is {found[row]:g} in row {first + row}; weights must be finite and "
            "not negative",
        )
    return found


def as_array(values: Any, what: str, name: str, labels: bool = False) -> NDArray[Any]:
    """An array of what a user gave, of whatever type; labels are left as they are."""
    try:
        found: NDArray[Any] = np.asarray(values)
    except (TypeError, ValueError) as error:
        raise refused(name, f"{what} is no array ({reason_of(error)})") from error
    return found if labels else numbers_of(values, found)


def numbers_of(values: Any, found: NDArray[Any]) -> NDArray[Any]:
    """Numbers of a frame that are objects as an array: of several types, or with missing ones."""
    types = getattr(values, "dtypes", None)
    if found.dtype.kind != "O" or types is None or not hasattr(values, "to_numpy"):
        return found
    kinds = [getattr(of, "kind", "O") for of in (types if hasattr(types, "__iter__") else [types])]
    if not all(kind in _REAL for kind in kinds):
        return found
    numbers: FloatArray = values.to_numpy(dtype=np.float64, na_value=np.nan)
    return numbers


def _floats(values: Any, what: str, name: str) -> Any:
    kind = values.dtype.kind
    if kind not in _REAL:
        raise refused(
            name, f"{what} must be numbers, but holds {_KINDS.get(kind, values.dtype.name)}"
        )
    with np.errstate(over="ignore"):  # what exceeds float64 is refused as infinity
        if is_sparse(values):
            return values.astype(np.float64, copy=False)
        return np.ascontiguousarray(values, dtype=np.float64)


def _finite(values: FloatArray) -> bool:
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum()):  # one pass without a copy, right unless sums overflow
            return True
    return bool(np.isfinite(values).all())


def _first_bad(X: Any) -> tuple[int, int]:
    if not is_sparse(X):
        row, column = np.argwhere(~np.isfinite(X))[0]
        return int(row), int(column)
    place = int(np.argmax(~np.isfinite(X.data)))
    return int(np.searchsorted(X.indptr, place, side="right")) - 1, int(X.indices[place])
