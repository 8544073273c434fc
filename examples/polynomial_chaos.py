"""A surrogate by polynomial chaos, and which inputs matter
===========================================================

A simulation is expensive: 120 runs are all there is. Its output is expanded in products of Legendre
polynomials, orthonormal over the inputs: squares of weights are shares of the variance (Sobol
indices). The trade picks products by cross-validated LARS, or kriging.
"""

from dataclasses import dataclass, replace
from itertools import product

import matplotlib.pyplot as plt
import numpy as np
from numpy.polynomial.legendre import legvander
from sklearn.base import BaseEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.linear_model import LassoLarsCV

from sparsebayes import SparseBayesRegressor


class Legendre(BaseEstimator):
    def __init__(self, degree=12):
        self.degree = degree

    def bind(self, X, *, sample_weight=None, random_state=None):
        every = product(range(self.degree + 1), repeat=X.shape[1])
        kept = np.array([k for k in every if 0 < sum(k) <= self.degree])
        return LegendreAtoms(np.arange(len(kept)), kept, len(kept), X.shape[1])


@dataclass(frozen=True, eq=False)
class LegendreAtoms:
    index: np.ndarray
    degrees: np.ndarray  # of each input in each product
    count: int
    n_features_in: int
    orthonormal: bool = False  # over the distribution, not at the samples
    size = property(lambda self: len(self.index))

    def evaluate(self, X, out=None):
        top = self.degrees.max(initial=0)
        one = [legvander(x, top) * np.sqrt(2 * np.arange(top + 1) + 1) for x in X.T]
        return np.prod([P[:, k] for P, k in zip(one, self.degrees.T, strict=True)], axis=0, out=out)

    def restrict(self, at):
        return replace(self, index=self.index[at], degrees=self.degrees[at])


def ishigami(X):
    x, y, z = np.pi * X.T
    return np.sin(x) + 7 * np.sin(y) ** 2 + 0.1 * z**4 * np.sin(x)


# %%
# 454 products, 120 noisy runs. Total Sobol index: the share in which an input has a part.

rng = np.random.default_rng(0)
X, X_new = rng.uniform(-1, 1, (120, 3)), rng.uniform(-1, 1, (5000, 3))
y, truth = ishigami(X) + rng.normal(0, 0.2, 120), ishigami(X_new)
model, atoms = SparseBayesRegressor(Legendre(12)).fit(X, y), Legendre(12).bind(X)
share = model.weights_**2 / np.sum(model.weights_**2)
print(f"{len(share)} of {atoms.size} products, noise {model.noise_variance_**0.5:.2f} (true 0.2)")
print("total Sobol indices", (share @ (atoms.degrees[model.relevance_] > 0)).round(3))
print("exact ones          [0.558 0.442 0.244]")

# %%
# Errors at new inputs:

lars = LassoLarsCV(cv=5).fit(atoms.evaluate(X), y).predict(atoms.evaluate(X_new))
process = GaussianProcessRegressor(RBF([0.5] * 3) + WhiteKernel(0.1), normalize_y=True).fit(X, y)
_, panels = plt.subplots(1, 3, figsize=(6.5, 2.6), layout="constrained")
found = {"sparse Bayes": model.predict(X_new), "LARS": lars, "kriging": process.predict(X_new)}
for axes, (name, values) in zip(panels, found.items(), strict=True):
    print(f"{name}: error {np.sqrt(np.mean((values - truth) ** 2)):.3f}")
    axes.plot(truth[::5], values[::5], ".", color="#0072b2", markersize=2)
    axes.set(title=name, xlabel="simulation", ylabel="surrogate")
plt.show()
