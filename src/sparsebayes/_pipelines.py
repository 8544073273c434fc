"""Through pipelines and searches to the estimator at their end, which knows more than they do."""

import contextlib
from typing import Any

from sklearn.pipeline import Pipeline

__all__ = ["input_names", "last_step", "through"]


def last_step(model: Any) -> Any:
    """Return the estimator at the end of pipelines and searches.

    Parameters
    ----------
    model : estimator
        Fitted or not.

    Returns
    -------
    estimator
        The last step, or the model itself.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sparsebayes import RVR
    >>> last_step(make_pipeline(StandardScaler(), RVR(gamma=0.5)))
    RVR(gamma=0.5)
    """
    while True:
        if isinstance(model, Pipeline):
            model = model.steps[-1][1]
        elif hasattr(model, "best_estimator_"):
            model = model.best_estimator_
        else:
            return model


def through(model: Any, X: Any) -> Any:
    """Inputs as the last step of a fitted model gets them.

    Parameters
    ----------
    model : estimator
        Fitted.
    X : array-like of shape (n_samples, n_features)
        Inputs as the model gets them.

    Returns
    -------
    array-like
        What all steps but the last made of them.
    """
    while True:
        if isinstance(model, Pipeline):
            for _, step in model.steps[:-1]:
                X = step.transform(X) if hasattr(step, "transform") else X
            model = model.steps[-1][1]
        elif hasattr(model, "best_estimator_"):
            model = model.best_estimator_
        else:
            return X


def input_names(model: Any) -> list[str]:
    """Name the inputs that the last step of a fitted model gets: as in its data frame, or x0, x1.

    Parameters
    ----------
    model : estimator
        Fitted.

    Returns
    -------
    list of str
        One for each input of the last step.
    """
    while not isinstance(model, Pipeline) and hasattr(model, "best_estimator_"):
        model = model.best_estimator_
    last = last_step(model)
    if hasattr(last, "feature_names_in_"):
        return [str(name) for name in last.feature_names_in_]
    if isinstance(model, Pipeline) and len(model.steps) > 1:
        with contextlib.suppress(AttributeError):  # of a step that does not name what it makes
            return [str(name) for name in model[:-1].get_feature_names_out()]
    return [f"x{place}" for place in range(last.n_features_in_)]
