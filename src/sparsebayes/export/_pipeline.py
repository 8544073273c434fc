"""Scalers and selectors in front of a model, folded into one shift and factor for each input."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectorMixin
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from sklearn.utils.validation import check_is_fitted

from sparsebayes.export._errors import ExportError

FloatArray = NDArray[np.float64]

__all__ = ["Inputs", "unfold"]

_KNOWN = "StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler and selectors of columns"


@dataclass(frozen=True, eq=False)
class Inputs:
    """Inputs of a model, made of the numbers that its user gives.

    Input j of the model is ``(x[index[j]] - shift[j]) * factor[j] + add[j]``.
    """

    names: tuple[str, ...]  # of what the user gives
    index: NDArray[np.intp]  # (d,)
    shift: FloatArray  # (d,)
    factor: FloatArray  # (d,)
    add: FloatArray  # (d,)

    @property
    def scaled(self) -> bool:
        """Whether any input is shifted or multiplied."""
        return bool(self.shift.any() or self.add.any() or (self.factor != 1.0).any())

    def then(self, shift: Any, factor: Any, add: Any) -> Inputs:
        """Scale what is there once more: ``(u - shift) * factor + add``."""
        if not (self.factor != 1.0).any() and not self.add.any():
            # Differences of numbers as the user gives them, before any product, lose no digits.
            moved = self.shift + shift
            return replace(self, shift=moved, factor=self.factor * factor, add=self.add + add)
        return replace(self, factor=self.factor * factor, add=(self.add - shift) * factor + add)

    def chosen(self, places: Any) -> Inputs:
        """Only some of the model's inputs."""
        fields = {name: getattr(self, name)[places] for name in ("index", "shift", "factor", "add")}
        return Inputs(self.names, **fields)

    def apply(self, X: FloatArray) -> FloatArray:
        """Inputs of the model from rows of what the user gives."""
        return np.asarray((X[:, self.index] - self.shift) * self.factor + self.add)


def unfold(model: Any) -> tuple[Any, Inputs]:
    """Separate the estimator at the end of pipelines and searches from what is done to its inputs.

    Parameters
    ----------
    model : estimator, Pipeline or search
        Fitted.

    Returns
    -------
    estimator
        The last step.
    Inputs
        How its inputs are made.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sparsebayes import RVR
    >>> X = np.array([[1.0], [2.0], [3.0], [6.0]])
    >>> pipeline = make_pipeline(StandardScaler(), RVR(noise_variance=0.1))
    >>> last, inputs = unfold(pipeline.fit(X, [0.0, 1.0, 2.0, 1.0]))
    >>> last, inputs.names, inputs.shift
    (RVR(noise_variance=0.1), ('x0',), array([3.]))
    """
    steps, last = _flat(model)
    first = steps[0] if steps else last
    if not hasattr(first, "n_features_in_"):
        _refuse_unfitted(first)
        raise ExportError(f"{type(first).__name__} does not say how many inputs it has")
    d = int(first.n_features_in_)
    given = getattr(first, "feature_names_in_", [f"x{place}" for place in range(d)])
    zero = np.zeros(d)
    inputs = Inputs(tuple(str(name) for name in given), np.arange(d), zero, np.ones(d), zero)
    for step in steps:
        inputs = _after(step, inputs)
    return last, inputs


def _flat(model: Any) -> tuple[list[Any], Any]:
    """Transformers, and the estimator at the end, which pipelines and searches may wrap."""
    steps: list[Any] = []
    while True:
        if isinstance(model, Pipeline):
            for _, step in model.steps[:-1]:
                steps += _transformers(step)
            model = model.steps[-1][1]
        elif hasattr(model, "best_estimator_"):
            model = model.best_estimator_
        else:
            return steps, model


def _transformers(step: Any) -> list[Any]:
    if step is None or (isinstance(step, str) and step == "passthrough"):
        return []
    if isinstance(step, Pipeline):
        return [inner for _, part in step.steps for inner in _transformers(part)]
    return [step]


def _after(step: Any, inputs: Inputs) -> Inputs:
    _refuse_unfitted(step)
    # Of these very classes: one of the user's that inherits may do anything.
    kind = type(step)
    if kind is StandardScaler:
        # The mean is known even where it is not subtracted.
        shift = step.mean_ if step.with_mean else 0.0
        return inputs.then(shift, 1.0 / _or(step.scale_, 1.0), 0.0)
    if kind is RobustScaler:
        return inputs.then(_or(step.center_, 0.0), 1.0 / _or(step.scale_, 1.0), 0.0)
    if kind is MaxAbsScaler:
        return inputs.then(0.0, 1.0 / step.scale_, 0.0)
    if kind is MinMaxScaler:
        if step.clip:
            raise ExportError(
                "MinMaxScaler(clip=True) is no shift and factor of its inputs, which is all that "
                "an export takes of a pipeline: use clip=False"
            )
        return inputs.then(step.data_min_, step.scale_, step.feature_range[0])
    if isinstance(step, SelectorMixin) and kind.transform is SelectorMixin.transform:
        return inputs.chosen(step.get_support(indices=True))
    raise ExportError(
        f"the pipeline holds a {type(step).__name__}, which is not exported: of what stands before "
        f"the model, {_KNOWN} are"
    )


def _or(values: Any, default: float) -> Any:
    return default if values is None else values


def _refuse_unfitted(step: Any) -> None:
    try:
        check_is_fitted(step)
    except (NotFittedError, TypeError):
        raise ExportError(
            f"{type(step).__name__} is not a fitted estimator: fit the model before its export"
        ) from None
