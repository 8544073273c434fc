"""Tables in csv and parquet files, with errors that name file, column, row and value."""

from __future__ import annotations

import csv
import difflib
import os
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from sparsebayes._files import atomic_write, check_place
from sparsebayes._table_files import (
    Delimited,
    Parquet,
    Table,
    TableError,
    is_number,
    need_pyarrow,
)

__all__ = [
    "Table",
    "TableError",
    "check_folder",
    "check_output",
    "check_picture",
    "is_parquet",
    "open_table",
    "read_labels",
    "read_numbers",
    "suggestion",
    "write_table",
]

_DELIMITED = (".csv", ".tsv")
_PARQUET = (".parquet", ".pq")
_SUFFIXES = _DELIMITED + _PARQUET
_PICTURES = (".pdf", ".png", ".svg")

Column = NDArray[Any]


def open_table(path: str, *, folders: bool = False) -> Table:
    """Open a csv, tsv or parquet file and read its column names.

    Parameters
    ----------
    path : str
        The file; its suffix says what it is.
    folders : bool, default=False
        Whether it may be a folder of parquet files too, whose first one tells the columns.

    Returns
    -------
    Table
        Its columns are read on demand.

    Raises
    ------
    TableError
        If there is no such file, or it is not such a file.
    """
    suffix = Path(path).suffix.lower()
    if not os.path.exists(path):
        raise TableError(f"{path}: no such file")
    if os.path.isdir(path):
        if not folders:
            raise TableError(f"{path}: is a directory, a csv or parquet file is needed")
        from sparsebayes.rows.parquet import parquet_files

        table: Table = Parquet(parquet_files(path)[0][0])
        table.path = path
    else:
        _check_suffix(path)
        if os.path.getsize(path) == 0:
            raise TableError(f"{path}: the file is empty")
        table = Parquet(path) if suffix in _PARQUET else Delimited(path)
    repeated = [name for name, count in Counter(table.names).items() if count > 1]
    if repeated:
        raise TableError(f"{path}: column {repeated[0]!r} appears more than once: rename one")
    return table


def is_parquet(path: str) -> bool:
    """Whether a file is a parquet file, by its suffix.

    Parameters
    ----------
    path : str
        The file.

    Returns
    -------
    bool
        False for csv and tsv files, and for folders.
    """
    return Path(path).suffix.lower() in _PARQUET and not os.path.isdir(path)


def read_numbers(table: Table, names: Sequence[str]) -> NDArray[np.float64]:
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
    if not all(isinstance(value, str) for value in values):
        return np.array(values)
    if {value.lower() for value in values} <= {"true", "false"}:
        return np.array([value.lower() == "true" for value in values])
    for kind in (np.int64, np.float64):
        try:
            return np.array(values).astype(kind)
        except (ValueError, OverflowError):
            continue
    return np.array(values)


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


def check_output(path: str) -> None:
    """Refuse an output that cannot be written, before the work that it is for.

    Parameters
    ----------
    path : str
        Where a table is to be written.

    Raises
    ------
    TableError
        For an unknown suffix, a missing folder or package.
    """
    _check_suffix(path)
    check_folder(path)
    if Path(path).suffix.lower() in _PARQUET:
        need_pyarrow(path)


def check_folder(path: str) -> None:
    """Refuse a place where no file can be made.

    Parameters
    ----------
    path : str
        A file to be written.

    Raises
    ------
    TableError
        If it is a directory or in one that is missing or not writable.
    """
    try:
        check_place(path)
    except ValueError as error:
        raise TableError(str(error)) from None


def check_picture(path: str) -> None:
    """Refuse a picture that matplotlib is not asked to draw.

    Parameters
    ----------
    path : str
        Where it is to be written.

    Raises
    ------
    TableError
        For another suffix, or a place where no file can be made.
    """
    if Path(path).suffix.lower() not in _PICTURES:
        raise TableError(f"{path}: use one of the suffixes {', '.join(_PICTURES)}")
    check_folder(path)


def write_table(path: str | None, columns: dict[str, Column]) -> None:
    """Write columns of one length to a file, or as csv to the standard output.

    Parameters
    ----------
    path : str or None
        A csv, tsv or parquet file, replaced in one step; None for the standard output.
    columns : dict of str to ndarray of shape (rows,)
        The columns by name.
    """
    if path is None:
        _write_delimited(sys.stdout, columns, ",")
        sys.stdout.flush()
        return
    suffix = Path(path).suffix.lower()
    with atomic_write(path) as file:
        if suffix in _PARQUET:
            import pyarrow as pa
            import pyarrow.parquet as pq

            pq.write_table(pa.table(columns), file)
        else:
            import io

            text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
            _write_delimited(text, columns, "\t" if suffix == ".tsv" else ",")
            text.detach()


def _check_suffix(path: str) -> None:
    suffix = Path(path).suffix
    if suffix.lower() not in _SUFFIXES:
        found = f"unknown suffix {suffix!r}" if suffix else "the name has no suffix"
        raise TableError(f"{path}: {found}, use one of {', '.join(_SUFFIXES)}")


def _write_delimited(file: IO[str], columns: dict[str, Column], delimiter: str) -> None:
    writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
    writer.writerow(columns)
    # tolist gives Python's own floats, whose text is the shortest that reads back the same.
    writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))
