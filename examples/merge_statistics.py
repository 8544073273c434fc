"""Sums of four sites, merged
=============================

Four sites do not share their rows. Each fits its own with ``partial_fit``. What it sends is a
pickle of that model: products of atoms and targets, no row of the data. ``merge`` adds them up, and
the result is the model of all rows.
"""

import pickle

import matplotlib.pyplot as plt
import numpy as np

from sparsebayes import RVR
from sparsebayes.datasets import sinc

# %%
# The atoms must be agreed on before anybody looks at data.

centers = np.linspace(-10, 10, 100)[:, None]
sites = [sinc(2500, noise=0.1, random_state=number) for number in range(4)]
sent = [
    pickle.dumps(RVR(gamma=1 / 9, centers=centers).partial_fit(data.X, data.y)) for data in sites
]

# %%
# A pickle can run code: take it only from those whom you trust.

models = [pickle.loads(message) for message in sent]  # noqa: S301  (made above)
for number, model in enumerate(models):
    kept, rows = len(model.relevance_), model.n_samples_seen_
    print(f"site {number}: {rows} rows, {len(sent[number]) / 1e3:.0f} kB sent, {kept} kernels")

# %%
# One model of all sites, and for comparison a fit of all rows in one place.

joint = models[0].merge(models[1]).merge(models[2]).merge(models[3])
X, y = np.vstack([data.X for data in sites]), np.hstack([data.y for data in sites])
whole = RVR(gamma=1 / 9, centers=centers).fit(X, y)

grid = np.linspace(-10, 10, 500)[:, None]
mean = joint.predict(grid)
apart = np.abs(mean - whole.predict(grid)).max()
error = np.sqrt(np.mean((mean - np.sinc(grid[:, 0] / np.pi)) ** 2))
print(f"merged: {joint.n_samples_seen_} rows, {len(joint.relevance_)} kernels, {error = :.4f}")
print(f"a fit of all rows differs by less than 1e-8: {apart < 1e-8}")
print(f"noise: {joint.noise_variance_**0.5:.3f} (true 0.1)")

# %%
# Four times the rows halve the error bars. Drawn are those of the mean, without the noise.

_, axes = plt.subplots(figsize=(8, 4), layout="constrained")
for model, style, label in [(models[1], "C7--", "one site"), (joint, "C0-", "all four")]:
    _, std = model.predict(grid, return_std=True)
    axes.plot(grid, np.sqrt(std**2 - model.noise_variance_), style, label=label)
axes.set(xlabel="x", ylabel="standard deviation of the mean", ylim=(0, None))
axes.legend(frameon=False)
plt.show()
