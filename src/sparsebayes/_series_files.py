"""Signals as columns of csv and tsv files, and as npy arrays."""

from __future__ import annotations

import contextlib
import csv
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, TextIO

import numpy as np
from numpy.typing import NDArray

from sparsebayes._tables import TableError, suggestion
from sparsebayes._tables.arrays import read_array
from sparsebayes._tables.delimited import Delimited
from sparsebayes._tables.numerals import is_number
from sparsebayes._tables.texts import source_of

Array = NDArray[np.float64]

TABLES = (".csv", ".tsv")


class TableFile:
    """Columns of a csv or tsv file; those that are no signals are kept as they are.

    The signals are the columns that are named, or else every column but a first one that holds
    positions: text such as dates, or numbers that rise or fall throughout.
    """

    kind = "table"

    def __init__(self, path: str, wanted: Sequence[str] | None) -> None:
        self.path = path
        self._table = _Lines(path)
        self.remarks: list[str] = []
        self.suffixes: tuple[str, ...] = (*TABLES, ".npy")
        self.position: str | None = None
        names = self._choose(wanted)
        values = self._numbers(names, named=bool(wanted))
        self.channels = {name: values[:, place] for place, name in enumerate(names)}

    def _choose(self, wanted: Sequence[str] | None) -> list[str]:
        names = self._table.names
        for name in wanted or []:
            if name not in names:
                raise ValueError(f"{self.path}: --column: no column {name!r}{self._hint(name)}")
        if wanted:
            return list(dict.fromkeys(wanted))
        if len(names) == 1:
            return names
        first, *others = names
        if not self._table.is_text(first):
            positions = self._table.columns([first])[:, 0]
            steps = np.diff(positions[~np.isnan(positions)])
            if not (len(steps) and (np.all(steps > 0) or np.all(steps < 0))):
                return names
            # Rounded positions, as 0.33, 0.67, 1.00, have steps that differ by their rounding.
            if np.ptp(steps) > 0.05 * np.abs(np.median(steps)) or np.isnan(positions).any():
                self.remarks.append(
                    f"{first!r} is not equally spaced: its rows are taken as if they were"
                )
        self.position = first
        return others

    def _numbers(self, names: list[str], *, named: bool) -> Array:
        try:
            return self._table.columns(names)
        except TableError as error:
            said = str(error)
            if named or len(names) == 1 or not said.endswith("is not a number"):
                raise
            raise TableError(f"{said}: name the columns of signals by --column") from None

    def _hint(self, name: str) -> str:
        names = self._table.names
        if self._table.headless:
            return f"; without a header line they are numbered from 1 to {len(names)}"
        return suggestion(name, names)

    def array(self, channels: dict[str, Array]) -> NDArray[Any]:
        """Put the channels side by side, shape (rows,) or (rows, channels)."""
        return side_by_side(channels)

    def write(self, file: BinaryIO, suffix: str, channels: dict[str, Array]) -> list[str]:
        """Write a table again, with new numbers in the columns of the channels."""
        table = self._table
        places = {table.names.index(name): values.tolist() for name, values in channels.items()}
        delimiter = "\t" if suffix == ".tsv" else "," if table.delimiter == "\t" else None
        with _text(file) as text:
            writer = csv.writer(text, delimiter=delimiter or table.delimiter, lineterminator="\n")
            if not table.headless:
                writer.writerow(table.names)
            for row, fields in enumerate(table.rows()):
                for place, values in places.items():
                    fields[place] = values[row]
                writer.writerow(fields)
        return []


class _Lines(Delimited):
    """A csv or tsv file that may lack a header, and where a blank line may be a missing sample."""

    def __init__(self, path: str) -> None:
        self.headless = False
        super().__init__(path)
        if all(map(is_number, self.names)):
            self.headless = True
            self.names = [str(place) for place in range(1, len(self.names) + 1)]
        repeated = [name for name, count in Counter(self.names).items() if count > 1]
        if repeated:
            raise ValueError(f"{path}: column {repeated[0]!r} appears more than once: rename one")
        if len(self.names) == 1:
            self._refuse_blank_lines()

    def rows(self) -> Iterator[list[str]]:
        """The fields of every row of data."""
        return (fields for block in self._blocks() for _, fields in block)

    def _rows(self) -> Iterator[tuple[int, list[str]]]:
        return self._lines() if self.headless else super()._rows()

    def _refuse_blank_lines(self) -> None:
        """Refuse what may be a missing sample or a mere gap between lines."""
        last = 0
        for line, _ in self._lines():
            if line > last + 1:
                raise ValueError(
                    f"{self.path}: line {last + 1} is blank: remove it, or write nan in it if a "
                    "sample is missing there"
                )
            last = line


class ArrayFile:
    """A npy file of a signal, a field in the plane, or signals along an axis."""

    kind = "array"

    def __init__(self, path: str, axis: int | None) -> None:
        self.path = path
        self.remarks: list[str] = []
        values = read_array(source_of(path))
        if values.dtype.kind == "c":
            raise ValueError(
                f"{path}: the numbers are complex: denoise their real and imaginary parts, or "
                "modulus, as files of their own"
            )
        if values.dtype.kind not in "iuf":
            raise ValueError(f"{path}: holds {values.dtype}, numbers are needed")
        if values.ndim == 0:
            raise ValueError(f"{path}: holds a single number, not a signal")
        if values.ndim > 2 and axis is None:
            raise ValueError(
                f"{path}: has {values.ndim} dimensions: say with --axis along which of them the "
                "signals run"
            )
        if axis is not None and not -values.ndim <= axis < values.ndim:
            raise ValueError(f"{path}: --axis {axis} is not one of its {values.ndim} dimensions")
        # Integers become numbers with decimals: rounding would add noise to what noise was
        # removed from.
        self._dtype = values.dtype if values.dtype.kind == "f" else np.dtype(np.float64)
        self._axis = -1 if axis is None else axis
        self._shape = np.moveaxis(values, self._axis, -1).shape
        with np.errstate(invalid="ignore"):  # a signaling NaN is as missing as any
            self.channels = _lines(values.astype(np.float64), axis)
        self.suffixes: tuple[str, ...] = (".npy",)
        if values.ndim == 1:
            self.suffixes += TABLES
        elif axis is None:
            self.suffixes += (".tif", ".tiff")

    def array(self, channels: dict[str, Array]) -> NDArray[Any]:
        """Give the array in the precision of the file that was read."""
        lines = np.stack(list(channels.values())).reshape(self._shape)
        values = np.moveaxis(lines, -1, self._axis)
        with np.errstate(over="ignore"):
            found = values.astype(self._dtype)
        return found if np.isfinite(found).all() else values

    def write(self, file: BinaryIO, suffix: str, channels: dict[str, Array]) -> list[str]:
        """Write a signal as a table of one column."""
        write_columns(file, suffix, channels)
        return []


def _lines(values: Array, axis: int | None) -> dict[str, Array]:
    """The whole as one signal, or each line along an axis."""
    if axis is None or values.ndim == 1:
        return {"signal": values}
    lines = np.moveaxis(values, axis, -1).reshape(-1, values.shape[axis])
    return {f"line {place}": line for place, line in enumerate(lines, 1)}


def side_by_side(channels: dict[str, Array]) -> Array:
    """One array of all channels, the last axis over channels where there are several."""
    values = list(channels.values())
    return values[0] if len(values) == 1 else np.stack(values, axis=-1)


def write_columns(file: BinaryIO, suffix: str, channels: dict[str, Array]) -> None:
    """Write signals as the columns of a csv or tsv file, under their names."""
    with _text(file) as text:
        writer = csv.writer(text, delimiter="\t" if suffix == ".tsv" else ",", lineterminator="\n")
        writer.writerow(channels)
        # tolist gives Python's own floats, whose text is the shortest that reads back the same.
        writer.writerows(zip(*(values.tolist() for values in channels.values()), strict=True))


@contextlib.contextmanager
def _text(file: BinaryIO) -> Iterator[TextIO]:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
    yield text
    text.detach()
