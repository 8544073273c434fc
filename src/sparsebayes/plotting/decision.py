"""Classes as a function of two inputs: probabilities, boundary and relevance vectors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparsebayes._labels import plain
from sparsebayes.plotting._canvas import (
    BLUE,
    ORANGE,
    PALETTE,
    Display,
    axes_for,
    legend,
    look,
    short,
    title,
)
from sparsebayes.plotting._models import (
    centers,
    checked_count,
    checked_inputs,
    checked_model,
    checked_size,
    column_names,
    like,
)

FloatArray = NDArray[np.float64]

__all__ = ["DecisionDisplay"]

_SIZE = (6.5, 5.0)  # inches
_SURE = {0.1: "dotted", 0.9: "dashed"}  # probabilities that have a line too
_FEW = 6  # classes, of which each is called one


@dataclass(eq=False, kw_only=True, repr=False)
class DecisionDisplay(Display):
    """Probabilities of classes over two inputs, with data and relevance vectors.

    Two classes: the probability of the second one, and lines where it is one half, a tenth and nine
    tenths. More: the most probable class, the paler the less certain, and the lines between them.
    Use `from_estimator`; the parameters are what is drawn.

    Parameters
    ----------
    x0 : ndarray of shape (n0,)
        First input of the grid.
    x1 : ndarray of shape (n1,)
        Second input.
    probability : ndarray of shape (n1, n0, K)
        Probabilities of the classes on the grid.
    classes : ndarray of shape (K,)
        Their labels.
    X : ndarray of shape (n, 2) or None
        Data.
    y : ndarray of shape (n,) or None
        Labels of the data.
    vectors : ndarray of shape (m, 2)
        Relevance vectors.
    labels : tuple of two str
        Names of the inputs.
    caption : str
        The title.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn.
    figure_ : matplotlib Figure
        Its figure.
    surface_ : matplotlib QuadMesh or AxesImage
        Probabilities, or colors of the classes.
    boundaries_ : list of matplotlib QuadContourSet
        Where another class becomes the most probable one.
    levels_ : matplotlib QuadContourSet or None
        Where the probability of the second of two classes is 0.1 and 0.9.
    points_ : list of matplotlib Line2D
        Data of each class.
    vectors_ : matplotlib Line2D or None
        Relevance vectors.
    colorbar_ : matplotlib Colorbar or None
        Of two classes.

    Examples
    --------
    >>> from sparsebayes import RVC
    >>> from sparsebayes.datasets import mixtures
    >>> from sparsebayes.plotting import DecisionDisplay
    >>> data = mixtures(100, random_state=0)
    >>> model = RVC(gamma=4.0).fit(data.X, data.y)
    >>> display = DecisionDisplay.from_estimator(model, data.X, data.y, grid_resolution=50)
    >>> display.probability.shape
    (50, 50, 2)
    """

    x0: FloatArray
    x1: FloatArray
    probability: FloatArray
    classes: NDArray[Any]
    X: FloatArray | None = None
    y: NDArray[Any] | None = None
    vectors: FloatArray | None = None
    labels: tuple[str, str] = ("x0", "x1")
    caption: str = ""
    ax_: Any = field(init=False)
    figure_: Any = field(init=False)
    surface_: Any = field(init=False, default=None)
    boundaries_: list[Any] = field(init=False, default_factory=list)
    levels_: Any = field(init=False, default=None)
    points_: list[Any] = field(init=False, default_factory=list)
    vectors_: Any = field(init=False, default=None)
    colorbar_: Any = field(init=False, default=None)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike | None = None,
        *,
        grid_resolution: int = 150,
        margin: float = 0.08,
        ax: Any = None,
    ) -> Self:
        """Draw the class probabilities of a model over the range of X.

        Parameters
        ----------
        estimator : estimator
            A fitted classifier of two inputs with ``predict_proba``, or a pipeline or search.
        X : array-like of shape (n_samples, 2)
            Inputs, which are drawn and whose range is.
        y : array-like of shape (n_samples,), default=None
            Labels; without them no data are drawn.
        grid_resolution : int, default=150
            Points of the grid along each input.
        margin : float, default=0.08
            How far to go beyond the data, as a share of their range.
        ax : matplotlib Axes or None, default=None
            Where to draw; a new figure where it is None.

        Returns
        -------
        DecisionDisplay
            The display, drawn.
        """
        needs = "probabilities of classes (predict_proba)"
        last = checked_model(estimator, "predict_proba", cls.__name__, needs)
        rows = checked_inputs(X, 2, cls.__name__)
        resolution = checked_count("grid_resolution", grid_resolution, 2)
        margin = checked_size("margin", margin)
        low, high = rows.min(axis=0), rows.max(axis=0)
        beyond = np.where(high > low, margin * (high - low), 0.5)
        sides = [np.linspace(low[k] - beyond[k], high[k] + beyond[k], resolution) for k in (0, 1)]
        grid = np.stack([side.ravel() for side in np.meshgrid(*sides)], axis=1)
        probability = np.asarray(estimator.predict_proba(like(X, grid)))
        classes = np.asarray(last.classes_)
        found = centers(estimator, 2)
        names = column_names(X, estimator, 2)
        told = f"{len(found)} relevance vector" + ("" if len(found) == 1 else "s")
        return cls(
            x0=sides[0],
            x1=sides[1],
            probability=probability.reshape(resolution, resolution, len(classes)),
            classes=classes,
            X=rows if y is not None else None,
            y=_checked_labels(y, len(rows), classes),
            vectors=found if len(found) else None,
            labels=(names[0], names[1]),
            caption=told if len(found) else f"{len(classes)} classes",
        ).plot(ax)

    def _axes(self, ax: Any) -> Any:
        return axes_for(ax, _SIZE)

    def _draw(self, ax: Any) -> None:
        self.boundaries_, self.points_ = [], []
        two = len(self.classes) == 2
        self._draw_two(ax) if two else self._draw_several(ax)
        if self.X is not None and self.y is not None:
            prefix = "class " if len(self.classes) <= _FEW else ""
            for place, label in enumerate(self.classes.tolist()):
                here = self.X[self.y == label]
                (points,) = ax.plot(
                    *here.T,
                    linestyle="none",
                    markersize=4.5,
                    markeredgecolor="white",
                    markeredgewidth=0.5,
                    label=f"{prefix}{short(label, 18)}",
                    **look(place),
                )
                self.points_.append(points)
        if self.vectors is not None:
            from matplotlib.patheffects import withStroke

            # With a white rim they stand out on any color, and in a legend on a dark page.
            ring = {"markersize": 11, "markerfacecolor": "none", "markeredgewidth": 1.6}
            ring |= {"path_effects": [withStroke(linewidth=3.2, foreground="white")]}
            (self.vectors_,) = ax.plot(
                *self.vectors.T, "o", markeredgecolor="black", label="relevance vectors", **ring
            )
        ax.set_xlim(self.x0[0], self.x0[-1])
        ax.set_ylim(self.x1[0], self.x1[-1])
        ax.set_xlabel(short(self.labels[0]))
        ax.set_ylabel(short(self.labels[1]))
        title(ax, self.caption if two else f"{self.caption}; paler where less certain")
        legend(ax)

    def _draw_two(self, ax: Any) -> None:
        from matplotlib.colors import LinearSegmentedColormap

        second = self.probability[:, :, 1]
        colors = LinearSegmentedColormap.from_list("sparsebayes", [BLUE, "white", ORANGE])
        self.surface_ = ax.pcolormesh(
            self.x0,
            self.x1,
            second,
            cmap=colors,
            vmin=0.0,
            vmax=1.0,
            alpha=0.6,
            shading="nearest",
            rasterized=True,
        )
        self._boundary(ax, second - 0.5)
        within = [level for level in _SURE if second.min() < level < second.max()]
        if within:
            style = {"colors": "black", "linewidths": 0.8}
            dashes = [_SURE[level] for level in within]
            self.levels_ = ax.contour(self.x0, self.x1, second, within, linestyles=dashes, **style)
        self.colorbar_ = ax.figure.colorbar(
            self.surface_, ax=ax, shrink=0.9, ticks=[0.0, 0.25, 0.5, 0.75, 1.0]
        )
        for level, dash in (_SURE | {0.5: "solid"}).items():
            self.colorbar_.ax.axhline(level, color="black", linewidth=0.8, linestyle=dash)
        self.colorbar_.set_label(f"probability of class {short(self.classes.tolist()[1], 12)}")

    def _draw_several(self, ax: Any) -> None:
        from matplotlib.colors import to_rgb

        K = len(self.classes)
        best = self.probability.argmax(axis=2)
        sure = (self.probability.max(axis=2) - 1.0 / K) / (1.0 - 1.0 / K)
        hues = np.array([to_rgb(PALETTE[place % len(PALETTE)]) for place in range(K)])
        strength = 0.55 * np.clip(sure, 0.0, 1.0)[:, :, None]
        image = strength * hues[best] + (1.0 - strength)
        half = [0.5 * (side[1] - side[0]) for side in (self.x0, self.x1)]
        self.surface_ = ax.imshow(
            image,
            origin="lower",
            aspect="auto",
            interpolation="nearest",
            extent=(
                self.x0[0] - half[0],
                self.x0[-1] + half[0],
                self.x1[0] - half[1],
                self.x1[-1] + half[1],
            ),
        )
        for place in range(K):
            others = np.delete(self.probability, place, axis=2).max(axis=2)
            self._boundary(ax, self.probability[:, :, place] - others)

    def _boundary(self, ax: Any, lead: FloatArray) -> None:
        if lead.min() < 0 < lead.max():
            style = {"colors": "black", "linewidths": 1.2}
            self.boundaries_.append(ax.contour(self.x0, self.x1, lead, [0.0], **style))


def _checked_labels(y: Any, n: int, classes: NDArray[Any]) -> NDArray[Any] | None:
    if y is None:
        return None
    labels = plain(y)
    if labels.shape != (n,):
        raise ValueError(f"y must have one label for each of {n} rows, got {labels.shape}.")
    known = classes.tolist()
    strange = [label for label in labels.tolist() if label not in known]
    if strange:
        raise ValueError(f"y holds {strange[0]!r}, which is none of the classes of the model.")
    return labels
