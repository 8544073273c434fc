"""The demonstration: noisy sin(x)/x and a relevance vector machine, in numbers and as a picture."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sparsebayes._files import atomic_write
from sparsebayes.datasets import Dataset, sinc
from sparsebayes.estimators import RVR


@dataclass(frozen=True, eq=False)
class Demo:
    """A fit of the built-in data, and its error where the truth is known."""

    data: Dataset
    model: RVR
    rmse: float  # of the mean against the function without noise
    seconds: float


def run_demo(seed: int) -> Demo:
    """Fit 100 noisy values of sin(x)/x.

    Parameters
    ----------
    seed : int
        Of the noise.

    Returns
    -------
    Demo
        Data, model and its error at 1000 points.
    """
    data = sinc(100, noise=0.1, random_state=seed)
    started = time.perf_counter()
    # The width of Tipping 2001: exp(-|x - x'|^2 / 3^2).
    model = RVR(kernel="rbf", gamma=1.0 / 9.0, random_state=seed).fit(data.X, data.y)
    seconds = time.perf_counter() - started
    grid = sinc(1000, noise=0.0)
    error = model.predict(grid.X) - grid.truth
    return Demo(data, model, float(np.sqrt(np.mean(error**2))), seconds)


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

    from sparsebayes.plotting import FitDisplay

    # A Figure of its own rather than pyplot's: no window system is asked for.
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    FitDisplay.from_estimator(
        demo.model,
        demo.data.X,
        demo.data.y,
        truth=lambda X: np.sinc(X[:, 0] / np.pi),
        ax=figure.add_subplot(),
    )
    with atomic_write(path) as file:
        figure.savefig(file, format=Path(path).suffix[1:].lower(), dpi=120)
