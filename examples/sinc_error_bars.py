"""Error bars, and whether they are right
=========================================

A relevance vector machine is fitted to noisy values of sin(x)/x. It says how far to trust each of
its predictions; ten thousand new observations tell whether that is true.
"""

import matplotlib.pyplot as plt
import numpy as np

from sparsebayes import RVR
from sparsebayes.datasets import sinc
from sparsebayes.plotting import FitDisplay, ReliabilityDisplay

# %%
# Of 100 kernels, one on each sample, the fit keeps a few. It estimates the noise by itself, and the
# last line is its certificate.

data = sinc(100, noise=0.1, random_state=1)
model = RVR(kernel="rbf", gamma=1 / 9).fit(data.X, data.y)
print(f"{len(model.relevance_)} of {len(data.X)} kernels kept, at x =", end=" ")
print(np.round(model.relevance_vectors_[:, 0], 1))
print(f"noise found: {model.noise_variance_**0.5:.3f} (true: {data.noise_std})")
print(f"a single change of the model gains at most {model.certificate_.max_gain:.1g} nats")

# %%
# A prediction is a distribution. Its intervals should hold as many new observations as they say.

new = sinc(10_000, noise=0.1, random_state=2)
forecast = model.predict_distribution(new.X)
print(f"error against the truth: {np.sqrt(np.mean((forecast.mean - new.truth) ** 2)):.3f}")
for level in (0.5, 0.9, 0.99):
    low, high = forecast.interval(level)
    inside = np.mean((low <= new.y) & (new.y <= high))
    print(f"{level:.0%} intervals hold {inside:.1%} of new observations")

# %%
# Left: the fit, with bands of 95 % of targets and of the function alone. Right: the same
# question as above at every level: a model that is right stays on the diagonal.

_, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
FitDisplay.from_estimator(model, data.X, data.y, truth=lambda x: np.sinc(x / np.pi), ax=left)
ReliabilityDisplay.from_estimator(model, new.X, new.y, ax=right)
plt.show()
