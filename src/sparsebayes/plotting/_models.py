"""What pictures ask of fitted models and of data: checks, names, predictions, centers."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from sparsebayes._pipelines import last_step
from sparsebayes._settings import is_count
from sparsebayes.dictionaries._protocol import is_sparse

FloatArray = NDArray[np.float64]

__all__ = [
    "centers",
    "checked_count",
    "checked_inputs",
    "checked_model",
    "checked_size",
    "checked_targets",
    "column_names",
    "like",
]


def checked_model(estimator: Any, method: str, picture: str, needs: str) -> Any:
    """Return the estimator at the end of pipelines and searches, refused where it is no use.

    Parameters
    ----------
    estimator : estimator
        As given.
    method : str
        What it must be able to do.
    picture : str
        Name of the display, for messages.
    needs : str
        What the display needs, in words.

    Returns
    -------
    estimator
        The last step.
    """
    if isinstance(estimator, type) or not hasattr(estimator, "fit"):
        raise TypeError(f"estimator must be a fitted estimator, got {estimator!r}.")
    check_is_fitted(estimator)
    last = last_step(estimator)
    if not hasattr(last, method):
        raise TypeError(f"{picture} needs {needs}, and {type(last).__name__} has none.")
    return last


def checked_inputs(X: Any, columns: int, picture: str) -> FloatArray:
    """Inputs as an array of so many columns.

    Parameters
    ----------
    X : array-like or scipy.sparse matrix of shape (n, columns)
        As given.
    columns : int
        Columns that can be drawn.
    picture : str
        Name of the display, for messages.

    Returns
    -------
    ndarray of shape (n, columns)
        The same numbers.
    """
    try:
        values = np.asarray(X.toarray() if is_sparse(X) else X, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError("X must be numbers, a row for each sample.") from None
    if values.ndim != 2 or values.shape[1] != columns:
        inputs = "one input" if columns == 1 else f"{columns} inputs"
        raise ValueError(
            f"{picture} draws functions of {inputs}: X must have the shape (n, {columns}), got "
            f"{values.shape}."
        )
    if len(values) == 0 or not np.isfinite(values).all():
        raise ValueError("X must have rows, and no NaN or infinite values.")
    return values


def checked_targets(y: Any, n: int, target: int | None) -> FloatArray | None:
    """One target of each row.

    Parameters
    ----------
    y : array-like of shape (n,) or (n, T), or None
        As given.
    n : int
        Number of rows.
    target : int or None
        Which of several.

    Returns
    -------
    ndarray of shape (n,) or None
        The targets.
    """
    if y is None:
        return None
    try:
        values = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError("y must be numbers, one for each row of X.") from None
    if values.ndim == 2 and (target is not None or values.shape[1] == 1):
        place = target or 0
        values = values[:, place] if place < values.shape[1] else values
    if values.shape != (n,):
        raise ValueError(f"y must have one target for each of {n} rows, got {values.shape}.")
    return values


def checked_count(name: str, value: Any, least: int) -> int:
    """An integer that is not too small.

    Parameters
    ----------
    name : str
        Of the parameter.
    value : object
        As given.
    least : int
        The smallest one allowed.

    Returns
    -------
    int
        The integer.
    """
    if not is_count(value, least):
        raise ValueError(f"{name} must be an integer >= {least}, got {value!r}.")
    return int(value)


def checked_size(name: str, value: Any) -> float:
    """A finite number that is not negative.

    Parameters
    ----------
    name : str
        Of the parameter.
    value : object
        As given.

    Returns
    -------
    float
        The number.
    """
    real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not real or not 0 <= value < np.inf:
        raise ValueError(f"{name} must be a number >= 0, got {value!r}.")
    return float(value)


def like(X: Any, values: FloatArray) -> Any:
    """Numbers in a table of the same kind and with the same names as X.

    Parameters
    ----------
    X : array-like
        As given by the user.
    values : ndarray of shape (n, d)
        Numbers.

    Returns
    -------
    array-like
        A data frame where X is one, else the array.
    """
    if not hasattr(X, "columns") or not hasattr(X, "__len__"):
        return values
    names = list(X.columns)
    if hasattr(X, "iloc"):
        return type(X)(values, columns=names)
    return type(X)({name: values[:, place] for place, name in enumerate(names)})


def column_names(X: Any, estimator: Any, count: int) -> list[str]:
    """Names of the columns of X: its own, those of the fit, or x0, x1, ...

    Parameters
    ----------
    X : array-like
        Inputs.
    estimator : estimator
        A fitted one.
    count : int
        Number of columns.

    Returns
    -------
    list of str
        The names.
    """
    names = getattr(X, "columns", None)
    if names is None:
        names = getattr(estimator, "feature_names_in_", None)
    if names is None or len(names) != count:
        return ["x"] if count == 1 else [f"x{place}" for place in range(count)]
    return [str(name) for name in names]


def centers(estimator: Any, columns: int) -> FloatArray:
    """Where the kernels of a fitted model sit, in the inputs as its user knows them.

    Parameters
    ----------
    estimator : estimator
        A fitted one, or a pipeline or search that ends with one.
    columns : int
        Number of inputs.

    Returns
    -------
    ndarray of shape (k, columns)
        Each center once. None of a model without kernels, nor where a step of a pipeline cannot
        be undone.
    """
    none = np.empty((0, columns))
    atoms = getattr(getattr(last_step(estimator), "posterior_", None), "atoms", None)
    parts: Any = getattr(atoms, "parts", (atoms,))
    own = [part.centers for part in parts if hasattr(part, "centers")]
    if not own:
        return none
    found = np.concatenate([c.toarray() if is_sparse(c) else np.asarray(c) for c in own])
    while not isinstance(estimator, Pipeline) and hasattr(estimator, "best_estimator_"):
        estimator = estimator.best_estimator_
    if isinstance(estimator, Pipeline) and len(estimator.steps) > 1 and len(found):
        steps = estimator[:-1]
        if not hasattr(steps, "inverse_transform"):
            return none
        found = np.asarray(steps.inverse_transform(found))
    return np.unique(found, axis=0) if found.shape[1] == columns else none
