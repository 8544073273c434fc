"""Tables written: whole or not at all."""

from __future__ import annotations

import csv
import io
import sys
from typing import IO, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from sparsebayes._files import atomic_write
from sparsebayes._tables.places import format_of
from sparsebayes._tables.table import TableError

__all__ = ["write_table"]

Column = NDArray[Any]


def write_table(path: str | None, columns: dict[str, Column]) -> None:
    """Write columns of one length to a file, or as csv to the standard output.

    Parameters
    ----------
    path : str or None
        A csv, tsv, parquet, feather or npy file, replaced in one step; None or ``-`` for the
        standard output.
    columns : dict of str to ndarray of shape (rows,)
        The columns by name. NaN and None are missing: an empty field, a null; a npy file has NaN.
    """
    if path is None or path == "-":
        _write_delimited(sys.stdout, columns, ",")
        sys.stdout.flush()
        return
    kind = format_of(path)
    with atomic_write(path) as file:
        if kind == "npy":
            _write_array(file, columns, path)
        elif kind in ("csv", "tsv"):
            text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
            _write_delimited(text, columns, "\t" if kind == "tsv" else ",")
            text.detach()
        else:
            _write_arrow(file, columns, kind)


def _write_array(file: BinaryIO, columns: dict[str, Column], path: str) -> None:
    for name, column in columns.items():
        try:
            np.asarray(column, dtype=np.float64)
        except (TypeError, ValueError):
            raise TableError(
                f"{path}: column {name!r} is not of numbers, which is all that a npy file holds: "
                "write csv or parquet"
            ) from None
    numbers = [np.asarray(column, dtype=np.float64) for column in columns.values()]
    np.save(file, np.stack(numbers, axis=1), allow_pickle=False)


def _write_arrow(file: BinaryIO, columns: dict[str, Column], kind: str) -> None:
    import pyarrow as pa

    arrays = {
        name: pa.array(column.tolist() if column.dtype.kind == "O" else column, from_pandas=True)
        for name, column in columns.items()
    }
    table = pa.table(arrays)
    if kind == "parquet":
        import pyarrow.parquet as pq

        pq.write_table(table, file)
    else:
        import pyarrow.ipc as ipc

        with ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)


def _write_delimited(file: IO[str], columns: dict[str, Column], delimiter: str) -> None:
    writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
    writer.writerow(columns)
    # The texts of Python's own floats are the shortest that read back the same.
    writer.writerows(zip(*map(_fields, columns.values()), strict=True))


def _fields(column: Column) -> list[Any]:
    values: list[Any] = column.tolist()
    if column.dtype.kind == "f" and np.isnan(column).any():
        return [None if value != value else value for value in values]
    return values
