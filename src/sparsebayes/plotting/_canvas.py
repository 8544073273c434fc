"""Where pictures are drawn, and what all of them share: colors, titles, legends, panels."""

from __future__ import annotations

import math
import textwrap
from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "BLUE",
    "GRAY",
    "GREEN",
    "LINES",
    "MANY",
    "ORANGE",
    "PALETTE",
    "Display",
    "axes_for",
    "ink",
    "legend",
    "look",
    "panels_for",
    "short",
    "title",
]

# Okabe & Ito's colors, which people of any color vision tell apart; each thing that has one also
# has a marker or a line style of its own.
BLUE, ORANGE, GREEN, GRAY = "#0072B2", "#D55E00", "#009E73", "0.45"
PALETTE = (BLUE, ORANGE, GREEN, "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
LINES = ("-", "--", "-.", ":")

MANY = 5000
"""Points that are drawn as a picture of themselves in files of lines."""

_ROOM = 0.8  # of the width of a picture, for its title
_LEGEND_ROOM = 0.82  # its middle is that of the axes, right of that of the picture
_MOST_LINES = 4  # of a title
_MARKERS = ("o", "^", "s", "D", "v", "P", "X", "*")
_MANY_ENTRIES = 6  # of a legend, beyond which they are small
_GAP = 4.0  # points between the labels of an axis and the legend below
_PANELS = "_sparsebayes_panels"


class Display(ABC):
    """What all displays have in common: they are drawn where the user says, or in a new figure."""

    ax_: Any
    figure_: Any

    def plot(self, ax: Any = None) -> Self:
        """Draw it.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Where to draw; a new figure where it is None. Of a display with several panels an array
            of Axes may be given, one for each.

        Returns
        -------
        Display
            The display itself.
        """
        self.ax_ = self._axes(ax)
        self.figure_ = self.ax_.figure
        self._draw(self.ax_)
        return self

    @abstractmethod
    def _axes(self, ax: Any) -> Any:
        """Axes to draw into: those given, or those of a new figure."""

    @abstractmethod
    def _draw(self, ax: Any) -> None:
        """Draw into these axes."""


def axes_for(ax: Any, size: tuple[float, float]) -> Any:
    """Return the axes to draw into: those given, or those of a new figure.

    Parameters
    ----------
    ax : matplotlib Axes or None
        As given.
    size : tuple of float
        Width and height of a new figure, in inches.

    Returns
    -------
    matplotlib Axes
        The axes.
    """
    if ax is None:
        return _figure(size).add_subplot()
    if not hasattr(ax, "get_subplotspec"):
        raise TypeError(f"ax must be one matplotlib Axes or None, got {type(ax).__name__}.")
    return ax


def panels_for(
    ax: Any, count: int, size: tuple[float, float], *, across: bool = False
) -> tuple[Any, NDArray[Any]]:
    """Return several axes below each other, which share their horizontal axis, or beside.

    Parameters
    ----------
    ax : matplotlib Axes, array of Axes or None
        One for each panel, or one whose place they take.
    count : int
        Number of panels.
    size : tuple of float
        Width and height of a new figure, in inches.
    across : bool, default=False
        Whether the panels are beside each other.

    Returns
    -------
    ax : matplotlib Axes
        The place of all panels, if one was given; else the first of them.
    panels : ndarray of shape (count,)
        The axes.
    """
    rows, columns = (1, count) if across else (count, 1)
    if ax is None:
        made = _figure(size).subplots(rows, columns, sharex=not across, squeeze=False)
        return made[0, 0], np.asarray(made).ravel()
    given = np.atleast_1d(np.asarray(ax, dtype=object)).ravel()
    if given.size == count:
        panels = np.array([axes_for(one, size) for one in given], dtype=object)
        return panels[0], panels
    if given.size != 1 or axes_for(given[0], size).get_subplotspec() is None:
        raise ValueError(f"ax must be one Axes of a grid, or {count} of them, got {given.size}.")
    outer = given[0]
    for old in getattr(outer, _PANELS, ()):  # of an earlier picture in the same place
        old.remove()
    outer.set_axis_off()
    grid = outer.get_subplotspec().subgridspec(rows, columns)
    made = np.asarray(grid.subplots(sharex=not across, squeeze=False)).ravel()
    setattr(outer, _PANELS, tuple(made))
    return outer, made


def ink(ax: Any) -> Any:
    """Return the color of what is written: black, or white in a dark style.

    Parameters
    ----------
    ax : matplotlib Axes
        Where.

    Returns
    -------
    color
        As matplotlib knows it.
    """
    return ax.title.get_color()


def look(place: int) -> dict[str, Any]:
    """Color and marker of one of several groups; no two of 64 have the same pair.

    Parameters
    ----------
    place : int
        Number of the group.

    Returns
    -------
    dict
        ``color`` and ``marker``.

    Examples
    --------
    >>> look(0) == look(8)
    False
    """
    colors, markers = len(PALETTE), len(_MARKERS)
    marker = _MARKERS[(place + place // colors) % markers]
    return {"color": PALETTE[place % colors], "marker": marker}


def short(text: Any, most: int = 24) -> str:
    r"""A name that someone else chose as one short line, and not taken for mathematics.

    Parameters
    ----------
    text : object
        The name.
    most : int, default=24
        Most characters of it.

    Returns
    -------
    str
        The name; its beginning, where it is longer.

    Examples
    --------
    >>> short("a name of\nmany words, and $symbols$")
    'a name of many words, a…'
    >>> short("US$")
    'US\\$'
    """
    line = " ".join(str(text).split())
    line = line if len(line) <= most else line[: most - 1] + "\u2026"
    return line.replace("$", r"\$")


def title(ax: Any, text: str) -> Any:
    """Set a title, in as many lines as its place has room for.

    Parameters
    ----------
    ax : matplotlib Axes
        Where.
    text : str
        The title.

    Returns
    -------
    matplotlib Text
        The title.
    """
    for lines in range(1, _MOST_LINES + 1):
        width = len(text) if lines == 1 else math.ceil(1.15 * len(text) / lines)
        drawn = ax.set_title(textwrap.fill(text, max(width, 1)), fontsize="medium")
        if drawn.get_window_extent().width <= _ROOM * _width(ax):
            break
    return drawn


def legend(ax: Any, handles: Any = None) -> Any:
    """Explain what is drawn: below the axes where the figure makes room for it, else inside.

    Labels of the axes must be set before.

    Parameters
    ----------
    ax : matplotlib Axes
        Where.
    handles : list of matplotlib artists or None
        What to explain; by default all that has a label, each label once.

    Returns
    -------
    matplotlib Legend or None
        The legend; None where nothing has a label.
    """
    if handles is None:
        handles = ax.get_legend_handles_labels()[0]
    named = {handle.get_label(): handle for handle in reversed(handles)}
    chosen = [named[label] for label in reversed(named)]
    if not chosen:
        return None
    style = {"handles": chosen, "fontsize": "small", "handlelength": 1.6, "columnspacing": 1.2}
    if len(chosen) > _MANY_ENTRIES:
        style |= {"fontsize": "x-small", "handletextpad": 0.4, "columnspacing": 0.8}
    engine = ax.figure.get_layout_engine()
    if engine is None or engine.adjust_compatible or ax.get_subplotspec() is None:
        # The best place is looked for among all points, which takes a minute for a million.
        points = max((len(line.get_xdata()) for line in ax.get_lines()), default=0)
        return ax.legend(loc="upper right" if points > MANY else "best", framealpha=0.8, **style)
    from matplotlib.transforms import ScaledTranslation

    labels = ax.xaxis.get_tightbbox()
    depth = 0.0 if labels is None else max(ax.bbox.y0 - labels.y0, 0.0) / ax.figure.dpi
    down = ScaledTranslation(0.0, -depth - _GAP / 72, ax.figure.dpi_scale_trans)
    for columns in range(len(chosen), 0, -1):
        found = ax.legend(
            loc="upper center",
            bbox_to_anchor=(0.5, 0.0),
            bbox_transform=ax.transAxes + down,
            borderaxespad=0.0,
            frameon=False,
            ncols=columns,
            **style,
        )
        if found.get_window_extent().width <= _LEGEND_ROOM * _width(ax):
            break
    return found


def _width(ax: Any) -> float:
    """Width of the place that the axes have in their figure, labels included, in pixels."""
    figure, place = ax.figure, ax.get_subplotspec()
    if place is None:
        return float(ax.bbox.width)
    whole = figure.subplotpars.right - figure.subplotpars.left
    share = place.get_position(figure).width / whole
    return float(min(share, 1.0) * figure.bbox.width)


def _figure(size: tuple[float, float]) -> Any:
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ImportError('pictures need matplotlib: pip install "sparsebayes[plot]".') from None
    return pyplot.figure(figsize=size, layout="constrained")
