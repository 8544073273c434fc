"""npy files as tables: a column for each column of an array, or for each field of its records."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from tokenize import TokenError
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsebayes._tables.table import Column, FloatArray, TableError, numbered_names
from sparsebayes._tables.texts import Source

__all__ = ["DAMAGE", "ArrayTable", "read_array"]

# What readers of binary formats stumble with over files that are damaged, besides ValueError.
DAMAGE = (
    ArithmeticError,
    AttributeError,
    LookupError,
    SyntaxError,
    TypeError,
    UnboundLocalError,
    struct.error,
)


def read_array(source: Source) -> NDArray[Any]:
    """Read a npy file, never a pickle: opening a stranger's file must run no code.

    Parameters
    ----------
    source : Source
        The file.

    Returns
    -------
    ndarray
        Of anything but objects; a TableError for what is no such file.
    """
    try:
        with source.open() as file:
            found: NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
            return found
    except (ValueError, EOFError, TokenError, *DAMAGE) as error:
        reason = "objects, not numbers" if "allow_pickle" in str(error) else "damaged, or no array"
        raise TableError(f"{source.path}: not a npy file of numbers ({reason})") from None


class ArrayTable:
    """A npy file of a matrix, or of records.

    Parameters
    ----------
    source : Source
        The file.
    """

    def __init__(self, source: Source) -> None:
        self.path = source.path
        self.remarks: list[str] = []
        self.unnamed: list[str] = []
        values = read_array(source)
        fields = values.dtype.names
        self.numbered = fields is None
        if fields is None:
            if values.ndim not in (1, 2):
                raise TableError(
                    f"{self.path}: an array of {values.ndim} dimensions, a table has 2: rows and "
                    "columns"
                )
            values = values.reshape(len(values), -1)
            columns = list(values.T)
            self.names = numbered_names(len(columns))
        else:
            columns = [values.ravel()[name] for name in fields]
            self.names = list(fields)
        for name, column in zip(self.names, columns, strict=True):
            if column.dtype.kind not in "biuf" or column.ndim != 1:
                raise TableError(
                    f"{self.path}: column {name!r} holds {column.dtype}, numbers are needed"
                )
        self._columns = dict(zip(self.names, columns, strict=True))

    def columns(self, names: Sequence[str]) -> FloatArray:
        found = np.empty((len(self._columns[self.names[0]]), len(names)))
        with np.errstate(invalid="ignore"):  # a signaling NaN is as missing as any
            for place, name in enumerate(names):
                found[:, place] = self._columns[name]
        return found

    def values(self, name: str) -> list[Any]:
        found = self._columns[name].tolist()
        return [None if value != value else value for value in found]

    copied = values

    def is_text(self, name: str) -> bool:
        return bool(self._columns[name].dtype.kind == "b")

    def look(self, names: Sequence[str]) -> list[Column]:
        numbers = self.columns(names)
        return [self._look(name, numbers[:, place]) for place, name in enumerate(names)]

    def _look(self, name: str, numbers: FloatArray) -> Column:
        missing = int(np.isnan(numbers).sum())
        if missing == len(numbers):
            return Column(name, "nothing", numbers, missing)
        return Column(name, "truths" if self.is_text(name) else "numbers", numbers, missing)
