"""Model files of other versions: what is left out of them, and what is said where that fails."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable
from typing import Any

import sparsebayes
from sparsebayes._archive import HOSTILE
from sparsebayes._parameters import decode

__all__ = ["is_newer", "understood"]


def is_newer(version: object) -> bool:
    """Whether a version, as a file states it, is above this one.

    Parameters
    ----------
    version : object
        What the file says; anything but numbers with dots is no version.

    Returns
    -------
    bool
        True if it is a newer version.

    Examples
    --------
    >>> from sparsebayes._versions import is_newer
    >>> is_newer("999.0"), is_newer("0.0.1"), is_newer(None)
    (True, False, False)
    """
    theirs, ours = _numbers(version), _numbers(sparsebayes.__version__)
    return bool(theirs and theirs > ours)


def _numbers(version: object) -> tuple[int, ...]:
    found = re.match(r"\d{1,9}(\.\d{1,9}){1,3}", version) if isinstance(version, str) else None
    return tuple(int(part) for part in found.group().split(".")) if found else ()


def understood(
    parameters: Any, of: Any, version: object, check: Callable[[Any], None]
) -> dict[str, Any]:
    """Constructor parameters of a file, checked, without those that only a newer version knows.

    Predictions do not depend on them, so a file of a newer version can do without; those of this
    version or an older one hold nothing unknown, or are damaged.

    Parameters
    ----------
    parameters : dict
        As `encode` made them.
    of : type
        The estimator's class.
    version : object
        The version that wrote the file, as it says.
    check : callable
        Raises an error for an estimator whose parameters make no sense.

    Returns
    -------
    dict
        For the constructor. A warning names what was left out.

    Raises
    ------
    ValueError, TypeError, LookupError
        If they cannot come from `encode`.
    """
    if not is_newer(version) or not isinstance(parameters, dict):
        found: dict[str, Any] = decode(parameters)
        check(of(**found))
        return found
    known = inspect.signature(of).parameters
    values, unknown = {}, []
    for name, stored in parameters.items():
        try:
            if name not in known:
                raise LookupError(name)
            values[name] = decode(stored)
            check(of(**{name: values[name]}))
        except HOSTILE:
            unknown.append(name)
    try:
        check(of(**values))
        unknown = [name for name in unknown if name not in values]
    except HOSTILE:
        values = {name: value for name, value in values.items() if name not in unknown}
        check(of(**values))
    if unknown:
        warnings.warn(
            f"the model was written by sparsebayes {version}, and version "
            f"{sparsebayes.__version__} does not know {', '.join(unknown)} of it: left out, which "
            "changes a new fit but no prediction",
            UserWarning,
            stacklevel=2,
        )
    return values
