"""Probabilities of classes, and whether they are right
=======================================================

Two classes overlap in the plane. A relevance vector classifier gives the probability of each class;
twenty thousand new rows tell how often it is right.
"""

import matplotlib.pyplot as plt
import numpy as np

from sparsebayes import RVC
from sparsebayes.datasets import mixtures
from sparsebayes.plotting import DecisionDisplay, ReliabilityDisplay

# %%
# A fit of 500 rows. No further parameter is searched for.

data = mixtures(500, random_state=1)
model = RVC(kernel="rbf", gamma=4.0).fit(data.X, data.y)
print(f"{len(model.relevance_)} of {len(data.X)} kernels kept, ", end="")
print(f"log evidence {model.log_marginal_likelihood_:.1f}")
print(f"a single change of the model gains at most {model.certificate_.max_gain:.1g} nats")

# %%
# The truth is known here, so its own share of errors is the least that can be reached.
# Probabilities are averaged over the posterior of the weights; ``plug_in=True`` gives those at the
# most probable weights alone.

new = mixtures(20_000, random_state=2)
least = np.mean((new.probability > 0.5) != new.y)
print(f"errors: {1 - model.score(new.X, new.y):.1%} of new rows (truth: {least:.1%})")
for name, plug_in in ("averaged", False), ("plug-in", True):
    log_proba = model.predict_log_proba(new.X, plug_in=plug_in)
    print(f"log loss, {name}: {-log_proba[np.arange(len(new.y)), new.y].mean():.3f}")
probability = model.predict_proba(new.X)[:, 1]
for low in (0.0, 0.2, 0.4, 0.6, 0.8):
    rows = (low <= probability) & (probability < low + 0.2)
    said, seen = probability[rows].mean(), new.y[rows].mean()
    print(f"class 1 in {seen:.0%} of {rows.sum():4d} rows where {said:.0%} was predicted")

ReliabilityDisplay.from_estimator(model, new.X, new.y)
plt.show()

# %%
# The probability of class 1 at every place, with the relevance vectors as rings.

# sphinx_gallery_thumbnail_number = 2
DecisionDisplay.from_estimator(model, data.X, data.y)
plt.show()
