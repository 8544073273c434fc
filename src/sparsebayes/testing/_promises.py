"""What the contracts share: how a broken promise is told, and calls that must be quiet."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

__all__ = ["ensure", "quiet"]


def ensure(condition: Any, message: str) -> None:
    """Raise an AssertionError unless the condition holds.

    Parameters
    ----------
    condition : bool
        The promise.
    message : str
        What is wrong where it is broken.

    Examples
    --------
    >>> ensure(True, "never told")
    """
    if not condition:
        raise AssertionError(message)


@contextmanager
def quiet(what: str) -> Iterator[None]:
    """A block in which a warning is a broken promise.

    Parameters
    ----------
    what : str
        What runs in the block, for the message.

    Examples
    --------
    >>> import numpy as np
    >>> with quiet("a logarithm"):
    ...     np.log(np.zeros(1))
    Traceback (most recent call last):
    AssertionError: a logarithm warns: divide by zero encountered in log
    """
    with warnings.catch_warnings(), np.errstate(all="warn", under="ignore"):
        warnings.simplefilter("error")
        try:
            yield
        except Warning as warning:
            raise AssertionError(f"{what} warns: {warning}") from None
