"""Tables in csv and parquet files, with errors that name file, column, row and value."""

from __future__ import annotations

import csv
import difflib
import importlib.util
import itertools
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sparsebayes._files import atomic_write

_DELIMITED = (".csv", ".tsv")
_PARQUET = (".parquet", ".pq")
_SUFFIXES = _DELIMITED + _PARQUET
_MISSING = frozenset(["", "na", "n/a", "nan", "null", "none", "<na>"])
_BLOCK_ROWS = 10_000

Column = NDArray[Any]


class TableError(ValueError):
    """A table that cannot be read, used or written; the message is one line for a person."""


class Table(Protocol):
    """A file of named columns."""

    path: str
    names: list[str]

    def columns(self, names: Sequence[str]) -> NDArray[np.float64]:
        """Read these columns as numbers, shape (rows, len(names)); missing values are NaN."""

    def values(self, name: str) -> list[Any]:
        """Read a column of anything; missing values are None."""

    def is_text(self, name: str) -> bool:
        """Whether the first value of a column is text, or true or false."""


def open_table(path: str) -> Table:
    """Open a csv, tsv or parquet file and read its column names.

    Parameters
    ----------
    path : str
        The file; its suffix says what it is.

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
        raise TableError(f"{path}: is a directory, a csv or parquet file is needed")
    _check_suffix(path)
    if os.path.getsize(path) == 0:
        raise TableError(f"{path}: the file is empty")
    table: Table = _Parquet(path) if suffix in _PARQUET else _Delimited(path)
    repeated = [name for name, count in Counter(table.names).items() if count > 1]
    if repeated:
        raise TableError(f"{path}: column {repeated[0]!r} appears more than once: rename one")
    return table


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
    hint = " (is the header line missing?)" if all(map(_is_number, names)) else ""
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
        _need_pyarrow(path)


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
    folder = os.path.dirname(os.path.realpath(path))
    if os.path.isdir(path):
        raise TableError(f"{path}: is a directory, a file name is needed")
    if not os.path.isdir(folder):
        raise TableError(f"{path}: no such folder {folder}")
    if not os.access(folder, os.W_OK) and not os.path.exists(path):
        raise TableError(f"{path}: the folder {folder} is not writable")


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


class _Delimited:
    """A csv or tsv file, read by the standard library in blocks of rows."""

    def __init__(self, path: str) -> None:
        self.path = path
        for _, header in self._rows():
            self.names = [name.strip() for name in header]
            return
        raise TableError(f"{path}: the file is empty")

    def columns(self, names: Sequence[str]) -> NDArray[np.float64]:
        wanted = [self.names.index(name) for name in names]
        blocks, start = [np.empty((0, len(wanted)))], 0
        for block in self._blocks():
            blocks.append(np.empty((len(block), len(wanted))))
            for place, column in enumerate(wanted):
                texts = [fields[column] for _, fields in block]
                try:
                    blocks[-1][:, place] = np.array(texts, dtype=np.float64)
                except ValueError:
                    for row, text in enumerate(texts):
                        blocks[-1][row, place] = self._number(
                            text, names[place], start + row + 1, block[row][0]
                        )
            start += len(block)
        return np.concatenate(blocks)

    def values(self, name: str) -> list[Any]:
        column = self.names.index(name)
        texts = (fields[column].strip() for block in self._blocks() for _, fields in block)
        return [None if text.lower() in _MISSING else text for text in texts]

    def is_text(self, name: str) -> bool:
        column = self.names.index(name)
        block = next(self._blocks(), [])
        texts = (fields[column].strip() for _, fields in block)
        first = next((text for text in texts if text.lower() not in _MISSING), "0")
        return not _is_number(first)

    def _blocks(self) -> Iterator[list[tuple[int, list[str]]]]:
        rows, start = itertools.islice(self._rows(), 1, None), 0
        while block := list(itertools.islice(rows, _BLOCK_ROWS)):
            for row, (line, fields) in enumerate(block, start + 1):
                if len(fields) != len(self.names):
                    raise TableError(
                        f"{self.path}: row {row} (line {line}) has {len(fields)} fields, "
                        f"the header has {len(self.names)}"
                    )
            yield block
            start += len(block)

    def _number(self, text: str, name: str, row: int, line: int) -> float:
        word = text.strip().lower()
        if word in _MISSING:
            return np.nan
        if word in ("true", "false"):
            return float(word == "true")
        try:
            return float(word)
        except ValueError:
            raise TableError(
                f"{self.path}: column {name!r}, row {row} (line {line}): "
                f"{_quoted(text)} is not a number"
            ) from None

    def _rows(self) -> Iterator[tuple[int, list[str]]]:
        try:
            with open(self.path, encoding="utf-8-sig", newline="") as file:
                first = file.readline()
                file.seek(0)
                reader = csv.reader(file, delimiter=self._delimiter(first))
                for fields in reader:
                    if fields:
                        yield reader.line_num, fields
        except UnicodeDecodeError as error:
            raise TableError(
                f"{self.path}: byte {error.start} is not UTF-8 text: save the file as UTF-8"
            ) from None
        except csv.Error as error:
            raise TableError(f"{self.path}: not a csv file ({error})") from None

    def _delimiter(self, first: str) -> str:
        if self.path.lower().endswith(".tsv"):
            return "\t"
        # Spreadsheets of half the world write semicolons where commas are decimal marks.
        return max(",;\t|", key=first.count)


class _Parquet:
    """A parquet file, read by pyarrow."""

    def __init__(self, path: str) -> None:
        _need_pyarrow(path)
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.path = path
        try:
            self._file = pq.ParquetFile(path)
        except (pa.ArrowException, OSError) as error:
            raise TableError(f"{path}: not a parquet file ({_first_line(error)})") from None
        # pandas stores a frame's index under such names: it is no column of the user's.
        names = self._file.schema_arrow.names
        self.names = [name for name in names if not name.startswith("__index_level_")]

    def _read(self, names: Sequence[str]) -> Any:
        import pyarrow as pa

        try:
            return self._file.read(columns=list(names))
        except (pa.ArrowException, OSError) as error:
            raise TableError(f"{self.path}: damaged ({_first_line(error)})") from None

    def values(self, name: str) -> list[Any]:
        values: list[Any] = self._read([name]).column(name).to_pylist()
        return values

    def is_text(self, name: str) -> bool:
        import pyarrow as pa

        kind = self._file.schema_arrow.field(name).type
        text = (pa.types.is_string, pa.types.is_large_string, pa.types.is_dictionary)
        return any(test(kind) for test in (*text, pa.types.is_boolean))

    def columns(self, names: Sequence[str]) -> NDArray[np.float64]:
        table = self._read(names)
        values = np.empty((table.num_rows, len(names)))
        for place, name in enumerate(names):
            values[:, place] = self._column(table.column(name), name)
        return values

    def _column(self, column: Any, name: str) -> Column:
        import pyarrow as pa

        kind = column.type
        numeric = (
            pa.types.is_floating(kind)
            or pa.types.is_integer(kind)
            or pa.types.is_boolean(kind)
            or pa.types.is_decimal(kind)
            or pa.types.is_null(kind)
        )
        if not numeric:
            values = ((row, item.as_py()) for row, item in enumerate(column, 1))
            row, value = next((pair for pair in values if pair[1] is not None), (1, None))
            raise TableError(
                f"{self.path}: column {name!r}, row {row}: {_quoted(value)} is not a number "
                f"(the column's type is {kind})"
            )
        numbers: Column = column.cast(pa.float64(), safe=False).to_numpy()
        return numbers


def _need_pyarrow(path: str) -> None:
    if importlib.util.find_spec("pyarrow") is None:
        raise TableError(f'{path}: parquet files need pyarrow: pip install "sparsebayes[io]"')


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


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _quoted(value: object) -> str:
    text = str(value)
    return repr(text if len(text) <= 40 else text[:37] + "...")


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
