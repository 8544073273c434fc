"""The way of a fit: objective, atoms and noise, step by step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sparsebayes.plotting._canvas import GRAY, Display, legend, look, panels_for, title
from sparsebayes.plotting._models import checked_model
from sparsebayes.problem import Solution

FloatArray = NDArray[np.float64]

__all__ = ["EvidencePathDisplay"]

_WIDTH, _HEIGHT = 7.0, 1.7  # inches, of a panel


@dataclass(eq=False, kw_only=True, repr=False)
class EvidencePathDisplay(Display):
    """How objective, number of atoms and noise changed while a model was fitted.

    Every mark is a step that the solver told of, by the phase it was in. Objectives are drawn as
    nats below the best, on an axis that is logarithmic beyond one. They may fall while the solver
    tries something else, such as less noise: the best model counts. Use
    `from_estimator` or `from_solution`; the parameters are what is drawn.

    Parameters
    ----------
    iteration : ndarray of shape (n,)
        Iterations of the solver.
    objective : ndarray of shape (n,)
        Log evidence and log prior, in nats.
    atoms : ndarray of shape (n,)
        Atoms in the model.
    noise : ndarray of shape (n,) or None
        Standard deviation of the noise; None where it is none of the parameters.
    phase : list of str
        What the solver was at.
    caption : str
        The title.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The place of all panels, if one was given; else the first panel.
    axes_ : ndarray of matplotlib Axes
        The panels: objective, atoms and, if it was estimated, noise.
    figure_ : matplotlib Figure
        Their figure.
    lines_ : list of matplotlib Line2D
        The path in each panel.
    phases_ : list of dict of str to matplotlib Line2D
        The marks of each phase, in each panel.

    Examples
    --------
    >>> from sparsebayes import RVR
    >>> from sparsebayes.datasets import sinc
    >>> from sparsebayes.plotting import EvidencePathDisplay
    >>> data = sinc(50, noise=0.1, random_state=0)
    >>> model = RVR(gamma=0.1).fit(data.X, data.y)
    >>> display = EvidencePathDisplay.from_estimator(model)
    >>> bool(display.objective[-1] == model.solution_.state.objective), display.phase[0]
    (True, 'crowd')
    """

    iteration: NDArray[np.intp]
    objective: FloatArray
    atoms: NDArray[np.intp]
    phase: list[str]
    noise: FloatArray | None = None
    caption: str = ""
    ax_: Any = field(init=False)
    axes_: Any = field(init=False)
    figure_: Any = field(init=False)
    lines_: list[Any] = field(init=False, default_factory=list)
    phases_: list[dict[str, Any]] = field(init=False, default_factory=list)

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> Self:
        """Draw the path of the last fit of a model.

        Where the parameters of kernels are learned it is the path of the last of several fits.

        Parameters
        ----------
        estimator : estimator
            A fitted one of this package, or a pipeline or search that ends with one. A model that
            was loaded from a file knows its path no more.
        ax : matplotlib Axes, array of Axes or None, default=None
            Where to draw; a new figure where it is None. One for each panel, or one whose place
            they take.

        Returns
        -------
        EvidencePathDisplay
            The display, drawn.
        """
        needs = "the posterior of a fit by sparsebayes"
        last = checked_model(estimator, "posterior_", cls.__name__, needs)
        if not hasattr(last, "solution_"):
            raise ValueError(
                f"this {type(last).__name__} does not know the path of its fit: it was loaded "
                "from a file, which keeps the model alone. Fit it again."
            )
        scale = getattr(last.posterior_, "scale", None)
        return cls.from_solution(last.solution_, scale=scale, ax=ax)

    @classmethod
    def from_solution(
        cls, solution: Solution, *, scale: float | None = 1.0, ax: Any = None
    ) -> Self:
        """Draw the path that led to a solution, such as ``reconstruct(...).solution``.

        Parameters
        ----------
        solution : Solution
            What a solver returned.
        scale : float or None, default=1.0
            What the standard deviation of the noise is multiplied by; None where there is no
            noise, as of classes.
        ax : matplotlib Axes, array of Axes or None, default=None
            Where to draw; a new figure where it is None.

        Returns
        -------
        EvidencePathDisplay
            The display, drawn.

        Examples
        --------
        >>> import numpy as np
        >>> from sparsebayes import reconstruct
        >>> from sparsebayes.plotting import EvidencePathDisplay
        >>> places = np.random.default_rng(0).choice(64, size=32, replace=False)
        >>> signal = np.repeat([0.0, 3.0], 32) + 0.1 * np.random.default_rng(1).normal(size=64)
        >>> found = reconstruct(signal[places], places, shape=64)
        >>> len(EvidencePathDisplay.from_solution(found.solution).axes_)
        3
        """
        if not isinstance(solution, Solution):
            raise TypeError(
                f"solution must be the solution of one fit, got {type(solution).__name__}."
            )
        trace = solution.trace
        if not trace:
            raise ValueError("this solution does not know its path: nothing was told on the way.")
        noise = None
        if scale is not None and solution.noise.estimated:
            noise = scale * np.sqrt([line.noise_var for line in trace])
        told = f"{trace[-1].n_active} atoms, objective {trace[-1].objective:.4g} nats"
        return cls(
            iteration=np.array([line.iteration for line in trace], dtype=np.intp),
            objective=np.array([line.objective for line in trace], dtype=np.float64),
            atoms=np.array([line.n_active for line in trace], dtype=np.intp),
            phase=[line.phase for line in trace],
            noise=noise,
            caption=told,
        ).plot(ax)

    def _axes(self, ax: Any) -> Any:
        count = 2 if self.noise is None else 3
        place, self.axes_ = panels_for(ax, count, (_WIDTH, _HEIGHT * count + 0.6))
        return place

    def _draw(self, ax: Any) -> None:
        shown: list[tuple[str, NDArray[Any]]] = [
            ("below best", self.objective - self.objective.max()),
            ("atoms", self.atoms),
        ]
        if self.noise is not None:
            shown.append(("noise", self.noise))
        self.lines_, self.phases_ = [], []
        names = list(dict.fromkeys(self.phase))
        where = {name: np.array([phase == name for phase in self.phase]) for name in names}
        for panel, (label, values) in zip(self.axes_, shown, strict=True):
            self.lines_ += panel.plot(self.iteration, values, color=GRAY, linewidth=0.8, zorder=1)
            marks = {}
            for place, name in enumerate(names):
                (marks[name],) = panel.plot(
                    self.iteration[where[name]],
                    values[where[name]],
                    linestyle="none",
                    markersize=4,
                    label=name,
                    zorder=2,
                    **look(place),
                )
            self.phases_.append(marks)
            panel.margins(y=0.12)
            panel.set_ylabel(label, fontsize="small")
            panel.label_outer()
        _logarithmic(self.axes_[0], float(self.objective.max() - self.objective.min()))
        self.axes_[1].yaxis.get_major_locator().set_params(integer=True)
        if self.noise is not None and self.noise.max() > 30 * self.noise.min():
            self.axes_[2].set_yscale("log")
        self.axes_[-1].set_xlabel("iteration")
        title(self.axes_[0], self.caption)
        self.figure_.align_ylabels(list(self.axes_))
        legend(self.axes_[-1])


def _logarithmic(panel: Any, deepest: float) -> None:
    """An axis of what is missing to the best, with few ticks: a panel may be half an inch high."""
    if not deepest > 1.0:
        return
    panel.set_yscale("symlog", linthresh=1.0, linscale=0.5)
    decades = int(np.floor(np.log10(deepest)))
    below = sorted({decades, decades // 2} if decades > 1 else {decades}, reverse=True)
    ticks = [-(10.0**decade) for decade in below]
    panel.set_yticks([*ticks, 0.0], [f"\u2212{-tick:,.0f}" for tick in ticks] + ["0"])
    panel.set_yticks([], minor=True)
