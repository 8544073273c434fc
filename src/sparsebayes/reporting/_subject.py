"""What a report is about: the model, and the rows that it was and was not fitted to, checked."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsebayes._labels import plain
from sparsebayes._pipelines import input_names, last_step, through
from sparsebayes.dictionaries._protocol import is_sparse
from sparsebayes.latent_posterior import LatentPosterior

FloatArray = NDArray[np.float64]

UNNAMED = "the target"

__all__ = ["Rows", "Subject", "subject"]


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of data as the estimator takes them.

    Parameters
    ----------
    X : float64 array or CSR matrix of shape (n, d)
        Inputs.
    y : ndarray of shape (n, T) or (n,), or None
        Targets as numbers, or labels; None where they are not known.
    labels : sequence or None, default=None
        What the rows are called: the index of a data frame. None numbers them from 0.
    """

    X: Any
    y: Any
    labels: Sequence[Any] | None = None

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    @property
    def counted(self) -> str:
        """What to say of their numbers."""
        return "; rows are counted from 0" if self.labels is None else ""

    def label(self, row: int) -> str:
        """What a row is called."""
        return str(row if self.labels is None else self.labels[row])


@dataclass(frozen=True, eq=False)
class Subject:
    """A fitted estimator of this package and everything that a report says something about."""

    model: Any  # the last step of what was given, for inputs without names
    steps: tuple[str, ...]  # names of the steps before it
    held_out: Rows | None
    training: Rows | None
    feature_names: list[str]
    target_names: list[str]

    @property
    def classifies(self) -> bool:
        """Whether it predicts classes."""
        return hasattr(self.model, "classes_")

    @property
    def gaussian(self) -> bool:
        """Whether its noise is normal, of one variance."""
        return not isinstance(self.model.posterior_, LatentPosterior)


def subject(
    model: Any, X_test: Any, y_test: Any, training: Any, target_names: Any, row_names: Any = None
) -> Subject:
    """Check what a report is to be about.

    Parameters
    ----------
    model : estimator
        A fitted one of this package, or a pipeline or search that ends with one.
    X_test, y_test : array-like or None
        Rows that the model was not fitted to.
    training : (X, y) or None
        Those that it was fitted to.
    target_names : str, iterable of str or None
        Names of the targets.
    row_names : sequence or None, default=None
        What the rows of X_test are called.

    Returns
    -------
    Subject
        All of it, or a TypeError or ValueError that says what is wrong.
    """
    from sklearn.utils.validation import check_is_fitted

    from sparsebayes.estimators._base import Fitting

    last = last_step(model)
    if not isinstance(last, Fitting):
        raise TypeError(
            "model must be a fitted estimator of sparsebayes, or a pipeline or search that ends "
            f"with one, got {type(last).__name__}."
        )
    check_is_fitted(last)
    if X_test is None and y_test is not None:
        raise ValueError("y_test was given without X_test: give both, or neither.")
    held_out = None if X_test is None else _rows(model, last, X_test, y_test, "test")
    if held_out is not None and row_names is not None:
        labels = list(row_names)
        if len(labels) != held_out.n:
            raise ValueError(f"row_names has {len(labels)} names, but X_test {held_out.n} rows.")
        held_out = replace(held_out, labels=labels)
    return Subject(
        model=_nameless(last),
        steps=_steps(model),
        held_out=held_out,
        training=_training(model, last, training),
        feature_names=input_names(model),
        target_names=_target_names(last, target_names, y_test),
    )


def _rows(model: Any, last: Any, X: Any, y: Any, what: str) -> Rows:
    labels = _index(X)
    X = through(model, X)
    X = (last if hasattr(X, "columns") else _nameless(last))._checked(X)
    return Rows(X, None if y is None else _targets(last, y, int(X.shape[0]), what), labels)


def _nameless(model: Any) -> Any:
    """The same model, without names of features: of checked arrays scikit-learn would warn."""
    same = object.__new__(type(model))
    same.__dict__ = {key: value for key, value in vars(model).items() if key != "feature_names_in_"}
    return same


def _targets(last: Any, y: Any, n: int, what: str) -> NDArray[Any]:
    array = plain(y)
    if array.shape[:1] != (n,):
        raise ValueError(f"y_{what} has shape {array.shape}, but X_{what} has {n} rows.")
    if hasattr(last, "classes_"):
        if array.ndim == 2 and array.shape[1] == 1:
            array = array[:, 0]
        if array.ndim != 1:
            raise ValueError(f"y_{what} must hold one label for each row, got {array.shape}.")
        return array
    count = _count(last)
    try:
        numbers = array.astype(np.float64).reshape(n, -1)
    except (TypeError, ValueError):
        raise ValueError(
            f"y_{what} must hold numbers, as the model predicts numbers, got {array.dtype}."
        ) from None
    if numbers.shape[1] != count:
        raise ValueError(
            f"y_{what} has {numbers.shape[1]} targets, but the model was fitted to {count}."
        )
    missing = int((~np.isfinite(numbers)).any(axis=1).sum())
    if missing:
        raise ValueError(
            f"y_{what} has {missing} rows with missing or infinite values: leave them out of "
            f"X_{what} and y_{what}."
        )
    return numbers


def _training(model: Any, last: Any, training: Any) -> Rows | None:
    if training is None:
        kept = getattr(last, "_training", None)  # a reference that kernel regressions keep
        return None if kept is None else Rows(kept.X, kept.y)
    if not isinstance(training, tuple | list) or len(training) != 2:
        raise TypeError(f"training must be (X, y) of the fit, got {type(training).__name__}.")
    X, y = training
    return _rows(model, last, X, y, "train")


def _index(X: Any) -> Sequence[Any] | None:
    index = getattr(X, "index", None)
    if index is None or callable(index) or not hasattr(X, "columns"):
        return None
    found: Sequence[Any] = list(index)
    return found


def _count(last: Any) -> int:
    return len(last.posterior_.offset) if hasattr(last.posterior_, "noise_variance") else 1


def _steps(model: Any) -> tuple[str, ...]:
    """Names of the classes of all steps but the last."""
    from sklearn.pipeline import Pipeline

    found: list[str] = []
    while True:
        if isinstance(model, Pipeline):
            found += [
                type(step).__name__ for _, step in model.steps[:-1] if hasattr(step, "transform")
            ]
            model = model.steps[-1][1]
        elif hasattr(model, "best_estimator_"):
            model = model.best_estimator_
        else:
            return tuple(found)


def _target_names(last: Any, given: Any, y: Any) -> list[str]:
    count = 1 if hasattr(last, "classes_") else _count(last)
    if given is not None:
        names = [given] if isinstance(given, str) else [str(title) for title in _iterated(given)]
        if len(names) != count:
            raise ValueError(f"target_names has {len(names)} names, but there are {count} targets.")
        return names
    columns = getattr(y, "columns", None)
    if columns is not None and len(columns) == count:
        return [str(column) for column in columns]
    title = getattr(y, "name", None)
    if count == 1:
        return [UNNAMED if title is None else str(title)]
    return [f"target {place}" for place in range(count)]


def _iterated(given: Any) -> Iterable[Any]:
    try:
        return list(given)
    except TypeError:
        raise TypeError(
            f"target_names must be a name or several, got {type(given).__name__}."
        ) from None


def column_spread(X: Any) -> FloatArray:
    """Standard deviation of each input.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
        Inputs.

    Returns
    -------
    ndarray of shape (d,)
        Standard deviations.
    """
    from sparsebayes.dictionaries._rows import column_variances

    with np.errstate(over="ignore", under="ignore"):
        return np.sqrt(column_variances(X, None))


def column_range(X: Any) -> tuple[FloatArray, FloatArray]:
    """Lowest and highest value of each input.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
        Inputs.

    Returns
    -------
    low, high : ndarray of shape (d,)
        The range.
    """
    if is_sparse(X):
        low, high = (X.min(axis=0).toarray().ravel(), X.max(axis=0).toarray().ravel())
        return np.asarray(low), np.asarray(high)
    return X.min(axis=0), X.max(axis=0)
