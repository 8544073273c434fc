"""csv and tsv files, read by the standard library in blocks of rows."""

from __future__ import annotations

import csv
import io
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from sparsebayes._tables.numerals import (
    MISSING,
    Gathered,
    Mark,
    is_number,
    settled,
    strict_number,
    unlike_a_number,
)
from sparsebayes._tables.table import Column, FloatArray, TableError, numbered_names, quoted
from sparsebayes._tables.texts import Source, encoding_of, separator_of, source_of

__all__ = ["Delimited"]

_BLOCK_ROWS = 10_000
_Row = tuple[int, list[str]]  # the line in which it ends, and its fields


class Delimited:
    """A csv or tsv file.

    Parameters
    ----------
    source : Source or str
        The file.
    separator : str or None, default=None
        Between fields; None where it is to be found out.
    strict : bool, default=True
        Whether what is unusual is an error. Otherwise it is mended and said in `remarks`.
    header : bool or None, default=None
        Whether the first line holds names; None where it is to be found out, but in a strict
        table it does.
    wanted : sequence of str, default=()
        Names that the user knows: a first line with one of them is a header.
    mark : "point", "comma" or None, default=None
        What decimals follow; None where it is to be found out.
    """

    def __init__(
        self,
        source: Source | str,
        *,
        separator: str | None = None,
        strict: bool = True,
        header: bool | None = None,
        wanted: Sequence[str] = (),
        mark: Mark | None = None,
    ) -> None:
        self._source = source_of(source) if isinstance(source, str) else source
        self.path = self._source.path
        self.remarks: list[str] = []
        self.unnamed: list[str] = []
        self.numbered = False
        self._strict = strict
        self._mark = mark
        self._encoding, remark = encoding_of(self._source, strict=strict)
        if remark:
            self.remarks.append(remark)
        if separator is None and self.path.lower().endswith(".tsv"):
            separator = "\t"
        self.delimiter = separator or separator_of(self._source, self._encoding)
        self.names: list[str] = []
        self.names = next((fields for _, fields in self._lines()), [])
        if not self.names:
            raise TableError(f"{self.path}: the file is empty")
        self.names = [name.strip() for name in self.names]
        if header is False or (header is None and not strict and self._is_data(wanted)):
            self._number(said=header is None)
        elif not strict:
            self._mend_names()

    def _is_data(self, wanted: Sequence[str]) -> bool:
        """Whether the first line holds numbers, and no name that the user knows."""
        filled = [name for name in self.names if name.lower() not in MISSING]
        return bool(filled) and all(map(is_number, filled)) and not set(wanted) & set(filled)

    def _number(self, *, said: bool) -> None:
        self.numbered = True
        first = self.names
        self.names = numbered_names(len(first))
        if said:
            self.remarks.append(
                f"the first line holds numbers ({quoted(first[0])}, ...): taken for a row, its "
                f"columns are named {self.names[0]} to {self.names[-1]}"
            )

    def _mend_names(self) -> None:
        for place, name in enumerate(self.names):
            if not name:
                self.names[place] = f"unnamed_{place + 1}"
                self.unnamed.append(self.names[place])
        repeated = [name for name, count in Counter(self.names).items() if count > 1]
        for name in repeated:
            new = self._free(name)
            for place in range(self.names.index(name) + 1, len(self.names)):
                if self.names[place] == name:
                    self.names[place] = self._free(name)
            self.remarks.append(
                f"column {quoted(name)} appears more than once: the second is named {quoted(new)}"
            )

    def _free(self, name: str) -> str:
        return next(
            new for count in itertools.count(2) if (new := f"{name}_{count}") not in self.names
        )

    def columns(self, names: Sequence[str]) -> FloatArray:
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
                        value = strict_number(text)
                        if value is None:
                            raise TableError(
                                f"{self.path}: column {names[place]!r}, row {start + row + 1} "
                                f"(line {block[row][0]}): {quoted(text)} is "
                                f"{unlike_a_number(text.strip().lower())}"
                            ) from None
                        blocks[-1][row, place] = value
            start += len(block)
        return np.concatenate(blocks)

    def values(self, name: str) -> list[Any]:
        texts = (text.strip() for text in self._texts(name))
        return [None if text.lower() in MISSING else text for text in texts]

    def copied(self, name: str) -> list[Any]:
        return [text or None for text in self._texts(name)]

    def _texts(self, name: str) -> Iterator[str]:
        column = self.names.index(name)
        return (fields[column] for block in self._blocks() for _, fields in block)

    def is_text(self, name: str) -> bool:
        column = self.names.index(name)
        block = next(self._blocks(), [])
        texts = (fields[column].strip() for _, fields in block)
        first = next((text for text in texts if text.lower() not in MISSING), "0")
        return not is_number(first)

    def look(self, names: Sequence[str]) -> list[Column]:
        found = self._gather([Gathered(name, self._mark) for name in names])
        if self._mark is not None:
            return [one.column() for one in found]

        def again(name: str, mark: Mark) -> Gathered:
            return self._gather([Gathered(name, mark)])[0]

        return settled(found, self.values, again)

    def _gather(self, wanted: list[Gathered]) -> list[Gathered]:
        places = [self.names.index(one.name) for one in wanted]
        start = 0
        for block in self._blocks():
            lines, rows = zip(*block, strict=True)
            texts = list(zip(*rows, strict=True))
            for one, place in zip(wanted, places, strict=True):
                one.add(texts[place], partial(_place, start, lines))
            start += len(block)
        return wanted

    def _blocks(self) -> Iterator[list[_Row]]:
        rows = self._rows()
        start = ragged = 0
        first = ""
        while block := list(itertools.islice(rows, _BLOCK_ROWS)):
            for row, (line, fields) in enumerate(block, start + 1):
                if len(fields) != len(self.names):
                    what = (
                        f"row {row} (line {line}) has {len(fields)} fields, "
                        f"the header has {len(self.names)}"
                    )
                    if self._strict:
                        raise TableError(f"{self.path}: {what}")
                    ragged += 1
                    first = first or what
                    block[row - start - 1] = line, [""] * len(self.names)
            yield block
            start += len(block)
        if 2 * ragged > start:
            raise TableError(f"{self.path}: {first}, and so have {ragged} of {start} rows")
        if ragged:
            self._remark(f"{first}: {_rows_such(ragged)} taken as missing")

    def _remark(self, text: str) -> None:
        if text not in self.remarks:
            self.remarks.append(text)

    def _rows(self) -> Iterator[_Row]:
        """The rows of data, without the header."""
        lines = self._lines()
        return lines if self.numbered else itertools.islice(lines, 1, None)

    def _lines(self) -> Iterator[_Row]:
        try:
            with io.TextIOWrapper(self._source.open(), encoding=self._encoding, newline="") as file:
                reader = csv.reader(file, delimiter=self.delimiter)
                yield from self._filled(reader)
        except csv.Error as error:
            raise TableError(f"{self.path}: not a csv file ({error})") from None

    def _filled(self, reader: Any) -> Iterator[_Row]:
        """Lines that are not blank, and blank ones where they are values of the only column."""
        blank: list[int] = []
        over, last = "", 0
        for fields in reader:
            if not fields:
                blank.append(reader.line_num)
            else:
                if last and not self._strict and len(self.names) == 1:
                    yield from ((line, [""]) for line in blank)
                blank = []
                if reader.line_num > last + 1 and any("\n" in field for field in fields):
                    over = over or f"line {last + 1}"
                yield reader.line_num, fields
            last = reader.line_num
        if over and not self._strict:
            self._remark(
                f"some values in quotes run over several lines, the first from {over}: if they "
                "should not, a quotation mark is missing there"
            )


def _rows_such(count: int) -> str:
    return "it is" if count == 1 else f"{count} such rows are"


def _place(start: int, lines: Sequence[int], row: int) -> str:
    return f"row {start + row + 1} (line {lines[row]})"
