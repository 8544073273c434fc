"""What the command line writes: results on stdout, progress, warnings and errors on stderr."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import re
import shutil
import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any, TextIO

_ERASE = "\x1b[K"  # tells a terminal to erase the rest of the line
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def say(text: str) -> None:
    """Write one line to stderr, under the program's name.

    Parameters
    ----------
    text : str
        Line breaks in it become spaces.
    """
    print(f"sparsebayes: {harmless(' '.join(text.split()))}", file=sys.stderr, flush=True)


def harmless(line: str) -> str:
    r"""Show control characters instead of sending them to a terminal.

    Parameters
    ----------
    line : str
        May quote files of strangers.

    Returns
    -------
    str
        The same with backslashes.

    Examples
    --------
    >>> from sparsebayes._console import harmless
    >>> print(harmless("red: \x1b[31m"))
    red: \x1b[31m
    """
    return _CONTROLS.sub(lambda found: found.group().encode("unicode_escape").decode(), line)


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

    On a terminal they follow each other in one place, beside the time that has passed where rich is
    installed; elsewhere one line in `interval` is kept. What a carriage return would overwrite
    counts as a line.

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
        self._in_place = out.isatty()
        self._place = _place(out)
        self._interval = 0.1 if self._in_place else interval
        self._due = time.monotonic() + delay
        self._partial = ""

    def isatty(self) -> bool:
        return self._in_place

    def write(self, text: str) -> int:
        *lines, self._partial = (self._partial + text).replace("\r", "\n").split("\n")
        lines = [line for line in lines if line]
        if lines and time.monotonic() >= self._due:
            self._due = time.monotonic() + self._interval
            self._place.show(lines[-1].removesuffix(_ERASE))
        return len(text)

    def finish(self) -> None:
        self._place.close()


def _place(out: TextIO) -> _Log | _Line | _Live:
    """Where lines are to be shown."""
    if not out.isatty():
        return _Log(out)
    return _Line(out) if importlib.util.find_spec("rich") is None else _Live(out)


class _Log:
    """A pipe or a file: lines below each other."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def show(self, line: str) -> None:
        self._out.write(f"{line}\n")
        self._out.flush()

    def close(self) -> None:
        pass


class _Line:
    """A terminal: each line in place of the last one."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._shown = False

    def show(self, line: str) -> None:
        width = shutil.get_terminal_size().columns - 1
        self._out.write(f"\r{line[:width]}{_ERASE}")
        self._out.flush()
        self._shown = True

    def close(self) -> None:
        if self._shown:
            self._out.write(f"\r{_ERASE}")
            self._out.flush()


class _Live:
    """A terminal and rich: the same beside a sign of life and the time."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._live: Any = None

    def show(self, line: str) -> None:
        if self._live is None:
            from rich.console import Console
            from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

            self._live = Progress(
                SpinnerColumn(),
                TimeElapsedColumn(),
                TextColumn("{task.description}", markup=False),
                console=Console(file=self._out),
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()
            self._live.add_task("")
        width = max(shutil.get_terminal_size().columns - 12, 1)
        self._live.update(self._live.task_ids[0], description=line[:width])

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()
