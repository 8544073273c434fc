"""Files of tables: csv and tsv by the standard library, parquet by pyarrow."""

from __future__ import annotations

import csv
import importlib.util
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

_MISSING = frozenset(["", "na", "n/a", "nan", "null", "none", "<na>"])
_BLOCK_ROWS = 10_000


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


class Delimited:
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
        return not is_number(first)

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
                f"{_quoted(text)} is {_unlike_a_number(word)}"
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


class Parquet:
    """A parquet file, read by pyarrow."""

    def __init__(self, path: str) -> None:
        need_pyarrow(path)
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

    def _column(self, column: Any, name: str) -> NDArray[np.float64]:
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
        numbers: NDArray[np.float64] = column.cast(pa.float64(), safe=False).to_numpy()
        return numbers


def need_pyarrow(path: str) -> None:
    """Refuse a parquet file where nothing can read or write one."""
    if importlib.util.find_spec("pyarrow") is None:
        raise TableError(f'{path}: parquet files need pyarrow: pip install "sparsebayes[io]"')


def is_number(text: str) -> bool:
    """Whether a text reads as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _unlike_a_number(word: str) -> str:
    """Say why a text is none of our numbers."""
    if _is_complex(word.replace(" ", "").strip("()")):
        return "complex: give real and imaginary parts as columns of their own"
    if word.count(",") == 1 and is_number(word.replace(",", ".")):
        return "not a number: write decimals with a point"
    return "not a number"


def _is_complex(word: str) -> bool:
    if word[-1:] not in ("i", "j") or not any(map(str.isdigit, word)):
        return False
    try:
        complex(word[:-1] + "j")
    except ValueError:
        return False
    return True


def _quoted(value: object) -> str:
    text = str(value)
    return repr(text if len(text) <= 40 else text[:37] + "...")


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
