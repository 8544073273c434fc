"""Whether two values of parameters are the same, and by name what differs."""

from collections.abc import Mapping
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import numpy as np

from sparsebayes.dictionaries._protocol import is_sparse

__all__ = ["first_difference", "same"]

_SHOWN = (str, int, float, bool, type(None))
_BY_NAME = (type, FunctionType, BuiltinFunctionType, MethodType)  # no two of them are the same


def same(one: Any, other: Any) -> bool:
    """Whether two values of a parameter are the same, though they may be two objects.

    Parameters
    ----------
    one, other : object
        Numbers, words, arrays, dictionaries, priors, kernels or functions.

    Returns
    -------
    bool
        Never an array, and never an error of a comparison.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.dictionaries import Kernel, Linear
    >>> same(Linear() + Kernel(gamma=[1, 2]), Linear() + Kernel(gamma=np.array([1.0, 2.0])))
    True
    >>> same(Kernel(gamma=1.0), Kernel(gamma=2.0))
    False
    """
    if one is other:
        return True
    if is_sparse(one) or is_sparse(other):
        return _same_sparse(one, other)
    if _is_array(one) and _is_array(other):
        return _same_arrays(one, other)
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, partial) and isinstance(other, partial):
        parts = [(f.func, f.args, f.keywords) for f in (one, other)]
        return all(same(*pair) for pair in zip(*parts, strict=True))
    try:
        if bool(one == other):
            return True
    except (TypeError, ValueError):
        return False
    # Objects that do not say when they are equal: what they are made of says it.
    if type(one) is not type(other) or isinstance(one, _BY_NAME) or not hasattr(one, "__dict__"):
        return False
    return same(vars(one), vars(other))


def first_difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> str | None:
    """Name the first parameter that differs, with both values if they are short.

    Parameters
    ----------
    one, other : dict
        Parameters by name.

    Returns
    -------
    str or None
        Such as "gamma (1.0 and 2.0)"; None where all are the same.

    Examples
    --------
    >>> first_difference({"degree": 3, "gamma": 1.0}, {"degree": 3, "gamma": 2.0})
    'gamma (1.0 and 2.0)'
    """
    for name in [*one, *(name for name in other if name not in one)]:
        if name not in one or name not in other:
            return name
        mine, yours = one[name], other[name]
        if not same(mine, yours):
            short = isinstance(mine, _SHOWN) and isinstance(yours, _SHOWN)
            return f"{name} ({mine!r} and {yours!r})" if short else name
    return None


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray | list | tuple)


def _same_arrays(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        try:
            return np.array_equal(np.asarray(one), np.asarray(other))
        except ValueError:  # lists of lists of several lengths
            return False
    return len(one) == len(other) and all(map(same, one, other))


def _same_sparse(one: Any, other: Any) -> bool:
    if not (is_sparse(one) and is_sparse(other)) or one.shape != other.shape:
        return False
    return bool((one != other).nnz == 0)
