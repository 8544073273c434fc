"""Problems for learned kernels: training rows, test rows, and the truth where it is known.

Inputs have mean zero and variance one over the training rows, so that one width suits all of them
as far as units go.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_diabetes, load_iris, load_wine
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from benchmarks import _classification
from benchmarks._classification import DATA, IDA
from sparsebayes.datasets import friedman1, friedman2, friedman3, mixtures, sinc

Array = NDArray[np.float64]

BOSTON = DATA / "boston" / "boston.csv"
TEST_ROWS = 2000
TEST_SEEDS = 10_000  # from here on
LARGE = 600  # rows of the largest classification set that are used


@dataclass(frozen=True, slots=True)
class Split:
    """Rows to learn from, and rows to be judged by."""

    X: Array
    y: NDArray[Any]
    X_test: Array
    y_test: NDArray[Any]  # as they would be observed
    truth: NDArray[Any]  # without their noise; the same where nobody knows


Draw = Callable[[int], Split]


def scaled(X: Array, y: Any, X_test: Array, y_test: Any, truth: Any = None) -> Split:
    """Inputs in units of the training rows; those that are constant there stay zero."""
    scaler = StandardScaler().fit(X)
    truth = y_test if truth is None else truth
    return Split(scaler.transform(X), y, scaler.transform(X_test), y_test, truth)


def made(make: Callable[..., Any], n: int, seed: int, **options: Any) -> Split:
    """A regression problem of the library's."""
    data = make(n, random_state=seed, **options)
    test = make(TEST_ROWS, random_state=TEST_SEEDS + seed, **options)
    return scaled(data.X, data.y, test.X, test.y, test.truth)


def halves(X: Array, y: NDArray[Any], seed: int) -> Split:
    """Random halves; classes in proportion in both."""
    classes = y if y.dtype.kind == "i" else None
    X, X_test, y, y_test = train_test_split(
        X, y, test_size=0.5, random_state=seed, stratify=classes
    )
    return scaled(X, y, X_test, y_test)


def boston(seed: int) -> Split:
    table = np.loadtxt(BOSTON, delimiter=",", skiprows=1)
    return halves(table[:, :-1], table[:, -1], seed)


def loaded(load: Callable[..., Any], seed: int) -> Split:
    """One of scikit-learn's own sets."""
    return halves(*load(return_X_y=True), seed)


def two_mixtures(n: int, seed: int) -> Split:
    data, test = mixtures(n, random_state=seed), mixtures(TEST_ROWS, random_state=TEST_SEEDS + seed)
    return scaled(data.X, data.y, test.X, test.y)


def ida(name: str, seed: int) -> Split:
    """One of the original splits."""
    sets = _classification.splits(name)
    split = sets[seed % len(sets)]
    return scaled(split.X[:LARGE], split.y[:LARGE], split.X_test, split.y_test)


def friedman(n: int) -> dict[str, Draw]:
    """Friedman's three problems with so many rows."""
    makers = {"Friedman 1": friedman1, "Friedman 2": friedman2, "Friedman 3": friedman3}
    return {f"{name}, N = {n}": partial(made, make, n) for name, make in makers.items()}


def with_boston(draws: dict[str, Draw]) -> dict[str, Draw]:
    """Boston too, where its data are."""
    if BOSTON.exists():
        return draws | {"Boston": boston}
    print("Boston: no boston in ../shared/data, skipped")
    return draws


def regressions() -> dict[str, Draw]:
    """What a default must be good at."""
    draws: dict[str, Draw] = {
        f"sinc, N = {n}, noise {noise}": partial(made, sinc, n, noise=noise)
        for n in (50, 100, 400)
        for noise in (0.05, 0.1, 0.3)
    }
    draws["2-D sinc, N = 1000"] = partial(made, sinc, 1000, noise=0.1, dim=2)
    draws |= friedman(240)
    return with_boston(draws) | {"diabetes": partial(loaded, load_diabetes)}


def classifications() -> dict[str, Draw]:
    """The same of classes."""
    draws: dict[str, Draw] = {
        f"mixtures, N = {n}": partial(two_mixtures, n) for n in (100, 300, 1000)
    }
    draws |= {"iris": partial(loaded, load_iris), "wine": partial(loaded, load_wine)}
    for name in IDA:
        if reason := _classification.absent(name):
            print(reason)
        else:
            draws[name] = partial(ida, name)
    return draws
