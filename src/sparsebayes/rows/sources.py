"""From what users give to a source of rows."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from sparsebayes.dictionaries._protocol import is_sparse
from sparsebayes.rows.arrays import ArraySource
from sparsebayes.rows.checking import column_names, numbers_of
from sparsebayes.rows.chunks import Chunks, ChunkSource
from sparsebayes.rows.parquet import Parquet, ParquetSource, are_paths, is_path

__all__ = ["check_names", "is_streamed", "open_source"]


def is_streamed(X: Any) -> bool:
    """Whether X is data that must be read piece by piece: a file, or an array that lives in one.

    Parameters
    ----------
    X : object
        As given to ``fit``.

    Returns
    -------
    bool
        False for arrays in memory, sparse matrices, lists and frames.

    Examples
    --------
    >>> is_streamed([[1.0, 2.0]]), is_streamed("data.parquet")
    (False, True)
    """
    return (
        isinstance(X, (np.memmap, Chunks, Parquet, Iterator))  # the last is refused when opened
        or is_path(X)
        or are_paths(X)
        or _is_stored(X)
    )


def open_source(
    X: Any, y: Any = None, sample_weight: Any = None, *, numeric_y: bool = True
) -> ArraySource | ChunkSource | ParquetSource:
    """Make a source of what a user has given.

    Parameters
    ----------
    X : array-like or CSR matrix of shape (n, d), path, list of paths, Parquet or Chunks
        Inputs: in memory, `numpy.memmap`, zarr or HDF5 array; or parquet files; or chunks.
    y : array-like of shape (n,) or (n, T), str or list of str, default=None
        Targets, of the same kinds as X. The name of a column, or of several, if X is a path. None
        where X has them: `Chunks`, and `Parquet` with a target.
    sample_weight : array-like of shape (n,), a number, str or None, default=None
        Weights, of the same kinds; the name of a column if X is a path. `Chunks` have their own.
    numeric_y : bool, default=True
        Whether targets are numbers, not labels.

    Returns
    -------
    Source
        Its rows, with ``feature_names`` and ``n_rows``, each None where it is not known.

    Examples
    --------
    >>> source = open_source([[1, 2], [3, 4]], [5, 6])
    >>> next(source.chunks(10)).X
    array([[1., 2.],
           [3., 4.]])
    """
    if isinstance(X, Iterator):
        X = Chunks(X)  # says what to give instead
    if isinstance(X, Chunks):
        for what, values in (("y", y), ("sample_weight", sample_weight)):
            if values is not None:
                raise ValueError(f"{what} must be None where X is Chunks: they are in the chunks.")
        chunks = ChunkSource(X, numeric_y)
        check_names(chunks.feature_names or ())
        return chunks
    if isinstance(X, Parquet) or is_path(X) or are_paths(X):
        return _open_parquet(X, y, sample_weight, numeric_y)
    return _open_arrays(X, y, sample_weight, numeric_y)


def check_names(names: Iterable[Any]) -> None:
    """Refuse names of columns that predictions would refuse: they must tell columns apart.

    Parameters
    ----------
    names : iterable
        Names of all columns of a frame; none where X has no names.

    Examples
    --------
    >>> check_names(["a", "b"])
    >>> check_names(["a", "a"])
    Traceback (most recent call last):
    ...
    ValueError: X has several columns of the name 'a': give each a name of its own.
    """
    names = list(names)
    texts = [name for name in names if isinstance(name, str)]
    if not texts:  # as scikit-learn has it: only text is a name
        return
    if len(texts) < len(names):
        other = next(name for name in names if not isinstance(name, str))
        raise TypeError(
            f"X has columns with names that are text, such as {texts[0]!r}, and others, such as "
            f"{other!r}: make all of them text, as in X.columns = X.columns.astype(str)."
        )
    repeated = [name for name, count in Counter(texts).items() if count > 1]
    if repeated:
        raise ValueError(
            f"X has several columns of the name {repeated[0]!r}: give each a name of its own."
        )


def _open_parquet(X: Any, y: Any, sample_weight: Any, numeric_y: bool) -> ParquetSource:
    given = X if isinstance(X, Parquet) else Parquet(X)
    if y is not None:
        if given.target is not None:
            raise ValueError("the target is named both by Parquet(target=...) and by y.")
        if not isinstance(y, str) and not (
            isinstance(y, (list, tuple)) and all(isinstance(name, str) for name in y)
        ):
            raise TypeError(
                "y must be the name of the target's column, or a list of names, where X is a path, "
                f"but it is {type(y).__name__}."
            )
        given = replace(given, target=y)
    if isinstance(sample_weight, str):
        if given.weight is not None:
            raise ValueError("weights are named both by Parquet(weight=...) and by sample_weight.")
        given, sample_weight = replace(given, weight=sample_weight), None
    return ParquetSource(given, _sliceable(sample_weight, "sample_weight"), numeric_y)


def _open_arrays(X: Any, y: Any, sample_weight: Any, numeric_y: bool) -> ArraySource:
    if X is None:
        raise ValueError("X is missing: give the inputs.")
    check_names(getattr(X, "columns", ()))
    names = column_names(X)
    X = X.tocsr() if is_sparse(X) else _sliceable(X, "X")
    y = _sliceable(y, "y", labels=not numeric_y)
    sample_weight = _sliceable(sample_weight, "sample_weight")
    if y is None:
        raise ValueError("y is missing: give the targets.")
    if len(X.shape) != 2:
        raise ValueError(f"X must have two dimensions, but its shape is {tuple(X.shape)}.")
    if 0 in X.shape:
        raise ValueError(f"X must have rows and columns, but its shape is {tuple(X.shape)}.")
    n = int(X.shape[0])
    if len(y.shape) not in (1, 2) or y.shape[0] != n or 0 in y.shape:
        raise ValueError(f"X has {n} rows, but y has shape {tuple(y.shape)}.")
    if sample_weight is not None and tuple(sample_weight.shape) not in ((), (n,)):
        raise ValueError(f"X has {n} rows, but sample_weight has shape {sample_weight.shape}.")
    return ArraySource(X, y, sample_weight, numeric_y, names)


def _sliceable(values: Any, what: str, labels: bool = False) -> Any:
    if values is None or isinstance(values, np.ndarray):
        return values
    if _is_stored(values):
        if not values and type(values).__module__.startswith("h5py"):  # false where it is closed
            raise ValueError(f"the HDF5 file of {what} is closed: fit while it is open.")
        if not (hasattr(values, "shape") and hasattr(values, "dtype")):
            raise TypeError(
                f"{what} is a {type(values).__name__}, which holds arrays: give one of them, as in "
                "file['X']."
            )
        return values
    try:
        found = np.asarray(values)
    except (TypeError, ValueError):
        raise ValueError(f"{what} is no array: its rows differ in length.") from None
    return found if labels else numbers_of(values, found)


def _is_stored(X: Any) -> bool:
    """Whether X is of zarr or h5py, neither of which needs to be installed."""
    return type(X).__module__.partition(".")[0] in ("zarr", "h5py")
