"""Whether probabilities and intervals mean what they say."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparsebayes._calibration import reliability, wilson
from sparsebayes._labels import plain
from sparsebayes._pipelines import through
from sparsebayes.plotting._canvas import BLUE, GRAY, Display, axes_for, title
from sparsebayes.plotting._models import checked_count, checked_model, checked_targets

FloatArray = NDArray[np.float64]

__all__ = ["ReliabilityDisplay"]

_SIZE = (5.0, 4.8)  # inches
_LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
_SUM = 1e-6  # by which probabilities of all classes may miss one
_SHARE = 0.25  # of the height, for the counts


@dataclass(eq=False, kw_only=True, repr=False)
class ReliabilityDisplay(Display):
    """How often something happened against the probability that was stated for it.

    Of two classes it is that of the second one, of more classes that of the predicted one, in bins
    of equal width; the bars below count the rows. Of regressions it is the probability of intervals
    and how many targets they hold. Error bars are of 95 %, for a share of so many rows (Wilson's).
    Points on the diagonal, up to their bars, are right. Use `from_estimator` or
    `from_predictions`; the parameters are what is drawn.

    Parameters
    ----------
    stated : ndarray of shape (k,)
        Mean probability of each bin, or of the intervals.
    share : ndarray of shape (k,)
        How often it happened.
    low, high : ndarray of shape (k,)
        Ends of the error bars.
    counts : ndarray of shape (k,)
        Rows in each bin.
    edges : ndarray of shape (k, 2) or None
        Ends of the bins; None of intervals.
    x_label, y_label : str
        What is drawn.
    caption : str
        The title.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn.
    figure_ : matplotlib Figure
        Its figure.
    points_ : matplotlib ErrorbarContainer
        Shares and their error bars.
    diagonal_ : matplotlib Line2D
        Where the two agree.
    counts_ax_ : matplotlib Axes or None
        Axes of the counts, over the same place.
    bars_ : matplotlib BarContainer or None
        The counts.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.plotting import ReliabilityDisplay
    >>> probability = np.random.default_rng(0).uniform(size=1000)
    >>> happened = np.random.default_rng(1).uniform(size=1000) < probability
    >>> display = ReliabilityDisplay.from_predictions(happened, probability)
    >>> len(display.share), int(display.counts.sum())
    (10, 1000)
    """

    stated: FloatArray
    share: FloatArray
    low: FloatArray
    high: FloatArray
    counts: NDArray[np.intp]
    edges: FloatArray | None = None
    x_label: str = "predicted probability"
    y_label: str = "observed share"
    caption: str = ""
    ax_: Any = field(init=False)
    figure_: Any = field(init=False)
    points_: Any = field(init=False, default=None)
    diagonal_: Any = field(init=False, default=None)
    counts_ax_: Any = field(init=False, default=None)
    bars_: Any = field(init=False, default=None)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        n_bins: int = 10,
        target: int | None = None,
        ax: Any = None,
    ) -> Self:
        """Draw how reliable a model is on data, which it should not have been fitted to.

        Parameters
        ----------
        estimator : estimator
            A fitted classifier with ``predict_proba``, a regressor of this package, or a pipeline
            or search that ends with one.
        X : array-like of shape (n_samples, n_features)
            Inputs.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Labels or targets.
        n_bins : int, default=10
            Bins of probabilities of classes.
        target : int or None, default=None
            Which of several targets; None for the first.
        ax : matplotlib Axes or None, default=None
            Where to draw; a new figure where it is None.

        Returns
        -------
        ReliabilityDisplay
            The display, drawn.

        Examples
        --------
        >>> from sparsebayes import RVR
        >>> from sparsebayes.datasets import sinc
        >>> from sparsebayes.plotting import ReliabilityDisplay
        >>> data, new = sinc(100, noise=0.1, random_state=0), sinc(500, noise=0.1, random_state=1)
        >>> model = RVR(gamma=1 / 9).fit(data.X, data.y)
        >>> ReliabilityDisplay.from_estimator(model, new.X, new.y).ax_.get_xlabel()
        'probability of the interval'
        """
        if hasattr(estimator, "predict_proba"):
            last = checked_model(estimator, "classes_", cls.__name__, "classes")
            proba = np.asarray(estimator.predict_proba(X))
            return cls.from_predictions(y, proba, classes=last.classes_, n_bins=n_bins, ax=ax)
        needs = "probabilities of classes or a predictive distribution"
        last = checked_model(estimator, "predict_distribution", cls.__name__, needs)
        forecast = last.predict_distribution(through(estimator, X))
        mean = np.asarray(forecast.mean)
        column = None if mean.ndim == 1 else (target or 0)
        if target is not None and (mean.ndim == 1 or not 0 <= target < mean.shape[1]):
            raise ValueError(f"target must be one of the targets of the model, got {target!r}.")
        observed = checked_targets(y, len(mean), column)
        if observed is None:
            raise ValueError("y must be given: what was predicted is compared with it.")
        return cls._of_intervals(forecast, observed, column, ax)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_prob: ArrayLike,
        *,
        classes: ArrayLike | None = None,
        n_bins: int = 10,
        ax: Any = None,
    ) -> Self:
        """Draw how reliable probabilities of classes were.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            Labels that came true.
        y_prob : array-like of shape (n_samples,) or (n_samples, n_classes)
            Probabilities: of the second class, or of each.
        classes : array-like of shape (n_classes,), default=None
            The classes in the order of the columns; by default the labels of ``y_true`` in order.
        n_bins : int, default=10
            Bins of equal width; those without rows are left out.
        ax : matplotlib Axes or None, default=None
            Where to draw; a new figure where it is None.

        Returns
        -------
        ReliabilityDisplay
            The display, drawn.
        """
        n_bins = checked_count("n_bins", n_bins, 1)
        labels, proba = plain(y_true), _checked_probabilities(y_prob)
        if labels.shape != (len(proba),):
            raise ValueError(f"y_true must be {len(proba)} labels, got the shape {labels.shape}.")
        known = np.unique(labels) if classes is None else np.asarray(classes)
        if classes is None and known.dtype.kind == "b":
            known = np.array([False, True])
        if len(known) != proba.shape[1]:
            raise ValueError(
                f"y_prob is of {proba.shape[1]} classes, and there are {len(known)}: give classes=."
            )
        place = {label: code for code, label in enumerate(known.tolist())}
        strange = [label for label in labels.tolist() if label not in place]
        if strange:
            raise ValueError(f"y_true holds {strange[0]!r}, which is none of the classes.")
        codes = np.array([place[label] for label in labels.tolist()], dtype=np.intp)
        two = proba.shape[1] == 2
        stated = proba[:, 1] if two else proba.max(axis=1)
        happened = codes == (1 if two else proba.argmax(axis=1))
        bins = reliability(stated, happened, n_bins)
        truth = np.zeros(proba.shape)
        truth[np.arange(len(codes)), codes] = 1.0
        brier = float(np.mean(np.sum((proba - truth) ** 2, axis=1)) / (2 if two else 1))
        with np.errstate(divide="ignore"):
            loss = float(-np.mean(np.log(proba[np.arange(len(codes)), codes])))
        return cls(
            stated=np.array([each.stated for each in bins]),
            share=np.array([each.share for each in bins]),
            low=np.array([each.least for each in bins]),
            high=np.array([each.most for each in bins]),
            counts=np.array([each.rows for each in bins], dtype=np.intp),
            edges=np.array([(each.low, each.high) for each in bins]),
            x_label="predicted probability" if two else "confidence in the predicted class",
            y_label="observed share" if two else "share that is right",
            caption=f"{len(codes)} rows: Brier {brier:.3g}, log loss {loss:.3g}",
        ).plot(ax)

    @classmethod
    def _of_intervals(
        cls, forecast: Any, observed: FloatArray, target: int | None, ax: Any
    ) -> Self:
        if not hasattr(forecast, "interval"):
            raise TypeError(f"{type(forecast).__name__} of this likelihood has no intervals.")
        n = len(observed)
        shares = []
        for level in _LEVELS:
            ends = [np.asarray(end) for end in forecast.interval(level)]
            low, high = (end if target is None else end[:, target] for end in ends)
            shares.append(float(np.mean((low <= observed) & (observed <= high))))
        bars = np.array([wilson(share, n) for share in shares])
        at = _LEVELS.index(0.9)
        return cls(
            stated=np.array(_LEVELS),
            share=np.array(shares),
            low=bars[:, 0],
            high=bars[:, 1],
            counts=np.full(len(_LEVELS), n, dtype=np.intp),
            x_label="probability of the interval",
            y_label="share of targets in it",
            caption=f"{n} rows: {100 * shares[at]:.1f} % in intervals of 90 %",
        ).plot(ax)

    def _axes(self, ax: Any) -> Any:
        return axes_for(ax, _SIZE)

    def _draw(self, ax: Any) -> None:
        (self.diagonal_,) = ax.plot([0, 1], [0, 1], "--", color=GRAY, linewidth=1, zorder=1)
        # A share of all or nothing is an end of its own bar.
        below = np.maximum(self.share - self.low, 0.0)
        above = np.maximum(self.high - self.share, 0.0)
        self.points_ = ax.errorbar(
            self.stated,
            self.share,
            yerr=np.stack([below, above]),
            fmt="o-",
            color=BLUE,
            markersize=5,
            linewidth=1.2,
            elinewidth=1.2,
            capsize=2.5,
            zorder=3,
        )
        ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
        ax.set_xlabel(self.x_label)
        ax.set_ylabel(self.y_label)
        title(ax, self.caption)
        if self.edges is not None:
            self._draw_counts(ax, self.edges)

    def _draw_counts(self, ax: Any, edges: FloatArray) -> None:
        """Bars that stay below the points, with an axis of their own on the right."""
        self.counts_ax_ = other = ax.twinx()
        width = edges[:, 1] - edges[:, 0]
        style = {"align": "edge", "color": "0.85", "edgecolor": "0.6", "linewidth": 0.5}
        self.bars_ = other.bar(edges[:, 0], self.counts, width, **style)
        most = int(self.counts.max())
        other.set_ylim(0, most / _SHARE)
        other.set_yticks([0, most])
        other.set_ylabel("rows", loc="bottom")
        ax.set_zorder(other.get_zorder() + 1)
        ax.patch.set_visible(False)


def _checked_probabilities(y_prob: Any) -> FloatArray:
    """Probabilities of all classes, shape (n, K)."""
    try:
        proba = np.asarray(y_prob, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError("y_prob must be probabilities, one or several for each row.") from None
    if proba.ndim == 1:
        proba = np.stack([1.0 - proba, proba], axis=1)
    if proba.ndim != 2 or proba.shape[0] == 0 or proba.shape[1] < 2:
        raise ValueError(
            f"y_prob must have the shape (n,) or (n, n_classes), got {np.shape(y_prob)}."
        )
    if not ((proba >= 0) & (proba <= 1)).all() or not (np.abs(proba.sum(axis=1) - 1) < _SUM).all():
        raise ValueError("y_prob must lie between 0 and 1, and sum to one over the classes.")
    return proba
