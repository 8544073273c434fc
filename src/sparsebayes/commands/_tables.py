"""Options and notes of commands that read tables. The standard library alone is imported."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from sparsebayes._console import say

if TYPE_CHECKING:
    from sparsebayes._tables import Table

FORMATS = ("csv", "tsv", "parquet", "feather", "npy")


def add_table_options(parser: Any) -> None:
    """Add what says how a table is to be read.

    Parameters
    ----------
    parser : ArgumentParser or argument group
        Of one command.
    """
    parser.add_argument(
        "--format",
        choices=FORMATS,
        metavar="FORMAT",
        help=f"of DATA: {', '.join(FORMATS)} (default: by its name; csv for -)",
    )
    parser.add_argument(
        "--decimal",
        choices=("point", "comma"),
        metavar="MARK",
        help="point or comma, where numbers such as 1,234 can be read in two ways",
    )
    parser.add_argument(
        "--header",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="whether the first line of a csv file holds names (default: unless it is all numbers)",
    )
    parser.add_argument(
        "--strict",
        action="store_true",
        help="stop at text, gaps and anything else that would be left out",
    )


def opened(arguments: argparse.Namespace, path: str, wanted: Sequence[str] = ()) -> Table:
    """Open a table by these options.

    Parameters
    ----------
    arguments : Namespace
        From the parser.
    path : str
        The file, or ``-``.
    wanted : sequence of str, default=()
        Names that the user knows.

    Returns
    -------
    Table
        With its names.
    """
    from sparsebayes._tables import open_table

    return open_table(
        path,
        format=arguments.format if path == arguments.data else None,
        strict=arguments.strict,
        folders=arguments.command == "fit",
        header=arguments.header,
        wanted=wanted,
        mark=arguments.decimal,
    )


def refuse_overwriting(output: str | None, *inputs: str | None) -> None:
    """Refuse an output that is one of the inputs: what was there would be lost.

    Parameters
    ----------
    output : str or None
        A file to be written.
    *inputs : str or None
        Files that are read.
    """
    from sparsebayes._tables import TableError

    if output is None or not os.path.isfile(output):
        return
    for path in inputs:
        if path is not None and os.path.exists(path) and os.path.samefile(path, output):
            raise TableError(f"{output}: is read by this command, and would be overwritten")


def refuse_reading_twice(**inputs: str | None) -> None:
    """Refuse stdin for two tables: there is nothing left for the second.

    Parameters
    ----------
    **inputs : str or None
        What is read, by the name of the argument.
    """
    from sparsebayes._tables import TableError

    names = [name for name, path in inputs.items() if path == "-"]
    if len(names) > 1:
        raise TableError(f"stdin can be read once: {' and '.join(names)} are both -")


def tell(notes: Iterable[str], *, quiet: bool) -> None:
    """Say notes on stderr, a line each, unless nothing is to be said.

    Parameters
    ----------
    notes : iterable of str
        Sentences.
    quiet : bool
        Whether the user wants none.
    """
    if not quiet:
        for note in notes:
            say(f"note: {note}")
