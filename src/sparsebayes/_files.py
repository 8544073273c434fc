"""Writing a file so that it is there whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open `path` for writing bytes; it changes only when the block ends without an exception.

    Parameters
    ----------
    path : str or path
        The file to be made or replaced. What is there and is no regular file (a pipe, a terminal,
        ``/dev/null``) is written to directly: replacing it would remove it.

    Yields
    ------
    file : binary file
        A new file in the same directory, which takes the place of `path` in one step.
    """
    # A link stays a link: the file that it points to is replaced.
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(f"{path} is a directory")
    if target.exists() and not target.is_file():
        with open(target, "wb") as file:
            yield file
        return
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        # "x" gives the mode that the user's umask asks for, unlike the tempfile module's 0600.
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def check_place(path: str | os.PathLike[str]) -> None:
    """Refuse a place where no file can be made, before the work that it is for.

    Parameters
    ----------
    path : str or path
        A file to be written.

    Raises
    ------
    ValueError
        If it is a directory or in one that is missing or not writable.
    """
    folder = os.path.dirname(os.path.realpath(path))
    if os.path.isdir(path):
        raise ValueError(f"{path}: is a directory, a file name is needed")
    if not os.path.isdir(folder):
        raise ValueError(f"{path}: no such folder {folder}")
    if not os.access(folder, os.W_OK) and not os.path.exists(path):
        raise ValueError(f"{path}: the folder {folder} is not writable")
