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


_BEGINS_A_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def write_table(path: str | None, columns: dict[str, Column]) -> int:
    """Write columns of one length to a file, or as csv to the standard output.

    Parameters
    ----------
    path : str or None
        A csv, tsv, parquet, feather or npy file, replaced in one step; None or ``-`` for the
        standard output.
    columns : dict of str to ndarray of shape (rows,)
        The columns by name. NaN and None are missing: an empty field, a null; a npy file has NaN.

    Returns
    -------
    int
        Texts of a csv or tsv file that begin as formulas do, and have an apostrophe in front.
    """
    if path is None or path == "-":
        guarded = _write_delimited(sys.stdout, columns, ",")
        sys.stdout.flush()
        return guarded
    kind, guarded = format_of(path), 0
    with atomic_write(path) as file:
        if kind == "npy":
            _write_array(file, columns, path)
        elif kind in ("csv", "tsv"):
            text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
            guarded = _write_delimited(text, columns, "\t" if kind == "tsv" else ",")
            text.detach()
        else:
            _write_arrow(file, columns, kind)
    return guarded


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


def _write_delimited(file: IO[str], columns: dict[str, Column], delimiter: str) -> int:
    """Write the columns; how many texts were kept from being formulas."""
    writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
    names = [_guarded(name) for name in columns]
    writer.writerow(names)
    # The texts of Python's own floats are the shortest that read back the same.
    fields = [_fields(column) for column in columns.values()]
    writer.writerows(zip(*(values for values, _ in fields), strict=True))
    of_names = sum(bool(name != given) for name, given in zip(names, columns, strict=True))
    return of_names + sum(changed for _, changed in fields)


def _fields(column: Column) -> tuple[list[Any], int]:
    values: list[Any] = column.tolist()
    if column.dtype.kind == "f":
        missing = np.isnan(column).any()
        return ([None if value != value else value for value in values] if missing else values), 0
    if column.dtype.kind not in "OUT":
        return values, 0
    safe = [_guarded(value) for value in values]
    return safe, sum(one is not other for one, other in zip(safe, values, strict=True))


def _guarded(value: Any) -> Any:
    """A text that a spreadsheet would run as a formula, with an apostrophe in front; no number."""
    if not isinstance(value, str) or not value.startswith(_BEGINS_A_FORMULA) or len(value) == 1:
        return value
    try:
        float(value.replace(",", "."))
    except ValueError:
        return f"'{value}"
    return value
