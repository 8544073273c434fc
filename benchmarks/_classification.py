"""What the classification benchmarks share: an independent Laplace evidence, scores, data, widths.

Nothing here uses the library: the evidence is computed from its definition for everyone alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter
from scipy.optimize import minimize_scalar
from sklearn.model_selection import KFold, StratifiedKFold, train_test_split
from sklearn.preprocessing import StandardScaler

from benchmarks._harness import SHARED

DATA = SHARED / "data"
IDA = ("banana", "breast-cancer", "titanic", "waveform", "german", "image")
SMOOTHED = "usps-smoothed"
USPS = ("usps", SMOOTHED)
FOLDS = 5

Array = NDArray[np.float64]
Labels = NDArray[np.int64]


# Laplace evidence of a Bernoulli model


def laplace_evidence(Phi_a: Array, t: Labels, prior_var: Array) -> float:
    """Laplace approximation of log p(t | prior_var) for the logistic model Phi_a w, t in {0, 1}.

    In u = w / sqrt(prior_var), by the QR factors of [B^1/2 Phi_a diag(prior_var)^1/2; I] at each
    Newton step: collinear columns and extreme variances leave the identity below them.
    """
    A = Phi_a * np.sqrt(prior_var)
    m = A.shape[1]
    sign = 1.0 - 2.0 * t

    def objective(u: Array) -> float:
        return float(-np.logaddexp(0, sign * (A @ u)).sum() - 0.5 * u @ u)

    def expansion(u: Array) -> tuple[Array, Array]:
        # t - p and p (1 - p) without the cancellation of 1 - p.
        f = A @ u
        slope = -sign * np.exp(-np.logaddexp(0, -sign * f))
        curvature = np.exp(-np.logaddexp(0, f) - np.logaddexp(0, -f))
        root = np.vstack([A * np.sqrt(curvature)[:, np.newaxis], np.eye(m)])
        return A.T @ slope - u, np.linalg.qr(root)[1]

    u = np.zeros(m)
    value = objective(u)
    for _ in range(200):
        gradient, R = expansion(u)
        step = np.linalg.solve(R, np.linalg.solve(R.T, gradient))
        decrement = float(gradient @ step)
        if decrement < 1e-16 * max(1.0, abs(value)):
            break
        length = 1.0
        while (trial := objective(u + length * step)) < value and length > 1e-10:
            length /= 2
        if trial < value:
            break
        u, value = u + length * step, trial
    log_det = 2 * np.log(np.abs(np.diag(expansion(u)[1]))).sum()
    return value - 0.5 * float(log_det)


def laplace_evidence_with_bias(Phi_a: Array, t: Labels, prior_var: Array) -> float:
    """Evidence after a constant atom joins with the prior variance that suits it best.

    A flat prior on an intercept has no normalized evidence: this puts such models on the scale of
    those that hold the bias as an atom.
    """
    Phi = np.column_stack([np.ones(len(t)), Phi_a])

    def loss(log_var: float) -> float:
        return -laplace_evidence(Phi, t, np.r_[np.exp(log_var), prior_var])

    found = minimize_scalar(loss, bounds=(-12.0, 18.0), method="bounded", options={"xatol": 1e-3})
    return max(-float(found.fun), laplace_evidence(Phi_a, t, prior_var))


# Scores of probabilities


def log_loss(proba: Array, y: Labels) -> Array:
    """Minus the log probability of each row's class, of columns numbered as the labels.

    A certain answer that is wrong costs infinitely much; the smallest double bounds it.
    """
    return -np.log(np.maximum(proba[np.arange(len(y)), y], np.finfo(float).tiny))


def brier(proba: Array, y: Labels) -> Array:
    """Squared distance of each row's probabilities to its class; half of it for two classes."""
    truth = np.zeros_like(proba)
    truth[np.arange(len(y)), y] = 1
    score: Array = np.square(proba - truth).sum(axis=1)
    return 0.5 * score if proba.shape[1] == 2 else score


@dataclass(frozen=True, slots=True)
class Reliability:
    """Stated probabilities and observed frequencies in bins of equal width."""

    count: NDArray[np.int64]
    stated: Array
    observed: Array

    @property
    def error(self) -> float:
        """Expected calibration error: mean distance of stated and observed, weighted by rows."""
        used = self.count > 0
        gap = np.abs(self.stated[used] - self.observed[used])
        return float(np.average(gap, weights=self.count[used]))


def reliability(proba: Array, y: Labels, bins: int = 10) -> Reliability:
    """Of class 1 where there are two classes, of the most probable class otherwise."""
    if proba.shape[1] == 2:
        stated, hit = proba[:, 1], y == 1
    else:
        stated, hit = proba.max(axis=1), proba.argmax(axis=1) == y
    edges = np.linspace(0, 1, bins + 1)
    which = np.clip(np.digitize(stated, edges) - 1, 0, bins - 1)
    count = np.bincount(which, minlength=bins)
    with np.errstate(invalid="ignore"):
        mean = np.bincount(which, stated, bins) / count
        observed = np.bincount(which, hit, bins) / count
    return Reliability(count, mean, observed)


def chance(proba: Array, draws: int = 100, seed: int = 0) -> float:
    """The expected calibration error that these probabilities would have if they were exact."""
    rng = np.random.default_rng(seed)
    total = np.cumsum(proba, axis=1)
    u = rng.uniform(size=(draws, len(proba), 1))
    labels = np.minimum((u > total).sum(axis=2), proba.shape[1] - 1)
    return float(np.mean([reliability(proba, y).error for y in labels]))


def standard_error(values: Array | list[float]) -> float:
    """Of the mean of independent values; NaN for a single one."""
    values = np.asarray(values, dtype=float)
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else np.nan


# Data beside the project


@dataclass(frozen=True, slots=True)
class Split:
    """One training set and its test set; labels are 0 to K - 1, targets of regressions floats."""

    X: Array
    y: NDArray[Any]
    X_test: Array
    y_test: NDArray[Any]


def absent(name: str) -> str | None:
    """Why a data set cannot be used, or None."""
    path = _path(name)
    return None if path.exists() else f"{name}: no {path.name} in ../shared/data, skipped"


def splits(name: str) -> list[Split]:
    """The original splits of a data set, inputs as the papers scaled them."""
    path = _path(name)
    if name in IDA:
        with np.load(path) as z:
            X, y = z["X"].astype(float), (z["t"] > 0).astype(np.int64)
            pairs = zip(z["train_idx"], z["test_idx"], strict=True)
            return [Split(X[a], y[a], X[b], y[b]) for a, b in pairs]
    if name in USPS:
        with np.load(path) as z:
            X, X_test = z["X_train"] / 1000.0, z["X_test"] / 1000.0
            if name == SMOOTHED:
                X, X_test = smoothed(X), smoothed(X_test)
            return [Split(X, z["y_train"].astype(np.int64), X_test, z["y_test"].astype(np.int64))]
    train, test = _table(path), _table(path.with_name(path.name.replace("_tr", "_te")))
    if name == "pima":
        # Units of its seven inputs differ by three orders of magnitude.
        scale = StandardScaler().fit(train[0])
        train, test = ((scale.transform(X), y) for X, y in (train, test))
    return [Split(*train, *test)]


def smoothed(digits: Array) -> Array:
    """Digits of 16 x 16 pixels blurred by a Gaussian of 0.75 pixels, on a ground of -1."""
    images = digits.reshape(-1, 16, 16)
    blurred = gaussian_filter(images, (0, 0.75, 0.75), mode="constant", cval=-1.0)
    return np.asarray(blurred.reshape(digits.shape))


def _path(name: str) -> Path:
    files = {
        "pima": "pima/pima_tr.csv",
        "ripley": "ripley/synth_tr.csv",
        **dict.fromkeys(USPS, "usps/usps.npz"),
    }
    return DATA / files.get(name, f"ida/{name}.npz")


def _table(path: Path) -> tuple[Array, Labels]:
    values = np.loadtxt(path, delimiter=",", skiprows=1)
    return values[:, :-1], values[:, -1].astype(np.int64)


# Widths by cross-validation


def widths(name: str, X: Array) -> list[float]:
    """Kernel widths r to choose from: a third to six times the root of the inputs' variance.

    That is the root of the dimension where every input has variance one. USPS is large and errs far
    more at both ends: only the middle five.
    """
    grid = np.sqrt(X.var(axis=0).sum()) * 2.0 ** np.arange(-1.5, 2.6, 0.5)
    return [float(r) for r in (grid[2:7] if name in USPS else grid)]


def selection_sets(name: str, sets: list[Split], count: int = 5, rows: int = 1500) -> list[Split]:
    """What to choose settings on: the first training sets; of USPS some rows of each class."""
    if name not in USPS:
        return sets[:count]
    if rows >= len(sets[0].X):
        return sets
    X, _, y, _ = train_test_split(
        sets[0].X, sets[0].y, train_size=rows, stratify=sets[0].y, random_state=0
    )
    return [Split(X, y, sets[0].X_test, sets[0].y_test)]


def folds(split: Split, seed: int = 0) -> Iterator[Split]:
    """Five parts of a training set, each in turn the test set of the others.

    Classes are in proportion in each; targets of regressions come as they are.
    """
    kind = StratifiedKFold if split.y.dtype.kind == "i" else KFold
    parts = kind(FOLDS, shuffle=True, random_state=seed).split(split.X, split.y)
    for a, b in parts:
        yield Split(split.X[a], split.y[a], split.X[b], split.y[b])


def cross_validate(
    candidates: list[Any], errors: Callable[[Any, Split], float], sets: list[Split]
) -> tuple[Any, dict[Any, float]]:
    """The candidate with the smallest error over the folds of all sets, and everyone's error.

    The last of equals wins: candidates come in the order of growing smoothness.
    """
    mean = {
        c: float(np.mean([errors(c, fold) for split in sets for fold in folds(split)]))
        for c in candidates
    }
    best = min(mean.values())
    return [c for c in candidates if mean[c] <= best][-1], mean


def median_choice(
    candidates: list[Any], errors: Callable[[Any, Split], float], sets: list[Split]
) -> tuple[Any, dict[Any, float]]:
    """The median of what each set would choose, as those who made the IDA splits did.

    Of candidates of several settings it is the median of each of them. Everyone's mean error comes
    with it. Among equals of one set the last wins, as in `cross_validate`.
    """
    own = [cross_validate(candidates, errors, [split]) for split in sets]
    chosen = np.median(np.array([best for best, _ in own]), axis=0)
    best = float(chosen) if chosen.ndim == 0 else tuple(map(float, chosen))
    return best, {c: float(np.mean([found[c] for _, found in own])) for c in candidates}
