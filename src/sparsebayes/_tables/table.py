"""What a table is: named columns that are looked at before they are used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

Kind = Literal["numbers", "truths", "text", "dates", "ambiguous", "percentages", "nothing", "other"]


class TableError(ValueError):
    """A table that cannot be read, used or written; the message is one line for a person."""


@dataclass(frozen=True, eq=False)
class Column:
    """What a column of a table holds.

    Parameters
    ----------
    name : str
        Its name.
    kind : str
        "numbers", "truths" (true and false), "dates", "text", "nothing", "ambiguous" (numbers such
        as 1,234 that may be read in two ways), or "other" such as lists.
    numbers : ndarray of shape (rows,)
        NaN for missing values and for what is no number.
    missing : int
        Values that are not there.
    odd : int
        Values that are there and are no numbers.
    example : str
        Where the first of these is, and what it is.
    remark : str
        How its numbers are written, where that is not the usual way.
    """

    name: str
    kind: Kind
    numbers: FloatArray
    missing: int
    odd: int = 0
    example: str = ""
    remark: str = ""

    @property
    def usable(self) -> bool:
        """Whether it holds numbers, but for a few values."""
        return self.kind in ("numbers", "truths")


class Table(Protocol):
    """A file of named columns.

    Its remarks are sentences about what was found when it was opened, and how it was taken.
    """

    path: str
    names: list[str]
    remarks: list[str]
    numbered: bool  # the names x0, x1, ... are ours: the file has none
    unnamed: list[str]  # columns without a name, under the names that they got

    def columns(self, names: Sequence[str]) -> FloatArray:
        """Read these columns as numbers, shape (rows, len(names)); missing values are NaN."""

    def values(self, name: str) -> list[Any]:
        """Read a column of anything; missing values are None."""

    def copied(self, name: str) -> list[Any]:
        """Read a column as it is written, to be written again; None for nothing."""

    def is_text(self, name: str) -> bool:
        """Whether the first value of a column is text, or true or false."""

    def look(self, names: Sequence[str]) -> list[Column]:
        """Read these columns whatever they hold."""


def numbered_names(count: int) -> list[str]:
    """Names of columns that have none."""
    return [f"x{place}" for place in range(count)]


def quoted(value: object) -> str:
    """Show a value in a message, the beginning of a long one."""
    text = str(value)
    return repr(text if len(text) <= 40 else text[:37] + "...")


def listed(names: Sequence[str], most: int = 6) -> str:
    """Name columns in a sentence.

    Parameters
    ----------
    names : sequence of str
        At least one.
    most : int, default=6
        How many are named; the others are counted.

    Returns
    -------
    str
        Such as "column 'a'" or "columns 'a', 'b' and 'c'".

    Examples
    --------
    >>> from sparsebayes._tables.table import listed
    >>> listed(["a"]), listed(["a", "b", "c"], most=2)
    ("column 'a'", "columns 'a', 'b' and 1 more")
    """
    shown = [quoted(name) for name in names[:most]]
    if len(names) == 1:
        return f"column {shown[0]}"
    if len(names) > most:
        return f"columns {', '.join(shown)} and {len(names) - most} more"
    return f"columns {', '.join(shown[:-1])} and {shown[-1]}"


def first_line(error: BaseException) -> str:
    """The first line of what an error says."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
