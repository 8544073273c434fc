"""Equations of motion from noisy data
======================================

The Lorenz system is watched with noise. Which of 20 polynomials drive it, and how sure is that? The
trade's tool, SINDy, thresholds least squares again and again (STLSQ). Its threshold must be chosen.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.integrate import cumulative_simpson, solve_ivp
from scipy.signal import savgol_filter
from sklearn.preprocessing import PolynomialFeatures

from sparsebayes import SparseBayesRegressor

DT, EVERY = 0.004, 12
LIBRARY = PolynomialFeatures(3).fit(np.zeros((1, 3)))
NAMES = list(LIBRARY.get_feature_names_out(["x", "y", "z"]))
RIGHT = [{"x": -10, "y": 10}, {"x": 28, "y": -1, "x z": -1}, {"z": -8 / 3, "x y": 1}]
TRUE = np.array([[terms.get(name, 0) for name in NAMES] for terms in RIGHT])


def lorenz(_, s):
    return 10 * (s[1] - s[0]), s[0] * (28 - s[2]) - s[1], s[0] * s[1] - 8 / 3 * s[2]


time = np.arange(0, 20, DT)
path = solve_ivp(lorenz, (0, 20), [-8, 8, 27], t_eval=time, rtol=1e-8, atol=1e-8).y.T


def watch(share, seed, window=15):
    """States with noise; integrals of the library over short times, and how far states moved."""
    rng = np.random.default_rng(seed)
    states = path + share * path.std(axis=0) * rng.normal(size=path.shape)
    library = LIBRARY.transform(savgol_filter(states, window, 3, axis=0))
    total = cumulative_simpson(library, dx=DT, axis=0, initial=0)  # no derivative of noisy data
    return states, np.diff(total[::EVERY], axis=0), np.diff(states[::EVERY], axis=0)


def stlsq(A, moved, threshold):
    kept = np.ones(A.shape[1], dtype=bool)
    for _ in range(20):
        weights = np.linalg.lstsq(A * kept, moved, rcond=None)[0]
        kept = np.abs(weights) >= threshold
    return weights * kept


# %%
# Noise of 3 % of each state's spread. The terms kept, with their error bars:

states, A, moved = watch(0.03, seed=0)
models = [SparseBayesRegressor(fit_intercept=False).fit(A, column) for column in moved.T]
terms = []
for name, model in zip("xyz", models, strict=True):
    std = np.sqrt(np.diag(model.covariance_))
    found = list(zip(model.relevance_, model.weights_, std, strict=True))
    print(f"d{name}/dt =", " ".join(f"{w:+.2f}({e:.2f}) {NAMES[j]}" for j, w, e in found))
    terms += [(f"d{name}: {NAMES[j]}", w, e, TRUE["xyz".index(name), j]) for j, w, e in found]

# %%
# Are exactly the right terms of all equations found, in five draws? The second case is smoothed too
# much for its noise: that looks like further small terms, which only a threshold leaves out.

for share, window in (0.03, 15), (0.002, 31):
    tries = [watch(share, seed, window)[1:] for seed in range(5)]
    ways = {f"STLSQ at {c}": lambda A, m, c=c: stlsq(A, m, c) for c in (0.1, 0.3, 0.9)}
    ways["sparse Bayes"] = lambda A, m: SparseBayesRegressor(fit_intercept=False).fit(A, m).coef_
    for name, way in ways.items():
        fits = [np.array([way(A, column) for column in moved.T]) for A, moved in tries]
        right = sum(np.array_equal(fit != 0, TRUE != 0) for fit in fits)
        print(f"noise {share:.1%}, window {window}, {name}: right in {right} of 5")

_, (left, right) = plt.subplots(1, 2, figsize=(6, 3.2), layout="constrained")
left.plot(states[::3, 0], states[::3, 2], ".", color="0.5", markersize=1)
left.set(xlabel="x", ylabel="z")
for label, weight, error, truth in terms:
    right.errorbar(weight / truth, label, xerr=2 * error / abs(truth), fmt="o", color="#0072b2")
right.set(xlabel="found / true", title="two deviations")
plt.show()
