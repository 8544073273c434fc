"""Pictures as SVG: two axes, marks whose text stands in a table, and no size of their own."""

import math
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparsebayes.reporting._html import Html, cut, joined, number, tag

FloatArray = NDArray[np.float64]

__all__ = ["Plot", "Scale", "bars", "ticks"]

# In units of the picture: a phone shows one unit as 0.8 pixels, a desk at most as 1.3.
_WIDTH, _HEIGHT = 440.0, 310.0
_RIGHT, _TOP, _BOTTOM = 14.0, 14.0, 46.0
_LETTER = 8.0  # width of a digit
_BAR, _NAMES = 22.0, 150.0  # height of a bar, width of the names beside them
_LETTERS = 17  # characters of a name that fit there


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers in a range.

    Parameters
    ----------
    low, high : float
        The range, ``low < high``.
    most : int, default=6
        How many at most.

    Returns
    -------
    list of float
        Multiples of 1, 2 or 5 times a power of ten.

    Examples
    --------
    >>> ticks(0.0, 1.0), ticks(-3.0, 14.0)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [0.0, 5.0, 10.0])
    """
    raw = (high - low) / most
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 5, 10, 20) if (high - low) / (m * power) < most)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{k * step:.12g}") for k in range(first, last + 1)]


class Scale:
    """From values to places on an axis.

    Parameters
    ----------
    values : array-like
        What must fit; what is not finite need not.
    ends : (float, float)
        Places of the lowest and the highest value.
    margin : float, default=0.04
        Share of the range that stays empty at either end.

    Examples
    --------
    >>> scale = Scale([0.0, 10.0], (100.0, 200.0), margin=0.0)
    >>> scale(5.0), scale.low
    (150.0, 0.0)
    """

    def __init__(self, values: ArrayLike, ends: tuple[float, float], margin: float = 0.04) -> None:
        found = np.asarray(values, dtype=np.float64)
        # Beyond 1e307 differences of values overflow.
        found = found[np.abs(found) < 1e307]
        low, high = (float(found.min()), float(found.max())) if found.size else (0.0, 1.0)
        if high - low <= 1e-12 * max(abs(low), abs(high), 1e-290):
            room = 0.5 * max(abs(low), 1e-290) if low else 0.5
            low, high = low - room, high + room
        room = margin * (high - low)
        self.low, self.high, self.ends = low - room, high + room, ends

    def __call__(self, value: float) -> float:
        """Place of a value, within the axis."""
        start, stop = self.ends
        share = (value - self.low) / (self.high - self.low)
        return start + min(max(share, 0.0), 1.0) * (stop - start)

    def holds(self, value: float) -> bool:
        """Whether a value is on the axis."""
        return bool(self.low <= value <= self.high)


class Plot:
    """A picture with two axes.

    Parameters
    ----------
    x, y : array-like
        Values that the axes must hold.
    labels : (str, str)
        What the axes show.
    margin : float, default=0.04
        Share of each range that stays empty.
    """

    def __init__(
        self, x: ArrayLike, y: ArrayLike, labels: tuple[str, str], *, margin: float = 0.04
    ) -> None:
        self.y = Scale(y, (_HEIGHT - _BOTTOM, _TOP), margin)
        longest = max((len(written) for _, written in _numbered(self.y)), default=1)
        self.x = Scale(x, (32.0 + _LETTER * longest, _WIDTH - _RIGHT), margin)
        self._parts: list[Html] = [*self._axes(labels)]

    def line(self, x: FloatArray, y: FloatArray, kind: str) -> None:
        """Draw a line through points, of a class of the style sheet."""
        path = _path(self._places(x, y))
        self._parts.append(tag("path", d=path, class_=f"line {kind}"))

    def band(self, x: FloatArray, low: FloatArray, high: FloatArray) -> None:
        """Fill what is between two lines."""
        there = _path([*self._places(x, low), *self._places(x[::-1], high[::-1])])
        self._parts.append(tag("path", d=f"{there}Z", class_="band"))

    def spans(self, x: FloatArray, low: FloatArray, high: FloatArray) -> None:
        """Draw error bars, cut off at the frame."""
        pieces = [
            f"M{_at(self.x(a))} {_at(self.y(b))}V{_at(self.y(c))}"
            for a, b, c in zip(x, low, high, strict=True)
            if self.x.holds(a) and b <= self.y.high and c >= self.y.low
        ]
        if pieces:
            self._parts.append(tag("path", d="".join(pieces), class_="spans"))

    def points(self, x: FloatArray, y: FloatArray, kind: str = "", radius: ArrayLike = 3.2) -> None:
        """Draw points; those without a kind are explained, one by one, by rows of a table."""
        sizes = np.broadcast_to(np.asarray(radius, dtype=np.float64), np.shape(x))
        drawn = [
            tag("circle", cx=_at(self.x(a)), cy=_at(self.y(b)), r=_at(size))
            for a, b, size in zip(x, y, sizes, strict=True)
        ]
        self._parts.append(tag("g", *drawn, class_=f"points {kind}" if kind else "points marks"))

    def crosses(self, x: FloatArray, y: FloatArray) -> None:
        """Draw small crosses."""
        pieces = [f"M{_at(a - 3)} {_at(b)}h6m-3 -3v6" for a, b in self._places(x, y)]
        if pieces:
            self._parts.append(tag("path", d="".join(pieces), class_="crosses"))

    def svg(self, label: str) -> Html:
        """Return the picture.

        Parameters
        ----------
        label : str
            What it shows, for those who do not see it.

        Returns
        -------
        Html
            An element that fills the width it is given.
        """
        return _svg(label, _HEIGHT, self._parts)

    def _places(self, x: FloatArray, y: FloatArray) -> list[tuple[float, float]]:
        return [(self.x(float(a)), self.y(float(b))) for a, b in zip(x, y, strict=True)]

    def _axes(self, labels: tuple[str, str]) -> Iterable[Html]:
        left, right = self.x.ends
        bottom, top = self.y.ends
        for value, written in _numbered(self.x):
            place = _at(self.x(value))
            yield tag("line", x1=place, x2=place, y1=_at(top), y2=_at(bottom), class_="grid")
            yield _label(written, place, bottom + 17, "middle")
        for value, written in _numbered(self.y):
            place = _at(self.y(value))
            yield tag("line", x1=_at(left), x2=_at(right), y1=place, y2=place, class_="grid")
            yield _label(written, left - 7, float(place) + 4.5, "end")
        yield _label(labels[0], 0.5 * (left + right), bottom + 38, "middle", "axis")
        middle = _at(0.5 * (top + bottom))
        turn = f"translate(14 {middle}) rotate(-90)"
        yield tag("text", labels[1], transform=turn, text_anchor="middle", class_="axis")


def bars(names: Sequence[str], shares: Sequence[float], label: str, *, ends: Any = None) -> Html:
    """Draw a bar for each of a few named numbers.

    Parameters
    ----------
    names : sequence of str
        The names, the first one on top.
    shares : sequence of float
        The numbers, not negative.
    label : str
        What the picture shows, for those who do not see it.
    ends : sequence of str or None, default=None
        Text behind each bar.

    Returns
    -------
    Html
        An element that fills the width it is given.
    """
    room = _WIDTH - _NAMES - 60
    largest = max(max(shares, default=0.0), 1e-300)
    parts, marks = [], []
    for row, (title, share) in enumerate(zip(names, shares, strict=True)):
        y = 6 + row * _BAR
        width = max(room * share / largest, 1.0)
        parts.append(_label(cut(title, _fitting(title)), _NAMES - 8, y + 14, "end"))
        marks.append(tag("rect", x=_at(_NAMES), y=_at(y + 2), width=_at(width), height=_at(16)))
        if ends is not None:
            parts.append(_label(ends[row], _NAMES + width + 6, y + 14, "start"))
    parts.append(tag("g", *marks, class_="bars marks"))
    return _svg(label, 12 + _BAR * len(names), parts)


def _numbered(scale: Scale) -> list[tuple[float, str]]:
    """Round numbers of an axis, with as many digits as tell them apart."""
    values = ticks(scale.low, scale.high)
    for digits in range(6, 13):
        written = [number(value, digits) for value in values]
        if len(set(written)) == len(values):
            break
    return list(zip(values, written, strict=True))


def _fitting(title: str) -> int:
    """Characters of a name that fit beside a bar; those of some scripts are twice as wide."""
    wide = sum(unicodedata.east_asian_width(letter) in "FW" for letter in title[:_LETTERS])
    return _LETTERS if wide == 0 else _LETTERS // 2


def _svg(label: str, height: float, parts: Iterable[Html]) -> Html:
    box = f"0 0 {_at(_WIDTH)} {_at(height)}"
    return tag("svg", joined(parts), viewBox=box, role="img", aria_label=label)


def _label(content: str, x: Any, y: float, anchor: str, kind: str = "tick") -> Html:
    place = x if isinstance(x, str) else _at(x)
    return tag("text", content, x=place, y=_at(y), text_anchor=anchor, class_=kind)


def _at(place: float) -> str:
    """A tenth of a unit is less than anyone sees."""
    return f"{place:.1f}".removesuffix(".0")


def _path(places: Iterable[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{_at(a)} {_at(b)}" for a, b in places)
