"""Rows of a table for a model that is fitted: its features by name, gaps told apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsebayes._console import counted
from sparsebayes._tables.choosing import found_name
from sparsebayes._tables.cleaning import fault, finite, odd_values
from sparsebayes._tables.reading import labels_of, read_labels, read_numbers, suggestion
from sparsebayes._tables.table import Column, FloatArray, Table, TableError

__all__ = ["Matched", "check_columns", "labels_like", "read_for"]


@dataclass(frozen=True, eq=False)
class Matched:
    """Rows of a table as a model takes them.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Features; NaN where a value is missing.
    y : ndarray of shape (n,) or (n, targets), or None
        Targets, where they were asked for; what stands in rows that are not complete means nothing.
    complete : ndarray of bool of shape (n,)
        Rows without gaps.
    notes : list of str
        Sentences about what was found.
    """

    X: FloatArray
    y: NDArray[Any] | None
    complete: NDArray[np.bool_]
    notes: list[str]


def read_for(
    model: Any,
    table: Table,
    targets: Sequence[str] | None = None,
    *,
    called: str = "the model",
    strict: bool = False,
) -> Matched:
    """Read what a model needs of a table.

    Parameters
    ----------
    model : estimator
        Fitted.
    table : Table
        From `open_table`.
    targets : sequence of str or None, default=None
        Columns of the targets, where they are wanted too.
    called : str, default="the model"
        The model's name in messages.
    strict : bool, default=False
        Whether gaps and text are errors.

    Returns
    -------
    Matched
        One row for each of the table.

    Raises
    ------
    TableError
        For columns that are not there or hold no numbers, and a table without rows.
    """
    notes: list[str] = []
    features = _features(model, table, called, notes)
    known = [_found(table, name) for name in targets or []]
    if strict:
        return _strictly(model, table, features, known, notes)
    columns = table.look(features)
    if not len(columns[0].numbers):
        raise TableError(f"{table.path}: the file has no rows of data")
    X = _numbers(table.path, columns, notes)
    complete: NDArray[np.bool_] = np.asarray(~np.isnan(X).any(axis=1))
    y: NDArray[Any] | None = None
    if known and hasattr(model, "classes_"):
        values = table.values(known[0])
        there = np.array([value is not None for value in values])
        given = [value for value in values if value is not None]
        if given:
            some = labels_like(given, model.classes_)
            y = np.resize(some[:1], len(values)).astype(some.dtype)
            y[there] = some
        complete &= there
    elif known:
        y = _numbers(table.path, table.look(known), notes)
        complete &= ~np.isnan(y).any(axis=1)
        y = y[:, 0] if y.shape[1] == 1 else y
    remarks = [f"{table.path}: {remark}" for remark in table.remarks]
    return Matched(X, y, complete, remarks + notes)


def _strictly(
    model: Any, table: Table, features: list[str], targets: list[str], notes: list[str]
) -> Matched:
    X = read_numbers(table, features)
    y: NDArray[Any] | None = None
    if targets and hasattr(model, "classes_"):
        read_labels(table, targets[0])  # refuses gaps
        y = labels_like(table.values(targets[0]), model.classes_)
    elif targets:
        y = read_numbers(table, targets)
        y = y[:, 0] if y.shape[1] == 1 else y
    return Matched(X, y, np.ones(len(X), dtype=bool), notes)


def _features(model: Any, table: Table, called: str, notes: list[str]) -> list[str]:
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        if len(table.names) != model.n_features_in_:
            raise TableError(
                f"{table.path}: {counted(len(table.names), 'column')}, but the model was fitted to "
                f"{counted(model.n_features_in_, 'feature')} without names: give it exactly those"
            )
        notes.append("the model has no feature names, so the columns are taken in their order")
        return table.names
    found = [str(name) for name in names]
    check_columns(table, found, called=called)
    return found


def check_columns(
    table: Table, features: Sequence[str], targets: Sequence[str] = (), *, called: str = "the model"
) -> None:
    """Refuse a table that lacks a column.

    Parameters
    ----------
    table : Table
        From `open_table`.
    features, targets : sequence of str
        Columns that it must have.
    called : str, default="the model"
        The model's name in messages.
    """
    lacking = [name for name in features if name not in table.names]
    if lacking:
        more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
        raise TableError(
            f"{table.path}: no column {lacking[0]!r}{more}, which {called} needs"
            + suggestion(lacking[0], table.names)
        )
    for name in targets:
        _found(table, name)


def _found(table: Table, name: str) -> str:
    known = found_name(table, name)
    if known is None:
        hint = suggestion(name, table.names)
        raise TableError(f"{table.path}: no column {name!r} of the target{hint}")
    return known


def _numbers(path: str, columns: list[Column], notes: list[str]) -> FloatArray:
    for column in columns:
        there = len(column.numbers) - column.missing
        if column.kind == "ambiguous" or (there and column.odd == there):
            raise TableError(f"{path}: {fault(column)}")
        if column.remark:
            notes.append(f"{path}: column {column.name!r} {column.remark}")
        if column.odd:
            notes.append(f"{path}: {odd_values(column)}")
    return finite(path, columns, notes)


def labels_like(values: Sequence[Any], classes: NDArray[Any]) -> NDArray[Any]:
    """Read labels as those of a model were read.

    Parameters
    ----------
    values : sequence
        Texts, or values of a typed file.
    classes : ndarray of shape (K,)
        Classes of the model.

    Returns
    -------
    ndarray
        Strings where the classes are, though all of these may look like numbers. Elsewhere a label
        that the model does not know makes no texts of those that it knows.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes._tables.matching import labels_like
    >>> labels_like(["1", "2"], np.array(["1", "2", "b"]))
    array(['1', '2'], dtype='<U1')
    >>> labels_like(["1", "2"], np.array([1, 2, 3]))
    array([1, 2])
    >>> labels_like(["1", "new"], np.array([1, 2, 3]))
    array([1, 'new'], dtype=object)
    """
    if classes.dtype.kind in "UO" and all(isinstance(label, str) for label in classes.tolist()):
        return np.array([str(value) for value in values])
    found = labels_of(values)
    if found.dtype.kind != "U":
        return found
    each = {value: labels_of([value]).tolist()[0] for value in set(values)}
    return np.array([each[value] for value in values], dtype=object)
