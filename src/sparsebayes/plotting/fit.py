"""A function of one input: data, prediction, error bands and relevance vectors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from sparsebayes._alignment import checked_level
from sparsebayes._pipelines import through
from sparsebayes.plotting._canvas import (
    BLUE,
    MANY,
    ORANGE,
    Display,
    axes_for,
    ink,
    legend,
    short,
    title,
)
from sparsebayes.plotting._models import (
    centers,
    checked_count,
    checked_inputs,
    checked_model,
    checked_size,
    checked_targets,
    column_names,
    like,
)

FloatArray = NDArray[np.float64]
Band = tuple[FloatArray, FloatArray]

__all__ = ["FitDisplay"]

_SIZE = (7.0, 4.5)  # inches
_REACH = 1.5  # ranges of data and prediction that bands may go beyond them


@dataclass(eq=False, kw_only=True, repr=False)
class FitDisplay(Display):
    """A regression on one input with its error bands; relevance vectors are circled.

    Use `from_estimator`; the parameters are what is drawn.

    Parameters
    ----------
    grid : ndarray of shape (n,)
        Where the prediction is drawn, in order.
    prediction : ndarray of shape (n,)
        Predicted there.
    target_band : tuple of two ndarray of shape (n,), or None
        Ends of the intervals of targets, noise included.
    function_band : tuple of two ndarray of shape (n,), or None
        Ends of the intervals of the function without noise.
    level : float
        Probability of the intervals.
    x, y : ndarray of shape (N,) or None
        Data.
    truth : tuple of two ndarray of shape (k,), or None
        Inputs and values of a function to compare with.
    vectors : tuple of two ndarray of shape (m,), or None
        Where relevance vectors are circled.
    x_label, y_label : str
        Names of the axes.
    caption : str
        The title.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn.
    figure_ : matplotlib Figure
        Its figure.
    line_, target_band_, function_band_, data_, truth_, vectors_ : matplotlib artists or None
        What was drawn.

    Examples
    --------
    >>> from sparsebayes import RVR
    >>> from sparsebayes.datasets import sinc
    >>> from sparsebayes.plotting import FitDisplay
    >>> data = sinc(100, noise=0.1, random_state=0)
    >>> model = RVR(gamma=1 / 9).fit(data.X, data.y)
    >>> FitDisplay.from_estimator(model, data.X, data.y).ax_.get_title()
    '... relevance vectors, noise 0.09...'
    """

    grid: FloatArray
    prediction: FloatArray
    target_band: Band | None = None
    function_band: Band | None = None
    level: float = 0.95
    x: FloatArray | None = None
    y: FloatArray | None = None
    truth: Band | None = None
    vectors: Band | None = None
    x_label: str = "x"
    y_label: str = "y"
    caption: str = ""
    ax_: Any = field(init=False)
    figure_: Any = field(init=False)
    line_: Any = field(init=False, default=None)
    target_band_: Any = field(init=False, default=None)
    function_band_: Any = field(init=False, default=None)
    data_: Any = field(init=False, default=None)
    truth_: Any = field(init=False, default=None)
    vectors_: Any = field(init=False, default=None)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike | None = None,
        *,
        truth: Any = None,
        level: float = 0.95,
        target: int | None = None,
        grid_resolution: int = 300,
        margin: float = 0.05,
        augment: Any = False,
        marginalize: bool = False,
        ax: Any = None,
    ) -> Self:
        """Draw the predictions of a model over the range of X.

        Parameters
        ----------
        estimator : estimator
            A fitted regressor of one input, or a pipeline or search that ends with one.
        X : array-like of shape (n_samples, 1)
            Inputs, which are drawn and whose range is.
        y : array-like of shape (n_samples,) or (n_samples, n_targets), default=None
            Targets to draw.
        truth : callable or array-like of shape (n_samples,), default=None
            What to compare with: a function of an array of shape (n, 1), or values at the rows.
        level : float, default=0.95
            Probability of the intervals that are drawn as bands: of targets, noise included, and
            of the function without it (of counts, of their rate).
        target : int or None, default=None
            Which of several targets; None for the first.
        grid_resolution : int, default=300
            Points of the prediction. A dictionary that is known at the rows alone, such as
            wavelets, is drawn there.
        margin : float, default=0.05
            How far to go beyond the data, as a share of their range.
        augment, marginalize : default=False
            As in ``predict``.
        ax : matplotlib Axes or None, default=None
            Where to draw; a new figure where it is None.

        Returns
        -------
        FitDisplay
            The display, drawn.

        Examples
        --------
        >>> import numpy as np
        >>> from sparsebayes import RVR
        >>> from sparsebayes.plotting import FitDisplay
        >>> X = np.linspace(0, 4, 60)[:, None]
        >>> counts = np.random.default_rng(0).poisson(np.exp(1 + np.sin(X[:, 0])))
        >>> model = RVR(likelihood="poisson", gamma=0.5).fit(X, counts)
        >>> display = FitDisplay.from_estimator(model, X, counts, level=0.9)
        >>> bool((display.target_band[0] >= 0).all())
        True
        """
        last = checked_model(estimator, "predict", cls.__name__, "a regressor")
        if not hasattr(last, "predict_distribution") or hasattr(last, "classes_"):
            raise TypeError(
                f"{cls.__name__} draws regressors of sparsebayes, and {type(last).__name__} is "
                "none."
            )
        x = checked_inputs(X, 1, cls.__name__)[:, 0]
        level = checked_level(level)
        resolution = checked_count("grid_resolution", grid_resolution, 2)
        margin = checked_size("margin", margin)
        single = np.ndim(last.intercept_) == 0
        if target is not None and (single or not 0 <= target < np.size(last.intercept_)):
            raise ValueError(f"target must be one of the targets of the model, got {target!r}.")
        column = None if single else (target or 0)
        options: dict[str, Any] = {}
        if augment is not False or marginalize is not False:
            options = {"augment": augment, "marginalize": marginalize}

        def at(places: FloatArray) -> tuple[FloatArray, Any]:
            inputs = through(estimator, like(X, places[:, None]))
            return last.predict(inputs, **options), last.predict_distribution(inputs, **options)

        low, high = float(x.min()), float(x.max())
        beyond = margin * (high - low) if high > low else 0.5
        grid = np.linspace(low - beyond, high + beyond, resolution)
        try:
            prediction, forecast = at(grid)
        except ValueError:  # atoms that are known at the rows of the fit alone
            grid = np.unique(x)
            prediction, forecast = at(grid)
        y_drawn = checked_targets(y, x.size, column)
        vectors = _vectors(centers(estimator, 1)[:, 0], x, y_drawn, grid, _one(prediction, column))
        return cls(
            grid=grid,
            prediction=_one(prediction, column),
            target_band=_target_band(forecast, level, column),
            function_band=_function_band(forecast, level, column),
            level=level,
            x=None if y is None else x,
            y=y_drawn,
            truth=_truth(truth, x, grid),
            vectors=vectors,
            x_label=column_names(X, estimator, 1)[0],
            y_label=str(getattr(y, "name", None) or "y"),
            caption=_caption(last, vectors),
        ).plot(ax)

    def _axes(self, ax: Any) -> Any:
        return axes_for(ax, _SIZE)

    def _draw(self, ax: Any) -> None:
        percent = f"{100 * self.level:g} %"
        if self.target_band is not None:
            self.target_band_ = ax.fill_between(
                self.grid,
                *self.target_band,
                facecolor=BLUE,
                alpha=0.15,
                linewidth=0,
                label=f"{percent} of targets",
            )
        if self.function_band is not None:
            self.function_band_ = ax.fill_between(
                self.grid,
                *self.function_band,
                facecolor=BLUE,
                alpha=0.35,
                linewidth=0,
                label=f"{percent} of function",
            )
        if self.x is not None and self.y is not None:
            style = {"color": "0.35", "markersize": 3.5, "markeredgewidth": 0}
            many = self.x.size > MANY
            (self.data_,) = ax.plot(
                self.x, self.y, "o", label="data", rasterized=many, zorder=2, **style
            )
        if self.truth is not None:
            (self.truth_,) = ax.plot(*self.truth, "--", color=ink(ax), linewidth=1, label="truth")
        (self.line_,) = ax.plot(
            self.grid, self.prediction, color=BLUE, linewidth=1.6, label="prediction", zorder=3
        )
        if self.vectors is not None:
            ring = {"markersize": 9, "markerfacecolor": "none", "markeredgewidth": 1.6}
            (self.vectors_,) = ax.plot(
                *self.vectors,
                "o",
                markeredgecolor=ORANGE,
                label="relevance vectors",
                zorder=4,
                **ring,
            )
        ax.margins(x=0)
        self._limit(ax)
        ax.set_xlabel(short(self.x_label))
        ax.set_ylabel(short(self.y_label))
        title(ax, self.caption)
        legend(ax)

    def _limit(self, ax: Any) -> None:
        """Keep bands that leave the data far behind from pressing these flat."""
        firm = [self.prediction, *([] if self.y is None else [self.y])]
        firm += [] if self.truth is None else [self.truth[1]]
        seen = np.concatenate(firm)
        seen = seen[np.isfinite(seen)]
        if seen.size == 0 or seen.min() == seen.max():
            return
        reach = _REACH * (seen.max() - seen.min())
        low, high = ax.get_ylim()
        ax.set_ylim(max(low, seen.min() - reach), min(high, seen.max() + reach))


def _one(values: Any, target: int | None) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    return array if target is None else array[:, target]


def _target_band(forecast: Any, level: float, target: int | None) -> Band | None:
    if not hasattr(forecast, "interval"):
        return None
    low, high = forecast.interval(level)
    return _one(low, target), _one(high, target)


def _function_band(forecast: Any, level: float, target: int | None) -> Band | None:
    z = float(ndtri(0.5 + 0.5 * level))
    if hasattr(forecast, "function_std"):
        mean, std = _one(forecast.mean, target), _one(forecast.function_std, target)
        return mean - z * std, mean + z * std
    if hasattr(forecast, "log_rate_std"):
        with np.errstate(over="ignore"):
            ends = [
                np.exp(forecast.log_rate + side * z * forecast.log_rate_std) for side in (-1, 1)
            ]
        largest = np.finfo(np.float64).max
        return np.minimum(ends[0], largest), np.minimum(ends[1], largest)
    return None


def _truth(truth: Any, x: FloatArray, grid: FloatArray) -> Band | None:
    if truth is None:
        return None
    places = grid if callable(truth) else x
    values = np.asarray(truth(grid[:, None]) if callable(truth) else truth, dtype=np.float64)
    if values.shape == (places.size, 1):
        values = values[:, 0]
    if values.shape != places.shape:
        raise ValueError(
            f"truth must give one value for each of {places.size} rows, got {values.shape}."
        )
    order = np.argsort(places, kind="stable")
    return places[order], values[order]


def _vectors(
    at: FloatArray, x: FloatArray, y: FloatArray | None, grid: FloatArray, line: FloatArray
) -> Band | None:
    """Centers on their data, where they sit at one, else on the line."""
    if at.size == 0:
        return None
    heights = np.interp(at, grid, line)
    if y is not None:
        # Up to the rounding of scalers that were undone.
        near = np.abs(at[:, None] - x[None, :]).argmin(axis=1)
        same = np.isclose(at, x[near], rtol=1e-9, atol=1e-12 * float(np.abs(x).max()))
        heights = np.where(same, y[near], heights)
    return at, heights


def _caption(model: Any, vectors: Band | None) -> str:
    posterior = model.posterior_
    count = len(posterior.norm)
    told = f"{count} atom" + ("" if count == 1 else "s")
    if vectors is not None and len(vectors[0]) == count:
        told = f"{count} relevance vector" + ("" if count == 1 else "s")
    noise = getattr(model, "noise_variance_", None)
    return told if noise is None else f"{told}, noise {noise**0.5:.2g}"
