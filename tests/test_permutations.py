"""Rows, inputs and centres in another order: the same optimum, or one of equal worth.

Where data leave no doubt, neither order nor rounding may decide what is found. These tests are run
under several BLAS kernels too (`make kernels`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest

from sparsebayes import RVC, RVR, SparseBayesClassifier, SparseBayesRegressor
from sparsebayes.datasets import friedman1, mixtures, sinc
from sparsebayes.dictionaries import Kernel, Linear, StationaryWavelet, Wavelet

NATS = 1e-3  # of evidence
PART = 0.01  # of the standard deviation of a prediction, or of one in probabilities

# Kernels whose widths are learned have many optima of nearly equal worth, and order may decide
# between them. How far apart they are here, by evidence and by predictions on average.
SEVERAL = {"pooled", "pooled, two inputs", "pooled, ten inputs", "evidence"}
SEVERAL_NATS, SEVERAL_PART = 2.0, 0.7


@dataclass(frozen=True)
class Data:
    X: np.ndarray
    y: np.ndarray
    new: np.ndarray  # rows to predict at

    @property
    def centers(self):
        return self.X[:40]


def of_sinc(dim=1):
    data, new = (sinc(n, noise=0.1, dim=dim, random_state=n) for n in (120, 50))
    return Data(data.X, data.y, new.X)


def of_friedman():
    data, new = (friedman1(n, random_state=n) for n in (120, 50))
    return Data(data.X, data.y, new.X)


def of_mixtures():
    data, new = (mixtures(n, random_state=n) for n in (150, 50))
    return Data(data.X, data.y, new.X)


def linear(target: Callable[[np.ndarray, np.random.Generator], np.ndarray], n=200):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 8))
    return Data(X, target(X[:, 0] - 2 * X[:, 3] + 0.5 * X[:, 5], rng), rng.normal(size=(50, 8)))


def of_groups():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 150)
    corners = 3.0 * np.array([[0, 0], [1, 0], [0, 1]])
    return Data(corners[labels] + rng.normal(size=(150, 2)), labels, rng.normal(1, 2, (50, 2)))


def of_a_signal():
    rng, x = np.random.default_rng(0), np.arange(64.0)
    y = np.sin(x / 9) + (x > 30) + 0.1 * rng.normal(size=64)
    return Data(x[:, None], y, x[:, None])


def numbers(score, rng):
    return score + 0.3 * rng.normal(size=len(score))


def two(score, rng):
    return (score + rng.logistic(size=len(score)) > 0).astype(int)


def three(score, rng):
    return np.digitize(score + rng.logistic(size=len(score)), [-1, 1])


def counts(score, rng):
    return rng.poisson(np.exp(0.5 + 0.3 * score))


BLOCKS = {"memory": "64MiB"}
# What is to be fitted, and how, given the centres in the order of the day.
CASES: dict[str, tuple[Callable[[], Data], Callable[[np.ndarray], Any]]] = {
    "linear": (lambda: linear(numbers), lambda c: SparseBayesRegressor()),
    "linear, flat": (lambda: linear(numbers), lambda c: SparseBayesRegressor(prior="flat")),
    "linear, in blocks": (lambda: linear(numbers, 3000), lambda c: SparseBayesRegressor(**BLOCKS)),
    "pooled": (of_sinc, lambda c: RVR()),
    "pooled, two inputs": (lambda: of_sinc(2), lambda c: RVR()),
    "pooled, ten inputs": (of_friedman, lambda c: RVR()),
    "evidence": (of_sinc, lambda c: RVR(gamma="evidence")),
    "ard": (lambda: of_sinc(2), lambda c: RVR(gamma="ard")),
    "pooled-ard": (lambda: of_sinc(2), lambda c: RVR(gamma="pooled-ard")),
    "a width": (of_sinc, lambda c: RVR(gamma=1 / 9)),
    "a width, in blocks": (of_sinc, lambda c: RVR(gamma=1 / 9, **BLOCKS)),
    "centres": (
        lambda: of_sinc(2),
        lambda c: SparseBayesRegressor(Kernel(gamma=0.1, centers=c)),
    ),
    "centres, in blocks": (
        lambda: of_sinc(2),
        lambda c: SparseBayesRegressor(Kernel(gamma=0.1, centers=c), **BLOCKS),
    ),
    "union": (
        lambda: of_sinc(2),
        lambda c: SparseBayesRegressor(Linear() + Kernel(gamma=0.1, centers=c)),
    ),
    "wavelets": (of_a_signal, lambda c: SparseBayesRegressor(Wavelet("sym8"))),
    "wavelets and kernels": (
        of_a_signal,
        lambda c: SparseBayesRegressor(Wavelet("haar") + Kernel(gamma=0.01)),
    ),
    "wavelets at all shifts": (
        of_a_signal,
        lambda c: SparseBayesRegressor(StationaryWavelet("haar", 3)),
    ),
    "counts": (lambda: linear(counts), lambda c: SparseBayesRegressor(likelihood="poisson")),
    "two classes": (lambda: linear(two), lambda c: SparseBayesClassifier()),
    "three classes": (lambda: linear(three), lambda c: SparseBayesClassifier()),
    "three classes, in blocks": (
        lambda: linear(three, 3000),
        lambda c: SparseBayesClassifier(**BLOCKS),
    ),
    "RVC": (of_groups, lambda c: RVC()),
    "RVC, shared": (of_groups, lambda c: RVC(shared=True)),
    "RVC, a width": (of_mixtures, lambda c: RVC(gamma=4.0)),
    "RVC, evidence": (of_mixtures, lambda c: RVC(gamma="evidence")),
    "RVC, pooled": (of_mixtures, lambda c: RVC(gamma="pooled")),
    "RVC, ard": (of_mixtures, lambda c: RVC(gamma="ard")),
}


@dataclass(frozen=True)
class Order:
    rows: bool
    columns: bool

    def of(self, data: Data, rng: np.random.Generator):
        """Data and centres in another order, and the order of the columns."""
        rows = rng.permutation(len(data.X)) if self.rows else np.arange(len(data.X))
        columns, atoms = np.arange(data.X.shape[1]), np.arange(len(data.centers))
        if self.columns:
            columns, atoms = rng.permutation(columns), rng.permutation(atoms)
        moved = Data(data.X[rows][:, columns], data.y[rows], data.new[:, columns])
        return moved, data.centers[atoms][:, columns]


ORDERS = {"rows": Order(True, False), "rows and columns": Order(True, True)}


@cache
def in_order(name):
    given, make = CASES[name]
    data = given()
    return data, make(data.centers).fit(data.X, data.y)


def predicted(model, X):
    """Predictions, and what their differences are to be measured in."""
    if hasattr(model, "predict_proba"):
        return model.predict_proba(X), 1.0
    return model.predict(X, return_std=True)


ONE_INPUT = (of_sinc, of_a_signal)  # and a centre at each row: only rows can be in another order
PAIRS = [
    (name, order)
    for name in CASES
    for order in ORDERS
    if (order == "rows") == (CASES[name][0] in ONE_INPUT)
]


@pytest.mark.parametrize(("name", "order"), PAIRS)
def test_another_order_finds_an_optimum_of_equal_worth(name, order):
    order = ORDERS[order]
    data, model = in_order(name)
    moved, centers = order.of(data, np.random.default_rng(order.rows + 2 * order.columns))
    other = CASES[name][1](centers).fit(moved.X, moved.y)
    for each in (model, other):
        assert each.converged_, each.solution_.status.value
        assert each.certificate_.max_gain < 1e-6
    mean, unit = predicted(model, data.new)
    apart = np.abs(predicted(other, moved.new)[0] - mean) / unit
    gain = other.log_marginal_likelihood_ - model.log_marginal_likelihood_
    if name in SEVERAL:
        assert abs(gain) < SEVERAL_NATS, f"{gain} nats"
        assert np.sqrt(np.mean(apart**2)) < SEVERAL_PART
    else:
        assert abs(gain) < NATS, f"{gain} nats, {apart.max()} standard deviations"
        assert apart.max() < PART
