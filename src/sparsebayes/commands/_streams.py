"""``-`` for stdin and stdout, where the work is done on files."""

from __future__ import annotations

import argparse
import contextlib
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sparsebayes._signal_files import SignalFile

_FORMATS = ("csv", "tsv", "npy", "wav", "png", "tiff")


def add_format_option(group: Any) -> None:
    """Add ``--format``.

    Parameters
    ----------
    group : ArgumentParser or argument group
        Of one command.
    """
    group.add_argument(
        "--format",
        choices=_FORMATS,
        metavar="FORMAT",
        default="csv",
        help=f"of stdin and stdout, where a file is -: {', '.join(_FORMATS)} (default: csv)",
    )


@contextlib.contextmanager
def on_files(arguments: argparse.Namespace) -> Iterator[argparse.Namespace]:
    """Give the same arguments with files in place of stdin and stdout.

    Parameters
    ----------
    arguments : Namespace
        With ``data``, ``output`` and ``format``.

    Yields
    ------
    Namespace
        What was written to ``output`` goes to stdout when the block ends without an exception.
    """
    if "-" not in (arguments.data, arguments.output):
        yield arguments
        return
    with tempfile.TemporaryDirectory() as folder:
        files = argparse.Namespace(**vars(arguments))
        if arguments.data == "-":
            files.data = f"{folder}/stdin.{arguments.format}"
            with open(files.data, "wb") as file:
                shutil.copyfileobj(sys.stdin.buffer, file)
        if arguments.output == "-":
            files.output = f"{folder}/stdout.{arguments.format}"
        try:
            yield files
        except ValueError as error:
            raise ValueError(str(error).replace(f"{folder}/", "")) from None
        if arguments.output == "-":
            sys.stdout.flush()
            with open(files.output, "rb") as file:
                shutil.copyfileobj(file, sys.stdout.buffer)
            sys.stdout.buffer.flush()


def named(source: SignalFile) -> SignalFile:
    """Let a signal from stdin be called by the name of that, not of the file in between.

    Parameters
    ----------
    source : SignalFile
        Read.

    Returns
    -------
    SignalFile
        The same.
    """
    name = Path(source.path).name
    if name.startswith("stdin.") and Path(source.path).is_absolute():
        source.path = name
    return source
