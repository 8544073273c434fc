"""What the command line writes: results on stdout, progress, warnings and errors on stderr."""

from __future__ import annotations

import contextlib
import io
import shutil
import sys
import time
import warnings
from collections.abc import Iterator
from typing import TextIO

_ERASE = "\x1b[K"  # tells a terminal to erase the rest of the line


def say(text: str) -> None:
    """Write one line to stderr, under the program's name.

    Parameters
    ----------
    text : str
        Line breaks in it become spaces.
    """
    print(f"sparsebayes: {' '.join(text.split())}", file=sys.stderr, flush=True)


def counted(count: int, noun: str) -> str:
    """Give a number with its noun.

    Parameters
    ----------
    count : int
        How many.
    noun : str
        In the singular.

    Returns
    -------
    str
        Such as "1 row" or "2 rows".

    Examples
    --------
    >>> from sparsebayes._console import counted
    >>> counted(1, "row"), counted(2, "row")
    ('1 row', '2 rows')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


@contextlib.contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Write every warning of the block to stderr when it ends, one line each, none twice."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        # These speak to programmers; Python itself hides them from users.
        for category in (
            DeprecationWarning,
            PendingDeprecationWarning,
            ImportWarning,
            ResourceWarning,
        ):
            warnings.simplefilter("ignore", category)
        try:
            yield
        finally:
            for text in dict.fromkeys(str(warning.message) for warning in caught):
                say(f"warning: {text}")


@contextlib.contextmanager
def progress(delay: float = 2.0, interval: float = 5.0) -> Iterator[None]:
    """Thin out the lines that the block writes to stderr.

    On a terminal they follow each other in one place; elsewhere one line in `interval` is kept.
    What a carriage return would overwrite counts as a line.

    Parameters
    ----------
    delay : float, default=2.0
        Seconds before anything is shown: short fits stay silent.
    interval : float, default=5.0
        Seconds between two lines where stderr is no terminal.
    """
    stream = _Progress(sys.stderr, delay, interval)
    with contextlib.redirect_stderr(stream):
        try:
            yield
        finally:
            stream.finish()


class _Progress(io.TextIOBase):
    def __init__(self, out: TextIO, delay: float, interval: float) -> None:
        self._out = out
        self._in_place = out.isatty()
        self._interval = 0.1 if self._in_place else interval
        self._due = time.monotonic() + delay
        self._partial = ""
        self._shown = False

    def isatty(self) -> bool:
        return self._in_place

    def write(self, text: str) -> int:
        *lines, self._partial = (self._partial + text).replace("\r", "\n").split("\n")
        lines = [line for line in lines if line]
        if lines and time.monotonic() >= self._due:
            self._due = time.monotonic() + self._interval
            self._show(lines[-1])
        return len(text)

    def _show(self, line: str) -> None:
        if self._in_place:
            width = shutil.get_terminal_size().columns - 1
            self._out.write(f"\r{line.removesuffix(_ERASE)[:width]}{_ERASE}")
        else:
            self._out.write(f"{line}\n")
        self._out.flush()
        self._shown = True

    def finish(self) -> None:
        if self._shown and self._in_place:
            self._out.write(f"\r{_ERASE}")
            self._out.flush()
