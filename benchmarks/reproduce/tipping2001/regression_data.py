"""Training and test sets of the regression benchmarks in Tipping 2001, appendix E.

Test targets are noise-free but for Boston's. Friedman #2 and #3 have inputs in units three orders
of magnitude apart, Boston in any: the paper does not say how they were scaled. Here: mean zero and
variance one over the training set for Friedman's, the range of the training set to [0, 1] for
Boston's (``boston-std``: variance one). Inputs of Friedman #1 and sinc are left as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from benchmarks._classification import DATA, Split
from sparsebayes.datasets import Dataset, friedman1, friedman2, friedman3, sinc
from sparsebayes.reproduce.tipping2001 import uniform_noise

Array = NDArray[np.float64]

REPETITIONS = 100
TRAINING, TEST = 240, 1000  # rows of Friedman's
SEEDS = 10_000  # from here on for test sets
BOSTON = DATA / "boston"


def noisy_sinc(seed: int) -> Split:
    """Gaussian noise of standard deviation 0.1 on 100 equally spaced points."""
    data, test = sinc(100, noise=0.1, random_state=seed), sinc(TEST, noise=0.0)
    return Split(data.X, data.y, test.X, test.truth)


def uniform_sinc(seed: int, half_range: float = 0.1) -> Split:
    """Uniform noise instead."""
    data, test = uniform_noise(seed, half_range), sinc(TEST, noise=0.0)
    return Split(data.X, data.y, test.X, test.truth)


def friedman(make: Callable[..., Dataset], standardize: bool) -> Callable[[int], Split]:
    """One of Friedman's problems as a function of the seed."""

    def draw(seed: int) -> Split:
        data, test = make(TRAINING, random_state=seed), make(TEST, random_state=SEEDS + seed)
        split = Split(data.X, data.y, test.X, test.truth)
        return scaled(split, StandardScaler()) if standardize else split

    return draw


def boston(scaler: type) -> Callable[[int], Split]:
    """Splits of 481 and 25 rows: the original ones are lost, these are random too."""

    def draw(seed: int) -> Split:
        table = np.loadtxt(BOSTON / "boston.csv", delimiter=",", skiprows=1)
        with np.load(BOSTON / "splits_481_25_ours.npz") as file:
            test = file["test_idx"][seed]
        train = np.setdiff1d(np.arange(len(table)), test)
        X, y = table[:, :-1], table[:, -1]
        return scaled(Split(X[train], y[train], X[test], y[test]), scaler())

    return draw


def scaled(split: Split, scaler: Any) -> Split:
    """Inputs scaled by what the training set says."""
    X = scaler.fit_transform(split.X)
    return Split(X, split.y, scaler.transform(split.X_test), split.y_test)


DRAWS: dict[str, Callable[[int], Split]] = {
    "sinc-gauss": noisy_sinc,
    "sinc-uniform": uniform_sinc,
    "friedman1": friedman(friedman1, standardize=False),
    "friedman2": friedman(friedman2, standardize=True),
    "friedman3": friedman(friedman3, standardize=True),
    "boston": boston(MinMaxScaler),
    "boston-std": boston(StandardScaler),
}


def absent(name: str) -> str | None:
    """Why a data set cannot be used, or None."""
    if name.startswith("boston") and not BOSTON.exists():
        return f"{name}: no boston in ../shared/data, skipped"
    return None


def splits(name: str, count: int = REPETITIONS) -> list[Split]:
    """The first repetitions of a benchmark."""
    return [DRAWS[name](seed) for seed in range(count)]


def widths(X: Array) -> list[float]:
    """Kernel widths r to choose from: a third to eleven times the root of the inputs' variance."""
    grid = np.sqrt(X.var(axis=0).sum()) * 2.0 ** np.arange(-1.5, 3.6, 0.25)
    return [float(r) for r in grid]
