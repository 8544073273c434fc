"""How good predictions of rows are that a model has not seen."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparsebayes._calibration import Bin, reliability
from sparsebayes._labels import plain
from sparsebayes.reporting._html import percent

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = ["ClassQuality", "NumberQuality", "judge_classes", "judge_numbers", "measure"]

LEVELS = (0.5, 0.9, 0.95)  # of the intervals whose coverage is stated
_CURVE = tuple(round(0.1 * k, 1) for k in range(1, 10)) + (0.95,)


@dataclass(frozen=True)
class NumberQuality:
    """Predictions of one target beside what was observed."""

    observed: FloatArray  # (n,)
    predicted: FloatArray  # (n,)
    std: FloatArray  # (n,)
    low: FloatArray  # (n,) ends of error bars
    high: FloatArray  # (n,)
    reach: str  # what the error bars are
    function_std: FloatArray | None  # (n,) the same without noise, where it is normal
    discrete: bool  # counts, whose intervals hold at least what they state
    rmse: float
    mae: float
    naive: float  # RMSE of the mean of the observed
    r2: float | None  # None where the observed are all equal
    log_density: float | None  # None where the distribution has none
    coverage: dict[float, float]  # of each level; empty where there are no intervals
    curve: dict[float, float]  # the same at more levels

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.observed)

    @property
    def surprise(self) -> FloatArray:
        """Errors in standard deviations, shape (n,)."""
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            errors = (self.observed - self.predicted) / self.std
        return np.where(np.isnan(errors), 0.0, errors)


@dataclass(frozen=True)
class ClassQuality:
    """Predicted classes beside those observed."""

    classes: NDArray[Any]  # (K,) that the model knows
    unknown: NDArray[Any]  # labels observed that it does not know
    codes: IndexArray  # (n,) position of the observed among them, -1 for unknown ones
    predicted: IndexArray  # (n,)
    proba: FloatArray  # (n, K)
    labels: NDArray[Any]  # (n,) observed
    accuracy: float
    naive_accuracy: float  # of the most frequent class
    log_loss: float  # infinite where a class is unknown
    naive_log_loss: float  # of the frequencies of the classes
    brier: float
    confusion: IndexArray  # (K, K) observed by predicted, unknown ones left out
    bins: list[Bin]

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.codes)

    @property
    def confidence(self) -> FloatArray:
        """Probability of the predicted class, shape (n,)."""
        return np.asarray(self.proba.max(axis=1))

    @property
    def of_truth(self) -> FloatArray:
        """Probability of the observed class, shape (n,); zero where it is unknown."""
        chosen = self.proba[np.arange(self.n), self.codes]
        return np.where(self.codes < 0, 0.0, chosen)


def judge_numbers(model: Any, X: Any, y: FloatArray) -> list[NumberQuality]:
    """Compare a regression with what was observed.

    Parameters
    ----------
    model : estimator
        A fitted regressor.
    X : array or matrix of shape (n, d)
        Inputs, as the model takes them.
    y : ndarray of shape (n, T)
        Targets.

    Returns
    -------
    list of NumberQuality
        One for each target.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes import RVR
    >>> from sparsebayes.datasets import sinc
    >>> data, new = sinc(100, noise=0.1, random_state=0), sinc(500, noise=0.1, random_state=1)
    >>> found = judge_numbers(RVR(gamma=0.1).fit(data.X, data.y), new.X, new.y[:, None])[0]
    >>> round(found.rmse, 2), found.coverage[0.9] > 0.8
    (0.11, True)
    """
    found = model.predict_distribution(X)
    function_std = getattr(found, "function_std", None)
    # Of another likelihood `predict` takes the mean at the mean of the latent function.
    mean = model.predict(X) if function_std is None else found.mean
    mean, std = (np.reshape(values, y.shape) for values in (mean, found.std))
    density = _log_density(found, y)
    inside = {level: _inside(found, y, level) for level in {*LEVELS, *_CURVE}}
    bars = error_bars(found, mean)
    low, high = (np.reshape(end, y.shape) for end in (bars.low, bars.high))
    return [
        _one_target(
            y[:, t],
            mean[:, t],
            None if density is None else density[:, t],
            {level: float(hit[:, t].mean()) for level, hit in inside.items() if hit is not None},
            std=std[:, t],
            low=low[:, t],
            high=high[:, t],
            reach=bars.reach,
            function_std=None if function_std is None else np.reshape(function_std, y.shape)[:, t],
            discrete=hasattr(found, "logpmf"),
        )
        for t in range(y.shape[1])
    ]


class ErrorBars(NamedTuple):
    """Ends of error bars, and what they are."""

    low: FloatArray
    high: FloatArray
    reach: str


def error_bars(found: Any, mean: FloatArray) -> ErrorBars:
    """Intervals of 95 % of a distribution.

    Parameters
    ----------
    found : distribution
        Of a likelihood, perhaps the user's own, which need not have intervals.
    mean : ndarray
        Its means, or what is nearest to them.

    Returns
    -------
    ErrorBars
        Two standard deviations about the mean where it has no intervals.
    """
    if hasattr(found, "interval"):
        low, high = found.interval(0.95)
        return ErrorBars(low, high, f"intervals of {percent(0.95, 0)}")
    reach = 2.0 * np.reshape(found.std, mean.shape)
    return ErrorBars(mean - reach, mean + reach, "two standard deviations")


def _one_target(
    observed: FloatArray,
    predicted: FloatArray,
    density: FloatArray | None,
    coverage: dict[float, float],
    **given: Any,
) -> NumberQuality:
    unit = max(float(np.abs(observed).max()), float(np.abs(predicted).max()), 1e-290)
    error, spread = (observed - predicted) / unit, (observed - observed.mean()) / unit
    total = float(np.sum(spread**2))
    flat = bool((observed == observed[0]).all())
    return NumberQuality(
        observed=observed,
        predicted=predicted,
        **given,
        rmse=unit * math.sqrt(float(np.mean(error**2))),
        mae=unit * float(np.mean(np.abs(error))),
        naive=unit * math.sqrt(total / len(observed)),
        r2=None if flat or total == 0 else 1.0 - float(np.sum(error**2)) / total,
        log_density=None if density is None else float(density.mean()),
        coverage={level: coverage[level] for level in LEVELS if level in coverage},
        curve={level: coverage[level] for level in _CURVE if level in coverage},
    )


def _log_density(found: Any, y: FloatArray) -> FloatArray | None:
    """Log density of each target, or log probability of each count."""
    density = getattr(found, "logpmf", None) or getattr(found, "logpdf", None)
    if density is None:
        return None
    single = np.ndim(found.mean) == 1
    return np.reshape(density(y[:, 0] if single else y), y.shape)


def _inside(found: Any, y: FloatArray, level: float) -> NDArray[np.bool_] | None:
    if not hasattr(found, "interval"):
        return None
    low, high = (np.reshape(end, y.shape) for end in found.interval(level))
    return np.asarray((low <= y) & (y <= high))


def judge_classes(model: Any, X: Any, y: ArrayLike) -> ClassQuality:
    """Compare a classification with what was observed.

    Parameters
    ----------
    model : estimator
        A fitted classifier.
    X : array or matrix of shape (n, d)
        Inputs, as the model takes them.
    y : array-like of shape (n,)
        Labels.

    Returns
    -------
    ClassQuality
        The comparison.

    Examples
    --------
    >>> from sparsebayes import RVC
    >>> from sparsebayes.datasets import mixtures
    >>> data, new = mixtures(100, random_state=0), mixtures(1000, random_state=1)
    >>> found = judge_classes(RVC(gamma=4.0).fit(data.X, data.y), new.X, new.y)
    >>> round(found.accuracy, 1), len(found.bins) <= 10
    (0.9, True)
    """
    labels, classes = plain(y), model.classes_
    position = {label: place for place, label in enumerate(classes.tolist())}
    codes = np.array([position.get(label, -1) for label in labels.tolist()], dtype=np.intp)
    known = codes >= 0
    found = model.predict_distribution(X)
    proba, n, K = found.proba, len(codes), len(classes)
    predicted = np.asarray(found.log_proba.argmax(axis=1))
    counts = np.bincount(codes[known], minlength=K)
    shares = counts[counts > 0] / n
    one_hot = np.zeros((n, K))
    one_hot[np.flatnonzero(known), codes[known]] = 1.0
    squares = np.sum((proba - one_hot) ** 2, axis=1)
    confusion = np.zeros((K, K), dtype=np.intp)
    np.add.at(confusion, (codes[known], predicted[known]), 1)
    log_p = np.where(known, found.log_proba[np.arange(n), codes], -np.inf)
    if K == 2:
        bins = reliability(proba[:, 1], codes == 1)
    else:
        bins = reliability(proba.max(axis=1), codes == predicted)
    return ClassQuality(
        classes=classes,
        unknown=np.array(list(dict.fromkeys(labels[~known].tolist())), dtype=object),
        codes=codes,
        predicted=predicted,
        proba=proba,
        labels=labels,
        accuracy=float(np.mean(codes == predicted)),
        naive_accuracy=float(counts.max() / n),
        log_loss=float(-log_p.mean()),
        naive_log_loss=float(-(shares * np.log(shares)).sum()) if known.all() else math.inf,
        brier=float(squares.mean() / (2 if K == 2 else 1)),
        confusion=confusion,
        bins=bins,
    )


def measure(model: Any, X: Any, y: Any) -> dict[str, float | None]:
    """Measure the quality of predictions, by the numbers that a report shows.

    Parameters
    ----------
    model : estimator
        A fitted one of this package.
    X : array or matrix of shape (n, d)
        Inputs, as the model takes them.
    y : array-like of shape (n,) or (n, T)
        Targets, or labels.

    Returns
    -------
    dict of str to float or None
        "accuracy", "log_loss" and "brier" of classes; "rmse", "mae", "r2", "log_density" and
        "coverage_50", "coverage_90", "coverage_95" of numbers. None where it is not defined. Of
        several targets the mean (of squares, for "rmse"); log densities are added.

    Examples
    --------
    >>> from sparsebayes import RVR
    >>> from sparsebayes.datasets import sinc
    >>> data, new = sinc(100, noise=0.1, random_state=0), sinc(500, noise=0.1, random_state=1)
    >>> found = measure(RVR(gamma=0.1).fit(data.X, data.y), new.X, new.y)
    >>> round(found["rmse"], 2), found["coverage_90"] > 0.8
    (0.11, True)
    """
    if hasattr(model, "classes_"):
        classes = judge_classes(model, X, y)
        return {
            "accuracy": classes.accuracy,
            "log_loss": classes.log_loss,
            "brier": classes.brier,
        }
    targets = np.asarray(y, dtype=np.float64)
    found = judge_numbers(model, X, targets.reshape(len(targets), -1))
    densities = [one.log_density for one in found if one.log_density is not None]
    explained = [one.r2 for one in found if one.r2 is not None]
    every = len(found)
    return {
        "rmse": math.hypot(*(one.rmse / math.sqrt(every) for one in found)),
        "mae": sum(one.mae for one in found) / every,
        "r2": sum(explained) / every if len(explained) == every else None,
        "log_density": sum(densities) if len(densities) == every else None,
    } | {
        f"coverage_{level * 100:.0f}": sum(one.coverage[level] for one in found) / every
        for level in found[0].coverage
    }
