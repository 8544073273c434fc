"""Every picture there is
=========================

A model, its classes, its probabilities, its weights and its way there: the displays of
``sparsebayes.plotting``, two at a time. They are used as those of scikit-learn are.
"""

import matplotlib.pyplot as plt
import numpy as np

from sparsebayes import RVC, RVR, SparseBayesRegressor, denoise
from sparsebayes.datasets import doppler, friedman1, mixtures, sinc
from sparsebayes.plotting import (
    AtomEvidenceDisplay,
    DecisionDisplay,
    EvidencePathDisplay,
    FitDisplay,
    RelevanceDisplay,
    ReliabilityDisplay,
    ShrinkageDisplay,
    SignalDisplay,
)


def side_by_side():
    return plt.subplots(1, 2, figsize=(8, 4), layout="constrained")[1]


# %%
# A regression with its error bands, and the way its fit took: objective, atoms and noise.

data = sinc(100, noise=0.1, random_state=0)
model = RVR(gamma=1 / 9).fit(data.X, data.y)
left, right = side_by_side()
FitDisplay.from_estimator(model, data.X, data.y, truth=lambda X: np.sinc(X / np.pi), ax=left)
path = EvidencePathDisplay.from_estimator(model, ax=right)
print(f"{path.atoms[-1]} atoms after {path.iteration[-1]} iterations")
plt.show()

# %%
# What the evidence says of one atom that is in the model, and of one that is not. No single change
# of a variance would help: that is the certificate.

left, right = side_by_side()
inside = AtomEvidenceDisplay.from_estimator(model, data.X, data.y, ax=left)
outside = AtomEvidenceDisplay.from_estimator(model, data.X, data.y, atom=0, ax=right)
print(f"best variance: {inside.best[0]:.2f} and {outside.best[0]:.2f}")
plt.show()

# %%
# Classes over two inputs, and whether their probabilities are right on rows not seen before.

points, new = mixtures(200, random_state=0), mixtures(2000, random_state=1)
classifier = RVC(gamma=4.0).fit(points.X, points.y)
left, right = side_by_side()
DecisionDisplay.from_estimator(classifier, points.X, points.y, ax=left)
print(ReliabilityDisplay.from_estimator(classifier, new.X, new.y, ax=right).caption)
plt.show()

# %%
# Which inputs matter: by the widths of a kernel (left, on a logarithmic axis), or by weights with
# their error bars.

friedman = friedman1(200, random_state=0)
left, right = side_by_side()
widths = RVR(gamma="ard").fit(friedman.X, friedman.y)
RelevanceDisplay.from_estimator(widths, log=True, ax=left)
RelevanceDisplay.from_estimator(SparseBayesRegressor().fit(friedman.X, friedman.y), ax=right)
plt.show()

# %%
# A signal with its uncertainty, and what became of its wavelet coefficients.

noisy = doppler(512, snr=7, random_state=0)
found = denoise(noisy.y)
left, right = side_by_side()
SignalDisplay.from_result(found, truth=noisy.truth, ax=left)
ShrinkageDisplay.from_result(found, ax=right)
plt.show()
