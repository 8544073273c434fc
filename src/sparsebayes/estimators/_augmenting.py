"""The training data that ``augment`` of a prediction needs: kept in memory, or given again."""

from typing import Any

import numpy as np

from sparsebayes._samples import checked_weights
from sparsebayes.augmentation import TrainingData, kernel_part
from sparsebayes.latent_posterior import LatentPosterior

__all__ = ["training_data"]


def training_data(model: Any, augment: Any) -> TrainingData | None:
    """Find the data that a prediction is augmented by.

    Parameters
    ----------
    model : estimator
        A fitted regressor.
    augment : bool, (X, y) or (X, y, sample_weight)
        As given to ``predict``.

    Returns
    -------
    TrainingData or None
        The data; None where nothing is to be augmented. A ValueError where that is not possible.

    Examples
    --------
    >>> from sparsebayes import RVR
    >>> model = RVR(gamma=1.0, noise_variance=0.1).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 0.5])
    >>> training_data(model, False) is None
    True
    >>> training_data(model, True).X.shape
    (3, 1)
    """
    if isinstance(augment, bool | np.bool_):
        if not augment:
            return None
    elif not isinstance(augment, tuple | list) or len(augment) not in (2, 3):
        raise TypeError(
            "augment must be True, False, (X, y) or (X, y, sample_weight) of the fit, "
            f"got {_named(augment)}."
        )
    posterior = model.posterior_
    if isinstance(posterior, LatentPosterior):
        raise ValueError(
            f"augment is for Gaussian noise, and this model has likelihood={model.likelihood_!r}."
        )
    kernel_part(posterior.atoms)
    if isinstance(augment, bool | np.bool_):
        kept: TrainingData | None = getattr(model, "_training", None)
        if kept is None:
            raise ValueError(
                "augment=True needs the training data, which neither pickles nor model files hold: "
                "give them as augment=(X, y), or (X, y, sample_weight) if the fit had weights."
            )
        return kept
    X, y, *rest = augment
    _, X, y = model._checked_pair(X, y, multi_output=True, y_numeric=True, reset=False)
    targets = y.reshape(len(y), -1)
    if targets.shape[1] != len(posterior.offset):
        raise ValueError(
            f"augment=(X, y): y has {targets.shape[1]} targets, but the model was fitted to "
            f"{len(posterior.offset)}."
        )
    return TrainingData(X, targets, checked_weights(rest[0] if rest else None, len(targets)))


def _named(value: Any) -> str:
    if isinstance(value, tuple | list):
        return f"{len(value)} items"
    return repr(value) if isinstance(value, str | int | float | None) else type(value).__name__
