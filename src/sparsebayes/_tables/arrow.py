"""Parquet and feather files, read by pyarrow."""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from sparsebayes._tables.numerals import MISSING, Gathered, Mark, settled
from sparsebayes._tables.table import Column, FloatArray, TableError, first_line, listed, quoted
from sparsebayes._tables.texts import Source

__all__ = ["ArrowFile", "need_pyarrow"]


class ArrowFile:
    """A parquet or feather file.

    Parameters
    ----------
    source : Source
        The file.
    kind : "parquet" or "feather"
        What it is.
    strict : bool, default=True
        Whether two columns of one name are an error.
    mark : "point", "comma" or None, default=None
        What decimals follow in numbers that are stored as text.
    """

    def __init__(
        self, source: Source, kind: str, *, strict: bool = True, mark: Mark | None = None
    ) -> None:
        need_pyarrow(source.path, kind)
        import pyarrow as pa

        self.path = source.path
        self.remarks: list[str] = []
        self.unnamed: list[str] = []
        self.numbered = False
        self._kind = kind
        self._mark = mark
        self._table: Any = None
        try:
            self._file = self._opened(source)
        except (pa.ArrowException, OSError) as error:
            raise TableError(f"{self.path}: not a {kind} file ({first_line(error)})") from None
        self._schema = self._file.schema_arrow if kind == "parquet" else self._file.schema
        # pandas stores a frame's index under such names: it is no column of the user's.
        names = self._schema.names
        self.names = [name for name in names if not name.startswith("__index_level_")]
        repeated = [name for name, count in Counter(self.names).items() if count > 1]
        if repeated and not strict:
            self.remarks.append(f"column {quoted(repeated[0])} appears more than once: left out")
            self.names = [name for name in self.names if name not in repeated]

    def _opened(self, source: Source) -> Any:
        if self._kind == "parquet":
            import pyarrow.parquet as pq

            return pq.ParquetFile(source.path if source.content is None else source.open())
        import pyarrow.ipc as ipc

        return ipc.open_file(source.path if source.content is None else source.open())

    def _read(self, names: Sequence[str]) -> Any:
        import pyarrow as pa

        try:
            if self._kind == "parquet":
                return self._file.read(columns=list(names))
            if self._table is None:
                self._table = self._file.read_all()
        except (pa.ArrowException, OSError) as error:
            raise TableError(f"{self.path}: damaged ({first_line(error)})") from None
        return self._table.select(list(names))

    def values(self, name: str) -> list[Any]:
        kind, values = self._schema.field(name).type, self.copied(name)
        if _is_text(kind):  # a word for a gap is one in every kind of file
            return [None if (value or "").strip().lower() in MISSING else value for value in values]
        if _is_decimal(kind):  # as they stand in a csv file: NumPy knows no such type
            return [None if value is None else str(value) for value in values]
        return values

    def copied(self, name: str) -> list[Any]:
        values: list[Any] = self._read([name]).column(name).to_pylist()
        return [None if value is None or value != value else value for value in values]

    def is_text(self, name: str) -> bool:
        import pyarrow as pa

        kind = self._schema.field(name).type
        return _is_text(kind) or bool(pa.types.is_boolean(kind))

    def numeric(self, names: Sequence[str]) -> tuple[list[str], list[str]]:
        """Those of these columns that are numbers by their type, and a sentence for the others."""
        import pyarrow as pa

        kinds = {name: self._schema.field(name).type for name in names}
        dates = [name for name in names if pa.types.is_temporal(kinds[name])]
        kept = [name for name in names if _is_numeric(kinds[name])]
        text = [name for name in names if name not in kept and name not in dates]
        said = [
            f"{listed(some)} hold{'s' if len(some) == 1 else ''} {what}: left out"
            for some, what in ((dates, "dates"), (text, "no numbers"))
            if some
        ]
        return kept, said

    def columns(self, names: Sequence[str]) -> FloatArray:
        table = self._read(names)
        values = np.empty((table.num_rows, len(names)))
        for place, name in enumerate(names):
            column = table.column(name)
            if not _is_numeric(column.type):
                raise TableError(
                    f"{self.path}: column {name!r}, {_first(column)} is not a number "
                    f"(the column's type is {column.type})"
                )
            values[:, place] = _numbers(column)
        return values

    def look(self, names: Sequence[str]) -> list[Column]:
        table = self._read(names)
        texts = [
            name
            for name in names
            if _is_text(table.column(name).type) and len(table.column(name)) > 0
        ]

        def gather(name: str, mark: Mark | None) -> Gathered:
            found = Gathered(name, mark)
            found.add([_text(value) for value in table.column(name).to_pylist()], _row)
            return found

        def written(name: str) -> list[str | None]:
            return [_text(value) for value in table.column(name).to_pylist()]

        found = [gather(name, self._mark) for name in texts]
        looked = (
            settled(found, written, gather)
            if self._mark is None
            else [one.column() for one in found]
        )
        by_name = {column.name: column for column in looked}
        return [by_name.get(name) or _plain(table.column(name), name) for name in names]


def need_pyarrow(path: str, kind: str = "parquet") -> None:
    """Refuse a file where nothing can read or write it.

    Parameters
    ----------
    path : str
        The file.
    kind : str, default="parquet"
        What it is.

    Raises
    ------
    TableError
        If pyarrow is not installed.
    """
    if importlib.util.find_spec("pyarrow") is None:
        raise TableError(f'{path}: {kind} files need pyarrow: pip install "sparsebayes[io]"')


def _plain(column: Any, name: str) -> Column:
    """Look at a column that is not text."""
    import pyarrow as pa

    kind, missing = column.type, int(column.null_count)
    if not _is_numeric(kind):
        nothing = np.full(len(column), np.nan)
        if missing == len(column):
            return Column(name, "nothing", nothing, missing)
        dated = bool(pa.types.is_temporal(kind))
        odd = len(column) - missing
        example = f"{_first(column)} of type {kind}"
        return Column(name, "dates" if dated else "other", nothing, missing, odd, example)
    numbers = _numbers(column)
    missing = int(np.isnan(numbers).sum())
    if missing == len(column):
        return Column(name, "nothing", numbers, missing)
    return Column(name, "truths" if pa.types.is_boolean(kind) else "numbers", numbers, missing)


def _numbers(column: Any) -> FloatArray:
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    numbers: FloatArray = column.cast(pa.float64(), safe=False).to_numpy()
    return numbers


def _first(column: Any) -> str:
    values = ((row, item.as_py()) for row, item in enumerate(column, 1))
    row, value = next((pair for pair in values if pair[1] is not None), (1, None))
    return f"row {row}: {quoted(value)}"


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _row(row: int) -> str:
    return f"row {row + 1}"


def _is_numeric(kind: Any) -> bool:
    return _is_of(kind, "floating", "integer", "boolean", "decimal", "null")


def _is_text(kind: Any) -> bool:
    return _is_of(kind, "string", "large_string", "string_view")


def _is_decimal(kind: Any) -> bool:
    return _is_of(kind, "decimal")


def _is_of(kind: Any, *names: str) -> bool:
    """Whether a type, or that of a dictionary's values, is one of those that Arrow calls so."""
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return any(getattr(pa.types, f"is_{name}")(kind) for name in names)
