"""What kind of table a file is, by its name or as the user says, and where one may be written."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from sparsebayes._files import check_place
from sparsebayes._tables.arrays import ArrayTable
from sparsebayes._tables.arrow import ArrowFile, need_pyarrow
from sparsebayes._tables.delimited import Delimited
from sparsebayes._tables.numerals import Mark
from sparsebayes._tables.table import Table, TableError
from sparsebayes._tables.texts import Source, source_of

__all__ = ["check_folder", "check_output", "check_picture", "format_of", "is_parquet", "open_table"]

_FORMATS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".feather": "feather",
    ".arrow": "feather",
    ".npy": "npy",
}
_ARROW = ("parquet", "feather")
_PICTURES = (".pdf", ".png", ".svg")


def open_table(
    path: str,
    *,
    format: str | None = None,
    strict: bool = True,
    folders: bool = False,
    header: bool | None = None,
    wanted: Sequence[str] = (),
    mark: Mark | None = None,
) -> Table:
    """Open a table and read its column names.

    Parameters
    ----------
    path : str
        The file; its suffix says what it is. ``-`` is stdin, csv unless `format` says otherwise.
    format : "csv", "tsv", "parquet", "feather", "npy" or None, default=None
        What it is, where its name does not tell.
    strict : bool, default=True
        Whether what is unusual is an error. Otherwise it is mended and said in its `remarks`.
    folders : bool, default=False
        Whether it may be a folder of parquet files too, whose first one tells the columns.
    header : bool or None, default=None
        Whether the first line of a csv or tsv file holds names; None to look.
    wanted : sequence of str, default=()
        Names that the user knows: a first line with one of them is a header.
    mark : "point", "comma" or None, default=None
        What decimals follow in numbers that are text; None to look.

    Returns
    -------
    Table
        Its columns are read on demand.

    Raises
    ------
    TableError
        If there is no such file, or it is not such a file.
    """
    if path != "-" and os.path.isdir(path):
        if not folders:
            raise TableError(f"{path}: is a directory, a csv or parquet file is needed")
        from sparsebayes.rows.parquet import parquet_files

        table: Table = ArrowFile(Source(parquet_files(path)[0][0]), "parquet")
        table.path = path
    else:
        if path != "-" and not os.path.exists(path):
            raise TableError(f"{path}: no such file")
        kind = format or format_of(path)
        source = source_of(path)
        if kind in _ARROW:
            table = ArrowFile(source, kind, strict=strict, mark=mark)
        elif kind == "npy":
            table = ArrayTable(source)
        else:
            separator = "\t" if kind == "tsv" else None
            table = Delimited(
                source,
                separator=separator,
                strict=strict,
                header=header,
                wanted=wanted,
                mark=mark,
            )
    repeated = [name for name, count in Counter(table.names).items() if count > 1]
    if repeated:
        raise TableError(f"{table.path}: column {repeated[0]!r} appears more than once: rename one")
    return table


def format_of(path: str) -> str:
    """What a file is, by its suffix.

    Parameters
    ----------
    path : str
        The file; ``-`` is csv.

    Returns
    -------
    str
        "csv", "tsv", "parquet", "feather" or "npy"; a TableError for others.

    Examples
    --------
    >>> from sparsebayes._tables.places import format_of
    >>> format_of("data.ARROW"), format_of("-")
    ('feather', 'csv')
    """
    if path == "-":
        return "csv"
    suffix = Path(path).suffix
    if suffix.lower() not in _FORMATS:
        found = f"unknown suffix {suffix!r}" if suffix else "the name has no suffix"
        raise TableError(f"{path}: {found}, use one of {', '.join(_FORMATS)}")
    return _FORMATS[suffix.lower()]


def is_parquet(path: str) -> bool:
    """Whether a file is a parquet file, by its suffix.

    Parameters
    ----------
    path : str
        The file.

    Returns
    -------
    bool
        False for other tables, and for folders.
    """
    return _FORMATS.get(Path(path).suffix.lower()) == "parquet" and not os.path.isdir(path)


def check_output(path: str) -> None:
    """Refuse an output that cannot be written, before the work that it is for.

    Parameters
    ----------
    path : str
        Where a table is to be written; ``-`` is stdout.

    Raises
    ------
    TableError
        For an unknown suffix, a missing folder or package.
    """
    kind = format_of(path)
    if path != "-":
        check_folder(path)
    if kind in _ARROW:
        need_pyarrow(path, kind)


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
    try:
        check_place(path)
    except ValueError as error:
        raise TableError(str(error)) from None


def check_picture(path: str) -> None:
    """Refuse a picture that matplotlib is not asked to draw.

    Parameters
    ----------
    path : str
        Where it is to be written.

    Raises
    ------
    TableError
        For another suffix, or a place where no file can be made.
    """
    if Path(path).suffix.lower() not in _PICTURES:
        raise TableError(f"{path}: use one of the suffixes {', '.join(_PICTURES)}")
    check_folder(path)
