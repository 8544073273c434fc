"""Predictions of dask collections: computed partition by partition, when they are asked for."""

import copy
import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from sparsebayes.rows.checking import refused
from sparsebayes.rows.dask_rows import is_dask
from sparsebayes.rows.partitions import as_numbers, delayed_parts, is_array, is_tabular

F = TypeVar("F", bound=Callable[..., Any])

__all__ = ["lazily"]


def lazily(method: F) -> F:
    """Let a method that predicts rows in memory predict dask arrays and dataframes too.

    Parameters
    ----------
    method : callable
        Of a fitted estimator and X; returns an array, or a pair of the same shape, with one entry
        for each row, which does not depend on other rows.

    Returns
    -------
    callable
        The same, but of dask collections it returns dask arrays in the partitions of X.
    """

    @wraps(method)
    def predict(self: Any, X: Any, *args: Any, **options: Any) -> Any:
        if is_dask(X):
            return _predictions(method, self, X, args, options)
        return method(self, X, *args, **options)

    return cast(F, predict)


def _predictions(
    method: Callable[..., Any], model: Any, X: Any, args: Any, options: dict[str, Any]
) -> Any:
    import dask
    import dask.array as da

    check_is_fitted(model)
    asked = inspect.signature(method).bind(model, X, *args, **options)
    if asked.arguments.get("return_cov"):
        raise ValueError(
            "return_cov needs X in memory: a covariance of all rows has as many columns as rows."
        )
    _check_columns(model, X)
    if is_array(X):
        X = X.rechunk({1: -1})
    light = _without_history(model)
    # One row shows what kind of values there will be.
    sample = _of_rows(method, light, np.zeros((1, model.n_features_in_)), args, options)
    given = dask.delayed((method.__name__, light, args, options), traverse=False, pure=False)
    work = dask.delayed(_of_partition, pure=False)
    lengths = X.chunks[0] if is_array(X) else [np.nan] * X.npartitions
    values = da.concatenate(
        [
            da.from_delayed(
                work(given, part, number), shape=(n, *sample.shape[1:]), dtype=sample.dtype
            )
            for number, (part, n) in enumerate(zip(delayed_parts(X), lengths, strict=True))
        ],
        allow_unknown_chunksizes=True,
    )
    return (values[..., 0], values[..., 1]) if asked.arguments.get("return_std") else values


def _check_columns(model: Any, X: Any) -> None:
    """Refuse other columns than those of the fit, without a look at the rows."""
    if not is_tabular(X) or X.ndim != 2:
        shape = f"of shape {X.shape}" if is_array(X) else f"a {type(X).__name__}"
        raise ValueError(f"X must be a dask array with two dimensions or a dataframe, not {shape}.")
    first: Any = np.zeros((1, int(X.shape[1])))
    if not is_array(X):
        import pandas as pd

        first = pd.DataFrame(first, columns=X.columns)
    validate_data(model, first, reset=False, skip_check_array=True)


def _without_history(model: Any) -> Any:
    """A copy that predicts the same and holds nothing of how the fit went."""
    light = copy.copy(model)
    light.__dict__ = {
        name: value
        for name, value in vars(light).items()
        if not name.startswith("_") and name not in ("solution_", "feature_names_in_")
    }
    if hasattr(light, "callback"):
        light.callback = None
    return light


# What follows runs on workers.


def _of_partition(given: Any, part: Any, number: int) -> Any:
    name, light, args, options = given
    method = inspect.unwrap(getattr(type(light), name))
    rows = as_numbers(part)
    if rows.shape[0]:
        try:
            return _of_rows(method, light, rows, args, options)
        except ValueError as error:
            reason = str(error).strip().splitlines()[0].rstrip(".")
            raise refused(f"partition {number}", reason) from error
    one = np.zeros((1, light.n_features_in_))
    return _of_rows(method, light, one, args, options)[:0]


def _of_rows(
    method: Callable[..., Any], light: Any, rows: Any, args: Any, options: dict[str, Any]
) -> Any:
    found = method(light, rows, *args, **options)
    return np.stack(found, axis=-1) if isinstance(found, tuple) else found
