"""Which inputs does a kernel need?
===================================

Friedman's first problem has ten inputs, of which the last five do nothing. A width of the kernel
for each input is learned from the data, and tells which inputs matter.
"""

import matplotlib.pyplot as plt
import numpy as np

from sparsebayes import RVR
from sparsebayes.datasets import friedman1
from sparsebayes.plotting import RelevanceDisplay

# %%
# One width by a rule, one that is learned, and one for each input.

data = friedman1(200, random_state=0)
new = friedman1(2000, random_state=1)
for gamma in ("scale", "evidence", "ard"):
    model = RVR(gamma=gamma).fit(data.X, data.y)
    error = np.sqrt(np.mean((model.predict(new.X) - new.truth) ** 2))
    print(f"gamma={gamma!r}: {len(model.relevance_)} kernels, ", end="")
    print(f"log evidence {model.log_marginal_likelihood_:.1f}, error {error:.2f}")

# %%
# The last of them says what each input contributes.

print("relevance of each input:")
for place, share in enumerate(model.feature_relevance_):
    print(f"  x{place}  gamma {model.gamma_[place]:8.2g}  {share:6.1%}  {'#' * round(40 * share)}")

# %%
# The same on a logarithmic scale: inputs that do nothing are orders of magnitude below the others.

_, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
RelevanceDisplay.from_estimator(model, log=True, ax=axes)
axes.set_title("Friedman 1: x5 to x9 do nothing")
plt.show()
