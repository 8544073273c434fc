"""Signals in files: channels of numbers in, and out again as they came, whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray

from sparsebayes._files import atomic_write
from sparsebayes._picture_files import PICTURES, PictureFile, need_pillow, write_floats
from sparsebayes._series_files import (
    TABLES,
    Array,
    ArrayFile,
    TableFile,
    side_by_side,
    write_columns,
)
from sparsebayes._sound_files import SoundFile

__all__ = [
    "SUFFIXES",
    "SignalFile",
    "check_output",
    "check_std",
    "open_signal",
    "write_signal",
    "write_std",
]

SUFFIXES = (*TABLES, ".npy", ".wav", *PICTURES)


class SignalFile(Protocol):
    """What was read from a file, and how it is written again."""

    path: str
    kind: str
    channels: dict[str, Array]
    remarks: list[str]
    suffixes: tuple[str, ...]

    def array(self, channels: dict[str, Array]) -> NDArray[Any]:
        """Put channels of this file's shape into one array."""

    def write(self, file: BinaryIO, suffix: str, channels: dict[str, Array]) -> list[str]:
        """Write channels in place of those that were read; gives remarks on what was lost."""


def open_signal(
    path: str, *, columns: Sequence[str] | None = None, axis: int | None = None
) -> SignalFile:
    """Read a file of one or several signals, or of a picture.

    Parameters
    ----------
    path : str
        A csv, tsv, npy, wav, png or tiff file; its suffix says what it is.
    columns : sequence of str or None, default=None
        Columns of a table that are signals; None for all but one of positions.
    axis : int or None, default=None
        The axis of an array along which signals run; None for one signal, or one field.

    Returns
    -------
    SignalFile
        Its channels hold NaN where samples are missing.

    Raises
    ------
    ValueError
        For a file that cannot be read, and numbers that are no signal.
    """
    suffix = _suffix(path)
    if not os.path.exists(path):
        raise ValueError(f"{path}: no such file")
    if os.path.isdir(path):
        raise ValueError(f"{path}: is a directory, a file is needed")
    _check_suffix(path, SUFFIXES)
    if os.path.getsize(path) == 0:
        raise ValueError(f"{path}: the file is empty")
    if columns and suffix not in TABLES:
        raise ValueError(f"{path}: --column is for csv and tsv files")
    if axis is not None and suffix != ".npy":
        raise ValueError(f"{path}: --axis is for npy files")
    found: SignalFile
    if suffix in TABLES:
        found = TableFile(path, columns)
    elif suffix == ".npy":
        found = ArrayFile(path, axis)
    elif suffix == ".wav":
        found = SoundFile(path)
    else:
        found = PictureFile(path)
    for name, values in found.channels.items():
        _check_values(found, name, values)
    return found


def check_output(signal: SignalFile, path: str) -> None:
    """Refuse an output that this signal cannot be written to, before the work that it is for.

    Parameters
    ----------
    signal : SignalFile
        From `open_signal`.
    path : str
        Where it is to be written.

    Raises
    ------
    ValueError
        For a format that does not fit.
    """
    _check_suffix(path, SUFFIXES)
    if _suffix(path) not in signal.suffixes:
        raise ValueError(
            f"{path}: what was read from a {_suffix(signal.path)} file cannot be written as "
            f"{_suffix(path)}, use one of {', '.join(signal.suffixes)}"
        )
    if _suffix(path) in PICTURES:
        need_pillow(path)


def check_std(signal: SignalFile, path: str) -> None:
    """Refuse a file that standard deviations of this signal cannot be written to.

    Parameters
    ----------
    signal : SignalFile
        From `open_signal`.
    path : str
        Where they are to be written.

    Raises
    ------
    ValueError
        For a format that does not hold such numbers.
    """
    values = next(iter(signal.channels.values()))
    fitting: tuple[str, ...] = (".npy",)
    if set(TABLES) <= set(signal.suffixes):
        fitting += TABLES
    elif values.ndim == 2 and len(signal.channels) == 1:
        fitting += (".tif", ".tiff")
    if _suffix(path) not in fitting:
        raise ValueError(
            f"{path}: standard deviations of {signal.path} are written to a file with one of the "
            f"suffixes {', '.join(fitting)}"
        )
    if _suffix(path) in PICTURES:
        need_pillow(path)


def write_signal(signal: SignalFile, path: str, channels: dict[str, Array]) -> list[str]:
    """Write new numbers in place of those that were read.

    Parameters
    ----------
    signal : SignalFile
        From `open_signal`.
    path : str
        The file, replaced in one step; it may be the one that was read.
    channels : dict of str to ndarray
        All channels under their names, in the shapes that were read.

    Returns
    -------
    list of str
        Remarks on numbers that the format does not hold.
    """
    suffix = _suffix(path)
    with atomic_write(path) as file:
        if suffix == ".npy":
            np.save(file, signal.array(channels), allow_pickle=False)
            return []
        if suffix in PICTURES and signal.kind == "array":
            write_floats(file, suffix, next(iter(channels.values())))
            return []
        return signal.write(file, suffix, channels)


def write_std(signal: SignalFile, path: str, channels: dict[str, Array]) -> None:
    """Write standard deviations in the units of the signal.

    Parameters
    ----------
    signal : SignalFile
        From `open_signal`.
    path : str
        A file that `check_std` accepts, replaced in one step.
    channels : dict of str to ndarray
        Of each channel under its name.
    """
    suffix = _suffix(path)
    with atomic_write(path) as file:
        if suffix == ".npy":
            # Of a picture's array alpha is a part, which has no standard deviation.
            stack = side_by_side if signal.kind == "picture" else signal.array
            np.save(file, stack(channels), allow_pickle=False)
        elif suffix in TABLES:
            write_columns(file, suffix, channels)
        else:
            write_floats(file, suffix, next(iter(channels.values())))


def _suffix(path: str) -> str:
    return Path(path).suffix.lower()


def _check_suffix(path: str, suffixes: tuple[str, ...]) -> None:
    suffix = Path(path).suffix
    if suffix.lower() not in suffixes:
        found = f"unknown suffix {suffix!r}" if suffix else "the name has no suffix"
        raise ValueError(f"{path}: {found}, use one of {', '.join(suffixes)}")


def _check_values(signal: SignalFile, name: str, values: Array) -> None:
    place = f"{signal.path}: " + (f"{name!r} " if len(signal.channels) > 1 else "")
    if not values.size:
        raise ValueError(f"{signal.path}: there are no samples")
    if np.isinf(values).any():
        where = np.argwhere(np.isinf(values))[0]
        spot = " x ".join(str(index + 1) for index in where)
        raise ValueError(f"{place}has an infinite value at sample {spot}")
    if np.isnan(values).all():
        raise ValueError(f"{place}has no samples: all are missing")
