"""Which inputs matter: shares of a kernel, or weights with error bars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sparsebayes._pipelines import input_names
from sparsebayes.dictionaries.linear import LinearAtoms
from sparsebayes.plotting._canvas import BLUE, GRAY, Display, axes_for, legend, look, short, title
from sparsebayes.plotting._models import checked_count, checked_model

FloatArray = NDArray[np.float64]

__all__ = ["RelevanceDisplay"]

_LEAST_SHARE = 1e-4  # of the relevance of inputs, on a logarithmic axis


@dataclass(eq=False, kw_only=True, repr=False)
class RelevanceDisplay(Display):
    """What each input is worth to a model, the most relevant on top.

    Of a kernel with a width for each input these are bars: shares of ``feature_relevance_``. Of a
    linear model they are weights with error bars. Use `from_estimator`; the parameters are what is
    drawn.

    Parameters
    ----------
    names : list of str
        Names of the inputs drawn, the first on top.
    values : ndarray of shape (k,) or (k, G)
        Shares; or weights, of G targets or classes.
    errors : ndarray of the same shape or None
        Half lengths of error bars of weights; None for shares.
    groups : list of str
        Names of several targets or classes.
    log : bool
        Whether the axis of shares is logarithmic.
    caption : str
        The title.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn.
    figure_ : matplotlib Figure
        Its figure.
    bars_ : matplotlib BarContainer or list of ErrorbarContainer
        Bars of shares, or weights of each group.

    Examples
    --------
    >>> from sparsebayes import RVR
    >>> from sparsebayes.datasets import sinc
    >>> from sparsebayes.plotting import RelevanceDisplay
    >>> data = sinc(50, noise=0.1, random_state=0)
    >>> model = RVR(gamma=[0.1]).fit(data.X, data.y)
    >>> display = RelevanceDisplay.from_estimator(model, feature_names=["time"])
    >>> [label.get_text() for label in display.ax_.get_yticklabels()]
    ['time']
    """

    names: list[str]
    values: FloatArray
    errors: FloatArray | None = None
    groups: list[str] = field(default_factory=list)
    log: bool = False
    caption: str = ""
    ax_: Any = field(init=False)
    figure_: Any = field(init=False)
    bars_: Any = field(init=False, default=None)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        feature_names: Sequence[str] | None = None,
        most: int = 30,
        log: bool = False,
        ax: Any = None,
    ) -> Self:
        """Draw the relevance of the inputs of a model.

        Parameters
        ----------
        estimator : estimator
            A fitted `RVR` or `RVC` with a width for each input, learned (``gamma="ard"``) or given;
            or a model of linear atoms; or a pipeline or search that ends with one.
        feature_names : sequence of str, default=None
            Names of the inputs; by default those of the data frame that was fitted, else x0, x1.
        most : int, default=30
            Most inputs that are drawn; less relevant ones are left out. Of linear models only
            inputs that were kept are drawn, those first whose weight is most certain not to be
            zero.
        log : bool, default=False
            Whether the axis of shares is logarithmic, from one in ten thousand: it tells inputs
            along which the function is nearly straight, whose widths are large, from those that do
            nothing.
        ax : matplotlib Axes or None, default=None
            Where to draw; a new figure where it is None.

        Returns
        -------
        RelevanceDisplay
            The display, drawn.

        Examples
        --------
        >>> from sparsebayes import SparseBayesRegressor
        >>> from sparsebayes.datasets import sparse_linear
        >>> from sparsebayes.plotting import RelevanceDisplay
        >>> data = sparse_linear(100, 20, 3, random_state=0)
        >>> display = RelevanceDisplay.from_estimator(SparseBayesRegressor().fit(data.X, data.y))
        >>> len(display.names), display.ax_.get_xlabel()
        (3, 'weight ± 2 std')
        """
        last = checked_model(estimator, "posterior_", cls.__name__, "a posterior of weights")
        most = checked_count("most", most, 1)
        if hasattr(last, "feature_relevance_"):
            share = np.asarray(last.feature_relevance_)
            names = _names(estimator, feature_names, share.size)
            drawn = np.argsort(-share, kind="stable")[:most]
            shown = "" if drawn.size == share.size else f", {drawn.size} of {share.size}"
            return cls(
                names=[names[place] for place in drawn],
                values=share[drawn],
                log=bool(log),
                caption=f"relevance of inputs{shown}",
            ).plot(ax)
        if not isinstance(last.posterior_.atoms, LinearAtoms):
            raise ValueError(
                f"this {type(last).__name__} has no feature_relevance_: fit it with gamma='ard', "
                "or with one gamma for each input."
            )
        weights, errors = _weights(last)
        names = _names(estimator, feature_names, len(weights))
        certain = np.abs(weights) / np.where(errors > 0, errors, np.inf)
        order = np.argsort(-certain.max(axis=1), kind="stable")
        kept = order[(weights[order] != 0).any(axis=1)]
        drawn = kept[:most]
        groups = _groups(last, weights.shape[1])
        shown = "" if drawn.size == kept.size else f", {drawn.size} drawn"
        single = weights.shape[1] == 1
        return cls(
            names=[names[place] for place in drawn],
            values=weights[drawn, 0] if single else weights[drawn],
            errors=2.0 * (errors[drawn, 0] if single else errors[drawn]),
            groups=groups,
            caption=f"{kept.size} of {len(weights)} inputs kept{shown}",
        ).plot(ax)

    def _axes(self, ax: Any) -> Any:
        return axes_for(ax, (6.0, 1.6 + 0.22 * len(self.names)))

    def _draw(self, ax: Any) -> None:
        rows = np.arange(len(self.names))
        ax.set_yticks(rows, [short(name) for name in self.names])
        if self.errors is None:
            self.bars_ = ax.barh(rows, self.values, color=BLUE, height=0.7)
            ax.set_xscale("log" if self.log else "linear")
            largest = float(self.values.max(initial=0.0)) or 1.0
            ax.set_xlim(_LEAST_SHARE if self.log else 0.0, (2.0 if self.log else 1.05) * largest)
            ax.set_xlabel("share of relevance")
        else:
            self._draw_weights(ax, rows)
        ax.set_ylim(max(rows.size, 1) - 0.5, -0.5)
        _fit_ticks(ax, rows.size)
        title(ax, self.caption)
        if self.groups:
            legend(ax, list(self.bars_))

    def _draw_weights(self, ax: Any, rows: NDArray[np.intp]) -> None:
        values, errors = np.atleast_2d(self.values.T), np.atleast_2d(np.asarray(self.errors).T)
        count = len(values)
        self.bars_ = []
        ax.axvline(0.0, color=GRAY, linewidth=0.8, zorder=0)
        for place in range(count):
            there = values[place] != 0
            off = 0.6 * ((place + 0.5) / count - 0.5)
            bar = ax.errorbar(
                values[place][there],
                rows[there] + off,
                xerr=errors[place][there],
                linestyle="none",
                markersize=4,
                elinewidth=1.2,
                capsize=2,
                label=short(self.groups[place]) if self.groups else None,
                **look(place),
            )
            self.bars_.append(bar)
        ax.set_xlabel("weight \u00b1 2 std")


def _names(estimator: Any, given: Sequence[str] | None, count: int) -> list[str]:
    names = input_names(estimator) if given is None else [str(name) for name in given]
    if len(names) != count:
        raise ValueError(f"feature_names must name each of {count} inputs, got {len(names)}.")
    return names


def _weights(model: Any) -> tuple[FloatArray, FloatArray]:
    """Weights of all inputs and their standard deviations, shapes (M, G)."""
    posterior = model.posterior_
    coef = np.atleast_2d(model.coef_).T
    std = np.zeros(coef.shape)
    own = np.sqrt(np.maximum(np.diag(posterior.covariance), 0.0))
    if hasattr(posterior, "latent"):
        std[posterior.atoms.index[posterior.atom], posterior.latent] = own
    else:
        std[posterior.atoms.index] = own[:, None]
    return coef, std


def _groups(model: Any, count: int) -> list[str]:
    if count == 1:
        return []
    if hasattr(model, "classes_"):
        return [str(label) for label in model.classes_.tolist()]
    return [f"target {place}" for place in range(count)]


def _fit_ticks(ax: Any, count: int) -> None:
    """Make the names no higher than their rows."""
    height = 72.0 * ax.bbox.height / ax.figure.dpi / max(count, 1)
    labels = ax.get_yticklabels()
    if labels and labels[0].get_fontsize() > 0.9 * height:
        ax.tick_params(axis="y", labelsize=max(0.9 * height, 4.0))
