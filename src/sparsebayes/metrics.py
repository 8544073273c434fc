"""Scores of predictive distributions, for scikit-learn's searches and cross-validation."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sparsebayes._pipelines import last_step, through

__all__ = ["log_predictive_density"]


def log_predictive_density(
    estimator: Any, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None
) -> float:
    """Mean log density, or log probability, that a fitted model gave to the targets.

    It is a score in scikit-learn's sense, greater is better: give it as ``scoring=`` to
    ``GridSearchCV`` or ``cross_val_score``. Unlike R2 and accuracy it also judges error bars.

    Parameters
    ----------
    estimator : estimator
        A fitted one of this package, a pipeline that ends with one, or a search for one.
    X : array-like or scipy.sparse matrix of shape (n_samples, n_features)
        Inputs.
    y : array-like of shape (n_samples,) or (n_samples, n_targets)
        Targets, or labels of classes. Log densities of several targets add up.
    sample_weight : array-like of shape (n_samples,) or None, default=None
        Weights of the samples.

    Returns
    -------
    float
        In nats for each sample; of numbers it changes with the unit of y.

    Examples
    --------
    >>> from sparsebayes import RVR
    >>> from sparsebayes.datasets import sinc
    >>> from sparsebayes.metrics import log_predictive_density
    >>> data, new = sinc(100, noise=0.1, random_state=0), sinc(1000, noise=0.1, random_state=1)
    >>> good, narrow = (RVR(gamma=gamma).fit(data.X, data.y) for gamma in (0.1, 10.0))
    >>> round(log_predictive_density(good, new.X, new.y), 1)
    0.8
    >>> round(log_predictive_density(narrow, new.X, new.y), 1)
    0.5
    """
    model = last_step(estimator)
    if not hasattr(model, "predict_distribution"):
        raise TypeError(
            "estimator must be one of sparsebayes, or a pipeline or search that ends with one: "
            f"{model!r} predicts no distribution."
        )
    found = model.predict_distribution(through(estimator, X))
    density = getattr(found, "logpmf", None) or found.logpdf
    each = density(y)
    each = each.sum(axis=1) if each.ndim == 2 else each
    weights = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    return float(np.average(each, weights=weights))
