"""A dictionary of your own
===========================

Sines and cosines of many frequencies, a few of which are in the data. A dictionary holds parameters
and has ``bind``; what that returns are atoms, which can be evaluated anywhere and restricted to a
few. No class is inherited for it: ``BaseEstimator`` only adds a readable repr and grid searches
over ``dictionary__highest``.
"""

from dataclasses import dataclass, replace

import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import BaseEstimator

from sparsebayes import SparseBayesRegressor
from sparsebayes.dictionaries import Linear

# %%
# The dictionary and its atoms.


class Waves(BaseEstimator):
    def __init__(self, highest=100):
        self.highest = highest

    def bind(self, X, *, sample_weight=None, random_state=None):
        return WaveAtoms(np.arange(2 * self.highest), 2 * self.highest)


@dataclass(frozen=True, eq=False)
class WaveAtoms:
    index: np.ndarray  # position in the dictionary of each atom that is left
    count: int  # positions there are
    orthonormal: bool = False  # makes no claim
    n_features_in: int = 1

    @property
    def size(self):
        return len(self.index)

    def evaluate(self, X, out=None):
        phase = np.multiply(2 * np.pi * X[:, :1], 1 + self.index // 2, out=out)
        return np.sin(phase + np.pi / 2 * (self.index % 2), out=phase)  # odd positions: cosines

    def restrict(self, indices):
        return replace(self, index=self.index[np.asarray(indices, dtype=np.intp)])

    def to_spec(self):
        raise ValueError("models of Waves cannot be stored in a file without code")


# %%
# A trend and two waves in noise. The fit finds them among 201 candidates.

rng = np.random.default_rng(0)
x = rng.uniform(0, 1, 150)
y = 2 * x + np.sin(2 * np.pi * 7 * x) + 0.5 * np.cos(2 * np.pi * 31 * x) + rng.normal(0, 0.2, 150)

model = SparseBayesRegressor(Linear() + Waves(highest=100)).fit(x[:, None], y)
for position, weight in zip(model.relevance_, model.weights_, strict=True):
    wave = f"{('sine', 'cosine')[(position - 1) % 2]} of frequency {(position + 1) // 2}"
    print(f"{weight:+.2f} {'x' if position == 0 else wave}")
print(f"noise {model.noise_variance_**0.5:.2f}, {model.solution_.status.value}")

# %%
# Atoms can be evaluated anywhere, so the model can be drawn as finely as needed.

grid = np.linspace(0, 1, 1000)
_, axes = plt.subplots(figsize=(8, 4), layout="constrained")
axes.plot(x, y, ".", color="0.5", label="data")
axes.plot(grid, model.predict(grid[:, None]), color="#0072b2", label="fit")
axes.set(xlabel="x", ylabel="y")
axes.legend(frameon=False)
plt.show()
