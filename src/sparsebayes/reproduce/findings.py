"""What a reproduction finds: figures beside printed ones, and pictures drawn when asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["Entry", "Findings", "Picture"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One figure.

    Parameters
    ----------
    what : str
        What was measured.
    measured : float
        The figure.
    printed : float or None, default=None
        The same in the paper; None where it prints none.
    form : str, default=".4g"
        How both are written.
    relation : str, default=""
        What stands before the printed figure, such as "at most".
    spread : float or None, default=None
        Printed standard deviation of the printed figure.

    Examples
    --------
    >>> from sparsebayes.reproduce.findings import Entry
    >>> Entry("vectors", 8, 9, "d").cells
    ('vectors', '8', '9')
    """

    what: str
    measured: float
    printed: float | None = None
    form: str = ".4g"
    relation: str = ""
    spread: float | None = None

    @property
    def cells(self) -> tuple[str, str, str]:
        """A row of a table: what, measured, printed."""
        printed = "-" if self.printed is None else format(self.printed, self.form)
        printed = f"{self.relation} {printed}".strip()
        if self.spread is not None:
            printed += f" +- {format(self.spread, self.form)}"
        return self.what, format(self.measured, self.form), printed


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture that can be drawn.

    Parameters
    ----------
    name : str
        For its file.
    size : tuple of float
        Width and height in inches.
    draw : callable
        Draws into a matplotlib figure.
    """

    name: str
    size: tuple[float, float]
    draw: Callable[[Any], None]

    def figure(self) -> Any:
        """Draw it, without any window.

        Returns
        -------
        matplotlib Figure
            The picture.
        """
        from matplotlib.figure import Figure

        made = Figure(figsize=self.size, layout="constrained")
        self.draw(made)
        return made


@dataclass(frozen=True, slots=True)
class Findings:
    """All of one paper.

    Parameters
    ----------
    source : str
        Authors, year, title and place.
    entries : tuple of Entry
        Measured beside printed.
    remarks : tuple of str
        Sentences that the figures need to be understood.
    pictures : tuple of Picture
        Not drawn yet.
    """

    source: str
    entries: tuple[Entry, ...]
    remarks: tuple[str, ...]
    pictures: tuple[Picture, ...]
