"""How far a long fit is: for a callback, a bar on a terminal, or lines in a log."""

from __future__ import annotations

import math
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from sparsebayes._console import counted
from sparsebayes.problem import Progress, Solution
from sparsebayes.rows.blocks import Meter

__all__ = ["FitProgress", "Interrupted", "Watch", "about"]

_OFTEN, _SELDOM = 0.1, 5.0  # seconds between two words to a program or terminal, and to a log
_BAR = 12  # characters
_REMEMBERED = 6  # screens from which the decay of gains is taken
_MOST_SCREENS = 200
_UNITS = (("s", 1.0, 90.0), ("min", 60.0, 90.0), ("h", 3600.0, 36.0), ("days", 86400.0, math.inf))


class Interrupted(KeyboardInterrupt):
    """The callback asked a fit to stop: what Ctrl-C raises, by another hand.

    Examples
    --------
    >>> issubclass(Interrupted, KeyboardInterrupt)
    True
    """


@dataclass(frozen=True)
class FitProgress:
    """How far a fit is.

    Attributes
    ----------
    phase : str
        What it is at, such as "all rows".
    rows : int
        Rows that the pass over the data under way has dealt with.
    n_rows : int
        Rows of a whole pass; zero while that is not known.
    passes : int
        Passes over the data so far, the one under way included.
    screens : int
        Screens of the dictionary so far.
    atoms : int
        Atoms in the model.
    objective : float
        Log evidence and log prior of the model; of another part of the rows, another number.
    noise_variance : float
        Of the model.
    max_gain : float
        Largest gain, in nats, that the last screen has found: the fit ends when it is below
        ``tol``.
    seconds : float
        Since the fit began.
    seconds_left : float or None
        About how many there are to come, from the last passes and the decay of the gains; None
        while nothing can be said.

    Examples
    --------
    >>> print(FitProgress("all rows", rows=400, n_rows=1000, passes=3, screens=2, atoms=17))
    all rows, pass 3: 40 % of 1000 rows, 2 screens, 17 atoms
    """

    phase: str = "begin"
    rows: int = 0
    n_rows: int = 0
    passes: int = 0
    screens: int = 0
    atoms: int = 0
    objective: float = -math.inf
    noise_variance: float = math.nan
    max_gain: float = math.inf
    seconds: float = 0.0
    seconds_left: float | None = None

    @property
    def fraction(self) -> float:
        """Part of the rows that the pass under way has dealt with."""
        return min(self.rows / self.n_rows, 1.0) if self.n_rows else 0.0

    def __str__(self) -> str:
        place = self.phase
        if self.passes:
            place += f", pass {self.passes}: "
            if self.n_rows:
                place += f"{math.floor(100 * self.fraction)} % of {self.n_rows} rows"
            else:
                place += f"{self.rows} rows"
        return ", ".join([place, counted(self.screens, "screen"), *self._model(), *self._left()])

    def bar(self) -> str:
        """The same for a line that may be cut: what matters most comes first."""
        done = round(_BAR * self.fraction)
        percent = f"{math.floor(100 * self.fraction)} % of pass {self.passes}"
        told = [percent, *self._left(), *self._model(), self.phase]
        return f"|{'#' * done}{'-' * (_BAR - done)}| {', '.join(told)}"

    def _model(self) -> list[str]:
        told = [counted(self.atoms, "atom")]
        return told + ([f"best gain {self.max_gain:.3g}"] if self.max_gain < math.inf else [])

    def _left(self) -> list[str]:
        return [] if self.seconds_left is None else [f"{about(self.seconds_left)} left"]


def about(seconds: float) -> str:
    """A time that is not known well, in words.

    Parameters
    ----------
    seconds : float
        The time.

    Returns
    -------
    str
        With a unit that suits it.

    Examples
    --------
    >>> about(41.3), about(700), about(40_000)
    ('about 41 s', 'about 12 min', 'about 11 h')
    """
    unit, size = next((unit, size) for unit, size, most in _UNITS if seconds / size < most)
    return f"about {max(seconds / size, 1):.0f} {unit}"


class Watch:
    """Turns what a fit reports into words, on stderr and to a callback.

    A fit calls the watch itself with lines of the solver, `read` with its meter after every block
    of rows, `screened` after every screen, and `stage` when another part of it begins. It is a
    context: at its end the line of the bar is finished, whatever has happened.

    The callback hears of every screen, and of the rest ten times a second at most. On a terminal
    there is one line that is redrawn, elsewhere one more line in a few seconds; with ``verbose`` of
    two or more every line of the solver.

    Parameters
    ----------
    name : str
        Who fits.
    verbose : int, default=0
        Whether to write to stderr.
    callback : callable or None, default=None
        Called with a `FitProgress`; where it returns True the fit is stopped.
    tol : float, default=1e-6
        The gain below which the fit ends.
    clock : callable, default=time.perf_counter
        Seconds since any time.

    Examples
    --------
    >>> from sparsebayes.problem import Progress
    >>> watch = Watch("RVR", callback=print)
    >>> with watch:
    ...     watch.stage("all rows")
    ...     watch.screened(Progress("screen", 1, 12, -340.0, 0.01, 2.5))
    all rows, 0 screens, 0 atoms
    all rows, 1 screen, 12 atoms, best gain 2.5
    """

    def __init__(
        self,
        name: str,
        verbose: int = 0,
        callback: Callable[[FitProgress], Any] | None = None,
        tol: float = 1e-6,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.name, self.verbose, self.callback = name, int(verbose), callback
        self.scale = 1.0  # unit of the targets in which lines of the solver are
        self.now = FitProgress()
        self._clock = clock
        self._begun = clock()
        self._told = self._said = -math.inf
        self._drawn = False
        self._forecast = _Forecast(tol, self._begun)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._drawn:
            self._write("\n")
        self._drawn = False

    def stage(self, phase: str) -> None:
        """Note that another part of the fit begins.

        Parameters
        ----------
        phase : str
            What it is, in few words.
        """
        self._forecast.forget()
        self._hear(phase=phase)

    def read(self, meter: Meter) -> None:
        """Note that rows have been dealt with; the ``listen`` of a meter.

        Parameters
        ----------
        meter : Meter
            What has been read of the data.
        """
        self._forecast.read(meter, self._clock())
        self._hear(rows=meter.current, n_rows=meter.length, passes=meter.passes)

    def __call__(self, line: Progress) -> None:
        """Note a step of the solver; the ``report`` of a solver.

        Parameters
        ----------
        line : Progress
            Its line.
        """
        self._hear(every=self.verbose > 1, **self._model(line))

    def screened(self, line: Progress) -> None:
        """Note that the dictionary, or a subset of it, was screened.

        Parameters
        ----------
        line : Progress
            The model that was screened, and the best gain.
        """
        self._forecast.screened(line.max_gain, self._clock())
        self._hear(
            every=self.verbose > 1,
            always=True,
            screens=self.now.screens + 1,
            max_gain=line.max_gain,
            **self._model(line),
        )

    def close(self, solution: Solution) -> None:
        """Say how the fit ended.

        Parameters
        ----------
        solution : Solution
            What it has found.
        """
        self.__exit__()
        if self.verbose:
            self._line(
                f"{counted(solution.state.active.size, 'atom')}, "
                f"{counted(self.now.screens, 'screen')}, "
                f"{self.now.passes} passes over the data, {solution.status.value}"
            )

    def _model(self, line: Progress) -> dict[str, Any]:
        return {
            "atoms": int(line.n_active),
            "objective": float(line.objective),
            "noise_variance": float(line.noise_var) * self.scale**2,
        }

    def _hear(self, *, every: bool = False, always: bool = False, **changes: Any) -> None:
        """Take note of changes; tell of them if it is time."""
        time_ = self._clock()
        self.now = replace(
            self.now,
            seconds=time_ - self._begun,
            seconds_left=self._forecast.left(time_),
            **changes,
        )
        if self.verbose and (every or time_ - self._said >= self._interval()):
            self._said = time_
            self._show()
        if self.callback is not None and (always or time_ - self._told >= _OFTEN):
            self._told = time_
            found = self.callback(self.now)
            if isinstance(found, bool | np.bool_) and found:
                raise Interrupted("the callback stopped the fit")

    def _on_terminal(self) -> bool:
        return self.verbose == 1 and sys.stderr is not None and sys.stderr.isatty()

    def _interval(self) -> float:
        return _OFTEN if self._on_terminal() else _SELDOM

    def _show(self) -> None:
        if not self._on_terminal():
            self._line(f"{self.now}, objective {self.now.objective:.6g}")
            return
        text = f"[{self.name}] {self.now.bar()}"
        self._write(f"\r{text[: shutil.get_terminal_size().columns - 1]}\x1b[K")
        self._drawn = True

    def _line(self, text: str) -> None:
        self._write(f"[{self.name}] {self._clock() - self._begun:7.1f} s  {text}\n")

    def _write(self, text: str) -> None:
        if sys.stderr is not None:  # a program without a console has none
            sys.stderr.write(text)
            sys.stderr.flush()


class _Forecast:
    """About how long a fit will take, from its last pass over the data and its last screens."""

    def __init__(self, tol: float, begun: float) -> None:
        self.tol = tol
        self.row_seconds = 0.0
        self.ahead = 0  # rows that the pass under way has yet to read
        self._pass = 0
        self._first: tuple[float, int] = (begun, 0)
        self._last = begun
        self.forget()

    def forget(self) -> None:
        """Another part of the fit begins: its screens take another time."""
        self._gains: list[float] = []
        self._times: list[float] = []

    def read(self, meter: Meter, now: float) -> None:
        """Rows have been read."""
        if meter.passes != self._pass:
            # When it began is not known if nothing was heard then: the first block sets the clock.
            self._pass, self._first = meter.passes, (now, meter.current)
            if self.row_seconds == 0 and meter.current:
                self.row_seconds = (now - self._last) / meter.current
        elif meter.current > self._first[1]:
            self.row_seconds = (now - self._first[0]) / (meter.current - self._first[1])
        self.ahead = max(meter.length - meter.current, 0)
        self._last = now

    def screened(self, gain: float, now: float) -> None:
        """A screen has found a gain."""
        self._gains = [*self._gains, gain][-_REMEMBERED:]
        self._times = [*self._times, now][-_REMEMBERED:]
        self.ahead = 0

    def left(self, now: float) -> float | None:
        """Seconds to come; None while gains do not fall."""
        if len(self._gains) < 2:
            return None
        first, last = self._gains[0], self._gains[-1]
        if last <= self.tol:
            rounds = 1.0
        elif 0 < last < first < math.inf:
            decay = math.log(first / last) / (len(self._gains) - 1)
            rounds = min(max(math.log(last / self.tol) / decay, 1.0), _MOST_SCREENS)
        else:
            return None
        times = self._times
        each = (times[-1] - times[0]) / (len(times) - 1)
        # The round under way takes as long as others did, and as long as its rows take.
        under_way = max(each - (now - times[-1]), self.ahead * self.row_seconds, 0.0)
        return under_way + (rounds - 1) * each
