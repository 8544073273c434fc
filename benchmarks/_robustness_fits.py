"""Some 300 small well-posed fits, of which `robustness` asks whether rounding or order decides."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from sparsebayes import RVC, RVR, SparseBayesClassifier, SparseBayesRegressor
from sparsebayes.datasets import friedman1, friedman2, friedman3, mixtures, sparse_linear
from sparsebayes.dictionaries import Kernel, Linear

Array = NDArray[np.float64]

WIDTHS = {1: 1 / 9, 2: 1 / 6.25}  # gamma of sinc in one and two dimensions
NEW = 25  # rows that are predicted


@dataclass(frozen=True)
class Case:
    """One fit: data, new rows, and an estimator of which a clone is fitted."""

    family: str
    name: str
    model: Any
    X: Array
    y: Array
    new: Array
    kind: str = "function"  # or classes, or counts
    given: str = "arrays"  # or dask, or parts
    weights: Array | None = None
    free: bool = False  # of noise: the floor of the noise is an answer, too
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        return f"{self.family}: {self.name}"


def found(case: Case, order: int) -> dict[str, Any]:
    """Fit with rows and columns in one of some orders; the first is that of the data."""
    X, y, new, weights = case.X, case.y, case.new, case.weights
    model = clone(case.model)
    if order:
        rng = np.random.default_rng(1000 + order)
        rows, columns = rng.permutation(len(X)), rng.permutation(X.shape[1])
        X, y, new = X[rows][:, columns], y[rows], new[:, columns]
        weights = None if weights is None else weights[rows]
        centers = model.get_params().get("centers")
        if isinstance(centers, np.ndarray):
            model.set_params(centers=rng.permutation(centers)[:, columns])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit(case, model, X, y, weights)
        mean, std = predicted(case.kind, model, new)
    return {
        "status": model.solution_.status.name,
        "evidence": float(model.log_marginal_likelihood_),
        "atoms": sum(np.size(one) for one in model.relevance_),
        "mean": np.ravel(mean).tolist(),
        "std": np.ravel(std).tolist(),
    }


def fit(case: Case, model: Any, X: Array, y: Array, weights: Array | None) -> None:
    """Fit to arrays, to partitions, or in parts."""
    if case.given == "dask":
        import dask
        import dask.array as da

        with dask.config.set(scheduler="synchronous"):
            model.fit(da.from_array(X, chunks=(40, -1)), da.from_array(y, chunks=40))
    elif case.given == "parts":
        for start in range(0, len(X), 50):
            model.partial_fit(X[start : start + 50], y[start : start + 50])
    elif weights is None:
        model.fit(X, y)
    else:
        model.fit(X, y, sample_weight=weights)


def predicted(kind: str, model: Any, new: Array) -> tuple[Array, Array]:
    """Predictions, and the standard deviation of a new target about them."""
    if kind == "classes":
        p = model.predict_proba(new)
        return p, np.sqrt(p * (1 - p))
    if kind == "counts":
        distribution = model.predict_distribution(new)
        return distribution.mean, distribution.std
    mean, std = model.predict(new, return_std=True)
    return mean, np.broadcast_to(std if mean.ndim == std.ndim else std[:, None], mean.shape)


# The families


def curve(n: int, noise: float, dim: int, seed: int) -> tuple[Array, Array, Array]:
    """Sinc at random places, with noise."""
    rng = np.random.default_rng(100 * seed + 10 * dim + n)
    X, new = rng.uniform(-10, 10, (n, dim)), rng.uniform(-10, 10, (NEW, dim))
    if dim == 1:
        y = np.sinc(X[:, 0] / np.pi)
    else:
        y = np.sinc(X[:, 0] / np.pi) + 0.1 * X[:, 1]
    return X, y + noise * rng.standard_normal(n), new


def smooth() -> Iterator[Case]:
    """Kernels of a given width."""
    for dim, n, seed in product((1, 2), (60, 120, 200), range(6)):
        X, y, new = curve(n, 0.1, dim, seed)
        name = f"{dim}-D, N = {n}, draw {seed}"
        yield Case("sinc", name, RVR(gamma=WIDTHS[dim]), X, y, new)


def noise_free() -> Iterator[Case]:
    for dim, n, seed in product((1, 2), (60, 120), range(5)):
        X, y, new = curve(n, 0.0, dim, 10 + seed)
        name = f"{dim}-D, N = {n}, draw {seed}"
        yield Case("without noise", name, RVR(gamma=WIDTHS[dim]), X, y, new, free=True)
        if n == 120:
            model = RVR(gamma=WIDTHS[dim], centers=X[:60], memory="100MB")
            yield Case("without noise", f"{name}, memory", model, X, y, new, free=True)


def little_noise() -> Iterator[Case]:
    for dim, noise, seed in product((1, 2), (1e-4, 1e-3, 1e-2), range(4)):
        X, y, new = curve(100, noise, dim, 20 + seed)
        name = f"{dim}-D, noise {noise:g}, draw {seed}"
        yield Case("little noise", name, RVR(gamma=WIDTHS[dim]), X, y, new)


def friedman() -> Iterator[Case]:
    for (name, make), seed in product(
        (("1", friedman1), ("2", friedman2), ("3", friedman3)), range(8)
    ):
        train, test = make(100, random_state=seed), make(NEW, random_state=100 + seed)
        mean, scale = train.X.mean(axis=0), train.X.std(axis=0)
        d = 5  # columns, of which the targets depend on all: the others of the first are noise
        X, new = ((data.X - mean)[:, :d] / scale[:d] for data in (train, test))
        yield Case("Friedman", f"{name}, draw {seed}", RVR(gamma="scale"), X, train.y, new)


def by_rows() -> Iterator[Case]:
    """Rows that are read in blocks, by Dask, and in parts."""
    for dim, seed in product((1, 2), range(10)):
        X, y, new = curve(300, 0.1, dim, 30 + seed)
        model = RVR(gamma=WIDTHS[dim], centers=X[:40], memory="100MB")
        yield Case("memory", f"{dim}-D, draw {seed}", model, X, y, new)
        if seed < 6:
            yield Case("Dask", f"{dim}-D, draw {seed}", model, X, y, new, given="dask")
        if seed < 4:
            model = RVR(gamma=WIDTHS[dim], centers=X[:40])
            yield Case("in parts", f"{dim}-D, draw {seed}", model, X, y, new, given="parts")
    for seed in range(4):
        data, new = mixtures(300, random_state=40 + seed), mixtures(NEW, random_state=50 + seed).X
        model = RVC(gamma=2.0, centers=data.X[:40], memory="100MB")
        yield Case("memory", f"classes, draw {seed}", model, data.X, data.y, new, "classes")


def learned() -> Iterator[Case]:
    """Widths that the fit finds."""
    for gamma, seed in product(("pooled", "pooled-ard", "evidence", "ard"), range(3)):
        train = friedman1(80, random_state=60 + seed)
        X, new = train.X[:, :5], friedman1(NEW, random_state=70 + seed).X[:, :5]
        model = RVR(gamma=gamma)
        yield Case("learned widths", f"{gamma}, Friedman 1, draw {seed}", model, X, train.y, new)
        for dim in (1, 2):
            X, y, new = curve(80, 0.1, dim, 60 + seed)
            yield Case("learned widths", f"{gamma}, {dim}-D, draw {seed}", model, X, y, new)


def linear() -> Iterator[Case]:
    """Columns, of which few count, under priors with and without a price."""
    shapes = ((200, 40, 6), (100, 60, 8), (60, 150, 5))
    for prior, (n, m, k), seed in product(("flat", "aic", "bic", "ric"), shapes, range(3)):
        if prior == "flat" and m > n:
            continue  # it explains everything: not well posed
        data = sparse_linear(n, m, k, random_state=80 + seed)
        new = np.random.default_rng(seed).normal(size=(NEW, m))
        model = SparseBayesRegressor(prior=prior)
        name = f"{n} x {m}, {prior}, draw {seed}"
        yield Case("linear", name, model, data.X, data.y, new)


def others() -> Iterator[Case]:
    """Weights, several targets, a given noise, priced kernels, other kernels and unions."""
    for seed in range(6):
        X, y, new = curve(120, 0.1, 1, 90 + seed)
        rng = np.random.default_rng(seed)
        model = RVR(gamma=WIDTHS[1])
        yield Case("weights", f"draw {seed}", model, X, y, new, weights=rng.uniform(0, 2, 120))
        Y = np.column_stack([y, 1 - 2 * y + 0.1 * rng.normal(size=120)])
        yield Case("targets", f"draw {seed}", model, X, Y, new)
        model = RVR(gamma=WIDTHS[1], noise_variance=0.01)
        yield Case("noise given", f"draw {seed}", model, X, y, new)
        model = RVR(gamma=WIDTHS[1], prior="bic")
        yield Case("priced kernels", f"draw {seed}", model, X, y, new)
        union = SparseBayesRegressor(Linear() + Kernel(gamma=WIDTHS[1]), prior="bic")
        yield Case("unions", f"draw {seed}", union, X, y, new)
    for kernel, seed in product(("laplacian", "tps", "lspline"), range(3)):
        X, y, new = curve(100, 0.1, 1, 100 + seed)
        model = SparseBayesRegressor(Kernel(kernel))
        yield Case("other kernels", f"{kernel}, draw {seed}", model, X, y, new)


def classes() -> Iterator[Case]:
    for n, seed in product((100, 200), range(6)):
        train, new = mixtures(n, random_state=seed), mixtures(NEW, random_state=200 + seed).X
        name = f"N = {n}, draw {seed}"
        yield Case("classes", name, RVC(gamma=4.0), train.X, train.y, new, "classes")
    for gamma, seed in product(("pooled", "evidence"), range(3)):
        train, new = mixtures(100, random_state=300 + seed), mixtures(NEW, random_state=seed).X
        name = f"{gamma}, classes, draw {seed}"
        yield Case("learned widths", name, RVC(gamma=gamma), train.X, train.y, new, "classes")
    for shared, seed in product((False, True), range(3)):
        rng = np.random.default_rng(seed)
        y = rng.integers(3, size=150)
        angle = 2 * np.pi * y / 3
        X = np.c_[np.cos(angle), np.sin(angle)] + 0.7 * rng.normal(size=(150, 2))
        model = RVC(gamma=1.0, shared=shared)
        name = f"three{', shared' * shared}, draw {seed}"
        yield Case("classes", name, model, X, y, rng.normal(size=(NEW, 2)), "classes")
    for m, seed in product((10, 60), range(5)):
        rng = np.random.default_rng(50 + seed)
        X, new = rng.normal(size=(150, m)), rng.normal(size=(NEW, m))
        y = (X[:, 0] - X[:, 1] + rng.logistic(size=150) > 0).astype(float)
        name = f"linear, 150 x {m}, draw {seed}"
        yield Case("classes", name, SparseBayesClassifier(), X, y, new, "classes")


def counts() -> Iterator[Case]:
    for seed in range(6):
        X, y, new = curve(120, 0.0, 1, 110 + seed)
        rng = np.random.default_rng(seed)
        model = RVR(gamma=WIDTHS[1], likelihood="poisson")
        counted = rng.poisson(np.exp(1 + 2 * y)).astype(float)
        yield Case("counts", f"kernels, draw {seed}", model, X, counted, new, "counts")
        Z, new = rng.normal(size=(120, 30)), rng.normal(size=(NEW, 30))
        counted = rng.poisson(np.exp(1 + 0.5 * Z[:, 3] - 0.4 * Z[:, 7])).astype(float)
        machine = SparseBayesRegressor(likelihood="poisson")
        yield Case("counts", f"linear, draw {seed}", machine, Z, counted, new, "counts")


FAMILIES: Sequence[Callable[[], Iterator[Case]]] = (
    smooth,
    noise_free,
    little_noise,
    friedman,
    by_rows,
    learned,
    linear,
    others,
    classes,
    counts,
)


def cases(wanted: Sequence[str] | None = None) -> Iterator[Case]:
    """Yield the fits of some families, all where that is None."""
    for family in FAMILIES:
        for case in family():
            if wanted is None or case.family in wanted:
                yield case
