"""Problems and machines of `benchmarks.million`, and one fit in a process of its own.

Data are files, written once; a process reads them into memory or, from disk, maps them.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression, Ridge, SGDClassifier, SGDRegressor
from sklearn.svm import SVC, SVR

from benchmarks._classification import log_loss
from benchmarks._harness import Run
from benchmarks.predict import peak_rss
from sparsebayes.datasets import mixtures, sinc

CENTERS = 2000
GAMMAS = {"regression": 1 / 2.5**2, "classification": 1.0}  # those of `benchmarks.fast2003`
NOISE_STD = 0.1
TEST_ROWS = 20_000
MEMORY = "1GB"  # what our fits may use
BATCH = 10_000  # rows whose features are in memory at a time, where not all are
SEEN_BY_SGD = 10**6  # rows: the first guess that scikit-learn's guide gives
STORED = 8 * CENTERS  # bytes of the features of a row
KEPT_BY_SGD = 2e9  # bytes of features that it keeps from one pass over the rows to the next
_PIECE = 10**6

Array = NDArray[np.float64]


# Data


def draw(problem: str, n: int, seed: Any) -> tuple[Array, NDArray[Any], Array]:
    """Rows, targets, and the truth: the function without noise, or the probability of class 1."""
    random_state = np.random.RandomState(seed)
    if problem == "regression":
        data = sinc(n, noise=NOISE_STD, dim=2, random_state=random_state)
        return data.X, data.y, data.truth
    labeled = mixtures(n, random_state=random_state)
    return labeled.X, labeled.y, labeled.probability


def write(folder: Path, problem: str, n: int) -> None:
    """Write X.npy and y.npy, a million rows at a time."""
    dtype = np.float64 if problem == "regression" else np.int64
    X = np.lib.format.open_memmap(folder / "X.npy", "w+", np.float64, (n, 2))
    y = np.lib.format.open_memmap(folder / "y.npy", "w+", dtype, (n,))
    for start in range(0, n, _PIECE):
        stop = min(start + _PIECE, n)
        X[start:stop], y[start:stop], _ = draw(problem, stop - start, [0, start // _PIECE])
    X.flush()
    y.flush()


def read(folder: Path, disk: bool) -> tuple[Any, Any]:
    """The rows, in memory or mapped."""
    X, y = (np.load(folder / f"{name}.npy", mmap_mode="r" if disk else None) for name in "Xy")
    return X, y


# Machines. Settings of the linear models are the best of a few on the test rows themselves, with
# 10 000 and 50 000 rows to fit: they know more than ours.

RIDGE = 1.0
LOGISTIC = LogisticRegression(C=1000.0, max_iter=2000)
SGD = {
    "regression": SGDRegressor(eta0=1.0, average=True, random_state=0),
    "classification": SGDClassifier(
        "log_loss", alpha=1e-7, learning_rate="constant", eta0=1.0, average=True, random_state=0
    ),
}


@dataclass(frozen=True)
class Featured:
    """A linear model on Nystroem features, which it makes a batch at a time."""

    features: Nystroem
    model: Any

    def batches(self, X: Any) -> Iterator[Array]:
        for start in range(0, len(X), BATCH):
            yield self.features.transform(X[start : start + BATCH])

    def predict(self, X: Any) -> NDArray[Any]:
        return np.concatenate([self.model.predict(Z) for Z in self.batches(X)])

    def predict_proba(self, X: Any) -> Array:
        return np.concatenate([self.model.predict_proba(Z) for Z in self.batches(X)])

    def all_features(self, X: Any) -> Array:
        """Features of all rows; without the second array of their size that transform makes."""
        Z = np.empty((len(X), self.features.n_components))
        for i, part in enumerate(self.batches(X)):
            Z[i * BATCH : i * BATCH + len(part)] = part
        return Z


def _nystroem(problem: str, X: Any) -> Nystroem:
    features = Nystroem(gamma=GAMMAS[problem], n_components=CENTERS, random_state=0)
    # It draws its rows from those it is given, and holds a permutation of them all.
    chosen = np.random.default_rng(0).choice(len(X), min(len(X), 10 * CENTERS), replace=False)
    return features.fit(X[np.sort(chosen)])


def fit_stored(problem: str, X: Any, y: Any, **settings: Any) -> Featured:
    """Ridge or logistic regression on the features of all rows at once."""
    linear = {"regression": Ridge(RIDGE, copy_X=False), "classification": LOGISTIC}[problem]
    machine = Featured(_nystroem(problem, X), clone(linear).set_params(**settings))
    machine.model.fit(machine.all_features(X), np.asarray(y))
    return machine


def fit_normal_equations(problem: str, X: Any, y: Any) -> Featured:
    """The same ridge regression by sums over batches: memory for one batch."""
    ridge = Ridge(RIDGE)
    machine = Featured(_nystroem(problem, X), ridge)
    center = machine.features.transform(X[:BATCH]).mean(axis=0)  # so that nothing cancels
    G, g = np.zeros((CENTERS + 1, CENTERS + 1)), np.zeros(CENTERS + 1)
    for start in range(0, len(X), BATCH):
        Z = machine.features.transform(X[start : start + BATCH]) - center
        Z = np.column_stack([Z, np.ones(len(Z))])
        G += Z.T @ Z
        g += Z.T @ y[start : start + BATCH]
    G[np.diag_indices(CENTERS)] += ridge.alpha
    weights = np.linalg.solve(G, g)
    ridge.coef_, ridge.intercept_ = weights[:-1], float(weights[-1] - weights[:-1] @ center)
    return machine


def fit_sgd(problem: str, X: Any, y: Any) -> Featured:
    """Stochastic gradients, batch by batch, until a million rows have been seen."""
    machine = Featured(_nystroem(problem, X), clone(SGD[problem]))
    options = {"classes": np.unique(y[:BATCH])} if problem == "classification" else {}
    stored = list(machine.batches(X)) if len(X) * STORED <= KEPT_BY_SGD else None
    for _ in range(math.ceil(SEEN_BY_SGD / len(X))):
        for i, Z in enumerate(stored or machine.batches(X)):
            machine.model.partial_fit(Z, np.asarray(y[i * BATCH : (i + 1) * BATCH]), **options)
    return machine


def fit_libsvm(problem: str, X: Any, y: Any) -> Any:
    """With settings of `benchmarks.fast2003`."""
    gamma = GAMMAS[problem]
    machine = SVR(C=1, epsilon=0.1, gamma=gamma) if problem == "regression" else SVC(gamma=gamma)
    return machine.fit(np.asarray(X), np.asarray(y))


@dataclass(frozen=True)
class Own:
    """One of our models, and how far its fit had come when it was last heard of."""

    model: Any
    heard: Any

    def predict(self, X: Any) -> NDArray[Any]:
        return np.asarray(self.model.predict(X))

    def predict_proba(self, X: Any) -> Array:
        return np.asarray(self.model.predict_proba(X))


def fit_own(problem: str, X: Any, y: Any) -> Own:
    """Ours, always on rows in blocks."""
    sparsebayes = import_module("sparsebayes")
    Kernel = import_module("sparsebayes.dictionaries").Kernel
    kinds = {
        "regression": sparsebayes.SparseBayesRegressor,
        "classification": sparsebayes.SparseBayesClassifier,
    }
    heard: deque[Any] = deque(maxlen=1)
    atoms = Kernel("rbf", gamma=GAMMAS[problem], centers=CENTERS)
    settings = {"prior": "flat", "random_state": 0, "memory": MEMORY}
    model = kinds[problem](atoms, callback=heard.append, **settings).fit(X, y)
    return Own(model, heard[0])


@dataclass(frozen=True)
class Machine:
    """A way to fit, for which problems, and the bytes that it is known to need for a row."""

    fit: Callable[[str, Any, Any], Any]
    problems: tuple[str, ...] = ("regression", "classification")
    bytes_per_row: int = 0
    own: bool = False


OWN = "sparsebayes"
MACHINES = {
    OWN: Machine(fit_own, own=True),
    "Nystroem + Ridge": Machine(fit_stored, ("regression",), STORED),
    "Nystroem + Ridge, batches": Machine(fit_normal_equations, ("regression",)),
    "Nystroem + logistic": Machine(fit_stored, ("classification",), STORED),
    # With its default tolerance it stops early: the features are all but collinear.
    "Nystroem + logistic, 1e-6": Machine(
        partial(fit_stored, tol=1e-6), ("classification",), STORED
    ),
    "Nystroem + SGD, batches": Machine(fit_sgd),
    "LIBSVM": Machine(fit_libsvm),
}


# One fit


def losses(problem: str, model: Any) -> dict[str, Array | None]:
    """Losses of fresh rows, one by one, so that machines can be compared on the same rows."""
    X, y, truth = draw(problem, TEST_ROWS, [1])
    if problem == "regression":
        return {"squares": (model.predict(X) - truth) ** 2}
    wrong = np.asarray(model.predict(X) != y, dtype=float)
    # SVC alone has no probabilities.
    if not hasattr(model, "predict_proba"):
        return {"errors": wrong, "log-losses": None}
    return {"errors": wrong, "log-losses": log_loss(model.predict_proba(X), y)}


def true_losses(problem: str) -> dict[str, Array]:
    """What the truth itself would have."""
    _, y, p = draw(problem, TEST_ROWS, [1])
    return {
        "errors": ((p > 0.5) != y).astype(float),
        "log-losses": log_loss(np.column_stack([1 - p, p]), y),
    }


def vectors(model: Any) -> int:
    """Kernels that a prediction evaluates."""
    if isinstance(model, Featured):
        return len(model.features.components_)
    return len(model.model.relevance_ if isinstance(model, Own) else model.support_)


def described(own: Own) -> dict[str, Any]:
    """What is known of one of our fits."""
    certificate = own.model.certificate_
    return {
        "passes": own.heard.passes,
        "screens": own.heard.screens,
        "evidence": own.model.log_marginal_likelihood_,
        "max gain": certificate.max_gain,
        "gradient": certificate.gradient_norm,
        "curvature": certificate.max_curvature,
        "fraction": certificate.fraction,
        "converged": "yes" if own.model.converged_ else "no",
    }


def one_fit(problem: str, name: str, folder: str, disk: bool) -> dict[str, Any]:
    """Fit in this process: time, peak of memory before it predicts, losses of fresh rows."""
    X, y = read(Path(folder), disk)
    before = peak_rss()
    run = Run()
    run.once(partial(MACHINES[name].fit, problem, X, y))
    found = {
        "CPU s": run.cpu,
        "wall s": run.wall,
        "peak MB": peak_rss() / 1e6,
        "at first": before / 1e6,
        "kernels": vectors(run.result),
        "messages": run.messages,
    }
    for kind, values in losses(problem, run.result).items():
        found[kind] = None if values is None else values.tolist()
    return found | (described(run.result) if isinstance(run.result, Own) else {})
