"""Columns that must be complete, with errors that name file, column, row and value."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsebayes._tables.numerals import is_number
from sparsebayes._tables.table import FloatArray, Table, TableError

__all__ = ["labels_of", "read_labels", "read_numbers", "suggestion"]

_CODE = re.compile(r"[+-]?0[0-9]+")
_EXACT = 2.0**53  # from here on different integers are one float


def read_numbers(table: Table, names: Sequence[str]) -> FloatArray:
    """Read columns that must be complete and finite.

    Parameters
    ----------
    table : Table
        From `open_table`.
    names : sequence of str
        The columns, in the wanted order.

    Returns
    -------
    ndarray of shape (rows, len(names))
        The numbers.

    Raises
    ------
    TableError
        For an unknown column, text, missing or infinite values, and a table without rows.
    """
    for name in names:
        if name not in table.names:
            raise TableError(f"{table.path}: no column {name!r}{suggestion(name, table.names)}")
    values = table.columns(names)
    if not len(values):
        raise TableError(f"{table.path}: the file has no rows of data")
    missing = np.isnan(values).sum(axis=0)
    if missing.any():
        worst = int(np.flatnonzero(missing)[0])
        row = int(np.flatnonzero(np.isnan(values[:, worst]))[0]) + 1
        count = int(missing[worst])
        others = int((missing > 0).sum()) - 1
        raise TableError(
            f"{table.path}: column {names[worst]!r} has {count} missing "
            f"value{'s' if count > 1 else ''}, the first in row {row}"
            + (
                f" (and {others} more column{'s' if others > 1 else ''} with gaps)"
                if others
                else ""
            )
            + ": fill them in or remove those rows"
        )
    if not np.isfinite(values).all():
        row, worst = (int(index[0]) for index in np.nonzero(~np.isfinite(values)))
        raise TableError(
            f"{table.path}: column {names[worst]!r}, row {row + 1}: "
            f"{values[row, worst]} is not a finite number"
        )
    return values


def read_labels(table: Table, name: str) -> NDArray[Any]:
    """Read a column of class labels, which must be complete.

    Parameters
    ----------
    table : Table
        From `open_table`.
    name : str
        The column.

    Returns
    -------
    ndarray of shape (rows,)
        Booleans, integers, other numbers, or strings where some are none of these.

    Raises
    ------
    TableError
        For missing values, and a table without rows.
    """
    values = table.values(name)
    if not values:
        raise TableError(f"{table.path}: the file has no rows of data")
    if None in values:
        count, row = values.count(None), values.index(None) + 1
        raise TableError(
            f"{table.path}: column {name!r} has {count} missing value{'s' if count > 1 else ''}, "
            f"the first in row {row}: fill them in or remove those rows"
        )
    return labels_of(values)


def labels_of(values: Sequence[Any]) -> NDArray[Any]:
    """Make labels of values of one column, none of them missing.

    Parameters
    ----------
    values : sequence
        Texts, or values of a typed file.

    Returns
    -------
    ndarray
        Booleans, integers, other numbers, or strings where some are none of these or would lose
        something: codes such as 007, and more digits than a float holds.

    Examples
    --------
    >>> from sparsebayes._tables.reading import labels_of
    >>> labels_of(["1", "2"]), labels_of(["1", "b"])
    (array([1, 2]), array(['1', 'b'], dtype='<U1'))
    >>> labels_of(["01", "1"])
    array(['01', '1'], dtype='<U2')
    """
    if not all(isinstance(value, str) for value in values):
        return np.array(values)
    if {value.lower() for value in values} <= {"true", "false"}:
        return np.array([value.lower() == "true" for value in values])
    texts = np.array(values)
    if any("_" in value or _CODE.fullmatch(value) for value in values):
        return texts
    try:
        return texts.astype(np.int64)
    except (ValueError, OverflowError):
        pass
    try:
        numbers = texts.astype(np.float64)
    except ValueError:
        return texts
    return numbers if (np.abs(numbers) < _EXACT).all() else texts


def suggestion(name: str, names: Sequence[str]) -> str:
    """Say which column may have been meant, or which there are.

    Parameters
    ----------
    name : str
        The name that was not found.
    names : sequence of str
        The names there are.

    Returns
    -------
    str
        To be put behind the message.
    """
    lowered = {known.lower(): known for known in reversed(names)}
    close = difflib.get_close_matches(name.lower(), lowered, n=1)
    if close:
        return f"; did you mean {lowered[close[0]]!r}?"
    shown = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
    hint = " (is the header line missing?)" if all(map(is_number, names)) else ""
    return f"; it has: {shown}{hint}"
