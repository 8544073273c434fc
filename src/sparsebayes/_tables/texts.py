"""From bytes to text: files, pipes and stdin, their encoding, and what separates fields."""

from __future__ import annotations

import codecs
import csv
import io
import itertools
import os
import sys
from dataclasses import dataclass
from typing import BinaryIO

from sparsebayes._tables.numerals import MISSING, is_number, parse
from sparsebayes._tables.table import TableError

__all__ = ["Source", "encoding_of", "separator_of", "source_of"]

_CHUNK = 1 << 20
_SAMPLE = 20  # lines that tell the separator
_SEPARATORS = ",;\t|"
_KNOWN = {
    b"PK\x03\x04": "a zip archive or a spreadsheet: save it as csv",
    b"\x1f\x8b": "packed by gzip: unpack it first",
    b"PAR1": "a parquet file: say --format parquet, or name it so",
    b"ARROW1": "a feather file: say --format feather, or name it so",
    b"\x93NUMPY": "a npy file: say --format npy, or name it so",
}
_BEGINNINGS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


@dataclass(frozen=True)
class Source:
    """Bytes that can be read several times.

    Parameters
    ----------
    path : str
        The file, or what to call it in messages.
    content : bytes or None
        All of it, where it can be read only once: from stdin or a pipe.
    """

    path: str
    content: bytes | None = None

    def open(self) -> BinaryIO:
        """Open it at its beginning."""
        return open(self.path, "rb") if self.content is None else io.BytesIO(self.content)


def source_of(path: str) -> Source:
    """Open what is to be read.

    Parameters
    ----------
    path : str
        A file, or ``-`` for stdin.

    Returns
    -------
    Source
        Not empty; a TableError where there is nothing.
    """
    if path == "-":
        if sys.stdin is None or sys.stdin.closed:
            raise TableError("stdin is closed: name a file instead of -")
        found = Source("stdin", sys.stdin.buffer.read())
    elif not os.path.exists(path):
        raise TableError(f"{path}: no such file")
    elif os.path.isfile(path):
        found = Source(path, None if os.path.getsize(path) else b"")
    else:
        with open(path, "rb") as file:
            found = Source(path, file.read())
    if found.content == b"":
        raise TableError(f"{found.path}: the file is empty")
    return found


def encoding_of(source: Source, *, strict: bool) -> tuple[str, str]:
    """How the text of a file is encoded.

    Parameters
    ----------
    source : Source
        The file.
    strict : bool
        Whether anything but UTF-8 is an error.

    Returns
    -------
    encoding : str
        For Python's decoders.
    remark : str
        What was seen, or nothing for UTF-8.
    """
    with source.open() as file:
        start = file.read(4096)
        for mark, what in _KNOWN.items():
            if start.startswith(mark):
                raise TableError(f"{source.path}: not a text file, but {what}")
        for mark, encoding in _BEGINNINGS.items():
            if start.startswith(mark) and (encoding == "utf-8-sig" or not strict):
                remark = "" if encoding == "utf-8-sig" else "is UTF-16 text"
                _check(source, encoding)
                return encoding, remark
        if b"\0" in start and not strict:
            raise TableError(f"{source.path}: not a text file (it holds zero bytes)")
    try:
        _check(source, "utf-8")
    except TableError as error:
        if strict:
            raise
        message = str(error).removeprefix(f"{source.path}: ").partition(":")[0]
    else:
        return "utf-8-sig", ""
    try:
        _check(source, "cp1252")
    except TableError:
        return "latin-1", f"{message}: read as Latin-1"
    return "cp1252", f"{message}: read as Windows-1252 (Western European)"


def _check(source: Source, encoding: str) -> None:
    decoder = codecs.getincrementaldecoder(encoding)()
    read = 0
    with source.open() as file:
        while True:
            block = file.read(_CHUNK)
            try:
                decoder.decode(block, final=not block)
            except UnicodeDecodeError as error:
                kept = len(error.object) - len(block)
                name = "UTF-16" if encoding == "utf-16" else "UTF-8"
                raise TableError(
                    f"{source.path}: byte {read - kept + error.start} is not {name} text: "
                    "save the file as UTF-8"
                ) from None
            if not block:
                return
            read += len(block)


def separator_of(source: Source, encoding: str) -> str:
    """What separates the fields of a line: a comma, a semicolon, a tab or a bar.

    Parameters
    ----------
    source : Source
        The file.
    encoding : str
        Its encoding.

    Returns
    -------
    str
        The one that cuts most of the first lines into as many fields as the first, then the one
        that leaves most numbers: spreadsheets of half the world write ``1,5;2,5``.
    """
    with io.TextIOWrapper(source.open(), encoding=encoding, newline="") as file:
        lines = list(itertools.islice(file, _SAMPLE))
    return max(_SEPARATORS, key=lambda mark: _rating(lines, mark))


def _rating(lines: list[str], separator: str) -> tuple[int, float, int]:
    try:
        rows = [row for row in csv.reader(lines, delimiter=separator) if row]
    except csv.Error:
        return 0, 0.0, 0
    if not rows or len(rows[0]) < 2:
        return 0, 0.0, 0
    even = sum(len(row) == len(rows[0]) for row in rows)
    fields = [field.strip() for row in rows for field in row]
    good = sum(_is_value(field) for field in fields)
    return even, good / len(fields), len(rows[0])


def _is_value(field: str) -> bool:
    by_comma = parse(field[:40], "comma")
    return is_number(field) or field.lower() in MISSING or by_comma == by_comma
