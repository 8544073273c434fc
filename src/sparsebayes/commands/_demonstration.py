"""The demonstration: noisy sin(x)/x and a relevance vector machine, in numbers and as a picture."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sparsebayes._files import atomic_write
from sparsebayes.datasets import Dataset, sinc
from sparsebayes.estimators import RVR


@dataclass(frozen=True, eq=False)
class Demo:
    """A fit of the built-in data, and its predictions where the truth is known."""

    data: Dataset
    grid: Dataset
    model: RVR
    mean: NDArray[np.float64]
    std: NDArray[np.float64]
    seconds: float

    @property
    def rmse(self) -> float:
        """Error of the mean against the function without noise."""
        return float(np.sqrt(np.mean((self.mean - self.grid.truth) ** 2)))


def run_demo(seed: int) -> Demo:
    """Fit 100 noisy values of sin(x)/x.

    Parameters
    ----------
    seed : int
        Of the noise.

    Returns
    -------
    Demo
        Data, model and predictions at 1000 points.
    """
    data = sinc(100, noise=0.1, random_state=seed)
    started = time.perf_counter()
    # The width of Tipping 2001: exp(-|x - x'|^2 / 3^2).
    model = RVR(kernel="rbf", gamma=1.0 / 9.0, random_state=seed).fit(data.X, data.y)
    seconds = time.perf_counter() - started
    grid = sinc(1000, noise=0.0)
    mean, std = model.predict(grid.X, return_std=True)
    return Demo(data, grid, model, mean, std, seconds)


def draw(demo: Demo, path: str) -> None:
    """Draw data, mean, error bars and relevance vectors.

    Parameters
    ----------
    demo : Demo
        From `run_demo`.
    path : str
        The picture; its suffix is one that matplotlib knows.
    """
    from matplotlib.figure import Figure

    x = demo.grid.X[:, 0]
    # A Figure of its own rather than pyplot's: no window system is asked for.
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.add_subplot()
    axes.fill_between(
        x,
        demo.mean - 2 * demo.std,
        demo.mean + 2 * demo.std,
        color="tab:blue",
        alpha=0.15,
        linewidth=0,
        label="two standard deviations",
    )
    axes.plot(demo.data.X[:, 0], demo.data.y, ".", color="0.5", label="data")
    axes.plot(x, demo.grid.truth, "--", color="black", linewidth=1, label="sin(x)/x")
    axes.plot(x, demo.mean, color="tab:blue", linewidth=2, label="mean")
    kept = demo.model.relevance_
    axes.plot(
        demo.data.X[kept, 0],
        demo.data.y[kept],
        "o",
        markersize=11,
        markerfacecolor="none",
        markeredgecolor="tab:red",
        markeredgewidth=1.5,
        label=f"{len(kept)} relevance vectors",
    )
    axes.set_xlabel("x")
    axes.set_xlim(x[0], x[-1])
    axes.set_title(f"{len(kept)} of {len(demo.data.y)} basis functions kept")
    axes.legend(loc="upper right", fontsize="small", frameon=False)
    with atomic_write(path) as file:
        figure.savefig(file, format=Path(path).suffix[1:].lower(), dpi=120)
