"""Signals and images with their uncertainty, and the parts of a union."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparsebayes.plotting._canvas import (
    BLUE,
    GRAY,
    LINES,
    MANY,
    PALETTE,
    Display,
    ink,
    legend,
    panels_for,
    short,
    title,
)
from sparsebayes.plotting._models import checked_size
from sparsebayes.plotting._results import caption, checked_result

FloatArray = NDArray[np.float64]

__all__ = ["SignalDisplay"]

_SIGNAL, _IMAGE = (8.0, 4.0), (5.5, 4.5)  # sizes of figures, in inches
_KINDS = ("signal", "std", "parts")


@dataclass(eq=False, kw_only=True, repr=False)
class SignalDisplay(Display):
    """A signal with its data and a band of its uncertainty, or an image.

    Use `from_result`; the parameters are what is drawn.

    Parameters
    ----------
    kind : {"signal", "std", "parts"}, default="signal"
        What is drawn: the signal (of an image its pixels); its posterior standard deviation, a
        line or a map; what each part of a union contributes.
    signal : ndarray of shape (n,) or (n1, n2)
        Posterior mean.
    std : ndarray of the same shape
        Posterior standard deviation, noise not included.
    parts : list of ndarray
        What is drawn below each other where ``kind`` is "parts".
    part_names : list of str
        Names of the parts.
    data : ndarray of the same shape or None
        Data, NaN where they are missing.
    truth : ndarray of the same shape or None
        A signal to compare with.
    x : ndarray of shape (n,)
        Positions of the samples of a signal.
    band : float
        Half the width of the band, in standard deviations; 0 for none.
    x_label : str
        What the positions of a signal are.
    caption : str
        The title.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn; of several panels the place of all, or the first.
    axes_ : ndarray of matplotlib Axes
        The panels.
    figure_ : matplotlib Figure
        Their figure.
    line_, band_, data_, truth_ : matplotlib artists or None
        What was drawn of a signal.
    image_ : matplotlib AxesImage or None
        What was drawn of an image.
    part_lines_ : list of matplotlib artists
        What was drawn of parts.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes import denoise
    >>> from sparsebayes.plotting import SignalDisplay
    >>> noise = 0.1 * np.random.default_rng(0).standard_normal(100)
    >>> found = denoise(np.sin(np.arange(100.0) / 9) + noise)
    >>> SignalDisplay.from_result(found).ax_.get_title()
    '16 of 100 atoms, noise 0.089'
    """

    signal: FloatArray
    std: FloatArray
    x: FloatArray
    kind: str = "signal"
    parts: list[FloatArray] = field(default_factory=list)
    part_names: list[str] = field(default_factory=list)
    data: FloatArray | None = None
    truth: FloatArray | None = None
    band: float = 2.0
    x_label: str = "sample"
    caption: str = ""
    ax_: Any = field(init=False)
    axes_: Any = field(init=False)
    figure_: Any = field(init=False)
    line_: Any = field(init=False, default=None)
    band_: Any = field(init=False, default=None)
    data_: Any = field(init=False, default=None)
    truth_: Any = field(init=False, default=None)
    image_: Any = field(init=False, default=None)
    part_lines_: list[Any] = field(init=False, default_factory=list)

    @classmethod
    def from_result(
        cls,
        result: Any,
        *,
        kind: str = "signal",
        x: ArrayLike | None = None,
        x_label: str | None = None,
        truth: ArrayLike | None = None,
        band: float = 2.0,
        part_names: Sequence[str] | None = None,
        ax: Any = None,
    ) -> Self:
        """Draw what `denoise` or `reconstruct` returned, for one signal or image.

        Parameters
        ----------
        result : Denoised or Reconstruction
            The result.
        kind : {"signal", "std", "parts"}, default="signal"
            The signal with its data and a band; the standard deviation, of an image as a map; or
            the parts of a union, below each other (images: beside).
        x : array-like of shape (n,), default=None
            Positions of the samples; their numbers by default. For signals.
        x_label : str, default=None
            What they are, such as "time in s"; "sample" or "position" by default.
        truth : array-like of shape (n,), default=None
            A signal to compare with. For signals.
        band : float, default=2.0
            Half the width of the band, in posterior standard deviations; 0 for no band.
        part_names : sequence of str, default=None
            Names of the parts.
        ax : matplotlib Axes, array of Axes or None, default=None
            Where to draw; a new figure where it is None. Parts take one for each, or the place of
            one.

        Returns
        -------
        SignalDisplay
            The display, drawn.

        Examples
        --------
        >>> import numpy as np
        >>> from sparsebayes import denoise
        >>> from sparsebayes.dictionaries import Kernel, Linear
        >>> from sparsebayes.plotting import SignalDisplay
        >>> t = np.arange(40.0)
        >>> noisy = t + 9 * np.exp(-((t - 20) ** 2)) + np.random.default_rng(0).standard_normal(40)
        >>> found = denoise(noisy, Linear() + Kernel("rbf", gamma=1.0))
        >>> names = ["trend", "peak"]
        >>> len(SignalDisplay.from_result(found, kind="parts", part_names=names).axes_)
        2
        """
        if kind not in _KINDS:
            raise ValueError(f"kind must be one of {_KINDS}, got {kind!r}.")
        signal = _one(checked_result(result, "signal"))
        parts = [_one(part) for part in checked_result(result, "parts")] if kind == "parts" else []
        names = [f"part {place + 1}" for place in range(len(parts))]
        if part_names is not None and kind == "parts":
            names = [str(name) for name in part_names]
        if len(names) != len(parts):
            raise ValueError(f"part_names must name each of {len(parts)} parts, got {len(names)}.")
        data = getattr(result, "data", None)
        same = data is not None and np.shape(data) == signal.shape
        found = cls(
            kind=kind,
            signal=signal,
            std=_one(checked_result(result, "std")) if kind == "std" or band else signal * 0.0,
            x=_aligned("x", np.arange(signal.size) if x is None else x, signal),
            parts=parts,
            part_names=names,
            data=np.asarray(data) if same else None,
            truth=None if truth is None else _aligned("truth", truth, signal),
            band=checked_size("band", band),
            x_label=("sample" if x is None else "position") if x_label is None else str(x_label),
            caption=caption(result),
        )
        return found.plot(ax)

    def _axes(self, ax: Any) -> Any:
        image = self.signal.ndim == 2
        count = max(len(self.parts), 1) if self.kind == "parts" else 1
        size = _IMAGE if image else _SIGNAL
        if count > 1:
            size = (4.0 * count, 4.0) if image else (8.0, 2.2 * count)
        place, self.axes_ = panels_for(ax, count, size, across=image)
        return place

    def _draw(self, ax: Any) -> None:
        if self.kind == "parts":
            self._draw_parts()
        elif self.kind == "std":
            self._draw_std(self.axes_[0])
        elif self.signal.ndim == 2:
            self.image_ = _draw_image(self.axes_[0], self.signal, "gray")
            title(self.axes_[0], self.caption)
        else:
            self._draw_signal(self.axes_[0])

    def _draw_signal(self, ax: Any) -> None:
        dense = self.signal.size > MANY
        if self.data is not None:
            style = {"markersize": 2.5, "color": "0.6", "rasterized": dense}
            (self.data_,) = ax.plot(self.x, self.data, ".", label="data", zorder=1, **style)
        if self.band:
            edge = self.band * self.std
            self.band_ = ax.fill_between(
                self.x,
                self.signal - edge,
                self.signal + edge,
                color=BLUE,
                alpha=0.3,
                linewidth=0,
                zorder=2,
                rasterized=dense,
                label=f"{self.band:g} standard deviations",
            )
        if self.truth is not None:
            style = {"color": ink(ax), "linewidth": 1, "rasterized": dense}
            (self.truth_,) = ax.plot(self.x, self.truth, "--", label="truth", **style)
        style = {"color": BLUE, "linewidth": 1.2, "rasterized": dense}
        (self.line_,) = ax.plot(self.x, self.signal, zorder=3, label="signal", **style)
        ax.margins(x=0)
        ax.set_xlabel(short(self.x_label))
        title(ax, self.caption)
        legend(ax)

    def _draw_std(self, ax: Any) -> None:
        if self.std.ndim == 2:
            self.image_ = _draw_image(ax, self.std, "viridis")
        else:
            (self.line_,) = ax.plot(self.x, self.std, color=BLUE, linewidth=1.2)
            ax.margins(x=0)
            ax.set_ylim(bottom=0)
            ax.set_xlabel(short(self.x_label))
        title(ax, "posterior standard deviation")

    def _draw_parts(self) -> None:
        self.part_lines_ = []
        for place, (ax, part) in enumerate(zip(self.axes_, self.parts, strict=True)):
            if part.ndim == 2:
                self.part_lines_.append(_draw_image(ax, part, "gray"))
            else:
                color, dashes = PALETTE[place % len(PALETTE)], LINES[place % len(LINES)]
                style = {"color": color, "linestyle": dashes, "linewidth": 1.2}
                ax.axhline(0.0, color=GRAY, linewidth=0.6, zorder=0)
                self.part_lines_ += ax.plot(self.x, part, **style)
                ax.margins(x=0)
            ax.set_title(short(self.part_names[place]), fontsize="medium", loc="left")
        if self.signal.ndim == 1:
            self.axes_[-1].set_xlabel(short(self.x_label))


def _one(values: Any) -> FloatArray:
    array = np.asarray(values)
    if array.ndim not in (1, 2):
        raise ValueError(f"one signal or image can be drawn, got an array of shape {array.shape}.")
    return array


def _aligned(name: str, values: Any, signal: FloatArray) -> FloatArray:
    if signal.ndim == 2 and name == "x":
        return np.empty(0)
    array = np.asarray(values)
    if array.shape != signal.shape:
        raise ValueError(
            f"{name} must have the shape {signal.shape} of the signal, got {array.shape}."
        )
    return array


def _draw_image(ax: Any, values: FloatArray, colors: str) -> Any:
    from matplotlib.ticker import MaxNLocator

    image = ax.imshow(values, cmap=colors, interpolation="nearest")
    # A few ticks, whose number does not change with the room that is made for them.
    ax.figure.colorbar(image, ax=ax, shrink=0.8, ticks=MaxNLocator(4))
    ax.set_xticks([])
    ax.set_yticks([])
    return image
