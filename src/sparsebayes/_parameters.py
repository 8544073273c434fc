"""Constructor parameters as JSON and back, from a fixed list of types."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

_DICTIONARIES = ("Bias", "Kernel", "Linear", "Operator", "StationaryWavelet", "Union", "Wavelet")
_HYPERPRIORS = ("Flat", "Gamma", "InverseGamma", "Smoothness")
_LIKELIHOODS = ("Bernoulli", "Gaussian", "Multinomial", "Poisson")
_LONGEST_ARRAY = 1000


class NotStorableError(TypeError):
    """A value that is none of the types a model file can hold."""


def encode(value: Any) -> Any:
    """Turn a value into what JSON can hold.

    Types that JSON lacks become an object whose key "$" names the type.

    Parameters
    ----------
    value : object
        Numbers, strings, None, short arrays of numbers, parameter objects of this package, and
        lists, tuples and dictionaries of these.

    Returns
    -------
    object
        For ``json.dumps``.

    Raises
    ------
    NotStorableError
        For anything else.

    Examples
    --------
    >>> from sparsebayes._parameters import decode, encode
    >>> encode((1, float("inf")))
    {'$': 'tuple', 'items': [1, {'$': 'float', 'value': 'inf'}]}
    >>> decode(encode((1, float("inf"))))
    (1, inf)
    """
    if value is None or type(value) in (bool, int, str):
        return value
    if isinstance(value, np.bool_ | np.integer):
        return value.item()
    if isinstance(value, float | np.floating):
        number = float(value)
        return number if math.isfinite(number) else {"$": "float", "value": repr(number)}
    if isinstance(value, list):
        return [encode(item) for item in value]
    if isinstance(value, tuple):
        return {"$": "tuple", "items": [encode(item) for item in value]}
    if isinstance(value, dict) and all(type(key) is str and key != "$" for key in value):
        return {key: encode(item) for key, item in value.items()}
    if isinstance(value, dict):
        return {"$": "dict", "items": [[encode(key), encode(value[key])] for key in value]}
    if isinstance(value, np.ndarray) and value.dtype.kind in "iuf" and value.size <= _LONGEST_ARRAY:
        return {"$": "array", "items": encode(value.tolist())}
    name = type(value).__name__
    if type(value) is _classes().get(name):
        return {"$": name, "parameters": encode(_parameters_of(value))}
    raise NotStorableError(f"{name} cannot be stored")


def decode(value: Any) -> Any:
    """Turn what `encode` gave back into the value.

    Parameters
    ----------
    value : object
        From ``json.loads``.

    Returns
    -------
    object
        The value. Only classes of this package's fixed list are ever called.

    Raises
    ------
    ValueError, TypeError, LookupError
        If `encode` cannot have made it.

    Examples
    --------
    >>> from sparsebayes._parameters import decode
    >>> decode({"$": "array", "items": [0.5, 2.0]})
    array([0.5, 2. ])
    """
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "$" not in value:
        return {key: decode(item) for key, item in value.items()}
    match value:
        case {"$": "float", "value": "nan" | "inf" | "-inf" as text}:
            return float(text)
        case {"$": "tuple", "items": list(items)}:
            return tuple(decode(items))
        case {"$": "dict", "items": list(items)}:
            return {decode(key): decode(item) for key, item in items}
        case {"$": "array", "items": items}:
            array = np.array(decode(items))
            if array.dtype.kind in "iuf":
                return array
        case {"$": str(name), "parameters": dict(parameters)} if name in _classes():
            return _classes()[name](**decode(parameters))
    raise ValueError("a parameter of an unknown type")


def _classes() -> dict[str, type]:
    from sparsebayes import dictionaries, hyperpriors, likelihoods

    named = [(dictionaries, name) for name in _DICTIONARIES]
    named += [(hyperpriors, name) for name in _HYPERPRIORS]
    named += [(likelihoods, name) for name in _LIKELIHOODS]
    return {name: getattr(module, name) for module, name in named}


def _parameters_of(value: Any) -> dict[str, Any]:
    if dataclasses.is_dataclass(value):
        fields = dataclasses.fields(value)
        return {field.name: getattr(value, field.name) for field in fields if field.init}
    parameters: dict[str, Any] = value.get_params(deep=False)
    return parameters
