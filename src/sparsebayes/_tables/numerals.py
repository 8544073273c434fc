"""Texts that are numbers, dates or neither, and columns of them.

Spreadsheets write 1234.5 also as 1,234.5 and 1.234,5 and 1 234,5. Which of these a column holds is
seen from all of it; where it may be either, no guess is made.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from sparsebayes._tables.table import Column, FloatArray, Kind, quoted

__all__ = [
    "MISSING",
    "Gathered",
    "Mark",
    "is_number",
    "marks_of",
    "parse",
    "settled",
    "strict_number",
    "unlike_a_number",
]

Mark = Literal["point", "comma"]

MISSING = frozenset(["", "na", "n/a", "nan", "null", "none", "<na>"])
# Signs for a gap among numbers; among labels they may be some, and a strict reader takes neither.
_GAPS = MISSING | {"#n/a", "-", "--", "?", "."}
_MINUS = "\u2212"  # as typesetters and some instruments write it
_TRUTHS = {"true": 1.0, "false": 0.0}
_MOST_ODD = 0.1  # share of values without a number that a column of numbers may have

_SPACES = " \u00a0\u202f'\u2019"
_PLAIN = r"[0-9]+"
_GROUPED = r"[1-9][0-9]{{0,2}}(?:[{0}][0-9]{{3}})+"
_NUMERAL = r"[+-]?(?:(?:{whole}|{plain})(?:{mark}[0-9]*)?|{mark}[0-9]+)(?:[eE][+-]?[0-9]+)?"
_MARKS: dict[Mark, tuple[str, str]] = {"point": (r"\.", ","), "comma": (",", r"\.")}
_PATTERNS = {
    name: re.compile(
        _NUMERAL.format(whole=_GROUPED.format(group + _SPACES), plain=_PLAIN, mark=mark)
    )
    for name, (mark, group) in _MARKS.items()
}
_STYLED = re.compile(rf"[+-]?[0-9.,{_SPACES}]*[0-9](?:[eE][+-]?[0-9]+)?")
_LONGEST = 40  # characters of a number or a date
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DATE = re.compile(
    r"(?:\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}|\d{4}-\d{2}"
    rf"|\d{{1,2}}[ -]{_MONTH}[ -,]+\d{{2,4}}|{_MONTH} \d{{1,2}},? \d{{2,4}})"
    r"(?:[t ,]+\d{1,2}:\d{2}\S*(?: ?[ap]m)?(?: ?\S{1,6})?)?"
    r"|\d{1,2}:\d{2}(?::\d{2}\S*)?(?: ?[ap]m)?",
    re.IGNORECASE,
)


def is_number(text: str) -> bool:
    """Whether a text reads as a number.

    Parameters
    ----------
    text : str
        Any.

    Returns
    -------
    bool
        False for missing values too.

    Examples
    --------
    >>> from sparsebayes._tables.numerals import is_number
    >>> is_number("1e-3"), is_number("1,5"), is_number("2020_01")
    (True, False, False)
    """
    try:
        float(text.replace(_MINUS, "-"))
    except ValueError:
        return False
    return "_" not in text  # Python's own digit separator; of others it joins names and dates


def parse(text: str, mark: Mark) -> float:
    """Read a number that may have groups of three digits.

    Parameters
    ----------
    text : str
        Without spaces around it.
    mark : "point" or "comma"
        What decimals follow.

    Returns
    -------
    float
        NaN where it is no number in this way of writing.

    Examples
    --------
    >>> from sparsebayes._tables.numerals import parse
    >>> parse("1.234,5", "comma"), parse("1.234,5", "point"), parse("-12 000", "point")
    (1234.5, nan, -12000.0)
    """
    text = text.replace(_MINUS, "-")
    if not _PATTERNS[mark].fullmatch(text):
        return np.nan
    decimal, group = (".", ",") if mark == "point" else (",", ".")
    bare = "".join(letter for letter in text if letter != group and letter not in _SPACES)
    return float(bare.replace(decimal, "."))


def unlike_a_number(word: str) -> str:
    """Say why a text is none of our numbers.

    Parameters
    ----------
    word : str
        Such a text.

    Returns
    -------
    str
        To follow "is".
    """
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


def strict_number(text: str) -> float | None:
    """Read one value where nothing is forgiven: NaN for a gap, None for what is no number."""
    word = text.strip().lower().replace(_MINUS, "-")
    if word in MISSING:
        return np.nan
    if word in _TRUTHS:
        return _TRUTHS[word]
    return float(word) if is_number(word) else None


class Gathered:
    """A column of texts, taken in block by block.

    Parameters
    ----------
    name : str
        Of the column.
    mark : "point", "comma" or None, default=None
        What decimals follow; None where it is to be found out.
    """

    def __init__(self, name: str, mark: Mark | None = None) -> None:
        self.name = name
        self.rows = self.missing = self.odd = self.truths = self.dates = self.percentages = 0
        self.styled = ""  # the first number that is written in another way than Python's
        self._mark = mark
        self._blocks: list[FloatArray] = []
        self._first = ""

    def add(self, texts: Sequence[str], where: Callable[[int], str]) -> None:
        """Take in the texts of some rows; `where` names the place of one of them."""
        block = None
        if self._mark != "comma" and "_" not in "".join(texts):
            try:
                block = np.array(texts, dtype=np.float64)
            except ValueError:
                block = None
        if block is None:
            block = np.array([self._number(text, row, where) for row, text in enumerate(texts)])
        else:
            self.missing += int(np.isnan(block).sum())
        self._blocks.append(block)
        self.rows += len(texts)

    def _number(self, text: str, row: int, where: Callable[[int], str]) -> float:
        word = text.strip().replace(_MINUS, "-")
        if self._mark is not None and not np.isnan(value := parse(word, self._mark)):
            return value
        if self._mark is None and is_number(word):
            value = float(word)
            self.missing += int(np.isnan(value))
            return value
        lowered = word.lower()
        if lowered in _GAPS:
            self.missing += 1
            return np.nan
        if lowered in _TRUTHS:
            self.truths += 1
            return _TRUTHS[lowered]
        if lowered in ("inf", "-inf", "+inf", "infinity", "-infinity", "+infinity"):
            return float(lowered)
        self.odd += 1
        if not self._first:
            self._first = f"{where(row)}: {quoted(text.strip())}"
        if len(word) > _LONGEST:
            return np.nan
        if _DATE.fullmatch(word):
            self.dates += 1
        elif _STYLED.fullmatch(word):
            self.styled = self.styled or f"{where(row)}: {quoted(word)}"
        elif word.endswith("%") and _STYLED.fullmatch(word[:-1].rstrip()):
            self.percentages += 1
        return np.nan

    def column(self) -> Column:
        """What it is, as far as it can be told without a second look."""
        numbers = np.concatenate([np.empty(0), *self._blocks])
        there = self.rows - self.missing
        kind: Kind = "numbers"
        if not there:
            kind = "nothing"
        elif self.odd > _MOST_ODD * there:
            kind = "dates" if self.dates > 0.5 * there else "text"
            kind = "percentages" if self.percentages > 0.5 * there else kind
        elif self.truths == there:
            kind = "truths"
        return Column(self.name, kind, numbers, self.missing, self.odd, self._first)


def marks_of(texts: Iterable[str | None]) -> tuple[set[Mark], bool]:
    """Which decimal marks a column shows.

    Parameters
    ----------
    texts : iterable of str or None
        Its values.

    Returns
    -------
    marks : set of "point" and "comma"
        Those without which some value could not be read.
    matters : bool
        Whether some value means another number by the one than by the other.

    Examples
    --------
    >>> from sparsebayes._tables.numerals import marks_of
    >>> marks_of(["1,5", "2"]), marks_of(["1,234", "12"])
    (({'comma'}, False), (set(), True))
    """
    marks: set[Mark] = set()
    matters = False
    for text in texts:
        by_point, by_comma = (parse(text or "", mark) for mark in _MARKS)
        if np.isnan(by_point) and not np.isnan(by_comma):
            marks.add("comma")
        elif np.isnan(by_comma) and not np.isnan(by_point):
            marks.add("point")
        elif by_point != by_comma and not np.isnan(by_point):
            matters = True
    return marks, matters


def settled(
    found: Sequence[Gathered],
    values: Callable[[str], list[str | None]],
    again: Callable[[str, Mark], Gathered],
) -> list[Column]:
    """Look a second time at columns of numbers that are not written as Python writes them.

    Parameters
    ----------
    found : sequence of Gathered
        Columns of one file.
    values : callable
        Gives the texts of a column by its name.
    again : callable
        Gathers a column by its name once more, with a decimal mark.

    Returns
    -------
    list of Column
        In the order of `found`.
    """
    seen = {one.name: marks_of(values(one.name)) for one in found if one.styled}
    # Columns that show one mark tell of the others: a file is written in one country.
    of_file = {mark for marks, _ in seen.values() if len(marks) == 1 for mark in marks}
    columns = []
    for one in found:
        column = one.column()
        marks, matters = seen.get(one.name, (set(), False))
        if one.styled and len(marks) < 2:
            # Of 12 000 and 1'000 alone either mark makes the same numbers.
            decided = marks or (of_file if matters else {"point"})
            if len(decided) == 1:
                (mark,) = decided
                column = _reread(one, column, again(one.name, mark), mark)
            else:
                column = replace(column, kind="ambiguous", example=one.styled)
        elif of_file == {"comma"} and column.usable and not one.styled:
            column = _doubted(column, values)
        columns.append(column)
    return columns


def _reread(one: Gathered, column: Column, other: Gathered, mark: Mark) -> Column:
    better = other.column()
    if not better.usable or better.odd >= column.odd:
        return column
    what = "decimal commas" if mark == "comma" else "separators of thousands"
    place, _, text = one.styled.partition(": ")
    value = parse(ast.literal_eval(text), mark)
    example = "" if np.isnan(value) else f": {text} in {place} is read as {value!r}"
    return replace(better, remark=f"has {what}{example}")


def _doubted(column: Column, values: Callable[[str], list[str | None]]) -> Column:
    """Doubt 1.234 in a file with decimal commas, where it may be 1234."""
    finite = column.numbers[np.isfinite(column.numbers)]
    if np.array_equal(finite, np.rint(finite)):
        return column
    texts = values(column.name)
    marks, matters = marks_of(texts)
    if marks or not matters:
        return column
    row = next(row for row, text in enumerate(texts, 1) if "." in (text or ""))
    return replace(column, kind="ambiguous", example=f"row {row}: {quoted(texts[row - 1])}")
