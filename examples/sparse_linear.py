"""Which of 1000 columns matter?
================================

There are 200 rows and 1000 columns, of which 8 are in the truth. No cross-validation is needed to
find them.
"""

import matplotlib.pyplot as plt
import numpy as np

from sparsebayes import SparseBayesRegressor
from sparsebayes.datasets import sparse_linear

# %%
# Weights come with standard errors.

data = sparse_linear(200, 1000, k=8, snr_db=15, random_state=0)
true = np.flatnonzero(data.weights)
print(f"{data.X.shape[0]} rows, {data.X.shape[1]} columns; true:", *true)

model = SparseBayesRegressor().fit(data.X, data.y)
print("kept:", *model.relevance_)
std = np.sqrt(np.diag(model.covariance_))
for column, weight, error in zip(model.relevance_, model.weights_, std, strict=True):
    print(f"  {column:4d}  {weight:+.2f} +- {error:.2f}   (true {data.weights[column]:+.0f})")
print(f"noise: {model.noise_variance_**0.5:.2f} (true {data.noise_std:.2f})")

# %%
# What a column must be worth is the decision of the prior; ``"ric"`` is the default here.

for prior in ("bic", "ric"):
    kept = SparseBayesRegressor(prior=prior).fit(data.X, data.y).relevance_
    print(f'prior="{prior}" keeps {len(kept)}, {len(np.intersect1d(kept, true))} of them true')

# %%
# Found and true weights; the bars are two standard errors to each side.

_, axes = plt.subplots(figsize=(8, 3.5), layout="constrained")
axes.plot(true, data.weights[true], "x", color="black", label="true")
axes.errorbar(model.relevance_, model.weights_, 2 * std, fmt="o", color="#0072b2", label="found")
axes.axhline(0, color="0.8", linewidth=1, zorder=0)
axes.set(xlabel="column", ylabel="weight", xlim=(-20, 1020))
axes.legend(frameon=False)
plt.show()
